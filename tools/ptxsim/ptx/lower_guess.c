/* The weak load before a compare-and-swap loop.
 *
 *     ld.global.u32 old, [a];
 *     AGAIN: ...; atom.cas seen, [a], old, new; setp.ne p, seen, old; mov old, seen; @p bra AGAIN;
 *
 * By the letter of the PTX ISA (Memory Consistency Model, "Data races") that load races with other threads' atomics.  What
 * it reads is a guess only, which the compare-and-swap verifies, so the outcome does not depend on it; CUDA's own headers
 * (atomicAdd of bf16 before sm_90) and its programming guide begin the loop so.  The load is taken as relaxed. */
#include "tools/ptxsim/exec/alu_level.h"
#include "tools/ptxsim/exec/exec.h"
#include "tools/ptxsim/ptx/parse.h"

enum { MOST_STEPS = 16 };

/* The last instruction before `end` that writes the register as its result. */
static const Inst *definition(const Function *f, int32_t end, const Operand *reg) {
    for (int32_t k = end - 1; k >= 0; k--)
        if (f->code[k].d.base == BASE_REGS && f->code[k].d.offset == reg->offset) return &f->code[k];
    return NULL;
}

/* Follows additions of constants, cvta among them: the register and what is added to it. */
static Operand origin(const Function *f, int32_t at, int64_t *offset) {
    const Inst *i = &f->code[at];
    Operand a = i->a;
    *offset = i->offset;
    for (int k = 0; k < MOST_STEPS && a.base == BASE_REGS; k++) {
        i = definition(f, at, &a);
        const bool sum = i && (i->run == alu_direct(arith_handler(OP_ADD, T_U64)) ||
                               i->run == alu_direct(arith_handler(OP_ADD, T_S64)));
        if (!sum || i->guard.base != BASE_NONE || i->b.base != BASE_POOL) break;
        int64_t added;
        memcpy(&added, f->pool + i->b.offset, sizeof added);
        *offset += added;
        at = (int32_t)(i - f->code);
        a = i->a;
    }
    return a;
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
