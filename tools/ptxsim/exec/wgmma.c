/* Warpgroup operations: arrival of the warps, issue, landing, groups and waits. */
#include "tools/ptxsim/exec/wgmma.h"
#include <stdio.h>
#include <stdlib.h>

static void no_memory(Warp *w) { cluster_no_memory(w->cluster); }

/* ---- state -------------------------------------------------------------------------------------------- */
static WgmmaWarp *state_of(Warp *w) {
    if (!w->wgmma) w->wgmma = calloc(1, sizeof *w->wgmma);
    if (!w->wgmma) no_memory(w);
    return w->wgmma;
}

WgmmaWarp *wgmma_warp(Warp *w) {
    const Function *fn = w->frame[w->frames - 1].fn;
    WgmmaWarp *s = state_of(w);
    if (s && s->registers != w->base[BASE_REGS]) {
        free(s->slot);
        s->slot = calloc(fn->register_bytes / SLOT_BYTES + 1, sizeof *s->slot);
        s->registers = w->base[BASE_REGS];
    }
    if (s && s->slot) return s;
    no_memory(w);
    return NULL;
}

static WarpGroup *group_of(Warp *w) {
    Block *b = w->block;
    if (!b->warpgroup) b->warpgroup = calloc((size_t)(b->warps + 3) / 4, sizeof *b->warpgroup);
    WarpGroup *g = b->warpgroup ? &b->warpgroup[w->index / GROUP_WARPS] : NULL;
    if (g && !g->scratch) g->scratch = aligned_alloc(64, WGMMA_SCRATCH * sizeof *g->scratch);
    if (g && !g->least) g->least = calloc(3 * (size_t)w->cluster->agents, sizeof *g->least);
    if (g && g->scratch && g->least) return g;
    no_memory(w);
    return NULL;
}

static void op_free(WgmmaOp *op) {
    for (int k = 0; k < GROUP_WARPS; k++) free(op->fragments[k]);
    async_release(op->async);
    free(op);
}

static void sums_free(WgmmaSum *s) {
    for (WgmmaSum *next; s; s = next) {
        next = s->next;
        free(s->sum);
        free(s);
    }
}

static void warp_free(WgmmaWarp *s) {
    if (!s) return;
    sums_free(s->sums);
    sums_free(s->spare);
    free(s->flight);
    free(s->slot);
    free(s);
}

static void group_free(WarpGroup *g) {
    for (WgmmaOp *op = g->first; op; op = op->next)
        if (op->async) async_land(op->async);
    for (WgmmaOp *op = g->first, *next; op; op = next) {
        next = op->next;
        op_free(op);
    }
    free(g->scratch);
    free(g->least);
}

void wgmma_end(Cluster *c) {
    for (int r = 0; c->block && r < c->blocks; r++) {
        Block *b = &c->block[r];
        for (int k = 0; b->warpgroup && k < (b->warps + 3) / 4; k++) group_free(&b->warpgroup[k]);
        free(b->warpgroup);
        b->warpgroup = NULL;
        for (int k = 0; b->warp && k < b->warps; k++) {
            warp_free(b->warp[k].wgmma);
            b->warp[k].wgmma = NULL;
        }
    }
}

/* ---- one warp's part ---------------------------------------------------------------------------------- */
static bool whole_warp(Warp *w, uint32_t mask, const char *what) {
    if (mask == UINT32_MAX) return true;
    char note[120];
    snprintf(note, sizeof note, "%s needs all 32 lanes, 0x%08x execute it", what, mask);
    warp_report(w, REPORT_DIVERGENT, __builtin_ctz(mask), 0, 0, note);
    w->cluster->stuck = true;
    return false;
}

static bool whole_group(Warp *w) {
    const Block *b = w->block;
    const int last = w->index / GROUP_WARPS * GROUP_WARPS + GROUP_WARPS - 1;
    if (last < b->warps) return true;
    warp_report(w, REPORT_DIVERGENT, 0, 0, 0, "a warpgroup is four warps of the block, the first a multiple of 4");
    w->cluster->stuck = true;
    return false;
}

static uint64_t same_in_all_lanes(Warp *w, const Operand *o, const char *what) {
    const uint64_t v = lane_bits(w, o, 0);
    for (int l = 1; l < WARP; l++) {
        if (lane_bits(w, o, l) == v) continue;
        char note[80];
        snprintf(note, sizeof note, "%s differs between lanes", what);
        warp_report(w, REPORT_DESCRIPTOR, l, 0, 0, note);
        break;
    }
    return v;
}

