/* tile: buffers from the first element that a kernel reads.
 *
 *     load %x[i, 17, k] of f32[32,64,128]    becomes    load %x[i, 0, k] of f32[32,1,128], 17 * 128 elements further on
 *
 * The steps of an unrolled recurrence, which differ in which part of a tensor they read, get the same Tile IR: they are one
 * kernel, and where the part begins stands in the launch. */
#include "passes/kernel/emitter.h"
#include "passes/pass.h"
#include <string.h>

typedef struct Reach {
    int64_t lo, hi;   /* all subscripts of the dimension lie in lo .. hi */
    int64_t constant; /* least constant term of them */
    bool read, known;
} Reach;
typedef struct Origins {
    Kernel *k;
    Reach (*reach)[MAX_RANK]; /* by buffer and dimension */
} Origins;

static void widen(const Kernel *k, Reach *r, const Index *x) {
    int64_t lo, hi;
    const bool known = index_range(k, x, &lo, &hi);
    if (!r->read) *r = (Reach){lo, hi, x->c, true, known};
    r->known &= known;
    if (!r->known) return;
    if (lo < r->lo) r->lo = lo;
    if (hi > r->hi) r->hi = hi;
    if (x->c < r->constant) r->constant = x->c;
}

static void reach_block(Origins *o, const Block *b) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        if (i->kind == TI_LOAD)
            for (int d = 0; d < i->n_index; d++) widen(o->k, &o->reach[i->buffer][d], i->index[d]);
        reach_block(o, &i->body);
    }
}

/* How far into the dimension the kernel's buffer can begin. */
static int64_t origin_of(const Reach *r) {
    const int64_t least = r->lo < r->constant ? r->lo : r->constant;
    return least > 0 ? least : 0;
}

static bool is_boxed(const Buffer *b, const Reach *reach) {
    for (int d = 0; d < b->rank; d++)
        if (!reach[d].read || !reach[d].known || reach[d].lo < 0 || !dim_is_fixed(b->dim[d]) || reach[d].hi >= b->dim[d].bound)
            return false;
    return !b->written && !b->in_place;
}

/* The buffer is what is read of it; bytes by which it begins later, a multiple of what accesses want. */
static int64_t move_origin(Buffer *b, Reach *reach, int64_t align) {
    int64_t bytes = 0;
    for (int d = 0; d < b->rank; d++) {
        Reach *r = &reach[d];
        const int64_t step = b->stride[d] * dtype_bytes(b->dtype);
        r->constant = origin_of(r);
        if (r->constant * step % align) r->constant = 0;
        bytes += r->constant * step;
        b->dim[d] = dim_fixed(r->hi - r->constant + 1);
    }
    return bytes;
}

static void shift_block(const Origins *o, const bool *moved, const Block *b) {
    for (int n = 0; n < b->n; n++) {
        Inst *i = b->at[n];
        if (i->kind == TI_LOAD && moved[i->buffer])
            for (int d = 0; d < i->n_index; d++)
                i->index[d] = index_add(o->k, i->index[d], index_const(o->k->arena, -o->reach[i->buffer][d].constant));
        shift_block(o, moved, &i->body);
    }
}

int64_t *kernel_origins(Arena *a, Kernel *k, const Target *t) {
    Arena *scratch = arena_new();
    Origins o = {k, arena_alloc(scratch, sizeof *o.reach * (size_t)(k->buffers.n + 1))};
    bool *moved = ARENA_ARRAY(scratch, bool, k->buffers.n + 1);
    int64_t *origin = ARENA_ARRAY(a, int64_t, k->buffers.n + 1);
    reach_block(&o, &k->body);
    for (int i = 0, members = 1; i < k->buffers.n; i += members) {
        Buffer *b = &k->buffers.at[i];
        members = b->family ? b->family : 1;
        if (!is_boxed(b, o.reach[i])) continue;
        origin[i] = move_origin(b, o.reach[i], target_part_align(t));
        moved[i] = origin[i] > 0;
        for (int m = 1; m < members; m++) {
            memcpy(b[m].dim, b->dim, sizeof b->dim);
            origin[i + m] = origin[i];
        }
    }
    shift_block(&o, moved, &k->body);
    arena_free(scratch);
    return origin;
}
