/* What the parts of the bench of the software GPU share. */
#pragma once
#include "tools/ptxsim/driver/cuda_api.h"
#include <stddef.h>
#include <stdint.h>

enum { THREADS = 256 }; /* of every block */

typedef struct Driver {
#define CUDA_EXPORT(name, since, symbol, need, kind, parameters, arguments) CUresult(*symbol) parameters;
#include "tools/ptxsim/driver/cuda_exports.def"
#undef CUDA_EXPORT
} Driver;
extern Driver cu;

_Noreturn void fail(const char *format, ...);
void must(CUresult, const char *what);
CUfunction load(CUmodule *, const char *text, const char *name);
CUdeviceptr upload(const void *data, size_t bytes); /* `data` NULL: not filled */

typedef struct Text { /* of a kernel; starts zeroed, the caller frees `data` */
    char *data;
    size_t used, size;
} Text;
__attribute__((format(printf, 2, 3))) void put(Text *, const char *format, ...);

typedef struct Figures {
    double seconds, instructions, memory; /* thread instructions, and those that touch memory, of one launch */
} Figures;
/* The median of some launches of gx by gy blocks, with `shared` bytes of dynamic shared memory, after one to warm up;
 * fails on a finding. */
Figures measure(CUfunction, unsigned gx, unsigned gy, unsigned shared, void **params);

/* ptxsim_matrix.c: wgmma and mma.sync, in floating-point operations per second. */
void matrix_instructions(void);
