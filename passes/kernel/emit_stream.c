/* Streams: a loop over one dim, in which tiles of values are made and reduced.
 *
 * All members are carried through the loop: a reduction over its rows, a product over rows and columns.  In each iteration
 * they are taken in turn, with the values that they have by then, and what depends on those that came before is corrected
 * (stream_term): where a shift, the maximum of a row, went from a to b, what was added up is multiplied with exp(a - b).
 * Factors of all terms of a sum are left to the end. */
#include "passes/algebra/stream_term.h"
#include "passes/kernel/emitter.h"
#include <math.h>

/* A member, as one carried value of the loop or two. */
typedef struct Carried {
    Node *node;
    const PlanNode *at;
    int dim;             /* of the values: the streamed one */
    int carry, beside;   /* which of the loop's; beside: what a compensated sum has lost, the greatest so far of an argmax; or -1 */
    int before;          /* the shift as it was when the iteration began */
    int scale, counts;   /* what is to be multiplied with what is added up; where that counts (-1: everywhere); or -1 */
} Carried;

typedef struct StreamNest {
    Emitter *e;
    Carried member[MAX_STREAM];
    int n;
} StreamNest;

/* Rows in their order, the streamed dim among them. */
static void place_of_values(const Emitter *e, int dim, const Index **idx) {
    for (int d = 0; d <= e->pk->p->rank; d++) idx[d] = d == dim ? e->r_index[0] : e->p_index[d < dim ? d : d - 1];
}

static DType carried_in(const Node *n) { return emit_carried_in(n->op == OP_CONTRACT ? OP_SUM : n->op, n->dtype); }

static void find_members(StreamNest *s) {
    const PlanKernel *pk = s->e->pk;
    int carries = 0;
    const int axis = s->e->r_axis[0];
    for (int i = 0; i < pk->nodes.n; i++) {
        if (pk->nodes.at[i].part != PART_STREAM) continue;
        Carried *m = &s->member[s->n++];
        *m = (Carried){.node = pk->nodes.at[i].node, .at = &pk->nodes.at[i], .carry = carries++, .beside = -1};
        const bool product = m->node->op == OP_CONTRACT, sums = product || m->node->op == OP_SUM;
        stream_sums_over(m->node, m->at->operand, &m->dim);
        const bool compensated = sums && carried_in(m->node) == DT_F32 && emit_sum_is_long(s->e, 1, &axis, product);
        if (compensated || m->node->op == OP_ARGMAX) m->beside = carries++;
    }
}

/* What a broadcast has for the values at hand. */
static int row_value(Emitter *e, const Node *broadcast, int dim) {
    const Index *at[MAX_RANK], *in[MAX_RANK];
    place_of_values(e, dim, at);
    for (int d = 0; d < broadcast->in[0]->shape->rank; d++) in[d] = at[broadcast->attr->axes[d]];
    return emit_converted(e, emit_value(e, broadcast->in[0], in, -1), DT_F32);
}

static void remember_member(StreamNest *s, const Carried *m, int value) {
    const Index *idx[MAX_RANK];
    emit_place_of(s->e, m->at, idx);
    emit_remember(s->e, m->node, idx, -1, emit_converted(s->e, value, m->node->dtype));
}

/* The member before this one that has the same shift; NULL: none. */
static const Carried *same_shift(const StreamNest *s, const Carried *m) {
    for (const Carried *other = s->member; other < m; other++)
        if (other->at->term->shift == m->at->term->shift && other->at->term->coef == m->at->term->coef) return other;
    return NULL;
}

/* All shifts, with the members as they come into the iteration. */
static void read_shifts(StreamNest *s, const int *carry) {
    Emitter *e = s->e;
    const int mark = e->memo.n;
    for (int i = 0; i < s->n; i++) {
        Carried *m = &s->member[i];
        if (m->at->term->shift && !same_shift(s, m)) m->before = row_value(e, m->at->term->shift, m->dim);
        remember_member(s, m, carry[m->carry]);
    }
    emit_forget(e, mark);
}

/* coef * (now - before). */
static int moved(Emitter *e, double coef, int now, int before) {
    if (coef == -1) return emit_op(e, OP_SUB, DT_F32, before, now);
    const int by = emit_op(e, OP_SUB, DT_F32, now, before);
    return coef == 1 ? by : emit_op(e, OP_MUL, DT_F32, by, tile_const(&e->b, DT_F32, coef));
}

