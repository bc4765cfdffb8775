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
#include "codegen/schedule/direct.h"
#include "codegen/schedule/micro_side.h"

enum { MOST_VECTORS = 4, MOST_ROWS = 28 };

/* ---- the border -------------------------------------------------------------------------------------------------- */
int direct_tap_axis(const DirectPlan *d) { return d->n_sums > 1 ? d->sum_axis[d->n_sums - 2] : -1; }

static bool in_block(const DirectPlan *d, int axis) {
    for (int i = 0; i < d->n_row_axes; i++)
        if (d->row_axis[i] == axis) return false;
    return tile_type_has(&d->rows, axis);
}

bool direct_limits(const DirectPlan *d, const Range *r, int axis, int with) {
    const Kernel *k = d->at->k;
    if (!range_slope(k, r, axis)) return false;
    for (int a = 0; a < k->axes.n; a++) {
        const bool moves = in_block(d, a) || tile_type_has(&d->over, a) || a == d->inner_column;
        if (moves && a != axis && a != with && range_slope(k, r, a)) return false;
    }
    return true;
}

const Range *direct_range(const DirectPlan *d, int i) {
    if (i < d->window.n_ranges) return &d->window.range[i];
    i -= d->window.n_ranges;
    return i < d->y_window.n_ranges ? &d->y_window.range[i] : NULL;
}

/* Of all values of the axes in it, those at which a range holds; 1 where that is not known. */
static double share_of(const Kernel *k, const Range *r) {
    enum { MOST = 1 << 16 };
    int64_t value[MAX_AXES] = {0}, all = 1, held = 0;
    if (r->bound->n) return 1;
    for (int t = 0; t < r->x->n; t++) {
        if (r->x->term[t].atom.kind != ATOM_AXIS) return 1;
        const Dim extent = k->axes.at[r->x->term[t].atom.id].extent;
        if (!dim_is_fixed(extent) || extent.bound < 1 || (all *= extent.bound) > MOST) return 1;
    }
    for (int64_t i = 0; i < all; i++) {
        int64_t x = r->x->c, rest = i;
        for (int t = 0; t < r->x->n; t++) {
            const int64_t extent = k->axes.at[r->x->term[t].atom.id].extent.bound;
            value[t] = rest % extent;
            rest /= extent;
            x += r->x->term[t].coef * value[t];
        }
        const int64_t c = r->bound->c;
        held += r->op == OP_LT ? x < c : r->op == OP_LE ? x <= c : r->op == OP_GT ? x > c : x >= c;
    }
    return (double)held / (double)all;
}

