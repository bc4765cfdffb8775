/* Inner functions of matrix products, one per module and shape. */
#include "codegen/host/micro.h"
#include "codegen/host/running.h"
#include <stdio.h>

/* ---- a block of C ---------------------------------------------------------------------------------------------- */
enum { UNROLL = 4, AHEAD = 20, LINE = 64 / 4 };
enum { ARG_X, ARG_X_STEP, ARG_Y, ARG_Y_STEP, ARG_C, ARG_C_STRIDE, ARG_COUNT, ARG_FRESH, ARG_PACKED, ARGS };

typedef struct Micro {
    const Emit *e;
    LLVMValueRef fn;
    LLVMTypeRef vector;
    MicroShape s;
} Micro;

static LLVMValueRef element_at(const Emit *e, LLVMValueRef p, LLVMValueRef offset) {
    return LLVMBuildGEP2(e->b, e->f32, p, &offset, 1, "");
}

static LLVMValueRef c_vector(const Micro *m, int row, int vector) {
    const Emit *e = m->e;
    LLVMValueRef offset = LLVMBuildMul(e->b, LLVMGetParam(m->fn, ARG_C_STRIDE), emit_i64(e, row), "");
    offset = LLVMBuildAdd(e->b, offset, emit_i64(e, vector * m->s.lanes), "");
    return element_at(e, LLVMGetParam(m->fn, ARG_C), offset);
}

/* The line at an address, into the innermost cache: what comes next passes through it once. */
typedef enum { ASK_READ, ASK_WRITE } Ask;

static void ask_for(const Emit *e, LLVMValueRef at, Ask ask) {
    LLVMValueRef args[4] = {at, LLVMConstInt(e->i32, ask == ASK_WRITE, false), LLVMConstInt(e->i32, 3, false),
                            LLVMConstInt(e->i32, 1, false)};
    emit_intrinsic(e, "llvm.prefetch", 4, args);
}

/* Of a factor where it lies: f32 or bf16. */
static LLVMValueRef source_at(const Micro *m, LLVMValueRef p, LLVMValueRef offset) {
    return LLVMBuildGEP2(m->e->b, m->s.pairs ? m->e->i16 : m->e->f32, p, &offset, 1, "");
}

/* An element of X, or a pair of them; half: the second is not there. */
static LLVMValueRef x_element(const Micro *m, const Running *r, int row, bool half) {
    const Emit *e = m->e;
    if (m->s.x != X_AWAY) {
        LLVMValueRef at = element_at(e, r->x, emit_i64(e, (int64_t)row * (m->s.x == X_ROWS ? m->s.x_row : 1)));
        return LLVMBuildLoad2(e->b, e->f32, at, "");
    }
    LLVMValueRef at = source_at(m, r->x, LLVMBuildMul(e->b, LLVMGetParam(m->fn, ARG_X_STEP), emit_i64(e, row), ""));
    LLVMValueRef v = LLVMBuildLoad2(e->b, half ? e->i16 : e->f32, at, "");
    LLVMSetAlignment(v, m->s.pairs ? 2 : 4);
    return half ? LLVMBuildBitCast(e->b, LLVMBuildZExt(e->b, v, e->i32, ""), e->f32, "") : v;
}

/* A vector of bf16 where it lies, in the lower halves of 32 bits. */
static LLVMValueRef y_half(const Micro *m, LLVMValueRef at) {
    const Emit *e = m->e;
    LLVMValueRef v = LLVMBuildLoad2(e->b, LLVMVectorType(e->i16, (unsigned)m->s.lanes), at, "");
    LLVMSetAlignment(v, 2);
    return LLVMBuildZExt(e->b, v, LLVMVectorType(e->i32, (unsigned)m->s.lanes), "");
}

