/* A product through a window under construction, shared by direct.c (packing, blocks), direct_clip.c (what lies beyond the
 * border) and direct_levels.c (sums); codegen/schedule/direct.c says what it is. */
#ifndef FUSEC_CODEGEN_HOST_DIRECT_H
#define FUSEC_CODEGEN_HOST_DIRECT_H
#include "codegen/host/kernel.h"
#include "codegen/host/micro.h"
#include "codegen/host/window_pack.h"
#include "codegen/schedule/direct.h"

/* Axes merged into one: lanes `stride` of X apart.  Of a clipped one only lanes [first, first + count) are walked. */
typedef struct Level {
    int64_t stride;
    LLVMValueRef count, first, lanes; /* lanes that exist; first: NULL: all are walked */
    int64_t whole;                    /* lanes if constant, else 0 */
    bool taps;                        /* each for the rows that the block's taps say */
} Level;

typedef struct Direct {
    KernelEmit *ke;
    const DirectPlan *p;
    LLVMValueRef x_origin, c_origin, fresh; /* of X and C: where lanes lo lie; fresh: i64, not 0 where C counts as zero */
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

/* ---- direct_levels.c ---- */
/* Levels of the summed axes from the innermost, axes that continue one another merged.  lane: of the open loops. */
int direct_levels(const Direct *d, bool taps, LLVMValueRef *lane, Level *level);
/* The block at the cursor, summed over the n innermost levels. */
void direct_multiply(const Direct *d, const Level *level, int n, Cursor at, MicroShape shape);

/* Units of k along a summed axis: floats, or pairs. */
static inline LLVMValueRef units_of(const Direct *d, int axis) {
    const Emit *e = d->ke->e;
    LLVMValueRef lanes = nest_lanes(d->ke, axis);
    return d->p->window.pairs == axis + 1 ? LLVMBuildLShr(e->b, lanes, emit_i64(e, 1), "") : lanes;
}

static inline LLVMValueRef plus(const Direct *d, LLVMValueRef x, LLVMValueRef y, int64_t scale) {
    const Emit *e = d->ke->e;
    return LLVMBuildAdd(e->b, x, LLVMBuildMul(e->b, y, emit_i64(e, scale), ""), "");
}

/* The number of units if it is that of the axis' step, whatever the program; else 0. */
static inline int64_t whole_lanes(const Direct *d, int axis) {
    const int64_t n = all_lanes(d->p, axis);
    return d->p->window.pairs == axis + 1 ? n / 2 : n;
}

#endif
