/* The driver's own state.  One lock serialises every call: work runs when it is submitted, on the calling thread. */
#pragma once
#include "tools/ptxsim/driver/cuda_api.h"
#include "tools/ptxsim/exec/exec.h"

typedef struct DeviceSpec {
    const char *word, *name; /* PTXSIM_DEVICE, cuDeviceGetName */
    int capability;          /* 80, 90 */
    uint64_t memory;
    int sm_count, shared_block, shared_optin, shared_sm, threads_sm, blocks_sm, l2_bytes;
} DeviceSpec;

struct CUfunc_st {
    CUmodule module;
    const Function *fn;
    int max_dynamic; /* of shared memory; -1: what the default limit leaves */
    struct CUfunc_st *next;
};

struct CUmod_st {
    CUcontext context;
    Module *module;
    struct CUfunc_st *functions;
    CUdeviceptr *variables;
    size_t variable_count, variable_capacity;
    struct CUmod_st *next;
};

struct CUctx_st {
    uint64_t magic;
    DeviceMemory memory;
    CUmodule modules;
    CUresult failed; /* sticky: the first kernel failure */
    int primary_uses;
    struct CUctx_st *next;
};

void driver_lock(void);
void driver_unlock(void);
const DeviceSpec *driver_device(void);
/* The calling thread's context under the lock; NULL (and unlocked) with *why set otherwise. */
CUcontext driver_enter(CUresult *why);
CUresult driver_leave(CUresult);
bool driver_ready(void);
bool context_valid(CUcontext);

/* A copy of a function's parameters in one block, from either form of the launch arguments; NULL when they misfit. */
uint8_t *launch_params(CUfunction, void **params, void **extra, CUresult *why);
/* Checks limits and runs; under the lock. */
CUresult launch_grid(CUcontext, CUfunction, const uint32_t grid[3], const uint32_t block[3], uint32_t shared,
                     const uint8_t *params);
CUresult copy_to_device(CUcontext, CUdeviceptr, const void *, size_t);
CUresult copy_to_host(CUcontext, void *, CUdeviceptr, size_t);
CUresult copy_on_device(CUcontext, CUdeviceptr, CUdeviceptr, size_t);
CUresult fill_device(CUcontext, CUdeviceptr, uint32_t value, int bytes, size_t count);
/* Adds a launch to the figures that PTXSIM_STATS prints at exit. */
void stats_add(const char *kernel, const Counters *);
void instructions_add(const Counters *);
