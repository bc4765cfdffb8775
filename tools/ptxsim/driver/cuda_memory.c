/* Device and pinned memory, copies and fills: each within one allocation. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

static CUresult find_range(CUcontext c, CUdeviceptr address, size_t bytes, Allocation **a) {
    *a = memory_find(&c->memory, address);
    if (*a && (*a)->bytes - (address - (*a)->address) >= bytes) return CUDA_SUCCESS;
    report_driver(REPORT_BOUNDS, address, bytes, "a copy or fill outside every allocation");
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_to_device(CUcontext c, CUdeviceptr to, const void *from, size_t bytes) {
    Allocation *a;
    if (!bytes) return CUDA_SUCCESS;
    if (!from) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = find_range(c, to, bytes, &a);
    if (r) return r;
    memcpy(a->data + (to - a->address), from, bytes);
    memset(a->written + (to - a->address), 1, bytes);
    return CUDA_SUCCESS;
}

CUresult copy_to_host(CUcontext c, void *to, CUdeviceptr from, size_t bytes) {
    Allocation *a;
    if (!bytes) return CUDA_SUCCESS;
    if (!to) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = find_range(c, from, bytes, &a);
    if (!r) memcpy(to, a->data + (from - a->address), bytes);
    return r;
}

/* What was never written stays so in the copy. */
CUresult copy_on_device(CUcontext c, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    Allocation *a, *b;
    if (!bytes) return CUDA_SUCCESS;
    CUresult r = find_range(c, to, bytes, &a);
    if (!r) r = find_range(c, from, bytes, &b);
    if (r) return r;
    memmove(a->data + (to - a->address), b->data + (from - b->address), bytes);
    memmove(a->written + (to - a->address), b->written + (from - b->address), bytes);
    return CUDA_SUCCESS;
}

CUresult fill_device(CUcontext c, CUdeviceptr to, uint32_t value, int bytes, size_t count) {
    Allocation *a;
    if (!count) return CUDA_SUCCESS;
    if (to % (uint64_t)bytes || count > SIZE_MAX / 4) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = find_range(c, to, count * (size_t)bytes, &a);
    if (r) return r;
    uint8_t *at = a->data + (to - a->address);
    for (size_t k = 0; k < count; k++) memcpy(at + k * (size_t)bytes, &value, (size_t)bytes);
    memset(a->written + (to - a->address), 1, count * (size_t)bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    CUresult r;
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    CUcontext c = driver_enter(&r);
    if (!c) return r;
    const Allocation *a = memory_allocate(&c->memory, bytes, 0);
    if (a) *address = a->address;
    return driver_leave(a ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* Freeing goes on after a kernel has failed, so that a program can clean up. */
CUresult cuMemFree_v2(CUdeviceptr address) {
    CUcontext c;
    if (!address) return CUDA_SUCCESS;
    const CUresult r = cuCtxGetCurrent(&c);
    if (r) return r;
    driver_lock();
    if (!context_valid(c)) return driver_leave(CUDA_ERROR_INVALID_CONTEXT);
    const Allocation *a = memory_find(&c->memory, address);
    if (a && !a->module && memory_free(&c->memory, address)) return driver_leave(c->failed);
    driver_unlock();
    report_driver(REPORT_FREE, address, 0, "freed twice, or never allocated");
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    (void)stream;
    return cuMemAlloc_v2(address, bytes);
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    (void)stream;
    return cuMemFree_v2(address);
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    CUresult r;
    if (!available || !total) return CUDA_ERROR_INVALID_VALUE;
    CUcontext c = driver_enter(&r);
    if (!c) return r;
    *total = c->memory.total;
    *available = c->memory.total - c->memory.used;
    return driver_leave(CUDA_SUCCESS);
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    CUresult r;
    (void)flags;
    if (!memory || !bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!driver_enter(&r)) return r;
    *memory = bytes > SIZE_MAX - 4096 ? NULL : aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return driver_leave(*memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}
CUresult cuMemAllocHost_v2(void **memory, size_t bytes) { return cuMemHostAlloc(memory, bytes, 0); }

CUresult cuMemFreeHost(void *memory) {
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    free(memory);
    return CUDA_SUCCESS;
}

#define UNDER_LOCK(CALL)                                                                                               \
    CUresult r;                                                                                                        \
    CUcontext c = driver_enter(&r);                                                                                    \
    return c ? driver_leave(CALL) : r

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) { UNDER_LOCK(copy_to_device(c, to, from, bytes)); }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) { UNDER_LOCK(copy_to_host(c, to, from, bytes)); }
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) { UNDER_LOCK(copy_on_device(c, to, from, bytes)); }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
    (void)s;
    return cuMemcpyHtoD_v2(to, from, bytes);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream s) {
    (void)s;
    return cuMemcpyDtoH_v2(to, from, bytes);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
    (void)s;
    return cuMemcpyDtoD_v2(to, from, bytes);
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) { UNDER_LOCK(fill_device(c, to, value, 1, count)); }
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) { UNDER_LOCK(fill_device(c, to, value, 2, count)); }
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) { UNDER_LOCK(fill_device(c, to, value, 4, count)); }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream s) {
    (void)s;
    return cuMemsetD8_v2(to, value, count);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream s) {
    (void)s;
    return cuMemsetD16_v2(to, value, count);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream s) {
    (void)s;
    return cuMemsetD32_v2(to, value, count);
}
