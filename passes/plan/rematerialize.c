/* rematerialize: what a kernel of the backward pass computes again from what it reads anyway is not kept for it.
 *
 *     u = x Wf;  h = gelu(u);  y = h Wp          du = gelu'(u) * (dy Wp'),  dWp = h' dy
 *
 * Kept are u and h, and the tanh that both gelu and its derivative have.  The kernel of du reads u at each element: it computes the
 * tanh and h again, and writes h for the product after it.  A saved activation costs memory from the forward to the backward pass;
 * one that is written again lives from a kernel to the next.  (Chen et al., "Training Deep Nets with Sublinear Memory Cost",
 * arXiv:1604.06174, section 4.1, drops the results of cheap operations; Korthikanti et al., arXiv:2205.05198, section 5.)
 *
 * A value is dropped if it is elementwise in what is kept for the backward pass besides, takes few instructions, and if some
 * backward kernel over the same index space, the HOST, reads all of that which is not much smaller, or would read one of it
 * instead of the value.  Its clone stands behind the node that opens the host, so that fuse puts it into that kernel; who reads it
 * comes after.
 *
 * Needs: the plan of a first fuse, entries grad and step.  Keeps: the operations, so that gradients are equal to the bit.  Gives: a
 * graph to be fused again.  Its constants are from `./dev bench ablation`. */
#include "passes/algebra/access.h"
#include "passes/pass.h"
#include <assert.h>
#include <string.h>

enum {
    MOST_NODES = 64,     /* of a value and what it is computed from */
    MOST_EXPENSIVE = 2,  /* of them, a division or more; also of all that one kernel computes again: it has registers for its own */
    MOST_LEAVES = 6,     /* large tensors that it is computed from */
    MOST_HOSTS = 8,      /* kernels tried, the first readers of a leaf */
    MOST_STEPS = 2000,   /* of the search for a reader before the host; what is further away is in another layer */
    MUCH_SMALLER = 8
};


typedef struct Remat {
    Arena *arena;
    const Plan *p;
    const Graph *g;
    Uses uses;
    bool *saved;       /* by node: a forward value in memory that a backward kernel reads */
    int *host;         /* by node: 1 + the kernel whose clone the backward pass reads, or 0: it is kept */
    bool *at_hand;     /* by node: its only reader computes it as it reads */
    bool *follows;     /* by node: it has no memory, and is computed from what is dropped */
    IntList *readers;  /* by node: backward kernels that read it, in order */
    int *stamp, now;   /* by node: 2 * the walk that came there last, and 1 if by way of another kernel */
    int *expensive;    /* by kernel: of what it computes again */
    int *on_way;       /* by kernel: the last such walk that came through it */
    NodeList pending;
    int n_dropped;
    /* rebuilding */
    Graph *out;
    Node **map;        /* old id -> new node; NULL: it waits */
    Node **clone;      /* old id -> its newest clone, for kernel `clone_for` - 1 */
    int *clone_for;
    Node **own;        /* old id: what the backward pass reads for what is dropped, or follows that */
    NodeList *opens;   /* by kernel: what is dropped for it */
    NodeList *awaits;  /* by kernel: what it reads that another one writes again */
    NodeList waiting;  /* old nodes, in order */
} Remat;

/* What one value is computed from. */
typedef struct Sources {
    Node *leaf[MOST_LEAVES];
    int n_leaves, nodes, expensive;
    bool fits, activation; /* activation: some leaf is no parameter and no state, of which a copy in 16 bits is soon read again */
} Sources;

static bool much_smaller(const Node *x, const Node *than) {
    return shape_elements(*x->shape) * MUCH_SMALLER <= shape_elements(*than->shape);
}

static bool in_arena(const Remat *r, const Node *n) { return r->p->buffer[n->id].home == HOME_ARENA; }

static void find_saved(Remat *r) {
    NodeList needs = {0};
    for (int k = 0; k < r->p->kernels.n; k++) {
        const PlanKernel *pk = &r->p->kernels.at[k];
        if (pk->phase == PHASE_FORWARD) continue;
        plan_needs(r->arena, r->p, pk, &needs);
        for (int i = 0; i < needs.n; i++) {
            const Node *x = needs.at[i];
            vec_push(r->arena, r->readers[x->id], k);
            r->saved[x->id] |= x->phase == PHASE_FORWARD && in_arena(r, x);
        }
    }
}

