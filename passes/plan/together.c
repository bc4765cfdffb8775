/* together: what one kernel can compute at once stands side by side in the graph.
 *
 *     dx = dq Wq' + dk Wk' + dv Wv'      products that are added: one after the other into one accumulator
 *     dW = x' dy,  db = sum_i dy         a sum over an operand of a product: taken from the tiles that the product
 * reads
 *
 * The backward graph has them where the chain rule came by.  fuse joins kernels in the order of the graph, so each
 * moves down to the last of its company, past nothing that reads it.  A sum reads the operand as the product has it,
 * its dims merged, so that they are seen to be the same. */
#include "passes/plan/together.h"
#include "ir/node_pool.h"
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_class.h"
#include "passes/kernel/matrix.h"
#include <string.h>

/* ---- questions --------------------------------------------------------------------------------------------------- */
bool product_shares(const Node *n) {
    if (n->op != OP_CONTRACT || n->n_in != 2 || (n->dtype != DT_F32 && !dtype_is_low(n->dtype))) return false;
    const ContractClass c = contract_classify(n->attr->contract, n->in);
    return c.is_whole && c.k > 1 && c.other == 1;
}

bool products_alike(const Node *a, const Node *b) {
    const ContractClass x = contract_classify(a->attr->contract, a->in),
                        y = contract_classify(b->attr->contract, b->in);
    bool straight = true, transposed = true;
    if (!shape_same(a->shape, b->shape)) return false;
    for (int l = 0; l < a->shape->rank; l++) {
        const LoopClass other = x.loop[l] == LOOP_M ? LOOP_N : x.loop[l] == LOOP_N ? LOOP_M : x.loop[l];
        straight &= x.loop[l] == y.loop[l];
        transposed &= other == y.loop[l];
    }
    return straight || transposed;
}

/* Of operand k: the dims that the product sums; false if it has not all of them, or no others. */
static bool summed_dims(const Node *product, int k, unsigned *summed) {
    const Contract *c = product->attr->contract;
    int n = 0;
    *summed = 0;
    for (int d = 0; d < product->in[k]->shape->rank; d++) {
        if (affine_single_loop(c, &c->map[k][d]) < c->n_out) continue;
        *summed |= 1u << d;
        n++;
    }
    return n == c->n_loops - c->n_out && n < product->in[k]->shape->rank;
}

static unsigned reduced_dims(const Node *sum) {
    unsigned dims = 0;
    for (int i = 0; i < sum->attr->n_axes; i++) dims |= 1u << sum->attr->axes[i];
    return dims;
}

/* The programs that compute the sum stand at the begin of the other parallel loops: there must be some. */
static bool runs_without(const Contract *c, const int8_t *loop, int n) {
    unsigned used = 0;
    for (int d = 0; d < n; d++) used |= 1u << loop[d];
    for (int l = 0; l < c->n_out; l++)
        if (!(used >> l & 1) && dim_may_be_empty(c->extent[l])) return false;
    return true;
}

int sum_fits_loop(const Node *sum, const Node *product, int8_t *loop) {
    const Contract *c = product->attr->contract;
    unsigned summed;
    if (sum->op != OP_SUM || sum->dtype != DT_F32 || !product_shares(product)) return -1;
    for (int k = 0; k < 2; k++) {
        if (product->in[k] != sum->in[0] || !summed_dims(product, k, &summed) || reduced_dims(sum) != summed) continue;
        if (sum->shape->rank == product->shape->rank)
            continue; /* there are no tiles beside each other that read the same */
        bool fits = true;
        for (int d = 0, kept = 0; d < sum->in[0]->shape->rank; d++) {
            const int at = affine_single_loop(c, &c->map[k][d]);
            fits = fits && at >= 0; /* else a dim of one element */
            if (!(summed >> d & 1)) loop[kept++] = (int8_t)at;
        }
        if (fits && runs_without(c, loop, sum->shape->rank)) return k;
    }
    return -1;
}

bool target_adds_up(const Target *t, const Node *a, const Node *b) {
    if (!t || !matrix_takes(t, a)) return !t || !matrix_takes(t, b);
    return matrix_takes(t, b) && a->in[0]->dtype == b->in[0]->dtype;
}

