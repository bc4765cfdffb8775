#pragma once
#include "tests/net/tensor.h"
// proposals and inference shared by tables of operations
bool propose_f(Gen *g, Value *v);  // one float tensor
bool propose_ff(Gen *g, Value *v); // two that broadcast
bool propose_positive(Gen *g, Value *v);
bool infer_same(const Prog *p, Value *v);
bool infer_broadcast(const Prog *p, Value *v);
bool take(Value *v, int arg);
Shape flat_shape(int rank, ...);
