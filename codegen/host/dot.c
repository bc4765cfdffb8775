/* Matrix products on tiles.
 *
 *     C[rows, columns] += X[rows, k] * Y[k, columns]      f32, any number of axes in each group
 *
 * Both factors are evaluated into packed buffers, with whatever prologue they carry: X as [k][rows] or
 * [rows][k], whichever its loads make contiguous, Y as [k][columns].  A micro-kernel, one per module and
 * width, keeps a block of C in registers while k runs.  Rows and columns past the tile's extent hold
 * arbitrary numbers that nothing reads; k runs over existing lanes only.  Where the loads of Y run along k,
 * Y is packed as it comes and turned square by square.  Long k is packed in parts. */
#include "codegen/host/kernel.h"
#include "codegen/host/micro.h"

enum { PACK_BYTES = 160 << 10, MIN_COLUMNS = 8, MIN_ROWS = 3, ROW_BLOCK = 8 };

typedef struct Dot {
    KernelEmit *ke;
    const Inst *inst;
    const HostMachine *machine;
    const Storage *c;
    int x, y; /* values: rows x k, k x columns */
    TileType rows, columns, over;
    int64_t n_rows, n_columns, n_over; /* at the steps, padded as the storage of C is */
    int vectors;                       /* of a block of C, per row */
    int row_block;
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
    if (d->c->n_columns == 0 || d->c->n_columns == d->c->n) return false;
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

/* Sizes; false where plain loops are as good. */
static bool measure(Dot *d) {
    const Kernel *k = d->ke->k;
    const int first_column = d->c->n - d->c->n_columns;
    d->n_columns = d->c->stride[first_column] * k->axes.at[d->c->axis[first_column]].step;
    if (d->c->n_columns == 1) d->n_columns = d->c->stride[first_column - 1];
    d->n_rows = d->c->elements / d->n_columns;
    d->n_over = 1;
    d->parted = -1;
    for (int i = 0; i < d->over.n_axes; i++) {
        d->n_over *= k->axes.at[d->over.axis[i]].step;
        if (d->parted < 0 || k->axes.at[d->over.axis[i]].step > k->axes.at[d->parted].step) d->parted = d->over.axis[i];
    }
    int64_t columns = 1;
    for (int i = 0; i < d->columns.n_axes; i++) columns *= k->axes.at[d->columns.axis[i]].step;
    const int vector = d->machine->vector;
    d->vectors = d->n_columns % (2 * vector) == 0 ? 2 : 1;
    d->row_block = d->machine->registers >= 32 ? ROW_BLOCK : 4;
    if (columns < MIN_COLUMNS || d->n_rows < MIN_ROWS || d->n_columns % (d->vectors * vector)) return false;
    const int64_t per_lane = 4 * (d->n_rows + d->row_block + d->n_columns);
    if (d->n_over * per_lane <= PACK_BYTES) {
        d->parted = -1;
        return true;
    }
    const int64_t others = d->n_over / k->axes.at[d->parted].step;
    d->part = (int)(PACK_BYTES / per_lane / others / 16 * 16);
    d->n_over = others * d->part;
    return d->part >= 16;
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

static void pack(KernelEmit *ke, int value, const TileType *axes, LLVMValueRef memory, const LLVMValueRef *stride) {
    Sink s = {.kind = SINK_PACK, .value = value, .storage = -1, .pack = memory, .pack_stride = stride};
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

typedef struct Packed {
    LLVMValueRef x, row_stride, k_stride, y, count;
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

/* Y was packed as [columns][k], row_length apart: squares of it, turned, give [k][columns]. */
static void turn(const Dot *d, LLVMValueRef from, int64_t row_length, LLVMValueRef to, LLVMValueRef count) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int lanes = d->machine->vector;
    LLVMValueRef fn = micro_transpose(e, lanes), length = emit_i64(e, row_length), columns = emit_i64(e, d->n_columns);
    Counter n = open_counter(ke, emit_i64(e, 0), used(d, &d->columns, d->n_columns), lanes);
    Counter k = open_counter(ke, emit_i64(e, 0), count, lanes);
    LLVMValueRef source = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, n.i, length, ""), k.i, "");
    LLVMValueRef target = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, k.i, columns, ""), n.i, "");
    LLVMValueRef args[] = {element_at(e, from, source), length, element_at(e, to, target), columns};
    emit_call(e, fn, sizeof args / sizeof *args, args);
    close_counter(ke, &k);
    close_counter(ke, &n);
}

