/* What schedules are legal: run by kernel_verify when everything else about the kernel is. */
#ifndef FUSEC_IR_TILE_SCHEDULE_H
#define FUSEC_IR_TILE_SCHEDULE_H
#include "ir/tile.h"

/* How a matrix instruction holds its tiles: the low bits of the spread of the accumulator's rows and columns (PTX ISA,
 * "Matrix Fragments for mma.m16n8k16", "Register Fragments for wgmma"), and how much it sums at once. */
typedef struct MatrixForm {
    int n_row, n_col;
    int8_t row[8], col[8];
    int k_bytes; /* along the summed axis */
} MatrixForm;
const MatrixForm *matrix_form(By by); /* NULL: not a matrix instruction */

/* The axes of a matrix product: those longer than one element; false if there are others than one each. */
typedef struct MatrixAxes {
    int row, col, sum; /* -1: the tile has one row or column */
} MatrixAxes;
bool matrix_axes(const Kernel *k, const Inst *dot, MatrixAxes *out);

const char *kernel_check_schedule(Arena *a, const Kernel *k); /* NULL, or the first violation */

#endif
