/* Images whose pixels share cache sets, copied closer together, a strip of channels at a time.
 *
 * Where neighbours lie half a way of the innermost cache apart, or whole ways, a line is lost before its next use and
 * each use is one more strided read of the next cache.  A strip of several lines per pixel is read once, which is also
 * nearer to the order in which memory lies, and what the blocks read is this copy.  Places keep their coordinates:
 * those that do not exist are not copied, and no block reads them.  For sums in parts (a kernel's gradient) and strided
 * rows; blocks of neighbouring windows read the image in place (channel_sets_conflict).  Its constants are from `./dev
 * bench conv`. */
#include "codegen/schedule/channel.h"

enum { LEAST_LINES = 4, MOST_LINES = 8 };

Places channel_places(const ChannelPlan *d, int s) {
    Places p;
    const BlockRange row = {.size = (int)step_of(d, d->side[s].row)}, tap = {.size = (int)step_of(d, d->side[s].tap)};
    MicroSide all = channel_block_side(d, s, row.size, tap.size);
    micro_places(&all, &p.first, &p.last);
    channel_know_places(d, s, &row, &tap, &all);
    if (p.first < all.may) p.first = all.may;
    if (p.last >= all.may_end) p.last = all.may_end - 1;
    return p;
}

/* The tile has whole sides. */
static bool has_sides(const ChannelPlan *d) {
    for (int s = 0; s < SIDES; s++) {
        const Side *side = &d->side[s];
        if (side->subscript < 0 || !single_tile(d, side->row) || !single_tile(d, side->tap)) return false;
        const Places p = channel_places(d, s);
        if (p.last < p.first) return false;
    }
    return d->x_stays && !in_groups(d);
}

static int64_t all_places(const ChannelPlan *d) {
    int64_t n = 1;
    for (int s = 0; s < SIDES; s++) {
        const Places p = channel_places(d, s);
        n *= p.last - p.first + 1;
    }
    return n;
}

/* Places are read more than once. */
static bool worth_it(const ChannelPlan *d) {
    double reads = 1;
    for (int s = 0; s < SIDES; s++) reads *= (double)(step_of(d, d->side[s].row) * step_of(d, d->side[s].tap));
    return reads >= 4 * (double)all_places(d);
}

bool channel_strip_fits(const ChannelPlan *d, int64_t strip) {
    const bool whole =
        strip > 0 && step_of(d, d->v) % strip == 0 && strip % MICRO_LINE == 0 && strip % d->at->machine->vector == 0;
    return whole && has_sides(d) && 4 * all_places(d) * strip <= d->at->machine->l1;
}

int64_t channel_choose_strip(const ChannelPlan *d) {
    if (!channel_sets_conflict(d) || !has_sides(d) || !worth_it(d)) return 0;
    for (int64_t strip = MOST_LINES * MICRO_LINE; strip >= LEAST_LINES * MICRO_LINE; strip -= MICRO_LINE)
        if (channel_strip_fits(d, strip)) return strip;
    return 0;
}
