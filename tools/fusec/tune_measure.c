/* One kernel by itself: a module of that kernel alone, whose buffers are parameters, run by the runtime that ships.
 *
 * Time is that of events around each launch, the median of several; before, it ran once.  Launches take turns on copies
 * of the buffers that are together larger than the L2 cache.  On the software GPU it runs once, and its figure is the
 * least time that the counters allow (tools/ptxsim/command/roofline.h). */
#include "codegen/nvptx/nvptx.h"
#include "tools/fusec/array.h"
#include "tools/fusec/manifest.h"
#include "tools/fusec/tune.h"
#include "tools/ptxsim/command/roofline.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = FUSEC_CUDA_ALIGN,
    LOG_BYTES = 16384,
    MOST_COPIES = 64,
    CHUNK = 1024,    /* elements converted at a time */
    CACHE = 1 << 28, /* bytes that no L2 cache holds */
    LEAST_TIMES = 9,
    MOST_TIMES = 200
};
static const double ENOUGH_MS = 20; /* of measured time */

/* ---- buffers ----------------------------------------------------------------------------------------------------- */
static int64_t elements_of(const Buffer *b) {
    int64_t n = 1;
    for (int d = 0; d < b->rank; d++)
        if (b->dim[d].bound > 0) n += (b->dim[d].bound - 1) * b->stride[d];
    return n;
}
static int64_t bytes_of(const Buffer *b) {
    return (elements_of(b) * dtype_bytes(b->dtype) + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t all_bytes(const Kernel *k) {
    int64_t sum = 0;
    for (int b = 0; b < k->buffers.n; b++) sum += bytes_of(&k->buffers.at[b]);
    return sum;
}

/* Floats in [-1, 1); whole numbers are 0, which every index may be, single ones (a step, a counter) 1; results 0. */
static void fill(const Buffer *b, uint8_t *to) {
    const int64_t n = elements_of(b);
    uint64_t random = 1 + (uint64_t)b->rank;
    double v[CHUNK];
    int64_t bad;
    if (b->written) return;
    for (int64_t at = 0; at < n; at += CHUNK) {
        const int64_t part = n - at < CHUNK ? n - at : CHUNK;
        for (int64_t i = 0; i < part; i++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            v[i] = dtype_is_float(b->dtype) ? (double)(random >> 40) / (1 << 23) - 1 : b->rank == 0;
        }
        if (b->dtype == DT_BOOL)
            memset(to + at, 1, (size_t)part);
        else
            element_convert(ELEMENT_F64, (const uint8_t *)v, part, b->dtype, to + at * dtype_bytes(b->dtype), &bad);
    }
}

bool tune_case_open(TuneCase *c, const Module *model, const Target *t, const TunedProduct *p) {
    const Kernel *k = p->candidates.at[0].kernel;
    *c = (TuneCase){.model = model, .target = t, .product = p, .bytes = all_bytes(k)};
    c->given = calloc((size_t)c->bytes + 1, 1);
    c->result = calloc((size_t)c->bytes + 1, 1);
    if (!c->given || !c->result) return false;
    int64_t at = 0;
    for (int b = 0; b < k->buffers.n; at += bytes_of(&k->buffers.at[b++])) fill(&k->buffers.at[b], c->given + at);
    return true;
}

void tune_case_close(TuneCase *c) {
    free(c->given);
    free(c->result);
    c->given = c->result = NULL;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
/* What two orders of summation may differ by, of the largest element: two units in the last place of a low type, and
 * f32's growth over long sums. */
static double tolerance(DType t) { return t == DT_BF16 ? 0x1p-7 : t == DT_F16 ? 0x1p-10 : 1e-4; }

static bool agrees(const Buffer *b, const uint8_t *x, const uint8_t *y) {
    const int64_t n = elements_of(b), bytes = dtype_bytes(b->dtype);
    const Element e = element_of(b->dtype);
    double largest = 0, differ = 0;
    if (!dtype_is_float(b->dtype)) return !memcmp(x, y, (size_t)(n * bytes));
    for (int64_t i = 0; i < n; i++) {
        const double p = element_get(e, x + i * bytes), q = element_get(e, y + i * bytes);
        if (isnan(p) != isnan(q)) return false;
        if (p == q || isnan(p)) continue;
        differ = fmax(differ, fabs(p - q)); /* infinite against finite */
    }
    for (int64_t i = 0; i < n && differ > 0; i++) {
        const double p = element_get(e, x + i * bytes);
        if (isfinite(p)) largest = fmax(largest, fabs(p));
    }
    return differ <= tolerance(b->dtype) * largest;
}

/* The first result is what the others are compared with. */
static bool check(TuneCase *c, const Kernel *k, const uint8_t *got) {
    int64_t at = 0;
    if (!c->has_result) memcpy(c->result, got, (size_t)c->bytes);
    c->has_result = true;
    for (int b = 0; b < k->buffers.n; at += bytes_of(&k->buffers.at[b++]))
        if (k->buffers.at[b].written && !agrees(&k->buffers.at[b], c->result + at, got + at)) return false;
    return true;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */
static void add_launch(Arena *a, Module *m, const TuneCase *c, const Kernel *k, int64_t at) {
    Launch l = {.wanted_by = FUSEC_ALWAYS};
    memcpy(l.constant, c->product->constant, sizeof l.constant);
    l.args = ARENA_ARRAY(a, LaunchArg, k->buffers.n);
    for (int b = 0; b < k->buffers.n; at += bytes_of(&k->buffers.at[b++]))
        l.args[l.n_args++] = (LaunchArg){REGION_PARAM, 0, at, 0};
    vec_push(a, m->entry[ENTRY_INFER].launches, l);
}

static Module *module_of(Arena *a, const TuneCase *c, Kernel *k, int copies) {
    Module *m = ARENA_NEW(a, Module);
    *m = (Module){.arena = a, .name = "tune", .source = "", .align = ALIGN, .param_bytes = c->bytes * copies};
    for (int s = 0; s < c->model->syms.n; s++) vec_push(a, m->syms, c->model->syms.at[s]);
    vec_push(a, m->kernels, k);
    m->entry[ENTRY_INFER].present = true;
    for (int i = 0; i < copies; i++) add_launch(a, m, c, k, i * c->bytes);
    return m;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */
static int by_value(const void *x, const void *y) {
    const float a = *(const float *)x, b = *(const float *)y;
    return (a > b) - (a < b);
}

/* The median of launches, in microseconds; 0 after a failure. */
static double timed(Arena *a, fusec_cuda *cuda, int copies, fusec_status *s) {
    const fusec_cuda_call call = {.step = 1};
    float *ms = ARENA_ARRAY(a, float, MOST_TIMES + MOST_COPIES);
    double sum = 0;
    int n = 0;
    while (n < MOST_TIMES && (n < LEAST_TIMES || sum < ENOUGH_MS)) {
        *s = fusec_cuda_profile(cuda, ENTRY_INFER, &call, ms + n);
        if (*s != FUSEC_OK) return 0;
        for (int i = 0; i < copies; i++) sum += ms[n++];
    }
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    return 1e3 * ms[n / 2];
}

static double counted(const TuneDevice *d, const Target *t) {
    ptxsim_kernel k;
    double seconds[BOUNDS];
    if (d->kernels(&k, 1) != 1) return 0;
    const Counters c = {
#define COUNTER(name, meaning) .name = k.name,
#include "tools/ptxsim/ptx/counters.def"
#undef COUNTER
    };
    return 1e6 * seconds[roofline(&c, t, seconds)];
}

typedef struct Trial {
    fusec_cuda cuda;
    char log[LOG_BYTES];
    uint8_t *got;
    int copies;
} Trial;

static fusec_status run(Arena *a, TuneDevice *d, TuneCase *c, const Kernel *k, Trial *x, TileTime *out) {
    const fusec_cuda_call call = {.step = 1};
    fusec_status s = FUSEC_OK;
    for (int i = 0; i < x->copies && s == FUSEC_OK; i++)
        s = fusec_cuda_write(&x->cuda, FUSEC_R_PARAM, (uint64_t)(i * c->bytes), c->given, (uint64_t)c->bytes);
    if (d->count) d->count(1);
    if (s == FUSEC_OK) s = fusec_cuda_run(&x->cuda, ENTRY_INFER, &call);
    if (s == FUSEC_OK) s = fusec_cuda_read(&x->cuda, FUSEC_R_PARAM, 0, x->got, (uint64_t)c->bytes);
    if (s == FUSEC_OK) out->us = d->count ? counted(d, c->target) : timed(a, &x->cuda, x->copies, &s);
    if (d->count) d->count(0);
    if (s == FUSEC_OK && !check(c, k, x->got)) out->word = "wrong";
    return s;
}

TileTime tune_measure(Arena *a, TuneDevice *d, TuneCase *c, const TileCandidate *x, const char **why) {
    TileTime t = {.tile = x->tile};
    const int64_t copies = d->count ? 1 : (CACHE + c->bytes - 1) / c->bytes;
    Trial trial = {.copies = copies > MOST_COPIES ? MOST_COPIES : (int)copies,
                   .got = arena_alloc(a, (size_t)c->bytes + 1)};
    const Module *m = module_of(a, c, x->kernel, trial.copies);
    const fusec_manifest *manifest = manifest_of(a, m);
    char *ptx = NULL, *error = NULL;
    *why = "";
    if (!manifest || !nvptx_emit_ptx(m, &(NvptxOptions){.arch = c->target->name}, &ptx, &error)) {
        *why = error ? arena_strdup(a, error) : "its grid has too many axes";
        free(error);
        t.word = "refused";
        return t;
    }
    const fusec_cuda_options options = {.log = trial.log, .log_bytes = sizeof trial.log};
    fusec_status s = fusec_cuda_init(&trial.cuda, manifest, &(fusec_cuda_image){.data = ptx}, &options);
    if (s != FUSEC_OK) t.word = "refused";
    if (s == FUSEC_OK) s = run(a, d, c, x->kernel, &trial, &t);
    if (s != FUSEC_OK && !t.word) t.word = "failed";
    if (s != FUSEC_OK) *why = arena_printf(a, "%s %s", fusec_status_text(s), trial.log);
    if (t.word && !strcmp(t.word, "wrong")) *why = "its result is not that of the first tile";
    fusec_cuda_free(&trial.cuda);
    free(ptx);
    return t;
}
