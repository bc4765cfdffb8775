/* The machine's rate of fused multiply-adds: chains in registers, enough of them to hide the latency; and of a block of a product
 * whose factors stay in the innermost cache, which a core that is shared with others disturbs more. */
#include "bench/model.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

enum { BLOCK_ROWS = 12, BLOCK_VECTORS = 2, BLOCK_SUMS = 128 };

/* C[rows][columns] += X[rows][k] Y[k][columns], a vector of C for each row and vector of columns in a register. */
static void block(Vector c[BLOCK_ROWS][BLOCK_VECTORS], const float *x, const Vector *y) {
    Vector r[BLOCK_ROWS][BLOCK_VECTORS];
    memcpy(r, c, sizeof r);
    for (int k = 0; k < BLOCK_SUMS; k++)
#pragma GCC unroll 12
        for (int i = 0; i < BLOCK_ROWS; i++)
#pragma GCC unroll 2
            for (int v = 0; v < BLOCK_VECTORS; v++) r[i][v] += spread(x[i * BLOCK_SUMS + k]) * y[BLOCK_VECTORS * k + v];
    memcpy(c, r, sizeof r);
}

static void *blocks(void *arg) {
    Worker *w = arg;
    static const int x_floats = BLOCK_ROWS * BLOCK_SUMS, y_vectors = BLOCK_SUMS * BLOCK_VECTORS;
    Vector *y = aligned_alloc(sizeof *y, sizeof *y * (size_t)y_vectors), c[BLOCK_ROWS][BLOCK_VECTORS];
    float *x = malloc(sizeof *x * (size_t)x_floats);
    if (!x || !y) exit(1);
    for (int i = 0; i < x_floats; i++) x[i] = i % 2 ? 0.01f : -0.01f;
    for (int i = 0; i < y_vectors; i++) y[i] = spread(0.5f);
    memset(c, 0, sizeof c);
    pthread_barrier_wait(w->start);
    const double start = bench_now();
    do {
        for (int i = 0; i < 256; i++) block(c, x, y);
        w->sink += c[0][0][0];
        w->rounds += 256L * BLOCK_SUMS * BLOCK_ROWS * BLOCK_VECTORS;
        w->seconds = bench_now() - start;
    } while (w->seconds < 0.2);
    free(x);
    free(y);
    return NULL;
}

static void *copies(void *arg) {
    enum { BYTES = 64 << 20 };
    Worker *w = arg;
    char *from = malloc(BYTES), *to = malloc(BYTES);
    if (!from || !to) exit(1);
    memset(from, 1, BYTES);
    memset(to, 2, BYTES);
    pthread_barrier_wait(w->start);
    const double start = bench_now();
    do {
        memcpy(to, from, BYTES);
        from[w->rounds % BYTES] = to[BYTES / 2]; /* so that it is made each time */
        w->rounds += 2 * (long)BYTES;
        w->seconds = bench_now() - start;
    } while (w->seconds < 0.2);
    free(from);
    free(to);
    return NULL;
}

/* What all threads do together: the sum of their rounds a second. */
static double together(int threads, void *run(void *)) {
    enum { MOST = 256 };
    pthread_barrier_t start;
    pthread_t thread[MOST];
    Worker worker[MOST];
    double sum = 0;
    if (threads > MOST) threads = MOST;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        worker[i] = (Worker){.start = &start};
        if (pthread_create(&thread[i], NULL, run, &worker[i])) exit(1);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        sum += (double)worker[i].rounds / worker[i].seconds;
    }
    pthread_barrier_destroy(&start);
    return sum;
}

double bench_fma_peak(int threads) { return 2.0 * CHAINS * WIDTH * together(threads, work); }
double bench_block_peak(int threads) { return 2.0 * WIDTH * together(threads, blocks); }
double bench_copy_peak(int threads) { return together(threads, copies); }
