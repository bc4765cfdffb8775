/* Floating-point arithmetic.  add, sub, mul, fma, div, sqrt and rcp are IEEE operations, also where PTX would allow an
 * approximation (.approx, .full); ex2, lg2, sin, cos, tanh and rsqrt come from the host's libm in double precision,
 * rounded once, so within the bounds that PTX states for the approximate instructions. */
#include "tools/ptxsim/exec/exec.h"
#include "tools/ptxsim/exec/numeric.h"
#include "tools/ptxsim/ptx/parse.h"
#include <fenv.h>
#include <math.h>

#define UNARY(NAME, D, EXPR)                                                                                           \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {                                                          \
        const D *a = lane_in(w, &i->a);                                                                                \
        D r[WARP];                                                                                                     \
        for (int l = 0; l < WARP; l++) {                                                                               \
            const D x = a[l];                                                                                          \
            r[l] = (D)(EXPR);                                                                                          \
        }                                                                                                              \
        lanes_put(lane_out(w, &i->d), r, sizeof(D), mask);                                                             \
    }
#define BINARY(NAME, D, EXPR)                                                                                          \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {                                                          \
        const D *a = lane_in(w, &i->a), *b = lane_in(w, &i->b);                                                        \
        const bool nan = i->op2;                                                                                       \
        D r[WARP];                                                                                                     \
        (void)nan;                                                                                                     \
        for (int l = 0; l < WARP; l++) {                                                                               \
            const D x = a[l], y = b[l];                                                                                \
            r[l] = (D)(EXPR);                                                                                          \
        }                                                                                                              \
        lanes_put(lane_out(w, &i->d), r, sizeof(D), mask);                                                             \
    }
#define TERNARY(NAME, TARGET, D, EXPR)                                                                                 \
    TARGET static void NAME(Warp *w, const Inst *i, uint32_t mask) {                                                   \
        const D *a = lane_in(w, &i->a), *b = lane_in(w, &i->b), *c = lane_in(w, &i->c);                                \
        D r[WARP];                                                                                                     \
        for (int l = 0; l < WARP; l++) {                                                                               \
            const D x = a[l], y = b[l], z = c[l];                                                                      \
            r[l] = (D)(EXPR);                                                                                          \
        }                                                                                                              \
        lanes_put(lane_out(w, &i->d), r, sizeof(D), mask);                                                             \
    }

/* -0 < +0; a NaN loses against a number, unless .NaN. */
static double min_of(double x, double y, bool nan) {
    if (x != x || y != y) return nan || (x != x && y != y) ? NAN : x != x ? y : x;
    if (x == y) return signbit(x) ? x : y;
    return x < y ? x : y;
}
static double max_of(double x, double y, bool nan) {
    if (x != x || y != y) return nan || (x != x && y != y) ? NAN : x != x ? y : x;
    if (x == y) return signbit(x) ? y : x;
    return x > y ? x : y;
}

