/* Host code and emitted C with every tensor between pages that must not be touched (tests/support/guard.h), against the
 * float64 evaluation: the examples at small sizes and random programs.  Host code runs as checked code too
 * (tests/support/checked.h) and must make the same numbers: in a sample of every EVERY_CHECKED-th random program and of
 * the examples on one processor, else of all programs.  The sample is eight random programs, which ./dev fuzz draws more of,
 * and each example by two of four ways in turn; SWEEP_ALL=1, as in ./dev fuzz: sixteen, and all ways.
 *
 *   test_guard [COUNT [SEED]]              so many random programs instead of a sample
 *   test_guard FILE.dsl[,NAME=VALUE..]...  these programs
 *
 * prints `guard programs N faults M wrong K`; a fault names the kernel, the tensor and how far beside it.  A program is a
 * process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "codegen/artifact/artifact.h"
#include "frontend/frontend.h"
#include "tests/support/checked.h"
#include "tests/support/differential.h"
#include "tests/support/guard.h"
#include "tests/support/low_precision.h"
#include "tests/support/scratch.h"
#include "tests/support/settled.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAMS = 8, MORE_PROGRAMS = 16, WAYS = 4, SET = 1000, EVERY_C = 4, EVERY_CHECKED = 4, MOST_FLOPS = 20000000, PATIENCE = 60 };

/* What run_guarded runs; TestRun has no room for it. */
static struct {
    Backend backend;
    HostOptions machine;
    Placing placing;
    Pieces pieces;
    bool checked; /* host code also as checked code */
} setting;

static int asked;    /* random programs */
static char **files; /* ending in NULL; NULL: a sample of everything */

static const HostOptions machines[] = {
    {0}, {.cpu = "x86-64-v3", .features = ""}, {.cpu = "x86-64-v2", .features = ""}};

/* ---- emitted C ------------------------------------------------------------------------------------------------- */
typedef struct Library {
    void *handle;
    const char *base; /* where it is loaded */
    VEC(uintptr_t) at; /* functions */
    VEC(const char *) name;
} Library;

static const char *function_at(const void *user, const void *pc) {
    const Library *l = user;
    const uintptr_t at = (uintptr_t)pc - (uintptr_t)l->base;
    const char *name = "no function";
    for (int i = 0; i < l->at.n && l->at.at[i] <= at; i++) name = l->name.at[i];
    return name;
}

static void read_functions(Arena *a, Library *l, const char *path) {
    FILE *f = popen(arena_printf(a, "nm -n %s", path), "r");
    unsigned long at;
    char kind, name[500];
    for (char line[600]; f && fgets(line, sizeof line, f);) {
        if (sscanf(line, "%lx %c %499s", &at, &kind, name) != 3 || (kind != 't' && kind != 'T')) continue;
        vec_push(a, l->at, (uintptr_t)at);
        vec_push(a, l->name, arena_strdup(a, name));
    }
    if (f) pclose(f);
}

static Library build_c(Arena *a, const Module *m) {
    const char *stem = arena_printf(a, "%s/m%d", scratch_folder(), (int)getpid());
    FILE *h = fopen(arena_printf(a, "%s.h", stem), "w"), *c = fopen(arena_printf(a, "%s.c", stem), "w");
    assert_true(h && c);
    artifact_header(h, m, &artifact_c99_form);
    const char *why = artifact_c99(c, m, strrchr(arena_printf(a, "%s.h", stem), '/') + 1);
    assert_true(fclose(h) == 0 && fclose(c) == 0);
    if (why) fail_msg("%s", why);
    scratch_shell(a, arena_printf(a, "cc -std=c99 -O1 -fno-inline -fPIC -shared %s.c -o %s.so", stem, stem));
    const char *path = arena_printf(a, "%s.so", stem);
    Library l = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!l.handle) fail_msg("%s", dlerror());
    Dl_info info;
    if (dladdr(load_symbol(l.handle, arena_printf(a, "%s_run", artifact_prefix(a, m))), &info)) l.base = info.dli_fbase;
    read_functions(a, &l, path);
    unlink(path);
    return l;
}

