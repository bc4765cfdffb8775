/* Code of a window (codegen/schedule/window.h): where its lanes lie, in the buffer or in a packed box. */
#ifndef FUSEC_CODEGEN_HOST_WINDOW_PACK_H
#define FUSEC_CODEGEN_HOST_WINDOW_PACK_H
#include "codegen/host/nest.h"
#include "codegen/schedule/window.h"

/* Where lanes lie: the element of lanes `at` (relative to lo) is origin + the sum of stride * lane. */
typedef struct WindowPlace {
    LLVMValueRef origin; /* pointer to the element of all first lanes */
    int64_t stride[MAX_AXES];
} WindowPlace;

/* The buffer itself: ranges are the caller's. */
WindowPlace window_in_place(KernelEmit *ke, const Window *w);
/* Appends code that packs the box of existing lanes, into memory of its own. */
WindowPlace window_pack(KernelEmit *ke, const Window *w);

/* Subscript d at these lanes (NULL: lane lo), and the range that it must lie in, [*lo, *end); NULL: no limit. */
LLVMValueRef window_subscript(KernelEmit *ke, const Window *w, int d, const LLVMValueRef *lane);
void window_limits(KernelEmit *ke, const Window *w, int d, LLVMValueRef *lo, LLVMValueRef *end);

/* How far inside the range these lanes are (NULL: lane lo): it holds where this is not negative.  It changes by
 * range_slope from a lane of an axis to the next. */
LLVMValueRef range_slack(KernelEmit *ke, const Range *r, const LLVMValueRef *lane);

#endif
