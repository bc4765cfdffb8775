/* Sums and products in the other order, where fewer terms are multiplied then.
 *
 *     sum_j (sum_k x[i, k] w[k, j]) = sum_jk x[i, k] w[k, j] = sum_k x[i, k] (sum_j w[k, j])
 *     sum_pq x[p + q] w[q, j] = sum_q (sum_p x[p + q]) w[q, j]      p: places of an image, q: of a window on it
 *     y[p] = sum_qj g[j] w[q, j] [0 <= p - q < P] = sum_q z[q] [0 <= p - q < P]      where z[q] = sum_j g[j] w[q, j]
 *
 * A sum of a product that nothing else reads becomes summed loops of the product.  Summed loops that one dim of one
 * operand alone is read along are summed in that operand before.  Output loops that only guards mention are put around
 * the product of what is left: the last line, in which g is the same for all of an image.  As this stands in front of
 * the backward too, the gradients of such sums are as small as they are.
 *
 * Only in f32: what is low is rounded as often as the program says. */
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_class.h"
#include "passes/algebra/contract_cost.h"
#include "passes/algebra/factor_out.h"
#include "passes/rewrite/rewrite.h"
#include <string.h>

enum { DEEPEST_TERM = 8 }; /* sums of sums are looked into so far: a residual stream is one of all blocks */

static bool is_f32(const Node *n) {
    bool all = n->dtype == DT_F32 && n->precision == PRECISION_F32;
    for (int k = 0; k < n->n_in; k++) all = all && n->in[k]->dtype == DT_F32;
    return all;
}

static uint32_t loops_in(const Affine *e, int n_loops) {
    uint32_t loops = 0;
    for (int l = 0; l < n_loops; l++)
        if (e->coef[l]) loops |= 1u << l;
    return loops;
}

static uint32_t loops_of_operand(const Contract *c, Node *const *in, int k) {
    uint32_t loops = 0;
    for (int d = 0; d < in[k]->shape->rank; d++) loops |= loops_in(&c->map[k][d], c->n_loops);
    return loops;
}

static uint32_t all_loops(const Contract *c) { return (1u << c->n_loops) - 1; }
static uint32_t out_loops(const Contract *c) { return (1u << c->n_out) - 1; }

static double steps_of(const Contract *c, uint32_t loops) {
    double steps = 1;
    for (int l = 0; l < c->n_loops; l++)
        if (loops >> l & 1) steps *= (double)c->extent[l].bound;
    return steps;
}

static double size_of(const Node *n) { return (double)shape_elements(*n->shape); }

/* What a contraction of that many steps costs that reads and writes so many elements. */
static double cost_of(int n_operands, double steps, double elements) {
    return work_cost(n_operands * steps, elements * (double)dtype_bytes(DT_F32));
}

/* A contraction with room for the maps of n's operands and its guards, of which it has none yet. */
static Contract begin(Rewriter *r, const Node *n) {
    Contract c = {.n_operands = n->n_in};
    c.map = arena_alloc(r->scratch, sizeof *c.map * (size_t)n->n_in);
    c.guard = ARENA_ARRAY(r->scratch, Guard, n->attr->contract->n_guards);
    return c;
}

/* Takes loops of another contraction into c, which has none yet, and says which they were in from[]. */
static void take_loops(Contract *c, const Contract *old, uint32_t loops, int *from) {
    for (int l = 0; l < old->n_loops; l++) {
        if (!(loops >> l & 1)) continue;
        from[c->n_loops] = l;
        c->extent[c->n_loops++] = old->extent[l];
    }
}

/* The subscript over other loops, of which loop l was from[l]. */
static Affine renamed(const Affine *e, const Contract *c, const int *from) {
    Affine x = {.c = e->c, .divisor = e->divisor};
    for (int l = 0; l < c->n_loops; l++) x.coef[l] = e->coef[from[l]];
    return x;
}

