#include "tests/support/random_graph.h"
#include "tests/support/low_precision.h"
#include <string.h>

typedef struct Gen {
    Arena *a;
    Graph *g;
    TestRandom r;
    RandomOptions o;
    VEC(Node *) pool;   /* what later ops may read */
    VEC(bool) exact;    /* by node id: the value is the same in f32 and float64 */
    Node *state;
} Gen;

static int below(Gen *x, int n) { return test_below(&x->r, n); }

static Node *keep(Gen *x, Node *n, bool exact) {
    while (x->exact.n <= n->id) vec_push(x->a, x->exact, false);
    x->exact.at[n->id] = exact;
    vec_push(x->a, x->pool, n);
    return n;
}
static bool is_exact(const Gen *x, const Node *n) { return n->id < x->exact.n && x->exact.at[n->id]; }

/* ---- shapes ------------------------------------------------------------------------------------------ */
static Dim random_dim(Gen *x, bool leading) {
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33};
    if (leading && x->o.bounded && below(x, 4) == 0)
        return (Dim){.bound = x->g->model->syms.at[0].bound, .sym = 0, .scale = 1};
    if (x->o.empty && below(x, 40) == 0) return dim_fixed(0);
    return dim_fixed(sizes[below(x, 11)]);
}

static Shape random_shape(Gen *x, int min_rank) {
    Shape s = {.rank = min_rank + below(x, 5 - min_rank)};
    int64_t total = 1;
    for (int d = 0; d < s.rank; d++) {
        s.dim[d] = random_dim(x, d == 0);
        if (total * s.dim[d].bound > 1500) s.dim[d] = dim_fixed(1 + below(x, 2));
        total *= s.dim[d].bound ? s.dim[d].bound : 1;
    }
    return s;
}

static Node *source(Gen *x, Shape s, DType t, int64_t hi) {
    Model *m = x->g->model;
    const bool param = t == DT_F32 && shape_is_fixed(s) && below(x, 2);
    TensorDecl d = {.dtype = t, .shape = s, .trainable = param, .has_range = hi > 0, .hi = hi};
    Attr at = {.dtype = t};
    if (param) {
        at.decl = m->params.n;
        d.name = arena_printf(x->a, "p%d", at.decl);
        vec_push(x->a, m->params, d);
    } else {
        at.decl = m->inputs.n;
        d.name = arena_printf(x->a, "x%d", at.decl);
        vec_push(x->a, m->inputs, d);
    }
    Node *n = graph_node(x->g, param ? OP_PARAM : OP_INPUT, 0, NULL, &at, t, s);
    return t == DT_F32 ? keep(x, n, true) : n;
}

/* Some float tensor, of this shape if given. */
static Node *pick(Gen *x, const Shape *s) {
    for (int tries = 0; tries < 12; tries++) {
        Node *n = x->pool.at[below(x, x->pool.n)];
        if (n->dtype == DT_F32 && (!s || shape_same(n->shape, s))) return n;
    }
    return source(x, s ? *s : random_shape(x, 0), DT_F32, 0);
}

/* One of rank at least `rank` (at most 5). */
static Node *pick_rank(Gen *x, int rank) {
    for (int tries = 0; tries < 12; tries++) {
        Node *n = pick(x, NULL);
        if (n->shape->rank >= rank && n->shape->rank <= 5) return n;
    }
    Shape s = random_shape(x, rank);
    return source(x, s, DT_F32, 0);
}

static Node *constant(Gen *x, Shape s, double v) { return graph_const(x->g, DT_F32, s, v); }
static Node *positive(Gen *x, Node *n) {
    return graph_binary(x->g, OP_ADD, graph_unary(x->g, OP_ABS, n), constant(x, *n->shape, 0.5));
}
static Node *tamed(Gen *x, Node *n) { return graph_unary(x->g, OP_TANH, n); }

