/* settle: makes every in-place update one that some order can honour.
 *
 * Needs the kernels and homes of `fuse`, before `layout`.  Two updates may each wait for the other's old
 * value (a <- b, b <- a).  The first of such kernels then writes to the arena, and an appended copy kernel
 * (one RESHAPE) moves the value home after everyone has read the old one. */
#include "passes/pass.h"
#include "passes/plan/kernel_graph.h"
#include <string.h>

static bool is_in_place(const Plan *p, const Node *x) {
    return p->buffer[x->id].home == HOME_PARAM || p->buffer[x->id].home == HOME_STATE;
}

static void grow_by_node(Plan *p) {
    int n = p->graph->nodes.n;
    if (n < p->buffer_cap) return;
    p->buffer_cap = n * 2 + 16;
    PlanBuffer *buffer = ARENA_ARRAY(p->arena, PlanBuffer, p->buffer_cap);
    int *kernel_of = ARENA_ARRAY(p->arena, int, p->buffer_cap);
    memcpy(buffer, p->buffer, sizeof *buffer * (size_t)n);
    memcpy(kernel_of, p->kernel_of, sizeof *kernel_of * (size_t)n);
    p->buffer = buffer;
    p->kernel_of = kernel_of;
}

/* A kernel that copies `value` into `home`, as a tensor of that shape; returns the new node. */
static Node *add_copy(Plan *p, Node *value, Shape shape, Home home, int decl) {
    grow_by_node(p);
    Node *n = graph_node(p->graph, OP_RESHAPE, 1, &value, NULL, value->dtype, shape);
    n->phase = value->phase;
    n->loc = value->loc;
    PlanNode pn = {.node = n, .stored = true};
    for (int d = 0; d < n->shape->rank; d++) pn.axis[d] = (int8_t)d;
    PlanKernel k = {.kind = KERNEL_MAP, .p = n->shape, .r = &scalar_shape, .phase = n->phase};
    vec_push(p->arena, k.nodes, pn);
    vec_push(p->arena, k.outputs, n);
    vec_push(p->arena, k.reads, value);
    p->buffer[n->id] = (PlanBuffer){.home = home, .decl = decl, .writer = p->kernels.n};
    p->kernel_of[n->id] = p->kernels.n;
    vec_push(p->arena, p->kernels, k);
    return n;
}

/* Writes `value`, which lives in place, to the arena and copies it home instead. */
static void relocate(Plan *p, Node *value) {
    PlanBuffer b = p->buffer[value->id];
    ResultKind kind = b.home == HOME_PARAM ? RESULT_PARAM : RESULT_STATE;
    p->buffer[value->id].home = HOME_ARENA;
    for (int i = 0; i < p->graph->results.n; i++) {
        Result *r = &p->graph->results.at[i];
        if (r->kind == kind && r->decl == b.decl) r->value = add_copy(p, value, *r->value->shape, b.home, b.decl);
    }
}

typedef struct Kahn {
    KernelGraph g;
    int *ready, n_ready;
    bool *done;
} Kahn;

static void kahn_push(Kahn *q, int k) {
    if (q->done[k] || q->g.hard[k] || q->g.soft[k]) return;
    q->done[k] = true;
    q->ready[q->n_ready++] = k;
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

/* Stops waiting for those who read what kernel k overwrites. */
static void detach(Plan *p, Kahn *q, int k) {
    for (int i = 0; i < p->kernels.at[k].outputs.n; i++)
        if (is_in_place(p, p->kernels.at[k].outputs.at[i])) relocate(p, p->kernels.at[k].outputs.at[i]);
    q->g.soft[k] = 0;
    kahn_push(q, k);
    kahn_drain(q);
}

void plan_settle(PassContext *c, Plan *p) {
    int n = p->kernels.n;
    Kahn q = {kernel_graph(c->arena, p), ARENA_ARRAY(c->arena, int, n + 1), 0, ARENA_ARRAY(c->arena, bool, n + 1)};
    for (int k = 0; k < n; k++) kahn_push(&q, k);
    kahn_drain(&q);
    /* What is left waits; its data edges have no cycle, so some of it waits only to overwrite. */
    for (bool again = true; again;) {
        again = false;
        for (int k = 0; k < n; k++) {
            if (q.done[k] || q.g.hard[k]) continue;
            detach(p, &q, k);
            again = true;
        }
    }
}
