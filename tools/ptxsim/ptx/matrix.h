/* What a matrix instruction is, beyond an ordinary Inst: shape, element types, long operand lists.
 * Sources: PTX ISA, "Warp-level matrix instructions" and "Asynchronous warpgroup level matrix instructions". */
#pragma once
#include "tools/ptxsim/ptx/ptx.h"

/* Registers of one matrix operand, in the order of the vector expression. */
typedef struct OperandList {
    const Operand *item;
    int count;
} OperandList;

struct MatrixKernels;
struct MatrixForm {
    const struct MatrixKernels *kernels; /* arithmetic at the host's instruction-set level */
    uint16_t m, n, k;
    uint8_t type_a, type_b, type_c, type_d; /* PtxType of the elements */
    OperandList a, b, c, d;                 /* wgmma: `a` is empty when A comes by descriptor, `c` is `d` */
    Operand desc_a, desc_b;                 /* wgmma: 64-bit matrix descriptors */
    Operand scale_d;                        /* wgmma: predicate, false: D = A * B */
    bool negate_a, negate_b;                /* wgmma: imm-scale -1 */
    bool trans_a, trans_b;                  /* wgmma: MN-major */
    bool column_a, column_b, column_c;      /* wmma: .col */
    bool saturate;                          /* .satfinite of integers */
    uint8_t fragment;                       /* wmma.load, wmma.store: FRAGMENT_* */
};

/* Bits of an element in a register or in memory. */
static inline int element_bits(PtxType t) { return t == T_S4 || t == T_U4 ? 4 : 8 * type_bytes(t); }
