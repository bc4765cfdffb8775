/* An independent check of a finished plan: order, homes, addresses.  Shares nothing with schedule and place,
 * so that a mistake in theirs cannot hide here. */
#include "passes/pass.h"
#include <inttypes.h>
#include <string.h>

/* A live range of the arena's bytes: a node of a treap by address (Seidel and Aragon, "Randomized Search Trees", 1996),
 * since a plan may have tens of thousands that are live at once. */
typedef struct Extent {
    int64_t at, end;
    const char *what;
    int id;
    uint32_t priority;
    struct Extent *left, *right, *next; /* next: of those with the same last use */
} Extent;

typedef struct Check {
    Arena *arena;
    const Plan *p;
    const char *why;
    bool *written;                 /* by node id */
    bool *begun;                   /* by node id: a concatenation of which some part is written */
    bool *param_gone, *state_gone; /* the old value is overwritten */
    bool *gone;                    /* by node id: likewise */
    bool *output_done, *grad_done;
    const Node **within; /* by node id: what it lies in; NULL: in nothing */
    int *last;           /* by node id: position of the last use */
    Extent *live;    /* the root */
    Extent **ending; /* by position: those whose last use it is */
    uint32_t random;
} Check;

#define FAIL(c, ...) ((c)->why ? (void)0 : (void)((c)->why = arena_printf((c)->arena, __VA_ARGS__)))

static void check_order(Check *c) {
    int n = c->p->kernels.n;
    bool *seen = ARENA_ARRAY(c->arena, bool, n + 1);
    for (int i = 0; i < n; i++) {
        int k = c->p->order[i];
        if (k < 0 || k >= n || seen[k]) {
            FAIL(c, "position %d of the order holds %d, which is no kernel or stands there twice", i, k);
            return;
        }
        seen[k] = true;
    }
}

/* What a value lies in, if it is part of a concatenation that has no kernel, or goes over another one.  Those on the way remember it. */
static const Node *outermost(const Check *c, const Node *x) {
    const Node *root = x;
    while (c->within[root->id]) root = c->within[root->id];
    while (c->within[x->id]) {
        const Node *next = c->within[x->id];
        c->within[x->id] = root;
        x = next;
    }
    return root;
}

static void used_at(Check *c, const Node *x, int at) {
    const int id = outermost(c, x)->id;
    if (c->last[id] < at) c->last[id] = at;
}

static void find_last_uses(Check *c) {
    for (int at = c->p->kernels.n - 1; at >= 0; at--) {
        const PlanKernel *k = &c->p->kernels.at[c->p->order[at]];
        for (int i = 0; i < k->reads.n; i++) used_at(c, k->reads.at[i], at);
        for (int i = 0; i < k->outputs.n; i++) used_at(c, k->outputs.at[i], at);
    }
}

/* Each part lies in the whole where the concatenation has it, and is there. */
static void check_parts(Check *c, int kernel, const Node *x) {
    const PlanBuffer *b = &c->p->buffer[x->id];
    int64_t before = 0;
    if (x->op != OP_CONCAT) FAIL(c, "%%%d has memory that no kernel writes", x->id);
    for (int i = 0; i < x->n_in && !c->why; i++) {
        const Node *part = x->in[i];
        const PlanBuffer *at = &c->p->buffer[part->id];
        if (at->within != x || at->home != HOME_ARENA) FAIL(c, "%%%d does not lie in %%%d", part->id, x->id);
        if (at->offset != b->offset + before * b->stride[x->attr->axis] * dtype_bytes(x->dtype))
            FAIL(c, "%%%d is at %" PRId64 ", not where %%%d has it", part->id, at->offset, x->id);
        for (int d = 0; d < x->shape->rank; d++)
            if (at->stride[d] != b->stride[d]) FAIL(c, "%%%d has not the strides of %%%d", part->id, x->id);
        before += part->shape->dim[x->attr->axis].bound;
        if (at->writer < 0)
            check_parts(c, kernel, part);
        else if (!c->written[part->id])
            FAIL(c, "kernel %d reads %%%d before its part %%%d is written", kernel, x->id, part->id);
    }
}

static void check_read(Check *c, int kernel, const Node *x) {
    const PlanBuffer *b = &c->p->buffer[x->id];
    if (b->home == HOME_ARENA && b->writer < 0) {
        check_parts(c, kernel, x);
        return;
    }
    if (b->home == HOME_NONE) FAIL(c, "kernel %d reads %%%d, which has no memory", kernel, x->id);
    if (b->home != HOME_SOURCE) {
        if (!c->written[x->id]) FAIL(c, "kernel %d reads %%%d before it is written", kernel, x->id);
        if (c->gone[x->id]) FAIL(c, "kernel %d reads %%%d after it was overwritten", kernel, x->id);
        return;
    }
    if (op_info[x->op].cls != CLASS_SOURCE) FAIL(c, "%%%d is no source but has a source's home", x->id);
    if ((x->op == OP_PARAM && c->param_gone[x->attr->decl]) || (x->op == OP_STATE && c->state_gone[x->attr->decl]))
        FAIL(c, "kernel %d reads the old %%%d after it was overwritten", kernel, x->id);
}

