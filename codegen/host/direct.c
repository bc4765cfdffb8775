/* Products that read their rows through a window; codegen/schedule/direct.c says how they are made. */
#include "codegen/host/counter.h"
#include "codegen/host/direct.h"
#include <string.h>

/* ---- packing Y --------------------------------------------------------------------------------------------------- */
/* Strides of k in a packed panel, per lane; returns the number of k. */
static LLVMValueRef k_strides(const Direct *d, LLVMValueRef *stride) {
    const Emit *e = d->ke->e;
    LLVMValueRef next = emit_i64(e, 1);
    for (int i = d->p->n_sums - 1; i >= 0; i--) {
        stride[d->p->sum_axis[i]] = next;
        next = LLVMBuildMul(e->b, next, units_of(d, d->p->sum_axis[i]), "");
    }
    return next;
}

static int64_t panel_columns(const Direct *d) {
    const int most = d->p->column_split.size[0] > d->p->column_split.size[1] ? d->p->column_split.size[0]
                                                                             : d->p->column_split.size[1];
    return (int64_t)most * d->ke->plan->machine->vector;
}

typedef struct PanelMemory {
    LLVMValueRef panel, transposed; /* transposed: where Y is packed along k first */
    int64_t length;                 /* of a row of `transposed` */
} PanelMemory;

static void transpose(const Direct *d, const PanelMemory *m, LLVMValueRef count, LLVMValueRef columns, int64_t width) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int lanes = d->ke->plan->machine->vector;
    LLVMValueRef fn = micro_transpose(e, lanes, false), length = emit_i64(e, m->length), panel = emit_i64(e, width);
    HostCounter n = counter_open(ke, emit_i64(e, 0), columns, lanes);
    HostCounter k = counter_open(ke, emit_i64(e, 0), count, lanes);
    LLVMValueRef args[] = {
        emit_f32_at(e, m->transposed, LLVMBuildAdd(e->b, LLVMBuildMul(e->b, n.i, length, ""), k.i, "")), length,
        emit_f32_at(e, m->panel, LLVMBuildAdd(e->b, LLVMBuildMul(e->b, k.i, panel, ""), n.i, "")), panel};
    emit_call(e, fn, sizeof args / sizeof *args, args);
    counter_close(ke, &k);
    counter_close(ke, &n);
}

/* Columns [from, from + width) of the inner column axis, whose lanes ke->lo and hi say. */
static void pack_panel(const Direct *d, const PanelMemory *m, int64_t width) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const TileType axes = tile_type_union(d->p->over, d->p->columns);
    Sink s = {.of = {.kind = SINK_PACK, .value = d->p->y, .storage = -1}, .pack = {.pairs = d->p->window.pairs}};
    LLVMValueRef *stride = s.pack.stride, origin = emit_i64(e, 0), unit = emit_i64(e, m->transposed ? 1 : width);
    LLVMValueRef count = k_strides(d, stride);
    for (int i = 0; i < d->p->over.n_axes; i++) {
        const int axis = d->p->over.axis[i];
        stride[axis] = LLVMBuildMul(e->b, stride[axis], unit, "");
        if (!d->p->flipped[axis]) continue;
        LLVMValueRef last = LLVMBuildSub(e->b, nest_lanes(d->ke, axis), emit_i64(e, 1), "");
        origin = LLVMBuildAdd(e->b, origin, LLVMBuildMul(e->b, last, stride[axis], ""), "");
        stride[axis] = LLVMBuildNeg(e->b, stride[axis], "");
    }
    for (int i = 0; i < d->p->columns.n_axes; i++) stride[d->p->columns.axis[i]] = emit_i64(e, 0); /* one lane */
    stride[d->p->inner_column] = emit_i64(e, m->transposed ? m->length : 1);
    LLVMValueRef columns = nest_lanes(d->ke, d->p->inner_column);
    s.pack.memory = emit_f32_at(e, m->transposed ? m->transposed : m->panel, origin);
    clear_past(ke, columns, width, m->panel, m->length * width);
    if (m->transposed) clear_past(ke, columns, width, m->transposed, m->length * width);
    nest_emit(ke, &axes, 1, &s);
    if (m->transposed) transpose(d, m, count, columns, width);
}

/* ---- multiplying ------------------------------------------------------------------------------------------------- */
/* Blocks [from, end) of equal size, alike. */
static void multiply_run(const Direct *d, LLVMValueRef *lane, Cursor at, MicroShape shape, int64_t from, int64_t end) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    HostCounter c = counter_open(ke, emit_i64(e, from), emit_i64(e, end), shape.side[1].rows);
    Level level[MAX_TILE_AXES];
    at.x = emit_f32_at(e, at.x, plus(d, emit_i64(e, 0), c.i, d->p->block_x));
    at.c = emit_f32_at(e, at.c, plus(d, emit_i64(e, 0), c.i, d->p->block_c));
    direct_multiply(d, level, direct_levels(d, shape.taps.n > 0, lane, level), at, shape);
    counter_close(ke, &c);
}

static MicroTapRows taps_at(const Direct *d, LLVMValueRef *lane, int64_t at, int rows) {
    MicroTapRows t;
    return direct_tap_rows(d, lane, at, rows, &t) ? t : (MicroTapRows){.n = 0};
}

