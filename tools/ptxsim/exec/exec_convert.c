/* cvt: every pair of types, one lane at a time through exact intermediate values; the common pairs as vectors. */
#include "tools/ptxsim/exec/alu.h"
#include "tools/ptxsim/exec/numeric.h"
#include "tools/ptxsim/exec/numeric_lanes.h"
#include <math.h>

static uint64_t low_bits(uint64_t v, int bytes) { return bytes >= 8 ? v : v & ((UINT64_C(1) << (8 * bytes)) - 1); }
static int64_t sign_extend(uint64_t v, int bytes) { return (int64_t)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes); }

static uint64_t int_max(PtxType t) {
    const uint64_t all = low_bits(UINT64_MAX, type_bytes(t));
    return type_is_signed(t) ? all >> 1 : all;
}

static uint64_t int_to_int(uint64_t v, const Inst *i, PtxType to, PtxType from) {
    const bool negative = type_is_signed(from) && (int64_t)v < 0;
    if (i->saturate) {
        const uint64_t max = int_max(to);
        if (negative) {
            if (!type_is_signed(to)) return 0;
            const int64_t min = -(int64_t)max - 1;
            return (int64_t)v < min ? (uint64_t)min : v;
        }
        return v > max ? max : v;
    }
    return v;
}

/* The highest bit alone where the source is f64 or the result has 64 bits, else 0 (an H200 does so). */
static uint64_t int_of_nan(PtxType to, PtxType from) {
    return from == T_F64 || type_bytes(to) == 8 ? UINT64_C(1) << (8 * type_bytes(to) - 1) : 0;
}

/* Clamped to the range of the result. */
static uint64_t float_to_int(double v, const Inst *i, PtxType to, PtxType from) {
    const double r = round_integral(v, i->round);
    const uint64_t max = int_max(to);
    if (r != r) return int_of_nan(to, from);
    if (type_is_signed(to)) {
        const double limit = ldexp(1, 8 * type_bytes(to) - 1);
        if (r >= limit) return max;
        if (r < -limit) return (uint64_t)(-(int64_t)max - 1);
        return (uint64_t)(int64_t)r;
    }
    if (r >= ldexp(1, 8 * type_bytes(to))) return max;
    return r <= 0 ? 0 : (uint64_t)r;
}

static uint64_t float_to_float(double v, const Inst *i, PtxType to, PtxType from) {
    if (i->round >= ROUND_RNI || (to == from && i->round)) v = round_integral(v, i->round);
    if (i->saturate) v = v != v || v <= 0 ? 0 : v > 1 ? 1 : v;
    return float_encode(to, v, i->round >= ROUND_RNI ? ROUND_RN : i->round);
}

static uint64_t convert_one(uint64_t v, const Inst *i, PtxType to, PtxType from) {
    const int bytes = type_bytes(from);
    const bool to_float = type_is_float(to);
    if (type_is_float(from)) {
        const double d = float_decode(from, v);
        return to_float ? float_to_float(d, i, to, from) : float_to_int(d, i, to, from);
    }
    v = type_is_signed(from) ? (uint64_t)sign_extend(v, bytes) : low_bits(v, bytes);
    if (!to_float) return int_to_int(v, i, to, from);
    const bool negative = type_is_signed(from) && (int64_t)v < 0;
    if (i->saturate) return float_encode(to, negative || !v ? 0.0 : 1.0, ROUND_RN);
    return float_encode_scaled(to, negative, negative ? 0 - v : v, 0, i->round);
}

/* A result narrower than its register is extended to it by its own sign. */
static void exec_convert(Warp *w, const Inst *i, uint32_t mask) {
    const PtxType to = (PtxType)i->type, from = (PtxType)i->type2;
    const int bytes = type_bytes(to);
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        uint64_t v = convert_one(lane_bits(w, &i->a, l), i, to, from);
        if (i->d.bytes > bytes)
            v = type_is_signed(to) ? (uint64_t)sign_extend(low_bits(v, bytes), bytes) : low_bits(v, bytes);
        lane_set(w, &i->d, l, v);
    }
}

/* Rounded to nearest even and not clamped, as vectors; other modifiers one by one. */
#define FAST(NAME, D, A, EXPR)                                \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) { \
        if (i->saturate || i->round > ROUND_RN) {             \
            exec_convert(w, i, mask);                         \
            return;                                           \
        }                                                     \
        const A *a = source_lanes(w, &i->a);                  \
        PUT_LANES(D, const A x = a[l], EXPR)                  \
    }
