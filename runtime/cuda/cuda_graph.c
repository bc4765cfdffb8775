/* Launches as graph nodes.  The edges are the plan's; a graph is made once per entry and set of outputs and only its
 * extents change. */
#include "runtime/cuda/cuda_internal.h"
#include <string.h>

/* Programs of the grid, those that only fill up a cluster included; past what a grid takes, INT32_MAX + 1. */
static int64_t cuda_programs(const fusec_kernel *k, const int32_t *syms) {
    int64_t n = 1;
    int too_many = 0;
    for (int a = 0; a < k->n_grid; a++) {
        const struct fusec_grid *g = &k->grid[a];
        const int64_t extent = (g->sym < 0 ? 0 : (int64_t)g->scale * syms[g->sym]) + g->shift;
        const int64_t multiple = k->cluster > 1 && a == k->cluster_axis ? k->cluster : 1;
        if (extent <= 0) return 0;
        n *= (extent + g->step * multiple - 1) / (g->step * multiple) * multiple;
        if (n <= INT32_MAX) continue;
        too_many = 1;
        n = 1;
    }
    return too_many ? (int64_t)INT32_MAX + 1 : n;
}

/* Blocks that walk them: whole clusters, one block on each multiprocessor, where the kernel is persistent. */
static int64_t cuda_blocks(const fusec_cuda *c, const fusec_kernel *k, int64_t programs) {
    const int64_t cluster = k->cluster > 1 ? k->cluster : 1, resident = c->multiprocessors / cluster * cluster;
    if (!k->persistent || programs <= resident) return programs;
    return resident ? resident : cluster;
}

FUSEC_WEAK fusec_status fusec_cuda_prepare(fusec_cuda *c, const fusec_launch *l, const int32_t *syms,
                                           fusec_cuda_args *args) {
    const fusec_manifest *m = c->manifest;
    const fusec_kernel *k = &m->kernels[l->kernel];
    int64_t programs;
    for (uint32_t i = 0; i < k->n_args; i++) {
        args->address[i] = fusec_cuda_address(c, &m->args[l->first_arg + i]);
        args->pointer[i] = &args->address[i];
    }
    for (uint32_t i = 0; i < m->n_syms + k->n_constants; i++) {
        args->sym[i] = i < m->n_syms ? syms[i] : l->constant[i - m->n_syms];
        args->pointer[k->n_args + i] = &args->sym[i];
    }
    programs = cuda_programs(k, args->sym);
    if (programs > INT32_MAX) {
        fusec_cuda_say(c, k->name);
        fusec_cuda_say(c, ": more programs than a grid takes\n");
        return FUSEC_E_ARGUMENT;
    }
    memset(&args->node, 0, sizeof args->node);
    args->node.function = c->functions[l->kernel];
    memset(&args->cluster, 0, sizeof args->cluster);
    args->cluster.dim[0] = k->cluster ? k->cluster : 1;
    args->cluster.dim[1] = args->cluster.dim[2] = 1;
    args->node.grid_x = (unsigned)cuda_blocks(c, k, programs);
    args->node.grid_y = args->node.grid_z = args->node.block_y = args->node.block_z = 1;
    args->node.block_x = k->threads ? k->threads : 1;
    args->node.shared_bytes = k->shared_bytes;
    args->node.params = args->pointer;
    return k->n_maps && programs ? fusec_cuda_encode_maps(c, k, args, k->n_args + m->n_syms + k->n_constants) : FUSEC_OK;
}

FUSEC_WEAK fusec_status fusec_cuda_launch(fusec_cuda *c, const fusec_cuda_args *args) {
    const fusec_cu_node *n = &args->node;
    fusec_cu_cluster cluster;
    fusec_cu_launch config;
    if (args->cluster.dim[0] == 1)
        return fusec_cuda_check(c,
                                c->driver.cuLaunchKernel(n->function, n->grid_x, 1, 1, n->block_x, 1, 1,
                                                         n->shared_bytes, c->stream, n->params, NULL),
                                "cuLaunchKernel");
    if (!fusec_cuda_has(c, c->driver.cuLaunchKernelEx != NULL, "cuLaunchKernelEx")) return FUSEC_E_DRIVER;
    memset(&config, 0, sizeof config);
    config.grid_x = n->grid_x;
    config.block_x = n->block_x;
    config.grid_y = config.grid_z = config.block_y = config.block_z = config.n_attributes = 1;
    config.shared_bytes = n->shared_bytes;
    config.stream = c->stream;
    config.attributes = &cluster;
    cluster.id = FUSEC_CU_CLUSTER_DIMENSION;
    cluster.padding = 0;
    cluster.value = args->cluster;
    return fusec_cuda_check(c, c->driver.cuLaunchKernelEx(&config, n->function, n->params, NULL), "cuLaunchKernelEx");
}

