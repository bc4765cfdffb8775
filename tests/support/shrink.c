/* Smaller programs that still fail, by trying: every change that keeps a legal graph and the fault is kept. */
#include "tests/support/differential.h"
#include <string.h>

/* ---- one change ------------------------------------------------------------------------------------------------ */
typedef enum {
    BY_NOTHING,
    BY_OPERAND, /* `operand` of the node */
    BY_INPUT,   /* a new input, named so that test_data draws it from one of two ranges */
    BY_POSITIVE_INPUT,
    BY_ZERO,
    BY_ONE
} Replace;

typedef struct Change {
    int drop_result; /* -1: none */
    int only;        /* this node is the one result, an output; -1: results stay */
    int node;        /* to replace; -1: none */
    Replace by;
    int operand;
    int64_t from, to; /* every extent `from` becomes `to`; BOUNDED: every bounded one */
} Change;

enum { BOUNDED = -1 };
static const Change no_change = {.drop_result = -1, .only = -1, .node = -1};

static Dim changed_dim(const Change *c, Dim d) {
    if (!dim_is_fixed(d) && c->from == BOUNDED) return dim_fixed(c->to);
    return dim_is_fixed(d) && c->from != c->to && d.bound == c->from ? dim_fixed(c->to) : d;
}
static Shape changed_shape(const Change *c, Shape s) {
    for (int d = 0; d < s.rank; d++) s.dim[d] = changed_dim(c, s.dim[d]);
    return s;
}

/* Starts of slices and widths of pads stay: where they no longer fit, the change is refused. */
static Attr changed_attr(Arena *a, const Change *c, const Node *n) {
    Attr at = *n->attr;
    at.extent = changed_dim(c, at.extent);
    for (int d = 0; n->op == OP_SLICE && d < n->shape->rank; d++) at.hi[d] = changed_dim(c, at.hi[d]);
    if (n->op != OP_CONTRACT || c->from == c->to) return at;
    Contract *k = arena_dup(a, at.contract, sizeof *k);
    for (int l = 0; l < k->n_loops; l++) k->extent[l] = changed_dim(c, k->extent[l]);
    k->guard = k->n_guards ? arena_dup(a, k->guard, sizeof *k->guard * (size_t)k->n_guards) : NULL;
    for (int i = 0; i < k->n_guards; i++) k->guard[i].hi = changed_dim(c, k->guard[i].hi);
    at.contract = k;
    return at;
}

/* ---- the program after it ---------------------------------------------------------------------------------------- */
typedef struct Rebuild {
    Arena *a;
    const Graph *old;
    Graph *g;
    const Change *change;
    bool *needed; /* by old id */
    Node **copy;  /* by old id */
    int *decl[4]; /* by old number: of params, states, inputs, outputs; -1: not there yet */
} Rebuild;

typedef VEC(TensorDecl) DeclList;

static int declare(Rebuild *r, int *number, DeclList *to, const TensorDecl *d, int old) {
    if (number[old] >= 0) return number[old];
    TensorDecl copy = d[old];
    copy.shape = changed_shape(r->change, copy.shape);
    vec_push(r->a, *to, copy);
    return number[old] = to->n - 1;
}

static int declare_source(Rebuild *r, Op op, int old) {
    const Model *from = r->old->model;
    Model *to = r->g->model;
    if (op == OP_PARAM) return declare(r, r->decl[0], (DeclList *)&to->params, from->params.at, old);
    if (op == OP_STATE) return declare(r, r->decl[1], (DeclList *)&to->states, from->states.at, old);
    return declare(r, r->decl[2], (DeclList *)&to->inputs, from->inputs.at, old);
}

static Node *new_input(Rebuild *r, const Node *n, bool positive) {
    Model *m = r->g->model;
    TensorDecl d = {.name = arena_printf(r->a, "%s_%d_%d", positive ? "high" : "x", n->id, r->old->nodes.n),
                    .dtype = n->dtype,
                    .shape = changed_shape(r->change, *n->shape)};
    const Attr at = {.dtype = n->dtype, .decl = m->inputs.n};
    vec_push(r->a, m->inputs, d);
    return graph_node(r->g, OP_INPUT, 0, NULL, &at, n->dtype, d.shape);
}

