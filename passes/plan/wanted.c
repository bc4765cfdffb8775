/* Which calls need a value.  Entry infer leaves out what only outputs need that are not given; so does entry step where `train` lines
 * are steps by themselves, and what only lines need that are not asked for.  What is computed together must be needed by the same. */
#include "passes/plan.h"

bool plan_leaves_out(const Graph *g) {
    return g->entry == ENTRY_INFER || (g->entry == ENTRY_STEP && g->model->lines.n > 0);
}

static uint64_t of_output(const Graph *g, int decl) {
    return plan_leaves_out(g) && decl < FUSEC_OUTPUT_BITS(g->entry, g->model->lines.n) ? (uint64_t)1 << decl : FUSEC_ALWAYS;
}

static uint64_t of_tensor(const Graph *g, const TensorDecl *d) {
    return g->entry == ENTRY_STEP && d->line ? FUSEC_WANTED_LINE(d->line - 1) : FUSEC_ALWAYS;
}

static uint64_t of_result(const Graph *g, const Result *r) {
    switch (r->kind) {
    case RESULT_OUTPUT: return of_output(g, r->decl);
    case RESULT_PARAM: return of_tensor(g, &g->model->params.at[r->decl]);
    case RESULT_STATE: return of_tensor(g, &g->model->states.at[r->decl]);
    default: return FUSEC_ALWAYS;
    }
}

uint64_t *plan_wanted_by_result(Arena *a, const Graph *g) {
    uint64_t *wanted = ARENA_ARRAY(a, uint64_t, g->results.n + 1);
    for (int i = 0; i < g->results.n; i++) wanted[i] = of_result(g, &g->results.at[i]);
    return wanted;
}

uint64_t *plan_wanted_by_node(Arena *a, const Graph *g) {
    uint64_t *wanted = ARENA_ARRAY(a, uint64_t, g->nodes.n + 1);
    for (int i = 0; i < g->results.n; i++) wanted[g->results.at[i].value->id] |= of_result(g, &g->results.at[i]);
    for (int i = g->nodes.n - 1; i >= 0; i--)
        for (int k = 0; k < g->nodes.at[i]->n_in; k++) wanted[g->nodes.at[i]->in[k]->id] |= wanted[i];
    return wanted;
}

static uint64_t of_home(const Plan *p, const PlanBuffer *b) {
    const Graph *g = p->graph;
    if (plan_output(b) >= 0) return of_output(g, plan_output(b));
    switch (b->home) {
    case HOME_ARENA: return 0;
    case HOME_PARAM: return of_tensor(g, &g->model->params.at[b->decl]);
    case HOME_STATE: return of_tensor(g, &g->model->states.at[b->decl]);
    default: return FUSEC_ALWAYS;
    }
}

uint64_t *plan_wanted_by_kernel(Arena *a, const Plan *p, const int *order) {
    uint64_t *wanted = ARENA_ARRAY(a, uint64_t, p->kernels.n + 1), *node = ARENA_ARRAY(a, uint64_t, p->graph->nodes.n + 1);
    NodeList needs = {0};
    for (int at = p->kernels.n - 1; at >= 0; at--) {
        const int id = order ? order[at] : at;
        const PlanKernel *k = &p->kernels.at[id];
        for (int i = 0; i < k->outputs.n; i++) wanted[id] |= node[k->outputs.at[i]->id] | of_home(p, &p->buffer[k->outputs.at[i]->id]);
        plan_needs(a, p, k, &needs);
        for (int i = 0; i < needs.n; i++) node[needs.at[i]->id] |= wanted[id];
    }
    return wanted;
}
