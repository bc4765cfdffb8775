#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include <math.h>

static Tensor arg(Eval *e, const Value *v, int k) { return e->value[v->arg[k]]; }
static int below(Gen *g, int n) { return random_below(&g->random, n); }
static int form(const Value *v) { return ops[v->op].code; }

static bool draw_axes(Gen *g, Value *v, int a, int most) {
    if (a < 0) return false;
    int rank = g->prog->at[a].shape.rank;
    v->nattrs = 2, v->attr[1] = below(g, 3) == 0;
    v->attr[0] = below(g, 4) == 0 ? (1 << rank) - 1 : 1 + below(g, (1 << rank) - 1);
    if (most == 1) v->attr[0] = 1 << below(g, rank);
    return take(v, a);
}
bool propose_reduce(Gen *g, Value *v) { return draw_axes(g, v, pick(g, D_F, 1, MAX_RANK), 6); }
bool propose_reduce_i(Gen *g, Value *v) { return draw_axes(g, v, pick(g, D_I, 1, MAX_RANK), 6); }
bool propose_row(Gen *g, Value *v) { return draw_axes(g, v, pick(g, D_F, 1, MAX_RANK), 1 + below(g, 2)); }
bool propose_reduce_where(Gen *g, Value *v) {
    return propose_reduce(g, v) && take(v, pick_broadcast(g, &g->prog->at[v->arg[0]].shape, D_B));
}
bool infer_reduce(const Prog *p, Value *v) {
    const Value *a = &p->at[v->arg[0]];
    int f = form(v);
    v->type = f == R_ARGMAX ? D_I : a->type;
    bool row = f == R_SOFTMAX || f == R_LOG_SOFTMAX;
    v->shape = row ? a->shape : reduced_shape(&a->shape, (unsigned)v->attr[0], v->attr[1]);
    if (v->attr[0] >= 1 << a->shape.rank || a->shape.rank < 1) return false;
    Shape s;
    return v->nargs < 2 || (broadcast_shapes(&a->shape, &p->at[v->arg[1]].shape, &s) && shape_equal(&s, &a->shape));
}

static bool unsure(const Eval *e, int a, int b) {
    const Scalar *x = &e->tape.at[a], *y = &e->tape.at[b];
    return x->error + y->error > 0 && !(fabs(x->value - y->value) > 4 * (x->error + y->error));
}
// The first largest in row-major order over the axes.
static Tensor argmax(Eval *e, Tensor a, unsigned axes, bool keep) {
    Shape kept = reduced_shape(&a.shape, axes, true), inner = {0};
    for (int d = 0; d < a.shape.rank; d++)
        if (axes >> d & 1) inner.n[inner.rank++] = a.shape.n[d];
    Tensor r = tensor_make(e, reduced_shape(&a.shape, axes, keep), D_I);
    for (int i = 0; i < shape_size(&kept); i++) {
        int at[MAX_RANK], in[MAX_RANK], best = -1, where = 0;
        bool tied = false;
        for (int j = 0; j < shape_size(&inner); j++) {
            unravel(&kept, i, at);
            unravel(&inner, j, in);
            for (int d = 0, k = 0; d < a.shape.rank; d++) at[d] = axes >> d & 1 ? in[k++] : at[d];
            int x = a.id[ravel(&a.shape, at)];
            tied |= best >= 0 && unsure(e, x, best);
            if (best < 0 || e->tape.at[x].value > e->tape.at[best].value) best = x, where = j;
        }
        r.id[i] = tape_var(&e->tape, where, tied ? INFINITY : 0);
    }
    return r;
}
static Tensor variance(Eval *e, Tensor a, unsigned axes, bool keep, const Tensor *w) {
    Tensor d = t_point2(e, T_SUB, a, t_mean(e, a, axes, true, w));
    return t_mean(e, t_point2(e, T_MUL, d, d), axes, keep, w);
}
static Tensor logsumexp(Eval *e, Tensor a, unsigned axes, bool keep) {
    Tensor m = t_point1(e, T_STOP, t_reduce(e, T_MAX, a, axes, true, NULL));
    Tensor s = t_reduce(e, T_ADD, t_point1(e, T_EXP, t_point2(e, T_SUB, a, m)), axes, true, NULL);
    Tensor r = t_point2(e, T_ADD, m, t_point1(e, T_LOG, s));
    return t_reshape(r, reduced_shape(&a.shape, axes, keep));
}
void eval_reduce(Eval *e, const Value *v, Tensor *out) {
    static const TapeOp plain[] = {T_ADD, T_MUL, T_MAX, T_MIN};
    Tensor a = arg(e, v, 0), mask;
    unsigned axes = (unsigned)v->attr[0];
    bool keep = v->attr[1];
    if (v->nargs > 1) mask = t_broadcast(e, arg(e, v, 1), a.shape);
    const Tensor *w = v->nargs > 1 ? &mask : NULL;
    switch (form(v)) {
    case R_MEAN: *out = t_mean(e, a, axes, keep, w); break;
    case R_VARIANCE: *out = variance(e, a, axes, keep, w); break;
    case R_ARGMAX: *out = argmax(e, a, axes, keep); break;
    case R_SOFTMAX: *out = t_softmax(e, a, axes); break;
    case R_LOG_SOFTMAX: *out = t_point2(e, T_SUB, a, logsumexp(e, a, axes, true)); break;
    case R_LOGSUMEXP: *out = logsumexp(e, a, axes, keep); break;
    default: *out = t_reduce(e, plain[form(v)], a, axes, keep, w); break;
    }
}

// attrs: axis, reverse, exclusive
bool propose_scan(Gen *g, Value *v) {
    int a = pick(g, D_F, 1, MAX_RANK);
    if (a < 0) return false;
    v->nattrs = 3, v->attr[0] = below(g, g->prog->at[a].shape.rank), v->attr[1] = below(g, 2), v->attr[2] = below(g, 2);
    return take(v, a);
}
bool infer_scan(const Prog *p, Value *v) { return infer_same(p, v) && v->attr[0] < v->shape.rank; }
void eval_scan(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    TapeOp op = (TapeOp)ops[v->op].code;
    int axis = v->attr[0], n = a.shape.n[axis], stride = 1, at[MAX_RANK];
    *out = tensor_make(e, a.shape, D_F);
    for (int d = axis + 1; d < a.shape.rank; d++) stride *= a.shape.n[d];
    for (int i = 0; i < shape_size(&a.shape); i++) {
        unravel(&a.shape, i, at);
        if (at[axis]) continue;
        int sum = -1;
        for (int k = 0; k < n; k++) {
            int j = i + (v->attr[1] ? n - 1 - k : k) * stride, before = sum;
            sum = sum < 0 ? a.id[j] : tape_2(&e->tape, op, sum, a.id[j]);
            out->id[j] = !v->attr[2] ? sum : before >= 0 ? before : tape_const(&e->tape, op == T_MUL);
        }
    }
}
