#include "tools/ptxsim/exec/race_sync.h"
#include "tools/ptxsim/exec/page.h"
#include "tools/ptxsim/ptx/parse.h"
#include <stdlib.h>

/* What releases of one scope from one place passed on. */
typedef struct SyncRelease {
    uint8_t scope;
    uint64_t cluster;
    uint32_t block;  /* rank */
    SyncClock clock; /* as of `cluster` */
    Past *past;      /* the same, for other clusters; made when wanted */
    struct SyncRelease *next;
} SyncRelease;

struct Location {
    SyncRelease *first;
};

/* What the warp's fences and ordered accesses have left for each other. */
typedef struct Fences {
    SyncClock strong;  /* what lay before fences of device scope, of this warp and those it heard of */
    SyncClock before;  /* what lay before the last fence of a narrower scope */
    uint8_t scope;     /* of that fence; WEAK: none yet */
    SyncClock noticed[3]; /* passed on to relaxed reads since the last fence, by the scope that the fence must have */
} Fences;

/* ---- locations -------------------------------------------------------------------------------------------- */
static void released_free(SyncRelease *r) {
    sync_clock_clear(&r->clock);
    past_drop(r->past);
    free(r);
}

static void location_clear(struct Location *l) {
    while (l->first) {
        SyncRelease *r = l->first;
        l->first = r->next;
        released_free(r);
    }
}

void location_free(struct Location *l) {
    if (!l) return;
    location_clear(l);
    free(l);
}

/* Where the location of an address is kept; NULL: nowhere. */
static struct Location **location_at(Warp *w, Space space, uint64_t address, bool make) {
    if (space == SPACE_GENERIC) {
        space = address - SHARED_WINDOW < WINDOW_BYTES ? SPACE_SHARED : SPACE_GLOBAL;
        if (space == SPACE_SHARED) address -= SHARED_WINDOW;
    }
    const uint32_t cluster = (uint32_t)w->cluster->linear + 1;
    if (space == SPACE_SHARED || space == SPACE_CLUSTER) {
        uint64_t offset;
        Block *b = shared_block(w, address, &offset);
        if (!b || offset >= b->shared_bytes) return NULL;
        const Shadow s = block_shadow(b);
        return shadow_location(w->cluster->table, &s, (uint32_t)(offset / 4), cluster, make);
    }
    Page *p = space == SPACE_GLOBAL ? page_at(w, address) : NULL;
    const uint32_t at = address % PAGE_BYTES;
    if (!p || at < p->from || at >= p->to) return NULL;
    return shadow_location(w->cluster->table, &p->shadow, at / 4, cluster, make);
}

static SyncRelease *released_at(struct Location *l, const Warp *w, uint8_t scope) {
    const uint32_t block = w->block->rank;
    for (SyncRelease *r = l->first; r; r = r->next)
        if (r->scope == scope && r->cluster == w->cluster->linear && r->block == block) return r;
    SyncRelease *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    *r = (SyncRelease){.scope = scope, .cluster = w->cluster->linear, .block = block, .next = l->first};
    l->first = r;
    return r;
}

/* ---- release ---------------------------------------------------------------------------------------------- */
static void leave(Warp *w, struct Location *l, uint8_t scope, const SyncClock *what) {
    SyncRelease *r = released_at(l, w, scope);
    if (!r) {
        w->cluster->launch->out_of_memory = true;
        return;
    }
    past_drop(r->past);
    r->past = NULL;
    sync_clock_join(w->cluster, &r->clock, what);
}

static bool releases(uint8_t order) { return order == ORDER_RELEASE || order == ORDER_ACQ_REL || order == ORDER_SC; }
static bool acquires(uint8_t order) { return order == ORDER_ACQUIRE || order == ORDER_ACQ_REL || order == ORDER_SC; }

void sync_before_write(Warp *w, Space space, uint8_t order, uint8_t scope, const uint64_t address[WARP], uint32_t lanes,
                       bool modifies) {
    SyncClock now = {0};
    const Fences *f = w->fences;
    if (releases(order) && !clock_release(w, &now)) w->cluster->launch->out_of_memory = true;
    const SyncClock *what = now.seen ? &now : f && f->strong.seen ? &f->strong : NULL;
    const SyncClock *narrow = !now.seen && f && f->scope ? &f->before : NULL;
    for (; lanes; lanes &= lanes - 1) {
        struct Location **l = location_at(w, space, address[__builtin_ctz(lanes)], what || narrow);
        if (!l) continue;
        if (*l && !modifies) location_clear(*l);
        if (!what && !narrow) continue;
        if (!*l) *l = calloc(1, sizeof **l);
        if (!*l) w->cluster->launch->out_of_memory = true;
        if (*l && what) leave(w, *l, scope, what);
        if (*l && narrow) leave(w, *l, f->scope < scope ? f->scope : scope, narrow);
    }
    sync_clock_clear(&now);
}