/* exp(coef * (shift now - before)).  What was added up before there was any term does not count: it is no number. */
static void find_scale(StreamNest *s, Carried *m) {
    Emitter *e = s->e;
    const StreamTerm *t = m->at->term;
    const Carried *like = same_shift(s, m);
    m->scale = m->counts = -1;
    if (!t->shift) return;
    if (like) {
        m->scale = like->scale, m->counts = like->counts;
        return;
    }
    const int by = moved(e, t->coef, row_value(e, t->shift, m->dim), m->before);
    m->scale = tile_element(&e->b, OP_EXP, DT_F32, 1, &by);
    if (t->finite) return;
    const int none = tile_const(&e->b, DT_F32, t->coef < 0 ? -INFINITY : INFINITY);
    m->counts = emit_op(e, OP_NE, DT_BOOL, m->before, none);
}

static int scaled(Emitter *e, const Carried *m, int v) {
    if (m->scale < 0) return v;
    v = emit_op(e, OP_MUL, DT_F32, v, m->scale);
    if (m->counts < 0) return v;
    const int zero = tile_const(&e->b, DT_F32, 0);
    return emit_select(e, m->counts, v, zero);
}

/* Factors are 1 until the end. */
static void leave_factors(StreamNest *s, const Carried *m) {
    const StreamTerm *t = m->at->term;
    const Index *at[MAX_RANK];
    place_of_values(s->e, m->dim, at);
    for (int k = 0; k < t->n_factors; k++)
        emit_remember(s->e, t->factor[k], at, -1, tile_const(&s->e->b, t->factor[k]->dtype, 1));
}

/* What the iteration adds to the member; of a product that is not compensated, added to `start`. */
static int add_tile(StreamNest *s, const Carried *m, int start) {
    Emitter *e = s->e;
    const int axis = e->r_axis[0];
    const DType as = carried_in(m->node);
    const Index *idx[MAX_LOOPS];
    if (m->node->op == OP_CONTRACT) {
        const Contract *c = m->node->attr->contract;
        emit_place_of(e, m->at, idx);
        idx[c->n_out] = e->r_index[0];
        return emit_product_step(e, m->node, idx, 1, &axis, start);
    }
    place_of_values(e, m->dim, idx);
    const int v = emit_converted(e, emit_value(e, m->node->in[0], idx, -1), as);
    return emit_reduce_over(e, m->node->op, v, 1, &axis);
}

/* The first of the greatest, none of which may be a number: index and greatest so far, and after the tile. */
static void add_argmax(StreamNest *s, const Carried *m, const int *carry, int *next) {
    Emitter *e = s->e;
    const int axis = e->r_axis[0], before = carry[m->beside];
    const Index *idx[MAX_RANK];
    place_of_values(e, m->dim, idx);
    const int x = emit_value(e, m->node->in[0], idx, -1), greatest = emit_reduce_over(e, OP_RMAX, x, 1, &axis);
    const int odd = emit_op(e, OP_NE, DT_BOOL, x, x), hit = emit_op(e, OP_OR, DT_BOOL, emit_op(e, OP_EQ, DT_BOOL, x, greatest), odd);
    const int none = emit_i32(e, INT32_MAX), at = emit_select(e, hit, tile_index(&e->b, e->r_index[0]), none);
    const int first = emit_reduce_over(e, OP_RMIN, at, 1, &axis);
    next[m->carry] = emit_select(e, emit_exceeds(e, greatest, before), first, carry[m->carry]);
    next[m->beside] = emit_op(e, OP_MAX, m->node->in[0]->dtype, before, greatest);
}

static void add_sum(StreamNest *s, const Carried *m, const int *carry, int *next) {
    Emitter *e = s->e;
    const int sum = scaled(e, m, carry[m->carry]);
    if (m->beside < 0) {
        next[m->carry] = m->node->op == OP_CONTRACT ? add_tile(s, m, sum) : emit_op(e, OP_ADD, carried_in(m->node), sum, add_tile(s, m, -1));
        return;
    }
    next[m->beside] = scaled(e, m, carry[m->beside]);
    next[m->carry] = emit_add_compensated(e, sum, add_tile(s, m, tile_full(&e->b, e->k->types.at[sum], 0)), &next[m->beside]);
}

