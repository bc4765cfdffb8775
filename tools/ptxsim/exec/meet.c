/* shfl.sync, vote.sync, match.sync, redux.sync, elect.sync, bar.warp.sync: the executing thread waits until all threads
 * in its membermask that have not exited have executed the same instruction, with the same qualifiers and the same
 * membermask; nothing says that it must be the same place of the code (PTX ISA, "shfl.sync" and the others).
 *
 * Lanes of sibling paths meet here.  Where they stand at different instructions, one in the place of all is executed:
 * its operands lie in a room apart, filled from the registers that each one names. */
#include "tools/ptxsim/exec/path.h"

/* Lanes that those in `mask` name. */
static uint32_t named_members(const Warp *w, const Inst *i, uint32_t mask) {
    const uint32_t *members = lane_in(w, &i->e);
    uint32_t named = 0;
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1) named |= members[l];
    return named;
}

/* ---- who takes part --------------------------------------------------------------------------------------- */
typedef struct Party {
    const Inst *inst;
    uint32_t mask;
    Path *path;
} Party;

static bool same_operation(const Inst *a, const Inst *b) {
    return a->flow == b->flow && a->run == b->run && a->op == b->op && a->type == b->type;
}

/* The top path, and siblings that wait at the same operation. */
static int find_parties(Warp *w, const Inst *i, uint32_t mask, Party party[WARP]) {
    const Inst *code = w->frame[w->frames - 1].fn->code;
    int n = 0;
    party[n++] = (Party){.inst = i, .mask = mask, .path = &w->path[w->paths - 1]};
    Path *p;
    for (int k = 0; (p = sibling(w, k)) != NULL && n < WARP; k++)
        if (p->waiting && p->mask && same_operation(i, &code[p->pc]))
            party[n++] = (Party){.inst = &code[p->pc], .mask = p->mask, .path = p};
    return n;
}

/* Lanes all of whose members are there and name the same members. */
static uint32_t served_lanes(const Warp *w, const Party *party, int n) {
    uint32_t named[WARP] = {0}, here = 0, served = 0;
    for (int k = 0; k < n; k++) {
        const uint32_t *members = lane_in(w, &party[k].inst->e);
        here |= party[k].mask;
        for (int l = 0; l < WARP; l++)
            if (party[k].mask >> l & 1) named[l] = members[l];
    }
    for (int l = 0; l < WARP; l++) {
        const uint32_t wanted = named[l] & w->live;
        bool all = here >> l & 1 && !(wanted & ~here);
        for (int m = 0; m < WARP && all; m++) all = !(wanted >> m & 1) || named[m] == named[l];
        served |= (uint32_t)all << l;
    }
    return served;
}

/* Leaves those of whose lanes all are served; 0 when the top path is not among them. */
static int complete_parties(const Warp *w, Party *party, int n) {
    for (int before = 0; before != n;) {
        const uint32_t served = served_lanes(w, party, n);
        before = n;
        n = 0;
        for (int k = 0; k < before; k++)
            if (!(party[k].mask & ~served)) party[n++] = party[k];
            else if (!k) return 0;
    }
    return n;
}

/* ---- one instruction for all ------------------------------------------------------------------------------- */
enum { MEET_A, MEET_B, MEET_C, MEET_E, MEET_D, MEET_D2, MEET_OPERANDS, MEET_STRIDE = WARP * 8 };

static Operand *operand_of(Inst *i, int k) {
    Operand *const all[MEET_OPERANDS] = {&i->a, &i->b, &i->c, &i->e, &i->d, &i->d2};
    return all[k];
}

static void take_part(const Warp *w, const Party *p, const Inst *joint, int operand) {
    Inst mine = *p->inst, theirs = *joint;
    const Operand *from = operand_of(&mine, operand), *to = operand_of(&theirs, operand);
    for (int l = 0; l < WARP; l++)
        if (p->mask >> l & 1) lane_set(w, to, l, lane_bits(w, from, l));
}

