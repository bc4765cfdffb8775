/* Bulk copies and reductions, st.async and red.async: the async proxy without tensor maps.
 * Source: PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk", "cp.async.bulk.prefetch", "st.async", "red.async". */
#include "tools/ptxsim/exec/bulk.h"
#include "tools/ptxsim/exec/numeric.h"
#include "tools/ptxsim/ptx/parse.h"
#include <math.h>
#include <stdlib.h>

/* ---- reductions ------------------------------------------------------------------------------------------- */
static double flushed(PtxType t, uint64_t bits) {
    const double v = float_decode(t, bits);
    return t == T_F32 && fabs(v) < 0x1p-126 ? copysign(0, v)
                                            : v; /* .f32 flushes subnormals, .f16 and .bf16 keep them */
}

static uint64_t add_floats(PtxType t, uint64_t old, uint64_t value) {
    const double x = flushed(t, old), y = flushed(t, value);
    const uint64_t sum = float_encode(t, t == T_F64 ? x + y : add_to_odd(x, y), ROUND_RN);
    return t == T_F32 && !(sum & 0x7f800000) ? sum & 0x80000000 : sum;
}

static bool below(PtxType t, uint64_t a, uint64_t b) {
    switch (t) {
    case T_S32: return (int32_t)a < (int32_t)b;
    case T_S64: return (int64_t)a < (int64_t)b;
    case T_F16:
    case T_BF16: return float_decode(t, a) < float_decode(t, b);
    default: return a < b;
    }
}

/* Of two floating-point values the one that is no NaN. */
static uint64_t extreme(PtxType t, uint64_t old, uint64_t value, bool larger) {
    if (type_is_float(t) && isnan(float_decode(t, old))) return value;
    return (larger ? below(t, old, value) : below(t, value, old)) ? value : old;
}

uint64_t reduce_element(int op, PtxType t, uint64_t old, uint64_t value) {
    switch (op) {
    case ATOMIC_ADD: return type_is_float(t) ? add_floats(t, old, value) : old + value;
    case ATOMIC_MIN: return extreme(t, old, value, false);
    case ATOMIC_MAX: return extreme(t, old, value, true);
    case ATOMIC_INC: return old >= value ? 0 : old + 1;
    case ATOMIC_DEC: return old == 0 || old > value ? value : old - 1;
    case ATOMIC_AND: return old & value;
    case ATOMIC_OR: return old | value;
    default: return old ^ value; /* ATOMIC_XOR */
    }
}

void reduce_bytes(int op, PtxType t, uint8_t *to, const uint8_t *from, size_t bytes) {
    const size_t size = (size_t)type_bytes(t);
    for (size_t k = 0; k + size <= bytes; k += size) {
        uint64_t old = 0, value = 0;
        memcpy(&old, to + k, size);
        memcpy(&value, from + k, size);
        old = reduce_element(op, t, old, value);
        memcpy(to + k, &old, size);
    }
}

/* ---- targets ---------------------------------------------------------------------------------------------- */
static uint64_t in_block(const Block *b, uint64_t address) {
    return (uint64_t)(b->rank + 1) << SHARED_RANK_SHIFT | (address & ((UINT64_C(1) << SHARED_RANK_SHIFT) - 1));
}

static bool target_find(Warp *w, int lane, const CopyForm *f, uint64_t to, uint64_t mbarrier, uint32_t bytes,
                        uint32_t align, Target *t) {
    if (!range_find(w, lane, f->to.space, to, bytes, align, true, &t->range)) return false;
    if (t->range.space != SPACE_SHARED) {
        warp_report(w, REPORT_ASYNC, lane, to, (int)bytes, "the destination is no shared memory");
        return false;
    }
    t->mbarrier = mbarrier_at(w, lane, f->mbarrier.space, mbarrier, true);
    if (!t->mbarrier) return false;
    t->block = t->mbarrier->block;
    t->offset = t->mbarrier->offset;
    if (t->block != t->range.block) {
        warp_report(w, REPORT_ASYNC, lane, to, (int)bytes,
                    "the destination and its mbarrier object are in different blocks");
        return false;
    }
    mbarrier_check_use(w, lane, t->mbarrier, !f->values); /* st.async and red.async are of the generic proxy */
    return true;
}

/* Generic or 32-bit, an address of shared memory without its window. */
static uint64_t bare(const Pointer *p, uint64_t address) {
    return p->space == SPACE_GENERIC && address - SHARED_WINDOW < WINDOW_BYTES ? address - SHARED_WINDOW : address;
}

