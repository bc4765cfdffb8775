/* stream_sums: sums of what will be streamed, as streams take them.
 *
 * Needs: the graph as it will be fused, but for this.  Keeps: the results' values, up to the rounding of sums in another order.  A stream
 * (stream.c) walks one dim of its values, so that a sum over several becomes one over the last of them and a sum of the rest; and
 * sum(dP * P) over the columns becomes sum(dO * O), though dP would be rounded where it is kept (reassociate.c). */
#include "passes/plan/stream.h"
#include "passes/rewrite/rewrite.h"

Node *rule_stream_sum(Rewriter *r, const Node *n) {
    const int before = n->attr->n_axes - 1;
    if (!rewrite_in_stream(r) || before < 1 || n->in[0]->shape->rank < r->at->in[0]->shape->rank) return NULL;
    return rewrite_reduce(r, OP_SUM, rewrite_reduce(r, OP_SUM, n->in[0], 1, &n->attr->axes[before]), before, n->attr->axes);
}

static const RewriteId *stream_rules(Op op) {
    static const RewriteId sum_rules[] = {REWRITE_reassociate, REWRITE_stream_sum, REWRITE_END};
    static const RewriteId none[] = {REWRITE_END};
    return op == OP_SUM ? sum_rules : none;
}

Graph *pass_stream_sums(PassContext *c, Graph *g) {
    const bool *streamed = fuse_streamed(c, g);
    bool any = false;
    for (int i = 0; i < g->nodes.n && !any; i++) any = streamed[i] && g->nodes.at[i]->op == OP_SUM;
    return any ? rewrite_graph_with(c, g, stream_rules, &(RewriteFacts){.streamed = streamed, .rules_alone = true}) : g;
}
