/* Where the bytes of an access lie, and the checks on the way there: alignment, bounds, written before, races. */
#include "tools/ptxsim/exec/access.h"
#include "tools/ptxsim/exec/async.h"
#include "tools/ptxsim/exec/page.h"
#include <stdio.h>

typedef struct Access {
    Warp *w;
    Actor actor;
    Space space;
    bool own_block;          /* shared memory of the own block only: .shared::cta */
    uint32_t bytes;          /* of a lane */
    uint32_t mask;
    const uint64_t *address; /* by lane; in the space */
    uint64_t window;         /* what to add for reports: generic addresses are reported as they are */
    Places *out;
} Access;

static const char *did(const Access *x) { return x->actor.atomic ? "atomic on" : x->actor.write ? "write of" : "read of"; }

/* ---- findings of addresses -------------------------------------------------------------------------------- */
static void bounds_report(const Access *x, int lane, const char *space, uint64_t size) {
    char note[160];
    snprintf(note, sizeof note, "%s %s memory of %llu bytes", did(x), space, (unsigned long long)size);
    warp_report(x->w, REPORT_BOUNDS, lane, x->address[lane] + x->window, (int)x->bytes, note);
}

static void global_bounds_report(const Access *x, int lane) {
    char note[160];
    const uint64_t address = x->address[lane];
    const Allocation *a = memory_near(x->w->block->launch->memory, address);
    if (!a) {
        snprintf(note, sizeof note, "%s global memory: nothing is allocated", did(x));
    } else {
        const bool after = address >= a->address;
        snprintf(note, sizeof note, "%s global memory, %llu bytes %s allocation 0x%llx of %llu bytes%s%s", did(x),
                 (unsigned long long)(after ? address - a->address : a->address - address),
                 after ? "after the start of" : "before", (unsigned long long)a->address, (unsigned long long)a->bytes,
                 a->name ? " " : "", a->name ? a->name : "");
    }
    warp_report(x->w, REPORT_BOUNDS, lane, address, (int)x->bytes, note);
}

static void misaligned_report(const Access *x, uint32_t mask) {
    char note[64];
    snprintf(note, sizeof note, "an access of %u bytes needs that alignment", x->bytes);
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        warp_report(x->w, REPORT_MISALIGNED, l, x->address[l] + x->window, (int)x->bytes, note);
    }
}

/* ---- words ------------------------------------------------------------------------------------------------ */
/* How the words of a row are marked: by lane for 4, 8 and 16 bytes a lane, by pair for 2, by four for 1. */
#define R4(f, n) f(n), f(n + 1), f(n + 2), f(n + 3)
#define R16(f, n) R4(f, n), R4(f, n + 4), R4(f, n + 8), R4(f, n + 12)
#define LANE1(n) (n)
#define LANE2(n) (n), (n)
#define LANE4(n) (n), (n), (n), (n)
#define PAIR(n) LANE_PAIR + (n)
#define QUAD(n) LANE_QUAD + (n)
static const uint8_t ROW_4[] = {R16(LANE1, 0), R16(LANE1, 16)}, ROW_8[] = {R16(LANE2, 0), R16(LANE2, 16)};
static const uint8_t ROW_16[] = {R16(LANE4, 0), R16(LANE4, 16)}, ROW_2[] = {R16(PAIR, 0)}, ROW_1[] = {R4(QUAD, 0), R4(QUAD, 4)};
static const uint8_t SAME[4] = {LANE_SEVERAL, LANE_SEVERAL, LANE_SEVERAL, LANE_SEVERAL};

static const uint8_t *row_codes(uint32_t bytes, uint32_t lane) {
    switch (bytes) {
    case 1: return ROW_1 + lane / 4;
    case 2: return ROW_2 + lane / 2;
    case 4: return ROW_4 + lane;
    case 8: return ROW_8 + 2 * lane;
    default: return ROW_16 + 4 * lane;
    }
}

