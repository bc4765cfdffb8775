#include "codegen/nvptx/hopper_layout.h"

bool hopper_wanted(const Kernel *k) { return k->producer > 0; }

/* ---- which products may run one iteration behind ---------------------------------------------------------------- */
static bool reads(const Block *b, int value, const Inst *except) {
    for (int n = 0; n < b->n; n++) {
        const Inst *i = b->at[n];
        for (int v = 0; v < i->n_in && i != except; v++)
            if (i->in[v] == value) return true;
        for (int c = 0; c < i->n_carry; c++)
            if (i->init[c] == value) return true;
        if (reads(&i->body, value, except)) return true;
    }
    return false;
}

/* It adds to what the loop carries, and nothing in the loop looks at either. */
static bool only_accumulates(const Inst *loop, const Inst *dot) {
    const Inst *yield = loop->body.at[loop->body.n - 1];
    for (int c = 0; c < loop->n_carry; c++) {
        if (loop->carry[c] != dot->in[2]) continue;
        return yield->in[c] == dot->result && !reads(&loop->body, dot->in[2], dot) &&
               !reads(&loop->body, dot->result, yield);
    }
    return false;
}

static const Inst *staged_by_tma(const Block *b, int value) {
    for (int n = 0; n < b->n; n++)
        if (b->at[n]->result == value) return b->at[n]->kind == TI_STAGE && b->at[n]->by == BY_TMA ? b->at[n] : NULL;
    return NULL;
}

bool hopper_from_registers(const Inst *stage, const Inst *dot) {
    return dtype_bytes(stage->type.dtype) == 4 && stage->minor - 1 != dot->over[0];
}

/* Nothing of the loop waits for the matrix units, and what they read stays until they are done.
 * Two slots are in use then, the one that is read and the one before it. */
bool hopper_deferred(const Inst *loop) {
    int products = 0;
    if (loop && loop->ahead < 1) return false;
    for (int n = 0; loop && n < loop->body.n; n++) {
        const Inst *i = loop->body.at[n];
        if (i->kind == TI_CONST || i->kind == TI_INDEX || i->kind == TI_LOAD || i->kind == TI_ELEMENT || i->kind == TI_YIELD ||
            (i->kind == TI_STAGE && i->by == BY_TMA))
            continue;
        if (i->kind != TI_DOT || i->by != BY_WGMMA || !only_accumulates(loop, i)) return false;
        const Inst *rows = staged_by_tma(&loop->body, i->in[0]);
        if (!rows || !staged_by_tma(&loop->body, i->in[1]) || hopper_from_registers(rows, i)) return false;
        products++;
    }
    return products > 0;
}

/* ---- rings ------------------------------------------------------------------------------------------------------- */
typedef struct Layer {
    const Kernel *k;
    const StagePlan *plan;
    HopperLayout *l;
} Layer;

static const char *add_map(const Layer *y, const Inst *i) {
    HopperLayout *l = y->l;
    const int n = l->n_maps;
    if (n == FUSEC_MAX_MAPS) return "too many tensor maps";
    l->copy[n] = i;
    const char *why = kernel_tensor_map(y->k, i, &l->map[n]);
    if (why) return why;
    const int family = y->k->buffers.at[l->map[n].buffer].family;
    l->first[++l->n_maps] = l->first[n] + (family ? family : 1);
    return l->first[l->n_maps] > FUSEC_MAX_MAPS ? "too many tensor maps" : NULL;
}

static const char *add_stage(const Layer *y, HopperRing *r, const Inst *i) {
    const int at = r->n_stages;
    HopperLayout *l = y->l;
    if (at == HOPPER_RING_STAGES) return "a loop fetches more than six tiles";
    r->stage[at] = i;
    r->map[at] = l->n_maps;
    r->at[at] = y->plan->offset[i->result];
    stage_layout(y->k, i, &r->layout[at]);
    r->copied += r->layout[at].slot;
    r->multicast |= i->multicast;
    r->n_stages++;
    return add_map(y, i);
}

static void add_ring(const Layer *y, HopperRing ring) {
    HopperLayout *l = y->l;
    ring.first = l->n_rings;
    for (int r = 0; r < l->n_rings && ring.loop; r++)
        if (l->ring[r].loop && l->ring[r].loop == stage_ring(y->k, ring.loop)) ring.first = r;
    l->ring[l->n_rings++] = ring;
}

static const char *walk(const Layer *y, const Block *b, const Inst *loop, bool conditional) {
    HopperRing ring = {.loop = loop, .slots = (loop ? loop->ahead : 0) + 1, .deferred = hopper_deferred(loop)};
    const char *why = NULL;
    for (int n = 0; n < b->n && !why; n++)
        if (b->at[n]->kind == TI_STAGE && b->at[n]->by == BY_TMA) why = add_stage(y, &ring, b->at[n]);
    if (!why && ring.n_stages && conditional) why = "a tile is fetched under a condition";
    if (!why && ring.n_stages && y->l->n_rings == HOPPER_MAX_RINGS) why = "more than eight loops fetch tiles";
    if (!why && ring.n_stages) add_ring(y, ring);
    for (int n = 0; n < b->n && !why; n++) {
        const Inst *i = b->at[n];
        if (i->kind == TI_FOR) why = walk(y, &i->body, i, conditional);
        if (i->kind == TI_IF) why = walk(y, &i->body, loop, true);
    }
    return why;
}

static const char *add_stores(const Layer *y, const Block *b) {
    const char *why = NULL;
    for (int n = 0; n < b->n && !why; n++) {
        const Inst *i = b->at[n];
        if (i->kind == TI_STORE && i->by == BY_TMA) why = add_map(y, i);
        if (!why) why = add_stores(y, &i->body);
    }
    return why;
}

const char *hopper_layout(Arena *a, const Kernel *k, HopperLayout *out) {
    StagePlan plan;
    const Layer y = {k, &plan, out};
    *out = (HopperLayout){0};
    stage_plan(a, k, &plan);
    const char *why = walk(&y, &k->body, NULL, false);
    if (!why) why = add_stores(&y, &k->body);
    if (why) return why;
    out->bytes = (plan.bytes + 7) / 8 * 8;
    for (int r = 0; r < out->n_rings; r++) {
        const int first = out->ring[r].first;
        if (first != r) {
            out->ring[r].full = out->ring[first].full;
            out->ring[r].empty = out->ring[first].empty;
            continue;
        }
        out->ring[r].full = out->bytes;
        out->ring[r].empty = out->bytes + 8 * out->ring[r].slots;
        out->bytes += 16 * out->ring[r].slots;
    }
    out->turn = out->bytes;
    if (k->alternate > 1) out->bytes += 8 * k->alternate;
    return NULL;
}
