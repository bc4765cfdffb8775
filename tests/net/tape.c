#include "tests/net/tape.h"
#include <math.h>
#include <stdlib.h>

// What a rounding to nearest moves a value by, relative to it.
static double unit(int precision) {
    static const double units[] = {0x1p-24, 0x1p-8, 0x1p-11, 0x1p-11};
    return units[precision];
}

void tape_free(Tape *t) {
    free(t->at);
    t->at = NULL;
    t->count = t->capacity = 0;
}

// The least bit of a double.
static double grid_of(double x) {
    int e;
    if (x == 0 || !isfinite(x)) return INFINITY;
    long long m = (long long)ldexp(frexp(fabs(x), &e), 53);
    return ldexp((double)(m & -m), e - 53);
}

static int push(Tape *t, Scalar s) {
    if (t->count >= t->limit) {
        t->full = true;
        return 0;
    }
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 1024;
        t->at = realloc(t->at, (size_t)t->capacity * sizeof *t->at);
        if (!t->at) abort();
    }
    t->at[t->count] = s;
    return t->count++;
}

int tape_const(Tape *t, double value) {
    bool narrow = t->precision != P_F32 && fabs(value) > grid_of(value) * (t->precision == P_BF16 ? 0x1p8 : 0x1p11);
    double error = narrow && isfinite(value) ? unit(t->precision) * fabs(value) : (double)(float)value == value || !isfinite(value) ? 0 : fabs(value) * 0x1p-24; // a constant is rounded once
    return push(t, (Scalar){T_CONST, (unsigned char)t->precision, {-1, -1, -1}, value, fabs(value), grid_of(value), error});
}
// In 16 bits a value may underflow before it is used.
static double floor_error(Precision p, double y) { return p == P_F16 && y != 0 ? 0x1p-24 : p != P_F32 && y != 0 ? 0x1p-120 : 0; }

// Where products round what they read, that may be kept rounded.
int tape_var(Tape *t, double value, double error) {
    if (t->precision != P_F32) error += unit(t->precision) * fabs(value) + floor_error(t->precision, value);
    return push(t, (Scalar){T_VAR, (unsigned char)t->precision, {-1, -1, -1}, value, fabs(value), grid_of(value), error});
}

static double saturated(double x) {
    if (isnan(x)) return 0;
    return x < -2147483648.0 ? -2147483648.0 : x > 2147483647.0 ? 2147483647.0 : trunc(x);
}
static double wrapped(long long x) { return (double)(int)(unsigned)(unsigned long long)x; }
static double int_divide(double a, double b) { return b == 0 ? 0 : wrapped((long long)floor(a / b)); }
static double int_mod(double a, double b) { return b == 0 ? 0 : a - b * floor(a / b); }
static double larger(double a, double b) { return isnan(a) || isnan(b) ? NAN : a >= b ? a : b; }

static double apply1(TapeOp op, double a) {
    switch (op) {
    case T_NEG: return -a;
    case T_ABS: return fabs(a);
    case T_SIGN: return a > 0 ? 1 : a < 0 ? -1 : 0;
    case T_EXP: return exp(a);
    case T_LOG: return log(a);
    case T_LOG1P: return log1p(a);
    case T_SQRT: return sqrt(a);
    case T_RSQRT: return 1 / sqrt(a);
    case T_SIN: return sin(a);
    case T_COS: return cos(a);
    case T_TANH: return tanh(a);
    case T_SIGMOID: return 1 / (1 + exp(-a));
    case T_ERF: return erf(a);
    case T_FLOOR: return floor(a);
    case T_CEIL: return ceil(a);
    case T_NOT: return a == 0;
    case T_TRUNC: return saturated(a);
    default: return a;
    }
}

