/* A small thread pool.  Kernels follow one another within microseconds, and to wake a thread takes tens of them: who
 * waits looks for a moment, then sleeps.  Each thread begins with a share of its own, the same in every run, so that it
 * finds in its cache what it wrote there; then it helps others, from the far end of theirs. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* _SC_NPROCESSORS_ONLN, madvise */
#endif
#include "runtime/host/host.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#if defined __linux__
#include <sys/mman.h>
#include <sys/syscall.h>
#endif

/* Kernels keep their tiles on the stack: the pool's threads have the room that a main thread has. */
#define POOL_STACK ((size_t)8 << 20)

/* Bytes of memory that large pages are asked for: two of the usual ones are sure to lie in it. */
#define POOL_LARGE ((uint64_t)6 << 20)

/* Looks before a thread sleeps: some tens of microseconds. */
#define POOL_LOOKS 2000

/* A thread, the caller's first. */
typedef struct pool_worker {
    fusec_pool *pool;
    pthread_t thread;
    long id;        /* the system's, once it runs; under the lock */
    uint64_t share; /* pieces not handed out: the first, and the end in the upper half; atomic */
} pool_worker;

struct fusec_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    void (*run)(void *ctx, int i);
    void *ctx;
    int n, finished;      /* pieces; completed ones: atomic */
    int sleeping, asleep; /* under the lock: threads that sleep; whether the caller does */
    int woken;            /* the caller slept in the last run, and may have been woken on a worker's processor */
    int away;             /* 1 + the processor that the workers are kept off; 0: none */
    int threads, started; /* with the caller's; without */
    int stop;             /* atomic */
    pool_worker worker[];
};

static void pool_pause(void) {
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static int pool_idle(fusec_pool *p) {
    for (int i = 0; i < p->threads; i++) {
        const uint64_t share = __atomic_load_n(&p->worker[i].share, __ATOMIC_ACQUIRE);
        if ((uint32_t)share < share >> 32) return 0;
    }
    return !__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE);
}

static int pool_unfinished(fusec_pool *p) { return __atomic_load_n(&p->finished, __ATOMIC_ACQUIRE) < p->n; }

/* Whether `waits` still holds after a moment. */
static int pool_look(fusec_pool *p, int (*waits)(fusec_pool *p)) {
    int looks = POOL_LOOKS;
    while (waits(p) && looks-- > 0) pool_pause();
    return waits(p);
}

