/* Formats of numbers without a branch or a call, so that loops over lanes become vectors; the same results as numeric.h
 * gives one at a time, rounded to nearest even. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FLOAT_BITS(N, D, QUIET)                                       \
    static inline uint##N##_t bits##N(D x) {                          \
        uint##N##_t b;                                                \
        memcpy(&b, &x, sizeof b);                                     \
        return b;                                                     \
    }                                                                 \
    static inline D value##N(uint##N##_t b) {                         \
        D x;                                                          \
        memcpy(&x, &b, sizeof x);                                     \
        return x;                                                     \
    }                                                                 \
    static inline D not_a_number##N(void) { return value##N(QUIET); } \
    static inline D canonical##N(D x) { return x == x ? x : not_a_number##N(); }
FLOAT_BITS(32, float, UINT32_MAX >> 1)
FLOAT_BITS(64, double, UINT64_MAX >> 1)

static inline float decode_bf16(uint16_t h) { return value32((uint32_t)h << 16); }
/* Exponent and mantissa stand as those of a float that is 2^112 times too small. */
static inline float decode_f16(uint16_t h) {
    const uint32_t magnitude = (h & 0x7fffu) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t finite = bits32(value32(magnitude) * 0x1p112f), special = magnitude | 0x7f800000;
    return value32((magnitude >= 0x0f800000 ? special : finite) | sign);
}

/* A format of 16 bits: its bias below that of double, the mantissa bits it drops, the double whose last place is its
 * smallest subnormal, its smallest normal, the smallest double that rounds to infinity, and infinity. */
#define ENCODE(NAME, BIAS, DROP, UNIT, NORMAL, OVERFLOW, INFINITE)                                        \
    static inline uint16_t NAME(double x) {                                                               \
        const uint64_t b = bits64(x), m = b & (UINT64_MAX >> 1);                                          \
        const uint64_t small = bits64(value64(m) + UNIT);                                                 \
        const uint64_t rounded =                                                                          \
            (m - ((uint64_t)(BIAS) << 52) + ((UINT64_C(1) << (DROP - 1)) - 1) + (m >> DROP & 1)) >> DROP; \
        const uint64_t finite = value64(m) < NORMAL ? small & 0xffff : rounded;                           \
        const uint64_t r = value64(m) >= OVERFLOW ? INFINITE : finite;                                    \
        return (uint16_t)(x != x ? 0x7fff : r | (b >> 48 & 0x8000));                                      \
    }
ENCODE(encode_f16, 1023 - 15, 42, 0x1p28, 0x1p-14, 65520.0, 0x7c00)
ENCODE(encode_bf16, 1023 - 127, 45, 0x1p-81, 0x1p-126, 0x1.ffp127, 0x7f80)

/* a + b rounded to odd (numeric.h). */
static inline double odd_sum(double a, double b) {
    const double s = a + b, t = s - a, error = (a - (s - t)) + (b - t);
    const uint64_t bits = bits64(s);
    const bool finite = (bits & 0x7ff0000000000000) != 0x7ff0000000000000;
    const uint64_t step = (error > 0) == (s > 0) ? 1 : UINT64_MAX;
    return value64(finite && error != 0 && !(bits & 1) ? bits + step : bits);
}
