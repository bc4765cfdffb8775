/* Values by index substitution: an elementwise node passes its subscripts on, a movement rewrites them,
 * a node in memory becomes a load.  Whatever is not in memory is thereby inlined. */
#include "passes/kernel/emitter.h"
#include <string.h>

int emit_op(Emitter *e, Op op, DType t, int a, int b) { return tile_element(&e->b, op, t, 2, (int[]){a, b}); }

const Inst *emit_made_here(const Emitter *e, int v) {
    const Block *b = e->b.block;
    for (int n = b->n - 1; n >= 0; n--)
        if (b->at[n]->result == v) return b->at[n];
    return NULL;
}

static bool is_one_constant(const Emitter *e, int a, int b) {
    const Inst *x = emit_made_here(e, a), *y = emit_made_here(e, b);
    return x && y && x->kind == TI_CONST && y->kind == TI_CONST && x->type.dtype == y->type.dtype && !memcmp(&x->value, &y->value, sizeof x->value);
}

/* tcc 0.9.27 takes `(c ? 0 : 0) ? x : y` for something else, so one constant is not chosen between itself. */
int emit_select(Emitter *e, int c, int a, int b) {
    if (a != b && is_one_constant(e, a, b)) return a;
    return tile_element(&e->b, OP_SELECT, e->k->types.at[a].dtype, 3, (int[]){c, a, b});
}

int emit_and(Emitter *e, int a, int b) {
    if (a < 0 || a == b) return b;
    return b < 0 ? a : emit_op(e, OP_AND, DT_BOOL, a, b);
}

int emit_i32(Emitter *e, int64_t v) { return tile_const(&e->b, DT_I32, (double)v); }

const Index *index_of_dim(Emitter *e, Dim d) {
    return dim_is_fixed(d) ? index_const(e->arena, d.bound) : index_extent(e->k, d);
}

int emit_launch_constant(Emitter *e, int32_t v) {
    Kernel *k = e->k;
    int at = 0;
    while (at < k->n_constants && e->constant[at] != v) at++;
    if (at == FUSEC_MAX_CONSTANTS) return emit_i32(e, v);
    if (at == k->n_constants) {
        e->constant[at] = v;
        k->n_constants++;
        k->n_syms++;
    }
    const int sym = k->n_syms - k->n_constants + at;
    return tile_index(&e->b, index_extent(k, (Dim){.bound = INT32_MAX, .sym = sym, .scale = 1}));
}

int emit_exceeds(Emitter *e, int x, int most) {
    int more = emit_op(e, OP_GT, DT_BOOL, x, most);
    if (!dtype_is_float(e->k->types.at[x].dtype)) return more;
    const int nan = emit_op(e, OP_NE, DT_BOOL, x, x), number = emit_op(e, OP_EQ, DT_BOOL, most, most);
    return emit_op(e, OP_OR, DT_BOOL, more, emit_op(e, OP_AND, DT_BOOL, nan, number));
}

int emit_at_least(Emitter *e, const Index *x, int64_t lo) {
    int64_t least, most;
    if (index_range(e->k, x, &least, &most) && least >= lo) return -1;
    const int bound = emit_i32(e, lo);
    return emit_op(e, OP_GE, DT_BOOL, tile_index(&e->b, x), bound);
}

static bool is_axis_of(const Emitter *e, const Index *x, Dim extent) {
    return x->n == 1 && x->c == 0 && x->term[0].coef == 1 && x->term[0].atom.kind == ATOM_AXIS &&
           dim_equal(e->k->axes.at[x->term[0].atom.id].extent, extent);
}

int emit_below(Emitter *e, const Index *x, Dim extent) {
    int64_t least, most;
    if (is_axis_of(e, x, extent)) return -1;
    if (dim_is_fixed(extent) && index_range(e->k, x, &least, &most) && most < extent.bound) return -1;
    const int bound = tile_index(&e->b, index_of_dim(e, extent));
    return emit_op(e, OP_LT, DT_BOOL, tile_index(&e->b, x), bound);
}

int emit_in_range(Emitter *e, const Index *x, Dim extent) {
    const int below = emit_below(e, x, extent);
    return emit_and(e, emit_at_least(e, x, 0), below);
}

/* ---- memory ------------------------------------------------------------------------------------------ */
static int load(Emitter *e, const Node *n, const Index *const *idx, int mask) {
    const Index *at[MAX_RANK];
    for (int d = 0; d < n->shape->rank; d++) at[d] = idx[d];
    return tile_load(&e->b, e->buffer_of[n->id], at, mask, 0);
}

