/* The Tile IR verifier: one malformed kernel per rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "ir/tile.h"
#include <stdlib.h>
#include <string.h>

#define HEAD                                                      \
    "kernel @k<S<=8>(%x: f32[8], %ids: i32[8], %y: f32[8] out)\n" \
    "  grid i in 0..8 step 4\n  loop j in 0..8 step 4\n  span c in 0..8 step 8\n"
#define MEMBERS(n) "  grid m in 0.." #n " step 1 family\n"
#define LOADED HEAD "  %0 = load %x[i]\n"

static Kernel *parse(Arena *a, const char *text) {
    const char *error = NULL;
    Kernel *k = kernel_parse(a, text, &error);
    if (!k) fail_msg("%s in:\n%s", error, text);
    return k;
}

static void assert_violates(Arena *a, const Kernel *k, const char *want) {
    const char *got = kernel_verify(a, k);
    if (!got) fail_msg("accepted; wanted `%s`", want);
    if (!strstr(got, want)) fail_msg("`%s` does not say `%s`", got, want);
}

/* Malformed kernels that the text can express. */
static void test_texts(void **state) {
    (void)state;
    static const struct {
        const char *text, *violation;
    } wrong[] = {
        {"kernel @k()\n  span c in 0..8 step 7\n", "span c of 8 does not fit in one tile of 7"},
        {"kernel @k()\n  loop j in 0..8 step 4\n  grid i in 0..8 step 4\n", "grid axis i comes after"},
        {"kernel @k(%i: f32[8])\n  grid i in 0..8 step 4\n", "an axis and a buffer are named i"},
        {"kernel @k()\n  grid i in 0..8 step 4 family\n", "axis i cannot count the members"},
        {"kernel @k()\n  grid i in 0..2 step 1 family\n  grid j in 0..2 step 1 family\n", "axis j cannot count the members"},
        {"kernel @k()\n  loop i in 0..2 step 1 family\n", "axis i cannot count the members"},
        {"kernel @k(%x: f32[8] family 2, %y: f32[8])\n  grid i in 0..2 step 1\n", "x has not one for each member"},
        {"kernel @k(%x: f32[8] family 2, %y: f32[8])\n" MEMBERS(3), "x has not one for each member"},
        {"kernel @k(%y: f32[8], %x: f32[8] family 2)\n" MEMBERS(2), "x has not one for each member"},
        {"kernel @k(%x: f32[8] family 2, %y: f32[9])\n" MEMBERS(2), "x and y are one family but not alike"},
        {"kernel @k(%x: f32[8] family 2, %y: f32[8] out)\n" MEMBERS(2), "x and y are one family but not alike"},
        {"kernel @k(%x: f32[8] family 2, %y: f32[8])\n" MEMBERS(2) "  %0 = load %y[0]\n", "%y is accessed by its own name"},
        {LOADED "  store %y[@j], %0\n", "axis j is used outside its loop"},
        {LOADED "  store %y[@c], %0\n", "counts tiles along what is no grid axis"},
        {LOADED "  store %x[i], %0\n", "stores to %x, which is not declared out"},
        {HEAD "  %0 = load %x[j]\n", "axis j is used outside its loop"},
        {HEAD "  %0 = full 0 : f32[j:4]\n", "axis j is used outside its loop"},
        {HEAD "  %0 = index j + 1\n", "axis j is used outside its loop"},
        {HEAD "  for j {\n    %0 = load %x[j]\n    yield\n  }\n  %1 = neg %0\n", "%0 is used outside its body"},
        {HEAD "  for j {\n    %0 = index j\n    yield\n  }\n  %1 = load %x[%0]\n", "%0 is used outside its body"},
        {HEAD "  for i {\n    yield\n  }\n", "a loop runs over what is no loop axis"},
        {HEAD "  for c {\n    yield\n  }\n", "a loop runs over what is no loop axis"},
        {HEAD "  for j {\n    for j {\n      yield\n    }\n    yield\n  }\n", "a loop over j stands inside another"},
        {HEAD "  for j from j {\n    yield\n  }\n", "axis j is used outside its loop"},
        {HEAD "  for j to i {\n    yield\n  }\n", "a loop's bound is not the same in all of the program"},
        {HEAD "  for j from 4*@i to i / 2 {\n    yield\n  }\n", "a loop's bound is not the same in all of the program"},
        {HEAD "  for j from @j {\n    yield\n  }\n", "axis j is used outside its loop"},
        {HEAD "  for j {\n  }\n", "a body does not end with yield"},
        {HEAD "  for j {\n    yield\n    yield\n  }\n", "yield stands elsewhere"},
        {HEAD "  yield\n", "yield stands elsewhere"},
        {LOADED "  %3 = for j carry %1 = %0 {\n    yield\n  }\n", "0 values are yielded for 1"},
        {LOADED "  for j {\n    yield %0\n  }\n", "1 values are yielded for 0"},
        {LOADED "  %3 = for j carry %1 = %0 {\n    %2 = sum %1 over i\n    yield %2\n  }\n",
         "is yielded for %0 of another type"},
        {LOADED "  %3 = for j carry %1 = %0 {\n    %2 = load %x[j]\n    yield %2\n  }\n",
         "is yielded for %0 of another type"},
        {LOADED "  %3 = for j carry %1 = %0 {\n    %2 = cast %1 : f16[i:4]\n    yield %2\n  }\n", "of another type"},
        {LOADED "  if %0 {\n    yield\n  }\n", "a condition is not a scalar bool"},
        {LOADED "  %1 = lt %0, %0\n  if %1 {\n    yield\n  }\n", "a condition is not a scalar bool"},
        {LOADED "  %1 = load %x[%0]\n", "%0 is used as an index but is not i32"},
        {HEAD "  %0 = load %x[i / 0]\n", "an index divides by zero"},
        {HEAD "  %0 = load %x[i mod (1 - 3)]\n", "an index divides by zero"},
        {"kernel @k()\n  threads 32\n  grid i in 0..8 step 4 spread t0 t1 t2\n", "a step that is no multiple of its spread"},
        {"kernel @k()\n  threads 32\n  grid i in 0..8 step 4 spread t0 t0\n", "axis i is spread over one thread bit twice"},
        {"kernel @k()\n  threads 32\n  grid i in 0..8 step 4 spread t0 t5\n", "more threads than there are"},
        {"kernel @k()\n  grid i in 0..8 step 4 spread t0\n", "more threads than there are"},
        {"kernel @k(%a: f32[2], %x: f32[] out)\n  threads 32\n  span k in 0..2 step 2 spread t0\n  %0 = full 0 : f32\n"
         "  %1 = load %a[k] : f32[k:2]\n  %2 = stage %1 -> shared : f32[k:2]\n  %3 = neg %2 : f32[k:2]\n"
         "  %4 = dot %3, %2, %0 over k : f32\n  store %x[], %4\n",
         "%3 is in the registers of several threads along k, which %4 sums"},
        {"kernel @k(%x: f32[8,4] out)\n  threads 32\n  grid i in 0..8 step 4 spread t0 t1\n"
         "  span c in 0..4 step 4 spread t2 t1\n  %0 = full 0 : f32[i:4,c:4]\n  store %x[i, c], %0\n",
         "axes i and c of one tile share thread bits"},
        {"kernel @k()\n  threads 128 alternate 5 producer 128 persistent\n",
         "5 groups of threads alternate: not 1 to 4"},
        {"kernel @k()\n  threads 128 alternate 2 persistent\n",
         "do not walk programs whose tiles are fetched for them"},
        {"kernel @k()\n  threads 128 alternate 2 producer 32\n",
         "do not walk programs whose tiles are fetched for them"},
        {"kernel @k()\n  threads 64 alternate 2 producer 32 persistent\n",
         "64 threads alternate: not a power of two of whole warpgroups"},
        {"kernel @k()\n  threads 384 alternate 2 producer 32 persistent\n",
         "384 threads alternate: not a power of two of whole warpgroups"},
        {"kernel @k()\n  threads 256 alternate 4 producer 32 persistent\n", "a block of 1056 threads"},
    };
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        Arena *a = arena_new();
        assert_violates(a, parse(a, wrong[n].text), wrong[n].violation);
        arena_free(a);
    }
}

