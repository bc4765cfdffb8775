/* Scatter: rows of the result gather what is sent to them, in order, so that no two programs write one element and the sum
 * (or the maximum) has one order.  It is a contraction with an indicator operand, of which almost all tiles are empty: a program skips the
 * blocks of positions, and in a block the positions, that send nothing to its rows.  The ids of a block are compared at
 * once, as lanes of a tile.  With buckets of the ids (plan/bucket.c) a program has one row, and walks what lies in its bucket. */
#include "passes/kernel/emitter.h"
#include <string.h>

typedef struct Scatter {
    Emitter *e;
    Node *n, *updates, *ids;
    int r;                     /* dims of ids */
    const Index *at[MAX_RANK]; /* the element of updates: dims of ids, then those of a row */
    int row, first, last;      /* rows of the program's tile; the least and the greatest of them */
    Op reduce;                 /* OP_SUM, OP_RMAX */
    bool at_greatest;          /* the result is the position of the greatest */
    DType as;                  /* of the sum while it grows */
    int block;                 /* positions of the innermost dim of ids that are compared at once; 1: no blocks */
    int carries;               /* 1: the sum; 2: and what is lost in it, since one element may be sent many terms, or where the greatest is */
} Scatter;

/* Without lanes it walks the positions one by one. */
static int block_of(const Scatter *s) {
    const Target *t = s->e->context->target;
    const int most = target_tile(t, t->device->tiles->ids);
    if (s->r == 0 || !target_has_lanes(t)) return 1;
    int block = 1;
    while (block < most && 8 * block < t->max_tile && block < s->ids->shape->dim[s->r - 1].bound) block *= 2;
    return block > 4 ? block : 1;
}

/* The id at s->at, or -1 past the end: no row has that number. */
static int id_at(const Scatter *s) {
    Emitter *e = s->e;
    const int inside = s->block > 1 ? emit_in_range(e, s->at[s->r - 1], s->ids->shape->dim[s->r - 1]) : -1;
    const int id = emit_value(e, s->ids, s->at, inside);
    return inside < 0 ? id : emit_select(e, inside, id, emit_i32(e, -1));
}

static int is_here(const Scatter *s, int id) {
    Emitter *e = s->e;
    const int to = emit_op(e, OP_LE, DT_BOOL, id, s->last), from = emit_op(e, OP_GE, DT_BOOL, id, s->first);
    return emit_and(e, from, to);
}

/* v without the axes, of one lane each, of the loops over positions. */
static int of_result(const Scatter *s, int v, int carry) {
    const Kernel *k = s->e->k;
    const TileType *t = &k->types.at[v], *kept = &k->types.at[carry];
    int axes[MAX_TILE_AXES], n = 0;
    for (int i = 0; i < t->n_axes; i++) {
        bool stays = false;
        for (int j = 0; j < kept->n_axes; j++) stays |= kept->axis[j] == t->axis[i];
        if (!stays) axes[n++] = t->axis[i];
    }
    return emit_reduce_over(s->e, s->reduce, v, n, axes);
}

/* Of s->at among ids, row-major. */
static int position_at(const Scatter *s) {
    Emitter *e = s->e;
    int linear = emit_i32(e, 0);
    for (int d = 0; d < s->r; d++) {
        const int extent = tile_index(&e->b, index_of_dim(e, s->ids->shape->dim[d]));
        if (d) linear = emit_op(e, OP_MUL, DT_I32, linear, extent);
        linear = emit_op(e, OP_ADD, DT_I32, linear, emit_scalar_of(e, OP_SUM, tile_index(&e->b, s->at[d])));
    }
    return linear;
}

/* carry[1]: where the greatest so far is, -1 before the first. */
static void take_greater(const Scatter *s, const int *carry, int here, int x, int position, int *next) {
    Emitter *e = s->e;
    const int none = emit_op(e, OP_LT, DT_BOOL, carry[1], emit_i32(e, 0));
    const int more = emit_and(e, here, emit_op(e, OP_OR, DT_BOOL, emit_exceeds(e, x, carry[0]), none));
    next[0] = emit_select(e, more, x, carry[0]);
    next[1] = emit_select(e, more, position, carry[1]);
}

