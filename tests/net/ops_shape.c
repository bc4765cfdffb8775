#include "tests/net/ops_point.h"
#include "tests/net/rows.h"
#include <math.h>

static Tensor arg(Eval *e, const Value *v, int k) { return e->value[v->arg[k]]; }
static const Shape *shape_of(const Prog *p, const Value *v, int k) { return &p->at[v->arg[k]].shape; }
static int pick_any(Gen *g, int low, int high) {
    int k = random_below(&g->random, 100);
    return pick(g, k < 78 ? D_F : k < 92 ? D_I : D_B, low, high);
}
static int below(Gen *g, int n) { return random_below(&g->random, n); }

bool infer_leaf(const Prog *p, Value *v) {
    int scale, shift;
    for (int d = 0; d < v->shape.rank; d++)
        if (v->shape.bounded >> d & 1 && !extent_form(p, v->shape.n[d], &scale, &shift)) return false;
    return true;
}
void eval_input(Eval *e, const Value *v, Tensor *out) {
    int id = (int)(v - e->prog->at), n = shape_size(&v->shape);
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < n; i++) out->id[i] = v->type == D_F ? tape_var(&e->tape, e->inputs[id][i], 0) : tape_const(&e->tape, e->inputs[id][i]);
}
void eval_parameter(Eval *e, const Value *v, Tensor *out) {
    int id = (int)(v - e->prog->at);
    char own[32], path[MAX_PATH];
    snprintf(own, sizeof own, "v%d", id);
    path_now(e, id, own, path);
    *out = eval_param(e, path, v->shape, 0.6, 0);
}
void eval_number(Eval *e, const Value *v, Tensor *out) { *out = t_number(e, v->number); }
void eval_filled(Eval *e, const Value *v, Tensor *out) { *out = t_broadcast(e, t_number(e, ops[v->op].code), v->shape); }

bool propose_matmul(Gen *g, Value *v) {
    int a = pick(g, D_F, 1, 4);
    if (a < 0) return false;
    const Shape *s = &g->prog->at[a].shape;
    Shape t = {.rank = below(g, 4) ? 2 : 1};
    t.n[0] = s->n[s->rank - 1];
    t.bounded = s->bounded >> (s->rank - 1) & 1;
    if (t.rank == 2) t.n[1] = some_extent(g);
    int b = -1;
    for (int tries = 0; tries < 6 && b < 0; tries++) {
        int c = pick(g, D_F, 1, 4);
        Shape out;
        if (c >= 0 && matmul_shape(s, &g->prog->at[c].shape, &out)) b = c;
    }
    if (b < 0 || below(g, 3) == 0) b = fresh(g, D_F, t);
    return take(v, a) && take(v, b);
}
// x @ x, x @ transpose(x), transpose(x) @ x: the operands are one tensor
bool propose_self_product(Gen *g, Value *v) {
    int a = pick(g, D_F, 2, 3);
    if (a < 0) return false;
    const Shape *s = &g->prog->at[a].shape;
    int form = s->n[s->rank - 1] == s->n[s->rank - 2] ? below(g, 3) : 1 + below(g, 2);
    if (form == 0) return take(v, a) && take(v, a);
    int t = push_value(g, (Value){.op = op_named("transpose"), .nargs = 1, .arg = {a}, .inlined = true});
    return form == 1 ? take(v, a) && take(v, t) : take(v, t) && take(v, a);
}
bool infer_matmul(const Prog *p, Value *v) {
    v->type = D_F;
    return matmul_shape(shape_of(p, v, 0), shape_of(p, v, 1), &v->shape);
}
void eval_matmul(Eval *e, const Value *v, Tensor *out) { *out = t_matmul(e, arg(e, v, 0), arg(e, v, 1)); }

