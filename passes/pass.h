/* Passes and the pipeline: passes.def lists what runs, pipeline.c runs it. */
#ifndef FUSEC_PASSES_PASS_H
#define FUSEC_PASSES_PASS_H
#include "ir/graph.h"
#include "ir/module.h"
#include "ir/target.h"
#include "passes/plan.h"
#include "passes/rules.h"

typedef enum {
#define PASS(name, along, can_disable, summary) PASS_##name,
#include "passes/passes.def"
#undef PASS
    PASS_COUNT
} PassId;
typedef struct PassInfo {
    const char *name, *summary;
    bool can_disable;
    PassId along; /* left out with this one too */
} PassInfo;
extern const PassInfo pass_info[PASS_COUNT];

typedef enum { CHECKPOINT_NONE, CHECKPOINT_SQRT } CheckpointMode;

/* Tests of code for the host: every tensor and workspace on pages of its own, at their begin or at their end, none of which
 * is used twice, so that the pages between them can be protected. */
typedef enum { PLACING_SHARED, PLACING_LOW, PLACING_HIGH } Placing;
enum { PLACING_PAGE = 4096, PLACING_GAP = 16 * PLACING_PAGE };

/* What a pass has to say; tools/fusec/session.c gives each its code of frontend/diag.def. */
typedef enum { COMPLAINT_WARNING, COMPLAINT_ERROR, COMPLAINT_TOO_LARGE, COMPLAINT_BUDGET } Complaint;

typedef struct PassContext {
    Arena *arena; /* results live here; compile_module: the module, and an entry's graphs and plan only while it is
                     compiled */
    Arena *kept;  /* kernels live here; NULL: in arena */
    const Target *target;
    CheckpointMode checkpoint;
    Placing placing;
    bool stream_all; /* tests: streams (plan/stream.h) wherever they are right, of whatever size */
    bool stream_low; /* the same of products by matrix instructions, which other fusion is about too */
    bool bucket_all; /* tests: buckets of ids (plan/bucket.c) for every scatter that can have them */
    bool stream_weighed; /* streams that pay alone, on targets too whose memory is small (Device.all_fast) */
    int64_t most_elements; /* tests: of what is given memory, the caller's aside; 0: MAX_ELEMENTS */
    int64_t memory_budget; /* bytes that an entry may take: parameters, states, gradients and arena; 0: any */
    int64_t live_most;     /* bytes of values that pass_recompute may leave live at once; 0: it does nothing */
    int recomputed;        /* values that pass_recompute has split for the entry at hand */
    bool tried_again;      /* this entry was planned before, and took too much: its warnings are said */
    bool recompute_all;    /* tests: it computes some values again in any case */
    bool chunk_all;  /* tests: chunks of rows (plan/chunk.c) wherever they are right */
    bool disabled[PASS_COUNT];
    bool print_after[PASS_COUNT];
    FILE *print_to;
    const struct Profile *profile; /* measured tiles (passes/kernel/profile.h); NULL: the cost model alone */
    struct Tuning *tuning;         /* NULL, or where to put every product with a kernel for each of its tiles */
    bool consumes;  /* lowered graphs, each alone in its arena, are not used again: they are freed when they are compiled */
    bool verify;    /* the graph is verified after every pass that changes it, not only before it is planned */
    bool no_verify; /* neither graph nor kernels nor plan are verified */
    double seconds[PASS_COUNT]; /* --time-passes */
    /* warnings ("gradient through argmax is zero") and errors; who reports one of these sets `failed`, which stops the pipeline */
    void (*report)(void *user, Complaint what, SrcLoc loc, const char *message, const char *help);
    void *user;
    bool failed;
    /* NULL, or what a pass found itself to have built that is illegal: an internal error, never code */
    const char *violation;
    /* NULL, or told of every graph that a pass made, and of the plan before it is emitted; both go afterwards */
    void (*passed)(void *watcher, PassId id, const Graph *g);
    void (*planned)(void *watcher, const Plan *p);
    void *watcher;
    uint32_t *fired; /* NULL, or [RULE_COUNT]: grows by one each time that a rule applies */
} PassContext;

/* May the value have memory? */
static inline bool pass_fits_memory(const PassContext *c, const Node *n) {
    return shape_elements(*n->shape) <= (c->most_elements ? c->most_elements : MAX_ELEMENTS);
}

/* graph -> graph.  Each returns a new or edited graph. */
Graph *pass_canonicalize(PassContext *c, Graph *g);
Graph *pass_parts_of_product(PassContext *c, Graph *g);
Graph *pass_precision(PassContext *c, Graph *g);
Graph *pass_autodiff(PassContext *c, Graph *g);
Graph *pass_jacobian_gemm(PassContext *c, Graph *g);
Graph *pass_together(PassContext *c, Graph *g);
Graph *pass_recompute(PassContext *c, Graph *g);
Graph *pass_chunk(PassContext *c, Graph *g); /* of rows: what is large only in between */
Graph *pass_physical_order(PassContext *c, Graph *g); /* of the dims of tensors inside */
Graph *pass_exponents(PassContext *c, Graph *g); /* what the backward makes again of exp(x - m) / z */
Graph *pass_stream_sums(PassContext *c, Graph *g);

/* graph -> plan */
Plan *pass_fuse(PassContext *c, Graph *g); /* kernels and homes; offsets unset */
/* After fuse, before layout: in-place updates that wait for each other (a <- b, b <- a) are computed aside
 * and moved home by appended copy kernels, so that an order exists. */
void plan_settle(PassContext *c, Plan *p);
/* Of layout: what lies in memory has at most MAX_ELEMENTS elements; where a value has more, it is reported. */
void plan_check_sizes(PassContext *c, const Plan *p);
/* The plan says which values are in memory and what is in one kernel; each returns p->graph, or a new graph, which is to be fused. */
Graph *pass_split(PassContext *c, Plan *p);
Graph *pass_rematerialize(PassContext *c, Plan *p);
Graph *pass_checkpoint(PassContext *c, Plan *p);
void pass_layout(PassContext *c, Plan *p); /* strides and bytes of PlanBuffers */
bool layout_pads(const PassContext *c, const Node *n); /* in the arena its innermost dimension gets wider than it is */
void pass_overwrite(PassContext *c, Plan *p); /* memory of what a kernel reads last for what it writes */
void pass_family(PassContext *c, Plan *p); /* equal products that share an operand as one kernel */
void pass_tile(PassContext *c, Plan *p);   /* abstract Tile IR with tile sizes, per kernel */
void pass_horizontal(PassContext *c, Plan *p); /* unlike kernels in one launch */
void pass_schedule(PassContext *c, Plan *p);
void pass_place(PassContext *c, Plan *p);
const char *plan_verify(Arena *a, const Plan *p); /* independent check of order and placement; NULL if sound */
/* A module without entries: what all entries share, tensors and their offsets. */
Module *module_new(PassContext *c, const Model *model);
/* Adds the entry's kernels and launches to the module. */
void pass_emit(PassContext *c, Plan *p, Module *m);

/* All entries whose graph is not NULL -> a module; NULL when `failed`.  With `consumes` each graph becomes NULL. */
Module *compile_module(PassContext *c, Graph *graphs[ENTRY_COUNT]);

#endif
