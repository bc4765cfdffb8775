/* Target machines, the pass pipeline, and output. */
#ifndef FUSEC_CODEGEN_LLVM_MACHINE_H
#define FUSEC_CODEGEN_LLVM_MACHINE_H
#include "codegen/llvm/emit.h"
#include <llvm-c/TargetMachine.h>

/* The machine for triple, cpu and features (NULL: this machine's; cpu also "native"); NULL with *error (malloc'd) if LLVM lacks it. */
LLVMTargetMachineRef machine_new(const char *triple, const char *cpu, const char *features, char **error);
/* "avx512f": in its list of features, or, of a processor given by name alone, as its code
 * shows. */
bool machine_has(LLVMTargetMachineRef m, const char *feature);
/* A feature that its code may use and this machine has not; NULL: none that is known. */
const char *machine_lacks(LLVMTargetMachineRef m);
void machine_prepare(const Emit *e, LLVMTargetMachineRef m); /* triple and data layout of the module */

/* Verifies and optimises; false with *error (malloc'd).  `passes` in the syntax of LLVM's opt. */
bool machine_optimise(const Emit *e, LLVMTargetMachineRef m, const char *passes, char **error);
/* Object code or assembly; *bytes is malloc'd and also ends with a zero byte. */
bool machine_emit(const Emit *e, LLVMTargetMachineRef m, LLVMCodeGenFileType kind, void **bytes, size_t *n,
                  char **error);
char *machine_ir_text(const Emit *e); /* malloc'd */

#endif
