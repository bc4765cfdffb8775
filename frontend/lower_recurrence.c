/* Carries of a scan that are linear in themselves, h[t] = c[t] h[t-1] + d[t], element by element: their values of all
 * rounds are one prefix (SCAN_LINEAR) of c and d, which depend on no carry, or on those that are known already.
 *
 * The rounds have been lowered, each with a mark in place of every carry.  What a round makes of it is split into the
 * factor of its mark and the rest; sum, difference, product with and quotient by what does not depend on it, and a
 * choice, keep it linear.  Where all carries of a scan are such, what is emitted is made again from the prefixes, and
 * nothing reads the rounds' own chain any more.  What is computed in 16 bits is rounded at every step, which a prefix
 * is not: it stays. */
#include "frontend/lower.h"
#include <limits.h>

enum { LEAST_ROUNDS = 8 }; /* fewer are a few operations, which one kernel computes */

/* On the mark of the carry at hand; OTHER: in another way, or on one that is not known. */
typedef enum { APART, LINEAR, OTHER } Dependence;

/* What a node is of the carry at hand. */
typedef struct Split {
    Dependence is;
    int round;           /* LINEAR: of whose mark */
    Node *factor, *rest; /* NULL: 1, 0 */
} Split;

struct Recurrence {
    Lower *L;
    const Scan *scan;
    int n, rounds, axis; /* n: of the header, where a carry is by its place */
    Node *const *first;  /* by place in the header: what it begins as, or the sequence */
    Node **mark, **next; /* by round * n + carry */
    Node **prefix;       /* by carry: its values of all rounds, along the axis; NULL: not known */
    int begin, end;      /* ids of the rounds' nodes */
    int *marks;          /* by id - begin: 1 + round * n + carry of a mark, 0 */
    int *values;         /* of what a round makes of a carry; the same */
    bool *depends;       /* by id - begin: on some mark */
    Node **made;         /* by id - begin: it in terms of the prefixes */
    Split *split;        /* by id - begin, of the carry at hand */
};

static bool is_carry(const Recurrence *r, int k) { return !r->scan->seqs.at[k].over; }

Recurrence *recurrence_new(Lower *L, const Scan *scan, Node *const *first, int64_t rounds) {
    const int n = scan->seqs.n;
    bool any = false;
    if (rounds < LEAST_ROUNDS) return NULL;
    for (int k = 0; k < n; k++) {
        if (scan->seqs.at[k].over) continue;
        if (!dtype_is_float(first[k]->dtype) || first[k]->shape->rank == MAX_RANK) return NULL;
        any = true;
    }
    if (!any) return NULL;
    Recurrence *r = arena_alloc(L->scratch, sizeof *r);
    *r = (Recurrence){.L = L, .scan = scan, .n = n, .rounds = (int)rounds, .first = first, .begin = L->g->nodes.n};
    r->mark = ARENA_ARRAY(L->scratch, Node *, n * rounds);
    r->next = ARENA_ARRAY(L->scratch, Node *, n * rounds);
    r->prefix = ARENA_ARRAY(L->scratch, Node *, n);
    return r;
}

/* A transpose that moves nothing: no rule of lowering looks through it, and canonicalize drops it. */
Node *recurrence_mark(Recurrence *r, int round, int carry, Node *value) {
    Attr attr = {.n_axes = value->shape->rank};
    for (int d = 0; d < attr.n_axes; d++) attr.axes[d] = (int8_t)d;
    Node *mark = t_new_node(r->L, OP_TRANSPOSE, 1, &value, &attr, value->dtype, *value->shape);
    return r->mark[round * r->n + carry] = mark;
}

void recurrence_next(Recurrence *r, int round, int carry, Node *value) { r->next[round * r->n + carry] = value; }

/* ---- the rounds' nodes ------------------------------------------------------------------------------------------- */
static bool is_inside(const Recurrence *r, const Node *n) { return n->id >= r->begin && n->id < r->end; }

