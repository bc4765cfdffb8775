/* family: equal kernels become the members of one.
 *
 *     q = x Wq,  k = x Wk,  v = x Wv           dWq = x' dq,  dWk = x' dk,  dWv = x' dv
 *     updates of all weights of one shape, sums of squares of their gradients, sums that finish slices
 *
 * Needs: kernels, homes and strides.  Keeps: what is computed, and every tensor where it is.  Gives: kernels with
 * `members`, whose nodes are the first's.  One grid has the tiles of all: fewer launches, and programs enough to leave
 * the sum whole where one product alone would be split (split.c asks family_sizes).
 *
 * Products share an operand and are near each other.  All others, maps and rows, may be any way apart: they run as late as
 * the last of them, if that holds no more memory than the launches are worth. */
#include "passes/plan/family.h"
#include "ir/node_pool.h"
#include "ir/integer.h"
#include "passes/algebra/contract_class.h"
#include "passes/plan/kernel_graph.h"
#include "passes/kernel/same_kernel.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_PRODUCTS = 4,
    NEAR = 48,    /* kernels between two products: what each reads and writes is alive until the last has run */
    HELD_SHARE = 64, /* of all buffers, bytes that families of maps and rows hold in all */
    GRID_AXES = 8 /* of fusec_kernel */
};

static bool target_has_families(const Target *t) { return t && t->device->has_grid; }

/* ---- before fusion ----------------------------------------------------------------------------------------------- */
static bool is_heavy(const Node *n) {
    return op_info[n->op].cls == CLASS_REDUCE || op_info[n->op].cls == CLASS_CONTRACT;
}

/* What is computed from the node, a few steps down: with other epilogues kernels are not equal. */
static uint64_t epilogue_hash(const Uses *u, const Node *n, int depth) {
    uint64_t h = (uint64_t)(u->first[n->id + 1] - u->first[n->id]);
    for (int i = u->first[n->id]; i < u->first[n->id + 1] && depth; i++) {
        const Node *reader = u->user[i];
        const uint64_t further = is_heavy(reader) ? 0 : epilogue_hash(u, reader, depth - 1);
        h += hash_mix(hash_mix((uint64_t)reader->op, (uint64_t)reader->dtype), further);
    }
    return h;
}

static bool alike(const Uses *u, const Node *a, const Node *b) {
    enum { STEPS = 3 };
    if (!contract_is_product(b) || a->dtype != b->dtype || a->phase != b->phase || a->remat != b->remat) return false;
    if (!shape_same(a->shape, b->shape) || !attr_similar(a, b)) return false;
    for (int k = 0; k < 2; k++)
        if (a->in[k]->dtype != b->in[k]->dtype || !shape_same(a->in[k]->shape, b->in[k]->shape)) return false;
    return epilogue_hash(u, a, STEPS) == epilogue_hash(u, b, STEPS);
}

/* Where n stands among the readers of x, which are in the order of the graph. */
static int place_among(const Uses *u, const Node *n, const Node *x) {
    int low = u->first[x->id], high = u->first[x->id + 1];
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (u->user[middle]->id > n->id)
            high = middle;
        else
            low = middle;
    }
    return low;
}

/* Readers that lie further apart are in kernels that do. */
static int relatives(const Uses *u, const Node *n, int operand) {
    const Node *x = n->in[operand];
    const int at = place_among(u, n, x), end = u->first[x->id + 1];
    int count = 0;
    int i = at - NEAR > u->first[x->id] ? at - NEAR : u->first[x->id];
    for (; i < end && i <= at + NEAR && count < MOST_PRODUCTS; i++) {
        const Node *other = u->user[i];
        count += other == n || (other->n_in == 2 && other->in[operand] == x && alike(u, n, other));
    }
    return count;
}

int *family_sizes(PassContext *c, const Graph *g) {
    int *size = ARENA_ARRAY(c->arena, int, g->nodes.n + 1);
    const bool none = !target_has_families(c->target) || c->disabled[PASS_family] || c->disabled[PASS_fuse];
    const Uses uses = graph_uses(c->arena, g);
    bool *output = ARENA_ARRAY(c->arena, bool, g->nodes.n + 1);
    for (int i = 0; i < g->results.n; i++) output[g->results.at[i].value->id] |= g->results.at[i].kind == RESULT_OUTPUT;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        size[i] = 1;
        bool given = output[i];
        for (int r = uses.first[i]; r < uses.first[i + 1]; r++) given |= output[uses.user[r]->id];
        for (int k = 0; k < 2 && contract_is_product(n) && !none && !given; k++) {
            const int found = relatives(&uses, n, k);
            if (found > size[i]) size[i] = found;
        }
    }
    return size;
}

