#include "codegen/host/direct_micro.h"
#include "codegen/host/running.h"
#include <stdio.h>

enum {
    ARG_X,
    ARG_Y,
    ARG_C,
    ARG_FRESH,
    ARG_COUNT,
    ARG_TAPS,
    ARG_X_TAP,
    ARG_Y_TAP,
    ARG_OUTER,
    ARG_X_OUTER,
    ARG_Y_OUTER,
    ARGS
};

typedef struct Micro {
    const Emit *e;
    LLVMValueRef fn;
    LLVMTypeRef vector;
    DirectShape s;
    int first, end; /* rows that are summed */
} Micro;

static LLVMValueRef element_at(const Emit *e, LLVMValueRef p, int64_t offset) {
    LLVMValueRef at = emit_i64(e, offset);
    return LLVMBuildGEP2(e->b, e->f32, p, &at, 1, "");
}

static LLVMValueRef c_vector(const Micro *m, int row, int vector) {
    return element_at(m->e, LLVMGetParam(m->fn, ARG_C), row * m->s.c_row + vector * m->s.lanes);
}

/* One k: a row of Y against one element of each row of X. */
static void step(const Micro *m, Running *r) {
    const Emit *e = m->e;
    LLVMValueRef column[RUNNING_VECTORS];
    for (int v = 0; v < m->s.vectors; v++) {
        column[v] = LLVMBuildLoad2(e->b, m->vector, element_at(e, r->y, (int64_t)v * m->s.lanes), "");
        LLVMSetAlignment(column[v], 4);
    }
    for (int i = m->first; i < m->end; i++) {
        LLVMValueRef one = LLVMBuildLoad2(e->b, e->f32, element_at(e, r->x, i * m->s.x_row), "");
        for (int v = 0; v < m->s.vectors; v++)
            r->acc[i][v] = micro_multiply_add(e, m->s.pairs, emit_splat(e, one, m->s.lanes), column[v], r->acc[i][v]);
    }
    r->x = element_at(e, r->x, m->s.x_step);
    r->y = element_at(e, r->y, (int64_t)m->s.vectors * m->s.lanes);
}

/* `trips` rounds, at least one, of a body that advances r. */
static void rounds(const Micro *m, Running *r, LLVMValueRef trips, void (*body)(const Micro *, Running *)) {
    const Emit *e = m->e;
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(e->b), header = emit_block(e, m->fn, "k");
    LLVMBuildBr(e->b, header);
    LLVMPositionBuilderAtEnd(e->b, header);
    LLVMValueRef left = LLVMBuildPhi(e->b, e->i64, "");
    const Running phis = running_phis(e, r);
    Running next = phis;
    body(m, &next);
    LLVMValueRef less = LLVMBuildSub(e->b, left, emit_i64(e, 1), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b), done = emit_block(e, m->fn, "done");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, less, emit_i64(e, 0), ""), header, done);
    LLVMAddIncoming(left, (LLVMValueRef[]){trips, less}, (LLVMBasicBlockRef[]){pre, latch}, 2);
    running_join(&phis, r, pre);
    running_join(&phis, &next, latch);
    LLVMPositionBuilderAtEnd(e->b, done);
    *r = next;
}

static LLVMValueRef moved(const Micro *m, LLVMValueRef p, int by) {
    LLVMValueRef offset = LLVMGetParam(m->fn, (unsigned)by);
    return LLVMBuildGEP2(m->e->b, m->e->f32, p, &offset, 1, "");
}

static void tap_round(const Micro *m, Running *r) {
    const LLVMValueRef x = r->x, y = r->y;
    if (m->first < m->end) rounds(m, r, LLVMGetParam(m->fn, ARG_COUNT), step);
    r->x = moved(m, x, ARG_X_TAP);
    r->y = moved(m, y, ARG_Y_TAP);
}

static void outer_round(const Micro *m, Running *r) {
    const LLVMValueRef x = r->x, y = r->y;
    Micro tap = *m;
    for (int t = 0; t < m->s.taps.n; t++) {
        tap.first = m->s.taps.first[t];
        tap.end = m->s.taps.end[t];
        tap_round(&tap, r);
    }
    if (m->s.taps.n == 0) rounds(m, r, LLVMGetParam(m->fn, ARG_TAPS), tap_round);
    r->x = moved(m, x, ARG_X_OUTER);
    r->y = moved(m, y, ARG_Y_OUTER);
}

