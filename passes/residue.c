/* Splitting a strided gradient by residue class, so that no term is tried in vain and no divisor is left.
 *
 *     y[p] = sum over n of A[(a*p + b*n + c) / D] * K[n]
 *
 * (the input gradient of a convolution of stride D, or a transposed convolution) has a term for one n in
 * D only.  With n = D*n' + v the terms that exist have p = D*p' + u - k, u running over the classes as v
 * does, k constant.  So
 *
 *     z[p', u] = sum over n' of A[..no divisor..] * K[D*n' + v],    y[p] = z flattened at p + k
 *
 * one contraction, a reshape and a slice; u is an ordinary output loop.  With two classes v may run either way, so
 * that k is 0 and the slice is none: then u either stands in K only (a column of the matrix product) or in both (a
 * product per class).
 *
 *     y[p] = A[(a*p + c) / D] * ..
 *
 * (the input gradient of a strided convolution without overlap) has terms for one class of p only: the product is
 * computed for that, and zeros are laid between. */
#include "passes/affine.h"
#include "passes/rewrite.h"
#include <stdlib.h>
#include <string.h>

typedef struct Residue {
    int out, sum;    /* p and n */
    int64_t divisor; /* D */
    bool mirrored;   /* v = D - 1 - u instead of u */
    int64_t shift;   /* k, in 0 .. D-1 */
} Residue;

static int64_t floor_mod(int64_t a, int64_t b) { return (a % b + b) % b; }

/* Whether exactly one output loop, with coefficient +-1, and one summed loop decide if e divides. */
static bool find_loops(const Contract *c, const Affine *e, Residue *x) {
    *x = (Residue){.out = -1, .sum = -1, .divisor = e->divisor};
    for (int l = 0; l < c->n_loops; l++) {
        if (e->coef[l] % e->divisor == 0) continue;
        int *place = l < c->n_out ? &x->out : &x->sum;
        if (*place >= 0) return false;
        *place = l;
    }
    return x->out >= 0 && x->sum >= 0 && llabs(e->coef[x->out]) == 1;
}

static bool find_residue(const Contract *c, const Affine *e, Residue *x) {
    int64_t d = e->divisor;
    if (d == 1 || d > 64 || !find_loops(c, e, x)) return false;
    Dim p = c->extent[x->out], n = c->extent[x->sum];
    if (!dim_is_fixed(p) || !dim_is_fixed(n) || n.bound < d) return false;
    int64_t a = e->coef[x->out], b = e->coef[x->sum], s = floor_mod(b - 1, d) == 0 ? 1 : -1;
    if (llabs(b) == 1) s = b;
    if ((b - s) % d != 0) return false;
    x->mirrored = d == 2 ? floor_mod(e->c, 2) == 1 : a * s == 1;
    x->shift = floor_mod(a * e->c + (x->mirrored ? d - 1 : 0), d);
    return true;
}

/* Room for loop u right after p; n moves up by one. */
static void insert_loop(Affine *e, int at) {
    memmove(&e->coef[at + 1], &e->coef[at], sizeof(int64_t) * (size_t)(MAX_LOOPS - 1 - at));
    e->coef[at] = 0;
}

/* p = D*p' + u - k and n = D*n' + v in e. */
static bool substitute(const Residue *x, Affine *e, bool quotient) {
    const int64_t limit = (int64_t)1 << AFFINE_LIMIT_BITS;
    int u = x->out + 1, n = x->sum + 1;
    insert_loop(e, u);
    int64_t on_p = e->coef[x->out], on_n = e->coef[n];
    if (llabs(on_p) > limit / x->divisor / 2 || llabs(on_n) > limit / x->divisor / 2) return false;
    e->c += (x->mirrored ? on_n * (x->divisor - 1) : 0) - on_p * x->shift;
    e->coef[x->out] = on_p * x->divisor;
    e->coef[u] = on_p + (x->mirrored ? -on_n : on_n);
    e->coef[n] = on_n * x->divisor;
    if (quotient) affine_reduce(e);
    return llabs(e->c) <= limit;
}

