/* Reads of indexed definitions: affine subscripts, gathered subscripts, views, masks, contractions. */
#include "frontend/lower_index.h"
#include <string.h>

/* ---- affine subscripts ----------------------------------------------------------------------------- */

static int64_t coef_of(const Linear *l, int loop) {
    for (int i = 0; i < l->n; i++)
        if (l->term[i].loop == loop) return l->term[i].coef;
    return 0;
}

static bool add_term(Linear *l, int loop, int64_t coef) {
    for (int i = 0; i < l->n; i++)
        if (l->term[i].loop == loop) {
            if (__builtin_add_overflow(l->term[i].coef, coef, &l->term[i].coef)) return false;
            if (l->term[i].coef == 0) l->term[i] = l->term[--l->n];
            return true;
        }
    if (coef == 0) return true;
    if (l->n == MAX_LOOPS) return false;
    l->term[l->n].loop = loop;
    l->term[l->n++].coef = coef;
    return true;
}

static bool scale_linear(Linear *l, int64_t k) {
    if (k == 0) {
        *l = (Linear){.divisor = 1};
        return true;
    }
    bool ok = !__builtin_mul_overflow(l->c, k, &l->c);
    for (int i = 0; i < l->n; i++) ok &= !__builtin_mul_overflow(l->term[i].coef, k, &l->term[i].coef);
    return ok;
}

/* a + sign * b; with a divisor on one side the other must be constant. */
static bool add_linear(const Linear *a, const Linear *b, int64_t sign, Linear *out) {
    Linear x = *a, y = *b;
    if (x.divisor != y.divisor) {
        if ((x.divisor != 1 || x.n) && (y.divisor != 1 || y.n)) return false;
        Linear *constant = y.divisor == 1 && !y.n ? &y : &x;
        int64_t divisor = constant == &y ? x.divisor : y.divisor;
        if (!scale_linear(constant, divisor)) return false;
        constant->divisor = divisor;
    }
    if (!scale_linear(&y, sign)) return false;
    bool ok = !__builtin_add_overflow(x.c, y.c, &x.c);
    for (int i = 0; i < y.n && ok; i++) ok = add_term(&x, y.term[i].loop, y.term[i].coef);
    *out = x;
    return ok;
}

static bool linear(IndexContext *c, const Expr *e, Linear *out);

static bool linear_product(const Linear *a, const Linear *b, Linear *out) {
    const Linear *k = a->n == 0 && a->divisor == 1 ? a : b, *x = k == a ? b : a;
    *out = *x;
    if (k->n || k->divisor != 1 || x->divisor != 1) return false;
    return scale_linear(out, k->c);
}

static bool linear_binary(IndexContext *c, const Expr *e, Linear *out) {
    Linear a, b;
    if (!linear(c, e->a, &a) || !linear(c, e->b, &b)) return false;
    if (e->op == AST_ADD || e->op == AST_SUB) return add_linear(&a, &b, e->op == AST_ADD ? 1 : -1, out);
    if (e->op == AST_MUL) return linear_product(&a, &b, out);
    if (e->op != AST_DIV || b.n || b.divisor != 1 || b.c <= 0) return false;
    *out = a;
    return !__builtin_mul_overflow(a.divisor, b.c, &out->divisor);
}

/* Whether the expression is affine in the loops, or that over a constant. */
static bool linear(IndexContext *c, const Expr *e, Linear *out) {
    *out = (Linear){.divisor = 1};
    if (!mentions_index(c, e)) {
        Value v = index_base(c, e);
        out->c = v.i;
        return v.kind == VAL_INT;
    }
    if (e->kind == EXPR_NAME) {
        int id = loop_named(c, e->name.text);
        out->c = c->loops.at[id].lo;
        return add_term(out, id, 1);
    }
    if (e->kind == EXPR_UNARY && e->op == AST_NEG) return linear(c, e->a, out) && scale_linear(out, -1);
    return e->kind == EXPR_BINARY && linear_binary(c, e, out);
}

/* ---- spaces -------------------------------------------------------------------------------------------- */

