/* Growing of arena arrays. */
#include "ir/vec.h"
#include <string.h>

void *vec_grow(Arena *a, void *at, int n, int *cap, size_t item) {
    const size_t old = (size_t)*cap * item;
    *cap = *cap < 2 ? 2 : *cap * 2; /* most hold a few items, and there is one of them for each node or kernel */
    if (n && arena_extend(a, at, old, (size_t)*cap * item)) return at;
    void *grown = arena_alloc(a, (size_t)*cap * item);
    if (n) memcpy(grown, at, (size_t)n * item);
    return grown;
}
