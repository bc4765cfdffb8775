/* split: ids of a scatter put into buckets, one for each row, before rows reduce what is sent to them: rows and ids are walked
 * once, where every tile of rows would compare every id.
 *
 *     scatter %u, %ids rows 50257     becomes     %b = bucket %ids rows 50257
 *                                                     scatter %u, %ids, %b rows 50257
 *
 * Scatters by the same ids share their buckets.  Positions stay in order within a row, so that sums keep theirs.
 * Its constants are from `./dev bench fusion`. */
#include "passes/rewrite/rewrite.h"
#include "passes/rules.h"

/* Comparisons that cost less than a kernel. */
enum { FEW_COMPARISONS = 1 << 16 };

Node *rule_buckets(Rewriter *r, const Node *n) {
    const int64_t ids = shape_elements(*n->in[1]->shape), rows = n->attr->extent.bound, most = MOST_BUCKETED;
    if (n->n_in > 2 || !shape_is_fixed(*n->in[1]->shape) || !dim_is_fixed(n->attr->extent)) return NULL;
    if (ids > most || rows > most || (rows * ids <= FEW_COMPARISONS && !r->context->bucket_all)) return NULL;
    Node *in[] = {n->in[0], n->in[1], rewrite_op(r, OP_BUCKET, 1, (Node *[]){n->in[1]}, &(Attr){.extent = n->attr->extent})};
    return rewrite_op(r, n->op, 3, in, n->attr);
}
