/* Every function of codegen/math against libm in double precision, over all exponents, with multiply-add fused and
 * not; special values; Philox against the reference. */
#include "codegen/math/math.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* ---- a program: the expansion recorded once, evaluated many times -------------------------------------- */
enum { MAX_STEPS = 1024 };
typedef struct Step {
    int op; /* -1: constant */
    int in[3];
    uint32_t constant;
} Step;
typedef struct Program {
    Step step[MAX_STEPS];
    int n, n_args, result;
} Program;

static uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
static float float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static MathValue handle(int i) { return (MathValue)(intptr_t)(i + 1); }
static int number(MathValue v) { return (int)(intptr_t)v - 1; }
static MathValue append(Program *p, Step s) {
    assert_true(p->n < MAX_STEPS);
    p->step[p->n] = s;
    return handle(p->n++);
}
static MathValue record_i32(void *user, int32_t v) { return append(user, (Step){.op = -1, .constant = (uint32_t)v}); }
static MathValue record_f32(void *user, float v) { return append(user, (Step){.op = -1, .constant = bits_of(v)}); }
static MathValue record_op(void *user, MathOp op, const MathValue *in) {
    Step s = {.op = op};
    for (int i = 0; math_op_info[op].operands[i]; i++) s.in[i] = number(in[i]);
    return append(user, s);
}

/* How a target's multiply-adds round, and whether it has 2^x as an instruction. */
typedef enum { UNFUSED, FUSED, BY_EXP2, FORMS } Form;
static const char *const form_name[FORMS] = {"unfused", "fused", "by exp2"};

static void record(Program *p, Op op, Form form) {
    *p = (Program){.n_args = op_info[op].arity};
    MathValue args[4];
    for (int i = 0; i < p->n_args; i++) args[i] = record_i32(p, 0);
    const MathBuilder b = {.user = p, .f32 = record_f32, .i32 = record_i32, .op = record_op, .has_exp2 = form == BY_EXP2};
    MathValue r = math_expand(&b, op, args);
    assert_non_null(r);
    p->result = number(r);
}

/* One of the two floats around the exact value: an instruction that is off by less than one unit. */
static float exp2_nearly(float x) {
    const double exact = exp2(x);
    const float y = (float)exact;
    if (y == exact || isnan(y) || isinf(y)) return y;
    return bits_of(x) * 2654435761u >> 31 ? nextafterf(y, y < exact ? INFINITY : 0) : y;
}

static uint32_t apply(MathOp op, uint32_t a, uint32_t b, uint32_t c, int fused) {
    float x = float_of(a), y = float_of(b), z = float_of(c);
    switch (op) {
    case MATH_ADD: return bits_of(x + y);
    case MATH_SUB: return bits_of(x - y);
    case MATH_MUL: return bits_of(x * y);
    case MATH_DIV: return bits_of(x / y);
    case MATH_MAD: {
        volatile float product = x * y;
        return bits_of(fused ? fmaf(x, y, z) : product + z);
    }
    case MATH_SQRT: return bits_of(sqrtf(x));
    case MATH_FLOOR: return bits_of(floorf(x));
    case MATH_LT: return x < y;
    case MATH_EQ: return x == y;
    case MATH_ILT: return (int32_t)a < (int32_t)b;
    case MATH_IEQ: return a == b;
    case MATH_AND: return a & b & 1;
    case MATH_OR: return (a | b) & 1;
    case MATH_SELECT:
    case MATH_ISELECT: return a ? b : c;
    case MATH_IADD: return a + b;
    case MATH_ISUB: return a - b;
    case MATH_IMUL: return a * b;
    case MATH_IMULHI: return (uint32_t)((uint64_t)a * b >> 32);
    case MATH_IAND: return a & b;
    case MATH_IOR: return a | b;
    case MATH_IXOR: return a ^ b;
    case MATH_ISHL: assert_true(b < 32); return a << b;
    case MATH_ISHR: assert_true(b < 32); return a >> b;
    case MATH_ISAR: assert_true(b < 32); return (uint32_t)((int32_t)a >> b);
    case MATH_BITS:
    case MATH_FLOAT: return a;
    case MATH_CONVERT: return bits_of((float)(int32_t)a);
    case MATH_MIN: return bits_of(fminf(x, y));
    case MATH_MAX: return bits_of(fmaxf(x, y));
    case MATH_EXP2: return bits_of(exp2_nearly(x));
    case MATH_OP_COUNT: break;
    }
    fail();
    return 0;
}