FAST(s32_s64, int64_t, int32_t, x)
FAST(u32_u64, uint64_t, uint32_t, x)
FAST(u64_u32, uint32_t, uint64_t, x)
FAST(u16_u32, uint32_t, uint16_t, x)
FAST(s16_s32, int32_t, int16_t, x)
FAST(u32_u16, uint16_t, uint32_t, x)
FAST(s32_f32, float, int32_t, (float)x)
FAST(u32_f32, float, uint32_t, (float)x)
FAST(s32_f64, double, int32_t, x)
FAST(u32_f64, double, uint32_t, x)
FAST(s64_f32, float, int64_t, (float)x)
FAST(u64_f32, float, uint64_t, (float)x)
FAST(s64_f64, double, int64_t, (double)x)
FAST(u64_f64, double, uint64_t, (double)x)
FAST(f32_f64, double, float, canonical64(x))
FAST(f64_f32, float, double, canonical32((float)x))
FAST(f16_f32, float, uint16_t, canonical32(decode_f16(x)))
FAST(bf16_f32, float, uint16_t, canonical32(decode_bf16(x)))
FAST(f32_f16, uint16_t, float, encode_f16(x))
FAST(f32_bf16, uint16_t, float, encode_bf16(x))

/* Bits of f32 without the lowest 13, rounded by adding to them; a NaN is canonical. */
static inline uint32_t cut_tf32(uint32_t b, uint32_t add) {
    return (b & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : (b + add) & ~UINT32_C(0x1fff);
}
UNARY(tf32_away, uint32_t, uint32_t, cut_tf32(x, 0x1000))
UNARY(tf32_even, uint32_t, uint32_t, cut_tf32(x, 0xfff + (x >> 13 & 1)))
UNARY(tf32_zero, uint32_t, uint32_t, cut_tf32(x, 0))
static void f32_tf32(Warp *w, const Inst *i, uint32_t mask) {
    (i->round == ROUND_RZ ? tf32_zero : i->round == ROUND_RNA ? tf32_away : tf32_even)(w, i, mask);
}

/* To integers: rounded to an integral double, clamped to the range; of NaN as int_of_nan. */
static inline int32_t clamp_s32(double r) {
    return (int32_t)(r >= -0x1p31 ? (r < 0x1p31 ? r : 0x1p31 - 1) : r < 0 ? -0x1p31 : 0);
}
static inline uint32_t clamp_u32(double r) {
    return (uint32_t)bits64((r > 0 ? (r < 0x1p32 ? r : 0x1p32 - 1) : 0) + 0x1p52); /* the last place of 2^52 is 1 */
}
static inline int32_t clamp_f64_s32(double r) { return r == r ? clamp_s32(r) : INT32_MIN; }
static inline uint32_t clamp_f64_u32(double r) { return r == r ? clamp_u32(r) : UINT32_C(1) << 31; }
static inline int64_t clamp_s64(double r) {
    return r < 0x1p63 ? (r > -0x1p63 ? (int64_t)r : INT64_MIN) : r == r ? INT64_MAX : INT64_MIN;
}
static inline uint64_t clamp_u64(double r) {
    return r < 0x1p64 ? (r > 0 ? (uint64_t)r : 0) : r == r ? UINT64_MAX : UINT64_C(1) << 63;
}
static inline float keep_f32(double r) { return canonical32((float)r); }
static inline double keep_f64(double r) { return canonical64(r); }
#define ROUNDED(NAME, D, A, FINISH, ROUNDING)                    \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {    \
        const A *a = source_lanes(w, &i->a);                     \
        PUT_LANES(D, const double x = a[l], FINISH(ROUNDING(x))) \
    }
