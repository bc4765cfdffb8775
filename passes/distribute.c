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

/* Elements one thread takes in a row along an axis: 16 bytes where loads and stores along it are contiguous
 * and whole. */
static bool contiguous(const Kernel *k, const Block *b, int axis, bool *seen) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        if (!contiguous(k, &i->body, axis, seen)) return false;
        if (i->kind != TI_LOAD && i->kind != TI_STORE) continue;
        const Buffer *buf = &k->buffers.at[i->buffer];
        for (int d = 0; d < i->n_index; d++) {
            int64_t coef = 0;
            if (!index_affine_in(k, i->index[d], axis, &coef)) return false;
            if (coef == 0) continue;
            if (coef != 1 || buf->stride[d] != 1 || dtype_bytes(buf->dtype) != 4) return false;
            for (int o = 0; o < i->n_index; o++)
                if (o != d && buf->stride[o] % 4) return false;
            *seen = true;
        }
    }
    return true;
}

static int vector_of(const Kernel *k, int axis) {
    const Axis *a = &k->axes.at[axis];
    bool seen = false;
    if (a->step % 4 || !dim_is_fixed(a->extent) || a->extent.bound % 4) return 1;
    return contiguous(k, &k->body, axis, &seen) && seen ? 4 : 1;
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
