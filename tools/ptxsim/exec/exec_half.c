/* Arithmetic of 16-bit floating-point formats: in double, where sums and products are exact or leave more than twice
 * the digits (odd_sum where that is not enough), rounded once.  A pair per lane is 64 elements. */
#include "tools/ptxsim/exec/alu.h"
#include "tools/ptxsim/exec/numeric_lanes.h"
#include <math.h>

#define HALF(NAME, N, DECODE, ENCODE_IT, EXPR)                                                         \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {                                          \
        const uint16_t *a = source_lanes(w, &i->a);                                                    \
        const uint16_t *b = i->b.base == BASE_NONE ? a : source_lanes(w, &i->b);                       \
        const uint16_t *c = i->c.base == BASE_NONE ? a : source_lanes(w, &i->c);                       \
        uint16_t *d = result_lanes(w, &i->d);                                                          \
        const bool nan = i->op2;                                                                       \
        (void)nan;                                                                                     \
        ELEMENTS(N) {                                                                                  \
            const double x = (double)DECODE(a[l]), y = (double)DECODE(b[l]), z = (double)DECODE(c[l]); \
            (void)y;                                                                                   \
            (void)z;                                                                                   \
            d[l] = mask >> (l * WARP / N) & 1 ? ENCODE_IT(EXPR) : d[l];                                \
        }                                                                                              \
    }
#if defined(__clang__)
#define ELEMENTS(N) _Pragma("clang loop vectorize(assume_safety)") for (int l = 0; l < N; l++)
#else
#define ELEMENTS(N) _Pragma("GCC ivdep") for (int l = 0; l < N; l++)
#endif

/* -0 < +0; a NaN loses against a number, unless .NaN. */
static inline double half_min(double x, double y, bool nan) {
    const double same = value64(bits64(x) | bits64(y)), number = x < y ? x : y < x ? y : x == y ? same : x != x ? y : x;
    return nan && (x != x || y != y) ? not_a_number64() : number;
}
static inline double half_max(double x, double y, bool nan) {
    const double same = value64(bits64(x) & bits64(y)), number = x > y ? x : y > x ? y : x == y ? same : x != x ? y : x;
    return nan && (x != x || y != y) ? not_a_number64() : number;
}

#define FORMAT(F, N, DECODE, ENCODE_IT)                      \
    HALF(add_##F, N, DECODE, ENCODE_IT, x + y)               \
    HALF(sub_##F, N, DECODE, ENCODE_IT, x - y)               \
    HALF(mul_##F, N, DECODE, ENCODE_IT, x *y)                \
    HALF(fma_##F, N, DECODE, ENCODE_IT, odd_sum(x *y, z))    \
    HALF(min_##F, N, DECODE, ENCODE_IT, half_min(x, y, nan)) \
    HALF(max_##F, N, DECODE, ENCODE_IT, half_max(x, y, nan)) \
    HALF(ex2_##F, N, DECODE, ENCODE_IT, exp2(x))             \
    HALF(tanh_##F, N, DECODE, ENCODE_IT, tanh(x))
FORMAT(f16, 32, decode_f16, encode_f16)
FORMAT(f16x2, 64, decode_f16, encode_f16)
FORMAT(bf16, 32, decode_bf16, encode_bf16)
FORMAT(bf16x2, 64, decode_bf16, encode_bf16)

UNARY(abs16, uint16_t, uint16_t, x & 0x7fff)
UNARY(neg16, uint16_t, uint16_t, x ^ 0x8000)
UNARY(abs16x2, uint32_t, uint32_t, x & 0x7fff7fff)
UNARY(neg16x2, uint32_t, uint32_t, x ^ 0x80008000)

ExecFn half_handler(int op, PtxType t) {
#define ALL(op, name) \
    [op] = { [T_F16] = name##_f16, [T_F16X2] = name##_f16x2, [T_BF16] = name##_bf16, [T_BF16X2] = name##_bf16x2 }
    static const ExecFn TABLE[OP_COUNT][T_COUNT] = {
        ALL(OP_ADD, add),
        ALL(OP_SUB, sub),
        ALL(OP_MUL, mul),
        ALL(OP_FMA, fma),
        ALL(OP_MIN, min),
        ALL(OP_MAX, max),
        ALL(OP_EX2, ex2),
        ALL(OP_TANH, tanh),
        [OP_ABS] = {[T_F16] = abs16, [T_F16X2] = abs16x2, [T_BF16] = abs16, [T_BF16X2] = abs16x2},
        [OP_NEG] = {[T_F16] = neg16, [T_F16X2] = neg16x2, [T_BF16] = neg16, [T_BF16X2] = neg16x2},
    };
    return TABLE[op][t];
}
