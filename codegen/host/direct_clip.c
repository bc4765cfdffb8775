/* What a convolution's border leaves out.  Where a condition of X or of Y fails the product is zero: the panel of Y and
 * the box of X hold zeros there, which need not be multiplied.  Conditions are ranges of sums of axes.  If a summed
 * axis stands in one with axes that stand still while a block of C is made, fewer of its lanes are walked; if with the
 * axis along which the block runs, each lane has some of the block's rows.  Its constants are from `./dev bench conv`. */
#include "codegen/host/direct_internal.h"

static bool in_block(const Direct *d, int axis) {
    for (int i = 0; i < d->n_row_axes; i++)
        if (d->row_axis[i] == axis) return false;
    return tile_type_has(&d->rows, axis);
}

static int64_t slope_of(const Direct *d, const Range *r, int axis) { return range_slope(d->ke->k, r, axis); }

/* A range that a summed axis stands in, beside axes that stand still and perhaps `with`. */
static bool limits(const Direct *d, const Range *r, int axis, int with) {
    if (!slope_of(d, r, axis)) return false;
    for (int a = 0; a < d->ke->k->axes.n; a++) {
        const bool moves = in_block(d, a) || tile_type_has(&d->over, a) || a == d->inner_column;
        if (moves && a != axis && a != with && slope_of(d, r, a)) return false;
    }
    return true;
}

/* Range i of X's, then of Y's; NULL: no more. */
static const Range *range_of(const Direct *d, int i) {
    if (i < d->window.n_ranges) return &d->window.range[i];
    i -= d->window.n_ranges;
    return i < d->y_window.n_ranges ? &d->y_window.range[i] : NULL;
}

/* By how much the slack grows from one lane that is walked to the next. */
static int64_t walking_slope(const Direct *d, const Range *r, int axis) {
    const int64_t slope = slope_of(d, r, axis);
    return d->flipped[axis] ? -slope : slope;
}

/* The slack at the first lane that is walked. */
static LLVMValueRef first_slack(const Direct *d, const Range *r, int axis, LLVMValueRef *lane) {
    const Emit *e = d->ke->e;
    LLVMValueRef last = LLVMBuildSub(e->b, d->ke->hi[axis], emit_i64(e, 1), "");
    lane[axis] = d->flipped[axis] ? last : NULL;
    LLVMValueRef slack = range_slack(d->ke, r, lane);
    lane[axis] = NULL;
    return slack;
}

/* n / by, rounded up; at least 0 and at most `lanes`. */
static LLVMValueRef steps(const Emit *e, LLVMValueRef n, int64_t by, LLVMValueRef lanes) {
    LLVMValueRef least[2] = {n, emit_i64(e, 0)};
    LLVMValueRef up = LLVMBuildAdd(e->b, emit_intrinsic(e, "llvm.smax", 2, least), emit_i64(e, by - 1), "");
    LLVMValueRef most[2] = {LLVMBuildUDiv(e->b, up, emit_i64(e, by), ""), lanes};
    return emit_intrinsic(e, "llvm.smin", 2, most);
}

void direct_clip(const Direct *d, int axis, LLVMValueRef *lane, Level *l) {
    const Emit *e = d->ke->e;
    LLVMValueRef first = emit_i64(e, 0), end = l->lanes;
    bool any = false;
    if (d->window.pairs == axis + 1) return;
    const Range *r;
    for (int i = 0; (r = range_of(d, i)); i++) {
        if (!limits(d, r, axis, axis)) continue;
        const int64_t slope = walking_slope(d, r, axis);
        LLVMValueRef slack = first_slack(d, r, axis, lane);
        any = true;
        if (slope > 0) {
            LLVMValueRef both[2] = {first, steps(e, LLVMBuildNeg(e->b, slack, ""), slope, l->lanes)};
            first = emit_intrinsic(e, "llvm.smax", 2, both);
        } else {
            LLVMValueRef past = steps(e, LLVMBuildAdd(e->b, slack, emit_i64(e, 1), ""), -slope, l->lanes);
            LLVMValueRef both[2] = {end, past};
            end = emit_intrinsic(e, "llvm.smin", 2, both);
        }
    }
    if (!any) return;
    l->first = first;
    l->count = LLVMBuildSub(e->b, end, first, "");
}

