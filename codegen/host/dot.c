/* Matrix products on tiles.
 *
 *     C[rows, columns] += X[rows, k] * Y[k, columns]      f32, any number of axes in each group
 *
 * Both factors are evaluated into packed buffers, with whatever prologue they carry: X as [k][rows] or
 * [rows][k], whichever its loads make contiguous, Y as panels [columns / panel][k][panel].  A micro-kernel, one
 * per module and shape, keeps a block of C in registers while k runs; the block follows from the machine's registers
 * and lanes.  Rows and columns past the tile's extent hold arbitrary numbers that nothing reads; k runs over
 * existing lanes only.  Where the loads of Y run along k, Y is packed as it comes, a strip of columns at a time,
 * and turned square by square.  Long k is packed in parts. */
#include "codegen/host/kernel.h"
#include "codegen/host/micro.h"
#include <string.h>

enum { PART = 256, PACK_BYTES = 1 << 20, NEAR_BYTES = 16 << 10, LONG_ROW_BYTES = 1 << 10, MIN_COLUMNS = 8, MIN_ROWS = 3 };

/* A factor that is a plain load, used where it lies: lane (0, 0) of the part at hand, elements from one row or column,
 * and from one k, to the next. */
typedef struct Direct {
    bool use, near; /* near: stays in the innermost cache */
    int64_t across, along;
} Direct;

typedef struct Dot {
    KernelEmit *ke;
    const Inst *inst;
    const HostMachine *machine;
    const Storage *c;
    int x, y; /* values: rows x k, k x columns */
    TileType rows, columns, over;
    int64_t n_rows, n_columns, n_over; /* at the steps, padded as the storage of C is */
    int row_block, row_unit;           /* rows of a block of C: a multiple of row_unit, at most row_block */
    int vectors, panel;                /* per row of a block: vectors, lanes */
    int64_t x_pitch, y_pitch;          /* lanes of k with room for whole vectors: of a row of X, of a panel of Y */
    bool rows_fast;                    /* X is [k][rows], else [rows][k] */
    Direct x_direct, y_direct;
    DotResult to;
    int64_t group, x_step;             /* rows of X packed at a time; elements from one k to the next */
    int parted, part; /* the k axis that is packed in parts of `part` lanes; -1: none */
} Dot;

static bool in_over(const Inst *i, int axis) {
    for (int o = 0; o < i->n_over; o++)
        if (i->over[o] == axis) return true;
    return false;
}

/* Keeps the axes increasing. */
static void add_axis(TileType *t, int axis) {
    int i = t->n_axes++;
    for (; i > 0 && t->axis[i - 1] > axis; i--) t->axis[i] = t->axis[i - 1];
    t->axis[i] = (int8_t)axis;
}

/* Columns are the trailing axes of C; every axis must be of rows, columns or k. */
static bool classify(Dot *d) {
    const Kernel *k = d->ke->k;
    const TileType *a = &k->types.at[d->inst->in[0]], *b = &k->types.at[d->inst->in[1]];
    if (d->c->n_columns == 0) return false;
    const bool swapped = type_has(a, d->c->axis[d->c->n - 1]);
    const TileType *x = swapped ? b : a, *y = swapped ? a : b;
    d->x = d->inst->in[swapped];
    d->y = d->inst->in[!swapped];
    for (int i = 0; i < d->c->n; i++) {
        const int axis = d->c->axis[i];
        const bool column = i >= d->c->n - d->c->n_columns;
        if (type_has(x, axis) == column || type_has(y, axis) != column) return false;
        add_axis(column ? &d->columns : &d->rows, axis);
    }
    for (int i = 0; i < d->inst->n_over; i++) {
        const int axis = d->inst->over[i];
        if (!type_has(x, axis) || !type_has(y, axis)) return false;
        if (!axis_trivial(k, axis)) add_axis(&d->over, axis);
    }
    for (int i = 0; i < x->n_axes; i++)
        if (!axis_trivial(k, x->axis[i]) && !type_has(&d->rows, x->axis[i]) && !in_over(d->inst, x->axis[i]))
            return false;
    return true;
}

static bool all_f32(const Dot *d) {
    const Kernel *k = d->ke->k;
    return k->types.at[d->x].dtype == DT_F32 && k->types.at[d->y].dtype == DT_F32 && d->c->dtype == DT_F32;
}

/* C fills three quarters of the registers, the rest holds what streams past: two vectors of columns against many rows;
 * where there are few rows, as many vectors as there is room for. */