static double apply2(TapeOp op, double a, double b) {
    switch (op) {
    case T_ADD: return a + b;
    case T_SUB: return a - b;
    case T_MUL: return a * b;
    case T_DIV: return a / b;
    case T_MAX: return larger(a, b);
    case T_MIN: return -larger(-a, -b);
    case T_POW: return pow(a, b);
    case T_LT: return a < b;
    case T_LE: return a <= b;
    case T_GT: return a > b;
    case T_GE: return a >= b;
    case T_EQ: return a == b;
    case T_NE: return a != b;
    case T_AND: return a != 0 && b != 0;
    case T_OR: return a != 0 || b != 0;
    case T_IADD: return wrapped((long long)a + (long long)b);
    case T_ISUB: return wrapped((long long)a - (long long)b);
    case T_IMUL: return wrapped((long long)a * (long long)b);
    case T_IDIV: return int_divide(a, b);
    default: return int_mod(a, b);
    }
}

static double slope(TapeOp op, double x) {
    switch (op) {
    case T_EXP: return exp(x);
    case T_LOG: return 1 / x;
    case T_LOG1P: return 1 / (1 + x);
    case T_SQRT: return 0.5 / sqrt(x);
    case T_RSQRT: return 0.5 / (x * sqrt(x));
    case T_SIGMOID: return 0.25;
    default: return op == T_ERF ? 1.13 : 1; // sin, cos, tanh
    }
}

// How far a function of a can be off, a being off by e.
static double error1(TapeOp op, const Scalar *a, double y, double u) {
    double e = a->error, low = a->value - e, high = a->value + e;
    switch (op) {
    case T_NEG: case T_ABS: case T_COPY: case T_STOP: case T_NOT: return e;
    case T_SIGN: return e > 0 && low <= 0 && high >= 0 ? 2 : 0;
    case T_FLOOR: return floor(low) != floor(high) ? 1 + e : 0;
    case T_CEIL: return ceil(low) != ceil(high) ? 1 + e : 0;
    case T_TRUNC: return saturated(low) != saturated(high) ? INFINITY : 0;
    case T_LOG: case T_SQRT: case T_RSQRT:
        if (e > 0 && low <= 0) return INFINITY;
        break;
    case T_LOG1P:
        if (e > 0 && low <= -1) return INFINITY;
        break;
    default: break;
    }
    double steepest = e > 0 ? fmax(fabs(slope(op, low)), fabs(slope(op, high))) : 0;
    return (e > 0 ? steepest * e : 0) + 4 * u * fabs(y);
}

static bool compares(TapeOp op) { return op >= T_LT && op <= T_NE; }

static double error_compare(TapeOp op, const Scalar *a, const Scalar *b) {
    double e = 4 * (a->error + b->error);
    (void)op;
    return e > 0 && !(fabs(a->value - b->value) > e) ? 1 : 0;
}

static double error_logic(TapeOp op, const Scalar *a, const Scalar *b) {
    bool settles = op == T_OR;
    if (a->error == 0 && (a->value != 0) == settles) return 0;
    if (b->error == 0 && (b->value != 0) == settles) return 0;
    return fmax(a->error, b->error);
}

static double error_divide(const Scalar *a, const Scalar *b, double u) {
    double room = fabs(b->value) - 2 * b->error;
    if (b->error > 0 && !(room > 0)) return INFINITY;
    double by_b = b->error > 0 ? fabs(a->value / b->value) * b->error : 0;
    return (a->error + by_b) / (b->error > 0 ? room : fabs(b->value)) + u * a->magnitude / fabs(b->value);
}

static double error_pow(const Scalar *a, const Scalar *b, double y, double u) {
    if (a->error == 0 && b->error == 0) return 4 * u * fabs(y);
    if (a->value - 2 * a->error <= 0) return INFINITY;
    double moved = fabs(b->value) * a->error / (a->value - 2 * a->error) + fabs(log(a->value)) * b->error;
    return moved > 0.5 ? INFINITY : fabs(y) * (2 * moved + 4 * u);
}

