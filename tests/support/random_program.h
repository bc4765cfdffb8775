/* Random programs through the whole pipeline: what the back ends are compared on. */
#ifndef FUSEC_TESTS_RANDOM_PROGRAM_H
#define FUSEC_TESTS_RANDOM_PROGRAM_H
#include "tests/support/random_graph.h"

typedef struct RandomProgram {
    Entry entry;
    Graph *graph;   /* as generated: what float64 evaluates */
    Module *module; /* NULL: the pipeline refused it with a diagnostic (bounded dimensions merged) */
} RandomProgram;

/* Program `seed` for the target of that name.  Entries infer, grad and step come in turn; drawn from the seed: the
 * size, bounded dimensions, empty extents, recomputation, and, for one program in three, tiles far smaller than the
 * target's, so that rows are walked in chunks, grids have many programs and every axis has an edge.  Same seed, same
 * program, whatever the target.  The model is called p<seed>.  An internal error of the compiler fails the test. */
RandomProgram random_program(Arena *a, uint64_t seed, const char *target);

/* Whether few enough of `programs` were refused for the others to stand for all. */
static inline bool few_refused(int refused, int programs) { return refused * 20 <= programs; }

#endif
