/* A product channel by channel under construction, shared by channelwise.c (loops), channel_parts.c (the parts of an axis that
 * blocks make up) and channel_stage.c (the copy of an image with cache-set conflicts); codegen/schedule/channel.c says what it
 * is. */
#ifndef FUSEC_CODEGEN_HOST_CHANNEL_H
#define FUSEC_CODEGEN_HOST_CHANNEL_H
#include "codegen/host/kernel.h"
#include "codegen/host/micro.h"
#include "codegen/host/window_pack.h"
#include "codegen/schedule/channel.h"

enum { MOST_PARTS = 12 };

/* Blocks that follow one another, and where lanes of them begin and end. */
typedef struct Part {
    LLVMValueRef start, end;
    BlockRange of;
} Part;

/* Where elements of a factor or of C lie: lanes lo, and from one lane to the next. */
typedef struct Placed {
    LLVMValueRef origin;
    int64_t stride[MAX_AXES];
} Placed;

typedef struct Channelwise {
    KernelEmit *ke;
    const ChannelPlan *p;
    LLVMValueRef stage; /* the copy */
    WindowPlace x_place, y_place;
    Placed c_place;
    LLVMValueRef lane[MAX_AXES]; /* of the loops that are open */
} Channelwise;

/* ---- channel_parts.c ---- */
/* The rows, or the taps, of a side in at most MOST_PARTS parts; their number. */
int channel_parts(const Channelwise *d, int s, bool rows, Part *part);

/* ---- channel_stage.c ---- */
void channel_stage_begin(Channelwise *d); /* makes room for a strip */
/* Appends code that copies the strip at x, an element at the first rows and taps; where blocks find that element. */
LLVMValueRef channel_stage(Channelwise *d, LLVMValueRef x);
int64_t channel_x_stride(const Channelwise *d, int axis); /* of the factor that blocks read */

/* ---- channelwise.c ---- */
/* The places that exist along side s, [args[0], args[1]), relative to the first row and tap of the open loops. */
void channel_set_places(Channelwise *d, int s, LLVMValueRef *args);

static inline LLVMValueRef lanes_of(const Channelwise *d, int axis) {
    return axis < 0 ? emit_i64(d->ke->e, 1) : nest_lanes(d->ke, axis);
}

#endif
