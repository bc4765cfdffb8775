/* Running an emitted host model from a benchmark: memory with a canary, inputs drawn from a fixed seed, timed
 * steps.  What is reported as used is counted from the bytes that changed, never read from the manifest. */
#ifndef FUSEC_BENCH_MODEL_H
#define FUSEC_BENCH_MODEL_H
#include "runtime/host/host.h"
#include <stdbool.h>

#define BENCH_TEXT(x) #x
#define BENCH_PASTE(a, b) a##b
#define BENCH_NAMED(model, what) BENCH_PASTE(model, what)
#define BENCH_HEADER_(header) BENCH_TEXT(header)
#define BENCH_HEADER(model) BENCH_HEADER_(model.h) /* #include BENCH_HEADER(NAME): what fusec wrote beside NAME.o */

/* The functions of MODEL.h, with the model's own types taken away. */
typedef struct BenchForm {
    const fusec_manifest *manifest;
    size_t bytes; /* of one context */
    fusec_status (*init)(void *model, const fusec_memory *memory, const fusec_options *options);
    fusec_status (*run)(void *model, int entry, const void *const *inputs, void *const *outputs, const float *hypers,
                        int32_t step);
    void (*free)(void *model);
    fusec_host *(*host)(void *model);
} BenchForm;

/* BENCH_FORM(NAME) defines NAME_form. */
#define BENCH_FORM(model) BENCH_FORM_(model)
#define BENCH_FORM_(model) \
    static fusec_status model##_form_init(void *m, const fusec_memory *memory, const fusec_options *options) { \
        return model##_init(m, memory, options); \
    } \
    static fusec_status model##_form_run(void *m, int entry, const void *const *inputs, void *const *outputs, \
                                         const float *hypers, int32_t step) { \
        return model##_run(m, entry, inputs, outputs, hypers, step, 0, NULL); \
    } \
    static void model##_form_free(void *m) { model##_free(m); } \
    static fusec_host *model##_form_host(void *m) { return &((model *)m)->host; } \
    static const BenchForm model##_form = {&model##_manifest, sizeof(model), model##_form_init, model##_form_run, \
                                           model##_form_free, model##_form_host};

typedef struct BenchModel {
    const BenchForm *form;
    void *context; /* of MODEL.h */
    fusec_memory memory;
    const void **inputs;
    void **outputs;
    const float *hypers;   /* NULL: the defaults */
    int32_t step;          /* steps taken */
    uint64_t arena_mapped; /* bytes of arena, canary page included */
} BenchModel;

double bench_now(void);          /* seconds, monotonic */
double bench_clock(int threads); /* the same; of one thread the process's time, which other work disturbs less */

/* spread.c: every other thread of the process keeps off the processor that the caller is on.  To be called before each
 * time that is taken of several threads, the peers' as ours. */
void bench_spread_threads(int threads);

/* Allocates, fills inputs (floats in [-1, 1), integers in their range) and runs `init`.  Ends the process with a
 * message on any error, as all of these do. */
void bench_open(BenchModel *m, const BenchForm *form, int threads);

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
double bench_block_peak(int threads); /* the same of 12 rows and two vectors of columns, whose factors are in the innermost cache */
double bench_copy_peak(int threads); /* bytes read and written a second, of blocks that no cache holds */

#endif
