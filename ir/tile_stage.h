/* Tiles in shared memory (scheduled level): where their elements lie, and what may be copied there at once. */
#ifndef FUSEC_IR_TILE_STAGE_H
#define FUSEC_IR_TILE_STAGE_H
#include "ir/tile.h"

/* Element (offset o[] along the axes) lies, in elements of `bytes` bytes from the slot's start, at
 *     p = sum o[axis[i]] * stride[i] + o[minor] / panel * panel_stride + o[minor] % panel
 * and then, with a swizzle of W bytes, its 16-byte chunk's number in 128 bytes is exchanged: byte address bits 4 and
 * up are XORed with bits 7 and up, one bit for W = 32, two for 64, three for 128 (PTX ISA, "Swizzling Modes"). */
typedef struct StageLayout {
    int n; /* axes besides the minor one, slowest first */
    int8_t axis[MAX_TILE_AXES];
    int stride[MAX_TILE_AXES]; /* elements */
    int minor;                 /* -1: a scalar */
    int panel, panel_stride;   /* elements */
    int swizzle, bytes;        /* bytes: of an element */
    int64_t slot;              /* bytes of one tile, a multiple of align */
    int align;                 /* bytes */
} StageLayout;
/* Rows of a product's factor without a stated layout begin at multiples of so many elements, if they are as long. */
enum { STAGE_RUN = 4 };
/* Bytes after which a swizzle begins anew. */
enum { STAGE_PERIOD = 1024 };
void stage_layout(const Kernel *k, const Inst *stage, StageLayout *out);
int64_t stage_place(const StageLayout *l, const int *offset); /* bytes, of the element at offset[axis] */

/* Defining instructions by value; NULL for carried values and results of bodies. */
const Inst **kernel_defs(Arena *a, const Kernel *k);
/* The most bytes, a power of two up to 16, such that neighbours along `axis` lie together in memory in aligned runs of
 * so many, and a run is masked as a whole; 0 if not even one element is (it is not affine). */
int load_run_bytes(const Kernel *k, const Inst *const *def, const Inst *access, int axis);

/* The expression over runs of `width` neighbours along the axis, which begin at multiples of it: is it affine, and by how
 * much does it grow from one to the next? */
bool index_run(const Kernel *k, const Index *x, int axis, int width, int64_t *slope);

/* How many instructions of the block, from number `from` on, work element by element, each STAGE and STORE of registers
 * among them included: a back end may take a tile through all of them piece by piece. */
int block_run(const Block *b, int from);

/* A sum over what a product's accumulators became, which is only stored: each warp, or several that have other elements,
 * leaves its part in a row of an array in shared memory, of `step` floats along `axis`, and the rows are added in order.  After
 * every MEET_RUN floats MEET_PAD are left out: lanes whose elements are so far apart do not meet in a bank. */
enum { MEET_RUN = 64, MEET_PAD = 16 };
typedef struct Meeting {
    int axis, step, rows, row; /* row: floats from a row to the next */
} Meeting;
bool stage_meeting(const Kernel *k, const Inst *sum, Meeting *out);

/* Shared memory of a block, in bytes: every staged tile at its place (stage_plan), behind them the arrays of sums
 * that meet; scratch of other reductions not included.  Tiles that are never needed at the same time share memory.  Of
 * groups of threads that alternate each has what is not fetched for it for itself. */
typedef struct StagePlan {
    int64_t *offset; /* by value; -1: it has no place in shared memory.  Of the first group */
    int *slots;      /* by value */
    int64_t bytes;
    int64_t apart;   /* from a group's own tiles to the next group's */
} StagePlan;
void stage_plan(Arena *a, const Kernel *k, StagePlan *out);
/* The first of the kernel's loops whose ring of tiles by tma the loop goes on with: one after the other, with as many slots and
 * tiles of the same sizes; itself where there is none. */
const Inst *stage_ring(const Kernel *k, const Inst *loop);
/* Dynamic shared memory of a block: the plan's, where some tile's layout is stated; 0 otherwise, when the back end has
 * arrays of its own. */
int64_t kernel_shared_bytes(const Kernel *k);
/* Of those arrays, when axes are spread: one for each tile, and for each sum over threads of several warps. */
int64_t kernel_array_bytes(const Kernel *k);
/* On a GPU, counters that warps which make buckets have in shared memory, of four bytes, at most. */
enum { BUCKET_COUNTERS = 8192 };

#endif
