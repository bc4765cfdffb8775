/* Loads through a window, x[n, h + r - 1, w + s - 1, c] where the subscripts are in range: what a convolution reads.
 *
 * Several axes may share a subscript, so that one element is read at many places of a tile.  A tile's window is
 * the box of elements that it reads.  Packed, it holds each of them once, with 0 where a condition fails, and every
 * lane of every axis moves through it by a constant stride: no condition is left, and nothing is copied per tap. */
#ifndef FUSEC_CODEGEN_SCHEDULE_WINDOW_H
#define FUSEC_CODEGEN_SCHEDULE_WINDOW_H
#include "codegen/schedule/schedule.h"

enum { MAX_RANGES = 2 * MAX_RANK };

typedef struct Range {
    const Index *x; /* affine */
    const Index *bound;
    Op op; /* x op bound: OP_LT, OP_LE, OP_GT or OP_GE */
} Range;

enum { MAX_WINDOW = MAX_AXES };

/* The element lies at offset + the sum of pitch * subscript.  Subscripts are what the ranges are of, where they are not
 * the buffer's own: an image whose dims were merged reads at 14*(h + r - 1) + (w + s - 1).  Falling pitch. */
typedef struct Window {
    const Inst *load;
    int rank;
    const Index *subscript[MAX_WINDOW];
    int64_t pitch[MAX_WINDOW], offset;
    int64_t coef[MAX_WINDOW][MAX_AXES]; /* of each axis in each subscript */
    int n_ranges;
    Range range[MAX_RANGES];
    int pairs; /* 1 + the axis along which two bf16 stand in the place of a float; 0: none */
} Window;

/* Whether `value` is such a load, not kept, of f32, whose conditions are ranges: of subscripts if `own`, so that it
 * can be packed. */
bool window_find(const HostPlan *kp, int value, bool own, Window *w);
/* The conditions alone; pairs: of a load of bf16 that may be converted. */
bool window_find_ranges(const HostPlan *kp, int value, bool pairs, Window *w);

/* The same of a load of bf16 that is converted, if its elements are pairs along one of the axes `over`, which has an
 * even number of lanes, is the last subscript alone and has no condition: pitch and offset then count pairs, as do the
 * strides of its place. */
bool window_find_pairs(const HostPlan *kp, int value, const TileType *over, Window *w);

/* A subscript that a row's or column's axis and a summed one share. */
bool window_slides(const Kernel *k, const Window *w, const TileType *kept, const TileType *over);

/* A subscript's range that does not depend on run-time extents, [at[0], at[1]), as far as there is any; known: where there
 * is. */
typedef struct WindowLimits {
    bool any[2], known[2];
    int64_t at[2];
} WindowLimits;
WindowLimits window_known_limits(const Window *w, int d);

static inline bool range_is_upper(const Range *r) { return r->op == OP_LT || r->op == OP_LE; }
/* How much further inside the range the next lane of an axis is. */
int64_t range_slope(const Kernel *k, const Range *r, int axis);

/* The packed box: of each subscript, how many places there are and how far apart. */
typedef struct WindowBox {
    int64_t extent[MAX_WINDOW], stride[MAX_WINDOW];
} WindowBox;
WindowBox window_box(const Kernel *k, const Window *w);
/* From one lane of each axis to the next in it. */
void window_strides(const Kernel *k, const Window *w, int64_t stride[MAX_AXES]);
/* Elements of memory that it needs. */
int64_t window_elements(const HostPlan *kp, const Window *w);

#endif
