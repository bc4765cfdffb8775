#include "tests/support/fake_cuda.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 128, MAX_PARAMS = 64, MAX_BLOCKS = 64, MAX_OBJECTS = 1024, MAX_WORK = 4096, POISON = 0xc3 };

FakeCuda fake;
const char *const fake_names[FAKE_FUNCTIONS] = {
#define FAKE_NAME(symbol, parameters) #symbol,
    FUSEC_CU_FUNCTIONS(FAKE_NAME)
#undef FAKE_NAME
};

/* ---- objects ----------------------------------------------------------------------------------------------------- */
typedef struct FakeNode {
    const FakeKernel *kernel;
    unsigned programs;
    uint64_t value[MAX_PARAMS];
    bool after[MAX_NODES];
} FakeNode;
typedef struct FakeGraph {
    FakeNode node[MAX_NODES];
    int n, early;
} FakeGraph;
typedef struct FakeEvent {
    long recorded; /* work items before it */
    double at;
} FakeEvent;
typedef struct FakeBlock {
    char *memory;
    size_t bytes;
    bool pinned;
} FakeBlock;
/* Work not done yet. */
typedef struct FakeWork {
    void *to;
    const void *from; /* a copy, or */
    size_t bytes;
    FakeGraph *graph; /* launch: its own copy of the nodes */
    FakeEvent *event;
} FakeWork;

static FakeBlock blocks[MAX_BLOCKS];
static int n_blocks;
static FakeWork work[MAX_WORK];
static int n_work;
static long done;
static double clock_ms;

