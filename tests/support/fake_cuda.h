/* A driver that keeps everything on the host, as unlike a quick one as its contract allows: work on a stream happens
 * when somebody waits for it, not before; memory starts poisoned; every call can be made to fail.  For one thread. */
#ifndef FUSEC_TESTS_FAKE_CUDA_H
#define FUSEC_TESTS_FAKE_CUDA_H
#include "runtime/cuda/cuda_driver.h"
#include <stdbool.h>

/* One entry per driver function, in the order of FUSEC_CU_FUNCTIONS. */
enum {
#define FAKE_INDEX(symbol, parameters) FAKE_##symbol,
    FUSEC_CU_FUNCTIONS(FAKE_INDEX)
#undef FAKE_INDEX
        FAKE_FUNCTIONS
};
extern const char *const fake_names[FAKE_FUNCTIONS];

/* A kernel: run once per launch, with one pointer per parameter and the size of the grid. */
typedef struct FakeKernel {
    const char *name;
    int n_addresses, n_integers; /* 8-byte parameters, then 4-byte ones */
    void (*run)(const void *user, void **params, unsigned programs);
    const void *user;
} FakeKernel;

typedef struct FakeCuda {
    const FakeKernel *kernels;        /* ended by a NULL name */
    int devices, capability;          /* 80: sm_80 */
    const char *jit_info, *jit_error; /* what cuModuleLoadDataEx logs; an error makes it fail */
    /* The fail_at-th call of function fail_function fails once; 0: none does. */
    int fail_function, fail_at, failed;
    int calls[FAKE_FUNCTIONS];
    int live;                                 /* objects and references that are not given back yet */
    int contexts;                             /* depth of the context stack */
    int edges;                                /* of all graphs made */
    int early;                                /* of these, programmatic ones */
    int refuses_edge, refuses_graph;          /* fake_cuGraphAddDependencies_v2: no such edge; no graph that has one */
    int misuse;                               /* calls out of order: no context, unknown handle, ... */
    int pageable;                             /* asynchronous copies of memory that is not pinned */
    uint64_t device_bytes, most_device_bytes; /* allocated now, and at most so far */
} FakeCuda;
extern FakeCuda fake;

/* The functions; `fake` is reset to no kernels, one device of sm_80. */
fusec_cu_driver fake_cuda_driver(void);
/* Optional: a driver has it where a test puts it into the table. */
int fake_cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to, const fusec_cu_edge *edges, size_t n);
/* Forgets everything, leaks included. */
void fake_cuda_reset(void);

#endif
