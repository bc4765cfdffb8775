/* The walk over a kernel's instructions: grid, loops, branches, groups of sinks. */
#include "codegen/host/kernel.h"
#include "codegen/host/transpose.h"
#include <string.h>

typedef struct KernelWalk {
    KernelEmit ke;
    int pos;   /* of the next instruction, as Values numbers them */
    int group; /* of the collected sinks */
    VEC(Sink) sinks;
    TileType axes;
    FormPlans plans; /* of dots */
} KernelWalk;

/* ---- groups -------------------------------------------------------------------------------------------- */
static void flush(KernelWalk *w) {
    if (w->sinks.n && !transpose_emit(&w->ke, &w->axes, w->sinks.n, w->sinks.at))
        nest_emit(&w->ke, &w->axes, w->sinks.n, w->sinks.at);
    w->sinks.n = 0;
    w->group = -1;
}

static Sink make_sink(const KernelWalk *w, const Inst *i) {
    const ValueInfo *info = i->result >= 0 ? &w->ke.v->value[i->result] : NULL;
    const SinkKind kind = i->kind == TI_STORE ? SINK_STORE : i->kind == TI_REDUCE ? SINK_REDUCE : SINK_KEEP;
    return (Sink){.of = {.kind = kind, .inst = i, .value = i->result, .storage = info ? info->storage : -1}};
}

static void collect(KernelWalk *w, const Inst *i, int group) {
    if (group != w->group) flush(w);
    w->group = group;
    w->axes = sink_axes(w->ke.k, i);
    vec_push(w->ke.arena, w->sinks, make_sink(w, i));
}

/* ---- assignments ------------------------------------------------------------------------------------------ */
typedef struct Move {
    int value, storage; /* value -> storage */
} Move;

static bool reads_storage(const KernelWalk *w, int value, int storage, bool *seen) {
    const ValueInfo *info = &w->ke.v->value[value];
    if (seen[value]) return false;
    seen[value] = true;
    if (info->kept) return info->storage == storage;
    for (int n = 0; info->def && n < info->def->n_in; n++)
        if (reads_storage(w, info->def->in[n], storage, seen)) return true;
    return info->def && subscripts_gather(info->def); /* not looked into */
}

static void move(KernelWalk *w, Move m) {
    const Storage *s = &w->ke.v->storage.at[m.storage];
    TileType axes = {.dtype = s->dtype, .n_axes = s->n};
    memcpy(axes.axis, s->axis, sizeof axes.axis);
    Sink sink = {.of = {.kind = SINK_KEEP, .value = m.value, .storage = m.storage}};
    nest_emit(&w->ke, &axes, 1, &sink);
}

static int temporary(KernelWalk *w, int like) {
    const Storage s = w->ke.v->storage.at[like];
    vec_push(w->ke.arena, w->ke.v->storage, s);
    LLVMValueRef *grown = ARENA_ARRAY(w->ke.arena, LLVMValueRef, w->ke.v->storage.n);
    memcpy(grown, w->ke.memory, sizeof *grown * (size_t)(w->ke.v->storage.n - 1));
    w->ke.memory = grown;
    grown[w->ke.v->storage.n - 1] = nest_alloca(&w->ke, storage_type(w->ke.e, s.dtype), s.elements);
    return w->ke.v->storage.n - 1;
}

/* All values are as before the first move: what a later move still reads is written aside first. */
static void assign(KernelWalk *w, int n, const int *values, const int *targets) {
    VEC(Move) after = {0};
    for (int i = 0; i < n; i++) {
        const ValueInfo *from = &w->ke.v->value[values[i]];
        const int storage = w->ke.v->value[targets[i]].storage;
        if (from->kept && from->storage == storage) continue;
        bool needed = false;
        for (int j = i + 1; j < n; j++)
            needed |= reads_storage(w, values[j], storage, ARENA_ARRAY(w->ke.arena, bool, w->ke.k->types.n));
        if (!needed) {
            move(w, (Move){values[i], storage});
            continue;
        }
        const Move aside = {values[i], temporary(w, storage)};
        move(w, aside);
        vec_push(w->ke.arena, after, (Move){aside.storage, storage});
    }
    for (int i = 0; i < after.n; i++) {
        const Emit *e = w->ke.e;
        const Storage *s = &w->ke.v->storage.at[after.at[i].storage];
        LLVMValueRef bytes = LLVMConstMul(emit_i64(e, s->elements), LLVMSizeOf(storage_type(e, s->dtype)));
        LLVMBuildMemCpy(e->b, w->ke.memory[after.at[i].storage], 64, w->ke.memory[after.at[i].value], 64, bytes);
    }
}

