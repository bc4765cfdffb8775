/* canonicalize and jacobian_gemm keep the values of random programs and of every op's derivative, reach a
 * fixed point in one run, and leave alone what a gradient is taken by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include "tests/support/op_cases.h"
#include "tests/support/random_graph.h"

enum { PROGRAMS = 60 };

typedef Graph *Pass(PassContext *, Graph *);

static void expect_fixed_point(Arena *a, PassContext *c, Graph *g, Pass *pass, uint64_t seed) {
    char *once = graph_text(a, g), *twice = graph_text(a, pass(c, g));
    if (strcmp(once, twice) != 0) fail_msg("program %d: a second run changes\n%s\ninto\n%s", (int)seed, once, twice);
}

static Graph *pipeline(PassContext *c, Graph *g) {
    g = pass_canonicalize(c, g);
    g = pass_autodiff(c, g);
    g = pass_canonicalize(c, g);
    g = pass_jacobian_gemm(c, g);
    return pass_canonicalize(c, g);
}

static void check_program(Entry entry, uint64_t seed) {
    Arena *a = arena_new();
    PassContext c = {.arena = a};
    Rng rng = {.state = seed};
    RandomOptions o = {.ops = 5 + (int)(seed % 30), .bounded = seed % 3 == 0, .empty = seed % 4 == 1};
    Graph *g = random_graph(a, entry, seed, o);
    EvalEnv env = random_env(a, g->model, &rng);
    Graph *plain = pass_autodiff(&c, g);
    Graph *canonical = pass_canonicalize(&c, plain);
    const char *why = results_agree(a, &env, plain, canonical, 1e-9);
    if (why) fail_msg("canonicalize, %s program %d: %s\n%s", entry_name[entry], (int)seed, why, graph_text(a, plain));
    expect_fixed_point(a, &c, canonical, pass_canonicalize, seed);
    Graph *gemm = pass_jacobian_gemm(&c, plain);
    why = results_agree(a, &env, plain, gemm, 1e-9);
    if (why) fail_msg("jacobian_gemm, %s program %d: %s\n%s", entry_name[entry], (int)seed, why, graph_text(a, plain));
    expect_fixed_point(a, &c, gemm, pass_jacobian_gemm, seed);
    Graph *all = pipeline(&c, g);
    why = results_agree(a, &env, plain, all, 1e-9);
    if (why) fail_msg("pipeline, %s program %d: %s\n%s", entry_name[entry], (int)seed, why, graph_text(a, g));
    arena_free(a);
}

static void random_programs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        check_program(ENTRY_INFER, seed);
        check_program(ENTRY_GRAD, seed);
        check_program(ENTRY_STEP, seed);
    }
}

/* Every op behind movement, forward and backward, after each pass and all of them. */
static void every_op(void **state) {
    (void)state;
    Pass *const passes[] = {pass_canonicalize, pass_jacobian_gemm, pipeline};
    for (int op = 0; op < OP_COUNT; op++) {
        int trials = op == OP_CONTRACT || op == OP_SUM ? 300 : op_has_gradient((Op)op) ? 24 : 0;
        for (int i = 0; i < trials; i++) {
            Rng rng = {.state = (uint64_t)op * 7919 + (uint64_t)i};
            Arena *a = arena_new();
            Trial t;
            trial_init(&t, a, &rng);
            t.moves = 3;
            const char *why = gradcheck(&t, trial_loss(&t, op_case(&t, (Op)op)), passes[i % 3], 1e-6);
            if (why) fail_msg("%s, trial %d: %s\n%s", op_info[op].text, i, why, graph_text(a, t.graph));
            arena_free(a);
        }
    }
}

