/* Arithmetic, logic, comparison, selection, conversion and moves.  Modifiers that a handler does not know itself
 * become instructions around it: flush its sources and result (.ftz), clamp (.sat, .relu), set the host's rounding. */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/parse.h"
#include "tools/ptxsim/ptx/words.h"
#include <string.h>

static void no_type(Parser *p, const Stmt *s, PtxType t) {
    parse_fail(p, s->at, "'%s' does not exist for .%s", s->row->name, type_text(t));
}

static Operand flushed(Parser *p, const Stmt *s, Operand from, PtxType t) {
    const Operand to = scratch(p, type_bytes(t));
    Inst *i = emit(p, s, exec_flush);
    i->d = to;
    i->a = from;
    i->type = (uint8_t)t;
    i->hidden = true;
    return to;
}

/* Works in place on a result, under the same guard. */
static void after(Parser *p, const Stmt *s, ExecFn run, Operand result, PtxType t) {
    Inst *i = emit(p, s, run);
    i->d = i->a = result;
    i->type = (uint8_t)t;
    i->hidden = true;
}

static Operand magnitude(Parser *p, const Stmt *s, Operand from, PtxType t) {
    const Operand to = scratch(p, type_bytes(t));
    Inst *i = emit(p, s, arith_handler(OP_ABS, t));
    i->d = to;
    i->a = from;
    i->type = (uint8_t)t;
    i->hidden = true;
    return to;
}

static bool is_small_float(PtxType t) { return t == T_F16 || t == T_BF16 || t == T_F16X2 || t == T_BF16X2; }

/* bf16 came with sm_80 for fma, min, max, abs, neg and conversion from and to f32; the rest of it with sm_90. */
static void need_target_of(Parser *p, const Stmt *s, PtxType t) {
    if (t == T_U16X2 || t == T_S16X2) need_target(p, s, 90);
    const int op = s->row->op;
    const bool early = op == OP_FMA || op == OP_MIN || op == OP_MAX || op == OP_ABS || op == OP_NEG;
    if ((t == T_BF16 || t == T_BF16X2) && !early) need_target(p, s, 90);
}

static ExecFn rounded(Parser *p, const Stmt *s, PtxType t, ExecFn handler, ExecFn *inner) {
    const int r = s->mod[CAT_ROUND];
    *inner = NULL;
    if (!r) return handler;
    if (!type_is_float(t)) parse_fail(p, s->at, "a rounding mode on .%s arithmetic", type_text(t));
    if (r > ROUND_RP || r == ROUND_RNA) parse_fail(p, s->at, "this rounding mode is for conversions");
    if (r == ROUND_RN) return handler;
    if (is_small_float(t)) parse_fail(p, s->at, ".%s arithmetic rounds to nearest even only", type_text(t));
    *inner = handler;
    return exec_rounded;
}

static ExecFn pick_arith(Parser *p, const Stmt *s, PtxType t) {
    const int op = s->row->op;
    if (s->mod[CAT_CARRY] || op == OP_ADDC || op == OP_SUBC)
        return t == T_U32 || t == T_S32 || t == T_U64 || t == T_S64 ? exec_carry : NULL;
    if (s->mod[CAT_SAT] && t == T_S32 && (op == OP_ADD || op == OP_SUB)) return exec_add_sat;
    if (s->mod[CAT_SAT] && !type_is_float(t)) parse_fail(p, s->at, "no .sat for .%s", type_text(t));
    if (t == T_PRED) return op == OP_AND || op == OP_OR || op == OP_XOR || op == OP_NOT ? exec_predicate_logic : NULL;
    return arith_handler(op, t);
}

static uint8_t variant(const Stmt *s) {
    switch (s->row->op) {
    case OP_MIN:
    case OP_MAX: return s->mod[CAT_NAN];
    case OP_PRMT: return s->mod[CAT_PERMUTE];
    case OP_BFIND: return s->mod[CAT_SHIFTAMT];
    case OP_BMSK:
    case OP_SZEXT: return s->mod[CAT_WRAP];
    case OP_SHF: return (uint8_t)(s->mod[CAT_DIRECTION] | s->mod[CAT_WRAP] << 2);
    default: return s->mod[CAT_CARRY];
    }
}