/* The last module that ran and its code: a module has several entries. */
static struct {
    const Module *m;
    Library c;
    HostJit *jit, *checked;
} built;

static void forget(void) {
    if (built.c.handle) dlclose(built.c.handle);
    host_jit_free(built.jit);
    host_jit_free(built.checked);
    memset(&built, 0, sizeof built);
}

static void build_host(const Module *m, char **why) {
    HostOptions o = setting.machine;
    built.jit = host_jit(m, &o, why);
    o.instrument = &checked_code;
    if (built.jit && setting.checked) built.checked = host_jit(m, &o, why);
}

/* False with *error. */
static bool build(const Module *m, const char **error) {
    char *why = NULL;
    if (built.m == m) return true;
    forget();
    if (setting.backend == BACKEND_C99)
        built.c = build_c(m->arena, m);
    else
        build_host(m, &why);
    if (why) *error = arena_strdup(m->arena, why);
    built.m = m;
    return !why;
}

static bool run_c(Arena *a, const Module *m, Entry e, const Guarded *g, const int64_t *syms, const char **error) {
    fusec_status (*call)(const fusec_memory *, int, const void *const *, void *const *, const float *, int32_t, uint32_t,
                         const int32_t *);
    void *symbol = load_symbol(built.c.handle, arena_printf(a, "%s_run", artifact_prefix(a, m)));
    memcpy(&call, &symbol, sizeof call);
    int32_t *extents = ARENA_ARRAY(a, int32_t, m->syms.n + 1);
    for (int i = 0; i < m->syms.n; i++) extents[i] = (int32_t)syms[i];
    const ModuleMemory *mem = &g->mem;
    const fusec_memory memory = {.params = mem->params, .param_bytes = (uint64_t)m->param_bytes,
                                 .states = mem->states, .state_bytes = (uint64_t)m->state_bytes,
                                 .grads = mem->grads, .grad_bytes = (uint64_t)m->grad_bytes,
                                 .arena = mem->arena, .arena_bytes = (uint64_t)m->entry[e].arena_bytes};
    guard_watch(g, function_at, &built.c);
    const fusec_status s =
        call(&memory, (int)e, (const void *const *)mem->inputs, mem->outputs, (const float *)&mem->scalars[SCALAR_HYPER0],
             mem->scalars[SCALAR_STEP], (uint32_t)mem->scalars[SCALAR_SEED], extents);
    guard_watch(NULL, NULL, NULL);
    if (s != FUSEC_OK && s != FUSEC_SKIPPED) *error = fusec_status_text(s);
    return s == FUSEC_OK || s == FUSEC_SKIPPED;
}

static bool run_host(const Module *m, Entry e, const HostJit *jit, const Guarded *g, const int64_t *syms) {
    const GuardKernels kernels = {m, host_jit_kernels(jit)};
    guard_watch(g, guard_kernel_at, &kernels);
    const bool ok = guard_run(m, kernels.kernels, e, &g->mem, syms, setting.pieces);
    guard_watch(NULL, NULL, NULL);
    return ok;
}

/* Checked code makes the same numbers; first, since it says more of a fault. */
static bool run_both(Arena *a, const Module *m, Entry e, const Guarded *g, const ModuleMemory *mem, const int64_t *syms,
                     const char **error) {
    Guarded *checked = built.checked ? guard_new(a, m, e, setting.placing, mem) : NULL;
    if (checked && !run_host(m, e, built.checked, checked, syms)) return false;
    const bool ok = run_host(m, e, built.jit, g, syms);
    if (checked && !guard_same(g, checked)) *error = "checked code makes other numbers";
    if (checked) guard_free(checked);
    return ok && !*error;
}

/* A TestRun. */
static bool run_guarded(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms,
                        const char **error) {
    if (!build(m, error)) return false;
    Guarded *g = guard_new(a, m, e, setting.placing, mem);
    const bool ok = setting.backend == BACKEND_C99 ? run_c(a, m, e, g, syms, error) : run_both(a, m, e, g, mem, syms, error);
    ModuleMemory to = *mem;
    guard_results(g, &to);
    guard_free(g);
    return ok;
}

