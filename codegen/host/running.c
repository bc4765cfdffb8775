/* See running.h. */
#include "codegen/host/running.h"

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
