#include "ir/tile_lanes.h"
#include <string.h>

/* ---- which values only ever reach shared memory ------------------------------------------------------- */
static void need(bool *only, int v) { only[v] = false; }

static void need_index(const Index *x, bool *only) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        if (a->kind == ATOM_VALUE) need(only, a->id);
        if (a->kind == ATOM_DIV || a->kind == ATOM_MOD) need_index(a->num, only), need_index(a->den, only);
    }
}

static void mark_block(const Block *b, bool *only) {
    for (int n = b->n - 1; n >= 0; n--) {
        const Inst *i = b->at[n];
        const bool floats = i->kind == TI_CONST || i->kind == TI_FULL || i->kind == TI_INDEX || i->kind == TI_LOAD ||
                            i->kind == TI_ELEMENT;
        for (int c = 0; c < i->n_carry; c++) {
            need(only, i->init[c]);
            need(only, i->results[c]);
            if (i->carry) need(only, i->carry[c]);
        }
        mark_block(&i->body, only);
        if (i->result >= 0 && !floats && i->kind != TI_STAGE) need(only, i->result);
        if (i->kind == TI_STAGE || (i->result >= 0 && floats && only[i->result])) continue;
        const int shared = i->kind == TI_DOT ? 2 : 0; /* a dot reads its factors where they are */
        for (int k = shared; k < i->n_in; k++) need(only, i->in[k]);
        for (int k = 0; k < i->n_index; k++) need_index(i->index[k], only);
    }
}

static bool index_reads_registers(const Kernel *k, const Index *x, const bool *only) {
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        if (a->kind == ATOM_VALUE && !only[a->id] && k->types.at[a->id].n_axes > 0) return true;
        if ((a->kind == ATOM_DIV || a->kind == ATOM_MOD) && index_reads_registers(k, a->num, only)) return true;
    }
    return false;
}

/* A staged value that reads a register tile (a reduction, something carried) has to be in registers too. */
static bool reads_registers(const Kernel *k, const Inst *i, const bool *only) {
    for (int n = 0; n < i->n_in; n++)
        if (!only[i->in[n]] && k->types.at[i->in[n]].n_axes > 0) return true;
    for (int n = 0; n < i->n_index; n++)
        if (index_reads_registers(k, i->index[n], only)) return true;
    return false;
}

static bool spread_block(const Kernel *k, const Block *b, bool *only) {
    bool changed = false;
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        changed |= spread_block(k, &i->body, only);
        if (i->result < 0 || !only[i->result] || i->kind == TI_STAGE) continue;
        if (reads_registers(k, i, only)) only[i->result] = false, changed = true;
    }
    return changed;
}

void kernel_staged_only(const Kernel *k, bool *only) {
    for (int v = 0; v < k->types.n; v++) only[v] = true;
    mark_block(&k->body, only);
    while (spread_block(k, &k->body, only)) mark_block(&k->body, only);
}

/* ---- thread bits ---------------------------------------------------------------------------------------------- */
static void occur(const TileType *t, uint32_t *with) {
    for (int i = 0; i < t->n_axes; i++)
        for (int j = 0; j < t->n_axes; j++) with[t->axis[i]] |= (uint32_t)1 << t->axis[j];
}

static void occurrences(const Kernel *k, const Block *b, const bool *only, uint32_t *with) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        if (i->result >= 0 && !only[i->result] && i->kind != TI_STAGE) occur(&i->type, with);
        for (int c = 0; c < i->n_carry; c++) occur(&k->types.at[i->results[c]], with);
        if (i->kind == TI_STORE) {
            TileType t = k->types.at[i->in[0]];
            for (int d = 0; d < i->n_index; d++) index_axes(k, i->index[d], &t);
            occur(&t, with);
        }
        occurrences(k, &i->body, only, with);
    }
}

bool kernel_lane_strides(Arena *a, const Kernel *k, int stride[MAX_AXES]) {
    uint32_t with[MAX_AXES] = {0};
    bool *only = ARENA_ARRAY(a, bool, k->types.n + 1);
    kernel_staged_only(k, only);
    occurrences(k, &k->body, only, with);
    for (int x = k->axes.n - 1; x >= 0; x--) { /* inner axes, mostly contiguous in memory, get the low bits */
        const int lanes = k->axes.at[x].lanes > 0 ? k->axes.at[x].lanes : 1;
        int taken = 0; /* thread bits of axes already placed that share a tile with this one */
        for (int y = x + 1; y < k->axes.n; y++)
            if (with[x] >> y & 1) taken |= (k->axes.at[y].lanes > 1 ? k->axes.at[y].lanes - 1 : 0) * stride[y];
        int s = 1;
        while (s * lanes <= k->threads && ((lanes - 1) * s & taken)) s *= 2;
        if (lanes > 1 && s * lanes > k->threads) return false;
        stride[x] = s;
    }
    return true;
}
