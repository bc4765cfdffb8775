/* The simulator judges hand-written kernels before it judges ours: each wrong one is reported with the right kind at
 * the right line of PTX under every schedule, its twin, which differs by the mistake alone, under none. */
#include "ptxsim_case.h"
#include <dirent.h>

static const char *const LANDINGS[] = {"early", "late", "random"};
enum { SEEDS = 16, LANDING_COUNT = 3, MOST_CASES = 256, MOST_TEXT = 400 };

typedef struct Name {
    char path[MOST_TEXT];
} Name;

static int by_path(const void *a, const void *b) { return strcmp(((const Name *)a)->path, ((const Name *)b)->path); }

static int list(const char *folder, Name *names, int count) {
    DIR *d = opendir(folder);
    if (!d) fail_msg("%s: cannot be read", folder);
    for (struct dirent *e; (e = readdir(d));) {
        char path[MOST_TEXT * 2];
        if (e->d_name[0] == '.') continue;
        const int n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        assert_true(n < MOST_TEXT && count < MOST_CASES);
        if (strstr(e->d_name, ".ptx"))
            memcpy(names[count++].path, path, (size_t)n + 1);
        else
            count = list(path, names, count);
    }
    closedir(d);
    return count;
}

/* Whether a word stands in a list that commas and spaces part. */
static bool listed(const char *text, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += n)
        if ((at == text || strchr(", ", at[-1])) && (!at[n] || strchr(", ", at[n]))) return true;
    return false;
}

static void describe(const Outcome *o, char *text, size_t room) {
    int n = snprintf(text, room, "result %d%s%s", (int)o->result, o->log[0] ? ", " : "", o->log);
    for (int k = 0; k < o->findings && n < (int)room - 40; k++)
        n += snprintf(text + n, room - (size_t)n, ", %s at line %d", o->found[k].kind, o->found[k].line);
}

/* NULL: reported as its header says. */
static const char *judge_wrong(const PtxCase *c, const Outcome *o, const Outcome *twin) {
    if (listed(c->kinds, "value")) {
        if (o->findings) return "a finding where only the result is wrong";
        return memcmp(o->memory, twin->memory, o->words * sizeof *o->memory) ? NULL : "the result is that of the twin";
    }
    bool at_line = false;
    for (int k = 0; k < o->findings; k++) {
        if (!listed(c->kinds, o->found[k].kind)) return "a finding of another kind";
        at_line |= c->expected[o->found[k].line];
    }
    return !o->findings ? "nothing found" : at_line ? NULL : "found at another line";
}

static int run_case(const char *path, bool *failed) {
    static PtxCase wrong, twin;
    static Outcome wrong_outcome, twin_outcome;
    char text[1024];
    int runs = 0;
    case_read(&wrong, path, true);
    case_read(&twin, path, false);
    for (int l = 0; l < LANDING_COUNT && !*failed; l++)
        for (unsigned seed = 0; seed < SEEDS && !*failed; seed++, runs++) {
            case_schedule(seed, LANDINGS[l]);
            case_run(&twin, "k", &twin_outcome);
            const char *why = twin_outcome.findings || twin_outcome.result ? "the twin is reported" : NULL;
            const Outcome *shown = &twin_outcome;
            if (!why && (!wrong.landing[0] || listed(wrong.landing, LANDINGS[l]))) {
                case_run(&wrong, "k", &wrong_outcome);
                why = judge_wrong(&wrong, &wrong_outcome, &twin_outcome);
                shown = &wrong_outcome;
            }
            if (!why) continue;
            *failed = true;
            describe(shown, text, sizeof text);
            printf("%s: %s (seed %u, %s): %s\n", path + strlen(SOURCE_DIR "/tests/golden/ptxsim/wrong/"), why, seed,
                   LANDINGS[l], text);
        }
    free(wrong.text);
    free(twin.text);
    return runs;
}

static void corpus(void **state) {
    (void)state;
    static Name names[MOST_CASES];
    const char *only = getenv("PTXSIM_CASE"); /* a part of the path: those cases alone */
    int count = list(SOURCE_DIR "/tests/golden/ptxsim/wrong", names, 0), failures = 0, runs = 0;
    qsort(names, (size_t)count, sizeof *names, by_path);
    for (int k = 0; k < count; k++) {
        bool failed = false;
        if (only && !strstr(names[k].path, only)) continue;
        runs += run_case(names[k].path, &failed);
        failures += failed;
    }
    printf("%d kernels and their twins, %d schedules: %d failed\n", count, runs, failures);
    assert_true(count >= 60);
    assert_int_equal(failures, 0);
}

int main(void) {
    case_silence();
    driver_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(corpus)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(getenv("PTXSIM_REPORT"));
    return failed;
}
