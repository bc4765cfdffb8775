/* Programs of the language as graphs, ready to be evaluated. */
#ifndef FUSEC_TESTS_LOWERED_H
#define FUSEC_TESTS_LOWERED_H
#include "ir/graph.h"

/* Lowers a program's text; g[] has its entries.  Anything wrong with it fails the test. */
void lower_text(Arena *a, const char *text, Graph *g[ENTRY_COUNT]);

/* Inputs at random in [-1, 1] or their range, extents below their bounds; parameters and states as entry init, `init`,
 * starts them. */
EvalEnv started_env(Arena *a, const Graph *init, unsigned *seed);

/* The grad entry without its gradients: the forward in training mode. */
void keep_outputs(Graph *g);

#endif
