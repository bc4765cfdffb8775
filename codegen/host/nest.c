/* Loops and sinks of a nest; see nest.h. */
#include "codegen/host/nest_internal.h"
#include <string.h>

LLVMTypeRef storage_type(const Emit *e, DType t) { return t == DT_BOOL ? e->i8 : emit_type(e, t); }

LLVMValueRef nest_alloca(KernelEmit *ke, LLVMTypeRef type, int64_t n) {
    const Emit *e = ke->e;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderAtEnd(e->b, ke->entry);
    LLVMValueRef p =
        n == 1 ? LLVMBuildAlloca(e->b, type, "") : LLVMBuildAlloca(e->b, LLVMArrayType2(type, (uint64_t)n), "");
    LLVMSetAlignment(p, 64);
    if (n > 1) ke->stack_bytes += n * (type == e->f64 ? 8 : type == e->i8 ? 1 : 4);
    if (here) LLVMPositionBuilderAtEnd(e->b, here);
    return p;
}

/* ---- order -------------------------------------------------------------------------------------------------- */
typedef struct AxisScore {
    int contiguous;
    int64_t stride; /* in the first access that has the axis */
} AxisScore;

static void score(AxisScore *s, int weight, int64_t coef) {
    if (coef == 1) s->contiguous += weight;
    if (s->stride == 0) s->stride = coef < 0 ? -coef : coef;
}

static void score_access(const KernelEmit *ke, const Inst *i, int weight, AxisScore *s) {
    for (int x = 0; x < ke->k->axes.n; x++) {
        int64_t coef;
        if (access_affine(ke->k, i, x, &coef)) score(&s[x], weight, coef);
    }
}

static void score_storage(const KernelEmit *ke, int storage, int weight, AxisScore *s) {
    const Storage *m = &ke->v->storage.at[storage];
    for (int i = 0; i < m->n; i++) score(&s[m->axis[i]], weight, m->stride[i]);
}

/* Everything that value reads in this nest. */
static void score_value(const KernelEmit *ke, int value, bool *seen, AxisScore *s) {
    const ValueInfo *info = &ke->v->value[value];
    if (seen[value]) return;
    seen[value] = true;
    if (info->kept) score_storage(ke, info->storage, 1, s);
    if (info->kept || !info->def) return;
    if (info->def->kind == TI_LOAD) score_access(ke, info->def, 1, s);
    for (int n = 0; n < info->def->n_in; n++) score_value(ke, info->def->in[n], seen, s);
}

static bool is_reduction(const Sink *s) { return s->kind == SINK_REDUCE || s->kind == SINK_DOT; }

static bool reduces_axis(const Sink *s, int axis) {
    for (int o = 0; o < s->inst->n_over; o++)
        if (s->inst->over[o] == axis) return true;
    return false;
}

/* Is some load of the kernel contiguous along the axis? */
static bool loads_along(const KernelEmit *ke, const Block *b, int axis) {
    int64_t coef;
    for (int i = 0; i < b->n; i++) {
        const Inst *inst = b->at[i];
        if (inst->kind == TI_LOAD && access_affine(ke->k, inst, axis, &coef) && coef == 1) return true;
        if (loads_along(ke, &inst->body, axis)) return true;
    }
    return false;
}

/* A nest that sums: the order of its additions must follow from the sum alone, not from what else the kernel keeps
 * or stores, so that a value recomputed elsewhere is the same to the bit.  Axes stand as the kernel names them;
 * innermost is the last summed axis that is contiguous in memory, else the last other one that is. */
static int sum_order(const KernelEmit *ke, const TileType *axes, int n, const Sink *sinks, int8_t *order) {
    int count = 0, best = -1;
    bool best_summed = false;
    for (int i = 0; i < axes->n_axes; i++) {
        const int axis = axes->axis[i];
        bool summed = false;
        if (axis_trivial(ke->k, axis)) continue;
        for (int k = 0; k < n; k++) summed |= is_reduction(&sinks[k]) && reduces_axis(&sinks[k], axis);
        if (loads_along(ke, &ke->k->body, axis) && (summed || !best_summed)) best = count, best_summed = summed;
        order[count++] = (int8_t)axis;
    }
    if (best >= 0) {
        const int8_t inner = order[best];
        memmove(order + best, order + best + 1, (size_t)(count - 1 - best));
        order[count - 1] = inner;
    }
    return count;
}

