/* gpu_expect DIR float64|host ENTRIES MODEL.dsl [NAME=VALUE ...]: what a model must compute on the GPU.
 *
 * Writes DIR/ENTRY.numbers for init and each of ENTRIES (infer,grad,step): outputs, `grad/PATH`, and after init and
 * step `param/PATH` and `state/PATH`.  Inputs are those of numbers_draw(), parameters and states those that entry init
 * of the host back end leaves (seed 0).  `float64` evaluates the graph before any pass but autodiff; `host` runs the
 * host back end.  What rounding may change is seen by running the host back end again, with every
 * parameter a little off: by half a unit in the last of 8 bits where products are in f16, bf16 or tf32, since such a
 * program may round once more or less on another target (a stream does not round a product that is widened at once).
 * With float64 the file of init is whole, for the GPU to start from the very same values. */
#include "bench/gpu/numbers.h"
#include "tools/fusec/manifest.h"
#include "tools/fusec/run.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Expect {
    Run run;
    const fusec_manifest *manifest;
    const char *dir;
    bool float64, low; /* low: of products in f16, bf16 or tf32 */
    Graph *graph[ENTRY_COUNT]; /* float64: with derivatives */
    Options options;
    Arena *arena;
} Expect;

typedef VEC(Numbers) Results;

/* How many elements of a tensor may be stored before samples stand for them. */
static uint64_t whole_of(const Expect *x) { return x->float64 ? NUMBERS_WHOLE : NUMBERS_SAMPLES; }

typedef struct Source {
    const fusec_tensor *t;
    const void *data;
} Source;

static double typed(const void *user, uint64_t i) {
    const Source *s = user;
    return numbers_get(s->t, s->data, i);
}
static double from_double(const void *user, uint64_t i) { return ((const double *)user)[i]; }

static void add(Expect *x, Results *to, const char *prefix, const fusec_tensor *t, const void *data, uint64_t whole) {
    const Source s = {t, data};
    Numbers n;
    numbers_take(&n, arena_printf(x->arena, "%s%s", prefix, t->name), numbers_count(t), whole, typed, &s);
    vec_push(x->arena, *to, n);
}

static void add_weights(Expect *x, Results *to, uint64_t whole) {
    const fusec_manifest *m = x->manifest;
    for (uint32_t i = 0; i < m->n_params; i++)
        add(x, to, "param/", &m->params[i], (char *)x->run.memory.params + m->params[i].offset, whole);
    for (uint32_t i = 0; i < m->n_states; i++)
        add(x, to, "state/", &m->states[i], (char *)x->run.memory.states + m->states[i].offset, whole);
}

static bool write_results(const Expect *x, const char *entry, const Results *r) {
    const char *path = arena_printf(x->arena, "%s/%s.numbers", x->dir, entry);
    FILE *f = fopen(path, "wb");
    bool ok = f != NULL;
    for (int i = 0; i < r->n && ok; i++) ok = r->at[i].value && numbers_write(f, &r->at[i]);
    if (f && fclose(f) != 0) ok = false;
    if (!ok) fprintf(stderr, "gpu_expect: %s cannot be written\n", path);
    return ok;
}

static void drop(Results *r) {
    for (int i = 0; i < r->n; i++) free(r->at[i].value);
    r->n = 0;
}

/* ---- the host back end ------------------------------------------------------------------------------------------ */
/* The first of them moves every third element down, and the others up; the second likewise every fourth .. */
static void disturb(const Expect *x, int draw) {
    const double off = x->low ? 0x1p-9 : 0x1p-22;
    for (uint32_t i = 0; i < x->manifest->n_params; i++) {
        const fusec_tensor *t = &x->manifest->params[i];
        float *v = (float *)(void *)((char *)x->run.memory.params + t->offset);
        if (t->dtype != FUSEC_F32) continue;
        for (uint64_t k = 0; k < numbers_count(t); k++) v[k] = (float)((double)v[k] * (1 + (k % (uint64_t)(2 + draw) ? off : -off)));
    }
}

/* draw: 0: as it is, else which disturbance */
static bool run_host(Expect *x, Entry e, int draw, Results *r) {
    const fusec_manifest *m = x->manifest;
    if (!run_init(&x->run)) return false;
    if (draw) disturb(x, draw);
    if (!run_call(&x->run, e, 1, false)) return false;
    for (uint32_t o = 0; o < m->n_outputs; o++) add(x, r, "", &m->outputs[o], x->run.outputs[o], whole_of(x));
    for (uint32_t i = 0; i < m->n_grads && e == ENTRY_GRAD; i++)
        add(x, r, "grad/", &m->grads[i], (char *)x->run.memory.grads + m->grads[i].offset, whole_of(x));
    if (e == ENTRY_STEP) add_weights(x, r, whole_of(x));
    return true;
}

