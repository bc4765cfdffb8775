// A tape of scalar operations in double precision: the oracle of the random programs.  Derivatives are further operations on the
// same tape, so that they can be differentiated again.  With every scalar goes a bound on what rounding can move it by when the
// same value is computed in f32 (a running error analysis; Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.3).
#pragma once
#include <stdbool.h>

typedef enum {
    T_CONST, T_VAR, T_COPY, T_STOP, T_ADD, T_SUB, T_MUL, T_DIV, T_NEG, T_SELECT, T_MAX, T_MIN, T_POW,
    T_ABS, T_SIGN, T_EXP, T_LOG, T_LOG1P, T_SQRT, T_RSQRT, T_SIN, T_COS, T_TANH, T_SIGMOID, T_ERF, T_FLOOR, T_CEIL,
    T_LT, T_LE, T_GT, T_GE, T_EQ, T_NE, T_AND, T_OR, T_NOT, T_TRUNC, T_IADD, T_ISUB, T_IMUL, T_IDIV, T_IMOD
} TapeOp;

typedef enum { P_F32, P_BF16, P_F16, P_TF32 } Precision;

typedef struct {
    unsigned char op, precision;
    int arg[3];       // -1: none
    double value;
    double magnitude; // of the terms that the value was added up from: what cancelled counts
    double grid;      // where error is 0: what all terms are multiples of (infinite: they are 0)
    double error;     // in f32 the value may differ by this much; infinite: by anything
} Scalar;

typedef struct {
    Scalar *at;
    int count, capacity, limit;
    Precision precision; // of what is added next
    bool full;           // the limit was reached: values are meaningless
} Tape;

void tape_free(Tape *t);
int tape_const(Tape *t, double value);
// A value that was computed elsewhere and may be off by error.
int tape_var(Tape *t, double value, double error);
int tape_op(Tape *t, TapeOp op, int a, int b, int c);
static inline int tape_1(Tape *t, TapeOp op, int a) { return tape_op(t, op, a, -1, -1); }
static inline int tape_2(Tape *t, TapeOp op, int a, int b) { return tape_op(t, op, a, b, -1); }

// out[j] = sum over i of u[i] * dy[i] / dx[j], x being variables of their own.
void tape_reverse(Tape *t, const int *y, const int *u, int ny, const int *x, int nx, int *out);
// out[i] = sum over j of dy[i] / dx[j] * v[j]
void tape_forward(Tape *t, const int *y, int ny, const int *x, const int *v, int nx, int *out);
