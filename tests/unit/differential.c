/* Random programs of every entry through the whole pipeline and every back end, against the float64 evaluation of
 * the graph they came from.  Without arguments: the interpreter, host code and C; `cuda`: PTX on the software GPU, one
 * architecture and the other in turn.  Each run counts what its programs reach, and fails where that is too little
 * (coverage.h).  The last argument may be the number of one program; what is printed when a program fails has it.
 *
 * Tolerance: |x - y| <= t * (s + |y|), s the largest magnitude of the tensor, at least 1; t = 1e-4 in f32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "tests/support/differential.h"
#include "frontend/frontend.h"
#include "tools/fusec/executor.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAMS = 1000 };

/* The executor under test: TestRun has no room for it. */
static const ExecutorKind *kind;
static const char *arch;
/* From the command line: run this program only; -1: all. */
static int only = -1;

static bool run(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms, const char **error) {
    const ExecutorOptions options = {.arch = arch, .threads = 2};
    void *self = kind->open(a, m, &options, error);
    if (!self) return false;
    const fusec_memory memory = {.params = mem->params, .param_bytes = (uint64_t)m->param_bytes, .states = mem->states,
                                 .state_bytes = (uint64_t)m->state_bytes, .grads = mem->grads, .grad_bytes = (uint64_t)m->grad_bytes,
                                 .arena = mem->arena, .arena_bytes = (uint64_t)m->entry[e].arena_bytes};
    int32_t *extents = ARENA_ARRAY(a, int32_t, m->syms.n + 1);
    for (int i = 0; i < m->syms.n; i++) extents[i] = (int32_t)syms[i];
    float *hypers = ARENA_ARRAY(a, float, m->hypers.n + 1);
    memcpy(hypers, &mem->scalars[SCALAR_HYPER0], sizeof *hypers * (size_t)m->hypers.n);
    const ExecutorCall call = {.entry = e, .inputs = mem->inputs, .outputs = mem->outputs, .hypers = hypers, .syms = extents,
                               .step = mem->scalars[SCALAR_STEP], .seed = (uint32_t)mem->scalars[SCALAR_SEED]};
    bool ok = !kind->upload || kind->upload(self, &memory, error);
    ok = ok && kind->run(self, &memory, &call, error);
    ok = ok && (!kind->download || kind->download(self, &memory, error));
    kind->close(self);
    return ok;
}

/* ---- all programs on one back end ---------------------------------------------------------------------------------- */
/* By number of a program; a turn each. */
typedef struct Suite {
    const char *const *archs;
    int n_archs;
    bool fails;        /* some program did */
    int count[TRIAL_DIFFERS + 1];
} Suite;

typedef struct Failure {
    const TrialTarget *target;
    bool internal; /* found by a verifier in the compiler, not by running: the least program fails alike */
} Failure;

static bool is_internal(const char *why) { return strstr(why, "internal error") != NULL; }

static bool still_differs(void *user, Arena *a, const Trial *t, const char **why) {
    const Failure *f = user;
    return trial_run(a, t, f->target, NULL, why) == TRIAL_DIFFERS && is_internal(*why) == f->internal;
}

static void report_failure(Arena *a, const Trial *t, const TrialTarget *target, const char *why) {
    Failure failure = {.target = target, .internal = is_internal(why)};
    print_error("%s %s, program %d: %s\n", kind->name, arch ? arch : "", t->number, why);
    const Trial least = trial_shrink(a, t, still_differs, &failure);
    trial_run(a, &least, target, NULL, &why);
    print_error("least program that still fails: %s\n", why);
    trial_print(stderr, &least);
    print_error("to see it again: test_differential %s %d\n", kind->name, t->number);
}

static void check(Suite *s, TrialSet *set) {
    Arena *a = arena_new();
    const Trial t = trial_next(set, a);
    const char *why;
    arch = s->archs[t.number % s->n_archs];
    TrialTarget target = {.name = kind->name, .target = kind->target(arch), .run = run};
    if (only < 0 || only == t.number) {
        const TrialResult result = trial_run(a, &t, &target, set->coverage->fired, &why);
        if (result == TRIAL_DIFFERS) report_failure(a, &t, &target, why);
        s->count[result]++;
    }
    arena_free(a);
}

/* Refused and unsettled programs are few enough for the others to stand for all. */
static void check_all(const char *name, const char *const *archs, int n_archs) {
    Suite s = {.archs = archs, .n_archs = n_archs};
    TrialSet *set = trial_set(PROGRAMS);
    kind = executor_find(name);
    assert_non_null(kind);
    for (int i = 0; i < PROGRAMS; i++) check(&s, set);
    print_message("%s: %d programs agree, %d differ, %d refused, %d on an edge\n", name, s.count[TRIAL_AGREES],
                  s.count[TRIAL_DIFFERS], s.count[TRIAL_REFUSED], s.count[TRIAL_UNSETTLED]);
    const int shortages = only < 0 ? coverage_report(stdout, set->coverage) : 0;
    trial_set_free(set);
    assert_int_equal(s.count[TRIAL_DIFFERS], 0);
    assert_true(s.count[TRIAL_REFUSED] * 50 <= PROGRAMS);
    assert_true(s.count[TRIAL_UNSETTLED] * 100 <= PROGRAMS);
    assert_int_equal(shortages, 0);
}

