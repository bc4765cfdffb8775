/* Kernels as C: compiled by every compiler at hand with the strictest flags, run and compared with the interpreter,
 * bit for bit among the compilers; the text against goldens (UPDATE=1 rewrites them). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/c99/c99.h"
#include "ir/target.h"
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TEXT = 1 << 16, MAX_BUFFERS = 16 };
static const char flags[] = "-std=c99 -pedantic -Wall -Wextra -Werror -ffreestanding -ffp-contract=off";
static char folder[] = "/tmp/fusec-c99-XXXXXX";

typedef void Kernels(void *const *buffers, const int32_t *syms);

static char *read_file(Arena *a, const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    char *text = arena_alloc(a, MAX_TEXT);
    const size_t n = fread(text, 1, MAX_TEXT - 1, f);
    fclose(f);
    assert_true(n < MAX_TEXT - 1);
    return text;
}

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static Kernel *parse(Arena *a, const char *text) {
    const char *error = NULL;
    Kernel *k = kernel_parse(a, text, &error);
    if (!k) fail_msg("%s in:\n%s", error, text);
    const char *violation = kernel_verify(a, k);
    if (violation) fail_msg("%s in:\n%s", violation, text);
    return k;
}

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

static bool present(const char *command) {
    return system(command[0] == 'g' ? "gcc --version >/dev/null 2>&1" : "clang --version >/dev/null 2>&1") == 0;
}

static void *compile(Arena *a, const char *source, int which) {
    static int serial;
    const char *c = arena_printf(a, "%s/%d.c", folder, serial), *so = arena_printf(a, "%s/%d.so", folder, serial);
    serial++;
    write_file(c, source);
    const char *command = arena_printf(a, "%s %s %s -shared -fPIC -o %s %s", compilers[which].command, flags,
                                       compilers[which].options, so, c);
    if (system(command) != 0) fail_msg("%s\n%s", command, source);
    void *library = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    return library;
}

/* ---- data ----------------------------------------------------------------------------------------------- */
static int64_t buffer_bytes(const Buffer *b) {
    int64_t last = 0;
    for (int d = 0; d < b->rank; d++) last += (b->dim[d].bound > 0 ? b->dim[d].bound - 1 : 0) * llabs(b->stride[d]);
    return (last + 1) * dtype_bytes(b->dtype);
}

