/* Built-in functions: the table's access, pointwise functions, reductions, random numbers. */
#include "frontend/lower.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Builtin *const tables[] = {builtins_math, builtins_move, builtins_derivative};
enum { N_TABLES = sizeof tables / sizeof *tables };

const Builtin *builtin_find(const char *name) {
    for (int t = 0; t < N_TABLES; t++)
        for (const Builtin *b = tables[t]; b->name; b++)
            if (strcmp(b->name, name) == 0) return b;
    return NULL;
}

int builtin_names(const char **out, int max) {
    int n = 0;
    for (int t = 0; t < N_TABLES; t++)
        for (const Builtin *b = tables[t]; b->name && n < max; b++) out[n++] = b->name;
    return n;
}

static Value default_value(const char *text, size_t n) {
    static const struct {
        const char *text;
        Value value;
    } words[] = {{"all", {.kind = VAL_ALL}},
                 {"none", {.kind = VAL_NONE}},
                 {"true", {.kind = VAL_BOOL, .i = 1}},
                 {"false", {.kind = VAL_BOOL, .i = 0}}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].text) == n && strncmp(words[i].text, text, n) == 0) return words[i].value;
    return val_int(strtoll(text, NULL, 10));
}

bool builtin_formal(const Builtin *b, int i, char name[32], bool *variadic, bool *has_default, Value *value) {
    const char *p = b->formals;
    for (; i > 0 && p; i--) {
        p = strchr(p, ' ');
        if (p) p++;
    }
    if (!p || !*p) return false;
    *variadic = *p == '*';
    if (*variadic) p++;
    size_t n = strcspn(p, " "), key = strcspn(p, " =");
    memcpy(name, p, key < 31 ? key : 31);
    name[key < 31 ? key : 31] = '\0';
    *has_default = p[key] == '=';
    if (*has_default) *value = default_value(p + key + 1, n - key - 1);
    return true;
}

/* ---- pointwise ----------------------------------------------------------------------------------- */

/* Constants fold with the reference semantics of the op. */
static Value run_unary(Lower *L, const BuiltinCall *c) {
    Value x = c->arg[0];
    if (x.kind == VAL_DIM) x = val_tensor(t_extent(L, x.dim));
    if (x.kind == VAL_TENSOR) return v_pointwise(L, c->builtin->op, 1, &x, c->builtin->name, c->loc);
    bool keeps_int = c->builtin->op == OP_ABS || c->builtin->op == OP_SIGN || c->builtin->op == OP_FLOOR ||
                     c->builtin->op == OP_CEIL;
    if (x.kind == VAL_INT && keeps_int) {
        if (c->builtin->op == OP_FLOOR || c->builtin->op == OP_CEIL) return x;
        if (c->builtin->op == OP_SIGN) return val_int((x.i > 0) - (x.i < 0));
        return x.i < 0 ? const_unary(L, AST_NEG, x, c->loc) : x;
    }
    if (!val_is_number(x))
        return lower_fail(L, E0204, c->loc, NULL, "'%s' needs a number or a tensor, not %s", c->builtin->name,
                          val_describe(L->arena, x));
    double in[4] = {val_number(x)};
    const double y = scalar_op(c->builtin->op, DT_F64, in);
    return op_info[c->builtin->op].type == TYPE_I32 ? val_int((int64_t)y) : val_float(y);
}

static Value run_stop_gradient(Lower *L, const BuiltinCall *c) {
    Value x = c->arg[0];
    return x.kind == VAL_TENSOR ? val_tensor(t_unary(L, OP_STOP_GRADIENT, x.node)) : x;
}

static Value run_float(Lower *L, const BuiltinCall *c) { return v_cast(L, c->arg[0], DT_F32, c->loc); }
static Value run_int(Lower *L, const BuiltinCall *c) { return v_cast(L, c->arg[0], DT_I32, c->loc); }

static Value run_is_integer(Lower *L, const BuiltinCall *c) {
    (void)L;
    return val_bool(c->arg[0].kind == VAL_INT);
}

static Value run_is_float(Lower *L, const BuiltinCall *c) {
    (void)L;
    const Value x = c->arg[0];
    return val_bool(x.kind == VAL_TENSOR ? dtype_is_float(x.node->dtype) : x.kind == VAL_FLOAT);
}

/* The program's own refusal.  It is about the call of the function that it stands in, or of the library. */
static Value run_fail(Lower *L, const BuiltinCall *c) {
    Value text = c->arg[0], found = c->arg[1];
    if (text.kind != VAL_STRING)
        return lower_fail(L, E0204, c->loc, NULL, "'fail' needs a message, not %s", val_describe(L->arena, text));
    SrcLoc place = L->body && L->body->call.line > 0 ? L->body->call : c->loc;
    if (loc_in_library(L->diag, place) && L->loc.line > 0) place = L->loc;
    if (found.kind == VAL_NONE) return lower_fail(L, E0220, place, NULL, "%s", text.text);
    return lower_fail(L, E0220, place, NULL, "%s, not %s", text.text, val_describe(L->arena, found));
}

