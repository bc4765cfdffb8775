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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op),
        cmocka_unit_test(random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
