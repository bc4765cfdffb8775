/* A whole grid.  Blocks are independent unless they touch each other's memory atomically or wait for each other: such a
 * kernel runs on one host thread with its blocks interleaved in a fixed order, every other one on all cores.  Either
 * way the result does not depend on the host's timing. */
#include "tools/ptxsim/exec/alu_level.h"
#include "tools/ptxsim/exec/crop.h"
#include "tools/ptxsim/exec/page.h"
#include "tools/ptxsim/exec/run.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLICE = 20000, MAX_WORKERS = 64 };

typedef struct Work {
    Launch *launch;
    uint64_t clusters;
    const uint64_t *linear; /* of each; NULL: all of the grid */
    atomic_uint_fast64_t next;
    atomic_bool failed;
    pthread_mutex_t lock;
} Work;

static void merge_counters(Launch *k, const Counters *c, pthread_mutex_t *lock) {
    pthread_mutex_lock(lock);
    counters_add(&k->count, c);
    pthread_mutex_unlock(lock);
}

static void *work_on(void *data) {
    Work *work = data;
    Counters sum = {0};
    for (;;) {
        const uint64_t n = atomic_fetch_add(&work->next, 1);
        if (n >= work->clusters || atomic_load(&work->failed)) break;
        Cluster *c = cluster_start(work->launch, work->linear ? work->linear[n] : n, n);
        if (!c) {
            launch_shadow_fail(work->launch->shadow);
            atomic_store(&work->failed, true);
            break;
        }
        while (!cluster_run(c, SLICE)) {
        }
        cluster_end(c, &sum);
    }
    merge_counters(work->launch, &sum, &work->lock);
    return NULL;
}

static bool run_independent(Launch *k, uint64_t clusters, const uint64_t *linear) {
    Work work = {.launch = k, .clusters = clusters, .linear = linear};
    pthread_t thread[MAX_WORKERS];
    int started = 0, wanted = k->workers < MAX_WORKERS ? k->workers : MAX_WORKERS;
    if ((uint64_t)wanted > clusters) wanted = (int)clusters;
    pthread_mutex_init(&work.lock, NULL);
    while (started < wanted - 1 && !pthread_create(&thread[started], NULL, work_on, &work)) started++;
    work_on(&work);
    for (int t = 0; t < started; t++) pthread_join(thread[t], NULL);
    pthread_mutex_destroy(&work.lock);
    return !atomic_load(&work.failed);
}

/* Clusters that a device holds at once; those beyond start when others end, as on hardware. */
static uint64_t resident_limit(const Launch *k) {
    const uint64_t threads = (uint64_t)k->block[0] * k->block[1] * k->block[2];
    const uint64_t in_cluster = (uint64_t)k->cluster[0] * k->cluster[1] * k->cluster[2];
    const uint64_t per_sm = 2048 / (threads ? threads : 1);
    const uint64_t blocks = k->sm_count * (per_sm < 1 ? 1 : per_sm > 32 ? 32 : per_sm);
    return blocks > in_cluster ? blocks / in_cluster : 1;
}

/* One more cluster joins in every round, so that a grid whose blocks never wait keeps few of them open. */
static bool run_interleaved(Launch *k, uint64_t clusters, const uint64_t *linear) {
    const uint64_t limit = resident_limit(k) < clusters ? resident_limit(k) : clusters;
    Cluster **open = calloc(limit ? limit : 1, sizeof *open);
    uint64_t count = 0, next = 0;
    bool ok = open != NULL;
    while (ok && (count || next < clusters)) {
        if (count < limit && next < clusters) {
            open[count] = cluster_start(k, linear ? linear[next] : next, next);
            next++;
            ok = open[count] != NULL;
            count += ok;
        }
        for (uint64_t n = 0; ok && n < count;) {
            if (!cluster_run(open[n], SLICE)) {
                n++;
                continue;
            }
            cluster_end(open[n], &k->count);
            memmove(&open[n], &open[n + 1], (--count - n) * sizeof(*open));
        }
    }
    for (uint64_t n = 0; n < count; n++) cluster_end(open[n], &k->count);
    free(open);
    return ok;
}

bool launch_run(Launch *k) {
    const uint64_t in_cluster = (uint64_t)k->cluster[0] * k->cluster[1] * k->cluster[2];
    uint64_t clusters = (uint64_t)k->grid[0] * k->grid[1] * k->grid[2] / in_cluster;
    uint64_t *drawn = NULL;
    k->access = alu_level()->access;
    k->shadow = launch_shadow_new(k->fn->global_atomics);
    if (!k->shadow) return false;
    if (k->blocks)
        clusters = k->crop;
    else if (k->crop && clusters > k->crop)
        drawn = crop_clusters(k, k->crop, &clusters);
    const uint64_t *linear = k->blocks ? k->blocks : drawn;
    bool ok = linear || !k->crop || clusters <= k->crop;
    if (ok) ok = k->fn->global_atomics ? run_interleaved(k, clusters, linear) : run_independent(k, clusters, linear);
    free(drawn);
    launch_shadow_end(k->shadow);
    return ok && !k->out_of_memory;
}
