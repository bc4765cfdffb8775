/* The MathBuilder of LLVM back ends: the transcendental functions become plain instructions. */
#include "codegen/llvm/emit_math.h"
#include "codegen/math/math.h"
#include <stdio.h>

static MathValue math_f32(void *user, float value) {
    const Emit *e = user;
    return LLVMConstReal(e->f32, (double)value);
}

static MathValue math_i32(void *user, int32_t value) {
    const Emit *e = user;
    return LLVMConstInt(e->i32, (unsigned long long)(int64_t)value, true);
}

/* High word of an unsigned 32 x 32 bit product. */
static LLVMValueRef mulhi(const Emit *e, LLVMValueRef x, LLVMValueRef y) {
    LLVMTypeRef wide = emit_vector_type(e->i64, emit_width(x));
    LLVMValueRef y64 = LLVMBuildZExt(e->b, y, wide, ""),
                 p = LLVMBuildMul(e->b, LLVMBuildZExt(e->b, x, wide, ""), y64, "");
    LLVMValueRef shift = emit_splat(e, emit_i64(e, 32), emit_width(x));
    return LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, p, shift, ""), LLVMTypeOf(x), "");
}

static LLVMValueRef as(const Emit *e, LLVMValueRef v, LLVMTypeRef element) {
    return LLVMBuildBitCast(e->b, v, emit_vector_type(element, emit_width(v)), "");
}

/* ex2.approx, of each lane. */
static LLVMValueRef exp2_instruction(const Emit *e, LLVMValueRef v) {
    static const char name[] = "llvm.nvvm.ex2.approx.f";
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, LLVMLookupIntrinsicID(name, sizeof name - 1), NULL, 0);
    const int width = emit_width(v);
    LLVMValueRef result = width ? LLVMGetPoison(LLVMTypeOf(v)) : NULL;
    if (!width) return emit_call(e, fn, 1, &v);
    for (int l = 0; l < width; l++) {
        LLVMValueRef at = LLVMConstInt(e->i32, (unsigned)l, false), x = LLVMBuildExtractElement(e->b, v, at, "");
        result = LLVMBuildInsertElement(e->b, result, emit_call(e, fn, 1, &x), at, "");
    }
    return result;
}

static MathValue math_op(void *user, MathOp op, const MathValue *operands) {
    const Emit *e = user;
    LLVMBuilderRef b = e->b;
    const int n = op == MATH_MAD || op == MATH_SELECT || op == MATH_ISELECT ? 3 : math_op_info[op].operands[1] ? 2 : 1;
    LLVMValueRef v[3] = {0};
    for (int i = 0; i < n; i++) v[i] = operands[i];
    emit_match(e, n, v);
    switch (op) {
    case MATH_ADD: return LLVMBuildFAdd(b, v[0], v[1], "");
    case MATH_SUB: return LLVMBuildFSub(b, v[0], v[1], "");
    case MATH_MUL: return LLVMBuildFMul(b, v[0], v[1], "");
    case MATH_DIV: return LLVMBuildFDiv(b, v[0], v[1], "");
    case MATH_MAD: return emit_intrinsic(e, "llvm.fmuladd", 3, v);
    case MATH_SQRT: return emit_intrinsic(e, "llvm.sqrt", 1, v);
    case MATH_FLOOR: return emit_intrinsic(e, "llvm.floor", 1, v);
    case MATH_LT: return LLVMBuildFCmp(b, LLVMRealOLT, v[0], v[1], "");
    case MATH_EQ: return LLVMBuildFCmp(b, LLVMRealOEQ, v[0], v[1], "");
    case MATH_ILT: return LLVMBuildICmp(b, LLVMIntSLT, v[0], v[1], "");
    case MATH_IEQ: return LLVMBuildICmp(b, LLVMIntEQ, v[0], v[1], "");
    case MATH_AND: return LLVMBuildAnd(b, v[0], v[1], "");
    case MATH_OR: return LLVMBuildOr(b, v[0], v[1], "");
    case MATH_SELECT:
    case MATH_ISELECT: return LLVMBuildSelect(b, v[0], v[1], v[2], "");
    case MATH_IADD: return LLVMBuildAdd(b, v[0], v[1], "");
    case MATH_ISUB: return LLVMBuildSub(b, v[0], v[1], "");
    case MATH_IMUL: return LLVMBuildMul(b, v[0], v[1], "");
    case MATH_IMULHI: return mulhi(e, v[0], v[1]);
    case MATH_IAND: return LLVMBuildAnd(b, v[0], v[1], "");
    case MATH_IOR: return LLVMBuildOr(b, v[0], v[1], "");
    case MATH_IXOR: return LLVMBuildXor(b, v[0], v[1], "");
    case MATH_ISHL: return LLVMBuildShl(b, v[0], v[1], "");
    case MATH_ISHR: return LLVMBuildLShr(b, v[0], v[1], "");
    case MATH_ISAR: return LLVMBuildAShr(b, v[0], v[1], "");
    case MATH_BITS: return as(e, v[0], e->i32);
    case MATH_FLOAT: return as(e, v[0], e->f32);
    case MATH_CONVERT: return LLVMBuildSIToFP(b, v[0], emit_vector_type(e->f32, emit_width(v[0])), "");
    case MATH_MIN: return emit_intrinsic(e, "llvm.minnum", 2, v);
    case MATH_MAX: return emit_intrinsic(e, "llvm.maxnum", 2, v);
    case MATH_EXP2: return exp2_instruction(e, v[0]);
    case MATH_OP_COUNT: break;
    }
    return NULL;
}

