/* FLOPs and bytes counted by hand, and the identity of kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "ir/tile.h"
#include <stdlib.h>
#include <string.h>

static Kernel *parse(Arena *a, const char *text) {
    const char *error = NULL;
    Kernel *k = kernel_parse(a, text, &error);
    if (!k) fail_msg("%s in:\n%s", error, text);
    assert_null(kernel_verify(a, k));
    return k;
}

#define GEMM(NAME, X, M, COMMENT)                                                                  \
    COMMENT "kernel @" NAME "(%" X ": f32[10,13], %w: f32[13,7], %b: f32[7], %y: f32[10,7] out)\n" \
            "  grid " M " in 0..10 step 4\n  grid n in 0..7 step 4\n  loop k in 0..13 step 4\n"    \
            "  %0 = full 0 : f32[" M ":4,n:4]\n  %5 = for k carry %1 = %0 {\n"                     \
            "    %2 = load %" X "[" M                                                              \
            ", k]\n    %3 = load %w[k, n]\n    %4 = dot %2, %3, %1 over k\n    yield %4\n  }\n"    \
            "  %6 = load %b[n]\n  %7 = add %5, %6\n  store %y[" M ", n], %7\n"

static void test_gemm_cost(void **state) {
    (void)state;
    Arena *a = arena_new();
    const KernelCost c = kernel_cost(parse(a, GEMM("f", "x", "m", "")));
    assert_true(c.flops == 2 * 10 * 7 * 13 + 10 * 7);
    assert_true(c.bytes_read == 4 * (130 + 91 + 7));
    assert_true(c.bytes_written == 4 * 70);
    /* x once per column of programs, w and b once per row of programs */
    assert_true(c.bytes_loaded == 4 * (130 * 2 + 91 * 3 + 7 * 3));
    arena_free(a);
}

static void test_distinct_bytes(void **state) {
    (void)state;
    Arena *a = arena_new();
    /* read three times, counted once; a slice; a gather capped by its lanes; a repeated scalar */
    KernelCost c = kernel_cost(parse(a, "kernel @k(%x: f32[100], %ids: i32[6], %y: f32[6] out)\n"
                                        "  grid i in 0..6 step 2\n  loop r in 0..3 step 1\n"
                                        "  for r {\n    %0 = load %x[i + 10]\n    yield\n  }\n"
                                        "  %1 = load %x[i + 10]\n  %2 = load %ids[i]\n"
                                        "  %3 = load %x[%2{20..90}]\n  %4 = load %x[99]\n  store %y[i], %3\n"));
    assert_true(c.bytes_read == 4 * (6 + 6 + 1) + 4 * 6);
    assert_true(c.bytes_written == 4 * 6);
    assert_true(c.bytes_loaded == 4 * (6 * 3 + 6 + 6 + 6 + 3));
    assert_true(c.flops == 0);
    /* a sum of each tile: as many as there are tiles, of each column */
    c = kernel_cost(parse(a, "kernel @k(%x: f32[10,7], %y: f32[3,7] out)\n  grid i in 0..10 step 4\n  grid j in 0..7 step 4\n"
                             "  %0 = load %x[i, j]\n  %1 = sum %0 over i\n  store %y[@i, j], %1\n"));
    assert_true(c.bytes_read == 4 * 70);
    assert_true(c.bytes_written == 4 * 3 * 7);
    /* overlapping rows of a convolution: the box that i + r spans, capped by the buffer */
    c = kernel_cost(parse(a, "kernel @k(%x: f32[9], %y: f32[6] out)\n  grid i in 0..6 step 6\n  span r in 0..3 step 4\n"
                             "  %0 = load %x[i + r]\n  %1 = sum %0 over r\n  store %y[i], %1\n"));
    assert_true(c.bytes_read == 4 * 8);
    assert_true(c.flops == 18);
    arena_free(a);
}

static void test_hash(void **state) {
    (void)state;
    Arena *a = arena_new();
    const char *h = kernel_canonical(a, parse(a, GEMM("f", "x", "m", "")));
    assert_string_equal(h, kernel_canonical(a, parse(a, GEMM("other", "input", "rows", "# elsewhere\n"))));
    Kernel *k = parse(a, GEMM("f", "x", "m", ""));
    k->axes.at[0].step = 8;
    assert_string_not_equal(h, kernel_canonical(a, k));
    k->axes.at[0].step = 4;
    assert_string_equal(h, kernel_canonical(a, k));
    k->buffers.at[1].stride[0] = 8;
    assert_string_not_equal(h, kernel_canonical(a, k));
    k->buffers.at[1].stride[0] = 7;
    k->threads = 32;
    assert_string_not_equal(h, kernel_canonical(a, k));
    k->threads = 0;
    k->buffers.at[2].in_place = 1;
    assert_string_not_equal(h, kernel_canonical(a, k));
    k->buffers.at[2].in_place = 0;
    k->body.at[3]->op = OP_MUL;
    assert_string_not_equal(h, kernel_canonical(a, k));
    arena_free(a);
}

/* Value numbers and symbol names are no part of the identity. */
static void test_hash_numbers(void **state) {
    (void)state;
    Arena *a = arena_new();
    const char *first = "kernel @k<S<=8>(%y: f32[S<=8] out)\n  grid i in 0..S<=8 step 4\n"
                        "  %0 = const 1 : f32\n  %1 = neg %0\n  store %y[i], %1\n";
    const char *second = "kernel @k<T<=8>(%z: f32[T<=8] out)\n  grid q in 0..T<=8 step 4\n"
                         "  %7 = const 1 : f32\n  %3 = neg %7\n  store %z[q], %3\n";
    const char *third = "kernel @k<S<=8>(%y: f32[S<=8] out)\n  grid i in 0..S<=8 step 4\n"
                        "  %0 = const 1 : f32\n  %1 = neg %0\n  store %y[i], %0\n";
    const char *h = kernel_canonical(a, parse(a, first));
    assert_string_equal(h, kernel_canonical(a, parse(a, second)));
    assert_string_not_equal(h, kernel_canonical(a, parse(a, third)));
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_cost),
        cmocka_unit_test(test_distinct_bytes),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_hash_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
