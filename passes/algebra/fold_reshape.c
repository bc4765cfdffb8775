/* Keeping folded dims folded.  Where a contraction has merged batch and time, its result is a reshape that
 * splits them again; what follows works as well on the merged dim.  These rules move such a split below
 * elementwise ops, reductions, broadcasts, slices and pads, until it meets the merge in front of the next
 * contraction and both go.  So an epilogue stays next to its matrix product. */
#include "passes/rewrite/rewrite.h"
#include <string.h>

/* A reshape whose every input dim is a run of output dims: in dim i is out dims [first[i], first[i + 1]). */
typedef struct Split {
    const Node *reshape;
    Node *whole; /* what it splits */
    int8_t first[MAX_RANK + 1];
    int8_t group[MAX_RANK]; /* of each output dim: the input dim */
} Split;

static bool find_split(const Rewriter *r, const Node *x, Split *s) {
    if (!rewrite_seen(r, x, OP_RESHAPE)) return false;
    const Shape *from = x->in[0]->shape, *to = x->shape;
    if (from->rank >= to->rank || from->rank == 0) return false;
    int o = 0;
    for (int i = 0; i < from->rank; i++) {
        if (o == to->rank) return false;
        s->first[i] = (int8_t)o;
        Dim run = to->dim[o];
        s->group[o++] = (int8_t)i;
        while (!dim_equal(run, from->dim[i])) {
            if (o == to->rank || !dim_is_fixed(to->dim[o]) || run.bound >= from->dim[i].bound) return false;
            run = dim_mul_const(run, to->dim[o].bound);
            s->group[o++] = (int8_t)i;
        }
    }
    s->first[from->rank] = (int8_t)o;
    s->reshape = x;
    s->whole = x->in[0];
    return o == to->rank;
}

static bool is_single(const Split *s, int group) { return s->first[group + 1] - s->first[group] == 1; }

/* Each dim of `to` is a run of dims of `from`: out dim o of dims [first[o], first[o + 1]). */
static bool find_runs(const Shape *from, const Shape *to, int8_t first[MAX_RANK + 1]) {
    int d = 0;
    for (int o = 0; o < to->rank; o++) {
        if (d == from->rank) return false;
        first[o] = (int8_t)d;
        Dim run = from->dim[d++];
        while (!dim_equal(run, to->dim[o])) {
            if (d == from->rank || !dim_is_fixed(from->dim[d]) || run.bound >= to->dim[o].bound) return false;
            run = dim_mul_const(run, from->dim[d++].bound);
        }
    }
    first[to->rank] = (int8_t)d;
    return d == from->rank;
}

/* A broadcast in the merged shape: where a merged run is all new or all old, the merge goes in front.  Dims of one element are
 * either. */
static Node *merged_broadcast(Rewriter *r, const Node *x, const Shape *to) {
    int8_t first[MAX_RANK + 1], axes[MAX_RANK];
    bool is_new[MAX_RANK];
    Shape inner = {0};
    if (!find_runs(x->shape, to, first)) return NULL;
    for (int d = 0; d < x->shape->rank; d++) is_new[d] = true;
    for (int d = 0; d < x->attr->n_axes; d++) is_new[x->attr->axes[d]] = false;
    for (int o = 0; o < to->rank; o++) {
        bool fresh = is_new[first[o]], found = false;
        for (int d = first[o]; d < first[o + 1]; d++) {
            if (dim_is_unit(x->shape->dim[d])) continue;
            if (found && is_new[d] != fresh) return NULL;
            fresh = is_new[d], found = true;
        }
        if (fresh) continue;
        axes[inner.rank] = (int8_t)o;
        inner.dim[inner.rank++] = to->dim[o];
    }
    return rewrite_broadcast(r, rewrite_reshape(r, x->in[0], inner), *to, axes);
}

/* Numbers along a dim that is merged with none of several elements. */
static Node *merged_iota(Rewriter *r, const Node *x, const Shape *to) {
    int8_t first[MAX_RANK + 1];
    Attr attr = *x->attr;
    if (!find_runs(x->shape, to, first)) return NULL;
    for (int o = 0; o < to->rank; o++) {
        if (x->attr->axis < first[o] || x->attr->axis >= first[o + 1]) continue;
        for (int d = first[o]; d < first[o + 1]; d++)
            if (d != x->attr->axis && !dim_is_unit(x->shape->dim[d])) return NULL;
        attr.axis = (int8_t)o;
        return rewrite_node(r, OP_IOTA, 0, NULL, &attr, x->dtype, *to);
    }
    return NULL;
}

