/* Built-in functions that move elements: reshape, transpose, slice, update, pad, concat, split, iota. */
#include "frontend/lower.h"
#include <inttypes.h>
#include <string.h>

static bool tensor_arg(Lower *L, const BuiltinCall *c, Value v, Node **out) {
    if (v.kind == VAL_TENSOR) return *out = v.node, true;
    if (v.kind != VAL_POISON)
        lower_fail(L, E0204, c->loc, NULL, "'%s' needs a tensor, not %s", c->builtin->name, val_describe(L->arena, v));
    return false;
}

static bool single_axis(Lower *L, const BuiltinCall *c, Value v, int rank, int *out) {
    int8_t axes[MAX_RANK];
    const bool list = v.kind == VAL_LIST && v.n != 1;
    const int n = list ? 0 : value_axes(L, v, rank, c->loc, axes);
    if (n == 1) return *out = axes[0], true;
    if (n >= 0) lower_fail(L, E0208, c->loc, NULL, "'%s' needs one axis", c->builtin->name);
    return false;
}

/* ---- reshape --------------------------------------------------------------------------------------- */

/* A number of elements: a fixed factor times bounded extents without common factors. */
typedef struct Count {
    int64_t fixed;
    int n;
    Dim bounded[MAX_RANK];
} Count;

static Count count_elements(Shape s, int skip) {
    Count c = {.fixed = 1};
    for (int d = 0; d < s.rank; d++) {
        Dim e = s.dim[d];
        if (d == skip) continue;
        if (dim_is_fixed(e)) {
            c.fixed *= e.bound;
            continue;
        }
        int64_t k = common_divisor(e.scale, e.offset);
        e.scale /= k, e.offset /= k, e.bound /= k;
        c.fixed *= k;
        c.bounded[c.n++] = e;
    }
    return c;
}

/* Takes the bounded factors of `part` out of `whole`; false when one is not there. */
static bool divide_bounded(Count *whole, const Count *part) {
    for (int i = 0; i < part->n; i++) {
        int k = 0;
        while (k < whole->n && !dim_equal(whole->bounded[k], part->bounded[i])) k++;
        if (k == whole->n) return false;
        whole->bounded[k] = whole->bounded[--whole->n];
    }
    return true;
}

/* The extent that -1 stands for; false when there is none. */
static bool infer_extent(Shape from, Shape to, int hole, Dim *out) {
    Count whole = count_elements(from, -1), part = count_elements(to, hole);
    if (!divide_bounded(&whole, &part) || part.fixed == 0 || whole.fixed % part.fixed || whole.n > 1) return false;
    int64_t k = whole.fixed / part.fixed;
    *out = whole.n ? dim_mul_const(whole.bounded[0], k) : dim_fixed(k);
    return true;
}

static bool same_count(Shape a, Shape b) {
    Count x = count_elements(a, -1), y = count_elements(b, -1);
    return x.fixed == y.fixed && x.n == y.n && divide_bounded(&x, &y);
}

static bool is_hole(Value v) { return v.kind == VAL_INT && v.i == -1; }

/* The list of extents, or a tensor's, with 1 for a -1, whose place is `hole`, -1 without one; false: reported. */
static bool reshape_target(Lower *L, const BuiltinCall *c, Shape *s, int *hole) {
    Value list = c->arg[1];
    int holes = 0;
    *hole = -1;
    if (list.kind == VAL_TENSOR) {
        *s = *list.node->shape;
        return true;
    }
    if (list.kind == VAL_LIST) {
        list = lower_tuple(L, list.n, list.at, VAL_LIST);
        for (int i = 0; i < list.n && i < MAX_RANK; i++)
            if (is_hole(list.at[i])) *hole = i, list.at[i] = val_int(1), holes++;
    }
    if (holes > 1) {
        lower_fail(L, E0205, c->loc, NULL, "reshape: only one extent can be -1, which stands for what is left");
        return false;
    }
    return value_shape(L, list, c->loc, s) && check_shape(L, *s, c->loc);
}