FUSEC_WEAK int fusec_cuda_needed(const fusec_launch *l, uint64_t wanted) {
    return l->wanted_by == FUSEC_ALWAYS || (l->wanted_by & wanted) != 0;
}

FUSEC_WEAK void fusec_cuda_graph_free(fusec_cuda *c, fusec_cuda_graph *g) {
    if (g->exec) (void)c->driver.cuGraphExecDestroy(g->exec);
    if (g->graph) (void)c->driver.cuGraphDestroy(g->graph);
    g->exec = g->graph = NULL;
}

/* Takes note that launch `of` follows what launch i follows; how many launches were not noted before. */
static uint32_t cuda_reach(const fusec_cuda *c, const fusec_launch *l, uint32_t i, uint32_t of) {
    uint32_t found = 0;
    for (uint32_t k = 0; k < l->n_after; k++) {
        const uint32_t back = c->manifest->after[l->first_after + k];
        if (back == 0 || back > i || c->reached[i - back] == of) continue;
        c->reached[i - back] = of;
        found++;
    }
    return found;
}

/* The nodes that launch i follows, into c->before; in place of one that is left out, what that one follows. */
static uint32_t cuda_before(fusec_cuda *c, const fusec_cuda_graph *g, uint32_t i) {
    const fusec_launch *launches = &c->manifest->launches[c->manifest->entry[g->entry].first_launch];
    uint32_t n = 0, open = cuda_reach(c, &launches[i], i, i);
    for (uint32_t k = i; open;) {
        if (c->reached[--k] != i) continue;
        open--;
        if (g->nodes[k])
            c->before[n++] = g->nodes[k];
        else
            open += cuda_reach(c, &launches[k], k, i);
    }
    return n;
}

/* May the kernel begin while the one launch that it follows ends?  Of several it waits for all, as a graph's edges say. */
static int cuda_begins_early(const fusec_cuda *c, const fusec_kernel *k, uint32_t before) {
    return k->dependent && before == 1 && !c->full_edges && c->driver.cuGraphAddDependencies_v2 != NULL;
}

/* A node after the `before` nodes of c->before.  An edge that the driver does not take is a full one. */
static fusec_status cuda_add_node(fusec_cuda *c, fusec_cuda_graph *g, void **node, const fusec_kernel *k, const fusec_cuda_args *args, uint32_t before) {
    const int early = cuda_begins_early(c, k, before);
    fusec_cu_edge edge;
    fusec_status s = fusec_cuda_check(
        c, c->driver.cuGraphAddKernelNode(node, g->graph, before && !early ? c->before : NULL, early ? 0 : before, &args->node), "cuGraphAddKernelNode");
    if (s != FUSEC_OK || !early) return s;
    memset(&edge, 0, sizeof edge);
    edge.from_port = FUSEC_CU_PORT_PROGRAMMATIC;
    edge.type = FUSEC_CU_EDGE_PROGRAMMATIC;
    if (c->driver.cuGraphAddDependencies_v2(g->graph, c->before, node, &edge, 1) == 0) {
        g->early++;
        return FUSEC_OK;
    }
    c->full_edges = 1;
    memset(&edge, 0, sizeof edge);
    return fusec_cuda_check(c, c->driver.cuGraphAddDependencies_v2(g->graph, c->before, node, &edge, 1), "cuGraphAddDependencies");
}

static fusec_status cuda_set_cluster(fusec_cuda *c, void *node, const fusec_cuda_args *args) {
    if (!fusec_cuda_has(c, c->driver.cuGraphKernelNodeSetAttribute != NULL, "cuGraphKernelNodeSetAttribute"))
        return FUSEC_E_DRIVER;
    return fusec_cuda_check(
        c, c->driver.cuGraphKernelNodeSetAttribute(node, FUSEC_CU_CLUSTER_DIMENSION, &args->cluster),
        "cuGraphKernelNodeSetAttribute");
}

/* Nodes of the launches that have programs; *n of them. */
static fusec_status cuda_add_nodes(fusec_cuda *c, fusec_cuda_graph *g, const int32_t *syms, uint32_t *n) {
    const fusec_entry *e = &c->manifest->entry[g->entry];
    *n = g->early = 0;
    for (uint32_t i = 0; i < e->n_launches; i++) {
        const fusec_launch *l = &c->manifest->launches[e->first_launch + i];
        fusec_cuda_args args;
        fusec_status s;
        g->nodes[i] = NULL;
        c->reached[i] = 0; /* launch 0 follows nothing */
        if (!fusec_cuda_needed(l, g->wanted)) continue;
        s = fusec_cuda_prepare(c, l, syms, &args);
        if (s == FUSEC_OK && args.node.grid_x) {
            const uint32_t before = cuda_before(c, g, i);
            s = cuda_add_node(c, g, &g->nodes[i], &c->manifest->kernels[l->kernel], &args, before);
            if (s == FUSEC_OK && args.cluster.dim[0] > 1) s = cuda_set_cluster(c, g->nodes[i], &args);
        }
        if (s != FUSEC_OK) return s;
        *n += g->nodes[i] != NULL;
    }
    return FUSEC_OK;
}

