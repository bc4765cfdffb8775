/* Comparison, predicates, selection, moves. */
#include "tools/ptxsim/exec/exec.h"
#include "tools/ptxsim/ptx/parse.h"
#include <math.h>

static uint32_t combine(const Warp *w, const Inst *i, uint32_t v) {
    if (!i->op2) return v;
    const uint32_t c = predicate_in(w, &i->c);
    return i->op2 == BOOL_AND ? v & c : i->op2 == BOOL_OR ? v | c : v ^ c;
}

/* setp d|d2: the second result is the negated comparison, combined with the same predicate. */
static void compare_out(Warp *w, const Inst *i, uint32_t v, uint32_t mask) {
    const uint32_t first = combine(w, i, v), second = combine(w, i, ~v);
    predicate_out(w, &i->d, first, mask);
    if (i->has_d2) predicate_out(w, &i->d2, second, mask);
}

#define BITS(EXPR)                                                                                                     \
    for (int l = 0; l < WARP; l++) v |= (uint32_t)(EXPR) << l;                                                         \
    break
#define COMPARE(NAME, T, READ)                                                                                         \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {                                                          \
        const T *a = lane_in(w, &i->a), *b = lane_in(w, &i->b);                                                        \
        uint32_t v = 0;                                                                                                \
        switch (i->op) {                                                                                               \
        case COMPARE_EQ: BITS(READ(a) == READ(b));                                                                     \
        case COMPARE_NE: BITS(READ(a) < READ(b) || READ(a) > READ(b));                                                 \
        case COMPARE_LT: BITS(READ(a) < READ(b));                                                                      \
        case COMPARE_LE: BITS(READ(a) <= READ(b));                                                                     \
        case COMPARE_GT: BITS(READ(a) > READ(b));                                                                      \
        case COMPARE_GE: BITS(READ(a) >= READ(b));                                                                     \
        case COMPARE_EQU: BITS(!(READ(a) < READ(b) || READ(a) > READ(b)));                                             \
        case COMPARE_NEU: BITS(READ(a) != READ(b));                                                                    \
        case COMPARE_LTU: BITS(!(READ(a) >= READ(b)));                                                                 \
        case COMPARE_LEU: BITS(!(READ(a) > READ(b)));                                                                  \
        case COMPARE_GTU: BITS(!(READ(a) <= READ(b)));                                                                 \
        case COMPARE_GEU: BITS(!(READ(a) < READ(b)));                                                                  \
        case COMPARE_NUM: BITS(READ(a) == READ(a) && READ(b) == READ(b));                                              \
        default: BITS(READ(a) != READ(a) || READ(b) != READ(b));                                                       \
        }                                                                                                              \
        compare_out(w, i, v, mask);                                                                                    \
    }
#define PLAIN(p) (p)[l]
#define HALF_VALUE(p) float_decode(T_F16, (p)[l])
#define BRAIN_VALUE(p) float_decode(T_BF16, (p)[l])
#include "tools/ptxsim/exec/numeric.h"
COMPARE(compare_u16, uint16_t, PLAIN)
COMPARE(compare_s16, int16_t, PLAIN)
COMPARE(compare_u32, uint32_t, PLAIN)
COMPARE(compare_s32, int32_t, PLAIN)
COMPARE(compare_u64, uint64_t, PLAIN)
COMPARE(compare_s64, int64_t, PLAIN)
COMPARE(compare_f32, float, PLAIN)
COMPARE(compare_f64, double, PLAIN)
COMPARE(compare_f16, uint16_t, HALF_VALUE)
COMPARE(compare_bf16, uint16_t, BRAIN_VALUE)

ExecFn compare_handler(PtxType t) {
    static const ExecFn TABLE[T_COUNT] = {
        [T_U16] = compare_u16, [T_B16] = compare_u16, [T_S16] = compare_s16, [T_U32] = compare_u32,
        [T_B32] = compare_u32, [T_S32] = compare_s32, [T_U64] = compare_u64, [T_B64] = compare_u64,
        [T_S64] = compare_s64, [T_F32] = compare_f32, [T_F64] = compare_f64, [T_F16] = compare_f16,
        [T_BF16] = compare_bf16};
    return TABLE[t];
}

