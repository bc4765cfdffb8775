/* Rings of tiles: fetched by one thread, waited for and given back by the others. */
#include "codegen/nvptx/hopper.h"

static LLVMValueRef get(const Simt *s, LLVMValueRef variable) {
    return LLVMBuildLoad2(s->e->b, s->e->i32, variable, "");
}

static LLVMValueRef scaled(const Simt *s, LLVMValueRef base, LLVMValueRef n, int64_t by) {
    return LLVMBuildAdd(s->e->b, base, LLVMBuildMul(s->e->b, n, hopper_i32(s->e, by), ""), "");
}

static LLVMValueRef barrier_at(const Simt *s, int64_t first, LLVMValueRef slot) {
    return scaled(s, hopper_add(s->e, s->hopper->memory, first), slot, 8);
}

/* The next slot; after the last one the first, in the other phase. */
static void advance(const Simt *s, int r) {
    const Emit *e = s->e;
    const RingState *state = &s->hopper->ring[r];
    LLVMValueRef next = hopper_add(e, get(s, state->slot), 1), zero = LLVMConstNull(e->i32);
    LLVMValueRef around = LLVMBuildICmp(e->b, LLVMIntEQ, next, hopper_i32(e, s->hopper->layout.ring[r].slots), "");
    LLVMBuildStore(e->b, LLVMBuildSelect(e->b, around, zero, next, ""), state->slot);
    LLVMValueRef flip = LLVMBuildZExt(e->b, around, e->i32, "");
    LLVMBuildStore(e->b, LLVMBuildXor(e->b, get(s, state->phase), flip, ""), state->phase);
}

static int cluster_of(const Simt *s) {
    const int axis = kernel_cluster_axis(s->k);
    return axis < 0 ? 1 : s->k->axes.at[axis].cluster;
}

static int ring_of(const Simt *s, const Inst *loop) {
    const HopperLayout *l = &s->hopper->layout;
    for (int r = 0; r < l->n_rings; r++)
        if (l->ring[r].loop == loop) return r;
    return -1;
}

/* ---- the beginning -------------------------------------------------------------------------------------------- */
static void init_barriers(Simt *s) {
    const HopperLayout *l = &s->hopper->layout;
    for (int r = 0; r < l->n_rings; r++) {
        const HopperRing *x = &l->ring[r];
        if (x->first != r) continue;
        const int sharers = x->multicast ? cluster_of(s) : 1;
        for (int slot = 0; slot < x->slots; slot++) {
            hopper_barrier_init(s->e, hopper_add(s->e, s->hopper->memory, x->full + 8 * slot), 1);
            hopper_barrier_init(s->e, hopper_add(s->e, s->hopper->memory, x->empty + 8 * slot),
                                s->k->threads / 32 * sharers);
        }
    }
    hopper_groups_init(s);
    hopper_asm(s->e, s->e->none, "fence.mbarrier_init.release.cluster;", "~{memory}", 0, NULL);
    hopper_asm(s->e, s->e->none, "fence.proxy.async.shared::cta;", "~{memory}", 0, NULL);
}

void hopper_rings_begin(Simt *s) {
    const Emit *e = s->e;
    LLVMValueRef zero = LLVMConstNull(e->i32);
    for (int r = 0; r < s->hopper->layout.n_rings; r++) {
        RingState *state = &s->hopper->ring[r];
        const int first = s->hopper->layout.ring[r].first;
        if (first != r) {
            *state = s->hopper->ring[first];
            continue;
        }
        state->slot = LLVMBuildAlloca(e->b, e->i32, "");
        state->phase = LLVMBuildAlloca(e->b, e->i32, "");
        LLVMBuildStore(e->b, zero, state->slot);
        LLVMBuildStore(e->b, zero, state->phase);
    }
    LLVMBasicBlockRef init = emit_block(e, s->fn, "init"), ready = emit_block(e, s->fn, "ready");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, s->hopper->block_thread, zero, ""), init, ready);
    LLVMPositionBuilderAtEnd(e->b, init);
    init_barriers(s);
    LLVMBuildBr(e->b, ready);
    LLVMPositionBuilderAtEnd(e->b, ready);
    if (s->hopper->rank) /* the fence has released the barriers; .release would wait for all of memory */
        hopper_asm(e, e->none, "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;",
                   "~{memory}", 0, NULL);
    else
        hopper_asm(e, e->none, "bar.sync 0;", "~{memory}", 0, NULL);
}

