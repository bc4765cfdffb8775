#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include "tests/net/scan.h"
#include <math.h>
#include <stdlib.h>

static Tensor arg(Eval *e, const Value *v, int k) { return e->value[v->arg[k]]; }
static const Shape *shape_of(const Prog *p, const Value *v, int k) { return &p->at[v->arg[k]].shape; }
static int below(Gen *g, int n) { return random_below(&g->random, n); }

static Tensor owned(Eval *e, const Value *v, const char *name, Shape s, double scale, double offset) {
    int id = (int)(v - e->prog->at);
    char own[64], path[96];
    snprintf(own, sizeof own, "c%d.%s", id, name);
    path_now(e, id, own, path);
    return eval_param(e, path, s, scale, offset);
}
static Tensor add(Eval *e, Tensor a, Tensor b) { return t_point2(e, T_ADD, a, b); }
static Tensor mul(Eval *e, Tensor a, Tensor b) { return t_point2(e, T_MUL, a, b); }

// attrs: n, bias
bool propose_linear(Gen *g, Value *v) {
    v->nattrs = 2, v->attr[0] = some_extent(g), v->attr[1] = below(g, 4) > 0;
    return v->attr[0] > 0 && take(v, pick(g, D_F, 1, 4));
}
bool infer_linear(const Prog *p, Value *v) {
    v->type = D_F;
    v->shape = *shape_of(p, v, 0);
    int d = v->shape.rank - 1;
    if (d < 0 || v->shape.bounded >> d & 1 || v->shape.n[d] < 1) return false;
    v->shape.n[d] = v->attr[0];
    return true;
}
static Tensor linear(Eval *e, const Value *v, const char *w, const char *b, Tensor x, int n, bool bias) {
    Tensor y = t_matmul(e, x, owned(e, v, w, flat_shape(2, x.shape.n[x.shape.rank - 1], n), 0.5, 0));
    return bias ? add(e, y, owned(e, v, b, flat_shape(1, n), 0.5, 0)) : y;
}
void eval_linear(Eval *e, const Value *v, Tensor *out) { *out = linear(e, v, "w", "b", arg(e, v, 0), v->attr[0], v->attr[1]); }

// code 0: layernorm, 1: rmsnorm, 2: batchnorm (trains), 3: groupnorm with attr 0 groups
bool propose_norm(Gen *g, Value *v) { return !(ops[v->op].code == 2 && in_rounds(g->prog, g->scope)) && take(v, pick(g, D_F, 2, 4)); }
bool propose_groupnorm(Gen *g, Value *v) {
    v->nattrs = 1, v->attr[0] = 1 + below(g, 3);
    return take(v, pick(g, D_F, 2, 4));
}
bool infer_norm(const Prog *p, Value *v) {
    int code = ops[v->op].code;
    infer_same(p, v);
    int d = v->shape.rank - 1;
    if (d < 1 || v->shape.bounded >> d & 1 || shape_size(&v->shape) == 0 || (code == 3 && v->shape.bounded > 1)) return false;
    return code < 3 || v->shape.n[d] % v->attr[0] == 0;
}
static Tensor centred(Eval *e, Tensor x, unsigned axes) { return t_point2(e, T_SUB, x, t_mean(e, x, axes, true, NULL)); }
static Tensor whitened(Eval *e, Tensor d, unsigned axes) {
    Tensor s = t_mean(e, mul(e, d, d), axes, true, NULL);
    return mul(e, d, t_point1(e, T_RSQRT, add(e, s, t_number(e, 1e-5))));
}
// A running statistic: 0.9 of what it was and 0.1 of the batch's.
static void running(Eval *e, const Value *v, const char *name, double initial, Tensor now) {
    int id = (int)(v - e->prog->at);
    char own[64], path[96];
    snprintf(own, sizeof own, "c%d.%s", id, name);
    path_now(e, id, own, path);
    Tensor s = eval_state(e, path, flat_shape(1, now.shape.n[now.shape.rank - 1]), initial);
    if (e->training) state_set(e, path, add(e, mul(e, s, t_number(e, 0.9)), mul(e, t_reshape(now, s.shape), t_number(e, 0.1))));
}
static void batch_states(Eval *e, const Value *v, Tensor x, unsigned axes) {
    Tensor d = centred(e, x, axes);
    running(e, v, "mu", 0, t_mean(e, x, axes, true, NULL));
    running(e, v, "var", 1, t_mean(e, mul(e, d, d), axes, true, NULL));
}
static Tensor groupnorm(Eval *e, Tensor x, int groups) {
    int c = x.shape.n[x.shape.rank - 1], batch = x.shape.n[0], middle = shape_size(&x.shape) / c / batch;
    Tensor g = t_reshape(x, flat_shape(4, batch, middle, groups, c / groups));
    return t_reshape(whitened(e, centred(e, g, 10), 10), x.shape);
}
void eval_norm(Eval *e, const Value *v, Tensor *out) {
    Tensor x = arg(e, v, 0);
    int code = ops[v->op].code, rank = x.shape.rank;
    unsigned last = 1u << (rank - 1), axes = code == 2 ? last - 1 : last;
    Shape c = flat_shape(1, x.shape.n[rank - 1]);
    Tensor gamma = owned(e, v, "gamma", c, 0.3, 1), y;
    if (code == 2) batch_states(e, v, x, axes);
    if (code == 3) y = groupnorm(e, x, v->attr[0]);
    else if (code == 2 && !e->training) y = mul(e, x, t_point1(e, T_RSQRT, t_number(e, 1 + 1e-5))); // states mu = 0, var = 1
    else y = whitened(e, code == 1 ? x : centred(e, x, axes), axes);
    y = mul(e, y, gamma);
    *out = code == 1 ? y : add(e, y, owned(e, v, "beta", c, 0.3, 0));
}

