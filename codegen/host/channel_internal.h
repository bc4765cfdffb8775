/* A product channel by channel under construction, shared by channelwise.c (roles, loops), channel_block.c (blocks and
 * the parts of an axis that they make up) and channel_stage.c (the copy of an image with cache-set conflicts). */
#ifndef FUSEC_CODEGEN_HOST_CHANNEL_INTERNAL_H
#define FUSEC_CODEGEN_HOST_CHANNEL_INTERNAL_H
#include "codegen/host/micro.h"
#include "codegen/host/forms.h"
#include "codegen/host/window.h"

enum { OUTER, INNER, SIDES, MOST_PARTS = 12 };
enum { MOST_DEPTH = 4 }; /* elements of X for each result of a group: so many vectors of X are read for one of C */

/* A subscript of the window in which a row axis and a summed axis meet; all -1: there is none. */
typedef struct Side {
    int subscript, row, tap;
    int rows, taps; /* of a block */
} Side;

/* Blocks of `size` lanes that start at lanes first to last. */
typedef struct Part {
    LLVMValueRef start, end;
    int64_t first, last;
    int size;
} Part;

/* Where elements of a factor or of C lie: lanes lo, and from one lane to the next. */
typedef struct Placed {
    LLVMValueRef origin;
    int64_t stride[MAX_AXES];
} Placed;

typedef struct Channelwise {
    KernelEmit *ke;
    const Inst *dot;
    const HostMachine *machine;
    const Storage *c;
    int v, x, y; /* the axis of groups, of one channel where these are depthwise; values */
    int f, q;    /* axes within a group: results, the last of C; what is read of X; -1: one */
    int width, depth; /* how many results and elements of X a group has */
    bool q_summed;    /* else q is a row */
    TileType rows, over; /* rows and sums, without q */
    Window window, y_window;
    bool x_stays, y_stays; /* the factor is read in place, not packed */
    Side side[SIDES];
    bool sets_conflict, streamed;        /* the image: in few sets of its caches; from memory */
    int wide;                       /* vectors of channels in a block */
    int64_t strip;                  /* channels of the image that are copied together; 0: blocks read it in place */
    LLVMValueRef stage;             /* the copy */
    int n_rows, row[MAX_TILE_AXES]; /* row axes and summed ones outside a block, outermost first */
    int n_sums, sum[MAX_TILE_AXES];
    WindowPlace x_place, y_place;
    Placed c_place;
    bool fresh;
    LLVMValueRef lane[MAX_AXES]; /* of the loops that are open */
} Channelwise;

/* ---- channel_block.c ---- */
bool channel_sets_conflict(const Channelwise *d);
bool channel_from_afar(const Channelwise *d, const Window *w); /* what the window reads comes from memory */
/* Sets rows and taps of the sides, and wide, and fills the schedule; false: there are none as it says, or d->fresh and C
 * cannot begin from zero. */
bool channel_choose_block(Channelwise *d, HostSchedule *s);
/* `rows` by `taps` along side s: coefficients; no strides, no places. */
MicroSide channel_block_side(const Channelwise *d, int s, int rows, int taps);
/* What is known of the places of a block: relative to its first row and tap. */
void channel_know_places(const Channelwise *d, int s, const Part *row, const Part *tap, MicroSide *c);
/* The rows, or the taps, of a side in at most MOST_PARTS parts; their number. */
int channel_parts(const Channelwise *d, int s, bool rows, Part *part);

/* ---- channel_stage.c ---- */
int64_t channel_choose_strip(const Channelwise *d); /* 0: none is worth while */
bool channel_strip_fits(const Channelwise *d, int64_t strip);
void channel_stage_begin(Channelwise *d); /* makes room for a strip */
/* Appends code that copies the strip at x, an element at the first rows and taps; where blocks find that element. */
LLVMValueRef channel_stage(Channelwise *d, LLVMValueRef x);
int64_t channel_x_stride(const Channelwise *d, int axis); /* of the factor that blocks read */

/* ---- channelwise.c ---- */
/* The places that exist along side s, [args[0], args[1]), relative to the first row and tap of the open loops. */
void channel_set_places(Channelwise *d, int s, LLVMValueRef *args);

static inline int64_t step_of(const Channelwise *d, int axis) { return axis < 0 ? 1 : d->ke->k->axes.at[axis].step; }

static inline LLVMValueRef lanes_of(const Channelwise *d, int axis) {
    if (axis < 0) return emit_i64(d->ke->e, 1);
    return LLVMBuildSub(d->ke->e->b, d->ke->hi[axis], d->ke->lo[axis], "");
}

/* Results of all groups of a tile: lanes. */
static inline int64_t channels_of(const Channelwise *d) { return step_of(d, d->v) * d->width; }

static inline bool in_groups(const Channelwise *d) { return d->f >= 0 || d->q >= 0; }

static inline bool single_tile(const Channelwise *d, int axis) {
    const Axis *x = &d->ke->k->axes.at[axis];
    return dim_is_fixed(x->extent) && x->extent.bound <= x->step;
}

#endif
