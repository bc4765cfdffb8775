/* Kernels as C: compiled by every compiler at hand with the strictest flags, run and compared with the interpreter,
 * bit for bit among the compilers; the text against goldens (UPDATE=1 rewrites them). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/c99/c99.h"
#include "ir/target.h"
#include "tests/support/kernel_case.h"
#include "tests/support/scratch.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef void Kernels(void *const *buffers, const int32_t *syms);

static char *print(Arena *a, const C99Unit *u) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    c99_print(f, u);
    fclose(f);
    char *copy = arena_strdup(a, text);
    free(text);
    return copy;
}

/* The unit of one kernel and a function that calls it through arrays. */
static char *program(Arena *a, const Kernel *k, const char *unit) {
    char *s =
        arena_printf(a,
                     "%s\nvoid run(void *const *buffers, const int32_t *syms);\n"
                     "void run(void *const *buffers, const int32_t *syms) {\n    (void)buffers, (void)syms;\n    %s(",
                     unit, k->name);
    for (int i = 0; i < k->buffers.n; i++) s = arena_printf(a, "%s%sbuffers[%d]", s, i ? ", " : "", i);
    for (int i = 0; i < k->n_syms; i++) s = arena_printf(a, "%s%ssyms[%d]", s, i || k->buffers.n ? ", " : "", i);
    return arena_printf(a, "%s);\n}\n", s);
}

typedef struct Compiler {
    const char *command, *options;
} Compiler;
static const Compiler compilers[] = {
    {"gcc", "-O2"},
    {"gcc", "-O0 -DFUSEC_SOFT_SQRT"},
    {"clang", "-O2"},
    {"gcc", "-O1 -fsanitize=undefined -fno-sanitize-recover=undefined -fsanitize-undefined-trap-on-error"}};
enum { COMPILERS = sizeof compilers / sizeof *compilers };

static void *compile(Arena *a, const char *source, const Compiler *c) {
    const char *path = arena_printf(a, "%s/kernel.c", scratch_folder());
    write_text(path, source);
    return compile_and_load(a, arena_printf(a, "%s %s", c->command, c->options), path);
}

static double tolerance(DType t, double y) { return t == DT_F32 ? 2e-6 * (4 + fabs(y)) : 0; }

/* ---- one kernel, all compilers ---------------------------------------------------------------------------------- */
static void run_everywhere(Arena *a, Kernel *k, const int64_t *syms) {
    C99Unit *u = c99_unit(a);
    const char *why = c99_kernel(u, k, k->name);
    if (why) fail_msg("@%s: %s", k->name, why);
    assert_true(c99_stack(u).values > 0);
    const char *source = program(a, k, print(a, u));
    void *start[MAX_BUFFERS], *first[MAX_BUFFERS] = {0};
    TileMemory want[MAX_BUFFERS];
    int32_t small[8] = {0};
    for (int i = 0; i < k->n_syms; i++) small[i] = (int32_t)syms[i];
    kernel_expected(a, k, syms, start, want);
    for (int c = 0; c < COMPILERS; c++) {
        if (!have_compiler(compilers[c].command)) continue;
        void *library = compile(a, source, &compilers[c]), *symbol = load_symbol(library, "run"), *got[MAX_BUFFERS];
        Kernels *run;
        memcpy(&run, &symbol, sizeof run);
        for (int i = 0; i < k->buffers.n; i++) got[i] = arena_dup(a, start[i], (size_t)buffer_bytes(&k->buffers.at[i]));
        run(got, small);
        for (int i = 0; i < k->buffers.n; i++) {
            compare_elements(k, &k->buffers.at[i], got[i], want[i].data, tolerance, source);
            if (!first[i]) first[i] = got[i];
            if (memcmp(first[i], got[i], (size_t)buffer_bytes(&k->buffers.at[i])) != 0)
                fail_msg("@%s %%%s: %s %s gives other bits", k->name, k->buffers.at[i].name, compilers[c].command,
                         compilers[c].options);
        }
        dlclose(library);
    }
}

static void check(const char *text) {
    Arena *a = arena_new();
    Kernel *k = parse_kernel(a, text);
    for (int full = 0; full < (k->n_syms ? 2 : 1); full++) {
        int64_t syms[8] = {0};
        for (int i = 0; i < k->n_syms; i++) syms[i] = full ? k->sym_bounds[i] : k->sym_bounds[i] / 2;
        run_everywhere(a, k, syms);
    }
    arena_free(a);
}

static void each_tile_golden_runs(void **state) {
    (void)state;
    for (int i = 0; i < TILE_GOLDENS; i++) {
        Arena *a = arena_new();
        check(tile_golden(a, i));
        arena_free(a);
    }
}

static void texts_are_the_goldens(void **state) {
    (void)state;
    for (int i = 0; i < TILE_GOLDENS; i++) {
        Arena *a = arena_new();
        Kernel *k = parse_kernel(a, tile_golden(a, i));
        const char *path = arena_printf(a, "%s/tests/golden/c99/%s.c", SOURCE_DIR, tile_goldens[i]);
        C99Unit *u = c99_unit(a);
        assert_null(c99_kernel(u, k, k->name));
        const char *got = print(a, u);
        if (getenv("UPDATE")) write_text(path, got);
        const char *want = read_text(a, path);
        assert_non_null(want);
        assert_string_equal(got, want);
        arena_free(a);
    }
}

