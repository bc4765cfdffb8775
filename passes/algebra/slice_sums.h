/* Sums in slices of a dim: x[.., n, ..] seen as [n / length, .., length, ..], each slice summed by itself, and the
 * slices' sums added in order by a second kernel. */
#ifndef FUSEC_PASSES_SLICE_SUMS_H
#define FUSEC_PASSES_SLICE_SUMS_H
#include "ir/graph.h"

/* x as [slices, .., length, ..]; what is past the end of the last slice is 0. */
Contract slices_view(Affine map[1][MAX_RANK], const Node *x, int dim, int64_t length);
/* Is the node such a view, of its operand's dim *dim? */
bool slices_seen(const Node *n, int *dim, int64_t *length);
/* Is it the sum of each slice, and of nothing else? */
bool slices_summed(const Node *n, int *dim, int64_t *length);

#endif
