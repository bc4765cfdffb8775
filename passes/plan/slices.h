/* Where sums in slices (slice_sums.h) are as long as a tile of the product in whose kernel what is summed is computed, or as what
 * a program walks of the rows that it reduces: that kernel sums them as well. */
#ifndef FUSEC_PASSES_SLICES_H
#define FUSEC_PASSES_SLICES_H
#include "passes/algebra/slice_sums.h"
#include "passes/pass.h"

/* What a kernel may read beside its own values to sum them: of so much fewer elements than are summed. */
enum { SLICES_MUCH_SMALLER = 8 };

/* What split does with a sum or a product of a plan. */
typedef struct Slices {
    int64_t length; /* of slices: of a sum the tiles of the kernel that has what is summed; 0: that kernel would need much else, another sum
                       reads it again, or tiles have no such sums */
    bool whole;     /* its kernel sums it as it is: in a product's loop, or as a stream */
} Slices;
/* Fills what sums are, by node id; of products it is known. */
void slices_of_sums(const PassContext *c, const Plan *p, Slices *slices);
/* A kernel that reads the same row of something for all its rows walks slices of them, so that it reads that once for each. */
void slices_of_reads(const Target *t, PlanKernel *k);

#endif
