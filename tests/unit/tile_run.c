/* The Tile IR interpreter against plain C, and every check it makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "ir/tile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4096, BUFFERS = 5 };

/* Buffers of a test: raw memory with a defined map; outputs start uninitialised. */
typedef struct Bench {
    Arena *a;
    Kernel *k;
    union {
        float f32[ROOM];
        int32_t i32[ROOM];
        uint16_t u16[ROOM];
        uint8_t u8[ROOM];
        double f64[ROOM];
    } data[BUFFERS];
    uint8_t defined[BUFFERS][ROOM * 8];
    TileMemory memory[BUFFERS];
} Bench;

static char *read_file(Arena *a, const char *name) {
    char *path = arena_printf(a, "%s/tests/golden/tile/%s.tile", SOURCE_DIR, name), *text = arena_alloc(a, 1 << 16);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    text[n] = 0;
    return text;
}

static void prepare(Bench *b) {
    assert_true(b->k->buffers.n <= BUFFERS);
    for (int n = 0; n < b->k->buffers.n; n++) {
        b->memory[n] = (TileMemory){&b->data[n], sizeof b->data[n], b->defined[n]};
        memset(b->defined[n], 1, sizeof b->defined[n]);
    }
}

static Bench *bench_text(const char *text) {
    Arena *a = arena_new();
    Bench *b = ARENA_NEW(a, Bench);
    const char *error;
    b->a = a;
    b->k = kernel_parse(a, text, &error);
    if (!b->k) fail_msg("%s", error);
    prepare(b);
    return b;
}

static Bench *bench(const char *name) {
    Arena *a = arena_new();
    Bench *b = bench_text(read_file(a, name));
    arena_free(a);
    return b;
}

static void undefine(Bench *b, int buffer) { memset(b->defined[buffer], 0, sizeof b->defined[buffer]); }

static void fill_f32(Bench *b, int buffer, int n) {
    for (int i = 0; i < n; i++) b->data[buffer].f32[i] = (float)(rand() % 2001 - 1000) / 500;
}

static void run(Bench *b, const int64_t *syms) {
    const char *error;
    if (!kernel_run(b->a, b->k, b->memory, syms, &error)) fail_msg("%s", error);
}

static void run_fails(Bench *b, const int64_t *syms, const char *with) {
    const char *error = NULL;
    assert_false(kernel_run(b->a, b->k, b->memory, syms, &error));
    assert_non_null(error);
    if (!strstr(error, with)) fail_msg("`%s` does not say `%s`", error, with);
    arena_free(b->a);
}

static void assert_near(double got, double want) {
    if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want)))) fail_msg("got %.9g, want %.9g", got, want);
}

static void test_gemm(void **state) {
    (void)state;
    Bench *b = bench("gemm");
    fill_f32(b, 0, 130);
    fill_f32(b, 1, 91);
    fill_f32(b, 2, 7);
    undefine(b, 3);
    run(b, NULL);
    for (int m = 0; m < 10; m++)
        for (int n = 0; n < 7; n++) {
            double sum = b->data[2].f32[n];
            for (int k = 0; k < 13; k++) sum += b->data[0].f32[m * 13 + k] * b->data[1].f32[k * 7 + n];
            assert_near(b->data[3].f32[m * 7 + n], fmax(sum, 0));
        }
    assert_int_equal(b->defined[3][70 * 4 - 1], 1);
    assert_int_equal(b->defined[3][70 * 4], 0);
    arena_free(b->a);
}

/* The second member's product is of the second weights, into the second result. */
static void test_family(void **state) {
    (void)state;
    Bench *b = bench("family");
    fill_f32(b, 0, 130);
    for (int w = 1; w < 3; w++) fill_f32(b, w, 91);
    for (int y = 3; y < 5; y++) undefine(b, y);
    run(b, NULL);
    for (int at = 0; at < 2 * 70; at++) {
        const int m = at % 70 / 7, n = at % 7, member = at / 70;
        double sum = 0;
        for (int k = 0; k < 13; k++) sum += b->data[0].f32[m * 13 + k] * b->data[1 + member].f32[k * 7 + n];
        assert_near(b->data[3 + member].f32[m * 7 + n], sum);
    }
    arena_free(b->a);
}

