/* pow: |x|^y = 2^(y log2 |x|), with log2 |x| as an unevaluated sum of two floats (after FreeBSD e_powf.c).
 * Products meant to be exact have factors of at most 12 bits: they hold whether or not they are fused. */
#include "codegen/math/build.h"

/* The float with its low bits cleared: 12 significant bits stay. */
static V head(B b, V x) { return float_of(b, iand(b, bits(b, x), ic(b, 0xfffff000u))); }

/* log2(a) = *high + *low for a finite a > 0; *high has at most 12 bits. */
static void log2_split(B b, V a, V *high, V *low) {
    static const float c[] = {2.0697501302e-1f, 2.3066075146e-1f, 2.7272811532e-1f,
                              3.3333334327e-1f, 4.2857143283e-1f, 6.0000002384e-1f};
    V tiny = lt(b, a, fc(b, 1.17549435e-38f));
    V i = bits(b, choose(b, tiny, mul(b, a, fc(b, 16777216.0f)), a));
    V n = isub(b, shr(b, i, ic(b, 23)), ichoose(b, tiny, ic(b, 127 + 24), ic(b, 127)));
    V fraction = iand(b, i, ic(b, 0x007fffff));
    /* below sqrt(3/2): relative to 1; below sqrt(3): relative to 3/2; above: relative to 1, next exponent */
    V low_third = ilt(b, fraction, ic(b, 0x1cc472)), upper = ilt(b, ic(b, 0x5db3d6), fraction);
    V middle_off = either(b, low_third, upper);
    V m_bits = ior(b, fraction, ic(b, 0x3f800000));
    m_bits = ichoose(b, upper, isub(b, m_bits, ic(b, 0x00800000)), m_bits);
    n = ichoose(b, upper, iadd(b, n, ic(b, 1)), n);
    V m = float_of(b, m_bits), centre = choose(b, middle_off, fc(b, 1.0f), fc(b, 1.5f));

    /* s = (m - centre) / (m + centre) = s_h + s_l */
    V u = sub(b, m, centre), v = quotient(b, fc(b, 1.0f), add(b, m, centre));
    V s = mul(b, u, v), s_h = head(b, s);
    V half = ior(b, iand(b, shr(b, m_bits, ic(b, 1)), ic(b, 0xfffff000u)), ic(b, 0x20000000));
    V t_h = float_of(b, iadd(b, iadd(b, half, ic(b, 0x00400000)), ichoose(b, middle_off, ic(b, 0), ic(b, 1u << 21))));
    V t_l = sub(b, m, sub(b, t_h, centre));
    V s_l = mul(b, v, sub(b, sub(b, u, mul(b, s_h, t_h)), mul(b, s_h, t_l)));

    /* log(m / centre) = s (3 + s^2 + r) * 2/3 */
    V s2 = mul(b, s, s);
    V r = mul(b, mul(b, s2, s2), polynomial(b, s2, 6, c));
    r = mad(b, s_l, add(b, s_h, s), r);
    V sh2 = mul(b, s_h, s_h), three = fc(b, 3.0f);
    t_h = head(b, add(b, add(b, three, sh2), r));
    t_l = sub(b, r, sub(b, sub(b, t_h, three), sh2));
    u = mul(b, s_h, t_h);
    v = mad(b, s_l, t_h, mul(b, t_l, s));
    V p_h = head(b, add(b, u, v)), p_l = sub(b, v, sub(b, p_h, u));

    /* times 2 / (3 ln 2), plus log2(centre), plus n */
    V zero = fc(b, 0.0f);
    V centre_h = choose(b, middle_off, zero, fc(b, 5.84960938e-01f));
    V centre_l = choose(b, middle_off, zero, fc(b, 1.56322085e-06f));
    V z_h = mul(b, fc(b, 9.6191406250e-01f), p_h);
    V z_l = add(b, mad(b, fc(b, -1.1736857402e-04f), p_h, mul(b, p_l, fc(b, 9.6179670095e-01f))), centre_l);
    V t = convert(b, n);
    *high = head(b, add(b, add(b, add(b, z_h, z_l), centre_h), t));
    *low = sub(b, z_l, sub(b, sub(b, sub(b, *high, t), centre_h), z_h));
}

/* 2^(h + l), l small against h */
static V exp2_sum(B b, V h, V l) {
    V z = add(b, h, l), high = fc(b, 130.0f), low = fc(b, -152.0f);
    V over = lt(b, high, z), under = lt(b, z, low), out = either(b, over, under);
    V limit = choose(b, over, high, low);
    h = choose(b, out, limit, h);
    l = choose(b, out, fc(b, 0.0f), l);
    V magic = fc(b, MATH_TWICE_BIASED), n = add(b, h, magic), half = add(b, mul(b, h, fc(b, 0.5f)), fc(b, MATH_BIASED));
    V fraction = add(b, sub(b, h, sub(b, n, magic)), l);
    return math_scale(b, math_exp_core(b, mul(b, fraction, fc(b, 0.69314718f))), n, half);
}

V math_pow(B b, V x, V y) {
    V zero = fc(b, 0.0f), one = fc(b, 1.0f), inf = float_of(b, ic(b, 0x7f800000));
    V a = magnitude(b, x), y_size = magnitude(b, y);
    V log_h, log_l;
    log2_split(b, a, &log_h, &log_l);
    V y_h = head(b, y);
    V low = mad(b, sub(b, y, y_h), log_h, mul(b, y, log_l));
    V value = exp2_sum(b, mul(b, y_h, log_h), low);

    V y_negative = lt(b, y, zero), a_below_one = lt(b, a, one);
    V edge = choose(b, y_negative, inf, zero);                     /* 0^y; inf^-y */
    value = choose(b, eq(b, a, zero), edge, value);
    value = choose(b, eq(b, a, inf), choose(b, y_negative, zero, inf), value);
    V grows = choose(b, a_below_one, edge, choose(b, y_negative, zero, inf));
    value = choose(b, eq(b, y_size, inf), choose(b, eq(b, a, one), one, grows), value);

    /* a negative base: the sign of odd powers, NaN for a y that is no integer */
    V integer = eq(b, op1(b, MATH_FLOOR, y), y), half = mul(b, y, fc(b, 0.5f));
    V even = eq(b, op1(b, MATH_FLOOR, half), half);
    V odd_sign = ichoose(b, even, ic(b, 0), ichoose(b, integer, sign_bit(b, x), ic(b, 0)));
    V nan = float_of(b, ic(b, 0x7fc00000));
    V invalid = both(b, lt(b, x, zero), lt(b, a, inf));
    V base = choose(b, invalid, choose(b, integer, value, nan), value);
    value = flip_sign(b, base, odd_sign);
    V sum = add(b, x, y); /* NaN if either is; inf - inf is handled above */
    value = choose(b, either(b, eq(b, sum, sum), both(b, eq(b, x, x), eq(b, y, y))), value, sum);
    value = choose(b, eq(b, y, one), x, value);
    return choose(b, either(b, eq(b, y, zero), eq(b, x, one)), one, value);
}
