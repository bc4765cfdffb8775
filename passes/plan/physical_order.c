/* layout, in the graph: channels are innermost where a window slides over the innermost dim instead.
 *
 * Needs: contractions as they will be computed.  Keeps: what is computed, and the order of whatever the caller sees.  A
 * tensor that is written and read inside has the order of dims that suits its readers: an image [n, c, h, w] of which a
 * convolution reads x[n, c, i + r, j + s] becomes [n, h, w, c], whose elements are fetched together whatever the
 * window's place.  Values that are elementwise of each other change together; contractions read and give any order for
 * nothing; everything else reads them through a transpose, which is index arithmetic.  On the host an input or a
 * parameter that windows read so often that a copy is little beside it is copied in the order that they want.
 * Its constants are from `./dev bench conv`. */
#include "passes/algebra/access.h"
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_class.h"
#include "passes/pass.h"
#include <string.h>

enum {
    LEAST_BYTES = 16 /* that an access may take */,
    FEWEST_DIMS = 3,
    LEAST_SUMS = 64 /* beside which a copy of the result is little */,
    COPIED_SUMS = 8 /* the same where factors are copied in that order as well */,
    FEWEST_SUMS = 16 /* where columns would be apart */,
    LEAST_READS = 8 /* of each element, beside which a copy of an input is little */,
    AS_IS = -1
};

typedef struct Order {
    const Graph *g;
    Graph *made;
    bool copies;              /* inputs and parameters may be copied */
    int *leader;              /* by id: of the values that change together */
    double (*vote)[MAX_RANK]; /* by leader: FLOPs that want the dim innermost */
    Node **plain, **reordered;   /* by id: the copy in the program's order, and in the other */
    int *inner;               /* by id: the dim that is innermost where the value is computed, or AS_IS */
    int *other;               /* by id: the dim that is innermost in `reordered` */
} Order;

static bool can_reorder(const Node *n) {
    const OpClass cls = op_info[n->op].cls;
    return n->shape->rank >= FEWEST_DIMS && (cls == CLASS_ELEMENT || cls == CLASS_CONTRACT);
}

/* What the caller hands in, copied in another order. */
static bool can_copy(const Order *o, const Node *n) {
    return o->copies && op_is_memory(n->op) && n->shape->rank >= FEWEST_DIMS && shape_is_fixed(*n->shape);
}

/* ---- which values change together -------------------------------------------------------------------------------- */
static int leader_of(const Order *o, int id) {
    while (o->leader[id] != id) id = o->leader[id] = o->leader[o->leader[id]];
    return id;
}

static void join_elementwise(Order *o) {
    for (int i = 0; i < o->g->nodes.n; i++) o->leader[i] = i;
    for (int i = 0; i < o->g->nodes.n; i++) {
        const Node *n = o->g->nodes.at[i];
        if (!can_reorder(n) || n->op == OP_CONTRACT) continue;
        for (int k = 0; k < n->n_in; k++)
            if (can_reorder(n->in[k])) o->leader[leader_of(o, n->in[k]->id)] = leader_of(o, i);
    }
}

/* ---- what readers want ------------------------------------------------------------------------------------------- */
static int loops_in(const Contract *c, const Affine *e) {
    int n = 0;
    for (int l = 0; l < c->n_loops; l++) n += e->coef[l] != 0;
    return n;
}

/* Loops that meet others in a subscript: places and taps of a window. */
static uint32_t window_loops(const Node *n) {
    const Contract *c = n->attr->contract;
    uint32_t found = 0;
    for (int k = 0; k < n->n_in; k++)
        for (int d = 0; d < n->in[k]->shape->rank; d++)
            for (int l = 0; l < c->n_loops && loops_in(c, &c->map[k][d]) > 1; l++)
                if (c->map[k][d].coef[l]) found |= UINT32_C(1) << l;
    return found;
}

/* A dim that is read whole, apart from the window; one of a single element is a channel that has no loop. */
static bool is_channel(const Node *n, int k, int d, uint32_t window) {
    const Contract *c = n->attr->contract;
    const int loop = affine_single_loop(c, &c->map[k][d]);
    return n->in[k]->shape->dim[d].bound == 1 || (loop >= 0 && !(window >> loop & 1));
}

