/* chunk: what is large only between products is made, used and dropped in chunks of its rows.
 *
 *     logits = h W'                    [8192, 50257]      for rows 0 .. 2047, 2048 .. 4095, ..
 *     rows   = logsumexp(logits) - logits[target]             logits, rows, d, dh of these rows; dW += d' h
 *     d      = softmax(logits) - hit;  dh = d W;  dW = d' h
 *
 * A product much larger than its factors, all that reads it, and all that is in between, up to results that are small again: of each
 * a slice of rows, which concatenations put together, or a term of a sum over the rows.  Nothing is computed twice.  (Hsu et al.,
 * "Liger Kernel", arXiv:2410.10989, section 3.2, has it for cross-entropy; here no operator is named.)
 *
 * Needs: the graph as it will be planned, but for slices of sums.  Keeps: the results' values, up to the rounding of sums over rows,
 * whose chunks are added in order.  Gives: nodes of chunk i carry a `remat` of their own, so that they are merged with none of
 * another, and run before those of the next.
 *
 * The rows are those of any dim that all of it has; how many chunks follows from what the peak of live values falls by, against what
 * every chunk reads and writes anew.  Its constants are from `./dev bench fusion`. */
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_class.h"
#include "passes/plan/live_range.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_MEMBERS = 64,  /* nodes of a region */
    MOST_TRIED = 16,    /* products, the largest first */
    MOST_CHUNKS = 64,
    MUCH_SMALLER = 4,   /* factors, and results that end a region, than the product that opens it */
    SMALLER = 2,        /* factors, where memory is short */
    ROW_MULTIPLE = 16,  /* of chunks that do not divide the rows */
    WEIGHT = 8          /* a byte of memory costs as much as to move so many; in stream.c, where it is written and read besides, 12 */
};

typedef enum { APART, MEMBER, END } Role; /* END: sums over the rows */

typedef struct Chunker {
    PassContext *context;
    Arena *arena;
    const Graph *g;
    LiveRanges live;
    double *change;        /* scratch of peak() */
    /* the region at hand */
    const Node *opens;
    int64_t extent;  /* of the rows */
    bool *depends;   /* by node id: on `opens` */
    Role *role;      /* by node id */
    int *rows;       /* by node id: of members, the dim; of a contraction, the loop, which is that dim where it is not summed */
    int *until;      /* by node id: of members, what `last` is, now that what is elementwise in between is in their kernels */
    NodeList members; /* those that end it too */
    int *known, now; /* by node id: 2 * the region that asked whether it is at hand, and 1 if it is */
    bool fits;
} Chunker;

/* ---- live ranges, in the order of the graph, of members in chunks ----------------------------------------------------- */
static bool is_read_outside(const Chunker *c, const Node *n) {
    bool outside = c->live.result[n->id];
    for (int u = c->live.uses.first[n->id]; u < c->live.uses.first[n->id + 1]; u++) outside |= c->role[c->live.uses.user[u]->id] == APART;
    return outside;
}

static bool is_factor(const Chunker *c, const Node *n) {
    for (int u = c->live.uses.first[n->id]; u < c->live.uses.first[n->id + 1]; u++)
        if (contract_is_product(c->live.uses.user[u])) return true;
    return false;
}

/* What is elementwise between members is in their kernels, but for what products read. */
static bool is_in_memory(const Chunker *c, const Node *n) {
    const bool inside = c->role[n->id] == MEMBER && op_info[n->op].cls == CLASS_ELEMENT;
    const bool memory = c->role[n->id] == APART ? c->live.stored[n->id] : c->live.will.memory[n->id];
    return memory && !c->live.result[n->id] && (!inside || is_factor(c, n) || is_read_outside(c, n));
}

static void find_until(Chunker *c) {
    for (int i = c->members.n - 1; i >= 0; i--) {
        const Node *n = c->members.at[i];
        c->until[n->id] = n->id;
        for (int u = c->live.uses.first[n->id]; u < c->live.uses.first[n->id + 1]; u++) {
            const Node *user = c->live.uses.user[u];
            const int at = is_in_memory(c, user) || c->role[user->id] == END ? user->id : c->role[user->id] == MEMBER ? c->until[user->id] : c->live.last[user->id];
            if (c->until[n->id] < at) c->until[n->id] = at;
        }
    }
}

