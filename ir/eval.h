/* Between the files of the evaluator; users call graph_eval (graph.h). */
#ifndef FUSEC_IR_EVAL_H
#define FUSEC_IR_EVAL_H
#include "ir/graph.h"

/* One node at a time: operands have been evaluated, `out` has the node's run-time shape and zeros. */
typedef struct EvalNode {
    Arena *arena;
    const Node *node;
    const EvalEnv *env;
    const Tensor *in[4];  /* the first operands */
    const Tensor *values; /* by node id: all operands of ops that take more */
    Tensor *out;
    const char *error; /* NULL while all is well */
} EvalNode;

void eval_move(EvalNode *e);
void eval_reduce(EvalNode *e);
void eval_contract(EvalNode *e);
void eval_indexed(EvalNode *e);

/* Row-major strides of a tensor. */
void tensor_strides(const Tensor *t, int64_t *stride);
/* Advances a row-major index; false after the last one (index is all zero again). */
bool tensor_next(const Tensor *t, int64_t *index);

#endif
