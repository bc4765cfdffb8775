#include "passes/rewrite/insert.h"
#include <assert.h>

void graph_insert(Graph *g, int n, const NodeList *before) {
    if (g->nodes.n == n) return;
    Node **order = ARENA_ARRAY(g->arena, Node *, g->nodes.n);
    int at = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < before[i].n; k++) order[at++] = before[i].at[k];
        order[at++] = g->nodes.at[i];
    }
    assert(at == g->nodes.n);
    g->nodes.at = order;
    g->nodes.cap = at;
    g->canonical = false;
    g->edited = true;
    graph_renumber(g);
}
