/* Loops and bodies of a nest; see nest.h. */
#include "codegen/host/nest_internal.h"

LLVMTypeRef storage_type(const Emit *e, DType t) { return t == DT_BOOL ? e->i8 : emit_type(e, t); }

LLVMValueRef nest_alloca(KernelEmit *ke, LLVMTypeRef type, int64_t n) {
    const Emit *e = ke->e;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderAtEnd(e->b, ke->entry);
    LLVMValueRef p =
        n == 1 ? LLVMBuildAlloca(e->b, type, "") : LLVMBuildAlloca(e->b, LLVMArrayType2(type, (uint64_t)n), "");
    LLVMSetAlignment(p, 64);
    if (n > 1) ke->stack_bytes += n * (type == e->i8 ? 1 : 4);
    if (here) LLVMPositionBuilderAtEnd(e->b, here);
    return p;
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */
static void compute(Nest *t, Sink *s) {
    switch (s->of.kind) {
    case SINK_STORE: s->computed = nest_value(t, s->of.inst->in[0]); break;
    case SINK_PACK: s->computed = s->pack.pairs ? nest_pair(t, s->of.value) : nest_value(t, s->of.value); break;
    case SINK_KEEP:
    case SINK_READ: s->computed = nest_value(t, s->of.value); break;
    case SINK_REDUCE:
    case SINK_DOT:
        if (s->in_register)
            nest_reduce_in_register(t, s);
        else
            nest_reduce_in_memory(t, s);
        break;
    }
}

static LLVMValueRef and_mask(Nest *t, LLVMValueRef wanted, bool vector) {
    if (!vector || !t->mask) return wanted;
    if (!wanted) return t->mask;
    return LLVMBuildAnd(t->e->b, emit_splat(t->e, wanted, t->width), t->mask, "");
}

static void write_store(Nest *t, Sink *s) {
    const DType type = t->k->buffers.at[s->of.inst->buffer].dtype;
    LLVMValueRef wanted = s->of.inst->n_in > 1 ? nest_value(t, s->of.inst->in[1]) : NULL;
    const Place p = nest_buffer_place(t, s->of.inst, t->n);
    nest_position(t, t->n);
    nest_write(t, p, emit_to_memory(t->e, type, s->computed), and_mask(t, wanted, p.vector));
}

static void write_kept(Nest *t, Sink *s) {
    const DType type = t->ke->v->storage.at[s->of.storage].dtype;
    const Place p = nest_storage_place(t, s->of.storage);
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
        if (sinks[i].of.kind == SINK_STORE && sinks[i].of.inst->n_in > 1) nest_value(t, sinks[i].of.inst->in[1]);
    }
    for (int i = 0; i < n; i++) {
        Sink *s = &sinks[i];
        if (s->of.kind == SINK_STORE) write_store(t, s);
        if (s->of.kind == SINK_KEEP || (sink_reduces(&s->of) && !s->in_register)) write_kept(t, s);
        if (s->of.kind == SINK_PACK) write_pack(t, s);
        if (s->of.kind == SINK_READ) s->read = s->computed;
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
    t->mask = emit_lanes_below(e, left, t->width);
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
        if (t->ke->plan->machine->masks) {
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
    nest_reduce_begin(t, d - 1, n, sinks);
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
    nest_reduce_finish(t, d - 1, width, n, sinks);
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
    if (n == 1 && sinks[0].of.kind == SINK_PACK) t.pairs.axis = sinks[0].pack.pairs - 1;
    LoopSink *of = ARENA_ARRAY(ke->arena, LoopSink, n);
    for (int i = 0; i < n; i++) of[i] = sinks[i].of;
    t.n = loop_order(ke->plan, axes, n, of, t.axis);
    if (t.n) {
        t.inner = t.axis[t.n - 1];
        t.width = ke->v->vector;
    }
    t.streams = n == 1 && sinks[0].of.kind == SINK_PACK;
    for (int i = 0; i < n; i++)
        if (sinks[i].of.kind == SINK_KEEP && sinks[i].of.inst) t.pending[sinks[i].of.value] = true;
    LLVMPositionBuilderAtEnd(e->b, ke->current);
    nest_reduce_prepare(&t, n, sinks);
    t.tail[0] = ke->current;
    if (t.n)
        ke->current = level(&t, 1, n, sinks);
    else
        body(&t, n, sinks);
    LLVMPositionBuilderAtEnd(e->b, ke->current);
    nest_reduce_end(&t, n, sinks);
}
