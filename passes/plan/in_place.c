#include "passes/plan/in_place.h"

/* Which element a kernel's step is at, in row-major order: its axes, but for those of one element. */
typedef struct Place {
    int n, axis[2 * MAX_RANK];
    Dim extent[2 * MAX_RANK];
} Place;

static void add_axis(Place *p, int axis, Dim extent) {
    if (dim_is_fixed(extent) && extent.bound == 1) return;
    p->axis[p->n] = axis;
    p->extent[p->n++] = extent;
}

/* Where the node is written. */
static Place place_of(const PlanNode *pn) {
    Place p = {0};
    for (int d = 0; d < pn->node->shape->rank; d++) add_axis(&p, pn->axis[d], pn->node->shape->dim[d]);
    return p;
}

/* Where it reads: a reduction along the row too. */
static Place place_read(const PlanKernel *k, const PlanNode *pn) {
    const Node *n = pn->node;
    Place p = place_of(pn);
    for (int i = 0; op_info[n->op].cls == CLASS_REDUCE && i < n->attr->n_axes; i++)
        add_axis(&p, k->p->rank + i, n->in[0]->shape->dim[n->attr->axes[i]]);
    return p;
}

static bool same_place(const PlanKernel *k, const PlanNode *pn, const PlanNode *v) {
    const Place a = place_read(k, pn), b = place_of(v);
    bool same = a.n == b.n;
    for (int i = 0; i < a.n && same; i++) same = a.axis[i] == b.axis[i] && dim_equal(a.extent[i], b.extent[i]);
    return same;
}

bool in_place_at(const PlanKernel *k, const PlanNode *pn, const Access *read, const PlanNode *v) {
    const bool rows = in_place_sums_rows(k, pn), reduces = op_info[pn->node->op].cls == CLASS_REDUCE && !rows;
    if (plan_on_a_side(pn) != plan_on_a_side(v) || pn->part == PART_SUM) return false; /* by other programs */
    if (read->flat && (reduces ? k->kind == KERNEL_ROW : !rows) && same_place(k, pn, v)) return true;
    if (!shape_same(read->node->shape, v->node->shape)) return false;
    for (int d = 0; d < v->node->shape->rank; d++) {
        const int at = read->axis[d] >= 0 && !reduces ? pn->axis[read->axis[d]] : read->axis[d];
        if (at != v->axis[d]) return false;
    }
    return true;
}
