/* Operations across the lanes of a warp, special registers, and reports from lanes. */
#include "tools/ptxsim/exec/exec.h"
#include "tools/ptxsim/ptx/parse.h"
#include <stdio.h>
#include <time.h>

static const uint32_t *words(const Warp *w, const Operand *o) { return lane_in(w, o); }

void warp_report(Warp *w, ReportKind kind, int lane, uint64_t address, int bytes, const char *note) {
    const Block *b = w->block;
    if (!(b->launch->checks >> kind & 1)) return;
    Report r = {.kind = kind, .line = w->at ? w->at->line : 0, .address = address, .bytes = bytes,
                .order = b->linear * 2048 + (uint64_t)(w->index * WARP + lane)};
    snprintf(r.function, sizeof r.function, "%s", b->launch->fn->name);
    snprintf(r.note, sizeof r.note, "%s", note);
    for (int d = 0; d < 3; d++) {
        r.block[d] = b->id[d];
        r.thread[d] = w->tid[d][lane];
    }
    reports_add(b->launch->reports, &r);
}

/* Lanes that exited need not come. */
bool check_members(Warp *w, uint32_t mask, uint32_t members) {
    const uint32_t absent = members & w->live & ~mask, outside = mask & ~members;
    if (!absent && !outside) return true;
    char note[160];
    snprintf(note, sizeof note, "membermask 0x%08x, executing lanes 0x%08x, live lanes 0x%08x", members, mask, w->live);
    warp_report(w, REPORT_MEMBERS, __builtin_ctz(absent ? absent : outside), 0, 0, note);
    return false;
}

bool members_apart(Warp *w, const Inst *i, const Operand *set, uint32_t mask, ExecFn again) {
    if (set->base == BASE_POOL) return false;
    const uint32_t *members = lane_in(w, set), first = members_of(w, set, mask);
    uint32_t same = 0;
    for (int l = 0; l < WARP; l++) same |= (uint32_t)(members[l] == first) << l;
    same &= mask;
    if (same == mask) return false;
    again(w, i, same);
    again(w, i, mask & ~same);
    return true;
}

void exec_vote(Warp *w, const Inst *i, uint32_t mask) {
    if (!mask || members_apart(w, i, &i->e, mask, exec_vote)) return;
    check_members(w, mask, members_of(w, &i->e, mask));
    const uint32_t yes = predicate_in(w, &i->a) & mask;
    if (i->op == VOTE_BALLOT) {
        uint32_t r[WARP];
        for (int l = 0; l < WARP; l++) r[l] = yes;
        lanes_put(lane_out(w, &i->d), r, sizeof *r, mask);
        return;
    }
    const bool v = i->op == VOTE_ALL ? yes == mask : i->op == VOTE_ANY ? yes != 0 : yes == mask || !yes;
    predicate_out(w, &i->d, v ? UINT32_MAX : 0, mask);
}

void exec_match(Warp *w, const Inst *i, uint32_t mask) {
    uint32_t r[WARP] = {0}, same = UINT32_MAX;
    if (!mask || members_apart(w, i, &i->e, mask, exec_match)) return;
    check_members(w, mask, members_of(w, &i->e, mask));
    for (int l = 0; l < WARP; l++)
        for (int k = 0; (mask >> l & 1) && k < WARP; k++)
            if ((mask >> k & 1) && lane_bits(w, &i->a, l) == lane_bits(w, &i->a, k)) r[l] |= UINT32_C(1) << k;
    for (int l = 0; l < WARP; l++)
        if ((mask >> l & 1) && r[l] != mask) same = 0;
    if (i->op == VOTE_ALL)
        for (int l = 0; l < WARP; l++) r[l] = same ? mask : 0;
    lanes_put(lane_out(w, &i->d), r, sizeof *r, mask);
    if (i->has_d2) predicate_out(w, &i->d2, same, mask);
}

static uint32_t reduce_two(const Inst *i, uint32_t a, uint32_t b) {
    const bool is_signed = i->type == T_S32;
    switch (i->op) {
    case ATOMIC_ADD: return a + b;
    case ATOMIC_MIN: return is_signed ? (uint32_t)((int32_t)a < (int32_t)b ? a : b) : a < b ? a : b;
    case ATOMIC_MAX: return is_signed ? (uint32_t)((int32_t)a > (int32_t)b ? a : b) : a > b ? a : b;
    case ATOMIC_AND: return a & b;
    case ATOMIC_OR: return a | b;
    default: return a ^ b;
    }
}

void exec_redux(Warp *w, const Inst *i, uint32_t mask) {
    const uint32_t *a = words(w, &i->a);
    uint32_t r[WARP], sum;
    if (!mask || members_apart(w, i, &i->e, mask, exec_redux)) return;
    check_members(w, mask, members_of(w, &i->e, mask));
    const int first = __builtin_ctz(mask);
    sum = a[first];
    for (int l = first + 1; l < WARP; l++)
        if (mask >> l & 1) sum = reduce_two(i, sum, a[l]);
    for (int l = 0; l < WARP; l++) r[l] = sum;
    lanes_put(lane_out(w, &i->d), r, sizeof *r, mask);
}

