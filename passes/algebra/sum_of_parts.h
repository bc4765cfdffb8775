/* Sums of tensors that are 0 but in parts of their own, as concatenations (sum_of_parts.c). */
#ifndef FUSEC_PASSES_SUM_OF_PARTS_H
#define FUSEC_PASSES_SUM_OF_PARTS_H
#include "ir/graph.h"

/* The graph itself, changed where it has such sums. */
Graph *sums_of_parts(Graph *g);

#endif