/* ---- one random op each ----------------------------------------------------------------------------------- */
static Node *random_unary(Gen *x) {
    static const Op ops[] = {OP_NEG, OP_ABS, OP_EXP, OP_LOG, OP_LOG1P, OP_SQRT, OP_RSQRT, OP_SIN, OP_COS, OP_TANH, OP_ERF};
    const Op op = ops[below(x, 11)];
    Node *n = pick(x, NULL);
    if (op == OP_EXP) n = tamed(x, n);
    if (op == OP_LOG || op == OP_LOG1P || op == OP_SQRT || op == OP_RSQRT) n = positive(x, n);
    Node *y = graph_unary(x->g, op, n);
    return keep(x, y, is_exact(x, n) && (op == OP_NEG || op == OP_ABS));
}

static Node *random_binary(Gen *x) {
    static const Op ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_POW, OP_MAX, OP_MIN, OP_MUL, OP_ADD};
    const Op op = ops[below(x, 9)];
    Node *a = pick(x, NULL), *b = pick(x, a->shape);
    if (op == OP_DIV || op == OP_POW) {
        if (op == OP_POW) a = positive(x, tamed(x, a)), b = tamed(x, b);
        else b = positive(x, b);
    }
    Node *y = graph_binary(x->g, op, a, b);
    return keep(x, y, is_exact(x, a) && is_exact(x, b) && (op == OP_MAX || op == OP_MIN));
}

/* Piecewise constant ops on exact values, and what follows from their booleans and integers. */
static Node *random_discrete(Gen *x) {
    static const Op compare[] = {OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE};
    Node *a = pick(x, NULL);
    if (!is_exact(x, a)) a = source(x, *a->shape, DT_F32, 0);
    Node *b = below(x, 2) ? source(x, *a->shape, DT_F32, 0) : constant(x, *a->shape, 0.25);
    switch (below(x, 5)) {
    case 0: return keep(x, graph_unary(x->g, (Op[]){OP_FLOOR, OP_CEIL, OP_SIGN}[below(x, 3)], a), true);
    case 1: {
        Node *i = graph_cast(x->g, graph_binary(x->g, OP_MUL, a, constant(x, *a->shape, 8)), DT_I32);
        Node *k = graph_const(x->g, DT_I32, *a->shape, 1 + below(x, 5));
        Node *j = graph_binary(x->g, below(x, 2) ? OP_DIV : OP_MOD, i, k);
        return keep(x, graph_cast(x->g, j, DT_F32), true);
    }
    default: {
        Node *c = graph_binary(x->g, compare[below(x, 6)], a, b);
        if (below(x, 3) == 0) c = graph_unary(x->g, OP_NOT, c);
        if (below(x, 3) == 0)
            c = graph_binary(x->g, below(x, 2) ? OP_AND : OP_OR, c, graph_binary(x->g, OP_LT, b, a));
        Node *t = pick(x, a->shape), *f = pick(x, a->shape);
        return keep(x, graph_select(x->g, c, t, f), is_exact(x, t) && is_exact(x, f));
    }
    }
}

static Node *random_broadcast(Gen *x) {
    Node *n = pick(x, NULL);
    if (n->shape->rank > 3 || shape_elements(*n->shape) > 600) return NULL;
    int8_t axes[MAX_RANK];
    Shape s = {0};
    for (int d = 0; d <= n->shape->rank; d++) {
        if (s.rank < 5 && below(x, 3) == 0) s.dim[s.rank++] = dim_fixed(1 + below(x, 3));
        if (d < n->shape->rank) axes[d] = (int8_t)s.rank, s.dim[s.rank++] = n->shape->dim[d];
    }
    return keep(x, graph_broadcast(x->g, n, s, axes), is_exact(x, n));
}

static Node *random_transpose(Gen *x) {
    Node *n = pick_rank(x, 2);
    int8_t perm[MAX_RANK];
    for (int d = 0; d < n->shape->rank; d++) perm[d] = (int8_t)d;
    for (int d = n->shape->rank - 1; d > 0; d--) {
        const int e = below(x, d + 1);
        const int8_t t = perm[d];
        perm[d] = perm[e], perm[e] = t;
    }
    return keep(x, graph_transpose(x->g, n, perm), is_exact(x, n));
}

