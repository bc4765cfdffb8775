/* One warp: paths, frames, and the instruction loop. */
#include "tools/ptxsim/exec/page.h"
#include "tools/ptxsim/exec/path.h"
#include "tools/ptxsim/exec/profile.h"
#include "tools/ptxsim/exec/race_sync.h"
#include "tools/ptxsim/exec/run.h"
#include "tools/ptxsim/ptx/parse.h"
#include <stdio.h>
#include <stdlib.h>

enum { STACK_BYTES = 64 << 10, MAX_FRAMES = 1024, ROUNDS = 128 };

/* ---- frames ------------------------------------------------------------------------------------------- */
static void fill_special(Warp *w, const Frame *f) {
    for (int k = 0; k < f->fn->special_count; k++) {
        const SpecialSlot *s = &f->fn->special[k];
        const Operand to = {.offset = s->slot, .base = BASE_REGS, .bytes = s->bytes};
        if (s->id != SR_LOCAL_ADDRESS) {
            special_fill(w, &to, s->id, UINT32_MAX);
            continue;
        }
        for (int l = 0; l < WARP; l++) lane_set(w, &to, l, f->local_base + s->offset);
    }
}

static void select_frame(Warp *w) {
    const Frame *f = &w->frame[w->frames - 1];
    w->base[BASE_REGS] = f->registers;
    w->base[BASE_POOL] = f->fn->pool;
}

static bool push_frame(Warp *w, const Function *fn, uint32_t mask, const CallSite *call) {
    if (w->frames == w->frame_capacity) {
        const int capacity = w->frame_capacity ? 2 * w->frame_capacity : 4;
        Frame *grown = realloc(w->frame, sizeof *grown * (size_t)capacity);
        if (!grown) return false;
        w->frame = grown;
        w->frame_capacity = capacity;
    }
    const Frame *below = w->frames ? &w->frame[w->frames - 1] : NULL;
    const uint32_t base = below ? (below->local_base + below->fn->local_bytes + 15) / 16 * 16 : 0;
    if (w->frames >= MAX_FRAMES || base + fn->local_bytes > w->local_stride) return false;
    const size_t bytes = (fn->register_bytes + 63u) / 64 * 64;
    uint8_t *registers = aligned_alloc(64, bytes ? bytes : 64);
    if (!registers) return false;
    memset(registers, 0, bytes);
    w->frame[w->frames++] =
        (Frame){.fn = fn, .registers = registers, .local_base = base, .first_path = w->paths, .call = call, .mask = mask};
    select_frame(w);
    fill_special(w, &w->frame[w->frames - 1]);
    return true;
}

static void set_threads(Warp *w) {
    const uint32_t *n = w->block->launch->block;
    const uint64_t threads = (uint64_t)n[0] * n[1] * n[2];
    for (uint32_t l = 0; l < WARP; l++) {
        const uint64_t t = (uint64_t)w->index * WARP + l;
        w->tid[0][l] = (uint32_t)(t % n[0]);
        w->tid[1][l] = (uint32_t)(t / n[0] % n[1]);
        w->tid[2][l] = (uint32_t)(t / n[0] / n[1]);
        if (t < threads) w->live |= UINT32_C(1) << l;
    }
}

bool warp_start(Warp *w, Block *b, int index) {
    const Function *fn = b->launch->fn;
    *w = (Warp){.block = b, .cluster = b->cluster, .index = index};
    w->agent = b->rank * (uint32_t)b->warps + (uint32_t)index;
    set_threads(w);
    w->local_stride = (fn->local_bytes + 15u) / 16 * 16 + (fn->calls ? STACK_BYTES : 0);
    if (w->local_stride) {
        w->local = calloc(WARP, w->local_stride);
        w->local_written = calloc(WARP, w->local_stride);
        if (!w->local || !w->local_written) return false;
    }
    w->pages = calloc(1, sizeof *w->pages);
    return w->pages && clock_start(w) && push_frame(w, fn, w->live, NULL) && push_path(w, 0, fn->count, w->live);
}

void warp_end(Warp *w) {
    for (int k = 0; k < w->frames; k++) free(w->frame[k].registers);
    free(w->frame);
    free(w->path);
    free(w->local);
    free(w->local_written);
    free(w->pages);
    fences_free(w);
    clock_end(w);
    *w = (Warp){.count = w->count};
}

