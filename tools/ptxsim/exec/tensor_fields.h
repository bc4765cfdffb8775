/* Which fields a tensor map that was made from zeros still lacks.  Types and modes are none of them: their value 0
 * means .u8, no interleave, no swizzle, zeros beyond the edge, and compilers rely on it. */
#pragma once
#include "tools/ptxsim/exec/tensor_map.h"
#include "tools/ptxsim/ptx/forms.h"

/* Bit of TensorMap.missing, 0 for a field that may stay 0; `dimension` is 0 for a field that has one value. */
static inline uint32_t tensor_field_bit(MapField f, int dimension) {
    static const int8_t FIRST[MAP_FIELDS] = {
        [MAP_ADDRESS] = 0,         [MAP_RANK] = 1,  [MAP_BOX] = 2,         [MAP_DIM] = 7,      [MAP_STRIDE] = 12,
        [MAP_ELEMENT_STRIDE] = 17, [MAP_TYPE] = -1, [MAP_INTERLEAVE] = -1, [MAP_SWIZZLE] = -1, [MAP_FILL] = -1};
    return FIRST[f] < 0 ? 0 : UINT32_C(1) << (FIRST[f] + dimension);
}
#define TENSOR_ALL_FIELDS UINT32_C(0x3fffff)
