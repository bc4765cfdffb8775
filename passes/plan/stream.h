/* Streams: reductions over one dim of values too large to keep, which are computed tile by tile where they are reduced. */
#ifndef FUSEC_PASSES_STREAM_H
#define FUSEC_PASSES_STREAM_H
#include "passes/algebra/stream_term.h"
#include "passes/plan/fuse.h"

typedef struct StreamMember {
    Node *node;
    int operand;     /* of a product, the one that has the values; else 0 */
    StreamTerm term; /* how what it sums depends on members before it */
    bool turns;      /* it sums over the rows instead of the stream's dim: PART_TURNS */
} StreamMember;

/* A kernel of its own: reductions, and products that sum, over dim `dim` of values of one shape, whose other dims are rows.
 * Tiles of the values are made again from the factors of products. */
typedef struct Stream {
    const Shape *shape; /* of the values */
    int dim, makes;     /* makes: products that make them */
    int rows;           /* of the dims but `dim`: the one of which tiles have several, a row of each of these products */
    bool turns; /* some member does */
    VEC(StreamMember) members; /* in the order of the graph */
} Stream;

typedef struct Streams {
    VEC(Stream) at;
    int *of; /* by node id: 1 + the stream of which the node is a member, or 0 */
} Streams;

/* Takes the values that streams recompute from f->candidate.  several_dims: sums over several dims count as those over the
 * last of them. */
Streams fuse_find_streams(const PassContext *c, Fuse *f, const Graph *g, bool several_dims);

/* A product, much larger than its factors, that may be made where it is read. */
bool stream_makes(const PassContext *c, const Node *n);

/* By node id: members of the streams that fuse will make of the graph, for passes before it. */
bool *fuse_streamed(PassContext *c, Graph *g);

/* By node id: what will have memory, and what streams are made of.  For passes before fuse. */
typedef struct Foreseen {
    bool *memory, *streamed;
} Foreseen;
Foreseen fuse_foresee(PassContext *c, Graph *g, bool several_dims);

#endif