static Value run_reshape(Lower *L, const BuiltinCall *c) {
    Node *x;
    Shape s;
    int hole;
    if (!tensor_arg(L, c, c->arg[0], &x) || !reshape_target(L, c, &s, &hole)) return val_poison();
    if (hole >= 0 && !infer_extent(*x->shape, s, hole, &s.dim[hole])) {
        s.dim[hole] = dim_fixed(-1);
        return lower_fail(L, E0203, c->loc, NULL, "reshape: the elements of %s do not divide into %s",
                          shape_text(L->arena, *x->shape), shape_text(L->arena, s));
    }
    if (!check_shape(L, s, c->loc)) return val_poison();
    if (same_count(*x->shape, s)) {
        if (reshape_fits(x->shape, &s)) return val_tensor(t_reshape(L, x, s));
        return lower_fail(L, E0501, c->loc, reshape_remedy, "%s", reshape_refused);
    }
    const bool fixed = shape_is_fixed(*x->shape) && shape_is_fixed(s);
    const char *help = fixed ? arena_printf(L->arena, "%" PRId64 " elements are not %" PRId64 "; an extent of -1 stands for what is left",
                                            shape_elements(*x->shape), shape_elements(s))
                             : "a bounded dimension stays one: write it in the list, or -1, which stands for what is left";
    return lower_fail(L, E0203, c->loc, help, "reshape: %s does not have the elements of %s",
                      shape_text(L->arena, *x->shape), shape_text(L->arena, s));
}

static Value run_expand_dims(Lower *L, const BuiltinCall *c) {
    Node *x;
    int axis;
    if (!tensor_arg(L, c, c->arg[0], &x)) return val_poison();
    if (x->shape->rank == MAX_RANK)
        return lower_fail(L, E0216, c->loc, NULL, "a tensor has at most %d dimensions", MAX_RANK);
    if (!single_axis(L, c, c->arg[1], x->shape->rank + 1, &axis)) return val_poison();
    Shape s = {.rank = x->shape->rank + 1};
    for (int d = 0; d < s.rank; d++) s.dim[d] = d == axis ? dim_fixed(1) : x->shape->dim[d - (d > axis)];
    return val_tensor(t_reshape(L, x, s));
}

/* ---- order and repetition ------------------------------------------------------------------------------ */

static Value run_transpose(Lower *L, const BuiltinCall *c) {
    Node *x;
    int8_t perm[MAX_RANK];
    if (!tensor_arg(L, c, c->arg[0], &x)) return val_poison();
    int rank = x->shape->rank;
    for (int d = 0; d < rank; d++) perm[d] = (int8_t)d;
    if (c->arg[1].kind == VAL_NONE) {
        if (rank < 2)
            return lower_fail(L, E0203, c->loc, NULL, "transpose swaps the last two axes; this tensor is %s",
                              shape_text(L->arena, *x->shape));
        perm[rank - 1] = (int8_t)(rank - 2), perm[rank - 2] = (int8_t)(rank - 1);
        return val_tensor(t_transpose(L, x, perm));
    }
    Value list = c->arg[1];
    bool used[MAX_RANK] = {false}, ok = list.kind == VAL_LIST && list.n == rank;
    for (int d = 0; ok && d < rank; d++) {
        int64_t a = list.at[d].kind == VAL_INT ? list.at[d].i : INT64_MAX;
        if (a < 0) a += rank;
        ok = a >= 0 && a < rank && !used[a];
        if (ok) used[a] = true, perm[d] = (int8_t)a;
    }
    if (ok) return val_tensor(t_transpose(L, x, perm));
    return lower_fail(L, E0208, c->loc, NULL, "transpose: the list must name each of the %d axes once", rank);
}

static Value run_broadcast(Lower *L, const BuiltinCall *c) {
    Shape s, joined;
    Node *x = value_node(L, c->arg[0], DT_COUNT, c->loc);
    if (!x) return val_poison();
    if (c->arg[1].kind == VAL_TENSOR)
        s = *c->arg[1].node->shape;
    else if (!value_shape(L, c->arg[1], c->loc, &s) || !check_shape(L, s, c->loc))
        return val_poison();
    if (t_join_shapes(L, *x->shape, s, &joined) && shape_equal(joined, s)) return val_tensor(t_expand(L, x, s));
    return lower_fail(L, E0203, c->loc, NULL, "broadcast: %s does not extend to %s", shape_text(L->arena, *x->shape),
                      shape_text(L->arena, s));
}

