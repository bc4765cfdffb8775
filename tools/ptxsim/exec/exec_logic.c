/* Comparison, predicates, selection, moves. */
#include "tools/ptxsim/exec/alu.h"
#include "tools/ptxsim/exec/numeric_lanes.h"

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

#define CASE(OP, V, READ, EXPR)                     \
    case COMPARE_##OP:                              \
        LANES {                                     \
            const V x = READ(a[l]), y = READ(b[l]); \
            v[l] = (EXPR) ? -1 : 0;                 \
        }                                           \
        break
#define COMPARE(NAME, T, V, READ)                                         \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {             \
        const T *a = source_lanes(w, &i->a), *b = source_lanes(w, &i->b); \
        _Alignas(64) int32_t v[WARP];                                     \
        switch (i->op) {                                                  \
            CASE(EQ, V, READ, x == y);                                    \
            CASE(NE, V, READ, x<y || x> y);                               \
            CASE(LT, V, READ, x < y);                                     \
            CASE(LE, V, READ, x <= y);                                    \
            CASE(GT, V, READ, x > y);                                     \
            CASE(GE, V, READ, x >= y);                                    \
            CASE(EQU, V, READ, !(x < y || x > y));                        \
            CASE(NEU, V, READ, x != y);                                   \
            CASE(LTU, V, READ, !(x >= y));                                \
            CASE(LEU, V, READ, !(x > y));                                 \
            CASE(GTU, V, READ, !(x <= y));                                \
            CASE(GEU, V, READ, !(x < y));                                 \
            CASE(NUM, V, READ, x == x && y == y);                         \
        default: /* NANTEST */                                            \
            LANES {                                                       \
                const V x = READ(a[l]), y = READ(b[l]);                   \
                v[l] = x != x || y != y ? -1 : 0;                         \
            }                                                             \
        }                                                                 \
        compare_out(w, i, lane_signs(v), mask);                           \
    }
COMPARE(compare_u16, uint16_t, uint16_t, )
COMPARE(compare_s16, int16_t, int16_t, )
COMPARE(compare_u32, uint32_t, uint32_t, )
COMPARE(compare_s32, int32_t, int32_t, )
COMPARE(compare_u64, uint64_t, uint64_t, )
COMPARE(compare_s64, int64_t, int64_t, )
COMPARE(compare_f32, float, float, )
COMPARE(compare_f64, double, double, )
COMPARE(compare_f16, uint16_t, float, decode_f16)
COMPARE(compare_bf16, uint16_t, float, decode_bf16)

/* Of a pair: the lower halves into d, the upper into d2, each combined with the same predicate. */
typedef struct Halves {
    _Alignas(64) uint16_t low[WARP], high[WARP];
} Halves;
static Halves split_pairs(const Warp *w, const Operand *from) {
    const uint32_t *word = source_lanes(w, from);
    Halves h;
    LANES {
        h.low[l] = (uint16_t)word[l];
        h.high[l] = (uint16_t)(word[l] >> 16);
    }
    return h;
}
static inline bool holds(int op, float x, float y) {
    const bool unordered = x != x || y != y;
    switch (op) {
    case COMPARE_EQ: return x == y;
    case COMPARE_NE: return !unordered && x != y;
    case COMPARE_LT: return x < y;
    case COMPARE_LE: return x <= y;
    case COMPARE_GT: return x > y;
    case COMPARE_GE: return x >= y;
    case COMPARE_EQU: return unordered || x == y;
    case COMPARE_NEU: return x != y;
    case COMPARE_LTU: return !(x >= y);
    case COMPARE_LEU: return !(x > y);
    case COMPARE_GTU: return !(x <= y);
    case COMPARE_GEU: return !(x < y);
    case COMPARE_NUM: return !unordered;
    default: return unordered; /* NANTEST */
    }
}
#define COMPARE_PAIRS(NAME, READ)                                                                  \
    static void NAME(Warp *w, const Inst *i, uint32_t mask) {                                      \
        const Halves a = split_pairs(w, &i->a), b = split_pairs(w, &i->b);                         \
        uint32_t low = 0, high = 0;                                                                \
        for (int l = 0; l < WARP; l++) {                                                           \
            low |= (uint32_t)holds(i->op, READ(a.low[l]), READ(b.low[l])) << l;                    \
            high |= (uint32_t)holds(i->op, READ(a.high[l]), READ(b.high[l])) << l;                 \
        }                                                                                          \
        low = combine(w, i, low), high = combine(w, i, high);                                      \
        predicate_out(w, &i->d, low, mask);                                                        \
        if (i->has_d2) predicate_out(w, &i->d2, high, mask);                                       \
    }
COMPARE_PAIRS(compare_f16x2, decode_f16)
COMPARE_PAIRS(compare_bf16x2, decode_bf16)

