/* Tile sizes, from the target's limits: enough lanes to fill its vectors or threads, small enough to
 * stay in registers or the innermost cache. GPU tiles are powers of two. */
#include "passes/algebra/slice_sums.h"
#include "passes/algebra/contract_class.h"
#include "passes/kernel/emitter.h"
#include "passes/kernel/tile_size.h"
#include "ir/host_work.h"
#include <math.h>
#include <string.h>

/* Host products: rows and columns in whole blocks of registers of most machines, which divide into parts of four rows;
 * programs for a few cores at least; what makes one worth while (multiply-adds: some five microseconds). */
enum {
    ROW_UNIT = 12,
    ROW_PART = 4,
    COLUMN_UNIT = 32,
    SUM_UNIT = 16,
    MANY_PROGRAMS = 8,
    SMALL_WORK = 1 << 19,
    MOST_LANES = 1 << 30,
};

typedef struct Limits {
    int map;       /* elements of a map tile */
    int row_lanes; /* elements of a tile that walks contiguous rows */
    int span;      /* longest row held whole */
    int column;    /* lanes across rows that are not contiguous */
    int m, n, k;   /* contraction tile */
    int members;   /* of the kernel, or 0 */
    int cores;     /* Target.cores */
    int doublings; /* GPU: how often the registers of a thread let a product's tile be doubled */
    int most_products; /* Device.most_products */
    bool pow2;
} Limits;

static int at_most(int n, int most) { return n < 1 ? 1 : n > most ? most : n; }

static Limits limits_of(const Target *t) {
    const DeviceTiles *d = t->device->tiles;
    return (Limits){.map = target_tile(t, d->map),
                    .row_lanes = target_tile(t, d->row_lanes),
                    .span = target_tile(t, d->span),
                    .column = target_tile(t, d->column),
                    .m = target_tile(t, d->m),
                    .n = target_tile(t, d->n),
                    .k = target_tile(t, d->k),
                    .most_products = t->device->most_products,
                    .pow2 = target_shares_tiles(t)};
}

/* Lanes along a dim: its extent, at most `most`, a power of two where the target wants one. */
static int lanes(const Limits *l, Dim d, int64_t most) {
    const int64_t n = d.bound < 1 ? 1 : d.bound;
    int64_t p = 1;
    if (most > MOST_LANES) most = MOST_LANES;
    if (!l->pow2) return (int)(n < most ? n : most < 1 ? 1 : most);
    while (p < n && p * 2 <= most) p *= 2;
    return (int)p;
}

/* Fills dims from the innermost outwards until `budget` lanes are used. */
static void fill(const Limits *l, const Shape *s, int *step, int64_t budget) {
    for (int d = s->rank - 1; d >= 0; d--) {
        step[d] = lanes(l, s->dim[d], budget);
        budget /= step[d];
    }
}

/* Does a reduction of the kernel walk memory in order (its last dim is a row dim)? */
static bool rows_contiguous(const PlanKernel *k) {
    for (int i = 0; i < k->nodes.n; i++) {
        const PlanNode *pn = &k->nodes.at[i];
        const Node *n = pn->node;
        if (op_info[n->op].cls == CLASS_REDUCE && n->attr->n_axes > 0 && pn->part != PART_SLICES)
            return n->attr->axes[n->attr->n_axes - 1] == n->in[0]->shape->rank - 1;
        if (pn->in_row) return pn->axis[n->shape->rank - 1] >= k->p->rank;
    }
    return true;
}

/* Elements of a row that are added up in a tile: few to a lane, which are the innermost dim's, so that a running sum
 * stays short (emit_sum_is_long, docs/numerics.md) with so many lanes. */
enum { WIDEST_VECTOR = 16, NARROWEST_VECTOR = 4 }; /* of processors: a row that is held whole is read once; steps are short on all */
static int64_t row_chunk(const Limits *l, const Shape *r, int lanes) {
    enum { CHAIN = 512 };
    const bool vectors = l->row_lanes > 1 && r->rank > 0 && r->dim[r->rank - 1].bound >= WIDEST_VECTOR;
    const int64_t most = (int64_t)CHAIN * (vectors ? lanes : 1), tile = (int64_t)4 * l->span;
    return l->pow2 ? l->row_lanes : tile < most ? tile : most;
}

/* Lanes of a whole row. */
static int64_t row_lanes(const Limits *l, const Shape *r) {
    int64_t row = 1;
    for (int d = 0; d < r->rank; d++) row *= lanes(l, r->dim[d], 1 << 30);
    return row;
}

static bool holds_row(const Limits *l, const Shape *r) {
    const int64_t row = row_lanes(l, r);
    return row <= l->span && (l->pow2 || row <= row_chunk(l, r, WIDEST_VECTOR));
}

