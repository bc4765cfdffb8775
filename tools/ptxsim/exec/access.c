/* Where the bytes of an access lie, and the checks: bounds, alignment, written before, races between barriers. */
#include "tools/ptxsim/exec/access.h"
#include "tools/ptxsim/exec/async.h"
#include <stdio.h>

/* What an address stands for; data is NULL when the access must not happen. */
typedef struct Place {
    uint8_t *data, *written; /* `written` NULL: always defined (parameters) */
    SharedByte *shared;
    Space space;
} Place;

typedef struct Access {
    const Inst *inst;
    uint8_t bytes;  /* of the whole access of a lane */
    bool write, atomic;
    bool ordered;
    Space space;
    uint32_t checks;
} Access;

static bool enabled(const Access *x, ReportKind k) { return x->checks >> k & 1; }

static void bounds_report(Warp *w, const Access *x, int lane, uint64_t address, const char *space, uint64_t size) {
    char note[160];
    snprintf(note, sizeof note, "%s of %s memory of %llu bytes", x->write ? "write" : "read", space,
             (unsigned long long)size);
    warp_report(w, REPORT_BOUNDS, lane, address, x->bytes, note);
}

static void global_bounds_report(Warp *w, const Access *x, int lane, uint64_t address) {
    char note[160];
    const Allocation *a = memory_near(w->block->launch->memory, address);
    if (!a) {
        snprintf(note, sizeof note, "%s of global memory: nothing is allocated", x->write ? "write" : "read");
    } else {
        const bool after = address >= a->address;
        snprintf(note, sizeof note, "%s of global memory, %llu bytes %s allocation 0x%llx of %llu bytes%s%s",
                 x->write ? "write" : "read",
                 (unsigned long long)(after ? address - a->address : a->address - address),
                 after ? "after the start of" : "before", (unsigned long long)a->address, (unsigned long long)a->bytes,
                 a->name ? " " : "", a->name ? a->name : "");
    }
    warp_report(w, REPORT_BOUNDS, lane, address, x->bytes, note);
}

static Place place_global(Warp *w, const Access *x, int lane, uint64_t address) {
    const Allocation *a = w->recent;
    if (!a || address - a->address >= a->bytes) a = memory_find(w->block->launch->memory, address);
    if (!a || a->bytes - (address - a->address) < (uint64_t)x->bytes) {
        global_bounds_report(w, x, lane, address);
        return (Place){0};
    }
    w->recent = a;
    if (x->write && a->constant) {
        warp_report(w, REPORT_CONSTANT, lane, address, x->bytes, "write to constant memory");
        return (Place){0};
    }
    const uint64_t at = address - a->address;
    return (Place){.data = a->data + at, .written = a->written + at, .space = SPACE_GLOBAL};
}

static Place place_shared(Warp *w, const Access *x, int lane, uint64_t offset) {
    Block *b = w->block;
    if (offset >= b->shared_bytes || b->shared_bytes - offset < (uint64_t)x->bytes) {
        bounds_report(w, x, lane, offset, "shared", b->shared_bytes);
        return (Place){0};
    }
    return (Place){.data = b->shared + offset, .shared = b->shared_state + offset, .space = SPACE_SHARED};
}

static Place place_local(Warp *w, const Access *x, int lane, uint64_t offset) {
    if (offset >= w->local_stride || w->local_stride - offset < (uint64_t)x->bytes) {
        bounds_report(w, x, lane, offset, "local", w->local_stride);
        return (Place){0};
    }
    const size_t at = (size_t)lane * w->local_stride + offset;
    return (Place){.data = w->local + at, .written = w->local_written + at, .space = SPACE_LOCAL};
}

static Place place_param(Warp *w, const Access *x, int lane, uint64_t offset) {
    const Launch *launch = w->block->launch;
    if (x->write || offset >= launch->fn->param_bytes || launch->fn->param_bytes - offset < (uint64_t)x->bytes) {
        bounds_report(w, x, lane, offset, "parameter", launch->fn->param_bytes);
        return (Place){0};
    }
    union { const uint8_t *in; uint8_t *out; } p = {launch->params + offset}; /* reads only: checked above */
    return (Place){.data = p.out, .space = SPACE_PARAM};
}

static Place place_of(Warp *w, const Access *x, int lane, uint64_t address) {
    switch (x->space) {
    case SPACE_GLOBAL:
    case SPACE_CONST: return place_global(w, x, lane, address);
    case SPACE_SHARED: return place_shared(w, x, lane, address);
    case SPACE_LOCAL: return place_local(w, x, lane, address);
    case SPACE_PARAM: return place_param(w, x, lane, address >= PARAM_WINDOW ? address - PARAM_WINDOW : address);
    default: break;
    }
    if (address - SHARED_WINDOW < WINDOW_BYTES) return place_shared(w, x, lane, address - SHARED_WINDOW);
    if (address - LOCAL_WINDOW < WINDOW_BYTES) return place_local(w, x, lane, address - LOCAL_WINDOW);
    if (address - PARAM_WINDOW < WINDOW_BYTES) return place_param(w, x, lane, address - PARAM_WINDOW);
    return place_global(w, x, lane, address);
}

