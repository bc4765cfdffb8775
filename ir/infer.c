/* Shape and dtype rules, one per op class or op: what operands are legal and what comes out.
 * The front end words its own diagnostics; these messages serve IR text, the verifier and assertions. */
#include "ir/graph.h"
#include "ir/integer.h"
#include <stdlib.h>
#include <string.h>

typedef struct Infer {
    Arena *arena;
    Op op;
    int n;
    Node *const *in;
    const Attr *attr;
    DType dtype;
    Shape shape; /* in: the shape asked for; out: the result's */
    const char *why;
} Infer;

static bool fail(Infer *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(Infer *f, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    f->why = arena_printf(f->arena, "%s: %s", op_info[f->op].text, arena_vprintf(f->arena, fmt, ap));
    va_end(ap);
    return false;
}

static const Shape *shape_of(const Infer *f, int i) { return f->in[i]->shape; }

static bool is_scalar_i32(const Node *n) { return n->dtype == DT_I32 && n->shape->rank == 0; }

/* ---- sources --------------------------------------------------------------------------------- */

static bool infer_source(Infer *f) {
    f->dtype = f->attr->dtype;
    switch (f->op) {
    case OP_HYPER: f->shape = shape_scalar(); return dtype_is_float(f->dtype) || fail(f, "must be floating");
    case OP_STEP:
    case OP_SEED:
    case OP_ACCUMULATE:
    case OP_EXTENT:
        f->shape = shape_scalar();
        return f->dtype == DT_I32 || fail(f, "must be i32, not %s", dtype_name(f->dtype));
    case OP_IOTA:
        if (f->dtype != DT_I32) return fail(f, "must be i32, not %s", dtype_name(f->dtype));
        if (f->attr->axis < 0 || f->attr->axis >= f->shape.rank) return fail(f, "no axis %d", f->attr->axis);
        return true;
    case OP_RANDOM:
        if (!is_scalar_i32(f->in[0]) || !is_scalar_i32(f->in[1])) return fail(f, "seed and step must be i32 scalars");
        return dtype_is_float(f->dtype) || fail(f, "must be floating, not %s", dtype_name(f->dtype));
    default: return true;
    }
}

/* ---- elementwise ------------------------------------------------------------------------------ */

static bool check_dtype(Infer *f, DType t, OpOperands want) {
    static const char *const words[] = {"any", "a number", "floating", "bool"};
    bool ok = want == OPERANDS_ANY || (want == OPERANDS_TRUTH && t == DT_BOOL) ||
              (want == OPERANDS_NUMBER && t != DT_BOOL) || (want == OPERANDS_FLOATING && dtype_is_float(t));
    return ok || fail(f, "operand must be %s, not %s", words[want], dtype_name(t));
}

static bool infer_element(Infer *f) {
    if (f->op == OP_PHILOX) return fail(f, "belongs to Tile IR");
    int data = f->op == OP_SELECT ? 1 : 0; /* the first operand that carries the result's dtype */
    if (data && f->in[0]->dtype != DT_BOOL) {
        return fail(f, "condition must be bool, not %s", dtype_name(f->in[0]->dtype));
    }
    DType t = f->in[data]->dtype;
    if (!check_dtype(f, t, op_info[f->op].operands)) return false;
    for (int i = 1; i < f->n; i++) {
        if (i > data && f->in[i]->dtype != t) {
            return fail(f, "operands are %s and %s", dtype_name(t), dtype_name(f->in[i]->dtype));
        }
        if (!shape_equal(*shape_of(f, 0), *shape_of(f, i))) {
            return fail(f, "operands are %s and %s", shape_text(f->arena, *shape_of(f, 0)),
                        shape_text(f->arena, *shape_of(f, i)));
        }
    }
    f->shape = *shape_of(f, 0);
    OpType type = op_info[f->op].type;
    f->dtype = type == TYPE_BOOL ? DT_BOOL : type == TYPE_I32 ? DT_I32 : type == TYPE_ATTR ? f->attr->dtype : t;
    return true;
}

/* ---- movement ------------------------------------------------------------------------------------ */

/* The number of elements as a polynomial in the symbols, in its unique factorisation: a constant and
 * primitive factors scale * S + offset, sorted. */
typedef struct Count {
    int64_t constant;
    int n;
    Dim factor[MAX_RANK];
} Count;

static int compare_factors(const void *pa, const void *pb) {
    const Dim *a = pa, *b = pb;
    if (a->sym != b->sym) return a->sym < b->sym ? -1 : 1;
    if (a->scale != b->scale) return a->scale < b->scale ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static Count count_elements(Shape s) {
    Count c = {0};
    Dim constant = dim_fixed(1);
    for (int i = 0; i < s.rank; i++) {
        Dim d = s.dim[i];
        if (dim_is_fixed(d)) {
            constant = dim_mul_const(constant, d.bound);
            continue;
        }
        int64_t common = gcd64(d.scale, d.offset);
        constant = dim_mul_const(constant, common);
        c.factor[c.n++] = (Dim){.sym = d.sym, .scale = d.scale / common, .offset = d.offset / common};
    }
    c.constant = constant.bound;
    if (c.constant == 0) c.n = 0;
    qsort(c.factor, (size_t)c.n, sizeof c.factor[0], compare_factors);
    return c;
}

static bool same_count(Shape a, Shape b) {
    Count x = count_elements(a), y = count_elements(b);
    if (x.constant != y.constant || x.n != y.n) return false;
    for (int i = 0; i < x.n; i++) {
        if (compare_factors(&x.factor[i], &y.factor[i]) != 0) return false;
    }
    return true;
}

static bool infer_reshape(Infer *f) {
    if (same_count(f->shape, *shape_of(f, 0))) return true;
    return fail(f, "%s and %s differ in elements", shape_text(f->arena, *shape_of(f, 0)),
                shape_text(f->arena, f->shape));
}

static bool infer_transpose(Infer *f) {
    const Shape *x = shape_of(f, 0);
    if (f->attr->n_axes != x->rank) return fail(f, "%d axes for rank %d", f->attr->n_axes, x->rank);
    unsigned seen = 0;
    f->shape.rank = x->rank;
    for (int d = 0; d < x->rank; d++) {
        int from = f->attr->axes[d];
        if (from < 0 || from >= x->rank || seen >> from & 1) return fail(f, "axes are no permutation");
        seen |= 1u << from;
        f->shape.dim[d] = x->dim[from];
    }
    return true;
}

static bool infer_broadcast(Infer *f) {
    const Shape *x = shape_of(f, 0);
    if (f->attr->n_axes != x->rank) return fail(f, "%d axes for rank %d", f->attr->n_axes, x->rank);
    for (int d = 0, least = 0; d < x->rank; d++) {
        int to = f->attr->axes[d];
        if (to < least || to >= f->shape.rank) return fail(f, "axes must increase and lie in the result");
        if (!dim_equal(x->dim[d], f->shape.dim[to])) {
            return fail(f, "%s does not fit %s", shape_text(f->arena, *x), shape_text(f->arena, f->shape));
        }
        least = to + 1;
    }
    return true;
}

static bool is_small(Dim d) {
    const int64_t limit = MAX_ELEMENTS;
    if (d.bound > limit || d.bound < -limit) return false;
    return dim_is_fixed(d) ||
           (d.scale <= limit && d.scale >= -limit && d.offset <= limit && d.offset >= -limit && d.scale != 0);
}

static bool slice_axis(Infer *f, int d) {
    Dim x = shape_of(f, 0)->dim[d], lo = f->attr->lo[d], n = f->attr->hi[d];
    int64_t step = f->attr->step[d];
    if (step == 0) return fail(f, "step 0");
    if (!is_small(lo) || !is_small(n) || n.bound < 0) return fail(f, "axis %d: bad start or length", d);
    const int64_t sym = !dim_is_fixed(x) ? x.sym : !dim_is_fixed(n) ? n.sym : lo.sym;
    if ((!dim_is_fixed(n) && n.sym != sym) || (!dim_is_fixed(lo) && lo.sym != sym)) return fail(f, "axis %d: two symbols", d);
    if (dim_part_inside(x, lo, n, step)) return true;
    return fail(f, "axis %d reads outside %s", d, shape_text(f->arena, *shape_of(f, 0)));
}

static bool infer_slice(Infer *f) {
    f->shape.rank = shape_of(f, 0)->rank;
    for (int d = 0; d < f->shape.rank; d++) {
        if (!slice_axis(f, d)) return false;
        f->shape.dim[d] = f->attr->hi[d];
    }
    return true;
}

static bool infer_pad(Infer *f) {
    f->shape = *shape_of(f, 0);
    for (int d = 0; d < f->shape.rank; d++) {
        Dim lo = f->attr->lo[d], hi = f->attr->hi[d];
        if (!dim_is_fixed(lo) || !dim_is_fixed(hi) || lo.bound < 0 || hi.bound < 0 || !is_small(lo) || !is_small(hi)) {
            return fail(f, "axis %d: bad width", d);
        }
        if (lo.bound + hi.bound > 0) f->shape.dim[d] = dim_add_const(f->shape.dim[d], lo.bound + hi.bound);
    }
    return true;
}

static bool infer_concat(Infer *f) {
    f->shape = *shape_of(f, 0);
    int axis = f->attr->axis;
    if (axis < 0 || axis >= f->shape.rank) return fail(f, "no axis %d", axis);
    for (int i = 1; i < f->n; i++) {
        const Shape *x = shape_of(f, i);
        bool fits = x->rank == f->shape.rank && f->in[i]->dtype == f->in[0]->dtype;
        for (int d = 0; fits && d < x->rank; d++) fits = d == axis || dim_equal(x->dim[d], f->shape.dim[d]);
        if (!fits || !dim_add(f->shape.dim[axis], x->dim[axis], &f->shape.dim[axis])) {
            return fail(f, "operand %d does not fit the first", i);
        }
    }
    return true;
}

static bool infer_slice_at(Infer *f) {
    f->shape = *shape_of(f, 0);
    if (f->shape.rank == 0) return fail(f, "needs an axis");
    if (!is_scalar_i32(f->in[1])) return fail(f, "start must be an i32 scalar");
    f->shape.dim[0] = f->attr->extent;
    return true;
}

static bool infer_update_at(Infer *f) {
    f->shape = *shape_of(f, 0);
    Shape part = *shape_of(f, 1);
    if (f->shape.rank == 0 || part.rank != f->shape.rank) return fail(f, "ranks differ or are 0");
    if (f->in[1]->dtype != f->in[0]->dtype) return fail(f, "dtypes differ");
    if (!is_scalar_i32(f->in[2])) return fail(f, "start must be an i32 scalar");
    part.dim[0] = f->shape.dim[0];
    return shape_equal(part, f->shape) || fail(f, "the part's rows differ from the tensor's");
}

static bool infer_move(Infer *f) {
    f->dtype = f->in[0]->dtype;
    switch (f->op) {
    case OP_RESHAPE: return infer_reshape(f);
    case OP_TRANSPOSE: return infer_transpose(f);
    case OP_BROADCAST: return infer_broadcast(f);
    case OP_SLICE: return infer_slice(f);
    case OP_PAD: return infer_pad(f);
    case OP_CONCAT: return infer_concat(f);
    case OP_SLICE_AT: return infer_slice_at(f);
    case OP_UPDATE_AT: return infer_update_at(f);
    default: return fail(f, "has no shape rule");
    }
}

/* ---- reductions ------------------------------------------------------------------------------------ */

static bool infer_scan(Infer *f, Shape x) {
    const bool linear = f->attr->scan == SCAN_LINEAR;
    f->shape = x;
    if (f->n != 1 + linear) return fail(f, "takes %d operands, not %d", 1 + linear, f->n);
    if (linear && (f->in[1]->dtype != f->dtype || !shape_equal(*shape_of(f, 1), x))) return fail(f, "has operands of different types");
    if (linear && (f->attr->exclusive || !dtype_is_float(f->dtype))) return fail(f, "is of floats and not exclusive, where it is linear");
    return (f->attr->axis >= 0 && f->attr->axis < x.rank) || fail(f, "no axis %d", f->attr->axis);
}

static bool infer_reduce(Infer *f) {
    Shape x = *shape_of(f, 0);
    f->dtype = f->op == OP_ARGMAX ? DT_I32 : f->in[0]->dtype;
    if (!check_dtype(f, f->in[0]->dtype, OPERANDS_NUMBER)) return false;
    if (f->op == OP_SCAN) return infer_scan(f, x);
    if (f->attr->n_axes < 0 || f->attr->n_axes > x.rank) return fail(f, "too many axes");
    f->shape = shape_scalar();
    int next = 0;
    for (int d = 0; d < x.rank; d++) {
        if (next < f->attr->n_axes && f->attr->axes[next] == d) {
            next++;
        } else {
            f->shape.dim[f->shape.rank++] = x.dim[d];
        }
    }
    return next == f->attr->n_axes || fail(f, "axes must increase and exist");
}

/* ---- contraction --------------------------------------------------------------------------------------- */

/* Values must stay far from overflow, and coefficients of loops that do not exist must be 0. */
static bool check_affine(Infer *f, const Contract *c, const Affine *e) {
    const int64_t limit = (int64_t)1 << 60;
    int64_t reach = 0, product;
    if (e->divisor < 1) return fail(f, "divisor must be at least 1");
    if (e->c > limit || e->c < -limit || e->divisor > limit) return fail(f, "an index can overflow");
    for (int l = 0; l < MAX_LOOPS; l++) {
        int64_t k = e->coef[l];
        if (l >= c->n_loops && k != 0) return fail(f, "index uses a loop that does not exist");
        if (k > limit || k < -limit) return fail(f, "an index can overflow");
        if (l >= c->n_loops || k == 0) continue;
        if (__builtin_mul_overflow(k < 0 ? -k : k, c->extent[l].bound, &product) || product > limit - reach) {
            return fail(f, "an index can overflow");
        }
        reach += product;
    }
    return true;
}

static bool check_loops(Infer *f, const Contract *c) {
    if (c->n_operands != f->n) return fail(f, "%d index maps for %d operands", c->n_operands, f->n);
    if (c->n_loops < 0 || c->n_loops > MAX_LOOPS) return fail(f, "%d loops", c->n_loops);
    if (c->n_out < 0 || c->n_out > c->n_loops || c->n_out > MAX_RANK) return fail(f, "%d output loops", c->n_out);
    int64_t terms = 1;
    for (int l = 0; l < c->n_loops; l++) {
        Dim d = c->extent[l];
        if (!is_small(d) || d.bound < 0 || (!dim_is_fixed(d) && d.scale < 1))
            return fail(f, "bad extent of loop %d", l);
        if (__builtin_mul_overflow(terms, d.bound, &terms) || terms > (int64_t)1 << 60) {
            return fail(f, "too many terms");
        }
    }
    return true;
}

static bool check_guards(Infer *f, const Contract *c) {
    if (c->n_guards < 0) return fail(f, "negative number of guards");
    for (int i = 0; i < c->n_guards; i++) {
        const Guard *g = &c->guard[i];
        if (g->kind != GUARD_RANGE && g->kind != GUARD_EQ) return fail(f, "unknown kind of guard %d", i);
        if (!check_affine(f, c, &g->e)) return false;
        if (g->kind == GUARD_EQ && g->e.divisor != 1) return fail(f, "an equality has no divisor");
        if (g->kind == GUARD_RANGE && (!is_small(g->hi) || !is_small(dim_fixed(g->lo))))
            return fail(f, "bad end of guard %d", i);
    }
    return true;
}

static bool infer_contract(Infer *f) {
    const Contract *c = f->attr->contract;
    if (!c) return fail(f, "has no index maps");
    f->dtype = f->in[0]->dtype;
    if (!check_dtype(f, f->dtype, OPERANDS_NUMBER) || !check_loops(f, c) || !check_guards(f, c)) return false;
    for (int i = 0; i < f->n; i++) {
        if (f->in[i]->dtype != f->dtype) return fail(f, "dtypes of operands differ");
        for (int d = 0; d < shape_of(f, i)->rank; d++) {
            if (!check_affine(f, c, &c->map[i][d])) return false;
        }
    }
    f->shape = shape_make(c->n_out, c->extent);
    if (c->to_f32 && !dtype_is_float(f->dtype)) return fail(f, "a result f32 needs floating operands");
    if (c->to_f32 || f->dtype == DT_TF32) f->dtype = DT_F32;
    return true;
}

/* ---- indexed, special -------------------------------------------------------------------------------------- */

static bool infer_gather(Infer *f) {
    const Shape *table = shape_of(f, 0), *ids = shape_of(f, 1);
    f->dtype = f->in[0]->dtype;
    if (f->in[1]->dtype != DT_I32) return fail(f, "ids must be i32, not %s", dtype_name(f->in[1]->dtype));
    if (table->rank < 1) return fail(f, "the table needs an axis");
    if (ids->rank + table->rank - 1 > MAX_RANK) return fail(f, "more than %d axes", MAX_RANK);
    f->shape = *ids;
    for (int d = 1; d < table->rank; d++) f->shape.dim[f->shape.rank++] = table->dim[d];
    return true;
}

static bool infer_scatter(Infer *f) {
    const Shape *updates = shape_of(f, 0), *ids = shape_of(f, 1);
    f->dtype = f->op == OP_SCATTER_ARGMAX ? DT_I32 : f->in[0]->dtype;
    if (!check_dtype(f, f->in[0]->dtype, OPERANDS_NUMBER)) return false;
    if (f->in[1]->dtype != DT_I32) return fail(f, "ids must be i32, not %s", dtype_name(f->in[1]->dtype));
    if (updates->rank < ids->rank) return fail(f, "ids have more axes than updates");
    if (1 + updates->rank - ids->rank > MAX_RANK) return fail(f, "more than %d axes", MAX_RANK);
    for (int d = 0; d < ids->rank; d++) {
        if (!dim_equal(ids->dim[d], updates->dim[d])) {
            return fail(f, "ids %s do not lead updates %s", shape_text(f->arena, *ids), shape_text(f->arena, *updates));
        }
    }
    f->shape = (Shape){.rank = 1, .dim = {f->attr->extent}};
    for (int d = ids->rank; d < updates->rank; d++) f->shape.dim[f->shape.rank++] = updates->dim[d];
    if (f->n < 3) return true;
    const int64_t places = f->attr->extent.bound + 1 + shape_elements(*ids);
    const bool fits = f->in[2]->dtype == DT_I32 && shape_of(f, 2)->rank == 1 && dim_equal(shape_of(f, 2)->dim[0], dim_fixed(places));
    return fits || fail(f, "the third operand is not %lld buckets", (long long)places);
}

/* Rows and one more, then a place for each id. */
static bool infer_bucket(Infer *f) {
    const Shape *ids = shape_of(f, 0);
    int64_t n = 1;
    f->dtype = DT_I32;
    if (f->in[0]->dtype != DT_I32) return fail(f, "ids must be i32, not %s", dtype_name(f->in[0]->dtype));
    if (!shape_is_fixed(*ids) || !dim_is_fixed(f->attr->extent)) return fail(f, "ids and rows need fixed extents");
    for (int d = 0; d < ids->rank; d++) n *= ids->dim[d].bound;
    f->shape = (Shape){.rank = 1, .dim = {dim_fixed(f->attr->extent.bound + 1 + n)}};
    return true;
}

static bool infer_indexed(Infer *f) {
    switch (f->op) {
    case OP_GATHER: return infer_gather(f);
    case OP_BUCKET: return infer_bucket(f);
    default: return (f->n == 2 || f->n == 3 ? infer_scatter(f) : fail(f, "takes updates, ids and perhaps their buckets"));
    }
}

/* All axes but the batch. */
static void append_axes(Shape *to, const Shape *from, int batch) {
    for (int d = 0; d < from->rank; d++)
        if (d != batch) to->dim[to->rank++] = from->dim[d];
}

static bool infer_jacobian(Infer *f) {
    const Shape *y = shape_of(f, 0), *x = shape_of(f, 1);
    const int batch = f->attr->axis;
    f->dtype = f->in[0]->dtype;
    f->shape = shape_scalar();
    if (f->in[1]->dtype != f->dtype) return fail(f, "dtypes differ");
    if (batch < -1 || batch >= y->rank || batch >= x->rank) return fail(f, "no axis %d", batch);
    if (y->rank + x->rank - (batch >= 0) > MAX_RANK) return fail(f, "more than %d axes", MAX_RANK);
    if (batch >= 0 && !dim_equal(y->dim[batch], x->dim[batch])) return fail(f, "extents of the batch differ");
    if (batch >= 0) f->shape.dim[f->shape.rank++] = y->dim[batch];
    append_axes(&f->shape, y, batch);
    append_axes(&f->shape, x, batch);
    return check_dtype(f, f->dtype, OPERANDS_FLOATING);
}

static bool infer_special(Infer *f) {
    if (f->op == OP_JACOBIAN) return infer_jacobian(f);
    const Node *shaped = f->in[f->op == OP_STOP_GRADIENT ? 0 : 1];
    f->dtype = shaped->dtype;
    f->shape = *shaped->shape;
    if (f->op == OP_STOP_GRADIENT) return true;
    const bool scalar = f->in[0]->shape->rank == 0;
    if (!dtype_is_float(f->in[0]->dtype) || (f->op == OP_GRADIENT && !scalar))
        return fail(f, "of a floating %s only", f->op == OP_GRADIENT ? "scalar" : "value");
    if (f->op == OP_VJP && (f->in[2]->dtype != f->in[0]->dtype || !shape_equal(*shape_of(f, 2), *shape_of(f, 0))))
        return fail(f, "the third operand must be like the first");
    return check_dtype(f, f->dtype, OPERANDS_FLOATING);
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

static bool (*const rule[])(Infer *) = {
    [CLASS_SOURCE] = infer_source,   [CLASS_ELEMENT] = infer_element,   [CLASS_MOVE] = infer_move,
    [CLASS_REDUCE] = infer_reduce,   [CLASS_CONTRACT] = infer_contract, [CLASS_INDEXED] = infer_indexed,
    [CLASS_SPECIAL] = infer_special,
};

static bool check_result(Infer *f) {
    if (f->shape.rank < 0 || f->shape.rank > MAX_RANK) return fail(f, "more than %d axes", MAX_RANK);
    for (int d = 0; d < f->shape.rank; d++) {
        Dim x = f->shape.dim[d];
        if (!is_small(x) || x.bound < 0 || (!dim_is_fixed(x) && x.scale < 1))
            return fail(f, "bad extent of axis %d", d);
    }
    int64_t elements;
    return shape_elements_checked(f->shape, &elements) || fail(f, "too many elements");
}

bool graph_infer(Arena *a, Op op, int n_in, Node *const *in, const Attr *attr, DType *dtype, Shape *shape,
                 const char **why) {
    static const Attr none = {0};
    Infer f = {.arena = a, .op = op, .n = n_in, .in = in, .attr = attr ? attr : &none, .shape = *shape};
    int arity = op_info[op].arity;
    bool ok = arity < 0 ? n_in >= 1 : n_in == arity;
    if (!ok) fail(&f, "takes %d operands, not %d", arity < 0 ? 1 : arity, n_in);
    ok = ok && (op != OP_RESHAPE && op != OP_BROADCAST && op_info[op].cls != CLASS_SOURCE ? true : check_result(&f));
    ok = ok && rule[op_info[op].cls](&f) && check_result(&f);
    *dtype = f.dtype;
    *shape = f.shape;
    *why = f.why;
    return ok;
}