static int last_of(const Chunker *c, const Node *n) { return c->role[n->id] == MEMBER ? c->until[n->id] : c->live.last[n->id]; }

/* Is it a scatter whose rows are made in the chunks that read them?  (is_at_hand)  They go over those of the product, if that has memory. */
static bool is_made_in_rows(const Chunker *c, const Node *x) {
    return op_is_scatter(x->op) && c->role[x->id] == APART && c->known[x->id] == 2 * c->now + 1;
}

/* The most bytes that are live at once, of members 1 / chunks, with what the chunks have put together so far.  at: NULL, or where that is. */
static double peak(const Chunker *c, int chunks, int *at) {
    const int n = c->g->nodes.n;
    double *change = c->change, live = 0, most = 0;
    memset(change, 0, sizeof *change * (size_t)(n + 2));
    for (int i = 0; i < n; i++) {
        const Node *x = c->g->nodes.at[i];
        const bool in_rows = is_made_in_rows(c, x);
        if (!is_in_memory(c, x) || (in_rows && c->live.will.memory[c->opens->id])) continue;
        const double bytes = (double)node_bytes(x) / (in_rows || (c->role[i] == MEMBER && !is_read_outside(c, x)) ? chunks : 1);
        change[i] += bytes;
        change[last_of(c, x) + !live_goes_over(c->g->nodes.at[last_of(c, x)], x)] -= bytes;
    }
    for (int i = 0; i < c->members.n && chunks > 1; i++) {
        const Node *m = c->members.at[i];
        const bool ends = c->role[m->id] == END;
        if (!ends && (is_in_memory(c, m) || !is_read_outside(c, m))) continue;
        change[c->opens->id] += (double)node_bytes(m);
        change[ends ? m->id : last_of(c, m)] -= (double)node_bytes(m);
    }
    for (int i = 0; i < n; i++) {
        live += change[i];
        if (live <= most) continue;
        most = live;
        if (at) *at = i;
    }
    return most;
}

/* ---- regions ------------------------------------------------------------------------------------------------------------ */
static bool is_large(const Chunker *c, const Node *n) {
    return shape_elements(*n->shape) > shape_elements(*c->opens->shape) / MUCH_SMALLER;
}

/* The loop of a contraction that walks the rows of its members; -1: there is none, or they are not walked one by one. */
static int loop_of_rows(const Chunker *c, const Node *n) {
    const Contract *k = n->attr->contract;
    int loop = -1;
    for (int o = 0; o < n->n_in; o++) {
        if (c->role[n->in[o]->id] != MEMBER) continue;
        const int l = affine_single_loop(k, &k->map[o][c->rows[n->in[o]->id]]);
        if (l < 0 || (loop >= 0 && l != loop)) return -1;
        loop = l;
    }
    return loop;
}

/* The dim of an operand that the loop walks, which mentions it nowhere else; -1: none.  *ok: that is so. */
static int dim_of_loop(const Node *n, int operand, int loop, int64_t extent, bool *ok) {
    const Contract *c = n->attr->contract;
    int dim = -1;
    for (int d = 0; d < n->in[operand]->shape->rank; d++) {
        if (!c->map[operand][d].coef[loop]) continue;
        const Dim rows = n->in[operand]->shape->dim[d];
        *ok &= dim < 0 && affine_single_loop(c, &c->map[operand][d]) == loop && dim_is_fixed(rows) && rows.bound == extent;
        dim = d;
    }
    return dim;
}

static bool loop_is_free(const Chunker *c, const Node *n, int loop) {
    const Contract *k = n->attr->contract;
    bool ok = dim_is_fixed(k->extent[loop]) && k->extent[loop].bound == c->extent;
    for (int i = 0; i < k->n_guards; i++) ok &= !k->guard[i].e.coef[loop];
    for (int o = 0; o < n->n_in; o++) {
        const int dim = dim_of_loop(n, o, loop, c->extent, &ok);
        if (c->role[n->in[o]->id] == MEMBER) ok &= dim == c->rows[n->in[o]->id];
    }
    return ok;
}

