/* Expressions: names, constants, methods, fills; diagnostics of the interpreter. */
#include "frontend/lower.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- diagnostics ------------------------------------------------------------------------------- */

static bool already_said(Lower *L, SrcLoc loc, DiagCode code) {
    for (int i = 0; i < L->reported.n; i++) {
        SrcLoc r = L->reported.at[i];
        if (r.file == loc.file && r.line == loc.line && r.col == loc.col && r.end_line == (int)code) return true;
    }
    SrcLoc key = loc;
    key.end_line = (int)code;
    vec_push(L->scratch, L->reported, key);
    return false;
}

/* An error in library code belongs to the user's expression that led there. */
static void say(Lower *L, DiagCode code, SrcLoc loc, const char *help, const char *text) {
    bool inside = loc_in_library(L->diag, loc) && L->loc.line > 0;
    SrcLoc place = inside ? L->loc : loc;
    if (already_said(L, place, code)) return;
    diag_report(L->diag, code, place, "%s", text);
    if (inside) diag_note(L->diag, loc, "here in the library");
    if (help) diag_help(L->diag, "%s", help);
}

Value lower_fail(Lower *L, DiagCode code, SrcLoc loc, const char *help, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    say(L, code, loc, help, arena_vprintf(L->arena, fmt, ap));
    va_end(ap);
    for (Body *b = L->body; b; b = b->up) b->poisoned = true;
    return val_poison();
}

void lower_warn(Lower *L, DiagCode code, SrcLoc loc, const char *help, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    say(L, code, loc, help, arena_vprintf(L->arena, fmt, ap));
    va_end(ap);
}

Value lower_tuple(Lower *L, int n, const Value *at, ValueKind kind) {
    return (Value){.kind = kind, .n = n, .at = arena_dup(L->arena, at, sizeof *at * (size_t)(n ? n : 1))};
}

/* ---- names ----------------------------------------------------------------------------------------- */

Binding *body_find(Body *b, const char *name) {
    for (int i = b ? b->bindings.n - 1 : -1; i >= 0; i--)
        if (strcmp(b->bindings.at[i].name, name) == 0) return &b->bindings.at[i];
    return NULL;
}

void body_bind(Lower *L, const char *name, Value v) {
    Binding *old = body_find(L->body, name);
    if (old)
        *old = (Binding){name, v, -1};
    else
        vec_push(L->scratch, L->body->bindings, (Binding){name, v, -1});
}

/* The text of -D NAME=VALUE as a constant. */
static bool parse_constant(const char *text, Value *out) {
    char *end;
    errno = 0;
    long long i = strtoll(text, &end, 10);
    if (*text && !*end && !errno) return *out = val_int(i), true;
    double f = strtod(text, &end);
    if (*text && !*end && isfinite(f)) return *out = val_float(f), true;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) return *out = val_bool(text[0] == 't'), true;
    *out = val_string(text);
    return true;
}

static const char *kind_name(ValueKind k) {
    return k == VAL_INT     ? "an integer"
           : k == VAL_FLOAT ? "a number"
           : k == VAL_BOOL  ? "true or false"
           : k == VAL_STRING ? "a string"
                             : "not a single value, which no option can give";
}

/* An override keeps the type that the program gives the name. */
static Value overridden(Lower *L, const Global *g, Value own) {
    Value v;
    if (!parse_constant(g->override, &v)) return own;
    if (own.kind == VAL_FLOAT && v.kind == VAL_INT) v = val_float((double)v.i);
    if (own.kind == VAL_STRING) v = val_string(g->override);
    if (own.kind == VAL_POISON || v.kind == own.kind) return v;
    return lower_fail(L, E0307, g->top->name.loc, NULL, "-D %s=%s: '%s' is %s", g->top->name.text, g->override,
                      g->top->name.text, kind_name(own.kind));
}

static Value bounded_dim(Lower *L, const Global *g, int64_t bound) {
    SymDecl s = {g->top->name.text, bound};
    vec_push(L->arena, L->model->syms, s);
    Dim d = {.bound = bound, .sym = L->model->syms.n - 1, .scale = 1, .name = s.name};
    return (Value){.kind = VAL_DIM, .dim = d};
}

static Value global_value(Lower *L, const Global *g) {
    const Top *top = g->top;
    Value v = lower_expr(L, top->value);
    if (g->override) v = overridden(L, g, v);
    if (v.kind == VAL_POISON) return v;
    if (top->kind == TOP_DIM) {
        if (v.kind != VAL_INT || v.i < 0 || (top->bounded && v.i < 1))
            return lower_fail(L, E0205, top->value->loc, NULL, "the dimension '%s' is %s; it must be %s",
                              top->name.text, val_describe(L->arena, v),
                              top->bounded ? "an integer from 1 on: the most that a call may have"
                                           : "a non-negative integer");
        if (v.i > MAX_ELEMENTS)
            return lower_fail(L, E0216, top->value->loc, NULL, "the dimension '%s' is larger than %lld", top->name.text,
                              (long long)MAX_ELEMENTS);
        if (top->bounded) return bounded_dim(L, g, v.i);
        v.text = top->name.text;
        v.inexact = false;
        return v;
    }
    if (v.kind == VAL_TENSOR || v.kind == VAL_TUPLE)
        return lower_fail(L, E0209, top->value->loc, NULL, "'%s' must be a constant, not %s", top->name.text,
                          val_describe(L->arena, v));
    return v;
}