static void count_votes(Order *o) {
    for (int i = 0; i < o->g->nodes.n; i++) {
        const Node *n = o->g->nodes.at[i];
        const Contract *c = n->attr->contract;
        const uint32_t window = n->op == OP_CONTRACT && n->n_in == 2 ? window_loops(n) : 0;
        double work = 1;
        for (int l = 0; window && l < c->n_loops; l++) work *= (double)c->extent[l].bound;
        for (int k = 0; window && k < n->n_in; k++) {
            int d = n->in[k]->shape->rank - 1;
            while (d >= 0 && !is_channel(n, k, d, window)) d--;
            if (d < 0 || !(can_reorder(n->in[k]) || can_copy(o, n->in[k]))) continue;
            const int64_t bytes = n->in[k]->shape->dim[d].bound * dtype_bytes(n->in[k]->dtype);
            if (bytes >= LEAST_BYTES) o->vote[leader_of(o, n->in[k]->id)][d] += work;
        }
    }
}

/* The innermost dim of operand k in the order that it gets. */
static int last_dim(const Order *o, const Node *n, int k) {
    const int inner = o->inner[n->in[k]->id];
    return inner == AS_IS ? n->in[k]->shape->rank - 1 : inner;
}

/* The loop of operand k's dim d if it is a channel of the result as well, from loop `least` on; -1. */
static int result_channel(const Node *n, int k, int d, uint32_t window, int least) {
    const Contract *c = n->attr->contract;
    const int loop = d < 0 ? -1 : affine_single_loop(c, &c->map[k][d]);
    const bool channel = loop >= least && loop < c->n_out && !(window >> loop & 1);
    return channel && c->extent[loop].bound * dtype_bytes(n->in[k]->dtype) >= LEAST_BYTES ? loop : -1;
}

static bool reads(const Node *n, int k, int loop) {
    for (int d = 0; d < n->in[k]->shape->rank; d++)
        if (n->attr->contract->map[k][d].coef[loop]) return true;
    return false;
}

/* The longest loop of the columns, where the innermost, shorter than an access, has rows between it and that (residue
 * classes: [n, f, p, u, q, v]): tiles' columns would be apart. */
static int columns_apart(const Node *n) {
    const Contract *c = n->attr->contract;
    const int last = n->shape->rank - 1;
    if (n->op != OP_CONTRACT || n->n_in != 2 || !can_reorder(n) || !shape_is_fixed(*n->shape)) return AS_IS;
    if (c->extent[last].bound * dtype_bytes(n->dtype) >= LEAST_BYTES) return AS_IS;
    const int k = reads(n, 0, last) ? 0 : 1;
    int64_t sums = 1;
    for (int l = c->n_out; l < c->n_loops; l++) sums *= c->extent[l].bound;
    if (reads(n, 1 - k, last) || sums < FEWEST_SUMS) return AS_IS;
    int best = AS_IS;
    bool rows = false;
    for (int l = last - 1; l >= 0; l--) {
        const bool column = reads(n, k, l) && !reads(n, 1 - k, l);
        rows |= !reads(n, k, l);
        if (column && rows && c->extent[l].bound > c->extent[best < 0 ? last : best].bound) best = l;
    }
    return best >= 0 && c->extent[best].bound * dtype_bytes(n->dtype) >= LEAST_BYTES ? best : AS_IS;
}

/* A window's gradient by its kernel, [f, c, r, s]: the loop that a factor has innermost is to be the result's as well,
 * so that its tiles' columns are neighbours in that factor.  Otherwise a channel of the factor that has no place of the
 * window: tiles' columns are then not places, and both the window and its taps are walked. */
static int inner_of_result(const Order *o, const Node *n) {
    const Contract *c = n->attr->contract;
    const int apart = o->copies ? columns_apart(n) : AS_IS;
    if (apart != AS_IS) return apart;
    const uint32_t window = n->op == OP_CONTRACT && n->n_in == 2 && can_reorder(n) ? window_loops(n) : 0;
    int64_t sums = 1;
    for (int l = window ? c->n_out : 0; window && l < c->n_loops; l++) sums *= c->extent[l].bound;
    if (!window || !(window >> (c->n_out - 1) & 1) || sums < (o->copies ? COPIED_SUMS : LEAST_SUMS)) return AS_IS;
    const int first = o->copies && shape_is_fixed(*n->shape) ? 0 : 1;
    for (int least = 1; least >= first; least--)
        for (int k = 0; k < n->n_in; k++) {
            const int loop = result_channel(n, k, last_dim(o, n, k), window, least);
            if (loop >= 0) return loop;
        }
    for (int k = 0; k < n->n_in && o->copies; k++)
        for (int d = n->in[k]->shape->rank - 1; d >= 0 && !reads(n, k, c->n_out - 1); d--) {
            const int loop = result_channel(n, k, d, window, first);
            if (loop >= 0) return loop;
        }
    return AS_IS;
}

