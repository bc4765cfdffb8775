/* Matrix arithmetic; compiled once per instruction-set level, with the same bits from each (alu.h). */
#include "tools/ptxsim/exec/alu.h"
#include "tools/ptxsim/exec/alu_level.h"
#include "tools/ptxsim/exec/matrix.h"

/* Vectors of the level's width; 32 lanes are PARTS of them. */
#if defined(__AVX512F__)
enum { VECTOR = 64 };
#elif defined(__AVX2__)
enum { VECTOR = 32 };
#else
enum { VECTOR = 16 };
#endif
enum { PARTS = WARP * 4 / VECTOR, CANONICAL_NAN = 0x7fffffff };
typedef float Floats __attribute__((vector_size(VECTOR)));
typedef uint32_t Words __attribute__((vector_size(VECTOR)));
typedef int32_t Ints __attribute__((vector_size(VECTOR)));

/* ---- element types ------------------------------------------------------------------------------------ */
static inline float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline uint32_t bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* The exponent is rebased by a multiplication, which is exact, subnormal values included. */
static inline uint32_t f16_to_f32(uint32_t h) {
    const uint32_t magnitude = (h & 0x7fff) << 13;
    const uint32_t finite = bits_of_float(float_of(magnitude) * 0x1p112f);
    const uint32_t special = magnitude | 0x7f800000;
    return ((h & 0x7c00) == 0x7c00 ? special : finite) | (h & 0x8000) << 16;
}

/* e4m3 has no infinity and one NaN per sign. */
static inline uint32_t e4m3_to_f32(uint32_t b) {
    const uint32_t finite = bits_of_float(float_of((b & 0x7f) << 20) * 0x1p120f);
    return ((b & 0x7f) == 0x7f ? CANONICAL_NAN : finite) | (b & 0x80) << 24;
}

static inline uint16_t f32_to_f16(uint32_t f) {
    const uint32_t a = f & 0x7fffffff;
    const uint32_t small = bits_of_float(float_of(a) + 0.5f) - 0x3f000000; /* the addition rounds at f16's last place */
    const uint32_t normal = (a + 0xc8000fffu + (a >> 13 & 1)) >> 13;
    const uint32_t value = a > 0x7f800000 ? 0x7fffu : a >= 0x477ff000 ? 0x7c00u : a < 0x38800000 ? small : normal;
    return (uint16_t)(value | (a > 0x7f800000 ? 0 : f >> 16 & 0x8000));
}

static void narrow(uint16_t *to, const uint32_t *from, int n) {
    for (int k = 0; k < n; k++) to[k] = f32_to_f16(from[k]);
}

static void widen_nibbles(uint32_t *to, const uint8_t *from, int n, bool with_sign) {
    for (int k = 0; k < n; k++) {
        const uint32_t v = (uint32_t)from[k / 2] >> (k % 2 * 4) & 15;
        to[k] = with_sign ? (v ^ 8) - 8 : v;
    }
}

static void widen(PtxType t, uint32_t *restrict to, const void *restrict from, int n) {
    const uint16_t *h = from;
    const uint32_t *w = from;
    const uint8_t *b = from;
    switch (t) {
    case T_F16:
        for (int k = 0; k < n; k++) to[k] = f16_to_f32(h[k]);
        break;
    case T_BF16:
        for (int k = 0; k < n; k++) to[k] = (uint32_t)h[k] << 16;
        break;
    case T_TF32:
        for (int k = 0; k < n; k++) to[k] = w[k] & 0xffffe000;
        break;
    case T_E5M2:
        for (int k = 0; k < n; k++) to[k] = f16_to_f32((uint32_t)b[k] << 8);
        break;
    case T_E4M3:
        for (int k = 0; k < n; k++) to[k] = e4m3_to_f32(b[k]);
        break;
    case T_S8:
        for (int k = 0; k < n; k++) to[k] = (uint32_t)(int8_t)b[k];
        break;
    case T_U8:
        for (int k = 0; k < n; k++) to[k] = b[k];
        break;
    case T_S4:
    case T_U4: widen_nibbles(to, b, n, t == T_S4); break;
    default: memcpy(to, from, (size_t)n * sizeof *to); break; /* F32, S32 */
    }
}