// A small image, made from what there is or new.
static int image(Gen *g) {
    int a = below(g, 2) ? pick(g, D_F, 4, 4) : -1;
    if (a >= 0) return a;
    Shape s = flat_shape(4, 1 + below(g, 2), 1 + below(g, 9), 1 + below(g, 9), 1 + below(g, below(g, 3) ? 4 : 9));
    int d = below(g, 3);
    if (g->prog->bound && below(g, 2)) s.n[d] = some_bounded_extent(g), s.bounded = 1u << d;
    return fresh(g, D_F, s);
}
// windows as in the reference: how many, and how far the first reaches before the start; padding -1: same, -2: valid
static int windows(int extent, int span, int stride, int padding, int *before) {
    if (padding == -1) {
        int n = (extent + stride - 1) / stride, reach = (n - 1) * stride + span - extent;
        *before = reach > 0 ? reach / 2 : 0;
        return n;
    }
    *before = padding < 0 ? 0 : padding;
    int room = extent + 2 * *before - span;
    return room < 0 ? 0 : room / stride + 1;
}
// attrs: n, k, stride, dilation, groups, padding (-1 same, -2 valid, -3 reflect), bias
bool propose_conv(Gen *g, Value *v) {
    int pads[] = {-1, -1, -2, -3, 0, 1, 2};
    v->nattrs = 7;
    v->attr[0] = 1 + below(g, below(g, 3) ? 4 : 9), v->attr[1] = 1 + below(g, 4), v->attr[2] = 1 + below(g, 3), v->attr[3] = 1 + (below(g, 4) == 0);
    v->attr[4] = below(g, 4) ? 1 : 2, v->attr[5] = pads[below(g, 7)], v->attr[6] = below(g, 3) > 0;
    return take(v, image(g));
}
bool infer_conv(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0);
    const int *a = v->attr;
    int b, pad = a[5] == -3 ? -1 : a[5], span = (a[1] - 1) * a[3] + 1;
    v->type = D_F;
    if (s->rank != 4 || s->bounded & 8 || shape_size(s) == 0 || s->n[3] % a[4] || a[0] % a[4]) return false;
    if (s->bounded & 6 && (a[2] != 1 || a[5] != -1)) return false;
    v->shape = flat_shape(4, s->n[0], windows(s->n[1], span, a[2], pad, &b), windows(s->n[2], span, a[2], pad, &b), a[0]);
    v->shape.bounded = s->bounded;
    if (a[5] == -3 && (s->n[1] <= span || s->n[2] <= span)) return false;
    return v->shape.n[1] > 0 && v->shape.n[2] > 0;
}
static int mirrored(int i, int n) {
    i = abs(i);
    return n - 1 - abs(n - 1 - i);
}
typedef struct { Tensor x, w; const int *a; int ph, pw; } Conv;
static int conv_element(Eval *e, const Conv *c, const int *o) {
    const Shape *s = &c->x.shape;
    int per = s->n[3] / c->a[4], group = o[3] / (c->a[0] / c->a[4]), sum = -1;
    for (int r = 0; r < c->a[1]; r++)
        for (int q = 0; q < c->a[1]; q++) {
            int h = o[1] * c->a[2] + r * c->a[3] - c->ph, w = o[2] * c->a[2] + q * c->a[3] - c->pw;
            if (c->a[5] == -3) h = mirrored(h, s->n[1]), w = mirrored(w, s->n[2]);
            if (h < 0 || h >= s->n[1] || w < 0 || w >= s->n[2]) continue;
            for (int k = 0; k < per; k++) {
                int from[] = {o[0], h, w, group * per + k}, of[] = {r, q, k, o[3]};
                int term = tape_2(&e->tape, T_MUL, c->x.id[ravel(s, from)], c->w.id[ravel(&c->w.shape, of)]);
                sum = sum < 0 ? term : tape_2(&e->tape, T_ADD, sum, term);
            }
        }
    return sum < 0 ? tape_const(&e->tape, 0) : sum;
}
void eval_conv(Eval *e, const Value *v, Tensor *out) {
    Conv c = {.x = arg(e, v, 0), .a = v->attr};
    int pad = c.a[5] == -3 ? -1 : c.a[5], span = (c.a[1] - 1) * c.a[3] + 1, at[MAX_RANK];
    c.w = owned(e, v, "w", flat_shape(4, c.a[1], c.a[1], c.x.shape.n[3] / c.a[4], c.a[0]), 0.4, 0);
    windows(c.x.shape.n[1], span, c.a[2], pad, &c.ph);
    windows(c.x.shape.n[2], span, c.a[2], pad, &c.pw);
    *out = tensor_make(e, v->shape, D_F);
    Precision before = begin_sum(e);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        out->id[i] = conv_element(e, &c, at);
    }
    end_sum(e, before, out);
    if (v->attr[6]) *out = add(e, *out, owned(e, v, "b", flat_shape(1, v->attr[0]), 0.4, 0));
}

