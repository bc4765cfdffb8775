/* Parameters and their initial values, states, hyperparameters. */
#include "frontend/lower.h"
#include <math.h>
#include <string.h>

/* ---- initial values ----------------------------------------------------------------------------- */

typedef struct ParamInit {
    Shape shape;
    double arg[2];
    ParamRef *param;
} ParamInit;

/* Uniform in [0, 1); the stream becomes the parameter's index once that is known. */
static Node *init_uniform(Lower *L, ParamInit *init, Shape s) {
    if (!L->seed) L->seed = t_node(L, OP_SEED, 0, NULL, &(Attr){.dtype = DT_I32}, DT_I32, shape_scalar());
    Node *in[2] = {L->seed, t_const(L, DT_I32, shape_scalar(), 0)};
    Node *u = t_node(L, OP_RANDOM, 2, in, &(Attr){.dtype = DT_F32}, DT_F32, s);
    vec_push(L->scratch, init->param->random, u);
    return u;
}

static Node *scaled(Lower *L, Node *x, double k) { return t_binary(L, OP_MUL, x, t_const(L, DT_F32, *x->shape, k)); }

static Node *make_range(Lower *L, ParamInit *init, double lo, double hi) {
    Node *u = scaled(L, init_uniform(L, init, init->shape), hi - lo);
    return t_binary(L, OP_ADD, u, t_const(L, DT_F32, *u->shape, lo));
}

static Node *row(Lower *L, Node *pair, int64_t n, int64_t i) {
    const Dim lo[2] = {dim_fixed(i), dim_fixed(0)};
    const int64_t step[2] = {1, 1};
    Node *r = t_slice(L, pair, lo, step, shape_fixed(2, (int64_t[]){1, n}));
    return t_reshape(L, r, shape_fixed(1, &n));
}

/* Box and Muller: sqrt(-2 log(1 - u)) cos(2 pi v) of two uniforms; 1 - u is never 0. */
static Node *make_normal(Lower *L, ParamInit *init, double std) {
    int64_t n = shape_elements(init->shape);
    Node *pair = init_uniform(L, init, shape_fixed(2, (int64_t[]){2, n}));
    Node *u = row(L, pair, n, 0), *v = row(L, pair, n, 1);
    Node *one_less = t_binary(L, OP_SUB, t_const(L, DT_F32, *u->shape, 1), u);
    Node *radius = t_unary(L, OP_SQRT, scaled(L, t_unary(L, OP_LOG, one_less), -2));
    Node *angle = t_unary(L, OP_COS, scaled(L, v, 2 * 3.14159265358979323846));
    return t_reshape(L, scaled(L, t_binary(L, OP_MUL, radius, angle), std), init->shape);
}

/* All but the last dimension feed one output. */
static double fan_in(Shape s) {
    double n = 1;
    for (int d = 0; d + 1 < s.rank; d++) n *= (double)s.dim[d].bound;
    return n > 0 ? n : 1;
}

/* As fan_in, with inputs and outputs exchanged: a kernel [R, S, C, F] has R*S*F. */
static double fan_out(Shape s) {
    if (s.rank == 0) return 1;
    double n = (double)s.dim[s.rank - 1].bound;
    for (int d = 0; d + 2 < s.rank; d++) n *= (double)s.dim[d].bound;
    return n > 0 ? n : 1;
}

static Node *init_zeros(Lower *L, ParamInit *i) { return t_const(L, DT_F32, i->shape, 0); }
static Node *init_ones(Lower *L, ParamInit *i) { return t_const(L, DT_F32, i->shape, 1); }
static Node *init_constant(Lower *L, ParamInit *i) { return t_const(L, DT_F32, i->shape, i->arg[0]); }
static Node *init_normal(Lower *L, ParamInit *i) { return make_normal(L, i, i->arg[0]); }
static Node *init_range(Lower *L, ParamInit *i) { return make_range(L, i, i->arg[0], i->arg[1]); }
/* He et al., 2015, eq. 10 */
static Node *init_kaiming(Lower *L, ParamInit *i) { return make_normal(L, i, sqrt(2 / fan_in(i->shape))); }
/* Glorot and Bengio, 2010, eq. 16 */
static Node *init_xavier(Lower *L, ParamInit *i) {
    double a = sqrt(6 / (fan_in(i->shape) + fan_out(i->shape)));
    return make_range(L, i, -a, a);
}

