/* Multilinear forms over affine subscripts: products, convolutions, channel kernels, strided reads, as text of the language and
 * as numbers computed from the formula itself, in float64.
 *
 *     y[out..] = sum[rest..] x[affine..] * k[affine..],  z = epilogue(y)
 *
 * and the derivatives of sum(z * u) by x and k.  All data are small integers, so that every sum is exact in f32: a result is
 * right only if it is equal. */
#ifndef FUSEC_TESTS_FORM_H
#define FUSEC_TESTS_FORM_H
#include "tests/support/oracle.h"

enum { FORM_INDICES = 10, FORM_RANK = 6, FORM_OPERANDS = 2, FORM_TENSORS = 7 };

/* (sum coef[i] * index i + add) / over; a remainder leaves the term out, as does a place outside the tensor. */
typedef struct FormAffine {
    int coef[FORM_INDICES], add, over;
} FormAffine;

typedef struct FormOperand {
    int rank, dim[FORM_RANK];
    FormAffine at[FORM_RANK];
    bool relu; /* relu(x) is read for x */
} FormOperand;

typedef enum { EPILOGUE_NONE, EPILOGUE_BIAS, EPILOGUE_ADD, EPILOGUE_SCALE, EPILOGUES } FormEpilogue; /* relu(y + b[last]), y + r, 2 * y */
typedef enum { SPELT_INDEXED, SPELT_AT } FormSpelling; /* AT: x @ k of two or three dims, turned where they lie so */

typedef struct Form {
    const char *family;
    int n, n_out, extent[FORM_INDICES]; /* the first n_out are those of the result */
    FormOperand operand[FORM_OPERANDS];
    bool same;    /* k is x, read with other subscripts; then the dims are the same */
    bool diagonal; /* k [a, b] is made of iota: 2 where column == row - 3, else 1 */
    bool swapped; /* k is the first factor in the text */
    FormEpilogue epilogue;
    FormSpelling spelling;
    uint64_t seed; /* of the data */
} Form;

/* What a program of forms is compiled as. */
typedef struct FormSetting {
    const char *precision; /* NULL: f32 */
    bool train;            /* x and k are parameters and entry grad runs; otherwise inputs and `vjp` in entry infer */
    int max_tile;          /* 0: the target's */
    Placing placing;
} FormSetting;

/* Draws a form of about `points` terms at most, of a family whose name has `family` in it ("": any); extents lie around the
 * boundaries of vectors and blocks. */
Form form_draw(TestRandom *r, int64_t points, const char *family);
int64_t form_points(const Form *f);

/* The program, model m; form i's tensors are x<i>, k<i>, u<i>, b<i>, its results z<i>, dx<i>, dk<i>. */
char *form_text(Arena *a, const Form *f, int n, const FormSetting *s);

/* The tensors of a form in float64; n[] elements. b: the bias or what is added. */
typedef struct FormValues {
    int64_t nx, nk, ny, nb;
    double *x, *k, *u, *b, *z, *dx, *dk;
} FormValues;
FormValues form_values(Arena *a, const Form *f, const FormSetting *s);

/* Every smaller or plainer form that differs in one number; *step counts through them, false at the end. */
bool form_smaller(const Form *f, int *step, Form *out);

#endif
