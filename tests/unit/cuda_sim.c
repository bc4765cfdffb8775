/* The CUDA runtime and a compiled model on the software GPU: what a hundred training steps ask of the driver, work that
 * lands late, and every driver call failing once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/nvptx/nvptx.h"
#include "frontend/frontend.h"
#include "passes/pass.h"
#include "runtime/cuda/fusec_cuda.h"
#include "tests/support/scratch.h"
#include "tests/support/tiny_model.h"
#include "tools/fusec/manifest.h"
#include "tools/ptxsim/ptxsim.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char LIBRARY[] = BUILD_DIR "/ptxsim/libcuda.so.1";
enum { ROWS = 5, STEPS = 100, LOG = 4096, FILE_BYTES = 1 << 14, MAX_LAUNCHES = 64 };

static Arena *arena;
static const fusec_manifest *manifest;
static char *ptx, *params, *states; /* as entry init makes them */
static char log_text[LOG];
static float image[ROWS * 6];
static int32_t label[ROWS] = {2, 0, 1, 2, 1};

static struct {
    void (*mark)(const char *name);
    void (*counters)(ptxsim_counters *);
    uint64_t (*live)(void), (*findings)(void);
    int (*fault)(const char **symbol);
    int (*current)(void **context);
} sim;

static int set_up(void **state) {
    Graph *graphs[ENTRY_COUNT] = {0};
    char *error = NULL;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!library || scratch_make(state)) return -1;
    *(void **)&sim.mark = load_symbol(library, "ptxsimMark");
    *(void **)&sim.counters = load_symbol(library, "ptxsimCounters");
    *(void **)&sim.live = load_symbol(library, "ptxsimLive");
    *(void **)&sim.findings = load_symbol(library, "ptxsimFindings");
    *(void **)&sim.fault = load_symbol(library, "ptxsim_fault");
    *(void **)&sim.current = load_symbol(library, "cuCtxGetCurrent");
    arena = arena_new();
    const char *path = arena_printf(arena, "%s/tiny.dsl", scratch_folder());
    write_text(path, tiny_model);
    Diag *d = diag_new(arena);
    Program *p = program_load(arena, d, path, &(FrontendOptions){0});
    if (!p || !program_lower(arena, d, p, NULL, graphs)) fail_msg("does not compile");
    PassContext c = {.arena = arena, .target = target_find("sm_80"), .verify = true};
    const Module *m = compile_module(&c, graphs);
    if (!m || !nvptx_emit_ptx(m, &(NvptxOptions){.arch = "sm_80"}, &ptx, &error))
        fail_msg("%s", error ? error : "refused");
    manifest = manifest_of(arena, m);
    params = arena_alloc(arena, manifest->param_bytes);
    states = arena_alloc(arena, manifest->state_bytes + 1);
    for (int i = 0; i < ROWS * 6; i++) image[i] = (float)(i * 7 % 11) / 4 - 1;
    return 0;
}

static int tear_down(void **state) {
    free(ptx);
    arena_free(arena);
    return scratch_remove(state);
}

static fusec_status start(fusec_cuda *c) {
    const fusec_cuda_image picture = {.data = ptx};
    const fusec_cuda_options options = {.seed = 7, .library = LIBRARY, .log = log_text, .log_bytes = sizeof log_text};
    return fusec_cuda_init(c, manifest, &picture, &options);
}

static void must(fusec_status s) {
    if (s != FUSEC_OK) fail_msg("%s: %s", fusec_status_text(s), log_text);
}

/* ---- training --------------------------------------------------------------------------------------------------- */
static const fusec_cuda_call nothing = {0};

static fusec_status step(fusec_cuda *c, int n, float lr) {
    const void *in[] = {image, label};
    const float hypers[] = {lr};
    return fusec_cuda_run(c, FUSEC_STEP, &(fusec_cuda_call){.inputs = in, .hypers = hypers, .step = n});
}

/* Parameters after STEPS steps; what they asked of the driver. */
static void train(float decay, char *after, ptxsim_counters *count) {
    fusec_cuda c;
    float lr = 0.05f;
    must(start(&c));
    must(fusec_cuda_run(&c, FUSEC_INIT, &nothing));
    sim.mark("steps");
    for (int n = 1; n <= STEPS; n++, lr *= decay) must(step(&c, n, lr));
    sim.counters(count);
    sim.mark("");
    must(fusec_cuda_read(&c, FUSEC_R_PARAM, 0, after, manifest->param_bytes));
    fusec_cuda_free(&c);
    assert_int_equal(sim.live(), 0);
}

