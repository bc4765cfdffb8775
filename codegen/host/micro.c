/* Inner functions of matrix products, one per module and shape. */
#include "codegen/host/micro.h"
#include <stdio.h>

static LLVMValueRef function(const Emit *e, const char *name, int n, LLVMTypeRef *params) {
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

/* ---- a block of C ---------------------------------------------------------------------------------------------- */
typedef struct Micro {
    const Emit *e;
    LLVMValueRef fn, acc[16][4];
    LLVMTypeRef vector;
    int rows, vectors, lanes;
} Micro;

enum { ARG_X, ARG_ROW_STRIDE, ARG_K_STRIDE, ARG_Y, ARG_Y_STRIDE, ARG_C, ARG_C_STRIDE, ARG_COUNT, ARGS };

static LLVMValueRef element_at(const Emit *e, LLVMValueRef p, LLVMValueRef offset) {
    return LLVMBuildGEP2(e->b, e->f32, p, &offset, 1, "");
}

static LLVMValueRef c_vector(const Micro *m, int row, int vector) {
    const Emit *e = m->e;
    LLVMValueRef offset = LLVMBuildMul(e->b, LLVMGetParam(m->fn, ARG_C_STRIDE), emit_i64(e, row), "");
    offset = LLVMBuildAdd(e->b, offset, emit_i64(e, vector * m->lanes), "");
    return element_at(e, LLVMGetParam(m->fn, ARG_C), offset);
}

/* One k: a row of Y against one element of each row of X. */
static void micro_step(const Micro *m, LLVMValueRef x, LLVMValueRef y, LLVMValueRef next[16][4]) {
    const Emit *e = m->e;
    LLVMValueRef column[4];
    for (int v = 0; v < m->vectors; v++) {
        column[v] = LLVMBuildLoad2(e->b, m->vector, element_at(e, y, emit_i64(e, v * m->lanes)), "");
        LLVMSetAlignment(column[v], 4);
    }
    for (int r = 0; r < m->rows; r++) {
        LLVMValueRef offset = LLVMBuildMul(e->b, LLVMGetParam(m->fn, ARG_ROW_STRIDE), emit_i64(e, r), "");
        LLVMValueRef one = LLVMBuildLoad2(e->b, e->f32, element_at(e, x, offset), "");
        for (int v = 0; v < m->vectors; v++)
            next[r][v] = emit_fma(e, DT_F32, emit_splat(e, one, m->lanes), column[v], m->acc[r][v]);
    }
}

static void micro_loop(Micro *m) {
    const Emit *e = m->e;
    LLVMBasicBlockRef entry = emit_block(e, m->fn, "entry"), body = emit_block(e, m->fn, "k"),
                      done = emit_block(e, m->fn, "done");
    LLVMValueRef start[16][4], next[16][4];
    LLVMPositionBuilderAtEnd(e->b, entry);
    for (int r = 0; r < m->rows; r++)
        for (int v = 0; v < m->vectors; v++)
            LLVMSetAlignment(start[r][v] = LLVMBuildLoad2(e->b, m->vector, c_vector(m, r, v), ""), 4);
    LLVMBuildBr(e->b, body);
    LLVMPositionBuilderAtEnd(e->b, body);
    LLVMValueRef k = LLVMBuildPhi(e->b, e->i64, ""), x = LLVMBuildPhi(e->b, e->ptr, ""),
                 y = LLVMBuildPhi(e->b, e->ptr, "");
    for (int r = 0; r < m->rows; r++)
        for (int v = 0; v < m->vectors; v++) m->acc[r][v] = LLVMBuildPhi(e->b, m->vector, "");
    micro_step(m, x, y, next);
    LLVMBasicBlockRef from[2] = {entry, body};
    LLVMValueRef k1 = LLVMBuildAdd(e->b, k, emit_i64(e, 1), "");
    LLVMValueRef x1 = element_at(e, x, LLVMGetParam(m->fn, ARG_K_STRIDE)),
                 y1 = element_at(e, y, LLVMGetParam(m->fn, ARG_Y_STRIDE));
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, k1, LLVMGetParam(m->fn, ARG_COUNT), ""), body, done);
    LLVMAddIncoming(k, (LLVMValueRef[]){emit_i64(e, 0), k1}, from, 2);
    LLVMAddIncoming(x, (LLVMValueRef[]){LLVMGetParam(m->fn, ARG_X), x1}, from, 2);
    LLVMAddIncoming(y, (LLVMValueRef[]){LLVMGetParam(m->fn, ARG_Y), y1}, from, 2);
    LLVMPositionBuilderAtEnd(e->b, done);
    for (int r = 0; r < m->rows; r++)
        for (int v = 0; v < m->vectors; v++) {
            LLVMAddIncoming(m->acc[r][v], (LLVMValueRef[]){start[r][v], next[r][v]}, from, 2);
            LLVMSetAlignment(LLVMBuildStore(e->b, next[r][v], c_vector(m, r, v)), 4);
        }
    LLVMBuildRetVoid(e->b);
}

