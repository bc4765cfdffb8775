/* Tensor copies: boxes of a tensor in global memory to and from shared memory, tiled and im2col, with swizzles, fill
 * beyond the edges, and reductions.  Source: PTX ISA, "Tensors" (tiled mode, im2col mode, swizzling modes, out of
 * boundary access), "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", "cp.async.bulk.prefetch.tensor". */
#include "tools/ptxsim/exec/bulk.h"
#include "tools/ptxsim/exec/numeric.h"
#include "tools/ptxsim/exec/tensor_fields.h"
#include "tools/ptxsim/ptx/parse.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Elements in a row of the tensor, and where they are in the box. */
typedef struct Piece {
    Range global;
    uint32_t at;
} Piece;

typedef struct TensorCopy {
    TensorMap map;
    Targets targets;   /* loads */
    Range source;      /* stores: the box in shared memory */
    uint32_t bytes;    /* of the full box */
    uint32_t row, pitch; /* bytes of a row of the box, and from row to row in shared memory */
    Piece *piece;
    size_t pieces, capacity;
    uint8_t *box;      /* the bytes on their way, in order, before any swizzle */
    uint8_t reduce;
    PtxType type;
} TensorCopy;

/* ---- the map ---------------------------------------------------------------------------------------------- */
static bool complain(Warp *w, int lane, uint64_t address, const char *note) {
    warp_report(w, REPORT_ASYNC, lane, address, 0, note);
    return false;
}

/* The first field that a map made from zeros lacks, of those that a map of its rank has. */
static const char *field_missing(const TensorMap *m) {
    static const struct { MapField field; const char *name; } ONE[] = {{MAP_RANK, "rank"}, {MAP_ADDRESS, "global_address"}},
        EACH[] = {{MAP_BOX, "box_dim"}, {MAP_DIM, "global_dim"}, {MAP_ELEMENT_STRIDE, "element_stride"},
                  {MAP_STRIDE, "global_stride"}};
    for (int f = 0; f < 2; f++)
        if (m->missing & tensor_field_bit(ONE[f].field, 0)) return ONE[f].name;
    for (int f = 0; f < 4; f++)
        for (int d = 0; d < m->rank - (EACH[f].field == MAP_STRIDE); d++)
            if (m->missing & tensor_field_bit(EACH[f].field, d)) return EACH[f].name;
    return NULL;
}

static bool map_read(Warp *w, int lane, const CopyForm *f, TensorMap *map) {
    Range r;
    const uint64_t address = pointer_at(w, &f->map, lane);
    if (!range_find(w, lane, f->map.space, address, TENSOR_MAP_BYTES, TENSOR_MAP_ALIGN, false, &r)) return false;
    if (r.space == SPACE_SHARED || r.space == SPACE_LOCAL)
        return complain(w, lane, address, "a tensor map lies in parameter, constant or global memory");
    if (r.space == SPACE_GLOBAL && !r.allocation->constant) range_read(w, lane, NULL, &r); /* a kernel may change it */
    memcpy(map, r.data, sizeof *map);
    const bool unranked = map->missing & tensor_field_bit(MAP_RANK, 0); /* field_missing says it */
    if (map->magic != TENSOR_MAP_MAGIC || map->type >= TENSOR_TYPE_COUNT || (map->rank < 1 && !unranked) ||
        map->rank > TENSOR_MAX_RANK || map->swizzle >= SWIZZLE_COUNT)
        return complain(w, lane, address, "no tensor map is here");
    const char *missing = map->missing ? field_missing(map) : NULL;
    if (missing) {
        char note[96];
        snprintf(note, sizeof note, "the tensor map was made from zeros, and its .%s was never replaced", missing);
        return complain(w, lane, address, note);
    }
    if (map->rank != f->rank) return complain(w, lane, address, "the tensor map has another rank than the instruction");
    if ((map->im2col != 0) != f->im2col)
        return complain(w, lane, address, "the tensor map is of the other mode, tile or im2col");
    if (map->interleave != INTERLEAVE_NONE) return complain(w, lane, address, "interleaved layouts are not simulated");
    return true;
}