bool propose_transpose(Gen *g, Value *v) {
    v->nattrs = 0;
    return take(v, pick_any(g, 2, MAX_RANK));
}
static void last_two(int rank, int *perm) {
    for (int d = 0; d < rank; d++) perm[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
}
static bool permuted(const Shape *s, const int *perm, Shape *out) {
    *out = (Shape){.rank = s->rank};
    unsigned seen = 0;
    for (int d = 0; d < s->rank; d++) {
        if (perm[d] < 0 || perm[d] >= s->rank) return false;
        out->n[d] = s->n[perm[d]];
        out->bounded |= (s->bounded >> perm[d] & 1) << d;
        seen |= 1u << perm[d];
    }
    return seen == (1u << s->rank) - 1;
}
bool infer_transpose(const Prog *p, Value *v) {
    int perm[MAX_RANK];
    const Shape *s = shape_of(p, v, 0);
    if (s->rank < 2) return false;
    last_two(s->rank, perm);
    v->type = p->at[v->arg[0]].type;
    return permuted(s, perm, &v->shape);
}
void eval_transpose(Eval *e, const Value *v, Tensor *out) {
    int perm[MAX_RANK];
    last_two(v->shape.rank, perm);
    *out = t_transpose(e, arg(e, v, 0), perm);
}
bool propose_permute(Gen *g, Value *v) {
    int a = pick_any(g, 2, MAX_RANK);
    if (a < 0) return false;
    v->nattrs = g->prog->at[a].shape.rank;
    for (int d = 0; d < v->nattrs; d++) v->attr[d] = d;
    for (int d = v->nattrs - 1; d > 0; d--) {
        int k = below(g, d + 1), x = v->attr[d];
        v->attr[d] = v->attr[k];
        v->attr[k] = x;
    }
    return take(v, a);
}
bool infer_permute(const Prog *p, Value *v) {
    v->type = p->at[v->arg[0]].type;
    return shape_of(p, v, 0)->rank == v->nattrs && permuted(shape_of(p, v, 0), v->attr, &v->shape);
}
void eval_permute(Eval *e, const Value *v, Tensor *out) { *out = t_transpose(e, arg(e, v, 0), v->attr); }

// The new extents are drawn from the factors of the size.
bool propose_reshape(Gen *g, Value *v) {
    int a = pick_any(g, 0, MAX_RANK);
    if (a < 0) return false;
    int size = shape_size(&g->prog->at[a].shape);
    while (v->nattrs < 3 && size > 1 && below(g, 4)) {
        int f = 1 + below(g, size < 8 ? size : 8);
        if (size % f) continue;
        v->attr[v->nattrs++] = f;
        size /= f;
    }
    v->attr[v->nattrs++] = size;
    return take(v, a);
}
bool infer_reshape(const Prog *p, Value *v) {
    v->type = p->at[v->arg[0]].type;
    v->shape = (Shape){.rank = v->nattrs};
    for (int d = 0; d < v->nattrs; d++) v->shape.n[d] = v->attr[d];
    return !shape_of(p, v, 0)->bounded && shape_size(&v->shape) == shape_size(shape_of(p, v, 0));
}
void eval_reshape(Eval *e, const Value *v, Tensor *out) { *out = t_reshape(arg(e, v, 0), v->shape); (void)e; }
bool propose_expand(Gen *g, Value *v) {
    int a = pick_any(g, 0, MAX_RANK - 2);
    if (a < 0) return false;
    v->nattrs = 1, v->attr[0] = below(g, g->prog->at[a].shape.rank + 1);
    return take(v, a);
}
bool infer_expand(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0);
    v->type = p->at[v->arg[0]].type;
    if (s->rank >= MAX_RANK || v->attr[0] > s->rank) return false;
    v->shape = (Shape){.rank = s->rank + 1};
    for (int d = 0; d <= s->rank; d++) {
        int from = d < v->attr[0] ? d : d - 1;
        v->shape.n[d] = d == v->attr[0] ? 1 : s->n[from];
        if (d != v->attr[0]) v->shape.bounded |= (s->bounded >> from & 1) << d;
    }
    return true;
}

// concat of two or three along one axis; attr 0: the axis
bool propose_concat(Gen *g, Value *v) {
    int a = pick_any(g, 1, MAX_RANK);
    if (a < 0) return false;
    Shape s = g->prog->at[a].shape;
    v->nattrs = 1, v->attr[0] = below(g, s.rank);
    bool along = s.bounded >> v->attr[0] & 1;
    if (!take(v, a)) return false;
    for (int n = 1 + below(g, 2); n > 0; n--) {
        if (below(g, 3) == 0 || along) s.n[v->attr[0]] = along ? 1 : some_extent(g), s.bounded &= ~(1u << v->attr[0]);
        int b = below(g, 3) ? fresh(g, g->prog->at[a].type, s) : a;
        if (!take(v, b)) return false;
    }
    return true;
}
bool infer_concat(const Prog *p, Value *v) {
    int axis = v->attr[0];
    v->type = p->at[v->arg[0]].type;
    v->shape = *shape_of(p, v, 0);
    if (axis >= v->shape.rank) return false;
    for (int k = 1; k < v->nargs; k++) {
        Shape s = *shape_of(p, v, k);
        if (axis >= s.rank || p->at[v->arg[k]].type != v->type) return false;
        int n = s.n[axis];
        bool one = v->shape.bounded >> axis & 1, other = s.bounded >> axis & 1;
        s.n[axis] = v->shape.n[axis];
        s.bounded |= (unsigned)one << axis, v->shape.bounded |= (unsigned)other << axis;
        if (!shape_equal(&s, &v->shape) || ((one || other) && !extent_sum(p, v->shape.n[axis], one, n, other))) return false;
        v->shape.n[axis] += n;
    }
    return true;
}
void eval_concat(Eval *e, const Value *v, Tensor *out) {
    int axis = v->attr[0], at[MAX_RANK];
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        int k = 0;
        for (; at[axis] >= arg(e, v, k).shape.n[axis]; k++) at[axis] -= arg(e, v, k).shape.n[axis];
        Tensor a = arg(e, v, k);
        out->id[i] = a.id[ravel(&a.shape, at)];
    }
}

