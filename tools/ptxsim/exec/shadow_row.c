/* Words in one state, as nearly all are: checked and marked by the row, in loops that are vectors. */
#include "tools/ptxsim/exec/shadow.h"

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
static uint32_t key_of(uint32_t v) { return v < SHADOW_INDEX ? v >> 6 : v; }

/* One state but for lanes; of words and sets, exactly one. */
static bool one_state(const uint32_t *v, const uint32_t *vc, uint32_t n) {
    if (!uniform(v, n, v[0] > STAMP_BEFORE && v[0] < SHADOW_INDEX ? (uint32_t)LANES : UINT32_MAX)) return false;
    return !vc || v[0] <= STAMP_BEFORE || v[0] >= SHADOW_INDEX || uniform(vc, n, UINT32_MAX);
}

/* The row was written, by what this access may follow. */
static bool writes_allow(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, const uint8_t *code) {
    const uint32_t *w = s->w + k, wc = s->wc ? s->wc[k] : a->cluster;
    if (w[0] >= SHADOW_INDEX || !one_state(w, s->wc ? s->wc + k : NULL, n)) return false;
    if (w[0] <= STAMP_BEFORE) return w[0] || a->write;
    if (!shadow_seen(a, wc, w[0]) && (wc != a->cluster || (w[0] ^ a->stamp) >> 6 || !as_marked(w, n, a->stamp, code)))
        return false;
    return !a->async_proxy || (wc == a->cluster && clock_fenced(&a->warp->clock, w[0]));
}

bool shadow_row_read(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, const uint8_t *code) {
    uint32_t *r = s->r + k, *rc = s->rc ? s->rc + k : NULL;
    if (!writes_allow(a, s, k, n, code) || !one_state(r, rc, n)) return false;
    if (r[0] < SHADOW_INDEX && (r[0] ^ a->stamp) >> 6 == 0 && (!rc || rc[0] == a->cluster)) {
        if (as_marked(r, n, a->stamp, code)) return true;
        for (uint32_t j = 0; j < n; j++) r[j] = a->stamp | shadow_merged_lane(stamp_lane(r[j]), code[j]);
        return true;
    }
    const uint32_t next = shadow_readers_with(a, r[0], rc ? rc[0] : a->cluster, LANE_UNKNOWN);
    if (next == r[0] && next) return true;
    if (next) fill(r, n, next);
    else mark(r, n, a->stamp, code);
    if (rc) fill(rc, n, next ? 0 : a->cluster);
    return true;
}

bool shadow_row_write(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, const uint8_t *code) {
    uint32_t *r = s->r + k, *rc = s->rc ? s->rc + k : NULL;
    if (!writes_allow(a, s, k, n, code) || !one_state(r, rc, n)) return false;
    if (r[0]) {
        const bool own = (r[0] ^ a->stamp) >> 6 == 0 && as_marked(r, n, a->stamp, code);
        const bool seen = r[0] < SHADOW_INDEX ? shadow_seen(a, rc ? rc[0] : a->cluster, r[0])
                                              : shadow_readers_with(a, r[0], a->cluster, LANE_UNKNOWN) == 0;
        if (!seen && !(own && (!rc || rc[0] == a->cluster))) return false;
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
    memo->r_key = key_of(r);
    memo->r_cluster = rc;
}

void shadow_lane_read(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, int lane, uint32_t code, ShadowMemo *memo, Conflict *found) {
    const uint32_t mine = a->stamp | code;
    const bool half = code == LANE_LOW || code == LANE_HIGH;
    for (const uint32_t end = k + n; k < end; k++) {
        const uint32_t r = s->r[k], wc = s->wc ? s->wc[k] : a->cluster, rc = s->rc ? s->rc[k] : a->cluster;
        if (!write_allows(a, s->w[k], wc, lane, memo) || a->async_proxy) {
            shadow_touch(a, s, k, lane, half ? (uint32_t)lane : code, code == LANE_HIGH ? 2 : 0, half ? 2 : 4, found);
            continue;
        }
        if (r < SHADOW_INDEX && (r ^ mine) >> 6 == 0 && rc == a->cluster) {
            if (r != mine && stamp_lane(r) != LANE_SEVERAL) s->r[k] = a->stamp | shadow_merged_lane(stamp_lane(r), code);
            continue;
        }
        if (key_of(r) != memo->r_key || rc != memo->r_cluster) readers_miss(a, r, rc, code, memo);
        s->r[k] = memo->r_next ? memo->r_next : mine;
        if (s->rc) s->rc[k] = memo->r_next ? 0 : a->cluster;
    }
}

void shadow_lane_write(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, int lane, uint32_t code, ShadowMemo *memo, Conflict *found) {
    const uint32_t mine = a->stamp | code;
    for (const uint32_t end = k + n; k < end; k++) {
        const uint32_t r = s->r[k], wc = s->wc ? s->wc[k] : a->cluster, rc = s->rc ? s->rc[k] : a->cluster;
        bool free = write_allows(a, s->w[k], wc, lane, memo) && !a->async_proxy;
        if (free && r && (r != mine || rc != a->cluster)) {
            if (key_of(r) != memo->r_key || rc != memo->r_cluster) readers_miss(a, r, rc, LANE_UNKNOWN, memo);
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
