/* Loads and stores: registers on one side, what access.h found and checked on the other. */
#include "tools/ptxsim/exec/access_level.h"
#include "tools/ptxsim/exec/race_sync.h"
#include "tools/ptxsim/ptx/parse.h"

/* Lanes first .. last - 1 of a register from values `step` bytes apart. */
static inline void gather_step(uint8_t *restrict to, const uint8_t *restrict from, size_t step, size_t each, int first,
                               int last) {
    for (int l = first; l < last; l++) memcpy(to + (size_t)l * each, from + (size_t)(l - first) * step, each);
}

static void load_row(uint8_t *to, const uint8_t *from, size_t step, size_t each, int first, int last) {
    if (each == 4 && step == 4) memcpy(to + first * 4, from, (size_t)(last - first) * 4);
    else if (each == 4 && step == 16) gather_step(to, from, 16, 4, first, last);
    else if (each == 4 && step == 8) gather_step(to, from, 8, 4, first, last);
    else if (each == 2) gather_step(to, from, step, 2, first, last);
    else gather_step(to, from, step, each, first, last);
}

/* Every lane in `mask` the same value. */
static void load_same(uint8_t *to, const uint8_t *from, size_t each, uint32_t mask) {
    if (each == 4) {
        uint32_t v, *lane = (uint32_t *)(void *)to;
        memcpy(&v, from, 4);
        for (int l = 0; l < WARP; l++) lane[l] = mask >> l & 1 ? v : lane[l];
        return;
    }
    for (; mask; mask &= mask - 1) memcpy(to + (size_t)__builtin_ctz(mask) * each, from, each);
}

static void load_scattered(uint8_t *to, uint8_t *const lane[WARP], size_t at, size_t each, uint32_t mask) {
    static const uint8_t NOTHING[16] = {0}; /* what a refused load returns */
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        const uint8_t *from = lane[l] ? lane[l] + at : NOTHING;
        if (each == 4) memcpy(to + l * 4, from, 4);
        else memcpy(to + (size_t)l * each, from, each);
    }
}

/* Element k of every lane, into a register of its size. */
static void load_element(uint8_t *to, const Places *p, int k, size_t each, size_t bytes, uint32_t mask) {
    const size_t at = (size_t)k * each;
    const int first = __builtin_ctz(mask), last = WARP - __builtin_clz(mask);
    if (p->shape == PLACE_ROW) load_row(to, p->first + (size_t)first * bytes + at, bytes, each, first, last);
    else if (p->shape == PLACE_SAME) load_same(to, p->first + at, each, mask);
    else load_scattered(to, p->lane, at, each, mask);
}

/* Elements into wider registers: sign or zero extended. */
static void extend(uint8_t *to, const uint8_t *from, const Inst *i, int k, uint32_t mask) {
    const int each = type_bytes((PtxType)i->type), wide = i->vec[k].bytes;
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        uint64_t v = 0;
        memcpy(&v, from + l * each, (size_t)each);
        if (type_is_signed((PtxType)i->type)) v = (uint64_t)((int64_t)(v << (64 - 8 * each)) >> (64 - 8 * each));
        memcpy(to + l * wide, &v, (size_t)wide);
    }
}

void exec_load(Warp *w, const Inst *i, uint32_t mask) {
    uint64_t address[WARP];
    uint8_t narrow[WARP * 8];
    Places p;
    const size_t each = (size_t)type_bytes((PtxType)i->type), bytes = (size_t)access_bytes(i);
    access_addresses(w, i, address);
    places_find(w, (Space)i->space, ACCESS_READ, i->scope, address, (int)bytes, mask, &p);
    for (int k = 0; k < i->count; k++) {
        const bool fits = i->vec[k].bytes == each;
        uint8_t *to = lane_out(w, &i->vec[k]);
        load_element(fits ? to : narrow, &p, k, each, bytes, mask);
        if (!fits) extend(to, narrow, i, k, mask);
    }
    if (i->order) sync_after_read(w, (Space)i->space, i->order, i->scope, address, mask);
}

static void store_row(uint8_t *to, const uint8_t *from, size_t step, size_t each, size_t wide, int first, int last) {
    if (each == 4 && step == 4 && wide == 4) {
        memcpy(to, from + first * 4, (size_t)(last - first) * 4);
        return;
    }
    for (int l = first; l < last; l++) memcpy(to + (size_t)(l - first) * step, from + (size_t)l * wide, each);
}

static void store_element(Places *p, const uint8_t *from, int k, size_t each, size_t wide, size_t bytes,
                          uint32_t mask) {
    const size_t at = (size_t)k * each;
    const int first = __builtin_ctz(mask), last = WARP - __builtin_clz(mask);
    if (p->shape == PLACE_ROW) {
        store_row(p->first + (size_t)first * bytes + at, from, bytes, each, wide, first, last);
        return;
    }
    for (; mask; mask &= mask - 1) {
        const int l = __builtin_ctz(mask);
        uint8_t *to = p->shape == PLACE_SAME ? p->first : p->lane[l];
        if (!to) continue;
        if (each == 4) memcpy(to + at, from + (size_t)l * wide, 4);
        else memcpy(to + at, from + (size_t)l * wide, each);
    }
}

void exec_store(Warp *w, const Inst *i, uint32_t mask) {
    uint64_t address[WARP];
    Places p;
    const size_t each = (size_t)type_bytes((PtxType)i->type), bytes = (size_t)access_bytes(i);
    access_addresses(w, i, address);
    places_find(w, (Space)i->space, ACCESS_WRITE, i->scope, address, (int)bytes, mask, &p);
    if (i->order) sync_before_write(w, (Space)i->space, i->order, i->scope, address, mask, false);
    for (int k = 0; k < i->count; k++) store_element(&p, lane_in(w, &i->vec[k]), k, each, i->vec[k].bytes, bytes, mask);
    if (!p.overlap) return;
    uint8_t *place[WARP];
    places_spread(&p, (int)bytes, mask, place);
    access_overlapped(w, i, address, place, (int)bytes);
}