/* y[i, p] = sum over n of A[i, (a p + b n + c) / D] K[n] and its like: what jacobian_gemm splits by residue. */
static Node *strided(Trial *t) {
    static const int64_t steps[] = {1, -1, 1, -1, 3, -3, 5};
    Rng *r = t->rng;
    int64_t divisor = rng_int(r, 2, 4), kernel = rng_int(r, 2, 6), out = rng_int(r, 1, 9), in = rng_int(r, 1, 7);
    Affine map[2][MAX_RANK] = {{{.coef = {1}, .divisor = 1}, {.c = rng_int(r, -4, 6), .divisor = divisor}},
                               {{.coef = {0, 0, 1}, .divisor = 1}}};
    map[0][1].coef[1] = rng_chance(r, 0.5) ? 1 : -1;
    map[0][1].coef[2] = steps[rng_int(r, 0, 6)];
    if (rng_chance(r, 0.3)) map[0][1].coef[0] = divisor;
    Guard guard = {
        .kind = rng_chance(r, 0.3) ? GUARD_EQ : GUARD_RANGE, .e = {.coef = {1, -1, 1}, .divisor = 1}, .lo = -2};
    guard.hi = dim_fixed(guard.kind == GUARD_EQ ? 0 : 4);
    if (guard.kind == GUARD_EQ) guard.lo = 0;
    const Contract c = {.n_loops = 3,
                        .n_out = 2,
                        .extent = {dim_fixed(2), dim_fixed(out), dim_fixed(kernel)},
                        .n_operands = 2,
                        .map = map,
                        .n_guards = rng_chance(r, 0.3),
                        .guard = &guard};
    Node *a = trial_param(t, shape_fixed(2, (int64_t[]){2, in}), -1, 1);
    Node *k = trial_param(t, shape_fixed(1, (int64_t[]){rng_chance(r, 0.3) ? kernel + 1 : kernel}), -1, 1);
    return graph_contract(t->graph, 2, (Node *[]){a, k}, &c);
}

static int count_divisors(const Graph *g) {
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        for (int k = 0; x->op == OP_CONTRACT && k < x->n_in; k++)
            for (int d = 0; d < x->in[k]->shape.rank; d++) n += x->attr->contract->map[k][d].divisor > 1;
    }
    return n;
}

static void strided_gradients(void **state) {
    (void)state;
    int split = 0;
    for (int i = 0; i < 300; i++) {
        Rng rng = {.state = 4000 + (uint64_t)i};
        Arena *a = arena_new();
        Trial t;
        trial_init(&t, a, &rng);
        Node *y = strided(&t);
        int before = count_divisors(t.graph);
        const char *why = gradcheck(&t, trial_loss(&t, y), pass_jacobian_gemm, 1e-6);
        if (why) fail_msg("trial %d: %s\n%s", i, why, graph_text(a, t.graph));
        split += count_divisors(t.graph) < before;
        arena_free(a);
    }
    assert_true(split > 100);
}

/* A contraction behind very many movements that do not meet: absorbed as far as is safe, never a crash. */
static void long_chains(void **state) {
    (void)state;
    Arena *a = arena_new();
    Rng rng = {.state = 1};
    Trial t;
    trial_init(&t, a, &rng);
    Node *x = trial_param(&t, shape_fixed(1, (int64_t[]){4}), -1, 1);
    for (int i = 0; i < 30000; i++) {
        const Attr cut = {.lo = {dim_fixed(0)}, .hi = {dim_fixed(3)}, .step = {1}};
        const Attr pad = {.lo = {dim_fixed(0)}, .hi = {dim_fixed(1)}};
        x = graph_op(t.graph, OP_SLICE, 1, &x, &cut);
        x = graph_op(t.graph, OP_PAD, 1, &x, &pad);
    }
    Affine map[1][MAX_RANK] = {{{.coef = {1}, .divisor = 1}}};
    const Contract c = {.n_loops = 1, .n_out = 1, .extent = {dim_fixed(4)}, .n_operands = 1, .map = map};
    const char *why = gradcheck(&t, trial_loss(&t, graph_contract(t.graph, 1, &x, &c)), pipeline, 1e-6);
    if (why) fail_msg("%s", why);
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_chains),
        cmocka_unit_test(strided_gradients),
        cmocka_unit_test(every_op),
        cmocka_unit_test(random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
