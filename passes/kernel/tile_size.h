/* What `fuse` asks of tile sizes before there are kernels. */
#ifndef FUSEC_PASSES_TILE_SIZE_H
#define FUSEC_PASSES_TILE_SIZE_H
#include "ir/graph.h"
#include "ir/target.h"

/* Of a GPU's thread: elements of each value of a row kernel, beyond which a program has twice as many threads, and half as many of
 * one that sums rows; registers for what stays while the kernel walks a slice of rows (sums, and what is read once for all rows): the row's own values need the rest of
 * 128 (ptxas.sh). */
enum { ROW_ELEMENTS = 8, ROW_SLICE_REGISTERS = 24 };

/* Does a tile hold a row of these dims whole, contiguous in memory? */
bool tile_holds_row(const Target *t, const Shape *r);
/* Registers of a thread for each value along such rows; 0 where values lie in memory. */
int tile_row_registers(const Target *t, const Shape *r);
/* How many such rows a tile has, where they are many. */
int64_t tile_rows(const Target *t, int64_t row);

#endif
