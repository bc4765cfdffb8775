/* Where a window lies, and how its box is packed; see window_pack.h.  Its constants are from `./dev bench conv`. */
#include "codegen/host/window_pack.h"
#include "codegen/host/counter.h"
#include <stdio.h>
#include <string.h>

/* ---- index values ------------------------------------------------------------------------------------------------ */
typedef struct Lanes {
    KernelEmit *ke;
    const LLVMValueRef *lane; /* by axis; NULL: lane lo */
} Lanes;

static LLVMValueRef lane_axis(void *user, int axis) {
    const Lanes *l = user;
    const Emit *e = l->ke->e;
    LLVMValueRef lane = l->lane && l->lane[axis] ? l->lane[axis] : l->ke->lo[axis];
    return lane ? LLVMBuildAdd(e->b, l->ke->base[axis], lane, "") : l->ke->base[axis];
}

static LLVMValueRef lane_extent(void *user, int sym) { return ((Lanes *)user)->ke->extent[sym]; }

static LLVMValueRef index_at(KernelEmit *ke, const Index *x, const LLVMValueRef *lane) {
    Lanes l = {ke, lane};
    const IndexSource s = {.user = &l, .kernel = ke->k, .bits = 64, .axis = lane_axis, .extent = lane_extent};
    return emit_index(ke->e, &s, x);
}

LLVMValueRef range_slack(KernelEmit *ke, const Range *r, const LLVMValueRef *lane) {
    const Emit *e = ke->e;
    LLVMValueRef x = index_at(ke, r->x, lane), bound = index_at(ke, r->bound, NULL);
    LLVMValueRef slack = range_is_upper(r) ? LLVMBuildSub(e->b, bound, x, "") : LLVMBuildSub(e->b, x, bound, "");
    return r->op == OP_LT || r->op == OP_GT ? LLVMBuildSub(e->b, slack, emit_i64(e, 1), "") : slack;
}

LLVMValueRef window_subscript(KernelEmit *ke, const Window *w, int d, const LLVMValueRef *lane) {
    return index_at(ke, w->subscript[d], lane);
}

void window_limits(KernelEmit *ke, const Window *w, int d, LLVMValueRef *lo, LLVMValueRef *end) {
    const Emit *e = ke->e;
    *lo = *end = NULL;
    for (int i = 0; i < w->n_ranges; i++) {
        const Range *r = &w->range[i];
        const bool below = range_is_upper(r);
        LLVMValueRef *place = below ? end : lo, bound = index_at(ke, r->bound, NULL);
        if (!index_equal(w->subscript[d], r->x)) continue;
        if (r->op == OP_LE || r->op == OP_GT) bound = LLVMBuildAdd(e->b, bound, emit_i64(e, 1), "");
        LLVMValueRef both[2] = {*place, bound};
        *place = *place ? emit_intrinsic(e, below ? "llvm.smin" : "llvm.smax", 2, both) : bound;
    }
}

/* ---- in place ---------------------------------------------------------------------------------------------------- */
WindowPlace window_in_place(KernelEmit *ke, const Window *w) {
    const Emit *e = ke->e;
    const Buffer *b = &ke->k->buffers.at[w->load->buffer];
    WindowPlace p = {0};
    LLVMValueRef offset = emit_i64(e, 0);
    for (int d = 0; d < w->load->n_index; d++) {
        LLVMValueRef x = index_at(ke, w->load->index[d], NULL);
        offset = LLVMBuildAdd(e->b, offset, LLVMBuildMul(e->b, x, emit_i64(e, b->stride[d]), ""), "");
    }
    for (int a = 0; a < ke->k->axes.n; a++) access_affine(ke->k, w->load, a, &p.stride[a]);
    p.origin = emit_f32_at(e, ke->buffer[w->load->buffer], offset);
    return p;
}

enum { MOST_UNIT = 256 }; /* elements that are copied by unrolled vectors */

/* ---- packed ------------------------------------------------------------------------------------------------------ */
typedef struct Box {
    KernelEmit *ke;
    const Window *w;
    WindowBox of;
    LLVMValueRef first[MAX_WINDOW], length[MAX_WINDOW]; /* subscripts of existing lanes: first, and how many */
    LLVMValueRef lo[MAX_WINDOW], hi[MAX_WINDOW];        /* those that hold numbers; NULL: all */
    LLVMValueRef memory;
    int run;                      /* dims from here on are copied as one run */
    int64_t unit;                 /* elements per step of dim `run`, contiguous */
    int64_t pitch_to, pitch_from; /* between those steps */
} Box;

