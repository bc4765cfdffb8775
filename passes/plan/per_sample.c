/* -fno-jacobian-gemm: products as the chain rule gives them, one sample after the other.  A sample is an index of the
 * outermost dim of what depends on the program's inputs.  A contraction whose result has that loop is a product per
 * sample (a matrix-vector product, for a layer); one that sums over it adds an outer product per sample to the result in
 * memory.  This is what the pass is measured against (docs/benchmarks.md), so it is made to run at the speed of memory. */
#include "passes/plan/per_sample.h"
#include "passes/algebra/affine.h"
#include <string.h>

bool *per_sample_data(Arena *a, const Graph *g) {
    bool *data = ARENA_ARRAY(a, bool, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        data[i] = n->op == OP_INPUT;
        for (int k = 0; k < n->n_in; k++) data[i] |= data[n->in[k]->id];
    }
    return data;
}

int per_sample_loop(const bool *data, const Node *n) {
    const Contract *c = n->attr->contract;
    int loop = -1;
    if (n->op != OP_CONTRACT || c->n_loops == c->n_out || n->n_in != 2) return -1;
    for (int k = 0; k < 2; k++) {
        if (!data[n->in[k]->id] || n->in[k]->shape->rank == 0) continue;
        const int at = affine_single_loop(c, &c->map[k][0]);
        if (at < 0 || (loop >= 0 && at != loop)) return -1;
        loop = at;
    }
    return loop;
}
