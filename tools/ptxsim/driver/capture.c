/* Stream capture: work that would be queued becomes nodes of a graph.  A stream's next node follows its tips; an event
 * carries the tips of the stream that recorded it to the streams that wait for it, which so join the capture.
 * Source: CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture"; CUDA Driver API, "Stream Management". */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

struct Capture {
    uint64_t id;
    Graph *graph;
    bool borrowed; /* the program's own graph, which is added to */
    Stream *origin;
    int mode;
    const void *thread; /* which thread began it */
    bool invalid;
    CUgraphNode *shown; /* what cuStreamGetCaptureInfo_v2 gave out last */
    struct Capture *next;
};
static Capture *captures; /* under the lock */
static uint64_t captures_so_far;
static _Thread_local int thread_mode; /* CU_STREAM_CAPTURE_MODE_*; its address names the thread */

void tips_free(NodeList *l) {
    free(l->item);
    *l = (NodeList){NULL, 0};
}

static bool tips_copy(NodeList *to, const NodeList *from) {
    NodeList copy = {NULL, 0};
    for (size_t k = 0; k < from->count; k++)
        if (!list_add(&copy, from->item[k])) {
            tips_free(&copy);
            return false;
        }
    tips_free(to);
    *to = copy;
    return true;
}

static Capture *capture_by_id(uint64_t id) {
    Capture *c = captures;
    while (c && c->id != id) c = c->next;
    return c;
}

static Stream *next_member(const Capture *capture, Object *after) {
    for (Object *o = after; o; o = o->next)
        if (o->kind == OBJECT_STREAM && ((Stream *)o)->capture == capture) return (Stream *)o;
    return NULL;
}

static void leave_all(Capture *capture) {
    Context *c = capture->origin->object.context;
    for (Stream *s = next_member(capture, object_first(c)); s; s = next_member(capture, s->object.next)) {
        s->capture = NULL;
        tips_free(&s->tips);
    }
}

static void capture_free(Capture *capture) {
    Capture **link = &captures;
    while (*link != capture) link = &(*link)->next;
    *link = capture->next;
    leave_all(capture);
    free(capture->shown);
    free(capture);
}

/* A stream that ends while it captures takes the whole capture with it. */
void capture_forget(Stream *s) {
    Capture *capture = s->capture;
    if (!capture) return;
    if (!capture->borrowed) graph_free(capture->graph);
    capture_free(capture);
}