static void choose_block(Dot *d) {
    const HostMachine *m = d->machine;
    const int room = m->registers * 3 / 4, most = room / 2;
    d->row_block = most;
    d->row_unit = most / 3;
    for (int height = 1; height < most; height = height < d->row_unit ? 2 * height : height + d->row_unit)
        if (d->n_rows <= height && d->row_block == most) d->row_block = d->row_unit = height;
    const int fit = d->row_block == most ? 2 : room / d->row_block;
    d->vectors = 1;
    for (int v = 2; v <= fit && v * m->vector <= 256; v++)
        if (d->n_columns % (v * m->vector) == 0) d->vectors = v;
    d->panel = d->vectors * m->vector;
}

/* Packs fit the outer cache: the longest axis of k is cut where they would not. */
static bool choose_part(Dot *d) {
    const Kernel *k = d->ke->k;
    int64_t most = PACK_BYTES / (4 * (d->n_rows + d->n_columns));
    if (most > PART) most = PART;
    if (d->n_over <= most) {
        d->parted = -1;
        return true;
    }
    const int64_t others = d->n_over / k->axes.at[d->parted].step;
    d->part = (int)(most / others / 16 * 16);
    d->n_over = others * d->part;
    return d->part >= 16;
}

/* A power of two and one cache line: rows of X start in different sets, and few instances of a block are needed. */
static int64_t pitch_of(int64_t n) {
    int64_t p = 16;
    while (p < n) p *= 2;
    return p + 16;
}

static bool gathers(const Index *x) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        if (a->kind == ATOM_VALUE) return true;
        if ((a->kind == ATOM_DIV || a->kind == ATOM_MOD) && (gathers(a->num) || gathers(a->den))) return true;
    }
    return false;
}

/* A load without a mask that is affine in all axes, of which one is `across`' and one is k's. */
static bool plain_load(const Dot *d, int value, const TileType *across, Direct *direct) {
    const KernelEmit *ke = d->ke;
    const ValueInfo *info = &ke->v->value[value];
    if (across->n_axes > 1 || d->over.n_axes != 1 || info->kept || info->def->kind != TI_LOAD || info->def->n_in)
        return false;
    for (int i = 0; i < info->def->n_index; i++)
        if (gathers(info->def->index[i])) return false;
    for (int i = 0; i < ke->k->axes.n; i++) {
        int64_t coef;
        if (!access_affine(ke->k, info->def, i, &coef)) return false;
    }
    direct->across = 1;
    if (across->n_axes) access_affine(ke->k, info->def, across->axis[0], &direct->across);
    access_affine(ke->k, info->def, d->over.axis[0], &direct->along);
    return ke->k->buffers.at[info->def->buffer].dtype == DT_F32;
}

/* A copy is not worth while of what is read once (or twice, where the machine sees the streams), or stays in the innermost
 * cache as it lies. */
static void choose_direct(Dot *d) {
    Direct *x = &d->x_direct, *y = &d->y_direct;
    if (plain_load(d, d->y, &d->columns, y) && y->across == 1 && y->along > 1)
        y->near = 4 * y->along * d->n_over <= NEAR_BYTES, y->use = y->near || d->n_rows <= d->row_block;
    if (!plain_load(d, d->x, &d->rows, x)) return;
    const bool long_rows = x->along == 1 && 4 * d->n_over >= LONG_ROW_BYTES;
    const bool near = d->n_columns <= d->panel * (long_rows ? 2 : 1);
    if (x->along == 1) x->use = near || 4 * x->across * d->n_rows <= NEAR_BYTES;
    if (x->across == 1 && d->rows.n_axes) x->use = near || 4 * x->along * d->n_over <= NEAR_BYTES;
    x->use &= x->along >= 0 && x->across >= 0;
}

/* Sizes; false where plain loops are as good. */
static bool measure(Dot *d) {
    const Kernel *k = d->ke->k;
    const int first_column = d->c->n - d->c->n_columns;
    d->n_columns = d->c->stride[first_column] * k->axes.at[d->c->axis[first_column]].step;
    if (d->c->n_columns == 1) d->n_columns = first_column ? d->c->stride[first_column - 1] : d->c->elements;
    d->n_rows = d->c->elements / d->n_columns;
    d->n_over = 1;
    d->parted = -1;
    for (int i = 0; i < d->over.n_axes; i++) {
        d->n_over *= k->axes.at[d->over.axis[i]].step;
        if (d->parted < 0 || k->axes.at[d->over.axis[i]].step > k->axes.at[d->parted].step) d->parted = d->over.axis[i];
    }
    int64_t columns = 1;
    for (int i = 0; i < d->columns.n_axes; i++) columns *= k->axes.at[d->columns.axis[i]].step;
    choose_block(d);
    choose_direct(d);
    if (columns < MIN_COLUMNS || (d->n_rows < MIN_ROWS && !d->y_direct.use) || d->n_columns % d->panel || !choose_part(d))
        return false;
    const int lanes = d->machine->vector;
    d->x_pitch = pitch_of(d->n_over);
    d->y_pitch = (d->n_over + lanes - 1) / lanes * lanes;
    return true;
}

