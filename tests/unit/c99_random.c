/* Random programs of every entry as MODEL.c, compiled with the strictest flags and compared with the float64 evaluation
 * of the graph they came from (tolerance: docs/numerics.md).  Every program runs under the address and
 * undefined-behaviour sanitizers, half of them as built by gcc, half by clang; one in five also as either compiler
 * optimises it without them.  What a model is given is exactly as large as it says it needs (tests/tools/c99_runner.c).
 * A compiler that is not there leaves its half to the other; one without an address sanitizer's library only traps.
 *
 *     test_c99_random [PROGRAMS SEED]     so many, from that seed on; without arguments those of the test suite */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "codegen/artifact/artifact.h"
#include "tests/support/random_program.h"
#include "tests/support/runner.h"
#include "tests/support/scratch.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_PROGRAMS = 500, SANITIZED = 2, OPTIMISED_EVERY = 5 };
static int programs = 60;
static uint64_t first_seed = 1000;

static const char *const sanitizers[] = {"-O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all",
                                         "-O1 -fsanitize=undefined -fsanitize-undefined-trap-on-error"};
/* The programs that one compiler makes of its share; the first SANITIZED with sanitizers. */
typedef struct Build {
    const char *compiler, *options; /* options NULL: not here */
    int n;                          /* models in the runner */
    Runner runner;
} Build;
enum { BUILDS = 4 };

typedef struct Suite {
    Arena *arena;
    Build build[BUILDS];
    RandomProgram program[MOST_PROGRAMS];
    int place[MOST_PROGRAMS][BUILDS]; /* of the program in that build's runner; -1: not there */
} Suite;

/* ---- who compiles what ----------------------------------------------------------------------------------------- */
static bool works(Arena *a, const char *compiler, const char *options) {
    return system(arena_printf(
               a,
               "cd %s && echo 'int main(void) { return 0; }' >try.c && %s %s try.c -o try >try.log 2>&1 && "
               "./try >>try.log 2>&1",
               scratch_folder(), compiler, options)) == 0;
}

static void find_compilers(Suite *s) {
    static const char *const compilers[] = {"gcc", "clang"};
    for (int c = 0; c < SANITIZED; c++) {
        Build *with = &s->build[c], *without = &s->build[SANITIZED + c];
        *with = *without = (Build){.compiler = compilers[c]};
        if (!have_compiler(compilers[c])) {
            print_message("skipped: no %s; its half is left to the other\n", compilers[c]);
            continue;
        }
        without->options = "-O2";
        for (int o = 0; o < 2 && !with->options; o++)
            if (works(s->arena, compilers[c], sanitizers[o])) with->options = sanitizers[o];
        if (!with->options)
            print_message("skipped: %s without sanitizers\n", compilers[c]);
        else if (with->options != sanitizers[0])
            print_message("skipped: %s without an address sanitizer's library; undefined behaviour traps\n",
                          compilers[c]);
    }
}

/* The sanitized builds that are here take turns, the others every fifth program in turn. */
static bool takes(const Suite *s, int b, int program) {
    if (!s->build[b].options) return false;
    if (b >= SANITIZED) return program % (2 * OPTIMISED_EVERY) == (b - SANITIZED) * OPTIMISED_EVERY;
    return !s->build[1 - b].options || program % 2 == b;
}

/* ---- sources, objects, runners ----------------------------------------------------------------------------------- */
static FILE *create(Arena *a, const char *name) {
    FILE *f = fopen(arena_printf(a, "%s/%s", scratch_folder(), name), "w");
    assert_non_null(f);
    return f;
}

static void emit(Arena *a, const Module *m) {
    const char *header = arena_printf(a, "%s.h", m->name);
    FILE *f = create(a, header);
    artifact_header(f, m, &artifact_c99_form);
    assert_int_equal(fclose(f), 0);
    f = create(a, arena_printf(a, "%s.c", m->name));
    const char *why = artifact_c99(f, m, header);
    assert_int_equal(fclose(f), 0);
    if (why) fail_msg("%s", why);
}

