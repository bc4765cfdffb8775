/* exponents: what the backward makes again of an exponential over a sum is the exponential of a difference.
 *
 *     P = exp(x - m) / z                       P = exp(x - (m + log z))
 *     dx = (dP / z + c) * exp(x - m)           dx = (dP + c z) * P
 *
 * Needs: the graph as it is fused.  Keeps: values, up to rounding.  Gives: of a row, one number that is kept for the backward instead of
 * two (the log-sum-exp: Dao et al., "FlashAttention", arXiv:2205.14135, section 3.1), and no division by it at each element.
 *
 * Only of values that have no memory: they are made again by the kernels that read them.  z is a sum of exponentials or what else has no
 * sign; where it is 0 or infinite both forms are 0, infinite or no number alike. */
#include "passes/plan/stream.h"
#include "passes/rewrite/insert.h"
#include <float.h>
#include <math.h>

typedef struct Exponents {
    Graph *g;
    Arena *scratch;
    const bool *memory;  /* by id: it will have memory */
    Node **over;         /* by id of an exponential: the quotient that is to be made again, or NULL */
    bool *reads;         /* by id: a value of the forward that has no memory and is computed of a quotient, or is one */
    Node **again;        /* by id: what the backward reads for it, once it is made */
    NodeList *before;    /* by id: new nodes that go in front of it */
    const Node *backward; /* the first node of the backward, behind all that a stream of the forward is made of */
    int n;               /* nodes that the graph had */
} Exponents;

/* ---- quotients ---------------------------------------------------------------------------------------------------- */
static bool is_exponential(const Node *n, double *scale) {
    *scale = 1;
    if (n->op == OP_EXP) return n->dtype == DT_F32;
    if (n->op != OP_POW || n->dtype != DT_F32 || n->in[0]->op != OP_CONST || !(n->in[0]->attr->value > 1)) return false;
    *scale = log(n->in[0]->attr->value);
    return isfinite(*scale);
}

static bool is_nonnegative(const Node *n, int depth) {
    if (depth == 0) return false;
    switch (n->op) {
    case OP_EXP:
    case OP_SQRT:
    case OP_ABS: return true;
    case OP_CONST: return n->attr->value >= 0;
    case OP_POW: return n->in[0]->op == OP_CONST && n->in[0]->attr->value > 0;
    case OP_MAX: return is_nonnegative(n->in[0], depth - 1) || is_nonnegative(n->in[1], depth - 1);
    case OP_ADD:
    case OP_MUL: return is_nonnegative(n->in[0], depth - 1) && is_nonnegative(n->in[1], depth - 1);
    case OP_SELECT: return is_nonnegative(n->in[1], depth - 1) && is_nonnegative(n->in[2], depth - 1);
    case OP_SUM:
    case OP_RESHAPE:
    case OP_BROADCAST: return is_nonnegative(n->in[0], depth - 1);
    default: return false;
    }
}

static bool is_quotient(const Node *n) {
    enum { DEPTH = 6 };
    double scale;
    return n->op == OP_DIV && n->dtype == DT_F32 && n->phase == PHASE_FORWARD && !n->remat && is_exponential(n->in[0], &scale) &&
           n->in[1]->op == OP_BROADCAST && is_nonnegative(n->in[1]->in[0], DEPTH);
}

static bool find_quotients(Exponents *x) {
    bool any = false;
    for (int i = 0; i < x->n; i++) {
        Node *n = x->g->nodes.at[i];
        const bool quotient = is_quotient(n) && !x->memory[i] && !x->memory[n->in[0]->id];
        if (quotient && !x->over[n->in[0]->id]) x->over[n->in[0]->id] = n;
        x->reads[i] = quotient;
        for (int k = 0; k < n->n_in && n->phase == PHASE_FORWARD && !x->memory[i] && (op_info[n->op].cls == CLASS_ELEMENT || op_info[n->op].cls == CLASS_MOVE); k++)
            x->reads[i] |= x->reads[n->in[k]->id];
        any |= quotient;
    }
    return any;
}

/* ---- new nodes ---------------------------------------------------------------------------------------------------- */
/* In front of `at`, as what it stands for. */
static Node *put(Exponents *x, Node *n, const Node *at, Phase phase) {
    n->phase = phase;
    n->loc = at->loc;
    n->remat = phase == PHASE_FORWARD ? 0 : at->remat;
    vec_push(x->scratch, x->before[at->id], n);
    return n;
}

