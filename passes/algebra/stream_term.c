/* Terms of sums in a stream; see stream_term.h. */
#include "passes/algebra/stream_term.h"
#include "passes/algebra/affine.h"
#include <math.h>

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

/* ---- exponents --------------------------------------------------------------------------------------------------- */
/* of_shift * shift + of_x * x + a constant. */
typedef struct Exponent {
    const Node *shift, *x;
    double of_shift, of_x, constant;
} Exponent;

static bool add_to(const Node **at, double *coef, const Node *n, double by) {
    if (*at && *at != n) return false;
    *at = n;
    *coef += by;
    return true;
}

/* coef * n: what does not depend is x, or a constant. */
static bool add_linear(const bool *depends, const Node *n, int dim, double coef, Exponent *e) {
    double c;
    if (!depends[n->id] && n->op != OP_CONST) return add_to(&e->x, &e->of_x, n, coef);
    switch (n->op) {
    case OP_CONST: e->constant += coef * n->attr->value; return true;
    case OP_ADD: return add_linear(depends, n->in[0], dim, coef, e) && add_linear(depends, n->in[1], dim, coef, e);
    case OP_SUB: return add_linear(depends, n->in[0], dim, coef, e) && add_linear(depends, n->in[1], dim, -coef, e);
    case OP_NEG: return add_linear(depends, n->in[0], dim, -coef, e);
    case OP_MUL:
        for (int k = 0; k < 2; k++)
            if (is_const(n->in[k], &c)) return add_linear(depends, n->in[1 - k], dim, coef * c, e);
        return false;
    case OP_DIV: return is_const(n->in[1], &c) && c != 0 && add_linear(depends, n->in[0], dim, coef / c, e);
    case OP_BROADCAST: return is_constant_along(n, dim) && add_to(&e->shift, &e->of_shift, n, coef);
    default: return false;
    }
}

/* In f32 the numbers are the same. */
static const Node *before_widening(const Node *n) {
    while (n->op == OP_CAST && n->dtype == DT_F32 && dtype_is_float(n->in[0]->dtype)) n = n->in[0];
    return n;
}

/* The reduction that the shift is, within constant bounds perhaps; finite: so is the shift of no terms.  Where a bound below a
 * maximum is reached the shift does not go on: an exponent above 0 is one of the end, too. */
static const Node *extremum_of(const Node *shift, bool *finite) {
    const Node *n = before_widening(shift->in[0]);
    bool below = false, above = false;
    double c;
    while (n->op == OP_MAX || n->op == OP_MIN) {
        const int k = n->in[0]->op == OP_CONST ? 0 : 1;
        if (!is_const(n->in[k], &c) || isnan(c)) return NULL;
        *(n->op == OP_MAX ? &below : &above) |= isfinite(c);
        n = before_widening(n->in[1 - k]);
    }
    *finite = n->op == OP_RMAX ? below : above;
    return n->op == OP_RMAX || n->op == OP_RMIN ? n : NULL;
}

/* base^n; scale: the logarithm of the base. */
static bool add_exponent(const bool *depends, const Node *n, int dim, double scale, StreamTerm *t) {
    enum { SMALL = 16 };
    const double NONE = -104; /* the exponential of less is 0 in f32 */
    Exponent e = {0};
    double c;
    bool finite;
    if (n->op == OP_SELECT && !depends[n->in[0]->id] && is_const(n->in[2], &c) && c * scale < NONE) n = n->in[1];
    if (!add_linear(depends, n, dim, scale, &e) || !e.shift || !e.x || e.of_x != -e.of_shift || !(e.constant < SMALL)) return false;
    const Node *most = extremum_of(e.shift, &finite);
    if (!most || before_widening(most->in[0]) != before_widening(e.x) || (most->op == OP_RMAX) != (e.of_shift < 0)) return false;
    if (!add_to(&t->shift, &t->coef, e.shift, e.of_shift)) return false;
    t->finite = finite;
    return true;
}

/* ---- terms ------------------------------------------------------------------------------------------------------- */
/* In f16 what is left to the end could overflow (rule_factor_of_sum leaves it too). */
static bool add_factor(StreamTerm *t, const Node *x, bool divides) {
    if (t->n_factors == MOST_FACTORS || x->dtype == DT_F16) return false;
    for (int i = 0; i < t->n_factors; i++)
        if (t->factor[i] == x) return false; /* its place is taken once */
    t->factor[t->n_factors] = x;
    t->divides[t->n_factors++] = divides;
    return true;
}

static bool add_term(const bool *depends, const Node *x, int dim, StreamTerm *t) {
    double c;
    if (!depends[x->id]) return true;
    switch (x->op) {
    case OP_BROADCAST: return is_constant_along(x, dim) && add_factor(t, x, false);
    case OP_MUL: return add_term(depends, x->in[0], dim, t) && add_term(depends, x->in[1], dim, t);
    case OP_DIV:
        if (!add_term(depends, x->in[0], dim, t)) return false;
        return !depends[x->in[1]->id] || (is_constant_along(x->in[1], dim) && add_factor(t, x->in[1], true));
    case OP_NEG: return add_term(depends, x->in[0], dim, t);
    case OP_CAST: return dtype_is_float(x->in[0]->dtype) && add_term(depends, x->in[0], dim, t);
    case OP_EXP: return add_exponent(depends, x->in[0], dim, 1, t);
    case OP_POW: return is_const(x->in[0], &c) && c > 1 && isfinite(c) && add_exponent(depends, x->in[1], dim, log(c), t);
    case OP_SELECT:
        if (depends[x->in[0]->id]) return false;
        if (is_const(x->in[2], &c) && c == 0) return add_term(depends, x->in[1], dim, t);
        return is_const(x->in[1], &c) && c == 0 && add_term(depends, x->in[2], dim, t);
    default: return false;
    }
}

bool stream_term(const bool *depends, const Node *x, int dim, StreamTerm *t) {
    *t = (StreamTerm){0};
    if (!add_term(depends, x, dim, t)) return false;
    for (int i = 0; i < t->n_factors; i++)
        if (t->factor[i] == t->shift) return false;
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