static void one_member(StreamNest *s, Carried *m, const int *carry, int *next) {
    Emitter *e = s->e;
    find_scale(s, m);
    const int mark = e->memo.n;
    leave_factors(s, m);
    switch (m->node->op) {
    case OP_CONTRACT:
    case OP_SUM: add_sum(s, m, carry, next); break;
    case OP_ARGMAX: add_argmax(s, m, carry, next); break;
    default: next[m->carry] = emit_op(e, scalar_step(m->node->op), carried_in(m->node), carry[m->carry], add_tile(s, m, -1));
    }
    if (m->at->term->n_factors) emit_forget(e, mark);
    remember_member(s, m, next[m->carry]);
}

/* With the factors of all terms; of values that are no greater than any, the first is the greatest. */
static int finished(StreamNest *s, const Carried *m, int v) {
    Emitter *e = s->e;
    const StreamTerm *t = m->at->term;
    for (int k = 0; k < t->n_factors; k++)
        v = emit_op(e, t->divides[k] ? OP_DIV : OP_MUL, DT_F32, v, row_value(e, t->factor[k], m->dim));
    if (m->node->op != OP_ARGMAX) return v;
    const int none = emit_op(e, OP_EQ, DT_BOOL, v, emit_i32(e, INT32_MAX));
    return emit_select(e, none, emit_i32(e, 0), v);
}

/* What a member is before anything is reduced. */
static double start_of(const Node *n) {
    return n->op == OP_CONTRACT || n->op == OP_SUM ? 0 : n->op == OP_ARGMAX ? INT32_MAX : scalar_identity(n->op, carried_in(n));
}

static int full(Emitter *e, const Carried *m, DType t, double value) {
    const Index *idx[MAX_RANK];
    Node like = *m->node;
    like.dtype = t;
    emit_place_of(e, m->at, idx);
    return emit_full_over(e, &like, idx, -1, value);
}

/* ---- turns ------------------------------------------------------------------------------------------------------ */
/* The rows at hand are added to what is in memory. */
static void add_in_turn(Emitter *e, const PlanNode *pn) {
    Node *n = pn->node;
    const int rows = e->p_axis[e->pk->rows], buffer = e->buffer_of[n->id];
    const Index *place[MAX_LOOPS];
    emit_place_of(e, pn, place);
    const int before = tile_load(&e->b, buffer, place, -1, 0);
    place[n->attr->contract->n_out] = index_axis(e->k, rows);
    tile_store(&e->b, buffer, place, emit_product_step(e, n, place, 1, &rows, before), -1);
}

static void take_turns(Emitter *e) {
    for (int i = 0; i < e->pk->nodes.n; i++)
        if (e->pk->nodes.at[i].part == PART_TURNS) add_in_turn(e, &e->pk->nodes.at[i]);
}

void emit_turns_begin(Emitter *e) {
    Nest nest;
    nest_begin(e, &nest, 1, &e->r_axis[0], 0, NULL, NULL);
    for (int i = 0; i < e->pk->nodes.n; i++) {
        const PlanNode *pn = &e->pk->nodes.at[i];
        const Index *place[MAX_RANK];
        if (pn->part != PART_TURNS) continue;
        emit_place_of(e, pn, place);
        emit_store(e, pn->node, place, emit_full_over(e, pn->node, place, -1, 0));
    }
    nest_end(e, &nest, NULL, NULL);
}

void emit_stream(Emitter *e) {
    StreamNest s = {.e = e};
    Nest nest;
    int init[2 * MAX_STREAM], carry[2 * MAX_STREAM], next[2 * MAX_STREAM], result[2 * MAX_STREAM], n = 0;
    find_members(&s);
    for (int i = 0; i < s.n; i++) {
        const Carried *m = &s.member[i];
        const bool argmax = m->node->op == OP_ARGMAX;
        init[n++] = full(e, m, carried_in(m->node), start_of(m->node));
        if (m->beside >= 0) init[n] = argmax ? full(e, m, m->node->in[0]->dtype, scalar_identity(OP_RMAX, m->node->in[0]->dtype)) : init[n - 1], n++;
    }
    nest_begin(e, &nest, 1, &e->r_axis[0], n, init, carry);
    read_shifts(&s, carry);
    for (int i = 0; i < s.n; i++) one_member(&s, &s.member[i], carry, next);
    take_turns(e);
    nest_end(e, &nest, next, result);
    for (int i = 0; i < s.n; i++) remember_member(&s, &s.member[i], finished(&s, &s.member[i], result[s.member[i].carry]));
}
