/* Arithmetic on constants: 64-bit integers (overflow is an error), doubles, booleans, extents. */
#include "frontend/lower.h"
#include <math.h>

bool val_is_const_number(Value v) {
    return v.kind == VAL_INT || v.kind == VAL_FLOAT || v.kind == VAL_BOOL || v.kind == VAL_DIM;
}

static Value overflow(Lower *L, SrcLoc loc) {
    return lower_fail(L, E0210, loc, NULL, "integer overflow: constants are 64-bit integers");
}

static int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static Value division_by_zero(Lower *L, SrcLoc loc) { return lower_fail(L, E0210, loc, NULL, "division by zero"); }

static Value int_divide(Lower *L, int64_t a, int64_t b, SrcLoc loc) {
    if (b == 0) return division_by_zero(L, loc);
    if (a == INT64_MIN && b == -1) return overflow(L, loc);
    Value v = val_int(floor_quotient(a, b));
    v.inexact = a % b != 0;
    return v;
}

static Value int_power(Lower *L, int64_t base, int64_t n, SrcLoc loc) {
    if (n < 0) return val_float(pow((double)base, (double)n));
    int64_t r = 1;
    while (n > 0) {
        if ((n & 1) && __builtin_mul_overflow(r, base, &r)) return overflow(L, loc);
        n >>= 1;
        if (n && __builtin_mul_overflow(base, base, &base)) return overflow(L, loc);
    }
    return val_int(r);
}

static Value int_arithmetic(Lower *L, AstOp op, int64_t a, int64_t b, SrcLoc loc) {
    int64_t r = 0;
    switch (op) {
    case AST_ADD: return __builtin_add_overflow(a, b, &r) ? overflow(L, loc) : val_int(r);
    case AST_SUB: return __builtin_sub_overflow(a, b, &r) ? overflow(L, loc) : val_int(r);
    case AST_MUL: return __builtin_mul_overflow(a, b, &r) ? overflow(L, loc) : val_int(r);
    case AST_DIV: return int_divide(L, a, b, loc);
    default: return int_power(L, a, b, loc);
    }
}

static Value float_arithmetic(AstOp op, double a, double b) {
    switch (op) {
    case AST_ADD: return val_float(a + b);
    case AST_SUB: return val_float(a - b);
    case AST_MUL: return val_float(a * b);
    case AST_DIV: return val_float(a / b);
    default: return val_float(pow(a, b));
    }
}

static Value compare(AstOp op, Value a, Value b) {
    bool ints = a.kind == VAL_INT && b.kind == VAL_INT;
    double x = val_number(a), y = val_number(b);
    bool less = ints ? a.i < b.i : x < y, more = ints ? a.i > b.i : x > y;
    switch (op) {
    case AST_LT: return val_bool(less);
    case AST_GT: return val_bool(more);
    case AST_LE: return val_bool(ints ? !more : x <= y);
    default: return val_bool(ints ? !less : x >= y);
    }
}

/* An extent as an operand, for messages: "S", "(2*S - 3)". */
static const char *dim_text(Lower *L, Dim d) {
    const char *name = L->model->syms.at[d.sym].name;
    if (d.scale == 1 && d.offset == 0) return name;
    const char *text = d.scale == 1    ? name
                       : d.scale == -1 ? arena_printf(L->arena, "-%s", name)
                                       : arena_printf(L->arena, "%lld*%s", (long long)d.scale, name);
    if (d.offset == 0) return arena_printf(L->arena, "(%s)", text);
    uint64_t size = d.offset < 0 ? -(uint64_t)d.offset : (uint64_t)d.offset;
    return arena_printf(L->arena, "(%s %c %llu)", text, d.offset < 0 ? '-' : '+', (unsigned long long)size);
}

int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t t = a % b;
        a = b, b = t;
    }
    return a < 0 ? -a : a;
}

Value dim_divide(Lower *L, Dim d, int64_t k, SrcLoc loc) {
    if (d.scale % k == 0) {
        d.scale /= k, d.offset = floor_quotient(d.offset, k), d.bound = floor_quotient(d.bound, k);
        return (Value){.kind = VAL_DIM, .dim = d};
    }
    const SymDecl *sym = &L->model->syms.at[d.sym];
    int64_t multiple = k / common_divisor(d.scale, k), bound = sym->bound / multiple;
    const char *help = arena_printf(
        L->arena,
        "make the dimension a multiple of %lld: declare `dim %s <= %lld`, and write %lld*%s where inputs have %s",
        (long long)multiple, sym->name, (long long)(bound ? bound : 1), (long long)multiple, sym->name, sym->name);
    return lower_fail(L, E0218, loc, help, "%s / %lld is not whole at every value of the bounded dimension %s",
                      dim_text(L, d), (long long)k, sym->name);
}

