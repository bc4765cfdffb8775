/* Words in one state, as nearly all are: checked and marked by the row, in loops that are vectors. */
#include "tools/ptxsim/exec/access_level.h"

/* All the same but for bits outside `care`. */
static bool uniform(const uint32_t *v, uint32_t n, uint32_t care) {
    uint32_t differ = 0;
    for (uint32_t k = 0; k < n; k++) differ |= v[k] ^ v[0];
    return (differ & care) == 0;
}

/* Every word is marked as this access would mark it. */
static bool as_marked(const uint32_t *v, uint32_t n, Stamp stamp, const uint8_t *code) {
    uint32_t differ = 0;
    for (uint32_t k = 0; k < n; k++) differ |= v[k] ^ (stamp | code[k]);
    return differ == 0;
}

static void mark(uint32_t *restrict v, uint32_t n, Stamp stamp, const uint8_t *restrict code) {
    for (uint32_t k = 0; k < n; k++) v[k] = stamp | code[k];
}

static void fill(uint32_t *v, uint32_t n, uint32_t value) {
    for (uint32_t k = 0; k < n; k++) v[k] = value;
}

enum { LANES = ~63 };

/* One state but for lanes; of words and sets, exactly one. */
static bool one_state(const uint32_t *v, const uint32_t *vc, uint32_t n) {
    if (!uniform(v, n, v[0] > STAMP_BEFORE && v[0] < SHADOW_INDEX ? (uint32_t)LANES : UINT32_MAX)) return false;
    return !vc || v[0] <= STAMP_BEFORE || v[0] >= SHADOW_INDEX || uniform(vc, n, UINT32_MAX);
}

/* Words of several writers, each of which the warp knows of; `least`: 1 when all must have been written. */
static bool all_known(const Time *seen, const uint32_t *w, uint32_t n, uint32_t least) {
    uint32_t unknown = 0;
    for (uint32_t k = 0; k < n; k++) unknown |= (seen[stamp_agent(w[k])] < w[k] >> 16) | (w[k] < least);
    return !unknown;
}

static bool all_of_cluster(const uint32_t *v, const uint32_t *vc, uint32_t n, uint32_t cluster) {
    uint32_t other = 0;
    for (uint32_t k = 0; vc && k < n; k++) other |= (v[k] > STAMP_BEFORE) & (vc[k] != cluster);
    return !other;
}

/* The row was written, by what this access may follow. */
static bool writes_allow(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, const uint8_t *code) {
    const uint32_t *w = s->w + k, *wc = s->wc ? s->wc + k : NULL, of = wc ? *wc : a->cluster;
    const Clock *c = &a->warp->clock;
    if (!one_state(w, wc, n))
        return all_known(c->seen, w, n, !a->write) && all_of_cluster(w, wc, n, a->cluster) &&
               (!a->async_proxy || all_known(c->fenced[a->proxy_space], w, n, 0));
    if (w[0] >= SHADOW_INDEX) return false;
    if (w[0] <= STAMP_BEFORE) return w[0] || a->write;
    if (!shadow_seen(a, of, w[0]) && (of != a->cluster || (w[0] ^ a->stamp) >> 6 || !as_marked(w, n, a->stamp, code)))
        return false;
    return !a->async_proxy || (of == a->cluster && clock_fenced(c, w[0], a->proxy_space));
}

/* Readers in several states, word by word: what each becomes is remembered from the last one that was the same. */
static void mark_mixed(const Actor *a, uint32_t *r, uint32_t *rc, uint32_t n, const uint8_t *code) {
    uint32_t last = 0, last_of = a->cluster, next = 0;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t of = rc && r[k] < SHADOW_INDEX ? rc[k] : a->cluster, mine = a->stamp | code[k];
        if (r[k] < SHADOW_INDEX && (r[k] ^ mine) >> 6 == 0 && of == a->cluster) {
            r[k] = a->stamp | shadow_merged_lane(stamp_lane(r[k]), code[k]);
            continue;
        }
        if (shadow_key(r[k]) != shadow_key(last) || of != last_of) {
            next = shadow_readers_with(a, r[k], of, LANE_UNKNOWN);
            last = r[k];
            last_of = of;
        }
        r[k] = next ? next : mine;
        if (rc) rc[k] = next ? 0 : a->cluster;
    }
}

bool shadow_row_read(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, const uint8_t *code) {
    uint32_t *r = s->r + k, *rc = s->rc ? s->rc + k : NULL;
    if (!writes_allow(a, s, k, n, code)) return false;
    if (!one_state(r, rc, n)) {
        mark_mixed(a, r, rc, n, code);
        return true;
    }
    if (r[0] < SHADOW_INDEX && (r[0] ^ a->stamp) >> 6 == 0 && (!rc || rc[0] == a->cluster)) {
        if (!as_marked(r, n, a->stamp, code)) mark_mixed(a, r, rc, n, code);
        return true;
    }
    const uint32_t next = shadow_readers_with(a, r[0], rc ? rc[0] : a->cluster, LANE_UNKNOWN);
    if (next == r[0] && next) return true;
    if (next) fill(r, n, next);
    else mark(r, n, a->stamp, code);
    if (rc) fill(rc, n, next ? 0 : a->cluster);
    return true;
}

