/* Runs a model on the host: what NAME_init and NAME_step of an emitted model.h call.
 *
 * The caller owns fusec_host and all memory; nothing is allocated except, in fusec_host_init, the threads
 * of the pool (freed by fusec_host_free).  Results do not depend on the number of threads: the grid of a
 * kernel is cut into pieces by program number alone.  One fusec_host may be used by one thread at a time;
 * several may run at once. */
#ifndef FUSEC_HOST_H
#define FUSEC_HOST_H
#include "runtime/common/fusec.h"

typedef void (*fusec_host_kernel)(void *const *buffers, const int64_t *syms, int64_t first, int64_t last);

typedef struct fusec_pool fusec_pool;

enum { FUSEC_HOST_MAX_ARGS = 256, FUSEC_HOST_MAX_SYMS = 64, FUSEC_HOST_MAX_HYPERS = 64 };

typedef struct fusec_host {
    const fusec_manifest *manifest;
    const fusec_host_kernel *kernels;
    fusec_memory memory;
    fusec_options options;
    fusec_pool *pool;              /* NULL: run in the caller's thread, or by options.parallel_for */
    uint32_t scalar[3 + FUSEC_HOST_MAX_HYPERS]; /* REGION_SCALAR: step, seed, accumulate, hypers */
} fusec_host;

/* What one call works on.  inputs, outputs: one pointer per tensor of the manifest; outputs[i] may be NULL
 * in entry infer, when its kernels are skipped.  syms: one run-time extent each, in [1, bound]; NULL: the
 * bounds.  hypers: one each; NULL: the defaults.  step counts from 1. */
typedef struct fusec_host_call {
    const void *const *inputs;
    void *const *outputs;
    const int64_t *syms;
    const float *hypers;
    int32_t step;
    int32_t accumulate; /* entry grad: add to the gradients already there */
} fusec_host_call;

/* options may be NULL: all cores, seed 0.  memory: regions that no entry in use needs may be NULL.
 * FUSEC_E_ARGUMENT: a NULL or misaligned pointer; FUSEC_E_VERSION: another ABI; FUSEC_E_MEMORY: a region is
 * too small for parameters or state, or the pool's threads cannot be had. */
fusec_status fusec_host_init(fusec_host *h, const fusec_manifest *m, const fusec_host_kernel *kernels, const fusec_memory *memory,
                             const fusec_options *options);
/* entry: FUSEC_INIT .. FUSEC_STEP.  FUSEC_E_UNSUPPORTED: not compiled in; FUSEC_E_RANGE: an integer input
 * outside its declared range (nothing has run then). */
fusec_status fusec_host_run(fusec_host *h, int entry, const fusec_host_call *call);
void fusec_host_free(fusec_host *h); /* ends the threads; h may be all zero */

#endif
