/* The role of each loop of a contraction of two operands, as a matrix product sees it. */
#ifndef FUSEC_PASSES_CONTRACT_CLASS_H
#define FUSEC_PASSES_CONTRACT_CLASS_H
#include "ir/graph.h"

typedef enum {
    LOOP_BATCH, /* in both operands and the output */
    LOOP_M,     /* in the first operand and the output */
    LOOP_N,     /* in the second operand and the output */
    LOOP_K,     /* summed, in both operands */
    LOOP_OTHER  /* anything else; every loop of a contraction that has not two operands */
} LoopClass;

typedef struct ContractClass {
    LoopClass loop[MAX_LOOPS];
    int64_t batch, m, n, k, other; /* products of the extents at the bound; 1 for no such loop, saturating */
    bool is_plain;                 /* every subscript is one whole loop, each at most once per operand, and no guards */
    bool is_whole;                 /* the same, but for dims of one element that are read at 0 */
} ContractClass;

/* A contraction of two operands that sums. */
bool contract_is_product(const Node *n);

/* in: the operands, for their ranks. */
ContractClass contract_classify(const Contract *c, Node *const *in);

/* Does a subscript of the operand have the loop? */
bool contract_mentions(const Contract *c, Node *const *in, int operand, int loop);

/* The operand whose read is 0 where the guard fails: the first that has all of the guard's loops, so that its tile has
 * no others on the guard's account; the first of all where none has. */
int contract_guard_operand(const Contract *c, Node *const *in, const Guard *g);
/* In how many operands neighbours along the loop are neighbours in memory, as far as a subscript says. */
int contract_contiguous(const Node *n, int loop);

#endif
