/* Values and places inside a nest.  Its constants are from `./dev bench gemm`. */
#include "codegen/host/nest_internal.h"
#include "ir/tile_flat.h"
#include <string.h>

void nest_position(Nest *t, int depth) { LLVMPositionBuilderAtEnd(t->e->b, t->tail[depth]); }

int nest_depth(const Nest *t, const TileType *axes) {
    for (int d = t->n; d > 0; d--)
        if (tile_type_has(axes, t->axis[d - 1])) return d;
    return 0;
}

static bool varies(const Nest *t, int depth) { return t->width && depth == t->n && t->n > 0; }

/* ---- index arithmetic ----------------------------------------------------------------------------------- */
static LLVMValueRef at_axis(Nest *t, int axis) {
    if (!t->at[axis]) {
        const TileType only = {.n_axes = 1, .axis = {(int8_t)axis}};
        nest_position(t, nest_depth(t, &only));
        t->at[axis] = t->lane[axis] ? LLVMBuildAdd(t->e->b, t->ke->base[axis], t->lane[axis], "") : t->ke->base[axis];
    }
    return t->at[axis];
}

static LLVMValueRef lanes_from(Nest *t, LLVMValueRef start) {
    LLVMTypeRef type = t->bits == 32 ? t->e->i32 : t->e->i64;
    return emit_int_add(t->e, start, emit_lanes(t->e, type, t->width));
}

static LLVMValueRef source_axis(void *user, int axis) {
    Nest *t = user;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(t->e->b);
    LLVMValueRef v = at_axis(t, axis);
    LLVMPositionBuilderAtEnd(t->e->b, here);
    return axis == t->inner && t->gathers && t->width ? lanes_from(t, v) : v;
}

static LLVMValueRef source_base(void *user, int axis) { return ((Nest *)user)->ke->base[axis]; }

static LLVMValueRef source_extent(void *user, int sym) { return ((Nest *)user)->ke->extent[sym]; }

static LLVMValueRef source_value(void *user, int value) {
    Nest *t = user;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(t->e->b);
    const bool was = t->gathers;
    const int bits = t->bits;
    LLVMValueRef v = nest_value(t, value);
    t->gathers = was;
    t->bits = bits;
    LLVMPositionBuilderAtEnd(t->e->b, here);
    return v;
}

static IndexSource source(Nest *t) {
    return (IndexSource){.user = t,
                         .kernel = t->k,
                         .bits = t->bits,
                         .axis = source_axis,
                         .base = source_base,
                         .extent = source_extent,
                         .value = source_value};
}

static int atom_depth(const Nest *t, const Atom *a) {
    const Term term = {1, *a};
    const Index x = {.n = 1, .term = &term};
    TileType axes = {.n_axes = 0};
    index_axes(t->k, &x, &axes);
    return nest_depth(t, &axes);
}

/* sum + coef * terms, each term at its own depth: inner loops only add what changes in them. */
static LLVMValueRef sum_terms(Nest *t, LLVMValueRef sum, int n, const Index *const *x, const int64_t *scale) {
    const IndexSource s = source(t);
    for (int d = 0; d <= t->n; d++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < x[i]->n; j++) {
                const Term *term = &x[i]->term[j];
                if (atom_depth(t, &term->atom) != d) continue;
                nest_position(t, d);
                LLVMValueRef v = emit_atom(t->e, &s, &term->atom);
                sum = emit_int_add(t->e, sum, emit_int_scale(t->e, v, term->coef * scale[i]));
            }
    return sum;
}

/* Every quotient in x can be computed in 32 bits. */
static bool fits_32(const Kernel *k, const Index *x) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        if (a->kind != ATOM_DIV && a->kind != ATOM_MOD) continue;
        if (!index_fits_i32(k, a->num)) return false;
        if (!fits_32(k, a->num) || !fits_32(k, a->den)) return false;
    }
    return true;
}

/* ---- places ------------------------------------------------------------------------------------------------ */
static Place at_offset(Nest *t, LLVMValueRef base, LLVMTypeRef element, LLVMValueRef offset, bool contiguous) {
    LLVMValueRef p = LLVMBuildGEP2(t->e->b, element, base, &offset, 1, "");
    return (Place){.pointer = p, .vector = contiguous || emit_width(offset), .contiguous = contiguous};
}

/* The element offset of an access: its subscripts times these strides. */
typedef struct Offset {
    int n;
    const Index *index[MAX_RANK];
    int64_t stride[MAX_RANK];
} Offset;

