/* The hook for data parallelism: random programs on the host runtime.  Each gradient is reported once, in the order of
 * the manifest, with the value it has at the end of the call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/host/host.h"
#include "tests/support/oracle.h"
#include "tests/support/random_graph.h"
#include <stdlib.h>
#include <string.h>

enum { PROGRAMS = 60 };

typedef struct Seen {
    const fusec_manifest *m;
    const char *grads;
    char *copy; /* every gradient as it was when it was reported */
    uint32_t n;
} Seen;

static void ready(void *user, uint64_t offset, uint64_t bytes) {
    Seen *s = user;
    assert_true(s->n < s->m->n_grads);
    assert_int_equal(offset, s->m->grads[s->n].offset);
    assert_int_equal(bytes, s->m->grads[s->n].bytes);
    memcpy(s->copy + offset, s->grads + offset, bytes);
    s->n++;
}

static void check(Arena *a, const Module *m, const TestData *d) {
    Seen s = {.grads = d->mem.grads, .copy = arena_alloc(a, (size_t)m->grad_bytes + 1)};
    int32_t syms[FUSEC_HOST_MAX_SYMS];
    char *error = NULL;
    HostJit *jit = host_jit(m, NULL, &error);
    if (!jit) fail_msg("%s", error);
    s.m = host_jit_manifest(jit);
    for (int i = 0; i < m->syms.n; i++) syms[i] = (int32_t)d->syms[i];
    const fusec_memory memory = {.params = d->mem.params,
                                 .param_bytes = (uint64_t)m->param_bytes,
                                 .states = d->mem.states,
                                 .state_bytes = (uint64_t)m->state_bytes,
                                 .grads = d->mem.grads,
                                 .grad_bytes = (uint64_t)m->grad_bytes,
                                 .arena = d->mem.arena,
                                 .arena_bytes = (uint64_t)m->entry[ENTRY_GRAD].arena_bytes};
    const fusec_options options = {.threads = 1, .gradient_ready = ready, .user = &s};
    const fusec_host_call call = {
        .inputs = (const void *const *)d->mem.inputs, .outputs = d->mem.outputs, .syms = syms, .step = 1};
    fusec_host h;
    assert_int_equal(fusec_host_init(&h, s.m, host_jit_kernels(jit), &memory, &options), FUSEC_OK);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        s.n = 0;
        assert_int_equal(fusec_host_run(&h, accumulate ? FUSEC_GRAD | FUSEC_ACCUMULATE : FUSEC_GRAD, &call), FUSEC_OK);
        assert_int_equal(s.n, s.m->n_grads);
        for (uint32_t g = 0; g < s.m->n_grads; g++)
            assert_memory_equal(s.copy + s.m->grads[g].offset, s.grads + s.m->grads[g].offset, s.m->grads[g].bytes);
    }
    s.n = 0;
    if (m->entry[ENTRY_INFER].present) assert_int_equal(fusec_host_run(&h, FUSEC_INFER, &call), FUSEC_OK);
    assert_int_equal(s.n, 0);
    fusec_host_free(&h);
    host_jit_free(jit);
}

static void gradients_are_reported_when_final(void **state) {
    int reported = 0;
    (void)state;
    for (int i = 0; i < PROGRAMS; i++) {
        const uint64_t seed = (uint64_t)(7000 + i);
        const RandomOptions o = {.ops = 4 + i % 18, .bounded = i % 3 == 0};
        Arena *a = arena_new();
        Graph *graphs[ENTRY_COUNT] = {[ENTRY_GRAD] = random_graph(a, ENTRY_GRAD, seed, o)};
        const Model *model = graphs[ENTRY_GRAD]->model;
        PassContext c = test_context(a, "host");
        Module *m = compile_module(&c, graphs);
        if (m) {
            TestRandom r = {seed};
            const TestData d = test_data(a, m, model, &r);
            check(a, m, &d);
            reported += m->grads.n;
        }
        arena_free(a);
    }
    assert_true(reported > PROGRAMS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_reported_when_final)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
