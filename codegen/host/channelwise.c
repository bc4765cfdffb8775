/* Products channel by channel, one factor read through a window: depthwise convolutions and their gradients, and those
 * of groups narrower than a vector.
 *
 *     C[rows, v] += X[window of rows and k, v] * Y[k, v]
 *
 * The innermost axis, v, stands in both factors: there is no matrix product to be had, but every load is a vector of v.
 * Rows and taps along the window's two innermost subscripts make a block: rows stay in registers, and what several of
 * them read at different taps is loaded once (micro.h).  X is read in place; elements that its conditions
 * exclude are never touched: places known to lie inside or outside cost nothing, the others a branch per line.  Where
 * conditions are of anything else, or lanes of v do not fill vectors, X is packed as the box of its elements first
 * (window.h).
 *
 *     C[rows, (v, f)] += X[window of rows and k, (v, q)] * Y[k, (v, f)]      summed over q, or q a row of C
 *
 * Of groups v with a few results f each, a vector has the results of several, side by side in C and Y; of what X has
 * for them, several elements q a group, one is moved to all lanes of its group (load_groups): the same blocks once for
 * each q.  Its constants are from `./dev bench conv`. */
#include "codegen/host/channel_internal.h"
#include "codegen/host/counter.h"

/* ---- roles ------------------------------------------------------------------------------------------------------- */
static bool has_stride(const KernelEmit *ke, const Window *w, int axis, int64_t stride) {
    int64_t coef;
    return access_affine(ke->k, w->load, axis, &coef) && coef == stride;
}

/* The axis along which a group's elements of X are contiguous, and the groups one after another. */
static bool find_within(Channelwise *d) {
    const Kernel *k = d->ke->k;
    TileType *of[2] = {&d->rows, &d->over};
    d->q = -1;
    d->depth = 1;
    if (has_stride(d->ke, &d->window, d->v, 1)) return true;
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < of[o]->n_axes; i++) {
            const int axis = of[o]->axis[i];
            const int64_t depth = k->axes.at[axis].step;
            if (!single_tile(d, axis) || depth > MOST_DEPTH * d->width) continue;
            if (!has_stride(d->ke, &d->window, axis, 1) || !has_stride(d->ke, &d->window, d->v, depth)) continue;
            d->q = axis;
            d->q_summed = o == 1;
            d->depth = (int)depth;
            for (int n = i + 1; n < of[o]->n_axes; n++) of[o]->axis[n - 1] = of[o]->axis[n];
            of[o]->n_axes--;
            return true;
        }
    return false;
}

/* X has every axis of C and the sum, but that of a group's results; Y all but the rows. */
static bool classify(Channelwise *d) {
    const KernelEmit *ke = d->ke;
    const Kernel *k = ke->k;
    const int lanes = d->c->joint ? 2 : 1; /* axes */
    if (d->c->n < 2 || d->c->n < lanes || d->c->dtype != DT_F32) return false;
    d->v = d->c->axis[d->c->n - lanes];
    d->f = d->c->joint ? d->c->axis[d->c->n - 1] : -1;
    d->width = (int)step_of(d, d->f);
    for (int i = 0; i < d->c->n - lanes; i++) d->rows.axis[d->rows.n_axes++] = d->c->axis[i];
    for (int i = 0; i < d->dot->n_over; i++)
        if (!axis_trivial(k, d->dot->over[i])) d->over.axis[d->over.n_axes++] = d->dot->over[i];
    for (int swap = 0; swap < 2; swap++) {
        d->x = d->dot->in[swap], d->y = d->dot->in[!swap];
        const TileType *x = &k->types.at[d->x], *y = &k->types.at[d->y];
        bool fits = x->dtype == DT_F32 && y->dtype == DT_F32 && d->over.n_axes > 0 && tile_type_has(x, d->v) &&
                    tile_type_has(y, d->v) && (d->f < 0 || (tile_type_has(y, d->f) && !tile_type_has(x, d->f)));
        for (int i = 0; i < d->rows.n_axes; i++)
            fits = fits && tile_type_has(x, d->rows.axis[i]) && !tile_type_has(y, d->rows.axis[i]);
        for (int i = 0; i < d->over.n_axes; i++)
            fits = fits && tile_type_has(x, d->over.axis[i]) && tile_type_has(y, d->over.axis[i]);
        if (fits && window_find(ke, d->x, true, &d->window) && window_slides(k, &d->window, &d->rows, &d->over))
            return find_within(d);
    }
    return false;
}

