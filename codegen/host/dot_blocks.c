/* One part of a matrix product, block by block; see dot.h.  Its constants are from `./dev bench gemm`. */
#include "codegen/host/counter.h"
#include "codegen/host/dot.h"
#include "codegen/host/micro.h"
#include <string.h>

/* ---- what comes next ----------------------------------------------------------------------------------------------
 * While one part of k is multiplied, the next is fetched: beside the sums of a block as many lines as keep pace. */
static LLVMValueRef extent_of(const KernelEmit *ke, Dim d) {
    const Emit *e = ke->e;
    if (dim_is_fixed(d)) return emit_i64(e, d.bound);
    LLVMValueRef scaled = LLVMBuildMul(e->b, ke->extent[d.sym], emit_i64(e, d.scale), "");
    return LLVMBuildAdd(e->b, scaled, emit_i64(e, d.offset), "");
}

/* Where the next program starts to read: it is at the start of its loops. */
static LLVMValueRef next_program(KernelEmit *ke, const Inst *load) {
    LLVMValueRef base[MAX_AXES];
    memcpy(base, ke->base, sizeof base);
    memcpy(ke->base, ke->next_base, sizeof base);
    for (int a = 0; a < ke->k->axes.n; a++)
        if (ke->k->axes.at[a].kind == AXIS_LOOP) ke->base[a] = emit_i64(ke->e, 0);
    LLVMValueRef at = nest_origin(ke, load);
    memcpy(ke->base, base, sizeof base);
    return at;
}

static Ahead ahead_of(const Dot *d, int value, const FactorNext *next) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (!next->prefetched) return (Ahead){.known = false};
    const Inst *load = blocks_load(d->p, value);
    const int k = d->p->over.axis[0];
    const Axis *loop = &ke->k->axes.at[k];
    Ahead a = {.here = nest_origin(ke, load), .across = next->across, .along = next->along, .known = true};
    LLVMValueRef after = LLVMBuildAdd(e->b, ke->base[k], emit_i64(e, loop->step), "");
    LLVMValueRef more = LLVMBuildICmp(e->b, LLVMIntSLT, after, extent_of(ke, loop->extent), "");
    LLVMValueRef on = source_at(d, a.here, emit_i64(e, a.along * loop->step));
    a.from = LLVMBuildSelect(e->b, more, on, next_program(ke, load), "");
    return a;
}

/* What a block prefetches: a walk of its micro-kernel. */
typedef struct Prefetch {
    int lines; /* 0: nothing */
    LLVMValueRef at, stride;
    int64_t n;
} Prefetch;

/* `lanes` rows or columns from `lane` on, `k_share` of k from k_first on, of what lies at `from`. */
static Prefetch prefetch(const Dot *d, const Ahead *a, LLVMValueRef from, LLVMValueRef lane, int64_t lanes,
                         LLVMValueRef k_first, int64_t k_share) {
    const Emit *e = d->ke->e;
    const bool along = a->along == 1;
    LLVMValueRef at = LLVMBuildMul(e->b, lane, emit_i64(e, a->across), "");
    at = LLVMBuildAdd(e->b, at, LLVMBuildMul(e->b, k_first, emit_i64(e, a->along), ""), "");
    const int64_t bytes = blocks_source_bytes(d->p), line = 64 / bytes, contiguous = along ? k_share : lanes;
    return (Prefetch){(int)((contiguous + line - 1) / line), source_at(d, from, at),
                      emit_i64(e, bytes * (along ? a->across : a->along)), along ? lanes : k_share};
}

static LLVMValueRef share_of(const Emit *e, LLVMValueRef at, int64_t k, int64_t n) {
    return LLVMBuildUDiv(e->b, LLVMBuildMul(e->b, at, emit_i64(e, k), ""), emit_i64(e, n), "");
}