/* The dim of a reshape's result that is dim d of its operand; -1: none. */
static int reshaped_dim(const Node *n, int d) {
    int64_t before = 1, outer = 1;
    for (int i = 0; i < d; i++) outer *= n->in[0]->shape->dim[i].bound;
    for (int i = 0; i < n->shape->rank; before *= n->shape->dim[i++].bound)
        if (before == outer && dim_equal(n->shape->dim[i], n->in[0]->shape->dim[d])) return i;
    return -1;
}

static bool is_whole(const Node *n, int d) {
    return dim_is_fixed(n->attr->lo[d]) && n->attr->lo[d].bound == 0 && dim_equal(n->shape->dim[d], n->in[0]->shape->dim[d]);
}

/* Dim d of the operand in the result; -1: it is not there, as it was. */
static int moved_dim(const Node *n, int d) {
    switch (n->op) {
    case OP_RESHAPE: return reshaped_dim(n, d);
    case OP_TRANSPOSE:
        for (int i = 0; i < n->shape->rank; i++)
            if (n->attr->axes[i] == d) return i;
        return -1;
    case OP_BROADCAST: return dim_equal(n->shape->dim[n->attr->axes[d]], n->in[0]->shape->dim[d]) ? n->attr->axes[d] : -1;
    case OP_SLICE: return is_whole(n, d) && n->attr->step[d] == 1 ? d : -1;
    case OP_PAD: return is_whole(n, d) ? d : -1;
    case OP_CONCAT: return n->attr->axis != d ? d : -1;
    default: return -1;
    }
}

static int reduced_dim(const Node *n, int d) {
    int before = 0;
    for (int i = 0; i < n->attr->n_axes; i++) {
        if (n->attr->axes[i] == d) return -1;
        before += n->attr->axes[i] < d;
    }
    return n->op == OP_SCAN ? (n->attr->axis == d ? -1 : d) : d - before;
}

/* What a node is that reads members; *rows: the dim of one. */
static Role role_of(const Chunker *c, const Node *n, int *rows) {
    int d = -1;
    for (int k = 0; k < n->n_in; k++) {
        if (c->role[n->in[k]->id] != MEMBER) continue;
        if (d >= 0 && d != c->rows[n->in[k]->id] && n->op != OP_CONTRACT) return APART;
        d = c->rows[n->in[k]->id];
    }
    *rows = d;
    switch (op_info[n->op].cls) {
    case CLASS_ELEMENT: return MEMBER;
    case CLASS_MOVE: return n->op != OP_SLICE_AT && n->op != OP_UPDATE_AT && (*rows = moved_dim(n, d)) >= 0 ? MEMBER : APART;
    case CLASS_REDUCE:
        *rows = reduced_dim(n, d);
        return *rows >= 0 ? MEMBER : n->op == OP_SUM && n->dtype == DT_F32 ? END : APART;
    case CLASS_CONTRACT: {
        const int loop = loop_of_rows(c, n);
        if (loop < 0 || !loop_is_free(c, n, loop)) return APART;
        *rows = loop;
        return loop < n->attr->contract->n_out ? MEMBER : n->dtype == DT_F32 ? END : APART;
    }
    case CLASS_INDEXED: return n->op == OP_GATHER && c->role[n->in[0]->id] == APART ? MEMBER : APART;
    default: return APART;
    }
}

static void add_member(Chunker *c, Node *n, Role role, int rows) {
    c->role[n->id] = role;
    c->rows[n->id] = rows;
    vec_push(c->arena, c->members, n);
}

