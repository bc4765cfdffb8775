/* Integer arithmetic that several modules need. */
#ifndef FUSEC_IR_INTEGER_H
#define FUSEC_IR_INTEGER_H
#include <stdint.h>

/* Of the magnitudes; gcd(a, 0) is that of a. */
static inline int64_t gcd64(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        const uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return (int64_t)x;
}

/* Modulo 2^64, as machine addresses. */
static inline int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/* The hash h with x mixed in. */
static inline uint64_t hash_mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

#endif
