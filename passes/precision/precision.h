/* Between precision.c, which places dtypes where the program said `precision`, and precision_raise.c. */
#ifndef FUSEC_PASSES_PRECISION_H
#define FUSEC_PASSES_PRECISION_H
#include "passes/pass.h"

/* Values of f16 and bf16 from which no contraction of low operands is made any more become f32: losses, outputs, and
 * after autodiff the gradients of masters are not rounded on the way.  A contraction among them keeps its operands
 * and gives its sum as it is (Contract.to_f32).  Returns g where nothing is low. */
Graph *precision_raise(PassContext *c, Graph *g);

/* Reads elements where they are, without a sum: follows its operand's dtype. */
bool precision_moves(const Node *n);

/* The node of g that x in dtype t is, placed as `at` is. */
Node *precision_cast(Graph *g, Node *x, DType t, const Node *at);

/* n again in g, with operands of other dtypes: its own follows from them. */
Node *precision_remake(Graph *g, const Node *n, Node *const *in);

#endif
