/* Loops whose stages run ahead, in a ring of ahead + 1 slots.  Iteration t, in every thread:
 *
 *     wait until this thread's copies for iteration t have landed   (one group per iteration; ahead - 1 may be under
 * way) barrier                     everyone's have, and everyone is done with iteration t - 1's slot begin what
 * iteration t + ahead needs, into that slot; registers hold what threads move themselves the body, from slot t store
 * those registers; tiles that would take too many of them are loaded here too
 *
 * before it, the copies for iterations 0 .. ahead - 1.  Source: PTX ISA, "Data Movement and Conversion Instructions:
 * Asynchronous copy". */
#include "codegen/nvptx/simt.h"

enum { MOST_HELD = 16 }; /* registers between load and store */

typedef struct StageRing {
    Simt *s;
    const Inst *loop;
    int slots, n;
    const Inst **stage;   /* those that run ahead */
    LLVMValueRef **moved; /* BY_THREADS: registers between load and store */
    bool copies, moves;
    LLVMValueRef from, end;  /* where the first tile begins, and none any more */
    LLVMValueRef thread_has; /* i1: there is an iteration `ahead` later */
} StageRing;

static StageRing ring_of(Simt *s, const Inst *loop) {
    StageRing r = {.s = s, .loop = loop, .slots = loop->ahead + 1};
    simt_loop_bounds(s, loop, &r.from, &r.end);
    r.stage = ARENA_ARRAY(s->arena, const Inst *, loop->body.n + 1);
    r.moved = ARENA_ARRAY(s->arena, LLVMValueRef *, loop->body.n + 1);
    for (int n = 0; n < loop->body.n; n++) {
        const Inst *i = loop->body.at[n];
        if (i->kind != TI_STAGE || i->by == BY_NONE) continue;
        r.copies |= i->by == BY_ASYNC;
        r.moves |= i->by == BY_THREADS;
        r.stage[r.n++] = i;
    }
    return r;
}

/* A thread's part of the tile is held in registers through the body. */
static bool is_held(const StageRing *r, const Inst *stage) {
    return stage->by == BY_THREADS && stage_fill_count(r->s, stage) * ((stage->bytes + 3) / 4) <= MOST_HELD;
}

static LLVMValueRef number(const StageRing *r, int64_t n) {
    return LLVMConstInt(r->s->e->i32, (unsigned long long)n, false);
}

static void select_slot(const StageRing *r, LLVMValueRef slot) {
    for (int n = 0; n < r->n; n++) stage_select(r->s, r->stage[n]->result, slot);
}

static void copy_all(const StageRing *r) {
    for (int n = 0; n < r->n; n++)
        if (r->stage[n]->by == BY_ASYNC) stage_copy(r->s, r->stage[n]);
}

static LLVMValueRef there_is(const StageRing *r, LLVMValueRef base) {
    return LLVMBuildICmp(r->s->e->b, LLVMIntSLT, base, r->end, "");
}

/* Iteration number `at`, before the loop. */
static void fetch_first(const StageRing *r, int at) {
    Simt *s = r->s;
    const Emit *e = s->e;
    const int64_t base = (int64_t)at * s->k->axes.at[r->loop->axis].step;
    LLVMBasicBlockRef then = emit_block(e, s->fn, "fetch"), after = emit_block(e, s->fn, "fetched");
    s->base[r->loop->axis] = LLVMBuildAdd(e->b, r->from, emit_i64(e, base), "");
    LLVMBuildCondBr(e->b, there_is(r, s->base[r->loop->axis]), then, after);
    LLVMPositionBuilderAtEnd(e->b, then);
    select_slot(r, number(r, at));
    copy_all(r);
    for (int n = 0; n < r->n; n++)
        if (r->stage[n]->by == BY_THREADS) stage_fill(s, r->stage[n]);
    LLVMBuildBr(e->b, after);
    LLVMPositionBuilderAtEnd(e->b, after);
    if (r->copies) stage_commit(s);
}

/* Where there is no such iteration the registers hold anything: they are not stored. */
static void merge_moved(const StageRing *r, LLVMBasicBlockRef from, LLVMBasicBlockRef then) {
    const Emit *e = r->s->e;
    for (int n = 0; n < r->n; n++) {
        if (!r->moved[n]) continue;
        for (int v = 0; v < stage_fill_count(r->s, r->stage[n]); v++) {
            LLVMTypeRef type = LLVMTypeOf(r->moved[n][v]);
            LLVMValueRef phi = LLVMBuildPhi(e->b, type, ""), none = LLVMGetUndef(type);
            LLVMAddIncoming(phi, &none, &from, 1);
            LLVMAddIncoming(phi, &r->moved[n][v], &then, 1);
            r->moved[n][v] = phi;
        }
    }
}

/* Iteration at base `base`, into `slot`: copies begin, and threads load what they move themselves. */
static void fetch_next(StageRing *r, LLVMValueRef base, LLVMValueRef slot) {
    Simt *s = r->s;
    const Emit *e = s->e;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), then = emit_block(e, s->fn, "fetch"),
                      after = emit_block(e, s->fn, "fetched");
    LLVMValueRef here = s->base[r->loop->axis];
    r->thread_has = there_is(r, base);
    LLVMBuildCondBr(e->b, r->thread_has, then, after);
    LLVMPositionBuilderAtEnd(e->b, then);
    s->base[r->loop->axis] = base;
    select_slot(r, slot);
    copy_all(r);
    for (int n = 0; n < r->n; n++) {
        if (!is_held(r, r->stage[n])) continue;
        r->moved[n] = ARENA_ARRAY(s->arena, LLVMValueRef, stage_fill_count(s, r->stage[n]));
        stage_fill_values(s, r->stage[n], r->moved[n]);
    }
    then = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, after);
    LLVMPositionBuilderAtEnd(e->b, after);
    merge_moved(r, from, then);
    s->base[r->loop->axis] = here;
    if (r->copies) stage_commit(s);
}

