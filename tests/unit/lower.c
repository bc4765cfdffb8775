/* Lowered programs, evaluated in float64, against numbers worked out by hand. */
#include "frontend/frontend.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* `top` stands before the model, `body` in it; the output y is compared. */
typedef struct Case {
    const char *name, *top, *body;
    int n;
    double want[16];
} Case;

static bool lower_text(Arena *a, Diag *d, const char *text, Graph *graphs[ENTRY_COUNT]) {
    char path[] = "/tmp/fusec-lower-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    Program *p = program_load(a, d, path, &(FrontendOptions){0});
    unlink(path);
    return p && program_lower(a, d, p, NULL, graphs);
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void must_lower(Arena *a, const char *text, Graph *graphs[ENTRY_COUNT]) {
    Diag *d = diag_new(a);
    if (!lower_text(a, d, text, graphs)) {
        diag_print(d, stderr);
        fail_msg("does not lower:\n%s", text);
    }
    for (int e = 0; e < ENTRY_COUNT; e++) {
        const char *bad = graphs[e] ? graph_verify(a, graphs[e]) : NULL;
        if (bad) fail_msg("%s: %s\n%s", entry_name[e], bad, text);
    }
}

static const Tensor *result_of(Arena *a, const Graph *g, const EvalEnv *env, ResultKind kind, int decl) {
    const char *error = NULL;
    Tensor *values = graph_eval(a, g, env, &error);
    if (!values) fail_msg("evaluation: %s", error);
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].kind == kind && g->results.at[i].decl == decl) return &values[g->results.at[i].value->id];
    fail_msg("no such result");
    return NULL;
}

static void expect(const char *name, const Tensor *t, int n, const double *want) {
    if (tensor_elements(t) != n) fail_msg("%s: %lld elements, not %d", name, (long long)tensor_elements(t), n);
    for (int i = 0; i < n; i++) {
        bool same = isinf(want[i]) ? t->data[i] == want[i] : fabs(t->data[i] - want[i]) <= 1e-6 * (1 + fabs(want[i]));
        if (!same) fail_msg("%s: element %d is %.9g, not %.9g", name, i, t->data[i], want[i]);
    }
}