bool tile_holds_row(const Target *t, const Shape *r) {
    const Limits l = limits_of(t);
    return holds_row(&l, r);
}

bool tile_walks_whole_rows(const Target *t, const PlanKernel *k) { return rows_contiguous(k) && tile_holds_row(t, k->r); }

int64_t tile_rows(const Target *t, int64_t row) {
    const Limits l = limits_of(t);
    return row > 0 && l.row_lanes > row ? l.row_lanes / row : 1;
}

/* Lanes of a tile of whole rows: while slices of them are walked, a thread has registers for half as many. */
static int rows_lanes(const Limits *l, bool sliced) { return sliced && l->pow2 ? l->row_lanes / 2 : l->row_lanes; }

/* Rows of a tile of which a slice has a whole number. */
static int tile_of_slice(const Limits *l, int64_t slice, int rows) {
    while (slice % rows) rows = l->pow2 ? rows / 2 : rows - 1;
    return rows;
}

int tile_row_registers(const Target *t, const Shape *r) {
    const Limits l = limits_of(t);
    const int64_t row = row_lanes(&l, r), all = rows_lanes(&l, true), lanes = row < all ? all : row;
    const int64_t threads = lanes > (int64_t)ROW_ELEMENTS / 2 * t->threads ? 2 * t->threads : t->threads;
    return target_shares_tiles(t) ? (int)((lanes + threads - 1) / threads) : 0;
}

static void row_sizes(const Limits *l, const PlanKernel *k, TileSizes *s) {
    const bool contiguous = rows_contiguous(k);
    const int64_t row = row_lanes(l, k->r);
    Shape whole = *k->r, rows = *k->p;
    if (k->sliced) rows.dim[k->sliced - 1] = dim_fixed(k->slice);
    s->row_span = contiguous && holds_row(l, k->r);
    if (s->row_span) {
        fill(l, &whole, s->r, (int64_t)1 << 30);
        fill(l, &rows, s->p, row ? rows_lanes(l, k->sliced) / row : 1);
        if (k->sliced) s->p[k->sliced - 1] = tile_of_slice(l, k->slice, s->p[k->sliced - 1]);
    } else if (contiguous) {
        fill(l, &whole, s->r, row_chunk(l, k->r, NARROWEST_VECTOR));
        fill(l, k->p, s->p, 1);
    } else {
        fill(l, k->p, s->p, l->column);
        fill(l, &whole, s->r, l->pow2 ? 16 : 64);
    }
}

/* What one element of a node takes with all that is inlined into it.  Walks at most `left` nodes. */
static int cost_of(const Plan *p, const PlanKernel *k, const Node *n, int *left) {
    if (--*left < 0 || op_is_memory(n->op)) return 0;
    int cost = op_cost(n->op);
    for (int i = 0; i < n->n_in; i++) {
        const int home = p->kernel_of[n->in[i]->id];
        if (home < 0 || home == (int)(k - p->kernels.at)) cost += cost_of(p, k, n->in[i], left);
    }
    return cost;
}

/* A map of many instructions per element gets one element per thread: more would only make the code longer. */
static int map_elements(const Target *t, const Plan *p, const PlanKernel *k, int elements) {
    enum { MANY = 100 }; /* additions */
    int cost = 0, left = 400;
    if (!target_shares_tiles(t)) return elements;
    for (int i = 0; i < k->nodes.n; i++) cost += cost_of(p, k, k->nodes.at[i].node, &left);
    return cost > MANY && t->threads < elements ? t->threads : elements;
}

/* Lanes of the loops of the result that operand o alone mentions. */
static int64_t own_lanes(const Node *n, const TileSizes *s, int o) {
    const Contract *c = n->attr->contract;
    int64_t lanes = 1;
    for (int i = 0; i < c->n_out; i++)
        if (contract_mentions(c, n->in, o, i) && !contract_mentions(c, n->in, 1 - o, i)) lanes *= s->p[i];
    return lanes;
}

/* A matrix times a vector, or a few, reads the matrix once, in its own order: where its rows are summed, long rows; those of
 * one vector a few at a time. */
static void vector_sizes(const Limits *l, const Node *n, TileSizes *s) {
    enum { FEW = 7, LANES = 8192 }; /* vectors; of all of them together, for the innermost cache */
    const Contract *c = n->attr->contract;
    if (l->row_lanes < 2 || l->pow2 || c->n_operands != 2) return;
    const int64_t own[2] = {own_lanes(n, s, 0), own_lanes(n, s, 1)};
    const int matrix = own[1] > own[0], last = n->in[matrix]->shape->rank - 1;
    const int64_t few = own[!matrix], part = LANES / few / SUM_UNIT * SUM_UNIT;
    const int64_t most = l->row_lanes * 2 < part ? l->row_lanes * 2 : part;
    if (own[0] == own[1] || few > FEW) return;
    for (int i = c->n_out; i < c->n_loops; i++) {
        if (last < 0 || !c->map[matrix][last].coef[i]) continue;
        if (s->k[i] < most) s->k[i] = lanes(l, c->extent[i], most);
        for (int o = 0; o < c->n_out && few == 1; o++) s->p[o] = s->p[o] > 16 ? 16 : s->p[o];
    }
}

