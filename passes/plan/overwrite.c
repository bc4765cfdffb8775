/* overwrite: a value goes over what its kernel reads last.
 *
 *     dlogits[i, j] = softmax(logits)[i, j] - hit[i, j]          over logits, once the loss has been taken
 *
 * A chain of sums goes over its first term.  Of an update of some rows (a cache, while decoding) only those are written.
 *
 * Needs: homes and strides.  Keeps: what is computed.  Gives: PlanBuffer.within of a value that lies where another one was.  The
 * kernel reads the old value only at the element that it writes, as for a parameter that is updated in place; both have one shape
 * and layout; no kernel after it, in one order that all edges allow, reads the old value.  kernel_graph makes the others run before. */
#include "passes/pass.h"
#include "passes/plan/in_place.h"
#include "passes/plan/kernel_graph.h"
#include <string.h>

typedef struct Overwrite {
    Arena *arena;
    Plan *p;
    bool *candidate;  /* by node: has memory, or a kernel computes it once */
    int *last_reader; /* by node: the last kernel that reads it, or -1 */
} Overwrite;

/* ---- an order ---------------------------------------------------------------------------------------------------- */
/* By kernel: its place in an order that honours all edges, and is that of the numbers but where an update in place has to wait for
 * readers of the old value. */
static int *places(const Overwrite *o) {
    const KernelGraph g = kernel_graph(o->arena, o->p);
    const Predecessors before = kernel_predecessors(o->arena, &g, NULL);
    int *number = ARENA_ARRAY(o->arena, int, g.n + 1);
    for (int k = 0; k < g.n; k++) number[k] = k;
    return kernels_in_order(o->arena, g.n, &before, number, g.n);
}

/* ---- what goes over what --------------------------------------------------------------------------------------------- */
static bool in_arena_alone(const Overwrite *o, const Node *n) {
    const PlanBuffer *b = &o->p->buffer[n->id];
    return b->home == HOME_ARENA && b->writer >= 0 && (!b->within || plan_overwritten(o->p, n)) && plan_output(b) < 0;
}

static bool same_layout(const Overwrite *o, const Node *x, const Node *v) {
    const PlanBuffer *a = &o->p->buffer[x->id], *b = &o->p->buffer[v->id];
    return x->dtype == v->dtype && shape_same(x->shape, v->shape) && a->bytes == b->bytes &&
           memcmp(a->stride, b->stride, sizeof *a->stride * (size_t)x->shape->rank) == 0;
}

static AccessList reads_of(const Overwrite *o, const PlanKernel *k, const PlanNode *pn) {
    AccessList l = {0};
    if (in_place_sums_rows(k, pn)) access_collect_value(o->arena, o->candidate, pn->node->in[0]->in[0], &l);
    else access_collect(o->arena, o->candidate, pn->node, &l);
    return l;
}

/* Is x read at no other element than v is written? */
static bool at_element(const Overwrite *o, const PlanKernel *k, const Node *x, const PlanNode *v) {
    for (int i = 0; i < k->nodes.n; i++) {
        const PlanNode *pn = &k->nodes.at[i];
        const AccessList reads = reads_of(o, k, pn);
        for (int j = 0; j < reads.n; j++) {
            const Access *a = &reads.at[j];
            if (a->node != x) continue;
            if ((pn->node->op == OP_CONTRACT && !node_is_view(pn->node)) || !in_place_at(k, pn, a, v)) return false;
        }
    }
    return true;
}

static const Node *to_overwrite(const Overwrite *o, const PlanKernel *k, int number, const PlanNode *v) {
    for (int i = 0; i < k->reads.n; i++) {
        const Node *x = k->reads.at[i];
        if (!in_arena_alone(o, x) || o->last_reader[x->id] != number || !same_layout(o, x, v->node)) continue;
        bool taken = false;
        for (int j = 0; j < k->outputs.n; j++) taken |= o->p->buffer[k->outputs.at[j]->id].within == x;
        if (!taken && at_element(o, k, x, v)) return x;
    }
    return NULL;
}

/* Alone in its kernel, and where the old value was: nothing but the part has to be written. */
static bool updates_part(const Plan *p, const PlanKernel *k) {
    const Node *n = k->nodes.at[0].node;
    if (k->kind != KERNEL_MAP || k->nodes.n != 1 || n->op != OP_UPDATE_AT || !plan_goes_over(p, n, n->in[0])) return false;
    for (int d = 0; d < n->shape->rank; d++)
        if (k->nodes.at[0].axis[d] != d) return false;
    return true;
}

static void find_updates(Plan *p) {
    for (int k = 0; k < p->kernels.n; k++) {
        PlanKernel *pk = &p->kernels.at[k];
        if (!updates_part(p, pk)) continue;
        pk->updates = true;
        pk->p = pk->nodes.at[0].node->in[1]->shape;
    }
}

/* Do its programs write elements once each, having read those that they go over? */
static bool has_elements(const PlanKernel *k) {
    const bool kind = k->kind == KERNEL_MAP || k->kind == KERNEL_ROW || k->kind == KERNEL_CONTRACT || k->kind == KERNEL_SCATTER;
    return kind && !k->workspace;
}

void pass_overwrite(PassContext *c, Plan *p) {
    if (c->disabled[PASS_overwrite] || c->disabled[PASS_fuse]) return;
    Overwrite o = {.arena = arena_new(), .p = p};
    const int n = p->graph->nodes.n;
    o.candidate = ARENA_ARRAY(o.arena, bool, n + 1);
    o.last_reader = ARENA_ARRAY(o.arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        o.candidate[i] = p->kernel_of[i] >= 0 || p->buffer[i].home != HOME_NONE;
        o.last_reader[i] = -1;
    }
    const int *place = places(&o);
    NodeList needs = {0};
    for (int k = 0; k < p->kernels.n; k++) {
        plan_needs(o.arena, p, &p->kernels.at[k], &needs);
        for (int i = 0; i < needs.n; i++) {
            int *last = &o.last_reader[needs.at[i]->id];
            if (*last < 0 || place[*last] < place[k]) *last = k;
        }
    }
    for (int k = 0; k < p->kernels.n; k++) {
        PlanKernel *pk = &p->kernels.at[k];
        if (!has_elements(pk)) continue;
        for (int i = 0; i < pk->nodes.n; i++) {
            const PlanNode *v = &pk->nodes.at[i];
            if (!v->stored || v->part == PART_SLICES || !in_arena_alone(&o, v->node) || p->buffer[v->node->id].within) continue;
            p->buffer[v->node->id].within = (Node *)to_overwrite(&o, pk, k, v);
        }
    }
    find_updates(p);
    arena_free(o.arena);
}
