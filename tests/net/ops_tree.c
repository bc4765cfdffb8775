// Indexed definitions whose body is any scalar expression: nested reductions, functions, comparisons of indices and values.
#include "tests/net/indexed.h"
#include <math.h>
#include <stdlib.h>

static int below(Gen *g, int n) { return random_below(&g->random, n); }
static bool reduces(NodeKind k) { return k >= N_SUM; }
static int arity(NodeKind k) {
    if (k <= N_READ) return 0;
    if (k <= N_SQUARE || reduces(k)) return 1;
    return k <= N_WHERE_INDEX ? 2 : 3;
}

// ---- drawing -------------------------------------------------------------------------------------------------------------
typedef struct { Gen *g; Value *v; int visible[MAX_INDICES], nvisible, depth; } Draw;

static int visible_index(Draw *d) { return d->visible[below(d->g, d->nvisible)]; }

// Subscripts are drawn over positions in the list of visible indices, then renamed.
static void rename_indices(const Draw *d, Factor *f, int rank) {
    for (int k = 0; k < rank; k++) {
        Subscript *s = &f->at[k], r = *s;
        for (int i = 0; i < MAX_INDICES; i++) r.coefficient[i] = 0;
        for (int i = 0; i < d->nvisible; i++) r.coefficient[d->visible[i]] += s->coefficient[i];
        *s = r;
    }
}
static NodeKind draw_kind(Draw *d) {
    const Body *b = d->v->body;
    int k = below(d->g, 100);
    if (d->depth >= 4 || b->nnodes > MAX_NODES / 2) return k < 70 ? N_READ : k < 80 ? N_NUMBER : k < 90 ? N_INDEX : N_MOD;
    if (k < 24 && b->count < MAX_INDICES) return (NodeKind)(N_SUM + below(d->g, 5) % 4);
    if (k < 64) return (NodeKind)(N_ADD + below(d->g, 8));
    return k < 80 ? (NodeKind)(N_NEG + below(d->g, 5)) : N_READ;
}
static void open_indices(Draw *d, Node *n) {
    Body *b = d->v->body;
    n->from = b->count;
    n->to = b->count + 1 + (b->count + 1 < MAX_INDICES && below(d->g, 3) == 0);
    for (; b->count < n->to; b->count++) d->visible[d->nvisible++] = b->count;
}
static int draw_node(Draw *d) {
    Body *b = d->v->body;
    Node n = {.kind = draw_kind(d), .child = {-1, -1, -1}, .number = some_number(d->g)};
    int outer = d->nvisible;
    if (reduces(n.kind)) open_indices(d, &n);
    else n.from = visible_index(d), n.to = visible_index(d);
    if (n.kind == N_READ) {
        n.read.kind = F_READ;
        if (!draw_read(d->g, d->v, b, &n.read, d->nvisible)) return -1;
        rename_indices(d, &n.read, d->g->prog->at[d->v->arg[n.read.arg]].shape.rank);
    }
    d->depth++;
    for (int k = 0; k < arity(n.kind); k++)
        if ((n.child[k] = draw_node(d)) < 0) return -1;
    d->depth--;
    d->nvisible = outer;
    if (b->nnodes == MAX_NODES) return -1;
    b->node[b->nnodes] = n;
    return b->nnodes++;
}
static void range_from_reads(const Gen *g, const Value *v, Body *b, int i) {
    for (int k = 0; k < b->nnodes; k++) {
        const Factor *f = &b->node[k].read;
        if (b->node[k].kind != N_READ) continue;
        const Shape *s = &g->prog->at[v->arg[f->arg]].shape;
        for (int d = 0; d < s->rank; d++)
            if (index_whole(&f->at[d]) == i) b->high[i] = s->n[d], b->stated[i] = false;
    }
}
static long terms_of(const Body *b) {
    long terms = b->nnodes;
    for (int i = 0; i < b->count; i++) terms *= b->high[i] > b->low[i] ? b->high[i] - b->low[i] : 1;
    return terms;
}
bool propose_tree(Gen *g, Value *v) {
    Body *b = calloc(1, sizeof *b);
    if (!b) abort();
    v->body = b;
    b->left = b->count = 1 + below(g, 2);
    Draw d = {.g = g, .v = v};
    for (int i = 0; i < b->left; i++) d.visible[d.nvisible++] = i;
    if (draw_node(&d) < 0 || !v->nargs || b->nnodes < 2) return false;
    for (int i = 0; i < b->count; i++) {
        b->low[i] = 0, b->high[i] = 1 + below(g, 5), b->stated[i] = true;
        range_from_reads(g, v, b, i);
        if (below(g, 5) == 0) b->stated[i] = true, b->high[i] = 1 + below(g, 9);
        if (b->stated[i] && i >= b->left && below(g, 3) == 0) b->low[i] = below(g, 3) - 1;
    }
    return terms_of(b) <= 20000;
}
bool infer_tree(const Prog *p, Value *v) {
    Body *b = v->body;
    bool seen[MAX_INDICES] = {false};
    for (int k = 0; k < b->nnodes; k++)
        if (b->node[k].kind == N_READ && !fits_read(p, v, b, &b->node[k].read, seen)) return false;
    return settle_ranges(v, seen);
}