static const Case cases[] = {
    {"broadcast", "", "y = float(iota(2, axis = 0, rank = 2)) * 10 + float(iota(3))", 6, {0, 1, 2, 10, 11, 12}},
    {"precedence", "", "x = float(iota(2)) + 2\n y = -x^2", 2, {-4, -9}},
    {"power chain", "", "y = 2 * ones [1] ^ 3 ^ 2 + float(2^3^2)", 1, {514}},
    {"floor of ints", "let a = -7 / 2", "y = ones [1] * a", 1, {-4}},
    {"i32 floors", "", "y = (iota(5) - 2) / 2", 5, {-1, -1, 0, 0, 1}},
    {"mod", "", "y = mod(iota(5) - 2, 3)", 5, {1, 2, 0, 1, 2}},
    {"matmul", "", "a = reshape(float(iota(6)), [2, 3])\n y = a @ transpose(a)", 4, {5, 14, 14, 50}},
    {"matrix by vector", "", "a = reshape(float(iota(6)), [2, 3])\n y = a @ float(iota(3))", 2, {5, 14}},
    {"vector by matrix", "", "a = reshape(float(iota(6)), [2, 3])\n y = float(iota(2)) @ a", 3, {3, 4, 5}},
    {"dot", "", "y = float(iota(4)) @ float(iota(4))", 1, {14}},
    {"batched", "", "a = reshape(float(iota(4)), [2, 1, 2])\n y = a @ ones [2, 1]", 2, {1, 5}},
    {"indexed matmul",
     "",
     "a = reshape(float(iota(6)), [2, 3])\n y[i, j] = sum[k] a[i, k] * a[j, k] * 2",
     4,
     {10, 28, 28, 100}},
    {"index shift", "", "a = float(iota(4))\n y[i in 0..4] = a[i - 1]", 4, {0, 0, 1, 2}},
    {"index divisor", "", "a = float(iota(3)) + 1\n y[i in 0..6] = a[i / 2]", 6, {1, 0, 2, 0, 3, 0}},
    {"index floor", "", "a = float(iota(3)) + 1\n y[i in 0..6] = a[floor_div(i, 2)]", 6, {1, 1, 2, 2, 3, 3}},
    {"diagonal", "", "a = reshape(float(iota(9)), [3, 3])\n y[i] = a[i, i]", 3, {0, 4, 8}},
    {"outer", "", "a = float(iota(2)) + 1\n y[i, j] = a[i] * a[j]", 4, {1, 2, 2, 4}},
    {"index as value", "", "a = ones [3]\n y[i] = a[i] * float(i * i + 1)", 3, {1, 2, 5}},
    {"max window", "", "a = float(iota(5)) - 10\n y[i in 0..3] = max[r in 0..3] a[2*i + r - 1]", 3, {-9, -7, -6}},
    {"min window", "", "a = float(iota(5)) + 1\n y[i in 0..3] = min[r in 0..3] a[2*i + r - 1]", 3, {1, 2, 4}},
    {"prod leaves out", "", "a = float(iota(3)) + 2\n y[i in 0..2] = prod[r in 0..3] a[i + r]", 2, {24, 12}},
    {"empty max", "", "a = ones [2]\n y[i in 0..1] = max[r in 5..7] a[r + i]", 1, {-INFINITY}},
    {"empty sum", "", "a = ones [2]\n y[i in 0..1] = sum[r in 5..7] a[r + i] * 2", 1, {0}},
    {"sum of a sum", "", "a = float(iota(3))\n y[i in 0..2] = sum[r in 0..3] (a[r + i] + 1)", 2, {6, 5}},
    {"reduction binds tighter", "", "a = float(iota(3))\n c = ones [1]\n y[i] = sum[r] a[r]*a[r] + c[i]", 1, {6}},
    {"range from 1", "", "a = float(iota(5))\n y = sum[r in 1..3] a[r]", 1, {3}},
    {"nested reduction", "", "a = reshape(float(iota(6)), [2, 3])\n y = sum[i] (max[j] a[i, j])", 1, {7}},
    {"siblings", "", "a = float(iota(3))\n y = ones [1] * (sum[r] a[r] - sum[r] a[r]^2)", 1, {-2}},
    {"gather", "", "t = reshape(float(iota(6)), [3, 2])\n y = t[2 - iota(3)]", 6, {4, 5, 2, 3, 0, 1}},
    {"gather outside", "", "t = ones [2, 1]\n y = t[iota(4) - 1]", 4, {0, 1, 1, 0}},
    {"gather axis 1", "", "t = reshape(float(iota(6)), [2, 3])\n y = t[:, 2 - iota(2)]", 4, {2, 1, 5, 4}},
    {"indexed gather",
     "",
     "t = reshape(float(iota(6)), [3, 2])\n i = 2 - iota(3)\n y[n, c] = t[i[n], c] * 10",
     6,
     {40, 50, 20, 30, 0, 10}},
    {"gather along", "", "t = reshape(float(iota(6)), [3, 2])\n i = mod(iota(3), 2)\n y[n] = t[n, i[n]]", 3, {0, 3, 4}},
    {"two gathers", "", "t = reshape(float(iota(6)), [3, 2])\n i = iota(2)\n y[n] = t[i[n] + 1, i[n]]", 2, {2, 5}},
    {"gather in a sum", "", "t = float(iota(4)) + 1\n i = iota(3) * 2\n y = sum[n in 0..3] t[i[n]] * t[n]", 1, {7}},
    {"gather leaves out", "", "t = float(iota(4)) - 9\n i = iota(3) * 2\n y = max[n] t[i[n]]", 1, {-7}},
    {"function of elements",
     "fn f(u) { v = u + 1\n return v * v }",
     "a = float(iota(3))\n y[i] = f(a[i])",
     3,
     {1, 4, 9}},
    {"where of elements",
     "",
     "a = float(iota(4))\n y[i, j in 0..4] = where(j <= i, a[i], -1)",
     16,
     {0, -1, -1, -1, 1, 1, -1, -1, 2, 2, 2, -1, 3, 3, 3, 3}},
    {"slices",
     "",
     "a = float(iota(10))\n y = concat(a[2:5], a[::4], a[-2:], a[5:1:-2], axis = 0)",
     10,
     {2, 3, 4, 0, 4, 8, 8, 9, 5, 3}},
    {"ellipsis", "", "a = reshape(float(iota(8)), [2, 2, 2])\n y = a[1, ..., 0]", 2, {4, 6}},
    {"transpose list",
     "",
     "a = reshape(float(iota(6)), [1, 2, 3])\n y = transpose(a, [2, 0, 1])",
     6,
     {0, 3, 1, 4, 2, 5}},
    {"pad", "", "y = pad(float(iota(2)), [[1, 2]], value = 9)", 5, {9, 0, 1, 9, 9}},
    {"reverse", "", "y = reverse(reshape(iota(4), [2, 2]), 1)", 4, {1, 0, 3, 2}},
    {"split sizes", "", "a, b = split(float(iota(5)), [2, 3], axis = 0)\n y = sum(a) * 10 + sum(b)", 1, {19}},
    {"swap", "", "a, b = 1, 2\n a, b = b, a\n y = ones [1] * (10*a + b)", 1, {21}},
    {"reshape -1", "", "y = sum(reshape(float(iota(6)), [2, -1]), axis = 0)", 3, {3, 5, 7}},
    {"axis range", "", "a = reshape(float(iota(8)), [2, 2, 2])\n y = sum(a, axis = 0..-1)", 2, {12, 16}},
    {"axis list", "", "a = reshape(float(iota(8)), [2, 2, 2])\n y = max(a, axis = [0, -1])", 2, {5, 7}},
    {"mean where", "", "a = float(iota(4))\n y = mean(a, where = a > 1)", 1, {2.5}},
    {"mean nowhere", "", "a = float(iota(4))\n y = mean(a, where = a > 9)", 1, {0}},
    {"variance", "", "y = variance(float(iota(4)))", 1, {1.25}},
    {"argmax first", "", "a = where(iota(4) >= 2, 1.0, 0.0)\n y = argmax(a)", 1, {2}},
    {"cumsum", "", "y = cumsum(float(iota(4)), axis = 0, exclusive = true)", 4, {0, 0, 1, 3}},
    {"softmax", "", "y = softmax(reshape(float(iota(2)) * 1000, [1, 2]))", 2, {0, 1}},
    {"masked softmax", "", "m = iota(2) > 5\n y = softmax(where(m, float(iota(2)), -inf))", 2, {0, 0}},
    {"log softmax", "", "y = exp(log_softmax(zeros [4]))", 4, {0.25, 0.25, 0.25, 0.25}},
    {"logsumexp", "", "y = exp(logsumexp(float(iota(2)) + 100) - 100)", 1, {1 + 2.718281828459045}},
    {"cross entropy", "", "y = cross_entropy(zeros [2, 4], iota(2), ignore = 1)", 2, {1.3862943611198906, 0}},
    {"relu at 0", "", "y = relu(float(iota(3)) - 1)", 3, {0, 0, 1}},
    {"leaky relu", "", "y = leaky_relu(float(iota(3)) - 1, 0.25)", 3, {-0.25, 0, 1}},
    {"elu", "", "y = elu(1000 * (float(iota(3)) - 1), alpha = 2)", 3, {-2, 0, 1000}},
    {"log sigmoid", "", "y = logsigmoid(100 * (float(iota(3)) - 1))", 3, {-100, -0.6931471805599453, 0}},
    {"gaussian",
     "",
     "z = gaussian([5000])\n y = ones [1] * float(abs(mean(z)) < 0.06 and abs(mean(z^2) - 1) < 0.08 and abs(mean(z^4) - 3) < 0.6)",
     1,
     {1}},
    {"group norm",
     "",
     "a = reshape(float(iota(8)), [1, 2, 4])\n y = reshape(groupnorm(a, 2, eps = 0) as g, [8]) * sqrt(4.25)",
     8,
     {-2.5, -1.5, -2.5, -1.5, 1.5, 2.5, 1.5, 2.5}},
    {"huber", "", "y = huber(float(iota(3)))", 3, {0, 0.5, 1.5}},
    {"heads", "", "a = reshape(float(iota(8)), [1, 2, 4])\n y = to_heads(a, 2)", 8, {0, 1, 4, 5, 2, 3, 6, 7}},
    {"heads back",
     "",
     "a = reshape(float(iota(8)), [1, 2, 4])\n y = from_heads(to_heads(a, 2))",
     8,
     {0, 1, 2, 3, 4, 5, 6, 7}},
    {"max pool", "", "a = reshape(float(iota(9)), [1, 3, 3, 1])\n y = max_pool2d(a, 2, 1)", 4, {4, 5, 7, 8}},
    {"one extent is what is left", "", "y = reshape(reshape(float(iota(4)), [2, -1]), [-1, 1, 4])", 4, {0, 1, 2, 3}},
    {"refuses only where it is called",
     "fn f(k) { return if is_integer(k) then 2 * k else fail(\"k must be an integer\", k) }",
     "y = ones [1] * f(3)",
     1,
     {6}},
    {"avg pool same",
     "",
     "a = reshape(float(iota(9)), [1, 3, 3, 1])\n y = avg_pool2d(a, 2, 2, padding = \"same\")",
     4,
     {2, 3.5, 6.5, 8}},
    {"mirrored", "", "y = mirrored(4, 2, 2)", 8, {2, 1, 0, 1, 2, 3, 2, 1}},
    {"slice at run time", "", "a = float(iota(5))\n y = slice(a, iota(1)[0] + 2, 2)", 2, {2, 3}},
    {"update", "", "y = update(zeros [4], ones [2], 3)", 4, {0, 0, 0, 1}},
    {"defaults use earlier", "fn f(a, b = 2 * a) { return a + b }", "y = ones [1] * f(3)", 1, {9}},
    {"user hides library", "fn relu(x) { return x + 1 }", "y = relu(ones [1]) + 10 * gelu(zeros [1])", 1, {2}},
    {"if expression", "let n = 3\nlet k = if n > 2 then 4 else 5", "y = ones [1] * k", 1, {4}},
    {"order of tops", "let k = n * 2\nlet n = 3", "y = ones [1] * k", 1, {6}},
    {"return in if", "fn f(t) { if t { return 1 }\n return 2 }", "y = ones [1] * (10 * f(true) + f(false))", 1, {12}},
    {"repeat", "", "x = ones [1]\n repeat 4 { x = x + x }\n y = x", 1, {16}},
    {"state outside training", "", "state n = zeros [2]\n n <- n + 3\n y = n * 2", 2, {6, 6}},
    {"clamp", "", "y = clamp(float(iota(4)), 1, 2)", 4, {1, 1, 2, 2}},
    {"dropout at inference", "", "y = dropout(ones [2], 0.5)", 2, {1, 1}},
    {"names are separate", "fn sum2(sum2) { return sum2 + sum2 }", "sum2 = ones [1]\n y = sum2(sum2)", 1, {2}},
};

