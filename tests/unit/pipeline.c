/* compile_module as a whole: every subset of passes, any order the launch DAG allows, what modules promise. */
#include "tests/support/lowered.h"
#include "tests/support/oracle.h"
#include "tests/support/random_graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const Entry entries[] = {ENTRY_INFER, ENTRY_GRAD, ENTRY_STEP};
static const char *const machines[] = {"host", "c99", "sm_80", "sm_90a"};
static const RandomOptions options = {.ops = 30, .bounded = true, .empty = true};

/* NULL when the program is one of the few that are refused with a diagnostic (a bounded dimension in the midst
 * of a reshape); never because of a violation that a verifier found. */
static void refused(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    (void)user, (void)loc, (void)help;
    if (what != COMPLAINT_WARNING && strstr(message, "internal error")) fail_msg("%s", message);
}

static Module *compile(PassContext *c, Entry e, uint64_t seed) {
    Graph *graphs[ENTRY_COUNT] = {NULL};
    graphs[e] = random_graph(c->arena, e, seed, options);
    c->report = refused;
    return compile_module(c, graphs);
}

enum { MAX_REFUSED = 3 }; /* of a hundred programs */

static void agrees(Arena *a, Entry e, uint64_t seed, const Module *m) {
    Graph *g = random_graph(a, e, seed, options);
    TestRandom r = {seed};
    TestData d = test_data(a, m, g->model, &r);
    const char *why = oracle_compare(a, g, m, &d, module_run, 1e-4);
    if (why) fail_msg("seed %d: %s", (int)seed, why);
}

static void any_subset_of_passes(void **state) {
    (void)state;
    TestRandom r = {99};
    int n_refused = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        Arena *a = arena_new();
        PassContext c = test_context(a, machines[seed % 4]);
        for (int p = 0; p < PASS_COUNT; p++) c.disabled[p] = pass_info[p].can_disable && test_below(&r, 3) == 0;
        c.checkpoint = test_below(&r, 2) ? CHECKPOINT_SQRT : CHECKPOINT_NONE;
        c.stream_all = c.stream_low = test_below(&r, 2);
        c.chunk_all = test_below(&r, 2);
        c.recompute_all = test_below(&r, 2);
        c.bucket_all = test_below(&r, 2);
        Module *m = compile(&c, entries[seed % 3], seed);
        if (m)
            agrees(a, entries[seed % 3], seed, m);
        else
            n_refused++;
        arena_free(a);
    }
    assert_true(n_refused <= MAX_REFUSED);
}

/* Nothing in the arena has more. */
static void fits(void *watcher, const Plan *p) {
    const int64_t most = *(const int64_t *)watcher;
    for (int i = 0; i < p->graph->nodes.n; i++) {
        const Node *n = p->graph->nodes.at[i];
        if (p->buffer[i].home == HOME_ARENA && shape_elements(*n->shape) > most)
            fail_msg("%%%d is in memory and has more than %d elements", i, (int)most);
    }
}

static bool too_large;

static void counts_too_large(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    refused(user, what, loc, message, help);
    too_large |= what == COMPLAINT_TOO_LARGE;
}

/* What may not lie in memory is computed where it is read, or refused; then without an internal error. */
static void in_little_memory(void **state) {
    (void)state;
    int n_compiled = 0, n_refused = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        Arena *a = arena_new();
        PassContext c = test_context(a, machines[seed % 4]);
        c.most_elements = (int64_t)2 << (seed % 7);
        c.checkpoint = seed % 5 ? CHECKPOINT_NONE : CHECKPOINT_SQRT;
        c.planned = fits;
        c.watcher = &c.most_elements;
        c.report = counts_too_large;
        too_large = false;
        Graph *graphs[ENTRY_COUNT] = {NULL};
        const Entry e = entries[seed % 3];
        graphs[e] = random_graph(a, e, seed, options);
        Module *m = compile_module(&c, graphs);
        if (m) agrees(a, e, seed, m);
        assert_true(!m || !too_large);
        n_compiled += m != NULL;
        n_refused += too_large;
        arena_free(a);
    }
    print_message("%d compiled, %d refused\n", n_compiled, n_refused);
    assert_true(n_compiled >= 50 && n_refused >= 50);
}

/* Launches in a random order that keeps every `after`. */
static void shuffle(Arena *a, ModuleEntry *e, TestRandom *r) {
    int n = e->launches.n;
    bool *done = ARENA_ARRAY(a, bool, n + 1);
    Launch *order = ARENA_ARRAY(a, Launch, n + 1);
    for (int placed = 0; placed < n;) {
        int i = test_below(r, n);
        bool ready = !done[i];
        for (int k = 0; ready && k < e->launches.at[i].n_after; k++) ready = done[e->launches.at[i].after[k]];
        if (!ready) continue;
        done[i] = true;
        order[placed++] = e->launches.at[i];
    }
    memcpy(e->launches.at, order, sizeof *order * (size_t)n);
}

