/* Execution: a warp is 32 lanes in step; its registers are arrays of 32 values; a stack of paths, each with an active
 * mask, runs divergent code and joins it again at immediate post-dominators. */
#pragma once
#include "tools/ptxsim/exec/clock.h"
#include "tools/ptxsim/ptx/counters.h"
#include "tools/ptxsim/exec/memory.h"
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/exec/report.h"
#include <string.h>

typedef struct Path {
    int32_t pc, join; /* runs from pc until it reaches `join` */
    uint32_t mask;
    bool waiting;     /* for lanes of its sibling paths: at an aligned barrier to come, at a *.sync to take part */
    bool ahead;       /* of lanes that it was to join, and that wait for it elsewhere (path.h) */
} Path;

typedef struct Frame {
    const Function *fn;
    uint8_t *registers;
    uint32_t local_base;
    int first_path;
    const CallSite *call; /* how this frame was entered; NULL for the kernel */
    uint32_t mask;        /* lanes that entered */
} Frame;

/* WARP_WAITING: suspended until `wake` says so, see suspend(). */
typedef enum WarpState { WARP_READY, WARP_AT_BARRIER, WARP_WAITING, WARP_DONE } WarpState;

struct Block;
struct AsyncOp;
typedef struct Cluster Cluster;
typedef struct Warp {
    uint8_t *base[BASE_COUNT];
    struct Block *block;
    Cluster *cluster;
    int index;               /* in its block */
    uint32_t agent;          /* in its cluster */
    Time time;               /* its own, clock.own[agent] */
    Time parted_at;          /* since when its lanes go apart, if they do */
    Clock clock;
    PartSync part[PART_SYNCS]; /* clock.h: since all lanes synchronised, oldest first */
    int parts;
    WarpState state;
    uint32_t live, carry; /* lanes not exited; condition-code bit of each lane */
    uint32_t passed;      /* lanes that exited ahead of others (Path.ahead) */
    uint32_t waited;      /* lanes behind griddepcontrol.wait */
    Path *path;
    int paths, path_capacity;
    Frame *frame;
    int frames, frame_capacity;
    uint32_t tid[3][WARP];
    uint8_t *local, *local_written; /* [lane][local_stride] */
    uint32_t local_stride;
    const Inst *at;                 /* being executed: reports name it */
    const uint8_t *storing;         /* what it writes, lane by lane, when that is not in Inst.vec; else NULL */
    uint64_t steps, clock_base;     /* instructions run; steps now are clock_base + at->before */
    int barrier;                    /* WARP_AT_BARRIER: which, and for bar.red what it brings and wants */
    uint32_t barrier_mask;
    const Inst *barrier_inst;
    struct WgmmaWarp *wgmma;        /* wgmma.h; NULL until used */
    bool (*wake)(struct Warp *);    /* WARP_WAITING: when what it waits for is there, delivers the results; else false */
    void (*explain)(const struct Warp *, char *note, size_t room); /* what it waits for */
    const Inst *wait_inst, *tried;  /* suspended at; the wait that last gave up */
    uint32_t wait_mask;
    bool yields;                    /* ends its slice */
    uint32_t rounds;                /* of loops, by a part of its lanes, since others had their turn */
    uint64_t rest_until, polled;    /* of cluster->turns: polls in vain, others first; its steps at the last poll */
    struct AsyncGroups *groups;     /* cp.async-groups, bulk async-groups; NULL until used */
    uint32_t cluster_arrived, cluster_phase; /* lanes between barrier.cluster.arrive and .wait; of which phase */
    uint32_t registers, register_changes; /* per thread (setmaxnreg); how often changed */
    const Inst *register_inst;      /* the last setmaxnreg */
    struct PageCache *pages;        /* page.h: of global memory, touched last */
    struct Fences *fences;          /* race_sync.c: what fences pass on; NULL until used */
    Counters count;
} Warp;

/* Of the system in a block's shared memory: cooperative groups keep barriers of tiles beyond a warp in its second half.
 * On hardware it lies before the kernel's own. */
enum { RESERVED_SHARED_BYTES = 1024, RESERVED_SHARED_ALIGN = 128 };
enum { BARRIERS = 16 };
typedef struct Barrier {
    uint32_t arrived, expected; /* threads; expected 0: every live thread */
    uint32_t popc, ones, zeros; /* bar.red over the arrivals */
    SyncClock clock;            /* what those that arrived pass on */
    const Inst *inst;
    uint32_t waiting;           /* warps held here */
} Barrier;

