#include "tests/support/run_backends.h"
#include "codegen/host/host.h"
#include <stdlib.h>
#include <string.h>

bool run_host(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms, const char **error) {
    char *message = NULL;
    HostJit *jit = host_jit(m, NULL, &message);
    if (!jit) {
        *error = arena_strdup(a, message ? message : "no message");
        free(message);
        return false;
    }
    const fusec_memory memory = {.params = mem->params, .param_bytes = (uint64_t)m->param_bytes, .states = mem->states,
                                 .state_bytes = (uint64_t)m->state_bytes, .grads = mem->grads, .grad_bytes = (uint64_t)m->grad_bytes,
                                 .arena = mem->arena, .arena_bytes = (uint64_t)m->entry[e].arena_bytes};
    const fusec_options options = {.seed = (uint32_t)mem->scalars[SCALAR_SEED], .threads = 1};
    int32_t *extents = ARENA_ARRAY(a, int32_t, m->syms.n + 1);
    for (int i = 0; i < m->syms.n; i++) extents[i] = (int32_t)syms[i];
    float *hypers = ARENA_ARRAY(a, float, m->hypers.n + 1);
    memcpy(hypers, &mem->scalars[SCALAR_HYPER0], sizeof *hypers * (size_t)m->hypers.n);
    const fusec_host_call call = {.inputs = (const void *const *)mem->inputs, .outputs = mem->outputs, .syms = extents,
                                  .hypers = hypers, .step = mem->scalars[SCALAR_STEP]};
    fusec_host h = {0};
    fusec_status status = fusec_host_init(&h, host_jit_manifest(jit), host_jit_kernels(jit), &memory, &options);
    if (status == FUSEC_OK) status = fusec_host_run(&h, (int)e, &call);
    if (status != FUSEC_OK) *error = fusec_status_text(status);
    fusec_host_free(&h);
    host_jit_free(jit);
    return status == FUSEC_OK;
}
