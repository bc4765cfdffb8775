/* Whole programs in the language: after all graph passes, gradients equal finite differences of the forward
 * graph as it was lowered, unoptimised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include "frontend/frontend.h"
#include "tests/support/gradcheck.h"

#ifndef SOURCE_DIR
#define SOURCE_DIR "."
#endif

enum { PROBES = 6 }; /* elements per parameter */

static Graph *lower(Arena *a, const char *model) {
    Diag *d = diag_new(a);
    const FrontendOptions o = {.model = model};
    Graph *graphs[ENTRY_COUNT] = {NULL};
    Program *p = program_load(a, d, SOURCE_DIR "/tests/data/gradients.dsl", &o);
    if (!p || !program_lower(a, d, p, model, graphs)) {
        diag_print(d, stderr);
        fail_msg("%s does not compile", model);
    }
    return graphs[ENTRY_GRAD];
}

static Graph *compile(PassContext *c, Graph *g) {
    g = pass_canonicalize(c, g);
    g = pass_autodiff(c, g);
    g = pass_canonicalize(c, g);
    g = pass_jacobian_gemm(c, g);
    return pass_canonicalize(c, g);
}

static const Node *loss_of(const Graph *g) {
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].kind == RESULT_OUTPUT && g->results.at[i].value->shape->rank == 0)
            return g->results.at[i].value;
    return NULL;
}

/* The loss alone, by a copy of the graph's list that keeps only what it needs. */
static Graph *forward_only(Arena *a, const Graph *g) {
    Graph *f = graph_new(a, g->model, ENTRY_INFER);
    for (int i = 0; i < g->nodes.n; i++) vec_push(a, f->nodes, g->nodes.at[i]);
    graph_result(f, RESULT_OUTPUT, 0, g->nodes.at[loss_of(g)->id]);
    graph_prune(f);
    return f;
}

static double loss_at(const Graph *f, const EvalEnv *env) {
    Arena *a = arena_new();
    const char *error = NULL;
    const Tensor *all = graph_eval(a, f, env, &error);
    if (!all) fail_msg("%s", error);
    double loss = all[f->results.at[0].value->id].data[0];
    arena_free(a);
    return loss;
}

static void check_gradient(const Graph *f, const EvalEnv *env, const TensorDecl *decl, const Tensor *gradient,
                           double *x, Rng *r) {
    for (int probe = 0; probe < PROBES; probe++) {
        int64_t i = rng_int(r, 0, tensor_elements(gradient) - 1);
        double kept = x[i], h = 1e-5;
        x[i] = kept + h;
        double up = loss_at(f, env);
        x[i] = kept - h;
        double down = loss_at(f, env), want = (up - down) / (2 * h);
        x[i] = kept;
        if (!(fabs(want - gradient->data[i]) <= 1e-6 * (1 + fabs(want))))
            fail_msg("%s[%d]: gradient %.9g, differences %.9g", decl->name, (int)i, gradient->data[i], want);
    }
}

static void check_model(const char *name, uint64_t seed) {
    Arena *a = arena_new();
    Rng r = {.state = seed};
    Graph *g = lower(a, name);
    PassContext c = {.arena = a};
    Graph *compiled = compile(&c, g);
    const char *error = graph_verify(a, compiled);
    if (error) fail_msg("%s: %s", name, error);
    EvalEnv env = random_env(a, g->model, &r);
    const Tensor *all = graph_eval(a, compiled, &env, &error);
    if (!all) fail_msg("%s: %s", name, error);
    Graph *f = forward_only(a, g);
    int gradients = 0;
    for (int i = 0; i < compiled->results.n; i++) {
        Result result = compiled->results.at[i];
        if (result.kind != RESULT_GRAD) continue;
        gradients++;
        check_gradient(f, &env, &g->model->params.at[result.decl], &all[result.value->id], env.params[result.decl].data,
                       &r);
    }
    assert_int_equal(gradients, g->model->params.n);
    arena_free(a);
}

static void mlp(void **state) {
    (void)state;
    check_model("mlp", 1);
}
static void cnn(void **state) {
    (void)state;
    check_model("cnn", 2);
}
static void gpt(void **state) {
    (void)state;
    check_model("gpt", 3);
}
static void bounded(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) check_model("bounded", seed);
}
static void written(void **state) {
    (void)state;
    check_model("written", 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp),     cmocka_unit_test(cnn),     cmocka_unit_test(gpt),
        cmocka_unit_test(bounded), cmocka_unit_test(written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
