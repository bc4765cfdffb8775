#include "tests/support/differential.h"
#include "tests/support/low_precision.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In f32.  Results of low dtypes may be a unit in the last place apart, and what is made of them twice as far as
 * low_spread finds them to move; where that is more than a part of their size, they say nothing. */
static const double TOLERANCE = 1e-4, WIDEST_SPREAD = 0.25;

/* ---- the set -------------------------------------------------------------------------------------------------- */
static const Entry entries[] = {ENTRY_INFER, ENTRY_GRAD, ENTRY_STEP};

static int directed_before(int programs) { return programs / 10 * 7 + (programs % 10 < 7 ? programs % 10 : 7); }

TrialSet *trial_set(int programs) {
    Arena *a = arena_new();
    TrialSet *s = ARENA_NEW(a, TrialSet);
    *s = (TrialSet){.arena = a,
                    .programs = programs,
                    .directed = directed_set(a, directed_before(programs)),
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
    Trial t = {.number = i, .tally = &s->tally};
    TestRandom r = {((uint64_t)i + 1) * 0x9E3779B97F4A7C15u};
    for (int k = 0; k < 8; k++) test_random(&r); /* neighbouring numbers apart */
    RandomOptions o = {
        .ops = 4 + test_below(&r, 22), .bounded = test_below(&r, 4) == 0, .empty = test_below(&r, 5) == 0};
    draw_passes(&t, &r);
    t.checkpoint = test_below(&r, 4) == 0 ? CHECKPOINT_SQRT : CHECKPOINT_NONE;
    if (test_below(&r, 3) == 0) t.max_tile = 64 << test_below(&r, 5);
    o.low = test_below(&r, 3) == 0;
    o.products = i % 10 >= 7 && o.low ? 1 + test_below(&r, 3) : 0;
    t.graph =
        i % 10 < 7 ? directed_next(s->directed, a, entries[i % 3], o) : random_graph(a, entries[i % 3], (uint64_t)i, o);
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

/* ---- data -------------------------------------------------------------------------------------------------------- */
/* Within rounding of the edge.  To stand on it may be chance for a value that was rounded, but not for 0: a sum of
 * nothing, a product with 0, a padded element; nor for two values that are equal: they are one value that came two
 * ways. */
static bool near(double x, double edge, double scale) {
    return x == edge ? x != 0 : fabs(x - edge) < 2e-5 * (1 + scale);
}

static bool unsettled_at(const Node *n, const double *x) {
    const double rounded = nearbyint(x[0]);
    switch (n->op) {
    case OP_FLOOR:
    case OP_CEIL: return near(x[0], rounded, fabs(x[0]));
    case OP_SIGN: return near(x[0], 0, 0);
    case OP_CAST: return n->dtype == DT_BOOL ? near(x[0], 0, 0) : n->dtype == DT_I32 && near(x[0], rounded, fabs(x[0]));
    case OP_MOD: return x[1] != 0 && near(x[0] / x[1], nearbyint(x[0] / x[1]), fabs(x[0] / x[1]));
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE: return x[0] != x[1] && near(x[0], x[1], fabs(x[1]));
    default: return false;
    }
}

/* Any two that might change places.  Equal ones come of equal operands, and are equal wherever they are computed. */
static bool unsettled_order(const Tensor *t) {
    const int64_t n = tensor_elements(t);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            if (t->data[i] != t->data[j] && near(t->data[i], t->data[j], fabs(t->data[i]))) return true;
    return false;
}

/* Few bits: sums and products of such values are exact in f32, whatever the order. */
static bool is_coarse(const Tensor *t) {
    for (int64_t i = 0; i < tensor_elements(t); i++) {
        const double scaled = t->data[i] * 256;
        if (scaled != nearbyint(scaled) || fabs(scaled) > 0x1p20) return false;
    }
    return true;
}

static bool keeps_exact(Op op) { return takes_operand(op) || op == OP_CAST; }

static bool keeps_coarse(Op op) {
    switch (op) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
    case OP_SUM:
    case OP_SCAN:
    case OP_PROD:
    case OP_CONTRACT:
    case OP_SCATTER_ADD: return true;
    default: return false;
    }
}

/* Values that f32 has without rounding: what is given, what only chooses among such, sums of few bits, and whole
 * numbers (once no jump is near, the jumps' own results). */
static void find_exact(const Graph *g, const Tensor *values, bool *exact) {
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        exact[i] = keeps_exact(n->op) || (keeps_coarse(n->op) && is_coarse(&values[i]));
        for (int k = 0; k < n->n_in; k++)
            exact[i] &= exact[n->in[k]->id] && (keeps_exact(n->op) || is_coarse(&values[n->in[k]->id]));
        exact[i] |= !dtype_is_float(n->dtype) || n->op == OP_SIGN || n->op == OP_FLOOR || n->op == OP_CEIL;
    }
}

static bool compares(Op op) { return op >= OP_EQ && op <= OP_GE; }

/* Operands may be equal though one of the two was given and the other computed by a function, which takes back what was
 * done: x and log(exp(x)), 1 and (1 + x) mod x. */
static bool equal_by_chance(const Node *x, const Node *y, const bool *exact) {
    const Node *computed = exact[x->id] ? y : x;
    const bool function = computed->op == OP_MOD || (computed->op >= OP_EXP && computed->op <= OP_ERF);
    return exact[x->id] != exact[y->id] && function;
}

static bool is_unsettled(const Node *n, const Tensor *values, const bool *exact) {
    const Node *first = n->in[0], *last = n->in[n->n_in - 1];
    const Tensor *x = &values[first->id], *y = &values[last->id];
    if (!dtype_is_float(first->dtype) || (exact[first->id] && exact[last->id] && n->op != OP_MOD)) return false;
    if (n->op == OP_ARGMAX) return unsettled_order(x);
    if (op_info[n->op].cls != CLASS_ELEMENT || (n->n_in == 2 && first == last)) return false;
    const bool chance = compares(n->op) && equal_by_chance(first, last, exact);
    for (int64_t e = 0; e < tensor_elements(x); e++) {
        const double pair[] = {x->data[e], y->data[e]};
        if (unsettled_at(n, pair) || (chance && pair[0] == pair[1])) return true;
    }
    return false;
}

/* skip[i]: result i depends on a jump whose operand is too near its edge.  How many. */
static int find_unsettled(Arena *a, const Graph *g, const Tensor *values, bool *skip) {
    bool *exact = ARENA_ARRAY(a, bool, g->nodes.n), *unsettled = ARENA_ARRAY(a, bool, g->nodes.n);
    int count = 0;
    find_exact(g, values, exact);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        for (int k = 0; k < n->n_in; k++) unsettled[i] |= unsettled[n->in[k]->id];
        if (n->n_in && !unsettled[i]) unsettled[i] = is_unsettled(n, values, exact);
    }
    for (int i = 0; i < g->results.n; i++) count += skip[i] = unsettled[g->results.at[i].value->id];
    return count;
}

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
    int skipped = find_unsettled(a, g, values, skip);
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
