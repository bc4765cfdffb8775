/* The self-test by itself: the inputs it makes in every dtype, the sums it takes, and what it lets pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/common/fusec.h"
#include <math.h>
#include <string.h>

enum { N = 1000, ALIGN = 64 };

#define INPUT(type, size) \
    { .name = #type, .dtype = type, .rank = 1, .dim = {N}, .sym = {-1}, .bytes = N * size }
static const fusec_tensor inputs[] = {
    INPUT(FUSEC_F32, 4),
    {.name = "again", .dtype = FUSEC_F32, .rank = 1, .dim = {N}, .sym = {-1}, .bytes = 4 * N},
    INPUT(FUSEC_F16, 2),
    INPUT(FUSEC_BF16, 2),
    INPUT(FUSEC_BOOL, 1),
    INPUT(FUSEC_I32, 4),
    {.name = "ids", .dtype = FUSEC_I32, .rank = 1, .dim = {N}, .sym = {-1}, .bytes = 4 * N, .lo = -3, .hi = 5}};
static const fusec_tensor outputs[] = {INPUT(FUSEC_F32, 4), INPUT(FUSEC_F16, 2), INPUT(FUSEC_BF16, 2),
                                       INPUT(FUSEC_F32, 4), INPUT(FUSEC_I32, 4), INPUT(FUSEC_BOOL, 1)};
/* More than one part: the sums go on where the part before has ended. */
static const fusec_tensor grads[] = {
    {.name = "g", .dtype = FUSEC_F32, .rank = 2, .dim = {5, N}, .sym = {-1, -1}, .bytes = 20 * N, .offset = 128}};
enum { INPUTS = sizeof inputs / sizeof *inputs, OUTPUTS = sizeof outputs / sizeof *outputs, SUMS = OUTPUTS + 1 };
static const fusec_symbol symbols[] = {{"B", 17}};

static fusec_manifest manifest(const fusec_sum *sums) {
    return (fusec_manifest){.align = ALIGN,
                            .n_inputs = INPUTS,
                            .inputs = inputs,
                            .n_outputs = OUTPUTS,
                            .outputs = outputs,
                            .n_grads = 1,
                            .grads = grads,
                            .n_syms = 1,
                            .syms = symbols,
                            .selftest = sums,
                            .entry = {[FUSEC_INIT] = {.present = 1}, [FUSEC_GRAD] = {.present = 1}}};
}

/* A model whose results are its inputs, in a way. */
typedef struct Toy {
    int ran[FUSEC_ENTRIES];
    uint32_t last_seed; /* of entry init */
    float gradient[5 * N];
    _Alignas(8) char in[INPUTS][4 * N]; /* what it was given */
    float spoil;                        /* added to one element of output 0 */
    int fails;                          /* entry that gives FUSEC_E_RANGE */
} Toy;

static double half(uint16_t u) {
    const double f = (u & 0x3ff) / 1024.0, sign = u >> 15 ? -1 : 1;
    const int e = u >> 10 & 31;
    return sign * (e ? ldexp(1 + f, e - 15) : ldexp(f, -14));
}
static double brain(uint16_t u) {
    const uint32_t bits = (uint32_t)u << 16;
    float f;
    memcpy(&f, &bits, 4);
    return (double)f;
}

static fusec_status run(void *user, int entry, const void *const *in, void *const *out, uint32_t seed,
                        const int32_t *syms) {
    Toy *t = user;
    assert_int_equal(syms[0], 17);
    t->ran[entry]++;
    if (entry == FUSEC_INIT) t->last_seed = seed;
    if (t->fails == entry) return FUSEC_E_RANGE;
    if (entry == FUSEC_INIT) return FUSEC_OK;
    for (int i = 0; i < INPUTS; i++) assert_int_equal((uintptr_t)in[i] % ALIGN, 0);
    for (int i = 0; i < INPUTS; i++) memcpy(t->in[i], in[i], inputs[i].bytes);
    memcpy(out[0], in[0], 4 * N);
    memcpy(out[1], in[2], 2 * N);
    memcpy(out[2], in[3], 2 * N);
    memcpy(out[3], in[1], 4 * N);
    memcpy(out[4], in[6], 4 * N);
    memcpy(out[5], in[4], N);
    ((float *)out[0])[7] += t->spoil;
    return FUSEC_OK;
}
static fusec_status get(void *user, uint64_t offset, void *to, uint64_t n) {
    const Toy *t = user;
    assert_true(offset >= 128 && n <= FUSEC_SELFTEST_PART && offset - 128 + n <= sizeof t->gradient);
    memcpy(to, (const char *)t->gradient + offset - 128, n);
    return FUSEC_OK;
}