// Whether the result is exact, in whatever order its terms are added.
static bool exact(TapeOp op, const Scalar *a, const Scalar *b, const Scalar *y, Precision p) {
    if (p != P_F32 || a->error > 0 || b->error > 0) return false;
    if (y->magnitude == 0) return true;
    if (op == T_DIV) return grid_of(b->value) == fabs(b->value) && y->magnitude < y->grid * 0x1p24;
    return isinf(y->grid) || (y->magnitude <= y->grid * 0x1p24 && y->magnitude < 3e38 && y->grid > 0x1p-140);
}

static double error2(const Tape *t, TapeOp op, const Scalar *a, const Scalar *b, const Scalar *y, double u) {
    if (compares(op)) return a == b ? 0 : error_compare(op, a, b);
    if (op == T_AND || op == T_OR) return error_logic(op, a, b);
    if (op >= T_IADD) return a->error + b->error > 0 ? INFINITY : 0;
    if (op == T_MAX || op == T_MIN) {
        if (fabs(a->value - b->value) <= 4 * (a->error + b->error)) return fmax(a->error, b->error);
        return y->value == a->value ? a->error : b->error;
    }
    if (op == T_DIV) return exact(op, a, b, y, t->precision) ? 0 : error_divide(a, b, u);
    if (op == T_POW) return error_pow(a, b, y->value, u);
    if (exact(op, a, b, y, t->precision)) return 0;
    if (op != T_MUL) return a->error + b->error + u * y->magnitude;
    double cross = (a->error > 0 ? b->magnitude * a->error : 0) + (b->error > 0 ? a->magnitude * b->error : 0);
    return cross + (a->error > 0 && b->error > 0 ? a->error * b->error : 0) + u * y->magnitude;
}

static double magnitude2(TapeOp op, const Scalar *a, const Scalar *b, double y) {
    if (op == T_ADD || op == T_SUB) return a->magnitude + b->magnitude;
    if (op == T_MUL) return a->magnitude * b->magnitude;
    if (op == T_DIV) return a->magnitude / fabs(b->value);
    if (op != T_MAX && op != T_MIN) return fabs(y);
    if (fabs(a->value - b->value) <= 4 * (a->error + b->error)) return fmax(a->magnitude, b->magnitude);
    return y == a->value ? a->magnitude : b->magnitude;
}

static double grid2(TapeOp op, const Scalar *a, const Scalar *b, double y) {
    if (op == T_MUL) return a->grid * b->grid;
    if (op == T_DIV) return a->grid / fabs(b->value);
    return op >= T_LT ? grid_of(y) : fmin(a->grid, b->grid);
}

static int push_select(Tape *t, int c, int a, int b) {
    const Scalar *C = &t->at[c], *A = &t->at[a], *B = &t->at[b], *chosen = C->value != 0 ? A : B;
    Scalar s = {T_SELECT, (unsigned char)t->precision, {c, a, b}, chosen->value, chosen->magnitude, chosen->grid, chosen->error};
    if (C->error > 0) {
        s.error = fmax(A->error, B->error) + fabs(A->value - B->value);
        s.magnitude = fmax(A->magnitude, B->magnitude);
    }
    return push(t, s);
}

