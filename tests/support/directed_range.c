/* Interval arithmetic, op by op. */
#include "tests/support/directed.h"
#include <math.h>

static const double LARGEST = 200, LARGEST_INTEGER = 0x1p31;

static Range hull(Range a, Range b) { return (Range){fmin(a.lo, b.lo), fmax(a.hi, b.hi)}; }
static Range with(Range a, double v) { return hull(a, (Range){v, v}); }
static double magnitude(Range a) { return fmax(fabs(a.lo), fabs(a.hi)); }
static Range times(double k, Range a) { return hull((Range){k * a.lo, k * a.lo}, (Range){k * a.hi, k * a.hi}); }

static Range product(Range a, Range b) { return hull(times(b.lo, a), times(b.hi, a)); }

/* For divisors on one side of 0. */
static Range quotient(Range a, Range b) {
    return product(a, hull((Range){1 / b.lo, 1 / b.lo}, (Range){1 / b.hi, 1 / b.hi}));
}

/* A monotonic function of the operand. */
static Range along(Range a, double f(double)) { return hull((Range){f(a.lo), f(a.lo)}, (Range){f(a.hi), f(a.hi)}); }
static double reciprocal_root(double v) { return 1 / sqrt(v); }
static double logistic(double v) { return 1 / (1 + exp(-v)); }

static Range power(Range a, Range b) {
    Range r = {pow(a.lo, b.lo), pow(a.lo, b.lo)};
    r = with(r, pow(a.lo, b.hi));
    r = with(r, pow(a.hi, b.lo));
    return with(r, pow(a.hi, b.hi));
}

static bool element(Op op, DType t, const Range *a, Range *out) {
    const bool whole = t == DT_I32;
    switch (op) {
    case OP_NEG: *out = times(-1, a[0]); return true;
    case OP_ABS: *out = (Range){a[0].lo > 0 ? a[0].lo : a[0].hi < 0 ? -a[0].hi : 0, magnitude(a[0])}; return true;
    case OP_SIGN: *out = (Range){a[0].lo > 0 ? 1 : -1, a[0].hi < 0 ? -1 : 1}; return true;
    case OP_EXP: *out = along(a[0], exp); return a[0].hi <= 4;
    case OP_LOG: *out = along(a[0], log); return a[0].lo >= 0.2;
    case OP_LOG1P: *out = along(a[0], log1p); return a[0].lo >= -0.8;
    case OP_SQRT: *out = along(a[0], sqrt); return a[0].lo >= 0.2;
    case OP_RSQRT: *out = along(a[0], reciprocal_root); return a[0].lo >= 0.2;
    case OP_SIN: *out = a[0].lo >= 1 && a[0].hi <= 2.2 ? (Range){0.8, 1} : (Range){-1, 1}; return magnitude(a[0]) < 60;
    case OP_COS: *out = magnitude(a[0]) <= 1.1 ? (Range){0.45, 1} : (Range){-1, 1}; return magnitude(a[0]) < 60;
    case OP_TANH: *out = along(a[0], tanh); return true;
    case OP_SIGMOID: *out = along(a[0], logistic); return true;
    case OP_ERF: *out = along(a[0], erf); return true;
    case OP_BITS: *out = (Range){INT32_MIN, INT32_MAX}; return true;
    case OP_FLOOR: *out = along(a[0], floor); return true;
    case OP_CEIL: *out = along(a[0], ceil); return true;
    case OP_ADD: *out = (Range){a[0].lo + a[1].lo, a[0].hi + a[1].hi}; return true;
    case OP_SUB: *out = (Range){a[0].lo - a[1].hi, a[0].hi - a[1].lo}; return true;
    case OP_MUL: *out = product(a[0], a[1]); return true;
    case OP_DIV:
        if (whole)
            *out = with((Range){-magnitude(a[0]) - 1, magnitude(a[0]) + 1}, 0);
        else
            *out = quotient(a[0], a[1]);
        return whole || a[1].lo >= 0.3 || a[1].hi <= -0.3;
    case OP_MOD:
        *out = a[0].lo >= 0 && a[0].hi < a[1].lo ? a[0] : with(with((Range){0, 0}, a[1].lo), a[1].hi);
        return whole || a[1].lo >= 0.3 || a[1].hi <= -0.3;
    case OP_POW: *out = power(a[0], a[1]); return a[0].lo >= 0.2 && a[0].hi <= 8 && magnitude(a[1]) <= 4;
    case OP_MAX: *out = (Range){fmax(a[0].lo, a[1].lo), fmax(a[0].hi, a[1].hi)}; return true;
    case OP_MIN: *out = (Range){fmin(a[0].lo, a[1].lo), fmin(a[0].hi, a[1].hi)}; return true;
    case OP_SELECT: *out = hull(a[1], a[2]); return true;
    default: *out = (Range){0, 1}; return true; /* bool */
    }
}

/* f32 -> i32 truncates; to f32 an integer must be exact. */
static bool cast(DType from, DType to, Range a, Range *out) {
    *out = to == DT_BOOL ? (Range){0, 1} : to == DT_I32 ? along(a, trunc) : a;
    return from != DT_I32 || to != DT_F32 || magnitude(a) <= 0x1p20;
}

static double elements(Shape s) { return (double)shape_elements(s); }

/* n terms of a; a sum may also be of none. */
static Range sum_of(Range a, double least, double most) { return hull(times(least, a), times(most, a)); }

static Range power_up_to(Range a, double n) {
    Range r = {1, 1};
    for (int i = 0; i < n && magnitude(r) < 1e30; i++) r = hull(r, product(r, a));
    return r;
}

