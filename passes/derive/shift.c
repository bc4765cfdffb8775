/* Shifts that cancel.  With t added to an element of m, each value that is computed of it is v * exp(times * t) + plus * t: the shift itself
 * has plus = 1, exp() turns plus into times, log() back; products add up what they have of `times`, sums need the same of all terms.
 * Where both are 0 the shift is gone. */
#include "passes/derive/shift.h"
#include "passes/algebra/affine.h"
#include <math.h>
#include <string.h>

enum { MOST_NODES = 64 }; /* that depend on one shift */

/* dim: of the shift, by its dim: that of the value, along which each element has the shift at its own place; -1: one element. */
typedef struct Degree {
    double times, plus;
    int8_t dim[MAX_RANK];
} Degree;

struct Shifts {
    const Graph *g;
    Uses uses;
    Degree *degree; /* by id */
    int *stamp, now;
    const Node *m;
    int pending[MOST_NODES], n;
};

Shifts *shifts_new(Arena *a, const Graph *g) {
    Shifts *s = ARENA_NEW(a, Shifts);
    *s = (Shifts){.g = g, .uses = graph_uses(a, g)};
    s->degree = ARENA_ARRAY(a, Degree, g->nodes.n + 1);
    s->stamp = ARENA_ARRAY(a, int, g->nodes.n + 1);
    return s;
}

/* Constants are rounded: what is left of two that cancel is nothing. */
static double sum_of(double a, double b) {
    const double sum = a + b;
    return fabs(sum) <= 1e-9 * fmax(fabs(a), fabs(b)) ? 0 : sum;
}

/* By a constant, which takes nothing to 0. */
static bool scale(double *x, double by) {
    const bool was = *x != 0;
    *x *= by;
    return isfinite(*x) && was == (*x != 0);
}

static bool is_affected(const Shifts *s, const Node *n) { return s->stamp[n->id] == s->now; }
static const Degree *degree_of(const Shifts *s, const Node *n) { return &s->degree[n->id]; }

/* ---- places ------------------------------------------------------------------------------------------------------- */
static bool same_places(const Shifts *s, const Degree *a, const Degree *b) { return memcmp(a->dim, b->dim, (size_t)s->m->shape->rank) == 0; }

/* Each dim goes where `to` says; false: a dim along which the shift differs goes nowhere. */
static bool move_dims(const Shifts *s, Degree *d, const int *to) {
    for (int i = 0; i < s->m->shape->rank; i++) {
        if (d->dim[i] < 0) continue;
        d->dim[i] = (int8_t)to[d->dim[i]];
        if (d->dim[i] < 0) return false;
    }
    return true;
}

static bool is_unit(Dim d) { return dim_is_fixed(d) && d.bound == 1; }

/* Dims of one element come and go. */
static bool moved_by_reshape(const Node *n, int *to) {
    const Shape *from = n->in[0]->shape, *shape = n->shape;
    int at = 0;
    for (int d = 0; d < from->rank; d++) {
        to[d] = -1;
        if (is_unit(from->dim[d])) continue;
        while (at < shape->rank && is_unit(shape->dim[at])) at++;
        if (at == shape->rank || !dim_equal(shape->dim[at], from->dim[d])) return false;
        to[d] = at++;
    }
    while (at < shape->rank && is_unit(shape->dim[at])) at++;
    return at == shape->rank;
}

static bool moved(const Shifts *s, const Node *n, Degree *d) {
    int to[MAX_RANK], kept = 0;
    for (int i = 0; i < MAX_RANK; i++) to[i] = -1;
    switch (n->op) {
    case OP_RESHAPE:
        if (!moved_by_reshape(n, to)) return false;
        break;
    case OP_TRANSPOSE:
        for (int i = 0; i < n->shape->rank; i++) to[n->attr->axes[i]] = i;
        break;
    case OP_BROADCAST:
        for (int i = 0; i < n->in[0]->shape->rank; i++) to[i] = n->attr->axes[i];
        break;
    default: /* a reduction */
        for (int i = 0, at = 0; i < n->in[0]->shape->rank; i++) {
            const bool gone = at < n->attr->n_axes && n->attr->axes[at] == i;
            at += gone;
            to[i] = gone ? -1 : kept++;
        }
    }
    return move_dims(s, d, to);
}

