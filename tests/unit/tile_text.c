/* Tile IR text: goldens print as they were read, errors have a place, no input crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "ir/tile.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 1 << 15, MUTATIONS = 3000 };

static char *print(Arena *a, const Kernel *k) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    kernel_print(f, k);
    fclose(f);
    char *copy = arena_strdup(a, text);
    free(text);
    return copy;
}

static Kernel *parse(Arena *a, const char *text) {
    const char *error = NULL;
    Kernel *k = kernel_parse(a, text, &error);
    if (!k) fail_msg("%s in:\n%s", error, text);
    return k;
}

typedef void Visit(Arena *a, const char *name, const char *text);

static int each_golden(Visit *visit) {
    DIR *d = opendir(SOURCE_DIR "/tests/golden/tile");
    int seen = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (!strstr(e->d_name, ".tile")) continue;
        Arena *a = arena_new();
        char *text = arena_alloc(a, MAX_TEXT);
        FILE *f = fopen(arena_printf(a, "%s/tests/golden/tile/%s", SOURCE_DIR, e->d_name), "r");
        assert_non_null(f);
        assert_true(fread(text, 1, MAX_TEXT - 1, f) > 0);
        fclose(f);
        visit(a, e->d_name, text);
        arena_free(a);
        seen++;
    }
    closedir(d);
    return seen;
}

static void round_trip(Arena *a, const char *name, const char *text) {
    const char *violation;
    Kernel *k = parse(a, text);
    (void)name;
    assert_string_equal(print(a, k), text);
    violation = kernel_verify(a, k);
    if (violation) fail_msg("%s: %s", name, violation);
}

static void test_goldens(void **state) {
    (void)state;
    assert_true(each_golden(round_trip) >= 8);
}

/* What the builder makes prints to text that gives the same text and the same identity. */
static void test_builder_round_trip(void **state) {
    (void)state;
    static const char *const names[] = {"S", "m"};
    static const int64_t bounds[] = {9, 4};
    Arena *a = arena_new();
    Kernel *k = kernel_new(a, "built");
    k->n_syms = 2;
    k->sym_names = names;
    k->sym_bounds = bounds;
    k->comment = "two\nlines";
    const Dim rows = {.bound = 19, .sym = 0, .scale = 2, .offset = 1};
    const Dim columns = {.bound = 3, .sym = 1, .scale = 1, .offset = -1};
    const int m = kernel_axis(k, "m", AXIS_GRID, rows, 4), c = kernel_axis(k, "c", AXIS_SPAN, columns, 4);
    assert_string_equal(k->axes.at[m].name, "m_1");
    k->axes.at[m].name = "m"; /* a symbol that came later has the name */
    k->axes.at[m].spread = (Spread){2, {5, 1}};
    k->axes.at[c].spread = (Spread){2, {SPREAD_REGISTER, 0}};
    k->threads = 64;
    const int x = kernel_buffer(k, "x", DT_F32, shape_make(2, (Dim[]){rows, columns}), (int64_t[]){8, 1}, false);
    const int ids = kernel_buffer(k, "h.3.ids", DT_I32, shape_make(1, &rows), NULL, false);
    const int y = kernel_buffer(k, "x", DT_F32, shape_make(2, (Dim[]){rows, columns}), NULL, true);
    assert_string_equal(k->buffers.at[ids].name, "h_3_ids");
    assert_string_equal(k->buffers.at[y].name, "x_1");
    Builder b = {k, &k->body};
    const Index *mi = index_axis(k, m), *ci = index_axis(k, c);
    const int id = tile_load(&b, ids, (const Index *[]){mi}, -1, 0);
    const Index *gathered = index_value(k, id, -2, 19);
    const Index *odd = index_add(k, index_scale(k, index_div(k, mi, index_const(a, 3)), -2), index_extent(k, columns));
    odd = index_add(k, odd, index_mod(k, index_add(k, ci, index_const(a, -1)), index_extent(k, rows)));
    odd = index_add(k, odd, index_scale(k, index_tile(k, m), 3));
    const int e = tile_index(&b, odd);
    const int zero = tile_const(&b, DT_I32, 0);
    const int mask = tile_element(&b, OP_GE, DT_BOOL, 2, (int[]){e, zero});
    const int v = tile_load(&b, x, (const Index *[]){gathered, ci}, mask, 0.1);
    tile_store(&b, y, (const Index *[]){mi, ci}, v, mask);
    const char *text = print(a, k);
    assert_non_null(strstr(text, "$m"));
    assert_null(kernel_verify(a, k));
    Kernel *again = parse(a, text);
    assert_string_equal(print(a, again), text);
    assert_string_equal(kernel_canonical(a, again), kernel_canonical(a, k));
    assert_string_equal(again->comment, "two lines");
    assert_int_equal(again->sym_bounds[1], 4);
    arena_free(a);
}

