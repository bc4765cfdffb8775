/* A matrix product under construction, shared by dot.c, dot_pack.c (packing the factors), dot_blocks.c and dot_inner.c
 * (multiplying); codegen/schedule/blocks.c says what it is. */
#ifndef FUSEC_CODEGEN_HOST_DOT_H
#define FUSEC_CODEGEN_HOST_DOT_H
#include "codegen/host/kernel.h"
#include "codegen/schedule/blocks.h"

typedef struct BlockResult {
    LLVMValueRef memory; /* of C: its columns are contiguous */
    LLVMValueRef step;   /* i64: elements from one row to the next */
    LLVMValueRef fresh;  /* i64: not 0 where what the memory holds counts as zero */
} BlockResult;

typedef struct Dot {
    KernelEmit *ke;
    const BlocksPlan *p;
    BlockResult to;
    bool edges; /* `to` has only lanes that exist, and a block may pass them: that one goes aside first */
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

/* ---- dot_pack.c ---- */
int64_t dot_x_elements(const Dot *d);
/* Memory of a packed factor, at least n floats: 0 X, 1 Y, 2 Y before it is transposed, 3 a block of C at an edge. */
LLVMValueRef dot_pack_memory(KernelEmit *ke, int which, int64_t n);
/* Strides of the axes of k laid out densely over existing lanes, the last of `order` fastest; the number of units. */
LLVMValueRef dot_dense(const Dot *d, int n, const int8_t *order, LLVMValueRef *stride);
void dot_pack_x(const Dot *d, const Packed *p); /* the rows between the limits of their axes */
void dot_pack_y(const Dot *d, const Packed *p); /* all, or the columns that do not fill a panel */
LLVMValueRef dot_panel_at(const Dot *d, const Packed *p, LLVMValueRef column); /* the packed panel that starts there */
/* Lanes of a group that exist: exact for one axis, the padded number otherwise. */
LLVMValueRef dot_lanes(const Dot *d, const TileType *group, int64_t padded);
LLVMValueRef dot_whole_panels(const Dot *d); /* columns that fill panels */

/* ---- dot_blocks.c ---- */
/* The k between the limits of their axes: packs, multiplies. */
void dot_multiply_part(const Dot *d, LLVMValueRef x_memory, LLVMValueRef y_memory);

/* ---- dot_inner.c ---- */
void dot_inner_products(const Dot *d, const Packed *p);

/* Of a factor in place: f32 or bf16. */
static inline LLVMValueRef source_at(const Dot *d, LLVMValueRef p, LLVMValueRef offset) {
    const Emit *e = d->ke->e;
    return LLVMBuildGEP2(e->b, d->p->pair_axis >= 0 ? e->i16 : e->f32, p, &offset, 1, "");
}

#endif
