/* Random programs: legal, read back identical, and what was read evaluates to the same bits. */
#include "tests/support/random_graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char *printed(Arena *a, const Graph *g) {
    char *buffer = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&buffer, &size);
    graph_print(f, g);
    fclose(f);
    char *text = arena_strdup(a, buffer);
    free(buffer);
    return text;
}

static Graph *read_back(Arena *a, const Graph *g) {
    const char *error = graph_verify(a, g), *text = printed(a, g);
    if (error) fail_msg("%s\n%s", error, text);
    Graph *back = graph_parse(a, text, &error);
    if (!back) fail_msg("%s\n%s", error, text);
    assert_null(graph_verify(a, back));
    assert_string_equal(printed(a, back), text);
    return back;
}

/* Small integers everywhere: inside every index range that a decl states. */
static Tensor *values_of(Arena *a, const TensorDecl *decl, int n, const int64_t *syms) {
    Tensor *t = ARENA_ARRAY(a, Tensor, n);
    for (int i = 0; i < n; i++) {
        t[i].rank = decl[i].shape.rank;
        for (int d = 0; d < t[i].rank; d++) t[i].dim[d] = dim_at(decl[i].shape.dim[d], syms);
        int64_t count = tensor_elements(&t[i]);
        t[i].data = ARENA_ARRAY(a, double, count + 1);
        for (int64_t k = 0; k < count; k++) t[i].data[k] = (double)(k % (decl[i].has_range ? decl[i].hi : 5));
    }
    return t;
}

static void evaluate_alike(Arena *a, const Graph *g, const Graph *back) {
    const Model *m = g->model;
    int64_t *syms = ARENA_ARRAY(a, int64_t, m->syms.n);
    for (int i = 0; i < m->syms.n; i++) syms[i] = m->syms.at[i].bound / 2;
    double *hypers = ARENA_ARRAY(a, double, m->hypers.n);
    for (int i = 0; i < m->hypers.n; i++) hypers[i] = m->hypers.at[i].value;
    EvalEnv env = {.syms = syms, .hypers = hypers, .step = 3, .seed = 17};
    env.params = values_of(a, m->params.at, m->params.n, syms);
    env.states = values_of(a, m->states.at, m->states.n, syms);
    env.inputs = values_of(a, m->inputs.at, m->inputs.n, syms);
    const char *error = NULL;
    Tensor *x = graph_eval(a, g, &env, &error), *y = x ? graph_eval(a, back, &env, &error) : NULL;
    if (!y) fail_msg("%s\n%s", error, printed(a, g));
    for (int i = 0; i < g->nodes.n; i++) {
        size_t bytes = sizeof(double) * (size_t)tensor_elements(&x[i]);
        if (memcmp(x[i].data, y[i].data, bytes) != 0) fail_msg("%%%d differs\n%s", i, printed(a, g));
    }
}

static void random_programs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        for (int entry = ENTRY_INFER; entry <= ENTRY_STEP; entry++) {
            Arena *a = arena_new();
            Graph *g = random_graph(a, (Entry)entry, seed,
                                    (RandomOptions){.ops = 12, .bounded = seed % 2, .empty = seed % 3 == 0});
            Graph *back = read_back(a, g);
            if (entry == ENTRY_INFER) evaluate_alike(a, g, back); /* the others wait for autodiff */
            arena_free(a);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
