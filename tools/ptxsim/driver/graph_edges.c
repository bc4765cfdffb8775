/* Graphs: their edges, and what they tell of themselves. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

static bool has(const NodeList *l, const Node *n, size_t *at) {
    for (*at = 0; *at < l->count; ++*at)
        if (l->item[*at] == n) return true;
    return false;
}
static bool has_edge(const Node *to, const Node *from, size_t *at) { return has(&to->after, from, at); }

/* Adds or removes edges: all of them, or none and an error. */
static CUresult change_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n, bool adding) {
    const Graph *g = object_find(graph, OBJECT_GRAPH);
    size_t at;
    if (!g || (n && (!from || !to))) return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < n; k++) {
        Node *a = object_find(from[k], OBJECT_NODE), *b = object_find(to[k], OBJECT_NODE);
        if (!a || !b || a == b || a->graph != g || b->graph != g || has_edge(b, a, &at) == adding)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t k = 0; k < n; k++) {
        Node *a = object_find(from[k], OBJECT_NODE), *b = object_find(to[k], OBJECT_NODE);
        if (adding && !list_add(&b->after, a)) return CUDA_ERROR_OUT_OF_MEMORY;
        if (!adding && has_edge(b, a, &at)) b->after.item[at] = b->after.item[--b->after.count];
        if (!adding && has(&b->programmatic, a, &at)) b->programmatic.item[at] = b->programmatic.item[--b->programmatic.count];
    }
    return CUDA_SUCCESS;
}

/* Source: CUDA Driver API, CUgraphEdgeData, CUgraphDependencyType, CUgraphKernelNodePortType. */
enum { EDGE_PROGRAMMATIC = 1, PORT_PROGRAMMATIC = 1, PORT_LAUNCH_ORDER = 2 };

static const CUgraphEdgeData PLAIN = {0};
static bool plain(const CUgraphEdgeData *e) { return memcmp(e, &PLAIN, sizeof PLAIN) == 0; }

/* Between kernels, from a port of the first. */
static CUresult check_edge(const CUgraphEdgeData *e, CUgraphNode from, CUgraphNode to) {
    const Node *a = object_find(from, OBJECT_NODE), *b = object_find(to, OBJECT_NODE);
    const CUgraphEdgeData like = {.from_port = e->from_port, .type = EDGE_PROGRAMMATIC};
    if (plain(e)) return CUDA_SUCCESS;
    if (memcmp(e, &like, sizeof like) != 0 || (e->from_port != PORT_PROGRAMMATIC && e->from_port != PORT_LAUNCH_ORDER)) return CUDA_ERROR_INVALID_VALUE;
    if (!a || !b || a->type != CU_GRAPH_NODE_TYPE_KERNEL || b->type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_VALUE;
    return driver_device()->capability >= 90 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult change_with_data(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges, size_t n, bool adding) {
    CUresult r = CUDA_SUCCESS;
    for (size_t k = 0; edges && from && to && k < n && !r; k++) r = check_edge(&edges[k], from[k], to[k]);
    if (!r) r = change_edges(graph, from, to, n, adding);
    for (size_t k = 0; edges && k < n && !r && adding; k++) {
        Node *b = object_find(to[k], OBJECT_NODE);
        if (!plain(&edges[k]) && !list_add(&b->programmatic, object_find(from[k], OBJECT_NODE))) r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return r;
}

CUresult sim_cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
    return change_edges(graph, from, to, n, true);
}
CUresult sim_cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                       const CUgraphEdgeData *edges, size_t n) {
    return change_with_data(graph, from, to, edges, n, true);
}
CUresult sim_cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
    return change_edges(graph, from, to, n, false);
}
CUresult sim_cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                          const CUgraphEdgeData *edges, size_t n) {
    return change_with_data(graph, from, to, edges, n, false);
}

CUresult sim_cuGraphNodeGetType(CUgraphNode node, int *type) {
    const Node *n = object_find(node, OBJECT_NODE);
    if (!n || !type) return CUDA_ERROR_INVALID_VALUE;
    *type = n->type;
    return CUDA_SUCCESS;
}

/* ---- lists -------------------------------------------------------------------------------------------- */
/* A list as the API gives it: *n is the room on entry, and the number on return; what is left of the room is NULL. */
typedef struct Sink {
    CUgraphNode *to, *from;
    size_t room, count;
} Sink;

static void put(Sink *s, const Node *from, const Node *to) {
    if (s->count < s->room) {
        if (s->from) s->from[s->count] = object_handle(from);
        s->to[s->count] = object_handle(to);
    }
    s->count++;
}