int tape_op(Tape *t, TapeOp op, int a, int b, int c) {
    if (t->full) return 0;
    if (op == T_SELECT) return push_select(t, a, b, c);
    const Scalar *A = &t->at[a], *B = b >= 0 ? &t->at[b] : NULL;
    double u = unit(t->precision), v = B ? apply2(op, A->value, B->value) : apply1(op, A->value);
    Scalar s = {(unsigned char)op, (unsigned char)t->precision, {a, b, -1}, v, fabs(v), 0, 0};
    bool moves = op == T_NEG || op == T_COPY || op == T_STOP || op == T_ABS;
    s.magnitude = B ? magnitude2(op, A, B, v) : moves ? A->magnitude : fabs(v);
    s.grid = B ? grid2(op, A, B, v) : moves ? A->grid : grid_of(v);
    s.error = B ? error2(t, op, A, B, &s, u) : error1(op, A, v, u);
    if (t->precision != P_F32 && op < T_LT && !moves && op != T_STOP) s.error += floor_error(t->precision, v) + (op == T_MAX || op == T_MIN ? u * fabs(v) : 0);
    if (v != 0 && fabs(v) < 1e-30 && !moves && op < T_LT) s.error += 3e-45; // f32 may underflow
    if (op == T_COPY && t->precision != P_F32) s.error += u * s.magnitude; // kept rounded
    if (isnan(s.error) || (fabs(v) > 1e37 && isfinite(v))) s.error = INFINITY; // f32 may overflow
    return push(t, s);
}

// ---- derivatives --------------------------------------------------------------------------------------------------------

static bool differentiable(TapeOp op) {
    return op >= T_COPY && op < T_LT && op != T_STOP && op != T_SIGN && op != T_FLOOR && op != T_CEIL;
}

// The derivative of a function of one argument, as a scalar on the tape; -1: of a copy.
static int slope1(Tape *t, TapeOp op, int x, int y) {
    int one = tape_const(t, 1);
    switch (op) {
    case T_NEG: return tape_const(t, -1);
    case T_ABS: return tape_1(t, T_SIGN, x);
    case T_EXP: return y;
    case T_LOG: return tape_2(t, T_DIV, one, x);
    case T_LOG1P: return tape_2(t, T_DIV, one, tape_2(t, T_ADD, one, x));
    case T_SQRT: return tape_2(t, T_DIV, tape_const(t, 0.5), y);
    case T_RSQRT: return tape_2(t, T_MUL, tape_const(t, -0.5), tape_2(t, T_DIV, y, x));
    case T_SIN: return tape_1(t, T_COS, x);
    case T_COS: return tape_1(t, T_NEG, tape_1(t, T_SIN, x));
    case T_TANH: return tape_2(t, T_SUB, one, tape_2(t, T_MUL, y, y));
    case T_SIGMOID: return tape_2(t, T_MUL, y, tape_2(t, T_SUB, one, y));
    case T_ERF: return tape_2(t, T_MUL, tape_const(t, 1.1283791670955126), tape_1(t, T_EXP, tape_1(t, T_NEG, tape_2(t, T_MUL, x, x))));
    default: return one;
    }
}

static int slope_pow(Tape *t, int a, int b, int y, int which) {
    if (which == 0) return tape_2(t, T_MUL, b, tape_2(t, T_POW, a, tape_2(t, T_SUB, b, tape_const(t, 1))));
    if (t->at[a].value <= 0) return tape_const(t, 0);
    return tape_2(t, T_MUL, y, tape_1(t, T_LOG, a));
}

// The part of the derivative of scalar i that goes to its argument number k, times g; -1: none.
static int through(Tape *t, int i, int k, int g) {
    Scalar s = t->at[i];
    int a = s.arg[0], b = s.arg[1];
    switch ((TapeOp)s.op) {
    case T_COPY: return t->precision == P_F32 ? g : tape_1(t, T_COPY, g);
    case T_ADD: return g;
    case T_SUB: return k ? tape_1(t, T_NEG, g) : g;
    case T_MUL: return tape_2(t, T_MUL, g, k ? a : b);
    case T_DIV:
        if (!k) return tape_2(t, T_DIV, g, b);
        return tape_1(t, T_NEG, tape_2(t, T_MUL, g, tape_2(t, T_DIV, i, b)));
    case T_SELECT:
        if (!k) return -1;
        return k == 1 ? tape_op(t, T_SELECT, a, g, tape_const(t, 0)) : tape_op(t, T_SELECT, a, tape_const(t, 0), g);
    case T_MAX: case T_MIN: {
        int first = tape_2(t, s.op == T_MAX ? T_GE : T_LE, a, b), zero = tape_const(t, 0);
        return k ? tape_op(t, T_SELECT, first, zero, g) : tape_op(t, T_SELECT, first, g, zero);
    }
    case T_POW: return tape_2(t, T_MUL, g, slope_pow(t, a, b, i, k));
    default: return tape_2(t, T_MUL, g, slope1(t, (TapeOp)s.op, a, i));
    }
}

