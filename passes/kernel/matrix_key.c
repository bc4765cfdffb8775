/* The name under which a matrix product is measured: equal names, equal work for the tile. */
#include "passes/kernel/profile.h"
#include "passes/algebra/affine.h"
#include "ir/memory.h"
#include <stdlib.h>

/* The class of the loop along which neighbours of the factor lie together: m, n, k, b; `-` where there is no such loop,
 * as in a window. */
static char contiguous_along(const Node *n, const MatrixTiles *m, int operand) {
    static const char letter[] = {
        [LOOP_BATCH] = 'b', [LOOP_M] = 'm', [LOOP_N] = 'n', [LOOP_K] = 'k', [LOOP_OTHER] = '-'};
    const int last = n->in[operand]->shape->rank - 1;
    const int loop = last < 0 ? -1 : affine_single_loop(n->attr->contract, &n->attr->contract->map[operand][last]);
    if (loop < 0) return '-';
    const LoopClass cls = m->term[0].loop[loop];
    return m->term[0].swapped && cls == LOOP_M ? 'n' : m->term[0].swapped && cls == LOOP_N ? 'm' : letter[cls];
}

static void print_tensor(FILE *f, const Node *n, bool first) {
    fprintf(f, "%s%s[", first ? "" : ",", dtype_name(n->dtype));
    for (int d = 0; d < n->shape->rank; d++) fprintf(f, "%s%lld", d ? "," : "", (long long)n->shape->dim[d].bound);
    fputc(']', f);
}

const char *matrix_key(Arena *a, const PlanKernel *k, const MatrixTiles *tiles) {
    MatrixTiles unoriented = *tiles; /* the name is that of no instruction's */
    const MatrixTiles *m = &unoriented;
    const MatrixProduct *p = &m->product;
    const Node *n = m->term[0].contract;
    TextStream t;
    FILE *f = text_open(&t);
    matrix_orient(&unoriented, BY_NONE);
    fprintf(f, "%.0fx%.0fx%.0f batch %.0f %s %c%c", p->m, p->n, p->k, p->batch, dtype_name(n->in[0]->dtype),
            contiguous_along(n, m, m->term[0].swapped), contiguous_along(n, m, !m->term[0].swapped));
    for (int i = 0; i < k->reads.n; i++) {
        if (i == 0) fputs(" reads ", f);
        print_tensor(f, k->reads.at[i], i == 0);
    }
    for (int i = 0; i < k->outputs.n; i++) {
        if (i == 0) fputs(" writes ", f);
        print_tensor(f, k->outputs.at[i], i == 0);
    }
    char *text = text_close(&t);
    const char *kept = arena_strndup(a, text, t.n);
    free(text);
    return kept;
}
