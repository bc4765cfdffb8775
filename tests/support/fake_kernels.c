#include "tests/support/fake_kernels.h"
#include "tests/support/kernel_case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void interpret(const void *kernel, void **params, unsigned programs) {
    const Kernel *k = kernel;
    Arena *a = arena_new();
    TileMemory *memory = ARENA_ARRAY(a, TileMemory, k->buffers.n + 1);
    int64_t *syms = ARENA_ARRAY(a, int64_t, k->n_syms + 1);
    const char *error = NULL;
    for (int i = 0; i < k->buffers.n; i++)
        memory[i] = (TileMemory){*(void **)params[i], buffer_bytes(&k->buffers.at[i]), NULL};
    for (int i = 0; i < k->n_syms; i++) syms[i] = *(int32_t *)params[k->buffers.n + i];
    fake.misuse += kernel_programs(k, syms) != programs;
    if (!kernel_run(a, k, memory, syms, &error)) fail_msg("%s: %s", k->name, error);
    arena_free(a);
}

FakeKernel *fake_kernels(Arena *a, const Module *m) {
    FakeKernel *kernels = ARENA_ARRAY(a, FakeKernel, m->kernels.n + 1);
    for (int i = 0; i < m->kernels.n; i++) {
        const Kernel *k = m->kernels.at[i];
        kernels[i] = (FakeKernel){k->name, k->buffers.n, k->n_syms, interpret, k};
    }
    kernels[m->kernels.n].name = NULL;
    return kernels;
}
