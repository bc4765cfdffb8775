/* Every kernel of every example, as its entries launch them, under schedules: 0 findings.  Of 16 schedules each eighth one and
 * the last, for one of two architectures by turns, ResNet-50 in small only; FUSEC_SCHEDULES_EVERY=1, as in
 * ./dev fuzz: all, for both.
 *
 * Models as they are, or with fewer and smaller dimensions, run whole, each kernel on what the ones before it computed.
 * Then every model runs at full size, three programs of each grid under every schedule (kernel_parts.h): the large ones
 * as in their files, the others with dimensions that make their loops long.  Under all schedules but the last loops are cut to
 * 1, 2 and 5 trips, so that each kernel runs at three depths of K at least and the cost follows from the number of
 * kernels, not from the length of K; under that one they are as long, in as many programs, as WORK allows.  Every
 * kernel must have run in every place that its grid has, and at three depths, but for those in SHALLOW and sums that are
 * no products and have fewer trips: over the slices of a sum that was split, for instance.
 *
 * FUSEC_SCHEDULES=NAME[,ARCH] runs one model and tells the time of each schedule; FUSEC_SCHEDULES_ALL=1 runs full size
 * at every depth, uncut loops among them, under every schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/nvptx/nvptx.h"
#include "ir/target.h"
#include "runtime/cuda/fusec_cuda.h"
#include "tests/support/kernel_parts.h"
#include "tools/fusec/array.h"
#include "tools/fusec/cli.h"
#include "tools/fusec/manifest.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SCHEDULES = 16, MOST_WORDS = 24, LOG = 8192, PARALLEL = 2, PROGRAMS = 3, DEPTHS = 4, WHOLE_LOOPS = DEPTHS - 1 };
static const int64_t DEPTH[WHOLE_LOOPS] = {1, 2, 5};
/* Floating-point operations of a kernel under the ordinary run's last schedule. */
static const double WORK = 4e6;

static bool every(void) { return getenv("FUSEC_SCHEDULES_EVERY") != NULL; }

typedef struct Case {
    const char *name, *file, *options; /* file: DIR/FILE without .dsl; options: blanks between words */
    bool crop;
} Case;
static const Case CASES[] = {
    {"mlp", "digits/mlp", "", false},
    {"cnn", "digits/cnn", "-D B=4", false},
    {"ecg", "ecg/ecg", "", false},
    {"firmware", "firmware/digits", "", false},
    {"chargpt", "chargpt/chargpt", "-D L=1 -D B=1 -D T=32", false},
    {"gpt2", "gpt2/gpt2", "-D B=2 -D T=32 -D V=128 -D C=32 -D H=4 -D L=2", false},
    {"resnet50", "resnet50/resnet50", "-D B=2 -D S=8 -D W=4 -D channels=1 -D classes=10", false},
    {"unet", "unet/unet", "-D B=1 -D S=16 -D W=4", false},
    {"mlp_full", "digits/mlp", "-D B=80", true},
    {"cnn_full", "digits/cnn", "", true},
    {"ecg_full", "ecg/ecg", "-D B=80", true},
    {"firmware_full", "firmware/digits", "-D B=80", true},
    {"chargpt_full", "chargpt/chargpt", "-D C=192 -D B=40", true},
    {"resnet50_full", "resnet50/resnet50", "", true},
    {"unet_full", "unet/unet", "", true},
    {"gpt2_full", "gpt2/gpt2", "", true},
};
static const char *const ARCHS[] = {"sm_80", "sm_90"};
enum { N_CASES = sizeof CASES / sizeof *CASES, N_ARCHS = 2, JOBS = N_CASES * N_ARCHS };

/* Loops of fewer than three trips: of these many steps at most, which no dimension of the program changes, or which the
 * full size of the program says. */
static const struct {
    const char *name;
    int64_t extent;
    const char *why;
} SHALLOW[] = {
    {"mlp_full", 10, "digits: 10 classes"},
    {"mlp_full", 32, "the width of the second layer is written in the program"},
    {"cnn_full", 3, "rows and columns of a filter"},
    {"cnn_full", 4, "rows and columns of what is left to average"},
    {"cnn_full", 10, "digits: 10 classes"},
    {"ecg_full", 3, "taps of a transposed filter's phase"},
    {"ecg_full", 5, "taps of a filter"},
    {"ecg_full", 6, "channels of the code, written in the program"},
    {"ecg_full", 8, "channels of a layer, written in the program"},
    {"firmware_full", 10, "digits: 10 classes"},
    {"firmware_full", 32, "the width of the layer is written in the program"},
    {"gpt2_full", 8, "the batch of the file"},
    {"resnet50_full", 32, "the batch of the file"},
    {"resnet50_full", 2, "rows and columns of a phase of a filter of stride 2"},
    {"unet_full", 3, "rows and columns of a filter"},
    {"unet_full", 2, "classes"},
};

