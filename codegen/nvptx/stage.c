/* Tiles in shared memory: where they are, how they are filled and read, barriers.
 *
 * A kernel whose tiles are all laid out as the back end likes has an array for each.  One with stated layouts has them where
 * ir/tile_stage.h plans them, in the block's dynamic shared memory; a place is an offset in bytes there. */
#include "codegen/nvptx/hopper.h"
#include <string.h>

static LLVMValueRef i32(const Simt *s, int64_t v) { return LLVMConstInt(s->e->i32, (unsigned long long)v, true); }

/* ---- barriers --------------------------------------------------------------------------------------------- */
void simt_barrier(Simt *s) {
    const Emit *e = s->e;
    /* where other threads only fetch: those that compute */
    LLVMValueRef group = simt_group(s), number[] = {group ? LLVMBuildAdd(e->b, group, i32(s, 1), "") : NULL};
    const char *text = group            ? arena_printf(s->arena, "bar.sync $0, %d;", s->k->threads)
                       : s->k->producer ? arena_printf(s->arena, "bar.sync 1, %d;", s->k->threads)
                       : s->k->threads < s->launch->threads ? arena_printf(s->arena, "bar.sync 0, %d;", s->k->threads)
                                        : "bar.sync 0;";
    LLVMValueRef call = simt_asm(e, e->none, text, group ? "r,~{memory}" : "~{memory}", group != NULL, number);
    const unsigned kind = LLVMGetEnumAttributeKindForName("convergent", 10);
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, kind, 0));
    s->shared_read = s->shared_written = s->old_read = s->around = false;
}
void simt_before_read(Simt *s) {
    if (s->in_group) return;
    if (s->shared_written) simt_barrier(s);
    s->shared_read = true;
}
void simt_before_write(Simt *s, bool own) {
    if (own ? s->around : s->shared_read) simt_barrier(s);
    s->shared_written = true;
}

/* ---- arrays ------------------------------------------------------------------------------------------------- */
LLVMValueRef simt_shared_array(Simt *s, LLVMTypeRef element, int64_t n) {
    enum { UNIT = 16 };
    const int64_t own = s->k->alternate > 1 ? (n + UNIT - 1) / UNIT * UNIT : n; /* of one group */
    char *name = arena_printf(s->arena, "%s_shared%d", s->k->name, s->n_shared++);
    LLVMTypeRef type = LLVMArrayType2(element, (uint64_t)(own * kernel_groups(s->k)));
    LLVMValueRef g = LLVMAddGlobalInAddressSpace(s->e->module, type, name, SPACE_SHARED_PTR);
    LLVMSetLinkage(g, LLVMInternalLinkage);
    LLVMSetInitializer(g, LLVMGetUndef(type));
    LLVMSetAlignment(g, 16);
    LLVMValueRef group = simt_group(s);
    if (!group) return g;
    LLVMValueRef first = LLVMBuildMul(s->e->b, group, i32(s, own), "");
    return LLVMBuildInBoundsGEP2(s->e->b, element, g, &first, 1, "");
}

void stage_open(Simt *s) {
    const Emit *e = s->e;
    s->place = ARENA_ARRAY(s->arena, LLVMValueRef, s->k->types.n + 1);
    s->run = ARENA_ARRAY(s->arena, LLVMValueRef, s->k->types.n + 1);
    s->fetched = ARENA_ARRAY(s->arena, bool, s->k->types.n + 1);
    if (!kernel_shared_bytes(s->k)) return;
    stage_plan(s->arena, s->k, &s->plan);
    const char *name = arena_printf(s->arena, "%s_shared", s->launch->name);
    s->dynamic = LLVMGetNamedGlobal(e->module, name); /* of all kernels of the bundle */
    if (!s->dynamic) s->dynamic = LLVMAddGlobalInAddressSpace(e->module, LLVMArrayType2(e->i8, 0), name, SPACE_SHARED_PTR);
    LLVMSetLinkage(s->dynamic, LLVMExternalLinkage);
    LLVMSetAlignment(s->dynamic, 1024);
    s->dynamic_address = LLVMBuildPtrToInt(e->b, s->dynamic, e->i32, "");
}