#define BUNDLE(first, axis, threads, second)                                                                      \
    "kernel @k(%x: f32[8], %u: f32[8], %y: f32[8] out, %v: f32[8] out)\n  threads 64\n  bundled " first               \
    " {\n    kernel @a(%x: f32[8], %y: f32[8] out)\n      threads 64\n      " axis                                 \
    "\n      %0 = load %x[i]\n      store %y[i], %0\n  }\n  bundled " second " {\n    kernel @b(%u: f32[8], %v: f32[8] out)\n      " threads \
    "\n      grid i in 0..8 step 4 spread t0 t1\n      %0 = load %u[i]\n      store %v[i], %0\n  }\n"

static void test_bundle(void **state) {
    (void)state;
    static const struct {
        const char *text, *violation;
    } wrong[] = {
        {BUNDLE("(%x, %y)", "grid i in 0..8 step 4 spread t0 t1", "threads 64", "(%u, %y)"), "is none of its bundle's, or another kernel's too"},
        {BUNDLE("(%x, %y)", "grid i in 0..8 step 4 spread t0 t1", "threads 64", "(%x, %v)"), "is none of its bundle's, or another kernel's too"},
        {BUNDLE("(%y, %x)", "grid i in 0..8 step 4 spread t0 t1", "threads 64", "(%u, %v)"), "is none of its bundle's, or another kernel's too"},
        {BUNDLE("(%x, %y)", "grid i in 0..8 step 4 spread t0 t1", "threads 128", "(%u, %v)"), "b cannot share a launch"},
        {BUNDLE("(%x, %y)", "grid i in 0..8 step 4 spread t0 t1", "threads 16", "(%u, %v)"), "b cannot share a launch"},
        {BUNDLE("(%x, %y)", "grid i in 0..8 step 4 spread t0 t1", "threads 64 persistent", "(%u, %v)"), "b cannot share a launch"},
        {BUNDLE("(%x, %y)", "grid i in 0..8 step 4 spread t0 t1 cluster 2", "threads 64", "(%u, %v)"), "a cannot share a launch"},
        {BUNDLE("(%x, %y)", "loop i in 0..8 step 4 spread t0 t1", "threads 64", "(%u, %v)"), "axis i is used outside its loop"},
        {"kernel @k(%x: f32[8])\n  threads 64\n  bundled () {\n    kernel @a()\n      threads 64\n  }\n", "buffer x is no bundled kernel's"},
        {"kernel @k()\n  threads 64 persistent\n  bundled () {\n    kernel @a()\n      threads 64\n  }\n", "has programs of its own"},
    };
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        Arena *a = arena_new();
        assert_violates(a, parse(a, wrong[n].text), wrong[n].violation);
        arena_free(a);
    }
    Arena *a = arena_new();
    assert_null(kernel_verify(a, parse(a, BUNDLE("(%x, %y)", "grid i in 0..8 step 4 spread t0 t1", "threads 64", "(%u, %v)"))));
    arena_free(a);
}