/* ---- acquire ---------------------------------------------------------------------------------------------- */
/* The scope that both sides need. */
static uint8_t distance(const Warp *w, const SyncRelease *r) {
    if (r->cluster != w->cluster->linear) return SCOPED_GPU;
    return r->block == w->block->rank ? SCOPED_CTA : SCOPED_CLUSTER;
}

/* Into a clock of w's cluster. */
static void take(const Warp *w, SyncRelease *r, SyncClock *to) {
    Cluster *c = w->cluster;
    if (r->cluster == c->linear) {
        sync_clock_join(c, to, &r->clock);
        return;
    }
    if (!r->past) r->past = past_of(c, r->clock.seen);
    if (!r->past || !sync_clock_make(c, to)) {
        c->launch->out_of_memory = true;
        return;
    }
    known_learn_past(c, &to->known, to->seen, r->cluster, r->past);
    known_learn(c, &to->known, to->seen, r->clock.known);
}

static Fences *fences_of(Warp *w) {
    if (!w->fences) w->fences = calloc(1, sizeof *w->fences);
    if (!w->fences) w->cluster->launch->out_of_memory = true;
    return w->fences;
}

void sync_after_read(Warp *w, Space space, uint8_t order, uint8_t scope, const uint64_t address[WARP], uint32_t lanes) {
    SyncClock now = {0};
    for (; lanes; lanes &= lanes - 1) {
        struct Location **l = location_at(w, space, address[__builtin_ctz(lanes)], false);
        if (!l || !*l) continue;
        Fences *f = acquires(order) ? NULL : fences_of(w);
        if (!acquires(order) && !f) continue;
        for (SyncRelease *r = (*l)->first; r; r = r->next)
            if (r->clock.seen && distance(w, r) <= r->scope && distance(w, r) <= scope)
                take(w, r, f ? &f->noticed[distance(w, r) - SCOPED_CTA] : &now);
    }
    clock_acquire(w, &now);
    sync_clock_clear(&now);
}

/* ---- fences ----------------------------------------------------------------------------------------------- */
void sync_fence(Warp *w, uint8_t scope) {
    Fences *f = fences_of(w);
    if (!f) return;
    for (int k = 0; k < 3 && k + SCOPED_CTA <= scope; k++) {
        clock_acquire(w, &f->noticed[k]);
        sync_clock_clear(&f->noticed[k]);
    }
    if (!clock_snapshot(w, scope >= SCOPED_GPU ? &f->strong : &f->before)) w->cluster->launch->out_of_memory = true;
    if (scope < SCOPED_GPU) f->scope = scope;
}

bool fences_pass(Warp *w, SyncClock *to) {
    const Fences *f = w->fences;
    return sync_clock_add(w->cluster, &to->strong, &f->strong) &&
           sync_clock_add(w->cluster, &to->noticed, &f->noticed[SCOPED_GPU - SCOPED_CTA]);
}

void fences_take(Warp *w, const SyncClock *from) {
    Fences *f = fences_of(w);
    if (!f) return;
    if (from->strong) sync_clock_join(w->cluster, &f->strong, from->strong);
    if (from->noticed) sync_clock_join(w->cluster, &f->noticed[SCOPED_GPU - SCOPED_CTA], from->noticed);
}

void sync_relaxed_release(Warp *w, SyncClock *to) {
    if (!w->fences) return;
    sync_clock_join(w->cluster, to, &w->fences->strong);
    if (w->fences->scope) sync_clock_join(w->cluster, to, &w->fences->before);
}

void sync_relaxed_acquire(Warp *w, const SyncClock *from) {
    Fences *f = from->seen ? fences_of(w) : NULL;
    if (f) sync_clock_join(w->cluster, &f->noticed[0], from);
}

void fences_free(Warp *w) {
    if (!w->fences) return;
    sync_clock_clear(&w->fences->strong);
    sync_clock_clear(&w->fences->before);
    for (int k = 0; k < 3; k++) sync_clock_clear(&w->fences->noticed[k]);
    free(w->fences);
    w->fences = NULL;
}