/* ---- which kernels ----------------------------------------------------------------------------------------------- */
struct LastReaders;
typedef struct Families {
    PassContext *c;
    Arena *arena;
    Plan *p;
    KernelGraph graph;
    KernelFinder *finder;
    int *head;       /* by kernel: the first member of its family, or itself */
    int *next;       /* by kernel: the next member, or -1 */
    int *stamp, now; /* by head: the search that came there last */
    int *back;       /* by kernel: how many families, and edges, go from it or above it to one below it */
    VEC(int) pending;
    uint64_t *wanted; /* by kernel: the calls that need it */
    struct LastReaders *readers; /* by node id */
    int *ready;              /* by kernel: the last one that it waits for */
    int64_t *held, room;     /* by head: bytes held for its family; how many more may be */
    NodeList needs;          /* of needs_of() */
} Families;

static bool can_be_member(const Families *f, const PlanKernel *k) {
    if (k->sample || k->workspace) return false;
    for (int i = 0; i < k->outputs.n; i++)
        if (plan_output(&f->p->buffer[k->outputs.at[i]->id]) >= 0) return false;
    return k->p->rank < GRID_AXES && k->outputs.n > 0;
}

static bool is_product(const PlanKernel *k) {
    return k->kind == KERNEL_CONTRACT && contract_is_product(k->nodes.at[0].node);
}

/* Whether the value is computed from the buffer, within the kernel. */
static bool reaches(const PlanKernel *k, const Node *n, const Node *buffer) {
    if (n == buffer) return true;
    for (int i = 0; i < k->reads.n; i++)
        if (k->reads.at[i] == n) return false;
    for (int i = 0; i < n->n_in; i++)
        if (reaches(k, n->in[i], buffer)) return true;
    return false;
}

static bool share_operand(const PlanKernel *a, const PlanKernel *b) {
    const Node *product = a->nodes.at[0].node;
    for (int i = 0; i < a->reads.n; i++) {
        const Node *x = a->reads.at[i];
        if (x == b->reads.at[i] && x->shape->rank > 1 &&
            (reaches(a, product->in[0], x) || reaches(a, product->in[1], x)))
            return true;
    }
    return false;
}

static int members(const Families *f, int head, int *last) {
    int n = 1;
    for (*last = head; f->next[*last] >= 0; n++) *last = f->next[*last];
    return n;
}

static void count_back(Families *f, int low, int high) {
    for (int k = low + 1; k <= high; k++) f->back[k]++;
}

static void find_back(Families *f, int n) {
    f->back = ARENA_ARRAY(f->arena, int, n + 1);
    for (int k = 0; k < n; k++)
        for (int i = f->graph.first[k]; i < f->graph.first[k + 1]; i++) count_back(f, f->graph.succ[i] / 2, k);
}

/* The first kernel from which no way goes back to the family: nearly all go up, so that a search need not look at all
 * that comes after. */
static int beyond(const Families *f, int head) {
    int last;
    members(f, head, &last);
    do last++;
    while (last < f->p->kernels.n && f->back[last] > 0);
    return last;
}

/* Is there a way from one family to another, by what must run before what? */
static bool leads_to(Families *f, int from, int to) {
    const int end = beyond(f, to);
    f->now++;
    f->pending.n = 0;
    vec_push(f->arena, f->pending, from);
    f->stamp[from] = f->now;
    while (f->pending.n) {
        for (int k = f->pending.at[--f->pending.n]; k >= 0; k = f->next[k])
            for (int i = f->graph.first[k]; i < f->graph.first[k + 1]; i++) {
                const int head = f->head[f->graph.succ[i] / 2];
                if (head == to) return true;
                if (head >= end || f->stamp[head] == f->now) continue;
                f->stamp[head] = f->now;
                vec_push(f->arena, f->pending, head);
            }
    }
    return false;
}

/* Tensor maps of all members, of two factors for each product and of a result, are parameters of one kernel. */
static bool maps_fit(const PlanKernel *k, int n) {
    int products = 1;
    for (int i = 0; i < k->nodes.n; i++) products += k->nodes.at[i].part == PART_ONTO;
    return n <= MOST_PRODUCTS && n * (2 * products + 1) <= FUSEC_MAX_MAPS;
}

/* Alike, and needed at the same time by the same. */
static bool equal(const Families *f, int head, int k) {
    const PlanKernel *a = &f->p->kernels.at[head], *b = &f->p->kernels.at[k];
    return a->phase == b->phase && a->nodes.at[0].node->remat == b->nodes.at[0].node->remat && f->wanted[head] == f->wanted[k] &&
           kernels_equal(f->finder, head, k);
}

