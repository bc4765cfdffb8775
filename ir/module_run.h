/* Runs a module by interpreting its kernels: the debugging back end, and the reference the others are held to. */
#ifndef FUSEC_IR_MODULE_RUN_H
#define FUSEC_IR_MODULE_RUN_H
#include "ir/module.h"

/* One pointer per region, of the module's sizes; inputs and outputs one per tensor, dense at the bounds.
 * An output may be NULL: entry infer, and step of a model with lines, then skip the launches only it needs; others write to nothing. */
typedef struct ModuleMemory {
    void *params, *states, *grads, *arena;
    int32_t *scalars; /* SCALAR_HYPER0 + hypers, 4 bytes each */
    void **inputs, **outputs;
    uint32_t lines; /* entry step: bit l for each of Module.lines whose step it is; 0: all */
} ModuleMemory;

/* Does a call with these outputs (those that are not NULL) and lines need the launch? */
bool module_wants(const Module *m, Entry e, void *const *outputs, uint32_t lines, const Launch *l);

/* The arena starts poisoned: reading a byte no kernel has written is an error, as is every fault
 * kernel_run finds.  False with *error (in a) naming launch and kernel. */
bool module_run(Arena *a, const Module *m, Entry e, const ModuleMemory *mem, const int64_t *syms, const char **error);

#endif
