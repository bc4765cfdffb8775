/* The Jacobian of contract.  With y[o] = sum_l A[e(l)] B[f(l)] .., the adjoint of A is
 *
 *     dA[p] = sum over l with e(l) == p of dy[o(l)] B[f(l)] ..
 *
 * a contraction again: its output loops are A's dims p, and each equation e_d(l) == p_d is solved for one of the
 * loops (contract_solve.h). */
#include "passes/algebra/contract_solve.h"
#include "passes/derive/jacobian.h"

/* Factors of a low dtype meet the adjoint in that dtype; so does the operand its own. */
static Solver *setup(Arena *a, Graph *g, const Node *n, int k, Node *dy) {
    const Contract *c = n->attr->contract;
    const Shape shape = *n->in[k]->shape;
    Solver *s = solver_new(a, shape.rank, shape.dim, c->n_loops, c->extent);
    Wide map[MAX_RANK];
    for (int o = 0; o < c->n_out; o++) map[o] = solver_var(shape.rank + o); /* dy is read at the forward output loops */
    solver_operand(s, dy->dtype == n->in[k]->dtype ? dy : graph_cast(g, dy, n->in[k]->dtype), map);
    for (int i = 0; i < c->n_operands; i++) {
        if (i == k) continue;
        for (int d = 0; d < n->in[i]->shape->rank; d++) map[d] = solver_widen(s, &c->map[i][d], 0, c->n_loops);
        solver_operand(s, n->in[i], map);
    }
    for (int i = 0; i < c->n_guards; i++) solver_guard(s, &c->guard[i], 0, c->n_loops);
    for (int d = 0; d < shape.rank; d++) {
        const Wide e = solver_widen(s, &c->map[k][d], 0, c->n_loops), p = solver_var(d);
        solver_equation(s, &e, &p);
    }
    return s;
}

Node *jacobian_contract(PassContext *c, Graph *g, Node *n, int k, Node *dy) {
    Arena *scratch = arena_new();
    Node *result = solver_build(setup(scratch, g, n, k, dy), g);
    arena_free(scratch);
    if (!result && c->report) {
        c->failed = true;
        c->report(c->user, COMPLAINT_ERROR, n->loc,
                  "the gradient of this indexed sum passes the limits of an indexed sum (16 indices)",
                  "split it into two sums with fewer indices");
    }
    return result;
}
