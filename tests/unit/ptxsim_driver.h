/* The software GPU as a program sees it: libcuda.so.1 by dlopen, one context per test. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tools/ptxsim/driver/cuda_api.h"
#include "tools/ptxsim/ptxsim.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Driver {
    void *library;
    CUcontext context;
#define CUDA_EXPORT(name, since, symbol, need, kind, parameters, arguments) CUresult(*symbol) parameters;
#include "tools/ptxsim/driver/cuda_exports.def"
#undef CUDA_EXPORT
    void (*mark)(const char *name);
    void (*counters)(ptxsim_counters *);
    uint64_t (*live)(void);
    void (*count)(int); /* ptxsimCount */
    uint64_t (*kernels)(ptxsim_kernel *, uint64_t);
    CUresult (*destroy)(CUcontext); /* the driver's own cuCtxDestroy_v2 */
} Driver;

static Driver cu;

/* Modules that load_kernel has loaded: unloaded before their context ends, since a module left in it is a finding. */
enum { MAX_LOADED = 1024 };
static CUmodule loaded[MAX_LOADED];
static int loaded_count;

static inline CUresult destroy_context(CUcontext c) {
    while (loaded_count) cu.cuModuleUnload(loaded[--loaded_count]);
    return cu.destroy(c);
}

static inline void driver_open(void) {
    cu.library = dlopen(BUILD_DIR "/ptxsim/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cu.library) fail_msg("%s", dlerror());
#define CUDA_EXPORT(name, since, symbol, need, kind, parameters, arguments)                                                                   \
    *(void **)&cu.symbol = dlsym(cu.library, #symbol);                                                                 \
    assert_non_null(cu.symbol);
#include "tools/ptxsim/driver/cuda_exports.def"
#undef CUDA_EXPORT
    *(void **)&cu.mark = dlsym(cu.library, "ptxsimMark");
    *(void **)&cu.counters = dlsym(cu.library, "ptxsimCounters");
    *(void **)&cu.live = dlsym(cu.library, "ptxsimLive");
    *(void **)&cu.count = dlsym(cu.library, "ptxsimCount");
    *(void **)&cu.kernels = dlsym(cu.library, "ptxsimKernels");
    assert_true(cu.mark && cu.counters && cu.live && cu.count && cu.kernels);
    cu.destroy = cu.cuCtxDestroy_v2;
    cu.cuCtxDestroy_v2 = destroy_context;
    assert_int_equal(cu.cuInit(0), CUDA_SUCCESS);
}

static inline int context_setup(void **state) {
    (void)state;
    if (!cu.library) driver_open();
    return cu.cuCtxCreate_v2(&cu.context, 0, 0);
}

static inline int context_teardown(void **state) {
    (void)state;
    return cu.cuCtxDestroy_v2(cu.context);
}

#define PTX_HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

static inline CUfunction load_kernel(const char *text, const char *name) {
    static char log[512];
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    CUmodule module;
    CUfunction f;
    const CUresult r = cu.cuModuleLoadDataEx(&module, text, 2, options, values);
    if (r) fail_msg("%d: %s\n%s", r, log, text);
    assert_true(loaded_count < MAX_LOADED);
    loaded[loaded_count++] = module;
    assert_int_equal(cu.cuModuleGetFunction(&f, module, name), CUDA_SUCCESS);
    return f;
}

static inline CUdeviceptr upload(const void *data, size_t bytes) {
    CUdeviceptr p;
    assert_int_equal(cu.cuMemAlloc_v2(&p, bytes), CUDA_SUCCESS);
    if (data) assert_int_equal(cu.cuMemcpyHtoD_v2(p, data, bytes), CUDA_SUCCESS);
    return p;
}

static inline CUresult launch1(CUfunction f, unsigned grid, unsigned block, void **params) {
    return cu.cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, NULL, params, NULL);
}

static inline uint64_t findings(void) {
    uint64_t n = 0;
    cu.ptxsim_findings(&n);
    return n;
}

/* The kinds of findings in the record file at `path`, each with a blank after it; the file is removed. */
static inline void read_kinds(const char *path, char *kinds, size_t room) {
    kinds[0] = '\0';
    FILE *f = fopen(path, "r");
    char line[1024];
    while (f && fgets(line, sizeof line, f)) {
        char *stop = strchr(line, '\t');
        if (stop) *stop = '\0';
        snprintf(kinds + strlen(kinds), room - strlen(kinds), "%s ", line + strlen("kind="));
    }
    if (f) fclose(f);
    remove(path);
}
