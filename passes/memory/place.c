/* place: an offset in one arena for every HOME_ARENA buffer and every workspace.
 *
 * Needs the order of `schedule`.  Two blocks share bytes only if one is dead before the other is written;
 * blocks of one kernel never share.  Zero-sized buffers get offset 0. */
#include "passes/memory/memory.h"

enum { SEARCH_WORK = 20000000 }; /* steps of arena_place's search; about a tenth of a second */

int64_t lay_block(Placing placing, int64_t *at, int64_t bytes, int64_t align) {
    const int64_t begin = *at, room = align_up(bytes, placing == PLACING_SHARED ? align : PLACING_PAGE);
    *at += room + (placing == PLACING_SHARED ? 0 : PLACING_GAP);
    return placing == PLACING_HIGH ? begin + room - bytes : begin;
}

static int64_t place_apart(Placing placing, int n, const int64_t *size, int64_t *offset) {
    int64_t at = 0;
    for (int i = 0; i < n; i++) offset[i] = lay_block(placing, &at, size[i], PLACING_PAGE);
    return at;
}

void pass_place(PassContext *c, Plan *p) {
    Arena *scratch = arena_new();
    Liveness l = plan_liveness(scratch, p);
    int *lower = ARENA_ARRAY(scratch, int, l.n + 1), *upper = ARENA_ARRAY(scratch, int, l.n + 1);
    int64_t *size = ARENA_ARRAY(scratch, int64_t, l.n + 1), *offset = ARENA_ARRAY(scratch, int64_t, l.n + 1);
    for (int i = 0; i < l.n; i++) {
        lower[i] = l.block[i].lower;
        upper[i] = l.block[i].upper;
        size[i] = l.block[i].bytes;
    }
    p->arena_bytes =
        arena_place(l.n, lower, upper, size, c->target->align, SEARCH_WORK, offset, &p->lower_bound);
    if (c->placing) p->arena_bytes = place_apart(c->placing, l.n, size, offset);
    for (int i = 0; i < l.n; i++) {
        if (l.block[i].node)
            p->buffer[l.block[i].node->id].offset = offset[i];
        else
            p->kernels.at[l.block[i].kernel].workspace_offset = offset[i];
    }
    for (int i = 0; i < p->graph->nodes.n; i++) {
        const Node *n = p->graph->nodes.at[i];
        PlanBuffer *b = &p->buffer[i];
        if (b->within) b->offset = p->buffer[l.in[i]->id].offset + b->start * dtype_bytes(n->dtype);
    }
    arena_free(scratch);
}