static bool row_check(const Actor *a, const Shadow *s, uint32_t k, uint32_t n, const uint8_t *code) {
    if (a->scope) return false;
    return a->write ? shadow_row_write(a, s, k, n, code) : shadow_row_read(a, s, k, n, code);
}

/* Another lane of this instruction wrote the word just now: no race if the values agree, which the store looks at. */
static bool same_store(const Access *x, int lane, const Conflict *f) {
    const Actor *a = &x->actor;
    if (!a->write || a->scope || !f->wrote || f->cluster != a->cluster || (f->with ^ a->stamp) >> 6) return false;
    for (uint32_t others = x->mask & ((UINT32_C(1) << lane) - 1); others; others &= others - 1) {
        const uint64_t there = x->address[__builtin_ctz(others)], here = x->address[lane];
        if (there < here + x->bytes && here < there + x->bytes) return true;
    }
    return false;
}

static void settle_conflict(const Access *x, int lane, Conflict *f) {
    if (f->with && same_store(x, lane, f)) {
        x->out->overlap = true;
        f->with = 0;
    }
    if (f->with || f->unwritten) race_report(&x->actor, x->space, lane, x->address[lane] + x->window, (int)x->bytes, f);
}

/* What the words of an instruction's lanes remember: of whole words, and of low and high halves. */
typedef struct LaneMemos {
    ShadowMemo whole, half[2];
} LaneMemos;

static void lane_check(const Access *x, const Shadow *s, uint64_t offset, int lane, uint32_t code, LaneMemos *memo) {
    const Actor *a = &x->actor;
    const uint32_t k = (uint32_t)(offset / 4), words = (x->bytes + 3) / 4, at = offset % 4;
    Conflict found = {0};
    if (a->scope || x->bytes == 1 || (x->bytes == 2 && a->write)) {
        for (uint32_t j = 0; j < words; j++)
            shadow_touch(a, s, k + j, lane, code, (int)at, x->bytes < 4 ? (int)x->bytes : 4, &found);
    } else if (a->write) {
        shadow_lane_write(a, s, k, words, lane, code, &memo->whole, &found);
    } else if (x->bytes == 2) {
        shadow_lane_read(a, s, k, 1, lane, at ? LANE_HIGH : LANE_LOW, &memo->half[at / 2], &found);
    } else {
        shadow_lane_read(a, s, k, words, lane, code, &memo->whole, &found);
    }
    if (found.with || found.unwritten) settle_conflict(x, lane, &found);
}

/* ---- shared memory ---------------------------------------------------------------------------------------- */
static Block *shared_of(const Access *x, uint64_t address, uint64_t *offset) {
    Block *b = shared_block(x->w, address, offset);
    return x->own_block && b != x->w->block ? NULL : b;
}

static uint8_t *shared_lane(Access *x, int lane, uint32_t code, LaneMemos *memo) {
    uint64_t offset;
    Block *b = shared_of(x, x->address[lane], &offset);
    if (!b || offset >= b->shared_bytes || b->shared_bytes - offset < x->bytes) {
        bounds_report(x, lane, "shared", b ? b->shared_bytes : 0);
        return NULL;
    }
    const Shadow s = block_shadow(b);
    lane_check(x, &s, offset, lane, code, memo);
    return b->shared + offset;
}

/* ---- global memory ---------------------------------------------------------------------------------------- */
static void note_line(const Access *x, Page *p) {
    if (x->actor.write) p->writer = x->w->at;
    else p->reader = x->w->at;
}

static uint8_t *global_lane(Access *x, int lane, uint32_t code, LaneMemos *memo) {
    const uint64_t address = x->address[lane];
    const uint32_t at = address % PAGE_BYTES;
    Page *p = page_at(x->w, address);
    if (!p || at < p->from || at + x->bytes > p->to) {
        global_bounds_report(x, lane);
        return NULL;
    }
    if (p->allocation->constant) {
        if (!x->actor.write) return p->data + (at - p->from);
        warp_report(x->w, REPORT_CONSTANT, lane, address, (int)x->bytes, "write to constant memory");
        return NULL;
    }
    note_line(x, p);
    lane_check(x, &p->shadow, at, lane, code, memo);
    return p->data + (at - p->from);
}

