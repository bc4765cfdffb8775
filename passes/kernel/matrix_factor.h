/* Where factors of matrix instructions lie in shared memory, and how they come there. */
#ifndef FUSEC_PASSES_MATRIX_FACTOR_H
#define FUSEC_PASSES_MATRIX_FACTOR_H
#include "ir/tile.h"

/* A kernel that is being scheduled; def: kernel_defs of it as it is now. */
typedef struct Scheduled {
    Kernel *k;
    const Inst **def;
} Scheduled;

/* The tile is contiguous along the sum in shared memory: where memory has the longer runs along it, or, between equal
 * ones, neighbours that threads read together. */
bool factor_along_sum(const Scheduled *s, int value, int across, int sum);
int factor_swizzle(const Kernel *k, int minor, int bytes); /* of rows along the axis; 0: none fits */
/* Along `minor`, by accesses as wide as the memory that is read allows. */
void factor_place(const Scheduled *s, Inst *stage, int minor, int swizzle);

#endif
