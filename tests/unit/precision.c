/* Programs in low precision: their gradients, by float64 evaluation that rounds as the dtypes say, are near the exact
 * ones; the dtypes of what is stored and given back are those that the language promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "frontend/frontend.h"
#include "tests/support/gradcheck.h"
#include "tests/support/scratch.h"

#ifndef SOURCE_DIR
#define SOURCE_DIR "."
#endif

/* All models of tests/data/gradients.dsl, each with `precision P` as its first line; the path of the new file. */
static const char *in_precision(Arena *a, const char *precision) {
    const char *text = read_text(a, SOURCE_DIR "/tests/data/gradients.dsl"), *made = "";
    const char *path = arena_printf(a, "%s/%s.dsl", scratch_folder(), precision);
    assert_non_null(text);
    for (const char *line = text; *line;) {
        const int n = (int)strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n');
        made = arena_printf(a, "%s%.*s", made, n, line);
        if (strncmp(line, "model ", 6) == 0) made = arena_printf(a, "%s    precision %s\n", made, precision);
        line += n;
    }
    write_text(path, made);
    return path;
}

static Graph *lower(Arena *a, const char *path, const char *model) {
    Diag *d = diag_new(a);
    const FrontendOptions o = {.model = model};
    Graph *graphs[ENTRY_COUNT] = {NULL};
    Program *p = program_load(a, d, path, &o);
    if (!p || !program_lower(a, d, p, model, graphs)) {
        diag_print(d, stderr);
        fail_msg("%s does not compile", model);
    }
    return graphs[ENTRY_GRAD] ? graphs[ENTRY_GRAD] : graphs[ENTRY_INFER];
}

static Graph *compile(PassContext *c, Graph *g, bool places) {
    g = pass_canonicalize(c, g);
    if (places) g = pass_precision(c, g);
    g = pass_autodiff(c, g);
    if (places) g = pass_precision(c, g);
    g = pass_canonicalize(c, g);
    g = pass_jacobian_gemm(c, g);
    return pass_canonicalize(c, g);
}

/* The loss scale's states are what entry init makes them. */
static void set_scale(const Model *m, const EvalEnv *env) {
    for (int i = 0; i < m->states.n; i++) {
        if (strcmp(m->states.at[i].name, "loss_scale.scale") == 0) env->states[i].data[0] = 1024;
        if (strcmp(m->states.at[i].name, "loss_scale.good_steps") == 0) env->states[i].data[0] = 3;
        if (m->states.at[i].outcome) env->states[i].data[0] = 4;
    }
}

static double magnitude(const Tensor *t) {
    double most = 0;
    for (int64_t i = 0; i < tensor_elements(t); i++) most = fmax(most, fabs(t->data[i]));
    return most;
}

typedef struct LowTrial {
    const char *model, *precision;
    double tolerance, greatest; /* magnitude of any result */
    bool differs;
} LowTrial;

/* Gradients that are 0 but for rounding, such as that of a bias in front of a norm, are measured by the others. */
static void check_result(LowTrial *t, const Tensor *low, const Tensor *exact, int result) {
    const double scale = fmax(magnitude(exact), t->greatest / 20);
    for (int64_t i = 0; i < tensor_elements(exact); i++) {
        const double off = fabs(low->data[i] - exact->data[i]);
        t->differs |= off > 0;
        if (!(off <= t->tolerance * scale))
            fail_msg("%s in %s: result %d, element %d: %g, exactly %g, of %g", t->model, t->precision, result, (int)i,
                     low->data[i], exact->data[i], scale);
    }
}

static void check_model(const char *model, const char *precision, double tolerance) {
    Arena *a = arena_new();
    Rng r = {.state = 11};
    Graph *g = lower(a, in_precision(a, precision), model);
    EvalEnv env = random_env(a, g->model, &r);
    set_scale(g->model, &env);
    PassContext c = {.arena = a};
    Graph *exact = compile(&c, lower(a, in_precision(a, precision), model), false), *low = compile(&c, g, true);
    const char *error = graph_verify(a, low);
    if (error) fail_msg("%s: %s", model, error);
    const Tensor *want = graph_eval(a, exact, &env, &error);
    if (!want) fail_msg("%s: %s", model, error);
    const Tensor *got = graph_eval(a, low, &env, &error);
    if (!got) fail_msg("%s: %s", model, error);
    assert_int_equal(low->results.n, exact->results.n);
    LowTrial t = {.model = model, .precision = precision, .tolerance = tolerance};
    for (int i = 0; i < exact->results.n; i++)
        if (exact->results.at[i].kind == RESULT_GRAD || exact->entry == ENTRY_INFER)
            t.greatest = fmax(t.greatest, magnitude(&want[exact->results.at[i].value->id]));
    for (int i = 0; i < low->results.n; i++) {
        const Result *x = &low->results.at[i], *y = &exact->results.at[i];
        assert_true(x->kind == y->kind && x->decl == y->decl);
        assert_int_equal(x->value->dtype, y->value->dtype); /* f32, whatever is computed inside */
        check_result(&t, &got[x->value->id], &want[y->value->id], i);
    }
    assert_true(t.differs);
    arena_free(a);
}

/* Twice the rounding of a product's operands (2^-9, 2^-12, 2^-11), times a few layers. */
static const struct {
    const char *name;
    double tolerance;
} precisions[] = {{"bf16", 5e-2}, {"f16", 6e-3}, {"tf32", 6e-3}};

static void gradients_are_near_the_exact_ones(void **state) {
    static const char *const models[] = {"mlp", "cnn", "gpt", "bounded", "written", "values", "examples"};
    (void)state;
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++)
        for (size_t m = 0; m < sizeof models / sizeof *models; m++)
            check_model(models[m], precisions[p].name, precisions[p].tolerance);
}

/* ---- what is in which dtype -------------------------------------------------------------------------------------- */
static int count(const Graph *g, Op op, DType operand, DType result) {
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        n += x->op == op && x->dtype == result && x->in[0]->dtype == operand;
    }
    return n;
}

static void products_of_gradients_are_not_rounded(void **state) {
    (void)state;
    Arena *a = arena_new();
    PassContext c = {.arena = a};
    const Graph *g = compile(&c, lower(a, in_precision(a, "bf16"), "mlp"), true);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        assert_int_equal(n->precision, PRECISION_F32); /* used up */
        if (n->op == OP_SUM || n->op == OP_EXP || n->op == OP_TANH || n->op == OP_ERF)
            assert_int_equal(n->dtype, DT_F32);
    }
    assert_true(count(g, OP_CONTRACT, DT_BF16, DT_F32) >= 2);  /* weight gradients, the last layer */
    assert_true(count(g, OP_CONTRACT, DT_BF16, DT_BF16) >= 2); /* layers, and what goes back through them */
    assert_int_equal(count(g, OP_CONTRACT, DT_F32, DT_F32), 0);
    for (int i = 0; i < g->results.n; i++) assert_int_equal(g->results.at[i].value->dtype, DT_F32);
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_near_the_exact_ones),
                                       cmocka_unit_test(products_of_gradients_are_not_rounded)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