static double terms_of(const Node *in, Shape out) {
    return elements(out) > 0 ? elements(*in->shape) / elements(out) : 0;
}

/* n times x + f y, from 0. */
static Range recurrence(Range x, Range f, double n) {
    Range all = {0, 0}, y = {0, 0};
    for (int i = 0; i < n && magnitude(y) < 1e30; i++) {
        const Range before = product(f, y);
        y = (Range){x.lo + before.lo, x.hi + before.hi};
        all = hull(all, y);
    }
    return all;
}

static bool reduction(Op op, const Node *in, const Attr *attr, Shape shape, const Range *operand, Range *out) {
    const Range a = operand[0];
    const double most = op == OP_SCAN ? (double)in->shape->dim[attr->axis].bound : terms_of(in, shape);
    const double least = shape_is_fixed(*in->shape) && op != OP_SCAN ? most : op == OP_SCAN && attr->exclusive ? 0 : 1;
    switch (op) {
    case OP_SUM: *out = sum_of(a, fmin(least, most), most); return true;
    case OP_SCAN:
        *out = attr->scan == SCAN_LINEAR ? recurrence(a, operand[1], most) : attr->scan == SCAN_SUM ? sum_of(a, fmin(least, most), most) : power_up_to(a, most);
        return true;
    case OP_PROD: *out = power_up_to(a, most); return true;
    case OP_ARGMAX: *out = (Range){0, fmax(most - 1, 0)}; return true;
    default: *out = a; return most >= 1; /* an extremum of nothing is infinite */
    }
}

/* All terms may be missing: of a contraction without guards whose reads are loops alone, none is. */
static bool whole_contraction(const Contract *c, Node *const *in) {
    bool whole = c->n_guards == 0;
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape->rank; d++) {
            const Affine *e = &c->map[k][d];
            int loops = 0;
            whole &= e->c == 0 && e->divisor == 1;
            for (int l = 0; l < c->n_loops; l++) {
                loops += e->coef[l] != 0;
                whole &= e->coef[l] == 0 || (e->coef[l] == 1 && dim_equal(c->extent[l], in[k]->shape->dim[d]));
            }
            whole &= loops == 1;
        }
    return whole;
}

static Range contraction(const Contract *c, Node *const *in, const Range *a) {
    Range term = a[0];
    double most = 1, least = 1;
    for (int k = 1; k < c->n_operands; k++) term = product(term, a[k]);
    for (int l = c->n_out; l < c->n_loops; l++) {
        most *= (double)c->extent[l].bound;
        if (!dim_is_fixed(c->extent[l])) least = 0;
    }
    least = whole_contraction(c, in) ? (least > 0 ? most : 1) : 0;
    return sum_of(term, fmin(least, most), most);
}

/* Starts and indices outside read 0. */
static bool inside(Range index, double first, double last) { return index.lo >= first && index.hi <= last; }

static bool other(const Directed *x, Op op, Node *const *in, int n, const Attr *attr, Shape shape, const Range *a,
                  Range *out) {
    *out = a[0];
    switch (op) {
    case OP_PAD: *out = with(a[0], attr->value); return true;
    case OP_CONST: *out = (Range){attr->value, attr->value}; return true;
    case OP_CONCAT:
        for (int k = 1; k < n; k++) *out = hull(*out, x->range.at[in[k]->id]);
        return true;
    case OP_SLICE_AT:
        if (!shape_is_fixed(*in[0]->shape) || !inside(a[1], 0, (double)(in[0]->shape->dim[0].bound - shape.dim[0].bound)))
            *out = with(*out, 0);
        return true;
    case OP_UPDATE_AT: *out = hull(a[0], a[1]); return true;
    case OP_CONTRACT: *out = contraction(attr->contract, in, a); return true;
    case OP_GATHER:
        if (!shape_is_fixed(*in[0]->shape) || !inside(a[1], 0, (double)in[0]->shape->dim[0].bound - 1))
            *out = with(*out, 0);
        return true;
    case OP_SCATTER_ADD:
    case OP_SCATTER_MAX:
    case OP_SCATTER_ARGMAX: {
        const double most = elements(*in[1]->shape);
        const bool one_row = shape_is_fixed(*in[1]->shape) && attr->extent.bound == 1 && inside(a[1], 0, 0);
        if (op == OP_SCATTER_ARGMAX) return *out = (Range){-1, fmax(most - 1, 0)}, true;
        if (op == OP_SCATTER_MAX) return one_row && most >= 1; /* where nothing is sent, it is infinite */
        *out = sum_of(a[0], one_row ? most : 0, most);
        return true;
    }
    default: return true;
    }
}

bool directed_range(const Directed *x, Op op, int n, Node *const *in, const Attr *attr, DType t, Shape shape,
                    Range *out) {
    Range a[4] = {{0, 0}};
    bool legal;
    for (int k = 0; k < n && k < 4; k++) a[k] = x->range.at[in[k]->id];
    if (op == OP_CAST)
        legal = cast(in[0]->dtype, t, a[0], out);
    else if (op_info[op].cls == CLASS_ELEMENT)
        legal = element(op, t, a, out);
    else if (op_info[op].cls == CLASS_REDUCE)
        legal = reduction(op, in[0], attr, shape, a, out);
    else
        legal = other(x, op, in, n, attr, shape, a, out);
    if (t == DT_BOOL) *out = (Range){0, 1};
    return legal && magnitude(*out) <= (t == DT_I32 ? LARGEST_INTEGER - 1 : LARGEST);
}
