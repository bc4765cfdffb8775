/* Random programs of every entry through the whole pipeline and every back end, against the float64 evaluation of
 * the graph they came from: the interpreter, host code, PTX on the software GPU; as C: c99_random.c.
 *
 * Tolerance: |x - y| <= t * (s + |y|), s the largest magnitude of the tensor, at least 1; t = 1e-4 in f32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "tests/support/oracle.h"
#include "tests/support/random_program.h"
#include "frontend/frontend.h"
#include "tools/fusec/executor.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const double TOLERANCE = 1e-4;

/* The executor under test: TestRun has no room for it. */
static const ExecutorKind *kind;
static const char *arch;

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

/* One program: refused ones are counted, all others must agree. */
static void check(uint64_t seed, int *refused) {
    Arena *a = arena_new();
    const RandomProgram p = random_program(a, seed, kind->target(arch));
    if (p.module) {
        TestRandom r = {seed + 77};
        TestData d = test_data(a, p.module, p.graph->model, &r);
        const char *why = oracle_compare(a, p.graph, p.module, &d, run, TOLERANCE);
        if (why) fail_msg("%s, seed %llu: %s", kind->name, (unsigned long long)seed, why);
    } else
        ++*refused;
    arena_free(a);
}

static void check_many(const char *name, const char *with_arch, int programs) {
    int refused = 0;
    kind = executor_find(name);
    arch = with_arch;
    assert_non_null(kind);
    for (int i = 0; i < programs; i++) check((uint64_t)(1000 + i), &refused);
    assert_true(few_refused(refused, programs));
}

static void interpreter_agrees(void **state) {
    (void)state;
    check_many("interp", NULL, 500);
}
static void host_agrees(void **state) {
    (void)state;
    check_many("host", NULL, 500);
}
/* The software GPU of this build, wherever LD_LIBRARY_PATH points: later loads by name find it. */
static bool have_simulator(void) {
    static void *library;
    if (!library) library = dlopen(BUILD_DIR "/ptxsim/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return library != NULL;
}
static void ptx_agrees_sm_80(void **state) {
    (void)state;
    assert_true(have_simulator());
    check_many("cuda", "sm_80", 300);
}
static void ptx_agrees_sm_90(void **state) {
    (void)state;
    assert_true(have_simulator());
    check_many("cuda", "sm_90", 200);
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(interpreter_agrees), cmocka_unit_test(host_agrees),
                                       cmocka_unit_test(ptx_agrees_sm_80), cmocka_unit_test(ptx_agrees_sm_90),
                                       cmocka_unit_test(recomputing_changes_no_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
