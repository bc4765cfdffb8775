/* One kernel as one function  void NAME(void *const *buffers, const int64_t *syms, int64_t first, int64_t last)
 * that runs programs [first, last) of the grid, the last grid axis varying fastest. */
#ifndef FUSEC_CODEGEN_HOST_KERNEL_H
#define FUSEC_CODEGEN_HOST_KERNEL_H
#include "codegen/host/nest.h"

typedef struct HostMachine {
    int vector;    /* f32 lanes of a vector register */
    int registers; /* vector registers */
    bool masks;    /* masked vector accesses are cheap */
} HostMachine;

/* A local function `name`; *stack_bytes: what its tiles take. */
LLVMValueRef host_emit_kernel(const Emit *e, Arena *a, const Kernel *k, const char *name, const HostMachine *m,
                              int64_t *stack_bytes);

/* dot.c: blocked matrix product on packed tiles; false (nothing emitted) if the dot has not that form. */
/* direct.c: the same where one factor is read through a sliding window (convolutions). */
bool direct_emit(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m);
/* channelwise.c: the same where the innermost axis stands in both factors (depthwise). */
bool channelwise_emit(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m);

bool dot_emit_blocked(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m);

#endif
