/* One elementwise op, and the steps of reductions; the semantics are those of ir/scalar.c. */
#include "codegen/llvm/emit.h"
#include "codegen/llvm/emit_math.h"
#include "codegen/math/math.h"
#include <math.h>

static LLVMTypeRef like(const Emit *e, DType t, LLVMValueRef v) {
    return emit_vector_type(emit_type(e, t), emit_width(v));
}

static LLVMValueRef constant_like(const Emit *e, DType t, double value, LLVMValueRef v) {
    return emit_splat(e, emit_const(e, t, value), emit_width(v));
}

/* ---- memory forms ------------------------------------------------------------------------------------- */
static LLVMValueRef bits_like(const Emit *e, uint32_t bits, LLVMValueRef v) {
    return emit_splat(e, LLVMConstInt(e->i32, bits, false), emit_width(v));
}

/* i32: the bits of the bf16 nearest to two f32.  For a pair a GPU's assembler has F2FP, of its arithmetic units; for one by itself
 * F2F, of the few that compute roots and sines. */
static LLVMValueRef bf16_pair(const Emit *e, LLVMValueRef high, LLVMValueRef low) {
    static const char name[] = "llvm.nvvm.ff2bf16x2.rn";
    LLVMValueRef args[] = {high, low};
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, LLVMLookupIntrinsicID(name, sizeof name - 1), NULL, 0);
    LLVMValueRef pair = LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, 2, "");
    return LLVMBuildBitCast(e->b, pair, e->i32, "");
}

/* The upper half is the rounded value's f32. */
static LLVMValueRef one_by_pair(const Emit *e, LLVMValueRef v) {
    return LLVMBuildBitCast(e->b, bf16_pair(e, v, LLVMConstNull(e->f32)), e->f32, "");
}

static LLVMValueRef round_by_pairs(const Emit *e, LLVMValueRef v) {
    const int width = emit_width(v);
    if (!width) return one_by_pair(e, v);
    LLVMValueRef all = LLVMGetUndef(LLVMTypeOf(v));
    for (int n = 0; n < width; n++) {
        LLVMValueRef at = LLVMConstInt(e->i32, (unsigned)n, false);
        all = LLVMBuildInsertElement(e->b, all, one_by_pair(e, LLVMBuildExtractElement(e->b, v, at, "")), at, "");
    }
    return all;
}

/* i16: the bits of the nearest bf16. */
static LLVMValueRef bits_by_pairs(const Emit *e, LLVMValueRef v) {
    const int width = emit_width(v), pairs = (width + 1) / 2;
    LLVMValueRef zero = LLVMConstNull(e->f32);
    if (!width) return LLVMBuildTrunc(e->b, bf16_pair(e, zero, v), e->i16, "");
    LLVMValueRef all = LLVMGetUndef(LLVMVectorType(e->i32, (unsigned)pairs));
    for (int n = 0; n < pairs; n++) {
        LLVMValueRef low = LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i32, 2u * (unsigned)n, false), ""), high = zero;
        if (2 * n + 1 < width) high = LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i32, 2u * (unsigned)n + 1, false), "");
        all = LLVMBuildInsertElement(e->b, all, bf16_pair(e, high, low), LLVMConstInt(e->i32, (unsigned)n, false), "");
    }
    return LLVMBuildBitCast(e->b, all, emit_vector_type(e->i16, width), "");
}

/* Round to nearest even in the upper 16 bits; NaN stays NaN. */
static LLVMValueRef round_bf16(const Emit *e, LLVMValueRef v) {
    if (e->is_gpu) return round_by_pairs(e, v);
    LLVMTypeRef ints = emit_vector_type(e->i32, emit_width(v));
    LLVMValueRef x = LLVMBuildBitCast(e->b, v, ints, "");
    LLVMValueRef odd = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, x, bits_like(e, 16, v), ""), bits_like(e, 1, v), "");
    LLVMValueRef up = LLVMBuildAdd(e->b, x, LLVMBuildAdd(e->b, odd, bits_like(e, 0x7fff, v), ""), "");
    LLVMValueRef nan = LLVMBuildFCmp(e->b, LLVMRealUNO, v, v, "");
    LLVMValueRef kept = LLVMBuildSelect(e->b, nan, bits_like(e, 0x7fc00000, v), up, "");
    LLVMValueRef cut = LLVMBuildAnd(e->b, kept, bits_like(e, 0xffff0000u, v), "");
    return LLVMBuildBitCast(e->b, cut, LLVMTypeOf(v), "");
}

