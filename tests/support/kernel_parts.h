/* Parts of kernels that stand for all of them: programs in the corners, at the edges and inside a grid, and loops of
 * few trips. */
#ifndef FUSEC_TESTS_KERNEL_PARTS_H
#define FUSEC_TESTS_KERNEL_PARTS_H
#include "ir/module.h"
#include "tests/support/oracle.h"

/* Axes along which the grid has one program do not count.  Inside: first or last along none.  Corner: along all.  Edge:
 * along some. */
typedef enum { PLACE_CORNER, PLACE_EDGE, PLACE_INSIDE, PLACES } Place;
/* Bit p: the grid has programs in place p.  syms: extents of bounded dims. */
unsigned kernel_places(const Kernel *k, const int64_t *syms);
Place kernel_place_of(const Kernel *k, const int64_t *syms, int64_t program);
/* At most n linear numbers, ascending and different, and how many: a corner, an edge and one inside in turn, as far as
 * the grid has them, drawn by the seed; with odd seeds the corner is the last program, where all tiles are partial. */
int kernel_some_programs(const Kernel *k, const int64_t *syms, uint64_t seed, int n, uint64_t *program);

/* Trips of its longest loop at the bounds of all dims; 0: no loop. */
int64_t kernel_depth(const Kernel *k);
/* The module with every loop of its kernels cut to its last `depth` trips or fewer: as partial at the end as it was. It
 * shares everything else with m.  What it computes is another value, at the same addresses. */
Module *module_cut(Arena *a, const Module *m, int64_t depth);
/* The same, with as many trips as let one program take at most `work` operations (kernel_cost); at least `depth`, where
 * there are that many. */
Module *module_cut_to(Arena *a, const Module *m, const int64_t *syms, double work, int64_t depth);

#endif