/* ---- whether a value can be dropped ------------------------------------------------------------------------------ */
static void add_leaf(Sources *c, Node *x) {
    for (int i = 0; i < c->n_leaves; i++)
        if (c->leaf[i] == x) return;
    if (c->n_leaves == MOST_LEAVES) c->fits = false;
    else c->leaf[c->n_leaves++] = x;
}

/* Does the walk end at x: is it there when the backward pass runs? */
static bool is_there(const Remat *r, const Node *x) {
    return op_is_memory(x->op) || (r->saved[x->id] && !r->host[x->id]);
}

/* Is it read where it is, when v is computed again? */
static bool stays(const Remat *r, const Node *v, const Node *n) {
    return n != v && (is_there(r, n) || (in_arena(r, n) && op_info[n->op].cls != CLASS_ELEMENT && much_smaller(n, v)));
}

static void walk_cone(Remat *r, const Node *v, Node *n, Sources *c) {
    const OpClass cls = op_info[n->op].cls;
    if (r->stamp[n->id] == 2 * r->now || !c->fits) return;
    r->stamp[n->id] = 2 * r->now;
    if (stays(r, v, n)) {
        if (!much_smaller(n, v)) add_leaf(c, n), c->activation |= n->op != OP_PARAM && n->op != OP_STATE;
        return;
    }
    if (n->op == OP_CONST) return;
    const bool moves = cls == CLASS_MOVE && (n->op == OP_RESHAPE || much_smaller(n->in[0], v));
    const bool counted = n->op == OP_RANDOM || n->op == OP_IOTA; /* by the element's number, at any time */
    c->expensive += op_is_expensive(n->op);
    if ((cls != CLASS_ELEMENT && !moves && !counted) || ++c->nodes > MOST_NODES || c->expensive > MOST_EXPENSIVE) c->fits = false;
    for (int k = 0; k < n->n_in; k++) walk_cone(r, v, n->in[k], c);
}

static Sources cone_of(Remat *r, Node *v) {
    Sources c = {.fits = true};
    r->now++;
    walk_cone(r, v, v, &c);
    c.fits = c.fits && c.activation;
    return c;
}

static bool reads(const Remat *r, int kernel, const Node *x) {
    for (int i = 0; i < r->readers[x->id].n; i++)
        if (r->readers[x->id].at[i] == kernel) return true;
    return false;
}

/* Over the index space of v, elementwise? */
static bool has_space(const PlanKernel *k, const Node *v) {
    if (k->kind != KERNEL_MAP && k->kind != KERNEL_ROW && k->kind != KERNEL_CONTRACT) return false;
    if (k->phase != PHASE_BACKWARD || k->sample) return false;
    for (int i = 0; i < k->nodes.n; i++) {
        const Node *n = k->nodes.at[i].node;
        const bool walks = op_info[n->op].cls == CLASS_ELEMENT || (k->kind == KERNEL_CONTRACT && i == 0);
        if (walks && n->phase == PHASE_BACKWARD && !n->remat && shape_same(n->shape, v->shape)) return true;
    }
    return false;
}

static void look_at(Remat *r, Node *n, bool beyond) {
    const int stamp = 2 * r->now + beyond;
    if (r->stamp[n->id] == stamp || r->stamp[n->id] == 2 * r->now + 1) return;
    r->stamp[n->id] = stamp;
    vec_push(r->arena, r->pending, n);
}

static int first_node(const Remat *r, const IntList *kernels) {
    int first = r->g->nodes.n;
    for (int i = 0; i < kernels->n; i++) {
        const PlanKernel *k = &r->p->kernels.at[kernels->at[i]];
        for (int j = 0; j < k->nodes.n; j++)
            if (k->nodes.at[j].node->id < first) first = k->nodes.at[j].node->id;
    }
    return first;
}

/* Is the node that opens the host computed from what another kernel makes of v?  Else `on_way` is `now` for kernels that it is
 * computed from. */
