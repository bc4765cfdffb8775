/* Graphs: nodes with dependencies; a launch runs them in an order that respects these, drawn from PTXSIM_SEED. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

typedef enum NodeKind { NODE_EMPTY, NODE_KERNEL, NODE_COPY, NODE_FILL } NodeKind;

struct CUgraphNode_st {
    CUgraph graph;
    NodeKind kind;
    CUfunction function;
    uint32_t grid[3], block[3], shared;
    uint8_t *params;
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS fill;
    CUgraphNode *after;
    size_t after_count;
    CUgraphNode origin; /* in an executable: the node it was copied from */
    size_t index;
};

struct CUgraph_st { CUgraphNode *node; size_t count, capacity; };
struct CUgraphExec_st { struct CUgraph_st graph; };

static void node_delete(CUgraphNode n) {
    free(n->params);
    free(n->after);
    free(n);
}

static void nodes_delete(struct CUgraph_st *g) {
    for (size_t k = 0; k < g->count; k++) node_delete(g->node[k]);
    free(g->node);
}

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    CUresult r;
    if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!driver_enter(&r)) return r;
    *graph = calloc(1, sizeof **graph);
    return driver_leave(*graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphDestroy(CUgraph graph) {
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    nodes_delete(graph);
    free(graph);
    return CUDA_SUCCESS;
}

static bool add_dependency(CUgraphNode n, CUgraphNode before) {
    CUgraphNode *grown = realloc(n->after, (n->after_count + 1) * sizeof(CUgraphNode));
    if (!grown) return false;
    n->after = grown;
    n->after[n->after_count++] = before;
    return true;
}

static CUgraphNode node_new(CUgraph g, NodeKind kind, const CUgraphNode *after, size_t count) {
    if (g->count == g->capacity) {
        const size_t capacity = g->capacity ? 2 * g->capacity : 32;
        CUgraphNode *grown = realloc(g->node, capacity * sizeof(CUgraphNode));
        if (!grown) return NULL;
        g->node = grown;
        g->capacity = capacity;
    }
    CUgraphNode n = calloc(1, sizeof *n);
    if (!n) return NULL;
    n->graph = g;
    n->kind = kind;
    n->index = g->count;
    for (size_t k = 0; k < count; k++)
        if (!add_dependency(n, after[k])) {
            node_delete(n);
            return NULL;
        }
    g->node[g->count++] = n;
    return n;
}

static CUresult check_node(const void *node, CUgraph g, const CUgraphNode *after, size_t n, const void *params) {
    if (!node || !g || !params || (n && !after)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < n; k++)
        if (!after[k] || after[k]->graph != g) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult set_kernel(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p) {
    CUresult r;
    uint8_t *params = launch_params(p->func, p->kernelParams, p->extra, &r);
    if (!params) return r;
    free(n->params);
    n->params = params;
    n->function = p->func;
    memcpy(n->grid, &p->gridDimX, sizeof n->grid);
    memcpy(n->block, &p->blockDimX, sizeof n->block);
    n->shared = p->sharedMemBytes;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph g, const CUgraphNode *after, size_t n,
                              const CUDA_KERNEL_NODE_PARAMS *p) {
    CUresult r = check_node(node, g, after, n, p);
    if (r) return r;
    if (!p->func) return CUDA_ERROR_INVALID_VALUE;
    CUgraphNode k = node_new(g, NODE_KERNEL, after, n);
    if (!k) return CUDA_ERROR_OUT_OF_MEMORY;
    r = set_kernel(k, p);
    if (r) {
        node_delete(k);
        g->count--;
        return r;
    }
    *node = k;
    return CUDA_SUCCESS;
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph g, const CUgraphNode *after, size_t n,
                                 const CUDA_KERNEL_NODE_PARAMS *p) {
    return cuGraphAddKernelNode(node, g, after, n, p);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph g, const CUgraphNode *after, size_t n, const CUDA_MEMCPY3D *p,
                              CUcontext context) {
    (void)context;
    const CUresult r = check_node(node, g, after, n, p);
    if (r) return r;
    if (p->Height > 1 || p->Depth > 1 || p->srcArray || p->dstArray) return CUDA_ERROR_NOT_SUPPORTED;
    CUgraphNode k = node_new(g, NODE_COPY, after, n);
    if (!k) return CUDA_ERROR_OUT_OF_MEMORY;
    k->copy = *p;
    *node = k;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph g, const CUgraphNode *after, size_t n,
                              const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context) {
    (void)context;
    const CUresult r = check_node(node, g, after, n, p);
    if (r) return r;
    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)) return CUDA_ERROR_INVALID_VALUE;
    CUgraphNode k = node_new(g, NODE_FILL, after, n);
    if (!k) return CUDA_ERROR_OUT_OF_MEMORY;
    k->fill = *p;
    *node = k;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph g, const CUgraphNode *after, size_t n) {
    const CUresult r = check_node(node, g, after, n, "");
    if (r) return r;
    *node = node_new(g, NODE_EMPTY, after, n);
    return *node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
    if (!g || (n && (!from || !to))) return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < n; k++) {
        if (!from[k] || !to[k] || from[k]->graph != g || to[k]->graph != g) return CUDA_ERROR_INVALID_VALUE;
        if (!add_dependency(to[k], from[k])) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

/* ---- executables -------------------------------------------------------------------------------------- */
/* An order of the nodes in which dependencies come first; false for a cycle. */
static bool order_nodes(const struct CUgraph_st *g, size_t *order, uint64_t seed) {
    size_t *open = calloc(g->count + 1, sizeof *open), *ready = calloc(g->count + 1, sizeof *ready);
    size_t ready_count = 0, done = 0;
    uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t k = 0; open && ready && k < g->count; k++) {
        open[k] = g->node[k]->after_count;
        if (!open[k]) ready[ready_count++] = k;
    }
    while (open && ready && ready_count) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        const size_t at = seed ? random % ready_count : 0, n = ready[at];
        memmove(&ready[at], &ready[at + 1], (--ready_count - at) * sizeof *ready);
        order[done++] = n;
        for (size_t k = 0; k < g->count; k++)
            for (size_t d = 0; d < g->node[k]->after_count; d++)
                if (g->node[k]->after[d]->index == n && --open[k] == 0) ready[ready_count++] = k;
    }
    free(open);
    free(ready);
    return done == g->count;
}