static void cuda_keep_syms(const fusec_cuda *c, fusec_cuda_graph *g, const int32_t *syms) {
    if (c->manifest->n_syms) memcpy(g->syms, syms, sizeof *syms * c->manifest->n_syms);
}

/* Fills a free place; it stays free after a failure or when there is nothing to launch. */
static fusec_status cuda_build(fusec_cuda *c, fusec_cuda_graph *g, const int32_t *syms) {
    void *made = NULL;
    uint32_t n = 0;
    fusec_status s = fusec_cuda_check(c, c->driver.cuGraphCreate(&made, 0), "cuGraphCreate");
    if (s != FUSEC_OK) return s;
    g->graph = made;
    s = cuda_add_nodes(c, g, syms, &n);
    if (s == FUSEC_OK && n) {
        const int result = c->driver.cuGraphInstantiateWithFlags(&made, g->graph, 0);
        if (result && g->early) { /* with full edges alone, then */
            c->full_edges = 1;
            fusec_cuda_graph_free(c, g);
            return cuda_build(c, g, syms);
        }
        s = fusec_cuda_check(c, result, "cuGraphInstantiate");
        if (s == FUSEC_OK) g->exec = made;
    }
    if (!g->exec) fusec_cuda_graph_free(c, g);
    cuda_keep_syms(c, g, syms);
    return s;
}

/* New extents into the nodes.  *rebuild: a launch has got its first programs, or lost its last. */
static fusec_status cuda_update(fusec_cuda *c, fusec_cuda_graph *g, const int32_t *syms, int *rebuild) {
    const fusec_entry *e = &c->manifest->entry[g->entry];
    *rebuild = 0;
    for (uint32_t i = 0; i < e->n_launches; i++) {
        const fusec_launch *l = &c->manifest->launches[e->first_launch + i];
        fusec_cuda_args args;
        fusec_status s;
        if (!fusec_cuda_needed(l, g->wanted)) continue;
        s = fusec_cuda_prepare(c, l, syms, &args);
        if (s != FUSEC_OK) return s;
        *rebuild = (args.node.grid_x != 0) != (g->nodes[i] != NULL);
        if (*rebuild) return FUSEC_OK;
        if (!g->nodes[i]) continue;
        s = fusec_cuda_check(c, c->driver.cuGraphExecKernelNodeSetParams(g->exec, g->nodes[i], &args.node),
                             "cuGraphExecKernelNodeSetParams");
        if (s != FUSEC_OK) return s;
    }
    cuda_keep_syms(c, g, syms);
    return FUSEC_OK;
}

static int cuda_same_syms(const fusec_cuda *c, const fusec_cuda_graph *g, const int32_t *syms) {
    for (uint32_t i = 0; i < c->manifest->n_syms; i++)
        if (g->syms[i] != syms[i]) return 0;
    return 1;
}

/* The graph that is kept for these, or a place for one. */
static fusec_cuda_graph *cuda_place(fusec_cuda *c, int entry, uint64_t wanted) {
    fusec_cuda_graph *oldest = &c->graphs[0];
    for (int i = 0; i < FUSEC_CUDA_GRAPHS; i++) {
        fusec_cuda_graph *g = &c->graphs[i];
        if (g->exec && g->entry == entry && g->wanted == wanted) return g;
        if (!g->exec ? oldest->exec != NULL : oldest->exec && g->used < oldest->used) oldest = g;
    }
    fusec_cuda_graph_free(c, oldest);
    oldest->entry = entry;
    oldest->wanted = wanted;
    return oldest;
}

FUSEC_WEAK fusec_status fusec_cuda_graph_for(fusec_cuda *c, int entry, uint64_t wanted, const int32_t *syms,
                                             void **exec) {
    fusec_cuda_graph *g = cuda_place(c, entry, wanted);
    fusec_status s = FUSEC_OK;
    if (g->exec && !cuda_same_syms(c, g, syms)) {
        int rebuild;
        s = cuda_update(c, g, syms, &rebuild);
        if (s != FUSEC_OK || rebuild) fusec_cuda_graph_free(c, g); /* half updated */
    }
    if (s == FUSEC_OK && !g->exec) s = cuda_build(c, g, syms);
    g->used = ++c->clock;
    *exec = g->exec;
    return s;
}