/* ---- calls -------------------------------------------------------------------------------------------- */
static void copy_local(Warp *w, uint32_t mask, uint32_t to, uint32_t from, uint32_t bytes) {
    for (size_t l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        memmove(w->local + l * w->local_stride + to, w->local + l * w->local_stride + from, bytes);
        memmove(w->local_written + l * w->local_stride + to, w->local_written + l * w->local_stride + from, bytes);
    }
}

static void clear_local(Warp *w, uint32_t mask, uint32_t from, uint32_t bytes) {
    for (size_t l = 0; l < WARP; l++)
        if (mask >> l & 1) memset(w->local_written + l * w->local_stride + from, 0, bytes);
}

static void enter_call(Warp *w, const Inst *i, uint32_t mask) {
    const CallSite *c = i->call;
    const uint32_t caller = w->frame[w->frames - 1].local_base;
    if (c->callee->builtin) {
        c->callee->builtin->run(w, c, mask);
        return;
    }
    if (!push_frame(w, c->callee, mask, c)) {
        warp_report(w, REPORT_STACK, __builtin_ctz(mask), 0, 0, "calls nest too deep");
        w->cluster->stuck = true;
        return;
    }
    const uint32_t callee = w->frame[w->frames - 1].local_base;
    clear_local(w, mask, callee, c->callee->local_bytes);
    for (int k = 0; k < c->count; k++) copy_local(w, mask, callee + c->arg[k].to, caller + c->arg[k].from, c->arg[k].bytes);
    if (!push_path(w, 0, c->callee->count, mask)) cluster_no_memory(w->cluster);
}

/* All lanes of the frame are back (or gone). */
static void leave_frame(Warp *w) {
    const Frame f = w->frame[--w->frames];
    wgmma_frame_left(w, f.registers);
    free(f.registers);
    if (!w->frames) return;
    const uint32_t caller = w->frame[w->frames - 1].local_base;
    for (int k = 0; f.call && k < f.call->result_count; k++)
        copy_local(w, f.mask & w->live, caller + f.call->result[k].to, f.local_base + f.call->result[k].from,
                   f.call->result[k].bytes);
    select_frame(w);
}

/* Takes lanes out of the paths of the current frame, of all frames when they exit. */
static void retire(Warp *w, uint32_t mask, bool exited) {
    const int from = exited ? 0 : w->frame[w->frames - 1].first_path;
    for (int k = from; k < w->paths; k++) w->path[k].mask &= ~mask;
    if (exited) w->live &= ~mask;
}

/* Drops finished paths and frames from the top; false when the warp is done. */
static bool settle(Warp *w) {
    for (;;) {
        if (!w->frames) return false;
        const Frame *f = &w->frame[w->frames - 1];
        while (w->paths > f->first_path) {
            const Path *top = &w->path[w->paths - 1];
            if (top->mask && top->pc != top->join) return true;
            w->paths--;
        }
        leave_frame(w);
    }
}

/* ---- control flow ------------------------------------------------------------------------------------- */
static void branch(Warp *w, const Inst *i, uint32_t active, uint32_t mask) {
    Path *top = &w->path[w->paths - 1];
    if (mask == active) {
        const bool again = i->ordered && active != w->live;
        top->pc = i->target;
        if (again && ++w->rounds >= ROUNDS) take_turns(w);
    }
    else if (!mask) top->pc++;
    else diverge(w, i, i->target, mask, active & ~mask);
}

/* brx.idx: one lane group after another; an index outside the list is undefined and reported. */
static void branch_indexed(Warp *w, const Inst *i, uint32_t active, uint32_t mask) {
    Path *top = &w->path[w->paths - 1];
    if (!mask) {
        top->pc++;
        return;
    }
    const int first = __builtin_ctz(mask);
    const uint32_t *index = lane_in(w, &i->a);
    uint32_t same = 0;
    for (int l = first; l < WARP; l++)
        if ((mask >> l & 1) && index[l] == index[first]) same |= UINT32_C(1) << l;
    if (index[first] >= (uint64_t)i->offset) {
        warp_report(w, REPORT_TRAP, first, 0, 0, "branch index outside its list of targets");
        retire(w, same, true);
        return;
    }
    const int32_t target = i->targets[index[first]];
    if (same == active) {
        top->pc = target;
        return;
    }
    const int32_t here = top->pc, join = i->reconverge; /* the rest executes the branch again */
    top->pc = join;
    if (join == w->frame[w->frames - 1].fn->count) top->mask = 0;
    const bool ok = push_path(w, here, join, active & ~same) && (target == join || push_path(w, target, join, same));
    if (!ok) cluster_no_memory(w->cluster);
}

