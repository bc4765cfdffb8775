/* Context, types and structure. */
#include "codegen/llvm/emit.h"
#include <string.h>

void emit_init(Emit *e, const char *module_name) {
    LLVMContextRef c = LLVMContextCreate();
    *e = (Emit){
        .context = c,
        .module = LLVMModuleCreateWithNameInContext(module_name, c),
        .b = LLVMCreateBuilderInContext(c),
        .i1 = LLVMInt1TypeInContext(c),
        .i8 = LLVMInt8TypeInContext(c),
        .i16 = LLVMInt16TypeInContext(c),
        .i32 = LLVMInt32TypeInContext(c),
        .i64 = LLVMInt64TypeInContext(c),
        .half = LLVMHalfTypeInContext(c),
        .f32 = LLVMFloatTypeInContext(c),
        .f64 = LLVMDoubleTypeInContext(c),
        .ptr = LLVMPointerTypeInContext(c, 0),
        .none = LLVMVoidTypeInContext(c),
    };
}

void emit_free(Emit *e) {
    LLVMDisposeBuilder(e->b);
    if (e->module) LLVMDisposeModule(e->module);
    LLVMContextDispose(e->context);
}

/* ---- types ------------------------------------------------------------------------------------------- */
LLVMTypeRef emit_type(const Emit *e, DType t) {
    switch (t) {
    case DT_BOOL: return e->i1;
    case DT_I32: return e->i32;
    default: return e->f32;
    }
}

LLVMTypeRef emit_memory_type(const Emit *e, DType t) {
    switch (t) {
    case DT_BOOL: return e->i8;
    case DT_F16: return e->half;
    case DT_BF16: return e->i16;
    default: return emit_type(e, t);
    }
}

LLVMTypeRef emit_vector_type(LLVMTypeRef element, int width) {
    return width ? LLVMVectorType(element, (unsigned)width) : element;
}

int emit_width(LLVMValueRef v) {
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 0;
}

LLVMValueRef emit_const(const Emit *e, DType t, double value) {
    LLVMTypeRef type = emit_type(e, t);
    if (dtype_is_float(t)) return LLVMConstReal(type, scalar_round(t, value));
    return LLVMConstInt(type, (unsigned long long)(int64_t)scalar_round(t, value), true);
}

LLVMValueRef emit_i64(const Emit *e, int64_t value) { return LLVMConstInt(e->i64, (unsigned long long)value, true); }

LLVMValueRef emit_splat(const Emit *e, LLVMValueRef v, int width) {
    if (!width || emit_width(v)) return v;
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(v), (unsigned)width);
    LLVMValueRef one = LLVMBuildInsertElement(e->b, LLVMGetPoison(type), v, LLVMConstInt(e->i32, 0, false), "");
    LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(e->i32, (unsigned)width));
    return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(type), zeros, "");
}

void emit_match(const Emit *e, int n, LLVMValueRef *v) {
    int width = 0;
    for (int i = 0; i < n; i++)
        if (emit_width(v[i]) > width) width = emit_width(v[i]);
    for (int i = 0; i < n; i++) v[i] = emit_splat(e, v[i], width);
}

LLVMValueRef emit_lanes(const Emit *e, LLVMTypeRef int_type, int width) {
    (void)e;
    LLVMValueRef lane[128];
    for (int i = 0; i < width && i < 128; i++) lane[i] = LLVMConstInt(int_type, (unsigned long long)i, false);
    return LLVMConstVector(lane, (unsigned)width);
}

LLVMValueRef emit_lanes_below(const Emit *e, LLVMValueRef n, int width) {
    return LLVMBuildICmp(e->b, LLVMIntSLT, emit_lanes(e, LLVMTypeOf(n), width), emit_splat(e, n, width), "");
}

/* ---- structure ----------------------------------------------------------------------------------------- */
LLVMBasicBlockRef emit_block(const Emit *e, LLVMValueRef fn, const char *name) {
    return LLVMAppendBasicBlockInContext(e->context, fn, name);
}

LLVMValueRef emit_call(const Emit *e, LLVMValueRef fn, int n, LLVMValueRef *args) {
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, (unsigned)n, "");
}

LLVMValueRef emit_intrinsic(const Emit *e, const char *name, int n, LLVMValueRef *args) {
    emit_match(e, n, args);
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    return emit_call(e, LLVMGetIntrinsicDeclaration(e->module, id, &type, 1), n, args);
}

LLVMValueRef emit_masked(const Emit *e, const char *name, LLVMTypeRef data, LLVMValueRef pointer, int n,
                         LLVMValueRef *args) {
    LLVMTypeRef types[2] = {data, LLVMTypeOf(pointer)};
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    return emit_call(e, LLVMGetIntrinsicDeclaration(e->module, id, types, 2), n, args);
}

LLVMValueRef emit_load_f32(const Emit *e, LLVMTypeRef vector, LLVMValueRef at, LLVMValueRef mask) {
    LLVMValueRef args[4] = {at, LLVMConstInt(e->i32, 4, false), mask, LLVMConstNull(vector)};
    if (mask) return emit_masked(e, "llvm.masked.load", vector, at, 4, args);
    LLVMValueRef v = LLVMBuildLoad2(e->b, vector, at, "");
    LLVMSetAlignment(v, 4);
    return v;
}

void emit_store_f32(const Emit *e, LLVMValueRef v, LLVMValueRef at, LLVMValueRef mask) {
    LLVMValueRef args[4] = {v, at, LLVMConstInt(e->i32, 4, false), mask};
    if (mask)
        emit_masked(e, "llvm.masked.store", LLVMTypeOf(v), at, 4, args);
    else
        LLVMSetAlignment(LLVMBuildStore(e->b, v, at), 4);
}

static LLVMAttributeRef attribute(const Emit *e, const char *name, uint64_t value) {
    return LLVMCreateEnumAttribute(e->context, LLVMGetEnumAttributeKindForName(name, strlen(name)), value);
}

void emit_fn_attribute(const Emit *e, LLVMValueRef fn, const char *name) {
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attribute(e, name, 0));
}

void emit_fn_text_attribute(const Emit *e, LLVMValueRef fn, const char *name, const char *value) {
    LLVMAddAttributeAtIndex(
        fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(e->context, name, (unsigned)strlen(name), value, (unsigned)strlen(value)));
}

void emit_param_attribute(const Emit *e, LLVMValueRef fn, int param, const char *name, uint64_t value) {
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)(param + 1), attribute(e, name, value));
}