/* The share of block (.., column) of what lies at `from` row by row, the blocks of one row together prefetching all. */
static Prefetch prefetch_rows(const Dot *d, const Ahead *a, LLVMValueRef column) {
    enum { STEPS = 4 }; /* of few */
    const Emit *e = d->ke->e;
    LLVMValueRef before = LLVMBuildMul(e->b, column, emit_i64(e, d->p->n_over), ""),
                 width = emit_i64(e, d->p->n_columns);
    LLVMValueRef at = LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, before, width, ""), emit_i64(e, a->along), "");
    at = LLVMBuildAdd(e->b, at, LLVMBuildURem(e->b, before, width, ""), "");
    const int64_t bytes = d->p->n_over * d->p->panel * blocks_source_bytes(d->p),
                  lines = (bytes + 64 * STEPS - 1) / (64 * STEPS);
    return (Prefetch){(int)lines, source_at(d, a->from, at), emit_i64(e, 64 * lines), STEPS};
}

/* With block (row, column) comes its part of the next group of rows. */
static Prefetch prefetch_x(const Dot *d, const Packed *p, LLVMValueRef row, int height, LLVMValueRef column) {
    const Emit *e = d->ke->e;
    const int64_t k = d->p->n_over;
    if (!p->next_x.known) return (Prefetch){0};
    LLVMValueRef next = LLVMBuildAdd(e->b, row, emit_i64(e, d->p->group), "");
    LLVMValueRef more = LLVMBuildICmp(e->b, LLVMIntSLT, next, dot_lanes(d, &d->p->rows, d->p->n_rows), "");
    LLVMValueRef first = LLVMBuildURem(e->b, row, emit_i64(e, d->p->group), "");
    if (d->p->x_direct.use && d->p->x_direct.near) {
        more = LLVMConstInt(LLVMTypeOf(more), 0, false); /* all of it is here */
        first = row;
    }
    LLVMValueRef from = LLVMBuildSelect(e->b, more, p->next_x.here, p->next_x.from, "");
    return prefetch(d, &p->next_x, from, LLVMBuildSelect(e->b, more, next, first, ""), height,
                    share_of(e, column, k, d->p->n_columns), (k * d->p->panel + d->p->n_columns - 1) / d->p->n_columns);
}