typedef struct Launch Launch;
typedef struct Block {
    Launch *launch;
    Cluster *cluster;
    uint32_t rank; /* in its cluster */
    uint32_t id[3];
    uint64_t linear;
    Warp *warp;
    int warps, done;
    uint8_t *shared;
    uint32_t *shadow;          /* of shared memory, shadow.h: last writes of all words, then readers */
    uint32_t shared_bytes;     /* all of it */
    uint32_t reserved;         /* where RESERVED_SHARED bytes begin, which a kernel can ask for; at the end */
    Barrier barrier[BARRIERS];
    struct WarpGroup *warpgroup; /* wgmma.h; NULL until used */
    struct Mbarrier *mbarriers; /* mbarrier.h */
    uint32_t register_pool;     /* released by setmaxnreg.dec */
    Counters count;
} Block;

/* The unit that is scheduled: blocks that run together and see each other's shared memory; one block without
 * .cluster dimensions.  One host thread runs it. */
struct Cluster {
    Launch *launch;
    uint64_t linear, position; /* in the grid; among the clusters that run */
    Block *block;
    int blocks;
    int warps, done; /* of all its blocks */
    int agents;      /* warps + ASYNC_AGENTS */
    uint64_t random;
    struct ShadowTable *table;         /* shadow.h: of this cluster, or of the launch */
    struct PageTable *page_table;      /* page.h: likewise */
    struct ClusterShadow *own_shadow;  /* NULL: it is the launch's */
    struct AsyncOp *queue; /* issued, not landed: oldest first */
    uint64_t issued;       /* asynchronous operations so far: the next one's agent and time */
    Barrier barrier;       /* barrier.cluster: those that arrived in the current phase */
    SyncClock barrier_done; /* what the last completed phase passes on */
    uint32_t barrier_phase;
    struct AsyncState *async; /* async.c; NULL until used */
    uint64_t turns, idle;  /* slices given; polls in vain since anything happened */
    bool stuck;            /* a finding after which it cannot go on, or no memory */
    struct Tally *tally;   /* profile.h; NULL without figures */
};

struct Launch {
    const Function *fn;
    uint32_t grid[3], block[3], dynamic_shared;
    uint32_t cluster[3]; /* blocks per cluster; the grid is a multiple of it */
    const uint8_t *params;
    DeviceMemory *memory;
    ReportSet *reports;
    uint64_t seed, max_steps;
    uint64_t crop; /* at most so many clusters run, crop.h; 0: all */
    const uint64_t *blocks; /* these `crop` clusters, by linear number; NULL: crop.h chooses */
    uint64_t workspace; /* of a cooperative launch: { uint32_t size, barrier; } in global memory; else 0 */
    uint32_t checks;
    bool stats;              /* there is a profile */
    struct Profile *profile; /* profile.h; NULL without figures */
    int workers;
    uint64_t sm_count;
    Counters count;
    struct LaunchShadow *shadow; /* page.h */
    const struct AccessKernels *access; /* access_level.h */
    bool out_of_memory;          /* of the host */
};

uint64_t random_next(Cluster *);

/* The host has no memory for what this cluster does: it cannot go on, and the launch fails. */
void cluster_no_memory(Cluster *c);

/* Runs the whole grid; findings are in launch->reports.  False when the host ran out of memory. */
bool launch_run(Launch *);

/* ---- shared memory of a cluster ------------------------------------------------------------------------- */
/* An address of shared memory, 32-bit or within the generic window: the rank of its block plus 1 from this bit on, 0
 * there for the own block, so that shared::cta addresses are shared::cluster addresses too (PTX ISA, "mapa"). */
enum { SHARED_RANK_SHIFT = 24 };
static inline bool block_exited(const Block *b) { return b->done == b->warps; }
/* The block that a shared::cluster address names, NULL for none and for one that has exited, whose shared memory is
 * gone; *offset: in its shared memory. */
static inline Block *shared_block(const Warp *w, uint64_t address, uint64_t *offset) {
    const uint64_t rank = address >> SHARED_RANK_SHIFT;
    *offset = address & ((UINT64_C(1) << SHARED_RANK_SHIFT) - 1);
    if (!rank) return w->block;
    Block *b = rank <= (uint64_t)w->cluster->blocks ? &w->cluster->block[rank - 1] : NULL;
    return b && (b == w->block || !block_exited(b)) ? b : NULL;
}

