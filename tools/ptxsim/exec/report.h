/* What the checks find.  One finding per kind and PTX line is kept, that of the lowest block and thread, with a count,
 * so that the text does not depend on how the host's cores raced. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum ReportKind {
#define REPORT(name, text, status, level, meaning) REPORT_##name,
#include "tools/ptxsim/exec/report.def"
#undef REPORT
    REPORT_KINDS
} ReportKind;

/* What becomes of a finding: not looked for; printed and counted; it fails the launch too.  PTXSIM_CHECKS is a list of
 * KIND=off, KIND=report, KIND=error and -KIND (off), `all` for every kind; later ones win over earlier ones. */
typedef enum CheckLevel { CHECK_OFF, CHECK_REPORT, CHECK_ERROR } CheckLevel;
CheckLevel check_level(ReportKind);

typedef struct Report {
    ReportKind kind;
    char function[128];
    int line;
    uint32_t block[3], thread[3];
    uint64_t order;   /* block and thread, linear: the lowest is kept */
    uint64_t address;
    int bytes;
    char note[224];
    uint64_t count;
} Report;

enum { MAX_REPORTS = 256 };
typedef struct ReportSet {
    pthread_mutex_t lock;
    Report item[MAX_REPORTS];
    int count;
} ReportSet;

void reports_init(ReportSet *);
void reports_add(ReportSet *, const Report *);
/* Prints to stderr and appends to the file that PTXSIM_REPORT names; the CUDA status of the gravest that is an
 * error, 0 if none. */
int reports_flush(ReportSet *);
/* A finding of the driver itself (leak, double free). */
void report_driver(ReportKind, uint64_t address, uint64_t bytes, const char *note);
/* Findings printed so far by this process. */
uint64_t reports_total(void);
/* Bit k: kind k is looked for, its level is not CHECK_OFF. */
uint32_t checks_enabled(void);
