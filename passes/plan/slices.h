/* Where sums in slices (slice_sums.h) are as long as a tile of the product in whose kernel what is summed is computed, or as what
 * a program walks of the rows that it reduces: that kernel sums them as well. */
#ifndef FUSEC_PASSES_SLICES_H
#define FUSEC_PASSES_SLICES_H
#include "passes/algebra/slice_sums.h"
#include "passes/pass.h"

/* What a kernel may read beside its own values to sum them: of so much fewer elements than are summed. */
enum { SLICES_MUCH_SMALLER = 8 };

/* The product in whose kernel what is summed is computed, element by element; the length of slices that are its tiles.  0: the
 * kernel would need much else to sum it, another sum reads it again, or tiles have no such sums. */
typedef struct Slices {
    const Node *product; /* NULL: of rows */
    int64_t length;
} Slices;
const Slices *slices_of_tiles(PassContext *c, const Graph *g); /* by node id */
/* A kernel that reads the same row of something for all its rows walks slices of them, so that it reads that once for each. */
void slices_of_reads(const Target *t, PlanKernel *k);
/* Is x, in another graph, still made from the product whole? */
bool slices_made_in(const Node *x, const Node *product, int depth);

#endif