/* ---- local and parameter memory: nobody else's, or read only ---------------------------------------------- */
static uint8_t *local_lane(Access *x, int lane) {
    static const uint8_t ONES[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    Warp *w = x->w;
    const uint64_t offset = x->address[lane];
    if (offset >= w->local_stride || w->local_stride - offset < x->bytes) {
        bounds_report(x, lane, "local", w->local_stride);
        return NULL;
    }
    const size_t at = (size_t)lane * w->local_stride + offset;
    if (!x->actor.write && memcmp(w->local_written + at, ONES, x->bytes) != 0)
        warp_report(w, REPORT_UNINITIALISED, lane, offset + x->window, (int)x->bytes, "read of local memory never written");
    if (x->actor.write) memset(w->local_written + at, 1, x->bytes);
    return w->local + at;
}

static uint8_t *param_lane(Access *x, int lane) {
    const Launch *k = x->w->block->launch;
    const uint64_t offset = x->address[lane];
    if (x->actor.write || offset >= k->fn->param_bytes || k->fn->param_bytes - offset < x->bytes) {
        bounds_report(x, lane, "parameter", k->fn->param_bytes);
        return NULL;
    }
    union { const uint8_t *in; uint8_t *out; } p = {k->params + offset}; /* reads only: checked above */
    return p.out;
}

static uint8_t *lane_place(Access *x, int lane, uint32_t code, LaneMemos *memo) {
    switch (x->space) {
    case SPACE_SHARED: return shared_lane(x, lane, code, memo);
    case SPACE_LOCAL: return local_lane(x, lane);
    case SPACE_PARAM: return param_lane(x, lane);
    default: return global_lane(x, lane, code, memo);
    }
}

/* ---- shapes ----------------------------------------------------------------------------------------------- */
/* Lane after lane. */
static void scatter(Access *x, uint32_t mask, bool same) {
    LaneMemos memo = {0};
    x->out->shape = PLACE_SCATTER;
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        x->out->lane[l] = lane_place(x, l, same ? LANE_SEVERAL : (uint32_t)l, &memo);
    }
}

/* Words from `first` on, `n` bytes, in one page or block: checked as a row.  NULL: they need a closer look. */
static uint8_t *row_shared(Access *x, uint64_t first, uint32_t n, const uint8_t *code) {
    uint64_t offset;
    Block *b = shared_of(x, first, &offset);
    if (!b || offset >= b->shared_bytes || b->shared_bytes - offset < n) return NULL;
    const Shadow s = block_shadow(b);
    return row_check(&x->actor, &s, (uint32_t)(offset / 4), n / 4, code) ? b->shared + offset : NULL;
}

static uint8_t *row_global(Access *x, uint64_t first, uint32_t n, const uint8_t *code) {
    Page *p = page_at(x->w, first);
    const uint32_t at = first % PAGE_BYTES;
    if (!p || at < p->from || at + n > p->to || (p->allocation->constant && x->actor.write)) return NULL;
    if (!p->allocation->constant) {
        note_line(x, p);
        if (!row_check(&x->actor, &p->shadow, at / 4, n / 4, code)) return NULL;
    }
    return p->data + (at - p->from);
}

