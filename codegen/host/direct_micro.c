#include "codegen/host/direct_micro.h"
#include "codegen/host/running.h"
#include <stdio.h>

enum { ARG_X, ARG_Y, ARG_C, ARG_COUNT, ARG_OUTER, ARG_X_OUTER, ARGS };

typedef struct Micro {
    const Emit *e;
    LLVMValueRef fn;
    LLVMTypeRef vector;
    DirectShape s;
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
    for (int i = 0; i < m->s.rows; i++) {
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

static void inner_rounds(const Micro *m, Running *r) {
    LLVMValueRef x = r->x, by = LLVMGetParam(m->fn, ARG_X_OUTER);
    rounds(m, r, LLVMGetParam(m->fn, ARG_COUNT), step);
    r->x = LLVMBuildGEP2(m->e->b, m->e->f32, x, &by, 1, "");
}

static void product(const Micro *m) {
    const Emit *e = m->e;
    LLVMPositionBuilderAtEnd(e->b, emit_block(e, m->fn, "entry"));
    Running r = {.rows = m->s.rows,
                 .vectors = m->s.vectors,
                 .x = LLVMGetParam(m->fn, ARG_X),
                 .y = LLVMGetParam(m->fn, ARG_Y)};
    for (int i = 0; i < m->s.rows; i++)
        for (int v = 0; v < m->s.vectors; v++)
            LLVMSetAlignment(r.acc[i][v] = LLVMBuildLoad2(e->b, m->vector, c_vector(m, i, v), ""), 4);
    rounds(m, &r, LLVMGetParam(m->fn, ARG_OUTER), inner_rounds);
    for (int i = 0; i < m->s.rows; i++)
        for (int v = 0; v < m->s.vectors; v++)
            LLVMSetAlignment(LLVMBuildStore(e->b, r.acc[i][v], c_vector(m, i, v)), 4);
    LLVMBuildRetVoid(e->b);
}

LLVMValueRef direct_product(const Emit *e, DirectShape s) {
    char name[160];
    snprintf(name, sizeof name, "fusec.direct_%dx%d_%lld_%lld_%lld%s", s.rows, s.vectors * s.lanes, (long long)s.x_row,
             (long long)s.x_step, (long long)s.c_row, s.pairs ? "_bf16" : "");
    LLVMValueRef known = LLVMGetNamedFunction(e->module, name);
    if (known) return known;
    LLVMTypeRef params[ARGS] = {e->ptr, e->ptr, e->ptr, e->i64, e->i64, e->i64};
    const Micro m = {.e = e,
                     .fn = micro_function(e, name, ARGS, params),
                     .vector = LLVMVectorType(e->f32, (unsigned)s.lanes),
                     .s = s};
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    product(&m);
    LLVMPositionBuilderAtEnd(e->b, here);
    return m.fn;
}
