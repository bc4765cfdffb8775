/* autodiff: replaces every gradient(y, x) by nodes that compute it.
 *
 * Needs: a legal graph.  Keeps: the values of all other nodes and their order.  Afterwards the graph
 * holds no gradient and no stop_gradient node; forward nodes come first, then those of the backward
 * sweep (PHASE_BACKWARD), then what depends on gradients.
 *
 * One reverse sweep serves all gradients of one y.  Only nodes on a path from some x to y receive
 * adjoints, so frozen parameters cost nothing.  A gradient of an expression that itself holds a
 * gradient is expanded level by level: the inner sweep's nodes are ordinary nodes to the outer one. */
#include "passes/jacobian.h"
#include <string.h>

typedef struct Autodiff {
    PassContext *context;
    const Graph *old;
    Graph *g; /* the new graph */
    Arena *scratch;
    int *level;  /* by old id: how many gradients lie nested below */
    bool *inner; /* by old id: some gradient is asked through this node */
    Node **copy; /* by old id: its node in g */
} Autodiff;

/* ---- levels ------------------------------------------------------------------------------- */
static int find_levels(Autodiff *ad) {
    int top = 0;
    for (int i = 0; i < ad->old->nodes.n; i++) {
        const Node *n = ad->old->nodes.at[i];
        for (int k = 0; k < n->n_in; k++)
            if (ad->level[n->in[k]->id] > ad->level[i]) ad->level[i] = ad->level[n->in[k]->id];
        ad->level[i] += n->op == OP_GRADIENT;
        if (ad->level[i] > top) top = ad->level[i];
    }
    for (int i = ad->old->nodes.n - 1; i >= 0; i--) {
        const Node *n = ad->old->nodes.at[i];
        if (n->op == OP_GRADIENT || ad->inner[i])
            for (int k = 0; k < n->n_in; k++) ad->inner[n->in[k]->id] = true;
    }
    return top;
}

/* What depends on gradients belongs to the update, unless a further gradient is taken of it. */
static Phase phase_of(const Autodiff *ad, const Node *n) {
    if (ad->level[n->id] == 0 || n->phase != PHASE_FORWARD) return n->phase;
    return ad->inner[n->id] ? PHASE_BACKWARD : PHASE_UPDATE;
}

static void copy_node(Autodiff *ad, const Node *n) {
    Node **in = ARENA_ARRAY(ad->scratch, Node *, n->n_in);
    for (int k = 0; k < n->n_in; k++) in[k] = ad->copy[n->in[k]->id];
    Node *copy = graph_node(ad->g, n->op, n->n_in, in, NULL, n->dtype, n->shape);
    copy->attr = n->attr; /* as long-lived as the old graph, and never edited */
    copy->phase = phase_of(ad, n);
    copy->remat = n->remat;
    copy->loc = n->loc;
    ad->copy[n->id] = copy;
}

/* ---- one reverse sweep ---------------------------------------------------------------------- */
typedef struct Sweep {
    Autodiff *ad;
    Node *y;
    bool *active;  /* by new id, up to y: varies with some x */
    bool *reaches; /* y varies with it */
    Node **lost;   /* integer values that vary with some x: the op that made them integers */
    Node **adjoint;
} Sweep;

static void mark_active(Sweep *s) {
    for (int i = 0; i <= s->y->id; i++) {
        const Node *n = s->ad->g->nodes.at[i];
        for (int k = 0; k < n->n_in && !s->active[i]; k++)
            s->active[i] = jacobian_exists(n, k) && s->active[n->in[k]->id];
    }
    s->reaches[s->y->id] = true;
    for (int i = s->y->id; i >= 0; i--) {
        const Node *n = s->ad->g->nodes.at[i];
        for (int k = 0; k < n->n_in && s->reaches[i]; k++)
            if (jacobian_exists(n, k)) s->reaches[n->in[k]->id] = true;
    }
}

static void warn_lost(const Sweep *s, const Node *n) {
    const PassContext *c = s->ad->context;
    if (!c->report) return;
    const char *message =
        arena_printf(c->arena, "the gradient through %s is zero: it has no derivative", op_info[n->op].text);
    c->report(c->user, false, n->loc, message,
              "write stop_gradient(..) around it if that is meant, or use a smooth function instead");
}

/* Warns where a gradient of y would have to pass an op without a derivative.  Comparisons are silent:
 * they only choose between values; so are floor, sign and their like, whose slope is zero. */
static void warn_missing(Sweep *s) {
    for (int i = 0; i <= s->y->id; i++) {
        Node *n = s->ad->g->nodes.at[i];
        Node **lost = &s->lost[i];
        bool warned = false;
        for (int k = 0; k < n->n_in; k++) {
            const Node *in = n->in[k];
            if (s->reaches[i] && s->active[in->id] && jacobian_missing(n, k) && !warned) warned = true, warn_lost(s, n);
            if (n->op == OP_ARGMAX && s->active[in->id])
                *lost = n;
            else if (!dtype_is_float(n->dtype) && s->lost[in->id])
                *lost = s->lost[in->id];
            else if (n->op == OP_CAST && s->reaches[i] && s->lost[in->id])
                warn_lost(s, s->lost[in->id]);
        }
    }
}

