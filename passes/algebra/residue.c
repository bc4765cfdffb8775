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
 * computed for that, and zeros are laid between.  So it is where what b*n and c add is a multiple of a part of D
 * (stride 4, dilation 2).
 *
 * Where b*n spans less than D (a kernel smaller than the stride), each p has one n at most, some none:
 *
 *     z[q, n] = A[q] * K[n],    y[D*q + |b|*n + o] = z[q, n]
 *
 * is a product without a window, between whose columns zeros are laid. */
#include "ir/integer.h"
#include "passes/algebra/affine.h"
#include "passes/rewrite/rewrite.h"
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
static bool substitute(const Residue *x, Affine *e) {
    const int64_t limit = (int64_t)1 << AFFINE_LIMIT_BITS;
    int u = x->out + 1, n = x->sum + 1;
    insert_loop(e, u);
    int64_t on_p = e->coef[x->out], on_n = e->coef[n];
    if (llabs(on_p) > limit / x->divisor / 2 || llabs(on_n) > limit / x->divisor / 2) return false;
    e->c += (x->mirrored ? on_n * (x->divisor - 1) : 0) - on_p * x->shift;
    e->coef[x->out] = on_p * x->divisor;
    e->coef[u] = on_p + (x->mirrored ? -on_n : on_n);
    e->coef[n] = on_n * x->divisor;
    affine_reduce(e);
    return llabs(e->c) <= limit;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool substitute_all(const Residue *x, Contract *c, Node *const *in) {
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape->rank; d++)
            if (!substitute(x, &c->map[k][d])) return false;
    for (int i = 0; i < c->n_guards; i++)
        if (!substitute(x, &c->guard[i].e)) return false;
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
    flat.dim[x->out] = dim_fixed(z->shape->dim[x->out].bound * x->divisor);
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
    if (!loop_read_whole(old, n->in, x->sum)) {
        Guard in_range = {.kind = GUARD_RANGE, .e = {.divisor = 1}, .hi = old->extent[x->sum]};
        in_range.e.coef[x->sum] = 1;
        c.guard[c.n_guards++] = in_range;
    }
    Node *classes = substitute_all(x, &c, n->in) ? rewrite_contract(r, &c, n->in) : NULL;
    return classes ? flatten(r, classes, x, *n->shape) : NULL;
}

/* ---- one class only -------------------------------------------------------------------------------------------- */
/* Whether one output loop, with coefficient +-1, decides if *part of the divisor divides e; p = *part * p' + *first. */
static int single_loop(const Contract *c, const Affine *e, int64_t *part, int64_t *first) {
    int loop = -1;
    *part = e->divisor;
    for (int l = 0; l < c->n_loops; l++) {
        if (loop < 0 && l < c->n_out && llabs(e->coef[l]) == 1)
            loop = l;
        else
            *part = gcd64(*part, e->coef[l]);
    }
    if (loop < 0 || *part == 1 || !dim_is_fixed(c->extent[loop])) return -1;
    *first = floor_mod(-e->coef[loop] * e->c, *part);
    return c->extent[loop].bound > *first ? loop : -1;
}

static bool thin(Affine *e, int loop, int64_t divisor, int64_t first) {
    const int64_t limit = (int64_t)1 << AFFINE_LIMIT_BITS, on = e->coef[loop];
    if (llabs(on) > limit / divisor / 2) return false;
    e->c += on * first;
    e->coef[loop] = on * divisor;
    affine_reduce(e);
    return llabs(e->c) <= limit;
}

static bool thin_all(Contract *c, Node *const *in, int loop, int64_t divisor, int64_t first) {
    for (int k = 0; k < c->n_operands; k++)
        for (int d = 0; d < in[k]->shape->rank; d++)
            if (!thin(&c->map[k][d], loop, divisor, first)) return false;
    for (int i = 0; i < c->n_guards; i++)
        if (!thin(&c->guard[i].e, loop, divisor, first)) return false;
    c->extent[loop] = dim_fixed(ceil_div(c->extent[loop].bound - first, divisor));
    return true;
}

