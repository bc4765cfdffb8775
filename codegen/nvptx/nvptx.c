#include "codegen/nvptx/nvptx.h"
#include "codegen/llvm/machine.h"
#include "codegen/nvptx/simt.h"
#include <stdlib.h>
#include <string.h>

/* Kernels are straight-line code in a few loops: clean up, hoist, combine; widening of neighbouring accesses
 * happens in LLVM's code generator. */
static const char PIPELINE[] =
    "function(early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),"
    "gvn,instcombine<no-verify-fixpoint>,separate-const-offset-from-gep,early-cse,dse,simplifycfg),globaldce";

typedef struct Build {
    Emit e;
    LLVMTargetMachineRef machine;
    Arena *arena;
} Build;

static void build_free(Build *b) {
    emit_free(&b->e);
    LLVMDisposeTargetMachine(b->machine);
    arena_free(b->arena);
}

static bool build(Build *b, const Module *m, const NvptxOptions *o, char **error) {
    const bool hopper = strcmp(o->arch, "sm_90") >= 0;
    LLVMTargetMachineRef machine = machine_new("nvptx64-nvidia-cuda", o->arch, hopper ? "+ptx80" : "+ptx70", error);
    if (!machine) return false;
    *b = (Build){.machine = machine, .arena = arena_new()};
    emit_init(&b->e, m->name);
    machine_prepare(&b->e, machine);
    for (int i = 0; i < m->kernels.n; i++) {
        Arena *a = arena_new();
        const bool ok = simt_kernel(&b->e, m->kernels.at[i], a);
        arena_free(a);
        if (ok) continue;
        char text[256];
        snprintf(text, sizeof text, "kernel %s was not compiled for a GPU target", m->kernels.at[i]->name);
        *error = strdup(text);
        build_free(b);
        return false;
    }
    if (machine_optimise(&b->e, machine, o->unoptimised ? "verify" : PIPELINE, error)) return true;
    build_free(b);
    return false;
}

bool nvptx_emit_ptx(const Module *m, const NvptxOptions *o, char **text, char **error) {
    Build b;
    void *bytes = NULL;
    size_t n = 0;
    if (!build(&b, m, o, error)) return false;
    const bool ok = machine_emit(&b.e, b.machine, LLVMAssemblyFile, &bytes, &n, error);
    build_free(&b);
    *text = bytes;
    return ok;
}

bool nvptx_emit_ir_text(const Module *m, const NvptxOptions *o, char **text, char **error) {
    Build b;
    if (!build(&b, m, o, error)) return false;
    *text = machine_ir_text(&b.e);
    build_free(&b);
    return true;
}