static bool alone_in(const Channelwise *d, int subscript, int axis) {
    for (int s = 0; s < d->window.rank; s++)
        if (s != subscript && d->window.coef[s][axis]) return false;
    return true;
}

/* The two subscripts of least pitch in which rows and taps meet, both in no other. */
static void find_sides(Channelwise *d) {
    int at = INNER;
    for (int i = 0; i < SIDES; i++) d->side[i] = (Side){-1, -1, -1, 1, 1};
    for (int s = d->window.rank - 1; s >= 0 && at >= 0; s--) {
        Side side = {s, -1, -1, 1, 1};
        for (int i = 0; i < d->rows.n_axes; i++)
            if (d->window.coef[s][d->rows.axis[i]]) side.row = d->rows.axis[i];
        for (int i = 0; i < d->over.n_axes; i++)
            if (d->window.coef[s][d->over.axis[i]]) side.tap = d->over.axis[i];
        if (side.row >= 0 && side.tap >= 0 && alone_in(d, s, side.row) && alone_in(d, s, side.tap))
            d->side[at--] = side;
    }
}

static bool whole_vectors(const Channelwise *d) {
    const Axis *v = &d->ke->k->axes.at[d->v];
    return dim_is_fixed(v->extent) && v->extent.bound % v->step == 0 && channels_of(d) % d->machine->vector == 0;
}

/* Packed, a group's elements of X are as close as in memory: nothing else is in their subscripts. */
static bool packs_closely(const Channelwise *d) {
    const int last = d->window.rank - 1;
    for (int a = 0; a < d->ke->k->axes.n; a++)
        if (d->window.coef[last][a] && a != d->q && a != d->v) return false;
    return d->window.coef[last][d->v] || (last > 0 && d->window.coef[last - 1][d->v] == 1);
}

/* One condition is asked for a whole vector: it must be the same for all groups and elements that lie in it. */
static bool same_for_vector(const Channelwise *d, int subscript) {
    return !d->window.coef[subscript][d->v] && (d->q < 0 || !d->window.coef[subscript][d->q]);
}

/* Conditions are of the sides' subscripts alone. */
static bool x_in_place(const Channelwise *d) {
    for (int i = 0; i < d->window.n_ranges; i++) {
        bool found = false;
        for (int s = 0; s < SIDES; s++)
            found = found || (d->side[s].subscript >= 0 && same_for_vector(d, d->side[s].subscript) &&
                              index_equal(d->window.subscript[d->side[s].subscript], d->window.range[i].x));
        if (!found) return false;
    }
    return whole_vectors(d);
}

static bool y_in_place(Channelwise *d) {
    return window_find(d->ke, d->y, true, &d->y_window) && d->y_window.n_ranges == 0 &&
           has_stride(d->ke, &d->y_window, d->v, d->width) && whole_vectors(d) &&
           (d->f < 0 || has_stride(d->ke, &d->y_window, d->f, 1));
}

static bool of_a_side(const Channelwise *d, int axis) {
    for (int s = 0; s < SIDES; s++)
        if (d->side[s].row == axis || d->side[s].tap == axis) return true;
    return false;
}