static bool whole_axes(const Box *b, int d) {
    const Kernel *k = b->ke->k;
    for (int a = 0; a < k->axes.n; a++) {
        if (!b->w->coef[d][a] || k->axes.at[a].step == 1) continue;
        if (!axis_whole(k, a)) return false;
    }
    return true;
}

/* The last two dims are copied together if the last has constant length and no conditions; as one stretch of memory if
 * it is whole, in the buffer and in the box. */
static void find_run(Box *b) {
    const int64_t *from = b->w->pitch;
    const int last = b->w->rank - 1;
    b->run = last;
    b->unit = b->pitch_to = b->pitch_from = 1;
    if (last == 0 || b->lo[last] || b->hi[last] || !whole_axes(b, last)) return;
    const bool stretch = b->of.stride[last - 1] == b->of.extent[last] && from[last - 1] == b->of.extent[last];
    if (b->of.extent[last] > MOST_UNIT && !stretch) return;
    b->run = last - 1;
    b->unit = b->of.extent[last];
    b->pitch_to = b->of.stride[last - 1];
    b->pitch_from = from[last - 1];
}

/* Also where lane lo of every axis lies: lanes of negative steps count from the end. */
static LLVMValueRef find_box(Box *b) {
    KernelEmit *ke = b->ke;
    const Emit *e = ke->e;
    LLVMValueRef origin = emit_i64(e, 0);
    for (int d = 0; d < b->w->rank; d++) {
        b->first[d] = index_at(ke, b->w->subscript[d], NULL);
        b->length[d] = emit_i64(e, 1);
        for (int a = 0; a < ke->k->axes.n; a++) {
            const int64_t c = b->w->coef[d][a], size = c < 0 ? -c : c;
            if (!c || axis_trivial(ke->k, a)) continue;
            LLVMValueRef others = LLVMBuildSub(e->b, nest_lanes(ke, a), emit_i64(e, 1), "");
            LLVMValueRef reach = LLVMBuildMul(e->b, others, emit_i64(e, size), "");
            b->length[d] = LLVMBuildAdd(e->b, b->length[d], reach, "");
            if (c > 0) continue;
            b->first[d] = LLVMBuildSub(e->b, b->first[d], reach, "");
            origin = LLVMBuildAdd(e->b, origin, LLVMBuildMul(e->b, reach, emit_i64(e, b->of.stride[d]), ""), "");
        }
        if (!b->w->pairs || d < b->w->rank - 1) continue;
        b->first[d] = LLVMBuildLShr(e->b, b->first[d], emit_i64(e, 1), "");
        b->length[d] = LLVMBuildLShr(e->b, b->length[d], emit_i64(e, 1), "");
    }
    return origin;
}

/* void (to, from, before, count, behind): zeros, numbers, zeros, in steps of `unit` elements, which lie pitch_to and
 * pitch_from apart.  Whole vectors are written, up to one past the end. */
enum { RUN_TO, RUN_FROM, RUN_BEFORE, RUN_COUNT, RUN_BEHIND, RUN_ARGS };

typedef struct Run {
    const Box *b;
    const Emit *e;
    LLVMValueRef fn;
} Run;

typedef struct RunLoop {
    LLVMBasicBlockRef body, done;
    LLVMValueRef i;
} RunLoop;

static RunLoop run_open(const Run *r, LLVMValueRef start, LLVMValueRef end) {
    const Emit *e = r->e;
    RunLoop l = {.body = emit_block(e, r->fn, "run"), .done = emit_block(e, r->fn, "ran")};
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(e->b);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, start, end, ""), l.body, l.done);
    LLVMPositionBuilderAtEnd(e->b, l.body);
    l.i = LLVMBuildPhi(e->b, e->i64, "");
    LLVMAddIncoming(l.i, &start, &pre, 1);
    return l;
}

static void run_close(const Run *r, const RunLoop *l, int step, LLVMValueRef end) {
    const Emit *e = r->e;
    LLVMValueRef next = LLVMBuildAdd(e->b, l->i, emit_i64(e, step), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, end, ""), l->body, l->done);
    LLVMAddIncoming(l->i, &next, &latch, 1);
    LLVMPositionBuilderAtEnd(e->b, l->done);
}

static LLVMValueRef times(const Emit *e, LLVMValueRef x, int64_t by) {
    return LLVMBuildMul(e->b, x, emit_i64(e, by), "");
}

