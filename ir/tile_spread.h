/* How a tile is spread over the threads of a program (scheduled level, GPU).
 *
 * Axis.spread says where each bit of the index within a tile lives.  A thread holds, along one axis, the elements
 * whose thread bits are its own: register r is the one whose register bits, and the digits above all bits, spell r.
 * Axes that occur in one register tile have disjoint thread bits; threads not covered by a tile's axes hold copies. */
#ifndef FUSEC_IR_TILE_SPREAD_H
#define FUSEC_IR_TILE_SPREAD_H
#include "ir/tile.h"

unsigned spread_threads(const Axis *x);        /* the thread bits, as a mask */
int spread_registers(const Axis *x);           /* elements that a thread holds along the axis */
int spread_offset(const Axis *x, int r);       /* element of register r in thread 0; register 0 of any thread is less */
int spread_vector(const Axis *x);              /* neighbouring elements in the low register bits */
const char *spread_check(const Axis *x, int threads); /* NULL, or what is wrong with it */

/* only[v]: v is needed nowhere but in shared memory (it feeds STAGE, directly or through elementwise
 * instructions, loads and indices), so that it can be evaluated in any order of threads. */
void kernel_staged_only(const Kernel *k, bool *only);
/* with[x]: the axes (bits) that occur in one register tile with axis x. */
void kernel_together(Arena *a, const Kernel *k, uint32_t with[MAX_AXES]);
/* NULL, or why some tile cannot be spread over k->threads so. */
const char *kernel_check_spreads(Arena *a, const Kernel *k);

#endif
