/* Loads through a window, x[n, h + r - 1, w + s - 1, c] where the subscripts are in range: what a convolution reads.
 *
 * Several axes may share a subscript, so that one element is read at many places of a tile.  A tile's window is
 * the box of elements that it reads.  Packed, it holds each of them once, with 0 where a condition fails, and every
 * lane of every axis moves through it by a constant stride: no condition is left, and nothing is copied per tap. */
#ifndef FUSEC_CODEGEN_HOST_WINDOW_H
#define FUSEC_CODEGEN_HOST_WINDOW_H
#include "codegen/host/kernel.h"

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
bool window_find(const KernelEmit *ke, int value, bool own, Window *w);
/* The conditions alone; pairs: of a load of bf16 that may be converted. */
bool window_find_ranges(const KernelEmit *ke, int value, bool pairs, Window *w);

/* The same of a load of bf16 that is converted, if its elements are pairs along one of the axes `over`, which has an
 * even number of lanes, is the last subscript alone and has no condition: pitch and offset then count pairs, as do the
 * strides of its place. */
bool window_find_pairs(const KernelEmit *ke, int value, const TileType *over, Window *w);

/* A subscript that a row's or column's axis and a summed one share. */
bool window_slides(const Kernel *k, const Window *w, const TileType *kept, const TileType *over);

/* Where lanes lie: the element of lanes `at` (relative to lo) is origin + the sum of stride * lane. */
typedef struct WindowPlace {
    LLVMValueRef origin; /* pointer to the element of all first lanes */
    int64_t stride[MAX_AXES];
} WindowPlace;

/* The buffer itself: ranges are the caller's. */
WindowPlace window_in_place(KernelEmit *ke, const Window *w);
/* Strides of its packed box. */
void window_strides(const Kernel *k, const Window *w, int64_t stride[MAX_AXES]);
/* Elements of memory that window_pack needs. */
int64_t window_elements(const Kernel *k, const Window *w, int vector);
/* Appends code that packs the box of existing lanes. */
WindowPlace window_pack(KernelEmit *ke, const Window *w, LLVMValueRef memory, const HostMachine *m);

/* Subscript d at these lanes (NULL: lane lo), and the range that it must lie in, [*lo, *end); NULL: no limit. */
LLVMValueRef window_subscript(KernelEmit *ke, const Window *w, int d, const LLVMValueRef *lane);
void window_limits(KernelEmit *ke, const Window *w, int d, LLVMValueRef *lo, LLVMValueRef *end);

/* The same, as far as it does not depend on run-time extents: at[0] is lo, at[1] end. */
typedef struct WindowLimits {
    bool any[2], known[2];
    int64_t at[2];
} WindowLimits;
WindowLimits window_known_limits(const Window *w, int d);

/* How far inside the range these lanes are (NULL: lane lo): it holds where this is not negative.  It changes by
 * range_slope from a lane of an axis to the next. */
LLVMValueRef range_slack(KernelEmit *ke, const Range *r, const LLVMValueRef *lane);
int64_t range_slope(const Kernel *k, const Range *r, int axis);

#endif
