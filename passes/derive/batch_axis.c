/* One function per kind of op, in a table; batch_axis.h says what a carried value is. */
#include "passes/derive/batch_axis.h"
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_solve.h"
#include <string.h>

enum { FREE = -1 }; /* the seed is an axis of the core: free seeds lead, in their order */
enum { MAX_SEEDS = MAX_LOOPS }; /* each may be a loop */

typedef struct Carried {
    Node *core;           /* NULL: does not depend on `from`; [free seeds.., the value's own dims..] */
    int8_t tie[MAX_SEEDS]; /* by seed: the dim it equals, or FREE */
} Carried;

typedef struct Batch {
    Graph *g;
    Arena *scratch;
    int n_seeds;
    Dim extent[MAX_RANK]; /* of the seeds */
    int first;            /* id of `from` */
    Carried *value;       /* by id - first */
    double cost;
    bool failed;
} Batch;

static const Carried *carried(const Batch *b, const Node *n) {
    static const Carried none;
    return n->id < b->first ? &none : &b->value[n->id - b->first];
}

/* ---- making nodes ---------------------------------------------------------------------------- */
static double work_of(const Node *n) {
    double loops = 1;
    if (op_info[n->op].cls == CLASS_MOVE || op_info[n->op].cls == CLASS_SOURCE) return 0;
    if (n->op != OP_CONTRACT)
        return (double)shape_elements(op_info[n->op].cls == CLASS_ELEMENT ? *n->shape : *n->in[0]->shape);
    for (int l = 0; l < n->attr->contract->n_loops; l++) loops *= (double)n->attr->contract->extent[l].bound;
    return loops;
}

/* `shape`: for ops that are asked for one. */
static Node *emit(Batch *b, Op op, int n, Node *const *in, const Attr *attr, Shape shape) {
    DType dtype;
    const char *why;
    for (int k = 0; k < n; k++) b->failed |= !in[k];
    b->failed = b->failed || !graph_infer(b->scratch, op, n, in, attr, &dtype, &shape, &why);
    if (b->failed) return NULL;
    Node *made = op == OP_CONTRACT ? graph_contract(b->g, n, in, attr->contract)
                                   : graph_node(b->g, op, n, in, attr, dtype, shape);
    b->cost += work_of(made);
    return made;
}

static Node *emit_transpose(Batch *b, Node *x, const int8_t *perm) {
    if (!x) return NULL;
    Attr attr = {.n_axes = x->shape->rank};
    bool moves = false;
    for (int d = 0; d < attr.n_axes; d++) {
        attr.axes[d] = perm[d];
        moves |= perm[d] != d;
    }
    return moves ? emit(b, OP_TRANSPOSE, 1, &x, &attr, shape_scalar()) : x;
}

/* ---- carried values --------------------------------------------------------------------------- */
static int count_free(const Batch *b, const Carried *v) {
    int n = 0;
    for (int s = 0; s < b->n_seeds; s++) n += v->tie[s] == FREE;
    return n;
}

typedef struct Untied {
    Contract view;
    int old_free, new_free;
    int loop_of[MAX_RANK];   /* by axis of the core */
    int seed_loop[MAX_RANK]; /* by seed, where free afterwards */
} Untied;

/* The loops of the view that makes seeds free: free seeds, then the value's dims.  False past the limit of axes. */
static bool untied_loops(const Batch *b, const Carried *v, const bool *which, Untied *u) {
    Contract *c = &u->view;
    int at = 0;
    u->old_free = count_free(b, v);
    u->new_free = u->old_free;
    for (int s = 0; s < b->n_seeds; s++) u->new_free += v->tie[s] != FREE && which[s];
    if (u->new_free - u->old_free + v->core->shape->rank > MAX_RANK) return false;
    for (int s = 0; s < b->n_seeds; s++) {
        if (v->tie[s] != FREE && !which[s]) continue;
        if (v->tie[s] == FREE) u->loop_of[at++] = c->n_loops;
        u->seed_loop[s] = c->n_loops;
        c->extent[c->n_loops++] = b->extent[s];
    }
    for (; at < v->core->shape->rank; at++) {
        u->loop_of[at] = c->n_loops;
        c->extent[c->n_loops++] = v->core->shape->dim[at];
    }
    c->n_out = c->n_loops;
    return true;
}

