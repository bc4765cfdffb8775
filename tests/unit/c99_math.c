/* The math functions as C text, compiled: within the bounds of ir/ops.def, over all exponents; the
 * software square root gives the machine's bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/c99/c99.h"
#include "tests/support/scratch.h"
#include <dlfcn.h>
#include <math.h>
#include <string.h>

enum { N = 1 << 17 };
/* The functions of the language that give what they take, and powers. */
static bool is_function(Op op) {
    return op_info[op].type == TYPE_SAME && (op_info[op].call == CALLED_FUNCTION || op_is_transcendental(op));
}

static double reference(Op op, double x, double y) { return scalar_op(op, DT_F64, (double[]){x, y}); }

static double ulps(float got, double want) {
    if (isnan(want)) return isnan(got) ? 0 : HUGE_VAL;
    const float nearest = (float)want;
    if (got == nearest) return (double)got == want ? 0 : 0.5;
    if (isinf(nearest) || isinf(got)) return isinf(nearest) && fabsf(got) >= 3.4028234e38f ? 1 : HUGE_VAL;
    int e;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1.0, (e < -125 ? -125 : e) - 24);
}

/* One kernel per op, and a function that runs op `which`. */
static void write_source(Arena *a, const char *path) {
    C99Unit *u = c99_unit(a);
    char *calls = arena_strdup(a, "");
    for (int i = 0; i < OP_COUNT; i++) {
        const OpInfo *info = &op_info[i];
        if (!is_function((Op)i)) continue;
        const char *error = NULL;
        Kernel *k = kernel_parse(
            a,
            arena_printf(a,
                         "kernel @op%d(%%x: f32[%d], %%y: f32[%d], %%z: f32[%d] out)\n  grid i in 0..%d step 64\n"
                         "  %%0 = load %%x[i] : f32[i:64]\n  %%1 = load %%y[i] : f32[i:64]\n"
                         "  %%2 = %s %%0%s : f32[i:64]\n  store %%z[i], %%2\n",
                         i, N, N, N, N, info->text, info->arity == 2 ? ", %1" : ""),
            &error);
        if (!k) fail_msg("%s", error);
        assert_null(c99_kernel(u, k, k->name));
        calls = arena_printf(a, "%s    if (which == %d) op%d(x, y, z);\n", calls, i, i);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    c99_print(f, u);
    fprintf(f,
            "void run(int which, const float *x, const float *y, float *z);\n"
            "void run(int which, const float *x, const float *y, float *z) {\n%s}\n",
            calls);
    fclose(f);
}

static uint32_t random_state = 7;
static uint32_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    return random_state ^= random_state << 5;
}

static float x[N], y[N], z[N];

/* All exponents evenly; for pow also bases near 1 and moderate pairs. */
static void fill(Op op) {
    for (int i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)i * (uint32_t)((1ull << 32) / N) + random_bits() % ((1ull << 32) / N),
                 more = random_bits();
        if (op == OP_POW && i % 2) bits = 0x3e000000 + bits % 0x04000000;
        memcpy(&x[i], &bits, 4);
        memcpy(&y[i], &more, 4);
        if (op == OP_POW && i % 4 == 3) y[i] = (float)((int32_t)more % 4000) / 16;
    }
}

static void check(Arena *a, const char *compiler) {
    const char *c = arena_printf(a, "%s/math.c", scratch_folder());
    write_source(a, c);
    void *library = compile_and_load(a, compiler, c), *symbol = load_symbol(library, "run");
    void (*run)(int, const float *, const float *, float *);
    memcpy(&run, &symbol, sizeof run);
    for (Op op = 0; op < OP_COUNT; op++) {
        if (!is_function(op)) continue;
        fill(op);
        run(op, x, y, z);
        for (int i = 0; i < N; i++) {
            const double e = ulps(z[i], reference(op, x[i], y[i]));
            if (e > op_info[op].ulps)
                fail_msg("%s: %s(%a, %a) = %a: %.3f ulp", compiler, op_info[op].text, x[i], y[i], z[i], e);
        }
    }
    dlclose(library);
}

