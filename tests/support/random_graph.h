/* Random well-typed programs as graphs: every op, odd and zero extents, bounded dimensions. */
#ifndef FUSEC_TESTS_RANDOM_GRAPH_H
#define FUSEC_TESTS_RANDOM_GRAPH_H
#include "ir/graph.h"
#include "tests/support/oracle.h"

typedef struct RandomOptions {
    int ops;       /* about how many */
    bool bounded;  /* may use a bounded dimension S on leading axes */
    bool empty;    /* may use extents of 0 */
    bool low;      /* in bf16, f16 or tf32: low_precision.h */
    int products;  /* of matrices as large as matrix instructions take them */
    bool tall;     /* each of many rows, which are summed */
} RandomOptions;

/* Entry infer: outputs.  grad: a scalar output "loss" and the gradients of all f32 parameters.  step: params
 * and a state updated from the gradients.  Values stay in a range where f32 and float64 agree, and what
 * jumps (floor, comparisons, argmax) sees exactly representable values only.  Same seed, same program. */
Graph *random_graph(Arena *a, Entry e, uint64_t seed, RandomOptions o);

#endif
