/* Inside the lowering of indexed definitions: loops, spaces of loops, reads.
 *
 * The body of a definition or reduction is evaluated over a space, an ordered list of loops: a value
 * is a constant, a scalar, or a tensor whose dims are the space's loops.  A read is a tensor with one
 * affine subscript per dim; a subscript that is an integer tensor is turned into a gather first. */
#ifndef FUSEC_FRONTEND_LOWER_INDEX_H
#define FUSEC_FRONTEND_LOWER_INDEX_H
#include "frontend/lower.h"

typedef struct Loop {
    const char *name; /* NULL: made by the compiler */
    Dim extent;
    int64_t lo; /* the index is lo + 0 .. extent */
    bool visible, ranged;
    SrcLoc loc;
} Loop;

typedef struct IndexSpace {
    int n;
    int loop[MAX_LOOPS];
} IndexSpace;

/* What a subscript applies to: evaluated once. */
typedef struct Base {
    const Expr *e;
    Value v;
} Base;

typedef struct IndexContext {
    Lower *L;
    VEC(Loop) loops;
    IndexSpace space;
    bool in_term; /* inside a reduction: reads out of range leave the term out */
    bool in_subscript; /* of a gathered one, in no call: so do quotients with a remainder */
    Node *mask;   /* over the space: which terms count; NULL: all */
    VEC(Base) bases;
} IndexContext;

/* (c + sum of coef * loop) / divisor, over the loops' own 0 .. extent */
typedef struct Linear {
    int64_t c, divisor;
    int n;
    struct {
        int loop;
        int64_t coef;
    } term[MAX_LOOPS];
} Linear;

typedef struct Read {
    Node *tensor;
    Linear sub[MAX_RANK];
    Node *valid; /* gathered subscripts in range, over `valid_space`; NULL: all are */
    IndexSpace valid_space;
} Read;

/* lower_index.c */
/* Does `base` have a subscript in e for each axis?  False: reported. */
bool read_is_element(IndexContext *c, const Expr *e, Value base);
bool mentions_index(const IndexContext *c, const Expr *e);
/* Whether no index stands in `e`, which is subscripted; otherwise it is reported. */
bool base_is_fixed(IndexContext *c, const Expr *e);
Value index_eval(IndexContext *c, const Expr *e);
Value index_base(IndexContext *c, const Expr *e);
Shape space_shape(const IndexContext *c, const IndexSpace *s);
bool space_fits(IndexContext *c, const IndexSpace *s, SrcLoc loc);
int loop_named(const IndexContext *c, const char *name); /* a visible loop, or -1 */

/* lower_read.c */
bool read_resolve(IndexContext *c, const Expr *e, Read *r); /* false: reported */
Node *read_view(IndexContext *c, const IndexSpace *s, const Read *r);
/* What must hold for every subscript to be in range, over `s`; NULL: nothing. */
Node *and_masks(Lower *L, Node *a, Node *b); /* NULL is true */
Node *read_mask(IndexContext *c, const IndexSpace *s, const Read *r);
Node *space_lift(IndexContext *c, Node *n, const IndexSpace *from, const IndexSpace *to);
/* A sum of a product of reads as one contraction; false when the body is not one. */
bool product_contract(IndexContext *c, const Expr *body, const IndexSpace *out, Value *result);

#endif
