/* One word at a time, byte by byte where it must be: who touched it, and may this access follow. */
#include "tools/ptxsim/exec/shadow.h"
#include <stdlib.h>

/* ---- sets of accesses: paths in a tree of nodes --------------------------------------------------------- */
static uint32_t hash_node(uint32_t parent, uint32_t cluster, Stamp stamp) {
    const uint64_t h =
        ((uint64_t)parent << 32 | stamp) * UINT64_C(0x9e3779b97f4a7c15) + cluster * UINT64_C(0xc2b2ae3d27d4eb4f);
    return (uint32_t)(h >> 32);
}

static bool grow_nodes(ShadowTable *t) {
    const uint32_t room = t->node_room ? 2 * t->node_room : 256;
    ShadowNode *node = realloc(t->node, room * sizeof *node);
    if (!node) return false;
    t->node = node;
    uint32_t *bucket = realloc(t->bucket, room * sizeof *bucket);
    if (!bucket) return false;
    t->bucket = bucket;
    t->node_room = t->buckets = room;
    memset(bucket, 0, room * sizeof *bucket);
    for (uint32_t k = 0; k < t->nodes; k++) {
        uint32_t *b = &bucket[hash_node(node[k].parent, node[k].cluster, node[k].stamp) & (room - 1)];
        node[k].next = *b;
        *b = k + 1;
    }
    return true;
}

static const ShadowNode *node_of(const ShadowTable *t, uint32_t set) { return &t->node[set - SHADOW_INDEX]; }

/* `parent` and one more; `parent` itself when the table is full: a reader forgotten hides a race, it invents none. */
static uint32_t set_with(ShadowTable *t, uint32_t parent, uint32_t cluster, Stamp stamp, uint32_t scope) {
    if (t->nodes == SHADOW_MOST || (t->nodes == t->node_room && !grow_nodes(t))) return parent;
    uint32_t *b = &t->bucket[hash_node(parent, cluster, stamp) & (t->buckets - 1)];
    for (uint32_t k = *b; k; k = t->node[k - 1].next) {
        const ShadowNode *n = &t->node[k - 1];
        if (n->parent == parent && n->stamp == stamp && n->cluster == cluster && n->scope == scope)
            return SHADOW_INDEX + k - 1;
    }
    t->node[t->nodes] = (ShadowNode){.parent = parent, .cluster = cluster, .stamp = stamp, .scope = scope, .next = *b,
                                     .depth = parent ? node_of(t, parent)->depth + 1 : 1};
    *b = ++t->nodes;
    return SHADOW_INDEX + t->nodes - 1;
}

void shadow_table_free(ShadowTable *t) {
    for (uint32_t k = 0; k < t->details; k++) location_free(t->detail[k].sync);
    free(t->node);
    free(t->bucket);
    free(t->detail);
    *t = (ShadowTable){0};
}

/* ---- order ------------------------------------------------------------------------------------------------ */
static uint32_t lane_of_byte(Stamp s, int byte) {
    const uint32_t lane = stamp_lane(s);
    if (lane >= LANE_QUAD && lane < LANE_QUAD + 8) return 4 * (lane - LANE_QUAD) + (uint32_t)byte;
    if (lane >= LANE_PAIR && lane < LANE_PAIR + 16) return 2 * (lane - LANE_PAIR) + (byte >= 2);
    return lane;
}

static bool in_past(const Actor *a, uint32_t cluster, Stamp s, int lane, int byte) {
    const Clock *c = &a->warp->clock;
    if (shadow_seen(a, cluster, s)) return true;
    if (cluster != a->cluster || c->own[stamp_agent(s)] < stamp_time(s)) return false;
    const uint32_t by = lane_of_byte(s, byte);
    if (by == LANE_UNKNOWN || by == LANE_LOW || by == LANE_HIGH || (lane >= 0 && by == (uint32_t)lane)) return true;
    return a->warp->parts && clock_met(a->warp, s, by, lane);
}

