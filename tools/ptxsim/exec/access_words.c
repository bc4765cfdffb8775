/* A word, two or four of each lane: looked at and marked together while their states agree. */
#include "tools/ptxsim/exec/access_level.h"

/* Four words at once. */
typedef uint32_t Four __attribute__((vector_size(16), aligned(4), may_alias));

/* The states differ; `care`: bits that count. */
static inline bool words_differ(const Words *t, ptrdiff_t at, int n, uint32_t care) {
    const uint32_t state = t->w[t->first][at];
    uint32_t differ = 0;
    if (n == 4) {
        Four four = {0};
        for (int l = 0; l < WARP; l++) four |= *(const Four *)(t->w[l] + at) ^ state;
        differ = four[0] | four[1] | four[2] | four[3];
    } else {
        for (int l = 0; l < WARP; l++)
            for (int j = 0; j < n; j++) differ |= t->w[l][at + j] ^ state;
    }
    return (differ & care) != 0;
}

/* Every word is marked as this access marks it. */
static inline bool words_mine(const Words *t, ptrdiff_t at, int n, Stamp stamp) {
    uint32_t differ = 0;
    for (int l = 0; l < WARP; l++)
        for (int j = 0; j < n; j++) differ |= t->w[l][at + j] ^ (stamp | t->code[l]);
    return differ == 0;
}

enum { BUT_LANE = ~63 };
static uint32_t care_of(uint32_t state) {
    return state > STAMP_BEFORE && state < SHADOW_INDEX ? (uint32_t)BUT_LANE : UINT32_MAX;
}

/* Words of several writers, each of which the warp knows of. */
static inline bool words_known(const Actor *a, const Words *t, int n) {
    const Time *seen = a->warp->clock.seen;
    const uint32_t least = !a->write;
    uint32_t unknown = 0;
    for (int l = 0; l < WARP; l++)
        for (int j = 0; j < n; j++) {
            const uint32_t w = t->w[l][j];
            unknown |= (seen[stamp_agent(w)] < w >> 16) | (w < least);
            if (t->to_wc) unknown |= (w > STAMP_BEFORE) & (t->w[l][t->to_wc + j] != a->cluster);
        }
    return !unknown;
}

/* The last writes of the words may be followed. */
static inline bool words_allow(const Actor *a, const Words *t, int n) {
    const uint32_t w = t->w[t->first][0];
    if (words_differ(t, 0, n, care_of(w)) || (t->to_wc && w > STAMP_BEFORE && words_differ(t, t->to_wc, n, UINT32_MAX)))
        return words_known(a, t, n);
    if (w >= SHADOW_INDEX || (!w && !a->write)) return false;
    const uint32_t wc = t->to_wc && w > STAMP_BEFORE ? t->w[t->first][t->to_wc] : a->cluster;
    return w <= STAMP_BEFORE || shadow_seen(a, wc, w) ||
           (wc == a->cluster && (w ^ a->stamp) >> 6 == 0 && words_mine(t, 0, n, a->stamp));
}

/* What readers become; asked once for states that follow each other and are the same. */
typedef struct Readers {
    uint32_t key, of, set;
} Readers;

static inline uint32_t readers_after(const Actor *a, uint32_t r, uint32_t of, Readers *last) {
    if (r >= SHADOW_INDEX) of = a->cluster;
    if (shadow_key(r) != last->key || of != last->of) {
        last->set = r ? shadow_readers_with(a, r, of, LANE_UNKNOWN) : 0;
        last->key = shadow_key(r);
        last->of = of;
    }
    return last->set;
}

/* Readers in several states: word by word. */
static void mark_mixed(const Actor *a, const Words *t, int n) {
    Readers last = {0, a->cluster, 0};
    for (int l = 0; l < WARP; l++) {
        const uint32_t mine = a->stamp | t->code[l];
        uint32_t *at = t->w[l] + t->to_r;
        for (int j = 0; j < n; j++) {
            const uint32_t old = at[j], of = t->to_wc ? at[t->to_wc + j] : a->cluster;
            if (old == mine && of == a->cluster) continue;
            if ((old ^ mine) >> 6 == 0 && of == a->cluster) { /* another lane, now or before */
                at[j] = a->stamp | shadow_merged_lane(stamp_lane(old), t->code[l]);
                continue;
            }
            const uint32_t set = readers_after(a, old, of, &last);
            at[j] = set ? set : mine;
            if (t->to_wc) at[t->to_wc + j] = set ? 0 : a->cluster;
        }
    }
}

