/* Outputs that are wanted: the infer graph is cut down to them before it is compiled, so that no kernel computes, or
 * reads an input for, one that is not. */
#include "tools/fusec/run.h"
#include <string.h>

/* Marks the nodes that `value` depends on. */
static void mark(const Graph *g, const Node *value, bool *seen) {
    memset(seen, 0, sizeof *seen * (size_t)g->nodes.n);
    seen[value->id] = true;
    for (int i = value->id; i >= 0; i--)
        for (int k = 0; seen[i] && k < g->nodes.at[i]->n_in; k++) seen[g->nodes.at[i]->in[k]->id] = true;
}

static void note_reads(Run *r, const Graph *g) {
    const int n_inputs = g->model->inputs.n;
    bool *seen = ARENA_ARRAY(r->arena, bool, g->nodes.n + 1);
    r->reads = ARENA_ARRAY(r->arena, bool, g->model->outputs.n *n_inputs + 1);
    for (int i = 0; i < g->results.n; i++) {
        const Result *x = &g->results.at[i];
        if (x->kind != RESULT_OUTPUT) continue;
        mark(g, x->value, seen);
        for (int k = 0; k < g->nodes.n; k++)
            if (seen[k] && g->nodes.at[k]->op == OP_INPUT)
                r->reads[x->decl * n_inputs + g->nodes.at[k]->attr->decl] = true;
    }
}

static int find_output(Run *r, const Model *m, const char *name) {
    const char **names = ARENA_ARRAY(r->arena, const char *, m->outputs.n + 1);
    for (int i = 0; i < m->outputs.n; i++) {
        names[i] = m->outputs.at[i].name;
        if (!strcmp(names[i], name)) return i;
    }
    run_error("--want: %s has no output %s%s; it has: %s", m->name, name,
              names_hint(r->arena, name, names, m->outputs.n), names_text(r->arena, names, m->outputs.n));
    return -1;
}

bool wants_apply(Run *r, Graph *g) {
    const Model *m = g->model;
    const Texts *wants = &r->o->wants;
    r->wanted = ARENA_ARRAY(r->arena, bool, m->outputs.n + 1);
    graph_renumber(g);
    note_reads(r, g);
    for (int i = 0; i < m->outputs.n; i++) r->wanted[i] = wants->n == 0;
    for (int i = 0; i < wants->n; i++) {
        const int o = find_output(r, m, wants->at[i]);
        if (o < 0) return false;
        r->wanted[o] = true;
    }
    int kept = 0;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].kind != RESULT_OUTPUT || r->wanted[g->results.at[i].decl])
            g->results.at[kept++] = g->results.at[i];
    g->results.n = kept;
    graph_prune(g);
    return true;
}