/* Takes n in, and before it all that it reads that depends on the product. */
static void take(Chunker *c, Node *n, int depth) {
    int rows;
    if (c->role[n->id] != APART || !c->fits) {
        c->fits &= c->role[n->id] != END || depth == 0;
        return;
    }
    if (depth == MOST_MEMBERS) c->fits = false;
    for (int k = 0; k < n->n_in && c->fits; k++)
        if (c->depends[n->in[k]->id]) take(c, n->in[k], depth + 1);
    if (!c->fits) return;
    const Role role = role_of(c, n, &rows);
    const bool ends = role == END;
    c->fits = role != APART && c->members.n < MOST_MEMBERS && !n->remat && (!c->live.will.streamed[n->id] || !c->live.will.memory[c->opens->id]) && !(ends && depth) && shape_is_fixed(*n->shape);
    c->fits &= !(role == MEMBER && is_large(c, n) && c->live.result[n->id]);
    if (c->fits) add_member(c, n, role, rows);
}

static void open_at(Chunker *c, const Node *opens) {
    c->opens = opens;
    memset(c->depends, 0, sizeof *c->depends * (size_t)c->opens->id);
    for (int i = c->opens->id; i < c->g->nodes.n; i++) {
        const Node *n = c->g->nodes.at[i];
        c->depends[i] = n == c->opens;
        for (int k = 0; k < n->n_in; k++) c->depends[i] |= n->in[k]->id >= c->opens->id && c->depends[n->in[k]->id];
    }
}

static void forget(Chunker *c) {
    for (int i = 0; i < c->members.n; i++) c->role[c->members.at[i]->id] = APART;
    c->members.n = 0;
}

static int by_id(const void *x, const void *y) {
    const Node *const *a = x, *const *b = y;
    return (*a)->id - (*b)->id;
}

/* The only reader of a small member is taken in where it is elementwise, and what it reads is there: it is computed with that. */
static void absorb(Chunker *c, const Node *n) {
    const int first = c->live.uses.first[n->id];
    Node *user = c->live.uses.first[n->id + 1] == first + 1 ? c->live.uses.user[first] : NULL;
    bool there = user && !c->live.result[n->id] && op_info[user->op].cls == CLASS_ELEMENT && c->role[user->id] == APART && !user->remat;
    for (int k = 0; there && k < user->n_in; k++) {
        const int in = user->in[k]->id;
        there = !c->depends[in] || (c->role[in] == MEMBER && c->rows[in] == c->rows[n->id]);
    }
    if (there && c->members.n < MOST_MEMBERS) add_member(c, user, MEMBER, c->rows[n->id]);
}

/* Of what is no member: is it small, the caller's, or computed from that where it is read?  What else is large would be in memory all
 * the same; of a scatter the rows of a chunk are made there. */
static bool is_at_hand(Chunker *c, const Node *x, int depth) {
    enum { DEEPEST = 64 };
    const OpClass cls = op_info[x->op].cls;
    if (!is_large(c, x) || cls == CLASS_SOURCE) return true;
    if (c->known[x->id] / 2 == c->now) return c->known[x->id] % 2;
    const bool kept = c->live.will.memory[x->id] && is_read_outside(c, x);
    const bool put_together = x->op == OP_CONCAT || x->op == OP_PAD || x->op == OP_SLICE_AT || x->op == OP_UPDATE_AT; /* it may get memory */
    bool ok = (cls == CLASS_ELEMENT || (cls == CLASS_MOVE && !put_together) || op_is_scatter(x->op)) && !kept && depth < DEEPEST;
    for (int k = 0; k < x->n_in && ok; k++) ok = is_at_hand(c, x->in[k], depth + 1);
    c->known[x->id] = 2 * c->now + ok;
    return ok;
}

/* Of the product that opens the region the factors are small enough (may_open). */
static bool reads_at_hand(Chunker *c) {
    bool ok = true;
    c->now++;
    for (int i = 1; i < c->members.n; i++)
        for (int k = 0; k < c->members.at[i]->n_in && ok; k++) {
            const Node *x = c->members.at[i]->in[k];
            ok = c->role[x->id] == MEMBER || is_at_hand(c, x, 0);
        }
    return ok;
}

