/* Movement in front of a contraction is absorbed into its index maps: a transpose, slice, pad, broadcast
 * or change of unit dims costs no pass over memory.
 *
 * What the movement itself made out of range must stay out of range, so a subscript that is no longer
 * read becomes a guard, unless it always holds.  A pad with zeros needs none: a term with a padded zero
 * is left out (0 times infinity is 0 here, as stated for indexed sums). */
#include "passes/algebra/access.h"
#include "passes/algebra/affine.h"
#include "passes/algebra/contract_solve.h"
#include "passes/rewrite/rewrite.h"
#include <math.h>
#include <string.h>

typedef struct Absorb {
    Rewriter *r;
    const Contract *old;
    Contract c;         /* under construction */
    Affine *map;        /* of the operand at hand */
    const Affine *from; /* its old map */
} Absorb;

/* The subscript e that was in [0, extent) by being a read is so by a guard. */
static void keep_range(Absorb *b, const Affine *e, Dim extent) {
    if (affine_always_in(b->old, e, 0, extent)) return;
    for (int i = 0; i < b->c.n_guards; i++) {
        const Guard *g = &b->c.guard[i];
        bool same = g->kind == GUARD_RANGE && g->lo == 0 && dim_equal(g->hi, extent) && g->e.c == e->c &&
                    g->e.divisor == e->divisor && memcmp(g->e.coef, e->coef, sizeof e->coef) == 0;
        if (same) return;
    }
    b->c.guard[b->c.n_guards++] = (Guard){.kind = GUARD_RANGE, .e = *e, .hi = extent};
}

static bool absorb_transpose(Absorb *b, const Node *x) {
    for (int d = 0; d < x->shape->rank; d++) b->map[x->attr->axes[d]] = b->from[d];
    return true;
}

static bool absorb_broadcast(Absorb *b, const Node *x) {
    bool is_new[MAX_RANK];
    for (int d = 0; d < x->shape->rank; d++) is_new[d] = true;
    for (int d = 0; d < x->attr->n_axes; d++) {
        b->map[d] = b->from[x->attr->axes[d]];
        is_new[x->attr->axes[d]] = false;
    }
    for (int d = 0; d < x->shape->rank; d++)
        if (is_new[d]) keep_range(b, &b->from[d], x->shape->dim[d]);
    return true;
}

static bool absorb_slice(Absorb *b, const Node *x) {
    for (int d = 0; d < x->shape->rank; d++) {
        if (!dim_is_fixed(x->attr->lo[d])) return false;
        if (!affine_scale_add(&b->from[d], x->attr->step[d], x->attr->lo[d].bound, &b->map[d])) return false;
        bool whole =
            x->attr->step[d] == 1 && x->attr->lo[d].bound == 0 && dim_equal(x->shape->dim[d], x->in[0]->shape->dim[d]);
        if (!whole) keep_range(b, &b->from[d], x->shape->dim[d]);
    }
    return true;
}

static bool absorb_pad(Absorb *b, const Node *x) {
    if (x->attr->value != 0) return false;
    for (int d = 0; d < x->shape->rank; d++)
        if (!affine_scale_add(&b->from[d], 1, -x->attr->lo[d].bound, &b->map[d])) return false;
    return true;
}

/* Only reshapes that add or remove dims of extent 1. */
static bool absorb_reshape(Absorb *b, const Node *x) {
    const Shape *in = x->in[0]->shape, *out = x->shape;
    int i = 0, o = 0;
    while (i < in->rank || o < out->rank) {
        if (i < in->rank && o < out->rank && dim_equal(in->dim[i], out->dim[o])) {
            b->map[i++] = b->from[o++];
        } else if (i < in->rank && dim_is_unit(in->dim[i])) {
            b->map[i++] = (Affine){.divisor = 1};
        } else if (o < out->rank && dim_is_unit(out->dim[o])) {
            keep_range(b, &b->from[o], out->dim[o]);
            o++;
        } else {
            return false;
        }
    }
    return true;
}

static bool absorb_operand(Absorb *b, const Node *x) {
    switch (x->op) {
    case OP_TRANSPOSE: return absorb_transpose(b, x);
    case OP_BROADCAST: return absorb_broadcast(b, x);
    case OP_SLICE: return absorb_slice(b, x);
    case OP_PAD: return absorb_pad(b, x);
    case OP_RESHAPE: return absorb_reshape(b, x);
    default: return false;
    }
}

