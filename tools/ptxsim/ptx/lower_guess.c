/* The weak load before a compare-and-swap loop.
 *
 *     ld.global.u32 old, [a];
 *     AGAIN: ...; atom.cas seen, [a], old, new; setp.ne p, seen, old; mov old, seen; @p bra AGAIN;
 *
 * By the letter of the PTX ISA (Memory Consistency Model, "Data races") that load races with other threads' atomics.  What
 * it reads is a guess only, which the compare-and-swap verifies, so the outcome does not depend on it; CUDA's own headers
 * (atomicAdd of bf16 before sm_90) and its programming guide begin the loop so.  The load is taken as relaxed. */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/parse.h"
#include <string.h>

enum { MOST_STEPS = 16 };

/* The last instruction before `end` that writes the register as its result. */
static const Inst *definition(const Function *f, int32_t end, const Operand *reg) {
    for (int32_t k = end - 1; k >= 0; k--)
        if (f->code[k].d.base == BASE_REGS && f->code[k].d.offset == reg->offset) return &f->code[k];
    return NULL;
}

static bool is_sum(const Inst *i) {
    return i->run == alu_direct(arith_handler(OP_ADD, T_U64)) || i->run == alu_direct(arith_handler(OP_ADD, T_S64)) ||
           i->run == alu_direct(arith_handler(OP_ADD, T_U32)) || i->run == alu_direct(arith_handler(OP_ADD, T_S32));
}

static bool is_move(const Inst *i) {
    return i->run == alu_direct(move_handler(4)) || i->run == alu_direct(move_handler(8));
}

static int64_t constant_bits(const Function *f, const Operand *o) {
    int64_t bits = 0;
    memcpy(&bits, f->pool + o->offset, o->bytes);
    return bits;
}

/* Follows moves and additions of constants, cvta among them: the register, none for a variable, and what is added. */
static Operand origin(const Function *f, int32_t at, int64_t *offset) {
    const Inst *i = &f->code[at];
    Operand a = i->a;
    *offset = i->offset;
    for (int k = 0; k < MOST_STEPS && a.base == BASE_REGS; k++) {
        i = definition(f, at, &a);
        if (!i || i->guard.base != BASE_NONE || !(is_move(i) || (is_sum(i) && i->b.base == BASE_POOL))) break;
        if (!is_move(i)) *offset += constant_bits(f, &i->b);
        at = (int32_t)(i - f->code);
        a = i->a;
    }
    if (a.base != BASE_POOL) return a;
    *offset += constant_bits(f, &a);
    return (Operand){0};
}

void relax_guess(Parser *p) {
    Function *f = p->fn;
    const Inst *cas = &f->code[f->count - 1];
    int64_t offset, its;
    const Operand a = origin(f, f->count - 1, &offset);
    for (int32_t k = f->count - 2; k >= 0; k--) {
        Inst *i = &f->code[k];
        if (i->run != alu_direct(exec_load) || i->ordered || i->count != 1 ||
            type_bytes((PtxType)i->type) != type_bytes((PtxType)cas->type))
            continue;
        const Operand b = origin(f, k, &its);
        if (b.base != a.base || b.offset != a.offset || its != offset) continue;
        i->ordered = true;
        i->order = ORDER_RELAXED;
        i->scope = cas->scope;
    }
}