/* Columns are the loops of the operand that has the innermost result loop, whichever stands first.  With no column
 * loop, the innermost batch loops take the columns' place (depthwise). */
static ContractClass product_loops(const Node *n) {
    ContractClass c = contract_classify(n->attr->contract, n->in);
    const int n_out = n->attr->contract->n_out;
    const bool swapped = n_out > 0 && c.loop[n_out - 1] == LOOP_M;
    bool columns = false;
    for (int i = 0; i < n_out && swapped; i++)
        if (c.loop[i] == LOOP_M || c.loop[i] == LOOP_N) c.loop[i] = c.loop[i] == LOOP_M ? LOOP_N : LOOP_M;
    for (int i = 0; i < n->attr->contract->n_out; i++) columns |= c.loop[i] == LOOP_N;
    for (int i = 0; i < n->attr->contract->n_out && !columns; i++)
        if (c.loop[i] != LOOP_M) c.loop[i] = LOOP_N;
    return c;
}

/* What a program computes. */
typedef struct ProductTile {
    int64_t rows, columns, sums, programs;
    int64_t all_rows, all_columns, results; /* of the product */
} ProductTile;

/* Equal parts of at most `most` lanes, in whole units, so that the last one is not a sliver; of many units, parts of a
 * unit cost less than that a core has more to do than another. */
static int even_lanes(const Limits *l, Dim d, int64_t most, int unit, int part_unit) {
    enum { MANY = 8 };
    const int64_t all = d.bound < 1 ? 1 : d.bound;
    if (l->pow2 || all <= most || most < 2) return lanes(l, d, most);
    const int64_t parts = (all + most - 1) / most, part = (all + parts - 1) / parts;
    if (most < 2 * unit) return (int)part;
    if (part >= MANY * unit) unit = part_unit;
    const int64_t up = (part + unit - 1) / unit * unit;
    return (int)(up < most ? up : most);
}

static ProductTile product_tile(const Limits *l, const Contract *c, const LoopClass *loop, int64_t rows,
                                int64_t columns, TileSizes *s) {
    const int64_t members = l->members > 1 ? l->members : 1;
    ProductTile t = {1, 1, 1, members, 1, 1, members};
    for (int i = c->n_out - 1; i >= 0; i--) {
        const bool row = loop[i] == LOOP_M, tiled = row || loop[i] == LOOP_N;
        int64_t *budget = row ? &rows : &columns;
        const int unit = row ? ROW_UNIT : COLUMN_UNIT, part = row ? ROW_PART : COLUMN_UNIT;
        s->p[i] = tiled ? even_lanes(l, c->extent[i], *budget, unit, part) : 1;
        if (tiled) *budget /= s->p[i];
        if (tiled) *(row ? &t.rows : &t.columns) *= s->p[i];
        if (tiled) *(row ? &t.all_rows : &t.all_columns) *= c->extent[i].bound;
        t.programs *= (c->extent[i].bound + s->p[i] - 1) / s->p[i];
        t.results *= c->extent[i].bound;
    }
    for (int i = c->n_out; i < c->n_loops; i++) t.sums *= c->extent[i].bound;
    return t;
}

/* How a product's factors, that of rows and that of columns, lie in memory: along k; k is one loop. */
typedef struct FactorOrder {
    bool rows_along, columns_along, one_k;
} FactorOrder;

/* Cycles of a core with vectors of VECTOR lanes, for one k of a tile: the product, and what it costs to read and pack
 * its factors.  Rows along k stay in place for few columns (the copy of those that share cache sets is not counted).  Columns
 * are packed while the first rows are multiplied with them, or transposed. */
static double tile_cycles(const ProductTile *t, FactorOrder order) {
    enum { VECTOR = 16, HEIGHT = 4, FEW = 64 };
    const double rows = (double)((t->rows + HEIGHT - 1) / HEIGHT * HEIGHT);
    const double vectors = (double)((t->columns + VECTOR - 1) / VECTOR);
    const bool in_place = order.rows_along && order.one_k && t->columns <= FEW;
    HostWork w = {.products = rows * vectors, .read = rows / VECTOR + vectors};
    w.programs = 1 / (double)(t->sums ? t->sums : 1);
    if (!in_place) *(order.rows_along ? &w.packed : &w.evaluated) += rows / VECTOR;
    if (order.columns_along) w.transposed = vectors;
    if (!order.columns_along && !order.one_k) w.evaluated += vectors;
    return host_cycles(w);
}

