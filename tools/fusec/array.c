/* Element formats of files, and conversion to the model's dtypes. */
#include "tools/fusec/array.h"
#include <math.h>
#include <string.h>

const ElementInfo element_info[ELEMENT_COUNT] = {
#define ELEMENT(e, safetensors, npy, bytes) [ELEMENT_##e] = {safetensors, npy, bytes},
    FILE_ELEMENTS(ELEMENT)
#undef ELEMENT
};

Element element_of(DType t) {
    static const Element table[DT_COUNT] = {[DT_BOOL] = ELEMENT_BOOL, [DT_I32] = ELEMENT_I32, [DT_F32] = ELEMENT_F32,
                                            [DT_F64] = ELEMENT_F64,   [DT_F16] = ELEMENT_F16, [DT_BF16] = ELEMENT_BF16,
                                            [DT_TF32] = ELEMENT_F32};
    return table[t];
}

bool array_size(const Array *x, int64_t *elements, int64_t *bytes) {
    const int64_t most = (int64_t)1 << 46;
    int64_t n = 1;
    *elements = *bytes = 0;
    for (int d = 0; d < x->rank; d++)
        if (x->dim[d] < 0) return false;
    for (int d = 0; d < x->rank; d++)
        if (x->dim[d] == 0) return true;
    for (int d = 0; d < x->rank; d++) {
        if (x->dim[d] > most / n) return false;
        n *= x->dim[d];
    }
    if (n > most / element_info[x->element].bytes) return false;
    *elements = n;
    *bytes = n * element_info[x->element].bytes;
    return true;
}

int64_t array_elements(const Array *x) {
    int64_t n = 1;
    for (int d = 0; d < x->rank; d++) n *= x->dim[d];
    return n;
}
int64_t array_bytes(const Array *x) { return array_elements(x) * element_info[x->element].bytes; }

const Array *arrays_find(const Arrays *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->at[i].name, name)) return &list->at[i];
    return NULL;
}

char *array_shape_text(Arena *a, const Array *x) {
    char *s = arena_strdup(a, "[");
    for (int d = 0; d < x->rank; d++) s = arena_printf(a, "%s%s%lld", s, d ? ", " : "", (long long)x->dim[d]);
    return arena_printf(a, "%s]", s);
}

/* ---- values ----------------------------------------------------------------------------------------------- */
static double half_get(uint16_t bits, int fraction, int bias) {
    const int top = (1 << (15 - fraction)) - 1, e = bits >> fraction & top, f = bits & ((1 << fraction) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (e == top) return f ? (double)NAN : sign * (double)INFINITY;
    return sign * (e ? ldexp((1 << fraction) + f, e - bias - fraction) : ldexp(f, 1 - bias - fraction));
}

double element_get(Element e, const uint8_t *at) {
    union {
        uint64_t u64;
        int64_t i64;
        uint32_t u32;
        int32_t i32;
        uint16_t u16;
        int16_t i16;
        uint8_t u8;
        int8_t i8;
        float f32;
        double f64;
    } v = {0};
    memcpy(&v, at, (size_t)element_info[e].bytes);
    switch (e) {
    case ELEMENT_BOOL:
    case ELEMENT_U8: return v.u8;
    case ELEMENT_I8: return v.i8;
    case ELEMENT_U16: return v.u16;
    case ELEMENT_I16: return v.i16;
    case ELEMENT_U32: return v.u32;
    case ELEMENT_I32: return v.i32;
    case ELEMENT_U64: return (double)v.u64;
    case ELEMENT_I64: return (double)v.i64;
    case ELEMENT_F16: return half_get(v.u16, 10, 15);
    case ELEMENT_BF16: return half_get(v.u16, 7, 127);
    case ELEMENT_F32: return (double)v.f32;
    case ELEMENT_F64: return v.f64;
    case ELEMENT_COUNT: break;
    }
    return (double)NAN;
}

/* Nearest, ties to even; v is any double. */
static uint16_t half_put(double v, int fraction, int bias) {
    const int top = (1 << (15 - fraction)) - 1;
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    if (isnan(v)) return (uint16_t)(top << fraction | 1 << (fraction - 1));
    if (isinf(v)) return (uint16_t)(sign | top << fraction);
    if (v == 0) return sign;
    int e = ilogb(v) + bias;
    if (e < 1) e = 1;
    /* in units of the last place: rounding up to the next power of two carries into the exponent by itself */
    const double units = nearbyint(ldexp(fabs(v), fraction + bias - e));
    const int64_t bits = ((int64_t)(e - 1) << fraction) + (int64_t)units;
    return (uint16_t)(sign | (bits >= (int64_t)top << fraction ? (int64_t)top << fraction : bits));
}

static bool put(DType t, uint8_t *at, double v) {
    union {
        int32_t i32;
        float f32;
        double f64;
        uint16_t u16;
        uint8_t u8;
    } x = {0};
    switch (t) {
    case DT_BOOL:
        if (v != 0 && v != 1) return false;
        x.u8 = v != 0;
        break;
    case DT_I32:
        if (!(v >= INT32_MIN && v <= INT32_MAX) || v != floor(v)) return false;
        x.i32 = (int32_t)v;
        break;
    case DT_TF32:
    case DT_F32: x.f32 = (float)v; break;
    case DT_F64: x.f64 = v; break;
    case DT_F16: x.u16 = half_put(v, 10, 15); break;
    case DT_BF16: x.u16 = half_put(v, 7, 127); break;
    case DT_COUNT: return false;
    }
    memcpy(at, &x, (size_t)dtype_bytes(t));
    return true;
}

bool element_convert(Element from, const uint8_t *data, int64_t n, DType to, void *out, int64_t *bad) {
    const int in_bytes = element_info[from].bytes, out_bytes = dtype_bytes(to);
    if (from == element_of(to) && to != DT_BOOL) {
        if (n) memcpy(out, data, (size_t)(n * in_bytes));
        return true;
    }
    for (int64_t i = 0; i < n; i++)
        if (!put(to, (uint8_t *)out + i * out_bytes, element_get(from, data + i * in_bytes))) {
            *bad = i;
            return false;
        }
    return true;
}
