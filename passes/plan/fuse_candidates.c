/* fuse: which values are candidates for memory; all others are inlined into whoever reads them.
 * Its constants are from `./dev bench fusion`. */
#include "passes/plan/fuse.h"
#include "passes/plan/together.h"

enum {
    INLINE_COST = 48, /* an inlined expression larger than this gets memory */
    SCALAR_COST = 16, /* and a scalar of more than one reader that takes more than this: it may read as many scalars */
};

bool fuse_is_heavy(const Node *n) {
    return op_info[n->op].cls == CLASS_REDUCE || op_is_scatter(n->op) || n->op == OP_BUCKET ||
           (n->op == OP_CONTRACT && n->attr->contract->n_loops > n->attr->contract->n_out);
}

/* Contractions and scatters read an operand element many times: it should be in memory.  From buckets, once. */
static bool rereads(const Node *n) {
    return (n->op == OP_CONTRACT && fuse_is_heavy(n)) || (op_is_scatter(n->op) && n->n_in == 2);
}

/* Buckets are made of what lies in memory. */
bool fuse_is_bucketed(const Uses *uses, const Node *n) {
    bool found = false;
    for (int u = uses->first[n->id]; u < uses->first[n->id + 1]; u++) found |= uses->user[u]->op == OP_BUCKET;
    return found;
}

/* Recomputing costs about as much as reading: small and from at most one tensor in memory. */
enum { CONE_READS = 4, MUCH_SMALLER = 8 };
typedef struct Cone {
    int cost;                     /* instructions when inlined; saturates */
    int rounded;                  /* of them, conversions between float types */
    int tensors;                  /* distinct reads of memory that is not much smaller than the value; saturates */
    const Node *read[CONE_READS]; /* them */
    bool expensive;               /* contains an expensive op */
    bool expensive_each;          /* one that is computed for each element, not once for many */
} Cone;

static bool is_half(DType t) { return t == DT_F16 || t == DT_BF16; }

/* A row's mean or maximum beside the row. */
static bool much_smaller(const Node *x, const Node *n) {
    return x->shape->rank == 0 || shape_elements(*x->shape) * MUCH_SMALLER <= shape_elements(*n->shape);
}

static void cone_reads(Cone *c, const Node *x) {
    for (int i = 0; i < c->tensors; i++)
        if (c->read[i] == x) return;
    if (c->tensors < CONE_READS) c->read[c->tensors++] = x;
}

/* Values of 16 bits become f32 on the way to f32 arithmetic; nothing is gained by keeping them as f32. */
static bool widens(const Node *n) { return n->op == OP_CAST && n->dtype == DT_F32 && is_half(n->in[0]->dtype); }

/* An f32 value that at most two tensors of 16 bits make: they take no more bytes to read than it would. */
static bool from_half(const Node *n, const Cone *c) {
    bool half = n->dtype == DT_F32 && c->tensors > 0 && c->tensors <= 2;
    for (int i = 0; i < c->tensors; i++) half &= is_half(c->read[i]->dtype);
    return half;
}

/* A value of 16 bits made from another such: in low precision conversions stand around all that is computed, and are no
 * more of it. */
static int work(const Node *n, const Cone *c) {
    const bool half = is_half(n->dtype) && c->tensors == 1 && is_half(c->read[0]->dtype);
    return half ? c->cost - c->rounded : c->cost;
}


static Cone cone_of(const Node *n, const Cone *cone, const bool *candidate) {
    Cone c = {.cost = op_info[n->op].cls == CLASS_ELEMENT || n->op == OP_CONTRACT ? 1 : 0, .expensive = op_is_expensive(n->op)};
    c.expensive_each = c.expensive;
    c.rounded = n->op == OP_CAST && dtype_is_float(n->dtype) && dtype_is_float(n->in[0]->dtype);
    if (n->op == OP_RANDOM) c.cost = 8;
    if (n->op == OP_CONCAT) c.cost = n->n_in;
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = n->in[k];
        if (op_is_memory(x->op) || candidate[x->id]) {
            if (!much_smaller(x, n)) cone_reads(&c, x);
        } else {
            c.cost += cone[x->id].cost;
            c.rounded += cone[x->id].rounded;
            for (int i = 0; i < cone[x->id].tensors && !much_smaller(x, n); i++) cone_reads(&c, cone[x->id].read[i]);
            if (x->shape->rank > 0) c.expensive |= cone[x->id].expensive;
            if (!much_smaller(x, n)) c.expensive_each |= cone[x->id].expensive_each;
        }
    }
    if (c.cost > INLINE_COST) c.cost = INLINE_COST + 1, c.rounded = 0;
    return c;
}

