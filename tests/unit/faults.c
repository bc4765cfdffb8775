/* Every command while memory, a file or the disk fails it: the k-th call of a kind, or all from the k-th on.
 *
 * A trial passes if the command ends by itself, and either reports an error (an exit status, a message) and leaves
 * every file as it was or whole and new, all of one command alike, or ends well with what it prints and writes without
 * a fault; and if nothing else is left, here or in $TMPDIR.
 *
 * FAULTS_TRIALS (default 250; ./dev fuzz 800), FAULTS_SEED, FAULTS_FIRST (the number of the first trial: with FAULTS_TRIALS=1 a trial
 * is repeated), FAULTS_ONLY (of commands that have this text).  Prints `faults N` and `lost N`. */
#include "tests/faults/inject.h"
#include "tests/support/scratch.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define GPU_FOLDER BUILD_DIR "/ptxsim"
#define FUSEC BUILD_DIR "/fusec "
#define PTXSIM GPU_FOLDER "/ptxsim "

enum { MOST_OUTPUTS = 3, MOST_ARGUMENTS = 20, OUTPUT_BYTES = 1 << 22, TEXT_BYTES = 1 << 16 };

typedef struct Command {
    int weight;
    bool gpu;                         /* the software one */
    const char *arguments;            /* separated by blanks */
    const char *was;                  /* a file that output[0] is a copy of; NULL: a few words */
    const char *output[MOST_OUTPUTS]; /* that it writes, and that exist before */
} Command;

static const Command commands[] = {
#define COMMAND(weight, gpu, arguments, was, ...) {weight, gpu, arguments, was, {__VA_ARGS__}},
#include "tests/faults/commands.def"
#undef COMMAND
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const char small[] = "model s {\n    input x : f32[4]\n    output y = x * 2\n}\n";
static const char product[] = "model p {\n    precision bf16\n    input x : f32[64, 64]\n    output y = x @ x\n}\n";
static const char model[] = "model m {\n    input x : f32[B, 3]\n    input t : f32[B, 2]\n"
                            "    y = linear(tanh(linear(x, 4) as a), 2) as b\n    output z = y\n"
                            "    output loss = mean((y - t) ^ 2)\n    train loss with adam(lr = 0.01)\n}\n"
                            "dim B <= 4\n";

static const char *folder; /* of all: the inputs; box/, where commands run; tmp/, their TMPDIR */
static FaultPlan *plan;

/* ---- files ------------------------------------------------------------------------------------------------------- */
typedef struct Bytes {
    char *at;
    size_t n;
    bool there;
} Bytes;

static char *path_of(const char *name) {
    static char path[4][PATH_MAX];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, PATH_MAX, "%s/%s", folder, name);
    return p;
}

static Bytes read_file(const char *path) {
    Bytes b = {0};
    FILE *f = fopen(path, "rb");
    if (!f) return b;
    b.at = malloc(OUTPUT_BYTES);
    assert_non_null(b.at);
    b.n = fread(b.at, 1, OUTPUT_BYTES, f);
    b.there = true;
    fclose(f);
    return b;
}

static void write_bytes(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}
static void write_words(const char *name, const char *text) { write_bytes(path_of(name), text, strlen(text)); }

static bool same(const Bytes *a, const Bytes *b) {
    return a->there == b->there && a->n == b->n && (!a->n || !memcmp(a->at, b->at, a->n));
}

/* The first name in a folder of ours that is none of those expected; the folder is emptied. */
static bool sweep(const char *name, const char *const *expected, char *found, size_t room) {
    DIR *d = opendir(path_of(name));
    bool clean = true;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[PATH_MAX];
        bool known = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
        if (known) continue;
        for (int i = 0; expected && i < MOST_OUTPUTS && expected[i]; i++) known |= !strcmp(expected[i], e->d_name);
        if (!known && clean) snprintf(found, room, "%s/%s is left", name, e->d_name);
        clean = clean && known;
        snprintf(path, sizeof path, "%s/%s", path_of(name), e->d_name);
        if (unlink(path) != 0) {
            char line[PATH_MAX + 16];
            snprintf(line, sizeof line, "rm -rf '%s'", path);
            assert_int_equal(system(line), 0);
        }
    }
    closedir(d);
    return clean;
}

/* ---- a command --------------------------------------------------------------------------------------------------- */
typedef struct Result {
    int status; /* of wait */
    bool hung;
    Bytes out, err, file[MOST_OUTPUTS];
} Result;

