/* The whole pipeline: one graph per entry in, one module out. */
#include "passes/memory/memory.h"
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A violation found by a verifier is a bug in the pass before it, reported as an error that names it. */
static void check(PassContext *c, PassId id, const char *violation) {
    if (!violation) return;
    const char *message = arena_printf(c->arena, "internal error after pass %s: %s", pass_info[id].name, violation);
    c->report(c->user, COMPLAINT_ERROR, (SrcLoc){0}, message, "please report this program; -fno-PASS may avoid it");
    c->failed = true;
}

static void heading(const PassContext *c, PassId id, Entry e) {
    fprintf(c->print_to, "# after %s, entry %s\n", pass_info[id].name, entry_name[e]);
}

/* An ill-formed program is an internal error, never code: the graph is verified before it is planned, which with
 * kernels and plan costs a tenth of the time to compile; after every pass that changes it, more than a third (bench
 * trust). */
static bool verifies(const PassContext *c, PassId id, bool changed) {
    if (c->no_verify || c->failed) return false;
    return c->verify ? changed : id == PASS_exponents || (changed && (id == PASS_split || id == PASS_rematerialize || id == PASS_checkpoint));
}

static Graph *after_graph(PassContext *c, PassId id, double start, Graph *g, bool changed) {
    c->seconds[id] += now() - start;
    if (!c->failed) check(c, id, c->violation);
    if (verifies(c, id, changed)) check(c, id, graph_verify(c->arena, g));
    if (c->passed && changed && !c->failed) c->passed(c->watcher, id, g);
    if (c->failed || !c->print_after[id]) return g;
    heading(c, id, g->entry);
    graph_print(c->print_to, g);
    return g;
}

static bool is_left_out(const PassContext *c, PassId id) {
    return pass_info[id].can_disable && (c->disabled[id] || c->disabled[pass_info[id].along]);
}

/* Each graph has an arena of its own, `*nodes`, and goes when the next one is made; a pass that edits in place, or has nothing
 * to do, returns the graph that it was given. */
static Graph *run(PassContext *c, PassId id, Graph *pass(PassContext *, Graph *), Graph *g, Arena **nodes) {
    if (c->failed || is_left_out(c, id)) return g;
    Arena *const whole = c->arena;
    double start = now();
    c->arena = arena_new();
    g->edited = false;
    Graph *made = pass(c, g);
    const bool changed = made != g || g->edited;
    arena_free(made == g ? c->arena : *nodes);
    if (made != g) *nodes = c->arena;
    c->arena = whole;
    return after_graph(c, id, start, made, changed);
}

static const char *verify_kernels(PassContext *c, const Plan *p) {
    for (int k = 0; k < p->kernels.n; k++) {
        const char *why = kernel_verify(c->arena, p->kernels.at[k].tile);
        if (why) return arena_printf(c->arena, "kernel %s: %s", p->kernels.at[k].tile->name, why);
    }
    return NULL;
}

static void after_plan(PassContext *c, PassId id, double start, const Plan *p) {
    c->seconds[id] += now() - start;
    if (!c->failed && !c->no_verify && id == PASS_tile) check(c, id, verify_kernels(c, p));
    if (!c->failed && !c->no_verify && id == PASS_place) check(c, id, plan_verify(c->arena, p));
    if (c->failed || !c->print_after[id]) return;
    heading(c, id, p->graph->entry);
    if (id == PASS_tile)
        for (int k = 0; k < p->kernels.n; k++) kernel_print(c->print_to, p->kernels.at[k].tile);
    else
        plan_print(c->print_to, p);
}

/* Plan passes see `disabled` themselves: each has work that cannot be left out. */
static void run_plan(PassContext *c, PassId id, void pass(PassContext *, Plan *), Plan *p) {
    if (c->failed) return;
    double start = now();
    pass(c, p);
    after_plan(c, id, start, p);
}

static Plan *partition(PassContext *c, PassId id, Plan *pass(PassContext *, Graph *), Graph *g) {
    if (c->failed) return NULL;
    double start = now();
    Plan *p = pass(c, g);
    if (!c->failed) plan_settle(c, p);
    after_plan(c, id, start, p);
    return p;
}

/* Bytes that the forward kernels leave to the backward ones. */
static int64_t kept_bytes(PassContext *c, const Plan *p) {
    bool *counted = ARENA_ARRAY(c->arena, bool, p->graph->nodes.n + 1);
    int64_t bytes = 0;
    for (int i = 0; i < p->kernels.n; i++) {
        const PlanKernel *k = &p->kernels.at[i];
        for (int r = 0; r < k->reads.n && k->phase != PHASE_FORWARD; r++) {
            const Node *x = k->reads.at[r];
            if (counted[x->id] || p->buffer[x->id].home != HOME_ARENA || x->phase != PHASE_FORWARD) continue;
            counted[x->id] = true;
            bytes += node_bytes(x);
        }
    }
    return bytes;
}

/* Edits the graph under the fused regions, and fuses again if that changed it. */
static Plan *revise(PassContext *c, PassId id, Graph *pass(PassContext *, Plan *), Plan *p) {
    if (c->failed || is_left_out(c, id)) return p;
    double start = now();
    Graph *g = pass(c, p);
    g = after_graph(c, id, start, g, g != p->graph);
    return g == p->graph ? p : partition(c, PASS_fuse, pass_fuse, g);
}

/* The first plan stays where the second keeps no less. */
static Plan *keep_less(PassContext *c, PassId id, Graph *pass(PassContext *, Plan *), Plan *p) {
    Plan *q = revise(c, id, pass, p);
    return c->failed || (q != p && kept_bytes(c, q) >= kept_bytes(c, p)) ? p : q;
}

