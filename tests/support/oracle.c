#include "tests/support/oracle.h"
#include "tests/support/number.h"
#include <math.h>
#include <string.h>

uint64_t test_random(TestRandom *r) {
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545F4914F6CDD1Du;
}
int test_below(TestRandom *r, int n) { return (int)((test_random(r) >> 33) % (uint64_t)n); }
double test_uniform(TestRandom *r, double lo, double hi) {
    return lo + (hi - lo) * (double)(test_random(r) >> 11) * 0x1p-53;
}

/* ---- tensors -------------------------------------------------------------------------------------- */
static Tensor tensor_of(Arena *a, const Shape *s, const int64_t *syms) {
    Tensor t = {.rank = s->rank};
    for (int d = 0; d < s->rank; d++) t.dim[d] = dim_at(s->dim[d], syms);
    t.data = ARENA_ARRAY(a, double, tensor_elements(&t) + 1);
    return t;
}

/* Element i of the tensor (row-major at run-time extents) in memory that is dense at the bounds. */
static int64_t place_at_bound(const Tensor *t, const Shape *s, int64_t i) {
    int64_t at = 0, stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        at += i % t->dim[d] * stride;
        i /= t->dim[d];
        stride *= s->dim[d].bound;
    }
    return at;
}

static double draw(const TensorDecl *d, TestRandom *r) {
    if (d->dtype == DT_BOOL) return test_below(r, 2);
    if (d->dtype == DT_I32) return d->has_range && d->hi > d->lo ? (double)(d->lo + test_below(r, (int)(d->hi - d->lo))) : test_below(r, 4);
    const bool high = !strncmp(d->name, "high", 4), low = !strncmp(d->name, "low", 3);
    return scalar_round(d->dtype, high ? test_uniform(r, 1, 2) : low ? test_uniform(r, -2, -1) : test_uniform(r, -1.5, 1.5));
}

static Tensor *fill_list(Arena *a, const TensorDecl *decl, int n, const int64_t *syms, TestRandom *r, char **memory) {
    Tensor *list = ARENA_ARRAY(a, Tensor, n + 1);
    for (int i = 0; i < n; i++) {
        list[i] = tensor_of(a, &decl[i].shape, syms);
        for (int64_t j = 0; j < tensor_elements(&list[i]); j++) {
            list[i].data[j] = draw(&decl[i], r);
            number_put(decl[i].dtype, memory[i], place_at_bound(&list[i], &decl[i].shape, j), list[i].data[j]);
        }
    }
    return list;
}

static void *poison(Arena *a, int64_t bytes) {
    char *p = arena_alloc(a, (size_t)bytes + 512);
    p += 256 - (uintptr_t)p % 256; /* what every target asks for */
    memset(p, 0xFF, (size_t)bytes);
    return p;
}

TestData test_data(Arena *a, const Module *m, const Model *model, TestRandom *r) {
    TestData d = {0};
    d.syms = ARENA_ARRAY(a, int64_t, model->syms.n + 1);
    for (int i = 0; i < model->syms.n; i++) d.syms[i] = 1 + test_below(r, (int)model->syms.at[i].bound);
    int64_t arena = 0;
    for (int e = 0; e < ENTRY_COUNT; e++)
        if (m->entry[e].arena_bytes > arena) arena = m->entry[e].arena_bytes;
    d.mem = (ModuleMemory){.params = poison(a, m->param_bytes), .states = poison(a, m->state_bytes),
                           .grads = poison(a, m->grad_bytes), .arena = poison(a, arena)};
    d.mem.scalars = ARENA_ARRAY(a, int32_t, SCALAR_HYPER0 + model->hypers.n + 1);
    d.mem.inputs = ARENA_ARRAY(a, void *, model->inputs.n + 1);
    d.mem.outputs = ARENA_ARRAY(a, void *, model->outputs.n + 1);
    for (int i = 0; i < model->inputs.n; i++) d.mem.inputs[i] = poison(a, m->inputs.at[i].bytes);
    for (int i = 0; i < model->outputs.n; i++) d.mem.outputs[i] = poison(a, m->outputs.at[i].bytes);
    char **at = ARENA_ARRAY(a, char *, model->params.n + model->states.n + 1);
    for (int i = 0; i < model->params.n; i++) at[i] = (char *)d.mem.params + m->params.at[i].offset;
    d.env.params = fill_list(a, model->params.at, model->params.n, d.syms, r, at);
    for (int i = 0; i < model->states.n; i++) at[i] = (char *)d.mem.states + m->states.at[i].offset;
    d.env.states = fill_list(a, model->states.at, model->states.n, d.syms, r, at);
    d.env.inputs = fill_list(a, model->inputs.at, model->inputs.n, d.syms, r, (char **)d.mem.inputs);
    double *hypers = ARENA_ARRAY(a, double, model->hypers.n + 1);
    for (int i = 0; i < model->hypers.n; i++) {
        const float v = (float)model->hypers.at[i].value;
        hypers[i] = v;
        memcpy(&d.mem.scalars[SCALAR_HYPER0 + i], &v, 4);
    }
    d.env.hypers = hypers;
    d.env.syms = d.syms;
    d.env.step = d.mem.scalars[SCALAR_STEP] = 1 + test_below(r, 100);
    d.env.seed = d.mem.scalars[SCALAR_SEED] = test_below(r, 1 << 30);
    return d;
}