/* ---- axes ----------------------------------------------------------------------------------------------------- */
static LLVMValueRef extent_of(const KernelWalk *w, Dim d) {
    const Emit *e = w->ke.e;
    if (dim_is_fixed(d)) return emit_i64(e, d.bound > 0 ? d.bound : 0);
    LLVMValueRef v = LLVMBuildMul(e->b, w->ke.extent[d.sym], emit_i64(e, d.scale), "");
    LLVMValueRef args[2] = {LLVMBuildAdd(e->b, v, emit_i64(e, d.offset), ""), emit_i64(e, 0)};
    return emit_intrinsic(e, "llvm.smax", 2, args);
}

static bool one_tile(const Axis *x) { return dim_is_fixed(x->extent) && x->extent.bound <= x->step; }

/* Lane 0 has index `base`: how many lanes the tile has. */
static void enter_axis(KernelWalk *w, int axis, LLVMValueRef base) {
    const Emit *e = w->ke.e;
    const Axis *x = &w->ke.k->axes.at[axis];
    w->ke.base[axis] = base;
    w->ke.lo[axis] = emit_i64(e, 0);
    if (axis_whole(w->ke.k, axis)) {
        w->ke.hi[axis] = emit_i64(e, x->step);
        return;
    }
    LLVMValueRef args[2] = {LLVMBuildSub(e->b, extent_of(w, x->extent), base, ""), emit_i64(e, x->step)};
    int64_t known = LLVMIsAConstantInt(args[0]) ? LLVMConstIntGetSExtValue(args[0]) : -1;
    if (known >= 0)
        w->ke.hi[axis] = emit_i64(e, known < x->step ? known : x->step);
    else
        w->ke.hi[axis] = emit_intrinsic(e, "llvm.smin", 2, args);
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */
static void walk_block(KernelWalk *w, const Block *b);

static const Inst *yield_of(const Inst *i) { return i->body.at[i->body.n - 1]; }

static const FormPlan *plan_of(const KernelWalk *w, const Inst *dot) {
    int i = 0;
    while (w->plans.of.at[i]->dot != dot) i++;
    return w->plans.of.at[i];
}

static bool starts_fresh(const KernelWalk *w, const Inst *loop, int carry) {
    for (int i = 0; i < w->plans.of.n; i++)
        if (w->plans.of.at[i]->loop == loop && w->plans.of.at[i]->carry == carry) return true;
    return false;
}

/* Starts of the carries.  Zero that only a dot will read is not written: the dot's first iteration takes it for
 * granted. */
static void start_carries(KernelWalk *w, const Inst *i) {
    int *init = ARENA_ARRAY(w->ke.arena, int, i->n_carry + 1), *carry = ARENA_ARRAY(w->ke.arena, int, i->n_carry + 1),
        n = 0;
    for (int c = 0; c < i->n_carry; c++) {
        if (starts_fresh(w, i, c)) continue;
        init[n] = i->init[c];
        carry[n++] = i->carry[c];
    }
    assign(w, n, init, carry);
}

static LLVMValueRef base_of(void *user, int axis) { return ((const KernelWalk *)user)->ke.base[axis]; }
static LLVMValueRef symbol_of(void *user, int sym) { return ((const KernelWalk *)user)->ke.extent[sym]; }

/* A scalar of the program, which a bound names. */
static LLVMValueRef value_of(void *user, int value) {
    KernelWalk *w = user;
    Sink read = {.of = {.kind = SINK_READ, .value = value, .storage = -1}};
    const TileType none = {.n_axes = 0};
    nest_emit(&w->ke, &none, 1, &read);
    return read.read;
}

static void walk_for(KernelWalk *w, const Inst *i) {
    const Emit *e = w->ke.e;
    const Axis *x = &w->ke.k->axes.at[i->axis];
    start_carries(w, i);
    LLVMPositionBuilderAtEnd(e->b, w->ke.current);
    const IndexSource bounds = {.user = w, .kernel = w->ke.k, .base = base_of, .extent = symbol_of, .value = value_of};
    LLVMValueRef first, end;
    emit_loop_bounds(e, &bounds, i, extent_of(w, x->extent), &first, &end);
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(e->b), header = emit_block(e, w->ke.fn, x->name),
                      exit = emit_block(e, w->ke.fn, "done");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, end, first, ""), header, exit);
    LLVMPositionBuilderAtEnd(e->b, header);
    LLVMValueRef base = LLVMBuildPhi(e->b, e->i64, x->name);
    enter_axis(w, i->axis, one_tile(x) ? emit_i64(e, 0) : base);
    w->ke.current = header;
    walk_block(w, &i->body);
    assign(w, i->n_carry, yield_of(i)->in, i->carry);
    LLVMPositionBuilderAtEnd(e->b, w->ke.current);
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, base, emit_i64(e, x->step), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, end, ""), header, exit);
    LLVMAddIncoming(base, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){pre, latch}, 2);
    LLVMPositionBuilderAtEnd(e->b, exit);
    w->ke.current = exit;
}

