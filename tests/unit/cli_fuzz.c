/* The command as users run it, on damaged programs, data and weights: exit status 0, 1 or 2, in bounded time and
 * memory, and a word on stderr where it is not 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
enum { LIMITED_MEMORY = 0 }; /* its shadow is larger than any limit */
#else
enum { LIMITED_MEMORY = 1 };
#endif
enum { SECONDS = 20, LONGEST = 1 << 16 };

typedef struct File {
    uint8_t byte[LONGEST];
    size_t n;
} File;

typedef struct Place {
    char dir[64];
    uint32_t seed;
} Place;

static uint32_t next(Place *p) {
    p->seed ^= p->seed << 13;
    p->seed ^= p->seed >> 17;
    return p->seed ^= p->seed << 5;
}

static void write_file(const char *path, const File *f) {
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(f->byte, 1, f->n, out), f->n);
    assert_int_equal(fclose(out), 0);
}

static File *read_file(const char *path) {
    File *f = malloc(sizeof *f);
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("%s", path);
    f->n = fread(f->byte, 1, LONGEST, in);
    fclose(in);
    return f;
}

/* One edit, or up to four: bytes, bits, runs removed or doubled, words and numbers that matter to some reader. */
static void damage(Place *p, File *f) {
    static const char *const word[] = {"0", "-1", "9223372036854775807", "1e999", "nan", "{", "}", "(", ")", "[", "]", "\"", ",", "\n",
                                       "repeat 99999 ", "let ", "x", "loss", "<=", "..", "-inf", "\\u0000", "'shape': (", "data_offsets"};
    for (uint32_t edits = next(p) % 2 ? 1 : 1 + next(p) % 4; edits > 0 && f->n > 0; edits--) {
        const size_t at = next(p) % f->n, room = f->n - at, run = 1 + next(p) % 40 % room;
        const char *text = word[next(p) % (sizeof word / sizeof *word)];
        switch (next(p) % 6) {
        case 0: f->byte[at] = (uint8_t)next(p); break;
        case 1: f->byte[at] ^= (uint8_t)(1u << next(p) % 8); break;
        case 2: f->n = at; break;
        case 3:
            memmove(&f->byte[at], &f->byte[at + run], room - run);
            f->n -= run;
            break;
        case 4:
            if (f->n + run > LONGEST) break;
            memmove(&f->byte[at + run], &f->byte[at], room);
            f->n += run;
            break;
        default: memcpy(&f->byte[at], text, strlen(text) < room ? strlen(text) : room);
        }
    }
}

static void limit(int resource, rlim_t most) { setrlimit(resource, &(struct rlimit){most, most}); }

/* The exit status of the command in the directory, its streams in `out` and `err`; -signal where one ended it. */
static int run(const Place *p, const char *command, const char *const *argument) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const char *argv[16] = {command};
        for (int i = 0; i < 14 && argument[i]; i++) argv[i + 1] = argument[i];
        limit(RLIMIT_CPU, SECONDS);
        limit(RLIMIT_CORE, 0);
        limit(RLIMIT_FSIZE, 64 << 20);
        if (LIMITED_MEMORY) limit(RLIMIT_AS, (rlim_t)3 << 30);
        alarm(3 * SECONDS); /* one that sleeps */
        if (chdir(p->dir) != 0 || !freopen("out", "w", stdout) || !freopen("err", "w", stderr)) _exit(125);
        execv(command, (char *const *)(uintptr_t)argv);
        _exit(126);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* NULL, or what is wrong with how the command ended. */
static const char *wrong(const Place *p, int status) {
    char path[128];
    snprintf(path, sizeof path, "%s/err", p->dir);
    File *err = read_file(path);
    err->byte[err->n < LONGEST ? err->n : LONGEST - 1] = 0;
    const char *text = (const char *)err->byte, *why = NULL;
    if (status < 0) why = "ended by a signal";
    else if (status > 2) why = "an exit status that is none of 0, 1, 2";
    else if (status > 0 && err->n == 0) why = "a failure without a word";
    else if (strstr(text, "runtime error:") || strstr(text, "Sanitizer")) why = "the sanitizer reports";
    else if (strstr(text, "internal error")) why = "an internal error";
    free(err);
    return why;
}

/* The file NAME of the place damaged `times` times, the command run on each, then put back; how often it succeeded. */
static int fuzz(Place *p, const char *name, int times, const char *const *argument) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    File *whole = read_file(path), *f = malloc(sizeof *f);
    int good = 0;
    for (int i = 0; i < times; i++) {
        *f = *whole;
        damage(p, f);
        write_file(path, f);
        const int status = run(p, BUILD_DIR "/fusec", argument);
        const char *why = wrong(p, status);
        if (why) {
            rename(path, "/tmp/fusec-cli-fuzz-found");
            fail_msg("%s, damage %d: status %d, %s; kept as /tmp/fusec-cli-fuzz-found", name, i, status, why);
        }
        good += status == 0;
    }
    write_file(path, whole);
    free(whole);
    free(f);
    return good;
}

