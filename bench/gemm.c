/* gemm M N K BATCH LEFT_TRANSPOSED RIGHT_TRANSPOSED ROUNDS [THREADS]: one emitted product (-DMODEL=NAME, a model of
 * gemm.dsl) against the sgemm of the BLAS libraries that are installed, called batch by batch.  Prints
 *     seconds best_seconds best_name of_peak
 * `-` for best_name if there is no library.  In every round each takes its turn on THREADS threads (all cores) after
 * the caches were filled with other data; the best round counts, as it does for the peak, which is measured in the same
 * rounds.  One thread's time is processor time; the libraries are told in their own ways to use one.
 * Verified in the timed run: entries of every result against sums in double. */
#include "bench/model.h"
#include "bench/rounds.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include BENCH_HEADER(MODEL)
BENCH_FORM(MODEL)

typedef struct Shape {
    int m, n, k, batch, turned[2];
} Shape;

/* ---- libraries -------------------------------------------------------------------------------------------------- */
typedef void CblasSgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                        const float *b, int ldb, float beta, float *c, int ldc);
typedef int DnnlSgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                      const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

typedef struct Library {
    const char *name, *file, *symbol;
    void *function;
} Library;

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

static void call_library(const Library *l, const Shape *s, const float *a, const float *b, float *c) {
    const int lda = s->turned[0] ? s->m : s->k, ldb = s->turned[1] ? s->k : s->n;
    for (int i = 0; i < s->batch; i++) {
        const float *x = a + (int64_t)i * s->m * s->k, *y = b + (int64_t)i * s->k * s->n;
        float *z = c + (int64_t)i * s->m * s->n;
        if (l->symbol[0] == 'd') {
            DnnlSgemm *f;
            memcpy(&f, &l->function, sizeof f);
            f(s->turned[0] ? 'T' : 'N', s->turned[1] ? 'T' : 'N', s->m, s->n, s->k, 1, x, lda, y, ldb, 0, z, s->n);
        } else {
            CblasSgemm *f;
            memcpy(&f, &l->function, sizeof f);
            f(ROW_MAJOR, s->turned[0] ? TRANSPOSED : PLAIN, s->turned[1] ? TRANSPOSED : PLAIN, s->m, s->n, s->k, 1, x,
              lda, y, ldb, 0, z, s->n);
        }
    }
}