/* Lanes that wait for an mbarrier do not keep others of their warp from arriving there: the sibling path goes on, and
 * the wait is tried again after it. */
static void sibling_meanwhile(Warp *w) {
    Path *top = &w->path[w->paths - 1];
    top->pc--;
    Path *mine = try_sibling(w);
    if (!mine) {
        top->pc++;
        return;
    }
    mine->waiting = false;
    w->state = WARP_READY;
    poll_failed(w);
}

/* Barriers that are not .aligned may stand in several arms: siblings that wait at the same one go on with the top path.
 * Returns their lanes. */
static uint32_t pass_together(Warp *w, const Inst *i, uint32_t mask) {
    const Inst *code = w->frame[w->frames - 1].fn->code;
    const uint64_t id = lane_bits(w, &i->a, __builtin_ctz(mask));
    uint32_t lanes = 0;
    Path *p;
    for (int k = 0; i->op == SYNC_SYNC && (p = sibling(w, k)) != NULL; k++) {
        const Inst *there = &code[p->pc];
        if (!p->waiting || !p->mask || there->flow != FLOW_BARRIER || there->uniform || there->op != SYNC_SYNC ||
            there->guard.base != BASE_NONE || lane_bits(w, &there->a, __builtin_ctz(p->mask)) != id)
            continue;
        p->waiting = false;
        p->pc++;
        lanes |= p->mask;
    }
    return lanes;
}

/* False: it comes again, with lanes of its siblings or after them. */
static bool at_barrier(Warp *w, const Inst *i, uint32_t active, uint32_t mask) {
    Path *top = &w->path[w->paths - 1];
    if (!mask) {
        top->pc++;
        return true;
    }
    if (mask != w->live && (i->uniform || i->op != SYNC_ARRIVE)) { /* who only arrives waits for nobody */
        if (merge_siblings(w)) return false;
        if (mask == active && try_sibling(w)) return false;
    }
    if (!i->uniform) mask |= pass_together(w, i, mask);
    if (i->uniform && mask != w->live) {
        char note[120];
        snprintf(note, sizeof note, "lanes 0x%08x of the live 0x%08x reach the barrier", mask, w->live);
        warp_report(w, REPORT_DIVERGENT, __builtin_ctz(w->live & ~mask), 0, 0, note);
    }
    top->waiting = false;
    top->pc++;
    barrier_arrive(w, i, mask);
    return true;
}

static void leave(Warp *w, const Inst *i, uint32_t mask) {
    if (i->flow == FLOW_TRAP && mask) {
        warp_report(w, REPORT_TRAP, __builtin_ctz(mask), 0, 0, "trap");
        w->cluster->stuck = true;
    }
    const uint32_t before = w->live;
    const bool exits = i->flow != FLOW_RET || w->frames == 1;
    w->path[w->paths - 1].pc++;
    if (exits && w->path[w->paths - 1].ahead) w->passed |= mask;
    retire(w, mask, exits);
    if (w->live == before) return;
    barriers_settle(w->block);
    cluster_settle(w->cluster);
}

/* False: nothing has been executed yet. */
static bool control(Warp *w, const Inst *i, uint32_t active, uint32_t mask) {
    switch ((Flow)i->flow) {
    case FLOW_BRANCH: branch(w, i, active, mask); break;
    case FLOW_SWITCH: branch_indexed(w, i, active, mask); break;
    case FLOW_BARRIER: return at_barrier(w, i, active, mask);
    case FLOW_MEET: return meet(w, i, active, mask);
    case FLOW_CALL:
        w->path[w->paths - 1].pc++;
        if (mask) enter_call(w, i, mask);
        break;
    case FLOW_WAIT:
        w->path[w->paths - 1].pc++;
        if (mask) i->run(w, i, mask);
        if (w->state == WARP_WAITING && i->run == exec_mbarrier_wait) sibling_meanwhile(w);
        break;
    default: leave(w, i, mask); break;
    }
    return true;
}

