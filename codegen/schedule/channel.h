/* A product channel by channel as it is planned, by channel.c (roles, factors), channel_block.c (blocks) and channel_strip.c (an
 * image with cache-set conflicts); codegen/host/channelwise.c emits it. */
#ifndef FUSEC_CODEGEN_SCHEDULE_CHANNEL_H
#define FUSEC_CODEGEN_SCHEDULE_CHANNEL_H
#include "codegen/schedule/forms.h"
#include "codegen/schedule/micro_side.h"
#include "codegen/schedule/window.h"

enum { OUTER, INNER, SIDES };
enum { MOST_DEPTH = 4 }; /* elements of X for each result of a group: so many vectors of X are read for one of C */

/* A subscript of the window in which a row axis and a summed axis meet; all -1: there is none. */
typedef struct Side {
    int subscript, row, tap;
    int rows, taps; /* of a block */
} Side;

/* Blocks of `size` lanes that start at lanes first to last. */
typedef struct BlockRange {
    int64_t first, last;
    int size;
} BlockRange;

typedef struct ChannelPlan {
    const HostPlan *at;
    const Inst *dot;
    const Storage *c;
    int v, x, y; /* the axis of groups, of one channel where these are depthwise; values */
    int f, q;    /* axes within a group: results, the last of C; what is read of X; -1: one */
    int width, depth; /* how many results and elements of X a group has */
    bool q_summed;    /* else q is a row */
    TileType rows, over; /* rows and sums, without q */
    Window window, y_window;
    bool x_stays, y_stays; /* the factor is read in place, not packed */
    Side side[SIDES];
    bool sets_conflict, streamed;   /* the image: in few sets of its caches; from memory */
    int wide;                       /* vectors of channels in a block */
    int64_t strip;                  /* channels of the image that are copied together; 0: blocks read it in place */
    int n_rows, row[MAX_TILE_AXES]; /* row axes and summed ones outside a block, outermost first */
    int n_sums, sum[MAX_TILE_AXES];
    bool fresh;
} ChannelPlan;

/* ---- channel.c ---- */
int64_t channel_y_elements(const ChannelPlan *d); /* of the packed factor */

/* ---- channel_block.c ---- */
bool channel_sets_conflict(const ChannelPlan *d);
bool channel_from_afar(const ChannelPlan *d, const Window *w); /* what the window reads comes from memory */
/* Sets rows and taps of the sides, and wide, and fills the schedule; false: there are none as it says, or d->fresh and C
 * cannot begin from zero. */
bool channel_choose_block(ChannelPlan *d, HostSchedule *s);
/* `rows` by `taps` along side s: coefficients; no strides, no places. */
MicroSide channel_block_side(const ChannelPlan *d, int s, int rows, int taps);
/* What is known of the places of a block: relative to its first row and tap. */
void channel_know_places(const ChannelPlan *d, int s, const BlockRange *row, const BlockRange *tap, MicroSide *c);
/* All of them exist. */
bool channel_all_sure(const ChannelPlan *d, int s, const BlockRange *row, const BlockRange *tap);

/* ---- channel_strip.c ---- */
typedef struct Places {
    int64_t first, last;
} Places;
/* What all rows and taps of a side read, as far as it may exist. */
Places channel_places(const ChannelPlan *d, int s);
int64_t channel_choose_strip(const ChannelPlan *d); /* 0: none is worth while */
bool channel_strip_fits(const ChannelPlan *d, int64_t strip);

/* How many blocks of at most `size` there are. */
static inline int64_t channel_blocks(int64_t n, int64_t size) { return (n + size - 1) / size; }

static inline int64_t step_of(const ChannelPlan *d, int axis) { return axis < 0 ? 1 : d->at->k->axes.at[axis].step; }

/* Results of all groups of a tile: lanes. */
static inline int64_t channels_of(const ChannelPlan *d) { return step_of(d, d->v) * d->width; }

static inline bool in_groups(const ChannelPlan *d) { return d->f >= 0 || d->q >= 0; }

static inline bool single_tile(const ChannelPlan *d, int axis) {
    const Axis *x = &d->at->k->axes.at[axis];
    return dim_is_fixed(x->extent) && x->extent.bound <= x->step;
}

#endif
