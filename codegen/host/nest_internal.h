/* State of a nest under construction, shared by nest.c (loops, what is written), nest_reduce.c and nest_value.c. */
#ifndef FUSEC_CODEGEN_HOST_NEST_INTERNAL_H
#define FUSEC_CODEGEN_HOST_NEST_INTERNAL_H
#include "codegen/host/nest.h"

typedef struct Nest {
    KernelEmit *ke;
    const Emit *e;
    const Kernel *k;
    int n, inner; /* inner: the innermost axis, -1 if there is none */
    int8_t axis[MAX_TILE_AXES];
    LLVMBasicBlockRef tail[MAX_TILE_AXES + 1]; /* code of each depth is appended here */
    LLVMValueRef lane[MAX_AXES], at[MAX_AXES]; /* i64 */
    int width;                                 /* lanes of the innermost body; 0: scalar */
    LLVMValueRef mask;                         /* valid lanes; NULL: all */
    LLVMValueRef *memo;                        /* by value */
    bool *pending;                             /* kept values that this nest defines: evaluated, not read back */
    bool streams;                              /* loads are of data far away: prefetches rows */
    bool gathers;                              /* the innermost index is a vector (a gather), of `bits` */
    int bits, depth;
    struct Pairs {
        int axis;              /* -1: none */
        bool alone;            /* an odd last lane */
        LLVMValueRef lane, at; /* of the second of a pair, where `axis` is not the innermost */
        LLVMValueRef *memo;
    } pairs;
} Nest;

void nest_position(Nest *t, int depth);
int nest_depth(const Nest *t, const TileType *axes);
LLVMValueRef nest_value(Nest *t, int value);
/* Of both lanes of a pair, in the bits of a float; along the axis itself: of each lane, in 16 bits. */
LLVMValueRef nest_pair(Nest *t, int value);
/* Where a place in a storage, a pack or a buffer lies: a pointer, or a vector of them if not contiguous. */
typedef struct Place {
    LLVMValueRef pointer;
    bool vector, contiguous; /* whole-vector access; neither: one element */
} Place;
Place nest_storage_place(Nest *t, int storage);
Place nest_pack_place(Nest *t, const PackPlace *p);
Place nest_buffer_place(Nest *t, const Inst *i, int depth);
LLVMValueRef nest_read(Nest *t, Place p, LLVMTypeRef element, LLVMValueRef mask);
void nest_write(Nest *t, Place p, LLVMValueRef v, LLVMValueRef mask);

/* ---- nest_reduce.c ---- */
/* How each reduction accumulates, and buffers that start from the identity. */
void nest_reduce_prepare(Nest *t, int n, Sink *sinks);
/* Code at `depth` before the loops inside it; after them, at the builder's position. */
void nest_reduce_begin(Nest *t, int depth, int n, Sink *sinks);
void nest_reduce_finish(Nest *t, int depth, int width, int n, Sink *sinks);
/* After the nest. */
void nest_reduce_end(Nest *t, int n, Sink *sinks);
/* One step in a vector register, where masked lanes keep what they have, or in the result's buffer: computed now, written
 * with the other sinks. */
void nest_reduce_in_register(Nest *t, Sink *s);
void nest_reduce_in_memory(Nest *t, Sink *s);

#endif
