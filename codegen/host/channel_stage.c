/* The copy of an image whose pixels share cache sets; codegen/schedule/channel_strip.c says of which. */
#include "codegen/host/channel.h"
#include "codegen/host/counter.h"

static int64_t stage_pitch(const Channelwise *d, int s) {
    const Places p = channel_places(d->p, INNER);
    return s == INNER ? d->p->strip : d->p->strip * (p.last - p.first + 1);
}

static LLVMValueRef by(const Emit *e, LLVMValueRef i, int64_t pitch) {
    return LLVMBuildMul(e->b, i, emit_i64(e, pitch), "");
}

static void copy_strip(const Channelwise *d, LLVMValueRef to, LLVMValueRef from) {
    const Emit *e = d->ke->e;
    const int lanes = d->ke->plan->machine->vector;
    LLVMTypeRef vector = LLVMVectorType(e->f32, (unsigned)lanes);
    for (int i = 0; i < d->p->strip; i += lanes) {
        LLVMValueRef v = LLVMBuildLoad2(e->b, vector, emit_f32_at(e, from, emit_i64(e, i)), "");
        LLVMSetAlignment(v, 4);
        LLVMSetAlignment(LLVMBuildStore(e->b, v, emit_f32_at(e, to, emit_i64(e, i))), 4);
    }
}

/* Places along side s, of those that exist; to, from: of place 0 of this side and those within. */
static void copy_side(Channelwise *d, int s, LLVMValueRef to, LLVMValueRef from) {
    const Emit *e = d->ke->e;
    if (s == SIDES) {
        copy_strip(d, to, from);
        return;
    }
    const Places p = channel_places(d->p, s);
    LLVMValueRef limit[2], first[2] = {emit_i64(e, p.first)}, end[2] = {emit_i64(e, p.last + 1)};
    channel_set_places(d, s, limit);
    first[1] = limit[0], end[1] = limit[1];
    HostCounter c =
        counter_open(d->ke, emit_intrinsic(e, "llvm.smax", 2, first), emit_intrinsic(e, "llvm.smin", 2, end), 1);
    copy_side(d, s + 1, emit_f32_at(e, to, by(e, c.i, stage_pitch(d, s))),
              emit_f32_at(e, from, by(e, c.i, d->p->window.pitch[d->p->side[s].subscript])));
    counter_close(d->ke, &c);
}

void channel_stage_begin(Channelwise *d) {
    const Places p = channel_places(d->p, OUTER);
    const int64_t elements = stage_pitch(d, OUTER) * (p.last - p.first + 1);
    d->stage = nest_alloca(d->ke, d->ke->e->f32, elements);
}

LLVMValueRef channel_stage(Channelwise *d, LLVMValueRef x) {
    const Emit *e = d->ke->e;
    int64_t back = 0;
    for (int s = 0; s < SIDES; s++) back -= channel_places(d->p, s).first * stage_pitch(d, s);
    LLVMValueRef at = emit_f32_at(e, d->stage, emit_i64(e, back));
    copy_side(d, 0, at, x);
    return at;
}

int64_t channel_x_stride(const Channelwise *d, int axis) {
    for (int s = 0; s < SIDES && d->p->strip; s++) {
        const Side *side = &d->p->side[s];
        if (axis == side->row || axis == side->tap) return d->p->window.coef[side->subscript][axis] * stage_pitch(d, s);
    }
    return d->x_place.stride[axis];
}