static uint32_t random_state;
static uint32_t random_bits(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* Floats in [-2, 2) with some exact values; integers in 0..3. */
static void *random_buffer(Arena *a, const Buffer *b) {
    const int64_t bytes = buffer_bytes(b);
    uint8_t *data = arena_alloc(a, (size_t)bytes + 64);
    for (int64_t i = 0; i < bytes / dtype_bytes(b->dtype); i++) {
        const uint32_t r = random_bits();
        const double x = r % 16 == 0 ? (double)(r / 16 % 5) - 2 : (double)(r % 4001) / 1000 - 2;
        switch (b->dtype) {
        case DT_BOOL: data[i] = r & 1; break;
        case DT_I32: ((int32_t *)data)[i] = (int32_t)(r % 4); break;
        case DT_F64: ((double *)data)[i] = x; break;
        default: ((float *)data)[i] = (float)x;
        }
    }
    return data;
}

static double element(const Buffer *b, const void *data, int64_t i) {
    switch (b->dtype) {
    case DT_BOOL: return ((const uint8_t *)data)[i];
    case DT_I32: return ((const int32_t *)data)[i];
    case DT_F64: return ((const double *)data)[i];
    default: return ((const float *)data)[i];
    }
}

static void compare(const Kernel *k, const Buffer *b, const void *got, const void *want, const char *source) {
    for (int64_t i = 0; i < buffer_bytes(b) / dtype_bytes(b->dtype); i++) {
        const double x = element(b, got, i), y = element(b, want, i);
        if (x == y || (isnan(x) && isnan(y))) continue;
        const double tolerance = b->dtype == DT_F32 ? 2e-6 * (4 + fabs(y)) : 0;
        if (!(fabs(x - y) <= tolerance))
            fail_msg("@%s %%%s[%d]: %.9g, not %.9g\n%s", k->name, b->name, (int)i, x, y, source);
    }
}

/* ---- one kernel, all compilers ---------------------------------------------------------------------------------- */
static void run_everywhere(Arena *a, Kernel *k, const int64_t *syms) {
    C99Unit *u = c99_unit(a);
    const char *why = c99_kernel(u, k, k->name);
    if (why) fail_msg("@%s: %s", k->name, why);
    assert_true(c99_stack_bytes(u) > 0);
    const char *source = program(a, k, print(a, u));
    void *start[MAX_BUFFERS], *first[MAX_BUFFERS] = {0};
    TileMemory want[MAX_BUFFERS];
    int32_t small[8] = {0};
    for (int i = 0; i < k->n_syms; i++) small[i] = (int32_t)syms[i];
    for (int i = 0; i < k->buffers.n; i++) {
        const Buffer *b = &k->buffers.at[i];
        start[i] = random_buffer(a, b);
        want[i] = (TileMemory){.data = arena_dup(a, start[i], (size_t)buffer_bytes(b)), .bytes = buffer_bytes(b)};
    }
    const char *error = NULL;
    if (!kernel_run(a, k, want, syms, &error)) fail_msg("@%s: %s", k->name, error);
    for (int c = 0; c < COMPILERS; c++) {
        if (!present(compilers[c].command)) continue;
        void *library = compile(a, source, c), *symbol = dlsym(library, "run"), *got[MAX_BUFFERS];
        Kernels *run;
        memcpy(&run, &symbol, sizeof run);
        for (int i = 0; i < k->buffers.n; i++) got[i] = arena_dup(a, start[i], (size_t)buffer_bytes(&k->buffers.at[i]));
        run(got, small);
        for (int i = 0; i < k->buffers.n; i++) {
            compare(k, &k->buffers.at[i], got[i], want[i].data, source);
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
    Kernel *k = parse(a, text);
    for (int full = 0; full < (k->n_syms ? 2 : 1); full++) {
        int64_t syms[8] = {0};
        for (int i = 0; i < k->n_syms; i++) syms[i] = full ? k->sym_bounds[i] : k->sym_bounds[i] / 2;
        run_everywhere(a, k, syms);
    }
    arena_free(a);
}

static const char *const golden_names[] = {"conv", "gather", "gemm", "scan", "scatter", "softmax_loop", "softmax_span"};

static void each_tile_golden_runs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof golden_names / sizeof *golden_names; i++) {
        Arena *a = arena_new();
        check(read_file(a, arena_printf(a, "%s/tests/golden/tile/%s.tile", SOURCE_DIR, golden_names[i])));
        arena_free(a);
    }
}

static void texts_are_the_goldens(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof golden_names / sizeof *golden_names; i++) {
        Arena *a = arena_new();
        Kernel *k =
            parse(a, read_file(a, arena_printf(a, "%s/tests/golden/tile/%s.tile", SOURCE_DIR, golden_names[i])));
        const char *path = arena_printf(a, "%s/tests/golden/c99/%s.c", SOURCE_DIR, golden_names[i]);
        C99Unit *u = c99_unit(a);
        assert_null(c99_kernel(u, k, k->name));
        const char *got = print(a, u);
        if (getenv("UPDATE")) write_file(path, got);
        const char *want = read_file(a, path);
        assert_non_null(want);
        assert_string_equal(got, want);
        arena_free(a);
    }
}

/* ---- every elementwise op ------------------------------------------------------------------------------------------
 */
static bool takes(Op op, DType t) {
    switch (op) {
    case OP_AND:
    case OP_OR:
    case OP_NOT: return t == DT_BOOL;
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
    case OP_POW:
    case OP_MAX:
    case OP_MIN:
    case OP_NEG:
    case OP_ABS:
    case OP_SIGN: return t != DT_BOOL;
    default: return t == DT_F32;
    }
}