static LLVMValueRef element_at(const Emit *e, LLVMValueRef p, LLVMValueRef offset) {
    return LLVMBuildGEP2(e->b, e->f32, p, &offset, 1, "");
}

/* ---- packing ------------------------------------------------------------------------------------------------------
 */
/* Strides of an axis group laid out densely over existing lanes, the last axis of `order` fastest;
 * returns the number of elements. */
static LLVMValueRef dense(KernelEmit *ke, const TileType *group, int n, const int8_t *order, LLVMValueRef unit,
                          LLVMValueRef *stride) {
    LLVMValueRef next = unit;
    for (int i = n - 1; i >= 0; i--) {
        if (!type_has(group, order[i])) continue;
        stride[order[i]] = next;
        next = LLVMBuildMul(ke->e->b, next, LLVMBuildSub(ke->e->b, ke->hi[order[i]], ke->lo[order[i]], ""), "");
    }
    return next;
}

static void pack(KernelEmit *ke, int value, const TileType *axes, const PackPlace *place) {
    Sink s = {.kind = SINK_PACK, .value = value, .storage = -1, .pack = *place};
    nest_emit(ke, axes, 1, &s);
}

/* Lanes of a group that exist: exact for one axis, the padded size otherwise. */
static LLVMValueRef used(const Dot *d, const TileType *group, int64_t padded) {
    return group->n_axes == 1 ? d->ke->hi[group->axis[0]] : emit_i64(d->ke->e, padded);
}

typedef struct Counter {
    LLVMBasicBlockRef header, exit;
    LLVMValueRef i, end;
    int64_t step;
} Counter;

/* for (i = start; i < end; i += step): the caller appends the body, then closes. */
static Counter open_counter(KernelEmit *ke, LLVMValueRef start, LLVMValueRef end, int64_t step) {
    const Emit *e = ke->e;
    Counter c = {
        .header = emit_block(e, ke->fn, "block"), .exit = emit_block(e, ke->fn, "blocked"), .end = end, .step = step};
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(e->b);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, start, end, ""), c.header, c.exit);
    LLVMPositionBuilderAtEnd(e->b, c.header);
    c.i = LLVMBuildPhi(e->b, e->i64, "");
    LLVMAddIncoming(c.i, &start, &pre, 1);
    ke->current = c.header;
    return c;
}

static void close_counter(KernelEmit *ke, Counter *c) {
    const Emit *e = ke->e;
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, c->i, emit_i64(e, c->step), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, c->end, ""), c->header, c->exit);
    LLVMAddIncoming(c->i, &next, &latch, 1);
    LLVMPositionBuilderAtEnd(e->b, c->exit);
    ke->current = c->exit;
}

typedef struct Ahead {
    LLVMValueRef here, from; /* row or column 0, k 0: of this part, of the next */
    int64_t across, along; /* elements from one row or column to the next; from one k to the next; one of them is 1 */
    bool known;
} Ahead;

typedef struct Packed {
    LLVMValueRef x, y, count;
    LLVMValueRef x_here, y_here;    /* where x_direct, y_direct find them */
    LLVMValueRef k_index[MAX_AXES]; /* number of a k: the sum over its axes of lane * k_index */
    Ahead next_x, next_y;
} Packed;

/* Dots follow one another, so that they can pack into the same memory. */
static LLVMValueRef pack_memory(KernelEmit *ke, int which, int64_t n) {
    if (ke->pack_size[which] < n) {
        ke->pack[which] = nest_alloca(ke, ke->e->f32, n);
        ke->pack_size[which] = n;
    }
    return ke->pack[which];
}

/* Does the nest that evaluates `value` run along an axis of `group` innermost? */
static bool runs_along(KernelEmit *ke, int value, const TileType *axes, const TileType *group, int8_t *order) {
    const Sink probe = {.kind = SINK_PACK, .value = value};
    const int n = nest_order(ke, axes, 1, &probe, order);
    return n > 0 && type_has(group, order[n - 1]);
}

/* Columns [first, first + lanes) of Y lie as [columns][k], y_pitch apart: squares of them, turned, go into their panel.
 */
