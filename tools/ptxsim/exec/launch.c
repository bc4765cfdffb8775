/* A whole grid.  Blocks are independent unless they touch each other's memory atomically or wait for each other: such a
 * kernel runs on one host thread with its blocks interleaved in a fixed order, every other one on all cores.  Either
 * way the result does not depend on the host's timing. */
#include "tools/ptxsim/exec/run.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLICE = 20000, MAX_WORKERS = 64 };

typedef struct Work {
    Launch *launch;
    uint64_t blocks;
    atomic_uint_fast64_t next;
    atomic_bool failed;
    pthread_mutex_t lock;
} Work;

static void add_counters(Counters *to, const Counters *c) {
    to->thread_instructions += c->thread_instructions;
    to->warp_instructions += c->warp_instructions;
    to->load_bytes += c->load_bytes;
    to->store_bytes += c->store_bytes;
    to->load_sectors += c->load_sectors;
    to->store_sectors += c->store_sectors;
    to->shared_accesses += c->shared_accesses;
    to->shared_conflicts += c->shared_conflicts;
    to->barriers += c->barriers;
}

static void *work_on(void *data) {
    Work *work = data;
    Counters sum = {0};
    for (;;) {
        const uint64_t n = atomic_fetch_add(&work->next, 1);
        if (n >= work->blocks || atomic_load(&work->failed)) break;
        Block b;
        if (!block_start(&b, work->launch, n)) atomic_store(&work->failed, true);
        else
            while (!block_run(&b, SLICE)) {
            }
        block_end(&b);
        add_counters(&sum, &b.count);
    }
    pthread_mutex_lock(&work->lock);
    add_counters(&work->launch->count, &sum);
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

static bool run_independent(Launch *k, uint64_t blocks) {
    Work work = {.launch = k, .blocks = blocks};
    pthread_t thread[MAX_WORKERS];
    int started = 0, wanted = k->workers < MAX_WORKERS ? k->workers : MAX_WORKERS;
    if ((uint64_t)wanted > blocks) wanted = (int)blocks;
    pthread_mutex_init(&work.lock, NULL);
    while (started < wanted - 1 && !pthread_create(&thread[started], NULL, work_on, &work)) started++;
    work_on(&work);
    for (int t = 0; t < started; t++) pthread_join(thread[t], NULL);
    pthread_mutex_destroy(&work.lock);
    return !atomic_load(&work.failed);
}

/* Blocks that a device holds at once; those beyond start when others end, as on hardware. */
static uint64_t resident_limit(const Launch *k) {
    const uint64_t threads = (uint64_t)k->block[0] * k->block[1] * k->block[2];
    const uint64_t per_sm = 2048 / (threads ? threads : 1);
    return k->sm_count * (per_sm < 1 ? 1 : per_sm > 32 ? 32 : per_sm);
}

/* One more block joins in every round, so that a grid whose blocks never wait keeps few of them open. */
static bool run_interleaved(Launch *k, uint64_t blocks) {
    const uint64_t limit = resident_limit(k) < blocks ? resident_limit(k) : blocks;
    Block *open = calloc(limit ? limit : 1, sizeof *open);
    uint64_t count = 0, next = 0;
    bool ok = open != NULL;
    while (ok && (count || next < blocks)) {
        if (count < limit && next < blocks) {
            ok = block_start(&open[count], k, next++);
            count++;
        }
        for (uint64_t n = 0; ok && n < count;) {
            if (!block_run(&open[n], SLICE)) {
                n++;
                continue;
            }
            block_end(&open[n]);
            add_counters(&k->count, &open[n].count);
            memmove(&open[n], &open[n + 1], (count - n - 1) * sizeof *open);
            count--;
            for (uint64_t m = n; m < count; m++) /* warps point back at their block */
                for (int w = 0; w < open[m].warps; w++) open[m].warp[w].block = &open[m];
        }
    }
    for (uint64_t n = 0; n < count; n++) block_end(&open[n]);
    free(open);
    return ok;
}

bool launch_run(Launch *k) {
    const uint64_t blocks = (uint64_t)k->grid[0] * k->grid[1] * k->grid[2];
    return k->fn->global_atomics ? run_interleaved(k, blocks) : run_independent(k, blocks);
}
