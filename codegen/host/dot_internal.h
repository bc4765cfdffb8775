/* A matrix product in blocks under construction, shared by dot.c (what form it has), dot_pack.c (packing the factors)
 * and dot_blocks.c (multiplying). */
#ifndef FUSEC_CODEGEN_HOST_DOT_INTERNAL_H
#define FUSEC_CODEGEN_HOST_DOT_INTERNAL_H
#include "codegen/host/forms.h"

/* A factor that is a plain load, used in place: lane (0, 0) of the part at hand, elements of memory from one row
 * or column, and from one k, to the next. */
typedef struct FactorInPlace {
    bool use, near; /* near: so small that it stays in the innermost caches */
    bool copied;    /* of Y: packed while it is read for the first rows */
    bool swept;     /* of Y: read once, in parts of few k, each prefetched row by row while the last one is multiplied */
    bool transposed; /* of Y: contiguous along k, so that squares of it are packed in place */
    bool along_k;    /* of Y: packed by squares, evaluated along k */
    int64_t across, along;
} FactorInPlace;

typedef struct BlockResult {
    LLVMValueRef memory; /* of C: its columns are contiguous */
    LLVMValueRef step;   /* i64: elements from one row to the next */
    LLVMValueRef fresh;  /* i64: not 0 where what the memory holds counts as zero */
} BlockResult;

typedef struct Dot {
    KernelEmit *ke;
    const Inst *inst;
    const HostMachine *machine;
    const Storage *c;
    int x, y; /* values: rows x k, k x columns */
    TileType rows, columns, over;
    int64_t n_rows, n_columns, n_over; /* at the steps, padded as the storage of C is */
    int pair_axis;                     /* of k: lanes of it are multiplied in pairs of bf16; -1: none, of floats */
    int64_t n_units;                   /* k as packed: floats, or pairs in the place of one */
    int row_block, row_unit;           /* rows of a block of C: a multiple of row_unit, at most row_block */
    int vectors, panel;                /* per row of a block: vectors, lanes */
    int64_t x_pitch, y_pitch;          /* units of k with room for whole vectors: of a row of X, of a panel of Y */
    bool rows_fast;                    /* X is [k][rows], else [rows][k] */
    FactorInPlace x_direct, y_direct;
    BlockResult to;
    int inner;  /* columns at a time of inner products (dot_inner.c); 0: blocks */
    bool edges; /* `to` has only lanes that exist, and a block may pass them: that one goes aside first */
    int64_t group, x_step; /* rows of X packed at a time; elements from one k to the next */
    int parted, part;      /* the k axis that is packed in parts of `part` lanes; -1: none */
} Dot;

typedef struct Ahead {
    LLVMValueRef here, from; /* row or column 0, k 0: of this part, of the next */
    int64_t across, along;   /* elements from one row or column to the next; from one k to the next; one of them is 1 */
    bool known;
} Ahead;

typedef struct Packed {
    LLVMValueRef x, y, count;       /* count: units of k */
    LLVMValueRef lanes;             /* of k, as the micro-kernel counts them */
    LLVMValueRef x_here, y_here;    /* where x_direct, y_direct find them */
    LLVMValueRef k_index[MAX_AXES]; /* number of a k: the sum over its axes of lane * k_index */
    Ahead next_x, next_y;
} Packed;

/* dot.c: the load, perhaps converted to f32, whose elements a factor has. */
const Inst *dot_load(const Dot *d, int value);
/* It has no mask and is affine in all axes, of which one is `across`' and one is k's. */
bool dot_plain_load(const Dot *d, int value, const TileType *across, FactorInPlace *direct);

/* ---- dot_pack.c ---- */
void dot_choose_group(Dot *d); /* sets rows_fast, group, x_step */
int64_t dot_x_elements(const Dot *d);
/* Memory of a packed factor, at least n floats: 0 X, 1 Y, 2 Y before it is transposed, 3 a block of C at an edge. */
LLVMValueRef dot_pack_memory(KernelEmit *ke, int which, int64_t n);
/* Strides of the axes of k laid out densely over existing lanes, the last of `order` fastest; the number of units. */
LLVMValueRef dot_dense(const Dot *d, int n, const int8_t *order, LLVMValueRef *stride);
void dot_pack_x(const Dot *d, const Packed *p); /* the rows between the limits of their axes */
/* Does the nest that evaluates `value` run along an axis of `group` innermost? */
bool dot_runs_along(const Dot *d, int value, const TileType *axes, const TileType *group);
void dot_pack_y(const Dot *d, const Packed *p); /* all, or the columns that do not fill a panel */
LLVMValueRef dot_panel_at(const Dot *d, const Packed *p, LLVMValueRef column); /* the packed panel that starts there */
/* Lanes of a group that exist: exact for one axis, the padded number otherwise. */
LLVMValueRef dot_lanes(const Dot *d, const TileType *group, int64_t padded);
LLVMValueRef dot_whole_panels(const Dot *d); /* columns that fill panels */
bool dot_never(LLVMValueRef condition);      /* known to be false */

/* ---- dot_blocks.c ---- */
/* The k between the limits of their axes: packs, multiplies. */
void dot_multiply_part(const Dot *d, LLVMValueRef x_memory, LLVMValueRef y_memory);

/* ---- dot_inner.c ---- */
enum { INNER_ROWS = 7 }; /* most of them */
void dot_inner_products(const Dot *d, const Packed *p);

static inline int dot_source_bytes(const Dot *d) { return d->pair_axis >= 0 ? 2 : 4; }

/* Of a factor in place: f32 or bf16. */
static inline LLVMValueRef source_at(const Dot *d, LLVMValueRef p, LLVMValueRef offset) {
    const Emit *e = d->ke->e;
    return LLVMBuildGEP2(e->b, d->pair_axis >= 0 ? e->i16 : e->f32, p, &offset, 1, "");
}

#endif
