/* Built-in functions: derivatives as values. */
#include "frontend/lower.h"

static bool is_float_tensor(Lower *L, const BuiltinCall *c, const char *formal, Value v) {
    if (v.kind == VAL_POISON) return false;
    if (v.kind != VAL_TENSOR) {
        lower_fail(L, E0204, c->loc,
                   "give it a name that the other is computed from, for instance an input or a parameter",
                   "'%s' is between two tensors, and %s is %s", c->builtin->name, formal, val_describe(L->arena, v));
        return false;
    }
    if (dtype_is_float(v.node->dtype)) return true;
    lower_fail(L, E0204, c->loc, "differentiate before comparing, rounding or converting",
               "'%s' needs floating values, and %s is %s", c->builtin->name, formal, val_describe(L->arena, v));
    return false;
}

static bool depends_on(const Lower *L, const Node *y, const Node *x) {
    if (x->id > y->id) return false;
    Arena *scratch = arena_new();
    bool *needed = ARENA_ARRAY(scratch, bool, y->id - x->id + 1); /* by id, from x's on */
    needed[y->id - x->id] = true;
    for (int i = y->id; i > x->id; i--) {
        const Node *n = L->g->nodes.at[i];
        for (int k = 0; needed[i - x->id] && k < n->n_in; k++)
            if (n->in[k]->id >= x->id) needed[n->in[k]->id - x->id] = true;
    }
    const bool found = needed[0];
    arena_free(scratch);
    return found;
}

/* The two values, checked; false: reported. In entry init parameters and states are what they begin as, numbers often.
 */
static bool take_pair(Lower *L, const BuiltinCall *c) {
    const bool ok = is_float_tensor(L, c, "y", c->arg[0]);
    if (!is_float_tensor(L, c, "x", c->arg[1]) || !ok) return false;
    if (!lower_starts(L) && !depends_on(L, c->arg[0].node, c->arg[1].node))
        lower_warn(L, W0304, c->loc, "x must be a value that y is computed from: name it first, then use that name",
                   "'%s' is zero: y is not computed from x", c->builtin->name);
    return true;
}

/* The factor of a product, of the shape and type of `like`, or a number, which stands for each element; NULL:
 * reported. */
static Node *take_factor(Lower *L, const BuiltinCall *c, const char *formal, const char *like_formal,
                         const Node *like) {
    const Value v = c->arg[2];
    if (v.kind == VAL_POISON) return NULL;
    if (val_is_number(v)) return t_fill(L, like->dtype, *like->shape, val_number(v));
    if (v.kind == VAL_TENSOR && v.node->dtype == like->dtype && shape_same(v.node->shape, like->shape)) return v.node;
    lower_fail(L, v.kind == VAL_TENSOR && v.node->dtype == like->dtype ? E0203 : E0204, c->loc,
               arena_printf(L->arena, "write broadcast(%s, %s), or a number for all elements", formal, like_formal),
               "'%s': %s must be like %s, a tensor %s%s, not %s", c->builtin->name, formal, like_formal,
               dtype_name(like->dtype), shape_text(L->arena, *like->shape), val_describe(L->arena, v));
    return NULL;
}

static Node *vjp(Lower *L, Node *y, Node *x, Node *u) {
    return t_node(L, OP_VJP, 3, (Node *[]){y, x, u}, NULL, x->dtype, *x->shape);
}

static Value run_vjp(Lower *L, const BuiltinCall *c) {
    if (!take_pair(L, c)) return val_poison();
    Node *y = c->arg[0].node, *x = c->arg[1].node, *u = take_factor(L, c, "u", "y", y);
    return u ? val_tensor(vjp(L, y, x, u)) : val_poison();
}

/* u dy/dx is linear in u, so that its own derivative by u, in the direction v, is dy/dx v, whatever u is. */
static Value run_jvp(Lower *L, const BuiltinCall *c) {
    if (!take_pair(L, c)) return val_poison();
    Node *y = c->arg[0].node, *x = c->arg[1].node, *v = take_factor(L, c, "v", "x", x);
    if (!v) return val_poison();
    Node *u = t_fill(L, y->dtype, *y->shape, 0);
    return val_tensor(vjp(L, vjp(L, y, x, u), u, v));
}

/* The batch argument: false: reported. *out is -1 for none. */
static bool take_batch(Lower *L, const BuiltinCall *c, int *out) {
    const Value v = c->arg[2];
    const Shape y = *c->arg[0].node->shape, x = *c->arg[1].node->shape;
    const int least = y.rank < x.rank ? y.rank : x.rank;
    *out = -1;
    if (v.kind == VAL_NONE) return true;
    if (v.kind == VAL_POISON) return false;
    if (v.kind != VAL_INT) {
        lower_fail(L, E0209, c->loc, "write batch = 0, or leave it out", "batch is a constant axis, not %s",
                   val_describe(L->arena, v));
        return false;
    }
    if (v.i < 0 || v.i >= least) {
        lower_fail(L, E0208, c->loc, "an axis that both have, counted from the front",
                   "batch = %lld is no axis of both y %s and x %s", (long long)v.i, shape_text(L->arena, y),
                   shape_text(L->arena, x));
        return false;
    }
    *out = (int)v.i;
    if (dim_equal(y.dim[*out], x.dim[*out])) return true;
    lower_fail(L, E0203, c->loc, "leave batch out for all entries of y by all of x",
               "axis %d is no batch of both: y is %s, x is %s", *out, shape_text(L->arena, y), shape_text(L->arena, x));
    return false;
}

static void append_axes(Shape *to, Shape from, int batch) {
    for (int d = 0; d < from.rank; d++)
        if (d != batch) to->dim[to->rank++] = from.dim[d];
}

static Value run_jacobian(Lower *L, const BuiltinCall *c) {
    int batch;
    if (!take_pair(L, c) || !take_batch(L, c, &batch)) return val_poison();
    Node *y = c->arg[0].node, *x = c->arg[1].node;
    const int rank = y->shape->rank + x->shape->rank - (batch >= 0);
    if (rank > MAX_RANK)
        return lower_fail(L, E0216, c->loc, "bring y or x to fewer axes first, for instance flatten(y)",
                          "the Jacobian of %s by %s has %d axes; %d are the most", shape_text(L->arena, *y->shape),
                          shape_text(L->arena, *x->shape), rank, MAX_RANK);
    if (y->dtype != x->dtype)
        return lower_fail(L, E0204, c->loc, "convert one of them", "'jacobian': y is %s, x is %s", dtype_name(y->dtype),
                          dtype_name(x->dtype));
    Shape shape = shape_scalar();
    if (batch >= 0) shape.dim[shape.rank++] = y->shape->dim[batch];
    append_axes(&shape, *y->shape, batch);
    append_axes(&shape, *x->shape, batch);
    if (!check_shape(L, shape, c->loc)) return val_poison();
    return val_tensor(t_node(L, OP_JACOBIAN, 2, (Node *[]){y, x}, &(Attr){.axis = batch}, y->dtype, shape));
}

const Builtin builtins_derivative[] = {
    {"jacobian", "y x batch=none", run_jacobian, OP_JACOBIAN, false},
    {"jvp", "y x v", run_jvp, OP_VJP, false},
    {"vjp", "y x u", run_vjp, OP_VJP, false},
    {0},
};
