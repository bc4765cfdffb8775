/* Mbarrier objects: arrivals, transactions, phases, waits, and what is wrong with each. */
#include "tools/ptxsim/exec/mbarrier.h"
#include "tools/ptxsim/exec/race_sync.h"
#include "tools/ptxsim/exec/shadow.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- objects -------------------------------------------------------------------------------------------- */
Mbarrier *mbarrier_find(const Block *b, uint32_t offset) {
    for (Mbarrier *m = b->mbarriers; m; m = m->next)
        if (m->offset == offset) return m;
    return NULL;
}

/* The shadow of the object's two words: written by `who`. */
static void mark_bytes(const Mbarrier *m, Stamp who) {
    const Shadow s = block_shadow(m->block);
    for (uint32_t k = 0; k < MBARRIER_BYTES / 4; k++) {
        s.w[m->offset / 4 + k] = who;
        s.r[m->offset / 4 + k] = 0;
    }
}

static void fault(Warp *w, int lane, const Mbarrier *m, const char *note) {
    warp_report(w, REPORT_MBARRIER, lane, m->offset, MBARRIER_BYTES, note);
}

/* Block and offset of an address; false with a finding when it is none of an mbarrier object. */
static bool resolve(Warp *w, int lane, Space space, uint64_t address, bool remote, Block **block, uint64_t *offset) {
    if (space == SPACE_GENERIC && address - SHARED_WINDOW < WINDOW_BYTES) address -= SHARED_WINDOW;
    else if (space == SPACE_GENERIC) address = UINT64_MAX;
    *block = shared_block(w, address, offset);
    const char *problem = !*block || *offset + MBARRIER_BYTES > (*block)->shared_bytes
                              ? "no address of the shared memory of a running block"
                          : *offset % MBARRIER_BYTES ? "an mbarrier object is aligned to 8 bytes"
                          : *block != w->block && !remote
                              ? "this operation works on the block's own mbarrier objects only"
                              : NULL;
    if (problem) warp_report(w, REPORT_MBARRIER, lane, address, MBARRIER_BYTES, problem);
    return !problem;
}

/* Has the initialisation happened before this warp's present? */
static bool init_seen(const Warp *w, const Mbarrier *m) {
    return clock_ordered(&w->clock, m->init, -1) || stamp_agent(m->init) == w->agent ||
           (m->init_fenced && w->cluster_phase > m->init_phase);
}

Mbarrier *mbarrier_at(Warp *w, int lane, Space space, uint64_t address, bool remote) {
    Block *b;
    uint64_t offset;
    if (!resolve(w, lane, space, address, remote, &b, &offset)) return NULL;
    Mbarrier *m = mbarrier_find(b, (uint32_t)offset);
    if (!m) {
        warp_report(w, REPORT_MBARRIER, lane, offset, MBARRIER_BYTES, "no mbarrier object was initialised here");
        return NULL;
    }
    if (!init_seen(w, m)) fault(w, lane, m, "nothing orders this after the mbarrier object's initialisation");
    return m;
}

void mbarrier_check_use(Warp *w, int lane, const Mbarrier *m, bool async_proxy) {
    if (!async_proxy || m->init_fenced || clock_fenced(&w->clock, m->init, PROXY_SHARED)) return;
    warp_report(w, REPORT_INIT_FENCE, lane, m->offset, MBARRIER_BYTES,
                "no fence.mbarrier_init or fence.proxy.async between the object's initialisation and this copy");
}

static void mbarrier_free(Mbarrier *m) {
    sync_clock_clear(&m->arriving);
    sync_clock_clear(&m->completed);
    free(m);
}

/* The object at which a suspended warp's first lane waits, and its offset. */
static const Mbarrier *waited_for(const Warp *w, uint64_t *offset) {
    const MbarrierForm *f = w->wait_inst->more;
    uint64_t address = pointer_at(w, &f->at, __builtin_ctz(w->wait_mask));
    if (f->at.space == SPACE_GENERIC) address -= SHARED_WINDOW;
    const Block *b = shared_block(w, address, offset);
    return b ? mbarrier_find(b, (uint32_t)*offset) : NULL;
}

static bool waits_on(const Warp *w, const Mbarrier *m) {
    uint64_t offset;
    return w->state == WARP_WAITING && w->wait_inst->run == exec_mbarrier_wait && waited_for(w, &offset) == m;
}

/* Nobody waits, the last phase's end has been seen, and the current one has seen neither arrivals nor bytes. */
static bool at_rest(const Mbarrier *m) {
    for (int k = 0; k < m->block->warps; k++)
        if (waits_on(&m->block->warp[k], m)) return false;
    return m->waited && !m->tx && m->pending == m->expected;
}

