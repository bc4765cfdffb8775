/* Runs a model on the host: what the functions of an emitted model.h call.
 *
 * The caller owns fusec_host and all memory; nothing is allocated except, in fusec_host_init, the threads
 * of the pool (ended by fusec_host_free).  Results do not depend on the number of threads: the grid of a
 * kernel is cut into pieces by program number alone.  One fusec_host may be used by one thread at a time;
 * several may run at once. */
#ifndef FUSEC_HOST_H
#define FUSEC_HOST_H
#include "runtime/common/fusec.h"

/* Runs programs [first, last) of a kernel's grid, the last grid axis varying fastest.  syms: the model's
 * extents, then the launch's constants. */
typedef void (*fusec_host_kernel)(void *const *buffers, const int64_t *syms, int64_t first, int64_t last);

enum { FUSEC_HOST_MAX_SYMS = 64, FUSEC_HOST_MAX_HYPERS = 61, FUSEC_HOST_PIECES = 64 };

typedef struct fusec_pool fusec_pool;

typedef struct fusec_host {
    const fusec_manifest *manifest;
    const fusec_host_kernel *kernels; /* by manifest.kernels */
    fusec_memory memory;
    fusec_options options;
    fusec_pool *pool;                           /* NULL: run in the caller's thread, or by options.parallel_for */
    uint32_t scalar[3 + FUSEC_HOST_MAX_HYPERS]; /* REGION_SCALAR: step, seed, accumulate, hypers */
} fusec_host;

/* What one call works on.  inputs, outputs: one pointer per tensor of the manifest, dense at the bounds;
 * kernels that only NULL outputs need are skipped.
 * syms: one run-time extent each; NULL: the bounds.  hypers: one each; NULL: the defaults. */
typedef struct fusec_host_call {
    const void *const *inputs;
    void *const *outputs;
    const int32_t *syms;
    const float *hypers;
    int32_t step; /* from 1 */
} fusec_host_call;

/* options may be NULL: all cores, seed 0.  FUSEC_E_ARGUMENT: a NULL pointer; FUSEC_E_VERSION: another ABI;
 * FUSEC_E_UNSUPPORTED: more symbols or hypers than the limits above; FUSEC_E_MEMORY: no thread can be made.
 * Memory is checked by fusec_host_run, against the entry that runs; on Linux large parts of it are asked to lie in large
 * pages (madvise); what was touched before stays where it is. */
fusec_status fusec_host_init(fusec_host *h, const fusec_manifest *m, const fusec_host_kernel *kernels,
                             const fusec_memory *memory, const fusec_options *options);
/* entry: FUSEC_INIT .. FUSEC_STEP, FUSEC_GRAD | FUSEC_ACCUMULATE, FUSEC_STEP | FUSEC_LINE(l) | ...  Errors as fusec_check() gives them; nothing has run
 * then. */
fusec_status fusec_host_run(fusec_host *h, int entry, const fusec_host_call *call);
void fusec_host_free(fusec_host *h); /* h may be all zero */

/* pool.c: run(ctx, i) for 0 <= i < n, on `threads` threads of which the caller's is one; without `wake` those that
 * sleep sleep on.  On Linux, where there are processors enough, the others are kept off the one that the caller runs on
 * (sched_setaffinity). */
fusec_pool *fusec_pool_new(int threads); /* NULL if a thread cannot be made */
void fusec_pool_run(fusec_pool *p, int n, void (*run)(void *ctx, int i), void *ctx, int wake);
void fusec_pool_free(fusec_pool *p); /* NULL is allowed */
int fusec_pool_cores(void);          /* at least 1 */
/* Linux: asks for large pages where memory that is still to be touched is large (madvise); elsewhere nothing. */
void fusec_pool_large_pages(void *memory, uint64_t bytes);

#endif
