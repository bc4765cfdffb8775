/* The roles of loops, on the contractions a layer makes. */
#include "passes/algebra/contract_class.h"
#include "passes/algebra/slice_sums.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* The contraction of a graph given as one line of text between sources. */
static const Node *parsed(Arena *a, const char *inputs, const char *line) {
    const char *error = NULL;
    Graph *g = graph_parse(a, arena_printf(a, "graph @g entry=infer {\n%s\n%s\n}\n", inputs, line), &error);
    if (!g) fail_msg("%s", error);
    const Node *n = vec_last(g->nodes);
    assert_int_equal(n->op, OP_CONTRACT);
    return n;
}

static ContractClass classify(Arena *a, const char *inputs, const char *line) {
    const Node *n = parsed(a, inputs, line);
    return contract_classify(n->attr->contract, n->in);
}

static const char *const two = "  input \"x\" : f32[2,8,6]\n  input \"y\" : f32[2,6,4]\n"
                               "  %0 = input \"x\" : f32[2,8,6]\n  %1 = input \"y\" : f32[2,6,4]";

static void batched_product(void **state) {
    (void)state;
    Arena *a = arena_new();
    ContractClass c =
        classify(a, two, "  %2 = contract %0[i, j, l], %1[i, l, k] -> [i:2, j:8, k:4] sum [l:6] : f32[2,8,4]");
    const LoopClass want[] = {LOOP_BATCH, LOOP_M, LOOP_N, LOOP_K};
    for (int l = 0; l < 4; l++) assert_int_equal(c.loop[l], want[l]);
    assert_true(c.is_plain);
    assert_int_equal(c.batch, 2);
    assert_int_equal(c.m, 8);
    assert_int_equal(c.n, 4);
    assert_int_equal(c.k, 6);
    assert_int_equal(c.other, 1);
    arena_free(a);
}

static void windows_are_not_plain(void **state) {
    (void)state;
    Arena *a = arena_new();
    ContractClass c = classify(
        a, two, "  %2 = contract %0[i, j + m - 1, l], %1[m, l, k] -> [i:2, j:8, k:4] sum [l:6, m:2] : f32[2,8,4]");
    const LoopClass want[] = {LOOP_M, LOOP_M, LOOP_N, LOOP_K, LOOP_K};
    for (int l = 0; l < 5; l++) assert_int_equal(c.loop[l], want[l]);
    assert_false(c.is_plain);
    arena_free(a);
}

static void loops_without_a_role(void **state) {
    (void)state;
    Arena *a = arena_new();
    /* l is summed in one operand only, k is in no operand */
    ContractClass c =
        classify(a, two, "  %2 = contract %0[i, j, l], %1[i, 0, 0] -> [i:2, j:8, k:4] sum [l:6] : f32[2,8,4]");
    const LoopClass want[] = {LOOP_BATCH, LOOP_M, LOOP_OTHER, LOOP_OTHER};
    for (int l = 0; l < 4; l++) assert_int_equal(c.loop[l], want[l]);
    assert_int_equal(c.other, 24);
    assert_false(c.is_plain);
    c = classify(a, two, "  %2 = contract %0[i, j, k] -> [i:2, j:8] sum [k:6] : f32[2,8]");
    for (int l = 0; l < 3; l++) assert_int_equal(c.loop[l], LOOP_OTHER);
    arena_free(a);
}

/* Slices of a dim are a view with one loop more; not one that repeats them, or takes the slices in another order. */
static void slices_of_a_dim(void **state) {
    static const struct {
        const char *line;
        bool seen;
    } all[] = {{"  %2 = contract %0[j, 2 * i + k, l] -> [i:4, j:2, k:2, l:6] : f32[4,2,2,6]", true},
               {"  %2 = contract %0[j, 2 * i + k, l] -> [i:4, j:2, k:2, l:6, m:3] : f32[4,2,2,6,3]", false},
               {"  %2 = contract %0[j, 2 * i + k, l] -> [i:4, j:2, k:3, l:6] : f32[4,2,3,6]", false},
               {"  %2 = contract %0[j, i + 4 * k, l] -> [i:4, j:2, k:2, l:6] : f32[4,2,2,6]", false}};
    (void)state;
    Arena *a = arena_new();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int dim;
        int64_t length;
        assert_int_equal(slices_seen(parsed(a, two, all[i].line), &dim, &length), all[i].seen);
        if (all[i].seen) assert_true(dim == 1 && length == 2);
    }
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batched_product),
        cmocka_unit_test(windows_are_not_plain),
        cmocka_unit_test(loops_without_a_role),
        cmocka_unit_test(slices_of_a_dim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
