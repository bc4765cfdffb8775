/* jacobian, jvp and vjp of whole programs, alone, by batch, inside losses and of each other, against finite
 * differences of the forward graph in float64. */
#include "passes/pass.h"
#include "frontend/frontend.h"
#include "tests/support/lowered.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Declares x : f32[..] and defines y. */
typedef struct Case {
    const char *name, *dims, *text;
    bool batch; /* axis 0 of both */
} Case;

static const Case cases[] = {
    {"mlp", "", "input x : f32[3, 4]\n y = linear(tanh(linear(x, 5) as a), 2) as b", true},
    {"many outputs", "", "input x : f32[3, 2]\n y = linear(silu(linear(x, 4) as a), 9) as b", true},
    {"bottleneck", "",
     "input x : f32[7, 3, 2]\n h = linear(flatten(x), 2) as n\n y = linear(tanh(linear(sin(h), 9) as a), 8) as b",
     true},
    {"bottleneck of a batch", "",
     "input x : f32[7, 9]\n h = linear(tanh(linear(x, 9) as i), 1) as n\n y = linear(tanh(linear(h, 9) as a), 8) as b",
     true},
    {"bottleneck in sight", "", "input x : f32[9]\n h = sum(sin(x))\n y = (linear(expand_dims(h, 0), 9) as b) + x",
     false},
    {"residual", "", "input x : f32[2, 3, 3]\n y = x + tanh(linear(x, 3) as a)", true},
    {"pointwise", "", "input x : f32[3, 4]\n y = exp(x) * x + 1.0", true},
    {"identity", "", "input x : f32[2, 3]\n y = x", true},
    {"scalar", "", "input x : f32[3]\n y = sum(x^3)", false},
    {"of a scalar", "", "input x : f32[]\n y = sin(x * (param [4] init normal(1.0) as w))", false},
    {"scalars", "", "input x : f32[]\n y = x * tanh(x)", false},
    {"empty", "", "input x : f32[0, 3]\n y = x @ (param [3, 2] init normal(1.0) as w)", true},
    {"ones", "", "input x : f32[1, 1]\n y = linear(x, 1) as w", true},
    {"norm", "", "input x : f32[3, 4]\n y = layernorm(x) as n", true},
    {"across the batch", "", "input x : f32[4, 3]\n y = (x - mean(x, axis = 0)) * rsqrt(variance(x, axis = 0) + 0.1)",
     true},
    {"few outputs across the batch", "",
     "input x : f32[4, 5]\n y = (x * sum(x, axis = 0)) @ (param [5, 2] init normal(1.0) as w)", true},
    {"wide across the batch", "", "input x : f32[4, 2]\n y = cumsum(x, 0) @ (param [2, 6] init normal(1.0) as w)",
     true},
    {"attention", "", "input x : f32[2, 3, 4]\n y = self_attention(x, 2) as at", true},
    {"convolution", "", "input x : f32[2, 5, 4, 2]\n y = conv2d(x, 3, 3, stride = 2) as c", true},
    {"transposed convolution", "", "input x : f32[1, 3, 2, 2]\n y = conv_transpose2d(x, 2, 3, 2) as c", true},
    {"pooling", "", "input x : f32[2, 4, 4, 2]\n y = max_pool2d(x * x, 2)", true},
    {"softmax", "", "input x : f32[3, 5]\n y = softmax(where(x > -0.7, x, -inf))", true},
    {"flat", "", "input x : f32[2, 3, 4]\n y = linear(flatten(x), 3) as w", true},
    {"parts", "", "input x : f32[2, 6]\n a, b = split(x, 2, axis = 1)\n y = concat(a * b, b, a[:, ::2], axis = 1)",
     true},
    {"turned", "",
     "input x : f32[2, 3, 4]\n y = transpose(reverse(x, 1)) * 2.0 + pad(transpose(x), [[0, 0], [0, 0], [0, 0]])", true},
    {"gathered", "", "input i : i32[3] in 0..4\n input x : f32[4, 2]\n y = x[i] * 2.0 + x[i]^2", false},
    {"picked", "", "input i : i32[3] in 0..4\n input x : f32[2, 4, 2]\n y[b, n, c] = x[b, i[n], c] * x[b, 0, c]", true},
    {"at a place", "", "input s : i32[] in 0..3\n input x : f32[5, 2]\n y = update(x * x, slice(x, s, 2), 1)", false},
    {"diagonal", "", "input x : f32[4, 4]\n y[i] = x[i, i] * x[i, 0]", true},
    {"trace", "", "input x : f32[4, 4]\n y = sum[i] x[i, i]", false},
    {"strided", "",
     "input x : f32[2, 9]\n k = param [3] init normal(1.0)\n y[n, i in 0..6] = sum[r] x[n, (2*i + r - 1) / 1] * k[r]",
     true},
    {"over a divisor", "",
     "input x : f32[5]\n k = param [3] init normal(1.0)\n y[i in 0..9] = sum[r] x[(i + r - 1) / 2] * k[r]", false},
    {"products", "", "input x : f32[2, 3]\n y = prod(x, axis = 1) * cumprod(x, 1)[:, 2] + max(x, axis = 1)", true},
    {"quadratic", "", "input x : f32[3, 3]\n y = x @ x", false},
    {"bounded", "dim S <= 5\n", "input x : f32[S, 3]\n y = linear(tanh(linear(x, 4) as a), 2) as b", true},
    {"bounded both", "dim S <= 4, T <= 3\n", "input x : f32[S, T]\n y = softmax(x) * sum(x, axis = 0)", true},
    {"bounded sums", "dim S <= 4\n", "input x : f32[S, 2]\n y = sum(x^2, axis = 0) / float(S)", false},
    {"bounded window", "dim S <= 3\n", "input x : f32[2*S, 2]\n y = cumsum(x[:S], 0) * reverse(x[:S], 0)", false},
    {"steps", "", "input x : f32[3]\n y = sign(x) * x + floor(4.0 * x)", false},
};

