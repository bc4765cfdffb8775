/* recompute: what is large and has readers far apart is computed again for the later ones, where memory is short.
 *
 *     dW = d' h;  norm = sum(dW * dW) + ..        all gradients live until the norm of all is known
 *     W  = W - c(norm) * dW
 *
 * becomes
 *
 *     norm = sum(dW * dW) + ..                    dW goes when its square is added up, in chunks of its rows (chunk.c)
 *     dW2 = d' h;  W = W - c(norm) * dW2          one kernel, the update in the product's epilogue
 *
 * A live range is split at the widest gap between its readers: those behind it read a clone, computed from what is at most half as
 * large, which lives longer for that.  Values are split one after the other, that which takes off the most excess for its time first,
 * until what is live at once is small enough.  (Splitting of live ranges: Briggs, Cooper, Torczon, "Rematerialization", PLDI 1992; with
 * the cost of a product: Jain et al., "Checkmate", arXiv:1910.02653, sections 3 and 4, which finds the best set.)
 *
 * Needs: the graph as it will be planned, but for chunks and slices of sums; PassContext.live_most, or nothing is done.  Keeps: the
 * operations.  Gives: clones have a `remat` of their own; the order of the graph, from which that of kernels begins, is one in which
 * little is live (new_places). */
#include "passes/algebra/contract_class.h"
#include "passes/plan/live_range.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TRIED = 256, /* splits */
    MOST_CLONED = 48, /* nodes of a clone */
    DEEPEST = 128,    /* way to what it is computed from */
    MUCH_SMALLER = 64 /* a sum, than what it sums */
};

typedef struct Recompute {
    PassContext *context;
    Arena *arena; /* of the graph at hand */
    const Graph *g;
    LiveRanges live;
    int base;         /* greater Node.remat are clones */
    const bool *vain; /* by node id: splitting it leaves as much live elsewhere */
    double *excess;   /* by node id: bytes that are live there and too many */
    int *places;      /* by node id: how many nodes in front of it have such an excess */
    int *seen, now;   /* by node id: 2 * the walk that came there last, and 1 if it is cloned */
} Recompute;

/* A value, the first reader of those that read its clone, and what the clone is made of. */
typedef struct Split {
    const Node *value;
    int behind;
    bool fits;
    double saves, seconds; /* excess in bytes, over all places; of the clone */
    IntList cloned;        /* ids, operands first */
} Split;

/* ---- the order ----------------------------------------------------------------------------------------------------- */
/* A sum that leaves much less than it reads. */
static bool shrinks(const Node *n) { return n->op == OP_SUM && shape_elements(*n->in[0]->shape) >= MUCH_SMALLER * shape_elements(*n->shape); }

/* By node id: of an update, the bytes of the largest clone that it is computed from; 0: none. */
static int64_t *cloned_bytes(const Recompute *r, const Split *s) {
    int64_t *bytes = ARENA_ARRAY(r->arena, int64_t, r->g->nodes.n + 1);
    for (int i = 0; i < r->g->nodes.n; i++) {
        const Node *x = r->g->nodes.at[i];
        const bool clone = x->remat > r->base;
        for (int k = 0; k < x->n_in && (clone || x->phase == PHASE_UPDATE); k++) {
            const Node *in = x->in[k];
            const int64_t read = in == s->value && i >= s->behind ? node_bytes(in) : bytes[in->id];
            if (read > bytes[i]) bytes[i] = read;
        }
        if (clone && r->live.will.memory[i] && node_bytes(x) > bytes[i]) bytes[i] = node_bytes(x);
    }
    return bytes;
}

typedef struct NewPlace {
    int64_t at;
    int id;
} NewPlace;

static int by_place(const void *x, const void *y) {
    const NewPlace *a = x, *b = y;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return a->id - b->id;
}

/* Does the product take more than its operands do until it is read first? */
static bool waits(const Recompute *r, const Node *n) {
    const int first = r->live.uses.first[n->id], end = r->live.uses.first[n->id + 1];
    if (!contract_is_product(n) || !r->live.will.memory[n->id] || first == end || r->live.result[n->id]) return false;
    int64_t longer = 0;
    for (int k = 0; k < n->n_in; k++) {
        const bool there = op_is_memory(n->in[k]->op) || r->live.last[n->in[k]->id] >= r->live.uses.user[first]->id;
        if (!there) longer += node_bytes(n->in[k]);
    }
    return longer < node_bytes(n);
}