typedef struct Outcome {
    int kernels, launches, asked, schedules, loops, shallow, uncut; /* asked: schedules; loops: kernels that have any; in SHALLOW; at their full length */
    uint64_t findings;
    double seconds; /* of one core */
    char error[400];
} Outcome;

/* A compiled form of the case: its loops whole, or cut to DEPTH. */
typedef struct Form {
    const Module *module;
    const fusec_manifest *manifest;
    char *ptx;
} Form;

/* What has run of a kernel. */
typedef struct Seen {
    unsigned places;
    bool depth[DEPTHS];
} Seen;

/* Of this process: others may share the cores. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one model ------------------------------------------------------------------------------------------------ */
static Module *compile(Arena *a, const Case *c, const char *arch, Options *o, Session *s) {
    char *words[MOST_WORDS] = {(char[]){"fusec"}, (char[]){"report"},
                               arena_printf(a, SOURCE_DIR "/examples/%s.dsl", c->file)};
    int n = 3, status = 0;
    char *rest = NULL;
    for (char *w = strtok_r(arena_strdup(a, c->options), " ", &rest); w && n < MOST_WORDS;
         w = strtok_r(NULL, " ", &rest))
        words[n++] = w;
    if (!cli_parse(a, n, words, o, &status) || !session_open(s, a, o)) return NULL;
    return session_compile(s, o, target_find(arch));
}

static void make_input(const ModuleTensor *t, uint8_t *to) {
    uint64_t random = 1;
    for (int64_t e = 0; e < t->bytes / dtype_bytes(t->dtype); e++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const double unit = (double)(random >> 40) / (double)(1 << 24), lo = t->has_range ? (double)t->lo : 0;
        const double hi = t->has_range ? (double)t->hi : 2;
        const double v = dtype_is_float(t->dtype) ? 2 * unit - 1 : lo + (double)(int64_t)(unit * (hi - lo));
        const uint8_t flag = unit < 0.5;
        int64_t bad;
        element_convert(t->dtype == DT_BOOL ? ELEMENT_BOOL : ELEMENT_F64,
                        t->dtype == DT_BOOL ? &flag : (const uint8_t *)&v, 1, t->dtype, to + e * dtype_bytes(t->dtype),
                        &bad);
    }
}

static const void **make_inputs(Arena *a, const Module *m) {
    const void **inputs = ARENA_ARRAY(a, const void *, m->inputs.n + 1);
    for (int i = 0; i < m->inputs.n; i++) {
        uint8_t *data = malloc((size_t)m->inputs.at[i].bytes + 1);
        make_input(&m->inputs.at[i], data);
        inputs[i] = data;
    }
    return inputs;
}

static bool failed(Outcome *out, const char *what, const char *why) {
    snprintf(out->error, sizeof out->error, "%s: %.300s", what, why);
    return false;
}

/* All entries under one seed, in a context of its own: nothing is left from the one before. */
static bool run_schedule(const Form *f, const void **inputs, int seed, Outcome *out) {
    static char log[LOG];
    char number[16];
    fusec_cuda cuda;
    const fusec_cuda_image image = {.data = f->ptx};
    const fusec_cuda_options options = {.log = log, .log_bytes = sizeof log};
    const fusec_cuda_call call = {.inputs = inputs, .step = 1, .wanted = ~UINT64_C(0)};
    snprintf(number, sizeof number, "%d", seed);
    setenv("PTXSIM_SEED", number, 1);
    fusec_status s = fusec_cuda_init(&cuda, f->manifest, &image, &options);
    if (s != FUSEC_OK) return failed(out, fusec_status_text(s), log);
    for (int e = 0; e < ENTRY_COUNT && s == FUSEC_OK; e++) {
        if (!f->module->entry[e].present) continue;
        s = fusec_cuda_run(&cuda, e, &call);
        if (s == FUSEC_OK) s = fusec_cuda_wait(&cuda);
        if (s != FUSEC_OK) failed(out, entry_name[e], log);
    }
    fusec_cuda_free(&cuda);
    return s == FUSEC_OK;
}