/* The value of the result of this kind and declaration; the graph's results all, if it is named NULL. */
static Tensor value_of(Arena *a, const Graph *g, const EvalEnv *env, ResultKind kind, const char *name) {
    const char *error = graph_verify(a, g);
    Tensor *values = error ? NULL : graph_eval(a, g, env, &error);
    if (!values) fail_msg("%s", error);
    for (int i = 0; i < g->results.n; i++) {
        const Result *r = &g->results.at[i];
        const char *of = kind == RESULT_OUTPUT ? g->model->outputs.at[r->decl].name : g->model->params.at[r->decl].name;
        if (r->kind == kind && strcmp(of, name) == 0) return values[r->value->id];
    }
    fail_msg("no result %s", name);
    return (Tensor){0};
}

static Tensor output(Arena *a, const Graph *g, const EvalEnv *env, const char *name) {
    return value_of(a, g, env, RESULT_OUTPUT, name);
}

static Graph *whole(PassContext *c, Graph *g) {
    g = pass_parts_of_product(c, pass_canonicalize(c, g));
    g = pass_canonicalize(c, pass_autodiff(c, g));
    return pass_canonicalize(c, pass_together(c, pass_jacobian_gemm(c, g)));
}

/* [y elements][x elements], by differences of output "y" by input "x". */
static double *differences(Arena *a, const Graph *g, EvalEnv *env, Tensor *x, int64_t nx, int64_t ny) {
    double *d = ARENA_ARRAY(a, double, nx *ny + 1), h = 1e-5;
    for (int64_t i = 0; i < nx; i++) {
        Arena *round = arena_new();
        const double kept = x->data[i];
        x->data[i] = kept + h;
        const Tensor up = output(round, g, env, "y");
        x->data[i] = kept - h;
        const Tensor down = output(round, g, env, "y");
        x->data[i] = kept;
        for (int64_t o = 0; o < ny; o++) d[o * nx + i] = (up.data[o] - down.data[o]) / (2 * h);
        arena_free(round);
    }
    return d;
}

