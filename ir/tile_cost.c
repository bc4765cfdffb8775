/* What a kernel does, counted at the bounds of its extents.
 *
 * An instruction runs once per program and per trip of the loops around it.  Over the whole kernel
 * it handles, along each axis: the whole extent if its tile has the axis, else as many times as the
 * axis has tiles (grid and enclosing loops).  That product is exact.  Bodies of IF count as taken; those of loops with bounds
 * as often as they are on average.
 *
 * bytes_read and bytes_written count distinct elements per access as the smaller of the number of
 * lanes and the box that the indices span, once for accesses that span the same box, and at most the
 * whole buffer.  Exact for affine accesses whose subscripts use one axis each; an upper bound otherwise. */
#include "ir/tile.h"
#include <math.h>

static int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? 0 : (a - 1) / b + 1; }

static int64_t programs_of_bundle(const Kernel *k, const int64_t *syms) {
    int64_t n = 0;
    for (int i = 0; i < k->bundle.n; i++)
        if (__builtin_add_overflow(n, kernel_programs(k->bundle.at[i].kernel, syms), &n)) return INT64_MAX;
    return n;
}

int64_t kernel_programs(const Kernel *k, const int64_t *syms) {
    int64_t n = 1;
    if (k->bundle.n) return programs_of_bundle(k, syms);
    for (int a = 0; a < k->axes.n; a++) {
        const Axis *x = &k->axes.at[a];
        if (x->kind != AXIS_GRID) continue;
        if (__builtin_mul_overflow(n, ceil_div(dim_at(x->extent, syms), x->step), &n)) return INT64_MAX;
    }
    return n;
}

/* ---- distinct elements ------------------------------------------------------------------------------ */
typedef struct Box {
    int buffer;
    bool written;
    int64_t lo[MAX_RANK], hi[MAX_RANK];
    double elements;
} Box;

typedef struct Counter {
    const Kernel *k;
    KernelCost cost;
    bool repeated[MAX_AXES]; /* grid axes, and loops that enclose the instruction */
    double share;            /* of those loops' iterations, that run */
    VEC(Box) boxes;
    Arena *scratch;
} Counter;

static double extent_of(const Kernel *k, int axis) { return (double)k->axes.at[axis].extent.bound; }

/* Lanes handled over the whole kernel by an instruction with tiles over t's axes. */
static double executions(const Counter *c, const TileType *t) {
    double n = c->share;
    for (int a = 0; a < c->k->axes.n; a++) {
        if (tile_type_has(t, a))
            n *= extent_of(c->k, a);
        else if (c->repeated[a])
            n *= (double)ceil_div(c->k->axes.at[a].extent.bound, c->k->axes.at[a].step);
    }
    return n;
}

/* What an index takes values by: lanes along axes, tiles along others. */
typedef struct Along {
    TileType lanes;
    bool tiles[MAX_AXES];
} Along;

static void along(const Kernel *k, const Index *x, Along *a) {
    index_axes(k, x, &a->lanes);
    for (int i = 0; i < x->n; i++)
        if (x->term[i].atom.kind == ATOM_TILE) a->tiles[x->term[i].atom.id] = true;
}

static double values_of(const Kernel *k, const Along *a) {
    double n = 1;
    for (int x = 0; x < k->axes.n; x++) {
        if (tile_type_has(&a->lanes, x)) n *= extent_of(k, x);
        else if (a->tiles[x]) n *= (double)ceil_div(k->axes.at[x].extent.bound, k->axes.at[x].step);
    }
    return n;
}

/* Values that one subscript takes within [lo, hi], clipped to the dimension. */
static double subscript_values(const Kernel *k, const Index *x, Dim dim, int64_t *lo, int64_t *hi) {
    Along a = {0};
    along(k, x, &a);
    if (!index_range(k, x, lo, hi)) {
        *lo = 0;
        *hi = dim.bound - 1;
    }
    if (*lo < 0) *lo = 0;
    if (*hi >= dim.bound) *hi = dim.bound - 1;
    return fmin(fmax(0, (double)*hi - (double)*lo + 1), values_of(k, &a));
}

