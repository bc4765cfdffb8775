/* Element types.  `bool` takes one byte in memory, 0 or 1.  `tf32` lies in memory as f32 with 10 bits of
 * fraction: only a contraction reads it, so that a value is rounded to it on the way into matrix units. */
#ifndef FUSEC_IR_DTYPE_H
#define FUSEC_IR_DTYPE_H
#include <stdbool.h>

/* DTYPE(enum, text, bytes, is_float): this table is the only place that lists them. */
#define FUSEC_DTYPES(DTYPE) \
    DTYPE(BOOL, "bool", 1, false) \
    DTYPE(I32, "i32", 4, false) \
    DTYPE(F32, "f32", 4, true) \
    DTYPE(F64, "f64", 8, true) \
    DTYPE(F16, "f16", 2, true) \
    DTYPE(BF16, "bf16", 2, true) \
    DTYPE(TF32, "tf32", 4, true)

typedef enum {
#define DTYPE(e, text, bytes, is_float) DT_##e,
    FUSEC_DTYPES(DTYPE)
#undef DTYPE
    DT_COUNT
} DType;

const char *dtype_name(DType t);
int dtype_bytes(DType t);
bool dtype_is_float(DType t);
bool dtype_is_low(DType t); /* a float of fewer bits than f32: f16, bf16, tf32; arithmetic on it is in f32, rounded after */
bool dtype_parse(const char *text, DType *out); /* false if unknown */

#endif
