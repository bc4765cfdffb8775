/* One kernel as one function  void NAME(void *const *buffers, const int64_t *syms, int64_t first, int64_t last)
 * that runs programs [first, last) of the grid, the last grid axis varying fastest. */
#ifndef FUSEC_CODEGEN_HOST_KERNEL_H
#define FUSEC_CODEGEN_HOST_KERNEL_H
#include "codegen/host/nest.h"

enum { SPARE_ROWS = 16 }; /* behind a tile's last row, which a block of a product may write */

typedef struct HostMachine {
    int vector;    /* f32 lanes of a vector register */
    int registers; /* vector registers */
    bool masks;    /* masked vector accesses are cheap */
    bool pairs;    /* multiplies and adds pairs of bf16; it has masks then */
} HostMachine;

typedef struct HostKernel {
    LLVMValueRef fn;     /* a local function */
    int64_t stack_bytes; /* what its tiles take */
    const Inst *no;      /* no function: the form that this dot is `by` does not fit it */
} HostKernel;
HostKernel host_emit_kernel(const Emit *e, Arena *a, const Kernel *k, const char *name, const HostMachine *m);

/* Lines half a way of the innermost cache apart, or whole ways, fall into so few of its sets that few of them stay.  A
 * way is a page, where addresses are looked up beside translation. */
static inline bool in_few_sets(int64_t bytes) { return bytes && bytes % (4096 / 2) == 0; }

/* Where a product's result goes. */
typedef struct DotResult {
    LLVMValueRef memory; /* of C's first lanes */
    LLVMValueRef fresh;  /* i64: not 0 where what the memory holds counts as zero */
} DotResult;

/* What the cast that makes the value has for its operand, if nothing is rounded: bf16 in one type or the other; else
 * the value. */
int bf16_converted(const KernelEmit *ke, int value);
/* Its factors are bf16 in f32, and the machine multiplies pairs of them. */
bool dot_in_pairs(const KernelEmit *ke, const HostMachine *m, const Inst *dot);

#endif
