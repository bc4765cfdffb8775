/* Rules on movement and reductions: identities, chains of one op, and constants. */
#include "passes/rewrite/rewrite.h"
#include <string.h>

static Node *splat(Rewriter *r, const Node *n, double value) { return rewrite_const(r, n->dtype, *n->shape, value); }

static bool is_constant(const Rewriter *r, const Node *n) { return rewrite_seen(r, n, OP_CONST) != NULL; }

/* The one dim of more than one element; -1: there are none, or several. */
static int only_dim(const Shape *s) {
    int found = -1;
    for (int d = 0; d < s->rank; d++) {
        if (dim_is_unit(s->dim[d])) continue;
        if (found >= 0) return -1;
        found = d;
    }
    return found;
}

static Node *iota_along(Rewriter *r, const Node *iota, Shape shape, int axis) {
    Attr attr = *iota->attr;
    attr.axis = (int8_t)axis;
    return rewrite_node(r, OP_IOTA, 0, NULL, &attr, iota->dtype, shape);
}

/* Numbers in a row stay those, whatever dims of one element are beside them: who compares ids with them finds an iota. */
static Node *reshaped_iota(Rewriter *r, const Node *x, const Shape *to) {
    const int from = only_dim(x->shape), axis = only_dim(to);
    if (from != x->attr->axis || from < 0 || axis < 0 || !dim_equal(x->shape->dim[from], to->dim[axis])) return NULL;
    return iota_along(r, x, *to, axis);
}

Node *rule_reshape(Rewriter *r, const Node *n) {
    Node *x = n->in[0];
    if (shape_same(x->shape, n->shape)) return x;
    if (is_constant(r, x)) return splat(r, n, x->attr->value);
    if (rewrite_seen(r, x, OP_IOTA)) return reshaped_iota(r, x, n->shape);
    return rewrite_seen(r, x, OP_RESHAPE) ? rewrite_reshape(r, x->in[0], *n->shape) : NULL;
}

Node *rule_transpose(Rewriter *r, const Node *n) {
    Node *x = n->in[0];
    bool identity = true;
    for (int d = 0; d < n->shape->rank; d++) identity &= n->attr->axes[d] == d;
    if (identity) return x;
    if (is_constant(r, x)) return splat(r, n, x->attr->value);
    if (!rewrite_seen(r, x, OP_TRANSPOSE)) return NULL;
    Attr attr = {.n_axes = n->shape->rank};
    for (int d = 0; d < n->shape->rank; d++) attr.axes[d] = x->attr->axes[n->attr->axes[d]];
    return rewrite_op(r, OP_TRANSPOSE, 1, x->in, &attr);
}

Node *rule_broadcast(Rewriter *r, const Node *n) {
    Node *x = n->in[0];
    if (x->shape->rank == n->shape->rank) return x;
    if (is_constant(r, x)) return splat(r, n, x->attr->value);
    const int axis = rewrite_seen(r, x, OP_IOTA) ? n->attr->axes[x->attr->axis] : -1;
    if (axis >= 0) return dim_equal(x->shape->dim[x->attr->axis], n->shape->dim[axis]) ? iota_along(r, x, *n->shape, axis) : NULL;
    if (!rewrite_seen(r, x, OP_BROADCAST)) return NULL;
    int8_t axes[MAX_RANK];
    for (int d = 0; d < x->in[0]->shape->rank; d++) axes[d] = n->attr->axes[x->attr->axes[d]];
    return rewrite_broadcast(r, x->in[0], *n->shape, axes);
}

static bool same_start(Dim lo) { return dim_is_fixed(lo) && lo.bound == 0; }

/* x[lo1 + s1*i][lo2 + s2*j] = x[lo1 + s1*lo2 + s1*s2*j] */
static Node *slice_of_slice(Rewriter *r, const Node *n, const Node *x) {
    Attr attr = {0};
    for (int d = 0; d < n->shape->rank; d++) {
        attr.hi[d] = n->shape->dim[d];
        attr.step[d] = x->attr->step[d] * n->attr->step[d];
        if (!dim_add(x->attr->lo[d], dim_mul_const(n->attr->lo[d], x->attr->step[d]), &attr.lo[d])) return NULL;
    }
    return rewrite_op(r, OP_SLICE, 1, x->in, &attr);
}

