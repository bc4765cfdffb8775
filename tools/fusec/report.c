/* fusec report: what a model costs, known before it runs. */
#include "codegen/host/host.h"
#include "tools/fusec/cli.h"
#include "tools/fusec/report_products.h"
#include <stdlib.h>
#include <string.h>

static void bytes_text(char *out, size_t n, double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    while (bytes >= 1024 && u < 4) bytes /= 1024, u++;
    snprintf(out, n, u ? "%.2f %s" : "%.0f %s", bytes, units[u]);
}

static void print_tensors(Arena *a, const char *title, const ModuleTensor *t, int n) {
    if (n) printf("%s\n", title);
    for (int i = 0; i < n; i++) {
        char b[32];
        bytes_text(b, sizeof b, (double)t[i].bytes);
        printf("  %-32s %s%-20s %12s%s\n", t[i].name, dtype_name(t[i].dtype), shape_text(a, t[i].shape), b,
               t[i].trainable                 ? ""
               : !strcmp(title, "parameters") ? "  frozen"
                                              : "");
    }
}

static double ridge_of(const Kernel *k, const Target *t, bool pairs) {
    return pairs || product_report(k, t).rows ? t->gflops_matrix / t->gbytes_per_s : target_ridge(t);
}

/* " by wgmma 128x256", whether by turns, and how much of the tiles is used, where it is not nearly all. */
static void print_product(const ProductReport *r) {
    if (r->by) printf(" by %s", r->by);
    if (r->rows)
        printf(" %dx%d%s%s", r->rows, r->columns, r->by_turns ? " by turns" : "", r->measured ? " (profile)" : "");
    if (r->rows && r->used < 0.9) printf(" (%.0f%% used)", 100 * r->used);
}

/* ", in blocks", of each form once. */
static void print_forms(const HostProducts *host) {
    for (int i = 0; i < host->n; i++) {
        bool before = false;
        for (int k = 0; k < i; k++) before |= strcmp(host->of[k].form, host->of[i].form) == 0;
        if (!before) printf(", %s", host->of[i].form);
    }
}

/* What jacobian_gemm and fuse brought into a product's kernel. */
static void print_merged(const Kernel *k) {
    if (k->members) printf(", %d kernels in one launch", k->members);
    if (k->onto) printf(", %d products added up", 1 + k->onto);
    if (k->loop_sums) printf(", with %d sum%s over a factor", k->loop_sums, k->loop_sums > 1 ? "s" : "");
    if (k->turns) printf(", with %d product%s over its rows, in turn", k->turns, k->turns > 1 ? "s" : "");
    if (k->slices) printf(", with %d sum%s over its tiles", k->slices, k->slices > 1 ? "s" : "");
}

static void print_entry(Arena *a, const Module *m, Entry e, const Target *t, const char *profile,
                        const HostProducts *host) {
    const ModuleEntry *entry = &m->entry[e];
    double flops = 0, bytes = 0;
    printf("entry %s: %d launches\n", entry_name[e], entry->launches.n);
    printf("  %-28s %-8s %10s %10s %10s  %s\n", "kernel", "phase", "MFLOP", "MB", "FLOP/B", "bound, source");
    for (int i = 0; i < entry->launches.n; i++) {
        static const char *const phases[] = {"forward", "backward", "update"};
        const Launch *l = &entry->launches.at[i];
        const Kernel *k = m->kernels.at[l->kernel];
        const KernelCost c = kernel_cost(k);
        const double moved = c.bytes_read + c.bytes_written, intensity = moved > 0 ? c.flops / moved : 0;
        const ProductReport product = product_report(k, t);
        flops += c.flops, bytes += moved;
        printf("  %-28s %-8s %10.3f %10.3f %10.2f  %s", k->name, phases[l->phase], c.flops * 1e-6, moved * 1e-6,
               intensity, intensity < ridge_of(k, t, host && host[l->kernel].pairs) ? "memory" : "compute");
        print_product(&product);
        if (host) print_forms(&host[l->kernel]);
        print_merged(k);
        printf("%s%s\n", k->comment ? ", " : "", k->comment ? k->comment : "");
    }
    product_notes(a, m, e, t, profile, host);
    if (host) product_forms(a, m, e, host);
    printf("  total %.3f MFLOP, %.3f MB, %.2f FLOP/B (ridge of %s: %.0f)\n", flops * 1e-6, bytes * 1e-6,
           bytes > 0 ? flops / bytes : 0, t->name, target_ridge(t));
}

