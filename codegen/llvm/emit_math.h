/* Transcendental functions and Philox in f32, from codegen/math. */
#ifndef FUSEC_CODEGEN_LLVM_EMIT_MATH_H
#define FUSEC_CODEGEN_LLVM_EMIT_MATH_H
#include "codegen/llvm/emit.h"
#include "ir/module.h"

/* in[]: f32 (PHILOX: i32) scalars or vectors; NULL if math_expands(op) is false. */
LLVMValueRef emit_math(const Emit *e, Op op, int n, const LLVMValueRef *in);

/* Sets e->calls: long functions that the module's kernels have so often that inlining them would make it much larger
 * are internal functions of their own, one for each vector width.  So compile time stays near-linear. */
void emit_choose_calls(Emit *e, const Module *m);

#endif
