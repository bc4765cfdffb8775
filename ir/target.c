/* The target table as data. */
#include "ir/target.h"
#include <stddef.h>
#include <string.h>

static const DeviceTiles tiles[] = {
#define TILES(b, map, map_most, row, row_most, span, span_most, column, column_most, m, m_most, n, n_most, k, k_most, sum, sum_most, ids, \
              ids_most, side, side_most)                                                                                               \
    [BACKEND_##b] = {{map, map_most}, {row, row_most}, {span, span_most}, {column, column_most}, {m, m_most},                           \
                     {n, n_most},     {k, k_most},     {sum, sum_most},   {ids, ids_most},       {side, side_most}},
#include "ir/targets.def"
};

static const Device devices[] = {
#define DEVICE(b, file, gpu, cpu, grid, bundles, written, fast, copies, sums, turns, added, products, sliced) \
    [BACKEND_##b] = {.suffix = file, \
                     .is_gpu = gpu, \
                     .is_cpu = cpu, \
                     .has_grid = grid, \
                     .has_bundles = bundles, \
                     .as_written = written, \
                     .all_fast = fast, \
                     .copies_inputs = copies, \
                     .takes_sums = sums, \
                     .takes_turns = turns, \
                     .most_added = added, \
                     .most_products = products, \
                     .most_sliced = sliced, \
                     .tiles = &tiles[BACKEND_##b]},
#include "ir/targets.def"
};

const Target targets[] = {
#define TARGET(n, b, flops, matrix, bytes, shared, fast, thr, vec, tile, sms, wgmma, depends, aligned, part, version) \
    {.name = #n,                                         \
     .backend = BACKEND_##b,                             \
     .device = &devices[BACKEND_##b], \
     .gflops_f32 = flops,                                \
     .gflops_matrix = matrix,                            \
     .gbytes_per_s = bytes,                              \
     .shared_gbytes_per_s = shared,                      \
     .fast_bytes = fast,                                 \
     .threads = thr,                                     \
     .vector_bytes = vec,                                \
     .max_tile = tile, \
     .cores = sms, \
     .has_wgmma = wgmma, \
     .has_dependent = depends, \
     .align = aligned, \
     .part_align = part, \
     .isa = version},
#include "ir/targets.def"
};
const int n_targets = sizeof targets / sizeof targets[0];

const Target *target_find(const char *name) {
    for (int i = 0; i < n_targets; i++) {
        if (strcmp(targets[i].name, name) == 0) return &targets[i];
    }
    return NULL;
}