static void mention_loops(const IndexContext *c, const Expr *e, bool *used) {
    if (!e) return;
    int id = e->kind == EXPR_NAME ? loop_named(c, e->name.text) : -1;
    if (id >= 0) used[id] = true;
    mention_loops(c, e->a, used);
    mention_loops(c, e->b, used);
    mention_loops(c, e->c, used);
    for (int i = 0; i < e->args.n; i++) mention_loops(c, e->args.at[i].value, used);
    for (int i = 0; i < e->items.n; i++) mention_loops(c, e->items.at[i].index, used);
}

static IndexSpace used_part(const IndexSpace *s, const bool *used) {
    IndexSpace out = {0};
    for (int i = 0; i < s->n; i++)
        if (used[s->loop[i]]) out.loop[out.n++] = s->loop[i];
    return out;
}

static int space_axis(const IndexSpace *s, int loop) {
    for (int i = 0; i < s->n; i++)
        if (s->loop[i] == loop) return i;
    return -1;
}

Node *space_lift(IndexContext *c, Node *n, const IndexSpace *from, const IndexSpace *to) {
    int8_t axes[MAX_RANK];
    if (n->shape->rank == 0) return t_expand(c->L, n, space_shape(c, to));
    for (int i = 0; i < from->n; i++) axes[i] = (int8_t)space_axis(to, from->loop[i]);
    return t_broadcast(c->L, n, space_shape(c, to), axes);
}

static void loops_of(const Read *r, bool *used) {
    for (int d = 0; d < r->tensor->shape->rank; d++)
        for (int i = 0; i < r->sub[d].n; i++) used[r->sub[d].term[i].loop] = true;
}

/* ---- views and masks ------------------------------------------------------------------------------------- */

static Affine as_affine(const Linear *l, const IndexSpace *s) {
    Affine a = {.c = l->c, .divisor = l->divisor};
    for (int i = 0; i < s->n; i++) a.coef[i] = coef_of(l, s->loop[i]);
    return a;
}

/* The loop that is the whole of a subscript and runs over the whole dim; -1 when it is not so. */
static int whole_loop(const IndexContext *c, const Linear *l, Dim d) {
    if (l->n != 1 || l->c != 0 || l->divisor != 1 || l->term[0].coef != 1) return -1;
    return dim_equal(c->loops.at[l->term[0].loop].extent, d) ? l->term[0].loop : -1;
}

/* A read that only permutes dims; NULL when it does more. */
static Node *permuted(IndexContext *c, const IndexSpace *s, const Read *r) {
    int8_t perm[MAX_RANK];
    Shape shape = *r->tensor->shape;
    if (s->n != shape.rank) return NULL;
    for (int d = 0; d < shape.rank; d++) {
        int loop = whole_loop(c, &r->sub[d], shape.dim[d]);
        const int axis = loop < 0 ? -1 : space_axis(s, loop);
        if (axis < 0 || axis >= MAX_RANK) return NULL;
        perm[axis] = (int8_t)d;
    }
    return t_transpose(c->L, r->tensor, perm); /* as many dims as loops, all used: a permutation */
}

static Contract *new_contract(IndexContext *c, const IndexSpace *loops, int n_out, int n_reads, const Read *reads) {
    Contract *k = ARENA_NEW(c->L->scratch, Contract);
    k->n_loops = loops->n, k->n_out = n_out, k->n_operands = n_reads;
    for (int i = 0; i < loops->n; i++) k->extent[i] = c->loops.at[loops->loop[i]].extent;
    k->map = arena_alloc(c->L->scratch, sizeof *k->map * (size_t)n_reads);
    for (int i = 0; i < n_reads; i++)
        for (int d = 0; d < reads[i].tensor->shape->rank; d++) k->map[i][d] = as_affine(&reads[i].sub[d], loops);
    return k;
}

Node *read_view(IndexContext *c, const IndexSpace *s, const Read *r) {
    bool *used = ARENA_ARRAY(c->L->scratch, bool, c->loops.n + 1);
    loops_of(r, used);
    IndexSpace part = used_part(s, used);
    Node *n = permuted(c, &part, r);
    if (!n) {
        const bool logic = r->tensor->dtype == DT_BOOL; /* contractions are of numbers */
        Node *x = logic ? t_cast(c->L, r->tensor, DT_I32) : r->tensor;
        Attr attr = {.contract = new_contract(c, &part, part.n, 1, r)};
        n = t_node(c->L, OP_CONTRACT, 1, &x, &attr, x->dtype, space_shape(c, &part));
        if (logic) n = t_binary(c->L, OP_NE, n, t_const(c->L, DT_I32, *n->shape, 0));
    }
    return space_lift(c, n, &part, s);
}

