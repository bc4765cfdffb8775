#include "ir/tile_spread.h"
#include <string.h>

/* ---- one axis ------------------------------------------------------------------------------------------- */
unsigned spread_threads(const Axis *x) {
    unsigned mask = 0;
    for (int b = 0; b < x->spread.n; b++)
        if (x->spread.bit[b] != SPREAD_REGISTER) mask |= 1u << x->spread.bit[b];
    return mask;
}

int spread_registers(const Axis *x) {
    int n = x->step;
    for (int b = 0; b < x->spread.n; b++)
        if (x->spread.bit[b] != SPREAD_REGISTER) n /= 2;
    return n;
}

int spread_offset(const Axis *x, int r) {
    int at = 0;
    for (int b = 0; b < x->spread.n; b++) {
        if (x->spread.bit[b] != SPREAD_REGISTER) continue;
        at += (r & 1) << b;
        r >>= 1;
    }
    return at + (r << x->spread.n);
}

int spread_vector(const Axis *x) {
    for (int b = 0; b < x->spread.n; b++)
        if (x->spread.bit[b] != SPREAD_REGISTER) return 1 << b;
    return x->step;
}

const char *spread_check(const Axis *x, int threads) {
    unsigned seen = 0;
    if (x->spread.n < 0 || x->spread.n > MAX_SPREAD) return "has an impossible spread";
    if (x->step % (1 << x->spread.n)) return "has a step that is no multiple of its spread";
    for (int b = 0; b < x->spread.n; b++) {
        const int t = x->spread.bit[b];
        if (t == SPREAD_REGISTER) continue;
        if (t < 0 || t > MAX_SPREAD || 2 << t > threads) return "is spread over more threads than there are";
        if (seen >> t & 1) return "is spread over one thread bit twice";
        seen |= 1u << t;
    }
    return NULL;
}

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
        if (i->from) need_index(i->from, only);
        if (i->to) need_index(i->to, only);
        mark_block(&i->body, only);
        if (i->result >= 0 && !floats && i->kind != TI_STAGE) need(only, i->result);
        if (i->kind == TI_STAGE || (i->kind == TI_STORE && i->by != BY_NONE)) continue;
        if (i->result >= 0 && floats && only[i->result]) continue;
        const int shared = i->kind == TI_DOT ? 2 : 0; /* a dot reads its factors where they are */
        for (int k = shared; k < i->n_in; k++) need(only, i->in[k]);
        if (i->kind == TI_DOT && i->by == BY_MMA) need(only, i->in[0]); /* in registers, unless it is staged */
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

/* Nor is a tile in shared memory there any more when another is filled, which may lie in its place. */
static bool reads_staged(const Block *b, int at) {
    for (int n = 0; n < at; n++)
        for (int k = 0; k < b->at[at]->n_in && b->at[n]->kind == TI_STAGE && b->at[at]->kind == TI_ELEMENT; k++)
            if (b->at[at]->in[k] == b->at[n]->result) return true;
    return false;
}

static bool spread_block(const Kernel *k, const Block *b, bool *only) {
    bool changed = false;
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        changed |= spread_block(k, &i->body, only);
        if (i->result < 0 || !only[i->result] || i->kind == TI_STAGE) continue;
        if (reads_registers(k, i, only) || reads_staged(b, n)) only[i->result] = false, changed = true;
    }
    return changed;
}

void kernel_staged_only(const Kernel *k, bool *only) {
    for (int v = 0; v < k->types.n; v++) only[v] = true;
    mark_block(&k->body, only);
    while (spread_block(k, &k->body, only)) mark_block(&k->body, only);
}

/* ---- which axes are spread together ------------------------------------------------------------------------- */
static void occur(const TileType *t, uint32_t *with) {
    for (int i = 0; i < t->n_axes; i++)
        for (int j = 0; j < t->n_axes; j++) with[t->axis[i]] |= (uint32_t)1 << t->axis[j];
}

static void occurrences(const Kernel *k, const Block *b, const bool *only, uint32_t *with) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        if (i->result >= 0 && !only[i->result] && i->kind != TI_STAGE) occur(&i->type, with);
        for (int c = 0; c < i->n_carry; c++) occur(&k->types.at[i->results[c]], with);
        if (i->kind == TI_STORE && i->by == BY_NONE) {
            TileType t = k->types.at[i->in[0]];
            for (int d = 0; d < i->n_index; d++) index_axes(k, i->index[d], &t);
            occur(&t, with);
        }
        occurrences(k, &i->body, only, with);
    }
}

void kernel_together(Arena *a, const Kernel *k, uint32_t with[MAX_AXES]) {
    bool *only = ARENA_ARRAY(a, bool, k->types.n + 1);
    memset(with, 0, MAX_AXES * sizeof *with);
    kernel_staged_only(k, only);
    occurrences(k, &k->body, only, with);
}

const char *kernel_check_spreads(Arena *a, const Kernel *k) {
    uint32_t with[MAX_AXES];
    for (int x = 0; x < k->axes.n; x++) {
        const char *why = spread_check(&k->axes.at[x], k->threads);
        if (why) return arena_printf(a, "axis %s %s", k->axes.at[x].name, why);
    }
    if (!k->threads) return NULL;
    kernel_together(a, k, with);
    for (int x = 0; x < k->axes.n; x++)
        for (int y = 0; y < x; y++)
            if (with[x] >> y & 1 && spread_threads(&k->axes.at[x]) & spread_threads(&k->axes.at[y]))
                return arena_printf(a, "axes %s and %s of one tile share thread bits", k->axes.at[y].name, k->axes.at[x].name);
    return NULL;
}
