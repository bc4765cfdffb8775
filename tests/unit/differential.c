/* Random programs of every entry through the whole pipeline and every back end, against the float64 evaluation of
 * the graph they came from: `interp`, `host`, `c99`, and `cuda`, PTX on the software GPU: for sm_80, those in
 * low precision and some others for sm_90a and sm_90 too; one run stands for all whose text is equal.  Each counts what
 * its programs reach, and fails where that is too little (coverage.h).  Without arguments: all but host
 * and cuda, which are tests of their own.  A second argument is the number of one program, as is printed where one fails, or
 * `all`: the back ends that take long run some of the programs otherwise.  Then a seed for other programs, and how many of them.
 *
 * Tolerance: |x - y| <= t * (s + |y|), s the largest magnitude of the tensor, at least 1; t = 1e-4 in f32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "codegen/artifact/artifact.h"
#include "codegen/host/host.h"
#include "codegen/nvptx/nvptx.h"
#include "tests/support/differential.h"
#include "tests/support/low_precision.h"
#include "tests/support/scratch.h"
#include "frontend/frontend.h"
#include "tools/fusec/executor.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PROGRAMS = 1000,
    EVERY = 6,   /* a back end that takes long runs one in so many, ./dev fuzz all; the others are compiled, for what they reach */
    EVERY_LOW = 3, /* the same of low precision, which matrix instructions multiply */
    EVERY_C = 4, EVERY_C_LOW = 2, /* the same of C, which has no hunt of all */
    SHRUNK = 3,  /* of many failures the first few are made small */
};

/* The executor under test: TestRun has no room for it. */
static const ExecutorKind *kind;
static const char *arch;
/* The programs that run are smaller than those of the set. */
static bool shrinking;
/* From the command line: run this program only; -1: all. */
static int only = -1;
static bool whole_set;
static uint64_t seed;
static int programs = PROGRAMS;

/* What a set reaches is asked of the whole one. */
static bool is_part(void) { return only >= 0 || seed || programs < PROGRAMS; }

static fusec_memory memory_of(const Module *m, Entry e, const ModuleMemory *mem) {
    return (fusec_memory){.params = mem->params,
                          .param_bytes = (uint64_t)m->param_bytes,
                          .states = mem->states,
                          .state_bytes = (uint64_t)m->state_bytes,
                          .grads = mem->grads,
                          .grad_bytes = (uint64_t)m->grad_bytes,
                          .arena = mem->arena,
                          .arena_bytes = (uint64_t)m->entry[e].arena_bytes};
}

static ExecutorCall call_of(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms) {
    int32_t *extents = ARENA_ARRAY(a, int32_t, m->syms.n + 1);
    for (int i = 0; i < m->syms.n; i++) extents[i] = (int32_t)syms[i];
    float *hypers = ARENA_ARRAY(a, float, m->hypers.n + 1);
    memcpy(hypers, &mem->scalars[SCALAR_HYPER0], sizeof *hypers * (size_t)m->hypers.n);
    return (ExecutorCall){.entry = e,
                          .inputs = mem->inputs,
                          .outputs = mem->outputs,
                          .hypers = hypers,
                          .syms = extents,
                          .step = mem->scalars[SCALAR_STEP],
                          .seed = (uint32_t)mem->scalars[SCALAR_SEED]};
}

/* The code of a module that was looked at before it runs. */
static struct {
    const Module *of;
    const char *text;
} ready;

static bool run(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms, const char **error) {
    const ExecutorOptions options = {.arch = arch, .ptx = ready.of == m ? ready.text : NULL, .threads = 2};
    void *self = kind->open(a, m, &options, error);
    if (!self) return false;
    const fusec_memory memory = memory_of(m, e, mem);
    const ExecutorCall call = call_of(a, m, e, mem, syms);
    bool ok = !kind->upload || kind->upload(self, &memory, error);
    ok = ok && kind->run(self, &memory, &call, error);
    ok = ok && (!kind->download || kind->download(self, &memory, error));
    kind->close(self);
    return ok;
}

static bool is_asked(const Trial *t) {
    const bool low = is_low_precision(t->graph), c = kind == &executor_c99;
    const int every = c ? (low ? EVERY_C_LOW : EVERY_C) : low ? EVERY_LOW : EVERY;
    const bool runs = whole_set || kind == executor_find("interp") || t->number % every == 0;
    return only < 0 ? runs : only == t->number;
}