/* ---- every elementwise op ---------------------------------------------------------------------------------------- */
/* z[i] = op(x[i], y[i]), of dtype t; logarithms and roots see |x|. */
static void check_binary(Op op, DType t) {
    Arena *a = arena_new();
    const OpInfo *info = &op_info[op];
    const char *type = dtype_name(t), *result = info->type == TYPE_BOOL ? "bool" : info->type == TYPE_I32 ? "i32" : type;
    const bool positive = op_wants_positive(op, t);
    char *text = arena_printf(a,
                              "kernel @op_%s(%%x: %s[37], %%y: %s[37], %%z: %s[37] out)\n  grid i in 0..37 step 8\n"
                              "  %%0 = load %%x[i] : %s[i:8]\n",
                              info->text, type, type, result, type);
    text = arena_printf(a, "%s  %%1 = load %%y[i] : %s[i:8]\n", text, type);
    if (positive) text = arena_printf(a, "%s  %%2 = abs %%0 : f32[i:8]\n", text);
    text = arena_printf(a, "%s  %%3 = %s %s%s : %s[i:8]\n  store %%z[i], %%3\n", text, info->text,
                        positive ? "%2" : "%0", info->arity == 2 ? ", %1" : "", result);
    check(text);
    arena_free(a);
}

static void every_elementwise_op_runs(void **state) {
    (void)state;
    kernel_seed(1); /* of quotients that round to a whole number, where mod jumps, there is none */
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_info[op].cls != CLASS_ELEMENT || op == OP_CAST || op == OP_SELECT || op == OP_PHILOX) continue;
        for (int t = DT_BOOL; t <= DT_F32; t++)
            if (op_takes((Op)op, (DType)t)) check_binary((Op)op, (DType)t);
    }
}

/* ---- shapes of kernels that the goldens do not show -------------------------------------------------------------- */
static void kernels_of_every_back_end_run(void **state) {
    (void)state;
    Arena *a = arena_new();
    check(kernel_casts);
    check(kernel_dropout);
    check(kernel_fibonacci);
    check(kernel_turns);
    check(kernel_swap);
    check(kernel_attention(a, 10, 5, 2, 4));
    arena_free(a);
}

/* The load comes before the store to the same memory, its use after. */
static void loads_stay_before_stores(void **state) {
    (void)state;
    check("kernel @tiles(%x: f32[11,70], %y: f32[3,70] out)\n  grid i in 0..11 step 4\n  grid j in 0..70 step 32\n"
          "  %0 = load %x[i, j] : f32[i:4,j:32]\n  %1 = sum %0 over i : f32[j:32]\n  store %y[@i, j], %1\n");
    check("kernel @reverse(%x: f32[6] out)\n  span i in 0..6 step 8\n"
          "  %0 = load %x[-i + 5] : f32[i:8]\n  store %x[i], %0\n");
}

/* No function of the text, kernel or helper, has a frame past the bound that the unit states (gcc's own figures). */
static void the_stack_bound_holds(void **state) {
    (void)state;
    for (int i = 0; i < TILE_GOLDENS; i++) {
        Arena *a = arena_new();
        Kernel *k = parse_kernel(a, tile_golden(a, i));
        C99Unit *u = c99_unit(a);
        assert_null(c99_kernel(u, k, k->name));
        write_text(arena_printf(a, "%s/stack.c", scratch_folder()), program(a, k, print(a, u)));
        scratch_shell(a, "gcc " STRICT_C99 " -O1 -fstack-usage -c stack.c -o stack.o");
        char *usage = read_text(a, arena_printf(a, "%s/stack.su", scratch_folder()));
        assert_non_null(usage);
        int64_t most = 0;
        for (char *line = strtok(usage, "\n"); line; line = strtok(NULL, "\n")) {
            const char *tab = strchr(line, '\t');
            assert_non_null(tab);
            if (atoll(tab) > most) most = atoll(tab);
        }
        const C99Stack s = c99_stack(u);
        assert_true(most > 0 && most <= s.arrays + 32 * s.values + 8 * s.arguments);
        arena_free(a);
    }
}

static void names_that_c_reserves(void **state) {
    (void)state;
    check("kernel @names<int<=3>(%restrict: f32[4], %v1: f32[4], %float: f32[4] out, %unused: f32[2])\n"
          "  grid for in 0..4 step 2\n"
          "  %0 = load %restrict[for] : f32[for:2]\n  %1 = load %v1[for] : f32[for:2]\n  %2 = mul %0, %1 : f32[for:2]\n"
          "  %3 = mul %2, %0 : f32[for:2]\n  %4 = add %3, %2 : f32[for:2]\n  store %float[for], %4\n");
}

static void identifiers_are_safe(void **state) {
    (void)state;
    Arena *a = arena_new();
    assert_string_equal(c99_identifier(a, "h.3.qkv.w"), "h_3_qkv_w");
    assert_string_equal(c99_identifier(a, "3x"), "_3x");
    assert_string_equal(c99_identifier(a, "while"), "while_");
    assert_string_equal(c99_identifier(a, "v12"), "v12_");
    assert_string_equal(c99_identifier(a, ""), "_");
    C99Names names = {0};
    assert_string_equal(c99_unique(a, &names, "x"), "x");
    assert_string_equal(c99_unique(a, &names, "x"), "x_2");
    assert_string_equal(c99_literal(a, DT_F32, 0.1), "0.1f");
    assert_string_equal(c99_literal(a, DT_F32, 3), "3.0f");
    assert_string_equal(c99_literal(a, DT_F32, -HUGE_VAL), "-FUSEC_INF");
    assert_string_equal(c99_literal(a, DT_I32, -2147483648.0), "INT32_MIN");
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identifiers_are_safe),     cmocka_unit_test(each_tile_golden_runs),
        cmocka_unit_test(texts_are_the_goldens),    cmocka_unit_test(kernels_of_every_back_end_run),
        cmocka_unit_test(loads_stay_before_stores), cmocka_unit_test(the_stack_bound_holds),
        cmocka_unit_test(names_that_c_reserves),
        cmocka_unit_test(every_elementwise_op_runs),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
