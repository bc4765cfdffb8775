/* Random uses of every differentiable op, for gradient checks; driven from ops.def. */
#ifndef FUSEC_TESTS_OP_CASES_H
#define FUSEC_TESTS_OP_CASES_H
#include "tests/support/gradcheck.h"

/* Whether ops.def gives the op a derivative, be it zero. */
bool op_has_gradient(Op op);

/* A random use of the op: its operands come from trial_operand(), shapes with extents 0, 1 and odd ones,
 * kept away from points where the derivative jumps.  NULL for an op without a case. */
Node *op_case(Trial *t, Op op);

#endif