static bool waits_for_readers(Remat *r, Node *opens, const Node *v, int host) {
    const int first = first_node(r, &r->readers[v->id]);
    int steps = 0;
    r->now++;
    r->pending.n = 0;
    look_at(r, opens, false);
    while (r->pending.n) {
        const Node *n = r->pending.at[--r->pending.n];
        const int kernel = r->p->kernel_of[n->id];
        const bool beyond = r->stamp[n->id] % 2 || (kernel >= 0 && kernel != host);
        if (kernel >= 0) r->on_way[kernel] = r->now;
        if (++steps > MOST_STEPS) return true;
        for (int k = 0; k < n->n_in; k++) {
            if (n->in[k] == v && beyond) return true;
            if (n->in[k]->id >= first) look_at(r, n->in[k], beyond);
        }
    }
    return false;
}

/* Is x an operand of a product of the kernel, itself or through movement?  Then it is not at hand at the element. */
static bool is_operand(const PlanKernel *k, const Node *x) {
    for (int i = 0; i < k->nodes.n; i++) {
        const Node *product = k->nodes.at[i].node;
        for (int o = 0; o < product->n_in && product->op == OP_CONTRACT && !node_is_view(product); o++) {
            const Node *y = product->in[o];
            while (y != x && (op_info[y->op].cls == CLASS_MOVE || node_is_view(y) || y->op == OP_CAST)) y = y->in[0];
            if (y == x) return true;
        }
    }
    return false;
}

static bool reads_element(const Remat *r, int kernel, const Node *x) {
    return reads(r, kernel, x) && !is_operand(&r->p->kernels.at[kernel], x);
}

/* Does the kernel read no more than it does now: all leaves, or one of them instead of v? */
static bool reads_no_more(const Remat *r, int kernel, const Node *v, const Sources *c) {
    int missing = 0;
    for (int l = 0; l < c->n_leaves; l++) missing += !reads_element(r, kernel, c->leaf[l]);
    return missing <= reads_element(r, kernel, v);
}

/* The first kernel, of those that read v or what it is computed from. */
static int find_host(Remat *r, const Node *v, const Sources *c) {
    const IntList lists[2] = {r->readers[v->id], r->readers[c->leaf[0]->id]};
    for (int i = 0, at[2] = {0}; i < MOST_HOSTS; i++) {
        const bool more[2] = {at[0] < lists[0].n, at[1] < lists[1].n};
        if (!more[0] && !more[1]) break;
        const int from = !more[0] || (more[1] && lists[1].at[at[1]] < lists[0].at[at[0]]), k = lists[from].at[at[from]++];
        if (!has_space(&r->p->kernels.at[k], v) || !reads_no_more(r, k, v, c)) continue;
        if (!waits_for_readers(r, r->p->kernels.at[k].nodes.at[0].node, v, k)) return 1 + k;
    }
    return 0;
}

/* Expensive operations that the host has to do for v besides those of what it computes again already. */
static int more_expensive(Remat *r, const Node *v, const Node *n, int host) {
    if (r->stamp[n->id] == 2 * r->now || (n != v && (stays(r, v, n) || r->host[n->id] == host))) return 0;
    int found = op_is_expensive(n->op);
    r->stamp[n->id] = 2 * r->now;
    for (int k = 0; k < n->n_in; k++) found += more_expensive(r, v, n->in[k], host);
    return found;
}

/* Does a product or a scatter of the backward pass read it, itself or through movement? */
static bool is_reread(const Remat *r, const Node *n, int depth) {
    for (int u = r->uses.first[n->id]; u < r->uses.first[n->id + 1]; u++) {
        const Node *user = r->uses.user[u];
        if (user->phase == PHASE_FORWARD) continue;
        const bool moves = op_info[user->op].cls == CLASS_MOVE || node_is_view(user) || user->op == OP_CAST;
        if (op_is_scatter(user->op) || user->op == OP_BUCKET || (user->op == OP_CONTRACT && !node_is_view(user))) return true;
        if (moves && (depth == 0 || is_reread(r, user, depth - 1))) return true;
    }
    return false;
}

/* The only kernel that reads v, where it computes v as it reads: it has no memory there.  0: there is none. */
static int only_reader(const Remat *r, const Node *v, const Sources *c) {
    enum { DEPTH = 4 };
    const IntList *kernels = &r->readers[v->id];
    for (int i = 1; i < kernels->n; i++)
        if (kernels->at[i] != kernels->at[0]) return 0;
    const PlanKernel *k = &r->p->kernels.at[kernels->at[0]];
    const bool walks = k->kind == KERNEL_MAP || k->kind == KERNEL_ROW || k->kind == KERNEL_CONTRACT;
    return walks && reads_no_more(r, kernels->at[0], v, c) && !is_reread(r, v, DEPTH) ? 1 + kernels->at[0] : 0;
}

