/* Shapes from values, axis arguments, subscripts outside indexed definitions. */
#include "frontend/lower.h"
#include <string.h>

static bool extent_of(Lower *L, Value v, SrcLoc loc, Dim *out) {
    if (v.kind == VAL_POISON) return false;
    if (val_as_dim(v, out)) {
        if (out->bound <= MAX_ELEMENTS) return true;
        lower_fail(L, E0216, loc, NULL, "an extent larger than %lld", (long long)MAX_ELEMENTS);
        return false;
    }
    if (v.kind == VAL_INT)
        lower_fail(L, E0205, loc, NULL, "the extent %lld is negative", (long long)v.i);
    else if (v.kind == VAL_DIM)
        lower_fail(L, E0205, loc, "count what is left: where this is S - 2, declare `dim S` for it, and write S + 2 for the whole",
                   "this bounded extent is negative where the dimension is 1, or falls as it grows");
    else
        lower_fail(L, E0205, loc, NULL, "an extent must be a constant integer, not %s", val_describe(L->arena, v));
    return false;
}

static bool rank_fits(Lower *L, int rank, SrcLoc loc) {
    if (rank <= MAX_RANK) return true;
    lower_fail(L, E0216, loc, NULL, "%d dimensions; a tensor has at most %d", rank, MAX_RANK);
    return false;
}

bool lower_shape_list(Lower *L, const ExprList *list, Shape *out) {
    *out = (Shape){.rank = list->n};
    if (list->n && !rank_fits(L, list->n, list->at[0]->loc)) return false;
    bool ok = true;
    for (int i = 0; i < list->n; i++) ok &= extent_of(L, lower_expr(L, list->at[i]), list->at[i]->loc, &out->dim[i]);
    return ok;
}

bool value_shape(Lower *L, Value list, SrcLoc loc, Shape *out) {
    if (list.kind == VAL_POISON) return false;
    if (list.kind != VAL_LIST) {
        const char *help = list.kind == VAL_INT
                               ? arena_printf(L->arena, "write it in brackets: [%lld]", (long long)list.i)
                               : "write it in brackets: [8, 8]";
        lower_fail(L, E0204, loc, help, "a shape must be a list, not %s", val_describe(L->arena, list));
        return false;
    }
    *out = (Shape){.rank = list.n};
    if (!rank_fits(L, list.n, loc)) return false;
    for (int i = 0; i < list.n; i++)
        if (!extent_of(L, list.at[i], loc, &out->dim[i])) return false;
    return true;
}

/* ---- axes ------------------------------------------------------------------------------------------ */

static bool one_axis(Lower *L, Value v, int rank, SrcLoc loc, bool *chosen) {
    if (v.kind != VAL_INT) {
        lower_fail(L, E0209, loc, NULL, "an axis must be a constant integer, not %s", val_describe(L->arena, v));
        return false;
    }
    if (v.i < -rank || v.i >= rank) {
        lower_fail(L, E0208, loc, NULL, "axis %lld is out of range for %d dimension%s", (long long)v.i, rank,
                   rank == 1 ? "" : "s");
        return false;
    }
    int axis = (int)(v.i < 0 ? v.i + rank : v.i);
    if (chosen[axis]) {
        lower_fail(L, E0208, loc, NULL, "axis %d is named twice", axis);
        return false;
    }
    return chosen[axis] = true;
}

static bool range_of_axes(Lower *L, Value v, int rank, SrcLoc loc, bool *chosen) {
    int64_t at[2];
    for (int k = 0; k < 2; k++) {
        if (v.at[k].kind != VAL_INT) return one_axis(L, v.at[k], rank, loc, chosen);
        at[k] = v.at[k].i < 0 ? v.at[k].i + rank : v.at[k].i;
    }
    if (at[0] < 0 || at[1] > rank) {
        lower_fail(L, E0208, loc, NULL, "the axes %lld..%lld are out of range for %d dimensions", (long long)v.at[0].i,
                   (long long)v.at[1].i, rank);
        return false;
    }
    for (int64_t i = at[0]; i < at[1]; i++) chosen[i] = true;
    return true;
}

int value_axes(Lower *L, Value v, int rank, SrcLoc loc, int8_t *axes) {
    bool chosen[MAX_RANK] = {false}, ok = v.kind != VAL_POISON;
    if (v.kind == VAL_ALL)
        memset(chosen, true, (size_t)rank);
    else if (v.kind == VAL_RANGE)
        ok = range_of_axes(L, v, rank, loc, chosen);
    else if (v.kind == VAL_LIST)
        for (int i = 0; i < v.n && ok; i++) ok = one_axis(L, v.at[i], rank, loc, chosen);
    else if (ok)
        ok = one_axis(L, v, rank, loc, chosen);
    int n = 0;
    for (int d = 0; d < rank && ok; d++)
        if (chosen[d]) axes[n++] = (int8_t)d;
    return ok ? n : -1;
}

