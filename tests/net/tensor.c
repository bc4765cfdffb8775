#include "tests/net/tensor.h"
#include <math.h>
#include <string.h>

int shape_size(const Shape *s) {
    int n = 1;
    for (int d = 0; d < s->rank; d++) n *= s->n[d];
    return n;
}
bool shape_equal(const Shape *a, const Shape *b) {
    if (a->rank != b->rank || a->bounded != b->bounded) return false;
    return memcmp(a->n, b->n, sizeof(int) * (size_t)a->rank) == 0;
}
void unravel(const Shape *s, int flat, int *at) {
    for (int d = s->rank - 1; d >= 0; d--) {
        at[d] = s->n[d] ? flat % s->n[d] : 0;
        flat = s->n[d] ? flat / s->n[d] : 0;
    }
}
int ravel(const Shape *s, const int *at) {
    int flat = 0;
    for (int d = 0; d < s->rank; d++) flat = flat * s->n[d] + at[d];
    return flat;
}

static bool meet(int a, bool a_bounded, int b, bool b_bounded, int *n) {
    if (a_bounded || b_bounded) {
        *n = a_bounded ? a : b;
        if (a_bounded && b_bounded) return a == b;
        return (a_bounded || a == 1) && (b_bounded || b == 1);
    }
    *n = a == 1 ? b : a;
    return a == b || a == 1 || b == 1;
}

bool broadcast_shapes(const Shape *a, const Shape *b, Shape *out) {
    Shape s = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int d = 0; d < s.rank; d++) {
        int i = d - (s.rank - a->rank), j = d - (s.rank - b->rank);
        bool p = i >= 0 && a->bounded >> i & 1, q = j >= 0 && b->bounded >> j & 1;
        if (!meet(i < 0 ? 1 : a->n[i], p, j < 0 ? 1 : b->n[j], q, &s.n[d])) return false;
        s.bounded |= (unsigned)(p || q) << d;
    }
    *out = s;
    return true;
}

// The element of a that stands at `at` of a larger shape.
static int element(const Tensor *a, const Shape *s, const int *at) {
    int flat = 0;
    for (int d = 0; d < a->shape.rank; d++) {
        int i = at[d + s->rank - a->shape.rank];
        flat = flat * a->shape.n[d] + (a->shape.n[d] == 1 ? 0 : i);
    }
    return a->id[flat];
}

Tensor t_broadcast(Eval *e, Tensor a, Shape s) {
    Tensor r = tensor_make(e, s, a.type);
    int at[MAX_RANK];
    for (int i = 0; i < shape_size(&s); i++) {
        unravel(&s, i, at);
        r.id[i] = element(&a, &s, at);
    }
    return r;
}

static bool gives_bool(TapeOp op) { return op >= T_LT && op <= T_NOT; }

Tensor t_point1(Eval *e, TapeOp op, Tensor a) {
    Tensor r = tensor_make(e, a.shape, op == T_TRUNC ? D_I : gives_bool(op) ? D_B : a.type);
    for (int i = 0; i < shape_size(&a.shape); i++) r.id[i] = tape_1(&e->tape, op, a.id[i]);
    return r;
}

static TapeOp integer_form(TapeOp op) {
    switch (op) {
    case T_ADD: return T_IADD;
    case T_SUB: return T_ISUB;
    case T_MUL: return T_IMUL;
    case T_DIV: return T_IDIV;
    default: return op;
    }
}

Tensor t_point2(Eval *e, TapeOp op, Tensor a, Tensor b) {
    Shape s;
    broadcast_shapes(&a.shape, &b.shape, &s);
    if (a.type == D_I) op = integer_form(op);
    Tensor r = tensor_make(e, s, gives_bool(op) ? D_B : a.type), x = t_broadcast(e, a, s), y = t_broadcast(e, b, s);
    for (int i = 0; i < shape_size(&s); i++) r.id[i] = tape_2(&e->tape, op, x.id[i], y.id[i]);
    return r;
}

