/* One node of each op around a given operand. */
#include "tests/support/directed.h"
#include <string.h>

/* ---- sources -------------------------------------------------------------------------------------------------- */
static DType any_dtype(Directed *x) {
    return x->scalars ? DT_I32 : (DType[]){DT_F32, DT_F32, DT_I32, DT_BOOL}[pick_below(x, 4)];
}

static Shape some_shape(Directed *x) { return x->scalars || pick_below(x, 3) ? x->base : directed_shape(x, 0); }

static Node *leaf_of(Directed *x, Op op) {
    for (int tries = 0; tries < 30; tries++) {
        Shape s = some_shape(x);
        if (tries > 10 && !shape_is_fixed(s)) s = shape_scalar();
        Node *n = directed_leaf(x, any_dtype(x), s, (Need)pick_below(x, 4));
        if (n->op == op) return n;
    }
    return NULL;
}

static Node *constant(Directed *x, DType t, Shape s, double v) {
    return directed_keep(x, graph_const(x->g, t, s, v), (Range){v, v});
}

static Node *any_constant(Directed *x) {
    static const double values[] = {0.5, 1, 2, -1, 3, 0.25, -0.5, 0};
    const DType t = any_dtype(x);
    const double v = t == DT_BOOL ? pick_below(x, 2) : t == DT_I32 ? pick_below(x, 4) - 1 : values[pick_below(x, 8)];
    return constant(x, t, some_shape(x), v);
}

static Node *scalar_i32(Directed *x) { return directed_operand(x, DT_I32, shape_scalar(), NEED_ANY); }