/* ---- lanes -------------------------------------------------------------------------------------------- */
static inline void *lane_out(const Warp *w, const Operand *o) { return w->base[o->base] + o->offset; }
static inline const void *lane_in(const Warp *w, const Operand *o) { return w->base[o->base] + o->offset; }

static inline uint32_t predicate_in(const Warp *w, const Operand *o) {
    uint32_t m;
    memcpy(&m, w->base[o->base] + o->offset, sizeof m);
    return o->negated ? ~m : m;
}

static inline void predicate_out(const Warp *w, const Operand *o, uint32_t value, uint32_t mask) {
    uint32_t old;
    uint8_t *at = w->base[o->base] + o->offset;
    memcpy(&old, at, sizeof old);
    old = (old & ~mask) | (value & mask);
    memcpy(at, &old, sizeof old);
}

/* Writes 32 computed lanes under a mask; `bytes` is a constant at every call. */
static inline void lanes_put(void *to, const void *from, size_t bytes, uint32_t mask) {
    if (mask == UINT32_MAX) {
        memcpy(to, from, bytes * WARP);
        return;
    }
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1) memcpy((char *)to + (size_t)l * bytes, (const char *)from + (size_t)l * bytes, bytes);
}

/* One lane as an integer, zero-extended from the operand's width. */
static inline uint64_t lane_bits(const Warp *w, const Operand *o, int lane) {
    uint64_t v = 0;
    const uint8_t *p = w->base[o->base] + o->offset;
    switch (o->bytes) {
    case 1: v = p[lane]; break;
    case 2: { uint16_t x; memcpy(&x, p + lane * 2, 2); v = x; break; }
    case 4: { uint32_t x; memcpy(&x, p + lane * 4, 4); v = x; break; }
    case 8: memcpy(&v, p + lane * 8, 8); break;
    default: { uint32_t m; memcpy(&m, p, 4); v = ((o->negated ? ~m : m) >> lane) & 1; break; }
    }
    return v;
}

/* [register + offset]: an address of 32 bits wraps as its register does. */
static inline uint64_t address_bits(const Warp *w, const Operand *o, int64_t offset, int lane) {
    const uint64_t at = lane_bits(w, o, lane) + (uint64_t)offset;
    return o->bytes == 4 ? (uint32_t)at : at;
}

static inline void lane_set(const Warp *w, const Operand *o, int lane, uint64_t v) {
    uint8_t *p = w->base[o->base] + o->offset;
    if (o->bytes) memcpy(p + lane * o->bytes, &v, o->bytes); /* little-endian hosts only, as the PTX memory model */
    else predicate_out(w, o, v & 1 ? UINT32_MAX : 0, UINT32_C(1) << lane);
}

/* ---- wgmma, when frames and clusters end ------------------------------------------------------------------ */
void wgmma_frame_left(Warp *, const uint8_t *registers); /* before a frame goes: reports what is in flight there */
void wgmma_end(Cluster *);                               /* before async_end: frees everything */

/* The membermask of a *.sync instruction. */
static inline uint32_t members_of(const Warp *w, const Operand *o, uint32_t mask) {
    const uint32_t *m = lane_in(w, o);
    return mask ? m[__builtin_ctz(mask)] : 0;
}
void special_fill(const Warp *, const Operand *to, Special, uint32_t mask);
/* Lanes that a *.sync instruction may count on: reports lanes that it names and that do not come. */
bool check_members(Warp *, uint32_t mask, uint32_t members);
/* Lanes may meet at a *.sync instruction with sets of their own, as tiles of cooperative groups do: true, and `again`
 * has run for each set; false: all lanes in `mask` name the same. */
bool members_apart(Warp *, const Inst *, const Operand *set, uint32_t mask, ExecFn again);
/* From a handler of FLOW_WAIT: the warp stands still at `i` until wake() returns true. */
static inline void suspend(Warp *w, const Inst *i, uint32_t mask, bool (*wake)(Warp *),
                           void (*explain)(const Warp *, char *, size_t)) {
    w->state = WARP_WAITING;
    w->wait_inst = i;
    w->wait_mask = mask;
    w->wake = wake;
    w->explain = explain;
}
/* A poll that found nothing: the slice ends, and others go first. */
static inline void poll_failed(Warp *w) {
    w->yields = true;
    w->rest_until = w->cluster->turns + (uint64_t)w->cluster->warps + 1;
    w->polled = w->steps;
    w->cluster->idle++;
}
void warp_report(Warp *, ReportKind, int lane, uint64_t address, int bytes, const char *note);
