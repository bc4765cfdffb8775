/* wgmma.mma_async, wgmma.fence, wgmma.commit_group, wgmma.wait_group.
 * Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/lower_matrix.h"

static void need_warpgroup(Parser *p, const Stmt *s) {
    matrix_need_sync(p, s);
    if (p->module->target != 90 || !p->module->specific) parse_fail(p, s->at, "'%s' needs target sm_90a", s->row->name);
}

void lower_wgmma_sync(Parser *p, const Stmt *s) {
    need_warpgroup(p, s);
    need_types(p, s, 0);
    const bool wait = s->row->op == OP_WGMMA_WAIT;
    if (wait && (s->operand[0].kind != RAW_INT || s->operand[0].negated))
        parse_fail(p, s->at, "wgmma.wait_group takes a constant");
    Inst *i = emit(p, s, wait ? exec_wgmma_wait : s->row->op == OP_WGMMA_COMMIT ? exec_wgmma_commit : exec_wgmma_fence);
    i->kind = CLASS_SYNC;
    if (!wait) return;
    i->flow = FLOW_WAIT;
    i->offset = s->operand[0].bits > INT32_MAX ? INT32_MAX : (int64_t)s->operand[0].bits;
}

/* K in bytes is 32 for every type; N goes by 8, for integers beyond 32 by 16 ("Matrix shape"). */
static bool shape_exists(const Stmt *s, PtxType a) {
    const int n = s->shape[1];
    if (s->shape[0] != 64 || s->shape[2] * element_bits(a) != 256 || n < 8 || n > 256 || n % 8) return false;
    return !matrix_is_integer(a) || n <= 32 || n % 16 == 0;
}

/* Not all types of mma.sync: no f64, no 4-bit integers. */
static bool types_exist(PtxType a, PtxType b, PtxType d) {
    return matrix_types_agree(a, b, d) && a != T_F64 && element_bits(a) != 4;
}

static int64_t constant_of(Parser *p, const Stmt *s, int k, int64_t one, int64_t other) {
    const Raw *r = &s->operand[k];
    const int64_t v = (int64_t)r->bits;
    if (r->kind != RAW_INT || r->negated || (v != one && v != other))
        parse_fail(p, r->at, "this operand of '%s' is %d or %d", s->row->name, (int)one, (int)other);
    return v;
}

/* d, a-desc or {a}, b-desc, scale-d {, imm-scale-a, imm-scale-b {, imm-trans-a, imm-trans-b}}; trans for 16 bits only,
 * that of A only when it comes by descriptor; integers have none of them. */
static void immediates(Parser *p, const Stmt *s, MatrixForm *f) {
    const PtxType a = (PtxType)f->type_a;
    const bool halves = a == T_F16 || a == T_BF16, from_registers = f->a.count != 0;
    const int want = matrix_is_integer(a) ? 4 : !halves ? 6 : from_registers ? 7 : 8;
    if (s->count != want)
        parse_fail(p, s->at, "this form of '%s' takes %d operands, not %d", s->row->name, want, s->count);
    if (want == 4) return;
    f->negate_a = constant_of(p, s, 4, 1, -1) < 0;
    f->negate_b = constant_of(p, s, 5, 1, -1) < 0;
    if (want == 8) f->trans_a = constant_of(p, s, 6, 0, 1);
    if (want >= 7) f->trans_b = constant_of(p, s, want - 1, 0, 1);
}

void lower_wgmma(Parser *p, const Stmt *s) {
    need_warpgroup(p, s);
    need_types(p, s, 3);
    const PtxType d = s->type[0], a = s->type[1], b = s->type[2];
    if (!types_exist(a, b, d) || !shape_exists(s, a) || s->layouts)
        parse_fail(p, s->at, "there is no wgmma.mma_async.m%un%uk%u.%s.%s.%s", s->shape[0], s->shape[1], s->shape[2],
                   type_text(d), type_text(a), type_text(b));
    if (s->mod[CAT_SATFINITE] && !matrix_is_integer(a)) parse_fail(p, s->at, ".satfinite is for integers");
    MatrixForm *f = matrix_form(p, s);
    f->type_a = (uint8_t)a, f->type_b = (uint8_t)b, f->type_c = f->type_d = (uint8_t)d;
    f->saturate = s->mod[CAT_SATFINITE];
    f->d = matrix_list(p, s, &s->operand[0], d == T_F16 ? T_B32 : d, matrix_registers(f->m / 4 * f->n, d), true);
    if (s->operand[1].kind == RAW_VECTOR)
        f->a = matrix_list(p, s, &s->operand[1], T_B32, 4, false);
    else
        f->desc_a = source(p, s, &s->operand[1], T_B64);
    f->desc_b = source(p, s, &s->operand[2], T_B64);
    f->scale_d = predicate_source(p, s, &s->operand[3]);
    immediates(p, s, f);
    Inst *i = emit(p, s, exec_wgmma);
    i->matrix = f;
}
