#include "tests/support/differential.h"
#include "tests/support/low_precision.h"
#include "tests/support/settled.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In f32.  Results of low dtypes may be a unit in the last place apart, and what is made of them twice as far as
 * low_spread finds them to move; where that is more than a part of their size, they say nothing. */
static const double TOLERANCE = 1e-4, WIDEST_SPREAD = 0.25;

/* ---- the set -------------------------------------------------------------------------------------------------- */
static const Entry entries[] = {ENTRY_INFER, ENTRY_GRAD, ENTRY_STEP};

static int directed_before(int programs) { return programs / 10 * 7 + (programs % 10 < 7 ? programs % 10 : 7); }

TrialSet *trial_set(int programs, uint64_t seed) {
    Arena *a = arena_new();
    TrialSet *s = ARENA_NEW(a, TrialSet);
    *s = (TrialSet){.arena = a,
                    .programs = programs,
                    .seed = seed,
                    .directed = directed_set(a, directed_before(programs), seed),
                    .coverage = ARENA_NEW(a, Coverage)};
    return s;
}

void trial_set_free(TrialSet *s) { arena_free(s->arena); }

/* Half of the programs go through all passes. */
static void draw_passes(Trial *t, TestRandom *r) {
    if (test_below(r, 2)) return;
    for (int p = 0; p < PASS_COUNT; p++) t->disabled[p] = pass_info[p].can_disable && test_below(r, 4) == 0;
}

Trial trial_next(TrialSet *s, Arena *a) {
    const int i = s->made++;
    const uint64_t drawn = (s->seed << 32) + (uint64_t)i;
    Coverage *c = s->coverage;
    Trial t = {.number = i, .tally = &s->tally};
    TestRandom r = {(drawn + 1) * 0x9E3779B97F4A7C15u};
    for (int k = 0; k < 8; k++) test_random(&r); /* neighbouring numbers apart */
    RandomOptions o = {
        .ops = 4 + test_below(&r, 22), .bounded = test_below(&r, 4) == 0, .empty = test_below(&r, 5) == 0};
    draw_passes(&t, &r);
    t.checkpoint = test_below(&r, 4) == 0 ? CHECKPOINT_SQRT : CHECKPOINT_NONE;
    if (test_below(&r, 3) == 0) t.max_tile = 64 << test_below(&r, 5);
    o.tall = i % 10 == 9;
    o.low = o.tall || test_below(&r, i % 10 < 7 ? 3 : 2) == 0;
    o.products = i % 10 >= 7 && o.low ? 1 + test_below(&r, 3) : 0;
    t.graph =
        i % 10 < 7 ? directed_next(s->directed, a, entries[i % 3], o) : random_graph(a, entries[i % 3], drawn, o);
    t.graph->model->name = arena_printf(a, "p%d", i);
    coverage_count(c, t.graph);
    for (int p = 0; p < PASS_COUNT; p++) c->disabled[p] += t.disabled[p];
    c->checkpointed += t.checkpoint != CHECKPOINT_NONE && !t.disabled[PASS_checkpoint] && t.graph->entry != ENTRY_INFER;
    c->tiny += t.max_tile > 0;
    c->bounded += o.bounded;
    c->empty += o.empty;
    c->low += o.low;
    return t;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
static const char *graph_text(Arena *a, const Graph *g) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    graph_print(f, g);
    fclose(f);
    const char *copy = arena_strdup(a, text);
    free(text);
    return copy;
}

typedef struct Refusal {
    Arena *arena;
    const char *message;
} Refusal;

static void refuse(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    Refusal *r = user;
    (void)loc, (void)help;
    if (what != COMPLAINT_WARNING && !r->message) r->message = arena_strdup(r->arena, message);
}

