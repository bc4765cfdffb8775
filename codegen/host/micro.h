/* Inner functions of matrix products on packed f32 tiles, one per module and shape. */
#ifndef FUSEC_CODEGEN_HOST_MICRO_H
#define FUSEC_CODEGEN_HOST_MICRO_H
#include "codegen/llvm/emit.h"

/* void (x, row_stride, k_stride, y, y_stride, c, c_stride, k):
 *     c[r, n] += sum over i < k of x[r * row_stride + i * k_stride] * y[i * y_stride + n]
 * for r < rows, n < vectors * lanes; k >= 1; strides in elements.  c stays in registers. */
LLVMValueRef micro_product(const Emit *e, int rows, int vectors, int lanes);

/* void (from, from_stride, to, to_stride): to[j, i] = from[i, j] for a square of lanes x lanes. */
LLVMValueRef micro_transpose(const Emit *e, int lanes);

#endif
