/* Every kernel of every example, as its entries launch them, under 16 schedules for both architectures: 0 findings.
 *
 * Models as they are, or with fewer and smaller dimensions, run whole, each kernel on what the ones before it computed.
 * Those that would take too long that way run a second time with wider layers on cropped grids (exec/crop.h): three blocks
 * of each grid, one of them another under every seed.  The loops of contractions make one, two and, with the wide layers
 * (K up to 2,304), many trips.  Batches, pictures and the vocabulary are smaller than in the files, where one schedule of
 * GPT-2 takes most of a minute.
 * FUSEC_SCHEDULES=NAME[,ARCH] runs one model and tells the time of each schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "codegen/nvptx/nvptx.h"
#include "ir/target.h"
#include "runtime/cuda/fusec_cuda.h"
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

enum { SCHEDULES = 16, MOST_WORDS = 24, LOG = 8192, PARALLEL = 2 };

typedef struct Case {
    const char *name, *file, *options; /* file: DIR/FILE without .dsl; options: blanks between words */
    int crop;                   /* blocks per launch; 0: all */
} Case;
static const Case CASES[] = {
    {"mlp", "digits/mlp", "", 0},
    {"cnn", "digits/cnn", "-D B=4", 0},
    {"ecg", "ecg/ecg", "", 0},
    {"firmware", "firmware/digits", "", 0},
    {"chargpt", "chargpt/chargpt", "-D L=1 -D B=1 -D T=32", 0},
    {"gpt2", "gpt2/gpt2", "-D B=2 -D T=32 -D V=128 -D C=32 -D H=4 -D L=2", 0},
    {"resnet50", "resnet50/resnet50", "-D B=2 -D S=8 -D W=4 -D channels=1 -D classes=10", 0},
    {"unet", "unet/unet", "-D B=1 -D S=16 -D W=4", 0},
    {"gpt2_large", "gpt2/gpt2", "-D B=1 -D T=64 -D V=500 -D L=2", 3},
    {"resnet50_large", "resnet50/resnet50", "-D B=1 -D S=32 -D W=32", 3},
    {"unet_large", "unet/unet", "-D B=1 -D S=16 -D W=32", 3},
    {"chargpt_large", "chargpt/chargpt", "-D B=4 -D L=1", 3},
};
static const char *const ARCHS[] = {"sm_80", "sm_90"};
enum { N_CASES = sizeof CASES / sizeof *CASES, N_ARCHS = 2, JOBS = N_CASES * N_ARCHS };

typedef struct Outcome {
    int kernels, launches, schedules;
    uint64_t findings;
    double seconds; /* of one core */
    char error[400];
} Outcome;

