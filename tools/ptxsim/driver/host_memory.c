/* Host memory that is pinned: allocated here, or the program's own and registered. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

enum { PAGE = 4096, ALLOCATION_FLAGS = 7, REGISTRATION_FLAGS = 15 };

static struct {
    HostRange *item;
    size_t count, capacity;
} ranges; /* under the lock; in no order */

size_t host_count(void) { return ranges.count; }

const HostRange *host_find(const void *p, size_t bytes) {
    const uint8_t *at = p;
    for (size_t k = 0; k < ranges.count; k++) {
        const HostRange *r = &ranges.item[k];
        if (at >= r->start && at < r->start + r->bytes) return bytes <= (size_t)(r->start + r->bytes - at) ? r : NULL;
    }
    return NULL;
}

static bool overlaps(const uint8_t *start, size_t bytes) {
    for (size_t k = 0; k < ranges.count; k++)
        if (start < ranges.item[k].start + ranges.item[k].bytes && ranges.item[k].start < start + bytes) return true;
    return false;
}

static bool add(HostRange r) {
    if (ranges.count == ranges.capacity) {
        const size_t capacity = ranges.capacity ? 2 * ranges.capacity : 32;
        HostRange *grown = realloc(ranges.item, capacity * sizeof *grown);
        if (!grown) return false;
        ranges.item = grown;
        ranges.capacity = capacity;
    }
    ranges.item[ranges.count++] = r;
    counters.allocations++;
    return true;
}

static void release(size_t k) {
    if (!ranges.item[k].registered) free(ranges.item[k].start);
    ranges.item[k] = ranges.item[--ranges.count];
    if (ranges.count) return;
    free(ranges.item);
    ranges.item = NULL;
    ranges.capacity = 0;
}

void host_release(Context *c, bool report) {
    for (size_t k = ranges.count; k-- > 0;) {
        if (ranges.item[k].context != c) continue;
        if (report)
            report_leak(ranges.item[k].registered ? "registered host memory" : "pinned host memory",
                        (uint64_t)(uintptr_t)ranges.item[k].start, ranges.item[k].bytes);
        release(k);
    }
}

CUresult sim_cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    Context *c = current_context();
    if (!memory || !bytes || flags > ALLOCATION_FLAGS) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = capture_forbids_unsafe(c);
    if (r) return r;
    *memory = bytes > SIZE_MAX - PAGE ? NULL : aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    if (!*memory) return CUDA_ERROR_OUT_OF_MEMORY;
    if (add((HostRange){.start = *memory, .bytes = bytes, .flags = flags, .context = c})) return CUDA_SUCCESS;
    free(*memory);
    return CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult sim_cuMemAllocHost_v2(void **memory, size_t bytes) { return sim_cuMemHostAlloc(memory, bytes, 0); }

static CUresult give_back(void *memory, bool registered, CUresult otherwise) {
    Context *c = current_context();
    CUresult r = capture_forbids_unsafe(c);
    if (r) return r;
    r = context_drain(c); /* copies may still use it */
    for (size_t k = 0; k < ranges.count; k++) {
        if (ranges.item[k].start != memory || ranges.item[k].registered != registered) continue;
        release(k);
        counters.frees++;
        return r;
    }
    report_driver(REPORT_FREE, (uint64_t)(uintptr_t)memory, 0,
                  registered ? "host memory unregistered twice, or never registered"
                             : "host memory freed twice, or not pinned");
    return otherwise;
}

CUresult sim_cuMemFreeHost(void *memory) {
    return memory ? give_back(memory, false, CUDA_ERROR_INVALID_VALUE) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    if (!memory || !bytes || flags > REGISTRATION_FLAGS) return CUDA_ERROR_INVALID_VALUE;
    if (overlaps(memory, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    const HostRange r = {
        .start = memory, .bytes = bytes, .flags = flags, .registered = true, .context = current_context()};
    return add(r) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuMemHostUnregister(void *memory) {
    return memory ? give_back(memory, true, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) : CUDA_ERROR_INVALID_VALUE;
}

/* Kernels do not reach host memory here: CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY says so too. */
CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned flags) {
    if (!address || flags || !host_find(memory, 1)) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuMemHostGetFlags(unsigned *flags, void *memory) {
    const HostRange *r = host_find(memory, 1);
    if (!flags || !r || r->registered) return CUDA_ERROR_INVALID_VALUE;
    *flags = r->flags;
    return CUDA_SUCCESS;
}