/* ---- C: all programs in one library, so that the compiler is started a few times only ---------------------------- */
static void *library;

static void write_model(Arena *a, const Module *m) {
    const char *header = arena_printf(a, "%s.h", m->name);
    FILE *h = fopen(arena_printf(a, "%s/%s", scratch_folder(), header), "w");
    FILE *c = fopen(arena_printf(a, "%s/%s.c", scratch_folder(), m->name), "w");
    assert_true(h && c);
    artifact_header(h, m, &artifact_c99_form);
    const char *why = artifact_c99(c, m, header);
    assert_true(fclose(h) == 0 && fclose(c) == 0);
    if (why) fail_msg("%s: %s", m->name, why);
}

static void build_library(void) {
    TrialSet *set = trial_set(PROGRAMS, seed);
    for (int i = 0; i < PROGRAMS; i++) {
        Arena *a = arena_new();
        const char *why;
        const Trial t = trial_next(set, a);
        const Module *m = is_asked(&t) ? trial_compile(a, &t, "c99", NULL, &why) : NULL;
        if (m) write_model(a, m);
        arena_free(a);
    }
    scratch_shell(set->arena, "cc=$(command -v tcc || echo cc -O0) && ls p*.c | xargs -P \"$(nproc)\" -n 25 $cc -std=c99 -ffp-contract=off -fPIC -c && "
                              "ls p*.o | xargs $cc -shared -o all.so");
    library = dlopen(arena_printf(set->arena, "%s/all.so", scratch_folder()), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    trial_set_free(set);
}

/* A program that is made smaller is not in the library: it is compiled by itself. */
static bool run_library(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms,
                        const char **error) {
    fusec_status (*call)(const fusec_memory *, int, const void *const *, void *const *, const float *, int32_t,
                         uint32_t, const int32_t *);
    if (shrinking) return run(a, m, e, mem, syms, error);
    void *symbol = load_symbol(library, arena_printf(a, "%s_run", m->name));
    memcpy(&call, &symbol, sizeof call);
    const fusec_memory memory = memory_of(m, e, mem);
    const ExecutorCall c = call_of(a, m, e, mem, syms);
    const fusec_status s =
        call(&memory, (int)e, (const void *const *)c.inputs, c.outputs, c.hypers, c.step, c.seed, c.syms);
    if (s != FUSEC_OK) *error = fusec_status_text(s);
    return s == FUSEC_OK;
}

/* ---- all programs on one back end -------------------------------------------------------------------------------- */
/* The second architecture is for programs with a precision, which matrix instructions are for; of the others one in so
 * many. */
enum { MOST_ARCHS = 3, EVERY_SECOND = 8, EVERY_THIRD = 16 };

typedef struct Suite {
    const char *const *archs;
    int n_archs;
    int count[TRIAL_DIFFERS + 1];
    int matrix[MOST_ARCHS]; /* kernels with matrix instructions that ran, by architecture */
    int warpgroup;          /* those of them with wgmma */
    int warpgroup_programs; /* programs that have such kernels */
    int pairs, pair_programs; /* kernels that multiply pairs of bf16 on this machine; programs with one */
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

static void report_failure(Arena *a, const Trial *t, const TrialTarget *target, const char *why, bool shrink) {
    Failure failure = {.target = target, .internal = is_internal(why)};
    print_error("%s %s, program %d: %s\n", kind->name, arch ? arch : "", t->number, why);
    if (!shrink) return;
    shrinking = true;
    const Trial least = trial_shrink(a, t, still_differs, &failure);
    trial_run(a, &least, target, NULL, &why);
    shrinking = false;
    print_error("least program that still fails: %s\n", why);
    trial_print(stderr, &least);
    print_error("to see it again: test_differential %s %d %llu\n", kind->name, t->number, (unsigned long long)seed);
}

/* ---- one program for several architectures -------------------------------------------------------------------- */
typedef struct Texts {
    Suite *suite;
    int n, arch;
    const char *of[MOST_ARCHS]; /* that ran */
} Texts;

/* Kernels whose text has this instruction. */
static int kernels_with(const char *ptx, const char *instruction) {
    int n = 0;
    for (const char *at = strstr(ptx, ".entry"), *next; at; at = next) {
        const char *found = strstr(at, instruction);
        next = strstr(at + 1, ".entry");
        n += found && (!next || found < next);
    }
    return n;
}

/* What follows .version and .target; NULL: no such text, as running it will say. */
static const char *body_of(Arena *a, const Module *m) {
    const NvptxOptions o = {.arch = arch};
    char *text = NULL, *why = NULL;
    const bool made = nvptx_emit_ptx(m, &o, &text, &why);
    if (made) ready.of = m, ready.text = arena_strdup(a, text);
    free(text);
    free(why);
    return made ? strstr(ready.text, ".address_size") : NULL;
}

static bool ran_already(void *user, Arena *a, const Module *m) {
    Texts *t = user;
    const char *body = body_of(a, m);
    if (!body) return false;
    const int warpgroup = kernels_with(body, "wgmma.mma_async");
    t->suite->matrix[t->arch] += kernels_with(body, "mma.sync") + warpgroup;
    t->suite->warpgroup += warpgroup;
    t->suite->warpgroup_programs += warpgroup > 0;
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->of[i], body)) return true;
    t->of[t->n++] = body;
    return false;
}