static void release(Result *r) {
    free(r->out.at);
    free(r->err.at);
    for (int i = 0; i < MOST_OUTPUTS; i++) free(r->file[i].at);
}

static pid_t start(const Command *c) {
    static char line[1024], preload[PATH_MAX], with[PATH_MAX], tmp[PATH_MAX];
    char *argv[MOST_ARGUMENTS] = {NULL}, *rest = NULL;
    int n = 0;
    snprintf(line, sizeof line, "%s", c->arguments);
    for (char *w = strtok_r(line, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) argv[n++] = w;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", FAULTS_LIBRARY);
    snprintf(with, sizeof with, "FAULT_PLAN=%s", path_of("plan"));
    snprintf(tmp, sizeof tmp, "TMPDIR=%s", path_of("tmp"));
    char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
    char gpu[] = "LD_LIBRARY_PATH=" GPU_FOLDER;
    char *environment[] = {preload, with, tmp, path, c->gpu ? gpu : NULL, NULL};
    posix_spawn_file_actions_t to;
    pid_t pid;
    posix_spawn_file_actions_init(&to);
    posix_spawn_file_actions_addchdir_np(&to, path_of("box"));
    posix_spawn_file_actions_addopen(&to, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&to, 1, path_of("out"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&to, 2, path_of("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(posix_spawn(&pid, argv[0], &to, NULL, argv, environment), 0);
    posix_spawn_file_actions_destroy(&to);
    return pid;
}

static bool wait_for(pid_t pid, int *status) {
    enum { SECONDS = 60 };
    const struct timespec moment = {.tv_nsec = 300000};
    const time_t end = time(NULL) + SECONDS;
    for (;;) {
        if (waitpid(pid, status, WNOHANG) == pid) return true;
        if (time(NULL) > end) break;
        nanosleep(&moment, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, status, 0);
    return false;
}

static void place_old(const Command *c) {
    for (int i = 0; i < MOST_OUTPUTS && c->output[i]; i++) {
        char name[64];
        snprintf(name, sizeof name, "box/%s", c->output[i]);
        if (i == 0 && c->was) {
            Bytes b = read_file(path_of(c->was));
            write_bytes(path_of(name), b.at, b.n);
            free(b.at);
        } else {
            write_words(name, "the old contents\n");
        }
    }
}

static void read_outputs(const Command *c, Bytes *file) {
    for (int i = 0; i < MOST_OUTPUTS && c->output[i]; i++) {
        char name[64];
        snprintf(name, sizeof name, "box/%s", c->output[i]);
        file[i] = read_file(path_of(name));
    }
}

/* With calls [first, last] of the kind failing; old outputs are there before. */
static Result run(const Command *c, FaultKind kind, long first, long last) {
    Result r = {0};
    memset(plan, 0, sizeof *plan);
    plan->kind = kind, plan->first = first, plan->last = last;
    place_old(c);
    r.hung = !wait_for(start(c), &r.status);
    r.out = read_file(path_of("out"));
    r.err = read_file(path_of("err"));
    read_outputs(c, r.file);
    return r;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */
typedef struct Known {
    Result good;
    Bytes old[MOST_OUTPUTS];
    long calls[FAULT_KINDS];
} Known;

static Known known[N_COMMANDS];
static long before_main; /* calls for memory of a command that does nothing */

static bool has_word(const Bytes *text, const char *word) {
    return text->n && memmem(text->at, text->n, word, strlen(word));
}

/* Where nothing can be renamed or linked any more, the old contents stay under another name, which is said. */
static bool kept_elsewhere(const Result *r, const char *name, const Bytes *old) {
    char said[64], file[PATH_MAX] = "box/";
    snprintf(said, sizeof said, "the old contents of %s are in ", name);
    const char *at = r->err.n ? memmem(r->err.at, r->err.n, said, strlen(said)) : NULL;
    if (!at) return false;
    sscanf(at + strlen(said), "%100[^\n]", file + strlen(file));
    Bytes b = read_file(path_of(file));
    const bool kept = same(&b, old);
    free(b.at);
    unlink(path_of(file));
    return kept;
}

static const char tile_failed[] = ": failed: ";

/* A whole one, after a tile could not be tried, which was said. */
static bool is_profile(const Result *r, int n) {
    const Bytes *b = &r->file[n];
    return has_word(&r->err, tile_failed) && b->n && !strncmp(b->at, "fusec-profile ", 14) && b->at[b->n - 1] == '\n';
}

static const char *judge_files(const Command *c, const Known *k, const Result *r, bool done) {
    int old = 0, new = 0, n = 0;
    for (; n < MOST_OUTPUTS && c->output[n]; n++) {
        const bool is_new = same(&r->file[n], &k->good.file[n]);
        const bool is_old = same(&r->file[n], &k->old[n]) || kept_elsewhere(r, c->output[n], &k->old[n]);
        if (!r->file[n].there && !is_old) return "a file that existed is gone";
        if (is_profile(r, n)) {
            new ++;
            continue;
        }
        if (!is_new && !is_old) return "a file is neither the old nor the new one";
        if (done && !is_new) return "success without the new file";
        new += is_new && !is_old, old += is_old;
    }
    /* evaluation after training writes by itself */
    const bool together = !strstr(c->arguments, " run ");
    return together && new < n &&old < n ? "some files are new and some old" : NULL;
}

static const char *judge(const Command *c, const Known *k, const Result *r) {
    static char found[PATH_MAX];
    const bool done = WIFEXITED(r->status) && r->status == k->good.status;
    const char *files = judge_files(c, k, r, done);
    const bool here = sweep("box", c->output, found, sizeof found), there = sweep("tmp", NULL, found, sizeof found);
    if (r->hung) return "it did not end";
    if (WIFSIGNALED(r->status)) return strsignal(WTERMSIG(r->status));
    if (files) return files;
    if (!here || !there) return found;
    if (done && !same(&r->out, &k->good.out) && !has_word(&r->err, tile_failed))
        return "success, and it printed something else";
    if (!done && same(&r->err, &k->good.err)) return "no message";
    return NULL;
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */
static uint64_t mix(uint64_t x) { /* SplitMix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static bool is_asked_for(int command) {
    const char *only = getenv("FAULTS_ONLY");
    return !only || strstr(commands[command].arguments, only);
}

static int choose(uint64_t random) {
    int sum = 0, i = 0;
    for (int c = 0; c < N_COMMANDS; c++) sum += is_asked_for(c) ? commands[c].weight : 0;
    for (int left = (int)(random % (uint64_t)sum);; i++) {
        if (!is_asked_for(i)) continue;
        if (left < commands[i].weight) return i;
        left -= commands[i].weight;
    }
}

/* Most of a command's own calls, some of those of the libraries that are loaded before it starts. */
static long choose_call(uint64_t random, const Known *k, FaultKind kind) {
    const long all = k->calls[kind];
    const long skip = kind == FAULT_MEMORY && random % 8 && all > before_main ? before_main : 0;
    return skip + 1 + (long)(mix(random) % (uint64_t)(all > skip ? all - skip : 1));
}

static struct { long faults, lost; } total;

/* `name`: how the trial can be repeated. */
static void try(const char *name, int i, FaultKind kind, long first, long last) {
    const Command *c = &commands[i];
    Result r = run(c, kind, first, last);
    const char *wrong = judge(c, &known[i], &r);
    total.faults += plan->failed > 0;
    if (wrong) {
        total.lost++;
        printf("LOST %s: %s: %s call %ld%s (%s): %s\n%.*s", name, c->arguments,
               kind == FAULT_MEMORY ? "memory" : "file", first, last == first ? "" : " and all after", plan->where,
               wrong, (int)(r.err.n < 600 ? r.err.n : 600), r.err.n ? r.err.at : "");
        fflush(stdout);
    }
    release(&r);
}

static void trial(uint64_t seed, long number) {
    const uint64_t random = mix(mix(seed) + (uint64_t)number);
    const int i = choose(random);
    const FaultKind kind = mix(random + 1) % 5 < 3 ? FAULT_MEMORY : FAULT_FILES;
    const long first = choose_call(mix(random + 2), &known[i], kind), last = mix(random + 3) % 5 < 3 ? first : LONG_MAX;
    char name[32];
    snprintf(name, sizeof name, "%ld", number);
    try(name, i, kind, first, last);
}

/* ---- set up ------------------------------------------------------------------------------------------------------ */
static void write_inputs(void) {
    char rows[256] = "", header[256];
    write_words("s.dsl", small);
    write_words("m.dsl", model);
    write_words("p.dsl", product);
    write_words("wrong.dsl", "model w {\n    input x : f32[4]\n    output y = x @@ 2 + q\n}\n");
    for (int i = 0; i < 6; i++) snprintf(rows + strlen(rows), 32, "%d,%d,%d\n", i, i * i % 5, 1 - i);
    write_words("x.csv", rows);
    write_words("t.csv", "1,0\n0,1\n1,1\n0,0\n1,0\n0,1\n");
    const char *const text = "{\"x\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[0,%d]}%s}";
    for (int k = 0; k < 2; k++) {
        char bytes[512] = {0};
        const int data = k ? 48 : 16, second = k ? 32 : 0;
        snprintf(header, sizeof header, text, k ? "4,3" : "4", data,
                 k ? ",\"t\":{\"dtype\":\"F32\",\"shape\":[4,2],\"data_offsets\":[48,80]}" : "");
        bytes[0] = (char)strlen(header);
        memcpy(bytes + 8, header, strlen(header));
        write_bytes(path_of(k ? "in.safetensors" : "sin.safetensors"), bytes,
                    8 + strlen(header) + (size_t)(data + second));
    }
}

/* What every command does without a fault. */
static void learn(void) {
    static const Command nothing = {.arguments = FUSEC "--version"};
    Result r = run(&nothing, FAULT_MEMORY, 0, 0);
    assert_int_equal(r.status, 0);
    before_main = plan->calls[FAULT_MEMORY];
    assert_true(before_main > 0); /* the library is at work */
    release(&r);
    for (int i = 0; i < N_COMMANDS; i++) {
        char found[PATH_MAX];
        Known *k = &known[i];
        place_old(&commands[i]);
        read_outputs(&commands[i], k->old);
        k->good = run(&commands[i], FAULT_MEMORY, 0, 0);
        if (k->good.status != 0 && !strstr(commands[i].arguments, "wrong"))
            fail_msg("%s: %.*s", commands[i].arguments, (int)k->good.err.n, k->good.err.at);
        for (int f = 0; f < FAULT_KINDS; f++) k->calls[f] = plan->calls[f];
        if (!sweep("box", commands[i].output, found, sizeof found) || !sweep("tmp", NULL, found, sizeof found))
            fail_msg("%s: %s", commands[i].arguments, found);
    }
}

static int prepare(void **state) {
    char line[3 * PATH_MAX];
    scratch_make(state);
    folder = scratch_folder();
    assert_true(mkdir(path_of("box"), 0700) == 0 && mkdir(path_of("tmp"), 0700) == 0);
    const int fd = open(path_of("plan"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && ftruncate(fd, sizeof *plan) == 0);
    plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(plan != MAP_FAILED);
    close(fd);
    write_inputs();
    snprintf(line, sizeof line,
             "cd %s && gzip -k x.csv && " BUILD_DIR
             "/fusec run m.dsl --target interp --data x=x.csv --data t=t.csv --epochs 2 "
             "--quiet --save at2.safetensors >out && LD_LIBRARY_PATH=" GPU_FOLDER " " BUILD_DIR
             "/fusec tune p.dsl --profile=profile --tiles=1 >out && " FUSEC "s.dsl -o y.ptx",
             folder);
    assert_int_equal(system(line), 0);
    learn();
    return 0;
}

static int finish(void **state) {
    char found[PATH_MAX];
    printf("faults %ld\nlost %ld\n", total.faults, total.lost);
    fflush(stdout);
    sweep("box", NULL, found, sizeof found);
    rmdir(path_of("box"));
    rmdir(path_of("tmp"));
    return scratch_remove(state);
}

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

/* Two commands that write, by every file call. */
static void every_file_call(void **state) {
    (void)state;
    const long lost = total.lost;
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].arguments, FUSEC "../m.dsl -o y.c") && !strstr(commands[i].arguments, "--resume"))
            continue;
        for (long k = 1; k <= known[i].calls[FAULT_FILES]; k++) {
            try("of every file call", i, FAULT_FILES, k, k);
            try("of every file call", i, FAULT_FILES, k, LONG_MAX);
        }
    }
    assert_int_equal(total.lost, lost);
}

static void any_call(void **state) {
    (void)state;
    const long trials = number("FAULTS_TRIALS", 250), first = number("FAULTS_FIRST", 0), lost = total.lost;
    const uint64_t seed = (uint64_t)number("FAULTS_SEED", 1);
    for (long i = first; i < first + trials; i++) trial(seed, i);
    assert_true(total.faults > 0);
    assert_int_equal(total.lost, lost);
}

int main(void) {
#if defined __SANITIZE_ADDRESS__ || !defined __GLIBC__
    return 77; /* the sanitizer has the calls to itself */
#endif
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_file_call), cmocka_unit_test(any_call)};
    const struct CMUnitTest one[] = {cmocka_unit_test(any_call)};
    return getenv("FAULTS_FIRST") ? cmocka_run_group_tests(one, prepare, finish)
                                  : cmocka_run_group_tests(tests, prepare, finish);
}
