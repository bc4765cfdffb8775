/* jacobian(y, x) as nodes. */
#ifndef FUSEC_PASSES_FULL_JACOBIAN_H
#define FUSEC_PASSES_FULL_JACOBIAN_H
#include "passes/pass.h"

/* Emits dy/dx into g, in `phase`, as `request` (a node of op jacobian, whose batch axis and place count) asks for it.
 * y and x are nodes of g. */
Node *full_jacobian(PassContext *c, Graph *g, const Node *request, Phase phase, Node *y, Node *x);

#endif
