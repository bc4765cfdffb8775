/* The functions of codegen/math as C text: the expansion is recorded, then printed with what is used once nested
 * into its consumer, up to a readable width.  Integers are uint32_t, so that they wrap. */
#include "codegen/c99/internal.h"
#include "codegen/math/math.h"
#include <inttypes.h>
#include <string.h>

enum { WIDTH = 88 };

typedef struct Step {
    MathOp op; /* MATH_OP_COUNT: constant or argument, `text` alone */
    const struct Step *in[3];
    int uses;
    char result;      /* 'f', 'i', 'c' */
    const char *text; /* constants, arguments, and steps already printed */
} Step;

typedef struct Recorder {
    Arena *arena;
    VEC(Step *) steps;
    uint64_t helpers;
} Recorder;

static MathValue record(Recorder *r, Step s) {
    Step *made = arena_dup(r->arena, &s, sizeof s);
    vec_push(r->arena, r->steps, made);
    return made;
}

static MathValue record_f32(void *user, float v) {
    Recorder *r = user;
    return record(r, (Step){.op = MATH_OP_COUNT, .result = 'f', .text = c99_literal(r->arena, DT_F32, (double)v)});
}

static MathValue record_i32(void *user, int32_t v) {
    Recorder *r = user;
    const char *form = (uint32_t)v < 256 ? "%" PRIu32 "u" : "0x%08" PRIx32 "u";
    return record(r, (Step){.op = MATH_OP_COUNT, .result = 'i', .text = arena_printf(r->arena, form, (uint32_t)v)});
}

static MathValue record_op(void *user, MathOp op, const MathValue *in) {
    Step s = {.op = op, .result = math_op_info[op].result};
    for (int i = 0; math_op_info[op].operands[i]; i++) s.in[i] = in[i];
    return record(user, s);
}

/* How each operation reads in C; a, b, c are its operands, parenthesised by the caller. */
static const char *const spelling[MATH_OP_COUNT] = {[MATH_ADD] = "a + b",
                                                    [MATH_SUB] = "a - b",
                                                    [MATH_MUL] = "a * b",
                                                    [MATH_DIV] = "a / b",
                                                    [MATH_MAD] = "a * b + c",
                                                    [MATH_SQRT] = "fusec_sqrt(a)",
                                                    [MATH_FLOOR] = "fusec_floor(a)",
                                                    [MATH_LT] = "a < b",
                                                    [MATH_EQ] = "a == b",
                                                    [MATH_ILT] = "(int32_t)a < (int32_t)b",
                                                    [MATH_IEQ] = "a == b",
                                                    [MATH_AND] = "a && b",
                                                    [MATH_OR] = "a || b",
                                                    [MATH_SELECT] = "a ? b : c",
                                                    [MATH_ISELECT] = "a ? b : c",
                                                    [MATH_IADD] = "a + b",
                                                    [MATH_ISUB] = "a - b",
                                                    [MATH_IMUL] = "a * b",
                                                    [MATH_IMULHI] = "(uint32_t)((uint64_t)a * b >> 32)",
                                                    [MATH_IAND] = "a & b",
                                                    [MATH_IOR] = "a | b",
                                                    [MATH_IXOR] = "a ^ b",
                                                    [MATH_ISHL] = "a << b",
                                                    [MATH_ISHR] = "a >> b",
                                                    [MATH_ISAR] = "fusec_sar(a, b)",
                                                    [MATH_BITS] = "fusec_bits(a)",
                                                    [MATH_FLOAT] = "fusec_float(a)",
                                                    [MATH_CONVERT] = "(float)(int32_t)a"};

static uint64_t helper_of(MathOp op) {
    switch (op) {
    case MATH_SQRT: return (uint64_t)1 << C99_SQRT;
    case MATH_FLOOR: return (uint64_t)1 << C99_FLOOR;
    case MATH_ISAR: return (uint64_t)1 << C99_SAR;
    case MATH_BITS: return (uint64_t)1 << C99_BITS;
    case MATH_FLOAT: return (uint64_t)1 << C99_FLOAT;
    default: return 0;
    }
}

