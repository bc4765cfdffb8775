/* cp.async: copies of 4, 8 or 16 bytes a thread from global to shared memory, in the generic proxy; async-groups; proxy
 * fences.  Source: PTX ISA, "cp.async", "cp.async.commit_group", "cp.async.wait_group", "cp.async.mbarrier.arrive",
 * "membar / fence". */
#include "tools/ptxsim/exec/mbarrier.h"
#include <stdlib.h>

/* What one warp's cp.async moves: of each lane `bytes`, the rest up to `size` is filled with zeros. */
typedef struct LaneCopies {
    uint32_t lanes, size;
    uint8_t *to[WARP];
    const uint8_t *from[WARP];
    uint8_t bytes[WARP];
    uint64_t source[WARP], target[WARP]; /* addresses, for figures; the target's in shared memory */
} LaneCopies;

static void land_lanes(AsyncOp *op) {
    const LaneCopies *d = op->data;
    for (int l = 0; l < WARP; l++) {
        if (!(d->lanes >> l & 1)) continue;
        if (d->bytes[l]) memcpy(d->to[l], d->from[l], d->bytes[l]);
        memset(d->to[l] + d->bytes[l], 0, d->size - d->bytes[l]);
    }
}

static void drop_data(AsyncOp *op) { free(op->data); }

/* Source bytes of a lane; UINT32_MAX with a finding when they exceed the copy's size. */
static uint32_t source_bytes(Warp *w, const CopyForm *f, int lane) {
    if (f->ignore.base && lane_bits(w, &f->ignore, lane)) return 0;
    if (!f->size.base) return f->bytes;
    const uint32_t n = (uint32_t)lane_bits(w, &f->size, lane);
    if (n <= f->bytes) return n;
    warp_report(w, REPORT_ASYNC, lane, 0, 0, "the source size exceeds the size of the copy");
    return UINT32_MAX;
}

static void copy_lane(Warp *w, AsyncOp *op, const CopyForm *f, int lane) {
    LaneCopies *d = op->data;
    Range to, from = {0};
    const uint32_t n = source_bytes(w, f, lane);
    if (n == UINT32_MAX) return;
    if (!range_find(w, lane, SPACE_SHARED, pointer_at(w, &f->to, lane), f->bytes, f->bytes, true, &to)) return;
    if (n && !range_find(w, lane, SPACE_GLOBAL, pointer_at(w, &f->from, lane), n, f->bytes, false, &from)) return;
    if (n) range_read(w, lane, op, &from);
    range_write(w, lane, op, &to);
    range_poison(&to);
    d->lanes |= UINT32_C(1) << lane;
    d->to[lane] = to.data;
    d->from[lane] = from.data;
    d->bytes[lane] = (uint8_t)n;
    d->source[lane] = from.address;
    d->target[lane] = to.offset;
}

/* A warp's copies share sectors and passes as its loads and stores would. */
static void count_lanes(Warp *w, const LaneCopies *d) {
    uint32_t whole = 0;
    if (!w->block->launch->stats) return;
    for (int l = 0; l < WARP; l++) {
        if (!(d->lanes >> l & 1)) continue;
        if (d->bytes[l] == d->size) whole |= UINT32_C(1) << l;
        else count_range(w, false, d->source[l], d->bytes[l]);
    }
    w->count.async_bytes += (uint64_t)__builtin_popcount(whole) * d->size;
    count_access(w, false, d->source, (int)d->size, whole, 0);
    count_access(w, true, d->target, (int)d->size, 0, d->lanes);
}

void exec_cp_async(Warp *w, const Inst *i, uint32_t mask) {
    const CopyForm *f = i->more;
    LaneCopies *d = calloc(1, sizeof *d);
    AsyncOp *op = d ? async_new(w, __builtin_ctz(mask)) : NULL;
    if (!op) {
        cluster_no_memory(w->cluster);
        free(d);
        return;
    }
    d->size = f->bytes;
    op->data = d;
    op->lanes = mask;
    op->land = land_lanes;
    op->drop = drop_data;
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1) copy_lane(w, op, f, l);
    count_lanes(w, d);
    group_add(op, GROUP_COPY);
    async_issue(op);
}

/* ---- groups --------------------------------------------------------------------------------------------- */
/* Inst: op is the GroupKind. */
void exec_commit_group(Warp *w, const Inst *i, uint32_t mask) { group_commit(w, (GroupKind)i->op, mask); }