/* All that operands are read at. */
static void take_maps(Contract *c, const Contract *old, Node *const *in, const int *from) {
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape->rank; d++) c->map[k][d] = renamed(&old->map[k][d], c, from);
}

static Affine whole_loop(const Contract *c, const int *from, int loop) {
    Affine x = {.divisor = 1};
    for (int l = 0; l < c->n_loops; l++) x.coef[l] = from[l] == loop;
    return x;
}

static void take_guard(Contract *c, const Guard *g, const int *from) {
    Guard *taken = &c->guard[c->n_guards++];
    *taken = *g;
    taken->e = renamed(&g->e, c, from);
}

/* ---- a summed loop of one operand ---------------------------------------------------------------------------- */
/* Summed loops that nothing but dim d of operand k is read along. */
static uint32_t lone_loops(const Contract *c, Node *const *in, int k, int d) {
    uint32_t lone = loops_in(&c->map[k][d], c->n_loops) & ~out_loops(c);
    for (int o = 0; lone && o < c->n_operands; o++)
        for (int e = 0; e < in[o]->shape->rank; e++)
            if (o != k || e != d) lone &= ~loops_in(&c->map[o][e], c->n_loops);
    for (int i = 0; lone && i < c->n_guards; i++) lone &= ~loops_in(&c->guard[i].e, c->n_loops);
    return lone;
}

/* Is it less to sum operand k along dim d first?  The dim gives way to one for each other loop of its subscript. */
static bool summing_pays(const Contract *c, Node *const *in, int k, int d, uint32_t lone) {
    const uint32_t read = loops_in(&c->map[k][d], c->n_loops);
    const int64_t extent = in[k]->shape->dim[d].bound;
    if (in[k]->shape->rank - 1 + __builtin_popcount(read) > MAX_RANK || extent == 0) return false;
    const double terms = size_of(in[k]) / (double)extent * steps_of(c, read), sums = terms / steps_of(c, lone);
    double others = steps_of(c, out_loops(c));
    for (int o = 0; o < c->n_operands; o++)
        if (o != k) others += size_of(in[o]);
    const double now = cost_of(c->n_operands, steps_of(c, all_loops(c)), others + size_of(in[k]));
    return work_is_less(cost_of(1, terms, size_of(in[k]) + sums) +
                            cost_of(c->n_operands, steps_of(c, all_loops(c) & ~lone), others + sums),
                        now);
}

/* x summed along dim d, where it is read at e of c; the dims there now are the loops left. */
static Node *summed_along(Rewriter *r, const Contract *c, Node *x, int d, const Affine *e, uint32_t lone) {
    const int single = affine_single_loop(c, e);
    if (single >= 0 && dim_equal(c->extent[single], x->shape->dim[d]))
        return rewrite_reduce(r, OP_SUM, x, 1, (int8_t[]){(int8_t)d});
    Affine map[1][MAX_RANK] = {0};
    Contract sum = {.n_operands = 1, .map = map};
    int from[MAX_LOOPS];
    for (int i = 0; i < d; i++) from[sum.n_loops] = -1, sum.extent[sum.n_loops++] = x->shape->dim[i];
    take_loops(&sum, c, loops_in(e, c->n_loops) & ~lone, from);
    const int after = sum.n_loops - d - 1;
    for (int i = d + 1; i < x->shape->rank; i++) from[sum.n_loops] = -1, sum.extent[sum.n_loops++] = x->shape->dim[i];
    sum.n_out = sum.n_loops;
    take_loops(&sum, c, lone, from);
    for (int i = 0; i < x->shape->rank; i++) {
        map[0][i] = (Affine){.divisor = 1};
        if (i != d) map[0][i].coef[i < d ? i : i + after] = 1;
    }
    map[0][d] = (Affine){.c = e->c, .divisor = e->divisor};
    for (int l = 0; l < sum.n_loops; l++)
        if (from[l] >= 0) map[0][d].coef[l] = e->coef[from[l]];
    return rewrite_contract(r, &sum, &x);
}