static bool read_whole(const Contract *c, Node *const *in, int loop) {
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape.rank; d++)
            if (affine_single_loop(c, &c->map[k][d]) == loop && dim_equal(c->extent[loop], in[k]->shape.dim[d]))
                return true;
    return false;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool substitute_all(const Residue *x, Contract *c, Node *const *in) {
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape.rank; d++)
            if (!substitute(x, &c->map[k][d], true)) return false;
    for (int i = 0; i < c->n_guards; i++)
        if (!substitute(x, &c->guard[i].e, c->guard[i].kind == GUARD_RANGE)) return false;
    memmove(&c->extent[x->out + 2], &c->extent[x->out + 1], sizeof(Dim) * (size_t)(c->n_loops - 1 - x->out));
    c->extent[x->sum + 1] = dim_fixed(ceil_div(c->extent[x->sum + 1].bound, x->divisor));
    c->extent[x->out] = dim_fixed(ceil_div(c->extent[x->out].bound + x->shift, x->divisor));
    c->extent[x->out + 1] = dim_fixed(x->divisor);
    c->n_loops++, c->n_out++;
    return true;
}

/* z[.., p', u, ..] as y[.., p, ..]. */
static Node *flatten(Rewriter *r, Node *z, const Residue *x, Shape want) {
    Shape flat = want;
    Attr attr = {0};
    flat.dim[x->out] = dim_fixed(z->shape.dim[x->out].bound * x->divisor);
    for (int d = 0; d < want.rank; d++) {
        attr.lo[d] = dim_fixed(d == x->out ? x->shift : 0);
        attr.hi[d] = want.dim[d];
        attr.step[d] = 1;
    }
    return rewrite_op(r, OP_SLICE, 1, (Node *[]){rewrite_reshape(r, z, flat)}, &attr);
}

static Node *split(Rewriter *r, const Node *n, const Residue *x) {
    const Contract *old = n->attr->contract;
    Contract c = *old;
    c.map = arena_dup(r->scratch, old->map, sizeof *old->map * (size_t)old->n_operands);
    c.guard = ARENA_ARRAY(r->scratch, Guard, old->n_guards + 1);
    if (old->n_guards) memcpy(c.guard, old->guard, sizeof(Guard) * (size_t)old->n_guards);
    if (!read_whole(old, n->in, x->sum)) {
        Guard in_range = {.kind = GUARD_RANGE, .e = {.divisor = 1}, .hi = old->extent[x->sum]};
        in_range.e.coef[x->sum] = 1;
        c.guard[c.n_guards++] = in_range;
    }
    const Attr attr = {.contract = &c};
    DType dtype;
    Shape shape = {0};
    const char *why;
    if (!substitute_all(x, &c, n->in)) return NULL;
    if (!graph_infer(r->scratch, OP_CONTRACT, n->n_in, n->in, &attr, &dtype, &shape, &why))
        return NULL; /* past a limit */
    return flatten(r, rewrite_op(r, OP_CONTRACT, n->n_in, n->in, &attr), x, n->shape);
}

/* ---- one class only -------------------------------------------------------------------------------------------- */
/* Whether one output loop, with coefficient +-1, decides if e divides; p = divisor * p' + *first. */
static int single_loop(const Contract *c, const Affine *e, int64_t *first) {
    int loop = -1;
    for (int l = 0; l < c->n_loops; l++) {
        if (e->coef[l] % e->divisor == 0) continue;
        if (loop >= 0 || l >= c->n_out) return -1;
        loop = l;
    }
    if (loop < 0 || llabs(e->coef[loop]) != 1 || !dim_is_fixed(c->extent[loop])) return -1;
    *first = floor_mod(-e->coef[loop] * e->c, e->divisor);
    return c->extent[loop].bound > *first ? loop : -1;
}

static bool thin(Affine *e, int loop, int64_t divisor, int64_t first, bool quotient) {
    const int64_t limit = (int64_t)1 << AFFINE_LIMIT_BITS, on = e->coef[loop];
    if (llabs(on) > limit / divisor / 2) return false;
    e->c += on * first;
    e->coef[loop] = on * divisor;
    if (quotient) affine_reduce(e);
    return llabs(e->c) <= limit;
}

