/* Blocks of a product channel by channel: how large they are, and which of their places exist. */
#include "codegen/schedule/channel.h"
#include <stdlib.h>

enum { MOST_UNROLLED = 8 }; /* taps along one side */

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
MicroSide channel_block_side(const ChannelPlan *d, int s, int rows, int taps) {
    const Side *side = &d->side[s];
    if (side->subscript < 0) return (MicroSide){.rows = 1, .taps = 1, .row = 1, .tap = 1, .sure_end = 1, .may_end = 1};
    const int64_t *coef = d->window.coef[side->subscript];
    return (MicroSide){.rows = rows, .taps = taps, .row = coef[side->row], .tap = coef[side->tap]};
}

/* Elements of the image from one tap to the next along the inner side; 0: it is not read in place. */
static int64_t inner_pitch(const ChannelPlan *d) {
    const Side *inner = &d->side[INNER];
    int64_t pitch;
    if (!d->x_stays || inner->subscript < 0) return 0;
    return access_affine(d->at->k, d->window.load, inner->tap, &pitch) ? pitch : 0;
}

/* Some rows are more than one place apart: windows share less of the image. */
static bool rows_apart(const ChannelPlan *d) {
    for (int s = 0; s < SIDES; s++) {
        const Side *side = &d->side[s];
        if (side->subscript >= 0 && llabs(d->window.coef[side->subscript][side->row]) > 1) return true;
    }
    return false;
}

/* A line is lost before the next block reads it, and the next cache has neighbours of the image in so few banks that
 * lines come one after another.  Where blocks make all their sums of neighbouring windows that costs less than a copy
 * or narrow blocks of two vectors do: the image and the results are walked in the order of memory, which is its fastest
 * (depthwise shapes of `./dev bench conv`). */
bool channel_sets_conflict(const ChannelPlan *d) {
    return !in_groups(d) && in_few_sets(d->at->machine, 4 * inner_pitch(d)) && (!d->fresh || rows_apart(d));
}

/* More than a core's part of the outermost cache: it comes from memory. */
bool channel_from_afar(const ChannelPlan *d, const Window *w) {
    const Buffer *b = &d->at->k->buffers.at[w->load->buffer];
    int64_t last = 0;
    for (int i = 0; i < b->rank; i++) last += (b->dim[i].bound - 1) * b->stride[i];
    return 4 * last >= d->at->machine->l3;
}

/* The sums of a kernel's gradient walk an image in memory whose pixels are several lines, a line of each. */
static bool streams(const ChannelPlan *d) {
    return !in_groups(d) && !d->fresh && inner_pitch(d) >= 2 * MICRO_LINE && channel_from_afar(d, &d->window);
}

/* Places that all blocks along a side read, in parts of nearly one size. */
static double side_reads(const ChannelPlan *d, int s, int rows, int taps) {
    const int64_t n[2] = {step_of(d, d->side[s].row), step_of(d, d->side[s].tap)};
    const int64_t parts[2] = {channel_blocks(n[0], rows), channel_blocks(n[1], taps)};
    double sum = 0;
    for (int i = 0; i < 4; i++) { /* blocks of the two sizes */
        const int64_t greater[2] = {n[0] % parts[0], n[1] % parts[1]};
        const int64_t of_rows = i & 1 ? greater[0] : parts[0] - greater[0];
        const int64_t of_taps = i & 2 ? greater[1] : parts[1] - greater[1];
        if (of_rows * of_taps == 0) continue;
        const MicroSide c =
            channel_block_side(d, s, (int)(n[0] / parts[0]) + (i & 1), (int)(n[1] / parts[1]) + (i >> 1));
        sum += (double)(of_rows * of_taps) * (double)micro_reads(&c);
    }
    return sum;
}

/* Cycles of all blocks where lines of the image are what takes time (`./dev bench conv`): in conflict, they come from
 * the next cache, two vectors' side by side from two banks; streamed, from memory, two side by side for one request and
 * more for each row of pixels that begins.  Beside them, where rows do not begin from zero, the factors of all taps and
 * the rows. */
