/* Launches: limits, parameters, attributes, the run, its findings and figures. */
#include "tools/ptxsim/driver/driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEFAULT_MAX_STEPS UINT64_C(1000000000)

static uint64_t number_from(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    if (!text || !*text) return otherwise;
    char *end;
    const uint64_t number = strtoull(text, &end, 0);
    if (!*end) return number;
    fprintf(stderr, "ptxsim: %s: '%s' is not a number; %llu is used\n", name, text, (unsigned long long)otherwise);
    return otherwise;
}

static uint64_t product(const uint32_t v[3]) { return (uint64_t)v[0] * v[1] * v[2]; }

/* ---- parameters --------------------------------------------------------------------------------------- */
static CUresult from_buffer(const Function *fn, void **extra, uint8_t *to) {
    const void *data = NULL;
    size_t bytes = 0;
    for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            data = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            bytes = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if ((!data && fn->param_bytes) || bytes < fn->param_bytes) return CUDA_ERROR_INVALID_VALUE;
    if (fn->param_bytes) memcpy(to, data, fn->param_bytes);
    return CUDA_SUCCESS;
}

static CUresult from_pointers(const Function *fn, void **params, uint8_t *to) {
    if (fn->param_count && !params) return CUDA_ERROR_INVALID_VALUE;
    for (int k = 0; k < fn->param_count; k++) {
        if (!params[k]) return CUDA_ERROR_INVALID_VALUE;
        memcpy(to + fn->param[k]->address, params[k], fn->param[k]->bytes);
    }
    return CUDA_SUCCESS;
}

/* The parameters are copied; the caller's arrays may go. */
CUresult kernel_work(KernelWork *w, const CUDA_KERNEL_NODE_PARAMS *p) {
    const SimFunction *f = function_of(p->func);
    if (!f) return p->func ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    if (p->kernelParams && p->extra) return CUDA_ERROR_INVALID_VALUE;
    *w = (KernelWork){.function = object_handle(f),
                      .cluster = {1, 1, 1},
                      .shared = p->sharedMemBytes,
                      .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                      .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                      .param_bytes = f->fn->param_bytes,
                      .params = calloc(f->fn->param_bytes + 1u, 1)};
    if (!w->params) return CUDA_ERROR_OUT_OF_MEMORY;
    if (f->fn->required_cluster[0]) memcpy(w->cluster, f->fn->required_cluster, sizeof w->cluster);
    const CUresult r =
        p->extra ? from_buffer(f->fn, p->extra, w->params) : from_pointers(f->fn, p->kernelParams, w->params);
    if (!r) return r;
    free(w->params);
    w->params = NULL;
    return r;
}

/* Source: CUDA Driver API, CUlaunchAttributeID.  Those that only bear on speed are taken and have no effect. */
CUresult launch_attribute(KernelWork *w, int attribute, const CUlaunchAttributeValue *v) {
    switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
        const uint32_t size[3] = {v->clusterDim.x, v->clusterDim.y, v->clusterDim.z};
        const SimFunction *f = w->function ? function_of(w->function) : NULL;
        if (!product(size)) return CUDA_ERROR_INVALID_VALUE;
        if (f && f->fn->required_cluster[0] && memcmp(size, f->fn->required_cluster, sizeof size) != 0)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        memcpy(w->cluster, size, sizeof w->cluster);
        return CUDA_SUCCESS;
    }
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: w->cooperative = v->cooperative != 0; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        w->serialized = v->programmaticStreamSerializationAllowed != 0;
        return driver_device()->capability >= 90 || !w->serialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: w->priority = v->priority; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return v->sharedMemCarveout <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED; /* events fired by a kernel, kernels changed by the device, preferred clusters
                                          */
    }
}

/* ---- limits ------------------------------------------------------------------------------------------- */
static bool fits(const uint32_t v[3], uint32_t x, uint32_t y, uint32_t z) {
    return v[0] && v[1] && v[2] && v[0] <= x && v[1] <= y && v[2] <= z;
}