/* Kernels that multiply pairs of bf16, as this processor may; the program runs all the same. */
static bool counts_pairs(void *user, Arena *a, const Module *m) {
    Suite *s = user;
    char *why = NULL;
    const HostProducts *of = host_products(a, m, &(HostOptions){0}, &why);
    int kernels = 0;
    if (!of) fail_msg("%s", why);
    for (int i = 0; i < m->kernels.n; i++) kernels += of[i].pairs > 0;
    s->pairs += kernels;
    s->pair_programs += kernels > 0;
    return false;
}

static bool has_arch(const Trial *t, int i) {
    return i == 0 || (i == 1 && is_low_precision(t->graph)) || t->number % (i == 1 ? EVERY_SECOND : EVERY_THIRD) == 0;
}

static TrialResult check_archs(Suite *s, Arena *a, const Trial *t, uint32_t *fired) {
    TrialResult worst = TRIAL_AGREES;
    Texts texts = {.suite = s};
    for (int i = 0; i < s->n_archs && has_arch(t, i); i++) {
        const char *why;
        arch = s->archs[i];
        texts.arch = i;
        TrialTarget target = {.name = kind->name, .target = kind->target(arch), .run = library ? run_library : run};
        if (arch && has_arch(t, 1)) target.stands = ran_already, target.user = &texts;
        if (kind == &executor_host && is_low_precision(t->graph)) target.stands = counts_pairs, target.user = s;
        const TrialResult result = trial_run(a, t, &target, i == 0 ? fired : NULL, &why);
        target.stands = NULL, ready.of = NULL;
        if (result == TRIAL_DIFFERS) report_failure(a, t, &target, why, s->count[result] < SHRUNK);
        if (result > worst) worst = result;
    }
    return worst;
}

static void check(Suite *s, TrialSet *set) {
    Arena *a = arena_new();
    const Trial t = trial_next(set, a);
    const char *ignored;
    if (is_asked(&t))
        s->count[check_archs(s, a, &t, set->coverage->fired)]++;
    else
        trial_compile(a, &t, kind->target(s->archs[0]), set->coverage->fired, &ignored);
    arena_free(a);
}

/* ---- crashes: the programs of a back end run in a process of their own ------------------------------------------- */
typedef struct Summary {
    int number; /* of the program that runs */
    Suite suite; /* as it is then */
    int shortages;
    TrialTally tally;
} Summary;

typedef struct Crash {
    const Suite *suite;
    int signal;
} Crash;

/* The signal that ends a process which does this; 0: none. */
static int signal_of(void (*work)(void *), void *user) {
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) fail_msg("no process");
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* not cmocka's */
        signal(SIGABRT, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        signal(SIGFPE, SIG_DFL);
        signal(SIGILL, SIG_DFL);
        work(user);
        fflush(NULL);
        exit(0); /* _exit would lose the counters of coverage */
    }
    while (waitpid(child, &status, 0) < 0) continue;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

typedef struct Attempt {
    const Suite *suite;
    const Trial *trial;
} Attempt;