static double fetch_cost(const ChannelPlan *d, int rows0, int rows1, int taps0, int taps1, int wide) {
    const Side *a = &d->side[OUTER], *b = &d->side[INNER];
    const int64_t across = channel_blocks(step_of(d, b->row), rows1) * channel_blocks(step_of(d, b->tap), taps1),
                  by_rows = channel_blocks(step_of(d, a->row), rows0) * channel_blocks(step_of(d, b->row), rows1),
                  by_taps = channel_blocks(step_of(d, a->tap), taps0) * channel_blocks(step_of(d, b->tap), taps1);
    const double begun = side_reads(d, OUTER, rows0, taps0) * (double)across,
                 reads = side_reads(d, OUTER, rows0, taps0) * side_reads(d, INNER, rows1, taps1),
                 factors = (double)(step_of(d, a->tap) * step_of(d, b->tap) * by_rows),
                 kept = (double)(step_of(d, a->row) * step_of(d, b->row) * by_taps);
    const double line = d->streamed ? (wide > 1 ? 4.3 : 9) : (wide > 1 ? 2.2 : 4);
    return line * reads + (d->streamed ? 12 * begun : 0) + (d->fresh ? 0 : line * factors + kept / 2);
}

/* Cycles of all blocks: multiply-adds or loads, two a cycle, each waiting for the one before it on its row; a part of
 * the loads misses the innermost cache; C is loaded and stored; and a little for each block. */
static double cost_of(const ChannelPlan *d, int rows0, int rows1, int taps0, int taps1) {
    const MicroSide a = channel_block_side(d, OUTER, rows0, taps0), b = channel_block_side(d, INNER, rows1, taps1);
    const double products = (double)rows0 * rows1 * taps0 * taps1, chain = 4.0 * taps0 * taps1;
    const double reads = (double)micro_reads(&a) * (double)micro_reads(&b) * (in_groups(d) ? 2 : 1); /* and moves */
    const double loads = reads + (double)taps0 * taps1;
    double most = products > loads ? products / 2 : loads / 2;
    if (chain > most) most = chain;
    const int64_t n =
        channel_blocks(step_of(d, d->side[OUTER].row), rows0) * channel_blocks(step_of(d, d->side[INNER].row), rows1) *
        channel_blocks(step_of(d, d->side[OUTER].tap), taps0) * channel_blocks(step_of(d, d->side[INNER].tap), taps1);
    return (double)n * (most + loads / 4 + (d->fresh ? 1.0 : 2.0) * rows0 * rows1 + 4);
}

static int at_most(int64_t n, int most) { return n < most ? (int)n : most; }

/* Of two vectors, two factors may lie in memory. */
static bool block_fits(const ChannelPlan *d, int rows, int taps, int wide) {
    return wide * (rows + taps) + 2 <= d->at->machine->registers + (wide > 1 ? 2 : 0) && rows <= MICRO_ROWS &&
           taps <= MICRO_TAPS && rows * taps <= MICRO_TERMS &&
           (!d->q_summed || rows * taps * d->depth <= 2 * MICRO_TERMS);
}

/* To begin from zero, a block makes all its sums: inner taps are unrolled, outer ones too or a loop. */
static bool taps_fit(const ChannelPlan *d, int outer, int inner) {
    if (!d->fresh) return true;
    return (outer == 1 || outer == step_of(d, d->side[OUTER].tap)) && inner == step_of(d, d->side[INNER].tap);
}

static bool allowed(int given, int n) { return given == 0 || given == n; }

static void try_rows(ChannelPlan *d, HostSchedule *of, int outer_taps, int inner_taps, int wide, double *best) {
    const int outer = at_most(step_of(d, d->side[OUTER].row), MICRO_ROWS),
              inner = at_most(step_of(d, d->side[INNER].row), MICRO_ROWS);
    for (int a = 1; a <= outer; a++)
        for (int b = 1; b <= inner; b++) {
            const bool least = a * b * outer_taps * inner_taps == 1 && *best == 0;
            if (!allowed(of->rows[0], a) || !allowed(of->rows[1], b)) continue;
            if (!least && !block_fits(d, a * b, outer_taps * inner_taps, wide)) continue;
            const double cost = d->sets_conflict || d->streamed ? fetch_cost(d, a, b, outer_taps, inner_taps, wide)
                                                                : cost_of(d, a, b, outer_taps, inner_taps);
            if (*best > 0 && cost >= *best) continue;
            *best = cost;
            d->wide = wide;
            d->side[OUTER].rows = a, d->side[OUTER].taps = outer_taps;
            d->side[INNER].rows = b, d->side[INNER].taps = inner_taps;
        }
}

