/* Rules on concatenations: of nothing, of reshapes, of very many, of what an unrolled loop computes; slices of them.
 *
 *     concat(f(a[0]), f(a[1]), ..)  =  f(a)
 *
 * Values that are computed alike from successive slices of tensors are one value of the tensors (superword-level
 * parallelism: Larsen and Amarasinghe, PLDI 2000; here the vector is a dim of its own).  The computation is compared
 * part by part down to its leaves: slices at equal distances, or one value in all parts.  Where a leaf is neither,
 * nothing is done, since the parts would have to be put together in memory. */
#include "passes/rewrite/rewrite.h"
#include <string.h>

/* Has x the dims of n apart from the axis, in whose place it has `more` + 1 others? */
static bool differs_at_axis(const Node *n, const Node *x, int axis, int more) {
    if (!shape_is_fixed(*x->shape) || x->shape->rank != n->shape->rank + more) return false;
    for (int d = 0; d < n->shape->rank; d++)
        if (d != axis && !dim_equal(n->shape->dim[d], x->shape->dim[d < axis ? d : d + more])) return false;
    return true;
}

static bool same_dims(const Node *a, const Node *b, int from, int to) {
    for (int d = from; d < to; d++)
        if (!dim_equal(a->shape->dim[d], b->shape->dim[d])) return false;
    return true;
}

/* concat(reshape(a), reshape(b)) = reshape(concat(a, b)), of reshapes that merge several dims into the axis, or make it, of
 * one element, in front of a dim: that grows instead. */
Node *rule_concat_before_reshape(Rewriter *r, const Node *n) {
    Node **in = ARENA_ARRAY(r->scratch, Node *, n->n_in);
    const int axis = n->attr->axis, more = rewrite_seen(r, n->in[0], OP_RESHAPE) ? n->in[0]->in[0]->shape->rank - n->shape->rank : 0;
    if (more < -1 || more == 0) return NULL;
    for (int k = 0; k < n->n_in; k++) {
        const Node *reshape = rewrite_seen(r, n->in[k], OP_RESHAPE);
        if (!reshape) return NULL;
        in[k] = reshape->in[0];
        if (!differs_at_axis(reshape, in[k], axis, more)) return NULL;
        if (more < 0 && (axis == n->shape->rank - 1 || !dim_is_unit(reshape->shape->dim[axis]))) return NULL;
        if (!same_dims(in[k], in[0], axis + 1, axis + 1 + more)) return NULL;
    }
    return rewrite_reshape(r, rewrite_op(r, OP_CONCAT, n->n_in, in, n->attr), *n->shape);
}

Node *rule_concat(Rewriter *r, const Node *n) {
    VEC(Node *) kept = {0};
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]->shape->dim[n->attr->axis].bound > 0) vec_push(r->scratch, kept, n->in[k]);
    if (kept.n == 0 || n->n_in == 1) return n->in[0];
    if (kept.n == 1) return kept.at[0];
    return kept.n < n->n_in ? rewrite_op(r, OP_CONCAT, kept.n, kept.at, n->attr) : NULL;
}

/* A kernel has UINT8_MAX tensors at most, what its concat is computed with among them. */
Node *rule_concat_of_many(Rewriter *r, const Node *n) {
    enum { MOST = 128 };
    if (n->n_in <= MOST) return NULL;
    const int groups = (n->n_in + MOST - 1) / MOST;
    Node **joined = ARENA_ARRAY(r->scratch, Node *, groups);
    for (int k = 0; k < groups; k++) {
        const int first = k * MOST, count = n->n_in - first < MOST ? n->n_in - first : MOST;
        joined[k] = count == 1 ? n->in[first] : rewrite_op(r, OP_CONCAT, count, n->in + first, n->attr);
    }
    return rewrite_op(r, OP_CONCAT, groups, joined, n->attr);
}

/* ---- what is computed alike ---------------------------------------------------------------------------------- */
enum {
    LEAST_PARTS = 3,
    MOST_DEPTH = 24, /* of a part's computation */
    MOST_NODES = 96, /* of it */
};