/* Each tensor outside the arena is written at most once. */
static void check_target(Check *c, int kernel, const PlanBuffer *b, int id) {
    const Model *m = c->p->graph->model;
    bool *done = NULL;
    int n = 0, decl = b->decl;
    switch (b->home) {
    case HOME_OUTPUT: done = c->output_done, n = m->outputs.n; break;
    case HOME_GRAD: done = c->grad_done, n = m->params.n; break;
    case HOME_PARAM: done = c->param_gone, n = m->params.n; break;
    case HOME_STATE: done = c->state_gone, n = m->states.n; break;
    case HOME_ARENA:
        if (plan_output(b) < 0) return;
        done = c->output_done, n = m->outputs.n, decl = plan_output(b);
        break;
    case HOME_NONE:
    case HOME_SOURCE: FAIL(c, "kernel %d writes %%%d, which has no home of its own", kernel, id); return;
    }
    if (decl < 0 || decl >= n)
        FAIL(c, "%%%d lives in declaration %d, which does not exist", id, decl);
    else if (done[decl])
        FAIL(c, "kernel %d writes %%%d over an earlier result", kernel, id);
    else
        done[decl] = true;
}

static void check_write(Check *c, int kernel, const Node *x) {
    const PlanBuffer *b = &c->p->buffer[x->id];
    if (c->written[x->id]) FAIL(c, "kernel %d writes %%%d a second time", kernel, x->id);
    if (b->writer != kernel) FAIL(c, "%%%d names kernel %d as its writer, but %d writes it", x->id, b->writer, kernel);
    if (b->bytes < shape_elements(*x->shape) * dtype_bytes(x->dtype))
        FAIL(c, "%%%d has %" PRId64 " bytes, too few for its shape", x->id, b->bytes);
    if (b->output && (b->within || b->bytes != shape_elements(*x->shape) * dtype_bytes(x->dtype)))
        FAIL(c, "%%%d is an output and not laid out as the caller sees it", x->id);
    const Node *old = plan_overwritten(c->p, x);
    if (old && (c->gone[old->id] || !shape_same(old->shape, x->shape) || old->dtype != x->dtype || b->offset != c->p->buffer[old->id].offset))
        FAIL(c, "%%%d cannot lie where %%%d does", x->id, old->id);
    for (int d = 0; old && d < x->shape->rank; d++)
        if (b->stride[d] != c->p->buffer[old->id].stride[d]) FAIL(c, "%%%d has not the strides of %%%d", x->id, old->id);
    if (old) c->gone[old->id] = true;
    c->written[x->id] = true;
    check_target(c, kernel, b, x->id);
}

/* ---- live ranges ------------------------------------------------------------------------------------------------- */
/* What begins in front of `at`, and what does not. */
static void cut(Extent *t, int64_t at, Extent **below, Extent **above) {
    while (t) {
        if (t->at < at) {
            *below = t;
            below = &t->right;
            t = t->right;
        } else {
            *above = t;
            above = &t->left;
            t = t->left;
        }
    }
    *below = *above = NULL;
}

static Extent *joined(Extent *below, Extent *above) {
    Extent *root, **hole = &root;
    while (below && above) {
        Extent **side = below->priority > above->priority ? &below : &above;
        *hole = *side;
        hole = side == &below ? &below->right : &above->left;
        *side = *hole;
    }
    *hole = below ? below : above;
    return root;
}

static const Extent *rightmost(const Extent *t) {
    while (t && t->right) t = t->right;
    return t;
}

static const Extent *leftmost(const Extent *t) {
    while (t && t->left) t = t->left;
    return t;
}

/* Puts a range among the live ones, which are disjoint, up to position `last`. */
static void occupy(Check *c, Extent x, int last) {
    if (x.at < 0 || x.end > c->p->arena_bytes) {
        FAIL(c, "%s %d lies outside the arena", x.what, x.id);
        return;
    }
    Extent *below, *above, *new = arena_dup(c->arena, &x, sizeof x);
    cut(c->live, x.at, &below, &above);
    const Extent *before = rightmost(below), *after = leftmost(above);
    if (before && before->end > x.at) FAIL(c, "%s %d overlaps %s %d", x.what, x.id, before->what, before->id);
    if (after && after->at < x.end) FAIL(c, "%s %d overlaps %s %d", x.what, x.id, after->what, after->id);
    c->random = c->random * 1664525u + 1013904223u;
    new->priority = c->random;
    new->next = c->ending[last];
    c->ending[last] = new;
    c->live = joined(joined(below, new), above);
}

