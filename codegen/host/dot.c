/* Matrix products in blocks and as inner products; codegen/schedule/blocks.c says how they are made. */
#include "codegen/host/counter.h"
#include "codegen/host/dot.h"

void dot_emit(KernelEmit *ke, const FormPlan *p, const DotResult *to) {
    const Emit *e = ke->e;
    const BlocksPlan *b = p->of_form;
    Dot d = {.ke = ke, .p = b, .edges = p->store && b->edges};
    d.to = (BlockResult){ke->memory[p->storage], emit_i64(e, b->n_columns), to ? to->fresh : emit_i64(e, 0)};
    if (p->store) {
        int64_t step = 0;
        if (p->rows >= 0) access_affine(ke->k, p->store, p->rows, &step);
        d.to.memory = to->memory;
        d.to.step = emit_i64(e, step);
    }
    LLVMValueRef x = dot_pack_memory(ke, 0, dot_x_elements(&d));
    LLVMValueRef y = b->inner ? NULL : dot_pack_memory(ke, 1, b->n_columns * b->y_pitch), fresh = d.to.fresh;
    LLVMPositionBuilderAtEnd(e->b, ke->current);
    if (b->parted < 0) {
        dot_multiply_part(&d, x, y);
        return;
    }
    LLVMValueRef whole = ke->hi[b->parted];
    HostCounter parts = counter_open(ke, emit_i64(e, 0), whole, b->part);
    LLVMValueRef end[2] = {LLVMBuildAdd(e->b, parts.i, emit_i64(e, b->part), ""), whole};
    LLVMValueRef first = LLVMBuildZExt(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, parts.i, emit_i64(e, 0), ""), e->i64, "");
    d.to.fresh = LLVMBuildAnd(e->b, fresh, first, "");
    ke->lo[b->parted] = parts.i;
    ke->hi[b->parted] = emit_intrinsic(e, "llvm.smin", 2, end);
    dot_multiply_part(&d, x, y);
    ke->lo[b->parted] = emit_i64(e, 0);
    ke->hi[b->parted] = whole;
    counter_close(ke, &parts);
}
