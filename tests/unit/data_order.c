/* The order of an epoch: every row once, from seed and epoch alone. */
#include "tools/fusec/data.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs the above
#include <cmocka.h>

enum { N = 1000 };

static void test_permutation(void **state) {
    (void)state;
    for (int64_t n = 0; n <= 20; n++) {
        int64_t order[20];
        bool seen[20] = {false};
        data_order(7, 3, 100, n, order);
        for (int64_t i = 0; i < n; i++) {
            assert_in_range(order[i], 100, 100 + n - 1);
            assert_false(seen[order[i] - 100]);
            seen[order[i] - 100] = true;
        }
    }
}

static int64_t same_places(const int64_t *a, const int64_t *b) {
    int64_t n = 0;
    for (int i = 0; i < N; i++) n += a[i] == b[i];
    return n;
}

static void test_seed_and_epoch(void **state) {
    (void)state;
    int64_t first[N], again[N], other[N], sorted[N];
    for (int i = 0; i < N; i++) sorted[i] = i;
    data_order(1, 0, 0, N, first);
    data_order(1, 0, 0, N, again);
    assert_memory_equal(first, again, sizeof first);
    assert_true(same_places(first, sorted) < 10);
    data_order(1, 1, 0, N, other);
    assert_true(same_places(first, other) < 10);
    data_order(2, 0, 0, N, other);
    assert_true(same_places(first, other) < 10);
}

/* Over many epochs each row stands first about equally often. */
static void test_even(void **state) {
    (void)state;
    enum { ROWS = 8, EPOCHS = 8000 };
    int64_t order[ROWS], count[ROWS] = {0};
    for (int64_t e = 0; e < EPOCHS; e++) {
        data_order(5, e, 0, ROWS, order);
        count[order[0]]++;
    }
    for (int i = 0; i < ROWS; i++) assert_in_range(count[i], EPOCHS / ROWS - 150, EPOCHS / ROWS + 150); /* 5 sigma */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_permutation), cmocka_unit_test(test_seed_and_epoch),
                                       cmocka_unit_test(test_even)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
