/* The op table as data. */
#include "ir/ops.h"
#include <string.h>

const OpInfo op_info[OP_COUNT] = {
#define OP(e, txt, c, ar, ty, jac) \
    {.text = txt, .cls = CLASS_##c, .arity = ar, .type = TYPE_##ty, .jacobian = JAC_##jac},
#define ELEMENT(e, txt, ar, ty, jac, from, price, how, error, where, name) \
    {.text = txt, .cls = CLASS_ELEMENT, .arity = ar, .type = TYPE_##ty, .jacobian = JAC_##jac, .operands = OPERANDS_##from, \
     .cost = price, .code = CODE_##how, .ulps = error, .exact = EXACT_##where, .call = CALLED_##name},
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
    return op_info[op].code == CODE_FORMULA && op_info[op].operands == OPERANDS_FLOATING;
}

int op_cost(Op op) { return op_info[op == OP_RANDOM ? OP_PHILOX : op].cost; }

bool op_is_expensive(Op op) { return op != OP_RANDOM && op_cost(op) >= op_cost(OP_DIV); }

bool op_is_scatter(Op op) { return op == OP_SCATTER_ADD || op == OP_SCATTER_MAX || op == OP_SCATTER_ARGMAX; }

Op op_scattered(Op scatter) { return scatter == OP_SCATTER_MAX || scatter == OP_SCATTER_ARGMAX ? OP_RMAX : OP_SUM; }
