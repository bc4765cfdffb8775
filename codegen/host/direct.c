/* Matrix products that read their rows through a window: convolutions and their gradients.
 *
 *     C[rows, columns] += X[window of rows, k] * Y[k, columns]
 *
 * X is not packed per row, which would copy an element as often as windows overlap: the tile's box of it is copied
 * once, zeros where a condition fails (window.h), or it is read in place.  A block of rows runs along the
 * innermost row axis, so that its elements are a constant stride apart.  Y is packed panel by panel as
 * [k][columns of the panel], k in the order in which X is walked.  Terms that are zero since a condition of either
 * factor fails, beyond the border or where a residue class of a strided gradient has fewer taps than the widest, are
 * left out as far as whole lanes of a summed axis, or rows of a block at them, are concerned (direct_clip.c).
 * Its constants are from `./dev bench conv`. */
#include "codegen/host/counter.h"
#include "codegen/host/direct_internal.h"
#include "codegen/host/micro_block.h"
#include <string.h>

enum { MOST_VECTORS = 4, MOST_ROWS = 28 };

/* ---- shapes ------------------------------------------------------------------------------------------------------ */
/* The block runs along the innermost row axis of C; false: it cannot also run along `axes` - 1 outer ones, as far as
 * they continue it. */
static bool find_block(Direct *d, int axes) {
    const int n_rows = d->c->n - d->c->n_columns, inner = d->c->axis[n_rows - 1];
    d->block_axes = axes;
    d->block_lanes = d->ke->k->axes.at[inner].step;
    d->block_x = d->place.stride[inner];
    d->block_c = d->c_stride[inner];
    for (int i = n_rows - 2; i >= n_rows - axes; i--) {
        const int axis = i >= 0 ? d->c->axis[i] : -1;
        if (axis < 0 || !all_lanes(d, d->c->axis[i + 1])) return false;
        if (d->place.stride[axis] != d->block_x * d->block_lanes || d->c_stride[axis] != d->block_c * d->block_lanes)
            return false;
        d->block_lanes *= d->ke->k->axes.at[axis].step;
    }
    d->n_row_axes = n_rows - axes;
    for (int i = 0; i < d->n_row_axes; i++) d->row_axis[i] = d->c->axis[i];
    return true;
}

/* By falling stride of X. */
static void order_sums(Direct *d) {
    for (int i = 0; i < d->over.n_axes; i++) {
        const int axis = d->over.axis[i];
        int at = d->n_sums++;
        d->flipped[axis] = d->place.stride[axis] < 0;
        for (; at > 0 && magnitude(d->place.stride[d->sum_axis[at - 1]]) < magnitude(d->place.stride[axis]); at--)
            d->sum_axis[at] = d->sum_axis[at - 1];
        d->sum_axis[at] = axis;
    }
}

static Split split_evenly(int64_t n, int64_t most) {
    const int64_t blocks = (n + most - 1) / most, small = n / blocks, greater = n % blocks;
    Split s = {.at = {0, greater * (small + 1), n}, .size = {(int)small + 1, (int)small}};
    if (greater == 0) s.size[0] = (int)small;
    return s;
}

/* Cycles per k of all blocks: multiply-adds or loads, two a cycle, four cycles of latency, and a little for each block.
 */
static double cost_of(int64_t rows, int64_t vectors, int r, int v) {
    const Split a = split_evenly(rows, r), b = split_evenly(vectors, v);
    double sum = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            const double m = a.size[i], n = b.size[j], most = m * n > m + n ? m * n : m + n;
            const double blocks = (double)(a.at[i + 1] - a.at[i]) / m * ((double)(b.at[j + 1] - b.at[j]) / n);
            sum += blocks * ((most > 8 ? most : 8) / 2 + 0.25);
        }
    return sum;
}

static int64_t inner_vectors(const Direct *d) {
    const int64_t lanes = d->machine->vector;
    return (d->ke->k->axes.at[d->inner_column].step + lanes - 1) / lanes;
}