/* A generic write that the async proxy does not see yet (PTX ISA, "Async proxy"). */
static bool unfenced(const Actor *a, uint32_t cluster, Stamp s) {
    return a->async_proxy && cluster == a->cluster && stamp_lane(s) != LANE_ASYNC && !clock_fenced(&a->warp->clock, s, a->proxy_space);
}

static bool covers(const ShadowNode *n, int byte) {
    const uint32_t lane = stamp_lane(n->stamp);
    return !(lane == LANE_LOW && byte >= 2) && !(lane == LANE_HIGH && byte < 2);
}

/* Both ordered, each in the other's scope: "morally strong" (PTX ISA, Memory Consistency Model). */
static bool strong_together(const Actor *a, const ShadowNode *n) {
    if (!a->scope || !n->scope) return false;
    const uint32_t scope = a->scope < n->scope ? a->scope : n->scope;
    if (n->cluster != a->cluster) return scope >= SCOPED_GPU;
    const uint32_t each = (uint32_t)a->warp->block->warps, mine = a->warp->block->rank;
    return scope >= SCOPED_CLUSTER || stamp_agent(n->stamp) / each == mine;
}

/* The first of a set that this access must not follow; NULL: all may be followed. */
static const ShadowNode *first_unordered(const Actor *a, uint32_t set, int lane, int byte) {
    while (set >= SHADOW_INDEX) {
        const ShadowNode *n = node_of(a->table, set);
        if (covers(n, byte) && !strong_together(a, n) && !in_past(a, n->cluster, n->stamp, lane, byte)) return n;
        set = n->parent;
    }
    return NULL;
}

static void note(Conflict *c, Stamp with, uint32_t cluster, bool wrote, bool only_unfenced) {
    if (c->with && (!c->unfenced || only_unfenced)) return; /* no order at all is worse than no fence */
    c->with = with;
    c->cluster = cluster;
    c->wrote = wrote;
    c->unfenced = only_unfenced;
}

static void check_set(const Actor *a, uint32_t set, int lane, int byte, bool wrote, Conflict *found) {
    if (set < SHADOW_INDEX) return;
    const ShadowNode *n = first_unordered(a, set, lane, byte);
    if (n) note(found, n->stamp, n->cluster, wrote, false);
    else if (wrote && unfenced(a, node_of(a->table, set)->cluster, node_of(a->table, set)->stamp))
        note(found, node_of(a->table, set)->stamp, node_of(a->table, set)->cluster, true, true);
}

/* ---- readers ---------------------------------------------------------------------------------------------- */
/* In sets, lanes of warps do not count: fewer sets, and a race within a warp is found while it reads alone. */
static Stamp in_set(const Actor *a, Stamp s) {
    const uint32_t lane = stamp_lane(s);
    if (lane == LANE_LOW || lane == LANE_HIGH || lane == LANE_ASYNC) return s;
    return stamp_agent(s) < (uint32_t)a->warp->cluster->warps ? (s & ~UINT32_C(63)) | LANE_UNKNOWN : s;
}

static bool all_in_past(const Actor *a, uint32_t set) {
    for (; set >= SHADOW_INDEX; set = node_of(a->table, set)->parent)
        if (!in_past(a, node_of(a->table, set)->cluster, node_of(a->table, set)->stamp, -1, 0)) return false;
    return true;
}

/* Adds to a set, dropping it when all of it lies in the past of what is added; long ones are looked through only now
 * and then. */
static uint32_t add_to_set(const Actor *a, uint32_t set, Stamp mine) {
    const uint32_t depth = set ? node_of(a->table, set)->depth : 0;
    uint32_t at = set;
    for (int k = 0; k < 4 && at; k++, at = node_of(a->table, at)->parent)
        if (node_of(a->table, at)->stamp == mine && node_of(a->table, at)->cluster == a->cluster &&
            node_of(a->table, at)->scope == a->scope)
            return set;
    const bool look = depth < 16 || (depth & (depth - 1)) == 0;
    return set_with(a->table, look && all_in_past(a, set) ? 0 : set, a->cluster, mine, a->scope);
}

