/* Streams: reductions over one dim of values too large to keep, which are computed tile by tile where they are reduced. */
#ifndef FUSEC_PASSES_STREAM_H
#define FUSEC_PASSES_STREAM_H
#include "passes/plan/fuse.h"

/* A kernel of its own: reductions and products that sum over dim `dim` of values of one shape, all else of which are rows.
 * The values, `tile`s of them, are recomputed from what products have for factors. */
typedef struct Stream {
    const Shape *shape; /* of the values */
    int dim;
    VEC(Node *) members; /* in the order of the graph */
} Stream;

typedef struct Streams {
    VEC(Stream) at;
    int *of; /* by node id: 1 + the stream of which the node is a member, or 0 */
} Streams;

/* Takes the values that streams recompute from f->candidate.  before_split: sums over several dims count as those over the
 * last of them. */
Streams fuse_find_streams(const PassContext *c, Fuse *f, const Graph *g, bool before_split);

/* A product, much larger than its factors, that may be made where it is read. */
bool stream_makes(const PassContext *c, const Node *n);

/* By node id: members of the streams that fuse will make of the graph, for passes before it. */
bool *fuse_streamed(PassContext *c, Graph *g);

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

/* The member's operand that has the streamed values: 0, or of a product which; and the dim of it that is streamed. */
int stream_operand(const Node *member, const Shape *values, int *dim);

#endif