static const struct InitKind {
    const char *name;
    int n_args;
    const char *arg[2];
    double standard[2]; /* defaults; NAN: must be given */
    Node *(*make)(Lower *L, ParamInit *i);
} init_kinds[] = {
    {"zeros", 0, {0}, {0}, init_zeros},
    {"ones", 0, {0}, {0}, init_ones},
    {"constant", 1, {"c"}, {NAN}, init_constant},
    {"normal", 1, {"std"}, {0.02}, init_normal},
    {"uniform", 2, {"lo", "hi"}, {NAN, NAN}, init_range},
    {"kaiming", 0, {0}, {0}, init_kaiming},
    {"xavier", 0, {0}, {0}, init_xavier},
};
enum { N_INIT_KINDS = sizeof init_kinds / sizeof *init_kinds };

static const struct InitKind *find_kind(Lower *L, const Expr *e) {
    const char *names[N_INIT_KINDS];
    for (int i = 0; i < N_INIT_KINDS; i++) {
        if (strcmp(init_kinds[i].name, e->name.text) == 0) return &init_kinds[i];
        names[i] = init_kinds[i].name;
    }
    const char *near = diag_nearest(e->name.text, names, N_INIT_KINDS);
    lower_fail(L, E0201, e->name.loc,
               near ? arena_printf(L->arena, "did you mean '%s'?", near)
                    : "there are zeros, ones, constant(c), normal(std), uniform(lo, hi), kaiming and xavier",
               "there is no initial value '%s'", e->name.text);
    return NULL;
}

static int init_arg_index(const struct InitKind *k, const Arg *a, int position) {
    for (int i = 0; a->name.text && i < k->n_args; i++)
        if (strcmp(k->arg[i], a->name.text) == 0) return i;
    return a->name.text || position >= k->n_args ? -1 : position;
}

static bool init_args(Lower *L, const Expr *e, const struct InitKind *k, ParamInit *init) {
    init->arg[0] = k->standard[0], init->arg[1] = k->standard[1];
    for (int i = 0; i < e->args.n; i++) {
        int at = init_arg_index(k, &e->args.at[i], i);
        if (at < 0) {
            lower_fail(L, E0202, e->loc, NULL, "'%s' takes %d argument%s", k->name, k->n_args,
                       k->n_args == 1 ? "" : "s");
            return false;
        }
        Value v = lower_expr(L, e->args.at[i].value);
        if (v.kind == VAL_POISON) return false;
        if (!val_is_number(v)) {
            lower_fail(L, E0209, e->args.at[i].value->loc, NULL, "an initial value needs constants, not %s",
                       val_describe(L->arena, v));
            return false;
        }
        init->arg[at] = val_number(v);
    }
    for (int i = 0; i < k->n_args; i++)
        if (isnan(init->arg[i])) {
            lower_fail(L, E0202, e->loc, NULL, "'%s' needs the argument '%s'", k->name, k->arg[i]);
            return false;
        }
    return true;
}

/* Of a distribution: the ends are in order, and the standard deviation is not negative. */
static bool init_in_range(Lower *L, const Expr *e, const struct InitKind *k, const ParamInit *init) {
    if (k->make == init_range && !(init->arg[0] <= init->arg[1])) {
        lower_fail(L, E0202, e->loc, "write the lower end first", "'uniform' from %g to %g has no values", init->arg[0],
                   init->arg[1]);
        return false;
    }
    if (k->make == init_normal && init->arg[0] < 0) {
        lower_fail(L, E0202, e->loc, "'normal' takes a standard deviation; its mean is 0",
                   "a standard deviation of %g is negative", init->arg[0]);
        return false;
    }
    return true;
}

