/* How a tile is spread over the threads of a program (scheduled level, GPU).
 *
 * An axis with `lanes` L, `vector` V and `step` S gives each thread S / L elements along it: element
 * e = (r / V) * L * V + lane * V + r % V for register r.  The lane is (thread / stride) % L.  Axes that occur in
 * one register tile have disjoint thread bits; threads not covered by a tile's axes hold copies. */
#ifndef FUSEC_IR_TILE_LANES_H
#define FUSEC_IR_TILE_LANES_H
#include "ir/tile.h"

/* only[v]: v is needed nowhere but in shared memory (it feeds STAGE, directly or through elementwise
 * instructions, loads and indices), so that it can be evaluated in any order of threads. */
void kernel_staged_only(const Kernel *k, bool *only);

/* Thread bits of every axis, from lanes; false if some register tile does not fit in k->threads. */
bool kernel_lane_strides(Arena *a, const Kernel *k, int stride[MAX_AXES]);

#endif
