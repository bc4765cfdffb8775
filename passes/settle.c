/* settle: every result has its home, and every in-place update is one that some order can honour.
 * Needs the kernels of `fuse`; keeps them, and appends copy kernels (see memory.h). */
#include "passes/memory.h"
#include <string.h>

static int64_t result_key(Home home, int decl) { return (int64_t)home << 32 | (uint32_t)decl; }

static Home result_home(ResultKind k) {
    static const Home home[] = {[RESULT_OUTPUT] = HOME_OUTPUT,
                                [RESULT_GRAD] = HOME_GRAD,
                                [RESULT_PARAM] = HOME_PARAM,
                                [RESULT_STATE] = HOME_STATE};
    return home[k];
}

static void grow_buffers(Plan *p) {
    if (p->buffer_cap < p->graph->nodes.n) p->buffer_cap = p->graph->nodes.n;
    int cap = p->buffer_cap * 2 + 16;
    PlanBuffer *grown = ARENA_ARRAY(p->arena, PlanBuffer, cap);
    memcpy(grown, p->buffer, sizeof *grown * (size_t)p->graph->nodes.n);
    p->buffer = grown;
    p->buffer_cap = cap;
}

/* A kernel that computes the identity of `value` into `home`; returns the new node. */
static Node *add_copy(Plan *p, Node *value, Home home, int decl) {
    if (p->graph->nodes.n >= p->buffer_cap) grow_buffers(p);
    Node *n = graph_reshape(p->graph, value, value->shape);
    n->phase = value->op == OP_PARAM || value->op == OP_STATE ? PHASE_FORWARD : value->phase;
    n->loc = value->loc;
    p->buffer[n->id] = (PlanBuffer){.home = home, .decl = decl, .writer = p->kernels.n};
    PlanKernel k = {.phase = n->phase};
    vec_push(p->arena, k.outputs, n);
    vec_push(p->arena, k.reads, value);
    vec_push(p->arena, p->kernels, k);
    return n;
}

/* Writes `value`, whose home was `b`, to the arena and copies it there instead. */
static void relocate(Plan *p, Node *value) {
    PlanBuffer b = p->buffer[value->id];
    p->buffer[value->id].home = HOME_ARENA;
    Node *copy = add_copy(p, value, b.home, b.decl);
    for (int i = 0; i < p->graph->results.n; i++) {
        Result *r = &p->graph->results.at[i];
        if (r->value == value && result_home(r->kind) == b.home && r->decl == b.decl) r->value = copy;
    }
}

/* True if the result is the old value of the very tensor it replaces. */
static bool is_unchanged(const Result *r) {
    const Node *v = r->value;
    return (r->kind == RESULT_PARAM && v->op == OP_PARAM && v->attr->decl == r->decl) ||
           (r->kind == RESULT_STATE && v->op == OP_STATE && v->attr->decl == r->decl);
}

static void set_writers(Plan *p) {
    for (int i = 0; i < p->graph->nodes.n; i++) p->buffer[i].writer = -1;
    for (int k = 0; k < p->kernels.n; k++) {
        const PlanKernel *pk = &p->kernels.at[k];
        for (int i = 0; i < pk->outputs.n; i++) p->buffer[pk->outputs.at[i]->id].writer = k;
    }
}

/* The first result of a value is computed straight into its place; others are copied. */
static void settle_results(PassContext *c, Plan *p) {
    Graph *g = p->graph;
    int64_t *given = ARENA_ARRAY(c->arena, int64_t, g->nodes.n + 1); /* by node: the result that owns its buffer */
    int n_nodes = g->nodes.n;
    for (int i = 0; i < g->results.n; i++) {
        Result *r = &g->results.at[i];
        if (is_unchanged(r)) continue;
        Home home = result_home(r->kind);
        PlanBuffer *b = &p->buffer[r->value->id];
        bool owned = r->value->id < n_nodes && given[r->value->id] != 0;
        if (b->writer < 0 || owned) {
            r->value = add_copy(p, r->value, home, r->decl);
            continue;
        }
        given[r->value->id] = result_key(home, r->decl);
        b->home = home;
        b->decl = r->decl;
    }
}

/* Outputs of `infer` are optional: what another kernel, or another output of the same kernel, depends on
 * must not live in memory that the caller may not give. */
static void settle_optional_outputs(PassContext *c, Plan *p) {
    if (p->graph->entry != ENTRY_INFER || p->graph->model->outputs.n < 2) return;
    bool *is_read = ARENA_ARRAY(c->arena, bool, p->graph->nodes.n);
    int n_kernels = p->kernels.n;
    for (int k = 0; k < n_kernels; k++)
        for (int i = 0; i < p->kernels.at[k].reads.n; i++) is_read[p->kernels.at[k].reads.at[i]->id] = true;
    for (int k = 0; k < n_kernels; k++)
        for (int i = 0; i < p->kernels.at[k].outputs.n; i++) {
            Node *x = p->kernels.at[k].outputs.at[i];
            bool shared = is_read[x->id] || p->kernels.at[k].outputs.n > 1;
            if (p->buffer[x->id].home == HOME_OUTPUT && shared) relocate(p, x);
        }
}

