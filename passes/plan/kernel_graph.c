/* The DAG of kernels: data edges, and anti-dependencies of in-place updates. */
#include "passes/plan/kernel_graph.h"
#include <assert.h>
#include <string.h>

static void add_needs(Arena *a, const Plan *p, Node *x, NodeList *list) {
    if (!plan_is_joined(p, x)) {
        vec_push(a, *list, x);
        return;
    }
    for (int i = 0; i < x->n_in; i++) add_needs(a, p, x->in[i], list);
}

void plan_needs(Arena *a, const Plan *p, const PlanKernel *k, NodeList *needs) {
    needs->n = 0;
    for (int i = 0; i < k->reads.n; i++) add_needs(a, p, k->reads.at[i], needs);
}

typedef struct Edge {
    int from, to;
    bool soft;
} Edge;
typedef VEC(Edge) EdgeList;

/* Kernels that read the old value: of each parameter and state, by decl; of what is overwritten, by node. */
static void collect_readers(Arena *a, const Plan *p, IntList *params, IntList *states, IntList *values) {
    for (int k = 0; k < p->kernels.n; k++) {
        const PlanKernel *pk = &p->kernels.at[k];
        for (int i = 0; i < pk->reads.n; i++) {
            const Node *x = pk->reads.at[i];
            IntList *l = x->op == OP_PARAM   ? &params[x->attr->decl]
                            : x->op == OP_STATE ? &states[x->attr->decl]
                                                : NULL;
            if (p->buffer[x->id].home == HOME_ARENA) l = &values[x->id];
            if (l && (!l->n || vec_last(*l) != k)) vec_push(a, *l, k);
        }
    }
}

static EdgeList collect_edges(Arena *a, const Plan *p) {
    EdgeList edges = {0};
    NodeList needs = {0};
    IntList *params = ARENA_ARRAY(a, IntList, p->graph->model->params.n + 1);
    IntList *states = ARENA_ARRAY(a, IntList, p->graph->model->states.n + 1);
    IntList *values = ARENA_ARRAY(a, IntList, p->graph->nodes.n + 1);
    collect_readers(a, p, params, states, values);
    for (int k = 0; k < p->kernels.n; k++) {
        const PlanKernel *pk = &p->kernels.at[k];
        plan_needs(a, p, pk, &needs);
        for (int i = 0; i < needs.n; i++) {
            int writer = p->buffer[needs.at[i]->id].writer;
            if (writer >= 0 && writer != k) vec_push(a, edges, ((Edge){writer, k, false}));
        }
        for (int i = 0; i < pk->outputs.n; i++) {
            const PlanBuffer *b = &p->buffer[pk->outputs.at[i]->id];
            const Node *old = plan_overwritten(p, pk->outputs.at[i]);
            const IntList *l = old                     ? &values[old->id]
                                  : b->home == HOME_PARAM ? &params[b->decl]
                                  : b->home == HOME_STATE ? &states[b->decl]
                                                          : NULL;
            for (int j = 0; l && j < l->n; j++)
                if (l->at[j] != k) vec_push(a, edges, ((Edge){l->at[j], k, true}));
        }
    }
    return edges;
}

KernelGraph kernel_graph(Arena *a, const Plan *p) {
    EdgeList e = collect_edges(a, p);
    int n = p->kernels.n;
    KernelGraph g = {n, ARENA_ARRAY(a, int, n + 2), ARENA_ARRAY(a, int, e.n + 1), ARENA_ARRAY(a, int, n + 1),
                     ARENA_ARRAY(a, int, n + 1)};
    for (int i = 0; i < e.n; i++) g.first[e.at[i].from + 2]++;
    for (int k = 1; k <= n; k++) g.first[k + 1] += g.first[k];
    for (int i = 0; i < e.n; i++) {
        g.succ[g.first[e.at[i].from + 1]++] = e.at[i].to * 2 + e.at[i].soft;
        (e.at[i].soft ? g.soft : g.hard)[e.at[i].to]++;
    }
    return g;
}

Predecessors kernel_predecessors(Arena *a, const KernelGraph *g, const int *head) {
    const int n = g->n, edges = g->first[n];
    Predecessors p = {ARENA_ARRAY(a, int, n + 2), ARENA_ARRAY(a, int, edges + 1)};
    for (int i = 0; i < edges; i++) p.first[(head ? head[g->succ[i] / 2] : g->succ[i] / 2) + 2]++;
    for (int k = 0; k < n; k++) p.first[k + 2] += p.first[k + 1];
    for (int k = 0; k < n; k++)
        for (int i = g->first[k]; i < g->first[k + 1]; i++) {
            const int to = g->succ[i] / 2;
            p.at[p.first[(head ? head[to] : to) + 1]++] = head ? head[k] : k;
        }
    return p;
}

int *kernels_in_order(Arena *a, int n, const Predecessors *before, const int *wish, int n_wish) {
    int *place = ARENA_ARRAY(a, int, n + 1), *next = arena_dup(a, before->first, sizeof(int) * (size_t)(n + 1));
    int *stack = ARENA_ARRAY(a, int, n + 1), placed = 0;
    for (int k = 0; k < n; k++) place[k] = -1;
    for (int i = 0; i < n_wish; i++) {
        int depth = 0;
        if (place[wish[i]] < 0) stack[depth++] = wish[i];
        while (depth) {
            const int k = stack[depth - 1], end = before->first[k + 1];
            while (next[k] < end && place[before->at[next[k]]] >= 0) next[k]++;
            assert(depth <= n);
            if (next[k] < end) stack[depth++] = before->at[next[k]];
            else place[k] = placed++, depth--;
        }
    }
    assert(placed == n);
    return place;
}