static Node *replacement(Rebuild *r, const Node *n) {
    const Change *c = r->change;
    if (c->by == BY_OPERAND) {
        Node *x = r->copy[n->in[c->operand]->id];
        return x->dtype == n->dtype && shape_equal(*x->shape, changed_shape(c, *n->shape)) ? x : NULL;
    }
    if (c->by == BY_INPUT || c->by == BY_POSITIVE_INPUT) return new_input(r, n, c->by == BY_POSITIVE_INPUT);
    return graph_const(r->g, n->dtype, changed_shape(c, *n->shape), c->by == BY_ONE);
}

/* NULL: what comes out is no program. */
static Node *rebuild_node(Rebuild *r, const Node *n) {
    if (n->id == r->change->node) return replacement(r, n);
    Attr at = changed_attr(r->a, r->change, n);
    Node **in = ARENA_ARRAY(r->a, Node *, n->n_in + 1);
    DType t = n->dtype;
    Shape s = changed_shape(r->change, *n->shape);
    const char *why;
    for (int k = 0; k < n->n_in; k++) in[k] = r->copy[n->in[k]->id];
    if (n->op == OP_PARAM || n->op == OP_STATE || n->op == OP_INPUT) at.decl = declare_source(r, n->op, at.decl);
    if (!graph_infer(r->a, n->op, n->n_in, in, &at, &t, &s, &why)) return NULL;
    Node *y = n->op == OP_CONTRACT ? graph_contract(r->g, n->n_in, in, at.contract)
                                   : graph_node(r->g, n->op, n->n_in, in, &at, t, s);
    y->phase = n->phase;
    y->precision = n->precision;
    return y;
}

static void only_result(Rebuild *r, Node *value) {
    const TensorDecl d = {.name = "y", .dtype = value->dtype, .shape = *value->shape};
    vec_push(r->a, r->g->model->outputs, d);
    graph_result(r->g, RESULT_OUTPUT, 0, value);
}

static void rebuild_result(Rebuild *r, const Result *x) {
    const Model *from = r->old->model;
    Model *to = r->g->model;
    int decl;
    Node *value = r->copy[x->value->id];
    switch (x->kind) {
    case RESULT_OUTPUT:
        decl = declare(r, r->decl[3], (DeclList *)&to->outputs, from->outputs.at, x->decl);
        to->outputs.at[decl].shape = *value->shape;
        to->outputs.at[decl].dtype = value->dtype;
        break;
    case RESULT_STATE: decl = declare_source(r, OP_STATE, x->decl); break;
    default: decl = declare_source(r, OP_PARAM, x->decl); break;
    }
    graph_result(r->g, x->kind, decl, value);
}

static int *numbers(Arena *a, int n) {
    int *list = ARENA_ARRAY(a, int, n + 1);
    for (int i = 0; i < n; i++) list[i] = -1;
    return list;
}

static void find_needed(Rebuild *r) {
    const Graph *g = r->old;
    if (r->change->only >= 0) r->needed[r->change->only] = true;
    for (int i = 0; i < g->results.n && r->change->only < 0; i++)
        if (i != r->change->drop_result) r->needed[g->results.at[i].value->id] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        if (!r->needed[i]) continue;
        const Node *n = g->nodes.at[i];
        if (i == r->change->node) {
            if (r->change->by == BY_OPERAND) r->needed[n->in[r->change->operand]->id] = true;
            continue;
        }
        for (int k = 0; k < n->n_in; k++) r->needed[n->in[k]->id] = true;
    }
}

