/* Tensor building: nodes with places, broadcasting, elementwise operators, casts, matrix products. */
#include "frontend/lower.h"
#include <math.h>
#include <string.h>

Node *t_new_node(Lower *L, Op op, int n, Node *const *in, const Attr *attr, DType t, Shape s) {
    if (L->g->nodes.n >= L->most_nodes && !L->stopped) {
        lower_fail(L, E0216, L->loc, "smaller repeat counts keep the graph in bounds",
                   "the program needs more than %d operations", MAX_NODES);
        L->stopped = true;
    }
    Node *node = graph_node(L->g, op, n, in, attr, t, s);
    node->loc = L->loc;
    node->phase = L->phase;
    if (op_has_precision(op) && L->phase == PHASE_FORWARD) node->precision = L->precision;
    return node;
}

Node *t_node(Lower *L, Op op, int n, Node *const *in, const Attr *attr, DType t, Shape s) {
    return shared_node(L, op, n, in, attr, t, s);
}

Node *t_const(Lower *L, DType t, Shape s, double v) {
    return t_node(L, OP_CONST, 0, NULL, &(Attr){.dtype = t, .value = v}, t, s);
}

Node *t_fill(Lower *L, DType t, Shape s, double v) {
    return t_new_node(L, OP_CONST, 0, NULL, &(Attr){.dtype = t, .value = v}, t, s);
}

static DType result_dtype(Op op, Node *a, Node *second) {
    OpType type = op_info[op].type;
    return type == TYPE_BOOL ? DT_BOOL : type == TYPE_I32 ? DT_I32 : type == TYPE_SECOND ? second->dtype : a->dtype;
}

Node *t_unary(Lower *L, Op op, Node *a) { return t_node(L, op, 1, &a, NULL, result_dtype(op, a, a), *a->shape); }

Node *t_binary(Lower *L, Op op, Node *a, Node *b) {
    return t_node(L, op, 2, (Node *[]){a, b}, NULL, result_dtype(op, a, b), *a->shape);
}

Node *t_select(Lower *L, Node *c, Node *a, Node *b) {
    return t_node(L, OP_SELECT, 3, (Node *[]){c, a, b}, NULL, a->dtype, *a->shape);
}

Node *t_cast(Lower *L, Node *a, DType t) {
    if (a->dtype == t) return a;
    if (is_number(L, a) && t != DT_I32) {
        const double v = a->attr->value;
        return t_const(L, t, *a->shape, t == DT_BOOL ? v != 0 : dtype_is_low(t) ? scalar_round(t, v) : v);
    }
    return t_node(L, OP_CAST, 1, &a, &(Attr){.dtype = t}, t, *a->shape);
}

Node *t_reshape(Lower *L, Node *a, Shape s) {
    if (shape_equal(*a->shape, s)) return a;
    if (is_number(L, a)) return t_const(L, a->dtype, s, a->attr->value);
    return t_node(L, OP_RESHAPE, 1, &a, NULL, a->dtype, s);
}

static Attr axes_attr(int n, const int8_t *axes) {
    Attr attr = {.n_axes = n};
    for (int i = 0; i < n; i++) attr.axes[i] = axes[i];
    return attr;
}

Node *t_transpose(Lower *L, Node *a, const int8_t *perm) {
    Attr attr = axes_attr(a->shape->rank, perm);
    Shape s = {.rank = a->shape->rank};
    bool identity = true;
    for (int d = 0; d < s.rank; d++) {
        s.dim[d] = a->shape->dim[perm[d]];
        identity &= perm[d] == d;
    }
    if (identity) return a;
    if (is_number(L, a)) return t_const(L, a->dtype, s, a->attr->value);
    return t_node(L, OP_TRANSPOSE, 1, &a, &attr, a->dtype, s);
}

Node *t_broadcast(Lower *L, Node *a, Shape s, const int8_t *axes) {
    if (a->shape->rank == s.rank) return a;
    if (is_number(L, a)) return t_const(L, a->dtype, s, a->attr->value);
    Attr attr = axes_attr(a->shape->rank, axes);
    return t_node(L, OP_BROADCAST, 1, &a, &attr, a->dtype, s);
}

