/* See machine.h. */
#include "codegen/llvm/machine.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Registration is idempotent in LLVM. */
static void register_targets(void) {
    LLVMInitializeAllTargetInfos();
    LLVMInitializeAllTargets();
    LLVMInitializeAllTargetMCs();
    LLVMInitializeAllAsmPrinters();
    LLVMInitializeAllAsmParsers();
}

/* LLVM's messages are freed by LLVM; ours by free(). */
static char *take_message(char *message) {
    char *copy = strdup(message ? message : "unknown error of LLVM");
    if (message) LLVMDisposeMessage(message);
    return copy;
}

/* LLVM's C interface has no list of processors: it names an unknown one on stderr, goes on without it, and may abort
 * later.  So stderr is read while it makes a machine for the name. */
static bool cpu_is_known(LLVMTargetRef target, const char *triple, const char *cpu) {
    FILE *said = tmpfile();
    fflush(stderr);
    const int screen = said ? dup(STDERR_FILENO) : -1;
    if (screen >= 0) dup2(fileno(said), STDERR_FILENO);
    LLVMTargetMachineRef m = LLVMCreateTargetMachine(target, triple, cpu, "", LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                                     LLVMCodeModelDefault);
    if (m) LLVMDisposeTargetMachine(m);
    if (screen >= 0) {
        fflush(stderr);
        dup2(screen, STDERR_FILENO);
        close(screen);
    }
    const bool known = m && (!said || fseek(said, 0, SEEK_END) || ftell(said) == 0);
    if (said) fclose(said);
    return known;
}

static char *unknown_cpu(const char *triple, const char *cpu) {
    static const char text[] = "no processor `%s` is known for %s: leave it out for this machine's, or `llc-19 -mtriple=%s "
                               "-mcpu=help` lists them";
    const size_t n = sizeof text + strlen(cpu) + 2 * strlen(triple);
    char *message = malloc(n);
    if (message) snprintf(message, n, text, cpu, triple, triple);
    return message;
}

LLVMTargetMachineRef machine_new(const char *triple, const char *cpu, const char *features, char **error) {
    register_targets();
    const bool named = cpu && strcmp(cpu, "native");
    if (!named) cpu = NULL;
    char *own_triple = LLVMGetDefaultTargetTriple();
    char *host_cpu = LLVMGetHostCPUName(), *host_features = LLVMGetHostCPUFeatures();
    const bool native = !triple && !cpu;
    if (!triple) triple = own_triple;
    LLVMTargetRef target = NULL;
    LLVMTargetMachineRef m = NULL;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        *error = take_message(message);
    } else if (named && !cpu_is_known(target, triple, cpu)) {
        *error = unknown_cpu(triple, cpu);
    } else {
        cpu = cpu ? cpu : native ? host_cpu : "";
        features = features ? features : native ? host_features : "";
        m = LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                    LLVMCodeModelDefault);
        if (!m) *error = strdup("LLVM has no such machine");
    }
    LLVMDisposeMessage(own_triple);
    LLVMDisposeMessage(host_cpu);
    LLVMDisposeMessage(host_features);
    return m;
}

bool machine_has(LLVMTargetMachineRef m, const char *feature) {
    char *features = LLVMGetTargetMachineFeatureString(m);
    bool found = false;
    const size_t n = strlen(feature);
    for (const char *p = features; (p = strstr(p, feature)) && !found; p += n)
        found = p > features && p[-1] == '+' && (p[n] == ',' || p[n] == 0);
    LLVMDisposeMessage(features);
    return found;
}

void machine_prepare(const Emit *e, LLVMTargetMachineRef m) {
    char *triple = LLVMGetTargetMachineTriple(m);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m);
    char *text = LLVMCopyStringRepOfTargetData(layout);
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
    char *text = LLVMGetErrorMessage(failed);
    *error = strdup(text);
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
    *n = LLVMGetBufferSize(out);
    char *copy = malloc(*n + 1);
    if (copy) {
        memcpy(copy, LLVMGetBufferStart(out), *n);
        copy[*n] = 0;
    } else {
        *error = strdup("out of memory");
    }
    LLVMDisposeMemoryBuffer(out);
    *bytes = copy;
    return copy != NULL;
}

char *machine_ir_text(const Emit *e) {
    char *text = LLVMPrintModuleToString(e->module), *copy = strdup(text);
    LLVMDisposeMessage(text);
    return copy;
}
