/* Between registers and the panels of matrix.h: shared by mma.sync and wgmma. */
#pragma once
#include "tools/ptxsim/exec/alu_level.h"
#include "tools/ptxsim/exec/matrix.h"
#include "tools/ptxsim/ptx/matrix.h"

/* Reports a warp of which not all 32 lanes execute a matrix instruction. */
void matrix_check_warp(Warp *, uint32_t mask);
/* The left panel from `count` registers of 32 lanes: blocks of 8 rows first, then k. */
void left_from_registers(const MatrixKernels *, PtxType, uint32_t *left, const void *const *lanes, int count,
                         int row_blocks, int k);
/* Accumulator register number `at` to and from its place among the sums: one per register, two for packed f16. */
void sum_widen(const MatrixKernels *, PtxType, uint32_t *sum, const void *lanes, int at);
void sum_narrow(const MatrixKernels *, PtxType, uint32_t lanes[WARP], const uint32_t *sum, int at);