static Node *binary(Exponents *x, Op op, Node *a, Node *b, const Node *at, Phase phase) { return put(x, graph_binary(x->g, op, a, b), at, phase); }

static Node *number(Exponents *x, const Node *like, double value, const Node *at, Phase phase) {
    return put(x, graph_const(x->g, like->dtype, *like->shape, value), at, phase);
}

static bool same_rows(const Node *a, const Node *b) {
    bool same = a->op == OP_BROADCAST && b->op == OP_BROADCAST && a->attr->n_axes == b->attr->n_axes && shape_same(a->shape, b->shape);
    for (int d = 0; same && d < a->attr->n_axes; d++) same = a->attr->axes[d] == b->attr->axes[d];
    return same;
}

/* The row's value over all elements, above -inf: a mask's -inf less it is -inf, which the bounds of loops go by. */
static Node *spread_row(Exponents *x, Node *row, const Node *like, const Node *at) {
    Node *least = number(x, row, -(double)FLT_MAX, at, PHASE_BACKWARD);
    Node *finite = binary(x, OP_MAX, row, least, at, PHASE_BACKWARD);
    return put(x, graph_broadcast(x->g, finite, *like->shape, like->attr->axes), at, PHASE_BACKWARD);
}

/* t - log z / scale; the shift that t has may take the logarithm in. */
static Node *less_logarithm(Exponents *x, Node *t, const Node *quotient, double scale, const Node *at) {
    const Node *divisor = quotient->in[1];
    const bool shifted = t->op == OP_SUB && same_rows(t->in[1], divisor);
    if (t->op == OP_MUL && t->in[1]->op == OP_CONST && t->in[1]->attr->value != 0 && isfinite(t->in[1]->attr->value)) {
        Node *inner = less_logarithm(x, t->in[0], quotient, scale * t->in[1]->attr->value, at);
        return binary(x, OP_MUL, inner, t->in[1], at, PHASE_BACKWARD);
    }
    const Node *there = quotient->id < x->backward->id ? x->backward : at;
    Node *row = put(x, graph_unary(x->g, OP_LOG, divisor->in[0]), there, PHASE_FORWARD);
    if (scale != 1) row = binary(x, OP_MUL, row, number(x, row, 1 / scale, there, PHASE_FORWARD), there, PHASE_FORWARD);
    if (shifted) row = binary(x, OP_ADD, t->in[1]->in[0], row, there, PHASE_FORWARD);
    return binary(x, OP_SUB, shifted ? t->in[0] : t, spread_row(x, row, divisor, at), at, PHASE_BACKWARD);
}

static Node *made_again(Exponents *x, const Node *quotient, const Node *at) {
    const Node *e = quotient->in[0];
    double scale;
    is_exponential(e, &scale);
    Node *t = less_logarithm(x, e->in[e->n_in - 1], quotient, scale, at);
    Node *base = e->in[0];
    return put(x, e->op == OP_EXP ? graph_unary(x->g, OP_EXP, t) : graph_binary(x->g, OP_POW, base, t), at, PHASE_BACKWARD);
}

/* ---- the backward ------------------------------------------------------------------------------------------------- */
/* What `at` reads for n. */
static Node *in_backward(Exponents *x, Node *n, const Node *at) {
    if (n->id >= x->n || !x->reads[n->id]) return n;
    if (x->again[n->id]) return x->again[n->id];
    if (is_quotient(n) && x->over[n->in[0]->id]) return x->again[n->id] = made_again(x, n, at);
    Node **in = ARENA_ARRAY(x->scratch, Node *, n->n_in);
    for (int k = 0; k < n->n_in; k++) in[k] = in_backward(x, n->in[k], at);
    return x->again[n->id] = put(x, graph_node(x->g, n->op, n->n_in, in, n->attr, n->dtype, *n->shape), at, PHASE_BACKWARD);
}

