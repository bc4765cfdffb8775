/* Parameters without a master: bf16 in memory, their updates rounded stochastically (Gupta et al., 2015, section 4). */
#include "frontend/lower.h"

static Node *times(Lower *L, Node *x, double k) { return t_binary(L, OP_MUL, x, t_const(L, DT_F32, *x->shape, k)); }

/* Through the dtype and back. */
static Node *rounded(Lower *L, Node *x, DType t) { return t_cast(L, t_cast(L, x, t), DT_F32); }

static Node *uniform(Lower *L, Shape s) {
    const Shape scalar = shape_scalar();
    const Attr i32 = {.dtype = DT_I32};
    if (!L->seed) L->seed = t_node(L, OP_SEED, 0, NULL, &i32, DT_I32, scalar);
    Node *in[2] = {L->seed, t_node(L, OP_STEP, 0, NULL, &i32, DT_I32, scalar)};
    Node *u = t_node(L, OP_RANDOM, 2, in, &(Attr){.dtype = DT_F32}, DT_F32, s);
    vec_push(L->scratch, L->dropouts, u); /* gets a stream of its own */
    return u;
}

/* x between its neighbours lo and hi of bf16, away from zero: hi with probability (x - lo) / (hi - lo).  y, the
 * nearest, is one of them; the next value of bf16 from y lies 1/2 to 1 units in the last place past y (1 +- 2^-8), so
 * that a little more rounds to it, up and down, powers of two included.  What is exact, infinite or NaN stays: (x - lo)
 * / (hi - lo) is 0 or NaN. */
static Node *stochastic(Lower *L, Node *x) {
    const double past = 0x1p-8 * (1 + 0x1p-6);
    Node *y = rounded(L, x, DT_BF16);
    Node *up = rounded(L, times(L, y, 1 + past), DT_BF16), *down = rounded(L, times(L, y, 1 - past), DT_BF16);
    Node *over = t_binary(L, OP_GT, t_unary(L, OP_ABS, y), t_unary(L, OP_ABS, x));
    Node *lo = t_select(L, over, down, y), *hi = t_select(L, over, y, up);
    Node *part = t_binary(L, OP_DIV, t_binary(L, OP_SUB, x, lo), t_binary(L, OP_SUB, hi, lo));
    Node *chosen = t_select(L, t_binary(L, OP_GT, part, uniform(L, *x->shape)), hi, lo);
    return t_cast(L, chosen, DT_BF16);
}

void round_weights(Lower *L) {
    const Phase outer = L->phase;
    L->phase = PHASE_UPDATE;
    for (int i = 0; i < L->params.n; i++) {
        ParamRef *p = &L->params.at[i];
        if (p->next && p->dtype == DT_BF16) p->next = stochastic(L, p->next);
    }
    L->phase = outer;
}