static void a_hundred_steps_do_not_wait(void **state) {
    (void)state;
    ptxsim_counters n;
    const uint64_t findings = sim.findings();
    char *changing = arena_alloc(arena, manifest->param_bytes), *constant = arena_alloc(arena, manifest->param_bytes);
    train(0.97f, changing, &n);
    assert_int_equal(n.graph_instantiations, 1);
    assert_int_equal(n.graph_launches, STEPS);
    assert_int_equal(n.graph_updates, 0);
    assert_int_equal(n.synchronisations, 0);
    assert_int_equal(n.allocations, 0);
    assert_int_equal(n.frees, 0);
    assert_int_equal(n.pageable_copies, 0);
    assert_int_equal(n.copies, 3 * STEPS); /* scalars, image, label */
    assert_int_equal(n.kernel_launches, n.graph_launches * manifest->entry[FUSEC_STEP].n_launches);
    train(1, constant, &n);
    assert_memory_not_equal(changing, constant, manifest->param_bytes); /* the rate is not baked into the graph */
    assert_int_equal(sim.findings(), findings);
}

/* Staging memory used again too early, or a result read too early, would change a bit. */
static void late_work_changes_no_bit(void **state) {
    (void)state;
    static const char *const orders[][2] = {{"late", "1"}, {"random", "2"}, {"random", "3"}};
    ptxsim_counters n;
    char *want = arena_alloc(arena, manifest->param_bytes), *got = arena_alloc(arena, manifest->param_bytes);
    train(0.97f, want, &n);
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        setenv("PTXSIM_ASYNC", orders[k][0], 1);
        setenv("PTXSIM_SEED", orders[k][1], 1);
        train(0.97f, got, &n);
        assert_memory_equal(got, want, manifest->param_bytes);
        assert_int_equal(n.pageable_copies + n.allocations + n.frees, 0);
    }
    unsetenv("PTXSIM_ASYNC");
    unsetenv("PTXSIM_SEED");
}

/* ---- every call fails once -------------------------------------------------------------------------------------- */
typedef struct File {
    char data[FILE_BYTES];
    uint64_t n;
} File;
static int put(void *user, const void *from, uint32_t n) {
    File *f = user;
    if (f->n + n > FILE_BYTES) return -1;
    memcpy(f->data + f->n, from, n);
    f->n += n;
    return 0;
}
static int get(void *user, uint64_t offset, void *to, uint32_t n) {
    const File *f = user;
    if (offset + n > f->n) return -1;
    memcpy(to, f->data + offset, n);
    return 0;
}

typedef struct Outputs {
    float loss, probability[ROWS * 3];
} Outputs;

static fusec_status infer(fusec_cuda *c, Outputs *o) {
    const void *in[] = {image, label};
    void *out[] = {&o->loss, o->probability};
    return fusec_cuda_run(c, FUSEC_INFER, &(fusec_cuda_call){.inputs = in, .outputs = out});
}

static fusec_status restore(fusec_cuda *c) {
    const fusec_status s = fusec_cuda_write(c, FUSEC_R_PARAM, 0, params, manifest->param_bytes);
    return s ? s : fusec_cuda_write(c, FUSEC_R_STATE, 0, states, manifest->state_bytes);
}

/* A failure has a status and a reason. */
static bool is_fine(fusec_status s, const char *what) {
    if (s == FUSEC_OK) return true;
    if (s != FUSEC_E_DRIVER && s != FUSEC_E_MEMORY) fail_msg("%s: %s", what, fusec_status_text(s));
    if (!strstr(log_text, "CUDA_ERROR_")) fail_msg("%s: no reason: %s", what, log_text);
    return false;
}

/* One of each call that a model takes; false at the first that fails: what follows needs what it was to do. */
static bool use(fusec_cuda *c, Outputs *o) {
    static File file;
    const fusec_io io = {.user = &file, .write = put, .read = get};
    const void *in[] = {image, label};
    const int32_t three = 3;
    const fusec_cuda_call grad = {.inputs = in, .syms = &three}, fourth = {.inputs = in, .step = 4};
    float ms[MAX_LAUNCHES], loss;
    file.n = 0;
#define FINE(call) is_fine(call, #call)
    bool fine = FINE(fusec_cuda_run(c, FUSEC_INIT, &nothing)) && FINE(fusec_cuda_run(c, FUSEC_GRAD, &grad)) &&
                FINE(fusec_cuda_run(c, FUSEC_GRAD | FUSEC_ACCUMULATE, &grad));
    for (int n = 1; n <= 3 && fine; n++) fine = FINE(step(c, n, 0.125f));
    return fine && FINE(infer(c, o)) && FINE(fusec_cuda_profile(c, FUSEC_STEP, &fourth, ms)) &&
           FINE(fusec_cuda_save(c, NULL, &io)) && FINE(fusec_cuda_load(c, NULL, &io)) && FINE(fusec_cuda_wait(c)) &&
           FINE(fusec_cuda_fetch(c, 0, &loss)) &&
           FINE(fusec_cuda_read(c, FUSEC_R_PARAM, 0, o->probability, sizeof *o->probability)) && FINE(restore(c)) &&
           FINE(infer(c, o));
#undef FINE
}

/* Calls whose failure nobody is told of, since nothing can be done: what they do is done. */
static bool gives_back(const char *symbol) {
    static const char *const giving[] = {"cuMemFreeHost",      "cuMemFree_v2",   "cuCtxPopCurrent_v2",
                                         "cuEventDestroy_v2",  "cuGraphDestroy", "cuGraphExecDestroy",
                                         "cuStreamDestroy_v2", "cuModuleUnload", "cuDevicePrimaryCtxRelease_v2"};
    for (size_t k = 0; k < sizeof giving / sizeof *giving; k++)
        if (strcmp(giving[k], symbol) == 0) return true;
    return false;
}

