/* Liveness and placement: what schedule, place and emit share.  plan_verify deliberately uses none of it. */
#ifndef FUSEC_PASSES_MEMORY_H
#define FUSEC_PASSES_MEMORY_H
#include "ir/target.h"
#include "passes/pass.h"

/* Alignment in bytes of regions, tensors and arena buffers. */
static inline int target_align(const Target *t) { return t->backend == BACKEND_C99 ? 16 : 256; }
static inline int64_t align_up(int64_t n, int64_t align) { return (n + align - 1) / align * align; }

/* Where the next block begins in a region of which *at bytes are taken, a multiple of `align`; takes it. */
int64_t lay_block(Placing placing, int64_t *at, int64_t bytes, int64_t align);

/* A part of a tensor is addressed as a tensor where it begins at a multiple of so many bytes: on a GPU, of the widest access. */
static inline int64_t target_part_align(const Target *t) { return t && t->backend == BACKEND_NVPTX ? 16 : 1; }

/* A concatenation may have memory and no kernel: the kernels of its parts write it, each its slice (PlanBuffer.within). */
static inline bool plan_is_joined(const Plan *p, const Node *n) {
    return p->buffer[n->id].home == HOME_ARENA && p->buffer[n->id].writer < 0;
}
/* Whose memory the value lies in: the outermost concatenation, or the value's own. */
static inline const Node *plan_block(const Plan *p, const Node *n) {
    while (p->buffer[n->id].within) n = p->buffer[n->id].within;
    return n;
}
/* What must be there before the kernel runs: its reads, of a joined one the parts. */
typedef VEC(Node *) PlanNeeds;
PlanNeeds plan_needs(Arena *a, const Plan *p, const PlanKernel *k);

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
} Liveness;
Liveness plan_liveness(Arena *a, const Plan *p);

/* Offsets, multiples of `align`, such that blocks whose half-open lifetimes [lower, upper) meet share no
 * byte.  Sizes are rounded up to `align`.  Returns the bytes needed; *bound, if not NULL, is the largest
 * live sum, which no placement beats.  Deterministic: the search is bounded by `work` steps, never by time. */
int64_t arena_place(int n, const int *lower, const int *upper, const int64_t *size, int64_t align, int64_t work,
                    int64_t *offset, int64_t *bound);

/* After fuse, before layout: in-place updates that wait for each other (a <- b, b <- a) are computed aside
 * and moved home by appended copy kernels, so that an order exists. */
void plan_settle(PassContext *c, Plan *p);

/* Kernels as a DAG.  A hard edge: `to` reads what `from` writes.  A soft edge: `to` overwrites in place what
 * `from` reads; soft edges may close cycles until plan_settle has run. */
typedef struct KernelGraph {
    int n;
    int *first;       /* [n + 1] into succ */
    int *succ;        /* to * 2 + soft */
    int *hard, *soft; /* number of edges into each kernel */
} KernelGraph;
KernelGraph kernel_graph(Arena *a, const Plan *p);

/* Text of a plan after `fuse`: kernels in order, homes, offsets. */
void plan_print(FILE *f, const Plan *p);

/* For each kernel of the plan, by position in the order: earlier positions that must have finished. */
typedef struct PlanDeps {
    int *first; /* [kernels.n + 1] */
    int *after; /* positions, latest first, none that follows from others */
} PlanDeps;
PlanDeps plan_deps(Arena *a, const Plan *p);

/* A module without entries: what all entries share, tensors and their offsets. */
Module *module_new(PassContext *c, const Model *model);

#endif