/* All readers are known to the warp. */
static bool readers_known(const Actor *a, const uint32_t *r, const uint32_t *rc, uint32_t n) {
    uint32_t last = 0, last_of = a->cluster;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t of = rc && r[k] < SHADOW_INDEX ? rc[k] : a->cluster;
        if (shadow_key(r[k]) == shadow_key(last) && of == last_of) continue;
        if (r[k] && shadow_readers_with(a, r[k], of, LANE_UNKNOWN)) return false;
        last = r[k];
        last_of = of;
    }
    return true;
}

bool shadow_row_write(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, const uint8_t *code) {
    uint32_t *r = s->r + k, *rc = s->rc ? s->rc + k : NULL;
    if (!writes_allow(a, s, k, n, code)) return false;
    if (!one_state(r, NULL, n) || r[0]) {
        const bool own =
            (r[0] ^ a->stamp) >> 6 == 0 && as_marked(r, n, a->stamp, code) && all_of_cluster(r, rc, n, a->cluster);
        if (!own && !readers_known(a, r, rc, n)) return false;
        fill(r, n, 0);
    }
    mark(s->w + k, n, a->stamp, code);
    if (s->wc) fill(s->wc + k, n, a->cluster);
    return true;
}

/* ---- one lane's words ------------------------------------------------------------------------------------- */
/* The last write of the word may be followed; `memo` holds one that lies in the warp's past. */
static inline bool write_allows(const Actor *a, uint32_t w, uint32_t wc, int lane, ShadowMemo *memo) {
    if (w >> 6 == memo->w_key && wc == memo->w_cluster && w > STAMP_BEFORE) return true;
    if (w <= STAMP_BEFORE) return w || a->write;
    if (w >= SHADOW_INDEX) return false;
    if (!shadow_seen(a, wc, w)) return w == (a->stamp | (uint32_t)lane) && wc == a->cluster;
    memo->w_key = w >> 6;
    memo->w_cluster = wc;
    return true;
}

static void readers_miss(const Actor *a, uint32_t r, uint32_t rc, uint32_t code, ShadowMemo *memo) {
    memo->r_next = shadow_readers_with(a, r, rc, code);
    memo->r_key = shadow_key(r);
    memo->r_cluster = rc;
}

void shadow_lane_read(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, int lane, uint32_t code,
                      ShadowMemo *memo, Conflict *found) {
    const uint32_t mine = a->stamp | code;
    const bool half = code == LANE_LOW || code == LANE_HIGH;
    for (const uint32_t end = k + n; k < end; k++) {
        const uint32_t r = s->r[k], wc = s->wc ? s->wc[k] : a->cluster, rc = s->rc ? s->rc[k] : a->cluster;
        if (!write_allows(a, s->w[k], wc, lane, memo) || a->async_proxy) {
            shadow_touch(a, s, k, lane, half ? (uint32_t)lane : code, code == LANE_HIGH ? 2 : 0, half ? 2 : 4, found);
            continue;
        }
        if (r < SHADOW_INDEX && (r ^ mine) >> 6 == 0 && rc == a->cluster) {
            if (r != mine && stamp_lane(r) != LANE_SEVERAL)
                s->r[k] = a->stamp | shadow_merged_lane(stamp_lane(r), code);
            continue;
        }
        if (shadow_key(r) != memo->r_key || rc != memo->r_cluster) readers_miss(a, r, rc, code, memo);
        s->r[k] = memo->r_next ? memo->r_next : mine;
        if (s->rc) s->rc[k] = memo->r_next ? 0 : a->cluster;
    }
}

void shadow_lane_write(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, int lane, uint32_t code,
                       ShadowMemo *memo, Conflict *found) {
    const uint32_t mine = a->stamp | code;
    for (const uint32_t end = k + n; k < end; k++) {
        const uint32_t r = s->r[k], wc = s->wc ? s->wc[k] : a->cluster, rc = s->rc ? s->rc[k] : a->cluster;
        bool free = write_allows(a, s->w[k], wc, lane, memo) && !a->async_proxy;
        if (free && r && (r != mine || rc != a->cluster)) {
            if (shadow_key(r) != memo->r_key || rc != memo->r_cluster) readers_miss(a, r, rc, LANE_UNKNOWN, memo);
            free = memo->r_next == 0;
        }
        if (!free) {
            shadow_touch(a, s, k, lane, code, 0, 4, found);
            continue;
        }
        s->w[k] = mine;
        s->r[k] = 0;
        if (s->wc) s->wc[k] = a->cluster;
    }
}