Value lower_global(Lower *L, Global *g) {
    if (g->state == GLOBAL_DONE) return g->value;
    if (g->state == GLOBAL_BUSY)
        return lower_fail(L, E0206, g->top->name.loc, NULL, "'%s' is defined by itself", g->top->name.text);
    g->state = GLOBAL_BUSY;
    Body *body = L->body;
    Body top = {.library = loc_in_library(L->diag, g->top->loc), .target = -1};
    L->body = &top;
    g->value = global_value(L, g);
    L->body = body;
    if (top.poisoned && body) body->poisoned = true;
    g->state = GLOBAL_DONE;
    return g->value;
}

static Value step_value(Lower *L) {
    if (!L->step) {
        Node *i = t_node(L, OP_STEP, 0, NULL, &(Attr){.dtype = DT_I32}, DT_I32, shape_scalar());
        L->step = t_cast(L, i, DT_F32);
    }
    return val_tensor(L->step);
}

static Value named_value(Lower *L, const Expr *e) {
    const char *name = e->name.text;
    Binding *b = body_find(L->body, name);
    if (b) return b->value;
    if (strcmp(name, "training") == 0) return val_bool(L->training);
    if (strcmp(name, "inf") == 0) return val_float(INFINITY);
    if (strcmp(name, "none") == 0) return (Value){.kind = VAL_NONE};
    if (strcmp(name, "all") == 0) return (Value){.kind = VAL_ALL};
    if (strcmp(name, "step") == 0) return step_value(L);
    Global *g = program_value(L->program, name, L->body ? L->body->library : false);
    if (g) return lower_global(L, g);
    return lower_fail(L, E0201, e->loc, "it is bound in a branch that is not taken here",
                      "'%s' has no value at this point", name);
}

/* What was rounded before it got a name was meant so. */
static Value lower_name(Lower *L, const Expr *e) {
    Value v = named_value(L, e);
    if (L->body && L->body->subscript) v.inexact = false;
    return v;
}

/* ---- the rest ------------------------------------------------------------------------------------------- */

bool lower_const_int(Lower *L, const Expr *e, const char *what, int64_t *out) {
    Value v = lower_expr(L, e);
    if (v.kind == VAL_POISON) return false;
    if (v.kind == VAL_INT) return *out = v.i, true;
    lower_fail(L, E0209, e->loc, NULL, "%s must be a constant integer, not %s", what, val_describe(L->arena, v));
    return false;
}

bool lower_condition(Lower *L, const Expr *e, bool *out) {
    Value v = lower_expr(L, e);
    if (v.kind == VAL_POISON) return false;
    if (v.kind == VAL_BOOL) return *out = v.i != 0, true;
    lower_fail(L, E0209, e->loc, v.kind == VAL_TENSOR ? "choose per element with where(condition, a, b)" : NULL,
               "the condition of `if` must be a constant boolean, not %s", val_describe(L->arena, v));
    return false;
}

Value lower_arg_value(Lower *L, const Expr *e) {
    if (e->kind != EXPR_RANGE) return lower_expr(L, e);
    Value at[2] = {lower_expr(L, e->a), lower_expr(L, e->b)};
    if (at[0].kind == VAL_POISON || at[1].kind == VAL_POISON) return val_poison();
    return lower_tuple(L, 2, at, VAL_RANGE);
}

static Value lower_list(Lower *L, const Expr *e) {
    Value *at = ARENA_ARRAY(L->arena, Value, e->list.n + 1);
    if (e->list.n > MAX_LIST)
        return lower_fail(L, E0216, e->loc, NULL, "a list of %d elements; %d are the most", e->list.n, MAX_LIST);
    int64_t depth = 1; /* a list shared at every level of a deep one would take ages to compare */
    for (int i = 0; i < e->list.n; i++) {
        at[i] = lower_expr(L, e->list.at[i]);
        if (at[i].kind == VAL_POISON) return at[i];
        if (at[i].kind == VAL_LIST && at[i].i >= depth) depth = at[i].i + 1;
    }
    if (depth > MAX_LIST_DEPTH)
        return lower_fail(L, E0216, e->loc, NULL, "lists are nested more than %d deep", MAX_LIST_DEPTH);
    return (Value){.kind = VAL_LIST, .n = e->list.n, .at = at, .i = depth};
}

static Value lower_dim_method(Lower *L, const Expr *e, Shape s) {
    if (!e->has_args || e->args.n != 1 || e->args.at[0].name.text)
        return lower_fail(L, E0202, e->loc, "write x.dim(0), or x.dim(-1) for the last", "dim takes one axis");
    int64_t axis;
    if (!lower_const_int(L, e->args.at[0].value, "an axis", &axis)) return val_poison();
    if (axis < -s.rank || axis >= s.rank)
        return lower_fail(L, E0208, e->loc, NULL, "axis %lld of a tensor %s", (long long)axis, shape_text(L->arena, s));
    return val_dim(s.dim[axis < 0 ? axis + s.rank : axis]);
}

