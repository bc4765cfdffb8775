/* Integer and bit arithmetic.  Expressions are total (no division by zero, no shift past the width), so that inactive
 * lanes may be computed too. */
#include "tools/ptxsim/exec/alu.h"

/* ---- division: by zero unspecified in PTX; here all ones and the dividend, as hardware gives ------------- */
static inline double exact_double(uint32_t x) {
    const uint64_t bits = UINT64_C(0x4330000000000000) | x; /* 2^52 + x */
    double d;
    memcpy(&d, &bits, sizeof d);
    return d - 0x1p52;
}

/* Through doubles, which vectors can divide: the rounded quotient is the true one or one more. */
static inline uint32_t quotient(uint32_t x, uint32_t y) {
    const double q = exact_double(x) / exact_double(y) + 0x1p52;
    uint64_t bits;
    memcpy(&bits, &q, sizeof bits);
    const uint32_t n = (uint32_t)bits;
    return y == 0 ? UINT32_MAX : (uint64_t)n * y > x ? n - 1 : n;
}
static inline int32_t signed_quotient(int32_t x, int32_t y) {
    const uint32_t q = quotient(x < 0 ? 0 - (uint32_t)x : (uint32_t)x, y < 0 ? 0 - (uint32_t)y : (uint32_t)y);
    return y == 0 ? -1 : (int32_t)((x ^ y) < 0 ? 0 - q : q);
}
static inline uint32_t remainder32(uint32_t x, uint32_t y) { return y == 0 ? x : x - quotient(x, y) * y; }
static inline int32_t signed_remainder(int32_t x, int32_t y) {
    return y == 0 ? x : (int32_t)((uint32_t)x - (uint32_t)signed_quotient(x, y) * (uint32_t)y);
}
#define DIVISION(N, U, S)                           \
    BINARY(divu##N, U, U, U, quotient(x, y))        \
    BINARY(divs##N, S, S, S, signed_quotient(x, y)) \
    BINARY(remu##N, U, U, U, remainder32(x, y))     \
    BINARY(rems##N, S, S, S, signed_remainder(x, y))
DIVISION(16, uint16_t, int16_t)
DIVISION(32, uint32_t, int32_t)
BINARY(divu64, uint64_t, uint64_t, uint64_t, y == 0 ? UINT64_MAX : x / y)
BINARY(divs64, int64_t, int64_t, int64_t, y == 0 ? -1 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y)
BINARY(remu64, uint64_t, uint64_t, uint64_t, y == 0 ? x : x % y)
BINARY(rems64, int64_t, int64_t, int64_t, y == 0 ? x : y == -1 ? 0 : x % y)

/* ---- sums, extremes, logic; 1u * x is unsigned in at least 32 bits --------------------------------------- */
#define INTEGER(N, U, S)                                                  \
    BINARY(add##N, U, U, U, x + y)                                        \
    BINARY(sub##N, U, U, U, x - y)                                        \
    BINARY(mul##N, U, U, U, 1u * x * y)                                   \
    TERNARY(mad##N, U, U, U, U, 1u * x * y + z)                           \
    TERNARY(sadu##N, U, U, U, U, z + (x < y ? y - x : x - y))             \
    TERNARY(sads##N, U, S, S, U, z + (x < y ? (U)y - (U)x : (U)x - (U)y)) \
    UNARY(abs##N, U, S, x < 0 ? 0 - (U)x : (U)x)                          \
    UNARY(neg##N, U, U, 0 - x)                                            \
    BINARY(and##N, U, U, U, x &y)                                         \
    BINARY(or ##N, U, U, U, x | y)                                        \
    BINARY(xor##N, U, U, U, x ^ y)                                        \
    UNARY(not ##N, U, U, ~x)                                              \
    UNARY(cnot##N, U, U, x == 0)                                          \
    BINARY(shl##N, U, U, uint32_t, y >= N ? 0 : 1u * x << (y & (N - 1)))  \
    BINARY(shru##N, U, U, uint32_t, y >= N ? 0 : x >> (y & (N - 1)))      \
    BINARY(shrs##N, S, S, uint32_t, x >> (y >= N ? N - 1 : y))
INTEGER(16, uint16_t, int16_t)
INTEGER(32, uint32_t, int32_t)
INTEGER(64, uint64_t, int64_t)
#define EXTREMES(N, U, S)                   \
    BINARY(minu##N, U, U, U, x < y ? x : y) \
    BINARY(mins##N, S, S, S, x < y ? x : y) \
    BINARY(maxu##N, U, U, U, x > y ? x : y) \
    BINARY(maxs##N, S, S, S, x > y ? x : y)
EXTREMES(32, uint32_t, int32_t)
EXTREMES(64, uint64_t, int64_t)
/* gcc 12 fails on masked extremes of 16-bit lanes: by the sign of the difference instead. */
static inline int32_t negative_part(int32_t d) { return d & d >> 31; }
BINARY(minu16, uint16_t, uint16_t, uint16_t, y + negative_part(x - y))
BINARY(mins16, int16_t, int16_t, int16_t, y + negative_part(x - y))
BINARY(maxu16, uint16_t, uint16_t, uint16_t, x - negative_part(x - y))
BINARY(maxs16, int16_t, int16_t, int16_t, x - negative_part(x - y))

/* ---- pairs of 16 bits in a word ------------------------------------------------------------------------- */
static inline uint32_t pair(uint32_t low, uint32_t high) { return (low & 0xffff) | high << 16; }
static inline uint32_t lesser(int32_t x, int32_t y) { return (uint32_t)(y + negative_part(x - y)); }
static inline uint32_t greater(int32_t x, int32_t y) { return (uint32_t)(x - negative_part(x - y)); }
#define PAIRS(NAME, OF, HALF)                         \
    BINARY(NAME##16x2, uint32_t, uint32_t, uint32_t, \
           pair(OF((HALF)x, (HALF)y), OF((HALF)(x >> 16), (HALF)(y >> 16))))
BINARY(add16x2, uint32_t, uint32_t, uint32_t, pair(x + y, (x >> 16) + (y >> 16)))
PAIRS(minu, lesser, uint16_t)
PAIRS(mins, lesser, int16_t)
PAIRS(maxu, greater, uint16_t)
PAIRS(maxs, greater, int16_t)

/* ---- products ----------------------------------------------------------------------------------------- */
static uint64_t high64u(uint64_t x, uint64_t y) { return (uint64_t)((unsigned __int128)x * y >> 64); }
static uint64_t high64s(int64_t x, int64_t y) { return (uint64_t)((unsigned __int128)((__int128)x * y) >> 64); }
#define HIGH(N, U, S, HU, HS)                \
    BINARY(mulhiu##N, U, U, U, HU)           \
    BINARY(mulhis##N, U, S, S, HS)           \
    TERNARY(madhiu##N, U, U, U, U, (HU) + z) \
    TERNARY(madhis##N, U, S, S, U, (HS) + z)
HIGH(16, uint16_t, int16_t, (uint32_t)x *y >> 16, (uint32_t)((int32_t)x *y) >> 16)
HIGH(32, uint32_t, int32_t, (uint64_t)x *y >> 32, (uint64_t)((int64_t)x *y) >> 32)
HIGH(64, uint64_t, int64_t, high64u(x, y), high64s(x, y))
#define WIDE(N, U, S, WU, WS)                        \
    BINARY(mulwideu##N, WU, U, U, (WU)x *y)          \
    BINARY(mulwides##N, WU, S, S, (WS)x *y)          \
    TERNARY(madwideu##N, WU, U, U, WU, (WU)x *y + z) \
    TERNARY(madwides##N, WU, S, S, WU, (WU)((WS)x * y) + z)
WIDE(16, uint16_t, int16_t, uint32_t, int32_t)
WIDE(32, uint32_t, int32_t, uint64_t, int64_t)

static uint64_t low24(uint32_t x) { return x & 0xffffff; }
static int64_t low24s(uint32_t x) { return (int64_t)(int32_t)(x << 8) >> 8; }
BINARY(mul24u, uint32_t, uint32_t, uint32_t, low24(x) * low24(y))
BINARY(mul24s, uint32_t, uint32_t, uint32_t, low24s(x) * low24s(y))
BINARY(mul24hiu, uint32_t, uint32_t, uint32_t, low24(x) * low24(y) >> 16)
BINARY(mul24his, uint32_t, uint32_t, uint32_t, low24s(x) * low24s(y) >> 16)
TERNARY(mad24u, uint32_t, uint32_t, uint32_t, uint32_t, low24(x) * low24(y) + z)
TERNARY(mad24s, uint32_t, uint32_t, uint32_t, uint32_t, (uint64_t)(low24s(x) * low24s(y)) + z)
TERNARY(mad24hiu, uint32_t, uint32_t, uint32_t, uint32_t, (low24(x) * low24(y) >> 16) + z)
TERNARY(mad24his, uint32_t, uint32_t, uint32_t, uint32_t, (uint64_t)(low24s(x) * low24s(y) >> 16) + z)

ExecFn mul_handler(int op, int half, PtxType t) {
    static const ExecFn MUL[4][T_COUNT] = {
        [HALF_LO] =
            {[T_U16] = mul16, [T_S16] = mul16, [T_U32] = mul32, [T_S32] = mul32, [T_U64] = mul64, [T_S64] = mul64},
        [HALF_HI] = {[T_U16] = mulhiu16,
                     [T_S16] = mulhis16,
                     [T_U32] = mulhiu32,
                     [T_S32] = mulhis32,
                     [T_U64] = mulhiu64,
                     [T_S64] = mulhis64},
        [HALF_WIDE] = {[T_U16] = mulwideu16, [T_S16] = mulwides16, [T_U32] = mulwideu32, [T_S32] = mulwides32},
    };
    static const ExecFn MAD[4][T_COUNT] = {
        [HALF_LO] =
            {[T_U16] = mad16, [T_S16] = mad16, [T_U32] = mad32, [T_S32] = mad32, [T_U64] = mad64, [T_S64] = mad64},
        [HALF_HI] = {[T_U16] = madhiu16,
                     [T_S16] = madhis16,
                     [T_U32] = madhiu32,
                     [T_S32] = madhis32,
                     [T_U64] = madhiu64,
                     [T_S64] = madhis64},
        [HALF_WIDE] = {[T_U16] = madwideu16, [T_S16] = madwides16, [T_U32] = madwideu32, [T_S32] = madwides32},
    };
    static const ExecFn SHORT[2][4][T_COUNT] = {
        {[HALF_LO] = {[T_U32] = mul24u, [T_S32] = mul24s}, [HALF_HI] = {[T_U32] = mul24hiu, [T_S32] = mul24his}},
        {[HALF_LO] = {[T_U32] = mad24u, [T_S32] = mad24s}, [HALF_HI] = {[T_U32] = mad24hiu, [T_S32] = mad24his}}};
    switch (op) {
    case OP_MUL: return MUL[half][t];
    case OP_MAD: return MAD[half][t];
    case OP_MUL24: return SHORT[0][half][t];
    case OP_MAD24: return SHORT[1][half][t];
    default: return NULL;
    }
}

/* ---- bits --------------------------------------------------------------------------------------------- */
static uint64_t reverse_bits(uint64_t x) {
    x = (x >> 1 & UINT64_C(0x5555555555555555)) | (x & UINT64_C(0x5555555555555555)) << 1;
    x = (x >> 2 & UINT64_C(0x3333333333333333)) | (x & UINT64_C(0x3333333333333333)) << 2;
    x = (x >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
    return __builtin_bswap64(x);
}
/* Highest bit that differs from the sign; all ones when there is none. */
static uint32_t find_high(uint64_t x, bool shift_amount, int bits) {
    if (!x) return UINT32_MAX;
    const uint32_t at = 63 - (uint32_t)__builtin_clzll(x);
    return shift_amount ? (uint32_t)bits - 1 - at : at;
}
/* What an H200 makes of positions and lengths beyond the ISA's 0..255: of 32 bits it takes their low 8 bits, of 64 all. */
static uint32_t field_size(uint32_t operand, int bits) {
    const uint32_t most = 255;
    return bits == 32 ? operand & most : operand < most ? operand : most;
}
static uint64_t extract(uint64_t x, uint32_t pos, uint32_t len, int bits, bool is_signed) {
    pos = field_size(pos, bits);
    len = field_size(len, bits);
    const uint32_t top = (uint32_t)bits - 1, last = pos + len - 1 < top ? pos + len - 1 : top;
    const bool sign = is_signed && len && (x >> last & 1);
    uint64_t r = pos > top ? 0 : x >> pos;
    if (len < 64) r &= (UINT64_C(1) << len) - 1;
    if (len == 0) return 0;
    const uint32_t have = pos > top ? 0 : top - pos + 1 < len ? top - pos + 1 : len;
    if (sign && have < 64) r |= ~UINT64_C(0) << have;
    return r;
}
static uint64_t insert(uint64_t field, uint64_t into, uint32_t pos, uint32_t len, int bits) {
    pos = field_size(pos, bits);
    len = field_size(len, bits);
    if (pos >= (uint32_t)bits || !len) return into;
    const uint64_t m = (len >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << len) - 1) << pos;
    return (into & ~m) | ((field << pos) & m);
}
UNARY(popc32, uint32_t, uint32_t, __builtin_popcount(x))
UNARY(popc64, uint32_t, uint64_t, __builtin_popcountll(x))
UNARY(clz32, uint32_t, uint32_t, x ? __builtin_clz(x) : 32)
UNARY(clz64, uint32_t, uint64_t, x ? __builtin_clzll(x) : 64)
UNARY(brev32, uint32_t, uint32_t, reverse_bits(x) >> 32)
UNARY(brev64, uint64_t, uint64_t, reverse_bits(x))
UNARY(bfindu32, uint32_t, uint32_t, find_high(x, i->op2, 32))
UNARY(bfinds32, uint32_t, int32_t, find_high((uint32_t)(x < 0 ? ~x : x), i->op2, 32))
UNARY(bfindu64, uint32_t, uint64_t, find_high(x, i->op2, 64))
UNARY(bfinds64, uint32_t, int64_t, find_high((uint64_t)(x < 0 ? ~x : x), i->op2, 64))
TERNARY(bfeu32, uint32_t, uint32_t, uint32_t, uint32_t, extract(x, y, z, 32, false))
TERNARY(bfes32, uint32_t, uint32_t, uint32_t, uint32_t, extract(x, y, z, 32, true))
TERNARY(bfeu64, uint64_t, uint64_t, uint32_t, uint32_t, extract(x, y, z, 64, false))
TERNARY(bfes64, uint64_t, uint64_t, uint32_t, uint32_t, extract(x, y, z, 64, true))
TERNARY(bfi32, uint32_t, uint32_t, uint32_t, uint32_t, insert(x, y, z, ((const uint32_t *)lane_in(w, &i->e))[l], 32))
TERNARY(bfi64, uint64_t, uint64_t, uint64_t, uint32_t, insert(x, y, z, ((const uint32_t *)lane_in(w, &i->e))[l], 64))

/* The eight bytes of {b, a}, four of them chosen; the top bit of a selector copies the chosen byte's sign. */
static inline uint32_t permuted_byte(uint64_t bytes, uint32_t select) {
    const uint32_t byte = (uint32_t)(bytes >> 8 * (select & 7)) & 255;
    return select & 8 ? (0 - (byte >> 7)) & 255 : byte;
}
static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t bytes = (uint64_t)b << 32 | a;
    return permuted_byte(bytes, c & 15) | permuted_byte(bytes, c >> 4 & 15) << 8 |
           permuted_byte(bytes, c >> 8 & 15) << 16 | permuted_byte(bytes, c >> 12 & 15) << 24;
}
/* The modes stand for these selectors, by the low two bits of c. */
static const uint16_t SELECTORS[7][4] = {
    [PERMUTE_F4E] = {0x3210, 0x4321, 0x5432, 0x6543}, [PERMUTE_B4E] = {0x5670, 0x6701, 0x7012, 0x0123},
    [PERMUTE_RC8] = {0x0000, 0x1111, 0x2222, 0x3333}, [PERMUTE_ECL] = {0x3210, 0x3211, 0x3222, 0x3333},
    [PERMUTE_ECR] = {0x0000, 0x1110, 0x2210, 0x3210}, [PERMUTE_RC16] = {0x1010, 0x3232, 0x1010, 0x3232},
};
TERNARY(permute_plain, uint32_t, uint32_t, uint32_t, uint32_t, permute(x, y, z))
TERNARY(permute_mode, uint32_t, uint32_t, uint32_t, uint32_t, permute(x, y, SELECTORS[i->op2][z & 3]))
static void prmt32(Warp *w, const Inst *i, uint32_t mask) {
    if (i->op2)
        permute_mode(w, i, mask);
    else
        permute_plain(w, i, mask);
}

/* A funnel shift of {b, a}. */
static uint32_t funnel(uint32_t a, uint32_t b, uint32_t c, int mode) {
    const uint64_t both = (uint64_t)b << 32 | a;
    const uint32_t n = (mode >> 2) == WRAP_CLAMP ? (c < 32 ? c : 32) : c & 31;
    return (mode & 3) == DIRECTION_LEFT ? (uint32_t)(both << n >> 32) : (uint32_t)(both >> n);
}
TERNARY(shf32, uint32_t, uint32_t, uint32_t, uint32_t, funnel(x, y, z, i->op2))

/* Position of the n-th set bit at or beside `base`; n < 0 searches downwards; all ones when there is none. */
static uint32_t find_nth(uint32_t x, uint32_t base, int32_t n) {
    if (base > 31) return UINT32_MAX;
    if (n == 0) return x >> base & 1 ? base : UINT32_MAX;
    const int step = n > 0 ? 1 : -1;
    int64_t left = n > 0 ? n : -(int64_t)n;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if ((x >> at & 1) && --left == 0) return (uint32_t)at;
    return UINT32_MAX;
}
TERNARY(fns32, uint32_t, uint32_t, uint32_t, int32_t, find_nth(x, y, z))

/* Ones from bit `pos`, `len` of them.  .clamp: a position past the word gives none, a longer length all above; .wrap:
 * both modulo 32. */
static inline uint32_t bit_mask(uint32_t pos, uint32_t len, bool clamp) {
    const uint32_t from = UINT32_MAX << (pos & 31), end = (pos & 31) + (len & 31);
    const uint32_t above = end > 31 || (clamp && len > 31) ? 0 : UINT32_MAX << end;
    return clamp && pos > 31 ? 0 : from & ~above;
}
/* The low `bits` of x, extended; .clamp: all of x from 32 on, .wrap: modulo 32. */
static inline uint32_t extend(uint32_t x, uint32_t bits, bool clamp, bool is_signed) {
    const uint32_t n = bits & 31, unused = (32 - n) & 31;
    const uint32_t cut = is_signed ? (uint32_t)((int32_t)(x << unused) >> unused) : x << unused >> unused;
    return clamp && bits > 31 ? x : n ? cut : 0;
}
BINARY(bmsk32, uint32_t, uint32_t, uint32_t, bit_mask(x, y, i->op2 == WRAP_CLAMP))
BINARY(szextu32, uint32_t, uint32_t, uint32_t, extend(x, y, i->op2 == WRAP_CLAMP, false))
BINARY(szexts32, uint32_t, uint32_t, uint32_t, extend(x, y, i->op2 == WRAP_CLAMP, true))

#define PACKED(op, u, s) [op] = {SIGNED_ROW(u, s), [T_U16X2] = u##16x2, [T_S16X2] = s##16x2}
#define SIGNED_ROW(u, s) \
    [T_U16] = u##16, [T_U32] = u##32, [T_U64] = u##64, [T_S16] = s##16, [T_S32] = s##32, [T_S64] = s##64
#define SIGNED_AND_NOT(op, u, s) \
    [op] = {SIGNED_ROW(u, s)}
#define BITWISE(op, f) [op] = {[T_B16] = f##16, [T_B32] = f##32, [T_B64] = f##64}
ExecFn int_handler(int op, PtxType t) {
    static const ExecFn TABLE[OP_COUNT][T_COUNT] = {
        PACKED(OP_ADD, add, add),
        SIGNED_AND_NOT(OP_SUB, sub, sub),
        SIGNED_AND_NOT(OP_DIV, divu, divs),
        SIGNED_AND_NOT(OP_REM, remu, rems),
        PACKED(OP_MIN, minu, mins),
        PACKED(OP_MAX, maxu, maxs),
        SIGNED_AND_NOT(OP_SAD, sadu, sads),
        [OP_ABS] = {[T_S16] = abs16, [T_S32] = abs32, [T_S64] = abs64},
        [OP_NEG] = {[T_S16] = neg16, [T_S32] = neg32, [T_S64] = neg64},
        BITWISE(OP_AND, and),
        BITWISE(OP_OR, or),
        BITWISE(OP_XOR, xor),
        BITWISE(OP_NOT, not ),
        BITWISE(OP_CNOT, cnot),
        BITWISE(OP_SHL, shl),
        [OP_SHR] = {[T_B16] = shru16,
                    [T_B32] = shru32,
                    [T_B64] = shru64,
                    [T_U16] = shru16,
                    [T_U32] = shru32,
                    [T_U64] = shru64,
                    [T_S16] = shrs16,
                    [T_S32] = shrs32,
                    [T_S64] = shrs64},
        [OP_POPC] = {[T_B32] = popc32, [T_B64] = popc64},
        [OP_CLZ] = {[T_B32] = clz32, [T_B64] = clz64},
        [OP_BREV] = {[T_B32] = brev32, [T_B64] = brev64},
        [OP_BFIND] = {[T_U32] = bfindu32, [T_S32] = bfinds32, [T_U64] = bfindu64, [T_S64] = bfinds64},
        [OP_BFE] = {[T_U32] = bfeu32, [T_S32] = bfes32, [T_U64] = bfeu64, [T_S64] = bfes64},
        [OP_BFI] = {[T_B32] = bfi32, [T_B64] = bfi64},
        [OP_PRMT] = {[T_B32] = prmt32},
        [OP_SHF] = {[T_B32] = shf32},
        [OP_BMSK] = {[T_B32] = bmsk32},
        [OP_SZEXT] = {[T_U32] = szextu32, [T_S32] = szexts32},
        [OP_FNS] = {[T_B32] = fns32},
    };
    return TABLE[op][t];
}

ExecFn arith_handler(int op, PtxType t) {
    ExecFn f = int_handler(op, t);
    if (!f) f = float_handler(op, t);
    if (!f) f = half_handler(op, t);
    return f;
}

/* ---- carries and saturation --------------------------------------------------------------------------- */
/* a + b + carry, and a - b as a + ~b + carry. */
#define CARRY(N, U)                                                                                             \
    static void carry##N(Warp *w, const Inst *i, uint32_t mask) {                                               \
        const U *a = source_lanes(w, &i->a), *b = source_lanes(w, &i->b);                                       \
        const bool subtract = i->op == OP_SUB || i->op == OP_SUBC, with = i->op == OP_ADDC || i->op == OP_SUBC; \
        const U flip = subtract ? (U)-1 : 0;                                                                    \
        const uint32_t in = with ? w->carry : subtract ? UINT32_MAX : 0;                                        \
        int32_t out[WARP];                                                                                      \
        U r[WARP];                                                                                              \
        LANES {                                                                                                 \
            const U x = a[l], sum = x + (b[l] ^ flip);                                                          \
            r[l] = sum + (in >> l & 1);                                                                         \
            out[l] = sum < x || r[l] < sum ? -1 : 0;                                                            \
        }                                                                                                       \
        if (i->op2) w->carry = (w->carry & ~mask) | (lane_signs(out) & mask);                                   \
        lanes_put(lane_out(w, &i->d), r, sizeof *r, mask);                                                      \
    }
CARRY(32, uint32_t)
CARRY(64, uint64_t)
void exec_carry(Warp *w, const Inst *i, uint32_t mask) {
    if (i->d.bytes == 4)
        carry32(w, i, mask);
    else
        carry64(w, i, mask);
}

/* mad and madc with the condition code: the carry is that of the addition alone. */
static uint32_t high32u(uint32_t x, uint32_t y) { return (uint32_t)((uint64_t)x * y >> 32); }
static uint32_t high32s(int32_t x, int32_t y) { return (uint32_t)((uint64_t)((int64_t)x * y) >> 32); }
#define MAD_CARRY(N, U, S)                                                                                        \
    static void mad_carry##N(Warp *w, const Inst *i, uint32_t mask) {                                             \
        const U *a = source_lanes(w, &i->a), *b = source_lanes(w, &i->b), *c = source_lanes(w, &i->c);            \
        const bool high = i->op2 >> 1 == HALF_HI, is_signed = type_is_signed((PtxType)i->type);                   \
        const uint32_t in = i->op == OP_MADC ? w->carry : 0;                                                      \
        int32_t out[WARP];                                                                                        \
        U r[WARP];                                                                                                \
        LANES {                                                                                                   \
            const U x = a[l], y = b[l];                                                                           \
            const U product = !high ? x * y : is_signed ? high##N##s((S)x, (S)y) : high##N##u(x, y);              \
            const U sum = product + c[l];                                                                         \
            r[l] = sum + (in >> l & 1);                                                                           \
            out[l] = sum < product || r[l] < sum ? -1 : 0;                                                        \
        }                                                                                                         \
        if (i->op2 & 1) w->carry = (w->carry & ~mask) | (lane_signs(out) & mask);                                 \
        lanes_put(lane_out(w, &i->d), r, sizeof *r, mask);                                                        \
    }
MAD_CARRY(32, uint32_t, int32_t)
MAD_CARRY(64, uint64_t, int64_t)
void exec_mad_carry(Warp *w, const Inst *i, uint32_t mask) {
    (i->d.bytes == 4 ? mad_carry32 : mad_carry64)(w, i, mask);
}

static inline int32_t clamp_to_s32(int64_t v) {
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}
BINARY(add_sat, int32_t, int32_t, int32_t, clamp_to_s32((int64_t)x + y))
BINARY(sub_sat, int32_t, int32_t, int32_t, clamp_to_s32((int64_t)x - y))
void exec_add_sat(Warp *w, const Inst *i, uint32_t mask) {
    if (i->op == OP_SUB)
        sub_sat(w, i, mask);
    else
        add_sat(w, i, mask);
}
/* mad.hi.sat.s32 and mad24.hi.sat.s32: the sum of the product's upper part is clamped. */
TERNARY(mad_sat, int32_t, int32_t, int32_t, int32_t, clamp_to_s32(((int64_t)x * y >> 32) + z))
TERNARY(mad24_sat, int32_t, uint32_t, uint32_t, int32_t, clamp_to_s32((low24s(x) * low24s(y) >> 16) + z))
void exec_mad_sat(Warp *w, const Inst *i, uint32_t mask) { (i->op == OP_MAD ? mad_sat : mad24_sat)(w, i, mask); }

/* ---- dot products of bytes ------------------------------------------------------------------------------ */
/* Sums wrap, so they may be unsigned; dp2a takes the lower or the upper two bytes of b (op2: the shift). */
#define TERM(A, a_shift, B, b_shift) ((uint32_t)((int32_t)(A)(x >> (a_shift)) * (int32_t)(B)(y >> (b_shift))))
#define DOT(NAME, A8, A16, B8)                                                                                   \
    TERNARY(dot4_##NAME, uint32_t, uint32_t, uint32_t, uint32_t,                                                 \
            z + TERM(A8, 0, B8, 0) + TERM(A8, 8, B8, 8) + TERM(A8, 16, B8, 16) + TERM(A8, 24, B8, 24))           \
    TERNARY(dot2_##NAME, uint32_t, uint32_t, uint32_t, uint32_t,                                                 \
            z + TERM(A16, 0, B8, i->op2) + TERM(A16, 16, B8, i->op2 + 8))
DOT(uu, uint8_t, uint16_t, uint8_t)
DOT(us, uint8_t, uint16_t, int8_t)
DOT(su, int8_t, int16_t, uint8_t)
DOT(ss, int8_t, int16_t, int8_t)
void exec_dot(Warp *w, const Inst *i, uint32_t mask) {
    static const ExecFn TABLE[2][2][2] = {{{dot4_uu, dot4_us}, {dot4_su, dot4_ss}}, {{dot2_uu, dot2_us}, {dot2_su, dot2_ss}}};
    TABLE[i->op == OP_DP2A][i->type == T_S32][i->type2 == T_S32](w, i, mask);
}
