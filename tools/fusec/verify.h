/* fusec verify: every entry, on each way to run it, against the float64 evaluation of the graph before any pass.
 *
 * verify.c          the command: targets, rounds, what is printed
 * verify_graph.c    the reference: graphs, and what their evaluation costs
 * verify_data.c     random inputs, parameters and states
 * verify_given.c    those that files have
 * verify_compare.c  one entry on one target
 * verify_gradient.c gradients against finite differences
 * verify_blame.c    the kernel or pass to which the first wrong number goes back */
#ifndef FUSEC_TOOLS_VERIFY_H
#define FUSEC_TOOLS_VERIFY_H
#include "ir/eval_bound.h"
#include "tools/fusec/run.h"

/* Of one result on one target, over all rounds. */
typedef struct Finding {
    double error, within; /* where error / within is worst */
    int64_t elements, wrong, undecided;
} Finding;

/* The first wrong element. */
typedef struct Wrong {
    bool found;
    Entry entry;
    int result; /* of the entry's graph */
    int64_t element;
    double got, want, within;
} Wrong;

typedef struct VerifyTarget {
    const char *name;
    Options options; /* for this target */
    Run run;
    bool open;
    const char *failed;            /* NULL, or what stopped it */
    Finding *finding[ENTRY_COUNT]; /* by result of the reference graph; NULL: it has not run */
    Wrong wrong;                   /* of this round */
    bool blamed;
} VerifyTarget;

typedef struct Verify {
    Arena *arena;
    const Options *o;
    Session session;
    const Model *model;
    Graph *lowered[ENTRY_COUNT]; /* NULL: there is no such entry, or it was not asked for */
    Graph *graph[ENTRY_COUNT];   /* the same, derivatives expanded and dtypes placed */
    const char *error; /* of a pass that made the reference */
    uint64_t random;
    /* of the round */
    Arena *scratch;
    EvalEnv env;
    struct {
        const double **params, **states, **inputs; /* elements by declaration, at the run-time extents; NULL: random */
        const char **extents;                      /* by dimension: what gives it; NULL: nothing does */
    } given;
    Tensor *params, *states, *inputs; /* those of env */
    double *hypers;                   /* likewise */
    int64_t *syms;
    int round;
    VEC(VerifyTarget) targets;
    bool bad;
} Verify;

/* ---- verify_graph.c */
/* False after messages. */
bool verify_graphs(Verify *v);
/* Says what is too much before it starts; false then. */
bool verify_affordable(Verify *v, int rounds);
/* Marks the nodes that are results. */
bool *verify_results(Arena *a, const Graph *g);
/* A copy of g as the reference has it: derivatives expanded. */
Graph *verify_expand(Verify *v, Arena *a, const Graph *g);
bool verify_has_low(const Graph *g);

/* ---- verify_given.c */
/* Reads --params and --inputs; the extents go to verify_open_run().  False after a message. */
bool verify_given(Verify *v);
/* Of the first target that is open: its options are those of all.  NULL: none is. */
Run *verify_open_run(Verify *v);

/* ---- verify_data.c */
void verify_start(Verify *v); /* parameters and states */
void verify_round(Verify *v); /* extents and inputs */
/* Parameters and states as the entry's results leave them, where they are finite. */
void verify_advance(Verify *v, Entry e, const Tensor *value);
/* All of the round into the memory of a run; results are poisoned. */
bool verify_put(const Verify *v, Run *r);
double verify_uniform(uint64_t *random); /* [0, 1) */
/* A tensor's elements at the run-time extents, as they stand in memory at the bounds. */
double *verify_get(Arena *a, const Run *r, const ModuleTensor *t, const void *memory);
Tensor verify_tensor(Arena *a, const Shape *s, const int64_t *syms); /* of zeros */

/* ---- verify_compare.c */
/* Runs the entry and adds to the target's findings. False: it does not run; said. */
bool verify_entry(Verify *v, VerifyTarget *t, Entry e, int line, const Bounds *b);
const char *verify_name(const Verify *v, const Result *r);        /* "gradient h.w" */
char *verify_element(Arena *a, const Tensor *t, int64_t element); /* "[3, 4]" */

/* ---- verify_gradient.c: false, and said, where a gradient disagrees with finite differences */
bool verify_gradients(Verify *v);

/* ---- verify_blame.c */
void verify_blame(Verify *v, VerifyTarget *t, const Bounds *b);

#endif