/* Quotients and remainders of folded axes that follow each other are taken together. */
static Offset offset_of(const Nest *t, const Inst *i) {
    Offset o = {.n = i->n_index};
    FlatAccess flat;
    bool divided = false;
    for (int d = 0; d < i->n_index; d++) {
        o.index[d] = i->index[d];
        o.stride[d] = t->k->buffers.at[i->buffer].stride[d];
        for (int n = 0; n < i->index[d]->n; n++) divided |= i->index[d]->term[n].atom.kind == ATOM_DIV;
    }
    if (!divided || !access_flatten(t->k, i, &flat)) return o;
    Term term[MAX_AXES + 2 * MAX_RANK];
    int n = 0;
    for (int a = 0; a < t->k->axes.n; a++)
        if (flat.stride[a]) term[n++] = (Term){flat.stride[a], {.kind = ATOM_AXIS, .id = a}};
    for (int d = 0; d < flat.n_divided; d++) term[n++] = (Term){flat.divided[d].coef, *flat.divided[d].atom};
    return (Offset){1, {index_make(t->ke->arena, flat.constant, n, term)}, {1}};
}

static bool narrow_place(const Nest *t, const Buffer *b, const Offset *o) {
    int64_t last = 0;
    for (int d = 0; d < b->rank; d++)
        last += (b->dim[d].bound > 0 ? b->dim[d].bound - 1 : 0) * (b->stride[d] < 0 ? -b->stride[d] : b->stride[d]);
    for (int d = 0; d < o->n; d++)
        if (!fits_32(t->k, o->index[d])) return false;
    return last < INT32_MAX;
}

Place nest_buffer_place(Nest *t, const Inst *i, int depth) {
    const Buffer *b = &t->k->buffers.at[i->buffer];
    const bool vector = varies(t, depth);
    const Offset o = offset_of(t, i);
    int64_t coef = 0, constant = 0;
    const bool contiguous = vector && access_affine(t->k, i, t->inner, &coef) && coef == 1;
    for (int d = 0; d < o.n; d++) constant += o.index[d]->c * o.stride[d];
    t->gathers = vector && !contiguous;
    t->bits = narrow_place(t, b, &o) ? 32 : 64;
    LLVMValueRef offset = sum_terms(t, emit_i64(t->e, constant), o.n, o.index, o.stride);
    nest_position(t, depth);
    if (t->gathers && !emit_width(offset)) offset = emit_splat(t->e, offset, t->width);
    return at_offset(t, t->ke->buffer[i->buffer], emit_memory_type(t->e, b->dtype), offset, contiguous);
}

LLVMValueRef nest_origin(KernelEmit *ke, const Inst *access) {
    Nest t = {.ke = ke,
              .e = ke->e,
              .k = ke->k,
              .inner = -1,
              .memo = ARENA_ARRAY(ke->arena, LLVMValueRef, ke->k->types.n + 1),
              .pairs = {.axis = -1}};
    t.tail[0] = ke->current;
    return nest_buffer_place(&t, access, 0).pointer;
}

Place nest_storage_place(Nest *t, int storage) {
    const Storage *s = &t->ke->v->storage.at[storage];
    LLVMValueRef offset = emit_i64(t->e, 0);
    int64_t inner_stride = 0;
    int depth = 0;
    for (int d = 1; d <= t->n; d++)
        for (int i = 0; i < s->n; i++) {
            if (s->axis[i] != t->axis[d - 1]) continue;
            nest_position(t, depth = d);
            LLVMValueRef lane = t->lane[s->axis[i]];
            if (s->axis[i] == t->inner) inner_stride = s->stride[i];
            if (varies(t, d) && s->stride[i] != 1) {
                t->bits = 32;
                lane = lanes_from(t, lane);
            }
            offset = emit_int_add(t->e, offset, emit_int_scale(t->e, lane, s->stride[i]));
        }
    nest_position(t, depth);
    return at_offset(t, t->ke->memory[storage], storage_type(t->e, s->dtype), offset, t->width && inner_stride == 1);
}

