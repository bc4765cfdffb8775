/* Shadow of memory: for every word of 4 bytes who wrote it last and who has read it since.
 *
 * A word has two numbers.  W: 0 never written; STAMP_BEFORE before the launch; the stamp of the last write; or the
 * index of a Detail, for a word whose bytes differ or that ordered accesses touched.  R: 0 nobody; one reader's stamp;
 * or a set of readers that are not ordered among each other, interned as a path in a tree: parent set and one more
 * reader. Indices are numbers from SHADOW_INDEX on, which no stamp reaches (clock.h, LAST_TIME).
 *
 * Where clusters share a shadow (kernels that synchronise through global memory) two more arrays say of which cluster
 * the stamps are.
 * Source: Flanagan and Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", PLDI 2009. */
#pragma once
#include "tools/ptxsim/exec/exec.h"

#define SHADOW_INDEX UINT32_C(0xfff10000)
enum { SHADOW_MOST = 900000 }; /* sets, and details: beyond, the oldest knowledge is forgotten */

/* Lane field of stamps beyond clock.h's: words that several lanes share byte by byte, and readers of which only the
 * warp is known. */
enum {
    LANE_PAIR = 34,    /* + p: low half by lane 2p, high half by lane 2p + 1 */
    LANE_QUAD = 50,    /* + q: bytes by lanes 4q .. 4q + 3 */
    LANE_UNKNOWN = 58, /* some lane or lanes; of its own warp taken as ordered */
    LANE_LOW = 59,     /* the same, read bytes 0 and 1 only */
    LANE_HIGH = 60     /* bytes 2 and 3 */
};

typedef struct Shadow {
    uint32_t *w, *r;   /* by word */
    uint32_t *wc, *rc; /* cluster + 1 of a stamp there; NULL: always the cluster that owns the shadow */
} Shadow;

/* Scopes of ordered accesses; 0: weak. */
enum { WEAK, SCOPED_CTA, SCOPED_CLUSTER, SCOPED_GPU, SCOPED_SYS };

struct Location; /* race_sync.c: what releases to a word pass on */
typedef struct Detail {
    uint32_t w[4];         /* last weak write of each byte: 0, STAMP_BEFORE or a set of one */
    uint32_t r[4];         /* weak readers since */
    uint32_t aw[4], ar[4]; /* ordered writers and readers since */
    struct Location *sync;
    uint32_t next;         /* in the list of free ones: index + 1 */
} Detail;

typedef struct ShadowNode {
    uint32_t parent, cluster;
    Stamp stamp;
    uint32_t depth;
    uint32_t scope;
    uint32_t next; /* in the same bucket: index + 1 */
} ShadowNode;

/* Sets and details of one cluster, or of a launch whose clusters share their shadow. */
typedef struct ShadowTable {
    ShadowNode *node;
    uint32_t nodes, node_room;
    uint32_t *bucket, buckets;
    Detail *detail;
    uint32_t details, detail_room, free_detail;
} ShadowTable;

static inline Shadow block_shadow(const Block *b) {
    return (Shadow){.w = b->shadow, .r = b->shadow + (b->shared_bytes + 3) / 4};
}

void shadow_table_free(ShadowTable *);

/* Who touches memory now. */
typedef struct Actor {
    Warp *warp;          /* whose clock counts */
    ShadowTable *table;
    uint32_t cluster;    /* + 1 */
    Stamp stamp;         /* lane field 0 */
    bool write, atomic;  /* atomic: write too */
    bool async_proxy;    /* generic writes must be fenced for it, ... */
    ProxySpace proxy_space; /* ... in the state space it accesses */
    uint8_t scope;       /* WEAK or SCOPED_*; an asynchronous operation is weak */
    const uint8_t *value; /* what an asynchronous operation stores; NULL: not known */
} Actor;

/* What a check found wrong; `with` is 0 when there is no race. */
typedef struct Conflict {
    Stamp with;
    uint32_t cluster;  /* + 1, of `with` */
    bool wrote;        /* the other access was a write */
    bool unfenced;     /* ordered, but not visible to the async proxy */
    bool unwritten;    /* bytes read were never written */
} Conflict;

/* One access of `lane` to bytes first .. first + bytes - 1 (0 .. 3) of word k, marked as `code`; adds to *found. */
void shadow_touch(const Actor *, const Shadow *, uint32_t k, int lane, uint32_t code, int first, int bytes,
                  Conflict *found);

/* The readers of a word in state r (of cluster rc) and one more: a set, or 0 when that one is all there is to keep. */
uint32_t shadow_readers_with(const Actor *, uint32_t r, uint32_t rc, uint32_t code);

/* Does the warp know of an access, whichever lane of it asks? */
static inline bool shadow_seen(const Actor *a, uint32_t cluster, Stamp s) {
    const Clock *c = &a->warp->clock;
    if (cluster != a->cluster) return clock_knows(c, cluster - 1, stamp_agent(s), stamp_time(s));
    return c->seen[stamp_agent(s)] >= stamp_time(s);
}

/* Equal for states that differ in lanes only. */
static inline uint32_t shadow_key(uint32_t v) { return v < SHADOW_INDEX ? v >> 6 : v; }

/* The lane field when two accesses of a warp at one time meet in a word. */
static inline uint32_t shadow_merged_lane(uint32_t a, uint32_t b) {
    if (a == b) return a;
    const bool whole = (a < WARP || a == LANE_SEVERAL) && (b < WARP || b == LANE_SEVERAL);
    return whole ? LANE_SEVERAL : LANE_UNKNOWN;
}

/* The location clock of word k, made when `make`; NULL without memory or when there is none. */
struct Location **shadow_location(ShadowTable *, const Shadow *, uint32_t k, uint32_t cluster, bool make);
void location_free(struct Location *);

/* For the record of a launch: which bytes of a detail's word, or of a word in state r, were written or read; a stamp of
 * one that did; an empty detail (its index + 1, 0: no room). */
void shadow_detail_bytes(const ShadowTable *, uint32_t w, uint8_t *wrote, uint8_t *read);
uint8_t shadow_reader_bytes(const ShadowTable *, uint32_t r);
Stamp shadow_someone(const ShadowTable *, const Shadow *, uint32_t k, bool wrote);
uint32_t shadow_detail_new(ShadowTable *);

/* Begins n words: written where all four bytes of `written` say so (bit 0), NULL: nowhere. */
void shadow_begin(ShadowTable *, const Shadow *, uint32_t n, const uint8_t *written);
/* Sets bit 1 of `written` for the bytes that the launch wrote. */
void shadow_publish(const ShadowTable *, const Shadow *, uint32_t n, uint8_t *written);

/* race_report.c: in words. */
void race_block_name(const Launch *, uint64_t cluster, char *text, size_t room);
void race_report(const Actor *, Space, int lane, uint64_t address, int bytes, const Conflict *);
/* By the thread that a stamp names. */
void race_report_at(Cluster *, Stamp by, const Inst *at, uint64_t address, const char *note);
