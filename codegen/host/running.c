/* See running.h. */
#include "codegen/host/running.h"
#include <string.h>

static LLVMValueRef phi_like(const Emit *e, LLVMValueRef v) { return LLVMBuildPhi(e->b, LLVMTypeOf(v), ""); }

Running running_phis(const Emit *e, const Running *like) {
    Running r = {.rows = like->rows, .vectors = like->vectors, .x = phi_like(e, like->x), .y = phi_like(e, like->y)};
    if (like->packed) r.packed = phi_like(e, like->packed);
    for (int i = 0; i < r.rows; i++)
        for (int v = 0; v < r.vectors; v++) r.acc[i][v] = phi_like(e, like->acc[i][v]);
    return r;
}

static void add_edge(LLVMValueRef phi, LLVMValueRef v, LLVMBasicBlockRef from) { LLVMAddIncoming(phi, &v, &from, 1); }

void running_join(const Running *phis, const Running *in, LLVMBasicBlockRef from) {
    add_edge(phis->x, in->x, from);
    add_edge(phis->y, in->y, from);
    if (phis->packed) add_edge(phis->packed, in->packed, from);
    for (int i = 0; i < phis->rows; i++)
        for (int v = 0; v < phis->vectors; v++) add_edge(phis->acc[i][v], in->acc[i][v], from);
}

LLVMValueRef micro_function(const Emit *e, const char *name, int n, LLVMTypeRef *params) {
    LLVMValueRef fn = LLVMAddFunction(e->module, name, LLVMFunctionType(e->none, params, (unsigned)n, false));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    emit_fn_attribute(e, fn, "noinline");
    emit_fn_attribute(e, fn, "nounwind");
    for (int i = 0; i < n; i++)
        if (params[i] == e->ptr) {
            emit_param_attribute(e, fn, i, "noalias", 0);
            emit_param_attribute(e, fn, i, "nocapture", 0);
        }
    return fn;
}

/* acc + x * y, or the products of both halves.  VDPBF16PS adds one product after the other, each sum rounded to nearest
 * even as that of a fused multiply-add; it takes denormal factors as zero and makes denormal sums zero, whatever MXCSR
 * says (Intel SDM, volume 2).  A sum of n terms is thus off by n roundings at most, as it is in f32, by n of the least
 * normal numbers, and by what a factor below them would add. */
LLVMValueRef micro_multiply_add(const Emit *e, bool pairs, LLVMValueRef x, LLVMValueRef y, LLVMValueRef acc) {
    static const struct {
        int lanes;
        const char *name;
    } dots[] = {{4, "llvm.x86.avx512bf16.dpbf16ps.128"},
                {8, "llvm.x86.avx512bf16.dpbf16ps.256"},
                {16, "llvm.x86.avx512bf16.dpbf16ps.512"}};
    const int lanes = emit_width(acc);
    if (!pairs) return emit_fma(e, DT_F32, x, y, acc);
    LLVMTypeRef halves = LLVMVectorType(LLVMBFloatTypeInContext(e->context), 2 * (unsigned)lanes);
    LLVMValueRef args[3] = {acc, LLVMBuildBitCast(e->b, x, halves, ""), LLVMBuildBitCast(e->b, y, halves, "")};
    int i = 0;
    while (dots[i].lanes != lanes) i++;
    const unsigned id = LLVMLookupIntrinsicID(dots[i].name, strlen(dots[i].name));
    return emit_call(e, LLVMGetIntrinsicDeclaration(e->module, id, NULL, 0), 3, args);
}
