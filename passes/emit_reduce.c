/* Reductions, contractions and scans: loops with carried tiles. */
#include "passes/emitter.h"
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

int emit_full_over(Emitter *e, const Node *n, const Index *const *idx, int mask, double value) {
    TileType t = {.dtype = n->dtype};
    for (int d = 0; d < n->shape.rank; d++) index_axes(e->k, idx[d], &t);
    if (mask >= 0) t = tile_type_union(t, e->k->types.at[mask]);
    t.dtype = n->dtype;
    return tile_full(&e->b, t, value);
}

static bool has_axis(const Emitter *e, int v, int axis) {
    const TileType *t = &e->k->types.at[v];
    for (int i = 0; i < t->n_axes; i++)
        if (t->axis[i] == axis) return true;
    return false;
}

/* The same value, with a lane for each index along the axis. */
static int along(Emitter *e, int v, int axis) {
    if (has_axis(e, v, axis)) return v;
    const int zero = emit_i32(e, 0), always = emit_op(e, OP_GE, DT_BOOL, tile_index(&e->b, index_axis(e->k, axis)), zero);
    return emit_select(e, always, v, v);
}

int emit_reduce_over(Emitter *e, Op op, int v, int n, const int *axes) {
    int8_t over[MAX_LOOPS];
    int n_over = 0;
    for (int i = 0; i < n; i++) {
        if (axes[i] < 0) continue;
        over[n_over++] = (int8_t)axes[i];
        v = along(e, v, axes[i]);
    }
    return n_over ? tile_reduce(&e->b, op, v, n_over, over) : v;
}

/* ---- the four folds ------------------------------------------------------------------------------------ */
static Op fold_op(Op reduce) {
    switch (reduce) {
    case OP_RMAX: return OP_MAX;
    case OP_RMIN: return OP_MIN;
    case OP_PROD: return OP_MUL;
    default: return OP_ADD;
    }
}

static double identity_of(Op reduce, DType t) {
    switch (reduce) {
    case OP_RMAX: return t == DT_I32 ? INT32_MIN : t == DT_BOOL ? 0 : -INFINITY;
    case OP_RMIN: return t == DT_I32 ? INT32_MAX : t == DT_BOOL ? 1 : INFINITY;
    case OP_PROD: return 1;
    default: return 0;
    }
}

/* ---- reductions ------------------------------------------------------------------------------------------- */
static const Target *target_of(const Emitter *e) { return e->context->target; }

/* New axes for the dims a reduction removes: the row's own span, or loops in chunks. */
static void reduce_axes(Emitter *e, const Node *n, const Index **in, int *axes) {
    const Shape *from = &n->in[0]->shape;
    const Shape reduced = access_reduced(n);
    const bool row = e->pk->kind == KERNEL_ROW && e->plan->kernel_of[n->id] == (int)(e->pk - e->plan->kernels.at);
    int budget = target_of(e)->backend == BACKEND_NVPTX ? 64 : 256;
    for (int i = n->attr->n_axes - 1; i >= 0; i--) {
        const int d = n->attr->axes[i];
        if (from->dim[d].bound == 1 && dim_is_fixed(from->dim[d])) {
            axes[i] = -1;
            in[d] = index_const(e->arena, 0);
            continue;
        }
        if (row && e->size.row_span) {
            axes[i] = e->r_axis[i];
        } else {
            int step = row ? e->size.r[i] : 1;
            if (!row)
                while (step * 2 <= budget && step < from->dim[d].bound) step *= 2;
            budget /= step;
            axes[i] = kernel_axis(e->k, "r", AXIS_LOOP, reduced.dim[i], step);
        }
        in[d] = index_axis(e->k, axes[i]);
    }
}

