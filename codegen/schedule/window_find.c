/* Which loads go through a window; see window.h.  Its constants are from `./dev bench conv`. */
#include "codegen/schedule/window.h"
#include <string.h>

static bool is_affine(const Index *x) {
    for (int i = 0; i < x->n; i++)
        if (x->term[i].atom.kind != ATOM_AXIS && x->term[i].atom.kind != ATOM_EXTENT) return false;
    return true;
}

static bool is_uniform(const Index *x) {
    for (int i = 0; i < x->n; i++)
        if (x->term[i].atom.kind != ATOM_EXTENT) return false;
    return true;
}

static bool is_comparison(Op op) { return op == OP_LT || op == OP_LE || op == OP_GT || op == OP_GE; }

/* The index expression that a value is; NULL: none. */
static const Index *index_of(const HostPlan *kp, int value) {
    const Inst *i = kp->v->value[value].def;
    if (i->kind == TI_INDEX) return i->index[0];
    return i->kind == TI_CONST ? index_const(kp->arena, (int64_t)i->value) : NULL;
}

static bool add_ranges(const HostPlan *kp, int value, Window *w) {
    const Inst *i = kp->v->value[value].def;
    if (i->kind != TI_ELEMENT) return false;
    if (i->op == OP_AND) return add_ranges(kp, i->in[0], w) && add_ranges(kp, i->in[1], w);
    if (!is_comparison(i->op) || kp->k->types.at[i->in[0]].dtype != DT_I32 || w->n_ranges == MAX_RANGES) return false;
    const Index *x = index_of(kp, i->in[0]), *bound = index_of(kp, i->in[1]);
    if (!x || !bound || !is_affine(x) || !is_uniform(bound)) return false;
    w->range[w->n_ranges++] = (Range){x, bound, i->op};
    return true;
}

static int subscript_of(const Window *w, const Range *r) {
    for (int d = 0; d < w->rank; d++)
        if (index_equal(w->subscript[d], r->x)) return d;
    return -1;
}

/* ---- subscripts -------------------------------------------------------------------------------------------------- */
/* By falling pitch. */
static bool add_subscript(const HostPlan *kp, Window *w, const Index *x, int64_t pitch) {
    if (w->rank == MAX_WINDOW || pitch <= 0) return false;
    int at = w->rank++;
    for (; at > 0 && w->pitch[at - 1] < pitch; at--) {
        w->subscript[at] = w->subscript[at - 1];
        w->pitch[at] = w->pitch[at - 1];
        memcpy(w->coef[at], w->coef[at - 1], sizeof w->coef[at]);
    }
    w->subscript[at] = x;
    w->pitch[at] = pitch;
    for (int a = 0; a < kp->k->axes.n; a++) index_affine_in(kp->k, x, a, &w->coef[at][a]);
    return true;
}

typedef struct Linear {
    int64_t c, coef[MAX_AXES];
    bool symbols; /* run-time extents stand in it */
} Linear;

static Linear linear_of(const Index *x) {
    Linear l = {.c = x->c};
    for (int i = 0; i < x->n; i++)
        if (x->term[i].atom.kind == ATOM_AXIS)
            l.coef[x->term[i].atom.id] = x->term[i].coef;
        else
            l.symbols = true;
    return l;
}

