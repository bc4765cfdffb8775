#include "tools/ptxsim/command/command.h"
#include "ir/memory.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static KernelRecord *record_of(Records *all, const char *name) {
    for (size_t k = 0; k < all->n; k++)
        if (!strcmp(all->at[k].name, name)) return &all->at[k];
    all->at = memory_resize(all->at, (all->n + 1) * sizeof *all->at);
    all->at[all->n] = (KernelRecord){.name = memory_strdup(name)};
    return &all->at[all->n++];
}

static void add_matrix(KernelRecord *r, const char *shape, uint64_t value) {
    size_t k = 0;
    while (k < r->shapes && strcmp(r->matrix[k].name, shape) != 0) k++;
    if (k == r->shapes) {
        r->matrix = memory_resize(r->matrix, (k + 1) * sizeof *r->matrix);
        r->matrix[k] = (Named){.name = memory_strdup(shape)};
        r->shapes++;
    }
    r->matrix[k].value += value;
}

static bool add_mix(const char *name, const char *prefix, uint64_t *to, uint64_t value) {
    const size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0) return false;
    for (int k = 0; k < MIX_COUNT; k++)
        if (!strcmp(name + n, mix_name((Mix)k))) to[k] += value;
    return true;
}

/* A name that this command does not know is one of a newer library: left out. */
static void add_figure(KernelRecord *r, const char *name, uint64_t value) {
    if (!strcmp(name, "launches")) r->launches += value;
#define COUNTER(field, meaning) else if (!strcmp(name, #field)) r->count.field += value;
#include "tools/ptxsim/ptx/counters.def"
#undef COUNTER
    else if (!strncmp(name, "matrix.", 7)) add_matrix(r, name + 7, value);
    else if (!add_mix(name, "warps.", r->warps, value)) add_mix(name, "threads.", r->threads, value);
}

static void read_line(Records *all, char *line) {
    static const char START[] = "ptxsim: stats: ";
    char *rest = NULL;
    if (strncmp(line, START, sizeof START - 1) != 0) return;
    const char *kernel = strtok_r(line + sizeof START - 1, " \n", &rest);
    KernelRecord *r = kernel ? record_of(all, kernel) : NULL;
    if (!r) return;
    for (char *word; (word = strtok_r(NULL, " \n", &rest));) {
        char *equals = strrchr(word, '=');
        if (!equals) continue;
        *equals = '\0';
        add_figure(r, word, strtoull(equals + 1, NULL, 10));
    }
}

bool records_read(FILE *f, Records *all) {
    char *line = NULL;
    size_t room = 0;
    *all = (Records){0};
    while (getline(&line, &room, f) >= 0) read_line(all, line);
    const bool whole = feof(f) && !ferror(f);
    free(line);
    if (!whole) fprintf(stderr, "ptxsim: the figures cannot be read: %s\n", strerror(errno));
    return whole;
}

void records_free(Records *all) {
    for (size_t k = 0; k < all->n; k++) {
        for (size_t s = 0; s < all->at[k].shapes; s++) free(all->at[k].matrix[s].name);
        free(all->at[k].matrix);
        free(all->at[k].name);
    }
    free(all->at);
    *all = (Records){0};
}
