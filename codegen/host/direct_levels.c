/* Sums of products through a window: the summed axes as levels. */
#include "codegen/host/counter.h"
#include "codegen/host/direct.h"

int direct_levels(const Direct *d, bool taps, LLVMValueRef *lane, Level *level) {
    int n = 0;
    for (int i = d->p->n_sums - 1; i >= 0; i--) {
        const int axis = d->p->sum_axis[i];
        LLVMValueRef lanes = units_of(d, axis);
        Level l = {magnitude(d->p->x_stride[axis]),      lanes, NULL, lanes, whole_lanes(d, axis),
                   taps && axis == direct_tap_axis(d->p)};
        Level *last = n ? &level[n - 1] : NULL;
        if (!l.taps) direct_clip(d, axis, lane, &l);
        const bool plain = last && !last->first && !last->taps && !l.first && !l.taps;
        if (plain && last->whole && l.stride == last->stride * last->whole) {
            last->count = last->lanes = LLVMBuildMul(d->ke->e->b, last->count, l.count, "");
            last->whole *= l.whole;
        } else {
            level[n++] = l;
        }
    }
    return n;
}

/* Elements of the panel from one lane of level n to the next. */
static LLVMValueRef level_pitch(const Direct *d, const Level *level, int n, const MicroShape *shape) {
    LLVMValueRef pitch = emit_i64(d->ke->e, shape->vectors * shape->lanes);
    for (int i = 0; i < n; i++) pitch = LLVMBuildMul(d->ke->e->b, pitch, level[i].lanes, "");
    return pitch;
}

/* To the first lane that is walked. */
static Cursor enter_level(const Direct *d, const Level *level, int n, Cursor at, const MicroShape *shape) {
    const Emit *e = d->ke->e;
    if (!level[n].first) return at;
    at.x = emit_f32_at(e, at.x, plus(d, emit_i64(e, 0), level[n].first, level[n].stride));
    at.y = emit_f32_at(e, at.y, LLVMBuildMul(e->b, level[n].first, level_pitch(d, level, n, shape), ""));
    return at;
}

/* How often the outermost of n levels is walked: not at all if a clipped one has no lanes. */
static LLVMValueRef outer_count(const Direct *d, const Level *level, int n) {
    const Emit *e = d->ke->e;
    LLVMValueRef outer = level[n - 1].count;
    for (int i = 0; i < n - 1; i++) {
        LLVMValueRef none = LLVMBuildICmp(e->b, LLVMIntSLE, level[i].count, emit_i64(e, 0), "");
        if (level[i].first) outer = LLVMBuildSelect(e->b, none, emit_i64(e, 0), outer, "");
    }
    return outer;
}

static const char *name_of(const Direct *d, const MicroTapRows *taps) {
    const char *name = "window";
    for (int64_t t = 0; t < taps->n; t++)
        name = arena_printf(d->ke->arena, "%s_%lld.%lld", name, (long long)taps->first[t], (long long)taps->end[t]);
    return name;
}

static void call(const Direct *d, const Level *level, int n, Cursor at, MicroShape shape) {
    for (int i = 0; i < n; i++) at = enter_level(d, level, i, at, &shape);
    LLVMValueRef args[MICRO_ARGS] = {[MICRO_X] = at.x, [MICRO_Y] = at.y, [MICRO_C] = at.c};
    if (direct_sums_at_once(d->p)) args[MICRO_FRESH] = d->fresh;
    if (n < 2 || !level[1].taps) shape.taps.n = 0;
    shape.levels = n;
    for (int i = 0; i < n; i++) {
        args[MICRO_COUNT + i] = i < n - 1 ? level[i].count : outer_count(d, level, n);
        shape.x.step[i] = level[i].stride;
        if (i > 0) args[MICRO_Y_STEP + i] = level_pitch(d, level, i, &shape);
    }
    micro_product(d->ke->e, name_of(d, &shape.taps), shape, args);
}

void direct_multiply(const Direct *d, const Level *level, int n, Cursor at, MicroShape shape) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (n <= MICRO_LEVELS) {
        call(d, level, n, at, shape);
        return;
    }
    at = enter_level(d, level, n - 1, at, &shape);
    HostCounter c = counter_open(ke, emit_i64(e, 0), level[n - 1].count, 1);
    Cursor next = at;
    next.x = emit_f32_at(e, at.x, plus(d, emit_i64(e, 0), c.i, level[n - 1].stride));
    next.y = emit_f32_at(e, at.y, LLVMBuildMul(e->b, c.i, level_pitch(d, level, n - 1, &shape), ""));
    direct_multiply(d, level, n - 1, next, shape);
    counter_close(ke, &c);
}
