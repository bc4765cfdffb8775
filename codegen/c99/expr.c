/* Values as C expressions; index expressions; elementwise operations. */
#include "codegen/c99/internal.h"
#include "codegen/math/math.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 116 };
enum { LONGEST_NESTED = 64 }; /* characters of an expression that needs no name */

/* Breaks at the last space that fits; what follows is indented further. */
void c99_line(Printer *p, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    char *text = arena_vprintf(p->arena, format, ap);
    va_end(ap);
    for (int indent = 4 * p->depth;; indent = 4 * p->depth + 8) {
        size_t n = strlen(text);
        const size_t room = indent < LINE - 40 ? (size_t)(LINE - indent) : 40;
        if (n > room) {
            size_t at = room;
            while (at > 0 && text[at] != ' ') at--;
            if (at > 0) n = at;
        }
        fprintf(p->f, "%*s%.*s\n", indent, "", (int)n, text);
        if (!text[n]) return;
        text += n + 1;
    }
}

const char *c99_type(DType t, bool in_memory) {
    switch (t) {
    case DT_BOOL: return in_memory ? "uint8_t" : "bool";
    case DT_I32: return "int32_t";
    case DT_F16:
    case DT_BF16: return in_memory ? "uint16_t" : "float";
    default: return "float";
    }
}

/* Low floats are computed in float: their helpers round to the dtype, read its bits, write them. */
static const struct LowForms {
    const char *round, *read, *write;
    C99Helper rounds, reads, writes;
} low_forms[DT_COUNT] = {
    [DT_F16] = {"fusec_round_f16", "fusec_from_f16", "fusec_to_f16", C99_ROUND_F16, C99_FROM_F16, C99_TO_F16},
    [DT_BF16] = {"fusec_round_bf16", "fusec_from_bf16", "fusec_to_bf16", C99_ROUND_BF16, C99_FROM_BF16, C99_TO_BF16},
    [DT_TF32] = {.round = "fusec_round_tf32", .rounds = C99_ROUND_TF32},
};

static Text helper_call(Printer *p, C99Helper h, const char *name, Text x) {
    c99_use(p->unit, h);
    return (Text){arena_printf(p->arena, "%s(%s)", name, x.s), LEVEL_ATOM};
}

static Text from_memory(Printer *p, DType t, Text element) {
    if (t == DT_BOOL) return (Text){arena_printf(p->arena, "%s != 0", element.s), LEVEL_EQUALITY};
    return low_forms[t].read ? helper_call(p, low_forms[t].reads, low_forms[t].read, element) : element;
}

Text c99_to_memory(Printer *p, DType t, Text x) {
    return low_forms[t].write ? helper_call(p, low_forms[t].writes, low_forms[t].write, x) : x;
}

/* Ops that give a value of the dtype for values of the dtype. */
static bool is_exact(Op op) {
    return op == OP_NEG || op == OP_ABS || op == OP_SIGN || op == OP_FLOOR || op == OP_CEIL || op == OP_MAX ||
           op == OP_MIN || op == OP_SELECT;
}

static char *float_digits(Arena *a, DType t, double v) {
    char *s = t == DT_F32 ? arena_printf(a, "%.9g", (double)(float)v) : arena_printf(a, "%.17g", v);
    for (int digits = 1; digits < (t == DT_F32 ? 9 : 17); digits++) { /* the shortest that reads back */
        char *shorter = arena_printf(a, "%.*g", digits, v);
        const double back = strtod(shorter, NULL);
        if (t == DT_F32 ? (float)back == (float)v : back == v) {
            s = shorter;
            break;
        }
    }
    return strpbrk(s, ".en") ? s : arena_printf(a, "%s.0", s);
}

char *c99_literal(Arena *a, DType t, double v) {
    if (dtype_is_low(t)) v = scalar_round(t, v), t = DT_F32;
    if (t == DT_BOOL) return arena_strdup(a, v != 0 ? "true" : "false");
    if (t == DT_I32) {
        if (v <= -2147483648.0) return arena_strdup(a, "INT32_MIN");
        return arena_printf(a, "%" PRId32, v >= 2147483647.0 || isnan(v) ? INT32_MAX : (int32_t)v);
    }
    const char *suffix = t == DT_F32 ? "f" : "";
    if (t == DT_F32) v = (float)v;
    if (isnan(v)) return arena_strdup(a, "FUSEC_NAN");
    if (isinf(v)) return arena_strdup(a, v > 0 ? "FUSEC_INF" : "-FUSEC_INF");
    return arena_printf(a, "%s%s", float_digits(a, t, v), suffix);
}