/* A lane's number times a stride: a vector where it varies and is not contiguous. */
static LLVMValueRef pack_term(Nest *t, int depth, LLVMValueRef stride, bool *contiguous) {
    const int a = t->axis[depth - 1];
    nest_position(t, depth);
    LLVMValueRef lane = LLVMBuildSub(t->e->b, t->lane[a], t->ke->lo[a], "");
    if (a == t->pairs.axis) lane = LLVMBuildLShr(t->e->b, lane, emit_i64(t->e, 1), "");
    const bool unit = LLVMIsAConstantInt(stride) && LLVMConstIntGetSExtValue(stride) == 1;
    *contiguous |= varies(t, depth) && unit;
    if (unit) return lane;
    if (varies(t, depth)) {
        t->bits = 64;
        lane = lanes_from(t, lane);
        stride = emit_splat(t->e, stride, t->width);
    }
    return LLVMBuildMul(t->e->b, lane, stride, "");
}

static LLVMValueRef constant_like(const Emit *e, LLVMValueRef v, int64_t c) {
    return emit_width(v) ? emit_splat(e, emit_i64(e, c), emit_width(v)) : emit_i64(e, c);
}

/* Vectors along the axis of pairs: 16 bits an element. */
static bool along_pairs(const Nest *t) { return t->pairs.axis >= 0 && t->pairs.axis == t->inner; }

Place nest_pack_place(Nest *t, const PackPlace *p) {
    const Emit *e = t->e;
    LLVMValueRef offset = emit_i64(e, 0), column = emit_i64(e, 0);
    bool contiguous = false;
    for (int d = 1; d <= t->n; d++) {
        const int a = t->axis[d - 1];
        if (a == t->inner && along_pairs(t)) continue;
        if (p->stride[a]) offset = emit_int_add(e, offset, pack_term(t, d, p->stride[a], &contiguous));
        if (p->column[a]) column = emit_int_add(e, column, pack_term(t, d, emit_i64(e, p->column[a]), &contiguous));
    }
    nest_position(t, t->n);
    if (p->panel) {
        LLVMValueRef panel = LLVMBuildUDiv(e->b, column, constant_like(e, column, p->panel), "");
        offset = emit_int_add(e, offset, LLVMBuildMul(e->b, panel, constant_like(e, column, p->panel_stride), ""));
        offset = emit_int_add(e, offset, LLVMBuildURem(e->b, column, constant_like(e, column, p->panel), ""));
    }
    if (!along_pairs(t)) return at_offset(t, p->memory, e->f32, offset, contiguous);
    LLVMValueRef lane = LLVMBuildSub(e->b, t->lane[t->inner], t->ke->lo[t->inner], "");
    offset = LLVMBuildAdd(e->b, LLVMBuildShl(e->b, offset, emit_i64(e, 1), ""), lane, "");
    return at_offset(t, p->memory, e->i16, offset, true);
}

/* ---- accesses --------------------------------------------------------------------------------------------------- */
static unsigned natural_align(const Emit *e, LLVMTypeRef t) {
    return t == e->i8 || t == e->i1 ? 1 : t == e->half || t == e->i16 ? 2 : 4;
}

static LLVMValueRef all_lanes(const Emit *e, int width) {
    return LLVMConstAllOnes(LLVMVectorType(e->i1, (unsigned)width));
}

LLVMValueRef nest_read(Nest *t, Place p, LLVMTypeRef element, LLVMValueRef mask) {
    const Emit *e = t->e;
    const unsigned align = natural_align(e, element);
    const int width = p.vector ? t->width : mask ? 1 : 0;
    LLVMTypeRef type = emit_vector_type(element, width);
    if (!mask && (!p.vector || p.contiguous)) {
        LLVMValueRef v = LLVMBuildLoad2(e->b, type, p.pointer, "");
        LLVMSetAlignment(v, align);
        return v;
    }
    LLVMValueRef m = mask ? emit_splat(e, mask, width) : all_lanes(e, width);
    LLVMValueRef args[4] = {p.pointer, LLVMConstInt(e->i32, align, false), m, LLVMConstNull(type)};
    const char *name = p.vector && !p.contiguous ? "llvm.masked.gather" : "llvm.masked.load";
    LLVMValueRef v = emit_masked(e, name, type, p.pointer, 4, args);
    return p.vector ? v : LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i32, 0, false), "");
}