static LLVMValueRef expand(const Emit *e, Op op, const LLVMValueRef *in) {
    MathBuilder b = {.user = (void *)e, .f32 = math_f32, .i32 = math_i32, .op = math_op, .has_exp2 = e->is_gpu};
    MathValue operands[4] = {0};
    for (int i = 0; i < op_info[op].arity; i++) operands[i] = in[i];
    return math_expand(&b, op, operands);
}

/* ---- functions that are called ----------------------------------------------------------------------------------- */
static void count_uses(const Block *b, int64_t *uses) {
    for (int i = 0; i < b->n; i++) {
        if (b->at[i]->kind == TI_ELEMENT) uses[b->at[i]->op]++;
        count_uses(&b->at[i]->body, uses);
    }
}

void emit_choose_calls(Emit *e, const Module *m) {
    enum { LONG = 64, MOST_INLINED = 16384 }; /* instructions: of a function; of all its uses */
    int64_t uses[OP_COUNT] = {0};
    for (int i = 0; i < m->kernels.n; i++) {
        const Kernel *k = m->kernels.at[i];
        count_uses(&k->body, uses);
        for (int b = 0; b < k->bundle.n; b++) count_uses(&k->bundle.at[b].kernel->body, uses);
    }
    for (int op = 0; op < OP_COUNT; op++) {
        const int steps = math_steps((Op)op);
        e->calls[op] = steps >= LONG && uses[op] * steps > MOST_INLINED;
    }
}

/* Reads and writes no memory, so that calls can be moved and merged as the instructions would be. */
static LLVMValueRef declare(const Emit *e, const char *name, int n, const LLVMValueRef *in) {
    LLVMTypeRef params[4];
    for (int i = 0; i < n; i++) params[i] = LLVMTypeOf(in[i]);
    LLVMTypeRef result = emit_vector_type(e->f32, emit_width(in[0]));
    LLVMValueRef fn = LLVMAddFunction(e->module, name, LLVMFunctionType(result, params, (unsigned)n, false));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    static const char *const attributes[] = {"noinline", "nounwind", "willreturn", "memory"};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) emit_fn_attribute(e, fn, attributes[i]);
    return fn;
}

static void define(const Emit *e, LLVMValueRef fn, Op op) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMValueRef in[4];
    LLVMGetParams(fn, in);
    LLVMPositionBuilderAtEnd(e->b, emit_block(e, fn, "entry"));
    LLVMBuildRet(e->b, expand(e, op, in));
    LLVMPositionBuilderAtEnd(e->b, here);
}

static LLVMValueRef call(const Emit *e, Op op, const LLVMValueRef *in) {
    const int n = op_info[op].arity;
    char name[64];
    LLVMValueRef v[4];
    for (int i = 0; i < n; i++) v[i] = in[i];
    emit_match(e, n, v);
    snprintf(name, sizeof name, "fusec_%s_%d_%d", op_info[op].text, emit_width(v[0]), e->part);
    LLVMValueRef fn = LLVMGetNamedFunction(e->module, name);
    if (!fn) define(e, fn = declare(e, name, n, v), op);
    return emit_call(e, fn, n, v);
}

LLVMValueRef emit_math(const Emit *e, Op op, int n, const LLVMValueRef *in) {
    (void)n;
    if (!math_expands(op)) return NULL;
    return e->calls[op] ? call(e, op, in) : expand(e, op, in);
}
