/* layout: strides of every buffer (the order of dims is chosen in physical_order.c).
 *
 * Needs: homes.  Keeps: logical shapes.  Scratch tensors get a leading dimension padded to the target's
 * access width where that costs at most a quarter; whatever the caller sees stays dense.  Padding is
 * allocation only: nothing reads a pad. */
#include "passes/pass.h"

static int64_t padded(int64_t extent, int64_t bytes, const Target *t) {
    const int64_t unit = t->vector_bytes / bytes;
    if (unit <= 1 || extent < unit) return extent;
    const int64_t up = (extent + unit - 1) / unit * unit;
    return (up - extent) * 4 <= extent ? up : extent;
}

void pass_layout(PassContext *c, Plan *p) {
    for (int i = 0; i < p->graph->nodes.n; i++) {
        const Node *n = p->graph->nodes.at[i];
        PlanBuffer *b = &p->buffer[i];
        int64_t stride = 1;
        const bool pads = b->home == HOME_ARENA && n->shape.rank >= 2 && !c->disabled[PASS_layout];
        for (int d = n->shape.rank - 1; d >= 0; d--) {
            b->stride[d] = stride;
            const int64_t extent = n->shape.dim[d].bound;
            stride *= pads && d == n->shape.rank - 1 ? padded(extent, dtype_bytes(n->dtype), c->target) : extent;
        }
        b->bytes = stride * dtype_bytes(n->dtype);
    }
}