void stage_select(Simt *s, int value, LLVMValueRef slot) {
    StageLayout l;
    stage_layout(s->k, s->def[value], &l);
    LLVMValueRef at = i32(s, s->plan.offset[value]), group = simt_group(s);
    if (group) at = LLVMBuildAdd(s->e->b, at, LLVMBuildMul(s->e->b, group, i32(s, s->plan.apart), ""), "");
    if (slot) at = LLVMBuildAdd(s->e->b, at, LLVMBuildMul(s->e->b, slot, i32(s, l.slot), ""), "");
    s->place[value] = at;
    s->shared[value] = s->dynamic;
}

LLVMValueRef stage_address(const Simt *s, int value) {
    return LLVMBuildAdd(s->e->b, s->dynamic_address, s->place[value], "");
}

/* ---- places of elements ---------------------------------------------------------------------------------------- */
static LLVMValueRef scaled(const Simt *s, LLVMValueRef v, int by) { return LLVMBuildMul(s->e->b, v, i32(s, by), ""); }

LLVMValueRef stage_element(const Simt *s, const StageLayout *l, LLVMValueRef const *offset) {
    const Emit *e = s->e;
    LLVMValueRef at = i32(s, 0);
    for (int d = 0; d < l->n; d++) at = LLVMBuildAdd(e->b, at, scaled(s, offset[l->axis[d]], l->stride[d]), "");
    if (l->minor < 0) return at;
    LLVMValueRef along = offset[l->minor];
    if (l->panel < s->k->axes.at[l->minor].step) {
        LLVMValueRef panel = LLVMBuildUDiv(e->b, along, i32(s, l->panel), "");
        at = LLVMBuildAdd(e->b, at, scaled(s, panel, l->panel_stride), "");
        along = LLVMBuildURem(e->b, along, i32(s, l->panel), "");
    }
    at = LLVMBuildAdd(e->b, at, along, "");
    if (!l->swizzle) return at;
    LLVMValueRef row = LLVMBuildUDiv(e->b, at, i32(s, 128 / l->bytes), "");
    row = LLVMBuildAnd(e->b, row, i32(s, l->swizzle / 16 - 1), "");
    return LLVMBuildXor(e->b, at, scaled(s, row, 16 / l->bytes), "");
}

/* Constants are added last here too, where a swizzle lets them. */
static LLVMValueRef element_pointer(Simt *s, int value, const Coords *c) {
    const Emit *e = s->e;
    StageLayout l;
    Coords first = *c;
    LLVMValueRef offset[MAX_AXES] = {0};
    int beyond[MAX_AXES] = {0};
    const TileType *t = &s->k->types.at[value];
    stage_layout(s->k, s->def[value], &l);
    for (int d = 0; d < t->n_axes; d++)
        if (c->offset[t->axis[d]]) beyond[t->axis[d]] = c->beyond[t->axis[d]], first.beyond[t->axis[d]] = 0;
    LLVMValueRef apart = emit_i64(e, stage_place(&l, beyond));
    const bool last = !l.swizzle || stage_place(&l, beyond) % STAGE_PERIOD == 0;
    for (int d = 0; d < t->n_axes; d++) offset[t->axis[d]] = simt_offset(s, last ? &first : c, t->axis[d]);
    LLVMValueRef at = stage_element(s, &l, offset), base = s->shared[value];
    if (s->place[value]) base = LLVMBuildInBoundsGEP2(e->b, e->i8, base, &s->place[value], 1, "");
    base = LLVMBuildInBoundsGEP2(e->b, emit_memory_type(e, t->dtype), base, &at, 1, "");
    return last ? LLVMBuildInBoundsGEP2(e->b, e->i8, base, &apart, 1, "") : base;
}

