/* Loads and stores of global memory. */
#include "codegen/nvptx/simt.h"
#include <string.h>

/* ---- addresses ------------------------------------------------------------------------------------------- */
/* That of the program's member, where the buffer is one of a family. */
static LLVMValueRef buffer_of(Simt *s, int buffer) {
    return s->hopper ? simt_of_member(s, s->k->buffers.at[buffer].family, &s->buffer[buffer]) : s->buffer[buffer];
}

/* Takes constants from the place, along the axes in which the index is affine; by how much that lowers the index. */
static int64_t without_constants(const Simt *s, const Index *x, Coords *c) {
    int64_t lowered = 0, slope;
    for (int a = 0; a < s->k->axes.n; a++) {
        if (!index_affine_in(s->k, x, a, &slope)) continue;
        lowered += slope * (c->offset[a] ? c->beyond[a] : spread_offset(&s->k->axes.at[a], c->reg[a]));
        c->reg[a] = c->beyond[a] = 0;
    }
    return lowered;
}

/* A thread's elements differ by constants, which an access has room for: they are added last, so that all share one address. */
LLVMValueRef simt_address(Simt *s, const Inst *i, const Coords *c) {
    const Emit *e = s->e;
    const Buffer *buf = &s->k->buffers.at[i->buffer];
    LLVMTypeRef type = emit_memory_type(e, buf->dtype);
    LLVMValueRef at = emit_i64(e, 0);
    int64_t apart = 0;
    for (int d = 0; d < i->n_index; d++) {
        Coords first = *c;
        apart += buf->stride[d] * without_constants(s, i->index[d], &first);
        at = LLVMBuildAdd(e->b, at, emit_int_scale(e, simt_index(s, i->index[d], &first), buf->stride[d]), "");
    }
    if (!apart) return LLVMBuildInBoundsGEP2(e->b, type, buffer_of(s, i->buffer), &at, 1, "");
    /* what is a constant away from an element may lie outside */
    LLVMValueRef p = LLVMBuildGEP2(e->b, type, buffer_of(s, i->buffer), &at, 1, ""), by = emit_i64(e, apart);
    return LLVMBuildGEP2(e->b, type, p, &by, 1, "");
}

/* What a run of registers along the axis with the lowest alignment can promise, in bytes. */
static unsigned alignment(const Simt *s, const Inst *i, const Coords *c) {
    const Buffer *buf = &s->k->buffers.at[i->buffer];
    const int bytes = dtype_bytes(buf->dtype);
    int64_t unit = 16;
    for (int d = 0; d < i->n_index; d++) {
        const Index *x = i->index[d];
        int64_t low = x->c * buf->stride[d] * bytes;
        for (int t = 0; t < x->n; t++) {
            const int64_t step = x->term[t].coef * buf->stride[d] * bytes;
            int64_t grain = 1;
            if (x->term[t].atom.kind == ATOM_AXIS && !c->offset[x->term[t].atom.id]) {
                const AxisSpread *a = &s->axis[x->term[t].atom.id];
                grain = a->vector;
                low += step * spread_offset(&s->k->axes.at[x->term[t].atom.id], c->reg[x->term[t].atom.id]);
            }
            while (unit > bytes && step * grain % unit) unit /= 2;
        }
        while (unit > bytes && low % unit) unit /= 2;
    }
    return (unsigned)(unit < bytes ? bytes : unit);
}

/* ---- predicated accesses, as one instruction each ------------------------------------------------------------ */
typedef struct Access {
    const char *suffix, *constraint; /* "b32", "f" */
    LLVMTypeRef type;
} Access;
static Access access_of(const Emit *e, DType t) {
    switch (dtype_bytes(t)) {
    case 1: return (Access){"b8", "r", e->i32};
    case 2: return (Access){"b16", "h", e->i16};
    default: return t == DT_I32 ? (Access){"b32", "r", e->i32} : (Access){"b32", "f", e->f32};
    }
}