static void walk_if(KernelWalk *w, const Inst *i) {
    const Emit *e = w->ke.e;
    Sink condition = {.of = {.kind = SINK_READ, .value = i->in[0], .storage = -1}};
    const TileType none = {.n_axes = 0};
    nest_emit(&w->ke, &none, 1, &condition);
    LLVMBasicBlockRef then = emit_block(e, w->ke.fn, "then"), otherwise = emit_block(e, w->ke.fn, "else"),
                      join = emit_block(e, w->ke.fn, "join");
    LLVMBuildCondBr(e->b, condition.read, then, otherwise);
    LLVMPositionBuilderAtEnd(e->b, w->ke.current = then);
    walk_block(w, &i->body);
    assign(w, i->n_carry, yield_of(i)->in, i->results);
    LLVMBuildBr(e->b, join);
    LLVMPositionBuilderAtEnd(e->b, w->ke.current = otherwise);
    assign(w, i->n_carry, i->init, i->results);
    LLVMBuildBr(e->b, join);
    LLVMPositionBuilderAtEnd(e->b, w->ke.current = join);
}

/* Not 0 in the first iteration of all loops over k. */
static LLVMValueRef fresh_now(KernelWalk *w, const Inst *dot) {
    const Emit *e = w->ke.e;
    LLVMValueRef first = emit_i64(e, 1);
    for (int o = 0; o < dot->n_over; o++) {
        const Axis *x = &w->ke.k->axes.at[dot->over[o]];
        if (x->kind != AXIS_LOOP || x->extent.bound <= x->step) continue;
        LLVMValueRef here = LLVMBuildICmp(e->b, LLVMIntEQ, w->ke.base[dot->over[o]], emit_i64(e, 0), "");
        first = LLVMBuildAnd(e->b, first, LLVMBuildZExt(e->b, here, e->i64, ""), "");
    }
    return first;
}

static bool done_by_dot(const KernelWalk *w, const Inst *store) {
    for (int i = 0; i < w->plans.of.n; i++)
        if (w->plans.of.at[i]->store == store) return true;
    return false;
}