static Value lower_method(Lower *L, const Expr *e) {
    Value v = lower_expr(L, e->a);
    if (v.kind == VAL_POISON) return v;
    bool per_element = L->body && L->body->space && v.kind == VAL_TENSOR;
    if (per_element || (v.kind != VAL_TENSOR && !val_is_const_number(v)))
        return lower_fail(L, E0204, e->loc, NULL, "'.%s' needs a tensor, not %s", e->name.text,
                          per_element ? "an element" : val_describe(L->arena, v));
    Shape s = v.kind == VAL_TENSOR ? *v.node->shape : shape_scalar();
    if (strcmp(e->name.text, "rank") == 0 && !e->has_args) return val_int(s.rank);
    if (strcmp(e->name.text, "dim") == 0) return lower_dim_method(L, e, s);
    const char *name = e->name.text;
    const bool called = e->has_args && (builtin_find(name) || program_function(L->program, name, false));
    const char *help = called                       ? arena_printf(L->arena, "write %s(x, ..)", name)
                       : strcmp(name, "T") == 0     ? "write transpose(x)"
                       : strcmp(name, "shape") == 0 ? "write x.dim(0), .."
                                                    : "there are x.dim(i) and x.rank";
    return lower_fail(L, E0201, e->name.loc, help, "a tensor has no '%s'", name);
}

static Value lower_fill(Lower *L, const Expr *e) {
    Shape s;
    if (!lower_shape_list(L, &e->list, &s) || !check_shape(L, s, e->loc)) return val_poison();
    return val_tensor(t_fill(L, DT_F32, s, (double)e->integer));
}

static Value lower_like(Lower *L, const Expr *e) {
    Value v = lower_expr(L, e->a);
    if (v.kind == VAL_POISON) return v;
    if (v.kind == VAL_TENSOR) return val_tensor(t_fill(L, v.node->dtype, *v.node->shape, (double)e->integer));
    if (val_is_number(v)) return val_float((double)e->integer);
    return lower_fail(L, E0204, e->loc, NULL, "`like` needs a tensor, not %s", val_describe(L->arena, v));
}

static Value lower_if_expr(Lower *L, const Expr *e) {
    bool c;
    if (!lower_condition(L, e->a, &c)) return val_poison();
    return lower_results(L, c ? e->b : e->c);
}

static Value eval(Lower *L, const Expr *e, const char *name) {
    switch (e->kind) {
    case EXPR_INT: return val_int(e->integer);
    case EXPR_FLOAT: return val_float(e->number);
    case EXPR_BOOL: return val_bool(e->integer != 0);
    case EXPR_STRING: return val_string(e->name.text);
    case EXPR_NAME: return lower_name(L, e);
    case EXPR_LIST: return lower_list(L, e);
    case EXPR_RANGE: return lower_fail(L, E0215, e->loc, NULL, "a range stands only after `in` and as an argument");
    case EXPR_UNARY: return v_unary(L, e->op, lower_expr(L, e->a), e->loc);
    case EXPR_BINARY: {
        Value a = lower_expr(L, e->a);
        return v_binary(L, e->op, a, lower_expr(L, e->b), e->loc);
    }
    case EXPR_IF: return lower_if_expr(L, e);
    case EXPR_REDUCE: return lower_reduction(L, e);
    case EXPR_CALL: return lower_call(L, e, lower_plain_arg, NULL);
    case EXPR_METHOD: return lower_method(L, e);
    case EXPR_SUBSCRIPT: return lower_subscript(L, e);
    case EXPR_FILL: return lower_fill(L, e);
    case EXPR_LIKE: return lower_like(L, e);
    case EXPR_PARAM: return lower_param(L, e, name);
    case EXPR_HYPER: return lower_hyper(L, e, name);
    }
    return val_poison();
}

static Value eval_placed(Lower *L, const Expr *e, const char *name) {
    if (L->stopped || !e) return val_poison();
    if (L->depth >= MAX_EVAL_DEPTH) {
        L->stopped = true;
        return lower_fail(L, E0216, e->loc, NULL, "expressions and calls are nested too deeply");
    }
    SrcLoc outer = L->loc;
    if (!loc_in_library(L->diag, e->loc)) L->loc = e->loc;
    L->depth++;
    Value v = eval(L, e, name);
    L->depth--;
    L->loc = outer;
    return v;
}

static Value single(Lower *L, const Expr *e, Value v) {
    if (v.kind != VAL_TUPLE) return v;
    return lower_fail(L, E0211, e->loc, "bind them first: a, b = ...", "this gives %d results where one is needed",
                      v.n);
}

Value lower_results(Lower *L, const Expr *e) { return eval_placed(L, e, NULL); }
Value lower_expr(Lower *L, const Expr *e) { return single(L, e, eval_placed(L, e, NULL)); }
Value lower_named(Lower *L, const Expr *e, const char *name) { return single(L, e, eval_placed(L, e, name)); }