/* z[.., p', ..] with `first` zeros before and divisor - 1 - first behind each, cut to `want`. */
static Node *lay_apart(Rewriter *r, Node *z, int loop, int64_t divisor, int64_t first, Shape want) {
    Shape apart = *z->shape, flat = *z->shape;
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
    int64_t first = 0, part = 1;
    const int loop = e->divisor > 1 ? single_loop(old, e, &part, &first) : -1;
    if (loop < 0 || n->shape->rank == MAX_RANK) return NULL;
    c.map = arena_dup(r->scratch, old->map, sizeof *old->map * (size_t)old->n_operands);
    c.guard = ARENA_ARRAY(r->scratch, Guard, old->n_guards + 1);
    if (old->n_guards) memcpy(c.guard, old->guard, sizeof(Guard) * (size_t)old->n_guards);
    Node *thin = thin_all(&c, n->in, loop, part, first) ? rewrite_contract(r, &c, n->in) : NULL;
    return thin ? lay_apart(r, thin, loop, part, first, *n->shape) : NULL;
}

/* ---- one term at most ------------------------------------------------------------------------------------------ */
/* p = D*q + step*n + shift; n and q perhaps counted from the end. */
typedef struct Apart {
    int out, sum;                        /* p and n */
    int64_t divisor, reads, step, shift; /* reads: values of q */
    int64_t taps;                        /* of n */
    bool n_mirrored;
} Apart;

static bool find_apart(const Contract *c, const Affine *e, Dim reads, Apart *x) {
    Residue r;
    if (e->divisor == 1 || !dim_is_fixed(reads) || !find_loops(c, e, &r)) return false;
    const Dim n = c->extent[r.sum], p = c->extent[r.out];
    const int64_t a = e->coef[r.out], b = e->coef[r.sum];
    for (int l = 0; l < c->n_loops; l++)
        if (l != r.out && l != r.sum && e->coef[l]) return false;
    if (!dim_is_fixed(n) || !dim_is_fixed(p) || n.bound < 1 || llabs(b) >= e->divisor) return false;
    if (llabs(b) * (n.bound - 1) >= e->divisor) return false;
    *x = (Apart){.out = r.out,
                 .sum = r.sum,
                 .divisor = e->divisor,
                 .reads = reads.bound,
                 .step = llabs(b),
                 .taps = n.bound,
                 .n_mirrored = a * b > 0};
    x->shift = -a * e->c - (x->n_mirrored ? x->step * (n.bound - 1) : 0) - (a < 0 ? x->divisor * (x->reads - 1) : 0);
    return llabs(x->shift) <= (int64_t)1 << AFFINE_LIMIT_BITS;
}

/* n becomes a result's loop behind q, which takes the place of p. */
static bool read_apart(const Apart *x, Affine *e) {
    const int64_t limit = (int64_t)1 << AFFINE_LIMIT_BITS, on_p = e->coef[x->out], on_n = e->coef[x->sum];
    if (llabs(on_p) > limit / (llabs(x->shift) + x->divisor + 1) || llabs(on_n) > limit / (x->taps + 1)) return false;
    memmove(&e->coef[x->sum], &e->coef[x->sum + 1], sizeof(int64_t) * (size_t)(MAX_LOOPS - 1 - x->sum));
    e->coef[MAX_LOOPS - 1] = 0;
    insert_loop(e, x->out + 1);
    e->c += on_p * x->shift + (x->n_mirrored ? on_n * (x->taps - 1) : 0);
    e->coef[x->out] = on_p * x->divisor;
    e->coef[x->out + 1] = on_p * x->step + (x->n_mirrored ? -on_n : on_n);
    affine_reduce(e);
    return llabs(e->c) <= limit;
}