/* ---- parts of its grids ------------------------------------------------------------------------------------------ */
static struct {
    int (*choose)(const char *kernel, const uint64_t *block, uint64_t n);
    uint64_t (*ran)(const char *kernel);
    uint64_t (*findings)(void);
} simulator;

static bool simulator_open(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return false;
    *(void **)&simulator.choose = dlsym(library, "ptxsimBlocks");
    *(void **)&simulator.ran = dlsym(library, "ptxsimBlocksRun");
    *(void **)&simulator.findings = dlsym(library, "ptxsimFindings");
    return simulator.choose && simulator.ran && simulator.findings;
}

static int64_t *bounds_of(Arena *a, const Module *m) {
    int64_t *syms = ARENA_ARRAY(a, int64_t, m->syms.n + 1);
    for (int i = 0; i < m->syms.n; i++) syms[i] = m->syms.at[i].bound;
    return syms;
}

/* Blocks are not programs: they walk many, or form clusters that the simulator draws as a whole (PTXSIM_CROP). */
static bool chooses_itself(const Kernel *k) {
    bool clusters = false;
    for (int i = 0; i < k->axes.n; i++) clusters |= k->axes.at[i].cluster > 1;
    return k->persistent || clusters;
}

/* How many programs of the kernel run: fewer where they would take long. */
static int programs_within(const Kernel *k, const int64_t *syms, bool limited) {
    const double each = kernel_cost(k).flops / (double)kernel_programs(k, syms);
    return !limited || each * PROGRAMS <= WORK ? PROGRAMS : each * 2 <= WORK ? 2 : 1;
}

/* The programs of a kernel that run under a seed, none: the simulator draws them. */
static int choice_of(const Kernel *k, const int64_t *syms, int seed, bool limited, uint64_t *program) {
    if (chooses_itself(k)) return 0;
    return kernel_some_programs(k, syms, (uint64_t)seed, programs_within(k, syms, limited), program);
}

/* Three programs of each kernel, and which places they are in once they have run. */
static bool run_parts(const Form *f, const int64_t *syms, const void **inputs, int seed, int depth, bool limited,
                      Seen *seen, Outcome *out) {
    const Module *m = f->module;
    uint64_t program[PROGRAMS];
    for (int i = 0; i < m->kernels.n; i++) {
        const int n = choice_of(m->kernels.at[i], syms, seed, limited, program);
        if (!simulator.choose(m->kernels.at[i]->name, program, (uint64_t)n))
            return failed(out, m->kernels.at[i]->name, "no memory");
    }
    if (!run_schedule(f, inputs, seed, out)) return false;
    for (int i = 0; i < m->kernels.n; i++) {
        const Kernel *k = m->kernels.at[i];
        const int n = choice_of(k, syms, seed, limited, program);
        if (simulator.ran(k->name) != (uint64_t)n) return failed(out, k->name, "not every program that was chosen ran");
        for (int j = 0; j < n; j++) seen[i].places |= 1u << kernel_place_of(k, syms, (int64_t)program[j]);
        if (!n) seen[i].places = kernel_places(k, syms);
        seen[i].depth[depth] = true;
    }
    return true;
}

static bool run_cropped(const Form *form, const int64_t *syms, const void **inputs, int seed, bool all, Seen *seen,
                        Outcome *out) {
    for (int d = 0; d < DEPTHS; d++) {
        const bool turn = seed == SCHEDULES ? d == WHOLE_LOOPS : seed % WHOLE_LOOPS == d;
        if ((all || turn) && !run_parts(&form[d], syms, inputs, seed, d, !all, seen, out)) return false;
    }
    return true;
}

static int64_t trips_at(const Form *f, int kernel) { return kernel_depth(f->module->kernels.at[kernel]); }

static int depths_seen(const Form *form, int kernel, const Seen *s) {
    int n = 0;
    for (int d = 0; d < DEPTHS; d++) {
        bool fresh = s->depth[d];
        for (int e = 0; e < d; e++)
            fresh = fresh && !(s->depth[e] && trips_at(&form[e], kernel) == trips_at(&form[d], kernel));
        n += fresh;
    }
    return n;
}

static bool multiplies(const Block *b) {
    for (int i = 0; i < b->n; i++)
        if (b->at[i]->kind == TI_DOT || multiplies(&b->at[i]->body)) return true;
    return false;
}

