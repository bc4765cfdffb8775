#include "codegen/nvptx/simt.h"

int simt_slots(const Simt *s, const TileType *t) {
    int n = 1;
    for (int i = 0; i < t->n_axes; i++) n *= s->axis[t->axis[i]].regs;
    return n;
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

LLVMValueRef simt_offset(const Simt *s, const Coords *c, int axis) {
    if (c->offset[axis]) return c->offset[axis];
    const AxisSpread *a = &s->axis[axis];
    const int r = c->reg[axis], at = r / a->vector * a->lanes * a->vector + r % a->vector;
    return LLVMBuildAdd(s->e->b, s->lane[axis], LLVMConstInt(s->e->i32, (unsigned)at, false), "");
}

LLVMValueRef simt_axis_index(const Simt *s, const Coords *c, int axis) {
    LLVMValueRef offset = LLVMBuildZExt(s->e->b, simt_offset(s, c, axis), s->e->i64, "");
    return LLVMBuildAdd(s->e->b, s->base[axis], offset, "");
}

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