/* ---- which elements ----------------------------------------------------------------------------------------- */
static bool add_piece(Warp *w, int lane, TensorCopy *c, uint64_t address, uint32_t at, uint32_t bytes, bool store) {
    if (c->pieces == c->capacity) {
        const size_t capacity = c->capacity ? 2 * c->capacity : 64;
        Piece *grown = realloc(c->piece, capacity * sizeof *grown);
        if (!grown) {
            cluster_no_memory(w->cluster);
            return false;
        }
        c->piece = grown;
        c->capacity = capacity;
    }
    Piece *p = &c->piece[c->pieces];
    if (!range_find(w, lane, SPACE_GLOBAL, address, bytes, 1, store, &p->global)) return false;
    p->at = at;
    c->pieces++;
    return true;
}

/* `count` elements from index[0] on, in the row that the other indices name, stand in the box at byte `at`. */
static bool add_row(Warp *w, int lane, TensorCopy *c, const int64_t *index, uint32_t count, uint32_t at, bool store) {
    const TensorMap *m = &c->map;
    const uint32_t size = (uint32_t)tensor_type_bytes((TensorType)m->type);
    uint64_t address = m->address;
    for (int d = 1; d < m->rank; d++) {
        if (index[d] < 0 || (uint64_t)index[d] >= m->dim[d]) return true; /* the whole row is filled */
        address += (uint64_t)index[d] * m->stride[d - 1];
    }
    /* A reduction of f16 or bf16 goes on to the end of the 16 bytes that an edge lies in (seen on an H200). */
    const int64_t unit = c->reduce && size == 2 ? 8 : 1;
    const int64_t dim = ((int64_t)m->dim[0] + unit - 1) / unit * unit, from = index[0] < 0 ? 0 : index[0];
    const int64_t to = index[0] + (int64_t)count < dim ? index[0] + (int64_t)count : dim;
    if (from >= to) return true;
    return add_piece(w, lane, c, address + (uint64_t)from * size, at + (uint32_t)(from - index[0]) * size,
                     (uint32_t)(to - from) * size, store);
}

/* Tiled mode: a copy moves ceil(box / element stride) elements along each dimension. */
static uint32_t tile_extent(const TensorMap *m, int d) {
    const uint32_t stride = d && m->element_stride[d] ? m->element_stride[d] : 1;
    return (m->box[d] + stride - 1) / stride;
}

static uint32_t row_bytes(const TensorMap *m) {
    return (uint32_t)tensor_type_bytes((TensorType)m->type) * (m->im2col ? m->channels : tile_extent(m, 0));
}

static uint32_t box_bytes(const TensorMap *m) {
    uint32_t n = row_bytes(m);
    if (m->im2col) return n * m->pixels;
    for (int d = 1; d < m->rank; d++) n *= tile_extent(m, d);
    return n;
}

static bool walk_tile(Warp *w, int lane, TensorCopy *c, const int64_t start[5], bool store) {
    const TensorMap *m = &c->map;
    const uint32_t row = row_bytes(m);
    uint32_t step[5] = {0};
    for (uint32_t at = 0; at < c->bytes; at += row) {
        int64_t index[5] = {start[0]};
        for (int d = 1; d < m->rank; d++)
            index[d] = start[d] + (int64_t)step[d] * (m->element_stride[d] ? m->element_stride[d] : 1);
        if (!add_row(w, lane, c, index, tile_extent(m, 0), at, store)) return false;
        for (int d = 1; d < m->rank && ++step[d] == tile_extent(m, d); d++) step[d] = 0;
    }
    return true;
}

/* Im2col mode: pixels in the order W, H, D, N within the bounding box, from the one that the coordinates name; the
 * offsets move the box and the pixel alike. */
