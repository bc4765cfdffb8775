/* The inner function of products channel by channel: a block of C in registers, a vector of channels per element. */
#ifndef FUSEC_CODEGEN_HOST_CHANNEL_MICRO_H
#define FUSEC_CODEGEN_HOST_CHANNEL_MICRO_H
#include "codegen/llvm/emit.h"

enum { CHANNEL_LINE = 16 }; /* floats of a cache line */
enum { CHANNEL_MOST_LANES = 32 };
enum { CHANNEL_MOST_ROWS = 32, CHANNEL_MOST_TAPS = 24, CHANNEL_MOST_TERMS = 256 };

/* One direction of the window: rows of C and taps, both unrolled.  Row i at tap j reads place i * row + j * tap of X.
 * Places in [sure, sure_end) exist, those outside [may, may_end) do not; the others are looked at when it runs. */
typedef struct ChannelSide {
    int rows, taps;
    int64_t row, tap;
    int64_t x_row, x_tap, c_row, y_tap; /* elements */
    int64_t sure, sure_end, may, may_end;
} ChannelSide;

/* Lanes are the `width` results of groups one after another, whose elements of X are `depth` neighbours: lane i is
 * multiplied with element i / width * depth + n, for n from first to first + count - 1, summed; Y lies y_step further
 * for each n. */
typedef struct ChannelGroups {
    int width, depth, first, count; /* all 1, first 0: depthwise */
    int64_t y_step;
} ChannelGroups;

typedef struct ChannelShape {
    ChannelSide side[2]; /* outer, inner */
    ChannelGroups groups;
    int lanes;
    bool fresh;                         /* C counts as zero, whatever it holds */
    bool loops;                         /* else count is 1 */
    int64_t x_step, y_step, place_step; /* of the loop; places: of the outer side */
    int64_t x_ahead, y_ahead;           /* so far behind each element is one that is needed soon; 0: no one knows */
    int64_t x_run, y_run; /* elements from one place of the inner side to the next, where those are all the channels
                             that are walked in turn, and come from memory; 0: not so */
    int64_t shift[2]; /* with x_run, places from a block to the next along each side, which reads the others again */
} ChannelShape;

/* void (x, y, c, count, lo, hi, lo, hi[, channel]): c += the sum over count and taps of x * y, by vectors.  x, y, c: of
 * the first row at the first tap.  Per side: the places that exist, [lo, hi), in the first round.  Only with runs:
 * the number of the channel that x, y and c are of.  One function per shape and module. */
enum {
    CHANNEL_X,
    CHANNEL_Y,
    CHANNEL_C,
    CHANNEL_COUNT,
    CHANNEL_PLACES,
    CHANNEL_FIRST = CHANNEL_PLACES + 4,
    CHANNEL_ARGS
};
LLVMValueRef channel_product(const Emit *e, ChannelShape s);
int channel_args(const ChannelShape *s); /* how many it takes */

/* Places that a block reads lie from *first to *last. */
void channel_places(const ChannelSide *s, int64_t *first, int64_t *last);
int64_t channel_reads(const ChannelSide *s); /* their number */

#endif