static int fails(int function) {
    fake.calls[function]++;
    if (!fake.fail_at || function != fake.fail_function || fake.calls[function] != fake.fail_at) return 0;
    fake.failed++;
    return 1;
}
static void need_context(void) { fake.misuse += fake.contexts == 0; }
#define FAKE(function) \
    if (fails(FAKE_##function)) return 719
#define FAKE_IN_CONTEXT(function) \
    need_context();               \
    FAKE(function)

static void *objects[MAX_OBJECTS]; /* all that live, so that what a failure leaves behind can be forgotten */
static int n_objects;

static void *object(size_t bytes) {
    if (n_objects == MAX_OBJECTS) abort();
    fake.live++;
    return objects[n_objects++] = calloc(1, bytes);
}
static int discard(void *p) {
    int i = 0;
    while (i < n_objects && objects[i] != p) i++;
    if (i == n_objects) {
        fake.misuse++;
        return 1;
    }
    objects[i] = objects[--n_objects];
    fake.live--;
    free(p);
    return 0;
}

static int allocate(size_t bytes, bool pinned, char **memory) {
    if (!bytes || n_blocks == MAX_BLOCKS) return 1;
    *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(*memory, POISON, bytes);
    blocks[n_blocks++] = (FakeBlock){*memory, bytes, pinned};
    if (!pinned) fake.device_bytes += bytes;
    if (fake.device_bytes > fake.most_device_bytes) fake.most_device_bytes = fake.device_bytes;
    fake.live++;
    return 0;
}
static FakeBlock *block_of(const void *p, size_t bytes) {
    for (int i = 0; i < n_blocks; i++)
        if ((const char *)p >= blocks[i].memory && (const char *)p + bytes <= blocks[i].memory + blocks[i].bytes)
            return &blocks[i];
    return NULL;
}
static int release(char *memory, bool pinned) {
    FakeBlock *b = block_of(memory, 0);
    if (!b || b->memory != memory || b->pinned != pinned) {
        fake.misuse++;
        return 1;
    }
    if (!pinned) fake.device_bytes -= b->bytes;
    memset(b->memory, POISON, b->bytes);
    free(b->memory);
    *b = blocks[--n_blocks];
    fake.live--;
    return 0;
}

/* ---- work: queued, done when waited for -------------------------------------------------------------------------- */
static void run_node(const FakeNode *n) {
    void *params[MAX_PARAMS];
    for (int i = 0; i < MAX_PARAMS; i++) params[i] = (void *)(uintptr_t)&n->value[i];
    n->kernel->run(n->kernel->user, params, n->programs);
}

/* Of the nodes that may run, the one made last: as far from the planned order as the edges allow. */
static void run_graph(const FakeGraph *g) {
    bool over[MAX_NODES] = {false};
    for (int left = g->n; left > 0; left--) {
        int next = -1;
        for (int k = 0; k < g->n; k++) {
            bool ready = !over[k];
            for (int p = 0; p < k && ready; p++) ready = !g->node[k].after[p] || over[p];
            if (ready) next = k;
        }
        over[next] = true;
        run_node(&g->node[next]);
    }
}

static void do_work(int n) {
    for (int i = 0; i < n; i++) {
        const FakeWork *w = &work[i];
        clock_ms += 0.5;
        if (w->from) memcpy(w->to, w->from, w->bytes);
        if (w->event) w->event->at = clock_ms;
        if (w->graph) run_graph(w->graph);
        free(w->graph);
    }
    memmove(work, work + n, sizeof *work * (size_t)(n_work - n));
    n_work -= n;
    done += n;
}

static int enqueue(FakeWork w) {
    if (n_work == MAX_WORK) do_work(1);
    work[n_work++] = w;
    return 0;
}

static int copy(void *to, const void *from, size_t bytes, const void *host, const void *device) {
    const FakeBlock *h = block_of(host, bytes), *d = block_of(device, bytes);
    if (!bytes || !d || d->pinned) {
        fake.misuse++;
        return 1;
    }
    if (!h || !h->pinned) { /* the driver's own staging: read now, written later, or the reverse */
        fake.pageable++;
        do_work(n_work);
        memcpy(to, from, bytes);
        return 0;
    }
    return enqueue((FakeWork){.to = to, .from = from, .bytes = bytes});
}

static FakeNode make_node(const FakeKernel *k, unsigned programs, void **params) {
    FakeNode n = {.kernel = k, .programs = programs};
    const int all = k->n_addresses + k->n_integers;
    if (all > MAX_PARAMS) abort();
    for (int i = 0; i < all; i++) memcpy(&n.value[i], params[i], i < k->n_addresses ? 8 : 4);
    return n;
}

static bool node_is_sound(const fusec_cu_node *p) {
    const bool sound = p->function && p->grid_x && p->grid_y == 1 && p->grid_z == 1 && p->block_x && p->block_y == 1 &&
                       p->block_z == 1;
    fake.misuse += !sound;
    return sound;
}

static FakeGraph *copy_graph(const FakeGraph *g) {
    FakeGraph *to = malloc(sizeof *to);
    *to = *g;
    return to;
}

/* ---- the functions ----------------------------------------------------------------------------------------------- */
static int fake_cuInit(unsigned flags) {
    FAKE(cuInit);
    return flags ? 1 : 0;
}
static int fake_cuGetErrorName(int result, const char **name) {
    *name = result == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_OTHER";
    FAKE(cuGetErrorName);
    return 0;
}
static int fake_cuGetErrorString(int result, const char **text) {
    *text = result == 719 ? "unspecified launch failure" : "another failure";
    FAKE(cuGetErrorString);
    return 0;
}
static int fake_cuDeviceGetCount(int *count) {
    FAKE(cuDeviceGetCount);
    *count = fake.devices;
    return 0;
}
static int fake_cuDeviceGet(int *device, int ordinal) {
    FAKE(cuDeviceGet);
    *device = ordinal + 40;
    return ordinal < fake.devices ? 0 : 101;
}
static int fake_cuDeviceGetName(char *name, int bytes, int device) {
    FAKE(cuDeviceGetName);
    strncpy(name, "Fake GPU", (size_t)bytes);
    return device < 40;
}
static int fake_cuDeviceGetAttribute(int *value, int attribute, int device) {
    FAKE(cuDeviceGetAttribute);
    *value = attribute == FUSEC_CU_CAPABILITY_MAJOR   ? fake.capability / 10
             : attribute == FUSEC_CU_CAPABILITY_MINOR ? fake.capability % 10
             : attribute == FUSEC_CU_MULTIPROCESSORS  ? 3
                                                      : -1;
    return device < 40;
}
static int fake_cuDevicePrimaryCtxRetain(void **context, int device) {
    FAKE(cuDevicePrimaryCtxRetain);
    fake.live++;
    *context = &fake;
    return device < 40;
}
static int fake_cuDevicePrimaryCtxRelease_v2(int device) {
    FAKE(cuDevicePrimaryCtxRelease_v2);
    fake.live--;
    return device < 40;
}
static int fake_cuCtxPushCurrent_v2(void *context) {
    FAKE(cuCtxPushCurrent_v2);
    fake.misuse += context != &fake;
    fake.contexts++;
    return 0;
}
static int fake_cuCtxPopCurrent_v2(void **context) {
    FAKE_IN_CONTEXT(cuCtxPopCurrent_v2);
    *context = &fake;
    fake.contexts--;
    return 0;
}
static void jit_log(unsigned n, const int *options, void **values, int buffer, int bytes, const char *text) {
    char *to = NULL;
    size_t room = 0;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == buffer) to = values[i];
        if (options[i] == bytes) room = (size_t)(uintptr_t)values[i];
    }
    if (to && text) strncpy(to, text, room);
}
static int fake_cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values) {
    FAKE_IN_CONTEXT(cuModuleLoadDataEx);
    jit_log(n, options, values, FUSEC_CU_JIT_INFO_LOG, FUSEC_CU_JIT_INFO_LOG_BYTES, fake.jit_info);
    jit_log(n, options, values, FUSEC_CU_JIT_ERROR_LOG, FUSEC_CU_JIT_ERROR_LOG_BYTES, fake.jit_error);
    if (fake.jit_error || !strstr(image, ".version")) return 218;
    *module = object(1);
    return 0;
}
static int fake_cuModuleUnload(void *module) {
    FAKE_IN_CONTEXT(cuModuleUnload);
    return discard(module);
}
static int fake_cuModuleGetFunction(void **function, void *module, const char *name) {
    FAKE_IN_CONTEXT(cuModuleGetFunction);
    fake.misuse += !module;
    for (const FakeKernel *k = fake.kernels; k && k->name; k++)
        if (!strcmp(k->name, name)) {
            *function = (void *)(uintptr_t)k;
            return 0;
        }
    return 500;
}
static int fake_cuFuncSetAttribute(void *function, int attribute, int value) {
    FAKE_IN_CONTEXT(cuFuncSetAttribute);
    return !function || attribute != FUSEC_CU_MAX_DYNAMIC_SHARED || value <= 48 << 10;
}
static int fake_cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    char *memory = NULL;
    FAKE_IN_CONTEXT(cuMemAlloc_v2);
    const int result = allocate(bytes, false, &memory);
    *address = (uint64_t)(uintptr_t)memory;
    return result;
}
static int fake_cuMemFree_v2(uint64_t address) {
    FAKE_IN_CONTEXT(cuMemFree_v2);
    return release((char *)(uintptr_t)address, false);
}
static int fake_cuMemAllocHost_v2(void **memory, size_t bytes) {
    char *p = NULL;
    FAKE_IN_CONTEXT(cuMemAllocHost_v2);
    const int result = allocate(bytes, true, &p);
    *memory = p;
    return result;
}
static int fake_cuMemFreeHost(void *memory) {
    FAKE_IN_CONTEXT(cuMemFreeHost);
    return release(memory, true);
}
static int fake_cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    FAKE_IN_CONTEXT(cuMemcpyHtoDAsync_v2);
    fake.misuse += !stream;
    return copy((void *)(uintptr_t)to, from, bytes, from, (void *)(uintptr_t)to);
}
static int fake_cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    FAKE_IN_CONTEXT(cuMemcpyDtoHAsync_v2);
    fake.misuse += !stream;
    return copy(to, (void *)(uintptr_t)from, bytes, to, (void *)(uintptr_t)from);
}
static int fake_cuStreamCreate(void **stream, unsigned flags) {
    FAKE_IN_CONTEXT(cuStreamCreate);
    *stream = object(1);
    return flags != FUSEC_CU_STREAM_NON_BLOCKING;
}
static int fake_cuStreamDestroy_v2(void *stream) {
    FAKE_IN_CONTEXT(cuStreamDestroy_v2);
    return discard(stream);
}
static int fake_cuStreamSynchronize(void *stream) {
    fake.misuse += !stream;
    do_work(n_work); /* a failure is that of the work: it is over all the same */
    FAKE_IN_CONTEXT(cuStreamSynchronize);
    return 0;
}
static int fake_cuEventCreate(void **event, unsigned flags) {
    FAKE_IN_CONTEXT(cuEventCreate);
    *event = object(sizeof(FakeEvent));
    return flags & ~(unsigned)FUSEC_CU_EVENT_DISABLE_TIMING;
}
static int fake_cuEventDestroy_v2(void *event) {
    FAKE_IN_CONTEXT(cuEventDestroy_v2);
    for (int i = 0; i < n_work; i++)
        if (work[i].event == event) work[i].event = NULL;
    return discard(event);
}
static int fake_cuEventRecord(void *event, void *stream) {
    FAKE_IN_CONTEXT(cuEventRecord);
    fake.misuse += !stream || !event;
    enqueue((FakeWork){.event = event});
    ((FakeEvent *)event)->recorded = done + n_work;
    return 0;
}
static int fake_cuEventQuery(void *event) {
    FAKE_IN_CONTEXT(cuEventQuery);
    return ((FakeEvent *)event)->recorded > done ? FUSEC_CU_NOT_READY : 0;
}
static int fake_cuEventSynchronize(void *event) {
    const long until = ((FakeEvent *)event)->recorded - done;
    if (until > 0) do_work((int)until);
    FAKE_IN_CONTEXT(cuEventSynchronize);
    return 0;
}
static int fake_cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    FAKE_IN_CONTEXT(cuEventElapsedTime);
    if (((FakeEvent *)end)->recorded > done) return 600; /* not ready */
    *milliseconds = (float)(((FakeEvent *)end)->at - ((FakeEvent *)start)->at);
    return 0;
}
static int fake_cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **params,
                               void **extra) {
    const fusec_cu_node p = {function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, params, extra};
    FAKE_IN_CONTEXT(cuLaunchKernel);
    fake.misuse += !stream;
    if (!node_is_sound(&p)) return 1;
    FakeGraph *g = calloc(1, sizeof *g);
    g->node[g->n++] = make_node(function, grid_x, params);
    return enqueue((FakeWork){.graph = g});
}
static int fake_cuGraphCreate(void **graph, unsigned flags) {
    FAKE_IN_CONTEXT(cuGraphCreate);
    *graph = object(sizeof(FakeGraph));
    return flags != 0;
}
static int fake_cuGraphDestroy(void *graph) {
    FAKE_IN_CONTEXT(cuGraphDestroy);
    return discard(graph);
}
static int fake_cuGraphAddKernelNode(void **node, void *graph, void *const *after, size_t n_after,
                                     const fusec_cu_node *p) {
    FAKE_IN_CONTEXT(cuGraphAddKernelNode);
    FakeGraph *g = graph;
    if (!node_is_sound(p) || g->n == MAX_NODES) return 1;
    g->node[g->n] = make_node(p->function, p->grid_x, p->params);
    for (size_t i = 0; i < n_after; i++) {
        const ptrdiff_t k = (FakeNode *)after[i] - g->node;
        if (k < 0 || k >= g->n || g->node[g->n].after[k]) return 1; /* unknown, or twice */
        g->node[g->n].after[k] = true;
    }
    fake.edges += (int)n_after;
    *node = &g->node[g->n++];
    return 0;
}
int fake_cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to, const fusec_cu_edge *edges, size_t n) {
    FakeGraph *g = graph;
    need_context();
    for (size_t i = 0; i < n; i++) {
        const ptrdiff_t a = (FakeNode *)from[i] - g->node, b = (FakeNode *)to[i] - g->node;
        const bool early = edges[i].type == FUSEC_CU_EDGE_PROGRAMMATIC && edges[i].from_port == FUSEC_CU_PORT_PROGRAMMATIC;
        if (a < 0 || a >= b || b >= g->n || g->node[b].after[a] || (!early && (edges[i].type || edges[i].from_port)) || edges[i].to_port) return 1;
        if (early && fake.refuses_edge) return 801;
        g->node[b].after[a] = true;
        g->early += early;
        fake.early += early;
        fake.edges++;
    }
    return 0;
}
/* An executable graph is a copy; the nodes of the graph it was made from name its own. */
typedef struct FakeExec {
    FakeGraph own;
    const FakeGraph *from;
} FakeExec;
static int fake_cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    FAKE_IN_CONTEXT(cuGraphInstantiateWithFlags);
    if (fake.refuses_graph && ((const FakeGraph *)graph)->early) return 801;
    FakeExec *e = object(sizeof *e);
    *e = (FakeExec){*(const FakeGraph *)graph, graph};
    *exec = e;
    return flags != 0;
}
static int fake_cuGraphExecDestroy(void *exec) {
    FAKE_IN_CONTEXT(cuGraphExecDestroy);
    return discard(exec);
}
static int fake_cuGraphExecKernelNodeSetParams(void *exec, void *node, const fusec_cu_node *p) {
    FAKE_IN_CONTEXT(cuGraphExecKernelNodeSetParams);
    FakeExec *e = exec;
    if (!node_is_sound(p)) return 1;
    for (int i = 0; i < e->own.n; i++) {
        if (node != &e->from->node[i]) continue;
        FakeNode changed = make_node(p->function, p->grid_x, p->params);
        memcpy(changed.after, e->own.node[i].after, sizeof changed.after);
        e->own.node[i] = changed;
        return 0;
    }
    fake.misuse++;
    return 1;
}
static int fake_cuGraphLaunch(void *exec, void *stream) {
    FAKE_IN_CONTEXT(cuGraphLaunch);
    fake.misuse += !stream;
    return enqueue((FakeWork){.graph = copy_graph(&((FakeExec *)exec)->own)});
}

void fake_cuda_reset(void) {
    for (int i = 0; i < n_work; i++) free(work[i].graph);
    while (n_objects) free(objects[--n_objects]);
    while (n_blocks) free(blocks[--n_blocks].memory);
    n_work = 0;
    done = 0;
    clock_ms = 0;
    fake = (FakeCuda){.devices = 1, .capability = 80};
}

fusec_cu_driver fake_cuda_driver(void) {
    fake_cuda_reset();
    return (fusec_cu_driver){
#define FAKE_FUNCTION(symbol, parameters) .symbol = fake_##symbol,
        FUSEC_CU_FUNCTIONS(FAKE_FUNCTION)
#undef FAKE_FUNCTION
    };
}