static bool walk_im2col(Warp *w, int lane, TensorCopy *c, const int64_t start[5], const int64_t offset[3], bool store) {
    const TensorMap *m = &c->map;
    const int spatial = m->rank - 2;
    const uint32_t row = row_bytes(m);
    int64_t base[5];
    memcpy(base, start, sizeof base);
    for (int d = 0; d < spatial; d++)
        if (base[d + 1] < m->lower[d] || base[d + 1] > (int64_t)m->dim[d + 1] - 1 + m->upper[d])
            return complain(w, lane, c->map.address, "the coordinates lie outside the im2col bounding box");
    for (uint32_t p = 0; p < m->pixels; p++) {
        int64_t index[5];
        memcpy(index, base, sizeof index);
        for (int d = 0; d < spatial; d++) index[d + 1] += offset[d];
        if (!add_row(w, lane, c, index, m->channels, p * row, store)) return false;
        int d = 0;
        for (; d < spatial; d++) {
            base[d + 1] += m->element_stride[d + 1] ? m->element_stride[d + 1] : 1;
            if (base[d + 1] <= (int64_t)m->dim[d + 1] - 1 + m->upper[d]) break;
            base[d + 1] = m->lower[d];
        }
        if (d == spatial) base[m->rank - 1]++;
    }
    return true;
}

static bool walk(Warp *w, int lane, const CopyForm *f, TensorCopy *c) {
    int64_t start[5] = {0}, offset[3] = {0};
    for (int d = 0; d < f->rank; d++) start[d] = (int32_t)lane_bits(w, &f->coordinate[d], lane);
    /* An H200 says "illegal instruction" to both. */
    if (start[0] * tensor_type_bytes((TensorType)c->map.type) % 16)
        return complain(w, lane, c->map.address, "the innermost coordinate is no multiple of 16 bytes");
    for (int d = 0; d < f->rank; d++)
        if (f->store && start[d] < 0)
            return complain(w, lane, c->map.address, "a store or a reduction begins before the tensor");
    for (int d = 0; f->im2col && !f->no_offsets && d < f->rank - 2; d++)
        offset[d] = (uint16_t)lane_bits(w, &f->im2col_offset[d], lane);
    return f->im2col ? walk_im2col(w, lane, c, start, offset, f->store) : walk_tile(w, lane, c, start, f->store);
}

/* ---- the bytes ---------------------------------------------------------------------------------------------- */
/* Address of a 16-byte unit under a swizzle: bits 4.. are exchanged by bits 7.. (the tables of "Swizzling Modes"). */
static uint64_t swizzled(int swizzle, uint64_t address) {
    static const uint8_t BITS[SWIZZLE_COUNT] = {0, 1, 3, 7};
    return address ^ ((address >> 7 & BITS[swizzle]) << 4);
}

/* Between the box and its place in shared memory.  Under a swizzle rows narrower than its span are a span apart, and what
 * lies between them stays as it is (seen on an H200). */
static void move_box(const TensorCopy *c, const Range *shared, bool to_shared) {
    uint8_t *memory = shared->block->shared;
    for (uint32_t at = 0; at < c->bytes; at += 16) {
        const uint64_t linear = c->pitch == c->row ? at : (uint64_t)(at / c->row) * c->pitch + at % c->row;
        uint8_t *place = memory + swizzled(c->map.swizzle, shared->offset + linear);
        if (to_shared) memcpy(place, c->box + at, 16);
        else memcpy(c->box + at, place, 16);
    }
}

/* A NaN of the element's type, or zeros.  An H200 fills with 7ff7 in every 16 bits, a NaN in each floating-point type. */
static void fill_box(const TensorCopy *c) {
    const TensorType t = (TensorType)c->map.type;
    memset(c->box, 0, c->bytes);
    if (c->map.fill != FILL_NAN || !tensor_type_floating(t)) return;
    const uint16_t nan = 0x7ff7;
    for (size_t at = 0; at < c->bytes; at += sizeof nan) memcpy(c->box + at, &nan, sizeof nan);
}