/* The product where dim d of operand k is summed before. */
static Node *sum_before(Rewriter *r, const Node *n, int k, int d, uint32_t lone) {
    const Contract *old = n->attr->contract;
    const uint32_t left = loops_in(&old->map[k][d], old->n_loops) & ~lone;
    Contract c = begin(r, n);
    int from[MAX_LOOPS];
    Node **in = arena_dup(r->scratch, n->in, sizeof *in * (size_t)n->n_in);
    in[k] = summed_along(r, old, n->in[k], d, &old->map[k][d], lone);
    if (!in[k]) return NULL;
    take_loops(&c, old, all_loops(old) & ~lone, from);
    c.n_out = old->n_out;
    for (int o = 0; o < n->n_in; o++)
        for (int e = 0, at = 0; e < n->in[o]->shape->rank; e++) {
            if (o != k || e != d) {
                c.map[o][at++] = renamed(&old->map[o][e], &c, from);
                continue;
            }
            for (int l = 0; l < old->n_loops; l++)
                if (left >> l & 1) c.map[o][at++] = whole_loop(&c, from, l);
        }
    for (int i = 0; i < old->n_guards; i++) take_guard(&c, &old->guard[i], from);
    return rewrite_contract(r, &c, in);
}

Node *rule_sum_before(Rewriter *r, const Node *n) {
    const Contract *c = n->attr->contract;
    if (n->n_in < 2 || c->n_loops == c->n_out || !is_f32(n)) return NULL;
    for (int k = 0; k < n->n_in; k++)
        for (int d = 0; d < n->in[k]->shape->rank; d++) {
            const uint32_t lone = lone_loops(c, n->in, k, d);
            if (lone && summing_pays(c, n->in, k, d, lone)) return sum_before(r, n, k, d, lone);
        }
    return NULL;
}

/* Summed loops that nothing is read along: the sum of the others, as often as they have steps. */
Node *rule_repeated_sum(Rewriter *r, const Node *n) {
    const Contract *old = n->attr->contract;
    uint32_t unread = all_loops(old) & ~out_loops(old);
    if (!unread || !is_f32(n)) return NULL;
    for (int l = old->n_out; l < old->n_loops; l++)
        if (!dim_is_fixed(old->extent[l]) || old->extent[l].bound == 0) unread &= ~(1u << l);
    for (int k = 0; unread && k < n->n_in; k++) unread &= ~loops_of_operand(old, n->in, k);
    for (int i = 0; unread && i < old->n_guards; i++) unread &= ~loops_in(&old->guard[i].e, old->n_loops);
    const double times = steps_of(old, unread);
    if (!unread) return NULL;
    Contract c = begin(r, n);
    int from[MAX_LOOPS];
    take_loops(&c, old, all_loops(old) & ~unread, from);
    c.n_out = old->n_out;
    take_maps(&c, old, n->in, from);
    for (int i = 0; i < old->n_guards; i++) take_guard(&c, &old->guard[i], from);
    Node *once = rewrite_contract(r, &c, n->in);
    if (!once || times == 1) return once;
    return rewrite_op(r, OP_MUL, 2, (Node *[]){once, rewrite_const(r, n->dtype, *n->shape, times)}, NULL);
}

/* A contraction of one operand that sums whole dims of it and leaves the others in their order is a reduction. */
Node *rule_whole_sum(Rewriter *r, const Node *n) {
    const Contract *c = n->attr->contract;
    int8_t axes[MAX_RANK];
    int summed = 0, kept = 0;
    if (n->n_in != 1 || c->n_loops == c->n_out || c->n_loops != n->in[0]->shape->rank || !is_f32(n)) return NULL;
    if (!contract_classify(c, n->in).is_plain) return NULL;
    for (int d = 0; d < c->n_loops; d++) {
        const int loop = affine_single_loop(c, &c->map[0][d]);
        if (loop < c->n_out && loop != kept) return NULL;
        if (loop < c->n_out)
            kept++;
        else
            axes[summed++] = (int8_t)d;
    }
    return rewrite_reduce(r, OP_SUM, n->in[0], summed, axes);
}