/* Nearest of 10 fraction bits, ties away from zero; infinity and NaN stay. */
static LLVMValueRef round_tf32(const Emit *e, LLVMValueRef v) {
    LLVMTypeRef ints = emit_vector_type(e->i32, emit_width(v));
    LLVMValueRef x = LLVMBuildBitCast(e->b, v, ints, ""), exponent = bits_like(e, 0x7f800000, v);
    LLVMValueRef up = LLVMBuildAdd(e->b, x, bits_like(e, 0x1000, v), "");
    LLVMValueRef cut = LLVMBuildAnd(e->b, up, bits_like(e, 0xffffe000u, v), "");
    LLVMValueRef special = LLVMBuildICmp(e->b, LLVMIntEQ, LLVMBuildAnd(e->b, x, exponent, ""), exponent, "");
    return LLVMBuildBitCast(e->b, LLVMBuildSelect(e->b, special, x, cut, ""), LLVMTypeOf(v), "");
}

LLVMValueRef emit_round(const Emit *e, DType t, LLVMValueRef v) {
    if (t == DT_BF16) return round_bf16(e, v);
    if (t == DT_TF32) return round_tf32(e, v);
    if (t != DT_F16) return v;
    LLVMTypeRef narrow = emit_vector_type(e->half, emit_width(v));
    return LLVMBuildFPExt(e->b, LLVMBuildFPTrunc(e->b, v, narrow, ""), LLVMTypeOf(v), "");
}

LLVMValueRef emit_from_memory(const Emit *e, DType t, LLVMValueRef v) {
    const int width = emit_width(v);
    switch (t) {
    case DT_BOOL: return LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    case DT_F16: return LLVMBuildFPExt(e->b, v, emit_vector_type(e->f32, width), "");
    case DT_BF16: {
        LLVMValueRef wide = LLVMBuildZExt(e->b, v, emit_vector_type(e->i32, width), "");
        wide = LLVMBuildShl(e->b, wide, bits_like(e, 16, v), "");
        return LLVMBuildBitCast(e->b, wide, emit_vector_type(e->f32, width), "");
    }
    default: return v;
    }
}

LLVMValueRef emit_to_memory(const Emit *e, DType t, LLVMValueRef v) {
    const int width = emit_width(v);
    switch (t) {
    case DT_BOOL: return LLVMBuildZExt(e->b, v, emit_vector_type(e->i8, width), "");
    case DT_F16: return LLVMBuildFPTrunc(e->b, v, emit_vector_type(e->half, width), "");
    case DT_BF16: {
        if (e->is_gpu) return bits_by_pairs(e, v);
        LLVMValueRef bits = LLVMBuildBitCast(e->b, round_bf16(e, v), emit_vector_type(e->i32, width), "");
        bits = LLVMBuildLShr(e->b, bits, bits_like(e, 16, v), "");
        return LLVMBuildTrunc(e->b, bits, emit_vector_type(e->i16, width), "");
    }
    default: return v;
    }
}

/* ---- integers -------------------------------------------------------------------------------------------- */
/* Floored quotient or remainder; by 0 gives 0; INT_MIN / -1 wraps. */
static LLVMValueRef floored(const Emit *e, bool quotient, LLVMValueRef a, LLVMValueRef d) {
    LLVMBuilderRef b = e->b;
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a)), one = constant_like(e, DT_I32, 1, a);
    LLVMValueRef by_zero = LLVMBuildICmp(b, LLVMIntEQ, d, zero, "");
    LLVMValueRef by_minus = LLVMBuildICmp(b, LLVMIntEQ, d, constant_like(e, DT_I32, -1, a), "");
    LLVMValueRef safe = LLVMBuildSelect(b, LLVMBuildOr(b, by_zero, by_minus, ""), one, d, "");
    LLVMValueRef q = LLVMBuildSDiv(b, a, safe, ""), r = LLVMBuildSRem(b, a, safe, "");
    LLVMValueRef inexact = LLVMBuildICmp(b, LLVMIntNE, r, zero, "");
    LLVMValueRef opposite = LLVMBuildICmp(b, LLVMIntSLT, LLVMBuildXor(b, r, safe, ""), zero, "");
    LLVMValueRef adjust = LLVMBuildAnd(b, inexact, opposite, "");
    LLVMValueRef v;
    if (quotient) {
        v = LLVMBuildSub(b, q, LLVMBuildSelect(b, adjust, one, zero, ""), "");
        v = LLVMBuildSelect(b, by_minus, LLVMBuildSub(b, zero, a, ""), v, "");
    } else {
        v = LLVMBuildAdd(b, r, LLVMBuildSelect(b, adjust, safe, zero, ""), "");
    }
    return LLVMBuildSelect(b, by_zero, zero, v, "");
}