/* The sign of a result without one: that of the product of the operands.  A NaN keeps its own. */
static void after_xorsign(Parser *p, const Stmt *s, Operand result, const Operand in[2], PtxType t) {
    Inst *i = emit(p, s, xorsign_handler(t));
    i->d = i->c = result;
    i->a = in[0];
    i->b = in[1];
    i->type = (uint8_t)t;
    i->hidden = true;
}

static void check_xorsign(Parser *p, const Stmt *s, PtxType t) {
    if (s->mod[CAT_XORSIGN] != s->mod[CAT_ABS]) parse_fail(p, s->at, ".xorsign and .abs go together");
    if (!s->mod[CAT_XORSIGN]) return;
    if (t != T_F32 && !is_small_float(t)) parse_fail(p, s->at, "no .xorsign for .%s", type_text(t));
    need_target(p, s, 86);
}

/* Operands by shape, then the instruction with what its modifiers put around it. */
static void lower_shaped(Parser *p, const Stmt *s, ExecFn handler, PtxType t, PtxType wide, uint8_t op2) {
    const char *shape = s->row->shape;
    Operand in[4] = {{0}}, d = {0};
    for (int k = 0; shape[k]; k++) {
        const Raw *r = &s->operand[k];
        switch (shape[k]) {
        case 'D': d = destination(p, s, r, wide); break;
        case 'U': d = destination(p, s, r, T_U32); break;
        case 'u': in[k - 1] = source(p, s, r, T_U32); break;
        default: in[k - 1] = source(p, s, r, k == 3 && wide != t ? wide : t); break; /* mad.wide adds a wide c */
        }
        if (k && shape[k] == 'T' && s->mod[CAT_FTZ] && type_is_float(t)) in[k - 1] = flushed(p, s, in[k - 1], t);
    }
    const Operand given[2] = {in[0], in[1]};
    for (int k = 0; k < 2 && s->mod[CAT_XORSIGN]; k++) in[k] = magnitude(p, s, in[k], t);
    ExecFn inner;
    const ExecFn run = rounded(p, s, t, handler, &inner);
    Inst *i = emit(p, s, run);
    i->inner = inner;
    i->d = d;
    i->a = in[0];
    i->b = in[1];
    i->c = in[2];
    i->e = in[3];
    i->op2 = op2;
    if (s->mod[CAT_FTZ]) after(p, s, exec_flush, d, t);
    if (s->mod[CAT_SAT] && type_is_float(t)) after(p, s, exec_saturate, d, t);
    if (s->mod[CAT_RELU]) after(p, s, exec_relu, d, t);
    if (s->mod[CAT_XORSIGN]) after_xorsign(p, s, d, given, t);
}

/* Of 16-bit formats for fma, of signed integers for min and max. */
static void check_relu(Parser *p, const Stmt *s, PtxType t) {
    if (!s->mod[CAT_RELU]) return;
    if (s->row->op == OP_FMA ? !is_small_float(t) : t != T_S32 && t != T_S16X2)
        parse_fail(p, s->at, "no .relu for '%s' of .%s", s->row->name, type_text(t));
    if (s->row->op != OP_FMA) need_target(p, s, 90);
}

void lower_arith(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    const PtxType t = s->type[0];
    const ExecFn run = pick_arith(p, s, t);
    if (!run) no_type(p, s, t);
    need_target_of(p, s, t);
    const bool gross = s->mod[CAT_PRECISE] == PRECISE_APPROX && (s->row->op == OP_RCP || s->row->op == OP_RSQRT);
    if (s->mod[CAT_FTZ] && (!type_is_float(t) || (t == T_F64 && !gross)))
        parse_fail(p, s->at, "no .ftz for .%s", type_text(t));
    check_relu(p, s, t);
    check_xorsign(p, s, t);
    if ((s->row->op == OP_BMSK || s->row->op == OP_SZEXT) && !s->mod[CAT_WRAP])
        parse_fail(p, s->at, "'%s' needs .clamp or .wrap", s->row->name);
    if (s->row->op == OP_SHF && (!s->mod[CAT_DIRECTION] || !s->mod[CAT_WRAP]))
        parse_fail(p, s->at, "shf needs .l or .r and .clamp or .wrap");
    lower_shaped(p, s, run, t, t, variant(s));
}

