/* Short names for MathBuilder operations, shared by the files of this folder. */
#ifndef FUSEC_CODEGEN_MATH_BUILD_H
#define FUSEC_CODEGEN_MATH_BUILD_H
#include "codegen/math/math.h"

typedef const MathBuilder *B;
typedef MathValue V;

static inline V fc(B b, float x) { return b->f32(b->user, x); }
static inline V ic(B b, uint32_t x) { return b->i32(b->user, (int32_t)x); }
static inline V op1(B b, MathOp op, V x) { return b->op(b->user, op, (V[]){x}); }
static inline V op2(B b, MathOp op, V x, V y) { return b->op(b->user, op, (V[]){x, y}); }
static inline V op3(B b, MathOp op, V x, V y, V z) { return b->op(b->user, op, (V[]){x, y, z}); }

static inline V add(B b, V x, V y) { return op2(b, MATH_ADD, x, y); }
static inline V sub(B b, V x, V y) { return op2(b, MATH_SUB, x, y); }
static inline V mul(B b, V x, V y) { return op2(b, MATH_MUL, x, y); }
static inline V quotient(B b, V x, V y) { return op2(b, MATH_DIV, x, y); }
static inline V mad(B b, V x, V y, V z) { return op3(b, MATH_MAD, x, y, z); }
static inline V lt(B b, V x, V y) { return op2(b, MATH_LT, x, y); }
static inline V eq(B b, V x, V y) { return op2(b, MATH_EQ, x, y); }
static inline V both(B b, V x, V y) { return op2(b, MATH_AND, x, y); }
static inline V either(B b, V x, V y) { return op2(b, MATH_OR, x, y); }
static inline V choose(B b, V c, V x, V y) { return op3(b, MATH_SELECT, c, x, y); }
static inline V ichoose(B b, V c, V x, V y) { return op3(b, MATH_ISELECT, c, x, y); }
static inline V iadd(B b, V x, V y) { return op2(b, MATH_IADD, x, y); }
static inline V isub(B b, V x, V y) { return op2(b, MATH_ISUB, x, y); }
static inline V imul(B b, V x, V y) { return op2(b, MATH_IMUL, x, y); }
static inline V imulhi(B b, V x, V y) { return op2(b, MATH_IMULHI, x, y); }
static inline V iand(B b, V x, V y) { return op2(b, MATH_IAND, x, y); }
static inline V ior(B b, V x, V y) { return op2(b, MATH_IOR, x, y); }
static inline V ixor(B b, V x, V y) { return op2(b, MATH_IXOR, x, y); }
static inline V shl(B b, V x, V y) { return op2(b, MATH_ISHL, x, y); }
static inline V shr(B b, V x, V y) { return op2(b, MATH_ISHR, x, y); }
static inline V sar(B b, V x, V y) { return op2(b, MATH_ISAR, x, y); }
static inline V ieq(B b, V x, V y) { return op2(b, MATH_IEQ, x, y); }
static inline V ilt(B b, V x, V y) { return op2(b, MATH_ILT, x, y); }
static inline V bits(B b, V x) { return op1(b, MATH_BITS, x); }
static inline V float_of(B b, V x) { return op1(b, MATH_FLOAT, x); }
static inline V convert(B b, V x) { return op1(b, MATH_CONVERT, x); }
static inline V magnitude(B b, V x) { return float_of(b, iand(b, bits(b, x), ic(b, 0x7fffffff))); }
static inline V sign_bit(B b, V x) { return iand(b, bits(b, x), ic(b, 0x80000000u)); }
static inline V flip_sign(B b, V x, V sign) { return float_of(b, ixor(b, bits(b, x), sign)); }

/* ((c[0] x + c[1]) x + ...) x + c[n-1] */
static inline V polynomial(B b, V x, int n, const float *c) {
    V y = fc(b, c[0]);
    for (int i = 1; i < n; i++) y = mad(b, y, x, fc(b, c[i]));
    return y;
}

/* 1.5 * 2^23 and 127, and twice 127, which is an exponent's bias.  With |x| < 2^22 the sum has the nearest integer of x in its low
 * bits: no conversion is needed, which C leaves undefined for NaN. */
#define MATH_BIASED 12583039.0f
#define MATH_TWICE_BIASED 12583166.0f

/* math.c: y * 2^n for y in [0.5, 2], -250 < n < 250, n the nearest integer of x; n = MATH_TWICE_BIASED + x, half = MATH_BIASED + x / 2.
 * The result is rounded once, subnormals included. */
V math_scale(B b, V y, V n, V half);
/* exp(r) for |r| <= 0.36 */
V math_exp_core(B b, V r);

V math_pow(B b, V x, V y);          /* pow.c */
V math_sincos(B b, V x, bool cosine); /* trig.c */

/* The function itself; see math_expand. */
V math_formula(B b, Op op, const V *operands);

#endif
