/* Contexts, each thread's stack of them, and the lock. */
#include "tools/ptxsim/driver/driver.h"
#include <pthread.h>
#include <stdlib.h>

enum { STACK = 64, LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5, CONTEXT_FLAGS = 0x3f, API_VERSION = 3020 };
/* CU_LIMIT_STACK_SIZE, PRINTF_FIFO_SIZE, MALLOC_HEAP_SIZE, DEV_RUNTIME_SYNC_DEPTH, DEV_RUNTIME_PENDING_LAUNCH_COUNT,
 * MAX_L2_FETCH_GRANULARITY, PERSISTING_L2_CACHE_SIZE: kept, without effect. */
static const size_t FIRST_LIMITS[LIMITS] = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};

/* The driver is one per process by its ABI: this is its state. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool ready;
    Context *primary;
    unsigned primary_flags;
} driver;
static _Thread_local struct {
    CUcontext item[STACK];
    int depth;
} current;

void driver_lock(void) { pthread_mutex_lock(&lock); }
void driver_unlock(void) { pthread_mutex_unlock(&lock); }
bool driver_ready(void) { return driver.ready; }

Context *current_context(void) {
    return current.depth ? object_peek(current.item[current.depth - 1], OBJECT_CONTEXT) : NULL;
}

CUresult sim_cuInit(unsigned flags) {
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (!device_known()) {
        device_complain();
        return CUDA_ERROR_NO_DEVICE;
    }
    driver.ready = true;
    return CUDA_SUCCESS;
}

/* ---- life --------------------------------------------------------------------------------------------- */
static CUresult context_new(Context **out, unsigned flags) {
    Context *c = object_new(OBJECT_CONTEXT, NULL, sizeof *c);
    *out = NULL;
    if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
    c->memory.total = device_memory();
    c->flags = flags;
    memcpy(c->limit, FIRST_LIMITS, sizeof c->limit);
    c->legacy = stream_new(c, 0, 0);
    c->per_thread = stream_new(c, 0, 0);
    if (!c->legacy || !c->per_thread) {
        if (c->legacy) stream_delete(c->legacy);
        object_free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->legacy->object.internal = c->per_thread->object.internal = true;
    *out = c;
    return CUDA_SUCCESS;
}

static void delete_object(Object *o) {
    switch (o->kind) {
    case OBJECT_MODULE: module_unload((SimModule *)o); break;
    case OBJECT_STREAM: stream_delete((Stream *)o); break;
    case OBJECT_GRAPH: graph_free((Graph *)o); break;
    case OBJECT_EXEC: exec_free((Exec *)o); break;
    case OBJECT_LIBRARY: library_free(o); break;
    case OBJECT_EVENT:
        tips_free(&((Event *)o)->tips);
        object_free(o);
        break;
    default: object_free(o); break;
    }
}

static bool has_owner(const Object *o) {
    return o->kind == OBJECT_FUNCTION || o->kind == OBJECT_NODE || o->kind == OBJECT_KERNEL ||
           o->kind == OBJECT_CONTEXT || (o->kind == OBJECT_GRAPH && o->internal);
}
static bool is_held(const Object *o) { return o->kind == OBJECT_CONTEXT || !(o->internal || has_owner(o)); }

/* What the program has not given back is a finding, and is given back. */
static void objects_delete(Context *c) {
    for (const Object *o = object_first(c); o; o = o->next)
        if (is_held(o) && o->kind != OBJECT_CONTEXT)
            report_leak(object_kind_name(o->kind), (uint64_t)(uintptr_t)object_handle(o), 0);
    for (ObjectKind kind = OBJECT_KINDS; kind-- > 0;) /* executables before graphs before streams before modules */
        for (Object *o = object_first(c); o;) {
            const bool now = o->kind == kind && !has_owner(o);
            if (now) delete_object(o);
            o = now ? object_first(c) : o->next;
        }
}

static void context_delete(Context *c) {
    if (!c->failed) context_drain(c);
    for (size_t k = 0; k < c->memory.count; k++) {
        const Allocation *a = c->memory.item[k];
        if (!a->module) report_leak("device memory", a->address, a->bytes);
    }
    objects_delete(c);
    host_release(c, true);
    pools_forget(c);
    memory_clear(&c->memory);
    if (driver.primary == c) driver.primary = NULL;
    object_free(c);
}

void contexts_at_exit(void) {
    for (Object *o = object_first(NULL); o;) {
        Object *next = o->next;
        if (o->kind == OBJECT_CONTEXT) {
            report_leak("context", (uint64_t)(uintptr_t)object_handle(o), 0);
            ((Context *)o)->failed = CUDA_ERROR_DEINITIALIZED; /* what is still queued is not run any more */
            context_delete((Context *)o);
        }
        o = next;
    }
    objects_delete(NULL);
}

/* ---- primary ------------------------------------------------------------------------------------------ */
CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    CUresult r = check_device(device);
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!r && !driver.primary) r = context_new(&driver.primary, driver.primary_flags);
    if (r) return r;
    driver.primary->primary_uses++;
    *context = object_handle(driver.primary);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    const CUresult r = check_device(device);
    if (r) return r;
    if (!driver.primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (--driver.primary->primary_uses <= 0) context_delete(driver.primary);
    return CUDA_SUCCESS;
}
CUresult sim_cuDevicePrimaryCtxRelease(CUdevice device) { return sim_cuDevicePrimaryCtxRelease_v2(device); }

CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice device) {
    const CUresult r = check_device(device);
    if (!r && driver.primary) context_delete(driver.primary);
    return r;
}
CUresult sim_cuDevicePrimaryCtxReset(CUdevice device) { return sim_cuDevicePrimaryCtxReset_v2(device); }

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    const CUresult r = check_device(device);
    if (r) return r;
    if (flags & ~(unsigned)CONTEXT_FLAGS) return CUDA_ERROR_INVALID_VALUE;
    driver.primary_flags = flags;
    if (driver.primary) driver.primary->flags = flags;
    return CUDA_SUCCESS;
}
CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
    return driver.primary ? CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE : sim_cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    *flags = driver.primary_flags;
    *active = driver.primary != NULL;
    return check_device(device);
}

/* ---- the stack ---------------------------------------------------------------------------------------- */
static CUresult push(CUcontext c) {
    if (current.depth == STACK) return CUDA_ERROR_OUT_OF_MEMORY;
    current.item[current.depth++] = c;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    Context *c;
    CUresult r = check_device(device);
    if (!context || flags & ~(unsigned)CONTEXT_FLAGS) return CUDA_ERROR_INVALID_VALUE;
    if (r) return r;
    if (current.depth == STACK) return CUDA_ERROR_OUT_OF_MEMORY;
    r = context_new(&c, flags);
    if (r) return r;
    *context = object_handle(c);
    return push(*context);
}
CUresult sim_cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned flags, CUdevice device) {
    return affinity || count ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : sim_cuCtxCreate_v2(context, flags, device);
}
CUresult sim_cuCtxCreate_v4(CUcontext *context, void *params, unsigned flags, CUdevice device) {
    return params ? CUDA_ERROR_NOT_SUPPORTED : sim_cuCtxCreate_v2(context, flags, device);
}

CUresult sim_cuCtxDestroy_v2(CUcontext context) {
    Context *c = object_find(context, OBJECT_CONTEXT);
    if (!c || c == driver.primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (current.depth && current.item[current.depth - 1] == context) current.depth--;
    context_delete(c);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCurrent(CUcontext context) {
    if (context && !object_find(context, OBJECT_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    if (current.depth) current.depth--;
    return context ? push(context) : CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *context) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = current.depth ? current.item[current.depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext context) {
    return object_find(context, OBJECT_CONTEXT) ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *context) {
    if (!current.depth) return CUDA_ERROR_INVALID_CONTEXT;
    current.depth--;
    if (context) *context = current.item[current.depth];
    return CUDA_SUCCESS;
}

/* ---- properties --------------------------------------------------------------------------------------- */
CUresult sim_cuCtxGetDevice(CUdevice *device) {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext context, unsigned *version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    if (context && !object_find(context, OBJECT_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    *version = API_VERSION;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetFlags(unsigned *flags) {
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = current_context()->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetFlags(unsigned flags) {
    if (flags & ~(unsigned)CONTEXT_FLAGS) return CUDA_ERROR_INVALID_VALUE;
    current_context()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext context, unsigned long long *id) {
    const Context *c = context ? object_find(context, OBJECT_CONTEXT) : current_context();
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    *id = c->object.index + 1u;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetLimit(size_t *value, int limit) {
    if (!value || limit < 0) return CUDA_ERROR_INVALID_VALUE;
    if (limit >= LIMITS) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = current_context()->limit[limit];
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetLimit(int limit, size_t value) {
    if (limit < 0) return CUDA_ERROR_INVALID_VALUE;
    if (limit >= LIMITS) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    current_context()->limit[limit] = value;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCacheConfig(int *config) {
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *config = current_context()->cache_config;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCacheConfig(int config) {
    if (config < 0 || config > 3) return CUDA_ERROR_INVALID_VALUE;
    current_context()->cache_config = config;
    return CUDA_SUCCESS;
}

/* Bank width is fixed on these devices: 4 bytes. */
CUresult sim_cuCtxGetSharedMemConfig(int *config) {
    enum { FOUR_BYTE_BANKS = 1 };
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *config = FOUR_BYTE_BANKS;
    return CUDA_SUCCESS;
}
CUresult sim_cuCtxSetSharedMemConfig(int config) {
    return config < 0 || config > 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = LEAST_PRIORITY;
    if (greatest) *greatest = GREATEST_PRIORITY;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxResetPersistingL2Cache(void) { return CUDA_SUCCESS; }

CUresult sim_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    return object_find(peer, OBJECT_CONTEXT) ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult sim_cuCtxDisablePeerAccess(CUcontext peer) {
    return object_find(peer, OBJECT_CONTEXT) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuCtxSynchronize(void) {
    Context *c = current_context();
    const CUresult r = capture_forbids_unsafe(c);
    return r ? r : context_drain(c);
}

/* ---- held now ----------------------------------------------------------------------------------------- */
static uint64_t held_by(Context *c) {
    uint64_t n = 0;
    for (const Object *o = object_first(c); o; o = o->next) n += is_held(o);
    for (size_t k = 0; c && k < c->memory.count; k++) n += !c->memory.item[k]->module;
    return n;
}

__attribute__((visibility("default"))) uint64_t ptxsimLive(void) {
    driver_lock();
    uint64_t n = held_by(NULL) + host_count();
    for (Object *o = object_first(NULL); o; o = o->next)
        if (o->kind == OBJECT_CONTEXT) n += held_by((Context *)o);
    driver_unlock();
    return n;
}