Node *t_expand(Lower *L, Node *a, Shape s) {
    if (shape_equal(*a->shape, s)) return a;
    if (is_number(L, a)) return t_const(L, a->dtype, s, a->attr->value);
    Shape kept = {0};
    int8_t axes[MAX_RANK];
    int shift = s.rank - a->shape->rank;
    if (a->op == OP_IOTA && dim_equal(a->shape->dim[a->attr->axis], s.dim[a->attr->axis + shift]))
        return t_iota(L, s, a->attr->axis + shift);
    for (int d = 0; d < a->shape->rank; d++) {
        if (dim_is_unit(a->shape->dim[d]) && !dim_is_unit(s.dim[d + shift])) continue;
        axes[kept.rank] = (int8_t)(d + shift);
        kept.dim[kept.rank++] = a->shape->dim[d];
    }
    return t_broadcast(L, t_reshape(L, a, kept), s, axes);
}

Node *t_reduce(Lower *L, Op op, Node *a, int n, const int8_t *axes) {
    if (n == 0 && op != OP_ARGMAX) return a;
    Attr attr = axes_attr(n, axes);
    Shape s = {0};
    for (int d = 0; d < a->shape->rank; d++) {
        bool reduced = false;
        for (int i = 0; i < n; i++) reduced |= axes[i] == d;
        if (!reduced) s.dim[s.rank++] = a->shape->dim[d];
    }
    return t_node(L, op, 1, &a, &attr, result_dtype(op, a, a), s);
}

Node *t_iota(Lower *L, Shape s, int axis) {
    return t_node(L, OP_IOTA, 0, NULL, &(Attr){.axis = axis, .dtype = DT_I32}, DT_I32, s);
}

Node *t_extent(Lower *L, Dim d) {
    if (dim_is_fixed(d)) return t_const(L, DT_I32, shape_scalar(), (double)d.bound);
    return t_node(L, OP_EXTENT, 0, NULL, &(Attr){.extent = d, .dtype = DT_I32}, DT_I32, shape_scalar());
}

Node *t_slice(Lower *L, Node *a, const Dim *lo, const int64_t *step, Shape s) {
    bool whole = shape_equal(*a->shape, s);
    Attr attr = {0};
    for (int d = 0; d < s.rank; d++) {
        attr.lo[d] = lo[d], attr.hi[d] = s.dim[d], attr.step[d] = step[d];
        whole &= step[d] == 1 && dim_is_fixed(lo[d]) && lo[d].bound == 0;
    }
    return whole ? a : t_node(L, OP_SLICE, 1, &a, &attr, a->dtype, s);
}

Node *t_stack(Lower *L, int n, Node *const *at, int axis) {
    Node **part = ARENA_ARRAY(L->scratch, Node *, n);
    const Shape *each = at[0]->shape;
    Shape one = {.rank = each->rank + 1}, all;
    for (int d = 0; d < one.rank; d++) one.dim[d] = d == axis ? dim_fixed(1) : each->dim[d - (d > axis)];
    all = one;
    all.dim[axis] = dim_fixed(n);
    for (int i = 0; i < n; i++) part[i] = t_reshape(L, at[i], one);
    return n == 1 ? part[0] : t_node(L, OP_CONCAT, n, part, &(Attr){.axis = axis}, at[0]->dtype, all);
}

static bool has_at_most(Lower *L, Shape s, int64_t limit, SrcLoc loc) {
    if (shape_elements(s) <= limit) return true;
    lower_fail(L, E0216, loc, NULL, "a tensor %s has more than %lld elements", shape_text(L->arena, s), (long long)limit);
    return false;
}

bool check_shape(Lower *L, Shape s, SrcLoc loc) {
    for (int d = 0; d < s.rank; d++)
        if (s.dim[d].bound > MAX_ELEMENTS) {
            lower_fail(L, E0216, loc, NULL, "a tensor %s has an extent larger than %lld", shape_text(L->arena, s),
                       (long long)MAX_ELEMENTS);
            return false;
        }
    return has_at_most(L, s, MAX_COMPUTED, loc);
}

bool check_declared(Lower *L, Shape s, SrcLoc loc) { return check_shape(L, s, loc) && has_at_most(L, s, MAX_ELEMENTS, loc); }