/* And of the next part of Y. */
static Prefetch prefetch_y(const Dot *d, const Packed *p, LLVMValueRef row, int height, LLVMValueRef column) {
    const int64_t k = d->p->n_over;
    if (!p->next_y.known) return (Prefetch){0};
    if (d->p->y_direct.swept) return prefetch_rows(d, &p->next_y, column);
    return prefetch(d, &p->next_y, p->next_y.from, column, d->p->panel, share_of(d->ke->e, row, k, d->p->n_rows),
                    (k * height + d->p->n_rows - 1) / d->p->n_rows);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
typedef enum {
    X_ROWS,    /* packed, [rows][k] */
    X_COLUMNS, /* [k][rows] */
    X_AWAY     /* [rows][k], where the loads find it */
} XLayout;
typedef enum {
    Y_PACKED, /* rows of a panel, one after another */
    Y_NEAR,   /* where the loads find them */
    Y_AWAY,   /* the same, prefetched */
    Y_COPIED  /* the same, and packed as they are read */
} YLayout;

/* Rows of X to be multiplied: packed, or where the loads find them. */
typedef struct Rows {
    LLVMValueRef x, first; /* row `first` lies at x */
    LLVMValueRef start;    /* of the first block */
    XLayout layout;
    int64_t step; /* elements from one column of X_COLUMNS, or row of X_AWAY, to the next */
} Rows;

static LLVMValueRef row_at(const Dot *d, const Rows *rows, LLVMValueRef row) {
    const Emit *e = d->ke->e;
    const int64_t pitch = rows->layout == X_ROWS ? d->p->x_pitch : rows->layout == X_COLUMNS ? 1 : rows->step;
    LLVMValueRef offset = LLVMBuildMul(e->b, LLVMBuildSub(e->b, row, rows->first, ""), emit_i64(e, pitch), "");
    return rows->layout == X_AWAY ? source_at(d, rows->x, offset) : emit_f32_at(e, rows->x, offset);
}

/* Where a block of C goes: its place, or a block aside, of which what exists is put there afterwards. */
typedef struct BlockPlace {
    LLVMValueRef at, step, fresh;
    LLVMValueRef aside; /* i1; NULL: never */
    LLVMValueRef rows, columns;
} BlockPlace;

static BlockPlace place_of(const Dot *d, LLVMValueRef row, int height, LLVMValueRef column, int width, bool masked) {
    const Emit *e = d->ke->e;
    BlockPlace p = {.step = d->to.step, .fresh = d->to.fresh};
    p.at = emit_f32_at(e, d->to.memory, LLVMBuildMul(e->b, row, d->to.step, ""));
    p.at = emit_f32_at(e, p.at, column);
    if (!d->edges) return p;
    LLVMValueRef rows = LLVMBuildSub(e->b, dot_lanes(d, &d->p->rows, d->p->n_rows), row, ""),
                 high = emit_i64(e, height);
    LLVMValueRef columns = LLVMBuildSub(e->b, dot_lanes(d, &d->p->columns, d->p->n_columns), column, "");
    LLVMValueRef wide = emit_i64(e, width);
    p.rows = emit_intrinsic(e, "llvm.smin", 2, (LLVMValueRef[]){rows, high});
    p.columns = emit_intrinsic(e, "llvm.smin", 2, (LLVMValueRef[]){columns, wide});
    p.aside = LLVMBuildICmp(e->b, LLVMIntSLT, rows, high, "");
    LLVMValueRef narrow = LLVMBuildICmp(e->b, LLVMIntSLT, columns, wide, "");
    if (!masked) p.aside = LLVMBuildOr(e->b, p.aside, narrow, "");
    return p;
}

/* The micro-kernel, and what follows it at an edge. */
static void call_block(const Dot *d, const char *name, MicroShape s, const BlockPlace *to, LLVMValueRef *args) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    LLVMValueRef aside = NULL;
    args[MICRO_C] = to->at;
    args[MICRO_C_ROW] = to->step;
    args[MICRO_FRESH] = to->fresh;
    if (to->aside) {
        aside = dot_pack_memory(ke, 3, (int64_t)d->p->row_block * d->p->panel);
        args[MICRO_C] = LLVMBuildSelect(e->b, to->aside, aside, to->at, "");
        args[MICRO_C_ROW] = LLVMBuildSelect(e->b, to->aside, emit_i64(e, s.vectors * s.lanes), to->step, "");
        args[MICRO_FRESH] = LLVMBuildSelect(e->b, to->aside, emit_i64(e, 1), to->fresh, "");
    }
    micro_product(e, name, s, args);
    if (!to->aside || known_false(to->aside)) return;
    HostBranch edge = branch_open(ke, to->aside);
    LLVMValueRef put[] = {aside, to->at, to->step, to->rows, to->columns, to->fresh};
    emit_call(e, micro_put_edge(e, (int)s.vectors, (int)s.lanes), sizeof put / sizeof *put, put);
    branch_close(ke, &edge);
}

static const char *name_of(const Dot *d, XLayout x, YLayout y, bool masked) {
    static const char *const of_x[] = {"", "_columns", "_away"}, *const of_y[] = {"", "_near", "_streamed", "_copied"};
    return arena_printf(d->ke->arena, "block%s%s%s", of_x[x], of_y[y], masked ? "_masked" : "");
}

enum { UNROLL = 4 };

static MicroShape shape_of(const Dot *d, XLayout x, int height, YLayout y, int vectors) {
    const bool pairs = d->p->pair_axis >= 0;
    return (MicroShape){.side = {micro_rows(1, 0, 0), micro_rows(height, x == X_ROWS ? d->p->x_pitch : 1, 0)},
                        .vectors = vectors,
                        .lanes = d->ke->plan->machine->vector,
                        .x = {.raw = pairs && x == X_AWAY, .step = {1}},
                        .y = {.raw = pairs && y != Y_PACKED,
                              .step = {d->p->panel},
                              .steps_ahead = y == Y_AWAY || y == Y_COPIED ? d->p->steps_ahead : 0},
                        .groups = MICRO_NO_GROUPS,
                        .pairs = pairs,
                        .odd = pairs,
                        .levels = 1,
                        .unroll = x == X_AWAY ? 1 : UNROLL, /* strides of many rows need the registers */
                        .c_prefetched = 1};
}

