#include "tools/fusec/data.h"

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) of a counter. */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void data_order(uint32_t seed, int64_t epoch, int64_t first, int64_t n, int64_t *order) {
    const uint64_t key = mix(mix(seed) ^ (uint64_t)epoch);
    for (int64_t i = 0; i < n; i++) order[i] = first + i;
    for (int64_t i = n - 1; i > 0; i--) { /* Fisher and Yates */
        const int64_t j = (int64_t)(mix(key + (uint64_t)i) % (uint64_t)(i + 1)), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}