const char *c99_operand(Printer *p, Text t, Level most) {
    return t.level > most ? arena_printf(p->arena, "(%s)", t.s) : t.s;
}

/* ---- index expressions ----------------------------------------------------------------------------------- */
static bool never_negative(const Printer *p, const Index *x) {
    int64_t lo, hi;
    return index_range(p->k, x, &lo, &hi) && lo >= 0;
}

static bool fits_int32(const Printer *p, const Index *x) {
    int64_t lo, hi;
    return index_range(p->k, x, &lo, &hi) && lo > INT32_MIN && hi < INT32_MAX;
}

static Text atom_text(Printer *p, const Atom *a, bool wide) {
    const char *cast = wide ? "(int64_t)" : "", *name = NULL;
    if (a->kind == ATOM_AXIS) name = p->axis[a->id].index;
    if (a->kind == ATOM_EXTENT) name = p->sym[a->id];
    if (a->kind == ATOM_VALUE) name = c99_operand(p, c99_value(p, a->id), LEVEL_ATOM);
    if (name) return (Text){arena_printf(p->arena, "%s%s", cast, name), LEVEL_ATOM};
    if (a->kind == ATOM_TILE) {
        const char *at = c99_has_lanes(p, a->id) ? p->axis[a->id].base : p->axis[a->id].index;
        return (Text){arena_printf(p->arena, "%s%s / %d", cast, at, p->k->axes.at[a->id].step), LEVEL_PRODUCT};
    }
    const bool plain = never_negative(p, a->num), div = a->kind == ATOM_DIV;
    const Text num = c99_index(p, a->num, wide), den = c99_index(p, a->den, wide);
    if (plain) {
        const char *x = c99_operand(p, num, LEVEL_ATOM), *y = c99_operand(p, den, LEVEL_ATOM);
        return (Text){arena_printf(p->arena, "%s %c %s", x, div ? '/' : '%', y), LEVEL_PRODUCT};
    }
    c99_use(p->unit, div ? C99_FLOOR_DIV : C99_FLOOR_MOD);
    const char *narrow = wide ? "" : "(int32_t)";
    return (Text){arena_printf(p->arena, "%sfusec_floor_%s(%s, %s)", narrow, div ? "div" : "mod", num.s, den.s),
                  LEVEL_UNARY};
}

/* An axis that has one index only stands for 0. */
static bool is_zero(const Printer *p, const Atom *a) {
    if (a->kind == ATOM_TILE) return dim_is_fixed(p->k->axes.at[a->id].extent) && p->k->axes.at[a->id].extent.bound == 1;
    return a->kind == ATOM_AXIS && !p->axis[a->id].open;
}

/* Does it move with a loop from a place that is known at run time only? */
static bool moves_from_extent(const Printer *p, const Index *x) {
    bool moves = false, extent = false;
    for (int i = 0; i < x->n; i++) {
        const Atom *a = &x->term[i].atom;
        moves |= (a->kind == ATOM_AXIS || a->kind == ATOM_TILE) && !is_zero(p, a);
        extent |= a->kind == ATOM_EXTENT;
    }
    return moves && extent;
}

/* Modulo 2^32 or 2^64, and back.  GCC 12's induction variables (-fivopts, so -O2) take two such subscripts of one loop that
 * move by different steps (t[S - 1 - i] * t[2*S - 1 - 2*i]) for bounds of each other when their arithmetic is signed, and
 * leave the loop out: right with -O1, -fwrapv, and what is unsigned. */
static Text index_modulo(Printer *p, const Index *x, bool wide) {
    const char *bits = wide ? "64" : "32", *suffix = wide ? "ull" : "u", *s = "";
    for (int i = 0; i < x->n; i++) {
        const int64_t coef = x->term[i].coef;
        const uint64_t size = coef < 0 ? -(uint64_t)coef : (uint64_t)coef;
        if (is_zero(p, &x->term[i].atom)) continue;
        const Text atom = atom_text(p, &x->term[i].atom, wide);
        const char *sign = coef < 0 ? (*s ? " - " : "-") : *s ? " + " : "",
                   *factor = size == 1 ? "" : arena_printf(p->arena, "%" PRIu64 "%s * ", size, suffix);
        s = arena_printf(p->arena, "%s%s%s(uint%s_t)%s", s, sign, factor, bits, c99_operand(p, atom, LEVEL_UNARY));
    }
    if (x->c)
        s = arena_printf(p->arena, "%s %c %" PRIu64 "%s", s, x->c < 0 ? '-' : '+', x->c < 0 ? -(uint64_t)x->c : (uint64_t)x->c,
                         suffix);
    return (Text){arena_printf(p->arena, "(int%s_t)(%s)", bits, s), LEVEL_UNARY};
}