static void expect(const Case *c, const char *what, int64_t i, double got, double want) {
    if (!(fabs(got - want) <= 2e-6 * (1 + fabs(want))))
        fail_msg("%s, %s[%d]: %.9g, not %.9g", c->name, what, (int)i, got, want);
}

static void check_outputs(const Case *c, Arena *a, const Graph *g, EvalEnv *env, const double *d, int64_t nx,
                          int64_t ny) {
    const Tensor j = output(a, g, env, "j"), jv = output(a, g, env, "jv"), uj = output(a, g, env, "uj");
    const Tensor u = output(a, g, env, "u"), v = output(a, g, env, "v");
    assert_int_equal(tensor_elements(&j), nx * ny);
    assert_int_equal(tensor_elements(&jv), ny);
    assert_int_equal(tensor_elements(&uj), nx);
    for (int64_t k = 0; k < nx * ny; k++) expect(c, "jacobian", k, j.data[k], d[k]);
    for (int64_t o = 0; o < ny; o++) {
        double sum = 0;
        for (int64_t i = 0; i < nx; i++) sum += d[o * nx + i] * v.data[i];
        expect(c, "jvp", o, jv.data[o], sum);
    }
    for (int64_t i = 0; i < nx; i++) {
        double sum = 0;
        for (int64_t o = 0; o < ny; o++) sum += d[o * nx + i] * u.data[o];
        expect(c, "vjp", i, uj.data[i], sum);
    }
}

/* [batch, y's others, x's others]: the derivative of the sum over y's batch. */
static void check_batch(const Case *c, Arena *a, const Graph *g, const EvalEnv *env, const Tensor *x, const double *d,
                        int64_t ny) {
    const Tensor j = output(a, g, env, "jb");
    const int64_t batch = x->dim[0], nx = tensor_elements(x);
    if (batch == 0) return assert_int_equal(tensor_elements(&j), 0);
    const int64_t xs = nx / batch, ys = ny / batch;
    assert_int_equal(tensor_elements(&j), batch * xs * ys);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t o = 0; o < ys; o++)
            for (int64_t i = 0; i < xs; i++) {
                double sum = 0;
                for (int64_t other = 0; other < batch; other++) sum += d[(other * ys + o) * nx + b * xs + i];
                expect(c, "jacobian by batch", (b * ys + o) * xs + i, j.data[(b * ys + o) * xs + i], sum);
            }
}

static int input_of(const Model *m, const char *name) {
    for (int i = 0; i < m->inputs.n; i++)
        if (strcmp(m->inputs.at[i].name, name) == 0) return i;
    fail_msg("no input %s", name);
    return -1;
}

static void check_case(const Case *c) {
    Arena *a = arena_new();
    Graph *plain[ENTRY_COUNT], *g[ENTRY_COUNT];
    unsigned seed = 5;
    PassContext pass = {.arena = a};
    lower_text(a, arena_printf(a, "%smodel m {\n %s\n output y\n}\n", c->dims, c->text), plain);
    lower_text(
        a,
        arena_printf(a,
                     "%smodel m {\n %s\n output j = jacobian(y, x)\n%s output u = sin(y + 1.0)\n output v = cos(x)\n"
                     " output jv = jvp(y, x, v)\n output uj = vjp(y, x, u)\n}\n",
                     c->dims, c->text, c->batch ? " output jb = jacobian(y, x, batch = 0)\n" : ""),
        g);
    EvalEnv env = started_env(a, plain[ENTRY_INIT], &seed);
    Tensor *x = (Tensor *)&env.inputs[input_of(plain[ENTRY_INFER]->model, "x")];
    const Tensor y = output(a, plain[ENTRY_INFER], &env, "y");
    const int64_t nx = tensor_elements(x), ny = tensor_elements(&y);
    const double *d = differences(a, plain[ENTRY_INFER], &env, x, nx, ny);
    Graph *const made[] = {pass_autodiff(&pass, g[ENTRY_INFER]), whole(&pass, g[ENTRY_INFER])};
    for (int i = 0; i < 2; i++) {
        check_outputs(c, a, made[i], &env, d, nx, ny);
        if (c->batch) check_batch(c, a, made[i], &env, x, d, ny);
    }
    assert_false(pass.failed);
    arena_free(a);
}

