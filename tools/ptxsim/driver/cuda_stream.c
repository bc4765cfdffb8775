/* Streams and events: work is done when it is submitted, so every wait is over at once. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>
#include <time.h>

struct CUstream_st { unsigned flags; };
struct CUevent_st { struct timespec at; unsigned flags; bool recorded; };

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    CUresult r;
    if (!stream || flags > 1) return CUDA_ERROR_INVALID_VALUE;
    if (!driver_enter(&r)) return r;
    *stream = calloc(1, sizeof **stream);
    if (*stream) (*stream)->flags = flags;
    return driver_leave(*stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    (void)priority;
    return cuStreamCreate(stream, flags);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    free(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
    (void)stream;
    return cuCtxSynchronize();
}
CUresult cuStreamQuery(CUstream stream) {
    (void)stream;
    return cuCtxSynchronize();
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    (void)stream;
    (void)flags;
    return event ? cuCtxSynchronize() : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    CUresult r;
    if (!event || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    if (!driver_enter(&r)) return r;
    *event = calloc(1, sizeof **event);
    if (*event) (*event)->flags = flags;
    return driver_leave(*event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuEventDestroy_v2(CUevent event) {
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    (void)stream;
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult r = cuCtxSynchronize();
    if (r) return r;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    event->recorded = true;
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) { return event ? cuCtxSynchronize() : CUDA_ERROR_INVALID_HANDLE; }
CUresult cuEventQuery(CUevent event) { return event ? cuCtxSynchronize() : CUDA_ERROR_INVALID_HANDLE; }

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    enum { DISABLE_TIMING = 2 };
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    if (!start || !end || !start->recorded || !end->recorded || ((start->flags | end->flags) & DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)((double)(end->at.tv_sec - start->at.tv_sec) * 1e3 +
                            (double)(end->at.tv_nsec - start->at.tv_nsec) * 1e-6);
    return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    return cuEventElapsedTime(milliseconds, start, end);
}