static void nothing_is_left(int n, const char *symbol, uint64_t findings) {
    void *context;
    if (sim.live()) fail_msg("call %d (%s) failed: %d objects left", n, symbol, (int)sim.live());
    if (sim.findings() != findings) fail_msg("call %d (%s) failed: findings", n, symbol);
    assert_int_equal(sim.current(&context), 0);
    if (context) fail_msg("call %d (%s) failed: a context stays current", n, symbol);
}

/* False when the run makes fewer than n calls. */
static bool fail_call(int n, const Outputs *want) {
    const char *symbol = NULL;
    fusec_cuda c;
    Outputs got = {0}, again = {0};
    const uint64_t findings = sim.findings();
    char fault[32];
    snprintf(fault, sizeof fault, "any:%d", n);
    setenv("PTXSIM_FAIL", fault, 1);
    const fusec_status s = start(&c);
    bool failed = !is_fine(s, "fusec_cuda_init");
    if (s == FUSEC_OK) {
        failed = !use(&c, &got);
        if (!is_fine(restore(&c), "restore") || !is_fine(infer(&c, &again), "infer")) {
            failed = true;
            must(restore(&c)); /* the fault is over, or to come while the model is given back */
            must(infer(&c, &again));
        }
        assert_memory_equal(&again, want, sizeof again);
    } else {
        assert_null(c.manifest);
    }
    sim.fault(&symbol);
    if (symbol && !failed && !gives_back(symbol)) fail_msg("call %d (%s) failed and nobody said so", n, symbol);
    fusec_cuda_free(&c);
    sim.fault(&symbol);
    unsetenv("PTXSIM_FAIL");
    nothing_is_left(n, symbol ? symbol : "none", findings);
    return symbol != NULL;
}

static void every_call_fails_once(void **state) {
    (void)state;
    ptxsim_counters calls;
    fusec_cuda c;
    Outputs want = {0};
    int n = 0;
    assert_true(manifest->entry[FUSEC_STEP].n_launches <= MAX_LAUNCHES);
    must(start(&c));
    must(fusec_cuda_run(&c, FUSEC_INIT, &nothing));
    must(fusec_cuda_read(&c, FUSEC_R_PARAM, 0, params, manifest->param_bytes));
    must(fusec_cuda_read(&c, FUSEC_R_STATE, 0, states, manifest->state_bytes));
    fusec_cuda_free(&c);
    sim.mark("one of each");
    must(start(&c));
    assert_true(use(&c, &want));
    must(restore(&c));
    must(infer(&c, &want));
    fusec_cuda_free(&c);
    sim.counters(&calls);
    while (fail_call(n + 1, &want)) n++;
    assert_int_equal(n, calls.calls);
    assert_true(n > 150);
    print_message("%d calls, each failed once\n", n);
}

/* Each kind of call has its error. */
static void kinds_of_failure(void **state) {
    (void)state;
    static const struct {
        const char *fault;
        fusec_status status;
        const char *text;
    } CASES[] = {
        {"alloc:1", FUSEC_E_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {"load:1", FUSEC_E_MEMORY, "cuModuleLoadDataEx: CUDA_ERROR_OUT_OF_MEMORY"},
        {"cuStreamCreate:1", FUSEC_E_MEMORY, "cuStreamCreate"},
        {"cuInit:1", FUSEC_E_DRIVER, "cuInit: CUDA_ERROR_UNKNOWN"},
    };
    fusec_cuda c;
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        setenv("PTXSIM_FAIL", CASES[k].fault, 1);
        const fusec_status s = start(&c);
        if (s != CASES[k].status) fail_msg("%s: %s: %s", CASES[k].fault, fusec_status_text(s), log_text);
        if (!strstr(log_text, CASES[k].text)) fail_msg("%s: %s", CASES[k].fault, log_text);
        assert_int_equal(sim.live(), 0);
    }
    must(start(&c));
    must(fusec_cuda_run(&c, FUSEC_INIT, &nothing));
    setenv("PTXSIM_FAIL", "launch:1,copy:1", 1);
    assert_int_equal(step(&c, 1, 0.1f), FUSEC_E_DRIVER);
    assert_non_null(strstr(log_text, "cuMemcpyHtoDAsync: CUDA_ERROR_LAUNCH_FAILED"));
    assert_int_equal(step(&c, 1, 0.1f), FUSEC_E_DRIVER);
    assert_non_null(strstr(log_text, "cuGraphLaunch: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"));
    must(step(&c, 1, 0.1f));
    fusec_cuda_free(&c);
    unsetenv("PTXSIM_FAIL");
    assert_int_equal(sim.live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_hundred_steps_do_not_wait),
                                       cmocka_unit_test(late_work_changes_no_bit),
                                       cmocka_unit_test(every_call_fails_once), cmocka_unit_test(kinds_of_failure)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
