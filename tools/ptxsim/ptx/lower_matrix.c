/* Warp-level matrix instructions: ldmatrix, stmatrix, movmatrix, mma.sync.
 * Source: PTX ISA, "Warp-level matrix instructions". */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/lower_matrix.h"
#include <stdio.h>
#include <string.h>

/* ---- modifiers ---------------------------------------------------------------------------------------- */
/* m16n8k16, m8n8; false: not a shape */
static bool parse_shape(const Token *t, uint16_t shape[3]) {
    char text[24] = {0};
    unsigned m = 0, n = 0, k = 0;
    int used = 0;
    if (t->length >= sizeof text || t->text[0] != 'm') return false;
    memcpy(text, t->text, t->length);
    const int found = sscanf(text, "m%3un%3u%nk%3u%n", &m, &n, &used, &k, &used);
    if (found < 2 || used != (int)t->length) return false;
    shape[0] = (uint16_t)m;
    shape[1] = (uint16_t)n;
    shape[2] = (uint16_t)k;
    return true;
}

bool matrix_modifier(Parser *p, Stmt *s, const Token *t) {
    const PtxType type = matrix_type_of_token(t);
    uint16_t shape[3];
    if (type != T_NONE) {
        if (s->types == MAX_TYPES) parse_fail(p, *t, "too many types");
        s->type[s->types++] = type;
    } else if (token_is(t, "row") || token_is(t, "col")) {
        if (s->layouts == 2) parse_fail(p, *t, "more than two layouts");
        s->layout[s->layouts++] = token_is(t, "row") ? LAYOUT_ROW : LAYOUT_COL;
    } else if (parse_shape(t, shape)) {
        if (s->shape[0]) parse_fail(p, *t, "a second shape");
        memcpy(s->shape, shape, sizeof shape);
    } else {
        return false;
    }
    return true;
}

/* ---- operands ----------------------------------------------------------------------------------------- */
OperandList matrix_list(Parser *p, const Stmt *s, const Raw *r, PtxType t, int count, bool result) {
    const Raw *item = r->kind == RAW_VECTOR ? r->item : r;
    const int have = r->kind == RAW_VECTOR ? r->count : 1;
    if (have != count)
        parse_fail(p, r->at, "'%s' expects %d register%s here, not %d", s->row->name, count, count == 1 ? "" : "s",
                   have);
    Operand *list = sim_alloc(&p->module->arena, sizeof *list * (size_t)count);
    for (int k = 0; k < count; k++) list[k] = result ? destination(p, s, &item[k], t) : source(p, s, &item[k], t);
    return (OperandList){.item = list, .count = count};
}

MatrixForm *matrix_form(Parser *p, const Stmt *s) {
    MatrixForm *f = sim_alloc(&p->module->arena, sizeof *f);
    f->kernels = matrix_kernels();
    f->m = s->shape[0];
    f->n = s->shape[1];
    f->k = s->shape[2];
    return f;
}

void matrix_need_sync(Parser *p, const Stmt *s) {
    if (s->mod[CAT_SYNC] != SYNC_SYNC || !s->mod[CAT_ALIGNED])
        parse_fail(p, s->at, "'%s' needs .sync.aligned", s->row->name);
}

/* Which target brought an instruction or a shape. */
void matrix_need_target(Parser *p, const Stmt *s, int target) {
    if (p->module->target < target)
        parse_fail(p, s->at, "this form of '%s' needs target sm_%d or newer", s->row->name, target);
}

PtxType matrix_register_type(PtxType element) { return element == T_F64 ? T_F64 : T_B32; }

/* ---- ldmatrix, stmatrix, movmatrix -------------------------------------------------------------------- */
static void need_tile(Parser *p, const Stmt *s) {
    matrix_need_sync(p, s);
    need_types(p, s, 1);
    if (s->shape[0] != 8 || s->shape[1] != 8 || s->shape[2] || s->type[0] != T_B16 || s->layouts)
        parse_fail(p, s->at, "'%s' moves .m8n8 matrices of .b16 on the targets that are simulated", s->row->name);
}

void lower_ldmatrix(Parser *p, const Stmt *s) {
    static const int COUNT[] = {0, 1, 2, 4};
    const bool store = s->row->op == OP_STMATRIX;
    need_tile(p, s);
    if (store) matrix_need_target(p, s, 90);
    const int space = s->mod[CAT_SPACE], tiles = COUNT[s->mod[CAT_TILES]];
    if (!tiles) parse_fail(p, s->at, "'%s' needs .x1, .x2 or .x4", s->row->name);
    if (space != SPACE_GENERIC && space != SPACE_SHARED)
        parse_fail(p, s->at, "'%s' works on shared memory", s->row->name);
    Inst where = {0};
    MatrixForm *f = matrix_form(p, s);
    f->d = matrix_list(p, s, &s->operand[store ? 1 : 0], T_B32, tiles, !store);
    f->trans_a = s->mod[CAT_TRANS];
    address(p, s, &s->operand[store ? 0 : 1], &where);
    Inst *i = emit(p, s, store ? exec_stmatrix : exec_ldmatrix);
    i->matrix = f;
    i->a = where.a;
    i->offset = where.offset;
    i->space = (uint8_t)space;
    i->kind = CLASS_MEMORY;
}

void lower_movmatrix(Parser *p, const Stmt *s) {
    need_tile(p, s);
    if (!s->mod[CAT_TRANS]) parse_fail(p, s->at, "movmatrix needs .trans");
    const Operand d = destination(p, s, &s->operand[0], T_B32), a = source(p, s, &s->operand[1], T_B32);
    Inst *i = emit(p, s, exec_movmatrix);
    i->d = d;
    i->a = a;
}