static Value run_floor_div(Lower *L, const BuiltinCall *c) {
    Value q = v_binary(L, AST_DIV, c->arg[0], c->arg[1], c->loc);
    q.inexact = false;
    if (q.kind == VAL_FLOAT) return val_float(floor(q.f));
    if (q.kind == VAL_TENSOR && dtype_is_float(q.node->dtype)) return val_tensor(t_unary(L, OP_FLOOR, q.node));
    return q;
}

static Value run_mod(Lower *L, const BuiltinCall *c) {
    Value a = c->arg[0], b = c->arg[1];
    if (a.kind == VAL_TENSOR || b.kind == VAL_TENSOR) return v_pointwise(L, OP_MOD, 2, c->arg, "mod", c->loc);
    Value q = run_floor_div(L, c);
    if (q.kind == VAL_POISON) return q;
    return v_binary(L, AST_SUB, a, v_binary(L, AST_MUL, q, b, c->loc), c->loc);
}

static Value run_where(Lower *L, const BuiltinCall *c) {
    Value cond = c->arg[0];
    Node *branch[2];
    if (cond.kind != VAL_TENSOR && cond.kind != VAL_BOOL)
        return lower_fail(L, E0204, c->loc, "compare it, for instance x != 0",
                          "the condition of 'where' must be boolean, not %s", val_describe(L->arena, cond));
    if (cond.kind == VAL_BOOL && c->arg[1].kind != VAL_TENSOR && c->arg[2].kind != VAL_TENSOR)
        return c->arg[cond.i ? 1 : 2];
    if (value_dtype(cond) != DT_BOOL)
        return lower_fail(L, E0204, c->loc, "compare it, for instance x != 0",
                          "the condition of 'where' must be boolean, not %s", val_describe(L->arena, cond));
    if (!v_unify(L, 2, &c->arg[1], branch, "where", c->loc)) return val_poison();
    Node *mask = value_node(L, cond, DT_BOOL, c->loc);
    Shape s;
    if (!t_join_shapes(L, *mask->shape, *branch[0]->shape, &s))
        return lower_fail(L, E0203, c->loc, NULL, "where: the condition %s does not fit the values %s",
                          shape_text(L->arena, *mask->shape), shape_text(L->arena, *branch[0]->shape));
    if (!check_shape(L, s, c->loc)) return val_poison();
    Node *no = t_expand(L, branch[1], s), *yes = t_expand(L, branch[0], s), *where = t_expand(L, mask, s);
    return val_tensor(t_select(L, where, yes, no));
}

/* ---- reductions ------------------------------------------------------------------------------------- */

/* Where the mask does not hold an element counts as the identity. */
static Node *masked(Lower *L, const BuiltinCall *c, Op op, Node *x, Value where) {
    if (where.kind == VAL_ALL) return x;
    Node *mask = value_node(L, where, DT_BOOL, c->loc);
    if (!mask) return NULL;
    Shape s;
    if (!t_join_shapes(L, *mask->shape, *x->shape, &s) || !shape_equal(s, *x->shape)) {
        lower_fail(L, E0203, c->loc, NULL, "%s: the mask %s does not fit %s", c->builtin->name,
                   shape_text(L->arena, *mask->shape), shape_text(L->arena, *x->shape));
        return NULL;
    }
    Node *identity = t_const(L, x->dtype, s, scalar_identity(op, x->dtype)), *kept = t_expand(L, mask, s);
    return t_select(L, kept, x, identity);
}

static Node *keep_axes(Lower *L, Node *r, Shape s, int n, const int8_t *axes) {
    for (int i = 0; i < n; i++) s.dim[axes[i]] = dim_fixed(1);
    return t_reshape(L, r, s);
}

/* argmax under a mask: no identity is less than all that may be kept, so that the first of what is kept and is the greatest
 * value, or no number, is looked for. */
static Node *first_greatest(Lower *L, const BuiltinCall *c, Node *x, Value where, int n, const int8_t *axes) {
    Node *in = masked(L, c, OP_RMAX, x, where);
    if (!in) return NULL;
    Node *most = t_expand(L, keep_axes(L, t_reduce(L, OP_RMAX, in, n, axes), *x->shape, n, axes), *x->shape);
    Node *kept = t_expand(L, value_node(L, where, DT_BOOL, c->loc), *x->shape), *is = t_binary(L, OP_EQ, x, most);
    if (x->dtype != DT_I32) is = t_binary(L, OP_OR, is, t_binary(L, OP_NE, x, x));
    return t_reduce(L, OP_ARGMAX, t_cast(L, t_binary(L, OP_AND, kept, is), DT_F32), n, axes);
}

