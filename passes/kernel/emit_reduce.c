/* Reductions and scans: loops with carried tiles. */
#include "passes/kernel/emitter.h"
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- nests of loops ----------------------------------------------------------------------------------- */
void emit_forget(Emitter *e, int n) {
    while (e->memo.n > n) {
        e->memo.n--;
        e->memo_of[e->memo.at[e->memo.n].node->id] = e->memo.at[e->memo.n].below;
    }
}

void nest_begin(Emitter *e, Nest *nest, int n_axes, const int *axes, int n, const int *init, int *carry) {
    *nest = (Nest){.n_carry = n, .memo = e->memo.n};
    if (n) memcpy(carry, init, sizeof *carry * (size_t)n);
    for (int i = 0; i < n_axes; i++) {
        if (axes[i] < 0 || e->k->axes.at[axes[i]].kind != AXIS_LOOP) continue;
        Builder inside;
        int *in = n ? arena_dup(e->arena, carry, sizeof *carry * (size_t)n) : NULL;
        nest->outside[nest->n] = e->b;
        nest->loop[nest->n++] = tile_for_begin(&e->b, axes[i], n, in, carry, &inside);
        e->b = inside;
    }
}

void nest_end(Emitter *e, Nest *nest, const int *yield, int *results) {
    const int n = nest->n_carry;
    const int *values = yield;
    for (int i = nest->n - 1; i >= 0; i--) {
        int *out = ARENA_ARRAY(e->arena, int, n ? n : 1);
        tile_for_end(&e->b, nest->loop[i], values, out);
        e->b = nest->outside[i];
        values = out;
    }
    if (n) memcpy(results, values, sizeof *results * (size_t)n);
    emit_forget(e, nest->memo);
}

Branch emit_if(Emitter *e, int condition, int n, const int *carry) {
    Branch b = {.outside = e->b, .memo = e->memo.n};
    Builder inside;
    b.inst = tile_if_begin(&e->b, condition, n, carry, &inside);
    e->b = inside;
    return b;
}

void emit_endif(Emitter *e, Branch *b, const int *next, int *results) {
    tile_if_end(&e->b, b->inst, next, results);
    e->b = b->outside;
    emit_forget(e, b->memo);
}

int emit_scalar_of(Emitter *e, Op op, int v) {
    int axes[MAX_LOOPS], n = e->k->types.at[v].n_axes;
    for (int i = 0; i < n; i++) axes[i] = e->k->types.at[v].axis[i];
    return emit_reduce_over(e, op, v, n, axes);
}

int emit_full_over(Emitter *e, const Node *n, const Index *const *idx, int mask, double value) {
    TileType t = {.dtype = n->dtype};
    for (int d = 0; d < n->shape->rank; d++) index_axes(e->k, idx[d], &t);
    if (mask >= 0) t = tile_type_union(t, e->k->types.at[mask]);
    t.dtype = n->dtype;
    return tile_full(&e->b, t, value);
}

bool emit_has_axis(const Emitter *e, int v, int axis) { return tile_type_has(&e->k->types.at[v], axis); }

int emit_along(Emitter *e, int v, int axis) {
    if (emit_has_axis(e, v, axis)) return v;
    const int zero = emit_i32(e, 0),
              always = emit_op(e, OP_GE, DT_BOOL, tile_index(&e->b, index_axis(e->k, axis)), zero);
    return emit_select(e, always, v, v);
}

int emit_reduce_over(Emitter *e, Op op, int v, int n, const int *axes) {
    int8_t over[MAX_LOOPS];
    int n_over = 0;
    for (int i = 0; i < n; i++) {
        if (axes[i] < 0) continue;
        over[n_over++] = (int8_t)axes[i];
        v = emit_along(e, v, axes[i]);
    }
    return n_over ? tile_reduce(&e->b, op, v, n_over, over) : v;
}

/* ---- long sums ---------------------------------------------------------------------------------------------- */
bool emit_sum_is_long(const Emitter *e, int n_axes, const int *axes, bool products) {
    const Target *t = e->context->target;
    double terms = 1, steps = 1;
    for (int i = 0; i < n_axes; i++) {
        if (axes[i] < 0 || e->k->axes.at[axes[i]].kind != AXIS_LOOP) continue;
        const Axis *a = &e->k->axes.at[axes[i]];
        terms *= (double)a->extent.bound;
        steps *= (double)((a->extent.bound + a->step - 1) / a->step);
    }
    return steps > 1 && (target_has_lanes(t) ? steps : terms) > (products ? t->device->most_products : t->device->most_added);
}

/* x - lost is added; (sum - carry) - that is what the sum has more than it should.  Not of an infinite sum, of which
 * that is no number. */
int emit_add_compensated(Emitter *e, int carry, int x, int *lost) {
    const int y = emit_op(e, OP_SUB, DT_F32, x, *lost), sum = emit_op(e, OP_ADD, DT_F32, carry, y);
    const int more = emit_op(e, OP_SUB, DT_F32, emit_op(e, OP_SUB, DT_F32, sum, carry), y);
    const int size = tile_element(&e->b, OP_ABS, DT_F32, 1, &more), limit = tile_const(&e->b, DT_F32, INFINITY);
    const int finite = emit_op(e, OP_LT, DT_BOOL, size, limit), zero = tile_const(&e->b, DT_F32, 0);
    *lost = emit_select(e, finite, more, zero);
    return sum;
}

