/* Clusters, elected lanes, registers of warpgroups, dependent grids.  Grammar: PTX ISA, "mapa", "getctarank",
 * "barrier.cluster", "elect.sync", "setmaxnreg", "griddepcontrol". */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/words.h"

/* mapa{.shared::cluster}.type d, a, b;  getctarank{.shared::cluster}.type d, a */
void lower_rank(Parser *p, const Stmt *s) {
    Words w = {.stmt = s};
    const bool map = s->row->op == OP_MAPA;
    need_target(p, s, 90);
    const Space space = word_space(&w);
    const PtxType t = word_type(p, &w);
    if ((space != SPACE_CLUSTER && space != SPACE_GENERIC) || (t != T_U32 && t != T_U64) ||
        (space == SPACE_GENERIC && t != T_U64))
        parse_fail(p, s->at, "'%s' takes .shared::cluster and .u32 or .u64, or generic .u64", s->row->name);
    words_end(p, &w, map ? 3 : 2);
    const Operand d = destination(p, s, &s->operand[0], map ? t : T_U32), a = source(p, s, &s->operand[1], t);
    const Operand b = map ? source(p, s, &s->operand[2], T_U32) : (Operand){0};
    Inst *i = emit(p, s, map ? exec_map_rank : exec_get_rank);
    i->d = d;
    i->a = a;
    i->b = b;
    i->space = (uint8_t)space;
}

/* barrier.cluster.arrive{.release, .relaxed}{.aligned};  barrier.cluster.wait{.acquire}{.aligned} */
void lower_cluster_barrier(Parser *p, const Stmt *s) {
    Words w = {.stmt = s};
    need_target(p, s, 90);
    const bool wait = word_take(&w, "wait");
    int order = ORDER_RELEASE;
    if (wait) word_take(&w, "acquire");
    else {
        word_need(p, &w, "arrive");
        if (word_take(&w, "relaxed")) order = ORDER_RELAXED;
        else word_take(&w, "release");
    }
    const bool aligned = word_take(&w, "aligned");
    words_end(p, &w, 0);
    Inst *i = emit(p, s, wait ? exec_cluster_wait : exec_cluster_arrive);
    i->op = (uint8_t)order;
    i->uniform = aligned;
    i->kind = CLASS_SYNC;
    i->flow = FLOW_WAIT;
    p->fn->barriers = true;
}

/* elect.sync d|p, membermask */
void lower_elect(Parser *p, const Stmt *s) {
    need_target(p, s, 90);
    const Raw *second = s->operand[0].second;
    if (s->mod[CAT_SYNC] != SYNC_SYNC || s->types || !second)
        parse_fail(p, s->at, "expected elect.sync d|p, membermask");
    Raw first = s->operand[0];
    first.second = NULL;
    const Operand d = destination(p, s, &first, T_B32), d2 = destination(p, s, second, T_PRED);
    const Operand e = source(p, s, &s->operand[1], T_U32);
    Inst *i = emit(p, s, exec_elect);
    i->flow = FLOW_MEET;
    i->d = d;
    i->d2 = d2;
    i->has_d2 = true;
    i->e = e;
    i->kind = CLASS_SYNC;
}

/* setmaxnreg.{inc, dec}.sync.aligned.u32 count */
void lower_set_registers(Parser *p, const Stmt *s) {
    Words w = {.stmt = s};
    need_target(p, s, 90);
    const bool more = word_take(&w, "inc");
    if (!more) word_need(p, &w, "dec");
    word_need(p, &w, "sync");
    word_need(p, &w, "aligned");
    word_need(p, &w, "u32");
    words_end(p, &w, 1);
    const Raw *r = &s->operand[0];
    if (r->kind != RAW_INT || r->bits < 24 || r->bits > 256 || r->bits % 8)
        parse_fail(p, r->at, "the register count is a constant multiple of 8 from 24 to 256");
    Inst *i = emit(p, s, exec_set_registers);
    i->op = more;
    i->offset = (int64_t)r->bits;
    i->kind = CLASS_SYNC;
    i->flow = FLOW_WAIT;
}

/* griddepcontrol.{launch_dependents, wait}: grids run one after another here, so both hold already; who has waited is noted
 * (access_early). */
void lower_grid_control(Parser *p, const Stmt *s) {
    Words w = {.stmt = s};
    need_target(p, s, 90);
    const bool waits = !word_take(&w, "launch_dependents");
    if (waits) word_need(p, &w, "wait");
    words_end(p, &w, 0);
    p->fn->waits |= waits;
    emit(p, s, waits ? exec_grid_wait : exec_nothing)->kind = CLASS_SYNC;
}