static Value reduce(Lower *L, const BuiltinCall *c, Value x, const Value *rest) {
    if (x.kind == VAL_POISON) return x;
    if (x.kind != VAL_TENSOR || x.node->dtype == DT_BOOL)
        return lower_fail(L, E0204, c->loc, x.kind == VAL_TENSOR ? "write int(x) or float(x)" : NULL,
                          "'%s' needs a tensor of numbers, not %s", c->builtin->name, val_describe(L->arena, x));
    int8_t axes[MAX_RANK];
    int n = value_axes(L, rest[0], x.node->shape->rank, c->loc, axes);
    if (n < 0) return val_poison();
    if (rest[1].kind != VAL_BOOL)
        return lower_fail(L, E0209, c->loc, NULL, "keep must be true or false, not %s",
                          val_describe(L->arena, rest[1]));
    const bool apart = c->builtin->op == OP_ARGMAX && rest[2].kind != VAL_ALL;
    Node *in = apart ? NULL : masked(L, c, c->builtin->op, x.node, rest[2]);
    Node *r = apart ? first_greatest(L, c, x.node, rest[2], n, axes) : in ? t_reduce(L, c->builtin->op, in, n, axes) : NULL;
    if (!r) return val_poison();
    return val_tensor(rest[1].i ? keep_axes(L, r, *x.node->shape, n, axes) : r);
}

static Value run_reduce(Lower *L, const BuiltinCall *c) { return reduce(L, c, c->arg[0], &c->arg[1]); }

/* max and min of several values are elementwise, of one tensor a reduction. */
static Value run_extreme(Lower *L, const BuiltinCall *c) {
    if (c->n_more == 1) return reduce(L, c, c->more[0], &c->arg[1]);
    bool least = c->builtin->op == OP_RMIN;
    if (c->n_more == 0) return lower_fail(L, E0202, c->loc, NULL, "'%s' needs an argument", c->builtin->name);
    Value best = c->more[0];
    for (int i = 1; i < c->n_more && best.kind != VAL_POISON; i++) {
        Value pair[2] = {best, c->more[i]};
        if (best.kind == VAL_TENSOR || pair[1].kind == VAL_TENSOR) {
            best = v_pointwise(L, least ? OP_MIN : OP_MAX, 2, pair, c->builtin->name, c->loc);
            continue;
        }
        Value first = const_binary(L, least ? AST_LE : AST_GE, pair[0], pair[1], c->loc);
        best = first.kind == VAL_POISON ? first : first.i ? pair[0] : pair[1];
    }
    return best;
}

static Value run_scan(Lower *L, const BuiltinCall *c) {
    int8_t axes[MAX_RANK];
    Value x = c->arg[0];
    if (x.kind != VAL_TENSOR || x.node->dtype == DT_BOOL)
        return lower_fail(L, E0204, c->loc, NULL, "'%s' needs a tensor of numbers, not %s", c->builtin->name,
                          val_describe(L->arena, x));
    int n = value_axes(L, c->arg[1], x.node->shape->rank, c->loc, axes);
    if (n < 0) return val_poison();
    if (n != 1) return lower_fail(L, E0208, c->loc, NULL, "'%s' runs along one axis", c->builtin->name);
    if (c->arg[2].kind != VAL_BOOL || c->arg[3].kind != VAL_BOOL)
        return lower_fail(L, E0209, c->loc, NULL, "reverse and exclusive are true or false");
    Attr attr = {.axis = axes[0], .reverse = c->arg[2].i, .exclusive = c->arg[3].i};
    attr.scan = strcmp(c->builtin->name, "cumsum") == 0 ? SCAN_SUM : SCAN_PROD;
    return val_tensor(t_node(L, OP_SCAN, 1, &x.node, &attr, x.node->dtype, *x.node->shape));
}

/* How many elements the axes hold: a constant, or an i32 tensor when an extent is bounded. */
static Value run_size(Lower *L, const BuiltinCall *c) {
    Value x = c->arg[0];
    int8_t axes[MAX_RANK];
    if (x.kind != VAL_TENSOR) return lower_fail(L, E0204, c->loc, NULL, "'size' needs a tensor");
    int n = value_axes(L, c->arg[1], x.node->shape->rank, c->loc, axes);
    if (n < 0) return val_poison();
    Value r = val_int(1);
    for (int i = 0; i < n; i++) {
        Value d = val_dim(x.node->shape->dim[axes[i]]);
        if (d.kind == VAL_DIM) d = val_tensor(t_extent(L, d.dim));
        r = v_binary(L, AST_MUL, r, d, c->loc);
    }
    return r;
}

