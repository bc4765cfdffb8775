/* The table of structured Jacobians.  Elementwise rules are expressions in derivatives.def; movement,
 * reduction and indexed ops have a function each; contract has its own file. */
#include "passes/derive/jacobian.h"
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef Node *JacobianRule(Graph *g, Node *n, int k, Node *dy);

/* ---- small builders ------------------------------------------------------------------------ */
static Node *zeros_like(Graph *g, const Node *n) { return graph_const(g, n->dtype, *n->shape, 0); }

static Dim dim_difference(Dim a, Dim b) {
    Dim d;
    bool same_symbol = dim_add(a, dim_mul_const(b, -1), &d);
    assert(same_symbol && "extents of one axis follow one symbol");
    (void)same_symbol;
    return d;
}

static Dim dim_sum(Dim a, Dim b) { return dim_difference(a, dim_mul_const(b, -1)); }

/* Every step-th element from lo, in the given shape; step NULL: all ones. */
static Node *slice(Graph *g, Node *x, const Dim *lo, const int64_t *step, Shape shape) {
    Attr attr = {0};
    for (int d = 0; d < shape.rank; d++) {
        attr.lo[d] = lo[d];
        attr.hi[d] = shape.dim[d];
        attr.step[d] = step ? step[d] : 1;
    }
    return graph_op(g, OP_SLICE, 1, &x, &attr);
}

/* Which dims a list of axes leaves out, in order: the axes map of the matching broadcast. */
static int other_axes(int rank, int n_axes, const int8_t *axes, int8_t *others) {
    bool listed[MAX_RANK] = {false};
    for (int i = 0; i < n_axes; i++) listed[axes[i]] = true;
    int n = 0;
    for (int d = 0; d < rank; d++)
        if (!listed[d]) others[n++] = (int8_t)d;
    return n;
}

/* The value of a reduction over `axes`, broadcast back to the shape that was reduced. */
static Node *broadcast_back(Graph *g, Node *reduced, Shape shape, int n_axes, const int8_t *axes) {
    int8_t kept[MAX_RANK];
    other_axes(shape.rank, n_axes, axes, kept);
    return graph_broadcast(g, reduced, shape, kept);
}

/* ---- derivatives.def ------------------------------------------------------------------------ */
typedef struct Formula {
    Graph *g;
    Node *n, *dy;
    const char *at;
} Formula;

static Node *formula(Formula *f);

static Node *formula_call(Formula *f, const char *name) {
    Node *in[3];
    int n = 0;
    do {
        f->at++; /* "(" or "," */
        in[n++] = formula(f);
    } while (*f->at == ',');
    f->at++; /* ")" */
    if (strcmp(name, "cast_as_a") == 0) return graph_cast(f->g, in[0], f->n->in[0]->dtype);
    Op op = OP_COUNT;
    bool known = op_parse(name, &op);
    assert(known && op_info[op].arity == n && "derivatives.def names ops of the table");
    (void)known;
    return graph_op(f->g, op, n, in, NULL);
}

/* In low precision a conversion stands before it.  NULL: it is none. */
static const Node *constant_of(const Node *n) {
    while (n->op == OP_CAST) n = n->in[0];
    return n->op == OP_CONST ? n : NULL;
}
static bool is_zero(const Node *n) {
    const Node *c = constant_of(n);
    return c && c->attr->value == 0;
}

/* Is y = max(a, b), or min, its first operand?  Beside a constant that is read off y, which is kept anyway: the condition does
 * not make the backward keep b as well (NaN is neither). */
static Node *first_wins(const Formula *f) {
    Node *n = f->n;
    const Op beats = n->op == OP_MAX ? OP_GE : OP_LE, beaten = n->op == OP_MAX ? OP_LE : OP_GE;
    if (constant_of(n->in[0])) return graph_binary(f->g, beaten, n, n->in[0]);
    return graph_binary(f->g, beats, n->in[0], n->in[1]);
}

/* y = select(x > 0, x, 0) is positive where x is: read off y, which is kept anyway, the condition does not make
 * the backward keep x as well. */
static Node *condition(const Formula *f) {
    Node *n = f->n, *c = n->in[0];
    if (c->op != OP_GT || c->in[0] != n->in[1] || !is_zero(c->in[1]) || !is_zero(n->in[2])) return c;
    return graph_binary(f->g, OP_GT, n, n->in[2]);
}

