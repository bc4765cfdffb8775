/* Which fields a tensor map that was made from zeros still lacks. */
#pragma once
#include "tools/ptxsim/exec/tensor_map.h"
#include "tools/ptxsim/ptx/forms.h"

/* Bit of TensorMap.missing; `dimension` is 0 for a field that has one value. */
static inline uint32_t tensor_field_bit(MapField f, int dimension) {
    static const uint8_t FIRST[MAP_FIELDS] = {[MAP_ADDRESS] = 0,    [MAP_RANK] = 1, [MAP_TYPE] = 2,
                                              [MAP_INTERLEAVE] = 3, [MAP_SWIZZLE] = 4, [MAP_FILL] = 5,
                                              [MAP_BOX] = 6,        [MAP_DIM] = 11, [MAP_STRIDE] = 16,
                                              [MAP_ELEMENT_STRIDE] = 21};
    return UINT32_C(1) << (FIRST[f] + dimension);
}
#define TENSOR_ALL_FIELDS UINT32_C(0x3ffffff)
