#include "tests/support/low_precision.h"
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
static double unit_of(DType t) {
    switch (t) {
    case DT_BF16: return 0x1p-8;
    case DT_F16:
    case DT_TF32: return 0x1p-11;
    default: return 0;
    }
}

double low_unit(const Graph *g) {
    double unit = 0;
    for (int i = 0; i < g->nodes.n; i++) unit = fmax(unit, unit_of(g->nodes.at[i]->dtype));
    return unit;
}

bool takes_operand(Op op) {
    switch (op) {
    case OP_NEG:
    case OP_ABS:
    case OP_MAX:
    case OP_MIN:
    case OP_SELECT:
    case OP_RMAX:
    case OP_RMIN:
    case OP_GATHER:
    case OP_STOP_GRADIENT: return true;
    default: return op_info[op].cls == CLASS_SOURCE || op_info[op].cls == CLASS_MOVE;
    }
}

static bool rounds(const Node *n) { return dtype_is_low(n->dtype) && !takes_operand(n->op); }

typedef struct Noise {
    const Tensor *of; /* the values that it is added to */
    DType dtype;
    int input; /* of the environment */
} Noise;

typedef struct Noisy {
    Arena *a;
    Graph *g;
    VEC(Noise) noise;
    VEC(Tensor) inputs;
} Noisy;

/* x plus a new input, in x's dtype. */
static Node *with_noise(Noisy *y, Node *x, const Tensor *value) {
    const Attr at = {.dtype = DT_F32, .decl = y->inputs.n};
    Tensor t = *value;
    t.data = ARENA_ARRAY(y->a, double, tensor_elements(value) + 1);
    vec_push(y->a, y->inputs, t);
    vec_push(y->a, y->noise, (Noise){value, x->dtype, at.decl});
    Node *noise = graph_node(y->g, OP_INPUT, 0, NULL, &at, DT_F32, x->shape);
    return graph_cast(y->g, graph_binary(y->g, OP_ADD, graph_cast(y->g, x, DT_F32), noise), x->dtype);
}

static void make_noisy(Noisy *y, const Graph *g, const EvalEnv *env, const Tensor *values) {
    Node **copy = ARENA_ARRAY(y->a, Node *, g->nodes.n);
    for (int i = 0; i < g->model->inputs.n; i++) vec_push(y->a, y->inputs, env->inputs[i]);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        Node **in = ARENA_ARRAY(y->a, Node *, n->n_in + 1);
        for (int k = 0; k < n->n_in; k++) in[k] = copy[n->in[k]->id];
        copy[i] = graph_node(y->g, n->op, n->n_in, in, n->attr, n->dtype, n->shape);
        if (rounds(n)) copy[i] = with_noise(y, copy[i], &values[i]);
    }
    for (int i = 0; i < g->results.n; i++) {
        const Result *r = &g->results.at[i];
        graph_result(y->g, r->kind, r->decl, copy[r->value->id]);
    }
    graph_renumber(y->g);
}

/* 0 stays: it is no rounded value. */
static void draw_noise(Noisy *y, TestRandom *r) {
    for (int k = 0; k < y->noise.n; k++) {
        const Noise *x = &y->noise.at[k];
        for (int64_t i = 0; i < tensor_elements(x->of); i++)
            y->inputs.at[x->input].data[i] = test_uniform(r, -1, 1) * unit_of(x->dtype) * fabs(x->of->data[i]);
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
    Noisy y = {.a = a, .g = graph_new(a, g->model, g->entry)};
    make_noisy(&y, g, env, values);
    EvalEnv noisy = *env;
    noisy.inputs = y.inputs.at;
    for (int draw = 0; draw < DRAWS; draw++) {
        const char *error;
        draw_noise(&y, r);
        const Tensor *moved = graph_eval(a, y.g, &noisy, &error);
        for (int i = 0; i < g->results.n; i++) {
            const Tensor *value = &values[g->results.at[i].value->id];
            const double off = moved ? farthest(value, &moved[y.g->results.at[i].value->id]) : INFINITY;
            spread[i] = fmax(spread[i], off);
        }
    }
    return spread;
}