/* z[i] = op(x[i], y[i]), of dtype t; logarithms and roots see |x|. */
static void check_binary(Op op, DType t) {
    Arena *a = arena_new();
    const OpInfo *info = &op_info[op];
    const char *type = dtype_name(t), *result = info->type == TYPE_BOOL ? "bool" : type;
    const bool positive =
        op == OP_LOG || op == OP_LOG1P || op == OP_SQRT || op == OP_RSQRT || (op == OP_POW && t == DT_F32);
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
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_info[op].cls != CLASS_ELEMENT || op == OP_CAST || op == OP_SELECT || op == OP_PHILOX) continue;
        for (int t = DT_BOOL; t <= DT_F32; t++)
            if (takes((Op)op, (DType)t)) check_binary((Op)op, (DType)t);
    }
}

/* ---- shapes of kernels that the goldens do not show
 * ------------------------------------------------------------------ */
static void casts_and_select(void **state) {
    (void)state;
    check("kernel @casts(%x: f32[9], %n: i32[9], %c: bool[9], %y: f32[9] out, %m: i32[9] out, %d: bool[9] out)\n"
          "  grid i in 0..9 step 4\n"
          "  %0 = load %x[i] : f32[i:4]\n  %1 = load %n[i] : i32[i:4]\n  %2 = load %c[i] : bool[i:4]\n"
          "  %3 = cast %1 : f32[i:4]\n  %4 = select %2, %0, %3 : f32[i:4]\n  store %y[i], %4\n"
          "  %5 = cast %0 : i32[i:4]\n  %6 = select %2, %5, %1 : i32[i:4]\n  store %m[i], %6\n"
          "  %7 = cast %0 : bool[i:4]\n  store %d[i], %7\n");
}

static void philox_and_scalars(void **state) {
    (void)state;
    check("kernel @dropout(%x: f32[20], %seed: i32[], %step: i32[], %y: f32[20] out)\n"
          "  grid i in 0..20 step 8\n"
          "  %0 = load %seed[] : i32\n  %1 = load %step[] : i32\n  %2 = index i : i32[i:8]\n  %3 = const 7 : i32\n"
          "  %4 = philox %0, %1, %3, %2 : f32[i:8]\n  %5 = const 0.5 : f32\n  %6 = lt %4, %5 : bool[i:8]\n"
          "  %7 = load %x[i] : f32[i:8]\n  %8 = const 0 : f32\n  %9 = select %6, %7, %8 : f32[i:8]\n"
          "  store %y[i], %9\n");
}

/* Softmax over streamed keys: carried maximum, sum and accumulator, rescaled. */
static void online_softmax(void **state) {
    (void)state;
    check("kernel @attention<S<=10>(%s: f32[6,S<=10], %v: f32[S<=10,5], %o: f32[6,5] out)\n"
          "  grid m in 0..6 step 2\n  loop j in 0..S<=10 step 4\n  span d in 0..5 step 8\n"
          "  %0 = full -inf : f32[m:2]\n  %1 = full 0 : f32[m:2]\n  %2 = full 0 : f32[m:2,d:8]\n"
          "  %20, %21, %22 = for j carry %3 = %0, %4 = %1, %5 = %2 {\n"
          "    %6 = load %s[m, j] : f32[m:2,j:4]\n    %7 = rmax %6 over j : f32[m:2]\n    %8 = max %3, %7 : f32[m:2]\n"
          "    %9 = sub %3, %8 : f32[m:2]\n    %10 = exp %9 : f32[m:2]\n    %11 = sub %6, %8 : f32[m:2,j:4]\n"
          "    %12 = exp %11 : f32[m:2,j:4]\n    %13 = sum %12 over j : f32[m:2]\n    %14 = mul %4, %10 : f32[m:2]\n"
          "    %15 = add %14, %13 : f32[m:2]\n    %16 = mul %5, %10 : f32[m:2,d:8]\n    %17 = load %v[j, d] : "
          "f32[j:4,d:8]\n"
          "    %18 = dot %12, %17, %16 over j : f32[m:2,d:8]\n    yield %8, %15, %18\n  }\n"
          "  %23 = div %22, %21 : f32[m:2,d:8]\n  store %o[m, d], %23\n");
}

