/* Loads, stores, atomics, address-space conversions. */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/parse.h"
#include "tools/ptxsim/ptx/words.h"
#include <string.h>

static int vector_width(const Stmt *s) {
    return s->mod[CAT_VECTOR] == VECTOR_V2 ? 2 : s->mod[CAT_VECTOR] == VECTOR_V4 ? 4 : 1;
}

/* Elements of `r` under the instruction's vector modifier: registers may be wider than the type. */
static int elements(Parser *p, const Stmt *s, const Raw *r, bool result, Operand vec[MAX_VECTOR]) {
    const int n = vector_width(s);
    const PtxType t = s->type[0];
    r = scalar_of(r);
    if ((r->kind == RAW_VECTOR) != (n > 1) || (n > 1 && r->count != n))
        parse_fail(p, r->at, "'%s' expects %d element%s", s->row->name, n, n > 1 ? "s in braces" : "");
    for (int k = 0; k < n; k++) {
        const Raw *x = n > 1 ? &r->item[k] : r;
        vec[k] = result ? destination_any_width(p, x, t) : source_any_width(p, s, x, t);
    }
    return n;
}

/* Parameters of entries are read-only parameter memory; those of functions and calls lie in the frame. */
static Space space_of(const Stmt *s, const Raw *a) {
    static const Space SPACES[] = {SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_CONST, SPACE_PARAM,
                                   SPACE_CLUSTER};
    const Space space = SPACES[s->mod[CAT_SPACE]];
    const bool frame = a->kind == RAW_ADDRESS && a->item[0].kind == RAW_VAR && a->item[0].var->space == SPACE_LOCAL;
    return space == SPACE_PARAM && frame ? SPACE_LOCAL : space;
}

static void check_base_space(Parser *p, const Raw *a, Space space) {
    const Raw *base = a->kind == RAW_ADDRESS ? &a->item[0] : NULL;
    if (!base || base->kind != RAW_VAR) return;
    const Space have = base->var->space;
    const bool same = have == space || (space == SPACE_CLUSTER && have == SPACE_SHARED) ||
                      (space == SPACE_GENERIC && (have == SPACE_GLOBAL || have == SPACE_CONST));
    if (!same) parse_fail(p, base->at, "'%s' lies in another state space than the instruction names", base->var->name);
}

static void memory_type(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    const PtxType t = s->type[0];
    if (t == T_PRED || t == T_F16X2 || t == T_BF16X2 || t == T_TF32)
        parse_fail(p, s->at, "'%s' does not exist for .%s", s->row->name, type_text(t));
    if (t == T_B128) need_version(p, s, 83);
    if (vector_width(s) * type_bytes(t) > 16) parse_fail(p, s->at, "an access of more than 16 bytes");
}

static void note_order(Parser *p, const Stmt *s, Inst *i) {
    i->ordered = s->mod[CAT_ORDER] > ORDER_WEAK;
    i->order = i->ordered ? s->mod[CAT_ORDER] : 0;
    i->scope = !i->ordered ? 0 : s->mod[CAT_SCOPE] ? s->mod[CAT_SCOPE] : SCOPE_SYS; /* volatile: the system's */
    /* a loop that waits for another block's write needs the blocks to run interleaved */
    if (i->ordered && (i->space == SPACE_GLOBAL || i->space == SPACE_GENERIC)) p->fn->global_atomics = true;
}

void lower_load(Parser *p, const Stmt *s) {
    memory_type(p, s);
    Operand vec[MAX_VECTOR] = {{0}};
    Inst where = {0};
    const Space space = space_of(s, &s->operand[1]);
    if (s->mod[CAT_ORDER] == ORDER_RELEASE || s->mod[CAT_ORDER] >= ORDER_ACQ_REL)
        parse_fail(p, s->at, "a load is weak, volatile, relaxed or acquire");
    check_cache(p, s, space, 2);
    const int n = elements(p, s, &s->operand[0], true, vec);
    check_base_space(p, &s->operand[1], space);
    address(p, s, &s->operand[1], &where);
    Inst *i = emit(p, s, exec_load);
    memcpy(i->vec, vec, sizeof vec);
    i->a = where.a;
    i->offset = where.offset;
    i->count = (uint8_t)n;
    i->space = (uint8_t)space;
    i->kind = CLASS_MEMORY;
    note_order(p, s, i);
}