LLVMValueRef simt_staged(Simt *s, int value, const Coords *c) {
    simt_before_read(s);
    const DType t = s->k->types.at[value].dtype;
    LLVMValueRef v = LLVMBuildLoad2(s->e->b, emit_memory_type(s->e, t), element_pointer(s, value, c), "");
    v = emit_from_memory(s->e, t, v);
    return stage_rounds(s, value) ? emit_round(s->e, t, v) : v;
}

void simt_staged_run(Simt *s, int value, const Coords *c, int n, LLVMValueRef *out) {
    const Emit *e = s->e;
    const DType t = s->k->types.at[value].dtype;
    simt_before_read(s);
    LLVMValueRef v = LLVMBuildLoad2(e->b, emit_vector_type(emit_memory_type(e, t), n), element_pointer(s, value, c), "");
    LLVMSetAlignment(v, (unsigned)(n * dtype_bytes(t)));
    for (int r = 0; r < n; r++) out[r] = emit_from_memory(e, t, LLVMBuildExtractElement(e->b, v, i32(s, r), ""));
}

int simt_staged_width(const Simt *s, int value) {
    StageLayout l;
    const Inst *i = s->def[value];
    if (i->minor != NO_AXIS) return 1;
    stage_layout(s->k, i, &l);
    bool aligned = true;
    for (int d = 0; d < l.n; d++) aligned &= l.stride[d] % STAGE_RUN == 0;
    const bool fits = l.bytes * STAGE_RUN <= 16 && l.minor >= 0 && s->axis[l.minor].vector % STAGE_RUN == 0;
    return aligned && fits ? STAGE_RUN : 1;
}

bool stage_rounds(const Simt *s, int value) {
    const Inst *i = s->def[value];
    return i->by == BY_ASYNC && s->def[i->in[0]]->kind != TI_LOAD;
}

/* ---- filling from registers -------------------------------------------------------------------------------------- */
/* Runs `then` where `where` holds: opens the block; stage_endif closes it. */
static LLVMBasicBlockRef stage_if(Simt *s, LLVMValueRef where) {
    if (!where) return NULL;
    LLVMBasicBlockRef then = emit_block(s->e, s->fn, "stage"), after = emit_block(s->e, s->fn, "staged");
    LLVMBuildCondBr(s->e->b, where, then, after);
    LLVMPositionBuilderAtEnd(s->e->b, then);
    return after;
}
static void stage_endif(Simt *s, LLVMBasicBlockRef after) {
    if (!after) return;
    LLVMBuildBr(s->e->b, after);
    LLVMPositionBuilderAtEnd(s->e->b, after);
}

/* In its memory form; 0 outside. */
static LLVMValueRef element_value(Simt *s, const Inst *i, const Coords *c) {
    LLVMValueRef v = simt_value(s, i->in[0], c), inside = simt_inside(s, c, &i->type);
    if (inside) v = LLVMBuildSelect(s->e->b, inside, v, emit_const(s->e, i->type.dtype, 0), "");
    return emit_to_memory(s->e, i->type.dtype, v);
}

/* Neighbours along the innermost axis in one store where registers hold them so. */
static int run_of_registers(const Simt *s, const Inst *i) {
    if (i->minor == NO_AXIS) return simt_staged_width(s, i->result);
    const int most = 16 / dtype_bytes(i->type.dtype);
    int run = 1;
    while (run * 2 <= most && s->axis[i->minor - 1].vector % (run * 2) == 0) run *= 2;
    return run;
}