/* ---- places in memory -------------------------------------------------------------------------------------------- */
/* i32: the index of the tile's first element, and along the map's minor axis of its panel's. */
static LLVMValueRef at_panel(Simt *s, const TensorMap *m, int panel, const Index *x) {
    Coords c = {0};
    for (int a = 0; a < s->k->axes.n; a++)
        c.offset[a] = hopper_i32(s->e, a == m->dim[0].axis ? (int64_t)panel * m->box[0] : 0);
    return LLVMBuildTrunc(s->e->b, simt_index(s, x, &c), s->e->i32, "");
}

void hopper_coordinates(Simt *s, const TensorMap *m, int panel, LLVMValueRef *dim) {
    const Emit *e = s->e;
    for (int d = 0; d < m->rank && m->windows; d++) dim[d] = at_panel(s, m, panel, m->at[d]);
    for (int d = 0; d < m->rank && !m->windows; d++) {
        LLVMValueRef at = LLVMBuildTrunc(e->b, s->base[m->dim[d].axis], e->i32, "");
        if (m->dim[d].axis == m->dim[0].axis) at = hopper_add(e, at, (int64_t)panel * m->box[0]);
        if (m->dim[d].divisor > 1) at = LLVMBuildUDiv(e->b, at, hopper_i32(e, m->dim[d].divisor), "");
        if (m->dim[d].modulus) at = LLVMBuildURem(e->b, at, hopper_i32(e, m->dim[d].modulus), "");
        dim[d] = at;
    }
}

/* ---- fetching --------------------------------------------------------------------------------------------------- */
/* A panel of a window past the end of the summed axis has to be 0: it is one of the image after the last. */
static void past_end(Simt *s, const TensorMap *m, int panel, LLVMValueRef *dim, LLVMValueRef *tap) {
    const Emit *e = s->e;
    const int minor = m->dim[0].axis;
    if (!m->windows || m->panels == 1 || s->axis[minor].exact) return;
    LLVMValueRef at = LLVMBuildAdd(e->b, s->base[minor], emit_i64(e, (int64_t)panel * m->box[0]), "");
    LLVMValueRef past = LLVMBuildICmp(e->b, LLVMIntSGE, at, s->extent[minor], ""), *image = &dim[m->rank - 1];
    *image = LLVMBuildSelect(e->b, past, hopper_i32(e, m->dim[m->rank - 1].extent.bound), *image, "");
    for (int w = 0; w < m->windows; w++) tap[w] = LLVMBuildSelect(e->b, past, LLVMConstNull(e->i16), tap[w], "");
}

/* One stage: a copy per panel; where the cluster shares the tile, this block's part of its rows, into all blocks. */
static void fetch_stage(Simt *s, const HopperRing *r, int n, LLVMValueRef slot, LLVMValueRef barrier) {
    const Emit *e = s->e;
    const TensorMap *m = &s->hopper->layout.map[r->map[n]];
    const int64_t panel = (int64_t)r->layout[n].panel_stride * r->layout[n].bytes;
    LLVMValueRef mask = NULL;
    LLVMValueRef to = scaled(s, hopper_add(e, s->hopper->memory, r->at[n]), slot, r->layout[n].slot);
    if (m->split > 1) {
        mask = LLVMConstInt(e->i16, (1u << m->split) - 1, false);
        to = scaled(s, to, s->hopper->rank, panel / m->split);
    }
    for (int p = 0; p < m->panels; p++) {
        LLVMValueRef dim[FUSEC_MAP_RANK], tap[FUSEC_MAP_RANK], map = hopper_map(s, r->map[n]);
        hopper_coordinates(s, m, p, dim);
        if (m->split > 1) dim[1] = scaled(s, dim[1], s->hopper->rank, m->box[1]);
        for (int w = 0; w < m->windows; w++)
            tap[w] = LLVMBuildTrunc(e->b, at_panel(s, m, p, m->window[w].tap), e->i16, "");
        past_end(s, m, p, dim, tap);
        if (m->windows)
            hopper_copy_window(e, s->arena, hopper_add(e, to, p * panel), map, m->rank, dim, tap, barrier);
        else
            hopper_copy_in(e, s->arena, hopper_add(e, to, p * panel), map, m->rank, dim, barrier, mask);
    }
}

/* All stages of one slot, as soon as it is free. */
static void fetch_slot(Simt *s, int ring) {
    const Emit *e = s->e;
    const HopperRing *r = &s->hopper->layout.ring[ring];
    LLVMValueRef slot = get(s, s->hopper->ring[ring].slot), phase = get(s, s->hopper->ring[ring].phase);
    LLVMValueRef full = barrier_at(s, r->full, slot);
    hopper_barrier_wait(e, barrier_at(s, r->empty, slot), LLVMBuildXor(e->b, phase, hopper_i32(e, 1), ""));
    hopper_barrier_expect(e, full, r->copied);
    for (int n = 0; n < r->n_stages; n++) fetch_stage(s, r, n, slot, full);
    advance(s, ring);
}

