/* How a node's value depends on memory, once everything cheap is inlined.
 *
 * Seen from a kernel root, each read is a candidate (a node that may get memory) or a source, with
 * one root axis per dim of what is read, or -1 where the subscript is anything but that axis.
 * Root axes: its dims, then, for a reduction, the dims it reduces.  Where nothing but reshapes stand between, the read is `flat`: in
 * row-major order at the place of the root axes, whatever the shape. */
#ifndef FUSEC_PASSES_ACCESS_H
#define FUSEC_PASSES_ACCESS_H
#include "ir/graph.h"

typedef struct Access {
    Node *node;
    int8_t axis[MAX_RANK];
    bool flat;
} Access;
typedef VEC(Access) AccessList;

/* candidate[id]: such nodes end the walk. Appends to *out, in operand order, without exact repeats. */
void access_collect(Arena *a, const bool *candidate, Node *root, AccessList *out);

/* The same of a value that is no root: seen from its own dims, itself if it is a candidate. */
void access_collect_value(Arena *a, const bool *candidate, Node *value, AccessList *out);

/* The root's axes beyond its own dims: the dims a reduction removes. */
Shape access_reduced(const Node *root);

bool op_is_memory(Op op);         /* a source that has memory: param, state, input, run-time scalars */
bool node_is_view(const Node *n); /* a contract that only moves data: one operand, nothing summed */

#endif