/* Makes tied seeds axes of the core, 0 where one is not the index that it is tied to; `which`: by seed. */
static void untie(Batch *b, Carried *v, const bool *which) {
    Affine map[1][MAX_RANK] = {0};
    Guard guard[MAX_RANK];
    Untied u = {.view = {.n_operands = 1, .map = map, .guard = guard}};
    b->failed = b->failed || (v->core && !untied_loops(b, v, which, &u));
    if (b->failed || !v->core || u.new_free == u.old_free) return;
    for (int d = 0; d < v->core->shape->rank; d++) map[0][d].divisor = map[0][d].coef[u.loop_of[d]] = 1;
    for (int s = 0; s < b->n_seeds; s++) {
        if (v->tie[s] == FREE || !which[s]) continue;
        Guard *g = &guard[u.view.n_guards++];
        *g = (Guard){.kind = GUARD_EQ, .e = {.divisor = 1}};
        g->e.coef[u.seed_loop[s]] = 1;
        g->e.coef[u.loop_of[u.old_free + v->tie[s]]] = -1;
    }
    v->core = emit(b, OP_CONTRACT, 1, &v->core, &(Attr){.contract = &u.view}, shape_scalar());
    for (int s = 0; s < b->n_seeds; s++)
        if (which[s]) v->tie[s] = FREE;
}

static void untie_dim(Batch *b, Carried *v, int dim) {
    bool which[MAX_RANK];
    for (int s = 0; s < b->n_seeds; s++) which[s] = v->tie[s] == dim;
    untie(b, v, which);
}

/* The free seeds' extents before those of a value. */
static Shape seeded_shape(const Batch *b, const Carried *v, const Shape *own) {
    Shape s = shape_scalar();
    for (int i = 0; i < b->n_seeds; i++)
        if (v->tie[i] == FREE) s.dim[s.rank++] = b->extent[i];
    const int room = MAX_RANK - s.rank, n = own->rank < room ? own->rank : room;
    memcpy(&s.dim[s.rank], own->dim, sizeof(Dim) * (size_t)n);
    s.rank += own->rank;
    return s;
}

/* A value that depends on no seed, as one that is the same for all free seeds of v. */
static Node *broadcast_batch(Batch *b, Node *x, const Carried *v) {
    const int n_free = count_free(b, v);
    Attr attr = {.n_axes = x->shape->rank};
    if (n_free == 0) return x;
    if (n_free + x->shape->rank > MAX_RANK) {
        b->failed = true;
        return NULL;
    }
    for (int d = 0; d < attr.n_axes; d++) attr.axes[d] = (int8_t)(n_free + d);
    return emit(b, OP_BROADCAST, 1, &x, &attr, seeded_shape(b, v, x->shape));
}

/* Brings the operands that depend on seeds to equal ties and the others to their shape; the ties are the result's. */
static Carried agree(Batch *b, const Node *n, int n_in, Node **in) {
    Carried v[MAX_RANK], result = {0};
    for (int k = 0; k < n_in; k++) {
        v[k] = *carried(b, n->in[k]);
        if (!v[k].core) continue;
        for (int s = 0; s < b->n_seeds; s++)
            if (result.core && result.tie[s] != v[k].tie[s]) result.tie[s] = FREE;
        if (!result.core) result = v[k];
    }
    bool which[MAX_RANK];
    for (int s = 0; s < b->n_seeds; s++) which[s] = result.tie[s] == FREE;
    for (int k = 0; k < n_in; k++) {
        untie(b, &v[k], which);
        in[k] = v[k].core ? v[k].core : broadcast_batch(b, n->in[k], &result);
    }
    return result;
}

/* ---- elementwise -------------------------------------------------------------------------------- */
static Carried batch_element(Batch *b, const Node *n) {
    Node *in[4];
    Carried r = agree(b, n, n->n_in, in);
    r.core = emit(b, n->op, n->n_in, in, n->attr, shape_scalar());
    return r;
}