/* A value of each part, and the whole of them with the parts along a new dim. */
typedef struct Lane {
    Node *const *part;
    int dim; /* the new one */
    Node *whole;
} Lane;

typedef struct Roll {
    Rewriter *r;
    int n; /* parts */
    VEC(Lane) done;
    bool sliced; /* some leaf is a slice */
} Roll;

static Node *roll(Roll *x, Node *const *part, int dim, int depth);

static Shape with_dim(const Roll *x, const Shape *s, int dim) {
    Shape wide = {.rank = s->rank + 1};
    for (int d = 0; d < wide.rank; d++) wide.dim[d] = d == dim ? dim_fixed(x->n) : s->dim[d - (d > dim)];
    return wide;
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */
/* One value in all parts. */
static Node *repeated(Roll *x, Node *part, int dim) {
    int8_t axes[MAX_RANK + 1];
    const Shape wide = with_dim(x, part->shape, dim);
    for (int d = 0; d < part->shape->rank; d++) axes[d] = (int8_t)(d + (d >= dim));
    return rewrite_broadcast(x->r, part, wide, axes);
}

static bool same_but(const Attr *a, const Attr *b, int rank, int axis) {
    for (int d = 0; d < rank; d++)
        if (d != axis && (!dim_equal(a->lo[d], b->lo[d]) || a->step[d] != b->step[d])) return false;
    return true;
}

/* The axis along which the slices go on; -1: they do not differ along one alone. */
static int axis_of_slices(const Roll *x, Node *const *part) {
    const Node *a = part[0], *b = part[1];
    const int rank = a->shape->rank;
    int axis = -1;
    for (int d = 0; d < rank; d++) {
        if (!dim_is_fixed(a->attr->lo[d]) || !dim_is_fixed(b->attr->lo[d]) || !dim_is_fixed(a->shape->dim[d]))
            return -1;
        if (a->attr->lo[d].bound == b->attr->lo[d].bound) continue;
        if (axis >= 0) return -1;
        axis = d;
    }
    for (int i = 1; i < x->n && axis >= 0; i++)
        if (part[i]->in[0] != a->in[0] || !shape_equal(*part[i]->shape, *a->shape) ||
            !same_but(part[i]->attr, a->attr, rank, axis) || !dim_is_fixed(part[i]->attr->lo[axis]))
            return -1;
    return axis;
}

/* Slices of one tensor, equally far apart: one of each element with any distance, or longer ones side by side. */
static Node *rolled_slices(Roll *x, Node *const *part, int dim) {
    const int axis = axis_of_slices(x, part);
    if (axis < 0) return NULL;
    const Node *first = part[0];
    const int64_t length = first->shape->dim[axis].bound, from = first->attr->lo[axis].bound,
                  by = part[1]->attr->lo[axis].bound - from;
    for (int i = 2; i < x->n; i++)
        if (part[i]->attr->lo[axis].bound != from + i * by) return NULL;
    const bool single = length == 1, behind = single && dim == axis + 1;
    if ((dim != axis && !behind) || (!single && (by != length || first->attr->step[axis] != 1))) return NULL;
    Attr cut = *first->attr;
    for (int d = 0; d < first->shape->rank; d++) cut.hi[d] = first->shape->dim[d];
    cut.hi[axis] = dim_fixed(length * x->n);
    cut.step[axis] = single ? by : 1;
    x->sliced = true;
    return rewrite_reshape(x->r, rewrite_op(x->r, OP_SLICE, 1, first->in, &cut), with_dim(x, first->shape, dim));
}

/* ---- what is computed of them --------------------------------------------------------------------------------------
 */
static Node *rolled_operand(Roll *x, Node *const *part, int k, int dim, int depth) {
    Node **in = ARENA_ARRAY(x->r->scratch, Node *, x->n);
    for (int i = 0; i < x->n; i++) in[i] = part[i]->in[k];
    return roll(x, in, dim, depth + 1);
}

/* The dim of the operand in front of which as many elements stand as in front of dim `dim` of the reshape; -1: inside
 * of one. */
static int before_reshape(const Node *n, int dim) {
    const Shape *from = n->in[0]->shape;
    int64_t outer = 1, at = 1;
    if (!shape_is_fixed(*from) || !shape_is_fixed(*n->shape) || shape_elements(*from) == 0) return -1;
    for (int d = 0; d < dim; d++) outer *= n->shape->dim[d].bound;
    for (int d = 0; d <= from->rank; at *= d < from->rank ? from->dim[d].bound : 1, d++)
        if (at == outer) return d;
    return -1;
}

static Node *rolled_reshape(Roll *x, Node *const *part, int dim, int depth) {
    int at = before_reshape(part[0], dim);
    Node *in = NULL;
    /* dims of one element do not count: the slices may go on along any of them */
    for (; !in && at >= 0 && at <= part[0]->in[0]->shape->rank; at++) {
        in = rolled_operand(x, part, 0, at, depth);
        if (at == part[0]->in[0]->shape->rank || !dim_is_unit(part[0]->in[0]->shape->dim[at])) break;
    }
    return in ? rewrite_reshape(x->r, in, with_dim(x, part[0]->shape, dim)) : NULL;
}

static Node *rolled_broadcast(Roll *x, Node *const *part, int dim, int depth) {
    const Node *n = part[0];
    int8_t axes[MAX_RANK + 1];
    int at = 0;
    while (at < n->attr->n_axes && n->attr->axes[at] < dim) at++;
    Node *in = rolled_operand(x, part, 0, at, depth);
    if (!in) return NULL;
    for (int d = 0; d <= n->attr->n_axes; d++) {
        const int from = d - (d > at);
        axes[d] = (int8_t)(d == at ? dim : n->attr->axes[from] + (n->attr->axes[from] >= dim));
    }
    return rewrite_broadcast(x->r, in, with_dim(x, n->shape, dim), axes);
}

/* Before the axis that is dim `dim` of the result, or before those in front of it that are reduced: either makes the same of them,
 * but slices go on along one alone. */
static Node *rolled_reduce(Roll *x, Node *const *part, int dim, int depth) {
    const Node *n = part[0];
    int8_t axes[MAX_RANK];
    int at = 0, least = 0, kept = 0, next = 0;
    for (; at < n->in[0]->shape->rank; at++) {
        const bool reduced = next < n->attr->n_axes && n->attr->axes[next] == at;
        if (!reduced && kept == dim) break;
        next += reduced, kept += !reduced;
        if (!reduced) least = at + 1;
    }
    Node *in = rolled_operand(x, part, 0, at, depth);
    while (!in && at > least) in = rolled_operand(x, part, 0, --at, depth);
    for (int i = 0; i < n->attr->n_axes && i < MAX_RANK; i++)
        axes[i] = (int8_t)(n->attr->axes[i] + (n->attr->axes[i] >= at));
    return in ? rewrite_reduce(x->r, n->op, in, n->attr->n_axes, axes) : NULL;
}

static Node *rolled_element(Roll *x, Node *const *part, int dim, int depth) {
    Node *in[4];
    if (part[0]->n_in > 4 || part[0]->n_in == 0) return NULL;
    for (int k = 0; k < part[0]->n_in; k++)
        if (!(in[k] = rolled_operand(x, part, k, dim, depth))) return NULL;
    return rewrite_op(x->r, part[0]->op, part[0]->n_in, in, part[0]->attr);
}

/* Room for a loop in front of loop `at`. */
static void insert_loop(Affine *e, int at) {
    memmove(&e->coef[at + 1], &e->coef[at], sizeof *e->coef * (size_t)(MAX_LOOPS - 1 - at));
    e->coef[at] = 0;
}

/* The same but for its constant? */
static bool same_steps(const Affine *a, const Affine *b) {
    return a->divisor == b->divisor && memcmp(a->coef, b->coef, sizeof a->coef) == 0;
}

/* But for constants of subscripts, where slices of an operand went (rule_absorb). */
static bool same_contract(const Node *a, const Node *b) {
    const Contract *c = a->attr->contract, *d = b->attr->contract;
    bool same = c->n_loops == d->n_loops && c->n_out == d->n_out && c->n_operands == d->n_operands && c->n_guards == d->n_guards &&
                c->to_f32 == d->to_f32;
    for (int l = 0; l < c->n_loops && same; l++) same = dim_equal(c->extent[l], d->extent[l]);
    for (int i = 0; i < c->n_guards && same; i++) {
        const Guard *g = &c->guard[i], *h = &d->guard[i];
        same = g->kind == h->kind && g->lo == h->lo && dim_equal(g->hi, h->hi) && g->e.c == h->e.c && same_steps(&g->e, &h->e);
    }
    for (int k = 0; k < c->n_operands && same; k++)
        for (int e = 0; e < a->in[k]->shape->rank && same; e++) same = same_steps(&c->map[k][e], &d->map[k][e]);
    return same;
}

/* How far the subscript moves from part to part; false: not by the same. */
static bool moves_by(const Roll *x, Node *const *part, int k, int d, int64_t *by) {
    const Affine *first = &part[0]->attr->contract->map[k][d];
    *by = part[1]->attr->contract->map[k][d].c - first->c;
    for (int i = 2; i < x->n; i++)
        if (part[i]->attr->contract->map[k][d].c != first->c + i * *by) return false;
    return *by == 0 || first->divisor == 1;
}

static bool is_one(const Roll *x, Node *const *part, int k) {
    bool one = true;
    for (int i = 1; i < x->n; i++) one &= part[i]->in[k] == part[0]->in[k];
    return one;
}

/* With a loop over the parts, at which operands that differ are read along a dim more, wherever their slices go on. */
static Node *rolled_contract(Roll *x, Node *const *part, int dim, int depth) {
    const Node *n = part[0];
    const Contract *old = n->attr->contract;
    Contract c = *old;
    if (old->n_loops == MAX_LOOPS) return NULL;
    Node **in = arena_dup(x->r->scratch, n->in, sizeof *in * (size_t)n->n_in);
    c.map = arena_dup(x->r->scratch, old->map, sizeof *old->map * (size_t)old->n_operands);
    c.guard = ARENA_ARRAY(x->r->scratch, Guard, old->n_guards + 1);
    for (int i = 0; i < old->n_guards; i++) {
        c.guard[i] = old->guard[i];
        insert_loop(&c.guard[i].e, dim);
    }
    memmove(&c.extent[dim + 1], &c.extent[dim], sizeof *c.extent * (size_t)(old->n_loops - dim));
    c.extent[dim] = dim_fixed(x->n);
    c.n_loops++, c.n_out++;
    for (int k = 0; k < n->n_in; k++) {
        const int rank = n->in[k]->shape->rank;
        const bool one = is_one(x, part, k);
        for (int d = 0; d < rank; d++) {
            int64_t by;
            insert_loop(&c.map[k][d], dim);
            if (!moves_by(x, part, k, d, &by) || (by && !one)) return NULL;
            c.map[k][d].coef[dim] = by;
            x->sliced |= by != 0;
        }
        if (one) continue;
        int at = 0;
        while (!(in[k] = rolled_operand(x, part, k, at, depth)))
            if (rank == MAX_RANK || at++ == rank) return NULL;
        memmove(&c.map[k][at + 1], &c.map[k][at], sizeof **c.map * (size_t)(rank - at));
        c.map[k][at] = (Affine){.divisor = 1};
        c.map[k][at].coef[dim] = 1;
    }
    return rewrite_contract(x->r, &c, in);
}

static bool computed_alike(const Roll *x, Node *const *part) {
    const Node *n = part[0];
    for (int i = 0; i < x->n; i++) {
        const Node *m = part[i];
        if (!rewrite_seen(x->r, m, n->op) || m->n_in != n->n_in || m->dtype != n->dtype || m->phase != n->phase ||
            m->remat != n->remat || m->precision != n->precision || !shape_equal(*m->shape, *n->shape))
            return false;
        if (n->op == OP_CONTRACT ? !same_contract(m, n) : n->op != OP_SLICE && m->attr != n->attr) return false; /* kept once */
        for (int k = 0; k < n->n_in; k++)
            if (!shape_equal(*m->in[k]->shape, *n->in[k]->shape)) return false;
    }
    return true;
}

static Node *rolled(Roll *x, Node *const *part, int dim, int depth) {
    const Node *n = part[0];
    bool one = true;
    for (int i = 1; i < x->n; i++) one &= part[i] == n;
    if (one) return repeated(x, part[0], dim);
    if (n->shape->rank == MAX_RANK || !computed_alike(x, part)) return NULL;
    if (op_info[n->op].cls == CLASS_ELEMENT) return rolled_element(x, part, dim, depth);
    if (op_info[n->op].cls == CLASS_REDUCE && n->op != OP_SCAN && n->op != OP_ARGMAX)
        return rolled_reduce(x, part, dim, depth);
    switch (n->op) {
    case OP_SLICE: return rolled_slices(x, part, dim);
    case OP_RESHAPE: return rolled_reshape(x, part, dim, depth);
    case OP_BROADCAST: return rolled_broadcast(x, part, dim, depth);
    case OP_CONTRACT: return rolled_contract(x, part, dim, depth);
    default: return NULL;
    }
}

/* The parts' whole, with a dim of them in front of dim `dim`; NULL: they are not computed alike. */
static Node *roll(Roll *x, Node *const *part, int dim, int depth) {
    for (int i = 0; i < x->done.n; i++)
        if (x->done.at[i].dim == dim && memcmp(x->done.at[i].part, part, sizeof *part * (size_t)x->n) == 0)
            return x->done.at[i].whole;
    if (depth > MOST_DEPTH || x->done.n >= MOST_NODES) return NULL;
    Node *whole = rolled(x, part, dim, depth);
    vec_push(x->r->scratch, x->done, ((Lane){part, dim, whole}));
    return whole;
}

static Node *rolled_run(Rewriter *r, const Node *n, int first, int end) {
    Roll x = {.r = r, .n = end - first};
    Shape shape = *n->shape;
    const int axis = n->attr->axis;
    for (int k = first; k < end; k++)
        if (!shape_equal(*n->in[k]->shape, *n->in[first]->shape)) return NULL;
    const Dim each = n->in[first]->shape->dim[axis];
    if (x.n < LEAST_PARTS || !dim_is_fixed(each) || n->shape->rank == MAX_RANK) return NULL;
    Node *whole = roll(&x, n->in + first, axis, 0);
    shape.dim[axis] = dim_fixed(each.bound * x.n);
    return whole && x.sliced ? rewrite_reshape(r, whole, shape) : NULL;
}

/* All parts, or all but the first, the last or both: where a recurrence begins and ends. */
Node *rule_concat_rolled(Rewriter *r, const Node *n) {
    for (int apart = 0; apart < 4; apart++) {
        const int first = apart & 1, last = apart >> 1;
        Node *run = rolled_run(r, n, first, n->n_in - last), *in[3];
        int n_in = 0;
        if (!run) continue;
        if (first) in[n_in++] = n->in[0];
        in[n_in++] = run;
        if (last) in[n_in++] = n->in[n->n_in - 1];
        return n_in == 1 ? run : rewrite_op(r, OP_CONCAT, n_in, in, n->attr);
    }
    return NULL;
}

/* ---- slices of concatenations and of padded values --------------------------------------------------------------- */
/* Elements lo .. lo + length of each dim. */
typedef struct Box {
    int64_t lo[MAX_RANK], length[MAX_RANK];
} Box;

static bool box_of(const Node *slice, Box *b) {
    if (!shape_is_fixed(*slice->shape) || !shape_is_fixed(*slice->in[0]->shape) || shape_elements(*slice->shape) == 0)
        return false;
    for (int d = 0; d < slice->shape->rank; d++) {
        b->lo[d] = slice->attr->lo[d].bound, b->length[d] = slice->shape->dim[d].bound;
        if (!dim_is_fixed(slice->attr->lo[d]) || (slice->attr->step[d] != 1 && b->length[d] > 1)) return false;
    }
    return true;
}

/* The elements from first on, so many, of dims [d, end) as a box of them. */
static bool box_of_run(const Shape *s, int d, int end, int64_t first, int64_t count, Box *b) {
    int64_t inner = 1;
    for (int i = d; i < end; i++) inner *= s->dim[i].bound;
    for (; d < end; d++) {
        inner /= s->dim[d].bound;
        b->lo[d] = first / inner;
        b->length[d] = count < inner ? 1 : count / inner;
        if (count < inner ? first % inner + count > inner : first % inner || count % inner) return false;
        first %= inner;
        if (count > inner) count = inner;
    }
    return true;
}

/* The elements of the box in dims [d, end), if they are one run. */
static bool run_of_box(const Shape *s, int d, int end, const Box *b, int64_t *first, int64_t *count) {
    *first = 0, *count = 1;
    for (; d < end; d++) {
        if (*count > 1 && b->length[d] != s->dim[d].bound) return false;
        *first = *first * s->dim[d].bound + b->lo[d];
        *count *= b->length[d];
    }
    return true;
}

/* The box of what is reshaped that has the elements of box b of the result. */
static bool before_reshaping(const Node *reshape, const Box *b, Box *in) {
    const Shape *from = reshape->in[0]->shape, *to = reshape->shape;
    if (!shape_is_fixed(*from)) return false;
    for (int i = 0, o = 0; i < from->rank || o < to->rank;) {
        const int i0 = i, o0 = o;
        int64_t left = 1, right = 1, first, count;
        do {
            if (left <= right && i < from->rank)
                left *= from->dim[i++].bound;
            else if (o < to->rank)
                right *= to->dim[o++].bound;
            else
                return false;
        } while (left != right);
        if (!run_of_box(to, o0, o, b, &first, &count) || !box_of_run(from, i0, i, first, count, in)) return false;
    }
    return true;
}

static Node *cut(Rewriter *r, Node *x, const Box *b) {
    Attr attr = {0};
    for (int d = 0; d < x->shape->rank; d++) {
        attr.lo[d] = dim_fixed(b->lo[d]), attr.hi[d] = dim_fixed(b->length[d]);
        attr.step[d] = 1;
    }
    return rewrite_op(r, OP_SLICE, 1, &x, &attr);
}

/* The box of a concatenation that lies in one part. */
static Node *box_of_concat(Rewriter *r, const Node *x, Box b) {
    const int axis = x->attr->axis;
    for (int k = 0; k < x->n_in; k++) {
        const int64_t extent = x->in[k]->shape->dim[axis].bound;
        if (b.lo[axis] < extent) return b.lo[axis] + b.length[axis] <= extent ? cut(r, x->in[k], &b) : NULL;
        b.lo[axis] -= extent;
    }
    return NULL;
}

/* That of a padded value which is all of it, or none. */
static Node *box_of_pad(Rewriter *r, const Node *x, Box b) {
    Shape shape = {.rank = x->shape->rank};
    bool inside = true, outside = false;
    for (int d = 0; d < shape.rank; d++) {
        const int64_t extent = x->in[0]->shape->dim[d].bound;
        b.lo[d] -= x->attr->lo[d].bound;
        shape.dim[d] = dim_fixed(b.length[d]);
        inside &= b.lo[d] >= 0 && b.lo[d] + b.length[d] <= extent;
        outside |= b.lo[d] >= extent || b.lo[d] + b.length[d] <= 0;
    }
    return outside ? rewrite_const(r, x->dtype, shape, x->attr->value) : inside ? cut(r, x->in[0], &b) : NULL;
}

Node *rule_slice_of_parts(Rewriter *r, const Node *n) {
    Box b, in;
    const Node *x = rewrite_seen(r, n->in[0], n->in[0]->op), *reshape = x && x->op == OP_RESHAPE ? x : NULL;
    if (reshape) x = rewrite_seen(r, x->in[0], x->in[0]->op);
    if (!x || (x->op != OP_CONCAT && x->op != OP_PAD) || !box_of(n, &b)) return NULL;
    if (reshape && !before_reshaping(reshape, &b, &in)) return NULL;
    Node *part = x->op == OP_CONCAT ? box_of_concat(r, x, reshape ? in : b) : box_of_pad(r, x, reshape ? in : b);
    return part ? rewrite_reshape(r, part, *n->shape) : NULL;
}
