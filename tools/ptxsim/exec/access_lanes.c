/* Where the bytes of a warp's access lie, found and checked for 32 lanes together wherever their words are in one
 * state; lane by lane where not. */
#include "tools/ptxsim/exec/access_level.h"
#include "tools/ptxsim/exec/page.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

const AccessKernels ACCESS(access_kernels) = {
    .places = places_find, .row_read = shadow_row_read, .row_write = shadow_row_write};

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
static const uint8_t ROW_16[] = {R16(LANE4, 0), R16(LANE4, 16)}, ROW_2[] = {R16(PAIR, 0)},
                     ROW_1[] = {R4(QUAD, 0), R4(QUAD, 4)};
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
static uint8_t *shared_lane(Access *x, int lane, uint32_t code, LaneMemos *memo) {
    uint64_t offset;
    Block *b = access_block(x, x->address[lane], &offset);
    if (!b || offset >= b->shared_bytes || b->shared_bytes - offset < x->bytes) {
        access_bounds(x, lane, "shared", b ? b->shared_bytes : 0);
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
        access_global_bounds(x, lane);
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
        access_bounds(x, lane, "local", w->local_stride);
        return NULL;
    }
    const size_t at = (size_t)lane * w->local_stride + offset;
    if (!x->actor.write && memcmp(w->local_written + at, ONES, x->bytes) != 0)
        warp_report(w, REPORT_UNINITIALISED, lane, offset + x->window, (int)x->bytes,
                    "read of local memory never written");
    if (x->actor.write) memset(w->local_written + at, 1, x->bytes);
    return w->local + at;
}

static uint8_t *param_lane(Access *x, int lane) {
    const Launch *k = x->w->block->launch;
    const uint64_t offset = x->address[lane];
    if (x->actor.write || offset >= k->fn->param_bytes || k->fn->param_bytes - offset < x->bytes) {
        access_bounds(x, lane, "parameter", k->fn->param_bytes);
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

/* ---- all lanes together ----------------------------------------------------------------------------------- */
/* Shared memory of the own block; false: some lane is elsewhere. */
static bool words_shared(const Access *x, const uint64_t address[WARP], Words *t) {
    const Block *b = x->w->block;
    const uint32_t words = (b->shared_bytes + 3) / 4;
    uint64_t most = 0;
    for (int l = 0; l < WARP; l++) most = most > address[l] ? most : address[l];
    if (most >= b->shared_bytes || b->shared_bytes - most < x->bytes) return false;
    for (int l = 0; l < WARP; l++) {
        t->w[l] = b->shadow + address[l] / 4;
        x->out->lane[l] = b->shared + address[l];
    }
    t->to_r = words;
    t->to_wc = 0;
    return true;
}

static bool words_global(const Access *x, const uint64_t address[WARP], Words *t) {
    Page *p = NULL;
    uint64_t number = 0;
    for (int l = 0; l < WARP; l++) {
        if (!p || address[l] >> PAGE_SHIFT != number) {
            number = address[l] >> PAGE_SHIFT;
            p = page_at(x->w, address[l]);
            if (!p || p->allocation->constant) return false;
            note_line(x, p);
        }
        const uint32_t at = address[l] % PAGE_BYTES;
        if (at < p->from || at + x->bytes > p->to) return false;
        t->w[l] = p->shadow.w + at / 4;
        x->out->lane[l] = p->data + at - p->from;
    }
    t->to_r = PAGE_WORDS;
    t->to_wc = p->shadow.wc ? 2 * PAGE_WORDS : 0;
    return true;
}

/* Words from `first` on, `n` bytes, in one page or block: checked as a row.  NULL: they need a closer look. */
static uint8_t *row_shared(Access *x, uint64_t first, uint32_t n, const uint8_t *code) {
    uint64_t offset;
    Block *b = access_block(x, first, &offset);
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

/* Few places, each of several lanes, as the operands of a product of matrices: each is a row of its own. */
enum { MOST_GROUPS = 8 };
static uint32_t lanes_at(const uint64_t address[WARP], uint64_t at) {
    uint32_t lanes = 0;
#if defined(__AVX512F__)
    const __m512i want = _mm512_set1_epi64((long long)at);
    for (int l = 0; l < WARP; l += 8)
        lanes |= (uint32_t)_mm512_cmpeq_epi64_mask(_mm512_loadu_si512(address + l), want) << l;
#elif defined(__AVX2__)
    const __m256i want = _mm256_set1_epi64x((long long)at);
    for (int l = 0; l < WARP; l += 4) {
        const __m256i same = _mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *)(const void *)(address + l)), want);
        lanes |= (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(same)) << l;
    }
#else
    for (int l = 0; l < WARP; l++) lanes |= (uint32_t)(address[l] == at) << l;
#endif
    return lanes;
}