static Value run_reverse(Lower *L, const BuiltinCall *c) {
    Node *x;
    Dim lo[MAX_RANK];
    int64_t step[MAX_RANK];
    int8_t axes[MAX_RANK];
    if (!tensor_arg(L, c, c->arg[0], &x)) return val_poison();
    int n = value_axes(L, c->arg[1], x->shape->rank, c->loc, axes);
    if (n < 0) return val_poison();
    for (int d = 0; d < x->shape->rank; d++) lo[d] = dim_fixed(0), step[d] = 1;
    for (int i = 0; i < n; i++) {
        Dim e = x->shape->dim[axes[i]];
        if (dim_is_fixed(e) && e.bound < 2) continue;
        lo[axes[i]] = dim_add_const(e, -1), step[axes[i]] = -1;
    }
    return val_tensor(t_slice(L, x, lo, step, *x->shape));
}

static Value run_iota(Lower *L, const BuiltinCall *c) {
    Dim n;
    if (!val_as_dim(c->arg[0], &n) || n.bound > INT32_MAX)
        return lower_fail(L, E0205, c->loc, NULL, "iota needs an extent, not %s", val_describe(L->arena, c->arg[0]));
    if (c->arg[2].kind != VAL_INT || c->arg[2].i < 1 || c->arg[2].i > MAX_RANK)
        return lower_fail(L, E0208, c->loc, NULL, "iota: the rank must be in 1 .. %d", MAX_RANK);
    int axis;
    if (!single_axis(L, c, c->arg[1], (int)c->arg[2].i, &axis)) return val_poison();
    Shape s = {.rank = (int)c->arg[2].i};
    for (int d = 0; d < s.rank; d++) s.dim[d] = d == axis ? n : dim_fixed(1);
    return val_tensor(t_iota(L, s, axis));
}

/* ---- parts ------------------------------------------------------------------------------------------------ */

static Node *part_of(Lower *L, Node *x, int axis, Dim start, Dim length) {
    Dim lo[MAX_RANK];
    int64_t step[MAX_RANK];
    Shape s = *x->shape;
    for (int d = 0; d < s.rank; d++) lo[d] = dim_fixed(0), step[d] = 1;
    lo[axis] = start;
    s.dim[axis] = length;
    return t_slice(L, x, lo, step, s);
}

bool part_inside(Value start, Value length, Dim extent, int64_t step) {
    Dim lo, n;
    return val_as_dim(start, &lo) && val_as_dim(length, &n) && dim_part_inside(extent, lo, n, step);
}

static Value run_slice(Lower *L, const BuiltinCall *c) {
    Node *x;
    Dim length, lo;
    Value start = c->arg[1];
    if (!tensor_arg(L, c, c->arg[0], &x)) return val_poison();
    if (x->shape->rank == 0) return lower_fail(L, E0203, c->loc, NULL, "slice: a scalar has no axis");
    if (!val_as_dim(c->arg[2], &length))
        return lower_fail(L, E0205, c->loc, NULL, "slice: the length must be an extent, not %s",
                          val_describe(L->arena, c->arg[2]));
    if (start.kind == VAL_TENSOR && start.node->dtype == DT_I32 && start.node->shape->rank == 0) {
        Shape s = *x->shape;
        s.dim[0] = length;
        if (!check_shape(L, s, c->loc)) return val_poison();
        return val_tensor(t_node(L, OP_SLICE_AT, 2, (Node *[]){x, start.node}, &(Attr){.extent = length}, x->dtype, s));
    }
    if (!val_as_dim(start, &lo))
        return lower_fail(L, E0204, c->loc, NULL,
                          "slice: the start must be a non-negative integer or an i32 scalar, not %s",
                          val_describe(L->arena, start));
    if (!part_inside(start, c->arg[2], x->shape->dim[0], 1))
        return lower_fail(L, E0208, c->loc,
                          lo.sym != NO_SYM || length.sym != NO_SYM || !dim_is_fixed(x->shape->dim[0])
                              ? "the rows must be there for every value of the bounded dimension, which may be 1"
                              : NULL,
                          "slice: rows past the end of %s", shape_text(L->arena, *x->shape));
    return val_tensor(part_of(L, x, 0, lo, length));
}

