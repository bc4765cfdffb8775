#include "tools/ptxsim/exec/memory.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RED_ZONE = 4096, GRANULE = 512, WORD = 4 };
#define FIRST_ADDRESS UINT64_C(0x200000000000)

static size_t lower_bound(const DeviceMemory *m, uint64_t address) { /* allocations that begin at or below it */
    size_t low = 0, high = m->count;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (m->item[mid]->address <= address) low = mid + 1;
        else high = mid;
    }
    return low;
}

static bool make_room(DeviceMemory *m) {
    if (m->count < m->capacity) return true;
    const size_t capacity = m->capacity ? m->capacity * 2 : 64;
    Allocation **item = realloc(m->item, capacity * sizeof *item);
    if (!item) return false;
    m->item = item;
    m->capacity = capacity;
    return true;
}

/* Large ones are pages that the host provides when they are touched, and takes back at once: a model may be larger than
 * the host's memory as long as it is not used as a whole (crop.h). */
enum { LARGE = 1 << 20 };
static uint8_t *zeros(uint64_t bytes) {
    if (bytes < LARGE) return calloc(bytes, 1);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void unmake(uint8_t *p, uint64_t bytes) {
    if (bytes < LARGE) free(p);
    else if (p) munmap(p, bytes);
}

static void release(Allocation *a) {
    unmake(a->data, a->bytes + WORD);
    unmake(a->written, a->bytes + WORD);
    free(a);
}

/* Addresses only grow, so that a freed one is never reused while a stale pointer could still hit it. */
Allocation *memory_allocate(DeviceMemory *m, uint64_t bytes, uint64_t align) {
    if (align < GRANULE) align = GRANULE;
    if (bytes > m->total - m->used || !make_room(m)) return NULL;
    Allocation *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->bytes = bytes;
    a->data = zeros(bytes + WORD); /* the last word is whole */
    a->written = zeros(bytes + WORD);
    if (!a->data || !a->written) {
        release(a);
        return NULL;
    }
    memset(a->written + bytes, 1, WORD); /* its rest is nobody's, and must not make it a special case */
    const uint64_t start = m->next ? m->next : FIRST_ADDRESS;
    a->address = (start + align - 1) / align * align;
    m->next = a->address + bytes + RED_ZONE;
    m->used += bytes;
    m->item[m->count++] = a; /* the highest address: order holds */
    return a;
}

bool memory_free(DeviceMemory *m, uint64_t address) {
    const size_t n = lower_bound(m, address);
    if (!n || m->item[n - 1]->address != address) return false;
    m->used -= m->item[n - 1]->bytes;
    release(m->item[n - 1]);
    memmove(&m->item[n - 1], &m->item[n], (m->count - n) * sizeof *m->item);
    m->count--;
    return true;
}

Allocation *memory_find(const DeviceMemory *m, uint64_t address) {
    const size_t n = lower_bound(m, address);
    if (!n) return NULL;
    Allocation *a = m->item[n - 1];
    return address - a->address < a->bytes ? a : NULL;
}

Allocation *memory_on(const DeviceMemory *m, uint64_t address, uint64_t bytes) {
    Allocation *a = memory_find(m, address);
    const size_t n = lower_bound(m, address);
    if (a || n == m->count) return a;
    return m->item[n]->bytes && m->item[n]->address - address < bytes ? m->item[n] : NULL;
}

const Allocation *memory_near(const DeviceMemory *m, uint64_t address) {
    const size_t n = lower_bound(m, address);
    const Allocation *below = n ? m->item[n - 1] : NULL, *above = n < m->count ? m->item[n] : NULL;
    if (!below || !above) return below ? below : above;
    const uint64_t end = below->address + below->bytes; /* beyond the address, when an access begins inside */
    return address < end || address - end <= above->address - address ? below : above;
}

void memory_clear(DeviceMemory *m) {
    for (size_t k = 0; k < m->count; k++) release(m->item[k]);
    free(m->item);
    *m = (DeviceMemory){.total = m->total, .next = m->next};
}
