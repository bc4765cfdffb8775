/* Products channel by channel, one factor read through a window: depthwise convolutions and their gradients.
 *
 *     C[rows, v] += X[window of rows and k, v] * Y[k, v]
 *
 * The innermost axis, v, stands in both factors: there is no matrix product to be had, but every load is a vector of v.
 * X is packed as the box of its elements (window.h), or read in place where it has no conditions.  A block of rows
 * stays in registers while k runs; each step is a vector of Y against one of X per row. */
#include "codegen/host/counter.h"
#include "codegen/host/kernel.h"
#include "codegen/host/window.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_BLOCK = 24, WIDE_BLOCK = 16, MOST_TAPS = 7 };

/* Rows of a block: n[0] x n[1] of them, constant strides apart. */
typedef struct Block2 {
    int n[2];
    int64_t x[2], c[2];
} Block2;

typedef struct Channelwise {
    KernelEmit *ke;
    const Inst *dot;
    const HostMachine *machine;
    const Storage *c;
    int v, x, y; /* the axis; values */
    TileType over;
    Window window, y_window;
    bool y_lies; /* Y is read where it lies */
    WindowPlace x_place, y_place;
    int n_rows, row[MAX_TILE_AXES]; /* row axes outside a block, outermost first */
    int n_block, block_axis[2];     /* those of a block, outermost first */
    int n_sums, sum[MAX_TILE_AXES]; /* outermost first */
    int tap;                        /* inside them, unrolled; -1: none */
} Channelwise;

/* ---- the inner function
 * -------------------------------------------------------------------------------------------------- */
/* Steps of k: taps, unrolled, inside a loop. */
typedef struct ChannelShape {
    Block2 block;
    int lanes;
    int64_t x_step, y_step; /* of the loop */
    int n_taps;
    int64_t x_tap, y_tap;
} ChannelShape;

enum { ARG_X, ARG_Y, ARG_C, ARG_COUNT, ARGS };

typedef struct Micro {
    const Emit *e;
    LLVMValueRef fn;
    LLVMTypeRef vector;
    const ChannelShape *s;
    int rows;
} Micro;

static LLVMValueRef element_at(const Emit *e, LLVMValueRef p, LLVMValueRef offset) {
    return LLVMBuildGEP2(e->b, e->f32, p, &offset, 1, "");
}

static LLVMValueRef at_constant(const Emit *e, LLVMValueRef p, int64_t offset) {
    return element_at(e, p, emit_i64(e, offset));
}

static int64_t row_offset(const Micro *m, const int64_t *stride, int row) {
    return row / m->s->block.n[1] * stride[0] + row % m->s->block.n[1] * stride[1];
}

static LLVMValueRef load(const Micro *m, LLVMValueRef p) {
    LLVMValueRef v = LLVMBuildLoad2(m->e->b, m->vector, p, "");
    LLVMSetAlignment(v, 4);
    return v;
}

typedef struct Product {
    int64_t x; /* offset */
    int row, tap;
} Product;

/* Terms of one step by rising offset in X: what several rows read at different taps is loaded once and soon forgotten.
 */
static int order_terms(const Micro *m, Product *term) {
    int n = 0;
    for (int tap = 0; tap < m->s->n_taps; tap++)
        for (int r = 0; r < m->rows; r++) {
            const Product t = {tap * m->s->x_tap + row_offset(m, m->s->block.x, r), r, tap};
            int at = n++;
            for (; at > 0 && term[at - 1].x > t.x; at--) term[at] = term[at - 1];
            term[at] = t;
        }
    return n;
}

static void one_step(const Micro *m, LLVMValueRef x, LLVMValueRef y, LLVMValueRef *acc) {
    const Emit *e = m->e;
    Product term[MOST_BLOCK * MOST_TAPS];
    LLVMValueRef factor[MOST_TAPS], at = NULL;
    const int n = order_terms(m, term);
    for (int tap = 0; tap < m->s->n_taps; tap++) factor[tap] = load(m, at_constant(e, y, tap * m->s->y_tap));
    for (int i = 0; i < n; i++) {
        if (i == 0 || term[i].x != term[i - 1].x) at = load(m, at_constant(e, x, term[i].x));
        acc[term[i].row] = emit_fma(e, DT_F32, at, factor[term[i].tap], acc[term[i].row]);
    }
}