static void turn(const Dot *d, LLVMValueRef from, LLVMValueRef first, LLVMValueRef to, LLVMValueRef count) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int lanes = d->machine->vector;
    LLVMValueRef panel = LLVMBuildUDiv(e->b, first, emit_i64(e, d->panel), "");
    LLVMValueRef inside = LLVMBuildURem(e->b, first, emit_i64(e, d->panel), "");
    LLVMValueRef start = LLVMBuildMul(e->b, panel, emit_i64(e, d->panel * d->y_pitch), "");
    start = LLVMBuildAdd(e->b, start, inside, "");
    Counter k = open_counter(ke, emit_i64(e, 0), count, lanes);
    LLVMValueRef target = LLVMBuildAdd(e->b, start, LLVMBuildMul(e->b, k.i, emit_i64(e, d->panel), ""), "");
    LLVMValueRef args[] = {element_at(e, from, k.i), emit_i64(e, d->y_pitch), element_at(e, to, target),
                           emit_i64(e, d->panel)};
    emit_call(e, micro_transpose(e, lanes), sizeof args / sizeof *args, args);
    close_counter(ke, &k);
}

/* Loads along k, one axis of columns: a strip of one vector of columns stays in the innermost cache while it is turned.
 */
static void pack_strips(const Dot *d, PackPlace *place, LLVMValueRef memory, LLVMValueRef count) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int lanes = d->machine->vector, axis = d->columns.axis[0];
    const TileType axes = tile_type_union(d->over, d->columns);
    LLVMValueRef end = ke->hi[axis];
    place->memory = pack_memory(ke, 2, d->y_pitch * lanes);
    place->stride[axis] = emit_i64(e, d->y_pitch);
    Counter n = open_counter(ke, emit_i64(e, 0), end, lanes);
    LLVMValueRef stop[2] = {LLVMBuildAdd(e->b, n.i, emit_i64(e, lanes), ""), end};
    ke->lo[axis] = n.i;
    ke->hi[axis] = emit_intrinsic(e, "llvm.smin", 2, stop);
    pack(ke, d->y, &axes, place);
    turn(d, place->memory, n.i, memory, count);
    close_counter(ke, &n);
    ke->lo[axis] = emit_i64(e, 0);
    ke->hi[axis] = end;
}

/* The same with several axes of columns: all of Y aside, then turned. */
static void pack_aside(const Dot *d, PackPlace *place, LLVMValueRef memory, LLVMValueRef count) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const TileType axes = tile_type_union(d->over, d->columns);
    place->memory = pack_memory(ke, 2, d->y_pitch * (d->n_columns + d->machine->vector));
    for (int i = d->c->n - d->c->n_columns; i < d->c->n; i++)
        place->stride[d->c->axis[i]] = emit_i64(e, d->c->stride[i] * d->y_pitch);
    pack(ke, d->y, &axes, place);
    Counter n = open_counter(ke, emit_i64(e, 0), emit_i64(e, d->n_columns), d->machine->vector);
    turn(d, element_at(e, place->memory, LLVMBuildMul(e->b, n.i, emit_i64(e, d->y_pitch), "")), n.i, memory, count);
    close_counter(ke, &n);
}

/* Columns that fill panels: the others are packed even where Y is used as it lies, since vectors would pass its end. */
static LLVMValueRef whole_panels(const Dot *d) {
    const Emit *e = d->ke->e;
    LLVMValueRef columns = used(d, &d->columns, d->n_columns), panel = emit_i64(e, d->panel);
    return LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, columns, panel, ""), panel, "");
}

static bool never(LLVMValueRef condition) {
    return LLVMIsAConstantInt(condition) && !LLVMConstIntGetZExtValue(condition);
}

/* Row and column numbers follow the storage of C, so that blocks need no further mapping. */
static void pack_y(const Dot *d, LLVMValueRef memory, const LLVMValueRef *k_index, LLVMValueRef count) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const TileType axes = tile_type_union(d->over, d->columns);
    PackPlace place = {.memory = memory};
    int8_t order[MAX_TILE_AXES];
    const bool turned = runs_along(ke, d->y, &axes, &d->over, order);
    for (int i = 0; i < d->over.n_axes; i++) {
        const int axis = d->over.axis[i];
        place.stride[axis] = LLVMBuildMul(e->b, k_index[axis], emit_i64(e, turned ? 1 : d->panel), "");
    }
    if (turned && d->columns.n_axes == 1) {
        pack_strips(d, &place, memory, count);
        return;
    }
    if (turned) {
        pack_aside(d, &place, memory, count);
        return;
    }
    place.panel = d->panel;
    place.panel_stride = d->panel * d->y_pitch;
    for (int i = d->c->n - d->c->n_columns; i < d->c->n; i++) place.column[d->c->axis[i]] = d->c->stride[i];
    pack(ke, d->y, &axes, &place);
}

