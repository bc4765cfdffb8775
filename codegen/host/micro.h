/* The micro-kernels of products: a block of C in registers, to which terms are added; one function per module and
 * shape.
 *
 *     C[row, column] (+)= sum over levels and taps of X[place of row and tap, step] * Y[tap, step, column]
 *
 * Rows and taps are those of two sides, all unrolled, what several of them read of X being loaded once; around them, up
 * to three levels of loops over steps.  A matrix product has its rows along one side and no taps, a window its taps as
 * a level, a product channel by channel a vector of channels for each element of X.  Instances differ in the shape;
 * everything else is an argument.  Edges are made here alone: lanes of C that are not there, places of X that do not
 * exist, steps that fill no vector or pair. */
#ifndef FUSEC_CODEGEN_HOST_MICRO_H
#define FUSEC_CODEGEN_HOST_MICRO_H
#include "codegen/llvm/emit.h"
#include "codegen/schedule/micro_side.h"

enum { MICRO_SIDES = 2, MICRO_LEVELS = 3, MICRO_WALKS = 2, MICRO_TAP_ROWS = 8 };

/* A factor: X is an element for all lanes, or a vector for them lane by lane; Y a vector for each vector of C. */
typedef struct MicroFactor {
    int64_t vector;
    int64_t raw;                /* of pairs: two bf16 as memory has them, rows of Y one below the other; else packed */
    int64_t step[MICRO_LEVELS]; /* elements from one step of a level to the next; of raw Y: from one bf16 to the next */
    int64_t steps_ahead;        /* prefetch distance: steps of the innermost level; 0: none */
    int64_t ahead;              /* and into the second: elements; 0: none */
    int64_t run; /* with `ahead`: elements from one place of the inner side to the next, where those are all the
                    channels that are walked in turn, and come from memory; 0: not so */
} MicroFactor;

/* Lanes are the `width` results of groups one after another, whose elements of X are `depth` neighbours: lane i is
 * multiplied with element i / width * depth + n, for n from first to first + count - 1, summed; Y lies y_step further
 * for each n. */
typedef struct MicroGroups {
    int64_t width, depth, first, count; /* all 1, first 0: no groups */
    int64_t y_step;
} MicroGroups;

static const MicroGroups MICRO_NO_GROUPS = {1, 1, 0, 1, 0};

/* Steps of level 1, unrolled, each for the inner rows from first to end - 1: the others' elements are zeros beyond a
 * border. */
typedef struct MicroTapRows {
    int64_t n; /* 0: a loop, each for all rows */
    int64_t first[MICRO_TAP_ROWS], end[MICRO_TAP_ROWS];
} MicroTapRows;

/* Of numbers alone: all of them are in what a function is found by. */
typedef struct MicroShape {
    MicroSide side[MICRO_SIDES]; /* outer, inner */
    int64_t vectors, lanes;      /* of a row of C */
    MicroFactor x, y;
    MicroGroups groups;
    int64_t pairs;      /* of bf16 in the place of floats, both products of which are added */
    int64_t odd;        /* the count is of single lanes of pairs, the last of which may have no neighbour */
    int64_t along;      /* vectors run along the sums, in both factors; `vectors` are columns, contiguous in C */
    int64_t levels;     /* only the outermost may have no steps */
    int64_t unroll;     /* steps of the innermost level at a time */
    int64_t place_step; /* places of the outer side from one step of the innermost level to the next */
    int64_t fresh;      /* where it is no argument: C counts as zero, whatever it holds */
    MicroTapRows taps;
    int64_t brief; /* prefetches come before the sums: they are few, or nothing but C is */
    int64_t c_prefetched;
    int64_t lines[MICRO_WALKS]; /* cache lines that each walk prefetches at a place */
    int64_t interval;           /* steps from a place to the next: 1, or a multiple of unroll */
    int64_t shift[MICRO_SIDES]; /* with a run of X, places from a block to the next along each side, which reads the
                                   others again */
} MicroShape;

/* What is passed; a stride that is no argument is the shape's. */
typedef enum MicroArg {
    MICRO_X, /* of the first row, tap and step; of Y and C too, and the first column */
    MICRO_Y,
    MICRO_C,
    MICRO_COUNT,                               /* steps of each level */
    MICRO_X_STEP = MICRO_COUNT + MICRO_LEVELS, /* MicroFactor.step of each level */
    MICRO_Y_STEP = MICRO_X_STEP + MICRO_LEVELS,
    MICRO_X_ROW = MICRO_Y_STEP + MICRO_LEVELS, /* from one inner row to the next */
    MICRO_Y_COLUMN,                            /* of sums along both factors: from one column to the next */
    MICRO_C_ROW,                               /* from one inner row to the next */
    MICRO_FRESH,                               /* not 0 where C counts as zero, whatever it holds */
    MICRO_PLACES,                              /* of each side: the places that exist, [lo, hi), in the first step */
    MICRO_CHANNEL = MICRO_PLACES + 2 * MICRO_SIDES, /* with a run: the number of the channel that X, Y and C are of */
    MICRO_PACKED,  /* the vectors of Y that are read are left there too, rows step[0] apart */
    MICRO_COLUMNS, /* only the first `columns` of C are there */
    MICRO_WALK,    /* of each that has lines: they are prefetched at n places, stride bytes apart, from `at` on: at,
                      stride, n */
    MICRO_ARGS = MICRO_WALK + 3 * MICRO_WALKS
} MicroArg;

/* Appends a call of the function of that shape with those of the arguments that are there; the function.  A new one is
 * called fusec.NAME_ROWSxCOLUMNS, with a number behind it where that is another one's name. */
LLVMValueRef micro_product(const Emit *e, const char *name, MicroShape s, LLVMValueRef *arg);

/* One row and no taps; rows one after another, each of which exists. */
static inline MicroSide micro_rows(int64_t rows, int64_t x_row, int64_t c_row) {
    return (MicroSide){
        .rows = rows, .taps = 1, .row = 1, .tap = 1, .x_row = x_row, .c_row = c_row, .sure_end = rows, .may_end = rows};
}

/* void (from, c, c_stride, rows, columns, fresh): what stands in rows of vectors * lanes is written to C, or added
 * where it is not fresh; only what exists, the first `columns` of each row. */
LLVMValueRef micro_put_edge(const Emit *e, int vectors, int lanes);

/* void (from, from_stride, to, to_stride): to[j, i] = from[i, j] for a square of lanes x lanes floats; pairs: of
 * bf16, which may lie at any of them. */
LLVMValueRef micro_transpose(const Emit *e, int lanes, bool pairs);

#endif