static Value run_update(Lower *L, const BuiltinCall *c) {
    Node *x, *part;
    if (!tensor_arg(L, c, c->arg[0], &x) || !tensor_arg(L, c, c->arg[1], &part)) return val_poison();
    bool fits = x->shape->rank > 0 && part->shape->rank == x->shape->rank && part->dtype == x->dtype;
    for (int d = 1; fits && d < x->shape->rank; d++) fits = dim_equal(x->shape->dim[d], part->shape->dim[d]);
    if (!fits)
        return lower_fail(L, E0203, c->loc, NULL, "update: %s does not fit into %s but for the first extent",
                          val_describe(L->arena, c->arg[1]), val_describe(L->arena, c->arg[0]));
    Node *start = value_node(L, c->arg[2], DT_I32, c->loc);
    if (!start) return val_poison();
    if (start->shape->rank) return lower_fail(L, E0203, c->loc, NULL, "update: the start must be a scalar");
    return val_tensor(t_node(L, OP_UPDATE_AT, 3, (Node *[]){x, part, start}, NULL, x->dtype, *x->shape));
}

static bool pad_pair(Value v, int64_t *lo, int64_t *hi) {
    if (v.kind != VAL_LIST || v.n != 2 || v.at[0].kind != VAL_INT || v.at[1].kind != VAL_INT) return false;
    *lo = v.at[0].i, *hi = v.at[1].i;
    return *lo >= 0 && *hi >= 0 && *lo <= MAX_ELEMENTS && *hi <= MAX_ELEMENTS;
}

static Value run_pad(Lower *L, const BuiltinCall *c) {
    Node *x;
    Value list = c->arg[1], fill = c->arg[2];
    if (!tensor_arg(L, c, c->arg[0], &x)) return val_poison();
    if (list.kind != VAL_LIST || list.n != x->shape->rank)
        return lower_fail(L, E0203, c->loc, "write pad(x, [[before, after], ..])",
                          "pad needs a pair for each of the %d axes", x->shape->rank);
    if (!val_is_number(fill)) return lower_fail(L, E0209, c->loc, NULL, "pad: the value must be a constant");
    Attr attr = {.value = val_number(fill)};
    Shape s = *x->shape;
    for (int d = 0; d < s.rank; d++) {
        int64_t lo, hi;
        if (!pad_pair(list.at[d], &lo, &hi))
            return lower_fail(L, E0205, c->loc, NULL, "pad: each axis needs two non-negative integers");
        attr.lo[d] = dim_fixed(lo), attr.hi[d] = dim_fixed(hi);
        if (lo || hi) s.dim[d] = dim_add_const(s.dim[d], lo + hi), s.dim[d].name = NULL;
    }
    if (!check_shape(L, s, c->loc)) return val_poison();
    return shape_equal(s, *x->shape) ? val_tensor(x) : val_tensor(t_node(L, OP_PAD, 1, &x, &attr, x->dtype, s));
}

static bool joins(Node *a, Node *b, int axis) {
    if (a->shape->rank != b->shape->rank || a->dtype != b->dtype) return false;
    for (int d = 0; d < a->shape->rank; d++)
        if (d != axis && !dim_equal(a->shape->dim[d], b->shape->dim[d])) return false;
    return true;
}

static Value run_concat(Lower *L, const BuiltinCall *c) {
    int n = c->n_more, axis;
    Value at = c->arg[1];
    if (at.kind == VAL_NONE && n > 1 && c->more[n - 1].kind == VAL_INT) at = c->more[--n]; /* concat(a, b, axis) */
    if (n == 0 || at.kind == VAL_NONE)
        return lower_fail(L, E0202, c->loc, "write concat(a, b, axis = 0)", "concat needs tensors and an axis");
    Node **in = ARENA_ARRAY(L->scratch, Node *, n);
    for (int i = 0; i < n; i++)
        if (!tensor_arg(L, c, c->more[i], &in[i])) return val_poison();
    if (!single_axis(L, c, at, in[0]->shape->rank, &axis)) return val_poison();
    Shape s = *in[0]->shape;
    for (int i = 1; i < n; i++) {
        if (!joins(in[0], in[i], axis) || !dim_add(s.dim[axis], in[i]->shape->dim[axis], &s.dim[axis]))
            return lower_fail(L, E0203, c->loc, NULL, "concat along axis %d: %s and %s do not fit", axis,
                              val_describe(L->arena, c->more[0]), val_describe(L->arena, c->more[i]));
        s.dim[axis].name = NULL;
    }
    if (n == 1) return val_tensor(in[0]);
    if (!check_shape(L, s, c->loc)) return val_poison();
    return val_tensor(t_node(L, OP_CONCAT, n, in, &(Attr){.axis = axis}, in[0]->dtype, s));
}

