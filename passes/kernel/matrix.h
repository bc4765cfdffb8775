/* Contractions as matrix products by matrix instructions: which, with what tiles, and their schedule. */
#ifndef FUSEC_PASSES_MATRIX_H
#define FUSEC_PASSES_MATRIX_H
#include "passes/algebra/contract_class.h"
#include "passes/plan.h"
#include "ir/target.h"

typedef struct MatrixTile {
    By by; /* the instruction: BY_MMA of a warp, BY_WGMMA of four */
    int rows, columns, warp_rows, warp_columns;
    int alternate; /* programs of a block, each of warpgroups of its own, which multiply by turns; 1: it has one program */
} MatrixTile;
extern const MatrixTile matrix_tile[];
extern const int n_matrix_tiles;

enum { MATRIX_TERMS = 4 };

typedef struct MatrixProduct {
    double batch, m, n, k;
    int bytes; /* of a factor's element */
    /* of each result, after its sum: */
    double steps, reads; /* additions that it takes (op_cost()); bytes */
    double staged;       /* bytes that go through shared memory */
    bool loads_rows;     /* wgmma takes the rows from registers, into which they are loaded (matrix_orient) */
} MatrixProduct;

/* A product, of those that one kernel adds up. */
typedef struct MatrixTerm {
    const Node *contract;
    LoopClass loop[MAX_LOOPS];
    bool swapped;         /* rows of the tiles are the second operand's loops */
    bool natural;         /* .. so that columns are the output's innermost */
    int sum_axis;         /* of the kernel, once it is made */
} MatrixTerm;

typedef struct MatrixTiles {
    MatrixTerm term[MATRIX_TERMS];
    int n_terms;          /* 0: no matrix kernel */
    MatrixProduct product; /* of all terms, as if their sums were one */
    MatrixTile tile;
    int sum;              /* elements summed per iteration */
    int ahead, order;
    int64_t room;         /* shared memory of a block */
    int64_t slice;        /* rows, or columns, that the kernel sums: those of its tile; 0: it sums none */
    LoopClass sliced;     /* which of them: the class of their loop */
    int row_axis, column_axis; /* of the kernel, once they are made */
} MatrixTiles;

/* Is the contraction for the target's matrix instructions, as far as it goes by what is multiplied? */
bool matrix_takes(const Target *t, const Node *n);
/* Is one kernel that adds up so many products like this one, in the same accumulators, faster than kernels of their own and
 * a sum?  True where matrix instructions do not take them. */
bool matrix_adds_up_pays(const Target *t, const Node *product, int terms);
/* Elements along a dim of the product in one tile of its kernel, whose values and reads are like those of `like`, where sums of
 * tiles can be taken; 0: not along that dim. */
int64_t matrix_slice(const Target *t, const Node *product, int dim, const PlanKernel *like);
/* Is there a tile with so many? */
bool matrix_has_slice(const Target *t, const Node *product, int dim, int64_t length);
/* Does the tile have the rows, or the columns, that the kernel sums? */
bool matrix_slice_fits(const MatrixTiles *m, const MatrixTile *tile);
/* What a kernel of the plan multiplies: fills *out but for its tile, and returns NULL; or why matrix instructions do
 * not take it, n_terms being 0 then ("": it is no product, or the target has no such instructions). */
const char *matrix_product(const Target *t, const PlanKernel *k, MatrixTiles *out);
/* Fills what it says of the results, from the kernel's nodes. */
void matrix_epilogue(const PlanKernel *k, MatrixProduct *p);
/* Rows and columns as the instruction wants them, to begin with. */
void matrix_orient(MatrixTiles *m, By by);
/* The cheapest tile of one instruction by the cost model, or the next one after a tile of the table; NULL: none is left. */
const MatrixTile *matrix_cheapest(const Target *t, const MatrixTiles *m, By by, const MatrixTile *after);
/* Of the product with its cheapest tile, by the faster instruction that the target has. */
double matrix_seconds(const Target *t, const MatrixTiles *m);
/* Is mma with its cheapest tile faster than wgmma with this one? */
bool matrix_better_by_warps(const Target *t, const MatrixTiles *m, const MatrixTile *tile);
int matrix_accumulators(const MatrixTile *t); /* per thread */
/* Is it a tile for this target? */
bool matrix_tile_fits(const Target *t, const MatrixTile *tile);
/* Takes the tile, and what follows from it. */
void matrix_take(const Target *t, MatrixTiles *m, const MatrixTile *tile);
/* Schedules the kernel that was emitted so; NULL, or why it cannot be such a kernel after all (static, or in the
 * kernel's arena). */
const char *matrix_schedule(Kernel *k, const MatrixTiles *m);

#endif
