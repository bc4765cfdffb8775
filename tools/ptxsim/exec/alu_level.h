/* Instruction-set levels of the host: the arithmetic compiled for each, and the choice between them. */
#pragma once
#include "tools/ptxsim/exec/exec.h"

enum {
#define HANDLER(name) HANDLER_##name,
#include "tools/ptxsim/exec/alu.def"
    HANDLER_COUNT
};

typedef struct AluLevel {
    const char *name;
    ExecFn handler[HANDLER_COUNT];
    const struct MatrixKernels *matrix; /* matrix.h */
    const struct AccessKernels *access; /* access_level.h */
#define FINDER(name, parameters, arguments) ExecFn(*find_##name) parameters;
#include "tools/ptxsim/exec/alu.def"
} AluLevel;

/* The best level that the host has, at most the one that PTXSIM_ISA names (baseline, v3 or v4: the x86-64 levels). */
const AluLevel *alu_level(void);
