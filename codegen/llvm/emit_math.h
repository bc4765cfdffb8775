/* Transcendental functions and Philox in f32, from codegen/math. */
#ifndef FUSEC_CODEGEN_LLVM_EMIT_MATH_H
#define FUSEC_CODEGEN_LLVM_EMIT_MATH_H
#include "codegen/llvm/emit.h"

/* in[]: f32 (PHILOX: i32) scalars or vectors; NULL if math_expands(op) is false. */
LLVMValueRef emit_math(const Emit *e, Op op, int n, const LLVMValueRef *in);

#endif
