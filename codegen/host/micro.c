/* Inner functions of matrix products, one per module and shape. */
#include "codegen/host/micro.h"
#include "codegen/host/micro_block.h"
#include <stdio.h>
#include <string.h>

/* ---- a block of C ---------------------------------------------------------------------------------------------- */
enum { UNROLL = 4, AHEAD = 20, LINE = 64 / 4 };
enum { LATE = 40 }; /* steps before the end at which the block of C has been prefetched */
enum { ARG_X, ARG_X_STEP, ARG_Y, ARG_Y_STEP, ARG_C, ARG_C_STRIDE, ARG_COUNT, ARG_FRESH, ARGS };
/* Then place, stride and number of each walk; last, of Y_COPIED, where it is packed. */
enum { MOST_ARGS = ARGS + 3 * MICRO_WALKS + 2 };

typedef struct Micro {
    MicroBlock *block;
    MicroShape s;
    MicroVariable x, y, packed; /* packed: of Y_COPIED */
} Micro;

/* Of walk i, or after all of them. */
static unsigned walk_arg(const MicroShape *s, int i) {
    unsigned arg = ARGS;
    for (int w = 0; w < i; w++) arg += s->lines[w] ? 3 : 0;
    return arg;
}

static LLVMValueRef param(const Micro *m, unsigned i) { return LLVMGetParam(m->block->fn, i); }

static LLVMValueRef c_vector(const void *user, int row, int vector) {
    const Micro *m = user;
    const Emit *e = m->block->e;
    LLVMValueRef offset = LLVMBuildMul(e->b, param(m, ARG_C_STRIDE), emit_i64(e, row), "");
    offset = LLVMBuildAdd(e->b, offset, emit_i64(e, vector * m->s.lanes), "");
    return micro_element(e, param(m, ARG_C), offset);
}

/* The line at an address, into the innermost cache: what comes next passes through it once. */
typedef enum { TO_READ, TO_WRITE } Intent;

static void prefetch(const Emit *e, LLVMValueRef at, Intent intent) {
    LLVMValueRef args[4] = {at, LLVMConstInt(e->i32, intent == TO_WRITE, false), LLVMConstInt(e->i32, 3, false),
                            LLVMConstInt(e->i32, 1, false)};
    emit_intrinsic(e, "llvm.prefetch", 4, args);
}

/* Of a factor in place: f32 or bf16. */
static LLVMValueRef source_at(const Micro *m, LLVMValueRef p, LLVMValueRef offset) {
    return LLVMBuildGEP2(m->block->e->b, m->s.pairs ? m->block->e->i16 : m->block->e->f32, p, &offset, 1, "");
}

/* An element of X, or a pair of them; half: the second is not there. */
static LLVMValueRef x_element(const Micro *m, int row, bool half) {
    const Emit *e = m->block->e;
    if (m->s.x != X_AWAY) {
        LLVMValueRef at = micro_element(e, micro_get(m->block, m->x),
                                        emit_i64(e, (int64_t)row * (m->s.x == X_ROWS ? m->s.x_row : 1)));
        return LLVMBuildLoad2(e->b, e->f32, at, "");
    }
    LLVMValueRef at =
        source_at(m, micro_get(m->block, m->x), LLVMBuildMul(e->b, param(m, ARG_X_STEP), emit_i64(e, row), ""));
    LLVMValueRef v = LLVMBuildLoad2(e->b, half ? e->i16 : e->f32, at, "");
    LLVMSetAlignment(v, m->s.pairs ? 2 : 4);
    return half ? LLVMBuildBitCast(e->b, LLVMBuildZExt(e->b, v, e->i32, ""), e->f32, "") : v;
}

/* A vector of bf16 in place, in the lower halves of 32 bits. */
static LLVMValueRef y_half(const Micro *m, LLVMValueRef at) {
    const Emit *e = m->block->e;
    LLVMValueRef v = LLVMBuildLoad2(e->b, LLVMVectorType(e->i16, (unsigned)m->s.lanes), at, "");
    LLVMSetAlignment(v, 2);
    return LLVMBuildZExt(e->b, v, LLVMVectorType(e->i32, (unsigned)m->s.lanes), "");
}