/* ---- subscripts --------------------------------------------------------------------------------------- */

typedef struct Window {
    Dim lo[MAX_RANK];
    int64_t step[MAX_RANK];
    Shape shape;         /* of the slice, before dropping */
    bool drop[MAX_RANK]; /* axes with a single index */
    int gather_axis;     /* an integer tensor stands here; -1: none */
    Node *ids;
} Window;

static Value out_of_range(Lower *L, const Item *it, int64_t i, Dim d) {
    return lower_fail(L, E0208, it->loc, NULL, "index %lld is out of range for an extent of %lld", (long long)i,
                      (long long)d.bound);
}

bool subscript_inside(Lower *L, int64_t i, Dim extent, SrcLoc loc) {
    if (i >= 0 && i < extent.bound) return true;
    const bool wraps = i < 0 && dim_is_fixed(extent) && i >= -extent.bound;
    const char *help =
        wraps ? arena_printf(L->arena, "subscripts of an indexed definition do not count from the end: write %lld",
                             (long long)(extent.bound + i))
              : NULL;
    lower_fail(L, E0208, loc, help, "index %lld is out of range for an extent of %lld", (long long)i,
               (long long)extent.bound);
    return false;
}

bool subscript_whole(Lower *L, Value v, SrcLoc loc) {
    if (v.kind != VAL_INT || !v.inexact) return true;
    lower_fail(
        L, E0214, loc, "write floor_div(a, b) where the floor is meant",
        "this subscript is a quotient with a remainder, and subscripts of an indexed definition are not rounded");
    return false;
}

static Value index_expr(Lower *L, const Item *it) {
    if (!L->body || !L->body->exact) return lower_expr(L, it->index);
    const bool outer = L->body->subscript;
    L->body->subscript = true;
    Value v = lower_expr(L, it->index);
    L->body->subscript = outer;
    return subscript_whole(L, v, it->loc) ? v : val_poison();
}

/* What is negative counts from the end: a constant, or -S at every value of S. */
static Value from_end(Value v, Dim extent) {
    const bool below = v.kind == VAL_INT ? v.i < 0 : v.kind == VAL_DIM && v.dim.bound < 0 && v.dim.scale + v.dim.offset < 0;
    if (below && !val_dim_combine(val_dim(extent), 1, v, 1, &v)) return val_poison();
    return v;
}

/* Where the extent or the subscript follows a bounded dimension. */
static bool take_bounded_index(Lower *L, const Item *it, int d, Value v, Dim extent, Window *w) {
    const Value at = from_end(v, extent);
    w->shape.dim[d] = dim_fixed(1);
    if (part_inside(at, val_int(1), extent, 1)) return w->drop[d] = val_as_dim(at, &w->lo[d]);
    lower_fail(L, E0218, it->loc, "an indexed definition reads 0 where there is none: y[j] = x[4, j]",
               "this element is not there for every value of the bounded dimension, which may be 1");
    return false;
}

static bool take_index(Lower *L, const Item *it, int d, Dim extent, Window *w) {
    Value v = index_expr(L, it);
    if (v.kind == VAL_POISON) return false;
    if (v.kind == VAL_TENSOR && v.node->dtype == DT_I32) {
        if (w->gather_axis >= 0) {
            lower_fail(L, E0208, it->loc, "write it as an indexed definition: y[i] = x[a[i], b[i]]",
                       "one subscript at most may be an integer tensor");
            return false;
        }
        w->gather_axis = d;
        w->ids = v.node;
        return true;
    }
    if (v.kind != VAL_INT && v.kind != VAL_DIM) {
        const bool boolean = v.kind == VAL_TENSOR && v.node->dtype == DT_BOOL;
        lower_fail(L, E0204, it->loc,
                   boolean                ? "a mask chooses with where(mask, x, 0), or in a reduction with where = mask"
                   : v.kind == VAL_TENSOR ? "write int(x)"
                   : v.kind == VAL_NONE   ? "a new axis is expand_dims(x, axis)"
                                          : NULL,
                   "a subscript must be an integer, an integer tensor or a slice, not %s", val_describe(L->arena, v));
        return false;
    }
    const bool exact = L->body && L->body->exact && v.kind == VAL_INT;
    if (exact && !subscript_inside(L, v.i, extent, it->loc)) return false;
    if (!dim_is_fixed(extent) || v.kind == VAL_DIM) return take_bounded_index(L, it, d, v, extent, w);
    int64_t i = v.i < 0 && v.i >= -extent.bound ? v.i + extent.bound : v.i;
    if (i < 0 || i >= extent.bound) return out_of_range(L, it, v.i, extent).kind != VAL_POISON;
    w->lo[d] = dim_fixed(i);
    w->shape.dim[d] = dim_fixed(1);
    return w->drop[d] = true;
}