/* ---- elementwise -------------------------------------------------------------------------------------------------- */
/* Zero is a multiple of anything, an infinity is one plus anything. */
static bool goes_with(const Node *constant, const Degree *d) {
    if (constant->op != OP_CONST) return false;
    return d->plus == 0 ? constant->attr->value == 0 : d->times == 0 && isinf(constant->attr->value);
}

/* Of two values either of which may be taken, or both added up. */
static bool common(const Shifts *s, const Node *a, const Node *b, Degree *d) {
    if (!is_affected(s, a) || !is_affected(s, b)) {
        const Node *one = is_affected(s, a) ? a : b;
        *d = *degree_of(s, one);
        return goes_with(one == a ? b : a, d);
    }
    const Degree *x = degree_of(s, a), *y = degree_of(s, b);
    *d = *x;
    return same_places(s, x, y) && sum_of(x->times, -y->times) == 0 && sum_of(x->plus, -y->plus) == 0;
}

static bool added(const Shifts *s, const Node *n, Degree *d) {
    const double sign = n->op == OP_SUB ? -1 : 1;
    const bool first = is_affected(s, n->in[0]), second = is_affected(s, n->in[1]);
    const Degree none = {0}, *a = first ? degree_of(s, n->in[0]) : &none, *b = second ? degree_of(s, n->in[1]) : &none;
    if (first && second && !same_places(s, a, b)) return false;
    *d = first ? *a : *b;
    if (a->times == 0 && b->times == 0) {
        d->plus = sum_of(a->plus, sign * b->plus);
        return true;
    }
    return common(s, n->in[0], n->in[1], d);
}

static bool multiplied(const Shifts *s, const Node *n, Degree *d) {
    const double sign = n->op == OP_DIV ? -1 : 1;
    const bool first = is_affected(s, n->in[0]), second = is_affected(s, n->in[1]);
    const Degree none = {0}, *a = first ? degree_of(s, n->in[0]) : &none, *b = second ? degree_of(s, n->in[1]) : &none;
    const Node *other = first ? n->in[1] : n->in[0];
    if (first && second && !same_places(s, a, b)) return false;
    *d = first ? *a : *b;
    if (a->plus == 0 && b->plus == 0) {
        d->times = sum_of(a->times, sign * b->times);
        return true;
    }
    if ((first && second) || other->op != OP_CONST || d->times != 0 || (n->op == OP_DIV && second)) return false;
    return scale(&d->plus, n->op == OP_DIV ? 1 / other->attr->value : other->attr->value);
}

static bool raised(const Shifts *s, const Node *n, Degree *d) {
    const Node *base = n->in[0], *exponent = n->in[1];
    if (base->op == OP_CONST && base->attr->value > 0 && degree_of(s, exponent)->times == 0) {
        *d = *degree_of(s, exponent);
        d->times = d->plus;
        d->plus = 0;
        return scale(&d->times, log(base->attr->value));
    }
    if (exponent->op != OP_CONST || degree_of(s, base)->plus != 0) return false;
    *d = *degree_of(s, base);
    return scale(&d->times, exponent->attr->value);
}

static bool of_one(const Shifts *s, const Node *n, Degree *d) {
    *d = *degree_of(s, n->in[0]);
    const Degree was = *d;
    switch (n->op) {
    case OP_NEG: d->plus = -d->plus; return true;
    case OP_CAST: return dtype_is_float(n->dtype);
    case OP_EXP: d->times = was.plus, d->plus = 0; return was.times == 0;
    case OP_LOG: d->plus = was.times, d->times = 0; return was.plus == 0;
    case OP_SQRT: return was.plus == 0 && scale(&d->times, 0.5);
    case OP_RSQRT: return was.plus == 0 && scale(&d->times, -0.5);
    default: return false;
    }
}

