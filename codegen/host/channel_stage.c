/* Images whose pixels share cache sets, copied closer together, a strip of channels at a time.
 *
 * Where neighbours lie half a way of the innermost cache apart, or whole ways, a line is lost before its next use and
 * each use is one more strided read of the next cache.  A strip of several lines per pixel is read once, which is also
 * nearer to the order in which memory lies, and what the blocks read is this copy.  Places keep their coordinates:
 * those that do not exist are not copied, and no block reads them.  For sums in parts (a kernel's gradient) and strided
 * rows; blocks of neighbouring windows read the image in place (channel_sets_conflict).  Its constants are from `./dev bench conv`. */
#include "codegen/host/channel_internal.h"
#include "codegen/host/counter.h"

enum { LEAST_LINES = 4, MOST_LINES = 8, STAGE_BYTES = 32 << 10 /* beside the other factor and C */ };

typedef struct Places {
    int64_t first, last;
} Places;

/* What all rows and taps of a side read, as far as it may exist. */
static Places places_of(const Channelwise *d, int s) {
    Places p;
    const Part row = {.size = (int)step_of(d, d->side[s].row)}, tap = {.size = (int)step_of(d, d->side[s].tap)};
    MicroSide all = channel_block_side(d, s, row.size, tap.size);
    micro_places(&all, &p.first, &p.last);
    channel_know_places(d, s, &row, &tap, &all);
    if (p.first < all.may) p.first = all.may;
    if (p.last >= all.may_end) p.last = all.may_end - 1;
    return p;
}

/* The tile has whole sides. */
static bool has_sides(const Channelwise *d) {
    for (int s = 0; s < SIDES; s++) {
        const Side *side = &d->side[s];
        if (side->subscript < 0 || !single_tile(d, side->row) || !single_tile(d, side->tap)) return false;
        const Places p = places_of(d, s);
        if (p.last < p.first) return false;
    }
    return d->x_stays && !in_groups(d);
}

static int64_t all_places(const Channelwise *d) {
    int64_t n = 1;
    for (int s = 0; s < SIDES; s++) {
        const Places p = places_of(d, s);
        n *= p.last - p.first + 1;
    }
    return n;
}

/* Places are read more than once. */
static bool worth_it(const Channelwise *d) {
    double reads = 1;
    for (int s = 0; s < SIDES; s++) reads *= (double)(step_of(d, d->side[s].row) * step_of(d, d->side[s].tap));
    return reads >= 4 * (double)all_places(d);
}

bool channel_strip_fits(const Channelwise *d, int64_t strip) {
    const bool whole = strip > 0 && step_of(d, d->v) % strip == 0 && strip % MICRO_LINE == 0 && strip % d->machine->vector == 0;
    return whole && has_sides(d) && 4 * all_places(d) * strip <= STAGE_BYTES;
}

int64_t channel_choose_strip(const Channelwise *d) {
    if (!channel_sets_conflict(d) || !has_sides(d) || !worth_it(d)) return 0;
    for (int64_t strip = MOST_LINES * MICRO_LINE; strip >= LEAST_LINES * MICRO_LINE; strip -= MICRO_LINE)
        if (channel_strip_fits(d, strip)) return strip;
    return 0;
}

/* ---- the copy ---------------------------------------------------------------------------------------------------- */
static int64_t stage_pitch(const Channelwise *d, int s) {
    const Places p = places_of(d, INNER);
    return s == INNER ? d->strip : d->strip * (p.last - p.first + 1);
}

static LLVMValueRef by(const Emit *e, LLVMValueRef i, int64_t pitch) {
    return LLVMBuildMul(e->b, i, emit_i64(e, pitch), "");
}

static void copy_strip(const Channelwise *d, LLVMValueRef to, LLVMValueRef from) {
    const Emit *e = d->ke->e;
    const int lanes = d->machine->vector;
    LLVMTypeRef vector = LLVMVectorType(e->f32, (unsigned)lanes);
    for (int i = 0; i < d->strip; i += lanes) {
        LLVMValueRef v = LLVMBuildLoad2(e->b, vector, emit_f32_at(e, from, emit_i64(e, i)), "");
        LLVMSetAlignment(v, 4);
        LLVMSetAlignment(LLVMBuildStore(e->b, v, emit_f32_at(e, to, emit_i64(e, i))), 4);
    }
}

/* Places along side s, of those that exist; to, from: of place 0 of this side and those within. */
static void copy_side(Channelwise *d, int s, LLVMValueRef to, LLVMValueRef from) {
    const Emit *e = d->ke->e;
    if (s == SIDES) {
        copy_strip(d, to, from);
        return;
    }
    const Places p = places_of(d, s);
    LLVMValueRef limit[2], first[2] = {emit_i64(e, p.first)}, end[2] = {emit_i64(e, p.last + 1)};
    channel_set_places(d, s, limit);
    first[1] = limit[0], end[1] = limit[1];
    HostCounter c =
        counter_open(d->ke, emit_intrinsic(e, "llvm.smax", 2, first), emit_intrinsic(e, "llvm.smin", 2, end), 1);
    copy_side(d, s + 1, emit_f32_at(e, to, by(e, c.i, stage_pitch(d, s))),
              emit_f32_at(e, from, by(e, c.i, d->window.pitch[d->side[s].subscript])));
    counter_close(d->ke, &c);
}

void channel_stage_begin(Channelwise *d) {
    const Places p = places_of(d, OUTER);
    const int64_t elements = stage_pitch(d, OUTER) * (p.last - p.first + 1);
    d->stage = nest_alloca(d->ke, d->ke->e->f32, elements);
}

LLVMValueRef channel_stage(Channelwise *d, LLVMValueRef x) {
    const Emit *e = d->ke->e;
    int64_t back = 0;
    for (int s = 0; s < SIDES; s++) back -= places_of(d, s).first * stage_pitch(d, s);
    LLVMValueRef at = emit_f32_at(e, d->stage, emit_i64(e, back));
    copy_side(d, 0, at, x);
    return at;
}

int64_t channel_x_stride(const Channelwise *d, int axis) {
    for (int s = 0; s < SIDES && d->strip; s++) {
        const Side *side = &d->side[s];
        if (axis == side->row || axis == side->tap) return d->window.coef[side->subscript][axis] * stage_pitch(d, s);
    }
    return d->x_place.stride[axis];
}
