/* Peaks that targets.def does not have follow from those that it has.  Sources: NVIDIA A100 and H100 datasheets (dense
 * matrix rates: tf32 half of f16, integers and 8-bit floats twice; f64 as f32's vector rate in matrices, half of it in
 * vectors; f16 vectors twice f32's); CUDA C++ Programming Guide, "Arithmetic Instructions": an SM issues 4 warp
 * instructions in the cycle in which its shared memory moves 128 bytes. */
#include "tools/ptxsim/command/roofline.h"

enum { BANK_BYTES = 128, ISSUES = 4, SECTOR = 32 };

const char *bound_name(Bound b) {
    static const char *const NAMES[] = {"memory", "arithmetic", "matrix", "shared", "issue"};
    return b < BOUNDS ? NAMES[b] : "?";
}

Bound roofline(const Counters *c, const Target *t, double seconds[BOUNDS]) {
    const double f32 = t->gflops_f32 * 1e9, matrix = t->gflops_matrix * 1e9, shared = t->shared_gbytes_per_s * 1e9;
    const double sectors = (double)(c->unique_load_sectors + c->unique_store_sectors);
    seconds[BOUND_MEMORY] = sectors * SECTOR / (t->gbytes_per_s * 1e9);
    seconds[BOUND_ARITHMETIC] = ((double)c->flops_f32 + 2 * (double)c->flops_f64 + (double)c->flops_half / 2) / f32;
    seconds[BOUND_MATRIX] = ((double)c->matrix_flops_half + 2 * (double)c->matrix_flops_tf32 +
                             (double)c->matrix_flops_byte / 2) / matrix + (double)c->matrix_flops_f64 / f32;
    seconds[BOUND_SHARED] = (double)c->shared_wavefronts * BANK_BYTES / shared;
    seconds[BOUND_ISSUE] = (double)c->warp_instructions / (shared / BANK_BYTES * ISSUES);
    Bound most = BOUND_MEMORY;
    for (int b = 0; b < BOUNDS; b++)
        if (seconds[b] > seconds[most]) most = (Bound)b;
    return most;
}