/* A run-time scalar, an index, random numbers: sources whose range follows from the op. */
static Node *other_source(Directed *x, Op op, Node *v, int k) {
    Attr at = {.dtype = op == OP_HYPER || op == OP_RANDOM ? DT_F32 : DT_I32, .stream = pick_below(x, 9)};
    Shape s = shape_scalar();
    Range r = {0, 1};
    Node *in[2] = {NULL, NULL};
    if (op == OP_IOTA || op == OP_RANDOM) s = directed_shape(x, op == OP_IOTA);
    if (op == OP_IOTA) at.axis = pick_below(x, s.rank), r.hi = (double)s.dim[at.axis].bound;
    if (op == OP_EXTENT)
        at.extent = x->o.bounded ? (Dim){.bound = x->g->model->syms.at[0].bound, .sym = 0, .scale = 1} : dim_fixed(3),
        r.hi = 12;
    if (op == OP_HYPER) r = (Range){x->g->model->hypers.at[0].value, x->g->model->hypers.at[0].value};
    if (op == OP_STEP) r.hi = 100;
    if (op == OP_SEED) r.hi = 0x1p30;
    if (op == OP_RANDOM) {
        for (int i = 0; i < 2; i++) in[i] = v && i == k ? v : scalar_i32(x);
        if (in[0]->dtype != DT_I32 || in[1]->dtype != DT_I32 || in[0]->shape->rank || in[1]->shape->rank) return NULL;
    }
    Node *n = graph_node(x->g, op, op == OP_RANDOM ? 2 : 0, in, &at, at.dtype, s);
    return directed_keep(x, n, r);
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */
static bool is_truth(Op op) { return op == OP_NOT || op == OP_AND || op == OP_OR; }
static bool takes_any(Op op) { return op == OP_CAST || op == OP_EQ || op == OP_NE || op == OP_SELECT; }

static DType data_dtype(Directed *x, Op op) {
    if (is_truth(op)) return DT_BOOL;
    if (takes_any(op)) return any_dtype(x);
    return !x->scalars && pick_below(x, 3) ? DT_F32
                                           : DT_I32; /* directed_emit refuses integers where they are illegal */
}

static Node *element(Directed *x, Op op, Node *v, int k) {
    const int n = op_info[op].arity, data = op == OP_SELECT;
    const DType t = v && k >= data ? v->dtype : data_dtype(x, op);
    const Shape s = v ? *v->shape : some_shape(x);
    const Attr at = {.dtype = (DType[]){DT_F32, DT_I32, DT_BOOL}[pick_below(x, 3)]};
    Node *in[3];
    if (v && !directed_fits(x, v, directed_need(op, k))) return NULL;
    for (int i = 0; i < n; i++)
        in[i] = v && i == k ? v : directed_operand(x, i < data ? DT_BOOL : t, s, directed_need(op, i));
    if (op == OP_MOD && !v && t == DT_F32 && pick_below(x, 2)) { /* less than the divisor: the range stays known */
        in[0] = directed_emit(x, OP_TANH, 1, (Node *[]){directed_leaf(x, t, s, NEED_POSITIVE)}, NULL, s);
        in[1] = directed_leaf(x, t, s, NEED_POSITIVE);
    }
    if (op == OP_LOG && !v && pick_below(x, 2)) { /* of more than 2, so that the logarithm has one too */
        Node *terms[2] = {directed_leaf(x, t, s, NEED_POSITIVE), directed_leaf(x, t, s, NEED_POSITIVE)};
        in[0] = directed_emit(x, OP_ADD, 2, terms, NULL, s);
    }
    return directed_emit(x, op, n, in, &at, s);
}

/* ---- movement ---------------------------------------------------------------------------------------------------- */
static Node *reshape(Directed *x, Node *v) {
    Shape s = {0};
    if (x->scalars) {
        v = directed_operand(x, v->dtype, shape_fixed(1, (const int64_t[]){1}), NEED_ANY);
    } else if (v->shape->rank > 1 && shape_is_fixed(*v->shape) && pick_below(x, 2)) {
        s = shape_fixed(1, (const int64_t[]){shape_elements(*v->shape)});
        if (s.dim[0].bound % 2 == 0 && s.dim[0].bound > 0 && pick_below(x, 2))
            s = shape_fixed(2, (const int64_t[]){2, s.dim[0].bound / 2});
    } else {
        const int at = pick_below(x, v->shape->rank + 1);
        for (int d = 0; d <= v->shape->rank; d++) {
            if (d == at) s.dim[s.rank++] = dim_fixed(1);
            if (d < v->shape->rank) s.dim[s.rank++] = v->shape->dim[d];
        }
    }
    return directed_emit(x, OP_RESHAPE, 1, &v, NULL, s);
}

static Node *transpose(Directed *x, Node *v) {
    Attr at = {.n_axes = v->shape->rank};
    for (int d = 0; d < at.n_axes; d++) at.axes[d] = (int8_t)d;
    for (int d = at.n_axes - 1; d > 0; d--) {
        const int e = pick_below(x, d + 1);
        const int8_t t = at.axes[d];
        at.axes[d] = at.axes[e], at.axes[e] = t;
    }
    return directed_emit(x, OP_TRANSPOSE, 1, &v, &at, shape_scalar());
}

/* To the base shape where that is possible, so that what follows has company. */
static Node *broadcast(Directed *x, Node *v) {
    Attr at = {.n_axes = v->shape->rank};
    Shape s = {0};
    if (v->shape->rank == 0) return directed_emit(x, OP_BROADCAST, 1, &v, &at, x->base);
    for (int d = 0; d <= v->shape->rank; d++) {
        if (s.rank < 4 && pick_below(x, 3) == 0) s.dim[s.rank++] = dim_fixed(1 + pick_below(x, 3));
        if (d < v->shape->rank) at.axes[d] = (int8_t)s.rank, s.dim[s.rank++] = v->shape->dim[d];
    }
    return directed_emit(x, OP_BROADCAST, 1, &v, &at, s);
}

static Node *slice(Directed *x, Node *v) {
    Attr at = {0};
    for (int d = 0; d < v->shape->rank; d++) {
        const Dim e = v->shape->dim[d];
        at.lo[d] = dim_fixed(0), at.hi[d] = e, at.step[d] = 1;
        if (!dim_is_fixed(e) || e.bound == 0 || pick_below(x, 2)) continue;
        const int64_t n = 1 + pick_below(x, (int)e.bound);
        const bool backward = pick_below(x, 3) == 0;
        at.hi[d] = dim_fixed(n);
        at.lo[d] = dim_fixed(backward ? e.bound - 1 : e.bound - n);
        at.step[d] = backward ? -1 : 1;
    }
    return directed_emit(x, OP_SLICE, 1, &v, &at, shape_scalar());
}

static Node *pad(Directed *x, Node *v) {
    Attr at = {.value = v->dtype == DT_F32 ? (double[]){0, 0, 1, 0.5}[pick_below(x, 4)] : pick_below(x, 2)};
    for (int d = 0; d < v->shape->rank; d++) {
        const bool fixed = dim_is_fixed(v->shape->dim[d]);
        at.lo[d] = dim_fixed(fixed ? pick_below(x, 2) : 0), at.hi[d] = dim_fixed(fixed ? pick_below(x, 3) : 0);
    }
    return directed_emit(x, OP_PAD, 1, &v, &at, shape_scalar());
}

static Node *concat(Directed *x, Node *v, int k) {
    Node *in[3];
    const int n = 2 + (pick_below(x, 4) == 0);
    Attr at = {0};
    if (v->shape->rank == 0) return NULL;
    at.axis = pick_below(x, v->shape->rank);
    if (!dim_is_fixed(v->shape->dim[at.axis])) return NULL;
    for (int i = 0; i < n; i++) in[i] = i == k ? v : directed_operand(x, v->dtype, *v->shape, NEED_ANY);
    return directed_emit(x, OP_CONCAT, n, in, &at, shape_scalar());
}

static Shape with_rows(Shape s, int64_t rows) {
    s.dim[0] = dim_fixed(rows);
    return s;
}

static Node *any_data(Directed *x, int min_rank) {
    return directed_operand(x, any_dtype(x), x->base.rank >= min_rank ? x->base : directed_shape(x, min_rank),
                            NEED_ANY);
}

static Node *slice_at(Directed *x, Node *v, int k) {
    Node *in[2] = {k == 0 ? v : any_data(x, 1), k == 1             ? v
                                                : pick_below(x, 2) ? constant(x, DT_I32, shape_scalar(), 0)
                                                                   : scalar_i32(x)};
    if (in[0]->shape->rank == 0) return NULL;
    const int64_t rows = in[0]->shape->dim[0].bound;
    const Attr at = {.extent = dim_fixed(rows ? 1 + pick_below(x, (int)rows) : 0)};
    return directed_emit(x, OP_SLICE_AT, 2, in, &at, shape_scalar());
}

static Node *update_at(Directed *x, Node *v, int k) {
    Node *whole = k == 0 ? v : NULL, *part = k == 1 ? v : NULL;
    if (!whole && !part) whole = any_data(x, 1);
    const Node *given = whole ? whole : part;
    if (given->shape->rank == 0) return NULL;
    const DType t = given->dtype;
    if (!part) part = directed_operand(x, t, with_rows(*given->shape, 1 + pick_below(x, 3)), NEED_ANY);
    if (!whole) whole = directed_operand(x, t, with_rows(*given->shape, 2 + pick_below(x, 3)), NEED_ANY);
    return directed_emit(x, OP_UPDATE_AT, 3, (Node *[]){whole, part, k == 2 ? v : scalar_i32(x)}, NULL, shape_scalar());
}

/* ---- reductions, contraction, indexed ---------------------------------------------------------------------------- */
static Node *reduce(Directed *x, Op op, Node *v) {
    Attr at = {.axis = v->shape->rank ? pick_below(x, v->shape->rank) : 0,
               .scan = pick_below(x, 3) ? SCAN_SUM : SCAN_PROD,
               .reverse = pick_below(x, 2),
               .exclusive = pick_below(x, 3) == 0};
    for (int d = 0; op != OP_SCAN && d < v->shape->rank; d++)
        if (pick_below(x, 2)) at.axes[at.n_axes++] = (int8_t)d;
    return directed_emit(x, op, 1, &v, &at, *v->shape);
}

/* v is what is added or multiplied by, or both. */
static Node *recurrence(Directed *x, Node *v) {
    const Attr at = {.axis = pick_below(x, v->shape->rank), .scan = SCAN_LINEAR, .reverse = pick_below(x, 2)};
    Node *in[2] = {v, v};
    const int other = pick_below(x, 3);
    if (other < 2) in[other] = directed_operand(x, v->dtype, *v->shape, NEED_ANY);
    return directed_emit(x, OP_SCAN, 2, in, &at, *v->shape);
}

static void read_loop(Affine *e, int loop) {
    *e = (Affine){.divisor = 1};
    e->coef[loop] = 1;
}

/* v's dims are loops, some of them summed; a second and third operand read some of those, and one loop more. */
static Node *contract(Directed *x, Node *v, int k) {
    Contract c = {.n_operands = 1 + pick_below(x, 3)};
    Affine map[3][MAX_RANK] = {0};
    Node *in[3] = {v};
    int loop_of[MAX_RANK];
    if (v->shape->rank > 4 || v->dtype == DT_BOOL) return NULL;
    if (k >= c.n_operands) c.n_operands = k + 1;
    bool summed[MAX_RANK];
    for (int d = 0; d < v->shape->rank; d++) summed[d] = pick_below(x, 2);
    for (int d = 0; d < v->shape->rank; d++)
        if (!summed[d]) loop_of[d] = c.n_loops, c.extent[c.n_loops++] = v->shape->dim[d];
    const int extra = pick_below(x, 2) ? c.n_loops : -1;
    if (extra >= 0) c.extent[c.n_loops++] = dim_fixed(1 + pick_below(x, 4));
    c.n_out = c.n_loops;
    for (int d = 0; d < v->shape->rank; d++)
        if (summed[d]) loop_of[d] = c.n_loops, c.extent[c.n_loops++] = v->shape->dim[d];
    c.map = map;
    for (int d = 0; d < v->shape->rank; d++) read_loop(&map[0][d], loop_of[d]);
    for (int i = 1; i < c.n_operands; i++) {
        Shape s = {0};
        for (int l = 0; l < c.n_loops && s.rank < 4; l++) {
            if (l != extra && pick_below(x, 3) == 0) continue;
            read_loop(&map[i][s.rank], l);
            s.dim[s.rank++] = c.extent[l];
        }
        in[i] = directed_operand(x, v->dtype, s, NEED_SMALL);
    }
    Guard guard = {.kind = GUARD_EQ, .hi = dim_fixed(3), .e = {.divisor = 1}};
    if (c.n_loops > 1 && shape_is_fixed(*v->shape) && pick_below(x, 5) == 0) {
        guard.kind = pick_below(x, 2) ? GUARD_EQ : GUARD_RANGE;
        guard.e.coef[0] = 1, guard.e.coef[c.n_loops - 1] = -1;
        c.n_guards = 1, c.guard = &guard;
    }
    if (k > 0) { /* operands are alike: v stands where it was asked for */
        Affine t[MAX_RANK];
        memcpy(t, map[0], sizeof t), memcpy(map[0], map[k], sizeof t), memcpy(map[k], t, sizeof t);
        in[0] = in[k], in[k] = v;
    }
    const Attr at = {.contract = &c};
    return directed_emit(x, OP_CONTRACT, c.n_operands, in, &at, shape_scalar());
}

static Node *indices(Directed *x, Shape s, int64_t n) {
    if (n == 1) return constant(x, DT_I32, s, 0);
    for (int tries = 0; tries < 8; tries++) {
        Node *i = directed_operand(x, DT_I32, s, NEED_ANY);
        if (x->range.at[i->id].lo >= 0 && x->range.at[i->id].hi < (double)n) return i;
    }
    return pick_below(x, 2) ? constant(x, DT_I32, s, pick_below(x, n > 0 ? (int)n : 1))
                            : directed_operand(x, DT_I32, s, NEED_ANY);
}

static Node *gather(Directed *x, Node *v, int k) {
    Node *table = k == 0 ? v : any_data(x, 1);
    if (table->shape->rank == 0) return NULL;
    const Shape s = shape_fixed(pick_below(x, 3), (const int64_t[]){1 + pick_below(x, 4), 1 + pick_below(x, 3)});
    return directed_emit(x, OP_GATHER, 2, (Node *[]){table, k == 1 ? v : indices(x, s, table->shape->dim[0].bound)},
                         NULL, shape_scalar());
}

static Node *scatter(Directed *x, Op op, Node *v, int k) {
    const DType t = pick_below(x, 3) ? DT_F32 : DT_I32;
    const Attr at = {.extent = dim_fixed(pick_below(x, 2) ? 1 : 1 + pick_below(x, 4))};
    Node *updates = k == 0 ? v : NULL, *ids = k == 1 ? v : NULL;
    if (ids)
        updates = directed_operand(x, t, *ids->shape, NEED_ANY);
    else {
        Shape s = *updates->shape;
        s.rank = pick_below(x, s.rank + 1);
        ids = indices(x, s, at.extent.bound);
    }
    return directed_emit(x, op, 2, (Node *[]){updates, ids}, &at, shape_scalar());
}

/* ---- gradients: d sum(v * b) / dv = b, so that the result's range is b's ----------------------------------------- */
static Node *gradient(Directed *x, Node *v, int k) {
    Node *y = k == 0 ? v : NULL, *of = k == 1 ? v : NULL;
    if (v->dtype != DT_F32 || (y && y->shape->rank)) return NULL;
    Node *n;
    Range r = {0, 0};
    if (y) {
        of = directed_leaf(x, DT_F32, some_shape(x), NEED_ANY);
        if (y == of) return NULL;
        /* whatever y is, what comes is any number: bounded by tanh before anything else reads it */
        n = graph_op(x->g, OP_GRADIENT, 2, (Node *[]){y, of}, NULL);
        x->read.at[y->id] = x->read.at[of->id] = true;
        n = graph_unary(x->g, OP_TANH, n);
        r = (Range){-1, 1};
    } else {
        Node *b = directed_leaf(x, DT_F32, *of->shape, (Need)pick_below(x, 4));
        int8_t axes[MAX_RANK];
        if (b == of) return NULL;
        for (int d = 0; d < of->shape->rank; d++) axes[d] = (int8_t)d;
        y = graph_reduce(x->g, OP_SUM, graph_binary(x->g, OP_MUL, of, b), of->shape->rank, axes);
        n = graph_op(x->g, OP_GRADIENT, 2, (Node *[]){y, of}, NULL);
        r = x->range.at[b->id];
        x->read.at[b->id] = x->read.at[of->id] = true;
    }
    return directed_keep(x, n, r);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */
static Node *moved(Directed *x, Op op, Node *v, int k) {
    switch (op) {
    case OP_RESHAPE: return reshape(x, v);
    case OP_TRANSPOSE: return transpose(x, v);
    case OP_BROADCAST: return broadcast(x, v);
    case OP_SLICE: return slice(x, v);
    case OP_PAD: return pad(x, v);
    case OP_CONCAT: return concat(x, v, k);
    case OP_SLICE_AT: return slice_at(x, v, k);
    default: return update_at(x, v, k);
    }
}

static Node *source(Directed *x, Op op, Node *v, int k) {
    switch (op) {
    case OP_PARAM:
    case OP_STATE:
    case OP_INPUT: return leaf_of(x, op);
    case OP_CONST: return any_constant(x);
    default: return other_source(x, op, v, k);
    }
}

Node *directed_op(Directed *x, Op op, Node *v, int k) {
    const OpClass cls = op_info[op].cls;
    if (cls == CLASS_SOURCE) return source(x, op, v, k);
    if (cls == CLASS_ELEMENT) return element(x, op, v, k);
    if (v && !directed_fits(x, v, directed_need(op, k))) return NULL;
    if (!v) {
        const DType t = cls == CLASS_MOVE || op == OP_GATHER || op == OP_STOP_GRADIENT ? any_dtype(x)
                        : op == OP_GRADIENT || (!x->scalars && pick_below(x, 3))       ? DT_F32
                                                                                       : DT_I32;
        v = directed_operand(x, t, pick_below(x, 4) ? x->base : directed_shape(x, op != OP_SUM),
                             (Need)(op == OP_PROD ? NEED_SMALL : pick_below(x, 4)));
        k = op == OP_GRADIENT;
    }
    if (cls == CLASS_MOVE) return moved(x, op, v, k);
    if (op == OP_SCAN && dtype_is_float(v->dtype) && pick_below(x, 3) == 0) return v->shape->rank ? recurrence(x, v) : NULL;
    if (cls == CLASS_REDUCE) return reduce(x, op, v);
    switch (op) {
    case OP_CONTRACT: return contract(x, v, k);
    case OP_GATHER: return gather(x, v, k);
    case OP_SCATTER_ADD:
    case OP_SCATTER_MAX:
    case OP_SCATTER_ARGMAX: return scatter(x, op, v, k);
    case OP_GRADIENT: return gradient(x, v, k);
    default: return directed_emit(x, op, 1, &v, NULL, *v->shape);
    }
}