/* All of Y, or what does not fill a panel. */
static void pack_y_needed(const Dot *d, const Packed *p) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (!d->y_direct.use) {
        pack_y(d, p->y, p->k_index, p->count);
        return;
    }
    const int axis = d->columns.axis[0];
    LLVMValueRef whole = whole_panels(d), end = ke->hi[axis];
    LLVMValueRef some = LLVMBuildICmp(e->b, LLVMIntSLT, whole, end, "");
    if (never(some)) return;
    Counter once = open_counter(ke, emit_i64(e, 0), LLVMBuildZExt(e->b, some, e->i64, ""), 1);
    ke->lo[axis] = whole;
    pack_y(d, p->y, p->k_index, p->count);
    ke->lo[axis] = emit_i64(e, 0);
    close_counter(ke, &once);
}

/* Several axes of rows are packed at once; of one, as many rows as are multiplied next. */
static void choose_group(Dot *d) {
    const bool many = d->rows.n_axes != 1;
    int8_t order[MAX_TILE_AXES];
    const TileType axes = tile_type_union(d->rows, d->over);
    d->rows_fast = runs_along(d->ke, d->x, &axes, &d->rows, order);
    d->group = many                              ? d->n_rows + d->row_block
               : d->rows_fast && !d->x_direct.use ? 4 * d->row_block
                                                  : d->row_block;
    d->x_step = d->rows_fast ? d->group + 16 : 1;
}

static int64_t x_elements(const Dot *d) { return d->rows_fast ? d->x_step * (d->n_over + 1) : d->group * d->x_pitch; }

/* X as [k][rows] or [rows][k], as its loads run: the rows between the limits of their axes. */
static void pack_x(const Dot *d, const Packed *p) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const TileType axes = tile_type_union(d->rows, d->over);
    PackPlace place = {.memory = p->x};
    for (int i = 0; i < d->over.n_axes; i++)
        place.stride[d->over.axis[i]] = LLVMBuildMul(e->b, p->k_index[d->over.axis[i]], emit_i64(e, d->x_step), "");
    for (int i = 0; i < d->c->n - d->c->n_columns; i++)
        place.stride[d->c->axis[i]] = emit_i64(e, d->c->stride[i] / d->n_columns * (d->rows_fast ? 1 : d->x_pitch));
    pack(ke, d->x, &axes, &place);
}

/* ---- what comes next -------------------------------------------------------------------------------------------------
 * While one part of k is multiplied, the next is fetched into the outer cache: between two blocks as many lines as keep
 * pace.  After the last part comes the first one of the next program. */
static LLVMValueRef extent_of(const KernelEmit *ke, Dim d) {
    const Emit *e = ke->e;
    if (dim_is_fixed(d)) return emit_i64(e, d.bound);
    LLVMValueRef scaled = LLVMBuildMul(e->b, ke->extent[d.sym], emit_i64(e, d.scale), "");
    return LLVMBuildAdd(e->b, scaled, emit_i64(e, d.offset), "");
}

/* Where the next program starts to read; it is at the start of its loop over k. */
static LLVMValueRef next_program(KernelEmit *ke, const Inst *load, int k) {
    LLVMValueRef base[MAX_AXES];
    memcpy(base, ke->base, sizeof base);
    memcpy(ke->base, ke->next_base, sizeof base);
    ke->base[k] = emit_i64(ke->e, 0);
    LLVMValueRef at = nest_origin(ke, load);
    memcpy(ke->base, base, sizeof base);
    return at;
}

static Ahead ahead_of(const Dot *d, int value, const TileType *across) {
    KernelEmit *ke = d->ke;
    Ahead a = {.known = false};
    const Emit *e = ke->e;
    const ValueInfo *info = &ke->v->value[value];
    Direct at;
    if (across->n_axes != 1 || d->parted >= 0 || !plain_load(d, value, across, &at)) return a;
    const int k = d->over.axis[0];
    const Axis *loop = &ke->k->axes.at[k];
    a.across = at.across;
    a.along = at.along;
    if (loop->kind != AXIS_LOOP || (a.across != 1 && a.along != 1)) return a;
    a.here = nest_origin(ke, info->def);
    LLVMValueRef next = LLVMBuildAdd(e->b, ke->base[k], emit_i64(e, loop->step), "");
    LLVMValueRef more = LLVMBuildICmp(e->b, LLVMIntSLT, next, extent_of(ke, loop->extent), "");
    LLVMValueRef on = element_at(e, a.here, emit_i64(e, a.along * loop->step));
    a.from = LLVMBuildSelect(e->b, more, on, next_program(ke, info->def, k), "");
    a.known = true;
    return a;
}

