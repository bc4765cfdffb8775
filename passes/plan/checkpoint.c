/* checkpoint: what is kept for the backward pass and what is computed again (mode sqrt).
 *
 * After Chen, Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016), on any graph: the
 * forward nodes, in order, are cut into segments where the bytes alive across the cut are few.  What crosses
 * a cut (the frontier) is kept.  Everything else that the backward pass needs is cloned, segment by segment,
 * right before the first backward node that needs the segment; the last segment is never recomputed.
 *
 * Needs: the plan of a first fuse (what is inlined costs nothing to recompute), entries grad and step.
 * Keeps: the operations, so that gradients are equal to the bit.  Gives: a graph to be fused again, in which
 * clones carry `remat`, numbers from those of chunks on, and phase BACKWARD. */
#include "passes/pass.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

typedef struct Checkpoint {
    Arena *arena;
    const Plan *p;
    const Graph *g;
    int n_forward;
    int *position;     /* by node: place among forward nodes that are not sources, or -1 */
    int *last_use;     /* by node: position of the last forward kernel that reads it, or -1 */
    bool *needed;      /* by node: a forward value that backward nodes read, inlined ones followed up */
    int64_t *crossing; /* by position t: bytes that live across a cut before t */
    int64_t *saved;    /* by position t: bytes that nodes before t save for the backward pass */
    int *segment;      /* by position */
} Checkpoint;

/* ---- what the backward pass needs ------------------------------------------------------------------------- */
static bool is_value(const Checkpoint *c, const Node *n) { return c->p->kernel_of[n->id] >= 0; }

/* Lives outside the arena anyway: a source, a new state, an output. */
static bool is_free(const Checkpoint *c, const Node *n) {
    return c->position[n->id] < 0 ||
           (is_value(c, n) && c->p->buffer[n->id].home != HOME_ARENA && c->p->buffer[n->id].home != HOME_NONE);
}

static int64_t kept_bytes(const Checkpoint *c, const Node *n) {
    return !is_value(c, n) || is_free(c, n) ? 0 : node_bytes(n);
}

/* Of chunks (chunk.c), whose backward nodes stand between them: used where they are made, and never recomputed. */
static bool is_chunked(const Node *n) { return n->phase == PHASE_FORWARD && n->remat; }

static void number_forward(Checkpoint *c) {
    for (int i = 0; i < c->g->nodes.n; i++) {
        const Node *n = c->g->nodes.at[i];
        bool forward = n->phase == PHASE_FORWARD && op_info[n->op].cls != CLASS_SOURCE && !is_chunked(n);
        c->position[i] = forward ? c->n_forward++ : -1;
        c->last_use[i] = -1;
    }
}

static void find_uses(Checkpoint *c) {
    for (int i = c->g->nodes.n - 1; i >= 0; i--) {
        const Node *n = c->g->nodes.at[i];
        bool forward = c->position[i] >= 0, value = is_value(c, n);
        int at = value || c->needed[i] ? c->position[i] : -1;
        if (!value && c->last_use[i] > at) at = c->last_use[i];
        if (is_chunked(n)) at = c->n_forward - 1;
        for (int k = 0; k < n->n_in; k++) {
            int in = n->in[k]->id;
            if (n->phase != PHASE_FORWARD || (forward && !value && c->needed[i])) c->needed[in] = true;
            if ((forward || is_chunked(n)) && at > c->last_use[in]) c->last_use[in] = at;
        }
    }
}

static void measure(Checkpoint *c) {
    int64_t *delta = ARENA_ARRAY(c->arena, int64_t, c->n_forward + 2);
    for (int i = 0; i < c->g->nodes.n; i++) {
        const Node *n = c->g->nodes.at[i];
        int at = c->position[i];
        if (at < 0) continue;
        int64_t bytes = kept_bytes(c, n);
        if (c->needed[i]) c->saved[at + 1] = bytes;
        if (c->last_use[i] <= at) continue;
        delta[at + 1] += bytes;
        delta[c->last_use[i] + 1] -= bytes;
    }
    for (int t = 0; t <= c->n_forward; t++) {
        if (t) c->saved[t] += c->saved[t - 1];
        c->crossing[t] = delta[t] + (t ? c->crossing[t - 1] : 0);
    }
}

