/* Streams: a loop over one dim, in which tiles of values are made and reduced.
 *
 * All members are carried through the loop: a reduction over its rows, a product over rows and columns.  In each iteration
 * they are taken in turn, with the values that they have by then, and what depends on those that came before is corrected
 * (stream_term): where a shift, the maximum of a row, went from a to b, what was added up is multiplied with exp(a - b).
 * Factors of all terms of a sum are left to the end. */
#include "passes/algebra/stream_term.h"
#include "passes/kernel/emitter.h"
#include <assert.h>
#include <math.h>

typedef struct StreamMember {
    Node *node;
    const PlanNode *at;
    int operand, dim; /* which reads the values, and the dim of them that is streamed */
    StreamTerm term;
    int carry, beside; /* which of the loop's; beside: what a compensated sum has lost, the greatest so far of an argmax; or -1 */
} StreamMember;

typedef struct StreamNest {
    Emitter *e;
    StreamMember member[MAX_STREAM];
    int n;
    bool *depends; /* by node id, from the first member on */
    int before[MAX_STREAM][MOST_SHIFTS]; /* shifts as they were when the iteration began */
    int scale[MAX_STREAM];               /* what is multiplied with what a member has added up, or -1 */
} StreamNest;

static void place_of(const Emitter *e, const PlanNode *pn, const Index **idx) {
    const int np = e->pk->p->rank;
    for (int d = 0; d < pn->node->shape->rank; d++)
        idx[d] = pn->axis[d] < np ? e->p_index[pn->axis[d]] : e->r_index[pn->axis[d] - np];
}

/* Rows in their order, the streamed dim among them. */
static void place_of_values(const Emitter *e, int rank, int dim, const Index **idx) {
    for (int d = 0; d < rank; d++) idx[d] = d == dim ? e->r_index[0] : e->p_index[d < dim ? d : d - 1];
}

static DType carried_in(const Node *n) { return emit_carried_in(n->op == OP_CONTRACT ? OP_SUM : n->op, n->dtype); }

static bool is_member(const StreamNest *s, const Node *n) {
    for (int i = 0; i < s->n; i++)
        if (s->member[i].node == n) return true;
    return false;
}

/* What is computed where it is read, from members. */
static void find_dependent(StreamNest *s) {
    const Emitter *e = s->e;
    const int first = s->member[0].node->id, last = s->member[s->n - 1].node->id;
    s->depends = ARENA_ARRAY(e->arena, bool, last + 1);
    for (int i = first; i <= last; i++) {
        const Node *n = e->plan->graph->nodes.at[i];
        const int kernel = e->plan->kernel_of[i];
        s->depends[i] = is_member(s, n);
        for (int k = 0; k < n->n_in && (kernel < 0 || e->buffer_of[i] < 0); k++)
            s->depends[i] |= n->in[k]->id >= first && s->depends[n->in[k]->id];
    }
}

static void find_members(StreamNest *s) {
    const PlanKernel *pk = s->e->pk;
    int carries = 0;
    const int axis = s->e->r_axis[0];
    for (int i = 0; i < pk->nodes.n; i++) {
        if (pk->nodes.at[i].part != PART_STREAM) continue;
        StreamMember *m = &s->member[s->n++];
        *m = (StreamMember){.node = pk->nodes.at[i].node, .at = &pk->nodes.at[i], .carry = carries++, .beside = -1};
        const bool product = m->node->op == OP_CONTRACT, sums = product || m->node->op == OP_SUM;
        m->operand = m->at->operand;
        stream_sums_over(m->node, m->operand, &m->dim);
        const bool compensated = sums && carried_in(m->node) == DT_F32 && emit_sum_is_long(s->e, 1, &axis, product);
        if (compensated || m->node->op == OP_ARGMAX) m->beside = carries++;
    }
    find_dependent(s);
    for (int i = 0; i < s->n; i++) {
        StreamMember *m = &s->member[i];
        const Node *x = m->node->in[m->operand];
        m->term = (StreamTerm){0};
        const bool known = x->id < s->member[0].node->id || stream_term(s->depends, x, m->dim, &m->term);
        assert(known);
        (void)known;
    }
}

/* Where a broadcast's operand is read for the values at hand. */
static int shift_value(Emitter *e, const Node *broadcast, int rank, int dim) {
    const Index *at[MAX_RANK], *in[MAX_RANK];
    place_of_values(e, rank, dim, at);
    for (int d = 0; d < broadcast->in[0]->shape->rank; d++) in[d] = at[broadcast->attr->axes[d]];
    return emit_converted(e, emit_value(e, broadcast->in[0], in, -1), DT_F32);
}