/* Arithmetic where one side follows a bounded dimension: linear results only. */
static Value dim_arithmetic(Lower *L, AstOp op, Value a, Value b, SrcLoc loc) {
    Value out;
    if ((op == AST_ADD || op == AST_SUB) && val_dim_combine(a, 1, b, op == AST_ADD ? 1 : -1, &out)) return out;
    if (op == AST_MUL && b.kind == VAL_INT && val_dim_combine(a, b.i, b, 0, &out)) return out;
    if (op == AST_MUL && a.kind == VAL_INT && val_dim_combine(b, a.i, a, 0, &out)) return out;
    if (op == AST_DIV && b.kind == VAL_INT && b.i == 0) return division_by_zero(L, loc);
    if (op == AST_DIV && b.kind == VAL_INT && a.kind == VAL_DIM && b.i > 0) return dim_divide(L, a.dim, b.i, loc);
    return lower_fail(L, E0218, loc,
                      "a bounded extent can be added, multiplied by a constant, or divided by a divisor of its factor; "
                      "for other arithmetic at run time use float(..) or int(..) of it",
                      "this operation on a bounded dimension has no constant result");
}

static Value arithmetic(Lower *L, AstOp op, Value a, Value b, SrcLoc loc) {
    if (a.kind == VAL_BOOL || b.kind == VAL_BOOL)
        return lower_fail(L, E0204, loc, "use `if c then 1 else 0`", "arithmetic on a boolean constant");
    if (a.kind == VAL_FLOAT || b.kind == VAL_FLOAT) {
        if (a.inexact || b.inexact)
            lower_warn(L, W0201, loc, "write one side as a float, for instance 1.0/2",
                       "an integer quotient that was rounded down meets a float");
        if (a.kind == VAL_DIM || b.kind == VAL_DIM)
            return lower_fail(L, E0218, loc, "write float(n)",
                              "a bounded extent does not convert to a float by itself");
        return float_arithmetic(op, val_number(a), val_number(b));
    }
    if (a.kind == VAL_DIM || b.kind == VAL_DIM) return dim_arithmetic(L, op, a, b, loc);
    Value v = int_arithmetic(L, op, a.i, b.i, loc);
    v.inexact |= a.inexact || b.inexact;
    return v;
}

static Value logic(Lower *L, AstOp op, Value a, Value b, SrcLoc loc) {
    if (a.kind != VAL_BOOL || b.kind != VAL_BOOL) {
        Value bad = a.kind != VAL_BOOL ? a : b;
        return lower_fail(L, E0204, loc, NULL, "'%s' needs booleans, not %s", op == AST_AND ? "and" : "or",
                          val_describe(L->arena, bad));
    }
    return val_bool(op == AST_AND ? a.i && b.i : a.i || b.i);
}

Value const_binary(Lower *L, AstOp op, Value a, Value b, SrcLoc loc) {
    if (op == AST_EQ) return val_bool(val_equal(a, b));
    if (op == AST_NE) return val_bool(!val_equal(a, b));
    if (op == AST_AND || op == AST_OR) return logic(L, op, a, b, loc);
    if (!val_is_const_number(a) || !val_is_const_number(b)) {
        Value bad = val_is_const_number(a) ? b : a;
        return lower_fail(L, E0204, loc, NULL, "this operator needs numbers, not %s", val_describe(L->arena, bad));
    }
    if (op < AST_EQ) return arithmetic(L, op, a, b, loc);
    if (a.kind == VAL_DIM || b.kind == VAL_DIM)
        return lower_fail(L, E0218, loc, NULL, "a bounded extent is not known when the program is compiled");
    if (a.kind == VAL_BOOL || b.kind == VAL_BOOL) return lower_fail(L, E0204, loc, NULL, "booleans have no order");
    return compare(op, a, b);
}

Value const_unary(Lower *L, AstOp op, Value a, SrcLoc loc) {
    if (op == AST_NOT) {
        if (a.kind == VAL_BOOL) return val_bool(!a.i);
        return lower_fail(L, E0204, loc, NULL, "'not' needs a boolean, not %s", val_describe(L->arena, a));
    }
    if (a.kind == VAL_FLOAT) return val_float(-a.f);
    if (a.kind == VAL_INT || a.kind == VAL_DIM) return const_binary(L, AST_SUB, val_int(0), a, loc);
    return lower_fail(L, E0204, loc, NULL, "'-' needs a number, not %s", val_describe(L->arena, a));
}