static CUgraphNode node_copy(CUgraph to, CUgraphNode n) {
    CUgraphNode c = node_new(to, n->kind, NULL, 0);
    if (!c) return NULL;
    const size_t bytes = n->kind == NODE_KERNEL ? n->function->fn->param_bytes + 1u : 0;
    c->origin = n;
    c->function = n->function;
    memcpy(c->grid, n->grid, sizeof c->grid);
    memcpy(c->block, n->block, sizeof c->block);
    c->shared = n->shared;
    c->copy = n->copy;
    c->fill = n->fill;
    c->params = bytes ? malloc(bytes) : NULL;
    if (bytes && !c->params) return NULL;
    if (bytes) memcpy(c->params, n->params, bytes - 1);
    return c;
}

/* The executable's own copy of every node, in the order in which they were added. */
static bool copy_nodes(CUgraph to, const struct CUgraph_st *from) {
    for (size_t k = 0; k < from->count; k++)
        if (!node_copy(to, from->node[k])) return false;
    for (size_t k = 0; k < from->count; k++)
        for (size_t d = 0; d < from->node[k]->after_count; d++)
            if (!add_dependency(to->node[k], to->node[from->node[k]->after[d]->index])) return false;
    return true;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    (void)flags;
    if (!exec || !graph) return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec e = calloc(1, sizeof *e);
    size_t *order = calloc(graph->count + 1, sizeof *order);
    CUresult r = e && order && copy_nodes(&e->graph, graph) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!r && !order_nodes(&e->graph, order, 0)) r = CUDA_ERROR_INVALID_VALUE;
    free(order);
    if (r && e) {
        nodes_delete(&e->graph);
        free(e);
    }
    if (!r) *exec = e;
    return r;
}
CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t bytes) {
    if (error_node) *error_node = NULL;
    if (log && bytes) *log = '\0';
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p) {
    if (!exec || !node || !p || !p->func) return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < exec->graph.count; k++)
        if (exec->graph.node[k]->origin == node && node->kind == NODE_KERNEL) return set_kernel(exec->graph.node[k], p);
    return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p) {
    return cuGraphExecKernelNodeSetParams(exec, node, p);
}

static CUresult run_copy(CUcontext c, const CUDA_MEMCPY3D *p) {
    const bool from_host = p->srcMemoryType == CU_MEMORYTYPE_HOST, to_host = p->dstMemoryType == CU_MEMORYTYPE_HOST;
    const uint8_t *from = from_host ? (const uint8_t *)p->srcHost + p->srcXInBytes : NULL;
    uint8_t *to = to_host ? (uint8_t *)p->dstHost + p->dstXInBytes : NULL;
    const size_t bytes = p->Height && p->Depth ? p->WidthInBytes : 0;
    if (from_host && to_host) memmove(to, from, bytes);
    else if (from_host) return copy_to_device(c, p->dstDevice + p->dstXInBytes, from, bytes);
    else if (to_host) return copy_to_host(c, to, p->srcDevice + p->srcXInBytes, bytes);
    else return copy_on_device(c, p->dstDevice + p->dstXInBytes, p->srcDevice + p->srcXInBytes, bytes);
    return CUDA_SUCCESS;
}

static CUresult run_fill(CUcontext c, const CUDA_MEMSET_NODE_PARAMS *p) {
    CUresult r = CUDA_SUCCESS;
    for (size_t row = 0; row < p->height && !r; row++)
        r = fill_device(c, p->dst + row * p->pitch, p->value, (int)p->elementSize, p->width);
    return r;
}

static CUresult run_node(CUcontext c, CUgraphNode n) {
    switch (n->kind) {
    case NODE_KERNEL: return launch_grid(c, n->function, n->grid, n->block, n->shared, n->params);
    case NODE_COPY: return run_copy(c, &n->copy);
    case NODE_FILL: return run_fill(c, &n->fill);
    default: return CUDA_SUCCESS;
    }
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    CUresult r;
    const char *seed = getenv("PTXSIM_SEED");
    (void)stream;
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    CUcontext c = driver_enter(&r);
    if (!c) return r;
    size_t *order = calloc(exec->graph.count + 1, sizeof *order);
    if (!order || !order_nodes(&exec->graph, order, seed ? strtoull(seed, NULL, 0) : 0)) r = CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; !r && k < exec->graph.count; k++) r = run_node(c, exec->graph.node[order[k]]);
    free(order);
    return driver_leave(r);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    (void)stream;
    return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    nodes_delete(&exec->graph);
    free(exec);
    return CUDA_SUCCESS;
}