// attrs: n, k, stride, padding, bias
bool propose_conv_transpose(Gen *g, Value *v) {
    v->nattrs = 5;
    v->attr[0] = 1 + below(g, below(g, 3) ? 4 : 9), v->attr[1] = 1 + below(g, 4), v->attr[2] = 1 + below(g, 3), v->attr[3] = below(g, 3), v->attr[4] = below(g, 2);
    return take(v, image(g));
}
bool infer_conv_transpose(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0);
    const int *a = v->attr;
    v->type = D_F;
    if (s->rank != 4 || s->bounded || shape_size(s) == 0) return false;
    v->shape = flat_shape(4, s->n[0], (s->n[1] - 1) * a[2] + a[1] - 2 * a[3], (s->n[2] - 1) * a[2] + a[1] - 2 * a[3], a[0]);
    return v->shape.n[1] > 0 && v->shape.n[2] > 0;
}
// Scattered: each element of x adds its kernel to the result.
void eval_conv_transpose(Eval *e, const Value *v, Tensor *out) {
    Tensor x = arg(e, v, 0);
    const int *a = v->attr;
    Tensor w = owned(e, v, "w", flat_shape(4, a[1], a[1], x.shape.n[3], a[0]), 0.4, 0);
    int size = shape_size(&v->shape), from[MAX_RANK], of[MAX_RANK];
    *out = tensor_make(e, v->shape, D_F);
    Precision before = begin_sum(e);
    for (int i = 0; i < size; i++) out->id[i] = -1;
    for (int i = 0; i < shape_size(&x.shape); i++)
        for (int j = 0; j < shape_size(&w.shape); j++) {
            unravel(&x.shape, i, from);
            unravel(&w.shape, j, of);
            int to[] = {from[0], from[1] * a[2] + of[0] - a[3], from[2] * a[2] + of[1] - a[3], of[3]};
            if (of[2] != from[3] || to[1] < 0 || to[2] < 0 || to[1] >= v->shape.n[1] || to[2] >= v->shape.n[2]) continue;
            int term = tape_2(&e->tape, T_MUL, x.id[i], w.id[j]), *sum = &out->id[ravel(&v->shape, to)];
            *sum = *sum < 0 ? term : tape_2(&e->tape, T_ADD, *sum, term);
        }
    for (int i = 0; i < size; i++)
        if (out->id[i] < 0) out->id[i] = tape_const(&e->tape, 0);
    end_sum(e, before, out);
    if (a[4]) *out = add(e, *out, owned(e, v, "b", flat_shape(1, a[0]), 0.4, 0));
}