void nest_write(Nest *t, Place p, LLVMValueRef v, LLVMValueRef mask) {
    const Emit *e = t->e;
    if (p.vector) v = emit_splat(e, v, t->width);
    LLVMTypeRef type = LLVMTypeOf(v), element = emit_width(v) ? LLVMGetElementType(type) : type;
    const unsigned align = natural_align(e, element);
    if (!mask && (!p.vector || p.contiguous)) {
        LLVMSetAlignment(LLVMBuildStore(e->b, v, p.pointer), align);
        return;
    }
    const int width = p.vector ? t->width : 1;
    LLVMValueRef m = mask ? emit_splat(e, mask, width) : all_lanes(e, width);
    v = emit_splat(e, v, width);
    LLVMValueRef args[4] = {v, p.pointer, LLVMConstInt(e->i32, align, false), m};
    emit_masked(e, p.vector && !p.contiguous ? "llvm.masked.scatter" : "llvm.masked.store", LLVMTypeOf(v), p.pointer, 4,
                args);
}

enum { PREFETCH_LINES = 64 };

/* ---- values ------------------------------------------------------------------------------------------------------ */
static LLVMValueRef both_masks(Nest *t, LLVMValueRef x, LLVMValueRef y) {
    if (!x || !y) return x ? x : y;
    LLVMValueRef v[2] = {x, y};
    emit_match(t->e, 2, v);
    return LLVMBuildAnd(t->e->b, v[0], v[1], "");
}

/* Short rows end before the machine sees a stream in them: the same place some rows further on, as many as it takes to
 * have PREFETCH_LINES on their way. */
static void prefetch_row(Nest *t, const Inst *i, Place p) {
    const Emit *e = t->e;
    int64_t coef;
    if (t->n < 2 || !access_affine(t->k, i, t->axis[t->n - 2], &coef)) return;
    const int64_t lines = (t->k->axes.at[t->inner].step * 4 + 63) / 64;
    const int64_t rows = (PREFETCH_LINES + lines - 1) / lines;
    LLVMValueRef ahead = emit_i64(e, coef * rows);
    LLVMValueRef at =
        LLVMBuildGEP2(e->b, emit_memory_type(e, t->k->buffers.at[i->buffer].dtype), p.pointer, &ahead, 1, "");
    LLVMValueRef args[4] = {at, LLVMConstInt(e->i32, 0, false), LLVMConstInt(e->i32, 2, false),
                            LLVMConstInt(e->i32, 1, false)}; /* a read, into the second cache, of data */
    emit_intrinsic(e, "llvm.prefetch", 4, args);
}

static bool always_inside(const Kernel *k, const Inst *i) {
    for (int d = 0; d < i->n_index; d++) {
        int64_t lo, hi;
        if (!index_range(k, i->index[d], &lo, &hi)) return false;
        if (lo < 0 || hi >= k->buffers.at[i->buffer].dim[d].bound) return false;
    }
    return true;
}

/* A vector of which nothing is wanted is asked for where the buffer begins: beyond a border or a residue class its own
 * place may be on no page, which a masked load survives, but in the time of hundreds of loads. */
static LLVMValueRef mapped_place(Nest *t, const Inst *i, LLVMValueRef pointer, LLVMValueRef wanted) {
    const Emit *e = t->e;
    if (always_inside(t->k, i)) return pointer;
    LLVMValueRef any = emit_width(wanted) ? emit_intrinsic(e, "llvm.vector.reduce.or", 1, &wanted) : wanted;
    return LLVMBuildSelect(e->b, any, pointer, t->ke->buffer[i->buffer], "");
}

static LLVMValueRef load(Nest *t, const Inst *i, int depth) {
    const DType type = t->k->buffers.at[i->buffer].dtype;
    LLVMValueRef wanted = i->n_in ? nest_value(t, i->in[0]) : NULL;
    Place p = nest_buffer_place(t, i, depth);
    LLVMValueRef mask = p.vector ? both_masks(t, wanted, t->mask) : wanted;
    if (wanted && p.vector && p.contiguous) p.pointer = mapped_place(t, i, p.pointer, wanted);
    if (t->streams && p.contiguous) prefetch_row(t, i, p);
    LLVMValueRef v = emit_from_memory(t->e, type, nest_read(t, p, emit_memory_type(t->e, type), mask));
    if (!wanted || i->value == 0) return v;
    LLVMValueRef in[3] = {wanted, v, emit_const(t->e, type, i->value)};
    return emit_element(t->e, OP_SELECT, type, type, 3, in);
}

