/* Data of a round: all from the seed. */
#include "tools/fusec/verify.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parameters are moved from where init puts them, so that biases of 0 and gains of 1 hide nothing. */
static const double SHIFT = 0.1;

/* splitmix64 (Steele et al., OOPSLA'14). */
double verify_uniform(uint64_t *random) {
    uint64_t z = *random += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

Tensor verify_tensor(Arena *a, const Shape *s, const int64_t *syms) {
    Tensor t = {.rank = s->rank};
    for (int d = 0; d < s->rank; d++) t.dim[d] = dim_at(s->dim[d], syms);
    t.data = ARENA_ARRAY(a, double, tensor_elements(&t) + 1);
    return t;
}

static double draw(const TensorDecl *d, uint64_t *random) {
    const double unit = verify_uniform(random);
    const double lo = d->has_range ? (double)d->lo : 0, hi = d->has_range ? (double)d->hi : 4;
    if (d->dtype == DT_BOOL) return unit < 0.5;
    if (d->dtype == DT_I32) return hi > lo ? lo + floor(unit * (hi - lo)) : lo;
    return scalar_round(d->dtype, d->has_range ? lo + unit * (hi - lo) : 3 * unit - 1.5);
}

static Tensor *draw_list(Arena *a, const TensorDecl *decl, int n, const int64_t *syms, uint64_t *random) {
    Tensor *list = ARENA_ARRAY(a, Tensor, n + 1);
    for (int i = 0; i < n; i++) {
        list[i] = verify_tensor(a, &decl[i].shape, syms);
        const int64_t count = tensor_elements(&list[i]);
        for (int64_t e = 0; e < count; e++) list[i].data[e] = draw(&decl[i], random);
    }
    return list;
}

void verify_advance(Verify *v, Entry e, const Tensor *value) {
    const Graph *g = v->graph[e];
    for (int i = 0; i < g->results.n; i++) {
        const Result *r = &g->results.at[i];
        if (r->kind != RESULT_PARAM && r->kind != RESULT_STATE) continue;
        const bool param = r->kind == RESULT_PARAM;
        Tensor *to = &(param ? v->params : v->states)[r->decl];
        const DType t = (param ? v->model->params.at : v->model->states.at)[r->decl].dtype;
        const Tensor *from = &value[r->value->id];
        for (int64_t k = 0; k < tensor_elements(to); k++) {
            const double x = scalar_round(t, from->data[k]);
            if (isfinite(x)) to->data[k] = x;
        }
    }
}

static double root_mean_square(const Tensor *t) {
    double sum = 0;
    const int64_t n = tensor_elements(t);
    for (int64_t i = 0; i < n; i++) sum += t->data[i] * t->data[i];
    return sqrt(sum / (double)(n > 0 ? n : 1));
}

static void shift(Verify *v) {
    for (int p = 0; p < v->model->params.n; p++) {
        const TensorDecl *d = &v->model->params.at[p];
        const double size = SHIFT * fmax(root_mean_square(&v->params[p]), 1);
        for (int64_t i = 0; dtype_is_float(d->dtype) && i < tensor_elements(&v->params[p]); i++) {
            double *x = &v->params[p].data[i];
            *x = scalar_round(d->dtype, *x + size * (2 * verify_uniform(&v->random) - 1));
        }
    }
}

static void take_given(Tensor *to, const double *const *given, int n) {
    for (int i = 0; i < n; i++)
        if (given[i]) memcpy(to[i].data, given[i], sizeof *to[i].data * (size_t)tensor_elements(&to[i]));
}

void verify_start(Verify *v) {
    const Model *m = v->model;
    const char *error;
    v->hypers = ARENA_ARRAY(v->arena, double, m->hypers.n + 1);
    v->syms = ARENA_ARRAY(v->arena, int64_t, m->syms.n + 1);
    for (int s = 0; s < m->syms.n; s++) v->syms[s] = m->syms.at[s].bound;
    for (int h = 0; h < m->hypers.n; h++) v->hypers[h] = (double)(float)m->hypers.at[h].value;
    v->params = draw_list(v->arena, m->params.at, m->params.n, v->syms, &v->random);
    v->states = draw_list(v->arena, m->states.at, m->states.n, v->syms, &v->random);
    v->env = (EvalEnv){.syms = v->syms,
                       .params = v->params,
                       .states = v->states,
                       .hypers = v->hypers,
                       .step = 1,
                       .seed = (int32_t)v->o->seed};
    if (v->graph[ENTRY_INIT]) {
        Arena *a = arena_new();
        const Tensor *value = graph_eval(a, v->graph[ENTRY_INIT], &v->env, &error);
        if (value) verify_advance(v, ENTRY_INIT, value);
        arena_free(a);
        shift(v);
    }
    take_given(v->params, v->given.params, m->params.n);
    take_given(v->states, v->given.states, m->states.n);
}

/* As --extent or the inputs' shapes have them; others at the bound first, then anywhere below. */
static void draw_extents(Verify *v) {
    const Model *m = v->model;
    const Run *r = verify_open_run(v);
    for (int s = 0; s < m->syms.n; s++) {
        const int64_t bound = m->syms.at[s].bound;
        if (r && v->given.extents[s])
            v->syms[s] = r->syms[s];
        else
            v->syms[s] = v->round == 0 ? bound : 1 + (int64_t)(verify_uniform(&v->random) * (double)bound);
    }
}

void verify_round(Verify *v) {
    const Run *r = verify_open_run(v);
    for (int h = 0; r && h < v->model->hypers.n; h++) v->hypers[h] = (double)r->hypers[h];
    draw_extents(v);
    v->inputs = draw_list(v->scratch, v->model->inputs.at, v->model->inputs.n, v->syms, &v->random);
    take_given(v->inputs, v->given.inputs, v->model->inputs.n);
    v->env.inputs = v->inputs;
    v->env.step = v->round + 1;
}

/* ---- to and from a run's memory ---------------------------------------------------------------------------------- */
static bool put(const Run *r, const ModuleTensor *t, const Tensor *from, void *to) {
    const int64_t n = tensor_elements(from);
    int64_t bad;
    void *dense = malloc((size_t)(n * dtype_bytes(t->dtype)) + 1);
    if (!dense || !element_convert(ELEMENT_F64, (const uint8_t *)from->data, n, t->dtype, dense, &bad)) {
        free(dense);
        return run_error("%s: no room, or a value that its dtype has not", t->name);
    }
    extents_expand(r, t, dense, to);
    free(dense);
    return true;
}

/* With what no result is, but a finite number in each dtype, which --check-finite lets pass. */
static void poison(Run *r) {
    enum { POISON = 0x77 };
    const Module *m = r->m;
    if (r->memory.grads) memset(r->memory.grads, POISON, (size_t)r->memory.grad_bytes);
    for (int i = 0; i < m->outputs.n; i++)
        if (r->outputs[i]) memset(r->outputs[i], POISON, (size_t)m->outputs.at[i].bytes);
}

bool verify_put(const Verify *v, Run *r) {
    const Module *m = r->m;
    bool ok = true;
    for (int s = 0; s < m->syms.n; s++) r->syms[s] = (int32_t)v->syms[s];
    for (int i = 0; i < m->params.n && ok; i++)
        ok = put(r, &m->params.at[i], &v->params[i], (char *)r->memory.params + m->params.at[i].offset);
    for (int i = 0; i < m->states.n && ok; i++)
        ok = put(r, &m->states.at[i], &v->states[i], (char *)r->memory.states + m->states.at[i].offset);
    for (int i = 0; i < m->inputs.n && ok; i++) ok = put(r, &m->inputs.at[i], &v->inputs[i], r->inputs[i]);
    poison(r);
    return ok && run_upload(r);
}

double *verify_get(Arena *a, const Run *r, const ModuleTensor *t, const void *memory) {
    int64_t dim[MAX_RANK];
    const int64_t n = extents_at(r, t->shape, dim);
    const int bytes = dtype_bytes(t->dtype);
    uint8_t *dense = arena_alloc(a, (size_t)(n * bytes) + 1);
    double *x = ARENA_ARRAY(a, double, n + 1);
    extents_gather(r, t, memory, dense);
    for (int64_t i = 0; i < n; i++) x[i] = element_get(element_of(t->dtype), dense + i * bytes);
    return x;
}