static PtxType widened(PtxType t) {
    switch (t) {
    case T_U16: return T_U32;
    case T_S16: return T_S32;
    case T_U32: return T_U64;
    case T_S32: return T_S64;
    default: return T_NONE;
    }
}

/* Of integers: with the condition code, clamped (mad.hi.sat.s32 and mad24.hi.sat.s32 only), or plain. */
static ExecFn pick_mul(Parser *p, const Stmt *s, PtxType t, PtxType wide) {
    const int op = s->row->op, half = s->mod[CAT_HALF];
    const bool carries = s->mod[CAT_CARRY] || op == OP_MADC;
    if (carries && half == HALF_WIDE) parse_fail(p, s->at, "no .wide with the condition code");
    if (s->mod[CAT_SAT]) {
        if (carries || half != HALF_HI || t != T_S32 || (op != OP_MAD && op != OP_MAD24))
            parse_fail(p, s->at, ".sat of integers is for mad.hi.s32 and mad24.hi.s32");
        return exec_mad_sat;
    }
    if (carries) return t == T_U32 || t == T_S32 || t == T_U64 || t == T_S64 ? exec_mad_carry : NULL;
    return wide == T_NONE ? NULL : mul_handler(op, half, t);
}

/* mad of floats is fma (with .rn) on every target here; of integers .lo, .hi or .wide. */
void lower_mul(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    const PtxType t = s->type[0];
    const int half = s->mod[CAT_HALF];
    int op = s->row->op;
    if (type_is_float(t)) {
        if (half || s->mod[CAT_CARRY]) parse_fail(p, s->at, "no .lo, .hi, .wide or .cc for .%s", type_text(t));
        if (op == OP_MAD) op = OP_FMA;
        const ExecFn run = arith_handler(op, t);
        if (!run) no_type(p, s, t);
        need_target_of(p, s, op == OP_FMA ? T_NONE : t);
        lower_shaped(p, s, run, t, t, 0);
        return;
    }
    if (!half) parse_fail(p, s->at, "'%s' of integers needs .lo, .hi or .wide", s->row->name);
    const PtxType wide = half == HALF_WIDE ? widened(t) : t;
    const ExecFn run = pick_mul(p, s, t, wide);
    if (!run) no_type(p, s, t);
    lower_shaped(p, s, run, t, wide, (uint8_t)(s->mod[CAT_CARRY] | half << 1));
}

/* dp4a.atype.btype; dp2a says which half of b. */
void lower_dot(Parser *p, const Stmt *s) {
    need_types(p, s, 2);
    const int half = s->mod[CAT_HALF];
    for (int k = 0; k < 2; k++)
        if (s->type[k] != T_U32 && s->type[k] != T_S32) no_type(p, s, s->type[k]);
    if (s->row->op == OP_DP2A && half != HALF_LO && half != HALF_HI) parse_fail(p, s->at, "dp2a needs .lo or .hi");
    Operand in[3];
    const Operand d = destination(p, s, &s->operand[0], T_B32);
    for (int k = 0; k < 3; k++) in[k] = source(p, s, &s->operand[1 + k], T_B32);
    Inst *i = emit(p, s, exec_dot);
    i->d = d;
    i->a = in[0];
    i->b = in[1];
    i->c = in[2];
    i->op2 = half == HALF_HI ? 16 : 0;
}

/* ---- comparison --------------------------------------------------------------------------------------- */
/* COMPARE_*, that of the handlers. */
static uint8_t check_compare(Parser *p, const Stmt *s, PtxType t) {
    int c = s->mod[CAT_COMPARE];
    if (!c) parse_fail(p, s->at, "'%s' needs a comparison", s->row->name);
    if (c >= COMPARE_LO) {
        if (t != T_U16 && t != T_U32 && t != T_U64)
            parse_fail(p, s->at, ".lo, .ls, .hi and .hs compare unsigned integers, not .%s", type_text(t));
        c = COMPARE_LT + (c - COMPARE_LO);
    }
    if (c >= COMPARE_EQU && !type_is_float(t)) parse_fail(p, s->at, "an unordered comparison of .%s", type_text(t));
    if (s->mod[CAT_FTZ] && t != T_F32 && t != T_F16 && t != T_F16X2)
        parse_fail(p, s->at, "no .ftz for a comparison of .%s", type_text(t));
    if (c > COMPARE_NE && (t == T_B16 || t == T_B32 || t == T_B64))
        parse_fail(p, s->at, ".%s values have no order", type_text(t));
    return (uint8_t)c;
}

