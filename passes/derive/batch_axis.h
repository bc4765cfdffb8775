/* Linear parts of a graph, run for many seeds at once.
 *
 * The part from node `from` to node `to` is what depends on `from` in between, and it is linear in it: products of
 * adjoints with Jacobians.  Given some axes of `from`, it is emitted once for all seeds of the identity over them:
 *
 *     result[s.., o..] = to[o..] where from[i..] is 1 if i[axes] == s, else 0
 *
 * so that a contraction stays one contraction, with the seeds as loops.  The identity itself is never made: a value
 * is carried as a core and, by seed, either an axis of the core or a tie "0 unless the seed is the index of dim d".
 * Elementwise ops, broadcasts and transposes keep ties, a contraction over a tied dim puts the seed in the place of
 * its loop.  A tie that is left over at the end, a diagonal or block-diagonal Jacobian, becomes a guard. */
#ifndef FUSEC_PASSES_BATCH_AXIS_H
#define FUSEC_PASSES_BATCH_AXIS_H
#include "ir/graph.h"

/* Emits into g; *cost grows by the multiply-adds and elements computed.  NULL where a tensor or a contraction would
 * pass a limit; what was emitted by then has no readers. */
Node *batch_axes(Graph *g, const Node *from, const Node *to, int n_axes, const int8_t *axes, double *cost);

/* Whether y[.., b, ..] follows from x[.., b, ..] alone, b at dim `axis` of both, as far as the structure of the ops
 * between them shows it; float values only, as derivatives see it. */
bool batch_is_independent(const Graph *g, const Node *x, const Node *y, int axis);

#endif