/* The number of axes along which blocks run, and their size, that take least time; of those that the schedule allows. */
static bool choose_blocks(Direct *d, HostSchedule *s) {
    const int registers = d->machine->registers, lanes = d->machine->vector;
    const int64_t vectors = inner_vectors(d);
    const bool given = s->rows[0] && s->columns;
    HostSchedule of = *s;
    double best = 0;
    for (int n = 1; find_block(d, n); n++) {
        const double share = direct_walked(d) / (double)d->block_lanes;
        for (int v = 1; v <= MOST_VECTORS; v++)
            for (int r = 1; r <= (given ? BLOCK_ROWS : MOST_ROWS); r++) {
                const bool allowed = (!of.axes || of.axes == n) && (!of.rows[0] || of.rows[0] == r) &&
                                     (!of.columns || of.columns == v * lanes);
                if (!allowed || (!given && r * v + v + 1 > registers)) continue;
                const double cost = share * cost_of(d->block_lanes, vectors, r, v);
                if (best > 0 && cost >= best) continue;
                best = cost;
                s->axes = n, s->rows[0] = r, s->columns = v * lanes;
            }
    }
    if (best == 0) return false;
    find_block(d, s->axes);
    d->row_split = split_evenly(d->block_lanes, s->rows[0]);
    d->column_split = split_evenly(vectors, s->columns / lanes);
    return true;
}

/* ---- packing Y --------------------------------------------------------------------------------------------------- */
/* Strides of k in a packed panel, per lane; returns the number of k. */
static LLVMValueRef k_strides(const Direct *d, LLVMValueRef *stride) {
    const Emit *e = d->ke->e;
    LLVMValueRef next = emit_i64(e, 1);
    for (int i = d->n_sums - 1; i >= 0; i--) {
        stride[d->sum_axis[i]] = next;
        next = LLVMBuildMul(e->b, next, units_of(d, d->sum_axis[i]), "");
    }
    return next;
}

static int64_t most_k(const Direct *d) {
    int64_t n = 1;
    for (int i = 0; i < d->over.n_axes; i++) n *= d->ke->k->axes.at[d->over.axis[i]].step;
    return n;
}

static int64_t panel_columns(const Direct *d) {
    const int most =
        d->column_split.size[0] > d->column_split.size[1] ? d->column_split.size[0] : d->column_split.size[1];
    return (int64_t)most * d->machine->vector;
}

typedef struct PanelMemory {
    LLVMValueRef panel, transposed; /* transposed: where Y is packed along k first */
    int64_t length;                 /* of a row of `transposed` */
} PanelMemory;

static bool runs_along_k(const Direct *d) {
    const TileType axes = tile_type_union(d->over, d->columns);
    const Sink probe = {.kind = SINK_PACK, .value = d->y};
    int8_t order[MAX_TILE_AXES];
    const int n = nest_order(d->ke, &axes, 1, &probe, order);
    return n > 0 && tile_type_has(&d->over, order[n - 1]);
}

static void transpose(const Direct *d, const PanelMemory *m, LLVMValueRef count, LLVMValueRef columns, int64_t width) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int lanes = d->machine->vector;
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
    const TileType axes = tile_type_union(d->over, d->columns);
    Sink s = {.kind = SINK_PACK, .value = d->y, .storage = -1, .pack = {.pairs = d->window.pairs}};
    LLVMValueRef *stride = s.pack.stride, origin = emit_i64(e, 0), unit = emit_i64(e, m->transposed ? 1 : width);
    LLVMValueRef count = k_strides(d, stride);
    for (int i = 0; i < d->over.n_axes; i++) {
        const int axis = d->over.axis[i];
        stride[axis] = LLVMBuildMul(e->b, stride[axis], unit, "");
        if (!d->flipped[axis]) continue;
        LLVMValueRef last = LLVMBuildSub(e->b, lanes_of(d, axis), emit_i64(e, 1), "");
        origin = LLVMBuildAdd(e->b, origin, LLVMBuildMul(e->b, last, stride[axis], ""), "");
        stride[axis] = LLVMBuildNeg(e->b, stride[axis], "");
    }
    for (int i = 0; i < d->columns.n_axes; i++) stride[d->columns.axis[i]] = emit_i64(e, 0); /* one lane */
    stride[d->inner_column] = emit_i64(e, m->transposed ? m->length : 1);
    LLVMValueRef columns = lanes_of(d, d->inner_column);
    s.pack.memory = emit_f32_at(e, m->transposed ? m->transposed : m->panel, origin);
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
    at.x = emit_f32_at(e, at.x, plus(d, emit_i64(e, 0), c.i, d->block_x));
    at.c = emit_f32_at(e, at.c, plus(d, emit_i64(e, 0), c.i, d->block_c));
    direct_multiply(d, level, direct_levels(d, shape.taps.n > 0, lane, level), at, shape);
    counter_close(ke, &c);
}

static MicroTapRows taps_at(const Direct *d, LLVMValueRef *lane, int64_t at, int rows) {
    MicroTapRows t;
    return direct_tap_rows(d, lane, at, rows, &t) ? t : (MicroTapRows){.n = 0};
}

