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
            for (int d = 0; d < x->in[k]->shape->rank; d++) n += x->attr->contract->map[k][d].divisor > 1;
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

/* One subscript over n loops: a loop, a window's place, or a share of one. */
static Affine random_read(Rng *r, const Contract *c, Dim *dim) {
    const int loop = (int)rng_int(r, 0, c->n_loops - 1), other = (int)rng_int(r, 0, c->n_loops - 1);
    Affine e = {.divisor = 1};
    e.coef[loop] = 1;
    *dim = c->extent[loop];
    if (rng_chance(r, 0.6)) return e;
    if (rng_chance(r, 0.2)) *dim = dim_fixed(dim->bound + rng_int(r, -1, 2));
    e.c = rng_int(r, -2, 2);
    e.divisor = rng_chance(r, 0.15) ? 2 : 1;
    if (other != loop) e.coef[other] = rng_chance(r, 0.8) ? 1 : rng_int(r, -2, 2);
    return e;
}

/* A product of two or three tensors, whose loops stand anywhere in them, and perhaps under a guard. */
static Node *random_product(Trial *t) {
    static const int64_t extents[] = {1, 3, 8, 17, 24};
    Rng *r = t->rng;
    Affine map[3][MAX_RANK] = {0};
    Guard guard = {.kind = GUARD_RANGE, .e = {.divisor = 1}, .lo = -1, .hi = dim_fixed(9)};
    Contract c = {
        .n_out = (int)rng_int(r, 1, 3), .n_operands = rng_chance(r, 0.8) ? 2 : 3, .map = map, .guard = &guard};
    int64_t steps = 1;
    Node *in[3];
    c.n_loops = c.n_out + (int)rng_int(r, 0, 2);
    for (int l = 0; l < c.n_loops; l++) {
        const int64_t extent = extents[rng_int(r, 0, 4)];
        c.extent[l] = dim_fixed(steps * extent > 40000 ? 2 : extent);
        steps *= c.extent[l].bound;
    }
    for (int k = 0; k < c.n_operands; k++) {
        Shape s = {.rank = (int)rng_int(r, 1, 3)};
        for (int d = 0; d < s.rank; d++) map[k][d] = random_read(r, &c, &s.dim[d]);
        in[k] = trial_param(t, s, -1, 1);
    }
    c.n_guards = rng_chance(r, 0.3);
    guard.e.coef[rng_int(r, 0, c.n_loops - 1)] += 1;
    guard.e.coef[rng_int(r, 0, c.n_loops - 1)] -= 1;
    return graph_contract(t->graph, c.n_operands, in, &c);
}

/* x and something that varies along some of its dims: added, or a factor. */
static Node *with_broadcast(Trial *t, Op op, Node *x, double chance) {
    int8_t axes[MAX_RANK];
    Shape s = {0};
    for (int d = 0; d < x->shape->rank; d++) {
        if (!rng_chance(t->rng, chance)) continue;
        axes[s.rank] = (int8_t)d;
        s.dim[s.rank++] = x->shape->dim[d];
    }
    return graph_binary(t->graph, op, x, graph_broadcast(t->graph, trial_param(t, s, -1, 1), *x->shape, axes));
}

static Node *sum_of_product(Trial *t) {
    Rng *r = t->rng;
    int8_t axes[MAX_RANK];
    int n = 0;
    Node *x = random_product(t);
    if (rng_chance(r, 0.3)) x = with_broadcast(t, OP_MUL, x, 0.3);
    if (rng_chance(r, 0.3)) x = with_broadcast(t, rng_chance(r, 0.5) ? OP_ADD : OP_SUB, x, 0.5);
    if (rng_chance(r, 0.3)) x = graph_binary(t->graph, OP_MUL, x, graph_const(t->graph, DT_F32, *x->shape, 0.75));
    for (int d = 0; d < x->shape->rank; d++)
        if (rng_chance(r, 0.6)) axes[n++] = (int8_t)d;
    Node *sum = n ? graph_reduce(t->graph, OP_SUM, x, n, axes) : x;
    Node *loss = trial_loss(t, sum);
    return rng_chance(r, 0.2) ? graph_binary(t->graph, OP_ADD, loss, trial_loss(t, x)) : loss; /* what two read stays */
}

/* Sums of products in either order, in front of the backward and after it: the values and gradients of the program as
 * written. */
static void sums_of_products(void **state) {
    (void)state;
    uint32_t fired[RULE_COUNT] = {0};
    for (int i = 0; i < 600; i++) {
        Rng rng = {.state = 9000 + (uint64_t)i};
        Arena *a = arena_new();
        PassContext c = {.arena = a, .fired = fired};
        Trial t;
        trial_init(&t, a, &rng);
        Node *loss = sum_of_product(&t);
        vec_push(a, t.model->outputs, (TensorDecl){.name = "loss", .dtype = DT_F32, .shape = shape_scalar()});
        graph_result(t.graph, RESULT_OUTPUT, 0, loss);
        for (int k = 0, n = t.graph->nodes.n; k < n; k++) {
            Node *p = t.graph->nodes.at[k];
            if (p->op != OP_PARAM) continue;
            graph_result(t.graph, RESULT_GRAD, p->attr->decl,
                         graph_op(t.graph, OP_GRADIENT, 2, (Node *[]){loss, p}, NULL));
        }
        const EvalEnv env = random_env(a, t.model, &rng);
        Graph *plain = pass_autodiff(&c, t.graph), *before = pipeline(&c, t.graph),
              *after = pass_jacobian_gemm(&c, plain);
        const char *why = results_agree(a, &env, plain, before, 1e-9);
        if (!why) why = results_agree(a, &env, plain, after, 1e-9);
        if (why) fail_msg("trial %d: %s\n%s", i, why, graph_text(a, t.graph));
        expect_fixed_point(a, &c, before, pass_canonicalize, (uint64_t)i);
        arena_free(a);
    }
    static const RewriteId rules[] = {REWRITE_sum_of_contract, REWRITE_sum_before, REWRITE_repeated_sum,
                                      REWRITE_whole_sum, REWRITE_guarded_loops};
    for (int k = 0; k < 5; k++)
        if (fired[rules[k]] < 50) fail_msg("rule %d of the five applied %u times", k, fired[rules[k]]);
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
        cmocka_unit_test(long_chains), cmocka_unit_test(strided_gradients), cmocka_unit_test(sums_of_products),
        cmocka_unit_test(every_op),    cmocka_unit_test(random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