uint32_t shadow_readers_with(const Actor *a, uint32_t r, uint32_t rc, uint32_t code) {
    const Stamp mine = a->stamp | code;
    if (r >= SHADOW_INDEX) return all_in_past(a, r) ? 0 : add_to_set(a, r, in_set(a, mine));
    if (!r || in_past(a, rc, r, -1, 0)) return 0;
    return set_with(a->table, set_with(a->table, 0, rc, in_set(a, r), WEAK), a->cluster, in_set(a, mine), WEAK);
}

/* The state of readers after one more. */
static void next_readers(const Actor *a, const Shadow *s, uint32_t k, uint32_t code) {
    const uint32_t r = s->r[k], rc = s->rc ? s->rc[k] : a->cluster, mine = a->stamp | code;
    uint32_t next;
    if (r < SHADOW_INDEX && rc == a->cluster && (r ^ mine) >> 6 == 0)
        next = a->stamp | shadow_merged_lane(stamp_lane(r), code);
    else next = shadow_readers_with(a, r, rc, code);
    s->r[k] = next ? next : mine;
    if (s->rc) s->rc[k] = s->r[k] >= SHADOW_INDEX ? 0 : a->cluster;
}

/* ---- words whose bytes differ ----------------------------------------------------------------------------- */
static Detail *detail_of(const ShadowTable *t, uint32_t w) { return &t->detail[w - SHADOW_INDEX]; }

uint32_t shadow_detail_new(ShadowTable *t) {
    if (t->free_detail) {
        const uint32_t k = t->free_detail - 1;
        t->free_detail = t->detail[k].next;
        return k + 1;
    }
    if (t->details == SHADOW_MOST) return 0;
    if (t->details == t->detail_room) {
        const uint32_t room = t->detail_room ? 2 * t->detail_room : 64;
        Detail *grown = realloc(t->detail, room * sizeof *grown);
        if (!grown) return 0;
        t->detail = grown;
        t->detail_room = room;
    }
    return ++t->details;
}

static void detail_drop(ShadowTable *t, uint32_t w) {
    Detail *d = detail_of(t, w);
    location_free(d->sync);
    *d = (Detail){.next = t->free_detail};
    t->free_detail = w - SHADOW_INDEX + 1;
}

/* Gives word k a detail; NULL when there is no room: then its bytes are not told apart. */
static Detail *detail_make(ShadowTable *t, const Shadow *s, uint32_t k, uint32_t cluster) {
    const uint32_t w = s->w[k], r = s->r[k];
    if (w >= SHADOW_INDEX) return detail_of(t, w);
    const uint32_t made = shadow_detail_new(t);
    if (!made) return NULL;
    Detail *d = &t->detail[made - 1];
    *d = (Detail){0};
    const uint32_t wc = s->wc ? s->wc[k] : cluster, rc = s->rc ? s->rc[k] : cluster;
    const uint32_t readers = r && r < SHADOW_INDEX ? set_with(t, 0, rc, r, WEAK) : r;
    for (int b = 0; b < 4; b++) {
        const Stamp one = (w & ~UINT32_C(63)) | lane_of_byte(w, b);
        d->w[b] = w <= STAMP_BEFORE ? w : set_with(t, 0, wc, one, WEAK);
        if (!d->w[b]) d->w[b] = STAMP_BEFORE;
        if (!w) d->w[b] = 0;
        d->r[b] = readers;
    }
    s->w[k] = SHADOW_INDEX + made - 1;
    s->r[k] = 0;
    if (s->wc) s->wc[k] = s->rc[k] = 0;
    return d;
}

/* Back to two numbers, when the four bytes have one history.  Bytes by several lanes of a warp at one time: by some
 * lane. */
