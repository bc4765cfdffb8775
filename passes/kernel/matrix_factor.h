/* Where factors of matrix instructions lie in shared memory, and how they come there. */
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

#endif