/* A word of this warp and time becomes several lanes' when another lane meets it; every other one `otherwise`. */
static inline uint32_t met_or(uint32_t old, uint32_t mine, uint32_t otherwise) {
    const uint32_t met = (mine & (uint32_t)BUT_LANE) | (stamp_lane(old) <= LANE_SEVERAL ? LANE_SEVERAL : LANE_UNKNOWN);
    return (old ^ mine) >> 6 == 0 && old != mine ? met : otherwise;
}

static inline Four four_met_or(Four old, uint32_t mine, uint32_t otherwise) {
    const Four same = (Four)(((old ^ mine) >> 6) == 0), other = (Four)(old != mine),
               few = (Four)((old & 63) <= LANE_SEVERAL);
    const Four met = (mine & (uint32_t)BUT_LANE) | (few & LANE_SEVERAL) | (~few & LANE_UNKNOWN);
    return (same & other & met) | (~(same & other) & otherwise);
}

static inline void mark_readers(const Words *t, int n, Stamp stamp, uint32_t set) {
    for (int l = 0; l < WARP; l++) {
        const uint32_t mine = stamp | t->code[l];
        uint32_t *at = t->w[l] + t->to_r;
        if (n == 4) *(Four *)at = four_met_or(*(Four *)at, mine, set ? set : mine);
        else
            for (int j = 0; j < n; j++) at[j] = met_or(at[j], mine, set ? set : mine);
    }
}

static inline bool words_read(const Actor *a, const Words *t, int n) {
    if (!words_allow(a, t, n)) return false;
    const uint32_t r = t->w[t->first][t->to_r];
    if (t->to_wc || words_differ(t, t->to_r, n, care_of(r))) {
        mark_mixed(a, t, n);
        return true;
    }
    const bool again = r < SHADOW_INDEX && (r ^ a->stamp) >> 6 == 0;
    const uint32_t set = again ? 0 : shadow_readers_with(a, r, a->cluster, LANE_UNKNOWN);
    if (!set || set != r) mark_readers(t, n, a->stamp, set);
    return true;
}

static bool unread_mixed(const Actor *a, const Words *t, int n) {
    Readers last = {0, a->cluster, 0};
    for (int l = 0; l < WARP; l++) {
        const uint32_t mine = a->stamp | t->code[l], *at = t->w[l] + t->to_r;
        for (int j = 0; j < n; j++) {
            const uint32_t of = t->to_wc ? at[t->to_wc + j] : a->cluster;
            if (at[j] && !(at[j] == mine && of == a->cluster) && readers_after(a, at[j], of, &last)) return false;
        }
    }
    return true;
}

/* Whether a word was written by two lanes. */
static inline bool mark_writer(const Words *t, int n, Stamp stamp) {
    uint32_t met = 0;
    for (int l = 0; l < WARP; l++) {
        const uint32_t mine = stamp | t->code[l];
        uint32_t *at = t->w[l];
        for (int j = 0; j < n; j++) {
            const uint32_t now = met_or(at[j], mine, mine);
            met |= now ^ mine;
            at[j] = now;
            at[t->to_r + j] = 0;
        }
    }
    return met != 0;
}

/* `overlap`: a word was written by two lanes. */
static inline bool words_write(const Actor *a, const Words *t, int n, bool *overlap) {
    if (!words_allow(a, t, n)) return false;
    if ((t->w[t->first][t->to_r] || words_differ(t, t->to_r, n, UINT32_MAX)) && !unread_mixed(a, t, n)) return false;
    if (t->to_wc) { /* a stamp of another cluster is none of this warp's */
        for (int l = 0; l < WARP; l++)
            for (int j = 0; j < n; j++)
                if (t->w[l][t->to_wc + j] != a->cluster) t->w[l][j] = STAMP_BEFORE, t->w[l][t->to_wc + j] = a->cluster;
    }
    *overlap |= mark_writer(t, n, a->stamp);
    return true;
}

bool words_check(const Access *x, const Words *t) {
    const Actor *a = &x->actor;
    if (!a->write)
        return x->bytes == 4 ? words_read(a, t, 1) : x->bytes == 8 ? words_read(a, t, 2) : words_read(a, t, 4);
    bool *overlap = &x->out->overlap;
    return x->bytes == 4   ? words_write(a, t, 1, overlap)
           : x->bytes == 8 ? words_write(a, t, 2, overlap)
                           : words_write(a, t, 4, overlap);
}