/* All words of the active lanes' row; false when some lane needs a closer look. */
static bool row(Access *x, int first_lane, uint64_t first, uint32_t n, const uint8_t *code, PlaceShape shape) {
    uint8_t *data;
    if (first % 4 || n % 4) return false;
    if (x->space == SPACE_SHARED) {
        data = row_shared(x, first, n, code);
    } else {
        const uint32_t left = PAGE_BYTES - first % PAGE_BYTES, part = n < left ? n : left;
        data = row_global(x, first, part, code);
        if (data && part < n && !row_global(x, first + part, n - part, code + part / 4)) return false;
    }
    if (!data) return false;
    x->out->shape = shape;
    x->out->first = shape == PLACE_ROW ? data - (size_t)first_lane * x->bytes : data;
    return true;
}

/* Are the addresses equal, or one after another?  Bits by which they differ from that; and low bits in use. */
static void compare(const uint64_t *address, uint32_t mask, uint32_t bytes, uint64_t *from_same, uint64_t *from_row,
                    uint64_t *low) {
    const int first = __builtin_ctz(mask);
    const uint64_t start = address[first], base = start - (uint64_t)first * bytes;
    uint64_t same = 0, straight = 0, bits = 0;
    if (mask == UINT32_MAX) {
        for (uint64_t l = 0; l < WARP; l++) {
            same |= address[l] ^ start;
            straight |= address[l] ^ (base + l * bytes);
            bits |= address[l];
        }
    } else {
        for (uint64_t l = 0; l < WARP; l++) {
            const uint64_t on = 0 - (uint64_t)(mask >> l & 1);
            same |= (address[l] ^ start) & on;
            straight |= (address[l] ^ (base + l * bytes)) & on;
            bits |= address[l] & on;
        }
    }
    *from_same = same;
    *from_row = straight;
    *low = bits;
}

static uint32_t misaligned_lanes(const Access *x) {
    uint32_t lanes = 0;
    for (int l = 0; l < WARP; l++)
        if ((x->mask >> l & 1) && (x->address[l] & (x->bytes - 1))) lanes |= UINT32_C(1) << l;
    return lanes;
}

/* The lanes in x->mask, all in one space. */
static void locate(Access *x) {
    uint64_t from_same, from_row, low;
    const int first = __builtin_ctz(x->mask);
    const uint32_t run = x->mask >> first;
    compare(x->address, x->mask, x->bytes, &from_same, &from_row, &low);
    if (low & (x->bytes - 1)) {
        const uint32_t bad = misaligned_lanes(x);
        misaligned_report(x, bad);
        x->mask &= ~bad;
        scatter(x, x->mask, false);
        return;
    }
    if (x->space == SPACE_PARAM && !from_same) {
        x->out->first = param_lane(x, first);
        x->out->shape = x->out->first ? PLACE_SAME : PLACE_SCATTER;
        return;
    }
    const bool checked = x->space != SPACE_LOCAL && x->space != SPACE_PARAM;
    if (!from_same && run > 1) {
        x->out->overlap = x->actor.write;
        if (checked && row(x, first, x->address[first], x->bytes, SAME, PLACE_SAME)) return;
        scatter(x, x->mask, true);
        return;
    }
    const bool parts = x->bytes >= 4 || (uint32_t)first % (4 / x->bytes) == 0;
    if (checked && !from_row && (run & (run + 1)) == 0 && parts &&
        row(x, first, x->address[first], x->bytes * (uint32_t)__builtin_popcount(run), row_codes(x->bytes, (uint32_t)first), PLACE_ROW))
        return;
    scatter(x, x->mask, false);
}

/* ---- the interface ---------------------------------------------------------------------------------------- */
static Space window_of(uint64_t address, uint64_t *start) {
    static const struct { uint64_t start; Space space; } WINDOW[] = {
        {SHARED_WINDOW, SPACE_SHARED}, {LOCAL_WINDOW, SPACE_LOCAL}, {PARAM_WINDOW, SPACE_PARAM}};
    *start = 0;
    for (int k = 0; k < 3; k++) {
        if (address - WINDOW[k].start >= WINDOW_BYTES) continue;
        *start = WINDOW[k].start;
        return WINDOW[k].space;
    }
    return SPACE_GLOBAL;
}

