/* Operands of wgmma in shared memory, as descriptors give them: 64 (A) or N (B) rows by 32 bytes along K.
 * Source: PTX ISA, "Shared Memory Matrix Layout", "Strides", "Matrix Descriptor Format". */
#ifndef FUSEC_CALIBRATE_WGMMA_OPERAND_H
#define FUSEC_CALIBRATE_WGMMA_OPERAND_H
#include <stdbool.h>
#include <stdint.h>

typedef struct Side {
    int swizzle; /* in bytes, 16 for none */
    bool mn_major;
    int advance; /* bytes along K into wider rows */
} Side;

/* Byte offsets between repetitions, as the descriptor gives them. */
static inline int stride_of(const Side *s, int rows, int element) {
    if (s->swizzle == 16) return s->mn_major ? 256 + 16 : 256; /* from 8 rows to the next; loose on purpose */
    if (!s->mn_major) return 8 * s->swizzle;                   /* 8 rows */
    return 8 * s->swizzle * ((rows * element + s->swizzle - 1) / s->swizzle); /* 8 of k: a row of atoms */
}

static inline int leading_of(const Side *s, int rows) {
    if (s->swizzle == 16) return s->mn_major ? (256 + 16) * (rows / 8) : 128; /* K-major: the second 16 bytes of K */
    return s->mn_major ? 8 * s->swizzle : 0;                                  /* the next atom along M or N */
}

static inline uint64_t descriptor(const Side *s, int rows, int bytes, int start) {
    const uint64_t mode = s->swizzle == 128 ? 1 : s->swizzle == 64 ? 2 : s->swizzle == 32 ? 3 : 0;
    return (uint64_t)(start + s->advance) / 16 | (uint64_t)leading_of(s, rows) / 16 << 16 |
           (uint64_t)stride_of(s, rows, bytes) / 16 << 32 | mode << 62;
}

#endif
