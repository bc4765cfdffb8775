/* Summing over the index that is read, not over one that it is a quotient of.
 *
 *     y[i] = sum over p of A[(a*p + b*i + c) / D] * U[p],    a = 1 or -1
 *
 * (the kernel's gradient of a transposed convolution of stride D) has a term for one p in D only.  Each element q of A
 * meets at most one p, so
 *
 *     y[i] = sum over q of A[q] * U[a*(D*q - b*i - c)]
 *
 * has the same terms, no divisor and D times fewer steps.  Without a divisor it is done where q has fewer values than
 * p, and each of them its term: then no condition is left (the same gradient where the image is the smaller one). */
#include "passes/algebra/affine.h"
#include "passes/rewrite/rewrite.h"
#include <stdlib.h>
#include <string.h>

typedef struct Exchange {
    int loop;    /* p, whose place q takes */
    Dim extent;  /* of q */
    Affine p;    /* p by the loops, q in the place of p */
    int operand; /* that is read at q */
    int dim;
} Exchange;

static bool within_limit(const Affine *e) {
    const int64_t limit = (int64_t)1 << AFFINE_LIMIT_BITS;
    for (int l = 0; l < MAX_LOOPS; l++)
        if (llabs(e->coef[l]) > limit) return false;
    return llabs(e->c) <= limit && e->divisor <= limit;
}

/* p = a*(D*q - rest), where e is (a*p + rest) / D. */
static Affine solved(const Affine *e, int p) {
    const int64_t a = e->coef[p];
    Affine x = {.c = -a * e->c, .divisor = 1};
    for (int l = 0; l < MAX_LOOPS; l++) x.coef[l] = -a * e->coef[l];
    x.coef[p] = a * e->divisor;
    return x;
}

/* e with `p` for the loop; false past the limit. */
static bool substitute(Affine *e, const Exchange *x) {
    const int64_t on = e->coef[x->loop], limit = (int64_t)1 << (62 - AFFINE_LIMIT_BITS);
    if (on == 0) return true;
    if (llabs(on) >= limit) return false;
    e->coef[x->loop] = 0;
    e->c += on * x->p.c;
    for (int l = 0; l < MAX_LOOPS; l++) e->coef[l] += on * x->p.coef[l];
    affine_reduce(e);
    return within_limit(e);
}

static Node *exchange(Rewriter *r, const Node *n, const Exchange *x) {
    const Contract *old = n->attr->contract;
    const Guard in_range = {.kind = GUARD_RANGE, .e = x->p, .hi = old->extent[x->loop]};
    Contract c = *old;
    c.map = arena_dup(r->scratch, old->map, sizeof *old->map * (size_t)old->n_operands);
    c.guard = ARENA_ARRAY(r->scratch, Guard, old->n_guards + 1);
    if (old->n_guards) memcpy(c.guard, old->guard, sizeof(Guard) * (size_t)old->n_guards);
    c.extent[x->loop] = x->extent;
    for (int k = 0; k < c.n_operands; k++)
        for (int d = 0; d < n->in[k]->shape->rank; d++)
            if (!substitute(&c.map[k][d], x)) return NULL;
    for (int i = 0; i < c.n_guards; i++)
        if (!substitute(&c.guard[i].e, x)) return NULL;
    const bool holds = guard_always_holds(&c, &in_range);
    if (old->map[x->operand][x->dim].divisor == 1 && !holds) return NULL;
    if (!holds && !loop_read_whole(old, n->in, x->loop)) c.guard[c.n_guards++] = in_range;
    return rewrite_contract(r, &c, n->in);
}

/* A summed loop that a subscript of other loops too can be solved for, and that has more values than the dim. */
static bool find_exchange(const Node *n, int k, int d, Exchange *x) {
    const Contract *c = n->attr->contract;
    const Affine *e = &c->map[k][d];
    const Dim q = n->in[k]->shape->dim[d];
    int p = -1, loops = 0;
    for (int l = 0; l < c->n_loops; l++) {
        loops += e->coef[l] != 0;
        if (l >= c->n_out && llabs(e->coef[l]) == 1 && dim_is_fixed(c->extent[l]) && c->extent[l].bound > q.bound)
            p = l;
    }
    if (p < 0 || loops < 2 || !dim_is_fixed(q)) return false;
    *x = (Exchange){.loop = p, .extent = q, .p = solved(e, p), .operand = k, .dim = d};
    return within_limit(&x->p);
}

Node *rule_sum_index(Rewriter *r, const Node *n) {
    Exchange x;
    Node *done = NULL;
    for (int k = 0; k < n->n_in; k++)
        for (int d = 0; d < n->in[k]->shape->rank && !done; d++)
            if (find_exchange(n, k, d, &x)) done = exchange(r, n, &x);
    return done;
}
