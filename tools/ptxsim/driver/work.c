/* What can be submitted to a stream or put in a graph: its checks, its run, its copy. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

static _Thread_local bool in_host;
bool in_host_function(void) { return in_host; }

/* ---- memory ------------------------------------------------------------------------------------------- */
/* Bytes from the first to behind the last; 0 when nothing is to be moved, UINT64_MAX when that overflows. */
static uint64_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
    uint64_t rows, planes, sum;
    if (!width || !height || !depth) return 0;
    if (__builtin_mul_overflow(height - 1, pitch, &rows) || __builtin_mul_overflow(depth - 1, slice, &planes) ||
        __builtin_add_overflow(rows, planes, &sum) || __builtin_add_overflow(sum, width, &sum))
        return UINT64_MAX;
    return sum;
}

static CUresult endpoint_check(Context *c, const Endpoint *e, const CopyWork *w) {
    Allocation *a;
    const uint64_t bytes = extent(w->width, w->height, w->depth, e->pitch, e->slice);
    if (w->height > 1 && e->pitch < w->width) return CUDA_ERROR_INVALID_VALUE;
    if (w->depth > 1 && e->slice / (e->pitch ? e->pitch : 1) < w->height) return CUDA_ERROR_INVALID_VALUE;
    if (!bytes || e->host) return CUDA_SUCCESS;
    return e->device ? device_range(c, e->device, bytes, &a) : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_check(Context *c, const CopyWork *w) {
    const CUresult r = endpoint_check(c, &w->to, w);
    return r ? r : endpoint_check(c, &w->from, w);
}

static CUresult copy_row(Context *c, const CopyWork *w, size_t y, size_t z) {
    Allocation *to = NULL, *from = NULL;
    const size_t out = y * w->to.pitch + z * w->to.slice, in = y * w->from.pitch + z * w->from.slice;
    CUresult r = CUDA_SUCCESS;
    if (!w->to.host) r = device_range(c, w->to.device + out, w->width, &to);
    if (!r && !w->from.host) r = device_range(c, w->from.device + in, w->width, &from);
    if (r) return r;
    const size_t at_to = to ? w->to.device + out - to->address : 0,
                 at_from = from ? w->from.device + in - from->address : 0;
    memmove(to ? to->data + at_to : w->to.host + out, from ? from->data + at_from : w->from.host + in, w->width);
    if (to && from)
        memmove(to->written + at_to, from->written + at_from, w->width); /* what was never written stays so */
    else if (to)
        memset(to->written + at_to, 1, w->width);
    return CUDA_SUCCESS;
}

static CUresult run_copy(Context *c, const CopyWork *w) {
    CUresult r = CUDA_SUCCESS;
    if (!w->width) return r;
    for (size_t z = 0; z < w->depth && !r; z++)
        for (size_t y = 0; y < w->height && !r; y++) r = copy_row(c, w, y, z);
    return r;
}

CUresult fill_check(Context *c, const CUDA_MEMSET_NODE_PARAMS *p) {
    Allocation *a;
    const unsigned n = p->elementSize;
    if ((n != 1 && n != 2 && n != 4) || p->dst % n || (n < 4 && p->value >> (8 * n))) return CUDA_ERROR_INVALID_VALUE;
    if (p->width > SIZE_MAX / 4 || (p->height > 1 && (p->pitch < p->width * n || p->pitch % n)))
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t bytes = extent(p->width * n, p->height, 1, p->pitch, 0);
    return bytes ? device_range(c, p->dst, bytes, &a) : CUDA_SUCCESS;
}

static CUresult run_fill(Context *c, const CUDA_MEMSET_NODE_PARAMS *p) {
    CUresult r = CUDA_SUCCESS;
    const size_t bytes = p->width * p->elementSize;
    for (size_t y = 0; bytes && y < p->height && !r; y++) {
        Allocation *a;
        const CUdeviceptr row = p->dst + y * p->pitch;
        r = device_range(c, row, bytes, &a);
        if (r) break;
        uint8_t *at = a->data + (row - a->address);
        for (size_t k = 0; k < bytes; k += p->elementSize) memcpy(at + k, &p->value, p->elementSize);
        memset(a->written + (row - a->address), 1, bytes);
    }
    return r;
}

/* ---- CUDA_MEMCPY3D ------------------------------------------------------------------------------------ */
/* Unified addresses are the host's where they lie in no device allocation. */
static CUresult resolve(Context *c, Endpoint *e, int type, const void *host, CUdeviceptr device, size_t offset) {
    if (type == CU_MEMORYTYPE_UNIFIED) {
        if (memory_find(&c->memory, device))
            type = CU_MEMORYTYPE_DEVICE;
        else
            host = (const void *)(uintptr_t)device;
    }
    if (type == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
    if (type == CU_MEMORYTYPE_DEVICE)
        e->device = device + offset;
    else if ((type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_UNIFIED) && host)
        e->host = (uint8_t *)(uintptr_t)host + offset;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult copy_from_3d(Context *c, const CUDA_MEMCPY3D *p, CopyWork *w) {
    if (p->reserved0 || p->reserved1 || p->srcLOD || p->dstLOD) return CUDA_ERROR_INVALID_VALUE;
    *w = (CopyWork){.width = p->WidthInBytes, .height = p->Height, .depth = p->Depth};
    w->from.pitch = p->srcPitch;
    w->from.slice = p->srcPitch * p->srcHeight;
    w->to.pitch = p->dstPitch;
    w->to.slice = p->dstPitch * p->dstHeight;
    const size_t from = p->srcXInBytes + p->srcY * w->from.pitch + p->srcZ * w->from.slice;
    const size_t to = p->dstXInBytes + p->dstY * w->to.pitch + p->dstZ * w->to.slice;
    CUresult r = resolve(c, &w->from, p->srcMemoryType, p->srcHost, p->srcDevice, from);
    if (!r) r = resolve(c, &w->to, p->dstMemoryType, p->dstHost, p->dstDevice, to);
    return r ? r : copy_check(c, w);
}

/* ---- work --------------------------------------------------------------------------------------------- */
static void run_host(const Work *w) {
    in_host = true;
    if (w->kind == WORK_HOST)
        w->host.fn(w->host.userData);
    else
        w->callback.function(w->callback.stream, CUDA_SUCCESS, w->callback.data);
    in_host = false;
}

CUresult work_run(Context *c, const Work *w) {
    switch (w->kind) {
    case WORK_KERNEL: return launch_grid(c, &w->kernel);
    case WORK_COPY: return run_copy(c, &w->copy);
    case WORK_FILL: return run_fill(c, &w->fill);
    case WORK_HOST:
    case WORK_CALLBACK: run_host(w); return CUDA_SUCCESS;
    case WORK_RECORD: event_finish(w->record.event, w->record.ticket); return CUDA_SUCCESS;
    case WORK_WAIT: {
        Stream *s = object_peek(w->wait.stream, OBJECT_STREAM);
        return s ? stream_drain(s, w->wait.until) : CUDA_SUCCESS;
    }
    case WORK_FREE: return device_free(c, w->address);
    case WORK_EMPTY: break;
    }
    return CUDA_SUCCESS;
}

bool work_copy(Work *to, const Work *from) {
    *to = *from;
    if (from->kind == WORK_KERNEL) {
        to->kernel.params = malloc(from->kernel.param_bytes + 1u);
        if (!to->kernel.params) return false;
        memcpy(to->kernel.params, from->kernel.params, from->kernel.param_bytes);
    }
    if (from->kind == WORK_COPY) to->copy.staged = NULL;
    return true;
}

void work_clear(Work *w) {
    if (w->kind == WORK_KERNEL) free(w->kernel.params);
    if (w->kind == WORK_COPY) free(w->copy.staged);
    *w = (Work){.kind = WORK_EMPTY};
}
