/* Branches, calls, exits, barriers and warp-wide operations; then the immediate post-dominators that say where
 * divergent lanes join again. */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/parse.h"

void lower_branch(Parser *p, const Stmt *s) {
    const Raw *r = &s->operand[0];
    if (r->kind != RAW_NAME || s->types) parse_fail(p, r->at, "expected a label");
    Inst *i = emit(p, s, exec_nothing);
    i->flow = FLOW_BRANCH;
    i->kind = CLASS_CONTROL;
    i->uniform = s->mod[CAT_UNIFORM];
    pending_add(p, r->at, p->fn->count - 1, NULL);
}

/* brx.idx index, targets; */
void lower_switch(Parser *p, const Stmt *s) {
    const Raw *r = &s->operand[1];
    uint32_t member;
    const Symbol *set = r->kind == RAW_NAME ? symbol_find(p, &r->at, &member) : NULL;
    if (!set || !set->is_label_set) parse_fail(p, r->at, "expected a .branchtargets list that precedes the branch");
    if (!s->mod[CAT_INDEXED]) parse_fail(p, s->at, "brx needs .idx");
    const Operand index = source(p, s, &s->operand[0], T_U32);
    int32_t *targets = sim_alloc(&p->module->arena, sizeof *targets * (size_t)set->set->count);
    Inst *i = emit(p, s, exec_nothing);
    i->flow = FLOW_SWITCH;
    i->kind = CLASS_CONTROL;
    i->a = index;
    i->targets = targets;
    i->offset = set->set->count;
    for (int k = 0; k < set->set->count; k++) pending_add(p, set->set->name[k], p->fn->count - 1, &targets[k]);
}

/* ---- calls -------------------------------------------------------------------------------------------- */
static void bind_arguments(Parser *p, const Raw *list, Variable *const *formal, int count, const char *what, CallSite *c,
                           bool result) {
    if ((list ? list->count : 0) != count)
        parse_fail(p, list ? list->at : p->tok, "%s: %d %s given, %d expected", c->callee->name, list ? list->count : 0,
                   what, count);
    void *pairs = sim_alloc(&p->module->arena, sizeof *c->arg * (size_t)count);
    if (result) c->result = pairs;
    else c->arg = pairs;
    for (int k = 0; k < count; k++) {
        const Raw *r = &list->item[k];
        if (r->kind != RAW_VAR || r->var->space != SPACE_LOCAL || r->var->bytes != formal[k]->bytes)
            parse_fail(p, r->at, "an argument is a .param variable of the size of '%s'", formal[k]->name);
        const uint32_t here = (uint32_t)r->var->address, there = (uint32_t)formal[k]->address;
        const uint32_t bytes = (uint32_t)formal[k]->bytes;
        if (result) c->result[k].from = there, c->result[k].to = here, c->result[k].bytes = bytes;
        else c->arg[k].from = here, c->arg[k].to = there, c->arg[k].bytes = bytes;
    }
    if (result) c->result_count = count;
    else c->count = count;
}

Function *function_named(const Parser *p, const Token *name) {
    for (Function *f = p->module->functions; f; f = f->next)
        if (token_is(name, f->name)) return f;
    return NULL;
}

/* call (results), name, (arguments);  either list may be absent */
void lower_call(Parser *p, const Stmt *s) {
    int k = 0;
    const Raw *results = s->operand[0].kind == RAW_LIST ? &s->operand[k++] : NULL;
    const Raw *name = k < s->count ? &s->operand[k++] : NULL;
    const Raw *args = k < s->count && s->operand[k].kind == RAW_LIST ? &s->operand[k++] : NULL;
    if (!name || name->kind != RAW_NAME || k != s->count)
        parse_fail(p, name ? name->at : s->at,
                   "only direct calls of functions of this module are supported, none through a register");
    Function *callee = function_named(p, &name->at);
    if (!callee || callee->entry) parse_fail(p, name->at, "unknown function '%.*s'", (int)name->at.length, name->at.text);
    CallSite *c = sim_alloc(&p->module->arena, sizeof *c);
    c->callee = callee;
    c->column = name->at.column;
    bind_arguments(p, args, callee->param, callee->param_count, "arguments", c, false);
    bind_arguments(p, results, callee->result, callee->result_count, "results", c, true);
    Inst *i = emit(p, s, exec_nothing);
    i->flow = FLOW_CALL;
    i->kind = CLASS_CONTROL;
    i->call = c;
    p->fn->calls = true;
}

void lower_leave(Parser *p, const Stmt *s) {
    Inst *i = emit(p, s, exec_nothing);
    const int op = s->row->op;
    i->flow = op == OP_RET ? FLOW_RET : op == OP_EXIT ? FLOW_EXIT : FLOW_TRAP;
    i->kind = CLASS_CONTROL;
}

/* ---- barriers and warp-wide operations ---------------------------------------------------------------- */
static void lower_warp_barrier(Parser *p, const Stmt *s) {
    if (s->mod[CAT_SYNC] != SYNC_SYNC || s->count != 1) parse_fail(p, s->at, "expected bar.warp.sync mask");
    const Operand a = source(p, s, &s->operand[0], T_U32);
    Inst *i = emit(p, s, exec_warp_barrier);
    i->a = i->e = a;
    i->flow = FLOW_MEET;
    i->kind = CLASS_SYNC;
}

