// What the table of operations is made of; one declaration a line, as the table has one row an operation.
#pragma once
#include "tests/net/prog.h"
enum { LIB_RELU, LIB_LEAKY, LIB_ELU, LIB_SILU, LIB_SOFTPLUS, LIB_LOGSIGMOID, LIB_GELU, LIB_GELU_TANH, LIB_CLAMP, LIB_HUBER };
enum { R_SUM, R_PROD, R_MAX, R_MIN, R_MEAN, R_VARIANCE, R_ARGMAX, R_SOFTMAX, R_LOG_SOFTMAX, R_LOGSUMEXP };
#define PROPOSE(x) bool propose_##x(Gen *g, Value *v)
#define INFER(x) bool infer_##x(const Prog *p, Value *v)
#define EVAL(x) void eval_##x(Eval *e, const Value *v, Tensor *out)
PROPOSE(f); PROPOSE(ff); PROPOSE(positive); PROPOSE(small); PROPOSE(div); PROPOSE(pow); PROPOSE(powi); PROPOSE(ii); PROPOSE(int_const); PROPOSE(i);
PROPOSE(b); PROPOSE(bb); PROPOSE(where); PROPOSE(where_any); PROPOSE(number_attr);
INFER(same); INFER(broadcast); INFER(to_float); INFER(to_int); INFER(compare); INFER(where);
EVAL(1); EVAL(2); EVAL(where); EVAL(to_float); EVAL(int_const); EVAL(mod); EVAL(powi); EVAL(library);
PROPOSE(matmul); PROPOSE(self_product); PROPOSE(reduce); PROPOSE(reduce_where); PROPOSE(scan); PROPOSE(row); PROPOSE(transpose); PROPOSE(permute);
PROPOSE(reshape); PROPOSE(concat); PROPOSE(pad); PROPOSE(reverse); PROPOSE(index); PROPOSE(gather); PROPOSE(slice); PROPOSE(update); PROPOSE(expand);
PROPOSE(broadcast); PROPOSE(iota); PROPOSE(one_hot); PROPOSE(split); PROPOSE(reduce_i);
INFER(matmul); INFER(reduce); INFER(scan); INFER(permute); INFER(reshape); INFER(concat); INFER(pad); INFER(reverse); INFER(index); INFER(gather);
INFER(slice); INFER(update); INFER(expand); INFER(broadcast_to); INFER(iota); INFER(one_hot); INFER(split); INFER(leaf); INFER(transpose);
EVAL(matmul); EVAL(reduce); EVAL(scan); EVAL(permute); EVAL(reshape); EVAL(concat); EVAL(pad); EVAL(reverse); EVAL(index); EVAL(gather);
EVAL(slice); EVAL(update); EVAL(broadcast_to); EVAL(iota); EVAL(one_hot); EVAL(split); EVAL(transpose); EVAL(input); EVAL(parameter); EVAL(number); EVAL(filled);
PROPOSE(linear); PROPOSE(norm); PROPOSE(conv); PROPOSE(pool); PROPOSE(embed); PROPOSE(attention); PROPOSE(entropy); PROPOSE(mse); PROPOSE(groupnorm);
INFER(linear); INFER(conv); INFER(pool); INFER(embed); INFER(attention); INFER(entropy); INFER(mse); INFER(norm); INFER(conv_transpose);
PROPOSE(conv_transpose);
EVAL(linear); EVAL(norm); EVAL(conv); EVAL(pool); EVAL(embed); EVAL(attention); EVAL(entropy); EVAL(mse); EVAL(conv_transpose);
PROPOSE(vjp); PROPOSE(jacobian); PROPOSE(jacobian_batch); INFER(vjp); INFER(jvp); INFER(jacobian); EVAL(vjp); EVAL(jvp); EVAL(jacobian);
PROPOSE(tree); EVAL(tree);
PROPOSE(repeat); INFER(repeat); EVAL(repeat); PROPOSE(state); EVAL(state_op); EVAL(step);
PROPOSE(flatten); INFER(flatten); PROPOSE(to_heads); INFER(to_heads); EVAL(to_heads); PROPOSE(from_heads); INFER(from_heads); EVAL(from_heads);
PROPOSE(causal); INFER(causal); EVAL(causal); PROPOSE(broadcast_like); INFER(broadcast_like); PROPOSE(max3); INFER(max3); EVAL(max3);
PROPOSE(masked_softmax); INFER(masked_softmax); EVAL(masked_softmax); PROPOSE(convolve); INFER(convolve); EVAL(convolve); EVAL(nothing); EVAL(flatten);
PROPOSE(bounded_slice); INFER(bounded_slice); EVAL(bounded_slice); PROPOSE(bounded_reshape); INFER(bounded_reshape);
PROPOSE(extent_value); INFER(extent_value); EVAL(extent_value);
PROPOSE(scanned); INFER(scanned); EVAL(scanned); INFER(header); EVAL(header); INFER(scan_name); EVAL(scan_name); INFER(end); EVAL(end); EVAL(integer);
PROPOSE(mixed); INFER(mixed); EVAL(mixed); PROPOSE(masked_attention); INFER(masked_attention);
PROPOSE(repeated); PROPOSE(layered); PROPOSE(sharing); INFER(call); EVAL(call);
PROPOSE(by_index); INFER(by_index); EVAL(by_index); PROPOSE(int_by_index); PROPOSE(index_at); INFER(index_at); EVAL(index_at);
PROPOSE(if_index); INFER(if_index); EVAL(if_index);
PROPOSE(cache); INFER(cache); EVAL(cache);