void stage_registers(Simt *s, const Inst *i, const int *slot, int n) {
    const Emit *e = s->e;
    if (s->hopper && hopper_stage_registers(s, i, slot, n)) return;
    LLVMValueRef mine = simt_first_copy(s, &i->type);
    StageLayout l;
    stage_layout(s->k, i, &l);
    const int run = run_of_registers(s, i);
    LLVMTypeRef type = emit_vector_type(emit_memory_type(e, i->type.dtype), run > 1 ? run : 0);
    for (int at = 0; at < n; at++) {
        Coords c = {0};
        simt_coords(s, &i->type, slot[at], &c);
        if (run > 1 && c.reg[l.minor] % run) continue;
        LLVMValueRef v = run > 1 ? LLVMGetUndef(type) : element_value(s, i, &c),
                     first = element_pointer(s, i->result, &c);
        for (int r = 0; r < run && run > 1; r++) {
            v = LLVMBuildInsertElement(e->b, v, element_value(s, i, &c), i32(s, r), "");
            c.reg[l.minor]++;
        }
        LLVMBasicBlockRef after = stage_if(s, mine);
        LLVMValueRef st = LLVMBuildStore(e->b, v, first);
        if (run > 1) LLVMSetAlignment(st, (unsigned)(run * dtype_bytes(i->type.dtype)));
        stage_endif(s, after);
    }
}

/* ---- filling in the order of memory ------------------------------------------------------------------------------ */
/* The loads behind a value that have the walk's runs together in memory, masked as a whole: one access each. */
static void load_runs(Simt *s, int value, const StageWalk *w, const Coords *c) {
    const Inst *i = s->def[value];
    const int axis = w->order[w->n - 1];
    if (!i || s->shared[value] || s->reg[value] || s->run[value]) return;
    for (int n = 0; n < i->n_in && i->kind == TI_ELEMENT; n++) load_runs(s, i->in[n], w, c);
    if (i->kind != TI_LOAD || w->width * dtype_bytes(i->type.dtype) < 4 || w->width * dtype_bytes(i->type.dtype) > 16)
        return;
    const Dim extent = s->k->axes.at[axis].extent;
    const bool along = tile_type_has(&i->type, axis), whole = dim_is_fixed(extent) && extent.bound % w->width == 0;
    if (along && whole && load_run_bytes(s->k, s->def, i, axis) >= w->width * dtype_bytes(i->type.dtype))
        s->run[value] = simt_load_run(s, i, c, w->width);
}

/* A run's elements, in memory form: one vector, or a scalar. */
static LLVMValueRef run_value(Simt *s, const Inst *i, const StageWalk *w, Coords *c) {
    if (w->width == 1) return element_value(s, i, c);
    const int axis = w->order[w->n - 1];
    LLVMValueRef v = LLVMGetUndef(emit_vector_type(emit_memory_type(s->e, i->type.dtype), w->width));
    memset(s->run, 0, sizeof(LLVMValueRef) * (size_t)s->k->types.n);
    load_runs(s, i->in[0], w, c);
    for (int n = 0; n < w->width; n++, c->beyond[axis]++) {
        s->run_at = n;
        v = LLVMBuildInsertElement(s->e->b, v, element_value(s, i, c), i32(s, n), "");
    }
    c->beyond[axis] -= w->width;
    memset(s->run, 0, sizeof(LLVMValueRef) * (size_t)s->k->types.n);
    return v;
}

int stage_fill_count(const Simt *s, const Inst *i) {
    const StageWalk w = stage_fill_walk(s, i);
    return (w.runs + s->k->threads - 1) / s->k->threads;
}

void stage_fill_values(Simt *s, const Inst *i, LLVMValueRef *v) {
    const StageWalk w = stage_fill_walk(s, i);
    for (int from = 0, n = 0; from < w.runs; from += s->k->threads, n++) {
        Coords c = {0};
        stage_walk_at(s, &w, from, &c);
        v[n] = run_value(s, i, &w, &c);
    }
}

static void put_run(Simt *s, const Inst *i, const Coords *c, LLVMValueRef v) {
    LLVMValueRef st = LLVMBuildStore(s->e->b, v, element_pointer(s, i->result, c));
    LLVMSetAlignment(st, i->by == BY_NONE ? (unsigned)dtype_bytes(i->type.dtype) : (unsigned)i->bytes);
}

