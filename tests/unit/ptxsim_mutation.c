/* Mistakes made on purpose in kernels that are right: a mutant is caught when the software GPU reports something, or
 * when a result differs from that of the kernel as it was, within 16 schedules.  At least 95 of 100 must be; those that
 * are not are listed with the reason. */
#include "ptxsim_subject.h"
#include "ptxsim_nvcc.h"
#include "tests/support/ptx_mutate.h"
#include <dirent.h>

enum { MOST_SUBJECTS = 256, MOST_MUTATIONS = 60000, MOST_SURVIVORS = 128 };
typedef enum Source { EMITTED, NVCC, TWINS, SOURCES } Source;
static const char *const SOURCE_NAME[SOURCES] = {"emitted", "nvcc", "twins"};
/* Of each subject and kind. */
static const int SAMPLE[SOURCES][MUTATION_KINDS] = {
    {8, 8, 8, 8, 6, 10, 3}, {2, 2, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 0, 1, 0}};

typedef struct Survivor {
    Source source;
    MutationKind kind;
    int line;
    char subject[128], was[96], now[96];
} Survivor;

static struct {
    int made[SOURCES][MUTATION_KINDS], caught[SOURCES][MUTATION_KINDS], equivalent[SOURCES][MUTATION_KINDS], by_report;
    Survivor survivor[MOST_SURVIVORS];
    int survivors;
} tally;

/* ---- subjects ------------------------------------------------------------------------------------------- */
static const struct {
    const char *file, *overrides;
    int samples;
} PROGRAMS[] = {
    {"digits/mlp.dsl", "B=37", 3},
    {"firmware/digits.dsl", "", 2},
    {"ecg/ecg.dsl", "", 1},
    {"digits/cnn.dsl", "B=5", 1},
    {"chargpt/chargpt.dsl", "B=3 T=18 C=40 H=2 L=1", 1},
    {"gpt2/gpt2.dsl", "B=2 T=20 V=45 C=40 H=2 L=1", 1},
};

/* Kernels of tests/golden/ptxsim/FILE.cu, with their launches as in ptxsim_case.h. */
static const struct {
    const char *file, *arch, *kernel, *launch, *parameters;
} CUDA[] = {
    {"parallel", "sm_80", "sum_tree", "grid 3 block 256", "iota 700, empty 3, int 700"},
    {"parallel", "sm_80", "sum_last_block", "grid 5 block 128", "floats 900, empty 5, zero 1, empty 1, int 900"},
    {"parallel", "sm_80", "scan_blelloch", "grid 1 block 256", "iota 512, empty 512"},
    {"parallel", "sm_80", "scan_look_back", "grid 4 block 128", "iota 500, empty 500, zero 1, zero 8, int 500"},
    {"parallel", "sm_80", "transpose", "grid 2x2 block 32x8", "floats 2200, empty 2200, int 40, int 55"},
    {"parallel", "sm_80", "softmax", "grid 2 block 128", "floats 600, empty 600, int 300"},
    {"parallel", "sm_80", "hand_over", "grid 1 block 64", "iota 288, empty 288, int 9"},
    {"tensor", "sm_80", "gemm_mma", "grid 1x1 block 128", "halves 6144, halves 6144, empty 4096, int 64, int 96"},
    {"hopper", "sm_90a", "double_boxes", "grid 2 block 64",
     "(floats 6000), (empty 6000), map f32 buffer 0 size 60 100 box 32 16, map f32 buffer 1 size 60 100 box 32 16, int "
     "100"},
    {"hopper", "sm_90a", "ring_sum", "grid 1 block 160", "floats 2816, empty 256, int 11"},
    {"hopper", "sm_90a", "gemm_wgmma", "grid 1 block 384",
     "(halves 11776), (halves 11776), map f16 buffer 0 size 184 64 box 64 64 swizzle 128, "
     "map f16 buffer 1 size 184 64 box 64 64 swizzle 128, empty 4096, int 64, int 184"},
    {"hopper", "sm_90a", "cluster_sum", "grid 4 block 128", "iota 512, empty 128"},
};

/* The text from the kernel's .entry to the next one's, after the file's head: other kernels are left out. */
static char *kernel_alone(const char *text, const char *kernel) {
    char entry[96];
    snprintf(entry, sizeof entry, ".visible .entry %s(", kernel);
    const char *at = strstr(text, entry), *head = strstr(text, ".visible .entry ");
    if (!at) fail_msg("no kernel %s", kernel);
    const char *next = strstr(at + 1, ".visible .entry ");
    const size_t before = (size_t)(head - text), own = next ? (size_t)(next - at) : strlen(at);
    char *alone = calloc(before + own + 1, 1);
    assert_non_null(alone);
    memcpy(alone, text, before);
    memcpy(alone + before, at, own);
    return alone;
}