/* Made from a contraction's result that nothing else reads: in memory, it takes that one's place. */
static bool takes_place(const Node *n, const Uses *uses) {
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = n->in[k];
        while (x->op == OP_RESHAPE && uses->first[x->id + 1] - uses->first[x->id] == 1) x = x->in[0];
        if (x->op == OP_CONTRACT && fuse_is_heavy(x) && uses->first[x->id + 1] - uses->first[x->id] == 1) return true;
    }
    return false;
}

/* What stays a movement before a product, which would take any into its subscripts, is to be copied: physical_order.c.
 */
static bool is_copied(const Node *n, const Uses *uses) {
    for (int u = uses->first[n->id]; u < uses->first[n->id + 1] && n->op == OP_TRANSPOSE; u++)
        if (uses->user[u]->op == OP_CONTRACT && fuse_is_heavy(uses->user[u])) return op_is_memory(n->in[0]->op);
    return false;
}

/* More to read than what it is made from, which it reads again and again: windows of a pooling, differences of all pairs. */
static bool expands(const Node *n, const Cone *c) {
    enum { TIMES = 2 };
    int64_t read = 0;
    if (c->expensive_each || c->tensors == CONE_READS) return false;
    for (int i = 0; i < c->tensors; i++) read += shape_elements(*c->read[i]->shape);
    return TIMES * read <= shape_elements(*n->shape);
}

static bool wants_memory(const Node *n, const Cone *cone, int uses, bool reread) {
    const Cone c = *cone;
    if (c.cost > INLINE_COST) return true;
    if (widens(n) || n->dtype == DT_TF32) return false;
    if (op_info[n->op].cls != CLASS_ELEMENT && !(n->op == OP_CONTRACT && !node_is_view(n))) return false;
    if (n->shape->rank == 0) return uses > 1 && c.cost > SCALAR_COST;
    if (reread) return c.tensors > 0;
    if (uses < 2 || n->dtype == DT_BOOL || from_half(n, cone) || expands(n, cone)) return false;
    return c.expensive || c.tensors > 1 || work(n, &c) > 2;
}

/* A result made by append_copy. */
bool fuse_is_copy(const Fuse *f, const Node *n) {
    return n->op == OP_RESHAPE && f->result[n->id] && shape_same(n->shape, n->in[0]->shape);
}

int fuse_users(const Uses *u, const Node *n) { return u->first[n->id + 1] - u->first[n->id]; }

/* Others than results may lie in a concatenation, or be one, that is joined in memory (fuse_parts.c). */
bool fuse_may_be_joined(const Uses *uses, const Node *v) {
    bool joined = v->op == OP_CONCAT;
    for (int u = uses->first[v->id]; u < uses->first[v->id + 1]; u++) joined |= uses->user[u]->op == OP_CONCAT;
    return joined;
}

/* Random numbers are made in one dim, which may be longer than kernels count. */
static bool counts(const Shape *s) {
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d].bound > INT32_MAX) return false;
    return true;
}

/* What is reshaped to leave is computed where it leaves: the memory is the same.  Others may read a parameter's or a state's new value
 * there; an output or a gradient is the caller's alone. */