static void store_moved(const StageRing *r, LLVMValueRef base, LLVMValueRef slot) {
    Simt *s = r->s;
    const Emit *e = s->e;
    if (!r->moves) return;
    LLVMBasicBlockRef then = emit_block(e, s->fn, "move"), after = emit_block(e, s->fn, "moved");
    LLVMBuildCondBr(e->b, r->thread_has, then, after);
    LLVMPositionBuilderAtEnd(e->b, then);
    select_slot(r, slot);
    LLVMValueRef here = s->base[r->loop->axis];
    s->base[r->loop->axis] = base;
    for (int n = 0; n < r->n; n++) {
        if (r->moved[n])
            stage_fill_store(s, r->stage[n], r->moved[n]);
        else if (r->stage[n]->by == BY_THREADS)
            stage_fill(s, r->stage[n]);
    }
    s->base[r->loop->axis] = here;
    LLVMBuildBr(e->b, after);
    LLVMPositionBuilderAtEnd(e->b, after);
}

/* Slot numbers go round. */
static LLVMValueRef wrapped(const StageRing *r, LLVMValueRef slot, int last, int first, int by) {
    const Emit *e = r->s->e;
    LLVMValueRef at_end = LLVMBuildICmp(e->b, LLVMIntEQ, slot, number(r, last), "");
    LLVMValueRef next = LLVMBuildAdd(e->b, slot, LLVMConstInt(e->i32, (unsigned long long)by, true), "");
    return LLVMBuildSelect(e->b, at_end, number(r, first), next, "");
}

static void iteration(StageRing *r, LLVMValueRef at, LLVMValueRef slot) {
    Simt *s = r->s;
    const Emit *e = s->e;
    const int64_t step = s->k->axes.at[r->loop->axis].step;
    if (r->copies) stage_wait(s, r->loop->ahead - 1);
    simt_barrier(s);
    LLVMValueRef before = wrapped(r, slot, 0, r->slots - 1, -1),
                 base = LLVMBuildAdd(e->b, at, emit_i64(e, step * r->loop->ahead), "");
    fetch_next(r, base, before);
    select_slot(r, slot);
    s->old_read = true; /* what the fetch loads */
    simt_block(s, &r->loop->body);
    store_moved(r, base, before);
}

static void open_ring(const StageRing *r) {
    Simt *s = r->s;
    if (s->shared_read || s->shared_written) simt_barrier(s); /* other tiles may have been in its memory */
    for (int n = 0; n < r->n; n++) s->fetched[r->stage[n]->result] = true;
    for (int at = 0; at < r->loop->ahead; at++) fetch_first(r, at);
}

/* A loop of few iterations is not copied out: what comes after it would begin among the copies, in registers that the
 * products fill. */
static void keep_short_loop(const StageRing *r) {
    const Axis *axis = &r->s->k->axes.at[r->loop->axis];
    if (dim_is_fixed(axis->extent) && axis->extent.bound <= (int64_t)axis->step * r->slots)
        simt_asm(r->s->e, r->s->e->none, ".pragma \"nounroll\";", "~{memory}", 0, NULL);
}

void pipeline_loop(Simt *s, const Inst *i) {
    const Emit *e = s->e;
    StageRing r = ring_of(s, i);
    LLVMBasicBlockRef head = emit_block(e, s->fn, "loop"), body = emit_block(e, s->fn, "body"),
                      done = emit_block(e, s->fn, "done");
    LLVMValueRef **phi = ARENA_ARRAY(s->arena, LLVMValueRef *, i->n_carry + 1), first = number(&r, 0);
    open_ring(&r);
    const bool around = s->around;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b), last;
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, head);
    LLVMValueRef at = LLVMBuildPhi(e->b, e->i64, ""), slot = LLVMBuildPhi(e->b, e->i32, "");
    simt_phis(s, i, i->init, phi);
    LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(from));
    simt_incoming(s, i, phi, i->init, &from);
    LLVMAddIncoming(at, &r.from, &from, 1);
    LLVMAddIncoming(slot, &first, &from, 1);
    LLVMPositionBuilderAtEnd(e->b, head);
    LLVMBuildCondBr(e->b, there_is(&r, at), body, done);
    LLVMPositionBuilderAtEnd(e->b, body);
    keep_short_loop(&r);
    s->base[i->axis] = at;
    for (int n = 0; n < i->n_carry; n++) s->reg[i->carry[n]] = phi[n];
    iteration(&r, at, slot);
    const Inst *yield = i->body.at[i->body.n - 1];
    simt_incoming(s, i, phi, yield->in, &last);
    LLVMValueRef next = LLVMBuildAdd(e->b, at, emit_i64(e, s->k->axes.at[i->axis].step), "");
    LLVMValueRef next_slot = wrapped(&r, slot, i->ahead, 0, 1);
    LLVMBuildBr(e->b, head);
    LLVMAddIncoming(at, &next, &last, 1);
    LLVMAddIncoming(slot, &next_slot, &last, 1);
    LLVMPositionBuilderAtEnd(e->b, done);
    for (int n = 0; n < i->n_carry; n++) s->reg[i->results[n]] = phi[n];
    s->shared_read = s->shared_written = s->old_read = true;
    s->around = around;
}
