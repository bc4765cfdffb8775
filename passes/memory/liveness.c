/* When each block of arena memory is needed, from the order of kernels. */
#include "passes/memory/memory.h"

/* last[block]: position of the last kernel that reads it, or that writes to it if none does. */
static int *last_uses(Arena *a, const Plan *p) {
    int *last = ARENA_ARRAY(a, int, p->graph->nodes.n + 1);
    for (int at = 0; at < p->kernels.n; at++) {
        const PlanKernel *k = &p->kernels.at[p->order[at]];
        for (int i = 0; i < k->reads.n; i++) last[plan_block(p, k->reads.at[i])->id] = at;
        for (int i = 0; i < k->outputs.n; i++) last[plan_block(p, k->outputs.at[i])->id] = at;
    }
    return last;
}

Liveness plan_liveness(Arena *a, const Plan *p) {
    int room = 0;
    for (int k = 0; k < p->kernels.n; k++) room += p->kernels.at[k].outputs.n + 1;
    const int *last = last_uses(a, p);
    bool *begun = ARENA_ARRAY(a, bool, p->graph->nodes.n + 1);
    Liveness l = {.block = ARENA_ARRAY(a, LiveBlock, room + 1)};
    for (int at = 0; at < p->kernels.n; at++) {
        int kernel = p->order[at];
        const PlanKernel *k = &p->kernels.at[kernel];
        for (int i = 0; i < k->outputs.n; i++) {
            const Node *n = plan_block(p, k->outputs.at[i]);
            const PlanBuffer *b = &p->buffer[n->id];
            const bool begins = b->home == HOME_ARENA && !begun[n->id];
            begun[n->id] = true;
            if (begins)
                l.block[l.n++] = (LiveBlock){n, kernel, at, last[n->id] + 1, b->bytes, b->offset};
        }
        if (k->workspace) l.block[l.n++] = (LiveBlock){NULL, kernel, at, at + 1, k->workspace, 0};
    }
    return l;
}