/* ---- parameters ------------------------------------------------------------------------------------ */

static bool owns_paths(Lower *L, SrcLoc loc, const char *what) {
    if (L->body && L->body->paths && L->body->target < 0) return true;
    lower_fail(L, E0215, loc, "make it a `layer`", "%s outside a model or layer", what);
    return false;
}

static const int *copy_from(Lower *L, const int *at, int n) {
    return n ? arena_dup(L->scratch, at, sizeof *at * (size_t)n) : NULL;
}

Instance lower_declared(Lower *L, int drawn, int kept) {
    Instance i = {.n_params = L->drawn.n - drawn, .n_states = L->kept.n - kept};
    if (i.n_params) i.param = copy_from(L, L->drawn.at + drawn, i.n_params);
    if (i.n_states) i.state = copy_from(L, L->kept.at + kept, i.n_states);
    return i;
}

/* The parameter that the first round of the scan, or the instance that is shared, has here. */
static Value reused(Lower *L, const Expr *e, Shape s) {
    const Instance *of = &L->reuse.of;
    if (L->reuse.next_param >= of->n_params)
        return of->name ? lower_fail(L, E0302, e->loc, NULL, "'%s' has no such parameter that could be shared", of->name)
                        : lower_fail(L, E0302, e->loc, NULL, "a round of a scan declares a parameter that the first does not");
    const int index = of->param[L->reuse.next_param++];
    const ParamRef *p = &L->params.at[index];
    const char *is = shape_text(L->arena, p->shape), *here = shape_text(L->arena, s);
    if (!shape_equal(p->shape, s))
        return of->name ? lower_fail(L, E0203, e->loc, NULL, "a parameter of '%s' is %s and cannot be shared as %s", of->name, is, here)
                        : lower_fail(L, E0203, e->loc, NULL, "a parameter of a scan is %s in one round and %s in another", is, here);
    vec_push(L->scratch, L->drawn, index);
    return val_tensor(p->node);
}

Value lower_param(Lower *L, const Expr *e, const char *name) {
    if (!owns_paths(L, e->loc, "a parameter")) return val_poison();
    if (e->as.text) name = e->as.text;
    if (!name) return lower_fail(L, E0301, e->loc, "write (param [..] init .. as NAME)", "this parameter has no name");
    ParamInit init = {0};
    const struct InitKind *kind = find_kind(L, e);
    if (!kind || !init_args(L, e, kind, &init) || !init_in_range(L, e, kind, &init)) return val_poison();
    if (!lower_shape_list(L, &e->list, &init.shape) || !check_declared(L, init.shape, e->loc)) return val_poison();
    if (!shape_is_fixed(init.shape))
        return lower_fail(L, E0205, e->loc, NULL, "a parameter cannot have a bounded dimension: %s",
                          shape_text(L->arena, init.shape));
    if (L->reuse.on) return reused(L, e, init.shape);
    int index = L->params.n;
    ParamRef ref = {.shape = init.shape, .dtype = L->weights, .loc = L->loc};
    init.param = &ref;
    if (L->entry == ENTRY_INIT) {
        ref.node = t_cast(L, t_cast(L, kind->make(L, &init), ref.dtype), DT_F32); /* as entry derive reads it */
    } else {
        ref.source = t_node(L, OP_PARAM, 0, NULL, &(Attr){.decl = index, .dtype = ref.dtype}, ref.dtype, init.shape);
        ref.node = t_cast(L, ref.source, DT_F32);
    }
    vec_push(L->scratch, L->params, ref);
    vec_push(L->scratch, L->drawn, index);
    paths_add(L, L->body->paths, name, false, index, e->loc);
    return val_tensor(ref.node);
}

/* ---- states -------------------------------------------------------------------------------------------- */

static void bind_state(Lower *L, const char *name, int index) {
    const StateRef *s = &L->states.at[index];
    vec_push(L->scratch, L->kept, index);
    body_bind(L, name, val_tensor(s->next ? s->next : s->node));
    body_find(L->body, name)->state = index;
}