static bool has_divided(const Exponents *x, const Node *n, const Node *divisor, int depth) {
    if (n->op == OP_BROADCAST) return same_rows(n, divisor);
    if (depth == 0 || n->id >= x->n || n->phase == PHASE_FORWARD || x->memory[n->id]) return false;
    switch (n->op) {
    case OP_DIV: return n->in[1] == divisor;
    case OP_ADD:
    case OP_SUB: return has_divided(x, n->in[0], divisor, depth - 1) && has_divided(x, n->in[1], divisor, depth - 1);
    case OP_MUL: return n->in[1]->op == OP_CONST && has_divided(x, n->in[0], divisor, depth - 1);
    case OP_NEG: return has_divided(x, n->in[0], divisor, depth - 1);
    default: return false;
    }
}

/* n times the divisor, where has_divided(). */
static Node *undivided(Exponents *x, Node *n, const Node *divisor, const Node *at) {
    if (n->op == OP_DIV) return n->in[0];
    if (n->op == OP_BROADCAST) {
        Node *row = binary(x, OP_MUL, n->in[0], divisor->in[0], at, PHASE_BACKWARD);
        return put(x, graph_broadcast(x->g, row, *n->shape, n->attr->axes), at, PHASE_BACKWARD);
    }
    Node *first = undivided(x, n->in[0], divisor, at);
    if (n->op == OP_NEG) return put(x, graph_unary(x->g, OP_NEG, first), at, PHASE_BACKWARD);
    return binary(x, n->op, first, n->op == OP_MUL ? n->in[1] : undivided(x, n->in[1], divisor, at), at, PHASE_BACKWARD);
}

/* (dP / z + c) * exp(..), either way round. */
static bool take_quotient(Exponents *x, Node *n) {
    enum { DEPTH = 6 };
    for (int k = 0; k < 2 && n->op == OP_MUL; k++) {
        Node *e = n->in[k], *by = e->op == OP_MUL && e->in[1]->op == OP_CONST ? e->in[1] : NULL; /* the logarithm of a base */
        if (by) e = e->in[0];
        Node *quotient = e->id < x->n ? x->over[e->id] : NULL;
        if (!quotient || n->in[1 - k]->op == OP_BROADCAST || !has_divided(x, n->in[1 - k], quotient->in[1], DEPTH)) continue;
        Node *in[2];
        in[1 - k] = undivided(x, n->in[1 - k], quotient->in[1], n);
        in[k] = in_backward(x, quotient, n);
        if (by) in[k] = binary(x, OP_MUL, in[k], by, n, PHASE_BACKWARD);
        n->in = arena_dup(x->g->arena, in, sizeof in);
        return true;
    }
    return false;
}

static void read_again(Exponents *x, Node *n) {
    bool other = false;
    Node **in = ARENA_ARRAY(x->scratch, Node *, n->n_in);
    for (int k = 0; k < n->n_in; k++) other |= (in[k] = in_backward(x, n->in[k], n)) != n->in[k];
    if (other) n->in = arena_dup(x->g->arena, in, sizeof *in * (size_t)n->n_in);
}

/* NULL: there is none, or nothing to do for it. */
static const Node *first_of_backward(const Graph *g) {
    bool quotient = false;
    for (int i = 0; i < g->nodes.n; i++) {
        if (g->nodes.at[i]->phase != PHASE_FORWARD) return quotient ? g->nodes.at[i] : NULL;
        quotient |= is_quotient(g->nodes.at[i]);
    }
    return NULL;
}

Graph *pass_exponents(PassContext *c, Graph *g) {
    const Node *backward = first_of_backward(g);
    const int n = g->nodes.n;
    Arena *a = c->arena;
    if (!backward) return g;
    Exponents x = {.g = g, .scratch = a, .n = n, .backward = backward, .memory = fuse_foresee(c, g, false).memory};
    x.over = ARENA_ARRAY(a, Node *, n + 1);
    x.reads = ARENA_ARRAY(a, bool, n + 1);
    x.again = ARENA_ARRAY(a, Node *, n + 1);
    x.before = ARENA_ARRAY(a, NodeList, n + 1);
    if (!find_quotients(&x)) return g;
    for (int i = 0; i < n; i++) {
        Node *node = g->nodes.at[i];
        if (node->phase == PHASE_FORWARD || node->remat) continue;
        if (!take_quotient(&x, node)) read_again(&x, node);
    }
    graph_insert(g, n, x.before);
    graph_prune(g);
    return g;
}
