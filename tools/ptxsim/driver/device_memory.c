/* Device memory from outside: allocated, freed, asked about. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

enum { PITCH = 512 };

CUresult device_range(Context *c, CUdeviceptr address, uint64_t bytes, Allocation **a) {
    *a = memory_find(&c->memory, address);
    if (*a && (*a)->bytes - (address - (*a)->address) >= bytes) return CUDA_SUCCESS;
    report_driver(REPORT_BOUNDS, address, bytes, "a copy or fill outside every allocation");
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult device_allocate(Context *c, CUdeviceptr *address, size_t bytes) {
    const CUresult r = capture_forbids_unsafe(c);
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    if (r) return r;
    const Allocation *a = memory_allocate(&c->memory, bytes, 0);
    if (!a) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = a->address;
    counters.allocations++;
    return CUDA_SUCCESS;
}

CUresult device_free(Context *c, CUdeviceptr address) {
    const Allocation *a = memory_find(&c->memory, address);
    if (a && !a->module && memory_free(&c->memory, address)) {
        pools_account(c, address);
        counters.frees++;
        return CUDA_SUCCESS;
    }
    report_driver(REPORT_FREE, address, 0, "freed twice, or never allocated");
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    return device_allocate(current_context(), address, bytes);
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16)) return CUDA_ERROR_INVALID_VALUE;
    if (width > SIZE_MAX / 2 || height > SIZE_MAX / (width + PITCH)) return CUDA_ERROR_OUT_OF_MEMORY;
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    return device_allocate(current_context(), address, *pitch * height);
}

/* One memory for host and device is not modelled: CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY says so too. */
CUresult sim_cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
    if (!address || !bytes || (flags != 1 && flags != 2)) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Waits for all work, as the hardware's does.  Freeing goes on after a kernel has failed, so that a program can clean
 * up. */
CUresult sim_cuMemFree_v2(CUdeviceptr address) {
    Context *c = current_context();
    if (!address) return CUDA_SUCCESS;
    CUresult r = capture_forbids_unsafe(c);
    if (r) return r;
    const CUresult failed = context_drain(c);
    r = device_free(c, address);
    return r ? r : failed;
}

CUresult sim_cuMemGetInfo_v2(size_t *available, size_t *total) {
    const Context *c = current_context();
    if (!available || !total) return CUDA_ERROR_INVALID_VALUE;
    *total = c->memory.total;
    *available = c->memory.total - c->memory.used;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    const Allocation *a = memory_find(&current_context()->memory, address);
    if (!a) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = a->address;
    if (bytes) *bytes = a->bytes;
    return CUDA_SUCCESS;
}

/* ---- pointers ----------------------------------------------------------------------------------------- */
typedef struct Pointer {
    const Allocation *device;
    const HostRange *host;
} Pointer;

static void put_pointer(void *to, const void *p) { memcpy(to, &p, sizeof p); }
static void put_u32(void *to, uint32_t v) { memcpy(to, &v, sizeof v); }
static void put_u64(void *to, uint64_t v) { memcpy(to, &v, sizeof v); }

static CUresult pointer_attribute(void *data, int attribute, const Pointer *p, CUdeviceptr address) {
    const Context *c = current_context();
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: put_pointer(data, object_handle(p->host ? p->host->context : c)); break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: put_u32(data, p->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE); break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        if (p->host) return CUDA_ERROR_INVALID_VALUE; /* host memory is not mapped */
        put_u64(data, address);
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!p->host) return CUDA_ERROR_INVALID_VALUE;
        put_u64(data, address);
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        put_u64(data, p->host ? (uint64_t)(uintptr_t)p->host->start : p->device->address);
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put_u32(data, 0); break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        put_u64(data, p->host ? (uint64_t)(uintptr_t)p->host->start : p->device->address);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: put_u64(data, p->host ? p->host->bytes : p->device->bytes); break;
    case CU_POINTER_ATTRIBUTE_MAPPED: put_u32(data, !p->host); break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

static Pointer pointer_of(CUdeviceptr address) {
    return (Pointer){.device = memory_find(&current_context()->memory, address),
                     .host = host_find((const void *)(uintptr_t)address, 1)};
}

CUresult sim_cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address) {
    const Pointer p = pointer_of(address);
    if (!data || (!p.device && !p.host)) return CUDA_ERROR_INVALID_VALUE;
    return pointer_attribute(data, attribute, &p, address);
}

/* Of memory that it does not know, and of attributes that do not apply, it gives zeros. */
CUresult sim_cuPointerGetAttributes(unsigned n, int *attributes, void **data, CUdeviceptr address) {
    const Pointer p = pointer_of(address);
    if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; k < n; k++) {
        const bool small =
            attributes[k] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE || attributes[k] == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
            attributes[k] == CU_POINTER_ATTRIBUTE_IS_MANAGED || attributes[k] == CU_POINTER_ATTRIBUTE_MAPPED ||
            attributes[k] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        if (!data[k]) return CUDA_ERROR_INVALID_VALUE;
        if ((p.device || p.host) && !pointer_attribute(data[k], attributes[k], &p, address)) continue;
        if (small)
            put_u32(data[k], 0);
        else
            put_u64(data[k], 0);
    }
    return CUDA_SUCCESS;
}
