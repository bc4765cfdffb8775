/* What a run of random programs has reached: edges between ops, rewrites, ways of fusion. */
#ifndef FUSEC_TESTS_COVERAGE_H
#define FUSEC_TESTS_COVERAGE_H
#include "ir/graph.h"
#include "passes/pass.h"

enum { COVERAGE_OPERANDS = 3 }; /* operands looked at */

/* How often each must have been reached: 20, or FUSEC_COVERAGE_LEAST. */
unsigned coverage_least(void);

typedef struct Coverage {
    uint32_t pair[OP_COUNT][OP_COUNT]; /* [producer][consumer]: edges of forward graphs, as generated */
    uint32_t fired[RULE_COUNT];        /* by rule; PassContext.fired may point here */
    bool one_core;                     /* of the target: nothing is split for it, no kernels run in one grid */
    bool no_tiles;                     /* of the target: none of its kernels multiplies by matrix instructions */
    bool sums_apart;                   /* of the target: no product takes a sum over its factor along */
    bool no_bundles;                     /* of the target: Device.has_bundles is false */
    bool no_turns;                     /* of the target: Device.takes_turns is false */
    uint32_t sandwich;                 /* contractions that read, through others, a reduction of a contraction */
    uint32_t dtype[DT_COUNT];          /* nodes of a type */
    uint32_t operand[OP_COUNT][COVERAGE_OPERANDS][DT_COUNT]; /* edges that bring this dtype to this operand */
    uint32_t disabled[PASS_COUNT], checkpointed, tiny, bounded, empty, low; /* programs; by pass */
    uint32_t precision[PRECISION_COUNT]; /* contractions that carry it */
} Coverage;

/* Whether random programs must have tensors of this dtype: those that the front end accepts. */
bool dtype_in_programs(DType t);
/* Can a value made by op `from` be an operand of op `to`?  Asked of graph_infer with small operands of every dtype of
 * the language and of ranks 0 to 2, so that it follows from ops.def and the rules of infer.c. */
bool pair_is_legal(Op from, Op to);
/* Why a legal pair is not asked for, or NULL. */
const char *pair_excluded(Op from, Op to);
/* Why a rule cannot be reached by a program, or NULL. */
const char *rule_excluded(int rule);

/* Adds what a graph, as generated, holds. */
void coverage_count(Coverage *c, const Graph *g);

/* Prints the figures and every shortage to f; how many shortages. */
int coverage_report(FILE *f, const Coverage *c);

#endif