void exec_activemask(Warp *w, const Inst *i, uint32_t mask) {
    uint32_t r[WARP];
    for (int l = 0; l < WARP; l++) r[l] = mask;
    lanes_put(lane_out(w, &i->d), r, sizeof *r, mask);
}

void exec_warp_barrier(Warp *w, const Inst *i, uint32_t mask) {
    if (!mask || members_apart(w, i, &i->a, mask, exec_warp_barrier)) return;
    check_members(w, mask, members_of(w, &i->a, mask));
    if (mask == w->live) clock_warp_sync(w);
    else clock_part_sync(w, mask);
}

/* ---- special registers -------------------------------------------------------------------------------- */
static uint64_t wall_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The run loop counts whole runs of instructions; a clock is read within one. */
static uint64_t warp_clock(const Warp *w) { return w->at ? w->clock_base + (uint64_t)w->at->before : w->steps; }

/* Clocks count this warp's instructions, so that a run repeats exactly; the global timer is the host's. */
static uint64_t special_bits(const Warp *w, Special s, int lane) {
    const Block *b = w->block;
    const Launch *k = b->launch;
    const uint32_t bit = UINT32_C(1) << lane;
    switch (s) {
    case SR_TID_X: case SR_TID_Y: case SR_TID_Z: return w->tid[s - SR_TID_X][lane];
    case SR_NTID_X: case SR_NTID_Y: case SR_NTID_Z: return k->block[s - SR_NTID_X];
    case SR_CTAID_X: case SR_CTAID_Y: case SR_CTAID_Z: return b->id[s - SR_CTAID_X];
    case SR_NCTAID_X: case SR_NCTAID_Y: case SR_NCTAID_Z: return k->grid[s - SR_NCTAID_X];
    case SR_LANEID: return (uint64_t)lane;
    case SR_WARPID: return (uint64_t)w->index;
    case SR_NWARPID: return 64;
    case SR_SMID: return b->linear % k->sm_count;
    case SR_NSMID: return k->sm_count;
    case SR_GRIDID: return 1;
    case SR_LANEMASK_EQ: return bit;
    case SR_LANEMASK_LE: return bit | (bit - 1);
    case SR_LANEMASK_LT: return bit - 1;
    case SR_LANEMASK_GE: return (uint32_t)~(bit - 1);
    case SR_LANEMASK_GT: return (uint32_t)~(bit | (bit - 1));
    case SR_CLOCK: case SR_CLOCK64: return warp_clock(w);
    case SR_CLOCK_HI: return warp_clock(w) >> 32;
    case SR_GLOBALTIMER: case SR_GLOBALTIMER_LO: return wall_clock();
    case SR_GLOBALTIMER_HI: return wall_clock() >> 32;
    case SR_CLUSTERID_X: case SR_CLUSTERID_Y: case SR_CLUSTERID_Z:
        return b->id[s - SR_CLUSTERID_X] / k->cluster[s - SR_CLUSTERID_X];
    case SR_NCLUSTERID_X: case SR_NCLUSTERID_Y: case SR_NCLUSTERID_Z:
        return k->grid[s - SR_NCLUSTERID_X] / k->cluster[s - SR_NCLUSTERID_X];
    case SR_CLUSTER_CTAID_X: case SR_CLUSTER_CTAID_Y: case SR_CLUSTER_CTAID_Z:
        return b->id[s - SR_CLUSTER_CTAID_X] % k->cluster[s - SR_CLUSTER_CTAID_X];
    case SR_CLUSTER_NCTAID_X: case SR_CLUSTER_NCTAID_Y: case SR_CLUSTER_NCTAID_Z: return k->cluster[s - SR_CLUSTER_NCTAID_X];
    case SR_CLUSTER_CTARANK: return b->rank;
    case SR_CLUSTER_NCTARANK: return (uint64_t)b->cluster->blocks;
    case SR_IS_EXPLICIT_CLUSTER: return b->cluster->blocks > 1 || k->fn->required_cluster[0] != 0;
    case SR_TOTAL_SMEM_SIZE: return k->fn->shared_bytes + k->dynamic_shared;
    case SR_AGGR_SMEM_SIZE: return k->fn->shared_bytes + k->dynamic_shared + RESERVED_SHARED_BYTES;
    case SR_RESERVED_SMEM_BEGIN: case SR_RESERVED_SMEM_0: return b->reserved;
    case SR_RESERVED_SMEM_1: return b->reserved + RESERVED_SHARED_BYTES / 2;
    case SR_RESERVED_SMEM_END: return b->reserved + RESERVED_SHARED_BYTES;
    case SR_RESERVED_SMEM_CAP: return RESERVED_SHARED_BYTES;
    case SR_DYNAMIC_SMEM_SIZE: return k->dynamic_shared;
    case SR_ENVREG1: return k->workspace >> 32; /* cooperative_groups/details/driver_abi.h, get_grid_workspace() */
    case SR_ENVREG2: return (uint32_t)k->workspace;
    default: return 0;
    }
}

void special_fill(const Warp *w, const Operand *to, Special s, uint32_t mask) {
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1) lane_set(w, to, l, special_bits(w, s, l));
}

void exec_special(Warp *w, const Inst *i, uint32_t mask) { special_fill(w, &i->d, (Special)i->op, mask); }
