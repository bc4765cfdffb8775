/* The manifest of a module as constant data; see runtime/common/fusec.h for every field. */
#ifndef FUSEC_CODEGEN_HOST_MANIFEST_H
#define FUSEC_CODEGEN_HOST_MANIFEST_H
#include "codegen/llvm/emit.h"
#include "ir/module.h"

void manifest_emit(const Emit *e, Arena *a, const Module *m);                           /* NAME_manifest */
void manifest_emit_kernels(const Emit *e, Arena *a, const Module *m, LLVMValueRef *fn); /* NAME_kernels */

#endif