/* b in the merged shape where that takes no reshape but of what is broadcast, else NULL. */
static Node *merged_freely(Rewriter *r, Node *b, Shape shape, int depth) {
    Node *in[4];
    bool element = op_info[b->op].cls == CLASS_ELEMENT && rewrite_seen(r, b, b->op) && b->n_in <= 4;
    if (rewrite_seen(r, b, OP_BROADCAST) && b->in[0]->shape->rank) return merged_broadcast(r, b, &shape);
    if (b->op == OP_IOTA) return merged_iota(r, b, &shape);
    if (!element || depth == 0) {
        Node *merged = rewrite_reshape(r, b, shape);
        return merged->op == OP_RESHAPE && merged->in[0] == b ? NULL : merged;
    }
    for (int k = 0; k < b->n_in; k++) {
        in[k] = merged_freely(r, b->in[k], shape, depth - 1);
        if (!in[k]) return NULL;
    }
    return rewrite_op(r, b->op, b->n_in, in, b->attr);
}

/* Of indices, constants and what is given: it is computed where it is read, and a reshape of it is arithmetic of subscripts. */
static bool is_of_indices(const Node *x, int depth) {
    const bool element = op_info[x->op].cls == CLASS_ELEMENT || x->op == OP_BROADCAST;
    for (int k = 0; element && k < x->n_in; k++)
        if (depth == 0 || !is_of_indices(x->in[k], depth - 1)) return false;
    return element || op_info[x->op].cls == CLASS_SOURCE;
}

/* f(split(a), b) = split(f(a, merge(b))).  A b that does not merge by itself may cost a reshape: a float, since it comes from where
 * nothing is merged yet, and a mask of indices.  Another mask is left there. */
Node *rule_below_element(Rewriter *r, const Node *n) {
    Split s;
    int split = 0;
    while (split < n->n_in && !find_split(r, n->in[split], &s)) split++;
    if (split == n->n_in || n->n_in > 4) return NULL;
    Node *in[4];
    for (int k = 0; k < n->n_in; k++) {
        in[k] = merged_freely(r, n->in[k], *s.whole->shape, 3);
        if (!in[k] && !dtype_is_float(n->in[k]->dtype) && !is_of_indices(n->in[k], 8)) return NULL;
        if (!in[k]) in[k] = rewrite_reshape(r, n->in[k], *s.whole->shape);
    }
    return rewrite_reshape(r, rewrite_op(r, n->op, n->n_in, in, n->attr), *n->shape);
}

/* Every run is reduced as a whole or not at all. */
Node *rule_below_reduce(Rewriter *r, const Node *n) {
    Split s;
    if (!find_split(r, n->in[0], &s)) return NULL;
    int count[MAX_RANK] = {0}, n_axes = 0;
    int8_t axes[MAX_RANK];
    for (int i = 0; i < n->attr->n_axes; i++) count[s.group[n->attr->axes[i]]]++;
    for (int i = 0; i < s.whole->shape->rank; i++) {
        if (count[i] == 0) continue;
        if (count[i] != s.first[i + 1] - s.first[i]) return NULL;
        axes[n_axes++] = (int8_t)i;
    }
    return rewrite_reshape(r, rewrite_reduce(r, n->op, s.whole, n_axes, axes), *n->shape);
}

Node *rule_below_scan(Rewriter *r, const Node *n) {
    Split s;
    if (!find_split(r, n->in[0], &s) || !is_single(&s, s.group[n->attr->axis])) return NULL;
    Attr attr = *n->attr;
    attr.axis = s.group[n->attr->axis];
    Node *const in[2] = {s.whole, n->n_in > 1 ? rewrite_reshape(r, n->in[1], *s.whole->shape) : NULL};
    return rewrite_reshape(r, rewrite_op(r, OP_SCAN, n->n_in, in, &attr), *n->shape);
}

/* No new axis comes between the dims of one run. */
Node *rule_below_broadcast(Rewriter *r, const Node *n) {
    Split s;
    if (!find_split(r, n->in[0], &s)) return NULL;
    int8_t from[MAX_RANK], axes[MAX_RANK];
    Shape folded = {0};
    memset(from, -1, sizeof from);
    for (int d = 0; d < n->attr->n_axes; d++) from[n->attr->axes[d]] = (int8_t)d;
    for (int d = 0; d < n->shape->rank; d++) {
        int group = from[d] < 0 ? -1 : s.group[from[d]];
        if (group >= 0 && from[d] > s.first[group]) {
            if (from[d - 1] != from[d] - 1) return NULL;
            continue;
        }
        if (group >= 0) axes[group] = (int8_t)folded.rank;
        folded.dim[folded.rank++] = group >= 0 ? s.whole->shape->dim[group] : n->shape->dim[d];
    }
    return rewrite_reshape(r, rewrite_broadcast(r, s.whole, folded, axes), *n->shape);
}

