/* Runs jobs on the first device of libcuda.so.1, in a process of its own: an instruction that faults or hangs takes
 * the process with it, not the run. */
#ifndef FUSEC_CALIBRATE_DEVICE_H
#define FUSEC_CALIBRATE_DEVICE_H
#include "bench/gpu/calibrate/job.h"

typedef struct DeviceName {
    char name[96]; /* one word */
    int32_t major, minor, driver;
} DeviceName;

typedef enum Outcome {
    OUTCOME_NONE, /* it was not reached */
    OUTCOME_DONE,
    OUTCOME_REFUSED, /* the driver takes no such PTX, or no such tensor map */
    OUTCOME_FAILED   /* the kernel faulted, or did not end */
} Outcome;

enum { WHY = 120 };

/* Called once for each job, in order; `out` only if done. */
typedef void OnJob(void *user, int job, Outcome outcome, const char *why, const uint8_t *out);

/* False: there is no device, and `why` says it.  Stops when `seconds` have passed. */
bool device_run(const Jobs *jobs, int seconds, DeviceName *device, char why[WHY], OnJob *on_job, void *user);

#endif