static void look_through(Recurrence *r) {
    const Graph *g = r->L->g;
    r->end = g->nodes.n;
    const int n = r->end - r->begin + 1;
    r->marks = ARENA_ARRAY(r->L->scratch, int, n);
    r->values = ARENA_ARRAY(r->L->scratch, int, n);
    r->depends = ARENA_ARRAY(r->L->scratch, bool, n);
    r->made = ARENA_ARRAY(r->L->scratch, Node *, n);
    r->split = ARENA_ARRAY(r->L->scratch, Split, n);
    for (int i = r->rounds * r->n - 1; i >= 0; i--) {
        if (!is_carry(r, i % r->n)) continue;
        r->marks[r->mark[i]->id - r->begin] = 1 + i;
        if (is_inside(r, r->next[i])) r->values[r->next[i]->id - r->begin] = 1 + i;
    }
    for (int i = r->begin; i < r->end; i++) {
        const Node *x = g->nodes.at[i];
        bool *depends = &r->depends[i - r->begin];
        *depends = r->marks[i - r->begin] > 0;
        for (int k = 0; k < x->n_in; k++) *depends |= is_inside(r, x->in[k]) && r->depends[x->in[k]->id - r->begin];
    }
}

/* ---- in terms of prefixes ---------------------------------------------------------------------------------------- */
/* The axis of the rounds: that of the first sequence, or behind all that the carry has. */
static int axis_of(const Recurrence *r, const Node *first) {
    return first->shape->rank < r->axis ? first->shape->rank : r->axis;
}

static Node *value_after(Recurrence *r, int carry, int round) {
    Node *const first = r->first[carry];
    return round < 0 ? first : place_along(r->L, r->prefix[carry], axis_of(r, first), round);
}

/* The value of node i where it is a carry's that is known, else NULL. */
static Node *known_value(Recurrence *r, int i) {
    const int mark = r->marks[i] - 1, value = r->values[i] - 1;
    if (mark >= 0 && r->prefix[mark % r->n]) return value_after(r, mark % r->n, mark / r->n - 1);
    if (value >= 0 && r->prefix[value % r->n]) return value_after(r, value % r->n, value / r->n);
    return NULL;
}

static Node *remade(const Recurrence *r, Node *n) {
    return is_inside(r, n) && r->depends[n->id - r->begin] ? r->made[n->id - r->begin] : n;
}

static void remake(Recurrence *r, Node *n) {
    Node **in = ARENA_ARRAY(r->L->scratch, Node *, n->n_in);
    for (int k = 0; k < n->n_in; k++) in[k] = remade(r, n->in[k]);
    Node *x = graph_node(r->L->g, n->op, n->n_in, in, n->attr, n->dtype, *n->shape);
    x->loc = n->loc;
    x->phase = n->phase;
    x->precision = n->precision;
    r->made[n->id - r->begin] = x;
}

/* Makes all that the wanted nodes are computed from; wanted: by id - begin. */
static void make_wanted(Recurrence *r, bool *wanted) {
    Node *const *at = r->L->g->nodes.at + r->begin;
    const int n = r->end - r->begin;
    for (int i = n - 1; i >= 0; i--) {
        wanted[i] &= r->depends[i] && !r->made[i];
        if (!wanted[i] || (r->made[i] = known_value(r, i)) != NULL) continue;
        for (int k = 0; k < at[i]->n_in; k++)
            if (is_inside(r, at[i]->in[k])) wanted[at[i]->in[k]->id - r->begin] = true;
    }
    for (int i = 0; i < n; i++) {
        Node *x = r->L->g->nodes.at[r->begin + i];
        if (wanted[i] && !r->made[i]) remake(r, x);
    }
}

/* ---- c and d ----------------------------------------------------------------------------------------------------- */
static Node *one_of(Recurrence *r, Node *like, double v) { return t_const(r->L, like->dtype, *like->shape, v); }

static const Split *split_of(const Recurrence *r, const Node *n) {
    static const Split apart;
    return is_inside(r, n) ? &r->split[n->id - r->begin] : &apart;
}