/* ---- order ------------------------------------------------------------------------------------------------- */

/* Positions of ids, those of the ids 0 first; those outside 0..n are in one more bucket. */
static Value run_counting_sort(Lower *L, const BuiltinCall *c) {
    const Value n = c->arg[1];
    Node *ids = value_node(L, c->arg[0], DT_I32, c->loc);
    if (!ids) return val_poison();
    if (!shape_is_fixed(*ids->shape)) return lower_fail(L, E0203, c->loc, NULL, "counting_sort: ids need fixed extents");
    const int64_t most = MOST_BUCKETED, all = shape_elements(*ids->shape);
    if (n.kind != VAL_INT || n.i < 0 || n.i > most || all > most)
        return lower_fail(L, E0209, c->loc, NULL, "counting_sort: n is a number of 0 to %d, as is the number of ids; n is %s", (int)most, val_describe(L->arena, n));
    Node *zero = t_const(L, DT_I32, *ids->shape, 0), *other = t_const(L, DT_I32, *ids->shape, (double)n.i);
    Node *inside = t_binary(L, OP_AND, t_binary(L, OP_GE, ids, zero), t_binary(L, OP_LT, ids, other));
    Node *own = t_select(L, inside, ids, other);
    const int64_t first = n.i + 2; /* places before the positions */
    const Shape s = {.rank = 1, .dim = {dim_fixed(first + all)}}, positions = {.rank = 1, .dim = {dim_fixed(all)}};
    Node *buckets = t_node(L, OP_BUCKET, 1, &own, &(Attr){.extent = dim_fixed(n.i + 1)}, DT_I32, s);
    return val_tensor(t_slice(L, buckets, (Dim[]){dim_fixed(first)}, (int64_t[]){1}, positions));
}

/* ---- random numbers ------------------------------------------------------------------------------------ */

static Value run_uniform(Lower *L, const BuiltinCall *c) {
    Shape s;
    if (c->arg[0].kind == VAL_TENSOR)
        s = *c->arg[0].node->shape;
    else if (!value_shape(L, c->arg[0], c->loc, &s))
        return val_poison();
    if (!check_shape(L, s, c->loc)) return val_poison();
    if (!L->seed) L->seed = t_node(L, OP_SEED, 0, NULL, &(Attr){.dtype = DT_I32}, DT_I32, shape_scalar());
    Node *step = lower_starts(L) ? t_const(L, DT_I32, shape_scalar(), 0)
                                        : t_node(L, OP_STEP, 0, NULL, &(Attr){.dtype = DT_I32}, DT_I32, shape_scalar());
    Node *r = t_node(L, OP_RANDOM, 2, (Node *[]){L->seed, step}, &(Attr){.dtype = DT_F32}, DT_F32, s);
    vec_push(L->scratch, L->dropouts, r);
    return val_tensor(r);
}

#define REDUCTION "x axis=all keep=false where=all"
const Builtin builtins_math[] = {
#define OP(...)
#define CALL_FUNCTION(e, text) {text, "x", run_unary, OP_##e, true},
#define CALL_OTHER(e, text)
#define ELEMENT(e, text, arity, type, jac, operands, cost, code, ulps, exact, call) CALL_##call(e, text)
#include "ir/ops.def"
#undef OP
#undef CALL_FUNCTION
#undef CALL_OTHER
    {"stop_gradient", "x", run_stop_gradient, OP_STOP_GRADIENT, true},
    {"float", "x", run_float, OP_CAST, true},
    {"int", "x", run_int, OP_CAST, true},
    {"floor_div", "a b", run_floor_div, OP_DIV, true},
    {"mod", "a b", run_mod, OP_MOD, true},
    {"is_integer", "x", run_is_integer, OP_CONST, false},
    {"is_float", "x", run_is_float, OP_CONST, false},
    {"fail", "message found=none", run_fail, OP_CONST, false},
    {"where", "condition a b", run_where, OP_SELECT, true},
    {"max", "*" REDUCTION, run_extreme, OP_RMAX, true},
    {"min", "*" REDUCTION, run_extreme, OP_RMIN, true},
    {"sum", REDUCTION, run_reduce, OP_SUM, false},
    {"prod", REDUCTION, run_reduce, OP_PROD, false},
    {"argmax", REDUCTION, run_reduce, OP_ARGMAX, false},
    {"cumsum", "x axis=-1 reverse=false exclusive=false", run_scan, OP_SCAN, false},
    {"cumprod", "x axis=-1 reverse=false exclusive=false", run_scan, OP_SCAN, false},
    {"size", "x axis=all", run_size, OP_EXTENT, false},
    {"counting_sort", "ids n", run_counting_sort, OP_BUCKET, false},
    {"uniform", "shape", run_uniform, OP_RANDOM, false},
    {0},
};