static bool same_box(const Box *a, const Box *b, int rank) {
    if (a->buffer != b->buffer || a->written != b->written || a->elements != b->elements) return false;
    for (int d = 0; d < rank; d++)
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d]) return false;
    return true;
}

static void count_access(Counter *c, const Inst *i) {
    const Buffer *b = &c->k->buffers.at[i->buffer];
    Box box = {.buffer = i->buffer, .written = i->kind == TI_STORE, .elements = 1};
    Along all = {0};
    for (int d = 0; d < i->n_index; d++) {
        box.elements *= subscript_values(c->k, i->index[d], b->dim[d], &box.lo[d], &box.hi[d]);
        along(c->k, i->index[d], &all);
    }
    box.elements = fmin(box.elements, values_of(c->k, &all));
    for (int n = 0; n < c->boxes.n; n++)
        if (same_box(&c->boxes.at[n], &box, b->rank)) return;
    vec_push(c->scratch, c->boxes, box);
}

static void sum_boxes(Counter *c) {
    for (int b = 0; b < c->k->buffers.n; b++) {
        const Buffer *buffer = &c->k->buffers.at[b];
        double whole = 1, touched[2] = {0};
        for (int d = 0; d < buffer->rank; d++) whole *= (double)buffer->dim[d].bound;
        for (int n = 0; n < c->boxes.n; n++)
            if (c->boxes.at[n].buffer == b) touched[c->boxes.at[n].written] += c->boxes.at[n].elements;
        const double bytes = dtype_bytes(buffer->dtype) * (buffer->family ? buffer->family : 1);
        c->cost.bytes_read += fmin(touched[0], whole) * bytes;
        c->cost.bytes_written += fmin(touched[1], whole) * bytes;
    }
}

/* ---- bounds of loops ----------------------------------------------------------------------------------- */
static int64_t tiles_along(const Kernel *k, int axis) { return ceil_div(k->axes.at[axis].extent.bound, k->axes.at[axis].step); }

/* The most along any grid axis by whose tiles a bound goes. */
static int64_t tiles_of(const Kernel *k, const Index *x) {
    int64_t most = 1;
    for (int i = 0; x && i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        const bool quotient = a->kind == ATOM_DIV || a->kind == ATOM_MOD;
        const int64_t n = a->kind == ATOM_TILE ? tiles_along(k, a->id) : quotient ? tiles_of(k, a->num) : 1;
        if (n > most) most = n;
    }
    return most;
}

/* A bound's value in the tile'th tile of every grid axis, or at the last of those that have fewer; extents at their bounds. */
static int64_t bound_at(const Kernel *k, const Index *x, int64_t tile) {
    int64_t sum = x->c;
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        int64_t v = 0;
        if (a->kind == ATOM_TILE) {
            const int64_t tiles = tiles_along(k, a->id);
            v = tile < tiles ? tile : tiles - 1;
        } else if (a->kind == ATOM_EXTENT) {
            v = k->sym_bounds ? k->sym_bounds[a->id] : 0;
        } else {
            const int64_t n = bound_at(k, a->num, tile), d = bound_at(k, a->den, tile), q = d > 0 ? n / d - (n % d < 0) : 0;
            v = a->kind == ATOM_DIV ? q : n - q * d;
        }
        sum += x->term[i].coef * v;
    }
    return sum;
}

static bool is_of_value(const Index *x) {
    bool found = false;
    for (int i = 0; x && i < x->n; i++) found |= x->term[i].atom.kind == ATOM_VALUE;
    return found;
}

