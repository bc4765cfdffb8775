/* From a module to objects, text, or code in this process. */
#include "codegen/host/host.h"
#include "codegen/artifact/artifact.h"
#include "codegen/host/kernel.h"
#include "codegen/host/manifest.h"
#include "codegen/llvm/emit_math.h"
#include "codegen/llvm/machine.h"
#include "codegen/schedule/micro_side.h"
#include "ir/memory.h"
#include "ir/target.h"
#include <llvm-c/LLJIT.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The back end vectorises itself, so that LLVM has only to clean up: promote, hoist, combine. */
static const char PIPELINE[] =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),"
    "gvn,instcombine<no-verify-fixpoint>,dse,simplifycfg),globaldce";

/* Do pairs of bf16 take less time than what they are converted to?  On Zen an instruction for pairs takes as long as a
 * multiply-add, on Intel four times as long (`./dev bench gemm`, gemm.bf16.*.vs_f32, was 0.55 on Granite Rapids). */
static bool pairs_pay(LLVMTargetMachineRef t) {
    char *cpu = memory_given(LLVMGetTargetMachineCPU(t));
    const bool zen = strncmp(cpu, "znver", 5) == 0;
    LLVMDisposeMessage(cpu);
    return zen && machine_has(t, "avx512bf16");
}

/* LLVM's C interface says nothing of caches: they are a server core's, whatever the processor.  A way is a page, since addresses
 * are looked up beside translation. */
static HostMachine describe(LLVMTargetMachineRef t) {
    HostMachine m = {.vector = 4, .registers = 16, .line = 4 * MICRO_LINE, .way = 4096, .l1 = 32 << 10, .l3 = 8 << 20};
    m.l2 = target_find("host")->fast_bytes;
    char *triple = memory_given(LLVMGetTargetMachineTriple(t));
    const bool arm = strncmp(triple, "aarch64", 7) == 0;
    LLVMDisposeMessage(triple);
    m.masks = machine_has(t, "avx512f") && machine_has(t, "avx512bw") && machine_has(t, "avx512vl");
    m.pairs = m.masks && pairs_pay(t);
    if (machine_has(t, "avx")) m.vector = 8;
    if (m.masks) m.vector = 16;
    if (arm || m.masks) m.registers = 32;
    return m;
}

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

/* Threads have megabytes of stack, not more. */
enum { MAX_STACK_BYTES = 4 << 20 };

static char *does_not_fit(const Kernel *k, const Inst *dot) {
    char text[256];
    snprintf(text, sizeof text, "kernel %.100s: %%%d is no product by %s", k->name, dot->result, by_name[dot->by]);
    return memory_strdup(text);
}

static bool emit_kernel(Build *b, const Module *m, const Kernel *k, const HostMachine *machine, HostKernel *out,
                        char **error) {
    Arena *a = arena_new();
    *out = host_emit_kernel(&b->e, a, k, arena_printf(a, "%s.%s", m->name, k->name), machine);
    arena_free(a);
    if (out->no) {
        *error = does_not_fit(k, out->no);
        return false;
    }
    if (out->stack_bytes <= MAX_STACK_BYTES) return true;
    char text[256];
    snprintf(text, sizeof text, "kernel %.100s: its tiles take %lld bytes of stack; at most %d are allowed", k->name,
             (long long)out->stack_bytes, MAX_STACK_BYTES);
    *error = memory_strdup(text);
    return false;
}