/* A scheduled product, and what is wrong when one place of it is different. */
#define PRODUCT(rows, columns, ahead, first, second, dot)                                                              \
    "kernel @k(%x: bf16[64,65], %w: bf16[64,64], %y: f32[64,64] out)\n  threads 32\n  grid m in 0..64 step 16 " rows "\n" \
    "  grid n in 0..64 step 16 " columns "\n  loop k in 0..64 step 32\n  %0 = full 0 : f32[m:16,n:16]\n"                 \
    "  %7 = for k " ahead "carry %1 = %0 {\n    %2 = load %x[m, k] : bf16[m:16,k:32]\n    %3 = stage %2 -> " first "\n"   \
    "    %4 = load %w[n, k] : bf16[n:16,k:32]\n    %5 = stage %4 -> " second "\n    %6 = dot " dot "\n    yield %6\n  }\n"  \
    "  store %y[m, n], %7\n"
#define ROWS "spread t2 t3 t4 r"
#define COLUMNS "spread r t0 t1"
#define FIRST "shared minor k swizzle 64 by threads 2"
#define SECOND "shared minor k swizzle 64 by async 16"
#define DOT "%3, %5, %1 over k by mma"

static void test_schedules(void **state) {
    (void)state;
    static const struct {
        const char *text, *violation;
    } wrong[] = {
        {PRODUCT("", COLUMNS, "ahead 2 ", FIRST, SECOND, DOT), "axis m is not spread as rows of %6"},
        {PRODUCT(ROWS, "spread t0 t1 r", "ahead 2 ", FIRST, SECOND, DOT), "axis n is not spread as columns of %6"},
        {PRODUCT(ROWS " order -1", COLUMNS, "", FIRST, SECOND, DOT), "out of range"},
        {PRODUCT(ROWS " order 2", COLUMNS " order 2", "", FIRST, SECOND, DOT), "one axis each"},
        {PRODUCT(ROWS " slowest 2", COLUMNS " order 2", "", FIRST, SECOND, DOT), "by one axis first"},
        {PRODUCT(ROWS " slowest 2", COLUMNS " slowest 2 down", "", FIRST, SECOND, DOT), "by one axis first"},
        {PRODUCT(ROWS " cluster 3", COLUMNS, "", FIRST, SECOND, DOT), "do not divide into clusters of 3"},
        {PRODUCT(ROWS " cluster 9", COLUMNS, "", FIRST, SECOND, DOT), "clusters of more than 8"},
        {PRODUCT(ROWS, COLUMNS, "ahead 99 ", FIRST, SECOND, DOT), "out of range"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared", "shared", "%3, %5, %1 over k"), "with nothing to fetch"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared", SECOND, DOT), "%3 is no staged tile with an innermost axis"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared minor k by threads 2", SECOND, DOT), "%3 is not swizzled"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared minor n swizzle 32 by threads 2", SECOND, DOT), "along an axis that it has not"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "local minor k swizzle 32", SECOND, DOT), "placed but not in shared memory"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared minor k swizzle 48", SECOND, DOT), "unknown swizzle"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared minor k swizzle 128", SECOND, DOT), "no multiple of its swizzle"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared by threads 2", SECOND, DOT), "without an innermost axis"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared minor k swizzle 64 by threads 3", SECOND, DOT), "accesses of 3 bytes"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared minor k swizzle 64 by async 2", SECOND, DOT), "accesses of 2 bytes"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared minor k swizzle 64 by async 4", SECOND, DOT), "4 bytes, of which 2 lie together"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", "shared minor k swizzle 64 by tma", SECOND, DOT), "begin at multiples of 16 bytes"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", FIRST, "shared minor k swizzle 64 by tma multicast", DOT), "a cluster that there is not"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", FIRST, "shared minor k swizzle 64 by mma", DOT), "not done by that"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", FIRST, SECOND, "%5, %3, %1 over k by mma"), "axis n is not spread as rows"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", FIRST, SECOND, "%3, %4, %1 over k by mma"), "%4 is no staged tile"},
        {PRODUCT(ROWS, COLUMNS, "", "shared", "shared minor k swizzle 64", "%2, %5, %1 over k by mma"), "axis k of %2 is not spread as"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", FIRST, SECOND, DOT) "  store %y[m, n], %7 by threads 4\n", "of what is not there"},
        {PRODUCT(ROWS, COLUMNS, "ahead 2 ", FIRST, SECOND, DOT)
         "  %8 = stage %7 -> shared minor m swizzle 64\n  store %y[m, n], %8 by threads 16\n", "16 bytes, of which 4 lie together"},
    };
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        Arena *a = arena_new();
        const char *error;
        const Kernel *k = kernel_parse(a, wrong[n].text, &error);
        const char *got = k ? kernel_verify(a, k) : error;
        if (!got || !strstr(got, wrong[n].violation)) fail_msg("%zu: `%s` does not say `%s`", n, got ? got : "accepted", wrong[n].violation);
        arena_free(a);
    }
    Arena *a = arena_new();
    assert_null(kernel_verify(a, parse(a, PRODUCT(ROWS, COLUMNS, "ahead 2 ", FIRST, SECOND, DOT))));
    arena_free(a);
}

