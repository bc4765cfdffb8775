/* Groups of threads that alternate (Kernel.alternate): one's epilogue runs beside another's products.
 *
 * Turn j of group g > 0 begins when group g - 1 has issued the products of its program j; that of group 0 when the last group
 * has issued those of its program j - 1.  So the phase of a TURN barrier that is waited for begins at 0, and for group 0 at
 * the one before it, which a new barrier counts as past. */
#include "codegen/nvptx/hopper.h"

static LLVMValueRef uniform(const Simt *s, LLVMValueRef v) {
    return hopper_asm(s->e, s->e->i32, "shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r", 1, &v);
}

void hopper_threads(Simt *s) {
    const Emit *e = s->e;
    s->hopper->block_thread = s->thread;
    if (s->k->alternate <= 1) return;
    s->hopper->group = uniform(s, LLVMBuildUDiv(e->b, s->thread, hopper_i32(e, s->k->threads), ""));
    s->thread = LLVMBuildURem(e->b, s->thread, hopper_i32(e, s->k->threads), "");
}

void hopper_groups_begin(Simt *s) {
    const Emit *e = s->e;
    Hopper *h = s->hopper;
    if (!h->group) return;
    for (int n = 0; n < s->k->body.n; n++) {
        const Inst *i = s->k->body.at[n];
        if (i->kind != TI_FOR || !hopper_fetches(&i->body)) continue;
        if (!h->first) h->first = i;
        h->last = i;
    }
    h->turn = LLVMBuildAlloca(e->b, e->i32, "");
    LLVMValueRef first = LLVMBuildICmp(e->b, LLVMIntEQ, h->group, LLVMConstNull(e->i32), "");
    LLVMBuildStore(e->b, LLVMBuildZExt(e->b, first, e->i32, ""), h->turn);
}

void hopper_groups_init(Simt *s) {
    const int64_t turn = s->hopper->layout.turn;
    for (int g = 0; g < s->k->alternate && s->hopper->group; g++)
        hopper_barrier_init(s->e, hopper_add(s->e, s->hopper->memory, turn + 8 * g), s->k->threads / 32);
}

void hopper_groups_walk(Simt *s, LLVMValueRef *first, LLVMValueRef *step) {
    const Emit *e = s->e;
    *first = LLVMBuildAdd(e->b, *first, LLVMBuildMul(e->b, s->hopper->group, *step, ""), "");
    *step = LLVMBuildMul(e->b, *step, hopper_i32(e, s->k->alternate), "");
}

static LLVMValueRef turn_of(const Simt *s, LLVMValueRef group) {
    const Emit *e = s->e;
    LLVMValueRef at = LLVMBuildMul(e->b, group, hopper_i32(e, 8), "");
    return LLVMBuildAdd(e->b, hopper_add(e, s->hopper->memory, s->hopper->layout.turn), at, "");
}

void hopper_loop_begin(Simt *s, const Inst *loop) {
    const Emit *e = s->e;
    Hopper *h = s->hopper;
    if (!h->group || loop != h->first) return;
    LLVMValueRef phase = LLVMBuildLoad2(e->b, e->i32, h->turn, "");
    hopper_barrier_wait(e, turn_of(s, h->group), phase);
    LLVMBuildStore(e->b, LLVMBuildXor(e->b, phase, hopper_i32(e, 1), ""), h->turn);
}

void hopper_turn_ends(Simt *s, const Inst *loop, LLVMValueRef where) {
    const Emit *e = s->e;
    const Hopper *h = s->hopper;
    if (!h->group || loop != h->last) return;
    LLVMValueRef next = hopper_add(e, h->group, 1), zero = LLVMConstNull(e->i32);
    LLVMValueRef around = LLVMBuildICmp(e->b, LLVMIntEQ, next, hopper_i32(e, s->k->alternate), "");
    next = LLVMBuildSelect(e->b, around, zero, next, "");
    hopper_barrier_arrive(e, turn_of(s, next), simt_and(s, LLVMBuildICmp(e->b, LLVMIntEQ, h->lane, zero, ""), where));
}
