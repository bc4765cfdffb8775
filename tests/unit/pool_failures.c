/* Every call by which the worker pool asks the system for something fails once: no pool, and nothing left behind.  The
 * linker hands those calls to the wrappers below (tests/CMakeLists.txt).  A pool runs every piece once.  Large pages are asked for
 * where memory is large, and for nothing beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "runtime/host/host.h"

static _Atomic int until_failure, live_threads;

static bool fails(void) { return until_failure > 0 && --until_failure == 0; }

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }

#define WRAP(name, parameters, arguments)                                                                              \
    int __real_##name parameters;                                                                                      \
    int __wrap_##name parameters;                                                                                      \
    int __wrap_##name parameters { return fails() ? EAGAIN : __real_##name arguments; }
WRAP(pthread_mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t *a), (m, a))
WRAP(pthread_cond_init, (pthread_cond_t * c, const pthread_condattr_t *a), (c, a))
WRAP(pthread_attr_init, (pthread_attr_t * a), (a))
WRAP(pthread_attr_setstacksize, (pthread_attr_t * a, size_t n), (a, n))

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) {
    if (fails()) return EAGAIN;
    live_threads++;
    return __real_pthread_create(t, a, f, x);
}

int __real_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result) {
    live_threads--;
    return __real_pthread_join(t, result);
}

static struct {
    uintptr_t first, end; /* of what is asked for; end 0: nothing */
} asked;

int __wrap_madvise(void *at, size_t n, int advice);
int __wrap_madvise(void *at, size_t n, int advice) {
    (void)advice;
    asked.first = (uintptr_t)at, asked.end = asked.first + n;
    return -1; /* which changes nothing */
}

/* The whole pages of memory of several large ones, wherever it begins and ends. */
static void large_pages_lie_in_memory(void **state) {
    (void)state;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = 16 * page;
    for (uintptr_t shift = 0; shift < 2; shift++)
        for (uint64_t n = (uint64_t)8 << 20; n < ((uint64_t)8 << 20) + 3; n++) {
            asked.end = 0;
            fusec_pool_large_pages((void *)(at + shift), n);
            assert_true(asked.first >= at + shift && asked.first % page == 0 && asked.first < at + shift + page);
            assert_true(asked.end <= at + shift + n && asked.end % page == 0 && asked.end + page > at + shift + n);
        }
    asked.end = 0;
    fusec_pool_large_pages((void *)at, (uint64_t)1 << 20);
    fusec_pool_large_pages(NULL, (uint64_t)1 << 30);
    assert_true(asked.end == 0);
}

enum { THREADS = 5, CALLS = 1 + 3 + 2 + THREADS - 1 }; /* memory, locks, attributes, threads */

static void each_call_fails_once(void **state) {
    (void)state;
    for (int call = 1; call <= CALLS; call++) {
        until_failure = call;
        if (fusec_pool_new(THREADS)) fail_msg("call %d of %d fails, and there is a pool", call, CALLS);
        assert_int_equal(until_failure, 0);
        assert_int_equal(live_threads, 0);
    }
}

static void count(void *context, int i) {
    (void)i;
    ++*(_Atomic int *)context;
}

static void no_call_is_left_out(void **state) { /* one more would not be reached, and the pool works */
    (void)state;
    until_failure = CALLS + 1;
    fusec_pool *p = fusec_pool_new(THREADS);
    assert_int_equal(until_failure, 1);
    until_failure = 0;
    assert_non_null(p);
    assert_int_equal(live_threads, THREADS - 1);
    _Atomic int calls = 0;
    fusec_pool_run(p, 1000, count, &calls, 1);
    assert_int_equal(calls, 1000);
    fusec_pool_free(p);
    assert_int_equal(live_threads, 0);
}

enum { PIECES = 64 };

static void note(void *context, int i) { ++((_Atomic int *)context)[i]; }

static void every_piece_is_run_once(void **state) { /* by threads that look for work and by threads that sleep */
    (void)state;
    fusec_pool *p = fusec_pool_new(THREADS);
    assert_non_null(p);
    for (int run = 0; run < 640; run++) {
        const int n = 1 + run % PIECES;
        _Atomic int times[PIECES] = {0};
        if (run % 160 == 0) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        fusec_pool_run(p, n, note, times, run % 3 != 0);
        for (int i = 0; i < PIECES; i++)
            if (times[i] != (i < n)) fail_msg("run %d of %d pieces: piece %d, %d times", run, n, i, times[i]);
    }
    fusec_pool_free(p);
}

typedef struct Strangers {
    pthread_t caller;
    _Atomic int run, others; /* pieces; those that another thread ran */
} Strangers;

static void strangers(void *context, int i) {
    (void)i;
    Strangers *s = context;
    s->run++;
    s->others += !pthread_equal(pthread_self(), s->caller);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* whoever is awake has time to come */
}

/* Who sleeps is not woken for brief work, but comes when called. */
static void sleepers_sleep_on(void **state) {
    (void)state;
    fusec_pool *p = fusec_pool_new(2);
    assert_non_null(p);
    int alone = 0, helped = 0;
    for (int runs = 0; runs < 100 && !(alone && helped); runs++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); /* the other thread falls asleep */
        Strangers quiet = {.caller = pthread_self()}, loud = quiet;
        fusec_pool_run(p, 8, strangers, &quiet, 0);
        fusec_pool_run(p, 8, strangers, &loud, 1);
        assert_int_equal(quiet.run + loud.run, 16);
        alone += !quiet.others;
        helped += loud.others > 0;
    }
    assert_true(alone && helped);
    fusec_pool_free(p);
}

typedef struct Places {
    pthread_t caller;
    int processors;
    _Atomic int run, kept_off; /* pieces; those of a worker that may not use all processors */
} Places;

static void look_at_place(void *context, int i) {
    (void)i;
    Places *p = context;
    cpu_set_t mask;
    p->run++;
    if (pthread_equal(pthread_self(), p->caller))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* a worker has time to come */
    else if (!pthread_getaffinity_np(pthread_self(), sizeof mask, &mask))
        p->kept_off += CPU_COUNT(&mask) < p->processors;
}

/* Workers that slept keep off the caller's processor, if there are others; with one processor all share it. */
static void workers_keep_off(void **state) {
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    for (int alone = 0; alone < 2; alone++) {
        if (alone) assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        const int processors = alone ? 1 : CPU_COUNT(&all);
        fusec_pool *p = fusec_pool_new(2);
        assert_non_null(p);
        Places places = {.caller = pthread_self(), .processors = processors};
        int runs = 0;
        for (; runs < 200 && (runs == 0 || (processors > 1 && !places.kept_off)); runs++) {
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); /* the worker falls asleep */
            fusec_pool_run(p, PIECES, look_at_place, &places, 1);
        }
        assert_int_equal(places.run, runs * PIECES);
        assert_int_equal(places.kept_off > 0, processors > 1);
        fusec_pool_free(p);
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_fails_once),    cmocka_unit_test(no_call_is_left_out),
        cmocka_unit_test(every_piece_is_run_once), cmocka_unit_test(sleepers_sleep_on),
        cmocka_unit_test(workers_keep_off),        cmocka_unit_test(large_pages_lie_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
