#include "codegen/host/direct_micro.h"
#include "codegen/host/micro_block.h"
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
    MicroBlock *block;
    DirectShape s;
    MicroVariable x, y;
    int first, end; /* rows that are summed */
} Micro;

static LLVMValueRef param(const Micro *m, unsigned i) { return LLVMGetParam(m->block->fn, i); }

static LLVMValueRef element_at(const Micro *m, LLVMValueRef p, int64_t offset) {
    return micro_element(m->block->e, p, emit_i64(m->block->e, offset));
}

static LLVMValueRef c_vector(const void *user, int row, int vector) {
    const Micro *m = user;
    return element_at(m, param(m, ARG_C), row * m->s.c_row + vector * m->s.lanes);
}

/* One k: a row of Y against one element of each row of X. */
static void step(const Micro *m) {
    const Emit *e = m->block->e;
    LLVMValueRef column[BLOCK_VECTORS], x = micro_get(m->block, m->x), y = micro_get(m->block, m->y);
    for (int v = 0; v < m->s.vectors; v++)
        column[v] = emit_load_f32(e, m->block->vector, element_at(m, y, (int64_t)v * m->s.lanes), NULL);
    for (int i = m->first; i < m->end; i++) {
        LLVMValueRef one = LLVMBuildLoad2(e->b, e->f32, element_at(m, x, i * m->s.x_row), "");
        for (int v = 0; v < m->s.vectors; v++)
            micro_add(m->block, i, v, m->s.pairs, emit_splat(e, one, m->s.lanes), column[v]);
    }
    micro_set(m->block, m->x, element_at(m, x, m->s.x_step));
    micro_set(m->block, m->y, element_at(m, y, (int64_t)m->s.vectors * m->s.lanes));
}

/* `trips` rounds, at least one. */
static void rounds(const Micro *m, LLVMValueRef trips, void (*body)(const Micro *)) {
    const MicroLoop loop = micro_loop_open(m->block, trips, true);
    body(m);
    micro_loop_close(m->block, &loop);
}

static void go_on(const Micro *m, LLVMValueRef x, LLVMValueRef y, unsigned by_x, unsigned by_y) {
    micro_set(m->block, m->x, micro_element(m->block->e, x, param(m, by_x)));
    micro_set(m->block, m->y, micro_element(m->block->e, y, param(m, by_y)));
}

static void tap_round(const Micro *m) {
    LLVMValueRef x = micro_get(m->block, m->x), y = micro_get(m->block, m->y);
    if (m->first < m->end) rounds(m, param(m, ARG_COUNT), step);
    go_on(m, x, y, ARG_X_TAP, ARG_Y_TAP);
}

static void outer_round(const Micro *m) {
    LLVMValueRef x = micro_get(m->block, m->x), y = micro_get(m->block, m->y);
    Micro tap = *m;
    for (int t = 0; t < m->s.taps.n; t++) {
        tap.first = m->s.taps.first[t];
        tap.end = m->s.taps.end[t];
        tap_round(&tap);
    }
    if (m->s.taps.n == 0) rounds(m, param(m, ARG_TAPS), tap_round);
    go_on(m, x, y, ARG_X_OUTER, ARG_Y_OUTER);
}

static void product(const Micro *m) {
    const Emit *e = m->block->e;
    LLVMValueRef outer = param(m, ARG_OUTER);
    LLVMBasicBlockRef join = micro_if_open(m->block, LLVMBuildICmp(e->b, LLVMIntSGT, outer, emit_i64(e, 0), ""));
    rounds(m, outer, outer_round);
    micro_if_close(m->block, join);
    micro_put(m->block, param(m, ARG_FRESH), NULL, c_vector, m);
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
    LLVMTypeRef params[ARGS] = {e->ptr, e->ptr, e->ptr};
    for (int i = ARG_FRESH; i < ARGS; i++) params[i] = e->i64;
    MicroBlock block;
    Micro m = {.block = &block, .s = s, .end = s.rows};
    if (!micro_begin(&block, e, name, ARGS, params, s.rows, s.vectors, s.lanes)) return block.fn;
    m.x = micro_variable(&block, param(&m, ARG_X));
    m.y = micro_variable(&block, param(&m, ARG_Y));
    product(&m);
    micro_end(&block);
    return block.fn;
}
