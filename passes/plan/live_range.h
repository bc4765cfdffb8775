/* Live ranges in the order of the graph, as far as they are known before there is a plan. */
#ifndef FUSEC_PASSES_LIVE_RANGE_H
#define FUSEC_PASSES_LIVE_RANGE_H
#include "passes/pass.h"
#include "passes/plan/stream.h"

typedef struct LiveRanges {
    const Graph *g;
    Uses uses;
    Foreseen will; /* be in memory, or made in streams */
    bool *stored;  /* by node id: in memory, once the elementwise readers of what opens a kernel are in that */
    bool *result;  /* by node id: of the graph */
    int *last;     /* by node id: of what has memory, the id of its last reader; of others, until when it is computed */
    int *as_large; /* by node id: the same of it and of what is elementwise after it */
} LiveRanges;

/* All in `a`, but for what fuse_foresee keeps in the context's arena. */
LiveRanges live_ranges(const PassContext *c, Graph *g, Arena *a);

/* May what the last reader writes go over x?  (overwrite.c) */
bool live_goes_over(const Node *last, const Node *x);

/* The most bytes of values that are live at once; bytes: NULL, or how many are, by node id. */
double live_peak(const LiveRanges *l, Arena *a, double *bytes);

#endif