bool hopper_fetches(const Block *b) {
    for (int n = 0; n < b->n; n++)
        if ((b->at[n]->kind == TI_STAGE && b->at[n]->by == BY_TMA) || hopper_fetches(&b->at[n]->body)) return true;
    return false;
}

static void fetch_block(Simt *s, const Block *b, const Inst *loop);

static void fetch_loop(Simt *s, const Inst *i) {
    const Emit *e = s->e;
    LLVMBasicBlockRef head = emit_block(e, s->fn, "fetch"), body = emit_block(e, s->fn, "body"),
                      done = emit_block(e, s->fn, "done");
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
    LLVMValueRef zero = emit_i64(e, 0);
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, head);
    LLVMValueRef at = LLVMBuildPhi(e->b, e->i64, "");
    LLVMAddIncoming(at, &zero, &from, 1);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, at, s->extent[i->axis], ""), body, done);
    LLVMPositionBuilderAtEnd(e->b, body);
    s->base[i->axis] = at;
    fetch_block(s, &i->body, i);
    LLVMValueRef next = LLVMBuildAdd(e->b, at, emit_i64(e, s->k->axes.at[i->axis].step), "");
    from = LLVMGetInsertBlock(e->b);
    LLVMBuildBr(e->b, head);
    LLVMAddIncoming(at, &next, &from, 1);
    LLVMPositionBuilderAtEnd(e->b, done);
}

static void fetch_block(Simt *s, const Block *b, const Inst *loop) {
    const int ring = ring_of(s, loop);
    if (ring >= 0) fetch_slot(s, ring);
    for (int n = 0; n < b->n; n++)
        if (b->at[n]->kind == TI_FOR && hopper_fetches(&b->at[n]->body)) fetch_loop(s, b->at[n]);
}

void hopper_fetch_program(Simt *s) { fetch_block(s, &s->k->body, NULL); }

/* ---- what other groups use ----------------------------------------------------------------------------------------- */
/* i32: slots of the ring that one program uses in the block, which it goes through `times` times. */
static LLVMValueRef slots_used(const Simt *s, int ring, const Block *b, const Inst *loop, LLVMValueRef times) {
    const Emit *e = s->e;
    const int own = ring_of(s, loop);
    LLVMValueRef n = own >= 0 && s->hopper->layout.ring[own].first == ring ? times : LLVMConstNull(e->i32);
    for (int at = 0; at < b->n; at++) {
        const Inst *i = b->at[at];
        if (i->kind != TI_FOR || !hopper_fetches(&i->body)) continue;
        const int step = s->k->axes.at[i->axis].step;
        LLVMValueRef up = LLVMBuildAdd(e->b, s->extent[i->axis], emit_i64(e, step - 1), "");
        LLVMValueRef trips = LLVMBuildTrunc(e->b, LLVMBuildUDiv(e->b, up, emit_i64(e, step), ""), e->i32, "");
        n = LLVMBuildAdd(e->b, n, slots_used(s, ring, &i->body, i, LLVMBuildMul(e->b, times, trips, "")), "");
    }
    return n;
}

void hopper_skip(Simt *s, LLVMValueRef programs) {
    const Emit *e = s->e;
    for (int r = 0; r < s->hopper->layout.n_rings; r++) {
        const RingState *state = &s->hopper->ring[r];
        if (s->hopper->layout.ring[r].first != r) continue;
        LLVMValueRef used = slots_used(s, r, &s->k->body, NULL, programs),
                     slots = hopper_i32(e, s->hopper->layout.ring[r].slots);
        LLVMValueRef next = LLVMBuildAdd(e->b, get(s, state->slot), used, "");
        LLVMValueRef rounds = LLVMBuildAnd(e->b, LLVMBuildUDiv(e->b, next, slots, ""), hopper_i32(e, 1), "");
        LLVMBuildStore(e->b, LLVMBuildURem(e->b, next, slots, ""), state->slot);
        LLVMBuildStore(e->b, LLVMBuildXor(e->b, get(s, state->phase), rounds, ""), state->phase);
    }
}

/* ---- using ------------------------------------------------------------------------------------------------------- */
static int ring_with(const Simt *s, const Inst *stage, int *n) {
    *n = 0;
    const HopperLayout *l = &s->hopper->layout;
    for (int r = 0; r < l->n_rings; r++)
        for (*n = 0; *n < l->ring[r].n_stages; (*n)++)
            if (l->ring[r].stage[*n] == stage) return r;
    return -1;
}