static const char program[] = "# The comments are here so that some damage leaves a program a program.\n"
                              "dim B = 4 # rows of a batch; the data has twelve, so that an epoch is three steps\n"
                              "model m {\n"
                              "    input x : f32[B, 3]\n"
                              "    input label : i32[B] in 0..3\n"
                              "    h = relu(linear(x, 5) as a) # a hidden layer: [B, 5]\n"
                              "    logits = linear(dropout(h, 0.1), 3) as b # scores: [B, 3]\n"
                              "    loss = mean(cross_entropy(logits, label))\n"
                              "    output loss\n"
                              "    output logits\n"
                              "    train loss with adamw(lr = hyper 0.1 as rate) clip_norm 1.0\n"
                              "}\n";

static void save(const Place *p, const char *name, const void *bytes, size_t n) {
    char path[128];
    File *f = malloc(sizeof *f);
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    memcpy(f->byte, bytes, n);
    f->n = n;
    write_file(path, f);
    free(f);
}

/* 12 rows: d.csv with the label last, x.npy without it. */
static void save_data(const Place *p) {
    char csv[1024];
    uint8_t npy[128 + 12 * 3 * sizeof(float)];
    size_t n = 0;
    for (int i = 0; i < 12; i++) n += (size_t)snprintf(csv + n, sizeof csv - n, "%d,%d.5,-%de-1,%d\n", i, i % 5, i * 7 % 4, i % 3);
    save(p, "d.csv", csv, n);
    memset(npy, ' ', 128);
    memcpy(npy, "\223NUMPY\1\0\166\0", 10);
    const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 3), }";
    memcpy(npy + 10, header, sizeof header - 1);
    npy[127] = '\n';
    for (int i = 0; i < 36; i++) memcpy(npy + 128 + 4 * i, &(float){(float)(i % 7) / 4}, 4);
    save(p, "x.npy", npy, sizeof npy);
}

static int open_place(void **state) {
    Place *p = malloc(sizeof *p);
    *p = (Place){.dir = "/tmp/fusec-cli-XXXXXX", .seed = 20240229};
    *state = p;
    if (!mkdtemp(p->dir)) return -1;
    save(p, "m.dsl", program, sizeof program - 1);
    save_data(p);
    return 0;
}

static int close_place(void **state) {
    Place *p = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", p->dir);
    const int status = system(command);
    free(p);
    return status;
}

#define CSV "--data", "x=d.csv:1-3", "--data", "label=d.csv:4", "--quiet", "--target=interp"

static void sound_files_run(void **state) {
    const char *const train[] = {"run", "m.dsl", CSV, "--save=w.safetensors", NULL},
                      *const npy[] = {"run", "m.dsl", "--data", "x=x.npy", "--data", "label=d.csv:4", "--quiet", "--target=interp", NULL};
    assert_int_equal(run(*state, BUILD_DIR "/fusec", train), 0);
    assert_int_equal(run(*state, BUILD_DIR "/fusec", npy), 0);
}

static void bad_endings_are_seen(void **state) {
    Place *p = *state;
    assert_non_null(wrong(p, run(p, "/bin/sh", (const char *const[]){"-c", "kill -SEGV $$", NULL})));
    assert_non_null(wrong(p, run(p, "/bin/sh", (const char *const[]){"-c", "echo word >&2; exit 3", NULL})));
    assert_non_null(wrong(p, run(p, "/bin/sh", (const char *const[]){"-c", "exit 1", NULL})));
    assert_null(wrong(p, run(p, "/bin/sh", (const char *const[]){"-c", "echo word >&2; exit 1", NULL})));
}

static void damaged_programs(void **state) {
    const char *const check[] = {"check", "m.dsl", NULL}, *const train[] = {"run", "m.dsl", CSV, "--steps=2", NULL};
    const int good = fuzz(*state, "m.dsl", 250, check);
    assert_in_range(good, 5, 245); /* some still are programs, some are not */
    fuzz(*state, "m.dsl", 100, train);
}

static void damaged_data(void **state) {
    const char *const csv[] = {"run", "m.dsl", CSV, "--steps=2", NULL},
                      *const npy[] = {"run", "m.dsl", "--data", "x=x.npy", "--data", "label=d.csv:4", "--quiet", "--target=interp", NULL};
    assert_in_range(fuzz(*state, "d.csv", 100, csv), 2, 98);
    assert_in_range(fuzz(*state, "x.npy", 100, npy), 2, 98);
}

static void damaged_weights(void **state) {
    const char *const load[] = {"run", "m.dsl", CSV, "--load=w.safetensors", "--steps=1", NULL},
                      *const resume[] = {"run", "m.dsl", CSV, "--resume=w.safetensors", "--epochs=2", NULL};
    fuzz(*state, "w.safetensors", 100, load);
    fuzz(*state, "w.safetensors", 100, resume);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_files_run), cmocka_unit_test(bad_endings_are_seen), cmocka_unit_test(damaged_programs),
        cmocka_unit_test(damaged_data),    cmocka_unit_test(damaged_weights),
    };
    return cmocka_run_group_tests(tests, open_place, close_place);
}
