/* Tiles in shared memory: where they are, how they are filled and read, barriers.
 *
 * A kernel whose tiles all lie as the back end likes has an array for each.  One with stated layouts has them where
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
    s->dynamic = LLVMAddGlobalInAddressSpace(e->module, LLVMArrayType2(e->i8, 0),
                                             arena_printf(s->arena, "%s_shared", s->k->name), SPACE_SHARED_PTR);
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

static LLVMValueRef element_pointer(Simt *s, int value, const Coords *c) {
    const Emit *e = s->e;
    StageLayout l;
    LLVMValueRef offset[MAX_AXES] = {0};
    const TileType *t = &s->k->types.at[value];
    stage_layout(s->k, s->def[value], &l);
    for (int d = 0; d < t->n_axes; d++) offset[t->axis[d]] = simt_offset(s, c, t->axis[d]);
    LLVMValueRef at = stage_element(s, &l, offset), base = s->shared[value];
    if (s->place[value]) base = LLVMBuildInBoundsGEP2(e->b, e->i8, base, &s->place[value], 1, "");
    return LLVMBuildInBoundsGEP2(e->b, emit_memory_type(e, t->dtype), base, &at, 1, "");
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

/* ---- filling from registers ----------------------------------------------------------------------------------------
 */
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
    if (i->minor == NO_AXIS) return 1;
    const int most = 16 / dtype_bytes(i->type.dtype);
    int run = 1;
    while (run * 2 <= most && s->axis[i->minor - 1].vector % (run * 2) == 0) run *= 2;
    return run;
}

void stage_registers(Simt *s, const Inst *i, const int *slot, int n) {
    const Emit *e = s->e;
    if (s->hopper && hopper_stage_registers(s, i, slot, n)) return;
    LLVMValueRef mine = simt_first_copy(s, &i->type);
    const int run = run_of_registers(s, i);
    LLVMTypeRef type = emit_vector_type(emit_memory_type(e, i->type.dtype), run > 1 ? run : 0);
    for (int at = 0; at < n; at++) {
        Coords c = {0};
        simt_coords(s, &i->type, slot[at], &c);
        if (run > 1 && c.reg[i->minor - 1] % run) continue;
        LLVMValueRef v = run > 1 ? LLVMGetUndef(type) : element_value(s, i, &c),
                     first = element_pointer(s, i->result, &c);
        for (int r = 0; r < run && run > 1; r++) {
            v = LLVMBuildInsertElement(e->b, v, element_value(s, i, &c), i32(s, r), "");
            c.reg[i->minor - 1]++;
        }
        LLVMBasicBlockRef after = stage_if(s, mine);
        LLVMValueRef st = LLVMBuildStore(e->b, v, first);
        if (run > 1) LLVMSetAlignment(st, (unsigned)(run * dtype_bytes(i->type.dtype)));
        stage_endif(s, after);
    }
}

/* ---- filling in the order of memory ------------------------------------------------------------------------------ */
/* The axis along which the staged value's loads are contiguous, to be walked by neighbouring threads. */
static int contiguous_axis(const Simt *s, int value) {
    const Inst *i = s->def[value];
    if (!i) return -1;
    if (i->kind == TI_LOAD) {
        const Buffer *b = &s->k->buffers.at[i->buffer];
        for (int d = 0; d < i->n_index; d++)
            for (int t = 0; t < i->index[d]->n && b->stride[d] == 1; t++)
                if (i->index[d]->term[t].atom.kind == ATOM_AXIS && i->index[d]->term[t].coef == 1)
                    return i->index[d]->term[t].atom.id;
    }
    for (int n = 0; i->kind == TI_ELEMENT && n < i->n_in; n++) {
        const int axis = contiguous_axis(s, i->in[n]);
        if (axis >= 0) return axis;
    }
    return -1;
}

/* Thread t's n-th run of `width` elements of a tile that all threads walk together, `fast` axis first. */
typedef struct Walk {
    int n, order[MAX_TILE_AXES], width, runs; /* axes, slowest first */
    int part;   /* runs of the fast axis that are walked before the other axes, the rest after them; 0: all */
    bool apart; /* rows 0, 2, 1, 3 instead of 0, 1, 2, 3: see half_rows */
} Walk;

static Walk walk_of(const Simt *s, const TileType *t, int fast, int width) {
    Walk w = {.width = width, .runs = 1};
    for (int d = 0; d < t->n_axes; d++) {
        w.runs *= s->k->axes.at[t->axis[d]].step;
        if (t->axis[d] != fast) w.order[w.n++] = t->axis[d];
    }
    if (w.n < t->n_axes) w.order[w.n++] = fast;
    w.runs /= width;
    return w;
}