/* bar.sync a{, b}; bar.arrive a, b; bar.red.popc.u32 d, a{, b}, p; bar.red.and.pred d, a{, b}, p */
void lower_barrier(Parser *p, const Stmt *s) {
    const int sync = s->mod[CAT_SYNC];
    if (s->mod[CAT_WARP]) {
        lower_warp_barrier(p, s);
        return;
    }
    const bool red = sync == SYNC_RED;
    const int logic = s->mod[CAT_BOOL], rest = s->count - (red ? 2 : 0);
    const PtxType t = logic == BOOL_POPC ? T_U32 : T_PRED;
    if (!sync || red != (logic != 0) || s->types != (red ? 1 : 0) || (red && s->type[0] != t) || rest < 1 || rest > 2 ||
        (sync == SYNC_ARRIVE && rest != 2))
        parse_fail(p, s->at, "malformed barrier");
    Operand d = {0}, c = {0};
    if (red) {
        d = destination(p, s, &s->operand[0], t);
        c = predicate_source(p, s, &s->operand[s->count - 1]);
    }
    const Operand a = source(p, s, &s->operand[red ? 1 : 0], T_U32);
    const Operand b = rest == 2 ? source(p, s, &s->operand[red ? 2 : 1], T_U32) : pool_constant(p, 0, 4);
    Inst *i = emit(p, s, exec_nothing);
    i->flow = FLOW_BARRIER;
    i->kind = CLASS_SYNC;
    i->d = d;
    i->a = a;
    i->b = b;
    i->c = c;
    i->op = (uint8_t)sync;
    i->op2 = (uint8_t)logic;
    i->uniform = s->row->op == OP_BAR || s->mod[CAT_ALIGNED]; /* the whole warp, together */
    p->fn->barriers = true;
}

/* shfl.sync.mode.b32 d|p, a, b, c, mask; the form without .sync, of targets before sm_70, means every active lane */
void lower_shuffle(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    if (!s->mod[CAT_SHUFFLE] || s->type[0] != T_B32) parse_fail(p, s->at, "shfl needs a mode and .b32");
    if (s->mod[CAT_SYNC] != SYNC_SYNC || s->count != 5) parse_fail(p, s->at, "shfl.sync takes d, a, b, c, membermask");
    const Raw *second = s->operand[0].second;
    const Operand d = destination(p, s, &s->operand[0], T_B32), a = source(p, s, &s->operand[1], T_B32);
    const Operand b = source(p, s, &s->operand[2], T_U32), c = source(p, s, &s->operand[3], T_U32);
    const Operand e = source(p, s, &s->operand[4], T_U32);
    const Operand d2 = second ? destination(p, s, second, T_PRED) : (Operand){0};
    Inst *i = emit(p, s, exec_shuffle);
    i->flow = FLOW_MEET;
    i->d = d;
    i->d2 = d2;
    i->has_d2 = second != NULL;
    i->a = a;
    i->b = b;
    i->c = c;
    i->e = e;
    i->op = s->mod[CAT_SHUFFLE];
    i->kind = CLASS_SYNC;
}

void lower_vote(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    const int mode = s->mod[CAT_VOTE];
    const PtxType t = mode == VOTE_BALLOT ? T_B32 : T_PRED;
    if (!mode || s->type[0] != t) parse_fail(p, s->at, "vote needs .all, .any, .uni (.pred) or .ballot (.b32)");
    if (s->mod[CAT_SYNC] != SYNC_SYNC || s->count != 3) parse_fail(p, s->at, "vote.sync takes d, a, membermask");
    const Operand d = destination(p, s, &s->operand[0], t), a = predicate_source(p, s, &s->operand[1]);
    const Operand e = source(p, s, &s->operand[2], T_U32);
    Inst *i = emit(p, s, exec_vote);
    i->flow = FLOW_MEET;
    i->d = d;
    i->a = a;
    i->e = e;
    i->op = (uint8_t)mode;
    i->kind = CLASS_SYNC;
}

void lower_match(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    const int mode = s->mod[CAT_VOTE];
    const PtxType t = s->type[0];
    if ((mode != VOTE_ALL && mode != VOTE_ANY) || s->mod[CAT_SYNC] != SYNC_SYNC || (t != T_B32 && t != T_B64))
        parse_fail(p, s->at, "expected match.any.sync or match.all.sync of .b32 or .b64");
    const Raw *second = mode == VOTE_ALL ? s->operand[0].second : NULL;
    const Operand d = destination(p, s, &s->operand[0], T_B32), a = source(p, s, &s->operand[1], t);
    const Operand e = source(p, s, &s->operand[2], T_U32);
    const Operand d2 = second ? destination(p, s, second, T_PRED) : (Operand){0};
    Inst *i = emit(p, s, exec_match);
    i->flow = FLOW_MEET;
    i->d = d;
    i->d2 = d2;
    i->has_d2 = second != NULL;
    i->a = a;
    i->e = e;
    i->op = (uint8_t)mode;
    i->kind = CLASS_SYNC;
}

void lower_redux(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    const int op = s->mod[CAT_ATOMIC];
    const PtxType t = s->type[0];
    const bool logic = op == ATOMIC_AND || op == ATOMIC_OR || op == ATOMIC_XOR;
    const bool sum = op == ATOMIC_ADD || op == ATOMIC_MIN || op == ATOMIC_MAX;
    if (!(logic && t == T_B32) && !(sum && (t == T_U32 || t == T_S32))) parse_fail(p, s->at, "no such redux.sync");
    const Operand d = destination(p, s, &s->operand[0], t), a = source(p, s, &s->operand[1], t);
    const Operand e = source(p, s, &s->operand[2], T_U32);
    Inst *i = emit(p, s, exec_redux);
    i->flow = FLOW_MEET;
    i->d = d;
    i->a = a;
    i->e = e;
    i->op = (uint8_t)op;
    i->kind = CLASS_SYNC;
}

void lower_activemask(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    const Operand d = destination(p, s, &s->operand[0], T_B32);
    Inst *i = emit(p, s, exec_activemask);
    i->d = d;
}
