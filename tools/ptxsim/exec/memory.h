/* Device memory: allocations in an address range of their own, apart from each other by red zones, each with a shadow
 * byte per byte that says whether it was ever written: bit 0 before the launch that runs, bit 1 by it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Allocation {
    uint64_t address, bytes;
    uint8_t *data, *written;
    bool constant, module; /* .const; belongs to a module */
    const char *name;      /* module variables */
} Allocation;

typedef struct DeviceMemory {
    Allocation **item; /* by address */
    size_t count, capacity;
    uint64_t next, used, total;
} DeviceMemory;

/* NULL when the device's (or the host's) memory is exhausted. */
Allocation *memory_allocate(DeviceMemory *, uint64_t bytes, uint64_t align);
/* False when `address` does not begin an allocation. */
bool memory_free(DeviceMemory *, uint64_t address);
/* The allocation that holds `address`, or NULL. */
Allocation *memory_find(const DeviceMemory *, uint64_t address);
/* The allocation that holds any of `bytes` (at most the red zone between two) from `address` on, or NULL. */
Allocation *memory_on(const DeviceMemory *, uint64_t address, uint64_t bytes);
/* The allocation nearest to an address that is in none: for messages. */
const Allocation *memory_near(const DeviceMemory *, uint64_t address);
void memory_clear(DeviceMemory *);
