/* A part of a grid: for kernels whose whole grid would take too long.  PTXSIM_CROP=N. */
#pragma once
#include "tools/ptxsim/exec/exec.h"

/* Linear numbers of at most `most` clusters, ascending, to be freed: the first and the last of the grid, then others of
 * those that stand first, second, in the middle, last but one or last along every axis, as the launch's seed draws them:
 * corners, edges and the inside.  *count: how many; NULL without memory. */
uint64_t *crop_clusters(const Launch *, uint64_t most, uint64_t *count);