void emit_store(Emitter *e, const Node *n, const Index *const *idx, int value) {
    const int buffer = e->buffer_of[n->id];
    const Index *at[MAX_RANK];
    for (int d = 0; d < n->shape->rank; d++) at[d] = idx[d];
    if (e->plan->buffer[n->id].home == HOME_GRAD) {
        const int flag = emit_value(e, e->plan->accumulate, NULL, -1);
        const int adds = emit_op(e, OP_NE, DT_BOOL, flag, emit_i32(e, 0));
        value = emit_op(e, OP_ADD, n->dtype, value, tile_load(&e->b, buffer, at, adds, 0));
    }
    tile_store(&e->b, buffer, at, value, -1);
}

/* ---- movement ------------------------------------------------------------------------------------------ */
static int64_t group_products(const Shape *s, int from, int to) {
    int64_t p = 1;
    for (int d = from; d < to; d++) p *= s->dim[d].bound;
    return p;
}

/* The subscripts of one group, through a linear index. */
static void reshape_group(Emitter *e, const Node *n, const ReshapeGroup *g, const Index *const *idx, const Index **in) {
    const Shape *from = n->in[0]->shape, *to = n->shape;
    const Index *linear = index_const(e->arena, 0);
    for (int d = g->o0; d < g->o1; d++) linear = index_add(e->k, linear, index_scale(e->k, idx[d], group_products(to, d + 1, g->o1)));
    for (int d = g->i0; d < g->i1; d++) {
        const Index *inner = index_const(e->arena, group_products(from, d + 1, g->i1));
        in[d] = inner->c > 0 ? index_div(e->k, linear, inner) : linear;
        if (d > g->i0 && from->dim[d].bound > 0) in[d] = index_mod(e->k, in[d], index_const(e->arena, from->dim[d].bound));
    }
}

static int emit_reshape(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const Shape *from = n->in[0]->shape, *to = n->shape;
    const Index *in[MAX_RANK];
    if (shape_elements(*from) == 0) return tile_const(&e->b, n->dtype, 0); /* nothing is computed from it */
    if (!reshape_fits(from, to)) { /* not one that the program has: the front end refuses that */
        e->context->report(e->context->user, COMPLAINT_ERROR, n->loc, reshape_refused, reshape_remedy);
        e->context->failed = true;
        return tile_const(&e->b, n->dtype, 0);
    }
    ReshapeGroup g = {0};
    while (reshape_next(from, to, &g)) {
        if (g.i1 - g.i0 == 1 && g.o1 - g.o0 == 1) in[g.i0] = idx[g.o0];
        else if (g.o1 == g.o0) in[g.i0] = index_const(e->arena, 0);
        else if (g.i1 > g.i0) reshape_group(e, n, &g, idx, in);
    }
    return emit_value(e, n->in[0], in, mask);
}

static int emit_pad(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const Index *in[MAX_RANK];
    int inside = -1;
    for (int d = 0; d < n->shape->rank; d++) {
        in[d] = index_add(e->k, idx[d], index_const(e->arena, -n->attr->lo[d].bound));
        inside = emit_and(e, inside, emit_in_range(e, in[d], n->in[0]->shape->dim[d]));
    }
    const int v = emit_value(e, n->in[0], in, emit_and(e, mask, inside));
    return inside < 0 ? v : emit_select(e, inside, v, tile_const(&e->b, n->dtype, n->attr->value));
}

static int emit_concat(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const int axis = n->attr->axis;
    const Index *in[MAX_RANK], *rest = idx[axis];
    memcpy(in, idx, sizeof *in * (size_t)n->shape->rank);
    int *parts = ARENA_ARRAY(e->arena, int, n->n_in), *here = ARENA_ARRAY(e->arena, int, n->n_in), value = -1;
    for (int k = 0; k < n->n_in; k++) {
        const Dim extent = n->in[k]->shape->dim[axis];
        here[k] = emit_in_range(e, rest, extent);
        in[axis] = rest;
        parts[k] = emit_value(e, n->in[k], in, emit_and(e, mask, here[k]));
        rest = index_add(e->k, rest, index_scale(e->k, index_of_dim(e, extent), -1));
    }
    for (int k = n->n_in - 1; k >= 0; k--)
        value = value < 0 || here[k] < 0 ? parts[k] : emit_select(e, here[k], parts[k], value);
    return value;
}

