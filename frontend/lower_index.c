/* Indexed definitions and reductions: ranges, evaluation over a space of loops, masked reductions. */
#include "frontend/lower_index.h"
#include <math.h>
#include <string.h>

int loop_named(const IndexContext *c, const char *name) {
    for (int i = c->loops.n - 1; i >= 0; i--)
        if (c->loops.at[i].visible && strcmp(c->loops.at[i].name, name) == 0) return i;
    return -1;
}

static bool any_mentions(const IndexContext *c, const Expr *e) {
    for (int i = 0; i < e->list.n; i++)
        if (mentions_index(c, e->list.at[i])) return true;
    for (int i = 0; i < e->args.n; i++)
        if (mentions_index(c, e->args.at[i].value)) return true;
    for (int i = 0; i < e->binders.n; i++)
        if (mentions_index(c, e->binders.at[i].range)) return true;
    for (int i = 0; i < e->items.n; i++) {
        const Item *it = &e->items.at[i];
        if (mentions_index(c, it->index) || mentions_index(c, it->lo) || mentions_index(c, it->hi) ||
            mentions_index(c, it->step))
            return true;
    }
    return false;
}

bool mentions_index(const IndexContext *c, const Expr *e) {
    if (!e) return false;
    if (e->kind == EXPR_NAME) return loop_named(c, e->name.text) >= 0;
    return mentions_index(c, e->a) || mentions_index(c, e->b) || mentions_index(c, e->c) || any_mentions(c, e);
}

bool base_is_fixed(IndexContext *c, const Expr *e) {
    if (!mentions_index(c, e)) return true;
    if (e->kind == EXPR_NAME)
        lower_fail(c->L, E0214, e->loc, "give the index or the tensor another name",
                   "'%s' is an index here, not a tensor", e->name.text);
    else
        lower_fail(c->L, E0214, e->loc, "give it a name in a definition of its own",
                   "what is subscripted depends on an index");
    return false;
}

/* An expression of the definition's text. */
static Value exact_expr(Lower *L, const Expr *e) {
    const bool exact = L->body && L->body->exact;
    if (L->body) L->body->exact = true;
    Value v = lower_expr(L, e);
    if (L->body) L->body->exact = exact;
    return v;
}

Value index_base(IndexContext *c, const Expr *e) {
    for (int i = 0; i < c->bases.n; i++)
        if (c->bases.at[i].e == e) return c->bases.at[i].v;
    Value v = exact_expr(c->L, e);
    vec_push(c->L->scratch, c->bases, (Base){e, v});
    return v;
}

Shape space_shape(const IndexContext *c, const IndexSpace *s) {
    Shape shape = {.rank = s->n <= MAX_RANK ? s->n : MAX_RANK};
    for (int d = 0; d < shape.rank; d++) shape.dim[d] = c->loops.at[s->loop[d]].extent;
    return shape;
}

bool space_fits(IndexContext *c, const IndexSpace *s, SrcLoc loc) {
    if (s->n <= MAX_RANK) return check_shape(c->L, space_shape(c, s), loc);
    lower_fail(c->L, E0216, loc, NULL, "%d indices; an expression that is not a sum of products has at most %d", s->n,
               MAX_RANK);
    return false;
}

/* ---- ranges ------------------------------------------------------------------------------------ */

static bool range_given(IndexContext *c, const Expr *range, Loop *loop) {
    Lower *L = c->L;
    if (mentions_index(c, range)) {
        lower_fail(L, E0205, range->loc, "give it all that there is, and leave terms out: where(j <= i, x[j], 0)",
                   "the range of an index does not follow another index");
        return false;
    }
    Value v = lower_arg_value(L, range), length;
    if (v.kind == VAL_POISON) return false;
    if (v.at[0].kind == VAL_INT && (v.at[1].kind == VAL_INT || v.at[1].kind == VAL_DIM) &&
        val_dim_combine(v.at[1], 1, v.at[0], -1, &length) && val_as_dim(length, &loop->extent)) {
        loop->lo = v.at[0].i;
        if (loop->lo == 0 && length.kind == VAL_INT) loop->extent.name = v.at[1].text;
        if (loop->lo == 0 && length.kind == VAL_DIM) loop->extent.name = v.at[1].dim.name;
        return loop->ranged = true;
    }
    if (v.at[0].kind == VAL_INT && v.at[1].kind == VAL_INT && v.at[0].i <= v.at[1].i)
        return lower_fail(L, E0205, range->loc, NULL, "the range of an index has more than %lld numbers",
                          (long long)MAX_ELEMENTS), false;
    lower_fail(L, E0205, range->loc, NULL,
               "the range of an index needs constant integers lo..hi with lo <= hi, not %s .. %s",
               val_describe(L->arena, v.at[0]), val_describe(L->arena, v.at[1]));
    return false;
}

