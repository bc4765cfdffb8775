/* Packing the factors of a matrix product; see dot.h. */
#include "codegen/host/counter.h"
#include "codegen/host/dot.h"
#include "codegen/host/micro.h"

LLVMValueRef dot_dense(const Dot *d, int n, const int8_t *order, LLVMValueRef *stride) {
    const KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    LLVMValueRef next = emit_i64(e, 1);
    for (int i = n - 1; i >= 0; i--) {
        const int axis = order[i];
        if (!tile_type_has(&d->p->over, axis)) continue;
        LLVMValueRef units = nest_lanes(ke, axis);
        if (axis == d->p->pair_axis)
            units = LLVMBuildLShr(e->b, LLVMBuildAdd(e->b, units, emit_i64(e, 1), ""), emit_i64(e, 1), "");
        stride[axis] = next;
        next = LLVMBuildMul(e->b, next, units, "");
    }
    return next;
}

/* Lanes of a group that exist now: [lo, hi) of each of its axes. */
static LLVMValueRef existing(const KernelEmit *ke, const TileType *group) {
    const Emit *e = ke->e;
    LLVMValueRef n = emit_i64(e, 1);
    for (int i = 0; i < group->n_axes; i++) n = LLVMBuildMul(e->b, n, nest_lanes(ke, group->axis[i]), "");
    return n;
}

static void pack(KernelEmit *ke, int value, const TileType *axes, const PackPlace *place) {
    Sink s = {.of = {.kind = SINK_PACK, .value = value, .storage = -1}, .pack = *place};
    nest_emit(ke, axes, 1, &s);
}

/* Lanes of a group that exist: exact for one axis, the padded size otherwise. */
LLVMValueRef dot_lanes(const Dot *d, const TileType *group, int64_t padded) {
    return group->n_axes == 1 ? d->ke->hi[group->axis[0]] : emit_i64(d->ke->e, padded);
}

/* Dots follow one another, so that they can pack into the same memory. */
LLVMValueRef dot_pack_memory(KernelEmit *ke, int which, int64_t n) {
    if (ke->pack_size[which] < n) {
        ke->pack[which] = nest_alloca(ke, ke->e->f32, n);
        ke->pack_size[which] = n;
    }
    return ke->pack[which];
}

/* Columns [first, first + lanes) of Y are laid out as [columns][k], `pitch` apart: squares of them, transposed, go into
 * their panel.
 */
static void transpose(const Dot *d, LLVMValueRef from, int64_t pitch, LLVMValueRef first, LLVMValueRef to,
                      LLVMValueRef count) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int lanes = d->ke->plan->machine->vector;
    LLVMValueRef panel = LLVMBuildUDiv(e->b, first, emit_i64(e, d->p->panel), "");
    LLVMValueRef inside = LLVMBuildURem(e->b, first, emit_i64(e, d->p->panel), "");
    LLVMValueRef start = LLVMBuildMul(e->b, panel, emit_i64(e, d->p->panel * d->p->y_pitch), "");
    start = LLVMBuildAdd(e->b, start, inside, "");
    HostCounter k = counter_open(ke, emit_i64(e, 0), count, lanes);
    LLVMValueRef target = LLVMBuildAdd(e->b, start, LLVMBuildMul(e->b, k.i, emit_i64(e, d->p->panel), ""), "");
    LLVMValueRef args[] = {emit_f32_at(e, from, k.i), emit_i64(e, pitch), emit_f32_at(e, to, target),
                           emit_i64(e, d->p->panel)};
    emit_call(e, micro_transpose(e, lanes, d->p->pair_axis >= 0), sizeof args / sizeof *args, args);
    counter_close(ke, &k);
}

/* Is a strip made of whole squares that lie in memory? */
static LLVMValueRef whole_squares(const Dot *d, const Packed *p, LLVMValueRef strip_end, LLVMValueRef end) {
    const Emit *e = d->ke->e;
    if (!d->p->y_direct.transposed) return LLVMConstInt(LLVMInt1TypeInContext(e->context), 0, false);
    const int64_t square = d->ke->plan->machine->vector * (d->p->pair_axis >= 0 ? 2 : 1);
    LLVMValueRef rest = LLVMBuildURem(e->b, p->lanes, emit_i64(e, square), "");
    LLVMValueRef deep = LLVMBuildICmp(e->b, LLVMIntEQ, rest, emit_i64(e, 0), "");
    return LLVMBuildAnd(e->b, deep, LLVMBuildICmp(e->b, LLVMIntSLE, strip_end, end, ""), "");
}