static void micro_body(const Micro *m) {
    const Emit *e = m->e;
    LLVMBasicBlockRef entry = emit_block(e, m->fn, "entry"), body = emit_block(e, m->fn, "k"),
                      done = emit_block(e, m->fn, "done");
    LLVMValueRef start[MOST_BLOCK], acc[MOST_BLOCK], next[MOST_BLOCK];
    LLVMPositionBuilderAtEnd(e->b, entry);
    for (int r = 0; r < m->rows; r++)
        start[r] = load(m, at_constant(e, LLVMGetParam(m->fn, ARG_C), row_offset(m, m->s->block.c, r)));
    LLVMBuildBr(e->b, body);
    LLVMPositionBuilderAtEnd(e->b, body);
    LLVMValueRef left = LLVMBuildPhi(e->b, e->i64, ""), x = LLVMBuildPhi(e->b, e->ptr, ""),
                 y = LLVMBuildPhi(e->b, e->ptr, "");
    for (int r = 0; r < m->rows; r++) next[r] = acc[r] = LLVMBuildPhi(e->b, m->vector, "");
    one_step(m, x, y, next);
    LLVMValueRef less = LLVMBuildSub(e->b, left, emit_i64(e, 1), "");
    LLVMValueRef x1 = at_constant(e, x, m->s->x_step), y1 = at_constant(e, y, m->s->y_step);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, less, emit_i64(e, 0), ""), body, done);
    LLVMBasicBlockRef from[2] = {entry, body};
    LLVMAddIncoming(left, (LLVMValueRef[]){LLVMGetParam(m->fn, ARG_COUNT), less}, from, 2);
    LLVMAddIncoming(x, (LLVMValueRef[]){LLVMGetParam(m->fn, ARG_X), x1}, from, 2);
    LLVMAddIncoming(y, (LLVMValueRef[]){LLVMGetParam(m->fn, ARG_Y), y1}, from, 2);
    LLVMPositionBuilderAtEnd(e->b, done);
    for (int r = 0; r < m->rows; r++) {
        LLVMAddIncoming(acc[r], (LLVMValueRef[]){start[r], next[r]}, from, 2);
        LLVMValueRef to = at_constant(e, LLVMGetParam(m->fn, ARG_C), row_offset(m, m->s->block.c, r));
        LLVMSetAlignment(LLVMBuildStore(e->b, next[r], to), 4);
    }
    LLVMBuildRetVoid(e->b);
}

/* void (x, y, c, count): rows of c += the sum over i < count of x[row + i * x_step] * y[i * y_step], vectors all; count
 * >= 1. Small: it becomes part of the loops around it. */
static LLVMValueRef channel_product(const Emit *e, const ChannelShape *s) {
    const Block2 *b = &s->block;
    char name[320];
    snprintf(name, sizeof name, "fusec.channels_%dx%d_%lld_%lld_%lld_%lld_%lld_%lld_%d_%lld_%lld", b->n[0], b->n[1],
             (long long)b->x[0], (long long)b->x[1], (long long)b->c[0], (long long)b->c[1], (long long)s->x_step,
             (long long)s->y_step, s->n_taps, (long long)s->x_tap, (long long)s->y_tap);
    LLVMValueRef known = LLVMGetNamedFunction(e->module, name);
    if (known) return known;
    LLVMTypeRef params[ARGS] = {e->ptr, e->ptr, e->ptr, e->i64};
    const Micro m = {.e = e,
                     .fn = LLVMAddFunction(e->module, name, LLVMFunctionType(e->none, params, ARGS, false)),
                     .vector = LLVMVectorType(e->f32, (unsigned)s->lanes),
                     .s = s,
                     .rows = b->n[0] * b->n[1]};
    LLVMSetLinkage(m.fn, LLVMInternalLinkage);
    emit_fn_attribute(e, m.fn, "noinline");
    emit_fn_attribute(e, m.fn, "nounwind");
    for (int i = ARG_X; i <= ARG_C; i++) emit_param_attribute(e, m.fn, i, "noalias", 0);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    micro_body(&m);
    LLVMPositionBuilderAtEnd(e->b, here);
    return m.fn;
}