/* How long the programs take on 2, 4 and 8 cores, in full programs of one core: between even work, since those at the
 * edges are smaller, and rounds of full ones. */
static double programs_taken(const ProductTile *t) {
    double rounds = 0;
    for (int64_t cores = 2; cores <= MANY_PROGRAMS; cores *= 2)
        rounds += (double)((t->programs + cores - 1) / cores * cores) * (cores == 2 ? 2 : 1) / 4;
    return (rounds + (double)t->results / ((double)t->rows * (double)t->columns)) / 2;
}

static int64_t part_of(int64_t all, int64_t parts, int unit) {
    const int64_t up = ((all + parts - 1) / parts + unit - 1) / unit * unit;
    return up < all ? up : all;
}

/* Cycles of a multiprocessor for one k of a tile of a product by threads, each of which has a part of SIDE-th the rows
 * and columns: multiply-adds, or reading the part's edges from shared memory, whichever takes longer.  EDGE: products of
 * 4 x 4 by a thread ran on an H200 at 23 TFLOP/s of 67, with shared memory at 91% (bench/results/h200.json). */
static double threads_cycles(const ProductTile *t) {
    enum { SIDE = 16 };
    const double EDGE = 5.3, rows = (double)t->rows / SIDE, columns = (double)t->columns / SIDE;
    const double add = rows * columns, read = EDGE * (rows + columns);
    return add > read ? add : read;
}

/* Subscripts of windows take registers, and so do conditions. */
static bool has_windows(const Node *n) {
    const Contract *c = n->attr->contract;
    for (int o = 0; o < c->n_operands; o++)
        for (int d = 0; d < n->in[o]->shape->rank; d++) {
            int loops = 0;
            for (int i = 0; i < c->n_loops; i++) loops += c->map[o][d].coef[i] != 0;
            if (loops > 1) return true;
        }
    return c->n_guards > 0;
}

static bool is_whole(const Contract *c, const TileSizes *s) {
    for (int i = 0; i < c->n_out; i++)
        if (c->extent[i].bound % s->p[i]) return false;
    return true;
}

/* On a GPU: twice the rows or the columns, where the rounds of programs take less time so, or both, in whole tiles. */
static void thread_sizes(const Limits *l, const Contract *c, const LoopClass *loop, TileSizes *s) {
    int best = 0;
    double least = INFINITY;
    for (int more = 0; more < 4; more++) {
        const ProductTile t = product_tile(l, c, loop, l->m << (more & 1), l->n << (more >> 1), s);
        const double time = ceil((double)t.programs / l->cores) * threads_cycles(&t);
        const int doublings = (more & 1) + (more >> 1);
        const bool fits = doublings <= l->doublings && (doublings < 2 || is_whole(c, s));
        if (fits && time < least) least = time, best = more;
    }
    product_tile(l, c, loop, l->m << (best & 1), l->n << (best >> 1), s);
}

/* The largest tiles where these are programs for every core; else the parts of rows and columns that take least time,
 * as long as each program has enough to do.  alone: the product is all that its kernel computes, which leaves room on
 * the stack for twice the rows: they share what is packed of the columns. */
static void product_sizes(const Limits *l, const Contract *c, const LoopClass *loop, FactorOrder order, bool alone,
                          TileSizes *s) {
    enum { MORE = 2 * MANY_PROGRAMS };
    if (l->pow2) {
        thread_sizes(l, c, loop, s);
        return;
    }
    if (alone && l->m > 1 && product_tile(l, c, loop, 2 * l->m, l->n, s).programs >= MORE) return;
    const ProductTile all = product_tile(l, c, loop, l->m, l->n, s);
    if (l->m == 1 || !all.results || all.programs >= MANY_PROGRAMS) return;
    const int64_t r0 = (all.all_rows + l->m - 1) / l->m, c0 = (all.all_columns + l->n - 1) / l->n;
    int64_t rows = l->m, columns = l->n;
    double best = tile_cycles(&all, order) * programs_taken(&all);
    for (int64_t r = r0; r < r0 + MORE; r++)
        for (int64_t n = c0; n < c0 + MORE; n++) {
            const int64_t high = part_of(all.all_rows, r, ROW_UNIT), wide = part_of(all.all_columns, n, COLUMN_UNIT);
            const ProductTile t = product_tile(l, c, loop, high, wide, s);
            const double work = (double)t.rows * (double)t.columns * (double)t.sums;
            const double cost = tile_cycles(&t, order) * programs_taken(&t);
            if (work < SMALL_WORK || cost >= best) continue;
            best = cost, rows = high, columns = wide;
        }
    product_tile(l, c, loop, rows, columns, s);
}