/* .ftz types flush subnormals, tf32 types round, on the way into shared memory. */
static void convert_box(const TensorCopy *c) {
    const TensorType t = (TensorType)c->map.type;
    const bool flush = t == TENSOR_FLOAT32_FTZ || t == TENSOR_TFLOAT32_FTZ;
    const bool tf32 = t == TENSOR_TFLOAT32 || t == TENSOR_TFLOAT32_FTZ;
    for (uint32_t at = 0; (flush || tf32) && at < c->bytes; at += 4) {
        uint32_t v;
        memcpy(&v, c->box + at, 4);
        if (flush && !(v & 0x7f800000)) v &= 0x80000000;
        if (tf32 && (v & 0x7f800000) != 0x7f800000)
            v = (uint32_t)float_encode(T_TF32, float_decode(T_F32, v), ROUND_RN);
        memcpy(c->box + at, &v, 4);
    }
}

static void load_read(AsyncOp *op) {
    const TensorCopy *c = op->data;
    fill_box(c);
    for (size_t k = 0; k < c->pieces; k++)
        memcpy(c->box + c->piece[k].at, c->piece[k].global.data, c->piece[k].global.bytes);
    convert_box(c);
}

static void load_land(AsyncOp *op) {
    const TensorCopy *c = op->data;
    for (int k = 0; k < c->targets.count; k++) move_box(c, &c->targets.item[k].range, true);
}

static void load_complete(AsyncOp *op) {
    const TensorCopy *c = op->data;
    targets_complete(op, &c->targets, c->bytes);
}

static void store_read(AsyncOp *op) {
    const TensorCopy *c = op->data;
    move_box(c, &c->source, false);
}

static void store_land(AsyncOp *op) {
    const TensorCopy *c = op->data;
    for (size_t k = 0; k < c->pieces; k++) {
        const Range *g = &c->piece[k].global;
        if (c->reduce) reduce_bytes(c->reduce, c->type, g->data, c->box + c->piece[k].at, g->bytes);
        else memcpy(g->data, c->box + c->piece[k].at, g->bytes);
    }
}

static void copy_free(TensorCopy *c) {
    free(c->piece);
    free(c->box);
    free(c);
}

static void copy_drop(AsyncOp *op) { copy_free(op->data); }

/* ---- issue -------------------------------------------------------------------------------------------------- */
/* Element types in registers' terms, and whether a reduction exists: as "cp.reduce.async.bulk" to .global, with the
 * bit operations on the integers. */
static PtxType element_type(int tensor_type) {
    static const uint8_t TYPES[TENSOR_TYPE_COUNT] = {
        [TENSOR_UINT8] = T_U8, [TENSOR_UINT16] = T_U16, [TENSOR_UINT32] = T_U32, [TENSOR_INT32] = T_S32,
        [TENSOR_UINT64] = T_U64, [TENSOR_INT64] = T_S64, [TENSOR_FLOAT16] = T_F16, [TENSOR_FLOAT32] = T_F32,
        [TENSOR_FLOAT64] = T_F64, [TENSOR_BFLOAT16] = T_BF16, [TENSOR_FLOAT32_FTZ] = T_F32, [TENSOR_TFLOAT32] = T_F32,
        [TENSOR_TFLOAT32_FTZ] = T_F32};
    return (PtxType)TYPES[tensor_type];
}

static bool reduces(int op, PtxType t) {
    const bool word = t == T_U32 || t == T_S32, wide = t == T_U64 || t == T_S64, half = t == T_F16 || t == T_BF16;
    switch (op) {
    case ATOMIC_ADD: return word || t == T_U64 || half || t == T_F32 || t == T_F64;
    case ATOMIC_MIN:
    case ATOMIC_MAX: return word || wide || half;
    case ATOMIC_INC:
    case ATOMIC_DEC: return t == T_U32;
    default: return word || wide;
    }
}

