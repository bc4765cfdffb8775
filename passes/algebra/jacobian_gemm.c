/* jacobian_gemm: brings contractions into the form that maps onto few, large matrix products.
 *
 * Needs: a legal graph, best canonical.  Keeps: the results' values, up to the rounding of sums in another order.  Per
 * contraction: loops of extent 1 and guards that always hold go; strided gradients are split by residue class; loops
 * that run side by side through all operands and the result become one (batch and time fold into M, or into K of a
 * weight gradient); products with an indicator of ids are sums by ids and lookups (indicator.c); the sum of a product of two broadcast operands, or with an outer product, becomes a contraction.
 * contract_class.h then names each loop's role.  Among contractions: diagonal factors move behind sums (factor_out.c),
 * chains are bracketed (contract_chain.c), sums use products that exist (reassociate.c).  */
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_class.h"
#include "passes/rewrite/rewrite.h"
#include "passes/algebra/sum_of_parts.h"
#include <string.h>

/* Deep enough a copy that maps and guards may be edited. */
static Contract copy_contract(Rewriter *r, const Contract *c) {
    Contract copy = *c;
    copy.map = arena_dup(r->scratch, c->map, sizeof *c->map * (size_t)c->n_operands);
    copy.guard = ARENA_ARRAY(r->scratch, Guard, c->n_guards);
    if (c->n_guards) memcpy(copy.guard, c->guard, sizeof(Guard) * (size_t)c->n_guards);
    return copy;
}

static Node *emit_contract(Rewriter *r, const Contract *c, Node *const *in) {
    return rewrite_op(r, OP_CONTRACT, c->n_operands, in, &(Attr){.contract = c});
}

Node *rule_drop_guards(Rewriter *r, const Node *n) {
    const Contract *c = n->attr->contract;
    Contract kept = *c;
    kept.guard = ARENA_ARRAY(r->scratch, Guard, c->n_guards);
    kept.n_guards = 0;
    for (int i = 0; i < c->n_guards; i++)
        if (!guard_always_holds(c, &c->guard[i])) kept.guard[kept.n_guards++] = c->guard[i];
    return kept.n_guards < c->n_guards ? emit_contract(r, &kept, n->in) : NULL;
}

/* ---- removing a loop ----------------------------------------------------------------------------- */
static void remove_coef(Affine *e, int loop) {
    memmove(&e->coef[loop], &e->coef[loop + 1], sizeof(int64_t) * (size_t)(MAX_LOOPS - 1 - loop));
    e->coef[MAX_LOOPS - 1] = 0;
}

/* Takes the loop out as if its index were always 0. */
static void remove_loop(Contract *c, Node *const *in, int loop) {
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape->rank; d++) remove_coef(&c->map[k][d], loop);
    for (int i = 0; i < c->n_guards; i++) remove_coef(&c->guard[i].e, loop);
    memmove(&c->extent[loop], &c->extent[loop + 1], sizeof(Dim) * (size_t)(MAX_LOOPS - 1 - loop));
    c->n_loops--;
    c->n_out -= loop < c->n_out;
}

static bool reads_loop(const Contract *c, Node *const *in, int loop) {
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape->rank; d++)
            if (c->map[k][d].coef[loop]) return true;
    for (int i = 0; i < c->n_guards; i++)
        if (c->guard[i].e.coef[loop]) return true;
    return false;
}

/* What is the same along an output dim is computed once and repeated. */
static Node *repeat_result(Rewriter *r, const Node *n) {
    const Contract *old = n->attr->contract;
    int8_t kept[MAX_RANK];
    int n_kept = 0;
    for (int l = 0; l < old->n_out; l++)
        if (reads_loop(old, n->in, l) || dim_is_unit(old->extent[l])) kept[n_kept++] = (int8_t)l;
    if (n_kept == old->n_out || (n->n_in == 1 && old->n_loops == old->n_out)) return NULL;
    Contract c = copy_contract(r, old);
    for (int l = old->n_out - 1, at = n_kept - 1; l >= 0; l--) {
        if (at >= 0 && kept[at] == l)
            at--;
        else
            remove_loop(&c, n->in, l);
    }
    return rewrite_broadcast(r, emit_contract(r, &c, n->in), *n->shape, kept);
}

/* Output loops of one step go only where the result has fixed extents: a reshape keeps bounded dims apart. */
Node *rule_drop_unit_loops(Rewriter *r, const Node *n) {
    const Contract *old = n->attr->contract;
    Node *repeated = repeat_result(r, n);
    if (repeated) return repeated;
    int first = shape_is_fixed(*n->shape) ? 0 : old->n_out, any = 0;
    for (int l = first; l < old->n_loops; l++) any |= dim_is_unit(old->extent[l]);
    if (!any) return NULL;
    Contract c = copy_contract(r, old);
    for (int l = c.n_loops - 1; l >= first; l--)
        if (dim_is_unit(c.extent[l])) remove_loop(&c, n->in, l);
    return rewrite_reshape(r, emit_contract(r, &c, n->in), *n->shape);
}

