/* Matrix products on tiles.
 *
 *     C[rows, columns] += X[rows, k] * Y[k, columns]      f32, any number of axes in each group
 *
 * Factors that are bf16 already are multiplied in pairs along one axis of k, where the machine does that: packed, a
 * pair stands in the place of one float, and all that follows is the same.
 *
 * Both factors are evaluated into packed buffers, with whatever prologue they carry: X as [k][rows] or
 * [rows][k], whichever its loads make contiguous, Y as panels [columns / panel][k][panel].  A micro-kernel, one
 * per module and shape, keeps a block of C in registers while k runs; the block follows from the machine's registers
 * and lanes.  Rows and columns past the tile's extent hold arbitrary numbers that nothing reads; k runs over
 * existing lanes only.  Where the loads of Y run along k, Y is transposed square by square, a strip of columns at a
 * time, in place or, with a prologue or ends that fill no square, evaluated aside.  Long k is packed in
 * parts.
 *
 * A thin factor is not packed but read in place: Y against few rows, X against few columns or in long rows, unless
 * these share cache sets; so is what is small.  Of few rows against Y that is contiguous along k, neither is
 * transposed: inner products (dot_inner.c).  Other Y that lies in rows is packed while the first rows of X are
 * multiplied with it, which read it anyway. A dot whose accumulator is a fresh zero does not read it, and may write
 * where its result is to be stored (DotResult): blocks that pass the edge of what exists are made aside.
 * Its constants are from `./dev bench gemm`. */
#include "codegen/host/counter.h"
#include "codegen/host/dot_internal.h"
#include "codegen/host/micro_block.h"
#include <math.h>

enum {
    PART = 256,               /* most k that is packed at a time: a panel of Y stays in the innermost cache */
    PACK_BYTES = 1 << 20,     /* of both packs */
    NEAR_BYTES = 64 << 10,    /* of a factor that needs no packing */
    LONG_ROW_BYTES = 1 << 10, /* of X: what the machine recognises as a stream; of shorter ones, many lie in a page */
    FEW_ROWS = 4,             /* of a block: they find room even in one set of the innermost cache */
    SWEPT = 16,               /* most k of a Y that is walked row by row */
    STREAM_BYTES = 128,       /* of a row of Y at a time: with less of each page, copying all of it first is faster */
    LEAST_SUMS = 16, /* of a part */
};

/* Is every element a number of bf16, held as f32? */
static bool is_bf16(const KernelEmit *ke, int value) {
    const Inst *def = ke->v->value[value].def;
    if (ke->k->types.at[value].dtype == DT_BF16) return true;
    const bool same = def && (def->kind == TI_STAGE || (def->kind == TI_ELEMENT && def->op == OP_CAST));
    return same && ke->k->types.at[value].dtype == DT_F32 && is_bf16(ke, def->in[0]);
}

int bf16_converted(const KernelEmit *ke, int value) {
    const ValueInfo *info = &ke->v->value[value];
    const Inst *def = info->def;
    const bool casts = !info->kept && def && def->kind == TI_ELEMENT && def->op == OP_CAST;
    return casts && is_bf16(ke, value) && is_bf16(ke, def->in[0]) ? def->in[0] : value;
}

bool dot_in_pairs(const KernelEmit *ke, const HostMachine *m, const Inst *dot) {
    return m->pairs && is_bf16(ke, dot->in[0]) && is_bf16(ke, dot->in[1]);
}

/* The axis whose lanes are neighbours in rows of X, if the factors are multiplied in pairs. */
static int choose_pair_axis(const Dot *d) {
    const TileType axes = tile_type_union(d->rows, d->over);
    const Sink probe = {.kind = SINK_PACK, .value = d->x};
    int8_t order[MAX_TILE_AXES];
    int n = nest_order(d->ke, &axes, 1, &probe, order);
    if (!dot_in_pairs(d->ke, d->machine, d->inst)) return -1;
    while (n > 0 && !tile_type_has(&d->over, order[n - 1])) n--;
    return n > 0 ? order[n - 1] : -1;
}

static int64_t units(const Dot *d, int64_t k) {
    const int64_t step = d->pair_axis >= 0 ? d->ke->k->axes.at[d->pair_axis].step : 1;
    const int64_t lanes = d->parted >= 0 && d->parted == d->pair_axis ? d->part : step;
    return d->pair_axis < 0 ? k : k / lanes * ((lanes + 1) / 2);
}

