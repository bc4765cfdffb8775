#include "passes/plan/slices.h"
#include "passes/algebra/access.h"
#include "passes/algebra/contract_class.h"
#include "passes/kernel/matrix.h"
#include "passes/kernel/tile_size.h"
#include <string.h>

/* ---- of which product --------------------------------------------------------------------------------------- */
/* What sums are made from. */
typedef struct SumSource {
    Arena *arena;
    const Uses *uses;
    int *from;        /* by node id: 2 * now, and 1 if it is computed from the product */
    int *stamp, now;  /* by node id: the walk that came there last */
    const Node *last; /* of what is neither elementwise nor moved */
    bool moved;       /* it is reached through movement */
    const Node *product[8];
    IntList sums; /* ids of the sums that it is computed from */
    int n_products, steps;
    bool little; /* all but what the product's kernel has is much smaller than what is summed */
    int64_t elements;
} SumSource;

static bool much_smaller(const SumSource *w, const Node *n) {
    return shape_elements(*n->shape) <= w->elements / SLICES_MUCH_SMALLER;
}

static void arrive(SumSource *w, const Node *n, bool moved) {
    const int most = sizeof w->product / sizeof *w->product;
    if (!w->last || n->id > w->last->id) w->last = n, w->moved = moved;
    if (n->op == OP_SUM) vec_push(w->arena, w->sums, n->id);
    if (!contract_is_product(n)) return;
    if (w->n_products < most)
        w->product[w->n_products++] = n;
    else
        w->little = false;
}

static void ends_of(SumSource *w, const Node *n, bool moved) {
    enum { MOST_STEPS = 400 }; /* what more is behind is no epilogue: a residual stream goes through the whole model */
    const OpClass cls = op_info[n->op].cls;
    if (w->stamp[n->id] == w->now) return;
    w->stamp[n->id] = w->now;
    if (++w->steps > MOST_STEPS) {
        w->little = false;
        return;
    }
    if (cls != CLASS_ELEMENT && cls != CLASS_MOVE && cls != CLASS_SOURCE) {
        arrive(w, n, moved);
        return;
    }
    for (int i = 0; i < n->n_in; i++) ends_of(w, n->in[i], moved || cls == CLASS_MOVE);
}

static bool comes_from(SumSource *w, const Node *n) {
    if (n->id <= w->last->id || op_info[n->op].cls != CLASS_ELEMENT) return n == w->last;
    if (w->from[n->id] / 2 != w->now) {
        bool from = false;
        for (int i = 0; i < n->n_in && !from; i++) from = comes_from(w, n->in[i]);
        w->from[n->id] = 2 * w->now + from;
    }
    return w->from[n->id] % 2;
}

static bool is_shared(const SumSource *w, const Node *n) { return w->uses->first[n->id + 1] - w->uses->first[n->id] > 1; }

/* What is read beside the values of the product's kernel: those that others read too, and the product. */
static void others_of(SumSource *w, const Node *n) {
    if (w->stamp[n->id] == w->now) return;
    w->stamp[n->id] = w->now;
    if (n == w->last || much_smaller(w, n) || n->op == OP_CONST) return;
    if (is_shared(w, n) && comes_from(w, n)) return;
    const OpClass cls = op_info[n->op].cls;
    if (cls != CLASS_ELEMENT && cls != CLASS_MOVE) w->little = false;
    for (int i = 0; i < n->n_in && w->little; i++) others_of(w, n->in[i]);
}

/* A sum over one dim that is not the innermost: its slices are tiles beside each other. */
static bool sums_down(const Node *n) {
    return n->op == OP_SUM && n->dtype == DT_F32 && n->attr->n_axes == 1 && n->attr->axes[0] < n->in[0]->shape->rank - 1;
}

static bool is_made_by(SumSource *w, const Node *sum) {
    const Node *x = sum->in[0];
    w->last = NULL;
    w->n_products = w->steps = w->sums.n = 0;
    w->little = true;
    w->elements = shape_elements(*x->shape);
    w->now++;
    ends_of(w, x, false);
    if (!w->little || !w->last || w->moved || !contract_is_product(w->last) || !shape_same(w->last->shape, x->shape)) return false;
    w->now++;
    others_of(w, x);
    return w->little;
}

/* Of what x is computed from, what others read too and the product has no part in is in memory. */
static void reads_of(SumSource *w, Node *n, PlanKernel *like) {
    if (w->stamp[n->id] == w->now) return;
    w->stamp[n->id] = w->now;
    if (n == w->last) return;
    if (is_shared(w, n) && !comes_from(w, n)) {
        vec_push(w->arena, like->reads, n);
        return;
    }
    for (int i = 0; i < n->n_in; i++) reads_of(w, n->in[i], like);
}