static void programs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

/* ---- inside losses --------------------------------------------------------------------------------------- */
#define TRAIN " output loss\n train loss with sgd(lr = 0.1)\n}\n"
static const char *const losses[] = {
    /* gradient penalty */
    "model m {\n input x : f32[3, 4]\n y = linear(tanh(linear(x, 5) as a), 1) as b\n g = jacobian(sum(y), x)\n"
    " loss = mean(y^2) + mean((sqrt(sum(g^2, axis = 1) + 1e-3) - 1.0)^2)\n" TRAIN,
    /* contractive: the whole Jacobian, by batch */
    "model m {\n input x : f32[3, 4]\n h = sigmoid(linear(x, 5) as a)\n loss = mean((linear(h, 4) as b - x)^2) + "
    "0.1 * sum(jacobian(h, x, batch = 0)^2)\n" TRAIN,
    /* a Hessian, its product with a vector, both ways */
    "model m {\n input x : f32[4]\n w = param [4, 4] init normal(0.7)\n e = sum(tanh(w @ reshape(x, [4, 1]))^2)\n"
    " g = jacobian(e, x)\n h = jacobian(g, x)\n p = jvp(g, x, x) - reshape(h @ reshape(x, [4, 1]), [4])\n"
    " loss = sum(h^2) + e + sum(vjp(g, x, x)^2) + sum(p)\n" TRAIN,
    /* by a parameter, and a third order */
    "model m {\n input x : f32[3]\n w = param [3] init normal(1.0)\n e = sum(exp(w * x) * w)\n"
    " loss = sum(jacobian(jacobian(jacobian(e, x), x), w)^2) + sum(jvp(e, w, x)^2)\n" TRAIN,
    /* by an inner value; u and v that are trained */
    "model m {\n input x : f32[2, 3]\n h = tanh(linear(x, 3) as a)\n y = (linear(h, 2) as b) * sum(h, axis = 1, keep = "
    "true)\n"
    " u = param [2, 2] init normal(1.0)\n v = param [2, 3] init normal(1.0)\n"
    " loss = sum(vjp(y, h, u)^2) + sum(jvp(y, h, v * h)^2) + sum(jacobian(y, h, batch = 0)) \n" TRAIN,
    /* convolutions and attention */
    "model m {\n input x : f32[1, 4, 4, 1]\n y = tanh(conv2d(x, 2, 3) as c)\n loss = sum(jacobian(mean(y, axis = [1, "
    "2]), x)^2)\n" TRAIN,
    "model m {\n input x : f32[1, 3, 4]\n y = self_attention(x, 2) as at\n loss = sum(jvp(y, x, x)^2) + "
    "sum(jacobian(y[0, 2], x)^2)\n" TRAIN,
    /* at 0, where |x| has a corner and softplus has none; far from 0 */
    "model m {\n input x : f32[4]\n z = param [4] init zeros\n b = param [4] init ones\n"
    " loss = sum(softplus(z) * x) + sum(logsigmoid(z) * b) + sum(sigmoid(40 * b) + sigmoid(-40 * b) * x)\n" TRAIN,
    /* parts, put together again: in one dim, in two, some of them twice, beside other terms */
    "model m {\n input x : f32[3, 8]\n w = param [8, 12] init normal(0.5)\n y = x @ w\n a, b, c = split(y, 3, axis = -1)\n"
    " loss = sum(sin(a) * b * c) + sum(y^3) + sum(a^2 * b)\n" TRAIN,
    "model m {\n input x : f32[2, 4, 8]\n w = param [8, 6] init normal(0.5)\n h = zeros [2, 3]\n t = 0\n repeat 4 {\n"
    "  a, b = split(x[:, t] @ w, 2, axis = -1)\n  h = sin(h + a) * b\n  t = t + 1\n }\n loss = sum(h * h)\n" TRAIN,
    "dim S <= 4\nmodel m {\n input x : f32[S, 3]\n y = softmax(linear(x, 3) as a)\n"
    " loss = sum(jacobian(y, x, batch = 0)^2) + mean(jvp(y, x, x)^2) + sum(jacobian(sum(y * y, axis = 0), "
    "x)^2)\n" TRAIN,
};