static void evaluates_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        Arena *a = arena_new();
        Graph *graphs[ENTRY_COUNT];
        must_lower(a, arena_printf(a, "%s\nmodel m {\n %s\n output y\n}\n", c->top, c->body), graphs);
        Tensor zero = {.rank = 1, .dim = {2}, .data = (double[]){0, 0}};
        EvalEnv env = {.states = &zero};
        Tensor *params =
            ARENA_ARRAY(a, Tensor, graphs[ENTRY_INFER]->model->params.n + 1); /* as entry init makes them */
        for (int k = 0; k < graphs[ENTRY_INFER]->model->params.n; k++)
            params[k] = *result_of(a, graphs[ENTRY_INIT], &env, RESULT_PARAM, k);
        env.params = params;
        expect(c->name, result_of(a, graphs[ENTRY_INFER], &env, RESULT_OUTPUT, 0), c->n, c->want);
        arena_free(a);
    }
}

static void bounded_extents(void **state) {
    (void)state;
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT];
    must_lower(a,
               "dim S <= 8\nmodel m {\n input x : f32[S, 2]\n output y = mean(x, axis = 0)\n"
               " output z = x[0:S] + float(iota(S, axis = 0, rank = 2))\n output w = mean(x)\n"
               " output l = max[i] x[i, 0]\n output r = reverse(x, 0)\n e[i] = x[S - 1 - i, 0] - x[i, 1]\n output e\n"
               " f[i in 0..2] = max[j in 0..3] (x[i + j, 0] - 1)\n output f\n output g = x[S - 1 : S]\n"
               " p = reshape(pad(x, [[1, 0], [0, 0]]), [-1])\n output p\n}\n",
               g);
    double data[] = {-5, 2, -3, 4, -1, 6};
    Tensor x = {.rank = 2, .dim = {3, 2}, .data = data};
    int64_t three = 3;
    EvalEnv env = {.syms = &three, .inputs = &x};
    expect("mean by column", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 0), 2, (double[]){-3, 4});
    expect("slice", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 1), 6, (double[]){-5, 2, -2, 5, 1, 8});
    expect("mean", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 2), 1, (double[]){0.5});
    expect("max", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 3), 1, (double[]){-1});
    expect("reverse", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 4), 6, (double[]){-1, 6, -3, 4, -5, 2});
    expect("mirrored read", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 5), 3, (double[]){-3, -7, -11});
    expect("window past the end", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 6), 2, (double[]){-2, -2});
    expect("last row", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 7), 2, (double[]){-1, 6});
    expect("padded", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 8), 8, (double[]){0, 0, -5, 2, -3, 4, -1, 6});
    arena_free(a);
}