/* By node id, where it stands.  Right behind what they read: sums that shrink, and updates.  Last: updates that read clones, those of
 * the largest behind all others, since what the others are computed from is gone then.  In front of its first reader: what has no
 * memory, is a clone, or takes less so. */
static int64_t *new_places(const Recompute *r, const Split *s) {
    const int n = r->g->nodes.n;
    const int64_t *cloned = cloned_bytes(r, s);
    int64_t *place = ARENA_ARRAY(r->arena, int64_t, n + 1);
    for (int i = 0; i < n; i++) {
        const Node *x = r->g->nodes.at[i];
        for (int k = 0; k < x->n_in; k++)
            if (place[x->in[k]->id] > place[i]) place[i] = place[x->in[k]->id];
        const bool takes_none = shrinks(x) || (r->live.result[i] && x->phase == PHASE_UPDATE);
        if (r->live.will.memory[i] && (cloned[i] || !takes_none)) place[i] = cloned[i] && x->phase == PHASE_UPDATE ? n + cloned[i] : i;
    }
    for (int i = n - 1; i >= 0; i--) {
        const Node *x = r->g->nodes.at[i];
        const int first = r->live.uses.first[i], end = r->live.uses.first[i + 1];
        const bool sinks = first < end && !r->live.result[i] && (!r->live.will.memory[i] || x->remat > r->base || waits(r, x));
        int64_t reader = sinks ? INT64_MAX : place[i];
        for (int u = first; u < end && sinks; u++)
            if (place[r->live.uses.user[u]->id] < reader) reader = place[r->live.uses.user[u]->id];
        place[i] = reader;
    }
    return place;
}

/* Nodes behind all that they read. */
static NewPlace *new_order(const Recompute *r, const Split *s) {
    const int64_t *place = new_places(r, s);
    NewPlace *order = ARENA_ARRAY(r->arena, NewPlace, r->g->nodes.n + 1);
    for (int i = 0; i < r->g->nodes.n; i++) order[i] = (NewPlace){place[i], i};
    qsort(order, (size_t)r->g->nodes.n, sizeof *order, by_place);
    return order;
}

/* ---- what may be computed again ---------------------------------------------------------------------------------- */
/* Is it there for the clone, since it is much cheaper to keep than to compute? */
static bool is_kept(const Recompute *r, const Split *s, const Node *n) {
    return op_is_memory(n->op) || (r->live.will.memory[n->id] && n != s->value && 2 * node_bytes(n) <= node_bytes(s->value));
}

static bool may_clone(const Recompute *r, const Node *n) {
    const OpClass cls = op_info[n->op].cls;
    const bool moves = cls == CLASS_MOVE && n->op != OP_UPDATE_AT;
    return !n->remat && !r->live.will.streamed[n->id] && shape_is_fixed(*n->shape) && (cls == CLASS_ELEMENT || moves || cls == CLASS_CONTRACT || cls == CLASS_INDEXED) &&
           !r->live.result[n->id];
}

static double flops_of(const Node *n) {
    double flops = n->op == OP_CONTRACT ? 2 : 0;
    for (int l = 0; n->op == OP_CONTRACT && l < n->attr->contract->n_loops; l++) flops *= (double)n->attr->contract->extent[l].bound;
    return flops;
}

/* What lives longer for the clone takes memory until then. */
static void keep(const Recompute *r, Split *s, const Node *n) {
    const bool arena = r->live.will.memory[n->id] && !r->live.result[n->id] && !op_is_memory(n->op);
    const int places = r->places[s->behind] - r->places[r->live.last[n->id]];
    if (arena && places > 0) s->saves -= (double)node_bytes(n) * places;
}

/* Is n cloned?  Without memory of its own it is, where something that it reads is. */
static bool walk(Recompute *r, Split *s, const Node *n, int depth) {
    const Target *t = r->context->target;
    bool any = false;
    if (r->seen[n->id] / 2 == r->now) return r->seen[n->id] % 2;
    r->seen[n->id] = 2 * r->now;
    if (is_kept(r, s, n)) {
        keep(r, s, n);
        return false;
    }
    const bool memory = r->live.will.memory[n->id];
    if (depth == DEEPEST) s->fits = false;
    for (int k = 0; k < n->n_in && s->fits; k++) any |= walk(r, s, n->in[k], depth + 1);
    if (!memory && !any && n != s->value) return false;
    if (!may_clone(r, n) || s->cloned.n == MOST_CLONED) s->fits = false;
    s->seconds += flops_of(n) / (1e9 * t->gflops_f32) + (memory ? (double)node_bytes(n) / (1e9 * t->gbytes_per_s) : 0);
    vec_push(r->arena, s->cloned, n->id);
    r->seen[n->id] = 2 * r->now + 1;
    return true;
}