static void find_loops(Channelwise *d) {
    for (int i = 0; i < d->rows.n_axes; i++)
        if (!of_a_side(d, d->rows.axis[i])) d->row[d->n_rows++] = d->rows.axis[i];
    for (int i = 0; i < d->over.n_axes; i++)
        if (!of_a_side(d, d->over.axis[i])) d->sum[d->n_sums++] = d->over.axis[i];
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */
typedef struct ChannelPointers {
    LLVMValueRef x, y, c;
} ChannelPointers;

static LLVMValueRef moved(const Channelwise *d, LLVMValueRef p, LLVMValueRef by, int64_t stride) {
    const Emit *e = d->ke->e;
    return emit_f32_at(e, p, LLVMBuildMul(e->b, by, emit_i64(e, stride), ""));
}

static ChannelPointers moved_along(const Channelwise *d, ChannelPointers at, int axis, LLVMValueRef by) {
    return (ChannelPointers){moved(d, at.x, by, channel_x_stride(d, axis)), moved(d, at.y, by, d->y_place.stride[axis]),
                             moved(d, at.c, by, d->c_place.stride[axis])};
}

/* A loop over an axis, or none for axis -1. */
typedef struct AxisLoop {
    HostCounter counter;
    int axis;
    ChannelPointers at;
} AxisLoop;

static AxisLoop axis_open(Channelwise *d, int axis, LLVMValueRef start, LLVMValueRef end, int64_t step, ChannelPointers at) {
    KernelEmit *ke = d->ke;
    AxisLoop l = {.axis = axis, .at = at};
    if (axis < 0) return l;
    l.counter = counter_open(ke, start, end, step);
    l.at = moved_along(d, at, axis, l.counter.i);
    d->lane[axis] = LLVMBuildAdd(ke->e->b, ke->lo[axis], l.counter.i, "");
    return l;
}

static void axis_close(Channelwise *d, AxisLoop *l) {
    if (l->axis < 0) return;
    d->lane[l->axis] = NULL;
    counter_close(d->ke, &l->counter);
}

/* A block: parts of the two sides' rows and taps. */
typedef struct BlockParts {
    const Part *row[SIDES], *tap[SIDES];
} BlockParts;

void channel_set_places(Channelwise *d, int s, LLVMValueRef *args) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    LLVMValueRef limit[2] = {NULL, NULL};
    args[0] = args[1] = emit_i64(e, 0);
    if (d->side[s].subscript < 0 || !d->x_stays) return;
    window_limits(ke, &d->window, d->side[s].subscript, &limit[0], &limit[1]);
    LLVMValueRef here = window_subscript(ke, &d->window, d->side[s].subscript, d->lane);
    for (int i = 0; i < 2; i++)
        args[i] = limit[i] ? LLVMBuildSub(e->b, limit[i], here, "") : emit_i64(e, i == 0 ? INT32_MIN : INT32_MAX);
}

/* Where images come from memory and all channels of a place are walked in turn. */
static void find_runs(const Channelwise *d, MicroShape *shape) {
    const int64_t channels = step_of(d, d->v);
    const MicroSide *inner = &shape->side[INNER];
    if (!d->streamed || !single_tile(d, d->v) || channels % shape->lanes || d->side[INNER].subscript < 0) return;
    if (inner->x_row == inner->row * channels && inner->x_tap == inner->tap * channels) shape->x.run = channels;
    if (inner->y_tap == channels) shape->y.run = channels;
    for (int s = 0; s < SIDES; s++) {
        const MicroSide *c = &shape->side[s];
        shape->shift[s] = c->taps < step_of(d, d->side[s].tap) ? c->taps * c->tap : c->rows * c->row;
    }
}

/* Blocks walk several streams of lines, which no machine sees by itself: what the next block along the outer side
 * reads, or the one after this image's rows. */
static void look_ahead(const Channelwise *d, MicroShape *shape) {
    const Side *o = &d->side[OUTER];
    if (o->subscript < 0) return;
    const bool taps = o->taps < step_of(d, o->tap);
    const int axis = taps ? o->tap : o->row, lanes = taps ? o->taps : o->rows;
    if (d->x_stays && !d->strip && channel_from_afar(d, &d->window)) shape->x.ahead = d->x_place.stride[axis] * lanes;
    if (d->y_stays && channel_from_afar(d, &d->y_window)) shape->y.ahead = d->y_place.stride[axis] * lanes;
    find_runs(d, shape);
}