void hopper_stage(Simt *s, const Inst *i) {
    int n;
    const int ring = ring_with(s, i, &n);
    const RingState *state = &s->hopper->ring[ring];
    if (s->hopper->waited >> ring & 1) return;
    hopper_barrier_wait(s->e, barrier_at(s, s->hopper->layout.ring[ring].full, get(s, state->slot)),
                        get(s, state->phase));
    s->hopper->waited |= 1 << ring;
}

LLVMValueRef hopper_tile(Simt *s, const Inst *i) {
    int n;
    const int ring = ring_with(s, i, &n);
    const HopperRing *r = &s->hopper->layout.ring[ring];
    return scaled(s, hopper_add(s->e, s->hopper->memory, r->at[n]), get(s, s->hopper->ring[ring].slot),
                  r->layout[n].slot);
}

/* This warp is done with the slot: one lane tells the fetching thread of every block that fetched into it. */
static void give_back(Simt *s, int ring, LLVMValueRef slot, LLVMValueRef where) {
    const Emit *e = s->e;
    const HopperRing *r = &s->hopper->layout.ring[ring];
    const int sharers = r->multicast ? cluster_of(s) : 1;
    LLVMValueRef at = barrier_at(s, r->empty, slot);
    LLVMValueRef mine = LLVMBuildICmp(e->b, LLVMIntULT, s->hopper->lane, hopper_i32(e, sharers), "");
    if (where) mine = LLVMBuildAnd(e->b, mine, where, "");
    if (sharers > 1)
        hopper_barrier_arrive_at(e, at, s->hopper->lane, mine);
    else
        hopper_barrier_arrive(e, at, mine);
}

static LLVMValueRef before(const Simt *s, LLVMValueRef slot, int slots) {
    const Emit *e = s->e;
    LLVMValueRef first = LLVMBuildICmp(e->b, LLVMIntEQ, slot, LLVMConstNull(e->i32), "");
    return LLVMBuildSelect(e->b, first, hopper_i32(e, slots - 1), hopper_add(e, slot, -1), "");
}

static LLVMValueRef is_last_trip(const Simt *s, const Inst *loop) {
    const Emit *e = s->e;
    LLVMValueRef next = LLVMBuildAdd(e->b, s->base[loop->axis], emit_i64(e, s->k->axes.at[loop->axis].step), "");
    return LLVMBuildICmp(e->b, LLVMIntSGE, next, s->extent[loop->axis], "");
}

void hopper_body_end(Simt *s, const Inst *loop) {
    const Emit *e = s->e;
    const int ring = ring_of(s, loop);
    if (ring < 0) return;
    const HopperRing *r = &s->hopper->layout.ring[ring];
    LLVMValueRef slot = get(s, s->hopper->ring[ring].slot);
    if (r->deferred) {
        hopper_dot_commit(s);
        hopper_turn_ends(s, loop, is_last_trip(s, loop));
        hopper_dot_wait(s, loop, loop->body.at[loop->body.n - 1]->in, 1);
        LLVMValueRef later = LLVMBuildICmp(e->b, LLVMIntNE, s->base[loop->axis], emit_i64(e, 0), "");
        give_back(s, ring, before(s, slot, r->slots), later);
    } else {
        hopper_asm(e, e->none, "bar.warp.sync -1;", "~{memory}", 0, NULL);
        give_back(s, ring, slot, NULL);
    }
    advance(s, ring);
    s->hopper->waited &= ~(1 << ring);
}

/* The turn of a loop whose products are deferred has ended with its last trip, if it had any. */
void hopper_loop_done(Simt *s, const Inst *loop) {
    const Emit *e = s->e;
    const int ring = ring_of(s, loop);
    if (ring < 0 || !s->hopper->layout.ring[ring].deferred) {
        hopper_turn_ends(s, loop, NULL);
        return;
    }
    const HopperRing *r = &s->hopper->layout.ring[ring];
    LLVMValueRef ran = LLVMBuildICmp(e->b, LLVMIntSGT, s->extent[loop->axis], emit_i64(e, 0), "");
    hopper_dot_wait(s, loop, loop->results, 0);
    give_back(s, ring, before(s, get(s, s->hopper->ring[ring].slot), r->slots), ran);
    if (!LLVMIsConstant(ran)) hopper_turn_ends(s, loop, LLVMBuildNot(e->b, ran, ""));
}
