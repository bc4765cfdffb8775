/* split: long sums with few results go in slices, so that there is work for all cores.
 *
 * Needs: the plan of the graph as it is: what a product's loop or a stream sums stays whole, and of what another kernel has,
 * slices are as that one walks it (slices.c).  Keeps: the results' values, up to the rounding of sums in another order.  A sum over a long axis whose result has fewer tiles than the target has cores becomes sums over slices of the axis, a
 * new outermost dim, and a sum over the slices: a second kernel that adds in order.  So do products with a long inner
 * loop (split-K).  How many slices there are follows from the shapes and the target: every run gives the same bits.  On
 * a CPU a sum over outer dims and a short innermost one becomes two, so that memory is read in its order. */
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_class.h"
#include "passes/plan/family.h"
#include "passes/rewrite/rewrite.h"
#include "passes/plan/slices.h"
#include <string.h>

enum {
    SHORTEST = 256, /* steps of a product's inner loop in one slice, for tiles of the usual size */
    MOST_SLICES = 512,
    MOST_SLICES_FOR_ROUNDING = 2048,
    RESIDENT = 4, /* programs that sum, side by side on a multiprocessor: one alone read 2.4 TB/s of an H200's 4.2 */
};

static int64_t cores_of(const Target *t) { return t ? t->cores : 1; }

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The length of a slice, at least `least`, such that about `wanted` of them make up n: equal ones if nearly as many do.
 */
static int64_t slice_length(int64_t n, int64_t wanted, int64_t least) {
    const int64_t length = ceil_div(n, wanted) > least ? ceil_div(n, wanted) : least;
    for (int64_t slices = n / length; slices > 1 && slices * 2 * length > n; slices--)
        if (n % slices == 0) return n / slices;
    return 2 * length <= n ? length : n;
}

