/* Immediate post-dominators of branches (Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm", on the reversed
 * graph).  Nodes are basic blocks; one virtual exit follows every ret and exit.  A trap counts as
 * if it went on: it ends everything, and must not keep the lanes that pass it by from joining. */
#include "tools/ptxsim/ptx/handlers.h"
#include "tools/ptxsim/ptx/parse.h"
#include <string.h>

typedef struct Graph {
    int32_t blocks;      /* without the exit, which is number `blocks` */
    int32_t *first;      /* block -> its first instruction; first[blocks] = count */
    int32_t *of;         /* instruction -> block */
    int32_t *successor;  /* edges by block: start[b] .. start[b + 1] */
    int32_t *start;
    int32_t *order;      /* block -> post-order number on the reversed graph, -1 unreachable from the exit */
    int32_t *by_order;
    int32_t *ipdom;
} Graph;

static bool ends_block(const Inst *i) {
    return i->flow != FLOW_NEXT && i->flow != FLOW_CALL && i->flow != FLOW_BARRIER && i->flow != FLOW_WAIT &&
           i->flow != FLOW_MEET;
}

static int edge_count(const Inst *i) {
    if (i->flow == FLOW_SWITCH) return (int)i->offset + 1;
    return 2;
}

static void find_blocks(SimArena *a, const Function *f, Graph *g) {
    uint8_t *leader = sim_alloc(a, (size_t)f->count + 1);
    leader[0] = 1;
    for (int32_t k = 0; k < f->count; k++) {
        const Inst *i = &f->code[k];
        if (i->flow == FLOW_BRANCH) leader[i->target] = 1;
        if (i->flow == FLOW_SWITCH)
            for (int64_t t = 0; t < i->offset; t++) leader[i->targets[t]] = 1;
        if (ends_block(i)) leader[k + 1] = 1;
    }
    g->of = sim_alloc(a, sizeof *g->of * (size_t)f->count);
    g->first = sim_alloc(a, sizeof *g->first * ((size_t)f->count + 1));
    for (int32_t k = 0; k < f->count; k++) {
        if (leader[k]) g->first[g->blocks++] = k;
        g->of[k] = g->blocks - 1;
    }
    g->first[g->blocks] = f->count;
}

/* Successors of the block that ends with `i` at index k; the count written. */
static int block_edges(const Graph *g, const Function *f, int32_t k, int32_t *out) {
    const Inst *i = &f->code[k];
    int n = 0;
    const bool guarded = i->guard.base != BASE_NONE;
    if (i->flow == FLOW_BRANCH) out[n++] = g->of[i->target];
    if (i->flow == FLOW_SWITCH)
        for (int64_t t = 0; t < i->offset; t++) out[n++] = g->of[i->targets[t]];
    if (i->flow == FLOW_RET || i->flow == FLOW_EXIT) out[n++] = g->blocks;
    if (!ends_block(i) || guarded || i->flow == FLOW_TRAP) out[n++] = k + 1 < f->count ? g->of[k + 1] : g->blocks;
    return n;
}

static void find_edges(SimArena *a, const Function *f, Graph *g) {
    size_t most = 0;
    for (int32_t b = 0; b < g->blocks; b++) most += (size_t)edge_count(&f->code[g->first[b + 1] - 1]);
    g->successor = sim_alloc(a, sizeof *g->successor * most);
    g->start = sim_alloc(a, sizeof *g->start * ((size_t)g->blocks + 1));
    int32_t n = 0;
    for (int32_t b = 0; b < g->blocks; b++) {
        g->start[b] = n;
        n += block_edges(g, f, g->first[b + 1] - 1, g->successor + n);
    }
    g->start[g->blocks] = n;
}

typedef struct Reverse { int32_t *start, *from; } Reverse;

static Reverse reverse_edges(SimArena *a, const Graph *g) {
    const int32_t edges = g->start[g->blocks];
    Reverse r = {.start = sim_alloc(a, sizeof *r.start * ((size_t)g->blocks + 2)),
                 .from = sim_alloc(a, sizeof *r.from * ((size_t)edges + 1))};
    for (int32_t e = 0; e < edges; e++) r.start[g->successor[e] + 1]++;
    for (int32_t b = 0; b <= g->blocks; b++) r.start[b + 1] += r.start[b];
    int32_t *fill = sim_alloc(a, sizeof *fill * ((size_t)g->blocks + 1));
    for (int32_t b = 0; b < g->blocks; b++)
        for (int32_t e = g->start[b]; e < g->start[b + 1]; e++) {
            const int32_t to = g->successor[e];
            r.from[r.start[to] + fill[to]++] = b;
        }
    return r;
}

