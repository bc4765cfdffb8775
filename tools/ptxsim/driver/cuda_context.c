/* Devices, contexts, and the lock. */
#include "tools/ptxsim/driver/driver.h"
#include <stdio.h>
#include <stdlib.h>

enum { STACK = 32 };
#define CONTEXT_MAGIC UINT64_C(0x70747873696d4354)

static const DeviceSpec DEVICES[] = {
    {"sm_90", "ptxsim sm_90", 90, UINT64_C(80) << 30, 132, 49152, 232448, 233472, 2048, 32, 50 << 20},
    {"sm_80", "ptxsim sm_80", 80, UINT64_C(40) << 30, 108, 49152, 166912, 167936, 2048, 32, 40 << 20},
};

/* The driver is one per process by its ABI: this is its state. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { bool ready; CUcontext contexts, primary; } driver;
static _Thread_local struct { CUcontext item[STACK]; int depth; } current;

void driver_lock(void) { pthread_mutex_lock(&lock); }
void driver_unlock(void) { pthread_mutex_unlock(&lock); }
bool driver_ready(void) { return driver.ready; }

/* NULL when PTXSIM_DEVICE names no device of the table. */
static const DeviceSpec *find_device(void) {
    const char *word = getenv("PTXSIM_DEVICE");
    for (size_t k = 0; word && k < sizeof DEVICES / sizeof *DEVICES; k++)
        if (strcmp(DEVICES[k].word, word) == 0) return &DEVICES[k];
    return word && *word ? NULL : &DEVICES[0];
}

const DeviceSpec *driver_device(void) {
    const DeviceSpec *d = find_device();
    return d ? d : &DEVICES[0]; /* cuInit has refused a wrong name */
}

static uint64_t device_memory(void) {
    const char *text = getenv("PTXSIM_MEMORY");
    const uint64_t bytes = text ? strtoull(text, NULL, 0) : 0;
    return bytes ? bytes : driver_device()->memory;
}

bool context_valid(CUcontext c) {
    for (CUcontext k = driver.contexts; k; k = k->next)
        if (k == c) return true;
    return false;
}

CUcontext driver_enter(CUresult *why) {
    driver_lock();
    CUcontext c = current.depth ? current.item[current.depth - 1] : NULL;
    *why = CUDA_SUCCESS;
    if (!driver.ready) *why = CUDA_ERROR_NOT_INITIALIZED;
    else if (!c || !context_valid(c)) *why = CUDA_ERROR_INVALID_CONTEXT;
    else if (c->failed) *why = c->failed;
    if (!*why) return c;
    driver_unlock();
    return NULL;
}

CUresult driver_leave(CUresult r) {
    driver_unlock();
    return r;
}

/* ---- devices ------------------------------------------------------------------------------------------ */
CUresult cuInit(unsigned flags) {
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (!find_device()) return CUDA_ERROR_NO_DEVICE;
    driver_lock();
    driver.ready = true;
    return driver_leave(CUDA_SUCCESS);
}

CUresult cuDriverGetVersion(int *version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = 12080;
    return CUDA_SUCCESS;
}

static CUresult check_device(CUdevice d) {
    return !driver.ready ? CUDA_ERROR_NOT_INITIALIZED : d != 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    const CUresult r = check_device(ordinal);
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!r) *device = 0;
    return r;
}

CUresult cuDeviceGetCount(int *count) {
    if (!driver.ready) return CUDA_ERROR_NOT_INITIALIZED;
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
    const CUresult r = check_device(device);
    if (!name || bytes < 1) return CUDA_ERROR_INVALID_VALUE;
    if (!r) snprintf(name, (size_t)bytes, "%s", driver_device()->name);
    return r;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    const CUresult r = check_device(device);
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    *uuid = (CUuuid){"ptxsim"};
    return r;
}
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