/* One dim where a loop is the whole subscript: its extent, or a disagreement. */
static bool range_meets(IndexContext *c, int id, Dim d, SrcLoc loc) {
    Loop *loop = &c->loops.at[id];
    if (!loop->ranged) {
        loop->extent = d;
        return loop->ranged = true;
    }
    if (dim_equal(loop->extent, d)) return true;
    Shape both = {.rank = 2, .dim = {loop->extent, d}};
    lower_fail(c->L, E0213, loc, "give the index a range with `in`", "the index '%s' has two extents: %s", loop->name,
               shape_text(c->L->arena, both));
    return false;
}

static bool infer_ranges(IndexContext *c, const Expr *e, int first, const bool *open);

static bool infer_subscript(IndexContext *c, const Expr *e, int first, const bool *open) {
    bool whole = false;
    for (int i = 0; i < e->items.n; i++) {
        const Item *it = &e->items.at[i];
        if (!infer_ranges(c, it->index, first, open)) return false;
        whole |= it->kind == ITEM_INDEX && it->index->kind == EXPR_NAME && loop_named(c, it->index->name.text) >= first;
    }
    if (!whole) return true;
    if (!base_is_fixed(c, e->a)) return false;
    Value base = index_base(c, e->a);
    if (base.kind == VAL_POISON) return false;
    if (!read_is_element(c, e, base)) return false;
    for (int i = 0; i < e->items.n; i++) {
        const Item *it = &e->items.at[i];
        int id = it->kind == ITEM_INDEX && it->index->kind == EXPR_NAME ? loop_named(c, it->index->name.text) : -1;
        if (id >= first && open[id - first] && !range_meets(c, id, base.node->shape->dim[i], it->loc)) return false;
    }
    return true;
}

/* Extents of the loops from `first` on that have no `in`, from the subscripts in `e`. */
static bool infer_ranges(IndexContext *c, const Expr *e, int first, const bool *open) {
    if (!e) return true;
    if (e->kind == EXPR_SUBSCRIPT && !infer_subscript(c, e, first, open)) return false;
    if (!infer_ranges(c, e->a, first, open) || !infer_ranges(c, e->b, first, open) ||
        !infer_ranges(c, e->c, first, open))
        return false;
    for (int i = 0; i < e->args.n; i++)
        if (!infer_ranges(c, e->args.at[i].value, first, open)) return false;
    return true;
}

/* Opens the loops of some binders over `body` and appends them to the space; false: reported. */
static bool open_loops(IndexContext *c, const BinderList *b, const Expr *body, bool left) {
    Lower *L = c->L;
    int first = c->loops.n;
    bool *open = ARENA_ARRAY(L->scratch, bool, b->n + 1), ok = true;
    if (c->space.n + b->n > MAX_LOOPS) {
        lower_fail(L, E0216, body->loc, NULL, "more than %d indices", MAX_LOOPS);
        return false;
    }
    for (int i = 0; i < b->n; i++) {
        Loop loop = {.name = b->at[i].name.text, .loc = b->at[i].name.loc};
        if (b->at[i].range && !range_given(c, b->at[i].range, &loop)) ok = false;
        if (left && loop.lo != 0) {
            lower_fail(L, E0208, b->at[i].range->loc, NULL, "the range of an index on the left starts at 0");
            ok = false;
        }
        open[i] = !b->at[i].range;
        vec_push(L->scratch, c->loops, loop);
    }
    for (int i = 0; i < b->n; i++) {
        c->loops.at[first + i].visible = true;
        c->space.loop[c->space.n++] = first + i;
    }
    if (!ok || !infer_ranges(c, body, first, open)) return false;
    for (int i = first; i < first + b->n && ok; i++) {
        if (c->loops.at[i].ranged) continue;
        lower_fail(L, E0212, c->loops.at[i].loc, arena_printf(L->arena, "write how far it goes, as in `%s in 0..8`", c->loops.at[i].name),
                   "the index '%s' is never a whole subscript, so its range is not known", c->loops.at[i].name);
        ok = false;
    }
    return ok;
}

