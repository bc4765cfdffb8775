/* Times.  What is timed lies in memory that the L2 cache does not hold: several copies of a small model take turns. */
#include "bench/gpu/runner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COPIES = 16, RUNS = 9, FEW_RUNS = 3, MOST_CALLS = 200 };
static const uint64_t BEYOND_CACHE = (uint64_t)320 << 20; /* bytes: several times the L2 of any GPU so far */
static const double RUN_SECONDS = 0.15;                   /* about what one timed run of calls takes */
static const double BUSY_SECONDS = 0.02;                  /* calls that take longer keep the GPU busy while they are launched */
static const double SLOW_SECONDS = 0.4;                   /* calls that take longer are timed only a few times */

typedef struct Timed {
    GpuModel *copy;
    int n;
} Timed;

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}
static float median(float *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Inputs stay on the device after the first call; outputs stay there.  Entry infer computes the first output. */
static fusec_cuda_call resident(int32_t step) { return (fusec_cuda_call){.step = step, .wanted = 1}; }

static bool say(GpuModel *m, fusec_status s) {
    if (s != FUSEC_OK) fprintf(stderr, "%s %s: %s\n%s", m->name, m->arch, fusec_status_text(s), m->log);
    return s == FUSEC_OK;
}

static bool warm_up(Timed *t, int entry) {
    for (int i = 0; i < t->n; i++) {
        GpuModel *m = &t->copy[i];
        const fusec_cuda_call first = {.inputs = (const void *const *)m->inputs, .step = 1, .wanted = 1},
                              next = resident(2);
        fusec_status s = fusec_cuda_run(&m->cuda, entry, &first);
        if (s == FUSEC_OK) s = fusec_cuda_run(&m->cuda, entry, &next);
        if (s == FUSEC_OK) s = fusec_cuda_wait(&m->cuda);
        if (!say(m, s)) return false;
    }
    return true;
}

/* ---- whole calls ------------------------------------------------------------------------------------------------- */
/* `calls` calls of one model behind each other; milliseconds each. */
static fusec_status time_calls(GpuModel *m, int entry, int calls, float *ms) {
    fusec_cuda *c = &m->cuda;
    const fusec_cu_driver *d = &c->driver;
    void *event[2] = {NULL, NULL}, *context;
    fusec_status s = FUSEC_OK;
    int bad = d->cuCtxPushCurrent_v2(c->context) || d->cuEventCreate(&event[0], FUSEC_CU_EVENT_DEFAULT) ||
              d->cuEventCreate(&event[1], FUSEC_CU_EVENT_DEFAULT) || d->cuEventRecord(event[0], c->stream);
    for (int i = 0; i < calls && !bad && s == FUSEC_OK; i++) {
        const fusec_cuda_call call = resident(3 + i);
        s = fusec_cuda_run(c, entry, &call);
    }
    bad = bad || d->cuEventRecord(event[1], c->stream) || d->cuEventSynchronize(event[1]) ||
          d->cuEventElapsedTime(ms, event[0], event[1]);
    for (int i = 0; i < 2; i++)
        if (event[i]) (void)d->cuEventDestroy_v2(event[i]);
    (void)d->cuCtxPopCurrent_v2(&context);
    *ms /= (float)calls;
    return s == FUSEC_OK && bad ? FUSEC_E_DRIVER : s;
}

/* Seconds that one call takes, waiting included; 0 if it fails, which then shows where its times are wanted. */
static double seconds_of(GpuModel *m, int entry) {
    const double start = now();
    float ms;
    return time_calls(m, entry, 1, &ms) == FUSEC_OK ? now() - start : 0;
}

/* Where copies take turns, a run is a single call. */
static bool time_entry(Timed *t, int entry, double once) {
    const int calls = t->n > 1 ? 1 : (int)fmin(fmax(RUN_SECONDS / fmax(once, 1e-6), 1), MOST_CALLS);
    const int runs = t->n > 1 ? 4 * t->n + 1 : once > SLOW_SECONDS ? FEW_RUNS : RUNS;
    float ms[4 * COPIES + 1 > RUNS ? 4 * COPIES + 1 : RUNS];
    for (int i = 0; i < runs; i++) {
        GpuModel *m = &t->copy[i % t->n];
        if (!say(m, time_calls(m, entry, calls, &ms[i]))) return false;
    }
    printf("%s.%s.%s.call\t%.5g\tms\n", t->copy->name, t->copy->arch, entry_names[entry], (double)median(ms, runs));
    fflush(stdout);
    return true;
}

/* ---- single kernels ---------------------------------------------------------------------------------------------- */
/* Launches that run the same kernel, summed. */
static void print_kernels(const GpuModel *m, int entry, const float *ms) {
    const fusec_manifest *f = m->manifest;
    const fusec_entry *e = &f->entry[entry];
    double all = 0;
    for (uint32_t k = 0; k < f->n_kernels; k++) {
        double sum = 0;
        int count = 0;
        for (uint32_t i = 0; i < e->n_launches; i++)
            if (f->launches[e->first_launch + i].kernel == k && ms[i] > 0) sum += (double)ms[i], count++;
        if (!count) continue;
        all += sum;
        printf("%s.%s.%s.kernel.%s\t%.5g\tms\tlaunches %d, TFLOP/s %.3f, GB/s %.1f\n", m->name, m->arch,
               entry_names[entry], f->kernels[k].name, sum, count, f->kernels[k].flops * count / sum * 1e-9,
               f->kernels[k].bytes * count / sum * 1e-6);
    }
    printf("%s.%s.%s.kernels\t%.5g\tms\n", m->name, m->arch, entry_names[entry], all);
}

/* A kernel's time begins when the one before it has ended; if the host launches it later than that, the wait counts as its
 * own.  So there is a call under way, while launches queue up behind it. */
static fusec_status profile(GpuModel *m, int entry, bool busy, float *ms) {
    const fusec_cuda_call before = resident(2), call = resident(3);
    const fusec_status s = busy ? fusec_cuda_run(&m->cuda, entry, &before) : FUSEC_OK;
    return s == FUSEC_OK ? fusec_cuda_profile(&m->cuda, entry, &call, ms) : s;
}

static bool time_kernels(Timed *t, int entry, double once) {
    const uint32_t n = t->copy->manifest->entry[entry].n_launches;
    const int runs = once > SLOW_SECONDS ? FEW_RUNS : t->n > RUNS ? t->n : RUNS;
    float *all = calloc((size_t)n * (size_t)runs + 1, sizeof *all), *one = calloc(n + 1, sizeof *one),
          of_launch[COPIES + RUNS];
    bool ok = all && one;
    for (int r = 0; r < runs && ok; r++) {
        GpuModel *m = &t->copy[r % t->n];
        ok = say(m, profile(m, entry, once < BUSY_SECONDS, all + (size_t)r * n));
    }
    for (uint32_t i = 0; i < n && ok; i++) {
        for (int r = 0; r < runs; r++) of_launch[r] = all[(size_t)r * n + i];
        one[i] = median(of_launch, runs);
    }
    if (ok) print_kernels(t->copy, entry, one);
    free(all);
    free(one);
    return ok;
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */
static bool open_copies(Timed *t, const char *pack, const char *arch, const char *name, bool cubin) {
    const double start = now();
    if (!model_open(&t->copy[t->n++], pack, arch, name, cubin)) return false;
    printf("%s.%s.open\t%.4g\ts\n", name, arch, now() - start);
    const uint64_t bytes = t->copy->cuda.layout.bytes;
    printf("%s.%s.device_memory\t%.6g\tMiB\n", name, arch, (double)bytes / (1 << 20));
    const uint64_t wanted = bytes ? (BEYOND_CACHE + bytes - 1) / bytes : 1;
    while ((uint64_t)t->n < wanted && t->n < COPIES)
        if (!model_open(&t->copy[t->n++], pack, arch, name, cubin)) return false;
    return true;
}

bool model_time(const char *pack, const char *arch, const char *name, bool cubin, bool calls) {
    Timed t = {calloc(COPIES, sizeof *t.copy), 0};
    bool ok = t.copy && open_copies(&t, pack, arch, name, cubin);
    for (int e = FUSEC_INFER; e < FUSEC_ENTRIES && ok; e++) {
        if (!t.copy->manifest->entry[e].present) continue;
        ok = warm_up(&t, e);
        const double once = ok ? seconds_of(t.copy, e) : 0;
        ok = ok && (!calls || time_entry(&t, e, once)) && time_kernels(&t, e, once);
        fflush(stdout);
    }
    for (int i = 0; i < t.n; i++) model_close(&t.copy[i]);
    free(t.copy);
    return ok;
}