static void unlink_object(Block *b, const Mbarrier *m) {
    for (Mbarrier **p = &b->mbarriers; *p; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            return;
        }
}

static bool within(const Mbarrier *m, uint64_t offset, uint64_t bytes) {
    return m->offset < offset + bytes && offset < (uint64_t)m->offset + MBARRIER_BYTES;
}

bool mbarriers_reuse(Warp *w, uint64_t offset, uint64_t bytes) {
    Block *b = w->block;
    for (const Mbarrier *m = b->mbarriers; m; m = m->next)
        if (within(m, offset, bytes) && !at_rest(m)) return false;
    for (Mbarrier *m = b->mbarriers, *next; m; m = next) {
        next = m->next;
        if (!within(m, offset, bytes)) continue;
        unlink_object(b, m);
        mbarrier_free(m);
    }
    return true;
}

static void mbarrier_init(Warp *w, int lane, const MbarrierForm *f) {
    Block *b;
    uint64_t offset, count = lane_bits(w, &f->count, lane);
    if (!resolve(w, lane, f->at.space, pointer_at(w, &f->at, lane), false, &b, &offset)) return;
    Mbarrier *m = mbarrier_find(b, (uint32_t)offset);
    if (m && !at_rest(m)) {
        fault(w, lane, m, "initialised again without mbarrier.inval");
        return;
    }
    if (m) {
        warp_report(w, REPORT_REUSE, lane, offset, MBARRIER_BYTES, "initialised again without mbarrier.inval");
        mark_bytes(m, stamp_make(w->time, w->agent, (uint32_t)lane));
        mbarriers_reuse(w, offset, MBARRIER_BYTES);
    }
    if (count < 1 || count > MBARRIER_MAX_COUNT) {
        warp_report(w, REPORT_MBARRIER, lane, offset, MBARRIER_BYTES, "the expected count is 1 to 2^20 - 1");
        return;
    }
    uint64_t address[WARP] = {0};
    uint8_t *place[WARP];
    address[lane] = offset;
    warp_access(w, SPACE_SHARED, ACCESS_WRITE, false, address, MBARRIER_BYTES, UINT32_C(1) << lane, place);
    m = calloc(1, sizeof *m);
    if (!m) {
        cluster_no_memory(w->cluster);
        return;
    }
    *m = (Mbarrier){.block = b, .offset = (uint32_t)offset, .expected = (uint32_t)count, .pending = (uint32_t)count,
                    .init = stamp_make(w->time, w->agent, (uint32_t)lane), .waited = true, .next = b->mbarriers};
    b->mbarriers = m;
    mark_bytes(m, mbarrier_stamp(w->cluster));
}

static void mbarrier_inval(Warp *w, int lane, const MbarrierForm *f) {
    Mbarrier *m = mbarrier_at(w, lane, f->at.space, pointer_at(w, &f->at, lane), false);
    if (!m) return;
    if (m->tx || m->pending != m->expected) fault(w, lane, m, "made invalid in the middle of a phase");
    for (int k = 0; k < w->block->warps; k++)
        if (waits_on(&w->block->warp[k], m)) fault(w, lane, m, "made invalid while a warp waits on it");
    unlink_object(w->block, m);
    mark_bytes(m, stamp_make(w->time, w->agent, (uint32_t)lane));
    mbarrier_free(m);
}

void mbarriers_fence(Warp *w) {
    for (Mbarrier *m = w->block->mbarriers; m; m = m->next) {
        if (m->init_fenced || !init_seen(w, m)) continue;
        m->init_fenced = true;
        m->init_phase = w->cluster->barrier_phase;
    }
}

void mbarriers_end(Block *b) {
    while (b->mbarriers) {
        Mbarrier *m = b->mbarriers;
        b->mbarriers = m->next;
        if (m->tracked && !b->cluster->stuck) {
            m->tracked_warp->at = m->tracked;
            warp_report(m->tracked_warp, REPORT_MISSING_WAIT, m->tracked_lane, m->offset, MBARRIER_BYTES,
                        "the kernel ends without a wait on the mbarrier object that this copy signals");
        }
        mbarrier_free(m);
    }
}

/* ---- phases --------------------------------------------------------------------------------------------- */
static void settle(Cluster *c, Mbarrier *m) {
    if (m->pending || m->tx) return;
    sync_clock_join(c, &m->completed, &m->arriving);
    sync_clock_clear(&m->arriving);
    m->phase++;
    m->pending = m->expected;
    m->waited = false;
    c->idle = 0;
}