/* Steps from one prefetched place to the next, as many as there are before C is prefetched. */
static int64_t prefetch_interval(const Dot *d, const Prefetch *ahead, int height) {
    int64_t places = 0;
    for (int i = 0; i < MICRO_WALKS; i++) places += ahead[i].lines ? ahead[i].n : 0;
    return d->p->n_units - height >= UNROLL * places ? UNROLL : 1;
}

/* `height` rows from `row` on against panels [first, end) of Y, laid out as `y` says; the first `vectors` of each;
 * masked: C has not all of their columns. */
static void against(const Dot *d, const Packed *p, const Rows *rows, LLVMValueRef row, int height, LLVMValueRef first,
                    LLVMValueRef end, YLayout y, int vectors, bool masked) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (known_false(LLVMBuildICmp(e->b, LLVMIntSLT, first, end, ""))) return;
    HostCounter q = counter_open(ke, first, end, d->p->panel);
    const Prefetch ahead[MICRO_WALKS] = {prefetch_y(d, p, row, height, q.i), prefetch_x(d, p, row, height, q.i)};
    MicroShape shape = shape_of(d, rows->layout, height, y, vectors);
    const BlockPlace c = place_of(d, row, height, q.i, vectors * d->ke->plan->machine->vector, masked);
    LLVMValueRef packed = y == Y_PACKED || y == Y_COPIED ? dot_panel_at(d, p, q.i) : NULL;
    LLVMValueRef args[MICRO_ARGS] = {[MICRO_X] = row_at(d, rows, row),
                                     [MICRO_Y] = y == Y_PACKED ? packed : source_at(d, p->y_here, q.i),
                                     [MICRO_COUNT] = p->lanes};
    if (rows->layout != X_ROWS) args[rows->layout == X_AWAY ? MICRO_X_ROW : MICRO_X_STEP] = emit_i64(e, rows->step);
    if (y != Y_PACKED) args[MICRO_Y_STEP] = emit_i64(e, d->p->y_direct.along);
    if (y == Y_COPIED) args[MICRO_PACKED] = packed;
    if (masked) args[MICRO_COLUMNS] = c.columns;
    shape.interval = prefetch_interval(d, ahead, height);
    shape.brief = d->p->brief || (!ahead[0].lines && !ahead[1].lines);
    for (int i = 0; i < MICRO_WALKS; i++) {
        shape.lines[i] = ahead[i].lines;
        if (!ahead[i].lines) continue;
        LLVMValueRef *walk = args + MICRO_WALK + (ptrdiff_t)3 * i;
        walk[0] = ahead[i].at, walk[1] = ahead[i].stride, walk[2] = emit_i64(e, ahead[i].n);
    }
    call_block(d, name_of(d, rows->layout, y, masked), shape, &c, args);
    counter_close(ke, &q);
}

/* Of brief sums it is expensive to put a block aside: where columns pass what there is, only what is there is written.
 */
static void against_panels(const Dot *d, const Packed *p, const Rows *rows, LLVMValueRef row, int height,
                           LLVMValueRef first, LLVMValueRef end, YLayout y, int vectors) {
    const Emit *e = d->ke->e;
    if (!d->edges || !d->p->brief) {
        against(d, p, rows, row, height, first, end, y, vectors, false);
        return;
    }
    if (known_false(LLVMBuildICmp(e->b, LLVMIntSLT, first, end, ""))) return;
    LLVMValueRef whole = dot_whole_panels(d); /* between first and end */
    whole = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, whole, end, ""), whole, end, "");
    whole = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, whole, first, ""), first, whole, "");
    against(d, p, rows, row, height, first, whole, y, vectors, false);
    against(d, p, rows, row, height, whole, end, y, vectors, true);
}

/* Panels of Y in place, always or before the first rows were multiplied, then packed ones; of a last one that is at
 * most half full, half. */