/* Generic addresses: by the window that they lie in; lanes in several windows one window after another. */
static void locate_generic(Access *x) {
    const uint64_t *generic = x->address;
    const uint32_t all = x->mask;
    uint64_t moved[WARP], start;
    for (uint32_t rest = all; rest;) {
        const Space space = window_of(generic[__builtin_ctz(rest)], &start);
        uint32_t here = 0;
        for (int l = 0; l < WARP; l++) {
            uint64_t s;
            moved[l] = generic[l] - start;
            if ((rest >> l & 1) && window_of(generic[l], &s) == space) here |= UINT32_C(1) << l;
        }
        x->space = space;
        x->address = moved;
        x->window = start;
        x->mask = here;
        if (here == all) locate(x);
        else scatter(x, here & ~misaligned_lanes(x), false), misaligned_report(x, misaligned_lanes(x));
        if (space == SPACE_SHARED) x->out->shared |= here;
        if (space == SPACE_GLOBAL) x->out->global |= here;
        rest &= ~here;
    }
    x->address = generic;
}

static Actor access_actor(Warp *w, AccessKind kind, uint8_t scope) {
    return (Actor){.warp = w, .table = w->cluster->table, .cluster = (uint32_t)w->cluster->linear + 1,
                   .stamp = stamp_make(w->time, w->agent, 0), .write = kind != ACCESS_READ, .atomic = kind == ACCESS_ATOMIC,
                   .scope = scope};
}

void warp_places(Warp *w, Space space, AccessKind kind, uint8_t scope, const uint64_t address[WARP], int bytes,
                 uint32_t mask, Places *out) {
    Access x = {.w = w, .actor = access_actor(w, kind, scope), .space = space, .own_block = space == SPACE_SHARED,
                .bytes = (uint32_t)bytes, .mask = mask, .address = address, .out = out};
    if (space == SPACE_CLUSTER) x.space = space = SPACE_SHARED;
    out->shape = PLACE_SCATTER;
    out->overlap = false;
    out->shared = out->global = 0;
    for (int l = 0; l < WARP; l++) out->lane[l] = NULL;
    if (!mask) return;
    if (space == SPACE_GENERIC) {
        locate_generic(&x);
    } else {
        uint64_t moved[WARP];
        if (space == SPACE_PARAM) {
            for (int l = 0; l < WARP; l++) moved[l] = address[l] >= PARAM_WINDOW ? address[l] - PARAM_WINDOW : address[l];
            x.address = moved;
        }
        locate(&x);
        if (space == SPACE_SHARED) out->shared = mask;
        if (space == SPACE_GLOBAL || space == SPACE_CONST) out->global = mask;
    }
    if (w->block->launch->stats) count_access(w, kind != ACCESS_READ, address, bytes, out->global, out->shared);
}

void places_spread(Places *p, int bytes, uint32_t mask, uint8_t *place[WARP]) {
    for (int l = 0; l < WARP; l++) {
        uint8_t *at = p->shape == PLACE_SAME ? p->first : p->shape == PLACE_ROW ? p->first + l * bytes : p->lane[l];
        place[l] = mask >> l & 1 ? at : NULL;
    }
}

void warp_access(Warp *w, Space space, AccessKind kind, bool ordered, const uint64_t address[WARP], int bytes,
                 uint32_t mask, uint8_t *place[WARP]) {
    Places p;
    warp_places(w, space, kind, ordered ? SCOPED_SYS : WEAK, address, bytes, mask, &p);
    places_spread(&p, bytes, mask, place);
}

