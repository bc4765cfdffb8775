/* Functions: attributes and occupancy.  Source: CUDA Driver API, "Execution Control", "Occupancy". */
#include "tools/ptxsim/driver/driver.h"

SimFunction *function_of(CUfunction handle) {
    SimFunction *f = object_peek(handle, OBJECT_FUNCTION);
    if (f) return f;
    if (object_peek(handle, OBJECT_KERNEL)) return kernel_function((CUkernel)(void *)handle, &f) ? NULL : f;
    return object_find(handle, OBJECT_FUNCTION);
}

static uint64_t product(const uint32_t v[3]) { return (uint64_t)v[0] * v[1] * v[2]; }

/* Virtual registers are no measure of real ones: an estimate, within the limit that the kernel declares. */
static int registers(const Function *fn) {
    const uint32_t most = fn->max_registers ? fn->max_registers : MAX_REGISTERS;
    return (int)(fn->register_count < most ? fn->register_count : most);
}

static int max_threads(const Function *fn) {
    uint64_t n = MAX_THREADS;
    if (fn->has_max_threads && product(fn->max_threads) < n) n = product(fn->max_threads);
    if (fn->has_required_threads && product(fn->required_threads) < n) n = product(fn->required_threads);
    return (int)n;
}

CUresult function_attribute(const SimFunction *f, int attribute, int *value) {
    const DeviceSpec *d = driver_device();
    const Function *fn = f->fn;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = max_threads(fn); break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)fn->shared_bytes; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)fn->local_bytes; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = registers(fn); break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = f->module->module->target; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = d->capability; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = f->max_dynamic >= 0 ? f->max_dynamic : d->shared_block - (int)fn->shared_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = f->carveout; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: *value = fn->explicit_cluster; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = (int)fn->required_cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = f->non_portable_cluster; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: *value = f->cluster_policy; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult function_set_attribute(SimFunction *f, int attribute, int value) {
    const DeviceSpec *d = driver_device();
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || (int64_t)value + f->fn->shared_bytes > d->shared_optin) return CUDA_ERROR_INVALID_VALUE;
        f->max_dynamic = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
        f->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        if (d->capability < 90) return CUDA_ERROR_NOT_SUPPORTED;
        f->non_portable_cluster = value != 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < 0 || value > 2) return CUDA_ERROR_INVALID_VALUE;
        f->cluster_policy = value;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE; /* the others cannot be set, the required cluster only in the code */
    }
}