static bool in_groups(Access *x) {
    uint32_t group[MOST_GROUPS], rest = x->mask;
    int count = 0;
    for (; rest && count < MOST_GROUPS; rest &= ~group[count++]) {
        group[count] = lanes_at(x->address, x->address[__builtin_ctz(rest)]) & rest;
        if (!count && MOST_GROUPS * __builtin_popcount(group[0]) < __builtin_popcount(rest)) return false;
    }
    if (rest) return false;
    for (int g = 0; g < count; g++) {
        const uint64_t at = x->address[__builtin_ctz(group[g])];
        const bool alone = (group[g] & (group[g] - 1)) == 0;
        const uint8_t *code = alone ? row_codes(16, (uint32_t)__builtin_ctz(group[g])) : SAME;
        uint8_t *data =
            x->space == SPACE_SHARED ? row_shared(x, at, x->bytes, code) : row_global(x, at, x->bytes, code);
        if (!data) return false;
        for (int l = 0; l < WARP; l++) x->out->lane[l] = group[g] >> l & 1 ? data : x->out->lane[l];
    }
    return true;
}

/* False: somebody's words need a closer look, and nothing is marked yet. */
static bool all_lanes(Access *x, bool same) {
    if (x->actor.scope || x->bytes < 4 || x->space == SPACE_LOCAL || x->space == SPACE_PARAM) return false;
    if (!x->actor.write && in_groups(x)) return true;
    Words t;
    uint64_t address[WARP];
    t.first = __builtin_ctz(x->mask);
    for (int l = 0; l < WARP; l++) {
        const bool on = x->mask >> l & 1;
        address[l] = on ? x->address[l] : x->address[t.first];
        t.code[l] = same ? LANE_SEVERAL : on ? (uint32_t)l : (uint32_t)t.first;
    }
    if (x->space == SPACE_SHARED ? !words_shared(x, address, &t) : !words_global(x, address, &t)) return false;
    if (!words_check(x, &t)) return false;
    if (x->mask != UINT32_MAX)
        for (int l = 0; l < WARP; l++)
            if (!(x->mask >> l & 1)) x->out->lane[l] = NULL;
    return true;
}

/* ---- shapes ----------------------------------------------------------------------------------------------- */
/* Lane after lane. */
static void scatter(Access *x, uint32_t mask, bool same) {
    LaneMemos memo = {0};
    x->out->shape = PLACE_SCATTER;
    if (mask == x->mask && mask && all_lanes(x, same)) return;
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1) x->out->lane[l] = NULL;
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        x->out->lane[l] = lane_place(x, l, same ? LANE_SEVERAL : (uint32_t)l, &memo);
    }
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
        access_misaligned(x, bad);
        x->mask &= ~bad;
        if (x->mask) scatter(x, x->mask, false);
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
        row(x, first, x->address[first], x->bytes * (uint32_t)__builtin_popcount(run),
            row_codes(x->bytes, (uint32_t)first), PLACE_ROW))
        return;
    scatter(x, x->mask, false);
}

/* Generic addresses: by the window that they lie in; lanes in several windows one window after another. */
static void locate_generic(Access *x) {
    const uint64_t *generic = x->address;
    const uint32_t all = x->mask;
    uint64_t moved[WARP], start;
    for (uint32_t rest = all; rest;) {
        const Space space = access_window(generic[__builtin_ctz(rest)], &start);
        uint32_t here = 0;
        for (int l = 0; l < WARP; l++) {
            uint64_t s;
            moved[l] = generic[l] - start;
            if ((rest >> l & 1) && access_window(generic[l], &s) == space) here |= UINT32_C(1) << l;
        }
        x->space = space;
        x->address = moved;
        x->window = start;
        x->mask = here;
        if (here == all) locate(x);
        else scatter(x, here & ~misaligned_lanes(x), false), access_misaligned(x, misaligned_lanes(x));
        if (space == SPACE_SHARED) x->out->shared |= here;
        if (space == SPACE_GLOBAL) x->out->global |= here;
        rest &= ~here;
    }
    x->address = generic;
}

void places_find(Warp *w, Space space, AccessKind kind, uint8_t scope, const uint64_t address[WARP], int bytes,
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
            for (int l = 0; l < WARP; l++)
                moved[l] = address[l] >= PARAM_WINDOW ? address[l] - PARAM_WINDOW : address[l];
            x.address = moved;
        }
        locate(&x);
        if (space == SPACE_SHARED) out->shared = mask;
        if (space == SPACE_GLOBAL || space == SPACE_CONST) out->global = mask;
    }
    if (space != SPACE_CONST) access_early(w, address, bytes, out->global);
    if (w->block->launch->stats) count_access(w, kind != ACCESS_READ, address, bytes, out->global, out->shared);
}

