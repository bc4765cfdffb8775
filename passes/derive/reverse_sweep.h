/* One reverse sweep: the products of a seed with the Jacobians on all paths from some values x to y. */
#ifndef FUSEC_PASSES_REVERSE_SWEEP_H
#define FUSEC_PASSES_REVERSE_SWEEP_H
#include "passes/derive/jacobian.h"

typedef struct Sweep {
    PassContext *context;
    Graph *g;
    Arena *scratch;
    Phase phase; /* of the nodes that the sweep adds */
    bool quiet;  /* no warnings about derivatives that are lost */
    Node *y;
    bool *active;  /* by id, up to y: varies with some x */
    bool *reaches; /* y varies with it */
    Node **lost;   /* integer values that vary with some x: the op that made them integers */
    Node **adjoint;
} Sweep;

Sweep sweep_new(PassContext *c, Graph *g, Arena *scratch, Phase phase, Node *y);

/* A value to differentiate by.  What y does not depend on, because it comes later, is accepted. */
void sweep_by(Sweep *s, const Node *x);

/* Runs from seed, which has y's shape and dtype. */
void sweep_run(Sweep *s, Node *seed);

/* After the run: what x receives, with its shape and dtype; NULL: zero. */
Node *sweep_adjoint(const Sweep *s, const Node *x);

/* A constant of the sweep's phase, with the shape, dtype and place of `like`. */
Node *sweep_const(const Sweep *s, const Node *like, double value);

#endif
