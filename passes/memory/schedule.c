/* schedule: the order of kernels for least peak memory.
 *
 * Needs settled homes and the bytes of buffers.  List scheduling with a heap: of the kernels whose
 * predecessors are done, take the one that a policy ranks first; three policies run and the order with the
 * least peak is kept.  What a kernel frees changes as its co-readers run, so ranks are updated when one
 * reader of a buffer is left.  O((kernels + reads) log kernels).
 *
 * Recomputed segments must not be hoisted, nor chunks run side by side: kernels of one recomputation, or of one chunk, wait, behind a
 * barrier, for all backward kernels, and those of chunks, that the program has between the start of the one before and its own. */
#include "passes/memory/memory.h"
#include "passes/plan/kernel_graph.h"
#include <string.h>

typedef enum {
    POLICY_EAGER,  /* program order, but first what takes nothing, then what frees at least as much as it takes */
    POLICY_GREEDY, /* least growth first */
    POLICY_GIVEN,  /* program order */
    POLICY_COUNT
} Policy;

/* ---- heap of ready kernels ------------------------------------------------------------------------ */
typedef struct HeapItem {
    int64_t rank;
    int kernel;
} HeapItem;
typedef VEC(HeapItem) Heap;

static bool item_less(HeapItem a, HeapItem b) { return a.rank != b.rank ? a.rank < b.rank : a.kernel < b.kernel; }

static void heap_push(Arena *a, Heap *h, HeapItem x) {
    vec_push(a, *h, x);
    int i = h->n - 1;
    for (; i && item_less(x, h->at[(i - 1) / 2]); i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = x;
}

static HeapItem heap_pop(Heap *h) {
    HeapItem top = h->at[0], x = h->at[--h->n];
    int i = 0;
    for (int child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && item_less(h->at[child + 1], h->at[child])) child++;
        if (!item_less(h->at[child], x)) break;
        h->at[i] = h->at[child];
    }
    h->at[i] = x;
    return top;
}

/* ---- the problem ------------------------------------------------------------------------------------- */
typedef struct Edge {
    int from, to;
} Edge;
typedef VEC(Edge) EdgeList;

/* Nodes 0 .. n_kernels-1 are kernels, the rest barriers: done as soon as they can be. */
typedef struct Problem {
    Arena *arena;
    int n_kernels, n_nodes;
    EdgeList edges;
    int *first, *succ, *need; /* successor lists; number of edges into each node */
    const int *position;      /* program order */
    int n_values, *value_of;  /* the arena's buffers, numbered from 0; by node id: which, plus one, or 0 */
    int *reads_first;         /* kernel -> values it reads, each once */
    IntList reads;
    int64_t *bytes;           /* by value */
    int *n_readers;           /* by value: kernels that read it */
    int64_t *reader_sum;      /* by value: sum of those kernels, so that the last one left is known */
    int64_t *taken,
        *freed; /* by kernel: bytes that appear when it starts; that are gone after it, unread outputs and workspace */
} Problem;

static void build_successors(Problem *q) {
    q->first = ARENA_ARRAY(q->arena, int, q->n_nodes + 2);
    q->succ = ARENA_ARRAY(q->arena, int, q->edges.n + 1);
    q->need = ARENA_ARRAY(q->arena, int, q->n_nodes + 1);
    for (int i = 0; i < q->edges.n; i++) q->first[q->edges.at[i].from + 2]++, q->need[q->edges.at[i].to]++;
    for (int k = 1; k <= q->n_nodes; k++) q->first[k + 1] += q->first[k];
    for (int i = 0; i < q->edges.n; i++) q->succ[q->first[q->edges.at[i].from + 1]++] = q->edges.at[i].to;
}

static void number_values(Problem *q, const Plan *p) {
    q->value_of = ARENA_ARRAY(q->arena, int, p->graph->nodes.n + 1);
    for (int k = 0; k < q->n_kernels; k++)
        for (int i = 0; i < p->kernels.at[k].outputs.n; i++) {
            const int id = p->kernels.at[k].outputs.at[i]->id;
            if (p->buffer[id].home == HOME_ARENA) q->value_of[id] = ++q->n_values;
        }
}

