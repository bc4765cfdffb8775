/* From graph nodes to Tile IR: the state of one kernel being written. */
#ifndef FUSEC_PASSES_EMITTER_H
#define FUSEC_PASSES_EMITTER_H
#include "ir/tile.h"
#include "passes/algebra/access.h"
#include "passes/kernel/matrix.h"
#include "passes/pass.h"

/* Tile sizes of one kernel, chosen in tile_size.c. */
typedef struct TileSizes {
    int p[MAX_RANK];  /* step along each parallel dim */
    int r[MAX_RANK];  /* along each row dim */
    bool row_span;    /* the row lies whole in one tile: no loops */
    int k[MAX_LOOPS]; /* along each summed loop of the contraction, by loop index */
} TileSizes;

/* A value already computed in an open scope. */
typedef struct Memo {
    const Node *node;
    const Index *const *idx;
    int mask, value, below; /* below: the next older entry of the same node, or -1 */
} Memo;

typedef struct Emitter {
    Arena *arena;
    PassContext *context;
    const Plan *plan;
    const PlanKernel *pk;
    Kernel *k;
    Builder b;
    TileSizes size;
    MatrixTiles matrix; /* the kernel is a matrix product */
    bool by_mma;        /* a stream's products go to matrix instructions: what those sum that make its values is one tile */
    int *buffer_of;     /* by node id: index into k->buffers or -1; shared by all kernels */
    int *memo_of;       /* by node id: newest memo entry or -1; shared likewise */
    VEC(Memo) memo;
    int32_t constant[FUSEC_MAX_CONSTANTS]; /* k->n_constants of them */
    const Index *p_index[MAX_RANK];        /* the element the program is at */
    int p_axis[MAX_RANK];
    const Index *r_index[MAX_RANK]; /* inside the row: span axes, or the open loops */
    int r_axis[MAX_RANK];
    int slices_axis, rows_axis; /* of a kernel that walks slices of rows: which slice; the rows of a tile, or -1 */
} Emitter;

void kernel_drop_unused(Kernel *k); /* unused.c */
void kernel_bound_loops(Kernel *k); /* loop_bounds.c: iterations that masks make empty are left out */
void kernel_longest_first(Kernel *k); /* longest_first.c: the order of a GPU's programs */
void kernel_distribute(Kernel *k, const Target *t); /* distribute.c: GPU kernels over threads */
/* stream_schedule.c: tiles of a stream whose products go to matrix instructions, columns whole; lanes of the axis of a sum, whole;
 * the schedule of what is emitted so: NULL, or why it cannot be such a kernel after all. */
void stream_mma_sizes(const Target *t, const PlanKernel *k, TileSizes *out);
int stream_mma_sums(Dim d);
const char *stream_schedule(Kernel *k, int row, int along, int64_t room);
/* origin.c: buffers begin where the kernel first reads them; by buffer, how many bytes later that is. */
int64_t *kernel_origins(Arena *a, Kernel *k, const Target *t);
/* Of a contraction through a sliding window, for the host; false: not one. */
bool window_tile_sizes(const Target *t, const Plan *p, const Node *n, TileSizes *s);
void tile_sizes(const Target *t, const Plan *p, const PlanKernel *k, TileSizes *out);
/* Rows of a stream's tile: `most`, halved down to `least` where rows are few, or cores would have no program. */
int stream_rows(const PlanKernel *k, int most, int least, int cores);
/* The longer side of a stream's tile; false: both are one element. */
bool stream_halve(const PlanKernel *k, TileSizes *s);
/* Of a map, written as k with axis[d] for its dim d, that reads neighbours along another dim than it writes: as many lanes of both;
 * false: it is none, or has enough. */
bool map_square(const Target *t, const Kernel *k, const PlanKernel *pk, const int *axis, TileSizes *s);
/* Products that a stream sums; *lanes: their columns, as *s has them. */
int stream_products(const PlanKernel *k, const TileSizes *s, int64_t *lanes);
void tile_sums(const Target *t, const Node *n, int *k); /* along the summed loops of a product, as in TileSizes */

/* emit_contract.c: a product's loops, from the value `start` on; fused: sums that are taken in them, or NULL. */
typedef struct LoopSums {
    int n;
    const PlanNode *node[MAX_RANK];
    int here[MAX_RANK], value[MAX_RANK]; /* is this a program that takes it; the sum, once emitted */
} LoopSums;
int emit_product(Emitter *e, Node *n, const Index *const *idx, int start, LoopSums *fused);
/* One step of the loops that are open, those of `axes`: start + the product at loop[]. */
int emit_product_step(Emitter *e, Node *n, const Index *const *loop, int n_axes, const int *axes, int start);
void emit_stream(Emitter *e); /* emit_stream.c: all members of a KERNEL_STREAM: values to be recalled */
void emit_turns_begin(Emitter *e); /* what its tiles of rows add to is 0 */

/* matrix_emit.c, of e->matrix: the grid's axes and p_index; the term that the product is, or NULL; its summed axes,
 * outermost first, and how many. */
void matrix_grid(Emitter *e);
MatrixTerm *matrix_term(Emitter *e, const Node *n);
int matrix_sum_axes(Emitter *e, MatrixTerm *term, const Index **loop, int *axes);

/* The value of node n at idx (one expression per dim) where mask holds (-1: everywhere). Lanes where
 * the mask fails hold some value, never a fault. */