/* ---- roles
 * ---------------------------------------------------------------------------------------------------------------- */
static bool contiguous_in(const KernelEmit *ke, const Window *w, int axis) {
    int64_t coef;
    return access_affine(ke->k, w->load, axis, &coef) && coef == 1;
}

/* X has every axis of C and the sum, Y all but the rows. */
static bool classify(Channelwise *d) {
    const KernelEmit *ke = d->ke;
    const Kernel *k = ke->k;
    TileType rows = {0};
    if (d->c->n < 2 || d->c->dtype != DT_F32) return false;
    d->v = d->c->axis[d->c->n - 1];
    for (int i = 0; i < d->c->n - 1; i++) rows.axis[rows.n_axes++] = d->c->axis[i];
    for (int i = 0; i < d->dot->n_over; i++)
        if (!axis_trivial(k, d->dot->over[i])) d->over.axis[d->over.n_axes++] = d->dot->over[i];
    for (int swap = 0; swap < 2; swap++) {
        d->x = d->dot->in[swap], d->y = d->dot->in[!swap];
        const TileType *x = &k->types.at[d->x], *y = &k->types.at[d->y];
        bool fits =
            x->dtype == DT_F32 && y->dtype == DT_F32 && d->over.n_axes > 0 && type_has(x, d->v) && type_has(y, d->v);
        for (int i = 0; i < rows.n_axes; i++) fits = fits && type_has(x, rows.axis[i]) && !type_has(y, rows.axis[i]);
        for (int i = 0; i < d->over.n_axes; i++)
            fits = fits && type_has(x, d->over.axis[i]) && type_has(y, d->over.axis[i]);
        if (fits && window_find(ke, d->x, true, &d->window) && window_slides(k, &d->window, &rows, &d->over))
            return contiguous_in(ke, &d->window, d->v);
    }
    return false;
}

/* ---- loops
 * ------------------------------------------------------------------------------------------------------------------ */
static int64_t step_of(const Channelwise *d, int axis) { return d->ke->k->axes.at[axis].step; }

static LLVMValueRef lanes_of(const Channelwise *d, int axis) {
    return LLVMBuildSub(d->ke->e->b, d->ke->hi[axis], d->ke->lo[axis], "");
}

static LLVMValueRef moved(const Channelwise *d, LLVMValueRef p, LLVMValueRef by, int64_t stride) {
    const Emit *e = d->ke->e;
    return element_at(e, p, LLVMBuildMul(e->b, by, emit_i64(e, stride), ""));
}

static int64_t c_stride(const Channelwise *d, int axis) {
    for (int i = 0; i < d->c->n; i++)
        if (d->c->axis[i] == axis) return d->c->stride[i];
    return 0;
}

/* A block takes the innermost row axis, and the one outside it where both are short. */
static void choose_block(Channelwise *d) {
    int n = d->c->n - 1;
    d->block_axis[1] = d->c->axis[--n];
    d->n_block = 1;
    if (n > 0 && step_of(d, d->block_axis[1]) * step_of(d, d->c->axis[n - 1]) <= MOST_BLOCK) {
        d->block_axis[0] = d->c->axis[--n];
        d->n_block = 2;
    }
    for (int i = 0; i < n; i++) d->row[d->n_rows++] = d->c->axis[i];
    for (int i = 0; i < d->over.n_axes; i++) {
        const int axis = d->over.axis[i];
        int at = d->n_sums++;
        for (; at > 0 && llabs(d->x_place.stride[d->sum[at - 1]]) < llabs(d->x_place.stride[axis]); at--)
            d->sum[at] = d->sum[at - 1];
        d->sum[at] = axis;
    }
}

