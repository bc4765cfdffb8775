#include "tests/support/settled.h"
#include "tests/support/noise.h"
#include <math.h>
#include <string.h>

/* ---- what is rounded ------------------------------------------------------------------------------------------- */
static bool in_f32(double x) { return x == scalar_round(DT_F32, x); }

/* Few bits: sums and products of such values are exact in f32, whatever the order. */
static bool is_coarse(const Tensor *t) {
    for (int64_t i = 0; i < tensor_elements(t); i++) {
        const double scaled = t->data[i] * 256;
        if (scaled != nearbyint(scaled) || fabs(scaled) > 0x1p20) return false;
    }
    return true;
}

static bool is_function(Op op) {
    return op == OP_POW || (op >= OP_EXP && op <= OP_ERF && op != OP_SQRT && op != OP_RSQRT);
}

/* The function's value there is exact by C99 Annex F. */
static bool has_exact_value(Op op, const double *x) {
    switch (op) {
    case OP_EXP:
    case OP_LOG1P:
    case OP_SIN:
    case OP_COS:
    case OP_TANH:
    case OP_ERF: return x[0] == 0;
    case OP_LOG: return x[0] == 1;
    case OP_POW: return x[0] == 1 || x[1] == 0;
    default: return false;
    }
}

/* Is element e rounded, its operands being exact?  In a low dtype what is exact in f32 has one nearest value. */
static bool rounds_element(const Node *n, const Tensor *values, int64_t e) {
    double x[4] = {0};
    for (int k = 0; k < n->n_in && k < 4; k++) x[k] = values[n->in[k]->id].data[e];
    if (is_function(n->op)) return !has_exact_value(n->op, x);
    const double v = scalar_op(n->op, n->dtype, x);
    if (v == x[0] || (n->n_in > 1 && v == x[1])) return false; /* x + 0, x * 1, x mod what is greater */
    if (n->op == OP_MOD && !in_f32(floor(x[0] / x[1]) * x[1])) return true;
    if (n->op == OP_RSQRT && !in_f32(sqrt(x[0]))) return true;
    return !in_f32(v);
}

/* Element e's place along an axis. */
static int64_t place_along(const Tensor *t, int axis, int64_t e) {
    for (int d = t->rank - 1; d > axis; d--) e /= t->dim[d];
    return e % t->dim[axis];
}

/* How many terms, at most, element e is the sum or product of. */
static double terms_of(const Node *n, const Tensor *values, int64_t e) {
    const Tensor *out = &values[n->id];
    double terms = 1;
    if (n->op == OP_SCAN) {
        const int64_t place = place_along(out, n->attr->axis, e);
        return (double)((n->attr->reverse ? out->dim[n->attr->axis] - 1 - place : place) + !n->attr->exclusive);
    }
    if (n->op == OP_SCATTER_ADD) return (double)tensor_elements(&values[n->in[1]->id]);
    if (n->op != OP_CONTRACT) return (double)tensor_elements(&values[n->in[0]->id]) / (double)tensor_elements(out);
    for (int l = n->attr->contract->n_out; l < n->attr->contract->n_loops; l++)
        terms *= (double)n->attr->contract->extent[l].bound;
    return terms;
}

/* Of a sum or product of terms: one rounding shows in the result; of several, few bits alone say there are none. */
static bool rounds_terms(const Node *n, const Tensor *values, int64_t e, bool coarse) {
    const double terms = terms_of(n, values, e), factors = n->op == OP_CONTRACT || n->op == OP_SCAN ? n->n_in : 1;
    const double roundings = terms * factors - 1;
    return roundings > 1 ? !coarse : roundings == 1 && !in_f32(values[n->id].data[e]);
}

static bool all_coarse(const Node *n, const Tensor *values) {
    bool coarse = is_coarse(&values[n->id]);
    for (int k = 0; coarse && k < n->n_in; k++) coarse = is_coarse(&values[n->in[k]->id]);
    return coarse;
}

static bool may_round(const Node *n) {
    const bool whole = n->op == OP_FLOOR || n->op == OP_CEIL || n->op == OP_SIGN;
    return dtype_is_float(n->dtype) && !takes_operand(n->op) && !whole;
}

/* ---- everything that is rounded is off -------------------------------------------------------------------------- */
/* Above half a unit in the last place, below four; of equal values the same, so that they stay equal, and so is that of
 * their negatives. */
static double rounding_of(DType t, double x) {
    const double size = fabs(x);
    uint64_t bits;
    memcpy(&bits, &size, sizeof bits);
    if (!isfinite(x)) return 0;
    TestRandom r = {bits * 0x9E3779B97F4A7C15u + 1};
    test_random(&r);
    return 4 * rounding_unit(t) * test_uniform(&r, 0.5, 1) * x;
}

static void add_rounding(const Noisy *y, const Tensor *values) {
    for (int i = 0; i < y->of->nodes.n; i++) {
        const Node *n = y->of->nodes.at[i];
        double *noise = noise_at(y, n);
        if (!noise) continue;
        const bool element = op_info[n->op].cls == CLASS_ELEMENT, coarse = !element && all_coarse(n, values);
        for (int64_t e = 0; e < tensor_elements(&values[i]); e++)
            if (element ? rounds_element(n, values, e) : rounds_terms(n, values, e, coarse))
                noise[e] = rounding_of(n->dtype, values[i].data[e]);
    }
}