// attrs: k, stride, padding; code 0 max, 1 average
bool propose_pool(Gen *g, Value *v) {
    int pads[] = {-1, -2, -2, 0, 1};
    v->nattrs = 3, v->attr[0] = 1 + below(g, 3), v->attr[1] = 1 + below(g, 3), v->attr[2] = pads[below(g, 5)];
    return take(v, image(g));
}
bool infer_pool(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0);
    int b;
    v->type = D_F;
    if (s->rank != 4 || shape_size(s) == 0 || v->attr[2] >= v->attr[0]) return false;
    bool even = v->attr[0] == 2 && v->attr[1] == 2 && v->attr[2] == -2;
    for (int d = 1; d < 3; d++)
        if (s->bounded >> d & 1 && !(even && extent_scaled(p, s->n[d], 1, s->n[d] / 2, 2))) return false;
    v->shape = flat_shape(4, s->n[0], windows(s->n[1], v->attr[0], v->attr[1], v->attr[2], &b), windows(s->n[2], v->attr[0], v->attr[1], v->attr[2], &b), s->n[3]);
    v->shape.bounded = s->bounded;
    return v->shape.n[1] > 0 && v->shape.n[2] > 0;
}
void eval_pool(Eval *e, const Value *v, Tensor *out) {
    Tensor x = arg(e, v, 0);
    int k = v->attr[0], ph, pw, at[MAX_RANK], average = ops[v->op].code;
    windows(x.shape.n[1], k, v->attr[1], v->attr[2], &ph);
    windows(x.shape.n[2], k, v->attr[1], v->attr[2], &pw);
    *out = tensor_make(e, v->shape, D_F);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        int sum = -1, count = 0;
        unravel(&v->shape, i, at);
        for (int j = 0; j < k * k; j++) {
            int from[] = {at[0], at[1] * v->attr[1] + j / k - ph, at[2] * v->attr[1] + j % k - pw, at[3]};
            if (from[1] < 0 || from[2] < 0 || from[1] >= x.shape.n[1] || from[2] >= x.shape.n[2]) continue;
            int y = x.id[ravel(&x.shape, from)];
            sum = count++ == 0 ? y : tape_2(&e->tape, average ? T_ADD : T_MAX, sum, y);
        }
        if (count == 0) sum = tape_const(&e->tape, average ? NAN : -INFINITY);
        out->id[i] = average && count ? tape_2(&e->tape, T_DIV, sum, tape_const(&e->tape, count)) : sum;
    }
}

// attrs: rows, n
bool propose_embed(Gen *g, Value *v) {
    v->nattrs = 2, v->attr[0] = 1 + some_extent(g), v->attr[1] = 1 + below(g, 5);
    return take(v, pick(g, D_I, 0, 2));
}
bool infer_embed(const Prog *p, Value *v) {
    v->type = D_F;
    v->shape = *shape_of(p, v, 0);
    v->shape.n[v->shape.rank++] = v->attr[1];
    return p->at[v->arg[0]].type == D_I && v->shape.rank <= MAX_RANK;
}
void eval_embed(Eval *e, const Value *v, Tensor *out) {
    Tensor ids = arg(e, v, 0), w = owned(e, v, "w", flat_shape(2, v->attr[0], v->attr[1]), 0.5, 0);
    int n = v->attr[1];
    *out = tensor_make(e, v->shape, D_F);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        Scalar s = e->tape.at[ids.id[i / n]];
        bool in = s.value >= 0 && s.value < v->attr[0];
        out->id[i] = in ? w.id[(int)s.value * n + i % n] : tape_const(&e->tape, 0);
        e->unsure |= s.error > 0;
    }
}

