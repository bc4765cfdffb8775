/* A product through a window as it is planned (direct.c); codegen/host/direct.c emits it. */
#ifndef FUSEC_CODEGEN_SCHEDULE_DIRECT_H
#define FUSEC_CODEGEN_SCHEDULE_DIRECT_H
#include "codegen/schedule/forms.h"
#include "codegen/schedule/window.h"

/* n lanes in blocks of two sizes, the greater ones first. */
typedef struct Split {
    int64_t at[3]; /* [0, at[1]) in blocks of size[0], [at[1], at[2]) in blocks of size[1] */
    int size[2];
} Split;

typedef struct DirectPlan {
    const HostPlan *at;
    const Inst *dot;
    const Storage *c;
    int x, y;
    TileType rows, columns, over;
    Window window, y_window; /* y_window: ranges alone */
    int inner_column;        /* C's last axis */
    int64_t x_stride[MAX_AXES], c_stride[MAX_AXES]; /* in the packed box; in C */
    int n_row_axes, row_axis[MAX_TILE_AXES];        /* loops over rows, outermost first */
    int block_axes;                        /* how many axes of rows a block runs along: the innermost ones of C */
    int64_t block_lanes, block_x, block_c; /* these merged: lanes, stride in X and in C */
    int n_sums, sum_axis[MAX_TILE_AXES];   /* summed axes, outermost first */
    bool flipped[MAX_AXES];                /* walked from the last lane: so that X is walked upwards */
    Split row_split, column_split;
} DirectPlan;

/* The summed axis that may be taps of a block: the last but one; -1: none. */
int direct_tap_axis(const DirectPlan *d);
/* Range i of X's, then of Y's; NULL: no more. */
const Range *direct_range(const DirectPlan *d, int i);
/* A range that a summed axis stands in, beside axes that stand still while a block of C is made, and perhaps `with`. */
bool direct_limits(const DirectPlan *d, const Range *r, int axis, int with);
int64_t direct_most_k(const DirectPlan *d); /* all lanes of the sums */

/* Not more than one call of the micro-kernel makes a block, so that it can begin from zero. */
static inline bool direct_sums_at_once(const DirectPlan *d) { return d->over.n_axes <= 3; }

static inline int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* The number of lanes if it is the axis' step, whatever the program; else 0. */
static inline int64_t all_lanes(const DirectPlan *d, int axis) {
    return axis_whole(d->at->k, axis) ? d->at->k->axes.at[axis].step : 0;
}

#endif