/* A vector of Y: floats, or pairs, of which two rows are made where they lie. */
static LLVMValueRef y_vector(const Micro *m, const Running *r, int vector, bool half) {
    const Emit *e = m->e;
    LLVMValueRef offset = emit_i64(e, (int64_t)vector * m->s.lanes);
    if (!m->s.pairs || m->s.y == Y_PACKED) {
        LLVMValueRef v = LLVMBuildLoad2(e->b, m->vector, element_at(e, r->y, offset), "");
        LLVMSetAlignment(v, 4);
        return v;
    }
    LLVMValueRef bits = y_half(m, source_at(m, r->y, offset));
    if (!half) {
        LLVMValueRef next = LLVMBuildAdd(e->b, offset, LLVMGetParam(m->fn, ARG_Y_STEP), "");
        LLVMValueRef up = emit_splat(e, LLVMConstInt(e->i32, 16, false), m->s.lanes);
        bits = LLVMBuildOr(e->b, bits, LLVMBuildShl(e->b, y_half(m, source_at(m, r->y, next)), up, ""), "");
    }
    return LLVMBuildBitCast(e->b, bits, m->vector, "");
}

/* Rows of Y that are read some steps later. */
static void ask_ahead(const Micro *m, const Running *r) {
    const Emit *e = m->e;
    const int line = m->s.pairs ? 2 * LINE : LINE;
    LLVMValueRef step = LLVMGetParam(m->fn, ARG_Y_STEP);
    for (int row = 0; row < (m->s.pairs ? 2 : 1); row++) {
        LLVMValueRef ahead = source_at(m, r->y, LLVMBuildMul(e->b, step, emit_i64(e, AHEAD + row), ""));
        for (int n = 0; n < m->s.vectors * m->s.lanes; n += line)
            ask_for(e, source_at(m, ahead, emit_i64(e, n)), ASK_READ);
    }
}

/* To the next k, or pair. */
static void advance(const Micro *m, Running *r) {
    const Emit *e = m->e;
    LLVMValueRef step = LLVMGetParam(m->fn, ARG_Y_STEP), whole = emit_i64(e, m->s.vectors * m->s.lanes);
    r->x = element_at(e, r->x, m->s.x == X_COLUMNS ? LLVMGetParam(m->fn, ARG_X_STEP) : emit_i64(e, 1));
    if (m->s.pairs) step = LLVMBuildShl(e->b, step, emit_i64(e, 1), "");
    r->y = m->s.y == Y_PACKED ? element_at(e, r->y, whole) : source_at(m, r->y, step);
    if (m->s.y == Y_COPIED) r->packed = element_at(e, r->packed, whole);
}

/* One k, or a pair: a row of Y against one element of each row of X. */
static void micro_step(const Micro *m, Running *r, bool half) {
    const Emit *e = m->e;
    LLVMValueRef column[RUNNING_VECTORS];
    if (m->s.y == Y_AWAY || m->s.y == Y_COPIED) ask_ahead(m, r);
    for (int v = 0; v < m->s.vectors; v++) {
        column[v] = y_vector(m, r, v, half);
        if (m->s.y != Y_COPIED) continue;
        LLVMValueRef to = element_at(e, r->packed, emit_i64(e, v * m->s.lanes));
        LLVMSetAlignment(LLVMBuildStore(e->b, column[v], to), 4);
    }
    for (int i = 0; i < m->s.rows; i++) {
        LLVMValueRef one = x_element(m, r, i, half);
        for (int v = 0; v < m->s.vectors; v++)
            r->acc[i][v] = micro_multiply_add(e, m->s.pairs, emit_splat(e, one, m->s.lanes), column[v], r->acc[i][v]);
    }
    advance(m, r);
}

