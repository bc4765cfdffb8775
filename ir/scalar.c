/* One elementwise op on doubles: what every back end must compute, up to its dtype's rounding.
 *
 * Floating dtypes compute in double and are not rounded (scalar_round does that); i32 wraps as two's
 * complement; comparisons and logic give 0 or 1.  NaN: max and min give NaN, sign gives 0, a cast to
 * i32 gives 0, to bool gives 1, comparisons are false except `ne`. */
#include "ir/ops.h"
#include <math.h>
#include <string.h>

static double wrap32(uint64_t x) { return (double)(int32_t)(uint32_t)x; }

/* Operands of i32 ops hold integers already; anything else is brought into range first. */
static int64_t to_int(double x) {
    if (isnan(x)) return 0;
    if (x <= -2147483648.0) return INT32_MIN;
    if (x >= 2147483647.0) return INT32_MAX;
    return (int64_t)x;
}

static int64_t floor_div(int64_t a, int64_t b) {
    if (b == 0) return 0;
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

/* x^n modulo 2^32; a negative exponent truncates 1 / x^-n. */
static double int_pow(int64_t x, int64_t n) {
    if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : 0;
    uint32_t result = 1, square = (uint32_t)x;
    for (; n > 0; n >>= 1, square *= square) {
        if (n & 1) result *= square;
    }
    return wrap32(result);
}

static double int_op(Op op, int64_t a, int64_t b) {
    switch (op) {
    case OP_NEG: return wrap32((uint64_t)-a);
    case OP_ABS: return wrap32((uint64_t)(a < 0 ? -a : a));
    case OP_ADD: return wrap32((uint64_t)(a + b));
    case OP_SUB: return wrap32((uint64_t)(a - b));
    case OP_MUL: return wrap32((uint64_t)a * (uint64_t)b);
    case OP_DIV: return wrap32((uint64_t)floor_div(a, b));
    case OP_MOD: return b == 0 ? 0 : wrap32((uint64_t)(a - floor_div(a, b) * b));
    case OP_POW: return int_pow(a, b);
    default: return NAN;
    }
}

static bool is_int_arithmetic(Op op) { return op == OP_NEG || op == OP_ABS || (op >= OP_ADD && op <= OP_POW); }

static double either_nan(double a, double b, double otherwise) { return isnan(a) || isnan(b) ? NAN : otherwise; }

static double cast_to(DType t, double x) {
    if (t == DT_BOOL) return x != 0;
    return t == DT_I32 ? (double)to_int(x) : x;
}

/* The exponent is never positive: a large argument loses nothing to infinity. */
static double sigmoid(double x) {
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static double bits_of(double x) {
    const float f = (float)x;
    int32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Inlined where op is a constant, the switch is gone. */
static inline __attribute__((always_inline)) double one(Op op, DType t, const double *x) {
    if (t == DT_I32 && is_int_arithmetic(op)) return int_op(op, to_int(x[0]), op >= OP_ADD ? to_int(x[1]) : 0);
    switch (op) {
    case OP_NEG: return -x[0];
    case OP_ABS: return fabs(x[0]);
    case OP_SIGN: return (x[0] > 0) - (x[0] < 0);
    case OP_EXP: return exp(x[0]);
    case OP_LOG: return log(x[0]);
    case OP_LOG1P: return log1p(x[0]);
    case OP_SQRT: return sqrt(x[0]);
    case OP_RSQRT: return 1 / sqrt(x[0]);
    case OP_SIN: return sin(x[0]);
    case OP_COS: return cos(x[0]);
    case OP_TANH: return tanh(x[0]);
    case OP_SIGMOID: return sigmoid(x[0]);
    case OP_ERF: return erf(x[0]);
    case OP_FLOOR: return floor(x[0]);
    case OP_CEIL: return ceil(x[0]);
    case OP_BITS: return bits_of(x[0]);
    case OP_NOT: return x[0] == 0;
    case OP_CAST: return cast_to(t, x[0]);
    case OP_ADD: return x[0] + x[1];
    case OP_SUB: return x[0] - x[1];
    case OP_MUL: return x[0] * x[1];
    case OP_DIV: return x[0] / x[1];
    case OP_MOD: return x[0] - floor(x[0] / x[1]) * x[1];
    case OP_POW: return pow(x[0], x[1]);
    case OP_MAX: return either_nan(x[0], x[1], x[0] >= x[1] ? x[0] : x[1]);
    case OP_MIN: return either_nan(x[0], x[1], x[0] <= x[1] ? x[0] : x[1]);
    case OP_EQ: return x[0] == x[1];
    case OP_NE: return x[0] != x[1];
    case OP_LT: return x[0] < x[1];
    case OP_LE: return x[0] <= x[1];
    case OP_GT: return x[0] > x[1];
    case OP_GE: return x[0] >= x[1];
    case OP_AND: return x[0] != 0 && x[1] != 0;
    case OP_OR: return x[0] != 0 || x[1] != 0;
    case OP_SELECT: return x[0] != 0 ? x[1] : x[2];
    case OP_PHILOX:
        return scalar_philox((uint32_t)to_int(x[0]), (uint32_t)to_int(x[1]), (uint32_t)to_int(x[2]),
                             (uint32_t)to_int(x[3]));
    default: return NAN; /* not elementwise: callers dispatch on OpInfo.cls first */
    }
}

double scalar_op(Op op, DType t, const double *x) { return one(op, t, x); }

void scalar_op_all(Op op, DType t, int64_t n, const double *const *x, double *restrict out) {
    switch (op) {
#define OP(...)
#define ELEMENT(e, text, arity, ...)                                                                                   \
    case OP_##e:                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double at[4];                                                                                              \
            for (int k = 0; k < (arity); k++) at[k] = x[k][i];                                                         \
            out[i] = one(OP_##e, t, at);                                                                               \
        }                                                                                                              \
        break;
#include "ir/ops.def"
#undef OP
    default: break;
    }
}

/* Nearest value with `bits` fraction bits and least normal exponent `emin`; past `largest` infinite. */
static double round_binary(double x, int bits, int emin, double largest) {
    union {
        double f;
        uint64_t u;
    } v = {x};
    const int e = (int)(v.u >> 52 & 0x7FF) - 1023, dropped = 52 - bits;
    if (x == 0 || !isfinite(x)) return x;
    if (e >= emin) {
        v.u += (v.u >> dropped & 1) + ((uint64_t)1 << (dropped - 1)) - 1;
        v.u &= ~(uint64_t)0 << dropped;
    } else {
        const double quantum = ldexp(1, emin - bits);
        v.f = copysign(rint(x / quantum) * quantum, x);
    }
    return fabs(v.f) > largest ? copysign(INFINITY, x) : v.f;
}

/* Nearest of 10 fraction bits, ties away from zero, as cvt.rna.tf32 rounds; exponents are those of f32. */
static double round_tf32(double x) {
    union {
        float f;
        uint32_t u;
    } v = {(float)x};
    if ((v.u & 0x7f800000u) != 0x7f800000u) v.u = (v.u + 0x1000u) & 0xffffe000u;
    return (double)v.f;
}

double scalar_round(DType t, double x) {
    switch (t) {
    case DT_BOOL: return x != 0;
    case DT_I32: return (double)to_int(rint(x));
    case DT_F32: return (double)(float)x;
    case DT_F16: return round_binary(x, 10, -14, 65504.0);
    case DT_BF16: return round_binary(x, 7, -126, ldexp(255, 120));
    case DT_TF32: return round_tf32(x);
    case DT_F64:
    default: return x;
    }
}

double scalar_philox(uint32_t key0, uint32_t key1, uint32_t counter0, uint32_t counter1) {
    uint32_t c[4] = {counter0, counter1, 0, 0};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ key0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ key1;
        c[3] = (uint32_t)p0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return (double)(c[0] >> 8) * 0x1p-24;
}

Op scalar_step(Op reduce) {
    return reduce == OP_RMAX ? OP_MAX : reduce == OP_RMIN ? OP_MIN : reduce == OP_PROD ? OP_MUL : OP_ADD;
}

double scalar_identity(Op reduce, DType t) {
    const double least = t == DT_BOOL ? 0 : t == DT_I32 ? INT32_MIN : -(double)INFINITY,
                 greatest = t == DT_BOOL ? 1 : t == DT_I32 ? INT32_MAX : (double)INFINITY; /* INFINITY is a float, INT32_MAX none */
    return reduce == OP_RMAX ? least : reduce == OP_RMIN ? greatest : reduce == OP_PROD ? 1 : 0;
}