/* ---- where to cut -------------------------------------------------------------------------------------------- */
typedef VEC(int) Cuts; /* increasing positions */

static int first_past(const Checkpoint *c, double bytes) {
    int lo = 0;
    for (int hi = c->n_forward; lo < hi;) {
        int mid = (lo + hi) / 2;
        if ((double)c->saved[mid] < bytes)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* `segments` segments that save about the same, each cut moved to the fewest bytes in its neighbourhood. */
static Cuts cut_evenly(const Checkpoint *c, int segments) {
    Cuts cuts = {0};
    double share = (double)c->saved[c->n_forward] / segments;
    for (int s = 1; s < segments; s++) {
        int from = first_past(c, share * (s - 0.5)), to = first_past(c, share * (s + 0.5)), best = 0; /* 0: none */
        int middle = first_past(c, share * s);
        for (int t = from; t < to; t++) {
            if (t <= 0 || (cuts.n && t <= vec_last(cuts))) continue;
            bool nearer = best && abs(t - middle) < abs(best - middle);
            if (!best || c->crossing[t] < c->crossing[best] || (c->crossing[t] == c->crossing[best] && nearer))
                best = t;
        }
        if (best) vec_push(c->arena, cuts, best);
    }
    return cuts;
}

static void assign_segments(const Checkpoint *c, const Cuts *cuts) {
    for (int t = 0, s = 0; t < c->n_forward; t++) {
        if (s < cuts->n && t >= cuts->at[s]) s++;
        c->segment[t] = s;
    }
}

/* Crosses a cut: the node's last reader stands in a later segment. */
static bool is_frontier(const Checkpoint *c, const Node *n) {
    int at = c->position[n->id], last = c->last_use[n->id];
    return at >= 0 && is_value(c, n) && last > at && c->segment[last] > c->segment[at];
}

/* Kept values plus the largest segment, in bytes. */
static int64_t estimate(const Checkpoint *c, const Cuts *cuts) {
    int64_t kept = 0, largest = 0;
    int64_t *inside = ARENA_ARRAY(c->arena, int64_t, cuts->n + 2);
    assign_segments(c, cuts);
    for (int i = 0; i < c->g->nodes.n; i++) {
        const Node *n = c->g->nodes.at[i];
        if (c->position[i] < 0) continue;
        if (is_frontier(c, n))
            kept += kept_bytes(c, n);
        else if (c->needed[i])
            inside[c->segment[c->position[i]]] += kept_bytes(c, n);
    }
    for (int s = 0; s <= cuts->n; s++)
        if (inside[s] > largest) largest = inside[s];
    return kept + largest;
}

/* About the square root of the number of saved values; neighbours by factors of 2^(1/2) are tried too. */
static Cuts choose_cuts(const Checkpoint *c) {
    int n_saved = 0;
    for (int i = 0; i < c->g->nodes.n; i++)
        n_saved += c->position[i] >= 0 && c->needed[i] && kept_bytes(c, c->g->nodes.at[i]);
    Cuts best = {0};
    int64_t least = c->saved[c->n_forward];
    for (int step = -4; step <= 4; step++) {
        int segments = (int)(sqrt((double)n_saved) * pow(2, 0.5 * step) + 0.5);
        Cuts cuts = cut_evenly(c, segments);
        int64_t bytes = estimate(c, &cuts);
        if (bytes >= least) continue;
        least = bytes;
        best = cuts;
    }
    return best;
}

/* ---- cloning ----------------------------------------------------------------------------------------------------- */
typedef VEC(const Node *) ConstNodes;

typedef struct Rebuild {
    const Checkpoint *c;
    Graph *out;
    Node **map;   /* old id -> new node */
    Node **clone; /* old id -> its newest clone, made for segment `clone_segment` (-1: none) */
    int *clone_segment;
    Node **own_clone; /* old id -> its clone in its own segment, which backward nodes read */
    int *mark;        /* old id -> segment + 1 while a segment's closure is collected */
    bool *cloned;     /* by segment */
    ConstNodes *wanted; /* by segment: what backward nodes read of it */
} Rebuild;

static Node *add_node(Rebuild *r, const Node *n, Node *const *in, Phase phase, int remat) {
    Node *copy = graph_node_like(r->out, n, in);
    copy->phase = phase;
    copy->remat = remat;
    return copy;
}

/* segment -1: the node itself; else its clone for that segment. */
static Node *copy_node(Rebuild *r, const Node *n, int segment) {
    Node **in = ARENA_ARRAY(r->out->arena, Node *, n->n_in);
    for (int k = 0; k < n->n_in; k++) {
        int id = n->in[k]->id;
        in[k] = segment >= 0 && r->clone_segment[id] == segment ? r->clone[id] : r->map[id];
        assert(in[k]);
    }
    return segment >= 0 ? add_node(r, n, in, PHASE_BACKWARD, r->c->g->chunks + segment + 1) : add_node(r, n, in, n->phase, n->remat);
}

/* Segment in whose recomputation a backward node finds this value; -1: it is there. */
static int recomputed_in(const Checkpoint *c, const Node *n, int n_cuts) {
    if (is_free(c, n) || is_frontier(c, n)) return -1;
    int s = c->segment[c->position[n->id]];
    return s < n_cuts ? s : -1;
}

/* Must `n` be cloned for segment s?  Memory of other segments is there; inlined nodes follow what they read. */
static bool belongs(const Rebuild *r, const Node *n, int s) {
    const Checkpoint *c = r->c;
    if (is_free(c, n) || is_frontier(c, n)) return false;
    return !is_value(c, n) || c->segment[c->position[n->id]] == s;
}

static int by_id(const void *x, const void *y) {
    const Node *const *a = x, *const *b = y;
    return (*a)->id - (*b)->id;
}

/* Everything of segment s that its wanted values depend on, in graph order. */
static void clone_segment(Rebuild *r, int s) {
    ConstNodes pending = {0};
    for (int i = 0; i < r->wanted[s].n; i++) {
        const Node *n = r->wanted[s].at[i];
        if (r->mark[n->id] != s + 1) vec_push(r->c->arena, pending, n);
        r->mark[n->id] = s + 1;
    }
    for (int i = 0; i < pending.n; i++)
        for (int k = 0; k < pending.at[i]->n_in; k++) {
            const Node *in = pending.at[i]->in[k];
            if (r->mark[in->id] == s + 1 || !belongs(r, in, s)) continue;
            r->mark[in->id] = s + 1;
            vec_push(r->c->arena, pending, in);
        }
    if (pending.n) qsort(pending.at, (size_t)pending.n, sizeof *pending.at, by_id);
    for (int i = 0; i < pending.n; i++) {
        const Node *n = pending.at[i];
        bool same = !is_value(r->c, n); /* an inlined node over kept values only */
        for (int k = 0; k < n->n_in; k++) same = same && r->clone_segment[n->in[k]->id] != s;
        if (same) continue;
        r->clone[n->id] = copy_node(r, n, s);
        r->clone_segment[n->id] = s;
        if (r->c->segment[r->c->position[n->id]] == s) r->own_clone[n->id] = r->clone[n->id];
    }
    r->cloned[s] = true;
}

static void collect_wanted(Rebuild *r, int n_cuts) {
    const Graph *g = r->c->g;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->phase == PHASE_FORWARD) continue;
        for (int k = 0; k < n->n_in; k++) {
            int s = recomputed_in(r->c, n->in[k], n_cuts);
            if (s >= 0) vec_push(r->c->arena, r->wanted[s], n->in[k]);
        }
    }
}

