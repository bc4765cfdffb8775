/* Graphs: nodes and the edges between them. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

bool list_add(NodeList *l, Node *n) {
    Node **grown = realloc(l->item, (l->count + 1) * sizeof *grown);
    if (!grown) return false;
    l->item = grown;
    l->item[l->count++] = n;
    return true;
}

Graph *graph_new(Context *c, bool internal) {
    Graph *g = object_new(OBJECT_GRAPH, c, sizeof *g);
    if (g) g->object.internal = internal;
    return g;
}

static void node_free(Node *n) {
    work_clear(&n->work);
    if (n->child) graph_free(n->child);
    free(n->after.item);
    free(n->programmatic.item);
    object_free(n);
}

void graph_free(Graph *g) {
    for (size_t k = 0; k < g->count; k++) node_free(g->node[k]);
    free(g->node);
    object_free(g);
}

Node *node_new(Graph *g, int type, const NodeList *after) {
    if (g->count == g->capacity) {
        const size_t capacity = g->capacity ? 2 * g->capacity : 32;
        Node **grown = realloc(g->node, capacity * sizeof *grown);
        if (!grown) return NULL;
        g->node = grown;
        g->capacity = capacity;
    }
    Node *n = object_new(OBJECT_NODE, NULL, sizeof *n);
    if (!n) return NULL;
    n->graph = g;
    n->type = type;
    n->index = g->count;
    for (size_t k = 0; after && k < after->count; k++)
        if (!list_add(&n->after, after->item[k])) {
            node_free(n);
            return NULL;
        }
    g->node[g->count++] = n;
    return n;
}

/* ---- look-up ------------------------------------------------------------------------------------------ */
/* Nodes of one graph, from handles. */
static CUresult nodes_of(const Graph *g, const CUgraphNode *handles, size_t n, NodeList *list) {
    *list = (NodeList){NULL, 0};
    if (n && !handles) return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < n; k++) {
        Node *node = object_find(handles[k], OBJECT_NODE);
        bool twice = false;
        for (size_t j = 0; j < list->count; j++) twice |= list->item[j] == node;
        if (node && node->graph == g && !twice && list_add(list, node)) continue;
        tips_free(list);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* The new node takes `work` over; on failure it is cleared. */
static CUresult add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n, int type, Work *work,
                    Node **out) {
    Graph *g = object_find(graph, OBJECT_GRAPH);
    NodeList list = {NULL, 0};
    CUresult r = !node || !g ? CUDA_ERROR_INVALID_VALUE : nodes_of(g, after, n, &list);
    Node *made = r ? NULL : node_new(g, type, &list);
    if (!r && !made) r = CUDA_ERROR_OUT_OF_MEMORY;
    tips_free(&list);
    if (r) {
        work_clear(work);
        return r;
    }
    made->work = *work;
    *node = object_handle(made);
    if (out) *out = made;
    return CUDA_SUCCESS;
}

static Node *node_of(CUgraphNode handle, int type) {
    Node *n = object_find(handle, OBJECT_NODE);
    return n && (type < 0 || n->type == type) ? n : NULL;
}

