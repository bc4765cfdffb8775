/* arena_place: soundness and quality on the public minimalloc problems, random and training-like lifetimes. */
#include "passes/memory/memory.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

enum { MAX_BLOCKS = 40000 };
typedef struct Problem {
    int n, lower[MAX_BLOCKS], upper[MAX_BLOCKS];
    int64_t size[MAX_BLOCKS], offset[MAX_BLOCKS];
} Problem;
static Problem problem; /* too large for the stack */

static uint32_t next_random(uint32_t *s) { return *s = *s * 1664525u + 1013904223u, *s >> 8; }

static void add(Problem *q, int lower, int upper, int64_t size) {
    q->lower[q->n] = lower, q->upper[q->n] = upper, q->size[q->n++] = size;
}

typedef struct Event {
    int at, is_start, block;
} Event;

static int by_time(const void *x, const void *y) {
    const Event *a = x, *b = y;
    return a->at != b->at ? (a->at > b->at) - (a->at < b->at) : a->is_start - b->is_start;
}

/* By events in time, each new block against all that live: shares nothing with the code under test. */
static void check_sound(const Problem *q, int64_t align, int64_t peak) {
    Event *event = calloc((size_t)q->n * 2 + 1, sizeof *event);
    int *live = calloc((size_t)q->n + 1, sizeof *live), n_live = 0;
    for (int i = 0; i < q->n; i++) {
        event[2 * i] = (Event){q->lower[i], 1, i};
        event[2 * i + 1] = (Event){q->upper[i], 0, i};
        assert_int_equal(q->offset[i] % align, 0);
        assert_true(q->offset[i] >= 0 && q->offset[i] + q->size[i] <= peak);
    }
    qsort(event, (size_t)q->n * 2, sizeof *event, by_time);
    for (int e = 0; e < 2 * q->n; e++) {
        int i = event[e].block;
        for (int j = 0; j < n_live; j++) {
            int x = live[j];
            if (x == i)
                live[j--] = live[--n_live];
            else if (event[e].is_start)
                assert_true(q->offset[x] + q->size[x] <= q->offset[i] || q->offset[i] + q->size[i] <= q->offset[x]);
        }
        if (event[e].is_start) live[n_live++] = i;
    }
    free(event);
    free(live);
}

static int64_t place(Problem *q, int64_t align, int64_t work, int64_t *bound) {
    clock_t t = clock();
    int64_t peak = arena_place(q->n, q->lower, q->upper, q->size, align, work, q->offset, bound);
    if (q->n > 10000) print_message("%d blocks: %.3f s\n", q->n, (double)(clock() - t) / CLOCKS_PER_SEC);
    check_sound(q, align, peak);
    assert_true(peak >= *bound);
    return peak;
}

static void read_problem(Problem *q, const char *name) {
    char path[512], line[256];
    snprintf(path, sizeof path, SOURCE_DIR "/tests/data/minimalloc/%s.1048576.csv", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    q->n = 0;
    while (fgets(line, sizeof line, f)) {
        int id, lower, upper;
        long long size;
        assert_int_equal(sscanf(line, "%d,%d,%d,%lld", &id, &lower, &upper, &size), 4);
        add(q, lower, upper, size);
    }
    fclose(f);
}

/* Feasible at 1048576 each; the most that the bounded search may need. */
static void minimalloc_problems(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t most;
    } known[] = {
        {"A", 1048576}, {"C", 1048576}, {"E", 1048576}, {"G", 1048576}, {"I", 1048576}, {"K", 1048576},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int64_t bound;
        read_problem(&problem, known[i].name);
        clock_t t = clock();
        int64_t peak = place(&problem, 1, 600000000, &bound);
        print_message("minimalloc %s: %lld, bound %lld, %.2f s\n", known[i].name, (long long)peak, (long long)bound,
                      (double)(clock() - t) / CLOCKS_PER_SEC);
        assert_true(bound <= 1048576);
        assert_true(peak <= known[i].most);
    }
}

/* Random lifetimes of every kind: empty blocks, one position, all positions, alignment. */
static void random_problems(void **state) {
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 200; round++) {
        int times = 1 + (int)(next_random(&seed) % 60), n = (int)(next_random(&seed) % 80);
        int64_t align = round % 3 ? 256 : 16, bound;
        problem.n = 0;
        for (int i = 0; i < n; i++) {
            int lower = (int)(next_random(&seed) % (uint32_t)times);
            int upper = lower + 1 + (int)(next_random(&seed) % (uint32_t)(times - lower));
            add(&problem, lower, upper, next_random(&seed) % 8 ? next_random(&seed) % 5000 : 0);
        }
        int64_t peak = place(&problem, align, 200000, &bound);
        assert_true(peak <= bound + bound / 4 + 8192);
    }
}

/* What little work is shared out finds: so far are 200 problems from their bounds, together. */
static void little_work_is_shared_well(void **state) {
    (void)state;
    uint32_t seed = 5;
    int64_t total = 0;
    for (int round = 0; round < 200; round++) {
        int times = 2 + (int)(next_random(&seed) % 40), n = 1 + (int)(next_random(&seed) % 60);
        problem.n = 0;
        for (int i = 0; i < n; i++) {
            int lower = (int)(next_random(&seed) % (uint32_t)times);
            int upper = lower + 1 + (int)(next_random(&seed) % (uint32_t)(times - lower));
            add(&problem, lower, upper, next_random(&seed) % 5000);
        }
        int64_t bound;
        total += place(&problem, 256, 20000, &bound) - bound;
    }
    assert_true(total <= 90880);
}

/* What a backward pass needs: each layer's activation until its gradient, temporaries in between. */
static void training_problem(Problem *q, int layers, uint32_t seed) {
    q->n = 0;
    for (int i = 0; i < layers; i++) {
        int64_t size = 1000 + next_random(&seed) % 100000;
        add(q, 2 * i, 6 * layers - 4 * i, size);
        add(q, 2 * i, 2 * i + 2, size / 2);
        add(q, 6 * layers - 4 * i - 4, 6 * layers - 4 * i - 1, size);
    }
}

static void large_problems_are_quick_and_tight(void **state) {
    (void)state;
    int64_t bound;
    training_problem(&problem, 10000, 3);
    int64_t peak = place(&problem, 256, 20000000, &bound);
    print_message("training, %d blocks: %.3f of the bound\n", problem.n, (double)peak / (double)bound);
    assert_true(peak <= bound + bound / 50);
    uint32_t seed = 5;
    problem.n = 0;
    for (int i = 0; i < 30000; i++) {
        int lower = (int)(next_random(&seed) % 30000);
        add(&problem, lower, lower + 1 + (int)(next_random(&seed) % 300), 256 + next_random(&seed) % 65536);
    }
    peak = place(&problem, 256, 20000000, &bound);
    print_message("random, %d blocks: %.3f of the bound\n", problem.n, (double)peak / (double)bound);
    assert_true(peak <= bound + bound / 3);
}

static void empty_problem(void **state) {
    (void)state;
    int64_t bound = 1;
    problem.n = 0;
    assert_int_equal(place(&problem, 256, 1000, &bound), 0);
    assert_int_equal(bound, 0);
    add(&problem, 0, 5, 0);
    assert_int_equal(place(&problem, 256, 1000, &bound), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minimalloc_problems),
        cmocka_unit_test(random_problems),
        cmocka_unit_test(little_work_is_shared_well),
        cmocka_unit_test(large_problems_are_quick_and_tight),
        cmocka_unit_test(empty_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