/* ---- shadow state ------------------------------------------------------------------------------------- */
static uint32_t thread_of(const Warp *w, int lane) { return (uint32_t)(w->index * WARP + lane); }

/* Another warp's thread that touched the byte since the last barrier; lanes of one warp run in step here. */
static bool other_warp(const Warp *w, uint16_t thread) {
    return thread == MANY_READERS || (thread && (uint32_t)(thread - 1) / WARP != (uint32_t)w->index);
}

static bool shared_race(Warp *w, const Access *x, int lane, SharedByte *s) {
    const uint32_t epoch = w->block->epoch;
    const uint16_t me = (uint16_t)(thread_of(w, lane) + 1);
    bool race = false;
    if (s->epoch != epoch) *s = (SharedByte){.epoch = epoch, .written = s->written};
    if (x->atomic) return other_warp(w, s->reader) || other_warp(w, s->writer);
    if (x->write) {
        race = other_warp(w, s->writer) || other_warp(w, s->reader);
        s->writer = me;
    } else {
        race = other_warp(w, s->writer);
        if (!s->reader) s->reader = me;
        else if (other_warp(w, s->reader)) s->reader = MANY_READERS;
    }
    return race;
}

/* A read that finds nothing and changes nothing, as nearly all do: every byte in the same settled state. */
static bool settled_read(const Warp *w, const Access *x, const SharedByte *s) {
    if (x->write || s->epoch != w->block->epoch || !s->written || other_warp(w, s->writer)) return false;
    if (!s->reader || (s->reader != MANY_READERS && other_warp(w, s->reader))) return false;
    return x->bytes == 1 || memcmp(s, s + 1, (x->bytes - 1u) * sizeof *s) == 0;
}

static void check_shared(Warp *w, const Access *x, int lane, uint64_t address, SharedByte *s) {
    bool race = false, defined = true;
    if (settled_read(w, x, s)) return;
    for (int k = 0; k < x->bytes; k++) {
        if (!x->ordered || x->atomic) race |= shared_race(w, x, lane, &s[k]);
        defined &= s[k].written;
        if (x->write) s[k].written = true;
    }
    if (race && enabled(x, REPORT_RACE))
        warp_report(w, REPORT_RACE, lane, address, x->bytes,
                    x->write ? "write of shared memory that another warp uses without a barrier between"
                             : "read of shared memory that another warp wrote without a barrier between");
    if (!defined && (!x->write || x->atomic) && enabled(x, REPORT_UNINITIALISED))
        warp_report(w, REPORT_UNINITIALISED, lane, address, x->bytes, "read of shared memory never written");
}