/* false: C cannot begin from zero, or blocks cannot be as `of` says. */
bool channel_choose_block(ChannelPlan *d, HostSchedule *of) {
    const int outer = at_most(step_of(d, d->side[OUTER].tap), MOST_UNROLLED),
              inner = at_most(step_of(d, d->side[INNER].tap), MOST_UNROLLED);
    const int lanes = d->at->machine->vector, narrow = d->width > lanes ? d->width / lanes : 1;
    d->sets_conflict = !d->strip && channel_sets_conflict(d); /* a copy is not */
    d->streamed = !d->strip && streams(d);
    const bool wider = d->sets_conflict || d->streamed || of->columns, fits = 2 * lanes <= MICRO_LANES;
    const bool pairs =
        wider && fits && !in_groups(d) && lanes >= MICRO_LINE && step_of(d, d->v) % (2 * (int64_t)lanes) == 0;
    double best = 0;
    for (int a = 1; a <= outer; a++)
        for (int b = 1; b <= inner; b++)
            for (int wide = narrow; wide <= narrow + pairs && taps_fit(d, a, b); wide++)
                if (allowed(of->taps[0], a) && allowed(of->taps[1], b) && allowed(of->columns, wide * lanes))
                    try_rows(d, of, a, b, wide, &best);
    if (best == 0) return false;
    for (int s = 0; s < SIDES; s++) of->rows[s] = d->side[s].rows, of->taps[s] = d->side[s].taps;
    of->columns = d->wide * lanes;
    return true;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */
typedef struct Interval {
    int64_t lo, hi;
    bool known;
} Interval;

static void widen(Interval *i, int64_t coef, int64_t lo, int64_t hi) {
    i->lo += coef < 0 ? coef * hi : coef * lo;
    i->hi += coef < 0 ? coef * lo : coef * hi;
}

/* The subscript of a side at the first row and tap of the parts' blocks. */
static Interval subscript_interval(const ChannelPlan *d, int s, const BlockRange *row, const BlockRange *tap) {
    const Kernel *k = d->at->k;
    const Side *side = &d->side[s];
    const Index *x = d->window.subscript[side->subscript];
    Interval in = {x->c, x->c, true};
    for (int t = 0; t < x->n; t++) {
        const int axis = x->term[t].atom.id;
        if (x->term[t].atom.kind != ATOM_AXIS || !dim_is_fixed(k->axes.at[axis].extent)) return (Interval){0, 0, false};
        const int64_t extent = k->axes.at[axis].extent.bound;
        const bool one_tile = extent <= k->axes.at[axis].step, block = axis == side->row || axis == side->tap;
        const BlockRange *part = axis == side->row ? row : tap;
        if (!block || !one_tile) widen(&in, x->term[t].coef, 0, extent - 1);
        if (block) widen(&in, x->term[t].coef, part->first, part->last);
    }
    return in;
}

/* What is known of the places of a block: relative to its first row and tap. */
void channel_know_places(const ChannelPlan *d, int s, const BlockRange *row, const BlockRange *tap, MicroSide *c) {
    enum { FAR = 1 << 30 };
    c->sure = c->may = -FAR;
    c->sure_end = c->may_end = FAR;
    if (d->side[s].subscript < 0 || !d->x_stays) return;
    const Interval in = subscript_interval(d, s, row, tap);
    const WindowLimits l = window_known_limits(&d->window, d->side[s].subscript);
    const bool lo = in.known && l.known[0], end = in.known && l.known[1];
    if (l.any[0]) c->sure = lo ? l.at[0] - in.lo : FAR;
    if (l.any[0] && lo) c->may = l.at[0] - in.hi;
    if (l.any[1]) c->sure_end = end ? l.at[1] - in.hi : -FAR;
    if (l.any[1] && end) c->may_end = l.at[1] - in.lo;
}

bool channel_all_sure(const ChannelPlan *d, int s, const BlockRange *row, const BlockRange *tap) {
    int64_t first, last;
    MicroSide c = channel_block_side(d, s, row->size, tap->size);
    channel_know_places(d, s, row, tap, &c);
    micro_places(&c, &first, &last);
    return c.sure <= first && last < c.sure_end;
}
