/* Tiles as the copy engine of a Hopper GPU sees them: the tensor map behind a `stage .. by tma` of a load and behind a
 * `store .. by tma`.
 *
 * The map is a view of the buffer along the kernel's axes, not along the buffer's dimensions: one map dimension per
 * axis that the subscripts mention, with the stride that the axis has in memory.  So folded axes (m / T, m mod T)
 * are one dimension; where they do not lie behind each other (heads between batch and time) and no tile crosses a
 * multiple of T, they are two.  What lies past an axis's extent reads as 0 and is not written, as the tile's lanes
 * want. */
#ifndef FUSEC_IR_TILE_TENSOR_MAP_H
#define FUSEC_IR_TILE_TENSOR_MAP_H
#include "ir/tile.h"
#include "runtime/common/fusec.h"

typedef struct MapDim {
    int axis;
    int64_t divisor, modulus; /* the index is axis / divisor, mod modulus (0: whole) */
    Dim extent;
    int64_t stride; /* bytes from one index to the next */
} MapDim;
typedef struct TensorMap {
    int buffer, rank;
    MapDim dim[FUSEC_MAP_RANK]; /* 0: along the stage's minor axis, its stride is the element's size */
    int64_t offset;             /* bytes past the buffer's address */
    int box[FUSEC_MAP_RANK];    /* elements one copy moves: one panel of the minor axis */
    int panels;                 /* copies that make the tile, along the minor axis */
    int split;   /* blocks of the cluster that fetch a part of dimension 1 each; 1: all is fetched here */
    int swizzle; /* bytes, or 0 */
    fusec_map_type type;
} TensorMap;

enum { MAP_ALIGN = 16, MAP_MAX_BOX = 256 };

/* The map of a stage by tma or a store by tma; NULL, or why the copy engine cannot move this tile. */
const char *kernel_tensor_map(const Kernel *k, const Inst *i, TensorMap *out);
/* What a stage by tma or async of the value copies: a load, where it is f32 that is converted to tf32 rounded on the
 * way or, by async, when it is read; or whatever else defines the value (NULL: nothing here does). */
const Inst *copied_load(const Kernel *k, int value);
/* Instructions by tma in textual order, each with a map of its own; at most `room` are written, all are counted. */
int kernel_tensor_copies(const Kernel *k, const Inst **out, int room);
/* The axis with clusters, or -1. */
int kernel_cluster_axis(const Kernel *k);

#endif
