/* What micro-kernels share: the function, and what goes round its loops over k. */
#ifndef FUSEC_CODEGEN_HOST_RUNNING_H
#define FUSEC_CODEGEN_HOST_RUNNING_H
#include "codegen/llvm/emit.h"

enum { RUNNING_ROWS = 28, RUNNING_VECTORS = 32 };

typedef struct Running {
    int rows, vectors;
    LLVMValueRef x, y, packed; /* packed: NULL where Y is not copied */
    LLVMValueRef acc[RUNNING_ROWS][RUNNING_VECTORS];
} Running;

/* A phi for each value; what comes in by an edge follows with join(). */
Running running_phis(const Emit *e, const Running *like);
void running_join(const Running *phis, const Running *in, LLVMBasicBlockRef from);

/* A local function of its own, whose n parameters, where pointers, are to memory of their own. */
LLVMValueRef micro_function(const Emit *e, const char *name, int n, LLVMTypeRef *params);

/* acc + x * y of vectors; pairs: of bf16 in the bits of floats, both products are added. */
LLVMValueRef micro_multiply_add(const Emit *e, bool pairs, LLVMValueRef x, LLVMValueRef y, LLVMValueRef acc);

#endif
