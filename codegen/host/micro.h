/* Inner functions of matrix products on packed f32 tiles, one per module and shape. */
#ifndef FUSEC_CODEGEN_HOST_MICRO_H
#define FUSEC_CODEGEN_HOST_MICRO_H
#include "codegen/llvm/emit.h"

/* Instances differ in what follows; everything else is an argument. */
typedef struct MicroShape {
    int rows, vectors, lanes; /* of the block of C */
    int x_row;                /* elements between rows of X, and 1 between its columns; 0: 1 between rows */
} MicroShape;

/* void (x, x_step, y, c, c_stride, k):
 *     c[r, n] += sum over i < k of x[r, i] * y[i * vectors * lanes + n]
 * for r < rows, n < vectors * lanes; k >= 0; strides in elements; x_step: between columns of X where x_row is 0.
 * c stays in registers. */
LLVMValueRef micro_product(const Emit *e, MicroShape s);

/* void (at, stride, n): asks the outer caches for `lines` cache lines at each of n places, stride elements apart. */
LLVMValueRef micro_prefetch(const Emit *e, int lines);

/* void (from, from_stride, to, to_stride): to[j, i] = from[i, j] for a square of lanes x lanes. */
LLVMValueRef micro_transpose(const Emit *e, int lanes);

#endif