/* The graph under the change, with the declarations it needs; NULL where that is not legal. */
static Graph *changed(Arena *a, const Graph *g, const Change *c) {
    const Model *from = g->model;
    Model *m = ARENA_NEW(a, Model);
    *m = (Model){.name = from->name, .hypers = from->hypers, .syms = from->syms, .files = from->files};
    Rebuild r = {.a = a, .old = g, .g = graph_new(a, m, g->entry), .change = c};
    r.needed = ARENA_ARRAY(a, bool, g->nodes.n);
    r.copy = ARENA_ARRAY(a, Node *, g->nodes.n);
    const int n[] = {from->params.n, from->states.n, from->inputs.n, from->outputs.n};
    for (int i = 0; i < 4; i++) r.decl[i] = numbers(a, n[i]);
    find_needed(&r);
    for (int i = 0; i < g->nodes.n; i++)
        if (r.needed[i] && !(r.copy[i] = rebuild_node(&r, g->nodes.at[i]))) return NULL;
    if (c->only >= 0) only_result(&r, r.copy[c->only]);
    for (int i = 0; i < g->results.n && c->only < 0; i++)
        if (i != c->drop_result) rebuild_result(&r, &g->results.at[i]);
    graph_prune(r.g);
    return graph_verify(a, r.g) ? NULL : r.g;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */
typedef struct Shrink {
    Arena *a;
    Trial best;
    TrialFault *fault;
    void *user;
} Shrink;

static bool accept(Shrink *s, const Trial *t) {
    Arena *a = arena_new();
    const char *why;
    const bool shown = s->fault(s->user, a, t, &why);
    arena_free(a);
    if (shown) s->best = *t;
    return shown;
}

static bool try_change(Shrink *s, Change c) {
    Trial t = s->best;
    t.graph = changed(s->a, s->best.graph, &c);
    return t.graph && accept(s, &t);
}

static bool drop_results(Shrink *s) {
    bool any = false;
    for (int i = s->best.graph->results.n - 1; i >= 0 && s->best.graph->results.n > 1; i--) {
        Change c = no_change;
        c.drop_result = i;
        any |= try_change(s, c);
    }
    return any;
}

/* The first node whose value alone shows it. */
static bool cut(Shrink *s) {
    const Graph *g = s->best.graph;
    for (int i = 0; i < g->nodes.n; i++) {
        Change c = no_change;
        c.only = i;
        if ((g->results.n > 1 || g->results.at[0].value->id != i) && op_info[g->nodes.at[i]->op].cls != CLASS_SOURCE &&
            try_change(s, c))
            return true;
    }
    return false;
}

static bool replace_node(Shrink *s, int i) {
    const Node *n = s->best.graph->nodes.at[i];
    Change c = no_change;
    c.node = i;
    for (c.operand = 0, c.by = BY_OPERAND; c.operand < n->n_in; c.operand++)
        if (try_change(s, c)) return true;
    if (n->n_in == 0) return false; /* or sources would replace each other for ever */
    for (c.by = BY_INPUT; c.by <= BY_ONE; c.by++)
        if (try_change(s, c)) return true;
    return false;
}

static bool replace_nodes(Shrink *s) {
    bool any = false;
    for (int i = s->best.graph->nodes.n - 1; i >= 0; i--) {
        if (i >= s->best.graph->nodes.n) continue; /* several went at once */
        any |= replace_node(s, i);
    }
    return any;
}

static bool is_bounded(const Graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (!shape_is_fixed(*g->nodes.at[i]->shape)) return true;
    return false;
}

static bool shrink_extents(Shrink *s) {
    Change fixed = no_change;
    fixed.from = BOUNDED, fixed.to = 1;
    bool any = s->best.graph->model->syms.n > 0 && is_bounded(s->best.graph) && try_change(s, fixed);
    for (int64_t from = 2; from <= 96; from++) /* the longest rows that are drawn on purpose */
        for (int64_t to = 1; to < from; to = to * 2 < from ? to * 2 : to + 1 < from ? from - 1 : from) {
            Change c = no_change;
            c.from = from, c.to = to;
            if (!try_change(s, c)) continue;
            any = true;
            break;
        }
    return any;
}

static bool simplify_options(Shrink *s) {
    bool any = false;
    Trial t = s->best;
    t.checkpoint = CHECKPOINT_NONE;
    if (s->best.checkpoint != CHECKPOINT_NONE) any |= accept(s, &t);
    t = s->best;
    t.max_tile = 0;
    if (s->best.max_tile) any |= accept(s, &t);
    for (int p = 0; p < PASS_COUNT; p++) {
        t = s->best;
        t.disabled[p] = false;
        if (s->best.disabled[p]) any |= accept(s, &t);
    }
    return any;
}

Trial trial_shrink(Arena *a, const Trial *t, TrialFault *fault, void *user) {
    enum { MOST_ROUNDS = 20 };
    Shrink s = {.a = a, .best = *t, .fault = fault, .user = user};
    bool better = true;
    for (int round = 0; better && round < MOST_ROUNDS; round++) {
        better = simplify_options(&s);
        better |= cut(&s);
        better |= drop_results(&s);
        better |= replace_nodes(&s);
        better |= shrink_extents(&s);
    }
    return s.best;
}