/* next: carry and one term more, where it is sent `here` (-1: it is).  position: of the term, -1 is that of s->at. */
static void take_term(const Scatter *s, const int *carry, int here, int x, int position, int *next) {
    if (s->at_greatest) {
        take_greater(s, carry, here, x, position < 0 ? position_at(s) : position, next);
        return;
    }
    if (here >= 0) x = emit_select(s->e, here, x, tile_const(&s->e->b, s->as, scalar_identity(s->reduce, s->as)));
    next[1] = carry[1];
    next[0] = s->carries > 1 ? emit_add_compensated(s->e, carry[0], x, &next[1]) : emit_op(s->e, scalar_step(s->reduce), s->as, carry[0], x);
}

/* result: carry + what the position s->at sends. */
static void add_position(const Scatter *s, const int *carry, int *result) {
    Emitter *e = s->e;
    const int id = emit_scalar_of(e, OP_SUM, id_at(s));
    Branch sent = emit_if(e, is_here(s, id), s->carries, carry);
    const int u = of_result(s, emit_converted(e, emit_value(e, s->updates, s->at, -1), s->as), carry[0]);
    int next[2];
    take_term(s, carry, emit_op(e, OP_EQ, DT_BOOL, s->row, id), u, -1, next);
    emit_endif(e, &sent, next, result);
}

/* result: carry + what the block that begins at `start` sends. */
static void add_block(Scatter *s, const Index *start, const int *carry, int *result) {
    Emitter *e = s->e;
    const int lanes = kernel_axis(e->k, "w", AXIS_SPAN, dim_fixed(s->block), s->block);
    const int axis = kernel_axis(e->k, "n", AXIS_LOOP, dim_fixed(s->block), 1);
    s->at[s->r - 1] = index_add(e->k, start, index_axis(e->k, lanes));
    const int hits = is_here(s, id_at(s)), one = emit_i32(e, 1), none = emit_i32(e, 0);
    const int any = emit_scalar_of(e, OP_RMAX, emit_select(e, hits, one, none));
    Branch sent = emit_if(e, emit_op(e, OP_GT, DT_BOOL, any, none), s->carries, carry);
    Nest nest;
    int inner[2] = {0}, next[2];
    nest_begin(e, &nest, 1, &axis, s->carries, carry, inner);
    s->at[s->r - 1] = index_add(e->k, start, index_axis(e->k, axis));
    add_position(s, inner, next);
    nest_end(e, &nest, next, result);
    emit_endif(e, &sent, result, result);
}

/* Places of a bucket that are added at once: at most half as many as it has by the average, where a row leaves lanes for them.
 * What is sent from several is on its way together, and what is added waits once for what was added before. */
static int places_at_once(const Scatter *s) {
    enum { LANES = 256 };
    const Target *t = s->e->context->target;
    const int64_t ids = shape_elements(*s->ids->shape), rows = s->n->attr->extent.bound;
    const int most = target_tile(t, t->device->tiles->reduced);
    int64_t columns = 1, places = 1;
    if (s->at_greatest || !target_has_lanes(t)) return 1;
    for (int d = 1; d < s->n->shape->rank; d++)
        if (s->e->p_axis[d] >= 0) columns *= s->e->k->axes.at[s->e->p_axis[d]].step;
    while (2 * places <= most && 2 * places * columns <= LANES && 4 * places * rows <= ids && 8 * places < t->max_tile) places *= 2;
    return (int)places;
}

/* next: carry + what the places send that have a position, those where `inside` holds (-1: it does). */
static void add_places(Scatter *s, const int *carry, int inside, int position, int *next) {
    Emitter *e = s->e;
    const Index *rest = index_value(e->k, position, 0, shape_elements(*s->ids->shape));
    for (int d = s->r - 1; d >= 0; d--) {
        const Index *extent = index_const(e->arena, s->ids->shape->dim[d].bound);
        s->at[d] = d ? index_mod(e->k, rest, extent) : rest;
        if (d) rest = index_div(e->k, rest, extent);
    }
    int x = emit_converted(e, emit_value(e, s->updates, s->at, inside), s->as);
    if (inside >= 0) x = emit_select(e, inside, x, tile_const(&e->b, s->as, scalar_identity(s->reduce, s->as)));
    take_term(s, carry, -1, of_result(s, x, carry[0]), position, next);
}