void lower_store(Parser *p, const Stmt *s) {
    memory_type(p, s);
    Operand vec[MAX_VECTOR] = {{0}};
    Inst where = {0};
    const Space space = space_of(s, &s->operand[0]);
    if (space == SPACE_CONST || space == SPACE_PARAM) parse_fail(p, s->at, "a store into read-only memory");
    if (s->mod[CAT_ORDER] == ORDER_ACQUIRE || s->mod[CAT_ORDER] >= ORDER_ACQ_REL || s->mod[CAT_NONCOHERENT])
        parse_fail(p, s->at, "a store is weak, volatile, relaxed or release");
    check_cache(p, s, space, 2);
    check_base_space(p, &s->operand[0], space);
    address(p, s, &s->operand[0], &where);
    const int n = elements(p, s, &s->operand[1], false, vec);
    Inst *i = emit(p, s, exec_store);
    i->store = true;
    memcpy(i->vec, vec, sizeof vec);
    i->a = where.a;
    i->offset = where.offset;
    i->count = (uint8_t)n;
    i->space = (uint8_t)space;
    i->kind = CLASS_MEMORY;
    note_order(p, s, i);
}

/* ---- atomics ------------------------------------------------------------------------------------------ */
/* Bit set of the types that an operation takes. */
#define T(name) (UINT32_C(1) << T_##name)
static const uint32_t ATOMIC_TYPES[] = {
    [ATOMIC_ADD] = T(U32) | T(S32) | T(U64) | T(S64) | T(F32) | T(F64) | T(F16) | T(BF16) | T(F16X2) | T(BF16X2),
    [ATOMIC_MIN] = T(U32) | T(S32) | T(U64) | T(S64),
    [ATOMIC_MAX] = T(U32) | T(S32) | T(U64) | T(S64),
    [ATOMIC_INC] = T(U32),
    [ATOMIC_DEC] = T(U32),
    [ATOMIC_AND] = T(B32) | T(B64),
    [ATOMIC_OR] = T(B32) | T(B64),
    [ATOMIC_XOR] = T(B32) | T(B64),
    [ATOMIC_EXCH] = T(B32) | T(B64) | T(B128) | T(U32) | T(U64) | T(S32) | T(S64) | T(F32),
    [ATOMIC_CAS] = T(B16) | T(B32) | T(B64) | T(B128) | T(U32) | T(U64) | T(S32) | T(S64),
};
#undef T

/* What all atomics have in common: the address operand `a`, checked, the order and the scope. */
static Inst *emit_atomic(Parser *p, const Stmt *s, const Raw *a, ExecFn run) {
    Inst where = {0};
    const Space space = space_of(s, a);
    check_base_space(p, a, space);
    address(p, s, a, &where);
    Inst *i = emit(p, s, run);
    i->a = where.a;
    i->offset = where.offset;
    i->op = s->mod[CAT_ATOMIC];
    i->space = (uint8_t)space;
    i->kind = CLASS_MEMORY;
    i->ordered = true;
    i->order = s->mod[CAT_ORDER] ? s->mod[CAT_ORDER] : ORDER_RELAXED;
    i->scope = s->mod[CAT_SCOPE] ? s->mod[CAT_SCOPE] : SCOPE_GPU;
    if (space != SPACE_SHARED && space != SPACE_CLUSTER) p->fn->global_atomics = true;
    return i;
}

/* atom.global.add.v2.f32 {d0, d1}, [a], {b0, b1};  red without d: every element is an atomic of its own (sm_90). */
static void lower_vector_atomic(Parser *p, const Stmt *s, bool atom) {
    const PtxType t = s->type[0];
    const Raw *a = &s->operand[atom ? 1 : 0];
    const bool narrow = t == T_F16 || t == T_BF16 || t == T_F16X2 || t == T_BF16X2;
    if (s->mod[CAT_ATOMIC] != ATOMIC_ADD || (t != T_F32 && !narrow) || space_of(s, a) != SPACE_GLOBAL ||
        p->module->target < 90)
        parse_fail(p, s->at, "vectors of atomics are additions of floats of at most 32 bits in global memory, from sm_90 on");
    check_cache(p, s, SPACE_GLOBAL, atom ? 3 : 2);
    Operand *d = sim_alloc(&p->module->arena, sizeof *d * MAX_VECTOR), b[MAX_VECTOR] = {{0}};
    const int n = elements(p, s, &s->operand[atom ? 2 : 1], false, b);
    if (atom) elements(p, s, &s->operand[0], true, d);
    else for (int k = 0; k < n; k++) d[k] = scratch(p, type_bytes(t));
    Inst *i = emit_atomic(p, s, a, exec_vector_atomic);
    memcpy(i->vec, b, sizeof b);
    i->more = d;
    i->count = (uint8_t)n;
}