/* ---- movement ------------------------------------------------------------------------------------- */
/* Whether in dim d is out dim o of a reshape: as long, after equally many elements. */
static bool same_place(const Shape *in, int d, const Shape *out, int o) {
    Dim before_in = dim_fixed(1), before_out = dim_fixed(1);
    if (!dim_equal(in->dim[d], out->dim[o])) return false;
    for (int i = 0; i < d; i++)
        if (!dim_mul(before_in, in->dim[i], &before_in)) return false;
    for (int i = 0; i < o; i++)
        if (!dim_mul(before_out, out->dim[i], &before_out)) return false;
    return dim_equal(before_in, before_out);
}

static Carried batch_reshape(Batch *b, const Node *n) {
    Carried v = *carried(b, n->in[0]), r = v;
    bool lost[MAX_RANK];
    for (int s = 0; s < b->n_seeds; s++) {
        int to = FREE;
        for (int o = 0; v.tie[s] != FREE && o < n->shape->rank && to == FREE; o++)
            if (same_place(n->in[0]->shape, v.tie[s], n->shape, o)) to = o;
        r.tie[s] = (int8_t)to;
        lost[s] = to == FREE;
    }
    untie(b, &v, lost);
    const Shape shape = seeded_shape(b, &r, n->shape);
    b->failed |= shape.rank > MAX_RANK;
    r.core = emit(b, OP_RESHAPE, 1, &v.core, NULL, shape);
    return r;
}

static Carried batch_transpose(Batch *b, const Node *n) {
    Carried r = *carried(b, n->in[0]);
    const int n_free = count_free(b, &r);
    int8_t perm[MAX_RANK], inverse[MAX_RANK] = {0};
    for (int d = 0; d < n_free; d++) perm[d] = (int8_t)d;
    for (int d = 0; d < n->shape->rank; d++) {
        perm[n_free + d] = (int8_t)(n_free + n->attr->axes[d]);
        inverse[n->attr->axes[d]] = (int8_t)d;
    }
    for (int s = 0; s < b->n_seeds; s++)
        if (r.tie[s] != FREE) r.tie[s] = inverse[r.tie[s]];
    r.core = emit_transpose(b, r.core, perm);
    return r;
}

static Carried batch_broadcast(Batch *b, const Node *n) {
    Carried r = *carried(b, n->in[0]);
    const int n_free = count_free(b, &r);
    Attr attr = {.n_axes = r.core->shape->rank};
    for (int d = 0; d < attr.n_axes; d++) attr.axes[d] = (int8_t)(d < n_free ? d : n_free + n->attr->axes[d - n_free]);
    const Shape shape = seeded_shape(b, &r, n->shape);
    b->failed |= shape.rank > MAX_RANK;
    for (int s = 0; s < b->n_seeds; s++)
        if (r.tie[s] != FREE) r.tie[s] = n->attr->axes[r.tie[s]];
    r.core = emit(b, OP_BROADCAST, 1, &r.core, &attr, shape);
    return r;
}

static bool whole_axis(const Node *n, int d) {
    const Attr *a = n->attr;
    const bool from_start = dim_equal(a->lo[d], dim_fixed(0));
    if (n->op == OP_PAD) return from_start && dim_equal(a->hi[d], dim_fixed(0));
    return from_start && a->step[d] == 1 && dim_equal(a->hi[d], n->in[0]->shape->dim[d]);
}

/* slice and pad: a tie holds along an axis that they leave alone. */
static Carried batch_window(Batch *b, const Node *n) {
    Carried r = *carried(b, n->in[0]);
    for (int d = 0; d < n->shape->rank; d++)
        if (!whole_axis(n, d)) untie_dim(b, &r, d);
    const int n_free = count_free(b, &r);
    Attr attr = {.value = n->attr->value};
    if (!r.core) return r;
    for (int d = 0; d < r.core->shape->rank; d++) {
        const bool seed = d < n_free;
        attr.lo[d] = seed ? dim_fixed(0) : n->attr->lo[d - n_free];
        attr.hi[d] = !seed ? n->attr->hi[d - n_free] : n->op == OP_PAD ? dim_fixed(0) : r.core->shape->dim[d];
        attr.step[d] = n->op == OP_PAD ? 0 : seed ? 1 : n->attr->step[d - n_free];
    }
    r.core = emit(b, n->op, 1, &r.core, &attr, shape_scalar());
    return r;
}