static bool emit_kernels(Build *b, const Module *m, char **error) {
    const HostMachine machine = describe(b->machine);
    char *cpu = memory_given(LLVMGetTargetMachineCPU(b->machine));
    char *features = memory_given(LLVMGetTargetMachineFeatureString(b->machine));
    LLVMValueRef *fn = ARENA_ARRAY(b->arena, LLVMValueRef, m->kernels.n + 1);
    bool ok = true;
    for (int i = 0; i < m->kernels.n && ok; i++) {
        HostKernel kernel;
        ok = emit_kernel(b, m, m->kernels.at[i], &machine, &kernel, error);
        fn[i] = kernel.fn;
    }
    for (LLVMValueRef f = LLVMGetFirstFunction(b->e.module); f; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f)) continue;
        emit_fn_text_attribute(&b->e, f, "target-cpu", cpu);
        emit_fn_text_attribute(&b->e, f, "target-features", features);
        if (machine.vector == 16) emit_fn_text_attribute(&b->e, f, "prefer-vector-width", "512");
    }
    if (ok) manifest_emit(&b->e, b->arena, m);
    if (ok) manifest_emit_kernels(&b->e, b->arena, m, fn);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
    return ok;
}

/* After mem2reg: it makes registers of variables that are read and written whole, which no access can miss; arrays stay, sroa
 * would take accesses beside them out. */
static bool instrument(Build *b, const HostInstrument *i, char **error) {
    return machine_optimise(&b->e, b->machine, "function(mem2reg)", error) && i->run(&b->e, i->user, error);
}

static bool build(Build *b, const Module *m, const HostOptions *o, char **error) {
    static const HostOptions defaults = {0};
    if (!o) o = &defaults;
    LLVMTargetMachineRef machine = machine_new(o->triple, o->cpu, o->features, error);
    if (!machine) return false;
    *b = (Build){.machine = machine, .arena = arena_new()};
    emit_init(&b->e, m->name);
    emit_choose_calls(&b->e, m);
    machine_prepare(&b->e, machine);
    if (emit_kernels(b, m, error) && (!o->instrument || instrument(b, o->instrument, error)) &&
        machine_optimise(&b->e, machine, o->unoptimised ? "verify" : PIPELINE, error))
        return true;
    build_free(b);
    return false;
}

bool host_emit_object(const Module *m, const HostOptions *o, void **bytes, size_t *n, char **error) {
    Build b;
    if (!build(&b, m, o, error)) return false;
    const bool ok = machine_emit(&b.e, b.machine, LLVMObjectFile, bytes, n, error);
    build_free(&b);
    return ok;
}

bool host_emit_ir_text(const Module *m, const HostOptions *o, char **text, char **error) {
    Build b;
    if (!build(&b, m, o, error)) return false;
    *text = machine_ir_text(&b.e);
    build_free(&b);
    return true;
}

static HostProduct product_of(const FormPlan *p) {
    HostProduct x = {.form = host_form_text(p->form), .pairs = p->pairs};
    x.fits = form_fits(p);
    _Static_assert(N_HOST_FORMS <= sizeof x.why / sizeof *x.why, "a reason for each form");
    for (int f = 0; f < (int)p->form; f++) {
        if (!p->why[f]) continue;
        x.before[x.n_why] = host_form_text((HostForm)f);
        x.why[x.n_why++] = p->why[f];
    }
    return x;
}

HostProducts *host_products(Arena *a, const Module *m, const HostOptions *o, char **error) {
    LLVMTargetMachineRef t = machine_new(o->triple, o->cpu, o->features, error);
    if (!t) return NULL;
    const HostMachine machine = describe(t);
    HostProducts *products = ARENA_ARRAY(a, HostProducts, m->kernels.n + 1);
    *error = NULL;
    for (int i = 0; i < m->kernels.n && !*error; i++) {
        const HostPlan at = host_plan(a, m->kernels.at[i], &machine);
        const FormPlans plans = form_plan_all(&at);
        HostProducts *p = &products[i];
        if (plans.no) *error = does_not_fit(m->kernels.at[i], plans.no);
        p->n = plans.of.n;
        p->of = ARENA_ARRAY(a, HostProduct, p->n + 1);
        for (int k = 0; k < p->n; k++) {
            p->of[k] = product_of(plans.of.at[k]);
            p->pairs += p->of[k].pairs;
        }
    }
    LLVMDisposeTargetMachine(t);
    return *error ? NULL : products;
}

