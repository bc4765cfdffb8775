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

/* What must run before kernel k: at[first[k]] .. at[first[k + 1] - 1]. */
typedef struct Predecessors {
    int *first, *at;
} Predecessors;
/* head: NULL, or by kernel the one that stands for it. */
Predecessors kernel_predecessors(Arena *a, const KernelGraph *g, const int *head);

/* By kernel: its place in an order that has each of n kernels behind its predecessors, and else is that of `wish`, in which each
 * stands at least once.  Without cycles. */
int *kernels_in_order(Arena *a, int n, const Predecessors *before, const int *wish, int n_wish);

#endif