/* ---- random programs ---------------------------------------------------------------------------------------------- */
static bool is_checked(int number) { return asked || number % EVERY_CHECKED == 0; }

static bool trial_agrees(Trial t, Backend backend, Placing placing) {
    Arena *a = arena_new();
    const char *name = backend == BACKEND_C99 ? "c99" : "host", *why;
    const TrialTarget target = {.name = name, .target = name, .run = run_guarded};
    setting.backend = backend;
    setting.placing = t.placing = placing;
    setting.machine = machines[t.number % 3];
    setting.checked = is_checked(t.number);
    setting.pieces = placing == PLACING_LOW ? PIECES_BACKWARDS : PIECES_THREADS;
    const bool agrees = trial_run(a, &t, &target, NULL, &why) != TRIAL_DIFFERS;
    if (!agrees) printf("WRONG program %d, %s: %s\n", t.number, name, why);
    forget();
    arena_free(a);
    return agrees;
}

static bool check_trial(const void *trial) {
    const Trial *t = trial;
    bool ok = true;
    for (Placing side = PLACING_LOW; side <= PLACING_HIGH; side++) {
        ok = trial_agrees(*t, BACKEND_HOST, side) && ok;
        if (t->number % EVERY_C == 0) ok = trial_agrees(*t, BACKEND_C99, side) && ok;
    }
    return ok;
}

/* ---- programs as text ---------------------------------------------------------------------------------------------- */
typedef struct Text {
    const char *path;
    Override override[8];
    int n;
} Text;

static Text text_of(Arena *a, const char *spec) {
    Text t = {.path = strtok(arena_strdup(a, spec), ",")};
    for (char *o; t.n < 8 && (o = strtok(NULL, ",")); t.n++) {
        char *value = strchr(o, '=');
        if (!value) fail_msg("%s: NAME=VALUE", o);
        *value = 0;
        t.override[t.n] = (Override){o, value + 1};
    }
    return t;
}

/* Several models: the last. */
static bool lower_file(Arena *a, const Text *t, Graph *g[ENTRY_COUNT]) {
    Diag *d = diag_new(a);
    const FrontendOptions o = {.overrides = t->override, .n_overrides = t->n};
    Program *p = program_load(a, d, t->path, &o);
    const bool ok = p && program_lower(a, d, p, program_model_name(p, program_models(p) - 1), g);
    if (!ok) diag_print(d, stdout);
    return ok;
}

static Module *compile_text(Arena *a, const Text *t, Graph *g[ENTRY_COUNT]) {
    PassContext c = test_context(a, setting.backend == BACKEND_C99 ? "c99" : "host");
    c.verify = false;
    c.placing = setting.placing;
    memset(g, 0, sizeof *g * ENTRY_COUNT);
    return lower_file(a, t, g) ? compile_module(&c, g) : NULL;
}

/* NULL: too much work. */
static const Tensor *expected(Arena *a, const Module *m, Graph *g, const EvalEnv *env, double *tolerance) {
    const char *error;
    double flops = 0;
    for (int i = 0; i < m->entry[g->entry].launches.n; i++)
        flops += kernel_cost(m->kernels.at[m->entry[g->entry].launches.at[i].kernel]).flops;
    if (flops > MOST_FLOPS) return NULL;
    const Tensor *values = graph_eval(a, g, env, &error);
    if (!values) fail_msg("%s", error);
    bool *skip = ARENA_ARRAY(a, bool, g->results.n + 1);
    find_unsettled(a, g, env, values, skip);
    for (int i = 0; i < g->results.n; i++) tolerance[i] = skip[i] ? -1 : 1e-3;
    return values;
}

