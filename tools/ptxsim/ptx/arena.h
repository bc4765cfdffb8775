/* Memory that lives as long as one module: freed all at once, never piecewise.  Not thread-safe. */
#pragma once
#include <stddef.h>

typedef struct ArenaChunk ArenaChunk;
typedef struct SimArena {
    ArenaChunk *chunks;
} SimArena;

/* Zeroed bytes, aligned to 64; ends the process with status 3 when the host is out of memory. */
void *sim_alloc(SimArena *a, size_t bytes);
char *sim_strndup(SimArena *a, const char *text, size_t n);
/* Makes room for element `count`: doubles an arena array when it is full; the old copy stays in the arena. */
void *sim_grow(SimArena *a, void *old, size_t count, size_t *capacity, size_t element);
void sim_arena_free(SimArena *a);
