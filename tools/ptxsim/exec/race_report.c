/* Findings of the checks of memory, in words. */
#include "tools/ptxsim/exec/async.h"
#include "tools/ptxsim/exec/mbarrier.h"
#include "tools/ptxsim/exec/shadow.h"
#include <stdio.h>

static void block_of(const Launch *k, uint64_t cluster, uint32_t rank, uint32_t id[3]) {
    const uint32_t *size = k->cluster;
    uint64_t rest = cluster;
    for (int d = 0; d < 3; d++) {
        const uint32_t across = k->grid[d] / size[d];
        id[d] = (uint32_t)(rest % across) * size[d] + rank % size[d];
        rest /= across;
        rank /= size[d];
    }
}

void race_block_name(const Launch *k, uint64_t cluster, char *text, size_t room) {
    const bool several = k->cluster[0] * k->cluster[1] * k->cluster[2] > 1;
    uint32_t id[3];
    block_of(k, cluster, 0, id);
    snprintf(text, room, "%s (%u,%u,%u)", several ? "the cluster of block" : "block", id[0], id[1], id[2]);
}

/* Who made an access: a thread, a warp, an asynchronous operation. */
static void name_agent(const Cluster *c, uint64_t cluster, Stamp s, char *text, size_t room) {
    const uint32_t agent = stamp_agent(s), each = (uint32_t)c->block[0].warps, lane = stamp_lane(s);
    char where[64] = "";
    if (agent >= (uint32_t)c->warps) {
        snprintf(text, room, "an asynchronous operation");
        return;
    }
    if (cluster != c->linear || c->blocks > 1) {
        uint32_t id[3];
        block_of(c->launch, cluster, agent / each, id);
        snprintf(where, sizeof where, " of block (%u,%u,%u)", id[0], id[1], id[2]);
    }
    if (lane < WARP) snprintf(text, room, "warp %u lane %u%s", agent % each, lane, where);
    else snprintf(text, room, "warp %u%s", agent % each, where);
}

/* Where the bytes of a lane's access lie; NULL outside shared and global memory. */
static const uint8_t *bytes_at(const Warp *w, Space space, uint64_t address, int bytes) {
    if (space == SPACE_SHARED) {
        uint64_t offset;
        const Block *b = shared_block(w, address >= SHARED_WINDOW ? address - SHARED_WINDOW : address, &offset);
        return b && offset + (uint64_t)bytes <= b->shared_bytes ? b->shared + offset : NULL;
    }
    const Allocation *a = space == SPACE_GLOBAL ? memory_find(w->block->launch->memory, address) : NULL;
    return a && a->bytes - (address - a->address) >= (uint64_t)bytes ? a->data + (address - a->address) : NULL;
}

/* The bytes of an asynchronous operation may move at any time: now, when they are to be looked at. */
static void land_now(Cluster *c, Stamp by) {
    for (AsyncOp *op = c->queue; op; op = op->next) {
        if (op->agent != stamp_agent(by) || op->time != stamp_time(by)) continue;
        async_land(op);
        return;
    }
}

static bool stores(const Warp *w, int lane, int bytes, const uint8_t *there) {
    const Inst *i = w->at;
    if (w->storing) return memcmp(there, w->storing + lane * bytes, (size_t)bytes) == 0;
    const int each = type_bytes((PtxType)i->type);
    for (int k = 0; k < i->count; k++)
        if (memcmp(there + k * each, (const uint8_t *)lane_in(w, &i->vec[k]) + lane * i->vec[k].bytes, (size_t)each) != 0)
            return false;
    return true;
}

/* A store of what is there already, by another's store of the same kind: whichever is last, memory is the same. */
static bool same_value(const Actor *a, Space space, int lane, uint64_t address, int bytes, const Conflict *f) {
    Warp *w = a->warp;
    const bool by_thread = stamp_agent(f->with) < (uint32_t)w->cluster->warps;
    const bool alike = a->value ? !by_thread : by_thread && w->at && (w->at->store || w->storing);
    if (!alike || a->atomic || !f->wrote || f->unfenced) return false;
    const uint8_t *there = bytes_at(w, space, address, bytes);
    if (!there) return false;
    if (a->value && f->cluster == a->cluster) land_now(w->cluster, f->with);
    return a->value ? memcmp(there, a->value, (size_t)bytes) == 0 : stores(w, lane, bytes, there);
}