static void transpose_in_place(const Dot *d, const Packed *p, LLVMValueRef first, LLVMValueRef memory) {
    const Emit *e = d->ke->e;
    LLVMValueRef skipped = LLVMBuildMul(e->b, first, emit_i64(e, d->p->y_direct.across), "");
    const int64_t pitch = d->p->y_direct.across * blocks_source_bytes(d->p) / 4;
    transpose(d, source_at(d, p->y_here, skipped), pitch, first, memory, p->count);
}

/* Loads along k, one axis of columns: a strip of one vector of columns at a time, transposed in place, or evaluated
 * aside, where it stays in the innermost cache. */
static void pack_strips(const Dot *d, const Packed *p, PackPlace *place, LLVMValueRef memory) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int lanes = d->ke->plan->machine->vector, axis = d->p->columns.axis[0];
    const TileType axes = tile_type_union(d->p->over, d->p->columns);
    LLVMValueRef end = ke->hi[axis];
    place->memory = dot_pack_memory(ke, 2, d->p->y_pitch * lanes);
    clear_past(ke, existing(ke, &d->p->columns), lanes, place->memory, d->p->y_pitch * lanes);
    place->stride[axis] = emit_i64(e, d->p->y_pitch);
    HostCounter n = counter_open(ke, emit_i64(e, 0), end, lanes);
    LLVMValueRef stop[2] = {LLVMBuildAdd(e->b, n.i, emit_i64(e, lanes), ""), end};
    LLVMValueRef is_whole = whole_squares(d, p, stop[0], end), aside = LLVMBuildNot(e->b, is_whole, "");
    if (d->p->y_direct.transposed) {
        HostBranch whole = branch_open(ke, is_whole);
        transpose_in_place(d, p, n.i, memory);
        branch_close(ke, &whole);
    }
    HostBranch other = branch_open(ke, aside);
    ke->lo[axis] = n.i;
    ke->hi[axis] = emit_intrinsic(e, "llvm.smin", 2, stop);
    pack(ke, d->p->y, &axes, place);
    transpose(d, place->memory, d->p->y_pitch, n.i, memory, p->count);
    branch_close(ke, &other);
    counter_close(ke, &n);
    ke->lo[axis] = emit_i64(e, 0);
    ke->hi[axis] = end;
}

/* The same with several axes of columns: all of Y aside, then transposed. */
static void pack_aside(const Dot *d, PackPlace *place, LLVMValueRef memory, LLVMValueRef count) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const TileType axes = tile_type_union(d->p->over, d->p->columns);
    const int64_t n = d->p->y_pitch * (d->p->n_columns + d->ke->plan->machine->vector);
    place->memory = dot_pack_memory(ke, 2, n);
    clear_past(ke, existing(ke, &d->p->columns), d->p->n_columns, place->memory, n);
    for (int i = d->p->c->n - d->p->c->n_columns; i < d->p->c->n; i++)
        place->stride[d->p->c->axis[i]] = emit_i64(e, d->p->c->stride[i] * d->p->y_pitch);
    pack(ke, d->p->y, &axes, place);
    HostCounter strip = counter_open(ke, emit_i64(e, 0), emit_i64(e, d->p->n_columns), d->ke->plan->machine->vector);
    LLVMValueRef skipped = LLVMBuildMul(e->b, strip.i, emit_i64(e, d->p->y_pitch), "");
    transpose(d, emit_f32_at(e, place->memory, skipped), d->p->y_pitch, strip.i, memory, count);
    counter_close(ke, &strip);
}

/* Columns that fill panels: the others are packed even where Y is used in place, since vectors would pass its end. */
LLVMValueRef dot_whole_panels(const Dot *d) {
    const Emit *e = d->ke->e;
    LLVMValueRef columns = dot_lanes(d, &d->p->columns, d->p->n_columns), panel = emit_i64(e, d->p->panel);
    return LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, columns, panel, ""), panel, "");
}

