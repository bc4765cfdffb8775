/* See tile_tensor_map.h.  Rules: CUDA Driver API, cuTensorMapEncodeTiled; PTX ISA, "Tensors". */
#include "ir/tile_tensor_map.h"
#include "ir/tile_flat.h"
#include <string.h>

/* ---- subscripts as strides per axis ------------------------------------------------------------------------ */
/* What stands for the axis alone: its quotient or remainder by one number; 0: it does not occur so. */
static int64_t divided_stride(const FlatAccess *f, int axis, AtomKind kind, int64_t *by) {
    for (int i = 0; i < f->n_divided; i++) {
        const Atom *a = f->divided[i].atom;
        const bool alone =
            a->num->c == 0 && a->num->n == 1 && a->num->term[0].coef == 1 && a->num->term[0].atom.kind == ATOM_AXIS;
        if (a->kind == kind && alone && a->num->term[0].atom.id == axis && index_is_const(a->den, by))
            return f->divided[i].coef;
    }
    return 0;
}

/* ---- where a value comes from, and where it goes --------------------------------------------------------------- */
const Inst *block_definition(const Block *b, int value) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n], *inside;
        if (i->result == value) return i;
        if ((inside = block_definition(&i->body, value))) return inside;
    }
    return NULL;
}

const Inst *copied_load(const Kernel *k, int value) {
    const Inst *i = block_definition(&k->body, value);
    const bool rounds = i && i->kind == TI_ELEMENT && i->op == OP_CAST && i->type.dtype == DT_TF32 &&
                        k->types.at[i->in[0]].dtype == DT_F32;
    return rounds ? block_definition(&k->body, i->in[0]) : i;
}

int kernel_cluster_axis(const Kernel *k) {
    for (int x = 0; x < k->axes.n; x++)
        if (k->axes.at[x].cluster > 1) return x;
    return -1;
}

/* ---- the map ----------------------------------------------------------------------------------------------------- */
/* `tile`: the type of the elements in shared memory. */
static const char *map_type(DType memory, DType tile, fusec_map_type *type) {
    *type = tile == DT_F16    ? FUSEC_MAP_F16
            : tile == DT_BF16 ? FUSEC_MAP_BF16
            : tile == DT_TF32 ? FUSEC_MAP_TF32
                              : FUSEC_MAP_F32;
    if (tile != DT_F16 && tile != DT_BF16 && tile != DT_TF32 && tile != DT_F32)
        return "its elements are not f16, bf16, tf32 or f32";
    return memory == tile || (memory == DT_F32 && tile == DT_TF32) ? NULL : "its elements change their type";
}

typedef struct Dims {
    int n;
    MapDim dim[FUSEC_MAP_RANK];
    int box[FUSEC_MAP_RANK];
} Dims;

static const char *add_dimension(Dims *m, MapDim x, int box) {
    if (m->n == FUSEC_MAP_RANK) return "it has more than five dimensions";
    m->dim[m->n] = x;
    m->box[m->n++] = box;
    return NULL;
}

/* `rows` neighbours of the axis at a time; a quotient's dimension comes after all others. */
static const char *add_axis(const Kernel *k, const FlatAccess *f, int axis, int rows, int bytes, Dims *m,
                            Dims *quotients) {
    const Axis *x = &k->axes.at[axis];
    int64_t by = 0, of_quotient = 0;
    const int64_t rest = divided_stride(f, axis, ATOM_MOD, &by),
                  quotient = divided_stride(f, axis, ATOM_DIV, &of_quotient);
    if (!rest && !quotient) return add_dimension(m, (MapDim){axis, 1, 0, x->extent, f->stride[axis] * bytes}, rows);
    Dim blocks = x->extent;
    if (!rest || !quotient || by != of_quotient || f->stride[axis])
        return "its subscripts divide an axis in several ways";
    if (by % rows || blocks.bound % by || (!dim_is_fixed(blocks) && (blocks.scale % by || blocks.offset % by)))
        return "a tile crosses the parts of an axis that are apart";
    blocks.bound /= by;
    if (!dim_is_fixed(blocks)) blocks.scale /= by, blocks.offset /= by;
    const char *why = add_dimension(m, (MapDim){axis, 1, by, dim_fixed(by), rest * bytes}, rows);
    return why ? why : add_dimension(quotients, (MapDim){axis, by, 0, blocks, quotient * bytes}, 1);
}

static const char *check_strides(const Dims *m, int bytes) {
    if (m->dim[0].stride != bytes) return "its minor axis is not contiguous";
    for (int d = 1; d < m->n; d++)
        if (m->dim[d].stride <= 0 || m->dim[d].stride % MAP_ALIGN) return "rows do not lie at multiples of 16 bytes";
    return NULL;
}

