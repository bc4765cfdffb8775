/* schedule, place and plan_verify on plans written by hand and on random ones; goldens of plan texts. */
#include "tests/support/plan_text.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static uint32_t next_random(uint32_t *s) { return *s = *s * 1664525u + 1013904223u, *s >> 8; }

/* With layout's work for the copies. */
static void settle(PassContext *c, Plan *p) {
    plan_settle(c, p);
    for (int i = 0; i < p->graph->nodes.n; i++)
        if (!p->buffer[i].bytes) p->buffer[i].bytes = shape_elements(*p->graph->nodes.at[i]->shape);
}

static Plan *finish(PassContext *c, Plan *p) {
    settle(c, p);
    pass_schedule(c, p);
    pass_place(c, p);
    const char *why = plan_verify(c->arena, p);
    if (why) plan_print(stderr, p);
    if (why) fail_msg("%s", why);
    assert_true(p->arena_bytes >= p->lower_bound);
    return p;
}

static Plan *plan_of(PassContext *c, const char *text) {
    Plan *p = plan_read(c->arena, text);
    assert_non_null(p);
    return finish(c, p);
}

static int position_of(const Plan *p, int kernel) {
    for (int i = 0; i < p->kernels.n; i++)
        if (p->order[i] == kernel) return i;
    return -1;
}

/* ---- properties ------------------------------------------------------------------------------------ */
static void gradients_are_consumed_as_they_appear(void **state) {
    (void)state;
    PassContext c = plan_context(arena_new(), "host");
    Plan *p = plan_of(&c, "forward i0 -> 256\n"
                          "backward 0 -> 1024\nbackward 0 -> 1024\nbackward 0 -> 1024\n"
                          "update 1 p0 -> 64@p0\nupdate 2 p1 -> 64@p1\nupdate 3 p2 -> 64@p2\n");
    assert_int_equal(p->arena_bytes, 256 + 1024);
    arena_free(c.arena);
}

static void old_values_are_read_before_they_go(void **state) {
    (void)state;
    PassContext c = plan_context(arena_new(), "host");
    Plan *p = plan_of(&c, "update p0 -> 64@p0\nforward p0 -> 300\nbackward 1 p0 -> 300@out0\n");
    assert_true(position_of(p, 0) > position_of(p, 2));
    assert_int_equal(p->kernels.n, 3);
    arena_free(c.arena);
}

/* a <- f(b), b <- g(a): one goes through the arena. */
static void updates_that_wait_for_each_other(void **state) {
    (void)state;
    PassContext c = plan_context(arena_new(), "host");
    Plan *p = plan_of(&c, "update s1 -> 64@s0\nupdate s0 -> 64@s1\n");
    assert_int_equal(p->kernels.n, 3);
    p = plan_of(&c,
                "update s1 -> 64@s0\nupdate s2 -> 64@s1\nupdate s3 -> 64@s2\nupdate s0 -> 64@s3\nupdate s0 -> 64@s4\n");
    assert_int_equal(p->kernels.n, 6);
    arena_free(c.arena);
}

/* Recomputation 1 depends on sources only: a greedy order would run it first. */
static void recomputations_are_not_hoisted(void **state) {
    (void)state;
    PassContext c = plan_context(arena_new(), "host");
    Plan *p = plan_of(&c, "forward i0 -> 4096\nforward 0 -> 256\n"
                          "remat2 i0 -> 256\nbackward 1 2 -> 256\nbackward 2 -> 1@g0\n"
                          "remat1 i0 -> 256\nbackward 3 5 -> 64@out0\n");
    assert_true(position_of(p, 5) > position_of(p, 3));
    assert_true(position_of(p, 5) > position_of(p, 4));
    arena_free(c.arena);
}

static void order_beats_the_given_one(void **state) {
    (void)state;
    PassContext c = plan_context(arena_new(), "host");
    char text[4096] = "";
    for (int i = 0; i < 10; i++) strcat(text, "forward i0 -> 10240\n");
    for (int i = 0; i < 10; i++) sprintf(text + strlen(text), "forward %d -> 256\n", i);
    strcat(text, "forward 10 11 12 13 14 15 16 17 18 19 -> 4@out0\n");
    Plan *p = plan_of(&c, text);
    assert_true(p->arena_bytes <= 10240 + 10 * 256);
    c.disabled[PASS_schedule] = true;
    assert_true(plan_of(&c, text)->arena_bytes >= 10 * 10240);
    arena_free(c.arena);
}