static const char *const no_arch[] = {NULL};
static void interpreter_agrees(void **state) {
    (void)state;
    check_all("interp", no_arch, 1);
}
static void host_agrees(void **state) {
    (void)state;
    check_all("host", no_arch, 1);
}
static void c99_agrees(void **state) {
    (void)state;
    if (system("cc --version >/dev/null 2>&1")) skip();
    check_all("c99", no_arch, 1);
}

/* The software GPU of this build, wherever LD_LIBRARY_PATH points: later loads by name find it. */
static bool have_simulator(void) {
    static void *library;
    if (!library) library = dlopen(BUILD_DIR "/ptxsim/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return library != NULL;
}
static void ptx_agrees(void **state) {
    static const char *const archs[] = {"sm_80", "sm_90"};
    (void)state;
    assert_true(have_simulator());
    check_all("cuda", archs, 2);
}

/* ---- recomputation changes no bit ------------------------------------------------------------------------------ */
/* The gradients of a residual network with layer norms, by entry grad. */
static const uint8_t *gradients(Arena *a, CheckpointMode mode, int64_t *bytes, int64_t *arena_bytes) {
    static const Override overrides[] = {{"N", "12"}, {"W", "48"}, {"B", "8"}};
    const FrontendOptions o = {.overrides = overrides, .n_overrides = 3};
    Graph *graphs[ENTRY_COUNT] = {0};
    Diag *d = diag_new(a);
    Program *p = program_load(a, d, SOURCE_DIR "/bench/resmlp.dsl", &o);
    assert_non_null(p);
    assert_true(program_lower(a, d, p, NULL, graphs));
    graphs[ENTRY_INIT] = graphs[ENTRY_INFER] = graphs[ENTRY_STEP] = NULL;
    const Model *model = graphs[ENTRY_GRAD]->model;
    PassContext c = test_context(a, kind->target(arch));
    c.checkpoint = mode;
    Module *m = compile_module(&c, graphs);
    assert_non_null(m);
    TestRandom r = {5};
    TestData data = test_data(a, m, model, &r);
    const char *error = NULL;
    if (!run(a, m, ENTRY_GRAD, &data.mem, data.syms, &error)) fail_msg("%s: %s", kind->name, error);
    *bytes = m->grad_bytes;
    *arena_bytes = m->entry[ENTRY_GRAD].arena_bytes;
    /* by parameter: the order in which gradients are produced may differ */
    uint8_t *all = arena_alloc(a, (size_t)m->grad_bytes);
    for (int i = 0, at = 0; i < m->params.n; i++)
        for (int g = 0; g < m->grads.n; g++) {
            if (strcmp(m->grads.at[g].name, m->params.at[i].name)) continue;
            memcpy(all + at, (char *)data.mem.grads + m->grads.at[g].offset, (size_t)m->grads.at[g].bytes);
            at += (int)m->grads.at[g].bytes;
        }
    return all;
}

static void same_bits(const char *name) {
    Arena *a = arena_new();
    int64_t n, kept, recomputed;
    kind = executor_find(name);
    arch = NULL;
    const uint8_t *x = gradients(a, CHECKPOINT_NONE, &n, &kept), *y = gradients(a, CHECKPOINT_SQRT, &n, &recomputed);
    assert_true(recomputed < kept);
    assert_memory_equal(x, y, (size_t)n);
    arena_free(a);
}

static void recomputing_changes_no_bit(void **state) {
    (void)state;
    same_bits("interp");
    same_bits("host");
    if (!system("cc --version >/dev/null 2>&1")) same_bits("c99");
    assert_true(have_simulator());
    same_bits("cuda");
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        struct CMUnitTest test;
    } groups[] = {{"interp", cmocka_unit_test(interpreter_agrees)},
                  {"host", cmocka_unit_test(host_agrees)},
                  {"c99", cmocka_unit_test(c99_agrees)},
                  {"cuda", cmocka_unit_test(ptx_agrees)},
                  {"recompute", cmocka_unit_test(recomputing_changes_no_bit)}};
    struct CMUnitTest tests[sizeof groups / sizeof *groups];
    size_t n = 0;
    if (argc > 2) only = atoi(argv[2]);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (argc < 2 || !strcmp(argv[1], groups[i].name)) tests[n++] = groups[i].test;
    return n == 0 ? 2 : _cmocka_run_group_tests("differential", tests, n, NULL, NULL);
}
