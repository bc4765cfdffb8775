/* jacobian_gemm: a sum of tensors that are 0 but in parts of their own is a concatenation.
 *
 *     pad(dq, [0:, 2n]) + pad(dk, [n:, n]) + pad(dv, [2n:, 0])  =  concat(dq, dk, dv)
 *
 * The gradient of what was taken apart, by `split` or step by step, is such a sum.  The kernels that compute the parts of
 * a concatenation can write them where they belong (fuse_parts.c); as a sum it is computed for every element from all
 * parts.  Terms of other kinds are added afterwards, those in one place before. */
#include "passes/algebra/sum_of_parts.h"
#include "passes/rewrite/insert.h"
#include <stdlib.h>
#include <string.h>

typedef struct TermBox {
    int64_t lo[MAX_RANK], hi[MAX_RANK];
} TermBox;
/* A term and where it stands in the sum. */
typedef struct PlacedTerm {
    Node *node;
    TermBox box;
    int64_t key; /* what they are sorted by, then by number: the order of the terms */
    int number;
} PlacedTerm;
typedef VEC(PlacedTerm) PlacedTerms;
typedef struct Sums {
    Graph *g;
    Arena *scratch;
    const int *readers; /* by id: operands and results that it stands for */
    const Node *at;     /* the sum at hand */
    int place;          /* new nodes go in front of the node of this id */
    NodeList *before;   /* by id: new nodes in front of it */
} Sums;

static Node *new_node(const Sums *s, Node *x) {
    x->phase = s->at->phase;
    x->remat = s->at->remat;
    x->precision = s->at->precision;
    x->loc = s->at->loc;
    vec_push(s->scratch, s->before[s->place], x);
    return x;
}

static Node *add(const Sums *s, Node *a, Node *b) { return new_node(s, graph_binary(s->g, OP_ADD, a, b)); }

/* ---- terms ------------------------------------------------------------------------------------------------------- */
static bool goes_on(const Sums *s, const Node *n) {
    return n->op == OP_ADD && (n == s->at || s->readers[n->id] == 1) && n->phase == s->at->phase &&
           n->remat == s->at->remat && n->precision == s->at->precision;
}

static NodeList terms_of(const Sums *s, Node *sum) {
    NodeList open = {0}, terms = {0};
    vec_push(s->scratch, open, sum);
    while (open.n) {
        Node *n = open.at[--open.n];
        if (goes_on(s, n)) {
            vec_push(s->scratch, open, n->in[1]);
            vec_push(s->scratch, open, n->in[0]);
        } else {
            vec_push(s->scratch, terms, n);
        }
    }
    return terms;
}

static bool is_part(const Node *n, TermBox *box) {
    if (n->op != OP_PAD || n->attr->value != 0 || !shape_is_fixed(*n->shape)) return false;
    for (int d = 0; d < n->shape->rank; d++) {
        box->lo[d] = n->attr->lo[d].bound;
        box->hi[d] = box->lo[d] + n->in[0]->shape->dim[d].bound;
        if (box->lo[d] < 0 || box->hi[d] > n->shape->dim[d].bound || box->lo[d] == box->hi[d]) return false;
    }
    return true;
}

/* ---- parts that fill a box ----------------------------------------------------------------------------------------- */
static int by_key(const void *x, const void *y) {
    const PlacedTerm *a = x, *b = y;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->number - b->number;
}

/* Along the axis: one behind the last of the first group, which ends where the next begins; n: all are one; 0: a gap. */
static int first_group(const PlacedTerm *part, int n, int axis) {
    int64_t end = part[0].box.hi[axis];
    for (int i = 1; i < n; i++) {
        if (part[i].box.lo[axis] > end) return 0;
        if (part[i].box.lo[axis] == end) return i;
        if (part[i].box.hi[axis] > end) end = part[i].box.hi[axis];
    }
    return n;
}

static bool fills(const PlacedTerm *part, const TermBox *box, int rank) {
    for (int d = 0; d < rank; d++)
        if (part->box.lo[d] != box->lo[d] || part->box.hi[d] != box->hi[d]) return false;
    return true;
}

static bool join(const Sums *s, PlacedTerm *part, int n, const TermBox *box, Node **made);

