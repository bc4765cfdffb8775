/* Figures of a warp's access: bytes and sectors of global memory, passes of shared memory. */
#include "tools/ptxsim/exec/access.h"
#include "tools/ptxsim/exec/profile.h"

/* Distinct 32-byte sectors of a warp's access: aligned, so that each lane stays in one. */
static uint64_t count_sectors(const uint64_t *address, uint32_t lanes) {
    uint64_t seen[WARP];
    int n = 0;
    for (; lanes; lanes &= lanes - 1) {
        const uint64_t sector = address[__builtin_ctz(lanes)] / 32;
        int k = n;
        while (k > 0 && seen[k - 1] != sector) k--;
        if (k == 0) seen[n++] = sector;
    }
    return (uint64_t)n;
}

/* Passes that 32 banks of 4 bytes need for these lanes, at most 128 bytes of them: the most distinct words in a bank. */
static uint64_t count_passes(const uint64_t *address, uint32_t lanes, int bytes) {
    uint64_t word[WARP];
    int in_bank[32] = {0}, n = 0, most = 0;
    for (; lanes; lanes &= lanes - 1)
        for (int k = 0; k < (bytes + 3) / 4; k++) {
            const uint64_t at = address[__builtin_ctz(lanes)] / 4 + (uint64_t)k;
            int j = 0;
            while (j < n && word[j] != at) j++;
            if (j < n) continue;
            word[n++] = at;
            if (++in_bank[at % 32] > most) most = in_bank[at % 32];
        }
    return (uint64_t)most;
}

/* Accesses of 8 bytes go by half warps, of 16 by quarters; whatever a part needs beyond one pass is a conflict. */
static void count_shared(Counters *c, const uint64_t *address, uint32_t lanes, int bytes) {
    const int group = bytes <= 4 ? WARP : bytes == 8 ? 16 : 8;
    const uint32_t all = group == WARP ? UINT32_MAX : (UINT32_C(1) << group) - 1;
    c->shared_accesses++;
    c->shared_bytes += (uint64_t)__builtin_popcount(lanes) * (uint64_t)bytes;
    for (int first = 0; first < WARP; first += group) {
        const uint32_t part = lanes & all << first;
        if (!part) continue;
        const uint64_t passes = count_passes(address, part, bytes);
        c->shared_wavefronts += passes;
        c->shared_conflicts += passes - 1;
    }
}

static void count_global(Warp *w, bool write, const uint64_t *address, int bytes, uint32_t lanes) {
    *(write ? &w->count.store_bytes : &w->count.load_bytes) += (uint64_t)__builtin_popcount(lanes) * (uint64_t)bytes;
    *(write ? &w->count.store_sectors : &w->count.load_sectors) += count_sectors(address, lanes);
    for (uint32_t rest = lanes; rest;) { /* lanes in a row are one stretch */
        int l = __builtin_ctz(rest);
        const uint64_t start = address[l];
        uint64_t end = start;
        for (; l < WARP && (rest >> l & 1) && address[l] == end; l++, rest &= rest - 1) end += (uint64_t)bytes;
        footprint_add(w->cluster->launch->profile->footprint, write, start, end - start);
    }
}

void count_access(Warp *w, bool write, const uint64_t *address, int bytes, uint32_t global, uint32_t shared) {
    if (global) count_global(w, write, address, bytes, global);
    if (shared) count_shared(&w->count, address, shared, bytes);
}

void count_range(Warp *w, bool write, uint64_t address, uint64_t bytes) {
    if (!w->cluster->launch->stats || !bytes) return;
    w->count.async_bytes += bytes;
    *(write ? &w->count.store_bytes : &w->count.load_bytes) += bytes;
    *(write ? &w->count.store_sectors : &w->count.load_sectors) += (address + bytes - 1) / 32 - address / 32 + 1;
    footprint_add(w->cluster->launch->profile->footprint, write, address, bytes);
}