/* x^n modulo 2^32 by squaring, 32 steps; a negative exponent truncates 1 / x^-n. */
static LLVMValueRef int_pow(const Emit *e, LLVMValueRef x, LLVMValueRef n) {
    LLVMBuilderRef b = e->b;
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(x)), one = constant_like(e, DT_I32, 1, x),
                 minus = constant_like(e, DT_I32, -1, x);
    LLVMValueRef result = one, square = x, rest = n;
    for (int i = 0; i < 31; i++) {
        LLVMValueRef bit = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, rest, one, ""), zero, "");
        result = LLVMBuildSelect(b, bit, LLVMBuildMul(b, result, square, ""), result, "");
        square = LLVMBuildMul(b, square, square, "");
        rest = LLVMBuildLShr(b, rest, one, "");
    }
    LLVMValueRef odd = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, n, one, ""), zero, "");
    LLVMValueRef sign = LLVMBuildSelect(b, odd, minus, one, "");
    LLVMValueRef unit = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntEQ, x, minus, ""), sign, zero, "");
    unit = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntEQ, x, one, ""), one, unit, "");
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, n, zero, ""), unit, result, "");
}

static LLVMValueRef sign_of(const Emit *e, DType t, LLVMValueRef x, LLVMValueRef above, LLVMValueRef below) {
    LLVMValueRef zero = constant_like(e, t, 0, x);
    LLVMValueRef s = LLVMBuildSelect(e->b, below, constant_like(e, t, -1, x), zero, "");
    return LLVMBuildSelect(e->b, above, constant_like(e, t, 1, x), s, "");
}

static LLVMValueRef int_element(const Emit *e, Op op, LLVMValueRef *v) {
    LLVMBuilderRef b = e->b;
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v[0]));
    switch (op) {
    case OP_NEG: return LLVMBuildNeg(b, v[0], "");
    case OP_ABS: {
        LLVMValueRef negative = LLVMBuildICmp(b, LLVMIntSLT, v[0], zero, "");
        return LLVMBuildSelect(b, negative, LLVMBuildNeg(b, v[0], ""), v[0], "");
    }
    case OP_SIGN: {
        LLVMValueRef below = LLVMBuildICmp(b, LLVMIntSLT, v[0], zero, "");
        return sign_of(e, DT_I32, v[0], LLVMBuildICmp(b, LLVMIntSGT, v[0], zero, ""), below);
    }
    case OP_ADD: return LLVMBuildAdd(b, v[0], v[1], "");
    case OP_SUB: return LLVMBuildSub(b, v[0], v[1], "");
    case OP_MUL: return LLVMBuildMul(b, v[0], v[1], "");
    case OP_DIV: return floored(e, true, v[0], v[1]);
    case OP_MOD: return floored(e, false, v[0], v[1]);
    case OP_POW: return int_pow(e, v[0], v[1]);
    case OP_MAX: return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGE, v[0], v[1], ""), v[0], v[1], "");
    case OP_MIN: return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLE, v[0], v[1], ""), v[0], v[1], "");
    default: return v[0]; /* floor, ceil */
    }
}

/* Arithmetic on truth values, as on the numbers 0 and 1 rounded to bool. */
static LLVMValueRef bool_element(const Emit *e, Op op, LLVMValueRef *v) {
    switch (op) {
    case OP_ADD:
    case OP_MAX: return LLVMBuildOr(e->b, v[0], v[1], "");
    case OP_MUL:
    case OP_MIN: return LLVMBuildAnd(e->b, v[0], v[1], "");
    case OP_SUB: return LLVMBuildXor(e->b, v[0], v[1], "");
    default: return v[0];
    }
}