static void any_order_the_dag_allows(void **state) {
    (void)state;
    TestRandom r = {5};
    int n_refused = 0;
    for (uint64_t seed = 200; seed < 300; seed++) {
        Arena *a = arena_new();
        PassContext c = test_context(a, "host");
        Entry e = entries[seed % 3];
        c.disabled[PASS_fuse] = seed % 2; /* more kernels, more reuse */
        c.checkpoint = seed % 4 < 2 ? CHECKPOINT_SQRT : CHECKPOINT_NONE;
        Module *m = compile(&c, e, seed);
        if (m) {
            shuffle(a, &m->entry[e], &r);
            agrees(a, e, seed, m);
        } else
            n_refused++;
        arena_free(a);
    }
    assert_true(n_refused <= MAX_REFUSED);
}

static void check_module(const Module *m, Entry entry) {
    const ModuleEntry *e = &m->entry[entry];
    assert_true(e->present);
    assert_int_equal(e->peak_saved + e->peak_gradients + e->peak_workspace, e->arena_bytes);
    Arena *a = arena_new();
    const char **text = ARENA_ARRAY(a, const char *, m->kernels.n + 1);
    for (int i = 0; i < m->kernels.n; i++) {
        text[i] = kernel_canonical(a, m->kernels.at[i]);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(m->kernels.at[i]->name, m->kernels.at[j]->name);
            assert_string_not_equal(text[i], text[j]);
        }
    }
    arena_free(a);
    for (int i = 0; i < e->launches.n; i++) {
        const Launch *l = &e->launches.at[i];
        assert_int_equal(l->n_args, m->kernels.at[l->kernel]->buffers.n);
        assert_true(l->wanted_by != 0);
        for (int k = 0; k < l->n_args; k++)
            assert_int_equal(l->args[k].offset % dtype_bytes(m->kernels.at[l->kernel]->buffers.at[k].dtype), 0);
    }
    for (int i = 1; i < m->grads.n; i++)
        assert_true(m->grads.at[i].offset >= m->grads.at[i - 1].offset + m->grads.at[i - 1].bytes);
    for (int i = 1; i < m->params.n; i++)
        assert_true(m->params.at[i].offset >= m->params.at[i - 1].offset + m->params.at[i - 1].bytes);
}

static void modules_keep_their_promises(void **state) {
    (void)state;
    int n_refused = 0;
    for (uint64_t seed = 300; seed < 400; seed++) {
        Arena *a = arena_new();
        PassContext c = test_context(a, "host");
        Module *m = compile(&c, entries[seed % 3], seed);
        if (m)
            check_module(m, entries[seed % 3]);
        else
            n_refused++;
        arena_free(a);
    }
    assert_true(n_refused <= MAX_REFUSED);
}

/* Entry infer with a single output wanted leaves the same bytes there as with all of them; states too. */
static void check_each_output(Arena *a, const Module *m, const Model *model, uint64_t seed) {
    for (int o = 0; o < model->outputs.n; o++) {
        TestData d[2];
        for (int i = 0; i < 2; i++) {
            TestRandom r = {seed};
            const char *error = NULL;
            d[i] = test_data(a, m, model, &r);
            for (int k = 0; i && k < model->outputs.n; k++)
                if (k != o) d[i].mem.outputs[k] = NULL;
            if (!module_run(a, m, ENTRY_INFER, &d[i].mem, d[i].syms, &error)) fail_msg("seed %d: %s", (int)seed, error);
        }
        assert_memory_equal(d[0].mem.outputs[o], d[1].mem.outputs[o], (size_t)m->outputs.at[o].bytes);
        assert_memory_equal(d[0].mem.states, d[1].mem.states, (size_t)m->state_bytes);
    }
}

static void outputs_are_optional(void **state) {
    (void)state;
    int several = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        Arena *a = arena_new();
        PassContext c = test_context(a, "host");
        c.disabled[PASS_fuse] = seed % 3 == 0;
        Module *m = compile(&c, ENTRY_INFER, seed);
        const Model *model = random_graph(a, ENTRY_INFER, seed, options)->model;
        if (m) check_each_output(a, m, model, seed);
        several += model->outputs.n > 1;
        arena_free(a);
    }
    assert_true(several >= 10);
}

/* Two compilations print the same text after every pass. */
static void printing_and_determinism(void **state) {
    (void)state;
    char *text[2];
    for (int round = 0; round < 2; round++) {
        size_t bytes;
        PassContext c = test_context(arena_new(), "host");
        c.print_to = open_memstream(&text[round], &bytes);
        c.checkpoint = CHECKPOINT_SQRT;
        for (int p = 0; p < PASS_COUNT; p++) c.print_after[p] = true;
        assert_non_null(compile(&c, ENTRY_STEP, 7));
        fclose(c.print_to);
        arena_free(c.arena);
    }
    assert_string_equal(text[0], text[1]);
    for (int p = 0; p < PASS_COUNT; p++) {
        char heading[64];
        snprintf(heading, sizeof heading, "# after %s, entry step", pass_info[p].name);
        assert_non_null(strstr(text[0], heading));
    }
    free(text[0]);
    free(text[1]);
}

