/* Terms of sums in a stream; see stream_term.h. */
#include "passes/algebra/stream_term.h"
#include "passes/algebra/affine.h"
#include <math.h>

/* ---- terms ----------------------------------------------------------------------------------------------------- */
static bool is_const(const Node *n, double *value) {
    *value = n->attr->value;
    return n->op == OP_CONST;
}

/* The same for all of the dim. */
static bool is_constant_along(const Node *n, int dim) {
    bool along = n->op != OP_BROADCAST;
    for (int d = 0; d < n->attr->n_axes && !along; d++) along = n->attr->axes[d] == dim;
    return !along;
}

static bool add_shift(StreamTerm *t, const Node *x, double coef) {
    for (int i = 0; i < t->n_shifts; i++)
        if (t->shift[i] == x) {
            t->coef[i] += coef;
            return true;
        }
    if (t->n_shifts == MOST_SHIFTS) return false;
    t->shift[t->n_shifts] = x;
    t->coef[t->n_shifts++] = coef;
    return true;
}

/* coef * x in the exponent. */
static bool exponent(const bool *depends, const Node *x, int dim, double coef, StreamTerm *t) {
    double c;
    if (!depends[x->id]) return true;
    switch (x->op) {
    case OP_BROADCAST: return is_constant_along(x, dim) && add_shift(t, x, coef);
    case OP_ADD: return exponent(depends, x->in[0], dim, coef, t) && exponent(depends, x->in[1], dim, coef, t);
    case OP_SUB: return exponent(depends, x->in[0], dim, coef, t) && exponent(depends, x->in[1], dim, -coef, t);
    case OP_NEG: return exponent(depends, x->in[0], dim, -coef, t);
    case OP_MUL:
        if (is_const(x->in[1], &c)) return exponent(depends, x->in[0], dim, coef * c, t);
        return is_const(x->in[0], &c) && exponent(depends, x->in[1], dim, coef * c, t);
    case OP_DIV: return is_const(x->in[1], &c) && c != 0 && exponent(depends, x->in[0], dim, coef / c, t);
    case OP_SELECT: /* elsewhere so little that its exponential is 0 */
        return !depends[x->in[0]->id] && is_const(x->in[2], &c) && exp(coef * c) < 1e-46 &&
               exponent(depends, x->in[1], dim, coef, t);
    default: return false;
    }
}

static bool add_factor(StreamTerm *t, const Node *x, bool divides) {
    if (t->n_factors == MOST_FACTORS) return false;
    t->factor[t->n_factors] = x;
    t->divides[t->n_factors++] = divides;
    return true;
}

static bool term(const bool *depends, const Node *x, int dim, StreamTerm *t) {
    double c;
    if (!depends[x->id]) return true;
    switch (x->op) {
    case OP_BROADCAST: return is_constant_along(x, dim) && add_factor(t, x, false);
    case OP_MUL: return term(depends, x->in[0], dim, t) && term(depends, x->in[1], dim, t);
    case OP_DIV:
        if (!term(depends, x->in[0], dim, t)) return false;
        return !depends[x->in[1]->id] || (is_constant_along(x->in[1], dim) && add_factor(t, x->in[1], true));
    case OP_NEG: return term(depends, x->in[0], dim, t);
    case OP_CAST: return dtype_is_float(x->in[0]->dtype) && term(depends, x->in[0], dim, t);
    case OP_EXP: return exponent(depends, x->in[0], dim, 1, t);
    case OP_SELECT:
        if (depends[x->in[0]->id]) return false;
        if (is_const(x->in[2], &c) && c == 0) return term(depends, x->in[1], dim, t);
        return is_const(x->in[1], &c) && c == 0 && term(depends, x->in[2], dim, t);
    default: return false;
    }
}

bool stream_term(const bool *depends, const Node *x, int dim, StreamTerm *t) {
    *t = (StreamTerm){0};
    if (!term(depends, x, dim, t)) return false;
    for (int i = 0; i < t->n_shifts; i++)
        for (int k = 0; k < t->n_factors; k++)
            if (t->shift[i] == t->factor[k]) return false;
    for (int i = 0; i < t->n_factors; i++)
        for (int k = 0; k < i; k++)
            if (t->factor[i] == t->factor[k]) return false;
    return true;
}

bool stream_sums_over(const Node *n, int k, int *dim) {
    const Contract *c = n->attr->contract;
    unsigned seen = 0;
    *dim = n->op == OP_CONTRACT ? -1 : n->attr->axes[n->attr->n_axes - 1];
    for (int d = 0; d < n->in[k]->shape->rank && n->op == OP_CONTRACT; d++) {
        const int loop = affine_single_loop(c, &c->map[k][d]);
        if (loop < 0 || seen >> loop & 1 || !dim_equal(c->extent[loop], n->in[k]->shape->dim[d])) return false;
        seen |= 1u << loop;
        if (loop >= c->n_out) *dim = d;
    }
    return *dim >= 0;
}