bool host_schedule(Module *m, const HostOptions *o, char **error) {
    LLVMTargetMachineRef t = machine_new(o->triple, o->cpu, o->features, error);
    if (!t) return false;
    const HostMachine machine = describe(t);
    Arena *a = arena_new();
    for (int i = 0; i < m->kernels.n; i++) form_schedule(a, m->kernels.at[i], &machine);
    arena_free(a);
    LLVMDisposeTargetMachine(t);
    return true;
}

void host_llvm_version(char *text, size_t n) {
    unsigned major = 0, minor = 0, patch = 0;
    LLVMGetVersion(&major, &minor, &patch);
    snprintf(text, n, "%u.%u.%u", major, minor, patch);
}

/* ---- in this process --------------------------------------------------------------------------------------- */
struct HostJit {
    LLVMOrcLLJITRef jit;
    const fusec_manifest *manifest;
    const fusec_host_kernel *kernels;
};

static bool failed(LLVMErrorRef e, char **error) {
    if (!e) return false;
    char *text = memory_given(LLVMGetErrorMessage(e));
    *error = memory_strdup(text);
    LLVMDisposeErrorMessage(text);
    return true;
}

static const void *lookup(HostJit *j, const char *model, const char *what, char **error) {
    char name[512];
    LLVMOrcExecutorAddress at = 0;
    snprintf(name, sizeof name, "%s_%s", model, what);
    if (failed(LLVMOrcLLJITLookup(j->jit, &at, name), error)) return NULL;
    return (const void *)(uintptr_t)at;
}

/* Symbols of this process: memcpy and libm, which the code may call. */
static bool link_process(LLVMOrcLLJITRef jit, char **error) {
    LLVMOrcDefinitionGeneratorRef process = NULL;
    if (failed(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&process, LLVMOrcLLJITGetGlobalPrefix(jit), NULL,
                                                                    NULL),
               error))
        return false;
    LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit), process);
    return true;
}

/* Code for a named processor may be none of this one's. */
static bool runs_here(const HostOptions *o, char **error) {
    if (!o || !o->cpu) return true;
    LLVMTargetMachineRef t = machine_new(o->triple, o->cpu, o->features, error);
    if (!t) return false;
    const char *lacks = machine_lacks(t);
    LLVMDisposeTargetMachine(t);
    if (!lacks) return true;
    char text[256];
    snprintf(text, sizeof text, "this machine has no %s, which code for %.100s uses", lacks, o->cpu);
    *error = memory_strdup(text);
    return false;
}

HostJit *host_jit(const Module *m, const HostOptions *o, char **error) {
    void *bytes = NULL;
    size_t n = 0;
    if (!runs_here(o, error) || !host_emit_object(m, o, &bytes, &n, error)) return NULL;
    Arena *a = arena_new();
    const char *name = artifact_prefix(a, m);
    HostJit *j = memory_zeroed(1, sizeof *j);
    LLVMMemoryBufferRef object = memory_given(LLVMCreateMemoryBufferWithMemoryRangeCopy(bytes, n, m->name));
    free(bytes);
    bool ok = !failed(LLVMOrcCreateLLJIT(&j->jit, LLVMOrcCreateLLJITBuilder()), error) && link_process(j->jit, error);
    if (ok)
        ok = !failed(LLVMOrcLLJITAddObjectFile(j->jit, LLVMOrcLLJITGetMainJITDylib(j->jit), object), error);
    else
        LLVMDisposeMemoryBuffer(object);
    if (ok) j->manifest = lookup(j, name, "manifest", error);
    if (ok && j->manifest) j->kernels = lookup(j, name, "kernels", error);
    arena_free(a);
    if (j->kernels) return j;
    host_jit_free(j);
    return NULL;
}

const fusec_manifest *host_jit_manifest(const HostJit *j) { return j->manifest; }
const fusec_host_kernel *host_jit_kernels(const HostJit *j) { return j->kernels; }

void host_jit_free(HostJit *j) {
    if (!j) return;
    if (j->jit) {
        LLVMErrorRef e = LLVMOrcDisposeLLJIT(j->jit);
        if (e) LLVMConsumeError(e);
    }
    free(j);
}
