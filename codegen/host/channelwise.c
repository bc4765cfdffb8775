/* Products channel by channel; codegen/schedule/channel.c says how they are made. */
#include "codegen/host/channel.h"
#include "codegen/host/counter.h"

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

static AxisLoop axis_open(Channelwise *d, int axis, LLVMValueRef start, LLVMValueRef end, int64_t step,
                          ChannelPointers at) {
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
    const BlockRange *row[SIDES], *tap[SIDES];
} BlockParts;

void channel_set_places(Channelwise *d, int s, LLVMValueRef *args) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    LLVMValueRef limit[2] = {NULL, NULL};
    args[0] = args[1] = emit_i64(e, 0);
    if (d->p->side[s].subscript < 0 || !d->p->x_stays) return;
    window_limits(ke, &d->p->window, d->p->side[s].subscript, &limit[0], &limit[1]);
    LLVMValueRef here = window_subscript(ke, &d->p->window, d->p->side[s].subscript, d->lane);
    for (int i = 0; i < 2; i++)
        args[i] = limit[i] ? LLVMBuildSub(e->b, limit[i], here, "") : emit_i64(e, i == 0 ? INT32_MIN : INT32_MAX);
}

/* Where images come from memory and all channels of a place are walked in turn. */
static void find_runs(const Channelwise *d, MicroShape *shape) {
    const int64_t channels = step_of(d->p, d->p->v);
    const MicroSide *inner = &shape->side[INNER];
    if (!d->p->streamed || !single_tile(d->p, d->p->v) || channels % shape->lanes || d->p->side[INNER].subscript < 0)
        return;
    if (inner->x_row == inner->row * channels && inner->x_tap == inner->tap * channels) shape->x.run = channels;
    if (inner->y_tap == channels) shape->y.run = channels;
    for (int s = 0; s < SIDES; s++) {
        const MicroSide *c = &shape->side[s];
        shape->shift[s] = c->taps < step_of(d->p, d->p->side[s].tap) ? c->taps * c->tap : c->rows * c->row;
    }
}

/* Blocks walk several streams of lines, which no machine sees by itself: what the next block along the outer side
 * reads, or the one after this image's rows. */
static void look_ahead(const Channelwise *d, MicroShape *shape) {
    const Side *o = &d->p->side[OUTER];
    if (o->subscript < 0) return;
    const bool taps = o->taps < step_of(d->p, o->tap);
    const int axis = taps ? o->tap : o->row, lanes = taps ? o->taps : o->rows;
    if (d->p->x_stays && !d->p->strip && channel_from_afar(d->p, &d->p->window))
        shape->x.ahead = d->x_place.stride[axis] * lanes;
    if (d->p->y_stays && channel_from_afar(d->p, &d->p->y_window)) shape->y.ahead = d->y_place.stride[axis] * lanes;
    find_runs(d, shape);
}

/* The sums of `groups` for the block at the cursor, `count` times along `axis`; -1: once. */
static void multiply_groups(Channelwise *d, const BlockParts *p, ChannelPointers at, int axis, LLVMValueRef count,
                            MicroGroups groups) {
    const Emit *e = d->ke->e;
    MicroShape shape = {.vectors = 1,
                        .lanes = (int64_t)d->p->wide * d->ke->plan->machine->vector,
                        .x = {.vector = 1},
                        .groups = groups,
                        .levels = axis >= 0,
                        .unroll = 1,
                        .fresh = d->p->fresh};
    LLVMValueRef args[MICRO_ARGS] = {
        [MICRO_X] = at.x, [MICRO_Y] = at.y, [MICRO_C] = at.c, [MICRO_COUNT] = axis >= 0 ? count : NULL};
    for (int s = 0; s < SIDES; s++) {
        const Side *side = &d->p->side[s];
        MicroSide *c = &shape.side[s];
        *c = channel_block_side(d->p, s, p->row[s]->size, p->tap[s]->size);
        channel_know_places(d->p, s, p->row[s], p->tap[s], c);
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
    if (shape.x.run || shape.y.run) args[MICRO_CHANNEL] = LLVMBuildSub(e->b, d->lane[d->p->v], d->ke->lo[d->p->v], "");
    const char *name = arena_printf(d->ke->arena, "%s%s_%lld", in_groups(d->p) ? "groups" : "channels",
                                    d->p->fresh ? "_fresh" : "", (long long)shape.side[OUTER].x_row);
    micro_product(e, name, shape, args);
}

/* Rows within the groups are a call each. */
static void multiply(Channelwise *d, const BlockParts *p, ChannelPointers at, int axis, LLVMValueRef count) {
    MicroGroups g = {.width = d->p->width, .depth = d->p->depth, .count = d->p->q_summed ? d->p->depth : 1};
    if (d->p->q_summed) g.y_step = d->y_place.stride[d->p->q];
    for (; g.first < d->p->depth; g.first += g.count) {
        ChannelPointers here = at;
        if (!d->p->q_summed && d->p->q >= 0)
            here.c = moved(d, at.c, emit_i64(d->ke->e, g.first), d->c_place.stride[d->p->q]);
        multiply_groups(d, p, here, axis, count, g);
    }
}

/* All sums of a block of C, which begins from zero: a loop over outer taps that are not unrolled. */
static void sum_fresh(Channelwise *d, BlockParts *p, ChannelPointers at) {
    const int axis = d->p->side[OUTER].tap, taps = d->p->side[OUTER].taps;
    const bool loops = taps < step_of(d->p, axis);
    const BlockRange outer = {.last = step_of(d->p, axis) - taps, .size = taps},
                     inner = {.size = d->p->side[INNER].taps};
    p->tap[OUTER] = &outer;
    p->tap[INNER] = &inner;
    multiply(d, p, at, loops ? axis : -1, loops ? lanes_of(d, axis) : emit_i64(d->ke->e, 1));
}

static void sum_once(Channelwise *d, BlockParts *p, ChannelPointers at) {
    multiply(d, p, at, -1, emit_i64(d->ke->e, 1));
}

/* One vector, or two, of channels after another, so that memory is walked in its order. */
static void each_vector(Channelwise *d, BlockParts *p, ChannelPointers at,
                        void (*sum)(Channelwise *, BlockParts *, ChannelPointers)) {
    const int lanes = d->p->wide * d->ke->plan->machine->vector / d->p->width;
    LLVMValueRef end = d->p->strip ? emit_i64(d->ke->e, d->p->strip) : lanes_of(d, d->p->v);
    AxisLoop v = axis_open(d, d->p->v, emit_i64(d->ke->e, 0), end, lanes, at);
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
        p->tap[side] = &part[i].of;
        AxisLoop l = axis_open(d, d->p->side[side].tap, part[i].start, part[i].end, part[i].of.size, at);
        sum_side(d, side + 1, p, l.at);
        axis_close(d, &l);
    }
}

