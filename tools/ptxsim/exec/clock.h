/* Who happened before whom: vector clocks over the agents of one cluster.
 *
 * An agent is a warp of the cluster (its linear number there) or one asynchronous operation in flight (numbers from
 * `warps` on, reused in turn).  A warp's time advances whenever it releases (barrier, mbarrier arrive, release or fence
 * before an atomic); an asynchronous operation has one time, its generation.  A stamp names one access: who, which
 * lane, when.  An access by warp w may touch what stamp s touched, without a race, when
 *     seen[s.agent] >= s.time, or own[s.agent] >= s.time and s.lane is the accessing lane.
 * `own` is what each lane alone has seen: its own accesses since the warp's last synchronisation, and the per-thread
 * copies (cp.async) it waited for.  bar.warp.sync and every barrier turn own into seen; a bar.warp.sync of some lanes is
 * kept apart (PartSync).
 * `fenced` is the part of the past that is also visible to the async proxy, in shared and in global memory: what lay before
 * a fence.proxy.async of that state space on the way here (PTX ISA, Memory Consistency Model, Proxy-preserved base causality order).
 * Sources: Lamport, CACM 21(7), 1978; Flanagan and Freund, "FastTrack", PLDI 2009. */
#pragma once
#include "tools/ptxsim/ptx/ptx.h"
#include <stdbool.h>
#include <stdint.h>

/* time << 16 | agent << 6 | lane.  0: never touched.  Time 0 precedes everything (written before the launch). */
typedef uint32_t Stamp;
typedef uint16_t Time;
enum { ASYNC_AGENTS = 128, MAX_AGENTS = 1024, LANE_SEVERAL = 32, LANE_ASYNC = 33, LAST_TIME = 0xfff0 };
#define STAMP_BEFORE ((Stamp)1) /* written before the launch */

static inline Stamp stamp_make(Time time, uint32_t agent, uint32_t lane) {
    return (Stamp)time << 16 | agent << 6 | lane;
}
static inline Time stamp_time(Stamp s) { return (Time)(s >> 16); }
static inline uint32_t stamp_agent(Stamp s) { return s >> 6 & 0x3ff; }
static inline uint32_t stamp_lane(Stamp s) { return s & 0x3f; }

struct Warp;
struct Cluster;

/* What is known of other clusters, which only synchronise through global memory: of each a vector of times, shared by
 * all that know the same.  Used where one host thread runs all clusters. */
typedef struct Past {
    uint32_t references;
    Time seen[];
} Past;
typedef struct Known {
    uint32_t count, room;
    struct { uint64_t cluster; Past *past; } item[]; /* by cluster */
} Known;

/* A part of a warp that synchronised: what its lanes did at `time` and before is in the past of all of them. */
typedef struct PartSync {
    Time time;
    uint32_t mask;
} PartSync;
enum { PART_SYNCS = 16 }; /* beyond, the oldest counts as one of all lanes: races are hidden, never invented */

/* A warp's knowledge.  Arrays of cluster->agents times; any index below MAX_AGENTS may be read. */
typedef struct Clock {
    Time *seen, *own, *fenced[PROXY_SPACES];
    Known *known; /* of other clusters; NULL: nothing */
} Clock;

/* What a synchronisation object passes on from those that release to those that acquire. */
typedef struct SyncClock {
    Time *seen, *fenced[PROXY_SPACES]; /* NULL: nothing released yet */
    Known *known;
    /* Of fences and relaxed accesses, for code that has a barrier between them (race_sync.h); NULL: nothing. */
    struct SyncClock *strong;  /* what fences of device scope have made visible */
    struct SyncClock *noticed; /* what relaxed reads have met, and no fence has taken yet */
} SyncClock;

bool clock_start(struct Warp *);
void clock_end(struct Warp *);
/* Joins the warp's past into `s` and advances its time.  False: the host has no memory. */
bool clock_release(struct Warp *, SyncClock *s);
/* The same, but for what the warp's fences and relaxed reads have left. */
bool clock_snapshot(struct Warp *, SyncClock *s);
/* Joins `s` into the warp's past. */
void clock_acquire(struct Warp *, const SyncClock *s);
/* bar.warp.sync: what each lane has seen, all have, ... */
void clock_warp_sync(struct Warp *);
/* ... or those in `mask`. */
void clock_part_sync(struct Warp *, uint32_t mask);
/* Is `lane` ordered after what lane `by` of the warp did, or waited for (LANE_SEVERAL: some lanes), by parts of the warp
 * that synchronised since? */
bool clock_met(const struct Warp *, Stamp s, uint32_t by, int lane);
/* fence.proxy.async: what the warp has seen (and done) in these spaces (1 << ProxySpace, ..) is visible to the async proxy
 * from here on. */
void clock_proxy_fence(struct Warp *, unsigned spaces);
/* One asynchronous operation, complete: into a synchronisation object (mbarrier), ... */
bool clock_note(struct Cluster *, SyncClock *, uint32_t agent, Time);
/* ... or into the past of the warp that waited for it: `lanes_own`, of each lane for its own part only. */
void clock_observe(struct Warp *, uint32_t agent, Time, bool lanes_own);
bool sync_clock_make(const struct Cluster *, SyncClock *); /* so that `seen` and `fenced` are there */
void sync_clock_join(const struct Cluster *, SyncClock *to, const SyncClock *from);
bool sync_clock_add(const struct Cluster *, struct SyncClock **to, const SyncClock *from); /* makes *to if need be */
void sync_clock_clear(SyncClock *); /* frees */
/* `to`, of a warp or object of cluster `self`, learns what `from` knows, and that cluster `other` got to `past`. */
void known_learn(const struct Cluster *self, Known **to, Time *self_seen, const Known *from);
void known_learn_past(const struct Cluster *self, Known **to, Time *self_seen, uint64_t other, Past *past);
void known_free(Known *);
Past *past_of(const struct Cluster *, const Time *seen); /* a copy with one reference; NULL without memory */
void past_drop(Past *);
/* Does the clock know of agent's time in another cluster? */
bool clock_knows(const Clock *, uint64_t cluster, uint32_t agent, Time);

/* May this access follow that one?  lane -1: any lane of the warp. */
static inline bool clock_ordered(const Clock *c, Stamp s, int lane) {
    const uint32_t a = stamp_agent(s);
    const Time t = stamp_time(s);
    return c->seen[a] >= t || (c->own[a] >= t && lane >= 0 && stamp_lane(s) == (uint32_t)lane);
}
static inline bool clock_fenced(const Clock *c, Stamp s, ProxySpace space) {
    return c->fenced[space][stamp_agent(s)] >= stamp_time(s);
}