/* It is no product, or every loop of it is listed. */
static bool is_shallow(const Case *c, const Kernel *k) {
    if (!multiplies(&k->body)) return true;
    for (int i = 0; i < k->axes.n; i++) {
        bool listed = k->axes.at[i].kind != AXIS_LOOP;
        for (size_t s = 0; s < sizeof SHALLOW / sizeof *SHALLOW; s++)
            listed |= !strcmp(SHALLOW[s].name, c->name) && SHALLOW[s].extent == k->axes.at[i].extent.bound;
        if (!listed) return false;
    }
    return true;
}

/* Whether all that was asked for has run; counts kernels with loops. */
static bool check_seen(const Case *c, const Module *m, const Form *form, const int64_t *syms, const Seen *seen,
                       Outcome *out) {
    char what[80];
    for (int i = 0; i < m->kernels.n; i++) {
        const Kernel *k = m->kernels.at[i];
        const int depths = kernel_depth(k) ? depths_seen(form, i, &seen[i]) : 3;
        const bool shallow = kernel_depth(k) && kernel_depth(k) < 3 && is_shallow(c, k);
        out->loops += kernel_depth(k) > 0;
        out->shallow += shallow;
        out->uncut += kernel_depth(k) > 0 && trips_at(&form[WHOLE_LOOPS], i) == kernel_depth(k);
        if (seen[i].places != kernel_places(k, syms)) return failed(out, k->name, "a place of its grid did not run");
        snprintf(what, sizeof what, "its loops ran at %d depths only, and are not listed", depths);
        if (depths < 3 && !shallow) return failed(out, k->name, what);
    }
    return true;
}

/* ---- one model, all schedules ------------------------------------------------------------------------------------ */
static void drop_barriers(char *ptx) {
    for (char *at = ptx; (at = strstr(at, "bar.sync")); at += 8) memcpy(at, "//------", 8);
}

static bool make_form(Arena *a, const Module *m, const char *arch, bool broken, Form *f, Outcome *out) {
    const NvptxOptions options = {.arch = arch};
    char *why = NULL;
    *f = (Form){.module = m, .manifest = manifest_of(a, m)};
    for (int i = 0; i < m->kernels.n; i++) {
        const char *wrong = kernel_verify(a, m->kernels.at[i]);
        if (wrong) return failed(out, m->kernels.at[i]->name, wrong);
    }
    if (!f->manifest || !nvptx_emit_ptx(m, &options, &f->ptx, &why)) return failed(out, "no PTX", why ? why : "");
    if (broken) drop_barriers(f->ptx);
    return true;
}

static const Module *module_at(Arena *a, const Case *c, const Module *m, const int64_t *syms, int depth, bool all) {
    if (depth != WHOLE_LOOPS) return module_cut(a, m, DEPTH[depth]);
    return c->crop && !all ? module_cut_to(a, m, syms, WORK, DEPTH[depth - 1]) : m;
}

static void set_environment(const Case *c, const char *arch) {
    char crop[16];
    snprintf(crop, sizeof crop, "%d", c->crop ? PROGRAMS : 0);
    setenv("PTXSIM_CROP", crop, 1); /* each kernel once under a seed */
    setenv("PTXSIM_DEVICE", arch, 1);
    setenv("PTXSIM_THREADS", "1", 1);
}

static void run_case(const Case *c, const char *arch, bool broken, bool talk, Outcome *out) {
    Arena *a = arena_new();
    Session session;
    Options o;
    Form form[DEPTHS];
    const bool all = getenv("FUSEC_SCHEDULES_ALL") != NULL;
    const Module *m = compile(a, c, arch, &o, &session);
    set_environment(c, arch);
    if (!m || !simulator_open()) {
        failed(out, "it does not compile, or there is no simulator", "");
        return;
    }
    const int64_t *syms = bounds_of(a, m);
    for (int d = c->crop ? 0 : WHOLE_LOOPS; d < DEPTHS; d++)
        if (!make_form(a, module_at(a, c, m, syms, d, all), arch, broken, &form[d], out)) return;
    const void **inputs = make_inputs(a, m);
    Seen *seen = ARENA_ARRAY(a, Seen, m->kernels.n + 1);
    out->kernels = m->kernels.n;
    for (int e = 0; e < ENTRY_COUNT; e++) out->launches += m->entry[e].launches.n;
    for (int seed = 1; seed <= SCHEDULES; seed++) {
        const double start = now();
        if (!every() && seed % 8 != 1 && seed != SCHEDULES) continue;
        out->asked++;
        if (c->crop ? !run_cropped(form, syms, inputs, seed, all, seen, out)
                    : !run_schedule(&form[WHOLE_LOOPS], inputs, seed, out))
            break;
        out->schedules++;
        if (talk) fprintf(stderr, "%s %s: schedule %d: %.2f s\n", c->name, arch, seed, now() - start);
    }
    out->findings = simulator.findings();
    if (out->schedules == out->asked && (!c->crop || check_seen(c, m, form, syms, seen, out))) out->error[0] = 0;
}