/* C fills three quarters of the registers, the rest holds what streams past: two vectors of columns against many rows;
 * where there are few rows, as many vectors as there is room for.  Blocks of fewer rows than such a one has are made of
 * thirds of it. */
static bool choose_block(Dot *d, HostSchedule *s) {
    const HostMachine *m = d->machine;
    const int room = m->registers * 3 / 4, most = room / 2, third = most / 3;
    int rows = most, vectors = 1;
    for (int height = 1; height < most; height = height < third ? 2 * height : height + third)
        if (d->n_rows <= height && rows == most) rows = height;
    if (s->rows[0] == 0) s->rows[0] = rows;
    const int fit = s->rows[0] == most ? 2 : room / s->rows[0];
    for (int v = 2; v <= fit && v * m->vector <= 256; v++)
        if (d->n_columns % (v * m->vector) == 0) vectors = v;
    if (s->columns == 0) s->columns = vectors * m->vector;
    d->row_block = s->rows[0];
    d->row_unit = d->row_block == most ? third : d->row_block;
    d->vectors = s->columns / m->vector;
    d->panel = d->vectors * m->vector;
    const int64_t past = (d->n_rows + d->row_unit - 1) / d->row_unit * d->row_unit - d->n_rows;
    return d->row_block <= BLOCK_ROWS && d->vectors <= BLOCK_VECTORS && d->panel == s->columns && d->panel &&
           past <= (d->c->n > d->c->n_columns ? SPARE_ROWS : 0);
}

/* Packs fit the outer cache: the longest axis of k is cut where they would not.  One axis of rows is packed a few
 * blocks at a time. */
static bool choose_part(Dot *d, HostSchedule *s) {
    const Kernel *k = d->ke->k;
    const int64_t rows = d->rows.n_axes == 1 && d->n_rows > 4 * d->row_block ? 4 * d->row_block : d->n_rows;
    const int64_t longest = d->parted < 0 ? 1 : k->axes.at[d->parted].step, others = d->n_over / longest;
    int64_t most = PACK_BYTES / (4 * (rows + d->n_columns));
    if (most > PART) most = PART;
    if (d->pair_axis >= 0) most *= 2;
    const int64_t part = most / others;
    const bool given = s->sums > 0;
    if (!given) /* of short axes few, with all of the others */
        s->sums = (int)(d->n_over <= most ? longest : part >= 16 ? part / 16 * 16 : part / 2 * 2);
    if (s->sums >= longest) {
        d->parted = -1;
        return true;
    }
    d->part = s->sums;
    d->n_over = others * d->part;
    return d->part > 0 && (given || d->n_over >= LEAST_SUMS) && (d->pair_axis < 0 || d->part % 2 == 0);
}

/* A power of two and one cache line: rows of X start in different sets, and few instances of a block are needed. */
static int64_t pitch_of(int64_t n) {
    int64_t p = 16;
    while (p < n) p *= 2;
    return p + 16;
}

static bool varies_in_tile(const Kernel *k, const TileType *t) {
    for (int i = 0; i < t->n_axes; i++)
        if (k->axes.at[t->axis[i]].step > 1) return true;
    return false;
}

/* Of several rows, or of one for the whole tile? */
static bool gathers_many(const Kernel *k, const Index *x) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        const bool quotient = a->kind == ATOM_DIV || a->kind == ATOM_MOD;
        if (a->kind == ATOM_VALUE && varies_in_tile(k, &k->types.at[a->id])) return true;
        if (quotient && (index_gathers(a->num) || index_gathers(a->den))) return true;
    }
    return false;
}

const Inst *dot_load(const Dot *d, int value) {
    const ValueInfo *info = &d->ke->v->value[value];
    const Inst *def = info->def;
    const bool pairs = d->pair_axis >= 0;
    if (info->kept || !def) return NULL;
    if (pairs && bf16_converted(d->ke, value) != value) return dot_load(d, def->in[0]);
    if (def->kind != TI_LOAD || def->n_in) return NULL;
    return d->ke->k->buffers.at[def->buffer].dtype == (pairs ? DT_BF16 : DT_F32) ? def : NULL;
}