// attrs: heads, causal
bool propose_attention(Gen *g, Value *v) {
    v->nattrs = 2, v->attr[0] = 1 + below(g, 2), v->attr[1] = below(g, 2);
    int a = below(g, 2) ? pick(g, D_F, 3, 3) : -1;
    if (a < 0) a = fresh(g, D_F, flat_shape(3, 1 + below(g, 2), 1 + below(g, 8), v->attr[0] * (1 + below(g, 4))));
    return take(v, a);
}
bool infer_attention(const Prog *p, Value *v) {
    infer_same(p, v);
    return v->shape.rank == 3 && shape_size(&v->shape) && !(v->shape.bounded & 4) && v->shape.n[2] % v->attr[0] == 0;
}
// The mask broadcasts to [B, heads, T, T].
bool propose_masked_attention(Gen *g, Value *v) {
    if (!propose_attention(g, v)) return false;
    const Shape *s = &g->prog->at[v->arg[0]].shape;
    Shape all = {.rank = 4, .n = {s->n[0], v->attr[0], s->n[1], s->n[1]}, .bounded = (s->bounded & 1) | (s->bounded & 2) << 1 | (s->bounded & 2) << 2};
    v->attr[1] = 0;
    return s->rank == 3 && take(v, pick_broadcast(g, &all, D_B));
}
bool infer_masked_attention(const Prog *p, Value *v) {
    if (!infer_attention(p, v)) return false;
    const Shape *s = &v->shape;
    Shape all = {.rank = 4, .n = {s->n[0], v->attr[0], s->n[1], s->n[1]}, .bounded = (s->bounded & 1) | (s->bounded & 2) << 1 | (s->bounded & 2) << 2}, both;
    return broadcast_shapes(&all, shape_of(p, v, 1), &both) && shape_equal(&both, &all);
}
static Tensor head_part(Eval *e, Tensor qkv, int part, int heads) {
    int c = qkv.shape.n[2] / 3, d = c / heads, at[MAX_RANK];
    Shape s = {.rank = 4, .n = {qkv.shape.n[0], heads, qkv.shape.n[1], d}, .bounded = (qkv.shape.bounded & 1) | (qkv.shape.bounded & 2) << 1};
    Tensor r = tensor_make(e, s, D_F);
    for (int i = 0; i < shape_size(&s); i++) {
        unravel(&s, i, at);
        int from[] = {at[0], at[2], part * c + at[1] * d + at[3]};
        r.id[i] = qkv.id[ravel(&qkv.shape, from)];
    }
    return r;
}
void eval_attention(Eval *e, const Value *v, Tensor *out) {
    Tensor x = arg(e, v, 0);
    int heads = v->attr[0], c = x.shape.n[2], T = x.shape.n[1], perm[] = {0, 1, 3, 2}, back[] = {0, 2, 1, 3};
    Tensor qkv = linear(e, v, "qkv.w", "qkv.b", x, 3 * c, true);
    Tensor k = t_transpose(e, head_part(e, qkv, 1, heads), perm);
    Tensor s = mul(e, t_matmul(e, head_part(e, qkv, 0, heads), k), t_number(e, 1 / sqrt((double)c / heads)));
    for (int i = 0; v->attr[1] && i < shape_size(&s.shape); i++)
        if (i % T > i / T % T) s.id[i] = tape_const(&e->tape, -INFINITY);
    if (v->nargs > 1) s = t_where(e, arg(e, v, 1), s, t_number(e, -INFINITY));
    Tensor y = t_matmul(e, t_softmax(e, s, 8), head_part(e, qkv, 2, heads));
    *out = linear(e, v, "proj.w", "proj.b", t_reshape(t_transpose(e, y, back), x.shape), c, true);
}