static FactorOrder order_of(const Node *n, const LoopClass *loop) {
    const Contract *c = n->attr->contract;
    FactorOrder l = {.one_k = true};
    for (int i = c->n_out, loops = 0; i < c->n_loops; i++) l.one_k = (loops += c->extent[i].bound > 1) <= 1;
    for (int o = 0; o < c->n_operands; o++) {
        bool columns = false, along = false;
        const int last = n->in[o]->shape->rank - 1;
        for (int i = 0; i < c->n_out; i++) columns |= loop[i] == LOOP_N && contract_mentions(c, n->in, o, i);
        for (int i = c->n_out; i < c->n_loops && last >= 0; i++) along |= c->map[o][last].coef[i] != 0;
        *(columns ? &l.columns_along : &l.rows_along) |= along;
    }
    return l;
}

/* What the operands' tiles take in a GPU's shared memory. */
static int64_t staged_bytes(const Node *n, const TileSizes *s) {
    const Contract *c = n->attr->contract;
    int64_t bytes = 0;
    for (int o = 0; o < c->n_operands; o++) {
        int64_t tile = dtype_bytes(n->in[o]->dtype);
        for (int l = 0; l < c->n_loops; l++) {
            bool in = contract_mentions(c, n->in, o, l);
            for (int g = 0; g < c->n_guards; g++)
                in |= c->guard[g].e.coef[l] && contract_guard_operand(c, n->in, &c->guard[g]) == o;
            if (in) tile *= l < c->n_out ? s->p[l] : s->k[l];
        }
        bytes += tile;
    }
    return bytes;
}

/* Where an operand has rows and columns both (depthwise, a condition on both), its tile has their product: halves
 * output loops, the innermost last, until what is staged fits what a kernel may declare. */
static void fit_staged(const Node *n, TileSizes *s) {
    enum { STAGED = 32 << 10 }; /* of 48 KiB: rows are padded, and an epilogue needs room too */
    const Contract *c = n->attr->contract;
    while (staged_bytes(n, s) > STAGED) {
        int widest = c->n_out - 1;
        for (int l = 0; l < c->n_out - 1; l++)
            if (s->p[l] > 1 && (widest == c->n_out - 1 || s->p[l] > s->p[widest])) widest = l;
        if (widest < 0 || s->p[widest] == 1) break;
        s->p[widest] /= 2;
    }
}

/* The innermost loops have the lanes; where threads read memory together, those first along which it is read in order.
 */
static void sum_sizes(const Limits *l, const Node *n, int *k) {
    const Contract *c = n->attr->contract;
    int64_t most = l->k;
    for (int in = l->pow2 ? c->n_operands : 0; in >= 0; in--)
        for (int i = c->n_loops - 1; i >= c->n_out; i--) {
            if (l->pow2 && contract_contiguous(n, i) != in) continue;
            k[i] = even_lanes(l, c->extent[i], most, SUM_UNIT, SUM_UNIT);
            most = most / k[i] < 1 ? 1 : most / k[i];
        }
}

/* A few rows times a matrix that no core's cache holds: the time is that of reading the matrix, which lies in rows; it
 * is read in their order, long parts of a few at a time.  For fewer rows, blocks are so wide that they do so
 * themselves. */
static void swept_sizes(const Limits *l, const Contract *c, const LoopClass *loop, FactorOrder order, TileSizes *s) {
    enum { FEWEST_ROWS = 3, MOST_ROWS = 12, COLUMNS = 512, SUMS = 8, LEAST_PROGRAMS = 4 };
    TileSizes swept = *s;
    const ProductTile t = product_tile(l, c, loop, MOST_ROWS, COLUMNS, &swept);
    if (l->pow2 || l->n < COLUMNS || order.columns_along || !order.one_k || t.sums < COLUMNS) return;
    if (t.all_rows < FEWEST_ROWS || t.all_rows > MOST_ROWS || t.all_columns < LEAST_PROGRAMS * COLUMNS) return;
    *s = swept;
    for (int i = c->n_out; i < c->n_loops; i++)
        if (s->k[i] > SUMS) s->k[i] = SUMS;
}

/* One row of a gathered table at a time, which is then laid out as any matrix; what the index goes by is no column. */
static void gathered_sizes(const Limits *l, const Node *n, TileSizes *s) {
    const Contract *c = n->attr->contract;
    for (int k = 0; k < n->n_in && l->row_lanes > 1 && !l->pow2; k++)
        for (int d = 0; n->in[k]->op == OP_GATHER && d < n->in[k]->in[1]->shape->rank; d++)
            for (int o = 0; o < c->n_out; o++)
                if (c->map[k][d].coef[o]) s->p[o] = 1;
}