/* A vector of Y: floats, or pairs, of which two rows are made in place. */
static LLVMValueRef y_vector(const Micro *m, int vector, bool half) {
    const Emit *e = m->block->e;
    LLVMValueRef offset = emit_i64(e, (int64_t)vector * m->s.lanes);
    if (!m->s.pairs || m->s.y == Y_PACKED) {
        LLVMValueRef v =
            LLVMBuildLoad2(e->b, m->block->vector, micro_element(e, micro_get(m->block, m->y), offset), "");
        LLVMSetAlignment(v, 4);
        return v;
    }
    LLVMValueRef bits = y_half(m, source_at(m, micro_get(m->block, m->y), offset));
    if (!half) {
        LLVMValueRef next = LLVMBuildAdd(e->b, offset, param(m, ARG_Y_STEP), "");
        LLVMValueRef up = emit_splat(e, LLVMConstInt(e->i32, 16, false), m->s.lanes);
        bits = LLVMBuildOr(e->b, bits,
                           LLVMBuildShl(e->b, y_half(m, source_at(m, micro_get(m->block, m->y), next)), up, ""), "");
    }
    return LLVMBuildBitCast(e->b, bits, m->block->vector, "");
}

/* Rows of Y that are read some steps later. */
static void prefetch_ahead(const Micro *m) {
    const Emit *e = m->block->e;
    const int line = m->s.pairs ? 2 * LINE : LINE;
    LLVMValueRef step = param(m, ARG_Y_STEP);
    for (int row = 0; row < (m->s.pairs ? 2 : 1); row++) {
        LLVMValueRef ahead =
            source_at(m, micro_get(m->block, m->y), LLVMBuildMul(e->b, step, emit_i64(e, AHEAD + row), ""));
        for (int n = 0; n < m->s.vectors * m->s.lanes; n += line)
            prefetch(e, source_at(m, ahead, emit_i64(e, n)), TO_READ);
    }
}

/* To the next k, or pair. */
static void advance(const Micro *m) {
    const Emit *e = m->block->e;
    LLVMValueRef step = param(m, ARG_Y_STEP), whole = emit_i64(e, m->s.y_row), x = micro_get(m->block, m->x),
                 y = micro_get(m->block, m->y);
    micro_set(m->block, m->x, micro_element(e, x, m->s.x == X_COLUMNS ? param(m, ARG_X_STEP) : emit_i64(e, 1)));
    if (m->s.pairs) step = LLVMBuildShl(e->b, step, emit_i64(e, 1), "");
    micro_set(m->block, m->y, m->s.y == Y_PACKED ? micro_element(e, y, whole) : source_at(m, y, step));
    if (m->s.y == Y_COPIED) micro_set(m->block, m->packed, micro_element(e, micro_get(m->block, m->packed), whole));
}

/* One k, or a pair: a row of Y against one element of each row of X. */
static void micro_step(const Micro *m, bool half) {
    const Emit *e = m->block->e;
    LLVMValueRef column[BLOCK_VECTORS];
    if (m->s.y == Y_AWAY || m->s.y == Y_COPIED) prefetch_ahead(m);
    for (int v = 0; v < m->s.vectors; v++) {
        column[v] = y_vector(m, v, half);
        if (m->s.y == Y_COPIED)
            emit_store_f32(e, column[v], micro_element(e, micro_get(m->block, m->packed), emit_i64(e, v * m->s.lanes)),
                           NULL);
    }
    for (int i = 0; i < m->s.rows; i++) {
        LLVMValueRef one = emit_splat(e, x_element(m, i, half), m->s.lanes);
        for (int v = 0; v < m->s.vectors; v++) micro_add(m->block, i, v, m->s.pairs, one, column[v]);
    }
    advance(m);
}

/* A walk beside the sums: with each step `lines` lines are prefetched, `stride` bytes on.  All at once they would take
 * the machine's few places for lines that are under way, and Y, a short way off, would have to wait for them. */
typedef struct Walk {
    LLVMValueRef at, stride;
    int lines;
    Intent intent;
} Walk;

/* `trips` rounds of `unroll` steps each, perhaps none; half: of k without a neighbour; walk: what is prefetched, or
 * NULL. */
static void micro_loop(const Micro *m, LLVMValueRef trips, int unroll, bool half, const Walk *walk) {
    const Emit *e = m->block->e;
    const MicroVariable place = walk ? micro_variable(m->block, walk->at) : -1;
    const MicroLoop loop = micro_loop_open(m->block, trips, false);
    if (walk) {
        LLVMValueRef at = micro_get(m->block, place);
        for (int i = 0; i < walk->lines; i++) prefetch(e, micro_element(e, at, emit_i64(e, i * LINE)), walk->intent);
        micro_set(m->block, place, LLVMBuildGEP2(e->b, e->i8, at, (LLVMValueRef[]){walk->stride}, 1, ""));
    }
    for (int i = 0; i < unroll; i++) micro_step(m, half);
    micro_loop_close(m->block, &loop);
}

