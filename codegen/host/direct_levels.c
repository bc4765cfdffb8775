#include "codegen/host/counter.h"
#include "codegen/host/direct_internal.h"

static bool in_block(const Direct *d, int axis) {
    for (int i = 0; i < d->n_row_axes; i++)
        if (d->row_axis[i] == axis) return false;
    return tile_type_has(&d->rows, axis);
}

/* The subscript of X whose conditions say which lanes of a summed axis a block needs: its other axes stand still while
 * the block is made.  -1: none. */
static int clipping_subscript(const Direct *d, int axis) {
    for (int s = 0; s < d->window.rank; s++) {
        bool still = d->window.coef[s][axis] != 0, limited = false;
        for (int r = 0; r < d->window.n_ranges; r++)
            limited |= index_equal(d->window.range[r].x, d->window.subscript[s]);
        for (int a = 0; a < d->ke->k->axes.n && still; a++)
            still = !d->window.coef[s][a] || a == axis || !(in_block(d, a) || tile_type_has(&d->over, a));
        if (still && limited && d->flipped[axis] == (d->window.coef[s][axis] < 0)) return s;
    }
    return -1;
}

/* Lanes [0, lanes) of which step `by` apart from `start` reach `limit`: the first of them that does. */
static LLVMValueRef first_past(const Emit *e, LLVMValueRef start, LLVMValueRef limit, int64_t by, LLVMValueRef lanes) {
    LLVMValueRef far[2] = {LLVMBuildSub(e->b, limit, start, ""), emit_i64(e, 0)};
    LLVMValueRef up = LLVMBuildAdd(e->b, emit_intrinsic(e, "llvm.smax", 2, far), emit_i64(e, by - 1), "");
    LLVMValueRef least[2] = {LLVMBuildUDiv(e->b, up, emit_i64(e, by), ""), lanes};
    return emit_intrinsic(e, "llvm.smin", 2, least);
}

/* Leaves out lanes that read only zeros beyond the border. */
static void clip(const Direct *d, int axis, int subscript, LLVMValueRef *lane, Level *l) {
    const Emit *e = d->ke->e;
    LLVMValueRef lo, end, last = LLVMBuildSub(e->b, l->lanes, emit_i64(e, 1), "");
    const int64_t by = magnitude(d->window.coef[subscript][axis]);
    lane[axis] = d->window.coef[subscript][axis] < 0 ? LLVMBuildAdd(e->b, d->ke->lo[axis], last, "") : NULL;
    LLVMValueRef start = window_subscript(d->ke, &d->window, subscript, lane);
    lane[axis] = NULL;
    window_limits(d->ke, &d->window, subscript, &lo, &end);
    l->first = lo ? first_past(e, start, lo, by, l->lanes) : emit_i64(e, 0);
    LLVMValueRef after = end ? first_past(e, start, end, by, l->lanes) : l->lanes;
    l->count = LLVMBuildSub(e->b, after, l->first, "");
}

int direct_levels(const Direct *d, LLVMValueRef *lane, Level *level) {
    int n = 0;
    for (int i = d->n_inner - 1; i >= 0; i--) {
        const int axis = d->inner_axis[i], subscript = n > 0 ? clipping_subscript(d, axis) : -1;
        LLVMValueRef lanes = units_of(d, axis);
        Level l = {magnitude(d->place.stride[axis]), lanes, NULL, lanes, whole_lanes(d, axis)};
        Level *last = n ? &level[n - 1] : NULL;
        if (subscript >= 0) clip(d, axis, subscript, lane, &l);
        if (last && !last->first && !l.first && last->whole && l.stride == last->stride * last->whole) {
            last->count = last->lanes = LLVMBuildMul(d->ke->e->b, last->count, l.count, "");
            last->whole *= l.whole;
        } else {
            level[n++] = l;
        }
    }
    return n;
}

/* k of the panel from one lane of level n to the next. */
static LLVMValueRef level_pitch(const Direct *d, const Level *level, int n) {
    LLVMValueRef pitch = level[0].lanes;
    for (int i = 1; i < n; i++) pitch = LLVMBuildMul(d->ke->e->b, pitch, level[i].lanes, "");
    return pitch;
}

/* To the first lane that is walked. */
static Cursor enter_level(const Direct *d, const Level *level, int n, Cursor at, DirectShape shape) {
    const Emit *e = d->ke->e;
    if (!level[n].first) return at;
    LLVMValueRef k = LLVMBuildMul(e->b, level[n].first, level_pitch(d, level, n), "");
    at.x = element_at(e, at.x, plus(d, emit_i64(e, 0), level[n].first, level[n].stride));
    at.y = element_at(e, at.y, plus(d, emit_i64(e, 0), k, shape.vectors * shape.lanes));
    return at;
}

void direct_multiply(const Direct *d, const Level *level, int n, Cursor at, DirectShape shape) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (n > 1) at = enter_level(d, level, n - 1, at, shape);
    if (n <= 2) {
        LLVMValueRef one = emit_i64(e, 1), count = n > 0 ? level[0].count : one, outer = n > 1 ? level[1].count : one;
        shape.x_step = n > 0 ? level[0].stride : 1;
        LLVMValueRef args[] = {at.x, at.y, at.c, count, outer, emit_i64(e, n > 1 ? level[1].stride : 0)};
        HostBranch b = {0};
        const bool clipped = n > 1 && level[1].first;
        if (clipped) b = branch_open(ke, LLVMBuildICmp(e->b, LLVMIntSGT, outer, emit_i64(e, 0), ""));
        emit_call(e, direct_product(e, shape), sizeof args / sizeof *args, args);
        if (clipped) branch_close(ke, &b);
        return;
    }
    LLVMValueRef inner = level_pitch(d, level, n - 1);
    HostCounter c = counter_open(ke, emit_i64(e, 0), level[n - 1].count, 1);
    Cursor next = at;
    next.x = element_at(e, at.x, plus(d, emit_i64(e, 0), c.i, level[n - 1].stride));
    next.y =
        element_at(e, at.y, plus(d, emit_i64(e, 0), LLVMBuildMul(e->b, c.i, inner, ""), shape.vectors * shape.lanes));
    direct_multiply(d, level, n - 1, next, shape);
    counter_close(ke, &c);
}
