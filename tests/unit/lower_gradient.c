/* Whole programs: gradients of the compiled graph against finite differences of the forward graph as
 * lowered, both in float64.  The library's layers, losses and poolings are in these programs. */
#include "frontend/frontend.h"
#include "passes/pass.h"
#include "tests/support/lowered.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct Case {
    const char *name, *text;
} Case;

#define TRAIN " output loss\n train loss with sgd(lr = 0.1)\n}\n"
static const Case cases[] = {
    {"mlp", "model m {\n input x : f32[4, 5]\n input t : i32[4] in 0..3\n h = silu(linear(x, 6) as a)\n"
            " loss = mean(cross_entropy(linear(gelu(h), 3) as b, t, ignore = 1))\n" TRAIN},
    {"norms",
     "model m {\n input x : f32[3, 4]\n y = rmsnorm(layernorm(x * (param [4] init normal(1.0) as g)) as ln) as rn\n"
     " loss = mean((batchnorm(y) as bn)^3) + logsumexp(y[0]) * 0.1\n" TRAIN},
    {"attention",
     "dim B <= 3, T <= 6\nmodel m {\n input i : i32[B, T] in 0..7\n input t : i32[B, T] in 0..7\n"
     " x = (embed(i, 7, 4) as e) + (param [6, 4] init normal(0.5) as p)[0:T]\n x = x + self_attention(x, 2) as at\n"
     " loss = mean(cross_entropy(x @ transpose(param [7, 4] init normal(0.5) as head), t))\n" TRAIN},
    {"convolutions",
     "model m {\n input x : f32[2, 6, 6, 2]\n a = tanh(conv2d(x, 4, 3, stride = 2) as same)\n"
     " b = conv2d(a, 4, 3, groups = 2, padding = 2, dilation = 2) as grouped\n c = conv_transpose2d(b, 2, 2, 2) as up\n"
     " d = conv2d(c, 3, 3, padding = \"reflect\", bias = false) as mirror\n e = conv2d(x, 3, 3, padding = \"valid\") "
     "as valid\n"
     " loss = mean(d^2) + mean(e)^2 + mse(c, x)\n" TRAIN},
    {"pooling", "model m {\n input x : f32[2, 5, 5, 2]\n w = param [5, 5, 2] init normal(1.0)\n y = x * w\n"
                " loss = sum(max_pool2d(y, 3, 2, padding = \"same\")^2) + sum(avg_pool2d(y, 2, 1, padding = "
                "\"same\")^2) + sum(huber(y))\n" TRAIN},
    {"bounded windows", "dim S <= 3\nmodel m {\n input x : f32[1, 2*S, 4, 2]\n h = tanh(conv2d(x, 2, 3) as first)\n"
                        " y = max_pool2d(h, 2)\n z = conv2d(h, 2, 3, stride = 2) as half\n"
                        " loss = mean(y * z) + mean(avg_pool2d(h, 3, stride = 2, padding = 1)^2)\n" TRAIN},
    {"indexed",
     "model m {\n input i : i32[5] in 0..4\n a = param [5, 4] init normal(1.0)\n b = param [4, 3] init normal(1.0)\n"
     " y[n, f] = sum[c] a[n, c] * b[c, f] * a[n, c]\n z[n, c] = b[i[n], c]\n u[n] = a[n, i[n]]\n"
     " v[n in 0..3] = max[r in 0..3, c] (a[2*n + r - 1, c] * b[c, r])\n q[n in 0..10] = sum[r in 0..2] a[(n + r) / 2, "
     "0]\n"
     " d[n in 0..3] = prod[r in 0..3] (a[n + r, 1] + 2)\n loss = sum(y^2) + sum(z * y) + sum(u) + sum(v^2) + sum(q^2) "
     "+ sum(d)\n" TRAIN},
    {"moves",
     "model m {\n input s : i32[] in 0..3\n a = param [4, 6] init normal(1.0)\n b, c = split(a, [2, 4], axis = 1)\n"
     " y = concat(pad(b, [[0, 1], [1, 0]]), reverse(a, 1)[:, 0:3] [0:4], axis = 0)\n z = update(a, slice(a, s, 2) * 2, "
     "1)\n"
     " loss = sum(y^2) + sum(cumsum(z, 0)^2) + sum(variance(c, axis = 1)) + sum(a[::2, -1] * a[3, 0:2])\n" TRAIN},
    {"masks", "dim S <= 6\nmodel m {\n input x : f32[S, 3]\n w = param [3, 3] init normal(1.0)\n y = x @ w\n"
              " p = softmax(where(y > 0, y, -inf))\n loss = mean(p * y) + mean(y, where = y < 0.5)^2 + sum(dropout(y, "
              "0.25))\n" TRAIN},
};