/* A copy of the contraction of n with room for one more operand's worth of guards. */
static Absorb start(Rewriter *r, const Node *n) {
    Absorb b = {.r = r, .old = n->attr->contract, .c = *n->attr->contract};
    b.c.map = arena_dup(r->scratch, b.old->map, sizeof *b.old->map * (size_t)b.old->n_operands);
    b.c.guard = ARENA_ARRAY(r->scratch, Guard, b.old->n_guards + MAX_RANK);
    if (b.old->n_guards) memcpy(b.c.guard, b.old->guard, sizeof(Guard) * (size_t)b.old->n_guards);
    return b;
}

/* A splat operand is a factor of the sum: it is multiplied once, after. */
static Node *hoist(Rewriter *r, const Node *n, int k) {
    double value = n->in[k]->attr->value;
    const bool moderate = is_moderate(value) && !dtype_is_low(n->dtype);
    if (n->n_in == 1 || !(moderate || value == 1) || !dtype_is_float(n->dtype)) return NULL;
    Absorb b = start(r, n);
    Node **in = ARENA_ARRAY(r->scratch, Node *, n->n_in);
    for (int d = 0; d < n->in[k]->shape->rank; d++) keep_range(&b, &b.old->map[k][d], n->in[k]->shape->dim[d]);
    b.c.n_operands = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (i == k) continue;
        memcpy(b.c.map[b.c.n_operands], b.old->map[i], sizeof *b.c.map);
        in[b.c.n_operands++] = n->in[i];
    }
    Node *sum = rewrite_contract(r, &b.c, in);
    if (!sum || value == 1) return sum;
    return rewrite_op(r, OP_MUL, 2, (Node *[]){sum, rewrite_const(r, n->dtype, *n->shape, value)}, NULL);
}

/* What the product would read there without another pass over memory. */
static bool lies_in_memory(const Rewriter *r, const Node *x) {
    while ((x->op == OP_RESHAPE || x->op == OP_TRANSPOSE || x->op == OP_SLICE) && rewrite_only_reader(r, x)) x = x->in[0];
    return op_is_memory(x->op) || op_info[x->op].cls == CLASS_REDUCE || x->op == OP_CONTRACT || !rewrite_only_reader(r, x);
}

/* Is the scaled factor the same as it is rounded?  In f16 it may be there so that the product is no infinity. */
static bool may_scale_after(const Node *product, double c) {
    int exponent;
    const bool power_of_two = fabs(frexp(c, &exponent)) == 0.5;
    return product->precision == PRECISION_F32 || (power_of_two && product->precision != PRECISION_F16);
}

/* (c x) y = c (x y), where c x is there for the product alone. */
static Node *hoist_scale(Rewriter *r, const Node *n, int k) {
    Node *x = n->in[k];
    const bool scales = rewrite_seen(r, x, OP_MUL) || rewrite_seen(r, x, OP_DIV);
    if (!scales || n->n_in < 2 || n->dtype == DT_F16 || x->dtype != n->dtype) return NULL;
    const int at = x->op == OP_MUL && x->in[0]->op == OP_CONST ? 0 : 1;
    const Node *c = x->in[at];
    if (c->op != OP_CONST || !dtype_is_float(n->dtype) || !is_moderate(c->attr->value) || !may_scale_after(n, c->attr->value)) return NULL;
    if (!rewrite_only_reader(r, x) || !lies_in_memory(r, x->in[1 - at])) return NULL;
    Node **in = arena_dup(r->scratch, n->in, sizeof *in * (size_t)n->n_in);
    in[k] = x->in[1 - at];
    Node *product = rewrite_op(r, OP_CONTRACT, n->n_in, in, n->attr);
    return rewrite_op(r, x->op, 2, (Node *[]){product, rewrite_const(r, n->dtype, *n->shape, c->attr->value)}, NULL);
}

Node *rule_hoist_constant(Rewriter *r, const Node *n) {
    Node *hoisted = NULL;
    for (int k = 0; k < n->n_in && !hoisted; k++) hoisted = rewrite_seen(r, n->in[k], OP_CONST) ? hoist(r, n, k) : hoist_scale(r, n, k);
    return hoisted;
}

