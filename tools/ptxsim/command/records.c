#include "tools/ptxsim/command/command.h"
#include <stdlib.h>
#include <string.h>

static char *copy_text(const char *from) {
    char *to = malloc(strlen(from) + 1);
    return to ? strcpy(to, from) : NULL;
}

static KernelRecord *record_of(Records *all, const char *name) {
    for (size_t k = 0; k < all->n; k++)
        if (!strcmp(all->at[k].name, name)) return &all->at[k];
    KernelRecord *grown = realloc(all->at, (all->n + 1) * sizeof *grown);
    if (!grown) return NULL;
    all->at = grown;
    grown[all->n] = (KernelRecord){.name = copy_text(name)};
    return grown[all->n].name ? &grown[all->n++] : NULL;
}

static bool add_matrix(KernelRecord *r, const char *shape, uint64_t value) {
    size_t k = 0;
    while (k < r->shapes && strcmp(r->matrix[k].name, shape) != 0) k++;
    if (k == r->shapes) {
        Named *grown = realloc(r->matrix, (k + 1) * sizeof *grown);
        if (!grown) return false;
        r->matrix = grown;
        grown[k] = (Named){.name = copy_text(shape)};
        if (!grown[k].name) return false;
        r->shapes++;
    }
    r->matrix[k].value += value;
    return true;
}

static bool add_mix(const char *name, const char *prefix, uint64_t *to, uint64_t value) {
    const size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0) return false;
    for (int k = 0; k < MIX_COUNT; k++)
        if (!strcmp(name + n, mix_name((Mix)k))) to[k] += value;
    return true;
}

/* A name that this command does not know is one of a newer library: left out. */
static bool add_figure(KernelRecord *r, const char *name, uint64_t value) {
    if (!strcmp(name, "launches")) r->launches += value;
#define COUNTER(field, meaning) else if (!strcmp(name, #field)) r->count.field += value;
#include "tools/ptxsim/exec/counters.def"
#undef COUNTER
    else if (!strncmp(name, "matrix.", 7)) return add_matrix(r, name + 7, value);
    else if (!add_mix(name, "warps.", r->warps, value)) add_mix(name, "threads.", r->threads, value);
    return true;
}

static bool read_line(Records *all, char *line) {
    static const char START[] = "ptxsim: stats: ";
    char *rest = NULL;
    if (strncmp(line, START, sizeof START - 1) != 0) return true;
    const char *kernel = strtok_r(line + sizeof START - 1, " \n", &rest);
    KernelRecord *r = kernel ? record_of(all, kernel) : NULL;
    if (!r) return !kernel;
    for (char *word; (word = strtok_r(NULL, " \n", &rest));) {
        char *equals = strrchr(word, '=');
        if (!equals) continue;
        *equals = '\0';
        if (!add_figure(r, word, strtoull(equals + 1, NULL, 10))) return false;
    }
    return true;
}

bool records_read(FILE *f, Records *all) {
    char *line = NULL;
    size_t room = 0;
    bool ok = true;
    *all = (Records){0};
    while (ok && getline(&line, &room, f) >= 0) ok = read_line(all, line);
    free(line);
    if (!ok) fputs("ptxsim: out of memory\n", stderr);
    return ok;
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