/* `second`: where the instruction has another result, else NULL. */
static void emit_compare(Parser *p, const Stmt *s, PtxType t, Operand d, const Operand *second) {
    const uint8_t comparison = check_compare(p, s, t);
    need_target_of(p, s, t);
    const ExecFn run = compare_handler(t);
    if (!run) no_type(p, s, t);
    Operand a = source(p, s, &s->operand[1], t), b = source(p, s, &s->operand[2], t), c = {0};
    if (s->mod[CAT_FTZ]) {
        a = flushed(p, s, a, t);
        b = flushed(p, s, b, t);
    }
    const int logic = s->mod[CAT_BOOL];
    if ((logic != 0) != (s->count == 4) || logic == BOOL_POPC)
        parse_fail(p, s->at, "'%s' combines with a predicate by .and, .or or .xor", s->row->name);
    if (logic) c = predicate_source(p, s, &s->operand[3]);
    Inst *i = emit(p, s, run);
    i->d = d;
    if (second) i->d2 = *second;
    i->has_d2 = second != NULL;
    i->a = a;
    i->b = b;
    i->c = c;
    i->op = comparison;
    i->op2 = (uint8_t)logic;
}

static void lower_testp(Parser *p, const Stmt *s) {
    const PtxType t = s->type[0];
    if ((t != T_F32 && t != T_F64) || !s->mod[CAT_TEST]) parse_fail(p, s->at, "testp needs a test and .f32 or .f64");
    const Operand d = destination(p, s, &s->operand[0], T_PRED), a = source(p, s, &s->operand[1], t);
    Inst *i = emit(p, s, exec_testp);
    i->d = d;
    i->a = a;
    i->op = s->mod[CAT_TEST];
}

/* d = flag ? yes : 0 */
static void emit_choice(Parser *p, const Stmt *s, Operand d, Operand flag, uint64_t yes) {
    const Operand a = pool_constant(p, yes, d.bytes), b = pool_constant(p, 0, d.bytes);
    Inst *i = emit(p, s, select_handler(d.bytes));
    i->d = d;
    i->a = a;
    i->b = b;
    i->c = flag;
    i->hidden = true;
}

static bool is_pair(PtxType t) { return t == T_F16X2 || t == T_BF16X2; }

/* What stands for true in one element of the result; 0: there is no such set.  Results of 16 bits come with operands
 * of 16-bit formats, or are of one themselves. */
static uint32_t true_of(PtxType to, PtxType from) {
    const bool half = is_small_float(from), pair = is_pair(from);
    switch (to) {
    case T_U32:
    case T_S32: return UINT32_MAX;
    case T_F32: return half ? 0 : 0x3f800000;
    case T_U16:
    case T_S16: return half && !pair ? 0xffff : 0;
    case T_F16: return pair || from == T_BF16 ? 0 : 0x3c00;
    case T_BF16: return pair ? 0 : 0x3f80;
    case T_F16X2: return from == to ? 0x3c00 : 0;
    case T_BF16X2: return from == to ? 0x3f80 : 0;
    default: return 0;
    }
}

