#include "codegen/nvptx/hopper.h"
#include <string.h>

int simt_slots(const Simt *s, const TileType *t) {
    int n = 1;
    for (int i = 0; i < t->n_axes; i++) n *= s->axis[t->axis[i]].regs;
    return n;
}

const int *simt_all_slots(const Simt *s, const TileType *t) {
    const int n = simt_slots(s, t);
    int *slot = ARENA_ARRAY(s->arena, int, n + 1);
    for (int i = 0; i < n; i++) slot[i] = i;
    return slot;
}

void simt_coords(const Simt *s, const TileType *t, int slot, Coords *c) {
    for (int i = t->n_axes - 1; i >= 0; i--) {
        const int x = t->axis[i], regs = s->axis[x].regs;
        c->reg[x] = slot % regs;
        c->offset[x] = NULL;
        slot /= regs;
    }
}

int simt_slot(const Simt *s, const TileType *t, const Coords *c) {
    int slot = 0;
    for (int i = 0; i < t->n_axes; i++) slot = slot * s->axis[t->axis[i]].regs + c->reg[t->axis[i]];
    return slot;
}

/* The element of register 0 in this thread, i32: one term per run of neighbouring bits on neighbouring thread bits. */
LLVMValueRef simt_lane(const Simt *s, const Spread *p) {
    const Emit *e = s->e;
    LLVMValueRef at = NULL;
    for (int b = 0, n; b < p->n; b += n) {
        for (n = 1; b + n < p->n && p->bit[b] != SPREAD_REGISTER && p->bit[b + n] == p->bit[b] + n;) n++;
        if (p->bit[b] == SPREAD_REGISTER) continue;
        LLVMValueRef lane = LLVMBuildUDiv(e->b, s->thread, LLVMConstInt(e->i32, 1u << p->bit[b], false), "");
        lane = LLVMBuildURem(e->b, lane, LLVMConstInt(e->i32, 1u << n, false), "");
        lane = LLVMBuildMul(e->b, lane, LLVMConstInt(e->i32, 1u << b, false), "");
        at = at ? LLVMBuildAdd(e->b, at, lane, "") : lane;
    }
    return at ? at : LLVMConstNull(e->i32);
}

SimtThread simt_thread_again(Simt *s) {
    const Emit *e = s->e;
    SimtThread before = {.number = s->thread};
    memcpy(before.lane, s->lane, sizeof before.lane);
    if (!s->dynamic) return before; /* registers hold all that such a kernel works on */
    LLVMValueRef number = simt_asm(e, e->i32, "mov.u32 $0, %tid.x;", "=r,~{memory}", 0, NULL);
    const unsigned mask = (unsigned)s->k->threads - 1;
    s->thread = s->k->threads & mask ? number : LLVMBuildAnd(e->b, number, LLVMConstInt(e->i32, mask, false), "");
    for (int x = 0; x < s->k->axes.n; x++) s->lane[x] = simt_lane(s, &s->k->axes.at[x].spread);
    return before;
}

void simt_thread_back(Simt *s, const SimtThread *before) {
    s->thread = before->number;
    memcpy(s->lane, before->lane, sizeof before->lane);
}

LLVMValueRef simt_offset(const Simt *s, const Coords *c, int axis) {
    const int at = c->offset[axis] ? c->beyond[axis] : spread_offset(&s->k->axes.at[axis], c->reg[axis]);
    LLVMValueRef from = c->offset[axis] ? c->offset[axis] : s->lane[axis];
    return LLVMBuildAdd(s->e->b, from, LLVMConstInt(s->e->i32, (unsigned)at, false), "");
}

LLVMValueRef simt_axis_index(const Simt *s, const Coords *c, int axis) {
    LLVMValueRef offset = LLVMBuildZExt(s->e->b, simt_offset(s, c, axis), s->e->i64, "");
    return LLVMBuildAdd(s->e->b, s->base[axis], offset, "");
}

LLVMValueRef simt_of_member(const Simt *s, int n, LLVMValueRef const *values) {
    const Emit *e = s->e;
    LLVMValueRef value = values[0];
    for (int m = 1; m < n; m++) {
        LLVMValueRef here = LLVMBuildICmp(e->b, LLVMIntEQ, s->base[kernel_family_axis(s->k)], emit_i64(e, m), "");
        value = LLVMBuildSelect(e->b, here, values[m], value, "");
    }
    return value;
}

LLVMValueRef simt_group(const Simt *s) { return s->hopper ? s->hopper->group : NULL; }

LLVMValueRef simt_and(const Simt *s, LLVMValueRef a, LLVMValueRef b) {
    if (!a || !b) return a ? a : b;
    return LLVMBuildAnd(s->e->b, a, b, "");
}

LLVMValueRef simt_inside(const Simt *s, const Coords *c, const TileType *axes) {
    LLVMValueRef inside = NULL;
    for (int i = 0; i < axes->n_axes; i++) {
        const int x = axes->axis[i];
        if (s->axis[x].exact) continue;
        inside = simt_and(s, inside, LLVMBuildICmp(s->e->b, LLVMIntSLT, simt_axis_index(s, c, x), s->extent[x], ""));
    }
    return inside;
}
