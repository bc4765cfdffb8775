/* What a `scan`, or a `repeat` that is bound to names, emits: values of each round, side by side along a new axis. */
#include "frontend/lower.h"

void emission_open(Lower *L, Emission *e, const Stmt *s, const char *what, int axis) {
    *e = (Emission){.s = s, .what = what, .axis = axis, .outer = L->emission};
    e->out = ARENA_ARRAY(L->scratch, NodeList, s->names.n + 1);
    L->emission = e;
}

/* Has it room for the new axis, and is it as in the round before? */
static bool fits(Lower *L, const Emission *e, const Node *x, const Node *before, SrcLoc loc) {
    if (x->shape->rank < e->axis)
        lower_fail(L, E0203, loc, NULL, "what is emitted, %s, has no axis %d to stand along",
                   shape_text(L->arena, *x->shape), e->axis);
    else if (x->shape->rank == MAX_RANK)
        lower_fail(L, E0216, loc, NULL, "what is emitted has %d axes already", MAX_RANK);
    else if (before && (before->dtype != x->dtype || !shape_equal(*before->shape, *x->shape)))
        lower_fail(L, E0203, loc, NULL, "what is emitted is %s in one round and %s in another",
                   shape_text(L->arena, *before->shape), shape_text(L->arena, *x->shape));
    else
        return true;
    return false;
}

void lower_emit(Lower *L, const Stmt *s) {
    Emission *e = L->emission;
    if (e->emitted) {
        lower_fail(L, E0215, s->loc, NULL, "a %s emits once in a round", e->what);
        return;
    }
    e->emitted = true;
    if (e->s->names.n != s->values.n) {
        lower_fail(L, E0211, s->loc, NULL, "%d value%s emitted, and the %s is bound to %d name%s", s->values.n,
                   s->values.n == 1 ? " is" : "s are", e->what, e->s->names.n, e->s->names.n == 1 ? "" : "s");
        e->failed = true;
        return;
    }
    for (int v = 0; v < s->values.n; v++) {
        const SrcLoc loc = s->values.at[v]->loc;
        Value x = lower_expr(L, s->values.at[v]);
        Node *node = x.kind == VAL_POISON ? NULL : value_node(L, x, DT_COUNT, loc);
        e->failed |= !node || !fits(L, e, node, e->out[v].n ? e->out[v].at[0] : NULL, loc);
        vec_push(L->scratch, e->out[v], node);
    }
}

bool emission_round_ended(Lower *L, Emission *e) {
    const int names = e->s->names.n;
    const bool emitted = e->emitted;
    e->emitted = false;
    if (emitted || names == 0) return !e->failed;
    lower_fail(L, E0211, e->s->loc, "write `emit VALUE` in the body", "%d name%s bound to a %s that emits nothing",
               names, names == 1 ? " is" : "s are", e->what);
    return false;
}

static Value stacked(Lower *L, const Emission *e, int v) {
    const int n = e->out[v].n;
    const Node *each = e->out[v].at[0];
    Shape all = {.rank = each->shape->rank + 1};
    for (int d = 0; d < all.rank; d++) all.dim[d] = d == e->axis ? dim_fixed(e->empty ? 0 : n) : each->shape->dim[d - (d > e->axis)];
    if (!check_shape(L, all, e->s->loc)) return val_poison();
    return val_tensor(e->empty ? t_const(L, each->dtype, all, 0) : t_stack(L, n, e->out[v].at, e->axis));
}

void emission_close(Lower *L, Emission *e, bool ok) {
    L->emission = e->outer;
    for (int v = 0; v < e->s->names.n; v++)
        body_bind(L, e->s->names.at[v].text, ok && e->out[v].n ? stacked(L, e, v) : val_poison());
}