bool check_contract(Lower *L, int n, Node *const *in, const Attr *attr, SrcLoc loc) {
    DType t;
    Shape s;
    const char *why;
    if (graph_infer(L->arena, OP_CONTRACT, n, in, attr, &t, &s, &why)) return true;
    lower_fail(L, E0216, loc, "split it into sums with fewer or shorter indices",
               "this sum of products passes a limit: %s", why);
    return false;
}

/* ---- broadcasting --------------------------------------------------------------------------- */

static bool join_dims(Dim a, Dim b, Dim *out) {
    if (dim_equal(a, b))
        *out = a.name ? a : b;
    else if (dim_is_unit(a))
        *out = b;
    else if (dim_is_unit(b))
        *out = a;
    else
        return false;
    return true;
}

bool t_join_shapes(Lower *L, Shape a, Shape b, Shape *out) {
    (void)L;
    if (a.rank < b.rank) {
        Shape t = a;
        a = b, b = t;
    }
    int shift = a.rank - b.rank;
    *out = a;
    for (int d = 0; d < b.rank; d++)
        if (!join_dims(a.dim[d + shift], b.dim[d], &out->dim[d + shift])) return false;
    return true;
}

static const char *shapes_text(Lower *L, int n, const Value *v) {
    const char *text = "";
    for (int i = 0, k = 0; i < n; i++)
        if (v[i].kind == VAL_TENSOR) {
            const char *sep = k++ ? " and " : "";
            text = arena_printf(L->arena, "%s%s%s", text, sep, shape_text(L->arena, *v[i].node->shape));
        }
    return text;
}

static bool unify_shapes(Lower *L, int n, const Value *v, Shape *out, const char *what, SrcLoc loc) {
    *out = shape_scalar();
    for (int i = 0; i < n; i++) {
        Shape joined;
        if (v[i].kind != VAL_TENSOR) continue;
        if (!t_join_shapes(L, *out, *v[i].node->shape, &joined)) {
            lower_fail(L, E0203, loc, "extents must be equal or 1, aligned at the right", "%s: shapes %s do not fit",
                       what, shapes_text(L, n, v));
            return false;
        }
        *out = joined;
    }
    return check_shape(L, *out, loc);
}

/* ---- element types --------------------------------------------------------------------------- */

DType value_dtype(Value v) {
    switch (v.kind) {
    case VAL_TENSOR: return v.node->dtype;
    case VAL_BOOL: return DT_BOOL;
    case VAL_FLOAT: return DT_F32;
    case VAL_INT:
    case VAL_DIM: return DT_I32;
    default: return DT_COUNT;
    }
}

static Node *dim_node(Lower *L, Value v, DType t, SrcLoc loc) {
    if (t == DT_I32) return t_extent(L, v.dim);
    lower_fail(L, E0204, loc, "write float(n)",
               "a bounded extent is an integer of run time; it does not convert by itself");
    return NULL;
}

static Node *int_node(Lower *L, Value v, DType t, SrcLoc loc) {
    if (t == DT_I32 && (v.i > INT32_MAX || v.i < INT32_MIN)) {
        lower_fail(L, E0210, loc, NULL, "the integer %lld does not fit in i32", (long long)v.i);
        return NULL;
    }
    if (v.inexact && dtype_is_float(t))
        lower_warn(L, W0201, loc, "write one side as a float, for instance 1.0/2",
                   "an integer quotient that was rounded down meets a float");
    return t_const(L, t, shape_scalar(), (double)v.i);
}

Node *value_node(Lower *L, Value v, DType t, SrcLoc loc) {
    if (v.kind == VAL_POISON) return NULL;
    DType own = value_dtype(v);
    if (t == DT_COUNT) t = own;
    if (v.kind == VAL_TENSOR && own == t) return v.node;
    if (v.kind == VAL_BOOL && t == DT_BOOL) return t_const(L, t, shape_scalar(), (double)v.i);
    if (v.kind == VAL_FLOAT && dtype_is_float(t)) return t_const(L, t, shape_scalar(), v.f);
    if (v.kind == VAL_DIM) return dim_node(L, v, t, loc);
    if (v.kind == VAL_INT && t != DT_BOOL && t != DT_COUNT) return int_node(L, v, t, loc);
    const char *help = t == DT_BOOL        ? "compare it, for instance x != 0"
                       : dtype_is_float(t) ? "write float(x)"
                                           : "write int(x)";
    if (own == DT_COUNT) help = v.kind == VAL_LIST ? "`repeat i in 0..n { emit list[i] }` makes a tensor of its n elements" : NULL;
    lower_fail(L, E0204, loc, help, "expected %s, not %s", t == DT_COUNT ? "a tensor or a number" : dtype_name(t),
               val_describe(L->arena, v));
    return NULL;
}

