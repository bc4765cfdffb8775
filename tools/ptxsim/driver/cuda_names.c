/* Error names, symbol look-up, and the figures printed at exit. */
#include "tools/ptxsim/driver/driver.h"
#include "tools/ptxsim/exec/alu_level.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct { CUresult value; const char *name, *text; } RESULTS[] = {
#define CUDA_RESULT(name, value, text) {name, #name, text},
#include "tools/ptxsim/driver/cuda_errors.def"
#undef CUDA_RESULT
};

CUresult cuGetErrorName(CUresult r, const char **name) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = NULL;
    for (size_t k = 0; k < sizeof RESULTS / sizeof *RESULTS; k++)
        if (RESULTS[k].value == r) *name = RESULTS[k].name;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult r, const char **text) {
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    for (size_t k = 0; k < sizeof RESULTS / sizeof *RESULTS; k++)
        if (RESULTS[k].value == r) *text = RESULTS[k].text;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

typedef void (*AnyFunction)(void);
static const struct { const char *name; int since; AnyFunction fn; } SYMBOLS[] = {
#define CUDA_EXPORT(name, since, symbol, parameters) {#name, since, (AnyFunction)symbol},
#include "tools/ptxsim/driver/cuda_exports.def"
#undef CUDA_EXPORT
};

/* The newest form of a function that a program built for `version` knows. */
CUresult cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, int *status) {
    enum { FOUND, NOT_FOUND, VERSION_TOO_NEW };
    int best = -1, state = NOT_FOUND;
    (void)flags;
    if (!name || !fn) return CUDA_ERROR_INVALID_VALUE;
    *fn = NULL;
    for (size_t k = 0; k < sizeof SYMBOLS / sizeof *SYMBOLS; k++) {
        if (strcmp(SYMBOLS[k].name, name) != 0) continue;
        if (state == NOT_FOUND) state = VERSION_TOO_NEW;
        if (SYMBOLS[k].since > version || SYMBOLS[k].since < best) continue;
        best = SYMBOLS[k].since;
        state = FOUND;
        memcpy(fn, &SYMBOLS[k].fn, sizeof *fn);
    }
    if (status) *status = state;
    return state == FOUND ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, fn, version, flags, NULL);
}

CUresult ptxsim_findings(uint64_t *count) {
    *count = reports_total();
    return CUDA_SUCCESS;
}

CUresult ptxsim_isa(const char **name) {
    *name = alu_level()->name;
    return CUDA_SUCCESS;
}

/* ---- figures ------------------------------------------------------------------------------------------ */
static uint64_t all_instructions[CLASS_COUNT]; /* under the driver's lock */

void instructions_add(const Counters *c) {
    for (int k = 0; k < CLASS_COUNT; k++) all_instructions[k] += c->kind[k];
}

CUresult ptxsim_instructions(uint64_t *kind) {
    memcpy(kind, all_instructions, sizeof all_instructions);
    return CUDA_SUCCESS;
}

typedef struct KernelStats {
    char name[128];
    uint64_t launches;
    Counters count;
    struct KernelStats *next;
} KernelStats;
static KernelStats *all_stats; /* under the driver's lock */

void stats_add(const char *kernel, const Counters *c) {
    KernelStats *s = all_stats;
    while (s && strncmp(s->name, kernel, sizeof s->name - 1) != 0) s = s->next;
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s) return;
        snprintf(s->name, sizeof s->name, "%s", kernel);
        s->next = all_stats;
        all_stats = s;
    }
    s->launches++;
    s->count.thread_instructions += c->thread_instructions;
    s->count.warp_instructions += c->warp_instructions;
    s->count.load_bytes += c->load_bytes;
    s->count.store_bytes += c->store_bytes;
    s->count.load_sectors += c->load_sectors;
    s->count.store_sectors += c->store_sectors;
    s->count.shared_accesses += c->shared_accesses;
    s->count.shared_conflicts += c->shared_conflicts;
    s->count.barriers += c->barriers;
}

__attribute__((destructor)) static void stats_print(void) {
    for (KernelStats *s = all_stats, *next; s; s = next) {
        const Counters *c = &s->count;
        fprintf(stderr,
                "ptxsim: stats: %s launches=%" PRIu64 " thread_instructions=%" PRIu64 " warp_instructions=%" PRIu64
                " load_bytes=%" PRIu64 " load_sectors=%" PRIu64 " store_bytes=%" PRIu64 " store_sectors=%" PRIu64
                " shared_accesses=%" PRIu64 " shared_conflicts=%" PRIu64 " barriers=%" PRIu64 "\n",
                s->name, s->launches, c->thread_instructions, c->warp_instructions, c->load_bytes, c->load_sectors,
                c->store_bytes, c->store_sectors, c->shared_accesses, c->shared_conflicts, c->barriers);
        next = s->next;
        free(s);
    }
    all_stats = NULL;
}