/* Inst: op is the GroupKind, offset the groups that may stay pending, -1 for wait_all; op2: .read. */
void exec_wait_group(Warp *w, const Inst *i, uint32_t mask) {
    const GroupKind k = (GroupKind)i->op;
    if (i->offset < 0) group_commit(w, k, mask);
    group_wait(w, k, mask, i->offset < 0 ? 0 : (uint32_t)i->offset, i->op2);
}

/* ---- cp.async.mbarrier.arrive ----------------------------------------------------------------------------- */
/* The system's arrival once the cp.async operations before it are complete: it waits for all of them in order. */
typedef struct Arrival {
    AsyncOp **op;
    int count, capacity;
    Block *block;
    uint32_t offset, arrivals;
    bool failed;
} Arrival;

static void collect(AsyncOp *op, void *data) {
    Arrival *a = data;
    op->signals = true;
    if (a->count == a->capacity) {
        const int capacity = a->capacity ? 2 * a->capacity : 8;
        AsyncOp **grown = realloc(a->op, sizeof *grown * (size_t)capacity);
        if (!grown) {
            a->failed = true;
            return;
        }
        a->op = grown;
        a->capacity = capacity;
    }
    async_hold(op);
    a->op[a->count++] = op;
}

static void land_arrival(AsyncOp *op) {
    const Arrival *a = op->data;
    for (int k = 0; k < a->count; k++) async_land(a->op[k]);
}

static void complete_arrival(AsyncOp *op) {
    const Arrival *a = op->data;
    Mbarrier *m = mbarrier_find(a->block, a->offset);
    if (!m) {
        op->warp->at = op->inst;
        warp_report(op->warp, REPORT_MBARRIER, op->lane, a->offset, MBARRIER_BYTES,
                    "the object is gone when the copies before this arrival are complete");
        return;
    }
    for (int k = 0; k < a->count; k++)
        if (!clock_note(op->warp->cluster, &m->arriving, a->op[k]->agent, a->op[k]->time))
            cluster_no_memory(op->warp->cluster);
    mbarrier_system_arrive(op, m, a->arrivals);
}

static void drop_arrival(AsyncOp *op) {
    Arrival *a = op->data;
    for (int k = 0; k < a->count; k++) async_release(a->op[k]);
    free(a->op);
    free(a);
}

/* One arrival per object that the lanes name. */
static void arrive_for(Warp *w, const Inst *i, Mbarrier *m, uint32_t lanes) {
    const int lane = __builtin_ctz(lanes);
    Arrival *a = calloc(1, sizeof *a);
    AsyncOp *op = a ? async_new(w, lane) : NULL;
    if (!op) {
        cluster_no_memory(w->cluster);
        free(a);
        return;
    }
    *a = (Arrival){.block = m->block, .offset = m->offset, .arrivals = (uint32_t)__builtin_popcount(lanes)};
    group_each(w, GROUP_COPY, lanes, collect, a);
    if (a->failed) cluster_no_memory(w->cluster);
    if (!i->op2) mbarrier_raise(w, lane, m, a->arrivals); /* without .noinc */
    op->data = a;
    op->lanes = lanes;
    op->signals = true;
    op->land = land_arrival;
    op->complete = complete_arrival;
    op->drop = drop_arrival;
    async_issue(op);
}

void exec_cp_async_arrive(Warp *w, const Inst *i, uint32_t mask) {
    const MbarrierForm *f = i->more;
    while (mask) {
        uint32_t same = 0;
        const int first = __builtin_ctz(mask);
        const uint64_t address = pointer_at(w, &f->at, first);
        for (int l = first; l < WARP; l++)
            if ((mask >> l & 1) && pointer_at(w, &f->at, l) == address) same |= UINT32_C(1) << l;
        Mbarrier *m = mbarrier_at(w, first, f->at.space, address, false);
        if (m) arrive_for(w, i, m, same);
        mask &= ~same;
    }
}

/* ---- proxy fences ------------------------------------------------------------------------------------------ */
/* Inst: op is a ProxyFence. */
void exec_proxy_fence(Warp *w, const Inst *i, uint32_t mask) {
    (void)mask;
    if (i->op == FENCE_ASYNC) clock_proxy_fence(w, i->op2);
    if ((i->op == FENCE_ASYNC && i->op2 >> PROXY_SHARED & 1) || i->op == FENCE_MBARRIER_INIT) mbarriers_fence(w);
}
