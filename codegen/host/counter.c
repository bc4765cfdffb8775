#include "codegen/host/counter.h"

HostCounter counter_open(KernelEmit *ke, LLVMValueRef start, LLVMValueRef end, int64_t step) {
    const Emit *e = ke->e;
    HostCounter c = {
        .header = emit_block(e, ke->fn, "count"), .exit = emit_block(e, ke->fn, "counted"), .end = end, .step = step};
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(e->b);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, start, end, ""), c.header, c.exit);
    LLVMPositionBuilderAtEnd(e->b, c.header);
    c.i = LLVMBuildPhi(e->b, e->i64, "");
    LLVMAddIncoming(c.i, &start, &pre, 1);
    ke->current = c.header;
    return c;
}

void counter_close(KernelEmit *ke, HostCounter *c) {
    const Emit *e = ke->e;
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, c->i, emit_i64(e, c->step), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, c->end, ""), c->header, c->exit);
    LLVMAddIncoming(c->i, &next, &latch, 1);
    LLVMPositionBuilderAtEnd(e->b, c->exit);
    ke->current = c->exit;
}

HostBranch branch_open(KernelEmit *ke, LLVMValueRef condition) {
    const Emit *e = ke->e;
    LLVMBasicBlockRef then = emit_block(e, ke->fn, "holds");
    const HostBranch b = {.join = emit_block(e, ke->fn, "either")};
    LLVMBuildCondBr(e->b, condition, then, b.join);
    LLVMPositionBuilderAtEnd(e->b, then);
    ke->current = then;
    return b;
}

void branch_close(KernelEmit *ke, HostBranch *b) {
    const Emit *e = ke->e;
    LLVMBuildBr(e->b, b->join);
    LLVMPositionBuilderAtEnd(e->b, b->join);
    ke->current = b->join;
}

bool known_false(LLVMValueRef condition) {
    return LLVMIsAConstantInt(condition) && !LLVMConstIntGetZExtValue(condition);
}

void clear_past(KernelEmit *ke, LLVMValueRef lanes, int64_t unit, LLVMValueRef memory, int64_t n) {
    const Emit *e = ke->e;
    LLVMValueRef rest = LLVMBuildURem(e->b, lanes, emit_i64(e, unit), ""),
                 some = LLVMBuildICmp(e->b, LLVMIntNE, rest, emit_i64(e, 0), "");
    if (known_false(some)) return;
    HostBranch past = branch_open(ke, some);
    LLVMBuildMemSet(e->b, memory, LLVMConstInt(e->i8, 0, false), emit_i64(e, n * 4), 4);
    branch_close(ke, &past);
}