LLVMValueRef micro_product(const Emit *e, int rows, int vectors, int lanes) {
    char name[64];
    snprintf(name, sizeof name, "fusec.block_%dx%d", rows, vectors * lanes);
    LLVMValueRef known = LLVMGetNamedFunction(e->module, name);
    if (known) return known;
    LLVMTypeRef params[ARGS] = {e->ptr, e->i64, e->i64, e->ptr, e->i64, e->ptr, e->i64, e->i64};
    Micro m = {
        .e = e, .rows = rows, .vectors = vectors, .lanes = lanes, .vector = LLVMVectorType(e->f32, (unsigned)lanes)};
    m.fn = function(e, name, ARGS, params);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    micro_loop(&m);
    LLVMPositionBuilderAtEnd(e->b, here);
    return m.fn;
}

/* ---- a square of a transposition -------------------------------------------------------------------------------- */
static LLVMValueRef interleave(const Emit *e, LLVMValueRef x, LLVMValueRef y, int lanes, bool upper) {
    LLVMValueRef order[64];
    for (int i = 0; i < lanes; i++) {
        const int from = i / 2 + (upper ? lanes / 2 : 0);
        order[i] = LLVMConstInt(e->i32, (unsigned)(i % 2 ? from + lanes : from), false);
    }
    return LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(order, (unsigned)lanes), "");
}

/* log2(lanes) perfect shuffles of the rows and their halves. */
static void transpose_rows(const Emit *e, LLVMValueRef *row, int lanes) {
    for (int stage = 1; stage < lanes; stage *= 2) {
        LLVMValueRef next[64];
        for (int i = 0; i < lanes / 2; i++) {
            next[2 * i] = interleave(e, row[i], row[i + lanes / 2], lanes, false);
            next[2 * i + 1] = interleave(e, row[i], row[i + lanes / 2], lanes, true);
        }
        for (int i = 0; i < lanes; i++) row[i] = next[i];
    }
}

LLVMValueRef micro_transpose(const Emit *e, int lanes) {
    char name[64];
    snprintf(name, sizeof name, "fusec.transpose_%d", lanes);
    LLVMValueRef known = LLVMGetNamedFunction(e->module, name), row[64];
    if (known) return known;
    LLVMTypeRef params[4] = {e->ptr, e->i64, e->ptr, e->i64}, vector = LLVMVectorType(e->f32, (unsigned)lanes);
    LLVMValueRef fn = function(e, name, 4, params);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderAtEnd(e->b, emit_block(e, fn, "entry"));
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef at =
            element_at(e, LLVMGetParam(fn, 0), LLVMBuildMul(e->b, LLVMGetParam(fn, 1), emit_i64(e, i), ""));
        LLVMSetAlignment(row[i] = LLVMBuildLoad2(e->b, vector, at, ""), 4);
    }
    transpose_rows(e, row, lanes);
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef at =
            element_at(e, LLVMGetParam(fn, 2), LLVMBuildMul(e->b, LLVMGetParam(fn, 3), emit_i64(e, i), ""));
        LLVMSetAlignment(LLVMBuildStore(e->b, row[i], at), 4);
    }
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, here);
    return fn;
}
