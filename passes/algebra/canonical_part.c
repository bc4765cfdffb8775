/* A part of a value, a slice or a view of it, computed as that value is from parts of its operands: the last row of
 * relu(x w + b) is that of a row of x.
 *
 * It pays where all that reads the value reads small parts of it, which only the whole old graph tells: find_parted()
 * follows parts from their readers to what they are computed from, by the same part_below() as the rule that makes
 * them. So where one part is taken in front of the value, all are, and nothing is computed both in part and as a whole.
 */
#include "passes/algebra/access.h"
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_solve.h"
#include "passes/rewrite/rewrite.h"
#include <string.h>

/* What a slice or a view is, apart from what it is of. */
typedef struct Part {
    Op op;
    const Attr *attr;
    Shape shape;
} Part;

/* Every element of it exists in x. */
static bool is_part(const Node *n) {
    if (n->op == OP_SLICE) {
        for (int d = 0; d < n->shape->rank; d++)
            if (!dim_is_fixed(n->attr->lo[d])) return false;
        return true;
    }
    if (!node_is_view(n)) return false;
    const Contract *c = n->attr->contract;
    if (c->n_guards || n->dtype != n->in[0]->dtype) return false; /* a view of tf32 is f32 */
    for (int d = 0; d < n->in[0]->shape->rank; d++)
        if (c->map[0][d].divisor != 1 || !affine_always_in(c, &c->map[0][d], 0, n->in[0]->shape->dim[d])) return false;
    return true;
}

static void set_dim(Attr *attr, Shape *shape, int d, Dim lo, Dim length, int64_t step) {
    attr->lo[d] = lo, attr->hi[d] = shape->dim[d] = length, attr->step[d] = step;
}

/* A slice of a reduction is one of its operand, whole along the reduced axes. */
static Part below_reduce(Arena *a, const Node *n, const Part *p) {
    Attr *attr = arena_alloc(a, sizeof *attr);
    Part below = {OP_SLICE, attr, {.rank = n->in[0]->shape->rank}};
    for (int d = 0, out = 0, next = 0; d < below.shape.rank; d++) {
        const bool reduced = next < n->attr->n_axes && n->attr->axes[next] == d;
        if (reduced)
            set_dim(attr, &below.shape, d, dim_fixed(0), n->in[0]->shape->dim[d], 1);
        else
            set_dim(attr, &below.shape, d, p->attr->lo[out], p->shape.dim[out], p->attr->step[out]);
        next += reduced, out += !reduced;
    }
    return below;
}

/* One of a broadcast or a transpose is one along the dims that the operand has. */
static Part below_move(Arena *a, const Node *n, const Part *p) {
    Attr *attr = arena_alloc(a, sizeof *attr);
    const bool broadcast = n->op == OP_BROADCAST;
    Part below = {OP_SLICE, attr, {.rank = n->in[0]->shape->rank}};
    for (int i = 0; i < below.shape.rank; i++) {
        const int in = broadcast ? i : n->attr->axes[i], out = broadcast ? n->attr->axes[i] : i;
        set_dim(attr, &below.shape, in, p->attr->lo[out], p->shape.dim[out], p->attr->step[out]);
    }
    return below;
}

/* Where a reshape only adds dims of one element or takes them away. */
static bool below_reshape(Arena *a, const Node *n, const Part *p, Part *below) {
    const Shape *in = n->in[0]->shape, *out = n->shape;
    Attr *attr = arena_alloc(a, sizeof *attr);
    *below = (Part){OP_SLICE, attr, {.rank = in->rank}};
    for (int i = 0, o = 0; i < in->rank || o < out->rank;) {
        if (i < in->rank && o < out->rank && dim_equal(in->dim[i], out->dim[o])) {
            set_dim(attr, &below->shape, i, p->attr->lo[o], p->shape.dim[o], p->attr->step[o]);
            i++, o++;
        } else if (i < in->rank && dim_is_unit(in->dim[i])) {
            set_dim(attr, &below->shape, i, dim_fixed(0), in->dim[i], 1);
            i++;
        } else if (o < out->rank && dim_is_unit(out->dim[o]) && dim_is_unit(p->shape.dim[o])) {
            o++;
        } else {
            return false;
        }
    }
    return true;
}

/* The indices that e takes over the loops of part p of c; false where an extent is not fixed. */
static bool part_interval(const Contract *c, const Affine *e, const Part *p, int64_t *lo, int64_t *hi) {
    *lo = *hi = e->c;
    if (e->divisor != 1) return false;
    for (int l = 0; l < c->n_loops; l++) {
        const bool out = l < c->n_out;
        const Dim length = out ? p->shape.dim[l] : c->extent[l], begin = out ? p->attr->lo[l] : dim_fixed(0);
        int64_t first, reach;
        if (e->coef[l] == 0) continue;
        if (!dim_is_fixed(length) || !dim_is_fixed(begin) || length.bound < 1) return false;
        const int64_t last = length.bound == 1 ? 0 : (out ? p->attr->step[l] : 1) * (length.bound - 1);
        if (__builtin_mul_overflow(e->coef[l], begin.bound, &first) || __builtin_mul_overflow(e->coef[l], last, &reach))
            return false;
        int64_t *side = reach < 0 ? lo : hi;
        if (__builtin_add_overflow(*lo, first, lo) || __builtin_add_overflow(*hi, first, hi) ||
            __builtin_add_overflow(*side, reach, side))
            return false;
    }
    return true;
}

