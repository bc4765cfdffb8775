/* The gradients of the reference against finite differences of the loss, along random directions, all in float64.  What
 * jumps, and what stop_gradient hides, stays as it is at the point: then the differences are of what the gradient is
 * of. A check of autodiff that knows nothing of it. */
#include "tools/fusec/verify.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const double STEP = 1e-4, TOLERANCE = 1e-6;

typedef struct Differences {
    Verify *v;
    Graph *loss; /* the forward of one loss */
    const Tensor *exact; /* its values at the point */
    bool *keep;          /* of its nodes: the loss */
} Differences;

static bool stays(const Node *n) {
    if (n->op == OP_STOP_GRADIENT || n->op == OP_ARGMAX || n->op == OP_FLOOR || n->op == OP_CEIL || n->op == OP_SIGN)
        return true;
    return n->dtype == DT_BOOL || n->op == OP_BITS || (n->op == OP_CAST && !dtype_is_float(n->dtype));
}

static void hold(void *user, const Node *n, const Tensor *values, const Tensor *out) {
    const Differences *d = user;
    (void)values;
    if (d->exact && stays(n)) memcpy(out->data, d->exact[n->id].data, sizeof(double) * (size_t)tensor_elements(out));
}

static Graph *loss_graph(const Verify *v, const Node *loss) {
    const Graph *g = v->lowered[ENTRY_GRAD];
    Graph *f = graph_new(v->scratch, g->model, ENTRY_INFER);
    for (int i = 0; i < g->nodes.n; i++)
        vec_push(v->scratch, f->nodes, arena_dup(v->scratch, g->nodes.at[i], sizeof(Node)));
    for (int i = 0; i < f->nodes.n; i++) {
        Node *n = f->nodes.at[i];
        n->in = arena_dup(v->scratch, n->in, sizeof *n->in * (size_t)(n->n_in + 1));
        for (int k = 0; k < n->n_in; k++) n->in[k] = f->nodes.at[n->in[k]->id];
    }
    graph_result(f, RESULT_OUTPUT, 0, f->nodes.at[loss->id]);
    graph_prune(f);
    return f;
}

/* The loss with parameter p moved by h along `direction`. */
static double loss_at(Differences *d, int p, const double *direction, double h) {
    Arena *a = arena_new();
    const Verify *v = d->v;
    Tensor *params = arena_dup(a, v->params, sizeof *params * (size_t)v->model->params.n);
    const int64_t n = tensor_elements(&params[p]);
    const char *error;
    EvalEnv env = v->env;
    params[p].data = arena_dup(a, params[p].data, sizeof(double) * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++) params[p].data[i] += h * direction[i];
    env.params = params;
    env.watch = hold;
    env.user = d;
    env.keep = d->keep;
    const Tensor *value = graph_eval(a, d->loss, &env, &error);
    const double loss = value ? value[d->loss->results.at[0].value->id].data[0] : NAN;
    arena_free(a);
    return loss;
}

static double difference(Differences *d, int p, const double *direction, double h) {
    return (loss_at(d, p, direction, h) - loss_at(d, p, direction, -h)) / (2 * h);
}

typedef struct Worst {
    double off;
    int checked, wrong, infinite, without, unsettled; /* parameters; without: their loss has no value to compare */
} Worst;

typedef enum { AGREES, DIFFERS, UNSETTLED, INFINITE } Verdict;

/* Is the step lost in a parameter as large as this one? */
static bool is_lost(const Tensor *param, const double *direction, double h) {
    enum { PARTS = 1000 }; /* of the step, as p + h is rounded */
    double off = 0, step = 0;
    for (int64_t i = 0; i < tensor_elements(param); i++) {
        off = fmax(off, DBL_EPSILON * fabs(param->data[i]));
        step = fmax(step, fabs(h * direction[i]));
    }
    return off * PARTS > step;
}

/* The derivative against differences of shorter and shorter steps: Richardson, two steps give a better value, and how good it is.
 * Where the two are far apart the loss turns within a step, and they say nothing, whether or not it is near what they say. */
static Verdict judge(Differences *d, int p, const double *direction, double along, double scale, double *right) {
    enum { SHORTER = 64, TIMES = 4 };
    const double loss = fabs(d->exact[d->loss->results.at[0].value->id].data[0]);
    double h = STEP;
    for (int i = 0; i < TIMES && !is_lost(&d->v->params[p], direction, h); i++, h /= SHORTER) {
        const double wide = difference(d, p, direction, h), narrow = difference(d, p, direction, h / 2);
        const double noise = 1e-9 * (1 + loss) * fmax(1, STEP / h / SHORTER), unsure = fabs(narrow - wide), found = narrow + (narrow - wide) / 3;
        if (!isfinite(found) || !isfinite(along)) return INFINITE;
        const bool agrees = fabs(along - found) <= TOLERANCE * scale + 2 * unsure + noise;
        const bool settled = unsure <= 0.01 * fabs(agrees ? scale : found) + noise;
        if (!settled) continue;
        *right = found;
        return agrees ? AGREES : DIFFERS;
    }
    return UNSETTLED;
}

