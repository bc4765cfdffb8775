#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include <math.h>
#include <stdarg.h>

bool take(Value *v, int arg) {
    if (arg < 0 || v->nargs == MAX_ARGS) return false;
    v->arg[v->nargs++] = arg;
    return true;
}
Shape flat_shape(int rank, ...) {
    Shape s = {.rank = rank};
    va_list list;
    va_start(list, rank);
    for (int d = 0; d < rank; d++) s.n[d] = va_arg(list, int);
    va_end(list);
    return s;
}

bool propose_f(Gen *g, Value *v) { return take(v, pick(g, D_F, 0, MAX_RANK)); }
bool propose_ff(Gen *g, Value *v) {
    int a = pick(g, D_F, 0, MAX_RANK);
    if (a < 0) return false;
    int b = random_chance(&g->random, 12) ? a : random_chance(&g->random, 20) ? number(g, some_number(g)) : pick_broadcast(g, &g->prog->at[a].shape, D_F);
    if (random_chance(&g->random, 50)) return take(v, a) && take(v, b);
    return take(v, b) && take(v, a);
}
// An argument above 0.3: the square of something and a number.
bool propose_positive(Gen *g, Value *v) {
    int a = pick(g, D_F, 0, MAX_RANK);
    if (a < 0) return false;
    int square = push_value(g, (Value){.op = op_named("mul"), .nargs = 2, .arg = {a, a}, .inlined = true});
    int c = number(g, 0.3);
    if (square < 0 || c < 0) return false;
    return take(v, push_value(g, (Value){.op = op_named("add"), .nargs = 2, .arg = {square, c}, .inlined = true}));
}
// A divisor and exponentials must not run away: what goes in is first brought between -1 and 1.
bool propose_small(Gen *g, Value *v) {
    int a = pick(g, D_F, 0, MAX_RANK);
    return a >= 0 && take(v, push_value(g, (Value){.op = op_named("sin"), .nargs = 1, .arg = {a}, .inlined = true}));
}
bool propose_div(Gen *g, Value *v) {
    Value w = {0};
    int a = pick(g, D_F, 0, MAX_RANK);
    if (!take(v, a) || !propose_positive(g, &w)) return false;
    return take(v, w.arg[0]);
}
bool propose_pow(Gen *g, Value *v) {
    if (!propose_positive(g, v)) return false;
    return take(v, random_chance(&g->random, 60) ? number(g, some_number(g)) : pick_broadcast(g, &g->prog->at[v->arg[0]].shape, D_F));
}
bool propose_powi(Gen *g, Value *v) {
    v->nattrs = 1, v->attr[0] = random_below(&g->random, 5);
    return propose_f(g, v);
}
bool propose_ii(Gen *g, Value *v) {
    int a = pick(g, D_I, 0, MAX_RANK);
    return take(v, a) && take(v, random_chance(&g->random, 15) ? a : pick_broadcast(g, &g->prog->at[a].shape, D_I));
}
bool propose_int_const(Gen *g, Value *v) {
    v->nattrs = 1, v->attr[0] = random_below(&g->random, 9) - 3;
    return take(v, pick(g, D_I, 0, MAX_RANK));
}
bool propose_i(Gen *g, Value *v) { return take(v, pick(g, D_I, 0, MAX_RANK)); }
bool propose_b(Gen *g, Value *v) { return take(v, pick(g, D_B, 0, MAX_RANK)); }
bool propose_bb(Gen *g, Value *v) {
    int a = pick(g, D_B, 0, MAX_RANK);
    return take(v, a) && take(v, pick_broadcast(g, &g->prog->at[a].shape, D_B));
}
// Integers or booleans chosen elementwise.
bool propose_where_any(Gen *g, Value *v) {
    Type type = random_chance(&g->random, 70) ? D_I : D_B;
    int a = pick(g, type, 0, MAX_RANK);
    if (a < 0) return false;
    const Shape *s = &g->prog->at[a].shape;
    return take(v, a) && take(v, pick_broadcast(g, s, type)) && take(v, pick_broadcast(g, s, D_B));
}
bool propose_where(Gen *g, Value *v) {
    if (!propose_ff(g, v)) return false;
    Shape s;
    const Prog *p = g->prog;
    if (!broadcast_shapes(&p->at[v->arg[0]].shape, &p->at[v->arg[1]].shape, &s)) return false;
    return take(v, pick_broadcast(g, &s, D_B));
}
bool propose_number_attr(Gen *g, Value *v) {
    v->number = fabs(some_number(g)) + 0.25;
    return propose_f(g, v);
}

bool infer_same(const Prog *p, Value *v) {
    v->shape = p->at[v->arg[0]].shape;
    v->type = p->at[v->arg[0]].type;
    return true;
}
bool infer_broadcast(const Prog *p, Value *v) {
    v->type = p->at[v->arg[0]].type;
    return v->type == p->at[v->arg[1]].type && broadcast_shapes(&p->at[v->arg[0]].shape, &p->at[v->arg[1]].shape, &v->shape);
}
bool infer_to_float(const Prog *p, Value *v) {
    infer_same(p, v);
    v->type = D_F;
    return true;
}
bool infer_to_int(const Prog *p, Value *v) {
    infer_same(p, v);
    v->type = D_I;
    return true;
}
bool infer_compare(const Prog *p, Value *v) {
    bool ok = infer_broadcast(p, v);
    v->type = D_B;
    return ok;
}
bool infer_where(const Prog *p, Value *v) {
    Shape s;
    if (!infer_broadcast(p, v)) return false;
    s = v->shape;
    return broadcast_shapes(&s, &p->at[v->arg[2]].shape, &v->shape);
}