/* ---- diagonals in front of a contraction ---------------------------------------------------------- */
/* A view with an equality among its guards: a diagonal, or blocks of one. */
static bool is_diagonal(const Rewriter *r, const Node *x) {
    if (!rewrite_seen(r, x, OP_CONTRACT) || !node_is_view(x)) return false;
    const Contract *v = x->attr->contract;
    bool equal = false;
    for (int i = 0; i < v->n_guards; i++) equal |= v->guard[i].kind == GUARD_EQ;
    return equal;
}

static void add_view(Solver *s, const Contract *c, const Affine *read, const Node *x) {
    const Contract *v = x->attr->contract;
    Wide map[MAX_RANK];
    for (int d = 0; d < x->in[0]->shape->rank; d++) map[d] = solver_widen(s, &v->map[0][d], c->n_loops, v->n_loops);
    solver_operand(s, x->in[0], map);
    for (int d = 0; d < v->n_loops; d++) {
        const Wide index = solver_var(c->n_out + c->n_loops + d), at = solver_widen(s, &read[d], 0, c->n_loops);
        solver_equation(s, &at, &index);
    }
    for (int i = 0; i < v->n_guards; i++) solver_guard(s, &v->guard[i], c->n_loops, v->n_loops);
}

/* The view's dims become loops that are equal to what they are read at; its equalities take summed loops away, so that
 * the product with a diagonal costs what its elements do. */
static Node *absorb_diagonal(Rewriter *r, const Node *n, int k) {
    const Contract *c = n->attr->contract, *v = n->in[k]->attr->contract;
    const int n_loops = c->n_loops + v->n_loops;
    Dim loops[2 * MAX_LOOPS];
    Wide map[MAX_RANK];
    if (c->n_out + n_loops > SOLVE_VARS) return NULL;
    memcpy(loops, c->extent, sizeof(Dim) * (size_t)c->n_loops);
    memcpy(loops + c->n_loops, v->extent, sizeof(Dim) * (size_t)v->n_loops);
    Solver *s = solver_new(r->scratch, c->n_out, c->extent, n_loops, loops);
    for (int l = 0; l < c->n_out; l++) {
        const Wide dim = solver_var(l), loop = solver_var(c->n_out + l);
        solver_equation(s, &loop, &dim);
    }
    for (int i = 0; i < n->n_in; i++) {
        for (int d = 0; d < n->in[i]->shape->rank; d++) map[d] = solver_widen(s, &c->map[i][d], 0, c->n_loops);
        if (i == k)
            add_view(s, c, c->map[k], n->in[k]);
        else
            solver_operand(s, n->in[i], map);
    }
    for (int i = 0; i < c->n_guards; i++) solver_guard(s, &c->guard[i], 0, c->n_loops);
    Contract made;
    Node *in[MAX_RANK], **operands = n->n_in <= MAX_RANK ? in : ARENA_ARRAY(r->scratch, Node *, n->n_in);
    if (!solver_contract(s, &made, operands)) return NULL;
    made.to_f32 = c->to_f32;
    return rewrite_op(r, OP_CONTRACT, n->n_in, operands, &(Attr){.contract = &made});
}

Node *rule_absorb(Rewriter *r, const Node *n) {
    for (int k = 0; k < n->n_in; k++) {
        Node *x = n->in[k];
        Node *folded = is_diagonal(r, x) ? absorb_diagonal(r, n, k) : NULL;
        if (folded) return folded;
        if (!rewrite_seen(r, x, x->op) || op_info[x->op].cls != CLASS_MOVE) continue;
        Absorb b = start(r, n);
        b.from = b.old->map[k];
        b.map = b.c.map[k];
        memset(b.map, 0, sizeof *b.c.map);
        if (!absorb_operand(&b, x)) continue;
        Node **in = arena_dup(r->scratch, n->in, sizeof *in * (size_t)n->n_in);
        in[k] = x->in[0];
        Node *done = rewrite_contract(r, &b.c, in);
        if (done) return done;
    }
    return NULL;
}

/* ---- sums of parts of a product ---------------------------------------------------------------------------- */
/* n sums one element of a product x at each step of its loops: a trace.  A transpose may stand in between, the order
 * that a Jacobian's axes have: then n may sum nothing, as a diagonal. */
