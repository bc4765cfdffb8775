/* Random programs in bf16, f16 and tf32: what `precision` and declarations of 16 bits make of a program in f32. */
#ifndef FUSEC_TESTS_LOW_PRECISION_H
#define FUSEC_TESTS_LOW_PRECISION_H
#include "tests/support/oracle.h"

/* Gives a forward graph a precision: one for the whole model, or one for each of several runs of nodes, as layers have
 * them.  Some inputs and outputs become f16 or bf16, cast as the front end casts them.  Ids are positions again. */
void low_precision(Arena *a, Graph *g, TestRandom *r);

/* Whether the program asks for a precision, or has a value of 16 bits. */
bool is_low_precision(const Graph *g);

/* The graph as the pipeline has it before any pass that rewrites low values: dtypes placed, gradients expanded. */
Graph *low_placed(PassContext *c, const Graph *g);

/* By result of a placed graph: how far its elements move, at most, when every value of a low dtype is off by up to a
 * unit in its last place.  Infinite where one is not finite then.  `values` are those of graph_eval. */
double *low_spread(Arena *a, const Graph *g, const EvalEnv *env, const Tensor *values, TestRandom *r);

/* rounding_unit of the coarsest dtype in g below f32; 0: it has none. */
double low_unit(const Graph *g);

#endif
