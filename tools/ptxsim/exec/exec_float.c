/* Floating-point arithmetic.  add, sub, mul, fma, div, sqrt and rcp are IEEE operations, also where PTX would allow an
 * approximation (.approx, .full); ex2, lg2, sin, cos, tanh and rsqrt come from the host's libm in double precision,
 * rounded once, so within the bounds that PTX states for the approximate instructions.  PTX does not keep the payload
 * of NaNs: a NaN result is all ones but the sign. */
#include "tools/ptxsim/exec/alu.h"
#include "tools/ptxsim/exec/numeric_lanes.h"
#include <fenv.h>
#include <math.h>

#define UNARY_FLOAT(NAME, N, D, EXPR) UNARY(NAME##N, D, D, canonical##N(EXPR))
#define BINARY_FLOAT(NAME, N, D, EXPR) BINARY(NAME##N, D, D, D, canonical##N(EXPR))
/* -0 < +0; a NaN loses against a number, unless .NaN (op2). */
#define EXTREME(NAME, N, D, LESS, SAME)                                                         \
    static inline D NAME##_of##N(D x, D y, bool nan) {                                          \
        const D same = value##N(bits##N(x) SAME bits##N(y));                                    \
        const D number = x LESS y ? x : y LESS x ? y : x == y ? same : x != x ? y : x;          \
        return nan && (x != x || y != y) ? not_a_number##N() : number;                          \
    }                                                                                           \
    static inline void NAME##_with##N(Warp *w, const Inst *i, uint32_t mask, bool nan) {        \
        const D *a = source_lanes(w, &i->a), *b = source_lanes(w, &i->b);                       \
        PUT_LANES(D, const D x = a[l]; const D y = b[l], canonical##N(NAME##_of##N(x, y, nan))) \
    }                                                                                           \
    static void NAME##N(Warp *w, const Inst *i, uint32_t mask) {                                \
        if (i->op2)                                                                             \
            NAME##_with##N(w, i, mask, true);                                                   \
        else                                                                                    \
            NAME##_with##N(w, i, mask, false);                                                  \
    }