static Tensor arg(Eval *e, const Value *v, int k) { return e->value[v->arg[k]]; }
static TapeOp code(const Value *v) { return (TapeOp)ops[v->op].code; }

void eval_1(Eval *e, const Value *v, Tensor *out) { *out = t_point1(e, code(v), arg(e, v, 0)); }
void eval_2(Eval *e, const Value *v, Tensor *out) { *out = t_point2(e, code(v), arg(e, v, 0), arg(e, v, 1)); }
void eval_where(Eval *e, const Value *v, Tensor *out) { *out = t_where(e, arg(e, v, 2), arg(e, v, 0), arg(e, v, 1)); }
void eval_to_float(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    *out = tensor_make(e, a.shape, D_F);
    for (int i = 0; i < shape_size(&a.shape); i++) out->id[i] = tape_1(&e->tape, T_COPY, a.id[i]);
}
static Tensor int_const(Eval *e, int x) {
    Tensor t = t_number(e, x);
    t.type = D_I;
    return t;
}
void eval_int_const(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0), c = int_const(e, v->attr[0]);
    if (code(v) == T_IMOD) {
        *out = tensor_make(e, a.shape, D_I);
        for (int i = 0; i < shape_size(&a.shape); i++) out->id[i] = tape_2(&e->tape, T_IMOD, a.id[i], c.id[0]);
        return;
    }
    *out = t_point2(e, code(v), a, c);
}
void eval_mod(Eval *e, const Value *v, Tensor *out) {
    Tensor a = t_broadcast(e, arg(e, v, 0), v->shape), b = t_broadcast(e, arg(e, v, 1), v->shape);
    *out = tensor_make(e, v->shape, D_I);
    for (int i = 0; i < shape_size(&v->shape); i++) out->id[i] = tape_2(&e->tape, T_IMOD, a.id[i], b.id[i]);
}
void eval_powi(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    *out = v->attr[0] ? a : t_broadcast(e, t_number(e, 1), a.shape);
    for (int i = 1; i < v->attr[0]; i++) *out = t_point2(e, T_MUL, *out, a);
}

// The library's pointwise functions, from their definitions.
static Tensor softplus(Eval *e, Tensor x) {
    Tensor zero = t_number(e, 0), away = t_where(e, t_point2(e, T_GE, x, zero), t_point1(e, T_NEG, x), x);
    return t_point2(e, T_ADD, t_point2(e, T_MAX, x, zero), t_point1(e, T_LOG1P, t_point1(e, T_EXP, away)));
}
static Tensor scaled(Eval *e, Tensor x, double by) { return t_point2(e, T_MUL, x, t_number(e, by)); }
static Tensor plus(Eval *e, Tensor x, double by) { return t_point2(e, T_ADD, x, t_number(e, by)); }
static Tensor gelu_tanh(Eval *e, Tensor x) {
    Tensor cube = t_point2(e, T_MUL, t_point2(e, T_MUL, x, x), x);
    Tensor t = t_point1(e, T_TANH, scaled(e, t_point2(e, T_ADD, x, scaled(e, cube, 0.044715)), 0.7978845608028654));
    return t_point2(e, T_MUL, scaled(e, x, 0.5), plus(e, t, 1));
}
static Tensor huber(Eval *e, Tensor d, double delta) {
    Tensor a = t_point1(e, T_ABS, d), line = scaled(e, plus(e, a, -0.5 * delta), delta);
    return t_where(e, t_point2(e, T_LE, a, t_number(e, delta)), scaled(e, t_point2(e, T_MUL, d, d), 0.5), line);
}
static Tensor elu(Eval *e, Tensor x, double alpha) {
    Tensor low = scaled(e, plus(e, t_point1(e, T_EXP, t_point2(e, T_MIN, x, t_number(e, 0))), -1), alpha);
    return t_where(e, t_point2(e, T_GT, x, t_number(e, 0)), x, low);
}
void eval_library(Eval *e, const Value *v, Tensor *out) {
    Tensor x = arg(e, v, 0), zero = t_number(e, 0), positive = t_point2(e, T_GT, x, zero);
    double c = v->number;
    switch (ops[v->op].code) {
    case LIB_RELU: *out = t_where(e, positive, x, zero); break;
    case LIB_LEAKY: *out = t_where(e, positive, x, scaled(e, x, c)); break;
    case LIB_ELU: *out = elu(e, x, c); break;
    case LIB_SILU: *out = t_point2(e, T_MUL, x, t_point1(e, T_SIGMOID, x)); break;
    case LIB_SOFTPLUS: *out = softplus(e, x); break;
    case LIB_LOGSIGMOID: *out = t_point1(e, T_NEG, softplus(e, t_point1(e, T_NEG, x))); break;
    case LIB_GELU: *out = t_point2(e, T_MUL, scaled(e, x, 0.5), plus(e, t_point1(e, T_ERF, scaled(e, x, 0.7071067811865476)), 1)); break;
    case LIB_GELU_TANH: *out = gelu_tanh(e, x); break;
    case LIB_CLAMP: *out = t_point2(e, T_MIN, t_point2(e, T_MAX, x, t_number(e, -c)), t_number(e, c)); break;
    default: *out = huber(e, x, c); break;
    }
}