/* ---- within a budget of memory ------------------------------------------------------------------------------------ */
static int64_t memory_of(const Plan *p, const Module *m) {
    int64_t bytes = m->param_bytes + m->state_bytes + p->arena_bytes;
    for (int i = 0; i < p->graph->nodes.n; i++)
        if (p->buffer[i].home == HOME_GRAD) bytes += align_up(p->buffer[i].bytes, m->align);
    return bytes;
}

/* What is tried in turn; each takes more time than the one before. */
typedef enum { KEEP_ALL, RECOMPUTE_SOME, RECOMPUTE_MORE, RECOMPUTE_LAST, SEGMENTS, SEGMENTS_TOO, TRIES } Try;

/* One plan of an entry after another, until one keeps to the budget. */
typedef struct Budget {
    Try at;
    int64_t least;      /* memory that a plan took */
    int64_t room, over; /* bytes for the arena; of the last plan, too many */
    bool fits;
} Budget;

static void emit(PassContext *c, PassId id, void pass(PassContext *, Plan *, Module *), Plan *p, Module *m, Budget *b) {
    if (c->failed) return;
    const int64_t takes = memory_of(p, m);
    if (b->at == KEEP_ALL || takes < b->least) b->least = takes;
    b->room = c->memory_budget - (takes - p->arena_bytes);
    b->over = takes - c->memory_budget;
    b->fits = !c->memory_budget || b->over <= 0;
    if (!b->fits) return;
    if (c->planned) c->planned(c->watcher, p);
    double start = now();
    pass(c, p, m);
    m->entry[p->graph->entry].recomputed = c->recomputed;
    m->entry[p->graph->entry].in_segments = b->at >= SEGMENTS;
    after_plan(c, id, start, p);
}

static void compile_entry(PassContext *c, Graph *g, Module *m, Arena **nodes, Budget *b) {
    Plan *p = NULL;
#define GRAPH_PASS(name, ...) GRAPH_AGAIN(name)
#define GRAPH_AGAIN(name) g = run(c, PASS_##name, pass_##name, g, nodes);
#define PARTITION(name, ...) p = partition(c, PASS_##name, pass_##name, g);
#define REVISE(name, ...) p = revise(c, PASS_##name, pass_##name, p);
#define KEEP_LESS(name, ...) p = keep_less(c, PASS_##name, pass_##name, p);
#define PLAN_PASS(name, ...) run_plan(c, PASS_##name, pass_##name, p);
#define EMIT(name, ...) emit(c, PASS_##name, pass_##name, p, m, b);
#include "passes/passes.def"
}

/* Graphs and plan of an entry are large and go with it; its kernels stay. */
static void compile_entry_aside(PassContext *c, const Graph *lowered, Module *m, Budget *b, bool consumes) {
    Arena *const kept = c->kept, *const whole = c->arena;
    Arena *nodes = consumes ? lowered->arena : arena_new();
    Graph g = consumes ? *lowered : *graph_duplicate(nodes, lowered);
    c->kept = m->arena;
    c->arena = arena_new();
    compile_entry(c, &g, m, &nodes, b);
    arena_free(nodes);
    arena_free(c->arena);
    c->kept = kept;
    c->arena = whole;
}

static void complain_of_budget(PassContext *c, const Graph *g, const Budget *b) {
    const char *message = arena_printf(c->arena, "entry %s takes %lld bytes at least, more than the memory budget of %lld", entry_name[g->entry],
                                       (long long)b->least, (long long)c->memory_budget);
    c->report(c->user, COMPLAINT_BUDGET, (SrcLoc){0}, message, "give --memory-budget more, or the model a smaller batch, shorter sequences or fewer parameters");
    c->failed = true;
}

/* What pass_recompute is given: the arena takes a little more than what is live at once. */
static int64_t room_for_values(const Budget *b, int64_t before) {
    enum { MARGIN = 128 };
    switch (b->at) {
    case KEEP_ALL:
    case SEGMENTS: return 0;
    case RECOMPUTE_MORE: return before - b->over - before / MARGIN;
    case RECOMPUTE_LAST: return before / 2;
    default: return b->room;
    }
}

/* Values are kept as long as memory allows; then some are computed again, then segments of the forward pass. */
static void compile_within_budget(PassContext *c, const Graph *lowered, Module *m) {
    const CheckpointMode asked = c->checkpoint;
    Budget b = {0};
    for (; b.at < TRIES && !b.fits && !c->failed; b.at++) {
        c->live_most = room_for_values(&b, c->live_most);
        c->tried_again = b.at != KEEP_ALL;
        c->recomputed = 0;
        if (b.at >= SEGMENTS) c->checkpoint = CHECKPOINT_SQRT;
        if (c->live_most >= 0 && (b.at == KEEP_ALL || b.room > 0)) compile_entry_aside(c, lowered, m, &b, c->consumes && !c->memory_budget);
    }
    c->checkpoint = asked;
    c->live_most = 0;
    if (!b.fits && !c->failed) complain_of_budget(c, lowered, &b);
    if (c->consumes && c->memory_budget) arena_free(lowered->arena);
}

Module *compile_module(PassContext *c, Graph *graphs[ENTRY_COUNT]) {
    Module *m = NULL;
    if (!c->print_to) c->print_to = stdout;
    for (Entry e = 0; e < ENTRY_COUNT && !c->failed; e++) {
        if (!graphs[e]) continue;
        if (!m) m = module_new(c, graphs[e]->model);
        compile_within_budget(c, graphs[e], m);
        if (c->consumes) graphs[e] = NULL;
    }
    return c->failed ? NULL : m;
}
