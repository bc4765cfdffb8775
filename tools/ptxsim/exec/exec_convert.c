/* cvt: every pair of types, one lane at a time through exact intermediate values; the common pairs as vectors. */
#include "tools/ptxsim/exec/exec.h"
#include "tools/ptxsim/exec/numeric.h"
#include "tools/ptxsim/ptx/parse.h"
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

/* Clamped to the range of the result; NaN becomes 0. */
static uint64_t float_to_int(double v, const Inst *i, PtxType to) {
    const double r = round_integral(v, i->round);
    const uint64_t max = int_max(to);
    if (r != r) return 0;
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
        return to_float ? float_to_float(d, i, to, from) : float_to_int(d, i, to);
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
        if (i->d.bytes > bytes) v = type_is_signed(to) ? (uint64_t)sign_extend(low_bits(v, bytes), bytes) : low_bits(v, bytes);
        lane_set(w, &i->d, l, v);
    }
}

#define FAST(NAME, D, A)                                                                                               \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {                                                          \
        const A *a = lane_in(w, &i->a);                                                                                \
        D r[WARP];                                                                                                     \
        if (i->saturate || i->round > ROUND_RN) {                                                                      \
            exec_convert(w, i, mask);                                                                                  \
            return;                                                                                                    \
        }                                                                                                              \
        for (int l = 0; l < WARP; l++) r[l] = (D)a[l];                                                                 \
        lanes_put(lane_out(w, &i->d), r, sizeof(D), mask);                                                             \
    }
FAST(s32_s64, int64_t, int32_t)
FAST(u32_u64, uint64_t, uint32_t)
FAST(u64_u32, uint32_t, uint64_t)
FAST(u16_u32, uint32_t, uint16_t)
FAST(s16_s32, int32_t, int16_t)
FAST(u32_u16, uint16_t, uint32_t)
FAST(s32_f32, float, int32_t)
FAST(u32_f32, float, uint32_t)
FAST(f32_f64, double, float)

static ExecFn fast_handler(PtxType to, PtxType from) {
    static const struct { PtxType to, from; ExecFn run; } TABLE[] = {
        {T_S64, T_S32, s32_s64}, {T_U64, T_U32, u32_u64}, {T_U32, T_U64, u64_u32}, {T_S32, T_S64, u64_u32},
        {T_U32, T_S64, u64_u32}, {T_S32, T_U64, u64_u32}, {T_U32, T_U16, u16_u32}, {T_S32, T_S16, s16_s32},
        {T_U16, T_U32, u32_u16}, {T_F32, T_S32, s32_f32}, {T_F32, T_U32, u32_f32}, {T_F64, T_F32, f32_f64}};
    for (size_t k = 0; k < sizeof TABLE / sizeof *TABLE; k++)
        if (TABLE[k].to == to && TABLE[k].from == from) return TABLE[k].run;
    return NULL;
}

ExecFn convert_handler(PtxType to, PtxType from, int to_bytes, int from_bytes) {
    const PtxType pairs[] = {to, from};
    for (int k = 0; k < 2; k++) {
        const PtxType t = pairs[k];
        if (t == T_PRED || t == T_B8 || t == T_B16 || t == T_B32 || t == T_B64 || t == T_F16X2 || t == T_BF16X2) return NULL;
    }
    if (from == T_TF32 || (to == T_TF32 && from != T_F32)) return NULL;
    const ExecFn fast = fast_handler(to, from);
    return fast && to_bytes == type_bytes(to) && from_bytes == type_bytes(from) ? fast : exec_convert;
}

/* cvt.rn.f16x2.f32 d, a, b: a in the upper half. */
void exec_convert_pack(Warp *w, const Inst *i, uint32_t mask) {
    const PtxType half = i->type == T_F16X2 ? T_F16 : T_BF16;
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        const uint64_t high = float_encode(half, float_decode(T_F32, lane_bits(w, &i->a, l)), i->round);
        const uint64_t low = float_encode(half, float_decode(T_F32, lane_bits(w, &i->b, l)), i->round);
        lane_set(w, &i->d, l, high << 16 | low);
    }
}