static Node *random_reshape(Gen *x) {
    Node *n = pick(x, NULL);
    Shape s = {0};
    int64_t run = 1;
    for (int d = 0; d < n->shape->rank; d++) { /* merge neighbours, split even ones, add units */
        const Dim e = n->shape->dim[d];
        if (!dim_is_fixed(e)) {
            s.dim[s.rank++] = e;
            continue;
        }
        run *= e.bound;
        if (d + 1 < n->shape->rank && below(x, 2) && dim_is_fixed(n->shape->dim[d + 1])) continue;
        if (run % 2 == 0 && run > 2 && s.rank < 5 && below(x, 2)) s.dim[s.rank++] = dim_fixed(2), run /= 2;
        s.dim[s.rank++] = dim_fixed(run);
        run = 1;
        if (s.rank < 5 && below(x, 4) == 0) s.dim[s.rank++] = dim_fixed(1);
    }
    return s.rank > 6 ? NULL : keep(x, graph_reshape(x->g, n, s), is_exact(x, n));
}

static Node *random_slice(Gen *x) {
    Node *n = pick_rank(x, 1);
    Attr at = {0};
    for (int d = 0; d < n->shape->rank; d++) {
        const Dim e = n->shape->dim[d];
        at.lo[d] = dim_fixed(0), at.step[d] = 1, at.hi[d] = e;
        if (!dim_is_fixed(e) || e.bound < 2) continue;
        const int64_t lo = below(x, (int)e.bound), step = 1 + below(x, 2);
        if (below(x, 3) == 0) at.lo[d] = dim_fixed(lo), at.step[d] = -step, at.hi[d] = dim_fixed(lo / step + 1);
        else at.lo[d] = dim_fixed(lo), at.step[d] = step, at.hi[d] = dim_fixed((e.bound - lo - 1) / step + 1);
    }
    return keep(x, graph_op(x->g, OP_SLICE, 1, &n, &at), is_exact(x, n));
}

static Node *random_pad(Gen *x) {
    Node *n = pick_rank(x, 1);
    if (shape_elements(*n->shape) > 300) return NULL;
    Attr at = {.value = below(x, 2) ? 0 : 0.5};
    for (int d = 0; d < n->shape->rank; d++) at.lo[d] = dim_fixed(below(x, 3)), at.hi[d] = dim_fixed(below(x, 2));
    return keep(x, graph_op(x->g, OP_PAD, 1, &n, &at), is_exact(x, n));
}

static Node *random_concat(Gen *x) {
    Node *a = pick_rank(x, 1);
    Attr at = {.axis = below(x, a->shape->rank)};
    Shape s = *a->shape;
    if (dim_is_fixed(s.dim[at.axis])) s.dim[at.axis] = dim_fixed(1 + below(x, 4));
    Node *in[3] = {a, pick(x, &s), a};
    return keep(x, graph_op(x->g, OP_CONCAT, 2 + below(x, 2), in, &at), false);
}

static Node *index_source(Gen *x, int64_t hi) {
    return source(x, shape_make(0, NULL), DT_I32, hi);
}

static Node *random_slice_at(Gen *x) {
    Node *n = pick_rank(x, 1);
    Node *start = index_source(x, n->shape->dim[0].bound + 1);
    Attr at = {.extent = dim_fixed(1 + below(x, 3))};
    return keep(x, graph_op(x->g, OP_SLICE_AT, 2, (Node *[]){n, start}, &at), is_exact(x, n));
}

static Node *random_update_at(Gen *x) {
    Node *n = pick_rank(x, 1);
    Shape s = *n->shape;
    s.dim[0] = dim_fixed(1 + below(x, 3));
    Node *in[3] = {n, pick(x, &s), index_source(x, n->shape->dim[0].bound + 1)};
    return keep(x, graph_op(x->g, OP_UPDATE_AT, 3, in, NULL), false);
}

