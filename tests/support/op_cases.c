/* One builder per op (or one for all elementwise ops): random operands, random attributes. */
#include "tests/support/op_cases.h"

typedef Node *Build(Trial *t, Op op);

/* ---- elementwise: any op, by its arity ------------------------------------------------------- */
typedef struct Domain {
    double lo, hi; /* both 0: [-2, 2) */
} Domain;
static const Domain domain[OP_COUNT] = {
    [OP_LOG] = {0.3, 3}, [OP_LOG1P] = {-0.7, 3}, [OP_SQRT] = {0.3, 3}, [OP_RSQRT] = {0.3, 3},
    [OP_DIV] = {0.4, 2}, [OP_POW] = {0.3, 2},    [OP_MOD] = {0.4, 2},
};

static Node *build_element(Trial *t, Op op) {
    Shape s = rng_shape(t->rng, 4, 5);
    Domain d = domain[op].hi ? domain[op] : (Domain){-2, 2};
    Node *in[4];
    for (int k = 0; k < op_info[op].arity; k++)
        in[k] = op == OP_SELECT && k == 0 ? trial_input(t, DT_BOOL, s, 0, 1) : trial_operand(t, s, d.lo, d.hi);
    if (op == OP_CAST) return graph_cast(t->graph, graph_cast(t->graph, in[0], DT_F64), DT_F32);
    return graph_op(t->graph, op, op_info[op].arity, in, NULL);
}

/* ---- movement ------------------------------------------------------------------------------------ */
static Shape shape_of_rank(Rng *r, int rank, int64_t least) {
    int64_t extent[MAX_RANK];
    for (int d = 0; d < rank; d++) extent[d] = rng_chance(r, 0.2) ? 1 : rng_int(r, least, 5);
    return shape_fixed(rank, extent);
}

static Node *build_reshape(Trial *t, Op op) {
    (void)op;
    int64_t a = rng_int(t->rng, 0, 4), b = rng_int(t->rng, 1, 4), c = rng_int(t->rng, 1, 3);
    Node *x = trial_operand(t, shape_fixed(3, (int64_t[]){a, b, c}), -1, 1);
    return graph_reshape(t->graph, x, shape_fixed(4, (int64_t[]){c, 1, a, b}));
}

static void permutation(Rng *r, int n, int8_t *perm) {
    for (int d = 0; d < n; d++) perm[d] = (int8_t)d;
    for (int d = n - 1; d > 0; d--) {
        int e = (int)rng_int(r, 0, d);
        int8_t kept = perm[d];
        perm[d] = perm[e], perm[e] = kept;
    }
}

static Node *build_transpose(Trial *t, Op op) {
    (void)op;
    int8_t perm[MAX_RANK];
    Node *x = trial_operand(t, rng_shape(t->rng, 4, 4), -1, 1);
    permutation(t->rng, x->shape->rank, perm);
    return graph_transpose(t->graph, x, perm);
}

static Node *build_broadcast(Trial *t, Op op) {
    (void)op;
    Shape s = rng_shape(t->rng, 3, 4), out = {0};
    int8_t axes[MAX_RANK];
    for (int d = 0; d <= s.rank; d++) {
        while (rng_chance(t->rng, 0.4) && out.rank < 6) out.dim[out.rank++] = dim_fixed(rng_int(t->rng, 0, 3));
        if (d == s.rank) break;
        axes[d] = (int8_t)out.rank;
        out.dim[out.rank++] = s.dim[d];
    }
    return graph_broadcast(t->graph, trial_operand(t, s, -1, 1), out, axes);
}

static Node *build_slice(Trial *t, Op op) {
    Shape s = shape_of_rank(t->rng, (int)rng_int(t->rng, 0, 3), 1);
    Attr attr = {0};
    for (int d = 0; d < s.rank; d++) {
        int64_t n = s.dim[d].bound, step = rng_int(t->rng, 1, 3), lo = rng_int(t->rng, 0, n - 1);
        int64_t count = rng_int(t->rng, rng_chance(t->rng, 0.1) ? 0 : 1, 1 + (n - 1 - lo) / step);
        bool back = rng_chance(t->rng, 0.4) && count > 0;
        attr.lo[d] = dim_fixed(back ? lo + (count - 1) * step : lo);
        attr.hi[d] = dim_fixed(count);
        attr.step[d] = back ? -step : step;
    }
    return graph_op(t->graph, op, 1, (Node *[]){trial_operand(t, s, -1, 1)}, &attr);
}

