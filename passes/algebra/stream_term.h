/* What a stream (plan/stream.h) reduces: how terms depend on reductions before them. */
#ifndef FUSEC_PASSES_STREAM_TERM_H
#define FUSEC_PASSES_STREAM_TERM_H
#include "ir/graph.h"

/* How a term of a sum depends on reductions over the same dim (the online rule: Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", arXiv:1805.02867): it is a product of what does not, of factors that are the same for all terms,
 * and of exp(x + sum of coef * shift), where shifts are too.  When a shift goes from a to b, the sum of terms so far is
 * multiplied with exp(coef * (b - a)).  Factors multiply, or divide, the sum in the end. */
enum { MOST_SHIFTS = 4, MOST_FACTORS = 4 };
typedef struct StreamTerm {
    int n_shifts, n_factors;
    const Node *shift[MOST_SHIFTS], *factor[MOST_FACTORS]; /* broadcasts */
    double coef[MOST_SHIFTS];
    bool divides[MOST_FACTORS];
} StreamTerm;

/* depends, by node id: on members of the stream; false: the term does so in another way. */
bool stream_term(const bool *depends, const Node *x, int dim, StreamTerm *t);

/* Over which dim of operand k, of a reduction the last of several; false: a product that does not read the operand by whole
 * loops of which it sums over one. */
bool stream_sums_over(const Node *n, int k, int *dim);

#endif
