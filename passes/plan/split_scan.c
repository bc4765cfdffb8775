/* split: long scans of few rows go in chunks.
 *
 *     y[c, l] = local[c, l] + A[c, l] H[c - 1]
 *     H[c] = local[c, last] + A[c, last] H[c - 1]
 *
 * local is the scan of each chunk c alone, from 0, and A the running product of its factors.  A scan's kernel takes one
 * element after the other and has its rows side by side.  Where those are less than the machine has room for, chunks are
 * rows too: about sqrt(n) elements one after the other, twice, instead of n (Blelloch, "Prefix sums and their
 * applications", 1990).  Sums and linear scans; a running product may overflow in a chunk where the whole stays 0. */
#include "passes/rewrite/rewrite.h"

enum {
    SHORTEST_SCAN = 128, /* elements along the axis */
    ROWS_OF_CORE = 256,  /* rows that keep a multiprocessor busy: 8 warps, not measured */
};

typedef struct Chunks {
    Rewriter *r;
    const Attr *attr;  /* of the scan */
    int64_t length, n; /* of a chunk; how many */
    int axis;          /* of the chunks; behind it that of their elements */
} Chunks;

/* A power of two near the root. */
static int64_t chunk_length(int64_t n) {
    int64_t length = 16;
    while (length * length < n) length *= 2;
    return length;
}

/* x with its axis in chunks, and `value` behind its end. */
static Node *in_chunks(const Chunks *c, Node *x, double value) {
    Shape whole = *x->shape, two = {.rank = x->shape->rank + 1};
    Attr pad = {.value = value};
    for (int d = 0; d < whole.rank; d++) pad.lo[d] = pad.hi[d] = dim_fixed(0);
    pad.hi[c->axis] = dim_fixed(c->length * c->n - whole.dim[c->axis].bound);
    for (int d = 0; d < two.rank; d++) two.dim[d] = whole.dim[d - (d > c->axis)];
    two.dim[c->axis] = dim_fixed(c->n), two.dim[c->axis + 1] = dim_fixed(c->length);
    if (pad.hi[c->axis].bound) x = rewrite_op(c->r, OP_PAD, 1, &x, &pad);
    return rewrite_reshape(c->r, x, two);
}

/* The elements from `from` to `to` along a dim. */
static Node *range(const Chunks *c, Node *x, int dim, int64_t from, int64_t to) {
    Attr cut = {0};
    for (int d = 0; d < x->shape->rank; d++) {
        cut.lo[d] = dim_fixed(d == dim ? from : 0);
        cut.hi[d] = d == dim ? dim_fixed(to - from) : x->shape->dim[d];
        cut.step[d] = 1;
    }
    return rewrite_op(c->r, OP_SLICE, 1, &x, &cut);
}

/* What each chunk ends with, without the dim of its elements. */
static Node *ends(const Chunks *c, Node *x) {
    Shape one = *x->shape;
    for (int d = c->axis + 1; d + 1 < one.rank; d++) one.dim[d] = one.dim[d + 1];
    one.rank--;
    const int64_t last = c->attr->reverse ? 0 : c->length - 1;
    return rewrite_reshape(c->r, range(c, x, c->axis + 1, last, last + 1), one);
}

/* Of each chunk what comes before it: 0 before the first. */
static Node *before(const Chunks *c, Node *x, const Shape *wide) {
    Attr pad = {0};
    int8_t axes[MAX_RANK];
    for (int d = 0; d < x->shape->rank; d++) {
        pad.lo[d] = dim_fixed(d == c->axis && !c->attr->reverse);
        pad.hi[d] = dim_fixed(d == c->axis && c->attr->reverse);
        axes[d] = (int8_t)(d + (d > c->axis));
    }
    Node *inner = range(c, x, c->axis, c->attr->reverse, c->n - !c->attr->reverse);
    return rewrite_broadcast(c->r, rewrite_op(c->r, OP_PAD, 1, &inner, &pad), *wide, axes);
}

