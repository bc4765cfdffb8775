/* Element types: everything follows from the table in dtype.h. */
#include "ir/dtype.h"
#include <string.h>

static const struct {
    const char *name;
    int bytes;
    bool is_float;
} dtypes[DT_COUNT] = {
#define DTYPE(e, text, bytes, is_float) {text, bytes, is_float},
    FUSEC_DTYPES(DTYPE)
#undef DTYPE
};

const char *dtype_name(DType t) { return dtypes[t].name; }

int dtype_bytes(DType t) { return dtypes[t].bytes; }

bool dtype_is_float(DType t) { return dtypes[t].is_float; }

bool dtype_is_low(DType t) { return t == DT_F16 || t == DT_BF16 || t == DT_TF32; }

bool dtype_parse(const char *text, DType *out) {
    for (int t = 0; t < DT_COUNT; t++) {
        if (strcmp(text, dtypes[t].name) == 0) {
            *out = (DType)t;
            return true;
        }
    }
    return false;
}