static void detail_settle(ShadowTable *t, const Shadow *s, uint32_t k) {
    const Detail *d = detail_of(t, s->w[k]);
    if (d->sync) return;
    uint32_t w = d->w[0], lane = 0;
    const ShadowNode *first = w >= SHADOW_INDEX ? node_of(t, w) : NULL;
    if (first) lane = stamp_lane(first->stamp);
    for (int b = 0; b < 4; b++) {
        if (d->aw[b] || d->ar[b] || d->r[b] != d->r[0]) return;
        if (d->w[b] == w) continue;
        if (!first || d->w[b] < SHADOW_INDEX) return;
        const ShadowNode *n = node_of(t, d->w[b]);
        if (n->cluster != first->cluster || (n->stamp ^ first->stamp) >> 6) return;
        lane = LANE_UNKNOWN;
    }
    const uint32_t readers = d->r[0];
    const ShadowNode one = first ? *first : (ShadowNode){0};
    detail_drop(t, s->w[k]);
    s->w[k] = first ? (one.stamp & ~UINT32_C(63)) | lane : w;
    s->r[k] = readers;
    if (s->wc) s->wc[k] = one.cluster;
}

static void touch_byte(const Actor *a, Detail *d, int b, int lane, uint32_t code, Conflict *found) {
    const Stamp mine = a->stamp | code;
    if (!d->w[b] && (!a->write || a->atomic)) found->unwritten = true;
    check_set(a, d->w[b], lane, b, true, found);
    check_set(a, d->aw[b], lane, b, true, found);
    if (!a->write) {
        uint32_t *readers = a->scope ? &d->ar[b] : &d->r[b];
        *readers = add_to_set(a, *readers, in_set(a, mine));
        return;
    }
    check_set(a, d->r[b], lane, b, false, found);
    check_set(a, d->ar[b], lane, b, false, found);
    if (a->scope) {
        if (!d->w[b]) d->w[b] = STAMP_BEFORE;
        d->aw[b] = add_to_set(a, d->aw[b], in_set(a, mine));
        return;
    }
    const uint32_t set = set_with(a->table, 0, a->cluster, mine, WEAK);
    d->w[b] = set ? set : STAMP_BEFORE;
    d->r[b] = d->aw[b] = d->ar[b] = 0;
}

/* ---- the interface ---------------------------------------------------------------------------------------- */
static void touch_detail(const Actor *a, const Shadow *s, uint32_t k, int lane, uint32_t code, int first, int bytes,
                         Conflict *found) {
    Detail *d = detail_make(a->table, s, k, a->cluster);
    if (!d) return;
    if (a->write && !a->scope && d->sync) { /* a plain write passes nothing on */
        location_free(d->sync);
        d->sync = NULL;
    }
    for (int b = first; b < first + bytes; b++) touch_byte(a, d, b, lane, code, found);
    detail_settle(a->table, s, k);
}

static void check_word(const Actor *a, const Shadow *s, uint32_t k, int lane, int first, int bytes, Conflict *found) {
    const uint32_t w = s->w[k], wc = s->wc ? s->wc[k] : a->cluster;
    if (!w && !a->write) found->unwritten = true;
    if (w <= STAMP_BEFORE) return;
    for (int b = first; b < first + bytes; b++)
        if (!in_past(a, wc, w, lane, b)) note(found, w, wc, true, false);
    if (unfenced(a, wc, w)) note(found, w, wc, true, true);
}

static void check_readers(const Actor *a, const Shadow *s, uint32_t k, int lane, Conflict *found) {
    const uint32_t r = s->r[k], rc = s->rc ? s->rc[k] : a->cluster;
    for (int b = 0; b < 4; b++) {
        if (r >= SHADOW_INDEX) check_set(a, r, lane, b, false, found);
        else if (r && covers(&(ShadowNode){.stamp = r}, b) && !in_past(a, rc, r, lane, b))
            note(found, r, rc, false, false);
    }
}

static uint32_t half_code(uint32_t code, int first, int bytes) {
    return bytes == 4 ? code : first ? LANE_HIGH : LANE_LOW;
}