/* A backward or update node reads clones of what is not kept. */
static Node *rebuild_reader(Rebuild *r, const Node *n, int n_cuts) {
    Node **in = ARENA_ARRAY(r->out->arena, Node *, n->n_in);
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = n->in[k];
        int s = recomputed_in(r->c, x, n_cuts);
        if (s >= 0 && !r->cloned[s]) clone_segment(r, s);
        in[k] = s >= 0 && r->own_clone[x->id] ? r->own_clone[x->id] : r->map[x->id];
    }
    return add_node(r, n, in, n->phase, n->remat);
}

/* By id: forward, or read by what is: an expression that both sweeps have is one node, of either. */
static bool *forward_nodes(const Checkpoint *c) {
    bool *forward = ARENA_ARRAY(c->arena, bool, c->g->nodes.n + 1);
    for (int i = c->g->nodes.n - 1; i >= 0; i--) {
        const Node *n = c->g->nodes.at[i];
        forward[i] |= n->phase == PHASE_FORWARD;
        for (int k = 0; k < n->n_in && forward[i]; k++) forward[n->in[k]->id] = true;
    }
    return forward;
}

static Graph *rebuild(const Checkpoint *c, int n_cuts) {
    const Graph *g = c->g;
    int n = g->nodes.n;
    Rebuild r = {.c = c, .out = graph_new_from(g->arena, g)};
    r.map = ARENA_ARRAY(c->arena, Node *, n);
    r.clone = ARENA_ARRAY(c->arena, Node *, n);
    r.own_clone = ARENA_ARRAY(c->arena, Node *, n);
    r.clone_segment = ARENA_ARRAY(c->arena, int, n);
    r.mark = ARENA_ARRAY(c->arena, int, n);
    r.cloned = ARENA_ARRAY(c->arena, bool, n_cuts + 1);
    r.wanted = ARENA_ARRAY(c->arena, ConstNodes, n_cuts + 1);
    for (int i = 0; i < n; i++) r.clone_segment[i] = -1;
    collect_wanted(&r, n_cuts);
    const bool *forward = forward_nodes(c);
    /* forward nodes first: one may stand behind a backward node, whose reader clones all of a segment */
    for (int back = 0; back < 2; back++)
        for (int i = 0; i < n; i++) {
            const Node *x = g->nodes.at[i];
            if (x->op == OP_ACCUMULATE || forward[i] == back) continue; /* fuse adds its own flag */
            r.map[i] = back ? rebuild_reader(&r, x, n_cuts) : copy_node(&r, x, -1);
        }
    for (int i = 0; i < g->results.n; i++)
        graph_result(r.out, g->results.at[i].kind, g->results.at[i].decl, r.map[g->results.at[i].value->id]);
    graph_prune(r.out); /* a value that only readers of the backward sweep had, now has none */
    return r.out;
}

Graph *pass_checkpoint(PassContext *context, Plan *p) {
    Graph *g = p->graph;
    if (context->checkpoint == CHECKPOINT_NONE || (g->entry != ENTRY_GRAD && g->entry != ENTRY_STEP)) return g;
    int n = g->nodes.n;
    Checkpoint c = {.arena = arena_new(), .p = p, .g = g};
    c.position = ARENA_ARRAY(c.arena, int, n + 1);
    c.last_use = ARENA_ARRAY(c.arena, int, n + 1);
    c.needed = ARENA_ARRAY(c.arena, bool, n + 1);
    number_forward(&c);
    c.crossing = ARENA_ARRAY(c.arena, int64_t, c.n_forward + 2);
    c.saved = ARENA_ARRAY(c.arena, int64_t, c.n_forward + 2);
    c.segment = ARENA_ARRAY(c.arena, int, c.n_forward + 2);
    find_uses(&c);
    measure(&c);
    Cuts cuts = choose_cuts(&c);
    if (cuts.n) {
        assign_segments(&c, &cuts);
        g = rebuild(&c, cuts.n);
    }
    arena_free(c.arena);
    return g;
}
