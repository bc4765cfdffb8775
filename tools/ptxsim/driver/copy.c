/* Copies and fills, in a stream; without one in the legacy default stream.  Source: CUDA Driver API, "Memory
 * Management", "API synchronization behavior". */
#include "tools/ptxsim/driver/driver.h"

static Endpoint host_end(const void *p) { return (Endpoint){.host = (uint8_t *)(uintptr_t)p}; }
static Endpoint device_end(CUdeviceptr p) { return (Endpoint){.device = p}; }
static Endpoint unified_end(CUdeviceptr p) {
    return memory_find(&current_context()->memory, p) ? device_end(p) : host_end((const void *)(uintptr_t)p);
}

static CUresult submit(CopyWork *copy, CUstream stream, bool blocking) {
    Stream *s = stream_of(stream);
    Work w = {.kind = WORK_COPY, .copy = *copy};
    return s ? stream_submit(s, &w, blocking) : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult linear(Endpoint to, Endpoint from, size_t bytes, CUstream stream, bool blocking) {
    CopyWork w = {.to = to, .from = from, .width = bytes, .height = 1, .depth = 1};
    if (!bytes) return stream_of(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if ((!to.host && !to.device) || (!from.host && !from.device)) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = copy_check(current_context(), &w);
    return r ? r : submit(&w, stream, blocking);
}

CUresult sim_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
    return linear(unified_end(to), unified_end(from), n, NULL, true);
}
CUresult sim_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    return linear(unified_end(to), unified_end(from), n, s, false);
}
CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n) {
    return linear(device_end(to), host_end(from), n, NULL, true);
}
CUresult sim_cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n) {
    return linear(host_end(to), device_end(from), n, NULL, true);
}
/* Between device memories the host does not wait. */
CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) {
    return linear(device_end(to), device_end(from), n, NULL, false);
}
CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s) {
    return linear(device_end(to), host_end(from), n, s, false);
}
CUresult sim_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s) {
    return linear(host_end(to), device_end(from), n, s, false);
}
CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    return linear(device_end(to), device_end(from), n, s, false);
}

/* There is no peer. */
CUresult sim_cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                          size_t bytes) {
    if (!object_find(to_context, OBJECT_CONTEXT) || !object_find(from_context, OBJECT_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return to && from && bytes ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_ERROR_INVALID_VALUE;
}
CUresult sim_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                               size_t bytes, CUstream stream) {
    return stream_of(stream) ? sim_cuMemcpyPeer(to, to_context, from, from_context, bytes) : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- 2D, 3D ------------------------------------------------------------------------------------------- */
static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream stream, bool blocking) {
    CopyWork w;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = copy_from_3d(current_context(), p, &w);
    return r ? r : submit(&w, stream, blocking && (w.to.host || w.from.host));
}
CUresult sim_cuMemcpy3D_v2(const CUDA_MEMCPY3D *p) { return copy_3d(p, NULL, true); }
CUresult sim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream stream) { return copy_3d(p, stream, false); }

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream stream, bool blocking) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMCPY3D q = {.srcXInBytes = p->srcXInBytes,
                             .srcY = p->srcY,
                             .srcMemoryType = p->srcMemoryType,
                             .srcHost = p->srcHost,
                             .srcDevice = p->srcDevice,
                             .srcArray = p->srcArray,
                             .srcPitch = p->srcPitch ? p->srcPitch : p->WidthInBytes,
                             .dstXInBytes = p->dstXInBytes,
                             .dstY = p->dstY,
                             .dstMemoryType = p->dstMemoryType,
                             .dstHost = p->dstHost,
                             .dstDevice = p->dstDevice,
                             .dstArray = p->dstArray,
                             .dstPitch = p->dstPitch ? p->dstPitch : p->WidthInBytes,
                             .WidthInBytes = p->WidthInBytes,
                             .Height = p->Height,
                             .Depth = 1};
    return copy_3d(&q, stream, blocking);
}
CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *p) { return copy_2d(p, NULL, true); }
CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p) { return copy_2d(p, NULL, true); }
CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream stream) { return copy_2d(p, stream, false); }

/* ---- fills -------------------------------------------------------------------------------------------- */
static CUresult fill(CUdeviceptr to, size_t pitch, uint32_t value, unsigned bytes, size_t width, size_t height,
                     CUstream stream) {
    Stream *s = stream_of(stream);
    Work w = {.kind = WORK_FILL, .fill = {to, pitch, value, bytes, width, height}};
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!width || !height) return CUDA_SUCCESS;
    const CUresult r = fill_check(current_context(), &w.fill);
    return r ? r : stream_submit(s, &w, false);
}
CUresult sim_cuMemsetD8_v2(CUdeviceptr to, unsigned char v, size_t n) { return fill(to, 0, v, 1, n, 1, NULL); }
CUresult sim_cuMemsetD16_v2(CUdeviceptr to, unsigned short v, size_t n) { return fill(to, 0, v, 2, n, 1, NULL); }
CUresult sim_cuMemsetD32_v2(CUdeviceptr to, unsigned v, size_t n) { return fill(to, 0, v, 4, n, 1, NULL); }
CUresult sim_cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s) {
    return fill(to, 0, v, 1, n, 1, s);
}
CUresult sim_cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n, CUstream s) {
    return fill(to, 0, v, 2, n, 1, s);
}
CUresult sim_cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, CUstream s) { return fill(to, 0, v, 4, n, 1, s); }
CUresult sim_cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h) {
    return fill(to, pitch, v, 1, w, h, NULL);
}
CUresult sim_cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h) {
    return fill(to, pitch, v, 2, w, h, NULL);
}
CUresult sim_cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned v, size_t w, size_t h) {
    return fill(to, pitch, v, 4, w, h, NULL);
}
CUresult sim_cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h, CUstream s) {
    return fill(to, pitch, v, 1, w, h, s);
}
CUresult sim_cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h, CUstream s) {
    return fill(to, pitch, v, 2, w, h, s);
}
CUresult sim_cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned v, size_t w, size_t h, CUstream s) {
    return fill(to, pitch, v, 4, w, h, s);
}