static void attempt(void *user) {
    const Attempt *x = user;
    const char *why;
    if (!freopen("/dev/null", "w", stderr)) return;
    for (int i = 0; i < x->suite->n_archs; i++) {
        arch = x->suite->archs[i];
        const TrialTarget target = {.name = kind->name, .target = kind->target(arch), .run = run};
        trial_run(arena_new(), x->trial, &target, NULL, &why);
    }
}

static bool still_crashes(void *user, Arena *a, const Trial *t, const char **why) {
    const Crash *crash = user;
    Attempt x = {crash->suite, t};
    const int s = signal_of(attempt, &x);
    *why = arena_printf(a, "signal %d", s);
    return s == crash->signal;
}

static void report_crash(const Suite *s, int number, int sig) {
    TrialSet *set = trial_set(PROGRAMS, seed);
    Arena *a = arena_new();
    Crash crash = {s, sig};
    Trial t = trial_next(set, a);
    while (t.number < number) t = trial_next(set, a);
    print_error("%s, program %d: signal %d\n", kind->name, number, sig);
    const Trial least = trial_shrink(a, &t, still_crashes, &crash);
    print_error("least program that still does:\n");
    trial_print(stderr, &least);
    print_error("to see it again: test_differential %s %d %llu\n", kind->name, number, (unsigned long long)seed);
    arena_free(a);
    trial_set_free(set);
}

typedef struct All {
    Suite *suite;
    Summary *summary; /* shared with the parent */
} All;

static void check_programs(void *user) {
    const All *x = user;
    TrialSet *set = trial_set(PROGRAMS, seed);
    for (int i = 0; i < programs; i++) {
        x->summary->number = i;
        check(x->suite, set);
    }
    x->summary->tally = set->tally;
    set->coverage->one_core = executor_find("c99") == kind;
    set->coverage->no_tiles = executor_find("cuda") != kind;
    const Device *device = target_find(kind->target(x->suite->archs[0]))->device;
    set->coverage->sums_apart = !device->takes_sums;
    set->coverage->no_turns = !device->takes_turns;
    set->coverage->no_bundles = !device->has_bundles;
    x->summary->suite = *x->suite;
    x->summary->shortages = !is_part() ? coverage_report(stdout, set->coverage) : 0;
    trial_set_free(set);
}

/* Does this machine multiply pairs of bf16? */
static bool has_pairs(void) {
    static const char text[] = "kernel @p(%x: bf16[16,16], %y: bf16[16,64], %z: f32[16,64] out)\n"
                               "  span m in 0..16 step 16\n  span n in 0..64 step 64\n  span k in 0..16 step 16\n"
                               "  %0 = load %x[m, k] : bf16[m:16,k:16]\n  %1 = cast %0 : f32[m:16,k:16]\n"
                               "  %2 = load %y[k, n] : bf16[n:64,k:16]\n  %3 = cast %2 : f32[n:64,k:16]\n"
                               "  %4 = full 0 : f32[m:16,n:64]\n  %5 = dot %1, %3, %4 over k : f32[m:16,n:64]\n"
                               "  store %z[m, n], %5\n";
    Arena *a = arena_new();
    Module m = {.arena = a, .name = "m", .source = "test", .align = 64};
    const char *error = NULL;
    char *why = NULL;
    Kernel *k = kernel_parse(a, text, &error);
    assert_null(error);
    vec_push(a, m.kernels, k);
    const HostProducts *of = host_products(a, &m, &(HostOptions){0}, &why);
    if (!of) fail_msg("%s", why);
    const bool pairs = of->pairs > 0;
    arena_free(a);
    return pairs;
}

static void check_pairs(const Suite *s) {
    if (!has_pairs()) {
        print_message("host: this processor does not multiply pairs of bf16: skipped\n");
        return;
    }
    print_message("host: %d kernels of bf16 pairs in %d programs\n", s->pairs, s->pair_programs);
    assert_true(s->pair_programs >= (int)coverage_least());
}

