/* See micro_block.h. */
#include "codegen/host/micro_block.h"
#include <assert.h>
#include <string.h>

static LLVMValueRef local_function(const Emit *e, const char *name, int n, LLVMTypeRef *params) {
    LLVMValueRef fn = LLVMAddFunction(e->module, name, LLVMFunctionType(e->none, params, (unsigned)n, false));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    emit_fn_attribute(e, fn, "noinline");
    emit_fn_attribute(e, fn, "nounwind");
    for (int i = 0; i < n; i++)
        if (params[i] == e->ptr) {
            emit_param_attribute(e, fn, i, "noalias", 0);
            emit_param_attribute(e, fn, i, "nocapture", 0);
        }
    return fn;
}

bool micro_begin(MicroBlock *m, const Emit *e, const char *name, int n, LLVMTypeRef *params, int rows, int vectors,
                 int lanes) {
    assert(rows <= BLOCK_ROWS && vectors <= BLOCK_VECTORS);
    *m = (MicroBlock){.e = e, .rows = rows, .vectors = vectors, .lanes = lanes};
    m->fn = LLVMGetNamedFunction(e->module, name);
    if (m->fn) return false;
    m->fn = local_function(e, name, n, params);
    m->outside = LLVMGetInsertBlock(e->b);
    m->entry = emit_block(e, m->fn, "entry");
    m->vector = LLVMVectorType(e->f32, (unsigned)lanes);
    LLVMPositionBuilderAtEnd(e->b, emit_block(e, m->fn, "start"));
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) m->sum[i][v] = micro_variable(m, LLVMConstNull(m->vector));
    return true;
}

void micro_end(MicroBlock *m) {
    LLVMBuildRetVoid(m->e->b);
    LLVMPositionBuilderAtEnd(m->e->b, m->entry);
    LLVMBuildBr(m->e->b, LLVMGetNextBasicBlock(m->entry));
    LLVMPositionBuilderAtEnd(m->e->b, m->outside);
}

/* ---- variables --------------------------------------------------------------------------------------------------- */
static LLVMValueRef memory_of(const MicroBlock *m, LLVMTypeRef type) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(m->e->b);
    LLVMPositionBuilderAtEnd(m->e->b, m->entry);
    LLVMValueRef p = LLVMBuildAlloca(m->e->b, type, "");
    LLVMPositionBuilderAtEnd(m->e->b, here);
    return p;
}

MicroVariable micro_variable(MicroBlock *m, LLVMValueRef v) {
    assert(m->n_variables < MICRO_VARIABLES);
    m->variable[m->n_variables].type = LLVMTypeOf(v);
    micro_set(m, m->n_variables, v);
    return m->n_variables++;
}

LLVMValueRef micro_get(MicroBlock *m, MicroVariable v) {
    if (!m->variable[v].value) {
        m->variable[v].value = LLVMBuildLoad2(m->e->b, m->variable[v].type, m->variable[v].memory, "");
        m->variable[v].stored = true;
    }
    return m->variable[v].value;
}

void micro_set(MicroBlock *m, MicroVariable v, LLVMValueRef to) {
    m->variable[v].value = to;
    m->variable[v].stored = false;
}

/* Before the basic block ends: what another one may read is in memory. */
static void leave_block(MicroBlock *m) {
    for (int i = 0; i < m->n_variables; i++) {
        if (m->variable[i].value && !m->variable[i].stored) {
            if (!m->variable[i].memory) m->variable[i].memory = memory_of(m, m->variable[i].type);
            LLVMBuildStore(m->e->b, m->variable[i].value, m->variable[i].memory);
        }
        m->variable[i].value = NULL;
    }
}

/* acc + x * y, or the products of both halves.  VDPBF16PS adds one product after the other, each sum rounded to nearest
 * even as that of a fused multiply-add; it takes denormal factors as zero and makes denormal sums zero, whatever MXCSR
 * says (Intel SDM, volume 2).  A sum of n terms is thus off by n roundings at most, as it is in f32, by n of the least
 * normal numbers, and by what a factor below them would add. */
