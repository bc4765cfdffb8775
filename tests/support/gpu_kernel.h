/* One kernel on the software GPU, called by the runtime that ships: what it reads are inputs, what it writes are
 * outputs. */
#ifndef FUSEC_TESTS_GPU_KERNEL_H
#define FUSEC_TESTS_GPU_KERNEL_H
#include "ir/module.h"
#include "passes/kernel/matrix.h"
#include "runtime/cuda/fusec_cuda.h"
#include "tests/support/kernel_case.h"
#include "tools/ptxsim/ptxsim.h"

/* For cmocka groups: opens the software GPU beside a folder for files (scratch_remove ends it). */
int gpu_setup(void **state);

Module *gpu_module(Arena *a, Kernel *k);

typedef struct GpuCase {
    Arena *a;
    Kernel *k;
    const fusec_manifest *manifest;
    char *ptx; /* the caller frees it */
    int32_t syms[4];
    const void *in[MAX_BUFFERS];
    void *out[MAX_BUFFERS];
    TileMemory want[MAX_BUFFERS]; /* the interpreter's results */
    int multiprocessors;          /* that a persistent kernel finds; 0: as many as the device has */
} GpuCase;
void gpu_open(GpuCase *c, Arena *a, Kernel *k, const char *arch, const int32_t *syms);
/* One call under a seed's schedule; how many findings there were. */
uint64_t gpu_run(GpuCase *c, int seed);
/* The same, without findings: its figures. */
ptxsim_kernel gpu_count(GpuCase *c);
/* tf32 keeps 10 bits of each factor; half formats round the result. */
void gpu_check_numbers(const GpuCase *c, double slack);

/* y = relu(x w + bias) over one tile size, as it is emitted before it is scheduled. */
typedef struct ProductKernel {
    const char *name, *type; /* bf16, f16; tf32: of f32 that is rounded */
    int m, n, k, sum;        /* extents; elements summed per iteration */
    bool x_turned, w_turned; /* x[k, m], w[n, k] in memory */
    char summed;             /* 'm', 'n': each tile of the result is summed along that axis too; 0: it is not */
} ProductKernel;
/* Scheduled with the tile; NULL and *why: it cannot be. */
Kernel *product_kernel(Arena *a, const ProductKernel *p, const MatrixTile *t, const char *target, const char **why);

#endif
