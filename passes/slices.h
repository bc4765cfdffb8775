/* Sums in slices of a dim: x[.., n, ..] seen as [n / length, .., length, ..], each slice summed by itself, and the
 * slices' sums added in order by a second kernel.  A slice may be as long as a tile of the product in whose kernel x is
 * computed; then that kernel sums it as well. */
#ifndef FUSEC_PASSES_SLICES_H
#define FUSEC_PASSES_SLICES_H
#include "passes/pass.h"

/* What a kernel may read beside its own values to sum them: of so much fewer elements than are summed. */
enum { SLICES_MUCH_SMALLER = 8 };

/* x as [slices, .., length, ..]; what is past the end of the last slice is 0. */
Contract slices_view(Affine map[1][MAX_RANK], const Node *x, int dim, int64_t length);
/* Is the node such a view, of its operand's dim *dim? */
bool slices_seen(const Node *n, int *dim, int64_t *length);
/* Is it the sum of each slice, and of nothing else? */
bool slices_summed(const Node *n, int *dim, int64_t *length);
/* The product in whose kernel what is summed is computed, element by element; the length of slices that are its tiles.  0: the
 * kernel would need much else to sum it, another sum reads it again, or tiles have no such sums. */
typedef struct Slices {
    const Node *product;
    int64_t length;
} Slices;
const Slices *slices_of_tiles(PassContext *c, const Graph *g); /* by node id */
/* Is x, in another graph, still made from the product whole? */
bool slices_made_in(const Node *x, const Node *product, int depth);

#endif