static Node *before_reshape(const Fuse *f, const Result *r, const int *homes) {
    const bool ours = r->kind == RESULT_PARAM || r->kind == RESULT_STATE;
    const Uses *uses = &f->uses;
    Node *v = r->value;
    while (v->op == OP_RESHAPE && fuse_users(uses, v) == (v != r->value) && homes[v->id] == (v == r->value) &&
           shape_is_fixed(*v->shape) && !(ours && shape_same(v->shape, v->in[0]->shape))) /* that is a copy */
        v = v->in[0];
    const bool same_calls = !f->wanted || f->wanted[v->id] == f->wanted[r->value->id];
    const bool alone = ours ? same_calls && counts(v->shape) && !fuse_may_be_joined(uses, v) : fuse_users(uses, v) == 1;
    return alone && homes[v->id] == 0 && shape_is_fixed(*v->shape) && !op_is_memory(v->op) ? v : r->value;
}

static void find_landings(Fuse *f, const Graph *g) {
    int *homes = ARENA_ARRAY(f->arena, int, f->n);
    f->landing = ARENA_ARRAY(f->arena, Node *, g->results.n + 1);
    for (int i = 0; i < g->results.n; i++) homes[g->results.at[i].value->id]++;
    for (int i = 0; i < g->results.n; i++)
        if (f->shared[i]) homes[f->shared[i]->id]++;
    for (int i = 0; i < g->results.n; i++) {
        f->landing[i] = f->shared[i] ? f->shared[i] : before_reshape(f, &g->results.at[i], homes);
        homes[f->landing[i]->id]++; /* of several results that are one value the others are reshaped as they leave */
    }
}

/* Where products that nothing else reads are added: the sum is one value of their kernel. */
static void find_sums_of_products(Fuse *f, const Graph *g) {
    f->adds = ARENA_ARRAY(f->arena, bool, f->n);
    for (int i = 0; i < f->n; i++) {
        const Node *n = g->nodes.at[i];
        bool adds = f->merge && !f->data && n->op == OP_ADD && n->in[0] != n->in[1];
        for (int k = 0; k < 2 && adds; k++) {
            const Node *x = n->in[k];
            adds = x->dtype == n->dtype && x->remat == n->remat && fuse_users(&f->uses, x) == 1 && !f->result[x->id] &&
                   (f->adds[x->id] || product_shares(x));
        }
        f->adds[i] = adds;
    }
}

bool *fuse_rereads(Arena *a, const Graph *g, const Uses *uses) {
    bool *reread = ARENA_ARRAY(a, bool, g->nodes.n + 1);
    for (int i = g->nodes.n - 1; i >= 0; i--)
        for (int u = uses->first[i]; u < uses->first[i + 1]; u++) {
            const Node *user = uses->user[u];
            const bool passes = op_info[user->op].cls == CLASS_MOVE || node_is_view(user) || user->op == OP_GATHER ||
                                widens(user) || user->dtype == DT_TF32;
            reread[i] |= rereads(user) || (passes && reread[user->id]);
        }
    return reread;
}

/* How many times a value is computed if it has no memory: once for all that is computed of it element by element and
 * ends in one value (d in d * d, in where(d > 0, d, 0)), once for each other reader.  Those of a widened value are its
 * own. */
static int *count_readers(Arena *a, const Graph *g, const Uses *uses, const bool *result) {
    const int n = g->nodes.n;
    int *readers = ARENA_ARRAY(a, int, n + 1);
    int *ends = ARENA_ARRAY(a, int, n + 1); /* 1 + where what is computed of it element by element ends */
    int *seen = ARENA_ARRAY(a, int, n + 1); /* 1 + the last value that this one was an end of */
    for (int i = n - 1; i >= 0; i--) {
        int end = 0;
        bool one = !result[i];
        for (int u = uses->first[i]; u < uses->first[i + 1]; u++) {
            const Node *user = uses->user[u];
            const bool element = op_info[user->op].cls == CLASS_ELEMENT;
            const int at = ends[user->id];
            one &= element && (!end || end == at);
            end = at;
            if (widens(user))
                readers[i] += readers[user->id];
            else if (!element || seen[at - 1] != i + 1)
                readers[i]++;
            if (element) seen[at - 1] = i + 1;
        }
        ends[i] = 1 + i;
        if (one && end) ends[i] = end;
    }
    return readers;
}

/* How often what has no memory would be computed, by who reads it, directly or through movement. */
typedef enum {
    ONCE,
    SEVERAL_TIMES, /* by windows that overlap, or without vectors: a scan takes one element after the other */
    AT_EVERY_TAP,  /* by a convolution, which copies what is in memory */
} Repeats;