/* What random programs seldom are: products of three factors that no pass takes apart, and nothing to do at all. */
static const char *const rare[] = {
    "graph @three entry=infer {\n input \"a\" : f32[3,4]\n input \"b\" : f32[3,5]\n input \"c\" : f32[3,4,5]\n"
    " output \"y\" : f32[3]\n %0 = input \"a\" : f32[3,4]\n %1 = input \"b\" : f32[3,5]\n"
    " %2 = input \"c\" : f32[3,4,5]\n"
    " %3 = contract %0[i, k], %1[i, l], %2[i, k, l] -> [i:3] sum [k:4, l:5] : f32[3]\n output \"y\" %3\n}\n",
    "graph @nothing entry=init {\n input \"a\" : f32[3]\n output \"y\" : f32[3]\n}\n",
};

static void rare_programs_on_every_target(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rare / sizeof *rare * 4; i++) {
        Arena *a = arena_new();
        const char *error = NULL;
        Graph *graphs[ENTRY_COUNT] = {NULL}, *g = graph_parse(a, rare[i / 4], &error);
        if (!g) fail_msg("%s", error);
        graphs[g->entry] = g;
        PassContext c = test_context(a, machines[i % 4]);
        c.disabled[PASS_jacobian_gemm] = true;
        const Module *m = compile_module(&c, graphs);
        assert_non_null(m);
        TestRandom r = {i};
        TestData d = test_data(a, m, g->model, &r);
        const char *why = g->nodes.n ? oracle_compare(a, g, m, &d, module_run, 1e-5) : NULL;
        if (why) fail_msg("%s: %s", machines[i % 4], why);
        arena_free(a);
    }
}

/* ---- unrolled recurrences ------------------------------------------------------------------------------------------- */
#define CELL " w = param [12, 32] init normal(0.3)\n u = param [8, 32] init normal(0.3)\n"
static const char *const recurrences[] = {
    "model lstm {\n input x : f32[2, %d, 12]\n" CELL " h = zeros [2, 8]\n c = zeros [2, 8]\n t = 0\n repeat %d {\n"
    "  i, f, g, o = split(x[:, t] @ w + h @ u, 4, axis = -1)\n  c = sigmoid(f) * c + sigmoid(i) * tanh(g)\n"
    "  h = sigmoid(o) * tanh(c)\n  t = t + 1\n }\n output loss = mean(h^2)\n train loss with sgd(lr = 0.1)\n}\n",
    "model reversed {\n input x : f32[%d, 2, 12]\n" CELL " h = zeros [2, 8]\n t = %d\n repeat t {\n  t = t - 1\n"
    "  a, b = split(x[t] @ w + h @ u, 2, axis = -1)\n  h = tanh((a * b)[:, 0:8])\n }\n"
    " output loss = mean(h^2)\n train loss with sgd(lr = 0.1)\n}\n",
};

static Module *compile_recurrence(PassContext *c, int which, int steps) {
    Graph *g[ENTRY_COUNT];
    const char *text = recurrences[which];
    lower_text(c->arena, arena_printf(c->arena, text, steps, steps), g);
    g[ENTRY_INFER] = NULL; /* which keeps no more results than it reads */
    Module *m = compile_module(c, g);
    assert_non_null(m);
    return m;
}

/* Steps are the same kernels, however many they are.  Few are compared: rounding grows from one to the next. */
static void steps_share_kernels(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        Arena *a = arena_new();
        PassContext c = test_context(a, machines[i % 4]);
        Graph *g[ENTRY_COUNT];
        const Module *some = compile_recurrence(&c, i / 4, 16), *many = compile_recurrence(&c, i / 4, 28);
        const Module *few = compile_recurrence(&c, i / 4, 5);
        assert_int_equal(some->kernels.n, many->kernels.n);
        lower_text(a, arena_printf(a, recurrences[i / 4], 5, 5), g);
        for (int e = ENTRY_GRAD; e <= ENTRY_STEP; e++) {
            TestRandom r = {7};
            TestData d = test_data(a, few, g[e]->model, &r);
            const char *why = oracle_compare(a, g[e], few, &d, module_run, 1e-4);
            if (why) fail_msg("%s on %s: %s", few->name, machines[i % 4], why);
        }
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_subset_of_passes),
        cmocka_unit_test(in_little_memory),        cmocka_unit_test(any_order_the_dag_allows),
        cmocka_unit_test(modules_keep_their_promises), cmocka_unit_test(outputs_are_optional),
        cmocka_unit_test(printing_and_determinism),    cmocka_unit_test(rare_programs_on_every_target),
        cmocka_unit_test(steps_share_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
