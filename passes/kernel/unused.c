/* tile: what an emitter made and nothing uses goes: a load that is left would read memory of which the plan does not know that it
 * is read.  Needs: a kernel that is not scheduled yet.  Keeps: what it stores. */
#include "passes/kernel/emitter.h"

static void use_index(const Index *x, bool *used) {
    for (int i = 0; x && i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        if (a->kind == ATOM_VALUE) used[a->id] = true;
        if (a->kind == ATOM_DIV || a->kind == ATOM_MOD) use_index(a->num, used), use_index(a->den, used);
    }
}

static void drop_block(Block *b, bool *used) {
    int kept = b->n;
    for (int n = b->n - 1; n >= 0; n--) {
        Inst *i = b->at[n];
        if (i->result >= 0 && !used[i->result]) continue;
        for (int k = 0; k < i->n_in; k++) used[i->in[k]] = true;
        for (int k = 0; k < i->n_carry; k++) used[i->init[k]] = true;
        for (int k = 0; k < i->n_index; k++) use_index(i->index[k], used);
        use_index(i->from, used), use_index(i->to, used);
        drop_block(&i->body, used);
        b->at[--kept] = i;
    }
    for (int n = kept; n < b->n; n++) b->at[n - kept] = b->at[n];
    b->n -= kept;
}

void kernel_drop_unused(Kernel *k) { drop_block(&k->body, ARENA_ARRAY(k->arena, bool, k->types.n + 1)); }