/* ---- products ----------------------------------------------------------------------------------------- */
/* 4 values, repeated over a vector. */
static inline Words spread(const uint32_t *p) {
#if defined(__AVX512F__)
    return (Words)_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p));
#elif defined(__AVX2__)
    return (Words)_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
#else
    Words v;
    memcpy(&v, p, sizeof v);
    return v;
#endif
}

static inline Words canonical(Floats v) {
    const Words bits = (Words)v, nan = (Words)(v != v);
    return (bits & ~nan) | (nan & CANONICAL_NAN);
}

/* Row blocks of one column block: `blocks` is a constant at every call, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void block_f32(Words *sum, const Words *left, const uint32_t *right,
                                                            const int blocks, int k) {
    Floats even[2 * PARTS], odd[2 * PARTS];
    for (int r = 0; r < PARTS * blocks; r++) {
        even[r] = (Floats)sum[r / PARTS * 2 * PARTS + r % PARTS];
        odd[r] = (Floats)sum[r / PARTS * 2 * PARTS + PARTS + r % PARTS];
    }
    for (int t = 0; t < k; t++) {
        const Floats b0 = (Floats)spread(right + 4 * t), b1 = (Floats)spread(right + 4 * (k + t));
        for (int r = 0; r < PARTS * blocks; r++) {
            const Floats a = (Floats)left[(r / PARTS * k + t) * PARTS + r % PARTS];
            even[r] += a * b0;
            odd[r] += a * b1;
        }
    }
    for (int r = 0; r < PARTS * blocks; r++) {
        sum[r / PARTS * 2 * PARTS + r % PARTS] = canonical(even[r]);
        sum[r / PARTS * 2 * PARTS + PARTS + r % PARTS] = canonical(odd[r]);
    }
}

static void multiply_f32(uint32_t *sum, const uint32_t *left, const uint32_t *right, int row_blocks, int column_blocks,
                         int k) {
    const Words *l = (const Words *)(const void *)left;
    Words *s = (Words *)(void *)sum;
    for (int j = 0; j < column_blocks; j++, right += 8 * k) {
        if (VECTOR == 64 && row_blocks == 2) { /* both at once: enough independent sums to hide the adder's latency */
            block_f32(s, l, right, 2, k);
            s += 4 * PARTS;
            continue;
        }
        for (int r = 0; r < row_blocks; r++, s += 2 * PARTS) block_f32(s, l + r * k * PARTS, right, 1, k);
    }
}

static inline Words add_clamped(Words a, Words b) {
    const Words s = a + b, overflow = (Words)((Ints)(~(a ^ b) & (a ^ s)) >> 31);
    const Words limit = (Words)((Ints)a >> 31) ^ 0x7fffffff;
    return (s & ~overflow) | (limit & overflow);
}

static void multiply_s32(uint32_t *sum, const uint32_t *left, const uint32_t *right, int row_blocks, int column_blocks,
                         int k, bool saturate) {
    const Words *l = (const Words *)(const void *)left;
    Words *s = (Words *)(void *)sum;
    for (int j = 0; j < column_blocks; j++, right += 8 * k)
        for (int r = 0; r < 2 * row_blocks; r++) /* row block, even or odd columns */
            for (int h = 0; h < PARTS; h++, s++) {
                Words products = {0};
                for (int t = 0; t < k; t++)
                    products += l[(r / 2 * k + t) * PARTS + h] * spread(right + (r % 2 * k + t) * 4);
                *s = saturate ? add_clamped(*s, products) : *s + products;
            }
}

extern const MatrixKernels ALU(matrix_level);
const MatrixKernels ALU(matrix_level) = {
    .widen = widen, .narrow = narrow, .multiply_f32 = multiply_f32, .multiply_s32 = multiply_s32};