typedef struct Cursor {
    LLVMValueRef x, y, c;
} Cursor;

/* The sums outside the unrolled ones; the innermost of them is the inner function's loop. */
static void sum_axis(const Channelwise *d, int n, Cursor at, ChannelShape *s) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int axis = n < d->n_sums ? d->sum[n] : -1;
    if (n >= d->n_sums - 1) {
        s->x_step = axis < 0 ? 0 : d->x_place.stride[axis];
        s->y_step = axis < 0 ? 0 : d->y_place.stride[axis];
        LLVMValueRef args[ARGS] = {at.x, at.y, at.c, axis < 0 ? emit_i64(e, 1) : lanes_of(d, axis)};
        emit_call(e, channel_product(e, s), ARGS, args);
        return;
    }
    HostCounter c = counter_open(ke, emit_i64(e, 0), lanes_of(d, axis), 1);
    sum_axis(d, n + 1,
             (Cursor){moved(d, at.x, c.i, d->x_place.stride[axis]), moved(d, at.y, c.i, d->y_place.stride[axis]), at.c},
             s);
    counter_close(ke, &c);
}

static bool whole(const Channelwise *d, int axis) {
    const Axis *x = &d->ke->k->axes.at[axis];
    return dim_is_fixed(x->extent) && x->extent.bound % x->step == 0;
}

/* The innermost sum becomes taps where it has few steps. */
static void take_taps(Channelwise *d) {
    const int axis = d->sum[d->n_sums - 1];
    d->tap = -1;
    if (!whole(d, axis) || step_of(d, axis) > MOST_TAPS) return;
    d->tap = axis;
    d->n_sums--;
}

static void shape_taps(const Channelwise *d, ChannelShape *s) {
    s->n_taps = d->tap < 0 ? 1 : (int)step_of(d, d->tap);
    s->x_tap = d->tap < 0 ? 0 : d->x_place.stride[d->tap];
    s->y_tap = d->tap < 0 ? 0 : d->y_place.stride[d->tap];
}

static void multiply_blocks(const Channelwise *d, Cursor at) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int inner = d->block_axis[1], outer = d->n_block == 2 ? d->block_axis[0] : -1;
    const int64_t lanes = step_of(d, inner), xs = d->x_place.stride[inner], cs = c_stride(d, inner);
    const int64_t blocks = outer >= 0 ? 1 : (lanes + WIDE_BLOCK - 1) / WIDE_BLOCK, small = lanes / blocks,
                  greater = lanes % blocks;
    for (int i = 0; i < 2; i++) {
        const int64_t size = i == 0 ? small + 1 : small, start = i == 0 ? 0 : greater * (small + 1),
                      end = i == 0 ? greater * (small + 1) : lanes;
        if (start == end) continue;
        ChannelShape s = {.lanes = d->machine->vector,
                          .block = {.n = {outer < 0 ? 1 : (int)step_of(d, outer), (int)size},
                                    .x = {outer < 0 ? 0 : d->x_place.stride[outer], xs},
                                    .c = {outer < 0 ? 0 : c_stride(d, outer), cs}}};
        shape_taps(d, &s);
        HostCounter c = counter_open(ke, emit_i64(e, start), emit_i64(e, end), size);
        sum_axis(d, 0, (Cursor){moved(d, at.x, c.i, xs), at.y, moved(d, at.c, c.i, cs)}, &s);
        counter_close(ke, &c);
    }
}

static void multiply_rows(const Channelwise *d, int n, Cursor at) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    if (n < d->n_rows) {
        const int axis = d->row[n];
        HostCounter c = counter_open(ke, emit_i64(e, 0), lanes_of(d, axis), 1);
        multiply_rows(
            d, n + 1,
            (Cursor){moved(d, at.x, c.i, d->x_place.stride[axis]), at.y, moved(d, at.c, c.i, c_stride(d, axis))});
        counter_close(ke, &c);
        return;
    }
    multiply_blocks(d, at);
}

