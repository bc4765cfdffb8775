/* ablation ROUNDS: a training step of bench/mlp4096.dsl with jacobian_gemm against one of per-sample products
 * (-fno-jacobian-gemm), and these against the same matrix-vector and outer products by OpenBLAS, where it is installed, on all
 * cores.  Prints the two ratios, the second `-` without it.  Verified in the timed run: the losses agree. */
#include "bench/median.h"
#include "bench/model.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include BENCH_HEADER(merged)
#include BENCH_HEADER(single)
BENCH_FORM(merged)
BENCH_FORM(single)

/* ---- the same products by an installed BLAS --------------------------------------------------------------------- */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 }; /* of the CBLAS interface */

typedef struct Blas {
    void (*gemv)(int order, int transpose, int m, int n, float alpha, const float *a, int lda, const float *x, int incx,
                 float beta, float *y, int incy);
    void (*ger)(int order, int m, int n, float alpha, const float *x, int incx, const float *y, int incy, float *a, int lda);
    float *w, *dw, *x, *y;
} Blas;

static bool find_function(void *library, const char *name, void *function) {
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool blas_open(Blas *b, size_t batch, size_t width) {
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!find_function(library, "cblas_sgemv", &b->gemv) || !find_function(library, "cblas_sger", &b->ger)) return false;
    b->w = malloc(width * width * sizeof(float));
    b->dw = malloc(width * width * sizeof(float));
    b->x = malloc(batch * width * sizeof(float));
    b->y = malloc(batch * width * sizeof(float));
    if (!b->w || !b->dw || !b->x || !b->y) exit(1);
    for (size_t i = 0; i < width * width; i++) b->w[i] = (float)(i % 7) / 7 - 0.4f, b->dw[i] = 0;
    for (size_t i = 0; i < batch * width; i++) b->x[i] = (float)(i % 5) / 5 - 0.4f, b->y[i] = 0;
    return true;
}

/* What the step multiplies, sample by sample: two layers forward, one gradient by activations, two by weights. */
static double blas_step(const Blas *b, int batch, int n) {
    enum { PRODUCTS = 5 };
    bench_spread_threads(fusec_pool_cores());
    const double start = bench_now();
    for (int i = 0; i < PRODUCTS; i++)
        for (int s = 0; s < batch; s++) {
            const float *x = b->x + (size_t)s * (size_t)n;
            float *y = b->y + (size_t)s * (size_t)n;
            if (i < 2) b->gemv(ROW_MAJOR, TRANSPOSE, n, n, 1, b->w, n, x, 1, 0, y, 1);
            else if (i == 2) b->gemv(ROW_MAJOR, NO_TRANSPOSE, n, n, 1, b->w, n, x, 1, 0, y, 1);
            else b->ger(ROW_MAJOR, n, n, 1, x, 1, y, 1, b->dw, n);
        }
    return bench_now() - start;
}

static void blas_close(Blas *b) { free(b->w), free(b->dw), free(b->x), free(b->y); }

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 0;
    if (rounds < 1 || rounds > 100) {
        fprintf(stderr, "usage: ablation ROUNDS\n");
        return 2;
    }
    BenchModel merged, single;
    bench_open(&merged, &merged_form, fusec_pool_cores());
    bench_open(&single, &single_form, fusec_pool_cores());
    const int batch = (int)merged_manifest.inputs[0].dim[0], width = (int)merged_manifest.inputs[0].dim[1];
    double seconds[3][100];
    Blas library = {0};
    const bool has_blas = blas_open(&library, (size_t)batch, (size_t)width);
    for (int i = 0; i < rounds; i++) {
        seconds[0][i] = bench_step(&merged);
        seconds[1][i] = bench_step(&single);
        seconds[2][i] = has_blas ? blas_step(&library, batch, width) : 0;
        const double a = bench_loss(&merged), b = bench_loss(&single);
        if (!(fabs(a - b) <= 1e-4 * fabs(a)) || !(a > 0)) {
            fprintf(stderr, "ablation: losses %g and %g differ\n", a, b);
            return 1;
        }
    }
    const double on = bench_median(seconds[0], rounds), off = bench_median(seconds[1], rounds);
    const double blas = bench_median(seconds[2], rounds);
    printf(has_blas ? "%.4f %.4f\n" : "%.4f -\n", off / on, off / blas);
    fprintf(stderr, "ablation: %.3f s; per sample %.3f s, by BLAS %.3f s\n", on, off, blas);
    blas_close(&library);
    bench_close(&merged);
    bench_close(&single);
    return 0;
}
