#include "tools/ptxsim/exec/footprint.h"
#include <stdatomic.h>
#include <stdlib.h>

/* A bit per word of 4 bytes; the 8 words of a sector are a byte of the map. */
enum { CHUNK_SHIFT = 16, CHUNK_MAPS = (1 << CHUNK_SHIFT) / 4 / 64 };

typedef struct Chunk {
    uint64_t number; /* address >> CHUNK_SHIFT */
    atomic_uint_least64_t touched[2][CHUNK_MAPS]; /* read, written */
} Chunk;

/* An open table with twice the slots that all allocations can need: full only where a kernel strays far outside them. */
struct Footprint {
    size_t slots; /* a power of two */
    atomic_bool failed;
    _Atomic(Chunk *) slot[];
};

Footprint *footprint_new(const DeviceMemory *m) {
    size_t slots = 16, wanted = 0;
    for (size_t k = 0; k < m->count; k++) wanted += (m->item[k]->bytes >> CHUNK_SHIFT) + 2;
    while (slots < 2 * wanted) slots *= 2;
    Footprint *f = calloc(1, sizeof *f + slots * sizeof *f->slot);
    if (f) f->slots = slots;
    return f;
}

void footprint_free(Footprint *f) {
    for (size_t k = 0; f && k < f->slots; k++) free(atomic_load_explicit(&f->slot[k], memory_order_relaxed));
    free(f);
}

static Chunk *chunk_of(Footprint *f, uint64_t number) {
    Chunk *made = NULL;
    size_t k = (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (f->slots - 1);
    for (size_t probes = 0; probes < f->slots; probes++) {
        Chunk *c = atomic_load_explicit(&f->slot[k], memory_order_acquire);
        if (!c) {
            if (!made) made = calloc(1, sizeof *made);
            if (!made) break;
            made->number = number;
            if (atomic_compare_exchange_strong(&f->slot[k], &c, made)) return made;
        }
        if (c->number == number) {
            free(made); /* another thread was faster */
            return c;
        }
        k = (k + 1) & (f->slots - 1);
    }
    if (!made) atomic_store(&f->failed, true);
    free(made);
    return NULL;
}

static void mark(atomic_uint_least64_t *map, uint64_t bits) {
    if ((atomic_load_explicit(map, memory_order_relaxed) & bits) != bits)
        atomic_fetch_or_explicit(map, bits, memory_order_relaxed);
}

void footprint_add(Footprint *f, bool write, uint64_t address, uint64_t bytes) {
    uint64_t word = address / 4;
    const uint64_t end = (address + bytes + 3) / 4;
    while (word < end) {
        const uint64_t at = word % 64, n = end - word < 64 - at ? end - word : 64 - at;
        Chunk *c = chunk_of(f, word >> (CHUNK_SHIFT - 2));
        if (!c) return;
        mark(&c->touched[write][word / 64 % CHUNK_MAPS], (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << at);
        word += n;
    }
}

static uint64_t sectors_in(uint64_t words) {
    uint64_t n = 0;
    for (; words; words >>= 8) n += (words & 0xff) != 0;
    return n;
}

static void chunk_sum(const Chunk *c, bool write, uint64_t *bytes, uint64_t *sectors) {
    for (int k = 0; k < CHUNK_MAPS; k++) {
        const uint64_t words = atomic_load_explicit(&c->touched[write][k], memory_order_relaxed);
        *bytes += 4 * (uint64_t)__builtin_popcountll(words);
        *sectors += sectors_in(words);
    }
}

bool footprint_sum(const Footprint *f, Counters *to) {
    to->unique_load_bytes = to->unique_store_bytes = to->unique_load_sectors = to->unique_store_sectors = 0;
    for (size_t k = 0; k < f->slots; k++) {
        const Chunk *c = atomic_load_explicit(&f->slot[k], memory_order_acquire);
        if (!c) continue;
        chunk_sum(c, false, &to->unique_load_bytes, &to->unique_load_sectors);
        chunk_sum(c, true, &to->unique_store_bytes, &to->unique_store_sectors);
    }
    return !atomic_load(&f->failed);
}