/* Of bounds from memory it is taken that the tiles of the longest grid axis share the iterations. */
double kernel_loop_share(const Kernel *k, const Inst *loop) {
    enum { MOST = 1024 };
    const Axis *x = &k->axes.at[loop->axis];
    const int64_t by_from = tiles_of(k, loop->from), by_to = tiles_of(k, loop->to), tiles = by_from > by_to ? by_from : by_to;
    double run = 0;
    if ((!loop->from && !loop->to) || x->extent.bound <= 0) return 1;
    if (is_of_value(loop->from) || is_of_value(loop->to)) {
        int64_t most = 1;
        for (int a = 0; a < k->axes.n; a++)
            if (k->axes.at[a].kind == AXIS_GRID && tiles_along(k, a) > most) most = tiles_along(k, a);
        return 1 / (double)most;
    }
    const int64_t every = ceil_div(tiles, MOST);
    for (int64_t t = 0; t < tiles; t += every) {
        int64_t from = loop->from ? bound_at(k, loop->from, t) : 0, to = loop->to ? bound_at(k, loop->to, t) : x->extent.bound;
        from = from > 0 ? from - from % x->step : 0;
        to = to < x->extent.bound ? to : x->extent.bound;
        run += from < to ? (double)ceil_div(to - from, x->step) : 0;
    }
    return run / (double)ceil_div(tiles, every) / (double)ceil_div(x->extent.bound, x->step);
}

/* ---- instructions -------------------------------------------------------------------------------------- */
static void count_block(Counter *c, const Block *b);

/* Every program walks all ids twice. */
static void count_bucket(Counter *c, const Inst *i) {
    const Buffer *ids = &c->k->buffers.at[i->source];
    double n = 1;
    for (int d = 0; d < ids->rank; d++) n *= (double)ids->dim[d].bound;
    c->cost.bytes_loaded += 2 * n * (double)kernel_programs(c->k, NULL) * dtype_bytes(ids->dtype);
    c->cost.bytes_read += n * dtype_bytes(ids->dtype);
    c->cost.bytes_written += (double)c->k->buffers.at[i->buffer].dim[0].bound * dtype_bytes(DT_I32);
}

static void count_inst(Counter *c, const Inst *i) {
    switch (i->kind) {
    case TI_LOAD:
        c->cost.bytes_loaded += executions(c, &i->type) * dtype_bytes(i->type.dtype);
        count_access(c, i);
        break;
    case TI_STORE: count_access(c, i); break;
    case TI_BUCKET: count_bucket(c, i); break;
    case TI_ELEMENT: c->cost.flops += executions(c, &i->type); break;
    case TI_REDUCE: c->cost.flops += executions(c, &c->k->types.at[i->in[0]]); break;
    case TI_DOT: {
        const TileType factors = tile_type_union(c->k->types.at[i->in[0]], c->k->types.at[i->in[1]]);
        c->cost.flops += 2 * executions(c, &factors);
        break;
    }
    case TI_FOR: {
        const bool before = c->repeated[i->axis];
        const double share = c->share;
        c->repeated[i->axis] = true;
        c->share *= kernel_loop_share(c->k, i);
        count_block(c, &i->body);
        c->share = share;
        c->repeated[i->axis] = before;
        break;
    }
    case TI_IF: count_block(c, &i->body); break;
    case TI_CONST:
    case TI_FULL:
    case TI_INDEX:
    case TI_STAGE:
    case TI_YIELD: break;
    }
}

static void count_block(Counter *c, const Block *b) {
    for (int n = 0; n < b->n; n++) count_inst(c, b->at[n]);
}

static KernelCost cost_of_bundle(const Kernel *k) {
    KernelCost sum = {0};
    for (int i = 0; i < k->bundle.n; i++) {
        const KernelCost c = kernel_cost(k->bundle.at[i].kernel);
        sum.flops += c.flops;
        sum.bytes_read += c.bytes_read;
        sum.bytes_written += c.bytes_written;
        sum.bytes_loaded += c.bytes_loaded;
    }
    return sum;
}

KernelCost kernel_cost(const Kernel *k) {
    if (k->bundle.n) return cost_of_bundle(k);
    Counter c = {.k = k, .share = 1, .scratch = arena_new()};
    for (int a = 0; a < k->axes.n; a++) c.repeated[a] = k->axes.at[a].kind == AXIS_GRID;
    count_block(&c, &k->body);
    sum_boxes(&c);
    arena_free(c.scratch);
    return c.cost;
}