static void join(Families *f, int head, int k) {
    int last;
    members(f, head, &last);
    f->next[last] = k;
    f->head[k] = head;
    if (f->c->fired) f->c->fired[RULE_FUSION + FUSION_family]++;
}

static bool joins_product(Families *f, int head, int k) {
    const PlanKernel *a = &f->p->kernels.at[head], *b = &f->p->kernels.at[k];
    int last;
    if (!maps_fit(a, members(f, head, &last) + 1) || !equal(f, head, k) || !share_operand(a, b)) return false;
    if (leads_to(f, head, k) || leads_to(f, k, head)) return false;
    join(f, head, k);
    count_back(f, last, k);
    return true;
}

static void join_products(Families *f) {
    const PlanKernel *kernel = f->p->kernels.at;
    find_back(f, f->p->kernels.n);
    for (int k = 0; k < f->p->kernels.n; k++) {
        if (!is_product(&kernel[k]) || !can_be_member(f, &kernel[k])) continue;
        for (int h = k - 1; h >= 0 && h >= k - NEAR && f->head[k] == k; h--)
            if (f->head[h] == h && is_product(&kernel[h]) && can_be_member(f, &kernel[h])) joins_product(f, h, k);
    }
}

/* ---- maps and rows ----------------------------------------------------------------------------------------------- */
/* By kernel, of heads: how many steps from the end of the entry it can run at the latest.  Each step of what must run before
 * what leads to a lower level, so that families of kernels of one level close no cycle, whatever else is joined.  -1: not
 * known. */
typedef struct Levels {
    int *of;
    Predecessors before; /* of heads */
} Levels;

static Levels levels(Families *f) {
    const KernelGraph *g = &f->graph;
    const int n = f->p->kernels.n;
    const Predecessors before = kernel_predecessors(f->arena, g, f->head);
    int *level = ARENA_ARRAY(f->arena, int, n + 1), *left = ARENA_ARRAY(f->arena, int, n + 1);
    for (int k = 0; k < n; k++) left[f->head[k]] += g->first[k + 1] - g->first[k];
    f->pending.n = 0;
    for (int k = 0; k < n; k++) {
        if (f->head[k] == k && !left[k]) vec_push(f->arena, f->pending, k);
        if (left[k]) level[k] = -1;
    }
    while (f->pending.n) {
        const int k = f->pending.at[--f->pending.n];
        for (int i = before.first[k]; i < before.first[k + 1]; i++) {
            const int b = before.at[i];
            if (level[b] < level[k] + 1) level[b] = level[k] + 1;
            if (--left[b] == 0) vec_push(f->arena, f->pending, b);
        }
    }
    for (int k = 0; k < n; k++)
        if (left[k]) level[k] = -1;
    return (Levels){level, before};
}

/* When a value is read last, by number of kernel: the order of the graph, which `schedule` does not change much. */
typedef struct LastReaders {
    int last, before; /* the last, and the last before that */
} LastReaders;

/* What kernel k needs; until the next call. */
static const NodeList *needs_of(Families *f, int k) {
    plan_needs(f->arena, f->p, &f->p->kernels.at[k], &f->needs);
    return &f->needs;
}

static LastReaders *find_readers(Families *f) {
    LastReaders *r = ARENA_ARRAY(f->arena, LastReaders, f->p->graph->nodes.n + 1);
    for (int i = 0; i < f->p->graph->nodes.n; i++) r[i] = (LastReaders){-1, -1};
    for (int k = 0; k < f->p->kernels.n; k++) {
        const NodeList *needs = needs_of(f, k);
        for (int i = 0; i < needs->n; i++) {
            LastReaders *x = &r[needs->at[i]->id];
            if (x->last != k) *x = (LastReaders){k, x->last};
        }
    }
    return r;
}

/* The last kernel that k waits for. */
static int ready(Families *f, int k) {
    const NodeList *needs = needs_of(f, k);
    int last = -1;
    for (int i = 0; i < needs->n; i++) {
        const int writer = f->p->buffer[needs->at[i]->id].writer;
        if (writer > last) last = writer;
    }
    return last;
}

static int64_t bytes_of(const Families *f, const Node *n) {
    const PlanBuffer *b = &f->p->buffer[n->id];
    return b->home == HOME_ARENA ? b->bytes : 0;
}

/* Bytes more that are allocated at once because kernel k runs only with kernel `at`: what it writes, and what nobody else reads
 * as late, unless both wait for one kernel, when all that they read is there. */