/* The least and greatest value of the affine part, at the loops' bounds; false when it is out of 63 bits. */
static bool linear_span(const IndexContext *c, const Linear *l, int64_t *least, int64_t *most) {
    *least = *most = l->c;
    for (int i = 0; i < l->n; i++) {
        int64_t top = c->loops.at[l->term[i].loop].extent.bound - 1, reach;
        if (top < 0) top = 0;
        if (__builtin_mul_overflow(l->term[i].coef, top, &reach)) return false;
        if (__builtin_add_overflow(reach < 0 ? *least : *most, reach, reach < 0 ? least : most)) return false;
    }
    return true;
}

static bool spans_at_most(const IndexContext *c, const Linear *l, int64_t limit) {
    int64_t least, most;
    return linear_span(c, l, &least, &most) && least >= -limit && most <= limit && l->divisor <= limit;
}

/* A tensor has at most so many elements, and sums and products of such numbers are far from overflow. */
static bool check_span(const IndexContext *c, const Linear *l, SrcLoc loc) {
    if (spans_at_most(c, l, MAX_ELEMENTS)) return true;
    lower_fail(c->L, E0216, loc, "use smaller constants: what lies outside the tensor reads as 0 as well",
               "this subscript, or its divisor, passes %lld", (long long)MAX_ELEMENTS);
    return false;
}

static bool always_inside(const IndexContext *c, const Linear *l, Dim d) {
    int64_t least, most;
    if (whole_loop(c, l, d) >= 0) return true;
    if (l->divisor != 1 || !dim_is_fixed(d) || !linear_span(c, l, &least, &most)) return false;
    return least >= 0 && most < d.bound;
}

Node *and_masks(Lower *L, Node *a, Node *b) { return !a ? b : !b ? a : t_binary(L, OP_AND, a, b); }

static Node *linear_node(IndexContext *c, const IndexSpace *s, const Linear *l) {
    Lower *L = c->L;
    Shape shape = space_shape(c, s);
    Node *sum = NULL;
    for (int i = 0; i < l->n; i++) {
        Node *x = t_iota(L, shape, space_axis(s, l->term[i].loop));
        if (l->term[i].coef != 1) x = t_binary(L, OP_MUL, x, t_const(L, DT_I32, shape, (double)l->term[i].coef));
        sum = sum ? t_binary(L, OP_ADD, sum, x) : x;
    }
    Node *k = t_const(L, DT_I32, shape, (double)l->c);
    return !sum ? k : l->c ? t_binary(L, OP_ADD, sum, k) : sum;
}

/* Where a read of ones is not 0: subscripts of contractions do not wrap, as i32 does. */
static Node *mask_of_ones(IndexContext *c, const IndexSpace *part, const Linear *l, Dim d) {
    Lower *L = c->L;
    const Shape row = {.rank = 1, .dim = {d}}, shape = space_shape(c, part);
    Read r = {.tensor = t_const(L, DT_F32, row, 1)};
    r.sub[0] = *l;
    Attr attr = {.contract = new_contract(c, part, part->n, 1, &r)};
    return t_binary(L, OP_NE, t_node(L, OP_CONTRACT, 1, &r.tensor, &attr, DT_F32, shape), t_const(L, DT_F32, shape, 0));
}

