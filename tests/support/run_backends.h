/* Back ends as the oracle's TestRun: a module compiled, loaded and called as its users would. */
#ifndef FUSEC_TESTS_RUN_BACKENDS_H
#define FUSEC_TESTS_RUN_BACKENDS_H
#include "tests/support/oracle.h"

bool run_host(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms, const char **error);

#endif
