#include "codegen/nvptx/nvptx.h"
#include "codegen/llvm/emit_math.h"
#include "codegen/llvm/machine.h"
#include "codegen/nvptx/simt.h"
#include "ir/memory.h"
#include "ir/target.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Kernels are straight-line code in a few loops: clean up, hoist, combine; widening of neighbouring accesses
 * happens in LLVM's code generator. */
static const char PIPELINE[] =
    "function(mem2reg,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),"
    "gvn,instcombine<no-verify-fixpoint>,separate-const-offset-from-gep,early-cse,dse,simplifycfg),globaldce";

/* Kernels do not call each other: a few LLVM modules are compiled side by side and their texts joined.  The
 * division depends on the kernels alone, so that the text does not depend on the machine. */
enum { PARTS = 4, KERNELS_PER_PART = 8 };

typedef struct Part {
    Emit e;
    LLVMTargetMachineRef machine;
    const Module *m;
    int first, last; /* kernels */
    bool unoptimised, as_ir;
    char *text, *error;
} Part;

static void part_free(Part *p) {
    emit_free(&p->e);
    LLVMDisposeTargetMachine(p->machine);
}

static bool emit_kernels(Part *p) {
    for (int i = p->first; i < p->last; i++) {
        Arena *a = arena_new();
        Kernel own = *p->m->kernels.at[i];
        own.arena = a; /* for index arithmetic: that of the module is not for several threads */
        const bool ok = simt_kernel(&p->e, &own, a);
        arena_free(a);
        if (ok) continue;
        char text[256];
        snprintf(text, sizeof text, "kernel %s was not compiled for a GPU target", p->m->kernels.at[i]->name);
        p->error = memory_strdup(text);
        return false;
    }
    return true;
}

static void *compile_part(void *argument) {
    Part *p = argument;
    void *bytes = NULL;
    size_t n = 0;
    if (!emit_kernels(p) || !machine_optimise(&p->e, p->machine, p->unoptimised ? "verify" : PIPELINE, &p->error)) return NULL;
    if (p->as_ir) {
        p->text = machine_ir_text(&p->e);
    } else if (machine_emit(&p->e, p->machine, LLVMAssemblyFile, &bytes, &n, &p->error)) {
        p->text = bytes;
    }
    return NULL;
}

/* LLVM's registries are filled here, before threads start. */
static bool part_new(Part *p, const NvptxOptions *o, char **error) {
    p->machine = machine_new("nvptx64-nvidia-cuda", o->arch, target_find(o->arch)->isa, error);
    if (!p->machine) return false;
    emit_init(&p->e, p->m->name);
    p->e.part = p->first;
    emit_choose_calls(&p->e, p->m);
    p->e.is_gpu = true;
    machine_prepare(&p->e, p->machine);
    return true;
}

static void compile_parts(Part *part, int n) {
    pthread_t thread[PARTS];
    bool started[PARTS] = {false};
    for (int i = 1; i < n; i++) started[i] = pthread_create(&thread[i], NULL, compile_part, &part[i]) == 0;
    compile_part(&part[0]);
    for (int i = 1; i < n; i++) {
        if (started[i]) pthread_join(thread[i], NULL);
        else compile_part(&part[i]);
    }
}

/* The parts' texts after each other, with the directives that open a PTX text only once. */
static char *join(const Part *part, int n) {
    size_t total = 1;
    for (int i = 0; i < n; i++) total += strlen(part[i].text);
    char *all = memory_alloc(total), *at = all;
    for (int i = 0; i < n; i++) {
        const char *from = part[i].text, *header = strstr(from, ".address_size");
        if (i && header) from = strchr(header, '\n');
        const size_t length = strlen(from);
        memcpy(at, from, length);
        at += length;
    }
    *at = 0;
    return all;
}

static bool emit_text(const Module *m, const NvptxOptions *o, bool as_ir, char **text, char **error) {
    Part part[PARTS] = {0};
    int n = as_ir ? 1 : (m->kernels.n + KERNELS_PER_PART - 1) / KERNELS_PER_PART, ready = 0;
    n = n < 1 ? 1 : n > PARTS ? PARTS : n;
    bool ok = true;
    for (; ready < n && ok; ready += ok) {
        part[ready] = (Part){.m = m, .first = m->kernels.n * ready / n, .last = m->kernels.n * (ready + 1) / n,
                             .unoptimised = o->unoptimised, .as_ir = as_ir};
        ok = part_new(&part[ready], o, error);
    }
    if (ok) compile_parts(part, n);
    for (int i = 0; i < n && ok; i++) {
        if (part[i].text) continue;
        *error = part[i].error ? part[i].error : memory_strdup("LLVM gave no text");
        part[i].error = NULL;
        ok = false;
    }
    if (ok) *text = join(part, n);
    for (int i = 0; i < ready; i++) {
        free(part[i].text);
        free(part[i].error);
        part_free(&part[i]);
    }
    return ok;
}

bool nvptx_emit_ptx(const Module *m, const NvptxOptions *o, char **text, char **error) {
    return emit_text(m, o, false, text, error);
}

bool nvptx_emit_ir_text(const Module *m, const NvptxOptions *o, char **text, char **error) {
    return emit_text(m, o, true, text, error);
}