bool targets_find(Warp *w, int lane, const CopyForm *f, uint32_t bytes, uint32_t align, Targets *out) {
    const uint64_t to = pointer_at(w, &f->to, lane), mbarrier = pointer_at(w, &f->mbarrier, lane);
    out->count = 0;
    if (!f->block_mask.base) {
        if (!target_find(w, lane, f, to, mbarrier, bytes, align, &out->item[0])) return false;
        out->count = 1;
        return true;
    }
    const uint32_t blocks = (uint32_t)lane_bits(w, &f->block_mask, lane) & 0xffff;
    if (!blocks || blocks >> w->cluster->blocks) {
        warp_report(w, REPORT_CLUSTER, lane, to, (int)bytes,
                    "the mask of a multicast names no block, or one beyond the cluster");
        return false;
    }
    CopyForm each = *f; /* the same offsets in every block */
    each.to.space = each.mbarrier.space = SPACE_CLUSTER;
    for (int r = 0; r < w->cluster->blocks; r++) {
        const Block *b = &w->cluster->block[r];
        if (!(blocks >> r & 1)) continue;
        if (!target_find(w, lane, &each, in_block(b, bare(&f->to, to)), in_block(b, bare(&f->mbarrier, mbarrier)),
                         bytes, align, &out->item[out->count++]))
            return false;
    }
    return true;
}

void targets_mark(Warp *w, AsyncOp *op, const Targets *t, bool reduces) {
    for (int k = 0; k < t->count; k++) {
        range_write(w, op->lane, op, &t->item[k].range);
        if (!reduces) range_poison(&t->item[k].range);
    }
}

void targets_complete(AsyncOp *op, const Targets *t, uint64_t bytes) {
    for (int k = 0; k < t->count; k++) {
        Mbarrier *m = mbarrier_find(t->item[k].block, t->item[k].offset);
        if (m) {
            mbarrier_complete_tx(op, m, bytes);
            continue;
        }
        const Inst *at = op->warp->at;
        op->warp->at = op->inst;
        warp_report(op->warp, REPORT_MBARRIER, op->lane, t->item[k].offset, MBARRIER_BYTES,
                    "the object was made invalid before this copy signals it");
        op->warp->at = at;
    }
}

AsyncOp *bulk_new(Warp *w, int lane, bool store) {
    AsyncOp *op = async_new(w, lane);
    if (!op) return NULL;
    op->async_proxy = true;
    op->signals = !store;
    if (!store) return op;
    op->reader = async_new(w, lane);
    if (!op->reader) {
        async_release(op);
        return NULL;
    }
    op->reader->async_proxy = true;
    return op;
}

/* ---- bulk copies ------------------------------------------------------------------------------------------ */
typedef struct BulkCopy {
    Targets targets;  /* to shared memory */
    Range to, from;   /* to global memory: `to` */
    uint32_t bytes;
    uint16_t byte_mask;
    uint8_t reduce;
    PtxType type;
    uint8_t *staged;  /* the source, once read */
} BulkCopy;

static void bulk_read(AsyncOp *op) {
    const BulkCopy *c = op->data;
    memcpy(c->staged, c->from.data, c->bytes);
}

static void put(const BulkCopy *c, uint8_t *to) {
    if (c->reduce) {
        reduce_bytes(c->reduce, c->type, to, c->staged, c->bytes);
        return;
    }
    for (uint32_t k = 0; k < c->bytes; k++)
        if (c->byte_mask >> (k & 15) & 1) to[k] = c->staged[k];
}

static void bulk_land(AsyncOp *op) {
    const BulkCopy *c = op->data;
    for (int k = 0; k < c->targets.count; k++) put(c, c->targets.item[k].range.data);
    if (!c->targets.count) put(c, c->to.data);
}

static void bulk_complete(AsyncOp *op) {
    const BulkCopy *c = op->data;
    targets_complete(op, &c->targets, c->bytes);
}

static void bulk_drop(AsyncOp *op) {
    BulkCopy *c = op->data;
    free(c->staged);
    free(c);
}

static bool bulk_size(Warp *w, int lane, const CopyForm *f, uint32_t *bytes) {
    *bytes = (uint32_t)lane_bits(w, &f->size, lane);
    if (*bytes % 16 == 0 && *bytes) return true;
    warp_report(w, REPORT_ASYNC, lane, 0, 0,
                *bytes ? "the size of a bulk copy is a multiple of 16 bytes" : "a bulk copy of no bytes");
    return false;
}

