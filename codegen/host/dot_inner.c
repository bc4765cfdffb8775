/* Few rows against columns that are contiguous along k, as inner products: vectors run along k in both factors, so that
 * Y is read once, in place, and nothing is transposed.  The time is that of reading Y; see dot.h. */
#include "codegen/host/counter.h"
#include "codegen/host/dot.h"
#include "codegen/host/micro.h"

/* All rows against columns [first, end), `wide` at a time. */
static void against(const Dot *d, const Packed *p, LLVMValueRef first, LLVMValueRef end, int wide) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (known_false(LLVMBuildICmp(e->b, LLVMIntSLT, first, end, ""))) return;
    HostCounter n = counter_open(ke, first, end, wide);
    LLVMValueRef offset = LLVMBuildMul(e->b, n.i, emit_i64(e, d->p->y_direct.across), "");
    const int64_t lanes = d->ke->plan->machine->vector;
    const MicroShape shape = {.side = {micro_rows(1, 0, 0), micro_rows(d->p->n_rows, 0, 0)},
                              .vectors = wide,
                              .lanes = lanes,
                              .x = {.vector = 1, .step = {lanes}},
                              .y = {.vector = 1, .step = {lanes}},
                              .groups = MICRO_NO_GROUPS,
                              .along = 1,
                              .levels = 1,
                              .unroll = 1};
    LLVMValueRef args[MICRO_ARGS] = {[MICRO_X] = d->p->x_direct.use ? p->x_here : p->x,
                                     [MICRO_X_ROW] =
                                         emit_i64(e, d->p->x_direct.use ? d->p->x_direct.across : d->p->x_pitch),
                                     [MICRO_Y] = emit_f32_at(e, p->y_here, offset),
                                     [MICRO_Y_COLUMN] = emit_i64(e, d->p->y_direct.across),
                                     [MICRO_C] = emit_f32_at(e, d->to.memory, n.i),
                                     [MICRO_C_ROW] = d->to.step,
                                     [MICRO_COUNT] = p->count,
                                     [MICRO_FRESH] = d->to.fresh};
    micro_product(e, "inner", shape, args);
    counter_close(ke, &n);
}

void dot_inner_products(const Dot *d, const Packed *p) {
    const Emit *e = d->ke->e;
    const int wide = d->p->inner;
    LLVMValueRef all = dot_lanes(d, &d->p->columns, d->p->n_columns);
    LLVMValueRef whole = LLVMBuildSub(e->b, all, LLVMBuildURem(e->b, all, emit_i64(e, wide), ""), "");
    if (!d->p->x_direct.use) dot_pack_x(d, p);
    against(d, p, emit_i64(e, 0), whole, wide);
    if (wide > 1) against(d, p, whole, all, 1);
}