/* The state that the instance has here, as it is by now. */
static void share_state(Lower *L, const Stmt *s, const Node *init) {
    const char *name = s->names.at[0].text;
    const Instance *of = &L->reuse.of;
    if (L->reuse.next_state >= of->n_states) {
        lower_fail(L, E0302, s->loc, NULL, "'%s' has no state that '%s' could share", of->name, name);
        return;
    }
    const int index = of->state[L->reuse.next_state++];
    const Node *is = L->states.at[index].init;
    if (is->dtype == init->dtype && shape_equal(*is->shape, *init->shape))
        bind_state(L, name, index);
    else
        lower_fail(L, E0203, s->loc, NULL, "a state of '%s' is %s and cannot be shared as %s", of->name, shape_text(L->arena, *is->shape),
                   shape_text(L->arena, *init->shape));
}

void lower_state(Lower *L, const Stmt *s) {
    Value v = lower_expr(L, s->values.at[0]);
    const char *name = s->names.at[0].text;
    body_bind(L, name, val_poison());
    if (v.kind == VAL_POISON) return;
    if (L->scan) {
        lower_fail(L, E0215, s->loc, "carry it: `scan x over xs, h = ..`", "a state is declared in a scan");
        return;
    }
    if (!L->body->paths) {
        lower_fail(L, E0215, s->loc, "make it a `layer`", "a state outside a model, layer or optimizer");
        return;
    }
    Node *init = value_node(L, v, v.kind == VAL_TENSOR ? DT_COUNT : DT_F32, s->loc);
    if (!init) return;
    if (!shape_is_fixed(*init->shape)) {
        lower_fail(L, E0205, s->loc, NULL, "a state cannot have a bounded dimension: %s",
                   shape_text(L->arena, *init->shape));
        return;
    }
    if (!check_declared(L, *init->shape, s->loc)) return;
    if (L->reuse.on) {
        share_state(L, s, init);
        return;
    }
    int index = L->states.n;
    Attr attr = {.decl = index, .dtype = init->dtype};
    StateRef ref = {.init = init, .loc = L->loc, .optimizer = L->body->target >= 0};
    ref.node = lower_starts(L) ? init : t_node(L, OP_STATE, 0, NULL, &attr, init->dtype, *init->shape);
    vec_push(L->scratch, L->states, ref);
    paths_add(L, L->body->paths, name, true, index, s->loc);
    bind_state(L, name, index);
}

/* ---- hyperparameters ------------------------------------------------------------------------------------ */

static int hyper_index(const Model *m, const char *name) {
    for (int i = 0; i < m->hypers.n; i++)
        if (strcmp(m->hypers.at[i].name, name) == 0) return i;
    return -1;
}

Value lower_hyper(Lower *L, const Expr *e, const char *name) {
    if (e->as.text) name = e->as.text;
    if (!name) return lower_fail(L, E0301, e->loc, "write (hyper 0.1 as NAME)", "this hyperparameter has no name");
    if (!L->body || !L->body->top) return lower_fail(L, E0215, e->loc, NULL, "a hyperparameter outside a model");
    int i = hyper_index(L->model, name);
    if (i < 0) {
        i = L->model->hypers.n;
        vec_push(L->arena, L->model->hypers, (HyperDecl){name, e->number});
    }
    if (L->model->hypers.at[i].value != e->number)
        return lower_fail(L, E0302, e->loc, "name one of them with `as`",
                          "the hyperparameter '%s' has two default values: %g and %g", name,
                          L->model->hypers.at[i].value, e->number);
    while (L->hypers.n <= i) vec_push(L->scratch, L->hypers, NULL);
    if (!L->hypers.at[i])
        L->hypers.at[i] = t_node(L, OP_HYPER, 0, NULL, &(Attr){.decl = i, .dtype = DT_F32}, DT_F32, shape_scalar());
    return val_tensor(L->hypers.at[i]);
}