/* The slices' sums are written and read again: less than to read the elements once. */
static int64_t length_of(SumSource *w, const Target *t, const Node *sum) {
    enum { LEAST_SLICES = 2 };
    const int dim = sum->attr->axes[0];
    PlanKernel like = {.kind = KERNEL_CONTRACT};
    if (!t || !dim_is_fixed(sum->in[0]->shape->dim[dim])) return 0;
    w->now++;
    reads_of(w, sum->in[0], &like);
    vec_push(w->arena, like.nodes, ((PlanNode){.node = sum->in[0], .stored = true}));
    const int64_t length = matrix_slice(t, w->last, dim, &like);
    return length && sum->in[0]->shape->dim[dim].bound >= LEAST_SLICES * length ? length : 0;
}

/* ---- of rows -------------------------------------------------------------------------------------------------------- */
/* Which values, as large as what they reduce, kernels read that reduce rows. */
typedef struct RowReads {
    SumSource *walk;
    bool *read; /* by node id: by a reduction of the innermost dim, or it is one */
} RowReads;

static bool is_leaf(const Node *n) {
    const OpClass cls = op_info[n->op].cls;
    return cls != CLASS_ELEMENT && cls != CLASS_MOVE && !node_is_view(n);
}

/* mark: sets `read` for what n is computed from; else: is any of it set? */
static bool walk_leaves(RowReads *w, const Node *n, bool mark) {
    enum { MOST_STEPS = 200 };
    SumSource *s = w->walk;
    bool found = false;
    if (s->stamp[n->id] == s->now || ++s->steps > MOST_STEPS) return false;
    s->stamp[n->id] = s->now;
    if (is_leaf(n)) {
        if (mark && shape_elements(*n->shape) >= s->elements) w->read[n->id] = true;
        return w->read[n->id];
    }
    for (int i = 0; i < n->n_in; i++) found |= walk_leaves(w, n->in[i], mark);
    return found;
}

static bool leaves_of(RowReads *w, const Node *x, bool mark) {
    w->walk->now++;
    w->walk->steps = 0;
    w->walk->elements = shape_elements(*x->shape);
    return walk_leaves(w, x, mark);
}

static bool reduces_row(const Node *n) {
    return op_info[n->op].cls == CLASS_REDUCE && n->op != OP_SCAN && n->attr->n_axes == 1 &&
           n->attr->axes[0] == n->in[0]->shape->rank - 1;
}

/* Programs of a processor: with sums, which each program writes, as few as keep it busy; without, as many as it takes at once, so
 * that a slice costs no waiting for memory. */
enum { SUMMING_PROGRAMS = 4, READING_PROGRAMS = 16 }; /* from `./dev bench fusion` */

/* How many of `rows` rows a program walks, of `others` such dims side by side, with that many programs a processor.  0: one tile of
 * them, or the rows are none that a tile holds. */
static int64_t slice_of(const Target *t, Dim rows, Dim row, int64_t others, int resident) {
    enum { LEAST = 16, TILE_SHARE = 512, TILES = 2 }; /* rows, and tiles of them, of a slice */
    const Shape whole = {.rank = 1, .dim = {row}};
    if (!t || t->cores < 2 || !dim_is_fixed(rows) || !dim_is_fixed(row) || row.bound < 1 || others < 1) return 0;
    if (!tile_holds_row(t, &whole)) return 0;
    const int64_t programs = resident * t->cores / others, tiles = TILES * tile_rows(t, row.bound);
    int64_t least = t->max_tile / TILE_SHARE < LEAST ? t->max_tile / TILE_SHARE : LEAST; /* tests with small tiles have short slices */
    if (least < tiles) least = tiles;
    if (programs > 0 && least < rows.bound / programs) least = rows.bound / programs;
    for (int64_t length = least; length < 2 * least && 2 * length <= rows.bound; length++)
        if (rows.bound % length == 0) return length;
    return 0;
}

static int64_t length_of_rows(const Target *t, const Node *sum) {
    const Shape *s = sum->in[0]->shape;
    const Dim rows = s->dim[sum->attr->axes[0]], row = s->dim[s->rank - 1];
    return slice_of(t, rows, row, row.bound ? shape_elements(*sum->shape) / row.bound : 0, SUMMING_PROGRAMS);
}