/* Each kernel has its own of the buffers; what one writes is no other's. */
static void test_bundle(void **state) {
    (void)state;
    Bench *b = bench("bundle");
    fill_f32(b, 0, 10);
    fill_f32(b, 1, 24);
    for (int y = 2; y < 4; y++) undefine(b, y);
    assert_int_equal(kernel_programs(b->k, NULL), 3 + 1);
    run(b, NULL);
    for (int i = 0; i < 10; i++) assert_near(b->data[2].f32[i], 2 * b->data[0].f32[i]);
    for (int i = 0; i < 8; i++) assert_near(b->data[3].f32[i], b->data[1].f32[i] + b->data[1].f32[8 + i] + b->data[1].f32[16 + i]);
    b->memory[0] = (TileMemory){b->data[3].f32 + 7, 10 * sizeof(float), NULL};
    run_fails(b, NULL, "columns, which it bundles, writes memory of another one");
}

static void check_softmax(const char *name, int64_t columns) {
    Bench *b = bench(name);
    fill_f32(b, 0, 108);
    undefine(b, 1);
    run(b, &columns);
    for (int m = 0; m < 9; m++) {
        double sum = 0;
        for (int c = 0; c < columns; c++) sum += exp(b->data[0].f32[m * 12 + c]);
        for (int c = 0; c < 12; c++) {
            assert_int_equal(b->defined[1][(m * 12 + c) * 4], c < columns);
            if (c < columns) assert_near(b->data[1].f32[m * 12 + c], exp(b->data[0].f32[m * 12 + c]) / sum);
        }
    }
    arena_free(b->a);
}

static void test_softmax(void **state) {
    (void)state;
    const int64_t columns[] = {12, 11, 5, 1, 0};
    for (int n = 0; n < 5; n++) {
        check_softmax("softmax_span", columns[n]);
        check_softmax("softmax_loop", columns[n]);
    }
}

static void test_gather(void **state) {
    (void)state;
    Bench *b = bench("gather");
    fill_f32(b, 0, 48);
    for (int t = 0; t < 7; t++) b->data[1].i32[t] = t * 5 % 6;
    run(b, NULL);
    for (int t = 0; t < 7; t++)
        for (int c = 0; c < 5; c++) assert_true(b->data[2].f32[t * 5 + c] == b->data[0].f32[t * 5 % 6 * 8 + c]);
    arena_free(b->a);
}

static double conv_at(const Bench *b, int n, int y, int x) {
    double sum = 0;
    for (int r = 0; r < 3; r++)
        for (int s = 0; s < 3; s++) {
            const int i = 2 * y + r - 1, j = 2 * x + s - 1;
            if (i >= 0 && i < 7 && j >= 0 && j < 6)
                sum += b->data[0].f32[(n * 7 + i) * 6 + j] * b->data[1].f32[r * 3 + s];
        }
    return sum;
}

static void test_conv(void **state) {
    (void)state;
    Bench *b = bench("conv");
    fill_f32(b, 0, 84);
    fill_f32(b, 1, 9);
    run(b, NULL);
    for (int n = 0; n < 2; n++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 3; x++) assert_near(b->data[2].f32[(n * 4 + y) * 3 + x], conv_at(b, n, y, x));
    arena_free(b->a);
}

static void test_update_in_place(void **state) {
    (void)state;
    static const struct {
        uint16_t bits;
        float value;
    } half[] = {{0x3C00, 1},        {0xC000, -2},
                {0x0001, 0x1p-24f}, {0x03FF, 1023 * 0x1p-24f},
                {0x7BFF, 65504},    {0x3555, 0.333251953125f},
                {0x8000, 0}};
    Bench *b = bench("update");
    float before[21];
    fill_f32(b, 0, 21);
    memcpy(before, b->data[0].f32, sizeof before);
    for (int i = 0; i < 21; i++) b->data[1].u16[i] = half[i % 7].bits;
    b->data[2].f32[0] = 0.25f;
    run(b, NULL);
    for (int i = 0; i < 21; i++) assert_true(b->data[0].f32[i] == before[i] - half[i % 7].value * 0.25f);
    arena_free(b->a);
}

static void test_scatter(void **state) {
    (void)state;
    Bench *b = bench("scatter");
    const int64_t n = 9;
    double want[4][3] = {{0}};
    fill_f32(b, 0, 33);
    for (int i = 0; i < n; i++) {
        const int row = b->data[1].i32[i] = i * i % 5; /* row 4 is outside and dropped */
        for (int c = 0; c < 3 && row < 4; c++) want[row][c] += b->data[0].f32[i * 3 + c];
    }
    run(b, &n);
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 3; c++) assert_near(b->data[2].f32[r * 3 + c], want[r][c]);
    arena_free(b->a);
}