/* Dimensions: the minor axis, then axes of several lanes, then those of one, then quotients. */
static const char *dimensions(const Kernel *k, const TileType *t, int minor, const FlatAccess *f, int bytes,
                              TensorMap *m) {
    const int row = k->axes.at[minor].step, panel = m->swizzle && row * bytes > m->swizzle ? m->swizzle / bytes : row;
    Dims all = {0}, quotients = {0};
    const char *why = row % panel ? "its rows are no whole panels of the swizzle"
                                  : add_axis(k, f, minor, panel, bytes, &all, &quotients);
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < t->n_axes && !why; d++) {
            const int x = t->axis[d], step = k->axes.at[x].step;
            if (x != minor && (step == 1) == (pass == 1)) why = add_axis(k, f, x, step, bytes, &all, &quotients);
        }
    for (int d = 0; d < quotients.n && !why; d++) why = add_dimension(&all, quotients.dim[d], 1);
    m->panels = row / panel;
    m->rank = all.n;
    memcpy(m->dim, all.dim, sizeof all.dim);
    memcpy(m->box, all.box, sizeof all.box);
    return why ? why : check_strides(&all, bytes);
}

/* A copy moves rows of one panel: as many bytes as the swizzle exchanges within. */
static const char *boxes(const Kernel *k, const Inst *i, int bytes, TensorMap *m) {
    const int cluster = kernel_cluster_axis(k);
    if (m->box[0] * bytes % MAP_ALIGN) return "its rows are no multiple of 16 bytes";
    m->split = i->kind == TI_STAGE && i->multicast && cluster >= 0 ? k->axes.at[cluster].cluster : 1;
    if (m->split > 1 && (m->rank < 2 || m->box[1] % (8 * m->split)))
        return "its rows cannot be shared out among the cluster";
    if (m->split > 1) m->box[1] /= m->split;
    for (int d = 0; d < m->rank; d++)
        if (m->box[d] > MAP_MAX_BOX) return "a row or column has more than 256 elements";
    return NULL;
}

static const char *check_access(const Kernel *k, const Inst *access, const TileType *tile, const FlatAccess *f) {
    const bool masked = access->kind == TI_LOAD ? access->n_in > 0 : access->n_in > 1;
    int divided = 0;
    if (masked || access->value != 0) return "it is masked";
    for (int x = 0; x < k->axes.n; x++) {
        int64_t by;
        const bool rest = divided_stride(f, x, ATOM_MOD, &by) != 0, quotient = divided_stride(f, x, ATOM_DIV, &by) != 0;
        bool in_tile = false;
        for (int d = 0; d < tile->n_axes; d++) in_tile |= tile->axis[d] == x;
        if ((f->stride[x] || rest || quotient) != in_tile) return "its axes are not those of the memory";
        divided += rest + quotient;
    }
    return divided == f->n_divided ? NULL : "its subscripts are not affine";
}

static const char *box_map(const Kernel *k, const Inst *i, const Inst *stage, const Inst *access, TensorMap *out) {
    const int bytes = dtype_bytes(k->buffers.at[access->buffer].dtype);
    FlatAccess f = {0};
    if (!access_flatten(k, access, &f)) return "its subscripts are not affine";
    out->offset = f.constant * bytes;
    const char *why = check_access(k, access, &stage->type, &f);
    if (!why) why = dimensions(k, &stage->type, stage->minor - 1, &f, bytes, out);
    if (!why) why = boxes(k, i, bytes, out);
    if (!why && (f.constant < 0 || out->offset % MAP_ALIGN)) why = "it does not begin at a multiple of 16 bytes";
    return why;
}

const char *kernel_tensor_map(const Kernel *k, const Inst *i, TensorMap *out) {
    const Inst *access = i->kind == TI_STORE ? i : copied_load(k, i->in[0]);
    const Inst *stage = i->kind == TI_STORE ? block_definition(&k->body, i->in[0]) : i;
    if (!stage || stage->kind != TI_STAGE || stage->minor == NO_AXIS)
        return "no stage says how it lies in shared memory";
    if (!access || (access->kind != TI_LOAD && access->kind != TI_STORE)) return "it is computed, not loaded";
    const TensorMap empty = {.buffer = access->buffer, .swizzle = stage->swizzle};
    fusec_map_type type;
    *out = empty;
    const char *why = map_type(k->buffers.at[access->buffer].dtype, stage->type.dtype, &type);
    if (!why) why = box_map(k, i, stage, access, out);
    if (why && i->kind == TI_STAGE) {
        *out = empty;
        if (!kernel_window_map(k, i, access, out)) why = NULL;
    }
    out->type = type;
    return why;
}
