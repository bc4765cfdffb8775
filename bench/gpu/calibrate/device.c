/* The child process (open, load, launch) writes messages into a pipe; the parent restarts it behind a job that faults.
 */
#include "bench/gpu/calibrate/device.h"
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Jobs of one module; seconds without a message after which a job hangs; processes after the first. */
enum { BATCH = 32, PATIENCE = 20, MOST_RESTARTS = 20 };

/* CUDA Driver API, docs.nvidia.com/cuda/cuda-driver-api: handles are pointers, CUdevice and CUresult int. */
#define FUNCTIONS(X)                                                                                          \
    X(cuInit, (unsigned flags))                                                                               \
    X(cuDriverGetVersion, (int *version))                                                                     \
    X(cuGetErrorName, (int result, const char **name))                                                        \
    X(cuDeviceGet, (int *device, int ordinal))                                                                \
    X(cuDeviceGetName, (char *name, int bytes, int device))                                                   \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                                          \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                                 \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                             \
    X(cuCtxSetCurrent, (void *context))                                                                       \
    X(cuCtxSynchronize, (void))                                                                               \
    X(cuModuleLoadDataEx, (void **module, const void *image, unsigned n, int *options, void **values))        \
    X(cuModuleUnload, (void *module))                                                                         \
    X(cuModuleGetFunction, (void **function, void *module, const char *name))                                 \
    X(cuMemAlloc_v2, (uint64_t * address, size_t bytes))                                                      \
    X(cuMemFree_v2, (uint64_t address))                                                                       \
    X(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes))                                         \
    X(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes))                                               \
    X(cuLaunchKernel,                                                                                         \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
       unsigned block_z, unsigned shared, void *stream, void **params, void **extra))
enum { MAJOR = 75, MINOR = 76, ERROR_LOG = 5, ERROR_LOG_BYTES = 6, UNSUPPORTED_PTX_VERSION = 222 };

typedef int Encode(void *map, int type, uint32_t rank, void *address, const uint64_t *size, const uint64_t *stride,
                   const uint32_t *box, const uint32_t *step, int interleave, int swizzle, int promotion, int fill);

typedef struct Driver {
#define FIELD(symbol, parameters) int(*symbol) parameters;
    FUNCTIONS(FIELD)
#undef FIELD
    Encode *encode; /* since CUDA 12; or NULL */
    int device, fd;
    uint64_t in, out;
    DeviceName name;
    const char *version; /* of PTX, the newest that it takes */
} Driver;

typedef struct Message {
    int32_t job; /* -1: `device`; -2: all done */
    int32_t outcome;
    uint32_t bytes; /* that follow */
    char why[WHY];
    DeviceName device;
} Message;

/* ---- the child ------------------------------------------------------------------------------------------ */
static void send_bytes(int fd, const void *data, size_t n) {
    for (const char *at = data; n;) {
        const ssize_t k = write(fd, at, n);
        if (k <= 0) _exit(4);
        at += k;
        n -= (size_t)k;
    }
}

static void answer(const Driver *d, int job, Outcome outcome, const char *why, const uint8_t *out, uint32_t bytes) {
    Message m = {.job = job, .outcome = (int32_t)outcome, .bytes = bytes, .device = d->name};
    snprintf(m.why, sizeof m.why, "%s", why);
    for (char *c = m.why; *c; c++)
        if (*c == '\n' || *c == '\r') *c = ' ';
    send_bytes(d->fd, &m, sizeof m);
    if (bytes) send_bytes(d->fd, out, bytes);
}

static const char *error_name(const Driver *d, int result) {
    const char *name = NULL;
    return d->cuGetErrorName(result, &name) || !name ? "an unknown error" : name;
}

static _Noreturn void give_up(const Driver *d, const char *why) {
    answer(d, -1, OUTCOME_FAILED, why, NULL, 0);
    _exit(3);
}

static void must(const Driver *d, int result) {
    if (result) give_up(d, error_name(d, result));
}

static void *load(const Driver *d, const char *text, int *result, char *log, size_t room) {
    int options[] = {ERROR_LOG, ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)room}, *module = NULL;
    *log = '\0';
    *result = d->cuModuleLoadDataEx(&module, text, 2, options, values);
    return *result ? NULL : module;
}

