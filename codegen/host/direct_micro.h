/* The inner function of products through a window: a block of C, all strides known. */
#ifndef FUSEC_CODEGEN_HOST_DIRECT_MICRO_H
#define FUSEC_CODEGEN_HOST_DIRECT_MICRO_H
#include "codegen/llvm/emit.h"

typedef struct DirectShape {
    int rows, vectors, lanes; /* of the block of C */
    int64_t x_row, x_step;    /* of X: between rows, between steps of k */
    int64_t c_row;            /* of C: between rows */
    bool pairs;               /* of bf16 in the place of floats */
} DirectShape;

/* void (x, y, c, count, outer, x_outer): with i running over k = [outer][count],
 *     c[r * c_row + n] += x[r * x_row + outer * x_outer + count * x_step] * y[i * vectors * lanes + n]
 * for r < rows, n < vectors * lanes; count, outer >= 1.  c stays in registers.  One function per shape and module. */
LLVMValueRef direct_product(const Emit *e, DirectShape s);

#endif
