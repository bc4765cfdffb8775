/* fusec_gpu_calibrate [--write FILE] [--compare FILE] [--table FILE] [--full FILE] [--show NAME] [--only TEXT]
 * [--seconds N] Runs every instruction on the first device of libcuda.so.1 (docs/gpu.md, "Calibration").
 *   --write    the results, as vectors.h says; "%s" in FILE becomes the architecture (sm_90)
 *   --compare  with such a file, which may come from another device.  The table goes to stdout, or --table
 *   --full     all inputs and results of the instructions that differ
 *   --show     those of one instruction, on stdout
 *   --only     instructions whose names have TEXT in them
 *   --ptx      ARCH: prints the kernels, in one module, instead of running them
 * Exit status: 0 done, 1 something differs, 2 usage, 3 it could not be run. */
#include "bench/gpu/calibrate/vectors.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Options {
    const char *write, *compare, *table, *full, *show, *only, *ptx;
    int seconds;
} Options;

enum { FULL_MOST = 8 << 20, PATH = 4096 };

/* Everything that on_job needs. */
typedef struct Session {
    const Options *options;
    const Jobs *jobs;
    Vectors have, want;
    FILE *full;
} Session;

static void path_of(char to[PATH], const char *pattern, const DeviceName *d) {
    const char *mark = strstr(pattern, "%s");
    if (mark)
        snprintf(to, PATH, "%.*ssm_%d%d%s", (int)(mark - pattern), pattern, d->major, d->minor, mark + 2);
    else
        snprintf(to, PATH, "%s", pattern);
}

static void print_bytes(FILE *f, const uint8_t *data, uint32_t n) {
    for (uint32_t k = 0; k < n; k += 4) {
        uint32_t w = 0;
        memcpy(&w, data + k, n - k < 4 ? n - k : 4);
        fprintf(f, " %0*" PRIx32, n - k < 4 ? (int)(n - k) * 2 : 8, w);
    }
}

/* Records of the output, beside the inputs of each where the input has as many. */
static void print_all(FILE *f, const Job *j, const uint8_t *out) {
    static uint8_t in[JOB_MEMORY], before[JOB_MEMORY];
    const uint32_t records = j->out_bytes / j->record, one = j->in_bytes % records ? 0 : j->in_bytes / records;
    memset(in, 0, sizeof in);
    j->fill(j, in, before);
    fprintf(f, "== %s\n", j->name);
    for (uint32_t r = 0; r < records && ftell(f) < FULL_MOST; r++) {
        fprintf(f, "%" PRIu32 " in", r);
        print_bytes(f, in + r * one, one);
        fprintf(f, " out");
        for (uint32_t e = 0; e < j->each; e++)
            fprintf(f, " %0*" PRIx64, element_bits(j->element) / 4, job_result(j, out, r * j->each + e));
        fputc('\n', f);
    }
}

static void on_job(void *user, int job, Outcome outcome, const char *why, const uint8_t *out) {
    Session *s = user;
    const Job *j = &s->jobs->job[job];
    Vector *v = &s->have.vector[s->have.count++];
    vector_of(v, j, outcome, why, out);
    if (outcome != OUTCOME_DONE) return;
    const Vector *want = s->full ? vectors_find(&s->want, v->name) : NULL;
    if (want && vectors_differ(v, want)) print_all(s->full, j, out);
    if (s->options->show) print_all(stdout, j, out);
}

/* Refused and failed instructions, by reason; those not reached. */
static void say_what_did_not_run(const Vectors *all) {
    int done = 0, refused = 0, failed = 0, unreached = 0;
    for (int k = 0; k < all->count; k++) {
        const Vector *v = &all->vector[k];
        done += v->outcome == OUTCOME_DONE;
        refused += v->outcome == OUTCOME_REFUSED;
        failed += v->outcome == OUTCOME_FAILED;
        unreached += v->outcome == OUTCOME_NONE;
        if (v->outcome > OUTCOME_DONE)
            fprintf(stderr, "%s %s: %s\n", v->outcome == OUTCOME_FAILED ? "failed" : "skipped", v->name, v->why);
    }
    fprintf(stderr, "%s sm_%d%d, driver %d: %d instructions, %d skipped, %d failed, %d not reached\n", all->device.name,
            all->device.major, all->device.minor, all->device.driver, done, refused, failed, unreached);
}