static bool is_same(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

/* Is an operand of element e off?  Of sums and products of terms, any element of it. */
static bool reads_off(const Node *n, const Tensor *values, const Tensor *off, int64_t e) {
    const bool element = op_info[n->op].cls == CLASS_ELEMENT;
    for (int k = 0; k < n->n_in; k++) {
        const Tensor *x = &values[n->in[k]->id], *y = &off[n->in[k]->id];
        for (int64_t i = element ? e : 0; i < (element ? e + 1 : tensor_elements(x)); i++)
            if (!is_same(x->data[i], y->data[i])) return true;
    }
    return false;
}

/* Rounding to a low dtype hides what its operands are off by, which may as well have taken it to a neighbour. */
static bool add_hidden(const Noisy *y, const Tensor *values, const Tensor *off) {
    bool added = false;
    for (int i = 0; i < y->of->nodes.n; i++) {
        const Node *n = y->of->nodes.at[i];
        double *noise = noise_at(y, n);
        if (!noise || !dtype_is_low(n->dtype)) continue;
        for (int64_t e = 0; e < tensor_elements(&values[i]); e++) {
            if (noise[e] != 0 || !reads_off(n, values, off, e)) continue;
            noise[e] = rounding_of(n->dtype, values[i].data[e]);
            added |= noise[e] != 0;
        }
    }
    return added;
}

/* By id: the values when everything that is rounded is off.  What is exact stays.  It fails where graph_eval did. */
static const Tensor *off_values(Arena *a, const Graph *g, const EvalEnv *env, const Tensor *values) {
    const char *error;
    const Noisy *y = noisy_graph(a, g, env, values, may_round);
    add_rounding(y, values);
    const Tensor *off = noisy_eval(y, &error);
    while (add_hidden(y, values, off)) off = noisy_eval(y, &error);
    return off;
}

/* ---- jumps ------------------------------------------------------------------------------------------------------- */
static const double NEAR = 2e-5,
                    NEAR_QUOTIENT = 0x1p-22; /* rounded operands; exact ones, of which the quotient rounds */

/* The place of a jump's operands against the edge that is nearest: how far from it, and how large they are there. */
typedef struct Place {
    double off, size;
} Place;

static Place from_whole(double x) { return (Place){x - nearbyint(x), fabs(x)}; }

static Place place_at(const Node *n, const double *x) {
    switch (n->op) {
    case OP_FLOOR:
    case OP_CEIL: return from_whole(x[0]);
    case OP_SIGN: return (Place){x[0], 0};
    case OP_CAST: return n->dtype == DT_I32 ? from_whole(x[0]) : (Place){x[0], 0};
    case OP_MOD: return x[1] != 0 ? from_whole(x[0] / x[1]) : (Place){1, 0};
    default: return (Place){x[0] - x[1], fabs(x[1])};
    }
}

static bool is_jump(const Node *n) {
    if (n->n_in == 0 || !dtype_is_float(n->in[0]->dtype)) return false;
    if (n->op == OP_CAST) return !dtype_is_float(n->dtype);
    return n->op == OP_FLOOR || n->op == OP_CEIL || n->op == OP_SIGN || n->op == OP_MOD || n->op == OP_BITS ||
           (n->op >= OP_EQ && n->op <= OP_GE);
}

/* Values of a jump's operands, x, and what they are when what is rounded is off. */
static bool is_unsettled_at(const Node *n, const double *x, const double *off) {
    if (n->op == OP_BITS) return !is_same(x[0], off[0]);
    const Place p = place_at(n, x), q = place_at(n, off);
    const bool exact = is_same(x[0], off[0]) && is_same(x[1], off[1]);
    if (p.off == 0) return q.off != 0;
    if (exact && n->op != OP_MOD) return false;
    return fabs(p.off) < (exact ? NEAR_QUOTIENT : NEAR) * (1 + p.size);
}

/* Two elements that might change places. */
static bool is_unsettled_order(const Tensor *t, const Tensor *off) {
    const int64_t n = tensor_elements(t);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            const double x = t->data[i], y = t->data[j];
            const bool exact = x == off->data[i] && y == off->data[j];
            if (x == y ? off->data[i] != off->data[j] : !exact && fabs(x - y) < NEAR * (1 + fabs(x))) return true;
        }
    return false;
}

static bool is_unsettled(const Node *n, const Tensor *values, const Tensor *off) {
    const int first = n->in[0]->id, last = n->in[n->n_in - 1]->id;
    if ((n->op == OP_ARGMAX || n->op == OP_SCATTER_ARGMAX) && dtype_is_float(n->in[0]->dtype)) return is_unsettled_order(&values[first], &off[first]);
    if (!is_jump(n)) return false;
    for (int64_t e = 0; e < tensor_elements(&values[first]); e++) {
        const double x[] = {values[first].data[e], values[last].data[e]}, y[] = {off[first].data[e], off[last].data[e]};
        if (is_unsettled_at(n, x, y)) return true;
    }
    return false;
}

int find_unsettled(Arena *a, const Graph *g, const EvalEnv *env, const Tensor *values, bool *skip) {
    bool *unsettled = ARENA_ARRAY(a, bool, g->nodes.n);
    int count = 0;
    const Tensor *off = off_values(a, g, env, values);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        for (int k = 0; k < n->n_in; k++) unsettled[i] |= unsettled[n->in[k]->id];
        if (n->n_in && !unsettled[i]) unsettled[i] = is_unsettled(n, values, off);
    }
    for (int i = 0; i < g->results.n; i++) count += skip[i] = unsettled[g->results.at[i].value->id];
    return count;
}