/* ---- ops that work on axis 0: the seeds go behind the value's own dims, and back ---------------------- */
static Node *seeds_last(Batch *b, Node *x, int n_free) {
    int8_t perm[MAX_RANK];
    for (int d = 0; x && d < x->shape->rank; d++)
        perm[d] = (int8_t)(d < x->shape->rank - n_free ? n_free + d : d - (x->shape->rank - n_free));
    return emit_transpose(b, x, perm);
}

static Node *seeds_first(Batch *b, Node *x, int n_free) {
    int8_t perm[MAX_RANK];
    for (int d = 0; x && d < x->shape->rank; d++)
        perm[d] = (int8_t)(d < n_free ? x->shape->rank - n_free + d : d - n_free);
    return emit_transpose(b, x, perm);
}

/* gather and slice_at of a table, scatter_add of updates; `lead` dims of operand 0 become `made` dims. */
static Carried batch_indexed(Batch *b, const Node *n, int lead, int made) {
    Carried r = *carried(b, n->in[0]);
    for (int d = 0; d < lead; d++) untie_dim(b, &r, d);
    const int n_free = count_free(b, &r);
    Node *in[2] = {seeds_last(b, r.core, n_free), n->in[1]};
    r.core = seeds_first(b, emit(b, n->op, 2, in, n->attr, shape_scalar()), n_free);
    for (int s = 0; s < b->n_seeds; s++)
        if (r.tie[s] != FREE) r.tie[s] = (int8_t)(r.tie[s] - lead + made);
    return r;
}

static Carried batch_gather(Batch *b, const Node *n) { return batch_indexed(b, n, 1, n->in[1]->shape->rank); }
static Carried batch_scatter_add(Batch *b, const Node *n) { return batch_indexed(b, n, n->in[1]->shape->rank, 1); }
static Carried batch_slice_at(Batch *b, const Node *n) { return batch_indexed(b, n, 1, 1); }

static Carried batch_update_at(Batch *b, const Node *n) {
    Node *in[3];
    Carried r = agree(b, n, 2, in), part = r;
    r.core = in[0], part.core = in[1];
    untie_dim(b, &r, 0); /* along axis 0 the two have different indices */
    untie_dim(b, &part, 0);
    in[0] = r.core, in[1] = part.core;
    const int n_free = count_free(b, &r);
    for (int k = 0; k < 2; k++) in[k] = seeds_last(b, in[k], n_free);
    in[2] = n->in[2];
    r.core = seeds_first(b, emit(b, OP_UPDATE_AT, 3, in, NULL, shape_scalar()), n_free);
    return r;
}

/* ---- reductions ---------------------------------------------------------------------------------------- */
/* The sum over a tied dim has one term: the dim takes the seed's place. */
static Carried batch_sum(Batch *b, const Node *n) {
    Carried v = *carried(b, n->in[0]), r = v;
    int owner[MAX_RANK], dim_of[MAX_RANK], rank = n->in[0]->shape->rank, kept = 0;
    bool summed[MAX_RANK] = {false}, twice[MAX_RANK] = {false};
    for (int i = 0; i < n->attr->n_axes; i++) summed[n->attr->axes[i]] = true;
    for (int d = 0; d < rank; d++) owner[d] = FREE, dim_of[d] = summed[d] ? FREE : kept++;
    for (int s = 0; s < b->n_seeds; s++) {
        const int d = v.tie[s];
        if (d == FREE || !summed[d]) continue;
        if (owner[d] == FREE)
            owner[d] = s;
        else
            twice[s] = true;
    }
    untie(b, &v, twice);
    const int n_free = count_free(b, &v);
    Attr attr = {0};
    int8_t perm[MAX_RANK];
    int at = 0;
    for (int s = 0, seed_axis = 0; s < b->n_seeds; s++) {
        const int d = v.tie[s];
        r.tie[s] = (int8_t)(d == FREE ? FREE : dim_of[d]);
        if (d == FREE)
            perm[at++] = (int8_t)seed_axis++;
        else if (owner[d] == s)
            perm[at++] = (int8_t)(n_free + d);
    }
    for (int d = 0; d < rank; d++) {
        if (owner[d] != FREE) continue;
        if (summed[d]) attr.axes[attr.n_axes++] = (int8_t)at;
        perm[at++] = (int8_t)(n_free + d);
    }
    r.core = emit_transpose(b, v.core, perm);
    if (attr.n_axes) r.core = emit(b, OP_SUM, 1, &r.core, &attr, shape_scalar());
    return r;
}

