/* A map from names to pointers: open addressing, in an arena, names not copied. */
#ifndef FUSEC_FRONTEND_NAMES_H
#define FUSEC_FRONTEND_NAMES_H
#include "ir/arena.h"
#include <stdbool.h>

typedef struct NameSlot {
    const char *name; /* NULL: free */
    void *value;
} NameSlot;
typedef struct NameMap {
    NameSlot *slot;
    int n, cap;
} NameMap;

void *names_get(const NameMap *m, const char *name); /* NULL when absent */
bool names_has(const NameMap *m, const char *name);
/* Adds or replaces. */
void names_set(Arena *a, NameMap *m, const char *name, void *value);

#endif
