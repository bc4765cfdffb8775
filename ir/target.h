/* Targets, from targets.def. */
#ifndef FUSEC_IR_TARGET_H
#define FUSEC_IR_TARGET_H
#include <stdbool.h>
#include <stdint.h>

typedef enum {
#define DEVICE(b, ...) BACKEND_##b,
#include "ir/targets.def"
} Backend;
typedef struct TileShare { /* targets.def */
    int part, most;
} TileShare;
typedef struct DeviceTiles {
    TileShare map, row_lanes, span, column, m, n, k, reduced, ids, side;
} DeviceTiles;
typedef struct Device { /* of a back end: targets.def */
    const char *suffix;
    bool is_gpu, is_cpu, has_grid, has_bundles, as_written, all_fast, copies_inputs, takes_sums, takes_turns;
    int most_added, most_products, most_sliced;
    const DeviceTiles *tiles;
} Device;
typedef struct Target {
    const char *name;
    Backend backend;
    const Device *device;
    double gflops_f32, gflops_matrix; /* peaks; of f16 matrices, of pairs of bf16 */
    double gbytes_per_s, shared_gbytes_per_s;
    int64_t fast_bytes;
    int threads;       /* per program */
    int vector_bytes;  /* widest useful access */
    int max_tile;      /* most elements of one tile */
    int cores;         /* GPU: multiprocessors; host: taken for a machine's */
    int align;         /* bytes: of regions, tensors and arena buffers */
    int part_align;    /* bytes: where a part of a tensor begins that is addressed as one */
    const char *isa;   /* GPU: version of PTX, in LLVM's words */
    bool has_wgmma;    /* GPU: matrix instructions of warpgroups, and the engine that fetches for them */
    bool has_dependent; /* GPU: a kernel may begin while the one before it ends */
} Target;
extern const Target targets[];
extern const int n_targets;
const Target *target_find(const char *name); /* NULL if unknown */
static inline int target_tile(const Target *t, TileShare s) {
    const int share = s.part ? t->max_tile / s.part : s.most;
    return share < 1 ? 1 : share > s.most ? s.most : share;
}
/* Threads of a program share a tile: lanes are powers of two, operands are staged in shared memory, and a product in a low precision
 * goes to matrix instructions. */
static inline bool target_shares_tiles(const Target *t) { return t->threads > 1; }
static inline double target_ridge(const Target *t) { return t->gflops_f32 / t->gbytes_per_s; } /* FLOP per byte */
/* To start a kernel; bytes that it could move in that time. */
static inline double target_launch_seconds(const Target *t) { return t->device->has_grid ? 2e-6 : 0; }
static inline double target_launch_bytes(const Target *t) { return target_launch_seconds(t) * t->gbytes_per_s * 1e9; }
/* Matrix instructions, which all threads of a warp carry out together. */
static inline bool target_has_mma(const Target *t) { return target_shares_tiles(t) && t->gflops_matrix > 0; }
static inline bool target_has_lanes(const Target *t) { return t->vector_bytes > 4; } /* of f32 */
/* NULL, no target yet: anywhere. */
static inline int target_part_align(const Target *t) { return t ? t->part_align : 1; }

#endif