// attrs: axis, start, count: one part of a split by sizes
bool propose_split(Gen *g, Value *v) {
    int a = pick_any(g, 1, MAX_RANK);
    if (a < 0) return false;
    const Shape *s = &g->prog->at[a].shape;
    v->nattrs = 3, v->attr[0] = below(g, s->rank);
    int n = s->n[v->attr[0]], low = below(g, n + 1);
    v->attr[1] = low, v->attr[2] = below(g, n - low + 1);
    return take(v, a);
}
bool infer_split(const Prog *p, Value *v) {
    v->type = p->at[v->arg[0]].type;
    v->shape = *shape_of(p, v, 0);
    if (v->attr[0] >= v->shape.rank || v->shape.bounded >> v->attr[0] & 1) return false;
    if (v->attr[1] + v->attr[2] > v->shape.n[v->attr[0]]) return false;
    v->attr[3] = v->shape.n[v->attr[0]] - v->attr[1] - v->attr[2];
    v->nattrs = 4;
    v->shape.n[v->attr[0]] = v->attr[2];
    return v->attr[1] > 0 && v->attr[2] > 0 && v->attr[3] > 0;
}
void eval_split(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    int at[MAX_RANK];
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        at[v->attr[0]] += v->attr[1];
        out->id[i] = a.id[ravel(&a.shape, at)];
    }
}

bool propose_pad(Gen *g, Value *v) {
    int a = pick(g, D_F, 1, MAX_RANK);
    if (a < 0) return false;
    v->nattrs = 2 * g->prog->at[a].shape.rank;
    for (int i = 0; i < v->nattrs; i++) v->attr[i] = below(g, 3);
    v->number = below(g, 2) ? 0 : 0.5;
    return take(v, a);
}
bool infer_pad(const Prog *p, Value *v) {
    v->type = D_F;
    v->shape = *shape_of(p, v, 0);
    for (int d = 0; d < v->shape.rank; d++) {
        int more = v->attr[2 * d] + v->attr[2 * d + 1];
        if (v->shape.bounded >> d & 1 && more && !extent_sum(p, v->shape.n[d], true, more, false)) return false;
        v->shape.n[d] += more;
    }
    return 2 * v->shape.rank == v->nattrs;
}
void eval_pad(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0), fill = t_number(e, v->number);
    int at[MAX_RANK];
    *out = tensor_make(e, v->shape, D_F);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        bool in = true;
        for (int d = 0; d < v->shape.rank; d++) {
            at[d] -= v->attr[2 * d];
            in &= at[d] >= 0 && at[d] < a.shape.n[d];
        }
        out->id[i] = in ? a.id[ravel(&a.shape, at)] : fill.id[0];
    }
}

bool propose_reverse(Gen *g, Value *v) {
    int a = pick_any(g, 1, MAX_RANK);
    if (a < 0) return false;
    v->nattrs = 1, v->attr[0] = below(g, g->prog->at[a].shape.rank);
    return take(v, a);
}
bool infer_reverse(const Prog *p, Value *v) {
    infer_same(p, v);
    return v->attr[0] < v->shape.rank;
}
void eval_reverse(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    int at[MAX_RANK];
    *out = tensor_make(e, v->shape, a.type);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        at[v->attr[0]] = v->shape.n[v->attr[0]] - 1 - at[v->attr[0]];
        out->id[i] = a.id[ravel(&a.shape, at)];
    }
}