/* Windows over 2*S rows, at S = 2: strides divide what is declared as a multiple, offsets round down. */
static void bounded_windows(void **state) {
    (void)state;
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT];
    must_lower(a,
               "dim S <= 5\nmodel m {\n input x : f32[1, 2*S, 2, 1]\n output y = max_pool2d(x, 2)\n"
               " output z = max_pool2d(x[:, 1:], 2)\n output w = avg_pool2d(x, 2, stride = 2, padding = \"same\")\n"
               " output c = conv2d(x, 1, 3, stride = 2, bias = false) as c\n"
               " output r = reshape(y, [-1, 1]) + float(iota(floor_div(2 * S + 1, 2), axis = 0, rank = 2))\n}\n",
               g);
    double data[] = {1, 2, 3, 4, 5, 6, 7, -8}, ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    Tensor x = {.rank = 4, .dim = {1, 4, 2, 1}, .data = data}, k = {.rank = 4, .dim = {3, 3, 1, 1}, .data = ones};
    int64_t two = 2;
    EvalEnv env = {.syms = &two, .inputs = &x, .params = &k};
    expect("pool", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 0), 2, (double[]){4, 7});
    expect("pool of 2*S - 1", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 1), 1, (double[]){6});
    expect("average", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 2), 2, (double[]){2.5, 2.5});
    expect("stride", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 3), 2, (double[]){21, 10});
    expect("rounded down", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 4), 2, (double[]){4, 8});
    arena_free(a);
}