static void collect_reads(Problem *q, const Plan *p) {
    q->reads_first = ARENA_ARRAY(q->arena, int, q->n_kernels + 1);
    q->n_readers = ARENA_ARRAY(q->arena, int, q->n_values + 1);
    q->reader_sum = ARENA_ARRAY(q->arena, int64_t, q->n_values + 1);
    int *seen = ARENA_ARRAY(q->arena, int, q->n_values + 1);
    NodeList needs = {0};
    for (int k = 0; k < q->n_kernels; k++) {
        plan_needs(q->arena, p, &p->kernels.at[k], &needs);
        for (int i = 0; i < needs.n; i++) {
            const int id = needs.at[i]->id, v = q->value_of[id] - 1;
            if (v < 0 || p->buffer[id].writer == k || seen[v] == k + 1) continue;
            seen[v] = k + 1;
            vec_push(q->arena, q->reads, v);
            q->n_readers[v]++;
            q->reader_sum[v] += k;
        }
        q->reads_first[k + 1] = q->reads.n;
    }
}

static void collect_bytes(Problem *q, const Plan *p, int64_t align) {
    q->bytes = ARENA_ARRAY(q->arena, int64_t, q->n_values + 1);
    q->taken = ARENA_ARRAY(q->arena, int64_t, q->n_kernels + 1);
    q->freed = ARENA_ARRAY(q->arena, int64_t, q->n_kernels + 1);
    for (int k = 0; k < q->n_kernels; k++) {
        const PlanKernel *pk = &p->kernels.at[k];
        q->taken[k] = q->freed[k] = align_up(pk->workspace, align);
        for (int i = 0; i < pk->outputs.n; i++) {
            const int id = pk->outputs.at[i]->id, v = q->value_of[id] - 1;
            if (v < 0) continue;
            q->bytes[v] = align_up(p->buffer[id].bytes, align);
            if (!plan_overwritten(p, pk->outputs.at[i])) q->taken[k] += q->bytes[v];
            if (!q->n_readers[v]) q->freed[k] += q->bytes[v];
        }
    }
    for (int i = 0; i < p->graph->nodes.n; i++) { /* freed with what goes over it */
        const Node *old = plan_overwritten(p, p->graph->nodes.at[i]);
        if (old && q->value_of[old->id]) q->bytes[q->value_of[old->id] - 1] = 0;
    }
}

static Problem problem_new(Arena *a, const Plan *p, int64_t align) {
    Problem q = {.arena = a, .n_kernels = p->kernels.n, .n_nodes = p->kernels.n};
    KernelGraph g = kernel_graph(a, p);
    for (int k = 0; k < g.n; k++)
        for (int i = g.first[k]; i < g.first[k + 1]; i++) vec_push(a, q.edges, ((Edge){k, g.succ[i] / 2}));
    build_successors(&q);
    int *identity = ARENA_ARRAY(a, int, q.n_kernels + 1);
    for (int k = 0; k < q.n_kernels; k++) identity[k] = k;
    q.position = identity;
    number_values(&q, p);
    collect_reads(&q, p);
    collect_bytes(&q, p, align);
    return q;
}

/* ---- list scheduling -------------------------------------------------------------------------------------- */
typedef struct Run {
    const Problem *q;
    Policy policy;
    int *need, *left;      /* edges and readers still open */
    int64_t *sum, *growth; /* reader_sum of the open readers; live bytes after minus before, by kernel */
    bool *ready, *done;
    Heap heap;
    int *order, n_order;
    int64_t live, peak;
} Run;

static int64_t rank_of(const Run *r, int k) {
    if (r->policy == POLICY_GREEDY) return r->growth[k];
    int64_t first = r->policy != POLICY_EAGER || r->growth[k] > 0 ? 0 : r->q->taken[k] ? 1 : 2;
    return r->q->position[k] - first * r->q->n_kernels;
}

/* A node has no open edges: kernels wait in the heap, barriers are done at once. */
static void make_ready(Run *r, int node) {
    if (node < r->q->n_kernels) {
        r->ready[node] = true;
        heap_push(r->q->arena, &r->heap, (HeapItem){rank_of(r, node), node});
        return;
    }
    for (int i = r->q->first[node]; i < r->q->first[node + 1]; i++)
        if (!--r->need[r->q->succ[i]]) make_ready(r, r->q->succ[i]);
}

/* One reader of a buffer is left: it will free the buffer. */
static void give_to_last_reader(Run *r, int v) {
    int last = (int)r->sum[v];
    r->growth[last] -= r->q->bytes[v];
    if (r->ready[last]) heap_push(r->q->arena, &r->heap, (HeapItem){rank_of(r, last), last});
}

