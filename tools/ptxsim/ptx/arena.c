#include "tools/ptxsim/ptx/arena.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, ALIGN = 64 };

struct ArenaChunk {
    ArenaChunk *next;
    size_t used, size;
    char *data;
};

static ArenaChunk *chunk_new(size_t bytes, ArenaChunk *next) {
    ArenaChunk *c = calloc(1, sizeof *c);
    const size_t size = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (c) c->data = aligned_alloc(ALIGN, size);
    if (!c || !c->data) {
        fprintf(stderr, "ptxsim: error: out of memory (%zu bytes)\n", size);
        _exit(3);
    }
    memset(c->data, 0, size);
    c->size = size;
    c->next = next;
    return c;
}

void *sim_alloc(SimArena *a, size_t bytes) {
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes > CHUNK / 4) { /* large blocks stand alone, behind the chunk in use */
        ArenaChunk *big = chunk_new(bytes, a->chunks ? a->chunks->next : NULL);
        big->used = bytes;
        if (a->chunks) a->chunks->next = big;
        else a->chunks = big;
        return big->data;
    }
    if (!a->chunks || a->chunks->size - a->chunks->used < bytes) a->chunks = chunk_new(CHUNK, a->chunks);
    void *p = a->chunks->data + a->chunks->used;
    a->chunks->used += bytes;
    return p;
}

char *sim_strndup(SimArena *a, const char *text, size_t n) {
    char *copy = sim_alloc(a, n + 1);
    memcpy(copy, text, n);
    return copy;
}

void *sim_grow(SimArena *a, void *old, size_t count, size_t *capacity, size_t element) {
    if (count < *capacity) return old;
    size_t bigger = *capacity ? *capacity * 2 : 8;
    while (bigger <= count) bigger *= 2;
    void *data = sim_alloc(a, bigger * element);
    if (*capacity) memcpy(data, old, *capacity * element);
    *capacity = bigger;
    return data;
}

void sim_arena_free(SimArena *a) {
    for (ArenaChunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        free(c->data);
        free(c);
    }
    a->chunks = NULL;
}
