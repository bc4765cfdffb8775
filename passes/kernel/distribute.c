/* distribute: spreads the tiles of a GPU kernel over threads.
 *
 * Needs: a kernel with power-of-two steps.  Keeps: the program.  Gives: Kernel.threads and the spread of
 * every axis: contiguous elements of one thread, then neighbouring threads, then what is left.  The sides of a
 * product get about the square root of the threads each, so that every value read from shared memory is used often;
 * elsewhere inner axes fill up first, so that neighbours in memory are neighbours in a warp. */
#include "ir/tile_spread.h"
#include "passes/kernel/emitter.h"
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

/* The decisions per axis: threads that share it, a power of two; contiguous elements one thread takes at a time. */
typedef struct Lanes {
    int lanes[MAX_AXES], vector[MAX_AXES], stride[MAX_AXES]; /* stride: the lowest thread bit, as a value */
} Lanes;

/* Thread bits of every axis, disjoint where axes occur in one tile; false if some tile does not fit in the threads. */
static bool lane_strides(const Kernel *k, const uint32_t *with, Lanes *l) {
    for (int x = k->axes.n - 1; x >= 0; x--) { /* inner axes, mostly contiguous in memory, get the low bits */
        const int lanes = l->lanes[x];
        int taken = 0; /* thread bits of axes already placed that share a tile with this one */
        for (int y = x + 1; y < k->axes.n; y++)
            if (with[x] >> y & 1) taken |= (l->lanes[y] - 1) * l->stride[y];
        int s = 1;
        while (s * lanes <= k->threads && ((lanes - 1) * s & taken)) s *= 2;
        if (lanes > 1 && s * lanes > k->threads) return false;
        l->stride[x] = s;
    }
    return true;
}

/* Registers below, then threads; the rest of the index is registers again. */
static Spread spread_of(int vector, int lanes, int stride) {
    Spread s = {0};
    int bit = 0;
    while (1 << bit < stride) bit++;
    for (int v = vector; v > 1 && lanes > 1; v /= 2) s.bit[s.n++] = SPREAD_REGISTER;
    for (int l = lanes; l > 1; l /= 2) s.bit[s.n++] = (int8_t)bit++;
    return s;
}

void kernel_distribute(Kernel *k, const Target *t) {
    bool *only = ARENA_ARRAY(k->arena, bool, k->types.n + 1), side[MAX_AXES] = {0};
    uint32_t with[MAX_AXES];
    Lanes l = {0};
    kernel_staged_only(k, only);
    kernel_together(k->arena, k, with);
    const int64_t tile = largest_tile(k, &k->body, only);
    k->threads = 32;
    while (k->threads < t->threads && k->threads < tile) k->threads *= 2;
    dot_axes(k, &k->body, side);
    int cap = 1;
    while (cap * cap * 2 <= k->threads) cap *= 2;
    for (int x = 0; x < k->axes.n; x++) {
        l.lanes[x] = 1;
        l.vector[x] = vector_of(k, x);
    }
    for (int round = 0; round < 2; round++) /* a second round hands out what the caps left */
        for (int x = k->axes.n - 1; x >= 0; x--) {
            const int most = k->axes.at[x].step / l.vector[x];
            while (l.lanes[x] * 2 <= most && (round || !side[x] || l.lanes[x] * 2 <= cap)) {
                l.lanes[x] *= 2;
                if (lane_strides(k, with, &l)) continue;
                l.lanes[x] /= 2;
                break;
            }
        }
    lane_strides(k, with, &l);
    for (int x = 0; x < k->axes.n; x++) k->axes.at[x].spread = spread_of(l.vector[x], l.lanes[x], l.stride[x]);
}
