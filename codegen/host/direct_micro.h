/* The inner function of products through a window: a block of C, all strides known. */
#ifndef FUSEC_CODEGEN_HOST_DIRECT_MICRO_H
#define FUSEC_CODEGEN_HOST_DIRECT_MICRO_H
#include "codegen/llvm/emit.h"

enum { MOST_TAPS = 8 };

/* Which rows of a block each tap has a term for, the others of its elements being zeros beyond the border. */
typedef struct TapRows {
    int n; /* 0: any number of taps, each for all rows */
    int first[MOST_TAPS], end[MOST_TAPS];
} TapRows;

typedef struct DirectShape {
    int rows, vectors, lanes; /* of the block of C */
    int64_t x_row, x_step;    /* of X: between rows, between steps of k */
    int64_t c_row;            /* of C: between rows */
    TapRows taps;
    bool pairs; /* of bf16 in the place of floats */
} DirectShape;

/* void (x, y, c, fresh, count, taps, x_tap, y_tap, outer, x_outer, y_outer): with i running over k =
 * [outer][taps][count] c[r * c_row + n] = (fresh ? 0 : c[r * c_row + n]) + sum of x[r * x_row + outer * x_outer + tap *
 * x_tap + count * x_step] * y[outer * y_outer + tap * y_tap + count * vectors * lanes + n] for r < rows, n < vectors *
 * lanes; count, taps >= 1 unless outer <= 0: no terms.  c stays in registers.  One function per shape and module. */
LLVMValueRef direct_product(const Emit *e, DirectShape s);

#endif