/* A piece of the share, its first or its last; -1: none is left. */
static int pool_take(uint64_t *share, int first) {
    uint64_t was = __atomic_load_n(share, __ATOMIC_ACQUIRE), is;
    do {
        if ((uint32_t)was >= was >> 32) return -1;
        is = first ? was + 1 : was - ((uint64_t)1 << 32);
    } while (!__atomic_compare_exchange_n(share, &was, is, 1, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return (int)(first ? (uint32_t)was : is >> 32);
}

/* Takes pieces until none is left.  Nothing of a run is read without a piece of it: it lasts until all are completed.
 */
static void pool_work(fusec_pool *p, int self) {
    for (int i = 0; i < p->threads; i++) {
        const int of = (self + i) % p->threads;
        int piece;
        while ((piece = pool_take(&p->worker[of].share, of == self)) >= 0) {
            const int n = p->n;
            p->run(p->ctx, piece);
            if (__atomic_add_fetch(&p->finished, 1, __ATOMIC_ACQ_REL) < n) continue;
            pthread_mutex_lock(&p->lock);
            if (p->asleep) pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

/* A thread woken by one that goes on computing is at times queued on its waker's processor, and both share one for
 * milliseconds while another is idle.  So workers keep off the caller's, which seldom changes. */
#if defined __linux__
static long pool_own_id(void) { return syscall(SYS_gettid); }

static void pool_keep_off(fusec_pool *p) {
    unsigned long mask[16] = {0};
    const unsigned words = sizeof mask / sizeof *mask, bits = 8 * sizeof *mask;
    unsigned cpu;
    int free = 0;
    if (syscall(SYS_getcpu, &cpu, NULL, NULL) || p->away == (int)cpu + 1 || cpu >= words * bits) return;
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    if (bytes <= 0) return;
    for (unsigned i = 0; i < words; i++) free += __builtin_popcountl(mask[i]);
    if (free < p->threads) return;
    for (int i = 1; i < p->threads; i++)
        if (!p->worker[i].id) return; /* 0 would be the caller */
    mask[cpu / bits] &= ~(1ul << cpu % bits);
    for (int i = 1; i < p->threads; i++) syscall(SYS_sched_setaffinity, p->worker[i].id, (size_t)bytes, mask);
    p->away = (int)cpu + 1;
}

/* Rows of a large matrix lie in different pages: with small ones the buffers that translate addresses hold too few of them. */
FUSEC_WEAK void fusec_pool_large_pages(void *memory, uint64_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)memory,
                    first = (from + page - 1) / page * page, end = (from + bytes) / page * page;
    if (memory && bytes >= POOL_LARGE && end > first) (void)madvise((char *)memory + (first - from), end - first, MADV_HUGEPAGE);
}
#else
FUSEC_WEAK void fusec_pool_large_pages(void *memory, uint64_t bytes) { (void)memory, (void)bytes; }
static long pool_own_id(void) { return 1; }
static void pool_keep_off(fusec_pool *p) { (void)p; }
#endif

static void *pool_thread(void *user) {
    pool_worker *self = (pool_worker *)user;
    fusec_pool *p = self->pool;
    pthread_mutex_lock(&p->lock);
    self->id = pool_own_id();
    pthread_mutex_unlock(&p->lock);
    while (!__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE)) {
        if (pool_look(p, pool_idle)) {
            pthread_mutex_lock(&p->lock);
            p->sleeping++;
            while (pool_idle(p)) pthread_cond_wait(&p->work, &p->lock);
            p->sleeping--;
            pthread_mutex_unlock(&p->lock);
        }
        pool_work(p, (int)(self - p->worker));
    }
    return NULL;
}

FUSEC_WEAK int fusec_pool_cores(void) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}

static int pool_start(fusec_pool *p, int threads) {
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);
    if (failed) return 0;
    failed = pthread_attr_setstacksize(&attributes, POOL_STACK);
    for (int i = 1; i < threads && !failed; i++) {
        p->worker[i].pool = p;
        failed = pthread_create(&p->worker[i].thread, &attributes, pool_thread, &p->worker[i]);
        p->started += !failed;
    }
    pthread_attr_destroy(&attributes);
    return !failed;
}

FUSEC_WEAK fusec_pool *fusec_pool_new(int threads) {
    if (threads < 1) threads = 1;
    fusec_pool *p = (fusec_pool *)calloc(1, sizeof *p + sizeof p->worker[0] * (size_t)threads);
    if (!p) return NULL;
    p->threads = threads;
    if (pthread_mutex_init(&p->lock, NULL) || pthread_cond_init(&p->work, NULL) || pthread_cond_init(&p->done, NULL)) {
        free(p); /* nothing to destroy: POSIX systems fail here only for want of memory */
        return NULL;
    }
    if (!pool_start(p, threads)) {
        fusec_pool_free(p);
        return NULL;
    }
    return p;
}

FUSEC_WEAK void fusec_pool_run(fusec_pool *p, int n, void (*run)(void *ctx, int i), void *ctx, int wake) {
    if (n <= 0) return;
    p->run = run;
    p->ctx = ctx;
    p->n = n;
    __atomic_store_n(&p->finished, 0, __ATOMIC_RELEASE);
    for (int i = 0; i < p->threads; i++) {
        const uint64_t first = (uint64_t)n * (unsigned)i / (unsigned)p->threads,
                       end = (uint64_t)n * ((unsigned)i + 1) / (unsigned)p->threads;
        __atomic_store_n(&p->worker[i].share, first | end << 32, __ATOMIC_RELEASE);
    }
    pthread_mutex_lock(&p->lock);
    if ((p->sleeping && wake) || p->woken) pool_keep_off(p);
    if (p->sleeping && wake) pthread_cond_broadcast(&p->work);
    p->woken = 0;
    pthread_mutex_unlock(&p->lock);
    pool_work(p, 0);
    if (!pool_look(p, pool_unfinished)) return;
    pthread_mutex_lock(&p->lock);
    p->asleep = 1;
    while (pool_unfinished(p)) pthread_cond_wait(&p->done, &p->lock);
    p->asleep = 0;
    p->woken = 1;
    pthread_mutex_unlock(&p->lock);
}

FUSEC_WEAK void fusec_pool_free(fusec_pool *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    __atomic_store_n(&p->stop, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i <= p->started; i++) pthread_join(p->worker[i].thread, NULL);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