static void multiply_blocks(const Direct *d, LLVMValueRef *lane, Cursor at, int vectors) {
    for (int i = 0; i < 2; i++) {
        const Split *s = &d->row_split;
        const int rows = s->size[i], lanes = d->machine->vector;
        MicroShape shape = {.side = {micro_rows(1, 0, 0), micro_rows(rows, d->block_x, d->block_c)},
                            .vectors = vectors,
                            .lanes = lanes,
                            .y = {.step = {(int64_t)vectors * lanes}},
                            .groups = MICRO_NO_GROUPS,
                            .pairs = d->window.pairs > 0,
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
    if (n == d->n_row_axes) {
        multiply_blocks(d, lane, at, vectors);
        return;
    }
    const int axis = d->row_axis[n];
    HostCounter c = counter_open(ke, emit_i64(e, 0), lanes_of(d, axis), 1);
    Cursor next = at;
    next.x = emit_f32_at(e, at.x, plus(d, emit_i64(e, 0), c.i, d->place.stride[axis]));
    next.c = emit_f32_at(e, at.c, plus(d, emit_i64(e, 0), c.i, d->c_stride[axis]));
    lane[axis] = LLVMBuildAdd(e->b, ke->lo[axis], c.i, "");
    multiply_rows(d, n + 1, lane, next, vectors);
    lane[axis] = NULL;
    counter_close(ke, &c);
}

/* All panels of the inner column axis, for one lane of each outer one. */
static void multiply_panels(const Direct *d, const PanelMemory *m, LLVMValueRef *lane, LLVMValueRef c0) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int axis = d->inner_column;
    LLVMValueRef lo = ke->lo[axis], hi = ke->hi[axis], x0 = d->place.origin;
    for (int i = 0; i < d->over.n_axes; i++) { /* the first lane to be walked */
        const int k = d->over.axis[i];
        if (!d->flipped[k]) continue;
        LLVMValueRef last = LLVMBuildSub(e->b, lanes_of(d, k), emit_i64(e, 1), "");
        x0 = emit_f32_at(e, x0, plus(d, emit_i64(e, 0), last, d->place.stride[k]));
    }
    for (int i = 0; i < 2; i++) {
        const Split *s = &d->column_split;
        const int64_t width = (int64_t)s->size[i] * d->machine->vector;
        if (s->at[i] == s->at[i + 1]) continue;
        LLVMValueRef end[2] = {hi, emit_i64(e, s->at[i + 1] * d->machine->vector)};
        HostCounter c =
            counter_open(ke, emit_i64(e, s->at[i] * d->machine->vector), emit_intrinsic(e, "llvm.smin", 2, end), width);
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
    const int at = d->c->n - d->c->n_columns + n, axis = d->c->axis[at];
    if (n == d->c->n_columns - 1) {
        multiply_panels(d, m, lane, c0);
        return;
    }
    LLVMValueRef lo = ke->lo[axis], hi = ke->hi[axis];
    HostCounter c = counter_open(ke, lo, hi, 1);
    ke->lo[axis] = lane[axis] = c.i;
    ke->hi[axis] = LLVMBuildAdd(e->b, c.i, emit_i64(e, 1), "");
    multiply_columns(d, n + 1, m, lane, emit_f32_at(e, c0, plus(d, emit_i64(e, 0), c.i, d->c_stride[axis])));
    lane[axis] = NULL;
    ke->lo[axis] = lo;
    ke->hi[axis] = hi;
    counter_close(ke, &c);
}

/* ---- the product ------------------------------------------------------------------------------------------------- */
enum { MOST_BYTES = 2 << 20 };

static PanelMemory panel_memory(const Direct *d, bool transposed) {
    const int lanes = d->machine->vector;
    const int64_t n = most_k(d) + lanes;
    PanelMemory m = {.panel = nest_alloca(d->ke, d->ke->e->f32, n * panel_columns(d)), .length = n};
    if (transposed) m.transposed = nest_alloca(d->ke, d->ke->e->f32, n * (panel_columns(d) + lanes));
    return m;
}

/* Of floats, or of pairs of bf16 along the innermost sum. */
static bool find_window(Direct *d) {
    if (!dot_in_pairs(d->ke, d->machine, d->dot)) return window_find(d->ke, d->x, true, &d->window);
    return window_find_pairs(d->ke, d->x, &d->over, &d->window);
}

/* Only lanes that exist are written. */
static bool is_exact(const Direct *d) {
    for (int i = 0; i < d->c->n; i++)
        if (!axis_whole(d->ke->k, d->c->axis[i])) return false;
    return d->ke->k->axes.at[d->inner_column].step % d->machine->vector == 0;
}

/* Blocks of two vectors, and about as many rows as there are registers for. */
static HostWork window_work(const Direct *d, int64_t elements) {
    const Kernel *k = d->ke->k;
    const double lanes = d->machine->vector, sums = (double)most_k(d) * (d->window.pairs ? 0.5 : 1);
    double rows = 1, wide = (double)inner_vectors(d);
    for (int i = 0; i < d->rows.n_axes; i++) rows *= k->axes.at[d->rows.axis[i]].step;
    for (int i = 0; i < d->columns.n_axes; i++)
        if (d->columns.axis[i] != d->inner_column) wide *= k->axes.at[d->columns.axis[i]].step;
    const double columns = wide * sums, box = (double)elements / lanes;
    const double high = d->machine->registers / 3.0;
    HostWork w = {.products = rows * columns, .loads = rows / high * columns + rows * wide / 2 * sums};
    w.read = box + columns;
    w.packed = box;
    *(runs_along_k(d) ? &w.transposed : &w.evaluated) += columns;
    w.results = 2 * rows * wide;
    w.blocks = rows / high * wide / 2;
    return w;
}

bool direct_plan(FormPlan *p) {
    const Kernel *k = p->ke->k;
    const Storage *c = form_storage(p);
    MatrixRoles r;
    if (form_matrix_roles(p, &r) || r.over.n_axes == 0 || r.rows.n_axes == 0) return false;
    Direct *d = p->of_form = ARENA_NEW(p->ke->arena, Direct);
    *d = (Direct){.ke = p->ke, .dot = p->dot, .machine = p->machine, .c = c, .x = r.x, .y = r.y, .rows = r.rows};
    d->columns = r.columns, d->over = r.over, d->inner_column = c->axis[c->n - 1];
    if (!find_window(d) || !window_slides(k, &d->window, &d->rows, &d->over)) return false;
    const int64_t elements = window_elements(k, &d->window, p->machine->vector);
    const int64_t vectors = inner_vectors(d) < MOST_VECTORS ? inner_vectors(d) : MOST_VECTORS;
    if (4 * (elements + most_k(d) * 2 * vectors * p->machine->vector) > MOST_BYTES) /* 2: perhaps transposed */
        return form_refuse(p, "its window and factor are too large");
    p->work = window_work(d, elements);
    p->pairs = d->window.pairs > 0;
    p->starts = direct_sums_at_once(d);
    p->whole = p->starts && form_sums_at_once(p) && is_exact(d);
    return true;
}

bool direct_choose(FormPlan *p) {
    Direct *d = p->of_form;
    window_find_ranges(d->ke, d->y, d->window.pairs, &d->y_window);
    window_strides(d->ke->k, &d->window, d->place.stride);
    for (int i = 0; i < d->c->n; i++) {
        const int axis = d->c->axis[i];
        d->c_stride[axis] = d->c->stride[i];
        if (p->store) access_affine(d->ke->k, p->store, axis, &d->c_stride[axis]);
    }
    order_sums(d);
    const FactorWay y = runs_along_k(d) ? WAY_TRANSPOSED : WAY_PACKED; /* pairs cannot be packed across the nest */
    const unsigned ways = d->window.pairs ? 1u << y : 1u << WAY_PACKED | 1u << WAY_TRANSPOSED;
    return choose_blocks(d, &p->s) && form_way(&p->s.x, WAY_BOX, 1u << WAY_BOX) && form_way(&p->s.y, y, ways) &&
           p->s.columns <= MOST_VECTORS * p->machine->vector;
}

void direct_emit(const FormPlan *p, const DotResult *to) {
    KernelEmit *ke = p->ke;
    Direct d = *(const Direct *)p->of_form;
    d.c = form_storage(p);
    const int64_t elements = window_elements(ke->k, &d.window, p->machine->vector);
    LLVMPositionBuilderAtEnd(ke->e->b, ke->current);
    d.place = window_pack(ke, &d.window, nest_alloca(ke, ke->e->f32, elements), p->machine);
    d.c_origin = p->store ? to->memory : ke->memory[p->storage];
    d.fresh = to ? to->fresh : emit_i64(ke->e, 0);
    const PanelMemory m = panel_memory(&d, p->s.y == WAY_TRANSPOSED);
    LLVMValueRef lane[MAX_AXES] = {0};
    multiply_columns(&d, 0, &m, lane, d.c_origin);
}
