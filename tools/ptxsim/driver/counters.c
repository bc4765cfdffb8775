/* What is counted: calls between marks; printed at exit with PTXSIM_STATS=1, and with it the figures of stats.c. */
#include "tools/ptxsim/driver/driver.h"
#include "tools/ptxsim/exec/alu_level.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME = 64 };
#define EXPORTED __attribute__((visibility("default")))

ptxsim_counters counters;

/* ---- intervals ---------------------------------------------------------------------------------------- */
typedef struct Interval {
    char name[NAME];
    uint64_t times;
    ptxsim_counters sum;
    struct Interval *next;
} Interval;
static Interval *intervals; /* under the lock, in the order of their first end */
static char current_name[NAME];

static Interval *interval_of(const char *name) {
    Interval **link = &intervals;
    while (*link && strcmp((*link)->name, name) != 0) link = &(*link)->next;
    if (!*link) {
        *link = calloc(1, sizeof **link);
        if (*link) snprintf((*link)->name, NAME, "%s", name);
    }
    return *link;
}

static void interval_end(void) {
    Interval *i = interval_of(current_name);
    if (i) {
        i->times++;
#define PTXSIM_COUNTER(name, meaning) i->sum.name += counters.name;
#include "tools/ptxsim/driver/counters.def"
#undef PTXSIM_COUNTER
    }
    counters = (ptxsim_counters){0};
}

void counters_mark(const char *name) {
    interval_end();
    snprintf(current_name, sizeof current_name, "%s", name ? name : "");
}

CUresult sim_cuProfilerStart(void) {
    counters_mark("profiler");
    return CUDA_SUCCESS;
}
CUresult sim_cuProfilerStop(void) {
    counters_mark("");
    return CUDA_SUCCESS;
}

EXPORTED void ptxsimMark(const char *name) {
    driver_lock();
    counters_mark(name);
    driver_unlock();
}

EXPORTED void ptxsimCounters(ptxsim_counters *to) {
    driver_lock();
    *to = counters;
    driver_unlock();
}

EXPORTED uint64_t ptxsimFindings(void) { return reports_total(); }

CUresult sim_ptxsim_findings(uint64_t *count) {
    *count = reports_total();
    return CUDA_SUCCESS;
}

CUresult sim_ptxsim_isa(const char **name) {
    *name = alu_level()->name;
    return CUDA_SUCCESS;
}

static uint64_t all_instructions[CLASS_COUNT]; /* under the lock */

void instructions_add(const Counters *c) {
    for (int k = 0; k < CLASS_COUNT; k++) all_instructions[k] += c->kind[k];
}

CUresult sim_ptxsim_instructions(uint64_t *kind) {
    memcpy(kind, all_instructions, sizeof all_instructions);
    return CUDA_SUCCESS;
}

/* ---- at exit --------------------------------------------------------------------------------------------- */
static void print_intervals(bool print) {
    for (Interval *i = intervals, *next; i; i = next) {
        if (print) {
            fprintf(stderr, "ptxsim: driver: interval \"%s\" times=%" PRIu64, i->name, i->times);
#define PTXSIM_COUNTER(name, meaning) fprintf(stderr, " " #name "=%" PRIu64, i->sum.name);
#include "tools/ptxsim/driver/counters.def"
#undef PTXSIM_COUNTER
            fputc('\n', stderr);
        }
        next = i->next;
        free(i);
    }
    intervals = NULL;
}

void report_leak(const char *what, uint64_t address, uint64_t bytes) {
    char note[96];
    if (check_level(REPORT_LEAK) == CHECK_OFF) return;
    snprintf(note, sizeof note, "%s still held when its owner ends", what);
    report_driver(REPORT_LEAK, address, bytes, note);
}

__attribute__((destructor)) static void at_exit(void) {
    const char *stats = getenv("PTXSIM_STATS");
    const bool print = stats && *stats == '1';
    contexts_at_exit();
    interval_end();
    print_intervals(print);
    stats_at_exit();
}
