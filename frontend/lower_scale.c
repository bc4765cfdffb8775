/* Dynamic loss scaling for f16 (Micikevicius et al., 2018, section 3.2).
 *
 * The loss is multiplied by a power of two before its gradients are taken, so that small ones are no zeros in f16, and
 * the gradients, in f32 by then, are divided by it.  Only after the last of them is it known whether all are finite: if
 * not, no parameter and no state changes, and the scale is halved; after GROWTH_STEPS steps without, it is doubled.
 *
 * With --check-finite programs without f16 skip such steps too, and those whose loss is not finite.  They have one state of
 * this, which counts down by 2. */
#include "frontend/lower.h"
#include <math.h>

enum { GROWTH_STEPS = 2000 };
static const double first_scale = 65536, least_scale = 1.0 / 16384, greatest_scale = 16777216;

enum { SCALE, GOOD_STEPS, OUTCOME, SCALE_STATES }; /* Lower.states from Lower.loss_scale on */

Node *state_of_step(Lower *L, PathScope *paths, const char *path, DType t, double value) {
    const int index = L->states.n;
    Node *init = t_const(L, t, shape_scalar(), value);
    StateRef ref = {.init = init, .loc = L->loc};
    ref.node = lower_starts(L)
                   ? init
                   : t_new_node(L, OP_STATE, 0, NULL, &(Attr){.decl = index, .dtype = t}, t, shape_scalar());
    vec_push(L->scratch, L->states, ref);
    paths_add(L, paths, path, true, index, L->loc);
    return ref.node;
}

static void make_outcome(Lower *L, PathScope *paths, const char *path) {
    state_of_step(L, paths, path, DT_I32, 0);
    L->states.at[L->states.n - 1].outcome = true;
}

static bool skips(const Lower *L) { return L->f16 || L->program->check_finite; }

void declare_loss_scale(Lower *L, PathScope *paths) {
    L->loss_scale = L->states.n;
    if (!L->f16 && skips(L)) make_outcome(L, paths, "check_finite.outcome");
    if (!L->f16) return;
    state_of_step(L, paths, "loss_scale.scale", DT_F32, first_scale);
    state_of_step(L, paths, "loss_scale.good_steps", DT_I32, 0);
    make_outcome(L, paths, "loss_scale.outcome");
}

Node *scale_loss(Lower *L, Node *loss) {
    return L->f16 ? t_binary(L, OP_MUL, loss, L->states.at[L->loss_scale + SCALE].node) : loss;
}

Node *unscale_gradient(Lower *L, Node *g) {
    if (!L->f16) return g;
    Node *one = t_const(L, DT_F32, shape_scalar(), 1);
    Node *inverse = t_binary(L, OP_DIV, one, L->states.at[L->loss_scale + SCALE].node); /* a power of two: exact */
    return t_binary(L, OP_MUL, g, t_expand(L, inverse, *g->shape));
}

static Node *greater(Lower *L, Node *a, Node *b) { return a ? t_binary(L, OP_MAX, a, b) : b; }

/* bool scalar: no gradient is infinite or NaN, nor, where there is no scale, a loss. */
static Node *all_finite(Lower *L, Node *const *gradient) {
    int8_t axes[MAX_RANK];
    Node *greatest = NULL;
    for (int i = 0; i < L->trains.n && !L->f16; i++) greatest = greater(L, greatest, t_unary(L, OP_ABS, L->trains.at[i].loss.node));
    for (int d = 0; d < MAX_RANK; d++) axes[d] = (int8_t)d;
    for (int i = 0; i < L->params.n; i++) {
        if (!gradient[i]) continue;
        Node *most = t_reduce(L, OP_RMAX, t_unary(L, OP_ABS, gradient[i]), gradient[i]->shape->rank, axes);
        greatest = greater(L, greatest, most);
    }
    if (!greatest) return NULL;
    return t_binary(L, OP_LT, greatest, t_const(L, DT_F32, shape_scalar(), INFINITY));
}

static Node *chosen(Lower *L, Node *condition, Node *then, Node *otherwise) {
    return t_select(L, t_expand(L, condition, *then->shape), then, otherwise);
}

/* What changes only if all gradients are finite. */
static void hold_updates(Lower *L, Node *finite) {
    for (int i = 0; i < L->params.n; i++) {
        ParamRef *p = &L->params.at[i];
        if (p->next) p->next = chosen(L, finite, p->next, p->node);
    }
    for (int i = 0; i < L->states.n; i++) {
        StateRef *s = &L->states.at[i];
        const bool own = i >= L->loss_scale && i < L->loss_scale + (L->f16 ? SCALE_STATES : 1);
        if (!own && s->next && s->next != s->node) s->next = chosen(L, finite, s->next, s->node);
    }
}

static Node *number(Lower *L, DType t, double v) { return t_const(L, t, shape_scalar(), v); }

static void update_scale(Lower *L, Node *finite) {
    StateRef *s = &L->states.at[L->loss_scale];
    Node *scale = s[SCALE].node, *outcome = s[OUTCOME].node;
    Node *good = t_binary(L, OP_ADD, s[GOOD_STEPS].node, number(L, DT_I32, 1));
    Node *grows = t_binary(L, OP_GE, good, number(L, DT_I32, GROWTH_STEPS)), *zero = number(L, DT_I32, 0);
    Node *twice =
        t_binary(L, OP_MIN, t_binary(L, OP_MUL, scale, number(L, DT_F32, 2)), number(L, DT_F32, greatest_scale));
    Node *least = number(L, DT_F32, least_scale);
    Node *half = t_binary(L, OP_MAX, t_binary(L, OP_MUL, scale, number(L, DT_F32, 0.5)), least);
    /* what a file may hold and no step leaves (0, NaN, an infinity) is no scale: it would skip every step from here */
    Node *in_range = t_binary(L, OP_AND, t_binary(L, OP_GE, scale, least),
                              t_binary(L, OP_LE, scale, number(L, DT_F32, greatest_scale)));
    Node *lower = t_select(L, in_range, half, number(L, DT_F32, first_scale));
    Node *at_least = t_binary(L, OP_EQ, scale, least);
    Node *even = t_binary(L, OP_SUB, outcome, t_binary(L, OP_MOD, outcome, number(L, DT_I32, 2)));
    Node *skipped = t_binary(L, OP_ADD, even, t_select(L, at_least, number(L, DT_I32, 3), number(L, DT_I32, 2)));
    s[SCALE].next = t_select(L, finite, t_select(L, grows, twice, scale), lower);
    s[GOOD_STEPS].next = t_select(L, finite, t_select(L, grows, zero, good), zero);
    s[OUTCOME].next = t_select(L, finite, outcome, skipped);
}

static void count_down(Lower *L, Node *finite) {
    StateRef *s = &L->states.at[L->loss_scale];
    s->next = t_select(L, finite, s->node, t_binary(L, OP_SUB, s->node, number(L, DT_I32, 2)));
}

void skip_on_overflow(Lower *L, Node *const *gradient) {
    if (!skips(L) || lower_starts(L) || L->stopped) return;
    const Phase outer = L->phase;
    L->phase = PHASE_UPDATE;
    Node *finite = all_finite(L, gradient);
    if (finite) {
        hold_updates(L, finite);
        (L->f16 ? update_scale : count_down)(L, finite);
    }
    L->phase = outer;
}
