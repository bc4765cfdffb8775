/* float64 reference evaluation: the meaning of a graph, written to be read rather than fast.
 * Integers are exact in double; f32 and f64 values are not rounded, those of f16, bf16 and tf32 are after every op: a
 * contraction's sum once. */
#include "ir/eval.h"
#include <string.h>

#define MAX_EVAL_ELEMENTS ((int64_t)1 << 28) /* past this a tensor is refused: 2 GiB of doubles */

int64_t tensor_elements(const Tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->dim[d];
    return n;
}

void tensor_strides(const Tensor *t, int64_t *stride) {
    int64_t s = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        stride[d] = s;
        s *= t->dim[d];
    }
}

bool tensor_next(const Tensor *t, int64_t *index) {
    for (int d = t->rank - 1; d >= 0; d--) {
        if (++index[d] < t->dim[d]) return true;
        index[d] = 0;
    }
    return false;
}

/* ---- sources ------------------------------------------------------------------------------- */

static void eval_given(EvalNode *e, const Tensor *given, const char *what) {
    const Tensor *t = given ? &given[e->node->attr->decl] : NULL;
    bool fits = t && t->data && t->rank == e->out->rank;
    for (int d = 0; fits && d < t->rank; d++) fits = t->dim[d] == e->out->dim[d];
    if (fits) {
        memcpy(e->out->data, t->data, sizeof(double) * (size_t)tensor_elements(t));
    } else {
        e->error = arena_printf(e->arena, "%s %d is missing or has another shape", what, e->node->attr->decl);
    }
}

static void fill(const Tensor *out, double value) {
    int64_t n = tensor_elements(out);
    for (int64_t i = 0; i < n; i++) out->data[i] = value;
}

static void eval_iota(EvalNode *e) {
    int64_t index[MAX_RANK] = {0}, n = tensor_elements(e->out);
    for (int64_t i = 0; i < n; i++) {
        e->out->data[i] = (double)index[e->node->attr->axis];
        tensor_next(e->out, index);
    }
}

static void eval_random(EvalNode *e) {
    const Shape *s = e->node->shape;
    int64_t index[MAX_RANK] = {0}, n = tensor_elements(e->out);
    uint32_t seed = (uint32_t)(int64_t)e->in[0]->data[0], step = (uint32_t)(int64_t)e->in[1]->data[0];
    for (int64_t i = 0; i < n; i++) {
        int64_t linear = 0; /* in the layout at the bound */
        for (int d = 0; d < s->rank; d++) linear = linear * s->dim[d].bound + index[d];
        e->out->data[i] = scalar_philox(seed, step, (uint32_t)e->node->attr->stream, (uint32_t)linear);
        tensor_next(e->out, index);
    }
}

static void eval_source(EvalNode *e) {
    const Attr *attr = e->node->attr;
    switch (e->node->op) {
    case OP_PARAM: eval_given(e, e->env->params, "parameter"); break;
    case OP_STATE: eval_given(e, e->env->states, "state"); break;
    case OP_INPUT: eval_given(e, e->env->inputs, "input"); break;
    case OP_HYPER:
        if (e->env->hypers) {
            fill(e->out, e->env->hypers[attr->decl]);
        } else {
            e->error = "no hyperparameters given";
        }
        break;
    case OP_STEP: fill(e->out, (double)(int32_t)e->env->step); break;
    case OP_SEED: fill(e->out, (double)(int32_t)e->env->seed); break;
    case OP_ACCUMULATE: fill(e->out, e->env->accumulate); break;
    case OP_EXTENT: fill(e->out, (double)dim_at(attr->extent, e->env->syms)); break;
    case OP_CONST: fill(e->out, attr->value); break;
    case OP_IOTA: eval_iota(e); break;
    case OP_RANDOM: eval_random(e); break;
    default: e->error = "unknown source"; break;
    }
}

/* ---- elementwise, special, all -------------------------------------------------------------- */

/* The dtype an elementwise node computes in: that of its data operands, or a cast's target. */
static DType computes_in(const Node *n) {
    if (n->op == OP_CAST) return n->dtype;
    return n->in[n->op == OP_SELECT ? 1 : 0]->dtype;
}

static void eval_element(EvalNode *e) {
    DType t = computes_in(e->node);
    int64_t n = tensor_elements(e->out);
    const double *x[4] = {0};
    for (int k = 0; k < e->node->n_in; k++) x[k] = e->in[k]->data;
    scalar_op_all(e->node->op, t, n, x, e->out->data);
}