static void zeros(const Run *r, LLVMValueRef to, LLVMValueRef steps) {
    const Emit *e = r->e;
    const int lanes = r->b->ke->v->vector;
    LLVMTypeRef vector = LLVMVectorType(e->f32, (unsigned)lanes);
    LLVMValueRef end = times(e, steps, r->b->pitch_to);
    const RunLoop l = run_open(r, emit_i64(e, 0), end);
    LLVMSetAlignment(LLVMBuildStore(e->b, LLVMConstNull(vector), emit_f32_at(e, to, l.i)), 4);
    run_close(r, &l, lanes, end);
}

static void move(const Run *r, LLVMValueRef to, LLVMValueRef from, LLVMTypeRef type) {
    const Emit *e = r->e;
    LLVMValueRef v = LLVMBuildLoad2(e->b, type, from, "");
    LLVMSetAlignment(v, r->b->w->pairs ? 2 : 4);
    LLVMSetAlignment(LLVMBuildStore(e->b, v, to), 4);
}

/* One stretch of `end` elements. */
static void copy_stretch(const Run *r, LLVMValueRef to, LLVMValueRef from, LLVMValueRef end) {
    const Emit *e = r->e;
    const int lanes = r->b->ke->v->vector;
    LLVMValueRef whole = LLVMBuildAnd(e->b, end, emit_i64(e, -lanes), "");
    const RunLoop vectors = run_open(r, emit_i64(e, 0), whole);
    move(r, emit_f32_at(e, to, vectors.i), emit_f32_at(e, from, vectors.i), LLVMVectorType(e->f32, (unsigned)lanes));
    run_close(r, &vectors, lanes, whole);
    const RunLoop rest = run_open(r, whole, end);
    move(r, emit_f32_at(e, to, rest.i), emit_f32_at(e, from, rest.i), e->f32);
    run_close(r, &rest, 1, end);
}

/* Units one by one, each unrolled. */
static void copy_units(const Run *r, LLVMValueRef to, LLVMValueRef from, LLVMValueRef count) {
    const Emit *e = r->e;
    const int lanes = r->b->ke->v->vector;
    const RunLoop l = run_open(r, emit_i64(e, 0), count);
    LLVMValueRef a = emit_f32_at(e, to, times(e, l.i, r->b->pitch_to)),
                 b = emit_f32_at(e, from, times(e, l.i, r->b->pitch_from));
    for (int64_t i = 0; i < r->b->unit;) {
        const bool whole = i + lanes <= r->b->unit;
        LLVMTypeRef type = whole ? LLVMVectorType(e->f32, (unsigned)lanes) : e->f32;
        move(r, emit_f32_at(e, a, emit_i64(e, i)), emit_f32_at(e, b, emit_i64(e, i)), type);
        i += whole ? lanes : 1;
    }
    run_close(r, &l, 1, count);
}

static LLVMValueRef run_function(const Box *b) {
    const Emit *e = b->ke->e;
    char name[96];
    snprintf(name, sizeof name, "fusec.run_%lld_%lld_%lld%s", (long long)b->unit, (long long)b->pitch_to,
             (long long)b->pitch_from, b->w->pairs ? "_bf16" : "");
    Run r = {.b = b, .e = e, .fn = LLVMGetNamedFunction(e->module, name)};
    if (r.fn) return r.fn;
    LLVMTypeRef params[RUN_ARGS] = {e->ptr, e->ptr, e->i64, e->i64, e->i64};
    r.fn = LLVMAddFunction(e->module, name, LLVMFunctionType(e->none, params, RUN_ARGS, false));
    LLVMSetLinkage(r.fn, LLVMInternalLinkage);
    emit_fn_attribute(e, r.fn, "noinline");
    emit_fn_attribute(e, r.fn, "nounwind");
    emit_param_attribute(e, r.fn, RUN_TO, "noalias", 0);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderAtEnd(e->b, emit_block(e, r.fn, "entry"));
    LLVMValueRef to = LLVMGetParam(r.fn, RUN_TO), from = LLVMGetParam(r.fn, RUN_FROM);
    LLVMValueRef before = LLVMGetParam(r.fn, RUN_BEFORE), count = LLVMGetParam(r.fn, RUN_COUNT);
    zeros(&r, to, before);
    to = emit_f32_at(e, to, times(e, before, b->pitch_to));
    if (b->unit == b->pitch_to && b->unit == b->pitch_from)
        copy_stretch(&r, to, from, times(e, count, b->unit));
    else
        copy_units(&r, to, from, count);
    zeros(&r, emit_f32_at(e, to, times(e, count, b->pitch_to)), LLVMGetParam(r.fn, RUN_BEHIND));
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, here);
    return r.fn;
}

