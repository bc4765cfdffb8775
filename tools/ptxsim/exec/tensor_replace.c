/* Tensor maps that a kernel changes: weak reads and writes of their 128 bytes.  Source: PTX ISA, "tensormap.replace",
 * "tensormap.cp_fenceproxy"; which values a field takes: cuTensorMapEncodeTiled. */
#include "tools/ptxsim/exec/async.h"
#include "tools/ptxsim/exec/race_sync.h"
#include "tools/ptxsim/exec/tensor_fields.h"

/* PTX ISA, "tensormap.replace": values of .elemtype. */
static const TensorType TYPES[] = {TENSOR_UINT8,   TENSOR_UINT16,  TENSOR_UINT32,      TENSOR_INT32,   TENSOR_UINT64,
                                   TENSOR_INT64,   TENSOR_FLOAT16, TENSOR_FLOAT32,     TENSOR_FLOAT32_FTZ,
                                   TENSOR_FLOAT64, TENSOR_BFLOAT16, TENSOR_TFLOAT32, TENSOR_TFLOAT32_FTZ};
enum { MAX_BOX = 256, MAX_ELEMENT_STRIDE = 8, UNIT = 16 };
#define MAX_STRIDE (UINT64_C(1) << 40)

/* NULL, or what is wrong with the value. */
static const char *replace(TensorMap *m, MapField field, int d, uint64_t v) {
    switch (field) {
    case MAP_ADDRESS:
        m->address = v;
        return v % UNIT ? "the address of a tensor is a multiple of 16" : NULL;
    case MAP_RANK: /* one less than the rank */
        m->rank = (uint8_t)(v + 1);
        return v >= TENSOR_MAX_RANK ? "a rank field from 0 to 4 stands for 1 to 5 dimensions" : NULL;
    case MAP_BOX:
        m->box[d] = (uint16_t)v;
        return v < 1 || v > MAX_BOX ? "a box has 1 to 256 elements along a dimension" : NULL;
    case MAP_DIM:
        m->dim[d] = v;
        return v < 1 ? "a dimension has at least one element" : NULL;
    case MAP_STRIDE:
        m->stride[d] = v;
        return v % UNIT || v >= MAX_STRIDE ? "a stride is a multiple of 16 bytes below 2^40" : NULL;
    case MAP_ELEMENT_STRIDE:
        m->element_stride[d] = (uint8_t)v;
        return v < 1 || v > MAX_ELEMENT_STRIDE ? "an element stride is 1 to 8" : NULL;
    case MAP_TYPE: m->type = (uint8_t)TYPES[v]; return NULL;
    case MAP_INTERLEAVE: m->interleave = (uint8_t)v; return NULL;
    case MAP_SWIZZLE: m->swizzle = (uint8_t)v; return NULL;
    default: m->fill = (uint8_t)v; return NULL;
    }
}

/* What 128 zeros become: a map without any field, and 1 where encoded maps have it beyond the rank. */
static bool begin(TensorMap *m) {
    static const TensorMap ZEROS;
    if (m->magic == TENSOR_MAP_MAGIC) return true;
    if (memcmp(m, &ZEROS, sizeof ZEROS) != 0) return false;
    *m = (TensorMap){.magic = TENSOR_MAP_MAGIC, .missing = TENSOR_ALL_FIELDS};
    for (int d = 0; d < TENSOR_MAX_RANK; d++) m->dim[d] = m->box[d] = m->element_stride[d] = 1;
    return true;
}

void exec_map_replace(Warp *w, const Inst *i, uint32_t mask) {
    for (; mask; mask &= mask - 1) {
        const int lane = __builtin_ctz(mask);
        const uint64_t at = address_bits(w, &i->a, i->offset, lane);
        Range r;
        TensorMap m;
        if (!range_find(w, lane, (Space)i->space, at, TENSOR_MAP_BYTES, TENSOR_MAP_ALIGN, true, &r)) continue;
        range_read(w, lane, NULL, &r);
        range_write(w, lane, NULL, &r);
        memcpy(&m, r.data, sizeof m);
        const uint64_t value = lane_bits(w, &i->b, lane);
        const char *wrong = !begin(&m) ? "neither a tensor map nor 128 zeros are here"
                                       : replace(&m, (MapField)i->op, i->op2, value);
        m.missing &= ~tensor_field_bit((MapField)i->op, i->op2);
        if (wrong) warp_report(w, REPORT_ASYNC, lane, at, 0, wrong);
        else memcpy(r.data, &m, sizeof m);
    }
}

/* One copy by the whole warp, and a release. */
void exec_map_copy(Warp *w, const Inst *i, uint32_t mask) {
    const MapCopyForm *f = i->more;
    const int lane = __builtin_ctz(mask);
    Range to, from;
    if (mask != w->live) warp_report(w, REPORT_DIVERGENT, lane, 0, 0, "tensormap.cp_fenceproxy in a part of a warp");
    const uint64_t source = pointer_at(w, &f->from, lane), target = pointer_at(w, &f->to, lane);
    if (!range_find(w, lane, f->from.space, source, TENSOR_MAP_BYTES, TENSOR_MAP_BYTES, false, &from)) return;
    if (!range_find(w, lane, f->to.space, target, TENSOR_MAP_BYTES, TENSOR_MAP_BYTES, true, &to)) return;
    range_read(w, lane, NULL, &from);
    range_write(w, lane, NULL, &to);
    memcpy(to.data, from.data, TENSOR_MAP_BYTES);
    sync_fence(w, f->scope);
}
