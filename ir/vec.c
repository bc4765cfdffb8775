/* Growing of arena arrays. */
#include "ir/vec.h"
#include <string.h>

void *vec_grow(Arena *a, void *at, int n, int *cap, size_t item) {
    *cap = *cap < 8 ? 8 : *cap * 2;
    void *grown = arena_alloc(a, (size_t)*cap * item);
    if (n) memcpy(grown, at, (size_t)n * item);
    return grown;
}