/* 0 <= l < d, and exact division: computed over the loops of the subscript, then broadcast to the space. */
static Node *subscript_mask(IndexContext *c, const IndexSpace *s, const Linear *l, Dim d) {
    Lower *L = c->L;
    bool *used = ARENA_ARRAY(L->scratch, bool, c->loops.n + 1);
    if (always_inside(c, l, d)) return NULL;
    for (int i = 0; i < l->n; i++) used[l->term[i].loop] = true;
    IndexSpace part = used_part(s, used);
    Shape shape = space_shape(c, &part);
    if (!spans_at_most(c, l, INT32_MAX)) return space_lift(c, mask_of_ones(c, &part, l, d), &part, s);
    Node *x = linear_node(c, &part, l), *zero = t_const(L, DT_I32, shape, 0), *mask = NULL;
    if (l->divisor != 1) {
        Node *k = t_const(L, DT_I32, shape, (double)l->divisor);
        mask = t_binary(L, OP_EQ, t_binary(L, OP_MOD, x, k), zero);
        x = t_binary(L, OP_DIV, x, k);
    }
    mask = and_masks(L, mask, t_binary(L, OP_GE, x, zero));
    mask = and_masks(L, mask, t_binary(L, OP_LT, x, t_expand(L, t_extent(L, d), shape)));
    return space_lift(c, mask, &part, s);
}

Node *read_mask(IndexContext *c, const IndexSpace *s, const Read *r) {
    Node *mask = r->valid ? space_lift(c, r->valid, &r->valid_space, s) : NULL;
    for (int d = 0; d < r->tensor->shape->rank; d++)
        mask = and_masks(c->L, mask, subscript_mask(c, s, &r->sub[d], r->tensor->shape->dim[d]));
    return mask;
}

/* ---- gathered subscripts ------------------------------------------------------------------------------------ */

typedef struct Gathered {
    int n;
    int dim[MAX_RANK];   /* of the table */
    Node *ids[MAX_RANK]; /* i32 over `space` */
    IndexSpace space;
    Node *valid;
} Gathered;

static bool reads_or_calls(const Expr *e) {
    if (!e) return false;
    if (e->kind == EXPR_SUBSCRIPT || e->kind == EXPR_CALL || e->kind == EXPR_REDUCE) return true;
    return reads_or_calls(e->a) || reads_or_calls(e->b) || reads_or_calls(e->c);
}

static bool follows_bounded(IndexContext *c, const Expr *e) {
    if (!e) return false;
    if (!mentions_index(c, e)) return index_base(c, e).kind == VAL_DIM;
    return follows_bounded(c, e->a) || follows_bounded(c, e->b);
}

static bool is_gathered(IndexContext *c, const Expr *e) {
    if (mentions_index(c, e)) return reads_or_calls(e) || follows_bounded(c, e);
    const Value v = index_base(c, e);
    return v.kind == VAL_TENSOR || v.kind == VAL_DIM;
}

static Node *in_range(Lower *L, Node *ids, Dim d) {
    Node *low = t_binary(L, OP_GE, ids, t_const(L, DT_I32, *ids->shape, 0));
    return t_binary(L, OP_AND, low, t_binary(L, OP_LT, ids, t_expand(L, t_extent(L, d), *ids->shape)));
}

/* Evaluates the gathered subscripts over the loops that they mention. */
static bool eval_ids(IndexContext *c, const Expr *e, const Read *r, Gathered *g) {
    Lower *L = c->L;
    IndexSpace outer = c->space;
    Node *mask = c->mask;
    const bool in_subscript = c->in_subscript;
    c->space = g->space;
    c->in_subscript = true;
    bool ok = true;
    for (int k = 0; k < g->n && ok; k++) {
        const Expr *sub = e->items.at[g->dim[k]].index;
        c->mask = NULL;
        Value v = index_eval(c, sub);
        Node *x = value_node(L, v, DT_COUNT, sub->loc);
        ok = x != NULL;
        if (ok && x->dtype != DT_I32) {
            lower_fail(L, E0214, sub->loc, "write int(..)", "a subscript must be an integer, not %s",
                       val_describe(L->arena, v));
            ok = false;
        }
        if (!ok) break;
        g->ids[k] = t_expand(L, x, space_shape(c, &g->space));
        /* a term whose subscript itself reads outside is left out: -1 is outside of every table */
        if (c->mask) g->ids[k] = t_select(L, c->mask, g->ids[k], t_const(L, DT_I32, *g->ids[k]->shape, -1));
        g->valid = and_masks(L, g->valid, in_range(L, g->ids[k], r->tensor->shape->dim[g->dim[k]]));
    }
    c->space = outer;
    c->mask = mask;
    c->in_subscript = in_subscript;
    return ok;
}

