/* Tiles as the copy engine of a Hopper GPU sees them: the tensor map behind a `stage .. by tma` of a load and behind a
 * `store .. by tma`.
 *
 * The map is a view of the buffer along the kernel's axes, not along the buffer's dimensions: one map dimension per
 * axis that the subscripts mention, with the stride that the axis has in memory.  So folded axes (m / T, m mod T)
 * are one dimension; where they do not follow each other (heads between batch and time) and no tile crosses a
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
/* A dimension of pixels that a window slides over: places lower, lower + step, .. up to the extent - 1 + upper. */
typedef struct MapWindow {
    int lower, upper, step;
    const Index *tap; /* of the window's element that is fetched, from 0 on */
} MapWindow;

typedef struct TensorMap {
    int buffer, rank;
    int windows;      /* 0: a box of the dimensions; else pixels in row-major order: dimension 0 is channels, then so many */
    MapWindow window[FUSEC_MAP_RANK - 2]; /* are slid over, then comes the one of images */
    const Index *at[FUSEC_MAP_RANK];      /* windows: where a panel begins */
    MapDim dim[FUSEC_MAP_RANK]; /* 0: along the stage's minor axis, its stride is the element's size */
    int64_t offset;             /* bytes past the buffer's address */
    int box[FUSEC_MAP_RANK];    /* elements one copy moves: one panel of the minor axis */
    int panels;                 /* copies that make the tile, along the minor axis */
    int split;   /* blocks of the cluster that fetch a part of dimension 1 each; 1: all is fetched here */
    int swizzle; /* bytes, or 0 */
    fusec_map_type type;
} TensorMap;

enum { MAP_ALIGN = 16, MAP_MAX_BOX = 256 };

/* The same for a stage of pixels under a sliding window, by rows of the tile that are pixels and columns that are channels of
 * one element of the window: what lies outside the image reads as 0.  Strides, padding and dilation are the window's, and so
 * are classes of residues of a strided gradient.  Gives *out but for its type (im2col mode: PTX ISA, "Tensors"). */
const char *kernel_window_map(const Kernel *k, const Inst *stage, const Inst *load, TensorMap *out);
const Inst *block_definition(const Block *b, int value); /* of a value, in the block or inside; NULL */

/* The map of a stage by tma or a store by tma; NULL, or why the copy engine cannot move this tile. */
const char *kernel_tensor_map(const Kernel *k, const Inst *i, TensorMap *out);
/* What a stage by tma or async of the value copies: a load, where it is f32 that is converted to tf32 rounded on the
 * way or, by async, when it is read; or whatever else defines the value (NULL: nothing here does). */
const Inst *copied_load(const Kernel *k, int value);
/* The axis with clusters, or -1. */
int kernel_cluster_axis(const Kernel *k);

#endif