static void give_part(const Warp *w, const Party *p, const Inst *joint, int operand) {
    Inst mine = *p->inst, theirs = *joint;
    const Operand *to = operand_of(&mine, operand), *from = operand_of(&theirs, operand);
    for (int l = 0; l < WARP && to->base != BASE_NONE; l++)
        if (p->mask >> l & 1) lane_set(w, to, l, lane_bits(w, from, l));
}

static void run_together(Warp *w, const Party *party, int n) {
    _Alignas(64) uint8_t room[MEET_OPERANDS * MEET_STRIDE] = {0};
    Inst joint = *party[0].inst;
    uint32_t mask = 0;
    for (int k = 0; k < n; k++) {
        mask |= party[k].mask;
        if (party[k].inst->has_d2) joint.d2 = party[k].inst->d2, joint.has_d2 = true;
    }
    w->base[BASE_MEET] = room;
    for (uint32_t o = 0; o < MEET_OPERANDS; o++) {
        Operand *at = operand_of(&joint, (int)o);
        if (at->base == BASE_NONE) continue;
        *at = (Operand){.offset = o * MEET_STRIDE, .base = BASE_MEET, .bytes = at->bytes};
        for (int k = 0; k < n && o < MEET_D; k++) take_part(w, &party[k], &joint, (int)o);
    }
    joint.run(w, &joint, mask);
    for (int k = 0; k < n; k++) {
        give_part(w, &party[k], &joint, MEET_D);
        give_part(w, &party[k], &joint, MEET_D2);
    }
}

static void go_on(Party *party, int n) {
    for (int k = 0; k < n; k++) {
        party[k].path->waiting = false;
        party[k].path->pc++;
    }
}

/* ---- meeting ------------------------------------------------------------------------------------------------ */
/* Lanes that a guard switches off may execute another of the same later: a path of their own. */
static void part_from_others(Warp *w, uint32_t rest) {
    Path *top = &w->path[w->paths - 1];
    top->mask &= ~rest;
    const int32_t next = top->pc + 1, join = top->join;
    if (next == join) return;
    top->waiting = true;
    if (push_path(w, next, join, rest)) w->path[w->paths - 1].ahead = true;
    else cluster_no_memory(w->cluster);
}

/* Who takes part in the top path's operation; 0: others come first. */
static int gather(Warp *w, const Inst *i, uint32_t mask, Party party[WARP]) {
    do {
        if (merge_siblings(w)) return 0;
        const int n = complete_parties(w, party, find_parties(w, i, mask, party));
        if (n) return n;
        if (try_sibling(w)) return 0;
    } while (give_up_join(w));
    find_parties(w, i, mask, party);
    return 1; /* nobody can come any more: reported where it is executed */
}

/* Lanes that have gone past this place and exited need not come; but that nobody waits for them any more is luck. */
static void report_passed(Warp *w, const Inst *i, uint32_t mask) {
    const uint32_t passed = named_members(w, i, mask) & w->passed;
    if (!passed) return;
    warp_report(w, REPORT_MEMBERS, __builtin_ctz(passed), 0, 0,
                "named here, this lane has passed this place and exited");
}

bool meet(Warp *w, const Inst *i, uint32_t active, uint32_t mask) {
    Party party[WARP];
    int n = 1;
    party[0] = (Party){.inst = i, .mask = mask, .path = &w->path[w->paths - 1]};
    if (mask && mask != w->live && named_members(w, i, mask) & w->live & ~mask) {
        if (mask != active) part_from_others(w, active & ~mask);
        else n = gather(w, i, mask, party);
        if (mask != active || !n) return false;
    }
    if (w->passed && mask) report_passed(w, i, mask);
    go_on(party, n);
    if (n > 1) {
        run_together(w, party, n);
        line_up(w);
    } else if (mask) {
        i->run(w, i, mask);
    }
    return true;
}