/* ---- sums --------------------------------------------------------------------------------------------------------- */
static bool reduced(const Shifts *s, const Node *n, Degree *d) {
    *d = *degree_of(s, n->in[0]);
    return moved(s, n, d) && (n->op != OP_SUM || d->plus == 0);
}

/* A product of elements that all have the shift of the result's place. */
static bool contracted(const Shifts *s, const Node *n, Degree *d) {
    const Contract *c = n->attr->contract;
    bool any = false;
    for (int k = 0; k < n->n_in; k++) {
        Degree own = s->degree[n->in[k]->id];
        int to[MAX_RANK];
        if (!is_affected(s, n->in[k])) continue;
        for (int i = 0; i < n->in[k]->shape->rank; i++) {
            const int loop = affine_single_loop(c, &c->map[k][i]);
            to[i] = loop < c->n_out && loop >= 0 && dim_equal(c->extent[loop], n->in[k]->shape->dim[i]) ? loop : -1;
        }
        if (own.plus != 0 || !move_dims(s, &own, to) || (any && !same_places(s, d, &own))) return false;
        if (any) own.times = sum_of(own.times, d->times);
        *d = own;
        any = true;
    }
    return true;
}

/* ---- the walk ----------------------------------------------------------------------------------------------------- */
static bool degree_after(const Shifts *s, const Node *n, Degree *d) {
    switch (n->op) {
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_BROADCAST: *d = *degree_of(s, n->in[0]); return moved(s, n, d);
    case OP_ADD:
    case OP_SUB: return added(s, n, d);
    case OP_MUL:
    case OP_DIV: return multiplied(s, n, d);
    case OP_POW: return !(is_affected(s, n->in[0]) && is_affected(s, n->in[1])) && raised(s, n, d);
    case OP_MAX:
    case OP_MIN: return common(s, n->in[0], n->in[1], d);
    case OP_SELECT: return !is_affected(s, n->in[0]) && common(s, n->in[1], n->in[2], d);
    case OP_SUM:
    case OP_RMAX:
    case OP_RMIN: return reduced(s, n, d);
    case OP_CONTRACT: return contracted(s, n, d);
    default: return n->n_in == 1 && of_one(s, n, d);
    }
}

/* Its readers, up to y, in order of their ids; false: too many. */
static bool push_readers(Shifts *s, const Node *n, const Node *y) {
    for (int u = s->uses.first[n->id]; u < s->uses.first[n->id + 1]; u++) {
        const int id = s->uses.user[u]->id;
        int at = s->n;
        bool known = id > y->id;
        for (int i = 0; i < s->n; i++) known |= s->pending[i] == id;
        if (known) continue;
        if (s->n == MOST_NODES) return false;
        for (; at > 0 && s->pending[at - 1] < id; at--) s->pending[at] = s->pending[at - 1];
        s->pending[at] = id;
        s->n++;
    }
    return true;
}

bool shift_cancels(Shifts *s, const Node *m, const Node *y) {
    Degree *start = &s->degree[m->id];
    int seen = 0;
    s->now++;
    s->n = 0;
    s->m = m;
    s->stamp[m->id] = s->now;
    *start = (Degree){.plus = 1};
    for (int d = 0; d < m->shape->rank; d++) start->dim[d] = (int8_t)(is_unit(m->shape->dim[d]) ? -1 : d);
    if (m == y || !push_readers(s, m, y)) return false;
    while (s->n) {
        const Node *n = s->g->nodes.at[s->pending[--s->n]]; /* the first: all that it reads is known */
        Degree d = {0};
        if (++seen > MOST_NODES || !degree_after(s, n, &d)) return false;
        if (d.times == 0 && d.plus == 0) continue;
        s->degree[n->id] = d;
        s->stamp[n->id] = s->now;
        if (n == y || !push_readers(s, n, y)) return false;
    }
    return true;
}
