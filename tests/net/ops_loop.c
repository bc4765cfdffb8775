// Loops that are unrolled, states, and the number of the step.
#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include "tests/net/scan.h"
#include <string.h>

static Tensor arg(Eval *e, const Value *v, int k) { return e->value[v->arg[k]]; }
static const Shape *shape_of(const Prog *p, const Value *v, int k) { return &p->at[v->arg[k]].shape; }
enum { L_PLAIN, L_SWAP, L_SCALE, L_LINEAR };

bool owns(const Prog *p, int id) {
    const Value *v = &p->at[id];
    const char *name = ops[v->op].name;
    bool own = strstr(ops[v->op].dsl, "%L") || !strcmp(name, "state") || !strcmp(name, "cache") || (!strcmp(name, "repeat") && v->attr[1] >= L_SCALE);
    for (int k = 0; k < v->nargs; k++) own |= p->at[v->arg[k]].inlined && owns(p, v->arg[k]);
    return own;
}

// attrs: how often, form
bool propose_repeat(Gen *g, Value *v) {
    int a = pick(g, D_F, 1, 3);
    if (a < 0) return false;
    const Shape *s = &g->prog->at[a].shape;
    v->nattrs = 2, v->attr[0] = random_below(&g->random, 4), v->attr[1] = random_below(&g->random, 4);
    int b = v->attr[1] == L_SWAP ? fresh(g, D_F, *s) : pick_broadcast(g, s, D_F);
    return take(v, a) && take(v, b);
}
bool infer_repeat(const Prog *p, Value *v) {
    Shape s = *shape_of(p, v, 0), both;
    v->type = D_F;
    v->shape = s;
    if (s.rank < 1 || p->at[v->arg[0]].type != D_F || p->at[v->arg[1]].type != D_F) return false;
    if (!broadcast_shapes(&s, shape_of(p, v, 1), &both) || !shape_equal(&s, &both)) return false;
    if (v->attr[1] == L_SWAP && !shape_equal(&s, shape_of(p, v, 1))) return false;
    int last = s.rank - 1;
    return v->attr[1] < L_SCALE || (!(s.bounded >> last & 1) && s.n[last] > 0 && s.n[last] <= 17);
}
static Tensor owned(Eval *e, const Value *v, int turn, const char *name, Shape s) {
    int id = (int)(v - e->prog->at);
    char own[64], path[96];
    snprintf(own, sizeof own, "h%d.%d.%s", id, turn, name);
    path_now(e, id, own, path);
    return eval_param(e, path, s, 0.5, 0);
}
static Tensor add(Eval *e, Tensor a, Tensor b) { return t_point2(e, T_ADD, a, b); }

static void turn(Eval *e, const Value *v, int k, Tensor *x, Tensor *y) {
    int n = x->shape.n[x->shape.rank - 1];
    Tensor old = *x;
    switch (v->attr[1]) {
    case L_PLAIN: *x = add(e, t_point1(e, T_SIN, *x), *y); break;
    case L_SWAP:
        *x = *y;
        *y = add(e, t_point2(e, T_MUL, t_number(e, 0.5), old), *y);
        break;
    case L_SCALE: *x = add(e, t_point2(e, T_MUL, *x, owned(e, v, k, "w", flat_shape(1, n))), *y); break;
    default: {
        Tensor z = add(e, t_matmul(e, *x, owned(e, v, k, "up.w", flat_shape(2, n, n))), owned(e, v, k, "up.b", flat_shape(1, n)));
        *x = add(e, t_point1(e, T_TANH, z), *y);
    }
    }
}
void eval_repeat(Eval *e, const Value *v, Tensor *out) {
    Tensor x = arg(e, v, 0), y = arg(e, v, 1);
    for (int k = 0; k < v->attr[0] && !e->tape.full; k++) turn(e, v, k, &x, &y);
    *out = x;
}