ExecFn compare_handler(PtxType t) {
    static const ExecFn TABLE[T_COUNT] = {
        [T_U16] = compare_u16,  [T_B16] = compare_u16, [T_S16] = compare_s16, [T_U32] = compare_u32,
        [T_B32] = compare_u32,  [T_S32] = compare_s32, [T_U64] = compare_u64, [T_B64] = compare_u64,
        [T_S64] = compare_s64,  [T_F32] = compare_f32, [T_F64] = compare_f64, [T_F16] = compare_f16,
        [T_BF16] = compare_bf16, [T_F16X2] = compare_f16x2, [T_BF16X2] = compare_bf16x2};
    return TABLE[t];
}

#define TESTP(N, U, INFINITE, NORMAL)                                \
    static uint32_t testp##N(const U *a, int op) {                   \
        const U infinity = INFINITE, normal = NORMAL;                \
        const bool negate = op == TEST_NUMBER;                       \
        const bool zero = op == TEST_NORMAL; /* zeros are normal */  \
        U low = 0, high = 0; /* a magnitude in [low, high] passes */ \
        switch (op) {                                                \
        case TEST_FINITE: high = infinity - 1; break;                \
        case TEST_INFINITE: low = high = infinity; break;            \
        case TEST_NUMBER:                                            \
        case TEST_NOTANUMBER:                                        \
            low = infinity + 1;                                      \
            high = (U)-1;                                            \
            break;                                                   \
        case TEST_NORMAL:                                            \
            low = normal;                                            \
            high = infinity - 1;                                     \
            break;                                                   \
        default:                                                     \
            low = 1;                                                 \
            high = normal - 1;                                       \
            break; /* SUBNORMAL */                                   \
        }                                                            \
        _Alignas(64) int32_t v[WARP];                                \
        LANES {                                                      \
            const U x = a[l] & ((U)-1 >> 1);                         \
            v[l] = (x >= low && x <= high) || (zero && !x) ? -1 : 0; \
        }                                                            \
        return negate ? ~lane_signs(v) : lane_signs(v);              \
    }
TESTP(32, uint32_t, 0x7f800000, 0x00800000)
TESTP(64, uint64_t, 0x7ff0000000000000, 0x0010000000000000)

void exec_testp(Warp *w, const Inst *i, uint32_t mask) {
    const void *a = source_lanes(w, &i->a);
    predicate_out(w, &i->d, i->type == T_F32 ? testp32(a, i->op) : testp64(a, i->op), mask);
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

#define SELECT(N, T)                                                             \
    static void select##N(Warp *w, const Inst *i, uint32_t mask) {               \
        const T *a = source_lanes(w, &i->a), *b = source_lanes(w, &i->b);        \
        const uint32_t first = predicate_in(w, &i->c);                           \
        PUT_LANES(T, const T x = a[l]; const T y = b[l], first >> l & 1 ? x : y) \
    }                                                                            \
    UNARY(move##N, T, T, x)                                                      \
    static void slct_int##N(Warp *w, const Inst *i, uint32_t mask) {             \
        const T *a = source_lanes(w, &i->a), *b = source_lanes(w, &i->b);        \
        const int32_t *c = source_lanes(w, &i->c);                               \
        PUT_LANES(T, const T x = a[l]; const T y = b[l], c[l] >= 0 ? x : y)      \
    }                                                                            \
    static void slct_float##N(Warp *w, const Inst *i, uint32_t mask) {           \
        const T *a = source_lanes(w, &i->a), *b = source_lanes(w, &i->b);        \
        const float *c = source_lanes(w, &i->c);                                 \
        PUT_LANES(T, const T x = a[l]; const T y = b[l], c[l] >= 0 ? x : y)      \
    }
SELECT(1, uint8_t)
SELECT(2, uint16_t)
SELECT(4, uint32_t)
SELECT(8, uint64_t)
ExecFn select_handler(int bytes) {
    return bytes == 1 ? select1 : bytes == 2 ? select2 : bytes == 4 ? select4 : select8;
}
static void move16(Warp *w, const Inst *i, uint32_t mask) { lanes_put(lane_out(w, &i->d), lane_in(w, &i->a), 16, mask); }
ExecFn move_handler(int bytes) {
    return bytes == 1 ? move1 : bytes == 2 ? move2 : bytes == 4 ? move4 : bytes == 8 ? move8 : move16;
}

/* d = c >= 0 ? a : b; -0 counts as >= 0, a NaN does not.  Results have 2, 4 or 8 bytes. */
void exec_slct(Warp *w, const Inst *i, uint32_t mask) {
    static const ExecFn INTEGER[] = {slct_int1, slct_int2, slct_int4, slct_int8};
    static const ExecFn FLOATING[] = {slct_float1, slct_float2, slct_float4, slct_float8};
    (i->type2 == T_F32 ? FLOATING : INTEGER)[__builtin_ctz(i->d.bytes)](w, i, mask);
}

/* Bit k of `with` chosen over bit k of `without` where `by` has it. */
static inline uint32_t choose(uint32_t by, uint32_t with, uint32_t without) {
    return without ^ ((with ^ without) & by);
}
static inline uint32_t spread(uint32_t table, int bit) { return table >> bit & 1 ? UINT32_MAX : 0; }