/* ---- graphs ------------------------------------------------------------------------------------------- */
CUresult sim_cuGraphCreate(CUgraph *graph, unsigned flags) {
    if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
    Graph *g = graph_new(current_context(), false);
    if (!g) return CUDA_ERROR_OUT_OF_MEMORY;
    *graph = object_handle(g);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphDestroy(CUgraph graph) {
    Graph *g = object_find(graph, OBJECT_GRAPH);
    if (!g || g->embedded || g->object.internal) return CUDA_ERROR_INVALID_VALUE;
    graph_free(g);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphClone(CUgraph *clone, CUgraph graph) {
    const Graph *g = object_find(graph, OBJECT_GRAPH);
    if (!clone || !g) return CUDA_ERROR_INVALID_VALUE;
    Graph *copy = graph_new(g->object.context, false);
    if (!copy || !graph_copy(copy, g, false)) {
        if (copy) graph_free(copy);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *clone = object_handle(copy);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone) {
    const Graph *g = object_find(clone, OBJECT_GRAPH);
    if (!node || !g) return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < g->count; k++)
        if (g->node[k]->origin == original) {
            *node = object_handle(g->node[k]);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- nodes -------------------------------------------------------------------------------------------- */
static CUresult kernel_params(const CUDA_KERNEL_NODE_PARAMS *p, bool second, Work *w) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS q = {0};
    memcpy(&q, p, second ? sizeof q : offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
    if (!q.func && q.kern) q.func = (CUfunction)(void *)q.kern;
    *w = (Work){.kind = WORK_KERNEL};
    CUresult r = kernel_work(&w->kernel, &q);
    if (!r) r = launch_check(function_of(w->kernel.function), &w->kernel);
    if (r) work_clear(w);
    return r;
}

static CUresult copy_params(const CUDA_MEMCPY3D *p, Work *w) {
    *w = (Work){.kind = WORK_COPY};
    return p ? copy_from_3d(current_context(), p, &w->copy) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fill_params(const CUDA_MEMSET_NODE_PARAMS *p, Work *w) {
    *w = (Work){.kind = WORK_FILL};
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    w->fill = *p;
    return fill_check(current_context(), p);
}

static CUresult host_params(const CUDA_HOST_NODE_PARAMS *p, Work *w) {
    *w = (Work){.kind = WORK_HOST};
    if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    w->host = *p;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                  const CUDA_KERNEL_NODE_PARAMS *params) {
    Work w;
    const CUresult r = kernel_params(params, false, &w);
    return r ? r : add(node, graph, after, n, CU_GRAPH_NODE_TYPE_KERNEL, &w, NULL);
}
CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                     const CUDA_KERNEL_NODE_PARAMS *params) {
    Work w;
    const CUresult r = kernel_params(params, true, &w);
    return r ? r : add(node, graph, after, n, CU_GRAPH_NODE_TYPE_KERNEL, &w, NULL);
}

static bool is_own_context(CUcontext context) {
    return !context || object_peek(context, OBJECT_CONTEXT) == current_context();
}

CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                  const CUDA_MEMCPY3D *copy, CUcontext context) {
    Work w;
    const CUresult r = is_own_context(context) ? copy_params(copy, &w) : CUDA_ERROR_INVALID_VALUE;
    return r ? r : add(node, graph, after, n, CU_GRAPH_NODE_TYPE_MEMCPY, &w, NULL);
}
CUresult sim_cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                  const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context) {
    Work w;
    const CUresult r = is_own_context(context) ? fill_params(fill, &w) : CUDA_ERROR_INVALID_VALUE;
    return r ? r : add(node, graph, after, n, CU_GRAPH_NODE_TYPE_MEMSET, &w, NULL);
}
CUresult sim_cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                const CUDA_HOST_NODE_PARAMS *params) {
    Work w;
    const CUresult r = host_params(params, &w);
    return r ? r : add(node, graph, after, n, CU_GRAPH_NODE_TYPE_HOST, &w, NULL);
}
CUresult sim_cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n) {
    Work w = {.kind = WORK_EMPTY};
    return add(node, graph, after, n, CU_GRAPH_NODE_TYPE_EMPTY, &w, NULL);
}

CUresult sim_cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n,
                                      CUgraph child) {
    const Graph *from = object_find(child, OBJECT_GRAPH);
    Work w = {.kind = WORK_EMPTY};
    Node *made;
    if (!from) return CUDA_ERROR_INVALID_VALUE;
    Graph *copy = graph_new(NULL, true);
    CUresult r = copy && graph_copy(copy, from, false) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!r) r = add(node, graph, after, n, CU_GRAPH_NODE_TYPE_GRAPH, &w, &made);
    if (r) {
        if (copy) graph_free(copy);
        return r;
    }
    copy->embedded = true;
    made->child = copy;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
    const Node *n = node_of(node, CU_GRAPH_NODE_TYPE_GRAPH);
    if (!n || !graph) return CUDA_ERROR_INVALID_VALUE;
    *graph = object_handle(n->child);
    return CUDA_SUCCESS;
}