/* A chunk (chunk.c) would wait for a host that comes after all of them, with what it holds. */
static bool is_read_by_chunk(const Remat *r, const Node *v) {
    for (int i = 0; i < r->readers[v->id].n; i++)
        if (r->p->kernels.at[r->readers[v->id].at[i]].nodes.at[0].node->remat) return true;
    return false;
}

static void drop(Remat *r) {
    for (int i = 0; i < r->g->nodes.n; i++) {
        Node *v = r->g->nodes.at[i];
        if (!r->saved[i] || op_info[v->op].cls != CLASS_ELEMENT || r->p->kernel_of[i] < 0 || r->p->buffer[i].within) continue;
        if (is_read_by_chunk(r, v)) continue;
        const Sources c = cone_of(r, v);
        const int only = c.fits ? only_reader(r, v, &c) : 0, host = only || !c.fits ? only : find_host(r, v, &c);
        if (!host) continue;
        const int way = r->now++;
        const int more = r->expensive[host - 1] + more_expensive(r, v, v, host);
        if (more > MOST_EXPENSIVE) continue;
        r->expensive[host - 1] = more;
        r->host[i] = host;
        r->n_dropped++;
        r->at_hand[i] = only;
        if (only) continue;
        vec_push(r->arena, r->opens[host - 1], v);
        for (int j = 0; j < r->readers[i].n; j++) {
            const int k = r->readers[i].at[j];
            if (k != host - 1 && r->on_way[k] != way) vec_push(r->arena, r->awaits[k], v);
        }
    }
    for (int i = 0; i < r->g->nodes.n; i++) {
        const Node *n = r->g->nodes.at[i];
        const bool inlined = n->phase == PHASE_FORWARD && r->p->kernel_of[i] < 0 && !in_arena(r, n);
        for (int k = 0; k < n->n_in && inlined; k++) r->follows[i] |= r->host[n->in[k]->id] || r->follows[n->in[k]->id];
    }
}

/* ---- the new graph ------------------------------------------------------------------------------------------------- */
static Node *add(Remat *r, const Node *n, Node *const *in, Phase phase) {
    Node *copy = graph_node_like(r->out, n, in);
    copy->phase = phase;
    return copy;
}

static Node *add_again(Remat *r, const Node *n, Node *const *in) {
    Node *copy = add(r, n, in, PHASE_BACKWARD);
    copy->again = true;
    return copy;
}

/* v and what it is computed from, once more for the kernel. */
static Node *clone_for(Remat *r, const Node *v, const Node *n, int kernel) {
    if (stays(r, v, n)) return r->map[n->id];
    if (r->clone_for[n->id] == kernel + 1) return r->clone[n->id];
    Node **in = ARENA_ARRAY(r->out->arena, Node *, n->n_in);
    for (int k = 0; k < n->n_in; k++) in[k] = clone_for(r, v, n->in[k], kernel);
    r->clone_for[n->id] = kernel + 1;
    return r->clone[n->id] = add_again(r, n, in);
}

static Node **inputs_of(Remat *r, const Node *n, bool forward);

/* What the backward pass reads for x: of what is dropped the clone, and once more what has no memory and reads that.  NULL: it is
 * not there yet. */
static Node *in_backward(Remat *r, const Node *x) {
    if (!r->host[x->id] && !r->follows[x->id]) return r->map[x->id];
    if (!r->own[x->id] && r->at_hand[x->id]) r->own[x->id] = clone_for(r, x, x, r->host[x->id] - 1);
    if (!r->own[x->id] && r->follows[x->id]) {
        Node **in = inputs_of(r, x, false);
        if (in) r->own[x->id] = add_again(r, x, in);
    }
    return r->own[x->id];
}

/* What the node reads, in the new graph; NULL: not all of it is there. */
static Node **inputs_of(Remat *r, const Node *n, bool forward) {
    Node **in = ARENA_ARRAY(r->out->arena, Node *, n->n_in);
    for (int k = 0; k < n->n_in; k++) {
        in[k] = forward ? r->map[n->in[k]->id] : in_backward(r, n->in[k]);
        if (!in[k]) return NULL;
    }
    return in;
}