bool dot_plain_load(const Dot *d, int value, const TileType *across, FactorInPlace *direct) {
    const KernelEmit *ke = d->ke;
    const Inst *load = dot_load(d, value);
    if (!load || across->n_axes > 1 || d->over.n_axes != 1) return false;
    for (int i = 0; i < load->n_index; i++)
        if (gathers_many(ke->k, load->index[i])) return false;
    for (int i = 0; i < ke->k->axes.n; i++) {
        int64_t coef;
        if (ke->k->axes.at[i].step > 1 && !access_affine(ke->k, load, i, &coef)) return false;
    }
    direct->across = 1;
    if (across->n_axes) access_affine(ke->k, load, across->axis[0], &direct->across);
    return access_affine(ke->k, load, d->over.axis[0], &direct->along);
}

/* As the nest runs that evaluates Y; pairs cannot be packed across it. */
static FactorWay packed_way(const Dot *d) {
    const TileType axes = tile_type_union(d->over, d->columns);
    return dot_runs_along(d, d->y, &axes, &d->over) ? WAY_TRANSPOSED : WAY_PACKED;
}

/* What the loads of the factors allow. */
static void find_loads(Dot *d, unsigned *x_ways, unsigned *y_ways) {
    FactorInPlace *x = &d->x_direct, *y = &d->y_direct;
    const int64_t bytes = dot_source_bytes(d);
    *x_ways = 1u << WAY_PACKED;
    *y_ways = d->pair_axis < 0 ? 1u << WAY_PACKED | 1u << WAY_TRANSPOSED : 1u << packed_way(d);
    const bool plain = dot_plain_load(d, d->y, &d->columns, y);
    y->transposed = plain && d->columns.n_axes && y->along == 1 && y->across * bytes % 4 == 0;
    if (plain && y->across == 1 && y->along > 1)
        *y_ways |= 1u << WAY_IN_PLACE | 1u << WAY_STREAMED | 1u << WAY_SWEPT | 1u << WAY_COPIED;
    if (!dot_plain_load(d, d->x, &d->rows, x)) return;
    const bool columns = x->across == 1 && d->rows.n_axes && d->pair_axis < 0; /* pairs are contiguous along k */
    if ((x->along == 1 || columns) && x->along >= 0 && x->across >= 0) *x_ways |= 1u << WAY_IN_PLACE;
}

/* So small that it stays in the innermost caches. */
static bool is_near(const Dot *d, int64_t pitch, int64_t n) { return dot_source_bytes(d) * pitch * n <= NEAR_BYTES; }

static FactorWay way_of_y(const Dot *d, unsigned ways) {
    const FactorInPlace *y = &d->y_direct;
    const bool once = d->n_rows <= d->row_block;
    const FactorWay packed = packed_way(d);
    if (!(ways >> WAY_IN_PLACE & 1)) return packed;
    if (is_near(d, y->along, d->n_over)) return WAY_IN_PLACE;
    if (once && d->n_over <= SWEPT) return WAY_SWEPT;
    if (once && d->panel * dot_source_bytes(d) >= STREAM_BYTES) return WAY_STREAMED;
    return once ? packed : WAY_COPIED;
}

/* A copy is not worth while of what is read once, or stays in the innermost cache without one, as a block's rows of X
 * do from panel to panel unless they fall into the same sets of it: then they fill those at best, and what else is read
 * puts them out (on a busy machine a quarter of the speed was lost; a copy costs nothing that is seen). */
static FactorWay way_of_x(Dot *d, unsigned ways, FactorWay y) {
    FactorInPlace *x = &d->x_direct;
    const int64_t bytes = dot_source_bytes(d);
    const bool apart = d->row_block <= FEW_ROWS || !in_few_sets(bytes * x->across), once = d->n_columns <= d->panel;
    const bool columns = x->across == 1 && d->rows.n_axes && d->pair_axis < 0;
    if (!(ways >> WAY_IN_PLACE & 1)) return WAY_PACKED;
    x->near = columns ? is_near(d, x->along, d->n_over) : apart && is_near(d, x->across, d->n_rows);
    const bool long_rows = apart && bytes * d->n_over >= LONG_ROW_BYTES;
    return once || x->near || (!columns && (long_rows || y == WAY_SWEPT)) ? WAY_IN_PLACE : WAY_PACKED;
}