/* Bit 4a + 2b + c of the table, for every bit of a word. */
static void lop3(Warp *w, const Inst *i, uint32_t mask) {
    const uint32_t *a = source_lanes(w, &i->a), *b = source_lanes(w, &i->b), *c = source_lanes(w, &i->c);
    const uint32_t t = (uint32_t)i->offset, t0 = spread(t, 0), t1 = spread(t, 1), t2 = spread(t, 2), t3 = spread(t, 3),
                   t4 = spread(t, 4), t5 = spread(t, 5), t6 = spread(t, 6), t7 = spread(t, 7);
    PUT_LANES(uint32_t, const uint32_t x = a[l]; const uint32_t y = b[l];
              const uint32_t z = c[l], choose(x, choose(y, choose(z, t7, t6), choose(z, t5, t4)),
                                              choose(y, choose(z, t3, t2), choose(z, t1, t0))))
}

void exec_lop3(Warp *w, const Inst *i, uint32_t mask) {
    lop3(w, i, mask);
    if (!i->has_d2) return;
    const uint32_t *r = source_lanes(w, &i->d), q = predicate_in(w, &i->e);
    _Alignas(64) int32_t v[WARP];
    LANES v[l] = r[l] != 0 ? -1 : 0;
    const uint32_t nonzero = lane_signs(v);
    predicate_out(w, &i->d2, i->op2 == BOOL_AND ? nonzero & q : nonzero | q, mask);
}

/* ---- vectors of registers ----------------------------------------------------------------------------- */
#define PACK(N, WHOLE, PART)                                                           \
    static void pack##N(Warp *w, const Inst *i, uint32_t mask) {                       \
        const PART *a = source_lanes(w, &i->vec[0]), *b = source_lanes(w, &i->vec[1]); \
        PUT_LANES(WHOLE, const WHOLE x = a[l]; const WHOLE y = b[l], y << N | x)       \
    }                                                                                  \
    static void unpack##N(Warp *w, const Inst *i, uint32_t mask) {                     \
        const WHOLE *a = source_lanes(w, &i->a);                                       \
        PART *low = result_lanes(w, &i->vec[0]), *high = result_lanes(w, &i->vec[1]);  \
        LANES {                                                                        \
            low[l] = mask >> l & 1 ? (PART)a[l] : low[l];                              \
            high[l] = mask >> l & 1 ? (PART)(a[l] >> N) : high[l];                     \
        }                                                                              \
    }
PACK(16, uint32_t, uint16_t)
PACK(32, uint64_t, uint32_t)

static void pack_four16(Warp *w, const Inst *i, uint32_t mask) {
    const uint16_t *a = source_lanes(w, &i->vec[0]), *b = source_lanes(w, &i->vec[1]);
    const uint16_t *c = source_lanes(w, &i->vec[2]), *e = source_lanes(w, &i->vec[3]);
    PUT_LANES(uint64_t, const uint64_t low = a[l] | (uint32_t)b[l] << 16;
              const uint64_t high = c[l] | (uint32_t)e[l] << 16, high << 32 | low)
}

/* A value of 128 bits and its halves, of which either may be the other's source. */
static void halves128(const Warp *w, const Operand *whole, const Operand half[2], uint32_t mask, bool pack) {
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        uint8_t *at = (uint8_t *)lane_out(w, whole) + l * 16;
        for (int k = 0; k < 2; k++) {
            uint8_t *part = (uint8_t *)lane_out(w, &half[k]) + l * 8;
            if (pack) memcpy(at + 8 * k, part, 8);
            else memcpy(part, at + 8 * k, 8);
        }
    }
}

void exec_pack(Warp *w, const Inst *i, uint32_t mask) {
    if (i->d.bytes == 16) {
        halves128(w, &i->d, i->vec, mask, true);
        return;
    }
    if (i->count == 2 && i->d.bytes >= 4) {
        (i->d.bytes == 4 ? pack16 : pack32)(w, i, mask);
        return;
    }
    if (i->count == 4 && i->d.bytes == 8) {
        pack_four16(w, i, mask);
        return;
    }
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        uint64_t v = 0;
        for (int k = i->count - 1; k >= 0; k--) v = v << (8 * i->vec[k].bytes) | lane_bits(w, &i->vec[k], l);
        lane_set(w, &i->d, l, v);
    }
}

void exec_unpack(Warp *w, const Inst *i, uint32_t mask) {
    if (i->a.bytes == 16) {
        halves128(w, &i->a, i->vec, mask, false);
        return;
    }
    if (i->count == 2 && i->a.bytes >= 4) {
        (i->a.bytes == 4 ? unpack16 : unpack32)(w, i, mask);
        return;
    }
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        const uint64_t v = lane_bits(w, &i->a, l);
        for (int k = 0, at = 0; k < i->count; at += 8 * i->vec[k].bytes, k++) lane_set(w, &i->vec[k], l, v >> at);
    }
}
