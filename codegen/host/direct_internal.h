/* A product through a window under construction, shared by direct.c (roles, blocks, packing), direct_clip.c (what lies
 * beyond the border) and direct_levels.c (sums). */
#ifndef FUSEC_CODEGEN_HOST_DIRECT_INTERNAL_H
#define FUSEC_CODEGEN_HOST_DIRECT_INTERNAL_H
#include "codegen/host/forms.h"
#include "codegen/host/micro.h"
#include "codegen/host/window.h"

/* Axes merged into one: lanes `stride` of X apart.  Of a clipped one only lanes [first, first + count) are walked. */
typedef struct Level {
    int64_t stride;
    LLVMValueRef count, first, lanes; /* lanes that exist; first: NULL: all are walked */
    int64_t whole;                    /* lanes if constant, else 0 */
    bool taps;                        /* each for the rows that the block's taps say */
} Level;

/* n lanes in blocks of two sizes, the greater ones first. */
typedef struct Split {
    int64_t at[3]; /* [0, at[1]) in blocks of size[0], [at[1], at[2]) in blocks of size[1] */
    int size[2];
} Split;

typedef struct Direct {
    KernelEmit *ke;
    const Inst *dot;
    const HostMachine *machine;
    const Storage *c;
    int x, y;
    TileType rows, columns, over;
    Window window, y_window; /* y_window: ranges alone */
    int inner_column;        /* C's last axis */
    WindowPlace place; /* its origin: once there is code */
    LLVMValueRef c_origin, fresh; /* of C: where lanes lo lie; fresh: i64, not 0 where it counts as zero */
    int64_t c_stride[MAX_AXES];
    int n_row_axes, row_axis[MAX_TILE_AXES]; /* loops over rows, outermost first */
    int block_axes;                          /* how many axes of rows a block runs along: the innermost ones of C */
    int64_t block_lanes, block_x, block_c;   /* these merged: lanes, stride in X and in C */
    int n_sums, sum_axis[MAX_TILE_AXES];     /* summed axes, outermost first */
    bool flipped[MAX_AXES];                  /* walked from the last lane: so that X is walked upwards */
    Split row_split, column_split;
} Direct;

typedef struct Cursor {
    LLVMValueRef x, y, c; /* pointers; x and c: of the block; y: of the panel at the tap */
} Cursor;

/* ---- direct_clip.c ---- */
/* Leaves out lanes of a summed axis that have no term for the block at `lane`. */
void direct_clip(const Direct *d, int axis, LLVMValueRef *lane, Level *l);
/* Which lanes of the tap axis have a term for which of the `rows` rows from lane `at` of the block on; false: all for
 * all, or it is not known, or not worth while.  lane: of the open loops. */
bool direct_tap_rows(const Direct *d, LLVMValueRef *lane, int64_t at, int rows, MicroTapRows *taps);
/* The share of all terms that is left, about, were the block to run along its axes. */
double direct_walked(const Direct *d);

/* ---- direct_levels.c ---- */
/* The summed axis that may be taps of a block: the last but one; -1: none. */
int direct_tap_axis(const Direct *d);
/* Levels of the summed axes from the innermost, axes that continue one another merged.  lane: of the open loops. */
int direct_levels(const Direct *d, bool taps, LLVMValueRef *lane, Level *level);
/* The block at the cursor, summed over the n innermost levels. */
void direct_multiply(const Direct *d, const Level *level, int n, Cursor at, MicroShape shape);
/* Not more than one call of the micro-kernel makes a block, so that it can begin from zero. */
static inline bool direct_sums_at_once(const Direct *d) { return d->over.n_axes <= 3; }

static inline LLVMValueRef lanes_of(const Direct *d, int axis) {
    return LLVMBuildSub(d->ke->e->b, d->ke->hi[axis], d->ke->lo[axis], "");
}

/* Units of k along a summed axis: floats, or pairs. */
static inline LLVMValueRef units_of(const Direct *d, int axis) {
    const Emit *e = d->ke->e;
    LLVMValueRef lanes = lanes_of(d, axis);
    return d->window.pairs == axis + 1 ? LLVMBuildLShr(e->b, lanes, emit_i64(e, 1), "") : lanes;
}

static inline LLVMValueRef plus(const Direct *d, LLVMValueRef x, LLVMValueRef y, int64_t scale) {
    const Emit *e = d->ke->e;
    return LLVMBuildAdd(e->b, x, LLVMBuildMul(e->b, y, emit_i64(e, scale), ""), "");
}

static inline int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* The number of lanes if it is the axis' step, whatever the program; else 0. */
static inline int64_t all_lanes(const Direct *d, int axis) {
    return axis_whole(d->ke->k, axis) ? d->ke->k->axes.at[axis].step : 0;
}

/* The same in units. */
static inline int64_t whole_lanes(const Direct *d, int axis) {
    const int64_t n = all_lanes(d, axis);
    return d->window.pairs == axis + 1 ? n / 2 : n;
}

#endif