/* x is a multiple of the range's expression in all of that one's axes: takes it out. */
static bool take_range(const HostPlan *kp, Window *w, const Range *r, Linear *x, int64_t stride) {
    const Linear e = linear_of(r->x);
    int64_t times = 0;
    for (int a = 0; a < kp->k->axes.n; a++) {
        if (!e.coef[a]) continue;
        if (times == 0) times = x->coef[a] / e.coef[a];
        if (times == 0 || x->coef[a] != times * e.coef[a]) return false;
    }
    if (times == 0 || e.symbols) return false;
    for (int a = 0; a < kp->k->axes.n; a++)
        if (e.coef[a]) x->coef[a] = 0;
    x->c -= times * e.c;
    return add_subscript(kp, w, r->x, times * stride);
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* The axes that are left, those of steps that are alike together: any grouping is right, a good one makes a small box.
 */
static bool take_rest(const HostPlan *kp, Window *w, Linear *x, int64_t stride) {
    enum { ALIKE = 8 };
    for (;;) {
        int64_t unit = 0;
        Term term[MAX_AXES];
        int n = 0;
        for (int a = 0; a < kp->k->axes.n; a++)
            if (x->coef[a] && (unit == 0 || magnitude(x->coef[a]) < unit)) unit = magnitude(x->coef[a]);
        if (unit == 0) return true;
        for (int a = 0; a < kp->k->axes.n; a++) {
            if (!x->coef[a] || x->coef[a] % unit || magnitude(x->coef[a]) > ALIKE * unit) continue;
            term[n++] = (Term){x->coef[a] / unit, {.kind = ATOM_AXIS, .id = a}};
            x->coef[a] = 0;
        }
        if (!add_subscript(kp, w, index_make(kp->arena, 0, n, term), unit * stride)) return false;
    }
}

/* A buffer's subscript stays what it is unless ranges are of parts of it. */
static bool split_subscript(const HostPlan *kp, Window *w, const Index *x, int64_t stride) {
    for (int r = 0; r < w->n_ranges; r++)
        if (index_equal(w->range[r].x, x)) return add_subscript(kp, w, x, stride);
    Linear l = linear_of(x);
    if (l.symbols) return add_subscript(kp, w, x, stride);
    for (int r = 0; r < w->n_ranges; r++)
        if (subscript_of(w, &w->range[r]) < 0) take_range(kp, w, &w->range[r], &l, stride);
    w->offset += l.c * stride;
    return take_rest(kp, w, &l, stride);
}

static bool find_subscripts(const HostPlan *kp, Window *w) {
    const Buffer *b = &kp->k->buffers.at[w->load->buffer];
    for (int d = 0; d < w->load->n_index; d++)
        if (!split_subscript(kp, w, w->load->index[d], b->stride[d])) return false;
    for (int r = 0; r < w->n_ranges; r++)
        if (subscript_of(w, &w->range[r]) < 0) return false;
    return w->rank > 0 && w->pitch[w->rank - 1] == 1;
}

static bool find(const HostPlan *kp, int value, DType dtype, bool own, Window *w) {
    const ValueInfo *info = &kp->v->value[value];
    const Inst *i = info->def;
    if (info->kept || !i || i->kind != TI_LOAD || kp->k->buffers.at[i->buffer].dtype != dtype) return false;
    *w = (Window){.load = i};
    for (int d = 0; d < i->n_index; d++)
        if (!is_affine(i->index[d])) return false;
    if (i->n_in && (i->value != 0 || !add_ranges(kp, i->in[0], w))) return false;
    return !own || find_subscripts(kp, w);
}

bool window_find(const HostPlan *kp, int value, bool own, Window *w) { return find(kp, value, DT_F32, own, w); }

static bool even_lanes(const Axis *a) {
    return dim_is_fixed(a->extent) && a->extent.bound % 2 == 0 && (a->step % 2 == 0 || a->step >= a->extent.bound);
}

/* The axis that is the subscript, alone; -1: none. */
static int only_axis(const Index *x) {
    const bool plain = x->c == 0 && x->n == 1 && x->term[0].coef == 1 && x->term[0].atom.kind == ATOM_AXIS;
    return plain ? x->term[0].atom.id : -1;
}

static int converted(const HostPlan *kp, int value) {
    const int from = bf16_converted(kp, value);
    return from == value ? value : converted(kp, from);
}

bool window_find_ranges(const HostPlan *kp, int value, bool pairs, Window *w) {
    return pairs ? find(kp, converted(kp, value), DT_BF16, false, w) : window_find(kp, value, false, w);
}

bool window_find_pairs(const HostPlan *kp, int value, const TileType *over, Window *w) {
    enum { LEAST = 4 }; /* lanes: fewer are no smaller step than the next axis may have */
    if (!find(kp, converted(kp, value), DT_BF16, true, w)) return false;
    const int last = w->rank - 1, axis = only_axis(w->subscript[last]);
    if (axis < 0 || !tile_type_has(over, axis) || !even_lanes(&kp->k->axes.at[axis]) || w->offset % 2) return false;
    if (kp->k->axes.at[axis].step < LEAST) return false;
    for (int r = 0; r < w->n_ranges; r++)
        if (index_equal(w->range[r].x, w->subscript[last])) return false;
    for (int d = 0; d < last; d++)
        if (w->pitch[d] % 2 || w->coef[d][axis]) return false;
    for (int d = 0; d < last; d++) w->pitch[d] /= 2;
    w->offset /= 2;
    w->pairs = axis + 1;
    return true;
}

bool window_slides(const Kernel *k, const Window *w, const TileType *kept, const TileType *over) {
    for (int d = 0; d < w->rank; d++) {
        bool in_kept = false, in_over = false;
        for (int a = 0; a < k->axes.n; a++) {
            in_kept |= w->coef[d][a] && tile_type_has(kept, a);
            in_over |= w->coef[d][a] && tile_type_has(over, a);
        }
        if (in_kept && in_over) return true;
    }
    return false;
}