static Linear plain_loop(int loop) { return (Linear){.divisor = 1, .n = 1, .term = {{loop, 1}}}; }

static bool is_gathered_dim(const Gathered *g, int d) {
    for (int k = 0; k < g->n; k++)
        if (g->dim[k] == d) return true;
    return false;
}

/* table[ids.., rest..] where ids and rest share no loop: one GATHER of rows, then an affine read. */
static bool gather_rows(IndexContext *c, const Expr *e, Read *r, const Gathered *g) {
    Lower *L = c->L;
    int8_t perm[MAX_RANK];
    int rank = r->tensor->shape->rank, n = 0;
    Read out = {.valid = g->valid, .valid_space = g->space};
    Shape rows = {.rank = 1}, shape = space_shape(c, &g->space);
    int64_t count = 1;
    if (g->space.n + rank - g->n > MAX_RANK) {
        lower_fail(L, E0216, e->loc, NULL, "this read has more than %d dimensions", MAX_RANK);
        return false;
    }
    for (int k = 0; k < g->n; k++) perm[n++] = (int8_t)g->dim[k], count *= r->tensor->shape->dim[g->dim[k]].bound;
    if (g->n > 1 && count > INT32_MAX) { /* one i32 for them all */
        lower_fail(L, E0216, e->loc, NULL, "integer tensors choose among %lld elements here, more than %d", (long long)count,
                   INT32_MAX);
        return false;
    }
    for (int i = 0; i < g->space.n; i++) out.sub[i] = plain_loop(g->space.loop[i]);
    for (int d = 0; d < rank; d++) {
        if (is_gathered_dim(g, d)) continue;
        perm[n++] = (int8_t)d;
        rows.dim[rows.rank++] = r->tensor->shape->dim[d];
        out.sub[g->space.n + rows.rank - 2] = r->sub[d];
        shape.dim[shape.rank++] = r->tensor->shape->dim[d];
    }
    rows.dim[0] = g->n == 1 ? r->tensor->shape->dim[g->dim[0]] : dim_fixed(count);
    Node *ids = g->ids[0];
    for (int k = 1; k < g->n; k++) {
        Node *extent = t_const(L, DT_I32, *ids->shape, (double)r->tensor->shape->dim[g->dim[k]].bound);
        ids = t_binary(L, OP_ADD, t_binary(L, OP_MUL, ids, extent), g->ids[k]);
    }
    if (g->n > 1) ids = t_select(L, g->valid, ids, t_const(L, DT_I32, *ids->shape, -1));
    if (!check_shape(L, shape, e->loc)) return false;
    Node *table = t_reshape(L, t_transpose(L, r->tensor, perm), rows);
    out.tensor = t_node(L, OP_GATHER, 2, (Node *[]){table, ids}, NULL, table->dtype, shape);
    *r = out;
    return true;
}

/* x[i, ids[i]]: the sum over v of x[i, v] where ids[i] == v. */
static bool gather_by_indicator(IndexContext *c, const Expr *e, Read *r, const Gathered *g, const bool *used) {
    Lower *L = c->L;
    IndexSpace all = used_part(&c->space, used), wide = all;
    Read inner = *r, out = {.valid = g->valid, .valid_space = g->space};
    Node *hit = NULL;
    int8_t axes[MAX_RANK];
    if (all.n + g->n > MAX_RANK) {
        lower_fail(L, E0216, e->loc, NULL, "this read has more than %d dimensions", MAX_RANK);
        return false;
    }
    for (int k = 0; k < g->n; k++) {
        vec_push(L->scratch, c->loops, (Loop){.extent = r->tensor->shape->dim[g->dim[k]], .ranged = true});
        axes[k] = (int8_t)wide.n;
        wide.loop[wide.n++] = c->loops.n - 1;
        inner.sub[g->dim[k]] = plain_loop(c->loops.n - 1);
    }
    if (!space_fits(c, &wide, e->loc)) return false;
    for (int k = 0; k < g->n; k++) {
        Node *v = t_iota(L, space_shape(c, &wide), axes[k]);
        hit = and_masks(L, hit, t_binary(L, OP_EQ, v, space_lift(c, g->ids[k], &g->space, &wide)));
    }
    out.valid = and_masks(L, space_lift(c, g->valid, &g->space, &all), NULL);
    out.valid_space = all;
    for (int d = 0; d < r->tensor->shape->rank; d++)
        if (!is_gathered_dim(g, d))
            out.valid = and_masks(L, out.valid, subscript_mask(c, &all, &r->sub[d], r->tensor->shape->dim[d]));
    Node *x = read_view(c, &wide, &inner);
    x = t_select(L, hit, x, t_const(L, x->dtype, *x->shape, 0));
    out.tensor = t_reduce(L, OP_SUM, x, g->n, axes);
    for (int i = 0; i < all.n; i++) out.sub[i] = plain_loop(all.loop[i]);
    *r = out;
    return true;
}