// attr 0: ignore, or -1
bool propose_entropy(Gen *g, Value *v) {
    int a = pick(g, D_F, 1, 3);
    if (a < 0) return false;
    Shape s = g->prog->at[a].shape;
    v->nattrs = 1, v->attr[0] = below(g, 2) ? -1 : below(g, 3);
    s.bounded &= ~(1u << --s.rank);
    int classes = g->prog->at[a].shape.n[s.rank];
    return take(v, a) && take(v, push_value(g, (Value){.op = op_named("input"), .type = D_I, .shape = s, .high = classes > 8 ? 8 : classes}));
}
bool infer_entropy(const Prog *p, Value *v) {
    const Shape *a = shape_of(p, v, 0);
    v->shape = *shape_of(p, v, 1);
    v->type = D_F;
    if (a->rank != v->shape.rank + 1 || a->bounded >> v->shape.rank & 1 || a->n[v->shape.rank] < 1) return false;
    Shape s = *a;
    s.bounded &= ~(1u << --s.rank);
    return shape_equal(&s, &v->shape);
}
void eval_entropy(Eval *e, const Value *v, Tensor *out) {
    Tensor z = arg(e, v, 0), labels = arg(e, v, 1);
    int n = z.shape.n[z.shape.rank - 1];
    unsigned last = 1u << (z.shape.rank - 1);
    z = t_point2(e, T_SUB, z, t_point1(e, T_STOP, t_reduce(e, T_MAX, z, last, true, NULL)));
    Tensor l = t_point1(e, T_LOG, t_reduce(e, T_ADD, t_point1(e, T_EXP, z), last, false, NULL));
    *out = tensor_make(e, v->shape, D_F);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        int k = (int)e->tape.at[labels.id[i]].value;
        out->id[i] = k >= 0 && k < n ? tape_2(&e->tape, T_SUB, l.id[i], z.id[i * n + k]) : l.id[i];
        if (v->attr[0] >= 0 && k == v->attr[0]) out->id[i] = tape_const(&e->tape, 0);
    }
}
bool propose_mse(Gen *g, Value *v) {
    int a = pick(g, D_F, 0, 4);
    return take(v, a) && take(v, pick_broadcast(g, &g->prog->at[a].shape, D_F));
}
bool infer_mse(const Prog *p, Value *v) {
    bool ok = infer_broadcast(p, v);
    ok = ok && shape_size(&v->shape) > 0;
    v->shape = (Shape){0};
    return ok;
}
void eval_mse(Eval *e, const Value *v, Tensor *out) {
    Tensor d = t_point2(e, T_SUB, arg(e, v, 0), arg(e, v, 1));
    *out = t_mean(e, mul(e, d, d), (1u << d.shape.rank) - 1, false, NULL);
}

