/* checkpoint=sqrt: gradients equal to the bit, less memory, every value recomputed at most once. */
#include "tests/support/oracle.h"
#include "tests/support/random_graph.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

/* ---- programs ------------------------------------------------------------------------------------------ */
static Model *new_model(Arena *a) {
    Model *m = ARENA_NEW(a, Model);
    m->name = "m";
    TensorDecl loss = {.name = "loss", .dtype = DT_F32};
    vec_push(a, m->outputs, loss);
    return m;
}

static Node *declare(Graph *g, Op op, int64_t rows, int64_t cols) {
    Model *m = g->model;
    Shape s = shape_fixed(2, (int64_t[]){rows, cols});
    Attr attr = {.decl = op == OP_PARAM ? m->params.n : m->inputs.n, .dtype = DT_F32};
    TensorDecl d = {.name = arena_printf(g->arena, "%s%d", op_info[op].text, attr.decl),
                    .dtype = DT_F32,
                    .shape = s,
                    .trainable = true};
    if (op == OP_PARAM)
        vec_push(g->arena, m->params, d);
    else
        vec_push(g->arena, m->inputs, d);
    return graph_node(g, op, 0, NULL, &attr, DT_F32, s);
}

/* [M, K] x [K, N] -> [M, N] */
static Node *matmul(Graph *g, Node *x, Node *w) {
    Contract *c = ARENA_NEW(g->arena, Contract);
    *c = (Contract){
        .n_loops = 3, .n_out = 2, .n_operands = 2, .extent = {x->shape->dim[0], w->shape->dim[1], w->shape->dim[0]}};
    c->map = arena_alloc(g->arena, sizeof *c->map * 2);
    for (int o = 0; o < 2; o++)
        for (int d = 0; d < MAX_RANK; d++) c->map[o][d].divisor = 1;
    c->map[0][0].coef[0] = c->map[0][1].coef[2] = 1;
    c->map[1][0].coef[2] = c->map[1][1].coef[1] = 1;
    return graph_contract(g, 2, (Node *[]){x, w}, c);
}

static Node *scale(Graph *g, Node *x, double by) {
    return graph_binary(g, OP_MUL, x, graph_const(g, DT_F32, *x->shape, by));
}

/* Ends the program: loss = sum(x * x), an output, and its gradients by all parameters. */
static void finish(Graph *g, Node *x) {
    Node *loss = graph_reduce(g, OP_SUM, graph_binary(g, OP_MUL, x, x), 2, (int8_t[]){0, 1});
    graph_result(g, RESULT_OUTPUT, 0, loss);
    int n = g->nodes.n;
    for (int i = 0; i < n; i++) {
        Node *p = g->nodes.at[i];
        if (p->op == OP_PARAM)
            graph_result(g, RESULT_GRAD, p->attr->decl, graph_op(g, OP_GRADIENT, 2, (Node *[]){loss, p}, NULL));
    }
}

/* x <- x + tanh(x W) V, `layers` times. */
static Graph *residual(Arena *a, int layers) {
    enum { B = 16, D = 16 };
    Graph *g = graph_new(a, new_model(a), ENTRY_GRAD);
    Node *x = declare(g, OP_INPUT, B, D);
    for (int i = 0; i < layers; i++) {
        Node *h = graph_unary(g, OP_TANH, matmul(g, x, declare(g, OP_PARAM, D, D)));
        x = graph_binary(g, OP_ADD, scale(g, x, 0.5), scale(g, matmul(g, h, declare(g, OP_PARAM, D, D)), 0.25));
    }
    finish(g, x);
    return g;
}

/* A U: the way down is added, in reverse, on the way up. */
static Graph *skips(Arena *a, int depth) {
    enum { B = 8, D = 24 };
    Graph *g = graph_new(a, new_model(a), ENTRY_GRAD);
    Node *x = declare(g, OP_INPUT, B, D);
    Node **down = ARENA_ARRAY(a, Node *, depth);
    for (int i = 0; i < depth; i++)
        x = down[i] = graph_unary(g, OP_TANH, scale(g, matmul(g, x, declare(g, OP_PARAM, D, D)), 0.3));
    for (int i = depth - 1; i >= 0; i--)
        x = graph_binary(g, OP_ADD, graph_unary(g, OP_SIN, matmul(g, x, declare(g, OP_PARAM, D, D))), down[i]);
    finish(g, x);
    return g;
}