/* What the disturbance changed in the tensor called as n, over |n|. */
static double noise_of(const Results *base, const Results *disturbed, const Numbers *n) {
    for (int i = 0; i < base->n; i++) {
        if (strcmp(base->at[i].name, n->name) != 0) continue;
        const double changed = numbers_distance(&base->at[i], &disturbed->at[i]), size = numbers_distance(n, NULL);
        return changed > 0 ? changed / (size > 1e-30 ? size : 1e-30) : 0;
    }
    return 0;
}

/* ---- float64 ----------------------------------------------------------------------------------------------------- */
static void silent(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    (void)user, (void)loc, (void)help;
    if (what != COMPLAINT_WARNING) fprintf(stderr, "gpu_expect: %s\n", message);
}

static bool has_low(const Graph *g) {
    for (int i = 0; g && i < g->nodes.n; i++)
        if (g->nodes.at[i]->precision != PRECISION_F32) return true;
    return false;
}

/* Graphs of their own: the compiled ones have been rewritten. */
static bool open_graphs(Expect *x) {
    static Session s; /* large */
    PassContext c = {.arena = x->arena, .target = target_find("host"), .report = silent, .print_to = stdout};
    if (!session_open(&s, x->arena, &x->options)) return false;
    for (int e = 0; e < ENTRY_COUNT; e++) {
        x->low |= has_low(s.graph[e]);
        if (s.graph[e] && x->float64) x->graph[e] = pass_autodiff(&c, s.graph[e]);
    }
    return !c.failed;
}

static Tensor *tensors(Arena *a, const fusec_tensor *t, uint32_t n, void *const *at) {
    Tensor *list = ARENA_ARRAY(a, Tensor, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t count = numbers_count(&t[i]);
        list[i].rank = t[i].rank;
        for (int d = 0; d < t[i].rank; d++) list[i].dim[d] = t[i].dim[d];
        list[i].data = ARENA_ARRAY(a, double, count + 1);
        for (uint64_t k = 0; k < count; k++) list[i].data[k] = numbers_get(&t[i], at[i], k);
    }
    return list;
}

static void **addresses(Arena *a, const fusec_tensor *t, uint32_t n, void *block) {
    void **at = ARENA_ARRAY(a, void *, n + 1);
    for (uint32_t i = 0; i < n; i++) at[i] = (char *)block + t[i].offset;
    return at;
}

static EvalEnv environment(const Expect *x, Arena *a) {
    const fusec_manifest *m = x->manifest;
    int64_t *syms = ARENA_ARRAY(a, int64_t, m->n_syms + 1);
    double *hypers = ARENA_ARRAY(a, double, m->n_hypers + 1);
    for (uint32_t i = 0; i < m->n_syms; i++) syms[i] = m->syms[i].bound;
    for (uint32_t i = 0; i < m->n_hypers; i++) hypers[i] = m->hypers[i].value;
    return (EvalEnv){
        .syms = syms,
        .hypers = hypers,
        .step = 1,
        .params = tensors(a, m->params, m->n_params, addresses(a, m->params, m->n_params, x->run.memory.params)),
        .states = tensors(a, m->states, m->n_states, addresses(a, m->states, m->n_states, x->run.memory.states)),
        .inputs = tensors(a, m->inputs, m->n_inputs, x->run.inputs)};
}

static const char *result_name(const Expect *x, const Model *model, const Result *r) {
    static const char *const prefix[] = {
        [RESULT_OUTPUT] = "", [RESULT_GRAD] = "grad/", [RESULT_PARAM] = "param/", [RESULT_STATE] = "state/"};
    const char *name = r->kind == RESULT_OUTPUT  ? x->manifest->outputs[r->decl].name
                       : r->kind == RESULT_STATE ? model->states.at[r->decl].name
                                                 : model->params.at[r->decl].name;
    return arena_printf(x->arena, "%s%s", prefix[r->kind], name);
}