/* The box in shared memory, with room for whole spans of the swizzle. */
static bool shared_find(Warp *w, int lane, const CopyForm *f, TensorCopy *c) {
    const uint32_t span = (uint32_t)tensor_swizzle_bytes((TensorSwizzle)c->map.swizzle);
    if (!c->bytes || c->bytes % 16)
        return complain(w, lane, c->map.address, "the size of a box is a multiple of 16 bytes");
    c->row = row_bytes(&c->map);
    c->pitch = c->map.swizzle && c->row < span ? span : c->row;
    const uint32_t room = (c->bytes / c->row * c->pitch + span - 1) / span * span;
    if (!f->store) return targets_find(w, lane, f, room, 128, &c->targets);
    if (!range_find(w, lane, f->from.space, pointer_at(w, &f->from, lane), room, 128, false, &c->source)) return false;
    return c->source.space == SPACE_SHARED || complain(w, lane, c->source.address, "the source is no shared memory");
}

static bool copy_find(Warp *w, int lane, const CopyForm *f, TensorCopy *c) {
    if (!map_read(w, lane, f, &c->map)) return false;
    c->bytes = box_bytes(&c->map);
    c->reduce = f->reduce;
    c->type = element_type(c->map.type);
    if (f->reduce && !reduces(f->reduce, c->type))
        return complain(w, lane, c->map.address, "this reduction does not exist for the tensor's element type");
    return shared_find(w, lane, f, c) && walk(w, lane, f, c);
}

static void issue_load(Warp *w, AsyncOp *op, const TensorCopy *c) {
    op->read = load_read;
    op->land = load_land;
    op->complete = load_complete;
    for (size_t k = 0; k < c->pieces; k++) {
        range_read(w, op->lane, op, &c->piece[k].global);
        count_copy(w, &c->piece[k].global, false);
    }
    targets_mark(w, op, &c->targets, false);
}

static void issue_store(Warp *w, AsyncOp *op, const TensorCopy *c) {
    op->read = store_read;
    op->land = store_land;
    op->reduces = c->reduce != 0;
    range_read(w, op->lane, op->reader, &c->source);
    move_box(c, &c->source, false); /* as it is now; read again when the schedule says so */
    for (size_t k = 0; k < c->pieces; k++) {
        range_store(w, op->lane, op, &c->piece[k].global, c->reduce ? NULL : c->box + c->piece[k].at);
        if (!c->reduce) range_poison(&c->piece[k].global);
        count_copy(w, &c->piece[k].global, true);
    }
    group_add(op, GROUP_BULK);
}

static void tensor_issue(Warp *w, int lane, const CopyForm *f, TensorCopy *c) {
    AsyncOp *op = bulk_new(w, lane, f->store);
    c->box = malloc(c->bytes);
    if (!op || !c->box) {
        cluster_no_memory(w->cluster);
        async_release(op);
        copy_free(c);
        return;
    }
    op->data = c;
    op->drop = copy_drop;
    if (f->store) issue_store(w, op, c);
    else issue_load(w, op, c);
    async_issue(op);
}

static void tensor_lane(Warp *w, int lane, const CopyForm *f) {
    TensorCopy *c = calloc(1, sizeof *c);
    if (!c) {
        cluster_no_memory(w->cluster);
        return;
    }
    const bool prefetch = !f->to.base.base && !f->from.base.base;
    if (prefetch) map_read(w, lane, f, &c->map);
    if (!prefetch && copy_find(w, lane, f, c)) tensor_issue(w, lane, f, c);
    else copy_free(c);
}

void exec_tensor_copy(Warp *w, const Inst *i, uint32_t mask) {
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1) tensor_lane(w, l, i->more);
}