/* Of `opens`, where open_at was last.  All readers of what is large are in it. */
static bool find_region(Chunker *c, Node *opens, int rows) {
    forget(c);
    c->extent = opens->shape->dim[rows].bound;
    c->fits = c->extent > 1 && loop_is_free(c, opens, rows);
    add_member(c, opens, MEMBER, rows);
    for (int i = 0; i < c->members.n && c->fits; i++) {
        const Node *n = c->members.at[i];
        if (c->role[n->id] != MEMBER || !is_large(c, n)) continue;
        for (int u = c->live.uses.first[n->id]; u < c->live.uses.first[n->id + 1] && c->fits; u++) take(c, c->live.uses.user[u], 0);
    }
    for (int i = 0; i < c->members.n && c->fits; i++)
        if (c->role[c->members.at[i]->id] == MEMBER && !is_large(c, c->members.at[i])) absorb(c, c->members.at[i]);
    if (c->fits) qsort(c->members.at, (size_t)c->members.n, sizeof *c->members.at, by_id);
    if (c->fits) find_until(c);
    return c->fits && (c->context->chunk_all || reads_at_hand(c));
}

/* ---- cost ------------------------------------------------------------------------------------------------------------------ */
/* Bytes that a chunk moves which all rows together would move once: what is added up, and what all rows read. */
static double chunk_bytes(const Chunker *c) {
    const Target *t = c->context->target;
    double bytes = 0;
    for (int i = 0; i < c->members.n; i++) {
        const Node *n = c->members.at[i];
        const bool product = n->op == OP_CONTRACT && !node_is_view(n);
        if (c->live.will.memory[n->id]) bytes += target_launch_bytes(t);
        if (c->role[n->id] == END) bytes += 2 * (double)node_bytes(n);
        for (int k = 0; k < n->n_in && product; k++) {
            bool ok = true;
            if (c->role[n->in[k]->id] == APART && dim_of_loop(n, k, c->rows[n->id], c->extent, &ok) < 0) bytes += (double)node_bytes(n->in[k]);
        }
    }
    return bytes;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Rows of each of so many chunks; the last one has what is left. */
static int64_t chunk_length(const Chunker *c, int64_t extent, int chunks) {
    if (c->context->chunk_all) return ceil_div(extent, chunks);
    return extent % chunks ? ceil_div(ceil_div(extent, chunks), ROW_MULTIPLE) * ROW_MULTIPLE : extent / chunks;
}

/* How many chunks pay the most, and by how much; 1: none do. */
static int best_chunks(const Chunker *c, double *gain) {
    const Target *t = c->context->target;
    const double whole = peak(c, 1, NULL), each = chunk_bytes(c);
    const int64_t least = (c->context->live_most ? 1 : (int64_t)t->cores) * t->max_tile; /* elements that keep it busy, if memory allows */
    int best = 1;
    *gain = c->context->chunk_all;
    if (c->context->chunk_all) return c->extent < 3 ? 2 : 3;
    for (int n = 2; n <= MOST_CHUNKS && n <= c->extent; n++) {
        const int64_t length = chunk_length(c, c->extent, n);
        if (c->extent % n && (n & (n - 1))) continue;
        if (ceil_div(c->extent, length) != n || shape_elements(*c->opens->shape) / c->extent * length < least) continue;
        const double pays = WEIGHT * (whole - peak(c, n, NULL)) - (n - 1) * each;
        if (pays > *gain) *gain = pays, best = n;
    }
    return best;
}

/* ---- the new graph ------------------------------------------------------------------------------------------------------------ */
typedef struct ChunkRebuild {
    const Chunker *c;
    Graph *out;
    Node **map;     /* by old id */
    Node **now;     /* by old id, of members: its clone in the chunk at hand */
    NodeList *parts; /* by old id, of members that are read outside: those of all chunks */
    struct Sliced { /* by old id: rows of the chunk `remat` */
        int remat, dim;
        Node *rows;
    } *sliced;
    int64_t begin, length;
    int remat;
} ChunkRebuild;
typedef struct Sliced Sliced;

static Node *add_node(ChunkRebuild *r, const Node *like, Op op, int n_in, Node *const *in, const Attr *attr, Shape shape) {
    Node *n = graph_node(r->out, op, n_in, in, attr, like->dtype, shape);
    n->phase = like->phase;
    n->precision = like->precision;
    n->again = like->again;
    n->loc = like->loc;
    n->remat = r->remat;
    return n;
}

static Node *rows_of(ChunkRebuild *r, const Node *x, int dim, int depth);

/* The rows of the chunk of what is elementwise, or a broadcast, and in no memory but for the region: computed from rows. */
static Node *computed_rows(ChunkRebuild *r, const Node *x, int dim, Shape s, int depth) {
    Node *in[4];
    assert(x->n_in <= 4);
    for (int k = 0; k < x->n_in; k++) {
        int of = op_info[x->op].cls == CLASS_ELEMENT ? dim : -1;
        for (int d = 0; d < x->in[k]->shape->rank && x->op == OP_BROADCAST; d++)
            if (x->attr->axes[d] == dim) of = d;
        in[k] = of < 0 ? r->map[x->in[k]->id] : rows_of(r, x->in[k], of, depth + 1);
    }
    return add_node(r, x, x->op, x->n_in, in, x->attr, s);
}

/* The rows of the chunk of a scatter: of what is sent to others nothing is added. */
static Node *scattered_rows(ChunkRebuild *r, const Node *x, int dim, Shape s, int depth) {
    const Node *ids = x->in[1];
    Node *in[] = {r->map[x->in[0]->id], r->map[ids->id]};
    Attr a = *x->attr;
    if (dim > 0) in[0] = rows_of(r, x->in[0], ids->shape->rank + dim - 1, depth + 1);
    else {
        const Shape each = *ids->shape;
        Node *begin = add_node(r, ids, OP_CONST, 0, NULL, &(Attr){.value = (double)r->begin}, each);
        Node *nowhere = add_node(r, ids, OP_CONST, 0, NULL, &(Attr){.value = -1}, each);
        Node *from = add_node(r, ids, OP_GE, 2, (Node *[]){in[1], begin}, NULL, each), *at = add_node(r, ids, OP_SUB, 2, (Node *[]){in[1], begin}, NULL, each);
        from->dtype = DT_BOOL;
        in[1] = add_node(r, ids, OP_SELECT, 3, (Node *[]){from, at, nowhere}, NULL, each);
        a.extent = dim_fixed(r->length);
    }
    return add_node(r, x, x->op, 2, in, &a, s);
}

/* Rows of what is no member. */
static Node *rows_of(ChunkRebuild *r, const Node *x, int dim, int depth) {
    enum { DEEPEST = 64 };
    const bool by_element = op_info[x->op].cls == CLASS_ELEMENT || x->op == OP_BROADCAST || x->op == OP_CONST || (x->op == OP_IOTA && x->attr->axis != dim);
    const bool in_memory = r->c->live.will.memory[x->id] && is_read_outside(r->c, x);
    Sliced *have = &r->sliced[x->id];
    if (have->remat == r->remat && have->dim == dim) return have->rows;
    Attr a = {0};
    Shape s = *x->shape;
    s.dim[dim] = dim_fixed(r->length);
    have->remat = r->remat, have->dim = dim;
    if (by_element && is_large(r->c, x) && !in_memory && depth < DEEPEST) return have->rows = computed_rows(r, x, dim, s, depth);
    if (op_is_scatter(x->op) && is_large(r->c, x) && !in_memory) return have->rows = scattered_rows(r, x, dim, s, depth);
    for (int d = 0; d < s.rank; d++) a.lo[d] = dim_fixed(d == dim ? r->begin : 0), a.hi[d] = s.dim[d], a.step[d] = 1;
    return have->rows = add_node(r, x, OP_SLICE, 1, &r->map[x->id], &a, s);
}

/* Dim of an operand that is no member that the rows walk; -1: they all read the whole. */
static int dim_read(const ChunkRebuild *r, const Node *n, int k) {
    const Chunker *c = r->c;
    bool ok = true;
    if (n->op == OP_CONTRACT) return dim_of_loop(n, k, c->rows[n->id], c->extent, &ok);
    return op_info[n->op].cls == CLASS_ELEMENT || n->op == OP_CONCAT || n->op == OP_SCAN ? c->rows[n->id] : -1;
}

static Node *clone(ChunkRebuild *r, const Node *n) {
    const Chunker *c = r->c;
    Node **in = ARENA_ARRAY(c->arena, Node *, n->n_in + 1);
    Attr a = *n->attr;
    Contract contract;
    Shape s = *n->shape;
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = n->in[k];
        const int dim = c->role[x->id] == MEMBER ? -1 : dim_read(r, n, k);
        in[k] = c->role[x->id] == MEMBER ? r->now[x->id] : dim < 0 ? r->map[x->id] : rows_of(r, x, dim, 0);
    }
    if (c->role[n->id] == MEMBER) s.dim[c->rows[n->id]] = dim_fixed(r->length);
    if (n->op == OP_CONTRACT) {
        contract = *n->attr->contract;
        contract.extent[c->rows[n->id]] = dim_fixed(r->length);
        a.contract = &contract;
    }
    if (n->op == OP_SLICE) a.hi[c->rows[n->id]] = dim_fixed(r->length);
    return add_node(r, n, n->op, n->n_in, in, &a, s);
}