static void eval_special(EvalNode *e) {
    if (e->node->op == OP_STOP_GRADIENT) {
        memcpy(e->out->data, e->in[0]->data, sizeof(double) * (size_t)tensor_elements(e->out));
    } else {
        e->error =
            arena_printf(e->arena, "%%%d: %s has no value before autodiff", e->node->id, op_info[e->node->op].text);
    }
}

static void (*const eval_class[])(EvalNode *) = {
    [CLASS_SOURCE] = eval_source,   [CLASS_ELEMENT] = eval_element,   [CLASS_MOVE] = eval_move,
    [CLASS_REDUCE] = eval_reduce,   [CLASS_CONTRACT] = eval_contract, [CLASS_INDEXED] = eval_indexed,
    [CLASS_SPECIAL] = eval_special,
};

/* ---- memory: of what is not kept it goes to nodes of the same size -------------------------------------------- */
typedef struct Spare {
    double *data;
    int64_t elements;
} Spare;

typedef struct Spares {
    Arena *arena;
    int *last; /* by id: the last node that reads it, or itself; NULL: all are kept */
    VEC(Spare) free;
} Spares;

static void find_last(Spares *m, const Graph *g) {
    m->last = ARENA_ARRAY(m->arena, int, g->nodes.n + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        m->last[i] = i;
        for (int k = 0; k < n->n_in; k++) m->last[n->in[k]->id] = i;
    }
}

static double *take_zeros(Spares *m, int64_t elements) {
    for (int i = m->free.n - 1; i >= 0; i--) {
        double *data = m->free.at[i].data;
        if (m->free.at[i].elements != elements) continue;
        m->free.at[i] = m->free.at[--m->free.n];
        return memset(data, 0, sizeof *data * (size_t)elements);
    }
    return ARENA_ARRAY(m->arena, double, elements);
}

static void release(Spares *m, const EvalEnv *env, int id, Tensor *t) {
    if (env->keep[id] || !t->data) return;
    const int64_t elements = tensor_elements(t);
    vec_push(m->arena, m->free, ((Spare){t->data, elements + !elements}));
    t->data = NULL;
}

/* After node n. */
static void release_used(Spares *m, const EvalEnv *env, const Node *n, Tensor *value) {
    for (int k = 0; m->last && k < n->n_in; k++)
        if (m->last[n->in[k]->id] == n->id) release(m, env, n->in[k]->id, &value[n->in[k]->id]);
    if (m->last && m->last[n->id] == n->id) release(m, env, n->id, &value[n->id]);
}

/* Zeros of the run-time shape; false when too large.  A negative run-time extent counts as none. */
static bool make_tensor(Spares *m, const Shape *s, const int64_t *syms, Tensor *t) {
    int64_t n = 1;
    bool empty = false;
    t->rank = s->rank;
    for (int d = 0; d < s->rank; d++) {
        int64_t extent = dim_at(s->dim[d], syms);
        t->dim[d] = extent < 0 ? 0 : extent;
        empty |= t->dim[d] == 0;
    }
    for (int d = 0; d < s->rank && !empty; d++) {
        if (__builtin_mul_overflow(n, t->dim[d], &n) || n > MAX_EVAL_ELEMENTS) return false;
    }
    t->data = take_zeros(m, empty ? 1 : n);
    return true;
}

static void round_low(const Node *n, const Tensor *t) {
    if (!dtype_is_low(n->dtype)) return;
    const int64_t count = tensor_elements(t);
    for (int64_t i = 0; i < count; i++) t->data[i] = scalar_round(n->dtype, t->data[i]);
}

Tensor *graph_eval(Arena *a, const Graph *g, const EvalEnv *env, const char **error) {
    *error = NULL;
    Tensor *value = ARENA_ARRAY(a, Tensor, g->nodes.n);
    Spares m = {.arena = a};
    if (env->keep) find_last(&m, g);
    for (int i = 0; i < g->nodes.n && !*error; i++) {
        const Node *n = g->nodes.at[i];
        EvalNode e = {.arena = a, .node = n, .env = env, .values = value, .out = &value[i]};
        for (int k = 0; k < n->n_in && k < 4; k++) e.in[k] = &value[n->in[k]->id];
        if (make_tensor(&m, n->shape, env->syms, e.out)) {
            eval_class[op_info[n->op].cls](&e);
            round_low(n, e.out);
            if (env->watch && !e.error) env->watch(env->user, n, value, e.out);
            release_used(&m, env, n, value);
        } else {
            e.error = arena_printf(a, "%%%d: too many elements to evaluate", i);
        }
        *error = e.error;
    }
    return *error ? NULL : value;
}