static unsigned columns_arg(const MicroShape *s) { return walk_arg(s, MICRO_WALKS) + (s->y == Y_COPIED); }

/* Lanes of a vector of C that are there. */
static LLVMValueRef mask_of(const Micro *m, int vector) {
    const Emit *e = m->block->e;
    LLVMValueRef columns = param(m, columns_arg(&m->s));
    return emit_lanes_below(e, LLVMBuildSub(e->b, columns, emit_i64(e, vector * m->s.lanes), ""), m->s.lanes);
}

/* As many steps as there are, each with its part of a walk of n; what is left of them. */
static LLVMValueRef walk_along(const Micro *m, LLVMValueRef left, LLVMValueRef n, const Walk *walk) {
    const Emit *e = m->block->e;
    LLVMValueRef trips = emit_intrinsic(e, "llvm.smin", 2, (LLVMValueRef[]){n, left});
    micro_loop(m, trips, 1, false, walk);
    return LLVMBuildSub(e->b, left, trips, "");
}

/* Walk i, of whose places there may be more than steps; short sums come after all of it. */
static LLVMValueRef walk_ahead(const Micro *m, LLVMValueRef left, int i) {
    const Emit *e = m->block->e;
    const unsigned arg = walk_arg(&m->s, i);
    LLVMValueRef n = param(m, arg + 2);
    Walk walk = {param(m, arg), param(m, arg + 1), m->s.lines[i], TO_READ};
    LLVMValueRef rest = m->s.brief ? left : walk_along(m, left, n, &walk), done = LLVMBuildSub(e->b, left, rest, "");
    walk.at = LLVMBuildGEP2(e->b, e->i8, walk.at, (LLVMValueRef[]){LLVMBuildMul(e->b, done, walk.stride, "")}, 1, "");
    micro_loop(m, LLVMBuildSub(e->b, n, done, ""), 0, false, &walk);
    return rest;
}

/* Steps in rounds of UNROLL; how many remain. */
static LLVMValueRef rounds(const Micro *m, LLVMValueRef steps) {
    const Emit *e = m->block->e;
    const int unroll = m->s.x == X_AWAY ? 1 : UNROLL; /* strides of many rows need the registers */
    micro_loop(m, LLVMBuildUDiv(e->b, steps, emit_i64(e, unroll), ""), unroll, false, NULL);
    return LLVMBuildURem(e->b, steps, emit_i64(e, unroll), "");
}

/* The block of C, which sums are added to or written over, is prefetched when they are nearly made. */
static LLVMValueRef walk_c(const Micro *m, LLVMValueRef left) {
    const Emit *e = m->block->e;
    const Walk c = {param(m, ARG_C), LLVMBuildShl(e->b, param(m, ARG_C_STRIDE), emit_i64(e, 2), ""),
                    (m->s.vectors * m->s.lanes + LINE - 1) / LINE, TO_WRITE};
    LLVMValueRef before = LLVMBuildSub(e->b, left, emit_i64(e, m->s.rows + LATE), "");
    before = emit_intrinsic(e, "llvm.smax", 2, (LLVMValueRef[]){before, emit_i64(e, 0)});
    left = LLVMBuildAdd(e->b, LLVMBuildSub(e->b, left, before, ""), rounds(m, before), "");
    return walk_along(m, left, emit_i64(e, m->s.rows), &c);
}

static void prefetch_c(const Micro *m) {
    for (int i = 0; i < m->s.rows; i++)
        for (int v = 0; v < m->s.vectors; v++)
            if (v * m->s.lanes % LINE == 0) prefetch(m->block->e, c_vector(m, i, v), TO_WRITE);
}

static void micro_body(const Micro *m) {
    const Emit *e = m->block->e;
    LLVMValueRef lanes = param(m, ARG_COUNT), left = lanes;
    if (m->s.pairs) left = LLVMBuildLShr(e->b, lanes, emit_i64(e, 1), "");
    for (int i = 0; i < MICRO_WALKS; i++)
        if (m->s.lines[i]) left = walk_ahead(m, left, i);
    if (m->s.brief)
        prefetch_c(m);
    else
        left = walk_c(m, left);
    left = rounds(m, left);
    if (m->s.x != X_AWAY) micro_loop(m, left, 1, false, NULL);
    if (m->s.pairs) micro_loop(m, LLVMBuildAnd(e->b, lanes, emit_i64(e, 1), ""), 1, true, NULL);
    LLVMValueRef mask[BLOCK_VECTORS];
    for (int v = 0; v < m->s.vectors && m->s.masked; v++) mask[v] = mask_of(m, v);
    micro_put(m->block, param(m, ARG_FRESH), m->s.masked ? mask : NULL, c_vector, m);
}