/* a + b, or a - b; at least one is linear, and both of one mark. */
static void split_sum(Recurrence *r, const Node *n, Split *s) {
    Node *factor[2], *rest[2];
    for (int k = 0; k < 2; k++) {
        const Split *x = split_of(r, n->in[k]);
        factor[k] = x->is == APART ? NULL : x->factor ? x->factor : one_of(r, n->in[k], 1);
        rest[k] = x->is == APART ? remade(r, n->in[k]) : x->rest;
        if (k == 1 && n->op == OP_SUB && factor[k]) factor[k] = t_unary(r->L, OP_NEG, factor[k]);
        if (k == 1 && n->op == OP_SUB && rest[k] && !rest[0]) rest[k] = t_unary(r->L, OP_NEG, rest[k]);
    }
    s->factor = factor[0] && factor[1] ? t_binary(r->L, OP_ADD, factor[0], factor[1])
                : factor[0]            ? factor[0]
                                       : factor[1];
    s->rest = rest[0] && rest[1] ? t_binary(r->L, n->op, rest[0], rest[1]) : rest[0] ? rest[0] : rest[1];
}

/* where(p, a, b), p apart. */
static void split_choice(Recurrence *r, const Node *n, Split *s) {
    Node *factor[2], *rest[2], *p = remade(r, n->in[0]);
    for (int k = 0; k < 2; k++) {
        const Split *x = split_of(r, n->in[1 + k]);
        factor[k] = x->is == LINEAR && x->factor ? x->factor : one_of(r, n->in[1 + k], x->is == LINEAR);
        rest[k] = x->is == APART ? remade(r, n->in[1 + k]) : x->rest ? x->rest : one_of(r, n->in[1 + k], 0);
    }
    s->factor = t_select(r->L, p, factor[0], factor[1]);
    s->rest = t_select(r->L, p, rest[0], rest[1]);
}

static void split_linear(Recurrence *r, const Node *n, Split *s) {
    const Split *a = split_of(r, n->in[0]), *b = n->n_in > 1 ? split_of(r, n->in[1]) : NULL;
    switch (n->op) {
    case OP_ADD:
    case OP_SUB: split_sum(r, n, s); break;
    case OP_NEG:
        s->factor = a->factor ? t_unary(r->L, OP_NEG, a->factor) : one_of(r, n->in[0], -1);
        s->rest = a->rest ? t_unary(r->L, OP_NEG, a->rest) : NULL;
        break;
    case OP_MUL: {
        const Split *x = a->is == LINEAR ? a : b;
        Node *by = remade(r, n->in[a->is == LINEAR]);
        s->factor = x->factor ? t_binary(r->L, OP_MUL, x->factor, by) : by;
        s->rest = x->rest ? t_binary(r->L, OP_MUL, x->rest, by) : NULL;
        break;
    }
    case OP_DIV: {
        Node *by = remade(r, n->in[1]);
        s->factor = t_binary(r->L, OP_DIV, a->factor ? a->factor : one_of(r, n->in[0], 1), by);
        s->rest = a->rest ? t_binary(r->L, OP_DIV, a->rest, by) : NULL;
        break;
    }
    case OP_SELECT: split_choice(r, n, s); break;
    default: /* a reshape */
        s->factor = a->factor ? t_reshape(r->L, a->factor, *n->shape) : NULL;
        s->rest = a->rest ? t_reshape(r->L, a->rest, *n->shape) : NULL;
        break;
    }
}

/* How n depends on the mark, by how its operands do. */
static Dependence dependence_of(const Recurrence *r, const Node *n, int *round) {
    bool linear[3] = {0};
    int n_linear = 0;
    for (int k = 0; k < n->n_in; k++) {
        const Split *x = split_of(r, n->in[k]);
        if (x->is == OTHER) return OTHER;
        if (x->is == APART) continue;
        if (k >= 3 || (n_linear && x->round != *round)) return OTHER;
        linear[k] = true, n_linear++, *round = x->round;
    }
    if (!n_linear) return APART;
    if (n->precision == PRECISION_BF16 || n->precision == PRECISION_F16) return OTHER;
    switch (n->op) {
    case OP_ADD:
    case OP_SUB:
    case OP_NEG:
    case OP_RESHAPE: return LINEAR;
    case OP_MUL: return n_linear == 1 ? LINEAR : OTHER;
    case OP_DIV: return linear[1] ? OTHER : LINEAR;
    case OP_SELECT: return linear[0] ? OTHER : LINEAR;
    default: return OTHER;
    }
}

