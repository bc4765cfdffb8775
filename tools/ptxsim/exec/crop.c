#include "tools/ptxsim/exec/crop.h"
#include <stdlib.h>

enum { PLACES = 5, MOST_PLACES = PLACES * PLACES * PLACES };

/* Distinct places along an axis of n. */
static int axis_places(uint64_t n, uint64_t place[PLACES]) {
    const uint64_t wanted[PLACES] = {0, n - 1, n / 2, 1, n - 2};
    int count = 0;
    for (int k = 0; k < PLACES; k++) {
        bool fresh = wanted[k] < n;
        for (int j = 0; j < count; j++) fresh = fresh && place[j] != wanted[k];
        if (fresh) place[count++] = wanted[k];
    }
    return count;
}

static int ascending(const void *x, const void *y) {
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

uint64_t *crop_clusters(const Launch *k, uint64_t most, uint64_t *count) {
    uint64_t place[3][PLACES], across[3], all[MOST_PLACES], random = k->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    int places[3], n = 0;
    for (int d = 0; d < 3; d++) {
        across[d] = k->grid[d] / k->cluster[d];
        places[d] = axis_places(across[d], place[d]);
    }
    for (int z = 0; z < places[2]; z++)
        for (int y = 0; y < places[1]; y++)
            for (int x = 0; x < places[0]; x++)
                all[n++] = place[0][x] + across[0] * (place[1][y] + across[1] * place[2][z]);
    qsort(all, (size_t)n, sizeof *all, ascending);
    if (n > 1) { /* the last one beside the first, then a draw for each further place */
        const uint64_t last = all[n - 1];
        all[n - 1] = all[1];
        all[1] = last;
    }
    const int chosen = (uint64_t)n < most ? n : most < 2 ? 2 - (n < 2) : (int)most;
    for (int p = 2; p < chosen; p++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int q = p + (int)((random >> 33) % (uint64_t)(n - p));
        const uint64_t drawn = all[q];
        all[q] = all[p];
        all[p] = drawn;
    }
    qsort(all, (size_t)chosen, sizeof *all, ascending);
    uint64_t *list = malloc((size_t)chosen * sizeof *list);
    for (int p = 0; list && p < chosen; p++) list[p] = all[p];
    *count = (uint64_t)chosen;
    return list;
}