static void emit_clones(Remat *r, int kernel);

static bool emit_node(Remat *r, const Node *n) {
    const int k = r->p->kernel_of[n->id];
    const bool opens = k >= 0 && r->p->kernels.at[k].nodes.at[0].node == n;
    for (int i = 0; k >= 0 && i < r->awaits[k].n; i++) /* all of a kernel waits, if it can: else it would be two */
        if (!r->own[r->awaits[k].at[i]->id]) return false;
    Node **in = inputs_of(r, n, n->phase == PHASE_FORWARD);
    if (!in && opens && r->opens[k].n) { /* it reads a clone itself */
        emit_clones(r, k);
        in = inputs_of(r, n, n->phase == PHASE_FORWARD);
    }
    if (!in) return false;
    r->map[n->id] = add(r, n, in, n->phase);
    if (opens) emit_clones(r, k);
    return true;
}

/* Those that wait for what is there now, in order. */
static void emit_waiting(Remat *r) {
    NodeList again = r->waiting;
    memset(&r->waiting, 0, sizeof r->waiting);
    for (int i = 0; i < again.n; i++)
        if (!emit_node(r, again.at[i])) vec_push(r->arena, r->waiting, again.at[i]);
}

static void emit_clones(Remat *r, int kernel) {
    const NodeList all = r->opens[kernel];
    r->opens[kernel].n = 0;
    for (int i = 0; i < all.n; i++) r->own[all.at[i]->id] = clone_for(r, all.at[i], all.at[i], kernel);
    if (all.n && r->waiting.n) emit_waiting(r);
}

static Graph *rebuild(Remat *r) {
    const int n = r->g->nodes.n;
    r->out = graph_new_from(r->g->arena, r->g);
    r->map = ARENA_ARRAY(r->arena, Node *, n + 1);
    r->clone = ARENA_ARRAY(r->arena, Node *, n + 1);
    r->clone_for = ARENA_ARRAY(r->arena, int, n + 1);
    r->own = ARENA_ARRAY(r->arena, Node *, n + 1);
    for (int i = 0; i < n; i++) {
        Node *x = r->g->nodes.at[i];
        if (x->op == OP_ACCUMULATE) continue; /* fuse adds its own */
        if (!emit_node(r, x)) vec_push(r->arena, r->waiting, x);
    }
    for (int k = 0; k < r->p->kernels.n && r->waiting.n; k++) emit_clones(r, k); /* hosts that wait for each other */
    for (int left = -1; r->waiting.n && r->waiting.n != left;) {
        left = r->waiting.n;
        emit_waiting(r);
    }
    assert(!r->waiting.n);
    for (int i = 0; i < r->g->results.n; i++) {
        const Result *result = &r->g->results.at[i];
        graph_result(r->out, result->kind, result->decl, r->map[result->value->id]);
    }
    graph_prune(r->out);
    return r->out;
}

Graph *pass_rematerialize(PassContext *context, Plan *p) {
    Graph *g = p->graph;
    if (g->entry != ENTRY_GRAD && g->entry != ENTRY_STEP) return g;
    const int n = g->nodes.n;
    Remat r = {.arena = arena_new(), .p = p, .g = g};
    r.uses = graph_uses(r.arena, g);
    r.saved = ARENA_ARRAY(r.arena, bool, n + 1);
    r.host = ARENA_ARRAY(r.arena, int, n + 1);
    r.at_hand = ARENA_ARRAY(r.arena, bool, n + 1);
    r.follows = ARENA_ARRAY(r.arena, bool, n + 1);
    r.stamp = ARENA_ARRAY(r.arena, int, n + 1);
    r.readers = ARENA_ARRAY(r.arena, IntList, n + 1);
    r.opens = ARENA_ARRAY(r.arena, NodeList, p->kernels.n + 1);
    r.expensive = ARENA_ARRAY(r.arena, int, p->kernels.n + 1);
    r.on_way = ARENA_ARRAY(r.arena, int, p->kernels.n + 1);
    r.awaits = ARENA_ARRAY(r.arena, NodeList, p->kernels.n + 1);
    find_saved(&r);
    drop(&r);
    if (r.n_dropped) g = rebuild(&r);
    arena_free(r.arena);
    (void)context;
    return g;
}
