/* What micro-kernels are made of: a local function whose sums are a block of vectors, loops, and the end, where the
 * block goes to C.  What changes from step to step is a variable: its value is known within a basic block, and goes
 * through memory of the function's own from one to the next, of which LLVM's sroa makes registers. */
#ifndef FUSEC_CODEGEN_HOST_MICRO_BLOCK_H
#define FUSEC_CODEGEN_HOST_MICRO_BLOCK_H
#include "codegen/llvm/emit.h"
#include "codegen/schedule/micro_side.h"

enum { MICRO_VARIABLES = BLOCK_ROWS * BLOCK_VECTORS + 64 };
typedef int MicroVariable;

typedef struct MicroBlock {
    const Emit *e;
    LLVMValueRef fn;
    LLVMBasicBlockRef entry, outside; /* entry: allocations only; outside: where the caller's code goes on */
    LLVMTypeRef vector;
    int rows, vectors, lanes;
    MicroVariable sum[BLOCK_ROWS][BLOCK_VECTORS];
    int n_variables;
    struct {
        LLVMTypeRef type;
        LLVMValueRef memory, value; /* value: as of here; NULL: what the memory holds */
        bool stored;                /* the memory holds the value */
    } variable[MICRO_VARIABLES];
} MicroBlock;

/* False: the module has the function already, m->fn.  Else code goes to it until micro_end; sums are zero.  Its n
 * parameters, where pointers, are to memory of their own. */
bool micro_begin(MicroBlock *m, const Emit *e, const char *name, int n, LLVMTypeRef *params, int rows, int vectors,
                 int lanes);
void micro_end(MicroBlock *m);

/* A variable that holds v; what it holds where code goes now; it holds `to` from here on. */
MicroVariable micro_variable(MicroBlock *m, LLVMValueRef v);
LLVMValueRef micro_get(MicroBlock *m, MicroVariable v);
void micro_set(MicroBlock *m, MicroVariable v, LLVMValueRef to);

/* sum[row][vector] += x * y; pairs: of bf16 in the bits of floats, both products are added. */
void micro_add(MicroBlock *m, int row, int vector, bool pairs, LLVMValueRef x, LLVMValueRef y);

/* `trips` rounds of what is appended until micro_loop_close; some: there is at least one. */
typedef struct MicroLoop {
    LLVMBasicBlockRef body, done;
    MicroVariable left;
} MicroLoop;
MicroLoop micro_loop_open(MicroBlock *m, LLVMValueRef trips, bool some);
void micro_loop_close(MicroBlock *m, const MicroLoop *l);

/* What follows until it is closed runs where the condition holds; the block to go on with. */
LLVMBasicBlockRef micro_if_open(MicroBlock *m, LLVMValueRef condition);
void micro_if_close(MicroBlock *m, LLVMBasicBlockRef join);

/* C = sums where `fresh` (i64) is not 0, else C + sums: what it holds is added last, so that long sums stay accurate
 * (docs/numerics.md).  at: where a vector of it is; mask: by vector, lanes that are there, or NULL. */
void micro_put(MicroBlock *m, LLVMValueRef fresh, const LLVMValueRef *mask,
               LLVMValueRef (*at)(const void *user, int row, int vector), const void *user);

#endif