/* Refused programs and skipped results are few enough for the others to stand for all. */
static void check_all(const char *name, const char *const *archs, int n_archs) {
    Suite s = {.archs = archs, .n_archs = n_archs};
    Summary *all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(all, MAP_FAILED);
    kind = executor_find(name);
    assert_non_null(kind);
    const int sig = signal_of(check_programs, &(All){&s, all});
    if (sig) report_crash(&s, all->number, sig);
    const Summary sum = *all;
    munmap(all, sizeof *all);
    const int *count = sum.suite.count;
    print_message("%s: %d programs agree, %d differ, %d refused; of %d results %d skipped\n", name, count[TRIAL_AGREES],
                  count[TRIAL_DIFFERS], count[TRIAL_REFUSED], sum.tally.results, sum.tally.skipped);
    for (int i = 0; i < n_archs && archs[i]; i++) print_message("%s: %d matrix kernels\n", archs[i], sum.suite.matrix[i]);
    print_message("graphs programs %d wrong %d\n", count[TRIAL_AGREES] + count[TRIAL_DIFFERS], count[TRIAL_DIFFERS] + (sig != 0));
    assert_int_equal(sig, 0);
    assert_true(sum.tally.results > 0);
    assert_int_equal(count[TRIAL_DIFFERS], 0);
    assert_true(is_part() || count[TRIAL_REFUSED] * 50 <= PROGRAMS);
    assert_true(is_part() || sum.tally.skipped * 400 <= sum.tally.results);
    assert_int_equal(sum.shortages, 0);
    if (is_part()) return;
    if (kind == &executor_host) check_pairs(&sum.suite);
    if (!archs[0]) return;
    print_message("%d kernels of warpgroups in %d programs\n", sum.suite.warpgroup, sum.suite.warpgroup_programs);
    for (int i = 0; i < 2; i++) assert_true(sum.suite.matrix[i] >= (int)coverage_least());
    assert_true(sum.suite.warpgroup_programs >= (int)coverage_least());
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
    kind = &executor_c99;
    build_library();
    check_all("c99", no_arch, 1);
    dlclose(library);
    library = NULL;
}

/* The software GPU of this build, wherever LD_LIBRARY_PATH points: later loads by name find it. */
static bool have_simulator(void) {
    static void *simulator;
    if (!simulator) simulator = dlopen(BUILD_DIR "/ptxsim/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return simulator != NULL;
}
static void ptx_agrees(void **state) {
    static const char *const archs[MOST_ARCHS] = {"sm_80", "sm_90a", "sm_90"};
    (void)state;
    assert_true(have_simulator());
    check_all("cuda", archs, MOST_ARCHS);
}

/* ---- made smaller ------------------------------------------------------------------------------------------------ */
typedef struct Edge {
    Op from, to;
    int asked; /* how often the fault was asked for */
} Edge;

/* An artificial fault: one op reads another. */
static bool has_edge(void *user, Arena *a, const Trial *t, const char **why) {
    Edge *edge = user;
    edge->asked++;
    *why = "";
    (void)a;
    for (int i = 0; i < t->graph->nodes.n; i++) {
        const Node *n = t->graph->nodes.at[i];
        for (int k = 0; k < n->n_in; k++)
            if (n->op == edge->to && n->in[k]->op == edge->from) return true;
    }
    return false;
}

static const char *text_of(Arena *a, const Graph *g) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    graph_print(f, g);
    assert_int_equal(fclose(f), 0);
    const char *copy = arena_strdup(a, text);
    free(text);
    return copy;
}

/* What is left is the edge, its operands and a result, through all passes; its text is read back. */
static void check_least(Arena *a, const Trial *t, Op from, Op to) {
    Edge edge = {from, to, 0};
    const char *why, *error = NULL;
    const Trial least = trial_shrink(a, t, has_edge, &edge);
    assert_true(has_edge(&edge, a, &least, &why));
    assert_null(graph_verify(a, least.graph));
    assert_true(least.graph->nodes.n <= 2 + op_info[from].arity + op_info[to].arity);
    assert_int_equal(least.graph->results.n, 1);
    assert_int_equal(least.checkpoint, CHECKPOINT_NONE);
    assert_int_equal(least.max_tile, 0);
    for (int p = 0; p < PASS_COUNT; p++) assert_false(least.disabled[p]);
    int64_t elements = 0;
    for (int i = 0; i < least.graph->nodes.n; i++) elements += shape_elements(*least.graph->nodes.at[i]->shape);
    assert_true(elements <= 2 * least.graph->nodes.n);
    const char *text = text_of(a, least.graph);
    const Graph *again = graph_parse(a, text, &error);
    assert_null(error);
    assert_string_equal(text_of(a, again), text);
}