static void multiply_blocks(const Direct *d, LLVMValueRef *lane, Cursor at, int vectors) {
    for (int i = 0; i < 2; i++) {
        const Split *s = &d->p->row_split;
        const int rows = s->size[i], lanes = d->ke->plan->machine->vector;
        MicroShape shape = {.side = {micro_rows(1, 0, 0), micro_rows(rows, d->p->block_x, d->p->block_c)},
                            .vectors = vectors,
                            .lanes = lanes,
                            .y = {.step = {(int64_t)vectors * lanes}},
                            .groups = MICRO_NO_GROUPS,
                            .pairs = d->p->window.pairs > 0,
                            .unroll = 1};
        for (int64_t from = s->at[i], end; from < s->at[i + 1]; from = end) {
            shape.taps = taps_at(d, lane, from, rows);
            for (end = from + rows; end < s->at[i + 1]; end += rows) {
                const MicroTapRows next = taps_at(d, lane, end, rows);
                if (memcmp(&next, &shape.taps, sizeof next)) break;
            }
            multiply_run(d, lane, at, shape, from, end);
        }
    }
}

static void multiply_rows(const Direct *d, int n, LLVMValueRef *lane, Cursor at, int vectors) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (n == d->p->n_row_axes) {
        multiply_blocks(d, lane, at, vectors);
        return;
    }
    const int axis = d->p->row_axis[n];
    HostCounter c = counter_open(ke, emit_i64(e, 0), nest_lanes(d->ke, axis), 1);
    Cursor next = at;
    next.x = emit_f32_at(e, at.x, plus(d, emit_i64(e, 0), c.i, d->p->x_stride[axis]));
    next.c = emit_f32_at(e, at.c, plus(d, emit_i64(e, 0), c.i, d->p->c_stride[axis]));
    lane[axis] = LLVMBuildAdd(e->b, ke->lo[axis], c.i, "");
    multiply_rows(d, n + 1, lane, next, vectors);
    lane[axis] = NULL;
    counter_close(ke, &c);
}

/* All panels of the inner column axis, for one lane of each outer one. */
static void multiply_panels(const Direct *d, const PanelMemory *m, LLVMValueRef *lane, LLVMValueRef c0) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int axis = d->p->inner_column;
    LLVMValueRef lo = ke->lo[axis], hi = ke->hi[axis], x0 = d->x_origin;
    for (int i = 0; i < d->p->over.n_axes; i++) { /* the first lane to be walked */
        const int k = d->p->over.axis[i];
        if (!d->p->flipped[k]) continue;
        LLVMValueRef last = LLVMBuildSub(e->b, nest_lanes(d->ke, k), emit_i64(e, 1), "");
        x0 = emit_f32_at(e, x0, plus(d, emit_i64(e, 0), last, d->p->x_stride[k]));
    }
    for (int i = 0; i < 2; i++) {
        const Split *s = &d->p->column_split;
        const int64_t width = (int64_t)s->size[i] * d->ke->plan->machine->vector;
        if (s->at[i] == s->at[i + 1]) continue;
        LLVMValueRef end[2] = {hi, emit_i64(e, s->at[i + 1] * d->ke->plan->machine->vector)};
        HostCounter c = counter_open(ke, emit_i64(e, s->at[i] * d->ke->plan->machine->vector),
                                     emit_intrinsic(e, "llvm.smin", 2, end), width);
        LLVMValueRef next[2] = {LLVMBuildAdd(e->b, c.i, emit_i64(e, width), ""), hi};
        ke->lo[axis] = c.i;
        ke->hi[axis] = emit_intrinsic(e, "llvm.smin", 2, next);
        pack_panel(d, m, width);
        multiply_rows(d, 0, lane, (Cursor){x0, m->panel, emit_f32_at(e, c0, c.i)}, s->size[i]);
        ke->lo[axis] = lo;
        ke->hi[axis] = hi;
        counter_close(ke, &c);
    }
}

static void multiply_columns(const Direct *d, int n, const PanelMemory *m, LLVMValueRef *lane, LLVMValueRef c0) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int at = d->p->c->n - d->p->c->n_columns + n, axis = d->p->c->axis[at];
    if (n == d->p->c->n_columns - 1) {
        multiply_panels(d, m, lane, c0);
        return;
    }
    LLVMValueRef lo = ke->lo[axis], hi = ke->hi[axis];
    HostCounter c = counter_open(ke, lo, hi, 1);
    ke->lo[axis] = lane[axis] = c.i;
    ke->hi[axis] = LLVMBuildAdd(e->b, c.i, emit_i64(e, 1), "");
    multiply_columns(d, n + 1, m, lane, emit_f32_at(e, c0, plus(d, emit_i64(e, 0), c.i, d->p->c_stride[axis])));
    lane[axis] = NULL;
    ke->lo[axis] = lo;
    ke->hi[axis] = hi;
    counter_close(ke, &c);
}

/* ---- the product ------------------------------------------------------------------------------------------------- */
static PanelMemory panel_memory(const Direct *d, bool transposed) {
    const int lanes = d->ke->plan->machine->vector;
    const int64_t n = direct_most_k(d->p) + lanes;
    PanelMemory m = {.panel = nest_alloca(d->ke, d->ke->e->f32, n * panel_columns(d)), .length = n};
    if (transposed) m.transposed = nest_alloca(d->ke, d->ke->e->f32, n * (panel_columns(d) + lanes));
    return m;
}

void direct_emit(KernelEmit *ke, const FormPlan *p, const DotResult *to) {
    Direct d = {.ke = ke, .p = p->of_form};
    LLVMPositionBuilderAtEnd(ke->e->b, ke->current);
    d.x_origin = window_pack(ke, &d.p->window).origin;
    d.c_origin = p->store ? to->memory : ke->memory[p->storage];
    d.fresh = to ? to->fresh : emit_i64(ke->e, 0);
    const PanelMemory m = panel_memory(&d, p->s.y == WAY_TRANSPOSED);
    LLVMValueRef lane[MAX_AXES] = {0};
    multiply_columns(&d, 0, &m, lane, d.c_origin);
}