/* Convolutions with known kernels come from parameters, given in order of declaration. */
static void convolutions(void **state) {
    (void)state;
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT];
    must_lower(a,
               "model m {\n x = reshape(float(iota(9)), [1, 3, 3, 1])\n"
               " output s = conv2d(x, 1, 3, bias = false) as same\n"
               " output v = conv2d(x, 1, 2, padding = \"valid\", bias = false) as valid\n"
               " output t = conv_transpose2d(x[:, 0:2, 0:2], 1, 2, 2, bias = false) as up\n"
               " output d = conv2d(concat(x, x + 1, axis = 3), 2, 1, groups = 2, bias = false) as grouped\n}\n",
               g);
    double ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, k[4] = {1, 2, 3, 4}, pair[2] = {1, 10};
    Tensor params[4] = {{.rank = 4, .dim = {3, 3, 1, 1}, .data = ones},
                        {.rank = 4, .dim = {2, 2, 1, 1}, .data = ones},
                        {.rank = 4, .dim = {2, 2, 1, 1}, .data = k},
                        {.rank = 4, .dim = {1, 1, 1, 2}, .data = pair}};
    EvalEnv env = {.params = params};
    expect("same", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 0), 9,
           (double[]){8, 15, 12, 21, 36, 27, 20, 33, 24});
    expect("valid", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 1), 4, (double[]){8, 12, 20, 24});
    expect("transposed", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 2), 16,
           (double[]){0, 0, 1, 2, 0, 0, 3, 4, 3, 6, 4, 8, 9, 12, 12, 16});
    const Tensor *d = result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 3);
    assert_int_equal(tensor_elements(d), 18);
    assert_true(fabs(d->data[6] - 3) < 1e-9 && fabs(d->data[7] - 40) < 1e-9);
    arena_free(a);
}

