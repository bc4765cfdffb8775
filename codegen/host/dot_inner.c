/* Few rows against columns that are contiguous along k, as inner products: vectors run along k in both factors, so that Y is read
 * once, in place, and nothing is transposed.  The time is that of reading Y; see dot.c. */
#include "codegen/host/counter.h"
#include "codegen/host/dot_internal.h"
#include "codegen/host/running.h"
#include <stdio.h>

enum { ARG_X, ARG_X_STEP, ARG_Y, ARG_Y_STEP, ARG_C, ARG_C_STEP, ARG_COUNT, ARG_FRESH, ARGS };

/* void (x, x_step, y, y_step, c, c_step, k, fresh):
 *     c[r, n] = (fresh ? 0 : c[r, n]) + sum over i < k of x[r, i] * y[n, i]     r < rows, n < columns */
typedef struct Inner {
    const Emit *e;
    LLVMValueRef fn;
    LLVMTypeRef vector;
    int rows, columns, lanes;
} Inner;

/* The vector at lane `at` of line `line` of a factor; mask: of lanes that there are, the others zero, or NULL. */
static LLVMValueRef vector_at(const Inner *m, int factor, int line, LLVMValueRef at, LLVMValueRef mask) {
    const Emit *e = m->e;
    LLVMValueRef start = LLVMBuildMul(e->b, LLVMGetParam(m->fn, (unsigned)factor + 1), emit_i64(e, line), "");
    LLVMValueRef p = element_at(e, LLVMGetParam(m->fn, (unsigned)factor), LLVMBuildAdd(e->b, start, at, ""));
    return emit_load_f32(e, m->vector, p, mask);
}

static void step(const Inner *m, Running *r, LLVMValueRef at, LLVMValueRef mask) {
    LLVMValueRef y[RUNNING_VECTORS];
    for (int n = 0; n < m->columns; n++) y[n] = vector_at(m, ARG_Y, n, at, mask);
    for (int i = 0; i < m->rows; i++) {
        LLVMValueRef x = vector_at(m, ARG_X, i, at, mask);
        for (int n = 0; n < m->columns; n++) r->acc[i][n] = micro_multiply_add(m->e, false, x, y[n], r->acc[i][n]);
    }
}

/* Neighbours added: those of x, then those of y. */
static LLVMValueRef add_neighbours(const Inner *m, LLVMValueRef x, LLVMValueRef y) {
    const Emit *e = m->e;
    LLVMValueRef half[2], order[64];
    for (int odd = 0; odd < 2; odd++) {
        for (int i = 0; i < m->lanes; i++) order[i] = LLVMConstInt(e->i32, (unsigned)(2 * i + odd), false);
        half[odd] = LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(order, (unsigned)m->lanes), "");
    }
    return LLVMBuildFAdd(e->b, half[0], half[1], "");
}

/* The sum of each of `columns` vectors, in the first lanes of one. */
static LLVMValueRef sums(const Inner *m, LLVMValueRef *v) {
    for (int n = m->columns; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++) v[i] = add_neighbours(m, v[2 * i], v[2 * i + 1]);
    for (int n = m->lanes; n > m->columns; n /= 2) v[0] = add_neighbours(m, v[0], v[0]);
    LLVMValueRef order[64];
    for (int i = 0; i < m->columns; i++) order[i] = LLVMConstInt(m->e->i32, (unsigned)i, false);
    return LLVMBuildShuffleVector(m->e->b, v[0], v[0], LLVMConstVector(order, (unsigned)m->columns), "");
}

static void put(const Inner *m, Running *r) {
    const Emit *e = m->e;
    LLVMValueRef fresh = LLVMBuildIsNotNull(e->b, LLVMGetParam(m->fn, ARG_FRESH), "");
    LLVMValueRef keep = emit_splat(e, LLVMBuildNot(e->b, fresh, ""), m->columns);
    LLVMTypeRef type = LLVMVectorType(e->f32, (unsigned)m->columns);
    for (int i = 0; i < m->rows; i++) {
        LLVMValueRef at = LLVMBuildMul(e->b, LLVMGetParam(m->fn, ARG_C_STEP), emit_i64(e, i), "");
        LLVMValueRef p = element_at(e, LLVMGetParam(m->fn, ARG_C), at);
        LLVMValueRef old = emit_load_f32(e, type, p, keep);
        emit_store_f32(e, LLVMBuildFAdd(e->b, sums(m, r->acc[i]), old, ""), p, NULL);
    }
    LLVMBuildRetVoid(e->b);
}

