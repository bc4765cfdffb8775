/* What runs a compiled module: one table of functions per way, one file each (executor_NAME.c). */
#ifndef FUSEC_TOOLS_EXECUTOR_H
#define FUSEC_TOOLS_EXECUTOR_H
#include "ir/module.h"

/* Arrays by the module's order, dense at the bounds; outputs[i] may be NULL in entry infer. */
typedef struct ExecutorCall {
    Entry entry;
    bool accumulate; /* grad: add to the gradients that are there */
    uint32_t lines;  /* step: bit l for each of Module.lines whose step it is; 0: all */
    void **inputs, **outputs;
    const float *hypers; /* one each */
    int32_t step;        /* from 1 */
    uint32_t seed;
    const int32_t *syms; /* run-time extents, one each */
} ExecutorCall;

/* Entry, lines and accumulation as MODEL_run takes them. */
static inline int executor_entry(const ExecutorCall *c) {
    return (int)c->entry | (c->accumulate ? FUSEC_ACCUMULATE : 0) | (int)(c->lines << 16);
}

typedef struct ExecutorOptions {
    const char *arch; /* cuda: "sm_80"; host: the CPU; NULL: what this machine has */
    const char *ptx;  /* cuda: the module's code for `arch`, where it is made already; else NULL */
    int threads;      /* 0: all cores */
    bool check_finite;
} ExecutorOptions;

typedef struct ExecutorKind {
    const char *name;
    /* The target to compile for; `arch` may choose among several.  NULL: no such arch. */
    const char *(*target)(const char *arch);
    /* NULL with *error (in a). The module must outlive it. */
    void *(*open)(Arena *a, const Module *m, const ExecutorOptions *o, const char **error);
    /* `memory`: host memory of the module's sizes, arena for the entry. */
    bool (*run)(void *self, const fusec_memory *memory, const ExecutorCall *c, const char **error);
    /* Moves parameters, states and gradients to the device and back; NULL where memory is the host's. */
    bool (*upload)(void *self, const fusec_memory *memory, const char **error);
    bool (*download)(void *self, const fusec_memory *memory, const char **error);
    void (*close)(void *self);
} ExecutorKind;

extern const ExecutorKind executor_host, executor_c99, executor_cuda, executor_interp;
const ExecutorKind *executor_find(const char *name); /* NULL if unknown */

#endif
