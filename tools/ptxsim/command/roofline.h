/* The least time that a kernel's figures allow. */
#pragma once
#include "ir/target.h"
#include "tools/ptxsim/ptx/counters.h"

typedef enum Bound { BOUND_MEMORY, BOUND_ARITHMETIC, BOUND_MATRIX, BOUND_SHARED, BOUND_ISSUE, BOUNDS } Bound;
const char *bound_name(Bound);
/* The least time that the figures allow on a GPU, all of its parts at their peaks and perfectly overlapped: the largest
 * of what each part needs, in seconds[b] by Bound.  Launches themselves take nothing. */
Bound roofline(const Counters *, const Target *, double seconds[BOUNDS]);