/* Elements [from, from + length) along dim, zeros where there are none. */
static Node *cut(Rewriter *r, Node *x, int dim, int64_t from, int64_t length) {
    const int64_t have = x->shape->dim[dim].bound;
    Attr slice = {0}, pad = {0};
    for (int d = 0; d < x->shape->rank; d++) {
        slice.lo[d] = pad.lo[d] = pad.hi[d] = dim_fixed(0);
        slice.hi[d] = x->shape->dim[d];
        slice.step[d] = 1;
    }
    const int64_t lo = from > 0 ? from : 0, hi = from + length < have ? from + length : have;
    slice.lo[dim] = dim_fixed(lo);
    slice.hi[dim] = dim_fixed(hi - lo); /* an extent */
    pad.lo[dim] = dim_fixed(from < 0 ? -from : 0);
    pad.hi[dim] = dim_fixed(from + length > have ? from + length - have : 0);
    if (hi - lo < have) x = rewrite_op(r, OP_SLICE, 1, (Node *[]){x}, &slice);
    return hi - lo < length ? rewrite_op(r, OP_PAD, 1, (Node *[]){x}, &pad) : x;
}

/* z[.., q, n, ..] as y[.., p, ..]. */
static Node *lay_columns(Rewriter *r, Node *z, const Apart *x, Shape want) {
    Shape s = *z->shape, flat = want;
    const int n = x->out + 1;
    for (int d = s.rank++; d > n + 1; d--) s.dim[d] = s.dim[d - 1];
    s.dim[n + 1] = dim_fixed(1);
    z = cut(r, rewrite_reshape(r, z, s), n + 1, 0, x->step);
    for (int d = n + 1; d + 1 < s.rank; d++) s.dim[d] = s.dim[d + 1];
    s.rank--;
    s.dim[n] = dim_fixed(x->taps * x->step);
    z = cut(r, rewrite_reshape(r, z, s), n, 0, x->divisor);
    flat.dim[x->out] = dim_fixed(x->reads * x->divisor);
    return cut(r, rewrite_reshape(r, z, flat), x->out, -x->shift, want.dim[x->out].bound);
}

static Node *keep_columns(Rewriter *r, const Node *n, const Affine *e, Dim reads) {
    const Contract *old = n->attr->contract;
    Apart x;
    Contract c = *old;
    if (n->shape->rank + 2 > MAX_RANK || old->n_loops - old->n_out < 2 || !find_apart(old, e, reads, &x)) return NULL;
    if (x.shift + x.divisor * x.reads <= 0 || x.shift >= n->shape->dim[x.out].bound) return NULL;
    c.map = arena_dup(r->scratch, old->map, sizeof *old->map * (size_t)old->n_operands);
    c.guard = ARENA_ARRAY(r->scratch, Guard, old->n_guards + 1);
    if (old->n_guards) memcpy(c.guard, old->guard, sizeof(Guard) * (size_t)old->n_guards);
    for (int k = 0; k < c.n_operands; k++)
        for (int d = 0; d < n->in[k]->shape->rank; d++)
            if (!read_apart(&x, &c.map[k][d])) return NULL;
    for (int i = 0; i < c.n_guards; i++)
        if (!read_apart(&x, &c.guard[i].e)) return NULL;
    for (int l = x.sum; l > x.out + 1; l--) c.extent[l] = c.extent[l - 1];
    c.extent[x.out] = dim_fixed(x.reads);
    c.extent[x.out + 1] = dim_fixed(x.taps);
    c.n_out++;
    Node *columns = rewrite_contract(r, &c, n->in);
    return columns ? lay_columns(r, columns, &x, *n->shape) : NULL;
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
        for (int d = 0; d < n->in[k]->shape->rank && !done; d++) {
            done = split_at(r, n, &c->map[k][d]);
            if (!done) done = keep_columns(r, n, &c->map[k][d], n->in[k]->shape->dim[d]);
        }
    for (int i = 0; i < c->n_guards && !done; i++)
        if (c->guard[i].kind == GUARD_RANGE) done = split_at(r, n, &c->guard[i].e);
    return done;
}
