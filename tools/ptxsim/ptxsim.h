/* What the software GPU tells a program that knows it: found with dlsym in the library that serves as libcuda.so.1.
 * Counters run between marks; a mark begins a new interval.  cuProfilerStart and cuProfilerStop are marks "profiler"
 * and
 * "" for programs that do not know it.  With PTXSIM_STATS=1 every interval is printed at exit, intervals of one name
 * summed. */
#ifndef PTXSIM_H
#define PTXSIM_H
#include <stdint.h>

typedef struct ptxsim_counters {
#define PTXSIM_COUNTER(name, meaning) uint64_t name;
#include "tools/ptxsim/driver/counters.def"
#undef PTXSIM_COUNTER
} ptxsim_counters;

/* Begins an interval; `name` is copied (at most 63 bytes), NULL is "". */
void ptxsimMark(const char *name);
/* What has happened since the last mark, or since the start. */
void ptxsimCounters(ptxsim_counters *);
/* Objects that are held now (contexts, modules, streams, events, graphs, their executables, pools), allocations of
 * device memory and of pinned or registered host memory among them. */
uint64_t ptxsimLive(void);
/* Findings of every kind, printed so far. */
uint64_t ptxsimFindings(void);

/* In later launches of kernels of this name only these blocks of the grid run (clusters, where it has them): n linear
 * numbers, ascending, copied; n 0: all again.  As under PTXSIM_CROP all of global memory then counts as written, and where
 * that is set too, a kernel runs once per grid and seed.  A launch whose grid lacks one fails (CUDA_ERROR_INVALID_VALUE).
 * Returns 0 without memory. */
int ptxsimBlocks(const char *kernel, const uint64_t *block, uint64_t n);
/* How many of them have run since. */
uint64_t ptxsimBlocksRun(const char *kernel);

/* Figures of a kernel, of all its launches since counting began. */
typedef struct ptxsim_kernel {
    const char *name;
    uint64_t launches;
#define COUNTER(name, meaning) uint64_t name;
#include "tools/ptxsim/ptx/counters.def"
#undef COUNTER
} ptxsim_kernel;
/* Forgets the figures; kernels launched from now on are counted (or no longer).  PTXSIM_STATS=1 and PTXSIM_STATS_FILE
 * count from the start. */
void ptxsimCount(int on);
/* Fills at most `room`, in the order of first launches; returns how many there are.  Names are valid until ptxsimCount.
 */
uint64_t ptxsimKernels(ptxsim_kernel *to, uint64_t room);
#endif
