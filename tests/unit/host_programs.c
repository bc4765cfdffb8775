/* Random programs of every entry through the whole pipeline, as host code under the host runtime with two
 * threads, against the float64 evaluation of the graph they came from; f32 to 1e-4 of each tensor's scale. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "codegen/host/host.h"
#include "tests/support/oracle.h"
#include "tests/support/random_graph.h"
#include <stdlib.h>
#include <string.h>

enum { PROGRAMS = 60, MAX_REFUSED = 4 };
static const Entry entries[] = {ENTRY_INFER, ENTRY_GRAD, ENTRY_STEP};

static void refused(void *user, bool is_error, SrcLoc loc, const char *message, const char *help) {
    (void)user, (void)loc, (void)help;
    if (is_error && strstr(message, "internal error")) fail_msg("%s", message);
}

/* A region of the runtime's alignment that starts as `from`; the runtime asks for no empty ones. */
typedef struct RegionCopy {
    void *data, *from;
    size_t bytes;
} RegionCopy;

static RegionCopy block(const Module *m, void *from, int64_t bytes) {
    const size_t align = (size_t)m->align, n = ((size_t)bytes + align) / align * align;
    RegionCopy b = {.data = aligned_alloc(align, n), .from = from, .bytes = (size_t)bytes};
    assert_non_null(b.data);
    if (bytes) memcpy(b.data, from, (size_t)bytes);
    return b;
}

static void block_back(RegionCopy *b) {
    if (b->bytes) memcpy(b->from, b->data, b->bytes);
    free(b->data);
}

static bool run(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms, const char **error) {
    char *message = NULL;
    HostJit *j = host_jit(m, NULL, &message);
    if (!j) fail_msg("%s", message);
    RegionCopy params = block(m, mem->params, m->param_bytes), states = block(m, mem->states, m->state_bytes);
    RegionCopy grads = block(m, mem->grads, m->grad_bytes), arena = block(m, mem->arena, m->entry[e].arena_bytes);
    const fusec_memory memory = {.params = params.data,
                                 .param_bytes = params.bytes,
                                 .states = states.data,
                                 .state_bytes = states.bytes,
                                 .grads = grads.data,
                                 .grad_bytes = grads.bytes,
                                 .arena = arena.data,
                                 .arena_bytes = arena.bytes};
    const fusec_options options = {.seed = (uint32_t)mem->scalars[SCALAR_SEED], .threads = 2};
    int32_t *extents = ARENA_ARRAY(a, int32_t, m->syms.n + 1);
    for (int i = 0; i < m->syms.n; i++) extents[i] = (int32_t)syms[i];
    fusec_host h;
    fusec_status s = fusec_host_init(&h, host_jit_manifest(j), host_jit_kernels(j), &memory, &options);
    const fusec_host_call call = {.inputs = (const void *const *)mem->inputs,
                                  .outputs = mem->outputs,
                                  .syms = extents,
                                  .hypers = (const float *)(mem->scalars + SCALAR_HYPER0),
                                  .step = mem->scalars[SCALAR_STEP]};
    const bool accumulate = e == ENTRY_GRAD && mem->scalars[SCALAR_ACCUMULATE];
    if (s == FUSEC_OK) s = fusec_host_run(&h, (int)e | (accumulate ? FUSEC_ACCUMULATE : 0), &call);
    fusec_host_free(&h);
    block_back(&params);
    block_back(&states);
    block_back(&grads);
    block_back(&arena);
    host_jit_free(j);
    *error = fusec_status_text(s);
    return s == FUSEC_OK;
}

static void random_programs_agree(void **state) {
    (void)state;
    int n_refused = 0;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        Arena *a = arena_new();
        const Entry e = entries[seed % 3];
        const RandomOptions options = {.ops = 30, .bounded = seed % 2, .empty = seed % 5 == 0};
        PassContext c = test_context(a, "host");
        Graph *graphs[ENTRY_COUNT] = {NULL};
        graphs[e] = random_graph(a, e, seed, options);
        c.report = refused;
        const Module *m = compile_module(&c, graphs);
        if (m) {
            Graph *g = random_graph(a, e, seed, options);
            TestRandom r = {seed};
            TestData d = test_data(a, m, g->model, &r);
            const char *why = oracle_compare(a, g, m, &d, run, 1e-4);
            if (why) fail_msg("seed %d: %s", (int)seed, why);
        } else {
            n_refused++;
        }
        arena_free(a);
    }
    assert_true(n_refused <= MAX_REFUSED);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
