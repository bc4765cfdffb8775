/* Stream-ordered allocation.  Memory is there when the call returns and goes when the stream comes to the free; what a
 * pool would keep for later is not modelled, so that a stale address is always noticed. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

typedef struct Owned {
    CUdeviceptr address;
    uint64_t bytes;
    CUmemoryPool pool;
    Context *context;
} Owned;
static struct {
    Owned *item;
    size_t count, capacity;
} owned; /* under the lock */
static struct { CUmemoryPool first, chosen; } device_pool;

static Pool *default_pool(void) {
    Pool *p = object_peek(device_pool.first, OBJECT_POOL);
    if (p) return p;
    p = object_new(OBJECT_POOL, NULL, sizeof *p);
    if (!p) return NULL;
    p->object.internal = p->is_default = true;
    p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
    device_pool.first = object_handle(p);
    return p;
}

static Pool *chosen_pool(void) {
    Pool *p = object_peek(device_pool.chosen, OBJECT_POOL);
    return p ? p : default_pool();
}

void pools_account(const Context *c, CUdeviceptr address) {
    for (size_t k = 0; k < owned.count; k++) {
        if (owned.item[k].address != address || owned.item[k].context != c) continue;
        Pool *p = object_peek(owned.item[k].pool, OBJECT_POOL);
        if (p) p->used -= owned.item[k].bytes;
        owned.item[k] = owned.item[--owned.count];
        break;
    }
    if (owned.count) return;
    free(owned.item);
    owned.item = NULL;
    owned.capacity = 0;
}

void pools_forget(Context *c) {
    for (size_t k = owned.count; k-- > 0;)
        if (owned.item[k].context == c) pools_account(c, owned.item[k].address);
}

static bool reserve(void) {
    if (owned.count < owned.capacity) return true;
    const size_t capacity = owned.capacity ? 2 * owned.capacity : 16;
    Owned *grown = realloc(owned.item, capacity * sizeof *grown);
    if (!grown) return false;
    owned.item = grown;
    owned.capacity = capacity;
    return true;
}

static CUresult allocate(CUdeviceptr *address, size_t bytes, Pool *p, CUstream stream) {
    Context *c = current_context();
    Stream *s = stream_of(stream);
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture) return CUDA_ERROR_NOT_SUPPORTED; /* memory nodes of graphs are not modelled */
    if (!p || !reserve()) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult r = device_allocate(c, address, bytes);
    if (r) return r;
    owned.item[owned.count++] = (Owned){*address, bytes, object_handle(p), c};
    p->used += bytes;
    if (p->used > p->used_high) p->used_high = p->used;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    return allocate(address, bytes, chosen_pool(), stream);
}
CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    Pool *p = object_find(pool, OBJECT_POOL);
    return p ? allocate(address, bytes, p, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    Context *c = current_context();
    Stream *s = stream_of(stream);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!address) return CUDA_SUCCESS;
    if (s->capture) return CUDA_ERROR_NOT_SUPPORTED;
    const Allocation *a = memory_find(&c->memory, address);
    if (!a || a->address != address || a->module) return device_free(c, address); /* reports it */
    Work w = {.kind = WORK_FREE, .address = address};
    return stream_submit(s, &w, false);
}

/* ---- pools -------------------------------------------------------------------------------------------- */
CUresult sim_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    enum { PINNED = 1, ON_DEVICE = 1 };
    if (!pool || !properties || properties->allocType != PINNED || properties->location.type != ON_DEVICE ||
        properties->location.id)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->handleTypes) return CUDA_ERROR_NOT_SUPPORTED;
    Pool *p = object_new(OBJECT_POOL, NULL, sizeof *p);
    if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
    p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
    *pool = object_handle(p);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolDestroy(CUmemoryPool pool) {
    Pool *p = object_find(pool, OBJECT_POOL);
    if (!p || p->is_default) return CUDA_ERROR_INVALID_VALUE;
    object_free(p);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    (void)keep;
    return object_find(pool, OBJECT_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
    Pool *p = object_find(pool, OBJECT_POOL);
    if (!p || !value) return CUDA_ERROR_INVALID_VALUE;
    uint64_t number;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: memcpy(&p->reuse[attribute - 1], value, sizeof(int)); break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: memcpy(&p->threshold, value, sizeof p->threshold); break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        memcpy(&number, value, sizeof number);
        if (number) return CUDA_ERROR_INVALID_VALUE;
        p->used_high = p->used;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
    const Pool *p = object_find(pool, OBJECT_POOL);
    if (!p || !value) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: memcpy(value, &p->reuse[attribute - 1], sizeof(int)); break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: memcpy(value, &p->threshold, sizeof p->threshold); break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: memcpy(value, &p->used, sizeof p->used); break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: memcpy(value, &p->used_high, sizeof p->used_high); break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    const CUresult r = check_device(device);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (r) return r;
    *pool = object_handle(default_pool());
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
    const CUresult r = check_device(device);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (r) return r;
    *pool = object_handle(chosen_pool());
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    const CUresult r = check_device(device);
    if (r) return r;
    if (!object_find(pool, OBJECT_POOL)) return CUDA_ERROR_INVALID_VALUE;
    device_pool.chosen = pool;
    return CUDA_SUCCESS;
}
