/* Sums in slices, made and recognised. */
#include "passes/algebra/slice_sums.h"
#include "passes/algebra/access.h"
#include <string.h>

Contract slices_view(Affine map[1][MAX_RANK], const Node *x, int dim, int64_t length) {
    const int rank = x->shape->rank;
    const int64_t n = x->shape->dim[dim].bound;
    Contract view = {.n_loops = rank + 1, .n_out = rank + 1, .n_operands = 1, .map = map};
    memset(map, 0, sizeof *map);
    view.extent[0] = dim_fixed((n + length - 1) / length);
    for (int d = 0; d < rank; d++) {
        view.extent[d + 1] = d == dim ? dim_fixed(length) : x->shape->dim[d];
        map[0][d].divisor = 1;
        map[0][d].coef[d + 1] = 1;
    }
    map[0][dim].coef[0] = length;
    return view;
}

bool slices_seen(const Node *n, int *dim, int64_t *length) {
    if (!node_is_view(n) || n->attr->contract->n_guards) return false;
    const Contract *view = n->attr->contract;
    const int rank = n->in[0]->shape->rank;
    *dim = -1;
    if (view->n_out != rank + 1) return false;
    for (int d = 0; d < rank; d++) {
        Affine e = view->map[0][d];
        if (e.coef[d + 1] != 1 || e.c || e.divisor != 1) return false;
        if (e.coef[0] && *dim >= 0) return false;
        if (e.coef[0]) *dim = d, *length = e.coef[0];
        e.coef[0] = e.coef[d + 1] = 0;
        for (int l = 0; l < view->n_loops; l++)
            if (e.coef[l]) return false;
    }
    return *dim >= 0 && dim_is_fixed(view->extent[*dim + 1]) && view->extent[*dim + 1].bound == *length;
}

bool slices_summed(const Node *n, int *dim, int64_t *length) {
    return n->op == OP_SUM && n->dtype == DT_F32 && n->attr->n_axes == 1 && slices_seen(n->in[0], dim, length) &&
           n->attr->axes[0] == *dim + 1;
}