/* factor NULL: a sum. */
static Node *scanned(const Chunks *c, Node *x, Node *factor, int axis, bool exclusive) {
    const Attr attr = {
        .axis = axis, .scan = factor ? SCAN_LINEAR : SCAN_SUM, .reverse = c->attr->reverse, .exclusive = exclusive};
    return rewrite_op(c->r, OP_SCAN, 1 + (factor != NULL), (Node *const[]){x, factor}, &attr);
}

static Node *binary(const Chunks *c, Op op, Node *a, Node *b) {
    return rewrite_op(c->r, op, 2, (Node *[]){a, b}, NULL);
}

static Node *sum_in_chunks(const Chunks *c, Node *x) {
    x = in_chunks(c, x, 0);
    Node *local = scanned(c, x, NULL, c->axis + 1, c->attr->exclusive), *end = ends(c, local);
    if (c->attr->exclusive) end = binary(c, OP_ADD, end, ends(c, x));
    return binary(c, OP_ADD, local, before(c, scanned(c, end, NULL, c->axis, false), local->shape));
}

/* Of each chunk the running product: linear as well, from its first factor on, so that a 0 forgets what has overflowed.
 */
static Node *running_product(const Chunks *c, Node *factor) {
    const int dim = c->axis + 1, first = c->attr->reverse ? (int)c->length - 1 : 0;
    Node *x = range(c, factor, dim, first, first + 1);
    Attr pad = {0};
    for (int d = 0; d < x->shape->rank; d++) pad.lo[d] = pad.hi[d] = dim_fixed(0);
    *(first ? &pad.lo[dim] : &pad.hi[dim]) = dim_fixed(c->length - 1);
    return scanned(c, rewrite_op(c->r, OP_PAD, 1, &x, &pad), factor, dim, false);
}

/* 0 before a chunk stays 0 in it, however large the product of its factors is, and a factor of 0 forgets what was
 * before. */
static Node *linear_in_chunks(const Chunks *c, Node *x, Node *factor) {
    x = in_chunks(c, x, 0), factor = in_chunks(c, factor, 1);
    Node *local = scanned(c, x, factor, c->axis + 1, false);
    Node *product = running_product(c, factor);
    Node *h = before(c, scanned(c, ends(c, local), ends(c, product), c->axis, false), local->shape);
    Node *zero = rewrite_const(c->r, h->dtype, *h->shape, 0),
         *whole = binary(c, OP_ADD, local, binary(c, OP_MUL, product, h));
    Node *apart = binary(c, OP_OR, binary(c, OP_EQ, h, zero), binary(c, OP_EQ, product, zero));
    return rewrite_op(c->r, OP_SELECT, 3, (Node *[]){apart, local, whole}, NULL);
}

Node *rule_split_scan(Rewriter *r, const Node *n) {
    const Target *t = r->target;
    const Attr *attr = n->attr;
    Node *x = n->in[0];
    if (!t || !target_shares_tiles(t) || attr->scan == SCAN_PROD || x->shape->rank == MAX_RANK || !shape_is_fixed(*x->shape))
        return NULL;
    const int64_t extent = x->shape->dim[attr->axis].bound, elements = shape_elements(*x->shape);
    if (extent < SHORTEST_SCAN || elements == 0 || 2 * (elements / extent) > t->cores * ROWS_OF_CORE) return NULL;
    Chunks c = {.r = r, .attr = attr, .length = chunk_length(extent), .axis = attr->axis};
    c.n = (extent + c.length - 1) / c.length;
    Node *whole = attr->scan == SCAN_LINEAR ? linear_in_chunks(&c, x, n->in[1]) : sum_in_chunks(&c, x);
    Shape padded = *x->shape;
    padded.dim[attr->axis] = dim_fixed(c.length * c.n);
    return range(&c, rewrite_reshape(r, whole, padded), attr->axis, 0, extent);
}