Text c99_index(Printer *p, const Index *x, bool wide) {
    Text t = {"", LEVEL_ATOM};
    if (moves_from_extent(p, x)) return index_modulo(p, x, wide);
    for (int i = 0; i < x->n; i++) {
        const int64_t coef = x->term[i].coef, size = coef < 0 ? -coef : coef;
        if (is_zero(p, &x->term[i].atom)) continue;
        const bool first = !*t.s;
        const Text atom = atom_text(p, &x->term[i].atom, wide);
        const char *sign = first ? (coef < 0 ? "-" : "") : coef < 0 ? " - " : " + ";
        if (size != 1)
            t.s = arena_printf(p->arena, "%s%s%" PRId64 " * %s", t.s, sign, size, c99_operand(p, atom, LEVEL_UNARY));
        else
            t.s = arena_printf(p->arena, "%s%s%s", t.s, sign,
                               c99_operand(p, atom, coef < 0 ? LEVEL_UNARY : LEVEL_PRODUCT));
        t.level = first && coef == 1 ? atom.level : first && coef > 0 ? LEVEL_PRODUCT : LEVEL_SUM;
    }
    if (!*t.s) return (Text){arena_printf(p->arena, "%" PRId64, x->c), x->c < 0 ? LEVEL_UNARY : LEVEL_ATOM};
    if (x->c == 0) return t;
    return (Text){arena_printf(p->arena, "%s %c %" PRId64, t.s, x->c < 0 ? '-' : '+', x->c < 0 ? -x->c : x->c),
                  LEVEL_SUM};
}

const char *c99_extent(Printer *p, Dim d) {
    return c99_operand(p, c99_index(p, index_extent(p->k, d), false), LEVEL_PRODUCT);
}

static bool is_wide(const Buffer *b) {
    int64_t last = 0;
    for (int d = 0; d < b->rank; d++) {
        int64_t span;
        if (__builtin_mul_overflow(b->stride[d], b->dim[d].bound, &span)) return true;
        last += span < 0 ? -span : span;
    }
    return last >= (int64_t)1 << 30;
}

char *c99_element(Printer *p, const Inst *access) {
    const Buffer *b = &p->k->buffers.at[access->buffer];
    const Index *offset = index_const(p->k->arena, 0);
    for (int d = 0; d < b->rank; d++)
        offset = index_add(p->k, offset, index_scale(p->k, access->index[d], b->stride[d]));
    return arena_printf(p->arena, "%s[%s]", p->buffer[access->buffer], c99_index(p, offset, is_wide(b)).s);
}

/* ---- elementwise ---------------------------------------------------------------------------------------------- */
typedef enum { FORM_NONE, FORM_PREFIX, FORM_INFIX, FORM_CALL } Form;
typedef struct Spelling {
    Form form;
    const char *text;
    int helper; /* -1: none */
} Spelling;

static Spelling integer_spelling(Op op) {
    switch (op) {
    case OP_ADD: return (Spelling){FORM_CALL, "fusec_iadd", C99_IADD};
    case OP_SUB: return (Spelling){FORM_CALL, "fusec_isub", C99_ISUB};
    case OP_MUL: return (Spelling){FORM_CALL, "fusec_imul", C99_IMUL};
    case OP_DIV: return (Spelling){FORM_CALL, "fusec_idiv", C99_IDIV};
    case OP_MOD: return (Spelling){FORM_CALL, "fusec_imod", C99_IMOD};
    case OP_POW: return (Spelling){FORM_CALL, "fusec_ipow", C99_IPOW};
    case OP_MAX: return (Spelling){FORM_CALL, "fusec_imax", C99_IMAX};
    case OP_MIN: return (Spelling){FORM_CALL, "fusec_imin", C99_IMIN};
    case OP_FLOOR:
    case OP_CEIL: return (Spelling){FORM_PREFIX, "", -1};
    default: return (Spelling){FORM_NONE, NULL, -1};
    }
}