/* ---- a sum of a product ------------------------------------------------------------------------------------------ */
/* The sum of product x as one contraction, its maps and guards in the scratch arena. */
static Contract summed_product(Rewriter *r, const Node *n, const Node *x) {
    const Contract *old = x->attr->contract;
    uint32_t axes = 0;
    for (int i = 0; i < n->attr->n_axes; i++) axes |= 1u << n->attr->axes[i];
    Contract c = begin(r, x);
    int from[MAX_LOOPS];
    take_loops(&c, old, out_loops(old) & ~axes, from);
    c.n_out = c.n_loops;
    take_loops(&c, old, axes, from);
    take_loops(&c, old, all_loops(old) & ~out_loops(old), from);
    take_maps(&c, old, x->in, from);
    for (int i = 0; i < old->n_guards; i++) take_guard(&c, &old->guard[i], from);
    return c;
}

/* Are the first n summed loops such as a matrix product has, read along in several operands, or summed before it? */
static bool loops_fit(const Contract *c, Node *const *in, int n) {
    const uint32_t added = ((1u << n) - 1) << c->n_out;
    uint32_t several = 0, once = 0, before = 0, guarded = 0;
    for (int k = 0; k < c->n_operands; k++) {
        const uint32_t loops = loops_of_operand(c, in, k);
        several |= loops & once, once |= loops;
        for (int d = 0; d < in[k]->shape->rank; d++) {
            const uint32_t lone = lone_loops(c, in, k, d);
            if ((lone & added) && summing_pays(c, in, k, d, lone)) before |= lone;
        }
    }
    for (int i = 0; i < c->n_guards; i++) guarded |= loops_in(&c->guard[i].e, c->n_loops);
    return (added & ~(several | before)) == 0 && (added & guarded) == 0;
}

/* Not so of what stands for no node of the old graph, such as one whose reshape does: others may read that. */
static bool has_one_reader(const Rewriter *r, const Node *x) { return r->readers.at[x->id] == 1; }

/* Is x a product of which sum n is one contraction? */
static bool is_summable(Rewriter *r, const Node *n, const Node *x) {
    if (!rewrite_seen(r, x, OP_CONTRACT) || x->n_in < 2 || !is_f32(x) || !has_one_reader(r, x)) return false;
    const Contract c = summed_product(r, n, x);
    return loops_fit(&c, x->in, n->attr->n_axes);
}

/* Does the sum n over x, a sum of terms perhaps with factors that are the same for all that n adds, have such a
 * product? */
static bool has_summable(Rewriter *r, const Node *n, const Node *x, unsigned kept, int depth) {
    const bool sum = rewrite_seen(r, x, OP_ADD) || rewrite_seen(r, x, OP_SUB), product = rewrite_seen(r, x, OP_MUL);
    if (is_summable(r, n, x)) return true;
    if (depth == 0 || !(sum || product || rewrite_seen(r, x, OP_DIV)) || !is_f32(x) || !has_one_reader(r, x))
        return false;
    for (int k = 0; k < (sum || product ? 2 : 1); k++)
        if ((sum || varies_along_only(r, x->in[1 - k], kept)) && has_summable(r, n, x->in[k], kept, depth - 1))
            return true;
    return false;
}

Node *rule_sum_of_contract(Rewriter *r, const Node *n) {
    Node *x = n->in[0];
    unsigned kept = (1u << x->shape->rank) - 1;
    for (int i = 0; i < n->attr->n_axes; i++) kept &= ~(1u << n->attr->axes[i]);
    if (n->attr->n_axes == 0 || !is_f32(n) || !has_summable(r, n, x, kept, DEEPEST_TERM)) return NULL;
    if (x->op == OP_CONTRACT) {
        const Contract c = summed_product(r, n, x);
        return rewrite_contract(r, &c, x->in);
    }
    if (x->op == OP_MUL || x->op == OP_DIV) return rewrite_apply(r, REWRITE_factor_of_sum, n);
    Node *sum[2];
    for (int k = 0; k < 2; k++) sum[k] = rewrite_reduce(r, OP_SUM, x->in[k], n->attr->n_axes, n->attr->axes);
    return rewrite_op(r, x->op, 2, sum, NULL);
}