/* The first reader behind the widest gap, if none in front of it is computed later; 0: there is none.  *until: the gap's begin. */
static int first_behind(const Recompute *r, const Node *x, int *until) {
    const Uses *u = &r->live.uses;
    int behind = 0, widest = 1;
    *until = 0;
    for (int i = u->first[x->id] + 1; i < u->first[x->id + 1]; i++) {
        const int gap = u->user[i]->id - u->user[i - 1]->id;
        if (gap > widest) widest = gap, behind = u->user[i]->id;
    }
    for (int i = u->first[x->id]; i < u->first[x->id + 1] && u->user[i]->id < behind; i++) {
        const int id = u->user[i]->id, when = r->live.will.memory[id] ? id : r->live.last[id];
        if (when > *until) *until = when;
    }
    return *until < behind ? behind : 0;
}

static Split split_of(Recompute *r, Node *x) {
    int until;
    Split s = {.value = x, .behind = first_behind(r, x, &until)};
    const double bytes = (double)node_bytes(x);
    for (int i = until + 1; i < s.behind; i++) s.saves += r->excess[i] < bytes ? r->excess[i] : bytes;
    s.fits = s.behind && (s.saves > 0 || r->context->recompute_all) && may_clone(r, x);
    r->now++;
    if (s.fits) walk(r, &s, x, 0);
    return s;
}

/* Of values of at least so many bytes that which saves the most for its time. */
static Split cheapest_of(Recompute *r, double least) {
    Split best = {0};
    double most = 0;
    for (int i = 0; i < r->g->nodes.n; i++) {
        Node *x = r->g->nodes.at[i];
        if (!r->live.will.memory[i] || r->live.result[i] || op_is_memory(x->op) || r->vain[i] || (double)node_bytes(x) < least) continue;
        const Split s = split_of(r, x);
        const double saves = r->context->recompute_all ? (double)node_bytes(x) : s.saves;
        if (!s.fits || saves <= most * s.seconds) continue;
        most = saves / s.seconds;
        best = s;
    }
    return best;
}

/* Large ones first: what a clone is computed from has to stay, so that small ones stand in their way. */
static Split cheapest(Recompute *r, double needed) {
    enum { SMALLEST = 256 }; /* of what is needed one part in so many: less is not worth a kernel */
    Split best = {0};
    for (int share = 4; share <= SMALLEST && !best.value; share *= 4) best = cheapest_of(r, needed / share);
    return best;
}

/* ---- the new graph ---------------------------------------------------------------------------------------------------- */
static Node *copy_node(const Recompute *r, Graph *out, const Node *n, Node *const *map, int remat) {
    Node **in = ARENA_ARRAY(r->arena, Node *, n->n_in + 1);
    for (int k = 0; k < n->n_in; k++) {
        in[k] = map[n->in[k]->id];
        assert(in[k]); /* new_places: behind all that it reads */
    }
    Node *copy = graph_node_like(out, n, in);
    if (!remat) return copy;
    if (n->phase == PHASE_FORWARD) copy->phase = PHASE_BACKWARD;
    copy->remat = remat;
    return copy;
}

static bool reads_clone(const Split *s, const Node *n) {
    bool reads = false;
    for (int k = 0; k < n->n_in; k++) reads |= n->in[k] == s->value;
    return reads && n->id >= s->behind;
}

/* The same graph in the new order; with a value, split. */
static Graph *rebuild(const Recompute *r, const Split *s) {
    const Graph *g = r->g;
    const NewPlace *order = new_order(r, s);
    Graph *out = graph_new_from(r->context->arena, g);
    Node **map = ARENA_ARRAY(r->arena, Node *, g->nodes.n + 1), **own = ARENA_ARRAY(r->arena, Node *, g->nodes.n + 1);
    bool cloned = !s->value;
    if (s->value) out->chunks = g->chunks + 1;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[order[i].id];
        for (int k = 0; !cloned && reads_clone(s, n) && k < s->cloned.n; k++)
            map[s->cloned.at[k]] = copy_node(r, out, g->nodes.at[s->cloned.at[k]], map, out->chunks);
        cloned |= reads_clone(s, n);
        map[n->id] = own[n->id] = copy_node(r, out, n, map, 0);
    }
    for (int i = 0; i < g->results.n; i++)
        graph_result(out, g->results.at[i].kind, g->results.at[i].decl, own[g->results.at[i].value->id]);
    return out;
}

