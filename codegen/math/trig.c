/* sin and cos of every finite f32: reduction by pi/2 in 96-bit integer arithmetic (Payne and Hanek). */
#include "codegen/math/build.h"

/* 26 zero bits, then the fraction bits of 2/pi. */
static const uint32_t two_over_pi[8] = {0x00000028, 0xbe60db93, 0x91054a7f, 0x09d5f47d,
                                        0x4d377036, 0xd8a5664f, 0x10e4107f, 0x9458eaf7};

/* Word `first + place` of the table, first in 0..4. */
static V table_word(B b, V first, int place) {
    V w = ic(b, two_over_pi[4 + place]);
    for (int i = 3; i >= 0; i--) w = ichoose(b, ieq(b, first, ic(b, (uint32_t)i)), ic(b, two_over_pi[i + place]), w);
    return w;
}

/* 1 if x + y carried out of 32 bits; sum = x + y */
static V carry(B b, V x, V y, V sum) {
    V top = ior(b, iand(b, x, y), iand(b, ior(b, x, y), ixor(b, sum, ic(b, 0xffffffffu))));
    return shr(b, top, ic(b, 31));
}

/* x = M 2^(j-24) with a 24-bit M.  The 96 bits of 2/pi from offset j on, times M, modulo 2^96, are
 * x * 2/pi modulo 4 in units of 2^-94: two quadrant bits, then the fraction. */
static void quadrant_product(B b, V x_bits, V *high, V *low) {
    V j = isub(b, shr(b, x_bits, ic(b, 23)), ic(b, 126));
    j = ichoose(b, ilt(b, j, ic(b, 0)), ic(b, 0), j); /* small arguments are not reduced */
    V m = ior(b, iand(b, x_bits, ic(b, 0x007fffff)), ic(b, 0x00800000));
    V first = shr(b, j, ic(b, 5)), s = iand(b, j, ic(b, 31)), back = isub(b, ic(b, 31), s);
    V raw[4], w[3];
    for (int i = 0; i < 4; i++) raw[i] = table_word(b, first, i);
    for (int i = 0; i < 3; i++) w[i] = ior(b, shl(b, raw[i], s), shr(b, shr(b, raw[i + 1], ic(b, 1)), back));
    V x = imulhi(b, m, w[2]), y = imul(b, m, w[1]);
    *low = iadd(b, x, y);
    *high = iadd(b, iadd(b, imulhi(b, m, w[1]), imul(b, m, w[0])), carry(b, x, y, *low));
}

/* |x| = q pi/2 + r (modulo 2 pi), |r| <= pi/4.  The product of the fraction with pi/2 takes its top 12 bits
 * times the top 12 bits of pi/2 exactly, so that r carries little more than one rounding. */
static V reduce(B b, V x_bits, V *q) {
    V high, low;
    quadrant_product(b, x_bits, &high, &low);
    V h = ior(b, shl(b, high, ic(b, 2)), shr(b, low, ic(b, 30))), l = shl(b, low, ic(b, 2));
    *q = iadd(b, shr(b, high, ic(b, 30)), shr(b, h, ic(b, 31)));
    V negative = sar(b, h, ic(b, 31));
    h = ixor(b, h, negative);
    l = ixor(b, l, negative);
    V top = mul(b, convert(b, iand(b, h, ic(b, 0xfff00000u))), fc(b, 0x1p-32f));
    V rest = mul(b, convert(b, iand(b, h, ic(b, 0x000fffff))), fc(b, 0x1p-32f));
    V tail = mad(b, convert(b, shr(b, l, ic(b, 1))), fc(b, 0x1p-63f), rest);
    V product = mad(b, top, fc(b, 0x1.fb5444p-12f), mul(b, tail, fc(b, 0x1.921fb6p+0f)));
    V r = add(b, mul(b, top, fc(b, 0x1.92p+0f)), product);
    return flip_sign(b, r, iand(b, negative, ic(b, 0x80000000u)));
}

V math_sincos(B b, V x, bool cosine) {
    static const float sine_c[] = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f};
    static const float cosine_c[] = {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f};
    V a = magnitude(b, x), a_bits = bits(b, a), q;
    V r = reduce(b, a_bits, &q);
    V small = lt(b, a, fc(b, 0.78539816f));
    r = choose(b, small, a, r);
    q = ichoose(b, small, ic(b, 0), q);
    V z = mul(b, r, r);
    V s = mad(b, mul(b, polynomial(b, z, 3, sine_c), z), r, r);
    V c = mad(b, mul(b, polynomial(b, z, 3, cosine_c), z), z, mad(b, fc(b, -0.5f), z, fc(b, 1.0f)));
    if (cosine) q = iadd(b, q, ic(b, 1));
    V y = choose(b, ieq(b, iand(b, q, ic(b, 1)), ic(b, 0)), s, c);
    V sign = shl(b, iand(b, q, ic(b, 2)), ic(b, 30));
    if (!cosine) sign = ixor(b, sign, sign_bit(b, x));
    y = flip_sign(b, y, sign);
    V finite = ilt(b, a_bits, ic(b, 0x7f800000));
    return choose(b, finite, y, sub(b, x, x));
}