/* ---- in place ------------------------------------------------------------------------------ */
/* Walks what a kernel computes itself, from its outputs to what it reads from memory.  `element` says whether
 * every operation so far keeps indices: then each element is read only by the program that overwrites it. */
typedef struct Walk {
    const Plan *p;
    Home home;
    int decl;
    int *seen; /* by node: stamp * 2 + element of the strongest visit */
    int stamp;
} Walk;

static bool reads_elsewhere(Walk *w, const Node *n, bool element, bool is_output) {
    if ((n->op == OP_PARAM && w->home == HOME_PARAM) || (n->op == OP_STATE && w->home == HOME_STATE))
        if (n->attr->decl == w->decl) return !element;
    int mark = w->stamp * 2 + !element;
    if (w->seen[n->id] >= mark) return false;
    w->seen[n->id] = mark;
    if (!is_output && w->p->buffer[n->id].writer >= 0) return false;
    element = element && op_info[n->op].cls == CLASS_ELEMENT;
    for (int i = 0; i < n->n_in; i++)
        if (reads_elsewhere(w, n->in[i], element, false)) return true;
    return false;
}

/* True if kernel k may overwrite the old value of output x's home while it runs. */
static bool in_place_is_safe(Walk *w, const PlanKernel *k, const Node *x) {
    bool reads_old = false;
    w->home = w->p->buffer[x->id].home;
    w->decl = w->p->buffer[x->id].decl;
    Op source = w->home == HOME_PARAM ? OP_PARAM : OP_STATE;
    for (int i = 0; i < k->reads.n; i++)
        if (k->reads.at[i]->op == source && k->reads.at[i]->attr->decl == w->decl) reads_old = true;
    if (!reads_old) return true;
    w->stamp++;
    for (int i = 0; i < k->outputs.n; i++)
        if (reads_elsewhere(w, k->outputs.at[i], shape_equal(k->outputs.at[i]->shape, x->shape), true)) return false;
    return true;
}

static bool is_in_place(const Plan *p, const Node *x) {
    return p->buffer[x->id].home == HOME_PARAM || p->buffer[x->id].home == HOME_STATE;
}

static void settle_in_place(PassContext *c, Plan *p) {
    Walk w = {.p = p, .seen = ARENA_ARRAY(c->arena, int, p->graph->nodes.n)};
    int n_kernels = p->kernels.n;
    for (int k = 0; k < n_kernels; k++)
        for (int i = 0; i < p->kernels.at[k].outputs.n; i++) {
            Node *x = p->kernels.at[k].outputs.at[i];
            if (x->id < p->graph->nodes.n && is_in_place(p, x) && p->kernels.at[k].reads.n)
                if (!in_place_is_safe(&w, &p->kernels.at[k], x)) relocate(p, x);
        }
}

/* ---- updates that wait for each other --------------------------------------------------------- */
typedef struct Kahn {
    KernelGraph g;
    int *ready, n_ready;
    bool *done;
} Kahn;

static void kahn_push(Kahn *q, int k) {
    if (!q->done[k] && !q->g.hard[k] && !q->g.soft[k]) {
        q->done[k] = true;
        q->ready[q->n_ready++] = k;
    }
}

static void kahn_drain(Kahn *q) {
    while (q->n_ready) {
        int k = q->ready[--q->n_ready];
        for (int i = q->g.first[k]; i < q->g.first[k + 1]; i++) {
            int to = q->g.succ[i] / 2;
            (q->g.succ[i] & 1 ? q->g.soft : q->g.hard)[to]--;
            kahn_push(q, to);
        }
    }
}

/* When everything left waits, the first kernel that waits only to overwrite writes to the arena instead. */
static void settle_cycles(PassContext *c, Plan *p) {
    int n = p->kernels.n;
    Kahn q = {kernel_graph(c->arena, p), ARENA_ARRAY(c->arena, int, n + 1), 0, ARENA_ARRAY(c->arena, bool, n + 1)};
    for (int k = 0; k < n; k++) kahn_push(&q, k);
    kahn_drain(&q);
    for (bool again = true; again;) {
        again = false;
        for (int k = 0; k < n; k++) {
            if (q.done[k] || q.g.hard[k]) continue;
            for (int i = 0; i < p->kernels.at[k].outputs.n; i++)
                if (is_in_place(p, p->kernels.at[k].outputs.at[i])) relocate(p, p->kernels.at[k].outputs.at[i]);
            q.g.soft[k] = 0;
            kahn_push(&q, k);
            kahn_drain(&q);
            again = true;
        }
    }
}

void plan_settle(PassContext *c, Plan *p) {
    set_writers(p);
    settle_results(c, p);
    settle_optional_outputs(c, p);
    settle_in_place(c, p);
    settle_cycles(c, p);
}