LLVMValueRef simt_asm(const Emit *e, LLVMTypeRef type, const char *text, const char *constraints, int n,
                             LLVMValueRef *args) {
    LLVMTypeRef params[16];
    for (int i = 0; i < n; i++) params[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef ft = LLVMFunctionType(type, params, (unsigned)n, false);
    LLVMValueRef fn = LLVMGetInlineAsm(ft, (char *)text, strlen(text), (char *)constraints, strlen(constraints), true, false,
                                       LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(e->b, ft, fn, args, (unsigned)n, "");
}

/* Memory form in the type asm takes: bytes travel in 32-bit registers, halves in 16-bit ones. */
static LLVMValueRef to_asm(const Emit *e, Access a, LLVMValueRef v) {
    if (LLVMTypeOf(v) == a.type) return v;
    return LLVMTypeOf(v) == e->i8 ? LLVMBuildZExt(e->b, v, a.type, "") : LLVMBuildBitCast(e->b, v, a.type, "");
}
static LLVMValueRef from_asm(const Emit *e, LLVMTypeRef type, LLVMValueRef v) {
    if (LLVMTypeOf(v) == type) return v;
    return type == e->i8 ? LLVMBuildTrunc(e->b, v, type, "") : LLVMBuildBitCast(e->b, v, type, "");
}

static LLVMValueRef load_where(Simt *s, DType t, LLVMValueRef p, LLVMValueRef where, double other) {
    const Emit *e = s->e;
    const Access a = access_of(e, t);
    LLVMValueRef instead = to_asm(e, a, emit_to_memory(e, t, emit_const(e, t, other)));
    LLVMValueRef args[] = {p, LLVMBuildZExt(e->b, where, e->i32, ""), instead};
    const bool byte = a.suffix[1] == '8';
    const char *text = arena_printf(s->arena, "{ .reg .pred p; setp.ne.b32 p, $2, 0; mov.%s $0, $3; @p ld.global.%s $0, [$1]; }",
                                    byte ? "b32" : a.suffix, byte ? "u8" : a.suffix);
    const char *cs = arena_printf(s->arena, "=%s,l,r,%s,~{memory}", a.constraint, a.constraint);
    LLVMValueRef v = simt_asm(e, a.type, text, cs, 3, args);
    return emit_from_memory(e, t, from_asm(e, emit_memory_type(e, t), v));
}

static void store_where(Simt *s, DType t, LLVMValueRef p, LLVMValueRef where, LLVMValueRef v) {
    const Emit *e = s->e;
    const Access a = access_of(e, t);
    LLVMValueRef args[] = {p, LLVMBuildZExt(e->b, where, e->i32, ""), to_asm(e, a, emit_to_memory(e, t, v))};
    const char *text = arena_printf(s->arena, "{ .reg .pred p; setp.ne.b32 p, $1, 0; @p st.global.%s [$0], $2; }", a.suffix);
    const char *cs = arena_printf(s->arena, "l,r,%s,~{memory}", a.constraint);
    simt_asm(e, e->none, text, cs, 3, args);
}

/* ---- global memory ------------------------------------------------------------------------------------------------ */
/* Bits of the thread's number in which it differs from threads that hold the same elements. */
static unsigned copies_of(const Simt *s, const TileType *t) {
    unsigned covered = 0;
    for (int i = 0; i < t->n_axes; i++) covered |= s->axis[t->axis[i]].threads;
    return (unsigned)(s->k->threads - 1) & ~covered;
}

/* The next subscript from d on of a dim that has more than one element. */
static int next_subscript(const Simt *s, const Inst *i, int d) {
    const Dim *dim = s->k->buffers.at[i->buffer].dim;
    while (d < i->n_index && dim_is_fixed(dim[d]) && dim[d].bound == 1) d++;
    return d;
}

/* Each element that the store overwrites is loaded by the thread that stores it, and by no other. */
bool simt_same_thread(const Simt *s, const Inst *load, const Inst *store) {
    const TileType stored = simt_store_axes(s, store);
    const int64_t *from = s->k->buffers.at[load->buffer].stride, *to = s->k->buffers.at[store->buffer].stride;
    if (copies_of(s, &stored) || copies_of(s, &load->type)) return false;
    int x = next_subscript(s, load, 0), y = next_subscript(s, store, 0);
    while (x < load->n_index && y < store->n_index) {
        if (from[x] != to[y] || !index_equal(load->index[x], store->index[y])) return false;
        x = next_subscript(s, load, x + 1), y = next_subscript(s, store, y + 1);
    }
    return x == load->n_index && y == store->n_index;
}

/* Some element of what is loaded may have been stored by another thread of the program. */
static bool is_stored_elsewhere(const Simt *s, const Block *b, const Inst *load) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        if (is_stored_elsewhere(s, &i->body, load)) return true;
        if (i->kind == TI_STORE && i->buffer == load->buffer && !simt_same_thread(s, load, i)) return true;
    }
    return false;
}