static Node *random_reduce(Gen *x) {
    static const Op ops[] = {OP_SUM, OP_SUM, OP_RMAX, OP_RMIN, OP_PROD, OP_ARGMAX};
    const Op op = ops[below(x, 6)];
    Node *n = pick_rank(x, 1);
    int8_t axes[MAX_RANK];
    int count = 0;
    for (int d = 0; d < n->shape->rank; d++)
        if (below(x, 2)) axes[count++] = (int8_t)d;
    if (count == 0) axes[count++] = (int8_t)(n->shape->rank - 1);
    if ((op == OP_RMAX || op == OP_RMIN || op == OP_ARGMAX)) { /* an empty row has no finite answer */
        for (int i = 0; i < count; i++)
            if (n->shape->dim[axes[i]].bound == 0) return NULL;
    }
    if (op == OP_ARGMAX) {
        if (!is_exact(x, n)) n = source(x, *n->shape, DT_F32, 0);
        Node *i = graph_reduce(x->g, op, n, count, axes);
        return keep(x, graph_cast(x->g, i, DT_F32), true);
    }
    if (op == OP_PROD) {
        Node *small = graph_binary(x->g, OP_MUL, tamed(x, n), constant(x, *n->shape, 0.125));
        n = graph_binary(x->g, OP_ADD, small, constant(x, *n->shape, 1));
    }
    Node *y = graph_reduce(x->g, op, n, count, axes);
    if (op == OP_PROD) y = tamed(x, y);
    return keep(x, y, is_exact(x, n) && (op == OP_RMAX || op == OP_RMIN));
}

static Node *random_scan(Gen *x) {
    Node *n = pick_rank(x, 1);
    Attr at = {.axis = below(x, n->shape->rank), .reverse = below(x, 2), .exclusive = below(x, 2)};
    if (below(x, 3) == 0) {
        at.scan = SCAN_LINEAR, at.exclusive = false;
        return keep(x, graph_op(x->g, OP_SCAN, 2, (Node *[]){n, tamed(x, n)}, &at), false);
    }
    return keep(x, graph_op(x->g, OP_SCAN, 1, &n, &at), false);
}

static Node *random_gather(Gen *x) {
    Node *table = pick_rank(x, 1);
    if (table->shape->rank > 3 || table->shape->dim[0].bound == 0) return NULL;
    Shape s = {.rank = 1 + below(x, 2)};
    for (int d = 0; d < s.rank; d++) s.dim[d] = dim_fixed(1 + below(x, 5));
    Node *ids = source(x, s, DT_I32, dim_is_fixed(table->shape->dim[0]) ? table->shape->dim[0].bound : 1);
    return keep(x, graph_op(x->g, OP_GATHER, 2, (Node *[]){table, ids}, NULL), is_exact(x, table));
}

static Node *random_scatter(Gen *x) {
    Node *u = pick_rank(x, 1);
    Shape s = {.rank = 1 + below(x, u->shape->rank > 1 ? 2 : 1)};
    for (int d = 0; d < s.rank; d++) s.dim[d] = u->shape->dim[d];
    if (u->shape->rank - s.rank > 3) return NULL;
    Attr at = {.extent = dim_fixed(1 + below(x, 9))};
    Node *ids = source(x, s, DT_I32, at.extent.bound + (below(x, 4) == 0));
    if (below(x, 2)) return keep(x, graph_op(x->g, OP_SCATTER_ADD, 2, (Node *[]){u, ids}, &at), false);
    Node *rows = graph_op(x->g, OP_SCATTER_MAX, 2, (Node *[]){u, ids}, &at); /* where nothing is sent, infinite */
    Node *least = graph_const(x->g, rows->dtype, *rows->shape, -8);
    return keep(x, graph_binary(x->g, OP_MAX, rows, least), is_exact(x, u));
}

