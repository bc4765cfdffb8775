#include "passes/plan/live_range.h"

/* By node id: until when it, or what has memory and is computed from it, is read. */
static int *find_last(Arena *a, const Graph *g, const bool *memory) {
    int *last = ARENA_ARRAY(a, int, g->nodes.n + 1);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *n = g->nodes.at[i];
        const int until = memory[i] || last[i] < i ? i : last[i];
        if (last[i] < i) last[i] = i;
        for (int k = 0; k < n->n_in; k++)
            if (last[n->in[k]->id] < until) last[n->in[k]->id] = until;
    }
    return last;
}

static int *find_as_large(Arena *a, const Graph *g, const int *last) {
    int *as_large = ARENA_ARRAY(a, int, g->nodes.n + 1);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *n = g->nodes.at[i];
        if (as_large[i] < last[i]) as_large[i] = last[i];
        for (int k = 0; k < n->n_in && op_info[n->op].cls == CLASS_ELEMENT; k++)
            if (as_large[n->in[k]->id] < as_large[i]) as_large[n->in[k]->id] = as_large[i];
    }
    return as_large;
}

/* The last value in memory that n alone reads element by element, itself or through what has no memory; -1: none. */
static int opens_kernel(const LiveRanges *l, const bool *stored, const Node *n, int depth) {
    enum { DEEPEST = 128 };
    int opens = -1;
    for (int k = 0; k < n->n_in && op_info[n->op].cls == CLASS_ELEMENT && depth < DEEPEST; k++) {
        const Node *x = n->in[k];
        const bool alone = l->uses.first[x->id + 1] - l->uses.first[x->id] == 1 && shape_same(x->shape, n->shape);
        if (!alone || op_is_memory(x->op) || l->result[x->id]) continue;
        const int at = stored[x->id] ? x->id : opens_kernel(l, stored, x, depth + 1);
        if (at > opens) opens = at;
    }
    return opens;
}

/* What is elementwise after it, up to a value in memory, is in the kernel that makes it. */
static bool *find_stored(const LiveRanges *l, Arena *a) {
    bool *stored = arena_dup(a, l->will.memory, sizeof *stored * (size_t)l->g->nodes.n);
    for (int i = 0; i < l->g->nodes.n; i++) {
        const int opens = stored[i] ? opens_kernel(l, stored, l->g->nodes.at[i], 0) : -1;
        if (opens >= 0) stored[opens] = false;
    }
    return stored;
}

LiveRanges live_ranges(const PassContext *c, Graph *g, Arena *a) {
    const int n = g->nodes.n;
    LiveRanges l = {.g = g, .uses = graph_uses(a, g)};
    l.result = ARENA_ARRAY(a, bool, n + 1);
    for (int i = 0; i < g->results.n; i++) l.result[g->results.at[i].value->id] = true;
    PassContext weighed = *c; /* where there is no memory for a value, chunks, which compute nothing twice, come before streams */
    weighed.stream_weighed = true;
    l.will = fuse_foresee(&weighed, g, true);
    l.stored = find_stored(&l, a);
    l.last = find_last(a, g, l.will.memory);
    l.as_large = find_as_large(a, g, l.last);
    return l;
}

bool live_goes_over(const Node *last, const Node *x) {
    return op_info[last->op].cls == CLASS_ELEMENT && last->dtype == x->dtype && shape_same(last->shape, x->shape);
}

double live_peak(const LiveRanges *l, Arena *a, double *bytes) {
    const int n = l->g->nodes.n;
    const int *last = find_last(a, l->g, l->stored);
    double *change = ARENA_ARRAY(a, double, n + 2), live = 0, most = 0;
    for (int i = 0; i < n; i++) {
        const Node *x = l->g->nodes.at[i];
        if (!l->stored[i] || l->result[i]) continue;
        change[i] += (double)node_bytes(x);
        change[last[i] + !live_goes_over(l->g->nodes.at[last[i]], x)] -= (double)node_bytes(x);
    }
    for (int i = 0; i < n; i++) {
        live += change[i];
        if (live > most) most = live;
        if (bytes) bytes[i] = live;
    }
    return most;
}
