/* Reductions of a nest: accumulators in registers around the loops, or sums in the result's buffer. */
#include "codegen/host/nest_internal.h"
#include "ir/target.h"
#include <math.h>

static DType accumulator_type(const Nest *t, const Sink *s) { return t->k->types.at[s->of.inst->result].dtype; }

static Op reduce_op(const Sink *s) { return s->of.kind == SINK_DOT ? OP_SUM : s->of.inst->op; }

/* A reduced axis outside the result's innermost axis: the result is completed over several visits. */
static bool revisits(const Nest *t, const Sink *s) {
    for (int d = 1; d < s->depth; d++)
        if (sink_reduces_axis(&s->of, t->axis[d - 1])) return true;
    return s->of.kind == SINK_DOT;
}

static bool reduces_nothing(const Nest *t, const Sink *s) {
    for (int d = 1; d <= t->n; d++)
        if (sink_reduces_axis(&s->of, t->axis[d - 1])) return false;
    return s->of.kind == SINK_REDUCE;
}

static void fill(KernelEmit *ke, int storage, LLVMValueRef v) {
    const Emit *e = ke->e;
    const Storage *s = &ke->v->storage.at[storage];
    if (s->n == 0) {
        LLVMBuildStore(e->b, v, ke->memory[storage]);
        return;
    }
    const int width = ke->v->vector;
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(e->b), body = emit_block(e, ke->fn, "fill"),
                      after = emit_block(e, ke->fn, "filled");
    LLVMValueRef wide = emit_splat(e, v, width);
    LLVMBuildBr(e->b, body);
    LLVMPositionBuilderAtEnd(e->b, body);
    LLVMValueRef i = LLVMBuildPhi(e->b, e->i64, ""), next;
    LLVMValueRef p = LLVMBuildGEP2(e->b, storage_type(e, s->dtype), ke->memory[storage], &i, 1, "");
    LLVMSetAlignment(LLVMBuildStore(e->b, wide, p), s->dtype == DT_BOOL ? 1 : 4);
    next = LLVMBuildAdd(e->b, i, emit_i64(e, width), "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, emit_i64(e, s->elements), ""), body, after);
    LLVMAddIncoming(i, (LLVMValueRef[]){emit_i64(e, 0), next}, (LLVMBasicBlockRef[]){pre, body}, 2);
    LLVMPositionBuilderAtEnd(e->b, after);
    ke->current = after;
}

/* ---- products in memory ------------------------------------------------------------------------------------------ */
/* A long product that goes through this nest several times adds up each time's terms from zero, and those sums to the result: added to
 * the result one by one they would all go through one f32 (docs/numerics.md). */
static bool adds_apart(const Nest *t, const Sink *s) {
    const int most = target_find("host")->device->most_products;
    double terms = 1, steps = 1;
    for (int o = 0; o < s->of.inst->n_over; o++) {
        const Axis *a = &t->k->axes.at[s->of.inst->over[o]];
        terms *= (double)a->extent.bound;
        steps *= ceil((double)a->extent.bound / a->step);
    }
    return s->of.kind == SINK_DOT && !s->in_register && t->ke->v->storage.at[s->of.storage].n && accumulator_type(t, s) == DT_F32 && steps > 1 && terms > most;
}

static void begin_apart(Nest *t, Sink *s) {
    enum { SLACK = 4 }; /* vectors behind it, as every storage has (kernel.c) */
    s->whole = t->ke->memory[s->of.storage];
    t->ke->memory[s->of.storage] = nest_alloca(t->ke, t->e->f32, t->ke->v->storage.at[s->of.storage].elements + SLACK * t->ke->v->vector);
    fill(t->ke, s->of.storage, emit_identity(t->e, OP_SUM, DT_F32));
}

/* whole += apart, vector by vector. */
static void end_apart(Nest *t, Sink *s) {
    const Emit *e = t->e;
    KernelEmit *ke = t->ke;
    const int width = ke->v->vector;
    LLVMValueRef apart = ke->memory[s->of.storage];
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(e->b), body = emit_block(e, ke->fn, "add"), after = emit_block(e, ke->fn, "added");
    LLVMTypeRef type = emit_vector_type(e->f32, width);
    LLVMBuildBr(e->b, body);
    LLVMPositionBuilderAtEnd(e->b, body);
    LLVMValueRef i = LLVMBuildPhi(e->b, e->i64, "");
    LLVMValueRef to = emit_f32_at(e, s->whole, i), sum = LLVMBuildLoad2(e->b, type, to, ""),
                 more = LLVMBuildLoad2(e->b, type, emit_f32_at(e, apart, i), "");
    LLVMSetAlignment(sum, 4);
    LLVMSetAlignment(more, 4);
    LLVMSetAlignment(LLVMBuildStore(e->b, LLVMBuildFAdd(e->b, sum, more, ""), to), 4);
    LLVMValueRef next = LLVMBuildAdd(e->b, i, emit_i64(e, width), "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, emit_i64(e, ke->v->storage.at[s->of.storage].elements), ""), body, after);
    LLVMAddIncoming(i, (LLVMValueRef[]){emit_i64(e, 0), next}, (LLVMBasicBlockRef[]){pre, body}, 2);
    LLVMPositionBuilderAtEnd(e->b, after);
    ke->current = after;
    ke->memory[s->of.storage] = s->whole;
}

void nest_reduce_end(Nest *t, int n, Sink *sinks) {
    for (int i = 0; i < n; i++)
        if (sinks[i].whole) end_apart(t, &sinks[i]);
}

void nest_reduce_prepare(Nest *t, int n, Sink *sinks) {
    for (int i = 0; i < n; i++) {
        Sink *s = &sinks[i];
        s->whole = NULL;
        if (!sink_reduces(&s->of)) continue;
        s->depth = nest_depth(t, &t->k->types.at[s->of.inst->result]);
        s->in_register = t->inner >= 0 && sink_reduces_axis(&s->of, t->inner);
        if (adds_apart(t, s)) begin_apart(t, s);
        if (s->of.kind != SINK_REDUCE || reduces_nothing(t, s) || (s->in_register && !revisits(t, s))) continue;
        const DType type = accumulator_type(t, s);
        LLVMValueRef zero = emit_identity(t->e, s->of.inst->op, type);
        fill(t->ke, s->of.storage, type == DT_BOOL ? emit_to_memory(t->e, type, zero) : zero);
    }
}

static LLVMValueRef accumulator(Nest *t, const Sink *s, int width) {
    const DType type = accumulator_type(t, s);
    LLVMValueRef p = nest_alloca(t->ke, emit_vector_type(emit_type(t->e, type), width), 1);
    LLVMBuildStore(t->e->b, emit_splat(t->e, emit_identity(t->e, reduce_op(s), type), width), p);
    return p;
}

void nest_reduce_begin(Nest *t, int depth, int n, Sink *sinks) {
    for (int i = 0; i < n; i++) {
        Sink *s = &sinks[i];
        if (!sink_reduces(&s->of) || !s->in_register || s->depth != depth) continue;
        s->place = nest_storage_place(t, s->of.storage).pointer;
        nest_position(t, depth);
        s->acc = accumulator(t, s, t->width);
        s->acc_lane = t->width && !t->ke->plan->machine->masks ? accumulator(t, s, 0) : NULL;
    }
}

static LLVMValueRef load_acc(const Nest *t, const Sink *s, LLVMValueRef p, int width) {
    return LLVMBuildLoad2(t->e->b, emit_vector_type(emit_type(t->e, accumulator_type(t, s)), width), p, "");
}

void nest_reduce_finish(Nest *t, int depth, int width, int n, Sink *sinks) {
    const Emit *e = t->e;
    for (int i = 0; i < n; i++) {
        Sink *s = &sinks[i];
        if (!sink_reduces(&s->of) || !s->in_register || s->depth != depth) continue;
        const DType type = accumulator_type(t, s);
        LLVMValueRef v = emit_horizontal(e, reduce_op(s), type, load_acc(t, s, s->acc, width));
        if (s->acc_lane) v = emit_combine(e, reduce_op(s), type, v, load_acc(t, s, s->acc_lane, 0));
        if (revisits(t, s)) {
            LLVMValueRef old = LLVMBuildLoad2(e->b, storage_type(e, type), s->place, "");
            if (type == DT_BOOL) old = emit_from_memory(e, type, old);
            v = emit_combine(e, reduce_op(s), type, old, v);
        }
        LLVMBuildStore(e->b, type == DT_BOOL ? emit_to_memory(e, type, v) : emit_round(e, type, v), s->place);
    }
}

static LLVMValueRef one_step(Nest *t, const Sink *s, LLVMValueRef acc) {
    const DType type = accumulator_type(t, s);
    LLVMValueRef x = nest_value(t, s->of.inst->in[0]), y = s->of.kind == SINK_DOT ? nest_value(t, s->of.inst->in[1]) : NULL;
    nest_position(t, t->n);
    if (!y) return emit_combine(t->e, s->of.inst->op, type, acc, x);
    const DType from = t->k->types.at[s->of.inst->in[0]].dtype;
    if (from != type) {
        x = emit_element(t->e, OP_CAST, type, from, 1, &x);
        y = emit_element(t->e, OP_CAST, type, from, 1, &y);
    }
    return emit_fma(t->e, type, x, y, acc);
}

void nest_reduce_in_register(Nest *t, Sink *s) {
    const Emit *e = t->e;
    const bool lane = s->acc_lane && !t->width;
    LLVMValueRef p = lane ? s->acc_lane : s->acc;
    nest_position(t, t->n);
    LLVMValueRef old = load_acc(t, s, p, t->width), v = emit_splat(e, one_step(t, s, old), t->width);
    if (t->mask) v = LLVMBuildSelect(e->b, t->mask, v, old, "");
    LLVMBuildStore(e->b, v, p);
}

void nest_reduce_in_memory(Nest *t, Sink *s) {
    const Emit *e = t->e;
    const DType type = accumulator_type(t, s);
    if (reduces_nothing(t, s)) {
        s->computed = nest_value(t, s->of.inst->in[0]);
        return;
    }
    const Place p = nest_storage_place(t, s->of.storage);
    nest_position(t, t->n);
    LLVMValueRef old = nest_read(t, p, storage_type(e, type), p.vector && !p.contiguous ? t->mask : NULL);
    s->computed = one_step(t, s, type == DT_BOOL ? emit_from_memory(e, type, old) : old);
}
