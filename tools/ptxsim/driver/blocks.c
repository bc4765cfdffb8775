/* Parts of grids that the program under test has chosen itself: ptxsimBlocks. */
#include "tools/ptxsim/driver/driver.h"
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

typedef struct Chosen {
    char *kernel;
    uint64_t *block, n, ran;
    struct Chosen *next;
} Chosen;
static Chosen *all_chosen; /* under the lock; freed when the process ends */

static Chosen *chosen_of(const char *kernel) {
    Chosen *c = all_chosen;
    while (c && strcmp(c->kernel, kernel) != 0) c = c->next;
    return c;
}

static Chosen *chosen_new(const char *kernel) {
    Chosen *c = calloc(1, sizeof *c);
    if (c) c->kernel = malloc(strlen(kernel) + 1);
    if (!c || !c->kernel) {
        free(c);
        return NULL;
    }
    strcpy(c->kernel, kernel);
    c->next = all_chosen;
    return all_chosen = c;
}

/* The new list, in place of the old one; *list is the caller's to free where this fails. */
static bool choose(const char *kernel, uint64_t *list, uint64_t n) {
    Chosen *c = chosen_of(kernel);
    if (!c && !(c = chosen_new(kernel))) return false;
    free(c->block);
    c->block = list;
    c->n = n;
    c->ran = 0;
    return true;
}

EXPORTED int ptxsimBlocks(const char *kernel, const uint64_t *block, uint64_t n) {
    uint64_t *list = n ? malloc(n * sizeof *list) : NULL;
    if (n && !list) return 0;
    for (uint64_t k = 0; k < n; k++) list[k] = block[k];
    driver_lock();
    const bool done = choose(kernel, list, n);
    driver_unlock();
    if (!done) free(list);
    return done;
}

EXPORTED uint64_t ptxsimBlocksRun(const char *kernel) {
    driver_lock();
    const Chosen *c = chosen_of(kernel);
    const uint64_t ran = c ? c->ran : 0;
    driver_unlock();
    return ran;
}

bool blocks_chosen(const char *kernel, Launch *k) {
    const Chosen *c = chosen_of(kernel);
    const uint64_t grid = (uint64_t)k->grid[0] * k->grid[1] * k->grid[2];
    const uint64_t clusters = grid / ((uint64_t)k->cluster[0] * k->cluster[1] * k->cluster[2]);
    if (!c || !c->n) return true;
    for (uint64_t b = 0; b < c->n; b++)
        if (c->block[b] >= clusters || (b && c->block[b] <= c->block[b - 1])) return false;
    k->blocks = c->block;
    k->crop = c->n;
    return true;
}

void blocks_ran(const char *kernel, uint64_t n) {
    Chosen *c = chosen_of(kernel);
    if (c) c->ran += n;
}

__attribute__((destructor)) static void at_exit(void) {
    for (Chosen *c = all_chosen, *next; c; c = next) {
        next = c->next;
        free(c->block);
        free(c->kernel);
        free(c);
    }
    all_chosen = NULL;
}
