/* The transcendental functions of the op table in f32, written once for every back end.
 *
 * math_expand() builds a function as straight-line code (selects, no branches, no tables in memory) over a
 * small set of operations that the caller supplies: LLVM instructions for the host and for PTX, C text for
 * c99, or plain evaluation in the tests.  Special values follow C99 Annex F: NaN propagates (its sign and
 * payload are unspecified), exp(-inf) = 0, log(0) = -inf, log(x < 0) = NaN, sin(inf) = NaN, pow(x, 0) = 1,
 * pow(x, 1) = x, pow(1, y) = 1, pow(x < 0, y) = NaN unless y is an integer.  Subnormal arguments and results are exact to
 * the same bounds unless the caller's own operations flush them to zero.
 *
 * Error bounds in units in the last place are ULPS of ir/ops.def, over all finite arguments, with MATH_MAD fused or not
 * (tests/unit/math.c samples every exponent against libm in double precision); for sin and cos the reduction by pi/2
 * keeps 62 fraction bits.
 *
 * The operations must round to nearest, one at a time: MATH_MUL followed by MATH_ADD must not be contracted
 * (PTX: mul.rn, add.rn; C: -ffp-contract=off), nothing may be re-associated.  MATH_MAD is where fusing is free.
 *
 * Sources: exp and the reduction constants, S. Moshier, Cephes; log, log1p, pow after FreeBSD msun (e_powf.c:
 * log2 as an unevaluated sum of two floats); sin and cos reduction: M. Payne, R. Hanek, "Radian reduction for
 * trigonometric functions", SIGNUM 1983; erf: minimax forms after N. Juffa; Philox: J. Salmon et al., SC'11. */
#ifndef FUSEC_CODEGEN_MATH_H
#define FUSEC_CODEGEN_MATH_H
#include "ir/ops.h"

/* A value of the caller: f32, i32 or condition (whatever its comparisons give). */
typedef void *MathValue;

/* MATH(ENUM, operands, result, what): f float, i 32-bit integer wrapping, c condition. */
#define MATH_OPS(MATH)                                            \
    MATH(ADD, "ff", 'f', "a + b")                                 \
    MATH(SUB, "ff", 'f', "a - b")                                 \
    MATH(MUL, "ff", 'f', "a * b")                                 \
    MATH(DIV, "ff", 'f', "a / b, correctly rounded")              \
    MATH(MAD, "fff", 'f', "a * b + c, rounded once or twice")     \
    MATH(SQRT, "f", 'f', "correctly rounded")                     \
    MATH(FLOOR, "f", 'f', "largest integer not above")            \
    MATH(LT, "ff", 'c', "a < b, false with NaN")                  \
    MATH(EQ, "ff", 'c', "a == b, false with NaN")                 \
    MATH(ILT, "ii", 'c', "a < b, signed")                         \
    MATH(IEQ, "ii", 'c', "a == b")                                \
    MATH(AND, "cc", 'c', "both")                                  \
    MATH(OR, "cc", 'c', "either")                                 \
    MATH(SELECT, "cff", 'f', "c ? a : b")                         \
    MATH(ISELECT, "cii", 'i', "c ? a : b")                        \
    MATH(IADD, "ii", 'i', "a + b")                                \
    MATH(ISUB, "ii", 'i', "a - b")                                \
    MATH(IMUL, "ii", 'i', "a * b, low 32 bits")                   \
    MATH(IMULHI, "ii", 'i', "a * b unsigned, high 32 bits")       \
    MATH(IAND, "ii", 'i', "a & b")                                \
    MATH(IOR, "ii", 'i', "a | b")                                 \
    MATH(IXOR, "ii", 'i', "a ^ b")                                \
    MATH(ISHL, "ii", 'i', "a << b, 0 <= b < 32")                  \
    MATH(ISHR, "ii", 'i', "a >> b, zeros enter, 0 <= b < 32")     \
    MATH(ISAR, "ii", 'i', "a >> b, the sign enters, 0 <= b < 32") \
    MATH(BITS, "f", 'i', "the float's bits")                      \
    MATH(FLOAT, "i", 'f', "the float of these bits")              \
    MATH(CONVERT, "i", 'f', "the nearest float of a signed integer") \
    MATH(MIN, "ff", 'f', "the lesser; of NaN and a number the number; has_exp2") \
    MATH(MAX, "ff", 'f', "the greater; likewise") \
    MATH(EXP2, "f", 'f', "2^a, off by less than one unit in the last place; has_exp2")

typedef enum {
#define MATH(e, operands, result, what) MATH_##e,
    MATH_OPS(MATH)
#undef MATH
        MATH_OP_COUNT
} MathOp;

typedef struct MathOpInfo {
    const char *name;     /* "ADD" */
    const char *operands; /* one letter each */
    char result;
} MathOpInfo;
extern const MathOpInfo math_op_info[MATH_OP_COUNT];

typedef struct MathBuilder {
    void *user;
    MathValue (*f32)(void *user, float value);
    MathValue (*i32)(void *user, int32_t value);
    MathValue (*op)(void *user, MathOp op, const MathValue *operands);
    bool has_exp2; /* op() takes MATH_MIN, MATH_MAX and MATH_EXP2 too, and MATH_MAD rounds once: exp, and what is made of it, is shorter (ULPS + 1) */
} MathBuilder;

/* True for the ops that math_expand() builds: EXP LOG LOG1P SQRT RSQRT SIN COS TANH SIGMOID ERF POW PHILOX. */
bool math_expands(Op op);

/* Builds `op`.  Operands: one f32; POW two f32; PHILOX four i32 (key0, key1, counter0, counter1).
 * The result is f32.  NULL if !math_expands(op). */
MathValue math_expand(const MathBuilder *b, Op op, const MathValue *operands);

/* How many instructions that is; 0 if !math_expands(op). */
int math_steps(Op op);

#endif
