/* The axes of a matrix kernel: several loops of one class as one axis, whose index they divide again. */
#include "passes/kernel/emitter.h"

/* The loops of a class, outermost first; those of one element are nowhere. */
typedef struct Loops {
    int n, loop[MAX_LOOPS];
} Loops;

static Loops loops_of(const MatrixTerm *m, const Contract *c, LoopClass cls, int from, int to) {
    Loops l = {0};
    for (int i = from; i < to; i++)
        if (m->loop[i] == cls && !(dim_is_fixed(c->extent[i]) && c->extent[i].bound == 1)) l.loop[l.n++] = i;
    return l;
}

/* Of summed loops any may be innermost: the one along which the operands are read in runs. */
static void innermost_contiguous(const Node *n, Loops *l) {
    int best = l->n - 1;
    for (int i = l->n - 1; i >= 0; i--)
        if (contract_contiguous(n, l->loop[i]) > contract_contiguous(n, l->loop[best])) best = i;
    if (l->n < 2 || !dim_is_fixed(n->attr->contract->extent[l->loop[best]])) return;
    const int loop = l->loop[best];
    for (int i = best; i < l->n - 1; i++) l->loop[i] = l->loop[i + 1];
    l->loop[l->n - 1] = loop;
}

/* How many of the innermost loops make one axis: all but its outermost have extents known now. */
static int joined(const Contract *c, const Loops *l) {
    int n = l->n ? 1 : 0;
    while (n < l->n && dim_is_fixed(c->extent[l->loop[l->n - n]])) n++;
    return n;
}

static Dim times(Dim d, int64_t by) {
    d.bound *= by;
    if (!dim_is_fixed(d)) d.scale *= by, d.offset *= by;
    return d;
}

/* Makes the axis of the last `n` loops and sets their indices; -1: there are none. */
static int join(Emitter *e, const char *name, AxisKind kind, const Contract *c, const Loops *l, int n, int step,
                const Index **index) {
    if (!n) return -1;
    Dim extent = c->extent[l->loop[l->n - n]];
    for (int i = l->n - n + 1; i < l->n; i++) extent = times(extent, c->extent[l->loop[i]].bound);
    const int axis = kernel_axis(e->k, name, kind, extent, step);
    int64_t inner = 1;
    for (int i = l->n - 1; i >= l->n - n; i--) {
        const Dim d = c->extent[l->loop[i]];
        const Index *x = index_div(e->k, index_axis(e->k, axis), index_const(e->arena, inner));
        index[l->loop[i]] = i == l->n - n ? x : index_mod(e->k, x, index_const(e->arena, d.bound));
        inner *= d.bound;
    }
    return axis;
}

/* Loops that are not joined stand alone, one element at a time. */
static void alone(Emitter *e, const char *name, const Contract *c, const Loops *l, int n, const Index **index) {
    for (int i = 0; i < n; i++)
        index[l->loop[i]] = index_axis(e->k, kernel_axis(e->k, name, AXIS_GRID, c->extent[l->loop[i]], 1));
}

void matrix_grid(Emitter *e) {
    MatrixTiles *m = &e->matrix;
    const MatrixTerm *term = &m->term[0];
    const Contract *c = term->contract->attr->contract;
    const Loops batch = loops_of(term, c, LOOP_BATCH, 0, c->n_out);
    const Loops rows = loops_of(term, c, term->swapped ? LOOP_N : LOOP_M, 0, c->n_out);
    const Loops columns = loops_of(term, c, term->swapped ? LOOP_M : LOOP_N, 0, c->n_out);
    const int row_joined = joined(c, &rows), column_joined = joined(c, &columns);
    for (int d = 0; d < c->n_out; d++) e->p_index[d] = index_const(e->arena, 0), e->p_axis[d] = -1;
    alone(e, "b", c, &batch, batch.n, e->p_index);
    alone(e, "i", c, &rows, rows.n - row_joined, e->p_index);
    alone(e, "j", c, &columns, columns.n - column_joined, e->p_index);
    m->row_axis = join(e, "m", AXIS_GRID, c, &rows, row_joined, m->tile.rows, e->p_index);
    m->column_axis = join(e, "n", AXIS_GRID, c, &columns, column_joined, m->tile.columns, e->p_index);
}

MatrixTerm *matrix_term(Emitter *e, const Node *n) {
    for (int i = 0; i < e->matrix.n_terms; i++)
        if (e->matrix.term[i].contract == n) return &e->matrix.term[i];
    return NULL;
}

int matrix_sum_axes(Emitter *e, MatrixTerm *term, const Index **loop, int *axes) {
    const Contract *c = term->contract->attr->contract;
    Loops sum = loops_of(term, c, LOOP_K, c->n_out, c->n_loops);
    innermost_contiguous(term->contract, &sum);
    const int n = joined(c, &sum), outer = sum.n - n;
    for (int l = c->n_out; l < c->n_loops; l++) loop[l] = index_const(e->arena, 0);
    for (int i = 0; i < outer; i++) {
        axes[i] = kernel_axis(e->k, "k", AXIS_LOOP, c->extent[sum.loop[i]], 1);
        loop[sum.loop[i]] = index_axis(e->k, axes[i]);
    }
    term->sum_axis = axes[outer] = join(e, "k", AXIS_LOOP, c, &sum, n, e->matrix.sum, loop);
    return outer + 1;
}