void shadow_touch(const Actor *a, const Shadow *s, uint32_t k, int lane, uint32_t code, int first, int bytes,
                  Conflict *found) {
    const bool halves = bytes == 4 || (bytes == 2 && !a->write);
    const bool warp = stamp_agent(a->stamp) < (uint32_t)a->warp->cluster->warps;
    if (s->w[k] >= SHADOW_INDEX || a->scope || !halves || (bytes == 2 && !warp)) {
        touch_detail(a, s, k, lane, code, first, bytes, found);
        if (!a->write || a->scope || bytes < 4 || s->w[k] < SHADOW_INDEX) return;
        detail_drop(a->table, s->w[k]); /* a whole word, written plainly: one history again */
        s->w[k] = s->r[k] = 0;
    } else {
        check_word(a, s, k, lane, first, bytes, found);
        if (!a->write) {
            next_readers(a, s, k, half_code(code, first, bytes));
            return;
        }
        check_readers(a, s, k, lane, found);
    }
    s->w[k] = a->stamp | code;
    s->r[k] = 0;
    if (s->wc) s->wc[k] = a->cluster;
}

struct Location **shadow_location(ShadowTable *t, const Shadow *s, uint32_t k, uint32_t cluster, bool make) {
    if (s->w[k] < SHADOW_INDEX && !make) return NULL;
    Detail *d = detail_make(t, s, k, cluster);
    return d ? &d->sync : NULL;
}

void shadow_begin(ShadowTable *t, const Shadow *s, uint32_t n, const uint8_t *written) {
    memset(s->r, 0, n * sizeof *s->r);
    if (s->wc) memset(s->wc, 0, n * sizeof *s->wc), memset(s->rc, 0, n * sizeof *s->rc);
    if (!written) {
        memset(s->w, 0, n * sizeof *s->w);
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t bytes;
        memcpy(&bytes, written + 4 * k, sizeof bytes);
        bytes &= UINT32_C(0x01010101);
        s->w[k] = bytes == UINT32_C(0x01010101) ? STAMP_BEFORE : 0;
        if (!bytes || s->w[k]) continue;
        Detail *d = detail_make(t, s, k, 0);
        for (int b = 0; d && b < 4; b++) d->w[b] = bytes >> (8 * b) & 1 ? STAMP_BEFORE : 0;
    }
}

void shadow_publish(const ShadowTable *t, const Shadow *s, uint32_t n, uint8_t *written) {
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t w = s->w[k];
        if (w <= STAMP_BEFORE) continue;
        const Detail *d = w >= SHADOW_INDEX ? detail_of(t, w) : NULL;
        for (int b = 0; b < 4; b++)
            if (!d || d->w[b]) written[4 * k + (uint32_t)b] |= 2;
    }
}

/* ---- what the record of a launch needs -------------------------------------------------------------------- */
uint8_t shadow_reader_bytes(const ShadowTable *t, uint32_t r) {
    uint8_t bytes = 0;
    if (r < SHADOW_INDEX) return stamp_lane(r) == LANE_LOW ? 3 : stamp_lane(r) == LANE_HIGH ? 12 : r ? 15 : 0;
    for (; r >= SHADOW_INDEX; r = node_of(t, r)->parent)
        for (int b = 0; b < 4; b++) bytes |= (uint8_t)(covers(node_of(t, r), b) << b);
    return bytes;
}

void shadow_detail_bytes(const ShadowTable *t, uint32_t w, uint8_t *wrote, uint8_t *read) {
    const Detail *d = detail_of(t, w);
    *wrote = *read = 0;
    for (int b = 0; b < 4; b++) {
        if (d->w[b] >= SHADOW_INDEX || d->aw[b]) *wrote |= (uint8_t)(1 << b);
        const uint8_t readers = d->r[b] ? shadow_reader_bytes(t, d->r[b]) : 0;
        if ((readers >> b & 1) || d->ar[b]) *read |= (uint8_t)(1 << b);
    }
}

Stamp shadow_someone(const ShadowTable *t, const Shadow *s, uint32_t k, bool wrote) {
    const uint32_t w = s->w[k];
    uint32_t set = wrote ? w : s->r[k];
    if (w >= SHADOW_INDEX) {
        const Detail *d = detail_of(t, w);
        set = 0;
        for (int b = 0; b < 4 && set < SHADOW_INDEX; b++) set = !wrote ? d->r[b] : d->aw[b] ? d->aw[b] : d->w[b];
    }
    return set >= SHADOW_INDEX ? node_of(t, set)->stamp : set;
}