static CUresult check_cluster(const SimFunction *f, const KernelWork *w) {
    const uint64_t size = product(w->cluster);
    if (f->fn->explicit_cluster && size == 1 && !f->fn->required_cluster[0]) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (size == 1) return CUDA_SUCCESS;
    if (driver_device()->capability < 90) return CUDA_ERROR_NOT_SUPPORTED;
    if (size > (f->non_portable_cluster ? MAX_CLUSTER : PORTABLE_CLUSTER)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (f->fn->max_cluster_rank && size > f->fn->max_cluster_rank) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (int d = 0; d < 3; d++)
        if (w->grid[d] % w->cluster[d]) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    return CUDA_SUCCESS;
}

static CUresult check_shared(const SimFunction *f, uint32_t dynamic) {
    const uint64_t limit = (uint64_t)driver_device()->shared_block, own = f->fn->shared_bytes;
    const uint64_t allowed = f->max_dynamic >= 0 ? (uint64_t)f->max_dynamic : own > limit ? 0 : limit - own;
    return own > limit || dynamic > allowed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult launch_check(const SimFunction *f, const KernelWork *w) {
    const Function *fn = f->fn;
    const uint64_t threads = product(w->block);
    if (!fits(w->grid, MAX_GRID_X, MAX_GRID_YZ, MAX_GRID_YZ) ||
        !fits(w->block, MAX_BLOCK_X, MAX_BLOCK_Y, MAX_BLOCK_Z) || threads > MAX_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_shared(f, w->shared);
    if (r) return r;
    if (fn->has_max_threads && threads > product(fn->max_threads)) return CUDA_ERROR_INVALID_VALUE;
    if (fn->has_required_threads && memcmp(w->block, fn->required_threads, sizeof fn->required_threads) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((uint64_t)fn->max_registers * ((threads + WARP - 1) / WARP * WARP) > REGISTERS_BLOCK)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    r = check_cluster(f, w);
    if (r || !w->cooperative) return r;
    const uint64_t resident = (uint64_t)occupancy(f, (int)threads, w->shared) * (uint64_t)driver_device()->sm_count;
    return product(w->grid) > resident ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

/* ---- the run ------------------------------------------------------------------------------------------ */
static bool count_launch(const char *kernel, Launch *k) {
    Figures figures;
    const bool ok = profile_figures(k->profile, &k->count, &figures) && stats_add(kernel, &figures);
    profile_end(k->profile);
    return ok;
}

/* What barriers of a cooperative grid count in: two words, zeros.  Kernels that read it and are launched otherwise get
 * a null pointer, and trap. */
enum { WORKSPACE_BYTES = 8 };
static Allocation *workspace_new(DeviceMemory *memory) {
    Allocation *a = memory_allocate(memory, WORKSPACE_BYTES, WORKSPACE_BYTES);
    if (!a) return NULL;
    const uint32_t words[WORKSPACE_BYTES / 4] = {WORKSPACE_BYTES, 0};
    memcpy(a->data, words, sizeof words);
    memset(a->written, 1, WORKSPACE_BYTES);
    return a;
}

static CUresult run(Context *c, const SimFunction *f, const KernelWork *w, ReportSet *reports) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const bool stats = stats_wanted();
    Profile profile = {0};
    Launch k = {.fn = f->fn,
                .dynamic_shared = w->shared,
                .params = w->params,
                .memory = &c->memory,
                .reports = reports,
                .seed = number_from("PTXSIM_SEED", 0),
                .max_steps = number_from("PTXSIM_MAX_STEPS", DEFAULT_MAX_STEPS),
                .crop = number_from("PTXSIM_CROP", 0),
                .checks = checks_enabled(),
                .stats = stats,
                .profile = stats ? &profile : NULL,
                .sm_count = (uint64_t)driver_device()->sm_count,
                .workers = (int)number_from("PTXSIM_THREADS", cores > 0 ? (uint64_t)cores : 1)};
    memcpy(k.grid, w->grid, sizeof k.grid);
    memcpy(k.block, w->block, sizeof k.block);
    memcpy(k.cluster, w->cluster, sizeof k.cluster);
    if (!blocks_chosen(f->fn->name, &k)) return CUDA_ERROR_INVALID_VALUE;
    const Allocation *workspace = w->cooperative ? workspace_new(&c->memory) : NULL;
    if (w->cooperative && !workspace) return CUDA_ERROR_OUT_OF_MEMORY;
    k.workspace = workspace ? workspace->address : 0;
    if (stats && !profile_begin(&profile, f->module->module, &c->memory)) {
        if (workspace) memory_free(&c->memory, workspace->address);
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    reports_init(reports);
    CUresult r = launch_run(&k) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (workspace) memory_free(&c->memory, workspace->address);
    const int found = reports_flush(reports);
    if (stats && !count_launch(f->fn->name, &k)) r = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    instructions_add(&k.count);
    if (k.blocks) blocks_ran(f->fn->name, k.crop);
    if (!r && found) r = c->failed = (CUresult)found;
    return r;
}

/* Of cropped grids results do not matter: a kernel is looked at once under each seed. */
static bool cropped_before(SimFunction *f, const KernelWork *w) {
    const uint64_t seed = number_from("PTXSIM_SEED", 0) + 1;
    if (!number_from("PTXSIM_CROP", 0)) return false;
    const bool before = f->crop_seed == seed && memcmp(f->crop_grid, w->grid, sizeof f->crop_grid) == 0;
    f->crop_seed = seed;
    memcpy(f->crop_grid, w->grid, sizeof f->crop_grid);
    return before;
}

CUresult launch_grid(Context *c, const KernelWork *w) {
    SimFunction *f = function_of(w->function);
    ReportSet *reports = malloc(sizeof *reports);
    CUresult r = !f ? CUDA_ERROR_INVALID_HANDLE : !reports ? CUDA_ERROR_OUT_OF_MEMORY : launch_check(f, w);
    if (!r) {
        counters.kernel_launches++;
        if (!cropped_before(f, w)) r = run(c, f, w, reports);
    }
    free(reports);
    return r;
}

/* ---- calls -------------------------------------------------------------------------------------------- */
static CUresult launch(KernelWork *k, CUstream stream) {
    Stream *s = stream_of(stream);
    Work w = {.kind = WORK_KERNEL, .kernel = *k};
    const CUresult r = s ? launch_check(function_of(k->function), k) : CUDA_ERROR_INVALID_HANDLE;
    if (!r) return stream_submit(s, &w, false);
    work_clear(&w);
    return r;
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *p, CUfunction f, void **params, void **extra) {
    KernelWork w;
    if (!p || (p->numAttrs && !p->attrs)) return CUDA_ERROR_INVALID_VALUE;
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    const CUDA_KERNEL_NODE_PARAMS q = {.func = f,
                                       .gridDimX = p->gridDimX,
                                       .gridDimY = p->gridDimY,
                                       .gridDimZ = p->gridDimZ,
                                       .blockDimX = p->blockDimX,
                                       .blockDimY = p->blockDimY,
                                       .blockDimZ = p->blockDimZ,
                                       .sharedMemBytes = p->sharedMemBytes,
                                       .kernelParams = params,
                                       .extra = extra};
    CUresult r = kernel_work(&w, &q);
    if (r) return r;
    for (unsigned k = 0; k < p->numAttrs && !r; k++) r = launch_attribute(&w, p->attrs[k].id, &p->attrs[k].value);
    if (!r) return launch(&w, p->hStream);
    free(w.params);
    return r;
}

CUresult sim_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, CUstream stream, void **params, void **extra) {
    const CUlaunchConfig p = {gx, gy, gz, bx, by, bz, shared, stream, NULL, 0};
    return sim_cuLaunchKernelEx(&p, f, params, extra);
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                       unsigned bz, unsigned shared, CUstream stream, void **params) {
    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    const CUlaunchConfig p = {gx, gy, gz, bx, by, bz, shared, stream, &cooperative, 1};
    return sim_cuLaunchKernelEx(&p, f, params, NULL);
}