static void module_text(const Driver *d, Text *t, const Jobs *jobs, int first, int count) {
    char target[24];
    snprintf(target, sizeof target, "sm_%d%d%s", d->name.major, d->name.minor, d->name.major >= 9 ? "a" : "");
    jobs_module(jobs, first, count, d->version, target, t);
}

static void choose_version(Driver *d) {
    static const char *const VERSIONS[] = {"8.7", "8.4", "8.0"};
    for (size_t k = 0; k < sizeof VERSIONS / sizeof *VERSIONS; k++) {
        Text t = {0};
        char log[256];
        int result;
        d->version = VERSIONS[k];
        module_text(d, &t, &(Jobs){0}, 0, 0);
        void *module = load(d, t.data, &result, log, sizeof log);
        text_free(&t);
        if (module) d->cuModuleUnload(module);
        if (!result) return;
    }
}

static void driver_open(Driver *d) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *context;
    if (!library) give_up(d, "there is no libcuda.so.1");
#define FIND(symbol, parameters) \
    if (!(*(void **)&d->symbol = dlsym(library, #symbol))) give_up(d, "libcuda.so.1 lacks " #symbol);
    FUNCTIONS(FIND)
#undef FIND
    *(void **)&d->encode = dlsym(library, "cuTensorMapEncodeTiled");
    must(d, d->cuInit(0));
    must(d, d->cuDeviceGet(&d->device, 0));
    d->cuDriverGetVersion(&d->name.driver);
    must(d, d->cuDeviceGetName(d->name.name, sizeof d->name.name, d->device));
    for (char *c = d->name.name; *c; c++)
        if (*c <= ' ') *c = '-';
    must(d, d->cuDeviceGetAttribute(&d->name.major, MAJOR, d->device));
    must(d, d->cuDeviceGetAttribute(&d->name.minor, MINOR, d->device));
    must(d, d->cuDevicePrimaryCtxRetain(&context, d->device));
    must(d, d->cuCtxSetCurrent(context));
    must(d, d->cuMemAlloc_v2(&d->in, JOB_MEMORY));
    must(d, d->cuMemAlloc_v2(&d->out, JOB_MEMORY));
    choose_version(d);
    answer(d, -1, OUTCOME_DONE, "", NULL, 0);
}

static void *load_jobs(const Driver *d, const Jobs *jobs, int first, int count, int *result, char *log, size_t room) {
    Text t = {0};
    module_text(d, &t, jobs, first, count);
    void *module = load(d, t.data, result, log, room);
    text_free(&t);
    return module;
}

static int encode(const Driver *d, const Job *j, void *map) {
    const Tensor *t = &j->tensor;
    return d->encode(map, t->type, (uint32_t)t->rank, (void *)(uintptr_t)(j->text ? d->out : d->in), t->size,
                     t->stride + 1, t->box, t->step, 0, t->swizzle, 0, t->fill);
}

/* A fault poisons the context, so that the process ends with it. */
static void run(const Driver *d, const Job *j, int number, void *module) {
    static uint8_t in[JOB_MEMORY], out[JOB_MEMORY];
    static struct { _Alignas(64) uint8_t bytes[128]; } map;
    char name[16];
    void *function, *params[] = {(void *)&d->in, (void *)&d->out, &map};
    snprintf(name, sizeof name, "k%d", number);
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    j->fill(j, in, out);
    int result = j->has_tensor ? d->encode ? encode(d, j, &map) : UNSUPPORTED_PTX_VERSION : 0;
    if (result) {
        answer(d, number, OUTCOME_REFUSED, error_name(d, result), NULL, 0);
        return;
    }
    result = d->cuModuleGetFunction(&function, module, name);
    if (!result) result = d->cuMemcpyHtoD_v2(d->in, in, j->in_bytes);
    if (!result) result = d->cuMemcpyHtoD_v2(d->out, out, j->out_bytes);
    if (!result) result = d->cuLaunchKernel(function, j->blocks, 1, 1, j->threads, 1, 1, j->shared, NULL, params, NULL);
    if (!result) result = d->cuCtxSynchronize();
    if (!result) result = d->cuMemcpyDtoH_v2(out, d->out, j->out_bytes);
    answer(d, number, result ? OUTCOME_FAILED : OUTCOME_DONE, result ? error_name(d, result) : "", out,
           result ? 0 : j->out_bytes);
    if (result) _exit(5);
}

/* One module; if the driver refuses it, a module for each job. */
static void run_batch(const Driver *d, const Jobs *jobs, int first, int count) {
    char log[1024];
    int result;
    void *module = load_jobs(d, jobs, first, count, &result, log, sizeof log);
    if (!module && count > 1) {
        for (int k = 0; k < count; k++) run_batch(d, jobs, first + k, 1);
        return;
    }
    if (!module) {
        char why[WHY + 1024];
        snprintf(why, sizeof why, "%s %.*s", error_name(d, result), (int)strcspn(log, "\n"), log);
        answer(d, first, OUTCOME_REFUSED, why, NULL, 0);
        return;
    }
    for (int k = first; k < first + count; k++) run(d, &jobs->job[k], k, module);
    d->cuModuleUnload(module);
}

static _Noreturn void child(const Jobs *jobs, int first, int fd) {
    static Driver d;
    d.fd = fd;
    driver_open(&d);
    for (int k = first; k < jobs->count; k += BATCH)
        run_batch(&d, jobs, k, jobs->count - k < BATCH ? jobs->count - k : BATCH);
    d.cuMemFree_v2(d.in);
    d.cuMemFree_v2(d.out);
    d.cuDevicePrimaryCtxRelease_v2(d.device);
    answer(&d, -2, OUTCOME_DONE, "", NULL, 0);
    exit(0);
}

/* ---- the parent ----------------------------------------------------------------------------------------- */
typedef struct Run {
    const Jobs *jobs;
    DeviceName *device;
    char *why;
    OnJob *on_job;
    void *user;
    int next; /* job */
    time_t end;
    bool opened, over;
} Run;

/* False: nothing more comes, or nothing in time. */
static bool receive(const Run *r, int fd, void *to, size_t n) {
    for (char *at = to; n;) {
        const time_t left = r->end - time(NULL);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0 || poll(&p, 1, (int)(left < PATIENCE ? left : PATIENCE) * 1000) <= 0) return false;
        const ssize_t k = read(fd, at, n);
        if (k <= 0) return false;
        at += k;
        n -= (size_t)k;
    }
    return true;
}

static bool one_message(Run *r, int fd) {
    static uint8_t out[JOB_MEMORY];
    Message m;
    if (!receive(r, fd, &m, sizeof m) || m.bytes > sizeof out || !receive(r, fd, out, m.bytes)) return false;
    if (m.job == -1) {
        r->opened = m.outcome == OUTCOME_DONE;
        *r->device = m.device;
        snprintf(r->why, WHY, "%s", m.why);
        return r->opened;
    }
    if (m.job == -2) r->over = true;
    if (r->over || m.job != r->next) return false;
    r->on_job(r->user, r->next++, (Outcome)m.outcome, m.why, out);
    return true;
}

/* One child, from job r->next on. */
static void run_child(Run *r) {
    int fd[2];
    if (pipe(fd)) return;
    fflush(NULL);
    const pid_t pid = fork();
    if (!pid) {
        close(fd[0]);
        child(r->jobs, r->next, fd[1]);
    }
    close(fd[1]);
    while (pid > 0 && one_message(r, fd[0])) {
    }
    close(fd[0]);
    if (pid <= 0) return;
    if (!r->over) kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

bool device_run(const Jobs *jobs, int seconds, DeviceName *device, char why[WHY], OnJob *on_job, void *user) {
    Run r = {.jobs = jobs, .device = device, .why = why, .on_job = on_job, .user = user, .end = time(NULL) + seconds};
    snprintf(why, WHY, "no process could be started");
    for (int restarts = 0; restarts <= MOST_RESTARTS && r.next < jobs->count && time(NULL) < r.end; restarts++) {
        const int before = r.next;
        r.opened = false;
        run_child(&r);
        if (!r.opened && !before) return false;
        if (r.over) break;
        /* Nothing of it came back: it hangs, or took the process with it.  A fault was reported, and counted. */
        if (r.next == before && r.opened && time(NULL) < r.end)
            on_job(user, r.next++, OUTCOME_FAILED, "it does not end, or ends the process", NULL);
    }
    while (r.next < jobs->count) on_job(user, r.next++, OUTCOME_NONE, "not reached", NULL);
    return true;
}
