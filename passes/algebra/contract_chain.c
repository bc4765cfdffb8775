/* Chains of matrix products: (A B) C or A (B C), whichever costs less.
 *
 * A contraction and those that it reads are one product of several operands over the union of their loops; so is a sum
 * of a product of several tensors, as a program writes it: one loop over all of their indices, until it is here.  Which
 * two to multiply first is found by dynamic programming over the sets of operands, as for the matrix-chain problem,
 * but for any index structure: linear attention, low-rank factors, a matrix-vector chain.  A product that others read
 * as well is there for nothing, and is taken apart only where that is cheaper still: a Jacobian of low rank is then
 * multiplied by its factors each time, and need not be in memory.  A sum of squares of a product is left alone: by the
 * factors' Gram matrices, sum((A B)^2) = sum((A'A) * (B B')), it may come out below zero. */
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_class.h"
#include "passes/algebra/contract_cost.h"
#include "passes/rewrite/rewrite.h"
#include <math.h>
#include <string.h>

enum {
    MOST_OPERANDS = 6,
    MOST_LOOPS = 32,
    SETS = 1 << MOST_OPERANDS,
    SEVERAL_FLOP =
        4, /* what an operation costs in a product of more than two: it is no matrix product, which runs faster */
    DEEPEST_SUM = 3, /* sums of sums that are looked into: residual blocks are one sum of all before them */
};

/* Loops are numbered through: those of the root first.  Sets of operands and of loops are bit masks. */
typedef struct Chain {
    Rewriter *r;
    DType dtype;
    int n, n_loops;
    Node *operand[MOST_OPERANDS];
    const Affine *read[MOST_OPERANDS];     /* its subscripts, over the loops of the contraction it stands in: */
    int8_t loop[MOST_OPERANDS][MAX_LOOPS]; /* the numbers of those */
    uint32_t reads[MOST_OPERANDS];
    Dim extent[MOST_LOOPS];
    uint32_t out;
    const int8_t *out_loop; /* in the order of the result's dims */
    int n_out;
    bool shared; /* products that others read as well are links, too */
    double now;  /* cost as written */
    double best[SETS];
    int left[SETS]; /* of the cheapest way to compute the set: the factor that holds its first operand */
} Chain;

static uint32_t loops_read(const Chain *c, int set) {
    uint32_t loops = 0;
    for (int k = 0; k < c->n; k++)
        if (set >> k & 1) loops |= c->reads[k];
    return loops;
}

/* The loops that a product of the set still has: the result's, and those that the other operands read. */
static uint32_t loops_kept(const Chain *c, int set) {
    const int all = (1 << c->n) - 1;
    return loops_read(c, set) & (c->out | loops_read(c, all & ~set));
}

static double steps_of(const Chain *c, uint32_t loops) {
    double steps = 1;
    for (int l = 0; l < c->n_loops; l++)
        if (loops >> l & 1) steps *= (double)c->extent[l].bound;
    return steps;
}

static bool is_single(int set) { return (set & (set - 1)) == 0; }

/* Loops that one factor walks: all it has, for an operand of the program; what is left, for a product. */
static uint32_t factor_loops(const Chain *c, int set) {
    return is_single(set) ? loops_read(c, set) : loops_kept(c, set);
}

/* Of the product of some sets, without computing them. */
static double product_cost(const Chain *c, int n, const int *set) {
    uint32_t walked = 0;
    double elements = 0;
    int all = 0;
    for (int k = 0; k < n; k++) {
        const uint32_t loops = factor_loops(c, set[k]);
        walked |= loops;
        elements += steps_of(c, loops);
        all |= set[k];
    }
    const uint32_t kept = loops_kept(c, all);
    if (__builtin_popcount(walked) > MAX_LOOPS || __builtin_popcount(kept) > MAX_RANK) return INFINITY;
    elements += steps_of(c, kept);
    const double flops = n * steps_of(c, walked) * (n > 2 ? SEVERAL_FLOP : 1);
    return work_cost(flops, elements * (double)dtype_bytes(c->dtype));
}

static double pair_cost(const Chain *c, int a, int b) { return product_cost(c, 2, (int[]){a, b}); }

/* ---- collecting -------------------------------------------------------------------------------------------------- */
/* Loops are known by what reads them: those of none would be lost. */
static bool reads_all_loops(const Node *n) {
    const Contract *c = n->attr->contract;
    for (int l = 0; l < c->n_loops; l++) {
        bool read = false;
        for (int k = 0; k < n->n_in; k++) read = read || contract_mentions(c, n->in, k, l);
        if (!read) return false;
    }
    return true;
}

