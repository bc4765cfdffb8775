/* Sums in another order, where a product that exists already has part of the sum.
 *
 *     sum_j (sum_k a[i, k] b[j, k]) c[i, j] = sum_k a[i, k] y[i, k]        where y[i, k] = sum_j c[i, j] b[j, k] exists
 *
 * The left side reads the product [i, j] again, the right side two operands that are smaller.  In the gradient of a
 * softmax in front of a matrix product it is rowsum(dP * P) = rowsum(dO * O) (Dao et al., "FlashAttention",
 * arXiv:2205.14135, Appendix B.2).
 *
 * Where dP is rounded to 16 bits the right side is another number: what is subtracted from dP would not be the mean of it as it is
 * rounded.  A stream does not round dP, so there, in pass_stream_sums, the sum may look through roundings. */
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_class.h"
#include "passes/rewrite/rewrite.h"
#include <string.h>

/* The sum as one product of three over numbered loops: dims of the terms first, then what the contraction sums. */
typedef struct Triple {
    const Node *sum, *product, *other; /* sum over (product * other) */
    const Contract *c;                 /* of the product */
    int loop[MAX_LOOPS];               /* of the contraction: number here */
    int n_loops;
    uint32_t summed;                   /* all loops that the result has not */
    uint32_t reads[2];                 /* by operand of the product */
} Triple;

static bool is_plain_product(const Node *n) {
    return n->n_in == 2 && contract_classify(n->attr->contract, n->in).is_plain;
}

static uint32_t operand_loops(const Triple *t, int k) {
    uint32_t loops = 0;
    for (int d = 0; d < t->product->in[k]->shape->rank; d++)
        loops |= 1u << t->loop[affine_single_loop(t->c, &t->c->map[k][d])];
    return loops;
}

static Triple triple_of(const Node *sum, const Node *product, const Node *other) {
    Triple t = {.sum = sum, .product = product, .other = other, .c = product->attr->contract};
    t.n_loops = t.c->n_loops;
    for (int l = 0; l < t.c->n_loops; l++) t.loop[l] = l;
    for (int i = 0; i < sum->attr->n_axes; i++) t.summed |= 1u << sum->attr->axes[i];
    for (int l = t.c->n_out; l < t.c->n_loops; l++) t.summed |= 1u << l;
    t.reads[0] = operand_loops(&t, 0);
    t.reads[1] = operand_loops(&t, 1);
    return t;
}

/* Sets at[loop of y] to the loop here that stands at the same place of the same operand; false if they disagree. */
static bool match_operand(const Triple *t, const Contract *y, int place, const Node *x, int k, int *at) {
    for (int d = 0; d < x->shape->rank; d++) {
        const int theirs = affine_single_loop(y, &y->map[place][d]);
        const int ours = k < 0 ? d : t->loop[affine_single_loop(t->c, &t->c->map[k][d])];
        if (at[theirs] >= 0 && at[theirs] != ours) return false;
        at[theirs] = ours;
    }
    return true;
}

static const Node *looked_through(const Rewriter *r, const Node *n) { return rewrite_in_stream(r) ? rewrite_unrounded(r, n) : n; }

static bool is_same(const Rewriter *r, const Node *a, const Node *b) { return looked_through(r, a) == looked_through(r, b); }

/* Is y the sum of other * operand k over exactly the loops that only they have?  at[]: y's loops as ours. */
static bool is_partial(const Rewriter *r, const Triple *t, int k, const Node *y, int *at) {
    const Contract *c = y->attr->contract;
    const uint32_t both = ((1u << t->product->shape->rank) - 1) | t->reads[k];
    const uint32_t inner = both & t->summed & ~t->reads[1 - k];
    for (int place = 0; place < 2; place++) {
        if (!is_same(r, y->in[place], t->other) || !is_same(r, y->in[1 - place], t->product->in[k])) continue;
        for (int l = 0; l < c->n_loops; l++) at[l] = -1;
        if (!match_operand(t, c, place, t->other, -1, at)) continue;
        if (!match_operand(t, c, 1 - place, t->product->in[k], k, at)) continue;
        uint32_t out = 0, summed = 0;
        bool fits = true;
        for (int l = 0; l < c->n_loops; l++) {
            fits = fits && at[l] >= 0 && !((out | summed) >> at[l] & 1);
            if (fits) *(l < c->n_out ? &out : &summed) |= 1u << at[l];
        }
        if (fits && summed == inner && out == (both & ~inner)) return true;
    }
    return false;
}

