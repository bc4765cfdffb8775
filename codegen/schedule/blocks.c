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
 * and lanes.  Rows and columns past the tile's extent hold zeros or what was packed before, which counts for nothing;
 * k runs over existing lanes only.  Where the loads of Y run along k, Y is transposed square by square, a strip of columns at a
 * time, in place or, with a prologue or ends that fill no square, evaluated aside.  Long k is packed in
 * parts.
 *
 * A thin factor is not packed but read in place: Y against few rows, X against few columns or in long rows, unless
 * these share cache sets; so is what is small.  Of few rows against Y that is contiguous along k, neither is
 * transposed: inner products.  Other Y that lies in rows is packed while the first rows of X are
 * multiplied with it, which read it anyway. A dot whose accumulator is a fresh zero does not read it, and may write
 * where its result is to be stored (DotResult): blocks that pass the edge of what exists are made aside.
 * Its constants are from `./dev bench gemm`. */
#include "codegen/schedule/blocks.h"
#include "codegen/schedule/micro_side.h"
#include <math.h>

enum {
    PART = 256,               /* most k that is packed at a time: a panel of Y stays in the innermost cache */
    FEW_ROWS = 4,             /* of a block: they find room even in one set of the innermost cache */
    SWEPT = 16,               /* most k of a Y that is walked row by row */
    STREAM_LINES = 2,         /* of a row of Y at a time: with less of each page, copying all of it first is faster */
    LEAST_SUMS = 16,          /* of a part */
    BRIEF = 48,               /* fewer steps than that are no place for prefetches beside them */
    STREAM = 4 * 64 / 4,      /* rows so short that a walk along k is a stream, which the machine follows: four lines */
    STEPS_AHEAD = 20,         /* of Y in place */
};

/* Is every element a number of bf16, held as f32? */
static bool is_bf16(const HostPlan *kp, int value) {
    const Inst *def = kp->v->value[value].def;
    if (kp->k->types.at[value].dtype == DT_BF16) return true;
    const bool same = def && (def->kind == TI_STAGE || (def->kind == TI_ELEMENT && def->op == OP_CAST));
    return same && kp->k->types.at[value].dtype == DT_F32 && is_bf16(kp, def->in[0]);
}

int bf16_converted(const HostPlan *kp, int value) {
    const ValueInfo *info = &kp->v->value[value];
    const Inst *def = info->def;
    const bool casts = !info->kept && def && def->kind == TI_ELEMENT && def->op == OP_CAST;
    return casts && is_bf16(kp, value) && is_bf16(kp, def->in[0]) ? def->in[0] : value;
}

bool dot_in_pairs(const HostPlan *kp, const Inst *dot) {
    return kp->machine->pairs && is_bf16(kp, dot->in[0]) && is_bf16(kp, dot->in[1]);
}

/* The axis whose lanes are neighbours in rows of X, if the factors are multiplied in pairs. */
static int choose_pair_axis(const BlocksPlan *d) {
    const TileType axes = tile_type_union(d->rows, d->over);
    int8_t order[MAX_TILE_AXES];
    int n = pack_order(d->at, &axes, d->x, order);
    if (!dot_in_pairs(d->at, d->dot)) return -1;
    while (n > 0 && !tile_type_has(&d->over, order[n - 1])) n--;
    return n > 0 ? order[n - 1] : -1;
}

static int64_t units(const BlocksPlan *d, int64_t k) {
    const int64_t step = d->pair_axis >= 0 ? d->at->k->axes.at[d->pair_axis].step : 1;
    const int64_t lanes = d->parted >= 0 && d->parted == d->pair_axis ? d->part : step;
    return d->pair_axis < 0 ? k : k / lanes * ((lanes + 1) / 2);
}

/* C fills three quarters of the registers, the rest holds what streams past: two vectors of columns against many rows;
 * where there are few rows, as many vectors as there is room for.  Blocks of fewer rows than such a one has are made of
 * thirds of it. */
