/* Tensor maps.  Every rule is one of CUDA Driver API, "Tensor Map Object Management", cuTensorMapEncodeTiled. */
#include "tools/ptxsim/driver/driver.h"
#include "tools/ptxsim/exec/tensor_map.h"

enum { MAX_BOX = 256, MAX_ELEMENT_STRIDE = 8, L2_PROMOTIONS = 4 };
#define MAX_DIM (UINT64_C(1) << 32)
#define MAX_STRIDE (UINT64_C(1) << 40)

static bool options_fit(int type, uint32_t rank, int interleave, int swizzle, int l2_promotion, int fill) {
    if (type < 0 || type >= TENSOR_TYPE_COUNT || interleave < 0 || interleave >= INTERLEAVE_COUNT || swizzle < 0 ||
        swizzle >= SWIZZLE_COUNT || l2_promotion < 0 || l2_promotion >= L2_PROMOTIONS || fill < 0 || fill >= FILL_COUNT)
        return false;
    if (rank < 1 || rank > TENSOR_MAX_RANK || (interleave != INTERLEAVE_NONE && rank < 3)) return false;
    if (interleave == INTERLEAVE_32B && swizzle != SWIZZLE_32B) return false;
    return fill != FILL_NAN || tensor_type_floating((TensorType)type);
}

static bool address_fits(uint64_t address, int interleave) {
    return address % (interleave == INTERLEAVE_32B ? 32 : 16) == 0;
}

static bool dims_fit(uint32_t rank, const uint64_t *dims, const uint64_t *strides, int interleave) {
    for (uint32_t d = 0; d < rank; d++)
        if (!dims[d] || dims[d] > MAX_DIM) return false;
    for (uint32_t d = 0; d + 1 < rank; d++)
        if (strides[d] % (interleave == INTERLEAVE_32B ? 32 : 16) || strides[d] >= MAX_STRIDE) return false;
    return true;
}

static bool box_fits(uint32_t rank, const uint32_t *box, const uint32_t *steps, int bytes, int interleave,
                     int swizzle) {
    for (uint32_t d = 0; d < rank; d++)
        if (!box[d] || box[d] > MAX_BOX || !steps[d] || steps[d] > MAX_ELEMENT_STRIDE) return false;
    if (interleave != INTERLEAVE_NONE) return true;
    const uint32_t inner = box[0] * (uint32_t)bytes;
    return inner % 16 == 0 &&
           (swizzle == SWIZZLE_NONE || inner <= (uint32_t)tensor_swizzle_bytes((TensorSwizzle)swizzle));
}

CUresult sim_cuTensorMapEncodeTiled(CUtensorMap *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                                    const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                                    int interleave, int swizzle, int l2_promotion, int fill) {
    if (driver_device()->capability < 90) return CUDA_ERROR_NOT_SUPPORTED;
    if (!map || (uintptr_t)map % TENSOR_MAP_ALIGN || !address || !dims || !box || !element_strides)
        return CUDA_ERROR_INVALID_VALUE;
    if (!options_fit(type, rank, interleave, swizzle, l2_promotion, fill) || (rank > 1 && !strides))
        return CUDA_ERROR_INVALID_VALUE;
    if (!address_fits((uintptr_t)address, interleave) || !dims_fit(rank, dims, strides, interleave) ||
        !box_fits(rank, box, element_strides, tensor_type_bytes((TensorType)type), interleave, swizzle))
        return CUDA_ERROR_INVALID_VALUE;
    TensorMap t = {.magic = TENSOR_MAP_MAGIC,
                   .type = (uint8_t)type,
                   .rank = (uint8_t)rank,
                   .interleave = (uint8_t)interleave,
                   .swizzle = (uint8_t)swizzle,
                   .l2_promotion = (uint8_t)l2_promotion,
                   .fill = (uint8_t)fill,
                   .address = (uintptr_t)address};
    for (uint32_t d = 0; d < TENSOR_MAX_RANK; d++) {
        t.dim[d] = d < rank ? dims[d] : 1;
        t.box[d] = (uint16_t)(d < rank ? box[d] : 1);
        t.element_stride[d] = (uint8_t)(d < rank ? element_strides[d] : 1);
        if (d + 1 < TENSOR_MAX_RANK) t.stride[d] = d + 1 < rank ? strides[d] : 0;
    }
    memcpy(map, &t, sizeof t);
    return CUDA_SUCCESS;
}

CUresult sim_cuTensorMapReplaceAddress(CUtensorMap *map, void *address) {
    TensorMap t;
    if (!map || (uintptr_t)map % TENSOR_MAP_ALIGN || !address) return CUDA_ERROR_INVALID_VALUE;
    memcpy(&t, map, sizeof t);
    if (t.magic != TENSOR_MAP_MAGIC || !address_fits((uintptr_t)address, t.interleave)) return CUDA_ERROR_INVALID_VALUE;
    t.address = (uintptr_t)address;
    memcpy(map, &t, sizeof t);
    return CUDA_SUCCESS;
}