/* atom.op.type d, [a], b{, c}{, policy};  red.op.type [a], b{, policy} */
void lower_atomic(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    const bool atom = s->row->op == OP_ATOM;
    if (vector_width(s) > 1) {
        lower_vector_atomic(p, s, atom);
        return;
    }
    const int op = s->mod[CAT_ATOMIC], first = atom ? 1 : 0;
    const PtxType t = s->type[0];
    if (!op || !(ATOMIC_TYPES[op] >> t & 1)) parse_fail(p, s->at, "'%s' does not exist for .%s", s->row->name, type_text(t));
    if (t == T_BF16 || t == T_BF16X2 || t == T_B128) need_target(p, s, 90);
    const int policy = op == ATOMIC_CAS ? 4 : first + 2;
    if (!atom && (op == ATOMIC_EXCH || op == ATOMIC_CAS))
        parse_fail(p, s->at, "red has no .%s", op == ATOMIC_CAS ? "cas" : "exch");
    if (op == ATOMIC_CAS && s->mod[CAT_HINT]) parse_fail(p, s->at, "atom.cas takes no .L2::cache_hint");
    const Space space = space_of(s, &s->operand[first]);
    if (space != SPACE_GENERIC && space != SPACE_GLOBAL && space != SPACE_SHARED && space != SPACE_CLUSTER)
        parse_fail(p, s->at, "atomics work on global and shared memory");
    check_cache(p, s, space, policy);
    const Operand d = atom ? destination(p, s, &s->operand[0], t) : scratch(p, type_bytes(t));
    const Operand b = source(p, s, &s->operand[first + 1], t);
    const Operand c = op == ATOMIC_CAS ? source(p, s, &s->operand[first + 2], t) : b;
    Inst *i = emit_atomic(p, s, &s->operand[first], t == T_B128 ? exec_wide_atomic : exec_atomic);
    i->d = d;
    i->b = b;
    i->c = c;
    if (op == ATOMIC_CAS) relax_guess(p);
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
/* cvta.space d, a: to generic, adds the window; cvta.to.space d, a: subtracts it. */
void lower_cvta(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    static const uint64_t WINDOW[] = {0, 0, SHARED_WINDOW, LOCAL_WINDOW, 0, PARAM_WINDOW, SHARED_WINDOW};
    const PtxType t = s->type[0];
    if (t != T_U64 || !s->mod[CAT_SPACE]) parse_fail(p, s->at, "cvta needs a state space and .u64");
    const uint64_t window = WINDOW[s->mod[CAT_SPACE]];
    const Operand d = destination(p, s, &s->operand[0], t), a = source(p, s, &s->operand[1], t);
    const Operand b = pool_constant(p, s->mod[CAT_TO] ? 0 - window : window, 8);
    Inst *i = emit(p, s, arith_handler(OP_ADD, T_U64));
    i->d = d;
    i->a = a;
    i->b = b;
}

void lower_isspace(Parser *p, const Stmt *s) {
    if (s->types > 1 || !s->mod[CAT_SPACE]) parse_fail(p, s->at, "isspacep needs a state space");
    const Operand d = destination(p, s, &s->operand[0], T_PRED), a = source(p, s, &s->operand[1], T_U64);
    Inst *i = emit(p, s, exec_isspace);
    i->d = d;
    i->a = a;
    i->space = s->mod[CAT_SPACE];
}

/* membar.level; fence.sem.scope, where no sem means acq_rel. */
void lower_fence(Parser *p, const Stmt *s) {
    const int order = s->mod[CAT_ORDER];
    if (!s->mod[CAT_SCOPE] || (order && order < ORDER_ACQUIRE)) parse_fail(p, s->at, "a fence needs a scope, and no weaker order");
    Inst *i = emit(p, s, exec_fence);
    i->kind = CLASS_SYNC;
    i->scope = s->mod[CAT_SCOPE];
}

/* Sleeps, events. */
void lower_nothing(Parser *p, const Stmt *s) {
    emit(p, s, exec_nothing)->kind = CLASS_MEMORY;
    if (s->row->op == OP_NANOSLEEP) p->fn->global_atomics = true;
}
