/* A small thread pool.  Threads sleep between runs; pieces are handed out by a counter under a lock, which
 * costs nothing against pieces of many microseconds. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* _SC_NPROCESSORS_ONLN */
#endif
#include "runtime/host/host.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Kernels keep their tiles on the stack: the pool's threads have the room that a main thread has. */
#define POOL_STACK ((size_t)8 << 20)

struct fusec_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    void (*run)(void *ctx, int i);
    void *ctx;
    int n, next, finished; /* pieces: all, handed out, completed */
    int threads, stop;     /* threads besides the caller's */
    pthread_t thread[];
};

/* Takes pieces until none is left; the lock is held before and after. */
static void pool_work(fusec_pool *p) {
    while (p->next < p->n) {
        const int i = p->next++;
        pthread_mutex_unlock(&p->lock);
        p->run(p->ctx, i);
        pthread_mutex_lock(&p->lock);
        if (++p->finished == p->n) pthread_cond_signal(&p->done);
    }
}

static void *pool_thread(void *user) {
    fusec_pool *p = (fusec_pool *)user;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        pool_work(p);
        if (!p->stop) pthread_cond_wait(&p->work, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
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
    while (!failed && p->threads < threads) {
        failed = pthread_create(&p->thread[p->threads], &attributes, pool_thread, p);
        p->threads += !failed;
    }
    pthread_attr_destroy(&attributes);
    return !failed;
}

FUSEC_WEAK fusec_pool *fusec_pool_new(int threads) {
    const int others = threads > 1 ? threads - 1 : 0;
    fusec_pool *p = (fusec_pool *)calloc(1, sizeof *p + sizeof p->thread[0] * (size_t)others);
    if (!p) return NULL;
    if (pthread_mutex_init(&p->lock, NULL) || pthread_cond_init(&p->work, NULL) || pthread_cond_init(&p->done, NULL)) {
        free(p); /* nothing to destroy: POSIX systems fail here only for want of memory */
        return NULL;
    }
    if (!pool_start(p, others)) {
        fusec_pool_free(p);
        return NULL;
    }
    return p;
}

FUSEC_WEAK void fusec_pool_run(fusec_pool *p, int n, void (*run)(void *ctx, int i), void *ctx) {
    if (n <= 0) return;
    pthread_mutex_lock(&p->lock);
    p->run = run;
    p->ctx = ctx;
    p->next = p->finished = 0;
    p->n = n;
    pthread_cond_broadcast(&p->work);
    pool_work(p);
    while (p->finished < n) pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

FUSEC_WEAK void fusec_pool_free(fusec_pool *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->threads; i++) pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