/* Slices of `programs` programs each that keep all cores busy. */
static int64_t slices_for_cores(int64_t cores, int64_t programs) {
    const int64_t slices = cores / programs;
    return slices < 1 ? 1 : slices < MOST_SLICES ? slices : MOST_SLICES;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */
static Node *in_slices(Rewriter *r, Node *x, int dim, int64_t length) {
    Affine map[1][MAX_RANK];
    const Contract view = slices_view(map, x, dim, length);
    return rewrite_op(r, OP_CONTRACT, 1, &x, &(Attr){.contract = &view});
}

/* A view as above, whose sums are parts already. */
static bool is_in_slices(const Rewriter *r, const Node *x) {
    int dim;
    int64_t length;
    return rewrite_seen(r, x, OP_CONTRACT) && slices_seen(x, &dim, &length);
}

/* The few sums of slices. */
static bool is_of_slices(const Node *x) {
    int dim;
    int64_t length;
    return slices_summed(x, &dim, &length) && x->shape->dim[0].bound <= MOST_SLICES;
}

static Node *sum_in_slices(Rewriter *r, const Node *n, int dim, int64_t length) {
    int8_t axes[MAX_RANK], first = 0;
    for (int i = 0; i < n->attr->n_axes; i++) axes[i] = (int8_t)(n->attr->axes[i] + 1);
    Node *parts = rewrite_reduce(r, OP_SUM, in_slices(r, n->in[0], dim, length), n->attr->n_axes, axes);
    return rewrite_reduce(r, OP_SUM, parts, 1, &first);
}

/* Is it the sum at hand, of the old graph, itself? */
static bool is_at_hand(const Rewriter *r, const Node *n) { return n->op == r->at->op && shape_same(n->in[0]->shape, r->at->in[0]->shape); }

/* Programs that the sum would run as: about a vector of results each. */
static int64_t programs_of_sum(const Target *t, int64_t results) {
    const int64_t lanes = t->max_tile / 128;
    return ceil_div(results, lanes > 1 ? lanes : 1);
}

/* A sum over outer dims and a short innermost one, with kept dims between (a group's pixels and channels): reading it
 * group by group takes a few elements of every line of memory.  Summed over the outer dims first, whole lines are read
 * once. */
static Node *sum_outer_first(Rewriter *r, const Node *n) {
    enum { SHORT = 32, MANY = 16 }; /* elements of a run, and runs that are added before */
    Node *x = n->in[0];
    const int rank = x->shape->rank, n_axes = n->attr->n_axes;
    int64_t run = 1, before = 1;
    int inner = 0; /* axes at the end that are summed */
    while (inner < n_axes && n->attr->axes[n_axes - 1 - inner] == rank - 1 - inner)
        run *= x->shape->dim[rank - 1 - inner++].bound;
    for (int i = 0; i < n_axes - inner; i++) before *= x->shape->dim[n->attr->axes[i]].bound;
    if (inner == 0 || run > SHORT || before < MANY) return NULL;
    int64_t between = 1; /* kept, from the last outer axis on */
    for (int d = n->attr->axes[n_axes - inner - 1] + 1; d < rank - inner; d++) between *= x->shape->dim[d].bound;
    if (between < 2) return NULL;
    int8_t rest[MAX_RANK];
    for (int i = 0; i < inner; i++) rest[i] = (int8_t)(rank - n_axes + i);
    Node *outer = rewrite_reduce(r, OP_SUM, x, n_axes - inner, n->attr->axes);
    return rewrite_reduce(r, OP_SUM, outer, inner, rest);
}

/* The outermost of those that have enough, so that a slice is a run of memory; else the longest, the outermost of equals. */
static int dim_to_slice(const Shape *s, const int8_t *axes, int n_axes, int64_t wanted) {
    int dim = axes[0];
    for (int i = 0; i < n_axes && s->dim[dim].bound < wanted; i++)
        if (s->dim[axes[i]].bound > s->dim[dim].bound) dim = axes[i];
    return dim;
}

Node *rule_split_sum(Rewriter *r, const Node *n) {
    const Target *t = r->target;
    const Slices *at_hand = is_at_hand(r, n) ? &r->facts.slices[r->at->id] : NULL;
    if (at_hand && at_hand->whole) return NULL;
    if (t && !target_shares_tiles(t) && n->dtype == DT_F32 && n->attr->n_axes > 1) {
        Node *parts = sum_outer_first(r, n);
        if (parts) return parts;
    }
    const int64_t cores = cores_of(t) * (t && target_shares_tiles(t) ? RESIDENT : 1), results = shape_elements(*n->shape);
    Node *x = n->in[0];
    const int rank = x->shape->rank, n_axes = n->attr->n_axes;
    if (cores == 1 || !dtype_is_float(n->dtype) || n_axes == 0 || rank == MAX_RANK || results == 0) return NULL;
    if (is_in_slices(r, x) || is_of_slices(x)) return NULL;
    const bool rows = n->attr->axes[n_axes - 1] == rank - 1 && results > 1; /* long rows are read at full speed */
    if (!rows && at_hand && at_hand->length) return sum_in_slices(r, n, n->attr->axes[0], at_hand->length);
    const int64_t programs = programs_of_sum(t, results), elements = shape_elements(*x->shape);
    if (rows || 2 * programs > cores || elements < 2 * (int64_t)t->max_tile) return NULL;
    int64_t wanted = slices_for_cores(cores, programs);
    if (wanted > elements / t->max_tile) wanted = elements / t->max_tile;
    const int dim = dim_to_slice(x->shape, n->attr->axes, n_axes, wanted);
    const int64_t length = slice_length(x->shape->dim[dim].bound, wanted, 1);
    if (length == x->shape->dim[dim].bound) return NULL;
    return sum_in_slices(r, n, dim, length);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */
static Affine sliced(const Affine *e, int loop, int n_loops, int64_t length) {
    Affine s = {.c = e->c, .divisor = e->divisor};
    for (int l = 0; l < n_loops; l++) s.coef[l + 1] = e->coef[l];
    s.coef[0] = length * e->coef[loop];
    return s;
}

/* The contraction over slices of the loop, which become its outermost result dim. */
static Node *contract_slices(Rewriter *r, const Node *n, int loop, int64_t length) {
    const Contract *old = n->attr->contract;
    Contract c = {.n_loops = old->n_loops + 1, .n_out = old->n_out + 1, .n_operands = old->n_operands};
    c.to_f32 = old->to_f32;
    const int64_t extent = old->extent[loop].bound;
    c.map = arena_dup(r->scratch, old->map, sizeof *old->map * (size_t)old->n_operands);
    c.guard = ARENA_ARRAY(r->scratch, Guard, old->n_guards + 1);
    c.extent[0] = dim_fixed(ceil_div(extent, length));
    for (int l = 0; l < old->n_loops; l++) c.extent[l + 1] = l == loop ? dim_fixed(length) : old->extent[l];
    for (int k = 0; k < n->n_in; k++)
        for (int d = 0; d < n->in[k]->shape->rank; d++)
            c.map[k][d] = sliced(&old->map[k][d], loop, old->n_loops, length);
    for (int i = 0; i < old->n_guards; i++) {
        c.guard[c.n_guards] = old->guard[i];
        c.guard[c.n_guards++].e = sliced(&old->guard[i].e, loop, old->n_loops, length);
    }
    if (extent % length || !dim_is_fixed(old->extent[loop])) {
        Guard inside = {.kind = GUARD_RANGE, .e = {.divisor = 1}, .hi = old->extent[loop]};
        inside.e.coef[0] = length;
        inside.e.coef[loop + 1] = 1;
        c.guard[c.n_guards++] = inside;
    }
    return rewrite_op(r, OP_CONTRACT, n->n_in, n->in, &(Attr){.contract = &c});
}

/* Seconds: the product on some of the cores, and the passes over what its slices give. */
static double product_seconds(const Target *t, double flops, double share, double bytes) {
    return flops / (t->gflops_f32 * 1e9 * share) + bytes / (t->gbytes_per_s * 1e9);
}

/* Slices such that none adds more terms than a running sum should have, as far as writing and reading what they give takes little
 * beside reading the operands.  A product that keeps all cores busy whole may have its update in its kernel: its sums may be longer. */
static int64_t slices_for_rounding(const Target *t, const Node *n, int64_t terms, bool busy) {
    enum { LITTLE = 8 /* one part in so many */, LONGER = 8 };
    const int64_t longest = t->device->most_sliced * (busy ? LONGER : 1);
    int64_t read = 0, slices = longest ? ceil_div(terms, longest) : 1;
    for (int k = 0; k < n->n_in; k++) read += shape_elements(*n->in[k]->shape) * dtype_bytes(n->in[k]->dtype);
    const int64_t most = read / LITTLE / (2 * shape_elements(*n->shape) * dtype_bytes(n->dtype));
    if (slices > most) slices = most < 1 ? 1 : most;
    return slices < MOST_SLICES_FOR_ROUNDING ? slices : MOST_SLICES_FOR_ROUNDING;
}

/* The longest summed loop of those that slide in no window, whose slices would overlap; -1: none. */
static int sliced_loop(const Contract *c, Node *const *in) {
    int longest = -1;
    for (int l = c->n_out; l < c->n_loops; l++) {
        bool alone = true;
        for (int o = 0; o < c->n_operands; o++)
            for (int d = 0; d < in[o]->shape->rank; d++)
                for (int other = 0; other < c->n_out; other++)
                    alone &= !c->map[o][d].coef[l] || !c->map[o][d].coef[other];
        if (alone && (longest < 0 || c->extent[l].bound > c->extent[longest].bound)) longest = l;
    }
    return longest;
}

/* Tiles of about `side` results a side.  The innermost loop of a product channel by channel is its columns. */
static int64_t product_tiles(const Contract *c, const ContractClass *roles, int64_t side) {
    const int last = c->n_out - 1;
    const bool channelwise = last >= 0 && roles->loop[last] == LOOP_BATCH && (roles->m == 1 || roles->n == 1);
    if (!channelwise) return roles->batch * ceil_div(roles->m, side) * ceil_div(roles->n, side);
    const int64_t channels = c->extent[last].bound, rows = roles->m * roles->n;
    return roles->batch / channels * ceil_div(rows, side) * ceil_div(channels, side);
}

/* The length of slices of the product's longest loop; `members`: equal products whose tiles one kernel has.  0: it stays whole. */
static int64_t product_slice(const Target *t, const Node *n, int64_t members) {
    const int64_t cores = cores_of(t);
    const Contract *c = n->attr->contract;
    if (cores == 1 || n->n_in != 2 || n->dtype != DT_F32 || c->n_loops == c->n_out || c->n_loops == MAX_LOOPS || n->shape->rank == MAX_RANK) return 0;
    const int loop = sliced_loop(c, n->in);
    const ContractClass roles = contract_classify(c, n->in);
    const int64_t side = target_tile(t, t->device->tiles->side), results = shape_elements(*n->shape);
    if (loop < 0 || roles.loop[loop] != LOOP_K || roles.k == 0 || results == 0) return 0;
    const int64_t tiles = members * product_tiles(c, &roles, side);
    const int64_t exact = slices_for_rounding(t, n, roles.k, 2 * tiles > cores), busy = slices_for_cores(cores, tiles);
    if (exact == 1 && 2 * tiles > cores) return 0;
    const int64_t extent = c->extent[loop].bound, others = roles.k / extent;
    const int64_t least = ceil_div(side > 1 ? SHORTEST * side / 128 + 1 : 8, others);
    const int64_t length = slice_length(extent, exact > busy ? exact : busy, least);
    if (length == extent) return 0;
    const double slices = (double)ceil_div(extent, length);
    const double all = (double)(members * results), flops = 2.0 * all * (double)roles.k,
                 share = (double)tiles / (double)cores;
    if (exact == 1 && product_seconds(t, flops, share * slices < 1 ? share * slices : 1, 8 * slices * all) >
        0.8 * product_seconds(t, flops, share, 0))
        return 0;
    return length;
}

Node *rule_split_product(Rewriter *r, const Node *n) {
    const bool at_hand = r->at->op == OP_CONTRACT && n->attr->contract->n_loops == r->at->attr->contract->n_loops; /* and in no slices yet */
    const int64_t length = at_hand ? r->facts.slices[r->at->id].length : 0;
    const int8_t first = 0;
    return length ? rewrite_reduce(r, OP_SUM, contract_slices(r, n, sliced_loop(n->attr->contract, n->in), length), 1, &first) : NULL;
}

static const RewriteId *split_rules(Op op) {
    static const RewriteId sum_rules[] = {REWRITE_split_sum, REWRITE_END};
    static const RewriteId contract_rules[] = {REWRITE_split_product, REWRITE_END};
    static const RewriteId scan_rules[] = {REWRITE_split_scan, REWRITE_END};
    static const RewriteId scatter_rules[] = {REWRITE_buckets, REWRITE_END};
    static const RewriteId none[] = {REWRITE_END};
    if (op == OP_SCAN) return scan_rules;
    if (op_is_scatter(op)) return scatter_rules;
    return op == OP_SUM ? sum_rules : op == OP_CONTRACT ? contract_rules : none;
}

Graph *pass_split(PassContext *c, Plan *p) {
    const Graph *g = p->graph;
    const int *members = family_sizes(c, g);
    Slices *slices = ARENA_ARRAY(c->arena, Slices, g->nodes.n + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        const int k = p->kernel_of[i];
        slices[i].whole = k < 0 || p->kernels.at[k].kind == KERNEL_STREAM;
        if (n->op == OP_CONTRACT && !slices[i].whole) slices[i].length = product_slice(c->target, n, members[i]);
    }
    slices_of_sums(c, p, slices);
    return rewrite_graph_with(c, p->graph, split_rules, &(RewriteFacts){.slices = slices, .rules_alone = true});
}
