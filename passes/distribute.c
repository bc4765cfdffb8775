/* distribute: spreads the tiles of a GPU kernel over threads.
 *
 * Needs: a kernel with power-of-two steps.  Keeps: the program.  Gives: Kernel.threads, and per axis how many
 * threads share it (lanes) and how many contiguous elements one thread takes at a time (vector).  The sides of a
 * product get about the square root of the threads each, so that every value read from shared memory is used
 * often; elsewhere inner axes fill up first, so that neighbours in memory are neighbours in a warp. */
#include "ir/tile_lanes.h"
#include "passes/emitter.h"
#include <string.h>

static int64_t largest_tile(const Kernel *k, const Block *b, const bool *only) {
    int64_t most = 1;
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        int64_t size = 1;
        if (i->result >= 0 && !only[i->result] && i->kind != TI_STAGE)
            for (int d = 0; d < i->type.n_axes; d++) size *= k->axes.at[i->type.axis[d]].step;
        const int64_t inside = largest_tile(k, &i->body, only);
        if (size > most) most = size;
        if (inside > most) most = inside;
    }
    return most;
}

/* The axes of a product's sides. */
static void dot_axes(const Kernel *k, const Block *b, bool *side) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        if (i->kind == TI_DOT)
            for (int d = 0; d < i->type.n_axes; d++) side[i->type.axis[d]] = true;
        dot_axes(k, &i->body, side);
    }
}

/* Is some load along the axis 16 bytes wide for four elements?  Loads alone decide: what else a kernel stores must
 * not change in which order it sums. */
static bool wide_load(const Kernel *k, const Inst *i, int axis) {
    const Buffer *buf = &k->buffers.at[i->buffer];
    bool wide = false;
    for (int d = 0; d < i->n_index; d++) {
        int64_t coef = 0;
        if (!index_affine_in(k, i->index[d], axis, &coef)) return false;
        if (coef == 1 && buf->stride[d] == 1 && dtype_bytes(buf->dtype) == 4) wide = true;
        else if (coef || buf->stride[d] % 4) return false;
    }
    return wide;
}

static bool any_wide_load(const Kernel *k, const Block *b, int axis) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        if (i->kind == TI_LOAD && wide_load(k, i, axis)) return true;
        if (any_wide_load(k, &i->body, axis)) return true;
    }
    return false;
}

/* Contiguous elements one thread takes along an axis: 16 bytes where that can be one access. */
static int vector_of(const Kernel *k, int axis) {
    const Axis *a = &k->axes.at[axis];
    if (a->step % 4 || !dim_is_fixed(a->extent) || a->extent.bound % 4) return 1;
    return any_wide_load(k, &k->body, axis) ? 4 : 1;
}

void kernel_distribute(Kernel *k, const Target *t) {
    bool *only = ARENA_ARRAY(k->arena, bool, k->types.n + 1), side[MAX_AXES] = {0};
    int stride[MAX_AXES];
    kernel_staged_only(k, only);
    const int64_t tile = largest_tile(k, &k->body, only);
    k->threads = 32;
    while (k->threads < t->threads && k->threads < tile) k->threads *= 2;
    dot_axes(k, &k->body, side);
    int cap = 1;
    while (cap * cap * 2 <= k->threads) cap *= 2;
    for (int x = 0; x < k->axes.n; x++) {
        k->axes.at[x].lanes = 1;
        k->axes.at[x].vector = 1;
    }
    for (int round = 0; round < 2; round++) /* a second round hands out what the caps left */
        for (int x = k->axes.n - 1; x >= 0; x--) {
            Axis *a = &k->axes.at[x];
            if (!round) a->vector = vector_of(k, x);
            const int most = a->step / a->vector;
            while (a->lanes * 2 <= most && (round || !side[x] || a->lanes * 2 <= cap)) {
                a->lanes *= 2;
                if (kernel_lane_strides(k->arena, k, stride)) continue;
                a->lanes /= 2;
                break;
            }
        }
}