static int finish(Session *s, const Options *o) {
    char path[PATH];
    int status = 0;
    say_what_did_not_run(&s->have);
    if (o->write) {
        path_of(path, o->write, &s->have.device);
        if (!vectors_write(path, &s->have)) return 3;
    }
    if (!o->compare) return status;
    FILE *table = o->table ? fopen(o->table, "w") : stdout;
    if (!table) {
        fprintf(stderr, "fusec_gpu_calibrate: %s cannot be written\n", o->table);
        return 3;
    }
    status = vectors_compare(&s->have, &s->want, s->jobs, table) > 0;
    if (o->table) fclose(table);
    return status;
}

static void keep(Jobs *jobs, const char *only, const char *show) {
    int n = 0;
    for (int k = 0; k < jobs->count; k++)
        if ((!only || strstr(jobs->job[k].name, only)) && (!show || !strcmp(jobs->job[k].name, show)))
            jobs->job[n++] = jobs->job[k];
    jobs->count = n;
}

static int run(const Options *o, Jobs *jobs) {
    Session s = {.options = o, .jobs = jobs};
    char why[WHY];
    int status = 3;
    s.have.vector = calloc((size_t)jobs->count + 1, sizeof *s.have.vector);
    if (o->full && !(s.full = fopen(o->full, "w")))
        fprintf(stderr, "fusec_gpu_calibrate: %s cannot be written\n", o->full);
    if (s.have.vector && (!o->compare || vectors_read(o->compare, &s.want)) && (!o->full || s.full)) {
        if (device_run(jobs, o->seconds, &s.have.device, why, on_job, &s))
            status = finish(&s, o);
        else
            fprintf(stderr, "fusec_gpu_calibrate: %s\n", why);
    }
    if (s.full) fclose(s.full);
    vectors_free(&s.have);
    vectors_free(&s.want);
    return status;
}

static bool options(Options *o, int argc, char **argv) {
    const struct {
        const char *name, **to;
    } TEXT[] = {{"--write", &o->write}, {"--compare", &o->compare}, {"--table", &o->table}, {"--full", &o->full},
                {"--show", &o->show},   {"--only", &o->only},       {"--ptx", &o->ptx}};
    for (int k = 1; k < argc; k += 2) {
        bool known = false;
        if (k + 1 == argc) return false;
        if (!strcmp(argv[k], "--seconds")) {
            o->seconds = atoi(argv[k + 1]);
            known = o->seconds > 0;
        }
        for (size_t x = 0; x < sizeof TEXT / sizeof *TEXT; x++)
            if (!strcmp(argv[k], TEXT[x].name)) *TEXT[x].to = argv[k + 1], known = true;
        if (!known) return false;
    }
    return true;
}

static int print_module(const Jobs *jobs, const char *target) {
    Text t = {0};
    jobs_module(jobs, 0, jobs->count, "8.7", target, &t);
    fputs(t.data, stdout);
    text_free(&t);
    return fflush(stdout) ? 3 : 0;
}

int main(int argc, char **argv) {
    Options o = {.seconds = 600};
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        puts("fusec_gpu_calibrate 1");
        return 0;
    }
    if (!options(&o, argc, argv)) {
        fputs("usage: fusec_gpu_calibrate [--write FILE] [--compare FILE] [--table FILE] [--full FILE] [--show NAME]\n"
              "                           [--only TEXT] [--seconds N] [--ptx ARCH]\n",
              stderr);
        return 2;
    }
    Jobs jobs = {0};
    jobs_make(&jobs);
    keep(&jobs, o.only, o.show);
    const int status = o.ptx ? print_module(&jobs, o.ptx) : run(&o, &jobs);
    jobs_free(&jobs);
    return status;
}
