/* Random programs of every entry, compiled to MODEL.c by the whole pipeline, by gcc with the strictest flags, run and
 * compared with the float64 evaluation of the graph they came from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "codegen/artifact/artifact.h"
#include "tests/support/oracle.h"
#include "tests/support/random_graph.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROGRAMS = 48, MAX_REFUSED = 4 };
static const Entry entries[] = {ENTRY_INFER, ENTRY_GRAD, ENTRY_STEP};
static char folder[] = "/tmp/fusec-random-XXXXXX";
static void *library;

static void refused(void *user, bool is_error, SrcLoc loc, const char *message, const char *help) {
    (void)user, (void)loc, (void)help;
    if (is_error && strstr(message, "internal error")) fail_msg("%s", message);
}

static RandomOptions options(uint64_t seed) {
    return (RandomOptions){.ops = 25, .bounded = seed % 2, .empty = seed % 5 == 0};
}

static Graph *graph_of(Arena *a, uint64_t seed) { return random_graph(a, entries[seed % 3], seed, options(seed)); }

/* NULL for the few programs that the pipeline refuses with a diagnostic. */
static Module *module_of(Arena *a, uint64_t seed) {
    PassContext c = test_context(a, "c99");
    Graph *graphs[ENTRY_COUNT] = {NULL};
    Graph *g = graphs[entries[seed % 3]] = graph_of(a, seed);
    g->model->name = arena_printf(a, "p%d", (int)seed);
    c.report = refused;
    return compile_module(&c, graphs);
}

static void emit(Arena *a, const Module *m) {
    const char *header = arena_printf(a, "%s.h", m->name);
    FILE *f = fopen(arena_printf(a, "%s/%s", folder, header), "w");
    artifact_header(f, m, BACKEND_C99);
    fclose(f);
    f = fopen(arena_printf(a, "%s/%s.c", folder, m->name), "w");
    const char *why = artifact_c99(f, m, header);
    fclose(f);
    if (why) fail_msg("%s", why);
}

/* The 64 bytes after each block are the test's, and zero: what the model says it needs is what it touches. */
static bool is_untouched(const void *block, int64_t bytes) {
    const char *after = (const char *)block + bytes;
    for (int i = 0; i < 64; i++)
        if (after[i]) return false;
    return true;
}

static bool run(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms, const char **error) {
    fusec_status (*call)(const fusec_memory *, int, const void *const *, void *const *, const float *, int32_t,
                         uint32_t, const int32_t *);
    void *symbol = dlsym(library, arena_printf(a, "%s_run", m->name));
    memcpy(&call, &symbol, sizeof call);
    int32_t *small = ARENA_ARRAY(a, int32_t, m->syms.n + 1);
    for (int i = 0; i < m->syms.n; i++) small[i] = (int32_t)syms[i];
    const fusec_memory memory = {.params = mem->params,
                                 .param_bytes = (uint64_t)m->param_bytes,
                                 .states = mem->states,
                                 .state_bytes = (uint64_t)m->state_bytes,
                                 .grads = mem->grads,
                                 .grad_bytes = (uint64_t)m->grad_bytes,
                                 .arena = mem->arena,
                                 .arena_bytes = (uint64_t)m->entry[e].arena_bytes};
    float hyper[64];
    for (int i = 0; i < m->hypers.n && i < 64; i++) memcpy(&hyper[i], &mem->scalars[SCALAR_HYPER0 + i], 4);
    const fusec_status s = call(&memory, (int)e, (const void *const *)mem->inputs, mem->outputs, hyper,
                                mem->scalars[SCALAR_STEP], (uint32_t)mem->scalars[SCALAR_SEED], small);
    *error = fusec_status_text(s);
    int64_t most = 0; /* the arena was made for the largest entry */
    for (int i = 0; i < ENTRY_COUNT; i++)
        if (m->entry[i].arena_bytes > most) most = m->entry[i].arena_bytes;
    assert_true(is_untouched(mem->params, m->param_bytes) && is_untouched(mem->states, m->state_bytes));
    assert_true(is_untouched(mem->grads, m->grad_bytes) && is_untouched(mem->arena, most));
    return s == FUSEC_OK;
}

static void random_programs_agree(void **state) {
    (void)state;
    char *files = NULL;
    int n_refused = 0;
    Arena *all = arena_new();
    files = arena_strdup(all, "");
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        Arena *a = arena_new();
        const Module *m = module_of(a, seed);
        if (m) {
            emit(a, m);
            files = arena_printf(all, "%s %s.c", files, m->name);
        } else
            n_refused++;
        arena_free(a);
    }
    assert_true(n_refused <= MAX_REFUSED);
    const char *command =
        arena_printf(all,
                     "cd %s && gcc -std=c99 -pedantic -Wall -Wextra -Werror -ffreestanding -ffp-contract=off -O1 "
                     "-fsanitize=undefined -fsanitize-undefined-trap-on-error -shared -fPIC -o all.so %s",
                     folder, files);
    if (system(command) != 0) fail_msg("%s", command);
    library = dlopen(arena_printf(all, "%s/all.so", folder), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        Arena *a = arena_new();
        const Module *m = module_of(a, seed);
        TestRandom r = {seed};
        if (m) {
            Graph *g = graph_of(a, seed);
            TestData d = test_data(a, m, g->model, &r);
            const char *why = oracle_compare(a, g, m, &d, run, 1e-4);
            if (why) fail_msg("seed %d: %s", (int)seed, why);
        }
        arena_free(a);
    }
    dlclose(library);
    arena_free(all);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs_agree)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
