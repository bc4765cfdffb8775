/* Products that one kernel computes together with other sums: pass_together brings them side by side in the graph, fuse
 * makes one kernel of them.  The questions here are asked by both. */
#ifndef FUSEC_PASSES_TOGETHER_H
#define FUSEC_PASSES_TOGETHER_H
#include "ir/target.h"
#include "passes/pass.h"

/* A product whose loop over what is summed can do more than one thing: two whole operands, its result carried in f32.
 */
bool product_shares(const Node *n);

/* Do the loops of both results stand in rows, columns and batches alike? */
bool products_alike(const Node *a, const Node *b);

/* sum: of an operand of the product, over all that the product sums.  Returns which operand, -1 if of none; sets
 * loop[d]: the product's loop for each dim of the sum's result.  Where both operands are one tensor, the dims tell
 * which it is. */
int sum_fits_loop(const Node *sum, const Node *product, int8_t *loop);

/* Are both multiplied by the same instructions, so that one can go on in the other's accumulators? */
bool target_adds_up(const Target *t, const Node *a, const Node *b);

/* Does the product's loop take sums over its factors?  Device.takes_sums; not by matrix instructions, whose programs at one edge of the
 * grid would multiply as many rows more as an instruction has.  Of no target yet, true. */
bool target_takes_sums(const Target *t, const Node *product);

#endif
