/* The plan: which nodes get memory, which kernels compute them, in what order, at what address.
 * `fuse` fills kernels, `tile` their Tile IR, `schedule` the order, `place` the offsets. */
#ifndef FUSEC_PASSES_PLAN_H
#define FUSEC_PASSES_PLAN_H
#include "ir/graph.h"
#include "ir/tile.h"
#include "runtime/common/fusec.h"

/* How a node stands in its kernel's index space: axes 0 .. p.rank-1 are parallel (the grid), the
 * next r.rank are the row that one program walks whole. */
typedef enum { KERNEL_MAP, KERNEL_ROW, KERNEL_CONTRACT, KERNEL_SCAN, KERNEL_SCATTER, KERNEL_BUCKET, KERNEL_STREAM } KernelKind;

/* What a node of a KERNEL_CONTRACT is beside the product that opened it and what is elementwise after that. */
typedef enum {
    PART_VALUE,    /* none of the others */
    PART_ONTO,     /* a product that is added up from another value of the kernel on, in loops of its own */
    PART_SUM,      /* a sum over an operand of the first product, in that one's loops, over some of its dims */
    PART_SLICES,   /* a sum over tiles, each by itself, of what is elementwise after the product; of a KERNEL_ROW a sum over
                      rows, in the slices that its programs walk */
    PART_AFTER_SUM, /* what is elementwise after such a sum */
    PART_STREAM,    /* of a KERNEL_STREAM (stream.h): what it reduces; all else is elementwise after that */
    PART_TURNS      /* likewise: a product that sums over the rows, to which their tiles add in memory, one after the other */
} PlanPart;

enum { MAX_STREAM = 8 }; /* reductions and products of one KERNEL_STREAM */

typedef struct PlanNode {
    Node *node;
    PlanPart part;
    Node *into;            /* PART_ONTO: the sum of both */
    int8_t operand;        /* PART_SUM: which of the product's: both may be one tensor; PART_STREAM, PART_TURNS: which has the values */
    const struct StreamTerm *term; /* PART_STREAM: how what is summed depends on the kernel's nodes before it */
    int8_t axis[MAX_RANK]; /* dim of the node -> axis of the kernel; of a reduction in a KERNEL_STREAM the dims that it sums after
                              them, columns of products; of PART_SLICES in a KERNEL_ROW: dim of what is summed */
    bool in_row;           /* some dim stands on a row axis */
    bool stored;           /* written to memory: a result, or read by another kernel */
} PlanNode;

/* Computed by the programs at one edge of the kernel's grid alone, while others may be at work. */
static inline bool plan_on_a_side(const PlanNode *pn) { return pn->part == PART_SUM || pn->part == PART_AFTER_SUM; }

typedef struct PlanKernel {
    KernelKind kind;
    const Shape *p, *r;  /* parallel dims; row dims, which only a KERNEL_ROW has, or of a KERNEL_STREAM the dim that it walks,
                            then columns of its products; the graph's pool keeps them */
    int makes, rows;     /* KERNEL_STREAM (stream.h): products that make its values; the dim of p of which a tile has several */
    bool turns;          /* KERNEL_STREAM: it has PART_TURNS: a program walks all rows, a tile of them at a time */
    int sliced;          /* KERNEL_ROW: 1 + the dim of p of which a program walks `slice` elements, to sum over them; 0: none */
    int64_t slice;
    VEC(PlanNode) nodes; /* computed once per program, in graph order; the rest is inlined */
    VEC(Node *) outputs; /* nodes it writes to memory, all over one iteration space */
    VEC(Node *) reads;   /* materialised nodes (or sources with memory) it reads */
    Kernel *tile;        /* after `tile`/`emit`; buffers in the order: reads, then outputs */
    bool updates;        /* KERNEL_MAP: of a tensor that is updated in place (OP_UPDATE_AT) only the part that changes is written; p is its shape */
    int members;         /* of a family: equal kernels in one grid, whose nodes are the first's; 0: it is none */
    const int *family;   /* by buffer: that many from here on are one buffer of the members; 0: all read this one */
    int sample;          /* KERNEL_CONTRACT: 1 + the loop that goes sample by sample (per_sample.h), or 0 */
    int64_t *origin;     /* tile: by buffer of `tile`, bytes past the node's first element where it begins */
    int same_as;         /* tile: 1 + an earlier kernel of the plan whose Tile IR this one shares, or 0 */
    bool stored;         /* emit: stored_kernel is set */
    int stored_kernel;   /* emit: index into Module.kernels */
    Phase phase;
    int32_t constant[FUSEC_MAX_CONSTANTS]; /* of `tile`, for the launch */
    int64_t workspace;                     /* bytes of arena it needs while it runs */
    int64_t workspace_offset; /* after place; the tile kernel's buffer after the outputs, if workspace > 0 */
} PlanKernel;