/* The operation that this warp's next one is a part of. */
static WgmmaOp *op_join(Warp *w, WarpGroup *g, uint64_t number, const WgmmaOp *mine) {
    WgmmaOp **end = &g->first;
    while (*end && (*end)->number != number) end = &(*end)->next;
    if (!*end) {
        *end = malloc(sizeof **end);
        if (*end)
            **end = *mine;
        else
            no_memory(w);
        return *end;
    }
    const WgmmaOp *op = *end;
    const bool a = mine->inst->matrix->a.count == 0 && op->desc_a != mine->desc_a;
    if (op->inst == mine->inst && !a && op->desc_b == mine->desc_b && op->accumulate == mine->accumulate) return *end;
    char note[160];
    snprintf(note, sizeof note, "warps of a warpgroup execute different wgmma.mma_async: %s%d",
             op->inst == mine->inst ? "descriptors or scale-d differ; line " : "another warp that of line ",
             op->inst->line);
    warp_report(w, REPORT_DIVERGENT, 0, 0, 0, note);
    w->cluster->stuck = true;
    return NULL;
}

static bool same_list(const OperandList *a, const OperandList *b) {
    if (a->item == b->item) return true;
    if (a->count != b->count) return false;
    for (int k = 0; k < a->count; k++)
        if (a->item[k].offset != b->item[k].offset) return false;
    return true;
}

static WgmmaSum *sum_in_flight(const Warp *w, const WgmmaWarp *s, const MatrixForm *f) {
    for (WgmmaSum *x = s->sums; x; x = x->next)
        if (x->registers == w->base[BASE_REGS] && x->shape == wgmma_shape(f) && x->type == (PtxType)f->type_d &&
            same_list(x->list, &f->d))
            return x;
    return NULL;
}

static WgmmaSum *sum_new(WgmmaWarp *s) {
    WgmmaSum *x = s->spare;
    if (x) {
        s->spare = x->next;
        return x;
    }
    x = calloc(1, sizeof *x);
    if (x) x->sum = aligned_alloc(64, 256 / 8 * 4 * WARP * sizeof *x->sum);
    if (x && !x->sum) {
        free(x);
        return NULL;
    }
    return x;
}

/* Takes the accumulators out of the registers and leaves NaNs there. */
static WgmmaSum *sum_take(Warp *w, WgmmaWarp *s, const MatrixForm *f) {
    WgmmaSum *x = sum_new(s);
    if (!x) return NULL;
    x->list = &f->d;
    x->registers = w->base[BASE_REGS];
    x->type = (PtxType)f->type_d;
    x->shape = wgmma_shape(f);
    x->pending = 0;
    x->next = s->sums;
    s->sums = x;
    for (int k = 0; k < f->d.count; k++) {
        sum_widen(f->kernels, x->type, x->sum, lane_in(w, &f->d.item[k]), k);
        memset(lane_out(w, &f->d.item[k]), 0xff, WARP * sizeof(uint32_t));
    }
    return x;
}

static void sum_return(WgmmaWarp *s, WgmmaSum *x, const MatrixForm *f) {
    for (int k = 0; x->registers && k < f->d.count; k++) {
        uint32_t lanes[WARP];
        sum_narrow(f->kernels, x->type, lanes, x->sum, k);
        memcpy(x->registers + f->d.item[k].offset, lanes, sizeof lanes);
    }
    WgmmaSum **p = &s->sums;
    while (*p != x) p = &(*p)->next;
    *p = x->next;
    x->next = s->spare;
    s->spare = x;
}

static bool fragments_take(const Warp *w, WgmmaOp *op, int part) {
    const OperandList *a = &op->inst->matrix->a;
    uint32_t *copy = malloc((size_t)a->count * WARP * sizeof *copy);
    if (!copy) return false;
    for (int k = 0; k < a->count; k++) memcpy(copy + k * WARP, lane_in(w, &a->item[k]), WARP * sizeof *copy);
    op->fragments[part] = copy;
    return true;
}