// ---- values --------------------------------------------------------------------------------------------------------------
typedef struct { Eval *e; const Value *v; int index[MAX_INDICES]; } Walk;

static int value_of(Walk *w, int node, bool *outside);
static int constant(Walk *w, double x) { return tape_const(&w->e->tape, x); }

static int reduced(Walk *w, const Node *n) {
    static const TapeOp op[] = {T_ADD, T_MAX, T_MIN, T_MUL};
    static const double empty[] = {0, -INFINITY, INFINITY, 1};
    const Body *b = w->v->body;
    int sum = -1, i;
    for (i = n->from; i < n->to; i++) {
        w->index[i] = b->low[i];
        if (b->high[i] <= b->low[i]) return constant(w, empty[n->kind - N_SUM]);
    }
    do {
        bool outside = false;
        int term = value_of(w, n->child[0], &outside);
        if (!outside) sum = sum < 0 ? term : tape_2(&w->e->tape, op[n->kind - N_SUM], sum, term);
        for (i = n->to - 1; i >= n->from && ++w->index[i] == b->high[i]; i--) w->index[i] = b->low[i];
    } while (i >= n->from && !w->e->tape.full);
    return sum < 0 ? constant(w, empty[n->kind - N_SUM]) : sum;
}
static int leaf(Walk *w, const Node *n, bool *outside) {
    if (n->kind == N_NUMBER) return constant(w, n->number);
    if (n->kind == N_INDEX) return constant(w, w->index[n->from]);
    if (n->kind == N_MOD) return constant(w, w->index[n->from] - 3 * floor(w->index[n->from] / 3.0));
    int x = read_factor(w->e, w->v, &n->read, w->index);
    *outside |= x < 0;
    return x < 0 ? constant(w, 0) : x;
}
static int divided(Tape *t, int a, int b) { return tape_2(t, T_DIV, a, tape_2(t, T_ADD, tape_2(t, T_MUL, b, b), tape_const(t, 0.5))); }
static int combined(Walk *w, const Node *n, const int *x) {
    Tape *t = &w->e->tape;
    switch (n->kind) {
    case N_NEG: return tape_1(t, T_NEG, x[0]);
    case N_SIN: return tape_1(t, T_SIN, x[0]);
    case N_TANH: return tape_1(t, T_TANH, x[0]);
    case N_ABS: return tape_1(t, T_ABS, x[0]);
    case N_SQUARE: return tape_2(t, T_MUL, x[0], x[0]);
    case N_ADD: return tape_2(t, T_ADD, x[0], x[1]);
    case N_SUB: return tape_2(t, T_SUB, x[0], x[1]);
    case N_MUL: return tape_2(t, T_MUL, x[0], x[1]);
    case N_DIV: return divided(t, x[0], x[1]);
    case N_MAX: return tape_2(t, T_MAX, x[0], x[1]);
    case N_MIN: return tape_2(t, T_MIN, x[0], x[1]);
    case N_WHERE_INDEX: return tape_op(t, T_SELECT, tape_const(t, w->index[n->from] < w->index[n->to]), x[0], x[1]);
    default: return tape_op(t, T_SELECT, tape_2(t, T_GT, x[2], tape_const(t, 0.25)), x[0], x[1]);
    }
}
static int value_of(Walk *w, int node, bool *outside) {
    const Node *n = &w->v->body->node[node];
    int x[3];
    if (reduces(n->kind)) return reduced(w, n);
    if (arity(n->kind) == 0) return leaf(w, n, outside);
    for (int k = 0; k < arity(n->kind); k++) x[k] = value_of(w, n->child[k], outside);
    return combined(w, n, x);
}
void eval_tree(Eval *e, const Value *v, Tensor *out) {
    Walk w = {.e = e, .v = v};
    *out = tensor_make(e, v->shape, D_F);
    for (int i = 0; i < shape_size(&v->shape) && !e->tape.full; i++) {
        bool outside = false;
        unravel(&v->shape, i, w.index);
        out->id[i] = value_of(&w, v->body->nnodes - 1, &outside);
    }
}

