/* What a launch of checked host code may touch: the buffers of its kernel, those it writes alone to be written, at the
 * extents of this run; its arguments; and the arrays on the stack of the functions that run.  An access that does not
 * lie wholly inside one of them is printed, with the function and what lies nearest, and ends the process with
 * GUARD_FAULT, as a guard page does (guard.h).  An array holds signalling NaNs at first. */
#ifndef FUSEC_TESTS_CHECKED_H
#define FUSEC_TESTS_CHECKED_H
#include "tests/support/instrument.h"
#include "ir/tile.h"

extern const MemoryHooks checked_memory;
extern const HostInstrument checked_code; /* with those; for HostOptions.instrument */

/* Before every launch; no checked code may run yet.  integers: the kernel's symbols and constants. */
void checked_launch(const Kernel *k, void *const *buffers, const int64_t *integers, int n_integers);

#endif