#define FLOATS(N, D, SQRT, FMA)                             \
    BINARY_FLOAT(add, N, D, x + y)                          \
    BINARY_FLOAT(sub, N, D, x - y)                          \
    BINARY_FLOAT(mul, N, D, x *y)                           \
    BINARY_FLOAT(div, N, D, x / y)                          \
    UNARY_FLOAT(sqrt, N, D, SQRT(x))                        \
    UNARY_FLOAT(rcp, N, D, 1 / x)                           \
    TERNARY(fma##N, D, D, D, D, canonical##N(FMA(x, y, z))) \
    EXTREME(min, N, D, <, |)                                \
    EXTREME(max, N, D, >, &)
FLOATS(32, float, sqrtf, fmaf)
FLOATS(64, double, sqrt, fma)
#define SIGNS(N, U, TOP)            \
    UNARY(abs##N, U, U, x & ~(TOP)) \
    UNARY(neg##N, U, U, x ^ (TOP))  \
    BINARY(copysign##N, U, U, U, (y & ~(TOP)) | (x & (TOP)))
SIGNS(32, uint32_t, UINT32_C(1) << 31)
SIGNS(64, uint64_t, UINT64_C(1) << 63)
UNARY_FLOAT(rsqrt, 32, float, (float)(1 / sqrt((double)x)))
UNARY_FLOAT(rsqrt, 64, double, 1 / sqrt(x))
UNARY_FLOAT(ex2_, 32, float, (float)exp2((double)x))
UNARY_FLOAT(lg2_, 32, float, (float)log2((double)x))
UNARY_FLOAT(sin, 32, float, (float)sin((double)x))
UNARY_FLOAT(cos, 32, float, (float)cos((double)x))
UNARY_FLOAT(tanh, 32, float, (float)tanh((double)x))

ExecFn float_handler(int op, PtxType t) {
#define BOTH(op, name) [op] = { [T_F32] = name##32, [T_F64] = name##64 }
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

/* ---- around an operation ------------------------------------------------------------------------------ */
/* Where no fused operation comes from libm, only vector arithmetic needs to know the mode. */
static void set_rounding(int round) {
#if defined(__FMA__)
    static const unsigned MODES[] = {[ROUND_RN] = 0, [ROUND_RM] = 0x2000, [ROUND_RP] = 0x4000, [ROUND_RZ] = 0x6000};
    _mm_setcsr((_mm_getcsr() & ~0x6000u) | MODES[round]);
#else
    static const int MODES[] = {
        [ROUND_RN] = FE_TONEAREST, [ROUND_RZ] = FE_TOWARDZERO, [ROUND_RM] = FE_DOWNWARD, [ROUND_RP] = FE_UPWARD};
    fesetround(MODES[round]);
#endif
}

void exec_rounded(Warp *w, const Inst *i, uint32_t mask) {
    set_rounding(i->round);
    i->inner(w, i, mask);
    set_rounding(ROUND_RN);
}

/* On the bits of one value, or of each half of a word. */
static inline uint32_t flush_bits(uint32_t b, uint32_t exponent, uint32_t sign) { return b & exponent ? b : b & sign; }
static inline uint32_t saturate_bits(uint32_t b, uint32_t infinity, uint32_t one) {
    return b > infinity ? 0 : b > one ? one : b; /* NaNs and all that is negative lie above infinity */
}
static inline uint32_t relu_bits(uint32_t b, uint32_t infinity, uint32_t sign) {
    return (b & (sign - 1)) > infinity ? sign - 1 : b & sign ? 0 : b;
}
#define AROUND(NAME, ONE, TWO)                                                          \
    UNARY(flush_##NAME, uint16_t, uint16_t, flush_bits(x, ONE, 0x8000))                 \
    UNARY(flush_##NAME##x2, uint32_t, uint32_t,                                         \
          flush_bits(x & 0xffff, ONE, 0x8000) | flush_bits(x >> 16, ONE, 0x8000) << 16) \
    UNARY(saturate_##NAME, uint16_t, uint16_t, saturate_bits(x, ONE, TWO))              \
    UNARY(saturate_##NAME##x2, uint32_t, uint32_t,                                      \
          saturate_bits(x & 0xffff, ONE, TWO) | saturate_bits(x >> 16, ONE, TWO) << 16) \
    UNARY(relu_##NAME, uint16_t, uint16_t, relu_bits(x, ONE, 0x8000))                   \
    UNARY(relu_##NAME##x2, uint32_t, uint32_t,                                          \
          relu_bits(x & 0xffff, ONE, 0x8000) | relu_bits(x >> 16, ONE, 0x8000) << 16)
AROUND(f16, 0x7c00, 0x3c00)
AROUND(bf16, 0x7f80, 0x3f80)
UNARY(flush_f32, uint32_t, uint32_t, flush_bits(x, 0x7f800000, 0x80000000))
UNARY(saturate_f32, uint32_t, uint32_t, saturate_bits(x, 0x7f800000, 0x3f800000))
UNARY(relu_f32, uint32_t, uint32_t, relu_bits(x, 0x7f800000, 0x80000000))
UNARY(relu_s32, int32_t, int32_t, x & ~(x >> 31))
UNARY(relu_s16x2, uint32_t, uint32_t, x & ~((x >> 15 & 0x10001) * 0xffff))
/* Of .f64 there is .ftz in gross approximations only, which read and give the upper 32 bits. */
UNARY(flush_f64, uint64_t, uint64_t, (uint64_t)flush_bits((uint32_t)(x >> 32), 0x7ff00000, 0x80000000) << 32)
UNARY(saturate_f64, double, double, x > 0 ? (x > 1 ? 1 : x) : 0)
UNARY(relu_f64, double, double, x > 0 ? x : canonical64(x != x ? x : 0))

/* The sign of x times y's on z, which has none, unless z is a NaN. */
static inline uint32_t sign_bits(uint32_t x, uint32_t y, uint32_t z, uint32_t infinity, uint32_t sign) {
    return z > infinity ? z : z | ((x ^ y) & sign);
}
#define XORSIGN(NAME, INFINITE)                                                                      \
    TERNARY(xorsign_##NAME, uint16_t, uint16_t, uint16_t, uint16_t, sign_bits(x, y, z, INFINITE, 0x8000)) \
    TERNARY(xorsign_##NAME##x2, uint32_t, uint32_t, uint32_t, uint32_t,                              \
            sign_bits(x & 0xffff, y & 0xffff, z & 0xffff, INFINITE, 0x8000) |                        \
                sign_bits(x >> 16, y >> 16, z >> 16, INFINITE, 0x8000) << 16)
XORSIGN(f16, 0x7c00)
XORSIGN(bf16, 0x7f80)
TERNARY(xorsign_f32, uint32_t, uint32_t, uint32_t, uint32_t, sign_bits(x, y, z, 0x7f800000, 0x80000000))

#define BY_TYPE(name)                                                                                   \
    [T_F16] = name##_f16, [T_F16X2] = name##_f16x2, [T_BF16] = name##_bf16, [T_BF16X2] = name##_bf16x2, \
    [T_F32] = name##_f32
/* Subnormals to zero of the same sign. */
void exec_flush(Warp *w, const Inst *i, uint32_t mask) {
    static const ExecFn TABLE[T_COUNT] = {BY_TYPE(flush), [T_F64] = flush_f64};
    TABLE[i->type](w, i, mask);
}
/* To [0, 1]; a NaN becomes 0. */
void exec_saturate(Warp *w, const Inst *i, uint32_t mask) {
    static const ExecFn TABLE[T_COUNT] = {BY_TYPE(saturate), [T_F64] = saturate_f64};
    TABLE[i->type](w, i, mask);
}
/* What is negative to 0; a NaN stays one. */
void exec_relu(Warp *w, const Inst *i, uint32_t mask) {
    static const ExecFn TABLE[T_COUNT] = {
        BY_TYPE(relu), [T_F64] = relu_f64, [T_S32] = relu_s32, [T_S16X2] = relu_s16x2};
    TABLE[i->type](w, i, mask);
}

ExecFn xorsign_handler(PtxType t) {
    static const ExecFn TABLE[T_COUNT] = {BY_TYPE(xorsign)};
    return TABLE[t];
}