static void release(Check *c, int at) {
    for (const Extent *x = c->ending[at]; x; x = x->next) {
        Extent *below, *rest, *gone, *above;
        cut(c->live, x->at, &below, &rest);
        cut(rest, x->at + 1, &gone, &above);
        c->live = joined(below, above);
    }
}

static void check_kernel(Check *c, int at) {
    int kernel = c->p->order[at];
    const PlanKernel *k = &c->p->kernels.at[kernel];
    for (int i = 0; i < k->reads.n; i++) check_read(c, kernel, k->reads.at[i]);
    for (int i = 0; i < k->outputs.n; i++) check_write(c, kernel, k->outputs.at[i]);
    for (int i = 0; i < k->outputs.n; i++) {
        const Node *x = outermost(c, k->outputs.at[i]);
        const PlanBuffer *b = &c->p->buffer[x->id];
        const bool begins = !c->begun[x->id];
        c->begun[x->id] = true;
        if (b->home == HOME_ARENA && b->bytes && begins)
            occupy(c, (Extent){.at = b->offset, .end = b->offset + b->bytes, .what = "%", .id = x->id}, c->last[x->id]);
    }
    if (k->workspace)
        occupy(c,
               (Extent){.at = k->workspace_offset,
                        .end = k->workspace_offset + k->workspace,
                        .what = "the workspace of kernel",
                        .id = kernel},
               at);
    release(c, at);
}

/* What is written to the result's home: a reshape of it is the same memory. */
static const Node *landing(const Plan *p, const Result *r) {
    const Node *v = r->value;
    while (p->buffer[v->id].home == HOME_NONE && v->op == OP_RESHAPE) v = v->in[0];
    return v;
}

static void check_results(Check *c) {
    static const Home home[] = {
        [RESULT_GRAD] = HOME_GRAD, [RESULT_PARAM] = HOME_PARAM, [RESULT_STATE] = HOME_STATE};
    for (int i = 0; i < c->p->graph->results.n; i++) {
        const Result *r = &c->p->graph->results.at[i];
        const Node *v = landing(c->p, r);
        const PlanBuffer *b = &c->p->buffer[v->id];
        const bool at_home = r->kind == RESULT_OUTPUT ? plan_output(b) == r->decl
                                                      : b->home == home[r->kind] && b->decl == r->decl;
        if (!at_home || !c->written[v->id])
            FAIL(c, "result %d is not written to its home", i);
    }
}

/* A call that leaves a result out must not write it: its kernel is one that no other call needs. */
static void check_wanted(Check *c) {
    const Plan *p = c->p;
    const Graph *g = p->graph;
    if (!plan_leaves_out(g)) return;
    const uint64_t *of = plan_wanted_by_result(c->arena, g), *kernel = plan_wanted_by_kernel(c->arena, p, p->order);
    for (int i = 0; i < g->results.n; i++) {
        const Result *r = &g->results.at[i];
        const int writer = p->buffer[landing(p, r)->id].writer;
        if (r->kind != RESULT_PARAM && r->kind != RESULT_STATE) continue;
        if (writer < 0 || kernel[writer] != of[i]) FAIL(c, "result %d is written by calls that do not want it", i);
    }
}

const char *plan_verify(Arena *a, const Plan *p) {
    const Model *m = p->graph->model;
    const int n = p->graph->nodes.n;
    Check c = {.arena = a, .p = p};
    c.written = ARENA_ARRAY(a, bool, n + 1);
    c.gone = ARENA_ARRAY(a, bool, n + 1);
    c.begun = ARENA_ARRAY(a, bool, n + 1);
    c.within = ARENA_ARRAY(a, const Node *, n + 1);
    for (int i = 0; i < n; i++) c.within[i] = p->buffer[i].within;
    c.last = ARENA_ARRAY(a, int, n + 1);
    c.param_gone = ARENA_ARRAY(a, bool, m->params.n + 1);
    c.grad_done = ARENA_ARRAY(a, bool, m->params.n + 1);
    c.state_gone = ARENA_ARRAY(a, bool, m->states.n + 1);
    c.output_done = ARENA_ARRAY(a, bool, m->outputs.n + 1);
    c.ending = ARENA_ARRAY(a, Extent *, p->kernels.n + 1);
    check_order(&c);
    if (c.why) return c.why;
    find_last_uses(&c);
    for (int at = 0; at < p->kernels.n && !c.why; at++) check_kernel(&c, at);
    if (!c.why) check_results(&c);
    if (!c.why) check_wanted(&c);
    return c.why;
}