static double loss_of(const Graph *g, const EvalEnv *env) {
    Arena *a = arena_new();
    const double loss = output(a, g, env, "loss").data[0];
    arena_free(a);
    return loss;
}

static void check_loss(const char *text) {
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT], *f[ENTRY_COUNT];
    unsigned seed = 3;
    PassContext pass = {.arena = a};
    lower_text(a, text, g);
    lower_text(a, text, f);
    EvalEnv env = started_env(a, g[ENTRY_INIT], &seed);
    keep_outputs(f[ENTRY_GRAD]);
    Graph *forward = pass_autodiff(&pass, f[ENTRY_GRAD]), *back = whole(&pass, g[ENTRY_GRAD]);
    for (int p = 0; p < back->model->params.n; p++) {
        const char *name = back->model->params.at[p].name;
        const Tensor gradient = value_of(a, back, &env, RESULT_GRAD, name);
        Tensor *param = (Tensor *)&env.params[p];
        const int64_t n = tensor_elements(param);
        for (int64_t k = 0; k < n && k < 8; k++) {
            double *x = &param->data[n <= 8 ? k : k * (n - 1) / 7], kept = *x, h = 1e-5;
            *x = kept + h;
            const double up = loss_of(forward, &env);
            *x = kept - h;
            const double down = loss_of(forward, &env), want = (up - down) / (2 * h);
            *x = kept;
            const double got = gradient.data[x - param->data];
            if (!(fabs(got - want) <= 2e-5 * (1 + fabs(want))))
                fail_msg("d loss / d %s[%d] is %.9g, not %.9g:\n%s", name, (int)(x - param->data), got, want, text);
        }
    }
    assert_false(pass.failed);
    arena_free(a);
}

static void inside_losses(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) check_loss(losses[i]);
}

/* ---- what they cost ---------------------------------------------------------------------------------------- */
typedef struct Cost {
    int products;   /* contractions that sum */
    double terms;   /* of all contractions */
    int64_t widest; /* elements of the largest node */
} Cost;

static Cost cost_of(const char *text) {
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT];
    PassContext pass = {.arena = a};
    Cost c = {0};
    lower_text(a, text, g);
    const Graph *made = whole(&pass, g[ENTRY_INFER]);
    for (int i = 0; i < made->nodes.n; i++) {
        const Node *n = made->nodes.at[i];
        const Contract *k = n->attr->contract;
        double terms = 1;
        if (shape_elements(*n->shape) > c.widest) c.widest = shape_elements(*n->shape);
        if (n->op != OP_CONTRACT) continue;
        for (int l = 0; l < k->n_loops; l++) terms *= (double)k->extent[l].bound;
        c.products += k->n_loops > k->n_out;
        c.terms += terms;
    }
    arena_free(a);
    return c;
}

