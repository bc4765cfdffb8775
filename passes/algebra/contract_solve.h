/* Contractions under linear equations: unknown loops are eliminated, what cannot be becomes a guard.
 *
 * The new contraction has `rank` output dims, then `n_loops` loops that are not known yet.  Its operands are read at
 * affine forms of all of them.  Each equation (an affine form that must be 0) is solved for one of the loops, which
 * then disappears; a loop with coefficient k becomes an affine expression over the divisor |k|.  Substituting a
 * quotient E/D is closed, because (a*E/D + r)/v = (a*E + D*r)/(D*v) and the guard 0 <= E/D < extent keeps D | E.
 * That guard is dropped where an operand is read at exactly this loop: the read itself leaves out what is no index. */
#ifndef FUSEC_PASSES_CONTRACT_SOLVE_H
#define FUSEC_PASSES_CONTRACT_SOLVE_H
#include "ir/graph.h"

enum { SOLVE_VARS = MAX_RANK + MAX_LOOPS }; /* output dims, then loops */

/* An affine form over all variables, over a divisor. */
typedef struct Wide {
    int64_t c, coef[SOLVE_VARS], divisor;
} Wide;

typedef struct Solver Solver;

/* In arena a.  out[rank]: extents of the output dims; loops[n_loops]: of the loops. */
Solver *solver_new(Arena *a, int rank, const Dim *out, int n_loops, const Dim *loops);

/* The form that is variable `var`: output dims come first. */
Wide solver_var(int var);
/* e is over the n loops of a contraction, in their order: the same form over this one's from loop `first` on. */
Wide solver_widen(const Solver *s, const Affine *e, int first, int n);

/* The next operand, x, read at map[x's rank]. */
void solver_operand(Solver *s, Node *x, const Wide *map);
/* The product x, whose loops are this one's first, read at index at[d] along its output dim d: equations, operands and
 * guards. */
void solver_product(Solver *s, const Node *x, const Wide *at);
/* An equality is solved like the other equations. */
void solver_guard(Solver *s, const Guard *g, int first, int n);
/* e / e.divisor == value / value.divisor. */
void solver_equation(Solver *s, const Wide *e, const Wide *value);

/* Solves: the contraction, in the solver's arena, and its operands in the order in which they were added.  False where it
 * would pass a limit of `contract`. */
bool solver_contract(Solver *s, Contract *out, Node **operands);

/* Solves, and builds it in g; NULL past a limit. */
Node *solver_build(Solver *s, Graph *g);

#endif