static double loss_of(const Graph *g, const EvalEnv *env) {
    Arena *a = arena_new();
    const char *error = NULL;
    Tensor *values = graph_eval(a, g, env, &error);
    if (!values) fail_msg("forward: %s", error);
    double loss = values[g->results.at[0].value->id].data[0];
    arena_free(a);
    return loss;
}

static void compare(const Case *c, const Graph *forward, EvalEnv *env, const TensorDecl *d, Tensor *param,
                    const Tensor *gradient, int64_t k) {
    const double step = 1e-5, x = param->data[k];
    param->data[k] = x + step;
    double up = loss_of(forward, env);
    param->data[k] = x - step;
    double down = loss_of(forward, env);
    param->data[k] = x;
    double want = (up - down) / (2 * step), got = gradient->data[k];
    if (!(fabs(got - want) <= 2e-5 * (1 + fabs(want))))
        fail_msg("%s: d loss / d %s[%lld] is %.9g, not %.9g", c->name, d->name, (long long)k, got, want);
}

static void check_case(const Case *c) {
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT], *f[ENTRY_COUNT];
    unsigned seed = 3;
    lower_text(a, c->text, g);
    lower_text(a, c->text, f);
    EvalEnv env = started_env(a, g[ENTRY_INIT], &seed);
    keep_outputs(f[ENTRY_GRAD]);
    PassContext pass = {.arena = a};
    Graph *back = pass_jacobian_gemm(
        &pass, pass_canonicalize(&pass, pass_autodiff(&pass, pass_canonicalize(&pass, g[ENTRY_GRAD]))));
    const char *error = graph_verify(a, back);
    if (error) fail_msg("%s: %s", c->name, error);
    Tensor *values = graph_eval(a, back, &env, &error);
    if (!values) fail_msg("%s: %s", c->name, error);
    int gradients = 0;
    for (int i = 0; i < back->results.n; i++) {
        const Result *r = &back->results.at[i];
        if (r->kind != RESULT_GRAD) continue;
        Tensor *param = (Tensor *)&env.params[r->decl];
        int64_t n = tensor_elements(param);
        for (int k = 0; k < 6 && k < n; k++)
            compare(c, f[ENTRY_GRAD], &env, &back->model->params.at[r->decl], param, &values[r->value->id],
                    k * (n - 1) / 5 % n);
        gradients++;
    }
    assert_int_equal(gradients, back->model->params.n);
    arena_free(a);
}

static void whole_programs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

/* One update of w = 2 where the gradient of the loss w*w/2 is w, worked out by hand. */
static void optimizer_steps(void **state) {
    (void)state;
    static const struct {
        const char *with;
        double want;
    } updates[] = {
        {"sgd(lr = 0.1)", 1.8},
        {"momentum(lr = 0.1)", 1.8},
        {"adam(lr = 0.1)", 1.9},
        {"adamw(lr = 0.1, decay = 0.5)", 1.8},
        {"sgd(lr = 0.1) clip_norm 1.0", 1.9},
        {"sgd(lr = 0.1) clip_norm 3", 1.8},
        {"sgd(lr = warmup_cosine(1.0, 10, 100))", 1.8},
    };
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
        Arena *a = arena_new();
        Graph *g[ENTRY_COUNT];
        unsigned seed = 1;
        lower_text(a,
                   arena_printf(a,
                                "model m {\n w = param [1] init constant(2.0)\n loss = sum(w^2) / 2\n output loss\n "
                                "train loss with %s\n}\n",
                                updates[i].with),
                   g);
        EvalEnv env = started_env(a, g[ENTRY_INIT], &seed);
        PassContext pass = {.arena = a};
        Graph *step = pass_autodiff(&pass, g[ENTRY_STEP]);
        const char *error = NULL;
        Tensor *values = graph_eval(a, step, &env, &error);
        if (!values) fail_msg("%s: %s", updates[i].with, error);
        int seen = 0;
        for (int r = 0; r < step->results.n; r++) {
            if (step->results.at[r].kind != RESULT_PARAM) continue;
            double got = values[step->results.at[r].value->id].data[0];
            if (!(fabs(got - updates[i].want) < 1e-6))
                fail_msg("%s: %.9g, not %.9g", updates[i].with, got, updates[i].want);
            seen++;
        }
        assert_int_equal(seen, 1);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_programs), cmocka_unit_test(optimizer_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