static _Alignas(ALIGN) char scratch[1 << 16];
static fusec_status test(Toy *t, const fusec_sum *expected, fusec_sum *found) {
    const fusec_manifest m = manifest(expected);
    const fusec_selftest_calls calls = {t, run, get};
    const uint64_t bytes = fusec_selftest_bytes(&m);
    assert_true(bytes < sizeof scratch);
    memset(scratch, 0x55, sizeof scratch);
    const fusec_status s = fusec_selftest(&m, &calls, 5, scratch, found);
    for (uint64_t i = bytes; i < sizeof scratch; i++) assert_int_equal(scratch[i], 0x55);
    return s;
}

static void make_gradient(Toy *t) {
    for (int i = 0; i < 5 * N; i++) t->gradient[i] = (float)(i % 13) - 5.5f;
}

/* Every value in range; about as many above the middle as below; two inputs of one dtype are not the same. */
static void inputs_are_in_range(void **state) {
    Toy t = {.fails = -1};
    fusec_sum found[SUMS];
    (void)state;
    make_gradient(&t);
    assert_int_equal(test(&t, NULL, found), FUSEC_OK);
    int above[INPUTS] = {0}, seen[8] = {0};
    for (int i = 0; i < N; i++) {
        const double v[INPUTS] = {(double)((const float *)t.in[0])[i],  (double)((const float *)t.in[1])[i],
                                  half(((const uint16_t *)t.in[2])[i]), brain(((const uint16_t *)t.in[3])[i]),
                                  ((const uint8_t *)t.in[4])[i],        ((const int32_t *)t.in[5])[i],
                                  ((const int32_t *)t.in[6])[i]};
        for (int k = 0; k < 4; k++) {
            assert_true(v[k] >= -1 && v[k] < 1);
            above[k] += v[k] >= 0;
        }
        for (int k = 2; k < 4; k++) assert_true(v[k] * 128 == floor(v[k] * 128));
        for (int k = 4; k < 6; k++) {
            assert_true(v[k] == 0 || v[k] == 1);
            above[k] += v[k] == 1;
        }
        assert_true(v[6] >= -3 && v[6] < 5);
        seen[(int)v[6] + 3]++;
        above[6] += v[6] >= 1;
    }
    for (int k = 0; k < INPUTS; k++) assert_in_range(above[k], N * 2 / 5, N * 3 / 5);
    for (int k = 0; k < 8; k++) assert_in_range(seen[k], N / 16, N / 5);
    int same = 0; /* multiples of 1/128 both */
    for (int i = 0; i < N; i++) same += half(((const uint16_t *)t.in[2])[i]) == brain(((const uint16_t *)t.in[3])[i]);
    assert_true(same < N / 50);
    int twins = 0;
    for (int i = 0; i < N; i++) twins += memcmp(t.in[0] + 4 * i, t.in[1] + 4 * i, 4) == 0;
    assert_true(twins < N / 50);
    assert_int_equal(t.ran[FUSEC_INIT], 2);
    assert_int_equal(t.ran[FUSEC_GRAD], 1);
    assert_int_equal(t.last_seed, 5);
}

static double weight(int i) { return ((uint32_t)i * 0x9E3779B1u >> 29) + 1; }