static void close_loops(IndexContext *c, int first) {
    for (int i = first; i < c->loops.n; i++) c->loops.at[i].visible = false;
}

/* ---- reductions ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    Op op;
} reductions[] = {{"sum", OP_SUM}, {"prod", OP_PROD}, {"max", OP_RMAX}, {"min", OP_RMIN}};

static Value reduce_terms(IndexContext *c, const Expr *e, int n_out) {
    Lower *L = c->L;
    if (!space_fits(c, &c->space, e->loc)) return val_poison();
    Value v = index_eval(c, e->a);
    if (v.kind == VAL_POISON) return v;
    Node *x = value_node(L, v, DT_COUNT, e->a->loc);
    if (!x) return val_poison();
    if (x->dtype == DT_BOOL)
        return lower_fail(L, E0204, e->a->loc, "write int(..) or float(..)", "a reduction of booleans");
    x = t_expand(L, x, space_shape(c, &c->space));
    int8_t axes[MAX_RANK];
    for (int d = n_out; d < c->space.n; d++) axes[d - n_out] = (int8_t)d;
    for (size_t k = 0; k < sizeof reductions / sizeof *reductions; k++) {
        if (strcmp(reductions[k].name, e->name.text) != 0) continue;
        const Op op = reductions[k].op;
        if (c->mask) x = t_select(L, c->mask, x, t_const(L, x->dtype, *x->shape, scalar_identity(op, x->dtype)));
        return val_tensor(t_reduce(L, op, x, c->space.n - n_out, axes));
    }
    return lower_fail(L, E0215, e->loc, NULL, "'%s' is not a reduction", e->name.text);
}

static Value index_reduce(IndexContext *c, const Expr *e) {
    IndexSpace outer = c->space;
    bool in_term = c->in_term, in_subscript = c->in_subscript;
    Node *mask = c->mask;
    int first = c->loops.n;
    Value v = val_poison();
    c->in_term = true;
    c->in_subscript = false;
    c->mask = NULL;
    if (open_loops(c, &e->binders, e->a, false)) {
        bool product = strcmp(e->name.text, "sum") == 0 && product_contract(c, e->a, &outer, &v);
        if (!product) v = reduce_terms(c, e, outer.n);
    }
    close_loops(c, first);
    c->space = outer;
    c->in_term = in_term;
    c->in_subscript = in_subscript;
    c->mask = mask;
    return v;
}

/* ---- elements --------------------------------------------------------------------------------------- */

static Value plain_element(IndexContext *c, const Expr *e) {
    Value v = index_base(c, e);
    if (v.kind == VAL_POISON || val_is_const_number(v) || v.kind == VAL_STRING) return v;
    if (v.kind == VAL_TENSOR && v.node->shape->rank == 0) return v;
    return lower_fail(c->L, E0204, e->loc, v.kind == VAL_TENSOR ? "subscript it with the indices" : NULL,
                      "an element is needed here, not %s", val_describe(c->L->arena, v));
}

static Value index_value(IndexContext *c, int id) {
    int axis = 0;
    while (axis < c->space.n && c->space.loop[axis] != id) axis++;
    Shape s = space_shape(c, &c->space);
    Node *n = t_iota(c->L, s, axis);
    int64_t lo = c->loops.at[id].lo;
    return val_tensor(lo ? t_binary(c->L, OP_ADD, n, t_const(c->L, DT_I32, s, (double)lo)) : n);
}

static Value index_read(IndexContext *c, const Expr *e) {
    Read r = {0};
    if (!read_resolve(c, e, &r)) return val_poison();
    if (c->in_term) c->mask = and_masks(c->L, c->mask, read_mask(c, &c->space, &r));
    return val_tensor(read_view(c, &c->space, &r));
}