/* The sums of `groups` for the block at the cursor, `count` times along `axis`; -1: once. */
static void multiply_groups(Channelwise *d, const BlockParts *p, ChannelPointers at, int axis, LLVMValueRef count,
                            MicroGroups groups) {
    const Emit *e = d->ke->e;
    MicroShape shape = {.vectors = 1,
                        .lanes = (int64_t)d->wide * d->machine->vector,
                        .x = {.vector = 1},
                        .groups = groups,
                        .levels = axis >= 0,
                        .unroll = 1,
                        .fresh = d->fresh};
    LLVMValueRef args[MICRO_ARGS] = {[MICRO_X] = at.x, [MICRO_Y] = at.y, [MICRO_C] = at.c, [MICRO_COUNT] = axis >= 0 ? count : NULL};
    for (int s = 0; s < SIDES; s++) {
        const Side *side = &d->side[s];
        MicroSide *c = &shape.side[s];
        *c = channel_block_side(d, s, p->row[s]->size, p->tap[s]->size);
        channel_know_places(d, s, p->row[s], p->tap[s], c);
        channel_set_places(d, s, args + MICRO_PLACES + (ptrdiff_t)2 * s);
        if (side->subscript < 0) continue;
        c->x_row = channel_x_stride(d, side->row), c->x_tap = channel_x_stride(d, side->tap);
        c->c_row = d->c_place.stride[side->row], c->y_tap = d->y_place.stride[side->tap];
    }
    look_ahead(d, &shape);
    if (axis >= 0) {
        shape.x.step[0] = channel_x_stride(d, axis);
        shape.y.step[0] = d->y_place.stride[axis];
        shape.place_step = shape.side[OUTER].tap;
    }
    if (shape.x.run || shape.y.run) args[MICRO_CHANNEL] = LLVMBuildSub(e->b, d->lane[d->v], d->ke->lo[d->v], "");
    const char *name = arena_printf(d->ke->arena, "%s%s_%lld", in_groups(d) ? "groups" : "channels", d->fresh ? "_fresh" : "",
                                    (long long)shape.side[OUTER].x_row);
    micro_product(e, name, shape, args);
}

/* Rows within the groups are a call each. */
static void multiply(Channelwise *d, const BlockParts *p, ChannelPointers at, int axis, LLVMValueRef count) {
    MicroGroups g = {.width = d->width, .depth = d->depth, .count = d->q_summed ? d->depth : 1};
    if (d->q_summed) g.y_step = d->y_place.stride[d->q];
    for (; g.first < d->depth; g.first += g.count) {
        ChannelPointers here = at;
        if (!d->q_summed && d->q >= 0) here.c = moved(d, at.c, emit_i64(d->ke->e, g.first), d->c_place.stride[d->q]);
        multiply_groups(d, p, here, axis, count, g);
    }
}

/* All sums of a block of C, which begins from zero: a loop over outer taps that are not unrolled. */
static void sum_fresh(Channelwise *d, BlockParts *p, ChannelPointers at) {
    const int axis = d->side[OUTER].tap, taps = d->side[OUTER].taps;
    const bool loops = taps < step_of(d, axis);
    const Part outer = {.last = step_of(d, axis) - taps, .size = taps}, inner = {.size = d->side[INNER].taps};
    p->tap[OUTER] = &outer;
    p->tap[INNER] = &inner;
    multiply(d, p, at, loops ? axis : -1, loops ? lanes_of(d, axis) : emit_i64(d->ke->e, 1));
}

static void sum_once(Channelwise *d, BlockParts *p, ChannelPointers at) { multiply(d, p, at, -1, emit_i64(d->ke->e, 1)); }

/* One vector, or two, of channels after another, so that memory is walked in its order. */
static void each_vector(Channelwise *d, BlockParts *p, ChannelPointers at, void (*sum)(Channelwise *, BlockParts *, ChannelPointers)) {
    const int lanes = d->wide * d->machine->vector / d->width;
    LLVMValueRef end = d->strip ? emit_i64(d->ke->e, d->strip) : lanes_of(d, d->v);
    AxisLoop v = axis_open(d, d->v, emit_i64(d->ke->e, 0), end, lanes, at);
    sum(d, p, v.at);
    axis_close(d, &v);
}

static void sum_side(Channelwise *d, int side, BlockParts *p, ChannelPointers at) {
    Part part[MOST_PARTS];
    if (side == SIDES) {
        each_vector(d, p, at, sum_once);
        return;
    }
    const int n = channel_parts(d, side, false, part);
    for (int i = 0; i < n; i++) {
        p->tap[side] = &part[i];
        AxisLoop l = axis_open(d, d->side[side].tap, part[i].start, part[i].end, part[i].size, at);
        sum_side(d, side + 1, p, l.at);
        axis_close(d, &l);
    }
}

static void sum_block(Channelwise *d, BlockParts *p, ChannelPointers at) {
    if (d->fresh)
        each_vector(d, p, at, sum_fresh);
    else
        sum_side(d, 0, p, at);
}

