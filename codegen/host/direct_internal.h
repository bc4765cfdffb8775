/* A product through a window under construction, shared by direct.c (roles, blocks, packing) and direct_levels.c
 * (sums). */
#ifndef FUSEC_CODEGEN_HOST_DIRECT_INTERNAL_H
#define FUSEC_CODEGEN_HOST_DIRECT_INTERNAL_H
#include "codegen/host/direct_micro.h"
#include "codegen/host/kernel.h"
#include "codegen/host/window.h"

/* Axes merged into one: lanes `stride` of X apart.  Of a clipped one only lanes [first, first + count) are walked. */
typedef struct Level {
    int64_t stride;
    LLVMValueRef count, first, lanes; /* lanes that exist; first: NULL: all are walked */
    int64_t whole;                    /* lanes if constant, else 0 */
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
    Window window, y_window;
    bool y_masked;     /* y_window has ranges */
    int64_t n_columns; /* elements of a row of C */
    int inner_column;  /* its last axis */
    WindowPlace place;
    int n_row_axes, row_axis[MAX_TILE_AXES]; /* loops over rows, outermost first */
    int64_t block_lanes, block_x, block_c;   /* the innermost rows, merged: lanes, stride in X and in C */
    int n_taps, tap_axis[MAX_TILE_AXES];     /* summed axes in Y's ranges: loops outside */
    int n_inner, inner_axis[MAX_TILE_AXES];  /* the other summed axes, outermost first */
    bool flipped[MAX_AXES];                  /* walked from the last lane: so that X is walked upwards */
    Split row_split, column_split;
} Direct;

typedef struct Cursor {
    LLVMValueRef x, y, c; /* pointers; x and c: of the block; y: of the panel at the tap */
} Cursor;

/* ---- direct_levels.c ---- */
/* Levels of the inner axes from the innermost, axes that continue one another merged.  lane: of the open loops.  The
 * innermost is never clipped: the panel of Y is walked without gaps. */
int direct_levels(const Direct *d, LLVMValueRef *lane, Level *level);
/* The block at the cursor, summed over the n innermost levels. */
void direct_multiply(const Direct *d, const Level *level, int n, Cursor at, DirectShape shape);

static inline LLVMValueRef lanes_of(const Direct *d, int axis) {
    return LLVMBuildSub(d->ke->e->b, d->ke->hi[axis], d->ke->lo[axis], "");
}

/* Units of k along a summed axis: floats, or pairs. */
static inline LLVMValueRef units_of(const Direct *d, int axis) {
    const Emit *e = d->ke->e;
    LLVMValueRef lanes = lanes_of(d, axis);
    return d->window.pairs == axis + 1 ? LLVMBuildLShr(e->b, lanes, emit_i64(e, 1), "") : lanes;
}

static inline LLVMValueRef element_at(const Emit *e, LLVMValueRef p, LLVMValueRef offset) {
    return LLVMBuildGEP2(e->b, e->f32, p, &offset, 1, "");
}

static inline LLVMValueRef plus(const Direct *d, LLVMValueRef x, LLVMValueRef y, int64_t scale) {
    const Emit *e = d->ke->e;
    return LLVMBuildAdd(e->b, x, LLVMBuildMul(e->b, y, emit_i64(e, scale), ""), "");
}

static inline int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

static inline int64_t whole_lanes(const Direct *d, int axis) {
    const Axis *x = &d->ke->k->axes.at[axis];
    const LLVMValueRef hi = d->ke->hi[axis], lo = d->ke->lo[axis];
    if (!LLVMIsAConstantInt(hi) || !LLVMIsAConstantInt(lo)) return 0;
    const int64_t n = LLVMConstIntGetSExtValue(hi) - LLVMConstIntGetSExtValue(lo);
    if (n != x->step) return 0;
    return d->window.pairs == axis + 1 ? n / 2 : n;
}

#endif