static bool over_limit(Warp *w) {
    if (w->steps < w->block->launch->max_steps) return false;
    warp_report(w, REPORT_STEPS, w->live ? __builtin_ctz(w->live) : 0, 0, 0, "a warp exceeds PTXSIM_MAX_STEPS instructions");
    w->cluster->stuck = true;
    return true;
}

/* A call of the compiler's library where the host's baseline has no instruction for it; this is a few operations. */
static uint64_t lanes_in(uint32_t mask) {
    uint32_t n = mask - (mask >> 1 & 0x55555555);
    n = (n & 0x33333333) + (n >> 2 & 0x33333333);
    return ((n + (n >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

static int32_t number_of(const Warp *w, const Inst *i) {
    const Function *f = w->frame[w->frames - 1].fn;
    return f->number + (int32_t)(i - f->code);
}

static void count_off(Warp *w, const Inst *i, uint32_t off) {
    w->count.kind[i->kind] -= lanes_in(off);
    if (w->cluster->tally) tally_off(w->cluster->tally, number_of(w, i), (int64_t)lanes_in(off));
}

/* Runs `n` instructions without control flow.  Counters take every lane of the path for granted; what a guard switches
 * off is taken back here. */
static void run_straight(Warp *w, const Inst *i, int32_t n, uint32_t active) {
    for (const Inst *end = i + n; i != end; i++) {
        uint32_t mask = active;
        w->at = i;
        if (i->guard.base != BASE_NONE) {
            mask &= predicate_in(w, &i->guard);
            if (!i->hidden) count_off(w, i, active & ~mask);
            if (!mask) continue;
        }
        i->run(w, i, mask);
    }
}

static void count_run(Warp *w, const Inst *first, const Inst *end, uint32_t active) {
    const uint64_t lanes = lanes_in(active);
    for (int k = 0; k < CLASS_COUNT; k++) w->count.kind[k] += (uint64_t)(end->before_kind[k] - first->before_kind[k]) * lanes;
    w->steps += (uint64_t)(end->before - first->before);
    if (w->cluster->tally) tally_run(w->cluster->tally, number_of(w, first), number_of(w, end), (int64_t)lanes);
}

/* Of one instruction that comes again. */
static void take_back(Warp *w, const Inst *i, uint32_t active) {
    w->count.kind[i->kind] -= lanes_in(active);
    w->steps -= (uint64_t)(i[1].before - i->before);
    if (w->cluster->tally) tally_run(w->cluster->tally, number_of(w, i + 1), number_of(w, i), (int64_t)lanes_in(active));
}

/* Code of the top path until control flow, its join, or about `until` steps. */
static void run_path(Warp *w, uint64_t until) {
    Path *top = &w->path[w->paths - 1];
    const Inst *code = w->frame[w->frames - 1].fn->code;
    const int32_t pc = top->pc;
    const uint32_t active = top->mask;
    int32_t n = code[pc].straight;
    if (top->join > pc && top->join - pc < n) n = top->join - pc;
    if ((uint64_t)n > until - w->steps) n = (int32_t)(until - w->steps);
    w->clock_base = w->steps - (uint64_t)code[pc].before;
    const Inst *i = code + pc;
    if (n) {
        run_straight(w, i, n, active);
        count_run(w, i, i + n, active);
        top->pc = pc + n;
        return;
    }
    const uint32_t mask = i->guard.base == BASE_NONE ? active : active & predicate_in(w, &i->guard);
    w->at = i;
    count_run(w, i, i + 1, mask);
    if (!control(w, i, active, mask)) take_back(w, i, mask);
}

void warp_run(Warp *w, uint64_t slice) {
    const uint64_t until = w->steps + slice;
    w->state = WARP_READY;
    w->yields = false;
    while (settle(w)) {
        if (w->state != WARP_READY || w->yields || w->cluster->stuck || w->steps >= until) return;
        run_path(w, until);
        if (over_limit(w)) return;
    }
    w->state = WARP_DONE;
    w->block->done++;
    w->cluster->done++;
}
