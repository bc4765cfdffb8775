/* Matrix arithmetic, apart from where operands come from: the numbers of mma.sync and wgmma.
 *
 * A warp's fragment registers are arrays of 32 lanes; lane = 4 * group + thread.  A multiplicand register of 32 bits
 * per lane is therefore, byte for byte, a row-major 8 x (16 bytes) tile, and the 32 lanes of an accumulator register
 * are 8 rows by 4 columns, even (or odd) columns of an 8 x 8 tile.  The kernels work in that order:
 *   sum   [n / 8][row block][odd column][32 lanes]   as the registers of D come in the vector expression
 *   left  [row block][k][32 lanes]                   A[row of the lane][k]
 *   right [n / 8][odd column][k][4]                  B[k][column]
 * A row block is 8 rows; the panels are words of 32 bits (float or int32_t), aligned to 64 bytes.
 *
 * Numerics: every product of two f16, bf16, tf32 or 8-bit elements is exact in f32 (bf16 and tf32 products may leave
 * f32's range and are then rounded); they are added to C one by one, k ascending, each sum rounded to nearest even in
 * f32.  The hardware's order, alignment and truncation of its sums are not modelled.  f16 accumulators are widened,
 * summed in f32 and rounded once.  tf32 operands lose their 13 low bits (the ISA leaves them undefined).  NaN results
 * are canonical.  Integer sums wrap, or with .satfinite the sum of the products, exact, is added with clamping. */
#pragma once
#include "tools/ptxsim/ptx/handlers.h"

typedef struct MatrixKernels {
    /* n elements of floating (or integer) type to f32 (or s32) */
    void (*widen)(PtxType, uint32_t *to, const void *from, int n);
    /* n floats to f16, to nearest even */
    void (*narrow)(uint16_t *to, const uint32_t *from, int n);
    /* sum += left * right */
    void (*multiply_f32)(uint32_t *sum, const uint32_t *left, const uint32_t *right, int row_blocks, int column_blocks,
                         int k);
    void (*multiply_s32)(uint32_t *sum, const uint32_t *left, const uint32_t *right, int row_blocks, int column_blocks,
                         int k, bool saturate);
} MatrixKernels;


/* Rows of 8 x `width` values, row-major, into a row block of the left panel from k0 on. */
void left_put(uint32_t *block, const uint32_t *tile, int stride, int k0, int width);
/* The same rows, which are columns of B, into the right panel of a column block. */
void right_put(uint32_t *block, const uint32_t *tile, int stride, int k, int k0, int width);