/* ---- floats ------------------------------------------------------------------------------------------------ */
/* The first on ties but for a zero's sign, NaN if either is NaN. */
static LLVMValueRef float_extreme(const Emit *e, LLVMRealPredicate wins, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef both[] = {a, b};
    if (e->is_gpu) return emit_intrinsic(e, wins == LLVMRealUGE ? "llvm.maximum" : "llvm.minimum", 2, both);
    LLVMValueRef first = LLVMBuildFCmp(e->b, wins, a, b, ""); /* b not NaN and a wins, or a is NaN (unordered) */
    LLVMValueRef b_nan = LLVMBuildFCmp(e->b, LLVMRealUNO, b, b, "");
    return LLVMBuildSelect(e->b, b_nan, b, LLVMBuildSelect(e->b, first, a, b, ""), "");
}

static LLVMValueRef float_element(const Emit *e, Op op, DType t, int n, LLVMValueRef *v) {
    LLVMBuilderRef b = e->b;
    switch (op) {
    case OP_NEG: return LLVMBuildFNeg(b, v[0], "");
    case OP_ABS: return emit_intrinsic(e, "llvm.fabs", 1, v);
    case OP_SIGN: {
        LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v[0]));
        LLVMValueRef below = LLVMBuildFCmp(b, LLVMRealOLT, v[0], zero, "");
        return sign_of(e, t, v[0], LLVMBuildFCmp(b, LLVMRealOGT, v[0], zero, ""), below);
    }
    case OP_FLOOR: return emit_intrinsic(e, "llvm.floor", 1, v);
    case OP_CEIL: return emit_intrinsic(e, "llvm.ceil", 1, v);
    case OP_ADD: return LLVMBuildFAdd(b, v[0], v[1], "");
    case OP_SUB: return LLVMBuildFSub(b, v[0], v[1], "");
    case OP_MUL: return LLVMBuildFMul(b, v[0], v[1], "");
    case OP_DIV: return LLVMBuildFDiv(b, v[0], v[1], "");
    case OP_MOD: {
        LLVMValueRef q = LLVMBuildFDiv(b, v[0], v[1], "");
        q = emit_intrinsic(e, "llvm.floor", 1, &q);
        return LLVMBuildFSub(b, v[0], LLVMBuildFMul(b, q, v[1], ""), "");
    }
    case OP_MAX: return float_extreme(e, LLVMRealUGE, v[0], v[1]);
    case OP_MIN: return float_extreme(e, LLVMRealULE, v[0], v[1]);
    default: return emit_math(e, op, n, v);
    }
}

/* ---- comparisons, casts ----------------------------------------------------------------------------------------- */
static LLVMValueRef compare(const Emit *e, Op op, DType t, LLVMValueRef a, LLVMValueRef b) {
    static const struct {
        LLVMRealPredicate real;
        LLVMIntPredicate sint, uint;
    } predicate[] = {
        [OP_EQ - OP_EQ] = {LLVMRealOEQ, LLVMIntEQ, LLVMIntEQ},
        [OP_NE - OP_EQ] = {LLVMRealUNE, LLVMIntNE, LLVMIntNE},
        [OP_LT - OP_EQ] = {LLVMRealOLT, LLVMIntSLT, LLVMIntULT},
        [OP_LE - OP_EQ] = {LLVMRealOLE, LLVMIntSLE, LLVMIntULE},
        [OP_GT - OP_EQ] = {LLVMRealOGT, LLVMIntSGT, LLVMIntUGT},
        [OP_GE - OP_EQ] = {LLVMRealOGE, LLVMIntSGE, LLVMIntUGE},
    };
    const int i = op - OP_EQ;
    if (dtype_is_float(t)) return LLVMBuildFCmp(e->b, predicate[i].real, a, b, "");
    return LLVMBuildICmp(e->b, t == DT_BOOL ? predicate[i].uint : predicate[i].sint, a, b, "");
}

/* Truncates toward zero, saturates, NaN gives 0. */
static LLVMValueRef float_to_int(const Emit *e, LLVMValueRef v) {
    LLVMTypeRef types[2] = {emit_vector_type(e->i32, emit_width(v)), LLVMTypeOf(v)};
    static const char name[] = "llvm.fptosi.sat";
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, LLVMLookupIntrinsicID(name, sizeof name - 1), types, 2);
    return emit_call(e, fn, 1, &v);
}