static int64_t held_until(Families *f, int k, int at) {
    const PlanKernel *pk = &f->p->kernels.at[k];
    const NodeList *needs = needs_of(f, k);
    int64_t bytes = 0;
    for (int i = 0; i < pk->outputs.n; i++) bytes += bytes_of(f, pk->outputs.at[i]);
    for (int i = 0; i < needs->n && f->ready[k] < f->ready[at]; i++) {
        const LastReaders *r = &f->readers[needs->at[i]->id];
        if ((r->last == k ? r->before : r->last) < at) bytes += bytes_of(f, needs->at[i]);
    }
    return bytes;
}

/* The first that needs what k writes; a family runs where its last member does. */
static int first_reader(const Families *f, int k) {
    int first = INT_MAX;
    for (int i = f->graph.first[k]; i < f->graph.first[k + 1]; i++) {
        int last = f->head[f->graph.succ[i] / 2];
        while (f->next[last] >= 0) last = f->next[last];
        if (last < first) first = last;
    }
    return first;
}

/* Buffers of the family with one more member: those that are the same in all stand once. */
static bool buffers_fit(const Families *f, int head, int k, int n) {
    const PlanKernel *a = &f->p->kernels.at[head];
    int room = (a->outputs.n + 1) * n;
    for (int i = 0; i < a->reads.n; i++) {
        bool one = true;
        for (int m = f->next[head]; m >= 0; m = f->next[m]) one &= f->p->kernels.at[m].reads.at[i] == a->reads.at[i];
        room += one && f->p->kernels.at[k].reads.at[i] == a->reads.at[i] ? 1 : n;
    }
    return room <= UINT8_MAX;
}

/* With k the members run where k does; what they hold until then must be worth the launches, and little in all. */
static bool joins_late(Families *f, int head, int k) {
    int last;
    int64_t held = 0;
    const int n = members(f, head, &last) + 1;
    if (n > MAX_FAMILY || !equal(f, head, k) || !buffers_fit(f, head, k, n)) return false;
    for (int m = head; m >= 0; m = f->next[m]) {
        const int64_t here = held_until(f, m, k);
        held += here;
        if (first_reader(f, m) <= k || (double)here > target_launch_bytes(f->c->target)) return false;
    }
    if (held - f->held[head] > f->room) return false;
    f->room -= held - f->held[head];
    f->held[head] = held;
    join(f, head, k);
    return true;
}

typedef struct Candidate {
    int level, kernel;
    uint64_t hash;
} Candidate;

/* Readers before what they read. */
static int by_level(const void *x, const void *y) {
    const Candidate *a = x, *b = y;
    if (a->level != b->level) return a->level - b->level;
    return a->hash != b->hash ? (a->hash < b->hash ? -1 : 1) : a->kernel - b->kernel;
}

static int by_hash(const void *x, const void *y) {
    const Candidate *a = x, *b = y;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return a->level != b->level ? b->level - a->level : a->kernel - b->kernel;
}

/* Kernel k at that level, and what it waits for before it; false, or set: not without going far back. */
static bool raise_to(const Levels *l, int k, int level, int depth, bool set) {
    for (int i = l->before.first[k]; i < l->before.first[k + 1]; i++) {
        const int b = l->before.at[i];
        if (l->of[b] > level) continue;
        if (depth == 0 || l->of[b] < 0 || !raise_to(l, b, level + 1, depth - 1, set)) return false;
    }
    if (set) l->of[k] = level;
    return true;
}

/* Equal kernels that could run a little later than others run with those: the leaves of a sum are not all as far from its end. */
static void align_levels(const Levels *l, Candidate *all, int n) {
    enum { DEEPEST = 4 };
    qsort(all, (size_t)n, sizeof *all, by_hash);
    for (int i = 1; i < n; i++) {
        const int k = all[i].kernel, level = l->of[all[i - 1].kernel];
        if (all[i].hash == all[i - 1].hash && level > l->of[k] && raise_to(l, k, level, DEEPEST, false)) raise_to(l, k, level, DEEPEST, true);
    }
    for (int i = 0; i < n; i++) all[i].level = l->of[all[i].kernel];
    qsort(all, (size_t)n, sizeof *all, by_level);
}

