/* exp, log, log1p, tanh, sigmoid, erf, rsqrt, Philox; and the table of what is built here. */
#include "codegen/math/build.h"
#include <stddef.h>

const MathOpInfo math_op_info[MATH_OP_COUNT] = {
#define MATH(e, operands, result, what) {#e, operands, result},
    MATH_OPS(MATH)
#undef MATH
};

/* 2^n of the biased n in the low bits */
static V power_of(B b, V biased) { return float_of(b, shl(b, biased, ic(b, 23))); }

V math_scale(B b, V y, V n, V half) {
    /* Two powers of two, both normal: the first product is exact. */
    V p = power_of(b, bits(b, half)), q = power_of(b, isub(b, bits(b, n), bits(b, half)));
    return mul(b, mul(b, y, p), q);
}

V math_exp_core(B b, V r) {
    static const float c[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                              4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
    V p = polynomial(b, r, 6, c);
    return add(b, mad(b, p, mul(b, r, r), r), fc(b, 1.0f));
}

/* 2^n 2^f, n + f = x log2 e to twice the digits, with n in the exponent's reach: what is left of x beyond it is in f. */
static V exp_by_exp2(B b, V x) {
    static const float MAGIC = MATH_BIASED, LEAST = 12582913.0f, MOST = 12583166.0f; /* 1.5 * 2^23 + 127, and n of -126 and 127 more */
    V high = fc(b, 1.44269502f);
    V t = op2(b, MATH_MAX, op2(b, MATH_MIN, mad(b, x, high, fc(b, MAGIC)), fc(b, MOST)), fc(b, LEAST));
    V f = mad(b, x, fc(b, 1.92596303e-8f), mad(b, x, high, sub(b, fc(b, MAGIC), t)));
    return mul(b, op1(b, MATH_EXP2, f), float_of(b, shl(b, bits(b, t), ic(b, 23))));
}

/* exp(x - n ln 2), ln 2 in two parts, the first of 9 bits so that n * part is exact. */
static V exp_rest(B b, V x, V n) {
    V r = mad(b, n, fc(b, -0.693359375f), x);
    return math_exp_core(b, mad(b, n, fc(b, 2.12194440e-4f), r));
}

/* exp(x) = 2^n exp(x - n ln 2). */
static V exp_f32(B b, V x) {
    if (b->has_exp2) return exp_by_exp2(b, x);
    V low = fc(b, -104.0f), high = fc(b, 89.0f), magic = fc(b, MATH_TWICE_BIASED); /* exp is 0 below, inf above */
    V most = choose(b, lt(b, high, x), high, x), u = choose(b, lt(b, most, low), low, most);
    V n = add(b, mul(b, u, fc(b, 1.44269504f)), magic), half = add(b, mul(b, u, fc(b, 0.72134752f)), fc(b, MATH_BIASED));
    return math_scale(b, exp_rest(b, u, sub(b, n, magic)), n, half);
}

/* The same for |x| < 80, where 2^n is one number. */
static V exp_near(B b, V x) {
    if (b->has_exp2) return exp_by_exp2(b, x);
    V magic = fc(b, MATH_BIASED), n = add(b, mul(b, x, fc(b, 1.44269504f)), magic);
    return mul(b, exp_rest(b, x, sub(b, n, magic)), power_of(b, bits(b, n)));
}

/* log(1 + f) + k ln 2 + c, 1 + f in [sqrt(1/2), sqrt(2)): s = f / (2 + f), log(1 + f) = 2 atanh(s). */
static V log_core(B b, V f, V k, V c) {
    static const float even[] = {0.24279078841f, 0.40000972152f}, odd[] = {0.28498786688f, 0.66666662693f};
    V s = quotient(b, f, add(b, fc(b, 2.0f), f));
    V z = mul(b, s, s), w = mul(b, z, z);
    V r = mad(b, z, polynomial(b, w, 2, odd), mul(b, w, polynomial(b, w, 2, even)));
    V half = mul(b, mul(b, f, f), fc(b, 0.5f));
    V small = add(b, mad(b, k, fc(b, 9.0580006145e-6f), c), mul(b, s, add(b, half, r)));
    V sum = add(b, sub(b, small, half), f);
    return mad(b, k, fc(b, 6.9313812256e-1f), sum);
}

/* x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); x positive and normal. */
static V split_exponent(B b, V x, V *k) {
    V i = iadd(b, bits(b, x), ic(b, 0x3f800000u - 0x3f3504f3u));
    *k = isub(b, sar(b, i, ic(b, 23)), ic(b, 127));
    V m = iadd(b, iand(b, i, ic(b, 0x007fffff)), ic(b, 0x3f3504f3));
    return sub(b, float_of(b, m), fc(b, 1.0f));
}

/* What a logarithm of x gives where `value` does not hold: -inf at 0, NaN below, x itself at inf and NaN. */
static V log_special(B b, V x, V value) {
    V zero = fc(b, 0.0f), inf = float_of(b, ic(b, 0x7f800000));
    V y = choose(b, lt(b, x, inf), value, x);
    y = choose(b, lt(b, x, zero), float_of(b, ic(b, 0x7fc00000)), y);
    return choose(b, eq(b, x, zero), float_of(b, ic(b, 0xff800000u)), y);
}

static V log_f32(B b, V x) {
    V tiny = lt(b, x, fc(b, 1.17549435e-38f)); /* subnormal: scale by 2^25 */
    V t = choose(b, tiny, mul(b, x, fc(b, 33554432.0f)), x);
    V k, f = split_exponent(b, t, &k);
    k = isub(b, k, ichoose(b, tiny, ic(b, 25), ic(b, 0)));
    return log_special(b, x, log_core(b, f, convert(b, k), fc(b, 0.0f)));
}

/* u = 1 + x loses c = (1 + x) - u; log(1 + x) = log(u) + c / u.  Near 0 the argument itself is f. */
static V log1p_f32(B b, V x) {
    V one = fc(b, 1.0f), zero = fc(b, 0.0f);
    V u = add(b, one, x);
    V k, f = split_exponent(b, u, &k);
    V lost = choose(b, lt(b, x, one), sub(b, x, sub(b, u, one)), sub(b, one, sub(b, u, x)));
    V c = quotient(b, lost, u);
    V near = both(b, lt(b, fc(b, -0.2928932f), x), lt(b, x, fc(b, 0.41421356f)));
    c = choose(b, either(b, near, lt(b, fc(b, 1e9f), x)), zero, c);
    V y = log_core(b, choose(b, near, x, f), choose(b, near, zero, convert(b, k)), c);
    y = log_special(b, u, y);
    return choose(b, eq(b, x, zero), x, y); /* keeps -0 */
}

/* An odd polynomial below 0.625, 1 - 2 / (exp(2|x|) + 1) above. */
static V tanh_f32(B b, V x) {
    static const float c[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                              -3.33332819422e-1f};
    V a = magnitude(b, x), z = mul(b, a, a), one = fc(b, 1.0f), two = fc(b, 2.0f);
    V small = mad(b, mul(b, polynomial(b, z, 5, c), z), a, a);
    V twice = add(b, a, a), most = fc(b, 40.0f); /* tanh is 1 from 9.02 on */
    if (!b->has_exp2) twice = choose(b, lt(b, most, twice), most, twice);
    V e = exp_near(b, twice);
    V large = sub(b, one, quotient(b, two, add(b, e, one)));
    return flip_sign(b, choose(b, lt(b, a, fc(b, 0.625f)), small, large), sign_bit(b, x));
}

/* e / (1 + e) below 0, 1 / (1 + e) above, e = exp(-|x|): no digits are lost at either end. */
static V sigmoid_f32(B b, V x) {
    V one = fc(b, 1.0f), e = exp_f32(b, float_of(b, ior(b, bits(b, x), ic(b, 0x80000000u))));
    return quotient(b, choose(b, lt(b, x, fc(b, 0.0f)), e, one), add(b, e, one));
}

/* An odd polynomial below 0.9277, 1 - exp(polynomial) above. */
static V erf_f32(B b, V x) {
    static const float inner[] = {-5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f,
                                  1.12819925e-1f,  -3.76125336e-1f, 1.28379166e-1f};
    static const float outer[] = {-1.72853470e-5f, 3.83197126e-4f,  -3.88396438e-3f, 2.42546219e-2f,
                                  -1.06777877e-1f, -6.34846687e-1f, -1.28717512e-1f};
    V a = magnitude(b, x), one = fc(b, 1.0f), four = fc(b, 4.0f);
    V small = mad(b, polynomial(b, mul(b, a, a), 6, inner), a, a);
    V t = choose(b, lt(b, four, a), four, a);
    V p = mul(b, polynomial(b, t, 7, outer), t);
    V large = sub(b, one, exp_near(b, sub(b, p, t)));
    return flip_sign(b, choose(b, lt(b, a, fc(b, 0.927734375f)), small, large), sign_bit(b, x));
}

/* Philox-4x32-10 with counter (counter0, counter1, 0, 0): the first word's upper 24 bits as a fraction. */
static V philox(B b, const V *operands) {
    V k0 = operands[0], k1 = operands[1];
    V c[4] = {operands[2], operands[3], ic(b, 0), ic(b, 0)};
    V m0 = ic(b, 0xd2511f53u), m1 = ic(b, 0xcd9e8d57u), w0 = ic(b, 0x9e3779b9u), w1 = ic(b, 0xbb67ae85u);
    for (int round = 0; round < 10; round++) {
        V h0 = imulhi(b, m0, c[0]), l0 = imul(b, m0, c[0]);
        V h1 = imulhi(b, m1, c[2]), l1 = imul(b, m1, c[2]);
        c[0] = ixor(b, ixor(b, h1, c[1]), k0);
        c[1] = l1;
        c[2] = ixor(b, ixor(b, h0, c[3]), k1);
        c[3] = l0;
        k0 = iadd(b, k0, w0);
        k1 = iadd(b, k1, w1);
    }
    return mul(b, convert(b, shr(b, c[0], ic(b, 8))), fc(b, 5.9604644775390625e-8f));
}

bool math_expands(Op op) { return op_info[op].code == CODE_FORMULA; }

V math_formula(B b, Op op, const V *operands) {
    V x = operands[0];
    switch (op) {
    case OP_EXP: return exp_f32(b, x);
    case OP_LOG: return log_f32(b, x);
    case OP_LOG1P: return log1p_f32(b, x);
    case OP_SQRT: return op1(b, MATH_SQRT, x);
    case OP_RSQRT: return quotient(b, fc(b, 1.0f), op1(b, MATH_SQRT, x));
    case OP_SIN: return math_sincos(b, x, false);
    case OP_COS: return math_sincos(b, x, true);
    case OP_TANH: return tanh_f32(b, x);
    case OP_SIGMOID: return sigmoid_f32(b, x);
    case OP_ERF: return erf_f32(b, x);
    case OP_POW: return math_pow(b, x, operands[1]);
    case OP_PHILOX: return philox(b, operands);
    default: return NULL;
    }
}
