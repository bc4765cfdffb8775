/* What every LLVM back end shares: one context per emitted module, element types, elementwise
 * instructions on scalars or LLVM vectors, index arithmetic, counter-based random numbers.
 *
 * Element types in registers and in memory:
 *     bool   i1     in memory i8, 0 or 1
 *     i32    i32
 *     f32    float
 *     f16    float, rounded after every operation; in memory half
 *     bf16   float, rounded after every operation; in memory i16, the upper half of a float
 * A function that takes values works on scalars and on vectors of any width alike; where one operand is a
 * vector and another a scalar, the scalar is repeated.  All builders append at the builder's position. */
#ifndef FUSEC_CODEGEN_LLVM_EMIT_H
#define FUSEC_CODEGEN_LLVM_EMIT_H
#include "ir/tile.h"
#include <llvm-c/Core.h>

typedef struct Emit {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMTypeRef i1, i8, i16, i32, i64, half, f32, f64, ptr, none;
    bool is_gpu; /* of sm_80 or later: it rounds pairs of f32 to bf16, and has extremes that keep NaN and 2^x as instructions */
    bool calls[OP_COUNT]; /* functions that are called, not inlined (emit_choose_calls) */
    int part;             /* of several modules that become one text: in the names of what each has of its own */
} Emit;

void emit_init(Emit *e, const char *module_name);
void emit_free(Emit *e); /* the module too, unless *e no longer owns it (module == NULL) */

/* ---- types ------------------------------------------------------------------------------------------ */
LLVMTypeRef emit_type(const Emit *e, DType t);                /* of one element in a register */
LLVMTypeRef emit_memory_type(const Emit *e, DType t);         /* of one element in memory */
LLVMTypeRef emit_vector_type(LLVMTypeRef element, int width); /* width 0: the element itself */
int emit_width(LLVMValueRef v);                               /* lanes of a vector, 0 for a scalar */
LLVMValueRef emit_const(const Emit *e, DType t, double value);
LLVMValueRef emit_i64(const Emit *e, int64_t value);
static inline LLVMValueRef emit_f32_at(const Emit *e, LLVMValueRef p, LLVMValueRef offset) { /* the address of a float, `offset` of them on */
    return LLVMBuildGEP2(e->b, e->f32, p, &offset, 1, "");
}
LLVMValueRef emit_splat(const Emit *e, LLVMValueRef v, int width); /* unchanged if v is a vector or width is 0 */
void emit_match(const Emit *e, int n, LLVMValueRef *v); /* repeats scalars to the width of the vectors among v */
LLVMValueRef emit_lanes(const Emit *e, LLVMTypeRef int_type, int width); /* 0, 1, 2, ... */
LLVMValueRef emit_lanes_below(const Emit *e, LLVMValueRef n, int width); /* of those, which are less than n */

/* ---- instructions -------------------------------------------------------------------------------------- */
/* An intrinsic overloaded on one type, the type of its first argument. */
LLVMValueRef emit_intrinsic(const Emit *e, const char *name, int n, LLVMValueRef *args);
/* A masked access: llvm.masked.load, store, gather or scatter of values of type `data`. */
LLVMValueRef emit_masked(const Emit *e, const char *name, LLVMTypeRef data, LLVMValueRef pointer, int n,
                         LLVMValueRef *args);
/* A vector of f32 anywhere; mask: of lanes that are there (read, the others are 0); NULL: all. */
LLVMValueRef emit_load_f32(const Emit *e, LLVMTypeRef vector, LLVMValueRef at, LLVMValueRef mask);
void emit_store_f32(const Emit *e, LLVMValueRef v, LLVMValueRef at, LLVMValueRef mask);
/* One ELEMENT op of the op table: `result` and `operand` are the dtypes of the result and of the last
 * operand (they differ in casts and comparisons).  Every operation rounds by itself: what is fused with what
 * into a kernel never changes a result.  Transcendental functions are built as codegen/math/math.h says. */
LLVMValueRef emit_element(const Emit *e, Op op, DType result, DType operand, int n, const LLVMValueRef *in);
LLVMValueRef emit_from_memory(const Emit *e, DType t, LLVMValueRef v); /* memory form -> register form */
LLVMValueRef emit_to_memory(const Emit *e, DType t, LLVMValueRef v);
LLVMValueRef emit_round(const Emit *e, DType t, LLVMValueRef v); /* f16, bf16: nearest value; others unchanged */

/* Reductions: SUM PROD RMAX RMIN. */
LLVMValueRef emit_identity(const Emit *e, Op op, DType t);
LLVMValueRef emit_combine(const Emit *e, Op op, DType t, LLVMValueRef acc, LLVMValueRef v);
LLVMValueRef emit_horizontal(const Emit *e, Op op, DType t, LLVMValueRef v); /* of a vector's lanes */
LLVMValueRef emit_fma(const Emit *e, DType t, LLVMValueRef x, LLVMValueRef y, LLVMValueRef acc); /* DOT's step */

/* ---- index expressions ------------------------------------------------------------------------------------ */
/* Where atoms come from.  axis and extent give i64 scalars, or vectors of integers of `bits` bits. */
typedef struct IndexSource {
    void *user;
    const Kernel *kernel;
    int bits; /* of vector elements: 32 or 64; scalars are i64 */
    LLVMValueRef (*axis)(void *user, int axis);
    LLVMValueRef (*base)(void *user, int axis);   /* of a grid axis: where the program's tile begins, i64 */
    LLVMValueRef (*extent)(void *user, int sym);
    LLVMValueRef (*value)(void *user, int value); /* i32, as held in registers */
} IndexSource;
LLVMValueRef emit_atom(const Emit *e, const IndexSource *s, const Atom *a);
LLVMValueRef emit_index(const Emit *e, const IndexSource *s, const Index *x);
/* Of a loop over an axis of that extent: where the first tile begins, and where no tile begins any more. */
void emit_loop_bounds(const Emit *e, const IndexSource *s, const Inst *loop, LLVMValueRef extent, LLVMValueRef *first, LLVMValueRef *end);
/* v, the value of x in 64 bits, or in 32 where it fits, as TI_INDEX gives it: in i32, saturated. */
LLVMValueRef emit_index_i32(const Emit *e, const Kernel *k, const Index *x, LLVMValueRef v);
/* Integer sum and product; a scalar i64 meets a vector by truncation and repetition. */
LLVMValueRef emit_int_add(const Emit *e, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef emit_int_scale(const Emit *e, LLVMValueRef x, int64_t c);

/* ---- structure ----------------------------------------------------------------------------------------------- */
LLVMBasicBlockRef emit_block(const Emit *e, LLVMValueRef fn, const char *name);
LLVMValueRef emit_call(const Emit *e, LLVMValueRef fn, int n, LLVMValueRef *args);
void emit_fn_attribute(const Emit *e, LLVMValueRef fn, const char *name);
void emit_fn_text_attribute(const Emit *e, LLVMValueRef fn, const char *name, const char *value);
void emit_param_attribute(const Emit *e, LLVMValueRef fn, int param, const char *name, uint64_t value);

#endif
