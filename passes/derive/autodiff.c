/* autodiff: replaces every gradient(y, x), vjp(y, x, u) and jacobian(y, x) by nodes that compute it.
 *
 * Needs: a legal graph.  Keeps: the values of all other nodes and their order.  Afterwards the graph
 * holds no derivative and no stop_gradient node; forward nodes come first, then those of the backward
 * sweep (PHASE_BACKWARD), then what depends on gradients.  Derivatives that are values of the program (vjp, jacobian)
 * are backward too, with all that reads them, unless one of them is differentiated again: then they are forward.
 *
 * One reverse sweep serves all gradients of one y and seed.  A gradient of an expression that itself holds a
 * gradient is expanded level by level: the inner sweep's nodes are ordinary nodes to the outer one. */
#include "passes/derive/full_jacobian.h"
#include "passes/derive/reverse_sweep.h"

typedef struct Autodiff {
    PassContext *context;
    const Graph *old;
    Graph *g; /* the new graph */
    Arena *scratch;
    int *level;      /* by old id: how many derivatives lie nested below */
    Phase *late;     /* by old id: of what depends on a derivative of the backward phase or later, its phase */
    bool *inner;     /* by old id: some gradient is asked through this node */
    Node **copy;     /* by old id: its node in g */
    bool has_values; /* some vjp or jacobian */
    bool nested;     /* some of them is part of what is differentiated */
} Autodiff;

static bool is_request(const Node *n) { return n->op == OP_GRADIENT || n->op == OP_VJP || n->op == OP_JACOBIAN; }

/* ---- levels ------------------------------------------------------------------------------- */
static bool is_value(const Node *n) { return is_request(n) && n->op != OP_GRADIENT && n->phase == PHASE_FORWARD; }

static void find_inner(Autodiff *ad) {
    for (int i = ad->old->nodes.n - 1; i >= 0; i--) {
        const Node *n = ad->old->nodes.at[i];
        if (is_request(n) || ad->inner[i])
            for (int k = 0; k < n->n_in; k++) ad->inner[n->in[k]->id] = true;
        ad->has_values |= is_request(n) && n->op != OP_GRADIENT;
        ad->nested |= is_value(n) && ad->inner[i];
    }
}

static int find_levels(Autodiff *ad) {
    int top = 0;
    for (int i = 0; i < ad->old->nodes.n; i++) {
        const Node *n = ad->old->nodes.at[i];
        ad->late[i] = is_request(n) && !is_value(n) ? PHASE_UPDATE : is_value(n) && !ad->nested ? PHASE_BACKWARD : PHASE_FORWARD;
        for (int k = 0; k < n->n_in; k++) {
            const int in = n->in[k]->id;
            if (ad->level[in] > ad->level[i]) ad->level[i] = ad->level[in];
            if (ad->late[in] > ad->late[i]) ad->late[i] = ad->late[in];
        }
        ad->level[i] += is_request(n);
        if (ad->level[i] > top) top = ad->level[i];
    }
    return top;
}

/* What depends on gradients belongs to the update, unless a further gradient is taken of it. */
static Phase phase_of(const Autodiff *ad, const Node *n) {
    if (n->phase != PHASE_FORWARD || ad->late[n->id] == PHASE_FORWARD) return n->phase;
    return ad->inner[n->id] ? PHASE_BACKWARD : ad->late[n->id];
}

static void copy_node(Autodiff *ad, const Node *n) {
    Node **in = ARENA_ARRAY(ad->scratch, Node *, n->n_in);
    for (int k = 0; k < n->n_in; k++) in[k] = ad->copy[n->in[k]->id];
    Node *copy = graph_node(ad->g, n->op, n->n_in, in, NULL, n->dtype, *n->shape);
    copy->attr = n->attr; /* as long-lived as the old graph, and never edited */
    copy->phase = phase_of(ad, n);
    copy->remat = n->remat;
    copy->loc = n->loc;
    ad->copy[n->id] = copy;
}

