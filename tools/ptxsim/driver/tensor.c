/* Tensor maps.  Every rule is one of CUDA Driver API, "Tensor Map Object Management", cuTensorMapEncodeTiled and
 * cuTensorMapEncodeIm2col. */
#include "tools/ptxsim/driver/driver.h"
#include "tools/ptxsim/exec/tensor_map.h"

enum { MAX_BOX = 256, MAX_PIXELS = 1024, MAX_ELEMENT_STRIDE = 8, L2_PROMOTIONS = 4 };
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

/* Both modes: what the options, the address and the dimensions must be. */
static CUresult check_tensor(const CUtensorMap *map, int type, uint32_t rank, const void *address, const uint64_t *dims,
                             const uint64_t *strides, const uint32_t *element_strides, int interleave, int swizzle,
                             int l2_promotion, int fill) {
    if (driver_device()->capability < 90) return CUDA_ERROR_NOT_SUPPORTED;
    if (!map || (uintptr_t)map % TENSOR_MAP_ALIGN || !address || !dims || !element_strides) return CUDA_ERROR_INVALID_VALUE;
    if (!options_fit(type, rank, interleave, swizzle, l2_promotion, fill) || (rank > 1 && !strides))
        return CUDA_ERROR_INVALID_VALUE;
    const bool fits = address_fits((uintptr_t)address, interleave) && dims_fit(rank, dims, strides, interleave);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static TensorMap tensor_of(int type, uint32_t rank, const void *address, const uint64_t *dims, const uint64_t *strides,
                           const uint32_t *element_strides, int interleave, int swizzle, int l2_promotion, int fill) {
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
        t.box[d] = 1;
        t.element_stride[d] = (uint8_t)(d < rank ? element_strides[d] : 1);
        if (d + 1 < TENSOR_MAX_RANK) t.stride[d] = d + 1 < rank ? strides[d] : 0;
    }
    return t;
}

CUresult sim_cuTensorMapEncodeTiled(CUtensorMap *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                                    const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                                    int interleave, int swizzle, int l2_promotion, int fill) {
    const CUresult r = check_tensor(map, type, rank, address, dims, strides, element_strides, interleave, swizzle,
                                    l2_promotion, fill);
    if (r != CUDA_SUCCESS) return r;
    if (!box || !box_fits(rank, box, element_strides, tensor_type_bytes((TensorType)type), interleave, swizzle))
        return CUDA_ERROR_INVALID_VALUE;
    TensorMap t = tensor_of(type, rank, address, dims, strides, element_strides, interleave, swizzle, l2_promotion, fill);
    for (uint32_t d = 0; d < rank; d++) t.box[d] = (uint16_t)box[d];
    memcpy(map, &t, sizeof t);
    return CUDA_SUCCESS;
}

/* Corners of the box that pixels lie in: how far they may lie from the tensor's depends on the rank. */
static bool corners_fit(uint32_t rank, const uint64_t *dims, const int *lower, const int *upper) {
    const int64_t reach = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
    for (uint32_t d = 0; d + 2 < rank; d++) {
        if (lower[d] < -reach || lower[d] >= reach || upper[d] < -reach || upper[d] >= reach) return false;
        if ((int64_t)dims[d + 1] - 1 + upper[d] < lower[d]) return false;
    }
    return true;
}

CUresult sim_cuTensorMapEncodeIm2col(CUtensorMap *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                                     const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
                                     uint32_t pixels, const uint32_t *element_strides, int interleave, int swizzle,
                                     int l2_promotion, int fill) {
    const CUresult r = check_tensor(map, type, rank, address, dims, strides, element_strides, interleave, swizzle,
                                    l2_promotion, fill);
    if (r != CUDA_SUCCESS) return r;
    const uint32_t box[] = {channels, 1, 1, 1, 1};
    if (rank < 3 || !lower || !upper || !pixels || pixels > MAX_PIXELS || !corners_fit(rank, dims, lower, upper) ||
        !box_fits(rank, box, element_strides, tensor_type_bytes((TensorType)type), interleave, swizzle))
        return CUDA_ERROR_INVALID_VALUE;
    TensorMap t = tensor_of(type, rank, address, dims, strides, element_strides, interleave, swizzle, l2_promotion, fill);
    t.im2col = 1;
    t.channels = (uint16_t)channels;
    t.pixels = (uint16_t)pixels;
    for (uint32_t d = 0; d + 2 < rank; d++) t.lower[d] = (int16_t)lower[d], t.upper[d] = (int16_t)upper[d];
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