static CUresult set_work(CUgraphNode node, int type, CUresult r, Work *w) {
    Node *n = node_of(node, type);
    if (!r && !n) r = CUDA_ERROR_INVALID_VALUE;
    if (r) {
        work_clear(w);
        return r;
    }
    work_clear(&n->work);
    n->work = *w;
    return CUDA_SUCCESS;
}
CUresult sim_cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    Work w = {.kind = WORK_EMPTY};
    const CUresult r = kernel_params(params, false, &w);
    return set_work(node, CU_GRAPH_NODE_TYPE_KERNEL, r, &w);
}
CUresult sim_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    Work w = {.kind = WORK_EMPTY};
    const CUresult r = kernel_params(params, true, &w);
    return set_work(node, CU_GRAPH_NODE_TYPE_KERNEL, r, &w);
}
CUresult sim_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *copy) {
    Work w;
    const CUresult r = copy_params(copy, &w);
    return set_work(node, CU_GRAPH_NODE_TYPE_MEMCPY, r, &w);
}
CUresult sim_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill) {
    Work w;
    const CUresult r = fill_params(fill, &w);
    return set_work(node, CU_GRAPH_NODE_TYPE_MEMSET, r, &w);
}
CUresult sim_cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params) {
    Work w;
    const CUresult r = host_params(params, &w);
    return set_work(node, CU_GRAPH_NODE_TYPE_HOST, r, &w);
}

CUresult sim_cuGraphKernelNodeSetAttribute(CUgraphNode node, int attribute, const CUlaunchAttributeValue *value) {
    Node *n = node_of(node, CU_GRAPH_NODE_TYPE_KERNEL);
    return n && value ? launch_attribute(&n->work.kernel, attribute, value) : CUDA_ERROR_INVALID_VALUE;
}

/* The parameters come as one block: the form that a program gives with CU_LAUNCH_PARAM_BUFFER_POINTER. */
CUresult sim_cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params) {
    const Node *n = node_of(node, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!n || !params) return CUDA_ERROR_INVALID_VALUE;
    const KernelWork *k = &n->work.kernel;
    const CUDA_KERNEL_NODE_PARAMS q = {.func = k->function,
                                       .gridDimX = k->grid[0],
                                       .gridDimY = k->grid[1],
                                       .gridDimZ = k->grid[2],
                                       .blockDimX = k->block[0],
                                       .blockDimY = k->block[1],
                                       .blockDimZ = k->block[2],
                                       .sharedMemBytes = k->shared};
    memcpy(params, &q, offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
    return CUDA_SUCCESS;
}
CUresult sim_cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params) {
    const CUresult r = sim_cuGraphKernelNodeGetParams(node, params);
    if (r) return r;
    params->kern = NULL;
    params->ctx = object_handle(current_context());
    return CUDA_SUCCESS;
}

static CUresult unlink_node(Graph *g, Node *n) {
    for (size_t k = 0; k < g->count; k++) {
        NodeList *l = &g->node[k]->after;
        size_t kept = 0;
        for (size_t d = 0; d < l->count; d++)
            if (l->item[d] != n) l->item[kept++] = l->item[d];
        l->count = kept;
    }
    memmove(&g->node[n->index], &g->node[n->index + 1], (g->count - n->index - 1) * sizeof(Node *));
    g->count--;
    for (size_t k = 0; k < g->count; k++) g->node[k]->index = k;
    node_free(n);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphDestroyNode(CUgraphNode node) {
    Node *n = node_of(node, -1);
    return n && !n->graph->embedded && !n->graph->executable ? unlink_node(n->graph, n) : CUDA_ERROR_INVALID_VALUE;
}
