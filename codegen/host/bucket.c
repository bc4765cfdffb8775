/* BUCKET: a counting sort of ids into the rows of one program.  The rows' places hold counts first, then where each row ends,
 * and where it begins once its positions are written, from the last to the first. */
#include "codegen/host/nest.h"

typedef struct Buckets {
    KernelEmit *ke;
    const Inst *i;
    LLVMValueRef rows, first, end; /* i64: of all programs, of this one */
    int64_t n;
} Buckets;

static LLVMValueRef i32_at(const Buckets *b, LLVMValueRef base, LLVMValueRef at) {
    return LLVMBuildGEP2(b->ke->e->b, b->ke->e->i32, base, &at, 1, "");
}

/* Id number `at`, in row-major order, as i64. */
static LLVMValueRef id_at(const Buckets *b, LLVMValueRef at) {
    const Emit *e = b->ke->e;
    const Buffer *ids = &b->ke->k->buffers.at[b->i->source];
    LLVMValueRef offset = emit_i64(e, 0), rest = at;
    int64_t dense = 1;
    bool is_dense = true;
    for (int d = ids->rank - 1; d >= 0; d--) is_dense &= ids->stride[d] == dense || ids->dim[d].bound == 1, dense *= ids->dim[d].bound;
    for (int d = ids->rank - 1; d >= 0 && !is_dense; d--) {
        LLVMValueRef extent = emit_i64(e, ids->dim[d].bound), digit = LLVMBuildURem(e->b, rest, extent, "");
        offset = LLVMBuildAdd(e->b, offset, LLVMBuildMul(e->b, digit, emit_i64(e, ids->stride[d]), ""), "");
        rest = LLVMBuildUDiv(e->b, rest, extent, "");
    }
    LLVMValueRef p = i32_at(b, b->ke->buffer[b->i->source], is_dense ? at : offset);
    return LLVMBuildSExt(e->b, LLVMBuildLoad2(e->b, e->i32, p, ""), e->i64, "");
}

/* for (at = from; at != to; at += step), which has an iteration: what is built between begin and end. */
typedef struct Loop {
    LLVMBasicBlockRef head, done;
    LLVMValueRef at, to, carried; /* carried: i64, or NULL */
    int step;
} Loop;

static Loop begin(const Buckets *b, LLVMValueRef from, LLVMValueRef to, int step, LLVMValueRef carried) {
    const Emit *e = b->ke->e;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
    Loop l = {.head = emit_block(e, b->ke->fn, "bucket"), .done = emit_block(e, b->ke->fn, "bucketed"), .to = to, .step = step};
    LLVMBuildBr(e->b, l.head);
    LLVMPositionBuilderAtEnd(e->b, l.head);
    l.at = LLVMBuildPhi(e->b, e->i64, "");
    LLVMAddIncoming(l.at, &from, &before, 1);
    if (!carried) return l;
    l.carried = LLVMBuildPhi(e->b, e->i64, "");
    LLVMAddIncoming(l.carried, &carried, &before, 1);
    return l;
}

static void end(const Buckets *b, Loop *l, LLVMValueRef carried) {
    const Emit *e = b->ke->e;
    LLVMBasicBlockRef last = LLVMGetInsertBlock(e->b);
    LLVMValueRef next = LLVMBuildAdd(e->b, l->at, emit_i64(e, l->step), "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntNE, next, l->to, ""), l->head, l->done);
    LLVMAddIncoming(l->at, &next, &last, 1);
    if (carried) LLVMAddIncoming(l->carried, &carried, &last, 1);
    LLVMPositionBuilderAtEnd(e->b, l->done);
}

/* Opens what is done for ids of the program's rows alone; close_own closes it. */
static LLVMBasicBlockRef open_own(const Buckets *b, LLVMValueRef id) {
    const Emit *e = b->ke->e;
    LLVMValueRef row = LLVMBuildSub(e->b, id, b->first, ""), rows = LLVMBuildSub(e->b, b->end, b->first, "");
    LLVMBasicBlockRef own = emit_block(e, b->ke->fn, "own"), after = emit_block(e, b->ke->fn, "other");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, row, rows, ""), own, after);
    LLVMPositionBuilderAtEnd(e->b, own);
    return after;
}