/* A bound of lo:hi:step; negative counts from the end, past the end is cut as in NumPy. */
static bool slice_bound(Lower *L, const Expr *e, int64_t n, int64_t missing, int64_t least, int64_t most,
                        int64_t *out) {
    *out = missing;
    if (!e) return true;
    if (!lower_const_int(L, e, "a slice bound", out)) return false;
    if (*out < 0) *out = *out < -n ? -n - 1 + n : *out + n;
    *out = *out < least ? least : *out > most ? most : *out;
    return true;
}

static bool step_is_legal(Lower *L, const Item *it, int64_t step) {
    if (step != 0 && step != INT64_MIN) return true;
    lower_fail(L, E0208, it->loc, NULL, "the step of a slice must not be 0");
    return false;
}

/* lo, hi and a constant step, where the extent or a bound follows a bounded dimension; a bound that is not written: 0 and the
 * extent, or its last element and the one before the first. */
static bool bounded_range(Lower *L, const Item *it, Dim extent, Value *lo, Value *hi, int64_t *step) {
    *step = 1;
    if (it->step && !lower_const_int(L, it->step, "a slice step", step)) return false;
    if (!step_is_legal(L, it, *step)) return false;
    const bool up = *step > 0;
    *lo = it->lo ? from_end(lower_expr(L, it->lo), extent) : up ? val_int(0) : from_end(val_int(-1), extent);
    *hi = it->hi ? from_end(lower_expr(L, it->hi), extent) : up ? val_dim(extent) : val_int(-1);
    return lo->kind != VAL_POISON && hi->kind != VAL_POISON;
}

static bool is_extent(Value v) { return v.kind == VAL_INT || v.kind == VAL_DIM; }

/* How many elements, `stride` apart, `span` has. */
static Value strided_length(Lower *L, Value span, int64_t stride, SrcLoc loc) {
    if (span.kind == VAL_INT) return val_int(span.i > 0 ? (span.i - 1) / stride + 1 : 0);
    if (stride == 1) return span;
    return val_dim_combine(span, 1, val_int(stride - 1), 1, &span) ? dim_divide(L, span.dim, stride, loc) : val_poison();
}

/* lo:hi:step must lie inside whatever the value of the dimension. */
static bool take_bounded(Lower *L, const Item *it, int d, Dim extent, Window *w) {
    Value lo, hi, span;
    int64_t step;
    if (!bounded_range(L, it, extent, &lo, &hi, &step)) return false;
    const bool up = step > 0;
    for (int k = 0; k < 2; k++)
        if (!is_extent(k ? hi : lo)) {
            lower_fail(L, E0209, it->loc, NULL, "a slice bound must be a constant or an extent, not %s",
                       val_describe(L->arena, k ? hi : lo));
            return false;
        }
    bool ok = val_dim_combine(up ? hi : lo, 1, up ? lo : hi, -1, &span);
    if (ok) {
        const Value length = strided_length(L, span, up ? step : -step, it->loc);
        if (length.kind == VAL_POISON) return false;
        w->step[d] = step;
        ok = part_inside(lo, length, extent, step) && val_as_dim(lo, &w->lo[d]) && val_as_dim(length, &w->shape.dim[d]);
    }
    if (!ok && lo.kind == VAL_DIM && lo.dim.scale < 0)
        lower_fail(L, E0218, it->loc, "slice(reverse(x, 0), 0, S) has the last S, reversed",
                   "the start of this slice falls as the bounded dimension grows");
    else if (!ok && step == -1 && !it->lo && !it->hi)
        lower_fail(L, E0218, it->loc, arena_printf(L->arena, "reverse(x, %d) is the whole axis backwards, also where it is empty", d),
                   "this slice begins at the last element of an axis that may be empty");
    else if (!ok)
        lower_fail(L, E0218, it->loc, "an indexed definition reads 0 where there is nothing: y[i in 0..4] = x[2*i + 1]",
                   "this slice does not lie inside for every value of the bounded dimension, which may be 1");
    return ok;
}

static bool follows_bounded(Lower *L, const Expr *bound) { return bound && lower_expr(L, bound).kind == VAL_DIM; }

