/* Devices: one, of the table's, chosen by PTXSIM_DEVICE; PTXSIM_MEMORY is its memory in bytes. */
#include "tools/ptxsim/driver/driver.h"
#include <stdio.h>
#include <stdlib.h>

#define PCI_BUS_ID "0000:01:00.0"

static const DeviceSpec DEVICES[] = {
#define DEVICE(word, name, capability, memory, sms, l2, shared_block, shared_optin, shared_sm, blocks_sm, clock, \
               memory_clock, bus, persisting)                                                                    \
    {word,         name,      capability, memory, sms,          l2,  shared_block,                               \
     shared_optin, shared_sm, blocks_sm,  clock,  memory_clock, bus, persisting},
#include "tools/ptxsim/driver/devices.def"
#undef DEVICE
};

/* NULL when PTXSIM_DEVICE names no device of the table. */
static const DeviceSpec *find_device(void) {
    const char *word = getenv("PTXSIM_DEVICE");
    for (size_t k = 0; word && k < sizeof DEVICES / sizeof *DEVICES; k++)
        if (strcmp(DEVICES[k].word, word) == 0) return &DEVICES[k];
    return word && *word ? NULL : &DEVICES[0];
}

bool device_known(void) { return find_device() != NULL; }

void device_complain(void) {
    fprintf(stderr, "ptxsim: PTXSIM_DEVICE=%s: no such device; there is", getenv("PTXSIM_DEVICE"));
    for (size_t k = 0; k < sizeof DEVICES / sizeof *DEVICES; k++)
        fprintf(stderr, "%s %s (%s)", k ? "," : "", DEVICES[k].word, DEVICES[k].name);
    fputc('\n', stderr);
}

const DeviceSpec *driver_device(void) {
    const DeviceSpec *d = find_device();
    return d ? d : &DEVICES[0]; /* cuInit has refused a wrong name */
}

uint64_t device_memory(void) {
    const char *text = getenv("PTXSIM_MEMORY");
    const uint64_t bytes = text ? strtoull(text, NULL, 0) : 0;
    return bytes ? bytes : driver_device()->memory;
}

CUresult check_device(CUdevice d) { return d != 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS; }

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal) {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = check_device(ordinal);
    if (!r) *device = 0;
    return r;
}

CUresult sim_cuDeviceGetCount(int *count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int bytes, CUdevice device) {
    const CUresult r = check_device(device);
    if (!name || bytes < 1) return CUDA_ERROR_INVALID_VALUE;
    if (!r) snprintf(name, (size_t)bytes, "%s", driver_device()->name);
    return r;
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    *uuid = (CUuuid){"ptxsim"};
    return check_device(device);
}
CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return sim_cuDeviceGetUuid(uuid, device); }

CUresult sim_cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device) {
    const CUresult r = check_device(device);
    if (!id || bytes < 1) return CUDA_ERROR_INVALID_VALUE;
    if (!r) snprintf(id, (size_t)bytes, "%s", PCI_BUS_ID);
    return r;
}

CUresult sim_cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
    if (!device || !id) return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return strcmp(id, PCI_BUS_ID) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    enum { LAST_ATTRIBUTE = 147 };
    const DeviceSpec *d = driver_device();
    const CUresult r = check_device(device);
    if (!value || attribute < 1 || attribute > LAST_ATTRIBUTE) return CUDA_ERROR_INVALID_VALUE;
    if (r) return r;
    *value = 0;
    switch (attribute) {
#define ATTRIBUTE(number, what) \
    case number:                \
        *value = what;          \
        break;
#include "tools/ptxsim/driver/device_attributes.def"
#undef ATTRIBUTE
    default: break;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    const CUresult r = check_device(device);
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!r) *bytes = device_memory();
    return r;
}

CUresult sim_cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    const CUresult r = check_device(device);
    if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
    if (r) return r;
    *major = driver_device()->capability / 10;
    *minor = driver_device()->capability % 10;
    return CUDA_SUCCESS;
}

/* There is no second device; a device is not its own peer. */
CUresult sim_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    if (!can) return CUDA_ERROR_INVALID_VALUE;
    *can = 0;
    return check_device(device) ? CUDA_ERROR_INVALID_DEVICE : check_device(peer);
}

CUresult sim_cuDeviceGetExecAffinitySupport(int *value, int type, CUdevice device) {
    if (!value || type) return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    return check_device(device);
}