/* Two ways to here: what r was at the end of block `from`, and what it became since. */
static void join(const Micro *m, Running *r, const Running *was, LLVMBasicBlockRef from, LLVMBasicBlockRef here) {
    const Emit *e = m->e;
    LLVMBasicBlockRef since = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, here);
    LLVMPositionBuilderAtEnd(e->b, here);
    const Running both = running_phis(e, r);
    running_join(&both, was, from);
    running_join(&both, r, since);
    *r = both;
}

/* What C holds is added last: a block's sum is made from zero, so that long ones stay accurate (docs/numerics.md). */
static void put(const Micro *m, Running *r) {
    const Emit *e = m->e;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b), old = emit_block(e, m->fn, "old"),
                      end = emit_block(e, m->fn, "end");
    const Running sum = *r;
    LLVMBuildCondBr(e->b, LLVMBuildIsNotNull(e->b, LLVMGetParam(m->fn, ARG_FRESH), ""), end, old);
    LLVMPositionBuilderAtEnd(e->b, old);
    for (int i = 0; i < m->s.rows; i++)
        for (int v = 0; v < m->s.vectors; v++) {
            LLVMValueRef c = LLVMBuildLoad2(e->b, m->vector, c_vector(m, i, v), "");
            LLVMSetAlignment(c, 4);
            r->acc[i][v] = LLVMBuildFAdd(e->b, r->acc[i][v], c, "");
        }
    join(m, r, &sum, here, end);
    for (int i = 0; i < m->s.rows; i++)
        for (int v = 0; v < m->s.vectors; v++)
            LLVMSetAlignment(LLVMBuildStore(e->b, r->acc[i][v], c_vector(m, i, v)), 4);
}

static void product(const Micro *m) {
    const Emit *e = m->e;
    Running r = {
        .rows = m->s.rows, .vectors = m->s.vectors, .x = LLVMGetParam(m->fn, ARG_X), .y = LLVMGetParam(m->fn, ARG_Y)};
    LLVMPositionBuilderAtEnd(e->b, emit_block(e, m->fn, "entry"));
    for (int i = 0; i < m->s.rows; i++)
        for (int v = 0; v < m->s.vectors; v++) r.acc[i][v] = LLVMConstNull(m->vector);
    const Running zero = r;
    LLVMValueRef outer = LLVMGetParam(m->fn, ARG_OUTER);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b), some = emit_block(e, m->fn, "some"),
                      done = emit_block(e, m->fn, "done");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, outer, emit_i64(e, 0), ""), some, done);
    LLVMPositionBuilderAtEnd(e->b, some);
    rounds(m, &r, outer, outer_round);
    join(m, &r, &zero, here, done);
    put(m, &r);
    LLVMBuildRetVoid(e->b);
}

static int name_of(const DirectShape *s, char *name, size_t size) {
    int at = snprintf(name, size, "fusec.direct_%dx%d_%lld_%lld_%lld%s", s->rows, s->vectors * s->lanes,
                      (long long)s->x_row, (long long)s->x_step, (long long)s->c_row, s->pairs ? "_bf16" : "");
    for (int t = 0; t < s->taps.n; t++)
        at += snprintf(name + at, size - (size_t)at, "_%d.%d", s->taps.first[t], s->taps.end[t]);
    return at;
}

LLVMValueRef direct_product(const Emit *e, DirectShape s) {
    char name[240];
    name_of(&s, name, sizeof name);
    LLVMValueRef known = LLVMGetNamedFunction(e->module, name);
    if (known) return known;
    LLVMTypeRef params[ARGS] = {e->ptr, e->ptr, e->ptr};
    for (int i = ARG_FRESH; i < ARGS; i++) params[i] = e->i64;
    const Micro m = {.e = e,
                     .fn = micro_function(e, name, ARGS, params),
                     .vector = LLVMVectorType(e->f32, (unsigned)s.lanes),
                     .s = s,
                     .end = s.rows};
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    product(&m);
    LLVMPositionBuilderAtEnd(e->b, here);
    return m.fn;
}