/* `lanes` rows or columns from `lane` on, `k_share` of k from k_first on, of what lies at `from`. */
static void ask(const Dot *d, const Ahead *a, LLVMValueRef from, LLVMValueRef lane, int64_t lanes, LLVMValueRef k_first,
                int64_t k_share) {
    const Emit *e = d->ke->e;
    const bool along = a->along == 1;
    LLVMValueRef at = LLVMBuildMul(e->b, lane, emit_i64(e, a->across), "");
    at = LLVMBuildAdd(e->b, at, LLVMBuildMul(e->b, k_first, emit_i64(e, a->along), ""), "");
    const int64_t line = 64 / 4, contiguous = along ? k_share : lanes;
    LLVMValueRef args[3] = {element_at(e, from, at), emit_i64(e, along ? a->across : a->along),
                            emit_i64(e, along ? lanes : k_share)};
    emit_call(e, micro_prefetch(e, (int)((contiguous + line - 1) / line)), 3, args);
}

static LLVMValueRef share_of(const Emit *e, LLVMValueRef at, int64_t k, int64_t n) {
    return LLVMBuildUDiv(e->b, LLVMBuildMul(e->b, at, emit_i64(e, k), ""), emit_i64(e, n), "");
}

/* With block (row, column) come its parts of the next group of rows and of the next part of Y. */
static void ask_around(const Dot *d, const Packed *p, LLVMValueRef row, int height, LLVMValueRef column) {
    const Emit *e = d->ke->e;
    const int64_t k = d->n_over;
    if (p->next_x.known) {
        LLVMValueRef next = LLVMBuildAdd(e->b, row, emit_i64(e, d->group), "");
        LLVMValueRef more = LLVMBuildICmp(e->b, LLVMIntSLT, next, used(d, &d->rows, d->n_rows), "");
        LLVMValueRef first = LLVMBuildURem(e->b, row, emit_i64(e, d->group), "");
        LLVMValueRef from = LLVMBuildSelect(e->b, more, p->next_x.here, p->next_x.from, "");
        ask(d, &p->next_x, from, LLVMBuildSelect(e->b, more, next, first, ""), height,
            share_of(e, column, k, d->n_columns), (k * d->panel + d->n_columns - 1) / d->n_columns);
    }
    if (p->next_y.known)
        ask(d, &p->next_y, p->next_y.from, column, d->panel, share_of(e, row, k, d->n_rows),
            (k * height + d->n_rows - 1) / d->n_rows);
}

/* ---- blocks ----------------------------------------------------------------------------------------------------------
 */
/* Rows of X to be multiplied: packed, or where the loads find them. */
typedef struct Rows {
    LLVMValueRef x, first; /* row `first` lies at x */
    XLayout layout;
    int64_t step; /* the micro-kernel's x_step */
} Rows;

static LLVMValueRef row_at(const Dot *d, const Rows *rows, LLVMValueRef row) {
    const Emit *e = d->ke->e;
    const int64_t pitch = rows->layout == X_ROWS ? d->x_pitch : rows->layout == X_COLUMNS ? 1 : rows->step;
    LLVMValueRef place = LLVMBuildSub(e->b, row, rows->first, "");
    return element_at(e, rows->x, LLVMBuildMul(e->b, place, emit_i64(e, pitch), ""));
}

/* `height` rows from `row` on against panels [first, end) of Y. */
static void against_panels(const Dot *d, const Packed *p, const Rows *rows, LLVMValueRef row, int height,
                           LLVMValueRef first, LLVMValueRef end, bool packed) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const MicroShape shape = {.rows = height,
                              .vectors = d->vectors,
                              .lanes = d->machine->vector,
                              .x = rows->layout,
                              .x_row = (int)d->x_pitch,
                              .y = packed ? Y_PACKED : d->y_direct.near ? Y_NEAR : Y_AWAY};
    LLVMValueRef x = row_at(d, rows, row), fn = micro_product(e, shape);
    LLVMValueRef c_row = element_at(e, d->to.memory, LLVMBuildMul(e->b, row, d->to.step, ""));
    Counter q = open_counter(ke, first, end, d->panel);
    LLVMValueRef place = packed && d->y_direct.use ? LLVMBuildSub(e->b, q.i, first, "") : q.i;
    LLVMValueRef y = packed ? element_at(e, p->y, LLVMBuildMul(e->b, place, emit_i64(e, d->y_pitch), ""))
                            : element_at(e, p->y_here, q.i);
    ask_around(d, p, row, height, q.i);
    LLVMValueRef args[] = {x, emit_i64(e, rows->step),     y,       emit_i64(e, d->y_direct.along),
                           element_at(e, c_row, q.i), d->to.step, p->count, d->to.fresh};
    emit_call(e, fn, sizeof args / sizeof *args, args);
    close_counter(ke, &q);
}

