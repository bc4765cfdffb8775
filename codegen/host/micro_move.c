/* Inner functions that move what products read and leave: a block of C at an edge, a square of a factor transposed. */
#include "codegen/host/micro.h"
#include "codegen/host/micro_block.h"
#include <stdio.h>

/* ---- a block at the edge ---------------------------------------------------------------------------------------- */
/* One row: C is read where it counts, which may be nowhere. */
static void put_row(const Emit *e, LLVMValueRef fn, LLVMValueRef from, LLVMValueRef to, int vectors, int lanes) {
    LLVMTypeRef vector = LLVMVectorType(e->f32, (unsigned)lanes);
    LLVMValueRef columns = LLVMGetParam(fn, 4), old = LLVMBuildIsNull(e->b, LLVMGetParam(fn, 5), "");
    for (int v = 0; v < vectors; v++) {
        LLVMValueRef offset = emit_i64(e, v * lanes), at = emit_f32_at(e, to, offset);
        LLVMValueRef here = emit_lanes_below(e, LLVMBuildSub(e->b, columns, offset, ""), lanes);
        LLVMValueRef counts = LLVMBuildAnd(e->b, here, emit_splat(e, old, lanes), "");
        LLVMValueRef c = emit_load_f32(e, vector, at, counts),
                     sum = emit_load_f32(e, vector, emit_f32_at(e, from, offset), NULL);
        emit_store_f32(e, LLVMBuildFAdd(e->b, sum, c, ""), at, here);
    }
}

LLVMValueRef micro_put_edge(const Emit *e, int vectors, int lanes) {
    char name[64];
    snprintf(name, sizeof name, "fusec.put_%d", vectors * lanes);
    LLVMTypeRef params[6] = {e->ptr, e->ptr, e->i64, e->i64, e->i64, e->i64};
    MicroBlock m;
    if (!micro_begin(&m, e, name, 6, params, 0, 0, lanes)) return m.fn;
    const MicroVariable from = micro_variable(&m, LLVMGetParam(m.fn, 0)),
                        to = micro_variable(&m, LLVMGetParam(m.fn, 1));
    const MicroLoop rows = micro_loop_open(&m, LLVMGetParam(m.fn, 3), true);
    put_row(e, m.fn, micro_get(&m, from), micro_get(&m, to), vectors, lanes);
    micro_set(&m, from, emit_f32_at(e, micro_get(&m, from), emit_i64(e, vectors * lanes)));
    micro_set(&m, to, emit_f32_at(e, micro_get(&m, to), LLVMGetParam(m.fn, 2)));
    micro_loop_close(&m, &rows);
    micro_end(&m);
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

LLVMValueRef micro_transpose(const Emit *e, int lanes, bool pairs) {
    char name[64];
    snprintf(name, sizeof name, "fusec.transpose_%d%s", lanes, pairs ? "_bf16" : "");
    LLVMTypeRef params[4] = {e->ptr, e->i64, e->ptr, e->i64}, vector = LLVMVectorType(e->f32, (unsigned)lanes);
    LLVMValueRef row[64];
    MicroBlock m;
    if (!micro_begin(&m, e, name, 4, params, 0, 0, lanes)) return m.fn;
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef at =
            emit_f32_at(e, LLVMGetParam(m.fn, 0), LLVMBuildMul(e->b, LLVMGetParam(m.fn, 1), emit_i64(e, i), ""));
        LLVMSetAlignment(row[i] = LLVMBuildLoad2(e->b, vector, at, ""), pairs ? 2 : 4);
    }
    transpose_rows(e, row, lanes);
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef at =
            emit_f32_at(e, LLVMGetParam(m.fn, 2), LLVMBuildMul(e->b, LLVMGetParam(m.fn, 3), emit_i64(e, i), ""));
        emit_store_f32(e, row[i], at, NULL);
    }
    micro_end(&m);
    return m.fn;
}
