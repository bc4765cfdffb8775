#include "frontend/names.h"
#include <stdint.h>
#include <string.h>

/* FNV-1a, 32 bit. */
static uint32_t name_hash(const char *s) {
    uint32_t h = 2166136261u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

/* The slot of `name`, or the free slot where it would stand; cap is a power of two and never full. */
static NameSlot *find_slot(const NameMap *m, const char *name) {
    uint32_t mask = (uint32_t)m->cap - 1;
    uint32_t i = name_hash(name) & mask;
    while (m->slot[i].name && strcmp(m->slot[i].name, name) != 0) i = (i + 1) & mask;
    return &m->slot[i];
}

void *names_get(const NameMap *m, const char *name) { return m->cap ? find_slot(m, name)->value : NULL; }

bool names_has(const NameMap *m, const char *name) { return m->cap && find_slot(m, name)->name; }

static void names_grow(Arena *a, NameMap *m) {
    NameMap old = *m;
    m->cap = old.cap ? old.cap * 2 : 16;
    m->slot = ARENA_ARRAY(a, NameSlot, m->cap);
    for (int i = 0; i < old.cap; i++)
        if (old.slot[i].name) *find_slot(m, old.slot[i].name) = old.slot[i];
}

void names_set(Arena *a, NameMap *m, const char *name, void *value) {
    if (m->n * 2 >= m->cap) names_grow(a, m);
    NameSlot *s = find_slot(m, name);
    if (!s->name) m->n++;
    *s = (NameSlot){name, value};
}