/* Rotating carries: all are computed before any changes. */
static void carries_change_together(void **state) {
    (void)state;
    check("kernel @fibonacci(%x: f32[4], %y: f32[4] out, %z: f32[] out)\n  loop i in 0..7 step 1\n  span c in 0..4 "
          "step 4\n"
          "  %0 = load %x[c] : f32[c:4]\n  %1 = full 1 : f32[c:4]\n  %2 = const 0 : f32\n"
          "  %10, %11, %12 = for i carry %3 = %0, %4 = %1, %5 = %2 {\n"
          "    %6 = add %3, %4 : f32[c:4]\n    %7 = sum %3 over c : f32\n    %8 = add %5, %7 : f32\n    yield %4, %6, "
          "%8\n  }\n"
          "  %13 = mul %10, %11 : f32[c:4]\n  store %y[c], %13\n  store %z[], %12\n");
}

/* The load comes before the store to the same memory, its use after. */
static void loads_stay_before_stores(void **state) {
    (void)state;
    check("kernel @swap(%x: f32[8] out, %y: f32[8] out)\n  grid i in 0..8 step 4\n"
          "  %0 = load %x[i] : f32[i:4]\n  %1 = load %y[i] : f32[i:4]\n  store %x[i], %1\n  store %y[i], %0\n");
    check("kernel @reverse(%x: f32[6] out)\n  span i in 0..6 step 8\n"
          "  %0 = load %x[-i + 5] : f32[i:8]\n  store %x[i], %0\n");
}

/* No function of the text, kernel or helper, has a frame past the bound that the unit states (gcc's own figures). */
static void the_stack_bound_holds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof golden_names / sizeof *golden_names; i++) {
        Arena *a = arena_new();
        Kernel *k =
            parse(a, read_file(a, arena_printf(a, "%s/tests/golden/tile/%s.tile", SOURCE_DIR, golden_names[i])));
        C99Unit *u = c99_unit(a);
        assert_null(c99_kernel(u, k, k->name));
        write_file(arena_printf(a, "%s/stack.c", folder), program(a, k, print(a, u)));
        assert_int_equal(
            system(arena_printf(a, "cd %s && gcc %s -O1 -fstack-usage -c stack.c -o stack.o", folder, flags)), 0);
        char *usage = read_file(a, arena_printf(a, "%s/stack.su", folder));
        assert_non_null(usage);
        int64_t most = 0;
        for (char *line = strtok(usage, "\n"); line; line = strtok(NULL, "\n")) {
            const char *tab = strchr(line, '\t');
            assert_non_null(tab);
            if (atoll(tab) > most) most = atoll(tab);
        }
        assert_true(most > 0 && most <= c99_stack_bytes(u));
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

static void what_c_lacks_is_said(void **state) {
    (void)state;
    Arena *a = arena_new();
    Kernel *k = parse(a, "kernel @half(%x: f16[4], %y: f16[4] out)\n  grid i in 0..4 step 4\n"
                         "  %0 = load %x[i] : f16[i:4]\n  store %y[i], %0\n");
    assert_string_equal(c99_kernel(c99_unit(a), k, "half"), "C99 has no type for f16");
    k = parse(a, "kernel @e(%x: f64[4], %y: f64[4] out)\n  grid i in 0..4 step 4\n"
                 "  %0 = load %x[i] : f64[i:4]\n  %1 = exp %0 : f64[i:4]\n  store %y[i], %1\n");
    assert_string_equal(c99_kernel(c99_unit(a), k, "e"), "exp of f64 has no form in C99");
    arena_free(a);
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

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identifiers_are_safe),    cmocka_unit_test(each_tile_golden_runs),
        cmocka_unit_test(texts_are_the_goldens),   cmocka_unit_test(casts_and_select),
        cmocka_unit_test(philox_and_scalars),      cmocka_unit_test(online_softmax),
        cmocka_unit_test(carries_change_together), cmocka_unit_test(loads_stay_before_stores),
        cmocka_unit_test(the_stack_bound_holds),   cmocka_unit_test(names_that_c_reserves),
        cmocka_unit_test(what_c_lacks_is_said),    cmocka_unit_test(every_elementwise_op_runs),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
