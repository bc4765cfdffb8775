/* Mistakes made on purpose in kernels that are right: a mutant is caught when the software GPU reports something, or
 * when a result differs from that of the kernel as it was, within 16 schedules.  At least 95 of 100 must be; those that
 * are not are listed, each with its reason: one that is found by a further experiment or in the text, else one of
 * ptxsim_survivors.def, else the test fails.  Of the programs that take long half of the sample; FUSEC_SCHEDULES_EVERY=1, as in
 * ./dev fuzz: all of it. */
#include "ptxsim_subject.h"
#include "ptxsim_nvcc.h"
#include "tests/support/ptx_mutate.h"
#include "tools/ptxsim/ptxsim.h"
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>

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
    char subject[128], was[96], now[96], why[256];
} Survivor;

static struct {
    int made[SOURCES][MUTATION_KINDS], caught[SOURCES][MUTATION_KINDS], equivalent[SOURCES][MUTATION_KINDS], by_report;
    Survivor survivor[MOST_SURVIVORS];
    int survivors, unexplained;
} tally;

/* ---- subjects ------------------------------------------------------------------------------------------- */
static const struct {
    const char *file, *overrides;
    int samples;
    bool slow;
} PROGRAMS[] = {
    {"digits/mlp.dsl", "B=37", 6, false},
    {"firmware/digits.dsl", "", 3, false},
    {"ecg/ecg.dsl", "", 2, true},
    {"digits/cnn.dsl", "B=5", 2, true},
    {"chargpt/chargpt.dsl", "B=3 T=18 C=40 H=2 L=1", 1, true},
    {"gpt2/gpt2.dsl", "B=2 T=20 V=45 C=40 H=2 L=1", 1, true},
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

/* ---- why one survives ----------------------------------------------------------------------------------- */
typedef struct Footprint {
    uint64_t instructions, read, stored, places; /* of threads; bytes of global memory; different ones stored */
} Footprint;

static Footprint footprint(const Subject *s, const char *text) {
    static ptxsim_kernel kernel[MOST_SUBJECTS];
    Footprint f = {0};
    cu.count(1);
    free(observe(s, text, 0).bytes);
    const uint64_t n = cu.kernels(kernel, MOST_SUBJECTS);
    for (uint64_t k = 0; k < n && k < MOST_SUBJECTS; k++) {
        f.instructions += kernel[k].thread_instructions;
        f.read += kernel[k].load_bytes;
        f.stored += kernel[k].store_bytes;
        f.places += kernel[k].unique_store_bytes;
    }
    cu.count(0);
    return f;
}

/* More steps or elements are read, and none of them is stored; or where nothing is stored otherwise: what lies between
 * rows and tensors. */
static bool stores_beside(const Subject *s, const Mutation *m, char *why, size_t room) {
    char *mutant = mutation_apply(s->text, m);
    const Footprint was = footprint(s, s->text), now = footprint(s, mutant);
    const long long more = (long long)(now.stored - was.stored), fresh = (long long)(now.places - was.places);
    free(mutant);
    snprintf(why, room, "%+lld instructions, %+lld bytes read, %+lld stored, in bounds%s",
             (long long)(now.instructions - was.instructions), (long long)(now.read - was.read), more,
             more ? ", in places that the kernel leaves alone otherwise, between rows or tensors" : "");
    return more == 0 || more == fresh;
}

/* A constant far beyond all memory in its place goes unnoticed too. */
static bool is_dead(Subject *s, const Mutation *m, char *why, size_t room) {
    bool reported;
    Mutation wild = *m;
    if (!isdigit((unsigned char)m->now[0])) return false;
    snprintf(wild.now, sizeof wild.now, "1073741824");
    char *mutant = mutation_apply(s->text, &wild);
    const bool dead = !caught(s, mutant, &reported);
    free(mutant);
    snprintf(why, room, "its result is used no more where it differs: with 2^30 there nothing is noticed either");
    return dead;
}

/* The word that is read now has the bits of the other, in every thread. */
static bool reads_the_same(Subject *s, const Mutation *m, char *why, size_t room) {
    const char *op = s->text + m->statement;
    const char *load = !strncmp(op, "ld.shared.", 10) ? "ld.shared.b32" : "ld.global.b32";
    const int length = (int)strcspn(op, " \t");
    Mutation both = *m;
    if (strncmp(op, "ld.", 3) != 0 || strncmp(op + length - 2, "32", 2) != 0) return false;
    snprintf(both.differs, sizeof both.differs,
             "{ .reg .pred other; .reg .b32 was, now; %s was, %.*s; %s now, %s; setp.ne.b32 other, was, now; @other "
             "trap; } ",
             load, (int)m->bytes, s->text + m->at, load, m->now);
    snprintf(why, room, "both words have the same bits, in every thread");
    return changes_nothing(s, &both);
}

/* With the least number in place of what is loaded nothing is noticed either. */
static bool is_outdone(Subject *s, const Mutation *m, char *why, size_t room) {
    const char *op = s->text + m->statement, *to = op + strcspn(op, " \t");
    bool reported;
    Mutation least = {.kind = m->kind, .at = m->statement, .bytes = strcspn(op, ";") + 1, .line = m->line};
    to += strspn(to, " \t");
    if (strncmp(op, "ld.", 3) != 0 || *to != '%') return false;
    snprintf(least.now, sizeof least.now, "mov.f32 %.*s, 0fFF7FFFFF;", (int)strcspn(to, ","), to);
    char *mutant = mutation_apply(s->text, &least);
    const bool outdone = !caught(s, mutant, &reported);
    free(mutant);
    snprintf(why, room, "a maximum that another value decides: with -FLT_MAX loaded nothing is noticed either");
    return outdone;
}

/* From the barrier on, in one direction, the next one comes before any access, jump or label. */
static bool barrier_beside(const char *text, size_t at, int step) {
    static const char *const ENDS[] = {"ld.", "st.", "bra", "ret", ":", "{", "}", "shfl", "atom", "red.", "mbarrier"};
    const char *line = text + at;
    for (;;) {
        char copy[256];
        if (step > 0) {
            line = strchr(line, '\n');
            if (!line) return false;
            line++;
        } else {
            while (line > text && line[-1] != '\n') line--;
            if (line == text) return false;
            for (line--; line > text && line[-1] != '\n';) line--;
        }
        snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
        if (strstr(copy, "bar.sync")) return true;
        for (size_t k = 0; k < sizeof ENDS / sizeof *ENDS; k++)
            if (strstr(copy, ENDS[k])) return false;
    }
}

static bool is_doubled(const Subject *s, const Mutation *m, char *why, size_t room) {
    const bool after = barrier_beside(s->text, m->at, 1);
    snprintf(why, room, "another barrier %s, with no access between the two", after ? "follows" : "stands before it");
    return after || barrier_beside(s->text, m->at, -1);
}

/* One blank between words, no numbers of registers, nothing after the first semicolon. */
static void plain_text(const char *from, char *to, size_t room) {
    size_t n = 0;
    for (; *from && *from != '\n' && n + 1 < room; from++) {
        const bool blank = *from == ' ' || *from == '\t';
        if (blank && (!n || to[n - 1] == ' ')) continue;
        to[n++] = blank ? ' ' : *from;
        if (*from == ';') break;
        if (*from != '%') continue;
        while (isalpha((unsigned char)from[1]) && n + 1 < room) to[n++] = *++from;
        while (isdigit((unsigned char)from[1])) from++;
    }
    to[n] = '\0';
}

static bool is_listed(const Survivor *v, char *why, size_t room) {
    static const struct {
        const char *subject;
        int line;
        MutationKind kind;
        const char *was, *now, *why;
    } LIST[] = {
#define SURVIVOR(subject, line, kind, was, now, why) {subject, line, kind, was, now, why},
#include "ptxsim_survivors.def"
#undef SURVIVOR
    };
    char was[96], now[96];
    plain_text(v->was, was, sizeof was);
    plain_text(v->now, now, sizeof now);
    for (size_t k = 0; k < sizeof LIST / sizeof *LIST; k++) {
        const bool here = !strcmp(LIST[k].subject, v->source == EMITTED ? SOURCE_NAME[EMITTED] : v->subject);
        if (!here || LIST[k].kind != v->kind) continue;
        if ((LIST[k].line && LIST[k].line != v->line) || strcmp(LIST[k].was, was) || strcmp(LIST[k].now, now)) continue;
        snprintf(why, room, "%s", LIST[k].why);
        return true;
    }
    return false;
}

static bool explain(Subject *s, const Mutation *m, Survivor *v) {
    const size_t room = sizeof v->why;
    if (is_listed(v, v->why, room)) return true;
    if (m->kind == MUTATE_BOUND && stores_beside(s, m, v->why, room)) return true;
    if (m->kind == MUTATE_INDEX && is_outdone(s, m, v->why, room)) return true;
    if (m->kind == MUTATE_BARRIER && is_doubled(s, m, v->why, room)) return true;
    snprintf(v->why, room, "NO REASON: to be looked at, and listed in ptxsim_survivors.def");
    return false;
}

/* It changes a value that nothing uses, or loads the bits that it should. */
static bool comes_to_nothing(Subject *s, const Mutation *m) {
    char why[sizeof((Survivor *)0)->why];
    return m->kind == MUTATE_INDEX && (is_dead(s, m, why, sizeof why) || reads_the_same(s, m, why, sizeof why));
}

/* The list has what this release of nvcc makes; another one's survivors are printed. */
static bool must_be_explained(const Subject *s, Source source) {
    return source != NVCC || strstr(s->text, "release 13.0") != NULL;
}

static void survived(Subject *s, Source source, const Mutation *m) {
    assert_true(tally.survivors < MOST_SURVIVORS);
    Survivor *v = &tally.survivor[tally.survivors++];
    *v = (Survivor){.source = source, .kind = m->kind, .line = m->line};
    snprintf(v->subject, sizeof v->subject, "%s", s->name);
    const char *line = s->text + m->at;
    while (line > s->text && line[-1] != '\n') line--;
    while (*line == '\t' || *line == ' ') line++;
    snprintf(v->was, sizeof v->was, "%.*s", (int)strcspn(line, "\n"), line);
    snprintf(v->now, sizeof v->now, "%s", m->now[0] ? m->now : "nothing");
    if (!explain(s, m, v)) tally.unexplained += must_be_explained(s, source);
}

/* False: it is none. */
static bool try_mutant(Subject *s, Source source, const Mutation *m) {
    bool reported = false;
    if (changes_nothing(s, m)) {
        tally.equivalent[source][m->kind]++;
        return false;
    }
    char *mutant = mutation_apply(s->text, m);
    const bool told = caught(s, mutant, &reported);
    free(mutant);
    if (!told && comes_to_nothing(s, m)) {
        tally.equivalent[source][m->kind]++;
        return false;
    }
    tally.made[source][m->kind]++;
    tally.caught[source][m->kind] += told;
    tally.by_report += reported;
    if (!told) survived(s, source, m);
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

/* How many of a kind; half is what is drawn first of all. */
static int wanted(Source source, MutationKind kind, int samples, bool slow) {
    const int all = samples * SAMPLE[source][kind];
    return slow && !getenv("FUSEC_SCHEDULES_EVERY") ? (all + 1) / 2 : all;
}

static void mutate_subject(Subject *s, Source source, int samples, bool slow) {
    static Mutation all[MOST_MUTATIONS];
    static const char *const COOPERATING[] = {"bar.sync", "shfl.", ".shared", NULL};
    int taken[MUTATION_KINDS] = {0};
    if (observe_base(s, 0)->found) fail_msg("%s is reported as it is: %s", s->name, first_finding());
    const int n = mutations_of(s->text, source == EMITTED ? COOPERATING : NULL, all, MOST_MUTATIONS);
    qsort(all, (size_t)n, sizeof *all, by_draw);
    for (int k = 0; k < n; k++)
        if (taken[all[k].kind] < wanted(source, all[k].kind, samples, slow))
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
        mutate_subject(&s, TWINS, 1, false);
        subject_end(&s);
    }
    closedir(d);
}

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
               mutation_names[v->kind], v->was, v->now, v->why);
    }
}

static void emitted(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof PROGRAMS / sizeof *PROGRAMS; k++) {
        Subject s = program_subject(k);
        mutate_subject(&s, EMITTED, PROGRAMS[k].samples, PROGRAMS[k].slow);

        subject_end(&s);
    }
}

static void others(void **state) {
    (void)state;
    for (size_t k = 0; find_nvcc() && k < sizeof CUDA / sizeof *CUDA; k++) {
        Subject s = cuda_subject(k);
        mutate_subject(&s, NVCC, 1, false);
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
    assert_int_equal(tally.unexplained, 0);
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
