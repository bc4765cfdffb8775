/* Profiles as text, and how a tile is measured: one that computes something else cannot win. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/support/kernel_case.h"
#include "tools/fusec/tune.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "fusec-profile 1\ngpu X 1\ncapability 8.0\ndriver 12.8\ncompiler 0.1.0\ntarget sm_80\ntimer events\n"
#define TWO                                                                                               \
    "product 1x2x3 batch 1 bf16 kn -> mma:64x64:32x32 of mma:64x64:32x32=1.500 mma:16x64:16x16=refused\n" \
    "product 9x2x3 batch 1 bf16 kn -> mma:16x64:16x16 of mma:64x64:32x32=0.250 mma:16x64:16x16=0.125\n"

static void count(void *user, bool is_error, int line, int column, const char *message, const char *help) {
    (void)line, (void)column, (void)message, (void)help;
    ((int *)user)[is_error]++;
}

static char *printed(const Profile *p) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    profile_print(f, p);
    fclose(f);
    return text;
}

/* Printing what was read gives the text again, in order, whatever the order read. */
static void round_trip(void **state) {
    (void)state;
    Arena *a = arena_new();
    Profile p;
    int said[2] = {0};
    assert_true(profile_parse(a, HEAD TWO, &p, count, said));
    assert_int_equal(said[0] + said[1], 0);
    assert_string_equal(p.field[PROFILE_GPU], "X 1");
    char *text = printed(&p);
    assert_string_equal(text, HEAD TWO);
    free(text);
    const ProfileProduct *x = profile_find(&p, "9x2x3 batch 1 bf16 kn");
    assert_non_null(x);
    assert_int_equal(x->tile.rows, 16);
    assert_null(profile_find(&p, "9x2x3 batch 1 bf16 kk"));
    ProfileProduct again = *profile_find(&p, "1x2x3 batch 1 bf16 kn");
    again.tile = x->tile;
    profile_put(a, &p, again);
    again.key = "5";
    profile_put(a, &p, again);
    assert_int_equal(p.products.n, 3);
    assert_int_equal(p.products.at[0].tile.rows, 16);
    assert_string_equal(p.products.at[1].key, "5");
    arena_free(a);
}

/* Every prefix of a profile is a profile or an error, never a crash; so is every text with one byte changed. */
static void any_text(void **state) {
    (void)state;
    const char *whole = HEAD TWO;
    const size_t n = strlen(whole);
    int said[2] = {0};
    for (size_t i = 0; i < n; i++) {
        Arena *a = arena_new();
        Profile p;
        char *text = arena_strdup(a, whole);
        text[i] = i % 3 == 0 ? ' ' : i % 3 == 1 ? '\n' : '\0';
        const int errors = said[1];
        if (!profile_parse(a, text, &p, count, said)) assert_int_not_equal(said[1], errors);
        arena_free(a);
    }
    assert_true(said[1] > 100);
}

/* y = x * FACTOR: a kernel as a tile's, of which results are compared. */
static TileCandidate times(Arena *a, const char *factor) {
    const TileCandidate c = {matrix_tile[0],
                             parse_kernel(a, arena_printf(a,
                                                          "kernel @f(%%x: f32[64], %%y: f32[64] out)\n  threads 32\n"
                                                          "  grid i in 0..64 step 32 spread t0 t1 t2 t3 t4\n"
                                                          "  %%0 = load %%x[i]\n  %%1 = const %s : f32\n"
                                                          "  %%2 = mul %%0, %%1\n  store %%y[i], %%2\n",
                                                          factor))};
    return c;
}

static void wrong_results(void **state) {
    (void)state;
    static const struct {
        const char *factor, *word;
    } cases[] = {{"2", NULL}, {"2.00001", NULL}, {"2.01", "wrong"}, {"-2", "wrong"}, {"nan", "wrong"}, {"2", NULL}};
    Arena *a = arena_new();
    TunedProduct p = {.key = "f"};
    const Module model = {0};
    TuneDevice d;
    TuneCase c;
    const char *why;
    assert_non_null(dlopen(BUILD_DIR "/ptxsim/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL));
    if (!tune_device_open(&d)) fail_msg("%s", d.log);
    assert_string_equal(tune_device_timer(&d), "counts");
    vec_push(a, p.candidates, times(a, "2"));
    assert_true(tune_case_open(&c, &model, target_find("sm_80"), &p));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const TileCandidate x = times(a, cases[i].factor);
        const TileTime t = tune_measure(a, &d, &c, &x, &why);
        if (!cases[i].word != !t.word || (t.word && strcmp(t.word, cases[i].word)))
            fail_msg("times %s: %s, not %s: %s", cases[i].factor, t.word, cases[i].word, why);
        assert_true(t.us > 0);
    }
    tune_case_close(&c);
    tune_device_close(&d);
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(any_text),
                                       cmocka_unit_test(wrong_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
