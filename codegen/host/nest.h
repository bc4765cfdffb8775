/* Loop nests: how sinks over the same axes are evaluated on the host.
 *
 * The innermost axis is the one with the most contiguous accesses.  It is walked in whole vectors, then the
 * rest in one masked vector (or lane by lane where masks are not cheap).  A value is emitted at the depth of
 * its innermost axis, so that what does not depend on inner loops is evaluated outside them.  All results of
 * an iteration are computed before any is written, which makes updates in place safe.
 *
 * A reduction along the innermost axis accumulates in a vector register (a fixed number of partial sums,
 * combined in a fixed order); any other accumulates in its result's buffer. */
#ifndef FUSEC_CODEGEN_HOST_NEST_H
#define FUSEC_CODEGEN_HOST_NEST_H
#include "codegen/llvm/emit.h"
#include "codegen/schedule/schedule.h"

typedef struct KernelEmit {
    const Emit *e;
    const HostPlan *plan;
    const Kernel *k; /* the plan's, as are these */
    Values *v;
    Arena *arena;
    LLVMValueRef fn;
    LLVMBasicBlockRef entry;   /* allocations only; open until the function is finished */
    LLVMBasicBlockRef current; /* where code is appended */
    LLVMValueRef *buffer, *extent; /* buffer: of the program's member of a family */
    /* Per axis, i64: index of lane 0; first lane and end of the lanes to evaluate. */
    LLVMValueRef base[MAX_AXES], lo[MAX_AXES], hi[MAX_AXES];
    LLVMValueRef next_base[MAX_AXES]; /* of grid axes: where the next program starts */
    LLVMValueRef *memory; /* by storage */
    LLVMValueRef pack[4]; /* packed factors of a dot, used by one dot after another; of pack_size floats */
    int64_t pack_size[4];
    int64_t stack_bytes;
} KernelEmit;

/* An element lies at memory + the sum over axes of (lane - lo) * stride[axis] + place(c), where c is the sum of
 * (lane - lo) * column[axis]: columns in panels of `panel`, place(c) = c / panel * panel_stride + c % panel.  A vector
 * of lanes along an axis of column 1 stays in one panel.
 * With an axis of pairs, lanes 2i and 2i + 1 of it (from lo on) are a pair of bf16, the first one in the lower half, in
 * the place of one float: i * stride[axis]; that of an odd last lane is filled up with zero.  The value is a bf16
 * already, and the machine has masks. */
typedef struct PackPlace {
    LLVMValueRef memory;
    LLVMValueRef stride[MAX_AXES]; /* NULL: 0 */
    int64_t column[MAX_AXES], panel, panel_stride; /* panel 0: no columns */
    int pairs;                                     /* 1 + the axis of pairs; 0: none */
} PackPlace;

/* i64: how many lanes of the axis are to be evaluated. */
static inline LLVMValueRef nest_lanes(const KernelEmit *ke, int axis) {
    return LLVMBuildSub(ke->e->b, ke->hi[axis], ke->lo[axis], "");
}

typedef struct Sink {
    LoopSink of;
    PackPlace pack;
    LLVMValueRef read;               /* out */
    /* while the nest is emitted */
    bool in_register;
    int depth; /* of the result's innermost axis */
    LLVMValueRef acc, acc_lane, place, computed;
    LLVMValueRef whole; /* the result, while the nest adds up apart from it; NULL: it adds to the result */
} Sink;

void nest_emit(KernelEmit *ke, const TileType *axes, int n, Sink *sinks);

/* Where lane 0 of every axis is read or written; its subscripts mention no values. */
LLVMValueRef nest_origin(KernelEmit *ke, const Inst *access);

void bucket_emit(KernelEmit *ke, const Inst *i); /* bucket.c */
LLVMValueRef nest_alloca(KernelEmit *ke, LLVMTypeRef type, int64_t n); /* n elements, 64-byte aligned, uninitialised */
LLVMTypeRef storage_type(const Emit *e, DType t);

#endif