static void test_scan(void **state) {
    (void)state;
    Bench *b = bench("scan");
    const int64_t n = 7;
    fill_f32(b, 0, 36);
    run(b, &n);
    for (int m = 0; m < 4; m++) {
        double sum = 0;
        for (int i = (int)n - 1; i >= 0; i--) assert_near(b->data[1].f32[m * 9 + i], sum += b->data[0].f32[m * 9 + i]);
    }
    arena_free(b->a);
}

/* Values are rounded after every instruction, and each dtype keeps its bits through memory. */
static void test_dtypes(void **state) {
    (void)state;
    Bench *b = bench_text("kernel @k(%x: f32[4], %h: f16[4] out, %g: bf16[4] out, %d: bool[4] out)\n"
                          "  span i in 0..4 step 4\n"
                          "  %0 = load %x[i]\n"
                          "  %1 = cast %0 : f16[i:4]\n"
                          "  store %h[i], %1\n"
                          "  %2 = cast %0 : bf16[i:4]\n"
                          "  store %g[i], %2\n"
                          "  %3 = cast %0 : bool[i:4]\n"
                          "  store %d[i], %3\n");
    const float x[] = {1 + 0x1p-11f + 0x1p-20f, -0x1p-25f * 3, 70000, 0};
    const uint16_t half[] = {0x3C01, 0x8002, 0x7C00, 0}, brain[] = {0x3F80, 0xB3C0, 0x4789, 0};
    memcpy(b->data[0].f32, x, sizeof x);
    run(b, NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(b->data[1].u16[i], half[i]);
        assert_int_equal(b->data[2].u16[i], brain[i]);
        assert_int_equal(b->data[3].u8[i], i < 3);
    }
    arena_free(b->a);
}

static void test_empty_reductions(void **state) {
    (void)state;
    Bench *b = bench_text("kernel @k<S<=4>(%x: f32[S<=4], %y: f32[4] out)\n"
                          "  span i in 0..S<=4 step 4\n"
                          "  %0 = load %x[i]\n"
                          "  %1 = rmax %0 over i\n"
                          "  store %y[0], %1\n"
                          "  %2 = rmin %0 over i\n"
                          "  store %y[1], %2\n"
                          "  %3 = prod %0 over i\n"
                          "  store %y[2], %3\n"
                          "  %4 = sum %0 over i\n"
                          "  store %y[3], %4\n");
    const int64_t none = 0, two = 2;
    b->data[0].f32[0] = 3;
    b->data[0].f32[1] = NAN;
    run(b, &none);
    assert_true(b->data[1].f32[0] == -INFINITY && b->data[1].f32[1] == INFINITY);
    assert_true(b->data[1].f32[2] == 1 && b->data[1].f32[3] == 0);
    run(b, &two);
    assert_true(isnan(b->data[1].f32[0]) && isnan(b->data[1].f32[1]));
    arena_free(b->a);
}

/* Carried values may be exchanged by the yield. */
static void test_exchange(void **state) {
    (void)state;
    Bench *b = bench_text("kernel @fibonacci(%y: i32[2] out)\n"
                          "  loop i in 0..10 step 1\n"
                          "  %0 = const 0 : i32\n"
                          "  %1 = const 1 : i32\n"
                          "  %2, %3 = for i carry %4 = %0, %5 = %1 {\n"
                          "    %6 = add %4, %5\n"
                          "    yield %5, %6\n"
                          "  }\n"
                          "  store %y[0], %2\n"
                          "  store %y[1], %3\n");
    run(b, NULL);
    assert_int_equal(b->data[0].i32[0], 55);
    assert_int_equal(b->data[0].i32[1], 89);
    arena_free(b->a);
}

static void test_if(void **state) {
    (void)state;
    Bench *b = bench_text("kernel @k(%x: f32[3], %y: f32[3] out)\n"
                          "  grid i in 0..3 step 1\n"
                          "  %0 = load %x[i]\n"
                          "  %1 = const 0 : f32\n"
                          "  %2 = lt %0, %1\n"
                          "  %3 = rmax %2 over i\n"
                          "  %4 = if %3 init %0 {\n"
                          "    %5 = neg %0\n"
                          "    yield %5\n"
                          "  }\n"
                          "  store %y[i], %4\n");
    memcpy(b->data[0].f32, (float[]){-2, 3, -4}, 12);
    run(b, NULL);
    assert_true(b->data[1].f32[0] == 2 && b->data[1].f32[1] == 3 && b->data[1].f32[2] == 4);
    arena_free(b->a);
}

#define COPY "kernel @k(%x: f32[8], %y: f32[8] out)\n  grid i in 0..8 step 4\n  loop j in 0..8 step 4\n"