/* result: carry + what the positions in the row's bucket send: from `first` to `end` in the loop over all places. */
static void add_bucket(Scatter *s, const int *carry, int *result) {
    Emitter *e = s->e;
    const Node *buckets = s->n->in[2];
    const int64_t rows = s->n->attr->extent.bound, places = shape_elements(*s->ids->shape);
    const int step = places_at_once(s), axis = kernel_axis(e->k, "b", AXIS_LOOP, dim_fixed(places), step), buffer = e->buffer_of[buckets->id];
    const Index *from = e->p_index[0], *to = index_add(e->k, from, index_const(e->arena, 1)), *b = index_axis(e->k, axis);
    const int first = emit_scalar_of(e, OP_SUM, tile_load(&e->b, buffer, &from, -1, 0));
    const int end = emit_scalar_of(e, OP_SUM, tile_load(&e->b, buffer, &to, -1, 0));
    Nest nest;
    int inner[2] = {0}, next[2] = {0}, sums[2] = {0};
    nest_begin(e, &nest, 1, &axis, s->carries, carry, inner);
    nest.loop[0]->from = index_value(e->k, first, 0, places + 1);
    nest.loop[0]->to = index_value(e->k, end, 0, places + 1);
    const int place = step > 1 ? tile_index(&e->b, b) : emit_scalar_of(e, OP_SUM, tile_index(&e->b, b));
    const int inside = emit_and(e, emit_op(e, OP_GE, DT_BOOL, place, first), emit_op(e, OP_LT, DT_BOOL, place, end));
    const Index *at = index_add(e->k, b, index_const(e->arena, rows + 1));
    if (step > 1) {
        const int position = tile_load(&e->b, buffer, &at, inside, 0);
        add_places(s, inner, inside, position, sums);
    } else {
        Branch sent = emit_if(e, inside, s->carries, inner);
        add_places(s, inner, -1, emit_scalar_of(e, OP_SUM, tile_load(&e->b, buffer, &at, -1, 0)), next);
        emit_endif(e, &sent, next, sums);
    }
    nest_end(e, &nest, sums, result);
}

enum { MOST_BY_ONE_LANE = 512 }; /* as Device.most_added where there is one lane: one adds all that is sent to an element */

static int carries_of(const Scatter *s) {
    double positions = 1;
    if (s->at_greatest) return 2;
    for (int d = 0; d < s->r; d++) positions *= (double)s->ids->shape->dim[d].bound;
    return 1 + (s->reduce == OP_SUM && s->as == DT_F32 && positions > MOST_BY_ONE_LANE);
}

int emit_scatter(Emitter *e, Node *n) {
    Scatter s = {.e = e, .n = n, .updates = n->in[0], .ids = n->in[1], .r = n->in[1]->shape->rank, .reduce = op_scattered(n->op),
                 .at_greatest = n->op == OP_SCATTER_ARGMAX};
    int axes[MAX_RANK], start[2], carry[2] = {0}, next[2], result[2];
    Node like = *n;
    like.dtype = s.as = emit_carried_in(s.reduce, s.updates->dtype);
    s.carries = carries_of(&s);
    for (int d = s.r; d < s.updates->shape->rank; d++) s.at[d] = e->p_index[d - s.r + 1];
    const int at = s.at_greatest; /* of the result among the carries */
    start[0] = start[1] = emit_full_over(e, &like, e->p_index, -1, scalar_identity(s.reduce, s.as));
    if (at) start[1] = emit_full_over(e, n, e->p_index, -1, -1);
    if (n->n_in == 3) {
        add_bucket(&s, start, result);
        return emit_converted(e, result[at], n->dtype);
    }
    s.block = block_of(&s);
    for (int d = 0; d < s.r; d++) {
        Dim extent = s.ids->shape->dim[d];
        if (d == s.r - 1 && s.block > 1) extent = dim_fixed((extent.bound + s.block - 1) / s.block);
        axes[d] = kernel_axis(e->k, d == s.r - 1 && s.block > 1 ? "b" : "n", AXIS_LOOP, extent, 1);
        s.at[d] = index_axis(e->k, axes[d]);
    }
    s.row = tile_index(&e->b, e->p_index[0]);
    s.first = emit_scalar_of(e, OP_RMIN, s.row);
    s.last = emit_scalar_of(e, OP_RMAX, s.row);
    Nest nest;
    nest_begin(e, &nest, s.r, axes, s.carries, start, carry);
    if (s.block > 1) add_block(&s, index_scale(e->k, s.at[s.r - 1], s.block), carry, next);
    else add_position(&s, carry, next);
    nest_end(e, &nest, next, result);
    return emit_converted(e, result[at], n->dtype);
}