/* The list of build b's models, for xargs, and their table, for the runner; places are set. */
static void list_models(Suite *s, int b) {
    Arena *a = s->arena;
    FILE *list = create(a, arena_printf(a, "list%d", b)), *table = create(a, arena_printf(a, "table%d.c", b));
    fputs("#include \"tests/tools/c99_runner.h\"\n", table);
    for (int i = 0; i < programs; i++) {
        s->place[i][b] = -1;
        if (!s->program[i].module || !takes(s, b, i)) continue;
        s->place[i][b] = s->build[b].n++;
        fprintf(list, "%s\n", s->program[i].module->name);
        fprintf(table, "RunnerProgram %s_run;\n", s->program[i].module->name);
    }
    fputs("RunnerProgram *const runner_programs[] = {\n", table);
    for (int i = 0; i < programs; i++)
        if (s->place[i][b] >= 0) fprintf(table, "    %s_run,\n", s->program[i].module->name);
    fputs("};\n", table);
    assert_int_equal(fclose(list), 0);
    assert_int_equal(fclose(table), 0);
}

/* Objects by as many compilers at a time as there are cores. */
static void build(Suite *s, int b) {
    const char *cc = s->build[b].compiler, *options = s->build[b].options;
    Arena *a = s->arena;
    scratch_shell(a, arena_printf(a, "xargs -P \"$(nproc)\" -I M %s " STRICT_C99 " %s -c M.c -o M.%d.o <list%d", cc,
                                  options, b, b));
    scratch_shell(a, arena_printf(a,
                                  "%s -std=gnu99 -Wall -Wextra -Werror %s -I %s %s/tests/tools/c99_runner.c table%d.c "
                                  "$(sed 's/$/.%d.o/' list%d) -o runner%d",
                                  cc, options, SOURCE_DIR, SOURCE_DIR, b, b, b, b));
    s->build[b].runner = runner_start(a, arena_printf(a, "%s/runner%d", scratch_folder(), b));
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */
/* What runs next: TestRun has no room for it. */
static Runner *runner;
static int place;

static bool run(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms, const char **error) {
    return runner_call(a, runner, place, m, e, mem, syms, error);
}

static void check(Suite *s, int program, int b) {
    const RandomProgram *p = &s->program[program];
    Arena *a = arena_new();
    TestRandom r = {(uint64_t)program + 1};
    TestData d = test_data(a, p->module, p->graph->model, &r);
    runner = &s->build[b].runner;
    place = s->place[program][b];
    const char *why = oracle_compare(a, p->graph, p->module, &d, run, 1e-4);
    if (why) fail_msg("%s %s, %s: %s", s->build[b].compiler, s->build[b].options, p->module->name, why);
    arena_free(a);
}

static void random_programs_agree(void **state) {
    static Suite s;
    int refused = 0, sanitized = 0;
    (void)state;
    s.arena = arena_new();
    find_compilers(&s);
    if (!s.build[0].options && !s.build[1].options) skip();
    for (int i = 0; i < programs; i++) {
        s.program[i] = random_program(s.arena, first_seed + (uint64_t)i, "c99");
        if (s.program[i].module)
            emit(s.arena, s.program[i].module);
        else
            refused++;
    }
    assert_true(few_refused(refused, programs));
    for (int b = 0; b < BUILDS; b++) {
        list_models(&s, b);
        if (s.build[b].n) build(&s, b);
    }
    for (int b = 0; b < BUILDS; b++) {
        for (int i = 0; i < programs; i++)
            if (s.place[i][b] >= 0) check(&s, i, b), sanitized += b < SANITIZED;
        assert_true(runner_stop(&s.build[b].runner));
    }
    assert_int_equal(sanitized, programs - refused);
    printf("graphs programs %d wrong 0\n", sanitized);
    arena_free(s.arena);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs_agree)};
    if (argc > 1) programs = atoi(argv[1]);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    if (programs < 1 || programs > MOST_PROGRAMS) {
        fprintf(stderr, "usage: test_c99_random [PROGRAMS, at most %d, SEED]\n", MOST_PROGRAMS);
        return 2;
    }
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