/* Lanes at a time: the switch is paid once per step, not once per sample. */
enum { LANES = 512 };
static uint32_t value[MAX_STEPS][LANES];
static void evaluate(const Program *p, int lanes, int fused) {
    for (int i = p->n_args; i < p->n; i++) {
        const Step *s = &p->step[i];
        const uint32_t *a = value[s->in[0]], *b = value[s->in[1]], *c = value[s->in[2]];
        for (int l = 0; l < lanes; l++)
            value[i][l] = s->op < 0 ? s->constant : apply((MathOp)s->op, a[l], b[l], c[l], fused);
    }
}

/* ---- errors -------------------------------------------------------------------------------------------------- */
static double reference(Op op, double x, double y) {
    switch (op) {
    case OP_EXP: return exp(x);
    case OP_LOG: return log(x);
    case OP_LOG1P: return log1p(x);
    case OP_SQRT: return sqrt(x);
    case OP_RSQRT: return 1.0 / sqrt(x);
    case OP_SIN: return sin(x);
    case OP_COS: return cos(x);
    case OP_TANH: return tanh(x);
    case OP_SIGMOID: return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
    case OP_ERF: return erf(x);
    case OP_POW: return pow(x, y);
    default: fail_msg("what is %s?", op_info[op].text); return NAN;
    }
}

static double ulps(float got, double want) {
    if (isnan(want)) return isnan(got) ? 0 : HUGE_VAL;
    float nearest = (float)want;
    if (got == nearest) return got == 0 && want != 0 ? 0.5 : fabs((double)got - want) == 0 ? 0 : 0.5;
    if (isinf(nearest) || isinf(got)) return isinf(nearest) && got >= 3.4028234e38f ? 1 : HUGE_VAL;
    int e;
    frexp(want, &e);
    if (e < -125) e = -125;
    return fabs((double)got - want) / ldexp(1.0, e - 24);
}

static uint32_t random_state = 1;
static uint32_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    return random_state ^= random_state << 5;
}

/* Sample s of pow: any two floats, then bases near 1 with large exponents, then moderate pairs. */
static void pow_sample(int s, uint32_t *x, uint32_t *y) {
    *x = random_bits();
    *y = random_bits();
    if (s % 4 == 1) *x = 0x3f000000 + *x % 0x01000000;
    if (s % 4 == 2) *y = 0x3e000000 + *y % 0x06000000;
    if (s % 4 == 3) {
        *x = 0x3e000000 + *x % 0x04000000;
        *y = bits_of((float)((int32_t)*y % 4000) / 16);
    }
}

static double bound_of(Op op, Form form) { return op_info[op].ulps + (form == BY_EXP2); }

static void check_bound(Op op, Form form, int samples) {
    static Program p;
    record(&p, op, form);
    double worst = 0;
    float worst_x = 0, worst_y = 0;
    for (int done = 0; done < samples; done += LANES) {
        for (int l = 0; l < LANES; l++) {
            if (p.n_args == 2) pow_sample(done + l, &value[0][l], &value[1][l]);
            else value[0][l] = (uint32_t)(((uint64_t)(done + l) << 32) / (uint64_t)samples) + random_bits() % 2048;
        }
        evaluate(&p, LANES, form != UNFUSED);
        for (int l = 0; l < LANES; l++) {
            float x = float_of(value[0][l]), y = p.n_args == 2 ? float_of(value[1][l]) : 0;
            double e = ulps(float_of(value[p.result][l]), reference(op, x, y));
            if (e > worst) worst = e, worst_x = x, worst_y = y;
        }
    }
    print_message("%-6s %-8s %.3f ulp at %a %a (%d steps)\n", op_info[op].text, form_name[form], worst, worst_x, worst_y, p.n);
    assert_true(worst <= bound_of(op, form));
}

static const char *only; /* the op that test_math was asked for; NULL: all */

static bool is_asked_for(Op op) { return op_is_transcendental(op) && (!only || !strcmp(only, op_info[op].text)); }

static void errors_stay_within_the_stated_bounds(void **state) {
    (void)state;
    int checked = 0;
    for (int op = 0; op < OP_COUNT; op++)
        for (Form form = 0; form < FORMS && is_asked_for((Op)op); form++, checked++) check_bound((Op)op, form, 1 << 21);
    assert_true(checked > 0);
}

static float call_as(Op op, float x, float y, Form form) {
    static Program p;
    record(&p, op, form);
    value[0][0] = bits_of(x);
    if (p.n_args > 1) value[1][0] = bits_of(y);
    evaluate(&p, 1, form != UNFUSED);
    return float_of(value[p.result][0]);
}
static float call(Op op, float x, float y) { return call_as(op, x, y, UNFUSED); }