void stage_fill_store(Simt *s, const Inst *i, LLVMValueRef const *v) {
    const StageWalk w = stage_fill_walk(s, i);
    for (int from = 0, n = 0; from < w.runs; from += s->k->threads, n++) {
        Coords c = {0};
        LLVMBasicBlockRef after = stage_if(s, stage_walk_at(s, &w, from, &c));
        put_run(s, i, &c, v[n]);
        stage_endif(s, after);
    }
}

enum { FEW = 16 }; /* runs of a thread, whose addresses may be kept from iteration to iteration */

void stage_fill(Simt *s, const Inst *i) {
    const StageWalk w = stage_fill_walk(s, i);
    const bool many = i->by == BY_THREADS && stage_fill_count(s, i) > FEW;
    const SimtThread before = many ? simt_thread_again(s) : (SimtThread){0};
    for (int from = 0; from < w.runs; from += s->k->threads) {
        Coords c = {0};
        LLVMValueRef where = stage_walk_at(s, &w, from, &c), v = run_value(s, i, &w, &c);
        LLVMBasicBlockRef after = stage_if(s, where);
        put_run(s, i, &c, v);
        stage_endif(s, after);
    }
    if (many) simt_thread_back(s, &before);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
/* Bytes of the run to copy, the rest becomes 0; NULL: all of them. */
static LLVMValueRef copy_size(Simt *s, const Inst *stage, const Inst *load, const Coords *c) {
    const Emit *e = s->e;
    const int minor = stage->minor - 1, width = stage->bytes / dtype_bytes(stage->type.dtype);
    const Dim extent = s->k->axes.at[minor].extent;
    TileType others = stage->type;
    others.n_axes = 0;
    for (int d = 0; d < stage->type.n_axes; d++)
        if (stage->type.axis[d] != minor) others.axis[others.n_axes++] = stage->type.axis[d];
    const bool whole_runs = dim_is_fixed(extent) && extent.bound % width == 0;
    LLVMValueRef where = simt_inside(s, c, whole_runs ? &stage->type : &others), size = i32(s, stage->bytes);
    if (load->n_in) where = simt_and(s, where, simt_value(s, load->in[0], c));
    if (whole_runs && !where) return NULL;
    if (!whole_runs) {
        LLVMValueRef zero = emit_i64(e, 0), most = emit_i64(e, width);
        LLVMValueRef left = LLVMBuildSub(e->b, s->extent[minor], simt_axis_index(s, c, minor), "");
        left = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, left, most, ""), most, left, "");
        left = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, left, zero, ""), zero, left, "");
        size = scaled(s, LLVMBuildTrunc(e->b, left, e->i32, ""), dtype_bytes(stage->type.dtype));
    }
    return where ? LLVMBuildSelect(e->b, where, size, i32(s, 0), "") : size;
}

static void copy_run(Simt *s, const Inst *i, const Coords *c) {
    const Emit *e = s->e;
    const Inst *load = copied_load(s->k, i->in[0]);
    LLVMValueRef size = copy_size(s, i, load, c),
                 to = LLVMBuildPtrToInt(e->b, element_pointer(s, i->result, c), e->i32, "");
    LLVMValueRef args[] = {to, simt_address(s, load, c), size};
    const char *level = i->bytes == 16 ? "cg" : "ca"; /* .cg: past L1, of 16 bytes only */
    const char *text =
        arena_printf(s->arena, "cp.async.%s.shared.global [$0], [$1], %d%s;", level, i->bytes, size ? ", $2" : "");
    simt_asm(e, e->none, text, size ? "r,l,r,~{memory}" : "r,l,~{memory}", size ? 3 : 2, args);
    s->old_read = true;
}

void stage_copy(Simt *s, const Inst *i) {
    const StageWalk w = stage_fill_walk(s, i);
    const bool many = !s->fetched[i->result] || stage_fill_count(s, i) > FEW;
    const SimtThread before = many ? simt_thread_again(s) : (SimtThread){0};
    for (int from = 0; from < w.runs; from += s->k->threads) {
        Coords c = {0};
        LLVMBasicBlockRef after = stage_if(s, stage_walk_at(s, &w, from, &c));
        copy_run(s, i, &c);
        stage_endif(s, after);
    }
    if (many) simt_thread_back(s, &before);
}