/* The dtype that n operands meet in: that of the tensors, which must agree; floats win among constants. */
static bool meet_dtype(Lower *L, int n, const Value *v, DType *out, const char *what, SrcLoc loc) {
    DType t = DT_COUNT;
    for (int i = 0; i < n; i++) {
        if (v[i].kind == VAL_POISON) return false;
        if (v[i].kind != VAL_TENSOR) continue;
        if (t != DT_COUNT && t != v[i].node->dtype) {
            lower_fail(L, E0204, loc, "convert one side with float(x) or int(x)", "%s: %s meets %s", what,
                       dtype_name(t), dtype_name(v[i].node->dtype));
            return false;
        }
        t = v[i].node->dtype;
    }
    for (int i = 0; i < n && t == DT_I32; i++)
        if (v[i].kind == VAL_FLOAT) {
            lower_fail(L, E0204, loc, "write float(x) of the integer tensor",
                       "%s: an integer tensor meets the float %g", what, v[i].f);
            return false;
        }
    for (int i = 0; i < n && t == DT_COUNT; i++)
        if (v[i].kind == VAL_FLOAT) t = DT_F32;
    *out = t != DT_COUNT ? t : value_dtype(v[0]);
    return true;
}

bool v_unify(Lower *L, int n, const Value *v, Node **out, const char *what, SrcLoc loc) {
    DType t;
    Shape s = shape_scalar();
    if (!meet_dtype(L, n, v, &t, what, loc)) return false;
    if (!unify_shapes(L, n, v, &s, what, loc)) return false;
    for (int i = 0; i < n; i++) {
        Node *node = value_node(L, v[i], t, loc);
        if (!node) return false;
        out[i] = t_expand(L, node, s);
    }
    return true;
}

/* ---- operators --------------------------------------------------------------------------------- */

static const struct {
    Op op;
    const char *what;
} ast_ops[] = {
    [AST_NEG] = {OP_NEG, "-"},         [AST_NOT] = {OP_NOT, "not"}, [AST_ADD] = {OP_ADD, "+"},
    [AST_SUB] = {OP_SUB, "-"},         [AST_MUL] = {OP_MUL, "*"},   [AST_DIV] = {OP_DIV, "/"},
    [AST_MATMUL] = {OP_CONTRACT, "@"}, [AST_POW] = {OP_POW, "^"},   [AST_EQ] = {OP_EQ, "=="},
    [AST_NE] = {OP_NE, "!="},          [AST_LT] = {OP_LT, "<"},     [AST_GT] = {OP_GT, ">"},
    [AST_LE] = {OP_LE, "<="},          [AST_GE] = {OP_GE, ">="},    [AST_AND] = {OP_AND, "and"},
    [AST_OR] = {OP_OR, "or"},
};

/* What an elementwise op accepts: booleans have logic and equality, integers have no transcendentals. */
static bool check_domain(Lower *L, Op op, DType t, const char *what, SrcLoc loc) {
    bool logic = op == OP_AND || op == OP_OR || op == OP_NOT, equality = op == OP_EQ || op == OP_NE;
    bool integral = op == OP_NEG || op == OP_ABS || op == OP_SIGN || op == OP_FLOOR || op == OP_CEIL ||
                    (op >= OP_ADD && op <= OP_MOD) || op == OP_MAX || op == OP_MIN || (op >= OP_EQ && op <= OP_GE);
    if (logic && t != DT_BOOL) {
        lower_fail(L, E0204, loc, "compare it, for instance x != 0", "'%s' needs booleans, not %s", what,
                   dtype_name(t));
        return false;
    }
    if (t == DT_BOOL && !logic && !equality) {
        lower_fail(L, E0204, loc, "write float(x) or int(x)", "'%s' is not defined on booleans", what);
        return false;
    }
    if (t == DT_I32 && !integral) {
        lower_fail(L, E0204, loc, "write float(x)", "'%s' needs floats, not integers", what);
        return false;
    }
    return true;
}