Node *rule_slice(Rewriter *r, const Node *n) {
    Node *x = n->in[0];
    bool identity = true, empty = false;
    for (int d = 0; d < n->shape->rank; d++) {
        bool forward = n->attr->step[d] == 1 || (dim_is_fixed(n->shape->dim[d]) && n->shape->dim[d].bound == 1);
        identity &= forward && same_start(n->attr->lo[d]) && dim_equal(n->shape->dim[d], x->shape->dim[d]);
        empty |= n->shape->dim[d].bound == 0;
    }
    if (identity) return x;
    if (is_constant(r, x)) return splat(r, n, x->attr->value);
    return !empty && rewrite_seen(r, x, OP_SLICE) ? slice_of_slice(r, n, x) : NULL;
}

Node *rule_pad(Rewriter *r, const Node *n) {
    Node *x = n->in[0];
    const Attr *attr = n->attr;
    bool same_value = false;
    if (shape_same(x->shape, n->shape)) return x;
    if (is_constant(r, x) && x->attr->value == attr->value) return splat(r, n, attr->value);
    if (rewrite_seen(r, x, OP_PAD)) same_value = memcmp(&x->attr->value, &attr->value, sizeof attr->value) == 0;
    if (!same_value) return NULL;
    Attr sum = {.value = attr->value};
    for (int d = 0; d < n->shape->rank; d++) {
        sum.lo[d] = dim_fixed(attr->lo[d].bound + x->attr->lo[d].bound);
        sum.hi[d] = dim_fixed(attr->hi[d].bound + x->attr->hi[d].bound);
    }
    return rewrite_op(r, OP_PAD, 1, x->in, &sum);
}

/* ---- reductions ------------------------------------------------------------------------------------ */
/* Axes of extent 1 are not reduced but dropped. */
Node *rule_drop_unit_axes(Rewriter *r, const Node *n) {
    Node *x = n->in[0];
    int8_t axes[MAX_RANK];
    Shape squeezed = {0};
    int left = 0, next = 0;
    if (!shape_is_fixed(*x->shape)) return n->attr->n_axes ? NULL : x; /* a reshape keeps bounded dims apart */
    for (int d = 0; d < x->shape->rank; d++) {
        bool reduced = next < n->attr->n_axes && n->attr->axes[next] == d;
        next += reduced;
        if (reduced && dim_is_unit(x->shape->dim[d])) continue;
        if (reduced) axes[left++] = (int8_t)squeezed.rank;
        squeezed.dim[squeezed.rank++] = x->shape->dim[d];
    }
    if (left == n->attr->n_axes) return n->attr->n_axes ? NULL : x;
    x = rewrite_reshape(r, x, squeezed);
    return left ? rewrite_reduce(r, n->op, x, left, axes) : x;
}

/* reduce(reduce(x)) over one set of axes. */
Node *rule_reduce_once(Rewriter *r, const Node *n) {
    const Node *x = rewrite_seen(r, n->in[0], n->op);
    if (!x) return NULL;
    bool inner[MAX_RANK] = {false}, outer[MAX_RANK] = {false};
    int8_t axes[MAX_RANK];
    int n_axes = 0;
    for (int i = 0; i < x->attr->n_axes; i++) inner[x->attr->axes[i]] = true;
    for (int i = 0; i < n->attr->n_axes; i++) outer[n->attr->axes[i]] = true;
    for (int d = 0, kept = 0; d < x->in[0]->shape->rank; d++) {
        bool reduced = inner[d] || outer[kept];
        if (reduced) axes[n_axes++] = (int8_t)d;
        kept += !inner[d];
    }
    return rewrite_reduce(r, n->op, x->in[0], n_axes, axes);
}

/* reduce(broadcast(x)) is a broadcast of a reduction of x: neither the copies nor the values that only
 * copies follow are walked over.  In *repeats: how often each value stood along new axes of fixed extent;
 * new axes of run-time extent are still reduced as they are.  NULL where nothing is gained. */