static int zero_outside(Emitter *e, int inside, int v, DType t) {
    return inside < 0 ? v : emit_select(e, inside, v, tile_const(&e->b, t, 0));
}

static int emit_slice_at(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const Index *in[MAX_RANK];
    memcpy(in, idx, sizeof *in * (size_t)n->shape->rank);
    const int start = emit_value(e, n->in[1], NULL, -1);
    in[0] = index_add(e->k, idx[0], index_value(e->k, start, 0, 0));
    const int inside = emit_in_range(e, in[0], n->in[0]->shape->dim[0]);
    return zero_outside(e, inside, emit_value(e, n->in[0], in, emit_and(e, mask, inside)), n->dtype);
}

static int emit_update_at(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const Index *in[MAX_RANK];
    memcpy(in, idx, sizeof *in * (size_t)n->shape->rank);
    const int start = emit_value(e, n->in[2], NULL, -1);
    in[0] = index_add(e->k, idx[0], index_scale(e->k, index_value(e->k, start, 0, 0), -1));
    const int inside = emit_in_range(e, in[0], n->in[1]->shape->dim[0]);
    const int old = emit_value(e, n->in[0], idx, mask);
    const int part = emit_value(e, n->in[1], in, emit_and(e, mask, inside));
    return inside < 0 ? part : emit_select(e, inside, part, old);
}

/* The part that changes, where the program is. */
void emit_update(Emitter *e, Node *n) {
    const Index *at[MAX_RANK];
    memcpy(at, e->p_index, sizeof *at * (size_t)n->shape->rank);
    const int part = emit_value(e, n->in[1], at, -1);
    at[0] = index_add(e->k, at[0], index_value(e->k, emit_value(e, n->in[2], NULL, -1), 0, 0));
    const int inside = emit_in_range(e, at[0], n->shape->dim[0]);
    tile_store(&e->b, e->buffer_of[n->id], at, part, inside);
}

static int emit_gather(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const Node *table = n->in[0], *ids = n->in[1];
    const int r = ids->shape->rank;
    const Index *in[MAX_RANK];
    const TensorDecl *decl = ids->op == OP_INPUT ? &e->plan->graph->model->inputs.at[ids->attr->decl] : NULL;
    const bool declared = decl && decl->has_range && decl->lo < decl->hi; /* the launcher checks it */
    const int row = emit_value(e, n->in[1], idx, mask);
    in[0] = index_value(e->k, row, declared ? decl->lo : 0, declared ? decl->hi : 0);
    for (int d = 1; d < table->shape->rank; d++) in[d] = idx[r + d - 1];
    const int inside = emit_in_range(e, in[0], table->shape->dim[0]);
    return zero_outside(e, inside, emit_value(e, n->in[0], in, emit_and(e, mask, inside)), n->dtype);
}

static int emit_move(Emitter *e, Node *n, const Index *const *idx, int mask) {
    const Index *in[MAX_RANK];
    const Attr *at = n->attr;
    const int rank = n->in[0]->shape->rank;
    switch (n->op) {
    case OP_RESHAPE: return emit_reshape(e, n, idx, mask);
    case OP_PAD: return emit_pad(e, n, idx, mask);
    case OP_CONCAT: return emit_concat(e, n, idx, mask);
    case OP_SLICE_AT: return emit_slice_at(e, n, idx, mask);
    case OP_UPDATE_AT: return emit_update_at(e, n, idx, mask);
    case OP_TRANSPOSE:
        for (int d = 0; d < rank; d++) in[at->axes[d]] = idx[d];
        break;
    case OP_BROADCAST:
        for (int d = 0; d < rank; d++) in[d] = idx[at->axes[d]];
        break;
    default: /* OP_SLICE */
        for (int d = 0; d < rank; d++)
            in[d] = index_add(e->k, index_of_dim(e, at->lo[d]), index_scale(e->k, idx[d], at->step[d]));
        break;
    }
    return emit_value(e, n->in[0], in, mask);
}

/* ---- sources ------------------------------------------------------------------------------------------------ */
/* As many elements as 32 bits can tell apart have numbers of their own. */
static const Index *wrapped(Emitter *e, const Index *x) {
    const int64_t half = (int64_t)1 << 31;
    if (index_fits_i32(e->k, x)) return x;
    x = index_mod(e->k, index_add(e->k, x, index_const(e->arena, half)), index_const(e->arena, 2 * half));
    return index_add(e->k, x, index_const(e->arena, -half));
}