Value v_pointwise(Lower *L, Op op, int n, const Value *v, const char *what, SrcLoc loc) {
    Node *in[3];
    if (!v_unify(L, n, v, in, what, loc) || !check_domain(L, op, in[0]->dtype, what, loc)) return val_poison();
    return val_tensor(n == 1 ? t_unary(L, op, in[0]) : t_binary(L, op, in[0], in[1]));
}

/* x^n for a constant integer n is repeated multiplication, so that it is defined for negative x. */
static Value integer_power(Lower *L, Node *x, int64_t n) {
    if (n == 0) return val_tensor(t_const(L, x->dtype, *x->shape, 1));
    uint64_t k = n < 0 ? (uint64_t)-n : (uint64_t)n;
    Node *r = NULL, *square = x;
    for (; k; k >>= 1) {
        if (k & 1) r = r ? t_binary(L, OP_MUL, r, square) : square;
        if (k > 1) square = t_binary(L, OP_MUL, square, square);
    }
    return val_tensor(n < 0 ? t_binary(L, OP_DIV, t_const(L, x->dtype, *x->shape, 1), r) : r);
}

enum { MAX_UNROLLED_POWER = 64 };

/* none, all and strings equal nothing but themselves, a tensor neither. */
static bool is_word(Value v) { return v.kind == VAL_NONE || v.kind == VAL_ALL || v.kind == VAL_STRING; }

Value v_binary(Lower *L, AstOp op, Value a, Value b, SrcLoc loc) {
    if (a.kind == VAL_POISON || b.kind == VAL_POISON) return val_poison();
    if (op == AST_MATMUL) return v_matmul(L, a, b, loc);
    if ((op == AST_EQ || op == AST_NE) && (is_word(a) || is_word(b))) return const_binary(L, op, a, b, loc);
    if (a.kind != VAL_TENSOR && b.kind != VAL_TENSOR) return const_binary(L, op, a, b, loc);
    bool power = op == AST_POW && b.kind == VAL_INT && b.i >= -MAX_UNROLLED_POWER && b.i <= MAX_UNROLLED_POWER;
    if (power && (dtype_is_float(a.node->dtype) || (a.node->dtype == DT_I32 && b.i >= 0)))
        return integer_power(L, a.node, b.i);
    return v_pointwise(L, ast_ops[op].op, 2, (Value[]){a, b}, ast_ops[op].what, loc);
}

Value v_unary(Lower *L, AstOp op, Value a, SrcLoc loc) {
    if (a.kind == VAL_POISON) return a;
    if (a.kind != VAL_TENSOR) return const_unary(L, op, a, loc);
    return v_pointwise(L, ast_ops[op].op, 1, &a, ast_ops[op].what, loc);
}

Value v_cast(Lower *L, Value v, DType t, SrcLoc loc) {
    if (v.kind == VAL_POISON) return v;
    if (v.kind == VAL_TENSOR) return val_tensor(t_cast(L, v.node, t));
    if (v.kind == VAL_DIM) return val_tensor(t_cast(L, t_extent(L, v.dim), t));
    if (v.kind == VAL_STRING || !val_is_const_number(v))
        return lower_fail(L, E0204, loc, NULL, "cannot convert %s", val_describe(L->arena, v));
    if (t != DT_I32) return val_float(val_number(v));
    double x = trunc(val_number(v));
    if (!(fabs(x) < 9.2e18)) return lower_fail(L, E0210, loc, NULL, "%g does not fit in an integer", x);
    return val_int(v.kind == VAL_FLOAT ? (int64_t)x : v.i);
}

/* ---- matrix product ------------------------------------------------------------------------------- */

static Value matmul_mismatch(Lower *L, Node *a, Node *b, const char *why, SrcLoc loc) {
    const Shape l = *a->shape, r = *b->shape;
    const bool transposed = l.rank > 1 && r.rank > 1 && dim_equal(l.dim[l.rank - 1], r.dim[r.rank - 1]);
    return lower_fail(L, E0203, loc, transposed ? "transpose(x) swaps the last two axes" : NULL,
                      "@: shapes %s and %s do not fit: %s", shape_text(L->arena, l), shape_text(L->arena, r), why);
}

