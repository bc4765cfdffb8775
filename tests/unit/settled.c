/* The judge of random programs' results: jumps at their edge, of which rounding takes some across. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "tests/support/settled.h"

/* The nodes after %0, the input x, and %1 = const 1. */
typedef struct Case {
    const char *nodes, *dtype; /* of the last, which is the result */
    int last;
    bool unsettled;
} Case;

static const Case cases[] = {
    {"%2 = div %0, %0 : f32[4]\n %3 = floor %2 : f32[4]\n", "f32", 3, false},
    {"%2 = exp %0 : f32[4]\n %3 = div %2, %2 : f32[4]\n %4 = ceil %3 : f32[4]\n", "f32", 4, false},
    {"%2 = exp %0 : f32[4]\n %3 = div %1, %2 : f32[4]\n %4 = mul %2, %3 : f32[4]\n %5 = floor %4 : f32[4]\n", "f32", 5,
     true},
    {"%2 = sub %0, %0 : f32[4]\n %3 = exp %2 : f32[4]\n %4 = floor %3 : f32[4]\n", "f32", 4, false},
    {"%2 = sqrt %0 : f32[4]\n %3 = mul %2, %2 : f32[4]\n %4 = ge %3, %0 : bool[4]\n", "bool", 4, true},
    {"%2 = exp %0 : f32[4]\n %3 = log %2 : f32[4]\n %4 = eq %3, %0 : bool[4]\n", "bool", 4, true},
    {"%2 = pow %0, %1 : f32[4]\n %3 = eq %2, %0 : bool[4]\n", "bool", 3, true},
    {"%2 = exp %0 : f32[4]\n %3 = exp %0 : f32[4]\n %4 = lt %2, %3 : bool[4]\n", "bool", 4, false},
    {"%2 = const 8 : f32[4]\n %3 = exp %0 : f32[4]\n %4 = mod %3, %2 : f32[4]\n %5 = eq %3, %4 : bool[4]\n", "bool", 5,
     false},
    {"%2 = mod %0, %0 : f32[4]\n", "f32", 2, false},
    {"%2 = const 3 : f32[4]\n %3 = mul %0, %2 : f32[4]\n %4 = mod %3, %0 : f32[4]\n", "f32", 4, true},
    {"%2 = const 1e-06 : f32[4]\n %3 = add %1, %2 : f32[4]\n %4 = cast %3 : i32[4]\n", "i32", 4, true},
    {"%2 = const 0.001 : f32[4]\n %3 = add %1, %2 : f32[4]\n %4 = cast %3 : i32[4]\n", "i32", 4, false},
    {"%2 = reshape %0 : f32[4,1]\n %3 = sum %2 [1] : f32[4]\n %4 = ne %3, %0 : bool[4]\n", "bool", 4, false},
    {"%2 = scan %0 sum axis 0 : f32[4]\n %3 = ne %2, %0 : bool[4]\n", "bool", 3, false},
    {"%2 = exp %0 : f32[4]\n %3 = cast %2 : bf16[4]\n %4 = sign %3 : bf16[4]\n %5 = cast %4 : f32[4]\n"
     " %6 = floor %5 : f32[4]\n",
     "f32", 6, false},
    {"%2 = exp %0 : f32[4]\n %3 = div %1, %2 : f32[4]\n %4 = mul %2, %3 : f32[4]\n %5 = cast %4 : bf16[4]\n"
     " %6 = cast %5 : f32[4]\n %7 = floor %6 : f32[4]\n",
     "f32", 7, true},
    {"%2 = exp %0 : f32[4]\n %3 = concat %2, %2 axis 0 : f32[8]\n %4 = argmax %3 [0] : i32[]\n"
     " %5 = broadcast %4 [] : i32[4]\n",
     "i32", 5, false},
    {"%2 = sqrt %0 : f32[4]\n %3 = mul %2, %2 : f32[4]\n %4 = concat %3, %0 axis 0 : f32[8]\n"
     " %5 = argmax %4 [0] : i32[]\n %6 = broadcast %5 [] : i32[4]\n",
     "i32", 6, true},
    {"%2 = sqrt %0 : f32[4]\n %3 = mul %2, %2 : f32[4]\n %4 = floor %3 : f32[4]\n %5 = sub %0, %0 : f32[4]\n"
     " %6 = add %5, %1 : f32[4]\n",
     "f32", 6, false}, /* the jump is nothing that the result depends on */
};

static void rounding_decides(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_new();
        const char *error = NULL;
        const char *text =
            arena_printf(a,
                         "graph @g entry=infer {\n input \"x\" : f32[4]\n output \"y\" : %s[4]\n"
                         " %%0 = input \"x\" : f32[4]\n %%1 = const 1 : f32[4]\n %s output \"y\" %%%d\n}\n",
                         cases[i].dtype, cases[i].nodes, cases[i].last);
        const Graph *g = graph_parse(a, text, &error);
        if (!g) fail_msg("case %zu: %s", i, error);
        double x[] = {0.7f, 1.3f, 0.3f, 1.7f};
        Tensor input = {.rank = 1, .dim = {4}, .data = x};
        const EvalEnv env = {.inputs = &input};
        const Tensor *values = graph_eval(a, g, &env, &error);
        if (!values) fail_msg("case %zu: %s", i, error);
        bool skip[1];
        const int n = find_unsettled(a, g, &env, values, skip);
        if (n != cases[i].unsettled || skip[0] != cases[i].unsettled) fail_msg("case %zu: %d", i, n);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounding_decides)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
