/* fusec tune: the tiles of matrix products, measured on this machine's GPU.
 *
 * tune.c the command   tune_device.c the GPU   tune_measure.c one kernel's result and time */
#ifndef FUSEC_TOOLS_TUNE_H
#define FUSEC_TOOLS_TUNE_H
#include "ir/target.h"
#include "runtime/cuda/fusec_cuda.h"
#include "tools/fusec/profile_file.h"
#include "tools/ptxsim/ptxsim.h"

/* The GPU, whose context is kept while kernels come and go. */
typedef struct TuneDevice {
    fusec_cuda cuda; /* driver and context alone */
    char log[4096];
    char name[128], capability[16], driver[16];
    int major, minor;
    /* the software GPU has counters instead of time; NULL: it is a real one */
    void (*count)(int on);
    uint64_t (*kernels)(ptxsim_kernel *to, uint64_t room);
} TuneDevice;

bool tune_device_open(TuneDevice *d); /* false: d->log says why */
void tune_device_close(TuneDevice *d);
const char *tune_device_timer(const TuneDevice *d);  /* "events" or "counts" */
const char *tune_device_target(const TuneDevice *d); /* the best this device runs; NULL: none */

/* One product: its kernels' arguments, and what the first of them computed. */
typedef struct TuneCase {
    const Module *model;
    const Target *target;
    const TunedProduct *product;
    uint8_t *given, *result; /* all buffers, one after the other; result of the first kernel that ran */
    int64_t bytes;
    bool has_result;
} TuneCase;

bool tune_case_open(TuneCase *c, const Module *model, const Target *t, const TunedProduct *p); /* false: no memory */
void tune_case_close(TuneCase *c);
/* Runs one kernel: its microseconds, or the word that a profile has instead; *why (in a) explains the word. */
TileTime tune_measure(Arena *a, TuneDevice *d, TuneCase *c, const TileCandidate *x, const char **why);

#endif