/* Windows: more steps of the loops that subscript x than it has elements. */
static bool overlaps(const Contract *c, const Node *x, int k) {
    double steps = 2;
    for (int l = 0; l < c->n_loops; l++) {
        bool reads = false;
        for (int d = 0; d < x->shape->rank; d++) reads |= c->map[k][d].coef[l] != 0;
        if (reads) steps *= (double)c->extent[l].bound;
    }
    return steps > 3.0 * (double)shape_elements(*x->shape);
}

static Repeats repeats_of(const Node *user, const Node *x) {
    Repeats most = user->op == OP_SCAN ? SEVERAL_TIMES : ONCE;
    const Repeats windows = node_is_view(user) ? SEVERAL_TIMES : user->n_in > 1 ? AT_EVERY_TAP : ONCE;
    for (int k = 0; k < user->n_in && user->op == OP_CONTRACT; k++)
        if (user->in[k] == x && overlaps(user->attr->contract, x, k)) most = windows;
    return most;
}

static Repeats *find_repeats(Arena *a, const Graph *g, const Uses *uses) {
    Repeats *repeats = ARENA_ARRAY(a, Repeats, g->nodes.n + 1);
    for (int i = g->nodes.n - 1; i >= 0; i--)
        for (int u = uses->first[i]; u < uses->first[i + 1]; u++) {
            const Node *user = uses->user[u];
            const bool moves =
                op_info[user->op].cls == CLASS_MOVE || node_is_view(user) || widens(user) || user->dtype == DT_TF32;
            const Repeats by = repeats_of(user, g->nodes.at[i]), on = moves ? repeats[user->id] : ONCE;
            if (repeats[i] < by) repeats[i] = by;
            if (repeats[i] < on) repeats[i] = on;
        }
    return repeats;
}

/* Rather computed before: what is expensive, what is all that is made of a product, whose place it takes, and all that a
 * convolution would compute. */
static bool pays_before(const Node *n, const Cone *c, const int *readers, Repeats repeats) {
    if (op_info[n->op].cls != CLASS_ELEMENT || n->dtype == DT_BOOL || repeats == ONCE) return false;
    if (widens(n) || n->dtype == DT_TF32) return false;
    if (repeats == AT_EVERY_TAP) return c->cost > 1;
    const Node *x = c->tensors == 1 ? c->read[0] : NULL;
    return (c->expensive && c->tensors > 0) || (x && x->op == OP_CONTRACT && fuse_is_heavy(x) && readers[x->id] == 1);
}

/* A view with every element at most once, its axes in another order; past the end there are few. */
static bool is_transpose(const Node *n) {
    if (n->op == OP_TRANSPOSE) return true;
    if (!node_is_view(n) || n->attr->contract->n_guards > 0) return false;
    const Contract *c = n->attr->contract;
    int dims[MAX_LOOPS] = {0};
    for (int d = 0; d < n->in[0]->shape->rank; d++) {
        const Affine *e = &c->map[0][d];
        int loops = 0;
        for (int l = 0; l < c->n_loops; l++) {
            if (e->coef[l] && e->coef[l] != 1) return false;
            if (e->coef[l]) dims[l]++, loops++;
        }
        if (loops > 1 || e->c || e->divisor != 1) return false;
    }
    for (int l = 0; l < c->n_loops; l++)
        if (dims[l] != 1) return false;
    return shape_elements(*n->shape) < 2 * shape_elements(*n->in[0]->shape);
}

/* Only one reads it, and it needs no memory of its own. */
static bool passes_through(const Fuse *f, const Node *x) {
    return fuse_users(&f->uses, x) == 1 && !f->result[x->id] && !f->copied[x->id];
}

/* What is read through the reshape n where its axes are those of a value, transposed and joined (the gradient of what a
 * pooling read): the joined axes are no axes of the value, so that memory in its order would be read by division. */