static int emit_random(Emitter *e, const Node *n, const Index *const *idx) {
    const Index *linear = index_const(e->arena, 0);
    int64_t stride = 1;
    for (int d = n->shape->rank - 1; d >= 0; d--) {
        linear = index_add(e->k, linear, index_scale(e->k, idx[d], stride));
        stride *= n->shape->dim[d].bound;
    }
    const int in[4] = {emit_value(e, n->in[0], NULL, -1), emit_value(e, n->in[1], NULL, -1),
                       emit_launch_constant(e, n->attr->stream), tile_index(&e->b, wrapped(e, linear))};
    return tile_element(&e->b, OP_PHILOX, DT_F32, 4, in);
}

static int emit_source(Emitter *e, Node *n, const Index *const *idx, int mask) {
    switch (n->op) {
    case OP_CONST: return tile_const(&e->b, n->dtype, n->attr->value);
    case OP_IOTA: return tile_index(&e->b, idx[n->attr->axis]);
    case OP_EXTENT: return tile_index(&e->b, index_of_dim(e, n->attr->extent));
    case OP_RANDOM: return emit_random(e, n, idx);
    default: return load(e, n, idx, mask);
    }
}

/* A stream keeps none of its values, so a product that is widened again at once need not be rounded in between. */
static int unrounded(const Emitter *e, const Node *n, int in) {
    if (e->pk->kind != KERNEL_STREAM || n->op != OP_CAST || n->dtype != DT_F32 || n->in[0]->op != OP_CONTRACT) return -1;
    const Inst *i = emit_made_here(e, in);
    const bool rounds = i && i->kind == TI_ELEMENT && i->op == OP_CAST && e->k->types.at[i->in[0]].dtype == DT_F32;
    return rounds ? i->in[0] : -1;
}

static int compute(Emitter *e, Node *n, const Index *const *idx, int mask) {
    int in[4];
    switch (op_info[n->op].cls) {
    case CLASS_SOURCE: return emit_source(e, n, idx, mask);
    case CLASS_ELEMENT:
        for (int k = 0; k < n->n_in; k++) in[k] = emit_value(e, n->in[k], idx, mask);
        if (n->n_in == 1 && unrounded(e, n, in[0]) >= 0) return unrounded(e, n, in[0]);
        return tile_element(&e->b, n->op, n->dtype, n->n_in, in);
    case CLASS_MOVE: return emit_move(e, n, idx, mask);
    case CLASS_INDEXED: return emit_gather(e, n, idx, mask);
    case CLASS_SPECIAL: return emit_value(e, n->in[0], idx, mask);
    default: return emit_heavy(e, n, idx, mask);
    }
}

/* ---- memo -------------------------------------------------------------------------------------------------------- */
static bool same_place(const Node *n, const Index *const *x, const Index *const *y) {
    for (int d = 0; d < n->shape->rank; d++)
        if (!index_equal(x[d], y[d])) return false;
    return true;
}

/* An unmasked value serves every mask. */
static int recall(const Emitter *e, const Node *n, const Index *const *idx, int mask) {
    for (int m = e->memo_of[n->id]; m >= 0; m = e->memo.at[m].below) {
        const Memo *old = &e->memo.at[m];
        if ((old->mask == mask || old->mask < 0) && same_place(n, old->idx, idx)) return old->value;
    }
    return -1;
}

void emit_remember(Emitter *e, const Node *n, const Index *const *idx, int mask, int value) {
    const Memo m = {.node = n,
                    .idx = n->shape->rank ? arena_dup(e->arena, idx, sizeof *idx * (size_t)n->shape->rank) : NULL,
                    .mask = mask,
                    .value = value,
                    .below = e->memo_of[n->id]};
    e->memo_of[n->id] = e->memo.n;
    vec_push(e->arena, e->memo, m);
}

int emit_value(Emitter *e, Node *n, const Index *const *idx, int mask) {
    int v = recall(e, n, idx, mask);
    if (v >= 0) return v;
    const bool elsewhere = e->buffer_of[n->id] >= 0 && e->plan->kernel_of[n->id] != (int)(e->pk - e->plan->kernels.at);
    v = elsewhere ? load(e, n, idx, mask) : compute(e, n, idx, mask);
    emit_remember(e, n, idx, mask, v);
    return v;
}
