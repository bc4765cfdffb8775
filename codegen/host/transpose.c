/* Copies that transpose a tensor: a store of what a load has along another axis.  Vectors along either axis alone would be
 * gathered or scattered; blocks of as many lanes of both are transposed in registers, and what is left over goes as any
 * nest. */
#include "codegen/host/transpose.h"
#include "codegen/host/counter.h"
#include "codegen/host/micro.h"

typedef struct Transpose {
    KernelEmit *ke;
    const TileType *axes;
    Sink *sink;
    const Inst *load, *store;
    int along, across; /* the axes along which the load and the store are contiguous */
    int64_t load_step,
        store_step; /* elements from one lane of `across` to the next in the load, of `along` in the store */
    int lanes;
} Transpose;

static bool find_axes(Transpose *t) {
    const Kernel *k = t->ke->k;
    t->along = t->across = -1;
    for (int i = 0; i < t->axes->n_axes; i++) {
        const int a = t->axes->axis[i];
        int64_t from, to;
        if (axis_trivial(k, a)) continue;
        if (!access_affine(k, t->load, a, &from) || !access_affine(k, t->store, a, &to)) return false;
        if (from == 1 && to != 1) t->along = a, t->store_step = to;
        if (to == 1 && from != 1) t->across = a, t->load_step = from;
        if (from == 1 && to == 1) return false;
    }
    return t->along >= 0 && t->across >= 0 && k->axes.at[t->along].step >= t->lanes &&
           k->axes.at[t->across].step >= t->lanes;
}

static bool find_transpose(Transpose *t, KernelEmit *ke, const TileType *axes, int n, Sink *sinks) {
    if (n != 1 || sinks[0].of.kind != SINK_STORE || sinks[0].of.inst->n_in != 1) return false;
    const Inst *store = sinks[0].of.inst;
    const ValueInfo *value = &ke->v->value[store->in[0]];
    if (value->kept || !value->def || value->def->kind != TI_LOAD || value->def->n_in) return false;
    const Buffer *from = &ke->k->buffers.at[value->def->buffer], *to = &ke->k->buffers.at[store->buffer];
    if (from->dtype != DT_F32 || to->dtype != DT_F32 || to->in_place || from == to) return false;
    if (subscripts_gather(value->def) || subscripts_gather(store)) return false;
    *t = (Transpose){.ke = ke, .axes = axes, .sink = sinks, .load = value->def, .store = store, .lanes = ke->v->vector};
    return t->lanes >= 4 && find_axes(t);
}

/* lo + the whole blocks from there to hi. */
static LLVMValueRef blocks_end(const Transpose *t, int axis) {
    const Emit *e = t->ke->e;
    LLVMValueRef lo = t->ke->lo[axis], n = LLVMBuildSub(e->b, t->ke->hi[axis], lo, "");
    return LLVMBuildAdd(e->b, lo, LLVMBuildAnd(e->b, n, emit_i64(e, -(int64_t)t->lanes), ""), "");
}

typedef struct Ends {
    LLVMValueRef from, to; /* where lane 0 of the axes without a loop lies */
} Ends;

static LLVMValueRef moved(const Transpose *t, LLVMValueRef p, LLVMValueRef lane, int64_t step) {
    const Emit *e = t->ke->e;
    return emit_f32_at(e, p, LLVMBuildMul(e->b, lane, emit_i64(e, step), ""));
}

static Ends at_lane(const Transpose *t, Ends at, int axis, LLVMValueRef lane) {
    int64_t from = 0, to = 0;
    access_affine(t->ke->k, t->load, axis, &from);
    access_affine(t->ke->k, t->store, axis, &to);
    return (Ends){moved(t, at.from, lane, from), moved(t, at.to, lane, to)};
}

/* The shorter axis inside: what is read and written of the longer one stays near. */
static void transpose_blocks(const Transpose *t, Ends at, LLVMValueRef along_end, LLVMValueRef across_end) {
    KernelEmit *ke = t->ke;
    const Emit *e = ke->e;
    const bool along_inside = ke->k->axes.at[t->along].step <= ke->k->axes.at[t->across].step;
    const int outer = along_inside ? t->across : t->along, inner = along_inside ? t->along : t->across;
    LLVMValueRef fn = micro_transpose(e, t->lanes, false);
    HostCounter i = counter_open(ke, ke->lo[outer], along_inside ? across_end : along_end, t->lanes);
    at = at_lane(t, at, outer, i.i);
    HostCounter j = counter_open(ke, ke->lo[inner], along_inside ? along_end : across_end, t->lanes);
    at = at_lane(t, at, inner, j.i);
    LLVMValueRef args[] = {at.from, emit_i64(e, t->load_step), at.to, emit_i64(e, t->store_step)};
    emit_call(e, fn, sizeof args / sizeof *args, args);
    counter_close(ke, &j);
    counter_close(ke, &i);
}

/* Lanes of an axis from lo on, if there are any, as any nest. */
static void rest(const Transpose *t, int axis, LLVMValueRef lo) {
    KernelEmit *ke = t->ke;
    LLVMValueRef was = ke->lo[axis];
    HostBranch b = branch_open(ke, LLVMBuildICmp(ke->e->b, LLVMIntSLT, lo, ke->hi[axis], ""));
    ke->lo[axis] = lo;
    nest_emit(ke, t->axes, 1, t->sink);
    ke->lo[axis] = was;
    branch_close(ke, &b);
}

static void transpose_plane(const Transpose *t, Ends at) {
    KernelEmit *ke = t->ke;
    LLVMValueRef along_hi = ke->hi[t->along];
    LLVMValueRef along_end = blocks_end(t, t->along), across_end = blocks_end(t, t->across);
    transpose_blocks(t, at, along_end, across_end);
    rest(t, t->along, along_end);
    ke->hi[t->along] = along_end;
    rest(t, t->across, across_end);
    ke->hi[t->along] = along_hi;
}

static void transpose_axes(const Transpose *t, int n, Ends at) {
    KernelEmit *ke = t->ke;
    const Emit *e = ke->e;
    while (n < t->axes->n_axes) {
        const int a = t->axes->axis[n];
        if (a != t->along && a != t->across && !axis_trivial(ke->k, a)) break;
        n++;
    }
    if (n == t->axes->n_axes) {
        transpose_plane(t, at);
        return;
    }
    const int axis = t->axes->axis[n];
    LLVMValueRef lo = ke->lo[axis], hi = ke->hi[axis];
    HostCounter c = counter_open(ke, lo, hi, 1);
    ke->lo[axis] = c.i;
    ke->hi[axis] = LLVMBuildAdd(e->b, c.i, emit_i64(e, 1), "");
    transpose_axes(t, n + 1, at_lane(t, at, axis, c.i));
    ke->lo[axis] = lo;
    ke->hi[axis] = hi;
    counter_close(ke, &c);
}

bool transpose_emit(KernelEmit *ke, const TileType *axes, int n, Sink *sinks) {
    Transpose t;
    if (!find_transpose(&t, ke, axes, n, sinks)) return false;
    LLVMPositionBuilderAtEnd(ke->e->b, ke->current);
    transpose_axes(&t, 0, (Ends){nest_origin(ke, t.load), nest_origin(ke, t.store)});
    return true;
}
