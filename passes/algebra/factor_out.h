/* Factors that are the same for all terms of a sum. */
#ifndef FUSEC_PASSES_FACTOR_OUT_H
#define FUSEC_PASSES_FACTOR_OUT_H
#include "passes/rewrite/rewrite.h"

/* Is n a constant of moderate size, or a broadcast that varies along these dims only, a bit each? */
bool varies_along_only(const Rewriter *r, const Node *n, unsigned dims);

#endif