/* Row and column numbers follow the storage of C, so that blocks need no further mapping. */
static void pack_y(const Dot *d, LLVMValueRef memory, const LLVMValueRef *k_index, LLVMValueRef count) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const TileType axes = tile_type_union(d->over, d->columns);
    LLVMValueRef stride[MAX_AXES] = {0};
    int8_t order[MAX_TILE_AXES];
    const bool turned = runs_along(ke, d->y, &axes, &d->over, order);
    const int64_t length = d->n_over + d->machine->vector;
    for (int i = 0; i < d->over.n_axes; i++)
        stride[d->over.axis[i]] =
            LLVMBuildMul(e->b, k_index[d->over.axis[i]], emit_i64(e, turned ? 1 : d->n_columns), "");
    for (int i = d->c->n - d->c->n_columns; i < d->c->n; i++)
        stride[d->c->axis[i]] = emit_i64(e, d->c->stride[i] * (turned ? length : 1));
    LLVMValueRef to = turned ? pack_memory(ke, 2, length * (d->n_columns + d->machine->vector)) : memory;
    pack(ke, d->y, &axes, to, stride);
    if (turned) turn(d, to, length, memory, count);
}

/* X as [k][rows] or [rows][k], as its loads run. */
static Packed pack_factors(const Dot *d, LLVMValueRef x_memory, LLVMValueRef y_memory) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const TileType axes = tile_type_union(d->rows, d->over);
    LLVMValueRef stride[MAX_AXES] = {0}, k_index[MAX_AXES] = {0};
    int8_t order[MAX_TILE_AXES];
    const bool rows_fast = runs_along(ke, d->x, &axes, &d->rows, order);
    Packed p = {.x = x_memory, .y = y_memory};
    p.count = dense(ke, &d->over, axes.n_axes, order, emit_i64(e, 1), k_index);
    p.k_stride = emit_i64(e, rows_fast ? d->n_rows + d->row_block : 1);
    p.row_stride = emit_i64(e, rows_fast ? 1 : d->n_over);
    for (int i = 0; i < d->over.n_axes; i++)
        stride[d->over.axis[i]] = LLVMBuildMul(e->b, k_index[d->over.axis[i]], p.k_stride, "");
    for (int i = 0; i < d->c->n - d->c->n_columns; i++)
        stride[d->c->axis[i]] = LLVMBuildMul(e->b, p.row_stride, emit_i64(e, d->c->stride[i] / d->n_columns), "");
    pack(ke, d->x, &axes, x_memory, stride);
    pack_y(d, y_memory, k_index, p.count);
    return p;
}

static void multiply(const Dot *d, const Packed *p, LLVMValueRef c) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    LLVMValueRef columns = emit_i64(e, d->n_columns),
                 fn = micro_product(e, d->row_block, d->vectors, d->machine->vector);
    Counter q = open_counter(ke, emit_i64(e, 0), used(d, &d->columns, d->n_columns), d->vectors * d->machine->vector);
    Counter r = open_counter(ke, emit_i64(e, 0), used(d, &d->rows, d->n_rows), d->row_block);
    LLVMValueRef x = element_at(e, p->x, LLVMBuildMul(e->b, r.i, p->row_stride, ""));
    LLVMValueRef at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, r.i, columns, ""), q.i, "");
    LLVMValueRef args[] = {x,       p->row_stride,        p->k_stride, element_at(e, p->y, q.i),
                           columns, element_at(e, c, at), columns,     p->count};
    emit_call(e, fn, sizeof args / sizeof *args, args);
    close_counter(ke, &r);
    close_counter(ke, &q);
}

static void pack_and_multiply(const Dot *d, LLVMValueRef x_memory, LLVMValueRef y_memory, LLVMValueRef c) {
    const Packed p = pack_factors(d, x_memory, y_memory);
    Counter some = open_counter(d->ke, emit_i64(d->ke->e, 0), p.count, INT32_MAX); /* once, if there is any k */
    multiply(d, &p, c);
    close_counter(d->ke, &some);
}

bool dot_emit_blocked(KernelEmit *ke, const Inst *inst, int storage, const HostMachine *m) {
    Dot d = {.ke = ke, .inst = inst, .machine = m, .c = &ke->v->storage.at[storage]};
    if (!classify(&d) || !all_f32(&d) || !measure(&d)) return false;
    const Emit *e = ke->e;
    LLVMValueRef x = pack_memory(ke, 0, (d.n_rows + d.row_block) * (d.n_over + 16));
    LLVMValueRef y = pack_memory(ke, 1, d.n_columns * (d.n_over + 16));
    LLVMPositionBuilderAtEnd(e->b, ke->current);
    if (d.parted < 0) {
        pack_and_multiply(&d, x, y, ke->memory[storage]);
        return true;
    }
    LLVMValueRef whole = ke->hi[d.parted];
    Counter parts = open_counter(ke, emit_i64(e, 0), whole, d.part);
    LLVMValueRef end[2] = {LLVMBuildAdd(e->b, parts.i, emit_i64(e, d.part), ""), whole};
    ke->lo[d.parted] = parts.i;
    ke->hi[d.parted] = emit_intrinsic(e, "llvm.smin", 2, end);
    pack_and_multiply(&d, x, y, ke->memory[storage]);
    ke->lo[d.parted] = emit_i64(e, 0);
    ke->hi[d.parted] = whole;
    close_counter(ke, &parts);
    return true;
}