/* Arguments are elements; while they are evaluated, whole tensors are legal again. */
static Value index_argument(Lower *L, void *context, const Expr *e, const char *name) {
    (void)name;
    const IndexSpace *marker = L->body->space;
    L->body->space = NULL;
    Value v = index_eval(context, e);
    L->body->space = marker;
    return v;
}

static Value index_call(IndexContext *c, const Expr *e) {
    const bool in_subscript = c->in_subscript;
    c->in_subscript = false;
    c->L->body->space = &c->space;
    Value v = lower_call(c->L, e, index_argument, c);
    c->L->body->space = NULL;
    c->in_subscript = in_subscript;
    return v;
}

/* No subscript is rounded: where the division leaves a remainder nothing is read. */
static void leave_out_remainders(IndexContext *c, Value a, Value b, Value quotient, SrcLoc loc) {
    Lower *L = c->L;
    const Shape s = space_shape(c, &c->space);
    if (quotient.kind != VAL_TENSOR || quotient.node->dtype != DT_I32) return;
    Node *x = t_expand(L, value_node(L, a, DT_I32, loc), s), *y = t_expand(L, value_node(L, b, DT_I32, loc), s);
    c->mask = and_masks(L, c->mask, t_binary(L, OP_EQ, t_binary(L, OP_MOD, x, y), t_const(L, DT_I32, s, 0)));
}

static Value index_binary(IndexContext *c, const Expr *e) {
    if (e->op == AST_MATMUL) return lower_fail(c->L, E0204, e->loc, "write * of elements", "@ of elements");
    const Value a = index_eval(c, e->a), b = index_eval(c, e->b), v = v_binary(c->L, e->op, a, b, e->loc);
    if (e->op == AST_DIV && c->in_subscript) leave_out_remainders(c, a, b, v, e->loc);
    return v;
}

static Value index_if(IndexContext *c, const Expr *e) {
    bool chosen;
    if (mentions_index(c, e->a))
        return lower_fail(c->L, E0209, e->a->loc, "choose per element with where(condition, a, b)",
                          "the condition of `if` depends on an index");
    if (!lower_condition(c->L, e->a, &chosen)) return val_poison();
    return index_eval(c, chosen ? e->b : e->c);
}

Value index_eval(IndexContext *c, const Expr *e) {
    Lower *L = c->L;
    if (L->stopped) return val_poison();
    if (!mentions_index(c, e)) return plain_element(c, e);
    SrcLoc outer = L->loc;
    if (!loc_in_library(L->diag, e->loc)) L->loc = e->loc;
    Value v = val_poison();
    switch (e->kind) {
    case EXPR_NAME: v = index_value(c, loop_named(c, e->name.text)); break;
    case EXPR_UNARY: v = v_unary(L, e->op, index_eval(c, e->a), e->loc); break;
    case EXPR_BINARY: v = index_binary(c, e); break;
    case EXPR_IF: v = index_if(c, e); break;
    case EXPR_REDUCE: v = index_reduce(c, e); break;
    case EXPR_CALL: v = index_call(c, e); break;
    case EXPR_SUBSCRIPT: v = index_read(c, e); break;
    default: v = lower_fail(L, E0215, e->loc, NULL, "this expression cannot depend on an index"); break;
    }
    L->loc = outer;
    return v;
}

/* ---- entry ---------------------------------------------------------------------------------------------- */

static bool refuse_nested(Lower *L, SrcLoc loc) {
    if (!L->body || !L->body->space) return false;
    lower_fail(L, E0215, loc, "compute it before the definition",
               "an indexed expression inside a function of single elements");
    return true;
}

Value lower_indexed(Lower *L, const BinderList *left, const Expr *body, SrcLoc loc) {
    IndexContext c = {.L = L};
    if (refuse_nested(L, loc) || !open_loops(&c, left, body, true) || !space_fits(&c, &c.space, loc))
        return val_poison();
    Value v = index_eval(&c, body);
    Node *x = value_node(L, v, v.kind == VAL_INT ? DT_F32 : DT_COUNT, body->loc);
    return x ? val_tensor(t_expand(L, x, space_shape(&c, &c.space))) : val_poison();
}

Value lower_reduction(Lower *L, const Expr *e) {
    IndexContext c = {.L = L};
    return refuse_nested(L, e->loc) ? val_poison() : index_reduce(&c, e);
}