void slices_of_reads(const Target *t, PlanKernel *k) {
    bool again = false;
    const int last = k->p->rank - 1;
    if (!t || k->kind != KERNEL_ROW || k->sliced || k->r->rank != 1 || last < 0 || !shape_is_fixed(*k->p) || !tile_walks_whole_rows(t, k)) return;
    for (int i = 0; i < k->reads.n; i++) again |= shape_same(k->reads.at[i]->shape, k->r);
    const Dim rows = k->p->dim[last];
    const int64_t others = rows.bound ? shape_elements(*k->p) / rows.bound : 0;
    const int64_t length = again ? slice_of(t, rows, k->r->dim[0], others, READING_PROGRAMS) : 0;
    if (length && others * rows.bound / length >= READING_PROGRAMS * t->cores) k->sliced = last + 1, k->slice = length;
}

/* Elementwise, and in memory besides: the kernel that writes it has all of the row. */
static bool is_written(const SumSource *w, const bool *result, const Node *x) {
    return op_info[x->op].cls == CLASS_ELEMENT && (result[x->id] || is_shared(w, x));
}

/* Sums of what row kernels read, and of what is written row by row. */
static void slices_of_rows(const Target *t, const Graph *g, SumSource *walk, Slices *made) {
    RowReads w = {walk, ARENA_ARRAY(walk->arena, bool, g->nodes.n + 1)};
    bool *result = ARENA_ARRAY(walk->arena, bool, g->nodes.n + 1);
    for (int i = 0; i < g->results.n; i++) result[g->results.at[i].value->id] = true;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (!n->n_in || !reduces_row(n)) continue;
        leaves_of(&w, n->in[0], true);
        w.read[i] = true;
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *sum = g->nodes.at[i];
        if (made[i].length || !sums_down(sum)) continue;
        if (leaves_of(&w, sum->in[0], false) || is_written(walk, result, sum->in[0])) made[i] = (Slices){NULL, length_of_rows(t, sum)};
    }
}

/* Sums that read a product's values from memory, by product: a sum of these values is taken there too, unless all that do so wait for
 * it, as the variance of a column does for its mean. */
typedef struct LaterSums {
    bool any;
    IntList all_wait_for; /* ids of sums */
} LaterSums;

static bool has_id(const IntList *l, int id) {
    int i = 0;
    while (i < l->n && l->at[i] != id) i++;
    return i < l->n;
}

static void note_reading(const SumSource *w, LaterSums *x) {
    IntList both = {0};
    for (int i = 0; i < w->sums.n; i++)
        if (!x->any || has_id(&x->all_wait_for, w->sums.at[i])) vec_push(w->arena, both, w->sums.at[i]);
    *x = (LaterSums){true, both};
}

const Slices *slices_of_tiles(PassContext *c, const Graph *g) {
    const int n = g->nodes.n;
    const Uses uses = graph_uses(c->arena, g);
    Slices *made = ARENA_ARRAY(c->arena, Slices, n + 1);
    LaterSums *later = ARENA_ARRAY(c->arena, LaterSums, n + 1);
    SumSource w = {.arena = c->arena, .uses = &uses, .stamp = ARENA_ARRAY(c->arena, int, n + 1), .from = ARENA_ARRAY(c->arena, int, n + 1)};
    for (int i = 0; i < n; i++) {
        const Node *sum = g->nodes.at[i];
        if (!sums_down(sum)) continue;
        const bool made_by = is_made_by(&w, sum);
        for (int p = 0; p < w.n_products; p++)
            if (sum->phase == w.product[p]->phase && (!made_by || w.product[p] != w.last)) note_reading(&w, &later[w.product[p]->id]);
        if (made_by) made[i] = (Slices){w.last, length_of(&w, c->target, sum)};
    }
    for (int i = 0; i < n; i++) {
        const LaterSums *x = made[i].product ? &later[made[i].product->id] : NULL;
        if (x && x->any && !has_id(&x->all_wait_for, i)) made[i].length = 0;
    }
    slices_of_rows(c->target, g, &w, made);
    return made;
}

bool slices_made_in(const Node *x, const Node *product, int depth) {
    enum { DEEPEST = 16 };
    if (depth == DEEPEST || op_info[x->op].cls != CLASS_ELEMENT)
        return contract_is_product(x) && shape_same(x->shape, product->shape) &&
               x->attr->contract->n_loops == product->attr->contract->n_loops;
    for (int i = 0; i < x->n_in; i++)
        if (slices_made_in(x->in[i], product, depth + 1)) return true;
    return false;
}