int emit_value(Emitter *e, Node *n, const Index *const *idx, int mask);
void emit_place_of(const Emitter *e, const PlanNode *pn, const Index **idx); /* tile.c: of the element that the program is at */
int emit_heavy(Emitter *e, Node *n, const Index *const *idx, int mask); /* reductions and contractions */
int emit_reduction(Emitter *e, Node *n, const Index *const *idx, int mask);
void emit_scan(Emitter *e, Node *n);
int emit_scatter(Emitter *e, Node *n); /* the sums, where the program is */
/* a product, what is summed in its loops, and products onto it: values to be recalled */
void emit_together(Emitter *e);
void emit_sides(Emitter *e); /* stores what was summed in the loops, and what is elementwise after that */
int emit_slices(Emitter *e, const Node *n); /* the program's part of a sum over tiles of what it computes */
void emit_store_slices(Emitter *e, const Node *n, int value);
void emit_remember(Emitter *e, const Node *n, const Index *const *idx, int mask, int value);
void emit_samples(Emitter *e, Node *n); /* a contraction that sums over samples, one after the other */
void emit_store(Emitter *e, const Node *n, const Index *const *idx, int value);
void emit_update(Emitter *e, Node *n); /* of a kernel that `updates` */

/* ---- loops over several axes ------------------------------------------------------------------------- */
/* Opens a loop per axis (spans need none); init[] enter, carry[] are the innermost values. */
typedef struct Nest {
    int n, n_carry, memo;
    Inst *loop[MAX_LOOPS];
    Builder outside[MAX_LOOPS];
} Nest;
void nest_begin(Emitter *e, Nest *nest, int n_axes, const int *axes, int n, const int *init, int *carry);
void nest_end(Emitter *e, Nest *nest, const int *yield, int *results);

/* ---- sums over rows --------------------------------------------------------------------------------- */
/* emit_slices.c: sums over rows in the slices that the programs of a KERNEL_ROW walk (PlanKernel.sliced): the grid's
 * axis of slices, the loop over a slice's rows, and what is summed of those that it is at. */
typedef struct SliceSums {
    Nest nest;
    int n;
    bool is_long;
    const PlanNode **node;
    int *carry, *next, *result; /* sums, and then what they have lost */
} SliceSums;
void emit_slices_axis(Emitter *e, const char *name);
void emit_slice_axis(Emitter *e);
void emit_slices_begin(Emitter *e, SliceSums *s);
void emit_slices_add(Emitter *e, SliceSums *s);
void emit_slices_end(Emitter *e, SliceSums *s);

/* ---- small instructions ---------------------------------------------------------------------------- */
int emit_op(Emitter *e, Op op, DType t, int a, int b); /* binary */
int emit_select(Emitter *e, int c, int a, int b);
const Inst *emit_made_here(const Emitter *e, int v); /* the instruction that makes v, in the block that is open; NULL: it is elsewhere */
int emit_and(Emitter *e, int a, int b); /* -1 stands for true */
int emit_exceeds(Emitter *e, int x, int most); /* greater, where NaN is greater than all numbers */
int emit_i32(Emitter *e, int64_t v);
/* one that the launch gives, so that kernels that differ in it are one */
int emit_launch_constant(Emitter *e, int32_t v);
const Index *index_of_dim(Emitter *e, Dim d);
/* lo <= x < extent as a mask, or -1 when it always holds. */
int emit_in_range(Emitter *e, const Index *x, Dim extent);
int emit_at_least(Emitter *e, const Index *x, int64_t lo);
int emit_below(Emitter *e, const Index *x, Dim extent);

/* A tile over every axis that the subscripts and the mask mention: what a reduction of n at idx can vary in. */
int emit_full_over(Emitter *e, const Node *n, const Index *const *idx, int mask, double value);
bool emit_has_axis(const Emitter *e, int v, int axis);
int emit_along(Emitter *e, int v, int axis); /* the same value, with a lane for each index along the axis */
/* Reduces v over the axes (-1: none); a value that is the same along one of them counts once per lane of it. */
int emit_reduce_over(Emitter *e, Op op, int v, int n, const int *axes);
/* A sum whose loops, those of `axes`, add so many terms to one f32 that it is compensated: each step's sum is taken by
 * itself, and what is lost when it is added is carried beside (Kahan, "Further remarks on reducing truncation errors",
 * CACM 8(1), 1965).  So the error of a sum does not grow with its length (docs/numerics.md). */
bool emit_sum_is_long(const Emitter *e, int n_axes, const int *axes, bool products);
/* carry + x; *lost: what the sums before have lost, and then what this one has. */
int emit_add_compensated(Emitter *e, int carry, int x, int *lost);
/* What sums and products of values of t are carried in: f32 for low ones, so that they are rounded once. */
DType emit_carried_in(Op op, DType t);
int emit_converted(Emitter *e, int v, DType t); /* v as t */
void emit_forget(Emitter *e, int n);            /* memo entries from the n-th on: their block is closed */

/* ---- conditions ---------------------------------------------------------------------------------------- */
typedef struct Branch {
    Inst *inst;
    Builder outside;
    int memo;
} Branch;
/* What is emitted until the end happens where the scalar condition holds; elsewhere carry[] are the results. */
Branch emit_if(Emitter *e, int condition, int n, const int *carry);
void emit_endif(Emitter *e, Branch *b, const int *next, int *results);
int emit_scalar_of(Emitter *e, Op op, int v); /* v reduced over all its axes */

#endif