/* Batch subscripts of one operand: its own dims, aligned at the right of the result's batch; 1 reads index 0. */
static void map_batch(Affine *map, Shape s, int batch, const Dim *out, int n_out) {
    for (int d = 0; d < batch; d++) {
        int loop = n_out - batch + d;
        map[d] = (Affine){.divisor = 1};
        if (!dim_is_unit(s.dim[d]) || dim_is_unit(out[loop])) map[d].coef[loop] = 1;
    }
}

static void map_dim(Affine *map, int loop) {
    *map = (Affine){.divisor = 1};
    map->coef[loop] = 1;
}

/* Two float tensors of one type, at least vectors, outside indexed definitions; false: reported. */
static bool check_matmul(Lower *L, Value a, Value b, SrcLoc loc) {
    if (a.kind != VAL_TENSOR || b.kind != VAL_TENSOR)
        lower_fail(L, E0204, loc, "use * to multiply by a number", "@ needs two tensors, not %s",
                   val_describe(L->arena, a.kind != VAL_TENSOR ? a : b));
    else if (!dtype_is_float(a.node->dtype) || a.node->dtype != b.node->dtype)
        lower_fail(L, E0204, loc, "write float(x)", "@ needs floats, not %s and %s", dtype_name(a.node->dtype),
                   dtype_name(b.node->dtype));
    else if (a.node->shape->rank == 0 || b.node->shape->rank == 0)
        matmul_mismatch(L, a.node, b.node, "a scalar has no matrix product; use *", loc);
    else if (L->body && L->body->space)
        lower_fail(L, E0215, loc, "write the product as a sum over an index", "@ inside an indexed definition");
    else
        return true;
    return false;
}

Value v_matmul(Lower *L, Value av, Value bv, SrcLoc loc) {
    if (!check_matmul(L, av, bv, loc)) return val_poison();
    Node *a = av.node, *b = bv.node;
    int ra = a->shape->rank, rb = b->shape->rank;
    int batch_a = ra > 2 ? ra - 2 : 0, batch_b = rb > 2 ? rb - 2 : 0;
    Shape sa = {.rank = batch_a}, sb = {.rank = batch_b}, out;
    memcpy(sa.dim, a->shape->dim, sizeof sa.dim);
    memcpy(sb.dim, b->shape->dim, sizeof sb.dim);
    Dim ka = a->shape->dim[ra - 1], kb = b->shape->dim[rb == 1 ? 0 : rb - 2];
    if (!dim_equal(ka, kb))
        return matmul_mismatch(L, a, b, "the last extent of the left is not the second last of the right", loc);
    if (!t_join_shapes(L, sa, sb, &out)) return matmul_mismatch(L, a, b, "the batch extents differ", loc);
    int batch = out.rank, row = -1, col = -1;
    if (ra > 1) row = out.rank, out.dim[out.rank++] = a->shape->dim[ra - 2];
    if (rb > 1 && out.rank < MAX_RANK) col = out.rank, out.dim[out.rank++] = b->shape->dim[rb - 1];
    if (!check_shape(L, out, loc)) return val_poison();
    Contract c = {.n_loops = out.rank + 1, .n_out = out.rank, .n_operands = 2};
    memcpy(c.extent, out.dim, sizeof(Dim) * (size_t)out.rank);
    c.extent[out.rank] = ka;
    c.map = arena_alloc(L->scratch, 2 * sizeof *c.map);
    map_batch(c.map[0], *a->shape, batch_a, out.dim, batch);
    map_batch(c.map[1], *b->shape, batch_b, out.dim, batch);
    map_dim(&c.map[0][ra - 1], out.rank);
    if (row >= 0) map_dim(&c.map[0][ra - 2], row);
    map_dim(&c.map[1][rb == 1 ? 0 : rb - 2], out.rank);
    if (col >= 0) map_dim(&c.map[1][rb - 1], col);
    Attr attr = {.contract = &c};
    if (!check_contract(L, 2, (Node *[]){a, b}, &attr, loc)) return val_poison();
    return val_tensor(t_node(L, OP_CONTRACT, 2, (Node *[]){a, b}, &attr, a->dtype, out));
}