/* Where a lane's copy comes from and goes to; false with a finding. */
static bool bulk_find(Warp *w, int lane, const CopyForm *f, BulkCopy *c) {
    if (!bulk_size(w, lane, f, &c->bytes)) return false;
    if (!range_find(w, lane, f->from.space, pointer_at(w, &f->from, lane), c->bytes, 16, false, &c->from)) return false;
    if (f->store) return range_find(w, lane, SPACE_GLOBAL, pointer_at(w, &f->to, lane), c->bytes, 16, true, &c->to);
    if (!targets_find(w, lane, f, c->bytes, 16, &c->targets)) return false;
    if (f->from.space != SPACE_SHARED || c->targets.item[0].range.block != w->block) return true;
    warp_report(w, REPORT_ASYNC, lane, c->from.address, (int)c->bytes,
                "a copy between shared memories goes to another block");
    return false;
}

static void bulk_issue(Warp *w, int lane, const CopyForm *f, BulkCopy *c) {
    AsyncOp *op = bulk_new(w, lane, f->store);
    c->staged = malloc(c->bytes);
    if (!op || !c->staged) {
        cluster_no_memory(w->cluster);
        async_release(op);
        free(c->staged);
        free(c);
        return;
    }
    c->byte_mask = f->byte_mask.base ? (uint16_t)lane_bits(w, &f->byte_mask, lane) : UINT16_MAX;
    c->reduce = f->reduce;
    c->type = f->type;
    op->data = c;
    op->read = bulk_read;
    op->land = bulk_land;
    op->complete = f->store ? NULL : bulk_complete;
    op->drop = bulk_drop;
    op->reduces = f->reduce != 0;
    range_read(w, lane, op->reader ? op->reader : op, &c->from);
    if (f->store) range_store(w, lane, op, &c->to, f->reduce ? NULL : c->from.data);
    else targets_mark(w, op, &c->targets, f->reduce != 0);
    if (f->store && !f->reduce && c->byte_mask == UINT16_MAX) range_poison(&c->to);
    count_copy(w, f->store ? &c->to : &c->from, f->store);
    if (f->store) group_add(op, GROUP_BULK);
    async_issue(op);
}

void exec_bulk_copy(Warp *w, const Inst *i, uint32_t mask) {
    const CopyForm *f = i->more;
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        BulkCopy *c = calloc(1, sizeof *c);
        if (!c) {
            cluster_no_memory(w->cluster);
            return;
        }
        if (bulk_find(w, l, f, c)) bulk_issue(w, l, f, c);
        else free(c);
    }
}

void exec_bulk_prefetch(Warp *w, const Inst *i, uint32_t mask) {
    const CopyForm *f = i->more;
    for (int l = 0; l < WARP; l++) {
        uint32_t bytes;
        Range r;
        if (!(mask >> l & 1) || !bulk_size(w, l, f, &bytes)) continue;
        range_find(w, l, SPACE_GLOBAL, pointer_at(w, &f->from, l), bytes, 16, false, &r);
    }
}

/* ---- st.async, red.async ---------------------------------------------------------------------------------- */
typedef struct StoreAsync {
    Targets targets;
    uint32_t bytes;
    uint8_t reduce;
    PtxType type;
    uint8_t value[16];
} StoreAsync;

static void store_land(AsyncOp *op) {
    const StoreAsync *s = op->data;
    uint8_t *to = s->targets.item[0].range.data;
    if (s->reduce) reduce_bytes(s->reduce, s->type, to, s->value, s->bytes);
    else memcpy(to, s->value, s->bytes);
}

static void store_complete(AsyncOp *op) {
    const StoreAsync *s = op->data;
    targets_complete(op, &s->targets, s->bytes);
}

static void store_drop(AsyncOp *op) { free(op->data); }

static void store_lane(Warp *w, int lane, const CopyForm *f) {
    StoreAsync *s = calloc(1, sizeof *s);
    if (!s) {
        cluster_no_memory(w->cluster);
        return;
    }
    const uint32_t size = (uint32_t)type_bytes(f->type);
    s->bytes = size * (uint32_t)f->values;
    s->reduce = f->reduce;
    s->type = f->type;
    for (int k = 0; k < f->values; k++) {
        const uint64_t v = lane_bits(w, &f->value[k], lane);
        memcpy(s->value + (uint32_t)k * size, &v, size);
    }
    AsyncOp *op = targets_find(w, lane, f, s->bytes, s->bytes, &s->targets) ? bulk_new(w, lane, false) : NULL;
    if (!op) {
        free(s);
        return;
    }
    op->async_proxy = false; /* a weak store of the generic proxy, but for its time */
    op->data = s;
    op->reduces = f->reduce != 0;
    op->land = store_land;
    op->complete = store_complete;
    op->drop = store_drop;
    targets_mark(w, op, &s->targets, f->reduce != 0);
    async_issue(op);
}

void exec_store_async(Warp *w, const Inst *i, uint32_t mask) {
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1) store_lane(w, l, i->more);
}
