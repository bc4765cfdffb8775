/* shfl.sync: values from other lanes. */
#include "tools/ptxsim/exec/alu.h"
#include <stdio.h>

/* PTX ISA, "shfl.sync": the source lane j of every lane; the lanes where it is in range, else j is the lane itself. */
static uint32_t source_of_lanes(const Inst *i, const uint32_t *b, const uint32_t *c, int32_t from[WARP]) {
    _Alignas(64) int32_t valid[WARP];
    const int op = i->op;
    LANES {
        const int32_t offset = (int32_t)(b[l] & 31), clamp = (int32_t)(c[l] & 31), segment = (int32_t)(c[l] >> 8 & 31);
        const int32_t first = l & segment, last = first | (clamp & ~segment & 31);
        const int32_t j = op == SHUFFLE_UP     ? l - offset
                          : op == SHUFFLE_DOWN ? l + offset
                          : op == SHUFFLE_BFLY ? l ^ offset
                                               : first | (offset & ~segment & 31);
        const bool in_range = op == SHUFFLE_UP ? j >= last : j <= last;
        from[l] = in_range ? j : l;
        valid[l] = in_range ? -1 : 0;
    }
    return lane_signs(valid);
}

static void report_absent(Warp *w, uint32_t mask, const int32_t from[WARP]) {
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1) || (mask >> from[l] & 1)) continue;
        char note[80];
        snprintf(note, sizeof note, "shfl reads lane %d, which does not take part", (int)from[l]);
        warp_report(w, REPORT_MEMBERS, l, 0, 0, note);
    }
}

void exec_shuffle(Warp *w, const Inst *i, uint32_t mask) {
    _Alignas(64) int32_t from[WARP];
    _Alignas(64) uint32_t a[WARP];
    if (!mask || members_apart(w, i, &i->e, mask, exec_shuffle)) return;
    check_members(w, mask, members_of(w, &i->e, mask));
    const uint32_t valid = source_of_lanes(i, source_lanes(w, &i->b), source_lanes(w, &i->c), from);
    if (mask != UINT32_MAX) report_absent(w, mask, from);
    memcpy(a, source_lanes(w, &i->a), sizeof a); /* the result may be its own source */
    PUT_LANES(uint32_t, const uint32_t x = a[from[l]], x)
    if (i->has_d2) predicate_out(w, &i->d2, valid, mask);
}
