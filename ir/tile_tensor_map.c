/* See tile_tensor_map.h.  Rules: CUDA Driver API, cuTensorMapEncodeTiled; PTX ISA, "Tensors". */
#include "ir/tile_tensor_map.h"
#include <string.h>

/* ---- subscripts as strides per axis ------------------------------------------------------------------------ */
typedef struct Flat {
    int64_t stride[MAX_AXES], constant;
    struct {
        const Atom *atom;
        int64_t coef;
    } divided[2 * MAX_RANK]; /* DIV and MOD atoms, until their other half is found */
    int n_divided;
} Flat;

static bool add_index(Flat *f, const Index *x, int64_t by);

/* E * (x / c) + F * (x mod c) is F * x where E = F * c. */
static bool meet(Flat *f, const Atom *a, int64_t coef) {
    int64_t c;
    if (!index_is_const(a->den, &c)) return false;
    for (int i = 0; i < f->n_divided; i++) {
        const Atom *b = f->divided[i].atom;
        if (b->kind == a->kind || !index_equal(a->num, b->num) || !index_equal(a->den, b->den)) continue;
        const int64_t quotient = a->kind == ATOM_DIV ? coef : f->divided[i].coef;
        const int64_t remainder = a->kind == ATOM_DIV ? f->divided[i].coef : coef;
        if (quotient != remainder * c) continue;
        f->divided[i] = f->divided[--f->n_divided];
        return add_index(f, a->num, remainder);
    }
    if (f->n_divided == 2 * MAX_RANK) return false;
    f->divided[f->n_divided].atom = a;
    f->divided[f->n_divided++].coef = coef;
    return true;
}

static bool add_index(Flat *f, const Index *x, int64_t by) {
    f->constant += by * x->c;
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        const int64_t coef = by * x->term[i].coef;
        if (a->kind == ATOM_AXIS) f->stride[a->id] += coef;
        else if ((a->kind != ATOM_DIV && a->kind != ATOM_MOD) || !meet(f, a, coef)) return false;
    }
    return true;
}

bool kernel_access_strides(const Kernel *k, const Inst *access, int64_t stride[MAX_AXES], int64_t *constant) {
    const Buffer *b = &k->buffers.at[access->buffer];
    Flat f = {0};
    for (int d = 0; d < access->n_index; d++)
        if (!add_index(&f, access->index[d], b->stride[d])) return false;
    memcpy(stride, f.stride, sizeof f.stride);
    *constant = f.constant;
    return f.n_divided == 0;
}

/* ---- where a value comes from, and where it goes --------------------------------------------------------------- */
static const Inst *definition(const Block *b, int value) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n], *inside;
        if (i->result == value) return i;
        if ((inside = definition(&i->body, value))) return inside;
    }
    return NULL;
}

const Inst *copied_load(const Kernel *k, int value) {
    const Inst *i = definition(&k->body, value);
    const bool rounds = i && i->kind == TI_ELEMENT && i->op == OP_CAST && i->type.dtype == DT_TF32 &&
                        k->types.at[i->in[0]].dtype == DT_F32;
    return rounds ? definition(&k->body, i->in[0]) : i;
}

int kernel_cluster_axis(const Kernel *k) {
    for (int x = 0; x < k->axes.n; x++)
        if (k->axes.at[x].cluster > 1) return x;
    return -1;
}

/* ---- the map ------------------------------------------------------------------------------------------------------ */
/* `tile`: the type of the elements in shared memory. */
static const char *map_type(DType memory, DType tile, fusec_map_type *type) {
    *type = tile == DT_F16 ? FUSEC_MAP_F16 : tile == DT_BF16 ? FUSEC_MAP_BF16 : tile == DT_TF32 ? FUSEC_MAP_TF32 : FUSEC_MAP_F32;
    if (tile != DT_F16 && tile != DT_BF16 && tile != DT_TF32 && tile != DT_F32) return "its elements are not f16, bf16, tf32 or f32";
    return memory == tile || (memory == DT_F32 && tile == DT_TF32) ? NULL : "its elements change their type";
}

static const char *add_dimension(const Kernel *k, TensorMap *m, int axis, int64_t stride, int bytes) {
    if (m->rank == FUSEC_MAP_RANK) return "it has more than five axes";
    if (m->rank && (stride <= 0 || stride * bytes % MAP_ALIGN)) return "rows do not lie at multiples of 16 bytes";
    if (!m->rank && stride != 1) return "its minor axis is not contiguous";
    m->axis[m->rank] = axis;
    m->stride[m->rank] = stride * bytes;
    m->box[m->rank++] = k->axes.at[axis].step;
    return NULL;
}