/* ---- ranges of asynchronous operations -------------------------------------------------------------------- */
bool range_find(Warp *w, int lane, Space space, uint64_t address, uint32_t bytes, uint32_t align, bool write, Range *out) {
    uint64_t start = 0, at[WARP] = {0};
    if (space == SPACE_GENERIC) space = window_of(address, &start);
    if (space == SPACE_CLUSTER) space = SPACE_SHARED;
    at[lane] = address - start;
    const Access x = {.w = w, .actor = access_actor(w, write ? ACCESS_WRITE : ACCESS_READ, WEAK), .space = space,
                      .bytes = bytes, .address = at, .window = start};
    if (align > 1 && address % align) {
        char note[64];
        snprintf(note, sizeof note, "an access that needs an alignment of %u bytes", align);
        warp_report(w, REPORT_MISALIGNED, lane, address, (int)bytes, note);
        return false;
    }
    *out = (Range){.space = space, .address = address, .bytes = bytes};
    if (space == SPACE_SHARED) {
        out->block = shared_block(w, at[lane], &out->offset);
        const uint32_t room = out->block ? out->block->shared_bytes : 0;
        if (!out->block || out->offset > room || room - out->offset < bytes) {
            bounds_report(&x, lane, "shared", room);
            return false;
        }
        out->data = out->block->shared + out->offset;
        return true;
    }
    const Allocation *a = space == SPACE_GLOBAL ? memory_find(w->block->launch->memory, at[lane]) : NULL;
    if (!a || a->bytes - (at[lane] - a->address) < bytes) {
        global_bounds_report(&x, lane);
        return false;
    }
    out->allocation = a;
    out->offset = at[lane] - a->address;
    out->data = a->data + out->offset;
    return true;
}

/* `bytes` of a shadow from `offset` on: whole words as a row where they allow it, the rest one after another. */
static void range_part(const Actor *a, const Shadow *s, uint64_t offset, uint64_t bytes, int lane, uint32_t code, Conflict *f) {
    uint8_t codes[64];
    memset(codes, (int)code, sizeof codes);
    while (bytes) {
        const uint32_t k = (uint32_t)(offset / 4), at = offset % 4;
        uint64_t n = bytes / 4 < 64 ? bytes / 4 : 64;
        if (at == 0 && n && row_check(a, s, k, (uint32_t)n, codes)) {
            n *= 4;
        } else {
            n = 4 - at < bytes ? 4 - at : bytes;
            shadow_touch(a, s, k, lane, code, (int)at, (int)n, f);
        }
        offset += n;
        bytes -= n;
    }
}

static void range_check(Warp *w, int lane, const AsyncOp *op, const Range *r, bool write) {
    Actor a = access_actor(w, write ? ACCESS_WRITE : ACCESS_READ, WEAK);
    Conflict found = {0};
    const uint32_t code = op && op->async_proxy ? LANE_ASYNC : (uint32_t)lane;
    if (op) {
        a.stamp = stamp_make(op->time, op->agent, 0);
        a.async_proxy = op->async_proxy;
    }
    if (r->space == SPACE_SHARED) {
        const Shadow s = block_shadow(r->block);
        range_part(&a, &s, r->offset, r->bytes, lane, code, &found);
    } else {
        for (uint64_t done = 0, part; done < r->bytes; done += part) {
            const uint64_t address = r->allocation->address + r->offset + done, left = PAGE_BYTES - address % PAGE_BYTES;
            Page *p = page_at(w, address);
            part = r->bytes - done < left ? r->bytes - done : left;
            if (!p || r->allocation->constant) continue;
            if (write) p->writer = w->at;
            else p->reader = w->at;
            range_part(&a, &p->shadow, address % PAGE_BYTES, part, lane, code, &found);
        }
    }
    if (found.with || found.unwritten) race_report(&a, r->space, lane, r->address, (int)r->bytes, &found);
}

void range_read(Warp *w, int lane, const AsyncOp *op, const Range *r) { range_check(w, lane, op, r, false); }
void range_write(Warp *w, int lane, const AsyncOp *op, const Range *r) { range_check(w, lane, op, r, true); }
void range_poison(const Range *r) { memset(r->data, 0xff, r->bytes); }