/* What a compensated sum is added with, its step's sum and what is lost, lie on the stack beside the result: a quarter
 * of the rows for each. */
static Limits stacked(const Limits *l, const Contract *c, const TileSizes *s) {
    Limits fewer = *l;
    double steps = 1;
    for (int i = c->n_out; i < c->n_loops; i++) steps *= ceil((double)c->extent[i].bound / s->k[i]);
    if (!l->pow2 && steps > l->most_products) fewer.m = at_most(l->m / 4, l->m);
    return fewer;
}

static void contract_sizes(const Limits *all, const Node *n, bool alone, TileSizes *s) {
    const Contract *c = n->attr->contract;
    const ContractClass class = product_loops(n);
    const FactorOrder order = order_of(n, class.loop);
    sum_sizes(all, n, s->k);
    const Limits fewer = stacked(all, c, s), *l = &fewer;
    product_sizes(l, c, class.loop, order, alone && l->m == all->m, s);
    swept_sizes(l, c, class.loop, order, s);
    vector_sizes(l, n, s);
    gathered_sizes(l, n, s);
    if (l->pow2) fit_staged(n, s);
}

void tile_sums(const Target *t, const Node *n, int *k) {
    const Limits l = limits_of(t);
    sum_sizes(&l, n, k);
}

enum {
    STREAMED = 4096,          /* elements of a matrix row that a vector is multiplied with in one tile */
    STREAMED_ROWS = 4,        /* rows at a time that are each summed; of others, which are added up, one */
    SWEPT_ELEMENTS = 8 << 20, /* of a result that every sample adds to: more than a core's part of any cache */
};

/* One sample at a time (-fno-jacobian-gemm): with one row left, the product is a matrix-vector product, whose matrix is
 * walked in the order of memory. */
static void sample_sizes(const Limits *l, const PlanKernel *k, TileSizes *s) {
    const Node *n = k->nodes.at[0].node;
    const Contract *c = n->attr->contract;
    const int sample = k->sample - 1;
    if (sample >= c->n_out) {
        if (c->n_loops == c->n_out + 1 && l->m > 1 && !l->pow2) fill(l, k->p, s->p, SWEPT_ELEMENTS);
        return;
    }
    s->p[sample] = 1;
    int matrix = -1, inner = -1;
    for (int o = 0; o < 2; o++) {
        bool varies = false;
        for (int d = 0; d < n->in[o]->shape->rank; d++) varies |= c->map[o][d].coef[sample] != 0;
        if (!varies) matrix = o;
    }
    if (matrix < 0 || n->in[matrix]->shape->rank == 0 || l->pow2 || l->m == 1) return;
    for (int i = 0; i < c->n_out; i++)
        for (int d = 0; d < n->in[1 - matrix]->shape->rank; d++)
            if (s->p[i] > 1 && c->map[1 - matrix][d].coef[i]) return;
    const Affine *last = &c->map[matrix][n->in[matrix]->shape->rank - 1];
    for (int i = 0; i < c->n_loops; i++)
        if (last->coef[i]) inner = i;
    const int rows = inner < c->n_out ? 1 : STREAMED_ROWS;
    for (int i = 0; i < c->n_loops; i++) {
        int *step = i < c->n_out ? &s->p[i] : &s->k[i];
        if (i == inner)
            *step = lanes(l, c->extent[i], STREAMED);
        else if (i != sample && *step > rows)
            *step = rows;
    }
}

int tile_side(const Target *t) { return limits_of(t).m; }

/* A slice is one tile: the other sides make room for it, or take what is too much. */
static void slice_sizes(const PlanKernel *k, TileSizes *s) {
    for (int i = 0; i < k->nodes.n; i++) {
        int dim;
        int64_t length;
        if (k->nodes.at[i].part != PART_SLICES || !slices_summed(k->nodes.at[i].node, &dim, &length)) continue;
        for (int d = k->p->rank - 1; d >= 0; d--) {
            for (; d != dim && s->p[d] > 1 && s->p[dim] < length; s->p[d] /= 2) s->p[dim] *= 2;
            for (; d != dim && s->p[d] > 1 && s->p[dim] > length && 2 * s->p[d] <= k->p->dim[d].bound; s->p[d] *= 2) s->p[dim] /= 2;
        }
        s->p[dim] = (int)length;
    }
}

/* How many tiles as large as the product's n is made from: they may be in registers together.  Walks at most `left`
 * nodes. */