/* The share of all terms that is left, about, were the block to run along its axes. */
static double walked(const DirectPlan *d) {
    const int run = d->c->axis[d->c->n - d->c->n_columns - 1];
    double share = 1;
    const Range *r;
    for (int i = 0; (r = direct_range(d, i)); i++)
        for (int s = 0; s < d->n_sums; s++) {
            const bool taps = d->block_axes == 1 && d->sum_axis[s] == direct_tap_axis(d);
            if (direct_limits(d, r, d->sum_axis[s], taps ? run : d->sum_axis[s])) share *= share_of(d->at->k, r);
        }
    return share;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */
/* The block runs along the innermost row axis of C; false: it cannot also run along `axes` - 1 outer ones, as far as
 * they continue it. */
static bool find_block(DirectPlan *d, int axes) {
    const int n_rows = d->c->n - d->c->n_columns, inner = d->c->axis[n_rows - 1];
    d->block_axes = axes;
    d->block_lanes = d->at->k->axes.at[inner].step;
    d->block_x = d->x_stride[inner];
    d->block_c = d->c_stride[inner];
    for (int i = n_rows - 2; i >= n_rows - axes; i--) {
        const int axis = i >= 0 ? d->c->axis[i] : -1;
        if (axis < 0 || !all_lanes(d, d->c->axis[i + 1])) return false;
        if (d->x_stride[axis] != d->block_x * d->block_lanes || d->c_stride[axis] != d->block_c * d->block_lanes)
            return false;
        d->block_lanes *= d->at->k->axes.at[axis].step;
    }
    d->n_row_axes = n_rows - axes;
    for (int i = 0; i < d->n_row_axes; i++) d->row_axis[i] = d->c->axis[i];
    return true;
}

/* By falling stride of X. */
static void order_sums(DirectPlan *d) {
    for (int i = 0; i < d->over.n_axes; i++) {
        const int axis = d->over.axis[i];
        int at = d->n_sums++;
        d->flipped[axis] = d->x_stride[axis] < 0;
        for (; at > 0 && magnitude(d->x_stride[d->sum_axis[at - 1]]) < magnitude(d->x_stride[axis]); at--)
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

static int64_t inner_vectors(const DirectPlan *d) {
    const int64_t lanes = d->at->machine->vector;
    return (d->at->k->axes.at[d->inner_column].step + lanes - 1) / lanes;
}

/* The number of axes along which blocks run, and their size, that take least time; of those that the schedule allows.
 */
static bool choose_blocks(DirectPlan *d, HostSchedule *s) {
    const int registers = d->at->machine->registers, lanes = d->at->machine->vector;
    const int64_t vectors = inner_vectors(d);
    const bool given = s->rows[0] && s->columns;
    HostSchedule of = *s;
    double best = 0;
    for (int n = 1; find_block(d, n); n++) {
        const double share = walked(d) / (double)d->block_lanes;
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

int64_t direct_most_k(const DirectPlan *d) {
    int64_t n = 1;
    for (int i = 0; i < d->over.n_axes; i++) n *= d->at->k->axes.at[d->over.axis[i]].step;
    return n;
}

static bool runs_along_k(const DirectPlan *d) {
    const TileType axes = tile_type_union(d->over, d->columns);
    return packs_along(d->at, &axes, d->y, &d->over);
}

/* ---- the product ------------------------------------------------------------------------------------------------- */
/* Of floats, or of pairs of bf16 along the innermost sum. */
static bool find_window(DirectPlan *d) {
    if (!dot_in_pairs(d->at, d->dot)) return window_find(d->at, d->x, true, &d->window);
    return window_find_pairs(d->at, d->x, &d->over, &d->window);
}

/* Only lanes that exist are written. */
static bool is_exact(const DirectPlan *d) {
    for (int i = 0; i < d->c->n; i++)
        if (!axis_whole(d->at->k, d->c->axis[i])) return false;
    return d->at->k->axes.at[d->inner_column].step % d->at->machine->vector == 0;
}

/* Blocks of two vectors, and about as many rows as there are registers for. */
static HostWork window_work(const DirectPlan *d, int64_t elements) {
    const Kernel *k = d->at->k;
    const double lanes = d->at->machine->vector, sums = (double)direct_most_k(d) * (d->window.pairs ? 0.5 : 1);
    double rows = 1, wide = (double)inner_vectors(d);
    for (int i = 0; i < d->rows.n_axes; i++) rows *= k->axes.at[d->rows.axis[i]].step;
    for (int i = 0; i < d->columns.n_axes; i++)
        if (d->columns.axis[i] != d->inner_column) wide *= k->axes.at[d->columns.axis[i]].step;
    const double columns = wide * sums, box = (double)elements / lanes;
    const double high = d->at->machine->registers / 3.0;
    HostWork w = {.products = rows * columns, .loads = rows / high * columns + rows * wide / 2 * sums};
    w.read = box + columns;
    w.packed = box;
    *(runs_along_k(d) ? &w.transposed : &w.evaluated) += columns;
    w.results = 2 * rows * wide;
    w.blocks = rows / high * wide / 2;
    return w;
}

bool direct_plan(FormPlan *p) {
    const Kernel *k = p->at->k;
    const Storage *c = form_storage(p);
    MatrixRoles r;
    if (form_matrix_roles(p, &r) || r.over.n_axes == 0 || r.rows.n_axes == 0) return false;
    DirectPlan *d = p->of_form = ARENA_NEW(p->at->arena, DirectPlan);
    *d = (DirectPlan){.at = p->at, .dot = p->dot, .c = c, .x = r.x, .y = r.y, .rows = r.rows};
    d->columns = r.columns, d->over = r.over, d->inner_column = c->axis[c->n - 1];
    if (!find_window(d) || !window_slides(k, &d->window, &d->rows, &d->over)) return false;
    const int64_t elements = window_elements(p->at, &d->window);
    const int64_t vectors = inner_vectors(d) < MOST_VECTORS ? inner_vectors(d) : MOST_VECTORS;
    const int64_t panel = direct_most_k(d) * 2 * vectors * p->at->machine->vector; /* 2: perhaps transposed */
    if (4 * (elements + panel) > 2 * p->at->machine->l2)
        return form_refuse(p, "its window and factor are too large");
    p->work = window_work(d, elements);
    p->pairs = d->window.pairs > 0;
    p->starts = direct_sums_at_once(d);
    p->whole = p->starts && form_sums_at_once(p) && is_exact(d);
    return true;
}

bool direct_choose(FormPlan *p) {
    DirectPlan *d = p->of_form;
    window_find_ranges(d->at, d->y, d->window.pairs, &d->y_window);
    window_strides(d->at->k, &d->window, d->x_stride);
    for (int i = 0; i < d->c->n; i++) {
        const int axis = d->c->axis[i];
        d->c_stride[axis] = d->c->stride[i];
        if (p->store) access_affine(d->at->k, p->store, axis, &d->c_stride[axis]);
    }
    order_sums(d);
    const FactorWay y = runs_along_k(d) ? WAY_TRANSPOSED : WAY_PACKED; /* pairs cannot be packed across the nest */
    const unsigned ways = d->window.pairs ? 1u << y : 1u << WAY_PACKED | 1u << WAY_TRANSPOSED;
    return choose_blocks(d, &p->s) && form_way(&p->s.x, WAY_BOX, 1u << WAY_BOX) && form_way(&p->s.y, y, ways) &&
           p->s.columns <= MOST_VECTORS * p->at->machine->vector;
}