static void add_chunk(ChunkRebuild *r) {
    for (int i = 0; i < r->c->members.n; i++) {
        const Node *n = r->c->members.at[i];
        Node *x = r->now[n->id] = clone(r, n);
        if (r->c->role[n->id] == MEMBER) {
            if (is_read_outside(r->c, n)) vec_push(r->c->arena, r->parts[n->id], x);
            continue;
        }
        Node *both[] = {r->map[n->id], x};
        r->map[n->id] = both[0] ? add_node(r, n, OP_ADD, 2, both, NULL, *n->shape) : x;
    }
}

static void add_chunks(ChunkRebuild *r, int chunks) {
    const Chunker *c = r->c;
    const int64_t length = chunk_length(c, c->extent, chunks);
    for (r->begin = 0; r->begin < c->extent; r->begin += length) {
        r->length = r->begin + length < c->extent ? length : c->extent - r->begin;
        r->remat++;
        add_chunk(r);
    }
    r->out->chunks = r->remat;
    r->remat = 0;
    for (int i = 0; i < c->members.n; i++) {
        const Node *n = c->members.at[i];
        const NodeList *parts = &r->parts[n->id];
        if (parts->n) r->map[n->id] = add_node(r, n, OP_CONCAT, parts->n, parts->at, &(Attr){.axis = c->rows[n->id]}, *n->shape);
    }
}