static void test_bounds_of_loops(void **state) {
    (void)state;
    static const char *const bounds[] = {"from 4*@i - 3 to S + 1 ", "from (@i + 2) / 3 ", "to -@i + 5 ", ""};
    for (size_t n = 0; n < sizeof bounds / sizeof *bounds; n++) {
        Arena *a = arena_new();
        const char *text = arena_printf(a,
                                        "kernel @k<S<=9>(%%x: f32[8], %%y: f32[8] out)\n  grid i in 0..8 step 4\n  loop j in 0..8 step 2\n"
                                        "  %%0 = full 0 : f32[i:4]\n  %%4 = for j %scarry %%1 = %%0 {\n    %%2 = load %%x[i]\n"
                                        "    %%3 = add %%1, %%2\n    yield %%3\n  }\n  store %%y[i], %%4\n",
                                        bounds[n]);
        Kernel *k = parse(a, text);
        assert_null(kernel_verify(a, k));
        const char *printed = print(a, k);
        assert_non_null(strstr(printed, arena_printf(a, "for j %scarry", bounds[n])));
        assert_string_equal(print(a, parse(a, printed)), printed);
        arena_free(a);
    }
}

static void assert_error(const char *text, const char *want) {
    Arena *a = arena_new();
    const char *error = NULL;
    assert_null(kernel_parse(a, text, &error));
    assert_non_null(error);
    if (!strstr(error, want)) fail_msg("`%s` does not say `%s`", error, want);
    arena_free(a);
}

#define HEAD "kernel @k<S<=9>(%x: f32[8], %y: f32[8] out)\n  grid i in 0..8 step 4\n"

static void test_errors(void **state) {
    (void)state;
    static const struct {
        const char *text, *error;
    } wrong[] = {
        {"", "1:1: expected `kernel`"},
        {"kernel k", "1:8: expected `@`"},
        {"kernel @k(%x: f31[8])", "1:15: no dtype is named `f31`"},
        {"kernel @k(%x: f32[-8])", "a dimension is negative"},
        {"kernel @k(%x: f32[T<=4])", "no symbol is named `T`"},
        {"kernel @k(%x: f32[4], %x: f32[4])", "two buffers have one name"},
        {"kernel @k<S, T<=4>()", "all symbols have bounds or none has"},
        {"kernel @k()\n  grid i in 0..8 step 0\n", "2:23: the number is out of range"},
        {"kernel @k()\n  grid i in 0..8 step 1\n  span i in 0..8 step 8\n", "two axes have one name"},
        {HEAD "  %0 = load %z[i]\n", "3:13: no buffer is named `z`"},
        {HEAD "  %0 = load %x[j]\n", "no axis or symbol is named `j`"},
        {HEAD "  %0 = load %x[i, i]\n", "as many indices"},
        {HEAD "  %0 = load %x[i*i]\n", "one factor of a product is constant"},
        {HEAD "  %0 = load %x[99999999999999999999]\n", "out of range"},
        {HEAD "  %0 = fold %x\n", "3:8: no instruction is named `fold`"},
        {HEAD "  %0 = neg %1\n", "3:12: %1 is not defined yet"},
        {HEAD "  %0 = const 1\n", "expected `:` and a type"},
        {HEAD "  %0 = const 1 : f32[i:4]\n", "a constant has no axes"},
        {HEAD "  %0 = full 1 : f32[i:8]\n", "the tile is not as long as the axis's step"},
        {HEAD "  %0 = load %x[i] : f32\n", "the instruction gives another type"},
        {HEAD "  %0 = load %x[i]\n  %0 = neg %0\n", "%0 is defined twice"},
        {HEAD "  %0 = load %x[i]\n  %1 = and %0, %0\n", "operands are not bool"},
        {HEAD "  %0 = load %x[i]\n  %1 = add %0\n", "wrong number of operands"},
        {HEAD "  %0 = load %x[i]\n  %1 = argmax %0 over i\n", "not a reduction"},
        {HEAD "  %0 = const 1 : f32\n  %1 = sum %0 over i\n", "an axis that the operand has not"},
        {HEAD "  %0 = load %x[i]\n  store %y[i] %0\n", "expected `,`"},
        {HEAD "  %0 = load %x[i]\n  %1 = if %0 {\n", "as many results as carried values"},
        {HEAD "  for i {\n    yield\n", "expected `}`"},
        {"kernel @k()\n  span c in 0..8 step 8 spread s0\n", "expected r or a thread bit"},
        {"kernel @k()\n  span c in 0..8 step 8 spread t17\n", "out of range"},
        {"kernel @k()\n  span c in 0..8 step 8 spread r r r r r r r r r r r r r r r r r\n", "too many bits"},
        {HEAD "  }\n", "unexpected text after the kernel"},
    };
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) assert_error(wrong[n].text, wrong[n].error);
}

