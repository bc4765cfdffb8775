/* The DAG of a placed plan: data, overwriting in place, and arena bytes that are used again. */
#include "passes/memory/memory.h"
#include "passes/plan/kernel_graph.h"
#include <stdlib.h>
#include <string.h>


enum { NOBODY = -1, MIXED = -2 };

/* Who used each range of addresses last: a tree over the distinct ends of blocks; a node's owner holds for its
 * whole range unless it is MIXED. */
typedef struct OwnerTree {
    int64_t *cut; /* sorted distinct ends; leaf i is [cut[i], cut[i + 1]) */
    int n_cuts, leaves;
    int *owner;
} OwnerTree;

typedef struct Deps {
    Arena *arena;
    const Plan *p;
    const int *position; /* kernel -> position */
    OwnerTree tree;
    IntList *users; /* block -> positions that write or read it */
    int *block_of;  /* node -> 1 + the block in whose memory it lies, of those that have one */
    int *stamp;     /* position -> the last kernel that listed it */
    IntList after;
} Deps;

static int latest_first(const void *x, const void *y) { return *(const int *)y - *(const int *)x; }

static int by_int64(const void *x, const void *y) {
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static int64_t block_offset(const Plan *p, const LiveBlock *b) {
    return b->node ? p->buffer[b->node->id].offset : p->kernels.at[b->kernel].workspace_offset;
}

static OwnerTree tree_new(Arena *a, const Plan *p, const Liveness *l) {
    OwnerTree t = {.cut = ARENA_ARRAY(a, int64_t, 2 * l->n + 2), .leaves = 1};
    for (int i = 0; i < l->n; i++) {
        t.cut[2 * i] = block_offset(p, &l->block[i]);
        t.cut[2 * i + 1] = t.cut[2 * i] + l->block[i].bytes;
    }
    qsort(t.cut, (size_t)(2 * l->n), sizeof *t.cut, by_int64);
    for (int i = 0; i < 2 * l->n; i++)
        if (!t.n_cuts || t.cut[i] != t.cut[t.n_cuts - 1]) t.cut[t.n_cuts++] = t.cut[i];
    while (t.leaves < t.n_cuts) t.leaves *= 2;
    t.owner = ARENA_ARRAY(a, int, 2 * t.leaves);
    for (int i = 0; i < 2 * t.leaves; i++) t.owner[i] = NOBODY;
    return t;
}

static int cut_index(const OwnerTree *t, int64_t at) {
    const int64_t *found = bsearch(&at, t->cut, (size_t)t->n_cuts, sizeof *t->cut, by_int64);
    return (int)(found - t->cut);
}

static void must_follow(Deps *d, int position, int at) {
    if (position == at || d->stamp[position] == at + 1) return;
    d->stamp[position] = at + 1;
    vec_push(d->arena, d->after, position);
}

/* Blocks that owned part of [from, to) are over: the kernel at `at` follows their users; `block` owns it now. */
static void take_range(Deps *d, int node, int lo, int hi, int from, int to, int block, int at) {
    OwnerTree *t = &d->tree;
    if (to <= lo || hi <= from) return;
    if (t->owner[node] >= 0) {
        const IntList *users = &d->users[t->owner[node]];
        for (int i = 0; i < users->n; i++) must_follow(d, users->at[i], at);
    }
    if (from <= lo && hi <= to && t->owner[node] != MIXED) {
        t->owner[node] = block;
        return;
    }
    if (t->owner[node] != MIXED) t->owner[2 * node] = t->owner[2 * node + 1] = t->owner[node];
    int mid = (lo + hi) / 2;
    take_range(d, 2 * node, lo, mid, from, to, block, at);
    take_range(d, 2 * node + 1, mid, hi, from, to, block, at);
    t->owner[node] = t->owner[2 * node] == t->owner[2 * node + 1] ? t->owner[2 * node] : MIXED;
}

static void use_block(Deps *d, const Node *n, int at) {
    const int block = d->block_of[n->id] - 1;
    if (block >= 0) vec_push(d->arena, d->users[block], at);
}

/* Positions of the kernels that write or read each block. */
static void collect_users(Deps *d, const Liveness *l) {
    int *block_of = d->block_of = ARENA_ARRAY(d->arena, int, d->p->graph->nodes.n + 1);
    d->users = ARENA_ARRAY(d->arena, IntList, l->n + 1);
    for (int i = 0; i < l->n; i++) {
        if (l->block[i].node) block_of[l->block[i].node->id] = i + 1;
        vec_push(d->arena, d->users[i], l->block[i].lower);
    }
    for (int i = 0; i < d->p->graph->nodes.n; i++) block_of[i] = block_of[l->in[i]->id];
    for (int at = 0; at < d->p->kernels.n; at++) {
        const PlanKernel *k = &d->p->kernels.at[d->p->order[at]];
        for (int i = 0; i < k->reads.n; i++) use_block(d, k->reads.at[i], at);
        for (int i = 0; i < k->outputs.n; i++)
            if (d->p->buffer[k->outputs.at[i]->id].within) use_block(d, k->outputs.at[i], at);
    }
}

/* Who writes further parts of a block follows who wrote the first, and so what was in that memory before. */
static void follow_first_part(Deps *d, const Liveness *l, int at) {
    const PlanKernel *k = &d->p->kernels.at[d->p->order[at]];
    for (int i = 0; i < k->outputs.n; i++) {
        const int block = d->block_of[k->outputs.at[i]->id] - 1;
        if (block >= 0) must_follow(d, l->block[block].lower, at);
    }
}

/* Data and in-place edges, reversed: position -> positions before it. */
static IntList *collect_edges(Deps *d) {
    int n = d->p->kernels.n;
    IntList *before = ARENA_ARRAY(d->arena, IntList, n + 1);
    KernelGraph g = kernel_graph(d->arena, d->p);
    for (int k = 0; k < n; k++)
        for (int i = g.first[k]; i < g.first[k + 1]; i++)
            vec_push(d->arena, before[d->position[g.succ[i] / 2]], d->position[k]);
    return before;
}

/* ---- leaving out what is implied -------------------------------------------------------------------------------- */
/* The kernels that one waits for, also by way of others, as a set of ranks: all those below word `begin`, and bits up to
 * word `end`.  Most kernels wait for nearly all before them, which leaves few words. */
typedef struct Reach {
    int begin, end;
    uint64_t *bits; /* of word `begin` on; of a Sets */
} Reach;

/* Memory of sets of 1 << i words, which is used again: there are as many sets as kernels, few at a time. */
typedef struct Sets {
    Arena *arena;
    uint64_t *free[32]; /* linked through the first word */
} Sets;

static int size_of(int words) {
    int i = 0;
    while (1 << i < words) i++;
    return i;
}

static uint64_t *set_new(Sets *s, int words) {
    const int i = size_of(words);
    uint64_t *set = s->free[i];
    if (!set) return ARENA_ARRAY(s->arena, uint64_t, (size_t)1 << i);
    s->free[i] = (uint64_t *)(uintptr_t)set[0];
    return set;
}

static void set_free(Sets *s, Reach *r) {
    if (!r->bits) return;
    const int i = size_of(r->end - r->begin);
    r->bits[0] = (uintptr_t)s->free[i];
    s->free[i] = r->bits;
    r->bits = NULL;
}

/* Position -> its rank among those that some kernel follows; -1: nobody asks for what it waits for. */
static int *rank_followed(const Deps *d, int n) {
    int *rank = ARENA_ARRAY(d->arena, int, n + 1), followed = 0;
    for (int i = 0; i < d->after.n; i++) rank[d->after.at[i]] = 1;
    for (int at = 0; at < n; at++) rank[at] = rank[at] ? followed++ : -1;
    return rank;
}

/* r is under construction: its bits are those of word 0 on. */
static bool reaches(const Reach *r, int rank) {
    const int word = rank / 64;
    return word < r->begin || (word < r->end && r->bits[word] >> rank % 64 & 1);
}

static void reach_add(Reach *r, int rank, const Reach *its) {
    if (its->begin > r->begin) r->begin = its->begin;
    for (int w = r->begin; w < its->end; w++) r->bits[w] |= its->bits[w - its->begin];
    r->bits[rank / 64] |= (uint64_t)1 << rank % 64;
    if (rank / 64 >= r->end) r->end = rank / 64 + 1; /* ranks below it are those of what it waits for */
}

/* Nothing in r, whose words from `touched` on are in use. */
static void reach_drop(Reach *r, int touched) {
    memset(&r->bits[touched], 0, sizeof *r->bits * (size_t)(r->end - touched));
    r->begin = r->end = 0;
}

/* A copy of r of its own, and none in r. */
static Reach reach_take(Sets *sets, Reach *r, int touched) {
    Reach kept = *r;
    while (kept.begin < kept.end && !~r->bits[kept.begin]) kept.begin++;
    kept.bits = set_new(sets, kept.end - kept.begin);
    memcpy(kept.bits, &r->bits[kept.begin], sizeof *kept.bits * (size_t)(kept.end - kept.begin));
    reach_drop(r, touched);
    return kept;
}

/* Position -> the last one that follows it. */
static int *last_follower(const Deps *d, int n, const int *first) {
    int *last = ARENA_ARRAY(d->arena, int, n + 1);
    for (int at = 0; at < n; at++)
        for (int i = first[at]; i < first[at + 1]; i++) last[d->after.at[i]] = at;
    return last;
}

/* Of the predecessors, latest first, only those stay that are not yet reached. */
static void leave_out_implied(Deps *d, int n, int *first) {
    const int *rank = rank_followed(d, n), *last = last_follower(d, n, first);
    Sets sets = {.arena = d->arena};
    Reach *reach = ARENA_ARRAY(d->arena, Reach, n + 1), mine = {.bits = ARENA_ARRAY(d->arena, uint64_t, n / 64 + 1)};
    int kept = 0;
    for (int at = 0, from = 0; at < n; at++) {
        const int to = first[at + 1];
        if (to > from) qsort(&d->after.at[from], (size_t)(to - from), sizeof(int), latest_first);
        const int touched = to > from ? reach[d->after.at[from]].begin : 0;
        for (int i = from; i < to; i++) {
            const int p = d->after.at[i];
            if (!reaches(&mine, rank[p])) {
                reach_add(&mine, rank[p], &reach[p]);
                d->after.at[kept++] = p;
            }
            if (last[p] == at) set_free(&sets, &reach[p]);
        }
        if (rank[at] >= 0) reach[at] = reach_take(&sets, &mine, touched);
        else reach_drop(&mine, touched);
        from = to;
        first[at + 1] = kept;
    }
    d->after.n = kept;
}

PlanDeps plan_deps(Arena *a, const Plan *p) {
    int n = p->kernels.n;
    Deps d = {.arena = arena_new(), .p = p};
    int *position = ARENA_ARRAY(d.arena, int, n + 1);
    for (int at = 0; at < n; at++) position[p->order[at]] = at;
    d.position = position;
    d.stamp = ARENA_ARRAY(d.arena, int, n + 1);
    Liveness l = plan_liveness(d.arena, p);
    collect_users(&d, &l);
    d.tree = tree_new(d.arena, p, &l);
    const IntList *before = collect_edges(&d);
    PlanDeps deps = {.first = ARENA_ARRAY(a, int, n + 1)};
    for (int at = 0, b = 0; at < n; at++) {
        for (int i = 0; i < before[at].n; i++) must_follow(&d, before[at].at[i], at);
        follow_first_part(&d, &l, at);
        for (; b < l.n && l.block[b].lower == at; b++) {
            if (!l.block[b].bytes) continue;
            int64_t offset = block_offset(p, &l.block[b]);
            take_range(&d, 1, 0, d.tree.leaves, cut_index(&d.tree, offset),
                       cut_index(&d.tree, offset + l.block[b].bytes), b, at);
        }
        deps.first[at + 1] = d.after.n;
    }
    leave_out_implied(&d, n, deps.first);
    deps.after = arena_dup(a, d.after.at, sizeof(int) * (size_t)d.after.n);
    arena_free(d.arena);
    return deps;
}
