/* Order, liveness and placement of a plan's kernels and buffers.  plan_verify deliberately uses none of it. */
#ifndef FUSEC_PASSES_MEMORY_H
#define FUSEC_PASSES_MEMORY_H
#include "passes/pass.h"

static inline int64_t align_up(int64_t n, int64_t align) { return (n + align - 1) / align * align; }

/* Where the next block begins in a region of which *at bytes are taken, a multiple of `align`; takes it. */
int64_t lay_block(Placing placing, int64_t *at, int64_t bytes, int64_t align);

/* A block of arena memory, needed at positions [lower, upper) of the execution order. */
typedef struct LiveBlock {
    const Node *node; /* NULL: workspace of `kernel` */
    int kernel;       /* who writes it, or first writes part of it */
    int lower, upper;
    int64_t bytes;  /* as asked for, not aligned */
    int64_t offset; /* workspace: set by place; buffers: PlanBuffer.offset */
} LiveBlock;
typedef struct Liveness {
    int n;
    LiveBlock *block; /* by position of the writer, a kernel's outputs before its workspace */
    const Node *const *in; /* by node id: whose memory it has: the outermost one's that it lies in, or its own */
} Liveness;
Liveness plan_liveness(Arena *a, const Plan *p);

/* Offsets, multiples of `align`, such that blocks whose half-open lifetimes [lower, upper) meet share no
 * byte.  Sizes are rounded up to `align`.  Returns the bytes needed; *bound, if not NULL, is the largest
 * live sum, which no placement beats.  Deterministic: the search is bounded by `work` steps, never by time. */
int64_t arena_place(int n, const int *lower, const int *upper, const int64_t *size, int64_t align, int64_t work,
                    int64_t *offset, int64_t *bound);

/* For each kernel of the plan, by position in the order: earlier positions that must have finished. */
typedef struct PlanDeps {
    int *first; /* [kernels.n + 1] */
    int *after; /* positions, latest first, none that follows from others */
} PlanDeps;
PlanDeps plan_deps(Arena *a, const Plan *p);

#endif