/* The dim to be innermost, or AS_IS.  A run-time extent stays outermost. */
static int inner_of(const Order *o, const Node *n) {
    const double *vote = o->vote[leader_of(o, n->id)];
    int best = n->shape->rank - 1;
    if (!can_reorder(n) && !can_copy(o, n)) return AS_IS;
    for (int d = best; d >= 0; d--)
        if (vote[d] > vote[best]) best = d;
    if (can_copy(o, n) && vote[best] < (double)LEAST_READS * (double)shape_elements(*n->shape)) return AS_IS;
    for (int d = 0; d < n->shape->rank && best == 0; d++)
        if (!dim_is_fixed(n->shape->dim[d])) return AS_IS;
    return best == n->shape->rank - 1 ? AS_IS : best;
}

/* ---- the other order: all dims but `inner`, then it -------------------------------------------------------------- */
static int old_dim(int rank, int inner, int d) { return d == rank - 1 ? inner : d < inner ? d : d + 1; }
static int new_dim(int rank, int inner, int d) { return d == inner ? rank - 1 : d < inner ? d : d - 1; }

static Shape reordered_shape(const Node *n, int inner) {
    Shape s = *n->shape;
    for (int d = 0; d < s.rank; d++) s.dim[d] = n->shape->dim[old_dim(s.rank, inner, d)];
    return s;
}

/* The copy made for old node n. */
static Node *like(const Node *n, Node *copy) {
    copy->phase = n->phase;
    copy->precision = n->precision;
    copy->remat = n->remat;
    copy->loc = n->loc;
    return copy;
}

static Node *plain(Order *o, const Node *n) {
    if (o->plain[n->id]) return o->plain[n->id];
    int8_t perm[MAX_RANK] = {0};
    for (int d = 0; d < n->shape->rank && d < MAX_RANK; d++)
        perm[d] = (int8_t)new_dim(n->shape->rank, o->inner[n->id], d);
    return o->plain[n->id] = like(n, graph_transpose(o->made, o->reordered[n->id], perm));
}

static Node *reordered_copy(Order *o, const Node *n, int inner) {
    int8_t perm[MAX_RANK] = {0};
    for (int d = 0; d < n->shape->rank && d < MAX_RANK; d++) perm[d] = (int8_t)old_dim(n->shape->rank, inner, d);
    return like(n, graph_transpose(o->made, plain(o, n), perm));
}

