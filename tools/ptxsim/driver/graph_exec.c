/* Executable graphs: a copy of a graph, child graphs spread out, whose nodes' parameters can change.  A launch submits
 * the nodes to a stream in an order that respects the edges, drawn from PTXSIM_SEED anew for every launch. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

enum { INSTANTIATE_FLAGS = 15, DEVICE_LAUNCH = 4 };

/* ---- copies ------------------------------------------------------------------------------------------- */
static Node *node_copy(Graph *to, const Node *from) {
    Node *n = node_new(to, from->type, NULL);
    if (!n) return NULL;
    n->origin = object_handle(from);
    n->disabled = from->disabled;
    if (!work_copy(&n->work, &from->work)) {
        n->work = (Work){.kind = WORK_EMPTY};
        return NULL;
    }
    if (!from->child) return n;
    n->child = graph_new(NULL, true);
    if (!n->child || !graph_copy(n->child, from->child, false)) return NULL;
    n->child->embedded = true;
    return n;
}

/* Puts a child graph's nodes between an empty node, which follows what the child follows, and another, which stands for
 * its end.  *first, *last: these two. */
static bool spread(Graph *to, const Node *from, Node **first, Node **last) {
    *first = node_new(to, CU_GRAPH_NODE_TYPE_EMPTY, NULL);
    const size_t begin = to->count;
    if (!*first || !graph_copy(to, from->child, true)) return false;
    const size_t end = to->count;
    *last = node_new(to, CU_GRAPH_NODE_TYPE_EMPTY, NULL);
    if (!*last || !list_add(&(*last)->after, *first)) return false;
    (*last)->origin = object_handle(from);
    for (size_t k = begin; k < end; k++) {
        if (!to->node[k]->after.count && !list_add(&to->node[k]->after, *first)) return false;
        if (!list_add(&(*last)->after, to->node[k])) return false;
    }
    return true;
}

bool graph_copy(Graph *to, const Graph *from, bool flat) {
    Node **first = calloc(from->count + 1, sizeof *first), **last = calloc(from->count + 1, sizeof *last);
    bool ok = first && last;
    for (size_t k = 0; ok && k < from->count; k++) {
        if (flat && from->node[k]->child)
            ok = spread(to, from->node[k], &first[k], &last[k]);
        else
            ok = (first[k] = last[k] = node_copy(to, from->node[k])) != NULL;
    }
    for (size_t k = 0; ok && k < from->count; k++)
        for (size_t d = 0; ok && d < from->node[k]->after.count; d++)
            ok = list_add(&first[k]->after, last[from->node[k]->after.item[d]->index]);
    free(first);
    free(last);
    return ok;
}

/* ---- made --------------------------------------------------------------------------------------------- */
void exec_free(Exec *e) {
    if (e->graph) graph_free(e->graph);
    object_free(e);
}

static CUresult check_kernels(const Graph *g) {
    for (size_t k = 0; k < g->count; k++) {
        const Work *w = &g->node[k]->work;
        const SimFunction *f = w->kind == WORK_KERNEL ? function_of(w->kernel.function) : NULL;
        if (w->kind != WORK_KERNEL) continue;
        const CUresult r = f ? launch_check(f, &w->kernel) : CUDA_ERROR_INVALID_HANDLE;
        if (r) return r;
    }
    return CUDA_SUCCESS;
}

static CUresult fill_exec(Exec *e, const Graph *g) {
    e->graph = graph_new(NULL, true);
    if (!e->graph || !graph_copy(e->graph, g, true)) return CUDA_ERROR_OUT_OF_MEMORY;
    e->graph->executable = true;
    size_t *order = calloc(e->graph->count + 1, sizeof *order);
    const bool sound = order && graph_order(e->graph, order, 0);
    free(order);
    return sound ? check_kernels(e->graph) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    const Graph *g = object_find(graph, OBJECT_GRAPH);
    if (!exec || !g || flags > INSTANTIATE_FLAGS) return CUDA_ERROR_INVALID_VALUE;
    if (flags & DEVICE_LAUNCH) return CUDA_ERROR_NOT_SUPPORTED;
    Exec *e = object_new(OBJECT_EXEC, current_context(), sizeof *e);
    if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
    e->flags = flags;
    const CUresult r = fill_exec(e, g);
    if (r) {
        exec_free(e);
        return r;
    }
    counters.graph_instantiations++;
    *exec = object_handle(e);
    return CUDA_SUCCESS;
}
CUresult sim_cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t bytes) {
    if (error_node) *error_node = NULL;
    if (log && bytes) *log = '\0';
    return sim_cuGraphInstantiateWithFlags(exec, graph, 0);
}
CUresult sim_cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    enum { SUCCESS, ERROR, INVALID_STRUCTURE };
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = sim_cuGraphInstantiateWithFlags(exec, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = !r ? SUCCESS : r == CUDA_ERROR_INVALID_VALUE ? INVALID_STRUCTURE : ERROR;
    return r;
}

