#include "tools/ptxsim/exec/clock.h"
#include "tools/ptxsim/exec/exec.h"
#include "tools/ptxsim/exec/race_sync.h"
#include <stdlib.h>

static void join(Time *restrict to, const Time *restrict from, int n) {
    for (int k = 0; k < n; k++) to[k] = to[k] > from[k] ? to[k] : from[k];
}

bool clock_start(Warp *w) {
    const size_t n = (size_t)w->cluster->agents;
    w->clock.seen = calloc((2 + PROXY_SPACES) * n + MAX_AGENTS, sizeof(Time)); /* ten bits of index, see clock.h */
    if (!w->clock.seen) return false;
    w->clock.own = w->clock.seen + n;
    for (size_t k = 0; k < PROXY_SPACES; k++) w->clock.fenced[k] = w->clock.own + (k + 1) * n;
    w->time = 1;
    w->clock.own[w->agent] = w->time;
    return true;
}

void clock_end(Warp *w) {
    free(w->clock.seen);
    known_free(w->clock.known);
    w->clock = (Clock){0};
}

void clock_warp_sync(Warp *w) {
    join(w->clock.seen, w->clock.own, w->cluster->agents);
    w->parts = 0;
    if (w->time < LAST_TIME) w->time++;
    w->clock.own[w->agent] = w->time;
}

void clock_part_sync(Warp *w, uint32_t mask) {
    if (w->time == LAST_TIME) {
        clock_warp_sync(w);
        return;
    }
    if (w->parts == PART_SYNCS) {
        join(w->clock.seen, w->clock.own, w->cluster->agents);
        w->clock.seen[w->agent] = w->part[0].time;
        memmove(w->part, w->part + 1, sizeof *w->part * (size_t)--w->parts);
    }
    w->part[w->parts++] = (PartSync){.time = w->time, .mask = mask};
    w->clock.own[w->agent] = ++w->time;
}

bool clock_met(const Warp *w, Stamp s, uint32_t by, int lane) {
    const bool several = by == LANE_SEVERAL;
    if (lane < 0 || (by >= WARP && !several)) return false;
    uint32_t reached = several ? UINT32_MAX : UINT32_C(1) << by;
    for (int k = 0; k < w->parts; k++) {
        const PartSync *p = &w->part[k];
        if (stamp_agent(s) == w->agent && p->time < stamp_time(s)) continue;
        if (several && p->mask >> lane & 1) return true;
        if (reached & p->mask) reached |= p->mask;
    }
    return !several && reached >> lane & 1;
}

bool sync_clock_make(const Cluster *c, SyncClock *s) {
    if (s->seen) return true;
    const size_t n = (size_t)c->agents;
    s->seen = calloc((1 + PROXY_SPACES) * n, sizeof(Time));
    for (size_t k = 0; s->seen && k < PROXY_SPACES; k++) s->fenced[k] = s->seen + (k + 1) * n;
    return s->seen != NULL;
}

bool clock_release(Warp *w, SyncClock *s) {
    return clock_snapshot(w, s) && (!w->fences || fences_pass(w, s));
}

bool clock_snapshot(Warp *w, SyncClock *s) {
    const int n = w->cluster->agents;
    if (!sync_clock_make(w->cluster, s)) return false;
    join(w->clock.seen, w->clock.own, n);
    w->parts = 0;
    join(s->seen, w->clock.seen, n);
    join(s->fenced[0], w->clock.fenced[0], PROXY_SPACES * n);
    known_learn(w->cluster, &s->known, s->seen, w->clock.known);
    if (w->time < LAST_TIME) w->time++; /* at the end of time nothing is a race any more: hidden, never invented */
    w->clock.own[w->agent] = w->time;
    return true;
}

void clock_acquire(Warp *w, const SyncClock *s) {
    if (!s->seen) return;
    join(w->clock.seen, s->seen, w->cluster->agents);
    join(w->clock.fenced[0], s->fenced[0], PROXY_SPACES * w->cluster->agents);
    known_learn(w->cluster, &w->clock.known, w->clock.seen, s->known);
    if (s->strong || s->noticed) fences_take(w, s);
}

void clock_proxy_fence(Warp *w, unsigned spaces) {
    for (int k = 0; k < PROXY_SPACES; k++) {
        if (!(spaces >> k & 1)) continue;
        join(w->clock.fenced[k], w->clock.seen, w->cluster->agents);
        join(w->clock.fenced[k], w->clock.own, w->cluster->agents);
    }
    if (w->time < LAST_TIME) w->time++; /* what this warp writes from now on is not fenced */
    w->clock.own[w->agent] = w->time;
}

bool clock_note(Cluster *c, SyncClock *s, uint32_t agent, Time time) {
    if (!sync_clock_make(c, s)) return false;
    if (s->seen[agent] < time) s->seen[agent] = time;
    for (int k = 0; k < PROXY_SPACES; k++)
        if (s->fenced[k][agent] < time) s->fenced[k][agent] = time; /* what the async proxy wrote, it sees */
    return true;
}

void clock_observe(Warp *w, uint32_t agent, Time time, bool lanes_own) {
    Time *known = lanes_own ? w->clock.own : w->clock.seen;
    if (known[agent] < time) known[agent] = time;
    for (int k = 0; !lanes_own && k < PROXY_SPACES; k++)
        if (w->clock.fenced[k][agent] < time) w->clock.fenced[k][agent] = time;
}

void sync_clock_join(const Cluster *c, SyncClock *to, const SyncClock *from) {
    if (!from->seen) return;
    if (!sync_clock_make(c, to)) {
        c->launch->out_of_memory = true;
        return;
    }
    join(to->seen, from->seen, c->agents);
    join(to->fenced[0], from->fenced[0], PROXY_SPACES * c->agents);
    known_learn(c, &to->known, to->seen, from->known);
    const bool whole = sync_clock_add(c, &to->strong, from->strong) && sync_clock_add(c, &to->noticed, from->noticed);
    if (!whole) c->launch->out_of_memory = true;
}

bool sync_clock_add(const Cluster *c, SyncClock **to, const SyncClock *from) {
    if (!from || !from->seen) return true;
    if (!*to) *to = calloc(1, sizeof **to);
    if (!*to || !sync_clock_make(c, *to)) return false;
    sync_clock_join(c, *to, from);
    return true;
}

void sync_clock_clear(SyncClock *s) {
    free(s->seen);
    known_free(s->known);
    for (int k = 0; k < 2; k++) {
        SyncClock *part = k ? s->noticed : s->strong;
        if (part) sync_clock_clear(part);
        free(part);
    }
    *s = (SyncClock){0};
}