static void join_late(Families *f) {
    const Plan *p = f->p;
    const Levels l = levels(f);
    Candidate *all = ARENA_ARRAY(f->arena, Candidate, p->kernels.n + 1);
    int n = 0;
    f->readers = find_readers(f);
    f->ready = ARENA_ARRAY(f->arena, int, p->kernels.n + 1);
    for (int k = 0; k < p->kernels.n; k++) f->ready[k] = ready(f, k);
    f->held = ARENA_ARRAY(f->arena, int64_t, p->kernels.n + 1);
    for (int i = 0; i < p->graph->nodes.n; i++) f->room += bytes_of(f, p->graph->nodes.at[i]) / HELD_SHARE;
    for (int k = 0; k < p->kernels.n; k++) {
        const PlanKernel *pk = &p->kernels.at[k];
        if (l.of[k] < 0 || (pk->kind != KERNEL_MAP && pk->kind != KERNEL_ROW) || !can_be_member(f, pk)) continue;
        all[n++] = (Candidate){l.of[k], k, kernel_hash(f->finder, k)};
    }
    align_levels(&l, all, n);
    for (int i = 0, head = -1; i < n; i++) {
        const bool same = i && all[i].hash == all[i - 1].hash && all[i].level == all[i - 1].level;
        if (!same || !joins_late(f, head, all[i].kernel)) head = all[i].kernel;
    }
}

/* ---- the new plan ------------------------------------------------------------------------------------------------ */
typedef VEC(Node *) Nodes;
typedef VEC(int) Counts;

/* What is the same in all members stands once, what is not as often as there are members. */
static void gather(Families *f, const int *member, int n, bool outputs, Nodes *nodes, Counts *family) {
    const PlanKernel *first = &f->p->kernels.at[member[0]];
    for (int i = 0; i < (outputs ? first->outputs.n : first->reads.n); i++) {
        bool one = true;
        Node *x[MAX_FAMILY];
        for (int m = 0; m < n; m++) {
            const PlanKernel *k = &f->p->kernels.at[member[m]];
            x[m] = outputs ? k->outputs.at[i] : k->reads.at[i];
            one &= x[m] == x[0];
        }
        for (int m = 0; m < (one ? 1 : n); m++) {
            vec_push(f->p->arena, *nodes, x[m]);
            vec_push(f->p->arena, *family, one || m ? 0 : n);
        }
    }
}

static PlanKernel family_of(Families *f, int head) {
    PlanKernel k = f->p->kernels.at[head];
    Nodes reads = {0}, outputs = {0};
    Counts family = {0};
    int member[MAX_FAMILY], n = 0;
    for (int m = head; m >= 0; m = f->next[m]) member[n++] = m;
    gather(f, member, n, false, &reads, &family);
    gather(f, member, n, true, &outputs, &family);
    k.members = n;
    k.family = family.at;
    memcpy(&k.reads, &reads, sizeof reads);
    memcpy(&k.outputs, &outputs, sizeof outputs);
    return k;
}

static void renumber(const Families *f) {
    Plan *p = f->p;
    int *number = ARENA_ARRAY(f->arena, int, p->kernels.n + 1), n = 0;
    PlanKernel *kernels = ARENA_ARRAY(p->arena, PlanKernel, p->kernels.n + 1);
    for (int k = 0; k < p->kernels.n; k++) {
        number[k] = f->head[k] == k ? n : number[f->head[k]];
        if (f->head[k] == k) kernels[n++] = f->next[k] < 0 ? p->kernels.at[k] : family_of((Families *)f, k);
    }
    for (int i = 0; i < p->graph->nodes.n; i++) {
        if (p->kernel_of[i] >= 0) p->kernel_of[i] = number[p->kernel_of[i]];
        if (p->buffer[i].writer >= 0) p->buffer[i].writer = number[p->buffer[i].writer];
    }
    memcpy(p->kernels.at, kernels, sizeof *kernels * (size_t)n);
    p->kernels.n = n;
}

void pass_family(PassContext *c, Plan *p) {
    const int n = p->kernels.n;
    if (n < 2 || !target_has_families(c->target) || c->disabled[PASS_family] || c->disabled[PASS_fuse]) return;
    Families f = {.c = c, .arena = c->arena, .p = p, .graph = kernel_graph(c->arena, p), .finder = kernel_finder(c->arena, p)};
    f.head = ARENA_ARRAY(c->arena, int, n + 1);
    f.next = ARENA_ARRAY(c->arena, int, n + 1);
    f.stamp = ARENA_ARRAY(c->arena, int, n + 1);
    f.wanted = plan_leaves_out(p->graph) ? plan_wanted_by_kernel(c->arena, p, NULL) : ARENA_ARRAY(c->arena, uint64_t, n + 1);
    for (int k = 0; k < n; k++) f.head[k] = k, f.next[k] = -1;
    join_products(&f);
    join_late(&f);
    renumber(&f);
}