/* A matmul, a convolution-like, or any affine contraction. */
static Node *random_contract(Gen *x) {
    Contract c = {.n_operands = 1 + below(x, 2) + (below(x, 8) == 0), .n_out = below(x, 4)};
    c.n_loops = c.n_out + below(x, 3);
    for (int l = 0; l < c.n_loops; l++) c.extent[l] = dim_fixed(1 + below(x, l < c.n_out ? 9 : 12));
    if (c.n_out && x->o.bounded && below(x, 4) == 0) c.extent[0] = random_dim(x, true);
    c.map = arena_alloc(x->a, sizeof *c.map * 3);
    Node *in[3];
    for (int k = 0; k < c.n_operands; k++) {
        Shape s = {.rank = c.n_loops ? below(x, 4) : 0};
        for (int d = 0; d < s.rank; d++) {
            Affine *e = &c.map[k][d];
            const int l = below(x, c.n_loops);
            e->divisor = 1;
            e->coef[l] = 1;
            s.dim[d] = c.extent[l];
            if (!dim_is_fixed(c.extent[l]) || below(x, 3)) continue;
            const int l2 = below(x, c.n_loops); /* stride, a second index, an offset, a divisor */
            if (below(x, 2)) e->coef[l] = 1 + below(x, 2);
            if (dim_is_fixed(c.extent[l2]) && below(x, 2)) e->coef[l2] += below(x, 2) ? 1 : -1;
            e->c = below(x, 3) - 1;
            if (below(x, 4) == 0) e->divisor = 2;
            s.dim[d] = dim_fixed(1 + below(x, 10));
        }
        in[k] = pick(x, &s);
    }
    Guard guard = {.kind = below(x, 2) ? GUARD_EQ : GUARD_RANGE, .lo = -1 + below(x, 2), .hi = dim_fixed(1 + below(x, 6))};
    if (c.n_loops >= 2 && dim_is_fixed(c.extent[0]) && below(x, 4) == 0) {
        guard.e = (Affine){.divisor = 1};
        guard.e.coef[0] = 1, guard.e.coef[c.n_loops - 1] = -1;
        c.n_guards = 1, c.guard = &guard;
    }
    int64_t work = 1;
    for (int l = 0; l < c.n_loops; l++) work *= c.extent[l].bound;
    if (work > 20000) return NULL;
    return keep(x, tamed(x, graph_contract(x->g, c.n_operands, in, &c)), false);
}

/* Room for a factor that is the product before: [rows, sum], its rows and columns. */
static bool continues(const Node *before, int64_t *rows, int64_t *sum) {
    if (!before || before->shape->rank != 2 || before->shape->dim[1].bound < 16) return false;
    *rows = before->shape->dim[0].bound;
    *sum = before->shape->dim[1].bound;
    return true;
}

/* The sum of what is computed from a product, down its rows: of tiles of it, where there are several. */
static void sum_of_rows(Gen *x, Node *y) {
    const int8_t rows = 0;
    Node *n = below(x, 2) ? y : graph_unary(x->g, OP_TANH, graph_binary(x->g, OP_MUL, y, y));
    keep(x, graph_reduce(x->g, OP_SUM, graph_binary(x->g, OP_MUL, n, constant(x, *n->shape, 1.0 / 64)), 1, &rows), false);
}

/* A product that matrix instructions may take: [batch?, rows, columns], each factor in either orientation, the first one
 * mostly the product before, as layers follow one another.  Scaled so that its values are about those of its factors.  Some
 * have a gate, another product of the first factor: their gradients share it, and add up.  Rows of tall ones are summed. */
