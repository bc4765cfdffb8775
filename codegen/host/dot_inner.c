/* Few rows against columns that are contiguous along k, as inner products: vectors run along k in both factors, so that
 * Y is read once, in place, and nothing is transposed.  The time is that of reading Y; see dot.c. */
#include "codegen/host/counter.h"
#include "codegen/host/dot_internal.h"
#include "codegen/host/micro_block.h"
#include <stdio.h>

enum { ARG_X, ARG_X_STEP, ARG_Y, ARG_Y_STEP, ARG_C, ARG_C_STEP, ARG_COUNT, ARG_FRESH, ARGS };

/* void (x, x_step, y, y_step, c, c_step, k, fresh):
 *     c[r, n] = (fresh ? 0 : c[r, n]) + sum over i < k of x[r, i] * y[n, i]     r < rows, n < columns */
typedef struct Inner {
    MicroBlock *block; /* a vector of k for each row and column */
    int columns;
} Inner;

static LLVMValueRef param(const Inner *m, int i) { return LLVMGetParam(m->block->fn, (unsigned)i); }

/* The vector at lane `at` of line `line` of a factor; mask: of lanes that there are, the others zero, or NULL. */
static LLVMValueRef vector_at(const Inner *m, int factor, int line, LLVMValueRef at, LLVMValueRef mask) {
    const Emit *e = m->block->e;
    LLVMValueRef start = LLVMBuildMul(e->b, param(m, factor + 1), emit_i64(e, line), "");
    LLVMValueRef p = element_at(e, param(m, factor), LLVMBuildAdd(e->b, start, at, ""));
    return emit_load_f32(e, m->block->vector, p, mask);
}

static void step(const Inner *m, LLVMValueRef at, LLVMValueRef mask) {
    LLVMValueRef y[BLOCK_VECTORS];
    for (int n = 0; n < m->columns; n++) y[n] = vector_at(m, ARG_Y, n, at, mask);
    for (int i = 0; i < m->block->rows; i++) {
        LLVMValueRef x = vector_at(m, ARG_X, i, at, mask);
        for (int n = 0; n < m->columns; n++) micro_add(m->block, i, n, false, x, y[n]);
    }
}

/* Neighbours added: those of x, then those of y. */
static LLVMValueRef add_neighbours(const Inner *m, LLVMValueRef x, LLVMValueRef y) {
    const Emit *e = m->block->e;
    LLVMValueRef half[2], order[64];
    for (int odd = 0; odd < 2; odd++) {
        for (int i = 0; i < m->block->lanes; i++) order[i] = LLVMConstInt(e->i32, (unsigned)(2 * i + odd), false);
        half[odd] = LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(order, (unsigned)m->block->lanes), "");
    }
    return LLVMBuildFAdd(e->b, half[0], half[1], "");
}

/* The sum of each of `columns` vectors, in the first lanes of one. */
static LLVMValueRef sums(const Inner *m, LLVMValueRef *v) {
    for (int n = m->columns; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++) v[i] = add_neighbours(m, v[2 * i], v[2 * i + 1]);
    for (int n = m->block->lanes; n > m->columns; n /= 2) v[0] = add_neighbours(m, v[0], v[0]);
    LLVMValueRef order[64];
    for (int i = 0; i < m->columns; i++) order[i] = LLVMConstInt(m->block->e->i32, (unsigned)i, false);
    return LLVMBuildShuffleVector(m->block->e->b, v[0], v[0], LLVMConstVector(order, (unsigned)m->columns), "");
}

static void put(const Inner *m) {
    const Emit *e = m->block->e;
    LLVMValueRef keep = emit_splat(e, LLVMBuildIsNull(e->b, param(m, ARG_FRESH), ""), m->columns), v[BLOCK_VECTORS];
    LLVMTypeRef type = LLVMVectorType(e->f32, (unsigned)m->columns);
    for (int i = 0; i < m->block->rows; i++) {
        LLVMValueRef p = element_at(e, param(m, ARG_C), LLVMBuildMul(e->b, param(m, ARG_C_STEP), emit_i64(e, i), ""));
        LLVMValueRef old = emit_load_f32(e, type, p, keep);
        for (int n = 0; n < m->columns; n++) v[n] = micro_get(m->block, m->block->sum[i][n]);
        emit_store_f32(e, LLVMBuildFAdd(e->b, sums(m, v), old, ""), p, NULL);
    }
}

/* Whole vectors of k, then one that is partly there. */
static void body(const Inner *m) {
    const Emit *e = m->block->e;
    LLVMValueRef count = param(m, ARG_COUNT), lanes = emit_i64(e, m->block->lanes);
    const MicroVariable at = micro_variable(m->block, emit_i64(e, 0));
    LLVMValueRef rest = LLVMBuildURem(e->b, count, lanes, "");
    const MicroLoop whole = micro_loop_open(m->block, LLVMBuildUDiv(e->b, count, lanes, ""), false);
    step(m, micro_get(m->block, at), NULL);
    micro_set(m->block, at, LLVMBuildAdd(e->b, micro_get(m->block, at), lanes, ""));
    micro_loop_close(m->block, &whole);
    LLVMBasicBlockRef join = micro_if_open(m->block, LLVMBuildICmp(e->b, LLVMIntSGT, rest, emit_i64(e, 0), ""));
    step(m, micro_get(m->block, at), emit_lanes_below(e, rest, m->block->lanes));
    micro_if_close(m->block, join);
    put(m);
}

static LLVMValueRef inner_product(const Emit *e, int rows, int columns, int lanes) {
    char name[64];
    snprintf(name, sizeof name, "fusec.inner_%dx%d", rows, columns);
    LLVMTypeRef params[ARGS] = {e->ptr, e->i64, e->ptr, e->i64, e->ptr, e->i64, e->i64, e->i64};
    MicroBlock block;
    const Inner m = {.block = &block, .columns = columns};
    if (!micro_begin(&block, e, name, ARGS, params, rows, columns, lanes)) return block.fn;
    body(&m);
    micro_end(&block);
    return block.fn;
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
    const Emit *e = d->ke->e;
    const int wide = d->inner;
    LLVMValueRef all = dot_lanes(d, &d->columns, d->n_columns);
    LLVMValueRef whole = LLVMBuildSub(e->b, all, LLVMBuildURem(e->b, all, emit_i64(e, wide), ""), "");
    if (!d->x_direct.use) dot_pack_x(d, p);
    against(d, p, emit_i64(e, 0), whole, wide);
    if (wide > 1) against(d, p, whole, all, 1);
}
