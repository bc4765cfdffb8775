/* fusec report --measured: every entry runs once on the software GPU, on made inputs, and the bytes of global memory that
 * each kernel touched are set beside those that kernel_cost predicts. */
#include "ir/target.h"
#include "tools/fusec/run.h"
#include "tools/ptxsim/ptxsim.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 4096 };

typedef struct Meter {
    void *library;
    void (*count)(int on);
    uint64_t (*kernels)(ptxsim_kernel *to, uint64_t room);
} Meter;

typedef struct MeasuredTotal {
    double predicted, counted, asked, moved;
} MeasuredTotal;

static bool meter_open(Meter *m) {
    *m = (Meter){.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (m->library) {
        *(void **)&m->count = dlsym(m->library, "ptxsimCount");
        *(void **)&m->kernels = dlsym(m->library, "ptxsimKernels");
    }
    if (m->count && m->kernels) return true;
    return run_error("report --measured: %s; only the software GPU counts bytes (LD_LIBRARY_PATH=BUILD/ptxsim)",
                     m->library ? "the libcuda.so.1 found here is a device's" : "there is no libcuda.so.1");
}

/* ---- inputs: in the declared ranges, floats in [-1, 1) -------------------------------------------------------- */
static double draw(const ModuleTensor *t, uint64_t *random) {
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    const double unit = (double)(*random >> 40) / (double)(1 << 24);
    if (dtype_is_float(t->dtype)) return 2 * unit - 1;
    if (t->dtype == DT_BOOL || !t->has_range) return unit < 0.5;
    return (double)(t->lo + (int64_t)(unit * (double)(t->hi - t->lo)));
}

static void make_inputs(Run *r) {
    uint64_t random = 1;
    for (int i = 0; i < r->m->inputs.n; i++) {
        const ModuleTensor *t = &r->m->inputs.at[i];
        for (int64_t e = 0; e < t->bytes / dtype_bytes(t->dtype); e++) {
            const double v = draw(t, &random);
            int64_t bad;
            element_convert(t->dtype == DT_BOOL ? ELEMENT_BOOL : ELEMENT_F64,
                            t->dtype == DT_BOOL ? (const uint8_t[]){v != 0} : (const uint8_t *)&v, 1, t->dtype,
                            (char *)r->inputs[i] + e * dtype_bytes(t->dtype), &bad);
        }
    }
}

/* ---- the table ------------------------------------------------------------------------------------------------ */
static const Kernel *find_kernel(const Module *m, const char *name) {
    for (int k = 0; k < m->kernels.n; k++)
        if (!strcmp(m->kernels.at[k]->name, name)) return m->kernels.at[k];
    return NULL;
}

static void print_bytes(const char *name, const char *launches, const MeasuredTotal *t) {
    printf("  %-28s %6s %12.6f %12.6f %7.3f %12.6f %12.6f\n", name, launches, t->predicted * 1e-6, t->counted * 1e-6,
           t->predicted > 0 ? t->counted / t->predicted : 0, t->asked * 1e-6, t->moved * 1e-6);
}

static void print_kernel(const Module *m, const ptxsim_kernel *x, MeasuredTotal *sum) {
    const Kernel *k = find_kernel(m, x->name);
    const KernelCost c = k ? kernel_cost(k) : (KernelCost){0};
    char launches[24];
    const MeasuredTotal t = {.predicted = (c.bytes_read + c.bytes_written) * (double)x->launches,
                     .counted = (double)(x->unique_load_bytes + x->unique_store_bytes),
                     .asked = (double)(x->load_bytes + x->store_bytes),
                     .moved = 32 * (double)(x->load_sectors + x->store_sectors)};
    snprintf(launches, sizeof launches, "%llu", (unsigned long long)x->launches);
    print_bytes(x->name, launches, &t);
    sum->predicted += t.predicted, sum->counted += t.counted, sum->asked += t.asked, sum->moved += t.moved;
}

static bool print_entry(Run *r, const Meter *meter, Entry e, ptxsim_kernel *x) {
    MeasuredTotal sum = {0};
    meter->count(1);
    /* gradients are added to, as kernel_cost takes them to be: what stands under a condition counts as done */
    if (!run_call(r, e, 1, e == ENTRY_GRAD)) return false;
    const uint64_t n = meter->kernels(x, MOST_KERNELS);
    printf("entry %s, MB (10^6 bytes)\n", entry_name[e]);
    printf("  %-28s %6s %12s %12s %7s %12s %12s\n", "kernel", "runs", "predicted", "counted", "ratio", "asked", "moved");
    for (uint64_t k = 0; k < n && k < MOST_KERNELS; k++) print_kernel(r->m, &x[k], &sum);
    print_bytes("total", "", &sum);
    return true;
}

/* ---- the run -------------------------------------------------------------------------------------------------- */
/* The entries asked for, or all that are called by name. */
static bool choose_entries(Arena *a, const Options *o, bool entries[ENTRY_COUNT]) {
    Session s;
    bool asked = false;
    for (int e = 0; e < ENTRY_COUNT; e++) asked |= o->entry[e];
    const bool ok = session_open(&s, a, o);
    for (int e = 0; e < ENTRY_COUNT; e++) entries[e] = ok && s.graph[e] && (!asked || o->entry[e]);
    return ok || session_finish(&s) == EXIT_OK;
}

static bool measure(Run *r, const Meter *meter, const bool entries[ENTRY_COUNT]) {
    ptxsim_kernel *x = ARENA_ARRAY(r->arena, ptxsim_kernel, MOST_KERNELS);
    if (!run_open(r, r->arena, r->o, entries) || !run_allocate(r, entries)) return false;
    make_inputs(r);
    printf("model %s on the software GPU, code for %s\n", r->m->name, r->o->arch);
    printf("  predicted, counted: distinct bytes read and written in a launch, summed over launches; asked: by threads;\n"
           "  moved: 32-byte sectors, warp by warp\n");
    bool ok = run_init(r) && run_upload(r);
    for (int e = ENTRY_INFER; e <= ENTRY_STEP && ok; e++)
        if (entries[e]) ok = print_entry(r, meter, (Entry)e, x);
    return ok;
}

int command_measure(const Options *o) {
    Options cuda = *o;
    Meter meter;
    bool entries[ENTRY_COUNT];
    const Target *t = target_asked(o, "sm_80", false);
    if (!t) return EXIT_USAGE;
    if (!t->device->is_gpu) {
        fprintf(stderr,
                "fusec: report --measured counts on the software GPU: --target sm_80, sm_90 or sm_90a, not %s\n",
                t->name);
        return EXIT_USAGE;
    }
    cuda.target = "cuda", cuda.arch = t->name;
    Arena *a = arena_new();
    /* sm_90a is what a device of sm_90 runs */
    setenv("PTXSIM_DEVICE", arena_printf(a, "%.*s", (int)strcspn(t->name, "a"), t->name), 0);
    const bool ok = meter_open(&meter) && choose_entries(a, o, entries);
    if (ok) entries[ENTRY_INIT] = true;
    Run r = {.arena = a, .o = &cuda};
    const int status = ok && measure(&r, &meter, entries) ? EXIT_OK : EXIT_ERROR;
    run_close(&r);
    arena_free(a);
    return status;
}