static bool choose_ways(Dot *d, HostSchedule *s) {
    FactorInPlace *x = &d->x_direct, *y = &d->y_direct;
    unsigned x_ways, y_ways;
    find_loads(d, &x_ways, &y_ways);
    const FactorWay y_way = way_of_y(d, y_ways);
    const bool y_can = form_way(&s->y, y_way, y_ways);
    const FactorWay x_way = way_of_x(d, x_ways, s->y);
    const bool x_can = form_way(&s->x, x_way, x_ways);
    x->use = s->x == WAY_IN_PLACE;
    y->near = s->y == WAY_IN_PLACE;
    y->swept = s->y == WAY_SWEPT;
    y->copied = s->y == WAY_COPIED;
    y->along_k = s->y == WAY_TRANSPOSED;
    y->use = y->near || y->swept || s->y == WAY_STREAMED;
    return x_can && y_can;
}

static bool multiple(const Axis *a, int64_t of) {
    return dim_is_fixed(a->extent) && a->extent.bound % of == 0 && (a->step % of == 0 || a->step >= a->extent.bound);
}

/* Few rows, each of which exists, and Y along k. */
static bool fits_inner(const Dot *d) {
    const Axis *axes = d->ke->k->axes.at;
    bool whole = true;
    for (int i = 0; i < d->rows.n_axes; i++) whole &= multiple(&axes[d->rows.axis[i]], axes[d->rows.axis[i]].step);
    return whole && d->y_direct.transposed && d->pair_axis < 0 && d->n_rows <= INNER_ROWS;
}

static void measure(Dot *d) {
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
    d->pair_axis = choose_pair_axis(d);
}

static void measure_packs(Dot *d) {
    const int lanes = d->machine->vector;
    d->n_units = units(d, d->n_over);
    d->x_pitch = pitch_of(d->n_units);
    d->y_pitch = (d->n_units + lanes - 1) / lanes * lanes;
}

/* May a block pass the last row or column? */
static bool has_edges(const Dot *d) {
    const Axis *axes = d->ke->k->axes.at;
    if (d->inner) return false;
    const bool rows = d->rows.n_axes && !multiple(&axes[d->rows.axis[0]], d->row_unit);
    return rows || !multiple(&axes[d->columns.axis[0]], d->panel);
}

/* Roles and sizes, alike for inner products and blocks; NULL, or why it is neither. */
static const char *plan(FormPlan *p, Dot **d) {
    MatrixRoles r;
    const char *why = form_matrix_roles(p, &r);
    if (why) return why;
    *d = p->of_form = ARENA_NEW(p->ke->arena, Dot);
    **d = (Dot){.ke = p->ke, .inst = p->dot, .machine = p->machine, .c = form_storage(p), .x = r.x, .y = r.y};
    (*d)->rows = r.rows, (*d)->columns = r.columns, (*d)->over = r.over;
    measure(*d);
    return NULL;
}

static bool planned(FormPlan *p, Dot *d) {
    measure_packs(d);
    p->pairs = d->pair_axis >= 0;
    p->starts = true;
    p->exact = d->columns.n_axes == 1 && d->rows.n_axes <= 1;
    p->columns = d->columns.axis[0];
    p->rows = d->rows.n_axes ? d->rows.axis[0] : -1;
    return true;
}

/* Columns at a time: as many streams of Y as the machine follows, of whose sums one vector is made. */
static bool choose_inner(Dot *d, HostSchedule *s) {
    enum { STREAMS = 8 };
    const int room = d->machine->registers * 3 / 4 / (int)d->n_rows;
    int wide = 1;
    while (2 * wide <= room && 2 * wide <= STREAMS && 2 * wide <= d->machine->vector) wide *= 2;
    if (s->columns == 0) s->columns = wide;
    const FactorWay x = d->x_direct.along == 1 ? WAY_IN_PLACE : WAY_PACKED;
    const bool ways = form_way(&s->x, x, 1u << x | 1u << WAY_PACKED) && form_way(&s->y, WAY_IN_PLACE, 1u << WAY_IN_PLACE);
    d->inner = s->columns;
    d->x_direct.use = s->x == WAY_IN_PLACE;
    d->row_block = (int)d->n_rows;
    d->parted = -1;
    return form_count(&s->rows[0], (int)d->n_rows) && ways && (s->columns & (s->columns - 1)) == 0 &&
           s->columns <= d->machine->vector && s->columns <= BLOCK_VECTORS;
}