static void multiply_blocks(Channelwise *d, int side, BlockParts *p, ChannelPointers at) {
    Part part[MOST_PARTS];
    if (side == SIDES) {
        sum_block(d, p, at);
        return;
    }
    const int n = channel_parts(d, side, true, part);
    for (int i = 0; i < n; i++) {
        p->row[side] = &part[i];
        AxisLoop l = axis_open(d, d->side[side].row, part[i].start, part[i].end, part[i].size, at);
        multiply_blocks(d, side + 1, p, l.at);
        axis_close(d, &l);
    }
}

/* Rows, then sums outside the blocks. */
static void multiply_rows(Channelwise *d, int n, ChannelPointers at) {
    BlockParts parts = {0};
    if (n == d->n_rows + d->n_sums) {
        if (d->strip) at.x = channel_stage(d, at.x);
        multiply_blocks(d, 0, &parts, at);
        return;
    }
    const int axis = n < d->n_rows ? d->row[n] : d->sum[n - d->n_rows];
    AxisLoop l = axis_open(d, axis, emit_i64(d->ke->e, 0), lanes_of(d, axis), 1, at);
    multiply_rows(d, n + 1, l.at);
    axis_close(d, &l);
}

/* A strip of channels after another, or all at once. */
static void multiply_strips(Channelwise *d, ChannelPointers at) {
    if (!d->strip) {
        multiply_rows(d, 0, at);
        return;
    }
    AxisLoop l = axis_open(d, d->v, emit_i64(d->ke->e, 0), lanes_of(d, d->v), d->strip, at);
    multiply_rows(d, 0, l.at);
    axis_close(d, &l);
}

/* ---- the factors ------------------------------------------------------------------------------------------------- */
static int64_t y_elements(const Channelwise *d) {
    const int64_t vector = d->machine->vector;
    int64_t n = (channels_of(d) + vector - 1) / vector * vector * (d->q_summed ? d->depth : 1);
    for (int i = 0; i < d->over.n_axes; i++) n *= step_of(d, d->over.axis[i]);
    return n;
}

static int add_axis(TileType *t, int axis) {
    *t = tile_type_union(*t, (TileType){.dtype = t->dtype, .n_axes = 1, .axis = {(int8_t)axis}});
    return axis;
}

static WindowPlace pack_y(const Channelwise *d) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int64_t vector = d->machine->vector;
    TileType axes = {.dtype = DT_F32};
    WindowPlace p = {.origin = nest_alloca(ke, e->f32, y_elements(d))};
    Sink s = {.kind = SINK_PACK, .value = d->y, .storage = -1, .pack = {.memory = p.origin}};
    int64_t next = (channels_of(d) + vector - 1) / vector * vector;
    if (d->f >= 0) p.stride[add_axis(&axes, d->f)] = 1;
    p.stride[add_axis(&axes, d->v)] = d->width;
    for (int i = d->over.n_axes - 1; i >= 0; next *= step_of(d, d->over.axis[i--]))
        p.stride[add_axis(&axes, d->over.axis[i])] = next;
    if (d->q_summed) p.stride[add_axis(&axes, d->q)] = next;
    for (int i = 0; i < axes.n_axes; i++) s.pack.stride[axes.axis[i]] = emit_i64(e, p.stride[axes.axis[i]]);
    nest_emit(ke, &axes, 1, &s);
    return p;
}

/* ---- the product ------------------------------------------------------------------------------------------------- */
/* All its sums at once, in registers, of lanes that exist: then it can begin from zero. */
static bool is_whole(Channelwise d) {
    HostSchedule any = {.sums = 0};
    if (!whole_vectors(&d)) return false;
    find_loops(&d);
    for (int i = 0; i < d.over.n_axes; i++)
        if (!single_tile(&d, d.over.axis[i])) return false;
    d.fresh = true;
    return d.n_sums == 0 && channel_choose_block(&d, &any);
}

/* What is packed of the factors. */
static bool packs_fit(const Channelwise *d) {
    enum { MOST_BYTES = 1 << 20 };
    const int64_t x = d->x_stays ? 0 : window_elements(d->ke->k, &d->window, d->machine->vector);
    return 4 * (x + (d->y_stays ? 0 : y_elements(d))) <= MOST_BYTES;
}

