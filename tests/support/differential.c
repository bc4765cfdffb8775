#include "tests/support/differential.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TOLERANCE = 1e-4;

/* ---- the set -------------------------------------------------------------------------------------------------- */
static const Entry entries[] = {ENTRY_INFER, ENTRY_GRAD, ENTRY_STEP};

static int directed_before(int programs) { return programs / 10 * 7 + (programs % 10 < 7 ? programs % 10 : 7); }

TrialSet *trial_set(int programs) {
    Arena *a = arena_new();
    TrialSet *s = ARENA_NEW(a, TrialSet);
    *s = (TrialSet){.arena = a, .programs = programs, .directed = directed_set(a, directed_before(programs)),
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
    Coverage *c = s->coverage;
    Trial t = {.number = i};
    TestRandom r = {((uint64_t)i + 1) * 0x9E3779B97F4A7C15u};
    for (int k = 0; k < 8; k++) test_random(&r); /* neighbouring numbers apart */
    const RandomOptions o = {.ops = 4 + test_below(&r, 22), .bounded = test_below(&r, 4) == 0, .empty = test_below(&r, 5) == 0};
    draw_passes(&t, &r);
    t.checkpoint = test_below(&r, 4) == 0 ? CHECKPOINT_SQRT : CHECKPOINT_NONE;
    if (test_below(&r, 3) == 0) t.max_tile = 64 << test_below(&r, 5);
    t.graph = i % 10 < 7 ? directed_next(s->directed, a, entries[i % 3], o) : random_graph(a, entries[i % 3], (uint64_t)i, o);
    coverage_count(c, t.graph);
    for (int p = 0; p < PASS_COUNT; p++) c->disabled[p] += t.disabled[p];
    c->checkpointed += t.checkpoint != CHECKPOINT_NONE && !t.disabled[PASS_checkpoint] && t.graph->entry != ENTRY_INFER;
    c->tiny += t.max_tile > 0;
    c->bounded += o.bounded;
    c->empty += o.empty;
    return t;
}

/* ---- compiling ---------------------------------------------------------------------------------------------------- */
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

static void refuse(void *user, bool is_error, SrcLoc loc, const char *message, const char *help) {
    Refusal *r = user;
    (void)loc, (void)help;
    if (is_error && !r->message) r->message = arena_strdup(r->arena, message);
}

Module *trial_compile(Arena *a, const Trial *t, const char *target, uint32_t *fired, const char **why) {
    Refusal refusal = {.arena = a};
    PassContext c = test_context(a, target);
    Target tiny = *c.target;
    if (t->max_tile) tiny.max_tile = tiny.backend == BACKEND_NVPTX ? 512 : t->max_tile;
    if (t->max_tile) c.target = &tiny;
    c.checkpoint = t->checkpoint;
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

/* ---- data -------------------------------------------------------------------------------------------------------------- */
/* Within rounding of the edge, but not on it. */
static bool near(double x, double edge, double scale) {
    const double d = fabs(x - edge);
    return d > 0 && d < 2e-5 * (1 + scale);
}

static bool unsettled_at(const Node *n, const double *x) {
    const double rounded = nearbyint(x[0]);
    switch (n->op) {
    case OP_FLOOR: case OP_CEIL: return near(x[0], rounded, fabs(x[0]));
    case OP_SIGN: return near(x[0], 0, 0);
    case OP_CAST: return n->dtype == DT_BOOL ? near(x[0], 0, 0) : n->dtype == DT_I32 && near(x[0], rounded, fabs(x[0]));
    case OP_MOD: return x[1] != 0 && near(x[0] / x[1], nearbyint(x[0] / x[1]), fabs(x[0] / x[1]));
    case OP_EQ: case OP_NE: case OP_LT: case OP_LE: case OP_GT: case OP_GE: return near(x[0], x[1], fabs(x[1]));
    default: return false;
    }
}

/* Any two that might change places. */
static bool unsettled_order(const Tensor *t) {
    const int64_t n = tensor_elements(t);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            if (near(t->data[i], t->data[j], fabs(t->data[i]))) return true;
    return false;
}

static bool is_unsettled(const Graph *g, const Tensor *values) {
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->n_in == 0 || !dtype_is_float(n->in[0]->dtype)) continue;
        const Tensor *x = &values[n->in[0]->id], *y = &values[n->in[n->n_in - 1]->id];
        if (n->op == OP_ARGMAX && unsettled_order(x)) return true;
        if (op_info[n->op].cls != CLASS_ELEMENT) continue;
        for (int64_t e = 0; e < tensor_elements(x); e++)
            if (unsettled_at(n, (double[]){x->data[e], y->data[e]})) return true;
    }
    return false;
}

static bool is_finite_program(const Graph *g, const Tensor *values, const char **why, Arena *a) {
    for (int i = 0; i < g->results.n; i++) {
        const Tensor *t = &values[g->results.at[i].value->id];
        for (int64_t e = 0; e < tensor_elements(t); e++)
            if (!isfinite(t->data[e])) {
                *why = arena_printf(a, "the generator's fault: result %d is %g", i, t->data[e]);
                return false;
            }
    }
    return true;
}

enum { DRAWS = 12 };

TrialResult trial_run(Arena *a, const Trial *t, const TrialTarget *b, uint32_t *fired, const char **why) {
    *why = NULL;
    const Module *m = trial_compile(a, t, b->target, fired, why);
    if (!m) return *why && strstr(*why, "internal error") ? TRIAL_DIFFERS : TRIAL_REFUSED;
    PassContext c = test_context(a, "host");
    c.report = NULL;
    Graph plain = *t->graph, *g = pass_autodiff(&c, &plain);
    for (int draw = 0; draw < DRAWS; draw++) {
        TestRandom r = {((uint64_t)t->number * DRAWS + (uint64_t)draw + 1) * 0x9E3779B97F4A7C15u};
        TestData d = test_data(a, m, t->graph->model, &r);
        const Tensor *values = graph_eval(a, g, &d.env, why);
        if (!values || !is_finite_program(g, values, why, a)) return TRIAL_DIFFERS;
        if (is_unsettled(g, values)) continue;
        *why = oracle_compare(a, t->graph, m, &d, b->run, TOLERANCE);
        return *why ? TRIAL_DIFFERS : TRIAL_AGREES;
    }
    return TRIAL_UNSETTLED;
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