/* ---- merging two loops ------------------------------------------------------------------------------ */
static bool uses(const Affine *e, int u, int v) { return e->coef[u] != 0 || e->coef[v] != 0; }

/* Where operand k has u and v as whole, neighbouring dims: the dim of u; -1: in no dim; -2: otherwise. */
static int neighbours(const Contract *c, const Node *x, int k, int u, int v) {
    int at = -1;
    for (int d = 0; d < x->shape->rank; d++) {
        if (!uses(&c->map[k][d], u, v)) continue;
        bool pair = at < 0 && d + 1 < x->shape->rank && affine_single_loop(c, &c->map[k][d]) == u &&
                    affine_single_loop(c, &c->map[k][d + 1]) == v && dim_equal(x->shape->dim[d], c->extent[u]) &&
                    dim_equal(x->shape->dim[d + 1], c->extent[v]);
        if (!pair) return -2;
        at = d++;
    }
    return at;
}

/* Only rows, columns and sums of a matrix product grow by merging; a batch is one either way.  A bounded
 * inner extent is laid out at its bound, so that the pair is not one stretch of memory. */
static bool can_merge(const Contract *c, const ContractClass *roles, Node *const *in, int u, int v) {
    bool together = v < c->n_out ? v == u + 1 : u >= c->n_out;
    LoopClass role = roles->loop[u];
    if (!together || !dim_is_fixed(c->extent[v]) || role != roles->loop[v]) return false;
    if (dim_mul_const(c->extent[u], c->extent[v].bound).bound > MAX_ELEMENTS) return false; /* no extent is larger */
    if (role == LOOP_BATCH || role == LOOP_OTHER) return false;
    for (int i = 0; i < c->n_guards; i++)
        if (uses(&c->guard[i].e, u, v)) return false;
    int readers = 0;
    for (int k = 0; k < c->n_operands; k++) {
        int at = neighbours(c, in[k], k, u, v);
        if (at == -2) return false;
        readers += at >= 0;
    }
    return readers > 0;
}

static Shape merged_shape(Shape s, int d, Dim extent) {
    s.dim[d] = extent;
    s.rank--;
    for (int i = d + 1; i < s.rank; i++) s.dim[i] = s.dim[i + 1];
    return s;
}

static Node *merge_pair(Rewriter *r, const Node *n, int u, int v) {
    const Contract *old = n->attr->contract;
    Contract c = copy_contract(r, old);
    Node **in = ARENA_ARRAY(r->scratch, Node *, n->n_in);
    Dim both = dim_mul_const(old->extent[u], old->extent[v].bound);
    for (int k = 0; k < n->n_in; k++) {
        int at = neighbours(old, n->in[k], k, u, v), rank = n->in[k]->shape->rank;
        in[k] = n->in[k];
        if (at < 0) continue;
        memmove(&c.map[k][at + 1], &c.map[k][at + 2], sizeof(Affine) * (size_t)(rank - at - 2));
        memset(&c.map[k][rank - 1], 0, sizeof(Affine));
        in[k] = rewrite_reshape(r, in[k], merged_shape(*in[k]->shape, at, both));
    }
    c.extent[u] = both;
    remove_loop(&c, in, v);
    return rewrite_reshape(r, emit_contract(r, &c, in), *n->shape);
}

/* Every element is that of one factor times that of the other. */
static bool is_outer_product(const Rewriter *r, const Node *x) {
    return rewrite_seen(r, x, OP_CONTRACT) && x->n_in == 2 && x->attr->contract->n_loops == x->attr->contract->n_out;
}

static const RewriteId *form_rules(Op op);

/* What reads an outer product keeps its loops until costs are weighed: by them its factors can be told apart. */
Node *rule_merge_loops(Rewriter *r, const Node *n) {
    const Contract *c = n->attr->contract;
    for (int k = 0; k < n->n_in; k++)
        if (r->rules == form_rules && is_outer_product(r, n->in[k])) return NULL;
    const ContractClass roles = contract_classify(c, n->in);
    for (int u = 0; u < c->n_loops; u++)
        for (int v = 0; v < c->n_loops; v++)
            if (u != v && can_merge(c, &roles, n->in, u, v)) return merge_pair(r, n, u, v);
    return NULL;
}

/* ---- sum of a product ------------------------------------------------------------------------------- */
/* The loops of a sum over terms: what it leaves, then what it sums. */
typedef struct SumLoops {
    Contract c;
    unsigned summed; /* dims of the terms */
    int loop_of[MAX_RANK];
} SumLoops;

static SumLoops loops_of_sum(const Node *n, const Node *terms) {
    SumLoops s = {.summed = 0};
    for (int i = 0; i < n->attr->n_axes; i++) s.summed |= 1u << n->attr->axes[i];
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < terms->shape->rank; d++) {
            if ((int)(s.summed >> d & 1) != pass) continue;
            s.loop_of[d] = s.c.n_loops;
            s.c.extent[s.c.n_loops++] = terms->shape->dim[d];
            s.c.n_out += pass == 0;
        }
    return s;
}

