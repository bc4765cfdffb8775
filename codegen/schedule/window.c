/* The places of a window: limits, and the packed box; see window.h.  Its constants are from `./dev bench conv`. */
#include "codegen/schedule/window.h"

int64_t range_slope(const Kernel *k, const Range *r, int axis) {
    int64_t coef = 0;
    index_affine_in(k, r->x, axis, &coef);
    return range_is_upper(r) ? -coef : coef;
}

WindowLimits window_known_limits(const Window *w, int d) {
    WindowLimits l = {.known = {true, true}};
    for (int i = 0; i < w->n_ranges; i++) {
        const Range *r = &w->range[i];
        const bool upper = range_is_upper(r);
        if (!index_equal(w->subscript[d], r->x)) continue;
        const int64_t at = r->bound->c + (r->op == OP_LE || r->op == OP_GT);
        if (!l.any[upper] || (upper ? at < l.at[upper] : at > l.at[upper])) l.at[upper] = at;
        l.any[upper] = true;
        l.known[upper] &= r->bound->n == 0;
    }
    return l;
}

static int64_t box_extent(const Kernel *k, const Window *w, int d) {
    int64_t n = 1;
    for (int a = 0; a < k->axes.n; a++)
        n += (w->coef[d][a] < 0 ? -w->coef[d][a] : w->coef[d][a]) * (k->axes.at[a].step - 1);
    return w->pairs && d == w->rank - 1 ? (n + 1) / 2 : n;
}

/* Rows of elements whose distance is a multiple of 1 KiB would share cache sets: they are kept apart. */
WindowBox window_box(const Kernel *k, const Window *w) {
    enum { SETS_BYTES = 1024, APART = 16 };
    WindowBox b;
    int64_t next = 1;
    for (int d = w->rank - 1; d >= 0; d--) {
        b.extent[d] = box_extent(k, w, d);
        b.stride[d] = next;
        next *= b.extent[d];
        if (d == w->rank - 1 && next * 4 % SETS_BYTES == 0) next += APART;
    }
    return b;
}

void window_strides(const Kernel *k, const Window *w, int64_t stride[MAX_AXES]) {
    const WindowBox b = window_box(k, w);
    for (int a = 0; a < k->axes.n; a++) {
        stride[a] = 0;
        for (int d = 0; d < w->rank; d++) stride[a] += w->coef[d][a] * b.stride[d];
    }
}

int64_t window_elements(const HostPlan *kp, const Window *w) {
    const WindowBox b = window_box(kp->k, w);
    return b.stride[0] * b.extent[0] + 2 * kp->machine->vector;
}