static void row_of_blocks(const Dot *d, const Packed *p, const Rows *rows, LLVMValueRef row, int height) {
    const Emit *e = d->ke->e;
    LLVMValueRef none = emit_i64(e, 0), end = used(d, &d->columns, d->n_columns);
    if (!d->y_direct.use) {
        against_panels(d, p, rows, row, height, none, end, true);
        return;
    }
    LLVMValueRef whole = whole_panels(d);
    against_panels(d, p, rows, row, height, none, whole, false);
    if (!never(LLVMBuildICmp(e->b, LLVMIntSLT, whole, end, "")))
        against_panels(d, p, rows, row, height, whole, end, true);
}

/* Blocks of full height while more than row_block - row_unit rows are left, then one of the least multiple of row_unit
 * that holds the rest. */
static void block_of_height(const Dot *d, const Packed *p, const Rows *rows, LLVMValueRef row,
                            int height) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    LLVMValueRef all = used(d, &d->rows, d->n_rows), left = LLVMBuildSub(e->b, all, row, "");
    if (LLVMIsAConstantInt(all)) {
        const int64_t up = (LLVMConstIntGetSExtValue(all) + d->row_unit - 1) / d->row_unit * d->row_unit;
        if (height < d->row_block && up % d->row_block != height) return;
        if (height == d->row_block && up < height) return;
        if (height == d->row_block && up % d->row_block == 0) {
            row_of_blocks(d, p, rows, row, height);
            return;
        }
    }
    LLVMValueRef fits = LLVMBuildICmp(e->b, LLVMIntSGT, left, emit_i64(e, height - d->row_unit), "");
    if (height < d->row_block)
        fits = LLVMBuildAnd(e->b, fits, LLVMBuildICmp(e->b, LLVMIntSLE, left, emit_i64(e, height), ""), "");
    Counter once = open_counter(ke, emit_i64(e, 0), LLVMBuildZExt(e->b, fits, e->i64, ""), 1);
    row_of_blocks(d, p, rows, row, height);
    close_counter(ke, &once);
}

/* Rows [first, end), which are packed. */
static void packed_blocks(const Dot *d, const Packed *p, LLVMValueRef first, LLVMValueRef end) {
    const Rows rows = {.x = p->x, .first = first, .layout = d->rows_fast ? X_COLUMNS : X_ROWS, .step = d->x_step};
    Counter r = open_counter(d->ke, first, end, d->row_block);
    for (int height = d->row_block; height > 0; height -= d->row_unit) block_of_height(d, p, &rows, r.i, height);
    close_counter(d->ke, &r);
}

/* Rows [start, all), packed a group at a time. */
static void groups(const Dot *d, const Packed *p, LLVMValueRef start, LLVMValueRef all) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int axis = d->rows.axis[0];
    Counter g = open_counter(ke, start, all, d->group);
    LLVMValueRef stop[2] = {LLVMBuildAdd(e->b, g.i, emit_i64(e, d->group), ""), all};
    LLVMValueRef end = emit_intrinsic(e, "llvm.smin", 2, stop);
    ke->lo[axis] = g.i;
    ke->hi[axis] = end;
    pack_x(d, p);
    ke->lo[axis] = emit_i64(e, 0);
    ke->hi[axis] = all;
    packed_blocks(d, p, g.i, end);
    close_counter(ke, &g);
}

/* Whole blocks of X as it lies; rows that do not fill one are packed, since blocks would pass its end. */
static void direct_blocks(const Dot *d, const Packed *p, LLVMValueRef all) {
    const Emit *e = d->ke->e;
    LLVMValueRef zero = emit_i64(e, 0), height = emit_i64(e, d->row_block);
    const bool columns = d->x_direct.along != 1;
    const Rows rows = {.x = p->x_here,
                       .first = zero,
                       .layout = columns ? X_COLUMNS : X_AWAY,
                       .step = columns ? d->x_direct.along : d->x_direct.across};
    LLVMValueRef whole = LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, all, height, ""), height, "");
    Counter r = open_counter(d->ke, zero, whole, d->row_block);
    row_of_blocks(d, p, &rows, r.i, d->row_block);
    close_counter(d->ke, &r);
    if (!never(LLVMBuildICmp(e->b, LLVMIntSLT, whole, all, ""))) groups(d, p, whole, all);
}

static void multiply(const Dot *d, const Packed *p) {
    const Emit *e = d->ke->e;
    LLVMValueRef all = used(d, &d->rows, d->n_rows), zero = emit_i64(e, 0);
    if (d->rows.n_axes == 1 && d->x_direct.use)
        direct_blocks(d, p, all);
    else if (d->rows.n_axes == 1)
        groups(d, p, zero, all);
    else {
        pack_x(d, p);
        packed_blocks(d, p, zero, all);
    }
}

