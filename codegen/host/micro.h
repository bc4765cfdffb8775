/* Inner functions of matrix products on packed tiles of f32, or of pairs of bf16, one per module and shape. */
#ifndef FUSEC_CODEGEN_HOST_MICRO_H
#define FUSEC_CODEGEN_HOST_MICRO_H
#include "codegen/llvm/emit.h"

/* Instances differ in what follows; everything else is an argument. */
typedef enum {
    X_ROWS,    /* [rows][k], rows x_row apart */
    X_COLUMNS, /* [k][rows], columns x_step apart */
    X_AWAY     /* [rows][k], rows x_step apart: where the caller's loads find it */
} XLayout;
typedef enum {
    Y_PACKED, /* rows of vectors * lanes, one after another */
    Y_NEAR,   /* rows y_step apart */
    Y_AWAY,   /* the same, prefetched */
    Y_COPIED  /* the same, and packed as they are read */
} YLayout;
enum { MICRO_WALKS = 2 };
typedef struct MicroShape {
    int rows, vectors, lanes; /* of the block of C */
    XLayout x;
    int x_row; /* of X_ROWS */
    YLayout y;
    int y_row;  /* of Y_PACKED: floats from one row to the next */
    bool pairs; /* of bf16; packed, two neighbours along k in the place of a float, zero beside an odd last one */
    bool brief; /* prefetches come before the sums: they are few, or nothing but C is */
    bool masked; /* only the first `columns` of C are there */
    int lines[MICRO_WALKS]; /* cache lines that each walk prefetches at a place */
} MicroShape;

/* void (x, x_step, y, y_step, c, c_stride, k, fresh, {at, stride, n} of each walk that has lines, packed, columns):
 * packed, where Y_COPIED leaves what it read, and columns, of what is masked, are its alone.
 *     c[r, n] = (fresh ? 0 : c[r, n]) + sum over i < k of x[r, i] * y[i, n]
 * for r < rows, n < vectors * lanes; k >= 0; strides in elements.  c stays in registers.  A walk prefetches lines at n
 * places, stride bytes apart, from `at` on: one place with each k, or where the sums are brief all before them. */
LLVMValueRef micro_product(const Emit *e, MicroShape s);

/* void (from, c, c_stride, rows, columns, fresh): what stands in rows of vectors * lanes is written to C, or added
 * where it is not fresh; only what exists, the first `columns` of each row. */
LLVMValueRef micro_put_edge(const Emit *e, int vectors, int lanes);

/* void (from, from_stride, to, to_stride): to[j, i] = from[i, j] for a square of lanes x lanes floats; pairs: of
 * bf16, which may lie at any of them. */
LLVMValueRef micro_transpose(const Emit *e, int lanes, bool pairs);

#endif
