/* The op table as types, and what both IRs share: source places, phases, entries, declarations. */
#ifndef FUSEC_IR_OPS_H
#define FUSEC_IR_OPS_H
#include "ir/dtype.h"
#include <stdint.h>

enum {
    MAX_LOOPS = 16,                 /* loop indices of one contraction */
    MOST_BUCKETED = INT32_MAX / 4   /* ids, and rows, of OP_BUCKET */
};

typedef enum {
#define OP(e, text, cls, arity, type, jac) OP_##e,
#include "ir/ops.def"
#undef OP
    OP_COUNT
} Op;

typedef enum { CLASS_SOURCE, CLASS_ELEMENT, CLASS_MOVE, CLASS_REDUCE, CLASS_CONTRACT, CLASS_INDEXED, CLASS_SPECIAL } OpClass;
typedef enum { TYPE_SAME, TYPE_SECOND, TYPE_BOOL, TYPE_I32, TYPE_ATTR } OpType;
typedef enum { OPERANDS_ANY, OPERANDS_NUMBER, OPERANDS_FLOATING, OPERANDS_TRUTH } OpOperands;
typedef enum { CODE_NONE, CODE_INSTRUCTION, CODE_FORMULA } OpCode;
typedef enum { EXACT_NOWHERE, EXACT_AT_0, EXACT_AT_1, EXACT_POWER } OpExact;
typedef enum { CALLED_NOT, CALLED_OTHER, CALLED_FUNCTION } OpCall;
typedef enum { JAC_SOURCE, JAC_DIAGONAL, JAC_SUM, JAC_SELECT, JAC_MULTILINEAR, JAC_ZERO, JAC_NONE } Jacobian;

typedef struct OpInfo {
    const char *text;
    OpClass cls;
    int arity; /* -1: one or more */
    OpType type;
    Jacobian jacobian;
    OpOperands operands; /* this and what follows: of CLASS_ELEMENT */
    int cost;
    OpCode code;
    double ulps;
    OpExact exact;
    OpCall call;
} OpInfo;
extern const OpInfo op_info[OP_COUNT];
bool op_parse(const char *text, Op *out);
bool op_is_transcendental(Op op); /* a formula of floats, roots and powers too: worth f32 */
int op_cost(Op op);               /* OpInfo.cost; a random number's is philox's */
bool op_is_expensive(Op op);      /* as a division of f32 is, or more, but for random numbers: not computed again lightly */
bool op_is_scatter(Op op);        /* an element is what is sent to it, reduced: */
Op op_scattered(Op scatter);      /* by OP_SUM or OP_RMAX */

/* A place in a source text; line and col count from 1, 0 means none. `file` indexes Model.files. */
typedef struct SrcLoc {
    int file, line, col, end_line, end_col;
} SrcLoc;

typedef enum { PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE } Phase;

/* derive: the states whose initial values are computed from parameters, from the parameters as they are. */
typedef enum { ENTRY_INIT, ENTRY_INFER, ENTRY_GRAD, ENTRY_STEP, ENTRY_DERIVE, ENTRY_COUNT } Entry;
extern const char *const entry_name[ENTRY_COUNT];

typedef struct HyperDecl {
    const char *name;
    double value; /* default */
} HyperDecl;
typedef struct SymDecl {
    const char *name;
    int64_t bound;
} SymDecl;

/* scalar.c: one elementwise op on doubles; the reference semantics of graph and Tile IR.
 * `t` is the dtype computed in; integer ops wrap as two's complement 32 bit. */
double scalar_op(Op op, DType t, const double *x);
void scalar_op_all(Op op, DType t, int64_t n, const double *const *x, double *restrict out); /* of n elements: x[operand][i] */
double scalar_round(DType t, double x); /* nearest value of dtype t */
/* Of OP_SUM, OP_PROD, OP_RMAX, OP_RMIN: the binary op that is repeated, and its identity, which is the result of no elements. */
Op scalar_step(Op reduce);
double scalar_identity(Op reduce, DType t);
/* Philox-4x32-10 (Salmon et al., SC'11), first word >> 8 times 2^-24. */
double scalar_philox(uint32_t key0, uint32_t key1, uint32_t counter0, uint32_t counter1);

#endif