static bool gather_read(IndexContext *c, const Expr *e, Read *r, Gathered *g) {
    Lower *L = c->L;
    bool *by_ids = ARENA_ARRAY(L->scratch, bool, c->loops.n + 1),
         *by_rest = ARENA_ARRAY(L->scratch, bool, c->loops.n + 1);
    bool shared = false, fixed = true;
    for (int k = 0; k < g->n; k++) {
        mention_loops(c, e->items.at[g->dim[k]].index, by_ids);
        r->sub[g->dim[k]] = (Linear){.divisor = 1};
        fixed &= g->n == 1 || dim_is_fixed(r->tensor->shape->dim[g->dim[k]]);
    }
    loops_of(r, by_rest);
    g->space = used_part(&c->space, by_ids);
    if (!space_fits(c, &g->space, e->loc) || !eval_ids(c, e, r, g)) return false;
    for (int i = 0; i < c->loops.n; i++) {
        shared |= by_ids[i] && by_rest[i];
        by_rest[i] |= by_ids[i];
    }
    if (!shared && fixed) return gather_rows(c, e, r, g);
    if (r->tensor->dtype != DT_BOOL) return gather_by_indicator(c, e, r, g, by_rest);
    lower_fail(L, E0214, e->loc, "write int(..) of the tensor",
               "a gathered subscript of a boolean tensor shares an index with another");
    return false;
}

/* Whether no constant in a subscript was rounded; false: reported. */
static bool constants_whole(IndexContext *c, const Expr *e) {
    if (!e) return true;
    if (mentions_index(c, e))
        return (e->kind != EXPR_UNARY && e->kind != EXPR_BINARY) ||
               (constants_whole(c, e->a) && constants_whole(c, e->b));
    Body *b = c->L->body;
    if (b) b->subscript = true;
    Value v = index_base(c, e);
    if (b) b->subscript = false;
    return v.kind != VAL_POISON && subscript_whole(c->L, v, e->loc);
}

/* A subscript that no index is left in; false: reported. */
static bool constant_inside(IndexContext *c, const Item *it, Linear *l, Dim extent) {
    if (l->n) return true;
    const Value v = {.kind = VAL_INT, .inexact = l->c % l->divisor != 0};
    *l = (Linear){.c = l->c / l->divisor, .divisor = 1};
    return subscript_whole(c->L, v, it->loc) && subscript_inside(c->L, l->c, extent, it->loc);
}

bool read_is_element(IndexContext *c, const Expr *e, Value base) {
    if (base.kind == VAL_TENSOR && base.node->shape->rank == e->items.n) return true;
    lower_fail(c->L, E0203, e->loc,
               base.kind == VAL_TENSOR ? "a definition reads single elements: write a subscript per axis" : NULL,
               "%d subscript%s for %s", e->items.n, e->items.n == 1 ? "" : "s", val_describe(c->L->arena, base));
    return false;
}