/* A row's element is loaded once for the taps of a block, a factor once for its rows. */
static HostWork channel_work(const Channelwise *d) {
    const double lanes = d->machine->vector;
    double rows = (double)channels_of(d) / lanes, taps = d->q >= 0 ? d->depth : 1;
    for (int i = 0; i < d->rows.n_axes; i++) rows *= (double)step_of(d, d->rows.axis[i]);
    for (int i = 0; i < d->over.n_axes; i++) taps *= (double)step_of(d, d->over.axis[i]);
    const double x = d->x_stays ? 0 : (double)window_elements(d->ke->k, &d->window, d->machine->vector) / lanes;
    const double y = d->y_stays ? 0 : (double)y_elements(d) / lanes;
    return (HostWork){.products = rows * taps, .loads = rows * taps, .read = x + y, .packed = x, .evaluated = y, .results = 2 * rows};
}

bool channelwise_plan(FormPlan *p) {
    Channelwise *d = p->of_form = ARENA_NEW(p->ke->arena, Channelwise);
    *d = (Channelwise){.ke = p->ke, .dot = p->dot, .machine = p->machine, .c = form_storage(p)};
    if (!classify(d)) return false;
    find_sides(d);
    d->x_stays = x_in_place(d);
    d->y_stays = y_in_place(d);
    if (in_groups(d) && !(whole_vectors(d) && (d->x_stays || packs_closely(d))))
        return form_refuse(p, "its groups fill no vectors");
    if (!packs_fit(d)) return form_refuse(p, "its window and factor are too large");
    p->work = channel_work(d);
    p->starts = p->whole = form_sums_at_once(p) && is_whole(*d);
    return true;
}

/* In strips where the image conflicts in cache sets, in place where it can be, else as the box of its elements. */
static bool choose_ways(Channelwise *d, HostSchedule *s) {
    const unsigned box = !in_groups(d) || packs_closely(d) ? 1u << WAY_BOX : 0;
    const unsigned stays = d->x_stays ? 1u << WAY_IN_PLACE | 1u << WAY_STRIPS : 0;
    const int64_t strip = d->x_stays && s->x == WAY_NONE ? channel_choose_strip(d) : 0;
    const bool x = form_way(&s->x, strip ? WAY_STRIPS : d->x_stays ? WAY_IN_PLACE : WAY_BOX, box | stays);
    const bool y = form_way(&s->y, d->y_stays ? WAY_IN_PLACE : WAY_PACKED, 1u << WAY_PACKED | (unsigned)d->y_stays << WAY_IN_PLACE);
    if (s->x == WAY_STRIPS && s->strip == 0) s->strip = (int)strip;
    d->strip = s->strip;
    d->x_stays = s->x != WAY_BOX;
    d->y_stays = s->y == WAY_IN_PLACE;
    return x && y && packs_fit(d) && (s->x == WAY_STRIPS ? channel_strip_fits(d, s->strip) : s->strip == 0);
}

bool channelwise_choose(FormPlan *p) {
    Channelwise *d = p->of_form;
    d->fresh = p->loop != NULL;
    find_loops(d);
    return choose_ways(d, &p->s) && channel_choose_block(d, &p->s) && d->strip % p->s.columns == 0;
}

static Placed placed_c(const Channelwise *d, const FormPlan *p, const DotResult *to) {
    Placed l = {.origin = p->store ? to->memory : d->ke->memory[p->storage]};
    for (int i = 0; i < d->c->n; i++) {
        const int axis = d->c->axis[i];
        l.stride[axis] = d->c->stride[i];
        if (p->store) access_affine(d->ke->k, p->store, axis, &l.stride[axis]);
    }
    return l;
}

void channelwise_emit(const FormPlan *p, const DotResult *to) {
    KernelEmit *ke = p->ke;
    Channelwise d = *(const Channelwise *)p->of_form;
    d.c = form_storage(p);
    const int64_t elements = window_elements(ke->k, &d.window, p->machine->vector);
    LLVMPositionBuilderAtEnd(ke->e->b, ke->current);
    d.x_place = d.x_stays ? window_in_place(ke, &d.window)
                          : window_pack(ke, &d.window, nest_alloca(ke, ke->e->f32, elements), p->machine);
    d.y_place = d.y_stays ? window_in_place(ke, &d.y_window) : pack_y(&d);
    d.c_place = placed_c(&d, p, to);
    if (d.strip) channel_stage_begin(&d);
    multiply_strips(&d, (ChannelPointers){d.x_place.origin, d.y_place.origin, d.c_place.origin});
}