/* What one thread stores and others load is shared memory like any other. */
static void before_load(Simt *s, const Inst *i) {
    if (s->shared_written && s->k->buffers.at[i->buffer].written && is_stored_elsewhere(s, &s->k->body, i)) simt_barrier(s);
    s->old_read = true;
}

LLVMValueRef simt_load(Simt *s, const Inst *i, const Coords *c) {
    const Emit *e = s->e;
    const DType t = s->k->buffers.at[i->buffer].dtype;
    LLVMValueRef where = simt_inside(s, c, &i->type);
    if (i->n_in) where = simt_and(s, where, simt_value(s, i->in[0], c));
    LLVMValueRef p = simt_address(s, i, c);
    before_load(s, i);
    if (where) return load_where(s, t, p, where, i->value);
    LLVMValueRef v = LLVMBuildLoad2(e->b, emit_memory_type(e, t), p, "");
    LLVMSetAlignment(v, alignment(s, i, c));
    return emit_from_memory(e, t, v);
}

LLVMValueRef simt_first_copy(const Simt *s, const TileType *t) {
    const unsigned copies = copies_of(s, t);
    if (!copies) return NULL;
    LLVMValueRef bits = LLVMBuildAnd(s->e->b, s->thread, LLVMConstInt(s->e->i32, copies, false), "");
    return LLVMBuildICmp(s->e->b, LLVMIntEQ, bits, LLVMConstNull(s->e->i32), "");
}

bool simt_loads_old(const Simt *s, const Inst *i, int buffer) {
    return i->kind == TI_LOAD && buffers_overlap(s->k, i->buffer, buffer);
}

bool simt_reads_old(const Simt *s, int buffer) {
    for (int v = 0; v < s->k->types.n; v++)
        if (s->def[v] && simt_loads_old(s, s->def[v], buffer)) return true;
    return false;
}

/* Another thread loads some element of what is stored, before or after. */
static bool is_read_elsewhere(const Simt *s, const Inst *store) {
    for (int v = 0; v < s->k->types.n; v++) {
        const Inst *load = s->def[v];
        if (load && simt_loads_old(s, load, store->buffer) && !simt_same_thread(s, load, store)) return true;
    }
    return false;
}

/* Words of 4 bytes loaded where `where` holds, else all `other`; a struct of them, or one. */
static LLVMValueRef load_words_where(Simt *s, int n, LLVMValueRef p, LLVMValueRef where, LLVMValueRef other) {
    static const char *const form[] = {
        [1] = "mov.b32 $0, $3; @p ld.global.b32 $0, [$1];",
        [2] = "mov.b32 $0, $4; mov.b32 $1, $4; @p ld.global.v2.b32 {$0, $1}, [$2];",
        [4] = "mov.b32 $0, $6; mov.b32 $1, $6; mov.b32 $2, $6; mov.b32 $3, $6; @p ld.global.v4.b32 {$0, $1, $2, $3}, [$4];"};
    static const char *const outputs[] = {[1] = "=&r", [2] = "=&r,=&r", [4] = "=&r,=&r,=&r,=&r"};
    const Emit *e = s->e;
    LLVMTypeRef each[] = {e->i32, e->i32, e->i32, e->i32};
    LLVMTypeRef type = n == 1 ? e->i32 : LLVMStructTypeInContext(e->context, each, (unsigned)n, false);
    LLVMValueRef args[] = {p, LLVMBuildZExt(e->b, where, e->i32, ""), other};
    const char *text = arena_printf(s->arena, "{ .reg .pred p; setp.ne.b32 p, $%d, 0; %s }", n + 1, form[n]);
    return simt_asm(e, type, text, arena_printf(s->arena, "%s,l,r,r,~{memory}", outputs[n]), 3, args);
}

