/* What jacobian_gemm does to the graphs of its golden tests: the values stay, to rounding in float64, the rules that a
 * graph is about apply, and what it costs in multiply-adds falls where it should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "tests/support/gradcheck.h"

#ifndef SOURCE_DIR
#define SOURCE_DIR "."
#endif

static char *read_golden(Arena *a, const char *name) {
    FILE *f = fopen(arena_printf(a, "%s/tests/golden/jacobian_gemm/%s.graph", SOURCE_DIR, name), "rb");
    if (!f) fail_msg("cannot read %s", name);
    VEC(char) text = {0};
    for (int c; (c = fgetc(f)) != EOF;) vec_push(a, text, (char)c);
    vec_push(a, text, 0);
    fclose(f);
    return text.at;
}

static double multiplications(const Graph *g) {
    double n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        double steps = x->op == OP_CONTRACT;
        for (int l = 0; x->op == OP_CONTRACT && l < x->attr->contract->n_loops; l++)
            steps *= (double)x->attr->contract->extent[l].bound;
        n += steps;
    }
    return n;
}

/* Runs the pass; the rule must have applied at least `times`, and at most `share` of the multiplications be left. */
static void check(const char *name, RewriteId rule, uint32_t times, double share) {
    Arena *a = arena_new();
    uint32_t fired[RULE_COUNT] = {0};
    PassContext c = {.arena = a, .fired = fired};
    const char *error;
    Graph *g = graph_parse(a, read_golden(a, name), &error);
    if (!g) fail_msg("%s: %s", name, error);
    Graph *after = pass_jacobian_gemm(&c, g);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        Rng rng = {.state = seed};
        const EvalEnv env = random_env(a, g->model, &rng);
        const char *why = results_agree(a, &env, g, after, 1e-9);
        if (why) fail_msg("%s: %s", name, why);
    }
    if (fired[rule] < times) fail_msg("%s: rule %d applied %u times, not %u", name, (int)rule, fired[rule], times);
    const double left = multiplications(after) / multiplications(g);
    if (left > share) fail_msg("%s: %.3g of the multiplications are left", name, left);
    arena_free(a);
}

static void chains(void **state) {
    (void)state;
    check("chain", REWRITE_chain, 2, 0.35);
}
/* A factor that has not all loops is multiplied by the smaller of the others, or the result by it: what is left is a
 * matrix product.  Rows are read as parts of a split axis, from an offset, and past the end. */
static void several_split(void **state) {
    (void)state;
    check("several_split", REWRITE_chain, 2, 1.1);
}
/* Each reader of a matrix of low rank, or of that and a diagonal, multiplies by the factors. */
static void low_rank(void **state) {
    (void)state;
    check("low_rank", REWRITE_product_of_sum, 2, 0.1);
    check("low_rank", REWRITE_chain, 3, 0.1);
}
static void factors(void **state) {
    (void)state;
    check("factors", REWRITE_factor_of_sum, 2, 1);
    check("factors", REWRITE_factor_of_contract, 2, 1);
}
static void reassociated(void **state) {
    (void)state;
    check("reassociate", REWRITE_reassociate, 1, 1);
}

/* Sums of products multiply sums; of what rounds, others read, or a guard leaves out, every product is made. */
static void sums_of_products(void **state) {
    (void)state;
    check("sums_of_products", REWRITE_sum_of_contract, 3, 0.25);
    check("sums_of_products", REWRITE_sum_before, 5, 0.25);
    check("sums_of_products", REWRITE_guarded_loops, 1, 0.25);
}

static void folded(void **state) {
    (void)state;
    check("fold", REWRITE_merge_loops, 2, 1);
}
/* Of a strided convolution's gradient no product with a zero between its pixels is left. */
static void residues(void **state) {
    (void)state;
    check("conv_stride2", REWRITE_residue, 1, 0.56);
}

/* Three layers read x: one kernel adds up what they send back, and each weight's kernel takes the bias's gradient too.
 */
static void together(void **state) {
    (void)state;
    static const char *const names[] = {"host", "c99", "sm_80"};
    for (int i = 0; i < 3; i++) {
        Arena *a = arena_new();
        uint32_t fired[RULE_COUNT] = {0};
        PassContext c = {.arena = a, .fired = fired, .target = target_find(names[i])};
        const char *error;
        Graph *g = graph_parse(a, read_golden(a, "together"), &error);
        if (!g) fail_msg("%s", error);
        g = pass_split(&c, pass_fuse(&c, pass_canonicalize(&c, pass_together(&c, pass_jacobian_gemm(&c, g)))));
        memset(fired, 0, sizeof fired);
        Plan *p = pass_fuse(&c, g);
        assert_int_equal(fired[RULE_FUSION + FUSION_contract_onto], 2);
        const bool sums = c.target->device->takes_sums;
        assert_int_equal(fired[RULE_FUSION + FUSION_contract_sum], sums ? 3 : 0);
        assert_int_equal(p->kernels.n, 1 + 3 + 1 + (sums ? 0 : 3)); /* the last: the sum of a bias's gradient */
        pass_layout(&c, p);
        pass_family(&c, p);
        const bool one = c.target->backend != BACKEND_C99; /* kernel for the gradients of all weights, and one for those sums */
        assert_int_equal(fired[RULE_FUSION + FUSION_family], one ? sums ? 2 : 4 : 0);
        assert_int_equal(p->kernels.n, 1 + (one ? 1 : 3) + 1 + (sums ? 0 : one ? 1 : 3));
        arena_free(a);
    }
    check("together", REWRITE_merge_loops, 3, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains),   cmocka_unit_test(several_split), cmocka_unit_test(low_rank),
        cmocka_unit_test(factors),  cmocka_unit_test(reassociated),  cmocka_unit_test(folded),
        cmocka_unit_test(residues), cmocka_unit_test(together),      cmocka_unit_test(sums_of_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