#define GOOD                                                                                                      \
    LOADED "  %1 = for j carry %2 = %0 {\n    %3 = load %x[j + S]\n    %4 = sum %3 over j\n    %5 = add %2, %4\n" \
           "    yield %5\n  }\n  store %y[i], %1\n"

/* A kernel broken by hand: what text cannot express. */
typedef void Damage(Kernel *k);
static Inst *loop_of(Kernel *k) { return k->body.at[1]; }

static void axis_step(Kernel *k) { k->axes.at[0].step = 0; }
static void axis_name(Kernel *k) { k->axes.at[1].name = "i"; }
static void axis_symbol(Kernel *k) { k->axes.at[0].extent.sym = 3; }
static void axis_extent(Kernel *k) { k->axes.at[0].extent.bound = -1; }
static void spread_length(Kernel *k) { k->axes.at[0].spread.n = -1; }
static void spread_bit(Kernel *k) { k->axes.at[0].spread = (Spread){1, {-2}}, k->axes.at[0].step = 2; }
static void buffer_rank(Kernel *k) { k->buffers.at[0].rank = MAX_RANK + 1; }
static void buffer_stride(Kernel *k) { k->buffers.at[0].stride[0] = -1; }
static void buffer_dtype(Kernel *k) { k->buffers.at[0].dtype = DT_F64; }
static void buffer_name(Kernel *k) { k->buffers.at[0].name = "h.3"; }
static void kernel_name(Kernel *k) { k->name = "3k"; }
static void operand_past(Kernel *k) { loop_of(k)->body.at[1]->in[0] = 99; }
static void operand_later(Kernel *k) { loop_of(k)->body.at[1]->in[0] = 5; }
static void result_twice(Kernel *k) { loop_of(k)->body.at[1]->result = 3; }
static void result_type(Kernel *k) { k->types.at[4].dtype = DT_F64; }
static void stated_type(Kernel *k) { loop_of(k)->body.at[1]->type.dtype = DT_F64; }
static void axes_order(Kernel *k) {
    k->types.at[0] = (TileType){.dtype = DT_F32, .n_axes = 2, .axis = {2, 0}};
    k->body.at[0]->kind = TI_FULL;
    k->body.at[0]->n_index = 0;
    k->body.at[0]->type = k->types.at[0];
}
static void buffer_missing(Kernel *k) { k->body.at[0]->buffer = 7; }
static void too_few_indices(Kernel *k) { k->body.at[0]->n_index = 0; }
static void index_missing(Kernel *k) { k->body.at[0]->index[0] = NULL; }
static void index_axis_missing(Kernel *k) {
    k->body.at[0]->index[0] = index_make(k->arena, 0, 1, &(Term){.coef = 1, .atom = {.kind = ATOM_AXIS, .id = 9}});
}
static void index_symbol(Kernel *k) {
    k->body.at[0]->index[0] = index_make(k->arena, 0, 1, &(Term){.coef = 1, .atom = {.kind = ATOM_EXTENT, .id = 4}});
}
static void elementwise(Kernel *k) { loop_of(k)->body.at[2]->op = OP_RESHAPE; }
static void symbols_unnamed(Kernel *k) { k->sym_names = NULL; }
static void carry_missing(Kernel *k) { loop_of(k)->carry = NULL; }
static void mask_type(Kernel *k) {
    Inst *store = k->body.at[2];
    store->n_in = 2;
    store->in = arena_dup(k->arena, (int[]){1, 1}, 2 * sizeof(int));
}