// ---- derivatives as values -----------------------------------------------------------------------------------------------
static bool depends(const Prog *p, int y, int x) {
    if (y == x) return true;
    for (int k = 0; k < p->at[y].nargs; k++)
        if (depends(p, p->at[y].arg[k], x)) return true;
    return false;
}
static bool may_vary(const Prog *p, int x) { // an input or a parameter: never the same value as another expression, or as itself in another round
    int op = p->at[x].op;
    return p->at[x].type == D_F && (ops[op].eval == eval_input || ops[op].eval == eval_parameter || (ops[op].eval == eval_matmul && !p->at[x].scope));
}
static bool draw_pair(Gen *g, int *y, int *x) {
    for (int tries = 0; tries < 12; tries++) {
        *y = pick(g, D_F, 0, 4), *x = pick(g, D_F, 0, 4);
        if (*y >= 0 && *x >= 0 && *y != *x && may_vary(g->prog, *x) && depends(g->prog, *y, *x)) return true;
    }
    return false;
}
// vjp(y, x, u) and jvp(y, x, v)
bool propose_vjp(Gen *g, Value *v) {
    int y, x;
    if (!draw_pair(g, &y, &x)) return false;
    int like = ops[v->op].code ? x : y;
    int u = below(g, 3) ? fresh(g, D_F, g->prog->at[like].shape) : number(g, 1.0);
    return take(v, y) && take(v, x) && take(v, u);
}
static bool infer_seeded(const Prog *p, Value *v, int like, int result) {
    v->type = D_F;
    v->shape = *shape_of(p, v, result);
    const Shape *u = shape_of(p, v, 2);
    return may_vary(p, v->arg[1]) && (u->rank == 0 || shape_equal(u, shape_of(p, v, like)));
}
bool infer_vjp(const Prog *p, Value *v) { return infer_seeded(p, v, 0, 1); }
bool infer_jvp(const Prog *p, Value *v) { return infer_seeded(p, v, 1, 0); }
void eval_vjp(Eval *e, const Value *v, Tensor *out) {
    Tensor y = arg(e, v, 0), x = arg(e, v, 1), u = t_broadcast(e, arg(e, v, 2), y.shape);
    *out = tensor_make(e, x.shape, D_F);
    tape_reverse(&e->tape, y.id, u.id, shape_size(&y.shape), x.id, shape_size(&x.shape), out->id);
}
void eval_jvp(Eval *e, const Value *v, Tensor *out) {
    Tensor y = arg(e, v, 0), x = arg(e, v, 1), u = t_broadcast(e, arg(e, v, 2), x.shape);
    *out = tensor_make(e, y.shape, D_F);
    tape_forward(&e->tape, y.id, shape_size(&y.shape), x.id, u.id, shape_size(&x.shape), out->id);
}
// attr 0: the batch axis, or -1
bool propose_jacobian(Gen *g, Value *v) {
    int y, x;
    if (!draw_pair(g, &y, &x)) return false;
    v->nattrs = 1, v->attr[0] = -1;
    return take(v, y) && take(v, x);
}
bool propose_jacobian_batch(Gen *g, Value *v) {
    if (!propose_jacobian(g, v)) return false;
    v->attr[0] = 0;
    return true;
}
bool infer_jacobian(const Prog *p, Value *v) {
    const Shape *y = shape_of(p, v, 0), *x = shape_of(p, v, 1);
    int batch = v->attr[0] >= 0;
    v->type = D_F;
    if (!may_vary(p, v->arg[1]) || y->rank + x->rank - batch > MAX_RANK ) return false;
    if (batch && (y->rank < 1 || x->rank < 1 || y->n[0] != x->n[0] || (y->bounded & 1) != (x->bounded & 1))) return false;
    v->shape = (Shape){.rank = y->rank + x->rank - batch};
    for (int d = 0; d < v->shape.rank; d++) v->shape.n[d] = d < y->rank ? y->n[d] : x->n[d - y->rank + batch];
    v->shape.bounded = y->bounded | (x->bounded >> batch) << y->rank;
    return shape_size(y) <= 64;
}
static void one_row(Eval *e, Tensor y, Tensor x, int row, bool batch, int *grad) {
    int n = shape_size(&y.shape), per = batch ? n / y.shape.n[0] : n;
    Tensor u = tensor_make(e, y.shape, D_F);
    for (int i = 0; i < n; i++) u.id[i] = tape_const(&e->tape, (batch ? i % per : i) == row);
    tape_reverse(&e->tape, y.id, u.id, n, x.id, shape_size(&x.shape), grad);
}
void eval_jacobian(Eval *e, const Value *v, Tensor *out) {
    Tensor y = arg(e, v, 0), x = arg(e, v, 1), grad = tensor_make(e, x.shape, D_F);
    bool batch = v->attr[0] >= 0;
    int rows = shape_size(&y.shape), columns = shape_size(&x.shape), b = batch ? y.shape.n[0] : 1;
    *out = tensor_make(e, v->shape, D_F);
    if (rows == 0 || columns == 0) return;
    rows /= b, columns /= b;
    for (int r = 0; r < rows && !e->tape.full; r++) {
        one_row(e, y, x, r, batch, grad.id);
        for (int z = 0; z < b; z++)
            for (int c = 0; c < columns; c++) out->id[(z * rows + r) * columns + c] = grad.id[z * columns + c];
    }
}
