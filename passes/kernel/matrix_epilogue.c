/* What a matrix kernel computes after its sums, as the cost of its tiles counts it: from what it stores back to the product. */
#include "passes/kernel/matrix.h"

enum { MOST_NODES = 64 }; /* of one epilogue; what is beyond is not counted */

typedef struct EpilogueWalk {
    const PlanKernel *k;
    MatrixProduct *p;
    int n;
    const Node *seen[MOST_NODES];
} EpilogueWalk;

/* Memory that the kernel reads, its own or another's: counted where it has an element for each result. */
static bool is_read(const EpilogueWalk *w, const Node *n) {
    for (int i = 0; i < w->k->reads.n; i++)
        if (w->k->reads.at[i] == n) return true;
    return false;
}

static bool first_time(EpilogueWalk *w, const Node *n) {
    for (int i = 0; i < w->n; i++)
        if (w->seen[i] == n) return false;
    if (w->n == MOST_NODES) return false;
    w->seen[w->n++] = n;
    return true;
}

/* Elements of two bytes do, as accumulators do not hold them in whole sectors (matrix_schedule.c). */
static double staged(const Node *n, double share) { return share >= 1 && dtype_bytes(n->dtype) == 2 ? 2 : 0; }

static void walk(EpilogueWalk *w, const Node *n) {
    const double results = w->p->batch * w->p->m * w->p->n, share = results > 0 ? (double)shape_elements(*n->shape) / results : 0;
    if (op_info[n->op].cls == CLASS_CONTRACT || !first_time(w, n)) return;
    if (is_read(w, n)) {
        w->p->reads += share * dtype_bytes(n->dtype);
        w->p->staged += staged(n, share);
        return;
    }
    w->p->steps += share * op_cost(n->op);
    for (int i = 0; i < n->n_in; i++) walk(w, n->in[i]);
}

void matrix_epilogue(const PlanKernel *k, MatrixProduct *p) {
    EpilogueWalk w = {.k = k, .p = p};
    for (int i = 0; i < k->nodes.n; i++) {
        if (!k->nodes.at[i].stored || k->nodes.at[i].part != PART_VALUE) continue;
        p->staged += staged(k->nodes.at[i].node, 1);
        walk(&w, k->nodes.at[i].node);
    }
}