static void check_written(Warp *w, const Access *x, int lane, uint64_t address, const Place *p) {
    uint8_t all = 1;
    if (!x->write || x->atomic) {
        static const uint8_t ONES[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        all = x->bytes == 4 ? memcmp(p->written, ONES, 4) == 0 : memcmp(p->written, ONES, x->bytes) == 0;
    }
    if (x->write) memset(p->written, 1, (size_t)x->bytes);
    if (!all && enabled(x, REPORT_UNINITIALISED))
        warp_report(w, REPORT_UNINITIALISED, lane, address, x->bytes,
                    p->space == SPACE_LOCAL ? "read of local memory never written" : "read of global memory never written");
}

/* The place of a lane's access after all checks. */
static Place checked_place(Warp *w, const Access *x, int lane, uint64_t address) {
    if (address & (x->bytes - 1u)) { /* sizes are powers of two */
        char note[64];
        snprintf(note, sizeof note, "an access of %d bytes needs that alignment", x->bytes);
        warp_report(w, REPORT_MISALIGNED, lane, address, x->bytes, note);
        return (Place){0};
    }
    const Place p = place_of(w, x, lane, address);
    if (p.shared) check_shared(w, x, lane, address, p.shared);
    else if (p.written) check_written(w, x, lane, address, &p);
    return p;
}

/* ---- counters ----------------------------------------------------------------------------------------- */
/* Distinct 32-byte sectors of a warp's access. */
static int count_sectors(const uint64_t *address, uint32_t lanes, int bytes) {
    uint64_t seen[2 * WARP];
    int n = 0;
    for (int l = 0; l < WARP; l++) {
        if (!(lanes >> l & 1)) continue;
        const uint64_t sector = address[l] / 32; /* aligned accesses of at most 16 bytes stay in one */
        int k = n;
        while (k > 0 && seen[k - 1] != sector) k--;
        if (k == 0) seen[n++] = sector;
    }
    (void)bytes;
    return n;
}

/* Passes beyond the first that 32 banks of 4 bytes need: distinct words per bank; wide accesses go by half or quarter
 * warps. */
static int count_conflicts(const uint64_t *address, uint32_t lanes, int bytes) {
    const int group = bytes <= 4 ? WARP : bytes == 8 ? 16 : 8;
    int extra = 0;
    for (int first = 0; first < WARP; first += group) {
        uint64_t word[WARP];
        int in_bank[32] = {0}, n = 0, most = 0;
        for (int l = first; l < first + group; l++)
            for (int k = 0; (lanes >> l & 1) && k < (bytes + 3) / 4 && n < WARP; k++) {
                const uint64_t at = address[l] / 4 + (uint64_t)k;
                int j = 0;
                while (j < n && word[j] != at) j++;
                if (j < n) continue;
                word[n++] = at;
                if (++in_bank[at % 32] > most) most = in_bank[at % 32];
            }
        if (most > 1) extra += most - 1;
    }
    return extra;
}

static void count_access(Warp *w, const Access *x, const uint64_t *address, uint32_t global, uint32_t shared) {
    const uint64_t bytes = (uint64_t)__builtin_popcount(global) * (uint64_t)x->bytes;
    if (global) {
        const uint64_t sectors = (uint64_t)count_sectors(address, global, x->bytes);
        *(x->write ? &w->count.store_bytes : &w->count.load_bytes) += bytes;
        *(x->write ? &w->count.store_sectors : &w->count.load_sectors) += sectors;
    }
    if (shared) {
        w->count.shared_accesses++;
        w->count.shared_conflicts += (uint64_t)count_conflicts(address, shared, x->bytes);
    }
}

/* ---- the interface ------------------------------------------------------------------------------------ */
void warp_access(Warp *w, Space space, AccessKind kind, bool ordered, const uint64_t address[WARP], int bytes,
                 uint32_t mask, uint8_t *place[WARP]) {
    const Access x = {.inst = w->at, .bytes = (uint8_t)bytes, .write = kind != ACCESS_READ, .atomic = kind == ACCESS_ATOMIC,
                      .ordered = ordered, .space = space, .checks = w->block->launch->checks};
    uint32_t global = 0, shared = 0;
    for (int l = 0; l < WARP; l++) {
        place[l] = NULL;
        if (!(mask >> l & 1)) continue;
        const Place p = checked_place(w, &x, l, address[l]);
        place[l] = p.data;
        global |= (uint32_t)(p.space == SPACE_GLOBAL) << l;
        shared |= (uint32_t)(p.space == SPACE_SHARED) << l;
    }
    if (w->block->launch->stats) count_access(w, &x, address, global, shared);
}

bool range_find(Warp *w, int lane, Space space, uint64_t address, uint32_t bytes, uint32_t align, bool write, Range *out) {
    const Access x = {.inst = w->at, .bytes = 1, .write = write, .space = space, .checks = w->block->launch->checks};
    if (align > 1 && address % align) {
        char note[64];
        snprintf(note, sizeof note, "an access that needs an alignment of %u bytes", align);
        warp_report(w, REPORT_MISALIGNED, lane, address, (int)bytes, note);
        return false;
    }
    const Place first = place_of(w, &x, lane, address), last = bytes ? place_of(w, &x, lane, address + bytes - 1) : first;
    if (!first.data || !last.data || last.data - first.data != (ptrdiff_t)bytes - 1) return false;
    *out = (Range){.data = first.data, .space = first.space, .block = w->block, .address = address, .bytes = bytes};
    out->offset = first.space == SPACE_SHARED ? (uint64_t)(first.data - w->block->shared) : 0;
    if (first.space == SPACE_GLOBAL) {
        out->allocation = memory_find(w->block->launch->memory, address);
        out->offset = address - out->allocation->address;
    }
    return true;
}

void range_read(Warp *w, int lane, const struct AsyncOp *op, const Range *r) {
    (void)op;
    uint8_t all = 1;
    for (uint32_t k = 0; k < r->bytes; k++)
        all &= r->space == SPACE_SHARED ? r->block->shared_state[r->offset + k].written : r->allocation->written[r->offset + k];
    if (!all) warp_report(w, REPORT_UNINITIALISED, lane, r->address, (int)r->bytes, "read of memory never written");
}

void range_write(Warp *w, int lane, const struct AsyncOp *op, const Range *r) {
    (void)w, (void)lane, (void)op;
    for (uint32_t k = 0; k < r->bytes; k++)
        if (r->space == SPACE_SHARED) r->block->shared_state[r->offset + k].written = 1;
        else r->allocation->written[r->offset + k] = 1;
}

void range_poison(const Range *r) { memset(r->data, 0xff, r->bytes); }