static LLVMValueRef exchange_low_bits(const Simt *s, LLVMValueRef v) {
    const Emit *e = s->e;
    LLVMValueRef differ = LLVMBuildAnd(e->b, LLVMBuildXor(e->b, v, LLVMBuildLShr(e->b, v, i32(s, 1), ""), ""), i32(s, 1), "");
    return LLVMBuildXor(e->b, v, scaled(s, differ, 3), "");
}

static LLVMValueRef digit_of(const Simt *s, LLVMValueRef *at, int by) {
    LLVMValueRef rest = LLVMBuildURem(s->e->b, *at, i32(s, by), "");
    *at = LLVMBuildUDiv(s->e->b, *at, i32(s, by), "");
    return rest;
}

/* Coordinates of the run that begins at run `from` + thread; i1: there is one (NULL: always). */
static LLVMValueRef walk_at(const Simt *s, const Walk *w, int from, Coords *c) {
    const Emit *e = s->e;
    LLVMValueRef at = LLVMBuildAdd(e->b, s->thread, i32(s, from), ""), where = NULL;
    if (from + s->k->threads > w->runs) where = LLVMBuildICmp(e->b, LLVMIntULT, at, i32(s, w->runs), "");
    const int fast = w->n ? w->order[w->n - 1] : -1; /* -1: one element */
    LLVMValueRef first = NULL;
    if (w->part) first = digit_of(s, &at, w->part);
    for (int d = w->part ? w->n - 2 : w->n - 1; d >= 0; d--) {
        const int unit = d == w->n - 1 ? w->width : 1;
        LLVMValueRef here = digit_of(s, &at, s->k->axes.at[w->order[d]].step / unit);
        if (w->apart && d == w->n - 2) here = exchange_low_bits(s, here);
        c->offset[w->order[d]] = unit > 1 ? scaled(s, here, unit) : here;
    }
    if (w->part) {
        LLVMValueRef part = at;
        if (where) part = digit_of(s, &at, s->k->axes.at[fast].step / w->width / w->part); /* begins anew past the last */
        c->offset[fast] = scaled(s, LLVMBuildAdd(e->b, scaled(s, part, w->part), first, ""), w->width);
    }
    return where;
}

static void step_along(const Simt *s, Coords *c, int axis, LLVMValueRef from, int by) {
    c->offset[axis] = by ? LLVMBuildAdd(s->e->b, from, i32(s, by), "") : from;
}

