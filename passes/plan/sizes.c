/* sizes: what lies in memory is not too large.
 *
 * Needs the homes of `fuse`.  Values of a graph may have more elements than memory (ir/shape.h), as the terms of a sum, of which each is
 * computed where it is added.  Which values are in memory is known from the plan on; from here on their bytes are added up. */
#include "passes/pass.h"
#include <inttypes.h>

static bool is_too_large(const PassContext *c, const PlanBuffer *b, const Node *n) {
    if (b->home == HOME_ARENA) return !pass_fits_memory(c, n);
    return b->home != HOME_NONE && shape_elements(*n->shape) > MAX_ELEMENTS;
}

static void refuse(PassContext *c, const Node *n) {
    const bool fused = !c->disabled[PASS_fuse] && !c->disabled[PASS_chunk];
    c->failed = true;
    if (!c->report) return;
    const char *message = arena_printf(c->arena, "a tensor %s has to be in memory, and has more than %" PRId64 " elements",
                                       shape_text(c->arena, *n->shape), c->most_elements ? c->most_elements : MAX_ELEMENTS);
    c->report(c->user, COMPLAINT_TOO_LARGE, n->loc, message,
              fused ? "compute it in parts, or add it up as it is: what is computed element by element and then reduced needs no memory"
                    : "leave -fno-fuse and -fno-chunk out: with them more values are in memory, and whole");
}

/* The first alone: what is computed from it is often as large. */
void plan_check_sizes(PassContext *c, const Plan *p) {
    for (int i = 0; i < p->graph->nodes.n && !c->failed; i++)
        if (is_too_large(c, &p->buffer[i], p->graph->nodes.at[i])) refuse(c, p->graph->nodes.at[i]);
}