typedef struct Trace {
    const Node *n, *x, *transpose; /* transpose: the transpose, or NULL */
    int n_summed;
} Trace;

/* At what index of x, over the loops of n, dim d is read. */
static const Affine *trace_reads(const Trace *t, int d) {
    int seen = d;
    while (t->transpose && t->transpose->attr->axes[seen] != d) seen = (seen + 1) % t->x->shape->rank;
    return &t->n->attr->contract->map[0][seen];
}

static int64_t elements_read(const Trace *t) {
    const Contract *c = t->n->attr->contract;
    int64_t n = shape_elements(*t->n->shape);
    for (int l = c->n_out; l < c->n_loops; l++)
        if (__builtin_mul_overflow(n, c->extent[l].bound, &n)) return INT64_MAX;
    return n;
}

static const Node *below_transpose(const Node *n) { return n->op == OP_TRANSPOSE ? n->in[0] : n; }

/* False where something else reads the product too, or what it is in another shape: then it stands for no node of the
 * old graph.  Only in f32, where the product is not rounded before it is summed. */
static bool find_trace(const Rewriter *r, const Node *n, Trace *t) {
    enum { WORTH = 32 }; /* the sum does not run on the matrix units */
    const Contract *c = n->attr->contract;
    *t = (Trace){.n = n, .n_summed = c->n_loops - c->n_out};
    if (n->n_in != 1 || c->n_guards || n->dtype != DT_F32 || n->in[0]->dtype != DT_F32) return false;
    if (r->at->op != OP_CONTRACT || below_transpose(r->at->in[0])->op != OP_CONTRACT) return false;
    t->transpose = rewrite_seen(r, n->in[0], OP_TRANSPOSE);
    if (t->transpose ? r->readers.at[t->transpose->id] != 1 : t->n_summed == 0) return false;
    t->x = rewrite_seen(r, t->transpose ? t->transpose->in[0] : n->in[0], OP_CONTRACT);
    if (!t->x || t->x->attr->contract->n_loops == t->x->attr->contract->n_out || r->readers.at[t->x->id] != 1)
        return false;
    return elements_read(t) <= shape_elements(*t->x->shape) / WORTH;
}

/* The contraction that s solves to, in the place, the phase and the precision of x. */
static Node *built_at(Rewriter *r, Solver *s, const Node *x) {
    Contract made;
    Node **operands = ARENA_ARRAY(r->scratch, Node *, x->n_in);
    if (!solver_contract(s, &made, operands)) return NULL;
    made.to_f32 = x->attr->contract->to_f32;
    const Node *at = r->at;
    r->at = x;
    Node *sum = rewrite_op(r, OP_CONTRACT, x->n_in, operands, &(Attr){.contract = &made});
    r->at = at;
    return sum;
}

/* Loops: the product's, then those that n sums. */
static Solver *solver_of(Rewriter *r, const Trace *t) {
    const Contract *c = t->x->attr->contract;
    Dim loops[SOLVE_VARS];
    memcpy(loops, c->extent, sizeof(Dim) * (size_t)c->n_loops);
    memcpy(loops + c->n_loops, t->n->attr->contract->extent + t->n->shape->rank, sizeof(Dim) * (size_t)t->n_summed);
    return solver_new(r->scratch, t->n->shape->rank, t->n->shape->dim, c->n_loops + t->n_summed, loops);
}

/* The trace of a product is one sum of products. */
Node *rule_trace(Rewriter *r, const Node *n) {
    Trace t;
    if (!find_trace(r, n, &t)) return NULL;
    const Contract *c = t.x->attr->contract;
    const int rank = n->shape->rank;
    if (rank + c->n_loops + t.n_summed > SOLVE_VARS) return NULL;
    Solver *s = solver_of(r, &t);
    Wide at[MAX_RANK];
    for (int d = 0; d < c->n_out; d++) {
        const Affine *reads = trace_reads(&t, d);
        if (reads->divisor != 1) return NULL;
        at[d] = (Wide){.c = reads->c, .divisor = 1};
        memcpy(at[d].coef, reads->coef, sizeof(int64_t) * (size_t)rank);
        memcpy(at[d].coef + rank + c->n_loops, reads->coef + rank, sizeof(int64_t) * (size_t)t.n_summed);
    }
    solver_product(s, t.x, at);
    return built_at(r, s, t.x);
}