static void functions_keep_their_bounds(void **state) {
    (void)state;
    Arena *a = arena_new();
    check(a, "gcc -O2");
    check(a, "gcc -O1 -DFUSEC_SOFT_SQRT");
    if (have_compiler("clang")) check(a, "clang -O2");
    arena_free(a);
}

/* ---- floats of 16 bits and tf32 ----------------------------------------------------------------------------------- */
static const DType low[] = {DT_F16, DT_BF16, DT_TF32};
enum { LOWS = sizeof low / sizeof *low };

/* A kernel that stores floats as the dtype and one that reads them back. */
static void write_conversions(Arena *a, const char *path) {
    C99Unit *u = c99_unit(a);
    char *calls = arena_strdup(a, "");
    for (int i = 0; i < LOWS; i++) {
        static const char *const text[] = {
            "kernel @to%d(%%x: f32[%d], %%z: %s[%d] out)\n  grid i in 0..%d step 64\n  %%0 = load %%x[i] : f32[i:64]\n"
            "  %%1 = cast %%0 : %s[i:64]\n  store %%z[i], %%1\n",
            "kernel @from%d(%%x: %s[%d], %%z: f32[%d] out)\n  grid i in 0..%d step 64\n  %%0 = load %%x[i] : %s[i:64]\n"
            "  %%1 = cast %%0 : f32[i:64]\n  store %%z[i], %%1\n"};
        const char *t = dtype_name(low[i]), *error = NULL;
        Kernel *to = kernel_parse(a, arena_printf(a, text[0], i, N, t, N, N, t), &error);
        Kernel *from = to ? kernel_parse(a, arena_printf(a, text[1], i, t, N, N, N, t), &error) : NULL;
        if (!from) fail_msg("%s", error);
        assert_null(c99_kernel(u, to, to->name));
        assert_null(c99_kernel(u, from, from->name));
        calls = arena_printf(a, "%s    if (which == %d) to%d(x, between), from%d(between, z);\n", calls, i, i, i);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    c99_print(f, u);
    fprintf(f,
            "void run(int which, const float *x, void *between, float *z);\n"
            "void run(int which, const float *x, void *between, float *z) {\n%s}\n",
            calls);
    fclose(f);
}

/* What lies in the middle between two values, and its neighbours. */
static void fill_ties(DType t) {
    const uint32_t unit = t == DT_BF16 ? 0x10000 : 0x2000;
    fill(OP_NEG);
    for (int i = 0; i < N; i += 2) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits = (bits & ~(unit - 1)) + unit / 2 + (uint32_t)(i / 2 % 3) - 1;
        memcpy(&x[i], &bits, 4);
    }
}

static void check_conversions(Arena *a, const char *compiler) {
    const char *c = arena_printf(a, "%s/low.c", scratch_folder());
    write_conversions(a, c);
    void *library = compile_and_load(a, compiler, c), *symbol = load_symbol(library, "run");
    void (*run)(int, const float *, void *, float *);
    memcpy(&run, &symbol, sizeof run);
    for (int i = 0; i < LOWS; i++) {
        fill_ties(low[i]);
        run(i, x, y, z);
        for (int n = 0; n < N; n++) {
            const double want = scalar_round(low[i], (double)x[n]);
            const bool same = isnan(want) ? isnan(z[n]) : (double)z[n] == want && !signbit(z[n]) == !signbit(want);
            if (!same) fail_msg("%s: %a as %s is %a, not %a", compiler, (double)x[n], dtype_name(low[i]), (double)z[n], want);
        }
    }
    dlclose(library);
}

static void conversions_round_as_the_reference(void **state) {
    (void)state;
    Arena *a = arena_new();
    check_conversions(a, "gcc -O2");
    if (have_compiler("clang")) check_conversions(a, "clang -O2");
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions_keep_their_bounds),
                                       cmocka_unit_test(conversions_round_as_the_reference)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
