/* The op table as data. */
#include "ir/ops.h"
#include <string.h>

const OpInfo op_info[OP_COUNT] = {
#define OP(e, txt, c, ar, ty, jac) \
    {.text = txt, .cls = CLASS_##c, .arity = ar, .type = TYPE_##ty, .jacobian = JAC_##jac},
#include "ir/ops.def"
#undef OP
};

const char *const entry_name[ENTRY_COUNT] = {
    [ENTRY_INIT] = "init", [ENTRY_INFER] = "infer", [ENTRY_GRAD] = "grad", [ENTRY_STEP] = "step",
    [ENTRY_DERIVE] = "derive"};

bool op_parse(const char *text, Op *out) {
    for (int op = 0; op < OP_COUNT; op++) {
        if (strcmp(text, op_info[op].text) == 0) {
            *out = (Op)op;
            return true;
        }
    }
    return false;
}

bool op_is_transcendental(Op op) {
    switch (op) {
    case OP_EXP:
    case OP_LOG:
    case OP_LOG1P:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_SIN:
    case OP_COS:
    case OP_TANH:
    case OP_SIGMOID:
    case OP_ERF:
    case OP_POW: return true;
    default: return false;
    }
}