/* ---- expansion ------------------------------------------------------------------------------ */
static Phase phase_of_request(const Autodiff *ad, const Node *n) {
    return n->op == OP_GRADIENT || (is_value(n) && !ad->nested) ? PHASE_BACKWARD : n->phase;
}

static Node *seed_of(const Node *n) { return n->op == OP_VJP ? n->in[2] : NULL; }

static bool same_sweep(const Autodiff *ad, const Node *a, const Node *b) {
    return b->op != OP_JACOBIAN && a->in[0] == b->in[0] && seed_of(a) == seed_of(b) && phase_of_request(ad, a) == phase_of_request(ad, b);
}

/* Expands all requests on this level that one sweep with `first` serves. */
static void expand_sweep(Autodiff *ad, const Node *first, const int *pending, int n_pending) {
    Node *y = ad->copy[first->in[0]->id], *seed = seed_of(first);
    Arena *scratch = arena_new(); /* many sweeps over a large graph would fill the pass's */
    Sweep s = sweep_new(ad->context, ad->g, scratch, phase_of_request(ad, first), y);
    for (int i = 0; i < n_pending; i++) {
        const Node *request = ad->old->nodes.at[pending[i]];
        if (same_sweep(ad, first, request)) sweep_by(&s, ad->copy[request->in[1]->id]);
    }
    sweep_run(&s, seed ? ad->copy[seed->id] : sweep_const(&s, y, 1));
    for (int i = 0; i < n_pending; i++) {
        const Node *request = ad->old->nodes.at[pending[i]];
        if (!same_sweep(ad, first, request)) continue;
        const Node *x = ad->copy[request->in[1]->id];
        Node *dx = sweep_adjoint(&s, x);
        ad->copy[request->id] = dx ? dx : sweep_const(&s, x, 0);
    }
    arena_free(scratch);
}

static void expand(Autodiff *ad, const Node *request, const int *pending, int n_pending) {
    if (request->op == OP_JACOBIAN)
        ad->copy[request->id] = full_jacobian(ad->context, ad->g, request, phase_of_request(ad, request), ad->copy[request->in[0]->id],
                                              ad->copy[request->in[1]->id]);
    else
        expand_sweep(ad, request, pending, n_pending);
}

static void expand_level(Autodiff *ad, int level) {
    VEC(int) pending = {0};
    for (int i = 0; i < ad->old->nodes.n; i++)
        if (ad->level[i] == level && is_request(ad->old->nodes.at[i])) vec_push(ad->scratch, pending, i);
    for (int i = 0; i < pending.n; i++) {
        const Node *request = ad->old->nodes.at[pending.at[i]];
        if (!ad->copy[request->id]) expand(ad, request, pending.at, pending.n);
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

static bool has_work(const Graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (is_request(g->nodes.at[i]) || g->nodes.at[i]->op == OP_STOP_GRADIENT) return true;
    return false;
}

Graph *pass_autodiff(PassContext *c, Graph *g) {
    if (!has_work(g)) return g;
    Arena *scratch = arena_new();
    int n = g->nodes.n;
    Autodiff ad = {.context = c,
                   .old = g,
                   .g = graph_new_from(c->arena, g),
                   .scratch = scratch,
                   .level = ARENA_ARRAY(scratch, int, n),
                   .late = ARENA_ARRAY(scratch, Phase, n),
                   .inner = ARENA_ARRAY(scratch, bool, n),
                   .copy = ARENA_ARRAY(scratch, Node *, n)};
    find_inner(&ad);
    int top = find_levels(&ad);
    for (int level = 0; level <= top; level++) {
        if (level > 0) expand_level(&ad, level);
        for (int i = 0; i < n; i++)
            if (ad.level[i] == level && !is_request(g->nodes.at[i])) copy_node(&ad, g->nodes.at[i]);
    }
    for (int i = 0; i < g->results.n; i++) {
        Result r = g->results.at[i];
        graph_result(ad.g, r.kind, r.decl, ad.copy[r.value->id]);
    }
    remove_stops(ad.g);
    if (ad.has_values) graph_prune(ad.g); /* products that only served to make others */
    arena_free(scratch);
    return ad.g;
}