static void close_own(const Buckets *b, LLVMBasicBlockRef after) {
    LLVMBuildBr(b->ke->e->b, after);
    LLVMPositionBuilderAtEnd(b->ke->e->b, after);
}

/* Adds to a row's place; its new value, as i64. */
static LLVMValueRef add(const Buckets *b, LLVMValueRef row, int by) {
    const Emit *e = b->ke->e;
    LLVMValueRef p = i32_at(b, b->ke->buffer[b->i->buffer], row);
    LLVMValueRef v = LLVMBuildAdd(e->b, LLVMBuildLoad2(e->b, e->i32, p, ""), LLVMConstInt(e->i32, (unsigned long long)by, true), "");
    LLVMBuildStore(e->b, v, p);
    return LLVMBuildSExt(e->b, v, e->i64, "");
}

static void put(const Buckets *b, LLVMValueRef at, LLVMValueRef v) {
    const Emit *e = b->ke->e;
    LLVMBuildStore(e->b, LLVMBuildTrunc(e->b, v, e->i32, ""), i32_at(b, b->ke->buffer[b->i->buffer], at));
}

/* Counts, and how many ids are of rows before. */
static LLVMValueRef count(const Buckets *b) {
    const Emit *e = b->ke->e;
    LLVMValueRef zero = emit_i64(e, 0);
    if (!b->n) return zero;
    Loop l = begin(b, zero, emit_i64(e, b->n), 1, zero);
    LLVMValueRef id = id_at(b, l.at), less = LLVMBuildICmp(e->b, LLVMIntULT, id, b->first, "");
    LLVMValueRef before = LLVMBuildAdd(e->b, l.carried, LLVMBuildZExt(e->b, less, e->i64, ""), "");
    LLVMBasicBlockRef after = open_own(b, id);
    add(b, id, 1);
    close_own(b, after);
    end(b, &l, before);
    return before;
}

static void place(const Buckets *b) {
    const Emit *e = b->ke->e;
    if (!b->n) return;
    Loop l = begin(b, emit_i64(e, b->n - 1), emit_i64(e, -1), -1, NULL);
    LLVMValueRef id = id_at(b, l.at);
    LLVMBasicBlockRef after = open_own(b, id);
    LLVMValueRef at = LLVMBuildAdd(e->b, add(b, id, -1), LLVMBuildAdd(e->b, b->rows, emit_i64(e, 1), ""), "");
    put(b, at, l.at);
    close_own(b, after);
    end(b, &l, NULL);
}

void bucket_emit(KernelEmit *ke, const Inst *i) {
    const Emit *e = ke->e;
    const Axis *rows = &ke->k->axes.at[i->axis];
    Buckets b = {.ke = ke, .i = i, .rows = emit_i64(e, rows->extent.bound), .first = ke->base[i->axis], .n = 1};
    for (int d = 0; d < ke->k->buffers.at[i->source].rank; d++) b.n *= ke->k->buffers.at[i->source].dim[d].bound;
    LLVMPositionBuilderAtEnd(e->b, ke->current);
    LLVMValueRef args[] = {LLVMBuildAdd(e->b, b.first, emit_i64(e, rows->step), ""), b.rows};
    b.end = emit_intrinsic(e, "llvm.smin", 2, args);
    Loop zero = begin(&b, b.first, b.end, 1, NULL);
    put(&b, zero.at, emit_i64(e, 0));
    end(&b, &zero, NULL);
    LLVMValueRef before = count(&b);
    Loop ends = begin(&b, b.first, b.end, 1, before);
    LLVMValueRef p = i32_at(&b, ke->buffer[i->buffer], ends.at), own = LLVMBuildLoad2(e->b, e->i32, p, "");
    LLVMValueRef upto = LLVMBuildAdd(e->b, ends.carried, LLVMBuildSExt(e->b, own, e->i64, ""), "");
    put(&b, ends.at, upto);
    end(&b, &ends, upto);
    place(&b);
    LLVMBasicBlockRef last = emit_block(e, ke->fn, "last"), done = emit_block(e, ke->fn, "buckets");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, b.end, b.rows, ""), last, done);
    LLVMPositionBuilderAtEnd(e->b, last);
    put(&b, b.rows, upto);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
    ke->current = done;
}