/* ---- random plans -------------------------------------------------------------------------------------- */
static char *random_plan(int kernels, uint32_t *seed, int reach) {
    char *text = malloc((size_t)kernels * 96 + 1), *at = text;
    int values = 0, states = (int)(next_random(seed) % 6), done = 0;
    for (int k = 0; k < kernels; k++) {
        at += sprintf(at, "%s", k * 3 < kernels ? "forward" : k * 3 < kernels * 2 ? "backward" : "update");
        for (int i = next_random(seed) % 4; i >= 0; i--) {
            int back = (int)(next_random(seed) % (uint32_t)reach) + 1;
            if (values >= back && next_random(seed) % 8)
                at += sprintf(at, " %d", values - back);
            else
                at += sprintf(at, " %c%d", "psi"[next_random(seed) % 3], (int)(next_random(seed) % 6));
        }
        if (!(next_random(seed) % 6)) at += sprintf(at, " workspace %d", (int)(next_random(seed) % 3000));
        if (done < states && !(next_random(seed) % 4))
            at += sprintf(at, " -> 64@s%d\n", done++), values++;
        else {
            at += sprintf(at, " -> %d", (int)(next_random(seed) % 9000));
            values++;
            if (!(next_random(seed) % 4)) at += sprintf(at, ", %d", (int)(next_random(seed) % 900)), values++;
            *at++ = '\n';
        }
    }
    *at = 0;
    return text;
}

/* Bytes may be used again only after everyone who used them before, by the edges alone. */
static void check_deps(Arena *a, const Plan *p) {
    PlanDeps d = plan_deps(a, p);
    int n = p->kernels.n;
    bool *before = arena_alloc(a, (size_t)n * (size_t)n); /* before[i * n + j]: j is done when i starts */
    for (int i = 0; i < n; i++)
        for (int e = d.first[i]; e < d.first[i + 1]; e++) {
            assert_true(d.after[e] < i);
            before[i * n + d.after[e]] = true;
            for (int j = 0; j < n; j++) before[i * n + j] |= before[d.after[e] * n + j];
        }
    Liveness l = plan_liveness(a, p);
    for (int x = 0; x < l.n; x++)
        for (int y = 0; y < l.n; y++) {
            int64_t at[2], end[2];
            for (int s = 0; s < 2; s++) {
                const LiveBlock *b = &l.block[s ? y : x];
                at[s] = b->node ? p->buffer[b->node->id].offset : p->kernels.at[b->kernel].workspace_offset;
                end[s] = at[s] + b->bytes;
            }
            if (l.block[x].upper > l.block[y].lower || at[0] >= end[1] || at[1] >= end[0]) continue;
            assert_true(before[l.block[y].lower * n + l.block[x].lower]);
            assert_true(before[l.block[y].lower * n + l.block[x].upper - 1]);
        }
}

static void random_plans(void **state) {
    (void)state;
    uint32_t seed = 11;
    for (int round = 0; round < 300; round++) {
        PassContext c = plan_context(arena_new(), round % 2 ? "host" : "c99");
        char *text = random_plan(1 + (int)(next_random(&seed) % 60), &seed, 1 + (int)(next_random(&seed) % 20));
        Plan *p = plan_of(&c, text);
        check_deps(c.arena, p);
        c.disabled[PASS_schedule] = true;
        plan_of(&c, text);
        free(text);
        arena_free(c.arena);
    }
}

static void thirty_thousand_kernels(void **state) {
    (void)state;
    uint32_t seed = 5;
    PassContext c = plan_context(arena_new(), "host");
    char *text = random_plan(30000, &seed, 200);
    Plan *p = plan_read(c.arena, text);
    clock_t t[5] = {clock()};
    settle(&c, p);
    t[1] = clock();
    pass_schedule(&c, p);
    t[2] = clock();
    pass_place(&c, p);
    t[3] = clock();
    plan_deps(c.arena, p);
    t[4] = clock();
    for (int i = 0; i < 4; i++)
        print_message("%s %.3f s\n", ((const char *[]){"settle", "schedule", "place", "deps"})[i],
                      (double)(t[i + 1] - t[i]) / CLOCKS_PER_SEC);
    assert_null(plan_verify(c.arena, p));
    free(text);
    arena_free(c.arena);
}

/* ---- plan_verify finds what is wrong ---------------------------------------------------------------------- */
static void expect(const PassContext *c, const Plan *p, const char *part) {
    const char *why = plan_verify(c->arena, p);
    assert_non_null(why);
    if (!strstr(why, part)) fail_msg("expected \"%s\", got \"%s\"", part, why);
}

static void verifier_finds_violations(void **state) {
    (void)state;
    PassContext c = plan_context(arena_new(), "host");
    const char *text = "forward p0 -> 1000\nforward 0 -> 500\nupdate 1 p0 -> 64@p0\n";
    Plan *p = plan_of(&c, text);
    p->buffer[p->kernels.at[1].outputs.at[0]->id].offset = p->buffer[p->kernels.at[0].outputs.at[0]->id].offset + 256;
    expect(&c, p, "overlaps");
    p = plan_of(&c, text);
    p->order[0] = 1, p->order[1] = 0;
    expect(&c, p, "before it is written");
    p = plan_of(&c, text);
    p->order[1] = 0;
    expect(&c, p, "stands there twice");
    p = plan_of(&c, "forward i0 -> 1000\nforward 0 p0 -> 500\nupdate 0 -> 64@p0\n");
    int order[] = {0, 2, 1};
    memcpy(p->order, order, sizeof order);
    expect(&c, p, "after it was overwritten");
    p = plan_of(&c, text);
    p->arena_bytes -= 256;
    expect(&c, p, "outside the arena");
    p = plan_of(&c, text);
    p->buffer[p->kernels.at[0].outputs.at[0]->id].bytes = 8;
    expect(&c, p, "too few");
    p = plan_of(&c, text);
    p->buffer[p->kernels.at[2].outputs.at[0]->id].decl = 1;
    expect(&c, p, "not written to its home");
    p = plan_of(&c, text);
    vec_push(c.arena, p->kernels.at[1].outputs, p->kernels.at[0].outputs.at[0]);
    expect(&c, p, "a second time");
    arena_free(c.arena);
}