static Subject cuda_subject(size_t which) {
    char parameters[512];
    PtxCase *c = calloc(1, sizeof *c);
    char *all = nvcc_ptx(CUDA[which].file, CUDA[which].arch);
    assert_true(c && all);
    snprintf(c->path, sizeof c->path, "%s", CUDA[which].kernel);
    snprintf(parameters, sizeof parameters, "%s", CUDA[which].parameters);
    case_launch_of(c, CUDA[which].launch);
    case_parameters(c, parameters);
    Subject s = {.one = c, .entry = CUDA[which].kernel, .text = kernel_alone(all, CUDA[which].kernel)};
    snprintf(s.name, sizeof s.name, "%s.cu: %s", CUDA[which].file, CUDA[which].kernel);
    free(all);
    return s;
}

static Subject twin_subject(const char *path) {
    PtxCase *c = calloc(1, sizeof *c);
    assert_non_null(c);
    case_read(c, path, false);
    Subject s = {.one = c, .entry = "k", .text = c->text};
    snprintf(s.name, sizeof s.name, "%.*s", (int)sizeof s.name - 1,
             path + strlen(SOURCE_DIR "/tests/golden/ptxsim/wrong/"));
    return s;
}

static Subject program_subject(size_t which) {
    Subject s = {.entry = NULL};
    s.program = program_compile(PROGRAMS[which].file, PROGRAMS[which].overrides, &s.text);
    snprintf(s.name, sizeof s.name, "%s", PROGRAMS[which].file);
    return s;
}

/* ---- one mutant ----------------------------------------------------------------------------------------- */
static bool differs(const Observed *x, const Observed *y) {
    return x->count != y->count || memcmp(x->bytes, y->bytes, x->count) != 0;
}

/* Whether a schedule tells it from the subject as it was; *reported: by a finding. */
static bool caught(Subject *s, const char *mutant, bool *reported) {
    for (int k = 0; k < SCHEDULES; k++) {
        const Observed seen = observe(s, mutant, k);
        *reported = seen.found;
        const bool told = seen.found || differs(&seen, observe_base(s, k));
        free(seen.bytes);
        if (told) return true;
    }
    return false;
}

/* Where the instruction gives the same value as before in every thread, nothing was changed: a trap says where it does
 * not.  One schedule tells, as the values of a kernel without races depend on none. */
static bool changes_nothing(Subject *s, const Mutation *m) {
    char *probe = mutation_probe(s->text, m);
    if (!probe) return false;
    const Observed seen = observe(s, probe, 0);
    const bool same = !seen.found && !differs(&seen, observe_base(s, 0));
    free(seen.bytes);
    free(probe);
    return same;
}

static void survived(const Subject *s, Source source, const Mutation *m) {
    if (tally.survivors == MOST_SURVIVORS) return;
    Survivor *v = &tally.survivor[tally.survivors++];
    *v = (Survivor){.source = source, .kind = m->kind, .line = m->line};
    snprintf(v->subject, sizeof v->subject, "%s", s->name);
    const char *line = s->text + m->at;
    while (line > s->text && line[-1] != '\n') line--;
    while (*line == '\t' || *line == ' ') line++;
    snprintf(v->was, sizeof v->was, "%.*s", (int)strcspn(line, "\n"), line);
    snprintf(v->now, sizeof v->now, "%s", m->now[0] ? m->now : "nothing");
}

/* False: it is none. */
static bool try_mutant(Subject *s, Source source, const Mutation *m) {
    bool reported = false;
    if (changes_nothing(s, m)) {
        tally.equivalent[source][m->kind]++;
        return false;
    }
    char *mutant = mutation_apply(s->text, m);
    tally.made[source][m->kind]++;
    if (caught(s, mutant, &reported)) {
        tally.caught[source][m->kind]++;
        tally.by_report += reported;
    } else
        survived(s, source, m);
    free(mutant);
    return true;
}

/* ---- the sample ----------------------------------------------------------------------------------------- */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int by_draw(const void *a, const void *b) {
    const Mutation *x = a, *y = b;
    const uint64_t i = mix(x->at * 31 + x->kind), j = mix(y->at * 31 + y->kind);
    return i < j ? -1 : i > j;
}