void loops_emit(KernelEmit *ke, const FormPlan *p, const DotResult *to) {
    const Kernel *k = ke->k;
    TileType axes = tile_type_union(k->types.at[p->dot->in[0]], k->types.at[p->dot->in[1]]);
    axes = tile_type_union(axes, k->types.at[p->dot->result]);
    Sink sink = {.of = {.kind = SINK_DOT, .inst = p->dot, .value = -1, .storage = p->storage}};
    (void)to; /* it does not start */
    nest_emit(ke, &axes, 1, &sink);
}

static void walk_dot(KernelWalk *w, const Inst *i) {
    static void (*const emit[])(KernelEmit *, const FormPlan *, const DotResult *) = {
#define FORM(e, text, plan, choose, emit) emit,
#include "codegen/schedule/forms.def"
#undef FORM
    };
    const FormPlan *p = plan_of(w, i);
    DotResult to;
    assign(w, 1, &i->in[2], &i->result);
    if (p->loop) {
        LLVMPositionBuilderAtEnd(w->ke.e->b, w->ke.current);
        to.fresh = fresh_now(w, i);
        to.memory = p->store ? nest_origin(&w->ke, p->store) : NULL;
    }
    emit[p->form](&w->ke, p, p->loop ? &to : NULL);
}

static void walk_block(KernelWalk *w, const Block *b) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        const int pos = w->pos++;
        if (!is_sink(w->ke.v, i) || done_by_dot(w, i)) continue;
        if (w->ke.v->at.at[pos].group >= 0) {
            collect(w, i, w->ke.v->at.at[pos].group);
            continue;
        }
        flush(w);
        if (i->kind == TI_FOR) walk_for(w, i);
        if (i->kind == TI_IF) walk_if(w, i);
        if (i->kind == TI_BUCKET) bucket_emit(&w->ke, i);
        if (i->kind == TI_DOT) walk_dot(w, i);
    }
    flush(w);
}

/* ---- the function ------------------------------------------------------------------------------------------------ */
static LLVMValueRef load_buffer(KernelEmit *ke, int buffer, LLVMValueRef at) {
    const Emit *e = ke->e;
    LLVMValueRef p = LLVMBuildGEP2(e->b, e->ptr, LLVMGetParam(ke->fn, 0), &at, 1, "");
    return LLVMBuildLoad2(e->b, e->ptr, p, ke->k->buffers.at[buffer].name);
}

static void load_arguments(KernelWalk *w) {
    KernelEmit *ke = &w->ke;
    const Emit *e = ke->e;
    ke->buffer = ARENA_ARRAY(ke->arena, LLVMValueRef, ke->k->buffers.n + 1);
    ke->extent = ARENA_ARRAY(ke->arena, LLVMValueRef, ke->k->n_syms + 1);
    for (int i = 0; i < ke->k->buffers.n; i++) {
        ke->buffer[i] = load_buffer(ke, i, emit_i64(e, i));
    }
    for (int i = 0; i < ke->k->n_syms; i++) {
        LLVMValueRef at = emit_i64(e, i), p = LLVMBuildGEP2(e->b, e->i64, LLVMGetParam(ke->fn, 1), &at, 1, "");
        ke->extent[i] = LLVMBuildLoad2(e->b, e->i64, p, "");
    }
    ke->memory = ARENA_ARRAY(ke->arena, LLVMValueRef, ke->v->storage.n + 1);
    for (int i = 0; i < ke->v->storage.n; i++) {
        const Storage *s = &ke->v->storage.at[i];
        /* Slack: whole vectors and whole row blocks may be read past the end. */
        const int64_t slack = s->n ? 4 * ke->v->vector : 0;
        const int64_t row = s->n_columns && s->n > s->n_columns ? s->stride[s->n - s->n_columns - 1] : 0;
        if (s->elements) ke->memory[i] = nest_alloca(ke, storage_type(e, s->dtype), s->elements + slack + SPARE_ROWS * row);
    }
}