static LLVMValueRef clamp(const Emit *e, LLVMValueRef x, LLVMValueRef most) {
    LLVMValueRef low[2] = {x, emit_i64(e, 0)}, high[2] = {NULL, most};
    high[0] = emit_intrinsic(e, "llvm.smax", 2, low);
    return emit_intrinsic(e, "llvm.smin", 2, high);
}

/* The run at dims[0 .. run): from, to: element offsets; inside: whether those dims hold numbers. */
static void pack_run(const Box *b, LLVMValueRef from, LLVMValueRef to, LLVMValueRef inside) {
    const Emit *e = b->ke->e;
    const int d = b->run;
    LLVMValueRef zero = emit_i64(e, 0), n = b->length[d];
    LLVMValueRef before = b->lo[d] ? clamp(e, LLVMBuildSub(e->b, b->lo[d], b->first[d], ""), n) : zero;
    LLVMValueRef end = b->hi[d] ? clamp(e, LLVMBuildSub(e->b, b->hi[d], b->first[d], ""), n) : n;
    LLVMValueRef ordered[2] = {end, before};
    end = emit_intrinsic(e, "llvm.smax", 2, ordered);
    before = LLVMBuildSelect(e->b, inside, before, n, "");
    end = LLVMBuildSelect(e->b, inside, end, n, "");
    LLVMValueRef at = LLVMBuildMul(e->b, LLVMBuildAdd(e->b, b->first[d], before, ""), emit_i64(e, b->w->pitch[d]), "");
    if (d + 1 < b->w->rank) {
        LLVMValueRef last = LLVMBuildMul(e->b, b->first[d + 1], emit_i64(e, b->w->pitch[d + 1]), "");
        at = LLVMBuildAdd(e->b, at, last, "");
    }
    LLVMValueRef args[RUN_ARGS] = {emit_f32_at(e, b->memory, to),
                                   emit_f32_at(e, b->ke->buffer[b->w->load->buffer], LLVMBuildAdd(e->b, from, at, "")),
                                   before, LLVMBuildSub(e->b, end, before, ""), LLVMBuildSub(e->b, n, end, "")};
    emit_call(e, run_function(b), RUN_ARGS, args);
}

static void pack_dim(const Box *b, int d, LLVMValueRef from, LLVMValueRef to, LLVMValueRef inside) {
    const Emit *e = b->ke->e;
    if (d == b->run) {
        pack_run(b, from, to, inside);
        return;
    }
    HostCounter c = counter_open(b->ke, emit_i64(e, 0), b->length[d], 1);
    LLVMValueRef x = LLVMBuildAdd(e->b, b->first[d], c.i, "");
    if (b->lo[d]) inside = LLVMBuildAnd(e->b, inside, LLVMBuildICmp(e->b, LLVMIntSGE, x, b->lo[d], ""), "");
    if (b->hi[d]) inside = LLVMBuildAnd(e->b, inside, LLVMBuildICmp(e->b, LLVMIntSLT, x, b->hi[d], ""), "");
    const int64_t stride = b->w->pitch[d];
    LLVMValueRef next_from = LLVMBuildAdd(e->b, from, LLVMBuildMul(e->b, x, emit_i64(e, stride), ""), "");
    LLVMValueRef next_to = LLVMBuildAdd(e->b, to, LLVMBuildMul(e->b, c.i, emit_i64(e, b->of.stride[d]), ""), "");
    pack_dim(b, d + 1, next_from, next_to, inside);
    counter_close(b->ke, &c);
}

WindowPlace window_pack(KernelEmit *ke, const Window *w) {
    const Emit *e = ke->e;
    Box b = {.ke = ke, .w = w, .of = window_box(ke->k, w)};
    WindowPlace p = {0};
    b.memory = nest_alloca(ke, e->f32, window_elements(ke->plan, w));
    LLVMValueRef origin = find_box(&b);
    for (int d = 0; d < w->rank; d++) window_limits(ke, w, d, &b.lo[d], &b.hi[d]);
    find_run(&b);
    window_strides(ke->k, w, p.stride);
    pack_dim(&b, 0, emit_i64(e, w->offset), emit_i64(e, 0), LLVMConstInt(e->i1, 1, false));
    p.origin = emit_f32_at(e, b.memory, origin);
    return p;
}
