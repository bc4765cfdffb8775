/* mbarrier.* and the fences between proxies.  Grammar: PTX ISA, "mbarrier.init" to "mbarrier.pending_count",
 * "membar / fence". */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/words.h"

/* {.sem.scope}{.space}.b64, sem and scope together, in the order that the manual's examples also turn round. */
static void take_object(Parser *p, Words *w, const char *strong, MbarrierForm *f) {
    Space space = word_space(w);
    f->relaxed = word_take(w, "relaxed");
    if (f->relaxed || (strong && word_take(w, strong))) {
        if (!word_take(w, "cta")) word_need(p, w, "cluster");
    }
    if (space == SPACE_GENERIC) space = word_space(w);
    if (space == SPACE_GLOBAL) parse_fail(p, w->stmt->at, "an mbarrier object lies in shared memory");
    word_need(p, w, "b64");
    f->at.space = space;
}

static void emit_mbarrier(Parser *p, Words *w, MbarrierForm *f, int at) {
    const Stmt *s = w->stmt;
    const bool waits = f->op == MBARRIER_TEST_WAIT || f->op == MBARRIER_TRY_WAIT;
    f->at = pointer(p, s, operand_at(p, s, at), f->at.space);
    const Operand d = waits ? destination(p, s, &s->operand[0], T_PRED) : (Operand){0};
    const void *kept = keep_form(p, f, sizeof *f);
    Inst *i = emit(p, s, waits ? exec_mbarrier_wait : exec_mbarrier);
    i->d = d;
    i->more = kept;
    i->kind = CLASS_SYNC;
    if (waits) i->flow = FLOW_WAIT;
}

/* mbarrier.arrive{.expect_tx, .noComplete}... state or _, [addr]{, count} */
static void lower_arrive(Parser *p, Words *w, MbarrierOp op) {
    const Stmt *s = w->stmt;
    MbarrierForm f = {.op = op};
    f.expect_tx = word_take(w, "expect_tx");
    f.no_complete = !f.expect_tx && word_take(w, "noComplete");
    take_object(p, w, "release", &f);
    const bool count = s->count == 3;
    words_end(p, w, f.expect_tx || f.no_complete || count ? 3 : 2);
    if (count) f.count = source(p, s, &s->operand[2], T_U32);
    if (p->module->target < 90 && (f.expect_tx || (count && !f.no_complete)))
        parse_fail(p, s->at, "this form of mbarrier.arrive needs .target sm_90");
    if (s->operand[0].kind != RAW_SINK) f.state = destination(p, s, &s->operand[0], T_B64);
    if (f.at.space == SPACE_CLUSTER && f.state.base)
        parse_fail(p, s->operand[0].at, "an arrival in .shared::cluster returns no state");
    emit_mbarrier(p, w, &f, 1);
}

/* mbarrier.test_wait{.parity}... p, [addr], state;  mbarrier.try_wait{.parity}... p, [addr], state{, time} */
static void lower_wait(Parser *p, Words *w, MbarrierOp op) {
    const Stmt *s = w->stmt;
    MbarrierForm f = {.op = op};
    if (op == MBARRIER_TRY_WAIT) need_target(p, s, 90);
    f.parity = word_take(w, "parity");
    take_object(p, w, "acquire", &f);
    if (f.at.space == SPACE_CLUSTER) parse_fail(p, s->at, "waits are for mbarrier objects in .shared::cta");
    const bool limit = op == MBARRIER_TRY_WAIT && s->count == 4;
    words_end(p, w, limit ? 4 : 3);
    f.count = source(p, s, &s->operand[2], f.parity ? T_U32 : T_B64);
    if (limit) source(p, s, &s->operand[3], T_U32);
    emit_mbarrier(p, w, &f, 1);
}

static void lower_tx(Parser *p, Words *w, MbarrierOp op) {
    MbarrierForm f = {.op = op};
    need_target(p, w->stmt, 90);
    take_object(p, w, NULL, &f);
    words_end(p, w, 2);
    f.count = source(p, w->stmt, &w->stmt->operand[1], T_U32);
    emit_mbarrier(p, w, &f, 0);
}