int nest_order(const KernelEmit *ke, const TileType *axes, int n, const Sink *sinks, int8_t *order) {
    AxisScore s[MAX_AXES] = {0};
    bool *seen = ARENA_ARRAY(ke->arena, bool, ke->k->types.n + 1);
    for (int i = 0; i < n; i++)
        if (is_reduction(&sinks[i])) return sum_order(ke, axes, n, sinks, order);
    for (int i = 0; i < n; i++)
        if (sinks[i].kind == SINK_STORE) score_access(ke, sinks[i].inst, 4, s);
    for (int i = 0; i < n; i++) {
        const Inst *inst = sinks[i].inst;
        if (sinks[i].kind == SINK_KEEP && inst) /* defined here: its own operands */
            for (int o = 0; o < inst->n_in; o++) score_value(ke, inst->in[o], seen, s);
        if (sinks[i].kind == SINK_KEEP && inst && inst->kind == TI_LOAD)
            score_access(ke, inst, 1, s);
        else if (sinks[i].kind == SINK_KEEP || sinks[i].kind == SINK_PACK)
            score_value(ke, sinks[i].value, seen, s);
        else
            for (int o = 0; inst && o < inst->n_in; o++) score_value(ke, inst->in[o], seen, s);
        if (sinks[i].kind == SINK_KEEP)
            score_storage(ke, sinks[i].storage, 1, s);
    }
    int count = 0;
    for (int i = 0; i < axes->n_axes; i++) {
        if (axis_trivial(ke->k, axes->axis[i])) continue;
        int at = count++;
        for (; at > 0 && s[order[at - 1]].stride < s[axes->axis[i]].stride; at--) order[at] = order[at - 1];
        order[at] = axes->axis[i];
    }
    int best = count - 1;
    for (int i = count - 1; i >= 0; i--)
        if (s[order[i]].contiguous > s[order[best]].contiguous) best = i;
    if (count) {
        const int8_t inner = order[best];
        memmove(order + best, order + best + 1, (size_t)(count - 1 - best));
        order[count - 1] = inner;
    }
    return count;
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */
static DType accumulator_type(const Nest *t, const Sink *s) { return t->k->types.at[s->inst->result].dtype; }

static Op reduce_op(const Sink *s) { return s->kind == SINK_DOT ? OP_SUM : s->inst->op; }

/* A reduced axis outside the result's innermost axis: the result is completed over several visits. */
static bool revisits(const Nest *t, const Sink *s) {
    for (int d = 1; d < s->depth; d++)
        if (reduces_axis(s, t->axis[d - 1])) return true;
    return s->kind == SINK_DOT;
}

static bool reduces_nothing(const Nest *t, const Sink *s) {
    for (int d = 1; d <= t->n; d++)
        if (reduces_axis(s, t->axis[d - 1])) return false;
    return s->kind == SINK_REDUCE;
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

/* How each reduction accumulates, and buffers that start from the identity. */
static void prepare(Nest *t, int n, Sink *sinks) {
    for (int i = 0; i < n; i++) {
        Sink *s = &sinks[i];
        if (!is_reduction(s)) continue;
        s->depth = nest_depth(t, &t->k->types.at[s->inst->result]);
        s->in_register = t->inner >= 0 && reduces_axis(s, t->inner);
        if (s->kind != SINK_REDUCE || reduces_nothing(t, s) || (s->in_register && !revisits(t, s))) continue;
        const DType type = accumulator_type(t, s);
        LLVMValueRef zero = emit_identity(t->e, s->inst->op, type);
        fill(t->ke, s->storage, type == DT_BOOL ? emit_to_memory(t->e, type, zero) : zero);
    }
}

static LLVMValueRef accumulator(Nest *t, const Sink *s, int width) {
    const DType type = accumulator_type(t, s);
    LLVMValueRef p = nest_alloca(t->ke, emit_vector_type(emit_type(t->e, type), width), 1);
    LLVMBuildStore(t->e->b, emit_splat(t->e, emit_identity(t->e, reduce_op(s), type), width), p);
    return p;
}

/* Code at `depth` before the loops inside it. */
static void begin_depth(Nest *t, int depth, int n, Sink *sinks) {
    for (int i = 0; i < n; i++) {
        Sink *s = &sinks[i];
        if (!is_reduction(s) || !s->in_register || s->depth != depth) continue;
        s->place = nest_storage_place(t, s->storage).pointer;
        nest_position(t, depth);
        s->acc = accumulator(t, s, t->width);
        s->acc_lane = t->width && !t->ke->masks ? accumulator(t, s, 0) : NULL;
    }
}

static LLVMValueRef load_acc(const Nest *t, const Sink *s, LLVMValueRef p, int width) {
    return LLVMBuildLoad2(t->e->b, emit_vector_type(emit_type(t->e, accumulator_type(t, s)), width), p, "");
}

/* Code at `depth` after the loops inside it, at the builder's position. */
static void finish_depth(Nest *t, int depth, int width, int n, Sink *sinks) {
    const Emit *e = t->e;
    for (int i = 0; i < n; i++) {
        Sink *s = &sinks[i];
        if (!is_reduction(s) || !s->in_register || s->depth != depth) continue;
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
    LLVMValueRef x = nest_value(t, s->inst->in[0]), y = s->kind == SINK_DOT ? nest_value(t, s->inst->in[1]) : NULL;
    nest_position(t, t->n);
    if (!y) return emit_combine(t->e, s->inst->op, type, acc, x);
    const DType from = t->k->types.at[s->inst->in[0]].dtype;
    if (from != type) {
        x = emit_element(t->e, OP_CAST, type, from, 1, &x);
        y = emit_element(t->e, OP_CAST, type, from, 1, &y);
    }
    return emit_fma(t->e, type, x, y, acc);
}

/* In a vector register: masked lanes keep what they have. */
static void reduce_in_register(Nest *t, Sink *s) {
    const Emit *e = t->e;
    const bool lane = s->acc_lane && !t->width;
    LLVMValueRef p = lane ? s->acc_lane : s->acc;
    nest_position(t, t->n);
    LLVMValueRef old = load_acc(t, s, p, t->width), v = emit_splat(e, one_step(t, s, old), t->width);
    if (t->mask) v = LLVMBuildSelect(e->b, t->mask, v, old, "");
    LLVMBuildStore(e->b, v, p);
}

/* In the result's buffer; computed now, written with the other sinks. */
static void reduce_in_memory(Nest *t, Sink *s) {
    const Emit *e = t->e;
    const DType type = accumulator_type(t, s);
    if (reduces_nothing(t, s)) {
        s->computed = nest_value(t, s->inst->in[0]);
        return;
    }
    const Place p = nest_storage_place(t, s->storage);
    nest_position(t, t->n);
    LLVMValueRef old = nest_read(t, p, storage_type(e, type), p.vector && !p.contiguous ? t->mask : NULL);
    s->computed = one_step(t, s, type == DT_BOOL ? emit_from_memory(e, type, old) : old);
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */
static void compute(Nest *t, Sink *s) {
    switch (s->kind) {
    case SINK_STORE: s->computed = nest_value(t, s->inst->in[0]); break;
    case SINK_PACK: s->computed = s->pack.pairs ? nest_pair(t, s->value) : nest_value(t, s->value); break;
    case SINK_KEEP:
    case SINK_READ: s->computed = nest_value(t, s->value); break;
    case SINK_REDUCE:
    case SINK_DOT:
        if (s->in_register)
            reduce_in_register(t, s);
        else
            reduce_in_memory(t, s);
        break;
    }
}

static LLVMValueRef and_mask(Nest *t, LLVMValueRef wanted, bool vector) {
    if (!vector || !t->mask) return wanted;
    if (!wanted) return t->mask;
    return LLVMBuildAnd(t->e->b, emit_splat(t->e, wanted, t->width), t->mask, "");
}

static void write_store(Nest *t, Sink *s) {
    const DType type = t->k->buffers.at[s->inst->buffer].dtype;
    LLVMValueRef wanted = s->inst->n_in > 1 ? nest_value(t, s->inst->in[1]) : NULL;
    const Place p = nest_buffer_place(t, s->inst, t->n);
    nest_position(t, t->n);
    nest_write(t, p, emit_to_memory(t->e, type, s->computed), and_mask(t, wanted, p.vector));
}

static void write_kept(Nest *t, Sink *s) {
    const DType type = t->ke->v->storage.at[s->storage].dtype;
    const Place p = nest_storage_place(t, s->storage);
    nest_position(t, t->n);
    LLVMValueRef v = type == DT_BOOL ? emit_to_memory(t->e, type, s->computed) : s->computed;
    nest_write(t, p, v, p.vector && !p.contiguous ? t->mask : NULL);
}

/* Masked lanes along the axis of pairs: the second of an odd last one is zero. */
static void write_last_pairs(Nest *t, Place p, LLVMValueRef v) {
    const Emit *e = t->e;
    LLVMValueRef first[64];
    for (int i = 0; i < t->width; i++) first[i] = LLVMConstInt(e->i32, (unsigned)(i & ~1), false);
    LLVMValueRef order = LLVMConstVector(first, (unsigned)t->width);
    LLVMValueRef pairs = LLVMBuildShuffleVector(e->b, t->mask, LLVMGetPoison(LLVMTypeOf(t->mask)), order, "");
    v = emit_splat(e, v, t->width);
    nest_write(t, p, LLVMBuildSelect(e->b, t->mask, v, LLVMConstNull(LLVMTypeOf(v)), ""), pairs);
}

static void write_pack(Nest *t, Sink *s) {
    const Place p = nest_pack_place(t, &s->pack);
    nest_position(t, t->n);
    if (p.vector && t->mask && t->pairs.axis == t->inner) {
        write_last_pairs(t, p, s->computed);
        return;
    }
    nest_write(t, p, s->computed, p.vector ? t->mask : NULL);
}

/* Masks of stores are computed before anything is written, like all values. */
static void body(Nest *t, int n, Sink *sinks) {
    for (int i = 0; i < n; i++) {
        compute(t, &sinks[i]);
        if (sinks[i].kind == SINK_STORE && sinks[i].inst->n_in > 1) nest_value(t, sinks[i].inst->in[1]);
    }
    for (int i = 0; i < n; i++) {
        Sink *s = &sinks[i];
        if (s->kind == SINK_STORE) write_store(t, s);
        if (s->kind == SINK_KEEP || (is_reduction(s) && !s->in_register)) write_kept(t, s);
        if (s->kind == SINK_PACK) write_pack(t, s);
        if (s->kind == SINK_READ) s->read = s->computed;
    }
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */
/* Forgets what was evaluated in the loop of depth d. */
static void forget_from(Nest *t, int d) {
    for (int v = 0; v < t->k->types.n; v++)
        if (nest_depth(t, &t->k->types.at[v]) >= d) t->memo[v] = t->pairs.memo[v] = NULL;
    for (int i = d; i <= t->n; i++) t->at[t->axis[i - 1]] = NULL;
    t->pairs.at = NULL;
}

static LLVMBasicBlockRef level(Nest *t, int d, int n, Sink *sinks);

/* for (lane = lo; lane < hi; lane += step): runs at least once.  *exit is open and follows. */
static LLVMBasicBlockRef loop(Nest *t, int d, LLVMBasicBlockRef pre, LLVMValueRef lo, LLVMValueRef hi, int step, int n,
                              Sink *sinks, LLVMBasicBlockRef exit) {
    const Emit *e = t->e;
    LLVMBasicBlockRef header = emit_block(e, t->ke->fn, t->k->axes.at[t->axis[d - 1]].name), last = header;
    LLVMPositionBuilderAtEnd(e->b, header);
    LLVMValueRef lane = LLVMBuildPhi(e->b, e->i64, "");
    t->tail[d] = header;
    t->lane[t->axis[d - 1]] = lane;
    if (t->axis[d - 1] == t->pairs.axis) t->pairs.lane = LLVMBuildAdd(e->b, lane, emit_i64(e, 1), "");
    if (d == t->n) {
        forget_from(t, d);
        body(t, n, sinks);
    } else {
        last = level(t, d + 1, n, sinks);
    }
    LLVMPositionBuilderAtEnd(e->b, last);
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, lane, emit_i64(e, step), "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, hi, ""), header, exit);
    LLVMAddIncoming(lane, (LLVMValueRef[]){lo, next}, (LLVMBasicBlockRef[]){pre, last}, 2);
    return header;
}

static bool constant(LLVMValueRef v, int64_t *c) {
    if (!LLVMIsAConstantInt(v)) return false;
    *c = LLVMConstIntGetSExtValue(v);
    return true;
}

/* An edge to `then` always: its phi counts on it, and LLVM removes what is never taken. */
static void branch_if_less(const Emit *e, LLVMValueRef lo, LLVMValueRef hi, LLVMBasicBlockRef then,
                           LLVMBasicBlockRef otherwise) {
    int64_t a, b;
    if (constant(lo, &a) && constant(hi, &b) && a < b)
        LLVMBuildBr(e->b, then);
    else
        LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, lo, hi, ""), then, otherwise);
}

static bool surely_not_less(LLVMValueRef lo, LLVMValueRef hi) {
    int64_t a, b;
    return constant(lo, &a) && constant(hi, &b) && a >= b;
}

static LLVMBasicBlockRef masked_rest(Nest *t, LLVMValueRef from, LLVMValueRef hi, int n, Sink *sinks,
                                     LLVMBasicBlockRef after) {
    const Emit *e = t->e;
    LLVMBasicBlockRef rest = emit_block(e, t->ke->fn, "rest");
    LLVMPositionBuilderAtEnd(e->b, rest);
    LLVMValueRef left = LLVMBuildIntCast2(e->b, LLVMBuildSub(e->b, hi, from, ""), e->i32, true, "");
    t->mask = LLVMBuildICmp(e->b, LLVMIntSLT, emit_lanes(e, e->i32, t->width), emit_splat(e, left, t->width), "");
    t->tail[t->n] = rest;
    t->lane[t->inner] = from;
    forget_from(t, t->n);
    body(t, n, sinks);
    t->mask = NULL;
    LLVMPositionBuilderAtEnd(e->b, rest);
    LLVMBuildBr(e->b, after);
    return rest;
}

/* Whole vectors, then the rest. */
static LLVMBasicBlockRef innermost(Nest *t, int n, Sink *sinks) {
    const Emit *e = t->e;
    const int d = t->n, width = t->width;
    LLVMValueRef lo = t->ke->lo[t->inner], hi = t->ke->hi[t->inner];
    nest_position(t, d - 1);
    LLVMValueRef whole =
        LLVMBuildAnd(e->b, LLVMBuildSub(e->b, hi, lo, ""), emit_i64(e, -(int64_t)(width ? width : 1)), "");
    LLVMValueRef middle = LLVMBuildAdd(e->b, lo, whole, "");
    LLVMBasicBlockRef mid = emit_block(e, t->ke->fn, "mid"), after = emit_block(e, t->ke->fn, "after");
    LLVMBasicBlockRef main_loop = mid, rest = after;
    const bool may_fill = !width || t->k->axes.at[t->inner].step >= width;
    if (may_fill && !surely_not_less(lo, middle))
        main_loop = loop(t, d, t->tail[d - 1], lo, middle, width ? width : 1, n, sinks, mid);
    if (width && !surely_not_less(middle, hi)) {
        if (t->ke->masks) {
            rest = masked_rest(t, middle, hi, n, sinks, after);
        } else {
            t->width = 0;
            rest = loop(t, d, mid, middle, hi, 1, n, sinks, after);
            t->width = width;
        }
    }
    nest_position(t, d - 1);
    if (may_fill)
        branch_if_less(e, lo, middle, main_loop, mid);
    else
        LLVMBuildBr(e->b, mid);
    LLVMPositionBuilderAtEnd(e->b, mid);
    branch_if_less(e, middle, hi, rest, after);
    return after;
}

/* Whole pairs, then an odd last lane. */
static LLVMBasicBlockRef in_pairs(Nest *t, int d, int n, Sink *sinks) {
    const Emit *e = t->e;
    LLVMValueRef lo = t->ke->lo[t->pairs.axis], hi = t->ke->hi[t->pairs.axis];
    nest_position(t, d - 1);
    LLVMValueRef whole = LLVMBuildAnd(e->b, LLVMBuildSub(e->b, hi, lo, ""), emit_i64(e, -2), "");
    LLVMValueRef middle = LLVMBuildAdd(e->b, lo, whole, "");
    LLVMBasicBlockRef mid = emit_block(e, t->ke->fn, "mid"), after = emit_block(e, t->ke->fn, "after");
    LLVMBasicBlockRef main_loop = mid, rest = after;
    if (!surely_not_less(lo, middle)) main_loop = loop(t, d, t->tail[d - 1], lo, middle, 2, n, sinks, mid);
    if (!surely_not_less(middle, hi)) {
        forget_from(t, d);
        t->pairs.alone = true;
        rest = loop(t, d, mid, middle, hi, 2, n, sinks, after);
        t->pairs.alone = false;
    }
    nest_position(t, d - 1);
    branch_if_less(e, lo, middle, main_loop, mid);
    LLVMPositionBuilderAtEnd(e->b, mid);
    branch_if_less(e, middle, hi, rest, after);
    return after;
}

/* Emits the loop of depth d and all inside it; returns the open block that follows it. */
static LLVMBasicBlockRef level(Nest *t, int d, int n, Sink *sinks) {
    const Emit *e = t->e;
    const int width = t->width, axis = t->axis[d - 1];
    LLVMBasicBlockRef after;
    begin_depth(t, d - 1, n, sinks);
    if (d == t->n) {
        after = innermost(t, n, sinks);
    } else if (axis == t->pairs.axis) {
        after = in_pairs(t, d, n, sinks);
    } else {
        after = emit_block(e, t->ke->fn, "after");
        LLVMValueRef lo = t->ke->lo[axis], hi = t->ke->hi[axis];
        LLVMBasicBlockRef header = loop(t, d, t->tail[d - 1], lo, hi, 1, n, sinks, after);
        nest_position(t, d - 1);
        branch_if_less(e, lo, hi, header, after);
    }
    LLVMPositionBuilderAtEnd(e->b, after);
    finish_depth(t, d - 1, width, n, sinks);
    return after;
}

void nest_emit(KernelEmit *ke, const TileType *axes, int n, Sink *sinks) {
    const Emit *e = ke->e;
    Nest t = {.ke = ke,
              .e = e,
              .k = ke->k,
              .inner = -1,
              .memo = ARENA_ARRAY(ke->arena, LLVMValueRef, ke->k->types.n + 1),
              .pending = ARENA_ARRAY(ke->arena, bool, ke->k->types.n + 1),
              .pairs = {.axis = -1, .memo = ARENA_ARRAY(ke->arena, LLVMValueRef, ke->k->types.n + 1)}};
    if (n == 1 && sinks[0].kind == SINK_PACK) t.pairs.axis = sinks[0].pack.pairs - 1;
    t.n = nest_order(ke, axes, n, sinks, t.axis);
    if (t.n) {
        t.inner = t.axis[t.n - 1];
        t.width = ke->v->vector;
    }
    t.streams = n == 1 && sinks[0].kind == SINK_PACK;
    for (int i = 0; i < n; i++)
        if (sinks[i].kind == SINK_KEEP && sinks[i].inst) t.pending[sinks[i].value] = true;
    LLVMPositionBuilderAtEnd(e->b, ke->current);
    prepare(&t, n, sinks);
    t.tail[0] = ke->current;
    if (t.n)
        ke->current = level(&t, 1, n, sinks);
    else
        body(&t, n, sinks);
    LLVMPositionBuilderAtEnd(e->b, ke->current);
}
