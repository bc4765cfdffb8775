/* The parts of an axis that blocks make up; codegen/schedule/channel_block.c says what they are. */
#include "codegen/host/channel.h"

static bool constant(LLVMValueRef v, int64_t *out) {
    if (!LLVMIsAConstantInt(v)) return false;
    *out = LLVMConstIntGetSExtValue(v);
    return true;
}

/* Lanes at least 1: blocks of `size` and single lanes. */
static int dynamic_parts(const Channelwise *d, int axis, int size, Part *part) {
    const Emit *e = d->ke->e;
    const int64_t last = step_of(d->p, axis) - 1;
    LLVMValueRef lanes = lanes_of(d, axis), rest = LLVMBuildSRem(e->b, lanes, emit_i64(e, size), ""),
                 end = LLVMBuildSub(e->b, lanes, rest, "");
    part[0] = (Part){emit_i64(e, 0), end, {0, last, size}};
    part[1] = (Part){end, lanes, {0, last, 1}};
    return size > 1 ? 2 : 1;
}

/* Lanes of a constant number, in blocks of two sizes.  Blocks that lie inside for certain are one part; others are
 * apart, so that each is known to itself. */
static int constant_parts(const Channelwise *d, int s, bool rows, int64_t n, int most, Part *part) {
    const Emit *e = d->ke->e;
    const int64_t count = channel_blocks(n, most), small = n / count, greater = n % count;
    const int other = rows ? d->p->side[s].tap : d->p->side[s].row;
    const BlockRange across = {.first = 0,
                               .last = step_of(d->p, other) - (rows ? d->p->side[s].taps : d->p->side[s].rows),
                               .size = rows ? d->p->side[s].taps : d->p->side[s].rows};
    int used = 0;
    bool before = false;
    for (int64_t i = 0, at = 0; i < count; i++) {
        const int size = (int)(i < greater ? small + 1 : small);
        const Part here = {emit_i64(e, at), emit_i64(e, at + size), {at, at, size}};
        const bool sure = d->p->side[s].subscript < 0 ||
                          channel_all_sure(d->p, s, rows ? &here.of : &across, rows ? &across : &here.of);
        if (((sure && before) || used == MOST_PARTS - 2) && part[used - 1].of.size == size) {
            part[used - 1].end = here.end;
            part[used - 1].of.last = at;
        } else {
            part[used++] = here;
        }
        before = sure;
        at += size;
    }
    return used;
}

/* Where the tile begins anywhere, all blocks are alike. */
int channel_parts(const Channelwise *d, int s, bool rows, Part *part) {
    const int axis = rows ? d->p->side[s].row : d->p->side[s].tap,
              size = rows ? d->p->side[s].rows : d->p->side[s].taps;
    int64_t n = 1;
    if (axis >= 0 && !constant(lanes_of(d, axis), &n)) return dynamic_parts(d, axis, size, part);
    if (axis >= 0 && !single_tile(d->p, axis) && n % size) return dynamic_parts(d, axis, size, part);
    if (axis >= 0 && !single_tile(d->p, axis)) {
        part[0] = (Part){emit_i64(d->ke->e, 0), emit_i64(d->ke->e, n), {0, n - size, size}};
        return 1;
    }
    return constant_parts(d, s, rows, n, size, part);
}