static Spelling float_spelling(Op op) {
    switch (op) {
    case OP_NEG: return (Spelling){FORM_PREFIX, "-", -1};
    case OP_ADD: return (Spelling){FORM_INFIX, "+", -1};
    case OP_SUB: return (Spelling){FORM_INFIX, "-", -1};
    case OP_MUL: return (Spelling){FORM_INFIX, "*", -1};
    case OP_DIV: return (Spelling){FORM_INFIX, "/", -1};
    case OP_MAX: return (Spelling){FORM_CALL, "fusec_max", C99_MAX};
    case OP_MIN: return (Spelling){FORM_CALL, "fusec_min", C99_MIN};
    case OP_ABS: return (Spelling){FORM_CALL, "fusec_abs", C99_ABS};
    case OP_SIGN: return (Spelling){FORM_CALL, "fusec_sign", C99_SIGN};
    case OP_SQRT: return (Spelling){FORM_CALL, "fusec_sqrt", C99_SQRT};
    case OP_FLOOR: return (Spelling){FORM_CALL, "fusec_floor", C99_FLOOR};
    case OP_CEIL: return (Spelling){FORM_CALL, "fusec_ceil", C99_CEIL};
    case OP_MOD: return (Spelling){FORM_CALL, "fusec_mod", C99_FMOD};
    default: return (Spelling){FORM_NONE, NULL, -1};
    }
}

static Spelling logic_spelling(Op op) {
    switch (op) {
    case OP_EQ: return (Spelling){FORM_INFIX, "==", -1};
    case OP_NE: return (Spelling){FORM_INFIX, "!=", -1};
    case OP_LT: return (Spelling){FORM_INFIX, "<", -1};
    case OP_LE: return (Spelling){FORM_INFIX, "<=", -1};
    case OP_GT: return (Spelling){FORM_INFIX, ">", -1};
    case OP_GE: return (Spelling){FORM_INFIX, ">=", -1};
    case OP_AND: return (Spelling){FORM_INFIX, "&&", -1};
    case OP_OR: return (Spelling){FORM_INFIX, "||", -1};
    default: return (Spelling){FORM_NONE, NULL, -1};
    }
}

static Text cast_text(Printer *p, DType from, DType to, Text x) {
    if (dtype_is_low(from)) from = DT_F32;
    if (dtype_is_low(to)) to = DT_F32;
    if (from == to) return x;
    if (to == DT_BOOL)
        return (Text){arena_printf(p->arena, "%s != 0", c99_operand(p, x, LEVEL_RELATION)), LEVEL_EQUALITY};
    if (to == DT_I32 && from == DT_F32) {
        c99_use(p->unit, C99_TO_INT);
        return (Text){arena_printf(p->arena, "fusec_to_int(%s)", x.s), LEVEL_ATOM};
    }
    return (Text){arena_printf(p->arena, "(%s)%s", c99_type(to, false), c99_operand(p, x, LEVEL_ATOM)), LEVEL_UNARY};
}

static Text math_call(Printer *p, Op op, const Text *in) {
    p->unit->math[op] = true;
    const uint64_t needs = c99_math_helpers(op);
    for (int h = 0; h < C99_HELPERS; h++)
        if (needs >> h & 1) c99_use(p->unit, (C99Helper)h);
    char *args = arena_strdup(p->arena, in[0].s);
    for (int i = 1; i < op_info[op].arity; i++) args = arena_printf(p->arena, "%s, %s", args, in[i].s);
    return (Text){arena_printf(p->arena, "fusec_%s(%s)", op_info[op].text, args), LEVEL_ATOM};
}

/* Integer negation and magnitude wrap at INT32_MIN. */
static Text integer_unary(Printer *p, Op op, Text x) {
    const char *s = c99_operand(p, x, LEVEL_ATOM);
    if (op != OP_SIGN) c99_use(p->unit, C99_ISUB);
    if (op == OP_NEG) return (Text){arena_printf(p->arena, "fusec_isub(0, %s)", x.s), LEVEL_ATOM};
    if (op == OP_ABS) return (Text){arena_printf(p->arena, "%s < 0 ? fusec_isub(0, %s) : %s", s, x.s, s), LEVEL_CHOICE};
    return (Text){arena_printf(p->arena, "(%s > 0) - (%s < 0)", s, s), LEVEL_SUM}; /* sign */
}