static CUresult finish(Sink *s, size_t *n) {
    const size_t found = s->count;
    while (s->count < s->room) put(s, NULL, NULL);
    *n = !s->to || s->room > found ? found : s->room;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
    const Graph *g = object_find(graph, OBJECT_GRAPH);
    if (!g || !n) return CUDA_ERROR_INVALID_VALUE;
    Sink s = {.to = nodes, .room = nodes ? *n : 0};
    for (size_t k = 0; k < g->count; k++) put(&s, NULL, g->node[k]);
    return finish(&s, n);
}

CUresult sim_cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
    const Graph *g = object_find(graph, OBJECT_GRAPH);
    if (!g || !n) return CUDA_ERROR_INVALID_VALUE;
    Sink s = {.to = nodes, .room = nodes ? *n : 0};
    for (size_t k = 0; k < g->count; k++)
        if (!g->node[k]->after.count) put(&s, NULL, g->node[k]);
    return finish(&s, n);
}

CUresult sim_cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n) {
    const Graph *g = object_find(graph, OBJECT_GRAPH);
    if (!g || !n || !from != !to) return CUDA_ERROR_INVALID_VALUE;
    Sink s = {.to = to, .from = from, .room = to ? *n : 0};
    for (size_t k = 0; k < g->count; k++)
        for (size_t d = 0; d < g->node[k]->after.count; d++) put(&s, g->node[k]->after.item[d], g->node[k]);
    return finish(&s, n);
}

CUresult sim_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *n) {
    const Node *at = object_find(node, OBJECT_NODE);
    if (!at || !n) return CUDA_ERROR_INVALID_VALUE;
    Sink s = {.to = nodes, .room = nodes ? *n : 0};
    for (size_t d = 0; d < at->after.count; d++) put(&s, NULL, at->after.item[d]);
    return finish(&s, n);
}

CUresult sim_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *n) {
    const Node *at = object_find(node, OBJECT_NODE);
    size_t where;
    if (!at || !n) return CUDA_ERROR_INVALID_VALUE;
    Sink s = {.to = nodes, .room = nodes ? *n : 0};
    for (size_t k = 0; k < at->graph->count; k++)
        if (has_edge(at->graph->node[k], at, &where)) put(&s, NULL, at->graph->node[k]);
    return finish(&s, n);
}

/* from, to: arrays, or NULL and then the one node of all. */
static CUresult with_edges(CUresult r, const CUgraphNode *from, const CUgraphNode *to, CUgraphNode one, CUgraphEdgeData *edges, const size_t *n) {
    size_t at;
    for (size_t k = 0; !r && edges && k < *n; k++) {
        const Node *a = object_find(from ? from[k] : one, OBJECT_NODE), *b = object_find(to ? to[k] : one, OBJECT_NODE);
        const bool programmatic = a && b && has(&b->programmatic, a, &at);
        edges[k] = (CUgraphEdgeData){.from_port = programmatic ? PORT_PROGRAMMATIC : 0, .type = programmatic ? EDGE_PROGRAMMATIC : 0};
    }
    return r;
}
CUresult sim_cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *n) {
    return with_edges(sim_cuGraphGetEdges(graph, from, to, n), from, to, NULL, edges, n);
}
CUresult sim_cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *n) {
    return with_edges(sim_cuGraphNodeGetDependencies(node, nodes, n), nodes, NULL, node, edges, n);
}
CUresult sim_cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *n) {
    return with_edges(sim_cuGraphNodeGetDependentNodes(node, nodes, n), NULL, nodes, node, edges, n);
}

/* ---- orders ------------------------------------------------------------------------------------------- */
bool graph_order(const Graph *g, size_t *order, uint64_t seed) {
    size_t *open = calloc(g->count + 1, sizeof *open), *ready = calloc(g->count + 1, sizeof *ready);
    size_t ready_count = 0, done = 0;
    uint64_t random = seed;
    for (size_t k = 0; open && ready && k < g->count; k++) {
        open[k] = g->node[k]->after.count;
        if (!open[k]) ready[ready_count++] = k;
    }
    while (open && ready && ready_count) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        const size_t at = random % ready_count, n = ready[at];
        memmove(&ready[at], &ready[at + 1], (--ready_count - at) * sizeof *ready);
        order[done++] = n;
        for (size_t k = 0; k < g->count; k++) {
            size_t edge;
            if (has_edge(g->node[k], g->node[n], &edge) && --open[k] == 0) ready[ready_count++] = k;
        }
    }
    free(open);
    free(ready);
    return done == g->count;
}
