#include "frontend/value.h"
#include <string.h>

Value val_dim(Dim d) {
    if (!dim_is_fixed(d)) return (Value){.kind = VAL_DIM, .dim = d};
    Value v = val_int(d.bound);
    v.text = d.name;
    return v;
}

bool val_as_dim(Value v, Dim *out) {
    if (v.kind == VAL_DIM) {
        *out = v.dim;
        return v.dim.bound >= 0 && v.dim.scale > 0 && v.dim.scale + v.dim.offset >= 0;
    }
    if (v.kind != VAL_INT || v.i < 0) return false;
    *out = dim_fixed(v.i);
    out->name = v.text;
    return true;
}

double val_number(Value v) { return v.kind == VAL_FLOAT ? v.f : (double)v.i; }

const char *val_describe(Arena *a, Value v) {
    switch (v.kind) {
    case VAL_POISON: return "an invalid value";
    case VAL_NONE: return "none";
    case VAL_ALL: return "all";
    case VAL_BOOL: return v.i ? "the constant true" : "the constant false";
    case VAL_INT: return arena_printf(a, "the integer %lld", (long long)v.i);
    case VAL_FLOAT: return arena_printf(a, "the number %g", v.f);
    case VAL_STRING: return arena_printf(a, "the string \"%s\"", v.text);
    case VAL_DIM:
        return v.dim.scale + v.dim.offset < 0 ? "an extent that is negative where the bounded dimension is 1"
                                              : "the extent of a bounded dimension";
    case VAL_LIST: return arena_printf(a, "a list of %d", v.n);
    case VAL_RANGE: return "a range";
    case VAL_TUPLE: return arena_printf(a, "%d results", v.n);
    case VAL_TENSOR: return arena_printf(a, "a tensor %s%s", dtype_name(v.node->dtype), shape_text(a, *v.node->shape));
    }
    return "a value";
}

static bool lists_equal(Value x, Value y) {
    if (x.n != y.n) return false;
    for (int i = 0; i < x.n; i++)
        if (!val_equal(x.at[i], y.at[i])) return false;
    return true;
}

bool val_equal(Value x, Value y) {
    if (val_is_number(x) && val_is_number(y))
        return x.kind == VAL_INT && y.kind == VAL_INT ? x.i == y.i : val_number(x) == val_number(y);
    if (x.kind != y.kind) return false;
    switch (x.kind) {
    case VAL_BOOL: return x.i == y.i;
    case VAL_STRING: return strcmp(x.text, y.text) == 0;
    case VAL_DIM: return dim_equal(x.dim, y.dim);
    case VAL_LIST:
    case VAL_RANGE:
    case VAL_TUPLE: return lists_equal(x, y);
    case VAL_TENSOR: return x.node == y.node;
    default: return true;
    }
}

static Dim as_linear(Value v) {
    return v.kind == VAL_DIM ? v.dim : (Dim){.bound = v.i, .sym = NO_SYM, .scale = 0, .offset = v.i};
}

/* p*kp + q*kq; false past 2^62. */
static bool weighted_sum(int64_t p, int64_t kp, int64_t q, int64_t kq, int64_t *out) {
    int64_t x, y;
    return !__builtin_mul_overflow(p, kp, &x) && !__builtin_mul_overflow(q, kq, &y) &&
           !__builtin_add_overflow(x, y, out) && *out < INT64_MAX / 2 && *out > -(INT64_MAX / 2);
}

bool val_dim_combine(Value x, int64_t kx, Value y, int64_t ky, Value *out) {
    Dim p = as_linear(x), q = as_linear(y);
    if (p.sym != NO_SYM && q.sym != NO_SYM && p.sym != q.sym) return false;
    Dim d = {.sym = p.sym != NO_SYM ? p.sym : q.sym};
    if (!weighted_sum(p.scale, kx, q.scale, ky, &d.scale) || !weighted_sum(p.offset, kx, q.offset, ky, &d.offset) ||
        !weighted_sum(p.bound, kx, q.bound, ky, &d.bound))
        return false;
    *out = d.scale == 0 ? val_int(d.offset) : (Value){.kind = VAL_DIM, .dim = d};
    return true;
}