/* The elements of operand k that part p of product n reads, or whole dims. */
static Part below_product(Arena *a, const Node *n, int k, const Part *p) {
    const Contract *c = n->attr->contract;
    Attr *attr = arena_alloc(a, sizeof *attr);
    Part below = {OP_SLICE, attr, {.rank = n->in[k]->shape->rank}};
    for (int d = 0; d < below.shape.rank; d++) {
        const Dim extent = n->in[k]->shape->dim[d];
        int64_t lo, hi;
        set_dim(attr, &below.shape, d, dim_fixed(0), extent, 1);
        if (!dim_is_fixed(extent) || !part_interval(c, &c->map[k][d], p, &lo, &hi)) continue;
        if (lo < 0) lo = 0;
        if (hi >= extent.bound) hi = extent.bound - 1;
        if (lo <= hi) set_dim(attr, &below.shape, d, dim_fixed(lo), dim_fixed(hi - lo + 1), 1);
    }
    return below;
}

/* A product whose part can be solved for. */
static bool is_product(const Node *n, const Part *p) {
    const Contract *c = n->attr->contract;
    return n->op == OP_CONTRACT && c->n_loops > c->n_out && p->shape.rank + c->n_loops <= SOLVE_VARS;
}

/* The part of operand k that part p of n is computed from; false: it is not computed so.  There are no views of
 * booleans. */
static bool part_below(Arena *a, const Node *n, int k, const Part *p, Part *below) {
    *below = *p;
    if (op_info[n->op].cls == CLASS_ELEMENT) return p->op == OP_SLICE || n->in[k]->dtype != DT_BOOL;
    if (p->op != OP_SLICE) return false;
    if (n->op == OP_BROADCAST || n->op == OP_TRANSPOSE)
        *below = below_move(a, n, p);
    else if (op_info[n->op].cls == CLASS_REDUCE && n->op != OP_SCAN)
        *below = below_reduce(a, n, p);
    else if (is_product(n, p))
        *below = below_product(a, n, k, p);
    else
        return n->op == OP_RESHAPE && below_reshape(a, n, p, below);
    return true;
}

/* ---- which values are read in parts ---------------------------------------------------------------------------- */
enum { MOST_PARTS = 4 };

typedef struct Parts {
    bool whole;
    int n;
    const Part *at[MOST_PARTS];
} Parts;

static void add_part(Arena *a, Parts *to, const Part *p) {
    if (to->n == MOST_PARTS)
        to->whole = true;
    else
        to->at[to->n++] = arena_dup(a, p, sizeof *p);
}

/* How many times as much as a part a product has to be: more where the part's rows do not lie in the factors as in
 * memory, which may cost it the matrix units. */
static int64_t worth(const Node *n, const Part *p) {
    const int last = p->shape.rank - 1;
    return n->op != OP_CONTRACT || (p->op == OP_SLICE && last >= 0 && p->attr->step[last] == 1) ? 2 : 32;
}

static bool in_small_parts(const Node *n, const Parts *p) {
    int64_t most = 1;
    double total = 0;
    if (p->whole || p->n == 0) return false;
    for (int i = 0; i < p->n; i++) {
        const int64_t times = worth(n, p->at[i]);
        total += (double)shape_elements(p->at[i]->shape);
        if (times > most) most = times;
    }
    return total <= (double)(shape_elements(*n->shape) / (most * p->n));
}

/* What n reads of each of its operands, given what is read of n. */
static void read_operands(Arena *a, const Node *n, const Parts *p, bool parted, Parts *parts) {
    if (is_part(n)) {
        add_part(a, &parts[n->in[0]->id], &(Part){n->op, n->attr, *n->shape});
        return;
    }
    for (int k = 0; k < n->n_in; k++) {
        Parts *to = &parts[n->in[k]->id];
        to->whole |= !parted;
        for (int i = 0; i < p->n && !to->whole; i++) {
            Part below;
            if (part_below(a, n, k, p->at[i], &below))
                add_part(a, to, &below);
            else
                to->whole = true;
        }
    }
}

