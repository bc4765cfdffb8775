// Tensor operations on a tape, scalar by scalar.
#pragma once
#include "tests/net/prog.h"

Tensor t_point1(Eval *e, TapeOp op, Tensor a);
Tensor t_point2(Eval *e, TapeOp op, Tensor a, Tensor b); // broadcast
Tensor t_where(Eval *e, Tensor c, Tensor a, Tensor b);
Tensor t_number(Eval *e, double x);
Tensor t_broadcast(Eval *e, Tensor a, Shape s);
// Over the axes of mask; where is NULL or a mask of a's shape.
Tensor t_reduce(Eval *e, TapeOp op, Tensor a, unsigned axes, bool keep, const Tensor *where);
Tensor t_mean(Eval *e, Tensor a, unsigned axes, bool keep, const Tensor *where);
Tensor t_matmul(Eval *e, Tensor a, Tensor b);
Tensor t_transpose(Eval *e, Tensor a, const int *perm);
Tensor t_reshape(Tensor a, Shape s);
Tensor t_softmax(Eval *e, Tensor a, unsigned axes);
bool broadcast_shapes(const Shape *a, const Shape *b, Shape *out);
Shape reduced_shape(const Shape *s, unsigned axes, bool keep);
bool matmul_shape(const Shape *a, const Shape *b, Shape *out);
void unravel(const Shape *s, int flat, int *at);
int ravel(const Shape *s, const int *at);
// Between the two sums are added up in f32, of whatever precision; the end rounds them once.
Precision begin_sum(Eval *e);
void end_sum(Eval *e, Precision before, Tensor *out);