/* Reads a factor of the terms as the next operand, through a broadcast at the subscripts of its operand; the dims of
 * the terms along which it varies. */
static unsigned add_factor(SumLoops *s, const Node *broadcast, Node *x) {
    Affine *map = s->c.map[s->c.n_operands++];
    unsigned dims = 0;
    for (int d = 0; d < x->shape->rank; d++) {
        const int at = broadcast ? broadcast->attr->axes[d] : d;
        map[d] = (Affine){.divisor = 1};
        map[d].coef[s->loop_of[at]] = 1;
        dims |= 1u << at;
    }
    return dims;
}

/* sum(a * b) as a matrix product: of broadcasts where each has an output dim that the other lacks, the product would be
 * larger than both; of an outer product and anything, it is one of the outer product's factors. */
Node *rule_sum_of_product(Rewriter *r, const Node *n) {
    const Node *product = rewrite_seen(r, n->in[0], OP_MUL);
    if (!product || !dtype_is_float(n->dtype)) return NULL;
    Affine map[2][MAX_RANK] = {0};
    Node *in[2];
    unsigned dims[2];
    int outer = 0, broadcast = 0;
    SumLoops s = loops_of_sum(n, product);
    s.c.map = map;
    for (int k = 0; k < 2; k++) {
        const Node *b = rewrite_seen(r, product->in[k], OP_BROADCAST);
        outer += is_outer_product(r, product->in[k]);
        broadcast += b != NULL;
        in[k] = b ? b->in[0] : product->in[k];
        dims[k] = add_factor(&s, b, in[k]);
    }
    const bool grows = (dims[0] & ~dims[1] & ~s.summed) && (dims[1] & ~dims[0] & ~s.summed);
    return outer > 0 || (broadcast == 2 && grows) ? emit_contract(r, &s.c, in) : NULL;
}

/* What canonicalize does comes first; then the op's own rules here. */
Node *rule_canonical(Rewriter *r, const Node *n) {
    Node *simpler = NULL;
    for (const RewriteId *id = canonical_rules(n->op); *id != REWRITE_END && !simpler; id++)
        simpler = rewrite_apply(r, *id, n);
    return simpler;
}

/* One walk brings every contraction into its form; the next weighs costs, which takes knowing who reads what. */
static const RewriteId *form_rules(Op op) {
    static const RewriteId contract_rules[] = {REWRITE_canonical, REWRITE_drop_unit_loops, REWRITE_drop_guards,
                                               REWRITE_sum_index, REWRITE_residue,         REWRITE_merge_loops,
                                               REWRITE_END};
    static const RewriteId sum_rules[] = {REWRITE_canonical, REWRITE_sum_of_product, REWRITE_fold, REWRITE_END};
    static const RewriteId other_rules[] = {REWRITE_canonical, REWRITE_fold, REWRITE_END};
    if (op == OP_CONTRACT) return contract_rules;
    return op == OP_SUM ? sum_rules : other_rules;
}

static const RewriteId *cost_rules(Op op) {
    static const RewriteId contract_rules[] = {REWRITE_canonical, REWRITE_drop_unit_loops, REWRITE_drop_guards,
                                               REWRITE_sum_index, REWRITE_residue,         REWRITE_product_of_sum,
                                               REWRITE_chain,     REWRITE_merge_loops,     REWRITE_factor_of_contract,
                                               REWRITE_END};
    static const RewriteId sum_rules[] = {REWRITE_canonical,   REWRITE_factor_of_sum, REWRITE_sum_of_product,
                                          REWRITE_reassociate, REWRITE_fold,          REWRITE_END};
    return op == OP_CONTRACT ? contract_rules : op == OP_SUM ? sum_rules : form_rules(op);
}

/* Before anything moves between a sum and the indicator in it. */
static const RewriteId *indicator_rules(Op op) {
    static const RewriteId sum_rules[] = {REWRITE_canonical, REWRITE_indicator, REWRITE_END};
    static const RewriteId other_rules[] = {REWRITE_canonical, REWRITE_END};
    return op == OP_SUM || op == OP_CONTRACT ? sum_rules : other_rules;
}

static bool compares_ids(const Graph *g) {
    bool found = false;
    for (int i = 0; i < g->nodes.n && !found; i++) found = g->nodes.at[i]->op == OP_EQ && g->nodes.at[i]->in[0]->dtype == DT_I32;
    return found;
}

Graph *pass_jacobian_gemm(PassContext *c, Graph *g) {
    if (compares_ids(g)) g = rewrite_graph(c, g, indicator_rules);
    Graph *formed = sums_of_parts(rewrite_graph(c, g, form_rules));
    return rewrite_graph(c, formed, cost_rules);
}
