/* See machine.h. */
#include "codegen/llvm/machine.h"
#include "ir/memory.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Registration is idempotent in LLVM.  FUSEC_FEW_TARGETS: GPUs and this machine alone, for a program that carries LLVM. */
static void register_targets(void) {
#ifdef FUSEC_FEW_TARGETS
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMInitializeNativeAsmParser();
#else
    LLVMInitializeAllTargetInfos();
    LLVMInitializeAllTargets();
    LLVMInitializeAllTargetMCs();
    LLVMInitializeAllAsmPrinters();
    LLVMInitializeAllAsmParsers();
#endif
}

/* LLVM's messages are freed by LLVM; ours by free(). */
static char *take_message(char *message) {
    char *copy = memory_strdup(message ? message : "unknown error of LLVM");
    if (message) LLVMDisposeMessage(message);
    return copy;
}

/* LLVM's C interface has no list of processors: it names an unknown one on stderr, goes on without it, and may abort
 * later.  So stderr is read while it makes a machine for the name. */
static bool says_nothing(FILE *said, int screen, LLVMTargetRef target, const char *triple, const char *cpu) {
    fflush(stderr);
    if (dup2(fileno(said), STDERR_FILENO) < 0) return false;
    memory_say_to(screen);
    LLVMTargetMachineRef m = LLVMCreateTargetMachine(target, triple, cpu, "", LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                                     LLVMCodeModelDefault);
    if (m) LLVMDisposeTargetMachine(m);
    fflush(stderr);
    dup2(screen, STDERR_FILENO);
    memory_say_to(STDERR_FILENO);
    return m && fseek(said, 0, SEEK_END) == 0 && ftell(said) == 0;
}

static char *unknown_cpu(const char *triple, const char *cpu) {
    static const char text[] = "no processor `%s` is known for %s: leave it out for this machine's, or `llc-19 -mtriple=%s "
                               "-mcpu=help` lists them";
    const size_t n = sizeof text + strlen(cpu) + 2 * strlen(triple);
    char *message = memory_alloc(n);
    snprintf(message, n, text, cpu, triple, triple);
    return message;
}

/* NULL, or what is wrong with the name. */
static char *cpu_complaint(LLVMTargetRef target, const char *triple, const char *cpu) {
    FILE *said = tmpfile();
    const int screen = said ? dup(STDERR_FILENO) : -1;
    char *complaint = NULL;
    if (screen < 0)
        complaint = memory_strdup("no temporary file for what LLVM says of a processor's name");
    else if (!says_nothing(said, screen, target, triple, cpu))
        complaint = unknown_cpu(triple, cpu);
    if (screen >= 0) close(screen);
    if (said) fclose(said);
    return complaint;
}

LLVMTargetMachineRef machine_new(const char *triple, const char *cpu, const char *features, char **error) {
    register_targets();
    if (cpu && !strcmp(cpu, "native")) cpu = NULL;
    const bool named = cpu && !(triple && !strncmp(triple, "nvptx", 5)); /* ours, not a user's */
    char *own_triple = memory_given(LLVMGetDefaultTargetTriple());
    char *host_cpu = memory_given(LLVMGetHostCPUName()), *host_features = memory_given(LLVMGetHostCPUFeatures());
    const bool native = !triple && !cpu;
    if (!triple) triple = own_triple;
    LLVMTargetRef target = NULL;
    LLVMTargetMachineRef m = NULL;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        *error = take_message(message);
    } else if (!named || !(*error = cpu_complaint(target, triple, cpu))) {
        cpu = cpu ? cpu : native ? host_cpu : "";
        features = features ? features : native ? host_features : "";
        m = LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                    LLVMCodeModelDefault);
        if (!m) *error = memory_strdup("LLVM has no such machine");
    }
    LLVMDisposeMessage(own_triple);
    LLVMDisposeMessage(host_cpu);
    LLVMDisposeMessage(host_features);
    return m;
}

void machine_prepare(const Emit *e, LLVMTargetMachineRef m) {
    char *triple = memory_given(LLVMGetTargetMachineTriple(m));
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m);
    char *text = memory_given(LLVMCopyStringRepOfTargetData(layout));
    LLVMSetTarget(e->module, triple);
    LLVMSetDataLayout(e->module, text);
    LLVMDisposeMessage(text);
    LLVMDisposeMessage(triple);
    LLVMDisposeTargetData(layout);
}

bool machine_optimise(const Emit *e, LLVMTargetMachineRef m, const char *passes, char **error) {
    char *message = NULL;
    if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message)) {
        *error = take_message(message);
        return false;
    }
    LLVMDisposeMessage(message);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef failed = LLVMRunPasses(e->module, passes, m, options);
    LLVMDisposePassBuilderOptions(options);
    if (!failed) return true;
    char *text = memory_given(LLVMGetErrorMessage(failed));
    *error = memory_strdup(text);
    LLVMDisposeErrorMessage(text);
    return false;
}