/* Both factors along the sum; the lanes of each sum are added in the end. */
static HostWork inner_work(const Dot *d) {
    const double lanes = d->machine->vector, rows = (double)d->n_rows, columns = (double)d->n_columns, sums = (double)d->n_over;
    const double vectors = sums / lanes, streams = columns / d->inner;
    return (HostWork){.products = rows * columns * vectors,
                      .loads = (columns + rows * streams) * vectors,
                      .read = (columns + rows) * vectors,
                      .packed = d->x_direct.use ? 0 : rows * vectors,
                      .results = rows * columns,
                      .blocks = streams};
}

static HostWork block_work(const Dot *d, const HostSchedule *s) {
    const double lanes = d->machine->vector, sums = (double)d->n_over * (d->pair_axis >= 0 ? 0.5 : 1);
    const double high = (double)((d->n_rows + d->row_unit - 1) / d->row_unit * d->row_unit), wide = (double)d->n_columns / lanes;
    const double rows = (double)d->n_rows / lanes * sums, columns = wide * sums;
    const double down = ceil(high / d->row_block), across = wide / d->vectors;
    HostWork w = {.products = high * columns, .loads = down * columns + high * across * sums};
    w.read = rows + columns;
    w.results = 2 * (double)d->n_rows * wide;
    w.blocks = down * across;
    if (s->x == WAY_PACKED) *(dot_load(d, d->x) ? &w.packed : &w.evaluated) += rows;
    if (s->y == WAY_PACKED) w.evaluated += columns;
    if (s->y == WAY_TRANSPOSED) w.transposed += columns;
    return w;
}

bool dot_plan_inner(FormPlan *p) {
    Dot *d;
    unsigned x_ways, y_ways;
    if (plan(p, &d)) return false;
    find_loads(d, &x_ways, &y_ways);
    if (!fits_inner(d) || !choose_inner(d, &p->s)) return false;
    p->work = inner_work(d);
    return planned(p, d);
}

bool dot_plan_blocks(FormPlan *p) {
    Dot *d;
    const char *why = plan(p, &d);
    if (why) return form_refuse(p, why);
    if (!choose_block(d, &p->s) || !choose_ways(d, &p->s)) return form_refuse(p, "it cannot be in blocks as it says");
    p->work = block_work(d, &p->s);
    if (d->n_columns % d->panel) return form_refuse(p, "its columns fill no vectors");
    if (!choose_part(d, &p->s)) return form_refuse(p, "few of its sums fit the cache at a time");
    return planned(p, d);
}

void dot_emit(const FormPlan *p, const DotResult *to) {
    KernelEmit *ke = p->ke;
    const Emit *e = ke->e;
    Dot d = *(const Dot *)p->of_form;
    d.c = form_storage(p);
    d.to = (BlockResult){ke->memory[p->storage], emit_i64(e, d.n_columns), to ? to->fresh : emit_i64(e, 0)};
    if (p->store) {
        int64_t step = 0;
        if (p->rows >= 0) access_affine(ke->k, p->store, p->rows, &step);
        d.to.memory = to->memory;
        d.to.step = emit_i64(e, step);
        d.edges = has_edges(&d);
    }
    dot_choose_group(&d);
    LLVMValueRef x = dot_pack_memory(ke, 0, dot_x_elements(&d));
    LLVMValueRef y = d.inner ? NULL : dot_pack_memory(ke, 1, d.n_columns * d.y_pitch), fresh = d.to.fresh;
    LLVMPositionBuilderAtEnd(e->b, ke->current);
    if (d.parted < 0) {
        dot_multiply_part(&d, x, y);
        return;
    }
    LLVMValueRef whole = ke->hi[d.parted];
    HostCounter parts = counter_open(ke, emit_i64(e, 0), whole, d.part);
    LLVMValueRef end[2] = {LLVMBuildAdd(e->b, parts.i, emit_i64(e, d.part), ""), whole};
    LLVMValueRef first = LLVMBuildZExt(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, parts.i, emit_i64(e, 0), ""), e->i64, "");
    d.to.fresh = LLVMBuildAnd(e->b, fresh, first, "");
    ke->lo[d.parted] = parts.i;
    ke->hi[d.parted] = emit_intrinsic(e, "llvm.smin", 2, end);
    dot_multiply_part(&d, x, y);
    ke->lo[d.parted] = emit_i64(e, 0);
    ke->hi[d.parted] = whole;
    counter_close(ke, &parts);
}