static Node *random_product(Gen *x, Node *before) {
    static const int sides[] = {8, 9, 16, 24, 40, 64, 72}, sums[] = {16, 17, 24, 32, 48}, tall_sides[] = {128, 150, 300};
    int64_t rows = sides[below(x, 7)], sum = sums[below(x, 5)];
    const bool follows = !x->o.tall && below(x, 4) && continues(before, &rows, &sum);
    const bool tall = x->o.tall || (!follows && below(x, 4));
    if (tall) rows = tall_sides[below(x, 3)];
    const int batch = !follows && !tall && below(x, 4) == 0, side = below(x, 3) ? 5 : 7;
    Contract c = {.n_operands = 2, .n_out = 2 + batch, .n_loops = 3 + batch};
    Affine map[2][MAX_RANK] = {0};
    Node *in[2];
    if (batch) c.extent[0] = dim_fixed(2);
    c.extent[batch] = dim_fixed(rows);
    c.extent[batch + 1] = dim_fixed(sides[below(x, side)]);
    c.extent[2 + batch] = dim_fixed(sum);
    c.map = map;
    for (int k = 0; k < 2; k++) {
        Shape s = {.rank = 2 + batch};
        int loop[3] = {0};
        const int turned = follows && k == 0 ? 0 : below(x, 2);
        loop[batch + turned] = batch + k, loop[batch + 1 - turned] = 2 + batch;
        for (int d = 0; d < s.rank; d++) {
            map[k][d].divisor = map[k][d].coef[loop[d]] = 1;
            s.dim[d] = c.extent[loop[d]];
        }
        in[k] = follows && k == 0 ? before : pick(x, &s);
    }
    Node *y = graph_contract(x->g, 2, in, &c);
    y = graph_binary(x->g, OP_MUL, y, constant(x, *y->shape, 0.125));
    if (below(x, 3) == 0) {
        Node *gate[2] = {in[0], pick(x, in[1]->shape)};
        y = graph_binary(x->g, OP_MUL, y, graph_unary(x->g, OP_TANH, graph_contract(x->g, 2, gate, &c)));
    }
    if (tall || below(x, 3) == 0) y = tamed(x, y);
    if (tall) sum_of_rows(x, y);
    return keep(x, y, false);
}

/* softmax-like: reductions whose results are read along the row again */
static Node *random_row(Gen *x) {
    Node *n = pick_rank(x, 1);
    const int last = n->shape->rank - 1;
    if (n->shape->dim[last].bound == 0) return NULL;
    int8_t axis = (int8_t)last, keep_axes[MAX_RANK];
    for (int d = 0; d < last; d++) keep_axes[d] = (int8_t)d;
    Node *m = graph_broadcast(x->g, graph_reduce(x->g, below(x, 2) ? OP_RMAX : OP_SUM, n, 1, &axis), *n->shape, keep_axes);
    Node *e = graph_unary(x->g, below(x, 2) ? OP_TANH : OP_SIN, graph_binary(x->g, OP_SUB, n, m));
    Node *z = graph_broadcast(x->g, graph_reduce(x->g, OP_SUM, e, 1, &axis), *n->shape, keep_axes);
    return keep(x, graph_binary(x->g, OP_DIV, e, positive(x, z)), false);
}

static Node *random_source(Gen *x) {
    Graph *g = x->g;
    Shape s = random_shape(x, 0);
    switch (below(x, 4)) {
    case 0: return s.rank ? keep(x, graph_cast(g, graph_iota(g, s, below(x, s.rank)), DT_F32), true) : NULL;
    case 1: {
        Node *in[2] = {graph_node(g, OP_SEED, 0, NULL, NULL, DT_I32, shape_scalar()),
                       graph_node(g, OP_STEP, 0, NULL, NULL, DT_I32, shape_scalar())};
        Attr at = {.stream = below(x, 9), .dtype = DT_F32};
        return keep(x, graph_node(g, OP_RANDOM, 2, in, &at, DT_F32, s), true);
    }
    case 2: {
        Attr at = {.dtype = DT_F32};
        Node *h = graph_node(g, OP_HYPER, 0, NULL, &at, DT_F32, shape_scalar());
        return keep(x, h, true);
    }
    default: return source(x, s, DT_F32, 0);
    }
}