/* The loads behind a value that have the walk's runs together in memory, masked as a whole: one access each. */
static void load_runs(Simt *s, int value, const Walk *w, const Coords *c) {
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
static LLVMValueRef run_value(Simt *s, const Inst *i, const Walk *w, Coords *c) {
    if (w->width == 1) return element_value(s, i, c);
    const int axis = w->order[w->n - 1];
    LLVMValueRef from = c->offset[axis],
                 v = LLVMGetUndef(emit_vector_type(emit_memory_type(s->e, i->type.dtype), w->width));
    memset(s->run, 0, sizeof(LLVMValueRef) * (size_t)s->k->types.n);
    load_runs(s, i->in[0], w, c);
    for (int n = 0; n < w->width; n++) {
        step_along(s, c, axis, from, n);
        s->run_at = n;
        v = LLVMBuildInsertElement(s->e->b, v, element_value(s, i, c), i32(s, n), "");
    }
    c->offset[axis] = from;
    memset(s->run, 0, sizeof(LLVMValueRef) * (size_t)s->k->types.n);
    return v;
}

/* Eight accesses of 16 bytes cover two rows, which begin an odd multiple of 32 bytes apart: neighbours would meet in banks. */
static bool half_rows(const Simt *s, const Inst *i, const Walk *w) {
    const int row = s->k->axes.at[i->minor - 1].step * dtype_bytes(i->type.dtype);
    return !i->swizzle && i->bytes == 16 && row == 64 && w->n > 1 && s->k->axes.at[w->order[w->n - 2]].step % 4 == 0;
}

/* In the order of memory; where that is across the rows of the tile, sector by sector, a few rows of each at a time: so
 * many that they fill the banks. */
static Walk turning_walk(const Simt *s, const Inst *i) {
    enum { SECTOR = 32 };
    Walk w = walk_of(s, &i->type, contiguous_axis(s, i->in[0]), 1);
    StageLayout l;
    stage_layout(s->k, i, &l);
    const int fast = w.n ? w.order[w.n - 1] : -1, sector = SECTOR / l.bytes;
    const bool turns = w.n > 1 && fast != l.minor && l.n > 0 && l.stride[0] % STAGE_RUN == 0;
    if (turns && s->k->axes.at[fast].step % sector == 0 && s->k->axes.at[fast].step > sector) w.part = sector;
    return w;
}

static Walk fill_walk(const Simt *s, const Inst *i) {
    if (i->by == BY_NONE) return turning_walk(s, i);
    Walk w = walk_of(s, &i->type, i->minor - 1, i->bytes / dtype_bytes(i->type.dtype));
    w.apart = half_rows(s, i, &w);
    return w;
}

int stage_fill_count(const Simt *s, const Inst *i) {
    const Walk w = fill_walk(s, i);
    return (w.runs + s->k->threads - 1) / s->k->threads;
}

void stage_fill_values(Simt *s, const Inst *i, LLVMValueRef *v) {
    const Walk w = fill_walk(s, i);
    for (int from = 0, n = 0; from < w.runs; from += s->k->threads, n++) {
        Coords c = {0};
        walk_at(s, &w, from, &c);
        v[n] = run_value(s, i, &w, &c);
    }
}

static void put_run(Simt *s, const Inst *i, const Coords *c, LLVMValueRef v) {
    LLVMValueRef st = LLVMBuildStore(s->e->b, v, element_pointer(s, i->result, c));
    LLVMSetAlignment(st, i->by == BY_NONE ? (unsigned)dtype_bytes(i->type.dtype) : (unsigned)i->bytes);
}

void stage_fill_store(Simt *s, const Inst *i, LLVMValueRef const *v) {
    const Walk w = fill_walk(s, i);
    for (int from = 0, n = 0; from < w.runs; from += s->k->threads, n++) {
        Coords c = {0};
        LLVMBasicBlockRef after = stage_if(s, walk_at(s, &w, from, &c));
        put_run(s, i, &c, v[n]);
        stage_endif(s, after);
    }
}

enum { FEW = 16 }; /* runs of a thread, whose addresses may be kept from iteration to iteration */

void stage_fill(Simt *s, const Inst *i) {
    const Walk w = fill_walk(s, i);
    const bool many = i->by == BY_THREADS && stage_fill_count(s, i) > FEW;
    const SimtThread before = many ? simt_thread_again(s) : (SimtThread){0};
    for (int from = 0; from < w.runs; from += s->k->threads) {
        Coords c = {0};
        LLVMValueRef where = walk_at(s, &w, from, &c), v = run_value(s, i, &w, &c);
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
    const Walk w = fill_walk(s, i);
    const bool many = !s->fetched[i->result] || stage_fill_count(s, i) > FEW;
    const SimtThread before = many ? simt_thread_again(s) : (SimtThread){0};
    for (int from = 0; from < w.runs; from += s->k->threads) {
        Coords c = {0};
        LLVMBasicBlockRef after = stage_if(s, walk_at(s, &w, from, &c));
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
    if (s->hopper && hopper_leaves(s, i)) hopper_stores_read(s);
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

static void store_run(Simt *s, const Inst *i, const Walk *w, Coords *c, LLVMValueRef exists) {
    const Emit *e = s->e;
    const int axis = w->order[w->n - 1];
    const TileType *t = &s->k->types.at[i->in[0]];
    const Dim extent = s->k->axes.at[axis].extent;
    LLVMTypeRef type = emit_vector_type(emit_memory_type(e, t->dtype), w->width > 1 ? w->width : 0);
    LLVMValueRef where = simt_and(s, exists, i->n_in > 1 ? simt_value(s, i->in[1], c) : NULL), from = c->offset[axis];
    LLVMBasicBlockRef after = stage_if(s, where);
    LLVMValueRef v = LLVMBuildLoad2(e->b, type, element_pointer(s, i->in[0], c), "");
    LLVMSetAlignment(v, (unsigned)i->bytes);
    if (w->width == 1 || (dim_is_fixed(extent) && extent.bound % w->width == 0)) {
        LLVMBasicBlockRef outside = stage_if(s, simt_inside(s, c, t));
        LLVMValueRef st = LLVMBuildStore(e->b, v, simt_address(s, i, c));
        LLVMSetAlignment(st, (unsigned)i->bytes);
        stage_endif(s, outside);
    } else {
        for (int n = 0; n < w->width; n++) {
            step_along(s, c, axis, from, n);
            LLVMBasicBlockRef outside = stage_if(s, simt_inside(s, c, t));
            LLVMBuildStore(e->b, LLVMBuildExtractElement(e->b, v, i32(s, n), ""), simt_address(s, i, c));
            stage_endif(s, outside);
        }
    }
    stage_endif(s, after);
}

void stage_store(Simt *s, const Inst *i) {
    const TileType *t = &s->k->types.at[i->in[0]];
    const Walk w = walk_of(s, t, s->def[i->in[0]]->minor - 1, i->bytes / dtype_bytes(t->dtype));
    simt_before_read(s);
    const SimtThread before = simt_thread_again(s);
    for (int from = 0; from < w.runs; from += s->k->threads) {
        Coords c = {0};
        LLVMValueRef exists = walk_at(s, &w, from, &c);
        store_run(s, i, &w, &c, exists);
    }
    simt_thread_back(s, &before);
}