#define FLOATS(N, D, ABS, SQRT, COPYSIGN)                                                                              \
    BINARY(add##N, D, x + y)                                                                                           \
    BINARY(sub##N, D, x - y)                                                                                           \
    BINARY(mul##N, D, x *y)                                                                                            \
    BINARY(div##N, D, x / y)                                                                                           \
    BINARY(min##N, D, min_of(x, y, nan))                                                                               \
    BINARY(max##N, D, max_of(x, y, nan))                                                                               \
    BINARY(copysign##N, D, COPYSIGN(y, x))                                                                             \
    UNARY(abs##N, D, ABS(x))                                                                                           \
    UNARY(neg##N, D, -x)                                                                                               \
    UNARY(sqrt##N, D, SQRT(x))                                                                                         \
    UNARY(rcp##N, D, 1 / x)
FLOATS(32, float, fabsf, sqrtf, copysignf)
FLOATS(64, double, fabs, sqrt, copysign)
TERNARY(fma32, , float, fmaf(x, y, z))
TERNARY(fma64, , double, fma(x, y, z))
#if defined(__x86_64__)
TERNARY(fma32_native, __attribute__((target("avx2,fma"))), float, __builtin_fmaf(x, y, z))
TERNARY(fma64_native, __attribute__((target("avx2,fma"))), double, __builtin_fma(x, y, z))
static bool has_native_fma(void) { return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2"); }
#else
#define fma32_native fma32
#define fma64_native fma64
static bool has_native_fma(void) { return false; }
#endif
UNARY(rsqrt32, float, 1 / sqrt((double)x))
UNARY(rsqrt64, double, 1 / sqrt(x))
UNARY(ex2_32, float, exp2((double)x))
UNARY(lg2_32, float, log2((double)x))
UNARY(sin32, float, sin((double)x))
UNARY(cos32, float, cos((double)x))
UNARY(tanh32, float, tanh((double)x))

ExecFn float_handler(int op, PtxType t) {
    if (op == OP_FMA && has_native_fma()) return t == T_F32 ? fma32_native : t == T_F64 ? fma64_native : NULL;
#define BOTH(op, name) [op] = {[T_F32] = name##32, [T_F64] = name##64}
    static const ExecFn TABLE[OP_COUNT][T_COUNT] = {
        BOTH(OP_ADD, add),
        BOTH(OP_SUB, sub),
        BOTH(OP_MUL, mul),
        BOTH(OP_DIV, div),
        BOTH(OP_MIN, min),
        BOTH(OP_MAX, max),
        BOTH(OP_COPYSIGN, copysign),
        BOTH(OP_ABS, abs),
        BOTH(OP_NEG, neg),
        BOTH(OP_SQRT, sqrt),
        BOTH(OP_RCP, rcp),
        BOTH(OP_RSQRT, rsqrt),
        BOTH(OP_FMA, fma),
        [OP_EX2] = {[T_F32] = ex2_32},
        [OP_LG2] = {[T_F32] = lg2_32},
        [OP_SIN] = {[T_F32] = sin32},
        [OP_COS] = {[T_F32] = cos32},
        [OP_TANH] = {[T_F32] = tanh32},
    };
    return TABLE[op][t];
}

/* ---- 16-bit formats: exact in double, rounded once ---------------------------------------------------- */
static double half_operation(const Inst *i, double x, double y, double z) {
    switch (i->op) {
    case OP_ADD: return add_to_odd(x, y);
    case OP_SUB: return add_to_odd(x, -y);
    case OP_MUL: return x * y;
    case OP_FMA:
    case OP_MAD: return fma_to_odd(x, y, z);
    case OP_MIN: return min_of(x, y, i->op2);
    case OP_MAX: return max_of(x, y, i->op2);
    case OP_EX2: return exp2(x);
    default: return tanh(x); /* OP_TANH: half_handler lets no other through */
    }
}

static uint64_t half_lane(const Inst *i, PtxType t, uint64_t a, uint64_t b, uint64_t c) {
    if (i->op == OP_ABS) return a & 0x7fff;
    if (i->op == OP_NEG) return (a ^ 0x8000) & 0xffff;
    const double r = half_operation(i, float_decode(t, a & 0xffff), float_decode(t, b & 0xffff), float_decode(t, c & 0xffff));
    return float_encode(t, r, ROUND_RN);
}

static void exec_half(Warp *w, const Inst *i, uint32_t mask) {
    const PtxType one = i->type == T_F16X2 ? T_F16 : i->type == T_BF16X2 ? T_BF16 : (PtxType)i->type;
    const bool pair = one != i->type, two = i->b.base != BASE_NONE, three = i->c.base != BASE_NONE;
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        const uint64_t a = lane_bits(w, &i->a, l), b = two ? lane_bits(w, &i->b, l) : 0;
        const uint64_t c = three ? lane_bits(w, &i->c, l) : 0;
        uint64_t r = half_lane(i, one, a, b, c);
        if (pair) r |= half_lane(i, one, a >> 16, b >> 16, c >> 16) << 16;
        lane_set(w, &i->d, l, r);
    }
}

ExecFn half_handler(int op, PtxType t) {
    if (t != T_F16 && t != T_BF16 && t != T_F16X2 && t != T_BF16X2) return NULL;
    switch (op) {
    case OP_ADD: case OP_SUB: case OP_MUL: case OP_FMA: case OP_MIN: case OP_MAX:
    case OP_ABS: case OP_NEG: case OP_EX2: case OP_TANH: return exec_half;
    default: return NULL;
    }
}

/* ---- around an operation ------------------------------------------------------------------------------ */
void exec_rounded(Warp *w, const Inst *i, uint32_t mask) {
    static const int MODES[] = {[ROUND_RZ] = FE_TOWARDZERO, [ROUND_RM] = FE_DOWNWARD, [ROUND_RP] = FE_UPWARD};
    fesetround(MODES[i->round]);
    i->inner(w, i, mask);
    fesetround(FE_TONEAREST);
}

static uint32_t flush_bits(uint32_t b, uint32_t exponent, uint32_t sign) { return b & exponent ? b : b & sign; }

static uint32_t flush_one(PtxType t, uint32_t b) {
    switch (t) {
    case T_F32: return flush_bits(b, 0x7f800000, 0x80000000);
    case T_F16: return flush_bits(b, 0x7c00, 0x8000);
    case T_BF16: return flush_bits(b, 0x7f80, 0x8000);
    case T_F16X2: return flush_bits(b & 0xffff, 0x7c00, 0x8000) | flush_bits(b >> 16, 0x7c00, 0x8000) << 16;
    case T_BF16X2: return flush_bits(b & 0xffff, 0x7f80, 0x8000) | flush_bits(b >> 16, 0x7f80, 0x8000) << 16;
    default: return b;
    }
}

/* Subnormals to zero of the same sign. */
void exec_flush(Warp *w, const Inst *i, uint32_t mask) {
    if (i->type == T_F32) {
        const uint32_t *a = lane_in(w, &i->a);
        uint32_t r[WARP];
        for (int l = 0; l < WARP; l++) r[l] = a[l] & 0x7f800000 ? a[l] : a[l] & 0x80000000;
        lanes_put(lane_out(w, &i->d), r, sizeof *r, mask);
        return;
    }
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1) lane_set(w, &i->d, l, flush_one((PtxType)i->type, (uint32_t)lane_bits(w, &i->a, l)));
}

/* Applies a function of one value to each value of a lane: packed types hold two. */
static void clamp_lanes(Warp *w, const Inst *i, uint32_t mask, double low, double high, bool keep_nan) {
    const PtxType one = i->type == T_F16X2 ? T_F16 : i->type == T_BF16X2 ? T_BF16 : (PtxType)i->type;
    const int step = one == i->type ? 64 : 16;
    const uint64_t part = step == 64 ? UINT64_MAX : 0xffff;
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        const uint64_t bits = lane_bits(w, &i->a, l);
        uint64_t r = 0;
        for (int at = 0; at < i->d.bytes * 8; at += step) {
            const uint64_t old = bits >> at & part;
            const double v = float_decode(one, old);
            const double c = v != v ? (keep_nan ? NAN : low) : v < low ? low : v > high ? high : v;
            r |= (c == v && !(v == 0 && signbit(v)) ? old : float_encode(one, c == 0 ? 0.0 : c, ROUND_RN)) << at;
        }
        lane_set(w, &i->d, l, r);
    }
}

void exec_saturate(Warp *w, const Inst *i, uint32_t mask) { clamp_lanes(w, i, mask, 0, 1, false); }
void exec_relu(Warp *w, const Inst *i, uint32_t mask) { clamp_lanes(w, i, mask, 0, INFINITY, true); }