static int whole_reads(const Plan *p, const PlanKernel *k, const Node *n, int *left) {
    const int64_t results = shape_elements(*k->nodes.at[0].node->shape);
    int reads = 0;
    for (int i = 0; i < n->n_in; i++) {
        const Node *x = n->in[i];
        const int home = p->kernel_of[x->id];
        if (home == (int)(k - p->kernels.at) || --*left < 0) continue;
        if (op_is_memory(x->op) || home >= 0)
            reads += shape_elements(*x->shape) >= results;
        else
            reads += whole_reads(p, k, x, left);
    }
    return reads;
}

/* A thread of a tile that is doubled once has 32 sums of its 128 registers, twice 64: there is room for another tile, or
 * for none. */
static int doublings_of(const Plan *p, const PlanKernel *k) {
    const Node *n = k->nodes.at[0].node;
    int reads = 0, left = 400;
    bool inlined = false;
    for (int i = 0; i < n->n_in; i++) inlined |= p->buffer[n->in[i]->id].home == HOME_NONE;
    for (int i = 1; i < k->nodes.n; i++) reads += whole_reads(p, k, k->nodes.at[i].node, &left);
    if (has_windows(n) || reads > 1 || left < 0) return 0;
    return k->nodes.n == 1 && !inlined ? 2 : 1;
}

int stream_products(const PlanKernel *k, const TileSizes *s, int64_t *lanes) {
    int n = 0;
    *lanes = 0;
    for (int i = 0; i < k->nodes.n; i++) {
        const PlanNode *pn = &k->nodes.at[i];
        int64_t columns = 1;
        if (pn->part != PART_STREAM || pn->node->op != OP_CONTRACT) continue;
        for (int d = 0; d < pn->node->shape->rank; d++)
            if (pn->axis[d] > k->p->rank) columns *= s->r[pn->axis[d] - k->p->rank];
        *lanes += columns;
        n++;
    }
    return n;
}

int stream_rows(const PlanKernel *k, int most, int least, int cores) {
    const int64_t length = k->p->dim[k->rows].bound;
    int64_t others = 1;
    for (int d = 0; d < k->p->rank; d++) others *= d == k->rows ? 1 : k->p->dim[d].bound;
    while (most > least && (most >= 2 * length || 2 * others * ((length + most - 1) / most) <= cores)) most /= 2;
    return most;
}

/* Of a stream's tile on a processor: whole blocks of a product, be it along their rows (12, or 6) or columns (32, or 16). */
enum { STREAM_SIDE = 96 };

static int rows_of_stream(const Limits *l, Dim rows) { return l->m == 1 ? 1 : lanes(l, rows, STREAM_SIDE); }

bool tile_may_take_turns(const Target *t, Dim rows) {
    const Limits l = limits_of(t);
    const int64_t step = rows_of_stream(&l, rows), terms = target_has_lanes(t) ? (rows.bound + step - 1) / step : rows.bound;
    return rows.bound > 1 && terms <= l.most_products;
}

/* Rows and steps of a stream: what is made of values, and read for them, lies beside each other in the innermost caches or
 * in shared memory, where the factors of products come in tiles too; a GPU's threads have 4 x 4 of each product then. */
static void stream_sizes(const Limits *l, const PlanKernel *k, TileSizes *s) {
    enum { SIDE = 64, LEAST_SIDE = 32 };
    int *rows = &s->p[k->rows], *steps = &s->r[0];
    for (int d = 1; d < k->r->rank; d++) {
        s->r[d] = lanes(l, k->r->dim[d], MOST_LANES);
        if (l->pow2 && s->r[d] < k->r->dim[d].bound) s->r[d] *= 2;
    }
    for (int d = 0; d < k->p->rank; d++) s->p[d] = 1;
    *rows = !l->pow2 ? rows_of_stream(l, k->p->dim[k->rows]) : l->m == 1 ? 1 : lanes(l, k->p->dim[k->rows], stream_rows(k, SIDE, LEAST_SIDE, l->cores));
    *steps = lanes(l, k->r->dim[0], l->pow2 ? SIDE : l->m == 1 ? l->n : STREAM_SIDE);
}

bool stream_halve(const PlanKernel *k, TileSizes *s) {
    int *rows = &s->p[k->rows], *steps = &s->r[0], *longer = *steps >= *rows ? steps : rows;
    if (*longer == 1) return false;
    *longer /= 2;
    return true;
}

/* The dim, not the last, along which a map reads neighbours of what it reads along both; -1: there is none. */
static int dim_read_along(const Kernel *k, const Block *b, const int *axis, int last) {
    int found = -1;
    for (int n = 0; n < b->n && found < 0; n++) {
        const Inst *i = b->at[n];
        const bool both = i->kind == TI_LOAD && tile_type_has(&i->type, axis[last]);
        int64_t step;
        for (int d = 0; d < last && both; d++)
            if (axis[d] >= 0 && access_step(k, i, axis[d], &step) && step == 1) found = d;
        if (found < 0) found = dim_read_along(k, &i->body, axis, last);
    }
    return found;
}