Tensor t_where(Eval *e, Tensor c, Tensor a, Tensor b) {
    Shape s;
    broadcast_shapes(&a.shape, &b.shape, &s);
    broadcast_shapes(&s, &c.shape, &s);
    Tensor r = tensor_make(e, s, a.type), z = t_broadcast(e, c, s), x = t_broadcast(e, a, s), y = t_broadcast(e, b, s);
    for (int i = 0; i < shape_size(&s); i++) r.id[i] = tape_op(&e->tape, T_SELECT, z.id[i], x.id[i], y.id[i]);
    return r;
}

Tensor t_number(Eval *e, double x) {
    Tensor r = tensor_make(e, (Shape){0}, D_F);
    r.id[0] = tape_const(&e->tape, x);
    return r;
}

Shape reduced_shape(const Shape *s, unsigned axes, bool keep) {
    Shape r = {0};
    for (int d = 0; d < s->rank; d++) {
        bool gone = axes >> d & 1;
        if (gone && !keep) continue;
        if (!gone && s->bounded >> d & 1) r.bounded |= 1u << r.rank;
        r.n[r.rank++] = gone ? 1 : s->n[d];
    }
    return r;
}

static double neutral(TapeOp op, Type type) {
    bool i = type == D_I;
    switch (op) {
    case T_MUL: return 1;
    case T_MAX: return i ? -2147483648.0 : -INFINITY;
    case T_MIN: return i ? 2147483647.0 : INFINITY;
    default: return 0;
    }
}

Precision begin_sum(Eval *e) {
    Precision before = e->tape.precision;
    e->tape.precision = P_F32;
    return before;
}
void end_sum(Eval *e, Precision before, Tensor *out) {
    e->tape.precision = before;
    for (int i = 0; before != P_F32 && i < shape_size(&out->shape); i++) out->id[i] = tape_1(&e->tape, T_COPY, out->id[i]);
}

Tensor t_reduce(Eval *e, TapeOp op, Tensor a, unsigned axes, bool keep, const Tensor *where) {
    Shape kept = reduced_shape(&a.shape, axes, true);
    Tensor r = tensor_make(e, reduced_shape(&a.shape, axes, keep), a.type);
    TapeOp form = a.type == D_I ? integer_form(op) : op;
    Precision before = begin_sum(e);
    for (int i = 0; i < shape_size(&kept); i++) r.id[i] = -1;
    for (int i = 0; i < shape_size(&a.shape); i++) {
        int at[MAX_RANK];
        unravel(&a.shape, i, at);
        for (int d = 0; d < a.shape.rank; d++) at[d] = axes >> d & 1 ? 0 : at[d];
        int k = ravel(&kept, at), x = a.id[i];
        if (where) x = tape_op(&e->tape, T_SELECT, where->id[i], x, tape_const(&e->tape, neutral(op, a.type)));
        r.id[k] = r.id[k] < 0 ? x : tape_2(&e->tape, form, r.id[k], x);
    }
    for (int i = 0; i < shape_size(&kept); i++)
        if (r.id[i] < 0) r.id[i] = tape_const(&e->tape, neutral(op, a.type));
    if (a.type == D_F) end_sum(e, before, &r);
    e->tape.precision = before;
    return r;
}

Tensor t_mean(Eval *e, Tensor a, unsigned axes, bool keep, const Tensor *where) {
    Tensor total = t_reduce(e, T_ADD, a, axes, keep, where);
    if (!where) {
        int n = 1;
        for (int d = 0; d < a.shape.rank; d++) n *= axes >> d & 1 ? a.shape.n[d] : 1;
        return t_point2(e, T_DIV, total, t_number(e, n));
    }
    Tensor ones = *where;
    ones.type = D_F;
    Tensor count = t_reduce(e, T_ADD, ones, axes, keep, NULL);
    return t_point2(e, T_DIV, total, t_point2(e, T_MAX, count, t_number(e, 1)));
}

Tensor t_reshape(Tensor a, Shape s) {
    a.shape = s;
    return a;
}

Tensor t_transpose(Eval *e, Tensor a, const int *perm) {
    Shape s = {.rank = a.shape.rank};
    for (int d = 0; d < s.rank; d++) {
        s.n[d] = a.shape.n[perm[d]];
        s.bounded |= (a.shape.bounded >> perm[d] & 1) << d;
    }
    Tensor r = tensor_make(e, s, a.type);
    for (int i = 0; i < shape_size(&s); i++) {
        int at[MAX_RANK], from[MAX_RANK];
        unravel(&s, i, at);
        for (int d = 0; d < s.rank; d++) from[perm[d]] = at[d];
        r.id[i] = a.id[ravel(&a.shape, from)];
    }
    return r;
}