static Node *reduce_before_broadcast(Rewriter *r, const Node *n, double *repeats) {
    const Node *x = rewrite_seen(r, n->in[0], OP_BROADCAST);
    if (!x) return NULL;
    bool is_new[MAX_RANK], reduced[MAX_RANK] = {false};
    for (int d = 0; d < x->shape->rank; d++) is_new[d] = true;
    for (int d = 0; d < x->attr->n_axes; d++) is_new[x->attr->axes[d]] = false;
    for (int i = 0; i < n->attr->n_axes; i++) reduced[n->attr->axes[i]] = true;
    Shape wide = {0};
    int8_t first[MAX_RANK], kept_axes[MAX_RANK], left[MAX_RANK];
    int n_first = 0, n_left = 0, n_kept = 0, gone = 0;
    for (int d = 0, in = 0; d < x->shape->rank; d++) {
        Dim extent = x->shape->dim[d];
        if (!is_new[d]) in++;
        if (!is_new[d] && reduced[d]) {
            first[n_first++] = (int8_t)(in - 1);
        } else if (is_new[d] && reduced[d] && dim_is_fixed(extent) && extent.bound > 0) {
            *repeats *= (double)extent.bound;
            gone++;
        } else {
            if (reduced[d]) left[n_left++] = (int8_t)wide.rank;
            if (!is_new[d]) kept_axes[n_kept++] = (int8_t)wide.rank;
            wide.dim[wide.rank++] = extent;
        }
    }
    if (gone + n_first == 0) return NULL;
    Node *part = n_first ? rewrite_reduce(r, n->op, x->in[0], n_first, first) : x->in[0];
    part = rewrite_broadcast(r, part, wide, kept_axes);
    return n_left ? rewrite_reduce(r, n->op, part, n_left, left) : part;
}

/* What the reduced axes hold at fixed extents; false if one is bounded. */
static bool reduced_elements(const Node *n, double *count) {
    *count = 1;
    for (int i = 0; i < n->attr->n_axes; i++) {
        Dim d = n->in[0]->shape->dim[n->attr->axes[i]];
        if (!dim_is_fixed(d)) return false;
        *count *= (double)d.bound;
    }
    return true;
}

Node *rule_sum(Rewriter *r, const Node *n) {
    double count, repeats = 1;
    if (!dtype_is_float(n->dtype) && n->dtype != DT_I32) return NULL;
    if (is_constant(r, n->in[0]) && dtype_is_float(n->dtype) && reduced_elements(n, &count))
        return splat(r, n, count > 0 ? n->in[0]->attr->value * count : 0);
    Node *once = rewrite_apply(r, REWRITE_drop_unit_axes, n);
    if (!once) once = rewrite_apply(r, REWRITE_reduce_once, n);
    if (once || !dtype_is_float(n->dtype)) return once;
    if (rewrite_seen(r, n->in[0], OP_NEG)) {
        Node *sum = rewrite_reduce(r, OP_SUM, n->in[0]->in[0], n->attr->n_axes, n->attr->axes);
        return rewrite_op(r, OP_NEG, 1, &sum, NULL);
    }
    Node *part = reduce_before_broadcast(r, n, &repeats);
    return part ? rewrite_op(r, OP_MUL, 2, (Node *[]){part, splat(r, part, repeats)}, NULL) : NULL;
}

/* Two extrema in a row stay two: over all axes at once a tie would go to another element. */
Node *rule_extremum(Rewriter *r, const Node *n) {
    double count, repeats = 1;
    if (is_constant(r, n->in[0]) && reduced_elements(n, &count) && count > 0) return splat(r, n, n->in[0]->attr->value);
    Node *once = rewrite_apply(r, REWRITE_drop_unit_axes, n);
    return once ? once : reduce_before_broadcast(r, n, &repeats);
}

Node *rule_product(Rewriter *r, const Node *n) {
    Node *once = rewrite_apply(r, REWRITE_drop_unit_axes, n);
    return once ? once : rewrite_apply(r, REWRITE_reduce_once, n);
}

Node *rule_scan(Rewriter *r, const Node *n) {
    if (dim_is_unit(n->shape->dim[n->attr->axis]))
        return n->attr->exclusive ? splat(r, n, n->attr->scan == SCAN_SUM ? 0 : 1) : n->in[0];
    const Node *factor = n->n_in > 1 ? rewrite_seen(r, n->in[1], OP_CONST) : NULL;
    if (!factor || factor->attr->value != 1) return NULL;
    return rewrite_op(r, OP_SCAN, 1, n->in, &(Attr){.axis = n->attr->axis, .reverse = n->attr->reverse});
}
