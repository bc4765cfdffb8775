#include "tools/ptxsim/exec/path.h"
#include <stdlib.h>

bool push_path(Warp *w, int32_t pc, int32_t join, uint32_t mask) {
    if (w->paths == w->path_capacity) {
        const int capacity = w->path_capacity ? 2 * w->path_capacity : 16;
        Path *grown = realloc(w->path, sizeof *grown * (size_t)capacity);
        if (!grown) return false;
        w->path = grown;
        w->path_capacity = capacity;
    }
    w->path[w->paths++] = (Path){.pc = pc, .join = join, .mask = mask};
    return true;
}

/* What lies before a branch at which a converged warp parts is told from what lies behind it by its time. */
static void part_converged(Warp *w) {
    if (w->time < LAST_TIME / 2) w->clock.own[w->agent] = ++w->time; /* loops must not use up what barriers need */
    w->parted_at = w->time;
}

void diverge(Warp *w, const Inst *i, int32_t target, uint32_t taken, uint32_t rest) {
    Path *top = &w->path[w->paths - 1];
    const int32_t next = top->pc + 1, join = i->reconverge;
    const bool ahead = top->ahead;
    if (top->mask == w->live) part_converged(w);
    top->pc = join; /* the whole set goes on there; a path that starts at its own join is dropped by settle */
    const int32_t end = w->frame[w->frames - 1].fn->count;
    if (join == end) top->mask = 0;
    const int below = w->paths;
    const bool ok = (next == join || push_path(w, next, join, rest)) &&
                    (target == join || push_path(w, target, join, taken));
    for (int k = below; k < w->paths; k++) w->path[k].ahead = ahead;
    if (!ok) cluster_no_memory(w->cluster);
}

/* ---- siblings ------------------------------------------------------------------------------------------- */
static int frame_first(const Warp *w) { return w->frame[w->frames - 1].first_path; }

static bool are_siblings(const Path *a, const Path *b) {
    return a->join == b->join && b->pc != b->join && !(a->mask & b->mask);
}

Path *sibling(Warp *w, int k) {
    const int at = w->paths - 1, other = at - 1 - k;
    for (int j = at - 1; j >= other; j--)
        if (j < frame_first(w) || !are_siblings(&w->path[at], &w->path[j])) return NULL;
    return &w->path[other];
}

static void exchange(Path *a, Path *b) {
    const Path kept = *a;
    *a = *b;
    *b = kept;
}

static void remove_path(Warp *w, Path *p) {
    memmove(p, p + 1, sizeof *p * (size_t)(&w->path[w->paths] - (p + 1)));
    w->paths--;
}

/* Where others wait for lanes at the loop's end, that meeting is given up: they meet at a barrier (merge_siblings), or
 * where the enclosing paths join. */
void take_turns(Warp *w) {
    const int first = frame_first(w);
    w->rounds = 0;
    while (w->paths - 1 > first) {
        Path *top = &w->path[w->paths - 1], *below = top - 1;
        if (are_siblings(top, below) && below->mask && !below->waiting) {
            exchange(top, below);
            return;
        }
        if (below->pc != top->join) return;
        const uint32_t others = below->mask & ~top->mask;
        top->join = below->join;
        if (others) {
            below->mask = others;
            exchange(top, below);
            return;
        }
        *below = *top; /* the same lanes go on there: one path */
        w->paths--;
    }
}

Path *try_sibling(Warp *w) {
    Path *top = &w->path[w->paths - 1], *other;
    for (int k = 0; (other = sibling(w, k)) != NULL; k++) {
        if (other->waiting || !other->mask) continue;
        top->waiting = true;
        exchange(top, other);
        return other;
    }
    return NULL;
}

bool give_up_join(Warp *w) {
    int many = 1;
    uint32_t lanes = w->path[w->paths - 1].mask;
    for (const Path *p; (p = sibling(w, many - 1)) != NULL; many++) lanes |= p->mask;
    const int at = w->paths - many - 1;
    Path *below = &w->path[at];
    if (at < frame_first(w) || below->pc != below[1].join) return false;
    for (int k = 1; k <= many; k++) below[k].join = below->join;
    below->mask &= ~lanes;
    below->ahead = true;
    if (!below->mask || below->pc == below->join) remove_path(w, below);
    return true;
}

bool merge_siblings(Warp *w) {
    bool merged = false;
    Path *other;
    for (int k = 0; (other = sibling(w, k)) != NULL;) {
        Path *top = &w->path[w->paths - 1];
        if (!other->waiting || other->pc != top->pc) {
            k++;
            continue;
        }
        top->mask |= other->mask;
        top->ahead = top->ahead && other->ahead;
        remove_path(w, other);
        merged = true;
    }
    return merged;
}

/* From here on code leads there and nowhere else. */
static bool leads_to(const Function *f, int32_t from, int32_t to) {
    if (from > to) return false;
    for (; from < to; from++) {
        const int flow = f->code[from].flow;
        if (flow != FLOW_NEXT && flow != FLOW_MEET && flow != FLOW_WAIT && flow != FLOW_BARRIER) return false;
    }
    return true;
}

/* The top path and a sibling, one of which comes to where the other is. */
static void line_up_with(Warp *w, Path *other, bool behind) {
    const Path *top = &w->path[w->paths - 1];
    const Path back = behind ? *top : *other, front = behind ? *other : *top;
    remove_path(w, other);
    w->path[w->paths - 1] = front;
    w->path[w->paths - 1].mask |= back.mask;
    w->path[w->paths - 1].ahead = front.ahead && back.ahead;
    if (back.pc == front.pc) return;
    if (!push_path(w, back.pc, front.pc, back.mask)) cluster_no_memory(w->cluster);
    w->path[w->paths - 1].ahead = back.ahead;
}

void line_up(Warp *w) {
    const Function *f = w->frame[w->frames - 1].fn;
    Path *other;
    for (int k = 0; (other = sibling(w, k)) != NULL; k++) {
        const int32_t here = w->path[w->paths - 1].pc;
        const bool behind = leads_to(f, here, other->pc);
        if (other->waiting || !other->mask || (!behind && !leads_to(f, other->pc, here))) continue;
        line_up_with(w, other, behind);
        k = -1;
    }
}
