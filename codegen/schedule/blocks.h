/* A matrix product in blocks, or as inner products, as it is planned (blocks.c); codegen/host/dot.c emits it. */
#ifndef FUSEC_CODEGEN_SCHEDULE_BLOCKS_H
#define FUSEC_CODEGEN_SCHEDULE_BLOCKS_H
#include "codegen/schedule/forms.h"

/* A factor that is a plain load, used in place: lane (0, 0) of the part at hand, elements of memory from one row
 * or column, and from one k, to the next. */
typedef struct FactorInPlace {
    bool use, near; /* near: so small that it stays in the innermost caches */
    bool copied;    /* of Y: packed while it is read for the first rows */
    bool swept;     /* of Y: read once, in parts of few k, each prefetched row by row while the last one is multiplied */
    bool transposed; /* of Y: contiguous along k, so that squares of it are packed in place */
    bool along_k;    /* of Y: packed by squares, evaluated along k */
    int64_t across, along;
} FactorInPlace;

/* Where what comes next of a factor lies: elements from one row or column to the next, from one k to the next; one is 1. */
typedef struct FactorNext {
    bool prefetched;
    int64_t across, along;
} FactorNext;

enum { INNER_ROWS = 7 }; /* most of inner products */

typedef struct BlocksPlan {
    const HostPlan *at;
    const Inst *dot;
    const Storage *c;
    int x, y; /* values: rows x k, k x columns */
    TileType rows, columns, over;
    int64_t n_rows, n_columns, n_over; /* at the steps, padded as the storage of C is */
    int pair_axis;                     /* of k: lanes of it are multiplied in pairs of bf16; -1: none, of floats */
    int64_t n_units;                   /* k as packed: floats, or pairs in the place of one */
    int row_block, row_unit;           /* rows of a block of C: a multiple of row_unit, at most row_block */
    int vectors, panel;                /* per row of a block: vectors, lanes */
    int64_t x_pitch, y_pitch;          /* units of k with room for whole vectors: of a row of X, of a panel of Y */
    bool rows_fast;                    /* X is [k][rows], else [rows][k] */
    FactorInPlace x_direct, y_direct;
    FactorNext next_x, next_y;
    int steps_ahead;       /* of k, of Y that is read from where it lies */
    bool brief;            /* few units of k: nothing is prefetched beside them, and a block aside is expensive */
    int inner;             /* columns at a time of inner products; 0: blocks */
    bool edges;            /* a block may pass the last row or column */
    int64_t group, x_step; /* rows of X packed at a time; elements from one k to the next */
    int parted, part;      /* the k axis that is packed in parts of `part` lanes; -1: none */
} BlocksPlan;

/* The load, perhaps converted to f32, whose elements a factor has. */
const Inst *blocks_load(const BlocksPlan *p, int value);
/* It has no mask and is affine in all axes, of which one is `across`' and one is k's. */
bool blocks_plain_load(const BlocksPlan *p, int value, const TileType *across, FactorInPlace *direct);

static inline int blocks_source_bytes(const BlocksPlan *p) { return p->pair_axis >= 0 ? 2 : 4; }

#endif
