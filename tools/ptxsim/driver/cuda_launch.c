/* Launches: limits, parameters, the run, its findings and figures. */
#include "tools/ptxsim/driver/driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEFAULT_MAX_STEPS UINT64_C(1000000000)

static uint64_t number_from(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static uint8_t *from_buffer(const Function *fn, void **extra, CUresult *why) {
    const void *data = NULL;
    size_t bytes = 0;
    for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) data = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *(const size_t *)extra[1];
        else return NULL;
    }
    if (!data || bytes < fn->param_bytes) return NULL;
    uint8_t *copy = malloc(fn->param_bytes + 1);
    if (copy) memcpy(copy, data, fn->param_bytes);
    *why = copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    return copy;
}

uint8_t *launch_params(CUfunction f, void **params, void **extra, CUresult *why) {
    const Function *fn = f->fn;
    *why = CUDA_ERROR_INVALID_VALUE;
    if (params && extra) return NULL;
    if (extra) return from_buffer(fn, extra, why);
    if (fn->param_count && !params) return NULL;
    for (int k = 0; k < fn->param_count; k++)
        if (!params[k]) return NULL;
    uint8_t *copy = calloc(fn->param_bytes + 1u, 1);
    *why = copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (int k = 0; copy && k < fn->param_count; k++) memcpy(copy + fn->param[k]->address, params[k], fn->param[k]->bytes);
    return copy;
}

static bool fits(const uint32_t v[3], uint32_t x, uint32_t y, uint32_t z) {
    return v[0] && v[1] && v[2] && v[0] <= x && v[1] <= y && v[2] <= z;
}

static CUresult check_launch(CUfunction f, const uint32_t grid[3], const uint32_t block[3], uint32_t shared) {
    const DeviceSpec *d = driver_device();
    const Function *fn = f->fn;
    const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    const uint64_t dynamic = f->max_dynamic >= 0 ? (uint64_t)f->max_dynamic
                             : fn->shared_bytes > (uint32_t)d->shared_block ? 0 : (uint64_t)d->shared_block - fn->shared_bytes;
    if (!fits(grid, 2147483647, 65535, 65535) || !fits(block, 1024, 1024, 64) || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
    if (shared > dynamic || fn->shared_bytes > (uint32_t)d->shared_block) return CUDA_ERROR_INVALID_VALUE;
    if (fn->has_max_threads && threads > (uint64_t)fn->max_threads[0] * fn->max_threads[1] * fn->max_threads[2])
        return CUDA_ERROR_INVALID_VALUE;
    if (fn->has_required_threads && memcmp(block, fn->required_threads, sizeof fn->required_threads) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult launch_grid(CUcontext c, CUfunction f, const uint32_t grid[3], const uint32_t block[3], uint32_t shared,
                     const uint8_t *params) {
    CUresult r = check_launch(f, grid, block, shared);
    if (r) return r;
    ReportSet *reports = malloc(sizeof *reports);
    if (!reports) return CUDA_ERROR_OUT_OF_MEMORY;
    reports_init(reports);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const char *stats = getenv("PTXSIM_STATS");
    Launch k = {.fn = f->fn, .dynamic_shared = shared, .params = params, .memory = &c->memory, .reports = reports,
                .cluster = {1, 1, 1}, .seed = number_from("PTXSIM_SEED", 0), .max_steps = number_from("PTXSIM_MAX_STEPS", DEFAULT_MAX_STEPS),
                .checks = checks_enabled(), .stats = stats && *stats == '1', .sm_count = (uint64_t)driver_device()->sm_count,
                .workers = (int)number_from("PTXSIM_THREADS", cores > 0 ? (uint64_t)cores : 1)};
    memcpy(k.grid, grid, sizeof k.grid);
    memcpy(k.block, block, sizeof k.block);
    if (!launch_run(&k)) r = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    const int found = reports_flush(reports);
    free(reports);
    if (k.stats) stats_add(f->fn->name, &k.count);
    instructions_add(&k.count);
    if (!r && found) r = c->failed = (CUresult)found;
    return r;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **params, void **extra) {
    CUresult r;
    (void)stream;
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    CUcontext c = driver_enter(&r);
    if (!c) return r;
    uint8_t *copy = launch_params(f, params, extra, &r);
    if (copy) r = launch_grid(c, f, (const uint32_t[]){gx, gy, gz}, (const uint32_t[]){bx, by, bz}, shared, copy);
    free(copy);
    return driver_leave(r);
}

/* Attributes of the extended launch shape clusters and overlap; only the plain launch is here. */
CUresult cuLaunchKernelEx(const CUlaunchConfig *k, CUfunction f, void **params, void **extra) {
    if (!k) return CUDA_ERROR_INVALID_VALUE;
    if (k->numAttrs) return CUDA_ERROR_NOT_SUPPORTED;
    return cuLaunchKernel(f, k->gridDimX, k->gridDimY, k->gridDimZ, k->blockDimX, k->blockDimY, k->blockDimZ,
                          k->sharedMemBytes, k->hStream, params, extra);
}
