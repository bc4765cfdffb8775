/* The emitted C, through the system's compiler ($CC, or cc). */
#include "codegen/artifact/artifact.h"
#include "tools/fusec/executor.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef fusec_status RunFunction(const fusec_memory *memory, int entry, const void *const *inputs, void *const *outputs,
                                 const float *hyper, int32_t step, uint32_t seed, const int32_t *syms);

typedef struct C99Executor {
    Arena *arena;
    void *library;
    RunFunction *run;
} C99Executor;

static const char *target(const char *arch) {
    (void)arch;
    return "c99";
}

/* ---- a directory of files that is removed again --------------------------------------------------------- */
typedef struct Scratch {
    char *dir, *source, *header, *library, *log;
} Scratch;

static bool scratch_open(Arena *a, Scratch *s, const char **error) {
    const char *tmp = getenv("TMPDIR");
    s->dir = arena_printf(a, "%s/fusec-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(s->dir)) {
        *error = arena_printf(a, "%s: %s", s->dir, strerror(errno));
        return false;
    }
    s->source = arena_printf(a, "%s/model.c", s->dir);
    s->header = arena_printf(a, "%s/model.h", s->dir);
    s->library = arena_printf(a, "%s/model.so", s->dir);
    s->log = arena_printf(a, "%s/log", s->dir);
    return true;
}

static void scratch_close(const Scratch *s) {
    unlink(s->source), unlink(s->header), unlink(s->library), unlink(s->log);
    rmdir(s->dir);
}

static bool write_sources(Arena *a, const Scratch *s, const Module *m, const char **error) {
    FILE *c = fopen(s->source, "w"), *h = fopen(s->header, "w");
    const char *why = c && h ? artifact_c99(c, m, "model.h") : NULL;
    if (h) artifact_header(h, m, BACKEND_C99);
    const bool written = c && h && !ferror(c) && !ferror(h);
    const bool closed = (!c || fclose(c) == 0) & (!h || fclose(h) == 0);
    if (why) *error = arena_printf(a, "no C form: %s", why);
    else if (!written || !closed) *error = arena_printf(a, "%s: %s", s->dir, strerror(errno));
    return !why && written && closed;
}

/* ---- the compiler -------------------------------------------------------------------------------------------- */
static char *read_log(Arena *a, const char *path) {
    char text[2048];
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    return arena_strndup(a, text, n);
}

static bool compile(Arena *a, const Scratch *s, const char **error) {
    const char *cc = getenv("CC");
    char *argv[] = {(char *)(cc && *cc ? cc : "cc"), "-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-o", s->library, s->source, "-lm", NULL};
    posix_spawn_file_actions_t redirect;
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_init(&redirect);
    posix_spawn_file_actions_addopen(&redirect, 1, s->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&redirect, 1, 2);
    const int failed = posix_spawnp(&pid, argv[0], &redirect, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&redirect);
    if (failed) {
        *error = arena_printf(a, "the C compiler `%s` cannot be run: %s (set CC)", argv[0], strerror(failed));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    *error = arena_printf(a, "the C compiler `%s` failed:\n%s", argv[0], read_log(a, s->log));
    return false;
}

static bool load(C99Executor *x, const Scratch *s, const Module *m, const char **error) {
    x->library = dlopen(s->library, RTLD_NOW | RTLD_LOCAL);
    if (!x->library) {
        *error = arena_strdup(x->arena, dlerror());
        return false;
    }
    const char *name = arena_printf(x->arena, "%s_run", artifact_prefix(x->arena, m));
    void *symbol = dlsym(x->library, name);
    if (!symbol) {
        *error = arena_printf(x->arena, "the compiled model has no %s", name);
        dlclose(x->library);
        return false;
    }
    memcpy(&x->run, &symbol, sizeof symbol); /* ISO C has no cast from data to function */
    return true;
}

static void *open_c99(Arena *a, const Module *m, const ExecutorOptions *o, const char **error) {
    (void)o;
    C99Executor *x = ARENA_NEW(a, C99Executor);
    Scratch s;
    x->arena = a;
    if (!scratch_open(a, &s, error)) return NULL;
    const bool ok = write_sources(a, &s, m, error) && compile(a, &s, error) && load(x, &s, m, error);
    scratch_close(&s);
    return ok ? x : NULL;
}

static bool run(void *self, const fusec_memory *memory, const ExecutorCall *c, const char **error) {
    C99Executor *x = self;
    const fusec_status s = x->run(memory, (int)c->entry | (c->accumulate ? FUSEC_ACCUMULATE : 0), (const void *const *)c->inputs,
                                  c->outputs, c->hypers, c->step, c->seed, c->syms);
    if (s != FUSEC_OK) *error = fusec_status_text(s);
    return s == FUSEC_OK;
}

static void close_c99(void *self) { dlclose(((C99Executor *)self)->library); }

const ExecutorKind executor_c99 = {.name = "c99", .target = target, .open = open_c99, .run = run, .close = close_c99};