static void test_damage(void **state) {
    (void)state;
    static const struct {
        Damage *damage;
        const char *violation;
    } wrong[] = {
        {axis_step, "axis i has step 0"},
        {axis_name, "two axes are named i"},
        {axis_symbol, "follows a symbol that the kernel has not"},
        {axis_extent, "impossible extent"},
        {spread_length, "impossible spread"},
        {spread_bit, "more threads than there are"},
        {buffer_rank, "has rank 11"},
        {buffer_stride, "negative stride"},
        {buffer_name, "a buffer has no name"},
        {kernel_name, "its name is not an identifier"},
        {operand_past, "a value is used that the kernel has not"},
        {operand_later, "%5 is used before it is defined"},
        {result_twice, "%3 is defined twice"},
        {buffer_dtype, "is f64: kernels compute in f32 and below"},
        {result_type, "%4 has another type than its instruction gives"},
        {stated_type, "%4 is stated to have another type"},
        {axes_order, "the axes of a value are not in order"},
        {buffer_missing, "no such buffer"},
        {too_few_indices, "as many indices"},
        {index_missing, "an index is missing"},
        {index_axis_missing, "an axis is used that the kernel has not"},
        {index_symbol, "an index uses an unknown symbol"},
        {elementwise, "not an elementwise operation"},
        {symbols_unnamed, "its symbols have no names"},
        {carry_missing, "a body's values are missing"},
        {mask_type, "the mask is not bool"},
    };
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        Arena *a = arena_new();
        Kernel *k = parse(a, GOOD);
        assert_null(kernel_verify(a, k));
        wrong[n].damage(k);
        assert_violates(a, k, wrong[n].violation);
        char *text = NULL;
        size_t bytes = 0;
        FILE *f = open_memstream(&text, &bytes); /* a refused kernel still prints */
        kernel_print(f, k);
        fclose(f);
        assert_true(bytes > 0);
        free(text);
        arena_free(a);
    }
}

/* Two loops after each other may walk one axis; an access may reach MAX_TILE_AXES axes, not more. */
static void test_limits(void **state) {
    (void)state;
    Arena *a = arena_new();
    assert_null(kernel_verify(a, parse(a, HEAD "  for j {\n    yield\n  }\n  for j {\n    yield\n  }\n")));
    Kernel *k = kernel_new(a, "wide");
    const int x = kernel_buffer(k, "x", DT_F32, shape_fixed(1, (int64_t[]){40}), NULL, false);
    const Index *sum = index_const(a, 0);
    for (int i = 0; i < MAX_TILE_AXES; i++)
        sum = index_add(k, sum, index_axis(k, kernel_axis(k, "a", AXIS_SPAN, dim_fixed(2), 2)));
    Builder b = {k, &k->body};
    tile_load(&b, x, &sum, -1, 0);
    assert_null(kernel_verify(a, k));
    sum = index_add(k, sum, index_axis(k, kernel_axis(k, "b", AXIS_SPAN, dim_fixed(2), 2)));
    tile_load(&b, x, &sum, -1, 0);
    assert_violates(a, k, "too many axes");
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts), cmocka_unit_test(test_bundle),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
