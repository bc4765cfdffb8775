/* distribute: spreads the tiles of a GPU kernel over threads.
 *
 * Needs: a kernel with power-of-two steps.  Keeps: the program.  Gives: Kernel.threads and the spread of
 * every axis: contiguous elements of one thread, then neighbouring threads, then what is left.  The sides of a
 * product get about the square root of the threads each, so that every value read from shared memory is used often;
 * elsewhere inner axes fill up first, so that neighbours in memory are neighbours in a warp. */
#include "ir/tile_spread.h"
#include "ir/tile_stage.h"
#include "passes/kernel/emitter.h"
#include "passes/kernel/tile_size.h"
#include <string.h>

static int64_t elements_of(const Kernel *k, const TileType *t) {
    int64_t size = 1;
    for (int d = 0; d < t->n_axes; d++) size *= k->axes.at[t->axis[d]].step;
    return size;
}

static int64_t largest_tile(const Kernel *k, const Block *b, const bool *only) {
    int64_t most = 1;
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        const int64_t size = i->result >= 0 && !only[i->result] && i->kind != TI_STAGE ? elements_of(k, &i->type) : 1;
        const int64_t inside = largest_tile(k, &i->body, only);
        if (size > most) most = size;
        if (inside > most) most = inside;
    }
    return most;
}

/* The axes of products' sides, and those that products sum. */
static void dot_axes(const Kernel *k, const Block *b, bool *side, bool *summed) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        for (int d = 0; d < i->type.n_axes && i->kind == TI_DOT; d++) side[i->type.axis[d]] = true;
        for (int d = 0; d < i->n_over && i->kind == TI_DOT; d++) summed[i->over[d]] = true;
        dot_axes(k, &i->body, side, summed);
    }
}

/* Bytes of an element that the access reads or writes contiguously along the axis; 0: it does not, or `vector` elements are not
 * aligned to themselves. */
static int contiguous_bytes(const Kernel *k, const Inst *i, int axis, int vector) {
    const Buffer *buf = &k->buffers.at[i->buffer];
    bool contiguous = false;
    for (int d = 0; d < i->n_index; d++) {
        int64_t coef = 0;
        if (!index_affine_in(k, i->index[d], axis, &coef)) return 0;
        if (coef == 1 && buf->stride[d] == 1) contiguous = true;
        else if (coef || buf->stride[d] % vector) return 0;
    }
    return contiguous ? dtype_bytes(buf->dtype) : 0;
}

/* Elements of a tile that is loaded or stored; 0: the instruction does neither, or has not the axis. */
static int64_t accessed(const Kernel *k, const Inst *i, int axis) {
    const TileType *t = i->kind == TI_STORE ? &k->types.at[i->in[0]] : &i->type;
    return (i->kind == TI_LOAD || i->kind == TI_STORE) && tile_type_has(t, axis) ? elements_of(k, t) : 0;
}

static int64_t most_accessed(const Kernel *k, const Block *b, int axis) {
    int64_t most = 0;
    for (int n = 0; n < b->n; n++) {
        const int64_t own = accessed(k, b->at[n], axis), inside = most_accessed(k, &b->at[n]->body, axis);
        if (own > most) most = own;
        if (inside > most) most = inside;
    }
    return most;
}

/* Bytes of the widest element that accesses of the kind, of tiles of so many elements, read or write along the axis; 0: none does. */
static int widest(const Kernel *k, const Block *b, TileOp kind, int64_t size, int axis, int vector) {
    int most = 0;
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        const int own = i->kind == kind && accessed(k, i, axis) == size ? contiguous_bytes(k, i, axis, vector) : 0;
        const int inside = widest(k, &i->body, kind, size, axis, vector);
        if (own > most) most = own;
        if (inside > most) most = inside;
    }
    return most;
}

static bool reduces(const Block *b) {
    for (int n = 0; n < b->n; n++)
        if (b->at[n]->kind == TI_REDUCE || reduces(&b->at[n]->body)) return true;
    return false;
}

/* Contiguous elements one thread takes along an axis: 16 bytes of the widest elements, so that an access of a warp leaves out
 * no part of a sector.  Where something is summed loads alone decide: what else a kernel stores must not change the order. */
