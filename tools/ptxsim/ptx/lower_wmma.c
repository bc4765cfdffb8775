/* wmma.load, wmma.store, wmma.mma.  Source: PTX ISA, "Matrix multiply-accumulate operation using wmma instructions". */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/lower_matrix.h"

/* Shapes by the width of the multiplicands' elements; for f16, bf16 and bytes the same three. */
static bool shape_exists(const Stmt *s, PtxType t) {
    const int m = s->shape[0], n = s->shape[1], k = s->shape[2];
    if (t == T_F64) return m == 8 && n == 8 && k == 4;
    if (t == T_TF32) return m == 16 && n == 16 && k == 8;
    return k == 16 && ((m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32));
}

static bool multiplicand_exists(PtxType t) {
    return t == T_F16 || t == T_BF16 || t == T_TF32 || t == T_F64 || t == T_S8 || t == T_U8;
}

/* A fragment's registers and the type of each; an f16 multiplicand has every element twice. */
static int fragment_count(const Stmt *s, int fragment, PtxType t, PtxType *type) {
    const int m = s->shape[0], n = s->shape[1], k = s->shape[2];
    const bool sum = fragment == FRAGMENT_C || fragment == FRAGMENT_D;
    *type = t == T_F64 || t == T_F32 || t == T_S32 ? t : T_B32;
    if (!sum && t == T_F16) return 8;
    return matrix_registers(fragment == FRAGMENT_A ? m * k : fragment == FRAGMENT_B ? k * n : m * n, t);
}

static bool fragment_exists(const Stmt *s, int fragment, PtxType t) {
    if (fragment == FRAGMENT_A || fragment == FRAGMENT_B) return multiplicand_exists(t) && shape_exists(s, t);
    if (t == T_F64) return shape_exists(s, t);
    if (t == T_F32) return shape_exists(s, T_F16) || shape_exists(s, T_TF32);
    return (t == T_F16 || t == T_S32) && shape_exists(s, T_F16);
}

/* wmma.load.a.sync.aligned.layout.shape{.space}.type r, [p]{, stride};   wmma.store.d ... [p], r{, stride}; */
void lower_wmma_memory(Parser *p, const Stmt *s) {
    const bool store = s->row->op == OP_WMMA_STORE;
    const int fragment = s->mod[CAT_FRAGMENT], space = s->mod[CAT_SPACE];
    matrix_need_sync(p, s);
    need_types(p, s, 1);
    const PtxType t = s->type[0];
    if (!fragment || (fragment == FRAGMENT_D) != store || !fragment_exists(s, fragment, t) || s->layouts != 1)
        parse_fail(p, s->at, "there is no such '%s'", s->row->name);
    if (space != SPACE_GENERIC && space != SPACE_GLOBAL && space != SPACE_SHARED)
        parse_fail(p, s->at, "'%s' works on global and shared memory", s->row->name);
    PtxType type;
    Inst where = {0};
    MatrixForm *f = matrix_form(p, s);
    const int count = fragment_count(s, fragment, t, &type);
    f->fragment = (uint8_t)fragment;
    f->type_d = (uint8_t)t;
    f->column_c = s->layout[0] == LAYOUT_COL;
    f->d = matrix_list(p, s, &s->operand[store ? 1 : 0], type, count, !store);
    address(p, s, &s->operand[store ? 0 : 1], &where);
    const Operand stride = s->count == 3 ? source(p, s, &s->operand[2], T_B32) : (Operand){0};
    Inst *i = emit(p, s, store ? exec_wmma_store : exec_wmma_load);
    i->matrix = f;
    i->a = where.a;
    i->b = stride;
    i->offset = where.offset;
    i->space = (uint8_t)space;
    i->kind = CLASS_MEMORY;
}

/* Of f16 only the sums are named: .dtype.ctype; else .dtype.atype.btype.ctype */
static void wmma_types(Parser *p, const Stmt *s, MatrixForm *f) {
    const bool short_form = s->types == 2;
    if (!short_form) need_types(p, s, 4);
    const PtxType d = s->type[0], c = s->type[short_form ? 1 : 3];
    const PtxType a = short_form ? T_F16 : s->type[1], b = short_form ? T_F16 : s->type[2];
    const bool sums = c == d || (a == T_F16 && (c == T_F16 || c == T_F32));
    if (!multiplicand_exists(a) || a != b || !matrix_types_agree(a, b, d) || !sums || !shape_exists(s, a))
        parse_fail(p, s->at, "there is no such wmma.mma");
    f->type_a = (uint8_t)a, f->type_b = (uint8_t)b, f->type_c = (uint8_t)c, f->type_d = (uint8_t)d;
}

static OperandList wmma_list(Parser *p, const Stmt *s, int operand, int fragment, PtxType t) {
    PtxType type;
    const int count = fragment_count(s, fragment, t, &type);
    return matrix_list(p, s, &s->operand[operand], type, count, fragment == FRAGMENT_D);
}

void lower_wmma_mma(Parser *p, const Stmt *s) {
    MatrixForm *f = matrix_form(p, s);
    matrix_need_sync(p, s);
    wmma_types(p, s, f);
    if (s->layouts != 2) parse_fail(p, s->at, "wmma.mma takes two layouts");
    if (s->mod[CAT_SATFINITE] && !matrix_is_integer((PtxType)f->type_a))
        parse_fail(p, s->at, ".satfinite is for integers");
    if (s->mod[CAT_ROUND] && (f->type_a != T_F64 || s->mod[CAT_ROUND] != ROUND_RN))
        parse_fail(p, s->at, "the only rounding mode simulated is .rn, of .f64");
    f->saturate = s->mod[CAT_SATFINITE];
    f->d = wmma_list(p, s, 0, FRAGMENT_D, (PtxType)f->type_d);
    f->a = wmma_list(p, s, 1, FRAGMENT_A, (PtxType)f->type_a);
    f->b = wmma_list(p, s, 2, FRAGMENT_B, (PtxType)f->type_b);
    f->c = wmma_list(p, s, 3, FRAGMENT_C, (PtxType)f->type_c);
    Inst *i = emit(p, s, exec_wmma);
    i->matrix = f;
}