static bool thin_all(Contract *c, Node *const *in, int loop, int64_t divisor, int64_t first) {
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape.rank; d++)
            if (!thin(&c->map[k][d], loop, divisor, first, true)) return false;
    for (int i = 0; i < c->n_guards; i++)
        if (!thin(&c->guard[i].e, loop, divisor, first, c->guard[i].kind == GUARD_RANGE)) return false;
    c->extent[loop] = dim_fixed(ceil_div(c->extent[loop].bound - first, divisor));
    return true;
}

/* z[.., p', ..] with `first` zeros before and divisor - 1 - first behind each, cut to `want`. */
static Node *lay_apart(Rewriter *r, Node *z, int loop, int64_t divisor, int64_t first, Shape want) {
    Shape apart = z->shape, flat = z->shape;
    for (int d = apart.rank++; d > loop + 1; d--) apart.dim[d] = apart.dim[d - 1];
    apart.dim[loop + 1] = dim_fixed(1);
    Attr pad = {0}, cut = {0};
    for (int d = 0; d < apart.rank; d++) {
        pad.lo[d] = dim_fixed(d == loop + 1 ? first : 0);
        pad.hi[d] = dim_fixed(d == loop + 1 ? divisor - 1 - first : 0);
    }
    Node *y = rewrite_op(r, OP_PAD, 1, (Node *[]){rewrite_reshape(r, z, apart)}, &pad);
    flat.dim[loop] = dim_mul_const(flat.dim[loop], divisor);
    y = rewrite_reshape(r, y, flat);
    const int64_t more = want.dim[loop].bound - flat.dim[loop].bound;
    if (more == 0) return y;
    for (int d = 0; d < want.rank; d++) {
        cut.lo[d] = dim_fixed(0);
        cut.hi[d] = more > 0 ? dim_fixed(d == loop ? more : 0) : want.dim[d];
        cut.step[d] = 1;
    }
    return rewrite_op(r, more > 0 ? OP_PAD : OP_SLICE, 1, (Node *[]){y}, &cut);
}

static Node *keep_class(Rewriter *r, const Node *n, const Affine *e) {
    const Contract *old = n->attr->contract;
    Contract c = *old;
    int64_t first = 0;
    const int loop = e->divisor > 1 ? single_loop(old, e, &first) : -1;
    if (loop < 0 || n->shape.rank == MAX_RANK) return NULL;
    c.map = arena_dup(r->scratch, old->map, sizeof *old->map * (size_t)old->n_operands);
    c.guard = ARENA_ARRAY(r->scratch, Guard, old->n_guards + 1);
    if (old->n_guards) memcpy(c.guard, old->guard, sizeof(Guard) * (size_t)old->n_guards);
    const Attr attr = {.contract = &c};
    DType dtype;
    Shape shape = {0};
    const char *why;
    if (!thin_all(&c, n->in, loop, e->divisor, first)) return NULL;
    if (!graph_infer(r->scratch, OP_CONTRACT, n->n_in, n->in, &attr, &dtype, &shape, &why)) return NULL;
    return lay_apart(r, rewrite_op(r, OP_CONTRACT, n->n_in, n->in, &attr), loop, e->divisor, first, n->shape);
}

static Node *split_at(Rewriter *r, const Node *n, const Affine *e) {
    Residue x;
    return find_residue(n->attr->contract, e, &x) ? split(r, n, &x) : keep_class(r, n, e);
}

Node *rule_residue(Rewriter *r, const Node *n) {
    const Contract *c = n->attr->contract;
    Node *done = NULL;
    if (c->n_loops == MAX_LOOPS || c->n_out == MAX_RANK) return NULL;
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < n->in[k]->shape.rank && !done; d++) done = split_at(r, n, &c->map[k][d]);
    for (int i = 0; i < c->n_guards && !done; i++)
        if (c->guard[i].kind == GUARD_RANGE) done = split_at(r, n, &c->guard[i].e);
    return done;
}