static void special_values_follow_the_standard(void **state) {
    (void)state;
    const float v[] = {0.0f,  -0.0f, 1.0f,      -1.0f,      0.5f,     -0.5f, 2.0f,  -2.0f,   3.0f, -3.0f,  INFINITY,
                       -INFINITY, NAN, 1e-45f, -1e-45f, 3.4028235e38f, -3.4028235e38f, 1e-38f, 33554432.0f, 16777215.0f};
    const int n = sizeof v / sizeof *v;
    for (Op op = 0; op < OP_COUNT; op++) {
        for (int i = 0; i < n && op_is_transcendental(op); i++)
            for (int j = 0; j < FORMS * (op == OP_POW ? n : 1); j++) {
                const Form form = (Form)(j % FORMS);
                const float y = v[j / FORMS];
                float got = call_as(op, v[i], y, form);
                double want = reference(op, v[i], y);
                double e = ulps(got, want);
                bool same_sign = isnan(want) || !signbit(got) == !signbit(want);
                if (e > bound_of(op, form) || !same_sign)
                    fail_msg("%s %s(%a, %a) = %a, not %a", form_name[form], op_info[op].text, v[i], y, got, want);
            }
    }
}

/* To the bit: what rounds is compared with what is whole there. */
static void finite_special_values_are_exact(void **state) {
    static const struct {
        Op op;
        float x, y, value;
    } at[] = {{OP_EXP, 0, 0, 1},     {OP_LOG, 1, 0, 0},     {OP_LOG1P, 0, 0, 0},  {OP_SIN, 0, 0, 0},
              {OP_COS, 0, 0, 1},     {OP_TANH, 0, 0, 0},    {OP_ERF, 0, 0, 0},    {OP_RSQRT, 1, 0, 1},
              {OP_RSQRT, 4, 0, 0.5}, {OP_POW, 1, 0.3f, 1},  {OP_POW, 1, -7, 1},   {OP_POW, 1, NAN, 1},
              {OP_POW, 0.7f, 0, 1},  {OP_POW, -0.7f, 0, 1}, {OP_POW, NAN, 0, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        for (Form form = 0; form < FORMS; form++) {
            const float got = call_as(at[i].op, at[i].x, at[i].y, form);
            if (got != at[i].value) fail_msg("%s(%a, %a) = %a", op_info[at[i].op].text, at[i].x, at[i].y, got);
        }
}

static void reductions_hold_at_the_worst_arguments(void **state) {
    (void)state;
    /* floats nearest to multiples of pi/2, small and huge */
    const float x[] = {3.14159274f, 1.57079637f, 6.28318548f, 355.0f, 0x1.5fe000p+16f, 0x1.a33000p+19f, 0x1.6ac5b2p+62f,
                       1e22f, 16367173.0f * 4722366482869645213696.0f, 3.4028235e38f};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        assert_true(ulps(call(OP_SIN, x[i], 0), sin(x[i])) <= 2);
        assert_true(ulps(call(OP_COS, x[i], 0), cos(x[i])) <= 2);
    }
}

static void philox_is_the_reference(void **state) {
    (void)state;
    static Program p;
    record(&p, OP_PHILOX, UNFUSED);
    for (int s = 0; s < 64 * LANES; s += LANES) {
        for (int l = 0; l < LANES; l++)
            for (int i = 0; i < 4; i++) value[i][l] = s == 0 ? (uint32_t)(l * (i == 3)) : random_bits();
        evaluate(&p, LANES, 0);
        for (int l = 0; l < LANES; l++) {
            double want = scalar_philox(value[0][l], value[1][l], value[2][l], value[3][l]);
            assert_true((double)float_of(value[p.result][l]) == want);
        }
    }
}

static void only_listed_ops_expand(void **state) {
    (void)state;
    assert_true(math_expands(OP_EXP) && math_expands(OP_PHILOX));
    assert_false(math_expands(OP_ADD) || math_expands(OP_FLOOR));
}

int main(int argc, char **argv) {
    if (argc > 1) only = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_stay_within_the_stated_bounds),
        cmocka_unit_test(special_values_follow_the_standard),
        cmocka_unit_test(finite_special_values_are_exact),
        cmocka_unit_test(reductions_hold_at_the_worst_arguments),
        cmocka_unit_test(philox_is_the_reference),
        cmocka_unit_test(only_listed_ops_expand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