/* ---- output loops of guards alone ------------------------------------------------------------------------------ */
/* Output loops that no operand is read along. */
static uint32_t unread_loops(const Node *n) {
    uint32_t unread = out_loops(n->attr->contract);
    for (int k = 0; k < n->n_in; k++) unread &= ~loops_of_operand(n->attr->contract, n->in, k);
    return unread;
}

/* The product without those loops and their guards, whose other summed loops are its last dims. */
static Node *product_inside(Rewriter *r, const Node *n, uint32_t unread, uint32_t opened) {
    const Contract *old = n->attr->contract;
    Contract c = begin(r, n);
    int from[MAX_LOOPS];
    take_loops(&c, old, out_loops(old) & ~unread, from);
    take_loops(&c, old, opened, from);
    c.n_out = c.n_loops;
    take_loops(&c, old, all_loops(old) & ~out_loops(old) & ~opened, from);
    if (c.n_out > MAX_RANK) return NULL;
    take_maps(&c, old, n->in, from);
    for (int i = 0; i < old->n_guards; i++)
        if (!(loops_in(&old->guard[i].e, old->n_loops) & unread)) take_guard(&c, &old->guard[i], from);
    return rewrite_contract(r, &c, n->in);
}

/* y, that product, summed where the guards hold. */
static Node *sum_around(Rewriter *r, const Node *n, Node *y, uint32_t unread, uint32_t opened) {
    const Contract *old = n->attr->contract;
    Affine map[1][MAX_RANK] = {0};
    Contract c = {.n_operands = 1, .map = map, .n_out = old->n_out};
    int from[MAX_LOOPS], d = 0;
    take_loops(&c, old, out_loops(old), from);
    take_loops(&c, old, opened, from);
    for (int l = 0; l < old->n_loops; l++)
        if ((out_loops(old) & ~unread) >> l & 1 || opened >> l & 1) map[0][d++] = whole_loop(&c, from, l);
    c.guard = ARENA_ARRAY(r->scratch, Guard, old->n_guards);
    for (int i = 0; i < old->n_guards; i++)
        if (loops_in(&old->guard[i].e, old->n_loops) & unread) take_guard(&c, &old->guard[i], from);
    return rewrite_contract(r, &c, &y);
}

Node *rule_guarded_loops(Rewriter *r, const Node *n) {
    const Contract *c = n->attr->contract;
    uint32_t unread, guarded = 0;
    if (n->n_in < 2 || c->n_guards == 0 || c->n_loops == c->n_out || !is_f32(n) || !(unread = unread_loops(n)))
        return NULL;
    for (int i = 0; i < c->n_guards; i++) {
        const uint32_t loops = loops_in(&c->guard[i].e, c->n_loops);
        if (loops & unread) guarded |= loops;
    }
    const uint32_t opened = guarded & ~out_loops(c);
    unread &= guarded;
    const double all = steps_of(c, all_loops(c)), inside = steps_of(c, (out_loops(c) & ~unread) | opened),
                 around = steps_of(c, out_loops(c) | opened);
    double read = 0;
    for (int k = 0; k < n->n_in; k++) read += size_of(n->in[k]);
    const double now = cost_of(n->n_in, all, read + size_of(n)),
                 then = cost_of(n->n_in, all / steps_of(c, unread), read + inside) +
                        cost_of(1, around, inside + size_of(n));
    if (!unread || !work_is_less(then, now)) return NULL;
    Node *y = product_inside(r, n, unread, opened);
    return y ? sum_around(r, n, y, unread, opened) : NULL;
}