typedef struct {
    unsigned char *role; // 1: depends on x; 2: is one of x
    int low, high;
} Reach;

static int highest(const int *y, int n) {
    int high = -1;
    for (int i = 0; i < n; i++) high = y[i] > high ? y[i] : high;
    return high;
}

static Reach reach_of(const Tape *t, const int *y, int ny, const int *x, int nx) {
    Reach r = {.low = t->count, .high = highest(y, ny)};
    r.role = calloc((size_t)t->count + 1, 1);
    if (!r.role) abort();
    for (int j = 0; j < nx; j++) {
        r.role[x[j]] = 2;
        r.low = x[j] < r.low ? x[j] : r.low;
    }
    for (int i = r.low; i <= r.high; i++) {
        const Scalar *s = &t->at[i];
        if (r.role[i] || !differentiable((TapeOp)s->op)) continue;
        for (int k = 0; k < 3; k++)
            if (s->arg[k] >= 0 && r.role[s->arg[k]]) r.role[i] = 1;
    }
    return r;
}

static void add_to(Tape *t, int *sum, int term) {
    if (term < 0) return;
    *sum = *sum < 0 ? term : tape_2(t, T_ADD, *sum, term);
}

static int *none(int n) {
    int *p = malloc(((size_t)n + 1) * sizeof *p);
    if (!p) abort();
    for (int i = 0; i <= n; i++) p[i] = -1;
    return p;
}

void tape_reverse(Tape *t, const int *y, const int *u, int ny, const int *x, int nx, int *out) {
    Reach r = reach_of(t, y, ny, x, nx);
    int *adjoint = none(t->count), outer = (int)t->precision;
    for (int i = 0; i < ny; i++) add_to(t, &adjoint[y[i]], u[i]);
    for (int i = r.high; i >= r.low && !t->full; i--) {
        if (r.role[i] != 1 || adjoint[i] < 0) continue;
        t->precision = (Precision)t->at[i].precision;
        for (int k = 0; k < 3; k++) {
            int a = t->at[i].arg[k];
            if (a >= 0 && r.role[a]) add_to(t, &adjoint[a], through(t, i, k, adjoint[i]));
        }
    }
    t->precision = (Precision)outer;
    for (int j = 0; j < nx; j++) out[j] = adjoint[x[j]] >= 0 ? adjoint[x[j]] : tape_const(t, 0);
    free(adjoint);
    free(r.role);
}

void tape_forward(Tape *t, const int *y, int ny, const int *x, const int *v, int nx, int *out) {
    Reach r = reach_of(t, y, ny, x, nx);
    int *tangent = none(t->count), outer = (int)t->precision;
    for (int j = 0; j < nx; j++) add_to(t, &tangent[x[j]], v[j]);
    for (int i = r.low; i <= r.high && !t->full; i++) {
        if (r.role[i] != 1) continue;
        t->precision = (Precision)t->at[i].precision;
        for (int k = 0; k < 3; k++) {
            int a = t->at[i].arg[k];
            if (a >= 0 && r.role[a] && tangent[a] >= 0) add_to(t, &tangent[i], through(t, i, k, tangent[a]));
        }
    }
    t->precision = (Precision)outer;
    for (int i = 0; i < ny; i++) out[i] = tangent[y[i]] >= 0 ? tangent[y[i]] : tape_const(t, 0);
    free(tangent);
    free(r.role);
}