static bool is_product(const Node *n) {
    const Contract *c = n->attr->contract;
    return n->n_in == 2 && dtype_is_float(n->dtype) && n->dtype != DT_F16 && n->in[0]->dtype == n->dtype &&
           contract_classify(c, n->in).is_plain && reads_all_loops(n);
}

/* No two places of e's loops have the same value: one loop, or 64*j + k with k below 64, a dim that was split. */
static bool is_injective(const Contract *c, const Affine *e) {
    int64_t reach = 0, last = 0;
    int loops = 0, found = 0;
    for (int l = 0; l < c->n_loops; l++) loops += e->coef[l] != 0;
    for (; found < loops; found++) {
        int next = -1;
        for (int l = 0; l < c->n_loops; l++)
            if (e->coef[l] > last && (next < 0 || e->coef[l] < e->coef[next])) next = l;
        if (next < 0 || e->coef[next] <= reach) return false;
        int64_t span;
        if (__builtin_mul_overflow(last = e->coef[next], c->extent[next].bound - 1, &span) ||
            __builtin_add_overflow(reach, span, &reach))
            return false;
    }
    return e->divisor == 1;
}

/* Each element of each operand is read at one place of the operand's loops, so that their steps are its elements.  What
 * lies outside it reads as 0 in a product of two as in one of several. */
static bool reads_once(const Contract *c, Node *const *in) {
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape->rank; d++) {
            if (!is_injective(c, &c->map[k][d])) return false;
            for (int l = 0; l < c->n_loops; l++)
                for (int e = 0; e < d; e++)
                    if (c->map[k][d].coef[l] && c->map[k][e].coef[l]) return false;
        }
    return c->n_guards == 0;
}

/* A sum of a product of more than two tensors.  In f32: what is low is rounded as often as the program says. */
static bool is_several(const Node *n) {
    if (n->n_in < 3 || n->n_in > MOST_OPERANDS || n->dtype != DT_F32 || n->in[0]->dtype != DT_F32) return false;
    return reads_once(n->attr->contract, n->in) && reads_all_loops(n);
}

/* Operand k of n is a product that n reads by whole loops. */
static bool is_link(const Chain *c, const Node *n, int k) {
    const Node *x = n->in[k];
    const Contract *product = n->attr->contract;
    for (int d = 0; d < x->shape->rank; d++) {
        const int loop = affine_single_loop(product, &product->map[k][d]);
        if (loop < 0 || !dim_equal(product->extent[loop], x->shape->dim[d])) return false;
    }
    return rewrite_seen(c->r, x, OP_CONTRACT) && x->dtype == c->dtype && is_product(x) &&
           (c->shared || rewrite_only_reader(c->r, x));
}

/* Adds the operands below n, whose loops are numbered loop[]; returns their set, or 0 past a limit. */
static int collect(Chain *c, const Node *n, const int8_t *loop) {
    const Contract *product = n->attr->contract;
    int set = 0;
    for (int k = 0; k < n->n_in; k++) {
        Node *x = n->in[k];
        if (is_link(c, n, k)) {
            const Contract *inner = x->attr->contract;
            int8_t below[MAX_LOOPS];
            for (int d = 0; d < x->shape->rank; d++) below[d] = loop[affine_single_loop(product, &product->map[k][d])];
            for (int l = inner->n_out; l < inner->n_loops; l++) {
                if (c->n_loops == MOST_LOOPS) return 0;
                c->extent[c->n_loops] = inner->extent[l];
                below[l] = (int8_t)c->n_loops++;
            }
            const int part = collect(c, x, below);
            if (!part) return 0;
            set |= part;
            continue;
        }
        if (c->n == MOST_OPERANDS) return 0;
        set |= 1 << c->n;
        c->operand[c->n] = x;
        c->read[c->n] = product->map[k];
        memcpy(c->loop[c->n], loop, (size_t)product->n_loops);
        for (int l = 0; l < product->n_loops; l++)
            if (contract_mentions(product, n->in, k, l)) c->reads[c->n] |= (uint32_t)1 << loop[l];
        c->n++;
    }
    return set;
}