/* Depth first from the exit against the edges; loops that never end are not reached. */
static void number(SimArena *a, Graph *g) {
    const Reverse r = reverse_edges(a, g);
    int32_t *stack = sim_alloc(a, sizeof *stack * ((size_t)g->blocks + 1));
    int32_t *next = sim_alloc(a, sizeof *next * ((size_t)g->blocks + 1));
    uint8_t *seen = sim_alloc(a, (size_t)g->blocks + 1);
    g->order = sim_alloc(a, sizeof *g->order * ((size_t)g->blocks + 1));
    g->by_order = sim_alloc(a, sizeof *g->by_order * ((size_t)g->blocks + 1));
    for (int32_t b = 0; b <= g->blocks; b++) g->order[b] = -1;
    int32_t depth = 0, count = 0;
    stack[depth++] = g->blocks;
    seen[g->blocks] = 1;
    while (depth) {
        const int32_t b = stack[depth - 1];
        if (r.start[b] + next[b] < r.start[b + 1]) {
            const int32_t from = r.from[r.start[b] + next[b]++];
            if (!seen[from]) {
                seen[from] = 1;
                stack[depth++] = from;
            }
        } else {
            g->order[b] = count;
            g->by_order[count++] = b;
            depth--;
        }
    }
    for (; count <= g->blocks; count++) g->by_order[count] = -1;
}

static int32_t intersect(const Graph *g, int32_t a, int32_t b) {
    while (a != b) {
        while (g->order[a] < g->order[b]) a = g->ipdom[a];
        while (g->order[b] < g->order[a]) b = g->ipdom[b];
    }
    return a;
}

static bool improve(Graph *g, int32_t b) {
    int32_t best = -1;
    for (int32_t e = g->start[b]; e < g->start[b + 1]; e++) {
        const int32_t s = g->successor[e];
        if (g->order[s] < 0 || g->ipdom[s] < 0) continue;
        best = best < 0 ? s : intersect(g, best, s);
    }
    if (best == g->ipdom[b]) return false;
    g->ipdom[b] = best;
    return true;
}

static void post_dominators(SimArena *a, Graph *g) {
    number(a, g);
    g->ipdom = sim_alloc(a, sizeof *g->ipdom * ((size_t)g->blocks + 1));
    for (int32_t b = 0; b < g->blocks; b++) g->ipdom[b] = -1;
    g->ipdom[g->blocks] = g->blocks;
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t n = g->blocks; n >= 0; n--)
            if (g->by_order[n] >= 0 && g->by_order[n] != g->blocks) changed |= improve(g, g->by_order[n]);
    }
}

/* Runs of instructions without control flow, and the counted instructions before each: the run loop looks at neither
 * for every single instruction. */
static void measure_runs(Parser *p, Function *f) {
    f->code = sim_grow(&p->module->arena, f->code, (size_t)f->count, &p->code_capacity, sizeof *f->code);
    int32_t counted = 0, kind[CLASS_COUNT] = {0};
    for (int32_t k = 0; k <= f->count; k++) {
        f->code[k].before = counted;
        memcpy(f->code[k].before_kind, kind, sizeof kind);
        if (k == f->count || f->code[k].hidden) continue;
        counted++;
        kind[f->code[k].kind]++;
    }
    f->code[f->count].straight = 0;
    for (int32_t k = f->count - 1; k >= 0; k--)
        f->code[k].straight = f->code[k].flow == FLOW_NEXT ? f->code[k + 1].straight + 1 : 0;
}

/* Loops that may wait for other lanes: a branch back over an ordered access (volatile, acquire, atomic). */
static void note_waiting_loops(Function *f) {
    int32_t last = -1; /* the nearest ordered access before */
    for (int32_t k = 0; k < f->count; k++) {
        Inst *i = &f->code[k];
        if (i->flow == FLOW_BRANCH) i->ordered = i->target <= last;
        else if (i->ordered) last = k;
    }
}

void cfg_finish(Parser *p, Function *f) {
    SimArena scratch_arena = {0};
    Graph g = {0};
    measure_runs(p, f);
    f->number = p->module->instructions;
    p->module->instructions += f->count + 1;
    find_blocks(&scratch_arena, f, &g);
    find_edges(&scratch_arena, f, &g);
    post_dominators(&scratch_arena, &g);
    for (int32_t b = 0; b < g.blocks; b++) {
        Inst *last = &f->code[g.first[b + 1] - 1];
        const int32_t join = g.ipdom[b];
        last->reconverge = join < 0 ? f->count : g.first[join];
    }
    sim_arena_free(&scratch_arena);
    note_waiting_loops(f);
}
