/* layout: strides of every buffer (the order of dims is chosen in physical_order.c).
 *
 * Needs: homes.  Keeps: logical shapes.  Scratch tensors get a leading dimension padded to the target's
 * access width where that costs at most a quarter; whatever the caller sees stays dense.  Padding is
 * allocation only: nothing reads a pad. */
#include "passes/memory/memory.h"
#include <string.h>

static int64_t padded(int64_t extent, int64_t bytes, const Target *t) {
    const int64_t unit = t->vector_bytes / bytes;
    if (unit <= 1 || extent < unit) return extent;
    const int64_t up = (extent + unit - 1) / unit * unit;
    return (up - extent) * 4 <= extent ? up : extent;
}

bool layout_pads(const PassContext *c, const Node *n) {
    const int last = n->shape->rank - 1;
    if (last < 1 || c->disabled[PASS_layout]) return false;
    return padded(n->shape->dim[last].bound, dtype_bytes(n->dtype), c->target) != n->shape->dim[last].bound;
}

/* The parts of a concatenation lie in it behind each other. */
static void lay_out_parts(Plan *p, const Node *whole) {
    const PlanBuffer *b = &p->buffer[whole->id];
    const int axis = whole->attr->axis;
    int64_t start = b->start;
    for (int k = 0; k < whole->n_in; k++) {
        const Node *part = whole->in[k];
        PlanBuffer *x = &p->buffer[part->id];
        memcpy(x->stride, b->stride, sizeof x->stride);
        x->start = start;
        x->bytes = shape_elements(*part->shape) * dtype_bytes(part->dtype);
        start += part->shape->dim[axis].bound * b->stride[axis];
    }
}

void pass_layout(PassContext *c, Plan *p) {
    plan_check_sizes(c, p);
    if (c->failed) return;
    for (int i = p->graph->nodes.n - 1; i >= 0; i--) { /* the whole before its parts */
        const Node *n = p->graph->nodes.at[i];
        PlanBuffer *b = &p->buffer[i];
        int64_t stride = 1;
        if (plan_is_joined(p, n) && b->within) lay_out_parts(p, n);
        if (b->within) continue;
        const bool pads = b->home == HOME_ARENA && layout_pads(c, n);
        for (int d = n->shape->rank - 1; d >= 0; d--) {
            b->stride[d] = stride;
            const int64_t extent = n->shape->dim[d].bound;
            stride *= pads && d == n->shape->rank - 1 ? padded(extent, dtype_bytes(n->dtype), c->target) : extent;
        }
        b->bytes = stride * dtype_bytes(n->dtype);
        if (plan_is_joined(p, n)) lay_out_parts(p, n);
    }
}