LLVMValueRef simt_load_run(Simt *s, const Inst *i, const Coords *c, int width) {
    const Emit *e = s->e;
    const DType t = i->type.dtype;
    const int bytes = width * dtype_bytes(t), n = bytes / 4;
    LLVMTypeRef memory = emit_memory_type(e, t), type = emit_vector_type(memory, width);
    LLVMValueRef where = simt_inside(s, c, &i->type);
    if (i->n_in) where = simt_and(s, where, simt_value(s, i->in[0], c));
    LLVMValueRef p = simt_address(s, i, c);
    before_load(s, i);
    if (!where) {
        LLVMValueRef v = LLVMBuildLoad2(e->b, type, p, "");
        LLVMSetAlignment(v, (unsigned)bytes);
        return v;
    }
    LLVMValueRef other = emit_to_memory(e, t, emit_const(e, t, i->value)), words = LLVMGetUndef(LLVMVectorType(e->i32, (unsigned)n));
    other = LLVMBuildBitCast(e->b, emit_splat(e, other, 4 / dtype_bytes(t)), e->i32, "");
    LLVMValueRef loaded = load_words_where(s, n, p, where, other);
    for (int w = 0; w < n; w++) {
        LLVMValueRef word = n == 1 ? loaded : LLVMBuildExtractValue(e->b, loaded, (unsigned)w, "");
        words = LLVMBuildInsertElement(e->b, words, word, LLVMConstInt(e->i32, (unsigned)w, false), "");
    }
    return LLVMBuildBitCast(e->b, words, type, "");
}

/* ---- runs of registers: one access ------------------------------------------------------------------------------ */
/* Neighbouring registers along the axis whose elements are neighbours in memory, all or none of them inside. */
static int run_of_registers(const Simt *s, const Inst *i, int x) {
    const int bytes = dtype_bytes(s->k->buffers.at[i->buffer].dtype), run = load_run_bytes(s->k, s->def, i, x) / bytes;
    const Dim extent = s->k->axes.at[x].extent;
    int width = run < s->axis[x].vector ? run : s->axis[x].vector;
    if (!s->axis[x].exact && !dim_is_fixed(extent)) return 1;
    while (width > 1 && !s->axis[x].exact && extent.bound % width) width /= 2;
    return width * bytes < 4 ? 1 : width;
}

/* Along the last axis, or another one of memory that is only read: registers of other groups (simt_run) are filled then. */
static void find_run(Simt *s, const Inst *i) {
    LoadRun *run = &s->load_run[i->result];
    const Buffer *b = &s->k->buffers.at[i->buffer];
    run->width = 1;
    for (int d = i->type.n_axes - 1; d >= 0; d--) {
        const int width = run_of_registers(s, i, i->type.axis[d]);
        if (width > run->width) *run = (LoadRun){width, i->type.axis[d]};
        if (b->written || b->in_place) return;
    }
}

bool simt_load_registers(Simt *s, const Inst *i, int slot) {
    const LoadRun *run = &s->load_run[i->result];
    Coords c = {0};
    if (!run->width) find_run(s, i);
    if (run->width == 1) return false;
    simt_coords(s, &i->type, slot, &c);
    c.reg[run->axis] -= c.reg[run->axis] % run->width;
    LLVMValueRef v = simt_load_run(s, i, &c, run->width);
    for (int r = 0; r < run->width; r++, c.reg[run->axis]++) {
        LLVMValueRef one = LLVMBuildExtractElement(s->e->b, v, LLVMConstInt(s->e->i32, (unsigned)r, false), "");
        s->reg[i->result][simt_slot(s, &i->type, &c)] = emit_from_memory(s->e, i->type.dtype, one);
    }
    return true;
}

