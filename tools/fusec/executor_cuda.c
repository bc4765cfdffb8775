/* The emitted PTX on whatever libcuda is found, the software GPU included (LD_LIBRARY_PATH). */
#include "codegen/nvptx/nvptx.h"
#include "ir/target.h"
#include "runtime/cuda/fusec_cuda.h"
#include "tools/fusec/executor.h"
#include "tools/fusec/manifest.h"
#include <stdlib.h>

enum { LOG_BYTES = 16384 };

typedef struct CudaExecutor {
    Arena *arena;
    fusec_cuda cuda;
    char log[LOG_BYTES];
} CudaExecutor;

/* Code for the oldest architecture runs on every later one. */
static const char *target(const char *arch) {
    if (!arch) return "sm_80";
    const Target *t = target_find(arch);
    return t && t->device->is_gpu ? arch : NULL;
}

static const char *explain(CudaExecutor *x, fusec_status s) {
    return x->log[0] ? arena_printf(x->arena, "%s\n%s", fusec_status_text(s), x->log) : fusec_status_text(s);
}

static void *open_cuda(Arena *a, const Module *m, const ExecutorOptions *o, const char **error) {
    CudaExecutor *x = ARENA_NEW(a, CudaExecutor);
    const fusec_manifest *manifest = manifest_of(a, m);
    const NvptxOptions no = {.arch = target(o->arch)};
    char *ptx = NULL, *why;
    x->arena = a;
    if (!manifest) {
        *error = "a kernel's grid has too many axes";
        return NULL;
    }
    if (!o->ptx && !nvptx_emit_ptx(m, &no, &ptx, &why)) {
        *error = arena_strdup(a, why);
        free(why);
        return NULL;
    }
    const fusec_cuda_image image = {.data = o->ptx ? o->ptx : ptx};
    const fusec_cuda_options options = {.log = x->log, .log_bytes = sizeof x->log,
                                        .check_finite = o->check_finite};
    const fusec_status s = fusec_cuda_init(&x->cuda, manifest, &image, &options);
    free(ptx);
    if (s == FUSEC_OK) return x;
    *error = explain(x, s);
    return NULL;
}

static bool run(void *self, const fusec_memory *memory, const ExecutorCall *c, const char **error) {
    CudaExecutor *x = self;
    (void)memory; /* the device has its own */
    const fusec_cuda_call call = {.inputs = (const void *const *)c->inputs,
                                  .outputs = c->outputs,
                                  .syms = c->syms,
                                  .hypers = c->hypers,
                                  .step = c->step};
    x->cuda.seed = c->seed;
    const fusec_status s = fusec_cuda_run(&x->cuda, executor_entry(c), &call);
    const bool ok = s == FUSEC_OK || s == FUSEC_SKIPPED; /* the states tell of skipped steps */
    if (!ok) *error = explain(x, s);
    return ok;
}

typedef fusec_status Move(fusec_cuda *c, fusec_region region, uint64_t offset, void *host, uint64_t n);
static fusec_status put(fusec_cuda *c, fusec_region region, uint64_t offset, void *host, uint64_t n) {
    return fusec_cuda_write(c, region, offset, host, n);
}

static bool move(CudaExecutor *x, const fusec_memory *m, Move *f, const char **error) {
    fusec_status s = FUSEC_OK;
    if (m->param_bytes) s = f(&x->cuda, FUSEC_R_PARAM, 0, m->params, m->param_bytes);
    if (s == FUSEC_OK && m->state_bytes) s = f(&x->cuda, FUSEC_R_STATE, 0, m->states, m->state_bytes);
    if (s == FUSEC_OK && m->grad_bytes) s = f(&x->cuda, FUSEC_R_GRAD, 0, m->grads, m->grad_bytes);
    if (s != FUSEC_OK) *error = explain(x, s);
    return s == FUSEC_OK;
}
static bool upload(void *self, const fusec_memory *m, const char **error) { return move(self, m, put, error); }
static bool download(void *self, const fusec_memory *m, const char **error) {
    return move(self, m, fusec_cuda_read, error);
}

static void close_cuda(void *self) { fusec_cuda_free(&((CudaExecutor *)self)->cuda); }

const ExecutorKind executor_cuda = {.name = "cuda",
                                    .target = target,
                                    .open = open_cuda,
                                    .run = run,
                                    .upload = upload,
                                    .download = download,
                                    .close = close_cuda};