static bool choose_block(BlocksPlan *d, HostSchedule *s) {
    const HostMachine *m = d->at->machine;
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
static bool choose_part(BlocksPlan *d, HostSchedule *s) {
    const Kernel *k = d->at->k;
    const int64_t rows = d->rows.n_axes == 1 && d->n_rows > 4 * d->row_block ? 4 * d->row_block : d->n_rows;
    const int64_t longest = d->parted < 0 ? 1 : k->axes.at[d->parted].step, others = d->n_over / longest;
    int64_t most = d->at->machine->l2 / (4 * (rows + d->n_columns));
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

const Inst *blocks_load(const BlocksPlan *d, int value) {
    const ValueInfo *info = &d->at->v->value[value];
    const Inst *def = info->def;
    const bool pairs = d->pair_axis >= 0;
    if (info->kept || !def) return NULL;
    if (pairs && bf16_converted(d->at, value) != value) return blocks_load(d, def->in[0]);
    if (def->kind != TI_LOAD || def->n_in) return NULL;
    return d->at->k->buffers.at[def->buffer].dtype == (pairs ? DT_BF16 : DT_F32) ? def : NULL;
}

bool blocks_plain_load(const BlocksPlan *d, int value, const TileType *across, FactorInPlace *direct) {
    const HostPlan *kp = d->at;
    const Inst *load = blocks_load(d, value);
    if (!load || across->n_axes > 1 || d->over.n_axes != 1) return false;
    for (int i = 0; i < load->n_index; i++)
        if (gathers_many(kp->k, load->index[i])) return false;
    for (int i = 0; i < kp->k->axes.n; i++) {
        int64_t coef;
        if (kp->k->axes.at[i].step > 1 && !access_affine(kp->k, load, i, &coef)) return false;
    }
    direct->across = 1;
    if (across->n_axes) access_affine(kp->k, load, across->axis[0], &direct->across);
    return access_affine(kp->k, load, d->over.axis[0], &direct->along);
}

/* As the nest runs that evaluates Y; pairs cannot be packed across it. */
static FactorWay packed_way(const BlocksPlan *d) {
    const TileType axes = tile_type_union(d->over, d->columns);
    return packs_along(d->at, &axes, d->y, &d->over) ? WAY_TRANSPOSED : WAY_PACKED;
}

/* What the loads of the factors allow. */
static void find_loads(BlocksPlan *d, unsigned *x_ways, unsigned *y_ways) {
    FactorInPlace *x = &d->x_direct, *y = &d->y_direct;
    const int64_t bytes = blocks_source_bytes(d);
    *x_ways = 1u << WAY_PACKED;
    *y_ways = d->pair_axis < 0 ? 1u << WAY_PACKED | 1u << WAY_TRANSPOSED : 1u << packed_way(d);
    const bool plain = blocks_plain_load(d, d->y, &d->columns, y);
    y->transposed = plain && d->columns.n_axes && y->along == 1 && y->across * bytes % 4 == 0;
    if (plain && y->across == 1 && y->along > 1)
        *y_ways |= 1u << WAY_IN_PLACE | 1u << WAY_STREAMED | 1u << WAY_SWEPT | 1u << WAY_COPIED;
    if (!blocks_plain_load(d, d->x, &d->rows, x)) return;
    const bool columns = x->across == 1 && d->rows.n_axes && d->pair_axis < 0; /* pairs are contiguous along k */
    if ((x->along == 1 || columns) && x->along >= 0 && x->across >= 0) *x_ways |= 1u << WAY_IN_PLACE;
}

/* So small that it stays in the innermost caches. */
static bool is_near(const BlocksPlan *d, int64_t pitch, int64_t n) {
    return blocks_source_bytes(d) * pitch * n <= 2 * d->at->machine->l1;
}

static FactorWay way_of_y(const BlocksPlan *d, unsigned ways) {
    const FactorInPlace *y = &d->y_direct;
    const bool once = d->n_rows <= d->row_block;
    const FactorWay packed = packed_way(d);
    if (!(ways >> WAY_IN_PLACE & 1)) return packed;
    if (is_near(d, y->along, d->n_over)) return WAY_IN_PLACE;
    if (once && d->n_over <= SWEPT) return WAY_SWEPT;
    if (once && d->panel * blocks_source_bytes(d) >= STREAM_LINES * d->at->machine->line) return WAY_STREAMED;
    return once ? packed : WAY_COPIED;
}

/* A copy is not worth while of what is read once, or stays in the innermost cache without one, as few rows of X do unless they
 * fall into the same sets of it: then they fill those at best, and what else is read puts them out.  Of more rows a copy
 * costs nothing that is seen, and strides that the code knows are worth up to 7% (`./dev bench gemm`, gpt2_head). */
static FactorWay way_of_x(BlocksPlan *d, unsigned ways, FactorWay y) {
    FactorInPlace *x = &d->x_direct;
    const int64_t bytes = blocks_source_bytes(d);
    const bool apart = d->row_block <= FEW_ROWS || !in_few_sets(d->at->machine, bytes * x->across), once = d->n_columns <= d->panel;
    const bool columns = x->across == 1 && d->rows.n_axes && d->pair_axis < 0;
    if (!(ways >> WAY_IN_PLACE & 1)) return WAY_PACKED;
    x->near = columns ? is_near(d, x->along, d->n_over) : apart && is_near(d, x->across, d->n_rows);
    return once || x->near || (!columns && y == WAY_SWEPT) ? WAY_IN_PLACE : WAY_PACKED;
}

static bool choose_ways(BlocksPlan *d, HostSchedule *s) {
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

/* Of one axis across, and a loop along k, whose next part is at a known place, and no stream that the machine follows by itself. */
static bool can_prefetch(const BlocksPlan *d, int value, const TileType *across, FactorNext *next) {
    FactorInPlace at;
    if (across->n_axes != 1 || d->parted >= 0 || !blocks_plain_load(d, value, across, &at)) return false;
    next->across = at.across, next->along = at.along;
    const bool loop = d->at->k->axes.at[d->over.axis[0]].kind == AXIS_LOOP, gathers = subscripts_gather(blocks_load(d, value));
    return loop && !gathers && (at.across == 1 ? at.along > STREAM : at.along == 1);
}

/* After the last part of k comes the first one of the next program. */
static bool choose_prefetch(BlocksPlan *d, HostSchedule *s) {
    const FactorInPlace *y = &d->y_direct;
    const bool x_can = can_prefetch(d, d->x, &d->rows, &d->next_x), y_can = can_prefetch(d, d->y, &d->columns, &d->next_y);
    const bool y_aside = y_can && (!y->use || y->near || y->swept); /* the others are prefetched as they are read */
    if (s->prefetch == PREFETCH_OPEN)
        s->prefetch = x_can ? y_aside ? PREFETCH_BOTH : PREFETCH_X : y_aside ? PREFETCH_Y : PREFETCH_NONE;
    d->next_x.prefetched = s->prefetch == PREFETCH_X || s->prefetch == PREFETCH_BOTH;
    d->next_y.prefetched = s->prefetch == PREFETCH_Y || s->prefetch == PREFETCH_BOTH;
    d->steps_ahead = STEPS_AHEAD;
    return (x_can || !d->next_x.prefetched) && (y_aside || !d->next_y.prefetched);
}

static bool multiple(const Axis *a, int64_t of) {
    return dim_is_fixed(a->extent) && a->extent.bound % of == 0 && (a->step % of == 0 || a->step >= a->extent.bound);
}

/* Few rows, each of which exists, and Y along k. */
static bool fits_inner(const BlocksPlan *d) {
    const Axis *axes = d->at->k->axes.at;
    bool whole = true;
    for (int i = 0; i < d->rows.n_axes; i++) whole &= multiple(&axes[d->rows.axis[i]], axes[d->rows.axis[i]].step);
    return whole && d->y_direct.transposed && d->pair_axis < 0 && d->n_rows <= INNER_ROWS;
}

static void measure(BlocksPlan *d) {
    const Kernel *k = d->at->k;
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

/* Several axes of rows are packed at once; of one, as many rows as are multiplied next. */
static void choose_group(BlocksPlan *d) {
    const bool many = d->rows.n_axes != 1 || d->inner;
    const TileType axes = tile_type_union(d->rows, d->over);
    d->rows_fast = !d->inner && packs_along(d->at, &axes, d->x, &d->rows);
    d->group = many ? d->n_rows + d->row_block : d->rows_fast && !d->x_direct.use ? 4 * d->row_block : d->row_block;
    d->x_step = d->rows_fast ? d->group + 16 : 1;
}

static void measure_packs(BlocksPlan *d) {
    const int lanes = d->at->machine->vector;
    d->n_units = units(d, d->n_over);
    d->brief = d->n_units < BRIEF;
    d->x_pitch = pitch_of(d->n_units);
    d->y_pitch = (d->n_units + lanes - 1) / lanes * lanes;
}

/* May a block pass the last row or column? */
static bool has_edges(const BlocksPlan *d) {
    const Axis *axes = d->at->k->axes.at;
    if (d->inner) return false;
    const bool rows = d->rows.n_axes && !multiple(&axes[d->rows.axis[0]], d->row_unit);
    return rows || !multiple(&axes[d->columns.axis[0]], d->panel);
}

/* Roles and sizes, alike for inner products and blocks; NULL, or why it is neither. */
static const char *roles(FormPlan *p, BlocksPlan **d) {
    MatrixRoles r;
    const char *why = form_matrix_roles(p, &r);
    if (why) return why;
    *d = p->of_form = ARENA_NEW(p->at->arena, BlocksPlan);
    **d = (BlocksPlan){.at = p->at, .dot = p->dot, .c = form_storage(p), .x = r.x, .y = r.y};
    (*d)->rows = r.rows, (*d)->columns = r.columns, (*d)->over = r.over;
    measure(*d);
    return NULL;
}

static bool planned(FormPlan *p, BlocksPlan *d) {
    measure_packs(d);
    choose_group(d);
    d->edges = has_edges(d);
    p->pairs = d->pair_axis >= 0;
    p->starts = true;
    p->exact = d->columns.n_axes == 1 && d->rows.n_axes <= 1;
    p->columns = d->columns.axis[0];
    p->rows = d->rows.n_axes ? d->rows.axis[0] : -1;
    return true;
}

/* Columns at a time: as many streams of Y as the machine follows, of whose sums one vector is made. */
static bool choose_inner(BlocksPlan *d, HostSchedule *s) {
    enum { STREAMS = 8 };
    const int room = d->at->machine->registers * 3 / 4 / (int)d->n_rows;
    int wide = 1;
    while (2 * wide <= room && 2 * wide <= STREAMS && 2 * wide <= d->at->machine->vector) wide *= 2;
    if (s->columns == 0) s->columns = wide;
    const FactorWay x = d->x_direct.along == 1 ? WAY_IN_PLACE : WAY_PACKED;
    const bool ways =
        form_way(&s->x, x, 1u << x | 1u << WAY_PACKED) && form_way(&s->y, WAY_IN_PLACE, 1u << WAY_IN_PLACE);
    d->inner = s->columns;
    d->x_direct.use = s->x == WAY_IN_PLACE;
    d->row_block = (int)d->n_rows;
    d->parted = -1;
    return form_count(&s->rows[0], (int)d->n_rows) && ways && (s->columns & (s->columns - 1)) == 0 &&
           s->columns <= d->at->machine->vector && s->columns <= BLOCK_VECTORS;
}

/* Both factors along the sum; the lanes of each sum are added in the end. */
static HostWork inner_work(const BlocksPlan *d) {
    const double lanes = d->at->machine->vector, rows = (double)d->n_rows, columns = (double)d->n_columns,
                 sums = (double)d->n_over;
    const double vectors = sums / lanes, streams = columns / d->inner;
    return (HostWork){.products = rows * columns * vectors,
                      .loads = (columns + rows * streams) * vectors,
                      .read = (columns + rows) * vectors,
                      .packed = d->x_direct.use ? 0 : rows * vectors,
                      .results = rows * columns,
                      .blocks = streams};
}

static HostWork block_work(const BlocksPlan *d, const HostSchedule *s) {
    const double lanes = d->at->machine->vector, sums = (double)d->n_over * (d->pair_axis >= 0 ? 0.5 : 1);
    const double high = (double)((d->n_rows + d->row_unit - 1) / d->row_unit * d->row_unit),
                 wide = (double)d->n_columns / lanes;
    const double rows = (double)d->n_rows / lanes * sums, columns = wide * sums;
    const double down = ceil(high / d->row_block), across = wide / d->vectors;
    HostWork w = {.products = high * columns, .loads = down * columns + high * across * sums};
    w.read = rows + columns;
    w.results = 2 * (double)d->n_rows * wide;
    w.blocks = down * across;
    if (s->x == WAY_PACKED) *(blocks_load(d, d->x) ? &w.packed : &w.evaluated) += rows;
    if (s->y == WAY_PACKED) w.evaluated += columns;
    if (s->y == WAY_TRANSPOSED) w.transposed += columns;
    return w;
}

bool blocks_plan_inner(FormPlan *p) {
    BlocksPlan *d;
    unsigned x_ways, y_ways;
    if (roles(p, &d)) return false;
    find_loads(d, &x_ways, &y_ways);
    if (!fits_inner(d) || !choose_inner(d, &p->s)) return false;
    p->work = inner_work(d);
    return planned(p, d);
}

bool blocks_plan(FormPlan *p) {
    BlocksPlan *d;
    const char *why = roles(p, &d);
    if (why) return form_refuse(p, why);
    if (!choose_block(d, &p->s) || !choose_ways(d, &p->s)) return form_refuse(p, "it cannot be in blocks as it says");
    p->work = block_work(d, &p->s);
    if (d->n_columns % d->panel) return form_refuse(p, "its columns fill no vectors");
    if (!choose_part(d, &p->s)) return form_refuse(p, "few of its sums fit the cache at a time");
    if (!choose_prefetch(d, &p->s)) return form_refuse(p, "it cannot prefetch what it says");
    return planned(p, d);
}