void exec_testp(Warp *w, const Inst *i, uint32_t mask) {
    uint32_t v = 0;
    for (int l = 0; l < WARP; l++) {
        const double d = float_decode((PtxType)i->type, lane_bits(w, &i->a, l));
        const bool small = d != 0 && fabs(d) < (i->type == T_F32 ? 0x1p-126 : 0x1p-1022);
        bool r = false;
        switch (i->op) {
        case TEST_FINITE: r = isfinite(d); break;
        case TEST_INFINITE: r = isinf(d); break;
        case TEST_NUMBER: r = !isnan(d); break;
        case TEST_NOTANUMBER: r = isnan(d); break;
        case TEST_NORMAL: r = isfinite(d) && d != 0 && !small; break;
        default: r = small; break;
        }
        v |= (uint32_t)r << l;
    }
    predicate_out(w, &i->d, v, mask);
}

/* and, or, xor, not, mov of predicates */
void exec_predicate_logic(Warp *w, const Inst *i, uint32_t mask) {
    const uint32_t a = predicate_in(w, &i->a), b = i->b.base == BASE_NONE ? 0 : predicate_in(w, &i->b);
    uint32_t v = a;
    if (i->op == OP_AND) v = a & b;
    if (i->op == OP_OR) v = a | b;
    if (i->op == OP_XOR) v = a ^ b;
    if (i->op == OP_NOT) v = ~a;
    predicate_out(w, &i->d, v, mask);
}

#define SELECT(N, T)                                                                                                   \
    static void select##N(Warp *w, const Inst *i, uint32_t mask) {                                                     \
        const T *a = lane_in(w, &i->a), *b = lane_in(w, &i->b);                                                        \
        const uint32_t c = predicate_in(w, &i->c);                                                                     \
        T r[WARP];                                                                                                     \
        for (int l = 0; l < WARP; l++) r[l] = c >> l & 1 ? a[l] : b[l];                                                \
        lanes_put(lane_out(w, &i->d), r, sizeof(T), mask);                                                             \
    }                                                                                                                  \
    static void move##N(Warp *w, const Inst *i, uint32_t mask) {                                                       \
        T r[WARP];                                                                                                     \
        memcpy(r, lane_in(w, &i->a), sizeof r);                                                                        \
        lanes_put(lane_out(w, &i->d), r, sizeof(T), mask);                                                             \
    }
SELECT(1, uint8_t)
SELECT(2, uint16_t)
SELECT(4, uint32_t)
SELECT(8, uint64_t)
ExecFn select_handler(int bytes) { return bytes == 1 ? select1 : bytes == 2 ? select2 : bytes == 4 ? select4 : select8; }
ExecFn move_handler(int bytes) { return bytes == 1 ? move1 : bytes == 2 ? move2 : bytes == 4 ? move4 : move8; }

/* d = c >= 0 ? a : b; -0 counts as >= 0, a NaN does not. */
void exec_slct(Warp *w, const Inst *i, uint32_t mask) {
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        const uint32_t bits = (uint32_t)lane_bits(w, &i->c, l);
        const bool first = i->type2 == T_F32 ? float_decode(T_F32, bits) >= 0 : (int32_t)bits >= 0;
        lane_set(w, &i->d, l, lane_bits(w, first ? &i->a : &i->b, l));
    }
}

static uint32_t table_of_three(uint32_t a, uint32_t b, uint32_t c, uint32_t lut) {
    uint32_t r = 0;
    for (int k = 0; k < 8; k++)
        if (lut >> k & 1) r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return r;
}

void exec_lop3(Warp *w, const Inst *i, uint32_t mask) {
    const uint32_t *a = lane_in(w, &i->a), *b = lane_in(w, &i->b), *c = lane_in(w, &i->c);
    uint32_t r[WARP], nonzero = 0;
    for (int l = 0; l < WARP; l++) r[l] = table_of_three(a[l], b[l], c[l], (uint32_t)i->offset);
    for (int l = 0; l < WARP; l++) nonzero |= (uint32_t)(r[l] != 0) << l;
    if (i->has_d2) {
        const uint32_t q = predicate_in(w, &i->e);
        predicate_out(w, &i->d2, i->op2 == BOOL_AND ? nonzero & q : nonzero | q, mask);
    }
    lanes_put(lane_out(w, &i->d), r, sizeof *r, mask);
}

void exec_pack(Warp *w, const Inst *i, uint32_t mask) {
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        uint64_t v = 0;
        for (int k = i->count - 1; k >= 0; k--) v = v << (8 * i->vec[k].bytes) | lane_bits(w, &i->vec[k], l);
        lane_set(w, &i->d, l, v);
    }
}

void exec_unpack(Warp *w, const Inst *i, uint32_t mask) {
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        const uint64_t v = lane_bits(w, &i->a, l);
        for (int k = 0, at = 0; k < i->count; at += 8 * i->vec[k].bytes, k++) lane_set(w, &i->vec[k], l, v >> at);
    }
}