static Node *reordered(Order *o, const Node *n, int inner) {
    if (o->reordered[n->id] && o->other[n->id] == inner) return o->reordered[n->id];
    Node *made = n->op == OP_CONST ? like(n, graph_const(o->made, n->dtype, reordered_shape(n, inner), n->attr->value))
                                   : reordered_copy(o, n, inner);
    if (o->inner[n->id] != AS_IS) return made;
    o->other[n->id] = inner;
    return o->reordered[n->id] = made;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
static Affine with_loops(const Affine *e, const Contract *c, int inner) {
    Affine x = *e;
    for (int l = 0; l < c->n_out && inner != AS_IS; l++) x.coef[l] = e->coef[old_dim(c->n_out, inner, l)];
    return x;
}

/* Operands in whatever order they are, the result's loops in that of `inner`. */
static Node *copy_contract(Order *o, const Node *n, int inner) {
    const Contract *old = n->attr->contract;
    Contract c = *old;
    Node *in[MAX_LOOPS];
    Affine map[MAX_LOOPS][MAX_RANK];
    Guard *guard = ARENA_ARRAY(o->made->arena, Guard, old->n_guards + 1);
    c.map = map;
    c.guard = guard;
    for (int k = 0; k < n->n_in; k++) {
        const int from = o->inner[n->in[k]->id], rank = n->in[k]->shape->rank;
        in[k] = from == AS_IS ? plain(o, n->in[k]) : o->reordered[n->in[k]->id];
        for (int d = 0; d < rank; d++)
            map[k][d] = with_loops(&old->map[k][from == AS_IS ? d : old_dim(rank, from, d)], old, inner);
    }
    for (int i = 0; i < old->n_guards; i++) {
        guard[i] = old->guard[i];
        guard[i].e = with_loops(&old->guard[i].e, old, inner);
    }
    for (int l = 0; l < old->n_out && inner != AS_IS; l++) c.extent[l] = old->extent[old_dim(old->n_out, inner, l)];
    return graph_contract(o->made, n->n_in, in, &c);
}

static Node *copy_element(Order *o, const Node *n, int inner) {
    Node *in[MAX_RANK];
    for (int k = 0; k < n->n_in; k++) in[k] = reordered(o, n->in[k], inner);
    Node *copy = graph_node(o->made, n->op, n->n_in, in, NULL, n->dtype, reordered_shape(n, inner));
    copy->attr = n->attr;
    return copy;
}

/* A sum over the other order, where what is left keeps its own; NULL: it does not. */
static Node *copy_sum(Order *o, const Node *n) {
    if (n->op != OP_SUM || o->inner[n->in[0]->id] == AS_IS) return NULL;
    const int inner = o->inner[n->in[0]->id], rank = n->in[0]->shape->rank;
    int8_t axes[MAX_RANK];
    int n_axes = 0, left = -1;
    for (int d = 0; d < rank; d++) {
        const int was = old_dim(rank, inner, d);
        bool summed = false;
        for (int a = 0; a < n->attr->n_axes; a++) summed |= n->attr->axes[a] == was;
        if (summed)
            axes[n_axes++] = (int8_t)d;
        else if (was < left)
            return NULL;
        else
            left = was;
    }
    return graph_reduce(o->made, OP_SUM, o->reordered[n->in[0]->id], n_axes, axes);
}

/* A reshape that leaves the innermost dim of the other order whole, of that order; NULL: it does not. */
static Node *copy_reshape(Order *o, const Node *n) {
    const Node *x = n->op == OP_RESHAPE ? n->in[0] : NULL;
    const int inner = x ? o->inner[x->id] : AS_IS, rank = n->shape->rank;
    int64_t before = 1, reached = 1;
    if (inner == AS_IS || !shape_is_fixed(*n->shape) || !shape_is_fixed(*x->shape)) return NULL;
    for (int d = 0; d < inner; d++) before *= x->shape->dim[d].bound;
    int whole = 0;
    for (; whole < rank && reached < before; whole++) reached *= n->shape->dim[whole].bound;
    if (whole >= rank || reached != before || !dim_equal(n->shape->dim[whole], x->shape->dim[inner])) return NULL;
    Shape s = *n->shape;
    int8_t perm[MAX_RANK] = {0};
    for (int d = 0; d < rank; d++) {
        s.dim[d] = n->shape->dim[old_dim(rank, whole, d)];
        perm[d] = (int8_t)new_dim(rank, whole, d);
    }
    return graph_transpose(o->made, like(n, graph_reshape(o->made, o->reordered[x->id], s)), perm);
}

static Node *copy_plain(Order *o, const Node *n) {
    Node *copy = copy_sum(o, n);
    if (!copy) copy = copy_reshape(o, n);
    if (copy) return copy;
    if (n->op == OP_CONTRACT) return copy_contract(o, n, AS_IS);
    Node **in = ARENA_ARRAY(o->made->arena, Node *, n->n_in + 1);
    for (int k = 0; k < n->n_in; k++) in[k] = plain(o, n->in[k]);
    copy = graph_node(o->made, n->op, n->n_in, in, NULL, n->dtype, *n->shape);
    copy->attr = n->attr;
    return copy;
}

static void copy_all(Order *o) {
    for (int i = 0; i < o->g->nodes.n; i++) {
        const Node *n = o->g->nodes.at[i];
        const int inner = o->inner[i];
        if (inner == AS_IS) {
            o->plain[i] = like(n, copy_plain(o, n));
            continue;
        }
        if (op_is_memory(n->op)) {
            o->plain[i] = like(n, copy_plain(o, n));
            o->other[i] = inner;
            o->reordered[i] = reordered_copy(o, n, inner);
            continue;
        }
        o->other[i] = inner;
        o->reordered[i] = like(n, n->op == OP_CONTRACT ? copy_contract(o, n, inner) : copy_element(o, n, inner));
    }
    for (int i = 0; i < o->g->results.n; i++) {
        const Result *r = &o->g->results.at[i];
        graph_result(o->made, r->kind, r->decl, plain(o, r->value));
    }
}

Graph *pass_physical_order(PassContext *c, Graph *g) {
    const int n = g->nodes.n;
    bool any = false;
    if (c->target->device->as_written) return g;
    Arena *a = arena_new();
    Order o = {.g = g,
               .copies = c->target->device->copies_inputs,
               .leader = ARENA_ARRAY(a, int, n),
               .vote = arena_alloc(a, sizeof *o.vote * (size_t)n)};
    o.plain = ARENA_ARRAY(a, Node *, n);
    o.reordered = ARENA_ARRAY(a, Node *, n);
    o.inner = ARENA_ARRAY(a, int, n);
    o.other = ARENA_ARRAY(a, int, n);
    join_elementwise(&o);
    count_votes(&o);
    for (int i = 0; i < n; i++) {
        o.inner[i] = inner_of(&o, g->nodes.at[i]);
        if (o.inner[i] == AS_IS) o.inner[i] = inner_of_result(&o, g->nodes.at[i]);
        any |= o.inner[i] != AS_IS;
    }
    if (any) {
        o.made = graph_new_from(c->arena, g);
        copy_all(&o);
        graph_prune(o.made);
    }
    arena_free(a);
    return o.made ? o.made : g;
}
