/* New nodes among those that a graph has. */
#ifndef FUSEC_PASSES_INSERT_H
#define FUSEC_PASSES_INSERT_H
#include "ir/graph.h"

/* The graph had n nodes; all that were made since stand in before[], by the id of the one that they go in front of. */
void graph_insert(Graph *g, int n, const NodeList *before);

#endif