/* ---- running ------------------------------------------------------------------------------------------------- */
static Module *compile(Arena *a, Graph *g, CheckpointMode mode) {
    PassContext c = test_context(a, "host");
    c.checkpoint = mode;
    Graph *graphs[ENTRY_COUNT] = {[ENTRY_GRAD] = g};
    Module *m = compile_module(&c, graphs);
    assert_non_null(m);
    return m;
}

/* Gradients and loss of the same numbers under both; returns the modules. */
static void compare(Arena *a, Graph *(*build)(Arena *, int), int size, Module *m[2]) {
    void *grads[2];
    float loss[2] = {0};
    for (int i = 0; i < 2; i++) {
        Graph *g = build(a, size);
        m[i] = compile(a, g, i ? CHECKPOINT_SQRT : CHECKPOINT_NONE);
        TestRandom r = {42};
        TestData d = test_data(a, m[i], g->model, &r);
        const char *error = NULL;
        if (!module_run(a, m[i], ENTRY_GRAD, &d.mem, d.syms, &error)) fail_msg("%s", error);
        grads[i] = d.mem.grads;
        memcpy(&loss[i], d.mem.outputs[0], sizeof loss[i]);
    }
    assert_int_equal(m[0]->grads.n, m[1]->grads.n);
    for (int i = 0; i < m[0]->grads.n; i++) {
        const ModuleTensor *x = &m[0]->grads.at[i];
        for (int j = 0; j < m[1]->grads.n; j++) {
            const ModuleTensor *y = &m[1]->grads.at[j];
            if (strcmp(x->name, y->name)) continue;
            assert_memory_equal((char *)grads[0] + x->offset, (char *)grads[1] + y->offset, (size_t)x->bytes);
        }
    }
    assert_memory_equal(&loss[0], &loss[1], sizeof loss[0]);
    assert_true(isfinite(loss[0]) && loss[0] != 0);
}

static double flops(const Module *m) {
    double total = 0;
    const ModuleEntry *e = &m->entry[ENTRY_GRAD];
    for (int i = 0; i < e->launches.n; i++) total += kernel_cost(m->kernels.at[e->launches.at[i].kernel]).flops;
    return total;
}

