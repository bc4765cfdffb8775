/* Checked host code: it says what it is about to touch, by calls to functions of this process. */
#ifndef FUSEC_TESTS_INSTRUMENT_H
#define FUSEC_TESTS_INSTRUMENT_H
#include "codegen/host/host.h"

/* What checked code calls, on the thread that runs it.  enter and leave: a function begins and ends.  allocate: an array
 * of the function's stack, which holds nothing yet; nobody may touch the bytes beside it.  access: before it reads or
 * writes `bytes` at `at` + i * bytes, for every bit i that is set in lanes. */
typedef struct MemoryHooks {
    void (*enter)(const char *function);
    void (*leave)(void);
    void (*allocate)(void *at, int64_t bytes);
    void (*access)(const void *at, int64_t bytes, uint64_t lanes, int32_t writes);
} MemoryHooks;

/* HostInstrument.run, with MemoryHooks as `user`.  False with *error: the module holds an instruction that nothing here
 * knows the memory of. */
bool instrument_memory(const struct Emit *e, const void *hooks, char **error);

#endif
