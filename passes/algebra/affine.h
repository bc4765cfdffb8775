/* Affine expressions over the loops of a contraction: ranges, and what always holds. */
#ifndef FUSEC_PASSES_AFFINE_H
#define FUSEC_PASSES_AFFINE_H
#include "ir/graph.h"

enum { AFFINE_LIMIT_BITS = 40 }; /* rewrites that would make larger numbers are not done */

/* The loop that e is, alone and whole; -1 otherwise. */
int affine_single_loop(const Contract *c, const Affine *e);

/* Whether some operand's dim is the loop and no more, so that reading it says how far the loop goes. */
bool loop_read_whole(const Contract *c, Node *const *in, int loop);

/* Cancels the common factor of e and its divisor: same values, same exactness. */
void affine_reduce(Affine *e);

/* Least and greatest numerator over all loop extents at their bounds; false if it could overflow. */
bool affine_interval(const Contract *c, const Affine *e, int64_t *lo, int64_t *hi);

/* Whether lo <= e / divisor < hi, division exact, for all values of the loops and all run-time extents. */
bool affine_always_in(const Contract *c, const Affine *e, int64_t lo, Dim hi);

bool guard_always_holds(const Contract *c, const Guard *g);

/* (add * divisor + scale * e) / divisor; false past the limit. */
bool affine_scale_add(const Affine *e, int64_t scale, int64_t add, Affine *out);

#endif
