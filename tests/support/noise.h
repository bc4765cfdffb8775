/* A graph whose values are moved a little: what depends on how they are rounded moves with them. */
#ifndef FUSEC_TESTS_NOISE_H
#define FUSEC_TESTS_NOISE_H
#include "tests/support/oracle.h"

typedef struct Noisy {
    Arena *arena;
    const Graph *of; /* the graph that it was made from */
    Graph *g;
    Node **copy; /* by id in `of`: the node with its noise added */
    VEC(Tensor) inputs;
    int *input; /* by id in `of`: which of those is its noise; -1: it has none */
    EvalEnv env;
} Noisy;

/* A copy of `of` in which every node that has_noise chooses is its value plus noise, rounded to its dtype; the noise is
 * 0 until noise_at is written.  `values` are those of graph_eval. */
Noisy *noisy_graph(Arena *a, const Graph *of, const EvalEnv *env, const Tensor *values, bool has_noise(const Node *));

/* What is added to the elements of that node of `of`; NULL: it has none. */
double *noise_at(const Noisy *y, const Node *n);

/* Values by id in `of`; NULL with *error. */
Tensor *noisy_eval(const Noisy *y, const char **error);

/* 2^-8 for bf16 and so on: half a unit in the last place of 1. */
double rounding_unit(DType t);

/* The result is from among the operands, or given, but for its sign: nothing is rounded. */
bool takes_operand(Op op);

#endif