/* ---- reductions ------------------------------------------------------------------------------------------- */
static const Target *target_of(const Emitter *e) { return e->context->target; }

/* The node in a stream's kernel, if it is a reduction over columns there. */
static const PlanNode *columns_of(const Emitter *e, const Node *n) {
    for (int i = 0; i < e->pk->nodes.n && e->pk->kind == KERNEL_STREAM; i++)
        if (e->pk->nodes.at[i].node == n && e->pk->nodes.at[i].part == PART_VALUE) return &e->pk->nodes.at[i];
    return NULL;
}

/* New axes for the dims a reduction removes: the row's own span, or loops in chunks. */
static void reduce_axes(Emitter *e, const Node *n, const Index **in, int *axes) {
    const Shape *from = n->in[0]->shape;
    const Shape reduced = access_reduced(n);
    const bool row = e->pk->kind == KERNEL_ROW && e->plan->kernel_of[n->id] == (int)(e->pk - e->plan->kernels.at);
    int budget = target_tile(target_of(e), target_of(e)->device->tiles->reduced), step[MAX_RANK];
    for (int i = n->attr->n_axes - 1; i >= 0; i--) { /* most of it for the innermost, where neighbours in memory are */
        step[i] = 1;
        while (step[i] * 2 <= budget && step[i] < from->dim[n->attr->axes[i]].bound) step[i] *= 2;
        budget /= step[i];
    }
    const PlanNode *columns = columns_of(e, n);
    for (int i = 0; i < n->attr->n_axes; i++) {
        const int d = n->attr->axes[i];
        if (columns) {
            const int at = columns->axis[n->shape->rank + i] - e->pk->p->rank;
            axes[i] = e->r_axis[at], in[d] = e->r_index[at];
            continue;
        }
        const bool single = from->dim[d].bound == 1 && dim_is_fixed(from->dim[d]);
        axes[i] = single ? -1
                  : row && e->size.row_span
                      ? e->r_axis[i]
                      : kernel_axis(e->k, "r", AXIS_LOOP, reduced.dim[i], row ? e->size.r[i] : step[i]);
        in[d] = single ? index_const(e->arena, 0) : index_axis(e->k, axes[i]);
    }
}

static void kept_dims(const Node *n, const Index *const *idx, const Index **in) {
    bool gone[MAX_RANK] = {0};
    for (int i = 0; i < n->attr->n_axes; i++) gone[n->attr->axes[i]] = true;
    for (int d = 0, o = 0; d < n->in[0]->shape->rank; d++)
        if (!gone[d]) in[d] = idx[o++];
}

DType emit_carried_in(Op op, DType t) { return dtype_is_low(t) && op != OP_RMAX && op != OP_RMIN ? DT_F32 : t; }

int emit_converted(Emitter *e, int v, DType t) {
    return e->k->types.at[v].dtype == t ? v : tile_element(&e->b, OP_CAST, t, 1, &v);
}

static int fold(Emitter *e, Node *n, Op op, DType t, const Index *const *idx, const Index *const *in, const int *axes,
                int mask, int (*body)(Emitter *, Node *, const Index *const *, int, const void *), const void *user) {
    Nest nest;
    Node like = *n;
    const DType as = like.dtype = emit_carried_in(op, t);
    int carry[2], next[2], result[2];
    bool loops = false;
    for (int i = 0; i < n->attr->n_axes; i++) loops |= axes[i] >= 0 && e->k->axes.at[axes[i]].kind == AXIS_LOOP;
    if (!loops) {
        const int x = emit_converted(e, body(e, n, in, mask, user), as);
        return emit_converted(e, emit_reduce_over(e, op, x, n->attr->n_axes, axes), t);
    }
    const int start = emit_full_over(e, &like, idx, mask, scalar_identity(op, t));
    const bool is_long = op == OP_SUM && as == DT_F32 && emit_sum_is_long(e, n->attr->n_axes, axes, false);
    nest_begin(e, &nest, n->attr->n_axes, axes, 1 + is_long, (int[]){start, start}, carry);
    const int v = emit_reduce_over(e, op, emit_converted(e, body(e, n, in, mask, user), as), n->attr->n_axes, axes);
    next[1] = carry[1];
    next[0] = is_long ? emit_add_compensated(e, carry[0], v, &next[1]) : emit_op(e, scalar_step(op), as, carry[0], v);
    nest_end(e, &nest, next, result);
    return emit_converted(e, result[0], t);
}

static int operand(Emitter *e, Node *n, const Index *const *in, int mask, const void *user) {
    (void)user;
    return emit_value(e, n->in[0], in, mask);
}

/* ---- argmax: the greatest value, then the least index where it stands ---------------------------------------- */
typedef struct ArgmaxPlace {
    int greatest;
    const int *axes;
} ArgmaxPlace;