/* Attribute numbers of CUdevice_attribute; what is not listed reads 0, as "not supported". */
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    const CUresult r = check_device(device);
    if (!value || attribute < 1) return CUDA_ERROR_INVALID_VALUE;
    if (r) return r;
    const DeviceSpec *d = driver_device();
    const struct { int attribute, value; } TABLE[] = {
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, d->shared_block},
        {9, 65536}, {10, 32}, {11, 2147483647}, {12, 65536}, {13, 1700000}, {14, 512}, {15, 1}, {16, d->sm_count},
        {19, 1}, {31, 1}, {35, 1}, {36, 2600000}, {37, 5120}, {38, d->l2_bytes}, {39, d->threads_sm}, {40, 2}, {41, 1},
        {75, d->capability / 10}, {76, d->capability % 10}, {78, 1}, {79, 1}, {80, 1}, {81, d->shared_sm}, {82, 65536},
        {95, 1}, {97, d->shared_optin}, {106, d->blocks_sm}, {111, 1024}};
    *value = 0;
    for (size_t k = 0; k < sizeof TABLE / sizeof *TABLE; k++)
        if (TABLE[k].attribute == attribute) *value = TABLE[k].value;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    const CUresult r = check_device(device);
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!r) *bytes = device_memory();
    return r;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    const CUresult r = check_device(device);
    if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
    if (r) return r;
    *major = driver_device()->capability / 10;
    *minor = driver_device()->capability % 10;
    return CUDA_SUCCESS;
}

/* ---- contexts ----------------------------------------------------------------------------------------- */
static CUcontext context_new(void) {
    CUcontext c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->magic = CONTEXT_MAGIC;
    c->memory.total = device_memory();
    c->next = driver.contexts;
    driver.contexts = c;
    return c;
}

static void module_release(CUmodule m) {
    for (CUfunction f = m->functions, next; f; f = next) {
        next = f->next;
        free(f);
    }
    module_free(m->module);
    free(m->variables);
    free(m);
}

static void context_delete(CUcontext c) {
    CUcontext *link = &driver.contexts;
    while (*link != c) link = &(*link)->next;
    *link = c->next;
    for (size_t k = 0; k < c->memory.count; k++) {
        const Allocation *a = c->memory.item[k];
        if (!a->module) report_driver(REPORT_LEAK, a->address, a->bytes, "still allocated when its context ends");
    }
    for (CUmodule m = c->modules, next; m; m = next) {
        next = m->next;
        module_release(m);
    }
    memory_clear(&c->memory);
    if (driver.primary == c) driver.primary = NULL;
    free(c);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    const CUresult r = check_device(device);
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (r) return r;
    driver_lock();
    if (!driver.primary) driver.primary = context_new();
    if (driver.primary) driver.primary->primary_uses++;
    *context = driver.primary;
    return driver_leave(driver.primary ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    const CUresult r = check_device(device);
    if (r) return r;
    driver_lock();
    if (!driver.primary) return driver_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--driver.primary->primary_uses == 0) context_delete(driver.primary);
    return driver_leave(CUDA_SUCCESS);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    const CUresult r = check_device(device);
    if (r) return r;
    driver_lock();
    if (driver.primary) context_delete(driver.primary);
    return driver_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    const CUresult r = check_device(device);
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    *flags = 0;
    *active = driver.primary != NULL;
    return r;
}

static CUresult push(CUcontext c) {
    if (current.depth == STACK) return CUDA_ERROR_OUT_OF_MEMORY;
    current.item[current.depth++] = c;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    const CUresult r = check_device(device);
    (void)flags;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (r) return r;
    driver_lock();
    *context = context_new();
    return driver_leave(*context ? push(*context) : CUDA_ERROR_OUT_OF_MEMORY);
}
CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned flags, CUdevice device) {
    return affinity || count ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(context, flags, device);
}
CUresult cuCtxCreate_v4(CUcontext *context, void *params, unsigned flags, CUdevice device) {
    return params ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    driver_lock();
    if (!context_valid(context) || context == driver.primary) return driver_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (current.depth && current.item[current.depth - 1] == context) current.depth--;
    context_delete(context);
    return driver_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context) {
    driver_lock();
    if (context && !context_valid(context)) return driver_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (current.depth) current.depth--;
    return driver_leave(context ? push(context) : CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = current.depth ? current.item[current.depth - 1] : NULL;
    return driver.ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    driver_lock();
    return driver_leave(context_valid(context) ? push(context) : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (!current.depth) return CUDA_ERROR_INVALID_CONTEXT;
    current.depth--;
    if (context) *context = current.item[current.depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return current.depth ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxSynchronize(void) {
    CUresult r;
    return driver_enter(&r) ? driver_leave(CUDA_SUCCESS) : r;
}
