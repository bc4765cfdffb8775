/* One cluster: its blocks, and whose turn it is. */
#include "tools/ptxsim/exec/async.h"
#include "tools/ptxsim/exec/page.h"
#include "tools/ptxsim/exec/profile.h"
#include "tools/ptxsim/exec/run.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- life ---------------------------------------------------------------------------------------------- */
static bool start_blocks(Cluster *c) {
    const Launch *k = c->launch;
    const uint32_t *size = k->cluster;
    uint32_t across[3], first[3];
    for (int d = 0; d < 3; d++) across[d] = k->grid[d] / size[d];
    first[0] = (uint32_t)(c->linear % across[0]) * size[0];
    first[1] = (uint32_t)(c->linear / across[0] % across[1]) * size[1];
    first[2] = (uint32_t)(c->linear / across[0] / across[1]) * size[2];
    for (uint32_t r = 0; r < (uint32_t)c->blocks; r++) {
        const uint32_t id[3] = {first[0] + r % size[0], first[1] + r / size[0] % size[1], first[2] + r / size[0] / size[1]};
        if (!block_start(&c->block[r], c, r, id)) return false;
    }
    return true;
}

void cluster_no_memory(Cluster *c) { c->launch->out_of_memory = c->stuck = true; }

Cluster *cluster_start(Launch *k, uint64_t linear, uint64_t position) {
    Cluster *c = calloc(1, sizeof *c);
    const uint64_t threads = (uint64_t)k->block[0] * k->block[1] * k->block[2];
    if (!c) return NULL;
    c->launch = k;
    c->linear = linear;
    c->position = position;
    c->blocks = (int)(k->cluster[0] * k->cluster[1] * k->cluster[2]);
    c->warps = c->blocks * (int)((threads + WARP - 1) / WARP);
    c->agents = c->warps + ASYNC_AGENTS;
    c->random = k->seed * UINT64_C(0x9e3779b97f4a7c15) + linear * UINT64_C(0xbf58476d1ce4e5b9) + 1;
    c->block = calloc((size_t)c->blocks, sizeof *c->block);
    if (k->profile) c->tally = profile_tally(k->profile);
    if (cluster_shadow_start(c) && c->block && (c->tally || !k->profile) && start_blocks(c)) return c;
    Counters nothing = {0};
    cluster_end(c, &nothing);
    return NULL;
}

void cluster_end(Cluster *c, Counters *sum) {
    wgmma_end(c);
    async_end(c);
    for (int r = 0; c->block && r < c->blocks; r++) {
        if (!c->stuck && c->block[r].warp) registers_end(&c->block[r]);
        block_count(&c->block[r]);
        counters_add(sum, &c->block[r].count);
    }
    if (c->launch->profile) profile_merge(c->launch->profile, c->tally);
    c->tally = NULL;
    cluster_shadow_end(c);
}

void cluster_free(Cluster *c) {
    for (int r = 0; c->block && r < c->blocks; r++) block_end(&c->block[r]);
    sync_clock_clear(&c->barrier.clock);
    sync_clock_clear(&c->barrier_done);
    free(c->block);
    free(c);
}

/* ---- scheduling --------------------------------------------------------------------------------------- */
uint64_t random_next(Cluster *c) {
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return c->random;
}

static Warp *warp_at(const Cluster *c, int agent) {
    const int each = c->block[0].warps;
    return &c->block[agent / each].warp[agent % each];
}

static void report_deadlock(Cluster *c) {
    for (int k = 0; k < c->warps; k++) {
        Warp *w = warp_at(c, k);
        char note[120];
        if (w->state == WARP_WAITING || (w->state == WARP_READY && w->rest_until > c->turns)) {
            w->explain(w, note, sizeof note);
            w->at = w->wait_inst;
            warp_report(w, REPORT_DEADLOCK, __builtin_ctz(w->wait_mask), 0, 0, note);
        }
        if (w->state != WARP_AT_BARRIER) continue;
        const Barrier *bar = &w->block->barrier[w->barrier];
        const uint32_t want = bar->expected ? bar->expected : block_live_threads(w->block);
        snprintf(note, sizeof note, "barrier %d waits for %u threads, %u arrived, no warp can go on", w->barrier, want,
                 bar->arrived);
        w->at = w->barrier_inst;
        warp_report(w, REPORT_DEADLOCK, w->live ? __builtin_ctz(w->live) : 0, 0, 0, note);
    }
    c->stuck = true;
}

/* With a seed: any ready warp, for a few instructions.  Without: in turn, as long as it goes. */
static Warp *pick(Cluster *c, int turn, uint64_t left, uint64_t *slice) {
    const uint64_t seed = c->launch->seed;
    const int first = seed ? (int)(random_next(c) % (uint64_t)c->warps) : turn;
    *slice = seed ? 1 + random_next(c) % 64 : left;
    Warp *poller = NULL;
    for (int k = 0; k < c->warps; k++) {
        Warp *w = warp_at(c, (first + k) % c->warps);
        if (w->state == WARP_WAITING && w->wake(w)) w->state = WARP_READY;
        if (w->state != WARP_READY) continue;
        if (w->rest_until <= c->turns) return w;
        if (!poller || w->rest_until < poller->rest_until) poller = w;
    }
    return poller;
}

enum { POLLS_OF_ONE = 64, STEPS_OF_WORK = 1000 };
/* Warps only poll in vain, time after time, and nothing is in flight.  A kernel that also talks to other clusters
 * through global memory may yet be freed from there. */
static bool polls_forever(const Cluster *c) {
    return c->idle > 1000 + POLLS_OF_ONE * (uint64_t)c->warps && !c->queue && !c->launch->fn->global_atomics;
}

bool cluster_run(Cluster *c, uint64_t slice) {
    uint64_t spent = 0;
    for (int turn = 0; c->done < c->warps && !c->stuck; turn++) {
        uint64_t part;
        c->turns++;
        if (c->queue) async_progress(c, false);
        Warp *w = pick(c, turn % c->warps, slice, &part);
        if ((!w || w->rest_until > c->turns) && async_progress(c, true)) continue;
        if (!w || polls_forever(c)) {
            report_deadlock(c);
            break;
        }
        const uint64_t before = w->steps;
        warp_run(w, part < slice ? part : slice);
        if (w->state != WARP_READY || w->steps - w->polled > STEPS_OF_WORK) c->idle = 0;
        spent += w->steps - before + 1;
        if (spent >= slice * (uint64_t)c->warps) return c->done == c->warps || c->stuck;
    }
    return true;
}
