/* When each block of arena memory is needed, from the order of kernels. */
#include "passes/memory/memory.h"

/* By node id: whose memory the value has: the outermost one's that it lies in, or its own.  Each is looked for once: sums that go over
 * their first terms are a chain as long as the model. */
static const Node **find_blocks(Arena *a, const Plan *p) {
    const Node **block = ARENA_ARRAY(a, const Node *, p->graph->nodes.n + 1);
    for (int i = 0; i < p->graph->nodes.n; i++) {
        const Node *n = p->graph->nodes.at[i], *root = n;
        while (!block[root->id] && p->buffer[root->id].within) root = p->buffer[root->id].within;
        if (block[root->id]) root = block[root->id];
        for (; n && !block[n->id]; n = p->buffer[n->id].within) block[n->id] = root;
    }
    return block;
}

/* last[block]: position of the last kernel that reads it, or that writes to it if none does. */
static int *last_uses(Arena *a, const Plan *p, const Node *const *block) {
    int *last = ARENA_ARRAY(a, int, p->graph->nodes.n + 1);
    for (int at = 0; at < p->kernels.n; at++) {
        const PlanKernel *k = &p->kernels.at[p->order[at]];
        for (int i = 0; i < k->reads.n; i++) last[block[k->reads.at[i]->id]->id] = at;
        for (int i = 0; i < k->outputs.n; i++) last[block[k->outputs.at[i]->id]->id] = at;
    }
    return last;
}

Liveness plan_liveness(Arena *a, const Plan *p) {
    int room = 0;
    for (int k = 0; k < p->kernels.n; k++) room += p->kernels.at[k].outputs.n + 1;
    const Node **in = find_blocks(a, p);
    const int *last = last_uses(a, p, in);
    bool *begun = ARENA_ARRAY(a, bool, p->graph->nodes.n + 1);
    Liveness l = {.in = in, .block = ARENA_ARRAY(a, LiveBlock, room + 1)};
    for (int at = 0; at < p->kernels.n; at++) {
        int kernel = p->order[at];
        const PlanKernel *k = &p->kernels.at[kernel];
        for (int i = 0; i < k->outputs.n; i++) {
            const Node *n = in[k->outputs.at[i]->id];
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