static void execute(Run *r, int k) {
    const Problem *q = r->q;
    r->done[k] = true;
    r->order[r->n_order++] = k;
    r->live += q->taken[k];
    if (r->live > r->peak) r->peak = r->live;
    r->live -= q->freed[k];
    for (int i = q->reads_first[k]; i < q->reads_first[k + 1]; i++) {
        const int v = q->reads.at[i];
        r->sum[v] -= k;
        if (!--r->left[v]) r->live -= q->bytes[v];
        if (r->left[v] == 1) give_to_last_reader(r, v);
    }
    for (int i = q->first[k]; i < q->first[k + 1]; i++)
        if (!--r->need[q->succ[i]]) make_ready(r, q->succ[i]);
}

static Run run_new(const Problem *q, Policy policy) {
    Arena *a = q->arena;
    Run r = {.q = q, .policy = policy};
    r.need = arena_dup(a, q->need, sizeof(int) * (size_t)(q->n_nodes + 1));
    r.left = arena_dup(a, q->n_readers, sizeof(int) * (size_t)(q->n_values + 1));
    r.sum = arena_dup(a, q->reader_sum, sizeof(int64_t) * (size_t)(q->n_values + 1));
    r.growth = ARENA_ARRAY(a, int64_t, q->n_kernels + 1);
    r.ready = ARENA_ARRAY(a, bool, q->n_kernels + 1);
    r.done = ARENA_ARRAY(a, bool, q->n_kernels + 1);
    r.order = ARENA_ARRAY(a, int, q->n_kernels + 1);
    for (int k = 0; k < q->n_kernels; k++) {
        r.growth[k] = q->taken[k] - q->freed[k];
        for (int i = q->reads_first[k]; i < q->reads_first[k + 1]; i++)
            if (q->n_readers[q->reads.at[i]] == 1) r.growth[k] -= q->bytes[q->reads.at[i]];
    }
    return r;
}

static Run list_schedule(const Problem *q, Policy policy) {
    Run r = run_new(q, policy);
    for (int k = 0; k < q->n_nodes; k++)
        if (!q->need[k]) make_ready(&r, k);
    while (r.heap.n) {
        HeapItem x = heap_pop(&r.heap);
        if (!r.done[x.kernel] && x.rank == rank_of(&r, x.kernel)) execute(&r, x.kernel);
    }
    return r;
}

/* ---- barriers before recomputations ---------------------------------------------------------------------- */
static int remat_of(const PlanKernel *k) {
    int remat = 0;
    for (int i = 0; i < k->outputs.n; i++)
        if (k->outputs.at[i]->remat > remat) remat = k->outputs.at[i]->remat;
    return remat;
}

/* Adds one barrier per recomputation, in program order. */
static void add_barriers(Problem *q, const Plan *p, const int *program) {
    int n_groups = 0;
    for (int k = 0; k < q->n_kernels; k++) {
        int remat = remat_of(&p->kernels.at[k]);
        if (remat >= n_groups) n_groups = remat + 1;
    }
    int *barrier = ARENA_ARRAY(q->arena, int, n_groups + 1); /* by remat number; 0: not met yet */
    VEC(int) waiting = {0};                                  /* backward kernels since the last barrier */
    for (int at = 0; at < q->n_kernels; at++) {
        int k = program[at], remat = remat_of(&p->kernels.at[k]);
        if (remat && !barrier[remat]) {
            barrier[remat] = q->n_nodes++;
            for (int i = 0; i < waiting.n; i++) vec_push(q->arena, q->edges, ((Edge){waiting.at[i], barrier[remat]}));
            waiting.n = 0;
        }
        if (remat) vec_push(q->arena, q->edges, ((Edge){barrier[remat], k}));
        if (remat || p->kernels.at[k].phase == PHASE_BACKWARD) vec_push(q->arena, waiting, k);
    }
    if (q->n_nodes > q->n_kernels) build_successors(q);
}

static int *inverse(Arena *a, const int *order, int n) {
    int *position = ARENA_ARRAY(a, int, n + 1);
    for (int i = 0; i < n; i++) position[order[i]] = i;
    return position;
}

void pass_schedule(PassContext *c, Plan *p) {
    Arena *scratch = arena_new();
    const int n = p->kernels.n;
    Problem q = problem_new(scratch, p, c->target->align);
    Run best = list_schedule(&q, POLICY_GIVEN);
    q.position = inverse(scratch, best.order, n);
    add_barriers(&q, p, best.order);
    for (int policy = 0; policy < POLICY_COUNT && !c->disabled[PASS_schedule]; policy++) {
        Run r = list_schedule(&q, (Policy)policy);
        if (policy == 0 || r.peak < best.peak) best = r;
    }
    p->order = arena_dup(p->arena, best.order, sizeof(int) * (size_t)(n + 1));
    arena_free(scratch);
}