static LLVMValueRef cast(const Emit *e, DType to, DType from, LLVMValueRef v) {
    LLVMBuilderRef b = e->b;
    LLVMTypeRef type = like(e, to, v);
    if (to == from) return v;
    if (to == DT_BOOL) {
        LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v));
        return from == DT_I32 ? LLVMBuildICmp(b, LLVMIntNE, v, zero, "") : LLVMBuildFCmp(b, LLVMRealUNE, v, zero, "");
    }
    if (to == DT_I32) return from == DT_BOOL ? LLVMBuildZExt(b, v, type, "") : float_to_int(e, v);
    if (from == DT_BOOL) return LLVMBuildUIToFP(b, v, type, "");
    if (from == DT_I32) return LLVMBuildSIToFP(b, v, type, "");
    return v; /* floats are f32 until they are stored */
}

static LLVMValueRef arithmetic(const Emit *e, Op op, DType t, int n, LLVMValueRef *v) {
    if (t == DT_BOOL) return bool_element(e, op, v);
    return t == DT_I32 ? int_element(e, op, v) : float_element(e, op, t, n, v);
}

LLVMValueRef emit_element(const Emit *e, Op op, DType result, DType operand, int n, const LLVMValueRef *in) {
    LLVMValueRef v[4] = {0};
    for (int i = 0; i < n; i++) v[i] = in[i];
    emit_match(e, n, v);
    switch (op) {
    case OP_SELECT: return LLVMBuildSelect(e->b, v[0], v[1], v[2], "");
    case OP_NOT: return LLVMBuildNot(e->b, v[0], "");
    case OP_AND: return LLVMBuildAnd(e->b, v[0], v[1], "");
    case OP_OR: return LLVMBuildOr(e->b, v[0], v[1], "");
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE: return compare(e, op, operand, v[0], v[1]);
    case OP_CAST: return emit_round(e, result, cast(e, result, operand, v[0]));
    case OP_PHILOX: return emit_math(e, op, n, v);
    case OP_BITS: return LLVMBuildBitCast(e->b, v[0], like(e, DT_I32, v[0]), "");
    default: return emit_round(e, result, arithmetic(e, op, result, n, v));
    }
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */
LLVMValueRef emit_identity(const Emit *e, Op op, DType t) { return emit_const(e, t, scalar_identity(op, t)); }

LLVMValueRef emit_combine(const Emit *e, Op op, DType t, LLVMValueRef acc, LLVMValueRef v) {
    LLVMValueRef in[2] = {acc, v};
    emit_match(e, 2, in);
    return arithmetic(e, scalar_step(op), dtype_is_low(t) ? DT_F32 : t, 2, in);
}

/* Halves the vector until one lane is left: a fixed order of a few shuffles. */
LLVMValueRef emit_horizontal(const Emit *e, Op op, DType t, LLVMValueRef v) {
    for (int width = emit_width(v); width > 1; width /= 2) {
        LLVMValueRef low[64], high[64];
        for (int i = 0; i < width / 2; i++) {
            low[i] = LLVMConstInt(e->i32, (unsigned)i, false);
            high[i] = LLVMConstInt(e->i32, (unsigned)(i + width / 2), false);
        }
        LLVMValueRef none = LLVMGetPoison(LLVMTypeOf(v));
        LLVMValueRef a = LLVMBuildShuffleVector(e->b, v, none, LLVMConstVector(low, (unsigned)width / 2), "");
        LLVMValueRef b = LLVMBuildShuffleVector(e->b, v, none, LLVMConstVector(high, (unsigned)width / 2), "");
        v = emit_combine(e, op, t, a, b);
    }
    return emit_width(v) ? LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i32, 0, false), "") : v;
}

LLVMValueRef emit_fma(const Emit *e, DType t, LLVMValueRef x, LLVMValueRef y, LLVMValueRef acc) {
    LLVMValueRef v[3] = {x, y, acc};
    emit_match(e, 3, v);
    if (dtype_is_float(t)) return emit_intrinsic(e, "llvm.fmuladd", 3, v);
    if (t == DT_BOOL) return LLVMBuildOr(e->b, v[2], LLVMBuildAnd(e->b, v[0], v[1], ""), "");
    return LLVMBuildAdd(e->b, v[2], LLVMBuildMul(e->b, v[0], v[1], ""), "");
}