static void lower_set(Parser *p, const Stmt *s) {
    need_types(p, s, 2);
    const PtxType to = s->type[0], from = s->type[1];
    const uint32_t yes = true_of(to, from);
    if (!yes) parse_fail(p, s->at, "there is no set.%s.%s", type_text(to), type_text(from));
    if (to == T_BF16) need_target(p, s, 90);
    if (s->mod[CAT_FTZ] && to == T_BF16) parse_fail(p, s->at, "no .ftz towards .bf16");
    const Operand d = destination(p, s, &s->operand[0], to), flag = scratch(p, 0);
    if (!is_pair(from)) {
        emit_compare(p, s, from, flag, NULL);
        emit_choice(p, s, d, flag, yes);
        return;
    }
    const Operand high_flag = scratch(p, 0), low = scratch(p, 2), high = scratch(p, 2);
    emit_compare(p, s, from, flag, &high_flag);
    emit_choice(p, s, low, flag, yes & 0xffff);
    emit_choice(p, s, high, high_flag, yes & 0xffff);
    Inst *i = emit(p, s, exec_pack);
    i->d = d;
    i->vec[0] = low;
    i->vec[1] = high;
    i->count = 2;
    i->hidden = true;
}

void lower_compare(Parser *p, const Stmt *s) {
    if (s->row->op == OP_SET) {
        lower_set(p, s);
        return;
    }
    need_types(p, s, 1);
    if (s->row->op == OP_TESTP) {
        lower_testp(p, s);
        return;
    }
    const Operand d = destination(p, s, &s->operand[0], T_PRED);
    const Raw *second = s->operand[0].second;
    if (second && (s->type[0] == T_F16 || s->type[0] == T_BF16))
        parse_fail(p, s->at, "setp.%s has one result", type_text(s->type[0]));
    const Operand d2 = second ? destination(p, s, second, T_PRED) : (Operand){0};
    emit_compare(p, s, s->type[0], d, second ? &d2 : NULL);
}

void lower_select(Parser *p, const Stmt *s) {
    const bool slct = s->row->op == OP_SLCT;
    need_types(p, s, slct ? 2 : 1);
    const PtxType t = s->type[0], test = slct ? s->type[1] : T_PRED;
    const bool low = type_is_float(t) && t != T_F32 && t != T_F64;
    if (t == T_PRED || low || type_bytes(t) < 2 || t == T_B128) no_type(p, s, t);
    if (slct && test != T_S32 && test != T_F32) no_type(p, s, test);
    const Operand d = destination(p, s, &s->operand[0], t), a = source(p, s, &s->operand[1], t);
    const Operand b = source(p, s, &s->operand[2], t);
    Operand c = source(p, s, &s->operand[3], test);
    if (s->mod[CAT_FTZ] && slct && test == T_F32) c = flushed(p, s, c, T_F32);
    Inst *i = emit(p, s, slct ? exec_slct : select_handler(type_bytes(t)));
    i->d = d;
    i->a = a;
    i->b = b;
    i->c = c;
}

void lower_lop3(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    if (s->type[0] != T_B32) no_type(p, s, s->type[0]);
    const int logic = s->mod[CAT_BOOL];
    const Raw *lut = &s->operand[4];
    if (lut->kind != RAW_INT || lut->bits > 255) parse_fail(p, lut->at, "the table of lop3 is a constant of 8 bits");
    if ((logic != 0) != (s->count == 6) || (logic && !s->operand[0].second) || logic == BOOL_XOR || logic == BOOL_POPC)
        parse_fail(p, s->at, "lop3 with .or or .and takes d|p and a predicate");
    const Operand d = destination(p, s, &s->operand[0], T_B32), a = source(p, s, &s->operand[1], T_B32);
    const Operand b = source(p, s, &s->operand[2], T_B32), c = source(p, s, &s->operand[3], T_B32);
    Operand q = {0}, d2 = {0};
    if (logic) {
        q = predicate_source(p, s, &s->operand[5]);
        d2 = destination(p, s, s->operand[0].second, T_PRED);
    }
    Inst *i = emit(p, s, exec_lop3);
    i->d = d;
    i->d2 = d2;
    i->has_d2 = logic != 0;
    i->a = a;
    i->b = b;
    i->c = c;
    i->e = q;
    i->op2 = (uint8_t)logic;
    i->offset = (int64_t)lut->bits;
}