static void test_out_of_bounds(void **state) {
    (void)state;
    run_fails(bench_text(COPY "%0 = load %x[i + 1]\nstore %y[i], %0\n"), NULL,
              "program 1: load %x: index 8 of dimension 0");
    run_fails(bench_text(COPY "%0 = load %x[i]\nstore %y[i - 1], %0\n"), NULL, "store %y: index -1 of dimension 0");
    run_fails(bench_text(COPY "%0 = index i\n%1 = load %x[%0 / (i - i)]\nstore %y[i], %1\n"), NULL, "divides by zero");
}

/* A mask keeps an access from happening at all. */
static void test_mask_protects(void **state) {
    (void)state;
    Bench *b = bench_text(COPY "%0 = index i\n%1 = const 7 : i32\n%2 = lt %0, %1\n"
                               "%3 = load %x[i + 1] where %2 else 9\nstore %y[i], %3\n");
    fill_f32(b, 0, 8);
    run(b, NULL);
    for (int i = 0; i < 7; i++) assert_true(b->data[1].f32[i] == b->data[0].f32[i + 1]);
    assert_true(b->data[1].f32[7] == 9);
    arena_free(b->a);
}

static void test_uninitialised(void **state) {
    (void)state;
    Bench *b = bench_text(COPY "%0 = load %x[i]\nstore %y[i], %0\n");
    b->defined[0][5 * 4 + 3] = 0;
    run_fails(b, NULL, "program 1: load %x: element 5 is uninitialised");
}

static void test_conflicts(void **state) {
    (void)state;
    run_fails(bench_text(COPY "%0 = load %x[i]\nstore %y[i mod 4], %0\n"), NULL,
              "element 0 is written by program 0 too");
    run_fails(bench_text(COPY "%0 = load %x[i]\nstore %y[i], %0\n%1 = load %y[-i + 7]\n%2 = add %0, %1\n"), NULL,
              "element 4 is read by another program");
    run_fails(bench_text(COPY "%0 = load %x[i]\nstore %y[i], %0\n%1 = load %y[0]\n"), NULL,
              "element 0 is written by program 0 and read by another");
    run_fails(bench_text(COPY "%0 = load %x[i]\nstore %y[i / 4], %0\n"), NULL, "two lanes write element 0");
    /* one program may write an element again, and read what it wrote */
    Bench *b = bench_text(COPY "%0 = load %x[i]\nstore %y[i], %0\n%1 = load %y[i]\n%2 = add %1, %1\nstore %y[i], %2\n");
    fill_f32(b, 0, 8);
    run(b, NULL);
    assert_true(b->data[1].f32[7] == 2 * b->data[0].f32[7]);
    arena_free(b->a);
}

/* Two arguments at one address are one memory. */
static void test_alias(void **state) {
    (void)state;
    Bench *b = bench_text(COPY "%0 = load %x[-i + 7]\nstore %y[i], %0\n");
    b->memory[1].data = b->memory[0].data;
    run_fails(b, NULL, "%x: element 3 is written by program 0 and read by another");
}

static void test_bad_arguments(void **state) {
    (void)state;
    const int64_t large = 13;
    Bench *b = bench_text(COPY "%0 = load %x[i]\nstore %y[i], %0\n");
    b->memory[0].bytes = 31;
    run_fails(b, NULL, "%x needs more than the 31 bytes");
    run_fails(bench("softmax_span"), &large, "longer than its bound");
    run_fails(bench("softmax_span"), NULL, "run-time extents are missing");
    run_fails(bench_text("kernel @k(%x: f32[4])\nspan i in 0..4 step 1000000000\n%0 = load %x[i]\n"), NULL,
              "too large to interpret");
    run_fails(bench_text("kernel @k(%x: f32[4])\n%0 = const 1 : f32\nstore %x[0], %0\n"), NULL, "not declared out");
}

static void test_programs(void **state) {
    (void)state;
    Bench *b = bench("gemm");
    assert_int_equal(kernel_programs(b->k, NULL), 6);
    arena_free(b->a);
    b = bench_text("kernel @k<S<=9>()\n  grid m in 0..2*S+1<=19 step 4\n");
    assert_int_equal(kernel_programs(b->k, (int64_t[]){0}), 1);
    assert_int_equal(kernel_programs(b->k, (int64_t[]){9}), 5);
    arena_free(b->a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm), cmocka_unit_test(test_family), cmocka_unit_test(test_bundle),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_update_in_place),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_empty_reductions),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_if),
        cmocka_unit_test(test_out_of_bounds),
        cmocka_unit_test(test_mask_protects),
        cmocka_unit_test(test_uninitialised),
        cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_alias),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_programs),
    };
    srand(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