/* What one program reads of a cache line, or a sector, is read while it is there. */
bool map_square(const Target *t, const Kernel *k, const PlanKernel *pk, const int *axis, TileSizes *s) {
    enum { SIDE = 32, MOST = 2048 };
    const Limits l = limits_of(t);
    int64_t elements = 1; /* as many as it has, which may be few of many instructions each */
    const int last = pk->p->rank - 1;
    if (pk->kind != KERNEL_MAP || last < 1 || axis[last] < 0 || l.map < SIDE * SIDE) return false;
    const int d = dim_read_along(k, &k->body, axis, last);
    if (d < 0 || s->p[d] >= SIDE || s->p[d] >= pk->p->dim[d].bound) return false;
    for (int i = 0; i <= last; i++) elements *= s->p[i], s->p[i] = 1;
    s->p[d] = lanes(&l, pk->p->dim[d], SIDE);
    s->p[last] = lanes(&l, pk->p->dim[last], (elements < MOST ? elements : MOST) / s->p[d]);
    return true;
}

/* Each program walks all ids, so that there are no more than have some to put away, or many rows.  A core takes as long for an id
 * of others' rows as for its own, so that one does it all. */
static int bucket_rows(const Limits *l, const PlanKernel *k) {
    enum { IDS = 64, ROWS = 1 << 12 };
    const int64_t rows = k->p->dim[0].bound, ids = shape_elements(*k->nodes.at[0].node->in[0]->shape);
    int64_t programs = ids / IDS > rows / ROWS ? ids / IDS : rows / ROWS, tile = 1;
    if (!l->pow2) return rows > 0 ? (int)rows : 1;
    if (programs > l->cores) programs = l->cores;
    const int64_t each = programs > 1 ? (rows + programs - 1) / programs : rows;
    while (tile < each) tile *= 2;
    return (int)tile;
}

/* All but the axis that is walked.  Where that is the innermost, rows lie apart: a warp of them, or a vector; of this half where
 * they would share cache sets, each with its result. */
static void scan_sizes(const Limits *l, const PlanKernel *k, TileSizes *s) {
    enum { TOGETHER = 256, WARP = 32, SETS_BYTES = 1024 };
    const Node *n = k->nodes.at[0].node;
    Shape others = *k->p;
    int64_t inner = 1, budget = l->pow2 ? WARP : WIDEST_VECTOR;
    for (int d = n->attr->axis + 1; d < others.rank; d++) inner *= others.dim[d].bound;
    if (inner > 1) budget = TOGETHER;
    else if (!l->pow2 && others.dim[n->attr->axis].bound * dtype_bytes(n->dtype) % SETS_BYTES == 0) budget /= 2;
    others.dim[n->attr->axis] = dim_fixed(1);
    fill(l, &others, s->p, l->map < budget ? l->map : budget);
}

void tile_sizes(const Target *t, const Plan *p, const PlanKernel *k, TileSizes *out) {
    Limits l = limits_of(t);
    l.members = k->members;
    l.cores = t->cores;
    memset(out, 0, sizeof *out);
    switch (k->kind) {
    case KERNEL_ROW: row_sizes(&l, k, out); break;
    case KERNEL_CONTRACT:
        if (l.pow2) l.doublings = doublings_of(p, k);
        if (!window_tile_sizes(t, p, k->nodes.at[0].node, out))
            contract_sizes(&l, k->nodes.at[0].node, k->nodes.n == 1, out);
        if (k->sample) sample_sizes(&l, k, out);
        slice_sizes(k, out);
        break;
    case KERNEL_STREAM: stream_sizes(&l, k, out); break;
    case KERNEL_SCAN: scan_sizes(&l, k, out); break;
    case KERNEL_BUCKET: out->p[0] = bucket_rows(&l, k); break;
    case KERNEL_SCATTER: {
        enum { COLUMNS = 512 };
        Shape cols = *k->p;
        const bool by_buckets = k->nodes.at[0].node->n_in == 3; /* a row at a time */
        if (by_buckets) cols.dim[0] = dim_fixed(1);
        fill(&l, &cols, out->p, by_buckets && l.map > COLUMNS ? COLUMNS : l.map < 4096 ? l.map : 4096);
        if (out->p[0] > 64) out->p[0] = 64;
        break;
    }
    default: fill(&l, k->p, out->p, map_elements(t, p, k, l.map)); break;
    }
}
