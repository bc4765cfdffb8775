/* The machine's rate of fused multiply-adds: chains in registers, enough of them to hide the latency. */
#include "bench/model.h"
#include <pthread.h>
#include <stdlib.h>

enum { CHAINS = 16, WIDTH = 16, ROUNDS = 1 << 16 };
typedef float Vector __attribute__((vector_size(WIDTH * sizeof(float))));

typedef struct Worker {
    pthread_barrier_t *start;
    double seconds;
    float sink; /* read by nobody, but the compiler cannot know */
    long rounds;
} Worker;

static Vector spread(float x) {
    Vector v;
    for (int i = 0; i < WIDTH; i++) v[i] = x;
    return v;
}

/* x <- x * a + b stays bounded: |a| < 1. */
static float chains(Vector *x, Vector a, Vector b) {
    Vector r[CHAINS], sum = spread(0);
    for (int c = 0; c < CHAINS; c++) r[c] = x[c];
    for (long i = 0; i < ROUNDS; i++) {
#pragma GCC unroll 16
        for (int c = 0; c < CHAINS; c++) r[c] = r[c] * a + b;
    }
    for (int c = 0; c < CHAINS; c++) sum += x[c] = r[c];
    return sum[0];
}

static void *work(void *arg) {
    Worker *w = arg;
    Vector x[CHAINS];
    volatile float a = 0.99f, b = 0.01f;
    for (int c = 0; c < CHAINS; c++) x[c] = spread((float)c);
    pthread_barrier_wait(w->start);
    const double start = bench_now();
    do {
        w->sink += chains(x, spread(a), spread(b));
        w->rounds += ROUNDS;
        w->seconds = bench_now() - start;
    } while (w->seconds < 0.2);
    return NULL;
}

double bench_fma_peak(int threads) {
    enum { MOST = 256 };
    static const double flops_per_round = 2.0 * CHAINS * WIDTH;
    pthread_barrier_t start;
    pthread_t thread[MOST];
    Worker worker[MOST];
    double sum = 0;
    if (threads > MOST) threads = MOST;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        worker[i] = (Worker){.start = &start};
        if (pthread_create(&thread[i], NULL, work, &worker[i])) exit(1);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        sum += flops_per_round * (double)worker[i].rounds / worker[i].seconds;
    }
    pthread_barrier_destroy(&start);
    return sum;
}