CUresult sim_cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    const SimFunction *f = function_of(function);
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    return f ? function_attribute(f, attribute, value) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    SimFunction *f = function_of(function);
    return f ? function_set_attribute(f, attribute, value) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuFuncSetCacheConfig(CUfunction function, int config) {
    if (config < 0 || config > 3) return CUDA_ERROR_INVALID_VALUE;
    return function_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult sim_cuFuncSetSharedMemConfig(CUfunction function, int config) {
    return config > 2 ? CUDA_ERROR_INVALID_VALUE : sim_cuFuncSetCacheConfig(function, config);
}

CUresult sim_cuFuncGetModule(CUmodule *module, CUfunction function) {
    const SimFunction *f = function_of(function);
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    *module = object_handle(f->module);
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetName(const char **name, CUfunction function) {
    const SimFunction *f = function_of(function);
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    *name = f->fn->name;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes) {
    const SimFunction *f = function_of(function);
    if (!offset) return CUDA_ERROR_INVALID_VALUE;
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    if (index >= (size_t)f->fn->param_count) return CUDA_ERROR_INVALID_VALUE;
    *offset = f->fn->param[index]->address;
    if (bytes) *bytes = f->fn->param[index]->bytes;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncIsLoaded(int *state, CUfunction function) {
    enum { LOADED = 1 };
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    *state = LOADED;
    return function_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult sim_cuFuncLoad(CUfunction function) {
    return function_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- occupancy ---------------------------------------------------------------------------------------- */
/* Registers count only as declared (.maxnreg); they are given out to warps in units of 256. */
int occupancy(const SimFunction *f, int threads, uint64_t dynamic_shared) {
    const DeviceSpec *d = driver_device();
    const int warps = (threads + WARP - 1) / WARP;
    const uint64_t shared = f->fn->shared_bytes + dynamic_shared + RESERVED_SHARED;
    uint64_t n = (uint64_t)(THREADS_SM / (warps * WARP));
    if (n > (uint64_t)d->blocks_sm) n = (uint64_t)d->blocks_sm;
    if (n > (uint64_t)d->shared_sm / shared) n = (uint64_t)d->shared_sm / shared;
    if (f->fn->max_registers) {
        const uint64_t per_warp =
            ((uint64_t)f->fn->max_registers * WARP + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
        const uint64_t fit = REGISTERS_SM / per_warp / (uint64_t)warps;
        if (n > fit) n = fit;
    }
    return threads > max_threads(f->fn) ? 0 : (int)n;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                                  size_t dynamic, unsigned flags) {
    const SimFunction *f = function_of(function);
    if (!blocks || threads < 1 || threads > MAX_THREADS || flags > 1) return CUDA_ERROR_INVALID_VALUE;
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    *blocks = occupancy(f, threads, dynamic);
    return CUDA_SUCCESS;
}
CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                         size_t dynamic) {
    return sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic, 0);
}

/* The block of the most threads per multiprocessor; of equals the largest. */
CUresult sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *threads, CUfunction function,
                                                       CUoccupancyB2DSize dynamic_of, size_t dynamic, int limit,
                                                       unsigned flags) {
    const SimFunction *f = function_of(function);
    int most = 0;
    if (!grid || !threads || limit < 0 || flags > 1) return CUDA_ERROR_INVALID_VALUE;
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    if (!limit || limit > max_threads(f->fn)) limit = max_threads(f->fn);
    for (int t = limit; t > 0; t -= t % WARP ? t % WARP : WARP) {
        const int blocks = occupancy(f, t, dynamic_of ? dynamic_of(t) : dynamic);
        if (blocks * t <= most) continue;
        most = blocks * t;
        *threads = t;
        *grid = blocks * driver_device()->sm_count;
    }
    return most ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult sim_cuOccupancyMaxPotentialBlockSize(int *grid, int *threads, CUfunction function,
                                              CUoccupancyB2DSize dynamic_of, size_t dynamic, int limit) {
    return sim_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, threads, function, dynamic_of, dynamic, limit, 0);
}

CUresult sim_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamic, CUfunction function, int blocks, int threads) {
    const SimFunction *f = function_of(function);
    const DeviceSpec *d = driver_device();
    if (!dynamic || blocks < 1 || blocks > d->blocks_sm || threads < 1 || threads > MAX_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    int64_t room = d->shared_sm / blocks - RESERVED_SHARED - (int64_t)f->fn->shared_bytes;
    if (room > d->shared_optin - (int64_t)f->fn->shared_bytes) room = d->shared_optin - (int64_t)f->fn->shared_bytes;
    *dynamic = room > 0 ? (size_t)room : 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxPotentialClusterSize(int *blocks, CUfunction function, const CUlaunchConfig *config) {
    const SimFunction *f = function_of(function);
    if (!blocks || !config) return CUDA_ERROR_INVALID_VALUE;
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    if (driver_device()->capability < 90) return CUDA_ERROR_NOT_SUPPORTED;
    *blocks = f->non_portable_cluster ? MAX_CLUSTER : PORTABLE_CLUSTER;
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config) {
    const SimFunction *f = function_of(function);
    KernelWork k = {.cluster = {1, 1, 1}};
    if (!clusters || !config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    if (driver_device()->capability < 90) return CUDA_ERROR_NOT_SUPPORTED;
    if (f->fn->required_cluster[0]) memcpy(k.cluster, f->fn->required_cluster, sizeof k.cluster);
    for (unsigned n = 0; n < config->numAttrs; n++) {
        const CUresult r = launch_attribute(&k, config->attrs[n].id, &config->attrs[n].value);
        if (r) return r;
    }
    const uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
    if (!threads || threads > MAX_THREADS) return CUDA_ERROR_INVALID_VALUE;
    *clusters =
        occupancy(f, (int)threads, config->sharedMemBytes) * driver_device()->sm_count / (int)product(k.cluster);
    return CUDA_SUCCESS;
}
