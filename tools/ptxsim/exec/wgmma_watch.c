/* Registers of wgmma: who touches accumulators and fragments of A in flight, and whether a wgmma.fence lies between an
 * access and the wgmma.mma_async after it.  When a function is decoded, the instructions that name a register which
 * some wgmma.mma_async of it names too are found, and run through exec_watched; all others cost nothing. Source: PTX
 * ISA, wgmma.fence, wgmma.mma_async, wgmma.wait_group. */
#include "tools/ptxsim/exec/wgmma.h"
#include "tools/ptxsim/ptx/lower_matrix.h"
#include <stdio.h>

/* ---- at run time -------------------------------------------------------------------------------------- */
struct RegisterWatch {
    ExecFn run;
    const uint32_t *slot; /* register offset / SLOT_BYTES: first those it reads, then those it writes */
    int reads, count;
};

static const RegisterWatch *watch_of(const Warp *w, const Inst *i) {
    const Function *fn = w->frame[w->frames - 1].fn;
    return &fn->watch[i - fn->code];
}

static void run_watched(Warp *w, const Inst *i, uint32_t mask) {
    const RegisterWatch *x = watch_of(w, i);
    const WgmmaWarp *s = wgmma_warp(w);
    for (int k = 0; s && k < x->count; k++) s->slot[x->slot[k]].touched = s->fences + 1;
    x->run(w, i, mask);
}

static bool wake_watched(Warp *w) {
    if (!wgmma_land_awaited(w)) return false;
    w->at = w->wait_inst;
    run_watched(w, w->wait_inst, w->wait_mask);
    return true;
}

/* Accumulators in flight are read: ptxas sees it, and injects a wait for everything in flight in front of the instruction (C7514,
 * C7517). */
static void exec_watched(Warp *w, const Inst *i, uint32_t mask) {
    const RegisterWatch *x = watch_of(w, i);
    const WgmmaWarp *s = wgmma_warp(w);
    bool sum_read = false, sum_written = false, fragment_flies = false;
    for (int k = 0; s && k < x->count; k++) {
        *(k < x->reads ? &sum_read : &sum_written) |= s->slot[x->slot[k]].sum_flies;
        fragment_flies |= s->slot[x->slot[k]].fragment_flies != 0;
    }
    if (fragment_flies || sum_written)
        warp_report(w, REPORT_IN_FLIGHT, __builtin_ctz(mask), 0, 0,
                    sum_written ? "an accumulator of a wgmma.mma_async written before a wgmma.wait_group for it"
                                : "a register of A of a wgmma.mma_async before a wgmma.wait_group for it");
    if (!sum_read) {
        run_watched(w, i, mask);
        return;
    }
    warp_report(w, REPORT_INJECTED_WAIT, __builtin_ctz(mask), 0, 0,
                "an accumulator of a wgmma.mma_async before a wgmma.wait_group for it; ptxas injects one");
    wgmma_await_all(w);
    suspend(w, i, mask, wake_watched, wgmma_explain);
    if (wake_watched(w)) w->state = WARP_READY;
}

static WgmmaSlot *slot_of(const WgmmaWarp *s, const Operand *o) { return &s->slot[o->offset / SLOT_BYTES]; }

void wgmma_mark_sum(WgmmaWarp *s, const MatrixForm *f, bool flies, uint32_t fences) {
    for (int k = 0; k < f->d.count; k++) {
        WgmmaSlot *r = slot_of(s, &f->d.item[k]);
        r->sum_flies = flies;
        if (flies) continue;
        r->used = fences + 1;
        r->shape = wgmma_shape(f);
    }
}

void wgmma_mark_fragments(WgmmaWarp *s, const MatrixForm *f, bool flies) {
    for (int k = 0; k < f->a.count; k++) {
        WgmmaSlot *r = slot_of(s, &f->a.item[k]);
        r->fragment_flies = (uint8_t)(r->fragment_flies + (flies ? 1 : -1));
    }
}

static void report(Warp *w, ReportKind kind, const char *what, int number, const char *why) {
    char note[160];
    snprintf(note, sizeof note, "%s %d: %s", what, number, why);
    warp_report(w, kind, 0, 0, 0, note);
}

static void check_sum(Warp *w, const WgmmaWarp *s, const MatrixForm *f) {
    for (int k = 0; k < f->d.count; k++) {
        const WgmmaSlot *r = slot_of(s, &f->d.item[k]);
        if (r->sum_flies || r->fragment_flies) {
            report(w, REPORT_IN_FLIGHT, "accumulator", k,
                   "in flight in a wgmma.mma_async of another shape, or as A's, without a wgmma.wait_group between");
            return;
        }
        if (r->touched == s->fences + 1 || (r->used == s->fences + 1 && r->shape != wgmma_shape(f))) {
            report(w, REPORT_FENCE, "accumulator", k, "accessed since the last wgmma.fence");
            return;
        }
    }
}