/* ---- all of them, side by side -------------------------------------------------------------------------------- */
static pid_t start(int job, bool broken, bool talk, Outcome *out) {
    fflush(NULL);
    const pid_t child = fork();
    if (child) return child;
    const double begin = now();
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is stopped leaves nobody behind */
    failed(out, "it ended early", "");
    run_case(&CASES[job / N_ARCHS], ARCHS[job % N_ARCHS], broken, talk, out);
    out->seconds = now() - begin;
    fprintf(stderr, "%s %s: %.1f s\n", CASES[job / N_ARCHS].name, ARCHS[job % N_ARCHS], out->seconds);
    fflush(NULL);
    exit(0); /* _exit would lose the counters of coverage */
}

static bool selected(int job, const char *only) {
    const char *name = CASES[job / N_ARCHS].name, *arch = only ? strchr(only, ',') : NULL;
    const size_t n = arch ? (size_t)(arch - only) : only ? strlen(only) : 0;
    if (!only && !every() && !strcmp(name, "resnet50_full")) return false; /* which alone takes a third of the time */
    if (!only && !every() && (job / N_ARCHS + job + CASES[job / N_ARCHS].crop) % N_ARCHS) return false;
    return !only || (!strncmp(name, only, n) && !name[n] && (!arch || !strcmp(arch + 1, ARCHS[job % N_ARCHS])));
}

static void every_kernel_under_every_schedule(void **state) {
    (void)state;
    const char *only = getenv("FUSEC_SCHEDULES");
    Outcome *out = mmap(NULL, JOBS * sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int running = 0, bad = 0, status = 0, kernels = 0, schedules = 0;
    assert_ptr_not_equal(out, MAP_FAILED);
    for (int job = JOBS - 1; job >= 0; job--) { /* the longest first */
        if (!selected(job, only)) continue;
        if (running == PARALLEL) wait(&status), running--;
        assert_true(start(job, false, only != NULL, &out[job]) > 0);
        running++;
    }
    while (running--) wait(&status);
    for (int job = 0; job < JOBS; job++) {
        const Case *c = &CASES[job / N_ARCHS];
        if (!selected(job, only)) continue;
        printf("%-14s %s %-7s %4d kernels, %4d launches, %2d schedules, %llu findings, %6.1f s of a core", c->name,
               ARCHS[job % N_ARCHS], c->crop ? "cropped" : "whole", out[job].kernels, out[job].launches,
               out[job].schedules, (unsigned long long)out[job].findings, out[job].seconds);
        if (c->crop)
            printf(", %d with loops: %d of full length, %d short", out[job].loops, out[job].uncut, out[job].shallow);
        printf("%s%s\n", out[job].error[0] ? ": " : "", out[job].error);
        bad += out[job].findings || out[job].error[0];
        kernels += out[job].kernels;
        schedules += out[job].kernels * out[job].schedules;
    }
    printf("%d kernels\nschedules runs %d findings %d\n", kernels, schedules, bad);
    munmap(out, JOBS * sizeof *out);
    assert_int_equal(bad, 0);
}

/* The same without barriers: what is not found there would not be found above. */
static void a_model_without_barriers(void **state) {
    (void)state;
    Outcome *out = mmap(NULL, sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    assert_ptr_not_equal(out, MAP_FAILED);
    assert_true(start(0, true, false, out) > 0);
    wait(&status);
    assert_true(out->findings > 0);
    assert_int_equal(out->schedules, 0);
    munmap(out, sizeof *out);
}

int main(void) {
    const char *others = getenv("LD_LIBRARY_PATH");
    char path[4096];
    if (access(BUILD_DIR "/ptxsim/libcuda.so.1", R_OK) != 0) return 77;
    if (!others ||
        strncmp(others, BUILD_DIR "/ptxsim", strlen(BUILD_DIR "/ptxsim")) != 0) { /* read when a program starts */
        snprintf(path, sizeof path, BUILD_DIR "/ptxsim%s%s", others ? ":" : "", others ? others : "");
        setenv("LD_LIBRARY_PATH", path, 1);
        execl("/proc/self/exe", "ptxsim_schedules", (char *)NULL);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_model_without_barriers),
                                       cmocka_unit_test(every_kernel_under_every_schedule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