bool target_takes_sums(const Target *t, const Node *product) {
    return !t || (t->device->takes_sums && !matrix_takes(t, product));
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */
typedef struct Together {
    Graph *g;
    Uses uses; /* by id, as all that is by id here: ids stay until the end */
    Node **order;
    int *place;   /* by id */
    int *results; /* by id: how many results it is */
    int *first;   /* by id of a value without its reshapes: the first entry of a product that reads it, or -1 */
    /* by id of a product, or of a sum of such that are alike and read nowhere else: one of them; NULL */
    const Node **leaf;
    Node **gathered; /* by id: the sum of products, or the product, that goes right in front of it, or NULL */
    bool *moves;     /* by id: it goes with such a sum */
    int n;           /* nodes */
} Together;

static Node *unreshaped(Node *n) {
    while (n->op == OP_RESHAPE && shape_is_fixed(*n->shape)) n = n->in[0];
    return n;
}

static void move_to(Together *t, Node *n, int to) {
    const int from = t->place[n->id], step = from < to ? 1 : -1;
    for (int i = from; i != to; i += step) {
        t->order[i] = t->order[i + step];
        t->place[t->order[i]->id] = i;
    }
    t->order[to] = n;
    t->place[n->id] = to;
}

static void move_behind(Together *t, Node *n, const Node *at) {
    move_to(t, n, t->place[at->id] + (t->place[n->id] > t->place[at->id]));
}

static bool read_once(const Together *t, const Node *n) {
    return t->uses.first[n->id + 1] - t->uses.first[n->id] == 1 && t->results[n->id] == 0;
}

/* ---- sums of products -------------------------------------------------------------------------------------------- */
static bool same_time(const Node *a, const Node *b) { return a->phase == b->phase && a->remat == b->remat; }

/* May the sum n, or the product, be one term of a sum whose other terms are as `with`? */
static bool joins(const Together *t, const Node *n, const Node *with) {
    const Node *leaf = t->leaf[n->id];
    return leaf && read_once(t, n) && same_time(leaf, with) && leaf->dtype == with->dtype && products_alike(leaf, with);
}

/* All are rounded once, at the end. */
static const Node *find_leaf(const Together *t, const Node *n) {
    if (n->op != OP_ADD) return product_shares(n) ? n : NULL;
    const Node *leaf = t->leaf[n->in[0]->id];
    const bool alike =
        leaf && same_time(n, leaf) && n->dtype == leaf->dtype && read_once(t, n->in[0]) && joins(t, n->in[1], leaf);
    return alike ? leaf : NULL;
}

static Node *later(const Together *t, const Node *add) {
    return t->place[add->in[0]->id] > t->place[add->in[1]->id] ? add->in[0] : add->in[1];
}

static Node *earlier(const Together *t, const Node *add) {
    return later(t, add) == add->in[0] ? add->in[1] : add->in[0];
}

/* The terms of a sum go in front of the last, a product; those of a sum within it go with it. */
static void find_gathered(Together *t, const Node *add) {
    if (add->op != OP_ADD || add->in[0] == add->in[1]) return;
    const Node *last = later(t, add);
    Node *other = earlier(t, add);
    if (last->op == OP_ADD || !t->leaf[last->id] || add->dtype != last->dtype || !read_once(t, last)) return;
    if (same_time(add, last) && joins(t, other, last)) t->gathered[last->id] = other;
}

/* From order[*at] down: the sum, and what it adds up, the terms of a term in front of all terms that stand beside it.
 */
static void place_gathered(Together *t, Arena *a, Node *sum, int *at) {
    VEC(Node *) open = {0};
    t->order[--*at] = sum;
    vec_push(a, open, sum);
    while (open.n) {
        const Node *n = open.at[--open.n];
        t->moves[n->id] = true;
        if (n->op != OP_ADD) continue;
        vec_push(a, open, t->order[--*at] = later(t, n));
        vec_push(a, open, t->order[--*at] = earlier(t, n));
    }
}

/* From the last node to the first.  What stays keeps its order. */
static void gather_terms(Together *t, Arena *a) {
    int at = t->n;
    for (int i = 0; i < t->n; i++) t->leaf[i] = find_leaf(t, t->g->nodes.at[i]);
    for (int i = t->n - 1; i >= 0; i--) {
        if (t->moves[i]) continue;
        find_gathered(t, t->g->nodes.at[i]);
        t->order[--at] = t->g->nodes.at[i];
        if (t->gathered[i]) place_gathered(t, a, t->gathered[i], &at);
    }
    for (int i = 0; i < t->n; i++) t->place[t->order[i]->id] = i;
}

/* ---- sums over an operand ---------------------------------------------------------------------------------------- */
typedef struct Reader {
    Node *product;
    int operand, next;
} Reader;
typedef VEC(Reader) Readers;

static Readers readers_of_values(Together *t, Arena *a) {
    Readers list = {0};
    for (int i = 0; i < t->n; i++) t->first[i] = -1;
    for (int i = 0; i < t->n; i++) {
        Node *n = t->order[i];
        for (int k = 0; k < 2 && product_shares(n); k++) {
            const int id = unreshaped(n->in[k])->id;
            vec_push(a, list, ((Reader){n, k, t->first[id]}));
            t->first[id] = list.n - 1;
        }
    }
    return list;
}

static int64_t elements(const Shape *s, int from, int to) {
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= s->dim[d].bound;
    return n;
}

/* Leading dims are summed, in both, and their number of elements is the same: the dims themselves may be merged. */
static bool sums_same(const Node *sum, const Node *product, int k) {
    const Node *x = product->in[k], *y = sum->in[0];
    const int n = sum->attr->n_axes;
    unsigned summed;
    if (!summed_dims(product, k, &summed) || !same_time(sum, product)) return false;
    if (x == y) return reduced_dims(sum) == summed;
    const int m = __builtin_popcount(summed);
    const bool leading = summed == (1u << m) - 1 && reduced_dims(sum) == (1u << n) - 1;
    return leading && shape_is_fixed(*x->shape) && elements(x->shape, 0, m) == elements(y->shape, 0, n);
}

/* Nothing reads the sum before the product is there: not the product either. */
static bool stands_behind(const Together *t, const Node *sum, const Node *product) {
    for (int u = t->uses.first[sum->id]; u < t->uses.first[sum->id + 1]; u++)
        if (t->place[t->uses.user[u]->id] <= t->place[product->id]) return false;
    return true;
}

/* Reads the operand itself instead of a reshape of it. */
static void read_operand(Together *t, Node *sum, Node *x, unsigned summed) {
    Attr attr = *sum->attr;
    attr.n_axes = 0;
    for (int d = 0; d < x->shape->rank; d++)
        if (summed >> d & 1) attr.axes[attr.n_axes++] = (int8_t)d;
    sum->attr = &attr;
    sum->in = arena_dup(t->g->arena, &x, sizeof x);
    sum->attr = node_pool_attr(t->g->pool, sum);
}

static bool keeps_shape(const Node *sum, const Node *x, unsigned summed) {
    int kept = 0;
    for (int d = 0; d < x->shape->rank; d++) {
        if (summed >> d & 1) continue;
        if (kept == sum->shape->rank || !dim_equal(x->shape->dim[d], sum->shape->dim[kept++])) return false;
    }
    return kept == sum->shape->rank;
}

static void gather_sum(Together *t, Node *sum, const Readers *list) {
    if (sum->op != OP_SUM || sum->dtype != DT_F32 || sum->shape->rank == 0) return;
    for (int at = t->first[unreshaped(sum->in[0])->id]; at >= 0; at = list->at[at].next) {
        Node *product = list->at[at].product, *x = product->in[list->at[at].operand];
        unsigned summed;
        int8_t loop[MAX_RANK];
        if (!sums_same(sum, product, list->at[at].operand) || !stands_behind(t, sum, product)) continue;
        summed_dims(product, list->at[at].operand, &summed);
        if (!keeps_shape(sum, x, summed)) continue;
        Node fused = *sum;
        read_operand(t, &fused, x, summed);
        if (sum_fits_loop(&fused, product, loop) < 0) continue;
        *sum = fused;
        move_behind(t, sum, product);
        return;
    }
}

Graph *pass_together(PassContext *c, Graph *g) {
    const int n = g->nodes.n;
    if (!n) return g;
    Together t = {.g = g, .uses = graph_uses(c->arena, g), .n = n};
    t.order = arena_dup(c->arena, g->nodes.at, sizeof *t.order * (size_t)n);
    t.place = ARENA_ARRAY(c->arena, int, n + 1);
    t.results = ARENA_ARRAY(c->arena, int, n + 1);
    t.first = ARENA_ARRAY(c->arena, int, n + 1);
    for (int i = 0; i < n; i++) t.place[i] = i;
    for (int i = 0; i < g->results.n; i++) t.results[g->results.at[i].value->id]++;
    t.leaf = ARENA_ARRAY(c->arena, const Node *, n);
    t.gathered = ARENA_ARRAY(c->arena, Node *, n);
    t.moves = ARENA_ARRAY(c->arena, bool, n);
    gather_terms(&t, c->arena);
    const Readers list = readers_of_values(&t, c->arena);
    for (int i = 0; i < n; i++) gather_sum(&t, g->nodes.at[i], &list);
    g->edited |= memcmp(g->nodes.at, t.order, sizeof *t.order * (size_t)n) != 0;
    memcpy(g->nodes.at, t.order, sizeof *t.order * (size_t)n);
    graph_renumber(g);
    return g;
}