/* What layout added, and where: the buffers of the arena that cost most. */
static void print_padding(Arena *a, const ModuleEntry *e) {
    enum { SHOWN = 8 };
    int64_t sum = 0;
    if (e->padded.n == 0) return;
    for (int i = 0; i < e->padded.n; i++) sum += e->padded.at[i].bytes;
    printf("  padded by layout: %d buffers, %lld bytes in all\n", e->padded.n, (long long)sum);
    for (int i = 0; i < e->padded.n && i < SHOWN; i++) {
        const ModulePadding *x = &e->padded.at[i];
        printf("    %s%s: rows of %lld laid out as %lld, %lld bytes more", dtype_name(x->dtype),
               shape_text(a, x->shape), (long long)x->shape.dim[x->shape.rank - 1].bound, (long long)x->laid_out,
               (long long)x->bytes);
        if (x->loc.line) printf(", from line %d", x->loc.line);
        putchar('\n');
    }
    if (e->padded.n > SHOWN) printf("    .. and %d more\n", e->padded.n - SHOWN);
}

static void print_memory(Arena *a, const Module *m, Entry e) {
    const ModuleEntry *x = &m->entry[e];
    const int64_t grads = e == ENTRY_GRAD ? m->grad_bytes : 0;
    printf("memory of %s, bytes\n", entry_name[e]);
    printf("  parameters %lld\n  states %lld\n  gradients (caller's) %lld\n  arena %lld\n", (long long)m->param_bytes,
           (long long)m->state_bytes, (long long)grads, (long long)x->arena_bytes);
    printf("    at its peak: saved for the backward %lld, gradients and backward %lld, workspace and gaps %lld\n",
           (long long)x->peak_saved, (long long)x->peak_gradients, (long long)x->peak_workspace);
    if (x->peak_loc.line) printf("    most of it from line %d\n", x->peak_loc.line);
    if (x->recomputed) printf("    within the budget, values that are computed again for later readers: %d\n", x->recomputed);
    if (x->in_segments) printf("    within the budget, the forward pass is computed again in segments\n");
    print_padding(a, x);
    printf("  peak %lld\n", (long long)(m->param_bytes + m->state_bytes + grads + x->arena_bytes));
}

/* By kernel; NULL: not on this target, or not known. *ok is false: no such CPU, said. */
static const HostProducts *products_of(Arena *a, const Module *m, const Options *o, const Target *t, bool *ok) {
    const HostOptions options = {.triple = o->triple, .cpu = o->arch};
    char *error = NULL;
    const HostProducts *of = t->device->is_cpu ? host_products(a, m, &options, &error) : NULL;
    if (error) fprintf(stderr, "fusec: error: %s\n", error);
    *ok = !error;
    free(error);
    return of;
}

int command_report(const Options *o) {
    if (o->measured) return command_measure(o);
    Arena *a = arena_new();
    Session s;
    const Target *t = target_asked(o, "host", true);
    Module *m = NULL;
    if (!t) {
        arena_free(a);
        return EXIT_USAGE;
    }
    bool ok = true;
    if (session_open(&s, a, o)) m = session_compile(&s, o, t);
    const HostProducts *host = m ? products_of(a, m, o, t, &ok) : NULL;
    if (m && ok) {
        printf("model %s for %s\n", m->name, t->name);
        print_tensors(a, "parameters", m->params.at, m->params.n);
        print_tensors(a, "states", m->states.at, m->states.n);
        print_tensors(a, "inputs", m->inputs.at, m->inputs.n);
        print_tensors(a, "outputs", m->outputs.at, m->outputs.n);
        for (int e = ENTRY_INFER; e <= ENTRY_STEP; e++)
            if (m->entry[e].present) print_entry(a, m, (Entry)e, t, o->profile, host);
        for (int e = ENTRY_INFER; e <= ENTRY_STEP; e++)
            if (m->entry[e].present) print_memory(a, m, (Entry)e);
    }
    const int status = session_finish(&s);
    arena_free(a);
    return ok ? status : EXIT_USAGE;
}