/* The cost of the tree as written: the sets in the order of collect().  given: n is computed anyway. */
static int tree_cost(Chain *c, const Node *n, bool given, int *next) {
    int part[MOST_OPERANDS], set = 0;
    for (int k = 0; k < n->n_in; k++) {
        Node *x = n->in[k];
        part[k] = is_link(c, n, k) ? tree_cost(c, x, given || !rewrite_only_reader(c->r, x), next) : 1 << (*next)++;
        set |= part[k];
    }
    if (!given) c->now += product_cost(c, n->n_in, part);
    return set;
}

/* ---- the cheapest order ------------------------------------------------------------------------------------------ */
static void search(Chain *c) {
    for (int set = 1; set < 1 << c->n; set++) {
        c->best[set] = is_single(set) ? 0 : INFINITY;
        for (int a = (set - 1) & set; a; a = (a - 1) & set) {
            if (!(a & set & -set)) continue;
            const double cost = c->best[a] + c->best[set & ~a] + pair_cost(c, a, set & ~a);
            if (cost < c->best[set]) c->best[set] = cost, c->left[set] = a;
        }
    }
}

/* Loops of the result in the order of its dims: for a product in between, the result's first, as they stand there. */
static int order_of(const Chain *c, int set, int8_t *order) {
    const uint32_t kept = loops_kept(c, set);
    int n = 0;
    if (set == (1 << c->n) - 1) {
        memcpy(order, c->out_loop, (size_t)c->n_out);
        return c->n_out;
    }
    for (int d = 0; d < c->n_out; d++)
        if (kept >> c->out_loop[d] & 1) order[n++] = c->out_loop[d];
    for (int l = 0; l < c->n_loops; l++)
        if (kept >> l & 1 && !(c->out >> l & 1)) order[n++] = (int8_t)l;
    return n;
}

static Node *emit(Chain *c, int set, int8_t *dims);

/* Reads of operand k: its subscripts over the loops of the product, whose number of each of the chain's is in place[].
 */
static Node *emit_operand(const Chain *c, int k, const int8_t *place, Affine *map) {
    for (int d = 0; d < c->operand[k]->shape->rank; d++) {
        map[d] = (Affine){.c = c->read[k][d].c, .divisor = 1};
        for (int l = 0; l < MAX_LOOPS; l++)
            if (c->read[k][d].coef[l]) map[d].coef[place[c->loop[k][l]]] = c->read[k][d].coef[l];
    }
    return c->operand[k];
}

/* Of a factor: those of an operand, or the dims of a product as loops. */
static Node *emit_factor(Chain *c, int set, const int8_t *place, Affine *map) {
    int8_t dims[MAX_LOOPS];
    if (is_single(set)) return emit_operand(c, __builtin_ctz((unsigned)set), place, map);
    Node *x = emit(c, set, dims);
    for (int d = 0; d < x->shape->rank && d < MAX_RANK; d++) {
        map[d] = (Affine){.divisor = 1};
        map[d].coef[place[dims[d]]] = 1;
    }
    return x;
}

/* dims: out, the loop of each dim of the result. */
static Node *emit(Chain *c, int set, int8_t *dims) {
    const int a = c->left[set], b = set & ~a;
    const uint32_t walked = factor_loops(c, a) | factor_loops(c, b);
    Affine map[2][MAX_RANK] = {0};
    Contract product = {.n_operands = 2, .map = map, .n_out = order_of(c, set, dims)};
    int8_t place[MOST_LOOPS] = {0};
    uint32_t placed = 0;
    for (int i = 0; i < product.n_out; i++) {
        product.extent[i] = c->extent[dims[i]];
        place[dims[i]] = (int8_t)i;
        placed |= (uint32_t)1 << dims[i];
    }
    product.n_loops = product.n_out;
    for (int l = 0; l < c->n_loops; l++)
        if (walked >> l & 1 && !(placed >> l & 1)) {
            product.extent[product.n_loops] = c->extent[l];
            place[l] = (int8_t)product.n_loops++;
        }
    Node *in[2];
    in[0] = emit_factor(c, a, place, map[0]);
    in[1] = emit_factor(c, b, place, map[1]);
    return rewrite_op(c->r, OP_CONTRACT, 2, in, &(Attr){.contract = &product});
}

/* Collects and searches; false where n is no chain, or one of too many operands. */
static bool plan(Chain *c, Rewriter *r, const Node *n, bool shared, int8_t *loop) {
    const Contract *product = n->attr->contract;
    *c = (Chain){.r = r, .dtype = n->dtype, .n_loops = product->n_loops, .n_out = product->n_out, .shared = shared};
    if (n->n_in == 2 && !is_link(c, n, 0) && !is_link(c, n, 1)) return false;
    for (int l = 0; l < c->n_loops; l++) {
        loop[l] = (int8_t)l;
        c->extent[l] = product->extent[l];
    }
    c->out_loop = loop;
    c->out = ((uint32_t)1 << c->n_out) - 1;
    if (!collect(c, n, loop)) return false;
    int next = 0;
    tree_cost(c, n, false, &next);
    search(c);
    return true;
}

