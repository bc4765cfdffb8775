/* Follows one dim of x through the ops that lead to y. */
#include "passes/algebra/affine.h"
#include "passes/derive/batch_axis.h"
#include "passes/derive/jacobian.h"

enum {
    UNTOUCHED = -1,
    MIXED = -2
}; /* instead of a dim: does not vary with x; varies with several entries of the batch */

static int dim_of_reshape(const Node *n, int d) {
    const Shape *in = n->in[0]->shape, *out = n->shape;
    if (d >= out->rank || !dim_equal(in->dim[d], out->dim[d])) return MIXED;
    for (int i = 0; i < d; i++)
        if (!dim_equal(in->dim[i], out->dim[i])) return MIXED;
    return d;
}

static int dim_of_move(const Node *n, int k, int d) {
    const Attr *a = n->attr;
    switch (n->op) {
    case OP_RESHAPE: return dim_of_reshape(n, d);
    case OP_TRANSPOSE:
        for (int o = 0; o < n->shape->rank; o++)
            if (a->axes[o] == d) return o;
        return MIXED;
    case OP_BROADCAST: return a->axes[d];
    case OP_SLICE: {
        bool whole =
            dim_equal(a->lo[d], dim_fixed(0)) && a->step[d] == 1 && dim_equal(a->hi[d], n->in[0]->shape->dim[d]);
        return whole ? d : MIXED;
    }
    case OP_PAD: return dim_equal(a->lo[d], dim_fixed(0)) ? d : MIXED;
    case OP_CONCAT: return d == a->axis ? MIXED : d;
    default: return k < 2 && d > 0 ? d : MIXED; /* slice_at, update_at: along axis 0 */
    }
}

static int dim_of_reduce(const Node *n, int d) {
    int before = 0;
    if (n->op == OP_SCAN) return d == n->attr->axis ? MIXED : d;
    for (int i = 0; i < n->attr->n_axes; i++) {
        if (n->attr->axes[i] == d) return MIXED;
        before += n->attr->axes[i] < d;
    }
    return d - before;
}

static int dim_of_contract(const Node *n, int k, int d) {
    const Contract *c = n->attr->contract;
    const int loop = affine_single_loop(c, &c->map[k][d]);
    return loop >= 0 && loop < c->n_out ? loop : MIXED;
}

/* Where dim d of operand k is in the result. */
static int dim_after(const Node *n, int k, int d) {
    const int ids = op_info[n->op].cls == CLASS_INDEXED && n->n_in > 1 ? n->in[1]->shape->rank : 0;
    switch (op_info[n->op].cls) {
    case CLASS_ELEMENT:
    case CLASS_SPECIAL: return d;
    case CLASS_MOVE: return dim_of_move(n, k, d);
    case CLASS_REDUCE: return dim_of_reduce(n, d);
    case CLASS_CONTRACT: return dim_of_contract(n, k, d);
    case CLASS_INDEXED:
        if (n->op == OP_GATHER) return d > 0 ? d - 1 + ids : MIXED;
        return d >= ids ? d - ids + 1 : MIXED;
    case CLASS_SOURCE:
    default: return MIXED;
    }
}

bool batch_is_independent(const Graph *g, const Node *x, const Node *y, int axis) {
    Arena *scratch = arena_new();
    const int n = y->id - x->id + 1;
    int *dim = ARENA_ARRAY(scratch, int, n > 0 ? n : 1);
    for (int i = 0; i < n; i++) dim[i] = i ? UNTOUCHED : axis;
    for (int i = 1; i < n; i++) {
        const Node *at = g->nodes.at[x->id + i];
        for (int k = 0; k < at->n_in; k++) {
            const int from = at->in[k]->id - x->id;
            if (from < 0 || dim[from] == UNTOUCHED || !jacobian_exists(at, k)) continue;
            const int to = dim[from] == MIXED ? MIXED : dim_after(at, k, dim[from]);
            dim[i] = dim[i] == UNTOUCHED || dim[i] == to ? to : MIXED;
        }
    }
    const bool independent = n <= 0 || dim[n - 1] == UNTOUCHED || dim[n - 1] == axis;
    arena_free(scratch);
    return independent;
}