static void check(Differences *d, int p, const Tensor *gradient, Worst *w) {
    Verify *v = d->v;
    const int64_t n = tensor_elements(gradient);
    double *direction = ARENA_ARRAY(v->scratch, double, n + 1), along = 0, square = 0;
    for (int64_t i = 0; i < n; i++) {
        direction[i] = (2 * verify_uniform(&v->random) - 1) / sqrt((double)n);
        along += direction[i] * gradient->data[i];
        square += direction[i] * direction[i] * gradient->data[i] * gradient->data[i];
    }
    const double scale = sqrt(square) + fabs(along), loss = fabs(d->exact[d->loss->results.at[0].value->id].data[0]);
    double right = 0;
    const Verdict is = judge(d, p, direction, along, scale, &right);
    w->infinite += is == INFINITE;
    w->unsettled += is == UNSETTLED;
    if (is == INFINITE || is == UNSETTLED) return;
    w->checked++;
    if (scale > 0) w->off = fmax(w->off, fabs(along - right) / fmax(scale, loss * 1e-6));
    if (is == AGREES) return;
    w->wrong++;
    run_error("autodiff: the gradient of %s along a random direction is %.9g, finite differences say %.9g",
              v->model->params.at[p].name, along, right);
}

/* dloss/dparam of the lowered graph. */
static const Node *gradient_node(const Result *r) {
    const Node *n = r->kind == RESULT_GRAD ? r->value : NULL;
    return n && n->op == OP_GRADIENT && n->in[1]->op == OP_PARAM && n->in[0]->shape->rank == 0 ? n : NULL;
}

static bool not_compared(const char *why) {
    printf("  gradients not compared with finite differences: %s\n", why);
    return true;
}

/* Those of the loss that result `first` is a derivative of; the graph that computes them has the values `all`. */
static void check_loss(Verify *v, int first, const Tensor *all, Worst *w) {
    const Graph *g = v->lowered[ENTRY_GRAD], *derived = v->graph[ENTRY_GRAD];
    const Node *loss = gradient_node(&g->results.at[first])->in[0];
    EvalEnv env = v->env;
    const char *error;
    Differences d = {.v = v, .loss = loss_graph(v, loss)};
    d.exact = graph_eval(v->scratch, d.loss, &env, &error);
    d.keep = ARENA_ARRAY(v->scratch, bool, d.loss->nodes.n + 1);
    d.keep[d.loss->results.at[0].value->id] = true;
    for (int i = first; i < g->results.n; i++) {
        const Node *n = gradient_node(&g->results.at[i]);
        if (!n || n->in[0] != loss) continue;
        if (d.exact)
            check(&d, n->in[1]->attr->decl, &all[derived->results.at[i].value->id], w);
        else
            w->without++;
    }
}

static bool is_first_of_loss(const Graph *g, int result) {
    const Node *n = gradient_node(&g->results.at[result]);
    bool first = n != NULL;
    for (int i = 0; i < result && first; i++) {
        const Node *before = gradient_node(&g->results.at[i]);
        first = !before || before->in[0] != n->in[0];
    }
    return first;
}

bool verify_gradients(Verify *v) {
    const Graph *g = v->lowered[ENTRY_GRAD];
    const char *error;
    Worst w = {0};
    if (verify_has_low(g)) return not_compared("values of low precision have none");
    const Tensor *all = graph_eval(v->scratch, v->graph[ENTRY_GRAD], &v->env, &error);
    for (int i = 0; all && i < g->results.n; i++)
        if (is_first_of_loss(g, i)) check_loss(v, i, all, &w);
    if (w.checked && !w.wrong)
        printf("  gradients of %d parameter%s are those of finite differences, to %.1g\n", w.checked, w.checked == 1 ? "" : "s", w.off);
    if (w.without) not_compared(w.checked ? arena_printf(v->scratch, "of %d parameters: their loss holds a derivative", w.without)
                                          : "the loss holds a derivative");
    if (w.unsettled) not_compared(arena_printf(v->scratch, "of %d parameters: the loss turns within the shortest step, or the step is lost in them", w.unsettled));
    if (w.infinite) not_compared(arena_printf(v->scratch, "%d are not finite here", w.infinite));
    v->bad |= w.wrong > 0;
    return true;
}