static void lower_begin_end(Parser *p, Words *w, MbarrierOp op) {
    MbarrierForm f = {.op = op, .at.space = word_space(w)};
    if (f.at.space != SPACE_SHARED && f.at.space != SPACE_GENERIC)
        parse_fail(p, w->stmt->at, "an mbarrier object is initialised in .shared::cta");
    word_need(p, w, "b64");
    words_end(p, w, op == MBARRIER_INIT ? 2 : 1);
    if (op == MBARRIER_INIT) f.count = source(p, w->stmt, &w->stmt->operand[1], T_U32);
    emit_mbarrier(p, w, &f, 0);
}

static void lower_pending(Parser *p, Words *w) {
    const Stmt *s = w->stmt;
    word_need(p, w, "b64");
    words_end(p, w, 2);
    const Operand d = destination(p, s, &s->operand[0], T_B32), a = source(p, s, &s->operand[1], T_B64);
    Inst *i = emit(p, s, exec_pending_count);
    i->d = d;
    i->a = a;
    i->kind = CLASS_SYNC;
}

void lower_mbarrier(Parser *p, const Stmt *s) {
    Words w = {.stmt = s};
    need_target(p, s, 80);
    switch (s->row->op) {
    case OP_MBARRIER_INIT: lower_begin_end(p, &w, MBARRIER_INIT); break;
    case OP_MBARRIER_INVAL: lower_begin_end(p, &w, MBARRIER_INVAL); break;
    case OP_MBARRIER_ARRIVE: lower_arrive(p, &w, MBARRIER_ARRIVE); break;
    case OP_MBARRIER_ARRIVE_DROP: lower_arrive(p, &w, MBARRIER_ARRIVE_DROP); break;
    case OP_MBARRIER_EXPECT_TX: lower_tx(p, &w, MBARRIER_EXPECT_TX); break;
    case OP_MBARRIER_COMPLETE_TX: lower_tx(p, &w, MBARRIER_COMPLETE_TX); break;
    case OP_MBARRIER_TEST_WAIT: lower_wait(p, &w, MBARRIER_TEST_WAIT); break;
    case OP_MBARRIER_TRY_WAIT: lower_wait(p, &w, MBARRIER_TRY_WAIT); break;
    default: lower_pending(p, &w); break;
    }
}

/* ---- fences ----------------------------------------------------------------------------------------------- */
/* fence.proxy.{alias, async{.global, .shared::cta, .shared::cluster}}; fence.proxy.tensormap::generic.release.scope;
 * fence.proxy.tensormap::generic.acquire.scope [addr], 128; fence.mbarrier_init.release.cluster */
static ProxyFence take_proxy(Parser *p, Words *w, uint8_t *spaces) {
    static const char *const SCOPES[] = {"cta", "cluster", "gpu", "sys"};
    if (word_take(w, "alias")) return FENCE_OTHER;
    if (word_take(w, "tensormap::generic")) {
        const bool acquire = word_take(w, "acquire");
        if (!acquire) word_need(p, w, "release");
        if (word_choose(w, SCOPES, 4) < 0) word_need(p, w, "gpu");
        if (!acquire) return FENCE_OTHER;
        pointer(p, w->stmt, operand_at(p, w->stmt, 0), SPACE_GENERIC);
        const Raw *size = operand_at(p, w->stmt, 1);
        if (size->kind != RAW_INT || size->bits != 128) parse_fail(p, size->at, "the size is 128");
        return FENCE_OTHER;
    }
    word_need(p, w, "async");
    if (word_take(w, "global")) *spaces = 1 << PROXY_GLOBAL;
    else if (word_take(w, "shared::cta") || word_take(w, "shared::cluster")) *spaces = 1 << PROXY_SHARED;
    else *spaces = PROXY_EVERYWHERE;
    return FENCE_ASYNC;
}

void lower_proxy_fence(Parser *p, const Stmt *s) {
    Words w = {.stmt = s};
    ProxyFence kind = FENCE_MBARRIER_INIT;
    uint8_t spaces = 0;
    if (s->row->op == OP_FENCE_MBARRIER_INIT) {
        word_need(p, &w, "release");
        word_need(p, &w, "cluster");
    } else {
        kind = take_proxy(p, &w, &spaces);
    }
    words_end(p, &w, s->count);
    Inst *i = emit(p, s, exec_proxy_fence);
    i->op = (uint8_t)kind;
    i->op2 = spaces;
    i->kind = CLASS_SYNC;
}