/* Of one axis of columns the last panel may be partial, of several any. */
static void clear_panels(const Dot *d, LLVMValueRef memory) {
    const Emit *e = d->ke->e;
    const int64_t panel = d->p->panel, pitch = d->p->y_pitch;
    if (d->p->columns.n_axes > 1) {
        clear_past(d->ke, existing(d->ke, &d->p->columns), d->p->n_columns, memory, d->p->n_columns * pitch);
        return;
    }
    LLVMValueRef whole = LLVMBuildUDiv(e->b, existing(d->ke, &d->p->columns), emit_i64(e, panel), "");
    LLVMValueRef last = emit_f32_at(e, memory, LLVMBuildMul(e->b, whole, emit_i64(e, panel * pitch), ""));
    clear_past(d->ke, existing(d->ke, &d->p->columns), panel, last, panel * pitch);
}

/* Row and column numbers follow the storage of C, so that blocks need no further mapping. */
static void pack_y(const Dot *d, const Packed *p, LLVMValueRef memory) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const TileType axes = tile_type_union(d->p->over, d->p->columns);
    PackPlace place = {.memory = memory, .pairs = d->p->pair_axis + 1};
    const bool transposed = d->p->y_direct.along_k;
    clear_panels(d, memory);
    for (int i = 0; i < d->p->over.n_axes; i++) {
        const int axis = d->p->over.axis[i];
        place.stride[axis] = LLVMBuildMul(e->b, p->k_index[axis], emit_i64(e, transposed ? 1 : d->p->panel), "");
    }
    if (transposed && d->p->columns.n_axes == 1) {
        pack_strips(d, p, &place, memory);
        return;
    }
    if (transposed) {
        pack_aside(d, &place, memory, p->count);
        return;
    }
    place.panel = d->p->panel;
    place.panel_stride = d->p->panel * d->p->y_pitch;
    for (int i = d->p->c->n - d->p->c->n_columns; i < d->p->c->n; i++)
        place.column[d->p->c->axis[i]] = d->p->c->stride[i];
    pack(ke, d->p->y, &axes, &place);
}

/* All of Y, or what does not fill a panel. */
void dot_pack_y(const Dot *d, const Packed *p) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (!d->p->y_direct.use && !d->p->y_direct.copied) {
        pack_y(d, p, p->y);
        return;
    }
    const int axis = d->p->columns.axis[0];
    LLVMValueRef whole = dot_whole_panels(d), end = ke->hi[axis];
    LLVMValueRef some = LLVMBuildICmp(e->b, LLVMIntSLT, whole, end, "");
    if (known_false(some)) return;
    HostCounter once = counter_open(ke, emit_i64(e, 0), LLVMBuildZExt(e->b, some, e->i64, ""), 1);
    ke->lo[axis] = whole;
    pack_y(d, p, dot_panel_at(d, p, whole));
    ke->lo[axis] = emit_i64(e, 0);
    counter_close(ke, &once);
}

/* Where Y is used in place, the columns that do not fill a panel are all that is packed. */
LLVMValueRef dot_panel_at(const Dot *d, const Packed *p, LLVMValueRef column) {
    const Emit *e = d->ke->e;
    if (d->p->y_direct.use) column = LLVMBuildSub(e->b, column, dot_whole_panels(d), "");
    return emit_f32_at(e, p->y, LLVMBuildMul(e->b, column, emit_i64(e, d->p->y_pitch), ""));
}

int64_t dot_x_elements(const Dot *d) {
    return d->p->rows_fast ? d->p->x_step * (d->p->n_units + 1) : d->p->group * d->p->x_pitch;
}

/* X as [k][rows] or [rows][k], as its loads run: the rows between the limits of their axes. */
void dot_pack_x(const Dot *d, const Packed *p) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const TileType axes = tile_type_union(d->p->rows, d->p->over);
    PackPlace place = {.memory = p->x, .pairs = d->p->pair_axis + 1};
    const bool all = d->p->inner || d->p->rows.n_axes > 1;
    clear_past(ke, existing(ke, &d->p->rows), all ? d->p->n_rows : d->p->row_unit, p->x, dot_x_elements(d));
    for (int i = 0; i < d->p->over.n_axes; i++)
        place.stride[d->p->over.axis[i]] =
            LLVMBuildMul(e->b, p->k_index[d->p->over.axis[i]], emit_i64(e, d->p->x_step), "");
    for (int i = 0; i < d->p->c->n - d->p->c->n_columns; i++)
        place.stride[d->p->c->axis[i]] =
            emit_i64(e, d->p->c->stride[i] / d->p->n_columns * (d->p->rows_fast ? 1 : d->p->x_pitch));
    pack(ke, d->p->x, &axes, &place);
}
