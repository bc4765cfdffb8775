#include "passes/plan/slices.h"
#include "passes/algebra/access.h"
#include "passes/algebra/contract_class.h"
#include "passes/kernel/matrix.h"
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
    w->n_products = w->steps = 0;
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

const Slices *slices_of_tiles(PassContext *c, const Graph *g) {
    const int n = g->nodes.n;
    const Uses uses = graph_uses(c->arena, g);
    Slices *made = ARENA_ARRAY(c->arena, Slices, n + 1);
    bool *read = ARENA_ARRAY(c->arena, bool, n + 1); /* by product: another sum reads its kernel's values from memory */
    SumSource w = {.arena = c->arena, .uses = &uses, .stamp = ARENA_ARRAY(c->arena, int, n + 1), .from = ARENA_ARRAY(c->arena, int, n + 1)};
    for (int i = 0; i < n; i++) {
        const Node *sum = g->nodes.at[i];
        if (!sums_down(sum)) continue;
        const bool made_by = is_made_by(&w, sum);
        for (int p = 0; p < w.n_products; p++) read[w.product[p]->id] |= !made_by || w.product[p] != w.last;
        if (made_by) made[i] = (Slices){w.last, length_of(&w, c->target, sum)};
    }
    for (int i = 0; i < n; i++)
        if (made[i].product && read[made[i].product->id]) made[i].length = 0;
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
