/* Elements of tensors in memory as numbers, whatever their dtype. */
#ifndef FUSEC_TESTS_NUMBER_H
#define FUSEC_TESTS_NUMBER_H
#include "tools/fusec/array.h"

static inline double number_get(DType t, const void *data, int64_t i) {
    return element_get(element_of(t), (const uint8_t *)data + i * dtype_bytes(t));
}

/* Rounded to the dtype; false for what i32 or bool does not have. */
static inline bool number_put(DType t, void *data, int64_t i, double v) {
    int64_t bad;
    return element_convert(ELEMENT_F64, (const uint8_t *)&v, 1, t, (uint8_t *)data + i * dtype_bytes(t), &bad);
}

#endif