static void crash_at_edge(void *user) {
    const char *why;
    const Attempt *x = user;
    if (has_edge(&(Edge){OP_MUL, OP_SUM, 0}, NULL, x->trial, &why)) raise(SIGSEGV);
}

static bool crashes_at_edge(void *user, Arena *a, const Trial *t, const char **why) {
    Attempt x = {NULL, t};
    (void)user, (void)a;
    *why = "";
    return signal_of(crash_at_edge, &x) == SIGSEGV;
}

/* Of the first ten programs, those that crash. */
static void crashes_are_made_small(void **state) {
    int n = 0;
    (void)state;
    TrialSet *set = trial_set(PROGRAMS, 0);
    for (int i = 0; i < 10; i++) {
        Arena *a = arena_new();
        const char *why;
        const Trial t = trial_next(set, a);
        if (n < 2 && crashes_at_edge(NULL, a, &t, &why)) {
            const Trial least = trial_shrink(a, &t, crashes_at_edge, NULL);
            assert_true(crashes_at_edge(NULL, a, &least, &why));
            assert_true(least.graph->nodes.n <= 5);
            n++;
        }
        arena_free(a);
    }
    trial_set_free(set);
    assert_true(n > 0);
}

static void failures_are_made_small(void **state) {
    static const Op edges[][2] = {
        {OP_MUL, OP_SUM}, {OP_ADD, OP_TANH}, {OP_EXP, OP_MUL}, {OP_LT, OP_SELECT}, {OP_SUM, OP_BROADCAST}};
    int n = 0;
    (void)state;
    TrialSet *set = trial_set(PROGRAMS, 0);
    for (int i = 0; i < 60; i++) {
        Arena *a = arena_new();
        const char *why;
        const Trial t = trial_next(set, a);
        Edge edge = {edges[i % 5][0], edges[i % 5][1], 0};
        if (has_edge(&edge, a, &t, &why)) check_least(a, &t, edge.from, edge.to), n++;
        arena_free(a);
    }
    trial_set_free(set);
    assert_true(n >= 10);
}

/* ---- what failed once -------------------------------------------------------------------------------------------- */
/* An update that reads its state elsewhere than it writes, through nodes that have no memory of their own. */
static const char shifted_state[] = "graph @shifted entry=infer {\n"
                                    "  state \"s\" : f32[5,3]\n"
                                    "  %0 = state \"s\" : f32[5,3]\n"
                                    "  %1 = const 1 : i32[]\n"
                                    "  %2 = slice_at %0, %1 rows 5 : f32[5,3]\n"
                                    "  state \"s\" <- %2\n"
                                    "}\n";

/* More sums of one row, over two axes in chunks, than a kernel has axes for their loops. */
static const char *many_sums(Arena *a) {
    enum { SUMS = 14 };
    const char *text = "graph @sums entry=infer {\n  input \"x\" : f32[3,40,40]\n";
    const char *head = "", *body = "  %0 = input \"x\" : f32[3,40,40]\n", *tail = "";
    for (int i = 0; i < SUMS; i++) {
        const int at = 1 + 3 * i;
        head = arena_printf(a, "%s  state \"y%d\" : f32[3]\n", head, i);
        body = arena_printf(a, "%s  %%%d = const %d : f32[3,40,40]\n  %%%d = add %%0, %%%d : f32[3,40,40]\n", body, at,
                            i, at + 1, at);
        body = arena_printf(a, "%s  %%%d = sum %%%d [1, 2] : f32[3]\n", body, at + 2, at + 1);
        tail = arena_printf(a, "%s  state \"y%d\" <- %%%d\n", tail, i, at + 2);
    }
    return arena_printf(a, "%s%s%s%s}\n", text, head, body, tail);
}

/* A parameter that is loaded along one order of its dims and stored, in place, along another. */
static const char turned_update[] = "graph @turned entry=step {\n"
                                    "  param \"p\" : f32[5,2,2] trainable\n"
                                    "  %0 = param \"p\" : f32[5,2,2]\n"
                                    "  %1 = transpose %0 [0, 2, 1] : f32[5,2,2]\n"
                                    "  %2 = rmin %1 [0, 1] : f32[2]\n"
                                    "  %3 = sum %2 [0] : f32[]\n"
                                    "  %4 = gradient %3, %0 : f32[5,2,2] !bwd\n"
                                    "  param \"p\" <- %4\n"
                                    "}\n";