static Recompute recompute_new(PassContext *c, Graph *g, Arena *a, int base) {
    Recompute r = {.context = c, .arena = a, .g = g, .base = base, .live = live_ranges(c, g, a)};
    r.excess = ARENA_ARRAY(a, double, g->nodes.n + 1);
    r.places = ARENA_ARRAY(a, int, g->nodes.n + 1);
    r.seen = ARENA_ARRAY(a, int, g->nodes.n + 1);
    return r;
}

/* Of the graph in chunks. */
static double peak_in_chunks(const PassContext *context, Graph *g) {
    PassContext c = *context;
    c.arena = arena_new();
    c.fired = NULL;
    Graph *chunked = pass_chunk(&c, graph_duplicate(c.arena, g));
    graph_prune(chunked);
    const LiveRanges l = live_ranges(&c, chunked, c.arena);
    const double peak = live_peak(&l, c.arena, NULL);
    arena_free(c.arena);
    return peak;
}

static Graph *reordered(PassContext *context, Graph *g) {
    Arena *a = arena_new();
    const Recompute r = recompute_new(context, g, a, g->chunks);
    Graph *made = rebuild(&r, &(Split){0});
    arena_free(a);
    return made;
}

/* One more value split, *of: which, or NULL: no more pays. */
static Graph *split_one(PassContext *context, Graph *g, int base, double needed, const bool *vain, const Node **of) {
    Arena *a = arena_new();
    Recompute r = recompute_new(context, g, a, base);
    r.vain = vain;
    live_peak(&r.live, a, r.excess);
    for (int i = 0; i < g->nodes.n; i++) {
        r.excess[i] = r.excess[i] > (double)context->live_most ? r.excess[i] - (double)context->live_most : 0;
        r.places[i + 1] = r.places[i] + (r.excess[i] > 0);
    }
    const Split s = cheapest(&r, needed);
    Graph *made = s.value ? rebuild(&r, &s) : NULL;
    *of = s.value;
    arena_free(a);
    return made;
}

static Graph *split_for_tests(PassContext *context, Graph *g) {
    Graph *made = reordered(context, g);
    const bool *none = ARENA_ARRAY(context->arena, bool, made->nodes.n + 1);
    for (int i = 0; i < 3; i++) {
        const Node *of;
        Graph *more = split_one(context, made, g->chunks, 0, none, &of);
        if (!more) break;
        made = more;
        none = ARENA_ARRAY(context->arena, bool, made->nodes.n + 1);
    }
    return made;
}

/* A split by which the peak falls by less than a part of it leaves as much live elsewhere: then others come before it. */
static bool falls(double peak, double now, const Node *of, double needed, bool any) {
    enum { PART = 8 };
    const double bytes = (double)node_bytes(of), wanted = (bytes < needed ? bytes : needed) / PART;
    return any ? now <= peak : peak - now >= wanted;
}

Graph *pass_recompute(PassContext *context, Graph *g) {
    const double room = (double)context->live_most;
    if (!context->target || context->disabled[PASS_fuse]) return g;
    if (context->recompute_all) return split_for_tests(context, g);
    const double before = context->live_most ? peak_in_chunks(context, g) : 0;
    if (before <= room) return g;
    Graph *made = reordered(context, g);
    double peak = peak_in_chunks(context, made);
    bool *vain = ARENA_ARRAY(context->arena, bool, made->nodes.n + 1), any = false;
    for (int i = 0; i < MOST_TRIED && peak > room; i++) {
        const Node *of;
        Graph *more = split_one(context, made, g->chunks, peak - room, vain, &of);
        const double now = more ? peak_in_chunks(context, more) : 0;
        if (!more && any) break;
        if (more && !falls(peak, now, of, peak - room, any)) {
            vain[of->id] = true;
            continue;
        }
        any = !more;
        if (more) made = more, peak = now;
        vain = ARENA_ARRAY(context->arena, bool, made->nodes.n + 1);
    }
    if (peak >= before) return g;
    context->recomputed = made->chunks - g->chunks;
    return made;
}