static Text choice(Printer *p, Text condition, Text yes, Text no) {
    const char *c = c99_operand(p, condition, LEVEL_OR), *y = c99_operand(p, yes, LEVEL_OR);
    return (Text){arena_printf(p->arena, "%s ? %s : %s", c, y, c99_operand(p, no, LEVEL_OR)), LEVEL_CHOICE};
}

/* a op b; operators associate to the left, && inside || and comparisons of comparisons are parenthesised. */
static Text infix(Printer *p, const char *op, Text a, Text b) {
    static const struct {
        const char *op;
        Level level;
    } levels[] = {{"*", LEVEL_PRODUCT},   {"/", LEVEL_PRODUCT},   {"+", LEVEL_SUM},  {"-", LEVEL_SUM},
                  {"==", LEVEL_EQUALITY}, {"!=", LEVEL_EQUALITY}, {"&&", LEVEL_AND}, {"||", LEVEL_OR}};
    Level level = LEVEL_RELATION;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(levels[i].op, op) == 0) level = levels[i].level;
    const bool logic = level == LEVEL_AND || level == LEVEL_OR,
               compares = level == LEVEL_RELATION || level == LEVEL_EQUALITY;
    const Level left = logic ? LEVEL_EQUALITY : compares ? LEVEL_SUM : level;
    const Level right = logic && b.level == level ? level : logic ? LEVEL_EQUALITY : compares ? LEVEL_SUM : level - 1;
    const char *x = c99_operand(p, a, a.level == level && logic ? level : left);
    return (Text){arena_printf(p->arena, "%s %s %s", x, op, c99_operand(p, b, right)), level};
}

static Text operation(Printer *p, Op op, DType t, DType result, const Text *in) {
    if (op == OP_CAST) return cast_text(p, t, result, in[0]);
    if (op == OP_NOT) return (Text){arena_printf(p->arena, "!%s", c99_operand(p, in[0], LEVEL_ATOM)), LEVEL_UNARY};
    if (op == OP_SELECT) return choice(p, in[0], in[1], in[2]);
    if (op == OP_PHILOX) return math_call(p, op, in);
    if (op == OP_BITS) return helper_call(p, C99_BITS, "fusec_bits", in[0]);
    if (t == DT_BOOL && (op == OP_MAX || op == OP_MIN)) op = op == OP_MAX ? OP_OR : OP_AND;
    Spelling s = logic_spelling(op);
    if (s.form == FORM_NONE && !dtype_is_float(t) && (op == OP_NEG || op == OP_ABS || op == OP_SIGN))
        return integer_unary(p, op, in[0]);
    if (s.form == FORM_NONE) s = dtype_is_float(t) ? float_spelling(op) : integer_spelling(op);
    if (s.form == FORM_NONE && t == DT_F32 && math_expands(op)) return math_call(p, op, in);
    if (s.form == FORM_NONE) {
        p->failed = arena_printf(p->arena, "%s of %s has no form in C99", op_info[op].text, dtype_name(t));
        return in[0];
    }
    if (s.helper >= 0) c99_use(p->unit, (C99Helper)s.helper);
    if (s.form == FORM_PREFIX)
        return (Text){arena_printf(p->arena, "%s%s", s.text, c99_operand(p, in[0], LEVEL_ATOM)), LEVEL_UNARY};
    if (s.form == FORM_INFIX) return infix(p, s.text, in[0], in[1]);
    const bool two = op_info[op].arity == 2;
    return (Text){arena_printf(p->arena, "%s(%s%s%s)", s.text, in[0].s, two ? ", " : "", two ? in[1].s : ""),
                  LEVEL_ATOM};
}

