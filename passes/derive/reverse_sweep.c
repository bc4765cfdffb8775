/* Only nodes on a path from some x to y receive adjoints, so what is frozen costs nothing. */
#include "passes/derive/reverse_sweep.h"
#include "passes/derive/shift.h"

Sweep sweep_new(PassContext *c, Graph *g, Arena *scratch, Phase phase, Node *y) {
    const int n = y->id + 1;
    return (Sweep){.context = c,
                   .g = g,
                   .scratch = scratch,
                   .phase = phase,
                   .y = y,
                   .active = ARENA_ARRAY(scratch, bool, n),
                   .reaches = ARENA_ARRAY(scratch, bool, n),
                   .lost = ARENA_ARRAY(scratch, Node *, n),
                   .adjoint = ARENA_ARRAY(scratch, Node *, n)};
}

void sweep_by(Sweep *s, const Node *x) {
    if (x->id <= s->y->id && dtype_is_float(x->dtype)) s->active[x->id] = true;
}

/* What is reduced and then subtracted again, as a row's maximum, passes nothing on. */
static bool passes_on(const Sweep *s, Shifts **shifts, const Node *n) {
    if (op_info[n->op].cls != CLASS_REDUCE || !dtype_is_float(n->dtype)) return true;
    if (!*shifts) *shifts = shifts_new(s->scratch, s->g);
    return !shift_cancels(*shifts, n, s->y);
}

static void mark_active(Sweep *s) {
    Shifts *shifts = NULL;
    for (int i = 0; i <= s->y->id; i++) {
        const Node *n = s->g->nodes.at[i];
        for (int k = 0; k < n->n_in && !s->active[i]; k++)
            s->active[i] = jacobian_exists(n, k) && s->active[n->in[k]->id];
        if (s->active[i]) s->active[i] = passes_on(s, &shifts, n);
    }
    s->reaches[s->y->id] = true;
    for (int i = s->y->id; i >= 0; i--) {
        const Node *n = s->g->nodes.at[i];
        for (int k = 0; k < n->n_in && s->reaches[i]; k++)
            if (jacobian_exists(n, k)) s->reaches[n->in[k]->id] = true;
    }
}

static void warn_lost(const Sweep *s, const Node *n) {
    const PassContext *c = s->context;
    if (!c->report) return;
    const char *message =
        arena_printf(c->arena, "the gradient through %s is zero: it has no derivative", op_info[n->op].text);
    c->report(c->user, COMPLAINT_WARNING, n->loc, message,
              "write stop_gradient(..) around it if that is meant, or use a smooth function instead");
}

/* Warns where a gradient of y would have to pass an op without a derivative.  Comparisons are silent:
 * they only choose between values; so are floor, sign and their like, whose slope is zero. */
static void warn_missing(Sweep *s) {
    for (int i = 0; i <= s->y->id; i++) {
        Node *n = s->g->nodes.at[i];
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
    *sum = *sum && part ? graph_binary(s->g, OP_ADD, *sum, part) : part ? part : *sum;
}

/* What one node passes on to its operands; the new nodes are placed where it stands in the source. */
static void propagate(Sweep *s, Node *n, Node *dy) {
    Graph *g = s->g;
    int first = g->nodes.n;
    for (int k = 0; k < n->n_in; k++) {
        Node *in = n->in[k];
        if (s->active[in->id] && jacobian_exists(n, k)) accumulate(s, in, jacobian_product(s->context, g, n, k, dy));
    }
    for (int i = first; i < g->nodes.n; i++) {
        g->nodes.at[i]->phase = s->phase;
        g->nodes.at[i]->loc = n->loc;
    }
}

Node *sweep_const(const Sweep *s, const Node *like, double value) {
    Node *n = graph_const(s->g, like->dtype, *like->shape, value);
    n->phase = s->phase;
    n->loc = like->loc;
    return n;
}

void sweep_run(Sweep *s, Node *seed) {
    mark_active(s);
    if (!s->quiet) warn_missing(s);
    if (!s->active[s->y->id]) return;
    s->adjoint[s->y->id] = seed;
    for (int i = s->y->id; i >= 0; i--)
        if (s->active[i] && s->adjoint[i]) propagate(s, s->g->nodes.at[i], s->adjoint[i]);
}

Node *sweep_adjoint(const Sweep *s, const Node *x) { return x->id <= s->y->id ? s->adjoint[x->id] : NULL; }