/* Words of 4 bytes, where `where` holds. */
static void store_words_where(Simt *s, int n, LLVMValueRef p, LLVMValueRef where, LLVMValueRef v) {
    static const char *const form[] = {[1] = "b32 [$0], $2;", [2] = "v2.b32 [$0], {$2, $3};", [4] = "v4.b32 [$0], {$2, $3, $4, $5};"};
    static const char *const inputs[] = {[1] = "r", [2] = "r,r", [4] = "r,r,r,r"};
    const Emit *e = s->e;
    LLVMValueRef args[6] = {p, LLVMBuildZExt(e->b, where, e->i32, "")};
    v = LLVMBuildBitCast(e->b, v, LLVMVectorType(e->i32, (unsigned)n), "");
    for (int w = 0; w < n; w++) args[2 + w] = LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i32, (unsigned)w, false), "");
    const char *text = arena_printf(s->arena, "{ .reg .pred p; setp.ne.b32 p, $1, 0; @p st.global.%s }", form[n]);
    simt_asm(e, e->none, text, arena_printf(s->arena, "l,r,%s,~{memory}", inputs[n]), 2 + n, args);
}

static void store_run(Simt *s, const Inst *i, const Coords *from, int width, LLVMValueRef where) {
    const Emit *e = s->e;
    const DType t = s->k->buffers.at[i->buffer].dtype;
    const TileType axes = simt_store_axes(s, i);
    LLVMValueRef v = LLVMGetUndef(emit_vector_type(emit_memory_type(e, t), width));
    Coords c = *from;
    for (int r = 0; r < width; r++, c.reg[axes.axis[axes.n_axes - 1]]++) {
        LLVMValueRef one = emit_to_memory(e, t, simt_value(s, i->in[0], &c));
        v = LLVMBuildInsertElement(e->b, v, one, LLVMConstInt(e->i32, (unsigned)r, false), "");
    }
    LLVMValueRef p = simt_address(s, i, from);
    if (where) store_words_where(s, width * dtype_bytes(t) / 4, p, where, v);
    else LLVMSetAlignment(LLVMBuildStore(e->b, v, p), (unsigned)(width * dtype_bytes(t)));
}

/* slot[at ..] are a run of `width`, from its beginning on. */
static bool is_run(const int *slot, int n, int at, int width) {
    bool run = width > 1 && at + width <= n && slot[at] % width == 0;
    for (int r = 1; r < width && run; r++) run = slot[at + r] == slot[at] + r;
    return run;
}

TileType simt_store_axes(const Simt *s, const Inst *i) {
    TileType axes = s->k->types.at[i->in[0]];
    for (int d = 0; d < i->n_index; d++) index_axes(s->k, i->index[d], &axes);
    return i->n_in > 1 ? tile_type_union(axes, s->k->types.at[i->in[1]]) : axes;
}

void simt_store_slots(Simt *s, const Inst *i, const int *slot, int n) {
    const Emit *e = s->e;
    const DType t = s->k->buffers.at[i->buffer].dtype;
    const TileType axes = simt_store_axes(s, i);
    LLVMValueRef mine = simt_first_copy(s, &axes);
    const int width = axes.n_axes ? run_of_registers(s, i, axes.axis[axes.n_axes - 1]) : 1;
    for (int r = 0; r < n; r++) {
        Coords c = {0};
        simt_coords(s, &axes, slot[r], &c);
        LLVMValueRef where = simt_and(s, mine, simt_inside(s, &c, &axes));
        if (i->n_in > 1) where = simt_and(s, where, simt_value(s, i->in[1], &c));
        if (is_run(slot, n, r, width)) {
            store_run(s, i, &c, width, where);
            r += width - 1;
            continue;
        }
        LLVMValueRef v = simt_value(s, i->in[0], &c), p = simt_address(s, i, &c);
        if (where) {
            store_where(s, t, p, where, v);
        } else {
            LLVMValueRef st = LLVMBuildStore(e->b, emit_to_memory(e, t, v), p);
            LLVMSetAlignment(st, alignment(s, i, &c));
        }
    }
}

void simt_store(Simt *s, const Inst *i) {
    if (i->by == BY_THREADS) {
        stage_store(s, i);
        return;
    }
    if (simt_store_met(s, i)) return;
    const TileType axes = simt_store_axes(s, i);
    /* all who read an old element have, before one writes the new one */
    const bool elsewhere = is_read_elsewhere(s, i);
    if (s->old_read && elsewhere) simt_barrier(s);
    simt_store_slots(s, i, simt_all_slots(s, &axes), simt_slots(s, &axes));
    if (elsewhere || copies_of(s, &axes)) s->shared_written = true;
}