/* ---- what may not be done meanwhile ------------------------------------------------------------------- */
CUresult capture_forbids(Stream *s) {
    if (!s) return CUDA_SUCCESS;
    if (s->capture) {
        s->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (s != s->object.context->legacy) return CUDA_SUCCESS;
    for (Object *o = object_first(s->object.context); o; o = o->next) {
        Stream *other = (Stream *)o;
        if (o->kind != OBJECT_STREAM || !other->capture || other->flags & CU_STREAM_NON_BLOCKING) continue;
        other->capture->invalid = true; /* the default stream would wait for it */
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return CUDA_SUCCESS;
}

/* Calls that may wait for other streams, or for all: forbidden by captures of mode global, of mode thread-local in the
 * same thread, unless this thread is in mode relaxed. */
CUresult capture_forbids_unsafe(Context *c) {
    for (Capture *k = captures; k; k = k->next) {
        const bool mine = k->thread == &thread_mode;
        const bool concerned = k->mode == CU_STREAM_CAPTURE_MODE_GLOBAL
                                   ? thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mine
                                   : k->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && mine;
        if (k->origin->object.context != c || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || !concerned) continue;
        k->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuThreadExchangeStreamCaptureMode(int *mode) {
    if (!mode || *mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    const int old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* ---- nodes -------------------------------------------------------------------------------------------- */
static CUresult add_node(Stream *s, int type, Node **out) {
    if (s->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *out = node_new(s->capture->graph, type, &s->tips);
    if (!*out) return CUDA_ERROR_OUT_OF_MEMORY;
    tips_free(&s->tips);
    return list_add(&s->tips, *out) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static int node_type(WorkKind kind) {
    switch (kind) {
    case WORK_KERNEL: return CU_GRAPH_NODE_TYPE_KERNEL;
    case WORK_COPY: return CU_GRAPH_NODE_TYPE_MEMCPY;
    case WORK_FILL: return CU_GRAPH_NODE_TYPE_MEMSET;
    case WORK_HOST: return CU_GRAPH_NODE_TYPE_HOST;
    default: return CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

CUresult capture_work(Stream *s, Work *w) {
    Node *n;
    const CUresult r = add_node(s, node_type(w->kind), &n);
    if (r) return r;
    n->work = *w;
    *w = (Work){.kind = WORK_EMPTY};
    return CUDA_SUCCESS;
}

CUresult capture_graph(Stream *s, const Graph *child) {
    Node *n;
    CUresult r = add_node(s, CU_GRAPH_NODE_TYPE_GRAPH, &n);
    if (r) return r;
    n->child = graph_new(NULL, true);
    if (n->child) n->child->embedded = true;
    return n->child && graph_copy(n->child, child, false) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult capture_record(Stream *s, Event *e) {
    if (s->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    e->capture = s->capture->id;
    return tips_copy(&e->tips, &s->tips) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool capture_wait(Stream *s, Event *e, CUresult *r) {
    *r = CUDA_SUCCESS;
    if (!s->capture && !e->capture) return false;
    Capture *from = capture_by_id(e->capture);
    if (s->capture && s->capture != from) {
        s->capture->invalid = true;
        *r = from ? CUDA_ERROR_STREAM_CAPTURE_MERGE : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        return true;
    }
    if (!from) {
        *r = CUDA_ERROR_CAPTURED_EVENT;
        return true;
    }
    if (from->invalid)
        *r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (s == s->object.context->legacy)
        *r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    for (size_t k = 0; k < e->tips.count && !*r; k++) {
        bool known = false;
        for (size_t j = 0; j < s->tips.count; j++) known |= s->tips.item[j] == e->tips.item[k];
        if (!known && !list_add(&s->tips, e->tips.item[k])) *r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!*r) s->capture = from;
    return true;
}

/* ---- begin and end ------------------------------------------------------------------------------------ */
static CUresult begin(CUstream stream, int mode, Graph *graph) {
    Stream *s = stream_of(stream);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    if (s == s->object.context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture) return CUDA_ERROR_ILLEGAL_STATE;
    Capture *c = calloc(1, sizeof *c);
    if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
    *c = (Capture){.id = ++captures_so_far,
                   .graph = graph,
                   .borrowed = graph != NULL,
                   .origin = s,
                   .mode = mode,
                   .thread = &thread_mode,
                   .next = captures};
    if (!graph) c->graph = graph_new(s->object.context, true); /* the program's own when the capture ends */
    if (!c->graph) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    captures = c;
    s->capture = c;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamBeginCapture_v2(CUstream stream, int mode) { return begin(stream, mode, NULL); }
CUresult sim_cuStreamBeginCapture(CUstream stream) { return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL); }

static CUresult set_tips(Stream *s, const CUgraphNode *nodes, size_t n) {
    NodeList tips = {NULL, 0};
    for (size_t k = 0; k < n; k++) {
        Node *node = object_find(nodes[k], OBJECT_NODE);
        if (node && node->graph == s->capture->graph && list_add(&tips, node)) continue;
        tips_free(&tips);
        return CUDA_ERROR_INVALID_VALUE;
    }
    tips_free(&s->tips);
    s->tips = tips;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                         const CUgraphEdgeData *edges, size_t n, int mode) {
    Graph *g = object_find(graph, OBJECT_GRAPH);
    if (!g || (n && !after) || edges) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = begin(stream, mode, g);
    if (r) return r;
    r = set_tips(stream_of(stream), after, n);
    if (r) capture_free(stream_of(stream)->capture);
    return r;
}

/* Every node must be reachable back from where the origin stands: else a forked stream was never joined. */
static bool is_joined(const Capture *c) {
    bool *seen = calloc(c->graph->count + 1, sizeof *seen);
    bool joined = seen != NULL;
    for (size_t k = 0; seen && k < c->origin->tips.count; k++) seen[c->origin->tips.item[k]->index] = true;
    for (size_t k = c->graph->count; seen && k-- > 0;) /* a captured node follows only earlier ones */
        for (size_t d = 0; seen[k] && d < c->graph->node[k]->after.count; d++)
            seen[c->graph->node[k]->after.item[d]->index] = true;
    Context *context = c->origin->object.context;
    for (Stream *s = next_member(c, object_first(context)); seen && s; s = next_member(c, s->object.next))
        for (size_t k = 0; k < s->tips.count; k++) joined = joined && seen[s->tips.item[k]->index];
    free(seen);
    return joined;
}

CUresult sim_cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    Stream *s = stream_of(stream);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    *graph = NULL;
    Capture *c = s->capture;
    if (!c) return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != s) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != &thread_mode)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult r = c->invalid     ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                 : is_joined(c) ? CUDA_SUCCESS
                                : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (!r) {
        *graph = object_handle(c->graph);
        if (!c->borrowed) c->graph->object.internal = false;
    } else if (!c->borrowed) {
        graph_free(c->graph);
    }
    capture_free(c);
    return r;
}

/* ---- what is being captured --------------------------------------------------------------------------- */
static int status_of(const Stream *s) {
    if (!s->capture) return CU_STREAM_CAPTURE_STATUS_NONE;
    return s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                       const CUgraphNode **tips, size_t *n) {
    Stream *s = stream_of(stream);
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    *status = status_of(s);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    if (id) *id = s->capture->id;
    if (graph) *graph = object_handle(s->capture->graph);
    if (n) *n = s->tips.count;
    if (!tips) return CUDA_SUCCESS;
    CUgraphNode *shown = realloc(s->capture->shown, (s->tips.count + 1) * sizeof *shown);
    if (!shown) return CUDA_ERROR_OUT_OF_MEMORY;
    s->capture->shown = shown;
    for (size_t k = 0; k < s->tips.count; k++) shown[k] = object_handle(s->tips.item[k]);
    *tips = shown;
    return CUDA_SUCCESS;
}
CUresult sim_cuStreamGetCaptureInfo_v3(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                       const CUgraphNode **tips, const CUgraphEdgeData **edges, size_t *n) {
    if (edges) *edges = NULL; /* every edge is a full dependency */
    return sim_cuStreamGetCaptureInfo_v2(stream, status, id, graph, tips, n);
}
CUresult sim_cuStreamGetCaptureInfo(CUstream stream, int *status, uint64_t *id) {
    return sim_cuStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}
CUresult sim_cuStreamIsCapturing(CUstream stream, int *status) {
    Stream *s = stream_of(stream);
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    if (s) *status = status_of(s);
    return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t n, unsigned flags) {
    enum { ADD, SET };
    Stream *s = stream_of(stream);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (flags > SET || (n && !nodes)) return CUDA_ERROR_INVALID_VALUE;
    if (!s->capture || s->capture->invalid) return CUDA_ERROR_ILLEGAL_STATE;
    if (flags == SET) return set_tips(s, nodes, n);
    for (size_t k = 0; k < n; k++) {
        Node *node = object_find(nodes[k], OBJECT_NODE);
        if (!node || node->graph != s->capture->graph) return CUDA_ERROR_INVALID_VALUE;
        if (!list_add(&s->tips, node)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}