/* ---- conversion --------------------------------------------------------------------------------------- */
static void check_conversion(Parser *p, const Stmt *s, PtxType to, PtxType from) {
    const bool to_float = type_is_float(to), from_float = type_is_float(from);
    const int r = s->mod[CAT_ROUND];
    const bool integral = r >= ROUND_RNI;
    if (to_float && from_float && type_bytes(to) < type_bytes(from) && !r)
        parse_fail(p, s->at, "cvt.%s.%s needs a rounding mode", type_text(to), type_text(from));
    if (to_float != from_float && !r)
        parse_fail(p, s->at, "cvt.%s.%s needs a rounding mode", type_text(to), type_text(from));
    if (!to_float && from_float && !integral)
        parse_fail(p, s->at, "cvt from .%s to an integer takes .rni, .rzi, .rmi or .rpi", type_text(from));
    if (to_float && !from_float && integral) parse_fail(p, s->at, "an integral rounding mode towards .%s", type_text(to));
    if (!to_float && !from_float && r) parse_fail(p, s->at, "a rounding mode between integers");
}

static void lower_convert_pack(Parser *p, const Stmt *s, PtxType to) {
    if (s->type[1] != T_F32 || (s->mod[CAT_ROUND] != ROUND_RN && s->mod[CAT_ROUND] != ROUND_RZ))
        parse_fail(p, s->at, "cvt to .%s takes two .f32 and .rn or .rz", type_text(to));
    const Operand d = destination(p, s, &s->operand[0], to), a = source(p, s, &s->operand[1], T_F32);
    const Operand b = source(p, s, &s->operand[2], T_F32);
    Inst *i = emit(p, s, exec_convert_pack);
    i->d = d;
    i->a = a;
    i->b = b;
    if (s->mod[CAT_RELU]) after(p, s, exec_relu, d, to);
}

static bool is_eight(PtxType t) { return t == T_E4M3X2 || t == T_E5M2X2; }

/* .e4m3x2 and .e5m2x2: from two .f32 or from .f16x2, and to .f16x2. */
static void lower_convert_eight(Parser *p, const Stmt *s, PtxType to, PtxType from) {
    const bool narrow = is_eight(to);
    const int count = from == T_F32 ? 3 : 2;
    if (narrow ? from != T_F32 && from != T_F16X2 : to != T_F16X2)
        parse_fail(p, s->at, "there is no cvt.%s.%s", type_text(to), type_text(from));
    if (s->count != count) parse_fail(p, s->at, "cvt.%s.%s takes %d operands", type_text(to), type_text(from), count);
    if (s->mod[CAT_ROUND] != ROUND_RN || s->mod[CAT_FTZ] || s->mod[CAT_SAT] || narrow != (s->mod[CAT_SATFINITE] != 0))
        parse_fail(p, s->at, "cvt.%s.%s takes .rn%s", type_text(to), type_text(from), narrow ? " and .satfinite" : "");
    need_target(p, s, p->module->version < 81 ? 90 : 89);
    const Operand d = destination(p, s, &s->operand[0], to), a = source(p, s, &s->operand[1], from);
    const Operand b = count == 3 ? source(p, s, &s->operand[2], from) : (Operand){0};
    Inst *i = emit(p, s, narrow ? exec_to_eight : exec_from_eight);
    i->d = d;
    i->a = a;
    i->b = b;
    i->op2 = s->mod[CAT_RELU];
    if (s->mod[CAT_RELU] && !narrow) after(p, s, exec_relu, d, to);
}

