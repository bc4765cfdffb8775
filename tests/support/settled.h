/* Which results are the same however their values are rounded, so that any back end must have them. */
#ifndef FUSEC_TESTS_SETTLED_H
#define FUSEC_TESTS_SETTLED_H
#include "tests/support/oracle.h"

/* skip[i]: result i depends on a jump (floor, a comparison, a cast to an integer, ...) whose operand is so near its
 * edge that rounding may take it across.  How many.  `values` are those of graph_eval.
 *
 * A value on the edge itself is no such operand where it is exact: + - * / and square roots of what is given round
 * correctly, functions are exact where C99 Annex F says so.  Nor are two operands that are equal, if they stay so when
 * everything that is rounded is off: they are one value that came two ways. */
int find_unsettled(Arena *a, const Graph *g, const EvalEnv *env, const Tensor *values, bool *skip);

#endif