/* Slice and pad that leave the dims of every longer run as they are. */
Node *rule_below_window(Rewriter *r, const Node *n) {
    Split s;
    if (!find_split(r, n->in[0], &s)) return NULL;
    Attr attr = {.value = n->attr->value};
    for (int d = 0; d < n->shape->rank; d++) {
        bool same = dim_equal(n->shape->dim[d], n->in[0]->shape->dim[d]) && dim_equal(n->attr->lo[d], dim_fixed(0)) &&
                    (n->op == OP_PAD || n->attr->step[d] == 1);
        int group = s.group[d];
        bool slice = n->op == OP_SLICE;
        if (is_single(&s, group)) {
            attr.lo[group] = n->attr->lo[d], attr.hi[group] = n->attr->hi[d], attr.step[group] = n->attr->step[d];
        } else if (same) {
            attr.lo[group] = dim_fixed(0), attr.hi[group] = slice ? s.whole->shape->dim[group] : dim_fixed(0);
            attr.step[group] = slice;
        } else {
            return NULL;
        }
    }
    return rewrite_reshape(r, rewrite_op(r, n->op, 1, &s.whole, &attr), *n->shape);
}

/* merge(broadcast(a)). */
Node *rule_merge_of_broadcast(Rewriter *r, const Node *n) {
    const Node *x = rewrite_seen(r, n->in[0], OP_BROADCAST);
    return x ? merged_broadcast(r, x, n->shape) : NULL;
}

static bool is_whole(const Node *slice, int d) {
    return dim_equal(slice->shape->dim[d], slice->in[0]->shape->dim[d]) && slice->attr->step[d] == 1 &&
           dim_equal(slice->attr->lo[d], dim_fixed(0));
}

/* merge(slice(a)): where the merged dims are not sliced, the merge goes in front and slices meet slices. */
Node *rule_merge_of_slice(Rewriter *r, const Node *n) {
    const Node *x = rewrite_seen(r, n->in[0], OP_SLICE);
    if (!x || n->shape->rank >= x->shape->rank) return NULL;
    Shape merged = *n->shape;
    Attr attr = {0};
    int d = 0;
    for (int o = 0; o < n->shape->rank; o++) {
        if (d == x->shape->rank) return NULL;
        attr.lo[o] = x->attr->lo[d], attr.hi[o] = n->shape->dim[o], attr.step[o] = x->attr->step[d];
        merged.dim[o] = x->in[0]->shape->dim[d];
        Dim run = x->shape->dim[d++];
        if (dim_equal(run, n->shape->dim[o])) continue;
        bool whole = is_whole(x, d - 1);
        while (whole && !dim_equal(run, n->shape->dim[o])) {
            whole = d < x->shape->rank && is_whole(x, d) && dim_is_fixed(x->shape->dim[d]) &&
                    run.bound < n->shape->dim[o].bound;
            if (whole) run = dim_mul_const(run, x->shape->dim[d++].bound);
        }
        if (!whole) return NULL;
        merged.dim[o] = n->shape->dim[o];
    }
    if (d != x->shape->rank) return NULL;
    return rewrite_op(r, OP_SLICE, 1, (Node *[]){rewrite_reshape(r, x->in[0], merged)}, &attr);
}

/* Random numbers are drawn by linear index, which a reshape keeps. */
Node *rule_reshape_of_random(Rewriter *r, const Node *n) {
    const Node *x = rewrite_seen(r, n->in[0], OP_RANDOM);
    return x ? rewrite_node(r, OP_RANDOM, x->n_in, x->in, x->attr, x->dtype, *n->shape) : NULL;
}

Node *rule_fold(Rewriter *r, const Node *n) {
    switch (n->op) {
    case OP_SCAN: return rewrite_apply(r, REWRITE_below_scan, n);
    case OP_BROADCAST: return rewrite_apply(r, REWRITE_below_broadcast, n);
    case OP_SLICE:
    case OP_PAD: return rewrite_apply(r, REWRITE_below_window, n);
    case OP_RESHAPE: {
        Node *merged = rewrite_apply(r, REWRITE_merge_of_broadcast, n);
        if (!merged) merged = rewrite_apply(r, REWRITE_merge_of_slice, n);
        return merged ? merged : rewrite_apply(r, REWRITE_reshape_of_random, n);
    }
    default: break;
    }
    if (op_info[n->op].cls == CLASS_ELEMENT) return rewrite_apply(r, REWRITE_below_element, n);
    return op_info[n->op].cls == CLASS_REDUCE ? rewrite_apply(r, REWRITE_below_reduce, n) : NULL;
}