Module *trial_compile(Arena *a, const Trial *t, const char *target, uint32_t *fired, const char **why) {
    Refusal refusal = {.arena = a};
    PassContext c = test_context(a, target);
    Target tiny = *c.target;
    if (t->max_tile) tiny.max_tile = tiny.device->is_gpu ? 512 : t->max_tile;
    if (t->max_tile) c.target = &tiny;
    c.checkpoint = t->checkpoint;
    c.stream_all = t->number % 8 > 0;
    c.stream_low = t->number % 6 == 1;
    c.chunk_all = t->number % 3 == 1;
    c.recompute_all = t->number / 8 % 8 == 1;
    c.bucket_all = t->number % 2;
    c.placing = t->placing;
    memcpy(c.disabled, t->disabled, sizeof c.disabled);
    c.fired = fired;
    c.report = refuse;
    c.user = &refusal;
    Graph *graphs[ENTRY_COUNT] = {0}, *g = graph_parse(a, graph_text(a, t->graph), why);
    if (!g) return NULL;
    graphs[g->entry] = g;
    Module *m = compile_module(&c, graphs);
    *why = refusal.message;
    return m;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */
static bool is_finite(const Tensor *t) {
    for (int64_t e = 0; e < tensor_elements(t); e++)
        if (!isfinite(t->data[e])) return false;
    return true;
}

/* f16 may overflow. */
static bool is_finite_program(const Graph *g, const Tensor *values, const char **why, Arena *a) {
    for (int i = 0; i < g->results.n && low_unit(g) == 0; i++) {
        if (is_finite(&values[g->results.at[i].value->id])) continue;
        *why = arena_printf(a, "the generator's fault: result %d is not finite", i);
        return false;
    }
    return true;
}

enum { DRAWS = 20 };

static TestData data_of(Arena *a, const Trial *t, const Module *m, int draw) {
    TestRandom r = {((uint64_t)t->number * DRAWS + (uint64_t)draw + 1) * 0x9E3779B97F4A7C15u};
    return test_data(a, m, t->graph->model, &r);
}

/* Its gradients expanded; where dtypes are placed, that is after canonicalization, as in the pipeline. */
static Graph *reference_graph(Arena *a, const Trial *t) {
    PassContext c = test_context(a, "host");
    c.report = NULL;
    memcpy(c.disabled, t->disabled, sizeof c.disabled);
    if (is_low_precision(t->graph)) return low_placed(&c, t->graph);
    Graph *plain = arena_dup(a, t->graph, sizeof *plain);
    return pass_autodiff(&c, plain);
}

static double magnitude(const Tensor *t) {
    double most = 1;
    for (int64_t i = 0; i < tensor_elements(t); i++) most = fmax(most, fabs(t->data[i]));
    return most;
}

/* For each result, negative where it says nothing; how many those are. */
static int find_tolerances(Arena *a, const Trial *t, const Graph *g, const EvalEnv *env, const Tensor *values,
                           double *tolerance) {
    const double unit = low_unit(g);
    TestRandom r = {(uint64_t)t->number + 1};
    bool *skip = ARENA_ARRAY(a, bool, g->results.n + 1);
    int skipped = find_unsettled(a, g, env, values, skip);
    const double *spread = unit > 0 ? low_spread(a, g, env, values, &r) : NULL;
    for (int i = 0; i < g->results.n; i++) {
        const double relative = spread ? spread[i] / magnitude(&values[g->results.at[i].value->id]) : 0;
        const bool vague = !(relative <= WIDEST_SPREAD);
        skipped += vague && !skip[i];
        tolerance[i] = vague || skip[i] ? -1 : TOLERANCE + 2 * unit + 2 * relative;
    }
    return skipped;
}

TrialResult trial_run(Arena *a, const Trial *t, const TrialTarget *b, uint32_t *fired, const char **why) {
    *why = NULL;
    const Module *m = trial_compile(a, t, b->target, fired, why);
    if (!m) return *why && strstr(*why, "internal error") ? TRIAL_DIFFERS : TRIAL_REFUSED;
    if (b->stands && b->stands(b->user, a, m)) return TRIAL_AGREES;
    const Graph *g = reference_graph(a, t);
    double *tolerance = ARENA_ARRAY(a, double, g->results.n + 1);
    int fewest = g->results.n + 1, best = 0;
    for (int draw = 0; draw < DRAWS && fewest; draw++) {
        TestData d = data_of(a, t, m, draw);
        const Tensor *values = graph_eval(a, g, &d.env, why);
        if (!values || !is_finite_program(g, values, why, a)) return TRIAL_DIFFERS;
        const int n = find_tolerances(a, t, g, &d.env, values, tolerance);
        if (n < fewest) fewest = n, best = draw;
    }
    TestData d = data_of(a, t, m, best);
    const Tensor *values = graph_eval(a, g, &d.env, why);
    find_tolerances(a, t, g, &d.env, values, tolerance);
    t->tally->results += g->results.n;
    t->tally->skipped += fewest;
    *why = oracle_compare_values(a, g, values, m, &d, b->run, tolerance);
    return *why ? TRIAL_DIFFERS : TRIAL_AGREES;
}

void trial_print(FILE *f, const Trial *t) {
    fprintf(f, "# program %d", t->number);
    if (t->checkpoint != CHECKPOINT_NONE) fprintf(f, " --checkpoint=sqrt");
    for (int p = 0; p < PASS_COUNT; p++)
        if (t->disabled[p]) fprintf(f, " -fno-%s", pass_info[p].name);
    if (t->max_tile) fprintf(f, " (tiles of at most %d elements)", t->max_tile);
    fputc('\n', f);
    graph_print(f, t->graph);
}