// ---- text ----------------------------------------------------------------------------------------------------------------
typedef struct { FILE *f; const Prog *p; const Value *v; bool torch; } Text;

// %0 %1 %2 children, %i %j indices
static const char *form_of(NodeKind k, bool torch) {
    static const char *const dsl[] = {"", "float(%i)", "float(mod(%i, 3))", "", "(-%0)", "sin(%0)", "tanh(%0)", "abs(%0)", "%0^2", "(%0 + %1)", "(%0 - %1)",
                                      "(%0 * %1)", "%0 / (%1^2 + 0.5)", "max(%0, %1)", "min(%0, %1)", "where(%i < %j, %0, %1)", "where(%2 > 0.25, %0, %1)"};
    if (!torch) return dsl[k];
    return k == N_MOD ? "float(%i % 3)" : k == N_SQUARE ? "%0**2" : k == N_DIV ? "%0 / (%1**2 + 0.5)" : dsl[k];
}
static void print_node(const Text *t, int node);

static void print_reduction(const Text *t, const Node *n) {
    static const char *const names[] = {"sum", "max", "min", "prod"};
    const char *name = names[n->kind - N_SUM];
    fprintf(t->f, t->torch ? "reduced('%s', [" : "(%s[", name);
    print_binders(t->f, t->v->body, n->from, n->to, t->torch);
    if (t->torch) print_lambda(t->f, n->from, n->to);
    else fprintf(t->f, "] ");
    print_node(t, n->child[0]);
    fputc(')', t->f);
}
static void print_form(const Text *t, const Node *n, const char *form) {
    for (const char *s = form; *s; s++) {
        if (*s != '%' || s[1] == ' ') fputc(*s, t->f);
        else if (*++s == 'i') fputc(index_letter(n->from), t->f);
        else if (*s == 'j') fputc(index_letter(n->to), t->f);
        else print_node(t, n->child[*s - '0']);
    }
}
static void print_node(const Text *t, int node) {
    const Node *n = &t->v->body->node[node];
    if (reduces(n->kind)) print_reduction(t, n);
    else if (n->kind == N_NUMBER) fprintf(t->f, n->number < 0 ? "(%.9g%s)" : "%.9g%s", n->number, n->number == floor(n->number) ? ".0" : "");
    else if (n->kind == N_READ) print_read(t->f, t->p, t->v, &n->read, t->torch);
    else {
        bool bracket = n->kind == N_SQUARE || n->kind == N_DIV;
        if (bracket) fputc('(', t->f);
        print_form(t, n, form_of(n->kind, t->torch));
        if (bracket) fputc(')', t->f);
    }
}
void print_tree(FILE *f, const Prog *p, const Value *v, bool torch) { print_node(&(Text){f, p, v, torch}, v->body->nnodes - 1); }