/* Of all that the code depends on. */
static void name_of(const MicroShape *s, char *name, size_t size) {
    static const char *const x_names[] = {"rows", "columns", "away"}, *const y_names[] = {"", "_near", "_away", "_copied"};
    const int columns = s->vectors * s->lanes;
    int at = snprintf(name, size, "fusec.block_%dx%d_%s%d%s%s_ahead%d_%d", s->rows, columns, x_names[s->x], s->x == X_ROWS ? s->x_row : 0,
                      y_names[s->y], s->pairs ? "_bf16" : "", s->lines[0], s->lines[1]);
    if (s->y == Y_PACKED && s->y_row != columns) at += snprintf(name + at, size - (size_t)at, "_of%d", s->y_row);
    snprintf(name + at, size - (size_t)at, "%s%s", s->brief ? "_brief" : "", s->masked ? "_masked" : "");
}

LLVMValueRef micro_product(const Emit *e, MicroShape s) {
    char name[128];
    name_of(&s, name, sizeof name);
    LLVMTypeRef params[MOST_ARGS] = {e->ptr, e->i64, e->ptr, e->i64, e->ptr, e->i64, e->i64, e->i64};
    int n = (int)walk_arg(&s, MICRO_WALKS);
    for (int i = ARGS; i < n; i++) params[i] = (i - ARGS) % 3 ? e->i64 : e->ptr;
    if (s.y == Y_COPIED) params[n++] = e->ptr;
    if (s.masked) params[n++] = e->i64;
    MicroBlock block;
    Micro m = {.block = &block, .s = s};
    if (!micro_begin(&block, e, name, n, params, s.rows, s.vectors, s.lanes)) return block.fn;
    m.x = micro_variable(&block, param(&m, ARG_X));
    m.y = micro_variable(&block, param(&m, ARG_Y));
    if (s.y == Y_COPIED) m.packed = micro_variable(&block, param(&m, walk_arg(&s, MICRO_WALKS)));
    micro_body(&m);
    micro_end(&block);
    return block.fn;
}

/* ---- a block at the edge ---------------------------------------------------------------------------------------- */
/* One row: C is read where it counts, which may be nowhere. */
static void put_row(const Emit *e, LLVMValueRef fn, LLVMValueRef from, LLVMValueRef to, int vectors, int lanes) {
    LLVMTypeRef vector = LLVMVectorType(e->f32, (unsigned)lanes);
    LLVMValueRef columns = LLVMGetParam(fn, 4), old = LLVMBuildIsNull(e->b, LLVMGetParam(fn, 5), "");
    for (int v = 0; v < vectors; v++) {
        LLVMValueRef offset = emit_i64(e, v * lanes), at = micro_element(e, to, offset);
        LLVMValueRef here = emit_lanes_below(e, LLVMBuildSub(e->b, columns, offset, ""), lanes);
        LLVMValueRef counts = LLVMBuildAnd(e->b, here, emit_splat(e, old, lanes), "");
        LLVMValueRef c = emit_load_f32(e, vector, at, counts),
                     sum = emit_load_f32(e, vector, micro_element(e, from, offset), NULL);
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
    micro_set(&m, from, micro_element(e, micro_get(&m, from), emit_i64(e, vectors * lanes)));
    micro_set(&m, to, micro_element(e, micro_get(&m, to), LLVMGetParam(m.fn, 2)));
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
            micro_element(e, LLVMGetParam(m.fn, 0), LLVMBuildMul(e->b, LLVMGetParam(m.fn, 1), emit_i64(e, i), ""));
        LLVMSetAlignment(row[i] = LLVMBuildLoad2(e->b, vector, at, ""), pairs ? 2 : 4);
    }
    transpose_rows(e, row, lanes);
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef at =
            micro_element(e, LLVMGetParam(m.fn, 2), LLVMBuildMul(e->b, LLVMGetParam(m.fn, 3), emit_i64(e, i), ""));
        emit_store_f32(e, row[i], at, NULL);
    }
    micro_end(&m);
    return m.fn;
}
