/* `scan`: its body once for each place along an axis, with carries.
 *
 * It is unrolled, like `repeat`: what the body declares is declared by the first round, and the others use the same
 * parameters.  Each round's emitted values stand side by side along the axis.  Where all carries are linear in themselves,
 * one prefix has their values (lower_recurrence.c). */
#include "frontend/lower.h"
#include <string.h>

/* One that runs. */
struct ScanRun {
    const Stmt *s;
    int64_t n;      /* places along the axis */
    int axis;       /* of the first sequence */
    Emission emission;
    Recurrence *recurrence; /* NULL: the carries go from round to round */
    ScanRun *outer;
    const Binding *around; /* what the names outside are: each round begins with them */
    int n_around;
};

static void leave_scope(Lower *L, const ScanRun *run) {
    if (run->n_around) memcpy(L->body->bindings.at, run->around, sizeof *run->around * (size_t)run->n_around);
    L->body->bindings.n = run->n_around;
}

/* ---- the header --------------------------------------------------------------------------------------------------- */
/* The sequence and its axis; false: reported. */
static bool sequence(Lower *L, const ScanSeq *q, Node **x, int *axis) {
    int64_t a = 0;
    Value v = lower_expr(L, q->over);
    if (v.kind == VAL_POISON || (q->axis && !lower_const_int(L, q->axis, "the axis of `scan`", &a))) return false;
    *x = value_node(L, v, DT_COUNT, q->over->loc);
    if (!*x) return false;
    const int rank = (*x)->shape->rank;
    if (a < -rank || a >= rank) {
        lower_fail(L, E0208, q->over->loc, NULL, "'%s' is scanned along axis %lld of a tensor of rank %d", q->name.text, (long long)a, rank);
        return false;
    }
    *axis = (int)(a < 0 ? a + rank : a);
    if (dim_is_fixed((*x)->shape->dim[*axis])) return true;
    lower_fail(L, E0218, q->over->loc, "scan an axis of fixed extent, with a mask where fewer places count",
               "the extent of a scanned axis is not known when the program is compiled");
    return false;
}

/* What begins a carry: a tensor, so that each round has one of the same type. */
static Node *carry_of(Lower *L, const ScanSeq *q) {
    Value v = lower_expr(L, q->init);
    return v.kind == VAL_POISON ? NULL : value_node(L, v, DT_COUNT, q->init->loc);
}

static bool header(Lower *L, const Scan *scan, ScanRun *run, Node **first, int *axis) {
    const ScanSeq *leader = NULL;
    for (int i = 0; i < scan->seqs.n; i++) {
        const ScanSeq *q = &scan->seqs.at[i];
        if (!(q->over ? sequence(L, q, &first[i], &axis[i]) : (first[i] = carry_of(L, q)) != NULL)) return false;
        if (!q->over) continue;
        const int64_t n = first[i]->shape->dim[axis[i]].bound;
        if (!leader) leader = q, run->n = n, run->axis = axis[i];
        if (n == run->n) continue;
        lower_fail(L, E0203, q->over->loc, NULL, "'%s' has %lld places along the scanned axis, '%s' has %lld", q->name.text, (long long)n,
                   leader->name.text, (long long)run->n);
        return false;
    }
    if (leader) return true;
    lower_fail(L, E0202, run->s->loc, "write `scan x over xs axis 1, h = ..`, or `repeat n` without one", "a scan has something that it goes over");
    return false;
}

/* Zeros are for the types of what the body computes. */
Node *place_along(Lower *L, Node *x, int axis, int64_t i) {
    int64_t step[MAX_RANK];
    Dim lo[MAX_RANK];
    Shape one = *x->shape, rest = {.rank = x->shape->rank - 1};
    for (int d = 0; d < one.rank; d++) lo[d] = dim_fixed(d == axis ? i : 0), step[d] = 1;
    for (int d = 0; d < rest.rank; d++) rest.dim[d] = one.dim[d + (d >= axis)];
    if (one.dim[axis].bound == 0) return t_const(L, x->dtype, rest, 0);
    one.dim[axis] = dim_fixed(1);
    return t_reshape(L, t_slice(L, x, lo, step, one), rest);
}

