/* Random programs through the CUDA runtime, over a driver whose kernels are the module's, interpreted: every argument
 * in its place, extents and empty tensors among them.  Tolerance as in differential.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "runtime/cuda/fusec_cuda.h"
#include "tests/support/fake_kernels.h"
#include "tests/support/oracle.h"
#include "tests/support/random_graph.h"
#include "tools/fusec/manifest.h"
#include <string.h>

enum { PROGRAMS = 120 };

static fusec_status move(fusec_cuda *c, const ModuleMemory *mem, bool up) {
    const fusec_manifest *m = c->manifest;
    const fusec_region region[] = {FUSEC_R_PARAM, FUSEC_R_STATE, FUSEC_R_GRAD};
    void *const host[] = {mem->params, mem->states, mem->grads};
    const uint64_t bytes[] = {m->param_bytes, m->state_bytes, m->grad_bytes};
    fusec_status s = FUSEC_OK;
    for (int i = 0; i < 3 && s == FUSEC_OK; i++)
        s = up ? fusec_cuda_write(c, region[i], 0, host[i], bytes[i])
               : fusec_cuda_read(c, region[i], 0, host[i], bytes[i]);
    return s;
}

static fusec_status call(fusec_cuda *c, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms) {
    int32_t extents[FUSEC_CUDA_MAX_SYMS];
    float hypers[64];
    for (int i = 0; i < m->syms.n; i++) extents[i] = (int32_t)syms[i];
    assert_true(m->hypers.n <= 64);
    memcpy(hypers, &mem->scalars[SCALAR_HYPER0], sizeof *hypers * (size_t)m->hypers.n);
    const fusec_cuda_call x = {.inputs = (const void *const *)mem->inputs,
                               .outputs = mem->outputs,
                               .syms = extents,
                               .hypers = hypers,
                               .step = mem->scalars[SCALAR_STEP]};
    c->seed = (uint32_t)mem->scalars[SCALAR_SEED];
    fusec_status s = move(c, mem, true);
    if (s == FUSEC_OK) s = fusec_cuda_run(c, (int)e, &x);
    return s == FUSEC_OK ? move(c, mem, false) : s;
}

static bool run(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms, const char **error) {
    static char log[1024];
    static const char ptx[] = ".version 7.0\n.target sm_80\n";
    const fusec_cu_driver driver = fake_cuda_driver();
    const fusec_cuda_image image = {.data = ptx};
    const fusec_cuda_options options = {.driver = &driver, .log = log, .log_bytes = sizeof log};
    fake.kernels = fake_kernels(a, m);
    fusec_cuda c;
    fusec_status s = fusec_cuda_init(&c, manifest_of(a, m), &image, &options);
    if (s == FUSEC_OK) s = call(&c, m, e, mem, syms);
    fusec_cuda_free(&c);
    if (s != FUSEC_OK) *error = arena_printf(a, "%s: %s", fusec_status_text(s), log);
    assert_int_equal(fake.misuse, 0);
    assert_int_equal(fake.live, 0);
    fake_cuda_reset();
    return s == FUSEC_OK;
}

static void programs_agree(void **state) {
    static const Entry entries[] = {ENTRY_INFER, ENTRY_GRAD, ENTRY_STEP};
    int refused = 0;
    (void)state;
    for (int i = 0; i < PROGRAMS; i++) {
        const uint64_t seed = (uint64_t)(5000 + i);
        const Entry e = entries[i % 3];
        const RandomOptions o = {.ops = 4 + i % 18, .bounded = i % 3 != 1, .empty = i % 4 == 0};
        Arena *a = arena_new();
        Graph *original = random_graph(a, e, seed, o), *graphs[ENTRY_COUNT] = {[ENTRY_INIT] = NULL};
        PassContext c = test_context(a, "sm_80");
        graphs[e] = random_graph(a, e, seed, o);
        Module *m = compile_module(&c, graphs);
        if (m) {
            TestRandom r = {seed};
            TestData d = test_data(a, m, original->model, &r);
            const char *why = oracle_compare(a, original, m, &d, run, 1e-4);
            if (why) fail_msg("seed %d: %s", (int)seed, why);
        } else
            refused++;
        arena_free(a);
    }
    assert_true(refused * 20 <= PROGRAMS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