static void row_of_blocks(const Dot *d, const Packed *p, const Rows *rows, LLVMValueRef row, int height) {
    const Emit *e = d->ke->e;
    LLVMValueRef none = emit_i64(e, 0), end = dot_lanes(d, &d->p->columns, d->p->n_columns), split = none, narrow = end;
    const YLayout layout = d->p->y_direct.copied                         ? Y_COPIED
                           : d->p->y_direct.near || d->p->y_direct.swept ? Y_NEAR
                                                                         : Y_AWAY;
    if (d->p->y_direct.use || d->p->y_direct.copied) split = dot_whole_panels(d);
    if (d->p->y_direct.copied) {
        LLVMValueRef first = LLVMBuildICmp(e->b, LLVMIntEQ, row, none, "");
        split = LLVMBuildSelect(e->b, first, split, none, "");
    }
    if (d->p->vectors > 1) {
        LLVMValueRef whole = dot_whole_panels(d), rest = LLVMBuildSub(e->b, end, whole, "");
        LLVMValueRef half = emit_i64(e, d->p->vectors / 2 * d->ke->plan->machine->vector);
        narrow = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLE, rest, half, ""), whole, end, "");
    }
    against_panels(d, p, rows, row, height, none, split, layout, d->p->vectors);
    against_panels(d, p, rows, row, height, split, narrow, Y_PACKED, d->p->vectors);
    if (d->p->vectors > 1) against_panels(d, p, rows, row, height, narrow, end, Y_PACKED, d->p->vectors / 2);
}

/* Blocks of full height while more than row_block - row_unit rows are left, then one of the least multiple of row_unit
 * that holds the rest. */
static void block_of_height(const Dot *d, const Packed *p, const Rows *rows, LLVMValueRef row, int height) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    LLVMValueRef all = dot_lanes(d, &d->p->rows, d->p->n_rows), left = LLVMBuildSub(e->b, all, row, "");
    LLVMValueRef here = LLVMBuildSub(e->b, all, rows->start, "");
    if (LLVMIsAConstantInt(here)) {
        const int64_t up = (LLVMConstIntGetSExtValue(here) + d->p->row_unit - 1) / d->p->row_unit * d->p->row_unit;
        if (height < d->p->row_block && up % d->p->row_block != height) return;
        if (height == d->p->row_block && up < height) return;
        if (height == d->p->row_block && up % d->p->row_block == 0) {
            row_of_blocks(d, p, rows, row, height);
            return;
        }
    }
    LLVMValueRef fits = LLVMBuildICmp(e->b, LLVMIntSGT, left, emit_i64(e, height - d->p->row_unit), "");
    if (height < d->p->row_block)
        fits = LLVMBuildAnd(e->b, fits, LLVMBuildICmp(e->b, LLVMIntSLE, left, emit_i64(e, height), ""), "");
    HostCounter once = counter_open(ke, emit_i64(e, 0), LLVMBuildZExt(e->b, fits, e->i64, ""), 1);
    row_of_blocks(d, p, rows, row, height);
    counter_close(ke, &once);
}

/* Rows [rows->first, end). */
static void blocks(const Dot *d, const Packed *p, const Rows *rows, LLVMValueRef end) {
    HostCounter r = counter_open(d->ke, rows->first, end, d->p->row_block);
    for (int height = d->p->row_block; height > 0; height -= d->p->row_unit) block_of_height(d, p, rows, r.i, height);
    counter_close(d->ke, &r);
}

/* Rows [first, end) of those from `start` on. */
static void packed_blocks(const Dot *d, const Packed *p, LLVMValueRef start, LLVMValueRef first, LLVMValueRef end) {
    const Rows rows = {.x = p->x,
                       .first = first,
                       .start = start,
                       .layout = d->p->rows_fast ? X_COLUMNS : X_ROWS,
                       .step = d->p->x_step};
    blocks(d, p, &rows, end);
}

