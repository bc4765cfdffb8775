/* What matrix kernels have in shared memory: factors, and what registers hold in another order than memory does. */
#ifndef FUSEC_PASSES_MATRIX_FACTOR_H
#define FUSEC_PASSES_MATRIX_FACTOR_H
#include "ir/tile.h"

/* def: kernel_defs of the kernel as it is now. */

/* The tile is contiguous along the sum in shared memory: where memory has the longer runs along it, or, between equal
 * ones, neighbours that threads read together. */
bool factor_along_sum(const Kernel *k, const Inst *const *def, int value, int across, int sum);
int factor_swizzle(const Kernel *k, int minor, int bytes); /* of rows along the axis; 0: none fits */
/* Along `minor`, by accesses as wide as the memory that is read allows. */
void factor_place(const Kernel *k, const Inst *const *def, Inst *stage, int minor, int swizzle);
Inst *factor_stage(const Block *b, int value); /* of the block; NULL: the value is not staged there */

/* Accumulators' own order moves whole sectors: rows of eight neighbours, or columns of as many. */
bool whole_sectors(const Kernel *k, const Inst *const *def, const Inst *access, int row, int column);
/* The one of the two axes along which the access has the longer runs. */
int access_axis(const Kernel *k, const Inst *const *def, const Inst *access, int row, int column);
/* Instruction `at` of the block, a load: what reads it reads a stage of it, which comes after it and has no place yet. */
Inst *load_staged(Kernel *k, Block *b, int at);
/* Instruction `at`, a store of a tile of both axes: if registers hold it in parts of sectors it leaves by way of shared memory, as a
 * stage before it.  def is that of the kernel before. */
bool store_staged(Kernel *k, const Inst *const *def, Block *b, int at, int row, int column);

#endif