/* FNV-1a, 64 bit. */
static uint64_t hash_bytes(uint64_t h, const void *data, int64_t n) {
    for (int64_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_tensors(uint64_t h, const ModuleTensor *t, int n, const void *at) {
    for (int i = 0; i < n; i++) h = hash_bytes(h, (const char *)at + t[i].offset, t[i].bytes);
    return h;
}

/* Every bit that an entry may have left; it is the same wherever tensors lie. */
static uint64_t hash_results(const Module *m, const ModuleMemory *mem) {
    uint64_t h = hash_tensors(0xcbf29ce484222325u, m->params.at, m->params.n, mem->params);
    h = hash_tensors(h, m->states.at, m->states.n, mem->states);
    h = hash_tensors(h, m->grads.at, m->grads.n, mem->grads);
    for (int i = 0; i < m->outputs.n; i++) h = hash_bytes(h, mem->outputs[i], m->outputs.at[i].bytes);
    return h;
}

static const char *run_entry(Arena *a, const Module *m, Graph *g, TestData *d) {
    PassContext c = test_context(a, "host");
    const char *error = NULL;
    const bool low = is_low_precision(g); /* then the order of its roundings is the target's to choose */
    c.report = NULL;
    g = pass_autodiff(&c, g);
    double *tolerance = ARENA_ARRAY(a, double, g->results.n + 1);
    test_data_reread(m, g->model, d);
    const Tensor *values = low ? NULL : expected(a, m, g, &d->env, tolerance);
    if (values) return oracle_compare_values(a, g, values, m, d, run_guarded, tolerance);
    run_guarded(a, m, g->entry, &d->mem, d->syms, &error);
    return error;
}

static bool every(void) { return files || getenv("SWEEP_ALL"); }

/* *hash: of all results, after all entries; 0: refused. */
static bool text_agrees(const Text *t, Backend backend, Placing placing, int machine, uint64_t *hash) {
    static const Entry order[] = {ENTRY_INIT, ENTRY_DERIVE, ENTRY_INFER, ENTRY_GRAD, ENTRY_STEP};
    Arena *a = arena_new();
    Graph *g[ENTRY_COUNT];
    TestRandom r = {7};
    const char *why = NULL;
    setting.backend = backend;
    setting.placing = placing;
    setting.machine = machines[machine];
    setting.checked = files || (machine == 0 && placing == PLACING_LOW);
    setting.pieces = placing == PLACING_LOW ? PIECES_BACKWARDS : PIECES_THREADS;
    const Module *m = compile_text(a, t, g);
    *hash = 0;
    if (!m) return printf("WRONG %s: no module\n", t->path), arena_free(a), false;
    TestData d = test_data(a, m, g[ENTRY_INFER]->model, &r);
    for (size_t i = 0; i < sizeof order / sizeof *order && !why; i++)
        if (g[order[i]] && m->entry[order[i]].present) {
            why = run_entry(a, m, g[order[i]], &d);
            *hash = hash_bytes(*hash, &(uint64_t){hash_results(m, &d.mem)}, 8);
        }
    if (why) printf("WRONG %s, %s: %s\n", t->path, backend == BACKEND_C99 ? "c99" : "host", why);
    forget();
    arena_free(a);
    return !why;
}

/* An example on three machines, and as C. */
static bool check_ways(const char *spec, int first, int step) {
    Arena *a = arena_new();
    const Text t = text_of(a, spec);
    bool ok = true;
    for (int way = first; way < WAYS; way += step) {
        const Backend backend = way == 3 ? BACKEND_C99 : BACKEND_HOST;
        uint64_t low, high;
        ok = text_agrees(&t, backend, PLACING_LOW, way % 3, &low) && ok;
        ok = text_agrees(&t, backend, PLACING_HIGH, way % 3, &high) && ok;
        if (low != high) printf("WRONG %s, way %d: not the same numbers low and high\n", t.path, way);
        ok = ok && low == high;
    }
    arena_free(a);
    return ok;
}

static bool check_text(const void *spec) { return check_ways(spec, 0, 1); }
static bool check_even(const void *spec) { return check_ways(spec, 0, 2); }
static bool check_odd(const void *spec) { return check_ways(spec, 1, 2); }

/* ---- counting ------------------------------------------------------------------------------------------------------ */
static struct {
    int programs, faults, wrong;
} total;

/* In a process of its own, which a fault ends. */
static void count(bool check(const void *), const void *program, const char *name) {
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) fail_msg("no process");
    if (child == 0) {
        alarm(PATIENCE); /* a compile that does not end is a find as well */
        signal(SIGABRT, SIG_DFL);
        const bool ok = check(program);
        fflush(NULL);
        exit(!ok); /* _exit would lose the counters of coverage */
    }
    while (waitpid(child, &status, 0) < 0) continue;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    total.programs++;
    total.faults += code == GUARD_FAULT;
    total.wrong += code != 0 && code != GUARD_FAULT;
    if (code) printf("^ %s: exit %d, signal %d\n", name, code, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static uint64_t seed;    /* of theirs */

static void count_random(int programs) {
    TrialSet *set = trial_set(programs < SET ? SET : programs, seed); /* what a set must reach is spread over its programs */
    for (int i = 0; i < programs; i++) {
        Arena *a = arena_new();
        const Trial t = trial_next(set, a);
        count(check_trial, &t, t.graph->model->name);
        arena_free(a);
    }
    trial_set_free(set);
}

static void nothing_outside(void **state) {
    static const char *const examples[] = {"digits/mlp.dsl,B=5", "digits/cnn.dsl,B=3", "firmware/digits.dsl",
                                           "chargpt/chargpt.dsl,B=1,T=9,L=1,C=24",
                                           "ecg/ecg.dsl,B=5", "../tests/data/overflow.dsl"}; /* others: `test_guard FILE` */
    (void)state;
    for (int i = 0; files && files[i]; i++) count(check_text, files[i], files[i]);
    for (size_t i = 0; !files && !asked && i < sizeof examples / sizeof *examples; i++) {
        Arena *a = arena_new();
        count(every() ? check_text : i % 2 ? check_odd : check_even, arena_printf(a, "%s/examples/%s", SOURCE_DIR, examples[i]),
              examples[i]);
        arena_free(a);
    }
    if (!files) count_random(asked ? asked : every() ? MORE_PROGRAMS : PROGRAMS);
    printf("guard programs %d faults %d wrong %d\n", total.programs, total.faults, total.wrong);
    assert_int_equal(total.faults + total.wrong, 0);
}

/* What the count means: code that reads an element too far, or writes one too early, faults. */
static bool read_beside(const void *side) {
    Arena *a = arena_new();
    const bool high = *(const Placing *)side == PLACING_HIGH;
    float value[3] = {1, 2, 3};
    void *inputs[] = {value};
    Module m = {.arena = a, .name = "m", .align = 256};
    const ModuleMemory from = {.inputs = inputs, .scalars = ARENA_ARRAY(a, int32_t, SCALAR_HYPER0)};
    vec_push(a, m.inputs, ((ModuleTensor){.name = "x", .dtype = DT_F32, .bytes = sizeof value}));
    Guarded *g = guard_new(a, &m, ENTRY_INFER, *(const Placing *)side, &from);
    const GuardKernels none = {&m, NULL};
    const volatile float *x = g->mem.inputs[0];
    const float inside = x[0] + x[2];
    guard_watch(g, guard_kernel_at, &none);
    return inside + (high ? x[3] : x[-1]) == 0;
}

static void a_fault_is_seen(void **state) {
    static const Placing sides[] = {PLACING_LOW, PLACING_HIGH};
    (void)state;
    for (int i = 0; i < 2; i++) count(read_beside, &sides[i], "the test of the test, as it should");
    assert_int_equal(total.faults, 2);
    memset(&total, 0, sizeof total);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_fault_is_seen), cmocka_unit_test(nothing_outside)};
    asked = argc > 1 && strspn(argv[1], "0123456789") == strlen(argv[1]) ? atoi(argv[1]) : 0;
    if (asked && argc > 2) seed = strtoull(argv[2], NULL, 10);
    if (argc > 1 && !asked) files = argv + 1;
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