/* Linear in what is added; the factors depend on no seed. */
static Carried batch_scan(Batch *b, const Node *n) {
    Carried r = *carried(b, n->in[0]);
    b->failed |= n->n_in > 1 && carried(b, n->in[1])->core;
    untie_dim(b, &r, n->attr->axis);
    if (b->failed) return r;
    Attr attr = *n->attr;
    attr.axis += count_free(b, &r);
    Node *const in[2] = {r.core, n->n_in > 1 ? broadcast_batch(b, n->in[1], &r) : NULL};
    r.core = emit(b, OP_SCAN, n->n_in, in, &attr, shape_scalar());
    return r;
}

/* ---- contractions ------------------------------------------------------------------------------------------ */
/* A seed tied to a dim that is read at exactly an output loop is tied to that loop; FREE otherwise. */
static int8_t tie_after(const Contract *c, const Node *operand, const Affine *map, int tie) {
    if (tie == FREE) return FREE;
    const int loop = affine_single_loop(c, &map[tie]);
    return (int8_t)(loop >= 0 && loop < c->n_out && dim_equal(c->extent[loop], operand->shape->dim[tie]) ? loop : FREE);
}

typedef struct SeededContract {
    const Node *n;
    int k; /* the operand that depends on seeds */
    const Carried *v;
    int axis[MAX_RANK]; /* by seed: its axis in the result, where it is free there */
    Solver *solver;
} SeededContract;

static void add_operands(const Batch *b, const SeededContract *sc) {
    const Contract *c = sc->n->attr->contract;
    for (int i = 0; i < c->n_operands; i++) {
        Node *x = i == sc->k ? sc->v->core : sc->n->in[i];
        Wide map[MAX_RANK];
        int at = 0;
        for (int s = 0; i == sc->k && s < b->n_seeds; s++)
            if (sc->v->tie[s] == FREE) map[at++] = solver_var(sc->axis[s]);
        for (int d = 0; d < sc->n->in[i]->shape->rank; d++)
            map[at++] = solver_widen(sc->solver, &c->map[i][d], 0, c->n_loops);
        solver_operand(sc->solver, x, map);
    }
}

/* Where a tied dim is summed over, or read at an affine form, the seed is an equation: dim == seed. */
static Carried batch_contract(Batch *b, const Node *n) {
    const Contract *c = n->attr->contract;
    Carried r = {0};
    SeededContract sc = {.n = n, .k = FREE};
    for (int i = 0; i < c->n_operands; i++) {
        if (!carried(b, n->in[i])->core) continue;
        b->failed |= sc.k != FREE; /* a product of two such values is not linear */
        sc.k = i;
    }
    sc.v = carried(b, n->in[sc.k]);
    Dim out[2 * MAX_RANK];
    int n_out = 0;
    for (int s = 0; s < b->n_seeds; s++) {
        r.tie[s] = tie_after(c, n->in[sc.k], c->map[sc.k], sc.v->tie[s]);
        sc.axis[s] = n_out;
        if (r.tie[s] == FREE) out[n_out++] = b->extent[s];
    }
    const int n_free = n_out;
    for (int l = 0; l < c->n_out; l++) out[n_out++] = c->extent[l];
    b->failed |= n_out > MAX_RANK;
    if (b->failed) return r;
    sc.solver = solver_new(b->scratch, n_out, out, c->n_loops, c->extent);
    add_operands(b, &sc);
    for (int i = 0; i < c->n_guards; i++) solver_guard(sc.solver, &c->guard[i], 0, c->n_loops);
    for (int l = 0; l < c->n_out; l++) {
        const Wide dim = solver_var(n_free + l), loop = solver_var(n_out + l);
        solver_equation(sc.solver, &loop, &dim);
    }
    for (int s = 0; s < b->n_seeds; s++) {
        if (r.tie[s] != FREE || sc.v->tie[s] == FREE) continue;
        const Wide read = solver_widen(sc.solver, &c->map[sc.k][sc.v->tie[s]], 0, c->n_loops),
                   seed = solver_var(sc.axis[s]);
        solver_equation(sc.solver, &read, &seed);
    }
    r.core = solver_build(sc.solver, b->g);
    b->failed |= !r.core;
    if (r.core) b->cost += work_of(r.core);
    return r;
}

