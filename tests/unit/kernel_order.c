/* An order of kernels that honours edges and else a wish: random DAGs whose edges go against the numbers too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "passes/plan/kernel_graph.h"
#include "tests/support/oracle.h"

enum { MOST = 12 };

/* Edges among n kernels, all forward in a drawn order; `share` of ten of them. */
static Predecessors draw(Arena *a, TestRandom *r, int n, int share, bool by_number, bool edge[MOST][MOST]) {
    int order[MOST];
    Predecessors p = {ARENA_ARRAY(a, int, n + 1), ARENA_ARRAY(a, int, n * n + 1)};
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0 && !by_number; i--) {
        const int j = test_below(r, i + 1), x = order[i];
        order[i] = order[j], order[j] = x;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) edge[order[i]][order[j]] = i < j && test_below(r, 10) < share;
    for (int k = 0; k < n; k++) {
        p.first[k + 1] = p.first[k];
        for (int b = n - 1; b >= 0; b--)
            if (edge[b][k]) p.at[p.first[k + 1]++] = b;
    }
    return p;
}

static void honours_edges(void **state) {
    (void)state;
    TestRandom r = {11};
    for (int trial = 0; trial < 4000; trial++) {
        Arena *a = arena_new();
        bool edge[MOST][MOST] = {0}, taken[MOST] = {0};
        const bool by_number = trial % 4 == 0;
        const int n = 1 + test_below(&r, MOST);
        const Predecessors before = draw(a, &r, n, 1 + test_below(&r, 6), by_number, edge);
        int wish[2 * MOST], n_wish = 0;
        for (int k = 0; k < n; k++) wish[n_wish++] = k;
        for (int k = 0; k < n; k++) wish[n_wish++] = k; /* again, which changes nothing */
        const int *place = kernels_in_order(a, n, &before, wish, n_wish);
        for (int k = 0; k < n; k++) {
            assert_in_range(place[k], 0, n - 1);
            assert_false(taken[place[k]]);
            taken[place[k]] = true;
            if (by_number) assert_int_equal(place[k], k);
            for (int b = 0; b < n; b++)
                if (edge[b][k]) assert_true(place[b] < place[k]);
        }
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(honours_edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