/* As groups behind each other along the axis. */
static bool join_along(const Sums *s, PlacedTerm *part, int n, int axis, const TermBox *box, Node **made) {
    NodeList in = {0};
    int64_t at = box->lo[axis];
    for (int i = 0, group; i < n; i += group) {
        TermBox inner = *box;
        Node *x = NULL;
        group = first_group(part + i, n - i, axis);
        if (group == 0 || part[i].box.lo[axis] != at) return false;
        at = i + group < n ? part[i + group].box.lo[axis] : box->hi[axis];
        inner.lo[axis] = part[i].box.lo[axis];
        inner.hi[axis] = at;
        if (!join(s, part + i, group, &inner, made ? &x : NULL)) return false;
        if (made) vec_push(s->scratch, in, x);
    }
    if (made) *made = new_node(s, graph_op(s->g, OP_CONCAT, in.n, in.at, &(Attr){.axis = axis}));
    return true;
}

/* Whether the parts fill the box, each element once or all of it equally often; made, if not NULL: as one tensor. */
static bool join(const Sums *s, PlacedTerm *part, int n, const TermBox *box, Node **made) {
    const int rank = s->at->shape->rank;
    int whole = 0;
    for (int i = 0; i < n; i++) whole += fills(&part[i], box, rank);
    if (whole == n) {
        if (made) *made = part[0].node;
        for (int i = 1; made && i < n; i++) *made = add(s, *made, part[i].node);
        return true;
    }
    for (int axis = 0; axis < rank && !whole; axis++) {
        for (int i = 0; i < n; i++) part[i].key = part[i].box.lo[axis];
        qsort(part, (size_t)n, sizeof *part, by_key);
        const int group = first_group(part, n, axis);
        if (group < n) return group > 0 && join_along(s, part, n, axis, box, made);
    }
    return false;
}

/* ---- sums ------------------------------------------------------------------------------------------------------------ */
/* The sum becomes the concatenation, or the sum of that and the other terms. */
static void replace(const Sums *s, Node *sum, Node *whole, const NodeList *others) {
    Node *rest = NULL;
    for (int i = 0; i < others->n; i++) rest = rest ? add(s, rest, others->at[i]) : others->at[i];
    if (rest) {
        sum->in[0] = rest;
        sum->in[1] = whole;
        return;
    }
    sum->op = whole->op;
    sum->n_in = whole->n_in;
    sum->in = whole->in;
    sum->attr = whole->attr;
    s->g->nodes.n--; /* it was the last one made */
    s->before[s->place].n--;
}

static void join_terms(Sums *s, Node *sum) {
    NodeList others = {0};
    PlacedTerms parts = {0};
    TermBox whole = {0};
    const NodeList terms = terms_of(s, sum);
    for (int i = 0; i < terms.n; i++) {
        PlacedTerm part = {.number = i};
        if (is_part(terms.at[i], &part.box)) {
            part.node = terms.at[i]->in[0];
            vec_push(s->scratch, parts, part);
        } else {
            vec_push(s->scratch, others, terms.at[i]);
        }
    }
    for (int d = 0; d < sum->shape->rank; d++) whole.hi[d] = sum->shape->dim[d].bound;
    Node *made;
    if (parts.n < 2 || !join(s, parts.at, parts.n, &whole, NULL)) return;
    join(s, parts.at, parts.n, &whole, &made);
    replace(s, sum, made, &others);
}

/* Is it read by nothing but a longer sum? */
static bool is_inner(const Sums *s, const Uses *uses, Node *n) {
    if (s->readers[n->id] != 1 || uses->first[n->id] == uses->first[n->id + 1]) return false;
    Sums outer = *s;
    outer.at = uses->user[uses->first[n->id]];
    return outer.at->op == OP_ADD && goes_on(&outer, n);
}

static int *count_readers(Arena *a, const Graph *g, const Uses *uses) {
    int *readers = ARENA_ARRAY(a, int, g->nodes.n + 1);
    for (int i = 0; i < g->nodes.n; i++) readers[i] = uses->first[i + 1] - uses->first[i];
    for (int i = 0; i < g->results.n; i++) readers[g->results.at[i].value->id]++;
    return readers;
}

Graph *sums_of_parts(Graph *g) {
    Arena *scratch = arena_new();
    const int n = g->nodes.n;
    const Uses uses = graph_uses(scratch, g);
    Sums s = {.g = g, .scratch = scratch, .readers = count_readers(scratch, g, &uses)};
    s.before = ARENA_ARRAY(scratch, NodeList, n + 1);
    for (int i = 0; i < n; i++) {
        Node *x = g->nodes.at[i];
        s.at = x;
        s.place = i;
        if (x->op == OP_ADD && dtype_is_float(x->dtype) && !is_inner(&s, &uses, x)) join_terms(&s, x);
    }
    graph_insert(g, n, s.before);
    arena_free(scratch);
    return g;
}