static Node *formula_name(const Formula *f, char c) {
    if (f->n->op == OP_SELECT && c == 'a') return condition(f);
    switch (c) {
    case 'g': return f->dy;
    case 'y': return f->n;
    case 'f': return first_wins(f);
    default: return f->n->in[c - 'a'];
    }
}

static Node *formula(Formula *f) {
    while (*f->at == ' ') f->at++;
    if (!isalpha((unsigned char)*f->at)) {
        char *end;
        double value = strtod(f->at, &end);
        f->at = end;
        return graph_const(f->g, f->n->dtype, *f->n->shape, value);
    }
    char name[16];
    size_t length = strspn(f->at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    assert(length < sizeof name);
    memcpy(name, f->at, length);
    name[length] = 0;
    f->at += length;
    return *f->at == '(' ? formula_call(f, name) : formula_name(f, name[0]);
}

static const char *const derivative[OP_COUNT][3] = {
#define DERIVATIVE(op, operand, text) [OP_##op][operand] = text,
#include "passes/derive/derivatives.def"
#undef DERIVATIVE
};

/* ---- movement ---------------------------------------------------------------------------------- */
static Node *jac_reshape(Graph *g, Node *n, int k, Node *dy) { return graph_reshape(g, dy, *n->in[k]->shape); }

static Node *jac_transpose(Graph *g, Node *n, int k, Node *dy) {
    (void)k;
    int8_t inverse[MAX_RANK] = {0};
    for (int d = 0; d < n->shape->rank; d++) inverse[n->attr->axes[d]] = (int8_t)d;
    return graph_transpose(g, dy, inverse);
}

static Node *jac_broadcast(Graph *g, Node *n, int k, Node *dy) {
    int8_t added[MAX_RANK];
    int n_added = other_axes(n->shape->rank, n->in[k]->shape->rank, n->attr->axes, added);
    return n_added ? graph_reduce(g, OP_SUM, dy, n_added, added) : dy;
}

/* out[p] = dy[(p - lo) / step], 0 where that is no index of dy: the transpose of slice as a view. */
static Node *dilate(Graph *g, Node *dy, const int64_t *lo, const int64_t *step, Shape shape) {
    Affine map[1][MAX_RANK] = {0};
    Contract c = {.n_loops = shape.rank, .n_out = shape.rank, .n_operands = 1, .map = map};
    for (int d = 0; d < shape.rank; d++) {
        int64_t sign = step[d] < 0 ? -1 : 1;
        c.extent[d] = shape.dim[d];
        map[0][d] = (Affine){.c = -sign * lo[d], .divisor = sign * step[d]};
        map[0][d].coef[d] = sign;
    }
    return graph_contract(g, 1, &dy, &c);
}

/* i32 scalar: the run-time value of d. */
static Node *extent_value(Graph *g, Dim d) {
    if (dim_is_fixed(d)) return graph_const(g, DT_I32, shape_scalar(), (double)d.bound);
    return graph_op(g, OP_EXTENT, 0, NULL, &(Attr){.extent = d, .dtype = DT_I32});
}

static Node *update_at(Graph *g, Node *x, Node *part, Node *start) {
    return graph_op(g, OP_UPDATE_AT, 3, (Node *[]){x, part, start}, NULL);
}

/* x placed along one axis into zeros of the given extent, from a start known at run time; what does
 * not fit is dropped. */
static Node *place_along(Graph *g, Node *x, int axis, Dim start, Dim extent) {
    int8_t swap[MAX_RANK];
    for (int d = 0; d < x->shape->rank; d++) swap[d] = (int8_t)(d == 0 ? axis : d == axis ? 0 : d);
    Node *part = graph_transpose(g, x, swap);
    Shape shape = *part->shape;
    shape.dim[0] = extent;
    Node *at = extent_value(g, start), *zeros = graph_const(g, x->dtype, shape, 0),
         *placed = update_at(g, zeros, part, at);
    return graph_transpose(g, placed, swap);
}

/* A start that moves with a bounded extent fits no affine constant.  Then dy is brought into increasing
 * order, dilated to n * |step| elements, and placed at the start, which the kernel gets at run time. */
static Node *dilate_moving(Graph *g, const Node *n, Node *dy, Shape shape) {
    Dim start[MAX_RANK], last[MAX_RANK];
    int64_t zero[MAX_RANK] = {0}, order[MAX_RANK], size[MAX_RANK];
    Shape wide = *n->shape;
    bool reversed = false, spaced = false;
    for (int d = 0; d < shape.rank; d++) {
        bool back = n->attr->step[d] < 0;
        Dim to_end = dim_add_const(n->shape->dim[d], -1);
        order[d] = back ? -1 : 1;
        size[d] = n->attr->step[d] * order[d];
        last[d] = back ? to_end : dim_fixed(0);
        start[d] = back ? dim_difference(n->attr->lo[d], dim_mul_const(to_end, size[d])) : n->attr->lo[d];
        wide.dim[d] = dim_mul_const(n->shape->dim[d], size[d]);
        reversed |= back;
        spaced |= size[d] > 1;
    }
    if (reversed) dy = slice(g, dy, last, order, *n->shape);
    if (spaced) dy = dilate(g, dy, zero, size, wide);
    for (int d = 0; d < shape.rank; d++) {
        bool in_place = dim_equal(start[d], dim_fixed(0)) && dim_equal(wide.dim[d], shape.dim[d]);
        if (!in_place) dy = place_along(g, dy, d, start[d], shape.dim[d]);
    }
    return dy;
}

static Node *jac_slice(Graph *g, Node *n, int k, Node *dy) {
    Shape shape = *n->in[k]->shape;
    Attr pad = {0};
    int64_t lo[MAX_RANK] = {0};
    bool dense = true, fixed = true;
    for (int d = 0; d < shape.rank; d++) {
        if (n->shape->dim[d].bound == 0) return NULL;
        pad.lo[d] = n->attr->lo[d];
        pad.hi[d] = dim_difference(dim_difference(shape.dim[d], pad.lo[d]), n->shape->dim[d]);
        fixed &= dim_is_fixed(pad.lo[d]);
        dense &= n->attr->step[d] == 1 && dim_is_fixed(pad.lo[d]) && dim_is_fixed(pad.hi[d]);
        lo[d] = pad.lo[d].bound;
    }
    if (dense) return graph_op(g, OP_PAD, 1, &dy, &pad);
    return fixed ? dilate(g, dy, lo, n->attr->step, shape) : dilate_moving(g, n, dy, shape);
}

static Node *jac_pad(Graph *g, Node *n, int k, Node *dy) { return slice(g, dy, n->attr->lo, NULL, *n->in[k]->shape); }

static Node *jac_concat(Graph *g, Node *n, int k, Node *dy) {
    Dim lo[MAX_RANK];
    int axis = n->attr->axis;
    for (int d = 0; d < n->shape->rank; d++) lo[d] = dim_fixed(0);
    for (int i = 0; i < k; i++) lo[axis] = dim_sum(lo[axis], n->in[i]->shape->dim[axis]);
    return slice(g, dy, lo, NULL, *n->in[k]->shape);
}

static Node *jac_slice_at(Graph *g, Node *n, int k, Node *dy) {
    return k == 0 ? update_at(g, zeros_like(g, n->in[0]), dy, n->in[1]) : NULL;
}

static Node *jac_update_at(Graph *g, Node *n, int k, Node *dy) {
    if (k == 0) return update_at(g, dy, zeros_like(g, n->in[1]), n->in[2]);
    return graph_op(g, OP_SLICE_AT, 2, (Node *[]){dy, n->in[2]}, &(Attr){.extent = n->in[1]->shape->dim[0]});
}

/* ---- reductions ---------------------------------------------------------------------------------- */
static Node *jac_sum(Graph *g, Node *n, int k, Node *dy) {
    return broadcast_back(g, dy, *n->in[k]->shape, n->attr->n_axes, n->attr->axes);
}

/* i32 over `shape`: the row-major index over the listed axes, as argmax counts it. */
static Node *linear_index(Graph *g, Shape shape, int n_axes, const int8_t *axes) {
    Node *index = graph_iota(g, shape, axes[0]);
    for (int i = 1; i < n_axes; i++) {
        Node *extent = graph_broadcast(g, extent_value(g, shape.dim[axes[i]]), shape, axes); /* of a scalar: no axes */
        Node *iota = graph_iota(g, shape, axes[i]);
        index = graph_binary(g, OP_ADD, graph_binary(g, OP_MUL, index, extent), iota);
    }
    return index;
}

static Node *jac_extremum(Graph *g, Node *n, int k, Node *dy) {
    Node *x = n->in[k];
    const Attr *attr = n->attr;
    if (attr->n_axes == 0) return dy;
    Node *key = n->op == OP_RMAX ? x : graph_unary(g, OP_NEG, x);
    Node *where =
        broadcast_back(g, graph_reduce(g, OP_ARGMAX, key, attr->n_axes, attr->axes), *x->shape, attr->n_axes, attr->axes);
    Node *first = graph_binary(g, OP_EQ, linear_index(g, *x->shape, attr->n_axes, attr->axes), where);
    Node *zeros = zeros_like(g, x);
    return graph_select(g, first, broadcast_back(g, dy, *x->shape, attr->n_axes, attr->axes), zeros);
}

static Node *scan(Graph *g, Node *x, const Attr *attr) { return graph_op(g, OP_SCAN, 1, &x, attr); }

/* A product over several axes is a chain of products over one, last axis first.  Over one axis each
 * element receives dy times the product of all others: no division, so zeros are exact. */
static Node *jac_prod(Graph *g, Node *n, int k, Node *dy) {
    int8_t axes[MAX_RANK];
    int n_axes = 0;
    bool reduced[MAX_RANK] = {false};
    for (int i = 0; i < n->attr->n_axes; i++) reduced[n->attr->axes[i]] = true;
    for (int d = 0; d < n->in[k]->shape->rank; d++)
        if (reduced[d]) axes[n_axes++] = (int8_t)d;
    Node *partial[MAX_RANK + 1];
    partial[n_axes] = n->in[k];
    for (int i = n_axes - 1; i > 0; i--) partial[i] = graph_reduce(g, OP_PROD, partial[i + 1], 1, &axes[i]);
    for (int i = 0; i < n_axes; i++) {
        Node *x = partial[i + 1];
        Attr attr = {.axis = axes[i], .scan = SCAN_PROD, .exclusive = true};
        Node *before = scan(g, x, &attr);
        attr.reverse = true;
        Node *others = graph_binary(g, OP_MUL, before, scan(g, x, &attr));
        dy = graph_binary(g, OP_MUL, broadcast_back(g, dy, *x->shape, 1, &axes[i]), others);
    }
    return dy;
}

/* out[p] = x[p + by] along one axis, 0 beyond its ends. */
static Node *shift(Graph *g, Node *x, int axis, int64_t by) {
    int64_t lo[MAX_RANK] = {0}, step[MAX_RANK];
    for (int d = 0; d < MAX_RANK; d++) step[d] = 1;
    lo[axis] = -by;
    return dilate(g, x, lo, step, *x->shape);
}

/* r_j = d_j + a_j r_{j+1} along an axis, r_{j-1} in reverse. */
static Node *linear_recurrence(Graph *g, Node *a, Node *d, int axis, bool reverse) {
    return graph_op(g, OP_SCAN, 2, (Node *[]){d, a}, &(Attr){.axis = axis, .scan = SCAN_LINEAR, .reverse = reverse});
}

/* y_i is the product of x_k over k <= i (k < i when exclusive): dx_j = E_j r_j, with E the exclusive product
 * and r_j the sum over i of dy_i times the product of what lies between j and i, r_j = dy_j + x_{j+1} r_{j+1}.
 * No division, so zeros are exact. */
static Node *jac_scan_prod(Graph *g, Node *x, const Attr *attr, Node *dy) {
    Attr exclusive = *attr;
    exclusive.exclusive = true;
    int direction = attr->reverse ? -1 : 1;
    Node *after = shift(g, x, attr->axis, direction);
    Node *sum = attr->exclusive ? shift(g, dy, attr->axis, direction) : dy;
    sum = linear_recurrence(g, after, sum, attr->axis, !attr->reverse);
    return graph_binary(g, OP_MUL, scan(g, x, &exclusive), sum);
}

/* y_i = a_i y_{i-1} + x_i: dx_j = r_j = dy_j + a_{j+1} r_{j+1}, and da_j = y_{j-1} r_j. */
static Node *jac_scan_linear(Graph *g, Node *n, int k, Node *dy) {
    const Attr *attr = n->attr;
    const int direction = attr->reverse ? -1 : 1;
    Node *after = shift(g, n->in[1], attr->axis, direction);
    Node *sum = linear_recurrence(g, after, dy, attr->axis, !attr->reverse);
    return k == 0 ? sum : graph_binary(g, OP_MUL, shift(g, n, attr->axis, -direction), sum);
}

static Node *jac_scan(Graph *g, Node *n, int k, Node *dy) {
    if (n->attr->scan == SCAN_PROD) return jac_scan_prod(g, n->in[k], n->attr, dy);
    if (n->attr->scan == SCAN_LINEAR) return jac_scan_linear(g, n, k, dy);
    Attr attr = *n->attr;
    attr.reverse = !attr.reverse;
    return scan(g, dy, &attr);
}

/* ---- indexed ------------------------------------------------------------------------------------- */
static Node *jac_gather(Graph *g, Node *n, int k, Node *dy) {
    return graph_op(g, OP_SCATTER_ADD, 2, (Node *[]){dy, n->in[1]}, &(Attr){.extent = n->in[k]->shape->dim[0]});
}

static Node *jac_scatter_add(Graph *g, Node *n, int k, Node *dy) {
    (void)k;
    return graph_op(g, OP_GATHER, 2, (Node *[]){dy, n->in[1]}, NULL);
}

/* To the first of the greatest.  Positions, not values, are compared: a value that is computed again may differ in its last bits. */
static Node *jac_scatter_max(Graph *g, Node *n, int k, Node *dy) {
    Node *x = n->in[k], *ids = n->in[1], *passed = graph_op(g, OP_GATHER, 2, (Node *[]){dy, ids}, NULL);
    int8_t axes[MAX_RANK];
    for (int d = 0; d < ids->shape->rank; d++) axes[d] = (int8_t)d;
    if (ids->shape->rank == 0) return passed;
    Node *first = graph_op(g, OP_SCATTER_ARGMAX, 2, (Node *[]){x, ids}, n->attr);
    Node *here = graph_binary(g, OP_EQ, graph_op(g, OP_GATHER, 2, (Node *[]){first, ids}, NULL),
                              linear_index(g, *x->shape, ids->shape->rank, axes));
    return graph_select(g, here, passed, zeros_like(g, x));
}

static JacobianRule *const rule[OP_COUNT] = {
    [OP_RESHAPE] = jac_reshape,
    [OP_TRANSPOSE] = jac_transpose,
    [OP_BROADCAST] = jac_broadcast,
    [OP_SLICE] = jac_slice,
    [OP_PAD] = jac_pad,
    [OP_CONCAT] = jac_concat,
    [OP_SLICE_AT] = jac_slice_at,
    [OP_UPDATE_AT] = jac_update_at,
    [OP_SUM] = jac_sum,
    [OP_RMAX] = jac_extremum,
    [OP_RMIN] = jac_extremum,
    [OP_PROD] = jac_prod,
    [OP_SCAN] = jac_scan,
    [OP_GATHER] = jac_gather,
    [OP_SCATTER_ADD] = jac_scatter_add,
    [OP_SCATTER_MAX] = jac_scatter_max,
};

/* ---- the interface -------------------------------------------------------------------------------- */
static bool has_rule(const Node *n, int k) {
    return n->op == OP_CONTRACT || rule[n->op] || (k < 3 && derivative[n->op][k]);
}

bool jacobian_exists(const Node *n, int k) {
    return dtype_is_float(n->dtype) && dtype_is_float(n->in[k]->dtype) && has_rule(n, k);
}

bool jacobian_missing(const Node *n, int k) {
    Jacobian j = op_info[n->op].jacobian;
    return dtype_is_float(n->dtype) && dtype_is_float(n->in[k]->dtype) && !has_rule(n, k) && j != JAC_ZERO &&
           j != JAC_SOURCE;
}

Node *jacobian_product(PassContext *c, Graph *g, Node *n, int k, Node *dy) {
    if (n->op == OP_CONTRACT) return jacobian_contract(c, g, n, k, dy);
    if (rule[n->op]) return rule[n->op](g, n, k, dy);
    Formula f = {.g = g, .n = n, .dy = dy, .at = derivative[n->op][k]};
    return formula(&f);
}
