/* One kernel as one function  void NAME(void *const *buffers, const int64_t *syms, int64_t first, int64_t last)
 * that runs programs [first, last) of the grid, the last grid axis varying fastest. */
#ifndef FUSEC_CODEGEN_HOST_KERNEL_H
#define FUSEC_CODEGEN_HOST_KERNEL_H
#include "codegen/host/nest.h"
#include "codegen/schedule/forms.h"

typedef struct HostKernel {
    LLVMValueRef fn;     /* a local function */
    int64_t stack_bytes; /* what its tiles take */
    const Inst *no;      /* no function: the form that this dot is `by` does not fit it */
} HostKernel;
HostKernel host_emit_kernel(const Emit *e, Arena *a, const Kernel *k, const char *name, const HostMachine *m);

/* Where a product's result goes. */
typedef struct DotResult {
    LLVMValueRef memory; /* of C's first lanes */
    LLVMValueRef fresh;  /* i64: not 0 where what the memory holds counts as zero */
} DotResult;

/* The forms' code; codegen/schedule/forms.def. */
#define FORM(e, text, plan, choose, emit) void emit(KernelEmit *ke, const FormPlan *p, const DotResult *to);
#include "codegen/schedule/forms.def"
#undef FORM

#endif
