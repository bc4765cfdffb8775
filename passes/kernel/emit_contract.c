/* Contractions: loops over what is summed, with a carried tile. */
#include "passes/algebra/affine.h"
#include "passes/kernel/emitter.h"
#include <string.h>

/* ---- contractions ------------------------------------------------------------------------------------------------ */
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
    for (int d = 0; d < x->shape->rank; d++) {
        in[d] = subscript(e, c, &c->map[k][d], loop, own);
        *own = emit_and(e, *own, emit_in_range(e, in[d], x->shape->dim[d]));
    }
    return emit_value(e, x, in, emit_and(e, mask, *own));
}

/* A masked load gives 0 by itself, converted too; any other value has to be cleared. */
static int cleared(Emitter *e, int v, int own) {
    if (own < 0) return v;
    const Inst *i = emit_made_here(e, v);
    while (i && i->kind == TI_ELEMENT && i->op == OP_CAST) i = emit_made_here(e, i->in[0]);
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

static bool stages(const Emitter *e) { return target_shares_tiles(e->context->target); }

/* As a dot has its factors: matrix units take low ones. */
static int as_factor(Emitter *e, int v, DType as) { return stages(e) ? tile_stage(&e->b, v, SPACE_SHARED) : emit_converted(e, v, as); }

static int contract_body(Emitter *e, Node *n, const Index *const *loop, int mask, int n_axes, const int *axes,
                         int carry) {
    int8_t over[MAX_LOOPS];
    const DType as = emit_carried_in(OP_SUM, n->dtype);
    int n_over = 0, v = -1, x[2] = {-1, -1}, first = -1;
    bool repeated = false; /* along what is summed and neither factor has */
    for (int i = 0; i < n_axes; i++) over[n_over++] = (int8_t)axes[i];
    for (int k = 0; k < n->n_in; k++) {
        int own = guards(e, n, loop, k);
        int y = read_operand(e, n, k, loop, mask, &own); /* sets own */
        y = cleared(e, y, own);
        if (n->n_in == 2 && as == DT_F32 && n_over) {
            if (k == 0) first = y;
            x[k] = as_factor(e, y, as);
            continue;
        }
        y = emit_converted(e, y, as);
        v = v < 0 ? y : emit_op(e, OP_MUL, as, v, y);
    }
    for (int i = 0; i < n_axes && v < 0; i++) {
        if (emit_has_axis(e, first, axes[i]) || emit_has_axis(e, x[1], axes[i])) continue;
        first = emit_along(e, first, axes[i]);
        repeated = true;
    }
    if (repeated) x[0] = as_factor(e, first, as);
    const MatrixTerm *term = matrix_term(e, n);
    const bool swapped = term && term->swapped;
    if (v < 0) return tile_dot(&e->b, x[swapped], x[!swapped], carry, n_over, over);
    return emit_op(e, OP_ADD, as, carry, emit_reduce_over(e, OP_SUM, v, n_axes, axes));
}

/* Of a stream's product that makes values: the columns along which another product has the factor that this one sums along loop
 * l, so that both read one tile of it; -1: there are none. */
static int columns_for_sum(const Emitter *e, const Node *n, int l) {
    const PlanKernel *pk = e->pk;
    for (int i = 0; i < pk->nodes.n; i++) {
        const PlanNode *m = &pk->nodes.at[i];
        if (m->part != PART_STREAM || m->node->op != OP_CONTRACT) continue;
        const Contract *c = n->attr->contract, *to = m->node->attr->contract;
        const int other = 1 - m->operand;
        for (int k = 0; k < n->n_in; k++)
            for (int d = 0; d < n->in[k]->shape->rank && n->in[k] == m->node->in[other]; d++) {
                const int column = affine_single_loop(to, &to->map[other][d]);
                const bool same = affine_single_loop(c, &c->map[k][d]) == l && column >= 0 && column < to->n_out;
                if (same && m->axis[column] > pk->p->rank) return e->r_axis[m->axis[column] - pk->p->rank];
            }
    }
    return -1;
}

static int whole_sum_axis(Emitter *e, const Node *n, int l) {
    const Dim extent = n->attr->contract->extent[l];
    const int columns = columns_for_sum(e, n, l);
    return columns >= 0 ? columns : kernel_axis(e->k, "k", AXIS_SPAN, extent, stream_mma_sums(extent));
}

/* One loop axis per summed loop but `except` (-1: none); how many. */
static int sum_axes(Emitter *e, const Node *n, int except, const Index **loop, int *axes) {
    const Contract *c = n->attr->contract;
    int n_axes = 0;
    for (int l = c->n_out; l < c->n_loops; l++) {
        if (l == except) continue;
        if (dim_is_fixed(c->extent[l]) && c->extent[l].bound == 1) {
            loop[l] = index_const(e->arena, 0);
            continue;
        }
        axes[n_axes] = e->by_mma ? whole_sum_axis(e, n, l)
                                 : kernel_axis(e->k, "k", AXIS_LOOP, c->extent[l], e->size.k[l] ? e->size.k[l] : 1);
        loop[l] = index_axis(e->k, axes[n_axes++]);
    }
    return n_axes;
}

/* carry + the sum over the product's operand, of which a tile is here. */
static int add_loop_sum(Emitter *e, const Node *product, const PlanNode *pn, const Index *const *loop, int n_axes,
                const int *axes, int carry) {
    const Contract *c = product->attr->contract;
    const int k = pn->operand;
    Node *x = product->in[k];
    const Index *in[MAX_RANK];
    for (int d = 0; d < x->shape->rank; d++) in[d] = affine(e, c, &c->map[k][d], loop);
    const int v = emit_converted(e, emit_value(e, x, in, -1), DT_F32);
    return emit_op(e, OP_ADD, DT_F32, carry, emit_reduce_over(e, OP_SUM, v, n_axes, axes));
}

static void add_loop_sums(Emitter *e, const Node *n, const LoopSums *fused, const Index *const *loop, int n_axes,
                     const int *axes, const int *carry, int *next) {
    for (int i = 0; i < fused->n; i++) {
        Branch here = emit_if(e, fused->here[i], 1, &carry[i]);
        const int v = add_loop_sum(e, n, fused->node[i], loop, n_axes, axes, carry[i]);
        emit_endif(e, &here, &v, &next[i]);
    }
}

/* Parts of a long sum are products of their own, added with what is lost in it. */
static bool adds_parts(const Emitter *e, const Node *n, const MatrixTerm *term, int n_axes, const int *axes) {
    const bool f32 = emit_carried_in(OP_SUM, n->dtype) == DT_F32;
    return !term && !stages(e) && f32 && emit_sum_is_long(e, n_axes, axes, true);
}

static int add_part(Emitter *e, const Node *n, const Index *const *loop, int mask, int n_axes, const int *axes,
                    int carry, int *lost) {
    const int zero = tile_full(&e->b, e->k->types.at[carry], 0);
    return emit_add_compensated(e, carry, contract_body(e, (Node *)n, loop, mask, n_axes, axes, zero), lost);
}

static int sums_of(Emitter *e, const Node *n, const Index *const *idx, int mask, int start, LoopSums *fused) {
    const Contract *c = n->attr->contract;
    const Index *loop[MAX_LOOPS];
    int axes[MAX_LOOPS] = {0}, init[2 + MAX_RANK], carry[2 + MAX_RANK], next[2 + MAX_RANK], result[2 + MAX_RANK];
    memcpy(loop, idx, sizeof *loop * (size_t)c->n_out);
    MatrixTerm *term = matrix_term(e, n);
    if (e->pk->kind == KERNEL_STREAM) tile_sums(e->context->target, n, e->size.k);
    const int n_axes = term ? matrix_sum_axes(e, term, loop, axes) : sum_axes(e, n, -1, loop, axes);
    const int n_fused = fused ? fused->n : 0, last = 1 + n_fused;
    const bool parts = adds_parts(e, n, term, n_axes, axes);
    Nest nest;
    init[0] = start;
    for (int i = 0; i < n_fused; i++) init[i + 1] = fused->value[i];
    if (parts) init[last] = tile_full(&e->b, e->k->types.at[start], 0);
    nest_begin(e, &nest, n_axes, axes, last + parts, init, carry);
    if (parts) next[last] = carry[last];
    next[0] = parts ? add_part(e, n, loop, mask, n_axes, axes, carry[0], &next[last])
                    : contract_body(e, (Node *)n, loop, mask, n_axes, axes, carry[0]);
    if (n_fused) add_loop_sums(e, n, fused, loop, n_axes, axes, carry + 1, next + 1);
    nest_end(e, &nest, next, result);
    for (int i = 0; i < n_fused; i++) fused->value[i] = result[i + 1];
    return result[0];
}

int emit_product(Emitter *e, Node *n, const Index *const *idx, int start, LoopSums *fused) {
    return sums_of(e, n, idx, -1, start, fused);
}

int emit_product_step(Emitter *e, Node *n, const Index *const *loop, int n_axes, const int *axes, int start) {
    return contract_body(e, n, loop, -1, n_axes, axes, start);
}

static int emit_contract(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const Contract *c = n->attr->contract;
    if (c->n_loops == c->n_out) return emit_view(e, n, idx, mask);
    Node like = *n;
    like.dtype = emit_carried_in(OP_SUM, n->dtype);
    return emit_converted(e, sums_of(e, n, idx, mask, emit_full_over(e, &like, idx, mask, 0), NULL), n->dtype);
}

/* The result in memory, 0 at first, grows by the product of one sample after the other. */
void emit_samples(Emitter *e, Node *n) {
    const Contract *c = n->attr->contract;
    const int sample = e->pk->sample - 1;
    const Index *loop[MAX_LOOPS];
    int others[MAX_LOOPS + 1], grown;
    memcpy(loop, e->p_index, sizeof *loop * (size_t)c->n_out);
    emit_store(e, n, e->p_index, tile_const(&e->b, n->dtype, 0));
    if (dim_is_fixed(c->extent[sample]) && c->extent[sample].bound == 0) return;
    const int over = kernel_axis(e->k, "sample", AXIS_LOOP, c->extent[sample], 1);
    const int n_others = sum_axes(e, n, sample, loop, others);
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