/* `trips` rounds of `unroll` steps each, perhaps none; half: of k without a neighbour. */
static void micro_loop(const Micro *m, Running *r, LLVMValueRef trips, int unroll, bool half) {
    const Emit *e = m->e;
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(e->b), body = emit_block(e, m->fn, "k"),
                      done = emit_block(e, m->fn, "done");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, trips, emit_i64(e, 0), ""), body, done);
    LLVMPositionBuilderAtEnd(e->b, body);
    LLVMValueRef left = LLVMBuildPhi(e->b, e->i64, "");
    const Running round = running_phis(e, r);
    Running next = round;
    for (int i = 0; i < unroll; i++) micro_step(m, &next, half);
    LLVMValueRef less = LLVMBuildSub(e->b, left, emit_i64(e, 1), "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, less, emit_i64(e, 0), ""), body, done);
    LLVMAddIncoming(left, (LLVMValueRef[]){trips, less}, (LLVMBasicBlockRef[]){pre, body}, 2);
    running_join(&round, r, pre);
    running_join(&round, &next, body);
    LLVMPositionBuilderAtEnd(e->b, done);
    const Running after = running_phis(e, r);
    running_join(&after, r, pre);
    running_join(&after, &next, body);
    *r = after;
}

/* Sums start from zero; the block of C, which they will be added to or written over, is asked for meanwhile. */
static Running start(const Micro *m) {
    const Emit *e = m->e;
    Running r = {.rows = m->s.rows,
                 .vectors = m->s.vectors,
                 .x = LLVMGetParam(m->fn, ARG_X),
                 .y = LLVMGetParam(m->fn, ARG_Y)};
    if (m->s.y == Y_COPIED) r.packed = LLVMGetParam(m->fn, ARG_PACKED);
    LLVMPositionBuilderAtEnd(e->b, emit_block(e, m->fn, "entry"));
    for (int i = 0; i < m->s.rows; i++)
        for (int v = 0; v < m->s.vectors; v++) {
            r.acc[i][v] = LLVMConstNull(m->vector);
            if (v * m->s.lanes % LINE == 0) ask_for(e, c_vector(m, i, v), ASK_WRITE);
        }
    return r;
}

/* C = sums, or C += sums where it is not fresh. */
static void finish(const Micro *m, Running *r) {
    const Emit *e = m->e;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), old = emit_block(e, m->fn, "old"),
                      put = emit_block(e, m->fn, "put");
    LLVMBuildCondBr(e->b, LLVMBuildIsNotNull(e->b, LLVMGetParam(m->fn, ARG_FRESH), ""), put, old);
    LLVMPositionBuilderAtEnd(e->b, old);
    Running sum = *r;
    for (int i = 0; i < m->s.rows; i++)
        for (int v = 0; v < m->s.vectors; v++) {
            LLVMValueRef c = LLVMBuildLoad2(e->b, m->vector, c_vector(m, i, v), "");
            LLVMSetAlignment(c, 4);
            sum.acc[i][v] = LLVMBuildFAdd(e->b, r->acc[i][v], c, "");
        }
    LLVMBuildBr(e->b, put);
    LLVMPositionBuilderAtEnd(e->b, put);
    const Running all = running_phis(e, r);
    running_join(&all, r, from);
    running_join(&all, &sum, old);
    for (int i = 0; i < m->s.rows; i++)
        for (int v = 0; v < m->s.vectors; v++)
            LLVMSetAlignment(LLVMBuildStore(e->b, all.acc[i][v], c_vector(m, i, v)), 4);
    LLVMBuildRetVoid(e->b);
}

static void micro_body(const Micro *m) {
    const Emit *e = m->e;
    Running r = start(m);
    LLVMValueRef lanes = LLVMGetParam(m->fn, ARG_COUNT), count = lanes;
    if (m->s.pairs) count = LLVMBuildLShr(e->b, lanes, emit_i64(e, 1), "");
    const int unroll = m->s.x == X_AWAY ? 1 : UNROLL; /* strides of many rows need the registers */
    micro_loop(m, &r, LLVMBuildUDiv(e->b, count, emit_i64(e, unroll), ""), unroll, false);
    if (unroll > 1) micro_loop(m, &r, LLVMBuildURem(e->b, count, emit_i64(e, unroll), ""), 1, false);
    if (m->s.pairs) micro_loop(m, &r, LLVMBuildAnd(e->b, lanes, emit_i64(e, 1), ""), 1, true);
    finish(m, &r);
}