/* Whole vectors of k, then one that is partly there. */
static void body(const Inner *m) {
    const Emit *e = m->e;
    LLVMBasicBlockRef entry = emit_block(e, m->fn, "entry"), loop = emit_block(e, m->fn, "k"),
                      last = emit_block(e, m->fn, "last"), done = emit_block(e, m->fn, "done");
    Running r = {
        .rows = m->rows, .vectors = m->columns, .x = LLVMGetParam(m->fn, ARG_X), .y = LLVMGetParam(m->fn, ARG_Y)};
    LLVMValueRef count = LLVMGetParam(m->fn, ARG_COUNT), zero = emit_i64(e, 0);
    for (int i = 0; i < m->rows; i++)
        for (int n = 0; n < m->columns; n++) r.acc[i][n] = LLVMConstNull(m->vector);
    LLVMPositionBuilderAtEnd(e->b, entry);
    LLVMValueRef rest = LLVMBuildURem(e->b, count, emit_i64(e, m->lanes), ""),
                 whole = LLVMBuildSub(e->b, count, rest, "");
    LLVMBasicBlockRef ends[2] = {entry, loop};
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, whole, zero, ""), loop, last);

    LLVMPositionBuilderAtEnd(e->b, loop);
    LLVMValueRef at = LLVMBuildPhi(e->b, e->i64, "");
    const Running round = running_phis(e, &r);
    Running next = round;
    step(m, &next, at, NULL);
    LLVMValueRef on = LLVMBuildAdd(e->b, at, emit_i64(e, m->lanes), "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, on, whole, ""), loop, last);
    LLVMAddIncoming(at, (LLVMValueRef[]){zero, on}, ends, 2);
    running_join(&round, &r, entry);
    running_join(&round, &next, loop);

    LLVMPositionBuilderAtEnd(e->b, last);
    const Running before = running_phis(e, &r);
    running_join(&before, &r, entry);
    running_join(&before, &next, loop);
    LLVMBasicBlockRef part = emit_block(e, m->fn, "part");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, rest, zero, ""), part, done);
    LLVMPositionBuilderAtEnd(e->b, part);
    Running after = before;
    step(m, &after, whole, emit_lanes_below(e, rest, m->lanes));
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
    Running all = running_phis(e, &r);
    running_join(&all, &before, last);
    running_join(&all, &after, part);
    put(m, &all);
}

static LLVMValueRef inner_product(const Emit *e, int rows, int columns, int lanes) {
    char name[64];
    snprintf(name, sizeof name, "fusec.inner_%dx%d", rows, columns);
    LLVMValueRef known = LLVMGetNamedFunction(e->module, name);
    if (known) return known;
    LLVMTypeRef params[ARGS] = {e->ptr, e->i64, e->ptr, e->i64, e->ptr, e->i64, e->i64, e->i64};
    const Inner m = {.e = e,
                     .fn = micro_function(e, name, ARGS, params),
                     .rows = rows,
                     .columns = columns,
                     .lanes = lanes,
                     .vector = LLVMVectorType(e->f32, (unsigned)lanes)};
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    body(&m);
    LLVMPositionBuilderAtEnd(e->b, here);
    return m.fn;
}

/* All rows against columns [first, end), `wide` at a time. */
static void against(const Dot *d, const Packed *p, LLVMValueRef first, LLVMValueRef end, int wide) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (dot_never(LLVMBuildICmp(e->b, LLVMIntSLT, first, end, ""))) return;
    HostCounter n = counter_open(ke, first, end, wide);
    LLVMValueRef lies = LLVMBuildMul(e->b, n.i, emit_i64(e, d->y_direct.across), "");
    LLVMValueRef args[ARGS] = {[ARG_X] = d->x_direct.use ? p->x_here : p->x,
                               [ARG_X_STEP] = emit_i64(e, d->x_direct.use ? d->x_direct.across : d->x_pitch),
                               [ARG_Y] = element_at(e, p->y_here, lies),
                               [ARG_Y_STEP] = emit_i64(e, d->y_direct.across),
                               [ARG_C] = element_at(e, d->to.memory, n.i),
                               [ARG_C_STEP] = d->to.step,
                               [ARG_COUNT] = p->count,
                               [ARG_FRESH] = d->to.fresh};
    emit_call(e, inner_product(e, (int)d->n_rows, wide, d->machine->vector), ARGS, args);
    counter_close(ke, &n);
}

void dot_inner_products(const Dot *d, const Packed *p) {
    enum { MOST = 8 }; /* columns at a time: as many streams */
    const Emit *e = d->ke->e;
    const int room = d->machine->registers * 3 / 4 / (int)d->n_rows;
    int wide = 1;
    while (2 * wide <= room && 2 * wide <= MOST && 2 * wide <= d->machine->vector) wide *= 2;
    LLVMValueRef all = dot_lanes(d, &d->columns, d->n_columns);
    LLVMValueRef whole = LLVMBuildSub(e->b, all, LLVMBuildURem(e->b, all, emit_i64(e, wide), ""), "");
    if (!d->x_direct.use) dot_pack_x(d, p);
    against(d, p, emit_i64(e, 0), whole, wide);
    if (wide > 1) against(d, p, whole, all, 1);
}
