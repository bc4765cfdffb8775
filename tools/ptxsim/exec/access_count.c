/* Figures of a warp's access: sectors of global memory, bank conflicts of shared memory. */
#include "tools/ptxsim/exec/access.h"

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

void count_access(Warp *w, bool write, const uint64_t *address, int size, uint32_t global, uint32_t shared) {
    const uint64_t bytes = (uint64_t)__builtin_popcount(global) * (uint64_t)size;
    if (global) {
        const uint64_t sectors = (uint64_t)count_sectors(address, global, size);
        *(write ? &w->count.store_bytes : &w->count.load_bytes) += bytes;
        *(write ? &w->count.store_sectors : &w->count.load_sectors) += sectors;
    }
    if (shared) {
        w->count.shared_accesses++;
        w->count.shared_conflicts += (uint64_t)count_conflicts(address, shared, size);
    }
}