static void random_op(Gen *x) {
    typedef Node *(*Make)(Gen *);
    static const Make make[] = {
        random_unary,    random_unary,  random_binary,   random_binary,    random_discrete, random_broadcast, random_broadcast,
        random_transpose, random_reshape, random_slice,  random_pad,       random_concat,   random_slice_at,  random_update_at,
        random_reduce,   random_reduce, random_scan,     random_gather,    random_scatter,  random_contract,  random_contract,
        random_contract, random_row,    random_row,      random_source};
    make[below(x, (int)(sizeof make / sizeof *make))](x);
}

/* ---- results ------------------------------------------------------------------------------------------------- */
static Node *total(Gen *x, Node *n) {
    int8_t axes[MAX_RANK];
    for (int d = 0; d < n->shape->rank; d++) axes[d] = (int8_t)d;
    n = tamed(x, n);
    return n->shape->rank ? graph_reduce(x->g, OP_SUM, n, n->shape->rank, axes) : n;
}

static void add_output(Gen *x, const char *name, Node *v) {
    TensorDecl d = {.name = name, .dtype = v->dtype, .shape = *v->shape};
    vec_push(x->a, x->g->model->outputs, d);
    graph_result(x->g, RESULT_OUTPUT, x->g->model->outputs.n - 1, v);
}

static Node *param_node(Gen *x, int decl) {
    for (int i = 0; i < x->g->nodes.n; i++)
        if (x->g->nodes.at[i]->op == OP_PARAM && x->g->nodes.at[i]->attr->decl == decl) return x->g->nodes.at[i];
    return NULL;
}

/* The value that result number i reads: one of the last `among`; the first the very last, where that is a product. */
static Node *result_value(Gen *x, int i, int among) {
    return x->pool.at[x->pool.n - 1 - (i == 0 && x->o.products ? 0 : below(x, among))];
}

static void add_training(Gen *x, Entry e) {
    Node *loss = NULL;
    for (int i = 0; i < 3; i++) {
        Node *t = total(x, result_value(x, i, x->pool.n < 8 ? x->pool.n : 8));
        loss = loss ? graph_binary(x->g, OP_ADD, loss, t) : t;
    }
    if (loss->dtype != DT_F32) return;
    add_output(x, "loss", loss);
    for (int p = 0; p < x->g->model->params.n; p++) {
        Node *w = param_node(x, p);
        Node *d = graph_op(x->g, OP_GRADIENT, 2, (Node *[]){loss, w}, NULL);
        d->phase = PHASE_BACKWARD;
        if (e == ENTRY_GRAD) {
            graph_result(x->g, RESULT_GRAD, p, d);
            continue;
        }
        Node *next = graph_binary(x->g, OP_SUB, w, graph_binary(x->g, OP_MUL, d, constant(x, *d->shape, 0.125)));
        next->phase = PHASE_UPDATE;
        graph_result(x->g, RESULT_PARAM, p, next);
    }
}

Graph *random_graph(Arena *a, Entry e, uint64_t seed, RandomOptions o) {
    Model *m = ARENA_NEW(a, Model);
    Gen x = {.a = a, .r = {seed * 0x9E3779B97F4A7C15u + 1}, .o = o};
    m->name = "random";
    vec_push(a, m->files, "random");
    if (o.bounded) vec_push(a, m->syms, (SymDecl){"S", 2 + below(&x, 11)});
    vec_push(a, m->hypers, (HyperDecl){"h", 0.75});
    x.g = graph_new(a, m, e);
    source(&x, random_shape(&x, 1), DT_F32, 0);
    for (int i = 0; i < o.ops; i++) random_op(&x);
    /* last, so that results read them; the pool's last is the product before */
    for (int i = 0; i < o.products; i++) random_product(&x, i ? x.pool.at[x.pool.n - 1] : NULL);
    if (e == ENTRY_INFER)
        for (int i = 0; i < 3; i++) add_output(&x, arena_printf(a, "y%d", i), result_value(&x, i, x.pool.n));
    else add_training(&x, e);
    graph_prune(x.g);
    graph_renumber(x.g);
    if (o.low) low_precision(a, x.g, &x.r);
    return x.g;
}
