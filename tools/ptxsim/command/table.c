/* The figures as a table, the kernel with the longest roofline time first. */
#include "tools/ptxsim/command/command.h"
#include "ir/memory.h"
#include <stdlib.h>
#include <string.h>

typedef struct Row {
    const KernelRecord *kernel;
    double seconds;
    Bound bound;
} Row;

static int longest_first(const void *x, const void *y) {
    const Row *a = x, *b = y;
    if (a->seconds != b->seconds) return a->seconds < b->seconds ? 1 : -1;
    return strcmp(a->kernel->name, b->kernel->name);
}

static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

static void print_row(FILE *f, const char *name, uint64_t launches, const Counters *c) {
    const double asked = (double)(c->load_bytes + c->store_bytes), moved = 32 * (double)(c->load_sectors + c->store_sectors);
    const double least = 32 * (double)(c->unique_load_sectors + c->unique_store_sectors);
    const double matrix = (double)(c->matrix_flops_half + c->matrix_flops_tf32 + c->matrix_flops_f64 + c->matrix_flops_byte);
    const double vector = (double)(c->flops_f32 + c->flops_f64 + c->flops_half);
    fprintf(f, "%-28s %6llu %10.3f %9.3f %9.3f %9.3f %5.0f %9.3f %5.1f %9.3f %9.3f", name, (unsigned long long)launches,
            (double)c->thread_instructions * 1e-6, asked * 1e-6, moved * 1e-6, least * 1e-6, percent(asked, moved),
            (double)c->shared_wavefronts * 1e-6, percent((double)c->shared_conflicts, (double)c->shared_wavefronts), vector * 1e-6,
            matrix * 1e-6);
}

static void print_mix(FILE *f, const KernelRecord *r) {
    fprintf(f, "%-28s", r->name);
    for (int k = 0; k < MIX_COUNT; k++)
        if (r->warps[k])
            fprintf(f, "  %s %.1f%%", mix_name((Mix)k), percent((double)r->threads[k], (double)r->count.thread_instructions));
    fputc('\n', f);
    if (r->shapes) fprintf(f, "%-28s", "");
    for (size_t k = 0; k < r->shapes; k++) fprintf(f, "  %s %llu", r->matrix[k].name, (unsigned long long)r->matrix[k].value);
    if (r->shapes) fputc('\n', f);
    if (r->count.atomics + r->count.async_bytes + r->count.barriers)
        fprintf(f, "%-28s  barriers %llu, atomics %llu, bytes of asynchronous copies %llu\n", "",
                (unsigned long long)r->count.barriers, (unsigned long long)r->count.atomics,
                (unsigned long long)r->count.async_bytes);
}

static void print_head(FILE *f, const Target *t) {
    fprintf(f, "%-28s %6s %10s %9s %9s %9s %5s %9s %5s %9s %9s %10s  %s\n", "", "", "thread", "MB", "MB", "MB", "coal.", "shared",
            "conf.", "", "matrix", t->name, "");
    fprintf(f, "%-28s %6s %10s %9s %9s %9s %5s %9s %5s %9s %9s %10s  %s\n", "kernel", "runs", "Minstr", "asked", "moved",
            "least", "%", "Mpasses", "%", "MFLOP", "MFLOP", "us", "bound");
}

void table_print(FILE *f, const Records *all, const Target *t) {
    Row *row = memory_zeroed(all->n + 1, sizeof *row);
    Counters sum = {0};
    uint64_t launches = 0;
    double total = 0;
    for (size_t k = 0; k < all->n; k++) {
        double seconds[BOUNDS];
        const Bound b = roofline(&all->at[k].count, t, seconds);
        row[k] = (Row){.kernel = &all->at[k], .seconds = seconds[b], .bound = b};
        counters_add(&sum, &all->at[k].count);
        launches += all->at[k].launches;
        total += seconds[b];
    }
    qsort(row, all->n, sizeof *row, longest_first);
    print_head(f, t);
    for (size_t k = 0; k < all->n; k++) {
        print_row(f, row[k].kernel->name, row[k].kernel->launches, &row[k].kernel->count);
        fprintf(f, " %10.2f  %s\n", row[k].seconds * 1e6, bound_name(row[k].bound));
    }
    print_row(f, "total", launches, &sum);
    fprintf(f, " %10.2f\n\nthread instructions by kind\n", total * 1e6);
    for (size_t k = 0; k < all->n; k++) print_mix(f, row[k].kernel);
    free(row);
}
