/* Which loop of a contraction goes through the samples of a batch. */
#ifndef FUSEC_PASSES_PER_SAMPLE_H
#define FUSEC_PASSES_PER_SAMPLE_H
#include "ir/graph.h"

/* By node id: does it depend on an input? */
bool *per_sample_data(Arena *a, const Graph *g);

/* The loop that subscripts the outermost dim of every operand that depends on an input; -1: none, or not one. */
int per_sample_loop(const bool *data, const Node *n);

#endif