static void sum_block(Channelwise *d, BlockParts *p, ChannelPointers at) {
    if (d->p->fresh)
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
        p->row[side] = &part[i].of;
        AxisLoop l = axis_open(d, d->p->side[side].row, part[i].start, part[i].end, part[i].of.size, at);
        multiply_blocks(d, side + 1, p, l.at);
        axis_close(d, &l);
    }
}

/* Rows, then sums outside the blocks. */
static void multiply_rows(Channelwise *d, int n, ChannelPointers at) {
    BlockParts parts = {0};
    if (n == d->p->n_rows + d->p->n_sums) {
        if (d->p->strip) at.x = channel_stage(d, at.x);
        multiply_blocks(d, 0, &parts, at);
        return;
    }
    const int axis = n < d->p->n_rows ? d->p->row[n] : d->p->sum[n - d->p->n_rows];
    AxisLoop l = axis_open(d, axis, emit_i64(d->ke->e, 0), lanes_of(d, axis), 1, at);
    multiply_rows(d, n + 1, l.at);
    axis_close(d, &l);
}

/* A strip of channels after another, or all at once. */
static void multiply_strips(Channelwise *d, ChannelPointers at) {
    if (!d->p->strip) {
        multiply_rows(d, 0, at);
        return;
    }
    AxisLoop l = axis_open(d, d->p->v, emit_i64(d->ke->e, 0), lanes_of(d, d->p->v), d->p->strip, at);
    multiply_rows(d, 0, l.at);
    axis_close(d, &l);
}

/* ---- the product ------------------------------------------------------------------------------------------------- */
static int add_axis(TileType *t, int axis) {
    *t = tile_type_union(*t, (TileType){.dtype = t->dtype, .n_axes = 1, .axis = {(int8_t)axis}});
    return axis;
}

static WindowPlace pack_y(const Channelwise *d) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int64_t vector = d->ke->plan->machine->vector;
    TileType axes = {.dtype = DT_F32};
    WindowPlace p = {.origin = nest_alloca(ke, e->f32, channel_y_elements(d->p))};
    Sink s = {.of = {.kind = SINK_PACK, .value = d->p->y, .storage = -1}, .pack = {.memory = p.origin}};
    int64_t next = (channels_of(d->p) + vector - 1) / vector * vector;
    if (d->p->f >= 0) p.stride[add_axis(&axes, d->p->f)] = 1;
    p.stride[add_axis(&axes, d->p->v)] = d->p->width;
    for (int i = d->p->over.n_axes - 1; i >= 0; next *= step_of(d->p, d->p->over.axis[i--]))
        p.stride[add_axis(&axes, d->p->over.axis[i])] = next;
    if (d->p->q_summed) p.stride[add_axis(&axes, d->p->q)] = next;
    for (int i = 0; i < axes.n_axes; i++) s.pack.stride[axes.axis[i]] = emit_i64(e, p.stride[axes.axis[i]]);
    nest_emit(ke, &axes, 1, &s);
    return p;
}

static Placed placed_c(const Channelwise *d, const FormPlan *p, const DotResult *to) {
    Placed l = {.origin = p->store ? to->memory : d->ke->memory[p->storage]};
    for (int i = 0; i < d->p->c->n; i++) {
        const int axis = d->p->c->axis[i];
        l.stride[axis] = d->p->c->stride[i];
        if (p->store) access_affine(d->ke->k, p->store, axis, &l.stride[axis]);
    }
    return l;
}

void channelwise_emit(KernelEmit *ke, const FormPlan *p, const DotResult *to) {
    Channelwise d = {.ke = ke, .p = p->of_form};
    LLVMPositionBuilderAtEnd(ke->e->b, ke->current);
    d.x_place = d.p->x_stays ? window_in_place(ke, &d.p->window) : window_pack(ke, &d.p->window);
    d.y_place = d.p->y_stays ? window_in_place(ke, &d.p->y_window) : pack_y(&d);
    d.c_place = placed_c(&d, p, to);
    if (d.p->strip) channel_stage_begin(&d);
    multiply_strips(&d, (ChannelPointers){d.x_place.origin, d.y_place.origin, d.c_place.origin});
}
