/* Host code in this process, through LLVM. */
#include "codegen/host/host.h"
#include "tools/fusec/executor.h"
#include <stdlib.h>

typedef struct HostExecutor {
    Arena *arena;
    HostJit *jit;
    fusec_host host;
} HostExecutor;

static const char *target(const char *arch) {
    (void)arch;
    return "host";
}

static void *open_host(Arena *a, const Module *m, const ExecutorOptions *o, const char **error) {
    HostExecutor *x = ARENA_NEW(a, HostExecutor);
    const HostOptions ho = {.cpu = o->arch};
    const fusec_options options = {.threads = o->threads, .check_finite = o->check_finite};
    const fusec_memory none = {0};
    char *why;
    x->arena = a;
    x->jit = host_jit(m, &ho, &why);
    if (!x->jit) {
        *error = arena_strdup(a, why);
        free(why);
        return NULL;
    }
    const fusec_status s =
        fusec_host_init(&x->host, host_jit_manifest(x->jit), host_jit_kernels(x->jit), &none, &options);
    if (s == FUSEC_OK) return x;
    *error = fusec_status_text(s);
    host_jit_free(x->jit);
    return NULL;
}

static bool run(void *self, const fusec_memory *memory, const ExecutorCall *c, const char **error) {
    HostExecutor *x = self;
    const fusec_host_call call = {.inputs = (const void *const *)c->inputs,
                                  .outputs = c->outputs,
                                  .syms = c->syms,
                                  .hypers = c->hypers,
                                  .step = c->step};
    x->host.memory = *memory;
    x->host.options.seed = c->seed;
    const fusec_status s = fusec_host_run(&x->host, executor_entry(c), &call);
    const bool ok = s == FUSEC_OK || s == FUSEC_SKIPPED; /* the states tell of skipped steps */
    if (!ok) *error = fusec_status_text(s);
    return ok;
}

static void close_host(void *self) {
    HostExecutor *x = self;
    fusec_host_free(&x->host);
    host_jit_free(x->jit);
}

const ExecutorKind executor_host = {
    .name = "host", .target = target, .open = open_host, .run = run, .close = close_host};
