/* What a cluster knows of others: maps from clusters to vectors of times, which many hold together. */
#include "tools/ptxsim/exec/clock.h"
#include "tools/ptxsim/exec/exec.h"
#include <stdlib.h>

Past *past_of(const Cluster *c, const Time *seen) {
    const size_t bytes = (size_t)c->agents * sizeof *seen;
    Past *p = malloc(sizeof *p + bytes);
    if (!p) return NULL;
    p->references = 1;
    memcpy(p->seen, seen, bytes);
    return p;
}

void past_drop(Past *p) {
    if (p && --p->references == 0) free(p);
}

void known_free(Known *k) {
    if (!k) return;
    for (uint32_t n = 0; n < k->count; n++) past_drop(k->item[n].past);
    free(k);
}

/* Clusters in the map below this one. */
static uint32_t below(const Known *k, uint64_t cluster) {
    uint32_t low = 0, high = k ? k->count : 0;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (k->item[mid].cluster < cluster) low = mid + 1;
        else high = mid;
    }
    return low;
}

bool clock_knows(const Clock *c, uint64_t cluster, uint32_t agent, Time time) {
    const uint32_t n = below(c->known, cluster);
    if (!time) return true;
    return c->known && n < c->known->count && c->known->item[n].cluster == cluster &&
           c->known->item[n].past->seen[agent] >= time;
}

/* The later of both, of every agent: one of them where it is the later throughout. */
static Past *later(const Cluster *c, Past *a, Past *b) {
    bool a_all = true, b_all = true;
    for (int k = 0; k < c->agents; k++) {
        a_all &= a->seen[k] >= b->seen[k];
        b_all &= b->seen[k] >= a->seen[k];
    }
    if (a_all || b_all) {
        Past *p = a_all ? a : b;
        p->references++;
        return p;
    }
    Past *p = past_of(c, a->seen);
    for (int k = 0; p && k < c->agents; k++)
        if (p->seen[k] < b->seen[k]) p->seen[k] = b->seen[k];
    return p;
}

/* Without memory less is known, and findings may be invented: the launch fails then. */
static void insert(const Cluster *self, Known **to, uint32_t at, uint64_t cluster, Past *past) {
    Known *k = *to;
    if (!k || k->count == k->room) {
        const uint32_t room = k ? 2 * k->room : 4;
        k = realloc(k, sizeof *k + room * sizeof k->item[0]);
        if (!k) {
            self->launch->out_of_memory = true;
            return;
        }
        if (!*to) k->count = 0;
        k->room = room;
        *to = k;
    }
    memmove(&k->item[at + 1], &k->item[at], (k->count - at) * sizeof k->item[0]);
    k->item[at].cluster = cluster;
    k->item[at].past = past;
    past->references++;
    k->count++;
}

void known_learn_past(const Cluster *self, Known **to, Time *self_seen, uint64_t other, Past *past) {
    if (other == self->linear) {
        for (int k = 0; k < self->agents; k++)
            if (self_seen[k] < past->seen[k]) self_seen[k] = past->seen[k];
        return;
    }
    const uint32_t n = below(*to, other);
    if (!*to || n == (*to)->count || (*to)->item[n].cluster != other) {
        insert(self, to, n, other, past);
        return;
    }
    Past *have = (*to)->item[n].past;
    if (have == past) return;
    Past *both = later(self, have, past);
    if (!both) {
        self->launch->out_of_memory = true;
        return;
    }
    (*to)->item[n].past = both;
    past_drop(have);
}

void known_learn(const Cluster *self, Known **to, Time *self_seen, const Known *from) {
    if (*to == from) return;
    for (uint32_t n = 0; from && n < from->count; n++)
        known_learn_past(self, to, self_seen, from->item[n].cluster, from->item[n].past);
}