/* Row-major over attr.axes with run-time extents. */
static int linear_index(Emitter *e, const Node *n, const int *axes) {
    int linear = emit_i32(e, 0);
    for (int i = 0; i < n->attr->n_axes; i++) {
        const Dim extent = n->in[0]->shape->dim[n->attr->axes[i]];
        linear = emit_op(e, OP_MUL, DT_I32, linear, tile_index(&e->b, index_of_dim(e, extent)));
        if (axes[i] >= 0) linear = emit_op(e, OP_ADD, DT_I32, linear, tile_index(&e->b, index_axis(e->k, axes[i])));
    }
    return linear;
}

static int index_if_greatest(Emitter *e, Node *n, const Index *const *in, int mask, const void *user) {
    const ArgmaxPlace *place = user;
    const int x = emit_value(e, n->in[0], in, mask);
    int hit = emit_op(e, OP_EQ, DT_BOOL, x, place->greatest);
    if (dtype_is_float(n->in[0]->dtype)) hit = emit_op(e, OP_OR, DT_BOOL, hit, emit_op(e, OP_NE, DT_BOOL, x, x));
    const int none = emit_i32(e, INT32_MAX);
    return emit_select(e, hit, linear_index(e, n, place->axes), none);
}

static int emit_argmax(Emitter *e, Node *n, const Index *const *idx, const Index *const *in, const int *axes,
                       int mask) {
    const int greatest = fold(e, n, OP_RMAX, n->in[0]->dtype, idx, in, axes, mask, operand, NULL);
    int again[MAX_RANK];
    const Index *in2[MAX_RANK];
    memcpy(in2, in, sizeof in2);
    memcpy(again, axes, sizeof again);
    if (!(e->size.row_span && e->pk->kind == KERNEL_ROW)) reduce_axes(e, n, in2, again); /* a loop is walked once */
    const ArgmaxPlace place = {greatest, again};
    const int first = fold(e, n, OP_RMIN, DT_I32, idx, in2, again, mask, index_if_greatest, &place);
    const int none = emit_op(e, OP_EQ, DT_BOOL, first, emit_i32(e, INT32_MAX));
    return emit_select(e, none, emit_i32(e, 0), first);
}

int emit_reduction(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const Index *in[MAX_RANK] = {0};
    int axes[MAX_RANK] = {0};
    kept_dims(n, idx, in);
    reduce_axes(e, n, in, axes);
    if (n->op == OP_ARGMAX) return emit_argmax(e, n, idx, in, axes, mask);
    return fold(e, n, n->op, n->dtype, idx, in, axes, mask, operand, NULL);
}

/* ---- scan: one element after the other along its axis ------------------------------------------------------------ */
/* 0 forgets. */
static int times_factor(Emitter *e, Node *n, const Index *const *idx, int axis, DType t, int carry) {
    const int factor = emit_reduce_over(e, OP_SUM, emit_converted(e, emit_value(e, n->in[1], idx, -1), t), 1, &axis);
    const int zero = tile_const(&e->b, t, 0);
    return emit_select(e, emit_op(e, OP_EQ, DT_BOOL, factor, zero), zero, emit_op(e, OP_MUL, t, factor, carry));
}

void emit_scan(Emitter *e, Node *n) {
    const Attr *at = n->attr;
    const Dim extent = n->shape->dim[at->axis];
    const bool product = at->scan == SCAN_PROD;
    const int axis = kernel_axis(e->k, "t", AXIS_LOOP, extent, 1);
    const Index *idx[MAX_RANK];
    memcpy(idx, e->p_index, sizeof idx);
    idx[at->axis] = index_axis(e->k, axis);
    if (at->reverse) {
        const Index *last = index_add(e->k, index_of_dim(e, extent), index_const(e->arena, -1));
        idx[at->axis] = index_add(e->k, last, index_scale(e->k, idx[at->axis], -1));
    }
    TileType t = {.dtype = emit_carried_in(OP_SUM, n->dtype)};
    for (int d = 0; d < n->shape->rank; d++)
        if (d != at->axis) index_axes(e->k, idx[d], &t);
    Nest nest;
    const bool is_long = at->scan == SCAN_SUM && t.dtype == DT_F32 && emit_sum_is_long(e, 1, &axis, false);
    const int start = tile_full(&e->b, t, product ? 1 : 0);
    int carry[2], next[2], result[2];
    nest_begin(e, &nest, 1, &axis, 1 + is_long, (int[]){start, start}, carry);
    const int in = emit_converted(e, emit_value(e, n->in[0], idx, -1), t.dtype);
    const int x = emit_reduce_over(e, product ? OP_PROD : OP_SUM, in, 1, &axis);
    const int before = at->scan == SCAN_LINEAR ? times_factor(e, n, idx, axis, t.dtype, carry[0]) : carry[0];
    next[1] = carry[1];
    next[0] = is_long ? emit_add_compensated(e, before, x, &next[1]) : emit_op(e, product ? OP_MUL : OP_ADD, t.dtype, before, x);
    emit_store(e, n, idx, emit_converted(e, at->exclusive ? carry[0] : next[0], n->dtype));
    nest_end(e, &nest, next, result);
}