static void add_tx(Warp *w, int lane, Mbarrier *m, int64_t bytes) {
    m->tx += bytes;
    if (m->tx < -MBARRIER_MAX_COUNT || m->tx > MBARRIER_MAX_COUNT)
        fault(w, lane, m, "the tx-count leaves its range of 2^20 - 1 bytes");
}

void mbarrier_complete_tx(AsyncOp *op, Mbarrier *m, uint64_t bytes) {
    Cluster *c = op->warp->cluster;
    if (!clock_note(c, &m->arriving, op->agent, op->time) ||
        (op->reader && !clock_note(c, &m->arriving, op->reader->agent, op->reader->time)))
        cluster_no_memory(c);
    m->tracked = op->inst;
    m->tracked_warp = op->warp;
    m->tracked_lane = op->lane;
    const Inst *at = op->warp->at;
    op->warp->at = op->inst;
    add_tx(op->warp, op->lane, m, -(int64_t)bytes);
    op->warp->at = at;
    settle(c, m);
}

static void arrive(Warp *w, int lane, Mbarrier *m, uint32_t count) {
    if (count < 1 || count > MBARRIER_MAX_COUNT) {
        fault(w, lane, m, "an arrival counts 1 to 2^20 - 1");
        return;
    }
    if (m->phase && !m->waited) {
        fault(w, lane, m, "an arrival before any wait has seen the end of the previous phase");
        m->waited = true; /* said once a phase */
    }
    if (count > m->pending) {
        char note[120];
        snprintf(note, sizeof note, "%u arrivals where %u are pending in phase %u", count, m->pending, m->phase);
        fault(w, lane, m, note);
        count = m->pending;
    }
    m->pending -= count;
    settle(w->cluster, m);
}

void mbarrier_raise(Warp *w, int lane, Mbarrier *m, uint32_t count) {
    m->pending += count;
    if (m->pending > MBARRIER_MAX_COUNT) fault(w, lane, m, "the pending count exceeds 2^20 - 1");
}

void mbarrier_system_arrive(AsyncOp *op, Mbarrier *m, uint32_t count) {
    const Inst *at = op->warp->at;
    op->warp->at = op->inst;
    m->tracked = op->inst;
    m->tracked_warp = op->warp;
    m->tracked_lane = op->lane;
    arrive(op->warp, op->lane, m, count);
    op->warp->at = at;
}

/* ---- arrivals by threads -------------------------------------------------------------------------------- */
/* The opaque state: the phase, and the pending count for mbarrier.pending_count. */
static uint64_t state_of(const Mbarrier *m) { return (uint64_t)m->phase << 32 | UINT64_C(1) << 31 | m->pending; }

/* The object that the lane before released into, and in which phase: the warp's past is joined once. */
typedef struct LastRelease {
    const Mbarrier *object;
    uint32_t phase;
} LastRelease;

static void release_into(Warp *w, Mbarrier *m, LastRelease *last) {
    if (last->object == m && last->phase == m->phase) return;
    *last = (LastRelease){m, m->phase};
    if (!clock_release(w, &m->arriving)) cluster_no_memory(w->cluster);
}

static void arrive_lane(Warp *w, int lane, const MbarrierForm *f, LastRelease *last) {
    const uint64_t address = pointer_at(w, &f->at, lane);
    const bool counts = f->op == MBARRIER_ARRIVE || f->op == MBARRIER_ARRIVE_DROP;
    Mbarrier *m = mbarrier_at(w, lane, f->at.space, address, f->state.base == BASE_NONE);
    if (!m) return;
    const uint32_t given = f->count.base ? (uint32_t)lane_bits(w, &f->count, lane) : 1;
    const uint32_t count = f->expect_tx ? 1 : given;
    if (f->op == MBARRIER_EXPECT_TX || f->expect_tx) add_tx(w, lane, m, given);
    if (f->op == MBARRIER_COMPLETE_TX) add_tx(w, lane, m, -(int64_t)given);
    if (!counts) {
        settle(w->cluster, m);
        return;
    }
    if (f->relaxed) sync_relaxed_release(w, &m->arriving);
    else release_into(w, m, last);
    if (f->state.base) lane_set(w, &f->state, lane, state_of(m));
    if (f->op == MBARRIER_ARRIVE_DROP) {
        if (count > m->expected) fault(w, lane, m, "drops more arrivals than are expected");
        m->expected -= count < m->expected ? count : m->expected;
    }
    const uint32_t phase = m->phase;
    arrive(w, lane, m, count);
    if (f->no_complete && m->phase != phase) fault(w, lane, m, "a .noComplete arrival completes the phase");
}