/* A result of 16 bits that is made from a gradient is no update of a parameter. */
static const char own_cast[] =
                                 "graph @p234 entry=infer {\n"
                                 "  param \"xp0\" : f32[1,1] trainable\n"
                                 "  state \"xs8\" : f32[1,2]\n"
                                 "  input \"x_2_13\" : f32[1]\n"
                                 "  input \"x_4_14\" : f32[2,1]\n"
                                 "  input \"x_8_17\" : f32[]\n"
                                 "  input \"x_18_22\" : f32[1,2]\n"
                                 "  output \"y21\" : f16[2,1]\n"
                                 "  hyper \"h\" = 0.75\n"
                                 "  %0 = param \"xp0\" : f32[1,1]\n"
                                 "  %1 = input \"x_2_13\" : f32[1]\n"
                                 "  %2 = input \"x_4_14\" : f32[2,1]\n"
                                 "  %3 = input \"x_8_17\" : f32[]\n"
                                 "  %4 = gradient %3, %0 : f32[1,1]\n"
                                 "  %5 = erf %4 : f32[1,1] in f16\n"
                                 "  %6 = concat %5, %5 axis 0 : f32[2,1]\n"
                                 "  %7 = contract %1[i], %5[j, k] -> [i:1] sum [j:1, k:1] : f32[1] in f16\n"
                                 "  %8 = input \"x_18_22\" : f32[1,2]\n"
                                 "  %9 = contract %8[i, j], %7[i] -> [i:1, j:2] : f32[1,2] in f16\n"
                                 "  %10 = mul %2, %6 : f32[2,1] in f16\n"
                                 "  %11 = cast %10 : f16[2,1] in f16\n"
                                 "  state \"xs8\" <- %9\n"
                                 "  output \"y21\" %11\n"
                                 "}\n";

static void check_text(const char *text) {
    Arena *a = arena_new();
    const char *why = NULL;
    TrialTally tally = {0};
    const Trial t = {.graph = graph_parse(a, text, &why), .max_tile = 64, .tally = &tally};
    if (!t.graph) fail_msg("%s: %s", text, why);
    const TrialTarget target = {.name = kind->name, .target = kind->target(NULL), .run = run};
    const TrialResult result = trial_run(a, &t, &target, NULL, &why);
    if (result != TRIAL_AGREES) fail_msg("%s: %s", text, why);
    assert_int_equal(tally.skipped, 0);
    arena_free(a);
}

static void what_failed_agrees(void **state) {
    (void)state;
    Arena *a = arena_new();
    kind = executor_find("interp");
    check_text(shifted_state);
    check_text(many_sums(a));
    check_text(turned_update);
    check_text(own_cast);
    arena_free(a);
    if (!have_simulator()) return;
    kind = executor_find("cuda");
    check_text(turned_update);
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
        bool alone; /* takes a minute */
    } groups[] = {{"interp", cmocka_unit_test(interpreter_agrees), false},
                  {"host", cmocka_unit_test(host_agrees), true},
                  {"c99", cmocka_unit_test(c99_agrees), false},
                  {"cuda", cmocka_unit_test(ptx_agrees), true},
                  {"shrink", cmocka_unit_test(failures_are_made_small), false},
                  {"crash", cmocka_unit_test(crashes_are_made_small), false},
                  {"failed", cmocka_unit_test(what_failed_agrees), false},
                  {"recompute", cmocka_unit_test(recomputing_changes_no_bit), false}};
    struct CMUnitTest tests[sizeof groups / sizeof *groups];
    size_t n = 0;
    whole_set = argc > 2 && !strcmp(argv[2], "all");
    if (argc > 2 && !whole_set) only = atoi(argv[2]);
    if (argc > 3) seed = strtoull(argv[3], NULL, 10);
    if (argc > 4) programs = atoi(argv[4]);
    if (programs < 1 || programs > PROGRAMS) return 2;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (argc < 2 ? !groups[i].alone : !strcmp(argv[1], groups[i].name)) tests[n++] = groups[i].test;
    return n == 0 ? 2 : _cmocka_run_group_tests("differential", tests, n, scratch_make, scratch_remove);
}