static LLVMValueRef multiply_add(const Emit *e, bool pairs, LLVMValueRef x, LLVMValueRef y, LLVMValueRef acc) {
    static const struct {
        int lanes;
        const char *name;
    } dots[] = {{4, "llvm.x86.avx512bf16.dpbf16ps.128"},
                {8, "llvm.x86.avx512bf16.dpbf16ps.256"},
                {16, "llvm.x86.avx512bf16.dpbf16ps.512"}};
    const int lanes = emit_width(acc);
    if (!pairs) return emit_fma(e, DT_F32, x, y, acc);
    LLVMTypeRef halves = LLVMVectorType(LLVMBFloatTypeInContext(e->context), 2 * (unsigned)lanes);
    LLVMValueRef args[3] = {acc, LLVMBuildBitCast(e->b, x, halves, ""), LLVMBuildBitCast(e->b, y, halves, "")};
    int i = 0;
    while (dots[i].lanes != lanes) i++;
    const unsigned id = LLVMLookupIntrinsicID(dots[i].name, strlen(dots[i].name));
    return emit_call(e, LLVMGetIntrinsicDeclaration(e->module, id, NULL, 0), 3, args);
}

void micro_add(MicroBlock *m, int row, int vector, bool pairs, LLVMValueRef x, LLVMValueRef y) {
    const MicroVariable sum = m->sum[row][vector];
    micro_set(m, sum, multiply_add(m->e, pairs, x, y, micro_get(m, sum)));
}

/* ---- control ----------------------------------------------------------------------------------------------------- */
MicroLoop micro_loop_open(MicroBlock *m, LLVMValueRef trips, bool some) {
    const Emit *e = m->e;
    const MicroLoop l = {emit_block(e, m->fn, "k"), emit_block(e, m->fn, "done"), micro_variable(m, trips)};
    leave_block(m);
    if (some)
        LLVMBuildBr(e->b, l.body);
    else
        LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, trips, emit_i64(e, 0), ""), l.body, l.done);
    LLVMPositionBuilderAtEnd(e->b, l.body);
    return l;
}

void micro_loop_close(MicroBlock *m, const MicroLoop *l) {
    const Emit *e = m->e;
    LLVMValueRef less = LLVMBuildSub(e->b, micro_get(m, l->left), emit_i64(e, 1), "");
    micro_set(m, l->left, less);
    leave_block(m);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, less, emit_i64(e, 0), ""), l->body, l->done);
    LLVMPositionBuilderAtEnd(e->b, l->done);
}

LLVMBasicBlockRef micro_if_open(MicroBlock *m, LLVMValueRef condition) {
    const Emit *e = m->e;
    LLVMBasicBlockRef then = emit_block(e, m->fn, "then"), join = emit_block(e, m->fn, "join");
    leave_block(m);
    LLVMBuildCondBr(e->b, condition, then, join);
    LLVMPositionBuilderAtEnd(e->b, then);
    return join;
}

void micro_if_close(MicroBlock *m, LLVMBasicBlockRef join) {
    leave_block(m);
    LLVMBuildBr(m->e->b, join);
    LLVMPositionBuilderAtEnd(m->e->b, join);
}

void micro_put(MicroBlock *m, LLVMValueRef fresh, const LLVMValueRef *mask,
               LLVMValueRef (*at)(const void *user, int row, int vector), const void *user) {
    const Emit *e = m->e;
    LLVMBasicBlockRef join = micro_if_open(m, LLVMBuildIsNull(e->b, fresh, ""));
    for (int i = 0; i < m->rows; i++)
        for (int v = 0; v < m->vectors; v++) {
            LLVMValueRef c = emit_load_f32(e, m->vector, at(user, i, v), mask ? mask[v] : NULL);
            micro_set(m, m->sum[i][v], LLVMBuildFAdd(e->b, micro_get(m, m->sum[i][v]), c, ""));
        }
    micro_if_close(m, join);
    for (int i = 0; i < m->rows; i++)
        for (int v = 0; v < m->vectors; v++)
            emit_store_f32(e, micro_get(m, m->sum[i][v]), at(user, i, v), mask ? mask[v] : NULL);
}