static Value split_sizes(Lower *L, const BuiltinCall *c, Node *x, int axis, int n, const Value *size) {
    Value *out = ARENA_ARRAY(L->arena, Value, n + 1), start = val_int(0);
    for (int i = 0; i < n; i++) {
        Dim lo, length;
        if (size[i].kind == VAL_INT && size[i].i < 0)
            return lower_fail(L, E0203, c->loc, NULL, "split: part %d has %lld elements", i + 1, (long long)size[i].i);
        const bool inside = part_inside(start, size[i], x->shape->dim[axis], 1);
        if (!inside && !dim_is_fixed(x->shape->dim[axis]))
            return lower_fail(L, E0218, c->loc, NULL,
                              "split: part %d does not lie inside for every value of the bounded dimension, which may be 1", i + 1);
        if (!val_as_dim(size[i], &length) || !val_as_dim(start, &lo) || !inside)
            return lower_fail(L, E0203, c->loc, NULL, "split: the parts do not add up to the extent of axis %d of %s",
                              axis, shape_text(L->arena, *x->shape));
        out[i] = val_tensor(part_of(L, x, axis, lo, length));
        val_dim_combine(start, 1, size[i], 1, &start);
    }
    Value whole = val_dim(x->shape->dim[axis]);
    if (!val_equal(start, whole))
        return lower_fail(L, E0203, c->loc, NULL, "split: the parts do not add up to the extent of axis %d of %s", axis,
                          shape_text(L->arena, *x->shape));
    return (Value){.kind = VAL_TUPLE, .n = n, .at = out};
}

static Value run_split(Lower *L, const BuiltinCall *c) {
    Node *x;
    int axis;
    Value n = c->arg[1];
    if (!tensor_arg(L, c, c->arg[0], &x) || !single_axis(L, c, c->arg[2], x->shape->rank, &axis)) return val_poison();
    if (n.kind == VAL_LIST) return split_sizes(L, c, x, axis, n.n, n.at);
    if (n.kind != VAL_INT || n.i < 1 || n.i > MAX_LIST)
        return lower_fail(L, E0209, c->loc, NULL, "split needs a number of parts or a list of sizes, not %s",
                          val_describe(L->arena, n));
    const Dim d = x->shape->dim[axis];
    const bool divides = dim_is_fixed(d) ? d.bound % n.i == 0 : d.scale % n.i == 0 && d.offset % n.i == 0;
    if (!divides)
        return lower_fail(L, E0203, c->loc, NULL, "split: axis %d of %s does not divide into %lld parts", axis,
                          shape_text(L->arena, *x->shape), (long long)n.i);
    Value *size = ARENA_ARRAY(L->arena, Value, n.i);
    const Value part = dim_is_fixed(d) ? val_int(d.bound / n.i) : dim_divide(L, d, n.i, c->loc);
    for (int64_t i = 0; i < n.i; i++) size[i] = part;
    return split_sizes(L, c, x, axis, (int)n.i, size);
}

const Builtin builtins_move[] = {
    {"reshape", "x shape", run_reshape, OP_RESHAPE, false},
    {"expand_dims", "x axis", run_expand_dims, OP_RESHAPE, false},
    {"transpose", "x perm=none", run_transpose, OP_TRANSPOSE, false},
    {"broadcast", "x shape", run_broadcast, OP_BROADCAST, false},
    {"reverse", "x axis", run_reverse, OP_SLICE, false},
    {"iota", "n axis=0 rank=1", run_iota, OP_IOTA, false},
    {"slice", "x start length", run_slice, OP_SLICE, false},
    {"update", "x part start", run_update, OP_UPDATE_AT, false},
    {"pad", "x widths value=0", run_pad, OP_PAD, false},
    {"concat", "*parts axis=none", run_concat, OP_CONCAT, false},
    {"split", "x n axis", run_split, OP_SLICE, false},
    {0},
};