static void check_fragments(Warp *w, const WgmmaWarp *s, const MatrixForm *f) {
    for (int k = 0; k < f->a.count; k++) {
        const WgmmaSlot *r = slot_of(s, &f->a.item[k]);
        if (r->sum_flies)
            report(w, REPORT_IN_FLIGHT, "register of A", k, "accumulator of a wgmma.mma_async that was not waited for");
        else if (r->touched == s->fences + 1 || r->used == s->fences + 1)
            report(w, REPORT_FENCE, "register of A", k, "accessed since the last wgmma.fence");
        else
            continue;
        return;
    }
}

void wgmma_check_registers(Warp *w, const MatrixForm *f, const WgmmaSum *joined) {
    const WgmmaWarp *s = w->wgmma;
    if (!s->fences)
        warp_report(w, REPORT_FENCE, 0, 0, 0, "no wgmma.fence before the first wgmma.mma_async of the warp");
    if (!joined) check_sum(w, s, f);
    check_fragments(w, s, f);
}

/* ---- when a function is decoded ----------------------------------------------------------------------- */
typedef void (*Visit)(const Operand *, void *data);

static void visit_list(const OperandList *list, Visit visit, void *data) {
    for (int k = 0; k < list->count; k++) visit(&list->item[k], data);
}

static void visit_reads(const Inst *i, Visit visit, void *data) {
    const Operand *const PLAIN[] = {&i->a, &i->b, &i->c, &i->e};
    for (size_t k = 0; k < sizeof PLAIN / sizeof *PLAIN; k++) visit(PLAIN[k], data);
    for (int k = 0; i->store && k < MAX_VECTOR; k++) visit(&i->vec[k], data);
    if (!i->matrix) return;
    visit_list(&i->matrix->a, visit, data);
    visit_list(&i->matrix->b, visit, data);
    visit_list(&i->matrix->c, visit, data);
}

static void visit_writes(const Inst *i, Visit visit, void *data) {
    visit(&i->d, data);
    visit(&i->d2, data);
    for (int k = 0; !i->store && k < MAX_VECTOR; k++) visit(&i->vec[k], data);
    if (i->matrix) visit_list(&i->matrix->d, visit, data);
}

typedef struct Watched {
    uint8_t *is; /* by slot: named by a wgmma.mma_async */
    uint32_t *found;
    int count;
} Watched;

static void note_operand(const Operand *o, void *data) {
    Watched *x = data;
    x->is[o->offset / SLOT_BYTES] = 1;
}

static void find_operand(const Operand *o, void *data) {
    Watched *x = data;
    if (o->base == BASE_REGS && o->bytes && x->is[o->offset / SLOT_BYTES])
        x->found[x->count++] = o->offset / SLOT_BYTES;
}

static void watch_instruction(SimArena *a, Inst *i, RegisterWatch *to, Watched *x) {
    enum { MOST = 6 + MAX_VECTOR };
    const MatrixForm *f = i->matrix;
    const int most = MOST + (f ? f->d.count + f->a.count + f->b.count + f->c.count : 0);
    uint32_t here[MOST];
    x->found = most > MOST ? sim_alloc(a, sizeof *x->found * (size_t)most) : here;
    x->count = 0;
    visit_reads(i, find_operand, x);
    to->reads = x->count;
    visit_writes(i, find_operand, x);
    if (!x->count) return;
    uint32_t *slot = sim_alloc(a, sizeof *slot * (size_t)x->count);
    memcpy(slot, x->found, sizeof *slot * (size_t)x->count);
    *to = (RegisterWatch){.run = i->run, .slot = slot, .reads = to->reads, .count = x->count};
    i->run = exec_watched;
    i->flow = FLOW_WAIT;
}

void matrix_watch(Parser *p, Function *f) {
    SimArena *a = &p->module->arena;
    Watched x = {.is = NULL};
    for (int32_t k = 0; k < f->count; k++) {
        if (f->code[k].run != exec_wgmma) continue;
        if (!x.is) x.is = sim_alloc(a, f->register_bytes / SLOT_BYTES + 1);
        visit_list(&f->code[k].matrix->d, note_operand, &x);
        visit_list(&f->code[k].matrix->a, note_operand, &x);
    }
    if (!x.is) return;
    RegisterWatch *watch = sim_alloc(a, sizeof *watch * (size_t)f->count);
    f->watch = watch;
    for (int32_t k = 0; k < f->count; k++)
        if (f->code[k].run != exec_wgmma && f->code[k].flow == FLOW_NEXT)
            watch_instruction(a, &f->code[k], &watch[k], &x);
}