static Node *build_pad(Trial *t, Op op) {
    Attr attr = {.value = rng_real(t->rng, -1, 1)};
    Node *x = trial_operand(t, rng_shape(t->rng, 3, 4), -1, 1);
    for (int d = 0; d < x->shape->rank; d++)
        attr.lo[d] = dim_fixed(rng_int(t->rng, 0, 2)), attr.hi[d] = dim_fixed(rng_int(t->rng, 0, 2));
    return graph_op(t->graph, op, 1, &x, &attr);
}

static Node *build_concat(Trial *t, Op op) {
    Node *in[4];
    int n = (int)rng_int(t->rng, 1, 4);
    Shape s = shape_of_rank(t->rng, (int)rng_int(t->rng, 1, 3), 1);
    Attr attr = {.axis = (int)rng_int(t->rng, 0, s.rank - 1)};
    for (int k = 0; k < n; k++) {
        s.dim[attr.axis] = dim_fixed(rng_int(t->rng, 0, 3));
        in[k] = trial_operand(t, s, -1, 1);
    }
    return graph_op(t->graph, op, n, in, &attr);
}

static Node *start_at(Trial *t) { return trial_input(t, DT_I32, shape_scalar(), -3, 6); }

static Node *build_slice_at(Trial *t, Op op) {
    Node *x = trial_operand(t, shape_of_rank(t->rng, (int)rng_int(t->rng, 1, 3), 0), -1, 1);
    return graph_op(t->graph, op, 2, (Node *[]){x, start_at(t)}, &(Attr){.extent = dim_fixed(rng_int(t->rng, 0, 6))});
}

static Node *build_update_at(Trial *t, Op op) {
    Shape s = shape_of_rank(t->rng, (int)rng_int(t->rng, 1, 3), 0);
    Node *x = trial_operand(t, s, -1, 1);
    s.dim[0] = dim_fixed(rng_int(t->rng, 0, 5));
    return graph_op(t->graph, op, 3, (Node *[]){x, trial_operand(t, s, -1, 1), start_at(t)}, NULL);
}

/* ---- reductions ------------------------------------------------------------------------------------ */
static Node *build_reduce(Trial *t, Op op) {
    Node *x = trial_operand(t, rng_shape(t->rng, 4, 4), -2, 2);
    int8_t axes[MAX_RANK];
    int n = 0;
    for (int d = 0; d < x->shape->rank; d++)
        if (rng_chance(t->rng, 0.6)) axes[n++] = (int8_t)d;
    return graph_reduce(t->graph, op, x, n, axes);
}

/* The greatest value does not move when nothing is there: an empty reduction has no slope to probe. */
static Node *build_extremum(Trial *t, Op op) {
    Node *x = trial_operand(t, shape_of_rank(t->rng, (int)rng_int(t->rng, 1, 4), 1), -2, 2);
    int8_t axes[MAX_RANK];
    int n = 0;
    for (int d = 0; d < x->shape->rank; d++)
        if (rng_chance(t->rng, 0.6)) axes[n++] = (int8_t)d;
    return graph_reduce(t->graph, op, x, n, axes);
}

static Node *build_scan(Trial *t, Op op) {
    Node *x = trial_operand(t, shape_of_rank(t->rng, (int)rng_int(t->rng, 1, 3), 0), -1, 1);
    Attr attr = {.axis = (int)rng_int(t->rng, 0, x->shape->rank - 1),
                 .scan = (ScanKind)rng_int(t->rng, SCAN_SUM, SCAN_LINEAR),
                 .reverse = rng_chance(t->rng, 0.5)};
    if (attr.scan == SCAN_LINEAR)
        return graph_op(t->graph, op, 2, (Node *[]){x, trial_operand(t, *x->shape, -1, 1)}, &attr);
    attr.exclusive = rng_chance(t->rng, 0.5);
    return graph_op(t->graph, op, 1, &x, &attr);
}

/* ---- contract and indexed ----------------------------------------------------------------------------- */
static Affine random_affine(Rng *r, int n_loops, int64_t max_divisor) {
    static const int64_t coefs[] = {1, 1, 1, 1, -1, 2, 2, -2, 3};
    Affine e = {.c = rng_chance(r, 0.5) ? 0 : rng_int(r, -2, 3), .divisor = 1};
    int terms = (int)rng_int(r, rng_chance(r, 0.15) ? 0 : 1, 2);
    for (int i = 0; i < terms && n_loops > 0; i++) e.coef[rng_int(r, 0, n_loops - 1)] = coefs[rng_int(r, 0, 8)];
    if (rng_chance(r, 0.25)) e.divisor = rng_int(r, 1, max_divisor);
    return e;
}