/* Each in a namespace of its own: two define cblas_sgemm. */
static int open_libraries(Library *l, int n) {
    int found = 0;
    for (int i = 0; i < n; i++) {
        void *handle = dlopen(l[i].file, RTLD_NOW | RTLD_LOCAL);
        l[i].function = handle ? dlsym(handle, l[i].symbol) : NULL;
        found += l[i].function != NULL;
        if (!l[i].function) fprintf(stderr, "gemm: %s is not installed\n", l[i].name);
    }
    return found;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */
static double exact(const Shape *s, const float *a, const float *b, int batch, int row, int column, double *size) {
    double sum = 0;
    *size = 0;
    a += (int64_t)batch * s->m * s->k;
    b += (int64_t)batch * s->k * s->n;
    for (int64_t k = 0; k < s->k; k++) {
        const double x = s->turned[0] ? a[k * s->m + row] : a[row * (int64_t)s->k + k];
        const double y = s->turned[1] ? b[column * (int64_t)s->k + k] : b[k * s->n + column];
        sum += x * y;
        *size += fabs(x * y);
    }
    return sum;
}

/* Sums of k terms in f32, in any order: 2e-6 of the sum of magnitudes is far above what rounding does to them. */
static void check(const char *who, const Shape *s, const float *a, const float *b, const float *c) {
    uint32_t state = 7;
    for (int i = 0; i < 64; i++) {
        state = state * 1664525u + 1013904223u;
        const int batch = (int)((state >> 8) % (unsigned)s->batch), row = (int)((state >> 5) % (unsigned)s->m),
                  column = i == 0 ? s->n - 1 : (int)((state >> 3) % (unsigned)s->n);
        double size;
        const double want = exact(s, a, b, batch, row, column, &size);
        const float got = c[((int64_t)batch * s->m + row) * s->n + column];
        if (fabs(got - want) <= 2e-6 * size + 1e-30) continue;
        fprintf(stderr, "gemm: %s: wrong result: [%d,%d,%d] is %.9g, not %.9g\n", who, batch, row, column, (double)got,
                want);
        exit(1);
    }
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */
typedef struct Contest {
    Shape shape;
    BenchModel model;
    Library blas[3];
    double ours, theirs[3], peak;
    const float *a, *b;
    float *c;
    unsigned char *other;
} Contest;

static void one_round(Contest *t, int threads) {
    const size_t bytes = sizeof(float) * (size_t)t->shape.m * (size_t)t->shape.n * (size_t)t->shape.batch;
    for (int i = 0; i < 3; i++) {
        if (!t->blas[i].function) continue;
        memset(t->c, 0xff, bytes);
        evict(t->other);
        bench_spread_threads(threads);
        const double start = bench_clock(threads);
        call_library(&t->blas[i], &t->shape, t->a, t->b, t->c);
        keep_least(&t->theirs[i], bench_clock(threads) - start);
        check(t->blas[i].name, &t->shape, t->a, t->b, t->c);
    }
    memset(t->model.outputs[0], 0xff, bytes);
    evict(t->other);
    bench_spread_threads(threads);
    const double start = bench_clock(threads);
    bench_infer(&t->model, t->model.outputs);
    keep_least(&t->ours, bench_clock(threads) - start);
    check("the model", &t->shape, t->a, t->b, t->model.outputs[0]);
    const double peak = bench_fma_peak(threads);
    if (peak > t->peak) t->peak = peak;
}

static void report(const Contest *t) {
    const double flops = 2.0 * t->shape.m * t->shape.n * t->shape.k * t->shape.batch;
    int best = -1;
    for (int i = 0; i < 3; i++) {
        if (!t->blas[i].function) continue;
        fprintf(stderr, "gemm: %-8s %8.1f GFLOP/s\n", t->blas[i].name, 1e-9 * flops / t->theirs[i]);
        if (best < 0 || t->theirs[i] < t->theirs[best]) best = i;
    }
    fprintf(stderr, "gemm: %-8s %8.1f GFLOP/s of %.1f\n", "model", 1e-9 * flops / t->ours, 1e-9 * t->peak);
    printf("%.9f %.9f %s %.4f\n", t->ours, best < 0 ? 0 : t->theirs[best], best < 0 ? "-" : t->blas[best].name,
           flops / t->ours / t->peak);
}

int main(int argc, char **argv) {
    Contest t = {.blas = {{"oneDNN", "libdnnl.so.2", "dnnl_sgemm", NULL},
                          {"OpenBLAS", "libopenblas.so.0", "cblas_sgemm", NULL},
                          {"BLIS", "libblis.so.4", "cblas_sgemm", NULL}}};
    if (argc != 8 && argc != 9) {
        fprintf(stderr, "usage: gemm M N K BATCH LEFT_TRANSPOSED RIGHT_TRANSPOSED ROUNDS [THREADS]\n");
        return 2;
    }
    t.shape = (Shape){atoi(argv[1]), atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), {atoi(argv[5]), atoi(argv[6])}};
    const int threads = argc == 9 ? atoi(argv[8]) : fusec_pool_cores();
    open_libraries(t.blas, 3);
    bench_open(&t.model, &BENCH_NAMED(MODEL, _form), threads);
    t.a = t.model.inputs[0];
    t.b = (const float *)((const char *)t.model.memory.params + t.model.form->manifest->params[0].offset);
    t.c = malloc(sizeof(float) * (size_t)t.shape.m * (size_t)t.shape.n * (size_t)t.shape.batch);
    t.other = calloc(EVICT_BYTES, 1);
    if (!t.c || !t.other) return 1;
    for (int i = 0; i < atoi(argv[7]); i++) one_round(&t, threads);
    report(&t);
    bench_close(&t.model);
    free(t.c);
    free(t.other);
    return 0;
}
