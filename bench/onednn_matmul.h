/* A matrix product of bf16 by oneDNN, row-major, sums in f32: the peer of bench/gemm_bf16.c. */
#ifndef FUSEC_BENCH_ONEDNN_MATMUL_H
#define FUSEC_BENCH_ONEDNN_MATMUL_H
#include <stdint.h>

typedef struct MatmulPeer MatmulPeer;

#ifdef ONEDNN
/* c[m, n] = a[m, k] b[k, n]; NULL: oneDNN has no implementation. */
MatmulPeer *matmul_open(int m, int n, int k, const uint16_t *a, const uint16_t *b, float *c);
void matmul_run(MatmulPeer *p);
void matmul_close(MatmulPeer *p);
#else
static inline MatmulPeer *matmul_open(int m, int n, int k, const uint16_t *a, const uint16_t *b, float *c) {
    (void)m, (void)n, (void)k, (void)a, (void)b, (void)c;
    return (void *)0;
}
static inline void matmul_run(MatmulPeer *p) { (void)p; }
static inline void matmul_close(MatmulPeer *p) { (void)p; }
#endif

#endif
