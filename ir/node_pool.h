/* Attributes and shapes, each kept once: the nodes of a thousand layers differ in what they read, seldom in how.
 *
 * A graph and those that passes make of it share a pool, so that most attributes are compared by address. */
#ifndef FUSEC_IR_NODE_POOL_H
#define FUSEC_IR_NODE_POOL_H
#include "ir/graph.h"

/* In arena a, which keeps the attributes and shapes too. */
NodePool *node_pool_new(Arena *a);

/* The pool's own attributes that are equal to those of n: to the bit, to the names of extents. */
const Attr *node_pool_attr(NodePool *p, const Node *n);

/* The pool's own shape that is equal to s, to the names of extents.  Its dims past the rank must not be read. */
const Shape *node_pool_shape(NodePool *p, const Shape *s);

/* Do two nodes of the same op, with operands of the same ranks, have equal attributes, apart from which tensor (decl)
 * or random stream is meant, and from names? */
bool attr_similar(const Node *a, const Node *b);
uint64_t attr_hash(const Node *n);        /* equal for similar ones */
uint64_t attr_hash_source(const Node *n); /* with decl and stream */

#endif