/* ---- rounds -------------------------------------------------------------------------------------------------------- */
/* The carry's value after a round, as the next one takes it. */
static Node *carried(Lower *L, const ScanSeq *q, const Node *before) {
    const Binding *b = body_find(L->body, q->name.text);
    Shape joined;
    if (!b || b->value.kind == VAL_POISON) return NULL;
    Node *x = value_node(L, b->value, before->dtype, q->name.loc);
    if (!x) return NULL;
    if (t_join_shapes(L, *x->shape, *before->shape, &joined) && shape_equal(joined, *before->shape)) return t_expand(L, x, joined);
    lower_fail(L, E0203, q->name.loc, "begin with a tensor of the shape that the body gives it",
               "'%s' begins as %s and is %s after the body", q->name.text, shape_text(L->arena, *before->shape),
               shape_text(L->arena, *x->shape));
    return NULL;
}

static bool round_of(Lower *L, ScanRun *run, Node *const *first, const int *axis, int64_t i, Node **carry) {
    const Scan *scan = run->s->scan;
    leave_scope(L, run);
    for (int k = 0; k < scan->seqs.n; k++) {
        const ScanSeq *q = &scan->seqs.at[k];
        if (!q->over && run->recurrence) carry[k] = recurrence_mark(run->recurrence, (int)i, k, carry[k]);
        body_bind(L, q->name.text, val_tensor(q->over ? place_along(L, first[k], axis[k], i) : carry[k]));
    }
    lower_block(L, &scan->body);
    if (L->stopped) return false;
    for (int k = 0; k < scan->seqs.n; k++) {
        if (scan->seqs.at[k].over) continue;
        if (!(carry[k] = carried(L, &scan->seqs.at[k], carry[k]))) return false;
        if (run->recurrence) recurrence_next(run->recurrence, (int)i, k, carry[k]);
    }
    return emission_round_ended(L, &run->emission);
}

/* The first round declares parameters, the others take the same ones, in the same order. */
static bool rounds(Lower *L, ScanRun *run, Node *const *first, const int *axis, Node **carry) {
    const int begin = L->drawn.n, kept = L->kept.n;
    bool ok = round_of(L, run, first, axis, 0, carry);
    const int end = L->drawn.n;
    const Reuse around = L->reuse;
    const Instance once = lower_declared(L, begin, kept);
    for (int64_t i = 1; i < run->n && ok; i++) {
        L->reuse = (Reuse){.on = true, .of = once};
        ok = round_of(L, run, first, axis, i, carry);
        L->drawn.n = end;
    }
    L->reuse = around;
    return ok;
}

/* The body's names are gone after it; those of the header keep their last values, of carries as they began if there was no round. */
void lower_scan(Lower *L, const Stmt *s) {
    const Scan *scan = s->scan;
    Node **first = ARENA_ARRAY(L->scratch, Node *, scan->seqs.n), **carry = ARENA_ARRAY(L->scratch, Node *, scan->seqs.n);
    int *axis = ARENA_ARRAY(L->scratch, int, scan->seqs.n);
    ScanRun run = {.s = s, .outer = L->scan};
    bool ok = header(L, scan, &run, first, axis);
    memcpy(carry, first, sizeof *carry * (size_t)scan->seqs.n);
    emission_open(L, &run.emission, s, "scan", run.axis);
    run.n_around = L->body->bindings.n;
    run.around = arena_dup(L->scratch, L->body->bindings.at, sizeof *run.around * (size_t)run.n_around);
    L->scan = &run;
    if (ok) run.recurrence = recurrence_new(L, scan, first, run.n);
    ok = ok && rounds(L, &run, first, axis, carry);
    if (ok && run.recurrence) recurrence_solve(run.recurrence, run.axis, &run.emission, carry);
    L->scan = run.outer;
    leave_scope(L, &run);
    for (int k = 0; k < scan->seqs.n; k++) {
        const bool over = scan->seqs.at[k].over != NULL;
        Node *last = !ok ? NULL : over ? place_along(L, first[k], axis[k], run.n - 1) : run.n ? carry[k] : first[k];
        body_bind(L, scan->seqs.at[k].name.text, last ? val_tensor(last) : val_poison());
    }
    run.emission.empty = run.n == 0;
    emission_close(L, &run.emission, ok);
}