static void test_depth_limits(void **state) {
    (void)state;
    enum { DEEP = 20000 };
    Arena *a = arena_new();
    char *deep = arena_alloc(a, 4 * DEEP);
    strcpy(deep, HEAD "%0 = index ");
    memset(deep + strlen(deep), '(', DEEP);
    assert_error(deep, "nested too deeply");
    strcpy(deep, HEAD "%0 = index i");
    for (int n = 0; n < DEEP; n++) memcpy(deep + strlen(HEAD) + 12 + 2 * n, "/2", 3);
    assert_error(deep, "the expression is too long");
    arena_free(a);
}

/* Random edits of good texts: an error or a kernel, whose text is then stable; never a crash. */
static void mutate(char *text, size_t room) {
    static const char *const pieces[] = {"%0", "%4", "0",       "-",      "9999999999", "[",  "]",    "{",
                                         "}",  "S",  "yield\n", "mod",    " / ",        "if", "for ", "c",
                                         ":",  ",",  "where ",  "carry ", "(",          "inf"};
    const size_t n = strlen(text), at = (size_t)rand() % n;
    const char *piece = pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)];
    switch (rand() % 4) {
    case 0: text[at] = (char)(32 + rand() % 95); break;
    case 1: memmove(text + at, text + at + 1, n - at); break;
    case 2: text[at] = text[(size_t)rand() % n]; break;
    default:
        if (n + strlen(piece) + 1 >= room) break;
        memmove(text + at + strlen(piece), text + at, n - at + 1);
        memcpy(text + at, piece, strlen(piece));
    }
}

/* Small enough to interpret in no time. */
static bool is_small(const Kernel *k) {
    double lanes = 1;
    for (int i = 0; i < k->axes.n; i++) lanes *= 1 + (double)k->axes.at[i].extent.bound;
    return lanes < 1e5 && k->buffers.n <= 4;
}

static void run_somehow(Arena *a, const Kernel *k) {
    enum { BYTES = 2048 };
    const char *error = NULL;
    const int64_t syms[] = {5, 5, 5, 5};
    TileMemory memory[4];
    for (int b = 0; b < 4; b++) memory[b] = (TileMemory){arena_alloc(a, BYTES), BYTES, NULL};
    if (!is_small(k) || k->n_syms > 4) return;
    if (!kernel_run(a, k, memory, syms, &error)) assert_non_null(error);
}

static void survive(const char *text) {
    Arena *a = arena_new();
    const char *error = NULL;
    Kernel *k = kernel_parse(a, text, &error);
    if (k) {
        const char *first = print(a, k);
        assert_string_equal(print(a, parse(a, first)), first);
        if (!kernel_verify(a, k)) {
            assert_true(kernel_cost(k).flops >= 0);
            run_somehow(a, k);
            assert_string_equal(kernel_canonical(a, k), kernel_canonical(a, parse(a, first)));
        }
    } else {
        assert_non_null(error);
    }
    arena_free(a);
}

static void fuzz(Arena *a, const char *name, const char *text) {
    char *edited = arena_alloc(a, MAX_TEXT);
    (void)name;
    for (int round = 0; round < MUTATIONS / 8; round++) {
        strcpy(edited, text);
        for (int edits = 1 + rand() % 4; edits > 0 && *edited; edits--) mutate(edited, MAX_TEXT);
        survive(edited);
    }
}

static void test_mutations(void **state) {
    (void)state;
    srand(3);
    assert_true(each_golden(fuzz) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),      cmocka_unit_test(test_builder_round_trip), cmocka_unit_test(test_bounds_of_loops),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_depth_limits), cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
