/* What the files of directed_graph.c share: a graph under construction in which the range of every value is known. */
#ifndef FUSEC_TESTS_DIRECTED_H
#define FUSEC_TESTS_DIRECTED_H
#include "tests/support/directed_graph.h"

typedef struct Range {
    double lo, hi;
} Range;

/* What an operand must satisfy so that no op makes a NaN, an infinity or an ill-conditioned value. */
typedef enum {
    NEED_ANY,
    NEED_POSITIVE, /* [0.2, 8] */
    NEED_NONZERO,  /* at least 0.3 from 0; integers: anything */
    NEED_SMALL,    /* [-3, 3] */
    NEED_ABOVE,    /* at least -0.6 */
} Need;

typedef struct Directed {
    Arena *a;
    Graph *g;
    TestRandom r;
    RandomOptions o;
    Shape base;   /* most values of the program have this shape */
    int64_t most; /* elements of a value */
    bool scalars; /* i32 scalars are wanted */
    VEC(Node *) pool;
    VEC(Range) range; /* by node id */
    VEC(bool) read;   /* by node id */
} Directed;

static inline int pick_below(Directed *x, int n) { return test_below(&x->r, n); }
Shape directed_shape(Directed *x, int min_rank);

/* A node made otherwise, whose values lie in r, joins the pool. */
Node *directed_keep(Directed *x, Node *n, Range r);
/* A node of any op that graph_infer accepts, in the pool; NULL if it does not, or if a value may leave the range that
 * all back ends agree in, or be NaN. */
Node *directed_emit(Directed *x, Op op, int n, Node *const *in, const Attr *attr, Shape shape);
bool directed_fits(const Directed *x, const Node *n, Need need);
Need directed_need(Op op, int operand);
/* A source of the model, new or not, whose values satisfy the need. */
Node *directed_leaf(Directed *x, DType t, Shape s, Need need);
/* A value of this dtype and shape that satisfies it: from the pool, unread ones first, or a leaf. */
Node *directed_operand(Directed *x, DType t, Shape s, Need need);

/* directed_range.c: the range of op's result; false where it may be NaN, infinite or too large. */
bool directed_range(const Directed *x, Op op, int n, Node *const *in, const Attr *attr, DType t, Shape shape,
                    Range *out);
/* directed_op.c: one node of this op, with v (NULL: anything) as its operand k; NULL if that cannot be. */
Node *directed_op(Directed *x, Op op, Node *v, int k);
/* directed_rule.c: an expression that the pattern of rules.def number i matches. */
Node *directed_pattern(Directed *x, int i);
/* directed_idiom.c: one of the IDIOMS, by number. */
enum { IDIOMS = 54 };
Node *directed_idiom(Directed *x, int i);

#endif