static Node *build_contract(Trial *t, Op op) {
    (void)op;
    Rng *r = t->rng;
    Contract c = {.n_out = (int)rng_int(r, 0, 3), .n_operands = (int)rng_int(r, 1, 3)};
    c.n_loops = c.n_out + (int)rng_int(r, 0, 2);
    for (int l = 0; l < c.n_loops; l++) c.extent[l] = dim_fixed(rng_int(r, rng_chance(r, 0.05) ? 0 : 1, 4));
    Node *in[3];
    c.map = arena_alloc(t->arena, sizeof *c.map * 3);
    for (int k = 0; k < c.n_operands; k++) {
        in[k] =
            k > 0 && rng_chance(r, 0.2) ? in[0] : trial_operand(t, shape_of_rank(r, (int)rng_int(r, 0, 3), 1), -1, 1);
        for (int d = 0; d < in[k]->shape->rank; d++) c.map[k][d] = random_affine(r, c.n_loops, 3);
    }
    Guard guards[2];
    c.guard = guards;
    while (c.n_guards < 2 && rng_chance(r, 0.3)) {
        bool equal = rng_chance(r, 0.3);
        guards[c.n_guards++] = (Guard){.kind = equal ? GUARD_EQ : GUARD_RANGE,
                                       .e = random_affine(r, c.n_loops, equal ? 1 : 3),
                                       .lo = equal ? 0 : rng_int(r, -1, 1),
                                       .hi = dim_fixed(equal ? 0 : rng_int(r, 1, 5))};
    }
    return graph_contract(t->graph, c.n_operands, in, &c);
}

static Node *build_gather(Trial *t, Op op) {
    Node *table = trial_operand(t, shape_of_rank(t->rng, (int)rng_int(t->rng, 1, 3), 0), -1, 1);
    Node *ids = trial_input(t, DT_I32, rng_shape(t->rng, 2, 4), -2, 6);
    return graph_op(t->graph, op, 2, (Node *[]){table, ids}, NULL);
}

static Node *build_scatter(Trial *t, Op op) {
    Shape s = rng_shape(t->rng, 2, 4), updates = s;
    Node *ids = trial_input(t, DT_I32, s, -2, 5);
    for (int64_t more = rng_int(t->rng, 0, 2); more > 0; more--)
        updates.dim[updates.rank++] = dim_fixed(rng_int(t->rng, 1, 3));
    Node *x = trial_operand(t, updates, -1, 1);
    Node *rows = graph_op(t->graph, op, 2, (Node *[]){x, ids}, &(Attr){.extent = dim_fixed(rng_int(t->rng, 0, 5))});
    if (op == OP_SCATTER_ADD) return rows;
    return graph_binary(t->graph, OP_MAX, rows, graph_const(t->graph, DT_F32, *rows->shape, -10)); /* where nothing is sent: -inf */
}

static Node *build_stop_gradient(Trial *t, Op op) {
    Node *x = trial_operand(t, rng_shape(t->rng, 3, 4), -1, 1);
    Node *stopped = graph_unary(t->graph, op, graph_unary(t->graph, OP_SIGN, x));
    return graph_binary(t->graph, OP_MUL, x, stopped);
}

static Build *const build[OP_COUNT] = {
    [OP_RESHAPE] = build_reshape,
    [OP_TRANSPOSE] = build_transpose,
    [OP_BROADCAST] = build_broadcast,
    [OP_SLICE] = build_slice,
    [OP_PAD] = build_pad,
    [OP_CONCAT] = build_concat,
    [OP_SLICE_AT] = build_slice_at,
    [OP_UPDATE_AT] = build_update_at,
    [OP_SUM] = build_reduce,
    [OP_RMAX] = build_extremum,
    [OP_RMIN] = build_extremum,
    [OP_PROD] = build_reduce,
    [OP_SCAN] = build_scan,
    [OP_CONTRACT] = build_contract,
    [OP_GATHER] = build_gather,
    [OP_SCATTER_ADD] = build_scatter,
    [OP_SCATTER_MAX] = build_scatter,
    [OP_STOP_GRADIENT] = build_stop_gradient,
};

bool op_has_gradient(Op op) {
    Jacobian j = op_info[op].jacobian;
    return j == JAC_DIAGONAL || j == JAC_SUM || j == JAC_SELECT || j == JAC_MULTILINEAR || j == JAC_ZERO;
}

Node *op_case(Trial *t, Op op) {
    Build *make = build[op] ? build[op] : op_info[op].cls == CLASS_ELEMENT ? build_element : NULL;
    return make ? make(t, op) : NULL;
}
