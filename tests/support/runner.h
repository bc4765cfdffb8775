/* Compiled models in a process of their own: a crash there, or a sanitizer's report, is a message here. */
#ifndef FUSEC_TESTS_RUNNER_H
#define FUSEC_TESTS_RUNNER_H
#include "ir/module.h"
#include "ir/module_run.h"
#include <sys/types.h>

/* A program built from tests/tools/c99_runner.c and models; what it prints to standard error goes to file `report`. */
typedef struct Runner {
    pid_t pid; /* 0: none */
    FILE *to, *from;
    const char *report;
} Runner;

/* Fails the test if the program cannot be started.  The caller ends with runner_stop. */
Runner runner_start(Arena *a, const char *program);
/* Runs entry e of model `program` (its place in the runner) on mem, with the memory that the module says it needs, to
 * the byte; mem then holds the results.  False with *error: the call was refused, an input was changed, or the process
 * has ended, then with its report. */
bool runner_call(Arena *a, Runner *r, int program, const Module *m, Entry e, const ModuleMemory *mem,
                 const int64_t *syms, const char **error);
/* Ends it; false if it did not end well.  For one that was never started: true. */
bool runner_stop(Runner *r);

#endif
