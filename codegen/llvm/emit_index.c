/* Index expressions as integer instructions: scalars in 64 bits, vectors in 32 where the caller allows. */
#include "codegen/llvm/emit.h"

static LLVMTypeRef element_of(LLVMValueRef v) {
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

/* Brings an integer to `type` elements and `width` lanes. */
static LLVMValueRef convert(const Emit *e, LLVMValueRef v, LLVMTypeRef type, int width) {
    if (element_of(v) != type) v = LLVMBuildIntCast2(e->b, v, emit_vector_type(type, emit_width(v)), true, "");
    return emit_splat(e, v, width);
}

static void match(const Emit *e, LLVMValueRef *x, LLVMValueRef *y) {
    if (emit_width(*x))
        *y = convert(e, *y, element_of(*x), emit_width(*x));
    else if (emit_width(*y))
        *x = convert(e, *x, element_of(*y), emit_width(*y));
}

LLVMValueRef emit_int_add(const Emit *e, LLVMValueRef x, LLVMValueRef y) {
    match(e, &x, &y);
    return LLVMBuildAdd(e->b, x, y, "");
}

LLVMValueRef emit_int_scale(const Emit *e, LLVMValueRef x, int64_t c) {
    if (c == 1) return x;
    LLVMValueRef k = emit_i64(e, c);
    match(e, &x, &k);
    return LLVMBuildMul(e->b, x, k, "");
}

static LLVMValueRef floored(const Emit *e, bool quotient, LLVMValueRef n, LLVMValueRef d) {
    LLVMValueRef r = LLVMBuildSRem(e->b, n, d, "");
    LLVMValueRef negative = LLVMBuildICmp(e->b, LLVMIntSLT, r, LLVMConstNull(LLVMTypeOf(r)), "");
    if (!quotient)
        return LLVMBuildAdd(e->b, r, LLVMBuildSelect(e->b, negative, d, LLVMConstNull(LLVMTypeOf(r)), ""), "");
    LLVMValueRef q = LLVMBuildSDiv(e->b, n, d, "");
    return LLVMBuildAdd(e->b, q, LLVMBuildSExt(e->b, negative, LLVMTypeOf(q), ""), "");
}

/* Unsigned and in 32 bits where the range allows: such divisions by constants are two multiplications. */
static LLVMValueRef divide(const Emit *e, const IndexSource *s, const Atom *a) {
    const bool quotient = a->kind == ATOM_DIV;
    LLVMValueRef n = emit_index(e, s, a->num), d = emit_index(e, s, a->den);
    match(e, &n, &d);
    int64_t lo, hi, dlo, dhi;
    const bool known = index_range(s->kernel, a->num, &lo, &hi) && index_range(s->kernel, a->den, &dlo, &dhi);
    const bool natural = known && lo >= 0 && dlo > 0;
    const bool small = natural && hi <= INT32_MAX && dhi <= INT32_MAX;
    LLVMTypeRef type = LLVMTypeOf(n), narrow = emit_vector_type(e->i32, emit_width(n));
    if (small) {
        n = LLVMBuildIntCast2(e->b, n, narrow, true, "");
        d = LLVMBuildIntCast2(e->b, d, narrow, true, "");
    }
    LLVMValueRef v = !natural   ? floored(e, quotient, n, d)
                     : quotient ? LLVMBuildUDiv(e->b, n, d, "")
                                : LLVMBuildURem(e->b, n, d, "");
    return LLVMBuildIntCast2(e->b, v, type, true, "");
}

LLVMValueRef emit_atom(const Emit *e, const IndexSource *s, const Atom *a) {
    switch (a->kind) {
    case ATOM_AXIS: return s->axis(s->user, a->id);
    case ATOM_EXTENT: return s->extent(s->user, a->id);
    case ATOM_TILE: return LLVMBuildUDiv(e->b, s->base(s->user, a->id), emit_i64(e, s->kernel->axes.at[a->id].step), "");
    case ATOM_VALUE: {
        LLVMValueRef v = s->value(s->user, a->id);
        LLVMTypeRef type = emit_width(v) && s->bits == 32 ? e->i32 : e->i64;
        return convert(e, v, type, 0);
    }
    default: return divide(e, s, a);
    }
}

LLVMValueRef emit_index(const Emit *e, const IndexSource *s, const Index *x) {
    LLVMValueRef sum = emit_i64(e, x->c);
    for (int i = 0; i < x->n; i++)
        sum = emit_int_add(e, sum, emit_int_scale(e, emit_atom(e, s, &x->term[i].atom), x->term[i].coef));
    return sum;
}

void emit_loop_bounds(const Emit *e, const IndexSource *s, const Inst *loop, LLVMValueRef extent, LLVMValueRef *first, LLVMValueRef *end) {
    LLVMValueRef zero = emit_i64(e, 0), step = emit_i64(e, s->kernel->axes.at[loop->axis].step);
    *first = zero, *end = extent;
    if (loop->from) {
        LLVMValueRef from[2] = {emit_index(e, s, loop->from), zero}, at = emit_intrinsic(e, "llvm.smax", 2, from);
        *first = LLVMBuildSub(e->b, at, LLVMBuildURem(e->b, at, step, ""), "");
    }
    if (loop->to) {
        LLVMValueRef to[2] = {emit_index(e, s, loop->to), extent};
        *end = emit_intrinsic(e, "llvm.smin", 2, to);
    }
}

LLVMValueRef emit_index_i32(const Emit *e, const Kernel *k, const Index *x, LLVMValueRef v) {
    const LLVMTypeRef type = emit_vector_type(e->i32, emit_width(v));
    if (!index_fits_i32(k, x)) {
        LLVMValueRef low[2] = {v, emit_i64(e, INT32_MIN)}, high[2] = {v, emit_i64(e, INT32_MAX)};
        high[0] = emit_intrinsic(e, "llvm.smax", 2, low);
        v = emit_intrinsic(e, "llvm.smin", 2, high);
    }
    return LLVMBuildIntCast2(e->b, v, type, true, "");
}
