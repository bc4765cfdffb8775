/* The plan: which nodes get memory, which kernels compute them, in what order, at what address.
 * `fuse` fills kernels, `tile` their Tile IR, `schedule` the order, `place` the offsets. */
#ifndef FUSEC_PASSES_PLAN_H
#define FUSEC_PASSES_PLAN_H
#include "ir/graph.h"
#include "ir/tile.h"

typedef struct PlanKernel {
    VEC(Node *) outputs; /* nodes it writes to memory, all over one iteration space */
    VEC(Node *) reads;   /* materialised nodes (or sources with memory) it reads */
    Kernel *tile;        /* after `tile`/`emit`; buffers in the order: reads, then outputs */
    int stored_kernel;   /* emit: index into Module.kernels */
    Phase phase;
    int64_t workspace;   /* bytes of arena it needs while it runs */
} PlanKernel;

/* Where a node's value lives. */
typedef enum {
    HOME_NONE,    /* inlined in its consumers, never in memory */
    HOME_SOURCE,  /* PARAM STATE INPUT HYPER STEP SEED: memory that exists */
    HOME_ARENA,
    HOME_OUTPUT,  /* written straight to the caller's output `decl` */
    HOME_GRAD,    /* straight to the gradient of param `decl` */
    HOME_PARAM,   /* in place over param `decl`: every other reader of the old value runs before */
    HOME_STATE
} Home;

typedef struct PlanBuffer {
    Home home;
    int decl;
    int writer;          /* kernel index; -1 for sources */
    int64_t bytes;       /* allocated, with leading-dimension padding */
    int64_t stride[MAX_RANK];
    int64_t offset;      /* HOME_ARENA, after place */
} PlanBuffer;

typedef struct Plan {
    Arena *arena;
    Graph *graph;
    VEC(PlanKernel) kernels;
    PlanBuffer *buffer;  /* by node id */
    int *order;          /* after schedule: kernel indices in execution order */
    int64_t arena_bytes; /* after place */
    int64_t lower_bound; /* after place: maximum of live bytes over the order */
} Plan;

#endif
