/* The kernels of a plan by what must run before what. */
#ifndef FUSEC_PASSES_KERNEL_GRAPH_H
#define FUSEC_PASSES_KERNEL_GRAPH_H
#include "passes/plan.h"

/* Kernels as a DAG.  A hard edge: `to` reads what `from` writes.  A soft edge: `to` overwrites in place what
 * `from` reads; soft edges may close cycles until plan_settle has run. */
typedef struct KernelGraph {
    int n;
    int *first;       /* [n + 1] into succ */
    int *succ;        /* to * 2 + soft */
    int *hard, *soft; /* number of edges into each kernel */
} KernelGraph;
KernelGraph kernel_graph(Arena *a, const Plan *p);

#endif