static void classify(Recurrence *r, int carry) {
    for (int i = 0; i < r->end - r->begin; i++) {
        const int mark = r->marks[i] - 1, value = r->values[i] - 1;
        Split *s = &r->split[i];
        *s = (Split){.is = APART};
        if (!r->depends[i]) continue;
        if (mark >= 0 && mark % r->n == carry)
            s->is = LINEAR, s->round = mark / r->n;
        else if (mark >= 0)
            s->is = r->prefix[mark % r->n] ? APART : OTHER;
        else if (value < 0 || !r->prefix[value % r->n])
            s->is = dependence_of(r, r->L->g->nodes.at[r->begin + i], &s->round);
    }
}

/* Is what each round makes of the carry linear in its mark, or apart? */
static bool is_linear(const Recurrence *r, int carry) {
    for (int t = 0; t < r->rounds; t++) {
        const Split *s = split_of(r, r->next[t * r->n + carry]);
        if (s->is == OTHER || (s->is == LINEAR && s->round != t)) return false;
    }
    return true;
}

/* Splits what the rounds make of the carry, and what that is made of. */
static void split_carry(Recurrence *r, int carry) {
    const int n = r->end - r->begin;
    bool *path = ARENA_ARRAY(r->L->scratch, bool, n + 1), *wanted = ARENA_ARRAY(r->L->scratch, bool, n + 1);
    for (int t = 0; t < r->rounds; t++)
        if (is_inside(r, r->next[t * r->n + carry])) path[r->next[t * r->n + carry]->id - r->begin] = true;
    for (int i = n - 1; i >= 0; i--) {
        const Node *x = r->L->g->nodes.at[r->begin + i];
        wanted[i] |= path[i] && r->split[i].is == APART;
        for (int k = 0; k < x->n_in && path[i] && r->split[i].is == LINEAR && !r->marks[i]; k++)
            if (is_inside(r, x->in[k])) path[x->in[k]->id - r->begin] = true;
    }
    make_wanted(r, wanted);
    for (int i = 0; i < n; i++)
        if (path[i] && r->split[i].is == LINEAR && !r->marks[i])
            split_linear(r, r->L->g->nodes.at[r->begin + i], &r->split[i]);
}

/* ---- the prefix -------------------------------------------------------------------------------------------------- */
/* A value of each round, along the axis; NULL: the number v. */
static Node *along_axis(Recurrence *r, Node **at, const Node *like, double v) {
    for (int t = 0; t < r->rounds; t++)
        if (!at[t]) at[t] = t_const(r->L, like->dtype, *like->shape, v);
    return t_stack(r->L, r->rounds, at, axis_of(r, like));
}

/* The first round's d with c times what the carry begins as; 0 forgets that, as in the prefix. */
static Node *begun_with(Recurrence *r, Node *first, Node *factor, Node *rest) {
    if (is_number(r->L, first) && first->attr->value == 0) return rest;
    Node *x = first, *zero = one_of(r, first, 0);
    if (factor) x = t_select(r->L, t_binary(r->L, OP_EQ, factor, zero), zero, t_binary(r->L, OP_MUL, factor, first));
    return rest ? t_binary(r->L, OP_ADD, x, rest) : x;
}

static void find_prefix(Recurrence *r, int carry) {
    Node **c = ARENA_ARRAY(r->L->scratch, Node *, r->rounds), **d = ARENA_ARRAY(r->L->scratch, Node *, r->rounds);
    Node *const first = r->first[carry];
    bool ones = true, zeros = true;
    for (int t = 0; t < r->rounds; t++) {
        Node *next = r->next[t * r->n + carry];
        const Split *s = split_of(r, next);
        const bool linear = s->is == LINEAR;
        c[t] = linear ? s->factor : one_of(r, first, 0);
        d[t] = linear ? s->rest : remade(r, next);
        ones &= !c[t], zeros &= !linear;
        if (t == 0 && linear) d[t] = begun_with(r, first, c[t], d[t]);
    }
    Node *rest = along_axis(r, d, first, 0);
    const Attr attr = {.axis = axis_of(r, first), .scan = ones ? SCAN_SUM : SCAN_LINEAR};
    Node *const in[2] = {rest, ones || zeros ? NULL : along_axis(r, c, first, 1)};
    r->prefix[carry] = zeros ? rest : t_node(r->L, OP_SCAN, 1 + !ones, in, &attr, rest->dtype, *rest->shape);
}