/* The family's buffers of the program at `base`. */
static void enter_member(KernelEmit *ke) {
    const Emit *e = ke->e;
    const int axis = kernel_family_axis(ke->k);
    for (int i = 0; i < ke->k->buffers.n && axis >= 0; i++)
        if (ke->k->buffers.at[i].family)
            ke->buffer[i] = load_buffer(ke, i, LLVMBuildAdd(e->b, ke->base[axis], emit_i64(e, i), ""));
}

static void enter_program(KernelWalk *w, LLVMValueRef program) {
    const Emit *e = w->ke.e;
    int first = -1;
    for (int a = w->ke.k->axes.n - 1; a >= 0; a--)
        if (w->ke.k->axes.at[a].kind == AXIS_GRID) first = a;
    LLVMValueRef rest = program;
    for (int a = w->ke.k->axes.n - 1; a >= 0; a--) {
        const Axis *x = &w->ke.k->axes.at[a];
        if (x->kind == AXIS_SPAN) enter_axis(w, a, emit_i64(e, 0));
        if (x->kind != AXIS_GRID) continue;
        LLVMValueRef coordinate = rest;
        if (a != first) {
            LLVMValueRef up = LLVMBuildAdd(e->b, extent_of(w, x->extent), emit_i64(e, x->step - 1), "");
            LLVMValueRef count = LLVMBuildUDiv(e->b, up, emit_i64(e, x->step), "");
            coordinate = LLVMBuildURem(e->b, rest, count, "");
            rest = LLVMBuildUDiv(e->b, rest, count, "");
        }
        enter_axis(w, a, one_tile(x) ? emit_i64(e, 0) : LLVMBuildMul(e->b, coordinate, emit_i64(e, x->step), x->name));
    }
}

static void walk_programs(KernelWalk *w) {
    const Emit *e = w->ke.e;
    LLVMValueRef first = LLVMGetParam(w->ke.fn, 2), last = LLVMGetParam(w->ke.fn, 3);
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(e->b), header = emit_block(e, w->ke.fn, "program"),
                      exit = emit_block(e, w->ke.fn, "exit");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, first, last, ""), header, exit);
    LLVMPositionBuilderAtEnd(e->b, header);
    LLVMValueRef program = LLVMBuildPhi(e->b, e->i64, "program");
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, program, emit_i64(e, 1), "");
    enter_program(w, next);
    memcpy(w->ke.next_base, w->ke.base, sizeof w->ke.base);
    enter_program(w, program);
    enter_member(&w->ke);
    w->ke.current = header;
    walk_block(w, &w->ke.k->body);
    LLVMPositionBuilderAtEnd(e->b, w->ke.current);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, last, ""), header, exit);
    LLVMAddIncoming(program, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){pre, w->ke.current}, 2);
    LLVMPositionBuilderAtEnd(e->b, exit);
    LLVMBuildRetVoid(e->b);
}

HostKernel host_emit_kernel(const Emit *e, Arena *a, const Kernel *k, const char *name, const HostMachine *m) {
    const HostPlan plan = host_plan(a, k, m);
    KernelWalk w = {.group = -1, .ke = {.e = e, .plan = &plan, .k = k, .v = plan.v, .arena = a}, .plans = form_plan_all(&plan)};
    if (w.plans.no) return (HostKernel){.no = w.plans.no};
    LLVMTypeRef params[4] = {e->ptr, e->ptr, e->i64, e->i64};
    w.ke.fn = LLVMAddFunction(e->module, name, LLVMFunctionType(e->none, params, 4, false));
    w.ke.entry = emit_block(e, w.ke.fn, "entry");
    LLVMBasicBlockRef start = emit_block(e, w.ke.fn, "start");
    LLVMPositionBuilderAtEnd(e->b, start);
    load_arguments(&w);
    walk_programs(&w);
    LLVMPositionBuilderAtEnd(e->b, w.ke.entry);
    LLVMBuildBr(e->b, start);
    emit_fn_attribute(e, w.ke.fn, "nounwind");
    LLVMSetLinkage(w.ke.fn, LLVMInternalLinkage);
    return (HostKernel){.fn = w.ke.fn, .stack_bytes = w.ke.stack_bytes};
}