static bool flight_add(WgmmaWarp *s, WgmmaOp *op, WgmmaSum *sum) {
    if (s->flights == s->room) {
        const int room = s->room ? 2 * s->room : 16;
        WgmmaFlight *grown = realloc(s->flight, sizeof *grown * (size_t)room);
        if (!grown) return false;
        s->flight = grown;
        s->room = room;
    }
    s->flight[s->flights++] = (WgmmaFlight){.op = op, .sum = sum, .group = s->commits};
    sum->pending++;
    sum->fences = s->fences;
    op->held++;
    return true;
}

static bool part_take(Warp *w, WgmmaWarp *s, WgmmaOp *op) {
    const MatrixForm *f = op->inst->matrix;
    const int part = w->index % GROUP_WARPS;
    WgmmaSum *sum = sum_in_flight(w, s, f);
    wgmma_check_registers(w, f, sum);
    if (f->a.count && !fragments_take(w, op, part)) return false;
    if (!sum) {
        sum = sum_take(w, s, f);
        wgmma_mark_sum(s, f, true, 0);
    }
    if (!sum || !flight_add(s, op, sum)) return false;
    wgmma_mark_fragments(s, f, true);
    op->sum[part] = sum;
    op->arrived |= UINT32_C(1) << part;
    s->number++;
    return true;
}

/* ---- issue and landing -------------------------------------------------------------------------------- */
/* Operations of a warpgroup land in order: those before this one, too. */
static void land(AsyncOp *a) {
    WgmmaOp *last = a->data;
    for (WgmmaOp *op = last->group->first; op; op = op == last ? NULL : op->next) {
        if (op->computed) continue;
        op->computed = true;
        if (!op->refused) wgmma_compute(a->warp->block, op);
    }
}

/* What all four warps have seen: less than that does not order the operation after a write. */
static Clock least_clock(const Warp *w, const WarpGroup *g) {
    const int n = w->cluster->agents, first = w->index / GROUP_WARPS * GROUP_WARPS;
    Clock c = w->clock;
    c.seen = g->least, c.own = c.seen + n, c.fenced[PROXY_SHARED] = c.own + n; /* operands lie in shared memory */
    memset(c.seen, 0xff, 3 * (size_t)n * sizeof *c.seen);
    Time *fenced = c.fenced[PROXY_SHARED];
    for (int k = 0; k < GROUP_WARPS; k++) {
        const Clock *from = &w->block->warp[first + k].clock;
        for (int x = 0; x < n; x++) {
            c.seen[x] = from->seen[x] < c.seen[x] ? from->seen[x] : c.seen[x];
            c.own[x] = from->own[x] < c.own[x] ? from->own[x] : c.own[x];
            fenced[x] = from->fenced[PROXY_SHARED][x] < fenced[x] ? from->fenced[PROXY_SHARED][x] : fenced[x];
        }
    }
    return c;
}

static void issue(Warp *w, WarpGroup *g, WgmmaOp *op) {
    const MatrixForm *f = op->inst->matrix;
    AsyncOp *a = async_new(w, 0);
    if (!a) return;
    a->async_proxy = true;
    a->data = op;
    a->land = land;
    op->async = a;
    async_hold(a);
    if (!f->a.count) wgmma_check_descriptor(w, 'A', op->desc_a, f->trans_a);
    wgmma_check_descriptor(w, 'B', op->desc_b, f->trans_b);
    const Clock own = w->clock;
    w->clock = least_clock(w, g);
    op->refused = !wgmma_read_operands(w, a, op);
    w->clock = own;
    async_issue(a);
}

void exec_wgmma(Warp *w, const Inst *i, uint32_t mask) {
    const MatrixForm *f = i->matrix;
    if (!whole_warp(w, mask, "wgmma.mma_async") || !whole_group(w)) return;
    WarpGroup *g = group_of(w);
    WgmmaWarp *s = g ? wgmma_warp(w) : NULL;
    if (!s) return;
    const WgmmaOp mine = {.group = g,
                          .number = s->number,
                          .inst = i,
                          .desc_a = f->a.count ? 0 : same_in_all_lanes(w, &f->desc_a, "the descriptor of A"),
                          .desc_b = same_in_all_lanes(w, &f->desc_b, "the descriptor of B"),
                          .accumulate = same_in_all_lanes(w, &f->scale_d, "scale-d") & 1};
    WgmmaOp *op = op_join(w, g, s->number, &mine);
    if (!op) return;
    if (!part_take(w, s, op))
        no_memory(w);
    else if (op->arrived == (1 << GROUP_WARPS) - 1)
        issue(w, g, op);
}