static void sums_are_right(void **state) {
    Toy t = {.fails = -1};
    fusec_sum found[SUMS];
    double sum[SUMS] = {0}, magnitude[SUMS] = {0};
    (void)state;
    make_gradient(&t);
    assert_int_equal(test(&t, NULL, found), FUSEC_OK);
    void *const *out = (void *const *)(scratch + 8 * INPUTS); /* the gradient's parts lie over the first inputs only */
    for (int i = 0; i < 5 * N; i++) {
        const double v[SUMS] = {i < N ? (double)((const float *)out[0])[i] : 0,
                                i < N ? half(((const uint16_t *)out[1])[i]) : 0,
                                i < N ? brain(((const uint16_t *)out[2])[i]) : 0,
                                i < N ? (double)((const float *)out[3])[i] : 0,
                                i < N ? ((const int32_t *)out[4])[i] : 0,
                                i < N ? ((const uint8_t *)out[5])[i] : 0,
                                (double)t.gradient[i]};
        for (int k = 0; k < SUMS; k++) sum[k] += weight(i) * v[k], magnitude[k] += weight(i) * fabs(v[k]);
    }
    for (int k = 0; k < SUMS; k++) {
        if (fabs((double)found[k].sum - sum[k]) > 1e-6 * magnitude[k])
            fail_msg("%d: %g, not %g", k, (double)found[k].sum, sum[k]);
        assert_true(magnitude[k] > 0 && fabs((double)found[k].magnitude - magnitude[k]) <= 1e-6 * magnitude[k]);
    }
}

static void what_differs_is_found(void **state) {
    Toy t = {.fails = -1};
    fusec_sum sums[SUMS];
    (void)state;
    make_gradient(&t);
    assert_int_equal(test(&t, NULL, sums), FUSEC_OK);
    for (int i = 0; i < SUMS; i++) sums[i].slack = 1e-4f * sums[i].magnitude;
    assert_int_equal(test(&t, sums, NULL), FUSEC_OK);
    t.spoil = 5;
    assert_int_equal(test(&t, sums, NULL), FUSEC_E_SELFTEST);
    t.spoil = NAN;
    assert_int_equal(test(&t, sums, NULL), FUSEC_E_SELFTEST);
    sums[0].slack = -1;
    assert_int_equal(test(&t, sums, NULL), FUSEC_OK);
    t.spoil = 0;
    const float first = t.gradient[4900]; /* in the last part; two elements change places */
    t.gradient[4900] = t.gradient[4907], t.gradient[4907] = first;
    assert_true(weight(4900) != weight(4907));
    sums[OUTPUTS].slack = 1;
    assert_int_equal(test(&t, sums, NULL), FUSEC_E_SELFTEST);
    assert_int_equal(t.last_seed, 5);
}

static void failures_come_through(void **state) {
    Toy t = {.fails = FUSEC_GRAD};
    fusec_sum sums[SUMS] = {{0, 0, 0}};
    fusec_manifest m = manifest(sums);
    const fusec_selftest_calls calls = {&t, run, get};
    (void)state;
    assert_int_equal(test(&t, sums, NULL), FUSEC_E_RANGE);
    assert_int_equal(t.last_seed, 5); /* as entry init leaves it, after all */
    assert_int_equal(fusec_selftest(&m, &calls, 5, scratch + 4, NULL), FUSEC_E_ARGUMENT);
    assert_int_equal(fusec_selftest(&m, &calls, 5, NULL, NULL), FUSEC_E_ARGUMENT);
    m.selftest = NULL;
    assert_int_equal(fusec_selftest(&m, &calls, 5, scratch, NULL), FUSEC_E_UNSUPPORTED);
    m.selftest = sums;
    m.entry[FUSEC_GRAD].present = 0;
    assert_int_equal(fusec_selftest(&m, &calls, 5, scratch, NULL), FUSEC_E_UNSUPPORTED);
    assert_string_not_equal(fusec_status_text(FUSEC_E_SELFTEST), fusec_status_text((fusec_status)99));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(inputs_are_in_range), cmocka_unit_test(sums_are_right),
                                       cmocka_unit_test(what_differs_is_found),
                                       cmocka_unit_test(failures_come_through)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