void stage_commit(Simt *s) { simt_asm(s->e, s->e->none, "cp.async.commit_group;", "~{memory}", 0, NULL); }

void stage_wait(Simt *s, int pending) {
    simt_asm(s->e, s->e->none, arena_printf(s->arena, "cp.async.wait_group %d;", pending), "~{memory}", 0, NULL);
}

/* ---- the instructions -------------------------------------------------------------------------------------------- */
static void stage_array(Simt *s, const Inst *i) {
    StageLayout l;
    stage_layout(s->k, i, &l);
    s->shared[i->result] = simt_shared_array(s, emit_memory_type(s->e, i->type.dtype), l.slot / l.bytes);
}

void stage_begin(Simt *s, const Inst *i) {
    if (s->dynamic)
        stage_select(s, i->result, NULL);
    else
        stage_array(s, i);
    if (s->hopper && hopper_over_leaving(s, i)) hopper_stores_read(s);
    if (s->dynamic && s->shared_written) simt_barrier(s); /* another tile may have been here */
    simt_before_write(s, !s->dynamic);
}

void simt_stage(Simt *s, const Inst *i) {
    if (s->fetched[i->result]) return;
    stage_begin(s, i);
    if (i->by == BY_ASYNC) {
        stage_copy(s, i);
        stage_commit(s);
        stage_wait(s, 0);
    } else if (s->only[i->in[0]]) {
        stage_fill(s, i);
    } else {
        stage_registers(s, i, simt_all_slots(s, &i->type), simt_slots(s, &i->type));
    }
}

static void store_run(Simt *s, const Inst *i, const StageWalk *w, Coords *c, LLVMValueRef exists) {
    const Emit *e = s->e;
    const int axis = w->order[w->n - 1];
    const TileType *t = &s->k->types.at[i->in[0]];
    const Dim extent = s->k->axes.at[axis].extent;
    LLVMTypeRef type = emit_vector_type(emit_memory_type(e, t->dtype), w->width > 1 ? w->width : 0);
    LLVMValueRef where = simt_and(s, exists, i->n_in > 1 ? simt_value(s, i->in[1], c) : NULL);
    LLVMBasicBlockRef after = stage_if(s, where);
    LLVMValueRef v = LLVMBuildLoad2(e->b, type, element_pointer(s, i->in[0], c), "");
    LLVMSetAlignment(v, (unsigned)i->bytes);
    if (w->width == 1 || (dim_is_fixed(extent) && extent.bound % w->width == 0)) {
        LLVMBasicBlockRef outside = stage_if(s, simt_inside(s, c, t));
        LLVMValueRef st = LLVMBuildStore(e->b, v, simt_address(s, i, c));
        LLVMSetAlignment(st, (unsigned)i->bytes);
        stage_endif(s, outside);
    } else {
        for (int n = 0; n < w->width; n++, c->beyond[axis]++) {
            LLVMBasicBlockRef outside = stage_if(s, simt_inside(s, c, t));
            LLVMBuildStore(e->b, LLVMBuildExtractElement(e->b, v, i32(s, n), ""), simt_address(s, i, c));
            stage_endif(s, outside);
        }
        c->beyond[axis] -= w->width;
    }
    stage_endif(s, after);
}

void stage_store(Simt *s, const Inst *i) {
    const TileType *t = &s->k->types.at[i->in[0]];
    const StageWalk w = stage_walk(s, t, s->def[i->in[0]]->minor - 1, i->bytes / dtype_bytes(t->dtype));
    simt_before_read(s);
    const SimtThread before = simt_thread_again(s);
    for (int from = 0; from < w.runs; from += s->k->threads) {
        Coords c = {0};
        LLVMValueRef exists = stage_walk_at(s, &w, from, &c);
        store_run(s, i, &w, &c, exists);
    }
    simt_thread_back(s, &before);
}
