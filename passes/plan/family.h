/* Products that are alike and read one operand, as one kernel: family.c. */
#ifndef FUSEC_PASSES_FAMILY_H
#define FUSEC_PASSES_FAMILY_H
#include "passes/pass.h"

/* By node id: of how many members the product's kernel is going to be, as far as the graph tells before fusion; else 1.
 */
int *family_sizes(PassContext *c, const Graph *g);

#endif
