/* A module's memory with every tensor between pages that must not be touched, and its host code on it.
 *
 * The module is compiled with PassContext.placing: LOW puts every tensor at the begin of its pages, so that what is read
 * or written before it faults; HIGH at their end, so that what lies after it does.  Workspaces and tensors of the arena
 * are such blocks as well; of a concatenation in memory the whole is one.  Memory that nobody has given a value holds
 * signalling NaNs. */
#ifndef FUSEC_TESTS_GUARD_H
#define FUSEC_TESTS_GUARD_H
#include "codegen/host/host.h"
#include "ir/module_run.h"
#include "passes/pass.h"

typedef struct GuardBlock {
    const char *region, *name;
    DType dtype;
    char *at;
    int64_t bytes;
} GuardBlock;

typedef struct Guarded {
    const Module *m;
    ModuleMemory mem;
    VEC(GuardBlock) blocks;
    VEC(GuardBlock) maps; /* what is to be unmapped */
} Guarded;

/* Memory for entry e; parameters, states, gradients, inputs and scalars are those of `from`, laid out as m has them.
 * Inputs cannot be written; neither can parameters in entries infer and grad. */
Guarded *guard_new(Arena *a, const Module *m, Entry e, Placing placing, const ModuleMemory *from);
/* Parameters, states, gradients and outputs back to where they came from. */
void guard_results(const Guarded *g, ModuleMemory *to);
/* Two of one module's memories hold the same bits: what has no value yet too, but a NaN that was computed may have either
 * sign (IEEE 754-2019, 6.3).  False: prints where not. */
bool guard_same(const Guarded *g, const Guarded *h);
void guard_free(Guarded *g);
/* Signalling NaNs. */
void guard_fill(void *at, int64_t bytes);

/* Names the function that an address lies in. */
typedef const char *GuardWhere(const void *user, const void *pc);
/* From here on a fault prints the block, how far beside it, and the function, to standard output, and ends the process
 * with GUARD_FAULT; g NULL: no more. */
enum { GUARD_FAULT = 77 };
void guard_watch(const Guarded *g, GuardWhere *where, const void *user);

/* Programs of every launch in one piece by this thread; in as many as the runtime makes, the last first; or half of them
 * by a second thread. */
typedef enum { PIECES_WHOLE, PIECES_BACKWARDS, PIECES_THREADS } Pieces;
bool guard_run(const Module *m, const fusec_host_kernel *kernels, Entry e, const ModuleMemory *mem, const int64_t *syms,
               Pieces pieces);
/* The kernel of a module whose code an address lies in: a GuardWhere for this. */
typedef struct GuardKernels {
    const Module *m;
    const fusec_host_kernel *kernels;
} GuardKernels;
const char *guard_kernel_at(const void *user, const void *pc);

#endif