static bool take_slice(Lower *L, const Item *it, int d, Dim extent, Window *w) {
    if (!it->lo && !it->hi && !it->step) return true;
    int64_t step = 1, lo, hi, n = extent.bound;
    if (!dim_is_fixed(extent) || follows_bounded(L, it->lo) || follows_bounded(L, it->hi))
        return take_bounded(L, it, d, extent, w);
    if (it->step && !lower_const_int(L, it->step, "a slice step", &step)) return false;
    if (!step_is_legal(L, it, step)) return false;
    bool up = step > 0;
    if (!slice_bound(L, it->lo, n, up ? 0 : n - 1, up ? 0 : -1, up ? n : n - 1, &lo)) return false;
    if (!slice_bound(L, it->hi, n, up ? n : -1, up ? 0 : -1, up ? n : n - 1, &hi)) return false;
    int64_t span = up ? hi - lo : lo - hi, stride = up ? step : -step;
    int64_t count = span > 0 ? (span - 1) / stride + 1 : 0;
    w->lo[d] = dim_fixed(count ? lo : 0);
    w->step[d] = count > 1 ? step : 1;
    if (count != n) w->shape.dim[d] = dim_fixed(count);
    return true;
}

/* How many dimensions `...` stands for; -1: reported. */
static int ellipsis_span(Lower *L, const Expr *e, int rank) {
    int items = 0, dots = 0;
    for (int i = 0; i < e->items.n; i++) *(e->items.at[i].kind == ITEM_ELLIPSIS ? &dots : &items) += 1;
    if (dots > 1)
        lower_fail(L, E0208, e->loc, NULL, "`...` may stand once");
    else if (items > rank)
        lower_fail(L, E0208, e->loc, NULL, "%d subscripts for a tensor of %d dimension%s", items, rank,
                   rank == 1 ? "" : "s");
    else
        return rank - items;
    return -1;
}

static bool read_items(Lower *L, const Expr *e, Node *x, Window *w) {
    int span = ellipsis_span(L, e, x->shape->rank), d = 0;
    if (span < 0) return false;
    w->shape = *x->shape;
    w->gather_axis = -1;
    for (int i = 0; i < x->shape->rank; i++) w->lo[i] = dim_fixed(0), w->step[i] = 1;
    bool ok = true;
    for (int i = 0; i < e->items.n; i++) {
        const Item *it = &e->items.at[i];
        if (it->kind == ITEM_ELLIPSIS)
            d += span;
        else if (it->kind == ITEM_INDEX)
            ok &= take_index(L, it, d, x->shape->dim[d], w), d++;
        else
            ok &= take_slice(L, it, d, x->shape->dim[d], w), d++;
    }
    return ok;
}

Value v_gather(Lower *L, Node *table, int axis, Node *ids) {
    int8_t front[MAX_RANK], back[MAX_RANK];
    int rank = table->shape->rank, n = ids->shape->rank;
    front[0] = (int8_t)axis;
    for (int d = 0, k = 1; d < rank; d++)
        if (d != axis) front[k++] = (int8_t)d;
    Node *t = t_transpose(L, table, front);
    Shape s = {.rank = n + rank - 1};
    if (!rank_fits(L, s.rank, L->loc)) return val_poison();
    for (int d = 0; d < n; d++) s.dim[d] = ids->shape->dim[d];
    for (int d = 1; d < rank; d++) s.dim[n + d - 1] = t->shape->dim[d];
    if (!check_shape(L, s, L->loc)) return val_poison();
    Node *g = t_node(L, OP_GATHER, 2, (Node *[]){t, ids}, NULL, t->dtype, s);
    for (int d = 0; d < s.rank; d++) /* the gathered dims go where the axis stood */
        back[d] = (int8_t)(d < axis ? n + d : d < axis + n ? d - axis : d);
    return val_tensor(t_transpose(L, g, back));
}

Value lower_subscript(Lower *L, const Expr *e) {
    Value v = lower_expr(L, e->a);
    if (v.kind == VAL_POISON) return v;
    if (L->body && L->body->space && v.kind == VAL_TENSOR)
        return lower_fail(L, E0215, e->loc, NULL, "elements have no subscripts");
    if (v.kind == VAL_LIST && e->items.n == 1 && e->items.at[0].kind == ITEM_INDEX) {
        int64_t i;
        if (!lower_const_int(L, e->items.at[0].index, "an index", &i)) return val_poison();
        if (i < 0) i += v.n;
        if (i >= 0 && i < v.n) return v.at[i];
        return lower_fail(L, E0208, e->loc, NULL, "index out of range for a list of %d", v.n);
    }
    if (v.kind != VAL_TENSOR)
        return lower_fail(L, E0204, e->loc, NULL, "a subscript needs a tensor, not %s", val_describe(L->arena, v));
    Window w = {0};
    if (!read_items(L, e, v.node, &w)) return val_poison();
    Node *x = t_slice(L, v.node, w.lo, w.step, w.shape);
    Shape kept = {0};
    int axis = -1;
    for (int d = 0; d < w.shape.rank; d++) {
        if (d == w.gather_axis) axis = kept.rank;
        if (!w.drop[d]) kept.dim[kept.rank++] = w.shape.dim[d];
    }
    x = t_reshape(L, x, kept);
    return axis >= 0 ? v_gather(L, x, axis, w.ids) : val_tensor(x);
}