// Subscripts of an axis: three attributes, start, count, step; step 0: one element.  They print in several forms (print.c).
bool propose_index(Gen *g, Value *v) {
    int a = pick_any(g, 1, 4);
    if (a < 0) return false;
    const Shape *s = &g->prog->at[a].shape;
    v->nattrs = 3 * s->rank;
    for (int d = 0; d < s->rank; d++) {
        int *x = &v->attr[3 * d], n = s->n[d], form = s->bounded >> d & 1 ? 0 : below(g, 4);
        x[0] = 0, x[1] = n, x[2] = 1;
        if (form == 0 || n == 0) continue;
        x[0] = below(g, n);
        x[2] = form == 1 ? 0 : form == 2 ? 1 + below(g, 3) : -1 - below(g, 2);
        int most = x[2] > 0 ? (n - x[0] + x[2] - 1) / x[2] : x[2] < 0 ? x[0] / -x[2] + 1 : 1;
        x[1] = x[2] ? 1 + below(g, most) : 1;
    }
    return take(v, a);
}
bool infer_index(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0);
    v->type = p->at[v->arg[0]].type;
    v->shape = (Shape){0};
    if (v->nattrs != 3 * s->rank) return false;
    for (int d = 0; d < s->rank; d++) {
        int *x = &v->attr[3 * d];
        bool whole = x[0] == 0 && x[2] == 1 && (x[1] == s->n[d] || s->bounded >> d & 1);
        if (s->bounded >> d & 1 && !whole) return false;
        if (s->bounded >> d & 1) x[1] = s->n[d];
        int last = x[0] + (x[1] - 1) * x[2];
        if (x[1] > 0 && (x[0] < 0 || x[0] >= s->n[d] || last < 0 || last >= s->n[d])) return false;
        if (!x[2]) continue;
        v->shape.bounded |= (s->bounded >> d & 1) << v->shape.rank;
        v->shape.n[v->shape.rank++] = x[1];
    }
    return true;
}
void eval_index(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    int at[MAX_RANK], from[MAX_RANK];
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        for (int d = 0, k = 0; d < a.shape.rank; d++) from[d] = v->attr[3 * d] + (v->attr[3 * d + 2] ? at[k++] * v->attr[3 * d + 2] : 0);
        out->id[i] = a.id[ravel(&a.shape, from)];
    }
}

// x[:, ids]: attr 0 is the axis; ids may be outside, which reads 0
bool propose_gather(Gen *g, Value *v) {
    int a = pick_any(g, 1, 3);
    if (a < 0) return false;
    v->nattrs = 1, v->attr[0] = below(g, g->prog->at[a].shape.rank);
    return take(v, a) && take(v, pick(g, D_I, 0, 2));
}
bool infer_gather(const Prog *p, Value *v) {
    const Shape *s = shape_of(p, v, 0), *t = shape_of(p, v, 1);
    int axis = v->attr[0];
    v->type = p->at[v->arg[0]].type;
    if (axis >= s->rank || s->rank - 1 + t->rank > MAX_RANK || p->at[v->arg[1]].type != D_I) return false;
    v->shape = (Shape){0};
    for (int d = 0; d < s->rank; d++) {
        const Shape *from = d == axis ? t : s;
        for (int k = d == axis ? 0 : d; k < (d == axis ? t->rank : d + 1); k++) {
            v->shape.bounded |= (from->bounded >> k & 1) << v->shape.rank;
            v->shape.n[v->shape.rank++] = from->n[k];
        }
    }
    return true;
}
static int read_or_zero(Eval *e, const Tensor *a, const int *at) {
    for (int d = 0; d < a->shape.rank; d++)
        if (at[d] < 0 || at[d] >= a->shape.n[d]) return tape_const(&e->tape, 0);
    return a->id[ravel(&a->shape, at)];
}
void eval_gather(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0), ids = arg(e, v, 1);
    int at[MAX_RANK], from[MAX_RANK], axis = v->attr[0];
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        int k = ids.id[ravel(&ids.shape, at + axis)];
        e->unsure |= e->tape.at[k].error > 0;
        for (int d = 0; d < a.shape.rank; d++) from[d] = d < axis ? at[d] : d == axis ? (int)e->tape.at[k].value : at[d - 1 + ids.shape.rank];
        out->id[i] = read_or_zero(e, &a, from);
    }
}