/* Rows [start, all), packed a group at a time. */
static void groups(const Dot *d, const Packed *p, LLVMValueRef start, LLVMValueRef all) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int axis = d->p->rows.axis[0];
    HostCounter g = counter_open(ke, start, all, d->p->group);
    LLVMValueRef stop[2] = {LLVMBuildAdd(e->b, g.i, emit_i64(e, d->p->group), ""), all};
    LLVMValueRef end = emit_intrinsic(e, "llvm.smin", 2, stop);
    ke->lo[axis] = g.i;
    ke->hi[axis] = end;
    dot_pack_x(d, p);
    ke->lo[axis] = emit_i64(e, 0);
    ke->hi[axis] = all;
    packed_blocks(d, p, start, g.i, end);
    counter_close(ke, &g);
}

/* X in place, in blocks of whole row units; rows that do not fill one are packed, since blocks would pass its end. */
static void direct_blocks(const Dot *d, const Packed *p, LLVMValueRef all) {
    const Emit *e = d->ke->e;
    const int axis = d->p->rows.axis[0];
    LLVMValueRef zero = emit_i64(e, 0), unit = emit_i64(e, d->p->row_unit);
    const bool columns = d->p->x_direct.along != 1;
    const Rows rows = {.x = p->x_here,
                       .first = zero,
                       .start = zero,
                       .layout = columns ? X_COLUMNS : X_AWAY,
                       .step = columns ? d->p->x_direct.along : d->p->x_direct.across};
    LLVMValueRef whole = LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, all, unit, ""), unit, "");
    d->ke->hi[axis] = whole;
    blocks(d, p, &rows, whole);
    d->ke->hi[axis] = all;
    if (!known_false(LLVMBuildICmp(e->b, LLVMIntSLT, whole, all, ""))) groups(d, p, whole, all);
}

static void multiply(const Dot *d, const Packed *p) {
    const Emit *e = d->ke->e;
    LLVMValueRef all = dot_lanes(d, &d->p->rows, d->p->n_rows), zero = emit_i64(e, 0);
    if (d->p->rows.n_axes == 1 && d->p->x_direct.use)
        direct_blocks(d, p, all);
    else if (d->p->rows.n_axes == 1)
        groups(d, p, zero, all);
    else {
        dot_pack_x(d, p);
        packed_blocks(d, p, zero, zero, all);
    }
}

/* Lane 0 of the part at hand. */
static LLVMValueRef origin(const Dot *d, int value, const FactorInPlace *direct) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    LLVMValueRef skipped = LLVMBuildMul(e->b, ke->lo[d->p->over.axis[0]], emit_i64(e, direct->along), "");
    return source_at(d, nest_origin(ke, blocks_load(d->p, value)), skipped);
}

/* Of a single axis those that exist; else of whole pairs, which are filled up. */
static LLVMValueRef lanes_of_k(const Dot *d, LLVMValueRef units) {
    const KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (d->p->pair_axis < 0) return units;
    if (d->p->over.n_axes > 1) return LLVMBuildShl(e->b, units, emit_i64(e, 1), "");
    return nest_lanes(ke, d->p->pair_axis);
}

void dot_multiply_part(const Dot *d, LLVMValueRef x_memory, LLVMValueRef y_memory) {
    KernelEmit *ke = d->ke;
    const TileType axes = tile_type_union(d->p->rows, d->p->over);
    int8_t order[MAX_TILE_AXES];
    Packed p = {.x = x_memory, .y = y_memory};
    const int n = pack_order(ke->plan, &axes, d->p->x, order);
    p.count = dot_dense(d, n, order, p.k_index);
    p.lanes = lanes_of_k(d, p.count);
    if (d->p->x_direct.use) p.x_here = origin(d, d->p->x, &d->p->x_direct);
    if (d->p->y_direct.use || d->p->y_direct.copied || d->p->y_direct.transposed)
        p.y_here = origin(d, d->p->y, &d->p->y_direct);
    if (d->p->inner) {
        dot_inner_products(d, &p);
        return;
    }
    dot_pack_y(d, &p);
    p.next_x = ahead_of(d, d->p->x, &d->p->next_x);
    p.next_y = ahead_of(d, d->p->y, &d->p->next_y);
    HostCounter some = counter_open(ke, emit_i64(ke->e, 0), p.count, INT32_MAX); /* once, if there is any k */
    multiply(d, &p);
    counter_close(ke, &some);
}