/* ---- fence, groups, waits ----------------------------------------------------------------------------- */
void exec_wgmma_fence(Warp *w, const Inst *i, uint32_t mask) {
    (void)i;
    if (!whole_warp(w, mask, "wgmma.fence") || !whole_group(w)) return;
    WgmmaWarp *s = state_of(w);
    if (s) s->fences++;
}

void exec_wgmma_commit(Warp *w, const Inst *i, uint32_t mask) {
    (void)i;
    if (!whole_warp(w, mask, "wgmma.commit_group") || !whole_group(w)) return;
    WgmmaWarp *s = state_of(w);
    if (s) s->commits++;
}

static bool all_arrived(const WgmmaWarp *s) {
    for (int k = 0; k < s->flights && s->flight[k].group < s->wait_below; k++)
        if (!s->flight[k].op->async) return false;
    return true;
}

static void op_done(WgmmaOp *op) {
    if (--op->held || op->arrived != (1 << GROUP_WARPS) - 1) return;
    WgmmaOp **p = &op->group->first;
    while (*p != op) p = &(*p)->next;
    *p = op->next;
    op_free(op);
}

static void retire(Warp *w, WgmmaWarp *s, const WgmmaFlight *x) {
    const MatrixForm *f = x->op->inst->matrix;
    AsyncOp *a = x->op->async;
    async_land(a);
    a->waited = true;
    clock_observe(w, a->agent, a->time, false);
    const bool here = s->registers && x->sum->registers == s->registers;
    if (here) wgmma_mark_fragments(s, f, false);
    if (--x->sum->pending == 0) {
        if (here) wgmma_mark_sum(s, f, false, x->sum->fences);
        sum_return(s, x->sum, f);
    }
    op_done(x->op);
}

bool wgmma_land_awaited(Warp *w) {
    WgmmaWarp *s = w->wgmma;
    int n = 0;
    if (!all_arrived(s)) return false;
    while (n < s->flights && s->flight[n].group < s->wait_below) retire(w, s, &s->flight[n++]);
    s->flights -= n;
    memmove(s->flight, s->flight + n, (size_t)s->flights * sizeof *s->flight);
    return true;
}

void wgmma_explain(const Warp *w, char *note, size_t room) {
    const WgmmaWarp *s = w->wgmma;
    int k = 0;
    while (s->flight[k].op->async) k++;
    const uint32_t absent = ~s->flight[k].op->arrived;
    snprintf(note, room, "waits for the wgmma.mma_async of line %d, which warp %d of the block has not executed",
             s->flight[k].op->inst->line, w->index / GROUP_WARPS * GROUP_WARPS + __builtin_ctz(absent));
}

void wgmma_await_all(Warp *w) { w->wgmma->wait_below = w->wgmma->commits + 1; }

void exec_wgmma_wait(Warp *w, const Inst *i, uint32_t mask) {
    if (!whole_warp(w, mask, "wgmma.wait_group") || !whole_group(w)) return;
    WgmmaWarp *s = state_of(w);
    if (!s) return;
    s->wait_below = (uint64_t)i->offset < s->commits ? s->commits - (uint32_t)i->offset : 0;
    if (!wgmma_land_awaited(w)) suspend(w, i, mask, wgmma_land_awaited, wgmma_explain);
}

/* ---- the end of a frame ------------------------------------------------------------------------------- */
void wgmma_frame_left(Warp *w, const uint8_t *registers) {
    WgmmaWarp *s = w->wgmma;
    if (!s) return;
    for (int k = 0; k < s->flights && !w->cluster->stuck; k++) {
        const WgmmaFlight *x = &s->flight[k];
        if (x->sum->registers != registers) continue;
        w->at = x->op->inst;
        warp_report(w, REPORT_MISSING_WAIT, 0, 0, 0,
                    x->group == s->commits ? "its accumulators end before a wgmma.commit_group"
                                           : "its accumulators end before a wgmma.wait_group for it");
        if (x->op->async) x->op->async->waited = true;
    }
    for (WgmmaSum *x = s->sums; x; x = x->next)
        if (x->registers == registers) x->registers = NULL;
    if (s->registers == registers) s->registers = NULL;
}
