#include "tests/support/noise.h"

double rounding_unit(DType t) {
    switch (t) {
    case DT_BF16: return 0x1p-8;
    case DT_F16:
    case DT_TF32: return 0x1p-11;
    case DT_F32: return 0x1p-24;
    default: return 0;
    }
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
    case OP_SCATTER_MAX:
    case OP_STOP_GRADIENT: return true;
    default: return op_info[op].cls == CLASS_SOURCE || op_info[op].cls == CLASS_MOVE;
    }
}

/* x plus a new input, in x's dtype. */
static Node *with_noise(Noisy *y, Node *x, const Tensor *value) {
    const Attr at = {.dtype = DT_F32, .decl = y->inputs.n};
    Tensor t = *value;
    t.data = ARENA_ARRAY(y->arena, double, tensor_elements(value) + 1);
    vec_push(y->arena, y->inputs, t);
    Node *noise = graph_node(y->g, OP_INPUT, 0, NULL, &at, DT_F32, *x->shape);
    return graph_cast(y->g, graph_binary(y->g, OP_ADD, graph_cast(y->g, x, DT_F32), noise), x->dtype);
}

Noisy *noisy_graph(Arena *a, const Graph *of, const EvalEnv *env, const Tensor *values, bool has_noise(const Node *)) {
    Noisy *y = ARENA_NEW(a, Noisy);
    *y = (Noisy){.arena = a, .of = of, .g = graph_new(a, of->model, of->entry), .env = *env};
    y->copy = ARENA_ARRAY(a, Node *, of->nodes.n + 1);
    y->input = ARENA_ARRAY(a, int, of->nodes.n + 1);
    for (int i = 0; i < of->model->inputs.n; i++) vec_push(a, y->inputs, env->inputs[i]);
    for (int i = 0; i < of->nodes.n; i++) {
        const Node *n = of->nodes.at[i];
        Node **in = ARENA_ARRAY(a, Node *, n->n_in + 1);
        for (int k = 0; k < n->n_in; k++) in[k] = y->copy[n->in[k]->id];
        y->copy[i] = graph_node(y->g, n->op, n->n_in, in, n->attr, n->dtype, *n->shape);
        y->input[i] = has_noise(n) ? y->inputs.n : -1;
        if (y->input[i] >= 0) y->copy[i] = with_noise(y, y->copy[i], &values[i]);
    }
    graph_renumber(y->g);
    y->env.inputs = y->inputs.at;
    return y;
}

double *noise_at(const Noisy *y, const Node *n) {
    return y->input[n->id] < 0 ? NULL : y->inputs.at[y->input[n->id]].data;
}

Tensor *noisy_eval(const Noisy *y, const char **error) {
    const Tensor *all = graph_eval(y->arena, y->g, &y->env, error);
    if (!all) return NULL;
    Tensor *values = ARENA_ARRAY(y->arena, Tensor, y->of->nodes.n + 1);
    for (int i = 0; i < y->of->nodes.n; i++) values[i] = all[y->copy[i]->id];
    return values;
}
