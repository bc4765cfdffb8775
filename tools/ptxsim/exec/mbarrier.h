/* Mbarrier objects.  The 8 bytes in shared memory stay opaque: the state is in a list per block.
 * Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier" and its sections on contents,
 * phases, tracking of asynchronous operations, and each instruction. */
#pragma once
#include "tools/ptxsim/exec/async.h"

enum { MBARRIER_BYTES = 8, MBARRIER_MAX_COUNT = (1 << 20) - 1 };

typedef struct Mbarrier Mbarrier;
struct Mbarrier {
    Block *block;
    uint32_t offset;            /* in the block's shared memory */
    uint32_t phase;             /* phases completed; the current one's number */
    uint32_t expected, pending; /* arrivals */
    int64_t tx;                 /* bytes of asynchronous operations still expected; below 0 when they came first */
    SyncClock arriving;         /* what the arrivals of the current phase bring */
    SyncClock completed;        /* what all completed phases brought */
    Stamp init;                 /* who initialised it */
    bool init_fenced;           /* by a fence.mbarrier_init or fence.proxy.async after it */
    uint32_t init_phase;        /* of barrier.cluster: complete, all blocks know of it (after fence.mbarrier_init) */
    bool waited;                /* a wait has seen the last completed phase */
    const Inst *tracked;        /* an asynchronous operation since the last successful wait: one that nobody may miss */
    Warp *tracked_warp;
    int tracked_lane;
    Mbarrier *next;
};

/* The object at an address, for `lane`; NULL with a finding when there is none, or the instruction may not reach it. */
Mbarrier *mbarrier_at(Warp *, int lane, Space, uint64_t address, bool remote);
/* The object at this place, NULL if there is none (any more): for operations that land. */
Mbarrier *mbarrier_find(const Block *, uint32_t offset);
/* Who last wrote the bytes of a living object, as the shadow sees it: nobody whom any access could follow, so that
 * every access that is no mbarrier operation is found. */
static inline Stamp mbarrier_stamp(const Cluster *c) {
    return stamp_make(LAST_TIME, (uint32_t)c->warps + ASYNC_AGENTS - 1, LANE_ASYNC);
}
/* Checks of an object that an asynchronous operation of this warp will signal: initialised, ordered, fenced. */
void mbarrier_check_use(Warp *, int lane, const Mbarrier *, bool async_proxy);

/* An asynchronous operation has moved `bytes`: complete-tx on the object, whose phase passes the operation on. */
void mbarrier_complete_tx(AsyncOp *, Mbarrier *, uint64_t bytes);
/* cp.async.mbarrier.arrive: `count` arrivals of the system; `add` first raises the pending count. */
void mbarrier_raise(Warp *, int lane, Mbarrier *, uint32_t count);
void mbarrier_system_arrive(AsyncOp *, Mbarrier *, uint32_t count);
/* fence.mbarrier_init, fence.proxy.async: what this warp initialised is fit for use by others and by copies. */
/* Takes away the objects in these bytes of the warp's own block, all at rest; false, and nothing done, when one is in use. */
bool mbarriers_reuse(Warp *, uint64_t offset, uint64_t bytes);
void mbarriers_fence(Warp *);
/* The block ends: copies that signalled an object on which nobody waited afterwards are reported; frees the list. */
void mbarriers_end(Block *);