/* Written by an asynchronous operation of the generic proxy (cp.async, st.async), in order, but not for the async proxy. */
static bool copy_unfenced(const Actor *a, const Conflict *f) {
    return f->unfenced && f->wrote && !a->write && f->cluster == a->cluster &&
           stamp_agent(f->with) >= (uint32_t)a->warp->cluster->warps;
}

/* A read and a write by two lanes of a warp that is converged now, or was when the first was done: hardware executes them in
 * the order of the code. */
static bool warp_synchronous(const Actor *a, const Conflict *f) {
    const Warp *w = a->warp;
    const bool same_warp = stamp_agent(a->stamp) == w->agent && stamp_agent(f->with) == w->agent && f->cluster == a->cluster;
    const bool in_order = w->path[w->paths - 1].mask == w->live || stamp_time(f->with) < w->parted_at;
    return same_warp && in_order && !a->atomic && !f->unfenced && a->write != f->wrote;
}

static const char *space_name(Space s) { return s == SPACE_SHARED ? "shared" : "global"; }

/* Of the own block, from a 32-bit or a generic address. */
static uint64_t shared_offset_of(uint64_t address) {
    return (address >= SHARED_WINDOW ? address - SHARED_WINDOW : address) & ((UINT64_C(1) << SHARED_RANK_SHIFT) - 1);
}

void race_report(const Actor *a, Space space, int lane, uint64_t address, int bytes, const Conflict *f) {
    char note[224], who[96];
    const char *did = a->atomic ? "atomic on" : a->write ? "write of" : "read of";
    if (f->unwritten) {
        snprintf(note, sizeof note, "%s %s memory never written", did, space_name(space));
        warp_report(a->warp, REPORT_UNINITIALISED, lane, address, bytes, note);
    }
    if (!f->with) return;
    if (f->with == mbarrier_stamp(a->warp->cluster) && f->cluster == a->cluster) {
        const bool reused = a->write && !a->atomic && mbarriers_reuse(a->warp, shared_offset_of(address), (uint64_t)bytes);
        warp_report(a->warp, reused ? REPORT_REUSE : REPORT_MBARRIER, lane, address, bytes,
                    reused ? "a write over an mbarrier object without mbarrier.inval"
                           : "an access to the bytes of an mbarrier object");
        return;
    }
    name_agent(a->warp->cluster, f->cluster - 1, f->with, who, sizeof who);
    const ReportKind kind = same_value(a, space, lane, address, bytes, f) ? REPORT_SAME_VALUE
                            : copy_unfenced(a, f)                         ? REPORT_COPY_FENCE
                            : warp_synchronous(a, f)                      ? REPORT_WARP_SYNC
                                                                          : REPORT_RACE;
    snprintf(note, sizeof note, "%s %s memory that %s %s, %s%s", did, space_name(space), who, f->wrote ? "wrote" : "read",
             f->unfenced                ? "without a fence between the generic and the async proxy"
             : kind == REPORT_WARP_SYNC ? "with nothing but the order of the code between the two"
                                        : "with nothing that orders the two",
             kind == REPORT_SAME_VALUE ? "; the values are the same" : "");
    warp_report(a->warp, kind, lane, address, bytes, note);
}

void race_report_at(Cluster *c, Stamp by, const Inst *at, uint64_t address, const char *note) {
    const uint32_t agent = stamp_agent(by) < (uint32_t)c->warps ? stamp_agent(by) : 0, lane = stamp_lane(by);
    Warp *w = &c->block[agent / (uint32_t)c->block[0].warps].warp[agent % (uint32_t)c->block[0].warps];
    const uint32_t first = lane < WARP ? lane
                           : lane >= LANE_PAIR && lane < LANE_QUAD ? 2 * (lane - LANE_PAIR)
                           : lane >= LANE_QUAD && lane < LANE_UNKNOWN ? 4 * (lane - LANE_QUAD) : 0;
    w->at = at;
    warp_report(w, REPORT_RACE, (int)first, address, 4, note);
}