/* Of this process: others may share the cores. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one model ------------------------------------------------------------------------------------------------ */
static Module *compile(Arena *a, const Case *c, const char *arch, Options *o, Session *s) {
    char *words[MOST_WORDS] = {(char[]){"fusec"}, (char[]){"report"}, arena_printf(a, SOURCE_DIR "/examples/%s.dsl", c->file)};
    int n = 3, status = 0;
    char *rest = NULL;
    for (char *w = strtok_r(arena_strdup(a, c->options), " ", &rest); w && n < MOST_WORDS; w = strtok_r(NULL, " ", &rest)) words[n++] = w;
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
        element_convert(t->dtype == DT_BOOL ? ELEMENT_BOOL : ELEMENT_F64, t->dtype == DT_BOOL ? &flag : (const uint8_t *)&v, 1,
                        t->dtype, to + e * dtype_bytes(t->dtype), &bad);
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
static bool run_schedule(const Module *m, const fusec_manifest *manifest, const char *ptx, const void **inputs, int seed,
                         Outcome *out) {
    static char log[LOG];
    char number[16];
    fusec_cuda cuda;
    const fusec_cuda_image image = {.data = ptx};
    const fusec_cuda_options options = {.log = log, .log_bytes = sizeof log};
    const fusec_cuda_call call = {.inputs = inputs, .step = 1, .wanted = ~UINT64_C(0)};
    snprintf(number, sizeof number, "%d", seed);
    setenv("PTXSIM_SEED", number, 1);
    fusec_status s = fusec_cuda_init(&cuda, manifest, &image, &options);
    if (s != FUSEC_OK) return failed(out, fusec_status_text(s), log);
    for (int e = 0; e < ENTRY_COUNT && s == FUSEC_OK; e++) {
        if (!m->entry[e].present) continue;
        s = fusec_cuda_run(&cuda, e, &call);
        if (s == FUSEC_OK) s = fusec_cuda_wait(&cuda);
        if (s != FUSEC_OK) failed(out, entry_name[e], log);
    }
    fusec_cuda_free(&cuda);
    return s == FUSEC_OK;
}

static void drop_barriers(char *ptx) {
    for (char *at = ptx; (at = strstr(at, "bar.sync")); at += 8) memcpy(at, "//------", 8);
}

static void run_case(const Case *c, const char *arch, bool broken, bool talk, Outcome *out) {
    Arena *a = arena_new();
    Session session;
    Options o;
    char crop[16], *ptx = NULL, *why = NULL;
    const NvptxOptions no = {.arch = arch};
    const Module *m = compile(a, c, arch, &o, &session);
    const fusec_manifest *manifest = m ? manifest_of(a, m) : NULL;
    snprintf(crop, sizeof crop, "%d", c->crop);
    setenv("PTXSIM_CROP", crop, 1);
    setenv("PTXSIM_DEVICE", arch, 1);
    setenv("PTXSIM_THREADS", "1", 1);
    if (!manifest || !nvptx_emit_ptx(m, &no, &ptx, &why)) {
        failed(out, "it does not compile", why ? why : "");
        return;
    }
    if (broken) drop_barriers(ptx);
    const void **inputs = make_inputs(a, m);
    out->kernels = m->kernels.n;
    for (int e = 0; e < ENTRY_COUNT; e++) out->launches += m->entry[e].launches.n;
    for (int seed = 1; seed <= SCHEDULES; seed++) {
        const double start = now();
        if (!run_schedule(m, manifest, ptx, inputs, seed, out)) break;
        out->schedules++;
        if (talk) fprintf(stderr, "%s %s: schedule %d: %.2f s\n", c->name, arch, seed, now() - start);
    }
    uint64_t (*findings)(void);
    *(void **)&findings = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "ptxsimFindings");
    out->findings = findings ? findings() : 1;
    if (out->schedules == SCHEDULES) out->error[0] = 0;
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
    _exit(0);
}

static bool selected(int job, const char *only) {
    const char *name = CASES[job / N_ARCHS].name, *arch = only ? strchr(only, ',') : NULL;
    const size_t n = arch ? (size_t)(arch - only) : only ? strlen(only) : 0;
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
        printf("%-18s %s %-8s %4d kernels, %4d launches, %2d schedules, %llu findings, %6.1f s of a core%s%s\n", c->name,
               ARCHS[job % N_ARCHS], c->crop ? "cropped" : "whole", out[job].kernels, out[job].launches, out[job].schedules,
               (unsigned long long)out[job].findings, out[job].seconds, out[job].error[0] ? ": " : "", out[job].error);
        bad += out[job].findings || out[job].schedules != SCHEDULES;
        kernels += out[job].kernels;
        schedules += out[job].kernels * out[job].schedules;
    }
    printf("%d kernels, %d runs of a kernel under a schedule\n", kernels, schedules);
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
    if (!others || strncmp(others, BUILD_DIR "/ptxsim", strlen(BUILD_DIR "/ptxsim")) != 0) { /* read when a program starts */
        snprintf(path, sizeof path, BUILD_DIR "/ptxsim%s%s", others ? ":" : "", others ? others : "");
        setenv("LD_LIBRARY_PATH", path, 1);
        execl("/proc/self/exe", "ptxsim_schedules", (char *)NULL);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_model_without_barriers),
                                       cmocka_unit_test(every_kernel_under_every_schedule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