bool machine_emit(const Emit *e, LLVMTargetMachineRef m, LLVMCodeGenFileType kind, void **bytes, size_t *n,
                  char **error) {
    LLVMMemoryBufferRef out = NULL;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(m, e->module, kind, &message, &out)) {
        *error = take_message(message);
        return false;
    }
    memory_given(out);
    *n = LLVMGetBufferSize(out);
    char *copy = memory_alloc(*n + 1);
    memcpy(copy, LLVMGetBufferStart(out), *n);
    copy[*n] = 0;
    LLVMDisposeMemoryBuffer(out);
    *bytes = copy;
    return true;
}

/* ---- features ------------------------------------------------------------------------------------------------- */
/* LLVM's C interface says nothing of what a processor has that is given by name alone: its code does.  An operation on
 * %v of type `from`, with a result of type `to`, and what its assembly says with the feature and only then. */
static const struct {
    const char *feature, *from, *to, *operation, *instruction, *reg;
} features[] = {
    {"avx", "<8 x float>", "<8 x float>", "fadd <8 x float> %v, %v", "vaddps", "ymm"},
    {"avx2", "<8 x i32>", "<8 x i32>", "add <8 x i32> %v, %v", "vpaddd", "ymm"},
    {"fma", "<4 x float>", "<4 x float>", "call <4 x float> @llvm.fma.v4f32(<4 x float> %v, <4 x float> %v, <4 x float> %v)", "vfmadd", "xmm"},
    {"avx512f", "<16 x float>", "<16 x float>", "fadd <16 x float> %v, %v", "vaddps", "zmm"},
    {"avx512bw", "<64 x i8>", "<64 x i8>", "add <64 x i8> %v, %v", "vpaddb", "zmm"},
    {"avx512vl", "<4 x i64>", "<4 x i64>", "call <4 x i64> @llvm.abs.v4i64(<4 x i64> %v, i1 false)", "vpabsq", "ymm"},
    {"avx512bf16", "<16 x float>", "<16 x bfloat>", "fptrunc <16 x float> %v to <16 x bfloat>", "vcvtneps2bf16", "ymm"},
};

/* A function that does it from memory to memory. */
static char *feature_text(size_t i) {
    static const char text[] = "declare <4 x i64> @llvm.abs.v4i64(<4 x i64>, i1)\n"
                               "declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)\n"
                               "define void @f(ptr %%p) #0 {\n  %%v = load %s, ptr %%p\n  %%r = %s\n"
                               "  store %s %%r, ptr %%p\n  ret void\n}\nattributes #0 = { "
                               "\"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"512\" }\n";
    TextStream t;
    fprintf(text_open(&t), text, features[i].from, features[i].operation, features[i].to);
    return text_close(&t);
}

/* Does a line of the assembly have both words? */
static bool has_line(const char *assembly, const char *instruction, const char *reg) {
    for (const char *p = assembly; (p = strstr(p, instruction)); p++) {
        const char *end = strchr(p, '\n'), *found = strstr(p, reg);
        if (found && (!end || found < end)) return true;
    }
    return false;
}

/* As the code of the machine's own back end shows. */
static bool code_has(LLVMTargetMachineRef m, size_t i) {
    LLVMContextRef context = LLVMContextCreate();
    char *text = feature_text(i), *error = NULL;
    void *bytes = NULL;
    size_t n;
    LLVMMemoryBufferRef source = memory_given(LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "feature"));
    Emit e = {.context = context};
    const bool parsed = !LLVMParseIRInContext(context, source, &e.module, &error);
    LLVMDisposeMessage(error);
    bool found = false;
    if (parsed) {
        machine_prepare(&e, m);
        char *why = NULL;
        found = machine_emit(&e, m, LLVMAssemblyFile, &bytes, &n, &why) &&
                has_line(bytes, features[i].instruction, features[i].reg);
        free(why);
        LLVMDisposeModule(e.module);
    }
    free(bytes);
    free(text);
    LLVMContextDispose(context);
    return found;
}

/* '+' or '-' before the feature in the machine's list; 0: it is not there, a named processor may have it. */
static char listed(LLVMTargetMachineRef m, const char *feature) {
    char *list = memory_given(LLVMGetTargetMachineFeatureString(m)), sign = 0;
    const size_t n = strlen(feature);
    for (const char *p = list; (p = strstr(p, feature)); p += n)
        if (p > list && (p[-1] == '+' || p[-1] == '-') && (p[n] == ',' || p[n] == 0)) sign = p[-1];
    LLVMDisposeMessage(list);
    return sign;
}

bool machine_has(LLVMTargetMachineRef m, const char *feature) {
    const char sign = listed(m, feature);
    if (sign) return sign == '+';
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (!strcmp(feature, features[i].feature)) return code_has(m, i);
    return false;
}

const char *machine_lacks(LLVMTargetMachineRef m) {
    char *why = NULL;
    LLVMTargetMachineRef here = machine_new(NULL, NULL, NULL, &why);
    const char *lacks = NULL;
    for (size_t i = 0; here && i < sizeof features / sizeof *features && !lacks; i++)
        if (machine_has(m, features[i].feature) && !machine_has(here, features[i].feature)) lacks = features[i].feature;
    if (here) LLVMDisposeTargetMachine(here);
    free(why);
    return lacks;
}

char *machine_ir_text(const Emit *e) {
    char *text = memory_given(LLVMPrintModuleToString(e->module)), *copy = memory_strdup(text);
    LLVMDisposeMessage(text);
    return copy;
}
