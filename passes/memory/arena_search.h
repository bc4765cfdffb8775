/* Placement within a given capacity by depth-first search: for the hard cases of arena_place.c. */
#ifndef FUSEC_PASSES_ARENA_SEARCH_H
#define FUSEC_PASSES_ARENA_SEARCH_H
#include "ir/arena.h"
#include <stdbool.h>
#include <stdint.h>

/* A block that lives over [lower, upper) of compressed time and needs `size` > 0 bytes; id: 0 .. n-1. */
typedef struct ArenaItem {
    int lower, upper, id;
    int64_t size;
} ArenaItem;

/* Looks for offsets (by id) under which no block ends above `capacity`.  `item` is the order of preference.
 * Takes at most *work steps and subtracts what it took; false: none found within them, or none exists. */
bool arena_search(int n, const ArenaItem *item, int n_times, int64_t capacity, int64_t *work, int64_t *offset);

#endif