void exec_mbarrier(Warp *w, const Inst *i, uint32_t mask) {
    const MbarrierForm *f = i->more;
    LastRelease last = {0};
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        if (f->op == MBARRIER_INIT) mbarrier_init(w, l, f);
        else if (f->op == MBARRIER_INVAL) mbarrier_inval(w, l, f);
        else arrive_lane(w, l, f, &last);
    }
}

void exec_pending_count(Warp *w, const Inst *i, uint32_t mask) {
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1) lane_set(w, &i->d, l, lane_bits(w, &i->a, l) & MBARRIER_MAX_COUNT);
}

/* ---- waits ---------------------------------------------------------------------------------------------- */
typedef enum Outcome { WAIT_PENDING, WAIT_DONE, WAIT_WRONG } Outcome;

/* Whether the phase that a lane asks for is complete; wrong ones are reported once, when `first`. */
static Outcome wait_outcome(Warp *w, int lane, const MbarrierForm *f, bool first, Mbarrier **where) {
    Mbarrier *m = first ? mbarrier_at(w, lane, f->at.space, pointer_at(w, &f->at, lane), false) : NULL;
    if (!first) {
        uint64_t offset, address = pointer_at(w, &f->at, lane);
        if (f->at.space == SPACE_GENERIC) address -= SHARED_WINDOW;
        const Block *b = shared_block(w, address, &offset);
        m = b ? mbarrier_find(b, (uint32_t)offset) : NULL;
    }
    *where = m;
    if (!m) return WAIT_WRONG;
    const uint64_t asked = lane_bits(w, &f->count, lane);
    if (f->parity) {
        if (first && asked > 1)
            warp_report(w, REPORT_PARITY, lane, m->offset, MBARRIER_BYTES, "a phase parity is 0 or 1; bit 0 is taken");
        return (asked & 1) == (m->phase & 1) ? WAIT_PENDING : WAIT_DONE;
    }
    const uint32_t phase = (uint32_t)(asked >> 32);
    if (first && (!(asked >> 31 & 1) || phase > m->phase))
        fault(w, lane, m, "no state that an arrival on this object returned");
    else if (first && phase + 1 < m->phase)
        fault(w, lane, m, "waits for a phase that is more than one behind the current one");
    return phase == m->phase ? WAIT_PENDING : WAIT_DONE;
}

/* Lanes whose phase is complete; acquires for them. */
static uint32_t waits_done(Warp *w, const Inst *i, uint32_t mask, bool first) {
    const MbarrierForm *f = i->more;
    const Mbarrier *last = NULL;
    uint32_t done = 0;
    for (int l = 0; l < WARP; l++) {
        Mbarrier *m;
        if (!(mask >> l & 1)) continue;
        const Outcome o = wait_outcome(w, l, f, first, &m);
        if (o == WAIT_PENDING) continue;
        done |= UINT32_C(1) << l;
        if (!m || m == last) continue;
        last = m;
        if (f->relaxed) sync_relaxed_acquire(w, &m->completed);
        else clock_acquire(w, &m->completed);
        m->waited = true;
        m->tracked = NULL;
    }
    return done;
}

static bool wake(Warp *w) {
    const uint32_t done = waits_done(w, w->wait_inst, w->wait_mask, false);
    if (!done) return false;
    predicate_out(w, &w->wait_inst->d, done, w->wait_mask);
    w->tried = NULL;
    return true;
}

static void explain(const Warp *w, char *note, size_t room) {
    uint64_t offset;
    const Mbarrier *m = waited_for(w, &offset);
    if (m)
        snprintf(note, room, "waits for phase %u of the mbarrier at 0x%llx: %u arrivals and %lld bytes are missing",
                 m->phase, (unsigned long long)offset, m->pending, (long long)m->tx);
    else snprintf(note, room, "waits for an mbarrier at 0x%llx that is gone", (unsigned long long)offset);
}

/* A try_wait gives up once, as the ISA allows, so that a kernel that does not look at its result is found; it stands
 * still when the same one comes again.  A test_wait never does. */
void exec_mbarrier_wait(Warp *w, const Inst *i, uint32_t mask) {
    const MbarrierForm *f = i->more;
    const uint32_t done = waits_done(w, i, mask, true);
    if (!done && f->op == MBARRIER_TRY_WAIT && w->tried == i) {
        suspend(w, i, mask, wake, explain);
        return;
    }
    predicate_out(w, &i->d, done, mask);
    w->tried = done == mask ? NULL : i;
    if (done == mask) return;
    poll_failed(w);
    w->wait_inst = i;
    w->wait_mask = mask & ~done;
    w->explain = explain;
}
