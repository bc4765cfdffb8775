/* Figures per kernel, summed over launches in the order of their first.  Printed at exit with PTXSIM_STATS=1, and added to
 * the file that PTXSIM_STATS_FILE names: one line per kernel, a name and then name=value. */
#include "tools/ptxsim/driver/driver.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

typedef struct KernelStats {
    char *name;
    uint64_t launches;
    Figures figures;
    struct KernelStats *next;
} KernelStats;
static KernelStats *all_stats; /* under the lock */
static bool counting;          /* ptxsimCount */

static bool printed(void) {
    const char *stats = getenv("PTXSIM_STATS");
    return stats && *stats == '1';
}

static const char *stats_file(void) {
    const char *path = getenv("PTXSIM_STATS_FILE");
    return path && *path ? path : NULL;
}

bool stats_wanted(void) { return counting || printed() || stats_file(); }

bool stats_add(const char *kernel, const Figures *f) {
    KernelStats **link = &all_stats;
    while (*link && strcmp((*link)->name, kernel) != 0) link = &(*link)->next;
    if (!*link) {
        KernelStats *s = calloc(1, sizeof *s);
        if (s) s->name = malloc(strlen(kernel) + 1);
        if (!s || !s->name) {
            free(s);
            return false;
        }
        memcpy(s->name, kernel, strlen(kernel) + 1);
        *link = s;
    }
    (*link)->launches++;
    figures_add(&(*link)->figures, f);
    return true;
}

static void print_kernel(FILE *f, const KernelStats *s) {
    fprintf(f, "ptxsim: stats: %s launches=%" PRIu64, s->name, s->launches);
#define COUNTER(name, meaning) fprintf(f, " " #name "=%" PRIu64, s->figures.count.name);
#include "tools/ptxsim/ptx/counters.def"
#undef COUNTER
    for (int k = 0; k < MIX_COUNT; k++)
        if (s->figures.warps[k])
            fprintf(f, " warps.%s=%" PRIu64 " threads.%s=%" PRIu64, mix_name((Mix)k), s->figures.warps[k], mix_name((Mix)k),
                    s->figures.threads[k]);
    for (int k = 0; k < s->figures.shapes; k++)
        fprintf(f, " matrix.%s=%" PRIu64, s->figures.matrix[k].name, s->figures.matrix[k].instructions);
    fputc('\n', f);
}

static void forget(void) {
    for (KernelStats *s = all_stats, *next; s; s = next) {
        next = s->next;
        free(s->name);
        free(s);
    }
    all_stats = NULL;
}

void stats_at_exit(void) {
    FILE *f = all_stats && stats_file() ? fopen(stats_file(), "a") : NULL;
    for (const KernelStats *s = all_stats; s; s = s->next) {
        if (printed()) print_kernel(stderr, s);
        if (f) print_kernel(f, s);
    }
    if (f) fclose(f);
    forget();
}

EXPORTED void ptxsimCount(int on) {
    driver_lock();
    counting = on != 0;
    forget();
    driver_unlock();
}

EXPORTED uint64_t ptxsimKernels(ptxsim_kernel *to, uint64_t room) {
    uint64_t n = 0;
    driver_lock();
    for (const KernelStats *s = all_stats; s; s = s->next, n++) {
        if (n >= room) continue;
        to[n] = (ptxsim_kernel){.name = s->name, .launches = s->launches,
#define COUNTER(name, meaning) .name = s->figures.count.name,
#include "tools/ptxsim/ptx/counters.def"
#undef COUNTER
        };
    }
    driver_unlock();
    return n;
}
