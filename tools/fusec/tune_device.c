#include "runtime/cuda/cuda_internal.h"
#include "tools/fusec/tune.h"
#include <dlfcn.h>
#include <stdio.h>

enum { FIRST_DEVICE = 0 };

static bool ok(TuneDevice *d, int result, const char *what) {
    return fusec_cuda_check(&d->cuda, result, what) == FUSEC_OK;
}

static void describe_driver(TuneDevice *d) {
    int (*version)(int *) = NULL;
    int v = 0;
    *(void **)&version = dlsym(d->cuda.driver.library, "cuDriverGetVersion");
    if (version && version(&v) == 0)
        snprintf(d->driver, sizeof d->driver, "%d.%d", v / 1000, v % 1000 / 10);
    else
        snprintf(d->driver, sizeof d->driver, "unknown");
}

static bool describe(TuneDevice *d) {
    const fusec_cu_driver *cu = &d->cuda.driver;
    const int device = d->cuda.device;
    if (!ok(d, cu->cuDeviceGetName(d->name, sizeof d->name, device), "cuDeviceGetName") ||
        !ok(d, cu->cuDeviceGetAttribute(&d->major, FUSEC_CU_CAPABILITY_MAJOR, device), "cuDeviceGetAttribute") ||
        !ok(d, cu->cuDeviceGetAttribute(&d->minor, FUSEC_CU_CAPABILITY_MINOR, device), "cuDeviceGetAttribute"))
        return false;
    d->name[sizeof d->name - 1] = 0;
    snprintf(d->capability, sizeof d->capability, "%d.%d", d->major, d->minor);
    describe_driver(d);
    *(void **)&d->count = dlsym(cu->library, "ptxsimCount");
    *(void **)&d->kernels = dlsym(cu->library, "ptxsimKernels");
    return true;
}

bool tune_device_open(TuneDevice *d) {
    fusec_cuda *c = &d->cuda;
    int devices = 0;
    *d = (TuneDevice){0};
    c->log = d->log;
    c->log_bytes = sizeof d->log;
    if (fusec_cuda_open(c, NULL) != FUSEC_OK || !ok(d, c->driver.cuInit(0), "cuInit") ||
        !ok(d, c->driver.cuDeviceGetCount(&devices), "cuDeviceGetCount"))
        return false;
    if (!devices) fusec_cuda_say(c, "the driver finds no device\n");
    if (!devices || !ok(d, c->driver.cuDeviceGet(&c->device, FIRST_DEVICE), "cuDeviceGet") || !describe(d))
        return false;
    c->has_context = ok(d, c->driver.cuDevicePrimaryCtxRetain(&c->context, c->device), "cuDevicePrimaryCtxRetain");
    return c->has_context;
}

void tune_device_close(TuneDevice *d) {
    if (d->cuda.has_context) (void)d->cuda.driver.cuDevicePrimaryCtxRelease_v2(d->cuda.device);
    d->cuda.has_context = 0;
}

const char *tune_device_timer(const TuneDevice *d) { return d->count && d->kernels ? "counts" : "events"; }

/* sm_90a is code for capability 9.0 alone. */
const char *tune_device_target(const TuneDevice *d) {
    if (d->major == 9 && d->minor == 0) return "sm_90a";
    return d->major >= 9 ? "sm_90" : d->major == 8 ? "sm_80" : NULL;
}