/* Where a node's value lives. */
typedef enum {
    HOME_NONE,   /* inlined in its consumers, never in memory */
    HOME_SOURCE, /* PARAM STATE INPUT HYPER STEP SEED: memory that exists */
    HOME_ARENA,
    HOME_OUTPUT, /* written straight to the caller's output `decl` */
    HOME_GRAD,   /* straight to the gradient of param `decl` */
    HOME_PARAM,  /* in place over param `decl`: every other reader of the old value runs before */
    HOME_STATE
} Home;

typedef struct PlanBuffer {
    Home home;
    int decl;
    int writer;    /* kernel index; -1 for sources, and in the arena for what its parts' kernels write (plan_is_joined) */
    Node *within;  /* in whose memory the value lies, a concatenation's or that of what its kernel reads last, or NULL */
    int64_t start; /* within: elements from the outermost one's first, after layout */
    int64_t bytes; /* allocated, with leading-dimension padding */
    int64_t stride[MAX_RANK];
    int64_t offset; /* HOME_ARENA, after place */
    int output;     /* HOME_ARENA: 1 + the output that the value is too; it lies there if the caller gives one.  0: none */
} PlanBuffer;

typedef struct Plan {
    Arena *arena;
    Graph *graph;
    VEC(PlanKernel) kernels;
    PlanBuffer *buffer;  /* by node id */
    int *kernel_of;      /* by node id: the kernel whose `nodes` hold it, or -1 (inlined, or a source) */
    Node *accumulate;    /* entry grad: the ACCUMULATE scalar; read by every kernel that writes a gradient */
    int buffer_cap;      /* room in `buffer`; 0: exactly the graph's nodes */
    int *order;          /* after schedule: kernel indices in execution order */
    int64_t arena_bytes; /* after place */
    int64_t lower_bound; /* after place: maximum of live bytes over the order */
} Plan;

/* A concatenation may have memory and no kernel: the kernels of its parts write it, each its slice (PlanBuffer.within). */
static inline bool plan_is_joined(const Plan *p, const Node *n) {
    return p->buffer[n->id].home == HOME_ARENA && p->buffer[n->id].writer < 0;
}
/* What is gone when the value is written, whose memory it takes (overwrite.c); NULL: nothing. */
static inline Node *plan_overwritten(const Plan *p, const Node *n) {
    Node *x = p->buffer[n->id].within;
    return x && !plan_is_joined(p, x) ? x : NULL;
}
/* Is x gone when the value is written, which takes its memory: of a parameter, a state, or a value of the arena? */
static inline bool plan_goes_over(const Plan *p, const Node *n, const Node *x) {
    const PlanBuffer *b = &p->buffer[n->id];
    const Op source = b->home == HOME_PARAM ? OP_PARAM : b->home == HOME_STATE ? OP_STATE : OP_COUNT;
    if (plan_overwritten(p, n)) return plan_overwritten(p, n) == x;
    return x->op == source && x->attr->decl == b->decl;
}
/* Which of the caller's outputs the value is; -1: none. */
static inline int plan_output(const PlanBuffer *b) { return b->home == HOME_OUTPUT ? b->decl : b->output - 1; }
/* What must be there before the kernel runs: its reads, of a joined one the parts.  Replaces the items of `needs`, which are the
 * arena's: one list does for all kernels. */
void plan_needs(Arena *a, const Plan *p, const PlanKernel *k, NodeList *needs);
/* wanted.c: which calls need what, as fusec_launch.wanted_by has it.  by_kernel: `order` NULL: the kernels stand in one. */
bool plan_leaves_out(const Graph *g); /* some calls do not need all */
uint64_t *plan_wanted_by_result(Arena *a, const Graph *g);
uint64_t *plan_wanted_by_node(Arena *a, const Graph *g);
uint64_t *plan_wanted_by_kernel(Arena *a, const Plan *p, const int *order);

/* Text of a plan after `fuse`: kernels in order, homes, offsets. */
void plan_print(FILE *f, const Plan *p);

#endif