Node *rule_chain(Rewriter *r, const Node *n) {
    Chain c;
    int8_t loop[MOST_LOOPS], dims[MOST_LOOPS];
    if (!is_product(n) && !is_several(n)) return NULL;
    for (int shared = 1; shared >= 0; shared--) {
        if (!plan(&c, r, n, shared, loop)) continue;
        const int all = (1 << c.n) - 1;
        if (work_is_less(c.best[all], c.now)) return emit(&c, all, dims);
    }
    return NULL;
}

/* ---- sums of products -------------------------------------------------------------------------------------------- */
static double size_of(const Node *n) { return (double)shape_elements(*n->shape); }

static double pass_cost(const Node *n) { return work_cost(size_of(n), 3 * size_of(n) * (double)dtype_bytes(n->dtype)); }

static bool is_sum(const Rewriter *r, const Node *x) {
    return rewrite_seen(r, x, OP_ADD) || rewrite_seen(r, x, OP_SUB);
}

/* Of n's loops, all operands being in memory. */
static double dense_cost(const Node *n) {
    double steps = 1, elements = size_of(n);
    for (int l = 0; l < n->attr->contract->n_loops; l++) steps *= (double)n->attr->contract->extent[l].bound;
    for (int k = 0; k < n->n_in; k++) elements += size_of(n->in[k]);
    return work_cost(2 * steps, elements * (double)dtype_bytes(n->dtype));
}

/* n, a product, with x for operand k. */
static Node product_with(const Node *n, int k, Node *x, Node *in[2]) {
    Node product = *n;
    in[0] = n->in[0];
    in[1] = n->in[1];
    in[k] = x;
    product.in = in;
    return product;
}

/* What n would cost with x for operand k: by x's own operands where x is a sum, a product, or a value placed among
 * zeros (a diagonal), whose places alone are then walked. */
static double cost_with(Rewriter *r, const Node *n, int k, const Node *x, int depth) {
    Node *in[2];
    Chain c;
    int8_t loop[MOST_LOOPS];
    const Node product = product_with(n, k, (Node *)(uintptr_t)x, in);
    if (is_sum(r, x) && depth > 0)
        return cost_with(r, n, k, x->in[0], depth - 1) + cost_with(r, n, k, x->in[1], depth - 1) + pass_cost(n);
    if (rewrite_seen(r, x, OP_CONTRACT) && x->n_in == 1 && size_of(x->in[0]) < size_of(x))
        return dense_cost(&product) * size_of(x->in[0]) / size_of(x);
    return plan(&c, r, &product, true, loop) ? c.best[(1 << c.n) - 1] : dense_cost(&product);
}

/* What it costs that the sum is in memory: nothing, if others read it. */
static double cost_of_sum(Rewriter *r, const Node *x, int depth) {
    if (!rewrite_only_reader(r, x)) return 0;
    double cost = pass_cost(x);
    for (int k = 0; k < 2; k++) {
        const Node *term = x->in[k];
        if (is_sum(r, term) && depth > 0)
            cost += cost_of_sum(r, term, depth - 1);
        else if (rewrite_seen(r, term, OP_CONTRACT) && rewrite_only_reader(r, term))
            cost += dense_cost(term);
    }
    return cost;
}

Node *rule_product_of_sum(Rewriter *r, const Node *n) {
    if (n->dtype != DT_F32 || !is_product(n)) return NULL;
    for (int k = 0; k < 2; k++) {
        const Node *sum = n->in[k];
        if (!is_sum(r, sum) || sum->dtype != DT_F32) continue;
        const double now = dense_cost(n) + cost_of_sum(r, sum, DEEPEST_SUM);
        if (!work_is_less(cost_with(r, n, k, sum, DEEPEST_SUM), now)) continue;
        Node *term[2], *in[2];
        for (int i = 0; i < 2; i++) {
            const Node product = product_with(n, k, sum->in[i], in);
            term[i] = rewrite_op(r, OP_CONTRACT, 2, product.in, n->attr);
        }
        return rewrite_op(r, sum->op, 2, term, NULL);
    }
    return NULL;
}
