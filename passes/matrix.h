/* Contractions as matrix products by matrix instructions: which, with what tiles, and their schedule. */
#ifndef FUSEC_PASSES_MATRIX_H
#define FUSEC_PASSES_MATRIX_H
#include "passes/contract_class.h"
#include "passes/plan.h"
#include "ir/target.h"

typedef struct MatrixTile {
    By by; /* the instruction: BY_MMA of a warp, BY_WGMMA of four */
    int rows, columns, warp_rows, warp_columns;
} MatrixTile;
extern const MatrixTile matrix_tile[];
extern const int n_matrix_tiles;

typedef struct MatrixTiles {
    const Node *contract; /* NULL: no matrix kernel */
    LoopClass loop[MAX_LOOPS];
    bool swapped;         /* rows of the tiles are the second operand's loops, so that columns are the output's innermost */
    MatrixTile tile;
    int sum;              /* elements summed per iteration */
    int ahead, order;
    int64_t room;         /* shared memory of a block */
    int row_axis, column_axis, sum_axis; /* of the kernel, once they are made */
} MatrixTiles;

/* Decides for a kernel of the plan (fills *out), among the tiles of one instruction. */
void matrix_tiles(const Target *t, const PlanKernel *k, By by, MatrixTiles *out);
/* Schedules the kernel that was emitted so; false: it is not such a kernel after all. */
bool matrix_schedule(Kernel *k, const MatrixTiles *m);

#endif