CUresult sim_cuGraphExecDestroy(CUgraphExec exec) {
    Exec *e = object_find(exec, OBJECT_EXEC);
    if (!e) return CUDA_ERROR_INVALID_VALUE;
    exec_free(e); /* launches have copied what they need */
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecGetFlags(CUgraphExec exec, uint64_t *flags) {
    const Exec *e = object_find(exec, OBJECT_EXEC);
    if (!e || !flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = e->flags;
    return CUDA_SUCCESS;
}

/* ---- changed ------------------------------------------------------------------------------------------ */
/* The executable's node made from this one. */
static Node *exec_node(CUgraphExec exec, CUgraphNode origin) {
    const Exec *e = object_find(exec, OBJECT_EXEC);
    for (size_t k = 0; e && origin && k < e->graph->count; k++)
        if (e->graph->node[k]->origin == origin) return e->graph->node[k];
    return NULL;
}

/* Through the node's own function, so that the same rules hold; a handle to the copy is all that it needs. */
static CUresult changed(CUresult r) {
    counters.graph_updates += !r;
    return r;
}
CUresult sim_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    Node *n = exec_node(exec, node);
    if (!n || n->type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_VALUE;
    const KernelWork old = n->work.kernel;
    const CUresult r = sim_cuGraphKernelNodeSetParams(object_handle(n), params);
    if (r) return r;
    memcpy(n->work.kernel.cluster, old.cluster, sizeof old.cluster); /* attributes stay */
    n->work.kernel.cooperative = old.cooperative;
    n->work.kernel.serialized = old.serialized;
    n->work.kernel.priority = old.priority;
    return changed(CUDA_SUCCESS);
}
CUresult sim_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS *params) {
    CUDA_KERNEL_NODE_PARAMS q;
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    q = *params;
    if (!q.func && q.kern) q.func = (CUfunction)(void *)q.kern;
    return sim_cuGraphExecKernelNodeSetParams(exec, node, &q);
}
CUresult sim_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy,
                                            CUcontext context) {
    const Node *n = exec_node(exec, node);
    (void)context;
    return n ? changed(sim_cuGraphMemcpyNodeSetParams(object_handle(n), copy)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult sim_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill,
                                            CUcontext context) {
    const Node *n = exec_node(exec, node);
    (void)context;
    return n ? changed(sim_cuGraphMemsetNodeSetParams(object_handle(n), fill)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult sim_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params) {
    const Node *n = exec_node(exec, node);
    return n ? changed(sim_cuGraphHostNodeSetParams(object_handle(n), params)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
    Node *n = exec_node(exec, node);
    if (!n || n->type > CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_ERROR_INVALID_VALUE; /* kernels, copies and fills */
    n->disabled = !enabled;
    return changed(CUDA_SUCCESS);
}
CUresult sim_cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *enabled) {
    const Node *n = exec_node(exec, node);
    if (!n || !enabled || n->type > CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_ERROR_INVALID_VALUE;
    *enabled = !n->disabled;
    return CUDA_SUCCESS;
}

/* The first node that differs in kind or in what it follows; NULL: the same shape. */
static const Node *difference(const Graph *a, const Graph *b, int *result) {
    *result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t k = 0; k < a->count || k < b->count; k++) {
        if (k >= a->count || k >= b->count)
            return k < b->count ? b->node[k] : b->count ? b->node[b->count - 1] : a->node[k];
        const Node *x = a->node[k], *y = b->node[k];
        if (x->type != y->type) {
            *result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
            return y;
        }
        if (x->after.count != y->after.count) return y;
        for (size_t d = 0; d < x->after.count; d++)
            if (x->after.item[d]->index != y->after.item[d]->index) return y;
    }
    *result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return NULL;
}

CUresult sim_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
    Exec *e = object_find(exec, OBJECT_EXEC);
    const Graph *g = object_find(graph, OBJECT_GRAPH);
    if (!e || !g || !info) return CUDA_ERROR_INVALID_VALUE;
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    Exec fresh = {.graph = NULL};
    CUresult r = fill_exec(&fresh, g);
    const Node *at = r ? NULL : difference(e->graph, fresh.graph, &info->result);
    if (!r && info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        info->errorNode = at ? at->origin : NULL;
        r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    Graph *unwanted = fresh.graph;
    if (!r) {
        unwanted = e->graph;
        e->graph = fresh.graph;
        counters.graph_updates += e->graph->count;
        for (size_t k = 0; k < e->graph->count; k++)
            e->graph->node[k]->origin = unwanted->node[k]->origin; /* as before */
    }
    if (unwanted) graph_free(unwanted);
    return r;
}
CUresult sim_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, int *result) {
    CUgraphExecUpdateResultInfo info = {0};
    const CUresult r = sim_cuGraphExecUpdate_v2(exec, graph, &info);
    if (error_node) *error_node = info.errorNode;
    if (result) *result = info.result;
    return r;
}

/* ---- launched ----------------------------------------------------------------------------------------- */
static CUresult submit_nodes(Exec *e, Stream *s, const size_t *order) {
    CUresult r = check_kernels(e->graph); /* a module may be gone */
    for (size_t k = 0; k < e->graph->count && !r; k++) {
        const Node *n = e->graph->node[order[k]];
        Work w;
        if (n->disabled || n->work.kind == WORK_EMPTY) continue;
        if (!work_copy(&w, &n->work)) return CUDA_ERROR_OUT_OF_MEMORY;
        r = stream_submit(s, &w, false);
    }
    return r;
}

CUresult sim_cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    Exec *e = object_find(exec, OBJECT_EXEC);
    Stream *s = stream_of(stream);
    if (!e) return CUDA_ERROR_INVALID_VALUE;
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture) return capture_graph(s, e->graph);
    size_t *order = calloc(e->graph->count + 1, sizeof *order);
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    if (order && graph_order(e->graph, order, random_draw(e->launches++))) r = submit_nodes(e, s, order);
    free(order);
    counters.graph_launches += !r;
    return r;
}

CUresult sim_cuGraphUpload(CUgraphExec exec, CUstream stream) {
    if (!object_find(exec, OBJECT_EXEC)) return CUDA_ERROR_INVALID_VALUE;
    return stream_of(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