static const char *const trained =
    "layer pair(x) { return dense(dense(x) as a) }\n"
    "layer dense(x) { w = param [x.dim(-1), 2] init normal(0.5)\n return x @ w }\n"
    "model m {\n input x : f32[4, 2]\n repeat 2 as h { x = pair(x) }\n x = x * (param [2] init ones as g)\n"
    " loss = mean(x^2)\n output loss\n"
    " train loss with adam(lr = hyper 0.1) only \"h.0.*\", \"g\" clip_norm 2.0\n}\n";

static void training_tables(void **state) {
    (void)state;
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT];
    must_lower(a, trained, g);
    const Model *m = g[ENTRY_STEP]->model;
    const char *const paths[] = {"h.0.a.w", "h.0.w", "h.1.a.w", "h.1.w", "g"};
    assert_int_equal(m->params.n, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(m->params.at[i].name, paths[i]);
        assert_int_equal(m->params.at[i].trainable, i < 2 || i == 4);
    }
    assert_int_equal(m->states.n, 6);
    assert_string_equal(m->states.at[0].name, "h.0.a.w.m");
    assert_string_equal(m->states.at[5].name, "g.v");
    assert_int_equal(m->hypers.n, 1);
    assert_string_equal(m->hypers.at[0].name, "lr");
    int grads = 0, news = 0, states = 0;
    for (int i = 0; i < g[ENTRY_GRAD]->results.n; i++) grads += g[ENTRY_GRAD]->results.at[i].kind == RESULT_GRAD;
    for (int i = 0; i < g[ENTRY_STEP]->results.n; i++) news += g[ENTRY_STEP]->results.at[i].kind == RESULT_PARAM;
    for (int i = 0; i < g[ENTRY_STEP]->results.n; i++) states += g[ENTRY_STEP]->results.at[i].kind == RESULT_STATE;
    assert_int_equal(grads, 3);
    assert_int_equal(news, 3);
    assert_int_equal(states, 6);
    arena_free(a);
}

/* Options and `use`: what -D says replaces values, a user's definition hides the library's for the user only. */
static void files_and_overrides(void **state) {
    (void)state;
    Arena *a = arena_new();
    Diag *d = diag_new(a);
    Graph *g[ENTRY_COUNT];
    char dir[] = "/tmp/fusec-use-XXXXXX";
    assert_non_null(mkdtemp(dir));
    const char *used = arena_printf(a, "%s/used.dsl", dir), *path = arena_printf(a, "%s/main.dsl", dir);
    write_text(used, "use \"./main.dsl\"\nfn helper(x) { return exp(x) * k }\nlet k = 3.0\n");
    write_text(path, "use \"used.dsl\"\ndim N = 2\nfn exp(x) { return x + 1 }\nmodel other { output z = ones [1] }\n"
                     "model m {\n output y = helper(ones [N])\n output s = softmax(zeros [N])\n}\n");
    const Override o[] = {{"N", "3"}, {"k", "5"}};
    Program *p = program_load(a, d, path, &(FrontendOptions){.overrides = o, .n_overrides = 2, .model = "m"});
    Diag *doubt = diag_new(a);
    Program *either = program_load(a, doubt, path, &(FrontendOptions){0});
    assert_non_null(either);
    assert_false(program_lower(a, doubt, either, NULL, g)); /* which of the two? */
    assert_int_equal(diag_errors(doubt), 1);
    unlink(used), unlink(path), rmdir(dir);
    assert_non_null(p);
    assert_int_equal(program_models(p), 2);
    assert_true(program_lower(a, d, p, NULL, g));
    assert_null(g[ENTRY_STEP]);
    assert_string_equal(g[ENTRY_INFER]->model->name, "m");
    EvalEnv env = {0};
    expect("override", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 0), 3, (double[]){10, 10, 10});
    expect("library's own", result_of(a, g[ENTRY_INFER], &env, RESULT_OUTPUT, 1), 3,
           (double[]){1 / 3.0, 1 / 3.0, 1 / 3.0});
    arena_free(a);
}