/* ---- rows of taps ------------------------------------------------------------------------------------------------ */
/* Takes out rows whose slack is negative at a tap: it is slack + along * (at + row). */
static void cut_rows(int64_t slack, int64_t along, int64_t at, int64_t *first, int64_t *end) {
    while (*first < *end && slack + along * (at + *first) < 0) ++*first;
    while (*first < *end && slack + along * (at + *end - 1) < 0) --*end;
}

bool direct_tap_rows(const Direct *d, LLVMValueRef *lane, int64_t at, int rows, MicroTapRows *taps) {
    enum { ENTER = 20 }; /* rows of a step that a loop of its own costs each tap */
    const int run = d->c->axis[d->c->n - d->c->n_columns - 1], axis = direct_tap_axis(d);
    const int64_t n = axis < 0 ? 0 : all_lanes(d, axis);
    int64_t saved = 0;
    if (n == 0 || n > MICRO_TAP_ROWS || d->window.pairs == axis + 1 || d->block_axes != 1) return false;
    *taps = (MicroTapRows){.n = n};
    for (int t = 0; t < n; t++) taps->end[t] = rows;
    const Range *r;
    for (int i = 0; (r = range_of(d, i)); i++) {
        if (!limits(d, r, axis, run)) continue;
        LLVMValueRef slack = first_slack(d, r, axis, lane);
        const int64_t along = slope_of(d, r, run);
        if (!LLVMIsAConstantInt(slack) && along) continue;
        if (!LLVMIsAConstantInt(slack)) return false;
        for (int t = 0; t < n; t++)
            cut_rows(LLVMConstIntGetSExtValue(slack) + t * walking_slope(d, r, axis), along, at, &taps->first[t],
                     &taps->end[t]);
    }
    for (int t = 0; t < n; t++) saved += rows - (taps->end[t] - taps->first[t]);
    return saved * d->ke->k->axes.at[d->sum_axis[d->n_sums - 1]].step > ENTER * n;
}

/* ---- the share --------------------------------------------------------------------------------------------------- */
/* Of all values of the axes in it, those at which a range holds; 1 where that is not known. */
static double share_of(const Kernel *k, const Range *r) {
    enum { MOST = 1 << 16 };
    int64_t value[MAX_AXES] = {0}, all = 1, held = 0;
    if (r->bound->n) return 1;
    for (int t = 0; t < r->x->n; t++) {
        if (r->x->term[t].atom.kind != ATOM_AXIS) return 1;
        const Dim extent = k->axes.at[r->x->term[t].atom.id].extent;
        if (!dim_is_fixed(extent) || extent.bound < 1 || (all *= extent.bound) > MOST) return 1;
    }
    for (int64_t i = 0; i < all; i++) {
        int64_t x = r->x->c, rest = i;
        for (int t = 0; t < r->x->n; t++) {
            const int64_t extent = k->axes.at[r->x->term[t].atom.id].extent.bound;
            value[t] = rest % extent;
            rest /= extent;
            x += r->x->term[t].coef * value[t];
        }
        const int64_t c = r->bound->c;
        held += r->op == OP_LT ? x < c : r->op == OP_LE ? x <= c : r->op == OP_GT ? x > c : x >= c;
    }
    return (double)held / (double)all;
}

double direct_walked(const Direct *d) {
    const int run = d->c->axis[d->c->n - d->c->n_columns - 1];
    double share = 1;
    const Range *r;
    for (int i = 0; (r = range_of(d, i)); i++)
        for (int s = 0; s < d->n_sums; s++) {
            const bool taps = d->block_axes == 1 && d->sum_axis[s] == direct_tap_axis(d);
            if (limits(d, r, d->sum_axis[s], taps ? run : d->sum_axis[s])) share *= share_of(d->ke->k, r);
        }
    return share;
}