/* Lane 0 of the part at hand. */
static LLVMValueRef origin(const Dot *d, int value, const Direct *direct) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    LLVMValueRef skipped = LLVMBuildMul(e->b, ke->lo[d->over.axis[0]], emit_i64(e, direct->along), "");
    return element_at(e, nest_origin(ke, ke->v->value[value].def), skipped);
}

static void pack_and_multiply(const Dot *d, LLVMValueRef x_memory, LLVMValueRef y_memory) {
    KernelEmit *ke = d->ke;
    const TileType axes = tile_type_union(d->rows, d->over);
    int8_t order[MAX_TILE_AXES];
    const Sink probe = {.kind = SINK_PACK, .value = d->x};
    Packed p = {.x = x_memory, .y = y_memory};
    const int n = nest_order(ke, &axes, 1, &probe, order);
    p.count = dense(ke, &d->over, n, order, emit_i64(ke->e, 1), p.k_index);
    if (d->x_direct.use) p.x_here = origin(d, d->x, &d->x_direct);
    if (d->y_direct.use) p.y_here = origin(d, d->y, &d->y_direct);
    pack_y_needed(d, &p);
    p.next_x = ahead_of(d, d->x, &d->rows);
    if (!d->y_direct.use) p.next_y = ahead_of(d, d->y, &d->columns);
    Counter some = open_counter(ke, emit_i64(ke->e, 0), p.count, INT32_MAX); /* once, if there is any k */
    multiply(d, &p);
    close_counter(ke, &some);
}

static bool plan(Dot *d, KernelEmit *ke, const Inst *inst, int storage, const HostMachine *m) {
    *d = (Dot){.ke = ke, .inst = inst, .machine = m, .c = &ke->v->storage.at[storage]};
    return classify(d) && all_f32(d) && measure(d);
}

bool dot_is_blocked(KernelEmit *ke, const Inst *inst, int storage, const HostMachine *m) {
    Dot d;
    return plan(&d, ke, inst, storage, m);
}

static bool multiple(const Axis *a, int64_t of) {
    return dim_is_fixed(a->extent) && a->extent.bound % of == 0 && (a->step % of == 0 || a->step >= a->extent.bound);
}

bool dot_is_exact(KernelEmit *ke, const Inst *inst, int storage, const HostMachine *m, int *rows, int *columns) {
    Dot d;
    if (!plan(&d, ke, inst, storage, m) || d.columns.n_axes != 1 || d.rows.n_axes > 1) return false;
    *columns = d.columns.axis[0];
    *rows = d.rows.n_axes ? d.rows.axis[0] : -1;
    if (*rows >= 0 && !multiple(&ke->k->axes.at[*rows], d.row_unit)) return false;
    return multiple(&ke->k->axes.at[*columns], d.panel);
}

void dot_emit_blocked(KernelEmit *ke, const Inst *inst, int storage, const HostMachine *m, const DotResult *result) {
    Dot d;
    const Emit *e = ke->e;
    plan(&d, ke, inst, storage, m);
    d.to = (DotResult){ke->memory[storage], emit_i64(e, d.n_columns), emit_i64(e, 0)};
    if (result && result->step) d.to = *result;
    if (result) d.to.fresh = result->fresh;
    choose_group(&d);
    LLVMValueRef x = pack_memory(ke, 0, x_elements(&d));
    LLVMValueRef y = pack_memory(ke, 1, d.n_columns * d.y_pitch), fresh = d.to.fresh;
    LLVMPositionBuilderAtEnd(e->b, ke->current);
    if (d.parted < 0) {
        pack_and_multiply(&d, x, y);
        return;
    }
    LLVMValueRef whole = ke->hi[d.parted];
    Counter parts = open_counter(ke, emit_i64(e, 0), whole, d.part);
    LLVMValueRef end[2] = {LLVMBuildAdd(e->b, parts.i, emit_i64(e, d.part), ""), whole};
    LLVMValueRef first = LLVMBuildZExt(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, parts.i, emit_i64(e, 0), ""), e->i64, "");
    d.to.fresh = LLVMBuildAnd(e->b, fresh, first, "");
    ke->lo[d.parted] = parts.i;
    ke->hi[d.parted] = emit_intrinsic(e, "llvm.smin", 2, end);
    pack_and_multiply(&d, x, y);
    ke->lo[d.parted] = emit_i64(e, 0);
    ke->hi[d.parted] = whole;
    close_counter(ke, &parts);
}