/* x, whose dims are the loops loop[], with its dims in this order; all of them must be there. */
static Node *in_order(Rewriter *r, Node *x, const int *loop, int n, const int *order) {
    int8_t perm[MAX_RANK];
    if (x->shape->rank != n) return NULL;
    for (int i = 0; i < n; i++) {
        int d = 0;
        while (d < n && loop[d] != order[i]) d++;
        if (d == n) return NULL;
        perm[i] = (int8_t)d;
    }
    return rewrite_transpose(r, x, perm);
}

static Node *as_sum(Rewriter *r, const Triple *t, Node *x) {
    const Attr to = {.dtype = t->sum->dtype};
    return x->dtype == to.dtype ? x : rewrite_node(r, OP_CAST, 1, &x, &to, to.dtype, *x->shape);
}

/* sum(a * y) over what is left, its dims last, in y's order. */
static Node *emit(Rewriter *r, const Triple *t, int k, Node *y, const int *at) {
    Node *a = t->product->in[1 - k];
    const int n = y->shape->rank;
    int order[MAX_RANK], loop[MAX_RANK], used = 0, n_kept;
    for (int d = 0; d < n; d++)
        if (!(t->summed >> at[d] & 1)) order[used++] = at[d];
    for (int i = 0; i < used; i++) /* the result's dims in its own order */
        for (int j = i + 1; j < used; j++)
            if (order[j] < order[i]) {
                const int kept = order[i];
                order[i] = order[j];
                order[j] = kept;
            }
    n_kept = used;
    for (int d = 0; d < n; d++)
        if (t->summed >> at[d] & 1) order[used++] = at[d];
    if (n_kept != t->sum->shape->rank || n_kept == n) return NULL;
    for (int d = 0; d < a->shape->rank; d++) loop[d] = t->loop[affine_single_loop(t->c, &t->c->map[1 - k][d])];
    Node *x = in_order(r, as_sum(r, t, a), loop, n, order), *z = in_order(r, as_sum(r, t, y), at, n, order);
    int8_t axes[MAX_RANK];
    for (int i = n_kept; i < n; i++) axes[i - n_kept] = (int8_t)i;
    if (!x || !z) return NULL;
    return rewrite_reduce(r, OP_SUM, rewrite_op(r, OP_MUL, 2, (Node *[]){x, z}, NULL), n - n_kept, axes);
}

static Node *with_partial(Rewriter *r, const Triple *t) {
    for (int u = r->products.at[rewrite_unrounded(r, t->other)->id]; u; u = r->uses.at[u - 1].next) {
        Node *y = r->uses.at[u - 1].product;
        if (y->remat != r->at->remat || !is_plain_product(y)) continue;
        int at[MAX_LOOPS];
        for (int k = 0; k < 2; k++) {
            const int64_t read = shape_elements(*y->shape) + shape_elements(*t->product->in[1 - k]->shape);
            const bool pays = read < shape_elements(*t->product->shape);
            Node *made = pays && is_partial(r, t, k, y, at) ? emit(r, t, k, y, at) : NULL;
            if (made) return made;
        }
    }
    return NULL;
}

Node *rule_reassociate(Rewriter *r, const Node *n) {
    const Node *terms = rewrite_seen(r, n->in[0], OP_MUL);
    if (!terms || !dtype_is_float(n->dtype) || n->dtype == DT_F16) return NULL;
    for (int k = 0; k < 2; k++) {
        const Node *product = rewrite_seen(r, looked_through(r, terms->in[k]), OP_CONTRACT), *other = terms->in[1 - k];
        if (!product || !is_plain_product(product)) continue;
        if (product->in[0]->dtype != n->dtype && !rewrite_in_stream(r)) continue;
        const Triple t = triple_of(n, product, other);
        Node *made = with_partial(r, &t);
        if (made) return made;
    }
    return NULL;
}