static void accumulate(Sweep *s, const Node *target, Node *part) {
    Node **sum = &s->adjoint[target->id];
    *sum = *sum && part ? graph_binary(s->ad->g, OP_ADD, *sum, part) : part ? part : *sum;
}

/* What one node passes on to its operands; the new nodes are placed where it stands in the source. */
static void propagate(Sweep *s, Node *n, Node *dy) {
    Graph *g = s->ad->g;
    int first = g->nodes.n;
    for (int k = 0; k < n->n_in; k++) {
        Node *in = n->in[k];
        if (s->active[in->id] && jacobian_exists(n, k))
            accumulate(s, in, jacobian_product(s->ad->context, g, n, k, dy));
    }
    for (int i = first; i < g->nodes.n; i++) {
        g->nodes.at[i]->phase = PHASE_BACKWARD;
        g->nodes.at[i]->loc = n->loc;
    }
}

static Node *backward_const(Sweep *s, const Node *like, double value) {
    Node *n = graph_const(s->ad->g, like->dtype, like->shape, value);
    n->phase = PHASE_BACKWARD;
    n->loc = like->loc;
    return n;
}

static void sweep(Sweep *s) {
    mark_active(s);
    warn_missing(s);
    if (!s->active[s->y->id]) return;
    s->adjoint[s->y->id] = backward_const(s, s->y, 1);
    for (int i = s->y->id; i >= 0; i--)
        if (s->active[i] && s->adjoint[i]) propagate(s, s->ad->g->nodes.at[i], s->adjoint[i]);
}

/* Expands all gradients of old node y on this level. */
static void expand(Autodiff *ad, Node *y, const int *pending, int n_pending) {
    Sweep s = {.ad = ad, .y = ad->copy[y->id]};
    int n = s.y->id + 1;
    s.active = ARENA_ARRAY(ad->scratch, bool, n);
    s.reaches = ARENA_ARRAY(ad->scratch, bool, n);
    s.lost = ARENA_ARRAY(ad->scratch, Node *, n);
    s.adjoint = ARENA_ARRAY(ad->scratch, Node *, n);
    for (int i = 0; i < n_pending; i++) {
        const Node *request = ad->old->nodes.at[pending[i]];
        const Node *x = ad->copy[request->in[1]->id];
        if (request->in[0] == y && x->id < n && dtype_is_float(x->dtype)) s.active[x->id] = true;
    }
    sweep(&s);
    for (int i = 0; i < n_pending; i++) {
        const Node *request = ad->old->nodes.at[pending[i]];
        if (request->in[0] != y) continue;
        Node *x = ad->copy[request->in[1]->id];
        Node *dx = x->id < n ? s.adjoint[x->id] : NULL;
        ad->copy[request->id] = dx ? dx : backward_const(&s, x, 0);
    }
}

static void expand_level(Autodiff *ad, int level) {
    VEC(int) pending = {0};
    for (int i = 0; i < ad->old->nodes.n; i++)
        if (ad->level[i] == level && ad->old->nodes.at[i]->op == OP_GRADIENT) vec_push(ad->scratch, pending, i);
    for (int i = 0; i < pending.n; i++) {
        const Node *request = ad->old->nodes.at[pending.at[i]];
        if (!ad->copy[request->id]) expand(ad, request->in[0], pending.at, pending.n);
    }
}

/* ---- stop_gradient has done its work ------------------------------------------------------------- */
static Node *through_stops(Node *n) {
    while (n->op == OP_STOP_GRADIENT) n = n->in[0];
    return n;
}

static void remove_stops(Graph *g) {
    int kept = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        for (int k = 0; k < n->n_in; k++) n->in[k] = through_stops(n->in[k]);
        if (n->op != OP_STOP_GRADIENT) g->nodes.at[kept++] = n;
    }
    g->nodes.n = kept;
    for (int i = 0; i < g->results.n; i++) g->results.at[i].value = through_stops(g->results.at[i].value);
    graph_renumber(g);
}

Graph *pass_autodiff(PassContext *c, Graph *g) {
    graph_renumber(g);
    Arena *scratch = arena_new();
    int n = g->nodes.n;
    Autodiff ad = {.context = c,
                   .old = g,
                   .g = graph_new(c->arena, g->model, g->entry),
                   .scratch = scratch,
                   .level = ARENA_ARRAY(scratch, int, n),
                   .inner = ARENA_ARRAY(scratch, bool, n),
                   .copy = ARENA_ARRAY(scratch, Node *, n)};
    ad.g->attrs = g->attrs;
    int top = find_levels(&ad);
    for (int level = 0; level <= top; level++) {
        if (level > 0) expand_level(&ad, level);
        for (int i = 0; i < n; i++)
            if (ad.level[i] == level && g->nodes.at[i]->op != OP_GRADIENT) copy_node(&ad, g->nodes.at[i]);
    }
    for (int i = 0; i < g->results.n; i++) {
        Result r = g->results.at[i];
        graph_result(ad.g, r.kind, r.decl, ad.copy[r.value->id]);
    }
    remove_stops(ad.g);
    arena_free(scratch);
    return ad.g;
}
