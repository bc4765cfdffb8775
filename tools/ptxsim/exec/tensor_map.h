/* What cuTensorMapEncodeTiled leaves in the 128 opaque bytes of a CUtensorMap, as read by tensor copies.  On hardware
 * these bytes are undocumented; here they are this structure.  Values and rules: CUDA Driver API, "Tensor Map Object
 * Management", cuTensorMapEncodeTiled; meaning: PTX ISA, "Tensors" (tiled mode, interleave layout, swizzling modes).
 * Dimension 0 is the innermost.  An encoded map has been validated: a copy need only check the magic word.
 * Kernels make maps of their own from 128 zeros, field by field (tensormap.replace); a copy checks that none it needs is
 * missing. */
#pragma once
#include <stdint.h>

#define TENSOR_MAP_MAGIC UINT32_C(0x70614d54) /* "TMap" */
enum { TENSOR_MAP_BYTES = 128, TENSOR_MAP_ALIGN = 64, TENSOR_MAX_RANK = 5 };

/* TENSOR_TYPE(enum, value of CUtensorMapDataType, bytes, floating) */
#define TENSOR_TYPES(TENSOR_TYPE)                                                                                      \
    TENSOR_TYPE(UINT8, 0, 1, 0) TENSOR_TYPE(UINT16, 1, 2, 0) TENSOR_TYPE(UINT32, 2, 4, 0) TENSOR_TYPE(INT32, 3, 4, 0) \
    TENSOR_TYPE(UINT64, 4, 8, 0) TENSOR_TYPE(INT64, 5, 8, 0) TENSOR_TYPE(FLOAT16, 6, 2, 1) \
    TENSOR_TYPE(FLOAT32, 7, 4, 1) TENSOR_TYPE(FLOAT64, 8, 8, 1) TENSOR_TYPE(BFLOAT16, 9, 2, 1) \
    TENSOR_TYPE(FLOAT32_FTZ, 10, 4, 1) TENSOR_TYPE(TFLOAT32, 11, 4, 1) TENSOR_TYPE(TFLOAT32_FTZ, 12, 4, 1)

typedef enum TensorType {
#define TENSOR_TYPE(name, value, bytes, floating) TENSOR_##name = value,
    TENSOR_TYPES(TENSOR_TYPE)
#undef TENSOR_TYPE
    TENSOR_TYPE_COUNT
} TensorType;

/* CUtensorMapInterleave.  16B: NC/8HWC8, 32B: NC/16HWC16. */
typedef enum TensorInterleave { INTERLEAVE_NONE, INTERLEAVE_16B, INTERLEAVE_32B, INTERLEAVE_COUNT } TensorInterleave;
/* CUtensorMapSwizzle: the span within which 16-byte units are exchanged. */
typedef enum TensorSwizzle { SWIZZLE_NONE, SWIZZLE_32B, SWIZZLE_64B, SWIZZLE_128B, SWIZZLE_COUNT } TensorSwizzle;
/* CUtensorMapFloatOOBfill: zeros, or a NaN that FMA treats as zero on request. */
typedef enum TensorFill { FILL_ZERO, FILL_NAN, FILL_COUNT } TensorFill;

typedef struct TensorMap {
    uint32_t magic;
    uint8_t type, rank;           /* TensorType; 1 to 5 */
    uint8_t interleave, swizzle;  /* TensorInterleave, TensorSwizzle */
    uint8_t l2_promotion, fill;   /* 0 to 3 (a hint); TensorFill */
    uint8_t element_stride[TENSOR_MAX_RANK]; /* 1 to 8; [0] is ignored without interleave.  A copy moves
                                                ceil(box / stride) elements along the dimension */
    uint8_t zero;
    uint64_t address;                    /* of the element at all-zero coordinates, in global memory */
    uint64_t dim[TENSOR_MAX_RANK];       /* elements, 1 to 2^32; 1 beyond the rank */
    uint64_t stride[TENSOR_MAX_RANK - 1]; /* bytes from one index to the next of dimension k + 1; 0 beyond the rank */
    uint16_t box[TENSOR_MAX_RANK];       /* elements, 1 to 256; 1 beyond the rank; im2col: unused */
    uint16_t im2col;                     /* 1: encoded by cuTensorMapEncodeIm2col, and what follows holds; else 0 */
    int16_t lower[3], upper[3];          /* corners of the bounding box in W, H, D: from 0, and from the last element */
    uint16_t channels, pixels;           /* per pixel, 1 to 256; per column, 1 to 1024 */
    uint32_t missing; /* fields that a map made from zeros has not been given, tensor_fields.h; 0: none */
} TensorMap;
_Static_assert(sizeof(TensorMap) == TENSOR_MAP_BYTES, "the ABI's size");

static inline int tensor_type_bytes(TensorType t) {
    static const uint8_t BYTES[TENSOR_TYPE_COUNT] = {
#define TENSOR_TYPE(name, value, bytes, floating) [value] = bytes,
        TENSOR_TYPES(TENSOR_TYPE)
#undef TENSOR_TYPE
    };
    return BYTES[t];
}

static inline int tensor_type_floating(TensorType t) {
    static const uint8_t FLOATING[TENSOR_TYPE_COUNT] = {
#define TENSOR_TYPE(name, value, bytes, floating) [value] = floating,
        TENSOR_TYPES(TENSOR_TYPE)
#undef TENSOR_TYPE
    };
    return FLOATING[t];
}

/* Bytes of the span of a swizzle mode; 16 without one. */
static inline int tensor_swizzle_bytes(TensorSwizzle s) { return 16 << s; }