static LLVMValueRef index_value32(Nest *t, const Inst *i, int depth) {
    t->gathers = varies(t, depth);
    t->bits = fits_32(t->k, i->index[0]) && index_fits_i32(t->k, i->index[0]) ? 32 : 64;
    LLVMValueRef v = sum_terms(t, emit_i64(t->e, i->index[0]->c), 1, i->index, (int64_t[]){1});
    nest_position(t, depth);
    return emit_index_i32(t->e, t->k, i->index[0], v);
}

static LLVMValueRef kept(Nest *t, int value, int depth) {
    const int storage = t->ke->v->value[value].storage;
    const DType type = t->k->types.at[value].dtype;
    const Place p = nest_storage_place(t, storage);
    nest_position(t, depth);
    LLVMValueRef mask = p.vector && !p.contiguous ? t->mask : NULL;
    LLVMValueRef v = nest_read(t, p, storage_type(t->e, type), mask);
    return type == DT_BOOL ? emit_from_memory(t->e, type, v) : v;
}

static LLVMValueRef element(Nest *t, const Inst *i, int depth) {
    LLVMValueRef in[4] = {0};
    for (int n = 0; n < i->n_in; n++) in[n] = nest_value(t, i->in[n]);
    nest_position(t, depth);
    return emit_element(t->e, i->op, i->type.dtype, t->k->types.at[i->in[i->n_in - 1]].dtype, i->n_in, in);
}

static LLVMValueRef evaluate(Nest *t, int value) {
    const ValueInfo *info = &t->ke->v->value[value];
    const Inst *i = info->def;
    const int depth = nest_depth(t, &t->k->types.at[value]);
    if (info->kept && !t->pending[value]) return kept(t, value, depth);
    switch (i->kind) {
    case TI_CONST:
    case TI_FULL: return emit_const(t->e, i->type.dtype, i->value);
    case TI_INDEX: return index_value32(t, i, depth);
    case TI_LOAD: return load(t, i, depth);
    case TI_STAGE: return nest_value(t, i->in[0]);
    default: return element(t, i, depth);
    }
}

LLVMValueRef nest_value(Nest *t, int value) {
    if (!t->memo[value]) {
        LLVMValueRef v = evaluate(t, value);
        t->memo[value] = v;
    }
    return t->memo[value];
}

/* ---- pairs of bf16 ----------------------------------------------------------------------------------------------- */
/* The value where the axis of pairs is one lane further; what has not that axis is as it was. */
static LLVMValueRef second_value(Nest *t, int value) {
    const int axis = t->pairs.axis;
    LLVMValueRef *memo = t->memo, lane = t->lane[axis], at = t->at[axis];
    for (int v = 0; v < t->k->types.n; v++)
        if (memo[v] && !tile_type_has(&t->k->types.at[v], axis)) t->pairs.memo[v] = memo[v];
    t->memo = t->pairs.memo;
    t->lane[axis] = t->pairs.lane;
    t->at[axis] = t->pairs.at;
    LLVMValueRef second = nest_value(t, value);
    t->pairs.at = t->at[axis];
    t->memo = memo;
    t->lane[axis] = lane;
    t->at[axis] = at;
    return second;
}

static LLVMValueRef bits_of(Nest *t, LLVMValueRef v) {
    return LLVMBuildBitCast(t->e->b, v, emit_vector_type(t->e->i32, emit_width(v)), "");
}

static LLVMValueRef constant32(Nest *t, uint32_t bits, LLVMValueRef like) {
    return emit_splat(t->e, LLVMConstInt(t->e->i32, bits, false), emit_width(like));
}

LLVMValueRef nest_pair(Nest *t, int value) {
    const Emit *e = t->e;
    LLVMValueRef first = nest_value(t, value);
    LLVMValueRef second = along_pairs(t) || t->pairs.alone ? NULL : second_value(t, value);
    nest_position(t, t->n);
    first = bits_of(t, first);
    LLVMValueRef low = LLVMBuildLShr(e->b, first, constant32(t, 16, first), "");
    if (along_pairs(t)) return LLVMBuildTrunc(e->b, low, emit_vector_type(e->i16, emit_width(low)), "");
    if (second) {
        second = bits_of(t, second);
        LLVMValueRef half[2] = {low, LLVMBuildAnd(e->b, second, constant32(t, 0xffff0000u, second), "")};
        emit_match(e, 2, half);
        low = LLVMBuildOr(e->b, half[0], half[1], "");
    }
    return LLVMBuildBitCast(e->b, low, emit_vector_type(e->f32, emit_width(low)), "");
}