static void residual_layers(void **state) {
    (void)state;
    static const struct {
        int layers;
        double ratio;
    } cases[] = {{1, 1.01}, {2, 1.01}, {3, 1.01}, {16, 0.6}, {100, 0.3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_new();
        Module *m[2];
        compare(a, residual, cases[i].layers, m);
        double memory = (double)m[1]->entry[ENTRY_GRAD].arena_bytes / (double)m[0]->entry[ENTRY_GRAD].arena_bytes;
        print_message("%d layers: memory %.3f (%lld), work %.3f\n", cases[i].layers, memory,
                      (long long)m[0]->entry[ENTRY_GRAD].arena_bytes, flops(m[1]) / flops(m[0]));
        assert_true(memory <= cases[i].ratio);
        assert_true(flops(m[1]) <= flops(m[0]) * 4 / 3 + 1);
        arena_free(a);
    }
}

static void skip_connections(void **state) {
    (void)state;
    for (int depth = 1; depth < 20; depth += 6) {
        Arena *a = arena_new();
        Module *m[2];
        compare(a, skips, depth, m);
        print_message("depth %d: memory %lld, was %lld\n", depth, (long long)m[1]->entry[ENTRY_GRAD].arena_bytes,
                      (long long)m[0]->entry[ENTRY_GRAD].arena_bytes);
        assert_true(m[1]->entry[ENTRY_GRAD].arena_bytes <= m[0]->entry[ENTRY_GRAD].arena_bytes);
        assert_true(flops(m[1]) <= flops(m[0]) * 4 / 3 + 1);
        arena_free(a);
    }
}

/* x <- x + a * (x - mean(x)) * rsqrt(var(x) + 1) per row: reductions and maps only, whose clones could be
 * fused into the forward kernels that read the same rows. */
static Graph *norms(Arena *a, int layers) {
    enum { B = 64, D = 32 };
    static const int8_t rows[] = {0}, last[] = {1};
    Graph *g = graph_new(a, new_model(a), ENTRY_GRAD);
    Node *x = declare(g, OP_INPUT, B, D);
    for (int i = 0; i < layers; i++) {
        Node *mean = scale(g, graph_reduce(g, OP_SUM, x, 1, last), 1.0 / D);
        Node *centered = graph_binary(g, OP_SUB, x, graph_broadcast(g, mean, *x->shape, rows));
        Node *var = scale(g, graph_reduce(g, OP_SUM, graph_binary(g, OP_MUL, centered, centered), 1, last), 1.0 / D);
        Node *r = graph_unary(g, OP_RSQRT, graph_binary(g, OP_ADD, var, graph_const(g, DT_F32, *var->shape, 1)));
        Node *y = graph_binary(g, OP_MUL, centered, graph_broadcast(g, r, *x->shape, rows));
        x = graph_binary(g, OP_ADD, x, graph_binary(g, OP_MUL, graph_unary(g, OP_TANH, y), declare(g, OP_PARAM, B, D)));
    }
    finish(g, x);
    return g;
}

static void reductions_and_maps(void **state) {
    (void)state;
    static const int layers[] = {1, 5, 40};
    for (int i = 0; i < 3; i++) {
        Arena *a = arena_new();
        Module *m[2];
        compare(a, norms, layers[i], m);
        double memory = (double)m[1]->entry[ENTRY_GRAD].arena_bytes / (double)m[0]->entry[ENTRY_GRAD].arena_bytes;
        print_message("%d norms: memory %.3f (%lld)\n", layers[i], memory,
                      (long long)m[0]->entry[ENTRY_GRAD].arena_bytes);
        assert_true(memory <= (layers[i] < 40 ? 1 : 0.5));
        arena_free(a);
    }
}

/* Random programs are rarely long enough to be cut, but then they are cut in odd places. */
static void random_programs(void **state) {
    (void)state;
    int cut = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        Arena *a = arena_new();
        void *grads[2];
        Module *m[2];
        for (int i = 0; i < 2; i++) {
            Graph *g = random_graph(a, ENTRY_GRAD, seed, (RandomOptions){.ops = 60});
            m[i] = compile(a, g, i ? CHECKPOINT_SQRT : CHECKPOINT_NONE);
            TestRandom r = {seed};
            TestData d = test_data(a, m[i], g->model, &r);
            const char *error = NULL;
            if (!module_run(a, m[i], ENTRY_GRAD, &d.mem, d.syms, &error)) fail_msg("seed %d: %s", (int)seed, error);
            grads[i] = d.mem.grads;
        }
        cut += m[1]->entry[ENTRY_GRAD].launches.n != m[0]->entry[ENTRY_GRAD].launches.n;
        for (int i = 0; i < m[0]->grads.n; i++)
            for (int j = 0; j < m[1]->grads.n; j++) {
                const ModuleTensor *x = &m[0]->grads.at[i], *y = &m[1]->grads.at[j];
                if (strcmp(x->name, y->name)) continue;
                if (memcmp((char *)grads[0] + x->offset, (char *)grads[1] + y->offset, (size_t)x->bytes))
                    fail_msg("seed %d: gradient of %s differs", (int)seed, x->name);
            }
        arena_free(a);
    }
    print_message("%d programs were cut\n", cut);
    assert_true(cut >= 10);
}

/* ---- goldens: tests/golden/checkpoint/NAME.graph, differentiated, becomes NAME.out; UPDATE=1 rewrites them -- */
static char *read_file(Arena *a, const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    char *text = arena_alloc(a, 1 << 16);
    text[fread(text, 1, (1 << 16) - 1, f)] = 0;
    fclose(f);
    return text;
}

static void golden(const char *name) {
    Arena *a = arena_new();
    const char *stem = arena_printf(a, SOURCE_DIR "/tests/golden/checkpoint/%s", name), *error = NULL;
    char *given = read_file(a, arena_printf(a, "%s.graph", stem)), *out = arena_printf(a, "%s.out", stem), *text = NULL;
    size_t bytes;
    assert_non_null(given);
    Graph *g = graph_parse(a, given, &error);
    if (!g) fail_msg("%s: %s", stem, error);
    PassContext c = test_context(a, "host");
    c.checkpoint = CHECKPOINT_SQRT;
    g = pass_canonicalize(&c, pass_autodiff(&c, g));
    g = pass_checkpoint(&c, pass_fuse(&c, g));
    assert_null(graph_verify(a, g));
    FILE *f = open_memstream(&text, &bytes);
    graph_print(f, g);
    fclose(f);
    if (getenv("UPDATE")) {
        f = fopen(out, "w");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
    }
    assert_non_null(strstr(text, "remat"));
    assert_non_null(read_file(a, out));
    assert_string_equal(text, read_file(a, out));
    free(text);
    arena_free(a);
}

static void goldens(void **state) {
    (void)state;
    golden("chain");
    golden("skip");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residual_layers), cmocka_unit_test(skip_connections), cmocka_unit_test(reductions_and_maps),
        cmocka_unit_test(random_programs), cmocka_unit_test(goldens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
