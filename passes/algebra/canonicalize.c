/* canonicalize: folding, algebra, common subexpressions, dead code.
 *
 * Needs: a legal graph.  Keeps: the results' values (rules.def says how exactly) and their derivatives;
 * it may run before and after autodiff.  Running it twice changes nothing.  Rules are data (rules.def) or
 * one function per op; this file lists which apply to what. */
#include "passes/rewrite/rewrite.h"

/* An elementwise op of constants is a constant. */
Node *rule_fold_constants(Rewriter *r, const Node *n) {
    double x[4];
    if (n->op == OP_PHILOX) return NULL;
    for (int k = 0; k < n->n_in; k++) {
        if (!rewrite_seen(r, n->in[k], OP_CONST)) return NULL;
        x[k] = n->in[k]->attr->value;
    }
    DType t = n->op == OP_CAST ? n->dtype : n->in[n->n_in - 1]->dtype;
    const double value = scalar_op(n->op, t, x);
    return rewrite_const(r, n->dtype, *n->shape, dtype_is_low(n->dtype) ? scalar_round(n->dtype, value) : value);
}

Node *rule_drop_cast(Rewriter *r, const Node *n) {
    if (n->op != OP_CAST) return NULL;
    if (n->dtype == n->in[0]->dtype) return n->in[0];
    const Node *wide = rewrite_seen(r, n->in[0], OP_CAST); /* to f32 and back is exact */
    if (!wide || wide->dtype != DT_F32 || !dtype_is_low(n->dtype)) return NULL;
    return wide->in[0]->dtype == n->dtype ? wide->in[0] : NULL;
}

static bool same_broadcast(const Node *a, const Node *b) {
    if (!shape_same(a->in[0]->shape, b->in[0]->shape)) return false;
    for (int d = 0; d < a->attr->n_axes; d++)
        if (a->attr->axes[d] != b->attr->axes[d]) return false;
    return true;
}

/* f(broadcast(a), broadcast(b)) = broadcast(f(a, b)): computed once per value, not once per copy. */
Node *rule_compute_before_broadcast(Rewriter *r, const Node *n) {
    const Node *broadcast = NULL;
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = rewrite_seen(r, n->in[k], OP_BROADCAST);
        if (!x && !rewrite_seen(r, n->in[k], OP_CONST)) return NULL;
        if (x && broadcast && !same_broadcast(x, broadcast)) return NULL;
        if (x) broadcast = x;
    }
    if (!broadcast) return NULL;
    Node *in[4];
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = rewrite_seen(r, n->in[k], OP_BROADCAST);
        in[k] = x ? x->in[0] : rewrite_const(r, n->in[k]->dtype, *broadcast->in[0]->shape, n->in[k]->attr->value);
    }
    return rewrite_broadcast(r, rewrite_op(r, n->op, n->n_in, in, n->attr), *n->shape, broadcast->attr->axes);
}

/* f(reshape(a), reshape(b)) = reshape(f(a, b)): reshapes meet, and what is computed stays next to its source. */
Node *rule_compute_before_reshape(Rewriter *r, const Node *n) {
    const Node *first = NULL;
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = rewrite_seen(r, n->in[k], OP_RESHAPE);
        if (!x && !rewrite_seen(r, n->in[k], OP_CONST)) return NULL;
        if (x && first && !shape_same(x->in[0]->shape, first->in[0]->shape)) return NULL;
        if (x && !first) first = x;
    }
    if (!first) return NULL;
    Node *in[4];
    for (int k = 0; k < n->n_in; k++) in[k] = rewrite_reshape(r, n->in[k], *first->in[0]->shape);
    return rewrite_reshape(r, rewrite_op(r, n->op, n->n_in, in, n->attr), *n->shape);
}

/* What a fixed extent and an axis of one element are is known. */
Node *rule_fold_source(Rewriter *r, const Node *n) {
    if (n->op == OP_EXTENT && dim_is_fixed(n->attr->extent))
        return rewrite_const(r, n->dtype, *n->shape, (double)n->attr->extent.bound);
    if (n->op != OP_IOTA) return NULL;
    Dim extent = n->shape->dim[n->attr->axis];
    return extent.bound <= 1 ? rewrite_const(r, n->dtype, *n->shape, 0) : NULL;
}

static const RewriteId none[] = {REWRITE_END};
static const RewriteId element_rules[] = {REWRITE_fold_constants,           REWRITE_drop_cast,
                                          REWRITE_patterns,                 REWRITE_compute_before_broadcast,
                                          REWRITE_compute_before_reshape,   REWRITE_END};
static const RewriteId special_rules[] = {REWRITE_patterns, REWRITE_END};
static const RewriteId source_rules[] = {REWRITE_fold_source, REWRITE_END};

static const RewriteId reshape_rules[] = {REWRITE_reshape, REWRITE_END},
                       transpose_rules[] = {REWRITE_transpose, REWRITE_END},
                       broadcast_rules[] = {REWRITE_broadcast, REWRITE_END},
                       slice_rules[] = {REWRITE_slice, REWRITE_slice_of_parts, REWRITE_part, REWRITE_END},
                       pad_rules[] = {REWRITE_pad, REWRITE_END},
                       concat_rules[] = {REWRITE_concat, REWRITE_concat_rolled, REWRITE_concat_of_many, REWRITE_concat_before_reshape,
                                        REWRITE_END},
                       sum_rules[] = {REWRITE_sum, REWRITE_sum_of_pad, REWRITE_sum_of_contract, REWRITE_END},
                       extremum_rules[] = {REWRITE_extremum, REWRITE_extremum_by_ids, REWRITE_END},
                       product_rules[] = {REWRITE_product, REWRITE_END}, scan_rules[] = {REWRITE_scan, REWRITE_END},
                       contract_rules[] = {REWRITE_part,       REWRITE_trace,        REWRITE_hoist_constant,
                                           REWRITE_absorb,     REWRITE_narrow_loops, REWRITE_repeated_sum,
                                           REWRITE_sum_before, REWRITE_whole_sum,    REWRITE_guarded_loops,
                                           REWRITE_END};

static const RewriteId *const by_op[OP_COUNT] = {
    [OP_RESHAPE] = reshape_rules,
    [OP_TRANSPOSE] = transpose_rules,
    [OP_BROADCAST] = broadcast_rules,
    [OP_SLICE] = slice_rules,
    [OP_PAD] = pad_rules,
    [OP_CONCAT] = concat_rules,
    [OP_SUM] = sum_rules,
    [OP_RMAX] = extremum_rules,
    [OP_RMIN] = extremum_rules,
    [OP_PROD] = product_rules,
    [OP_SCAN] = scan_rules,
    [OP_CONTRACT] = contract_rules,
};

const RewriteId *canonical_rules(Op op) {
    if (by_op[op]) return by_op[op];
    switch (op_info[op].cls) {
    case CLASS_ELEMENT: return element_rules;
    case CLASS_SOURCE: return source_rules;
    case CLASS_SPECIAL: return op == OP_STOP_GRADIENT ? special_rules : none;
    default: return none;
    }
}

Graph *pass_canonicalize(PassContext *c, Graph *g) {
    if (g->canonical) return g;
    g = rewrite_graph(c, g, canonical_rules);
    g->canonical = true;
    return g;
}
