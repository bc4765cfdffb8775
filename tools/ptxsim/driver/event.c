/* Events: a place in a stream, and the time when it was reached. */
#include "tools/ptxsim/driver/driver.h"

enum { EVENT_FLAGS = 7, RECORD_EXTERNAL = 1 };

CUresult sim_cuEventCreate(CUevent *event, unsigned flags) {
    if (!event || flags > EVENT_FLAGS) return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS) return CUDA_ERROR_NOT_SUPPORTED;
    Event *e = object_new(OBJECT_EVENT, current_context(), sizeof *e);
    if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
    e->flags = flags;
    *event = object_handle(e);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy_v2(CUevent event) {
    Event *e = object_find(event, OBJECT_EVENT);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    tips_free(&e->tips);
    object_free(e);
    return CUDA_SUCCESS;
}

void event_finish(CUevent event, uint64_t ticket) {
    Event *e = object_peek(event, OBJECT_EVENT);
    if (!e || ticket <= e->finished) return; /* destroyed meanwhile */
    clock_gettime(CLOCK_MONOTONIC, &e->at);
    e->finished = ticket;
}

CUresult sim_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    Event *e = object_find(event, OBJECT_EVENT);
    Stream *s = stream_of(stream);
    if (flags & ~(unsigned)RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    if (!e || !s || e->object.context != s->object.context) return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture) return flags ? CUDA_ERROR_NOT_SUPPORTED : capture_record(s, e);
    tips_free(&e->tips);
    e->capture = 0;
    Work w = {.kind = WORK_RECORD, .record = {event, ++e->ticket}};
    const CUresult r = stream_submit(s, &w, false);
    e->stream = object_handle(s);
    e->until = s->issued;
    return r;
}
CUresult sim_cuEventRecord(CUevent event, CUstream stream) { return sim_cuEventRecordWithFlags(event, stream, 0); }

static bool is_done(const Event *e) { return e->finished == e->ticket; } /* also when it was never recorded */

CUresult sim_cuEventSynchronize(CUevent event) {
    Event *e = object_find(event, OBJECT_EVENT);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (e->capture) return CUDA_ERROR_CAPTURED_EVENT;
    Stream *s = is_done(e) ? NULL : object_peek(e->stream, OBJECT_STREAM);
    return s ? stream_drain(s, e->until) : e->object.context->failed;
}

CUresult sim_cuEventQuery(CUevent event) {
    Event *e = object_find(event, OBJECT_EVENT);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (e->capture) return CUDA_ERROR_CAPTURED_EVENT;
    Stream *s = is_done(e) ? NULL : object_peek(e->stream, OBJECT_STREAM);
    if (s && s->head) stream_drain(s, s->done + 1);
    if (e->object.context->failed) return e->object.context->failed;
    return is_done(e) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    const Event *a = object_find(start, OBJECT_EVENT), *b = object_find(end, OBJECT_EVENT);
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    if (!a || !b || !a->ticket || !b->ticket || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!is_done(a) || !is_done(b)) return CUDA_ERROR_NOT_READY;
    *milliseconds =
        (float)((double)(b->at.tv_sec - a->at.tv_sec) * 1e3 + (double)(b->at.tv_nsec - a->at.tv_nsec) * 1e-6);
    return CUDA_SUCCESS;
}
CUresult sim_cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    return sim_cuEventElapsedTime(milliseconds, start, end);
}

CUresult sim_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    Event *e = object_find(event, OBJECT_EVENT);
    Stream *s = stream_of(stream);
    CUresult r;
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    if (!e || !s) return CUDA_ERROR_INVALID_HANDLE;
    if (capture_wait(s, e, &r)) return r;
    if (is_done(e)) return CUDA_SUCCESS;
    Work w = {.kind = WORK_WAIT, .wait = {e->stream, e->until}};
    return stream_submit(s, &w, false);
}
