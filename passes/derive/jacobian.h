/* Products of adjoints with structured Jacobians (DESIGN section 4): one rule per op and operand.
 *
 * For a node n with adjoint dy (the shape and dtype of n), jacobian_product() emits what n's
 * operand k receives: dy times d n / d operand k, with the shape and dtype of that operand. */
#ifndef FUSEC_PASSES_JACOBIAN_H
#define FUSEC_PASSES_JACOBIAN_H
#include "passes/pass.h"

/* Whether a change of operand k can move n smoothly: float to float, through an op with a rule. */
bool jacobian_exists(const Node *n, int k);

/* Whether a gradient asked of n loses something at operand k that the user should hear about: the
 * operand is a float, n may vary with it, and no rule says how. */
bool jacobian_missing(const Node *n, int k);

/* Emits into g; NULL means a product known to be zero.  Needs jacobian_exists(n, k). */
Node *jacobian_product(PassContext *c, Graph *g, Node *n, int k, Node *dy);

/* The rule of `contract`: the product with the Jacobian of a contraction is a contraction. */
Node *jacobian_contract(PassContext *c, Graph *g, Node *n, int k, Node *dy);

#endif
