/* Products and sums with what is known to be zero, such as the padded gradient of a part, go over the rest alone. */
#include "passes/algebra/affine.h"
#include "passes/rewrite/rewrite.h"
#include <string.h>

typedef struct Span {
    int64_t lo, hi; /* [lo, hi) */
} Span;

/* Where lo <= coef * l + c < hi, apart from the limits in *s. */
static void limit(Span *s, int64_t coef, int64_t c, int64_t lo, int64_t hi) {
    const int64_t size = coef < 0 ? -coef : coef;
    int64_t from, last; /* from <= size * l, or -l, <= last */
    if (coef == 0 || __builtin_sub_overflow(lo, c, &from) || __builtin_sub_overflow(hi - 1, c, &last)) return;
    const int64_t first = from > 0 ? (from - 1) / size + 1 : -(-from / size),
                  end = last < 0 ? -((-last - 1) / size + 1) : last / size;
    const Span fits = coef > 0 ? (Span){first, end + 1} : (Span){-end, -first + 1};
    if (fits.lo > s->lo) s->lo = fits.lo;
    if (fits.hi < s->hi) s->hi = fits.hi;
}

/* The loop that alone stands in e, undivided; -1: none. */
static int only_loop(const Contract *c, const Affine *e) {
    int found = -1;
    if (e->divisor != 1) return -1;
    for (int l = 0; l < c->n_loops; l++) {
        if (e->coef[l] == 0) continue;
        if (found >= 0) return -1;
        found = l;
    }
    return found;
}

static void limit_by(const Contract *c, Span *span, const Affine *e, int64_t lo, Dim hi) {
    const int l = only_loop(c, e);
    if (l >= 0 && dim_is_fixed(hi) && dim_is_fixed(c->extent[l])) limit(&span[l], e->coef[l], e->c, lo, hi.bound);
}

/* Where each loop has terms that are not left out. */
static void find_spans(const Node *n, Span *span) {
    const Contract *c = n->attr->contract;
    for (int l = 0; l < c->n_loops; l++) span[l] = (Span){0, c->extent[l].bound};
    for (int k = 0; k < n->n_in; k++)
        for (int d = 0; d < n->in[k]->shape->rank; d++) limit_by(c, span, &c->map[k][d], 0, n->in[k]->shape->dim[d]);
    for (int i = 0; i < c->n_guards; i++)
        if (c->guard[i].kind == GUARD_RANGE) limit_by(c, span, &c->guard[i].e, c->guard[i].lo, c->guard[i].hi);
}

/* e where each loop begins at its span. */
static bool shift(const Contract *c, const Span *span, Affine *e) {
    int64_t by;
    for (int l = 0; l < c->n_loops; l++)
        if (__builtin_mul_overflow(e->coef[l], span[l].lo, &by) || __builtin_add_overflow(e->c, by, &e->c))
            return false;
    return true;
}

/* Summed loops go over their terms.  Output loops too, where nearly all is zero: less is only moved from the product to
 * who pads. */
Node *rule_narrow_loops(Rewriter *r, const Node *n) {
    enum { NEARLY_ALL = 8 };
    Contract c = *n->attr->contract;
    Span span[MAX_LOOPS];
    Attr pad = {0};
    bool narrower = false, padded = false, ok = true;
    if (c.n_loops == c.n_out) return NULL;
    find_spans(n, span);
    for (int l = 0; l < c.n_loops; l++) {
        const int64_t all = c.extent[l].bound, some = span[l].hi - span[l].lo;
        if (all > 0 && some <= 0) return rewrite_const(r, n->dtype, *n->shape, 0);
        if (all <= 0 || some >= all || (l < c.n_out && some > all / NEARLY_ALL)) {
            span[l] = (Span){0, all};
            if (l < c.n_out) pad.lo[l] = pad.hi[l] = dim_fixed(0);
            continue;
        }
        narrower = true;
        c.extent[l] = dim_fixed(some);
        if (l >= c.n_out) continue;
        padded = true;
        pad.lo[l] = dim_fixed(span[l].lo), pad.hi[l] = dim_fixed(all - span[l].hi);
    }
    if (!narrower) return NULL;
    c.map = arena_dup(r->scratch, c.map, sizeof *c.map * (size_t)c.n_operands);
    if (c.n_guards) c.guard = arena_dup(r->scratch, c.guard, sizeof *c.guard * (size_t)c.n_guards);
    for (int k = 0; k < n->n_in; k++)
        for (int d = 0; d < n->in[k]->shape->rank; d++) ok = ok && shift(&c, span, &c.map[k][d]);
    for (int i = 0; i < c.n_guards; i++) ok = ok && shift(&c, span, &c.guard[i].e);
    if (!ok) return NULL;
    Node *rest = rewrite_op(r, OP_CONTRACT, n->n_in, n->in, &(Attr){.contract = &c});
    return padded ? rewrite_op(r, OP_PAD, 1, &rest, &pad) : rest;
}

/* The sum of a padded value is that of the value, padded along what is not summed. */
Node *rule_sum_of_pad(Rewriter *r, const Node *n) {
    const Node *x = rewrite_seen(r, n->in[0], OP_PAD);
    if (!x || x->attr->value != 0) return NULL;
    Attr pad = {0};
    bool padded = false;
    for (int d = 0, out = 0, next = 0; d < x->shape->rank; d++) {
        if (next < n->attr->n_axes && n->attr->axes[next] == d) {
            next++;
            continue;
        }
        padded |= x->attr->lo[d].bound + x->attr->hi[d].bound > 0;
        pad.lo[out] = x->attr->lo[d], pad.hi[out++] = x->attr->hi[d];
    }
    Node *sum = rewrite_reduce(r, OP_SUM, x->in[0], n->attr->n_axes, n->attr->axes);
    return padded ? rewrite_op(r, OP_PAD, 1, &sum, &pad) : sum;
}