static int is_finite(Emitter *e, int v) {
    const int size = tile_element(&e->b, OP_ABS, DT_F32, 1, &v), limit = tile_const(&e->b, DT_F32, INFINITY);
    return emit_op(e, OP_LT, DT_BOOL, size, limit);
}

static void remember_member(StreamNest *s, const StreamMember *m, int value) {
    const Index *idx[MAX_RANK];
    place_of(s->e, m->at, idx);
    emit_remember(s->e, m->node, idx, -1, emit_converted(s->e, value, m->node->dtype));
}

/* The member before this one that has the same shifts. */
static int same_shifts(const StreamNest *s, int i) {
    const StreamTerm *t = &s->member[i].term;
    for (int k = 0; k < i; k++) {
        const StreamTerm *other = &s->member[k].term;
        bool same = other->n_shifts == t->n_shifts;
        for (int n = 0; n < t->n_shifts && same; n++)
            same = other->shift[n] == t->shift[n] && other->coef[n] == t->coef[n];
        if (same) return k;
    }
    return -1;
}

/* All shifts, with the members as they come into the iteration. */
static void read_shifts(StreamNest *s, const int *carry) {
    Emitter *e = s->e;
    const int mark = e->memo.n;
    for (int i = 0; i < s->n; i++) {
        const StreamMember *m = &s->member[i];
        for (int k = 0; k < m->term.n_shifts && same_shifts(s, i) < 0; k++)
            s->before[i][k] = shift_value(e, m->term.shift[k], e->pk->values->rank, m->dim);
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

/* exp(sum of coef * (shift now - before)): what terms so far are to be multiplied with; -1: nothing.  A row of which no
 * term has counted yet has an infinite shift, and nothing to be multiplied; values read 0 in its place. */
static int rescaling(StreamNest *s, int i) {
    Emitter *e = s->e;
    const StreamMember *m = &s->member[i];
    const int like = same_shifts(s, i);
    const Index *at[MAX_RANK];
    int sum = -1, known = -1;
    if (m->term.n_shifts == 0 || like >= 0) return m->term.n_shifts ? s->scale[like] : -1;
    place_of_values(e, e->pk->values->rank, m->dim, at);
    const int zero = tile_const(&e->b, DT_F32, 0);
    for (int k = 0; k < m->term.n_shifts; k++) {
        const Node *x = m->term.shift[k];
        const int now = shift_value(e, x, e->pk->values->rank, m->dim), safe = emit_select(e, is_finite(e, now), now, zero);
        emit_remember(e, x, at, -1, emit_converted(e, safe, x->dtype));
        const int by = moved(e, m->term.coef[k], safe, s->before[i][k]);
        sum = sum < 0 ? by : emit_op(e, OP_ADD, DT_F32, sum, by);
        known = emit_and(e, known, is_finite(e, s->before[i][k]));
    }
    return emit_select(e, known, tile_element(&e->b, OP_EXP, DT_F32, 1, &sum), zero);
}

/* Factors are 1 until the end. */
static void leave_factors(StreamNest *s, const StreamMember *m) {
    const Index *at[MAX_RANK];
    place_of_values(s->e, s->e->pk->values->rank, m->dim, at);
    for (int k = 0; k < m->term.n_factors; k++)
        emit_remember(s->e, m->term.factor[k], at, -1, tile_const(&s->e->b, m->term.factor[k]->dtype, 1));
}

/* What the iteration adds to the member; of a product that is not compensated, added to `start`. */
static int add_tile(StreamNest *s, const StreamMember *m, int start) {
    Emitter *e = s->e;
    const int axis = e->r_axis[0];
    const DType as = carried_in(m->node);
    const Index *idx[MAX_LOOPS];
    if (m->node->op == OP_CONTRACT) {
        const Contract *c = m->node->attr->contract;
        place_of(e, m->at, idx);
        idx[c->n_out] = e->r_index[0];
        return emit_product_step(e, m->node, idx, 1, &axis, start);
    }
    place_of_values(e, e->pk->values->rank, m->dim, idx);
    const int v = emit_converted(e, emit_value(e, m->node->in[0], idx, -1), as);
    return emit_reduce_over(e, m->node->op, v, 1, &axis);
}

/* The first of the greatest, none of which may be a number: index and greatest so far, and after the tile. */
static void add_argmax(StreamNest *s, const StreamMember *m, const int *carry, int *next) {
    Emitter *e = s->e;
    const int axis = e->r_axis[0], before = carry[m->beside];
    const Index *idx[MAX_RANK];
    place_of_values(e, e->pk->values->rank, m->dim, idx);
    const int x = emit_value(e, m->node->in[0], idx, -1), greatest = emit_reduce_over(e, OP_RMAX, x, 1, &axis);
    const int odd = emit_op(e, OP_NE, DT_BOOL, x, x), hit = emit_op(e, OP_OR, DT_BOOL, emit_op(e, OP_EQ, DT_BOOL, x, greatest), odd);
    const int none = emit_i32(e, INT32_MAX), at = emit_select(e, hit, tile_index(&e->b, e->r_index[0]), none);
    const int first = emit_reduce_over(e, OP_RMIN, at, 1, &axis);
    const int greater = emit_op(e, OP_GT, DT_BOOL, greatest, before), was = emit_op(e, OP_EQ, DT_BOOL, before, before);
    const int becomes = emit_op(e, OP_AND, DT_BOOL, emit_op(e, OP_NE, DT_BOOL, greatest, greatest), was);
    next[m->carry] = emit_select(e, emit_op(e, OP_OR, DT_BOOL, greater, becomes), first, carry[m->carry]);
    next[m->beside] = emit_op(e, OP_MAX, m->node->in[0]->dtype, before, greatest);
}

static int scaled(Emitter *e, int v, int by) { return by < 0 ? v : emit_op(e, OP_MUL, DT_F32, v, by); }

static void add_sum(StreamNest *s, const StreamMember *m, const int *carry, int *next, int by) {
    Emitter *e = s->e;
    const int sum = scaled(e, carry[m->carry], by);
    if (m->beside < 0) {
        next[m->carry] = m->node->op == OP_CONTRACT ? add_tile(s, m, sum) : emit_op(e, OP_ADD, carried_in(m->node), sum, add_tile(s, m, -1));
        return;
    }
    next[m->beside] = scaled(e, carry[m->beside], by);
    next[m->carry] = emit_add_compensated(e, sum, add_tile(s, m, tile_full(&e->b, e->k->types.at[sum], 0)), &next[m->beside]);
}

static void one_member(StreamNest *s, int i, const int *carry, int *next) {
    Emitter *e = s->e;
    const StreamMember *m = &s->member[i];
    const int by = s->scale[i] = rescaling(s, i), mark = e->memo.n;
    leave_factors(s, m);
    switch (m->node->op) {
    case OP_CONTRACT:
    case OP_SUM: add_sum(s, m, carry, next, by); break;
    case OP_ARGMAX: add_argmax(s, m, carry, next); break;
    default: next[m->carry] = emit_op(e, scalar_step(m->node->op), carried_in(m->node), carry[m->carry], add_tile(s, m, -1));
    }
    if (m->term.n_factors) emit_forget(e, mark);
    remember_member(s, m, next[m->carry]);
}

/* Factors of all terms; of values that are no greater than any, the first is the greatest. */
static int finished(StreamNest *s, const StreamMember *m, int v) {
    Emitter *e = s->e;
    for (int k = 0; k < m->term.n_factors; k++) {
        const int by = shift_value(e, m->term.factor[k], e->pk->values->rank, m->dim);
        v = emit_op(e, m->term.divides[k] ? OP_DIV : OP_MUL, DT_F32, v, by);
    }
    if (m->node->op != OP_ARGMAX) return v;
    const int none = emit_op(e, OP_EQ, DT_BOOL, v, emit_i32(e, INT32_MAX));
    return emit_select(e, none, emit_i32(e, 0), v);
}

/* What a member is before anything is reduced. */
static double start_of(const Node *n) {
    return n->op == OP_CONTRACT || n->op == OP_SUM ? 0 : n->op == OP_ARGMAX ? INT32_MAX : scalar_identity(n->op, carried_in(n));
}

static int full(Emitter *e, const StreamMember *m, DType t, double value) {
    const Index *idx[MAX_RANK];
    Node like = *m->node;
    like.dtype = t;
    place_of(e, m->at, idx);
    return emit_full_over(e, &like, idx, -1, value);
}

void emit_stream(Emitter *e) {
    StreamNest s = {.e = e};
    Nest nest;
    int init[2 * MAX_STREAM], carry[2 * MAX_STREAM], next[2 * MAX_STREAM], result[2 * MAX_STREAM], n = 0;
    find_members(&s);
    for (int i = 0; i < s.n; i++) {
        const StreamMember *m = &s.member[i];
        const bool argmax = m->node->op == OP_ARGMAX;
        init[n++] = full(e, m, carried_in(m->node), start_of(m->node));
        if (m->beside >= 0) init[n] = argmax ? full(e, m, m->node->in[0]->dtype, scalar_identity(OP_RMAX, m->node->in[0]->dtype)) : init[n - 1], n++;
    }
    nest_begin(e, &nest, 1, &e->r_axis[0], n, init, carry);
    read_shifts(&s, carry);
    for (int i = 0; i < s.n; i++) one_member(&s, i, carry, next);
    nest_end(e, &nest, next, result);
    for (int i = 0; i < s.n; i++) remember_member(&s, &s.member[i], finished(&s, &s.member[i], result[s.member[i].carry]));
}