static void kept_dims(const Node *n, const Index *const *idx, const Index **in) {
    bool gone[MAX_RANK] = {0};
    for (int i = 0; i < n->attr->n_axes; i++) gone[n->attr->axes[i]] = true;
    for (int d = 0, o = 0; d < n->in[0]->shape.rank; d++)
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
    int carry, result;
    bool loops = false;
    for (int i = 0; i < n->attr->n_axes; i++) loops |= axes[i] >= 0 && e->k->axes.at[axes[i]].kind == AXIS_LOOP;
    if (!loops) {
        const int x = emit_converted(e, body(e, n, in, mask, user), as);
        return emit_converted(e, emit_reduce_over(e, op, x, n->attr->n_axes, axes), t);
    }
    const int start = emit_full_over(e, &like, idx, mask, identity_of(op, t));
    nest_begin(e, &nest, n->attr->n_axes, axes, 1, &start, &carry);
    const int v = emit_reduce_over(e, op, emit_converted(e, body(e, n, in, mask, user), as), n->attr->n_axes, axes);
    const int next = emit_op(e, fold_op(op), as, carry, v);
    nest_end(e, &nest, &next, &result);
    return emit_converted(e, result, t);
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
        const Dim extent = n->in[0]->shape.dim[n->attr->axes[i]];
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

static int emit_argmax(Emitter *e, Node *n, const Index *const *idx, const Index *const *in, const int *axes, int mask) {
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

static int emit_reduction(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const Index *in[MAX_RANK] = {0};
    int axes[MAX_RANK] = {0};
    kept_dims(n, idx, in);
    reduce_axes(e, n, in, axes);
    if (n->op == OP_ARGMAX) return emit_argmax(e, n, idx, in, axes, mask);
    return fold(e, n, n->op, n->dtype, idx, in, axes, mask, operand, NULL);
}

/* ---- contractions -------------------------------------------------------------------------------------------------- */
static const Index *affine(Emitter *e, const Contract *c, const Affine *a, const Index *const *loop) {
    const Index *x = index_const(e->arena, a->c);
    for (int l = 0; l < c->n_loops; l++)
        if (a->coef[l]) x = index_add(e->k, x, index_scale(e->k, loop[l], a->coef[l]));
    return x;
}

/* The subscript affine / divisor; *mask loses the lanes where the division leaves a rest. */
static const Index *subscript(Emitter *e, const Contract *c, const Affine *a, const Index *const *loop, int *mask) {
    const Index *x = affine(e, c, a, loop);
    if (a->divisor == 1) return x;
    const Index *d = index_const(e->arena, a->divisor), *rest = index_mod(e->k, x, d);
    int64_t r;
    if (!index_is_const(rest, &r) || r != 0) {
        const int zero = emit_i32(e, 0);
        *mask = emit_and(e, *mask, emit_op(e, OP_EQ, DT_BOOL, tile_index(&e->b, rest), zero));
    }
    return index_div(e->k, x, d);
}

/* Conditions that operand k's read takes on; -1: all. */
static int guards(Emitter *e, const Node *n, const Index *const *loop, int k) {
    const Contract *c = n->attr->contract;
    int mask = -1;
    for (int g = 0; g < c->n_guards; g++) {
        const Guard *gd = &c->guard[g];
        if (k >= 0 && contract_guard_operand(c, n->in, gd) != k) continue;
        if (gd->kind == GUARD_EQ) {
            const int zero = emit_i32(e, 0), value = tile_index(&e->b, affine(e, c, &gd->e, loop));
            mask = emit_and(e, mask, emit_op(e, OP_EQ, DT_BOOL, value, zero));
            continue;
        }
        const Index *x = subscript(e, c, &gd->e, loop, &mask);
        mask = emit_and(e, mask, emit_at_least(e, x, gd->lo));
        mask = emit_and(e, mask, emit_below(e, x, gd->hi));
    }
    return mask;
}

/* Operand k's read; `own` collects the conditions under which it is in range. */
static int read_operand(Emitter *e, Node *n, int k, const Index *const *loop, int mask, int *own) {
    const Contract *c = n->attr->contract;
    Node *x = n->in[k];
    const Index *in[MAX_RANK];
    for (int d = 0; d < x->shape.rank; d++) {
        in[d] = subscript(e, c, &c->map[k][d], loop, own);
        *own = emit_and(e, *own, emit_in_range(e, in[d], x->shape.dim[d]));
    }
    return emit_value(e, x, in, emit_and(e, mask, *own));
}

static const Inst *made_here(const Block *b, int v) {
    for (int n = b->n - 1; n >= 0; n--)
        if (b->at[n]->result == v) return b->at[n];
    return NULL;
}

/* A masked load gives 0 by itself, converted too; any other value has to be cleared. */
static int cleared(Emitter *e, int v, int own) {
    if (own < 0) return v;
    const Inst *i = made_here(e->b.block, v);
    while (i && i->kind == TI_ELEMENT && i->op == OP_CAST) i = made_here(e->b.block, i->in[0]);
    if (i && i->kind == TI_LOAD && i->n_in == 1 && i->in[0] == own && i->value == 0) return v;
    return emit_select(e, own, v, tile_const(&e->b, e->k->types.at[v].dtype, 0));
}

/* Nothing summed: a product of reads where all conditions hold, else 0. */
static int emit_view(Emitter *e, Node *n, const Index *const *idx, int mask) {
    int where = guards(e, n, idx, -1), v = -1;
    for (int k = 0; k < n->n_in; k++) {
        int own = -1;
        const int x = read_operand(e, n, k, idx, emit_and(e, mask, where), &own);
        where = emit_and(e, where, own);
        const int y = n->n_in > 1 ? emit_converted(e, x, emit_carried_in(OP_SUM, n->dtype)) : x;
        v = v < 0 ? y : emit_op(e, OP_MUL, e->k->types.at[y].dtype, v, y);
    }
    v = emit_converted(e, v, n->dtype);
    return where < 0 ? v : emit_select(e, where, v, tile_const(&e->b, n->dtype, 0));
}

static bool stages(const Emitter *e) { return target_of(e)->backend == BACKEND_NVPTX; }

static int contract_body(Emitter *e, Node *n, const Index *const *loop, int mask, int n_axes, const int *axes, int carry) {
    int8_t over[MAX_LOOPS];
    const DType as = emit_carried_in(OP_SUM, n->dtype);
    int n_over = 0, v = -1;
    for (int i = 0; i < n_axes; i++) over[n_over++] = (int8_t)axes[i];
    int x[2];
    for (int k = 0; k < n->n_in; k++) {
        int own = guards(e, n, loop, k);
        int y = read_operand(e, n, k, loop, mask, &own); /* sets own */
        y = cleared(e, y, own);
        if (n->n_in == 2 && as == DT_F32 && n_over) {
            x[k] = stages(e) ? tile_stage(&e->b, y, SPACE_SHARED)
                             : emit_converted(e, y, as); /* matrix units take low factors */
            continue;
        }
        y = emit_converted(e, y, as);
        v = v < 0 ? y : emit_op(e, OP_MUL, as, v, y);
    }
    for (int i = 0; i < n_axes && v < 0; i++)
        if (!has_axis(e, x[0], axes[i]) && !has_axis(e, x[1], axes[i])) x[0] = along(e, x[0], axes[i]);
    const bool swapped = e->matrix.contract == n && e->matrix.swapped;
    if (v < 0) return tile_dot(&e->b, x[swapped], x[!swapped], carry, n_over, over);
    return emit_op(e, OP_ADD, as, carry, emit_reduce_over(e, OP_SUM, v, n_axes, axes));
}

/* One loop axis per summed loop but `except` (-1: none); how many. */
static int sum_axes(Emitter *e, const Contract *c, int except, const Index **loop, int *axes) {
    int n_axes = 0;
    for (int l = c->n_out; l < c->n_loops; l++) {
        if (l == except) continue;
        if (dim_is_fixed(c->extent[l]) && c->extent[l].bound == 1) {
            loop[l] = index_const(e->arena, 0);
            continue;
        }
        axes[n_axes] = kernel_axis(e->k, "k", AXIS_LOOP, c->extent[l], e->size.k[l] ? e->size.k[l] : 1);
        loop[l] = index_axis(e->k, axes[n_axes++]);
    }
    return n_axes;
}

static int emit_contract(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const Contract *c = n->attr->contract;
    if (c->n_loops == c->n_out) return emit_view(e, n, idx, mask);
    const Index *loop[MAX_LOOPS];
    int axes[MAX_LOOPS] = {0}, carry, result;
    memcpy(loop, idx, sizeof *loop * (size_t)c->n_out);
    const int n_axes = e->matrix.contract == n ? matrix_sum_axes(e, loop, axes) : sum_axes(e, c, -1, loop, axes);
    Nest nest;
    Node like = *n;
    like.dtype = emit_carried_in(OP_SUM, n->dtype);
    const int start = emit_full_over(e, &like, idx, mask, 0);
    nest_begin(e, &nest, n_axes, axes, 1, &start, &carry);
    const int next = contract_body(e, n, loop, mask, n_axes, axes, carry);
    nest_end(e, &nest, &next, &result);
    return emit_converted(e, result, n->dtype);
}

/* The result in memory, 0 at first, grows by the product of one sample after the other. */
void emit_samples(Emitter *e, Node *n) {
    const Contract *c = n->attr->contract;
    const int sample = e->pk->sample - 1;
    const Index *loop[MAX_LOOPS];
    int others[MAX_LOOPS + 1], grown;
    memcpy(loop, e->p_index, sizeof *loop * (size_t)c->n_out);
    emit_store(e, n, e->p_index, tile_const(&e->b, n->dtype, 0));
    const int over = kernel_axis(e->k, "sample", AXIS_LOOP, c->extent[sample], 1);
    const int n_others = sum_axes(e, c, sample, loop, others);
    Nest samples, rest;
    loop[sample] = index_axis(e->k, over);
    nest_begin(e, &samples, 1, &over, 0, NULL, NULL);
    const int before = tile_load(&e->b, e->buffer_of[n->id], (const Index **)e->p_index, -1, 0);
    nest_begin(e, &rest, n_others, others, 1, &before, &grown);
    others[n_others] = over; /* of one lane: only a sum over others has to leave it out */
    const int product = contract_body(e, n, loop, -1, n_others ? n_others + 1 : 0, others, grown);
    nest_end(e, &rest, &product, &grown);
    tile_store(&e->b, e->buffer_of[n->id], (const Index **)e->p_index, grown, -1);
    nest_end(e, &samples, NULL, NULL);
}

int emit_heavy(Emitter *e, Node *n, const Index *const *idx, int mask) {
    return n->op == OP_CONTRACT ? emit_contract(e, n, idx, mask) : emit_reduction(e, n, idx, mask);
}

/* ---- scan: one element after the other along its axis --------------------------------------------------------------- */
void emit_scan(Emitter *e, Node *n) {
    const Attr *at = n->attr;
    const Dim extent = n->shape.dim[at->axis];
    const bool sum = at->scan == SCAN_SUM;
    const int axis = kernel_axis(e->k, "t", AXIS_LOOP, extent, 1);
    const Index *idx[MAX_RANK];
    memcpy(idx, e->p_index, sizeof idx);
    idx[at->axis] = index_axis(e->k, axis);
    if (at->reverse) {
        const Index *last = index_add(e->k, index_of_dim(e, extent), index_const(e->arena, -1));
        idx[at->axis] = index_add(e->k, last, index_scale(e->k, idx[at->axis], -1));
    }
    TileType t = {.dtype = emit_carried_in(OP_SUM, n->dtype)};
    for (int d = 0; d < n->shape.rank; d++)
        if (d != at->axis) index_axes(e->k, idx[d], &t);
    Nest nest;
    int carry, result;
    const int start = tile_full(&e->b, t, sum ? 0 : 1);
    nest_begin(e, &nest, 1, &axis, 1, &start, &carry);
    const int in = emit_converted(e, emit_value(e, n->in[0], idx, -1), t.dtype);
    const int x = emit_reduce_over(e, sum ? OP_SUM : OP_PROD, in, 1, &axis);
    const int next = emit_op(e, sum ? OP_ADD : OP_MUL, t.dtype, carry, x);
    emit_store(e, n, idx, emit_converted(e, at->exclusive ? carry : next, n->dtype));
    nest_end(e, &nest, &next, &result);
}
