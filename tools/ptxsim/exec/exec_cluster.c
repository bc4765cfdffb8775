/* Clusters: addresses of each other's shared memory, barrier.cluster; elected lanes and the pool of registers.
 * Source: PTX ISA, "mapa", "getctarank", "barrier.cluster", "elect.sync", "setmaxnreg". */
#include "tools/ptxsim/exec/race_sync.h"
#include "tools/ptxsim/exec/run.h"
#include "tools/ptxsim/ptx/parse.h"
#include <stdio.h>

/* ---- addresses -------------------------------------------------------------------------------------------- */
/* Rank and offset of an address, of a block that may have exited; -1: no shared address. */
static int64_t rank_of(const Warp *w, const Inst *i, uint64_t address, uint64_t *offset) {
    const uint64_t bare = address - (i->space == SPACE_GENERIC ? SHARED_WINDOW : 0), rank = bare >> SHARED_RANK_SHIFT;
    *offset = bare & ((UINT64_C(1) << SHARED_RANK_SHIFT) - 1);
    if (bare >= WINDOW_BYTES || rank > (uint64_t)w->cluster->blocks) return -1;
    return rank ? (int64_t)rank - 1 : (int64_t)w->block->rank;
}

/* Inst: a address, b rank; space SPACE_CLUSTER or SPACE_GENERIC. */
void exec_map_rank(Warp *w, const Inst *i, uint32_t mask) {
    const uint64_t window = i->space == SPACE_GENERIC ? SHARED_WINDOW : 0;
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        const uint64_t address = lane_bits(w, &i->a, l), rank = (uint32_t)lane_bits(w, &i->b, l);
        uint64_t offset = 0;
        const bool ok = rank_of(w, i, address, &offset) >= 0;
        if (!ok || rank >= (uint64_t)w->cluster->blocks) {
            char note[100];
            snprintf(note, sizeof note, ok ? "mapa to block %llu of a cluster of %d" : "mapa of no shared address",
                     (unsigned long long)rank, w->cluster->blocks);
            warp_report(w, REPORT_CLUSTER, l, address, 0, note);
            continue;
        }
        /* its own block's addresses stay as they are */
        const uint64_t high = rank == w->block->rank ? 0 : (rank + 1) << SHARED_RANK_SHIFT;
        lane_set(w, &i->d, l, window | high | offset);
    }
}

void exec_get_rank(Warp *w, const Inst *i, uint32_t mask) {
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        const uint64_t address = lane_bits(w, &i->a, l);
        uint64_t offset;
        const int64_t rank = rank_of(w, i, address, &offset);
        if (rank >= 0) lane_set(w, &i->d, l, (uint64_t)rank);
        else warp_report(w, REPORT_CLUSTER, l, address, 0, "getctarank of no shared address");
    }
}

/* ---- barrier.cluster -------------------------------------------------------------------------------------- */
static uint32_t live_threads(const Cluster *c) {
    uint32_t n = 0;
    for (int r = 0; r < c->blocks; r++) n += block_live_threads(&c->block[r]);
    return n;
}

void cluster_settle(Cluster *c) {
    if (!c->barrier.inst || c->barrier.arrived < live_threads(c)) return;
    sync_clock_clear(&c->barrier_done);
    c->barrier_done = c->barrier.clock;
    c->barrier = (Barrier){0};
    c->barrier_phase++;
    c->idle = 0;
}

static bool whole_warp(Warp *w, const Inst *i, uint32_t mask) {
    if (!i->uniform || mask == w->live) return true;
    char note[120];
    snprintf(note, sizeof note, "lanes 0x%08x of the live 0x%08x reach an aligned barrier.cluster", mask, w->live);
    warp_report(w, REPORT_DIVERGENT, __builtin_ctz(w->live & ~mask), 0, 0, note);
    return false;
}

/* Inst: op ORDER_RELEASE or ORDER_RELAXED. */
void exec_cluster_arrive(Warp *w, const Inst *i, uint32_t mask) {
    Cluster *c = w->cluster;
    whole_warp(w, i, mask);
    if (w->cluster_arrived & mask)
        warp_report(w, REPORT_CLUSTER, __builtin_ctz(w->cluster_arrived & mask), 0, 0,
                    "a second barrier.cluster.arrive without a wait between");
    if (i->op == ORDER_RELAXED) sync_relaxed_release(w, &c->barrier.clock);
    else if (!clock_release(w, &c->barrier.clock)) cluster_no_memory(c);
    c->barrier.inst = i;
    c->barrier.arrived += (uint32_t)__builtin_popcount(mask & ~w->cluster_arrived);
    w->cluster_arrived |= mask;
    w->cluster_phase = c->barrier_phase;
    w->count.barriers++;
    cluster_settle(c);
}

static bool wake_cluster(Warp *w) {
    if (w->cluster->barrier_phase == w->cluster_phase) return false;
    w->cluster_arrived &= ~w->wait_mask;
    w->cluster_phase = w->cluster->barrier_phase;
    clock_acquire(w, &w->cluster->barrier_done);
    return true;
}

static void explain_cluster(const Warp *w, char *note, size_t room) {
    snprintf(note, room, "barrier.cluster waits for %u threads, %u arrived", live_threads(w->cluster),
             w->cluster->barrier.arrived);
}

