#include "tests/support/random_program.h"
#include <stdlib.h>
#include <string.h>

static void refused(void *user, Complaint what, SrcLoc loc, const char *message, const char *help) {
    (void)user, (void)loc, (void)help;
    if (what == COMPLAINT_WARNING || !strstr(message, "internal error")) return;
    fprintf(stderr, "%s\n", message);
    abort(); /* cmocka reports it as the test's failure */
}

RandomProgram random_program(Arena *a, uint64_t seed, const char *target) {
    static const Entry entries[] = {ENTRY_INFER, ENTRY_GRAD, ENTRY_STEP};
    TestRandom r = {seed * 0x9E3779B97F4A7C15u + 1};
    for (int i = 0; i < 8; i++) test_random(&r); /* neighbouring seeds apart */
    const RandomOptions o = {
        .ops = 4 + test_below(&r, 22), .bounded = test_below(&r, 3) == 0, .empty = test_below(&r, 5) == 0};
    const bool tiny = test_below(&r, 3) == 0;
    const int max_tile = 64 << test_below(&r, 5);
    PassContext c = test_context(a, target);
    c.checkpoint = test_below(&r, 4) == 0 ? CHECKPOINT_SQRT : CHECKPOINT_NONE;
    c.report = refused;
    Target small = *c.target;
    small.max_tile = small.device->is_gpu ? 512 : max_tile;
    if (tiny) c.target = &small;
    RandomProgram p = {.entry = entries[seed % 3]};
    Graph *graphs[ENTRY_COUNT] = {NULL};
    p.graph = random_graph(a, p.entry, seed, o);
    Graph *g = graphs[p.entry] = random_graph(a, p.entry, seed, o);
    g->model->name = arena_printf(a, "p%llu", (unsigned long long)seed);
    p.module = compile_module(&c, graphs);
    return p;
}