static void print_turn(FILE *f, const Prog *p, int id) {
    const Value *v = &p->at[id];
    int n = v->shape.n[v->shape.rank - 1];
    if (v->attr[1] == L_SWAP) {
        fprintf(f, "v%d, t%d = t%d, 0.5 * v%d + t%d", id, id, id, id, id);
        return;
    }
    fprintf(f, "v%d = ", id);
    if (v->attr[1] == L_PLAIN) fprintf(f, "sin(v%d)", id);
    else if (v->attr[1] == L_SCALE) fprintf(f, "v%d * (param [%d] init ones as w)", id, n);
    else fprintf(f, "tanh(linear(v%d, %d) as up)", id, n);
    fprintf(f, " + ");
    print_arg(f, p, v->arg[1], false);
}
static void print_loop_torch(FILE *f, const Prog *p, int id) {
    const Value *v = &p->at[id];
    char path[96], own[16];
    snprintf(own, sizeof own, "h%d", id);
    path_of_value(p, id, own, path);
    fprintf(f, "v%d = loop(", id);
    print_arg(f, p, v->arg[0], true);
    fprintf(f, ", ");
    print_arg(f, p, v->arg[1], true);
    fprintf(f, ", %d, %d, '%s')\n", v->attr[0], v->attr[1], path);
}
void print_loop(FILE *f, const Prog *p, int id, bool torch) {
    const Value *v = &p->at[id];
    if (torch) {
        print_loop_torch(f, p, id);
        return;
    }
    fprintf(f, v->attr[1] == L_SWAP ? "v%d, t%d = " : "v%d = ", id, id);
    print_arg(f, p, v->arg[0], false);
    if (v->attr[1] == L_SWAP) fprintf(f, ", "), print_arg(f, p, v->arg[1], false);
    fprintf(f, "\n    repeat %d as h%d {\n        ", v->attr[0], id);
    print_turn(f, p, id);
    fprintf(f, "\n    }\n");
}

// A state that follows its operand.  attrs: initial value; form: read after or before it is updated
bool propose_state(Gen *g, Value *v) {
    v->nattrs = 2, v->attr[0] = random_below(&g->random, 2), v->attr[1] = random_below(&g->random, 2);
    int a = pick(g, D_F, 0, 3);
    return a >= 0 && !in_rounds(g->prog, g->scope) && !g->prog->at[a].shape.bounded && take(v, a);
}
void eval_state_op(Eval *e, const Value *v, Tensor *out) {
    int id = (int)(v - e->prog->at);
    char own[64], path[96];
    snprintf(own, sizeof own, "s%d", id);
    path_now(e, id, own, path);
    Tensor s = eval_state(e, path, v->shape, v->attr[0]), a = arg(e, v, 0);
    Tensor next = add(e, t_point2(e, T_MUL, t_number(e, 0.5), s), a);
    state_set(e, path, next);
    *out = v->attr[1] ? t_point2(e, T_MUL, a, s) : next;
}
void print_shape(FILE *f, const Shape *s) {
    fputc('[', f);
    for (int d = 0; d < s->rank; d++) fprintf(f, "%s%d", d ? ", " : "", s->n[d]);
    fputc(']', f);
}
void print_state(FILE *f, const Prog *p, int id, bool torch) {
    const Value *v = &p->at[id];
    if (torch) {
        fprintf(f, v->attr[1] ? "v%d = %d * " : "v%d = 0.5 * %d + ", id, v->attr[0]);
        print_arg(f, p, v->arg[0], true);
        fputc('\n', f);
        return;
    }
    fprintf(f, "state s%d = %s ", id, v->attr[0] ? "ones" : "zeros");
    print_shape(f, &v->shape);
    fputc('\n', f);
    if (v->attr[1]) fprintf(f, "    v%d = s%d * ", id, id), print_arg(f, p, v->arg[0], false), fputc('\n', f);
    fprintf(f, "    s%d <- 0.5 * s%d + ", id, id);
    print_arg(f, p, v->arg[0], false);
    if (!v->attr[1]) fprintf(f, "\n    v%d = s%d", id, id);
    fputc('\n', f);
}

void eval_step(Eval *e, const Value *v, Tensor *out) { *out = t_point2(e, T_MUL, arg(e, v, 0), t_number(e, e->step > 1 ? e->step : 1)); }
