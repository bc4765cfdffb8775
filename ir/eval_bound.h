/* How far a computation in its dtypes may be from the float64 evaluation of the graph.
 *
 * The graph is evaluated again with every rounded value off by several times what its rounding may be (stochastic
 * arithmetic: Parker, Monte Carlo Arithmetic, 1997), in pairs of draws of opposite sign.  In these draws everything
 * that jumps (comparisons, floor, argmax, float to integer, ..) stays on its side, so that what they show is smooth:
 * how far an element moves gives its bound.  Jumps that would have changed sides are noted; then the graph is evaluated
 * again, exactly, with all of them on the other side, then with random halves of them.  An element which that moves by
 * more than its bound is not decided. */
#ifndef FUSEC_IR_EVAL_BOUND_H
#define FUSEC_IR_EVAL_BOUND_H
#include "ir/graph.h"

typedef struct Bound {
    double *within;  /* by element: the largest error; 0: exact.  NULL: the node was not asked about */
    bool *undecided; /* by element: the value rests on a jump within rounding of its edge, or on an overflow */
    int64_t n_undecided;
} Bound;

typedef struct Bounds {
    const Tensor *value; /* by node id */
    Bound *bound;        /* by node id */
    bool overflows;      /* some value is infinite in its dtype, or may be: what is computed with it may be infinite or no number */
} Bounds;

enum { BOUND_EVALUATIONS = 12 }; /* of the graph, about */

/* Of the nodes marked by id.  NULL with *error as graph_eval has it. */
Bounds *graph_eval_bounds(Arena *a, const Graph *g, const EvalEnv *env, const bool *asked, const char **error);

/* |got - want| is not more than the bound; NaN equals NaN, and what is too large for the dtype is infinite in it. */
bool bound_holds(DType t, double got, double want, double within);

/* Half a unit in the last place of 1. */
double dtype_rounding(DType t);

#endif
