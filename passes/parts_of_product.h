/* Products of parts of one tensor, as parts of one product (parts_of_product.c). */
#ifndef FUSEC_PASSES_PARTS_OF_PRODUCT_H
#define FUSEC_PASSES_PARTS_OF_PRODUCT_H
#include "passes/pass.h"

/* The graph itself, changed where it has such products. */
Graph *parts_of_products(PassContext *c, Graph *g);

#endif