// slice(x, start, length) and update(x, part, start) with a run-time start
bool propose_slice(Gen *g, Value *v) {
    int a = pick_any(g, 1, 3);
    if (a < 0) return false;
    v->nattrs = 1, v->attr[0] = 1 + below(g, 4);
    int start = fresh(g, D_I, (Shape){0});
    return take(v, a) && take(v, start);
}
bool infer_slice(const Prog *p, Value *v) {
    v->type = p->at[v->arg[0]].type;
    v->shape = *shape_of(p, v, 0);
    if (v->shape.rank < 1 || shape_of(p, v, 1)->rank || (v->attr[0] > v->shape.n[0] && !(v->shape.bounded & 1))) return false;
    v->shape.bounded &= ~1u;
    v->shape.n[0] = v->attr[0];
    return true;
}
void eval_slice(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    int at[MAX_RANK], start = (int)e->tape.at[arg(e, v, 1).id[0]].value;
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        at[0] += start;
        out->id[i] = read_or_zero(e, &a, at);
    }
}
bool propose_update(Gen *g, Value *v) {
    int a = pick_any(g, 1, 3);
    if (a < 0) return false;
    Shape s = g->prog->at[a].shape;
    s.n[0] = 1 + below(g, s.n[0]);
    return take(v, a) && take(v, fresh(g, g->prog->at[a].type, s)) && take(v, fresh(g, D_I, (Shape){0}));
}
bool infer_update(const Prog *p, Value *v) {
    Shape s = *shape_of(p, v, 1);
    v->type = p->at[v->arg[0]].type;
    v->shape = *shape_of(p, v, 0);
    if (p->at[v->arg[1]].type != v->type || v->shape.rank < 1 || s.rank < 1 || v->shape.bounded || s.n[0] > v->shape.n[0] || shape_of(p, v, 2)->rank) return false;
    s.n[0] = v->shape.n[0];
    return shape_equal(&s, &v->shape);
}
void eval_update(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0), part = arg(e, v, 1);
    int at[MAX_RANK], start = (int)e->tape.at[arg(e, v, 2).id[0]].value;
    *out = tensor_make(e, v->shape, v->type);
    for (int i = 0; i < shape_size(&v->shape); i++) {
        unravel(&v->shape, i, at);
        at[0] -= start;
        bool in = at[0] >= 0 && at[0] < part.shape.n[0];
        out->id[i] = in ? part.id[ravel(&part.shape, at)] : a.id[i];
    }
}

bool propose_broadcast(Gen *g, Value *v) {
    int a = pick_any(g, 0, 3);
    if (a < 0) return false;
    const Shape *s = &g->prog->at[a].shape;
    if (s->rank < 4 && below(g, 2)) v->attr[v->nattrs++] = 1 + below(g, 3);
    for (int d = 0; d < s->rank; d++) v->attr[v->nattrs++] = s->n[d] == 1 ? some_extent(g) : s->n[d];
    return take(v, a);
}
bool infer_broadcast_to(const Prog *p, Value *v) {
    Shape s = {.rank = v->nattrs}, both;
    v->type = p->at[v->arg[0]].type;
    for (int d = 0; d < s.rank; d++) s.n[d] = v->attr[d];
    v->shape = s;
    return !shape_of(p, v, 0)->bounded && broadcast_shapes(shape_of(p, v, 0), &s, &both) && shape_equal(&both, &s);
}
void eval_broadcast_to(Eval *e, const Value *v, Tensor *out) { *out = t_broadcast(e, arg(e, v, 0), v->shape); }

// attrs: n, axis, rank
bool propose_iota(Gen *g, Value *v) {
    v->nattrs = 3, v->attr[0] = some_extent(g), v->attr[2] = 1 + below(g, 3), v->attr[1] = below(g, v->attr[2]);
    return true;
}
bool infer_iota(const Prog *p, Value *v) {
    (void)p;
    v->type = D_I;
    v->shape = (Shape){.rank = v->attr[2]};
    for (int d = 0; d < v->attr[2]; d++) v->shape.n[d] = d == v->attr[1] ? v->attr[0] : 1;
    return true;
}
void eval_iota(Eval *e, const Value *v, Tensor *out) {
    *out = tensor_make(e, v->shape, D_I);
    for (int i = 0; i < v->attr[0]; i++) out->id[i] = tape_const(&e->tape, i);
}
bool propose_one_hot(Gen *g, Value *v) {
    v->nattrs = 1, v->attr[0] = some_extent(g);
    return take(v, pick(g, D_I, 0, 3));
}
bool infer_one_hot(const Prog *p, Value *v) {
    v->type = D_F;
    v->shape = *shape_of(p, v, 0);
    v->shape.n[v->shape.rank++] = v->attr[0];
    return v->shape.rank <= MAX_RANK;
}
void eval_one_hot(Eval *e, const Value *v, Tensor *out) {
    Tensor a = arg(e, v, 0);
    int n = v->attr[0];
    *out = tensor_make(e, v->shape, D_F);
    for (int i = 0; i < shape_size(&v->shape); i++) out->id[i] = tape_2(&e->tape, T_EQ, a.id[i / n], tape_const(&e->tape, i % n));
}