static void mutate_subject(Subject *s, Source source, int samples) {
    static Mutation all[MOST_MUTATIONS];
    static const char *const COOPERATING[] = {"bar.sync", "shfl.", ".shared", NULL};
    int taken[MUTATION_KINDS] = {0};
    if (observe_base(s, 0)->found) fail_msg("%s is reported as it is: %s", s->name, first_finding());
    const int n = mutations_of(s->text, source == EMITTED ? COOPERATING : NULL, all, MOST_MUTATIONS);
    qsort(all, (size_t)n, sizeof *all, by_draw);
    for (int k = 0; k < n; k++)
        if (taken[all[k].kind] < samples * SAMPLE[source][all[k].kind])
            taken[all[k].kind] += try_mutant(s, source, &all[k]);
}

static void mutate_twins(const char *folder) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[1024];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (!strstr(e->d_name, ".ptx")) {
            mutate_twins(path);
            continue;
        }
        Subject s = twin_subject(path);
        mutate_subject(&s, TWINS, 1);
        subject_end(&s);
    }
    closedir(d);
}

/* What is known of a mutant that gave the same bits and no finding under every schedule. */
static const char *const REASON[MUTATION_KINDS] = {
    [MUTATE_BARRIER] =
        "no two threads meet in a byte across it: another wait or their own program orders what they share",
    [MUTATE_WAIT] = "nothing that it waits for is used after it",
    [MUTATE_COMMIT] = "nothing waits for the group",
    [MUTATE_FENCE] = "nothing before it is used by others, or by another proxy, after it",
    [MUTATE_SWIZZLE] = "the value is not used where it differs",
    [MUTATE_INDEX] = "what is read or written there, in bounds, does not reach a result",
    [MUTATE_BOUND] = "the step or element more or less is in bounds, and masked before it reaches a result"};

static void report(void) {
    printf("%-8s", "caught");
    for (int k = 0; k < MUTATION_KINDS; k++) printf(" %9s", mutation_names[k]);
    printf(" %12s\n", "all");
    for (int s = 0; s < SOURCES; s++) {
        int made = 0, told = 0;
        printf("%-8s", SOURCE_NAME[s]);
        for (int k = 0; k < MUTATION_KINDS; k++) {
            printf(" %4d/%4d", tally.caught[s][k], tally.made[s][k]);
            made += tally.made[s][k], told += tally.caught[s][k];
        }
        printf(" %5d/%5d\n", told, made);
    }
    for (int k = 0; k < tally.survivors; k++) {
        const Survivor *v = &tally.survivor[k];
        printf("survivor: %s, %s line %d, %s: \"%s\" became \"%s\": %s\n", SOURCE_NAME[v->source], v->subject, v->line,
               mutation_names[v->kind], v->was, v->now, REASON[v->kind]);
    }
}

static void emitted(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof PROGRAMS / sizeof *PROGRAMS; k++) {
        Subject s = program_subject(k);
        mutate_subject(&s, EMITTED, PROGRAMS[k].samples);

        subject_end(&s);
    }
}

static void others(void **state) {
    (void)state;
    for (size_t k = 0; find_nvcc() && k < sizeof CUDA / sizeof *CUDA; k++) {
        Subject s = cuda_subject(k);
        mutate_subject(&s, NVCC, 1);
        subject_end(&s);
    }
    mutate_twins(SOURCE_DIR "/tests/golden/ptxsim/wrong");
}

static void rate(void **state) {
    (void)state;
    int made = 0, told = 0, equivalent = 0;
    for (int s = 0; s < SOURCES; s++)
        for (int k = 0; k < MUTATION_KINDS; k++)
            made += tally.made[s][k], told += tally.caught[s][k], equivalent += tally.equivalent[s][k];
    report();
    printf(
        "%d mutants: %d caught (%d by a finding), %d survive; %d more were drawn that change no value in any thread\n",
        made, told, tally.by_report, made - told, equivalent);
    assert_true(made >= 200);
    assert_true(told * 100 >= made * 95);
    made = told = 0;
    for (int k = 0; k < MUTATION_KINDS; k++) made += tally.made[EMITTED][k], told += tally.caught[EMITTED][k];
    assert_true(made >= 200);
    assert_true(told * 100 >= made * 95);
}

int main(void) {
    case_silence();
    driver_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(emitted), cmocka_unit_test(others), cmocka_unit_test(rate)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(getenv("PTXSIM_REPORT"));
    return failed;
}
