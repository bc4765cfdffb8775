/* What a stream (plan/stream.h) reduces: how terms depend on reductions before them. */
#ifndef FUSEC_PASSES_STREAM_TERM_H
#define FUSEC_PASSES_STREAM_TERM_H
#include "ir/graph.h"

/* How a term of a sum depends on reductions over the same dim (the online rule: Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", arXiv:1805.02867): it is a product of what does not, of factors that are the same for all terms,
 * and of exp(coef * (shift - x)), or a power of another base, where the shift is too.  When that goes from a to b, the sum of terms so far is multiplied
 * with exp(coef * (b - a)).  It is the maximum of x, or what is no less, and coef negative, or the minimum and coef positive:
 * of any part of the terms no exponent is above 0, so that no sum overflows on the way that does not in the end.  Factors
 * multiply, or divide, the sum in the end. */
enum { MOST_FACTORS = 4 };
typedef struct StreamTerm {
    const Node *shift; /* a broadcast, or NULL */
    double coef;
    bool finite; /* the shift is, before there is any x, too */
    int n_factors;
    const Node *factor[MOST_FACTORS]; /* broadcasts */
    bool divides[MOST_FACTORS];
} StreamTerm;

/* depends, by node id: on members of the stream, which reduce dim `dim` of values; false: the term does so in another way. */
bool stream_term(const bool *depends, const Node *x, int dim, StreamTerm *t);

/* Over which dim of operand k, of a reduction the last of several; false: a product that does not read the operand by whole
 * loops of which it sums over one. */
bool stream_sums_over(const Node *n, int k, int *dim);

#endif