static bool is_call(MathOp op) { return op == MATH_OP_COUNT || helper_of(op) != 0; }

/* Calls need no parentheses around their arguments, operators do. */
static char *spell(Recorder *r, const Step *s, const char *const *in) {
    char *text = arena_strdup(r->arena, "");
    for (const char *t = spelling[s->op]; *t; t++) {
        const bool letter = *t >= 'a' && *t <= 'c' && !(t[1] >= 'a' && t[1] <= 'z') &&
                            (t == spelling[s->op] || !(t[-1] >= 'a' && t[-1] <= 'z'));
        text = letter ? arena_printf(r->arena, "%s%s", text, in[*t - 'a']) : arena_printf(r->arena, "%s%c", text, *t);
    }
    return text;
}

static void count(Step *s) {
    if (s->uses++) return;
    for (int i = 0; i < 3; i++)
        if (s->in[i]) count((Step *)s->in[i]);
}

static Recorder expand(Arena *a, Op op, Step **result) {
    Recorder r = {.arena = a};
    static const char *const float_args[] = {"x", "y"}, *const int_args[] = {"key0", "key1", "counter0", "counter1"};
    MathValue args[4];
    const bool ints = op == OP_PHILOX;
    for (int i = 0; i < op_info[op].arity; i++)
        args[i] = record(&r, (Step){.op = MATH_OP_COUNT,
                                    .result = ints ? 'i' : 'f',
                                    .text = ints ? arena_printf(a, "(uint32_t)%s", int_args[i]) : float_args[i]});
    const MathBuilder b = {.user = &r, .f32 = record_f32, .i32 = record_i32, .op = record_op};
    *result = math_expand(&b, op, args);
    count(*result);
    for (int i = 0; i < r.steps.n; i++)
        if (r.steps.at[i]->uses) r.helpers |= helper_of(r.steps.at[i]->op);
    return r;
}

uint64_t c99_math_helpers(Op op) {
    Arena *a = arena_new();
    Step *result;
    const uint64_t helpers = expand(a, op, &result).helpers;
    arena_free(a);
    return helpers;
}

/* How many values have names; f NULL: nothing is printed. */
static int print_steps(FILE *f, Recorder *r, const Step *result) {
    int names = 0;
    for (int i = 0; i < r->steps.n; i++) {
        Step *s = r->steps.at[i];
        if (!s->uses || s->op == MATH_OP_COUNT) continue;
        const char *in[3] = {0};
        for (int o = 0; o < 3 && s->in[o]; o++) {
            const bool bare = is_call(s->op) || is_call(s->in[o]->op) || !strpbrk(s->in[o]->text, " ");
            in[o] = bare ? s->in[o]->text : arena_printf(r->arena, "(%s)", s->in[o]->text);
        }
        s->text = spell(r, s, in);
        if (s == result && f) fprintf(f, "    return %s;\n", s->text);
        if (s == result || (s->uses == 1 && strlen(s->text) <= WIDTH / 2)) continue;
        const char *type = s->result == 'f' ? "float" : s->result == 'i' ? "uint32_t" : "bool";
        const char *name = arena_printf(r->arena, "%c%d",
                                        s->result == 'f'   ? 't'
                                        : s->result == 'i' ? 'i'
                                                           : 'c',
                                        names++);
        if (f) fprintf(f, "    const %s %s = %s;\n", type, name, s->text);
        s->text = name;
        s->op = MATH_OP_COUNT;
    }
    return names;
}

int c99_math_values(Op op) {
    Arena *a = arena_new();
    Step *result;
    Recorder r = expand(a, op, &result);
    const int n = print_steps(NULL, &r, result);
    arena_free(a);
    return n;
}

void c99_print_math(FILE *f, Arena *a, Op op) {
    Step *result;
    Recorder r = expand(a, op, &result);
    const char *args = op == OP_PHILOX ? "int32_t key0, int32_t key1, int32_t counter0, int32_t counter1"
                       : op == OP_POW  ? "float x, float y"
                                       : "float x";
    fprintf(f, "static float fusec_%s(%s) {\n", op_info[op].text, args);
    print_steps(f, &r, result);
    fputs("}\n", f);
}