#define TO_INTEGRAL(NAME, D, A, FINISH)                       \
    ROUNDED(NAME##_nearest, D, A, FINISH, nearbyint)          \
    ROUNDED(NAME##_zero, D, A, FINISH, trunc)                 \
    ROUNDED(NAME##_down, D, A, FINISH, floor)                 \
    ROUNDED(NAME##_up, D, A, FINISH, ceil)                    \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) { \
        switch (i->round) {                                   \
        case ROUND_RZ:                                        \
        case ROUND_RZI: NAME##_zero(w, i, mask); break;       \
        case ROUND_RM:                                        \
        case ROUND_RMI: NAME##_down(w, i, mask); break;       \
        case ROUND_RP:                                        \
        case ROUND_RPI: NAME##_up(w, i, mask); break;         \
        default: NAME##_nearest(w, i, mask); break;           \
        }                                                     \
    }
TO_INTEGRAL(f32_s32, int32_t, float, clamp_s32)
TO_INTEGRAL(f32_u32, uint32_t, float, clamp_u32)
TO_INTEGRAL(f32_s64, int64_t, float, clamp_s64)
TO_INTEGRAL(f32_u64, uint64_t, float, clamp_u64)
TO_INTEGRAL(f64_s32, int32_t, double, clamp_f64_s32)
TO_INTEGRAL(f64_u32, uint32_t, double, clamp_f64_u32)
TO_INTEGRAL(f64_s64, int64_t, double, clamp_s64)
TO_INTEGRAL(f64_u64, uint64_t, double, clamp_u64)
TO_INTEGRAL(integral_f32, float, float, keep_f32)
TO_INTEGRAL(integral_f64, double, double, keep_f64)
UNARY(same_f32, float, float, canonical32(x))
UNARY(same_f64, double, double, canonical64(x))
static void f32_f32(Warp *w, const Inst *i, uint32_t mask) {
    (i->saturate ? exec_convert : i->round ? integral_f32 : same_f32)(w, i, mask);
}
static void f64_f64(Warp *w, const Inst *i, uint32_t mask) {
    (i->saturate ? exec_convert : i->round ? integral_f64 : same_f64)(w, i, mask);
}

/* Between integers of any widths in registers of any widths, through 64 bits: extended from the source's type, then
 * from the result's. */
static inline uint64_t extended(uint64_t v, int unused, bool is_signed) {
    return is_signed ? (uint64_t)((int64_t)(v << unused) >> unused) : v << unused >> unused;
}
#define RESIZE(NAME, D, A)                                                                           \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {                                        \
        if (i->saturate) {                                                                           \
            exec_convert(w, i, mask);                                                                \
            return;                                                                                  \
        }                                                                                            \
        const A *a = source_lanes(w, &i->a);                                                         \
        const PtxType to = (PtxType)i->type, from = (PtxType)i->type2;                               \
        const int in = 64 - 8 * type_bytes(from), out = 64 - 8 * type_bytes(to);                     \
        const bool in_signed = type_is_signed(from), out_signed = type_is_signed(to);                \
        PUT_LANES(D, const uint64_t x = a[l], extended(extended(x, in, in_signed), out, out_signed)) \
    }
RESIZE(resize16_16, uint16_t, uint16_t)
RESIZE(resize16_32, uint32_t, uint16_t)
RESIZE(resize16_64, uint64_t, uint16_t)
RESIZE(resize32_16, uint16_t, uint32_t)
RESIZE(resize32_32, uint32_t, uint32_t)
RESIZE(resize32_64, uint64_t, uint32_t)
RESIZE(resize64_16, uint16_t, uint64_t)
RESIZE(resize64_32, uint32_t, uint64_t)
RESIZE(resize64_64, uint64_t, uint64_t)
static ExecFn resize_handler(int to_bytes, int from_bytes) {
    static const ExecFn TABLE[4][4] = {{0},
                                       {0, resize16_16, resize16_32, resize16_64},
                                       {0, resize32_16, resize32_32, resize32_64},
                                       {0, resize64_16, resize64_32, resize64_64}};
    return TABLE[__builtin_ctz((unsigned)from_bytes)][__builtin_ctz((unsigned)to_bytes)];
}

static ExecFn fast_handler(PtxType to, PtxType from) {
    static const ExecFn TABLE[T_COUNT][T_COUNT] = {
        /* [from][to] */
        [T_S32] = {[T_S64] = s32_s64,
                   [T_U64] = s32_s64,
                   [T_F32] = s32_f32,
                   [T_F64] = s32_f64,
                   [T_U16] = u32_u16,
                   [T_S16] = u32_u16},
        [T_U32] = {[T_S64] = u32_u64,
                   [T_U64] = u32_u64,
                   [T_F32] = u32_f32,
                   [T_F64] = u32_f64,
                   [T_U16] = u32_u16,
                   [T_S16] = u32_u16},
        [T_S64] = {[T_S32] = u64_u32, [T_U32] = u64_u32, [T_F32] = s64_f32, [T_F64] = s64_f64},
        [T_U64] = {[T_S32] = u64_u32, [T_U32] = u64_u32, [T_F32] = u64_f32, [T_F64] = u64_f64},
        [T_S16] = {[T_S32] = s16_s32, [T_U32] = s16_s32},
        [T_U16] = {[T_S32] = u16_u32, [T_U32] = u16_u32},
        [T_F32] = {[T_S32] = f32_s32,
                   [T_U32] = f32_u32,
                   [T_S64] = f32_s64,
                   [T_U64] = f32_u64,
                   [T_F32] = f32_f32,
                   [T_F64] = f32_f64,
                   [T_F16] = f32_f16,
                   [T_BF16] = f32_bf16,
                   [T_TF32] = f32_tf32},
        [T_F64] = {[T_S32] = f64_s32,
                   [T_U32] = f64_u32,
                   [T_S64] = f64_s64,
                   [T_U64] = f64_u64,
                   [T_F32] = f64_f32,
                   [T_F64] = f64_f64},
        [T_F16] = {[T_F32] = f16_f32},
        [T_BF16] = {[T_F32] = bf16_f32},
    };
    return TABLE[from][to];
}

ExecFn convert_handler(PtxType to, PtxType from, int to_bytes, int from_bytes) {
    const PtxType pairs[] = {to, from};
    for (int k = 0; k < 2; k++) {
        const PtxType t = pairs[k];
        if (t == T_PRED || t == T_B8 || t == T_B16 || t == T_B32 || t == T_B64 || t == T_F16X2 || t == T_BF16X2 ||
            t == T_U16X2 || t == T_S16X2)
            return NULL;
    }
    if (from == T_TF32 || (to == T_TF32 && from != T_F32)) return NULL;
    const ExecFn fast = fast_handler(to, from);
    if (fast && to_bytes == type_bytes(to) && from_bytes == type_bytes(from)) return fast;
    const ExecFn resize = type_is_float(to) || type_is_float(from) ? NULL : resize_handler(to_bytes, from_bytes);
    return resize ? resize : exec_convert;
}

/* cvt.rn.f16x2.f32 d, a, b: a in the upper half. */
#define PACK(NAME, ENCODE_IT) BINARY(NAME, uint32_t, float, float, (uint32_t)ENCODE_IT(x) << 16 | ENCODE_IT(y))
PACK(pack_f16, encode_f16)
PACK(pack_bf16, encode_bf16)

void exec_convert_pack(Warp *w, const Inst *i, uint32_t mask) {
    const PtxType half = i->type == T_F16X2 ? T_F16 : T_BF16;
    if (i->round == ROUND_RN) {
        (half == T_F16 ? pack_f16 : pack_bf16)(w, i, mask);
        return;
    }
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        const uint64_t high = float_encode(half, float_decode(T_F32, lane_bits(w, &i->a, l)), i->round);
        const uint64_t low = float_encode(half, float_decode(T_F32, lane_bits(w, &i->b, l)), i->round);
        lane_set(w, &i->d, l, high << 16 | low);
    }
}

/* ---- pairs of 8-bit formats --------------------------------------------------------------------------- */
/* To nearest even, never past the largest finite value; a NaN is 0x7f in both formats. */
static uint32_t encode_eight(float x, PtxType pair, bool relu) {
    const bool e4m3 = pair == T_E4M3X2;
    const int mantissa = e4m3 ? 3 : 2, least = e4m3 ? -6 : -14; /* exponent of the smallest normal number */
    if (x != x) return 0x7f;
    const uint32_t sign = signbit(x) ? 0x80 : 0;
    const double m = fabs((double)x);
    if (relu && sign) return 0;
    if (m == 0) return sign;
    if (m >= (e4m3 ? 448 : 57344)) return sign | (e4m3 ? 0x7e : 0x7b);
    const int e = ilogb(m) < least ? least : ilogb(m);
    return sign | (((uint32_t)(e - least) << mantissa) + (uint32_t)nearbyint(ldexp(m, mantissa - e)));
}

/* cvt.rn.satfinite.e4m3x2.f32 d, a, b: a in the upper half; of .f16x2 as the halves lie. */
void exec_to_eight(Warp *w, const Inst *i, uint32_t mask) {
    const bool pair = i->type2 == T_F16X2;
    const PtxType to = (PtxType)i->type;
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        const uint32_t a = (uint32_t)lane_bits(w, &i->a, l), b = pair ? 0 : (uint32_t)lane_bits(w, &i->b, l);
        const float high = pair ? decode_f16((uint16_t)(a >> 16)) : value32(a);
        const float low = pair ? decode_f16((uint16_t)a) : value32(b);
        lane_set(w, &i->d, l, encode_eight(high, to, i->op2) << 8 | encode_eight(low, to, i->op2));
    }
}

/* e5m2 is f16 cut short; e4m3 has no infinity and one NaN per sign. */
static inline uint32_t widen_e5m2(uint32_t b) { return (b & 0x7f) > 0x7c ? 0x7fff : b << 8; }
static inline uint32_t widen_e4m3(uint32_t b) {
    const uint32_t finite = encode_f16((double)value32((b & 0x7f) << 20) * 0x1p120);
    return (b & 0x7f) == 0x7f ? 0x7fff : finite | (b & 0x80) << 8;
}
UNARY(from_e5m2, uint32_t, uint16_t, widen_e5m2((uint32_t)x >> 8) << 16 | widen_e5m2(x & 0xff))
UNARY(from_e4m3, uint32_t, uint16_t, widen_e4m3((uint32_t)x >> 8) << 16 | widen_e4m3(x & 0xff))
void exec_from_eight(Warp *w, const Inst *i, uint32_t mask) {
    (i->type2 == T_E4M3X2 ? from_e4m3 : from_e5m2)(w, i, mask);
}