static Node *transposed_value(const Fuse *f, const Node *n) {
    bool transposed = false;
    if (n->op != OP_RESHAPE || n->dtype == DT_TF32 || !shape_is_fixed(*n->shape)) return NULL;
    Node *x = n->in[0];
    for (; (x->op == OP_RESHAPE || is_transpose(x)) && passes_through(f, x); x = x->in[0]) transposed |= x->op != OP_RESHAPE;
    return transposed && passes_through(f, x) && op_info[x->op].cls == CLASS_ELEMENT ? x : NULL;
}

/* Where windows slide over such a reshape it gets the memory instead of its value. */
static void find_transposed(Fuse *f, const Graph *g, bool *reread, Repeats *repeats) {
    for (int i = 0; i < f->n; i++) {
        const Node *x = repeats[i] == AT_EVERY_TAP ? transposed_value(f, g->nodes.at[i]) : NULL;
        if (!x) continue;
        f->copied[i] = true;
        for (const Node *y = g->nodes.at[i]->in[0];; y = y->in[0]) {
            reread[y->id] = false, repeats[y->id] = ONCE;
            if (y == x) break;
        }
    }
}

/* It goes on from what another chunk has put together, and is written before the next one runs (chunk.c). */
static bool is_handed_on(const Node *n) {
    for (int k = 0; k < n->n_in && n->remat; k++)
        if (n->in[k]->remat && n->in[k]->remat != n->remat) return op_info[n->op].cls == CLASS_ELEMENT;
    return false;
}

/* A concatenation of many parts, which its kernel has room to read, or one of them that is computed. */
static bool is_one_of_many(const Node *n, const Cone *c, const Uses *uses) {
    if (n->op == OP_CONCAT && n->n_in >= FUSE_MANY_PARTS) return true;
    for (int u = uses->first[n->id]; u < uses->first[n->id + 1] && c->cost > 0; u++)
        if (uses->user[u]->op == OP_CONCAT && uses->user[u]->n_in >= FUSE_MANY_PARTS) return true;
    return false;
}

/* It costs less to compute it once than where it is read; what is too large for memory is, as far as an expression may be. */
static bool rather_in_memory(const Fuse *f, const Node *n, const Cone *c, const int *readers, bool reread, Repeats repeats) {
    if (f->inlined && f->inlined[n->id] && c->cost <= INLINE_COST) return false;
    return wants_memory(n, c, readers[n->id], reread) || pays_before(n, c, readers, repeats) ||
           (op_info[n->op].cls == CLASS_ELEMENT && readers[n->id] > 1 && !widens(n) && takes_place(n, &f->uses));
}

void fuse_candidates(Fuse *f, const Graph *g) {
    const Uses uses = f->uses = graph_uses(f->arena, g);
    find_landings(f, g);
    bool *reread = fuse_rereads(f->arena, g, &uses);
    Repeats *repeats = find_repeats(f->arena, g, &uses);
    Cone *cone = ARENA_ARRAY(f->arena, Cone, f->n);
    for (int i = 0; i < g->results.n; i++) {
        f->result[f->landing[i]->id] = true;
        f->output[f->landing[i]->id] |= g->results.at[i].kind == RESULT_OUTPUT && !f->shared[i];
    }
    const int *readers = count_readers(f->arena, g, &uses, f->result);
    /* what is copied has memory of its own: inlined, the copy would read what it overwrites */
    for (int i = 0; i < g->results.n; i++)
        if (fuse_is_copy(f, g->results.at[i].value)) f->copied[g->results.at[i].value->in[0]->id] = true;
    find_transposed(f, g, reread, repeats);
    find_sums_of_products(f, g);
    fuse_join_parts(f);
    for (int i = 0; i < f->n; i++) {
        const Node *n = g->nodes.at[i];
        if (op_is_memory(n->op)) continue;
        cone[i] = cone_of(n, cone, f->candidate);
        f->candidate[i] =
            f->result[i] || f->copied[i] || f->joined[i] || f->within[i] || fuse_is_heavy(n) || f->adds[i] || is_handed_on(n) ||
            is_copied(n, &uses) || fuse_is_bucketed(&uses, n) || is_one_of_many(n, &cone[i], &uses) ||
            rather_in_memory(f, n, &cone[i], readers, reread[i], repeats[i]);
    }
}
