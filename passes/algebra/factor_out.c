/* Diagonal factors: a factor of a sum's terms that is the same for all terms of one sum multiplies, or divides, the sum.
 *
 *     sum_j x[i, j] * d[i] = d[i] * sum_j x[i, j]        sum_k (x[i, k] / d[i]) w[k, j] = (sum_k x[i, k] w[k, j]) / d[i]
 *
 * What varies along the summed loops stays where it is, as a prologue.  Done where nothing else reads the scaled terms, and
 * where it saves their pass over memory or makes fewer products. */
#include "passes/algebra/factor_out.h"
#include "passes/algebra/access.h"
#include "passes/algebra/affine.h"
#include <math.h>
#include <string.h>

enum { DEEPEST_FACTOR = 6 };

/* A factor found in a tree of products and quotients: tree = rest op factor. */
typedef struct Factor {
    Node *rest;
    Node *factor; /* BROADCAST, or CONST */
    Op op;        /* MUL, DIV */
} Factor;

bool varies_along_only(const Rewriter *r, const Node *n, unsigned dims) {
    if (rewrite_seen(r, n, OP_CONST)) return is_moderate(n->attr->value);
    if (!rewrite_seen(r, n, OP_BROADCAST)) return false;
    for (int d = 0; d < n->attr->n_axes; d++)
        if (!(dims >> n->attr->axes[d] & 1)) return false;
    return true;
}

/* Whatever is only read here may be taken apart. */
static bool find_factor(Rewriter *r, Node *tree, unsigned allowed, int depth, Factor *f) {
    const bool product = rewrite_seen(r, tree, OP_MUL), quotient = rewrite_seen(r, tree, OP_DIV);
    if (depth == 0 || !(product || quotient) || !rewrite_only_reader(r, tree)) return false;
    for (int k = 1; k >= (product ? 0 : 1); k--)
        if (varies_along_only(r, tree->in[k], allowed)) {
            *f = (Factor){.rest = tree->in[1 - k], .factor = tree->in[k], .op = product ? OP_MUL : OP_DIV};
            return true;
        }
    for (int k = 0; k < (product ? 2 : 1); k++) {
        if (!find_factor(r, tree->in[k], allowed, depth - 1, f)) continue;
        Node *in[2] = {tree->in[0], tree->in[1]};
        in[k] = f->rest;
        f->rest = rewrite_op(r, tree->op, 2, in, NULL);
        return true;
    }
    return false;
}

/* The factor over the shape of the sum: dim d of the terms stands at dim at[d] there. */
static Node *factor_of_sum(Rewriter *r, const Node *factor, Shape s, const int8_t *at) {
    int8_t axes[MAX_RANK], order[MAX_RANK];
    if (factor->op == OP_CONST) return rewrite_const(r, factor->dtype, s, factor->attr->value);
    Node *x = factor->in[0];
    const int rank = x->shape->rank;
    bool permuted = false; /* a contraction's result may have its dims in another order than its operand */
    for (int d = 0; d < rank; d++) {
        const int8_t to = at[factor->attr->axes[d]];
        int i = d;
        for (; i > 0 && axes[i - 1] > to; i--) axes[i] = axes[i - 1], order[i] = order[i - 1], permuted = true;
        axes[i] = to;
        order[i] = (int8_t)d;
    }
    if (permuted) x = rewrite_transpose(r, x, order);
    return rewrite_broadcast(r, x, s, axes);
}

static bool may_reorder(const Node *n) {
    return dtype_is_float(n->dtype) && n->dtype != DT_F16 && n->in[0]->dtype == n->dtype;
}

Node *rule_factor_of_sum(Rewriter *r, const Node *n) {
    Factor f;
    unsigned allowed = 0;
    int8_t at[MAX_RANK];
    bool reduced[MAX_RANK] = {false};
    if (!may_reorder(n)) return NULL;
    for (int i = 0; i < n->attr->n_axes; i++) reduced[n->attr->axes[i]] = true;
    for (int d = 0, kept = 0; d < n->in[0]->shape->rank; d++) {
        if (reduced[d]) continue;
        allowed |= 1u << d;
        at[d] = (int8_t)kept++;
    }
    if (!find_factor(r, n->in[0], allowed, DEEPEST_FACTOR, &f)) return NULL;
    Node *sum = rewrite_reduce(r, OP_SUM, f.rest, n->attr->n_axes, n->attr->axes);
    return rewrite_op(r, f.op, 2, (Node *[]){sum, factor_of_sum(r, f.factor, *n->shape, at)}, NULL);
}

/* Dims of operand k that are subscripted by one loop of the result, which no other dim of it is; at[]: that loop. */
static unsigned output_dims(const Node *n, int k, int8_t *at) {
    const Contract *c = n->attr->contract;
    unsigned allowed = 0;
    for (int d = 0; d < n->in[k]->shape->rank; d++) {
        const int loop = affine_single_loop(c, &c->map[k][d]);
        if (loop < 0 || loop >= c->n_out || !dim_equal(c->extent[loop], n->in[k]->shape->dim[d])) continue;
        bool twice = false;
        for (int other = 0; other < d; other++) twice |= (allowed >> other & 1) && at[other] == loop;
        if (twice) continue;
        allowed |= 1u << d;
        at[d] = (int8_t)loop;
    }
    return allowed;
}

/* Terms that are in memory already need no pass that writes the scaled ones; else fewer products decide. */
static bool is_worth(const Node *rest, const Node *n) {
    return op_is_memory(rest->op) || rest->op == OP_CONTRACT || op_info[rest->op].cls == CLASS_REDUCE ||
           shape_elements(*n->shape) <= shape_elements(*rest->shape);
}

Node *rule_factor_of_contract(Rewriter *r, const Node *n) {
    const Contract *c = n->attr->contract;
    if (!may_reorder(n) || c->n_loops == c->n_out) return NULL;
    for (int k = 0; k < n->n_in; k++) {
        Factor f;
        int8_t at[MAX_RANK];
        if (!find_factor(r, n->in[k], output_dims(n, k, at), DEEPEST_FACTOR, &f) || !is_worth(f.rest, n)) continue;
        Node **in = arena_dup(r->scratch, n->in, sizeof *in * (size_t)n->n_in);
        in[k] = f.rest;
        Node *sum = rewrite_op(r, OP_CONTRACT, n->n_in, in, n->attr);
        return rewrite_op(r, f.op, 2, (Node *[]){sum, factor_of_sum(r, f.factor, *n->shape, at)}, NULL);
    }
    return NULL;
}