/* Results of an entry; a parameter or a state that it leaves alone has none. */
static bool run_float64(Expect *x, Entry e, Results *r) {
    const Graph *g = x->graph[e];
    Arena *a = arena_new();
    const char *error = NULL;
    const bool restored = run_init(&x->run);
    const EvalEnv env = environment(x, a);
    const Tensor *value = restored ? graph_eval(a, g, &env, &error) : NULL;
    if (!value) fprintf(stderr, "gpu_expect: %s\n", error ? error : "init failed");
    for (int i = 0; value && i < g->results.n; i++) {
        const Tensor *v = &value[g->results.at[i].value->id];
        Numbers n;
        numbers_take(&n, result_name(x, g->model, &g->results.at[i]), (uint64_t)tensor_elements(v), whole_of(x),
                     from_double, v->data);
        vec_push(x->arena, *r, n);
    }
    arena_free(a);
    return value != NULL;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
static bool open_model(Expect *x, const bool entries[ENTRY_COUNT]) {
    if (!run_open(&x->run, x->arena, &x->options, entries) || !run_allocate(&x->run, entries)) return false;
    x->manifest = manifest_of(x->arena, x->run.m);
    if (!x->manifest) return false;
    for (uint32_t i = 0; i < x->manifest->n_inputs; i++)
        numbers_draw(&x->manifest->inputs[i], x->run.inputs[i], numbers_count(&x->manifest->inputs[i]));
    return run_init(&x->run) && open_graphs(x);
}

static bool expect_init(Expect *x) {
    Results r = {0};
    add_weights(x, &r, x->float64 ? UINT64_MAX : whole_of(x));
    const bool ok = write_results(x, entry_name[ENTRY_INIT], &r);
    drop(&r);
    return ok;
}

/* A matrix unit truncates each sum of a few products, always towards zero: a bias of about 2^-16 in a sum over thousands
 * (288 truncations in the last place), which grows with the depth of the model.  The loss of ResNet-50 in bf16 was off by
 * 4.4e-4 on an H200, by mma.sync and by wgmma alike. */
static const double LOW_NOISE = 0x1p-14;
/* Disturbances are draws of what rounding may do: as in `fusec verify`, four times the most that one of a few does is allowed. */
static const double LOW_SAFETY = 4;
enum { LOW_DRAWS = 4 };

/* In each result's noise the most that a disturbance changed it by. */
static bool find_noise(Expect *x, Entry e, const Results *base, Results *r) {
    const int draws = x->low ? LOW_DRAWS : 1;
    bool ok = true;
    for (int i = 0; i < r->n; i++) r->at[i].noise = x->low ? LOW_NOISE : 0;
    for (int draw = 1; draw <= draws && ok; draw++) {
        Results disturbed = {0};
        ok = run_host(x, e, draw, &disturbed);
        for (int i = 0; i < r->n && ok; i++) {
            const double change = noise_of(base, &disturbed, &r->at[i]);
            r->at[i].noise = fmax(r->at[i].noise, x->low ? LOW_SAFETY * change / NUMBERS_NOISE : change);
        }
        drop(&disturbed);
    }
    return ok;
}

static bool expect_entry(Expect *x, Entry e) {
    Results base = {0}, exact = {0};
    bool ok = run_host(x, e, 0, &base) && (!x->float64 || run_float64(x, e, &exact));
    Results *r = x->float64 ? &exact : &base;
    ok = ok && find_noise(x, e, &base, r) && write_results(x, entry_name[e], r);
    drop(&base), drop(&exact);
    return ok;
}

static bool expect_all(Expect *x, const bool entries[ENTRY_COUNT]) {
    bool ok = open_model(x, entries) && expect_init(x);
    for (int e = ENTRY_INFER; e <= ENTRY_STEP && ok; e++)
        if (entries[e]) ok = expect_entry(x, (Entry)e);
    return ok;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: gpu_expect DIR float64|host infer,grad,step MODEL.dsl [NAME=VALUE ...]\n");
        return 2;
    }
    static Expect x;
    bool entries[ENTRY_COUNT] = {false};
    x.arena = arena_new();
    x.dir = argv[1];
    x.float64 = !strcmp(argv[2], "float64");
    x.options = (Options){.input = argv[4], .run_entry = ENTRY_COUNT};
    for (int e = ENTRY_INFER; e <= ENTRY_STEP; e++) entries[e] = strstr(argv[3], entry_name[e]) != NULL;
    for (int i = 5; i < argc; i++) {
        char *eq = strchr(argv[i], '=');
        if (!eq) return 2;
        *eq = 0;
        const Override o = {.name = argv[i], .value = eq + 1};
        vec_push(x.arena, x.options.overrides, o);
    }
    const bool ok = expect_all(&x, entries);
    run_close(&x.run);
    arena_free(x.arena);
    return !ok;
}