/* ---- all ------------------------------------------------------------------------------------------------------- */
typedef Carried BatchRule(Batch *b, const Node *n);

/* What products with Jacobians are made of, besides elementwise ops. */
static BatchRule *const rule[OP_COUNT] = {
    [OP_RESHAPE] = batch_reshape,     [OP_TRANSPOSE] = batch_transpose,
    [OP_BROADCAST] = batch_broadcast, [OP_SLICE] = batch_window,
    [OP_PAD] = batch_window,          [OP_SLICE_AT] = batch_slice_at,
    [OP_UPDATE_AT] = batch_update_at, [OP_SUM] = batch_sum,
    [OP_SCAN] = batch_scan,           [OP_CONTRACT] = batch_contract,
    [OP_GATHER] = batch_gather,       [OP_SCATTER_ADD] = batch_scatter_add,
};

static void batch_node(Batch *b, const Node *n) {
    bool depends = false;
    for (int k = 0; k < n->n_in; k++) depends |= carried(b, n->in[k])->core != NULL;
    if (!depends) return;
    BatchRule *const r = op_info[n->op].cls == CLASS_ELEMENT ? batch_element : rule[n->op];
    b->failed |= !r;
    if (b->failed) return;
    const int first = b->g->nodes.n;
    b->value[n->id - b->first] = r(b, n);
    for (int i = first; i < b->g->nodes.n; i++) {
        b->g->nodes.at[i]->phase = n->phase;
        b->g->nodes.at[i]->loc = n->loc;
    }
}

/* `from` itself: ones, with every seed tied to its axis. */
static void start(Batch *b, const Node *from, int n_axes, const int8_t *axes) {
    Carried *v = &b->value[0];
    v->core = graph_const(b->g, from->dtype, *from->shape, 1);
    v->core->phase = from->phase;
    v->core->loc = from->loc;
    for (int s = 0; s < n_axes; s++) {
        b->extent[s] = from->shape->dim[axes[s]];
        v->tie[s] = axes[s];
    }
}

Node *batch_axes(Graph *g, const Node *from, const Node *to, int n_axes, const int8_t *axes, double *cost) {
    Batch b = {.g = g, .scratch = arena_new(), .n_seeds = n_axes, .first = from->id};
    b.value = ARENA_ARRAY(b.scratch, Carried, to->id - from->id + 1);
    start(&b, from, n_axes, axes);
    for (int i = from->id + 1; i <= to->id && !b.failed; i++) batch_node(&b, g->nodes.at[i]);
    Carried result = b.value[to->id - from->id];
    const int first = g->nodes.n;
    bool every[MAX_RANK];
    for (int s = 0; s < n_axes; s++) every[s] = true;
    if (!b.failed) untie(&b, &result, every);
    for (int i = first; i < g->nodes.n; i++) {
        g->nodes.at[i]->phase = to->phase;
        g->nodes.at[i]->loc = to->loc;
    }
    arena_free(b.scratch);
    *cost += b.cost;
    return b.failed ? NULL : result.core;
}