static Shape as_matrix(const Shape *s, bool left) {
    Shape r = *s;
    if (s->rank > 1) return r;
    r.rank = 2;
    r.n[0] = left ? 1 : s->n[0];
    r.n[1] = left ? s->n[0] : 1;
    r.bounded = s->bounded ? (left ? 2 : 1) : 0;
    return r;
}

static Shape batch_of(const Shape *s) {
    Shape r = *s;
    r.rank -= 2;
    r.bounded &= (1u << r.rank) - 1;
    return r;
}

bool matmul_shape(const Shape *a, const Shape *b, Shape *out) {
    if (a->rank < 1 || b->rank < 1) return false;
    Shape x = as_matrix(a, true), y = as_matrix(b, false), p = batch_of(&x), q = batch_of(&y), s;
    bool inner = (x.bounded >> (x.rank - 1) & 1) == (y.bounded >> (y.rank - 2) & 1);
    if (!inner || x.n[x.rank - 1] != y.n[y.rank - 2] || !broadcast_shapes(&p, &q, &s) || s.rank > MAX_RANK - 2) return false;
    if (a->rank > 1) {
        s.bounded |= (x.bounded >> (x.rank - 2) & 1) << s.rank;
        s.n[s.rank++] = x.n[x.rank - 2];
    }
    if (b->rank > 1) {
        s.bounded |= (y.bounded >> (y.rank - 1) & 1) << s.rank;
        s.n[s.rank++] = y.n[y.rank - 1];
    }
    *out = s;
    return true;
}

Tensor t_matmul(Eval *e, Tensor a, Tensor b) {
    Shape out;
    matmul_shape(&a.shape, &b.shape, &out);
    Shape x = as_matrix(&a.shape, true), y = as_matrix(&b.shape, false), p = batch_of(&x), q = batch_of(&y), batch;
    broadcast_shapes(&p, &q, &batch);
    int rows = x.n[x.rank - 2], inner = x.n[x.rank - 1], columns = y.n[y.rank - 1], size = shape_size(&batch);
    Tensor r = tensor_make(e, out, D_F);
    Shape wide_x = batch, wide_y = batch;
    wide_x.n[batch.rank] = rows, wide_x.n[batch.rank + 1] = inner, wide_x.rank += 2;
    wide_y.n[batch.rank] = inner, wide_y.n[batch.rank + 1] = columns, wide_y.rank += 2;
    Tensor l = t_broadcast(e, t_reshape(a, x), wide_x), m = t_broadcast(e, t_reshape(b, y), wide_y);
    Precision before = begin_sum(e);
    for (int i = 0; i < size * rows * columns; i++) {
        int z = i / (rows * columns), row = i / columns % rows, column = i % columns, sum = -1;
        for (int k = 0; k < inner; k++) {
            int term = tape_2(&e->tape, T_MUL, l.id[(z * rows + row) * inner + k], m.id[(z * inner + k) * columns + column]);
            sum = sum < 0 ? term : tape_2(&e->tape, T_ADD, sum, term);
        }
        r.id[i] = sum < 0 ? tape_const(&e->tape, 0) : sum;
    }
    end_sum(e, before, &r);
    return r;
}

static Tensor stopped_max(Eval *e, Tensor a, unsigned axes) {
    Tensor m = t_reduce(e, T_MAX, a, axes, true, NULL);
    return t_point1(e, T_STOP, t_point2(e, T_MAX, m, t_number(e, -3e38)));
}

Tensor t_softmax(Eval *e, Tensor a, unsigned axes) {
    Tensor x = t_point1(e, T_EXP, t_point2(e, T_SUB, a, stopped_max(e, a, axes)));
    Tensor s = t_point2(e, T_MAX, t_reduce(e, T_ADD, x, axes, true, NULL), t_number(e, 1e-30));
    return t_point2(e, T_DIV, x, s);
}
