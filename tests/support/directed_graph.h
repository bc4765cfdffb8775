/* Programs made to order: together they hold every legal pair of ops, and every pattern of rules.def. */
#ifndef FUSEC_TESTS_DIRECTED_GRAPH_H
#define FUSEC_TESTS_DIRECTED_GRAPH_H
#include "tests/support/coverage.h"
#include "tests/support/random_graph.h"

/* A sequence of programs.  What a program holds follows from what those before it lack. */
typedef struct DirectedSet {
    int programs, made;
    uint64_t seed;
    int cursor; /* in the list of pairs: where the next program goes on */
    int rule;   /* the next one */
    Coverage *so_far;
    uint8_t failed[OP_COUNT][OP_COUNT]; /* programs that could not make the pair */
} DirectedSet;
DirectedSet *directed_set(Arena *a, int programs, uint64_t seed);

/* The next one, of these entry and options (o.ops is not used).  Programs of entry infer carry most of the pairs; those
 * of grad and step are smaller, since their backward graphs are not.  No value is NaN or infinite for any data that
 * test_data draws.  The same sequence of calls gives the same programs. */
Graph *directed_next(DirectedSet *set, Arena *a, Entry e, RandomOptions o);

#endif