static void reread(const TensorDecl *decl, const ModuleTensor *at, int n, const void *memory, const Tensor *to) {
    for (int i = 0; i < n; i++)
        for (int64_t j = 0; j < tensor_elements(&to[i]); j++)
            to[i].data[j] = number_get(decl[i].dtype, (const char *)memory + at[i].offset,
                                       place_at_bound(&to[i], &decl[i].shape, j));
}

void test_data_reread(const Module *m, const Model *model, TestData *d) {
    reread(model->params.at, m->params.at, m->params.n, d->mem.params, d->env.params);
    reread(model->states.at, m->states.at, m->states.n, d->mem.states, d->env.states);
}

/* ---- comparison --------------------------------------------------------------------------------------- */
typedef struct Expected {
    const Result *result;
    Tensor value;
} Expected;

static const void *result_memory(const Module *m, const ModuleMemory *mem, const Result *r, const char **name) {
    switch (r->kind) {
    case RESULT_PARAM: *name = m->params.at[r->decl].name; return (char *)mem->params + m->params.at[r->decl].offset;
    case RESULT_STATE: *name = m->states.at[r->decl].name; return (char *)mem->states + m->states.at[r->decl].offset;
    case RESULT_OUTPUT: *name = m->outputs.at[r->decl].name; return mem->outputs[r->decl];
    default: break;
    }
    *name = m->params.at[r->decl].name;
    for (int i = 0; i < m->grads.n; i++)
        if (!strcmp(m->grads.at[i].name, *name)) return (char *)mem->grads + m->grads.at[i].offset;
    return NULL;
}

static const char *compare_one(Arena *a, const Module *m, const ModuleMemory *mem, const Expected *x, double tolerance) {
    static const char *const kinds[] = {"output", "gradient", "parameter", "state"};
    const char *name = "";
    const Node *n = x->result->value;
    const void *p = result_memory(m, mem, x->result, &name);
    if (!p) return arena_printf(a, "%s %s has no memory", kinds[x->result->kind], name);
    double scale = 1;
    for (int64_t i = 0; i < tensor_elements(&x->value); i++)
        if (isfinite(x->value.data[i]) && fabs(x->value.data[i]) > scale) scale = fabs(x->value.data[i]);
    for (int64_t i = 0; i < tensor_elements(&x->value); i++) {
        const double want = x->value.data[i], got = number_get(n->dtype, p, place_at_bound(&x->value, n->shape, i));
        const bool same = want == got || (isnan(want) && isnan(got)) || fabs(want - got) <= tolerance * (scale + fabs(want));
        if (!same)
            return arena_printf(a, "%s %s[%lld] is %.9g, not %.9g", kinds[x->result->kind], name, (long long)i, got, want);
    }
    return NULL;
}

const char *oracle_compare_values(Arena *a, const Graph *g, const Tensor *values, const Module *m, TestData *d, TestRun run,
                                  const double *tolerance) {
    const char *error = NULL;
    if (!run(a, m, g->entry, &d->mem, d->syms, &error)) return arena_printf(a, "%s: %s", entry_name[g->entry], error);
    for (int i = 0; i < g->results.n; i++) {
        const Expected x = {&g->results.at[i], values[g->results.at[i].value->id]};
        const char *why = tolerance[i] < 0 ? NULL : compare_one(a, m, &d->mem, &x, tolerance[i]);
        if (why) return arena_printf(a, "%s: %s", entry_name[g->entry], why);
    }
    return NULL;
}

const char *oracle_compare(Arena *a, Graph *g, const Module *m, TestData *d, TestRun run, double tolerance) {
    PassContext c = test_context(a, "host");
    const char *error = NULL;
    g = pass_autodiff(&c, g);
    const Tensor *values = graph_eval(a, g, &d->env, &error);
    if (!values) return arena_printf(a, "evaluation: %s", error);
    double *each = ARENA_ARRAY(a, double, g->results.n + 1);
    for (int i = 0; i < g->results.n; i++) each[i] = tolerance;
    return oracle_compare_values(a, g, values, m, d, run, each);
}

static void report(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    (void)user;
    if (what != COMPLAINT_WARNING) fprintf(stderr, "%d:%d: error: %s (%s)\n", loc.line, loc.col, message, help ? help : "");
}

PassContext test_context(Arena *a, const char *target) {
    return (PassContext){.arena = a, .target = target_find(target), .verify = true, .report = report, .print_to = stdout};
}
