#include "tests/support/low_precision.h"
#include "tests/support/noise.h"
#include <math.h>

/* ---- programs ------------------------------------------------------------------------------------------------- */
static DType boundary_dtype(TestRandom *r) { return (DType[]){DT_F32, DT_F32, DT_BF16, DT_F16}[test_below(r, 4)]; }

/* An input of 16 bits is read as f32, as the front end has it; that cast stands right behind it. */
static void narrow_inputs(Arena *a, Graph *g, TestRandom *r) {
    const int n = g->nodes.n, inputs = g->model->inputs.n;
    Node **old = arena_dup(a, g->nodes.at, sizeof *old * (size_t)n), **wide = ARENA_ARRAY(a, Node *, n + 1);
    for (int i = 0; i < inputs; i++)
        if (g->model->inputs.at[i].dtype == DT_F32) g->model->inputs.at[i].dtype = boundary_dtype(r);
    graph_renumber(g);
    g->nodes.n = 0;
    for (int i = 0; i < n; i++) {
        Node *x = wide[i] = old[i];
        for (int k = 0; k < x->n_in; k++) x->in[k] = wide[x->in[k]->id];
        vec_push(a, g->nodes, x);
        if (x->op != OP_INPUT || x->dtype == g->model->inputs.at[x->attr->decl].dtype) continue;
        Attr *at = arena_dup(a, x->attr, sizeof *at);
        x->dtype = at->dtype = g->model->inputs.at[at->decl].dtype;
        x->attr = at;
        wide[i] = graph_cast(g, x, DT_F32);
    }
    for (int i = 0; i < g->results.n; i++) g->results.at[i].value = wide[g->results.at[i].value->id];
}

static void narrow_outputs(Graph *g, TestRandom *r) {
    for (int i = 0; i < g->results.n; i++) {
        Result *x = &g->results.at[i];
        if (x->kind != RESULT_OUTPUT || x->value->dtype != DT_F32) continue;
        const DType t = g->model->outputs.at[x->decl].dtype = boundary_dtype(r);
        const Phase phase = x->value->phase;
        if (t == DT_F32) continue;
        x->value = graph_cast(g, x->value, t);
        x->value->phase = phase;
    }
}

void low_precision(Arena *a, Graph *g, TestRandom *r) {
    const bool by_layer = test_below(r, 3) == 0;
    Precision now = (Precision)(by_layer ? test_below(r, PRECISION_COUNT) : 1 + test_below(r, PRECISION_COUNT - 1));
    narrow_inputs(a, g, r);
    narrow_outputs(g, r);
    graph_renumber(g);
    for (int i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (by_layer && test_below(r, 6) == 0) now = (Precision)test_below(r, PRECISION_COUNT);
        if (op_has_precision(n->op) && n->phase == PHASE_FORWARD) n->precision = now;
    }
}

bool is_low_precision(const Graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->precision != PRECISION_F32 || dtype_is_low(g->nodes.at[i]->dtype)) return true;
    return false;
}

Graph *low_placed(PassContext *c, const Graph *g) {
    Graph *made = arena_dup(c->arena, g, sizeof *made);
    if (!c->disabled[PASS_canonicalize]) made = pass_canonicalize(c, made);
    return pass_precision(c, pass_autodiff(c, pass_precision(c, made)));
}

/* ---- rounding ------------------------------------------------------------------------------------------------- */
double low_unit(const Graph *g) {
    double unit = 0;
    for (int i = 0; i < g->nodes.n; i++)
        if (dtype_is_low(g->nodes.at[i]->dtype)) unit = fmax(unit, rounding_unit(g->nodes.at[i]->dtype));
    return unit;
}

static bool rounds(const Node *n) { return dtype_is_low(n->dtype) && !takes_operand(n->op); }

/* 0 stays: it is no rounded value. */
static void draw_noise(const Noisy *y, const Tensor *values, TestRandom *r) {
    for (int i = 0; i < y->of->nodes.n; i++) {
        const Node *n = y->of->nodes.at[i];
        double *noise = noise_at(y, n);
        for (int64_t e = 0; noise && e < tensor_elements(&values[i]); e++)
            noise[e] = test_uniform(r, -1, 1) * rounding_unit(n->dtype) * fabs(values[i].data[e]);
    }
}

static double farthest(const Tensor *x, const Tensor *y) {
    double most = 0;
    for (int64_t i = 0; i < tensor_elements(x); i++) {
        const double off = fabs(x->data[i] - y->data[i]);
        if (!isfinite(off)) return INFINITY;
        most = fmax(most, off);
    }
    return most;
}

double *low_spread(Arena *a, const Graph *g, const EvalEnv *env, const Tensor *values, TestRandom *r) {
    enum { DRAWS = 3 };
    double *spread = ARENA_ARRAY(a, double, g->results.n + 1);
    const Noisy *y = noisy_graph(a, g, env, values, rounds);
    for (int draw = 0; draw < DRAWS; draw++) {
        const char *error;
        draw_noise(y, values, r);
        const Tensor *moved = noisy_eval(y, &error);
        for (int i = 0; i < g->results.n; i++) {
            const int id = g->results.at[i].value->id;
            spread[i] = fmax(spread[i], moved ? farthest(&values[id], &moved[id]) : INFINITY);
        }
    }
    return spread;
}
