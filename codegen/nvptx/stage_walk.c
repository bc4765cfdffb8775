/* Which thread moves what of a tile that goes to or from shared memory in the order of memory. */
#include "codegen/nvptx/simt.h"

static LLVMValueRef i32(const Simt *s, int64_t v) { return LLVMConstInt(s->e->i32, (unsigned long long)v, true); }
static LLVMValueRef scaled(const Simt *s, LLVMValueRef v, int by) { return LLVMBuildMul(s->e->b, v, i32(s, by), ""); }

/* The axis along which the staged value's loads are contiguous, to be walked by neighbouring threads. */
static int contiguous_axis(const Simt *s, int value) {
    const Inst *i = s->def[value];
    if (!i) return -1;
    if (i->kind == TI_LOAD) {
        const Buffer *b = &s->k->buffers.at[i->buffer];
        for (int d = 0; d < i->n_index; d++)
            for (int t = 0; t < i->index[d]->n && b->stride[d] == 1; t++)
                if (i->index[d]->term[t].atom.kind == ATOM_AXIS && i->index[d]->term[t].coef == 1)
                    return i->index[d]->term[t].atom.id;
    }
    for (int n = 0; i->kind == TI_ELEMENT && n < i->n_in; n++) {
        const int axis = contiguous_axis(s, i->in[n]);
        if (axis >= 0) return axis;
    }
    return -1;
}

StageWalk stage_walk(const Simt *s, const TileType *t, int fast, int width) {
    StageWalk w = {.width = width, .runs = 1};
    for (int d = 0; d < t->n_axes; d++) {
        w.runs *= s->k->axes.at[t->axis[d]].step;
        if (t->axis[d] != fast) w.order[w.n++] = t->axis[d];
    }
    if (w.n < t->n_axes) w.order[w.n++] = fast;
    w.runs /= width;
    return w;
}

static LLVMValueRef exchange_low_bits(const Simt *s, LLVMValueRef v) {
    const Emit *e = s->e;
    LLVMValueRef differ = LLVMBuildAnd(e->b, LLVMBuildXor(e->b, v, LLVMBuildLShr(e->b, v, i32(s, 1), ""), ""), i32(s, 1), "");
    return LLVMBuildXor(e->b, v, scaled(s, differ, 3), "");
}

static LLVMValueRef digit_of(const Simt *s, LLVMValueRef *at, int by) {
    LLVMValueRef rest = LLVMBuildURem(s->e->b, *at, i32(s, by), "");
    *at = LLVMBuildUDiv(s->e->b, *at, i32(s, by), "");
    return rest;
}

static int constant_digit(int *at, int by) {
    const int rest = *at % by;
    *at /= by;
    return rest;
}

static bool is_power(int n) { return (n & (n - 1)) == 0; }

/* Threads and all that a run's number is divided by are powers of two: the thread's digits and the constant's have no bit in
 * common. */
static bool digits_are_bits(const Simt *s, const StageWalk *w) {
    bool bits = is_power(s->k->threads) && is_power(w->width) && is_power(w->part ? w->part : 1);
    for (int d = 0; d < w->n; d++) bits &= is_power(s->k->axes.at[w->order[d]].step);
    return bits;
}

LLVMValueRef stage_walk_at(const Simt *s, const StageWalk *w, int from, Coords *c) {
    const Emit *e = s->e;
    LLVMValueRef at = LLVMBuildAdd(e->b, s->thread, i32(s, from), ""), where = NULL;
    if (from + s->k->threads > w->runs) where = LLVMBuildICmp(e->b, LLVMIntULT, at, i32(s, w->runs), "");
    const int fast = w->n ? w->order[w->n - 1] : -1; /* -1: one element */
    int rest = 0; /* of the constant */
    if (digits_are_bits(s, w)) at = s->thread, rest = from;
    LLVMValueRef first = NULL;
    int first_beyond = 0;
    if (w->part) first = digit_of(s, &at, w->part), first_beyond = constant_digit(&rest, w->part);
    for (int d = w->part ? w->n - 2 : w->n - 1; d >= 0; d--) {
        const int axis = w->order[d], unit = d == w->n - 1 ? w->width : 1, size = s->k->axes.at[axis].step / unit;
        LLVMValueRef here = digit_of(s, &at, size);
        c->beyond[axis] = constant_digit(&rest, size) * unit;
        if (w->apart && d == w->n - 2) {
            const int low = c->beyond[axis] % 4;
            here = exchange_low_bits(s, LLVMBuildAdd(e->b, here, i32(s, low), ""));
            c->beyond[axis] -= low;
        }
        c->offset[axis] = unit > 1 ? scaled(s, here, unit) : here;
    }
    if (w->part) {
        const int parts = s->k->axes.at[fast].step / w->width / w->part;
        LLVMValueRef part = where ? digit_of(s, &at, parts) : at; /* begins anew past the last */
        c->offset[fast] = scaled(s, LLVMBuildAdd(e->b, scaled(s, part, w->part), first, ""), w->width);
        c->beyond[fast] = (constant_digit(&rest, parts) * w->part + first_beyond) * w->width;
    }
    return where;
}

/* Eight accesses of 16 bytes cover two rows, which begin an odd multiple of 32 bytes apart: neighbours would meet in banks. */
static bool half_rows(const Simt *s, const Inst *i, const StageWalk *w) {
    const int row = s->k->axes.at[i->minor - 1].step * dtype_bytes(i->type.dtype);
    return !i->swizzle && i->bytes == 16 && row == 64 && w->n > 1 && s->k->axes.at[w->order[w->n - 2]].step % 4 == 0;
}

/* In the order of memory; where that is across the rows of the tile, sector by sector, a few rows of each at a time: so
 * many that they fill the banks. */
static StageWalk turning_walk(const Simt *s, const Inst *i) {
    enum { SECTOR = 32 };
    StageWalk w = stage_walk(s, &i->type, contiguous_axis(s, i->in[0]), 1);
    StageLayout l;
    stage_layout(s->k, i, &l);
    const int fast = w.n ? w.order[w.n - 1] : -1, sector = SECTOR / l.bytes;
    const bool transposes = w.n > 1 && fast != l.minor && l.n > 0 && l.stride[0] % STAGE_RUN == 0;
    if (transposes && s->k->axes.at[fast].step % sector == 0 && s->k->axes.at[fast].step > sector) w.part = sector;
    return w;
}

StageWalk stage_fill_walk(const Simt *s, const Inst *i) {
    if (i->by == BY_NONE) return turning_walk(s, i);
    StageWalk w = stage_walk(s, &i->type, i->minor - 1, i->bytes / dtype_bytes(i->type.dtype));
    w.apart = half_rows(s, i, &w);
    return w;
}
