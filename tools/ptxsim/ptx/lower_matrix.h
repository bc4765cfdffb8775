/* Shared by the lowering of matrix instructions. */
#pragma once
#include "tools/ptxsim/ptx/matrix.h"
#include "tools/ptxsim/ptx/parse.h"

/* A zeroed form with the statement's shape. */
MatrixForm *matrix_form(Parser *, const Stmt *);
/* `count` registers of type `t` in braces, or one without. */
OperandList matrix_list(Parser *, const Stmt *, const Raw *, PtxType t, int count, bool result);
void matrix_need_sync(Parser *, const Stmt *);
void matrix_need_target(Parser *, const Stmt *, int target);
/* The register type that holds elements of a multiplicand. */
PtxType matrix_register_type(PtxType element);
/* Does D = A * B + C exist for these element types, in any shape? */
bool matrix_types_agree(PtxType a, PtxType b, PtxType d);
bool matrix_is_integer(PtxType);
/* Registers per lane of a fragment of so many elements. */
int matrix_registers(int elements, PtxType);
