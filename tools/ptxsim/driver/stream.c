/* Streams.  By default work is done when it is submitted.  PTXSIM_ASYNC=late defers it until somebody waits for it, and
 * PTXSIM_ASYNC=random until some later submission, drawn from PTXSIM_SEED: then a buffer used again too early, or read
 * too early, shows.  Order is kept within a stream, through events, and with the legacy default stream. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

typedef enum Deferral { AT_ONCE, LATE, RANDOM } Deferral;

static Deferral deferral(void) {
    const char *text = getenv("PTXSIM_ASYNC");
    if (!text) return AT_ONCE;
    return strcmp(text, "late") == 0 ? LATE : strcmp(text, "random") == 0 ? RANDOM : AT_ONCE;
}
bool work_deferred(void) { return deferral() != AT_ONCE; }

/* One number per seed, salt and call; 0 always for seed 0. */
uint64_t random_draw(uint64_t salt) {
    const char *text = getenv("PTXSIM_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 0;
    if (!seed) return 0;
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + salt * UINT64_C(0xbf58476d1ce4e5b9) + 1;
    for (int k = 0; k < 3; k++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

Stream *stream_new(Context *c, unsigned flags, int priority) {
    Stream *s = object_new(OBJECT_STREAM, c, sizeof *s);
    if (!s) return NULL;
    s->flags = flags;
    s->priority = priority;
    s->tail = &s->head;
    return s;
}

void stream_delete(Stream *s) {
    capture_forget(s);
    for (Item *i = s->head, *next; i; i = next) {
        next = i->next;
        work_clear(&i->work);
        free(i);
    }
    tips_free(&s->tips);
    object_free(s);
}

Stream *stream_of(CUstream handle) {
    Context *c = current_context();
    if (!handle || handle == CU_STREAM_LEGACY) return c->legacy;
    if (handle == CU_STREAM_PER_THREAD) return c->per_thread;
    Stream *s = object_find(handle, OBJECT_STREAM);
    return s && s->object.context == c ? s : NULL;
}

/* ---- the queue ---------------------------------------------------------------------------------------- */
/* A failure of work that nobody waits for any more is the context's. */
static CUresult run_first(Stream *s) {
    Context *c = s->object.context;
    Item *i = s->head;
    s->head = i->next;
    if (!s->head) s->tail = &s->head;
    s->done++;
    const CUresult r = c->failed && i->work.kind != WORK_FREE ? c->failed : work_run(c, &i->work);
    if (r && !c->failed) c->failed = r;
    work_clear(&i->work);
    free(i);
    return r;
}

CUresult stream_drain(Stream *s, uint64_t until) {
    while (s->head && s->done < until) run_first(s);
    return s->object.context->failed;
}

/* The n-th stream with work; NULL when there are fewer. */
static Stream *busy_stream(Context *c, uint64_t n) {
    for (Object *o = object_first(c); o; o = o->next)
        if (o->kind == OBJECT_STREAM && ((Stream *)o)->head && n-- == 0) return (Stream *)o;
    return NULL;
}

static bool run_some(Context *c) {
    uint64_t busy = 0;
    while (busy_stream(c, busy)) busy++;
    if (!busy) return false;
    run_first(busy_stream(c, random_draw(counters.calls + busy) % busy));
    return true;
}

CUresult context_drain(Context *c) {
    while (run_some(c)) {
    }
    return c->failed;
}

static bool push(Stream *s, Work *w) {
    Item *i = calloc(1, sizeof *i);
    if (!i) return false;
    i->work = *w;
    *s->tail = i;
    s->tail = &i->next;
    s->issued++;
    return true;
}

static bool push_wait(Stream *s, const Stream *other) {
    if (!other->head) return true;
    Work w = {.kind = WORK_WAIT, .wait = {object_handle(other), other->issued}};
    return push(s, &w);
}

/* The legacy default stream waits for every blocking stream, and they for it. */
static bool push_implicit_waits(Stream *s) {
    Context *c = s->object.context;
    if (s != c->legacy) return s->flags & CU_STREAM_NON_BLOCKING ? true : push_wait(s, c->legacy);
    for (Object *o = object_first(c); o; o = o->next) {
        const Stream *other = (Stream *)o;
        if (o->kind == OBJECT_STREAM && other != s && !(other->flags & CU_STREAM_NON_BLOCKING) && !push_wait(s, other))
            return false;
    }
    return true;
}

/* ---- submission --------------------------------------------------------------------------------------- */
static bool is_pageable(const Endpoint *e, const CopyWork *w) {
    return e->host && !host_find(e->host, w->width + (w->height - 1) * e->pitch + (w->depth - 1) * e->slice);
}

/* Counts; the source of a deferred copy from pageable memory is read now.  *waits: the call may return only when the
 * work is done.  Source: CUDA Driver API, "API synchronization behavior". */
static CUresult account(Work *w, bool *waits) {
    CopyWork *copy = &w->copy;
    if (w->kind != WORK_COPY && w->kind != WORK_FILL) return CUDA_SUCCESS;
    counters.copies++;
    if (w->kind == WORK_FILL) {
        counters.copied_bytes += w->fill.width * w->fill.height * w->fill.elementSize;
        return CUDA_SUCCESS;
    }
    const size_t bytes = copy->width * copy->height * copy->depth;
    counters.copied_bytes += bytes;
    if (!bytes) return CUDA_SUCCESS;
    const bool from = is_pageable(&copy->from, copy), to = is_pageable(&copy->to, copy);
    counters.pageable_copies += from || to;
    *waits = *waits || to;
    if (!from || !work_deferred() || *waits || copy->height != 1 || copy->depth != 1) {
        *waits = *waits || (from && work_deferred()); /* the source may go when the call returns */
        return CUDA_SUCCESS;
    }
    copy->staged = malloc(bytes);
    if (!copy->staged) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy->staged, copy->from.host, bytes);
    copy->from.host = copy->staged;
    return CUDA_SUCCESS;
}

static CUresult run_now(Stream *s, Work *w) {
    s->issued++;
    const CUresult r = work_run(s->object.context, w);
    s->done++;
    work_clear(w);
    return r;
}

CUresult stream_submit(Stream *s, Work *w, bool blocking) {
    Context *c = s->object.context;
    CUresult r = s->capture ? capture_work(s, w) : capture_forbids(s == c->legacy ? s : NULL);
    if (r || s->capture) {
        work_clear(w);
        return r;
    }
    const bool asked = blocking;
    r = account(w, &blocking);
    counters.synchronisations += asked;
    if (!r && !work_deferred() && !s->head) return run_now(s, w);
    if (r || !push_implicit_waits(s) || !push(s, w)) {
        work_clear(w);
        return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (blocking) return stream_drain(s, s->issued);
    if (deferral() == RANDOM)
        for (uint64_t n = random_draw(counters.calls) % 3; n > 0 && run_some(c); n--) {
        }
    return CUDA_SUCCESS;
}

/* ---- calls -------------------------------------------------------------------------------------------- */
CUresult sim_cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    if (!stream || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    if (priority > 0) priority = 0; /* clamped to the range of cuCtxGetStreamPriorityRange */
    if (priority < -5) priority = -5;
    Stream *s = stream_new(current_context(), flags, priority);
    if (!s) return CUDA_ERROR_OUT_OF_MEMORY;
    *stream = object_handle(s);
    return CUDA_SUCCESS;
}
CUresult sim_cuStreamCreate(CUstream *stream, unsigned flags) {
    return sim_cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult sim_cuStreamDestroy_v2(CUstream stream) {
    Stream *s = stream ? object_find(stream, OBJECT_STREAM) : NULL;
    if (!s || s->object.internal) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult r = stream_drain(s, s->issued); /* the hardware would do this work later */
    stream_delete(s);
    return r;
}

CUresult sim_cuStreamSynchronize(CUstream stream) {
    Stream *s = stream_of(stream);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult r = capture_forbids(s);
    if (r) return r;
    Context *c = s->object.context;
    return s == c->legacy ? context_drain(c) : stream_drain(s, s->issued);
}

/* Every query lets a little happen, so that a program that polls comes to an end. */
CUresult sim_cuStreamQuery(CUstream stream) {
    Stream *s = stream_of(stream);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult r = capture_forbids(s);
    if (r) return r;
    if (s->head) run_some(s->object.context);
    if (s->object.context->failed) return s->object.context->failed;
    return s->head ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult sim_cuStreamGetPriority(CUstream stream, int *priority) {
    const Stream *s = stream_of(stream);
    if (!priority) return CUDA_ERROR_INVALID_VALUE;
    if (s) *priority = s->priority;
    return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuStreamGetFlags(CUstream stream, unsigned *flags) {
    const Stream *s = stream_of(stream);
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    if (s) *flags = s->flags;
    return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuStreamGetCtx(CUstream stream, CUcontext *context) {
    const Stream *s = stream_of(stream);
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (s) *context = object_handle(s->object.context);
    return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuStreamGetId(CUstream stream, unsigned long long *id) {
    const Stream *s = stream_of(stream);
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    if (s) *id = s->object.index + 1u;
    return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuStreamGetDevice(CUstream stream, CUdevice *device) {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return stream_of(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data, unsigned flags) {
    Stream *s = stream_of(stream);
    Work w = {.kind = WORK_CALLBACK, .callback = {function, stream, data}};
    if (!function || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    return s->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : stream_submit(s, &w, false);
}

CUresult sim_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
    Stream *s = stream_of(stream);
    Work w = {.kind = WORK_HOST, .host = {function, data}};
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    return s ? stream_submit(s, &w, false) : CUDA_ERROR_INVALID_HANDLE;
}
