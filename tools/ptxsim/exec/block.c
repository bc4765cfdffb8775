/* One block: its warps, its shared memory, its barriers. */
#include "tools/ptxsim/exec/run.h"
#include "tools/ptxsim/exec/shadow.h"
#include "tools/ptxsim/ptx/parse.h"
#include <stdio.h>
#include <stdlib.h>

bool block_start(Block *b, Cluster *c, uint32_t rank, const uint32_t id[3]) {
    const Launch *k = c->launch;
    const uint64_t threads = (uint64_t)k->block[0] * k->block[1] * k->block[2];
    *b = (Block){.launch = c->launch, .cluster = c, .rank = rank};
    memcpy(b->id, id, sizeof b->id);
    b->linear = id[0] + k->grid[0] * (id[1] + (uint64_t)k->grid[1] * id[2]);
    b->shared_bytes = k->fn->shared_bytes + k->dynamic_shared;
    if (k->fn->reserved_shared) {
        b->reserved = (b->shared_bytes + RESERVED_SHARED_ALIGN - 1) / RESERVED_SHARED_ALIGN * RESERVED_SHARED_ALIGN;
        b->shared_bytes = b->reserved + RESERVED_SHARED_BYTES;
    }
    b->shared = calloc(b->shared_bytes + 4, 1);
    b->shadow = calloc(2 * (size_t)((b->shared_bytes + 3) / 4) + 1, sizeof *b->shadow);
    b->warps = (int)((threads + WARP - 1) / WARP);
    b->warp = calloc((size_t)b->warps, sizeof *b->warp);
    if (!b->shared || !b->shadow || !b->warp) return false;
    for (uint32_t at = 0; k->fn->reserved_shared && at < RESERVED_SHARED_BYTES; at += 4)
        b->shadow[(b->reserved + at) / 4] = STAMP_BEFORE; /* zeros */
    for (int w = 0; w < b->warps; w++)
        if (!warp_start(&b->warp[w], b, w)) return false;
    return true;
}

void block_count(Block *b) {
    for (int w = 0; b->warp && w < b->warps; w++) {
        Counters *c = &b->warp[w].count;
        for (int k = 0; k < CLASS_COUNT; k++) c->thread_instructions += c->kind[k];
        c->warp_instructions = b->warp[w].steps;
        counters_add(&b->count, c);
    }
}

void block_end(Block *b) {
    for (int w = 0; b->warp && w < b->warps; w++) warp_end(&b->warp[w]);
    for (int k = 0; k < BARRIERS; k++) sync_clock_clear(&b->barrier[k].clock);
    free(b->warp);
    free(b->shared);
    free(b->shadow);
}

/* ---- barriers ----------------------------------------------------------------------------------------- */
uint32_t block_live_threads(const Block *b) {
    uint32_t n = 0;
    for (int w = 0; w < b->warps; w++) n += (uint32_t)__builtin_popcount(b->warp[w].live);
    return n;
}

static void deliver(Warp *w, const Barrier *bar) {
    const Inst *i = w->barrier_inst;
    if (i->op != SYNC_RED) return;
    for (int l = 0; l < WARP; l++) {
        if (!(w->barrier_mask >> l & 1)) continue;
        const uint64_t v = i->op2 == BOOL_POPC ? bar->popc : i->op2 == BOOL_AND ? bar->zeros == 0 : bar->ones != 0;
        lane_set(w, &i->d, l, v);
    }
}

static void release(Block *b, Barrier *bar, int id) {
    for (int w = 0; w < b->warps; w++)
        if (b->warp[w].state == WARP_AT_BARRIER && b->warp[w].barrier == id) {
            deliver(&b->warp[w], bar);
            clock_acquire(&b->warp[w], &bar->clock);
            b->warp[w].state = WARP_READY;
        }
    sync_clock_clear(&bar->clock);
    *bar = (Barrier){0};
}

static bool complete(const Block *b, const Barrier *bar) {
    if (!bar->inst) return false;
    const uint32_t live = block_live_threads(b);
    return bar->expected ? bar->arrived >= bar->expected : bar->arrived >= live;
}

void barriers_settle(Block *b) {
    for (int k = 0; k < BARRIERS; k++)
        if (complete(b, &b->barrier[k])) release(b, &b->barrier[k], k);
}

static void reduce(Barrier *bar, const Warp *w, const Inst *i, uint32_t mask) {
    if (i->op != SYNC_RED) return;
    const uint32_t c = predicate_in(w, &i->c) & mask;
    bar->popc += (uint32_t)__builtin_popcount(c);
    bar->ones += (uint32_t)__builtin_popcount(c);
    bar->zeros += (uint32_t)__builtin_popcount(mask & ~c);
}

void barrier_arrive(Warp *w, const Inst *i, uint32_t mask) {
    Block *b = w->block;
    const int lane = __builtin_ctz(mask);
    const uint32_t id = (uint32_t)lane_bits(w, &i->a, lane), count = (uint32_t)lane_bits(w, &i->b, lane);
    if (id >= BARRIERS || count % WARP || (count && count > (uint32_t)b->warps * WARP)) {
        warp_report(w, REPORT_DEADLOCK, lane, 0, 0, "a barrier is 0 to 15, its thread count a multiple of 32 in the block");
        b->cluster->stuck = true;
        return;
    }
    Barrier *bar = &b->barrier[id];
    if (bar->inst && bar->expected != count)
        warp_report(w, REPORT_DIVERGENT, lane, 0, 0, "warps disagree on the thread count of a barrier");
    bar->inst = i;
    bar->expected = count;
    bar->arrived += count ? WARP : (uint32_t)__builtin_popcount(mask); /* a counted barrier counts whole warps */
    reduce(bar, w, i, mask);
    if (!clock_release(w, &bar->clock)) cluster_no_memory(w->cluster);
    w->count.barriers++;
    if (i->op != SYNC_ARRIVE) {
        w->state = WARP_AT_BARRIER;
        w->barrier = (int)id;
        w->barrier_mask = mask;
        w->barrier_inst = i;
    }
    if (complete(b, bar)) release(b, bar, (int)id);
}
