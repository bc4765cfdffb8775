/* What a convolution's border leaves out.  Where a condition of X or of Y fails the product is zero: the panel of Y and
 * the box of X hold zeros there, which need not be multiplied.  Conditions are ranges of sums of axes.  If a summed
 * axis stands in one with axes that stand still while a block of C is made, fewer of its lanes are walked; if with the
 * axis along which the block runs, each lane has some of the block's rows.  Its constants are from `./dev bench conv`.
 */
#include "codegen/host/direct.h"

/* By how much the slack grows from one lane that is walked to the next. */
static int64_t walking_slope(const Direct *d, const Range *r, int axis) {
    const int64_t slope = range_slope(d->ke->k, r, axis);
    return d->p->flipped[axis] ? -slope : slope;
}

/* The slack at the first lane that is walked. */
static LLVMValueRef first_slack(const Direct *d, const Range *r, int axis, LLVMValueRef *lane) {
    const Emit *e = d->ke->e;
    LLVMValueRef last = LLVMBuildSub(e->b, d->ke->hi[axis], emit_i64(e, 1), "");
    lane[axis] = d->p->flipped[axis] ? last : NULL;
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
    if (d->p->window.pairs == axis + 1) return;
    const Range *r;
    for (int i = 0; (r = direct_range(d->p, i)); i++) {
        if (!direct_limits(d->p, r, axis, axis)) continue;
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
    const int run = d->p->c->axis[d->p->c->n - d->p->c->n_columns - 1], axis = direct_tap_axis(d->p);
    const int64_t n = axis < 0 ? 0 : all_lanes(d->p, axis);
    int64_t saved = 0;
    if (n == 0 || n > MICRO_TAP_ROWS || d->p->window.pairs == axis + 1 || d->p->block_axes != 1) return false;
    *taps = (MicroTapRows){.n = n};
    for (int t = 0; t < n; t++) taps->end[t] = rows;
    const Range *r;
    for (int i = 0; (r = direct_range(d->p, i)); i++) {
        if (!direct_limits(d->p, r, axis, run)) continue;
        LLVMValueRef slack = first_slack(d, r, axis, lane);
        const int64_t along = range_slope(d->ke->k, r, run);
        if (!LLVMIsAConstantInt(slack) && along) continue;
        if (!LLVMIsAConstantInt(slack)) return false;
        for (int t = 0; t < n; t++)
            cut_rows(LLVMConstIntGetSExtValue(slack) + t * walking_slope(d, r, axis), along, at, &taps->first[t],
                     &taps->end[t]);
    }
    for (int t = 0; t < n; t++) saved += rows - (taps->end[t] - taps->first[t]);
    return saved * d->ke->k->axes.at[d->p->sum_axis[d->p->n_sums - 1]].step > ENTER * n;
}