static bool solve(Recurrence *r) {
    for (bool all = false, more = true; more && !all;) {
        all = true, more = false;
        for (int k = 0; k < r->n; k++) {
            if (!is_carry(r, k) || r->prefix[k]) continue;
            classify(r, k);
            if (is_linear(r, k)) {
                split_carry(r, k);
                find_prefix(r, k);
                more = true;
            } else {
                all = false;
            }
        }
        if (all) return true;
    }
    return false;
}

/* Is a derivative taken of what depends on a carry?  What it is taken by would be gone from a prefix. */
static bool has_derivative(const Recurrence *r) {
    for (int i = r->begin; i < r->end; i++) {
        const Op op = r->L->g->nodes.at[i]->op;
        if (r->depends[i - r->begin] && (op == OP_GRADIENT || op == OP_VJP || op == OP_JACOBIAN)) return true;
    }
    return false;
}

/* The values of all rounds are in memory: not where the rounds go over little and leave little, of a large carry. */
static bool fits(const Recurrence *r, const Emission *e) {
    enum { SMALL = 1 << 20, MOST_TIMES = 64 }; /* elements; how many for each that is gone over or emitted: a state of a channel */
    double prefixes = 0, others = 0;
    for (int k = 0; k < r->n; k++) {
        const double elements = (double)shape_elements(*r->first[k]->shape);
        if (is_carry(r, k)) prefixes += r->rounds * elements;
        else others += elements;
    }
    for (int v = 0; v < e->s->names.n; v++) others += (double)e->out[v].n * (double)shape_elements(*e->out[v].at[0]->shape);
    return prefixes <= (double)MAX_ELEMENTS && (prefixes <= SMALL || prefixes <= MOST_TIMES * others);
}

static void want(const Recurrence *r, bool *wanted, const Node *n) {
    if (is_inside(r, n)) wanted[n->id - r->begin] = true;
}

/* Makes what is emitted, and the last values, from the prefixes: a last value is the node that what is emitted reads, since
 * a derivative may be taken by it. */
static void use_prefixes(Recurrence *r, Emission *e, Node **carry) {
    bool *wanted = ARENA_ARRAY(r->L->scratch, bool, r->end - r->begin + 1);
    Node **last = r->next + (r->rounds - 1) * r->n;
    for (int v = 0; v < e->s->names.n; v++)
        for (int t = 0; t < e->out[v].n; t++) want(r, wanted, e->out[v].at[t]);
    for (int k = 0; k < r->n; k++)
        if (is_carry(r, k)) want(r, wanted, last[k]);
    make_wanted(r, wanted);
    for (int v = 0; v < e->s->names.n; v++)
        for (int t = 0; t < e->out[v].n; t++) e->out[v].at[t] = remade(r, e->out[v].at[t]);
    for (int k = 0; k < r->n; k++)
        if (is_carry(r, k)) carry[k] = remade(r, last[k]);
}

/* The nodes that this makes are none of the program's, which are limited. */
void recurrence_solve(Recurrence *r, int axis, Emission *e, Node **carry) {
    Lower *L = r->L;
    const Precision around = L->precision;
    const int limit = L->most_nodes;
    r->axis = axis;
    look_through(r);
    if (!fits(r, e) || has_derivative(r)) return;
    L->precision = PRECISION_F32;
    L->most_nodes = INT_MAX;
    if (solve(r)) use_prefixes(r, e, carry);
    L->most_nodes = limit + L->g->nodes.n - r->end;
    L->precision = around;
}
