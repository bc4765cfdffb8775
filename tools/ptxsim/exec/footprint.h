/* Which words of global memory a launch reads and which it writes.  Distinct sectors are what the device's memory must at
 * least move; everything beyond them may be served by caches.  Clusters on several host threads add to it at once. */
#pragma once
#include "tools/ptxsim/ptx/counters.h"
#include "tools/ptxsim/exec/memory.h"

typedef struct Footprint Footprint;
Footprint *footprint_new(const DeviceMemory *); /* NULL without memory */
void footprint_free(Footprint *);
void footprint_add(Footprint *, bool write, uint64_t address, uint64_t bytes);
/* Sets the unique_* figures; false when the host had no memory to remember it all. */
bool footprint_sum(const Footprint *, Counters *);
