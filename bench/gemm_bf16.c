/* gemm_bf16 M N K ROUNDS [THREADS]: the product of gemm.dsl with factors of bf16 (nn_bf16) against the same in f32 (nn)
 * and, built with -DONEDNN, against oneDNN's matrix product of the same factors, as they lie.  Prints
 *     seconds seconds_f32 seconds_onednn
 * `-` where there is none.  Rounds, caches, threads and what is verified are as in gemm.c. */
#include "bench/model.h"
#include "bench/onednn_matmul.h"
#include "bench/rounds.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn.h"
#include "nn_bf16.h"
BENCH_FORM(nn)
BENCH_FORM(nn_bf16)

typedef struct Shape {
    int m, n, k;
} Shape;

static double widened(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Products of two bf16 are exact in f32, the sums of k of them as in gemm.c. */
static void check(const char *who, const Shape *s, const uint16_t *a, const uint16_t *b, const float *c) {
    uint32_t state = 7;
    for (int i = 0; i < 64; i++) {
        state = state * 1664525u + 1013904223u;
        const int row = (int)((state >> 5) % (unsigned)s->m), column = (int)((state >> 3) % (unsigned)s->n);
        double sum = 0, size = 0;
        for (int64_t k = 0; k < s->k; k++) {
            const double term = widened(a[row * (int64_t)s->k + k]) * widened(b[k * s->n + column]);
            sum += term;
            size += fabs(term);
        }
        const double got = c[(int64_t)row * s->n + column];
        if (fabs(got - sum) <= 2e-6 * size + 1e-30) continue;
        fprintf(stderr, "gemm_bf16: %s: wrong result: [%d,%d] is %.9g, not %.9g\n", who, row, column, got, sum);
        exit(1);
    }
}

static double timed(BenchModel *m, unsigned char *other, int threads) {
    memset(m->outputs[0], 0xff, m->form->manifest->outputs[0].bytes);
    evict(other);
    bench_spread_threads(threads);
    const double start = bench_clock(threads);
    bench_infer(m, m->outputs);
    return bench_clock(threads) - start;
}

int main(int argc, char **argv) {
    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: gemm_bf16 M N K ROUNDS [THREADS]\n");
        return 2;
    }
    const Shape s = {atoi(argv[1]), atoi(argv[2]), atoi(argv[3])};
    const int threads = argc == 6 ? atoi(argv[5]) : fusec_pool_cores();
    BenchModel low, full;
    double seconds = 0, full_seconds = 0, peer_seconds = 0;
    bench_open(&low, &nn_bf16_form, threads);
    bench_open(&full, &nn_form, threads);
    const uint16_t *a = low.inputs[0],
                   *b = (const void *)((const char *)low.memory.params + low.form->manifest->params[0].offset);
    float *c = malloc(sizeof(float) * (size_t)s.m * (size_t)s.n);
    unsigned char *other = calloc(EVICT_BYTES, 1);
    MatmulPeer *peer = matmul_open(s.m, s.n, s.k, a, b, c);
    if (!c || !other) return 1;
    for (int i = 0; i < atoi(argv[4]); i++) {
        keep_least(&seconds, timed(&low, other, threads));
        check("the model", &s, a, b, low.outputs[0]);
        keep_least(&full_seconds, timed(&full, other, threads));
        if (!peer) continue;
        evict(other);
        bench_spread_threads(threads);
        const double start = bench_clock(threads);
        matmul_run(peer);
        keep_least(&peer_seconds, bench_clock(threads) - start);
        check("oneDNN", &s, a, b, c);
    }
    printf("%.9f %.9f ", seconds, full_seconds);
    if (peer)
        printf("%.9f\n", peer_seconds);
    else
        printf("-\n");
    matmul_close(peer);
    bench_close(&low);
    bench_close(&full);
    free(c);
    free(other);
    return 0;
}