static int vector_of(const Kernel *k, int axis) {
    const Axis *a = &k->axes.at[axis];
    const int64_t size = most_accessed(k, &k->body, axis); /* a value for each row has no say in how the rows are shared */
    if (!dim_is_fixed(a->extent)) return 1;
    for (int vector = k->slices ? ROW_ELEMENTS / 2 : ROW_ELEMENTS; vector >= 4; vector /= 2) {
        int bytes = widest(k, &k->body, TI_LOAD, size, axis, vector);
        const int stored = bytes && !reduces(&k->body) ? widest(k, &k->body, TI_STORE, size, axis, vector) : 0;
        if (stored > bytes) bytes = stored;
        if (bytes && bytes * vector <= 16 && a->step % vector == 0 && a->extent.bound % vector == 0) return vector;
    }
    return 1;
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

/* Most threads along each axis that is reduced: few enough for those beside it to have threads of their own.  A thread has more of
 * a row then, in registers, and fewer rows. */
static void reduced_lanes(const Kernel *k, const Block *b, int *most) {
    enum { LEAST = 4 };
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        reduced_lanes(k, &i->body, most);
        if (i->kind != TI_REDUCE) continue;
        int room = (int)(k->threads / elements_of(k, &i->type));
        if (room < LEAST) room = LEAST;
        for (int d = 0; d < i->n_over; d++)
            if (room < most[i->over[d]]) most[i->over[d]] = room;
    }
}

/* Threads beyond those that share a tile would only do the same again. */
static void leave_out_copies(Kernel *k, const Lanes *l) {
    int used = 32;
    for (int x = 0; x < k->axes.n; x++)
        while (used < l->stride[x] * l->lanes[x]) used *= 2;
    if (used < k->threads) k->threads = used;
}

static int loads_of(const Kernel *k, const Block *b, int64_t size) {
    int count = 0;
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        count += (i->kind == TI_LOAD && elements_of(k, &i->type) == size) + loads_of(k, &i->body, size);
    }
    return count;
}

/* A row that lies whole in one tile: more threads than usual, where each would have so many elements of each of its values that
 * registers run out.  Sums over rows, and many values, take them sooner. */
static int most_threads(const Kernel *k, const Target *t, int64_t tile, const bool *side) {
    enum { MANY = 8 }; /* loads */
    bool product = false;
    for (int x = 0; x < k->axes.n; x++) product |= side[x];
    const bool short_of_registers = k->slices || (reduces(&k->body) && loads_of(k, &k->body, tile) > MANY);
    return !product && tile > (int64_t)ROW_ELEMENTS / (short_of_registers ? 2 : 1) * t->threads ? 2 * t->threads : t->threads;
}

/* Buckets are made by as many warps as there are counters for, and ids. */
static int bucket_threads(const Kernel *k) {
    enum { WARP = 32, WARPS = 32, IDS = 256 };
    const Inst *i = k->body.n ? k->body.at[0] : NULL;
    int64_t ids = 1, warps = 1;
    if (!i || i->kind != TI_BUCKET) return 0;
    for (int d = 0; d < k->buffers.at[i->source].rank; d++) ids *= k->buffers.at[i->source].dim[d].bound;
    while (2 * warps <= WARPS && 2 * warps * k->axes.at[i->axis].step <= BUCKET_COUNTERS && ids >= 2 * warps * IDS) warps *= 2;
    return (int)(WARP * warps);
}

void kernel_distribute(Kernel *k, const Target *t) {
    bool *only = ARENA_ARRAY(k->arena, bool, k->types.n + 1), side[MAX_AXES] = {0}, summed[MAX_AXES] = {0};
    uint32_t with[MAX_AXES];
    Lanes l = {0};
    kernel_staged_only(k, only);
    kernel_together(k->arena, k, with);
    const int64_t tile = largest_tile(k, &k->body, only);
    dot_axes(k, &k->body, side, summed);
    const int threads = most_threads(k, t, tile, side);
    k->threads = 32;
    while (k->threads < threads && k->threads < tile) k->threads *= 2;
    int cap = 1;
    while (cap * cap * 2 <= k->threads) cap *= 2;
    int reduced[MAX_AXES];
    for (int x = 0; x < k->axes.n; x++) {
        l.lanes[x] = 1;
        l.vector[x] = vector_of(k, x);
        /* a factor is read along its side in runs; values that are summed later are written across their runs */
        if (l.vector[x] == 1 && side[x] && !summed[x] && k->axes.at[x].step >= STAGE_RUN * cap) l.vector[x] = STAGE_RUN;
        reduced[x] = k->threads;
    }
    reduced_lanes(k, &k->body, reduced);
    for (int round = 0; round < 2; round++) /* a second round hands out what the caps left */
        for (int x = k->axes.n - 1; x >= 0; x--) {
            const int most = k->axes.at[x].step / l.vector[x];
            while (l.lanes[x] * 2 <= most && (round || ((!side[x] || l.lanes[x] * 2 <= cap) && l.lanes[x] * 2 <= reduced[x]))) {
                l.lanes[x] *= 2;
                if (lane_strides(k, with, &l)) continue;
                l.lanes[x] /= 2;
                break;
            }
        }
    lane_strides(k, with, &l);
    leave_out_copies(k, &l);
    if (bucket_threads(k)) k->threads = bucket_threads(k);
    for (int x = 0; x < k->axes.n; x++) k->axes.at[x].spread = spread_of(l.vector[x], l.lanes[x], l.stride[x]);
}
