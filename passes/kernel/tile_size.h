/* What `fuse` asks of tile sizes before there are kernels. */
#ifndef FUSEC_PASSES_TILE_SIZE_H
#define FUSEC_PASSES_TILE_SIZE_H
#include "ir/target.h"
#include "passes/plan.h"

/* Of a GPU's thread.  ROW_ELEMENTS: of each value of a row kernel, beyond which a program has twice as many threads; half as many
 * where rows are summed.  ROW_SLICE_REGISTERS: for what stays while a slice of rows is walked, sums and what is read once for all
 * rows; the row's own values need the rest of 128 (ptxas.sh). */
enum { ROW_ELEMENTS = 8, ROW_SLICE_REGISTERS = 24 };

/* Does a tile hold a row of these dims whole, contiguous in memory? */
bool tile_holds_row(const Target *t, const Shape *r);
/* So each row of a row kernel, whose reductions walk memory in order? */
bool tile_walks_whole_rows(const Target *t, const PlanKernel *k);
/* Registers of a thread for each value along such rows; 0 where values lie in memory. */
int tile_row_registers(const Target *t, const Shape *r);
/* May the program of a stream walk all rows, adding to sums in memory?  Those are too long to add nothing but numbers, or one row. */
bool tile_may_take_turns(const Target *t, Dim rows);
/* How many rows of so many elements a tile has. */
int64_t tile_rows(const Target *t, int64_t row);
/* Rows, and columns, of a tile of a product that threads share, before it is doubled. */
int tile_side(const Target *t);

#endif