static void copy_node(ChunkRebuild *r, const Node *n) {
    Node **in = ARENA_ARRAY(r->c->arena, Node *, n->n_in + 1);
    for (int k = 0; k < n->n_in; k++) in[k] = r->map[n->in[k]->id];
    r->map[n->id] = graph_node_like(r->out, n, in);
}

/* What depends on the region comes after it. */
static Graph *rebuild(Chunker *c, int chunks) {
    const Graph *g = c->g;
    const int n = g->nodes.n;
    ChunkRebuild r = {.c = c, .out = graph_new_from(c->context->arena, g)};
    r.map = ARENA_ARRAY(c->arena, Node *, n + 1);
    r.now = ARENA_ARRAY(c->arena, Node *, n + 1);
    r.parts = ARENA_ARRAY(c->arena, NodeList, n + 1);
    r.sliced = ARENA_ARRAY(c->arena, Sliced, n + 1);
    const int end = vec_last(c->members)->id;
    for (int i = 0; i <= end; i++)
        if (i < c->opens->id || !c->depends[i]) copy_node(&r, g->nodes.at[i]);
    r.remat = g->chunks;
    add_chunks(&r, chunks);
    for (int i = c->opens->id; i < n; i++)
        if (c->role[i] == APART && (i > end || c->depends[i])) copy_node(&r, g->nodes.at[i]);
    for (int i = 0; i < g->results.n; i++)
        graph_result(r.out, g->results.at[i].kind, g->results.at[i].decl, r.map[g->results.at[i].value->id]);
    return r.out;
}