bool *find_parted(Arena *a, const Graph *g, const bool *opaque) {
    bool *parted = ARENA_ARRAY(a, bool, g->nodes.n), any = false;
    for (int i = 0; i < g->nodes.n && !any; i++) any = is_part(g->nodes.at[i]);
    if (!any) return parted;
    Parts *parts = ARENA_ARRAY(a, Parts, g->nodes.n);
    for (int i = 0; i < g->results.n; i++) parts[g->results.at[i].value->id].whole = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *n = g->nodes.at[i];
        bool can = n->n_in > 0 && !opaque[i] && in_small_parts(n, &parts[i]);
        Part below;
        for (int p = 0; p < parts[i].n && can; p++)
            can = is_product(n, parts[i].at[p]) || part_below(a, n, 0, parts[i].at[p], &below);
        parted[i] = can;
        read_operands(a, n, &parts[i], can, parts);
    }
    return parted;
}

bool find_parts(const Graph *g, const bool *opaque, const bool *parted) {
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->n_in && parted[n->in[0]->id] && !opaque[i] && is_part(n)) return true;
    }
    return false;
}

/* ---- making a part --------------------------------------------------------------------------------------------- */
/* At what index of x, over the loops of the result, part n of it reads dim d. */
static Affine part_reads(const Node *n, int d) {
    if (n->op == OP_CONTRACT) return n->attr->contract->map[0][d];
    Affine at = {.c = n->attr->lo[d].bound, .divisor = 1};
    at.coef[d] = n->attr->step[d];
    return at;
}

static Node *slice_of(Rewriter *r, Node *x, const Part *p) {
    return rewrite_node(r, p->op, 1, &x, p->attr, x->dtype, p->shape);
}

/* The contraction that s solves to, in the precision of x, of which n is a part; of an operand of which only parts are
 * read, it reads one. */
static Node *solved(Rewriter *r, Solver *s, const Node *n, const Node *x) {
    const Part p = {n->op, n->attr, *n->shape};
    Contract made;
    Node **operands = ARENA_ARRAY(r->scratch, Node *, x->n_in);
    if (!solver_contract(s, &made, operands)) return NULL;
    made.to_f32 = x->attr->contract->to_f32;
    for (int k = 0; k < x->n_in; k++) {
        Part below;
        if (!r->parted.at[x->in[k]->id] || !part_below(r->scratch, x, k, &p, &below)) continue;
        for (int d = 0; d < below.shape.rank; d++) made.map[k][d].c -= below.attr->lo[d].bound * made.map[k][d].divisor;
        operands[k] = slice_of(r, x->in[k], &below);
    }
    return rewrite_op(r, OP_CONTRACT, x->n_in, operands, &(Attr){.contract = &made});
}

/* The last row of a product is a row times a matrix; its diagonal, a sum over rows. */
static Node *part_of_product(Rewriter *r, const Node *n, const Node *x) {
    const Contract *c = x->attr->contract;
    if (n->shape->rank + c->n_loops > SOLVE_VARS) return NULL;
    Solver *s = solver_new(r->scratch, n->shape->rank, n->shape->dim, c->n_loops, c->extent);
    Wide at[MAX_RANK];
    for (int d = 0; d < c->n_out; d++) {
        const Affine reads = part_reads(n, d);
        at[d] = (Wide){.c = reads.c, .divisor = 1};
        memcpy(at[d].coef, reads.coef, sizeof(int64_t) * (size_t)n->shape->rank);
    }
    solver_product(s, x, at);
    return solved(r, s, n, x);
}

/* f of parts.  A part of an operand is made in the phase of who reads it.  What was read in parts may have been folded
 * to a constant since; other sources have no parts. */
static Node *part_of_value(Rewriter *r, const Node *n, const Node *x) {
    if (x->n_in == 0) return x->op == OP_CONST ? rewrite_const(r, n->dtype, *n->shape, x->attr->value) : NULL;
    const Part p = {n->op, n->attr, *n->shape};
    Part below;
    Node *few[4], **in = x->n_in <= 4 ? few : ARENA_ARRAY(r->scratch, Node *, x->n_in);
    for (int k = 0; k < x->n_in; k++) {
        if (!part_below(r->scratch, x, k, &p, &below)) return NULL;
        in[k] = slice_of(r, x->in[k], &below);
    }
    if (x->op == OP_RESHAPE) return rewrite_reshape(r, in[0], *n->shape);
    if (x->op == OP_BROADCAST) return rewrite_broadcast(r, in[0], *n->shape, x->attr->axes);
    return rewrite_op(r, x->op, x->n_in, in, x->attr);
}

/* Not where r makes what is itself read in parts: of what it reads, nothing is known. */
Node *rule_part(Rewriter *r, const Node *n) {
    const Node *x = n->in[0], *at = r->at;
    const bool product = n->n_in == 1 && x->op == OP_CONTRACT;
    if (!is_part(n) || !rewrite_seen(r, x, x->op) || r->at_parted || !r->parted.at[x->id]) return NULL;
    if (product && node_is_view(x)) return NULL;
    Node *made = *rewrite_part(r, n);
    if (made) return made;
    r->at = x;
    made = product ? part_of_product(r, n, x) : part_of_value(r, n, x);
    r->at = at;
    *rewrite_part(r, n) = made;
    return made;
}
