/* One kernel as one function  void NAME(void *const *buffers, const int64_t *syms, int64_t first, int64_t last)
 * that runs programs [first, last) of the grid, the last grid axis varying fastest. */
#ifndef FUSEC_CODEGEN_HOST_KERNEL_H
#define FUSEC_CODEGEN_HOST_KERNEL_H
#include "codegen/host/nest.h"

typedef struct HostMachine {
    int vector;    /* f32 lanes of a vector register */
    int registers; /* vector registers */
    bool masks;    /* masked vector accesses are cheap */
    bool pairs;    /* multiplies and adds pairs of bf16; it has masks then */
} HostMachine;

typedef struct HostKernel {
    LLVMValueRef fn;     /* a local function */
    int64_t stack_bytes; /* what its tiles take */
    int pair_products;   /* how many dots it multiplies in pairs of bf16 */
} HostKernel;
HostKernel host_emit_kernel(const Emit *e, Arena *a, const Kernel *k, const char *name, const HostMachine *m);

/* Lines half a way of the innermost cache apart, or whole ways, fall into so few of its sets that few of them stay.  A
 * way is a page, where addresses are looked up beside translation. */
static inline bool in_few_sets(int64_t bytes) { return bytes && bytes % (4096 / 2) == 0; }

/* dot.c: a matrix product in blocks, C[rows, columns] += X[rows, k] * Y[k, columns]; not every dot has that form. */
typedef struct DotResult {
    LLVMValueRef memory; /* of C: its columns are contiguous */
    LLVMValueRef step;   /* i64: elements from one row to the next; NULL: in the dot's storage */
    LLVMValueRef fresh;  /* i64: not 0 where what the memory holds counts as zero */
} DotResult;
/* What the cast that makes the value has for its operand, if nothing is rounded: bf16 in one type or the other; else
 * the value. */
int bf16_converted(const KernelEmit *ke, int value);
/* Its factors are bf16 in f32, and the machine multiplies pairs of them. */
bool dot_in_pairs(const KernelEmit *ke, const HostMachine *m, const Inst *dot);
bool dot_is_blocked(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m);
/* One axis of columns, at most one of rows (*rows: -1 if none): the dot can write only lanes that exist, where another
 * instruction would store them. */
bool dot_writes_lanes(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m, int *rows, int *columns);
/* result NULL: in the storage, which is not fresh. */
void dot_emit_blocked(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m, const DotResult *result);

/* direct.c: the same where one factor is read through a sliding window (convolutions); channelwise.c: where the
 * innermost axis stands in both factors (depthwise).  They go before blocks.  emit: false, and nothing emitted, if it
 * does not fit. */
bool direct_fits(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m);
/* It may begin from zero. */
bool direct_may_start(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m);
/* Begun from zero, it writes only lanes that exist, if all sums are made at once. */
bool direct_is_exact(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m);
/* to NULL: adds to the storage; store: takes the place of that instruction, as below. */
bool direct_emit(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m, const DotResult *to,
                 const Inst *store);
bool channelwise_fits(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m);
/* All sums of the dot are made at once, in registers, and only lanes that exist are written. */
bool channelwise_is_whole(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m);
/* to NULL: adds to the storage.  Else, of a dot that is whole, C is fresh; store: it takes the place of that
 * instruction, whose first lanes lie at to->memory; NULL: in the storage. */
bool channelwise_emit(KernelEmit *ke, const Inst *dot, int storage, const HostMachine *m, const DotResult *to,
                      const Inst *store);

#endif