/* ---- which region ----------------------------------------------------------------------------------------------------------------- */
static bool may_open(const PassContext *context, const Node *n) {
    if (n->op != OP_CONTRACT || n->n_in != 2 || n->remat || !dtype_is_float(n->dtype) || !contract_is_product(n)) return false;
    if (context->chunk_all && shape_is_fixed(*n->shape)) return shape_elements(*n->shape) > 0;
    const int64_t factors = shape_elements(*n->in[0]->shape) + shape_elements(*n->in[1]->shape);
    return shape_is_fixed(*n->shape) && shape_elements(*n->shape) > (context->live_most ? SMALLER : MUCH_SMALLER) * factors;
}

/* Is something scattered added to a product that is streamed, and in memory for that? */
static bool is_streamed_onto(const Chunker *c, const Node *n) {
    bool onto = false;
    if (n->op != OP_CONTRACT || c->live.will.memory[n->id]) return false;
    for (int u = c->live.uses.first[n->id]; u < c->live.uses.first[n->id + 1]; u++) {
        const Node *user = c->live.uses.user[u];
        for (int k = 0; k < user->n_in && op_info[user->op].cls == CLASS_ELEMENT; k++)
            onto |= op_is_scatter(user->in[k]->op) && c->live.stored[user->in[k]->id];
    }
    return onto;
}

/* Of products that are live at the peak the largest, first ones first. */
static int find_candidates(const Chunker *c, Node **found) {
    int at = 0, n = 0;
    peak(c, 1, &at);
    for (int i = 0; i < c->g->nodes.n; i++) {
        Node *x = c->g->nodes.at[i];
        const bool live = c->live.will.memory[i] && i <= at, onto = is_streamed_onto(c, x);
        if (!c->context->chunk_all && (!(live || onto) || c->live.as_large[i] < at)) continue;
        if (!(c->live.will.memory[i] || onto) || c->live.result[i] || !may_open(c->context, x)) continue;
        int place = n < MOST_TRIED ? n++ : MOST_TRIED;
        for (; place > 0 && node_bytes(found[place - 1]) < node_bytes(x); place--)
            if (place < MOST_TRIED) found[place] = found[place - 1];
        if (place < MOST_TRIED) found[place] = x;
    }
    return n;
}

/* The best of all: its members are those at hand then.  1: none. */
static int choose(Chunker *c) {
    Node *found[MOST_TRIED], *best = NULL;
    const int n = find_candidates(c, found);
    double most = 0;
    int chunks = 1, rows = 0;
    for (int i = 0; i < n; i++) {
        open_at(c, found[i]);
        for (int d = 0; d < found[i]->shape->rank; d++) {
            double gain;
            if (!find_region(c, found[i], d)) continue;
            const int wanted = best_chunks(c, &gain);
            if (gain > most) most = gain, chunks = wanted, best = found[i], rows = d;
        }
    }
    if (!best) return 1;
    open_at(c, best);
    find_region(c, best, rows);
    return chunks;
}

static Chunker chunker_new(PassContext *context, Graph *g, Arena *a) {
    const int n = g->nodes.n;
    Chunker c = {.context = context, .arena = a, .g = g, .live = live_ranges(context, g, a)};
    c.change = ARENA_ARRAY(a, double, n + 2);
    c.depends = ARENA_ARRAY(a, bool, n + 1);
    c.role = ARENA_ARRAY(a, Role, n + 1);
    c.rows = ARENA_ARRAY(a, int, n + 1);
    c.until = ARENA_ARRAY(a, int, n + 1);
    c.known = ARENA_ARRAY(a, int, n + 1);
    return c;
}

static bool any_opens(const PassContext *context, const Graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (may_open(context, g->nodes.at[i])) return true;
    return false;
}

Graph *pass_chunk(PassContext *context, Graph *g) {
    enum { MOST_REGIONS = 4 };
    if (!context->target || context->disabled[PASS_fuse]) return g;
    for (int i = 0; i < MOST_REGIONS && any_opens(context, g); i++) {
        Arena *a = arena_new();
        Chunker c = chunker_new(context, g, a);
        const int chunks = choose(&c);
        if (chunks > 1) g = rebuild(&c, chunks);
        arena_free(a);
        if (chunks == 1) break;
    }
    return g;
}