/* The initial values: normal with the deviation asked for, each parameter another stream, states zero. */
static void initial_values(void **state) {
    (void)state;
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT];
    must_lower(
        a,
        "model m {\n a = param [50, 40] init normal(0.5)\n b = param [50, 40] init normal(0.5)\n"
        " c = param [40, 10] init kaiming\n d = param [3] init constant(7)\n e = param [1000] init uniform(-1, 3)\n"
        " state s = d + 1\n s <- s + 1\n output y = sum(a) + sum(b) + sum(c) + sum(d) + sum(e)\n}\n",
        g);
    EvalEnv env = {.seed = 5};
    const Tensor *p[5];
    double mean[5], square[5];
    for (int i = 0; i < 5; i++) {
        p[i] = result_of(a, g[ENTRY_INIT], &env, RESULT_PARAM, i);
        mean[i] = square[i] = 0;
        int64_t n = tensor_elements(p[i]);
        for (int64_t k = 0; k < n; k++) mean[i] += p[i]->data[k] / (double)n;
        for (int64_t k = 0; k < n; k++) square[i] += p[i]->data[k] * p[i]->data[k] / (double)n;
    }
    assert_true(fabs(mean[0]) < 0.05 && fabs(sqrt(square[0]) - 0.5) < 0.03);
    assert_true(fabs(sqrt(square[2]) - sqrt(2.0 / 40)) < 0.03);
    assert_true(fabs(mean[4] - 1) < 0.1);
    assert_true(p[0]->data[0] != p[1]->data[0]);
    expect("constant", p[3], 3, (double[]){7, 7, 7});
    expect("state", result_of(a, g[ENTRY_INIT], &env, RESULT_STATE, 0), 3, (double[]){8, 8, 8});
    arena_free(a);
}

/* A sum of a product of reads is one contraction, whatever the index arithmetic. */
static void one_contraction(void **state) {
    (void)state;
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT];
    must_lower(a,
               "model m {\n input x : f32[2, 8, 8, 3]\n k = param [3, 3, 3, 4] init kaiming\n"
               " y[n, h in 0..4, w in 0..4, f] = sum[r, s, c] x[n, 2*h + r - 1, 2*w + s - 1, c] * k[r, s, c, f]\n "
               "output y\n}\n",
               g);
    int contracts = 0;
    for (int i = 0; i < g[ENTRY_INFER]->nodes.n; i++) contracts += g[ENTRY_INFER]->nodes.at[i]->op == OP_CONTRACT;
    assert_int_equal(contracts, 1);
    assert_int_equal(g[ENTRY_INFER]->nodes.n, 3);
    arena_free(a);
}

/* A node's place is in the user's file, also inside library functions. */
static void places_are_the_users(void **state) {
    (void)state;
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT];
    must_lower(a, trained, g);
    for (int e = 0; e <= ENTRY_STEP; e++)
        for (int i = 0; i < g[e]->nodes.n; i++) {
            assert_int_equal(g[e]->nodes.at[i]->loc.file, 0);
            assert_true(g[e]->nodes.at[i]->loc.line > 0);
        }
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluates_cases),      cmocka_unit_test(files_and_overrides),
        cmocka_unit_test(bounded_extents),      cmocka_unit_test(bounded_windows),
        cmocka_unit_test(convolutions),         cmocka_unit_test(training_tables),
        cmocka_unit_test(initial_values),       cmocka_unit_test(one_contraction),
        cmocka_unit_test(places_are_the_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
