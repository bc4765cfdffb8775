/* `train`: which parameters, their gradients, clipping, and the optimizer's body for each. */
#include "frontend/lower.h"
#include <string.h>

/* `*` matches any characters; linear in text for the last star, so no pattern is slow. */
static bool path_matches(const char *pattern, const char *path) {
    const char *star = NULL, *resume = NULL;
    while (*path) {
        if (*pattern == '*') {
            star = pattern++;
            resume = path;
        } else if (*pattern == *path) {
            pattern++, path++;
        } else if (star) {
            pattern = star + 1;
            path = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

static const char *nearest_path(Lower *L, const char *pattern) {
    const char **names = ARENA_ARRAY(L->scratch, const char *, L->params.n + 1);
    for (int i = 0; i < L->params.n; i++) names[i] = L->params.at[i].path;
    return diag_nearest(pattern, names, L->params.n);
}

static bool select_by(Lower *L, const Pick *pick, bool *selected) {
    if (pick->sliced) {
        lower_fail(L, E0217, pick->pattern.loc, NULL, "`only` with a slice is not supported yet");
        return false;
    }
    bool any = false;
    for (int i = 0; i < L->params.n; i++)
        if (path_matches(pick->pattern.text, L->params.at[i].path)) any = selected[i] = true;
    if (any) return true;
    const char *near = nearest_path(L, pick->pattern.text);
    lower_fail(L, E0304, pick->pattern.loc, near ? arena_printf(L->arena, "did you mean \"%s\"?", near) : NULL,
               "no parameter matches \"%s\"", pick->pattern.text);
    return false;
}

enum { NO_LINE = -1 };

static bool claim(Lower *L, int line, const bool *selected, int *line_of) {
    const SrcLoc loc = L->trains.at[line].s->loc;
    for (int i = 0; i < L->params.n; i++) {
        if (!selected[i]) continue;
        if (line_of[i] != NO_LINE) {
            lower_fail(L, E0311, loc, "select with `only` what each `train` is for", "the parameter '%s' is trained by two `train` lines",
                       L->params.at[i].path);
            return false;
        }
        line_of[i] = line;
    }
    return true;
}

static bool select_only(Lower *L, int line, int *line_of) {
    const Train *t = L->trains.at[line].s->train;
    bool *selected = ARENA_ARRAY(L->scratch, bool, L->params.n + 1), ok = true;
    for (int i = 0; i < t->only.n; i++) ok &= select_by(L, &t->only.at[i], selected);
    return ok && claim(L, line, selected, line_of);
}

/* What no other line selects; false, reported: others select all there is. */
static bool claim_rest(Lower *L, int line, int *line_of) {
    int n = 0;
    for (int i = 0; i < L->params.n; i++) {
        if (line_of[i] != NO_LINE) continue;
        line_of[i] = line;
        n++;
    }
    if (n || L->params.n == 0) return true;
    lower_fail(L, E0304, L->trains.at[line].s->loc, "leave it out", "the other `train` lines select every parameter");
    return false;
}

/* Which line trains each parameter: that of the `only` that selects it, else the line without one. */
static bool select_parameters(Lower *L, int *line_of) {
    int rest = NO_LINE;
    bool ok = true;
    for (int i = 0; i < L->params.n; i++) line_of[i] = NO_LINE;
    for (int line = 0; line < L->trains.n; line++) {
        const Stmt *s = L->trains.at[line].s;
        if (s->train->only.n) {
            ok &= select_only(L, line, line_of);
        } else if (rest == NO_LINE) {
            rest = line;
        } else {
            lower_fail(L, E0311, s->loc, "select with `only` what each `train` is for", "two `train` lines without `only` train the same");
            ok = false;
        }
    }
    if (ok && rest != NO_LINE) ok = claim_rest(L, rest, line_of);
    for (int i = 0; ok && L->declaring && i < L->params.n; i++) {
        TensorDecl *d = &L->model->params.at[L->params.at[i].decl];
        d->trainable = line_of[i] != NO_LINE;
        if (L->model->lines.n) d->line = line_of[i] + 1;
    }
    return ok;
}

/* Lines that have a name are steps of their own.  False, reported: more than a call can choose from. */
static bool declare_lines(Lower *L) {
    bool named = false;
    for (int i = 0; i < L->trains.n; i++) named |= L->trains.at[i].s->as.text != NULL;
    if (!named || !L->declaring) return true;
    if (L->trains.n > MAX_LINES) {
        lower_fail(L, E0311, L->trains.at[MAX_LINES].s->loc, NULL, "a model with named `train` lines has at most %d",
                   MAX_LINES);
        return false;
    }
    for (int i = 0; i < L->trains.n; i++) {
        const char *name = L->trains.at[i].s->as.text;
        vec_push(L->arena, L->model->lines, name ? name : "");
    }
    return true;
}

/* Stands for a gradient where values at the start are computed: no initial value can be made of it (check_init). */
static Node *gradient_at_start(Lower *L, const Node *p) {
    Node *step = t_node(L, OP_STEP, 0, NULL, &(Attr){.dtype = DT_I32}, DT_I32, shape_scalar());
    return t_expand(L, t_cast(L, step, p->dtype), *p->shape);
}

/* Of what each line trains, by its loss; `scaled`: of the loss times its scale. */
static void make_gradients(Lower *L, const int *line_of, Node **scaled, Node **gradient) {
    L->phase = PHASE_BACKWARD;
    for (int line = 0; line < L->trains.n; line++) {
        Node *loss = scale_loss(L, L->trains.at[line].loss.node);
        for (int i = 0; i < L->params.n; i++) {
            Node *p = L->params.at[i].node;
            if (line_of[i] != line) continue;
            L->loc = L->params.at[i].loc;
            scaled[i] = lower_starts(L) ? gradient_at_start(L, p)
                                        : t_node(L, OP_GRADIENT, 2, (Node *[]){loss, p}, NULL, p->dtype, *p->shape);
            gradient[i] = unscale_gradient(L, scaled[i]);
        }
    }
    L->phase = PHASE_FORWARD;
}

static Node *sum_of_squares(Lower *L, Node *g) {
    int8_t axes[MAX_RANK];
    for (int d = 0; d < g->shape->rank; d++) axes[d] = (int8_t)d;
    return t_reduce(L, OP_SUM, t_binary(L, OP_MUL, g, g), g->shape->rank, axes);
}

/* In pairs, and pairs of those: the terms are needed at once, and what is lost grows with the logarithm of their number. */
static Node *sum_in_pairs(Lower *L, Node **term, int n) {
    for (; n > 1; n = (n + 1) / 2)
        for (int i = 0; i < n; i += 2) term[i / 2] = i + 1 < n ? t_binary(L, OP_ADD, term[i], term[i + 1]) : term[i];
    return n ? term[0] : NULL;
}

/* Scales all gradients of a line by min(1, c / norm), the norm over all of them (Pascanu et al., 2013). */
static void clip_gradients(Lower *L, const Expr *e, int line, const int *line_of, Node **gradient) {
    const Value given = lower_named(L, e, "clip_norm");
    Node *limit = value_node(L, given, DT_F32, e->loc), **square = ARENA_ARRAY(L->scratch, Node *, L->params.n + 1);
    int n = 0;
    if (!limit) return;
    if (val_is_number(given) && !(val_number(given) > 0)) {
        lower_fail(L, E0310, e->loc, "leave clip_norm out to train without a limit",
                   "clip_norm must be above 0, not %s", val_describe(L->arena, given));
        return;
    }
    if (limit->shape->rank) {
        lower_fail(L, E0204, e->loc, NULL, "clip_norm must be a number, not a tensor %s",
                   shape_text(L->arena, *limit->shape));
        return;
    }
    L->loc = e->loc;
    for (int i = 0; i < L->params.n; i++)
        if (line_of[i] == line) square[n++] = sum_of_squares(L, gradient[i]);
    Node *total = sum_in_pairs(L, square, n);
    if (!total) return;
    Shape scalar = shape_scalar();
    Node *tiny = t_const(L, DT_F32, scalar, 1e-12), *norm = t_binary(L, OP_ADD, t_unary(L, OP_SQRT, total), tiny);
    Node *ratio = t_binary(L, OP_DIV, limit, norm), *scale = t_binary(L, OP_MIN, t_const(L, DT_F32, scalar, 1), ratio);
    for (int i = 0; i < L->params.n; i++)
        if (line_of[i] == line) gradient[i] = t_binary(L, OP_MUL, gradient[i], t_expand(L, scale, *gradient[i]->shape));
}

/* The optimizer's body on parameter i; its states are named PATH.NAME. */
static bool update_parameter(Lower *L, const Top *top, int i, Node *g, const Stmt *train, const ArgValue *args, PathScope *paths) {
    PathScope inner = {0};
    Body b = {.top = top, .library = loc_in_library(L->diag, top->loc), .up = L->body, .paths = &inner, .target = i};
    const Value first[2] = {val_tensor(L->params.at[i].node), val_tensor(g)};
    SrcLoc loc = train->loc;
    if (!lower_bind_formals(L, &b, top, 2, first, train->train->args.n, args, loc)) return false;
    L->body = &b;
    L->loc = loc;
    lower_block(L, &top->body);
    L->body = b.up;
    paths_merge(L, paths, &inner, L->params.at[i].path, NULL, loc);
    if (b.poisoned) return false;
    if (b.target_updated) return true;
    lower_fail(L, E0309, loc, arena_printf(L->arena, "write %s <- ...", top->formals.at[0].name.text),
               "the optimizer '%s' does not update its parameter", top->name.text);
    return false;
}

static const Top *find_optimizer(Lower *L, const Train *t) {
    const Top *top = program_function(L->program, t->optimizer.text, false);
    if (top && top->kind == TOP_OPTIMIZER) return top;
    lower_fail(L, E0201, t->optimizer.loc, NULL, top ? "'%s' is not an optimizer" : "unknown optimizer '%s'",
               t->optimizer.text);
    return NULL;
}

/* A line that may be a step by itself counts those that it had; that is what `step` is in the call of its optimizer. */
static void count_steps(Lower *L, const char *name, PathScope *paths) {
    Node *n = state_of_step(L, paths, arena_printf(L->arena, "step_%s", name), DT_I32, 0);
    if (lower_starts(L)) return;
    StateRef *s = &L->states.at[L->states.n - 1];
    s->next = t_binary(L, OP_ADD, n, t_const(L, DT_I32, shape_scalar(), 1));
    L->step = t_cast(L, s->next, DT_F32);
}

/* The parameters of one line; false: reported. */
static bool update_line(Lower *L, int line, const int *line_of, PathScope *paths, Node **gradient) {
    const Stmt *s = L->trains.at[line].s;
    const Train *t = s->train;
    const Top *top = find_optimizer(L, t);
    if (!top) return false;
    L->loc = s->loc;
    if (s->as.text) count_steps(L, s->as.text, paths);
    ArgValue *args = lower_args(L, top, 2, &t->args, lower_plain_arg, NULL);
    for (int i = 0; i < t->args.n; i++)
        if (args[i].value.kind == VAL_POISON) return false;
    if (t->clip_norm) clip_gradients(L, t->clip_norm, line, line_of, gradient);
    for (int i = 0; i < L->params.n && !L->stopped; i++)
        if (line_of[i] == line && !update_parameter(L, top, i, gradient[i], s, args, paths)) return false;
    return true;
}

static bool has_losses(const Lower *L) {
    for (int i = 0; i < L->trains.n; i++)
        if (L->trains.at[i].loss.kind != VAL_TENSOR) return false;
    return true;
}

/* With what the optimizer has of its own. */
static bool step_of_line(Lower *L, int line, const int *line_of, PathScope *paths, Node **gradient) {
    const int first = L->states.n;
    Node *step = L->step;
    const bool ok = update_line(L, line, line_of, paths, gradient);
    L->step = step;
    for (int i = first; i < L->states.n && L->model->lines.n; i++) L->states.at[i].line = line + 1;
    return ok;
}

void lower_train(Lower *L, PathScope *paths, Node **gradient) {
    int *line_of = ARENA_ARRAY(L->scratch, int, L->params.n + 1);
    if (!declare_lines(L)) return;
    if (!select_parameters(L, line_of) || !has_losses(L)) return;
    const SrcLoc outer = L->loc;
    Node **scaled = ARENA_ARRAY(L->scratch, Node *, L->params.n + 1);
    L->phase = PHASE_BACKWARD;
    declare_loss_scale(L, paths);
    make_gradients(L, line_of, scaled, gradient);
    L->phase = PHASE_UPDATE;
    for (int line = 0; line < L->trains.n && L->entry != ENTRY_GRAD; line++)
        if (!step_of_line(L, line, line_of, paths, gradient)) break;
    L->loc = L->trains.at[0].s->loc;
    skip_on_overflow(L, scaled);
    if (L->entry == ENTRY_STEP) round_weights(L);
    L->phase = PHASE_FORWARD;
    L->loc = outer;
}