/* ---- the second factor
 * ------------------------------------------------------------------------------------------------------ */
/* Whole vectors of existing lanes may be read where it lies. */
static bool y_in_place(Channelwise *d) {
    const KernelEmit *ke = d->ke;
    if (!window_find(ke, d->y, true, &d->y_window) || d->y_window.n_ranges > 0 ||
        !contiguous_in(ke, &d->y_window, d->v))
        return false;
    const Axis *v = &ke->k->axes.at[d->v];
    return dim_is_fixed(v->extent) && v->extent.bound % v->step == 0 && v->step % d->machine->vector == 0;
}

static int64_t y_elements(const Channelwise *d) {
    const int64_t vector = d->machine->vector;
    int64_t n = (step_of(d, d->v) + vector - 1) / vector * vector;
    for (int i = 0; i < d->over.n_axes; i++) n *= step_of(d, d->over.axis[i]);
    return n;
}

static WindowPlace pack_y(const Channelwise *d) {
    KernelEmit *ke = d->ke;
    const Emit *e = ke->e;
    const int64_t vector = d->machine->vector;
    TileType axes = {.dtype = DT_F32, .n_axes = 1, .axis = {(int8_t)d->v}};
    WindowPlace p = {.origin = nest_alloca(ke, e->f32, y_elements(d))};
    Sink s = {.kind = SINK_PACK, .value = d->y, .storage = -1, .pack = {.memory = p.origin}};
    int64_t next = (step_of(d, d->v) + vector - 1) / vector * vector;
    axes = tile_type_union(axes, d->over);
    s.pack.stride[d->v] = emit_i64(e, 1);
    for (int i = d->over.n_axes - 1; i >= 0; i--) {
        const int axis = d->over.axis[i];
        p.stride[axis] = next;
        s.pack.stride[axis] = emit_i64(e, next);
        next *= step_of(d, axis);
    }
    nest_emit(ke, &axes, 1, &s);
    return p;
}

static bool plan(Channelwise *d, KernelEmit *ke, const Inst *inst, int storage, const HostMachine *machine) {
    enum { MOST_BYTES = 1 << 20 };
    *d = (Channelwise){.ke = ke, .dot = inst, .machine = machine, .c = &ke->v->storage.at[storage]};
    if (!classify(d)) return false;
    d->y_lies = y_in_place(d);
    return 4 * (window_elements(ke->k, &d->window, machine->vector) + (d->y_lies ? 0 : y_elements(d))) <= MOST_BYTES;
}

bool channelwise_fits(KernelEmit *ke, const Inst *inst, int storage, const HostMachine *machine) {
    Channelwise d;
    return plan(&d, ke, inst, storage, machine);
}

bool channelwise_emit(KernelEmit *ke, const Inst *inst, int storage, const HostMachine *machine) {
    Channelwise d;
    if (!plan(&d, ke, inst, storage, machine)) return false;
    const int64_t elements = window_elements(ke->k, &d.window, machine->vector);
    LLVMPositionBuilderAtEnd(ke->e->b, ke->current);
    d.x_place = window_pack(ke, &d.window, nest_alloca(ke, ke->e->f32, elements), machine);
    d.y_place = d.y_lies ? window_in_place(ke, &d.y_window) : pack_y(&d);
    choose_block(&d);
    take_taps(&d);
    /* a vector of channels at a time: its part of the window stays in the innermost cache while places overlap */
    HostCounter v = counter_open(ke, emit_i64(ke->e, 0), lanes_of(&d, d.v), machine->vector);
    multiply_rows(&d, 0,
                  (Cursor){element_at(ke->e, d.x_place.origin, v.i), element_at(ke->e, d.y_place.origin, v.i),
                           element_at(ke->e, ke->memory[storage], v.i)});
    counter_close(ke, &v);
    return true;
}