/* Parts of a concatenation that has no kernel: where one lies and how far its rows are apart. */
static void spoil_parts(void *watcher, const Plan *p) {
    const PassContext *c = watcher;
    int n = 0;
    for (int i = 0; i < p->graph->nodes.n; i++) {
        PlanBuffer *b = &p->buffer[i], kept = *b;
        if (!b->within) continue;
        b->offset += 4;
        expect(c, p, "not where");
        *b = kept, b->stride[0] += 1;
        expect(c, p, "has not the strides");
        *b = kept;
        n++;
    }
    assert_int_equal(n, 2);
    assert_null(plan_verify(c->arena, p));
}

static void verifier_finds_parts_elsewhere(void **state) {
    (void)state;
    const char *error = NULL, *text = "graph @parts entry=infer {\n"
                                      "  param \"x\" : f32[8,16]\n"
                                      "  param \"w\" : f32[32,24]\n"
                                      "  output \"y\" : f32[8,24]\n"
                                      "  %0 = param \"x\" : f32[8,16]\n"
                                      "  %1 = param \"w\" : f32[32,24]\n"
                                      "  %2 = sin %0 : f32[8,16]\n"
                                      "  %3 = tanh %0 : f32[8,16]\n"
                                      "  %4 = concat %2, %3 axis 1 : f32[8,32]\n"
                                      "  %5 = contract %4[i, k], %1[k, j] -> [i:8, j:24] sum [k:32] : f32[8,24]\n"
                                      "  output \"y\" %5\n"
                                      "}\n";
    PassContext c = plan_context(arena_new(), "host");
    Graph *graphs[ENTRY_COUNT] = {[ENTRY_INFER] = graph_parse(c.arena, text, &error)};
    if (!graphs[ENTRY_INFER]) fail_msg("%s", error);
    c.planned = spoil_parts, c.watcher = &c;
    assert_non_null(compile_module(&c, graphs));
    arena_free(c.arena);
}

/* ---- goldens: NAME.plan in, NAME.txt out; UPDATE=1 rewrites them ----------------------------------------- */
static char *read_file(Arena *a, const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    char *text = arena_alloc(a, 1 << 16);
    text[fread(text, 1, (1 << 16) - 1, f)] = 0;
    fclose(f);
    return text;
}

static void golden(const char *pass, const char *name, bool placed) {
    PassContext c = plan_context(arena_new(), "host");
    const char *in = arena_printf(c.arena, SOURCE_DIR "/tests/golden/%s/%s.plan", pass, name);
    const char *out = arena_printf(c.arena, SOURCE_DIR "/tests/golden/%s/%s.txt", pass, name);
    const char *given = read_file(c.arena, in);
    assert_non_null(given);
    Plan *p = plan_read(c.arena, given);
    assert_non_null(p);
    settle(&c, p);
    pass_schedule(&c, p);
    if (placed) pass_place(&c, p);
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    plan_print(f, p);
    fclose(f);
    if (getenv("UPDATE")) {
        f = fopen(out, "w");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
    }
    const char *expected = read_file(c.arena, out);
    assert_non_null(expected);
    assert_string_equal(text, expected);
    free(text);
    arena_free(c.arena);
}

static void goldens_of(const char *pass, bool placed) {
    char path[512];
    snprintf(path, sizeof path, SOURCE_DIR "/tests/golden/%s", pass);
    DIR *d = opendir(path);
    assert_non_null(d);
    int n = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        char name[256];
        snprintf(name, sizeof name, "%s", e->d_name);
        char *dot = strrchr(name, '.');
        if (!dot || strcmp(dot, ".plan")) continue;
        *dot = 0;
        golden(pass, name, placed);
        n++;
    }
    closedir(d);
    assert_true(n > 0);
}

static void goldens(void **state) {
    (void)state;
    goldens_of("schedule", false);
    goldens_of("place", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_consumed_as_they_appear),
        cmocka_unit_test(old_values_are_read_before_they_go),
        cmocka_unit_test(updates_that_wait_for_each_other),
        cmocka_unit_test(recomputations_are_not_hoisted),
        cmocka_unit_test(order_beats_the_given_one),
        cmocka_unit_test(random_plans),
        cmocka_unit_test(thirty_thousand_kernels),
        cmocka_unit_test(verifier_finds_violations),
        cmocka_unit_test(verifier_finds_parts_elsewhere),
        cmocka_unit_test(goldens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