/* Dimensions: the minor axis, then axes of several lanes, then those of one. */
static const char *dimensions(const Kernel *k, const TileType *t, int minor, const int64_t *stride, int bytes, TensorMap *m) {
    const char *why = add_dimension(k, m, minor, stride[minor], bytes);
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < t->n_axes && !why; d++) {
            const int x = t->axis[d];
            if (x != minor && (k->axes.at[x].step == 1) == (pass == 1)) why = add_dimension(k, m, x, stride[x], bytes);
        }
    return why;
}

/* A copy moves rows of one panel: as many bytes as the swizzle exchanges within. */
static const char *boxes(const Kernel *k, const Inst *i, int bytes, TensorMap *m) {
    const int cluster = kernel_cluster_axis(k);
    m->panels = 1;
    if (m->swizzle && m->box[0] * bytes > m->swizzle) {
        if (m->box[0] * bytes % m->swizzle) return "its rows are no whole panels of the swizzle";
        m->panels = m->box[0] * bytes / m->swizzle;
        m->box[0] = m->swizzle / bytes;
    }
    if (m->box[0] * bytes % MAP_ALIGN) return "its rows are no multiple of 16 bytes";
    m->split = i->kind == TI_STAGE && i->multicast && cluster >= 0 ? k->axes.at[cluster].cluster : 1;
    if (m->split > 1 && (m->rank < 2 || m->box[1] % (8 * m->split))) return "its rows cannot be shared out among the cluster";
    if (m->split > 1) m->box[1] /= m->split;
    for (int d = 0; d < m->rank; d++)
        if (m->box[d] > MAP_MAX_BOX) return "a row or column has more than 256 elements";
    return NULL;
}

static const char *check_access(const Kernel *k, const Inst *access, const TileType *tile, const int64_t *stride) {
    const bool masked = access->kind == TI_LOAD ? access->n_in > 0 : access->n_in > 1;
    if (masked || access->value != 0) return "it is masked";
    for (int x = 0; x < k->axes.n; x++) {
        bool in_tile = false;
        for (int d = 0; d < tile->n_axes; d++) in_tile |= tile->axis[d] == x;
        if ((stride[x] != 0) != in_tile) return "its axes are not those of the memory";
    }
    return NULL;
}

const char *kernel_tensor_map(const Kernel *k, const Inst *i, TensorMap *out) {
    const Inst *access = i->kind == TI_STORE ? i : copied_load(k, i->in[0]);
    const Inst *stage = i->kind == TI_STORE ? definition(&k->body, i->in[0]) : i;
    if (!stage || stage->kind != TI_STAGE || stage->minor == NO_AXIS) return "no stage says how it lies in shared memory";
    if (!access || (access->kind != TI_LOAD && access->kind != TI_STORE)) return "it is computed, not loaded";
    const Buffer *b = &k->buffers.at[access->buffer];
    const int bytes = dtype_bytes(b->dtype);
    int64_t stride[MAX_AXES], constant;
    if (!kernel_access_strides(k, access, stride, &constant)) return "its subscripts are not affine";
    *out = (TensorMap){.buffer = access->buffer, .offset = constant * bytes, .swizzle = stage->swizzle};
    const char *why = check_access(k, access, &stage->type, stride);
    if (!why) why = map_type(b->dtype, stage->type.dtype, &out->type);
    if (!why) why = dimensions(k, &stage->type, stage->minor - 1, stride, bytes, out);
    if (!why) why = boxes(k, i, bytes, out);
    if (!why && (constant < 0 || out->offset % MAP_ALIGN)) why = "it does not begin at a multiple of 16 bytes";
    return why;
}

static void copies(const Block *b, const Inst **out, int room, int *n) {
    for (int at = 0; at < b->n; at++) {
        const Inst *i = b->at[at];
        if (i->by == BY_TMA && (*n)++ < room) out[*n - 1] = i;
        copies(&i->body, out, room, n);
    }
}

int kernel_tensor_copies(const Kernel *k, const Inst **out, int room) {
    int n = 0;
    copies(&k->body, out, room, &n);
    return n;
}
