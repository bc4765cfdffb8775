// What the library has beside: heads, masks, mixed subscripts, kernels that are computed, and values that do nothing.
#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include <math.h>

static Tensor arg(Eval *e, const Value *v, int k) { return e->value[v->arg[k]]; }
static const Shape *shape_of(const Prog *p, const Value *v, int k) { return &p->at[v->arg[k]].shape; }
static int below(Gen *g, int n) { return random_below(&g->random, n); }

bool propose_flatten(Gen *g, Value *v) { return take(v, pick(g, D_F, 2, 4)); }
bool infer_flatten(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0);
    v->type = p->at[v->arg[0]].type;
    if (s->rank < 1 || s->bounded >> 1 || s->n[0] == 0) return false;
    v->shape = (Shape){.rank = 2, .n = {s->n[0], shape_size(s) / s->n[0]}, .bounded = s->bounded};
    return true;
}
void eval_flatten(Eval *e, const Value *v, Tensor *out) {
    (void)e;
    *out = t_reshape(arg(e, v, 0), v->shape);
}

// [B, T, C] to [B, h, T, C / h], attr 0 being h, and back
bool propose_to_heads(Gen *g, Value *v) {
    v->nattrs = 1, v->attr[0] = 1 + below(g, 3);
    int a = below(g, 2) ? pick(g, D_F, 3, 3) : -1;
    return take(v, a >= 0 ? a : fresh(g, D_F, flat_shape(3, 1 + below(g, 3), 1 + below(g, 8), v->attr[0] * (1 + below(g, 4)))));
}
bool infer_to_heads(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0);
    v->type = D_F;
    if (s->rank != 3 || s->bounded & 4 || s->n[2] % v->attr[0]) return false;
    v->shape = (Shape){.rank = 4, .n = {s->n[0], v->attr[0], s->n[1], s->n[2] / v->attr[0]}, .bounded = (s->bounded & 1) | (s->bounded & 2) << 1};
    return true;
}
void eval_to_heads(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    int at[MAX_RANK];
    *out = tensor_make(e, v->shape, D_F);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        int from[] = {at[0], at[2], at[1] * v->shape.n[3] + at[3]};
        out->id[i] = a.id[ravel(&a.shape, from)];
    }
}
bool propose_from_heads(Gen *g, Value *v) { return take(v, pick(g, D_F, 4, 4)); }
bool infer_from_heads(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0);
    v->type = D_F;
    if (s->rank != 4 || s->bounded & 10) return false;
    v->shape = (Shape){.rank = 3, .n = {s->n[0], s->n[2], s->n[1] * s->n[3]}, .bounded = (s->bounded & 1) | (s->bounded & 4) >> 1};
    return true;
}
void eval_from_heads(Eval *e, const Value *v, Tensor *out) {
    int perm[] = {0, 2, 1, 3};
    *out = t_reshape(t_transpose(e, arg(e, v, 0), perm), v->shape);
}

// where(causal(T), x, number): attr 0 is T
bool propose_causal(Gen *g, Value *v) {
    int a = pick(g, D_F, 2, 4);
    if (a < 0) return false;
    const Shape *s = &g->prog->at[a].shape;
    v->nattrs = 1, v->attr[0] = s->n[s->rank - 1];
    return take(v, a);
}
bool infer_causal(const Prog *p, Value *v) {
    infer_same(p, v);
    int last = v->shape.rank - 1;
    return last > 0 && v->shape.n[last] == v->attr[0] && v->shape.n[last - 1] == v->attr[0] && !(v->shape.bounded >> (last - 1));
}
void eval_causal(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    int n = v->attr[0];
    *out = tensor_make(e, v->shape, D_F);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        int below_diagonal = tape_const(&e->tape, i % n <= i / n % n);
        out->id[i] = tape_op(&e->tape, T_SELECT, below_diagonal, a.id[i], tape_const(&e->tape, -0.5));
    }
}

bool propose_broadcast_like(Gen *g, Value *v) {
    int a = pick(g, D_F, 0, 4);
    return a >= 0 && take(v, pick_broadcast(g, &g->prog->at[a].shape, D_F)) && take(v, a);
}
bool infer_broadcast_like(const Prog *p, Value *v) {
    Shape s;
    v->type = D_F;
    v->shape = *shape_of(p, v, 1);
    return broadcast_shapes(shape_of(p, v, 0), &v->shape, &s) && shape_equal(&s, &v->shape);
}

bool propose_max3(Gen *g, Value *v) { return propose_ff(g, v) && take(v, pick_broadcast(g, &g->prog->at[v->arg[0]].shape, D_F)); }
bool infer_max3(const Prog *p, Value *v) { return infer_where(p, v); }
void eval_max3(Eval *e, const Value *v, Tensor *out) {
    TapeOp op = (TapeOp)ops[v->op].code;
    *out = t_point2(e, op, t_point2(e, op, arg(e, v, 0), arg(e, v, 1)), arg(e, v, 2));
}