/* ---- mma.sync ----------------------------------------------------------------------------------------- */
/* Families of element types: within one, A and B may differ when `mixed`. */
typedef enum Family { FAMILY_F16, FAMILY_BF16, FAMILY_TF32, FAMILY_F64, FAMILY_BYTE, FAMILY_NIBBLE, FAMILY_FP8 } Family;
typedef struct MmaRow {
    uint8_t m, n, k, family;
    uint8_t target;
} MmaRow;

/* PTX ISA, "Multiply-and-accumulate instruction: mma", without .b1, sparse and block-scaled forms; the quad-pair form
 * m8n8k4 of .f16, a relic of sm_70, is not here either. */
static const MmaRow MMA[] = {
    {16, 8, 8, FAMILY_F16, 75},     {16, 8, 16, FAMILY_F16, 80},   {16, 8, 8, FAMILY_BF16, 80},
    {16, 8, 16, FAMILY_BF16, 80},   {16, 8, 4, FAMILY_TF32, 80},   {16, 8, 8, FAMILY_TF32, 80},
    {8, 8, 4, FAMILY_F64, 80},      {16, 8, 4, FAMILY_F64, 90},    {16, 8, 8, FAMILY_F64, 90},
    {16, 8, 16, FAMILY_F64, 90},    {8, 8, 16, FAMILY_BYTE, 75},   {16, 8, 16, FAMILY_BYTE, 80},
    {16, 8, 32, FAMILY_BYTE, 80},   {8, 8, 32, FAMILY_NIBBLE, 75}, {16, 8, 32, FAMILY_NIBBLE, 80},
    {16, 8, 64, FAMILY_NIBBLE, 80}, {16, 8, 16, FAMILY_FP8, 89},   {16, 8, 32, FAMILY_FP8, 89},
};

static int family_of(PtxType t) {
    switch (t) {
    case T_F16: return FAMILY_F16;
    case T_BF16: return FAMILY_BF16;
    case T_TF32: return FAMILY_TF32;
    case T_F64: return FAMILY_F64;
    case T_S8:
    case T_U8: return FAMILY_BYTE;
    case T_S4:
    case T_U4: return FAMILY_NIBBLE;
    case T_E4M3:
    case T_E5M2: return FAMILY_FP8;
    default: return -1;
    }
}

bool matrix_types_agree(PtxType a, PtxType b, PtxType d) {
    const int f = family_of(a);
    if (f < 0 || family_of(b) != f) return false;
    switch ((Family)f) {
    case FAMILY_BYTE:
    case FAMILY_NIBBLE: return d == T_S32;
    case FAMILY_F64: return d == T_F64;
    case FAMILY_F16:
    case FAMILY_FP8: return d == T_F16 || d == T_F32;
    default: return d == T_F32;
    }
}

bool matrix_is_integer(PtxType t) { return family_of(t) == FAMILY_BYTE || family_of(t) == FAMILY_NIBBLE; }

static const MmaRow *mma_row(const Stmt *s) {
    for (size_t k = 0; k < sizeof MMA / sizeof *MMA; k++)
        if (MMA[k].m == s->shape[0] && MMA[k].n == s->shape[1] && MMA[k].k == s->shape[2] &&
            MMA[k].family == family_of(s->type[1]))
            return &MMA[k];
    return NULL;
}

/* Registers of a fragment: `elements` of the matrix over 32 lanes. */
int matrix_registers(int elements, PtxType t) {
    const int width = t == T_F64 ? 64 : 32;
    return elements * element_bits(t) / (WARP * width);
}

void lower_mma(Parser *p, const Stmt *s) {
    matrix_need_sync(p, s);
    need_types(p, s, 4);
    const PtxType d = s->type[0], a = s->type[1], b = s->type[2], c = s->type[3];
    const MmaRow *row = mma_row(s);
    if (!row || !matrix_types_agree(a, b, d) || c != d)
        parse_fail(p, s->at, "there is no mma.m%un%uk%u.%s.%s.%s.%s", s->shape[0], s->shape[1], s->shape[2],
                   type_text(d), type_text(a), type_text(b), type_text(c));
    if (s->layouts != 2 || s->layout[0] != LAYOUT_ROW || s->layout[1] != LAYOUT_COL)
        parse_fail(p, s->at, "mma takes .row.col");
    if (s->mod[CAT_SATFINITE] && !matrix_is_integer(a)) parse_fail(p, s->at, ".satfinite is for integers");
    matrix_need_target(p, s, row->target);
    MatrixForm *f = matrix_form(p, s);
    f->type_a = (uint8_t)a, f->type_b = (uint8_t)b, f->type_c = (uint8_t)c, f->type_d = (uint8_t)d;
    f->saturate = s->mod[CAT_SATFINITE];
    const PtxType wide = matrix_register_type(a), sum = d == T_F16 ? T_B32 : d;
    f->d = matrix_list(p, s, &s->operand[0], sum, matrix_registers(f->m * f->n, d), true);
    f->a = matrix_list(p, s, &s->operand[1], wide, matrix_registers(f->m * f->k, a), false);
    f->b = matrix_list(p, s, &s->operand[2], wide, matrix_registers(f->k * f->n, b), false);
    f->c = matrix_list(p, s, &s->operand[3], sum, matrix_registers(f->m * f->n, c), false);
    Inst *i = emit(p, s, a == T_F64 ? exec_mma_f64 : exec_mma);
    i->matrix = f;
}
