/* Running an emitted host model from a benchmark: memory with a canary, inputs drawn from a fixed seed, timed
 * steps.  What is reported as used is counted from the bytes that changed, never read from the manifest. */
#ifndef FUSEC_BENCH_MODEL_H
#define FUSEC_BENCH_MODEL_H
#include "runtime/host/host.h"
#include <stdbool.h>

typedef struct BenchModel {
    fusec_host host;
    fusec_memory memory;
    const void **inputs;
    void **outputs;
    const float *hypers;   /* NULL: the defaults */
    int32_t step;          /* steps taken */
    uint64_t arena_mapped; /* bytes of arena, canary page included */
} BenchModel;

double bench_now(void); /* seconds, monotonic */

/* Allocates, fills inputs (floats in [-1, 1), integers in their range) and runs `init`.  Ends the process with a
 * message on any error, as all of these do. */
void bench_open(BenchModel *m, const fusec_manifest *manifest, const fusec_host_kernel *kernels, int threads);

/* One step; seconds. */
double bench_step(BenchModel *m);

/* One call of infer; seconds.  outputs: as m->outputs, NULL where one is not wanted. */
double bench_infer(BenchModel *m, void *const *outputs);

/* Output 0 of the last step, a float32 scalar. */
float bench_loss(const BenchModel *m);

/* Highest byte of the arena that was written since bench_open, plus 1.  Fails if the canary behind the arena was
 * touched. */
uint64_t bench_arena_used(const BenchModel *m);

/* One step launch by launch: seconds per kernel are added to seconds[kernel], launches to count[kernel]. */
void bench_profile(BenchModel *m, double *seconds, int *count);

void bench_close(BenchModel *m);

/* peak.c: FLOP/s of fused multiply-adds in registers (f32, the widest vectors), all threads at once. */
double bench_fma_peak(int threads);

#endif
