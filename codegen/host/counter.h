/* Counted loops and branches while a kernel's function is built: open, append the body, close.  Code goes to ke->current. */
#ifndef FUSEC_CODEGEN_HOST_COUNTER_H
#define FUSEC_CODEGEN_HOST_COUNTER_H
#include "codegen/host/nest.h"

typedef struct HostCounter {
    LLVMBasicBlockRef header, exit;
    LLVMValueRef i, end;
    int64_t step;
} HostCounter;

/* for (i = start; i < end; i += step) */
HostCounter counter_open(KernelEmit *ke, LLVMValueRef start, LLVMValueRef end, int64_t step);
void counter_close(KernelEmit *ke, HostCounter *c);

/* if (condition) */
typedef struct HostBranch {
    LLVMBasicBlockRef join;
} HostBranch;
HostBranch branch_open(KernelEmit *ke, LLVMValueRef condition);
void branch_close(KernelEmit *ke, HostBranch *b);
bool known_false(LLVMValueRef condition);

/* Of what is about to be packed, `lanes` rows or columns exist: where these are no multiple of `unit`, blocks go past
 * them, and the n floats at `memory` become zeros first.  What blocks make there counts for nothing, but a processor
 * multiplies denormal numbers, which a stack is full of, some hundred times slower. */
void clear_past(KernelEmit *ke, LLVMValueRef lanes, int64_t unit, LLVMValueRef memory, int64_t n);

#endif