#define LAYERS " h = tanh(linear(x, 24) as a)\n h = tanh(linear(h, 20) as b)\n y = linear(h, 16) as c\n"
static void what_they_cost(void **state) {
    (void)state;
    /* all 16 rows at once: the products of one backward pass, of 16 seeds; the first product with the identity is a
     * view */
    Cost forward = cost_of("model m {\n input x : f32[8, 32]\n" LAYERS " output y\n}\n");
    Cost c = cost_of("model m {\n input x : f32[8, 32]\n" LAYERS " output j = jacobian(y, x, batch = 0)\n}\n");
    assert_int_equal(c.products - 2, 2); /* of the forward the first two */
    assert_true(c.terms <= forward.terms + 8 * 16 * (24 * 20 + 32 * 24) + 8 * 16 * 20);
    /* a product with all columns, and one with all rows: no product through the other side */
    c = cost_of("model m {\n input x : f32[8, 4]\n" LAYERS " output j = jacobian(y, x, batch = 0)\n}\n");
    assert_true(c.terms <= forward.terms + 8 * 4 * (24 * 20 + 20 * 16) + 8 * 4 * 24);
    /* forward mode leaves nothing of the two reverse sweeps that it is made of */
    c = cost_of("model m {\n input x : f32[8, 32]\n input v : f32[8, 32]\n" LAYERS " output j = jvp(y, x, v)\n}\n");
    assert_int_equal(c.products, 2 + 3);
    assert_true(c.terms < 2 * forward.terms);
    /* a diagonal is no matrix, neither alone nor in a product */
    c = cost_of("model m {\n input x : f32[64]\n input w : f32[64, 2]\n h = jacobian(jacobian(sum(tanh(x)^2), x), x)\n"
                " output p = transpose(w) @ (h @ w)\n}\n");
    assert_int_equal(c.widest, 128);
    assert_int_equal(c.products, 1);
    /* 2 seeds each way, and their product */
    c = cost_of("model m {\n input x : f32[64]\n h = linear(expand_dims(x, 0), 2) as n\n"
                " y = linear(tanh(linear(h, 64) as a), 64) as b\n output j = jacobian(y, x)\n}\n");
    assert_true(c.terms < 64 * 64 * 2 + 3 * 64 * 64 + 6 * 64 * 2 + 64 * 2 * 2 * 2);
}

/* A constant is a variable where a derivative by it is asked: another that is equal is another, and it is seen through
 * what moves it. */
static void by_constants(void **state) {
    (void)state;
    static const char text[] =
        "model m {\n input x : f32[3, 4]\n e = zeros [3, 4]\n same = zeros [3, 4]\n row = zeros [4]\n one = ones []\n"
        " y = sum(one * (x + e) * 2 + 3 * same + 5 * row)\n output de = jacobian(y, e)\n"
        " output dsame = jacobian(y, same)\n output drow = jacobian(y, row)\n output done = jacobian(y, one)\n}\n";
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT];
    unsigned seed = 5;
    PassContext pass = {.arena = a};
    lower_text(a, text, g);
    EvalEnv env = started_env(a, g[ENTRY_INIT], &seed);
    const Tensor *x = &env.inputs[0];
    double sum = 0;
    for (int i = 0; i < 12; i++) sum += 2 * x->data[i];
    Graph *const made[] = {pass_autodiff(&pass, g[ENTRY_INFER]), whole(&pass, g[ENTRY_INFER])};
    for (int i = 0; i < 2; i++) {
        static const Case c = {.name = "by constants"};
        expect(&c, "e", 0, output(a, made[i], &env, "de").data[0], 2);
        expect(&c, "same", 0, output(a, made[i], &env, "dsame").data[0], 3);
        expect(&c, "row", 0, output(a, made[i], &env, "drow").data[0], 15);
        expect(&c, "one", 0, output(a, made[i], &env, "done").data[0], sum);
    }
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs),
        cmocka_unit_test(by_constants),
        cmocka_unit_test(inside_losses),
        cmocka_unit_test(what_they_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