Text c99_operation(Printer *p, Op op, DType t, DType result, const Text *in) {
    const Text x = operation(p, op, dtype_is_low(t) ? DT_F32 : t, result, in);
    const bool rounds = dtype_is_low(result) && !is_exact(op) && !(op == OP_CAST && t == result);
    return rounds ? helper_call(p, low_forms[result].rounds, low_forms[result].round, x) : x;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */
char *c99_place(Printer *p, int value) {
    Val *v = &p->val[value];
    int8_t axes[MAX_TILE_AXES];
    char *s = arena_strdup(p->arena, v->storage);
    const int n = c99_lane_axes(p, &v->storage_type, axes);
    for (int i = 0; i < n; i++) {
        const AxisName *a = &p->axis[axes[i]];
        s = p->k->axes.at[axes[i]].kind == AXIS_SPAN ? arena_printf(p->arena, "%s[%s]", s, a->index)
                                                     : arena_printf(p->arena, "%s[%s - %s]", s, a->index, a->base);
    }
    return s;
}

static Text load_text(Printer *p, const Inst *i) {
    const Buffer *b = &p->k->buffers.at[i->buffer];
    const Text mask = i->n_in ? c99_value(p, i->in[0]) : (Text){NULL, LEVEL_ATOM};
    const char *element = c99_element(p, i);
    const Text x = from_memory(p, b->dtype, (Text){element, LEVEL_ATOM});
    if (!mask.s) return x;
    const char *other = c99_literal(p->arena, b->dtype, i->value);
    return choice(p, mask, x, (Text){other, LEVEL_UNARY});
}

static Text index_text(Printer *p, const Inst *i) {
    if (fits_int32(p, i->index[0])) return c99_index(p, i->index[0], false);
    const char *s = c99_index(p, i->index[0], true).s;
    c99_use(p->unit, C99_SATURATE);
    return (Text){arena_printf(p->arena, "fusec_saturate(%s)", s), LEVEL_ATOM};
}

/* What a select chooses from is read before it, not under its condition: nothing forbids that, and gcc 12 -O3 -mavx gives
 * a load under a condition the wrong lanes (`a[l] > 0 ? b[l] : 0` in loops whose innermost has 16 rounds). */
static Text arm(Printer *p, int value) {
    const Val *v = &p->val[value];
    if (!v->temporary && !v->storage && v->def && v->def->kind == TI_LOAD && !v->def->n_in) c99_name(p, value);
    return c99_value(p, value);
}

Text c99_compute(Printer *p, const Inst *i) {
    Text in[4];
    switch (i->kind) {
    case TI_CONST:
    case TI_FULL:
        return (Text){c99_literal(p->arena, i->type.dtype, i->value), signbit(i->value) ? LEVEL_UNARY : LEVEL_ATOM};
    case TI_INDEX: return index_text(p, i);
    case TI_LOAD: return load_text(p, i);
    case TI_REDUCE:
    case TI_STAGE: return c99_value(p, i->in[0]);
    default: break;
    }
    for (int o = 0; o < i->n_in && o < 4; o++) in[o] = i->op == OP_SELECT && o ? arm(p, i->in[o]) : c99_value(p, i->in[o]);
    return c99_operation(p, i->op, p->k->types.at[i->in[i->op == OP_SELECT ? 1 : 0]].dtype, i->type.dtype, in);
}

static bool is_work(const Inst *i) { return i->kind == TI_LOAD || i->kind == TI_ELEMENT; }

static Text name_it(Printer *p, int value, Text t) {
    Val *v = &p->val[value];
    v->temporary = arena_printf(p->arena, "v%d", value);
    v->temporary_depth = p->depth;
    p->n_values++;
    c99_line(p, "const %s %s = %s;", c99_type(p->k->types.at[value].dtype, false), v->temporary, t.s);
    return (Text){v->temporary, LEVEL_ATOM};
}

Text c99_value(Printer *p, int value) {
    Val *v = &p->val[value];
    if (v->temporary) return (Text){v->temporary, LEVEL_ATOM};
    if (v->storage) return (Text){c99_place(p, value), LEVEL_ATOM};
    const Text t = c99_compute(p, v->def);
    const bool name = is_work(v->def) ? v->uses > 1 || strlen(t.s) > LONGEST_NESTED
                                      : v->def->kind == TI_INDEX && t.level > LEVEL_ATOM &&
                                            (v->uses > 1 || strlen(t.s) > LONGEST_NESTED);
    return name ? name_it(p, value, t) : t;
}

/* Are all the lanes of the value in scope? */
static bool is_open(const Printer *p, int value) {
    int8_t axes[MAX_TILE_AXES];
    const int n = c99_lane_axes(p, &p->k->types.at[value], axes);
    for (int i = 0; i < n; i++)
        if (!p->axis[axes[i]].open) return false;
    return true;
}

void c99_name(Printer *p, int value) {
    const Text t = c99_compute(p, p->val[value].def);
    if (!p->val[value].temporary) name_it(p, value, t);
}

void c99_prepare(Printer *p, int value) {
    const Val *v = &p->val[value];
    if (v->temporary || v->storage || !v->def) return;
    if (is_work(v->def) && is_open(p, value)) {
        c99_name(p, value);
        return;
    }
    if (!c99_is_inline(p, v->def)) return;
    for (int o = 0; o < v->def->n_in; o++) c99_prepare(p, v->def->in[o]);
}