bool read_resolve(IndexContext *c, const Expr *e, Read *r) {
    Lower *L = c->L;
    Gathered g = {0};
    if (!base_is_fixed(c, e->a)) return false;
    Value base = index_base(c, e->a);
    if (base.kind == VAL_POISON) return false;
    if (!read_is_element(c, e, base)) return false;
    r->tensor = base.node;
    for (int d = 0; d < e->items.n; d++) {
        const Item *it = &e->items.at[d];
        if (it->kind == ITEM_INDEX && !constants_whole(c, it->index)) return false;
        if (it->kind == ITEM_INDEX && linear(c, it->index, &r->sub[d])) {
            if (!constant_inside(c, it, &r->sub[d], r->tensor->shape->dim[d])) return false;
            if (!check_span(c, &r->sub[d], it->loc)) return false;
            continue;
        }
        if (it->kind == ITEM_INDEX && is_gathered(c, it->index)) {
            g.dim[g.n++] = d;
            continue;
        }
        lower_fail(
            L, E0214, it->loc,
            "a subscript is a sum of indices times constants, that over a constant from 1 on, or a read of an integer tensor",
            "this subscript is not affine in the indices");
        return false;
    }
    return g.n == 0 || gather_read(c, e, r, &g);
}

/* ---- products of reads ------------------------------------------------------------------------------------------ */

typedef struct Scale {
    Value v;
    bool divides;
    SrcLoc loc;
} Scale;

typedef struct Factors {
    VEC(Read) reads;
    VEC(Scale) scales;
    bool negative, failed;
} Factors;

static bool factor(IndexContext *c, const Expr *e, Factors *f);

static bool factor_read(IndexContext *c, const Expr *e, Factors *f) {
    Read r = {0};
    if (!read_resolve(c, e, &r)) {
        f->failed = true;
        return false;
    }
    vec_push(c->L->scratch, f->reads, r);
    return dtype_is_float(r.tensor->dtype) && r.tensor->dtype == f->reads.at[0].tensor->dtype;
}

static bool factor_scale(IndexContext *c, const Expr *e, bool divides, Factors *f) {
    Value v = index_base(c, e);
    if (v.kind == VAL_POISON) f->failed = true;
    bool scalar =
        val_is_number(v) || (v.kind == VAL_TENSOR && v.node->shape->rank == 0 && dtype_is_float(v.node->dtype));
    if (scalar) vec_push(c->L->scratch, f->scales, (Scale){v, divides, e->loc});
    return scalar;
}

static bool factor(IndexContext *c, const Expr *e, Factors *f) {
    if (!mentions_index(c, e)) return factor_scale(c, e, false, f);
    if (e->kind == EXPR_SUBSCRIPT) return factor_read(c, e, f);
    if (e->kind == EXPR_UNARY && e->op == AST_NEG) {
        f->negative = !f->negative;
        return factor(c, e->a, f);
    }
    if (e->kind != EXPR_BINARY) return false;
    if (e->op == AST_MUL) return factor(c, e->a, f) && factor(c, e->b, f);
    if (e->op == AST_DIV && !mentions_index(c, e->b)) return factor(c, e->a, f) && factor_scale(c, e->b, true, f);
    bool square = e->op == AST_POW && e->b->kind == EXPR_INT && e->b->integer == 2;
    return square && factor(c, e->a, f) && factor(c, e->a, f);
}

bool product_contract(IndexContext *c, const Expr *body, const IndexSpace *out, Value *result) {
    Lower *L = c->L;
    Factors f = {0};
    if (!mentions_index(c, body) || !factor(c, body, &f) || f.reads.n == 0 || out->n > MAX_RANK) {
        *result = val_poison();
        return f.failed;
    }
    Node **in = ARENA_ARRAY(L->scratch, Node *, f.reads.n);
    for (int i = 0; i < f.reads.n; i++) in[i] = f.reads.at[i].tensor;
    Attr attr = {.contract = new_contract(c, &c->space, out->n, f.reads.n, f.reads.at)};
    Shape shape = space_shape(c, out);
    if (!check_shape(L, shape, body->loc) || !check_contract(L, f.reads.n, in, &attr, body->loc))
        return *result = val_poison(), true;
    Value v = val_tensor(t_node(L, OP_CONTRACT, f.reads.n, in, &attr, in[0]->dtype, shape));
    for (int i = 0; i < f.scales.n; i++)
        v = v_binary(L, f.scales.at[i].divides ? AST_DIV : AST_MUL, v, f.scales.at[i].v, f.scales.at[i].loc);
    *result = f.negative ? v_unary(L, AST_NEG, v, body->loc) : v;
    return true;
}