void lower_convert(Parser *p, const Stmt *s) {
    need_types(p, s, 2);
    const PtxType to = s->type[0], from = s->type[1];
    if (is_eight(to) || is_eight(from)) {
        lower_convert_eight(p, s, to, from);
        return;
    }
    const bool pack = to == T_F16X2 || to == T_BF16X2;
    if (pack != (s->count == 3)) parse_fail(p, s->at, "cvt to .%s takes %d operands", type_text(to), pack ? 3 : 2);
    if (pack) {
        lower_convert_pack(p, s, to);
        return;
    }
    if (to == T_TF32 && from == T_F32) {
        if (s->mod[CAT_ROUND] != ROUND_RNA && s->mod[CAT_ROUND] != ROUND_RN && s->mod[CAT_ROUND] != ROUND_RZ)
            parse_fail(p, s->at, "cvt to .tf32 takes .rna, .rn or .rz");
    } else {
        check_conversion(p, s, to, from);
    }
    const bool int_to = !type_is_float(to), int_from = !type_is_float(from);
    const Operand d = int_to ? destination_any_width(p, &s->operand[0], to) : destination(p, s, &s->operand[0], to);
    Operand a = int_from ? source_any_width(p, s, &s->operand[1], from) : source(p, s, &s->operand[1], from);
    if ((to == T_BF16 && from != T_F32) || (from == T_BF16 && to != T_F32)) need_target(p, s, 90);
    if (to == T_TF32 && s->mod[CAT_ROUND] != ROUND_RNA) need_target(p, s, 90);
    if ((to == T_BF16 && type_bytes(from) == 1) || (from == T_BF16 && type_bytes(to) == 1))
        parse_fail(p, s->at, "there is no cvt.%s.%s", type_text(to), type_text(from));
    const ExecFn run = convert_handler(to, from, d.bytes, a.bytes);
    if (!run) parse_fail(p, s->at, "there is no cvt.%s.%s", type_text(to), type_text(from));
    if (s->mod[CAT_FTZ] && from == T_F32) a = flushed(p, s, a, from);
    Inst *i = emit(p, s, run);
    i->d = d;
    i->a = a;
    i->saturate = s->mod[CAT_SAT];
    if (s->mod[CAT_FTZ] && to == T_F32) after(p, s, exec_flush, d, T_F32);
    if (s->mod[CAT_RELU] && to != T_TF32 && !is_small_float(to)) parse_fail(p, s->at, "no .relu towards .%s", type_text(to));
    if (s->mod[CAT_RELU]) after(p, s, exec_relu, d, to == T_TF32 ? T_F32 : to);
}

/* ---- moves -------------------------------------------------------------------------------------------- */
static PtxType bits_of(int bytes) { return bytes == 1 ? T_B8 : bytes == 2 ? T_B16 : bytes == 4 ? T_B32 : T_B64; }

/* mov.b64 d, {a, b};  mov.b64 {a, b}, d;  elements share the type's bits evenly, the first is the lowest */
static void lower_vector_move(Parser *p, const Stmt *s, PtxType t, bool pack) {
    const Raw *v = &s->operand[pack ? 1 : 0];
    if ((v->count != 2 && v->count != 4) || type_bytes(t) % v->count || t == T_PRED)
        parse_fail(p, v->at, "mov.%s of %d elements", type_text(t), v->count);
    if (t == T_B128 && v->count != 2) parse_fail(p, v->at, "a .b128 is made of two .b64");
    const PtxType element = bits_of(type_bytes(t) / v->count);
    Operand vec[MAX_VECTOR] = {{0}}, whole;
    if (pack) {
        whole = destination(p, s, &s->operand[0], t);
        for (int k = 0; k < v->count; k++) vec[k] = source(p, s, &v->item[k], element);
    } else {
        whole = source(p, s, &s->operand[1], t);
        for (int k = 0; k < v->count; k++) vec[k] = destination(p, s, &v->item[k], element);
    }
    Inst *i = emit(p, s, pack ? exec_pack : exec_unpack);
    memcpy(i->vec, vec, sizeof vec);
    i->count = (uint8_t)v->count;
    if (pack) i->d = whole;
    else i->a = whole;
}

void lower_move(Parser *p, const Stmt *s) {
    need_types(p, s, 1);
    const PtxType t = s->type[0];
    const bool bits = t == bits_of(type_bytes(t)); /* mov.b32 a, {b} is mov.b32 a, b */
    const Raw *to = bits ? scalar_of(&s->operand[0]) : &s->operand[0];
    const Raw *from = bits ? scalar_of(&s->operand[1]) : &s->operand[1];
    if (to->kind == RAW_VECTOR || from->kind == RAW_VECTOR) {
        if (s->operand[0].kind == s->operand[1].kind) parse_fail(p, s->at, "mov of a vector to a vector");
        lower_vector_move(p, s, t, s->operand[1].kind == RAW_VECTOR);
        return;
    }
    const Operand d = destination(p, s, to, t), a = source(p, s, from, t);
    Inst *i = emit(p, s, t == T_PRED ? exec_predicate_logic : move_handler(type_bytes(t)));
    i->d = d;
    i->a = a;
}