// softmax(where(c, x, -inf), axis): rows may be left with nothing
bool propose_masked_softmax(Gen *g, Value *v) {
    int a = pick(g, D_F, 1, 4);
    if (a < 0) return false;
    v->nattrs = 1, v->attr[0] = 1 << below(g, g->prog->at[a].shape.rank);
    return take(v, a) && take(v, pick_broadcast(g, &g->prog->at[a].shape, D_B));
}
bool infer_masked_softmax(const Prog *p, Value *v) {
    Shape s;
    infer_same(p, v);
    return v->attr[0] < 1 << v->shape.rank && broadcast_shapes(&v->shape, shape_of(p, v, 1), &s) && shape_equal(&s, &v->shape);
}
void eval_masked_softmax(Eval *e, const Value *v, Tensor *out) {
    *out = t_softmax(e, t_where(e, arg(e, v, 1), arg(e, v, 0), t_number(e, -INFINITY)), (unsigned)v->attr[0]);
}

// convolve(x, k, oh, ow, ph, pw, stride, dilation) with a kernel that is a value: attrs in this order from oh on
bool propose_convolve(Gen *g, Value *v) {
    int a = below(g, 2) ? pick(g, D_F, 4, 4) : -1, *n = v->attr;
    if (a < 0) a = fresh(g, D_F, flat_shape(4, 1 + below(g, 2), 2 + below(g, 7), 2 + below(g, 7), 1 + below(g, 4)));
    if (a < 0) return false;
    v->nattrs = 6, n[0] = 1 + below(g, 7), n[1] = 1 + below(g, 7), n[2] = below(g, 3), n[3] = below(g, 3), n[4] = 1 + below(g, 3), n[5] = 1 + (below(g, 4) == 0);
    return take(v, a) && take(v, fresh(g, D_F, flat_shape(4, 1 + below(g, 3), 1 + below(g, 3), g->prog->at[a].shape.n[3], 1 + below(g, 5))));
}
bool infer_convolve(const Prog *p, Value *v) {
    const Shape *x = shape_of(p, v, 0), *k = shape_of(p, v, 1);
    v->type = D_F;
    if (x->rank != 4 || k->rank != 4 || x->bounded || k->bounded || x->n[3] != k->n[2]) return false;
    v->shape = flat_shape(4, x->n[0], v->attr[0], v->attr[1], k->n[3]);
    return true;
}
static int convolved(Eval *e, Tensor x, Tensor k, const int *n, const int *at) {
    int sum = -1, of[MAX_RANK];
    for (int i = 0; i < shape_size(&k.shape); i++) {
        unravel(&k.shape, i, of);
        int from[] = {at[0], at[1] * n[4] + of[0] * n[5] - n[2], at[2] * n[4] + of[1] * n[5] - n[3], of[2]};
        if (of[3] != at[3] || from[1] < 0 || from[2] < 0 || from[1] >= x.shape.n[1] || from[2] >= x.shape.n[2]) continue;
        int term = tape_2(&e->tape, T_MUL, x.id[ravel(&x.shape, from)], k.id[i]);
        sum = sum < 0 ? term : tape_2(&e->tape, T_ADD, sum, term);
    }
    return sum < 0 ? tape_const(&e->tape, 0) : sum;
}
void eval_convolve(Eval *e, const Value *v, Tensor *out) {
    int at[MAX_RANK];
    *out = tensor_make(e, v->shape, D_F);
    Precision before = begin_sum(e);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        out->id[i] = convolved(e, arg(e, v, 0), arg(e, v, 1), v->attr, at);
    }
    end_sum(e, before, out);
}

// Of what changes nothing the operand itself is the value.
void eval_nothing(Eval *e, const Value *v, Tensor *out) {
    (void)e;
    *out = arg(e, v, 0);
}

// The axis 0 of a tensor to S or another such extent: a slice from the start, or slice(x, start, extent)
bool propose_bounded_slice(Gen *g, Value *v) {
    if (!g->prog->bound) return false;
    int a = below(g, 2) ? pick(g, D_F, 1, 3) : -1;
    if (a < 0) a = fresh(g, D_F, flat_shape(2, g->prog->bound * 2 + 1 + below(g, 3), 1 + below(g, 5)));
    v->nattrs = 2, v->attr[0] = some_bounded_extent(g), v->attr[1] = ops[v->op].code ? below(g, 3) : 0;
    return take(v, a);
}
// How long the axis is at least, for sure: a form, or a number that the bound of a form must not pass.
static bool inside(const Prog *p, const Shape *s, int n, int start) {
    int a, b, c, d;
    if (!p->bound || !extent_form(p, n, &a, &b)) return false;
    if (!(s->bounded & 1)) return s->n[0] >= a * p->bound + b + start;
    return extent_form(p, s->n[0], &c, &d) && c >= a && d >= b;
}
bool infer_bounded_slice(const Prog *p, Value *v) {
    v->type = p->at[v->arg[0]].type;
    v->shape = *shape_of(p, v, 0);
    if (v->shape.rank < 1 || !inside(p, &v->shape, v->attr[0], v->attr[1])) return false;
    if (v->attr[1] && v->shape.bounded & 1) return false;
    v->shape.n[0] = v->attr[0];
    v->shape.bounded |= 1;
    return true;
}
void eval_bounded_slice(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    int at[MAX_RANK];
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        at[0] += v->attr[1];
        out->id[i] = at[0] < a.shape.n[0] ? a.id[ravel(&a.shape, at)] : tape_const(&e->tape, 0);
    }
}

