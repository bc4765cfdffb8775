/* The emitted C, through the system's compiler ($CC, or cc). */
#include "codegen/artifact/artifact.h"
#include "ir/memory.h"
#include "tools/fusec/executor.h"
#include "tools/fusec/process.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

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

typedef struct Sources {
    Scratch scratch;
    const char *source, *header, *library;
} Sources;

static bool write_sources(Arena *a, Sources *s, const Module *m, const char **error) {
    TextStream c, h;
    const char *why = artifact_c99(text_open(&c), m, "model.h");
    artifact_header(text_open(&h), m, &artifact_c99_form);
    char *source = text_close(&c), *header = text_close(&h);
    if (why) *error = arena_printf(a, "no C form: %s", why);
    const bool ok = !why && scratch_write(&s->scratch, s->source, source, c.n, error) &&
                    scratch_write(&s->scratch, s->header, header, h.n, error);
    free(source);
    free(header);
    return ok;
}

static bool compile(Sources *s, const char **error) {
    const char *cc = getenv("CC");
    char *argv[] = {(char *)(uintptr_t)(cc && *cc ? cc : "cc"),
                    "-std=c99",
                    "-O2",
                    "-ffp-contract=off",
                    "-shared",
                    "-fPIC",
                    "-o",
                    (char *)(uintptr_t)s->library,
                    (char *)(uintptr_t)s->source,
                    "-lm",
                    NULL};
    return process_run(&s->scratch, argv, error);
}

static bool load(C99Executor *x, const Sources *s, const Module *m, const char **error) {
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
    Sources s;
    x->arena = a;
    if (!scratch_open(a, &s.scratch, error)) return NULL;
    s.source = scratch_file(&s.scratch, "model.c");
    s.header = scratch_file(&s.scratch, "model.h");
    s.library = scratch_file(&s.scratch, "model.so");
    const bool ok = write_sources(a, &s, m, error) && compile(&s, error) && load(x, &s, m, error);
    scratch_close(&s.scratch);
    return ok ? x : NULL;
}

static bool run(void *self, const fusec_memory *memory, const ExecutorCall *c, const char **error) {
    C99Executor *x = self;
    const fusec_status s = x->run(memory, executor_entry(c),
                                  (const void *const *)c->inputs, c->outputs, c->hypers, c->step, c->seed, c->syms);
    const bool ok = s == FUSEC_OK || s == FUSEC_SKIPPED; /* the states tell of skipped steps */
    if (!ok) *error = fusec_status_text(s);
    return ok;
}

static void close_c99(void *self) { dlclose(((C99Executor *)self)->library); }

const ExecutorKind executor_c99 = {.name = "c99", .target = target, .open = open_c99, .run = run, .close = close_c99};