void exec_cluster_wait(Warp *w, const Inst *i, uint32_t mask) {
    whole_warp(w, i, mask);
    if (mask & ~w->cluster_arrived) {
        warp_report(w, REPORT_CLUSTER, __builtin_ctz(mask & ~w->cluster_arrived), 0, 0,
                    "barrier.cluster.wait without an arrive before it");
        return;
    }
    w->wait_mask = mask;
    if (!wake_cluster(w)) suspend(w, i, mask, wake_cluster, explain_cluster);
}

/* ---- elect.sync ------------------------------------------------------------------------------------------- */
/* The lowest of the members: which one is up to the hardware, but the same for the same mask. */
void exec_elect(Warp *w, const Inst *i, uint32_t mask) {
    if (members_apart(w, i, &i->e, mask, exec_elect)) return;
    const uint32_t members = (uint32_t)lane_bits(w, &i->e, __builtin_ctz(mask));
    check_members(w, mask, members);
    const uint32_t able = members & mask ? members & mask : mask;
    const int leader = __builtin_ctz(able);
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1) lane_set(w, &i->d, l, (uint64_t)leader);
    predicate_out(w, &i->d2, UINT32_C(1) << leader, mask);
}

/* ---- setmaxnreg ------------------------------------------------------------------------------------------- */
/* Registers are given out to the threads of a warp in units of 8. */
static uint32_t whole_units(uint32_t registers) { return (registers + 7) / 8 * 8; }

/* What .maxnreg or the launch bounds allow a thread at entry; 0: ptxas cannot tell, and drops every setmaxnreg (C7508).  A
 * .maxnreg that ptxas ignores still tells it. */
static uint32_t registers_allowed(const Function *f) {
    enum { REGISTER_FILE = 65536 };
    if (f->max_registers) return f->max_registers;
    if (!f->min_blocks || (!f->has_max_threads && !f->has_required_threads))
        return f->max_registers_ignored ? MOST_REGISTERS : 0;
    const uint32_t *n = f->has_required_threads ? f->required_threads : f->max_threads;
    const uint64_t threads = ((uint64_t)n[0] * n[1] * n[2] + WARP - 1) / WARP * WARP * f->min_blocks;
    const uint64_t each = REGISTER_FILE / threads / 8 * 8;
    return each > MOST_REGISTERS ? MOST_REGISTERS : (uint32_t)each;
}

/* Registers per thread at entry: no more than the largest setmaxnreg of the kernel asks for; 0: as above. */
static uint32_t registers_at_entry(const Function *f) {
    const uint32_t allowed = whole_units(registers_allowed(f));
    uint32_t largest = 0;
    for (int32_t k = 0; k < f->count; k++)
        if (f->code[k].run == exec_set_registers && f->code[k].offset > largest) largest = (uint32_t)f->code[k].offset;
    return largest && largest < allowed ? largest : allowed;
}

static bool wake_registers(Warp *w) {
    const uint32_t want = (uint32_t)w->wait_inst->offset, more = (want - w->registers) * WARP;
    if (w->block->register_pool < more) return false;
    w->block->register_pool -= more;
    w->registers = want;
    return true;
}

static void explain_registers(const Warp *w, char *note, size_t room) {
    snprintf(note, room,
             "setmaxnreg.inc waits for %lld registers per thread more than the %u it has, the pool holds %u for a warp",
             (long long)w->wait_inst->offset - w->registers, w->registers, w->block->register_pool / WARP);
}

/* Inst: offset is the count; op 1 .inc, 0 .dec. */
void exec_set_registers(Warp *w, const Inst *i, uint32_t mask) {
    const uint32_t want = (uint32_t)i->offset;
    const int lane = __builtin_ctz(mask);
    if (!w->registers) w->registers = registers_at_entry(w->block->launch->fn);
    if (!w->registers) {
        warp_report(w, REPORT_REGISTERS_DROPPED, lane, 0, 0,
                    "without .maxnreg, or .minnctapersm with .maxntid or .reqntid, ptxas ignores setmaxnreg");
        return;
    }
    w->register_changes++;
    w->register_inst = i;
    if (mask != w->live) warp_report(w, REPORT_DIVERGENT, lane, 0, 0, "setmaxnreg in a part of a warp");
    if (i->op ? want < w->registers : want > w->registers) {
        char note[100];
        snprintf(note, sizeof note, "setmaxnreg.%s to %u from %u registers", i->op ? "inc" : "dec", want, w->registers);
        warp_report(w, REPORT_REGISTERS, lane, 0, 0, note);
        return;
    }
    w->wait_inst = i;
    if (!i->op) {
        w->block->register_pool += (w->registers - want) * WARP;
        w->registers = want;
        w->cluster->idle = 0;
    } else if (!wake_registers(w)) {
        suspend(w, i, mask, wake_registers, explain_registers);
    }
}

void registers_end(Block *b) {
    for (int g = 0; g + 3 < b->warps; g += 4)
        for (int k = 1; k < 4; k++) {
            Warp *w = b->warp[g].register_changes > b->warp[g + k].register_changes ? &b->warp[g] : &b->warp[g + k];
            if (b->warp[g].register_changes == b->warp[g + k].register_changes) continue;
            w->at = w->register_inst;
            warp_report(w, REPORT_REGISTERS, 0, 0, 0,
                        "not every warp of its warpgroup executed the setmaxnreg of this one");
        }
}