// The bounded axis 0 split or merged with what follows: [2*S, k] to [S, 2, k], [S, 2, k] to [2*S, k]
bool propose_bounded_reshape(Gen *g, Value *v) {
    int a = g->prog->bound ? pick(g, D_F, 1, 4) : -1;
    if (a < 0 || g->prog->at[a].shape.bounded != 1) return false;
    v->nattrs = 1, v->attr[0] = some_bounded_extent(g);
    return take(v, a);
}
bool infer_bounded_reshape(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0);
    int rest = 1, to = v->attr[0], scale, shift;
    v->type = p->at[v->arg[0]].type;
    for (int d = 1; d < s->rank; d++) rest *= s->n[d];
    if (s->bounded != 1 || rest == 0 || !extent_form(p, to, &scale, &shift) || s->n[0] * rest % to) return false;
    int left = s->n[0] * rest / to;
    v->shape = (Shape){.rank = left % 2 ? 2 : 3, .n = {to, left % 2 ? left : 2, left / 2}, .bounded = 1};
    return extent_scaled(p, s->n[0], rest, to, left);
}

// float(S) * x
bool propose_extent_value(Gen *g, Value *v) { return g->prog->bound && take(v, pick(g, D_F, 1, 3)); }
bool infer_extent_value(const Prog *p, Value *v) {
    infer_same(p, v);
    return p->bound && v->shape.bounded;
}
void eval_extent_value(Eval *e, const Value *v, Tensor *out) { *out = t_point2(e, T_MUL, arg(e, v, 0), t_number(e, e->prog->extent)); }

// x[1:3, ids, 0]: subscripts as of an index (ops_shape.c), and where the step is BY_IDS the integers
enum { BY_IDS = 99 };
bool propose_mixed(Gen *g, Value *v) {
    if (!propose_index(g, v)) return false;
    int rank = g->prog->at[v->arg[0]].shape.rank;
    v->attr[3 * below(g, rank) + 2] = BY_IDS;
    return rank > 1 && take(v, pick(g, D_I, 0, 2));
}
static bool join(Shape *to, const Shape *from) {
    if (to->rank + from->rank > MAX_RANK) return false;
    to->bounded |= from->bounded << to->rank;
    for (int d = 0; d < from->rank; d++) to->n[to->rank++] = from->n[d];
    return true;
}
static bool axis_range(const Shape *s, int d, int *x, Shape *axis) {
    bool bounded = s->bounded >> d & 1;
    *axis = (Shape){.rank = x[2] != 0, .n = {bounded ? s->n[d] : x[1]}, .bounded = bounded};
    if (bounded) return x[0] == 0 && x[2] == 1;
    int last = x[0] + (x[1] - 1) * x[2];
    return x[1] == 0 || (x[0] >= 0 && x[0] < s->n[d] && last >= 0 && last < s->n[d]);
}
bool infer_mixed(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0), *t = shape_of(p, v, 1);
    v->type = p->at[v->arg[0]].type;
    v->shape = (Shape){0};
    if (v->nattrs != 3 * s->rank || p->at[v->arg[1]].type != D_I) return false;
    for (int d = 0; d < s->rank; d++) {
        Shape axis;
        bool ids = v->attr[3 * d + 2] == BY_IDS;
        if ((!ids && !axis_range(s, d, &v->attr[3 * d], &axis)) || !join(&v->shape, ids ? t : &axis)) return false;
    }
    return true;
}
static int mixed_element(Eval *e, const Value *v, Tensor a, Tensor ids, const int *at) {
    int from[MAX_RANK], k = 0;
    for (int d = 0; d < a.shape.rank; d++) {
        const int *x = &v->attr[3 * d];
        if (x[2] == BY_IDS) {
            const Scalar *s = &e->tape.at[ids.id[ravel(&ids.shape, at + k)]];
            e->unsure |= s->error > 0;
            from[d] = (int)s->value, k += ids.shape.rank;
        } else from[d] = x[0] + (x[2] ? at[k++] * x[2] : 0);
        if (from[d] < 0 || from[d] >= a.shape.n[d]) return -1;
    }
    return a.id[ravel(&a.shape, from)];
}
void eval_mixed(Eval *e, const Value *v, Tensor *out) {
    int at[MAX_RANK];
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        int id = mixed_element(e, v, arg(e, v, 0), arg(e, v, 1), at);
        out->id[i] = id < 0 ? tape_const(&e->tape, 0) : id;
    }
}