LLVMValueRef micro_product(const Emit *e, MicroShape s) {
    char name[64];
    static const char *const x_names[] = {"rows", "columns", "away"}, *const y_names[] = {"", "_near", "_away",
                                                                                          "_copied"};
    snprintf(name, sizeof name, "fusec.block_%dx%d_%s%d%s%s", s.rows, s.vectors * s.lanes, x_names[s.x],
             s.x == X_ROWS ? s.x_row : 0, y_names[s.y], s.pairs ? "_bf16" : "");
    LLVMValueRef known = LLVMGetNamedFunction(e->module, name);
    if (known) return known;
    LLVMTypeRef params[ARGS] = {e->ptr, e->i64, e->ptr, e->i64, e->ptr, e->i64, e->i64, e->i64, e->ptr};
    const Micro m = {.e = e,
                     .fn = micro_function(e, name, s.y == Y_COPIED ? ARGS : ARG_PACKED, params),
                     .vector = LLVMVectorType(e->f32, (unsigned)s.lanes),
                     .s = s};
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    micro_body(&m);
    LLVMPositionBuilderAtEnd(e->b, here);
    return m.fn;
}

/* ---- what comes next --------------------------------------------------------------------------------------------- */
LLVMValueRef micro_prefetch(const Emit *e, int lines) {
    char name[64];
    snprintf(name, sizeof name, "fusec.prefetch_%d", lines);
    LLVMValueRef known = LLVMGetNamedFunction(e->module, name);
    if (known) return known;
    LLVMTypeRef params[3] = {e->ptr, e->i64, e->i64};
    LLVMValueRef fn = micro_function(e, name, 3, params);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b), entry = emit_block(e, fn, "entry"),
                      body = emit_block(e, fn, "line"), done = emit_block(e, fn, "done");
    LLVMPositionBuilderAtEnd(e->b, entry);
    LLVMBuildBr(e->b, body);
    LLVMPositionBuilderAtEnd(e->b, body);
    LLVMValueRef at = LLVMBuildPhi(e->b, e->ptr, ""), left = LLVMBuildPhi(e->b, e->i64, "");
    for (int i = 0; i < lines; i++) ask_for(e, element_at(e, at, emit_i64(e, i * LINE)), ASK_READ);
    LLVMValueRef less = LLVMBuildSub(e->b, left, emit_i64(e, 1), ""), stride = LLVMGetParam(fn, 1);
    LLVMValueRef next = LLVMBuildGEP2(e->b, e->i8, at, &stride, 1, "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, less, emit_i64(e, 0), ""), body, done);
    LLVMBasicBlockRef from[2] = {entry, body};
    LLVMAddIncoming(at, (LLVMValueRef[]){LLVMGetParam(fn, 0), next}, from, 2);
    LLVMAddIncoming(left, (LLVMValueRef[]){LLVMGetParam(fn, 2), less}, from, 2);
    LLVMPositionBuilderAtEnd(e->b, done);
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, here);
    return fn;
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
    LLVMValueRef known = LLVMGetNamedFunction(e->module, name), row[64];
    if (known) return known;
    LLVMTypeRef params[4] = {e->ptr, e->i64, e->ptr, e->i64}, vector = LLVMVectorType(e->f32, (unsigned)lanes);
    LLVMValueRef fn = micro_function(e, name, 4, params);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderAtEnd(e->b, emit_block(e, fn, "entry"));
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef at =
            element_at(e, LLVMGetParam(fn, 0), LLVMBuildMul(e->b, LLVMGetParam(fn, 1), emit_i64(e, i), ""));
        LLVMSetAlignment(row[i] = LLVMBuildLoad2(e->b, vector, at, ""), pairs ? 2 : 4);
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
